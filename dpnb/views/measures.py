"""Measures that a vector counts or adds up over regions, with sensitivity and resolution.

Each entry of a vector is a whole number of ticks. Adding or removing a row changes the vector by at
most ``sensitivity`` ticks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dpnb.schema.partition import Partition
from dpnb.schema.predicates import EVERY, Predicate
from dpnb.schema.schema import Schema
from dpnb.sql.canonical import plain_value
from dpnb.sql.narrowing import bounds_within
from dpnb.sql.values import Bounds, Column, Mapped, Value, bounds_of

MAX_ROWS = 2**40
"""Sums of one measure over this many rows still fit in 64 bits."""
MAX_SUMMED = 2**31
"""Whole numbers of this size can be summed over as many rows as fit in memory."""
TICKS = 2**22
"""Largest contribution of a rounded value, in ticks."""


@dataclass(frozen=True, slots=True)
class Count:
    """Rows in a group, or rows in which ``value`` is not missing."""

    value: Value | None

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks, when one row is added or removed."""
        return 1

    @property
    def step(self) -> Fraction:
        """Size of one tick in units of the measure."""
        return Fraction(1)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        return ["count", plain_value(self.value)]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Different normalised values of a column in a group, without missing ones.

    A row has one value in one group, so adding or removing it changes the vector by at most 1. All
    rows of one id change it by at most ``most``, the number of values in all groups together; it is
    None if an id has no more rows than that.
    """

    value: Column
    most: int | None = None

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks, when one row is added or removed."""
        return 1

    @property
    def step(self) -> Fraction:
        """Size of one tick in units of the measure."""
        return Fraction(1)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        return ["distinct", plain_value(self.value), *([] if self.most is None else [self.most])]


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of ticks over a group: (value - shift) / step for each normalised value.

    ``rounded`` values are rounded to whole ticks one by one, FLOOR((value - shift) / step + 0.5);
    the others are whole by construction. ``least`` and ``greatest`` bound one row's ticks.
    """

    value: Value
    shift: Fraction
    step: Fraction
    rounded: bool
    least: int
    greatest: int

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks, when one row is added or removed."""
        return max(abs(self.least), abs(self.greatest))

    @property
    def largest(self) -> Fraction:
        """Largest absolute value."""
        return max(abs(self.shift + ticks * self.step) for ticks in (self.least, self.greatest))

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """Least and greatest value; rounded ones are moved by half a step at most."""
        return self.shift + self.least * self.step, self.shift + self.greatest * self.step

    def ticks(self, number: Fraction) -> int:
        """Return the ticks of a number, within those of the bounds."""
        ticks = math.floor((number - self.shift) / self.step + Fraction(1, 2))
        return min(max(ticks, self.least), self.greatest)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        value = plain_value(self.value)
        return ["sum", value, str(self.shift), str(self.step), self.least, self.greatest]


@dataclass(frozen=True, slots=True)
class Units:
    """Different ids in a group; an id counts in at most ``groups`` groups.

    With ``cut`` an id may have rows in more groups, but only some of them count; see :class:`Scan`.
    """

    groups: int
    cut: bool

    @property
    def value(self) -> None:
        """None: rows are counted by their ids, which are not a column."""
        return None

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks and in L1, when one id is added or removed."""
        return self.groups

    @property
    def step(self) -> Fraction:
        """Size of one tick in units of the measure."""
        return Fraction(1)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        return ["units", None, self.groups, self.cut]


Measure: TypeAlias = Count | Distinct | Sum | Units


def _power_of_two_above(value: Fraction | float) -> Fraction:
    exponent = math.frexp(float(value))[1]
    step = Fraction(2) ** (exponent - 1)
    return step if step >= value else 2 * step


def sum_of(value: Value, schema: Schema, rows: Predicate = EVERY, *, centred: bool) -> Sum:
    """Return the measure SUM(value), or with ``centred`` the sum of distances from mid-range.

    The bounds are those of the values in the rows that satisfy ``rows``. Taking their middle as
    origin halves the sensitivity of [0, M] (docs/methods/expressions.md, theorem 7). The step is a
    power of two >= the largest distance / 2**22, from the bounds alone; whole numbers of moderate
    size need no rounding.
    """
    bounds = bounds_within(value, schema, rows)
    if centred and bounds.is_narrow:
        bounds = bounds_of(value, schema)
    shift = (bounds.low + bounds.high) / 2 if centred else Fraction(0)
    if isinstance(value, Mapped):
        return _mapped_sum(value, bounds, shift)
    if bounds.integral:
        if max(bounds.high - shift, shift - bounds.low) <= 2**30:
            return _whole_sum(value, bounds, shift)
        return _rounded_sum(value, bounds, math.floor(shift))
    low, high = float(bounds.low), float(bounds.high)
    return _rounded_sum(value, bounds, low / 2 + high / 2 if centred else 0.0)


def sum_about(value: Value, schema: Schema, origin: Fraction, rows: Predicate = EVERY) -> Sum:
    """Return the measure SUM(value - origin): above 0 exactly if the average is above ``origin``.

    Values other than whole numbers, and values with a long origin, are rounded to ticks of 2**-22
    of the largest distance (docs/methods/probe.md, definition 2).
    """
    bounds = bounds_within(value, schema, rows)
    if isinstance(value, Mapped):
        return _mapped_sum(value, bounds, origin)
    reach = max(abs(bounds.high - origin), abs(bounds.low - origin))
    if bounds.integral and reach * origin.denominator <= 2**30:
        return _whole_sum(value, bounds, origin)
    return _rounded_sum(value, bounds, float(origin))


def read_sum(data: Sequence[Any], value: Value, schema: Schema) -> Sum:
    """Build a sum from its :meth:`Sum.definition`, which alone says what its bounds are.

    Raises
    ------
    ValueError
        If no value of the column has such bounds.
    """
    shift, step, least, greatest = Fraction(data[2]), Fraction(data[3]), int(data[4]), int(data[5])
    bounds = bounds_of(value, schema)
    if isinstance(value, Mapped):
        rounded = any((output - shift) % step for output in value.outputs)
    else:
        # whole numbers are rounded only if they are large, to steps that are larger than one
        rounded = not bounds.integral or step != Fraction(1, shift.denominator)
    read = Sum(value, shift, step, rounded, least, greatest)
    slack = step if rounded else 0
    ends = shift + least * step + slack, shift + greatest * step - slack
    if least > greatest or ends[0] < bounds.low or ends[1] > bounds.high:
        raise ValueError("this measure fits no declared column")
    return read


def _whole_sum(value: Value, bounds: Bounds, shift: Fraction) -> Sum:
    step = Fraction(1, shift.denominator)
    least, greatest = (int((end - shift) / step) for end in (bounds.low, bounds.high))
    return Sum(value, shift, step, rounded=False, least=least, greatest=greatest)


def _mapped_sum(value: Mapped, bounds: Bounds, shift: Fraction) -> Sum:
    """Return a sum of public numbers: in steps that all of them are multiples of, if these suffice."""
    step = Fraction(1, math.lcm(*((output - shift).denominator for output in value.outputs)))
    if max(abs(bounds.high - shift), abs(bounds.low - shift)) > 2**30 * step:
        return _rounded_sum(value, bounds, float(shift))
    least, greatest = (int((end - shift) / step) for end in (bounds.low, bounds.high))
    return Sum(value, shift, step, rounded=False, least=least, greatest=greatest)


def _rounded_sum(value: Value, bounds: Bounds, origin: float) -> Sum:
    low, high = float(bounds.low), float(bounds.high)
    step = _power_of_two_above(Fraction(max(abs(high - origin), abs(origin - low))) / TICKS)
    least, greatest = (math.floor((end - origin) / float(step) + 0.5) for end in (low, high))
    return Sum(value, Fraction(origin), step, rounded=True, least=least, greatest=greatest)


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of a table: GROUP BY ``keys`` under ``where``, with several filtered measures.

    With ``groups`` above 0, only rows in at most that many groups of each id are kept. This happens
    before any condition; the choice depends on the keys and a secret order of the id's groups.
    """

    keys: tuple[Partition, ...]
    where: Predicate
    measures: tuple[tuple[Measure, Predicate], ...]
    groups: int = 0

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the scan uses."""
        names = self.where.columns.union(key.column for key in self.keys)
        for measure, condition in self.measures:
            names |= condition.columns
            names |= frozenset() if measure.value is None else measure.value.columns
        return names

    def parts(self) -> list[tuple[int, list[int]]]:
        """Return the positions of the measures by the bound on an id's groups."""
        positions: dict[int, list[int]] = {}
        for place, (measure, _) in enumerate(self.measures):
            bound = measure.groups if isinstance(measure, Units) and measure.cut else self.groups
            positions.setdefault(bound, []).append(place)
        return list(positions.items())
