"""Sums are exact integers: rounded one by one on a public grid, in any order, on any number of threads."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb import Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.schema.predicates import EVERY
from dpnb.sql.values import Column
from dpnb.views.measures import Scan, sum_of
from tests.kit.groups import own

LARGE = 2**53
X = Column("x")


def total(values, kind, *, centred, shuffle=None):
    if shuffle is not None:
        values = random.Random(shuffle).sample(values, len(values))  # noqa: S311
    pa_type = pa.int64() if isinstance(kind, Integer) else pa.float64()
    engine = DuckDBEngine(
        Table("t", pa.table({"x": pa.array(values, pa_type)}), Schema({"x": kind}))
    )
    try:
        measure = sum_of(X, Schema({"x": kind}), centred=centred)
        return engine.measure(Scan((), EVERY, ((measure, EVERY),))).reveal(0)[0], measure
    finally:
        engine.close()


class TestTicks:
    @pytest.mark.parametrize(
        "kind",
        [
            Real(0, 1),
            Real(-1, 1),
            Real(0, 99_999),
            Real(0.1, 0.7),
            Real(-1e-100, 1e-100),
            Real(1e6, 1e6 + 1),
            Real(-1e149, 1e149),
            Integer(0, 1),
            Integer(17, 90),
            Integer(-(2**31), 2**31),
            Integer(-LARGE, LARGE),
            Integer(LARGE - 1, LARGE),
            Integer(0, LARGE),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("centred", [False, True])
    def test_the_grid_rests_on_the_bounds_alone_and_is_fine_enough(self, kind, centred):
        measure = sum_of(X, Schema({"x": kind}), centred=centred)
        step = measure.step
        assert step.numerator == 1 or step.denominator == 1
        assert (step.numerator * step.denominator).bit_count() == 1
        shift = measure.shift
        reach = max(Fraction(kind.high) - shift, shift - Fraction(kind.low))
        if measure.rounded:
            assert reach <= step * 2**22 * (1 + Fraction(1, 2**40))
            assert step < reach / 2**20
        assert measure.sensitivity <= max(2**22 + 1, 2**31)
        assert measure.sensitivity == max(abs(measure.least), abs(measure.greatest))

    @given(
        st.sampled_from([Real(0, 1), Real(-3, 5.5), Real(0.1, 0.7), Real(1e6, 1e6 + 1)]),
        st.lists(st.floats(0, 1), max_size=24),
        st.booleans(),
    )
    @settings(deadline=None, max_examples=25)
    def test_reals_are_rounded_by_floor_of_x_over_step_plus_a_half(self, kind, shares, centred):
        values = [min(kind.high, kind.low + s * (kind.high - kind.low)) for s in shares]
        found, measure = total(values, kind, centred=centred)
        shift, step = float(measure.shift), float(measure.step)
        assert found == sum(math.floor((value - shift) / step + 0.5) for value in values)

    def test_ends_and_halves_of_the_grid(self):
        kind = Real(0, 1)
        step = float(sum_of(X, Schema({"x": kind}), centred=False).step)
        for value in (0.0, step / 2, math.nextafter(step / 2, 0), 1.5 * step, 1.0, 1 - step / 2):
            found, _ = total([value], kind, centred=False)
            assert found == math.floor(value / step + 0.5)

    @pytest.mark.parametrize("kind", [Real(0, 1), Integer(0, 9), Integer(-LARGE, LARGE)], ids=str)
    def test_one_row_changes_a_sum_by_no_more_than_the_sensitivity(self, kind):
        for centred in (False, True):
            for value in (kind.low, kind.high):
                found, measure = total([value], kind, centred=centred)
                assert measure.least <= found <= measure.greatest


class TestExactness:
    def test_whole_numbers_of_moderate_size_need_no_rounding(self):
        values = [17, 90, 53, 54, 17]
        found, measure = total(values, Integer(17, 90), centred=False)
        assert not measure.rounded
        assert (found, measure.step) == (sum(values), 1)
        found, measure = total(values, Integer(17, 90), centred=True)
        assert measure.shift == Fraction(107, 2)
        assert found * measure.step == sum(values) - 5 * measure.shift

    def test_sums_beyond_the_whole_numbers_of_a_float(self):
        high = 2**30
        rows = 2**24 // 8 + 1
        source = pa.table({"x": pa.array(np.full(rows, high - 1), pa.int64())})
        engine = DuckDBEngine(Table("t", source, Schema({"x": Integer(0, high)})))
        measure = sum_of(X, Schema({"x": Integer(0, high)}), centred=False)
        found = engine.measure(Scan((), EVERY, ((measure, EVERY),))).reveal(0)[0]
        engine.close()
        assert found == rows * (high - 1)
        assert found > 2**50
        assert found % 2 == rows * (high - 1) % 2
        assert type(found) is int

    def test_a_sum_above_two_to_the_53_is_exact(self, codes):
        # the client hands 128-bit sums over as floats: 2**53 + 1 would lose its last bit
        engine = DuckDBEngine(
            Table("t", pa.table({"x": pa.array([1], pa.int64())}), Schema({"x": Integer(0, 2**30)}))
        )
        count = 2**23 + 1
        engine._connection.execute("DELETE FROM rows")
        engine._connection.execute(
            f"INSERT INTO rows SELECT {2**30} FROM range({count - 1}) UNION ALL SELECT 1"
        )
        measure = sum_of(X, Schema({"x": Integer(0, 2**30)}), centred=False)
        found = engine.measure(Scan((), EVERY, ((measure, EVERY),))).reveal(0)[0]
        engine.close()
        assert found == 2**53 + 1

    def test_whole_numbers_near_two_to_the_53_are_rounded_within_one_tick(self):
        values = [LARGE, LARGE - 1, -LARGE, 1]
        for centred in (False, True):
            found, measure = total(values, Integer(-LARGE, LARGE), centred=centred)
            exact = sum((Fraction(v) - measure.shift) / measure.step for v in values)
            assert abs(found - exact) <= len(values) / 2


class TestOrder:
    def test_the_order_of_rows_does_not_matter_to_the_last_bit(self):
        generator = np.random.default_rng(5)
        values = list(generator.uniform(0, 1, 20_000) ** 9)
        found = {total(values, Real(0, 1), centred=True, shuffle=seed)[0] for seed in range(4)}
        assert len(found) == 1

    def test_many_threads_give_one_result(self):
        generator = np.random.default_rng(6)
        frame = pd.DataFrame({"x": generator.uniform(0, 1, 300_000)})
        engine = DuckDBEngine(Table("t", frame, Schema({"x": Real(0, 1)})))
        measure = sum_of(X, Schema({"x": Real(0, 1)}), centred=True)
        scan = Scan((), EVERY, ((measure, EVERY),))
        found = {engine.measure(scan).reveal(0)[0] for _ in range(20)}
        step = float(measure.step)
        expected = int(np.floor((frame["x"].to_numpy() - 0.5) / step + 0.5).sum())
        engine.close()
        assert found == {expected}


class TestCompleteColumns:
    """Of numbers that are never missing the mean is taken where it tells the sum."""

    @pytest.mark.parametrize("largest", [1, 127, 1_023, 1_024, 2**28])
    @pytest.mark.parametrize("centred", [False, True])
    @pytest.mark.parametrize("low", [False, True])
    def test_their_sums_are_exact(self, largest, centred, low):
        rng = np.random.default_rng(largest)
        kind = Integer(-largest if low else 0, largest)
        # odd numbers near one end: a sum that is rounded to a float loses its last bits
        values = largest - 2 * rng.integers(0, 3, 50_003).clip(0, largest // 2)
        groups = rng.integers(0, 3, len(values))
        schema = Schema({"x": kind, "g": Integer(0, 2)}, complete=["x", "g"])
        engine = DuckDBEngine(Table("t", pd.DataFrame({"x": values, "g": groups}), schema))
        measure = sum_of(X, schema, centred=centred)
        (found,) = (engine.measure(Scan(own(schema, "g"), EVERY, ((measure, EVERY),))).reveal(0),)
        engine.close()
        shift, step = measure.shift, measure.step
        exact = [
            (int(values[groups == g].sum()) - int((groups == g).sum()) * shift) / step
            for g in range(3)
        ]
        assert found == exact

    def test_a_sum_of_large_numbers_is_exact(self):
        schema = Schema({"x": Integer(0, 2**30)}, complete=["x"])
        engine = DuckDBEngine(Table("t", pd.DataFrame({"x": [1]}), schema))
        engine._connection.execute(f"INSERT INTO rows SELECT {2**30} FROM range({2**23})")
        measure = sum_of(X, schema, centred=False)
        found = engine.measure(Scan((), EVERY, ((measure, EVERY),))).reveal(0)
        engine.close()
        assert found == [2**53 + 1]

    def test_a_group_without_rows_has_the_sum_0(self):
        schema = Schema({"x": Integer(0, 9), "g": Integer(0, 2)}, complete=["x", "g"])
        engine = DuckDBEngine(Table("t", pd.DataFrame({"x": [3, 4], "g": [0, 0]}), schema))
        measure = sum_of(X, schema, centred=False)
        found = engine.measure(Scan(own(schema, "g"), EVERY, ((measure, EVERY),))).reveal(0)
        engine.close()
        assert found == [7, 0, 0]
