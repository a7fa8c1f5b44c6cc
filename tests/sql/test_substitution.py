"""CTEs and subqueries in FROM mean what DuckDB says, and are the same requests as flat statements."""

from __future__ import annotations

from contextlib import closing

import duckdb
import pytest
from sqlglot import expressions as exp

from dpnb import Budget, Curator, DpnbError, Table, Unit
from dpnb.errors import SqlError
from dpnb.sql.canonical import describe
from dpnb.sql.parser import parse
from dpnb.sql.source import Source
from dpnb.sql.substitution import substituted
from tests.kit.noise import NoNoise
from tests.kit.subqueries import COLUMNS, ITEMS, SALES, TABLES, Statements, database

pytestmark = pytest.mark.fast

FLAT = [
    # names
    ("WITH t AS (SELECT * FROM sales WHERE a > 3) SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM sales WHERE a > 3"),
    ("WITH sales AS (SELECT * FROM sales WHERE a > 3) SELECT COUNT(*) FROM sales", "SELECT COUNT(*) FROM sales WHERE a > 3"),
    ("WITH t AS (SELECT a AS b, b AS a FROM sales) SELECT SUM(a) AS r FROM t", "SELECT SUM(b) AS r FROM sales"),
    ("SELECT SUM(d) AS r FROM (SELECT a AS d FROM sales)", "SELECT SUM(a) AS r FROM sales"),
    ("WITH t(d, e) AS (SELECT a, b FROM sales) SELECT SUM(e) AS r FROM t", "SELECT SUM(b) AS r FROM sales"),
    ("WITH t AS (SELECT a, b FROM sales) SELECT SUM(e) AS r FROM t AS s(d, e)", "SELECT SUM(b) AS r FROM sales"),
    ("SELECT SUM(e) AS r FROM (SELECT a, b FROM sales) AS s(d, e)", "SELECT SUM(b) AS r FROM sales"),
    ("WITH T AS (SELECT a AS \"Odd name\" FROM sales) SELECT SUM(\"odd NAME\") AS r FROM t", "SELECT SUM(a) AS r FROM sales"),
    ("SELECT SUM(x.a) AS r FROM (SELECT * EXCLUDE (b) FROM sales) AS x WHERE X.K = 1", "SELECT SUM(a) AS r FROM sales WHERE k = 1"),
    ("SELECT SUM(a) AS r FROM (SELECT * REPLACE (a + 1 AS a) FROM sales)", "SELECT SUM(a + 1) AS r FROM sales"),
    ("SELECT SUM(d) AS r FROM (SELECT * RENAME (a AS d) FROM sales)", "SELECT SUM(a) AS r FROM sales"),
    ("SELECT SUM(a_1) AS r FROM (SELECT *, b AS a FROM sales)", "SELECT SUM(b) AS r FROM sales"),
    ("WITH t AS (SELECT a AS d, d + 1 AS e FROM sales WHERE d > 3) SELECT SUM(e) AS r FROM t", "SELECT SUM(a + 1) AS r FROM sales WHERE a > 3"),
    ("WITH t AS (WITH t AS (SELECT a AS x FROM sales) SELECT x AS y FROM t) SELECT SUM(y) AS r FROM t", "SELECT SUM(a) AS r FROM sales"),
    ("WITH s AS (SELECT * FROM sales WHERE a > 3), t AS (SELECT * FROM s WHERE b > 3) SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM sales WHERE a > 3 AND b > 3"),
    ("WITH unused AS (SELECT a FROM sales) SELECT COUNT(*) FROM sales", "SELECT COUNT(*) FROM sales"),
    ("SELECT COUNT(DISTINCT id) FROM (SELECT * FROM sales WHERE a > 3)", "SELECT COUNT(DISTINCT id) FROM sales WHERE a > 3"),
    ("WITH least AS (SELECT 3 AS n) SELECT COUNT(*) FROM sales, least WHERE a > n", "SELECT COUNT(*) FROM sales WHERE a > 3"),
    # results keep the names of the outer statement, which aliases do not hide
    ("SELECT d, COUNT(*) AS n FROM (SELECT c AS d FROM sales) GROUP BY d ORDER BY d", "SELECT c AS d, COUNT(*) AS n FROM sales GROUP BY c ORDER BY d"),
    ("SELECT c AS a, SUM(d) AS c FROM (SELECT c, a AS d FROM sales) GROUP BY c ORDER BY c", "SELECT c AS a, SUM(a) AS c FROM sales GROUP BY sales.c ORDER BY SUM(a)"),
    ("SELECT k AS a, COUNT(*) AS n FROM (SELECT k FROM sales) GROUP BY a", "SELECT k AS a, COUNT(*) AS n FROM sales GROUP BY k"),
    ("SELECT COUNT(*) AS n, n // 2 AS h FROM (SELECT a FROM sales)", "SELECT COUNT(*) AS n, COUNT(*) // 2 AS h FROM sales"),
    # clauses
    ("SELECT COUNT(*) FROM (SELECT a FROM sales ORDER BY b DESC)", "SELECT COUNT(*) FROM sales"),
    ("WITH t AS MATERIALIZED (SELECT * FROM sales) SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM sales"),
    # joins
    ("WITH t AS (SELECT b, price FROM sales JOIN items USING (k)) SELECT AVG(price) AS r FROM t", None),
    ("SELECT AVG(price) AS r FROM sales, items WHERE sales.k = items.k", "SELECT AVG(price) AS r FROM sales JOIN items USING (k)"),
    ("SELECT AVG(price) AS r FROM items CROSS JOIN sales WHERE sales.k = items.k", "SELECT AVG(price) AS r FROM sales JOIN items USING (k)"),
    ("SELECT AVG(price) AS r FROM sales s, items i WHERE (s.k = i.k AND b = 1) OR (s.k = i.k AND b = 2)",
     "SELECT AVG(price) AS r FROM sales s JOIN items i ON s.k = i.k WHERE b IN (1, 2)"),
    ("SELECT AVG(price) AS r FROM sales s JOIN items i ON s.k = i.k AND price > 3",
     "SELECT AVG(price) AS r FROM sales s JOIN items i ON s.k = i.k WHERE price > 3"),
    ("SELECT AVG(p) AS r FROM sales s JOIN (SELECT k, price AS p FROM items WHERE price > 3) i ON s.k = i.k",
     "SELECT AVG(price) AS r FROM sales s JOIN items i ON s.k = i.k WHERE price > 3"),
    ("SELECT AVG(p) AS r FROM (SELECT * FROM sales WHERE b > 3) LEFT JOIN (SELECT k, price AS p FROM items) USING (k)",
     "SELECT AVG(price) AS r FROM sales LEFT JOIN items USING (k) WHERE b > 3"),
    ("WITH t AS (SELECT * FROM sales LEFT JOIN items USING (k)) SELECT COUNT(price) AS r FROM t WHERE b > 3",
     "SELECT COUNT(price) AS r FROM sales s LEFT JOIN items i ON s.k = i.k WHERE s.b > 3"),
    ("SELECT COUNT(*) FROM (sales JOIN items USING (k)) WHERE price > 3", "SELECT COUNT(*) FROM sales JOIN items USING (k) WHERE price > 3"),
]  # fmt: skip


def flat(text):
    """Return the statement with its subqueries put in, and whether that changed it."""
    source = Source(text)
    tree = source.tree()
    result = substituted(source, TABLES, tree)
    return result, result is not tree


class TestMeaning:
    @pytest.mark.parametrize(("text", "plain"), [case for case in FLAT if case[1]])
    def test_a_subquery_is_the_same_request_as_the_flat_statement(self, text, plain):
        assert describe(parse(text, TABLES)) == describe(parse(plain, TABLES))

    @pytest.mark.parametrize("text", [text for text, _ in FLAT])
    def test_it_has_the_rows_of_duckdb(self, text):
        connection = database()
        text = text.replace("ORDER BY c", "ORDER BY 2")
        tree, _ = flat(text)
        assert rows(connection, tree.sql(dialect="duckdb")) == rows(connection, text)

    def test_generated_statements_have_the_rows_of_duckdb(self):
        connection, equal = database(), 0
        for seed in range(250):
            text = Statements(seed).statement()
            try:
                expected = rows(connection, text)
                tree, changed = flat(text)
            except (duckdb.Error, SqlError) as error:
                assert (
                    isinstance(error, duckdb.Error)
                    or "LEFT JOIN" in error.what
                    or "ON" in error.what
                )
                continue
            keys = [key for group in tree.find_all(exp.Group) for key in group.expressions]
            if changed and all(key.find(exp.Column) for key in keys):
                assert rows(connection, tree.sql(dialect="duckdb")) == expected, text
                assert tree.find(exp.Subquery, exp.With) is None
                equal += 1
        assert equal > 150

    def test_a_second_use_is_a_second_table(self):
        tree, _ = flat(
            "WITH t AS (SELECT a AS x, k FROM sales) SELECT SUM(s.x) FROM t s, t u WHERE s.k = u.k"
        )
        assert [table.alias_or_name for table in tree.find_all(exp.Table)] == ["sales", "sales_2"]

    def test_queries_that_aggregate_stay_and_are_flat(self):
        tree, _ = flat(
            "WITH t AS (SELECT a AS x, c FROM sales WHERE b > 1), n AS (SELECT c, SUM(x) AS s FROM t GROUP BY c) "
            "SELECT c, s * 2 AS d FROM (SELECT * FROM n WHERE s > 3)"
        )
        assert tree.sql(dialect="duckdb").replace('"', "") == (
            "SELECT n.c, n.s * 2 AS d FROM (SELECT sales.c, SUM(sales.a) AS s FROM sales "
            "WHERE sales.b > 1 GROUP BY sales.c) AS n WHERE n.s > 3"
        )

    def test_without_subqueries_nothing_changes(self):
        assert not flat("SELECT COUNT(*) FROM sales JOIN items USING (k) WHERE a > 1")[1]

    def test_a_computed_column_of_a_left_join_is_missing_without_a_match(self):
        text = (
            "SELECT COUNT(f) AS n, SUM(g) AS s FROM sales LEFT JOIN "
            "(SELECT k, 1 AS f, COALESCE(price, 5) AS g FROM items) AS i ON sales.k = i.k"
        )
        connection = database()
        tree, _ = flat(text)
        assert rows(connection, tree.sql(dialect="duckdb")) == rows(connection, text)

    def test_names_differ_by_case_in_ascii_alone(self):
        connection = database()
        text = 'SELECT SUM("ä") AS r FROM (SELECT a AS "ä", b AS "Ä" FROM sales)'
        assert rows(connection, flat(text)[0].sql(dialect="duckdb")) == rows(connection, text)


REFUSED = [
    # what more than filters and computes
    ("SELECT SUM(a) FROM (SELECT a FROM sales LIMIT 3)", "LIMIT in a subquery keeps some rows", "LIMIT"),
    ("SELECT SUM(a) FROM (SELECT a FROM sales ORDER BY a OFFSET 3)", "OFFSET in a subquery", "OFFSET"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales USING SAMPLE 3)", "sampling is not supported", "SAMPLE"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales TABLESAMPLE 10%)", "sampling is not supported", None),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales) TABLESAMPLE 10%", "sampling is not supported", None),
    ("SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER () AS r FROM sales)", "window functions over rows", "ROW_NUMBER()"),
    ("SELECT COUNT(*) FROM (SELECT a FROM sales QUALIFY ROW_NUMBER() OVER (ORDER BY a) = 1)", "QUALIFY in a subquery", "QUALIFY"),
    ("WITH RECURSIVE x AS (SELECT a FROM sales UNION ALL SELECT a FROM x) SELECT COUNT(*) FROM x", "recursive CTEs", "RECURSIVE"),
    ("WITH x AS (INSERT INTO sales VALUES (1)) SELECT COUNT(*) FROM sales", "only SELECT can follow AS in WITH", "x"),
    ("WITH x AS (DELETE FROM sales) SELECT COUNT(*) FROM sales", "only SELECT can follow AS in WITH", "x"),
    ("SELECT COUNT(*) FROM sales s, LATERAL (SELECT s.a + 1 AS r)", "LATERAL is not supported", None),
    ("SELECT COUNT(*) FROM sales s, (SELECT s.a + 1 AS r) x", "unknown table 's'", "s.a"),
    ("SELECT COUNT(*) FROM sales s, (SELECT a + 1 AS r) x", "unknown column 'a'", "a"),
    ("SELECT COUNT(*) FROM (PIVOT sales ON c USING SUM(a))", "PIVOT is not supported", None),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales ASOF JOIN items USING (k))", "ASOF JOIN", "items"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales NATURAL JOIN items)", "NATURAL JOIN", "items"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales POSITIONAL JOIN items)", "POSITIONAL JOIN", "items"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales SEMI JOIN items USING (k))", "SEMI JOIN", "items"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales FULL JOIN items USING (k))", "FULL JOIN", "items"),
    ("SELECT COUNT(*) FROM (SELECT * FROM read_csv('/etc/passwd'))", "table functions", "read_csv('/etc/passwd')"),
    ("SELECT COUNT(*) FROM (SELECT * FROM '/etc/passwd')", "unknown table '/etc/passwd'", "'/etc/passwd'"),
    ("SELECT COUNT(*) FROM (SELECT * FROM main.sales)", "only a declared table", "main.sales"),
    ("SELECT COUNT(*) FROM (SELECT * FROM information_schema.tables)", "only a declared table", None),
    ("SELECT COUNT(*) FROM (SELECT a FROM sales LEFT JOIN (SELECT * FROM items WHERE price > 3) i USING (k))",
     "a LEFT JOIN with a subquery that joins or filters", None),
    # values that are not a function of one row, also where nobody uses them
    *(
        (f"WITH x AS (SELECT a, {value} AS y FROM sales) SELECT COUNT(*) FROM x", f"{word} cannot be computed", None)
        for value, word in [
            ("RANDOM()", "RANDOM"), ("NOW()", "NOW"), ("CURRENT_DATE", "CURRENT_DATE"), ("UUID()", "UUID"), ("getenv('HOME')", "GETENV"),
            ("current_setting('threads')", "CURRENT_SETTING"), ("nextval('s')", "NEXTVAL"), ("unnest([1, 2])", "UNNEST"),
            ("favg(a)", "FAVG"), ("histogram(a)", "HISTOGRAM"), ("entropy(a)", "ENTROPY"), ("COLUMNS(*)", "COLUMNS"),
            ("list_transform([a], lambda v: v)", "LIST_TRANSFORM"), ("my_macro(a)", "MY_MACRO"), ("error('a')", "ERROR"),
            ("read_text('/etc/passwd')", "READ_TEXT"), ("setseed(0.5)", "SETSEED"), ("pg_sleep(a)", "PG_SLEEP"),
        ]
    ),
    ("SELECT COUNT(*) FROM (SELECT a FROM sales ORDER BY RANDOM())", "RANDOM cannot be computed", "RANDOM()"),
    # names
    ("SELECT COUNT(*) FROM (SELECT a FROM sales) WHERE b = 1", "unknown column 'b'", "b"),
    ("SELECT COUNT(*) FROM (SELECT a AS d FROM sales) WHERE a = 1", "unknown column 'a'", "a"),
    ("SELECT x.a FROM (SELECT a FROM sales x)", "unknown table 'x'", "x.a"),
    ("SELECT COUNT(*) FROM (SELECT a FROM sales) y WHERE x.a > 3", "unknown table 'x'", "x.a"),
    ("WITH x AS (SELECT a FROM y), y AS (SELECT a FROM sales) SELECT COUNT(*) FROM x", "unknown table 'y'", "y"),
    ("WITH unused AS (SELECT nope FROM sales) SELECT COUNT(*) FROM sales", "unknown column 'nope'", "nope"),
    ("WITH x(p, q) AS (SELECT * FROM sales) SELECT SUM(p) FROM x", "the order of the columns", "p"),
    ("WITH x(p, q) AS (SELECT a FROM sales) SELECT SUM(p) FROM x", "more names than columns", "q"),
    ("SELECT SUM(a) FROM (SELECT * EXCLUDE (nope) FROM sales)", "unknown column 'nope'", None),
    ("SELECT SUM(a) FROM (SELECT * EXCLUDE (a) FROM sales)", "unknown column 'a'", "a"),
    ("SELECT SUM(a) FROM (SELECT s.a, i.a FROM sales s JOIN items i USING (k)) x, (SELECT a FROM items) y", "several tables have a column 'a'", "a"),
    ("WITH x AS (SELECT 1 AS one) SELECT COUNT(*) FROM x", "FROM names no table", None),
    # places
    ("WITH x AS (SELECT a / 0 AS z FROM sales) SELECT AVG(z) FROM x", "this divides by 0", "z"),
    ("WITH x AS (SELECT c AS z FROM sales WHERE b > 1) SELECT AVG(z) FROM x", "has texts, not numbers", "AVG(z)"),
    ("SELECT * FROM (SELECT a FROM sales)", "rows cannot be listed", "*"),
    # joins
    ("SELECT COUNT(*) FROM sales, items", "a join needs a condition", "items"),
    ("SELECT COUNT(*) FROM sales, items WHERE sales.k < items.k", "a join needs a condition", "items"),
    ("SELECT COUNT(*) FROM (SELECT * FROM sales), (SELECT * FROM sales) s", "a join needs a condition", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "shown"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused_with_reason_and_place(text, what, shown):
    with pytest.raises(SqlError) as caught:
        parse(text, TABLES)
    assert what in caught.value.what
    assert caught.value.hint
    assert shown is None or caught.value.text == shown


@pytest.mark.parametrize("times", [10, 18])
def test_statements_that_grow_are_refused(times):
    parts = ["x0 AS (SELECT a FROM sales)"]
    parts += [f"x{i + 1} AS (SELECT a + a AS a FROM x{i})" for i in range(times)]
    with pytest.raises(SqlError, match="more than 2,000 parts"):
        parse(f"WITH {', '.join(parts)} SELECT SUM(a) FROM x{times}", TABLES)


@pytest.fixture(scope="module")
def curator():
    connection = database()
    frames = {name: connection.sql(f"SELECT * FROM {name}").df() for name in COLUMNS}
    numbers = {
        name: frame.select_dtypes("number").astype("Int64") for name, frame in frames.items()
    }
    tables = [
        Table("sales", frames["sales"].assign(**numbers["sales"]), SALES, Unit("id", 9)),
        Table("items", numbers["items"], ITEMS, public=True, key="k"),
    ]
    with closing(Curator(tables, budget=Budget(rho=1e6), noise=NoNoise())) as curator:
        yield curator


def test_a_cte_and_its_flat_form_are_one_release(curator):
    nested = "WITH t AS (SELECT a AS d, k FROM sales WHERE b > 2) SELECT SUM(d) AS s FROM t JOIN items USING (k)"
    plain = "SELECT SUM(sales.a) AS s FROM sales, items WHERE b > 2 AND items.k = sales.k"
    session = curator.session()
    first, second = (session.query(text, rho=0.1) for text in (nested, plain))
    assert first.to_frame(cut=False).equals(second.to_frame(cut=False))
    assert second.spent.rho == 0


def test_generated_statements_have_the_numbers_of_duckdb(curator):
    connection, session, equal = database(), curator.session(), 0
    for seed in range(1_000, 1_300):
        text = Statements(seed).statement()
        if "GROUP BY" in text or "HAVING" in text:
            continue
        try:
            (expected,) = connection.execute(text).fetchall()
            answer = session.query(text, rho=1).to_frame(cut=False)
        except (duckdb.Error, SqlError):
            continue
        # a sum of nothing is 0
        found = [answer[f"r{i}"][0] for i in range(len(expected))]
        assert found == pytest.approx([float(value or 0) for value in expected]), text
        equal += 1
    assert equal > 10


@pytest.mark.parametrize(
    "text",
    [
        "WITH t AS (SELECT b AS x FROM sales) SELECT SUM(x) FROM t",
        "SELECT x, COUNT(*) FROM (SELECT b AS x FROM sales) GROUP BY x",
        "SELECT COUNT(*) FROM (SELECT a FROM sales WHERE b > 3)",
        "SELECT COUNT(*) FROM sales WHERE b IN (SELECT k FROM items)",
        "SELECT SUM(n) FROM sales JOIN (SELECT a AS x, COUNT(*) AS n FROM items GROUP BY a) AS i ON b = x",
    ],
)
def test_limits_of_columns_hold_under_every_name(curator, text):
    curator.limit(table="sales", column="b", rho=0)
    try:
        with pytest.raises(DpnbError, match="limit"):
            curator.session().query(text, rho=1)
    finally:
        curator.limit(table="sales", column="b", rho=1e6)


def rows(connection, text):
    return sorted(connection.execute(text).fetchall(), key=repr)
