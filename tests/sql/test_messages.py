"""What people write that has no answer: each message says what to write instead, and that runs."""

from __future__ import annotations

import re

import pandas as pd
import pytest
import sqlglot

from dpnb import Budget, Category, Date, Integer, Real, Schema, Session, Table, Unit
from dpnb.errors import SqlError
from dpnb.sql.parser import parse

pytestmark = pytest.mark.fast

CITY = Category(["Paris", "Bern", "Pisa", "Others"], other="Others")
PEOPLE = Schema(
    {
        "age": Integer(0, 90, bins=[0, 30, 60, 90]), "wage": Integer(0, 5000), "sex": Category(["F", "M"]),
        "city": CITY, "day": Date("2024-01-01", "2024-12-31"), "r": Real(0, 10),
    }
)  # fmt: skip
TABLES = {
    "t": Table("t", None, PEOPLE, Unit("id", max_rows=3)),
    "p": Table("p", None, Schema({"city": CITY, "land": Category(["F", "CH"])}), public=True, key="city"),
}  # fmt: skip
PLACES = [
    # what is written, the part that is marked, and the beginning of the message
    ("SELECT string_agg(city, ',') FROM t", "string_agg(city, ',')", "STRING_AGG would list"),
    ("SELECT sex, LIST(age) FROM t WHERE age > 3 GROUP BY sex", "LIST(age)", "LIST would list"),
    ("SELECT ARRAY_AGG(DISTINCT city) FROM t", "ARRAY_AGG(DISTINCT city)", "ARRAY_AGG would list"),
    ("SELECT ANY_VALUE(age) FROM t", "ANY_VALUE(age)", "ANY_VALUE would show"),
    ("SELECT ANY_VALUE(r) FROM t", "ANY_VALUE(r)", "ANY_VALUE would show"),
    ("SELECT ARG_MAX(city, wage) FROM t", "ARG_MAX(city, wage)", "ARG_MAX would show"),
    ("SELECT MODE(city) FROM t", "MODE(city)", "MODE is not supported"),
    ("SELECT HISTOGRAM(LEFT(city, 1)) FROM t", "HISTOGRAM(LEFT(city, 1))", "HISTOGRAM is not"),
    ("SELECT CORR(age, wage) FROM t", "CORR(age, wage)", "CORR is not supported"),
    ("SELECT COVAR_POP(age, wage) FROM t", "COVAR_POP(age, wage)", "COVAR_POP is not"),
    ("SELECT REGR_SLOPE(age, wage) FROM t", "REGR_SLOPE(age, wage)", "REGR_SLOPE is not"),
    ("SELECT MIN(wage) FROM t", "MIN(wage)", "MIN and MAX cannot be answered"),
    ("SELECT MAX(r) FROM t", "MAX(r)", "MIN and MAX cannot be answered"),
    ("SELECT MAX(day) FROM t", "MAX(day)", "MIN and MAX cannot be answered"),
    ("SELECT MIN(age + wage) FROM t", "MIN(age + wage)", "MIN and MAX cannot be answered"),
    ("SELECT BOOL_OR(age > 3) FROM t", "BOOL_OR(age > 3)", "BOOL_OR cannot be answered"),
    ("SELECT AVG(day) FROM t", "AVG(day)", "'day' has dates, not numbers"),
    ("SELECT AVG(sex) FROM t", "AVG(sex)", "'sex' has texts, not numbers"),
    ("SELECT SUM(city) FROM t", "SUM(city)", "'city' has texts, not numbers"),
    ("SELECT SUM(DISTINCT age) FROM t", "SUM(DISTINCT age)", "single rows decide SUM(DISTINCT"),
    ("SELECT COUNT(DISTINCT sex, city) FROM t", "COUNT(DISTINCT sex, city)", "COUNT(DISTINCT) takes"),
    ("SELECT SUM(NULL) FROM t", "NULL", "this expression is NULL in every row"),
    ("SELECT SUM(CASE WHEN FALSE THEN age END) FROM t", "CASE WHEN FALSE THEN age END", "this expression is NULL"),
    ("SELECT SUM(age * 0) FROM t", "age * 0", "this expression is 0 in every row"),
    ("SELECT SUM(1 // age) FROM t", "1 // age", "this has no finite result for age = 0"),
    ("SELECT SUM(1 // age) FROM t WHERE age >= 0", "1 // age", "this has no finite result for age = 0"),
    ("SELECT * FROM t", "*", "rows cannot be listed"),
    ("SELECT sex, LEFT(city, 1) FROM t WHERE age > 3 ORDER BY 1 LIMIT 9", "sex", "rows cannot be listed"),
    ("SELECT city, COUNT(*), ROW_NUMBER() OVER w FROM t GROUP BY city", "ROW_NUMBER() OVER w", "the window 'w' is not defined"),
    ("SELECT COUNT(*)", "", "there is no FROM"),
    ("SELECT COUNT(*) FROM (SELECT 1 AS x) AS q", "SELECT 1 AS x", "FROM names no table"),
    ("WITH q AS (SELECT 1 AS x) SELECT COUNT(*) FROM q", "SELECT 1 AS x", "FROM names no table"),
    ("SELECT COUNT(*) FROM t WHERE city IN (SELECT city FROM t)", "city IN (SELECT city FROM t)", "subqueries"),
    (
        "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.city = t.city AND land = 'F')",
        "EXISTS (SELECT 1 FROM p WHERE p.city = t.city AND land = 'F')", "this subquery names a column",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE age > (SELECT AVG(b.age) FROM t AS b WHERE b.sex = t.sex)",
        "(SELECT AVG(b.age) FROM t AS b WHERE b.sex = t.sex)", "this subquery names a column",
    ),
    ("SELECT APPROX_QUANTILES(age, 4)[OFFSET(4)] FROM t", "APPROX_QUANTILES(age, 4)[OFFSET(4)]", "a quantile must"),
]  # fmt: skip


def refusal(sql: str) -> SqlError:
    with pytest.raises(SqlError) as raised:
        parse(sql, TABLES, public=lambda _sql, _tables: [("Paris",)])
    return raised.value


def followed(sql: str, marked: str, hint: str) -> str:
    """Return the statement that a hint asks for: whole, behind what is marked, or in its place."""
    whole = re.search(r"(SELECT .+?)(?: in a cell of its own.*|)\.$", hint)
    if whole and not hint.startswith("Write"):
        return whole[1]
    behind = re.fullmatch(r"Add (FROM \w+)\.", hint)
    if behind:
        return sql.replace(marked, f"{marked} {behind[1]}") if marked else f"{sql} {behind[1]}"
    written = re.search(r"(?:: |[Ww]rite (?!the values))(.+?)(?: to count rows)?\.$", hint)
    assert written, hint
    return sql.replace(marked, written[1])


@pytest.mark.parametrize(("sql", "marked", "what"), PLACES)
def test_a_message_marks_what_has_no_answer_and_says_what_has_one(sql, marked, what):
    error = refusal(sql)
    assert error.what.startswith(what)
    assert (error.text or "") == marked or error.text == f"{marked[:57]}..."
    instead = followed(sql, marked, error.hint)
    assert instead != sql
    parse(instead, TABLES, public=lambda _sql, _tables: [("Paris",)])


def test_a_look_up_by_a_subquery_is_told_its_join():
    sql = "SELECT COUNT(*) FROM t WHERE (SELECT land FROM p WHERE p.city = t.city) = 'F'"
    error = refusal(sql)
    assert error.text == "(SELECT land FROM p WHERE p.city = t.city)"
    assert error.hint == "Add LEFT JOIN p ON p.city = t.city. Then write land here."


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SUM(1 // age) FROM t WHERE age > 0", "SUM(1 // NULLIF(age, 0)) FROM t WHERE age > 0"),
        (
            "STDDEV(1 // age) FILTER (WHERE age > 0) AS s FROM t",
            "STDDEV(1 // NULLIF(age, 0)) FILTER (WHERE age > 0) AS s FROM t",
        ),
        ("AVG(CASE WHEN sex = 'F' AND age > 9 THEN 1 / age END) FROM t",
         "AVG(CASE WHEN sex = 'F' AND age > 9 THEN 1 / NULLIF(age, 0) END) FROM t"),
        ("10 // wage AS k, COUNT(*) FROM t WHERE wage > 2 GROUP BY 1",
         "10 // NULLIF(wage, 0) AS k, COUNT(*) FROM t WHERE wage > 2 GROUP BY 1"),
        ("APPROX_QUANTILES(age, 100)[OFFSET(50)] AS m FROM t", "QUANTILE(age, 0.5) AS m FROM t"),
        ("APPROX_QUANTILES(age, 4)[SAFE_ORDINAL(2)] AS m FROM t", "QUANTILE(age, 0.25) AS m FROM t"),
        ("APPROX_COUNT_DISTINCT(city) AS n FROM t", "COUNT(DISTINCT city) AS n FROM t"),
    ],
)  # fmt: skip
def test_is_read_as(sql, same):
    read, other = (parse(f"SELECT {text}", TABLES) for text in (sql, same))
    assert (read.aggregates, read.derived, read.where) == (
        other.aggregates, other.derived, other.where,
    )  # fmt: skip
    assert [key.partition for key in read.keys] == [key.partition for key in other.keys]


@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        ("COUNT(*) FROM t WHERE city LIKE 'O%'", True),
        ("COUNT(*) FROM t WHERE city NOT LIKE 'P%'", True),
        ("COUNT(*) FROM t WHERE city LIKE 'P%'", False),
        (
            "COUNT(*) FROM t WHERE city <> 'Bern' OR (CASE city WHEN 'Pisa' THEN 1 END) IS NULL",
            False,
        ),
        ("COUNT(*) FILTER (WHERE LENGTH(city) > 5) FROM t", True),
        ("LEFT(city, 1), COUNT(*) FROM t GROUP BY 1", True),
        ("COUNT(*) FROM t WHERE UPPER(sex) = 'F'", False),
    ],
)
def test_a_statement_that_reads_the_label_of_undeclared_values_says_so(sql, counts):
    expected = (("city", "Others"),) if counts else ()
    assert parse(f"SELECT {sql}", TABLES).undeclared == expected


def test_the_answer_says_that_undeclared_values_count():
    frame = pd.DataFrame({"city": ["Paris", "Rome"]})
    table = Table("t", frame, Schema({"city": CITY}))
    with Session(table, budget=Budget(rho=9)) as session:
        text = repr(session.query("SELECT COUNT(*) FROM t WHERE city LIKE 'O%'", rho=1))
        assert "Undeclared values of city count as the text 'Others' here." in text
        assert "Undeclared" not in repr(
            session.query("SELECT COUNT(*) FROM t WHERE city LIKE 'P%'", rho=1)
        )


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT COUNT(*) FROM t FOR UPDATE", "FOR UPDATE is not supported"),
        ("SELECT TO_NUMBER('3', '9') + COUNT(*) FROM t", "this expression is not supported"),
    ],
)
def test_the_parser_writes_no_warnings_of_its_own(sql, what, caplog):
    assert what in refusal(sql).what
    assert caplog.records == []
    # but what others read is none of dpnb's business
    sqlglot.parse_one("SELECT TO_NUMBER('3', '9')").sql(dialect="duckdb")
    assert caplog.records
