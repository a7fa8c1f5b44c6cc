"""Which aggregates a declared view answers, and how: W x (docs/methods/dprovdb.md, theorem 13).

A view answers an aggregate if each condition and each group is a union of its bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from dpnb.privacy.definition import ZCDP
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import And, Compared, Predicate, Within, simplify
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate, Query
from dpnb.sql.values import Column
from dpnb.views.histogram import Histogram

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Values: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """Matrix W that answers one aggregate of a statement from a histogram x, as W x.

    Attributes
    ----------
    groups : int
    group : int array, shape (bins,)
        The group of each bin, or -1 for bins that do not count.
    values : float array, shape (bins,)
        Contribution of one row in the bin to a SUM; ones for a COUNT.
    middle : float
        For AVG: the mean of the values in a group; it makes centred sums and counts uncorrelated.
    """

    view: Histogram
    groups: int
    group: npt.NDArray[np.int64]
    values: Values
    middle: float

    def _weights(self, centred: bool | None) -> Values:
        """Return the weights of the bins in a count (None), a sum, or a centred sum."""
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
        sums = np.bincount(self.group[inside], weights=weights, minlength=self.groups)
        return [float(total) for total in sums]

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
    keys = {key.partition.column for key in query.keys}
    return aggregate.columns | aggregate.filter.columns | query.where.columns | keys


def align(aggregate: Aggregate, query: Query, view: Histogram) -> Alignment | None:
    """Return how a histogram answers an aggregate exactly, or None if it cannot."""
    import numpy as np

    match aggregate.function:
        case Function.COUNT | Function.SUM | Function.AVG:
            value = aggregate.value
        case Function.CELLS:
            query, value = query.finer(aggregate), None
            aggregate = replace(aggregate, function=Function.COUNT, value=None)
        case Function.UNITS | Function.DISTINCT:
            # bins do not distinguish ids or single rows
            return None
        case _:
            assert_never(aggregate.function)
    if not (value is None or isinstance(value, Column)):
        return None
    if not columns_of(aggregate, query) <= view.columns:
        return None
    if view.strategy is not None and query.keys:
        # groups would share noise, but comparisons assume independent noise
        return None
    where = simplify(And((query.where, aggregate.filter)), query.schema)
    inside = _inside(where, view)
    group = _groups(query, view)
    if inside is None or group is None:
        return None
    mask = np.broadcast_to(inside, [axis.size for axis in view.keys])
    if value is not None:
        present = np.ones(view.keys[view.place(value.name)].size, dtype=bool)
        present[-1] = False
        mask = mask & _along(present, view, value.name)
    group = np.where(mask, group, -1).ravel()
    values = np.ones(view.size)
    if not aggregate.function.is_count and value is not None:
        single = _values(view, value.name)
        if single is None:
            return None
        values = np.broadcast_to(_along(single, view, value.name), mask.shape).ravel().copy()
    alignment = Alignment(view, _count(query), group, values, 0.0)
    return _centred(alignment) if aggregate.function.is_mean else alignment


def _centred(alignment: Alignment) -> Alignment | None:
    """Return an alignment whose centred sums are uncorrelated with its counts in every group."""
    import numpy as np

    inside = alignment.group >= 0
    sizes = np.bincount(alignment.group[inside], minlength=alignment.groups)
    if sizes.min() == 0 or alignment.view.strategy is not None:
        return None
    sums = np.bincount(
        alignment.group[inside], weights=alignment.values[inside], minlength=alignment.groups
    )
    middles = sums / sizes
    if np.ptp(middles) > 1e-9 * (1 + abs(middles[0])):
        return None
    return Alignment(
        alignment.view, alignment.groups, alignment.group, alignment.values, float(middles[0])
    )


def _along(values: npt.NDArray[Any], view: Histogram, column: str) -> npt.NDArray[Any]:
    """Reshape the values of one axis to broadcast along all axes."""
    shape = [1] * len(view.keys)
    shape[view.place(column)] = len(values)
    return values.reshape(shape)


def _inside(where: Predicate, view: Histogram) -> Bools | None:
    """Return which bins satisfy a predicate, or None if it splits a bin."""
    import numpy as np

    if isinstance(where, Within):
        axis = view.keys[view.place(where.column)]
        steps = where.joined(axis.kind).steps(0)
        group = axis.finer(Partition(where.column, steps, axis.kind))
        return None if group is None else _along(group == 0, view, where.column)
    if isinstance(where, Compared):
        return None
    conjunction = isinstance(where, And)
    bins: Bools = np.full([1] * len(view.keys), conjunction)
    for part in where.parts:
        part_bins = _inside(part, view)
        if part_bins is None:
            return None
        bins = bins & part_bins if conjunction else bins | part_bins
    return bins


def _groups(query: Query, view: Histogram) -> npt.NDArray[np.int64] | None:
    """Return each bin's group in the query's order, -1 outside; None if a bin lies in several."""
    import numpy as np

    number = np.zeros([1] * len(view.keys), dtype=np.int64)
    outside = np.zeros([1] * len(view.keys), dtype=bool)
    for key in query.keys:
        partition = key.partition
        group = view.keys[view.place(partition.column)].finer(partition)
        if group is None:
            return None
        # the last place is that of no group
        places = np.append(np.argsort(key.order), -1)
        along = _along(places[group], view, partition.column)
        number = number * partition.size + np.maximum(along, 0)
        outside = outside | (along < 0)
    return np.where(outside, -1, number)


def _values(view: Histogram, column: str) -> Values | None:
    """Return the single value in each bin of an axis, or None if a bin holds several."""
    import numpy as np

    lows, highs, _ = view.keys[view.place(column)].arrays
    return None if (lows != highs).any() else np.append(lows.astype(np.float64), 0.0)


def _count(query: Query) -> int:
    return math.prod(key.partition.size for key in query.keys)


def level_for_mean(made: Alignment, error: float, rows: float, z: float) -> Fraction:
    """Return the level at which an AVG has margin of error ``error`` in groups of ``rows`` rows.

    With noise sigma on each bin, the centred sum has noise sigma a, the count has sigma b, and
    means lie within H of the middle: z sigma sqrt(a^2 + H^2 b^2) <= error (rows - z sigma b),
    linear in sigma.
    """
    a, b, far = made.norm(True), made.norm(None), made.reach
    sigma = error * rows / (z * (math.hypot(a, far * b) + error * b))
    return Fraction((made.view.sensitivity(ZCDP) / sigma) ** 2 / 2 * (1 + 1e-12))
