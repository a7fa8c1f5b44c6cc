"""Step functions of real numbers are exact in DuckDB's SQL, on both sides of each break."""

from __future__ import annotations

import itertools
import math

import duckdb
import numpy as np
import pytest

from dpnb import Real, Schema, Table
from dpnb.codes import Scale
from dpnb.engines.duckdb_dialect import DuckDBDialect
from dpnb.engines.grids import grid
from dpnb.engines.steps import runs
from dpnb.sql.parser import parse
from dpnb.sql.values import Mapped
from dpnb.views.view import views_of

pytestmark = pytest.mark.fast

EXPRESSIONS = (
    "FLOOR(x)", "FLOOR(x / 20)", "CEIL(x / 7)", "ROUND(x)", "ROUND(x, -1)", "FLOOR(x / 0.3)", "FLOOR(x * 2)",
    "FLOOR(x * 0.3)", "TRUNC(x / 3)", "FLOOR(x / 20) * 3 - 1", "POWER(FLOOR(x / 2), 2)", "FLOOR(x / 1.7)",
    "COALESCE(FLOOR(x / 5), 7)", "FLOOR(x / 3) % 4",
    "CASE WHEN x > 80 THEN NULL ELSE FLOOR(x / 2) END", "FLOOR(SQRT(ABS(x)))", "FLOOR((x - 0.5) / 1.5)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        *((*pair, 200.0) for pair in itertools.product(EXPRESSIONS, [0.0, -33.3, 1e-3])),
        ("FLOOR(x * 10)", 100.0, 130.0),
        ("FLOOR(x / 0.1)", -3.3, 40.0),
        # places beyond 32 bits, and ticks beyond 53
        ("FLOOR(x)", 16e9, 16e9 + 20),
        ("FLOOR(x)", -16e9, -16e9 + 20),
        ("(FLOOR(x) - 1e9) * 123456789", 1e9, 1e9 + 4.5),
    ],
)
def test_a_look_up_is_the_step_function(expression, low, high):
    schema = Schema({"x": Real(low, high)})
    tables = {"t": Table("t", None, schema)}
    sql = DuckDBDialect(schema)
    query = parse(f"SELECT {expression} AS k, SUM({expression}) AS s FROM t GROUP BY 1", tables)
    measure = views_of(query.measured[0], query, 1)["sum"].measure
    value, key = measure.value, query.keys[0].partition
    assert isinstance(value, Mapped)
    starts = [start for start, _ in runs(value.numbers, schema["x"].scale)]
    beside = [math.nextafter(start, way) for start in starts[1:] for way in (-math.inf, math.inf)]
    codes = [
        *starts,
        *beside,
        high,
        *np.random.default_rng(1).uniform(low, high, 200).tolist(),
        None,
    ]
    asked = (
        sql.mapped(value.numbers.then(lambda number: str(float(number))), "x"),
        sql._mapped_ticks(value, measure),
        sql.group(key),
    )
    codes = [code if code is None else min(code, high) for code in codes]
    given = ", ".join("NULL" if code is None else f"CAST('{code!r}' AS DOUBLE)" for code in codes)
    found = duckdb.sql(
        f"SELECT {', '.join(asked)} FROM (SELECT unnest([{given}]) AS c0)"
    ).fetchall()
    for code, (mapped, ticks, number) in zip(codes, found, strict=True):
        output = value.numbers.null if code is None else value.numbers(code)
        assert mapped == (None if output is None else float(output))
        assert ticks == (None if output is None else measure.ticks(output))
        assert number == (key.numbers.null if code is None else key.numbers(code))


def test_breaks_that_are_not_quite_on_a_grid_are_compared():
    scale = Scale(0.0, 49.0, integral=False)
    starts = [0.0, 10.0, 20.0, 30.0, 40.0]
    assert grid(starts, scale) is not None
    for place, way in itertools.product(range(1, 5), (0, math.inf)):
        moved = list(starts)
        moved[place] = math.nextafter(starts[place], way)
        assert grid(moved, scale) is None
    assert grid(starts, Scale(-10.0, 49.0, integral=False)) is None
    assert grid(starts, Scale(0.0, 50.0, integral=False)) is None
