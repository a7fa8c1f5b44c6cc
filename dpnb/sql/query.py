"""The meaning of one statement: immutable, checked against the schema, without any data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from dpnb.schema.partition import Label, Partition, declared, labels
from dpnb.schema.predicates import EVERY, Predicate
from dpnb.sql.formulas import Leaf, Quantile, Statistic, Variance, linear, nodes, statistics_of
from dpnb.sql.functions import Function
from dpnb.sql.shown import PLAIN, OuterPart

if TYPE_CHECKING:
    from dpnb.schema.columns import Kind
    from dpnb.schema.schema import Schema
    from dpnb.sql.formulas import Formula
    from dpnb.sql.functions import Measured
    from dpnb.sql.values import Value

MAX_CELLS = 10_000
"""Limit on the groups of a statement, and on the bins of a quantile in all groups together."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate.

    ``value`` is its argument, None for ``COUNT(*)``. ``filter`` is the predicate of FILTER (WHERE
    ...). ``named`` says whether the statement gives its alias.
    """

    function: Measured
    value: Value | None
    filter: Predicate
    alias: str
    named: bool = field(default=False, compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of ``value``, including CASE conditions but not ``filter``."""
        return frozenset() if self.value is None else self.value.columns

    @property
    def argument(self) -> Value:
        """The argument of an aggregate that always has one: SUM, AVG, DISTINCT, CELLS."""
        if self.value is None:
            raise TypeError(f"{self.function} of nothing")
        return self.value

    def means(self, other: Aggregate) -> bool:
        """Return whether two aggregates are the same apart from their names."""
        meaning = (self.function, self.value, self.filter)
        return meaning == (other.function, other.value, other.filter)


@dataclass(frozen=True, slots=True)
class Derived:
    """One column of the SELECT list that is computed from aggregates.

    ``formula`` refers to its aggregates by their position in ``leaves``, which are all different;
    ``place`` is the column's position among the aggregates and derived columns of the statement.
    """

    formula: Formula
    leaves: tuple[Aggregate, ...]
    alias: str
    place: int

    def bases(self) -> tuple[Aggregate, ...]:
        """Return the aggregates whose confidence intervals the column is computed from.

        A variance uses the confidence interval of its mean, not of its sum of squares; a quantile
        uses none.
        """
        places: dict[int, None] = {}
        for node in nodes(self.formula):
            if isinstance(node, Leaf):
                places[node.place] = None
            elif isinstance(node, Variance):
                places[node.mean] = None
        return tuple(self.leaves[place] for place in places)

    def statistics(self) -> tuple[tuple[Statistic, tuple[Aggregate, ...]], ...]:
        """Return each different statistic with its aggregates, to which its positions refer."""
        pairs: list[tuple[Statistic, tuple[Aggregate, ...]]] = []
        for statistic in statistics_of(self.formula):
            if isinstance(statistic, Quantile):
                pairs.append((replace(statistic, cells=0), (self.leaves[statistic.cells],)))
            else:
                leaves = self.leaves[statistic.mean], self.leaves[statistic.square]
                pairs.append((replace(statistic, mean=0, square=1), leaves))
        return tuple(pairs)

    def weights(self) -> tuple[tuple[Aggregate, Fraction], ...] | None:
        """Return the aggregates with their weights if the column is a weighted sum, else None."""
        weighted_sum = linear(self.formula)
        if weighted_sum is None:
            return None
        return tuple((self.leaves[place], weight) for place, weight in weighted_sum[1].items())

    @property
    def claims(self) -> int:
        """Number of confidence intervals per group that the column's own is computed from."""
        return len(self.bases()) + len(statistics_of(self.formula))


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are grouped by: groups of a column, and how the statement shows them.

    Parameters
    ----------
    partition : Partition
    alias : str
        The name of the column in the result.
    labels : tuple of Label
        What the groups are called, in the order of the result.
    order : tuple of int
        The number of the group that each label belongs to.
    text : str
        What the statement groups by.
    """

    partition: Partition
    alias: str
    labels: tuple[Label, ...] = field(repr=False)
    order: tuple[int, ...] = field(repr=False)
    text: str

    @classmethod
    def of(cls, column: str, alias: str, kinds: Mapping[str, Kind]) -> Key:
        """Return the key of a column's own groups."""
        partition = declared(column, kinds)
        order = tuple(range(partition.size))
        return cls(partition, alias, labels(kinds[column]), order, column)

    @property
    def names(self) -> tuple[Label, ...]:
        """The labels in the order of the numbers of the groups."""
        places = sorted(range(len(self.order)), key=self.order.__getitem__)
        return tuple(map(self.labels.__getitem__, places))


@dataclass(frozen=True, slots=True)
class Compare:
    """One HAVING condition: an aggregate compared with a number.

    The number is a constant, or a named number that differs between groups.
    """

    aggregate: Aggregate
    operator: str
    value: Fraction | str


@dataclass(frozen=True, slots=True)
class Junction:
    """HAVING conditions combined by AND, OR or NOT."""

    operator: Literal["AND", "OR", "NOT"]
    parts: tuple[Having, ...]


Having: TypeAlias = Compare | Junction


@dataclass(frozen=True, slots=True)
class Promise:
    """The epsilon, and the delta if there is one, that a statement asks for itself."""

    epsilon: Fraction
    delta: Fraction | None


@dataclass(frozen=True, slots=True)
class Query:
    """One validated statement over one table, with the table's public schema.

    ``aggregates`` and ``derived`` are what it releases. ``shown`` acts on released rows and costs
    nothing. ``having`` is the condition of a decision. ``promise`` is the
    privacy that the statement asks for itself, which is no part of its meaning. ``undeclared`` has
    the columns whose undeclared values count for the letters of their label, with it.
    """

    table: str
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    where: Predicate = EVERY
    having: Having | None = None
    shown: OuterPart = PLAIN
    derived: tuple[Derived, ...] = ()
    promise: Promise | None = field(default=None, compare=False)
    undeclared: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    schema: Schema = field(kw_only=True, compare=False, repr=False)

    @property
    def size(self) -> int:
        """Number of declared groups."""
        return math.prod(key.partition.size for key in self.keys)

    @property
    def outputs(self) -> tuple[Aggregate | Derived, ...]:
        """Aggregates and derived columns, in the order in which the statement names them."""
        columns: list[Aggregate | Derived] = list(self.aggregates)
        for column in self.derived:
            columns.insert(column.place, column)
        return tuple(columns)

    @property
    def claims(self) -> int:
        """Number of simultaneous confidence intervals per group, for aggregates and statistics."""
        measurements: list[Aggregate] = []
        for aggregate in self.aggregates:
            # what is written twice is one number
            if not any(map(aggregate.means, measurements)):
                measurements.append(aggregate)
        statistics: list[tuple[Statistic, tuple[Aggregate, ...]]] = []
        for column in self.derived:
            measurements += [
                leaf for leaf in column.bases() if not any(map(leaf.means, measurements))
            ]
            statistics += [pair for pair in column.statistics() if not _among(pair, statistics)]
        return len(measurements) + len(statistics)

    def sharers(self, aggregate: Aggregate) -> int:
        """Return the most confidence intervals in one derived column that uses an aggregate."""
        resting = (
            column.claims for column in self.derived if any(map(aggregate.means, column.leaves))
        )
        return max(resting, default=1)

    def finer(self, aggregate: Aggregate) -> Query:
        """Return the query with the groups in which an aggregate is counted.

        For CELLS these are the bins of its column within each group, the bin changing fastest.
        """
        if aggregate.function is not Function.CELLS:
            return self
        (column,) = aggregate.columns
        return replace(self, keys=(*self.keys, Key.of(column, column, self.schema)))

    @property
    def measured(self) -> tuple[Aggregate, ...]:
        """All measured aggregates: those of the SELECT list, then those of derived columns only."""
        measurements = list(self.aggregates)
        for column in self.derived:
            measurements += [
                leaf
                for leaf in column.leaves
                if not any(leaf.means(other) for other in measurements)
            ]
        return tuple(measurements)


@dataclass(frozen=True, slots=True)
class Union:
    """Queries over one table, whose lines stand one below the other.

    Attributes
    ----------
    branches : tuple of Query
        All with the same columns.
    shown : OuterPart
        Orders and limits the lines of all together.
    mark : str or None
        What stands in place of a key that a set of GROUP BY leaves out; None without sets.
    unshown : int
        How many of the last columns only ``shown`` needs.
    """

    branches: tuple[Query, ...]
    shown: OuterPart
    mark: str | None = None
    unshown: int = 0


def _among(
    pair: tuple[Statistic, tuple[Aggregate, ...]],
    others: Sequence[tuple[Statistic, tuple[Aggregate, ...]]],
) -> bool:
    return any(
        pair[0] == other and all(a.means(b) for a, b in zip(pair[1], leaves, strict=True))
        for other, leaves in others
    )
