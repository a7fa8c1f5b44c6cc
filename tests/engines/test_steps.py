"""Groups of a column in SQL: each code has the number of its group, whatever way it is found."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

from dpnb.engines import steps
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.schema.partition import declared, grouped
from dpnb.schema.predicates import EVERY
from dpnb.schema.table import Table
from dpnb.views.histogram import histogram
from dpnb.views.measures import Count, Scan
from tests.kit.engines import FUNCTIONS, rows, schema


@pytest.fixture(scope="module")
def engine():
    with closing(DuckDBEngine(Table("t", rows(), schema(), in_memory=()))) as found:
        yield found


def codes(engine, column):
    """The normalised values of a column."""
    sql = engine._sql.column(column)
    return [code for (code,) in engine._connection.execute(f"SELECT {sql} FROM rows").fetchall()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_counted_in_the_group_of_their_code(name, engine):
    key = grouped(name.split()[0], schema(), FUNCTIONS[name])
    (counts,) = (engine.measure(Scan((key,), EVERY, ((Count(None), EVERY),))).reveal(0),)
    numbers = key.steps or key.numbers
    found = Counter(
        numbers.null if code is None else numbers(code) for code in codes(engine, key.column)
    )
    assert list(counts) == [found[number] for number in range(key.size)]
    assert sum(counts) > 0


@pytest.mark.parametrize("column", ["c", "i", "n", "r", "d", "t"])
def test_bins_of_histograms_hold_every_row(column, engine):
    (axis,) = histogram("t", 1, schema(), [column]).keys
    counts = engine.histograms([[axis]]).reveal(0)
    found = Counter(
        axis.numbers.null if code is None else axis.numbers(code) for code in codes(engine, column)
    )
    assert list(counts) == [found[number] for number in range(axis.size)]


def test_ways():
    """Codes in a row need a subtraction, few intervals a CASE, many a relation or a search."""
    kinds = schema()

    def way(name):
        key = grouped(name.split()[0], kinds, FUNCTIONS[name])
        return steps.is_looked_up(key), steps.number(key, "c0").count("WHEN")

    assert steps.number(declared("i", kinds), "c0") == "CAST(c0 AS BIGINT) - (-100)"
    assert steps.number(declared("long", kinds), "c0") == "c0"
    assert way("i in three") == (False, 3)
    assert way("i by remainder") == (True, 1)
    assert way("long in pairs") == (True, 1)
    assert way("r in some") == (False, 6)
    assert way("r in many")[0] is way("huge in many")[0] is False
    assert way("r in many")[1] > steps.MOST_CASES
