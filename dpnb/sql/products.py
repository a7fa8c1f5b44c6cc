"""Conditions on several columns, evaluated on all combinations of their public codes.

What DuckDB says of each combination is computed when the statement is read, in the connection without
data. The result is a union of boxes of codes, in one spelling for each set of combinations: two ways to
write one condition are one request (docs/methods/expressions.md, theorem 16).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias

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
from dpnb.sql.dataless import SECONDS, EvaluationError, TimeLimitError
from dpnb.sql.domains import Domains
from dpnb.sql.outputs import (
    MOST_PIECES,
    TYPES,
    Holds,
    PiecesLimitError,
    Product,
    outputs,
    type_of,
    typed,
)
from dpnb.sql.source import Node

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask: TypeAlias = npt.NDArray[np.bool_]
    Bytes: TypeAlias = npt.NDArray[np.int8]

MOST_CASES = 8
"""A comparison of two columns is one condition, rather than more cases than these."""
MOST_OUTPUTS = 64
"""Most different results of a number of several columns."""
MOST_CODES = 100_000
"""Most combinations of codes of several columns."""


def is_small(columns: Sequence[str], kinds: Mapping[str, Kind]) -> bool:
    """Return whether the combinations of the codes of some columns are evaluated one by one."""
    scales = [kinds[column].scale for column in columns]
    return all(scale.integral for scale in scales) and (
        math.prod(int(scale.high - scale.low) + 1 for scale in scales) <= MOST_CODES
    )


class Products:
    """Reader of the conditions on several columns in a statement."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def condition(self, node: Node, *, negated: bool) -> Predicate:
        """Read a condition: the combinations for which it, or its negation, is true."""
        domains = self._domains
        columns, kinds, text = self._read(node)
        at_once = min(domains.at_once(node, kind) for kind in kinds)
        try:
            found = _evaluated(text, kinds, at_once)
        except EvaluationError:
            self._refuse_types(columns, node)
        except TimeLimitError:
            domains.refuse("this takes too long to evaluate", "Make it simpler.", node)
        if found.holds not in ("condition", "nothing"):
            domains.refuse(
                f"this is a {found.holds}, not a condition", "Compare it with a value.", node
            )
        rows = found.truth == (not negated)
        for place, column in enumerate(columns):
            domains.note(node, column, partial(_holds_for, rows.swapaxes(0, place)))
        return self._limited(union(rows, columns, domains.kinds), node)

    def numbers(self, node: Node) -> tuple[tuple[Predicate, Fraction], ...]:
        """Read a number of several columns: each of its outputs, ascending, with its combinations."""
        import numpy as np

        domains = self._domains
        columns, kinds, text = self._read(node)
        shape, at_once = Product(kinds).shape, min(domains.at_once(node, kind) for kind in kinds)
        try:
            found = _numbered(text, kinds, at_once)
        except EvaluationError:
            self._refuse_types(columns, node)
        except TimeLimitError:
            domains.refuse("this takes too long to evaluate", "Make it simpler.", node)
        except PiecesLimitError:
            domains.refuse(
                f"this has more than {MOST_OUTPUTS} different results over the values of "
                f"{' and '.join(columns)}",
                "Make it coarser: FLOOR(x / 10) for x.",
                node,
            )
        if found.holds not in ("number", "condition"):
            domains.refuse(
                f"this is a {found.holds}, not a number",
                "Count it, or compare it with a value.",
                node,
            )
        if found.has_faults:
            domains.refuse(
                f"this has no finite result for some values of {' and '.join(columns)}",
                "Leave them out by NULLIF: 1 / NULLIF(x, 0).",
                node,
            )
        places = found.places.reshape(shape)
        for place, column in enumerate(columns):
            domains.note(node, column, partial(_holds_for, (places >= 0).swapaxes(0, place)))
        conditions = (
            self._limited(union(np.equal(places, place), columns, domains.kinds), node)
            for place in range(len(found.outputs))
        )
        return tuple(sorted(zip(conditions, found.outputs, strict=True), key=lambda pair: pair[1]))

    def check(self, node: Node) -> None:
        """Refuse an expression that is not made of known functions, or has no type."""
        columns, kinds, text = self._read(node)
        try:
            type_of(text, Product(kinds))
        except EvaluationError:
            self._refuse_types(columns, node)

    def _read(self, node: Node) -> tuple[list[str], tuple[Kind, ...], str]:
        """Return the columns of an expression, their kinds, and its text with v0, v1, ... for them."""
        domains = self._domains
        columns = sorted(domains.columns(node))
        kinds = tuple(domains.kinds[column] for column in columns)
        for kind in kinds:
            domains.check(node, kind)
        names = {column: f"v{place}" for place, column in enumerate(columns)}
        return columns, kinds, domains.text(node, names)

    def _refuse_types(self, columns: Sequence[str], node: Node) -> NoReturn:
        self._domains.refuse(
            f"DuckDB cannot compute this from {' and '.join(columns)}",
            "Check the types: CAST(x AS VARCHAR) makes a text, CAST(x AS DOUBLE) a number.",
            node,
        )

    def merged(self, predicate: Predicate, node: Node) -> Predicate:
        """Return a condition in the one spelling for its rows, if its columns have few combinations."""
        import numpy as np

        columns, kinds = sorted(predicate.columns), self._domains.kinds
        if not is_small(columns, kinds):
            return predicate
        rows = np.broadcast_to(_rows(predicate, columns, kinds), _shape(columns, kinds))
        return self._limited(union(rows, columns, kinds), node)

    def _limited(self, predicate: Predicate, node: Node) -> Predicate:
        if _intervals(predicate) > MOST_PIECES:
            self._domains.refuse(
                f"this changes more than {MOST_PIECES:,} times over the values of "
                f"{' and '.join(sorted(predicate.columns))}",
                "Declare bins for them, or make them coarser: FLOOR(x / 10) for x.",
                node,
            )
        return predicate


def _holds_for(rows: Mask, number: Code) -> bool:
    """Return whether a condition holds for a value of the first column, by its number."""
    return bool(rows[int(number)].any())


@dataclass(frozen=True, slots=True, eq=False)
class _Evaluated:
    """Whether an expression is true of each combination, -1 for neither; and what it is."""

    truth: Bytes
    holds: Holds


@lru_cache(maxsize=64)
def _evaluated(text: str, kinds: tuple[Kind, ...], at_once: int) -> _Evaluated:
    import numpy as np

    product = Product(kinds)
    type_name = type_of(text, product)
    if type_name not in TYPES:
        raise EvaluationError
    holds, size = TYPES[type_name], math.prod(product.shape)
    truth = np.full(size, -1, np.int8)
    end = time.thread_time() + SECONDS
    for start in range(0, size if holds == "condition" else 0, at_once):
        if time.thread_time() > end:
            raise TimeLimitError
        numbers = range(start, min(start + at_once, size))
        values, missing, _ = outputs(text, product, numbers, type_name)
        truth[start : numbers.stop] = np.where(missing, -1, values.astype(np.int8))
    return _Evaluated(truth.reshape(product.shape), holds)


@dataclass(frozen=True, slots=True, eq=False)
class _Numbered:
    """The different outputs of an expression, and which one each combination has, -1 for none."""

    outputs: tuple[Fraction, ...]
    places: npt.NDArray[np.int64]
    holds: Holds
    has_faults: bool


@lru_cache(maxsize=64)
def _numbered(text: str, kinds: tuple[Kind, ...], at_once: int) -> _Numbered:
    import numpy as np

    product = Product(kinds)
    type_name, size = type_of(text, product), math.prod(product.shape)
    holds = TYPES.get(type_name, "nothing")
    places, numbers, has_faults = np.full(size, -1), dict[Fraction, int](), False
    end = time.thread_time() + SECONDS
    for start in range(0, size if holds in ("number", "condition") else 0, at_once):
        if time.thread_time() > end:
            raise TimeLimitError
        part = range(start, min(start + at_once, size))
        values, missing, fault = outputs(text, product, part, type_name)
        has_faults |= fault is not None
        different, own = np.unique(values[~missing], return_inverse=True)
        if len(different) > MOST_OUTPUTS:
            raise PiecesLimitError
        names = [
            numbers.setdefault(Fraction(output), len(numbers))
            for output in typed(different, type_name)
        ]
        places[start : part.stop][~missing] = np.array(names, np.int64)[own.reshape(-1)]
    if len(numbers) > MOST_OUTPUTS:
        raise PiecesLimitError
    return _Numbered(tuple(numbers), places, holds, has_faults)


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


def _shape(columns: Sequence[str], kinds: Mapping[str, Kind]) -> tuple[int, ...]:
    return Product(tuple(kinds[column] for column in columns)).shape


def _rows(predicate: Predicate, columns: Sequence[str], kinds: Mapping[str, Kind]) -> Mask:
    """Return which combinations satisfy a condition, to be broadcast to all."""
    import numpy as np

    if isinstance(predicate, Within):
        shape = [1] * len(columns)
        place = columns.index(predicate.column)
        shape[place] = _shape([predicate.column], kinds)[0]
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
        own = _rows(part, columns, kinds)
        result = result & own if conjunction else result | own
    return result


def _compared_rows(predicate: Compared, columns: Sequence[str], kinds: Mapping[str, Kind]) -> Mask:
    """Return which combinations satisfy a comparison of two columns of whole numbers."""
    import numpy as np

    codes = []
    for name in (predicate.left, predicate.right):
        shape = [1] * len(columns)
        (shape[columns.index(name)],) = _shape([name], kinds)
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


def _intervals(predicate: Predicate) -> int:
    if isinstance(predicate, Compared):
        return 1
    if isinstance(predicate, Within):
        return len(predicate.intervals) + predicate.null
    return sum(map(_intervals, predicate.parts))
