"""Every hint of a refusal, followed to the letter, is accepted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.errors import DpnbError, RequestError
from dpnb.magics.arguments import by_alias
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

GROUPS = list("abc")
SCHEMA = Schema(
    {"k": Category(GROUPS), "sex": Category(["F", "M"]), "x": Integer(0, 100), "w": Real(-5, 20)}
)
ROWS = pd.DataFrame({"k": ["a"] * 300 + ["b"] * 90, "sex": "F", "x": 30, "w": 1.5})
TABLES = {public: Table("t", ROWS, SCHEMA, public=public) for public in (False, True)}
RICH = {"rho": 10**9}
GDP = {"epsilon": 50, "delta": 1e-6, "accountant": "gdp"}
QUOTA = {"a": 100, "b": 50, "c": 50}
MANY = [f"SUM(x) FILTER (WHERE x > {i}) > {i + 1}" for i in range(13)]


@dataclass(frozen=True)
class Asked:
    """A decision that is asked for."""

    having: str = "COUNT(*) > 100"
    select: str = "k"
    after: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=lambda: RICH)
    public: bool = False

    @property
    def sql(self):
        having = f" HAVING {self.having}" if self.having else ""
        return f"SELECT {self.select} FROM t GROUP BY k{having}{self.after}"

    def decide(self, session=None):
        if session is None:
            session = dpnb.Session(
                TABLES[self.public], budget=dpnb.Budget(**self.budget), noise=NoNoise()
            )
        return session.decide(self.sql, **self.options)


def of(having="COUNT(*) > 100", **options):
    return Asked(having, options=options)


BOTH = "COUNT(*) > 100 AND SUM(x) > 500"
AVERAGE = "AVG(x) > 20 AND COUNT(*) > 50"
CASES = {
    "no having": (
        Asked("", "k, COUNT(*) AS n"), r"Add HAVING COUNT\(\*\) > 100", Asked(select="k, COUNT(*) AS n"),
    ),
    "too many": (of(" AND ".join(MANY)), "fewer at a time", of(" AND ".join(MANY[:12]))),
    "contradiction": (
        of("COUNT(*) > 90 AND COUNT(*) < 50"), "Change one of them", of("COUNT(*) > 9 AND COUNT(*) < 50"),
    ),
    "always": (
        of("COUNT(*) > 3 OR COUNT(*) < 50"), "Change one of its conditions",
        of("COUNT(*) > 60 OR COUNT(*) < 50"),
    ),
    "equal": (of("COUNT(*) = 50"), "or BETWEEN", of("COUNT(*) BETWEEN 50 AND 50")),
    "settled": (of("SUM(x) >= 0"), "Change the number", of("SUM(x) >= 60")),
    "settled among others": (
        of("COUNT(*) >= 0 AND SUM(x) > 500"), "or remove this condition", of("SUM(x) > 500"),
    ),
    "settled average": (of("AVG(x) >= 0 AND COUNT(*) > 5"), "remove this condition", of("COUNT(*) > 5")),
    "formula": (of("SUM(x) / COUNT(x) > 20"), r"AVG\(x\) for SUM\(x\)", of("AVG(x) > 20", rows=100)),
    "share": (
        of("COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) > 0.2"),
        r"AVG\(CASE WHEN ... THEN 1 ELSE 0 END\)",
        of("AVG(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) > 0.2", rows=100),
    ),
    "average alone": (
        of("AVG(w) > 2 OR SUM(x) > 500"), r"Write AVG\(w\) > 2 AND COUNT\(\*\) > 100,",
        of("(AVG(w) > 2 AND COUNT(*) > 100) OR SUM(x) > 500"),
    ),
    "average with rows": (of("AVG(w) > 2"), "or give rows=100", of("AVG(w) > 2", rows=100)),
    "threshold 0": (
        of("COUNT(*) > 0 AND AVG(x) > 20"), r"Add u={'count': 50}", of("COUNT(*) > 0 AND AVG(x) > 20", u={"count": 50}),
    ),
    "threshold 0, by range": (of("SUM(w) > 0"), r"or ranges={'sum_w': 500}", of("SUM(w) > 0", ranges={"sum_w": 500})),
    "one u for two": (
        of(BOTH, u=30), r"Write u={'count': 30, 'sum_x': 30}", of(BOTH, u={"count": 30, "sum_x": 30}),
    ),
    "unknown alias": (of(u={"coun": 30}), r"Did you mean count\?", of(u={"count": 30})),
    "unknown name": (of(u={"n": 30}), "Declared: count", of(u={"count": 30})),
    "tiny u": (of(u=1e-25), "closer to the size of the values", of(u=10)),
    "u no number": (of(u={"count": "x"}), "a number such as 50", of(u={"count": 50})),
    "u not positive": (of(u=-3), "a number such as 50", of(u=50)),
    "u of two, no number": (of(BOTH, u="x"), "a number such as 50", of(BOTH, u={"count": 50, "sum_x": 50})),
    "no pair": (of(ranges=(1, 2, 3)), r"ranges=\(0, 500\)", of(ranges=(0, 500))),
    "no width": (of(ranges="x"), "a number such as 500", of(ranges=500)),
    "part of nothing": (
        Asked(select="k, SUM(x) AS s"), "Leave it out, and ask for it with query", Asked(select="k"),
    ),
    "reserved": (
        Asked(select="k, COUNT(*) AS verdict"), "Choose another with AS", Asked(select="k, COUNT(*) AS n"),
    ),
    "formula shown": (Asked(select="k, SUM(x) / 2 AS s"), "Leave computed columns out", Asked()),
    "ordered": (Asked(after=" ORDER BY k"), "Leave ORDER BY and LIMIT out", Asked()),
    "average by group": (
        of("AVG(x) > :q", thresholds={"q": QUOTA}, rows=9, u=3), "Write the number", of("AVG(x) > 5", rows=9, u=3),
    ),
    "average by group, summed": (
        of("AVG(x) > :q", thresholds={"q": QUOTA}, rows=9, u=3), "or compare a SUM or COUNT",
        of("SUM(x) > :q", thresholds={"q": QUOTA}, u=3),
    ),
    "thresholds": (
        of("COUNT(*) > :quota", thresholds=5),
        r"Write thresholds={'quota': {'a': 100, 'b': 50}}, with every group, HAVING COUNT\(\*\) > :quota, and u=30",
        of("COUNT(*) > :quota", thresholds={"quota": QUOTA}, u=30),
    ),
    "threshold missing": (
        of("COUNT(*) > :q", thresholds={"q": {"a": 1}}, u=3), "Give a threshold for every declared group",
        of("COUNT(*) > :q", thresholds={"q": QUOTA}, u=3),
    ),
    "threshold of no group": (
        of("COUNT(*) > :q", thresholds={"q": {**QUOTA, "z": 1}}, u=3), "Use the declared groups",
        of("COUNT(*) > :q", thresholds={"q": QUOTA}, u=3),
    ),
    "threshold given twice": (
        of("COUNT(*) > :q", thresholds={"q": {**QUOTA, ("a",): 1}}, u=3), "Remove one of them",
        of("COUNT(*) > :q", thresholds={"q": QUOTA}, u=3),
    ),
    "threshold no number": (
        of("COUNT(*) > :q", thresholds={"q": {**QUOTA, "a": "x"}}, u=3), "Give one for each group",
        of("COUNT(*) > :q", thresholds={"q": QUOTA}, u=3),
    ),
    "threshold without end": (
        of("COUNT(*) > :q", thresholds={"q": {**QUOTA, "a": float("inf")}}, u=3), "Give finite numbers",
        of("COUNT(*) > :q", thresholds={"q": QUOTA}, u=3),
    ),
    "long threshold": (
        of("COUNT(*) > :q", thresholds={"q": {**QUOTA, "a": Fraction(1, 3**400)}}, u=3), "Round it",
        of("COUNT(*) > :q", thresholds={"q": {**QUOTA, "a": 0}}, u=3),
    ),
    "mode": (of(mode="best"), "Use one of certified, margin, rr, hybrid; for study, on public", of(mode="rr")),
    "study": (of(mode="probe"), "Use mode='certified', or", of(mode="certified")),
    "public": (of(mode="probe"), "public=True", replace(of(mode="probe"), public=True)),
    "protect": (of(protect="x"), "or protect='fpr'", of(protect="fpr")),
    "protect in mode": (of(protect="fpr", mode="margin"), "Leave protect out", of(mode="margin")),
    "protect in rr": (of(protect="fpr", mode="rr"), "or use mode='certified'", of(protect="fpr")),
    "history": (of(history=0), "Write history=True or history=False", of(history=False)),
    "beta": (of(beta=0.5), "Give beta=0.05", of(beta=0.05)),
    "beta no number": (of(beta="x"), "such as 0.05", of(beta=0.05)),
    "confidence": (of(confidence=2), "such as 0.95", of(confidence=0.95)),
    "confidence no number": (of(confidence="x"), "such as 0.95", of(confidence=0.95)),
    "steps": (of(steps=9), "a whole number such as 3", of(steps=3)),
    "most": (of(most="0.000001"), r"or raise most \(--most\)", of(most=100)),
    "most of rr": (of(most="0.1", mode="rr"), r"raise most \(--most\)", of(most=9, mode="rr")),
    "larger errors": (
        of(most="0.1", mode="rr"), r"Accept larger errors \(beta, alpha\)",
        of(most="0.1", mode="rr", beta=0.45, alpha=0.45),
    ),
    "rr": (
        replace(of(u=0.1), budget={"rho": 3}), r"or use mode='rr' \(--mode rr\), randomised response, for rho",
        replace(of(mode="rr"), budget={"rho": 3}),
    ),
    "rr too dear": (
        replace(of(mode="rr"), budget={"rho": "0.1"}), "Accept larger errors",
        replace(of(mode="rr", beta=0.45, alpha=0.45), budget={"rho": "0.1"}),
    ),
    "rr in a Gaussian ledger": (
        replace(of(mode="rr"), budget=GDP), r"Use mode='certified' \(--mode certified\)", replace(of(), budget=GDP),
    ),
    "hybrid in a Gaussian ledger": (
        replace(of(mode="hybrid"), budget=GDP), "accountant='zcdp'",
        replace(of(mode="hybrid"), budget={**GDP, "accountant": "zcdp"}),
    ),
}  # fmt: skip
"""What is refused, its hint, and what follows the hint."""


@pytest.mark.parametrize(("refused", "hint", "followed"), CASES.values(), ids=CASES)
def test_what_a_hint_says_is_accepted(refused, hint, followed):
    with pytest.raises(DpnbError) as error:
        refused.decide()
    assert re.search(hint, error.value.hint), error.value.hint
    followed.decide()


@pytest.mark.parametrize("mode", ["certified", "margin", "hybrid"])
@pytest.mark.parametrize("having", ["COUNT(*) > 100", BOTH, AVERAGE, "COUNT(*) BETWEEN 20 AND 90"])
@pytest.mark.parametrize("unit", ["rho", "epsilon"])
def test_the_u_that_a_refusal_names_fits_in_what_is_left(having, mode, unit):
    """In Python's spelling, and in that of the magic."""
    small = replace(of(having, mode=mode), budget={unit: "0.0003"})
    with pytest.raises(DpnbError) as error:
        small.decide()
    assert "mode='rr'" not in error.value.hint
    given, option = re.search(r"Give u=({.*}) \(--u (.*?)\), with", error.value.hint).groups()
    u = eval(given)  # noqa: S307
    assert by_alias(option, "--u", {}) == u
    made = replace(small, options={"mode": mode, "u": u}).decide()
    assert made.taken


def test_a_spent_budget_has_no_hint_that_does_not_help():
    session = dpnb.Session(TABLES[False], budget=dpnb.Budget(rho="0.5"), noise=NoNoise())
    session.query("SELECT COUNT(*) AS n FROM t", rho="0.5")
    for mode in ("certified", "margin", "rr", "hybrid"):
        with pytest.raises(DpnbError) as error:
            of(mode=mode).decide(session)
        assert error.value.hint == "Nothing was charged."


def test_a_further_step_that_is_refused_has_no_hint_that_does_not_help():
    need = of().decide().taken[0].spent.rho
    made = replace(of(steps=3), budget={"rho": 2 * need}).decide()
    assert made.reason.startswith("Stopped: this costs rho")
    assert "less rho" not in made.reason
    assert made.reason.endswith("is left. What was paid for is shown.")


@pytest.mark.parametrize(
    ("having", "few"),
    [
        ("COUNT(*) < 50", 25), ("SUM(x) < 500", 100), ("COUNT(*) <= 3", 1), ("NOT COUNT(*) > 900", 100),
        ("COUNT(*) < 50 OR SUM(x) > 900", 25), ("COUNT(*) <= 80 AND SUM(x) < 500", 40),
    ],
)  # fmt: skip
def test_groups_of_few_rows_are_left_out_as_a_warning_says(having, few):
    options = {"u": {"count": 0.4, "sum_x": 10}} if "SUM" in having else {"u": 0.4}
    if "COUNT" not in having:
        options = {"u": 10}
    (warning,) = of(having, **options).decide().warnings
    assert warning.endswith(f"put the condition in brackets and add AND COUNT(*) > {few}.")
    u = {"count": 0.4} | ({"sum_x": 10} if "SUM" in having else {})
    made = of(f"({having}) AND COUNT(*) > {few}", u=u).decide()
    assert made.warnings == ()
    assert "c" not in made.selected


def test_a_warning_of_averages_is_answered_as_it_says():
    (warning,) = of("AVG(w) >= 2", rows=100).decide().warnings
    assert warning.endswith("Write AVG(w) >= 2 AND COUNT(*) > 100.")
    assert of("AVG(w) >= 2 AND COUNT(*) > 100").decide().warnings == ()


def test_values_seen_much_finer_before_send_a_margin_to_a_mode_that_takes_them():
    session = dpnb.Session(TABLES[False], budget=dpnb.Budget(rho=10**12), noise=NoNoise())
    session.query("SELECT k, COUNT(*) AS n FROM t GROUP BY k", rho=10**8)
    with pytest.raises(RequestError) as error:
        of(mode="margin", u=300).decide(session)
    assert "Use mode='certified' (--mode certified)" in error.value.hint
    of(u=300).decide(session)


def test_further_steps_are_taken_as_said():
    made = of(mode="margin").decide()
    with pytest.raises(RequestError, match="Only mode='certified'"):
        made.refine()
    assert of().decide().refine().taken
    last = of(steps=6).decide()
    with pytest.raises(RequestError, match=r"smaller u \(--u\)"):
        last.refine()
    session = dpnb.Session(TABLES[False], budget=dpnb.Budget(**RICH))
    alone = dpnb.Decision.from_dict(of(steps=2).decide(session).to_dict())
    with pytest.raises(RequestError, match="with the same options and steps=3"):
        alone.refine()
    assert len(of(steps=3).decide(session).taken) == 3


@pytest.mark.parametrize("asked", [of(mode="rr"), replace(of(mode="naive"), public=True)])
def test_what_cannot_be_drawn_is_drawn_in_another_mode(asked):
    with pytest.raises(RequestError, match=r"Decide with mode='certified'"):
        asked.decide().plot()
    of().decide().plot()


@pytest.mark.parametrize("policy", [{"mechanism": "additive"}, {"views": "equal"}])
def test_a_ledger_that_a_hint_names_decides(policy):
    def ask(**policy):
        curator = dpnb.Curator(
            TABLES[False], budget=dpnb.Budget(rho=1000), analysts={"ann": 1},
            policy=dpnb.Policy(**policy),
        )  # fmt: skip
        return of().decide(curator.session("ann"))

    with pytest.raises(RequestError, match="Policy") as error:
        ask(**policy)
    name, value = re.search(r"Policy\((\w+)='([\w-]+)'\)", error.value.hint).groups()
    assert ask(**{name: value}).taken


def test_no_mode_of_a_gaussian_ledger_is_offered_randomised_response():
    asked = replace(of(), budget=GDP)
    assert "andomised response" not in repr(asked.decide())
    session = dpnb.Session(TABLES[False], budget=dpnb.Budget(**GDP))
    assert "andomised response" not in repr(session.price(asked.sql, mode="certified"))


def test_a_condition_in_a_hint_is_sql():
    schema = dpnb.Schema({"k": dpnb.Category(["a", "b"]), "w": dpnb.Real(0, 99_000)})
    table = dpnb.Table("t", pd.DataFrame({"k": ["a", "b"] * 200, "w": [50_000.0] * 400}), schema)
    session = dpnb.Session(table, budget=dpnb.Budget(rho=10**6), noise=NoNoise())
    sql = "SELECT k FROM t GROUP BY k HAVING AVG(w) > 35000"
    with pytest.raises(RequestError) as refused:
        session.decide(sql)
    (advised,) = re.findall(r"Write (AVG.*100),", refused.value.hint)
    assert session.decide(sql.replace("AVG(w) > 35000", advised)).selected == ["a", "b"]
