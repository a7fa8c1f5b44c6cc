"""Arguments that are functions of one column: exact, bounded by their outputs, counted in every engine."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.codes import StepFunction
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import SqlError
from dpnb.schema.predicates import EVERY
from dpnb.sql.canonical import describe, plain_value, read, read_value
from dpnb.sql.parser import parse
from dpnb.sql.values import Column, Mapped
from dpnb.views.definitions import read_view
from dpnb.views.measures import Scan, sum_about
from dpnb.views.text import value_text
from dpnb.views.view import views_of

CITIES = ["Paris", "Pisa", "Rome", "Oslo"]
SCHEMA = Schema(
    {
        "g": Category(["a", "b"]),
        "age": Integer(-10, 60),
        "city": Category(CITIES),
        "day": Date("2024-01-01", "2024-12-31"),
        "wide": Integer(0, 100_000),
        "pay": Real(-5, 50),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def frame(rows=4_000):
    draw = np.random.default_rng(5)

    def holes(values):
        return pd.Series(values).astype(object).where(draw.random(rows) > 0.1, None)

    return pd.DataFrame(
        {
            "g": holes(draw.choice(["a", "b"], rows)),
            "age": holes(draw.integers(-10, 61, rows)).astype("Int64"),
            "city": holes(draw.choice(CITIES, rows)),
            "day": pd.to_datetime("2024-01-01")
            + pd.to_timedelta(draw.integers(0, 366, rows), unit="D"),
            "wide": holes(draw.integers(0, 100_001, rows)).astype("Int64"),
            "pay": draw.integers(-10, 101, rows) / 2,
        }
    )


ARGUMENTS = (
    "ABS(age - 20)", "age % 7", "age // 7", "age * 0.1 + ABS(age)", "COALESCE(age, 100)", "NULLIF(age, 3)",
    "IF(age > 30, 5, -2)", "LEAST(age, 20)", "GREATEST(age, 20, 30)", "ROUND(age, -1)", "SQRT(ABS(age))",
    "LENGTH(city)", "CASE WHEN city LIKE 'P%' THEN 3 ELSE LENGTH(city) END", "MONTH(day)",
    "CAST(city = 'Rome' AS INTEGER)", "DATE_DIFF('day', DATE '2024-02-29', day)", "wide // 1000",
    "ABS(age) * pay", "ABS(age - 20) + LENGTH(city)", "CASE WHEN age > 3 THEN ABS(age) ELSE pay END",
    "FLOOR(wide / 7000) * 2", "LEAST(pay, 20)", "GREATEST(pay, 0.5)", "ABS(pay)", "COALESCE(wide, 5)",
    "LEAST(wide, 50)", "POWER(age, 2) / 3", "COALESCE(LENGTH(city), 0) - 4",
)  # fmt: skip


def views(text, tables=TABLES, schema=None):
    query = parse(f"SELECT {text} AS r FROM t", tables)
    return views_of(query.measured[0], query, 1)


@pytest.fixture(scope="module")
def rows():
    return frame()


@pytest.fixture(scope="module")
def sessions(rows):
    made = {
        name: dpnb.Session(
            Table("t", rows, SCHEMA, in_memory=in_memory), budget=dpnb.Budget(rho=1e12)
        )
        for name, in_memory in (("sql", ()), ("arrays", None))
    }
    yield made
    for session in made.values():
        session.close()


@pytest.fixture(scope="module")
def exactly(rows):
    with duckdb.connect() as connection:
        connection.register("f", rows)
        connection.execute("CREATE TABLE t AS SELECT * REPLACE (CAST(day AS DATE) AS day) FROM f")
        yield connection.execute


@pytest.mark.parametrize(
    "where", ["", " WHERE age % 2 = 0 AND city IS NOT NULL"], ids=["all", "some"]
)
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("engine", ["sql", "arrays"])
def test_sums_are_those_of_duckdb(engine, argument, where, exactly, sessions):
    text = (
        f"SELECT g, SUM({argument}) AS s, COUNT({argument}) AS n, AVG({argument}) AS m, SUM(age) AS a, COUNT(*) AS k"
        f" FROM t{where} GROUP BY g"
    )
    found = sessions[engine].query(text, rho=1e9).to_frame().set_index("g")
    for group, *numbers in exactly(text).fetchall():
        if group is not None:
            for alias, number in zip(("s", "n", "m", "a", "k"), numbers, strict=True):
                assert found[alias][group] == pytest.approx(float(number), rel=1e-4, abs=0.3), alias


EXTREMES = pd.DataFrame(
    {
        "g": ["a"] * 5, "age": pd.array([-10, 60, 20, 0, None], dtype="Int64"),
        "city": ["Paris", "Oslo", "Rome", None, "nowhere"],
        "day": pd.to_datetime(["2024-01-01", "2024-12-31", "1999-01-01", "2024-02-29", None]),
        "wide": pd.array([0, 100_000, 50, 10**9, None], dtype="Int64"),
        "pay": [-5.0, 50.0, math.inf, 20, math.nan],
    }
)  # fmt: skip


@pytest.fixture(scope="module", params=[(), None], ids=["sql", "arrays"])
def single_rows(request):
    """Engines of tables with one row each."""
    engines = [
        DuckDBEngine(Table("t", EXTREMES.iloc[[place]], SCHEMA, in_memory=request.param))
        for place in range(len(EXTREMES))
    ]
    for engine in engines:
        engine.bound(bytes(32))
        assert (engine._arrays is not None) == (request.param is None)
    yield engines
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_no_row_changes_a_sum_by_more_than_it_claims(argument, single_rows):
    sharp = 0
    for function in ("SUM", "AVG"):
        for name, view in views(f"{function}({argument})").items():
            scan = Scan((), view.where, ((view.measure, EVERY),))
            for engine in single_rows:
                change = abs(engine.measure(scan).reveal(0)[0])
                assert change <= view.measure.sensitivity, name
                sharp += change >= 0.9 * view.measure.sensitivity
    assert sharp or argument in ("COALESCE(age, 100)", "NULLIF(age, 3)")


@pytest.mark.parametrize(
    ("argument", "low", "high"),
    [
        ("ABS(age - 20)", 0, 40), ("age % 7", -6, 6), ("LENGTH(city)", 4, 5), ("LEAST(age, 20)", -10, 20),
        ("COALESCE(age, 100)", -10, 100), ("MONTH(day)", 1, 12), ("GREATEST(pay, 0.5)", Fraction(1, 2), 50),
        ("LEAST(pay, 20)", -5, 20), ("ABS(pay)", 0, 50), ("LEAST(wide, 50)", 0, 50),
    ],
)  # fmt: skip
def test_bounds_are_the_least_and_the_greatest_output(argument, low, high):
    measure = views(f"SUM({argument})")["sum"].measure
    slack = measure.step if measure.rounded else 0
    assert abs(measure.bounds[0] - low) <= slack
    assert abs(measure.bounds[1] - high) <= slack


def test_conditions_narrow_mapped_values():
    for text, most in (("SUM(ABS(age - 20)) FILTER (WHERE age BETWEEN 15 AND 22)", 5),
                       ("SUM(COALESCE(age, 100)) FILTER (WHERE age > 0)", 60),
                       ("SUM(COALESCE(age, 100)) FILTER (WHERE age > 50 OR age IS NULL)", 100)):  # fmt: skip
        assert views(text)["sum"].measure.sensitivity == most


def test_decimals_are_added_exactly():
    measure = views("SUM(ABS(age) * 0.1)")["sum"].measure
    assert (measure.step, measure.rounded, measure.sensitivity) == (Fraction(1, 10), False, 60)


def test_equal_maps_are_one_view_and_others_are_not():
    def same(left, right):
        return views(left)["sum"].id == views(right)["sum"].id

    assert same("SUM(ABS(age))", "SUM(IF(age >= 0, ABS(age), ABS(-age)))")
    assert same("SUM(MONTH(day))", "SUM(EXTRACT(month FROM day))")
    assert not same("SUM(ABS(age))", "SUM(ABS(age) * 2)")
    assert not same("SUM(COALESCE(age, 0) % 7)", "SUM(COALESCE(age, 1) % 7)")


def test_what_was_accepted_before_is_named_as_before():
    for text in ("SUM(age)", "SUM(age * 2 + 1)", "SUM(CASE WHEN age > 3 THEN age ELSE 0 END)"):
        assert "map" not in str(views(text)["sum"].definition())


def test_a_count_of_what_is_never_missing_is_that_of_the_column():
    assert views("COUNT(ABS(age))")["count"].measure.value == Column("age")
    assert views("COUNT(UPPER(city))")["count"].id == views("COUNT(city)")["count"].id
    assert views("COUNT(COALESCE(age, 1))")["count"].id == views("COUNT(*)")["count"].id
    assert isinstance(views("COUNT(NULLIF(city, 'Rome'))")["count"].measure.value, Mapped)


def test_it_is_read_back_from_the_ledger():
    query = parse("SELECT SUM(COALESCE(age % 7, 9)) AS a, AVG(ABS(age) * 0.1) AS b FROM t", TABLES)
    for aggregate in query.aggregates:
        assert read_value(plain_value(aggregate.value)) == aggregate.value
        for view in views_of(aggregate, query, 1).values():
            assert read_view(view.definition(), SCHEMA) == view
    assert describe(read(describe(query), SCHEMA)) == describe(query)
    value = query.aggregates[1].value
    assert isinstance(value, Mapped)
    about = sum_about(value, SCHEMA, Fraction(1, 3))
    view = views_of(query.aggregates[1], query, 1)["sum"]
    assert read_view({**view.definition(), "measure": about.definition()}, SCHEMA).measure == about


def test_its_text_is_sql():
    assert value_text(Mapped("age", StepFunction([(-10, 0, Fraction(1)), (1, 60, Fraction(5, 2))], Fraction(0))), SCHEMA) == (
        "CASE WHEN age <= 0 THEN 1 WHEN age >= 1 THEN 2.5 WHEN age IS NULL THEN 0 END"
    )  # fmt: skip
    assert (
        value_text(parse("SELECT SUM(ABS(age)) AS s FROM t", TABLES).aggregates[0].value, SCHEMA)
        == "ABS(age)"
    )


def test_past_answers_determine_it(rows):
    """Sums of outputs follow from the counts of their codes."""
    with dpnb.Session(Table("t", rows, SCHEMA), budget=dpnb.Budget(rho=1e12)) as session:
        session.query("SELECT age, COUNT(*) AS n FROM t GROUP BY age", rho=1e6)
        found = session.infer("SELECT SUM(ABS(age)) AS s FROM t")
    exact = rows["age"].abs().sum()
    assert found.estimate == pytest.approx(exact, abs=5)


def test_decisions_and_explanations_take_it(sessions):
    session = sessions["sql"]
    decided = session.decide(
        "SELECT g FROM t GROUP BY g HAVING AVG(ABS(age)) > 5", rows=100, most=1
    )
    assert len(decided.to_frame()) == 2
    answer = session.query("SELECT g, AVG(ABS(age)) AS m FROM t GROUP BY g", rho=1e6)
    question = answer.compare("a", "b")
    explained = session.explain(question, rho=1, anyway=True)
    assert len(explained.to_frame())


@pytest.mark.parametrize(
    ("argument", "what"),
    [
        ("1 // age", "no finite result for age = 0"), ("LN(age)", "no finite result for age = -10"),
        ("UPPER(city)", "this is a text, not a number"), ("DATE_TRUNC('month', day)", "this is a date, not a number"),
        ("RANDOM() * age", "RANDOM is not supported here"), ("wide % 7", "changes more than 10,000 times"),
        ("SQRT(pay)", "changes more than 10,000 times"), ("CAST(city AS INTEGER)", "DuckDB cannot compute this from city"),
        ("NULLIF(age, age)", "this expression is NULL in every row"), ("age % 1", "0 in every row"),
    ],
)  # fmt: skip
def test_what_has_no_public_numbers_is_refused(argument, what):
    with pytest.raises(SqlError, match=what):
        parse(f"SELECT SUM({argument}) AS s FROM t", TABLES)


def test_the_ticks_of_what_a_condition_leaves_out_are_clamped():
    measure = views("SUM(ABS(age)) FILTER (WHERE age BETWEEN -3 AND 5)")["sum"].measure
    assert [measure.ticks(Fraction(number)) for number in (0, 5, 60)] == [0, 5, 5]
