"""Functions that are constant on intervals of codes, against functions written code by code."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb.codes import StepFunction

LOW, HIGH = -3, 8
CODES = range(LOW, HIGH + 1)
tables = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=len(CODES), max_size=len(CODES))
nulls = st.sampled_from([None, "a"])


def step(table, null=None):
    """A step function from one output for each code, in pieces of one code."""
    return StepFunction(
        [(code, code, output) for code, output in zip(CODES, table, strict=True)], null
    )


def values(function):
    return [function(code) for code in CODES]


class TestStepFunction:
    @given(tables, nulls)
    @settings(deadline=None)
    def test_it_has_the_output_of_each_code(self, table, null):
        function = step(table, null)
        assert values(function) == table
        assert function.null == null
        assert function(LOW - 1) is function(HIGH + 1) is None

    @given(tables, st.randoms())
    @settings(deadline=None)
    def test_equal_functions_have_one_spelling(self, table, random):
        pieces = [(code, code, output) for code, output in zip(CODES, table, strict=True)]
        random.shuffle(pieces)
        function = StepFunction(pieces)
        assert function == step(table) == StepFunction(function.pieces)
        assert hash(function) == hash(step(table))
        for (_, stop, before), (start, _, after) in itertools.pairwise(function.pieces):
            assert start > stop + 1 or before != after

    @given(tables)
    @settings(deadline=None)
    def test_the_codes_of_an_output(self, table):
        function = step(table)
        for output in function.outputs:
            intervals = function.where(output)
            assert [any(low <= code <= high for low, high in intervals) for code in CODES] == [
                own == output for own in table
            ]
        assert [any(low <= code <= high for low, high in function.support) for code in CODES] == [
            own is not None for own in table
        ]

    @given(tables)
    @settings(deadline=None)
    def test_outputs_stand_in_the_order_of_their_least_codes(self, table):
        assert step(table).outputs == tuple(dict.fromkeys(own for own in table if own))

    @given(tables, nulls)
    @settings(deadline=None)
    def test_a_mapping_acts_on_outputs(self, table, null):
        images = {"a": 1, "b": 1, "c": None}
        function = step(table, null).then(images.__getitem__)
        assert values(function) == [None if own is None else images[own] for own in table]
        assert function == step(
            [None if own is None else images[own] for own in table], 1 if null else None
        )

    @given(tables, tables, nulls, nulls)
    @settings(deadline=None)
    def test_pairs_of_outputs(self, left, right, null, other_null):
        both = step(left, null).refined(step(right, other_null))
        pairs = [(a, b) if a or b else None for a, b in zip(left, right, strict=True)]
        assert values(both) == pairs
        assert both == step(pairs, (null, other_null) if null or other_null else None)

    def test_neighbours_among_floats(self):
        low = math.nextafter(2.5, math.inf)
        assert StepFunction([(0.0, 2.5, 1), (low, 4.0, 1)]) == StepFunction([(0.0, 4.0, 1)])
        apart = StepFunction([(0.0, 2.5, 1), (3.5, 4.0, 1)])
        assert len(apart.pieces) == 2
        cut = apart.refined(StepFunction([(2.0, 3.0, "x")]))
        assert cut(2.5) == (1, "x")
        assert cut(low) == (None, "x")
        assert cut(math.nextafter(2.0, 0.0)) == (1, None)

    @pytest.mark.parametrize(
        "pieces", [[(0, 2, 1), (2, 3, 1)], [(1, 0, 1)], [(0, 5, 1), (2, 3, 2)]]
    )
    def test_a_code_in_two_pieces_is_refused(self, pieces):
        with pytest.raises(ValueError, match="without common codes"):
            StepFunction(pieces)
