"""Arithmetic and CASE inside aggregates: exact where all is whole, within the bounds where not."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpnb import Category, Integer, Real, Schema, Table
from dpnb.engines.dialect import Dialect
from dpnb.engines.duckdb import DuckDBEngine, connected
from dpnb.schema.predicates import EVERY
from dpnb.sql.parser import parse
from dpnb.sql.values import Column
from dpnb.views.measures import Scan, sum_of
from dpnb.views.view import views_of

pytestmark = pytest.mark.fast

LARGE = 2**53
NAMES = ["c0", 'a"; DROP TABLE rows; --', "rows", "SUM(x)", "1"]
ROWS = 4_000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "g": rng.choice(["a", "b", "c"], ROWS),
            "i": rng.integers(-100, 101, ROWS).astype(float),
            "j": rng.integers(0, 128, ROWS).astype(float),
            "r": rng.normal(0, 2, ROWS),
            "s": rng.uniform(0, 1e6, ROWS),
        }
    )
    for name in frame:
        frame.loc[rng.random(ROWS) < 0.1, name] = None
    return frame


@pytest.fixture(scope="module")
def table(frame):
    schema = Schema(
        {
            "g": Category(["a", "b", "c"]),
            "i": Integer(-100, 100),
            "j": Integer(0, 127),
            "r": Real(-3, 3),
            "s": Real(0, 1e6),
        }
    )
    return Table("t", frame, schema)


@pytest.fixture(scope="module")
def engine(table):
    found = DuckDBEngine(table)
    yield found
    found.close()


def vectors(table, engine, sql):
    """The exact vectors of each aggregate with their measures."""
    query = parse(sql, {"t": table})
    found = []
    for aggregate in query.measured:
        for view in views_of(aggregate, query, 1).values():
            keys = tuple(key.partition for key in query.keys)
            exact = engine.measure(Scan(keys, query.where, ((view.measure, aggregate.filter),)))
            found.append((view.measure, exact.reveal(0)))
    return found


# SQL, the same in pandas, whether it is computed in whole numbers
EXPRESSIONS = [
    ("i - j", lambda f: f.i - f.j, True),
    ("2 * i + 1", lambda f: 2 * f.i + 1, True),
    ("j * j * j", lambda f: f.j**3, True),
    ("-i * j", lambda f: -f.i * f.j, True),
    ("i * 0.5", lambda f: f.i * 0.5, False),
    ("r - i / 3", lambda f: f.r - f.i / 3, False),
    ("r * s", lambda f: f.r * f.s, False),
    ("(s - 5e5) * (s - 5e5)", lambda f: (f.s - 5e5) ** 2, False),
    (
        "CASE WHEN i > 0 THEN j ELSE 0 END",
        lambda f: f.j.where(f.i > 0, 0.0),
        True,
    ),
    (
        "CASE WHEN g = 'a' THEN 1 WHEN r > 0 THEN i END",
        lambda f: pd.Series(np.where(f.g == "a", 1, np.where(f.r > 0, f.i, np.nan)), f.index),
        True,
    ),
    (
        "CASE WHEN NOT g = 'a' THEN r ELSE i END",
        lambda f: f.r.where(f.g.notna() & (f.g != "a"), f.i),
        False,
    ),
    ("CASE WHEN i IS NULL THEN 7 ELSE i END", lambda f: f.i.fillna(7), True),
]


class TestAgainstPandas:
    @pytest.mark.parametrize(
        ("text", "work", "whole"), EXPRESSIONS, ids=[e[0] for e in EXPRESSIONS]
    )
    @pytest.mark.parametrize("function", ["SUM", "AVG"])
    def test_sums_and_counts(self, table, frame, engine, text, work, whole, function):
        clamped = frame.assign(r=frame.r.clip(-3, 3))
        values = work(clamped)
        sql = f"SELECT g, {function}({text}), COUNT({text}) AS n FROM t GROUP BY g"
        (total, sums), *_, (_, counts) = vectors(table, engine, sql)
        assert total.rounded is not whole
        for place, group in enumerate("abc"):
            inside = values[frame.g == group].dropna()
            assert counts[place] == len(inside)
            shifted = (inside - float(total.shift)).sum()
            allowed = 0 if whole else len(inside) * float(total.step) * 0.51
            assert abs(sums[place] * float(total.step) - shifted) <= allowed

    def test_filters_and_where(self, table, frame, engine):
        sql = "SELECT SUM(i - j) FILTER (WHERE r > 0) FROM t WHERE s < 5e5"
        ((_, (found,)),) = vectors(table, engine, sql)
        kept = frame[(frame.r > 0) & (frame.s < 5e5)]
        assert found == (kept.i - kept.j).sum()

    def test_a_case_of_ones_is_a_filtered_count(self, table, engine):
        sql = (
            "SELECT SUM(CASE WHEN g = 'a' THEN 1 ELSE 0 END) AS a, "
            "COUNT(CASE WHEN g = 'a' THEN 1 END) AS b, COUNT(*) FILTER (WHERE g = 'a') AS c FROM t"
        )
        assert len({vector[0] for _, vector in vectors(table, engine, sql)}) == 1


BOUNDS = ((-LARGE, LARGE), (-128, 127), (0, 2**31), (-(2**15), 2**15 - 1), (0, 1))


@pytest.fixture(scope="module")
def ends():
    """A column for each bounds, with the lowest value in one group, the highest, and none."""
    columns = {
        f"x{i}": pa.array([low, high, None], pa.int64()) for i, (low, high) in enumerate(BOUNDS)
    }
    kinds = {f"x{i}": Integer(*bounds) for i, bounds in enumerate(BOUNDS)}
    schema = Schema({"g": Category(["low", "high", "none"]), **kinds})
    table = Table("t", pa.table({"g": ["low", "high", "none"], **columns}), schema)
    engine = DuckDBEngine(table)
    yield table, engine
    engine.close()


class TestExtremes:
    def one(self, text, columns, schema, function="SUM"):
        table = Table("t", pa.table(columns), Schema(schema))
        engine = DuckDBEngine(table)
        try:
            return vectors(table, engine, f"SELECT {function}({text}) FROM t")[0]
        finally:
            engine.close()

    @pytest.mark.parametrize("function", ["SUM", "AVG"])
    @pytest.mark.parametrize(
        "text",
        ["x + x", "x - x", "x * 3", "x * x", "-x", "x / 3", "x + 0.5", "CASE WHEN x > 0 THEN x ELSE -1 END"],
    )  # fmt: skip
    def test_no_value_within_the_bounds_overflows(self, text, function, ends):
        for i in range(len(BOUNDS)):
            sql = f"SELECT g, {function}({text.replace('x', f'x{i}')}) FROM t GROUP BY g"
            measure, found = vectors(*ends, sql)[0]
            assert len(found) == 3
            assert all(measure.least <= value <= measure.greatest for value in found[:2])
            if "CASE" in text:
                assert measure.least <= found[2] <= measure.greatest
            else:
                assert found[2] == 0

    @pytest.mark.parametrize("function", ["SUM", "AVG"])
    def test_numbers_that_cancel_stay_within_the_sensitivity(self, function):
        values, names = [0.0, 1.0, 9.99, 10.0], [*"abcd"]
        schema = Schema({"g": Category(names), "x": Real(0, 10)})
        table = Table("t", pa.table({"g": names, "x": values}), schema)
        engine = DuckDBEngine(table)
        for text in ("x * 1e17 + 1e33 - 1e33", "x + 1e25 - 1e25"):
            sql = f"SELECT g, {function}({text}) FROM t GROUP BY g"
            measure, found = vectors(table, engine, sql)[0]
            assert len(found) == 4
            assert all(measure.least <= value <= measure.greatest for value in found)
        assert abs(measure.least) <= measure.sensitivity <= 2**22 + 1
        engine.close()

    def test_the_clamp_is_needed(self):
        # 1e16 + 5 - 1e16 is 4 as a float, and 1e16 + 3 - 1e16 is 4: above the bounds of 0 to 3
        columns = {"x": pa.array([3.0], pa.float64())}
        measure, (found,) = self.one("x + 1e16 - 1e16", columns, {"x": Real(0, 3)})
        assert found == measure.greatest

    def test_large_reals(self):
        columns = {"x": pa.array([-1e149, 1e149, float("nan")], pa.float64())}
        measure, (found,) = self.one("x * 0.9 - 1e148", columns, {"x": Real(-1e149, 1e149)})
        assert found * float(measure.step) == pytest.approx(-2e148)

    def test_whole_numbers_far_from_0_can_be_summed_over_many_rows(self):
        # 2,000 times 2**53 does not fit 64 bits, though all distances from mid-range do
        rows = 3_000
        for text in ("x", "x + 0 * x"):
            columns = {"x": pa.array([LARGE] * rows, pa.int64())}
            measure, (found,) = self.one(text, columns, {"x": Integer(LARGE - 1, LARGE)}, "AVG")
            assert found * measure.step == rows / 2
            assert not measure.rounded

    def test_missing_values_are_in_no_sum(self):
        columns = {"x": pa.array([None, 5], pa.int64()), "y": pa.array([3, None], pa.int64())}
        schema = {"x": Integer(0, 9), "y": Integer(0, 9)}
        assert self.one("x + y", columns, schema)[1] == [0]
        assert self.one("x + y", columns, schema, "COUNT")[1] == [0]

    @pytest.mark.parametrize("name", NAMES)
    def test_names_that_look_like_sql(self, name):
        columns = {name: pa.array([1, 2, 3], pa.int64()), "x": pa.array([1, 1, 1], pa.int64())}
        quoted = '"' + name.replace('"', '""') + '"'
        text = f"CASE WHEN {quoted} > 1 THEN {quoted} * x ELSE -{quoted} END"
        assert self.one(text, columns, {name: Integer(0, 9), "x": Integer(0, 2)})[1] == [4]

    def test_the_deepest_expression_that_is_read_runs(self):
        text = "x" + " + 1" * 39
        columns = {"x": pa.array([1], pa.int64())}
        assert self.one(text, columns, {"x": Integer(0, 9)})[1] == [40]
        deep = "x"
        for _ in range(12):
            deep = f"CASE WHEN (x > 0 AND x < 9) OR x IS NULL THEN -({deep}) ELSE 0.5 END"
        found = self.one(deep, columns, {"x": Integer(0, 9)})
        assert found[1][0] * float(found[0].step) == pytest.approx(1)


def test_a_bare_column_is_measured_by_the_same_sql_as_ever(engine):
    terms = [
        engine._sql.terms(sum_of(Column(name), engine._schema, centred=centred), EVERY)
        for name, centred in (("i", False), ("j", True), ("r", True))
    ]
    counted = "CAST(ROUND(AVG(CAST({} IS NOT NULL AS TINYINT)) * COUNT(*)) AS BIGINT)"
    step = "CAST('9.5367431640625e-07' AS DOUBLE)"
    ticks = f"FLOOR(CAST(c3 AS DOUBLE) / {step} + CAST('0.5' AS DOUBLE))"
    counts = [counted.format(name) for name in ("c1", "c2", "c3")]

    def total(value, count):
        mean = f"AVG({value})"
        rest = f"CAST(ROUND(({mean} - TRUNC({mean})) * {count}) AS BIGINT)"
        return f"(CAST(TRUNC({mean}) AS BIGINT) * {count} + {rest})"

    assert terms[0] == [(total("c1", counts[0]), 1)]
    assert terms[1] == [(total("c2", counts[1]), 2), (counts[1], -127)]
    assert terms[2] == [(total(ticks, counts[2]), 1)]


@pytest.mark.parametrize("largest", [1, 3, 2**21 - 1, 2**22, 2**40, 2**51])
def test_a_mean_times_a_count_is_the_sum(largest):
    """For any sum of values of at most this size, in as many rows as are summed by a mean."""
    most = Dialect.SUMMED_BY_MEAN // (1 << (largest - 1).bit_length())
    draws = np.random.default_rng(largest)
    counts = np.concatenate(
        [draws.integers(1, most, 20_000, endpoint=True), [most] * 20_000, np.arange(1, 5)]
    )
    # sums next to the ends, where a mean has the fewest digits to spare, and everywhere
    ends = [min(int(n) * largest, 2**62) for n in counts]
    sums = [
        end - int(draws.integers(0, min(end, 1000), endpoint=True))
        if i % 2
        else int(draws.integers(-end, end, endpoint=True))
        for i, end in enumerate(ends)
    ]
    frame = pa.table({"s": pa.array(sums, pa.int64()), "n": pa.array(counts, pa.int64())})
    # a mean in DuckDB is the quotient of two doubles
    mean = "(CAST(s AS DOUBLE) / CAST(n AS DOUBLE))"
    sql = Dialect._by_mean("x", "n").replace("AVG(x)", mean)
    with closing(connected()) as connection:
        connection.register("t", frame)
        wrong = connection.execute(f"SELECT COUNT(*) FROM t WHERE {sql} <> s").fetchone()
    assert wrong == (0,)
