"""Arguments read part by part: functions of columns of very many values, and of several columns."""

from __future__ import annotations

import datetime
import itertools

import duckdb
import pandas as pd
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import SqlError
from dpnb.schema.predicates import EVERY
from dpnb.sql.canonical import describe, plain_value, read, read_value
from dpnb.sql.parser import parse
from dpnb.views.definitions import read_view
from dpnb.views.measures import Scan
from dpnb.views.text import value_text
from dpnb.views.view import views_of

pytestmark = pytest.mark.fast

DAYS = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), datetime.date(2024, 3, 9), None]
ROWS = pd.DataFrame(
    [
        (*numbers, *days, text)
        for (numbers, days), text in zip(
            itertools.product(
                itertools.product([-5.0, 0.25, 10.0, None], [0.0, 0.25, 4.0, None], [0, 7, 10**6, None]),
                [(DAYS[0], DAYS[2]), (DAYS[2], DAYS[0]), (DAYS[1], None), (None, DAYS[1])],
            ),
            itertools.cycle(["F", "M", None]),
        )
    ],
    columns=["w", "v", "n", "d", "e", "s"],
).assign(row=lambda rows: range(len(rows))).astype({"n": "Int64", "row": "int64"})  # fmt: skip
SCHEMA = Schema(
    {
        "w": Real(-5, 10), "v": Real(0, 4), "n": Integer(0, 10**6), "d": Date(DAYS[0], DAYS[2]),
        "e": Date(DAYS[0], DAYS[2]), "s": Category(["F", "M"]), "row": Integer(0, len(ROWS) - 1),
    },
    complete=["row"],
)  # fmt: skip
TABLE = Table("t", ROWS, SCHEMA, in_memory=())
ARGUMENTS = (
    "COALESCE(w, 0) * 2", "ABS(w - 3)", "GREATEST(w - 3, 0)", "LEAST(w, 2) / 2 + 1", "ROUND(w) * 2 + w", "ABS(n - 7) + w",
    "NULLIF(w, 0.25) * 2", "SIGN(w - 3) * w", "COALESCE(ABS(w), v, 3)", "LEAST(w, v)", "GREATEST(w, v, 1)",
    "LEAST(w * v, n, NULL)", "ABS(w - v)", "COALESCE(w, v)", "COALESCE(w + v, n)", "w * v", "IF(w > 3, w, v)",
    "CASE s WHEN 'F' THEN w WHEN 'M' THEN v END", "CASE WHEN w > 3 THEN GREATEST(v, 2) ELSE ABS(w) END",
    "LEAST(GREATEST(w, 0), 5)", "GREATEST(w, LEAST(v, 2))", "e - d", "w - (d - DATE '2024-01-01')", "d - e - 3", "e - (d + 3)", "ABS(e - d)",
    "DATE_DIFF('day', d, e)", "DATE_DIFF('month', d, e)", "GREATEST(e - d, 0) * w", "COALESCE(e - d, n)",
)  # fmt: skip
COUNTED = (
    "ABS(10 * w + v)", "s || d", "LEAST(w, v)", "COALESCE(w, v)", "UPPER(s) || w", "DATE_DIFF('day', d, e)",
    "CASE WHEN w > 3 THEN s ELSE CAST(v AS VARCHAR) END", "CASE WHEN w > 3 THEN ABS(v) END", "NULLIF(w, 0.25) + v", "ROUND(w * v) / 2",
)  # fmt: skip
WHERE = ("", " WHERE n < 8 AND v IS NOT NULL OR w > 0")


def view_of(text, kind="sum", tables=None):
    query = parse(f"SELECT {text} AS r FROM t", tables or {"t": TABLE})
    return views_of(query.measured[0], query, 1)[kind]


@pytest.fixture(scope="module")
def engine():
    made = DuckDBEngine(TABLE)
    made.bound(bytes(32))
    yield made
    made.close()


@pytest.fixture(scope="module")
def exactly():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("f", ROWS)
        connection.execute("CREATE TABLE t AS SELECT * REPLACE (d::DATE AS d, e::DATE AS e) FROM f")
        yield connection.execute


@pytest.mark.parametrize("where", WHERE)
def test_each_row_adds_what_duckdb_says_and_no_more_than_is_claimed(where, engine, exactly):
    sharp = 0
    columns = ", ".join(f"COALESCE({one}, 0)::DOUBLE AS x{i}" for i, one in enumerate(ARGUMENTS))
    kept = exactly(f"SELECT row, {columns} FROM t{where} ORDER BY row").fetchnumpy()
    for place, argument in enumerate(ARGUMENTS):
        query = parse(f"SELECT row, SUM({argument}) AS r FROM t{where} GROUP BY row", {"t": TABLE})
        view = views_of(query.aggregates[0], query, 1)["sum"]
        ticks = engine.measure(Scan(view.keys, view.where, ((view.measure, EVERY),))).reveal(0)
        found = [ticks[row] * float(view.measure.step) for row in kept["row"]]
        assert found == pytest.approx(kept[f"x{place}"], abs=float(view.measure.step)), argument
        largest = max(map(abs, ticks))
        assert largest <= view.measure.sensitivity, argument
        sharp += largest == view.measure.sensitivity
    assert sharp >= (20 if not where else 10)


def test_counts_are_of_the_rows_where_nothing_that_is_needed_is_missing(engine, exactly):
    for argument in COUNTED:
        view = view_of(f"COUNT({argument})", "count")
        (expected,) = exactly(f"SELECT COUNT({argument}) FROM t").fetchone()
        scan = Scan((), view.where, ((view.measure, EVERY),))
        assert engine.measure(scan).reveal(0) == [expected], argument
    assert view_of("COUNT(ABS(w + v))", "count") == view_of(
        "COUNT(*) FILTER (WHERE w IS NOT NULL AND v IS NOT NULL)", "count"
    )


@pytest.mark.parametrize(
    ("argument", "low", "high"),
    [
        ("COALESCE(w, 20) * 2", -10, 40), ("ABS(w - 3)", 0, 8), ("GREATEST(w - 3, 0)", 0, 7), ("LEAST(w, v)", -5, 10),
        ("LEAST(w, v, 3)", -5, 3), ("LEAST(w, v) FILTER (WHERE v IS NOT NULL)", -5, 4), ("ABS(e - d)", 0, 38),
        ("GREATEST(w, v) FILTER (WHERE w > 2 AND w IS NOT NULL)", 2, 10), ("COALESCE(w, v) FILTER (WHERE w IS NULL)", 0, 4),
        ("ABS(w) FILTER (WHERE w < -2)", 2, 5), ("LEAST(w, row)", -5, len(ROWS) - 1),
        ("GREATEST(v, row)", 0, len(ROWS) - 1),
    ],
)  # fmt: skip
def test_bounds_are_those_of_the_parts(argument, low, high):
    text = argument.partition(" FILTER")
    measure = view_of(f"SUM({text[0]}){text[1]}{text[2]}").measure
    slack = float(measure.step)
    assert [float(end) for end in measure.bounds] == pytest.approx([low, high], abs=slack)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("LEAST(w, v, 3)", "LEAST(3, LEAST(v, 5), w)"), ("COALESCE(w, v)", "CASE WHEN w IS NOT NULL THEN w ELSE v END"),
        ("e - d", "DATE_DIFF('day', d, e)"), ("IF(w > 3, w, v)", "CASE WHEN w > 3 THEN w ELSE v END"),
        ("COALESCE(w, NULL, 3, v)", "IFNULL(w, 3)"), ("NULLIF(w, 3)", "CASE WHEN w = 3 THEN NULL ELSE w END"),
    ],
)  # fmt: skip
def test_two_spellings_are_one_view(one, other):
    assert view_of(f"SUM({one})").id == view_of(f"SUM({other})").id


def test_different_functions_are_different_views_and_are_read_back():
    ids = set()
    for argument in ARGUMENTS:
        query = parse(f"SELECT SUM({argument}) AS a, AVG({argument}) AS b FROM t", {"t": TABLE})
        value = query.aggregates[0].value
        assert read_value(plain_value(value)) == value
        for view in views_of(query.aggregates[1], query, 1).values():
            assert read_view(view.definition(), SCHEMA) == view
        assert describe(read(describe(query), SCHEMA)) == describe(query)
        ids.add(view_of(f"SUM({argument})").id)
    assert len(ids) == len(ARGUMENTS) - 1


def test_its_text_is_sql():
    value = parse("SELECT SUM(GREATEST(ABS(w - v), 1)) FROM t", {"t": TABLE}).aggregates[0].value
    assert value_text(value, SCHEMA) == "GREATEST(ABS((w - v)), 1)"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SUM(LEAST(d, e))", "'d' is not a numeric column"), ("SUM(ABS(w / v))", "the divisor must be a number"),
        ("SUM(ABS(w) % 7)", "changes more than 10,000 times"), ("COUNT(w + s)", "DuckDB cannot compute this from s and w"),
        ("COUNT(RANDOM() * w + ABS(v))", "RANDOM is not supported"), ("SUM(COALESCE(NULL, NULL) * w)", "NULL in every row"),
        ("SUM(ABS(w - nope))", "unknown column 'nope'"), ("SUM((n + row) % 3)", "not supported inside an aggregate"),
    ],
)  # fmt: skip
def test_what_has_no_bounds_is_refused(text, what):
    with pytest.raises(SqlError, match=what):
        parse(f"SELECT {text} AS s FROM t", {"t": TABLE})
