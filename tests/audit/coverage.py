"""How often what a result says of the exact values is right: intervals, and the errors of decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.privacy.definition import PURE, ZCDP

SCHEMA = Schema(
    {"city": Category(["a", "b", "c"]), "wage": Integer(0, 50, bins=[0, 10, 20, 50])},
    complete=["city", "wage"],
)
_CHOICE = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "city": _CHOICE.choice(["a", "b", "c"], 600, p=[0.6, 0.3, 0.1]),
        "wage": _CHOICE.integers(0, 51, 600),
    }
)
GROUPS = FRAME.groupby("city").wage
BUDGETS = {ZCDP: dpnb.Budget(rho=10, delta=1e-6), PURE: dpnb.Budget(epsilon=20)}
LEVEL = {ZCDP: {"rho": 0.1}, PURE: {"epsilon": 0.5}}

Intervals = tuple[Any, Any, Any]
"""Low ends, high ends and exact values, each of shape (n,): they hold together."""


@dataclass(frozen=True)
class Claim:
    """What is claimed of intervals, and how narrow they may not be.

    Attributes
    ----------
    intervals : callable
        From a fresh session, and how levels are named there, to intervals that hold together.
    narrowed : float
        Drawn in to this share of their width they do not hold as often as claimed. It is smaller where
        intervals hold more often than they need to.
    confidence : float
    """

    intervals: Callable[[dpnb.Session, dict[str, float]], Intervals]
    narrowed: float = 0.8
    confidence: float = 0.95


def _ends(answer: Any, alias: str, truth: pd.Series) -> Intervals:
    frame = answer.to_frame().set_index("city")
    return frame[f"{alias}_low"], frame[f"{alias}_high"], truth.reindex(frame.index)


def _counts(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    sql = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
    return _ends(session.query(sql, **level), "n", GROUPS.size())


def _sum(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    frame = session.query("SELECT SUM(wage) AS s FROM t", **level).to_frame()
    return frame.s_low, frame.s_high, [FRAME.wage.sum()]


def _means(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    sql = "SELECT city, AVG(wage) AS m FROM t GROUP BY city"
    return _ends(session.query(sql, **level), "m", GROUPS.mean())


def _share(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    sql = "SELECT COUNT(*) FILTER (WHERE wage > 20) / COUNT(*) AS share FROM t"
    frame = session.query(sql, **level).to_frame()
    return frame.share_low, frame.share_high, [(FRAME.wage > 20).mean()]


def _median(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    frame = session.query("SELECT MEDIAN(wage) AS m FROM t", **level).to_frame()
    ordered = np.sort(FRAME.wage)
    return frame.m_low, frame.m_high, [ordered[(len(ordered) - 1) // 2]]


def _refined(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    _counts(session, {unit: value / 3 for unit, value in level.items()})
    return _counts(session, level)


def _difference(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    sql = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
    question = session.query(sql, **level).compare("a", "b")
    sizes = GROUPS.size()
    return [question.low], [question.high], [sizes["a"] - sizes["b"]]


def _inferred(session: dpnb.Session, level: dict[str, float]) -> Intervals:
    session.query("SELECT city, COUNT(*) AS n FROM t GROUP BY city", **level)
    session.query("SELECT COUNT(*) AS n FROM t WHERE city <> 'a'", **level)
    found = session.infer("SELECT COUNT(*) AS n FROM t WHERE city = 'b'")
    return [found.low], [found.high], [GROUPS.size()["b"]]


CLAIMS: Mapping[str, Claim] = {
    "counts of three groups": Claim(_counts),
    "counts, bought in two steps": Claim(_refined),
    "a sum": Claim(_sum, 0.7),
    "means of three groups": Claim(_means),
    "a share of two counts": Claim(_share, 0.4),
    "a median": Claim(_median, 0.5),
    "a difference of two groups": Claim(_difference, 0.4),
    "worked out from past answers": Claim(_inferred, 0.7),
}


def covered(claim: Claim, privacy: str, runs: int, *widths: float) -> list[int]:
    """Return in how many runs all intervals hold, when they are drawn in to each share of their width."""
    hits = [0] * len(widths)
    table = Table("t", FRAME, SCHEMA)
    for _ in range(runs):
        session = dpnb.Session(table, budget=BUDGETS[privacy])
        low, high, truth = (np.asarray(x, float) for x in claim.intervals(session, LEVEL[privacy]))
        session.close()
        slack = 1e-9 * (1 + abs(truth))
        for place, width in enumerate(widths):
            middle, half = (low + high) / 2, (high - low) / 2 * width
            held = (truth >= middle - half - slack) & (truth <= middle + half + slack)
            hits[place] += bool(np.all(held))
    return hits


SQL = "SELECT city FROM t GROUP BY city HAVING COUNT(*) > {} AND SUM(wage) > {}"


@dataclass
class Errors:
    """How often decisions erred on a group that satisfies its condition by one row.

    Attributes
    ----------
    missed, uncertain : int
        Runs that left the group out; runs with a verdict that is wrong.
    """

    missed: int = 0
    uncertain: int = 0


def decided(privacy: str, beta: float, runs: int, width: float) -> tuple[Errors, Errors]:
    """Decide again and again with both thresholds as near as can be.

    Returns
    -------
    errors, planted : Errors
        As decided; and if noisy values had been held against the thresholds themselves, and verdicts had
        been given by intervals drawn in to this share of their width.
    """
    sizes, sums = GROUPS.size(), GROUPS.sum()
    limits = {"count": sizes["b"] - 1, "sum_wage": sums["b"] - 1}
    holds = (sizes > limits["count"]) & (sums > limits["sum_wage"])
    sql, table = SQL.format(*limits.values()), Table("t", FRAME, SCHEMA)
    errors, planted = Errors(), Errors()
    for _ in range(runs):
        session = dpnb.Session(table, budget=BUDGETS[privacy])
        found = session.decide(sql, beta=beta, u={"count": 40, "sum_wage": 1_500}, steps=2)
        session.close()
        frame = found.to_frame().set_index("city")
        errors.missed += "b" not in found.selected
        planted.missed += any(frame.loc["b", name] <= limit for name, limit in limits.items())
        sure = frame.verdict.map({"surely yes": True, "surely no": False}).dropna()
        errors.uncertain += bool((sure != holds.reindex(sure.index)).any())
        surely, surely_not = pd.Series(True, frame.index), pd.Series(False, frame.index)
        for name, limit in limits.items():
            middle = (frame[f"{name}_low"] + frame[f"{name}_high"]) / 2
            half = (frame[f"{name}_high"] - frame[f"{name}_low"]) / 2 * width
            surely &= middle - half > limit
            surely_not |= middle + half <= limit
        wrong = (surely & ~holds) | (surely_not & holds)
        planted.uncertain += bool(wrong.any())
    return errors, planted


EQUAL = 100
"""Groups that lie exactly at their threshold."""
EQUALITIES: Mapping[str, str] = {
    "AVG(wage) >= 10": "AVG(wage) > 10",
    "AVG(wage) <= 10": "AVG(wage) < 10",
    "NOT (AVG(wage) < 10)": "NOT (AVG(wage) <= 10)",
    "AVG(pay) >= 10": "AVG(pay) > 10",
    "COUNT(*) >= 4": "COUNT(*) > 4",
    "SUM(wage) <= 40": "SUM(wage) < 40",
}
"""Conditions that all of these satisfy, and the strict ones beside them that none does."""
_EQUAL = Table(
    "t",
    pd.DataFrame(
        {
            "city": np.repeat(np.arange(EQUAL), 4),
            "wage": np.tile([5, 15, 9, 11], EQUAL),
            "pay": np.tile([7.5, 12.5, 9.25, 10.75], EQUAL),
        }
    ),
    Schema({"city": Integer(0, EQUAL - 1), "wage": Integer(0, 50), "pay": dpnb.Real(0, 50)}),
)


def equal(having: str, mode: str, privacy: str, beta: float) -> tuple[int, int]:
    """Decide on ``EQUAL`` groups exactly at the threshold.

    Returns
    -------
    missed, planted : int
        Groups that are left out; and groups that would be if equality were no matter: if randomised
        response judged by the strict condition, or noisy values were held against the threshold itself.
    """

    def decided(statement: str) -> Any:
        session = dpnb.Session(_EQUAL, budget=BUDGETS[privacy])
        sql = f"SELECT city FROM t GROUP BY city HAVING {statement}"
        options = {"steps": 1} if mode == "certified" else {}
        found = session.decide(sql, beta=beta, mode=mode, u=60, rows=4, **options)
        session.close()
        return found

    found = decided(having)
    if mode in ("rr", "hybrid"):
        planted = sum(not chosen for chosen in decided(EQUALITIES[having]).chosen)
    else:
        (test,), (reading,) = found.tests, found.readings
        gaps = test.sign * (np.asarray(reading.values) - np.asarray(test.limits))
        planted = int((gaps <= 0).sum())
    return sum(not chosen for chosen in found.chosen), planted


def may_be(hits: int, runs: int, level: float, error: float) -> bool:
    """Return whether so many hits may well come from a chance of ``level`` or more."""
    return bool(stats.binom.cdf(hits, runs, level) > error)
