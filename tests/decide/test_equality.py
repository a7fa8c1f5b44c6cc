"""Groups exactly at a threshold, and groups without rows: a condition means what SQL says of them."""

from __future__ import annotations

from functools import cache

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Integer, Real, Schema, Table
from dpnb.display.cards import decision_words
from dpnb.errors import RequestError
from dpnb.privacy.definition import GDP, PURE, ZCDP
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

SCHEMA = Schema({"g": Integer(0, 7), "v": Integer(0, 20), "w": Real(0, 20)})
VALUES = {
    0: [5, 15, 10, 10],
    1: [10, 10, 10, 11],
    2: [10, 10, 10, 9],
    3: [None, None, None, None],
    4: [10, 10, 10, 10, 10],
    5: [10, 10, None],
    6: [10.1] * 3,
}
"""By group; no row is in group 7."""
FRAME = pd.DataFrame(
    [(g, v, v) for g, some in VALUES.items() for v in some], columns=["g", "v", "w"]
)
FRAME["v"] = FRAME["v"].fillna(np.nan).round()
AT_TEN = pd.DataFrame({"g": np.repeat(np.arange(8), 6), "v": 10, "w": 10.0})
BUDGETS = {
    PURE: dpnb.Budget(epsilon=10**10),
    ZCDP: dpnb.Budget(rho=10**14),
    "gdp": dpnb.Budget(epsilon=50, delta=1e-6, accountant="gdp"),
}
AVERAGES = [
    "AVG(v) >= 10", "AVG(v) <= 10", "AVG(v) > 10", "AVG(v) < 10", "10 <= AVG(v)",
    "AVG(v) BETWEEN 10 AND 10", "AVG(v) BETWEEN 10 AND 11", "AVG(v) NOT BETWEEN 9 AND 9.9",
    "NOT (AVG(v) < 10)", "NOT AVG(v) <= 10", "NOT (AVG(v) > 10)",
    "AVG(v) >= 9.75", "AVG(v) <= 9.75", "AVG(v) >= 10 AND AVG(w) <= 10",
    "AVG(v) >= 10 OR AVG(w) < 9", "AVG(w) >= 10", "AVG(w) <= 10", "AVG(w) >= 10.1",
    "AVG(w) <= 10.1", "NOT (AVG(w) < 10.1)", "AVG(v) FILTER (WHERE w > 9.5) <= 10",
    "AVG(v) FILTER (WHERE w > 10.5) >= 11",
]  # fmt: skip
OTHERS = [
    "COUNT(*) >= 4", "COUNT(*) <= 4", "COUNT(*) BETWEEN 4 AND 4", "NOT (COUNT(*) < 5)",
    "SUM(v) >= 40", "SUM(v) <= 40", "NOT (SUM(v) > 39)", "COUNT(v) >= 3 AND AVG(v) >= 10",
    "COUNT(*) FILTER (WHERE v = 10) >= 3", "COUNT(DISTINCT v) >= 3",
]  # fmt: skip


FRAMES = {"of all kinds": FRAME, "at 10": AT_TEN}


def asked(having, privacy=ZCDP, frame="of all kinds"):
    table = Table("t", FRAMES[frame], SCHEMA)
    session = dpnb.Session(table, budget=BUDGETS[privacy], noise=NoNoise())
    return session, f"SELECT g FROM t GROUP BY g HAVING {having}"


@cache
def aliases(having):
    """How the numbers of a condition are called, in every mode."""
    session, sql = asked(having)
    with session:
        return [alias for alias, _ in session.price(sql, rows=1, mode="rr").readings]


@cache
def truth_of(having, frame):
    rows = FRAMES[frame]  # noqa: F841 - read by DuckDB
    found = duckdb.sql(f"SELECT g FROM rows GROUP BY g HAVING {having}").fetchall()
    return {int(group) for (group,) in found}


def said(having, mode, privacy=ZCDP, frame="of all kinds"):
    """What is selected without noise, and what DuckDB says."""
    session, sql = asked(having, privacy, frame)
    options = {"rows": 1, "mode": mode} | ({"steps": 1} if mode == "certified" else {})
    u = dict.fromkeys(aliases(having), 20 if privacy == GDP else 0.2)
    with session:
        return session.decide(sql, u=u, **options), truth_of(having, frame)


@pytest.mark.parametrize("mode", ["rr", "hybrid"])
@pytest.mark.parametrize("having", AVERAGES + OTHERS)
def test_what_sees_the_data_judges_as_sql_does(having, mode):
    made, truth = said(having, mode)
    # a sum over no rows is 0 here and missing in SQL; an average over none is missing in both
    missing = {"3", "7"} if having in OTHERS else set()
    assert set(map(str, made.selected)) - missing == set(map(str, truth)) - missing


@pytest.mark.parametrize("mode", ["rr", "hybrid", "margin", "certified"])
@pytest.mark.parametrize("privacy", BUDGETS)
@pytest.mark.parametrize("having", [*AVERAGES[:4], "AVG(v) BETWEEN 10 AND 10", "COUNT(*) >= 4"])
def test_no_mode_leaves_a_group_at_the_threshold_out(having, privacy, mode):
    if privacy == GDP and mode in ("rr", "hybrid"):
        with pytest.raises(RequestError, match="is not Gaussian"):
            said(having, mode, privacy)
        return
    made, truth = said(having, mode, privacy)
    assert truth <= {int(group) for group in made.selected}
    wrong = [g for g, verdict in enumerate(made.verdicts) if verdict == (-1 if g in truth else 1)]
    assert wrong == []


@pytest.mark.parametrize("mode", ["rr", "hybrid", "certified"])
@pytest.mark.parametrize("threshold", ["9.9999995", "9.999999999999", "10"])
def test_a_threshold_within_the_rounding_of_values_leaves_nobody_out(threshold, mode):
    """Of a Real, distances from the threshold are rounded."""
    made, truth = said(f"AVG(w) >= {threshold}", mode, frame="at 10")
    assert len(truth) == len(made.selected) == 8
    assert "are rounded to the nearest 3.8e-06" in decision_words.statements(made)[0][1]


def test_whole_numbers_are_not_said_to_be_rounded():
    made, _ = said("AVG(v) >= 10 AND COUNT(*) >= 2", "rr")
    assert "rounded" not in decision_words.statements(made)[0][1]
