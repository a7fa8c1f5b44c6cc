"""Views: measure vectors with their whole public definition."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.engines.base import Count, Measure, sum_of
from dpnb.kinds import cell_count
from dpnb.schema import Schema
from dpnb.sql.canonical import plain, simplify
from dpnb.sql.query import Aggregate, And, Predicate, Query

LATTICE_BITS = 22
"""The sensitivity of every view is at least 2**21 lattice units, so the lattice is never felt."""


@dataclass(frozen=True, slots=True)
class View:
    """One measure over the declared cells of ``keys``, restricted to ``where``.

    ``keys`` are sorted, so that GROUP BY a, b and GROUP BY b, a share a view.
    """

    table: str
    version: int
    keys: tuple[str, ...]
    where: Predicate
    measure: Measure

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {
            "table": self.table,
            "version": self.version,
            "unit": None,
            "keys": list(self.keys),
            "where": plain(self.where),
            "measure": self.measure.definition(),
        }

    @property
    def id(self) -> str:
        """A name that is equal for equal definitions."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def norm(self) -> int:
        """L1 and L2 sensitivity in ticks: one row is in one cell at most."""
        return self.measure.sensitivity

    @property
    def scale(self) -> int:
        """Lattice units in one tick: a power of two, from the public sensitivity alone."""
        return 1 << max(0, LATTICE_BITS - (self.norm - 1).bit_length())

    @property
    def sensitivity(self) -> int:
        """Sensitivity in lattice units."""
        return self.norm * self.scale

    @property
    def reach(self) -> float:
        """Sensitivity in units of the measure."""
        return float(self.norm * self.measure.step)

    @property
    def granularity(self) -> Fraction:
        """Units of the measure in one lattice unit."""
        return self.measure.step / self.scale

    def lattice(self, ticks: Sequence[int]) -> list[int]:
        """Return an exact vector in lattice units."""
        return [value * self.scale for value in ticks]

    def values(self, vector: Sequence[int]) -> list[float]:
        """Return a released lattice vector in units of the measure."""
        numerator, denominator = self.granularity.as_integer_ratio()
        return [value * numerator / denominator for value in vector]


def view_keys(query: Query) -> tuple[str, ...]:
    """Return the keys of the query's views: its GROUP BY columns, sorted."""
    return tuple(sorted(key.column for key in query.keys))


def views_of(aggregate: Aggregate, query: Query, schema: Schema, version: int) -> dict[str, View]:
    """Return the views that answer one aggregate: ``sum`` and ``count`` as needed.

    AVG(x) uses the centred SUM(x) and COUNT(x), where missing values are left out of both.
    """
    where = simplify(And((query.where, aggregate.filter)), schema)
    keys = view_keys(query)

    def view(measure: Measure) -> View:
        return View(query.table, version, keys, where, measure)

    if aggregate.function == "COUNT" or aggregate.value is None:
        return {"count": view(Count(aggregate.value))}
    total = sum_of(aggregate.value, schema, centred=aggregate.function == "AVG")
    if aggregate.function == "SUM":
        return {"sum": view(total)}
    return {"sum": view(total), "count": view(Count(aggregate.value))}


def transposition(query: Query, schema: Schema) -> list[int]:
    """Return, for each group in the query's order, its cell in the views' order."""
    sizes = {key.column: cell_count(schema[key.column]) for key in query.keys}
    strides: dict[str, int] = {}
    stride = 1
    for name in reversed(view_keys(query)):
        strides[name] = stride
        stride *= sizes[name]
    cells = [0]
    for key in query.keys:
        step = strides[key.column]
        cells = [cell + i * step for cell in cells for i in range(sizes[key.column])]
    return cells
