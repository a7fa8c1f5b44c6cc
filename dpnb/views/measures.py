"""What a vector counts or adds up over a list of regions: its sensitivity and its step.

One entry of a vector is a whole number of ticks; a row that comes or goes changes it by at most ``sensitivity`` ticks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dpnb.codes import Interval
from dpnb.schema.schema import Schema
from dpnb.sql.canonical import plain_value
from dpnb.sql.query import Predicate
from dpnb.sql.values import Bounds, Column, Value, bounds_of

MAX_ROWS = 2**40
"""Sums of one measure over this many rows still fit 64 bits."""
MAX_SUMMED = 2**31
"""Whole numbers of this size can be summed over as many rows as memory holds."""
TICKS = 2**22
"""Largest contribution of a rounded value, in ticks."""


@dataclass(frozen=True, slots=True)
class Count:
    """Rows in a cell, or rows in which ``value`` is not missing."""

    value: Value | None

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks, when one row comes or goes."""
        return 1

    @property
    def step(self) -> Fraction:
        """Units of one tick."""
        return Fraction(1)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        return ["count", plain_value(self.value)]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Different normalised values of a column in a cell, missing ones left out.

    One row has one value in one cell, so the vector changes by 1 at most when it comes or goes.
    """

    value: Column

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks, when one row comes or goes."""
        return 1

    @property
    def step(self) -> Fraction:
        """Units of one tick."""
        return Fraction(1)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        return ["distinct", plain_value(self.value)]


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum over a cell of ticks: (value - shift) / step for each normalised value.

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
        """Largest change of the vector, in ticks, when one row comes or goes."""
        return max(abs(self.least), abs(self.greatest))

    @property
    def largest(self) -> Fraction:
        """Largest size of a value."""
        return max(abs(self.shift + ticks * self.step) for ticks in (self.least, self.greatest))

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        value = plain_value(self.value)
        return ["sum", value, str(self.shift), str(self.step), self.least, self.greatest]


@dataclass(frozen=True, slots=True)
class Units:
    """Different ids in a cell, each in ``groups`` cells at most.

    With ``cut`` an id may have rows in more cells: it is then counted in some of them, see :class:`Scan`.
    """

    groups: int
    cut: bool

    @property
    def value(self) -> None:
        """Rows are counted by their ids, which are no column."""
        return None

    @property
    def sensitivity(self) -> int:
        """Largest change of the vector, in ticks and the L1 norm, when one id comes or goes."""
        return self.groups

    @property
    def step(self) -> Fraction:
        """Units of one tick."""
        return Fraction(1)

    def definition(self) -> list[Any]:
        """Return the public definition as plain data."""
        return ["units", None, self.groups, self.cut]


Measure: TypeAlias = Count | Distinct | Sum | Units


def _power_of_two_above(value: Fraction | float) -> Fraction:
    exponent = math.frexp(float(value))[1]
    step = Fraction(2) ** (exponent - 1)
    return step if step >= value else 2 * step


def sum_of(value: Value, schema: Schema, *, centred: bool) -> Sum:
    """Return the measure SUM(value), or with ``centred`` the sum of distances from mid-range.

    The middle of the bounds as origin halves the sensitivity of [0, M]
    (docs/methods/expressions.md, theorem 7). The step is a power of two >= the largest distance /
    2**22, from the bounds alone; whole numbers of moderate size need no rounding.
    """
    bounds = bounds_of(value, schema)
    shift = (bounds.low + bounds.high) / 2 if centred else Fraction(0)
    if bounds.integral:
        if max(bounds.high - shift, shift - bounds.low) <= 2**30:
            return _whole_sum(value, bounds, shift)
        return _rounded_sum(value, bounds, math.floor(shift))
    low, high = float(bounds.low), float(bounds.high)
    return _rounded_sum(value, bounds, low / 2 + high / 2 if centred else 0.0)


def sum_about(value: Value, schema: Schema, origin: Fraction) -> Sum:
    """Return the measure SUM(value - origin): above 0 exactly where the average is above ``origin``.

    Values that are no whole numbers, and those of a long origin, are rounded to ticks of 2**-22 of
    the largest distance (docs/methods/probe.md, definition 2).
    """
    bounds = bounds_of(value, schema)
    reach = max(abs(bounds.high - origin), abs(bounds.low - origin))
    if bounds.integral and reach * origin.denominator <= 2**30:
        return _whole_sum(value, bounds, origin)
    return _rounded_sum(value, bounds, float(origin))


def _whole_sum(value: Value, bounds: Bounds, shift: Fraction) -> Sum:
    step = Fraction(1, shift.denominator)
    least, greatest = (int((end - shift) / step) for end in (bounds.low, bounds.high))
    return Sum(value, shift, step, rounded=False, least=least, greatest=greatest)


def _rounded_sum(value: Value, bounds: Bounds, origin: float) -> Sum:
    low, high = float(bounds.low), float(bounds.high)
    step = _power_of_two_above(Fraction(max(abs(high - origin), abs(origin - low))) / TICKS)
    least, greatest = (math.floor((end - origin) / float(step) + 0.5) for end in (low, high))
    return Sum(value, Fraction(origin), step, rounded=True, least=least, greatest=greatest)


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a table: GROUP BY ``keys`` under ``where``, several filtered measures.

    With ``groups`` above 0 each id has rows in so many groups at most. The others are left out before any
    condition: which ones, depends on the keys and a secret order of the id's own groups.
    """

    keys: tuple[str, ...]
    where: Predicate
    measures: tuple[tuple[Measure, Predicate], ...]
    groups: int = 0

    @property
    def columns(self) -> frozenset[str]:
        """The columns in use."""
        used = self.where.columns.union(self.keys)
        for measure, condition in self.measures:
            used |= condition.columns
            used |= frozenset() if measure.value is None else measure.value.columns
        return used

    def parts(self) -> list[tuple[int, list[int]]]:
        """Return the places of the measures that have the same bound on an id's groups, by that bound."""
        found: dict[int, list[int]] = {}
        for place, (measure, _) in enumerate(self.measures):
            own = measure.groups if isinstance(measure, Units) and measure.cut else self.groups
            found.setdefault(own, []).append(place)
        return list(found.items())


@dataclass(frozen=True, slots=True)
class Axis:
    """One column cut into cells that every row falls into: intervals of codes, then missing values.

    ``cells`` are closed intervals that follow each other without a gap and cover the whole domain;
    the cell after the last one holds the rows without a value.
    """

    column: str
    cells: tuple[Interval, ...]

    @property
    def size(self) -> int:
        """Number of cells, the one of missing values included."""
        return len(self.cells) + 1
