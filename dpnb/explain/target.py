"""The target of an explanation: one aggregate over weighted groups, and its sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, assert_never

from dpnb.errors import RequestError
from dpnb.explain.influence import Lattice, Mode, sensitivity, spread
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import And, Predicate, plain, simplify
from dpnb.schema.schema import Schema, Unit
from dpnb.sql.canonical import plain_value
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate, Query
from dpnb.views.measures import Sum, sum_of
from dpnb.views.view import unit_of


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an explanation: one aggregate over groups with weights.

    ``groups`` holds each group's bin number in every key. ``measure`` is None for COUNT.
    """

    table: str
    version: int
    keys: tuple[Partition, ...]
    where: Predicate
    aggregate: Aggregate
    groups: tuple[tuple[int, ...], ...]
    weights: tuple[Fraction, ...]
    measure: Sum | None
    schema: Schema = field(compare=False, repr=False)

    @classmethod
    def of(
        cls,
        query: Query,
        aggregate: Aggregate,
        version: int,
        groups: Sequence[Sequence[int]],
        weights: Sequence[Fraction],
    ) -> Target:
        """Build a target from one aggregate of a query; its FILTER becomes part of ``where``.

        Raises
        ------
        RequestError
            For counts of distinct ids.
        """
        where = simplify(And((query.where, aggregate.filter)), query.schema)
        measure = None
        match aggregate.function:
            case Function.COUNT:
                pass
            case Function.SUM | Function.AVG:
                centred = aggregate.function.is_mean
                measure = sum_of(aggregate.argument, query.schema, where, centred=centred)
            case Function.UNITS | Function.DISTINCT | Function.CELLS:
                raise RequestError(
                    "a count of different ids or values cannot be explained",
                    "Explain COUNT(*), a SUM or an AVG.",
                )
            case _:
                assert_never(aggregate.function)
        # sorted, so that the order in which the groups were named does not matter
        terms = sorted(zip(map(tuple, groups), weights, strict=True))
        return cls(
            query.table,
            version,
            tuple(key.partition for key in query.keys),
            where,
            aggregate,
            tuple(group for group, _ in terms),
            tuple(weight for _, weight in terms),
            measure,
            query.schema,
        )

    @property
    def unit(self) -> Unit | None:
        """The privacy unit, if it is more than a row."""
        return self.schema.unit

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """Bounds of one row's value in ticks."""
        if self.measure is None:
            return Fraction(1), Fraction(1)
        shift = self.measure.shift / self.measure.step
        return self.measure.least + shift, self.measure.greatest + shift

    @property
    def step(self) -> Fraction:
        """Units of the influence in one tick: rows, or units of the value (AVG: times rows)."""
        return Fraction(1) if self.measure is None else self.measure.step

    @property
    def largest_per_row(self) -> float:
        """The largest influence of any predicate, for each row of the smallest group.

        docs/methods/dpxplain.md, bound 16.
        """
        largest = sensitivity(self.aggregate.function, self.weights, *self.bounds, "tight")
        return float(largest * self.step)

    def lattice(self, mode: Mode) -> Lattice:
        """Return the grid of the influences, with their sensitivity and spread, in ticks.

        All rows of one id may come or go, each with the largest change that one row can make.
        """
        function, rows = self.aggregate.function, 1 if self.unit is None else self.unit.max_rows
        largest = sensitivity(function, self.weights, *self.bounds, mode)
        widest = spread(function, self.weights, *self.bounds, mode)
        return Lattice.of(
            rows * largest, rows * widest, len(self.weights) if function.is_mean else 1
        )

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {
            "table": self.table,
            "version": self.version,
            "unit": unit_of(self.table, self.unit),
            "keys": [key.plain() for key in self.keys],
            "where": plain(self.where),
            "function": self.aggregate.function,
            "value": plain_value(self.aggregate.value),
            "groups": [list(group) for group in self.groups],
            "weights": [str(weight) for weight in self.weights],
        }
