"""Subqueries over public tables are constants: evaluated once, alone, and part of the request."""

from __future__ import annotations

import datetime
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Budget, Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.engines.public import PublicTables
from dpnb.errors import RequestError, SqlError
from dpnb.sql.canonical import describe
from dpnb.sql.parser import parse
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

DAYS = Date("2024-01-01", "2024-01-31")
RNG = np.random.default_rng(1)
SALES = pd.DataFrame(
    {
        "id": np.repeat(np.arange(50), 4),
        "item": RNG.integers(1, 9, 200),
        "amount": RNG.integers(0, 10, 200),
        "price": RNG.integers(0, 90, 200) / 10,
        "kind": RNG.choice(list("abc"), 200),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 30, 200), unit="D"),
    }
)
ITEMS = pd.DataFrame(
    {
        "item": np.arange(1, 8),
        "cost": [0.1, 3.3, 7.0, 0.7, 5.5, 8.9, 2.2],
        "kind": list("aabbacc"),
        "since": pd.Timestamp("2024-01-01") + pd.to_timedelta([3, 9, 9, 1, 20, 29, 5], unit="D"),
        "stock": pd.array([1, 2, None, 4, 5, 6, 7], dtype="Int64"),
    }
)
TABLES = [
    Table(
        "sales", SALES,
        Schema({"item": Integer(1, 8), "amount": Integer(0, 9), "price": Real(0, 9), "kind": Category(list("abc")), "day": DAYS}),
        Unit("id", 4),
    ),
    Table(
        "items", ITEMS,
        Schema({"item": Integer(1, 8), "cost": Real(0, 9), "kind": Category(list("abc")), "since": DAYS, "stock": Integer(0, 9)}),
        public=True, key="item",
    ),
]  # fmt: skip
COUNT = "SELECT COUNT(*) AS n FROM sales WHERE "
CONDITIONS = [
    "item IN (SELECT item FROM items WHERE cost > 3)",
    "item NOT IN (SELECT item FROM items WHERE cost > 3)",
    "item IN (SELECT item FROM items WHERE cost > 300)",
    "item NOT IN (SELECT item FROM items WHERE cost > 300)",
    "item IN (SELECT stock FROM items)",
    "item = ANY (SELECT item FROM items WHERE cost > 3)",
    "NOT item = ANY (SELECT stock FROM items)",
    "item NOT IN (SELECT stock FROM items)",
    "item IN (SELECT stock FROM items WHERE stock IS NULL) OR amount = 3",
    "NOT (amount > 5 AND NOT item IN (SELECT stock FROM items))",
    "NOT (amount > 5 AND item IN (SELECT stock FROM items))",
    "CASE WHEN item IN (SELECT stock FROM items) THEN 1 ELSE 0 END = 0",
    "kind IN (SELECT ANY_VALUE(kind) FROM items GROUP BY item HAVING MAX(cost) > 4)",
    "price > (SELECT AVG(cost) FROM items)",
    "price = (SELECT MAX(cost) FROM items WHERE cost < 1)",
    "price <> (SELECT MIN(cost) FROM items)",
    "price <= (SELECT MEDIAN(cost) FROM items) AND amount < (SELECT COUNT(DISTINCT kind) FROM items)",
    "day >= (SELECT MIN(since) FROM items WHERE kind = 'b')",
    "day IN (SELECT since FROM items)",
    "EXISTS (SELECT 1 FROM items)",
    "NOT EXISTS (SELECT item FROM items WHERE cost > 1)",
    "EXISTS (SELECT item FROM items WHERE cost > 100) OR amount > 3",
    "item = (SELECT item FROM items ORDER BY item DESC LIMIT 1)",
    "item IN (SELECT x FROM (SELECT item AS x, cost FROM items) t WHERE cost > (SELECT AVG(cost) FROM items))",
    "item IN (SELECT p.item FROM items p WHERE p.cost > (SELECT AVG(q.cost) FROM items q WHERE q.kind = p.kind))",
    "item IN (SELECT item FROM items UNION SELECT 8 FROM items)",
]
STATEMENTS = [
    *(COUNT + condition for condition in CONDITIONS),
    "WITH cheap AS (SELECT item AS i, cost FROM items WHERE cost < 5), "
    "chosen AS (SELECT * FROM sales WHERE item IN (SELECT i FROM cheap)) "
    "SELECT SUM(amount) AS n FROM chosen WHERE price < (SELECT MAX(cost) FROM cheap)",
    # in FROM
    "SELECT SUM(f) AS n FROM sales JOIN (SELECT kind, COUNT(*) AS f FROM items GROUP BY kind) AS k USING (kind)",
    "SELECT SUM(f) AS n FROM sales LEFT JOIN (SELECT kind, COUNT(*) AS f FROM items WHERE cost > 6 GROUP BY kind) AS k "
    "ON sales.kind = k.kind",
    "SELECT COUNT(*) AS n FROM sales LEFT JOIN (SELECT kind, COUNT(*) AS f FROM items WHERE cost > 6 GROUP BY kind) AS k "
    "ON sales.kind = k.kind WHERE f IS NULL",
    "SELECT COUNT(*) AS n FROM sales, (SELECT kind, MAX(item) AS top FROM items GROUP BY kind) k "
    "WHERE sales.kind = k.kind AND top > 5 AND amount > 2",
    "SELECT COUNT(*) AS n FROM sales LEFT JOIN (SELECT item, kind AS k FROM items WHERE cost > 3) i USING (item) WHERE k = 'a' OR k IS NULL",
    "SELECT COUNT(*) AS n FROM sales s LEFT JOIN items i ON s.item = i.item AND i.cost > 3 WHERE i.kind IS NULL",
    "SELECT SUM(s.amount * i.item) AS n FROM sales s LEFT JOIN items AS i ON i.kind IN ('a', 'b') AND s.item = i.item",
    "WITH rare AS (SELECT kind AS k, MIN(stock) AS s FROM items GROUP BY kind), "
    "t AS (SELECT amount, s FROM sales JOIN rare ON kind = k WHERE amount > 2) SELECT SUM(amount * s) AS n FROM t",
    "WITH m AS (SELECT AVG(cost) AS mean, MAX(stock) AS most FROM items) "
    "SELECT SUM(amount - most) AS n FROM sales CROSS JOIN m WHERE price > mean",
    "WITH top AS (SELECT item FROM items ORDER BY item DESC LIMIT 3) "
    "SELECT COUNT(*) AS n FROM sales JOIN top ON sales.item = top.item",
    "WITH top AS (SELECT item FROM items ORDER BY item DESC LIMIT 3) "
    "SELECT COUNT(*) AS n FROM sales WHERE item IN (SELECT item FROM top)",
    "SELECT COUNT(*) AS n FROM sales JOIN (SELECT stock, MAX(cost) AS c FROM items GROUP BY stock) AS s ON amount = stock",
    "SELECT COUNT(*) AS n FROM sales JOIN (SELECT kind FROM items WHERE cost > 100 GROUP BY kind) AS s USING (kind)",
    "SELECT SUM(amount * (SELECT MAX(stock) FROM items)) AS n FROM sales",
    "SELECT COUNT(*) FILTER (WHERE sales.item IN (SELECT item FROM items WHERE kind = 'a')) AS n "
    "FROM sales JOIN items USING (item) WHERE cost > (SELECT MIN(cost) FROM items)",
]


@pytest.fixture(scope="module")
def database():
    connection = duckdb.connect()
    for name, frame in (("sales", SALES), ("items", ITEMS)):
        dates = {c: frame[c].dt.date for c in frame if str(frame[c].dtype).startswith("datetime")}
        connection.register("frame", frame.assign(**dates))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    return connection


@pytest.fixture(scope="module")
def curator():
    with closing(dpnb.Curator(TABLES, budget=Budget(rho=1e6), noise=NoNoise())) as curator:
        yield curator


@pytest.fixture(scope="module")
def session(curator):
    return curator.session()


def test_parameters_stand_for_their_values(session, database):
    sql = (
        COUNT + "price > (SELECT MIN(cost) FROM items WHERE kind = {} AND cost > {} AND since > {})"
    )
    params = {"kind": "a", "least": 0.5, "day": datetime.date(2024, 1, 2)}
    written = sql.format("'a'", "0.5", "DATE '2024-01-02'")
    ((expected,),) = database.execute(written).fetchall()
    answer = session.query(sql.format(":kind", ":least", ":day"), rho=1, params=params)
    assert answer.to_frame(cut=False)["n"][0] == expected
    assert session.query(written, rho=1).stored
    with pytest.raises(SqlError, match="kind"):
        session.query(sql.format(":kind", "0.5", "'2024-01-02'"), rho=1)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_it_has_the_result_of_duckdb(session, database, sql):
    ((expected,),) = database.execute(sql).fetchall()
    assert session.query(sql, rho=1).to_frame(cut=False)["n"][0] == pytest.approx(float(expected))


def test_the_values_are_part_of_the_request(session):
    first = session.query(COUNT + "item IN (SELECT item FROM items WHERE kind = 'b')", rho=1.5)
    second = session.query(COUNT + "item IN (3, 4)", rho=1.5)
    assert first.to_frame().equals(second.to_frame())
    assert second.spent.rho == 0


def test_other_verbs_take_them(session):
    sql = "SELECT kind, COUNT(*) AS n FROM sales WHERE price > (SELECT AVG(cost) FROM items) GROUP BY kind"
    assert session.price(sql, rho=1)
    assert session.decide(sql + " HAVING COUNT(*) > 1", beta=0.05, u=5).selected
    session.query(sql, rho=1)
    assert len(session.infer(sql).to_frame()) == 3


REFUSED = [
    ("item IN (SELECT item FROM sales WHERE amount > 3)", "not supported"),
    ("item IN (SELECT items.item FROM items, sales)", "not supported"),
    ("item IN (SELECT item FROM items WHERE item IN (SELECT item FROM sales))", "not supported"),
    ("price > (SELECT AVG(price) FROM sales)", None),
    ("EXISTS (SELECT 1 FROM items WHERE items.item = sales.item)", "names a column of the query around"),
    ("amount > (SELECT MAX(cost) FROM items WHERE day < since)", "this subquery has no result"),
    ("item IN (SELECT item FROM items LIMIT 2)", "this LIMIT keeps any of several rows"),
    ("item IN (SELECT item FROM items ORDER BY kind LIMIT 2)", "this LIMIT keeps any of several rows"),
    ("item IN (SELECT item FROM items USING SAMPLE 2)", "SAMPLE is not supported"),
    ("item IN (SELECT item FROM items TABLESAMPLE 10%)", "SAMPLE is not supported"),
    ("item IN (SELECT item FROM items WHERE cost > RANDOM())", "RANDOM is not supported"),
    ("day > (SELECT MAX(since) FROM items WHERE since < NOW())", "NOW is not supported"),
    ("kind = (SELECT getenv('HOME') FROM items)", "GETENV is not supported"),
    ("kind = (SELECT current_setting('threads') FROM items)", "CURRENT_SETTING is not supported"),
    ("kind IN (SELECT * FROM read_csv('/etc/passwd'))", "not supported"),
    ("kind IN (SELECT content FROM items, read_text('/etc/passwd'))", "not supported"),
    ("kind IN (SELECT kind FROM main.items)", "not supported"),
    ("kind IN (SELECT kind FROM items, duckdb_settings())", "not supported"),
    ("item IN (SELECT ROW_NUMBER() OVER () FROM items)", "ROW_NUMBER is not supported"),
    ("item IN (SELECT FIRST(item) FROM items)", "FIRST is not supported"),
    ("item IN (SELECT unnest([1, 2]) FROM items)", "UNNEST is not supported"),
    ("item IN (SELECT item FROM items ASOF JOIN items i USING (item))", "METHOD is not supported"),
    ("item IN (SELECT item FROM items POSITIONAL JOIN items i)", "METHOD is not supported"),
    ("item IN (WITH RECURSIVE t AS (SELECT item FROM items) SELECT item FROM t)", "recursive CTEs"),
    ("item IN (SELECT item FROM items WHERE rowid = 1)", "ROWID is not supported"),
    ("item IN (SELECT DISTINCT ON (kind) item FROM items)", "DISTINCT ON is not supported"),
    ("item IN (SELECT item FROM items GROUP BY GROUPING SETS ((item), ()))", "GROUPING SETS"),
    ("item IN (SELECT nope FROM items)", "this subquery has no result"),
    ("(item IN (SELECT stock FROM items)) IS NULL", "this subquery has missing values"),
    ("item > ALL (SELECT item FROM items)", "subqueries are not supported"),
    ("item < ANY (SELECT item FROM items)", None),
    ("(item, kind) IN (SELECT item, kind FROM items)", "this subquery has several columns"),
    ("item = (SELECT item FROM items)", "this subquery has several rows"),
    ("item = (SELECT item, cost FROM items)", "this subquery has several columns"),
    ("price > (SELECT MAX(cost / (cost - cost)) FROM items)", None),
    ("item IN (SELECT a.item FROM items a, items b, items c, items d)", "more than 1,000 rows"),
    ("item > (SELECT COUNT(*) FROM items a, items b, items c, items d, items e, items f, items g, items h, items i, "
     "items j, items k, items l, items m, items n WHERE a.cost + b.cost * n.cost > 1)", "takes too long"),
]  # fmt: skip


FROM = [
    ("sales JOIN (SELECT DISTINCT kind, item FROM items) k USING (kind)", "several rows with one kind"),
    ("sales, (SELECT kind, COUNT(*) AS f FROM items GROUP BY kind) k", "is joined by no equality"),
    ("sales JOIN (SELECT kind, COUNT(*) AS f FROM items GROUP BY kind) k ON k.f < amount", "is joined by no equality"),
    ("sales LEFT JOIN (SELECT kind, COUNT(*) AS f FROM items GROUP BY kind) k ON k.kind = sales.kind AND amount > 3", "ON takes one equality"),
    ("sales JOIN (SELECT FIRST(kind) AS k FROM items) i ON kind = k", "FIRST is not supported"),
    ("sales JOIN (SELECT item, RANDOM() AS r, COUNT(*) AS n FROM items GROUP BY item, r) i USING (item)", "RANDOM"),
    ("sales JOIN (SELECT item FROM items LIMIT 3) i USING (item)", "this LIMIT keeps any"),
    ("sales JOIN (SELECT item FROM items USING SAMPLE 3) i USING (item)", "SAMPLE is not"),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "what"), FROM, ids=[case[0] for case in FROM])
def test_refused_in_from(session, tables, what):
    with pytest.raises(SqlError) as caught:
        session.query(f"SELECT COUNT(*) AS n FROM {tables}", rho=1)
    assert what in caught.value.what
    assert caught.value.hint


def test_groups_by_what_is_looked_up_are_those_of_an_expression(session, database):
    sql = (
        "SELECT sort, COUNT(*) AS n FROM sales JOIN (SELECT item, ANY_VALUE(kind) AS sort FROM items "
        "GROUP BY item) AS i ON sales.item = i.item GROUP BY sort ORDER BY sort"
    )
    answer = session.query(sql, rho=1).to_frame()
    assert [tuple(row) for row in answer[["sort", "n"]].to_numpy()] == database.execute(
        sql
    ).fetchall()


@pytest.mark.parametrize(("condition", "what"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_refused_subquery_costs_nothing(session, condition, what):
    spent = session.budget.spent
    with pytest.raises(SqlError) as caught:
        session.query(COUNT + condition, rho=1)
    assert caught.value.hint
    assert what is None or what in caught.value.what
    assert session.budget.spent == spent


def test_without_open_tables_subqueries_stay_refused():
    tables = {table.name: table for table in TABLES}
    with pytest.raises(SqlError, match="subqueries are not supported"):
        parse(COUNT + CONDITIONS[0], tables)


class Listed:
    """An engine that says what is read of it."""

    def __init__(self, rows):
        self.rows = rows
        self.read = 0

    def listed(self, most):
        self.read += 1
        return self.rows[: most + 1]


class TestPublicTables:
    def tables(self, rows=((1, 0, 5), (None, None, None))):
        kinds = Schema({"n": Integer(0, 9), "c": Category(["x", "y"]), "d": DAYS})
        found = {
            "open": Table("open", None, kinds, public=True),
            "shut": Table("shut", None, kinds),
        }
        engines = {name: Listed(list(rows)) for name in found}
        return PublicTables(found, engines), engines

    def test_it_reads_public_tables_once_and_no_others(self):
        public, engines = self.tables()
        for _ in range(2):
            rows = public("SELECT * FROM open ORDER BY n", ["open"])
        assert rows == [(1, "x", datetime.date(1970, 1, 6)), (None, None, None)]
        assert public("SELECT COUNT(*) FROM open", ["open"]) == [(2,)]
        assert (engines["open"].read, engines["shut"].read) == (1, 0)
        with pytest.raises(KeyError):
            public("SELECT * FROM shut", ["shut"])
        with pytest.raises(RequestError, match="no result"):
            public("SELECT * FROM shut", ["open"])
        assert engines["shut"].read == 0

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM '/etc/passwd'",
            "SELECT * FROM engines",
            "COPY open TO '/tmp/never'",
            "ATTACH '/tmp/never' AS a",
            "PRAGMA threads=4",
            "INSTALL httpfs",
        ],
    )
    def test_it_reaches_nothing_else(self, text):
        public, _ = self.tables()
        with pytest.raises(RequestError, match="no result"):
            public(text, ["open"])

    def test_rows_in_another_order_have_the_same_sums(self):
        values = [(float(n) / 7,) for n in range(500)]
        results = []
        for rows in (values, values[::-1]):
            table = Table("open", None, Schema({"x": Real(0, 99)}), public=True)
            public = PublicTables({"open": table}, {"open": Listed(rows)})
            results.append(public("SELECT SUM(x), AVG(x) FROM open", ["open"]))
        assert results[0] == results[1]

    def test_after_closing_it_holds_nothing(self):
        public, engines = self.tables()
        for read in (1, 2):
            assert public("SELECT COUNT(*) FROM open", ["open"]) == [(2,)]
            assert engines["open"].read == read
            public.close()

    def test_large_tables_are_refused(self, monkeypatch):
        monkeypatch.setattr("dpnb.engines.public.MOST_ROWS", 1)
        public, _ = self.tables()
        with pytest.raises(RequestError, match="'open' has more than 1 rows"):
            public("SELECT 1 FROM open", ["open"])


def test_constants_are_described_like_those_that_are_written():
    tables = {table.name: table for table in TABLES}

    def evaluate(select, names):
        return [(0.1,), (None,)] if "cost" in select else [(datetime.date(2024, 1, 3),)]

    def read(condition):
        return describe(parse(COUNT + condition, tables, public=evaluate))

    assert read("day = (SELECT MIN(since) FROM items)") == read("day = '2024-01-03'")
    assert read("price IN (SELECT cost FROM items)") == read("price = 0.1")
