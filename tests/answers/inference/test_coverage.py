"""Intervals hold the exact value as often as they say, and the same tests notice noise that is wider.

Noise is drawn from a seed, either for the weights of an inference, many thousand times, or for whole
sessions. A share is accepted when its p-value is above 1e-9; noise of 1.25 times the scale is not.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnb import Category, Integer, Policy, Schema, Table
from dpnb.estimation.estimates import cut
from dpnb.privacy.definition import PURE, ZCDP

GROUPS = [f"g{i}" for i in range(20)]
SCHEMA = Schema(
    {"g": Category(GROUPS), "kind": Category(["old", "new"]), "score": Integer(0, 10)},
    complete=["g", "kind", "score"],
)
FEW = Schema({**SCHEMA, "g": Category(GROUPS[:4])}, complete=["g", "kind", "score"])
P_FLOOR = 1e-9
CONFIDENCE = 0.9
WIDE = 1.25
"""Noise of so many times the scale that it should have must be noticed."""


def frame(rows=10_000):
    rng = np.random.default_rng(12)
    return pd.DataFrame(
        {
            "g": rng.choice(GROUPS, rows),
            "kind": rng.choice(["old", "new"], rows),
            "score": rng.integers(0, 11, rows),
        }
    )


FRAME = frame()
PEOPLE = Table("t", FRAME, SCHEMA)
PAST = (
    ("SELECT g, kind, COUNT(*) AS n, SUM(score) AS s FROM t GROUP BY g, kind", 1),
    ("SELECT g, COUNT(*) AS n FROM t WHERE score > 4 GROUP BY g", 2),
    ("SELECT COUNT(*) AS n FROM t WHERE g IN ('g0', 'g1', 'g2')", 3),
)
BUDGETS = {ZCDP: {"rho": 10**6, "delta": 1e-6}, PURE: {"epsilon": 64}}
QUESTIONS = {
    "a count": "SELECT COUNT(*) AS v FROM t WHERE g = 'g1'",
    "a count of many": "SELECT COUNT(*) AS v FROM t",
    "a sum": "SELECT SUM(score) AS v FROM t WHERE g IN ('g3', 'g4')",
    "a formula": "SELECT 2 * SUM(score) - COUNT(*) / 4 + 10 AS v FROM t WHERE g = 'g0'",
    "a part": "SELECT COUNT(*) AS v FROM t WHERE score <= 4 AND g = 'g2'",
}


@pytest.fixture(scope="module", params=BUDGETS)
def session(request, shared):
    """Everything is known exactly, and the distribution of the noise that it should have."""
    made = shared(PEOPLE, budget=BUDGETS[request.param]).session()
    for sql, level in PAST:
        unit = {ZCDP: ("rho", 0.01), PURE: ("epsilon", 0.2)}[request.param]
        made.query(sql, **{unit[0]: round(unit[1] * level, 6)})
    return made


def noises(joint, draws, seed=0, scale=1.0):
    """Draws of the noise of every past answer, shape (draws, m)."""
    rng = np.random.default_rng(seed)
    drawn = [
        getattr(rng, "normal" if distribution.family == "gaussian" else "laplace")(
            0, distribution.scale * scale, draws
        )
        for distribution in joint.distributions
    ]
    return np.array(drawn).T


def errors(joint, draws, seed=0, scale=1.0):
    """Draws of the errors of all estimates, shape (draws, g)."""
    return noises(joint, draws, seed, scale) @ joint.weights.T


class TestDraws:
    """Many draws of the noise of one past."""

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_one_value(self, question, session, size, equals):
        found = session.infer(QUESTIONS[question], confidence=CONFIDENCE)
        one, count = found.aggregates[0], found.aggregates[0].function == "COUNT"
        half = found.joint.margin_of_error(0, 1 - CONFIDENCE) if count else one.margin_of_error(0)

        def hits(scale):
            drawn = errors(found.joint, size(10_000), scale=scale)[:, 0]
            if not count:
                return np.abs(drawn) <= half
            true = round(found.estimate)
            ends = np.array(
                [
                    cut((true + error - half, true + error + half), (0, math.inf), whole=True)
                    for error in drawn
                ]
            )
            return (ends[:, 0] <= true) & (true <= ends[:, 1])

        assert found.joint.margin_of_error(0, 1 - CONFIDENCE) == pytest.approx(half)
        assert equals(hits(1.0), CONFIDENCE)
        assert not equals(hits(WIDE), CONFIDENCE)

    def test_all_groups_together(self, session, size, reaches):
        sql = "SELECT g, SUM(score) AS s, COUNT(*) + 0 AS n FROM t GROUP BY g"
        found = session.infer(sql, confidence=CONFIDENCE)
        halves = np.array(
            [one.margin_of_error(i) for one in found.aggregates for i in range(len(GROUPS))]
        )

        def hits(scale):
            return (np.abs(errors(found.joint, size(10_000), scale=scale)) <= halves).all(axis=1)

        assert len(found.joint) == len(halves)
        assert reaches(hits(1.0), CONFIDENCE)
        assert not reaches(hits(WIDE), CONFIDENCE)
        # each on its own is not all together
        each = session.infer(sql, confidence=CONFIDENCE, intervals="each")
        halves = np.array(
            [one.margin_of_error(i) for one in each.aggregates for i in range(len(GROUPS))]
        )
        assert not reaches(hits(1.0), CONFIDENCE)

    def test_differences_ratios_and_slopes(self, session, size, equals):
        found = session.infer("SELECT g, COUNT(*) AS n FROM t GROUP BY g", confidence=CONFIDENCE)
        true = np.array(found.estimate)
        difference, slope = found.difference("g0", "g2"), found.slope(range(20))
        line = (np.arange(20) - 9.5) / ((np.arange(20) - 9.5) ** 2).sum()

        def hits(scale):
            drawn = errors(found.joint, size(10_000), scale=scale)
            return (
                np.abs(drawn[:, 0] - drawn[:, 2]) <= difference.high - difference.value,
                np.abs(drawn @ line) <= slope.high - slope.value,
            )

        assert difference.value == pytest.approx(true[0] - true[2])
        assert slope.value == pytest.approx(true @ line)
        for good, bad in zip(hits(1.0), hits(WIDE), strict=True):
            assert equals(good, CONFIDENCE)
            assert not equals(bad, CONFIDENCE)

    def test_wished_widths(self, session, size, equals):
        sql = "SELECT SUM(score) + 0 AS s FROM t WHERE g = 'g5'"
        half = session.infer(sql, confidence=0.7).aggregates[0].margin_of_error(0)
        found = session.infer(sql, error=half * 1.3)
        drawn = errors(found.joint, size(10_000))[:, 0]
        assert 0.75 < found.confidence < 0.95
        assert equals(np.abs(drawn) <= half * 1.3, found.confidence)

    def test_claims(self, session, size, equals):
        """A claim that is just false has a p-value that is uniform."""
        found = session.infer("SELECT COUNT(*) AS n FROM t WHERE g = 'g1'")
        distribution = found.joint.distribution(0)
        drawn = errors(found.joint, size(4_000))[:, 0]
        chances = np.array([distribution.cdf(error) for error in drawn])
        for level in (0.05, 0.3, 0.8):
            assert equals(chances <= level, level)

    def test_the_largest_of_many(self, session, size, reaches):
        """Picked because it looked largest: only intervals that know of the choice hold."""
        sql = "SELECT g, COUNT(*) + 0 AS n FROM t GROUP BY g"
        plain = session.infer(sql, confidence=CONFIDENCE, intervals="each")
        chosen = session.infer(sql, confidence=CONFIDENCE, intervals="each", chosen=20)
        anything = session.infer(sql, confidence=CONFIDENCE, chosen="any")
        drawn = errors(plain.joint, size(10_000))
        # as if all groups had the same size: the largest is the one with the largest error
        place = drawn.argmax(axis=1)
        largest = np.abs(drawn[np.arange(len(drawn)), place])

        def hits(found):
            return (
                largest
                <= np.array([found.aggregates[0].margin_of_error(i) for i in range(20)])[place]
            )

        assert not reaches(hits(plain), CONFIDENCE)
        assert reaches(hits(chosen), CONFIDENCE)
        assert reaches(hits(anything), CONFIDENCE)

    def test_any_choice_at_all(self, session, size, reaches):
        """The worst of all weighted sums of the groups."""
        sql = "SELECT g, COUNT(*) + 0 AS n FROM t GROUP BY g"
        found = session.infer(sql, confidence=CONFIDENCE, chosen="any")
        spread = np.sqrt(found.joint.covariance()[0, 0])
        factor = found.aggregates[0].margin_of_error(0) / spread
        inverse = np.linalg.inv(found.joint.covariance())

        def hits(scale):
            drawn = errors(found.joint, size(10_000), scale=scale)
            return np.sqrt(np.einsum("ij,jk,ik->i", drawn, inverse, drawn)) <= factor

        assert reaches(hits(1.0), CONFIDENCE)


def exact(table):
    """Exact values of each group by aliases."""
    found = table.source.groupby("g")["score"]
    true = found.agg(["size", "sum", "mean"]).loc[list(table.schema["g"].values)]
    large = found.agg(lambda score: (score > 5).sum()).loc[true.index]
    size, total, mean = true["size"], true["sum"], true["mean"]
    return {"n": size, "s": total, "m": mean, "f": 2 * size - 10, "large": large}


VALUES = exact(PEOPLE)
BY_BOTH = "SELECT g, kind, COUNT(*) AS n, AVG(score) AS m FROM t GROUP BY g, kind"
INFERRED = "SELECT g, COUNT(*) AS n, SUM(score) AS s, AVG(score) AS m, 2 * COUNT(*) - 10 AS f FROM t GROUP BY g"
ONLINE = "SELECT g, COUNT(*) AS n, AVG(score) AS m FROM t GROUP BY g"


def inside(found, values, names):
    """For each alias and group whether the interval has the exact value."""
    by_alias = {one.alias: one for one in found}
    return {
        name: [
            low <= true + 1e-9 and true - 1e-9 <= high
            for low, high, true in zip(
                by_alias[name].low, by_alias[name].high, values[name], strict=True
            )
        ]
        for name in names
    }


def sessions(curated, noise, number, table=PEOPLE):
    """Analysts with noise of their own each."""
    curator = curated(
        table, noise, budget={"rho": 10**6, "delta": 1e-6}, analysts={"first": 1},
        policy=Policy(mechanism="vanilla"),
    )  # fmt: skip
    for i in range(number):
        curator.add_analyst(f"a{i}", 1)
        yield curator.session(f"a{i}")


def pivots(found, values, names):
    """For each alias and group the error beside the margin of error, normal when the interval is right."""
    by_alias = {one.alias: one for one in found}
    sizes = {}
    for name in names:
        low, middle, high = (
            np.array(getattr(by_alias[name], end)) for end in ("low", "estimate", "high")
        )
        # the ends of counts are whole numbers, half of one further inside on average
        half = (high - low + (name == "n")) / 2
        sizes[name] = (
            (middle - values[name].to_numpy()) / half * stats.norm.isf((1 - CONFIDENCE) / 2)
        )
    return sizes


def conversation(session):
    """Hits and pivots of inferred and of merged values; groups are independent."""
    session.query(BY_BOTH, rho=0.05)
    told = session.infer(INFERRED, confidence=CONFIDENCE, intervals="each")
    merged = session.query(
        ONLINE, error={"n": 8, "m": 0.3}, rows=400, confidence=CONFIDENCE, intervals="each"
    )
    assert merged.origin.way == "new"
    return {
        f"{way} {name}": list(zip(hits[name], sizes[name], strict=True))
        for way, names, found in (
            ("inferred", "nsmf", told.aggregates),
            ("merged", "nm", merged.estimates),
        )
        for hits, sizes in [(inside(found, VALUES, names), pivots(found, VALUES, names))]
        for name in names
    }


def normal(sizes):
    """Whether pivots may well be normal with variance 1, by the sum of their squares."""
    distribution, total = stats.chi2(len(sizes)), float(sizes @ sizes)
    return min(distribution.cdf(total), distribution.sf(total)) > P_FLOOR / 2


class TestSessions:
    """Whole sessions, each with noise of its own."""

    def test_inferred_and_merged_values(self, curated, drawn, size, equals):
        """And 500 pivots tell when the noise is a quarter wider, or narrower."""
        rows = [conversation(one) for one in sessions(curated, drawn(1), size(25))]
        for name in rows[0]:
            hits, sizes = np.concatenate([row[name] for row in rows]).T
            assert equals(hits.astype(bool), CONFIDENCE), name
            assert normal(sizes), name
            for off in (1 / WIDE, WIDE):
                assert not normal(sizes * off), name

    def test_laplace_noise(self, opened, drawn, size, reaches):
        rows = []
        # twice the noise would hold in seven of ten
        for seed in range(size(6)):
            session = opened(PEOPLE, drawn(seed), budget=BUDGETS[PURE])
            session.query("SELECT g, kind, COUNT(*) AS n FROM t GROUP BY g, kind", epsilon=0.3)
            told = session.infer(
                "SELECT g, COUNT(*) AS n, 2 * COUNT(*) - 10 AS f FROM t GROUP BY g",
                confidence=CONFIDENCE, intervals="each",
            )  # fmt: skip
            merged = session.query(
                "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
                error=9,
                confidence=CONFIDENCE,
                intervals="each",
            )
            assert merged.origin.way == "new"
            hits = inside(told.aggregates, VALUES, "nf")
            hits["merged"] = inside(merged.estimates, VALUES, "n")["n"]
            rows.append(hits)
        for name in rows[0]:
            assert reaches(np.array([row[name] for row in rows]), CONFIDENCE), name

    def test_bounds_hold_for_everything_at_once(self, curated, drawn, size, reaches):
        """Also for what past answers do not determine."""
        few = Table("t", FRAME[FRAME["g"].isin(GROUPS[:4])], FEW)
        values = exact(few)
        hits = []
        for session in sessions(curated, drawn(3), size(15), few):
            session.query("SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=0.05)
            session.query("SELECT COUNT(*) AS n FROM t WHERE score > 5", rho=0.05)
            each = session.infer(
                "SELECT g, COUNT(*) AS large FROM t WHERE score > 5 GROUP BY g",
                guaranteed=True,
                confidence=CONFIDENCE,
            )
            whole = session.infer(
                "SELECT g, COUNT(*) AS n FROM t GROUP BY g", guaranteed=True, confidence=CONFIDENCE
            )
            hits.append(
                all(inside(each.aggregates, values, ["large"])["large"])
                and all(inside(whole.aggregates, values, "n")["n"])
            )
        assert reaches(hits, CONFIDENCE)
