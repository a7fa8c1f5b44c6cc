"""What an engine computes: exact integer vectors over declared cells. No engine's type leaks here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dpnb.errors import EngineError
from dpnb.scale import Interval
from dpnb.schema import Schema
from dpnb.sql.canonical import plain_value
from dpnb.sql.query import Predicate
from dpnb.sql.values import Value, bounds_of

if TYPE_CHECKING:
    from dpnb.engines.contributions import Contributions, ContributionScan
    from dpnb.engines.marginals import Marginals, MarginalScan

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


Measure: TypeAlias = Count | Sum


def _power_of_two_above(value: Fraction | float) -> Fraction:
    exponent = math.frexp(float(value))[1]
    step = Fraction(2) ** (exponent - 1)
    return step if step >= value else 2 * step


def sum_of(value: Value, schema: Schema, *, centred: bool) -> Sum:
    """Return the measure SUM(value), or with ``centred`` the sum of distances from mid-range.

    The middle of the bounds as origin halves the sensitivity of [0, M] (spec/dpxplain.md 3.1). The
    step is a power of two >= the largest distance / 2**22, from the bounds alone; whole numbers of
    moderate size need no rounding.
    """
    bounds = bounds_of(value, schema)
    if bounds.integral:
        shift = (bounds.low + bounds.high) / 2 if centred else Fraction(0)
        reach = max(bounds.high - shift, shift - bounds.low)
        if reach <= 2**30:
            step = Fraction(1, shift.denominator)
            return Sum(
                value, shift, step, rounded=False,
                least=int((bounds.low - shift) / step), greatest=int((bounds.high - shift) / step),
            )  # fmt: skip
        shift = Fraction(math.floor(shift))
    low, high = float(bounds.low), float(bounds.high)
    if not bounds.integral:
        shift = Fraction(low / 2 + high / 2) if centred else Fraction(0)
        reach = Fraction(max(high - float(shift), float(shift) - low))
    step = _power_of_two_above(reach / TICKS)
    origin, unit = float(shift), float(step)
    least, greatest = (math.floor((end - origin) / unit + 0.5) for end in (low, high))
    return Sum(value, shift, step, rounded=True, least=least, greatest=greatest)


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a table: GROUP BY ``keys`` under ``where``, several filtered measures."""

    keys: tuple[str, ...]
    where: Predicate
    measures: tuple[tuple[Measure, Predicate], ...]


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


class Exact:
    """Exact vectors on their way from the engine to the noise; shows nothing of itself."""

    __slots__ = ("_vectors",)

    def __init__(self, vectors: Sequence[Sequence[int]]) -> None:
        self._vectors = vectors

    def reveal(self, index: int) -> Sequence[int]:
        """Return one exact vector; only noise may be drawn on it."""
        return self._vectors[index]

    def __repr__(self) -> str:
        return "Exact(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


class Engine(Protocol):
    """Holds the normalised rows of one table."""

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed, order-free fingerprint of the normalised rows."""
        ...

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks, in one scan."""
        ...

    def marginals(self, scan: MarginalScan) -> Marginals:
        """Return counts and sums of some groups over sets of attributes, in one pass."""
        ...

    def histograms(self, views: Sequence[Sequence[Axis]]) -> Exact:
        """Return for each list of axes the exact count of rows in every joint cell, last axis fastest."""
        ...

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return what single rows add, one line for each different one that occurs.

        None when there are more than ``most`` lines.
        """
        ...

    def interrupt(self, thread: int) -> None:
        """Stop the scan that runs in the thread of the given identifier."""
        ...

    def close(self) -> None:
        """Forget the rows."""
        ...


def engine_failure() -> EngineError:
    """Return the one error that every failure of an engine becomes."""
    return EngineError(
        "the engine could not carry out this request",
        "Nothing was charged. Try again; if it persists, reopen the session with more memory free.",
    )
