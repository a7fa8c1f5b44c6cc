"""Sets of combinations of the codes of several columns, as conditions: one spelling for each set.

A set is an array of truths with an axis for each column: its codes in order, and the missing value
last (docs/methods/expressions.md, theorem 16).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from dpnb.codes import Code, Interval
from dpnb.schema.columns import Kind
from dpnb.schema.predicates import (
    EVERY,
    NONE,
    And,
    Compared,
    Or,
    Order,
    Predicate,
    Within,
    compared,
    simplify,
)
from dpnb.sql.outputs import Product

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask: TypeAlias = npt.NDArray[np.bool_]

MOST_CASES = 8
"""A comparison of two columns is one condition, rather than more cases than these."""


def union(rows: Mask, columns: Sequence[str], kinds: Mapping[str, Kind]) -> Predicate:
    """Return a set of combinations as a condition: the same for the same set.

    ``rows`` has an axis for each column: its codes, and the missing value last. A column on which
    nothing else depends stands beside the others; else those of its codes that go with the same rest
    are one box, and the column with the fewest such boxes comes first.
    """
    import numpy as np

    own = tuple((column, kinds[column]) for column in columns)
    return _united(np.ascontiguousarray(rows).tobytes(), rows.shape, own)


@lru_cache(maxsize=64)
def _united(
    rows: bytes, shape: tuple[int, ...], columns: tuple[tuple[str, Kind], ...]
) -> Predicate:
    import numpy as np

    kinds = dict(columns)
    mask = np.frombuffer(rows, np.bool_).reshape(shape)
    return simplify(_union(mask, tuple(kinds), kinds), kinds)


def _union(rows: Mask, columns: tuple[str, ...], kinds: Mapping[str, Kind]) -> Predicate:
    import numpy as np

    if rows.all() or not rows.any():
        return EVERY if rows.all() else NONE
    for place, column in enumerate(columns):
        rest = columns[:place] + columns[place + 1 :]
        others = tuple(axis for axis in range(rows.ndim) if axis != place)
        for inside in (rows, ~rows):
            own: Mask = np.logical_or.reduce(inside, axis=others)
            beside: Mask = np.logical_or.reduce(inside, axis=place)
            both = np.expand_dims(own, others) & np.expand_dims(beside, place)
            if np.array_equal(both, inside):
                if inside is rows:
                    return And((_within(own, column, kinds), _union(beside, rest, kinds)))
                return Or((_within(~own, column, kinds), _union(~beside, rest, kinds)))
    different = [_slices(rows, place) for place in range(rows.ndim)]
    place = min(range(rows.ndim), key=lambda axis: len(different[axis][0]))
    if len(different[place][0]) > MOST_CASES:
        # one comparison takes less time than many intervals
        comparison = _comparison(rows, columns, kinds)
        if comparison is not None:
            return comparison
    rest = columns[:place] + columns[place + 1 :]
    slices, numbers = different[place]
    return Or(
        tuple(
            And((_within(numbers == number, columns[place], kinds), _union(one, rest, kinds)))
            for number, one in enumerate(slices)
        )
    )


def _slices(rows: Mask, place: int) -> tuple[list[Mask], npt.NDArray[np.intp]]:
    """Return the different slices along an axis, and the number of that of each place."""
    import numpy as np

    along = np.moveaxis(rows, place, 0)
    packed = np.packbits(along.reshape(len(along), -1), axis=1)
    _, first, numbers = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return [along[one] for one in first], numbers.reshape(-1)


def _within(codes: Mask, column: str, kinds: Mapping[str, Kind]) -> Within:
    """Return the condition that a column has some of its codes; the last stands for a missing value."""
    import numpy as np

    low = int(kinds[column].scale.low)
    changes = np.flatnonzero(np.diff(np.concatenate([[0], codes[:-1].astype(np.int8), [0]])))
    ends = zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True)
    intervals: tuple[Interval, ...] = tuple((low + first, low + end - 1) for first, end in ends)
    return Within(column, intervals, bool(codes[-1]))


def shape_of(columns: Sequence[str], kinds: Mapping[str, Kind]) -> tuple[int, ...]:
    """Return the number of codes of each column, with one more for a missing value."""
    return Product(tuple(kinds[column] for column in columns)).shape


def rows_of(predicate: Predicate, columns: Sequence[str], kinds: Mapping[str, Kind]) -> Mask:
    """Return which combinations satisfy a condition, to be broadcast to all."""
    import numpy as np

    if isinstance(predicate, Within):
        shape = [1] * len(columns)
        place = columns.index(predicate.column)
        shape[place] = shape_of([predicate.column], kinds)[0]
        rows = np.zeros(shape[place], np.bool_)
        low = int(kinds[predicate.column].scale.low)
        for first, last in predicate.codes(kinds[predicate.column]):
            rows[int(first) - low : int(last) - low + 1] = True
        rows[-1] = predicate.null
        return rows.reshape(shape)
    if isinstance(predicate, Compared):
        return _compared_rows(predicate, columns, kinds)
    conjunction = isinstance(predicate, And)
    result: Mask = np.full([1] * len(columns), conjunction)
    for part in predicate.parts:
        own = rows_of(part, columns, kinds)
        result = result & own if conjunction else result | own
    return result


def _compared_rows(predicate: Compared, columns: Sequence[str], kinds: Mapping[str, Kind]) -> Mask:
    """Return which combinations satisfy a comparison of two columns of whole numbers."""
    import numpy as np

    codes = []
    for name in (predicate.left, predicate.right):
        shape = [1] * len(columns)
        (shape[columns.index(name)],) = shape_of([name], kinds)
        codes.append((int(kinds[name].scale.low) + np.arange(max(shape))).reshape(shape))
    difference = codes[1] - codes[0]
    compare = {"<=": np.greater_equal, ">=": np.less_equal, "=": np.equal, "<>": np.not_equal}
    rows: Mask = compare[predicate.operator](difference, predicate.offset)
    for name, own in zip((predicate.left, predicate.right), codes, strict=True):
        # the last one stands for a missing value
        rows = rows & (own <= int(kinds[name].scale.high))
    return rows


def _along(rows: Mask) -> tuple[Mask, Mask]:
    """Return which codes of either column are in a combination."""
    import numpy as np

    own: Mask = np.logical_or.reduce(rows, axis=1)
    other: Mask = np.logical_or.reduce(rows, axis=0)
    return own, other


def _comparison(rows: Mask, columns: Sequence[str], kinds: Mapping[str, Kind]) -> Predicate | None:
    """Return a set of combinations of two columns as a comparison of them, within some of their codes.

    None if it is not one.
    """
    import numpy as np

    if len(columns) != 2 or {kinds[name].kind for name in columns} not in ({"integer"}, {"date"}):
        return None
    nulls = (bool(rows[-1].all()), bool(rows[:, -1].all()))
    missing = np.zeros(rows.shape, np.bool_)
    missing[-1], missing[:, -1] = nulls[0], nulls[1]
    missing[-1, -1] = any(nulls)
    if any(nulls):
        present = rows & ~missing
        found = _comparison(present, columns, kinds) if present.any() else None
        lacks = (
            Within(one, (), null=True) for one, null in zip(columns, nulls, strict=True) if null
        )
        return None if found is None else Or((found, *lacks))
    own, other = _along(rows)
    if own[-1] or other[-1]:
        return None
    lows = [int(kinds[name].scale.low) for name in columns]
    difference = (lows[1] + np.arange(len(other))) - (lows[0] + np.arange(len(own)))[:, None]
    outside = np.outer(own, other) & ~rows
    inside, beyond = difference[rows], difference[outside]
    offsets: tuple[tuple[Order, Code], ...] = (
        ("=", int(inside.min())), ("<=", int(inside.min())), (">=", int(inside.max())),
        ("<>", int(beyond.min())),
    )  # fmt: skip
    for order, offset in offsets:
        found = compared(columns[0], order, columns[1], offset, kinds)
        if not isinstance(found, Compared):
            continue
        held = _compared_rows(found, columns, kinds)
        if np.array_equal(rows, held & np.outer(own, other)):
            codes = zip(columns, (own, other), _along(held), strict=True)
            parts = [
                _within(one, name, kinds) for name, one, all_of in codes if (one != all_of).any()
            ]
            return And((found, *parts))
    return None
