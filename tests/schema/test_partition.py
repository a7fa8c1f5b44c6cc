"""Groups of the codes of a column: its own, and those of any function, against groups by code."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb.codes import StepFunction
from dpnb.errors import SchemaError
from dpnb.schema.columns import Category, Integer, Real
from dpnb.schema.partition import (
    Partition,
    column_of,
    declared,
    grouped,
    labels,
    present,
    read,
)
from dpnb.schema.predicates import Within
from dpnb.schema.timestamps import Date

KINDS = {"n": Integer(-3, 8), "c": Category(["a", "b", "c"]), "r": Real(0, 10, bins=[0, 2.5, 10])}
CODES = range(-3, 9)
tables = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=len(CODES), max_size=len(CODES))
nulls = st.sampled_from([None, 1, 4])


def of(kind):
    return declared("x", {"x": kind})


def made(table, null=None):
    """The groups of codes of equal outputs."""
    pieces = [(code, code, output) for code, output in zip(CODES, table, strict=True)]
    return grouped("n", KINDS, StepFunction(pieces, null))


def group_of(partition, code):
    return partition.numbers.null if code is None else partition.numbers(code)


class TestOwnGroups:
    def test_bins_are_right_closed_and_the_first_includes_its_left_end(self):
        kind = Integer(17, 90, bins=[17, 30, 40, 90])
        assert labels(kind) == ("[17, 30]", "(30, 40]", "(40, 90]")
        assert of(kind).groups == (((17, 30),), ((31, 40),), ((41, 90),))

    def test_bins_of_reals_leave_no_gap_between_floats(self):
        (first,), (second,) = of(KINDS["r"]).groups
        assert first == (0.0, 2.5)
        assert second[0] == math.nextafter(2.5, math.inf)

    def test_bins_of_days_are_right_closed(self):
        kind = Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"])
        ((_, end),), ((start, _),) = of(kind).groups
        assert labels(kind)[1] == "(2024-06-30, 2024-12-31]"
        assert start == end + 1

    def test_bins_may_leave_part_of_the_bounds_out(self):
        assert of(Integer(0, 100, bins=[10, 20])).groups == (((10, 20),),)

    def test_without_bins_each_whole_number_and_each_day_is_a_group(self):
        assert labels(Integer(1, 3)) == (1, 2, 3)
        assert labels(Date("2024-02-28", "2024-03-01")) == (
            "2024-02-28",
            "2024-02-29",
            "2024-03-01",
        )

    @pytest.mark.parametrize(
        ("kind", "size"),
        [
            (Integer(-(2**53), 2**53), 2**54 + 1),
            (Real(0, 1), 0),
            (Real(0, 1, bins=[0, 1]), 1),
            (Date("2024-01-01", "2024-01-10"), 10),
            (Category(["a", "b"]), 2),
        ],
    )
    def test_are_counted_without_being_listed(self, kind, size):
        assert of(kind).size == size

    def test_a_real_without_bins_has_none(self):
        with pytest.raises(SchemaError, match="no groups without bins"):
            _ = of(Real(0, 1)).groups

    @given(st.lists(st.integers(-20, 20), min_size=2, max_size=6, unique=True).map(sorted))
    @settings(deadline=None)
    def test_every_code_between_the_edges_is_in_exactly_one_bin(self, edges):
        own = of(Integer(-20, 20, bins=edges))
        for code in range(-20, 21):
            hits = sum(low <= code <= high for ((low, high),) in own.groups)
            assert hits == (edges[0] <= code <= edges[-1])


class TestGroupsOfAFunction:
    @given(tables, nulls)
    @settings(deadline=None)
    def test_codes_of_equal_outputs_are_together(self, table, null):
        found = made(table, null)
        outputs = [*table, null]
        numbers = [group_of(found, code) for code in (*CODES, None)]
        pairs = {(output, number) for output, number in zip(outputs, numbers, strict=True)}
        assert len(pairs) == len({output for output, _ in pairs}) == len({n for _, n in pairs})
        assert (None, None) in pairs or None not in outputs
        assert {number for number in numbers if number is not None} == set(range(found.size))

    @given(tables, nulls)
    @settings(deadline=None)
    def test_groups_are_numbered_by_their_least_codes(self, table, null):
        found = made(table, null)
        numbers = [found.numbers(code) for code in CODES]
        first = dict.fromkeys(number for number in numbers if number is not None)
        assert [*first] == sorted(first)

    @given(tables, nulls)
    @settings(deadline=None)
    def test_names_of_outputs_do_not_matter(self, table, null):
        names = {1: "z", 2: "a", 3: "m", 4: "q", None: None}
        renamed = made([names[output] for output in table], names[null])
        assert renamed == made(table, null)
        assert hash(renamed) == hash(made(table, null))

    @given(tables, nulls)
    @settings(deadline=None)
    def test_a_condition_holds_in_each_group(self, table, null):
        found = made(table, null)
        for number in range(found.size):
            within = found.within(number)
            for code in CODES:
                inside = any(low <= code <= high for low, high in within.intervals)
                assert inside == (found.numbers(code) == number)
            assert within.null == (found.numbers.null == number)

    @given(tables, nulls)
    @settings(deadline=None)
    def test_they_are_read_from_what_is_written(self, table, null):
        found = made(table, null)
        plain = json.loads(json.dumps(found.plain()))
        assert read(plain, KINDS) == found
        assert column_of(plain) == "n"
        column, intervals, missing = present(plain)
        assert column == "n"
        if not found.declared:
            assert missing == (null is not None)
            for code in CODES:
                inside = any(low <= code <= high for low, high in intervals)
                assert inside == (found.numbers(code) is not None)

    @given(tables, tables, nulls, nulls)
    @settings(deadline=None)
    def test_which_groups_are_parts_of_others(self, table, other, null, other_null):
        fine, coarse = made(table, null), made(other, other_null)
        met = [set() for _ in range(fine.size)]
        for code in (*CODES, None):
            number = group_of(fine, code)
            if number is not None:
                met[number].add(group_of(coarse, code))
        found = fine.finer(coarse)
        if any(len(numbers) > 1 for numbers in met):
            assert found is None
        else:
            numbers = (number for (number,) in met)
            assert found.tolist() == [-1 if number is None else number for number in numbers]

    @given(tables, nulls)
    @settings(deadline=None)
    def test_the_group_of_many_codes(self, table, null):
        found = made(table, null)
        expected = [-1 if found.numbers(code) is None else found.numbers(code) for code in CODES]
        assert found.of(np.array(CODES)).tolist() == expected

    def test_groups_that_are_the_columns_own_are_written_as_these(self):
        each = made([[code] and str(code) for code in CODES])
        assert each is declared("n", KINDS)
        assert each.plain() == "n"
        bins = StepFunction([(0.0, 2.5, "low"), (math.nextafter(2.5, 3), 10.0, "high")])
        assert grouped("r", KINDS, bins).plain() == "r"
        # a group more is another partition
        assert not grouped("r", KINDS, StepFunction(bins.pieces, "none")).declared

    def test_a_group_of_missing_values(self):
        found = grouped("c", KINDS, StepFunction([(0, 1, "x")], "none"))
        assert found.plain() == ["c", [[0, 1, 0]], 1]
        assert found.within(1) == Within("c", (), null=True)
        assert found.size == 2
        alone = grouped("c", KINDS, StepFunction([], "none"))
        assert (alone.size, alone.plain()) == (1, ["c", [], 0])
        assert alone.finer(found).tolist() == [1]
        assert found.finer(alone).tolist() == [-1, 0]
        both = grouped("c", KINDS, StepFunction([(0, 2, "x")], "x"))
        assert both.size == 1
        assert both.finer(found) is None


def test_columns_are_compared_too():
    assert declared("n", KINDS) != declared("c", KINDS)
    assert Partition("n", StepFunction([(0, 1, 0)]), KINDS["n"]) != Partition(
        "c", StepFunction([(0, 1, 0)]), KINDS["c"]
    )
