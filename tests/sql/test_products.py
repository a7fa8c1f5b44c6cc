"""Conditions on several columns: what DuckDB says of each combination of public values."""

from __future__ import annotations

import contextlib
import datetime
import itertools

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, SqlError
from dpnb.privacy.parallel import region
from dpnb.schema.predicates import EVERY, MOST_BOXES, NONE, And, Within, boxes, plain
from dpnb.sql.parser import parse
from dpnb.views.measures import Count, Scan
from dpnb.views.text import predicate_text
from dpnb.views.view import views_of

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "a": Integer(-2, 3),
        "b": Integer(0, 4),
        "sex": Category(["F", "M"]),
        "race": Category(["White", "it's", "F"]),
        "day": Date("2024-02-28", "2024-03-01"),
        "due": Date("2024-02-29", "2024-03-02"),
        "age": Integer(17, 90),
        "hours": Integer(1, 99),
        "id": Integer(0, 1_000_000),
        "pay": Real(0, 1),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}
COLUMNS = ["a", "b", "sex", "race", "day", "due"]
CODES = np.array(
    list(itertools.product(*([*range(int(k.scale.low), int(k.scale.high) + 1), np.nan]
                             for k in (SCHEMA[name] for name in COLUMNS))))
).T  # fmt: skip
CONDITIONS = (
    "a > b", "a = b", "NOT a >= b", "a + b > 4", "a * b % 3 = 1", "b // a = 1", "NOT b // a = 1", "b / a > 0.5",
    "a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b", "(a > b) IS NULL", "(a > b) IS TRUE", "(a > b) IS NOT TRUE",
    "(a > b) = FALSE", "COALESCE(a, b) = 3", "a IN (b, 3)", "a NOT IN (b, 3)", "a BETWEEN b AND 2", "NOT a BETWEEN 0 AND b",
    "LEAST(a, b) = 1", "GREATEST(a, b, 2) = 2", "ABS(a - b) <= 1", "sex || '-' || race = 'F-White'", "sex = race",
    "race LIKE sex || '%'", "sex || race IS NULL", "CASE WHEN a > 1 THEN b > 1 ELSE sex = 'F' END",
    "IF(sex = 'F', a, b) > 1", "day < due", "due - day > 1", "DATE_DIFF('day', day, due) BETWEEN 0 AND 1",
    "MONTH(day) = MONTH(due)", "a > b AND sex = 'F'", "a > b OR sex = 'F'", "NOT (a > b OR sex = 'F')",
    "a > b AND b > 0 AND NOT a = 3", "a > b OR a IS NULL", "a + b > 4 AND LENGTH(sex) + a > 2", "a > b AND NULL",
)  # fmt: skip


def where(condition):
    return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", TABLES).where


def satisfied(predicate):
    """Return which combinations of codes satisfy a predicate."""
    if isinstance(predicate, Within):
        codes = CODES[COLUMNS.index(predicate.column)]
        inside = [(codes >= low) & (codes <= high) for low, high in predicate.intervals]
        return np.any([*inside, np.isnan(codes) & predicate.null], axis=0)
    parts = [np.full(CODES.shape[1], isinstance(predicate, And)), *map(satisfied, predicate.parts)]
    return (np.all if isinstance(predicate, And) else np.any)(parts, axis=0)


def value(name, code):
    if np.isnan(code):
        return None
    kind = SCHEMA[name]
    if isinstance(kind, Category):
        return kind.values[int(code)]
    return datetime.date(1970, 1, 1) + datetime.timedelta(code) if isinstance(kind, Date) else code


@pytest.fixture(scope="module")
def frame():
    values = {
        name: [value(name, code) for code in codes]
        for name, codes in zip(COLUMNS, CODES, strict=True)
    }
    return pd.DataFrame(values).astype({"a": "Int64", "b": "Int64"})


@pytest.fixture(scope="module")
def connection(frame):
    made = duckdb.connect(config={"threads": 1})
    made.execute(f"CREATE TABLE t AS SELECT *, {len(frame)} AS n FROM frame")
    yield made
    made.close()


def test_a_condition_is_what_duckdb_says_of_each_combination(connection):
    for condition in CONDITIONS:
        # where it divides by 0, a condition does not hold, nor does its negation
        negated = condition.removeprefix("NOT ")
        test = condition if negated == condition else f"NOT TRY({negated})"
        test = f"TRY({condition})" if negated == condition and " AND " not in condition else test
        found = connection.execute(f"SELECT COALESCE({test}, FALSE) AS y FROM t").fetchnumpy()["y"]
        assert np.array_equal(satisfied(where(condition)), found), condition


ARGUMENTS = (
    "(a + b) % 3", "b // NULLIF(a, 0)", "LENGTH(sex || race)", "(a > b)::INT", "POSITION(sex IN race)", "ROUND(a * b / 3)",
    "TRY_CAST(sex || a AS INTEGER)", "LENGTH(race) // (b + 1)",
)  # fmt: skip


def test_numbers_of_several_columns_are_those_of_each_combination(connection):
    for argument in ARGUMENTS[:-2] + ARGUMENTS[-1:]:
        value = parse(f"SELECT SUM({argument}) AS s FROM t", TABLES).aggregates[0].value
        masks = [satisfied(condition) for condition, _ in value.branches]
        numbers = [float(result.value) for _, result in value.branches]
        found = np.select(masks, numbers, 0.0)
        assert (np.sum(masks, axis=0) <= 1).all()
        exact = connection.execute(f"SELECT COALESCE(({argument})::DOUBLE, 0) AS y FROM t")
        assert np.array_equal(found, exact.fetchnumpy()["y"]), argument
    with pytest.raises(SqlError, match="NULL in every row"):
        parse(f"SELECT SUM({ARGUMENTS[-2]}) AS s FROM t", TABLES)


@pytest.mark.parametrize(
    ("argument", "what"),
    [
        ("a // b", "no finite result for some values of a and b"), ("sex || race", "this is a text, not a number"),
        ("age % hours", "more than 64 different results over the values of age and hours"),
        ("(id + a) % 3", "not supported inside an aggregate"), ("RANDOM() % a // (b + 1)", "RANDOM is not supported"),
    ],
)  # fmt: skip
def test_numbers_that_are_too_many_or_none_are_refused(argument, what):
    with pytest.raises(SqlError, match=what):
        parse(f"SELECT SUM({argument}) AS s FROM t", TABLES)


@pytest.mark.parametrize("in_memory", [(), None], ids=["sql", "arrays"])
def test_engines_count_the_rows_that_satisfy_it(frame, in_memory):
    schema = Schema({name: SCHEMA[name] for name in COLUMNS})
    engine = DuckDBEngine(Table("t", frame, schema, in_memory=in_memory))
    try:
        engine.bound(bytes(32))
        measures = tuple((Count(None), where(condition)) for condition in CONDITIONS[::3])
        found = engine.measure(Scan((), EVERY, measures))
        for place, (_, condition) in enumerate(measures):
            assert found.reveal(place) == [satisfied(condition).sum()]
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > b", "b < a"), ("a > b", "NOT a <= b"), ("a > b", "a - b >= 1"), ("a > b", "(a > b) IS TRUE"),
        ("a > b AND a > 1", "a > GREATEST(b, 1) AND NOT b IS NULL"), ("sex || race = 'Fit''s'", "sex = 'F' AND race = 'it''s'"),
        ("a > b OR sex = 'F'", "NOT (a <= b AND sex = 'M') AND (a > b OR sex = 'F')"),
        ("CASE WHEN sex = 'F' THEN a > 1 ELSE FALSE END", "a > 1 AND sex = 'F'"),
        ("due - day > 1", "DATE_DIFF('day', day, due) >= 2"), ("a * b < 0", "a < 0 AND b > 0"),
        ("IF(a > 1, TRUE, sex = 'F')", "a > 1 OR sex = 'F'"),
    ],
)  # fmt: skip
def test_two_spellings_of_one_set_are_one_condition(one, other):
    assert plain(where(one)) == plain(where(other))
    assert plain(where(f"({one}) AND a + b >= -9")) == plain(where(f"({other}) AND a + b >= -9"))


def test_conditions_that_differ_by_one_combination_are_two():
    assert where("a > b") != where("a > b AND NOT (a = 3 AND b = 2)")
    assert where("a > 9 * b + 9") == NONE


def test_a_condition_of_few_boxes_shares_the_budget_and_one_of_many_covers_their_hull():
    def covered(condition):
        query = parse(f"SELECT COUNT(*) FROM t WHERE {condition}", TABLES)
        (view,) = views_of(query.aggregates[0], query, 1).values()
        return region(view.definition()).boxes

    assert len(covered("a + b > 4")) <= 4
    assert (
        len(boxes(plain(where("2 * age > hours"))))
        == 1
        < MOST_BOXES
        < len(where("2 * age > hours").parts)
    )
    assert covered("2 * age > hours + 2") == (
        (("age", ((17, 90),), False), ("hours", ((1, 99),), False)),
    )
    assert covered("age > hours") == ((("age", ((17, 90),), False), ("hours", ((1, 89),), False)),)
    assert covered("age > hours AND sex = 'F' AND hours > 50") == (
        (("age", ((52, 90),), False), ("hours", ((51, 89),), False), ("sex", ((0, 0),), False)),
    )


def test_limits_see_every_column_of_a_condition():
    schema = Schema({name: SCHEMA[name] for name in ("a", "b", "sex")})
    table = Table("t", pd.DataFrame({"a": [1], "b": [2], "sex": ["F"]}), schema)
    made = dpnb.Curator([table], budget=dpnb.Budget(rho=1), analysts={"ann": 1})
    with contextlib.closing(made) as curator:
        curator.limit(column="b", rho="0.05")
        session = curator.session("ann")
        for condition in ("a > b", "a = 1 OR a > b AND sex = 'F'", "sex || b = 'F1'"):
            with pytest.raises(BudgetError, match="a limit that is not your own"):
                session.query(f"SELECT COUNT(*) FROM t WHERE {condition}", rho=0.1)
        session.query("SELECT COUNT(*) FROM t WHERE a > LENGTH(sex)", rho=0.1)


def test_many_ranges_are_described_in_words():
    assert predicate_text(where("age * 2 > hours"), SCHEMA) == "age and hours in 34 ranges"
    assert predicate_text(where("a * b > 11"), SCHEMA) == "a = 3 AND b = 4"


def test_conditions_that_take_long_or_change_often_are_refused(monkeypatch):
    monkeypatch.setattr("dpnb.sql.dataless.SECONDS", -1.0)
    with pytest.raises(SqlError, match="takes too long"):
        where("a * a > b + b - 1")
    monkeypatch.undo()
    monkeypatch.setattr("dpnb.sql.products.MOST_PIECES", 10)
    with pytest.raises(
        SqlError, match="this changes more than 10 times over the values of a and b"
    ):
        where("(a + b) % 2 = 0")
