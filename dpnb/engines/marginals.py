"""Counts and sums of a few groups over many sets of attributes, for explanations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.schema.partition import Partition
from dpnb.schema.predicates import Predicate
from dpnb.sql.values import Value
from dpnb.views.measures import Sum

Vector: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MarginalScan:
    """A scan of some groups of a table under ``where``, over sets of attributes.

    Parameters
    ----------
    keys : tuple of Partition
    groups : tuple of tuples of int
        The m groups, each by its group number in every key.
    where : Predicate
    value : Value or None
        Rows where it is missing are left out; None keeps every row.
    measure : Sum or None
        What to add up in addition to the count of rows.
    sets : tuple of tuples of Partition
        The attribute sets. A row in no group of an attribute has the number of its groups as code.
    """

    keys: tuple[Partition, ...]
    groups: tuple[tuple[int, ...], ...]
    where: Predicate
    value: Value | None
    measure: Sum | None
    sets: tuple[tuple[Partition, ...], ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the scan uses."""
        names = self.where.columns.union(key.column for key in self.partitions)
        for value in (self.value, None if self.measure is None else self.measure.value):
            names |= frozenset() if value is None else value.columns
        return names

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The keys and all attributes, each once."""
        return tuple(dict.fromkeys(itertools.chain(self.keys, *self.sets)))

    @property
    def declared(self) -> int:
        """Number of groups of all keys together."""
        return math.prod(key.size for key in self.keys)

    def codes(self, attributes: Sequence[Partition]) -> int:
        """Return the number of joint codes of an attribute set with the keys."""
        return math.prod(one.size + 1 for one in attributes) * self.declared

    def group_numbers(self) -> list[int]:
        """Return each group's number among all declared groups, the last key fastest."""
        numbers = []
        for group in self.groups:
            number = 0
            for one, key in zip(group, self.keys, strict=True):
                number = number * key.size + one
            numbers.append(number)
        return numbers


@dataclass(frozen=True, slots=True)
class Marginal:
    """The table of one attribute set: the joint codes that occur, with counts and sums by group.

    ``index``: int64 (a,), ascending, in row-major order over ``sizes + 1`` codes of each attribute.
    ``count``, ``total``: int64 (a, m).
    """

    index: Vector
    count: Vector
    total: Vector

    def __repr__(self) -> str:
        return "Marginal(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


class Marginals:
    """The tables of all attribute sets of a scan; its repr shows no values.

    Parameters
    ----------
    scan : MarginalScan
    place : int array, shape (n,)
        Attribute set of each entry, by its position in the scan.
    joint : int array, shape (n,)
        Joint code of each entry, its group last.
    count, total : int64 array, shape (n,)
    """

    __slots__ = ("_groups", "_parts", "_tables")

    def __init__(
        self,
        scan: MarginalScan,
        place: npt.NDArray[Any],
        joint: npt.NDArray[Any],
        count: Vector,
        total: Vector,
    ) -> None:
        numbers = scan.group_numbers()
        order = np.argsort(numbers)
        cell, number = np.divmod(joint.astype(np.int64), scan.declared)
        group = order[np.searchsorted(np.array(numbers)[order], number)]
        rows = np.lexsort((cell, place))
        self._groups = len(numbers)
        self._tables = cell[rows], group[rows], count[rows], total[rows]
        self._parts = np.searchsorted(place[rows], np.arange(len(scan.sets) + 1))

    def marginal(self, place: int) -> Marginal:
        """Return the table of the attribute set at position ``place``."""
        part = slice(self._parts[place], self._parts[place + 1])
        cell, group, count, total = (column[part] for column in self._tables)
        cells, rows = np.unique(cell, return_inverse=True)
        shape = (len(cells), self._groups)
        marginal = Marginal(cells, np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        marginal.count[rows, group] = count
        marginal.total[rows, group] = total
        return marginal

    def totals(self) -> tuple[list[int], list[int]]:
        """Return the row count and the sum of each group; the first set covers every row once."""
        first = self.marginal(0)
        return first.count.sum(axis=0).tolist(), first.total.sum(axis=0).tolist()

    def __repr__(self) -> str:
        return "Marginals(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")
