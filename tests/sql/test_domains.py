"""Expressions of one column: what DuckDB says of each public value, and nothing else."""

from __future__ import annotations

import re
import time

import duckdb
import pytest
import sqlglot

from dpnb import Boolean, Category, Date, Integer, Schema, Table, Timestamp
from dpnb.codes import StepFunction
from dpnb.errors import SqlError
from dpnb.schema.predicates import EVERY, NONE, Within
from dpnb.schema.timestamps import EPOCH, value_of
from dpnb.sql import dataless, domains, outputs
from dpnb.sql.functions import WRITTEN, written
from dpnb.sql.parser import parse
from tests.kit import functions

pytestmark = pytest.mark.fast

CITIES = ["Paris", "Pisa", "Rome", " Oslo ", "", "it's", "P%", "Äpfel", "123", "ß"]
SCHEMA = Schema(
    {
        "age": Integer(-3, 90),
        "city": Category(CITIES),
        "day": Date("2023-12-20", "2025-03-05"),
        "ok": Boolean(),
        "moment": Timestamp("2024-02-27", "2024-03-02 12:00", "hour"),
        "wide": Integer(0, 2**20 - 1),
        "wider": Integer(0, 2**20),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}
SUBJECTS = {"booleans": "ok", "numbers": "age", "texts": "city", "dates": "day", "times": "moment"}
CONSTANTS = {"age": "30", "city": "'Pisa'", "day": "DATE '2024-02-29'", "ok": "TRUE"} | {
    "moment": "TIMESTAMP '2024-02-29 08:00:00'"
}
TYPES = {"age": "BIGINT", "city": "VARCHAR", "day": "DATE", "ok": "BOOLEAN", "moment": "TIMESTAMP"}


def where(condition, **params):
    return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", TABLES, params).where


def refusal(condition):
    with pytest.raises(SqlError) as refused:
        where(condition)
    return refused.value


def values(column):
    kind = SCHEMA[column]
    if column in ("city", "ok"):
        return CITIES if column == "city" else [False, True]
    codes = range(int(kind.scale.low), int(kind.scale.high) + 1)
    return list(codes) if column == "age" else [value_of(kind, code) for code in codes]


@pytest.fixture(scope="module")
def oracle():
    """A DuckDB with the values of each column, and NULL, in the order of their codes."""
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("SET TimeZone='UTC'")
        for column, kind in TYPES.items():
            connection.execute(f"CREATE TABLE all_{column} (place INTEGER, {column} {kind})")
            connection.executemany(
                f"INSERT INTO all_{column} VALUES ($1, $2)",
                list(enumerate([*values(column), None])),
            )
        yield connection


def one_by_one(connection, text, column):
    """Return DuckDB's type and result for each value and for NULL; one that raises has none.

    All are asked together if none raises; then one of 23 is asked alone, too, and is the same.
    """
    asked = f"SELECT {text}, typeof({text}) FROM"
    every = [*values(column), None]

    def alone(value):
        row = f"(SELECT CAST($1 AS {TYPES[column]}) AS {column})"
        try:
            return connection.execute(f"{asked} {row}", [value]).fetchone()
        except duckdb.Error:
            return None, ""

    try:
        results = connection.execute(f"{asked} all_{column} ORDER BY place").fetchall()
    except duckdb.Error:
        return [alone(value) for value in every]
    assert repr(results[::23]) == repr([alone(value) for value in every[::23]])
    return results


def examples():
    for subject in WRITTEN:
        texts = written(subject)
        for column in SUBJECTS.values() if subject == "any column" else [SUBJECTS[subject]]:
            for text in texts:
                yield re.sub(r"\bx\b", column, text.replace(":value", CONSTANTS[column])), column


@pytest.mark.parametrize(("text", "column"), list(examples()))
def test_every_function_is_duckdbs_on_every_value(text, column, oracle):
    expected = one_by_one(oracle, text, column)
    holds = {name for _, name in expected} - {""}
    codes = range(int(SCHEMA[column].scale.low), int(SCHEMA[column].scale.high) + 1)
    if holds == {"BOOLEAN"}:
        for sign, truth in (("", True), ("NOT ", False)):
            found = where(f"{sign}({text})")
            assert isinstance(found, Within) or found in (NONE, EVERY)
            inside = [output is truth for output, _ in expected]
            intervals, null = ((), False) if found == NONE else (((codes[0], codes[-1]),), True)
            if isinstance(found, Within):
                intervals, null = found.intervals, found.null
            assert [any(a <= code <= b for a, b in intervals) for code in codes] == inside[:-1]
            assert null == inside[-1]
        return
    if column == "city" and text.startswith("TRY_CAST"):
        text = f"COALESCE({text}, 0)"
        expected = one_by_one(oracle, text, column)
    numbers = {output for output, _ in expected if output is not None}
    for number in sorted(numbers, key=str)[:5]:
        quoted = str(number).replace("'", "''")
        written = f"({number!r})" if isinstance(number, int | float) else f"'{quoted}'"
        found = where(f"({text}) = {written}")
        inside = [output == number for output, _ in expected]
        intervals = found.intervals if found != NONE else ()
        assert [any(a <= code <= b for a, b in intervals) for code in codes] == inside[:-1]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("age >= 30", "NOT age < 30"),
        ("age >= 30", "age + 1 > 30"),
        ("MONTH(day) = 3", "EXTRACT(month FROM day) = 3"),
        ("MONTH(day) = 3", "DATE_PART('month', day) IN (3)"),
        ("city LIKE 'P%'", "LEFT(city, 1) = 'P'"),
        ("city IN ('Paris', 'Pisa')", "city LIKE 'P%s%'"),
        ("city NOT LIKE 'P%'", "NOT STARTS_WITH(city, 'P')"),
        ("age % 2 = 0", "age // 2 * 2 = age AND TRUE = (age < 99)"),
        ("age BETWEEN 30 AND 39", "FLOOR(age / 10) = 3"),
        ("COALESCE(age, 99) > 80", "age > 80 OR age IS NULL"),
        ("CASE WHEN age > 30 THEN TRUE END", "age > 30"),
        ("ok", "ok = TRUE"),
        ("ok", "ok = 1"),
        ("ok", "ok <> 'no'"),
        ("ok", "CAST(ok AS INTEGER) = 1"),
        ("NOT ok", "ok < TRUE"),
        ("NOT ok", "(ok IS TRUE) = FALSE AND ok IS NOT NULL"),
        ("day + INTERVAL 1 MONTH > '2024-02-29'", "day >= '2024-02-01'"),
    ],
)  # fmt: skip
def test_equal_conditions_are_one(left, right):
    assert where(left) == where(right)


def test_not_keeps_no_missing_value():
    assert where("age % 2 = 0").null is False
    assert where("NOT age % 2 = 0").null is False
    assert where("NOT COALESCE(age, 2) % 2 = 0").null is False
    assert where("COALESCE(age, 2) % 2 = 0").null is True


def test_parameters_are_constants():
    assert where("city LIKE :start", start="P%s%") == where("city LIKE 'P%s%'")
    assert where("age + :more > 50", more=1) == where("age > 49")
    assert where("city LIKE :start", start="P' OR TRUE --") == NONE


def test_a_value_without_result_satisfies_no_condition():
    assert where("1 // age > 0") == where("age = 1")
    assert where("NOT 1 // age > 0") == where("age <> 1 AND age <> 0")
    # the division of numbers with a fraction has a result: infinity
    assert where("1 / age > 0") == where("age >= 0")


@pytest.mark.parametrize(
    "call",
    [
        "random()", "now()", "current_date", "today()", "uuid()", "gen_random_uuid()", "setseed(0.5)",
        "getenv('HOME')", "current_setting('threads')", "getvariable('x')", "version()",
        "current_user", "current_database()", "txid_current()", "nextval('s')", "pg_sleep(1)",
        "read_text('/etc/passwd')", "(SELECT 1)", "(SELECT MAX(age) FROM t)", "COUNT(*)", "SUM(age)",
        "ROW_NUMBER() OVER ()", "query('SELECT 1')", "LIST_TRANSFORM([1], y -> y)", "[1, 2][1]",
        "{'a': 1}.a", "age::regclass", "age COLLATE nocase", "COLUMNS(*)", "repeat('a', 1000000000)",
        "LPAD('a', 1000000000, 'b')", "hash(age)", "age(day)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("clothes", ["age + {} > 3", "COALESCE(age, {}) = 1", "age = ABS({})"])
def test_nothing_else_is_evaluated(call, clothes, monkeypatch):
    ran = []
    monkeypatch.setattr(outputs, "evaluate", lambda *parts: ran.append(parts))
    refusal(clothes.format(call))
    assert ran == []


class TestLimits:
    def test_a_large_domain_is_read_in_time(self):
        where("city LIKE 'P%'")
        began = time.process_time()
        assert where("wide // 1000 = 5") == where("wide BETWEEN 5000 AND 5999")
        assert time.process_time() - began < 2

    def test_what_was_read_is_kept(self):
        where("wide // 1000 = 5")
        began = time.process_time()
        where("wide // 1000 = 5")
        assert time.process_time() - began < 0.05

    def test_an_expression_that_changes_too_often_is_refused(self):
        error = refusal("wide % 2 = 0")
        assert error.what == "this changes more than 10,000 times over the values of wide"
        assert error.hint.endswith("make it coarser: FLOOR(wide / 10000) for wide.")

    def test_a_larger_domain_is_searched_for_break_points(self):
        assert where("wider // 1000 = 5") == where("wider BETWEEN 5000 AND 5999")

    def test_texts_cannot_explode(self):
        text = "city"
        for _ in range(9):
            text = f"REPLACE({text}, 's', 'ssssssssssssssss')"
        assert "texts of more than 4,096 letters" in refusal(f"{text} = 'a'").what

    def test_patterns_cannot_explode(self):
        began = time.process_time()
        where("regexp_matches(city, '((a+)+)+$')")
        refusal("regexp_matches(city, '(((a{1,100}){1,100}){1,100}){1,100}')")
        assert time.process_time() - began < 3

    def test_slow_evaluation_stops(self, monkeypatch):
        monkeypatch.setattr(dataless, "SECONDS", 0.01)
        with pytest.raises(dataless.TimeLimitError):
            dataless.evaluate("SELECT COUNT(*) AS y FROM range(10_000_000_000)")

    def test_no_value_is_blamed_where_only_the_time_is_over(self, monkeypatch):
        text = "SELECT SUM(1 // age) FROM t WHERE age > 0"
        assert parse(text, TABLES).outputs
        # what is asked of the rows alone is not kept
        monkeypatch.setattr(dataless, "SECONDS", -1.0)
        with pytest.raises(SqlError, match="this takes too long to evaluate"):
            parse(text.replace("> 0", "> 1"), TABLES)


class TestDatalessConnection:
    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
            "COPY (SELECT 1) TO '/tmp/x'", "ATTACH '/tmp/x.db'", "INSTALL httpfs", "LOAD httpfs",
            "CREATE TABLE x AS SELECT 1", "SET threads=4", "PRAGMA database_list", "SELECT * FROM frame",
        ],
    )  # fmt: skip
    def test_it_reads_and_writes_nothing(self, statement):
        frame = duckdb.sql("SELECT 1")
        with pytest.raises(dataless.EvaluationError):
            dataless.evaluate(statement)
        assert frame is not None

    def test_it_has_no_table(self):
        assert dataless.evaluate("SELECT COUNT(*) AS y FROM duckdb_tables()")["y"].tolist() == [0]


def test_outputs_are_plain_values():
    reader = domains.Domains(
        lambda what, *_: pytest.fail(what), lambda node: node.name, None, SCHEMA, str
    )

    def read(text):
        select = sqlglot.parse_one(f"SELECT {text}", read="duckdb")
        return reader.outputs(select.expressions[0])

    column, months, holds = read("DATE_TRUNC('year', day)")
    assert (column, holds) == ("day", "date")
    assert months.outputs == tuple(EPOCH.replace(year=year) for year in (2023, 2024, 2025))
    assert read("age > 30")[1] == StepFunction([(-3, 30, False), (31, 90, True)])
    assert [str(output) for output in read("age * 0.1")[1].outputs[:2]] == ["-0.3", "-0.2"]
    assert read("COALESCE(city, '?')")[1].null == "?"


def test_a_value_without_a_result_is_named():
    def refuse(what, hint, node):
        raise SqlError(what, hint)

    reader = domains.Domains(refuse, lambda node: node.name, None, SCHEMA, str)
    for text, shown in [
        ("1 // age", "age = 0"), ("LN(age + 3)", "age = -3"), ("1 / (age - 90)", "age = 90"),
        ("CAST(city AS INTEGER)", "city = 'Paris'"), ("age * 9223372036854775807", "age = -3"),
        ("1 // DATE_DIFF('day', DATE '2024-02-29', day)", "day = 2024-02-29"),
    ]:  # fmt: skip
        node = sqlglot.parse_one(f"SELECT {text}", read="duckdb").expressions[0]
        with pytest.raises(SqlError, match=re.escape(shown)):
            reader.outputs(node)


def test_the_page_lists_what_is_read():
    page = functions.PAGE.read_text("utf-8")
    assert functions.table() in page
    assert functions.page(page) == page


def test_replacements_cannot_make_huge_texts():
    more = "city"
    for _ in range(4):
        more = f"regexp_replace({more}, '(.)', '\\1\\1\\1\\1', 'g')"
    with pytest.raises(SqlError, match="can make texts of more than"):
        where(f"{more} = 'x'")
