"""Declared histogram views: what one is made of, and which statements it answers.

A histogram counts every row in exactly one bin, so one row changes it by 1. A statement is answered
from it as W x, when each of its conditions and groups is a union of bins (spec/dprovdb.md 3.10).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.engines.base import Axis, Count
from dpnb.errors import RequestError, SchemaError
from dpnb.kinds import Category, Kind, nearest
from dpnb.provenance.views import LATTICE_BITS, View
from dpnb.scale import Interval
from dpnb.schema import Schema
from dpnb.sql.canonical import simplify
from dpnb.sql.query import EVERY, Aggregate, And, Predicate, Query, Within
from dpnb.sql.values import Column

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Values: TypeAlias = npt.NDArray[np.float64]

MOST_CELLS = 100_000
"""Largest number of bins of one view."""
_LARGEST = 2**20


@dataclass(frozen=True, slots=True)
class Strategy:
    """What is measured instead of the bins themselves: B x for a public matrix of whole numbers.

    Answers are W B^+ y, with variance sigma^2 ||W B^+||^2 (spec/dprovdb.md 5.3).

    Parameters
    ----------
    matrix : sequence of rows of int
        One column for each bin; the columns are linearly independent, so that every answer is
        unbiased.

    Raises
    ------
    RequestError
    """

    matrix: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        import numpy as np

        try:
            rows = tuple(tuple(map(operator.index, row)) for row in self.matrix)
        except TypeError:
            rows = ()
        sizes = {len(row) for row in rows}
        if len(sizes) != 1 or 0 in sizes or max(abs(v) for row in rows for v in row) > _LARGEST:
            raise RequestError(
                "a strategy is a matrix of whole numbers of moderate size",
                "Write Strategy([[1, 1], [1, -1]]).",
            )
        object.__setattr__(self, "matrix", rows)
        if np.linalg.matrix_rank(np.array(rows, dtype=np.float64)) < min(sizes):
            raise RequestError(
                "this strategy does not tell all bins apart",
                "Its columns must be linearly independent; add rows, such as one for each bin.",
            )

    @property
    def sensitivity(self) -> int:
        """L2 sensitivity, rounded up: the largest norm of a column."""
        most = max(
            sum(value * value for value in column) for column in zip(*self.matrix, strict=True)
        )
        return math.isqrt(most - 1) + 1

    def inverse(self) -> Values:
        """Return B^+."""
        import numpy as np

        return np.linalg.pinv(np.array(self.matrix, dtype=np.float64))


@dataclass(frozen=True)
class Histogram(View):
    """A declared view: counts over the joint bins of some columns, last column fastest."""

    name: str = ""
    axes: tuple[Axis, ...] = ()
    strategy: Strategy | None = None

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        axes = [[axis.column, _plain_cells(axis.cells)] for axis in self.axes]
        matrix = None if self.strategy is None else [list(row) for row in self.strategy.matrix]
        return {**super().definition(), "histogram": axes, "strategy": matrix}

    @cached_property
    def id(self) -> str:
        """A name that is equal for equal definitions."""
        return super().id

    def ends(self, column: str) -> tuple[Any, Any]:
        """Return the first and last code of each cell of a column, but for the one of missing values."""
        return self._ends[self.keys.index(column)]

    @cached_property
    def _ends(self) -> list[tuple[Any, Any]]:
        import numpy as np

        return [
            (np.array([low for low, _ in axis.cells]), np.array([high for _, high in axis.cells]))
            for axis in self.axes
        ]

    @cached_property
    def inverse(self) -> Values | None:
        """The strategy's B^+, None without a strategy."""
        return None if self.strategy is None else self.strategy.inverse()

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that its bins are made of."""
        return frozenset(self.keys)

    @property
    def size(self) -> int:
        """Number of bins."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def norm(self) -> int:
        """L2 sensitivity in counts."""
        return 1 if self.strategy is None else self.strategy.sensitivity

    @property
    def scale(self) -> int:
        """Lattice units in one count."""
        return 1 << max(0, LATTICE_BITS - (self.norm - 1).bit_length())

    @property
    def sensitivity(self) -> int:
        """L2 sensitivity in lattice units."""
        return self.norm * self.scale

    @property
    def reach(self) -> float:
        """L2 sensitivity in counts."""
        return float(self.norm)

    def measured(self, counts: Sequence[int]) -> list[int]:
        """Return what is measured of the exact counts, in lattice units."""
        import numpy as np

        if self.strategy is None:
            return self.lattice(counts)
        x = np.array(counts, dtype=object)
        return self.lattice(
            [int(np.dot(np.array(row, dtype=object), x)) for row in self.strategy.matrix]
        )


def _plain_cells(cells: Sequence[Interval]) -> dict[str, list[Any]]:
    """Return cells that cover a domain as plain data: each value, or where each cell ends."""
    first, last = cells[0][0], cells[-1][1]
    if all(low == high for low, high in cells):
        return {"each": [first, last]}
    return {"from": [first], "to": [high for _, high in cells]}


def histogram(
    table: str,
    version: int,
    schema: Schema,
    columns: Sequence[str],
    bins: Mapping[str, Sequence[Any] | None] | None = None,
    name: str | None = None,
    strategy: Strategy | None = None,
) -> Histogram:
    """Declare a view over some columns, from public facts alone.

    Parameters
    ----------
    columns : sequence of str
        Declared columns, each once.
    bins : mapping of str to sequence or None, optional
        Edges to use instead of the declared ones, right-closed; the first bin includes its left end.
        What lies outside the edges falls into bins of its own. None: one bin for each value.

    Raises
    ------
    RequestError, SchemaError
        For unknown or repeated columns, a Real without bins, and more than 100,000 bins.
    """
    listed = isinstance(columns, (list, tuple)) and all(isinstance(c, str) for c in columns)
    if not listed or not columns or len(set(columns)) != len(columns):
        raise RequestError("a view is over columns, each once", "Write add_view(['age', 'sex']).")
    if bins is not None and not isinstance(bins, Mapping):
        raise RequestError("bins belong to columns", "Write bins={'age': [17, 30, 90]}.")
    if name is not None and not _is_name(name):
        raise RequestError("this is no name of a view", "Give a text of 1 to 100 characters.")
    if strategy is not None and not isinstance(strategy, Strategy):
        raise RequestError("the strategy is no dpnb.Strategy", "Write dpnb.Strategy(matrix).")
    for column in (*columns, *(bins or ())):
        if column not in schema:
            raise RequestError(
                f"{column!r} is no declared column", nearest(str(column), list(schema))
            )
    axes = tuple(
        Axis(column, _cells(_rebinned(schema[column], column, bins or {}))) for column in columns
    )
    made = Histogram(
        table, version, tuple(columns), EVERY, Count(None),
        name=name or ", ".join(columns), axes=axes, strategy=strategy,
    )  # fmt: skip
    if made.size > MOST_CELLS:
        raise RequestError(
            f"this view would have {made.size:,} bins, more than {MOST_CELLS:,}",
            "Take fewer columns, or give wider bins.",
        )
    if strategy is not None and {len(row) for row in strategy.matrix} != {made.size}:
        raise RequestError(f"the strategy has not {made.size} columns", "Give one for each bin.")
    return made


def _rebinned(kind: Kind, column: str, bins: Mapping[str, Sequence[Any] | None]) -> Kind:
    """Return a column's kind with other bins, where there are some for it."""
    if column not in bins:
        return kind
    if isinstance(kind, Category):
        raise SchemaError("a category has no bins", "Leave bins out for it.")
    declared, edges = kind.to_dict(), bins[column]
    if isinstance(edges, (str, Mapping)):
        raise SchemaError("bins are a list of edges", "Write bins={'age': [17, 30, 90]}.")
    try:
        edges = None if edges is None else list(edges)
        return type(kind)(declared["low"], declared["high"], bins=edges)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError("these are no bins", "Write bins={'age': [17, 30, 90]}.") from None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable()


def _cells(kind: Kind) -> tuple[tuple[Any, Any], ...]:
    """Return intervals of codes that cover the domain: the bins, and what lies outside them."""
    scale = kind.scale
    if isinstance(kind, Category) or kind.bins is not None:
        inside = [(cell.low, cell.high) for cell in kind.cells()]
        return tuple(sorted([*inside, *scale.complement(inside)]))
    if not scale.integral:
        raise SchemaError("a Real without bins has no histogram", "Declare bins=[...] for it.")
    if scale.high - scale.low >= MOST_CELLS:
        raise RequestError("this column has too many values for one bin each", "Give bins for it.")
    return tuple((code, code) for code in range(int(scale.low), int(scale.high) + 1))


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """How one aggregate of a statement is answered from a histogram: W x.

    Attributes
    ----------
    groups : int
    group : int array, shape (bins,)
        The group of each bin, -1 for those that do not count.
    values : float array, shape (bins,)
        What one row in the bin adds to a SUM; ones for a COUNT.
    middle : float
        For AVG: the mean of the values in a group, so that centred sums and counts are uncorrelated.
    """

    view: Histogram
    groups: int
    group: npt.NDArray[np.int64]
    values: Values
    middle: float

    def _weights(self, centred: bool | None) -> Values:
        """Return the weight of each bin: of a count (None), a sum, or a centred sum."""
        import numpy as np

        if centred is None:
            return np.ones(len(self.group))
        return self.values - self.middle if centred else self.values

    def apply(self, vector: Sequence[float], centred: bool | None) -> list[float]:
        """Return W x for a released vector, one number for each group."""
        import numpy as np

        x = np.asarray(vector, dtype=np.float64)
        if self.view.inverse is not None:
            x = self.view.inverse @ x
        inside = self.group >= 0
        weights = (self._weights(centred) * x)[inside]
        found = np.bincount(self.group[inside], weights=weights, minlength=self.groups)
        return [float(value) for value in found]

    def norm(self, centred: bool | None) -> float:
        """Return the largest norm of a row of W B^+: noise of sigma becomes sigma times this."""
        import numpy as np

        inside = self.group >= 0
        weights = self._weights(centred)
        if self.view.inverse is None:
            squares = np.bincount(
                self.group[inside], weights=weights[inside] ** 2, minlength=self.groups
            )
            return float(np.sqrt(squares.max()))
        dense = np.zeros((self.groups, len(weights)))
        dense[self.group[inside], np.flatnonzero(inside)] = weights[inside]
        return float(np.sqrt(((dense @ self.view.inverse) ** 2).sum(axis=1).max()))

    @property
    def reach(self) -> float:
        """For AVG: the largest distance of a value from the middle."""
        import numpy as np

        return float(np.abs(self.values[self.group >= 0] - self.middle).max())


def columns_of(aggregate: Aggregate, query: Query) -> frozenset[str]:
    """Return the columns that a view must have to answer an aggregate."""
    keys = {key.column for key in query.keys}
    return aggregate.columns | aggregate.filter.columns | query.where.columns | keys


def align(aggregate: Aggregate, query: Query, view: Histogram, schema: Schema) -> Alignment | None:
    """Return how a histogram answers an aggregate exactly; None when it cannot."""
    import numpy as np

    value = aggregate.value
    if value is not None and not isinstance(value, Column):
        return None
    if not columns_of(aggregate, query) <= view.columns:
        return None
    if view.strategy is not None and query.keys:
        # groups would share noise, and comparing them takes noises to be independent
        return None
    where = simplify(And((query.where, aggregate.filter)), schema)
    inside = _inside(where, view, schema)
    group = _groups(query, view, schema)
    if inside is None or group is None:
        return None
    chosen = np.broadcast_to(inside, [axis.size for axis in view.axes])
    if value is not None:
        present = np.ones(view.axes[view.keys.index(value.name)].size, dtype=bool)
        present[-1] = False
        chosen = chosen & _along(present, view, value.name)
    group = np.where(chosen, group, -1).ravel()
    values = np.ones(view.size)
    if aggregate.function != "COUNT" and value is not None:
        single = _values(view, value.name)
        if single is None:
            return None
        values = np.broadcast_to(_along(single, view, value.name), chosen.shape).ravel().copy()
    made = Alignment(view, _count(query, schema), group, values, 0.0)
    return made if aggregate.function != "AVG" else _centred(made)


def _centred(made: Alignment) -> Alignment | None:
    """Return an alignment whose centred sums are uncorrelated with its counts in every group."""
    import numpy as np

    inside = made.group >= 0
    sizes = np.bincount(made.group[inside], minlength=made.groups)
    if sizes.min() == 0 or made.view.strategy is not None:
        return None
    sums = np.bincount(made.group[inside], weights=made.values[inside], minlength=made.groups)
    middles = sums / sizes
    if np.ptp(middles) > 1e-9 * (1 + abs(middles[0])):
        return None
    return Alignment(made.view, made.groups, made.group, made.values, float(middles[0]))


def _along(values: npt.NDArray[Any], view: Histogram, column: str) -> npt.NDArray[Any]:
    """Return values of one axis in the shape of all."""
    shape = [1] * len(view.axes)
    shape[view.keys.index(column)] = len(values)
    return values.reshape(shape)


def _inside(where: Predicate, view: Histogram, schema: Schema) -> Bools | None:
    """Return which bins satisfy a predicate; None when it cuts through one."""
    import numpy as np

    if isinstance(where, Within):
        lows, highs = view.ends(where.column)
        found = np.zeros(len(lows) + 1, dtype=bool)
        touched = np.zeros(len(lows), dtype=bool)
        # intervals are disjoint, and no two of them are neighbours
        for low, high in schema[where.column].scale.union(where.intervals):
            found[:-1] |= (lows >= low) & (highs <= high)
            touched |= (highs >= low) & (lows <= high)
        if (touched & ~found[:-1]).any():
            return None
        found[-1] = where.null
        return _along(found, view, where.column)
    conjunction = isinstance(where, And)
    result: Bools = np.full([1] * len(view.axes), conjunction)
    for part in where.parts:
        one = _inside(part, view, schema)
        if one is None:
            return None
        result = result & one if conjunction else result | one
    return result


def _groups(query: Query, view: Histogram, schema: Schema) -> npt.NDArray[np.int64] | None:
    """Return each bin's group in the query's order, -1 outside all; None when a bin has several."""
    import numpy as np

    number = np.zeros([1] * len(view.axes), dtype=np.int64)
    outside = np.zeros([1] * len(view.axes), dtype=bool)
    for key in query.keys:
        declared = schema[key.column].cells()
        lows, highs = view.ends(key.column)
        starts, stops = (np.array([getattr(c, end) for c in declared]) for end in ("low", "high"))
        first = np.minimum(np.searchsorted(stops, lows), len(declared) - 1)
        touched = (starts[first] <= highs) & (stops[first] >= lows)
        if (touched & ((starts[first] > lows) | (stops[first] < highs))).any():
            return None
        place = np.append(np.where(touched, first, -1), -1)
        along = _along(place, view, key.column)
        number = number * len(declared) + np.maximum(along, 0)
        outside = outside | (along < 0)
    return np.where(outside, -1, number)


def _values(view: Histogram, column: str) -> Values | None:
    """Return the one value in each cell of an axis; None where a cell holds several."""
    import numpy as np

    cells = view.axes[view.keys.index(column)].cells
    if any(low != high for low, high in cells):
        return None
    return np.array([float(low) for low, _ in cells] + [0.0])


def _count(query: Query, schema: Schema) -> int:
    return math.prod(len(schema[key.column].cells()) for key in query.keys)


def level_for_mean(made: Alignment, error: float, rows: float, z: float) -> Fraction:
    """Return the level at which an AVG's interval has half-width ``error`` on groups of ``rows`` rows.

    With noise sigma on each bin, the centred sum has sigma a, the count sigma b, and means lie within
    H of the middle: z sigma sqrt(a^2 + H^2 b^2) <= error (rows - z sigma b), linear in sigma.
    """
    a, b, far = made.norm(True), made.norm(None), made.reach
    sigma = error * rows / (z * (math.hypot(a, far * b) + error * b))
    return Fraction((made.view.reach / sigma) ** 2 / 2 * (1 + 1e-12))
