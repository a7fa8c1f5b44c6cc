"""Count and sum of the rows that each candidate selects, from tables over attribute sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dpnb.engines.marginals import Marginal
from dpnb.explain.influence import Cells, Vector
from dpnb.explain.predicates import Attribute, Space


def cells_of(
    space: Space, marginal: Callable[[int], Marginal], count: Sequence[int], total: Sequence[int]
) -> Iterator[Cells]:
    """Yield the ``Cells`` of each attribute set, without predicates that select no row.

    Parameters
    ----------
    space : Space
    marginal : callable
        Returns the table of an attribute set, given its position.
    count, total : sequences of int, length m
        Rows and sum of each group.
    """
    for place, attributes in enumerate(space.sets):
        table = marginal(place)
        if space.connective == "and" and all(a.single for a in attributes):
            cells = _by_value(attributes, table)
        else:
            cells = _by_items(attributes, table, space.connective == "or", count, total)
        yield Cells(cells.index + space.starts[place], cells.count, cells.total)


def _by_value(attributes: Sequence[Attribute], table: Marginal) -> Cells:
    """Take each joint code as a predicate; leave out rows without a declared value."""
    codes = _unraveled(table.index, [a.cells + 1 for a in attributes])
    declared = np.all([code < a.cells for code, a in zip(codes, attributes, strict=True)], axis=0)
    index = np.zeros(int(declared.sum()), dtype=np.int64)
    for code, attribute in zip(codes, attributes, strict=True):
        index = index * attribute.cells + code[declared]
    return Cells(index, table.count[declared], table.total[declared])


def _unraveled(index: Vector, sizes: Sequence[int]) -> list[Vector]:
    codes = []
    for size in reversed(sizes):
        index, code = np.divmod(index, size)
        codes.append(code)
    return codes[::-1]


def _by_items(
    attributes: Sequence[Attribute],
    table: Marginal,
    either: bool,
    count: Sequence[int],
    total: Sequence[int],
) -> Cells:
    """Add up the codes of each item, axis by axis.

    A row satisfies an OR unless it satisfies no part of it. So for OR the axes hold the rows
    outside each item, and the result is the whole group minus these.
    """
    sizes = [a.cells + 1 for a in attributes]
    groups = len(count)
    columns = []
    for values, group_totals in ((table.count, count), (table.total, total)):
        dense = np.zeros((math.prod(sizes), groups), dtype=np.int64)
        dense[table.index] = values
        dense = dense.reshape(*sizes, groups)
        for axis, attribute in enumerate(attributes):
            dense = _over_items(dense, axis, attribute, outside=either)
        flat = dense.reshape(-1, groups)
        columns.append(np.asarray(group_totals, dtype=np.int64) - flat if either else flat)
    index = np.flatnonzero(columns[0].any(axis=1))
    return Cells(index, columns[0][index], columns[1][index])


def _over_items(
    dense: npt.NDArray[np.int64], axis: int, attribute: Attribute, *, outside: bool
) -> npt.NDArray[np.int64]:
    """Replace an axis of codes by an axis of items: the rows inside each, or outside."""
    sums = np.cumsum(dense, axis=axis)
    sums = np.concatenate([np.zeros_like(np.take(sums, [0], axis)), sums], axis=axis)
    first = [item.first for item in attribute.items]
    last = [item.last + 1 for item in attribute.items]
    inside = np.take(sums, last, axis) - np.take(sums, first, axis)
    return np.take(sums, [-1], axis) - inside if outside else inside
