"""GROUP BY id in a query of FROM: what DuckDB says of the kept rows, with bounds that follow from declarations."""

from __future__ import annotations

import itertools
import random
from contextlib import closing
from datetime import date

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Boolean, Budget, Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.errors import SqlError
from dpnb.schema.persons import definition_of, is_persons, kept_rows, origin, shown_name
from dpnb.sql.canonical import describe, read
from dpnb.sql.features import read_persons
from dpnb.sql.parser import parse
from tests.kit.noise import NoNoise

MOST = 8
SCHEMA = Schema(
    {
        "amount": Integer(-5, 10),
        "price": Real(0, 64),
        "shop": Category(["a", "b", "c"]),
        "day": Date("2024-01-01", "2024-03-31"),
        "place": Integer(1, 4),
    },
    complete=["price", "place"],
)


def purchases(seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(150), rng.integers(0, MOST + 1, 150))
    rows = len(ids)
    # a different day in each row of an id: FIRST and ARG_MAX have one answer
    days = np.concatenate([rng.permutation(91)[: np.sum(ids == one)] for one in range(150)])
    frame = pd.DataFrame(
        {
            "who": ids,
            "amount": pd.Series(rng.integers(-5, 11, rows), dtype="Int64"),
            "price": rng.integers(0, 65, rows).astype(float),
            "shop": rng.choice(["a", "b", "c"], rows),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(days, "D"),
            "place": rng.integers(1, 5, rows),
        }
    )
    frame.loc[rng.random(rows) < 0.2, "amount"] = None
    frame.loc[rng.random(rows) < 0.1, "shop"] = None
    return frame


def table(most: int = MOST, schema: Schema = SCHEMA, **options) -> Table:
    return Table("sales", options.pop("frame", None), schema, Unit("who", max_rows=most), **options)


TABLES = {"sales": table()}


def persons_in(sql, tables=TABLES):
    return read_persons(parse(sql, tables).table, tables)


@pytest.fixture(scope="module")
def frame():
    return purchases()


@pytest.fixture(scope="module")
def session(frame):
    with closing(
        dpnb.Curator(table(frame=frame), budget=Budget(rho=10**9), noise=NoNoise())
    ) as curator:
        yield curator.session()


@pytest.fixture(scope="module")
def ducks(frame):
    with closing(duckdb.connect()) as connection:
        connection.register("sales", frame)
        yield connection


FEATURES = [
    "COUNT(*)", "COUNT(amount)", "COUNT_IF(place = 2)", "COUNT(DISTINCT shop)", "COUNT(DISTINCT day)",
    "COUNT(*) FILTER (WHERE amount > 2)", "SUM(amount)", "SUM(price)", "SUM(price) FILTER (WHERE shop = 'a')",
    "SUM(CASE WHEN shop = 'a' THEN amount ELSE 3 END)", "AVG(amount)", "AVG(price)", "MIN(amount)", "MAX(price)",
    "MEDIAN(price)", "MAX(amount * 2)", "MAX(amount % 5)", "MIN(MONTH(day))", "MAX(CAST(amount > 4 AS INTEGER) * 3)",
    "COUNT(CASE WHEN amount > 2 THEN shop END)", "COUNT(CASE WHEN place = 2 THEN 'there' END)", "FIRST(amount ORDER BY day)", "LAST(price ORDER BY day)",
    "ARG_MAX(amount, day)", "ARG_MIN(place, day)", "ANY_VALUE(place) FILTER (WHERE place = 3)",
    "CAST(BOOL_OR(amount > 5) AS INTEGER)", "CAST(BOOL_AND(amount < 5) AS INTEGER)",
    "MODE() WITHIN GROUP (ORDER BY amount)", "MODE() WITHIN GROUP (ORDER BY place % 3) FILTER (WHERE amount > 0)",
]  # fmt: skip
ROWS = [
    "",
    "WHERE price > 20",
    "WHERE shop IN ('a', 'b')",
    "WHERE amount IS NULL OR day < '2024-02-10'",
]
LINES = [
    "",
    "WHERE n >= 3",
    "WHERE n BETWEEN 2 AND 4",
    "WHERE x > 2",
    "WHERE x IS NULL",
    "WHERE x > 1 OR n = 1",
]
RESULTS = [
    "COUNT(*)",
    "SUM(x)",
    "AVG(x)",
    "SUM(n)",
    "AVG(x - n)",
    "COUNT(x)",
    "COUNT(DISTINCT who)",
]


def statements(count: int):
    rng = random.Random(8)  # noqa: S311 - not for secrets
    for feature in itertools.islice(itertools.cycle(FEATURES), count):
        keys = rng.choice(["", "", "GROUP BY n", "GROUP BY place"])
        own = ", place" if keys.endswith("place") else ""
        template = (
            f"SELECT {'' if not keys else keys[9:] + ', '}{rng.choice(RESULTS)} AS y FROM (SELECT who{own}, "
            f"%s AS x, COUNT(*) AS n FROM sales {rng.choice(ROWS)} GROUP BY who{own}) AS p "
            f"{rng.choice(LINES)} {keys}"
        )
        yield template % feature


@pytest.mark.parametrize("sql", list(statements(138)))
def test_without_noise_it_is_what_duckdb_says(sql, session, ducks):
    answer = session.query(sql, rho=1000).to_frame()
    groups = list(answer.columns[:-3])
    expected = {tuple(row[:-1]): row[-1] for row in ducks.execute(sql).fetchall()}
    seen = set()
    for row in answer.itertuples(index=False):
        key = tuple(row[: len(groups)])
        seen.add(key)
        value = expected.get(key)
        if value is None:
            assert pd.isna(row[-3]) or abs(row[-3]) < 1e-9
        else:
            assert row[-3] == pytest.approx(float(value), abs=1e-3)
    assert expected.keys() <= seen


COMPUTED = [
    "WITH p AS (SELECT who, SUM(amount) - COUNT(*) AS m, COUNT(*) AS n FROM sales GROUP BY who) SELECT AVG(m) AS y FROM p "
    "WHERE n > 2",
    "WITH p AS (SELECT who, SUM(amount) AS s FROM sales WHERE place > 1 GROUP BY who HAVING COUNT(*) > 2 AND s > 1) "
    "SELECT COUNT(*) AS y FROM p",
    "SELECT SUM(z) AS y FROM (SELECT who AS w, 2 * MAX(place) + 1 AS z FROM sales GROUP BY who HAVING MAX(place) < 4) AS p",
    "SELECT SUM(z) AS y FROM (SELECT who, CASE WHEN COUNT(*) > 3 THEN SUM(place) ELSE -1 END AS z FROM sales GROUP BY 1)",
    "WITH p AS (SELECT who, place, COUNT(*) AS n FROM sales GROUP BY who, place), q AS (SELECT who, n * place AS k FROM p "
    "WHERE n > 1) SELECT SUM(k) AS y FROM q",
    "WITH p AS (SELECT who, place, COUNT(*) AS n FROM sales GROUP BY who, place), q AS (SELECT who, MAX(n) - MIN(n) AS d "
    "FROM p GROUP BY who HAVING COUNT(*) > 1) SELECT SUM(d) AS y FROM q",
    "SELECT COUNT(*) AS y FROM (SELECT who FROM sales GROUP BY who HAVING NOT (SUM(amount) > 3 OR COUNT(*) = 1))",
    "SELECT COUNT(*) AS y FROM (SELECT who AS p, COUNT(*) FROM sales GROUP BY p)",
]  # fmt: skip


MADE = [
    "SELECT m, SUM(s) AS y FROM (SELECT who, MONTH(day) AS m, SUM(amount) AS s FROM sales GROUP BY who, MONTH(day)) GROUP BY m",
    "SELECT m, COUNT(*) AS y FROM (SELECT who AS w, DATE_TRUNC('month', day)::DATE AS m, COUNT(*) AS n FROM sales GROUP BY 1, m "
    "HAVING n > 1) WHERE m < '2024-03-01' GROUP BY m",
    "SELECT m, COUNT(*) AS y FROM (SELECT who, FLOOR(amount / 4) * 10 AS m, MAX(place) AS k FROM sales GROUP BY ALL) GROUP BY m",
    "SELECT m, SUM(k) AS y FROM (SELECT who, UPPER(shop) AS m, COUNT(*) AS k FROM sales WHERE place > 1 GROUP BY who, UPPER(shop)) "
    "GROUP BY m",
    "SELECT m, COUNT(*) AS y FROM (SELECT who, ROUND(price / 9) / 4 AS m FROM sales GROUP BY who, m) WHERE m > 0.3 GROUP BY m",
    "SELECT m, COUNT(*) AS y FROM (SELECT DISTINCT who, amount > 2 AS m FROM sales) GROUP BY m",
    # a column goes before an alias
    "SELECT COUNT(*) AS y FROM (SELECT who, FLOOR(amount / 4) AS amount, COUNT(*) AS k FROM sales GROUP BY who, amount)",
    "SELECT SUM(d) AS y FROM (SELECT who, MAX(s) - MIN(s) AS d FROM (SELECT who, MONTH(day) + 1 AS m, SUM(price) AS s FROM sales "
    "GROUP BY who, MONTH(DAY)) WHERE m > 2 GROUP BY who)",
    "SELECT m, COUNT(*) AS y FROM (SELECT who, MODE(shop) AS m FROM sales GROUP BY who) GROUP BY m",
]  # fmt: skip


@pytest.mark.parametrize("sql", MADE)
def test_a_second_key_may_be_computed(sql, session, ducks):
    answer = session.query(sql, rho=1000).to_frame()
    found = {row[:-3]: row[-3] for row in answer.itertuples(index=False)}
    asked = sql.replace("MODE(shop)", "MODE() WITHIN GROUP (ORDER BY shop)")
    expected = {row[:-1]: row[-1] for row in ducks.execute(asked).fetchall() if row[0] is not None}
    shown = {
        tuple(str(k) if isinstance(k, date) else k for k in key): y for key, y in expected.items()
    }
    assert found.keys() == shown.keys()
    for key, value in shown.items():
        assert found[key] == pytest.approx(float(value), abs=1e-3)


LINKED = [
    "SELECT AVG(amount) AS y FROM sales WHERE who IN (SELECT who FROM sales GROUP BY who HAVING COUNT(*) > 4)",
    "SELECT COUNT(*) AS y FROM sales WHERE place = 1 AND who IN (SELECT who FROM sales WHERE shop = 'b')",
    "SELECT COUNT(DISTINCT who) AS y FROM sales s WHERE s.who IN (SELECT who FROM sales WHERE shop = 'b') AND s.who IN "
    "(SELECT z.who FROM sales z GROUP BY 1 HAVING SUM(place) > 5)",
    "WITH p AS (SELECT who, COUNT(*) AS n FROM sales GROUP BY who) SELECT SUM(n * place) AS y FROM p JOIN sales s "
    "ON p.who = s.who WHERE n > 2 AND s.shop = 'a'",
    "WITH p AS (SELECT who, COUNT(*) AS n FROM sales WHERE shop = 'a' GROUP BY who) SELECT COUNT(*) AS y FROM sales s LEFT "
    "JOIN p ON p.who = s.who WHERE n IS NULL",
    "WITH p AS (SELECT who, COUNT(*) AS n FROM sales WHERE shop = 'a' GROUP BY who), q AS (SELECT who, MAX(place) AS m FROM "
    "sales GROUP BY who) SELECT SUM(n - m) AS y FROM p JOIN q USING (who)",
    "SELECT SUM(n) AS y FROM (SELECT who, COUNT(*) AS n FROM sales WHERE who IN (SELECT who FROM sales GROUP BY who HAVING "
    "MAX(place) = 4) GROUP BY who) AS p",
]  # fmt: skip


@pytest.mark.parametrize("sql", LINKED)
def test_rows_with_the_lines_of_their_ids_are_what_duckdb_says(sql, session, ducks):
    value = session.query(sql, rho=1000).to_frame()["y"][0]
    assert value == pytest.approx(float(ducks.execute(sql).fetchone()[0]), abs=1e-3)


def test_rows_with_lines_have_the_unit_of_the_rows():
    lines = "(SELECT who, COUNT(*) AS n FROM sales GROUP BY who) AS p"
    one = parse(f"SELECT COUNT(*) FROM sales s JOIN {lines} ON s.who = p.who", TABLES)
    assert one.schema.unit == Unit("who", MOST)
    turned = parse(f"SELECT COUNT(*) FROM {lines} JOIN sales s ON s.who = p.who", TABLES)
    assert describe(turned) == describe(one)
    assert describe(read(describe(one), one.schema)) == describe(one)
    assert read_persons(one.table, TABLES).table().schema == one.schema


PLACES = "FROM (SELECT who, MAX(place) AS far, COUNT(*) AS n FROM sales GROUP BY who) AS p GROUP BY"


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (f"SELECT far, COUNT(*) AS y {PLACES} 1", ["far", "y"]),
        (f"SELECT far AS f, COUNT(*) AS y {PLACES} f", ["f", "y"]),
        (f"SELECT far % 2 AS f, COUNT(*) AS y {PLACES} far % 2", ["f", "y"]),
        (f"SELECT p.far % 2, SUM(n) {PLACES} ALL ORDER BY 2", ["far % 2", "sum_n"]),
        (f"SELECT far % 2 AS f, COUNT(*) AS y {PLACES} far % 2, far", ["far", "f", "y"]),
    ],
)
def test_each_key_is_shown_once_by_the_name_that_it_has(sql, names, session):
    columns = session.query(sql, rho=1000).to_frame().columns
    assert [name for name in columns if not name.endswith(("_low", "_high"))] == names


@pytest.mark.parametrize("sql", COMPUTED)
def test_what_is_computed_from_a_line_is_what_duckdb_says(sql, session, ducks):
    value = session.query(sql, rho=1000).to_frame()["y"][0]
    assert value == pytest.approx(float(ducks.execute(sql).fetchone()[0]), abs=1e-3)


def test_having_is_a_condition_on_lines():
    inner = "SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM sales GROUP BY who{}) AS p{}"
    one = parse(inner.format(" HAVING COUNT(*) > 3", ""), TABLES)
    for other in (inner.format("", " WHERE n > 3"), inner.format(" HAVING n >= 4", " WHERE n > 2")):
        assert describe(parse(other, TABLES)) == describe(one)


def test_levels_are_nested(session, ducks):
    sql = (
        "SELECT AVG(most) AS y FROM (SELECT who, MAX(s) AS most FROM (SELECT who, place, SUM(price) AS s "
        "FROM sales GROUP BY who, place) AS q WHERE s > 10 GROUP BY who) AS p"
    )
    assert session.query(sql, rho=1000).to_frame()["y"][0] == pytest.approx(
        ducks.execute(sql).fetchone()[0], abs=1e-3
    )


class TestPublicFacts:
    @pytest.mark.parametrize(
        ("feature", "kind", "complete"),
        [
            ("COUNT(*)", Integer(1, 8), True),
            ("COUNT(*) FILTER (WHERE place = 1)", Integer(0, 8), True),
            ("COUNT(amount)", Integer(0, 8), True),
            ("COUNT(price)", Integer(1, 8), True),
            ("COUNT(DISTINCT shop)", Integer(0, 3), True),
            ("COUNT(DISTINCT place)", Integer(1, 4), True),
            ("COUNT(DISTINCT day)", Integer(0, 8), True),
            ("SUM(amount)", Integer(-40, 80), False),
            ("SUM(place)", Integer(1, 32), True),
            ("SUM(place) FILTER (WHERE amount > 0)", Integer(0, 32), False),
            ("SUM(price)", Real(0, 512), True),
            ("SUM(0 - place)", Integer(-32, -1), True),
            ("AVG(amount)", Real(-5, 10), False),
            ("MIN(place)", Integer(1, 4), True),
            ("MAX(day)", Date("2024-01-01", "2024-03-31"), False),
            ("MEDIAN(place)", Real(1, 4), True),
            ("ANY_VALUE(shop)", Category(["a", "b", "c"]), False),
            ("FIRST(place ORDER BY amount)", Integer(1, 4), True),
            ("ARG_MAX(place, amount)", Integer(1, 4), False),
            ("BOOL_OR(amount > 3)", Boolean(), False),
            ("MODE(shop)", Category(["a", "b", "c"]), False),
            ("MODE(place)", Integer(1, 4), True),
        ],
    )
    def test_bounds_follow_from_those_of_the_rows(self, feature, kind, complete):
        sql = f"SELECT COUNT(*) FROM (SELECT who, {feature} AS x FROM sales GROUP BY who) AS p"
        schema = parse(sql, TABLES).schema
        names = [name for name in schema if feature == "COUNT(*)" or name != "count(*)"]
        assert schema[names[0]] == kind
        assert (names[0] in schema.complete) == complete

    def test_conditions_narrow_them(self):
        def bounds(feature, where):
            sql = f"SELECT COUNT(*) FROM (SELECT who, {feature} AS x FROM sales {where} GROUP BY who) AS p"
            (kind,) = [one for name, one in parse(sql, TABLES).schema.items() if name != "count(*)"]
            return kind.low, kind.high

        assert bounds("SUM(price)", "") == (0, 512)
        assert bounds("SUM(price)", "WHERE price <= 10") == (0, 80)
        assert bounds("SUM(amount) FILTER (WHERE amount BETWEEN 2 AND 3)", "") == (0, 24)
        assert (
            bounds("AVG(price) FILTER (WHERE place = 1)", "WHERE price > 32 AND price < 48")[0] > 32
        )
        assert bounds("SUM(CASE WHEN place > 1 THEN 1 ELSE 0 END)", "") == (0, 8)

    def test_a_person_has_one_row_or_one_for_each_value_of_a_key(self):
        def unit(by, most):
            sql = f"SELECT COUNT(*) FROM (SELECT {by} FROM sales GROUP BY {by}) AS p"
            return parse(sql, {"sales": table(most)}).schema.unit

        assert unit("who", 8) == Unit("who", 1)
        # a missing shop is a group of its own
        assert unit("who, shop", 8) == Unit("who", 4)
        assert unit("who, shop", 3) == Unit("who", 3)
        assert unit("who, shop, place", 200) == Unit("who", 16)
        assert unit("who, MONTH(day)", 8) == Unit("who", 4)
        assert unit("who, place // 2, place > 1", 80) == Unit("who", 6)

    @pytest.mark.parametrize(
        ("key", "where", "complete"),
        [
            ("place % 3", "", True),
            ("amount % 3", "", False),
            ("COALESCE(amount, 0)", "", True),
            ("CASE WHEN place > 2 THEN 1 END", "", False),
            ("CASE WHEN place > 2 THEN 1 END", "WHERE place = 4", True),
        ],
    )
    def test_a_key_that_may_be_missing_is_no_complete_column(self, key, where, complete):
        sql = f"SELECT COUNT(*) FROM (SELECT who, {key} AS k FROM sales {where} GROUP BY 1, 2) AS p"
        schema = parse(sql, TABLES).schema
        assert (set(schema.complete) == {*schema}) == complete

    def test_the_name_is_the_definition(self):
        sql = "SELECT COUNT(*) FROM (SELECT who, SUM(amount) AS s FROM sales WHERE place > 2 GROUP BY who) AS p"
        name = parse(sql, TABLES).table
        assert is_persons(name)
        assert origin(name) == "sales"
        assert shown_name(name) == "sales by who"
        assert kept_rows(name) == MOST
        assert definition_of(name)["where"] == ["place", [[3, 4]], False]
        assert definition_of(name)["features"] == [
            ["count", None, {"and": []}], ["sum", "amount", {"and": []}],
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "key", ["", ", MONTH(day)", ", price > 3, UPPER(shop)", ", ROUND(price) / 4"]
    )
    def test_statements_are_read_back_from_the_ledger(self, key):
        sql = f"SELECT n, AVG(s) FROM (SELECT who, SUM(amount) AS s, COUNT(*) AS n FROM sales GROUP BY who{key}) AS p GROUP BY n"
        query = parse(sql, TABLES)
        assert describe(read(describe(query), query.schema)) == describe(query)
        assert persons_in(sql).table().schema == query.schema


class TestIdentity:
    ONE = "SELECT COUNT(*) AS k FROM (SELECT who, SUM(amount) AS s, COUNT(*) AS n FROM sales GROUP BY who) AS p WHERE n > 2"

    @pytest.mark.parametrize(
        "other",
        [
            "SELECT COUNT(*) AS z FROM (SELECT who, COUNT(*) AS orders, SUM(amount) AS spent FROM sales GROUP BY who) "
            "AS q WHERE orders >= 3",
            "SELECT COUNT(*) FROM (SELECT SUM(Amount) AS s, COUNT(who) AS n FROM SALES GROUP BY who) AS p WHERE NOT n <= 2",
            "SELECT COUNT(*) FROM (SELECT who, SUM(amount) AS s, SUM(amount) AS t, COUNT(1) AS n FROM sales GROUP BY who) "
            "AS p WHERE p.n > 2",
        ],
    )
    def test_equal_meanings_are_one(self, other):
        assert describe(parse(other, TABLES)) == describe(parse(self.ONE, TABLES))

    @pytest.mark.parametrize(
        "other",
        [
            ONE.replace("n > 2", "n > 3"),
            ONE.replace("SUM(amount)", "SUM(2 * amount)"),
            ONE.replace("GROUP BY who", "WHERE amount > -5 GROUP BY who"),
            "SELECT COUNT(*) AS k FROM sales",
        ],
    )
    def test_other_meanings_are_another(self, other):
        assert describe(parse(other, TABLES)) != describe(parse(self.ONE, TABLES))


def test_results_are_called_as_the_columns_of_the_query(session):
    frame = session.query(
        "SELECT AVG(spent), SUM(n), COUNT(*) FROM (SELECT who, SUM(amount) AS spent, COUNT(*) AS n FROM sales "
        "GROUP BY who) AS p GROUP BY n",
        rho=1000,
    ).to_frame()
    assert [c for c in frame.columns if not c.endswith(("_low", "_high"))] == [
        "n", "avg_spent", "sum_n", "count",
    ]  # fmt: skip


OF = "SELECT COUNT(*) FROM (SELECT who, {} FROM sales GROUP BY who) AS p"
REFUSED = [
    (OF.format("LIST(amount) AS x"), "this is not a value of one id's rows", "LIST(amount)"),
    (OF.format("STRING_AGG(shop, ',') AS x"), "this is not a value of one id's rows", "shop, ','"),
    (OF.format("FIRST(amount) AS x"), "rows have no order of their own", "FIRST"),
    (OF.format("ANY_VALUE(amount ORDER BY amount) AS x"), "ANY_VALUE has no order here", "ANY_VALUE"),
    (OF.format("MIN(shop) AS x"), "categories have no order", "shop"),
    (OF.format("amount"), "'amount' is not in GROUP BY", "amount"),
    (OF.format("SUM(who) AS x"), "'who' is the column of the privacy unit", "who"),
    (OF.format("ROW_NUMBER() OVER () AS x"), "window functions", "ROW_NUMBER"),
    ("SELECT who, COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM sales GROUP BY who) AS p GROUP BY who",
     "'who' is the column of the privacy unit", "who"),
    ("SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM sales GROUP BY who) AS p WHERE who = 3",
     "'who' is the column of the privacy unit", "who"),
    ("SELECT SUM(n) FROM (SELECT who, COUNT(*) AS n FROM sales GROUP BY who LIMIT 3) AS p",
     "LIMIT is not supported in a query with one row for each id", ""),
    ("SELECT COUNT(*) FROM sales WHERE who IN (SELECT who FROM others WHERE k > 1)",
     "these are ids of 'others', which cannot be looked up from 'sales'", ""),
    ("SELECT COUNT(*) FROM sales JOIN (SELECT who, place FROM sales GROUP BY who, place) AS p ON sales.who = p.who",
     "'p' may have several rows of one id", ""),
    ("SELECT COUNT(*) FROM sales WHERE place = 1 OR who NOT IN (SELECT who FROM sales)",
     "a list of ids can stand beside other conditions with AND only", "who NOT IN"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT ON (who) who, amount FROM sales) AS p",
     "DISTINCT ON keeps any of several rows", "DISTINCT"),
    ("SELECT COUNT(*) FROM sales WHERE who IN (SELECT DISTINCT ON (place) who FROM sales)",
     "DISTINCT ON keeps any of several rows", "DISTINCT"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT who, COUNT(*) AS n FROM sales GROUP BY who, place) AS p",
     "DISTINCT would drop equal rows of one id", "DISTINCT"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT who, place > 2 AS n FROM sales GROUP BY who, place) AS p",
     "DISTINCT would drop equal rows of one id", "DISTINCT"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT who, COUNT(*) + 1 AS n FROM sales GROUP BY who, place % 2) AS p",
     "DISTINCT would drop equal rows of one id", "DISTINCT"),
    ("SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM rows GROUP BY who) AS p",
     "'rows' protects a row", ""),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "what", "shown"), REFUSED, ids=[sql for sql, *_ in REFUSED])
def test_refused_with_its_place(sql, what, shown):
    rows = Table("rows", None, Schema({"who": Integer(1, 9)}))
    others = Table("others", None, Schema({"k": Integer(1, 9)}), Unit("who", max_rows=3))
    with pytest.raises(SqlError, match=what) as caught:
        parse(sql, {**TABLES, "rows": rows, "others": others})
    assert shown in str(caught.value)
    assert caught.value.hint


def test_what_the_number_of_kept_rows_settles_is_said():
    two = {"sales": table(2)}
    sql = "SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS orders FROM sales GROUP BY who) AS p WHERE orders >= 3"
    with pytest.raises(SqlError) as caught:
        parse(sql, two)
    assert "'orders' is never so: it goes from 1 to 2" in caught.value.what
    assert "At most 2 rows of each id are kept" in caught.value.hint
    assert parse(sql, {"sales": table(3)})


def test_the_answer_says_how_many_rows_of_a_person_count(session):
    answer = session.query(TestIdentity.ONE, rho=1000)
    assert "at most 8 kept; further rows do not count" in repr(answer)


def test_sessions_answer_again_and_compare(session):
    sql = (
        "SELECT n, COUNT(*) AS k FROM (SELECT who, COUNT(*) AS n FROM sales GROUP BY who) AS p "
        "GROUP BY n"
    )
    first = session.query(sql, rho=7)
    again = session.query(
        sql.replace(" AS n", " AS orders").replace("n,", "orders,").replace("BY n", "BY orders"),
        rho=7,
    )
    assert list(first.to_frame()["k"]) == list(again.to_frame()["k"])
    assert again.spent.rho == 0
    question = first.compare(1, 2)
    assert question.valid in (True, False)
