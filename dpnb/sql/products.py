"""Conditions on several columns, evaluated on all combinations of their public codes.

What DuckDB says of each combination is computed when the statement is read, in the connection without
data. The result is a condition in one spelling for each set of combinations
(``dpnb.sql.combinations``): two ways to write one condition are one request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from dpnb.codes import Code
from dpnb.schema.columns import Kind
from dpnb.schema.predicates import Compared, Predicate, Within
from dpnb.sql.combinations import rows_of, shape_of, union
from dpnb.sql.dataless import EvaluationError, TimeLimitError, time_limit
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
        with self._refusing(columns, node):
            found = _evaluated(text, kinds, self._at_once(node, kinds))
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
        with self._refusing(columns, node):
            found = _numbered(text, kinds, self._at_once(node, kinds))
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
        places = found.places.reshape(Product(kinds).shape)
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
        with self._refusing(columns, node):
            type_of(text, Product(kinds))

    def _read(self, node: Node) -> tuple[list[str], tuple[Kind, ...], str]:
        """Return the columns of an expression, their kinds, and its text with v0, v1, ... for them."""
        domains = self._domains
        columns = sorted(domains.columns(node))
        kinds = tuple(domains.kinds[column] for column in columns)
        for kind in kinds:
            domains.check(node, kind)
        names = {column: f"v{place}" for place, column in enumerate(columns)}
        return columns, kinds, domains.text(node, names)

    def _at_once(self, node: Node, kinds: Sequence[Kind]) -> int:
        return min(self._domains.at_once(node, kind) for kind in kinds)

    @contextmanager
    def _refusing(self, columns: Sequence[str], node: Node) -> Iterator[None]:
        """Refuse an expression that cannot be evaluated, has too many results, or takes too long."""
        names = " and ".join(columns)
        try:
            yield
        except EvaluationError:
            self._domains.refuse(
                f"DuckDB cannot compute this from {names}",
                "Check the types: CAST(x AS VARCHAR) makes a text, CAST(x AS DOUBLE) a number.",
                node,
            )
        except PiecesLimitError:
            self._domains.refuse(
                f"this has more than {MOST_OUTPUTS} different results over the values of {names}",
                "Make it coarser: FLOOR(x / 10) for x.",
                node,
            )
        except TimeLimitError:
            self._domains.refuse_slow(node)

    def merged(self, predicate: Predicate, node: Node) -> Predicate:
        """Return a condition in the one spelling for its rows, if its columns have few combinations."""
        import numpy as np

        columns, kinds = sorted(predicate.columns), self._domains.kinds
        if not is_small(columns, kinds):
            return predicate
        rows = np.broadcast_to(rows_of(predicate, columns, kinds), shape_of(columns, kinds))
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
    in_time = time_limit()
    for start in range(0, size if holds == "condition" else 0, at_once):
        in_time()
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
    in_time = time_limit()
    for start in range(0, size if holds in ("number", "condition") else 0, at_once):
        in_time()
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


def _intervals(predicate: Predicate) -> int:
    if isinstance(predicate, Compared):
        return 1
    if isinstance(predicate, Within):
        return len(predicate.intervals) + predicate.null
    return sum(map(_intervals, predicate.parts))
