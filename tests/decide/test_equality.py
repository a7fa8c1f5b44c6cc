"""Groups exactly at a threshold, and groups without rows: a condition means what SQL says of them."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Integer, Real, Schema, Table
from dpnb.errors import RequestError
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
BUDGETS = {
    "pure": dpnb.Budget(epsilon=10**10),
    "zcdp": dpnb.Budget(rho=10**14),
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


def said(having, mode, currency="zcdp", frame=FRAME):
    """What is selected without noise, and what DuckDB says."""
    table = Table("t", frame, SCHEMA)
    session = dpnb.Session(table, budget=BUDGETS[currency], noise=NoNoise())
    sql = f"SELECT g FROM t GROUP BY g HAVING {having}"
    options = {"rows": 1, "mode": mode} | ({"steps": 1} if mode == "certified" else {})
    names = [alias for alias, _ in session.price(sql, **options).readings]
    made = session.decide(sql, u=dict.fromkeys(names, 20 if currency == "gdp" else 0.2), **options)
    session.close()
    truth = duckdb.sql(f"SELECT g FROM frame GROUP BY g HAVING {having}").fetchall()
    return made, {int(group) for (group,) in truth}


@pytest.mark.parametrize("mode", ["rr", "hybrid"])
@pytest.mark.parametrize("having", AVERAGES + OTHERS)
def test_what_sees_the_data_judges_as_sql_does(having, mode):
    made, truth = said(having, mode)
    # a sum over no rows is 0 here and missing in SQL; an average over none is missing in both
    missing = {"3", "7"} if having in OTHERS else set()
    assert set(map(str, made.selected)) - missing == set(map(str, truth)) - missing


@pytest.mark.parametrize("mode", ["rr", "hybrid", "margin", "certified"])
@pytest.mark.parametrize("currency", BUDGETS)
@pytest.mark.parametrize("having", [*AVERAGES[:4], "AVG(v) BETWEEN 10 AND 10", "COUNT(*) >= 4"])
def test_no_mode_leaves_a_group_at_the_threshold_out(having, currency, mode):
    if currency == "gdp" and mode in ("rr", "hybrid"):
        with pytest.raises(RequestError, match="is not Gaussian"):
            said(having, mode, currency)
        return
    made, truth = said(having, mode, currency)
    assert truth <= {int(group) for group in made.selected}
    wrong = [g for g, verdict in enumerate(made.verdicts) if verdict == (-1 if g in truth else 1)]
    assert wrong == []


@pytest.mark.parametrize("mode", ["rr", "hybrid", "certified"])
@pytest.mark.parametrize("threshold", ["9.9999995", "9.999999999999", "10"])
def test_a_threshold_within_the_rounding_of_values_leaves_nobody_out(threshold, mode):
    """Of a Real, distances from the threshold are rounded."""
    frame = pd.DataFrame({"g": np.repeat(np.arange(8), 6), "v": 10, "w": 10.0})
    made, truth = said(f"AVG(w) >= {threshold}", mode, frame=frame)
    assert len(truth) == len(made.selected) == 8
    assert "are rounded to the nearest 3.8e-06" in made.statements()[0][1]


def test_whole_numbers_are_not_said_to_be_rounded():
    made, _ = said("AVG(v) >= 10 AND COUNT(*) >= 2", "rr")
    assert "rounded" not in made.statements()[0][1]
