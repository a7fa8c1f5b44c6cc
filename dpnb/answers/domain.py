"""The working domain: a grid of bins that no statement cuts, and views as matrix rows over it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.codes import Code, Interval, Periodic, Steps
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import And, Compared, Predicate, Within, simplify
from dpnb.schema.schema import Schema
from dpnb.sql.values import (
    Arithmetic,
    Call,
    Case,
    Column,
    Mapped,
    Number,
    Value,
    bounds_of,
    subvalues,
)
from dpnb.views.histogram import Histogram
from dpnb.views.measures import Count, Distinct, Sum, Units
from dpnb.views.text import predicate_text
from dpnb.views.view import View

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Ints: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

Moment: TypeAlias = tuple[Value | Units, str] | None
"""What is added up in a bin: None for rows, else a value within its bounds and its rounding."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One column of the domain, cut into adjacent closed intervals of codes.

    ``missing`` says that there is a last bin for rows without a value.
    """

    column: str
    cells: tuple[Interval, ...]
    missing: bool

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.cells) + self.missing


def columns_of(view: View) -> frozenset[str]:
    """Return the columns that a domain needs to hold a view."""
    value = view.measure.value
    value_columns = frozenset() if value is None else value.columns
    return value_columns | view.where.columns | frozenset(key.column for key in view.keys)


def moment_of(view: View) -> Moment:
    """Return what a view adds up. Values that are rounded one by one differ by their rounding."""
    measure = view.measure
    if isinstance(measure, Count):
        return None
    if isinstance(measure, Distinct):
        # a count of distinct values is not a sum over rows, so nothing else follows from it
        return measure.value, "distinct"
    if isinstance(measure, Units):
        return measure, "units"
    if measure.rounded:
        return measure.value, f"{measure.shift} {measure.step}"
    # CASE with a number in each branch counts rows, and so does a column of two values
    return (measure.value, "") if _varies(measure.value, view.schema) else None


def _varies(value: Value, schema: Schema) -> bool:
    """Return whether a value may differ among rows that meet the same conditions."""
    names = (part.name for part in subvalues(value) if isinstance(part, Column))
    return not all(_two_valued(name, schema) for name in names)


def _two_valued(column: str, schema: Schema) -> bool:
    """Return whether a column has only two values; the domain then has a bin for each."""
    scale = schema[column].scale
    return scale.integral and scale.high - scale.low == 1


class Domain:
    """The product of the columns of some views, cut at all their constants, once for each moment.

    Parameters
    ----------
    views : sequence of View
        All views that become rows over the domain; at least one, all of one table.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self.schema = views[0].schema
        self.pieces = _pieces(self.schema, views)
        self.shape = tuple(piece.size for piece in self.pieces)
        self.grid = math.prod(self.shape)
        self.moments: list[Moment] = list(
            dict.fromkeys([None, *(moment_of(view) for view in views)])
        )
        self._place = {piece.column: i for i, piece in enumerate(self.pieces)}

    @property
    def size(self) -> int:
        """Number of bins, over all moments."""
        return self.grid * len(self.moments)

    def keys(self, view: View) -> Ints:
        """Return each grid bin's group of an ad-hoc view, or bin of a declared one; -1 for none."""
        import numpy as np

        number = np.zeros([1] * len(self.shape), dtype=np.int64)
        outside = ~self._mask(view.where)
        for key in view.keys:
            piece = self.pieces[self._place[key.column]]
            group = key.of(np.array([low for low, _ in piece.cells]))
            if piece.missing:
                group = np.append(group, -1 if key.null is None else key.null)
            along = self._along(group, key.column)
            number = number * key.size + np.maximum(along, 0)
            outside = outside | (along < 0)
        if isinstance(view.measure, Count) and view.measure.value is not None:
            outside = outside | ~self._value(view.measure.value)[2]
        groups = np.where(outside, -1, number)
        return np.ascontiguousarray(np.broadcast_to(groups, self.shape)).ravel()

    def rows(self, view: View) -> tuple[Ints, Ints, Values]:
        """Return a view's vector as matrix rows over the bins: row number, bin, coefficient.

        Coefficients are in units of the measure. If a value is the same for all data rows in a bin,
        its sum there is that value times the count.
        """
        import numpy as np

        keys = self.keys(view)
        cells = np.flatnonzero(keys >= 0)
        rows = keys[cells]
        measure = view.measure
        if isinstance(measure, Sum):
            return self._sums(measure, view, rows, cells)
        if isinstance(view, Histogram) and view.strategy is not None:
            matrix = np.array(view.strategy.matrix, dtype=np.float64)
            number, place = np.nonzero(matrix[:, rows])
            return number, cells[place], matrix[number, rows[place]]
        return rows, cells, np.ones(len(cells))

    def _sums(self, measure: Sum, view: View, rows: Ints, cells: Ints) -> tuple[Ints, Ints, Values]:
        import numpy as np

        values, known, present = (
            np.broadcast_to(array, self.shape).ravel()[cells]
            for array in self._value(measure.value)
        )
        rows, cells, values, known = (array[present] for array in (rows, cells, values, known))
        known = known & (not measure.rounded)
        # a moment measures values from the middle of their bounds, in units of the distance to a
        # bound: it never exceeds the count, however wide the bounds are or however far from 0. They are
        # those of all rows, so that sums of one value in other rows share a moment
        bounds = bounds_of(measure.value, self.schema)
        middle = (bounds.low + bounds.high) / 2 - measure.shift
        half = (bounds.high - bounds.low) / 2
        coefficients = np.where(known, values - float(measure.shift), float(middle))
        nonzero, unknown = coefficients != 0, ~known & (half != 0)
        start = self.grid * self.moments.index(moment_of(view))
        return (
            np.concatenate([rows[nonzero], rows[unknown]]),
            np.concatenate([cells[nonzero], start + cells[unknown]]),
            np.concatenate([coefficients[nonzero], np.full(int(unknown.sum()), float(half))]),
        )

    def condition(self, cells: Ints) -> str | None:
        """Return the WHERE condition that holds in exactly the given bins; '' for all bins.

        None if that takes more than one interval or list for each column.
        """
        import numpy as np

        if not len(cells) or int(cells.max()) >= self.grid:
            return None
        places = np.unravel_index(cells, self.shape) if self.shape else ()
        sides = [np.unique(along) for along in places]
        if math.prod(len(side) for side in sides) != len(cells):
            return None
        atoms = []
        for piece, side in zip(self.pieces, sides, strict=True):
            if piece.column not in self.schema:
                if len(side) < piece.size:
                    return None
                continue
            inside = [piece.cells[i] for i in side.tolist() if i < len(piece.cells)]
            null = int(side[-1]) == len(piece.cells)
            if not piece.missing:
                # no need to say that a complete column is not missing
                null = len(inside) == len(piece.cells)
            atoms.append(Within(piece.column, tuple(inside), null))
        return predicate_text(simplify(And(tuple(atoms)), self.schema), self.schema)

    def _along(self, values: npt.NDArray[Any], column: str) -> npt.NDArray[Any]:
        """Reshape the values of one column's bins, to broadcast over the grid."""
        shape = [1] * len(self.shape)
        shape[self._place[column]] = len(values)
        return values.reshape(shape)

    def _mask(self, where: Predicate) -> Bools:
        """Return which bins satisfy a predicate, whose constants cut no bin."""
        import numpy as np

        if isinstance(where, Within):
            piece, kind = self.pieces[self._place[where.column]], self.schema[where.column]
            inside = Partition(where.column, where.joined(kind).steps(0), kind)
            mask = inside.of(np.array([low for low, _ in piece.cells])) >= 0
            if piece.missing:
                mask = np.append(mask, where.null)
            return self._along(mask, where.column)
        if isinstance(where, Compared):
            return self._along(np.array([False, True]), str(where))
        conjunction = isinstance(where, And)
        result: Bools = np.full([1] * len(self.shape), conjunction)
        for part in where.parts:
            part_mask = self._mask(part)
            result = result & part_mask if conjunction else result | part_mask
        return result

    def _value(self, value: Value) -> tuple[Values, Bools, Bools]:
        """Return each bin's value, whether all its rows share it, and whether it is present."""
        import numpy as np

        unit = [1] * len(self.shape)
        if isinstance(value, Number):
            yes = np.ones(unit, dtype=bool)
            return np.full(unit, float(value.value)), yes, yes
        if isinstance(value, Column):
            piece = self.pieces[self._place[value.name]]
            gap = [False] * piece.missing
            single = np.array([low == high for low, high in piece.cells] + gap)
            lows = np.array([float(low) for low, _ in piece.cells] + [0.0] * piece.missing)
            present = np.array([True] * len(piece.cells) + gap)
            return (
                self._along(lows, value.name),
                self._along(single, value.name),
                self._along(present, value.name),
            )
        if isinstance(value, Mapped):
            return self._mapped(value)
        if isinstance(value, Arithmetic):
            return self._arithmetic(value)
        return self._call(value) if isinstance(value, Call) else self._case(value)

    def _mapped(self, value: Mapped) -> tuple[Values, Bools, Bools]:
        import numpy as np

        piece = self.pieces[self._place[value.column]]
        outputs = [value.numbers(low) for low, _ in piece.cells]
        outputs += [value.numbers.null] * piece.missing
        values = np.array([0.0 if output is None else float(output) for output in outputs])
        present = np.array([output is not None for output in outputs])
        along = self._along(values, value.column)
        # each bin is in one piece
        return along, np.ones_like(along, dtype=bool), self._along(present, value.column)

    def _arithmetic(self, value: Arithmetic) -> tuple[Values, Bools, Bools]:
        import numpy as np

        (a, known_a, present_a), (b, known_b, present_b) = (
            self._value(value.left), self._value(value.right),
        )  # fmt: skip
        if value.operator == "/":
            # a divisor is a number other than 0
            values = a / b
        else:
            work = {"+": np.add, "-": np.subtract, "*": np.multiply}[value.operator]
            values = work(a, b)
        return values, known_a & known_b, present_a & present_b

    def _call(self, value: Call) -> tuple[Values, Bools, Bools]:
        import numpy as np

        values, known, present = zip(*map(self._value, value.parts), strict=True)
        if value.function == "ABS":
            return np.abs(values[0]), known[0], present[0]
        pick, absent = (np.minimum, np.inf) if value.function == "LEAST" else (np.maximum, -np.inf)
        shown = [np.where(there, one, absent) for one, there in zip(values, present, strict=True)]
        # what is missing does not matter
        alike = [each | ~there for each, there in zip(known, present, strict=True)]
        some = reduce(np.logical_or, present)
        return np.where(some, reduce(pick, shown), 0.0), reduce(np.logical_and, alike), some

    def _case(self, value: Case) -> tuple[Values, Bools, Bools]:
        import numpy as np

        unit = [1] * len(self.shape)
        no = np.zeros(unit, dtype=bool)
        values, known, present = np.zeros(unit), no, no
        if value.default is not None:
            values, known, present = self._value(value.default)
        for condition, result in reversed(value.branches):
            test = self._mask(condition)
            branch = (np.zeros(unit), no, no) if result is None else self._value(result)
            values, known, present = (
                np.where(test, new, old)
                for new, old in zip(branch, (values, known, present), strict=True)
            )
        return values, known, present


def repetitions(views: Iterable[View]) -> int:
    """Return how many bins of a column what repeats in some views makes, at least.

    These are found before any is written out.
    """
    return max((_repetitions(view) for view in views), default=0)


def _repetitions(view: View) -> int:
    value = view.measure.value
    parts = [] if value is None else [*subvalues(value)]
    functions: list[tuple[str, Steps[Any]]] = [
        *((key.column, key.steps) for key in view.keys if key.steps is not None),
        *((part.column, part.numbers) for part in parts if isinstance(part, Mapped)),
        *((atom.column, atom.steps(True)) for atom in _tests(view) if isinstance(atom, Within)),
    ]
    return max(
        (
            int(view.schema[column].scale.high - view.schema[column].scale.low)
            // function.period
            * max(1, len(function.steps.pieces) - 1)
            for column, function in functions
            if isinstance(function, Periodic)
        ),
        default=0,
    )


def _pieces(schema: Schema, views: Sequence[View]) -> tuple[Piece, ...]:
    starts: dict[str, set[Code]] = {}
    scales = {column: schema[column].scale for view in views for column in columns_of(view)}
    for view in views:
        for column in columns_of(view):
            starts.setdefault(column, {scales[column].low})
        for column, low, high in _intervals(view):
            starts[column].update((low, scales[column].next(high)))
    for column, cut in starts.items():
        if _two_valued(column, schema):
            cut.add(schema[column].scale.high)
    pieces = [
        Piece(column, _cut(schema, column, starts[column]), column not in schema.complete)
        for column in sorted(starts)
    ]
    # whether two columns compare so cuts no column, but all rows in two
    tests = {str(atom) for view in views for atom in _tests(view) if isinstance(atom, Compared)}
    return (*pieces, *(Piece(test, ((0, 0), (1, 1)), missing=False) for test in sorted(tests)))


def _cut(schema: Schema, column: str, starts: set[Code]) -> tuple[Interval, ...]:
    scale = schema[column].scale
    inside = sorted(start for start in starts if scale.low <= start <= scale.high)
    stops = [*(scale.previous(start) for start in inside[1:]), scale.high]
    return tuple(zip(inside, stops, strict=True))


def _intervals(view: View) -> Iterator[tuple[str, Code, Code]]:
    """Yield all intervals of codes that a view names."""
    for key in view.keys:
        for low, high, _ in key.numbers.pieces:
            yield key.column, low, high
    value = view.measure.value
    for part in [] if value is None else subvalues(value):
        if isinstance(part, Mapped):
            for low, high, _ in part.numbers.over(view.schema[part.column].scale).pieces:
                yield part.column, low, high
    for atom in _tests(view):
        if isinstance(atom, Within):
            for low, high in atom.codes(view.schema[atom.column]):
                yield atom.column, low, high


def _tests(view: View) -> Iterator[Within | Compared]:
    """Yield what the conditions of a view are made of."""
    value = view.measure.value
    for predicate in (view.where, *([] if value is None else _conditions(value))):
        yield from _atoms(predicate)


def _conditions(value: Value) -> Iterator[Predicate]:
    for part in subvalues(value):
        if isinstance(part, Case):
            yield from (condition for condition, _ in part.branches)


def _atoms(predicate: Predicate) -> Iterator[Within | Compared]:
    if isinstance(predicate, Within | Compared):
        yield predicate
    else:
        for part in predicate.parts:
            yield from _atoms(part)
