"""How often what an explanation says of leaving rows out is true of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.display.cards.explanation_words import effect_text
from dpnb.explain.explanation import Explanation, Row
from dpnb.explain.remaining import remaining
from tests.kit.sentences import differences, is_true

_SMALL, _LARGE = 400, 1_600
_PAY = {"day": 2, "late": 5, "night": 10}


def _rows() -> pd.DataFrame:
    """Two teams; only the larger one works at night, which alone puts it above the other."""
    choice = np.random.default_rng(11)
    small = choice.choice(["day", "late"], _SMALL, p=[0.6, 0.4])
    large = choice.choice([*_PAY], _LARGE, p=[0.4, 0.3, 0.3])
    frame = pd.DataFrame(
        {"team": ["north"] * _SMALL + ["south"] * _LARGE, "shift": [*small, *large]}
    )
    frame["pay"] = frame["shift"].map(_PAY) + 2 * (frame["team"] == "north")
    return frame


FRAME = _rows()
SCHEMA = Schema(
    {
        "team": Category(["north", "south"]),
        "shift": Category(["day", "late", "night"]),
        "pay": Integer(0, 10),
    }
)
SQL = "SELECT team, {} AS m FROM t GROUP BY team"
AGGREGATES = {
    "counts": ("COUNT(*)", "*"),
    "sums": ("SUM(pay)", "pay"),
    "means": ("AVG(pay)", "pay"),
}
"""What is explained: how the statement spells it, and what is aggregated."""
AS_IT_IS = ""
SHARE = "an influence is the share that goes away"
HALF = "half of the rows that may remain"
NARROW = "exact counts of rows, and intervals of a tenth of their width"
VERBS = "above 0 shrinks, below 0 widens"
CAUGHT: Mapping[str, tuple[str, ...]] = {
    "counts": (SHARE, HALF, NARROW),
    "sums": (SHARE, NARROW),
    "means": (SHARE, HALF, NARROW, VERBS),
}
"""Planted defects that must be caught. Of sums no rows are counted; only a mean reverses here."""


def _defective(defect: str, found: Explanation, row: Row) -> tuple[Explanation, Row]:
    """Return an explanation and its row as the defect would have it."""
    question = found.question
    low, high = row.influence_low * found.scale, row.influence_high * found.scale
    if defect == HALF:
        rows = question.smallest_high
        question = replace(question, smallest_high=None if rows is None else rows / 2)
    elif defect == NARROW:
        middle, half = (low + high) / 2, (high - low) / 20
        low, high = middle - half, middle + half
        centre, wide = question.estimate or 0.0, (question.joint_high - question.joint_low) / 20
        question = replace(
            question, joint_low=centre - wide, joint_high=centre + wide,
            smallest_high=float(_SMALL), largest_low=float(_LARGE),
        )  # fmt: skip
    made = replace(found, question=question)
    ends = remaining(question, low, high)
    return made, replace(row, left_low=ends[0], left_high=ends[1])


def _said(defect: str, found: Explanation, row: Row, before: float, after: float | None) -> bool:
    """Return whether what is said of a row is true, or would be with a defect."""
    if row.influence_low <= 0 <= row.influence_high:
        return True
    if defect == VERBS:
        # a difference that is reversed is neither
        share = -1.0 if after is None else after / before
        return 0 < share < 1 if row.influence_low > 0 else share > 1
    if defect == SHARE:
        ends = (before * (1 - row.influence_high), before * (1 - row.influence_low))
        return after is not None and min(ends) <= after <= max(ends)
    made, changed = _defective(defect, found, row)
    return is_true(effect_text(made, changed), before, after)


def told(name: str, runs: int, *defects: str) -> dict[str, list[tuple[int, int]]]:
    """Return for each defect, and each predicate, how many sentences are true, and how many were said."""
    spelled, value = AGGREGATES[name]
    table, rows = Table("t", FRAME, SCHEMA), duckdb.from_df(FRAME)
    counts: dict[str, dict[str, list[int]]] = {defect: {} for defect in defects}
    exact: dict[str, float | None] = {}
    for _ in range(runs):
        with dpnb.Session(table, budget=dpnb.Budget(rho=100)) as session:
            question = session.query(SQL.format(spelled), rho="0.5").compare("south", "north")
            found = session.explain(question, rho=4, k=3)
        if not exact:
            names = [row.predicate for row in found.rows]
            results = differences(rows, "team", value, question, names)
            exact = dict(zip(["", *names], results, strict=True))
        before = exact[""]
        assert before is not None
        for defect in defects:
            for row in found.rows:
                true, said = counts[defect].get(row.predicate, (0, 0))
                right = _said(defect, found, row, before, exact[row.predicate])
                counts[defect][row.predicate] = [true + right, said + 1]
    return {
        defect: [(true, said) for true, said in each.values()] for defect, each in counts.items()
    }
