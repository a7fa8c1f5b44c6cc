"""Declared histogram views: counts of rows in public bins.

A histogram counts every row in exactly one bin, so one row changes it by 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.codes import Interval, StepFunction
from dpnb.errors import RequestError, SchemaError, given, nearest
from dpnb.schema.columns import Category, Kind
from dpnb.schema.partition import Partition, declared
from dpnb.schema.predicates import EVERY
from dpnb.schema.schema import Schema
from dpnb.schema.types import Boolean
from dpnb.views.measures import Count
from dpnb.views.view import View

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
    """Queries measured instead of the bins themselves: B x for a public matrix of whole numbers.

    Answers are W B^+ y, with variance sigma^2 ||W B^+||^2 (docs/methods/dprovdb.md, theorem 15).

    Parameters
    ----------
    matrix : sequence of rows of int
        One column for each bin; the columns are linearly independent, so that every answer is
        unbiased.

    Raises
    ------
    RequestError
        For a matrix that is empty, has other than whole numbers, or has linearly dependent columns.

    Examples
    --------
    >>> import dpnb
    >>> dpnb.Strategy([[1, 1], [1, 0]]).sensitivity
    2
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
                "a strategy must be a matrix of whole numbers of moderate size",
                "Write Strategy([[1, 1], [1, -1]]).",
            )
        object.__setattr__(self, "matrix", rows)
        if np.linalg.matrix_rank(np.array(rows, dtype=np.float64)) < min(sizes):
            raise RequestError(
                "this strategy does not determine all bins",
                "Its columns must be linearly independent. Add rows, such as one for each bin.",
            )

    @property
    def sensitivity(self) -> int:
        """L2 sensitivity, rounded up: the largest norm of a column."""
        most = max(
            sum(entry * entry for entry in column) for column in zip(*self.matrix, strict=True)
        )
        return math.isqrt(most - 1) + 1

    def inverse(self) -> Values:
        """Return B^+.

        Returns
        -------
        numpy array, columns by rows of the matrix
            The pseudo-inverse.
        """
        import numpy as np

        return np.linalg.pinv(np.array(self.matrix, dtype=np.float64))


@dataclass(frozen=True)
class Histogram(View):
    """A declared view: counts over the joint bins of some columns, last column fastest.

    Its keys, in the order of the declaration, have a group for every row: the intervals between
    and outside the bins are bins, too, and so are the missing values, the last one.
    """

    name: str = ""
    strategy: Strategy | None = None

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return self._definition

    @cached_property
    def _definition(self) -> dict[str, Any]:
        axes = [[axis.column, _plain_bins(axis)] for axis in self.keys]
        matrix = None if self.strategy is None else [list(row) for row in self.strategy.matrix]
        return {**super().definition(), "histogram": axes, "strategy": matrix}

    def plain_keys(self) -> list[Any]:
        """Return the columns."""
        return [axis.column for axis in self.keys]

    def place(self, column: str) -> int:
        """Return the place of a column among the keys."""
        return self.plain_keys().index(column)

    @cached_property
    def inverse(self) -> Values | None:
        """The strategy's B^+, or None without a strategy."""
        return None if self.strategy is None else self.strategy.inverse()

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns whose bins the view counts."""
        return frozenset(axis.column for axis in self.keys)

    @property
    def size(self) -> int:
        """Number of bins."""
        return math.prod(axis.size for axis in self.keys)

    @property
    def norm(self) -> int:
        """L2 sensitivity in counts."""
        return super().norm * (1 if self.strategy is None else self.strategy.sensitivity)

    def measured(self, counts: Sequence[int]) -> list[int]:
        """Return the measured vector for exact counts, in lattice units."""
        import numpy as np

        if self.strategy is None:
            return self.lattice(counts)
        x = np.array(counts, dtype=object)
        return self.lattice(
            [int(np.dot(np.array(row, dtype=object), x)) for row in self.strategy.matrix]
        )


def axis(column: str, kind: Kind, bins: Sequence[Interval]) -> Partition:
    """Return the bins of a column, which ascend and cover its codes, and one of missing values."""
    pieces = ((low, high, number) for number, (low, high) in enumerate(bins))
    return Partition(column, StepFunction(pieces, len(bins)), kind)


def _plain_bins(axis: Partition) -> dict[str, list[Any]]:
    """Return the bins as plain data: each value, or the end of each bin."""
    pieces = axis.numbers.pieces
    first, last = pieces[0][0], pieces[-1][1]
    if all(low == high for low, high, _ in pieces):
        return {"each": [first, last]}
    return {"from": [first], "to": [high for _, high, _ in pieces]}


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
        Edges to use instead of the declared ones, right-closed; the first bin includes its left
        end. Values outside the edges get bins of their own. None means one bin for each value.

    Raises
    ------
    RequestError, SchemaError
        For unknown or repeated columns, a Real without bins, or more than 100,000 bins.
    """
    is_list = isinstance(columns, (list, tuple)) and all(isinstance(c, str) for c in columns)
    if not is_list or not columns or len(set(columns)) != len(columns):
        raise RequestError(
            "columns must be a list of different column names", "Write add_view(['age', 'sex'])."
        )
    if bins is not None and not isinstance(bins, Mapping):
        raise RequestError("bins must be a dict by column", "Write bins={'age': [17, 30, 90]}.")
    if name is not None and not _is_name(name):
        raise RequestError("the name of a view must be a string", "Give 1 to 100 characters.")
    if strategy is not None and not isinstance(strategy, Strategy):
        raise RequestError("strategy must be a dpnb.Strategy", "Write dpnb.Strategy(matrix).")
    for column in (*columns, *(bins or ())):
        # a view of this table has no columns that are looked up in other tables
        if column not in list(schema):
            raise RequestError(
                f"there is no declared column {given(column)}", nearest(str(column), list(schema))
            )
    axes = tuple(
        axis(column, schema[column], _bins(_rebinned(schema[column], column, bins or {})))
        for column in columns
    )
    view = Histogram(
        table, version, axes, EVERY, Count(None), schema=schema,
        name=name or ", ".join(columns), strategy=strategy,
    )  # fmt: skip
    if view.size > MOST_CELLS:
        raise RequestError(
            f"this view would have {view.size:,} bins, more than the {MOST_CELLS:,} that are allowed",
            "Take fewer columns, or give wider bins.",
        )
    if strategy is not None and {len(row) for row in strategy.matrix} != {view.size}:
        raise RequestError(f"the strategy must have {view.size} columns", "Give one for each bin.")
    return view


def _rebinned(kind: Kind, column: str, bins: Mapping[str, Sequence[Any] | None]) -> Kind:
    """Return a column's kind, with the other bins if there are some."""
    if column not in bins:
        return kind
    if isinstance(kind, Category | Boolean):
        raise SchemaError(f"a {kind.kind} cannot have bins", "Leave bins out for it.")
    declared, edges = kind.to_dict(), bins[column]
    if isinstance(edges, (str, Mapping)):
        raise SchemaError("bins must be a list of edges", "Write bins={'age': [17, 30, 90]}.")
    try:
        edges = None if edges is None else list(edges)
        return type(kind)(declared["low"], declared["high"], bins=edges)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(
            "bins must be rising edges within the bounds of the column",
            "Write bins={'age': [17, 30, 90]}.",
        ) from None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable()


def _bins(kind: Kind) -> list[Interval]:
    """Return intervals of codes that cover the domain: the bins, and what lies outside them."""
    own = declared("", {"": kind})
    if not own.size:
        raise SchemaError("a Real without bins has no histogram", "Declare bins=[...] for it.")
    if own.size > MOST_CELLS:
        raise RequestError(
            "this column has too many values to count each of them", "Give bins for it."
        )
    inside = [(low, high) for low, high, _ in own.numbers.pieces]
    return sorted([*inside, *kind.scale.complement(inside)])
