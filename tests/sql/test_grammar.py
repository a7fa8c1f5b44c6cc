"""Statements built from a grammar mean what a plain evaluation of them, row by row, says.

The reference normalises each value in plain Python, evaluates conditions in SQL's three-valued logic
and adds up; the package parses, plans and lets the engine measure. The exact vectors must be equal.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import SqlError
from dpnb.privacy.definition import ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.sql.canonical import describe, read
from dpnb.sql.parser import parse
from dpnb.sql.values import Column
from dpnb.views.measures import Count
from tests.kit.one_database import one_database  # noqa: F401

LONG = os.environ.get("DPNB_LONG") == "1"
FIRST, LAST = datetime.date(2024, 1, 1), datetime.date(2024, 1, 6)
SCHEMA = Schema(
    {
        "c": Category(["a", "b", "it's", "<b>"]),
        "O": Category(["x", "y", "rest"], other="rest"),
        "i": Integer(-3, 7, bins=[-3, 0, 2, 7]),
        "j": Integer(0, 2),
        "r": Real(-1, 2.5, bins=[-1, 0, 0.5, 2]),
        'the "day"': Date(FIRST, LAST),
    }
)
QUOTED = {"c": "c", "O": '"o"', "i": "I", "j": "j", "r": "r", 'the "day"': '"the ""day"""'}
SOURCE = pa.schema(
    {
        "c": pa.string(),
        "O": pa.string(),
        "i": pa.float64(),
        "j": pa.int32(),
        "r": pa.float64(),
        'the "day"': pa.date32(),
    }
)
Row = dict[str, Any]
Truth = bool | None

rows = st.lists(
    st.fixed_dictionaries(
        {
            "c": st.sampled_from([None, "a", "b", "it's", "<b>", "A", "", "stranger"]),
            "O": st.sampled_from([None, "x", "y", "rest", "X", "", "stranger"]),
            "i": st.one_of(
                st.none(),
                st.sampled_from([math.nan, math.inf, -math.inf, -0.5, 0.5, 1e300, -4.0, 8.0]),
                st.integers(-4, 8).map(float),
                st.floats(-5, 9),
            ),
            "j": st.one_of(st.none(), st.integers(-1, 3), st.just(2**31 - 1)),
            "r": st.one_of(
                st.none(),
                st.sampled_from(
                    [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 0.5, -1.0, 2.0, 2.5, 5e-324]
                ),
                st.floats(-2, 4),
                st.just(math.nextafter(0.5, 1)),
            ),
            'the "day"': st.one_of(
                st.none(), st.dates(FIRST - datetime.timedelta(2), LAST + datetime.timedelta(2))
            ),
        }
    ),
    max_size=14,
)


def clamp(value, low, high):
    return low if value < low else min(value, high)


def normalise(row: Row) -> Row:
    """The public rule, one cell at a time."""

    def whole(value, low, high):
        if value is None or not math.isfinite(value):
            return None
        return int(clamp(math.floor(value + 0.5), low, high))

    r, day = row["r"], row['the "day"']
    return {
        "c": row["c"] if row["c"] in SCHEMA["c"].values else None,
        "O": None if row["O"] is None else row["O"] if row["O"] in ("x", "y") else "rest",
        "i": whole(row["i"], -3, 7),
        "j": whole(row["j"], 0, 2),
        "r": None if r is None or not math.isfinite(r) else clamp(r, -1.0, 2.5),
        'the "day"': None if day is None else clamp(day, FIRST, LAST),
    }


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
FLIPPED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Condition:
    text: str
    true: Callable[[Row], Truth]

    def __repr__(self) -> str:
        return self.text


def constants(column: str) -> st.SearchStrategy[tuple[str, Any]]:
    """The SQL of a constant and its value."""
    kind = SCHEMA[column]
    if isinstance(kind, Category):
        return st.sampled_from(kind.values).map(lambda v: ("'" + v.replace("'", "''") + "'", v))
    if isinstance(kind, Date):
        days = st.dates(FIRST - datetime.timedelta(2), LAST + datetime.timedelta(2))
        return st.tuples(days, st.sampled_from(["'{}'", "DATE '{}'", "CAST('{}' AS DATE)"])).map(
            lambda pair: (pair[1].format(pair[0].isoformat()), pair[0])
        )
    numbers = st.one_of(
        st.integers(-5, 9).map(str),
        st.decimals(-5, 9, places=2).map(str),
        st.sampled_from(
            ["1e0", "25e-1", "-.5", "0.1", "2.", "1E1", "0.30000000000000004", "1e-320"]
        ),
    )
    # beside a Real a decimal means the float that it names
    meant = float if isinstance(kind, Real) else Fraction
    return numbers.map(lambda text: (text, Fraction(meant(text))))


def exact(value: Any) -> Any:
    return Fraction(value) if isinstance(value, (int, float)) else value


@st.composite
def atoms(draw) -> Condition:
    column = draw(st.sampled_from(list(SCHEMA)))
    name = draw(st.sampled_from([QUOTED[column], f"t.{QUOTED[column]}"]))
    kind = SCHEMA[column]
    form = draw(st.sampled_from(["compare", "compare", "between", "in", "null"]))
    negated = draw(st.booleans())
    if form == "null":
        text = f"{name} IS {'NOT ' if negated else ''}NULL"
        return Condition(text, lambda row: (row[column] is None) != negated)
    if form == "in":
        listed = draw(st.lists(constants(column), min_size=1, max_size=3))
        values = [value for _, value in listed]

        def among(row: Row) -> Truth:
            return None if row[column] is None else (exact(row[column]) in values) != negated

        word = "NOT IN" if negated else "IN"
        return Condition(f"{name} {word} ({', '.join(t for t, _ in listed)})", among)
    if form == "between" and not isinstance(kind, Category):
        (low_text, low), (high_text, high) = draw(constants(column)), draw(constants(column))

        def between(row: Row) -> Truth:
            value = row[column]
            return None if value is None else (low <= exact(value) <= high) != negated

        word = "NOT BETWEEN" if negated else "BETWEEN"
        return Condition(f"{name} {word} {low_text} AND {high_text}", between)
    known = ["=", "<>", "!="] if isinstance(kind, Category) else sorted(COMPARE)
    operator = draw(st.sampled_from(known))
    text, constant = draw(constants(column))

    def compare(row: Row) -> Truth:
        value = row[column]
        return None if value is None else COMPARE[operator](exact(value), constant)

    written = f"{text} {FLIPPED[operator]} {name}" if negated else f"{name} {operator} {text}"
    return Condition(written, compare)


def negate(part: Condition) -> Condition:
    def true(row: Row) -> Truth:
        value = part.true(row)
        return None if value is None else not value

    return Condition(f"NOT ({part.text})", true)


def join(parts: list[Condition], conjunction: bool) -> Condition:
    def true(row: Row) -> Truth:
        values = [part.true(row) for part in parts]
        if conjunction:
            return False if False in values else None if None in values else True
        return True if True in values else None if None in values else False

    word = " AND " if conjunction else " OR "
    return Condition(word.join(f"({part.text})" for part in parts), true)


conditions = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        inner.map(negate),
        st.tuples(st.lists(inner, min_size=2, max_size=3), st.booleans()).map(lambda a: join(*a)),
    ),
    max_leaves=8,
)
ALWAYS = Condition("", lambda row: True)


@dataclass(frozen=True)
class Expression:
    """Text, and the value for a row: a constant as Fraction, else int or float; None is missing."""

    text: str
    value: Callable[[Row], Any]
    bare: bool = False

    def __repr__(self) -> str:
        return self.text


def operand(value: Any) -> Any:
    """Constants meet columns as whole numbers or as floats."""
    if not isinstance(value, Fraction):
        return value
    return int(value) if value.denominator == 1 else float(value)


def operation(left: Expression, right: Expression, operator: str) -> Expression:
    work = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[operator]

    def value(row: Row) -> Any:
        a, b = left.value(row), right.value(row)
        if a is None or b is None:
            return None
        folded = isinstance(a, Fraction) and isinstance(b, Fraction)
        return work(a, b) if folded else work(operand(a), operand(b))

    return Expression(f"({left.text}) {operator} ({right.text})", value)


def quotient(left: Expression, text: str) -> Expression:
    def value(row: Row) -> Any:
        a = left.value(row)
        if a is None:
            return None
        return a / Fraction(text) if isinstance(a, Fraction) else a / operand(Fraction(text))

    return Expression(f"({left.text}) / {text}", value)


def minus(inner: Expression) -> Expression:
    return operation(Expression("0", lambda row: Fraction(0)), inner, "-")


def case(branches: list[tuple[Condition, Expression]], default: Expression | None) -> Expression:
    def value(row: Row) -> Any:
        for condition, result in branches:
            if condition.true(row):
                return operand(result.value(row))
        return None if default is None else operand(default.value(row))

    text = " ".join(f"WHEN {test.text} THEN {result.text}" for test, result in branches)
    last = "" if default is None else f" ELSE {default.text}"
    return Expression(f"CASE {text}{last} END", value)


columns = st.sampled_from(["i", "j", "r"]).map(
    lambda name: Expression(QUOTED[name], lambda row: row[name], bare=True)
)
numbers = st.sampled_from(["0", "1", "2", "3", "0.5", ".1", "1e3", "-2", "7"]).map(
    lambda text: Expression(text, lambda row: Fraction(text))
)
nothing = Expression("NULL", lambda row: None)
expressions = st.recursive(
    st.one_of(columns, columns, numbers),
    lambda inner: st.one_of(
        st.builds(operation, inner, inner, st.sampled_from("+-*")),
        st.builds(quotient, inner, st.sampled_from(["2", "-0.5", "3e0"])),
        inner.map(minus),
        st.builds(
            case,
            st.lists(
                st.tuples(conditions, st.one_of(inner, st.just(nothing))), min_size=1, max_size=2
            ),
            st.one_of(st.none(), inner),
        ),
    ),
    max_leaves=5,
)
UNUSABLE = ("in every row", "equals this", "too close together", "too small", "divides by 0")


@st.composite
def statements(
    draw,
) -> tuple[str, list[str], list[tuple[str, Expression | None, Condition]], Condition]:
    """The text, the group columns, the aggregates and the condition of one statement."""
    keys = draw(st.lists(st.sampled_from(list(SCHEMA)), max_size=3, unique=True))
    aggregates = []
    outputs = [QUOTED[key] for key in keys if draw(st.booleans())]
    for place in range(draw(st.integers(1, 3))):
        function = draw(st.sampled_from(["COUNT", "SUM", "AVG"]))
        if draw(st.booleans()):
            argument = draw(expressions)
        else:
            known = [None, *SCHEMA] if function == "COUNT" else ["i", "j", "r"]
            column = draw(st.sampled_from(known))
            argument = column and Expression(
                QUOTED[column], lambda row, name=column: row[name], bare=True
            )
        condition = draw(st.one_of(st.just(ALWAYS), conditions))
        suffix = f" FILTER (WHERE {condition.text})" if condition.text else ""
        shown = "*" if argument is None else argument.text
        outputs.append(f"{function}({shown}){suffix} AS v{place}")
        aggregates.append((function, argument, condition))
    where = draw(st.one_of(st.just(ALWAYS), conditions))
    text = f"SELECT {', '.join(outputs)} FROM t"
    text += f" WHERE {where.text}" if where.text else ""
    text += f" GROUP BY {', '.join(QUOTED[key] for key in keys)}" if keys else ""
    return text, keys, aggregates, where


def group(column: str, value: Any) -> int | None:
    """The number of the declared group that a normalised value falls into."""
    if value is None:
        return None
    kind = SCHEMA[column]
    if isinstance(kind, Category):
        return kind.values.index(value)
    if isinstance(kind, Date):
        return (value - FIRST).days
    if kind.bins is None:
        return value - kind.low
    if value == kind.bins[0]:
        return 0
    for place in range(len(kind.bins) - 1):
        if kind.bins[place] < value <= kind.bins[place + 1]:
            return place
    return None


def expected(
    view: Any, argument: Expression | None, keep: Callable[[Row], bool], data: list[Row]
) -> list[int]:
    """The exact vector of a view in ticks, by adding up row by row."""
    sizes = [key.size for key in view.keys]
    vector = [0] * math.prod(sizes)
    for row in data:
        cells = [group(key.column, row[key.column]) for key in view.keys]
        if not keep(row) or None in cells:
            continue
        cell = 0
        for number, size in zip(cells, sizes, strict=True):
            cell = cell * size + number
        measure = view.measure
        value = Fraction(0) if argument is None else operand(argument.value(row))
        if isinstance(measure, Count):
            vector[cell] += value is not None
        elif value is not None:
            shift, step = measure.shift, measure.step
            if measure.rounded:
                ticks = math.floor((float(value) - float(shift)) / float(step) + 0.5)
                vector[cell] += clamp(ticks, measure.least, measure.greatest)
            else:
                ticks = (value - shift) / step
                assert ticks.denominator == 1
                assert measure.least <= ticks <= measure.greatest
                vector[cell] += int(ticks)
    return vector


@given(rows, st.lists(statements(), min_size=3, max_size=6))
@settings(deadline=None, max_examples=1_000 if LONG else 40)
def test_exact_vectors_equal_those_of_a_plain_evaluation(data, asked):
    source = pa.Table.from_pylist(data, schema=SOURCE)
    table = Table("t", source, SCHEMA)
    normalised = [normalise(row) for row in data]
    engine = DuckDBEngine(table)
    try:
        for text, keys, aggregates, where in asked:
            try:
                query = parse(text, {"t": table})
            except SqlError as error:
                assert any(word in error.what for word in UNUSABLE), error
                continue
            again = read(json.loads(json.dumps(describe(query))), query.schema)
            assert describe(again) == describe(query)
            assert [a.value for a in again.aggregates] == [a.value for a in query.aggregates]
            assert [key.partition.column for key in query.keys] == keys
            planned = plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)
            found = engine.measure(planned.scan(planned.views))
            order = {name: place for place, name in enumerate(planned.views)}
            for part, (function, argument, condition) in zip(
                planned.parts, aggregates, strict=True
            ):
                if function == "SUM" and part.aggregate.value is None:
                    # SUM(1) is COUNT(*)
                    function, argument = "COUNT", None
                assert part.aggregate.function == function
                if argument is None or argument.bare:
                    column = part.aggregate.value
                    assert column is None if argument is None else isinstance(column, Column)
                assert len(part.views()) == (2 if function == "AVG" else 1)
                for view in part.views():
                    assert view.measure.value == part.aggregate.value
                    exact_vector = expected(
                        view,
                        argument,
                        lambda row, c=condition, w=where: bool(w.true(row)) and bool(c.true(row)),
                        normalised,
                    )
                    assert list(found.reveal(order[view.id])) == exact_vector, text
    finally:
        engine.close()
