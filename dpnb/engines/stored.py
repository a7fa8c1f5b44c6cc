"""One column of codes in memory, as an array of numbers of as few bytes as its declaration allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.codes import Interval
from dpnb.schema.columns import Kind, Real, cell_count, code_bytes
from dpnb.schema.predicates import Within
from dpnb.views.measures import Sum

Vector: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

_COMPARED = 4
"""So many intervals are compared one after the other; more of them are searched."""
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
        return np.floor(ticks, out=ticks)

    def weights(self, values: Vector, measure: Sum) -> Vector:
        """Return whole numbers to add up for a sum; see :meth:`total`."""
        return self.ticks(values, measure) if measure.rounded else values

    def total(self, measure: Sum, sums: Vector, counts: Vector) -> Vector:
        """Return a sum in ticks, from the sum of the :meth:`weights` of as many values."""
        if measure.rounded:
            return sums
        least = (self.low - measure.shift) / measure.step
        total: Vector = int(1 / measure.step) * sums + int(least) * counts
        return total

    def places(self, intervals: Sequence[Interval]) -> Callable[[Vector], Vector]:
        """Return a function from stored values to the number of the interval that holds each.

        The intervals ascend without gaps. Values outside, and missing ones, get the number after
        the last.
        """
        if len(intervals) == self.size:
            return lambda values: values
        lows, highs = self._ends(intervals)

        def place(values: Vector) -> Vector:
            found = np.searchsorted(highs, values)
            return np.where(values < lows[0], len(highs), found).astype(np.uint32)

        return self._tabled(place)

    def cells(self) -> Callable[[Vector], Vector]:
        """Return a function from stored values to the number of the declared group of each."""
        if cell_count(self.kind) == self.size:
            return lambda values: values
        return self.places([(cell.low, cell.high) for cell in self.kind.cells()])

    def within(self, predicate: Within) -> Callable[[Vector], Mask]:
        """Return a function from stored values to whether each satisfies a predicate."""
        lows, highs = self._ends(sorted(predicate.intervals))

        def compare(values: Vector) -> Mask:
            found = self.missing(values) if predicate.null else np.zeros(len(values), np.bool_)
            for low, high in zip(lows, highs, strict=True):
                found |= (values >= low) & (values <= high)
            return found

        def search(values: Vector) -> Mask:
            # of disjoint intervals, only the last one that begins before a value can hold it
            place = np.searchsorted(lows, values, side="right")
            found: Mask = (place > 0) & (values <= highs[place - 1])
            return found | self.missing(values) if predicate.null else found

        return compare if len(lows) <= _COMPARED else self._tabled(search)

    def _ends(self, intervals: Sequence[Interval]) -> tuple[Vector, Vector]:
        ends = np.array([(low - self.low, high - self.low) for low, high in intervals])
        lows, highs = ends.reshape(-1, 2).astype(self.values.dtype).T
        return lows, highs

    def _tabled(self, function: Callable[[Vector], Vector]) -> Callable[[Vector], Vector]:
        """Return the same function, from a table if there are few different values."""
        number = self.values.dtype
        if number.itemsize > 2:
            return function
        table = function(np.arange(self.size + 1).astype(number))
        return lambda values: table[values]
