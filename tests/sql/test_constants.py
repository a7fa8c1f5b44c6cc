"""Constants are computed as DuckDB computes them, and before any data."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest
import sqlglot

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.schema.predicates import EVERY, NONE, Or, Within
from dpnb.sql.constants import Constants, is_constant
from dpnb.sql.parser import parse
from dpnb.sql.source import Source

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "age": Integer(0, 100),
        "yes": Integer(0, 1),
        "wage": Real(0, 100),
        "city": Category(["8", "9", "Rome"]),
        "flag": Category(["true", "false"]),
        "day": Date("2024-01-01", "2024-12-31"),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def where(condition, **params):
    return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", TABLES, params).where


@pytest.fixture(scope="module")
def engine():
    with duckdb.connect() as connection:
        yield connection


NUMBERS = [
    "0.06 - 0.01", "0.06 + 0.01", "1 + 10", "2 * (3 + 4) - 1", "-7 // 2", "-7 % 2", "7 // -2", "7 % -2",
    "7.5 % 2", "1 / 3", "0.3 / 0.1", "0.1 + 0.2", "1e-1 + 0.2", "1e0 * 0.1", "- -3", "-(2 + 3)",
    "10 - 2 - 3", "2 * 1.25", "CAST(3.5 AS INTEGER)", "CAST(2.5 AS INTEGER)", "CAST(-2.5 AS BIGINT)",
    "CAST(2.5::DOUBLE AS INTEGER)", "CAST('8' AS INTEGER)", "' 8 '::int", "CAST('8.5' AS INTEGER)",
    "CAST(0.125 AS DECIMAL(4, 2))", "CAST(7 AS DECIMAL(9))", "CAST(0.1 AS DOUBLE)", "TRUE::INT",
    "date '2024-03-01' - date '2024-02-01'",
]  # fmt: skip
TIMES = [
    "date '1998-12-01' - interval '90' day", "date '2024-01-31' + interval '1' month",
    "date '2024-02-29' - interval '1' year", "date '2024-01-31' + interval '1 month' * 2",
    "date '2024-01-31' + 2 * interval '1' month", "interval '1 year 3 days' + date '2024-01-31'",
    "date '2024-01-31' + 3", "3 + date '2024-01-31'", "date '2024-01-31' - 3", "'2024-01-31'::date",
    "CAST('2024-01-31' AS DATE)", "DATE '2024-01-31' - INTERVAL 3 WEEK", "date '2024-01-31' - interval '-3' days",
    "timestamp '2024-01-31 12:30:00' - interval '750' minute", "'2024-01-31 23:00:00'::timestamp::date",
    "date '2024-01-31' + (interval '1' quarter - interval '1' day)", "date '2024-01-31' + -interval '2' day",
]  # fmt: skip
TRUTHS = [
    "1 = 1", "1 < 1", "2 >= 1 + 1", "'a' = 'a'", "'a' <> 'a'", "date '2024-01-01' < date '2024-01-02'",
    "TRUE", "FALSE", "1", "0", "TRUE = FALSE", "'true'::boolean", "NULL",
]  # fmt: skip


def read(text):
    source = Source(f"SELECT {text}")
    tree = sqlglot.parse_one(source.text, read="duckdb").expressions[0]
    assert is_constant(tree)
    return Constants(source, {}), tree


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_those_of_duckdb(engine, text):
    constants, tree = read(text)
    value = constants.value(tree)
    (exact,) = engine.execute(f"SELECT {text}").fetchone()
    assert value == (Fraction(str(exact)) if isinstance(exact, Decimal) else Fraction(exact))


@pytest.mark.parametrize("text", TIMES)
def test_dates_are_those_of_duckdb(engine, text):
    constants, tree = read(text)
    value = constants.value(tree)
    (exact,) = engine.execute(f"SELECT {text}").fetchone()
    assert (value, type(value)) == (exact, type(exact))


@pytest.mark.parametrize("text", TRUTHS)
def test_truths_are_those_of_duckdb(engine, text):
    constants, tree = read(text)
    (exact,) = engine.execute(f"SELECT {text}").fetchone()
    assert constants.truth(tree) == (exact if exact is None else bool(exact))


def test_arithmetic_is_exact_and_bounded():
    constants, tree = read("0.1 + 0.2")
    assert constants.value(tree) == Fraction(3, 10)
    constants, tree = read("'a' || 'b'")
    assert constants.value(tree) == "ab"
    constants, tree = read(" * ".join(["9" * 300] * 12))
    with pytest.raises(Exception, match="the result is out of range"):
        constants.value(tree)


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "same"),
        [
            ("age < 30 + 1", "age < 31"),
            ("age BETWEEN 2 * 5 AND 100 - 20", "age BETWEEN 10 AND 80"),
            ("age IN (1 + 1, 3)", "age IN (2, 3)"),
            ("40 - 1 > age", "age < 39"),
            ("wage > 0.06 - 0.01", "wage > 0.05"),
            ("age < 30 + :n", "age < 32"),
            ("day <= DATE '2024-12-01' - INTERVAL '90' DAY", "day <= '2024-09-02'"),
            ("day < DATE '2024-01-01' + INTERVAL '1' MONTH", "day < '2024-02-01'"),
            ("day = '2024-02-01'::date", "day = '2024-02-01'"),
            ("day >= TIMESTAMP '2024-02-01 00:00:00'", "day >= '2024-02-01'"),
            ("age = '8'", "age = 8"),
            ("age IN ('8', '9.0')", "age IN (8, 9)"),
            ("wage < '8.5'", "wage < 8.5"),
            ("city = 8", "city = '8'"),
            ("city IN (8, 9.0)", "city IN ('8', '9')"),
            ("yes", "yes = 1"),
            ("NOT yes", "yes = 0"),
            ("yes = TRUE", "yes = 1"),
            ("yes <> TRUE", "yes = 0"),
            ("(yes) = FALSE", "yes = 0"),
            ("TRUE = yes", "yes = 1"),
            ("yes IS TRUE", "yes = 1"),
            ("yes IS FALSE", "yes = 0"),
            ("yes IS NOT TRUE", "yes = 0 OR yes IS NULL"),
            ("NOT (yes IS NOT TRUE)", "yes = 1"),
            ("flag", "flag = 'true'"),
            ("flag = FALSE", "flag = 'false'"),
            ("(age > 30) = TRUE", "age > 30"),
            ("(age > 30) = FALSE", "age <= 30"),
            ("(age > 30) <> TRUE", "age <= 30"),
            ("(age > 30 OR wage < 5) IS FALSE", "age <= 30 AND wage >= 5"),
            ("(age > 30) IS NOT TRUE", "age <= 30 OR age IS NULL"),
            ("(age > 30 AND wage < 5) IS NOT TRUE", "age <= 30 OR age IS NULL OR wage >= 5 OR wage IS NULL"),
            ("age IS DISTINCT FROM 3", "age <> 3 OR age IS NULL"),
            ("age IS NOT DISTINCT FROM 3", "age = 3"),
            ("NOT age IS NOT DISTINCT FROM 3", "age <> 3 OR age IS NULL"),
            ("age IS NOT DISTINCT FROM NULL", "age IS NULL"),
            ("age > 30 AND TRUE", "age > 30"),
            ("age > 30 OR 1 = 2", "age > 30"),
        ],
    )  # fmt: skip
    def test_two_spellings_are_one_condition(self, condition, same):
        assert where(condition, n=2) == where(same)

    @pytest.mark.parametrize(
        ("condition", "meaning"),
        [("TRUE", EVERY), ("1 = 1", EVERY), ("NOT FALSE", EVERY), ("FALSE", NONE), ("NULL", NONE), ("NOT NULL", NONE)],
    )  # fmt: skip
    def test_conditions_without_a_column(self, condition, meaning):
        assert where(condition) == meaning

    def test_missing_values_are_in_the_complement_alone(self):
        low, high = (0, 29), (31, 100)
        assert where("age <> 30") == Within("age", (low, high))
        assert where("age IS DISTINCT FROM 30") == Within("age", (low, high), null=True)
        both = where("(age > 30 OR wage > 5) IS NOT TRUE")
        assert not isinstance(both, Or)

    def test_constants_of_limit_and_having(self):
        text = "SELECT age, COUNT(*) AS n FROM t GROUP BY age HAVING n > 2 * 50 LIMIT 2 + 3"
        query = parse(text, TABLES, deciding=True)
        assert (query.having.value, query.shown.limit) == (100, 5)

    def test_a_parameter_keeps_its_type(self):
        assert where("day < :d + INTERVAL '1' DAY", d=datetime.date(2024, 1, 1)) == where(
            "day < '2024-01-02'"
        )
