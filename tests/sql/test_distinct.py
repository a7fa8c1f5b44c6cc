"""COUNT(DISTINCT x) of a declared column: SQL's number, with a bound for people of many rows."""

from __future__ import annotations

from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Budget, Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.errors import RequestError
from dpnb.sql.parser import parse
from dpnb.views.view import views_of
from tests.kit.noise import NoNoise

SCHEMA = Schema(
    {
        "g": Category(["a", "b", "c"]),
        "x": Integer(0, 9),
        "r": Real(0, 1),
        "day": Date("2024-01-01", "2024-03-31"),
    }
)
STATEMENTS = [
    "SELECT COUNT(DISTINCT g) AS n FROM t",
    "SELECT COUNT(DISTINCT x) AS n FROM t WHERE g = 'a' AND r > 0.5",
    "SELECT COUNT(DISTINCT day) AS n FROM t WHERE x IN (2, 3)",
    "SELECT COUNT(DISTINCT r) AS n FROM t",
    "SELECT COUNT(DISTINCT x) FILTER (WHERE r < 0.1) AS n FROM t",
    "SELECT COUNT(DISTINCT x) - COUNT(DISTINCT g) AS n FROM t",
]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "id": np.arange(400) // 4,
            "g": rng.choice(["a", "b", None], 400),
            "x": rng.integers(0, 10, 400),
            "r": rng.random(400).round(2),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, 400), "D"),
        }
    )


@pytest.fixture(scope="module")
def curator(frame):
    table = Table("t", frame, SCHEMA, Unit("id", max_rows=4))
    with closing(dpnb.Curator(table, budget=Budget(rho=10**6), noise=NoNoise())) as held:
        yield held


@pytest.mark.parametrize("sql", STATEMENTS)
def test_without_noise_it_is_what_duckdb_says(sql, curator, frame):
    with closing(duckdb.connect()) as ducks:
        ducks.register("t", frame)
        (expected,) = ducks.execute(sql).fetchone()
    answer = curator.session().query(sql, rho=100)
    assert round(answer.to_frame()["n"][0]) == expected


def test_groups_without_values_have_none(curator, frame):
    answer = curator.session().query("SELECT g, COUNT(DISTINCT x) AS n FROM t GROUP BY g", rho=100)
    expected = frame.groupby("g")["x"].nunique().to_dict() | {"c": 0}
    shown = answer.to_frame()
    assert dict(zip(shown["g"], shown["n"].round(), strict=True)) == expected


@pytest.mark.parametrize(
    ("rows", "sql", "norm", "measure"),
    [
        (2, "SELECT COUNT(DISTINCT g) FROM t", 2, ["distinct", "g"]),
        (3, "SELECT COUNT(DISTINCT g) FROM t", 3, ["distinct", "g"]),
        (50, "SELECT COUNT(DISTINCT g) FROM t", 3, ["distinct", "g", 3]),
        (50, "SELECT x, COUNT(DISTINCT g) FROM t GROUP BY x", 30, ["distinct", "g", 30]),
        (50, "SELECT x, COUNT(DISTINCT g) FROM t WHERE x < 2 GROUP BY x", 6, ["distinct", "g", 6]),
        (50, "SELECT COUNT(DISTINCT r) FROM t", 50, ["distinct", "r"]),
    ],
)
def test_one_person_changes_it_by_no_more_than_there_are_values(rows, sql, norm, measure):
    query = parse(sql, {"t": Table("t", None, SCHEMA, Unit("id", max_rows=rows))})
    (view,) = views_of(query.aggregates[0], query, 1).values()
    assert view.norm == norm
    assert view.definition()["measure"] == measure


@pytest.mark.parametrize(("rows", "together"), [(2, 1), (50, 2)])
def test_few_values_share_with_no_other_region(rows, together, frame):
    """Three rows of an id in each of two regions change both counts of three values by three."""
    table = Table("t", frame, SCHEMA, Unit("id", max_rows=rows))
    with closing(dpnb.Curator(table, budget=Budget(rho=10))) as held:
        for condition in ("x < 5", "x >= 5"):
            held.session().query(f"SELECT COUNT(DISTINCT g) AS n FROM t WHERE {condition}", rho=1)
        assert held.budget.spent.rho == together


def test_nothing_is_inferred_from_it(curator):
    session = curator.session()
    session.query("SELECT COUNT(DISTINCT x) AS n FROM t", rho=100)
    with pytest.raises(RequestError, match="different values cannot be inferred"):
        session.infer("SELECT COUNT(DISTINCT x) AS n FROM t")
    session.query("SELECT COUNT(*) AS n FROM t", rho=100)
    inferred = session.infer("SELECT COUNT(*) AS n FROM t")
    assert (
        round(inferred.estimate[0] if hasattr(inferred.estimate, "__len__") else inferred.estimate)
        == 400
    )


def test_it_has_no_risk_of_single_rows(curator):
    with pytest.raises(RequestError, match="depends on the other rows"):
        curator.risk("SELECT COUNT(DISTINCT g) AS n FROM t")
