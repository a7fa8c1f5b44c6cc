"""Ids in lists, and people with lines of another table: what DuckDB says, at the price of one row each."""

from __future__ import annotations

from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpnb import Budget, Category, Curator, Integer, Schema, Table, Unit
from dpnb.errors import SqlError
from tests.kit.noise import NoNoise


def rows(seed, most):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(0, 60, 1 + seed % 2), most)
    ids = ids[rng.random(len(ids)) < 0.6]
    return pd.DataFrame(
        {"id": ids, "x": rng.integers(0, 9, len(ids)), "k": rng.choice([*"ab"], len(ids))}
    )


KINDS = {"x": Integer(0, 8), "k": Category(["a", "b"])}
FRAMES = {"visits": rows(1, 4), "orders": rows(2, 3), "people": rows(3, 1), "homes": rows(5, 1)}
MOST = {"visits": 4, "orders": 3, "people": 1, "homes": 1}


def tables(frames=None):
    given = frames or dict.fromkeys(MOST)
    return [Table(n, given[n], Schema(KINDS), Unit("id", max_rows=m)) for n, m in MOST.items()]


@pytest.fixture(scope="module")
def session():
    with closing(Curator(tables(FRAMES), budget=Budget(rho=10**9), noise=NoNoise())) as curator:
        yield curator.session()


@pytest.fixture(scope="module")
def ducks():
    with closing(duckdb.connect()) as connection:
        for name, frame in FRAMES.items():
            connection.register(name, frame)
        yield connection


LINES = "(SELECT id, SUM(x) AS s, COUNT(*) AS n FROM visits GROUP BY id) AS p"
ASKED = [
    f"SELECT SUM(s - r.x) AS y FROM people r JOIN {LINES} ON r.id = p.id WHERE n > 1 AND r.k = 'a'",
    f"SELECT SUM(s) AS y FROM people r, {LINES} WHERE p.id = r.id AND r.x > 2",
    f"SELECT AVG(s) AS y FROM people JOIN {LINES} USING (id)",
    "SELECT SUM(s) AS y FROM people r JOIN (SELECT id, k, SUM(x) AS s FROM visits GROUP BY id, k) AS p ON r.id = p.id",
    "SELECT COUNT(*) AS y FROM people WHERE id IN (SELECT id FROM visits WHERE x > 5)",
    "SELECT COUNT(DISTINCT id) AS y FROM people c WHERE c.k = 'b' AND EXISTS (SELECT 1 FROM visits v WHERE v.id = c.id AND v.x > 3)",
    "SELECT SUM(x) AS y FROM people c WHERE EXISTS (SELECT * FROM visits WHERE c.id = visits.id)",
    "SELECT SUM(x) AS y FROM visits WHERE id NOT IN (SELECT id FROM visits WHERE x > 6)",
    "SELECT COUNT(*) AS y FROM visits a WHERE NOT EXISTS (SELECT 1 FROM visits b WHERE b.id = a.id AND b.k = 'b') AND x > 1",
    "SELECT COUNT(*) AS y FROM visits WHERE (NOT id IN (SELECT id FROM visits GROUP BY id HAVING COUNT(*) > 2 AND SUM(x) > 8))",
    "SELECT SUM(x) AS y FROM visits WHERE id IN (SELECT id FROM people WHERE k = 'a')",
    "SELECT COUNT(*) AS y FROM people WHERE id IN (SELECT id FROM homes WHERE x > 3)",
    "SELECT COUNT(*) AS y FROM people WHERE id IN (SELECT id FROM people WHERE x > 3)",
    "SELECT AVG(n) AS y FROM (SELECT id, COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = o.id "
    "AND p.x < 5) GROUP BY id)",
    "WITH people AS (SELECT * FROM visits WHERE x > 5) SELECT COUNT(*) AS y FROM visits WHERE id IN (SELECT id FROM people)",
]  # fmt: skip


@pytest.mark.parametrize("sql", ASKED)
def test_lists_of_ids_are_what_duckdb_says(sql, session, ducks):
    value = session.query(sql, rho=1000).to_frame()["y"][0]
    assert value == pytest.approx(float(ducks.execute(sql).fetchone()[0]), abs=1e-3)


@pytest.mark.parametrize("sql", ASKED[:7])
def test_one_id_is_one_row_of_what_it_is_made_of(sql, session):
    (definition, *_) = session.query(sql, rho=1000).definitions.values()
    assert definition["unit"][:2] == ["id", 3 if "GROUP BY id, k" in sql else 1]


HINTS = [
    ("SELECT COUNT(*) FROM people WHERE id NOT IN (SELECT id FROM visits)",
     "these are ids of 'visits', which cannot be looked up from 'people'", "Count those in the list with IN, count all, and subtract"),
    ("SELECT COUNT(*) FROM people c WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.id = c.id)",
     "these are ids of 'visits'", "subtract"),
    ("SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM orders)",
     "these are ids of 'orders', which cannot be looked up from 'visits'", "Join orders on the id"),
    (f"SELECT SUM(s) FROM people r LEFT JOIN {LINES} ON r.id = p.id",
     "'p' has lines of 'visits', which cannot be looked up from 'people'", "Write JOIN, which leaves out"),
    ("SELECT COUNT(*) FROM people WHERE id IN (SELECT id FROM visits) OR x > 3",
     "a list of ids can stand beside other conditions with AND only", "COUNT_IF"),
    ("SELECT COUNT(*) FROM visits a WHERE EXISTS (SELECT 1 FROM visits b WHERE a.id = b.id AND b.x > a.x)",
     "names a column of the query around it", "Join its table"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "what", "hint"), HINTS)
def test_what_has_no_line_to_look_up_says_what_to_write(sql, what, hint, session):
    with pytest.raises(SqlError, match=what) as caught:
        session.price(sql, rho=1)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "source", ["visits a, visits b WHERE a.id = b.id", "visits JOIN visits b ON visits.id = b.id"]
)
def test_pairs_of_rows_of_one_table_are_squares_of_counts(source, session, ducks):
    sql = f"SELECT COUNT(*) AS pairs FROM {source}"
    with pytest.raises(SqlError, match="a table cannot be joined with itself") as caught:
        session.price(sql, rho=1)
    instead = caught.value.hint.partition("all pairs is ")[2].removesuffix(".")
    (view,) = (answer := session.query(instead, rho=1000)).definitions.values()
    # one person adds at most the square of max_rows
    assert view["unit"] == ["id", 1, 4]
    assert view["measure"][-1] == 16
    pairs = ducks.execute(sql).fetchone()[0]
    assert answer.to_frame()["pairs"][0] == pytest.approx(float(pairs), abs=1e-3)
