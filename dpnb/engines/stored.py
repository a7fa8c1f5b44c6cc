"""One column of codes in memory, as an array of numbers of as few bytes as its declaration allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.codes import Code, Periodic, StepFunction, Steps
from dpnb.engines.steps import runs
from dpnb.schema.columns import Kind, Real, code_bytes
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import Compared, Order, Within
from dpnb.sql.values import Mapped
from dpnb.views.measures import Measure, Sum

Vector: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

_ORDERS: dict[Order, Callable[[Vector, Vector], Mask]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal,
    "<>": np.not_equal,
}  # fmt: skip
_CELLS = 2**14
"""So many cells of equal width are a table that stays in a processor's cache."""
COMPARED = 4
"""So many intervals are compared one after the other; more of them are searched."""
_BYTES_OF_TABLE = 2
"""Functions of numbers of so many bytes are tables."""
_NUMBERS = {
    1: ("UTINYINT", np.uint8),
    2: ("USMALLINT", np.uint16),
    4: ("UINTEGER", np.uint32),
    8: ("BIGINT", np.int64),
}


def stored(kind: Kind, column: str) -> str:
    """Return DuckDB's SQL of what :class:`Codes` holds of a column's code."""
    if isinstance(kind, Real):
        return f"COALESCE(CAST({column} AS DOUBLE), 'NaN'::DOUBLE)"
    low, high = int(kind.scale.low), int(kind.scale.high)
    number, _ = _NUMBERS[code_bytes(kind)]
    return f"CAST(COALESCE(CAST({column} AS BIGINT) - ({low}), {high - low + 1}) AS {number})"


@dataclass(frozen=True, slots=True, repr=False)
class Codes:
    """One column in memory: for each row its code less ``low``, or ``size`` if it is missing.

    A ``Real`` column holds the codes themselves, NaN where missing; ``low`` and ``size`` are 0. No
    value of a ``complete`` column is missing.
    """

    kind: Kind
    values: Vector
    low: int
    size: int
    complete: bool

    @classmethod
    def of(cls, kind: Kind, values: Vector, *, complete: bool) -> Codes:
        """Wrap the values that :func:`stored` selects, shape (rows,)."""
        if isinstance(kind, Real):
            return cls(kind, np.ascontiguousarray(values, np.float64), 0, 0, complete)
        low, high = int(kind.scale.low), int(kind.scale.high)
        _, number = _NUMBERS[code_bytes(kind)]
        return cls(kind, np.ascontiguousarray(values, number), low, high - low + 1, complete)

    def __repr__(self) -> str:
        return "Codes(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")

    def missing(self, values: Vector) -> Mask:
        """Return which of some stored values are missing."""
        missing: Mask = np.isnan(values) if isinstance(self.kind, Real) else values == self.size
        return missing

    def ticks(self, values: Vector, measure: Sum) -> Vector:
        """Return the ticks of stored values for a sum whose values are rounded one by one."""
        if self.size:
            values = (values.astype(np.int64) + self.low).astype(np.float64)
        ticks: Vector = values - float(measure.shift)
        # a step is a power of two, so this is the same as to divide by it, in half the time
        ticks *= float(1 / measure.step)
        ticks += 0.5
        np.floor(ticks, out=ticks)
        low, high = measure.bounds
        scale, slack = self.kind.scale, measure.step
        if low - slack > scale.low or high + slack < scale.high:
            np.clip(ticks, measure.least, measure.greatest, out=ticks)
        return ticks

    def weights(self, values: Vector, measure: Sum) -> Vector:
        """Return whole numbers to add up for a sum; see :meth:`total`."""
        return (
            self.ticks(values, measure) if measure.rounded else self.clamped(values, measure.bounds)
        )

    def mapped(self, value: Mapped, measure: Measure) -> Callable[[Vector], tuple[Mask, Vector]]:
        """Return a function from stored values to whether each has a number, and to its ticks.

        What is without a number is the number below all others, so that values are searched once.
        """
        numbers = value.numbers.then(measure.ticks if isinstance(measure, Sum) else lambda _: 1)
        null = [] if numbers.null is None else [numbers.null]
        absent = min([0, *numbers.outputs, *null]) - 1
        look_up = self.lookup(numbers, absent, np.dtype(np.int64))

        def read(values: Vector) -> tuple[Mask, Vector]:
            ticks = look_up(values)
            return ticks != absent, ticks

        return read

    def pieces(self, value: Mapped) -> tuple[Vector, Callable[[Vector], Vector]]:
        """Return a stored value of each piece of a mapped one, and a function to numbers of pieces.

        The last piece is that of a missing value.
        """
        starts = [start for start, _ in runs(value.numbers.over(self.kind.scale), self.kind.scale)]
        ends = [self.kind.scale.previous(start) for start in starts[1:]] + [self.kind.scale.high]
        pieces = zip(starts, ends, range(len(starts)), strict=True)
        number: StepFunction[int] = StepFunction(pieces, len(starts))
        missing = self.low + self.size if self.size else math.nan
        return self._stored([*starts, missing]), self.lookup(number, 0, np.dtype(np.uint32))

    def clamped(self, values: Vector, bounds: tuple[Fraction, Fraction]) -> Vector:
        """Return stored whole numbers, clamped to bounds within those of the column."""
        low, high = int(bounds[0]) - self.low, int(bounds[1]) - self.low
        return values if low <= 0 and high >= self.size - 1 else np.clip(values, low, high)

    def total(self, measure: Sum, sums: Vector, counts: Vector) -> Vector:
        """Return a sum in ticks, from the sum of the :meth:`weights` of as many values."""
        if measure.rounded:
            return sums
        least = (self.low - measure.shift) / measure.step
        total: Vector = int(1 / measure.step) * sums + int(least) * counts
        return total

    def groups(self, key: Partition) -> Callable[[Vector], Vector]:
        """Return a function from stored values to the number of the group of each.

        Values in no group get the number after the last.
        """
        null = key.null
        if self.size and key.size - (null is not None) == self.size and null in (None, self.size):
            # each code is a group
            return lambda values: values
        numbers = key.numbers if key.steps is None else key.steps
        return self.lookup(numbers, key.size, np.dtype(np.uint32))

    def within(self, predicate: Within) -> Callable[[Vector], Mask]:
        """Return a function from stored values to whether each satisfies a predicate."""
        satisfied = predicate.joined(self.kind).steps(True)
        if isinstance(satisfied, Periodic) or len(satisfied.pieces) > COMPARED:
            return self.lookup(satisfied, False, np.dtype(np.bool_))
        ends = [self._stored((low, high)) for low, high, _ in satisfied.pieces]

        def compare(values: Vector) -> Mask:
            found = self.missing(values) if predicate.null else np.zeros(len(values), np.bool_)
            for low, high in ends:
                found |= (values >= low) & (values <= high)
            return found

        return compare

    def compared(self, predicate: Compared, other: Codes) -> Callable[[Vector, Vector], Mask]:
        """Return a function from stored values of two columns to whether they compare so."""
        operator, offset = predicate.written
        compare, whole = _ORDERS[operator], bool(self.size) and bool(other.size)
        shift = offset + self.low - other.low if whole else offset
        reach = self.size + other.size + abs(shift)
        number = np.dtype(
            np.int32 if whole and reach < 2**31 else np.int64 if whole else np.float64
        )
        alike = not shift and self.values.dtype == other.values.dtype

        def numbers(codes: Codes, values: Vector) -> Vector:
            if alike:
                return values
            given: Vector = values.astype(number)
            return given if whole or not codes.size else given + codes.low

        def test(values: Vector, others: Vector) -> Mask:
            left, right = numbers(self, values), numbers(other, others)
            found: Mask = compare(left + number.type(shift) if shift else left, right)
            for codes, given in ((self, values), (other, others)):
                if not codes.complete:
                    found &= ~codes.missing(given)
            return found

        return test

    def lookup(
        self, function: Steps[Any], otherwise: Any, number: np.dtype[Any]
    ) -> Callable[[Vector], Vector]:
        """Return a step function as one of stored values; ``otherwise`` stands for no output.

        Where there are few different values, it is a table.
        """
        search = (
            self._repeated(function, otherwise, number)
            if isinstance(function, Periodic)
            else self._searched(function, otherwise, number)
        )
        if self.values.dtype.itemsize > _BYTES_OF_TABLE:
            return search
        table = search(np.arange(self.size + 1).astype(self.values.dtype))
        return lambda values: table[values]

    def _repeated(
        self, function: Periodic[Any], otherwise: Any, number: np.dtype[Any]
    ) -> Callable[[Vector], Vector]:
        """Return a function that repeats as one of stored values, by a table of one repetition."""
        before = self.low % function.period
        outputs = [*function.repetition, function.null]
        # what is missing comes after a repetition
        table = np.array([otherwise if one is None else one for one in outputs], number)
        wide: Any = np.uint32 if self.size + before < 2**32 else np.int64
        period, end, grain = wide(function.period), wide(before), wide(function.unit)

        def read(values: Vector) -> Vector:
            places: Vector = values.astype(wide)
            missing = None if self.complete else values == self.size
            places += end
            # in half the time that numpy takes for a remainder
            places -= places // period * period
            places //= grain
            if missing is not None:
                places = np.where(missing, wide(len(table) - 1), places)
            found: Vector = table[places]
            return found

        return read

    def _searched(
        self, function: StepFunction[Any], otherwise: Any, number: np.dtype[Any]
    ) -> Callable[[Vector], Vector]:
        starts, outputs, end = [], [otherwise], None
        for low, high, output in function.pieces:
            if end is not None and end != low:
                starts.append(end)
                outputs.append(otherwise)
            starts.append(low)
            outputs.append(output)
            end = self.kind.scale.next(high)
        if end is not None and end <= self.kind.scale.high:
            starts.append(end)
            outputs.append(otherwise)
        # a missing value comes after all codes: NaN is sorted after infinity
        starts.append(self.low + self.size if self.size else math.inf)
        outputs.append(otherwise if function.null is None else function.null)
        ends, images = self._stored(starts), np.array(outputs, number)
        if isinstance(self.kind, Real):
            found = _by_cell(ends[:-1], images, self.kind.low, self.kind.high)
            if found is not None:
                return found

        def search(values: Vector) -> Vector:
            found: Vector = images[np.searchsorted(ends, values, side="right")]
            return found

        return search

    def _stored(self, codes: Sequence[Code]) -> Vector:
        """Return codes as they are stored."""
        return (np.array(codes) - self.low).astype(self.values.dtype)


def _by_cell(
    ends: Vector, images: Vector, low: float, high: float
) -> Callable[[Vector], Vector] | None:
    """Return a function from floats to the image of the number of ends that are not above each.

    NaN has the last image. The floats from ``low`` to ``high`` lie in cells of equal width, with at
    most one end in each, so one comparison is enough, and none if all ends are those of cells. Ends
    and other floats get their cells by the same monotone arithmetic. None if there are many cells.
    """
    if len(ends) < 2:
        return None
    first, least = float(ends[0]), float(np.diff(ends).min())
    for width in (least, least / 2):
        if not (high - low) / _CELLS < width:
            return None
        origin = first - math.ceil((first - low) / width) * width

        def place(values: Vector, origin: float = origin, width: float = width) -> Vector:
            cells = values - origin
            cells /= width
            return cells

        places, last = place(ends).astype(np.intp), int(place(np.array([high]))[0]) + 1
        if len(np.unique(places)) == len(places):
            break
    else:
        return None
    inside = np.full(last + 1, math.inf)
    inside[places] = ends
    below = np.searchsorted(places, np.arange(last + 1))
    under, over = images[below], images[below + 1]
    under[last] = over[last] = images[-1]
    before = place(np.nextafter(ends, -math.inf)).astype(np.intp)
    aligned = bool(((before < places) | (ends <= low)).all())
    whole, table = np.where(np.isinf(inside), under, over), np.stack([under, over], axis=1).ravel()

    def find(values: Vector) -> Vector:
        # that of NaN is the last one
        cells = place(values)
        numbers = np.fmin(cells, last, out=cells).astype(np.intp)
        if aligned:
            in_cell: Vector = whole[numbers]
            return in_cell
        above = values >= inside[numbers]
        numbers *= 2
        numbers += above
        found: Vector = table[numbers]
        return found

    return find
