"""Decisions made by hand: flights by airport, and the same with names that look like markup.

Notebooks that tests open use it, too.
"""

from __future__ import annotations

from fractions import Fraction

from dpnb.decide.decision import Decision, Reading, Taken, Test
from dpnb.decide.price import DecisionPrice
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import PrivacyLoss
from tests.kit.bills import built, changed

AIRPORTS = {
    "ATL": 742.0, "BOS": 311.0, "CLE": 168.0, "DEN": 655.0, "EWR": 402.0, "FAR": 12.0, "GRR": 143.0,
    "HNL": 236.0, "IAD": 209.0, "JAX": 181.0, "KOA": -9.0, "LAX": 561.0,
}  # fmt: skip
HOSTILE = (
    "</script><script>alert(1)</script>",
    'a|b" onload="alert(1)',
    "\u202egnp.exe\u2066\x1b[31m",
    "<img src=x onerror=alert(1)> $x$ `t`",
)


def loss(epsilon):
    return PrivacyLoss.of(Fraction(str(epsilon)), PURE)


def reading(values, half, alias="flights", **changes):
    values = tuple(map(float, values))
    made = Reading(
        alias, alias, "COUNT(*)", None, values, tuple(v - half for v in values),
        tuple(v + half for v in values), "0.0768", NoiseDistribution("laplace", half / 7.8),
    )  # fmt: skip
    return changed(made, **changes)


def test_of(count, **changes):
    made = Test("flights > 200", 0, 1, (200.0,) * count, 60.0, 1.0, 0.05 / 6, 0.0)
    return changed(made, **changes)


def decision(**changes):
    """Return one step of a certified decision about twelve airports, not certified yet."""
    names, values = tuple((name,) for name in AIRPORTS), tuple(AIRPORTS.values())
    half = 78.0
    verdicts = tuple(1 if v - half > 200 else -1 if v + half < 200 else 0 for v in values)
    made = built(
        Decision,
        sql="SELECT airport FROM trips GROUP BY airport HAVING COUNT(*) > 200",
        table="trips",
        version=1,
        keys=("airport",),
        groups=names,
        condition="flights > 200",
        mode="certified",
        protect="fnr",
        beta=0.05,
        alpha=0.1,
        confidence=0.95,
        status="not certified",
        reason="One step was asked for: call refine(), or give steps=3.",
        chosen=tuple(v > 140 for v in values),
        verdicts=verdicts,
        fnr_bound=0.05,
        fpr_bound=0.71,
        false=5 / 7,
        missed=0.0,
        estimate=0.1834,
        tests=(test_of(len(values)),),
        readings=(reading(values, half),),
        taken=(Taken(1, loss(0.0683), 5 / 7, 0.0, 5 / 10, 5),),
        steps=6,
        responded=(False,) * len(values),
        response="0",
        past=False,
        spent=loss(0.0683),
        charged=loss(0.0683),
        remaining=loss(0.6317),
        cap=loss(1),
        next_cost=loss(0.0683),
        first_cost=loss(0.0683),
        worst_cost=loss(2.1856),
        ceiling=loss(2.8904),
        epsilons=None,
        min_entropy=None,
        warnings=(),
        delta=None,
        privacy=PURE,
        stored=False,
        kept=True,
        stamp="",
        conditional=False,
        ledger="0011",
        request="2233",
    )
    return changed(made, **changes)


def refined(**changes):
    """Return the same after two more steps: certified, with nothing more to do."""
    first = decision()
    values = tuple(v + 3 for v in AIRPORTS.values())
    verdicts = tuple(1 if v - 19 > 200 else -1 if v + 19 < 200 else 0 for v in values)
    made = changed(
        first, status="certified", reason="", verdicts=verdicts, false=1 / 7, fpr_bound=1 / 7,
        chosen=tuple(v > 185 for v in values), estimate=0.021, next_cost=None,
        readings=(reading(values, 19.0),), tests=(test_of(len(values), u=15.0),),
        taken=(
            *first.taken, Taken(2, loss(0.0683), 0.4, 0.0, 3 / 8, 3), Taken(3, loss(0.1366), 1 / 7, 0.0, 1 / 7, 1),
        ),
        spent=loss(0.1366), charged=loss(0.2732), remaining=loss(0.4268),
    )  # fmt: skip
    return changed(made, **changes)


def two_conditions(**changes):
    """Return a decision about a count and a mean, in a session that counts rho; not private."""
    first = decision()
    totals = (5200.0, -800.0, 90.0, 2500.0, 1800.0, 4.0, -60.0, 950.0, -1200.0, 300.0, 10.0, 3900.0)
    count = changed(first.readings[0], distribution=NoiseDistribution("gaussian", 24.0))
    total = reading(
        totals,
        1400.0,
        "delay",
        text="AVG(delay)",
        about=10.0,
        distribution=NoiseDistribution("gaussian", 430.0),
    )
    cost, cap = PrivacyLoss(rho=Fraction(1, 100)), PrivacyLoss(rho=Fraction(1, 5))
    made = changed(
        first, condition="flights > 200 AND delay > 10",
        tests=(
            first.tests[0],
            test_of(12, text="delay > 10", reading=1, limits=(0.0,) * 12, u=1000.0, rows=200.0),
        ),
        readings=(count, total), verdicts=(1, 0, -1, 0, 0, -1, -1, 0, 0, 0, -1, 1),
        chosen=(True, True, False, True, True, False, False, True, False, True, False, True),
        spent=cost, charged=cost, cap=cap, remaining=PrivacyLoss(rho=Fraction(1, 20)), next_cost=cost,
        first_cost=cost, worst_cost=cap, ceiling=cap, taken=(changed(first.taken[0], spent=cost),),
        privacy=ZCDP, delta=1e-6, stamp="test",
    )  # fmt: skip
    return changed(made, **changes)


def mirrored(**changes):
    """Return a decision by a condition with <, from past answers alone: nothing is bounded beforehand."""
    first, half = refined(), 19.0
    values = first.readings[0].values
    verdicts = tuple(1 if v + half < 200 else -1 if v - half > 200 else 0 for v in values)
    made = changed(
        first, condition="flights < 200", tests=(test_of(12, text="flights < 200", sign=-1),),
        verdicts=verdicts, chosen=tuple(one >= 0 for one in verdicts), past=True, fnr_bound=None,
        taken=(), spent=loss(0), charged=loss(0), stored=True, next_cost=loss(0.0683), estimate=1e-7,
    )  # fmt: skip
    return changed(made, **changes)


def response(**changes):
    """Return a decision by randomised response alone."""
    count = len(AIRPORTS)
    made = changed(
        decision(), mode="rr", status="answered", reason="", readings=(), taken=(), steps=0,
        verdicts=(0,) * count, responded=(True,) * count, response="2.8904", estimate=None,
        fpr_bound=0.1, next_cost=None, cap=loss(4), remaining=loss(1.1096), charged=loss(2.8904),
        spent=loss(2.8904),
    )  # fmt: skip
    return changed(made, **changes)


def hostile(**changes):
    """Return a decision about groups whose names, alias and condition look like markup."""
    values = (300.0, 210.0, 20.0, 190.0)
    made = changed(
        decision(), keys=("<b>airport</b>",), groups=tuple((name,) for name in HOSTILE),
        condition="<i>n</i> > 200 | `x`", chosen=(True, True, False, True), verdicts=(1, 0, -1, 0),
        tests=(test_of(4, text="<i>n</i> > 200 | `x`"),),
        readings=(reading(values, 78.0, "<i>n</i>"),), responded=(False,) * 4,
        warnings=("</script><b>warned</b>",), conditional=True, stamp="test",
    )  # fmt: skip
    return changed(made, **changes)


def many(count=10_000):
    """Return a decision about many groups."""
    values = tuple(float(i % 400) for i in range(count))
    return changed(
        decision(), groups=tuple((f"group {i}",) for i in range(count)),
        chosen=tuple(v > 140 for v in values), responded=(False,) * count,
        verdicts=tuple(1 if v > 278 else -1 if v < 122 else 0 for v in values),
        tests=(test_of(count),), readings=(reading(values, 78.0),),
    )  # fmt: skip


def price(**changes):
    """Return the plan of a count and a mean, or of another count."""
    made = built(
        DecisionPrice,
        sql="", condition="flights > 200 AND delay > 10 OR late > 50", mode="certified",
        protect="fnr", beta=0.05, alpha=0.1, confidence=0.95, groups=12,
        tests=(
            test_of(12, share=0.003),
            test_of(12, text="delay > 10", reading=1, u=1000.0, rows=200.0, share=0.00533),
            test_of(12, text="late > 50", reading=2, u=15.0, share=0.00833),
        ),
        implicants=((0, 1), (2,)),
        readings=(("flights", "COUNT(*)"), ("delay", "AVG(delay)"), ("late", "COUNT(*)")),
        costs=tuple(loss(cost) for cost in (0.16, 0.32, 0.64, 1.28, 2.56, 5.12)), spent=loss(0.64),
        first=loss(0.16), response=None, ceiling=loss(2.8904), free=False, affordable=True, refusal="",
        remaining=loss(0.7), cap=loss(1), privacy=PURE, delta=None, warnings=("Beware.",),
    )  # fmt: skip
    return changed(made, **changes)
