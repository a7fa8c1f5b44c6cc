"""Views: measured vectors with their complete public definition."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, assert_never

from dpnb.privacy.calibrate import NoiseDistribution, distribution
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.schema.partition import Label, Partition
from dpnb.schema.persons import kept_rows
from dpnb.schema.predicates import EVERY, NONE, And, Predicate, Within, can_hold, plain, simplify
from dpnb.schema.schema import Schema, Unit, groups_counted
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate, Query
from dpnb.sql.values import Column, present_in
from dpnb.views.measures import Count, Distinct, Measure, Scan, Units, sum_of

LATTICE_BITS = 22
"""The sensitivity of every view is at least 2**21 lattice units in the norm of its noise."""


@dataclass(frozen=True)
class View:
    """One measure over the declared groups of ``keys``, restricted to ``where``.

    ``keys`` are sorted, so that GROUP BY a, b and GROUP BY b, a share a view. What their groups are
    called is not part of it. Views that differ only in ``line`` have separate noise: see ``dpnb.decide``.

    A privacy unit of many rows has at most ``unit.max_rows`` of them in the table, each in at most
    one group. All of them may lie in one group, so the unit changes the vector by ``max_rows``
    times as much as one row does, in any norm. ``schema`` has the public facts of its table.
    """

    table: str
    version: int
    keys: tuple[Partition, ...]
    where: Predicate
    measure: Measure
    line: str = field(default="", kw_only=True)
    schema: Schema = field(kw_only=True, compare=False, repr=False)

    @property
    def unit(self) -> Unit | None:
        """The privacy unit; None for one row."""
        return self.schema.unit

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        line_entry = {"line": self.line} if self.line else {}
        return {
            **line_entry,
            "table": self.table,
            "version": self.version,
            "unit": unit_of(self.table, self.unit),
            "keys": self.plain_keys(),
            "where": plain(self.where),
            "measure": self.measure.definition(),
        }

    def plain_keys(self) -> list[Any]:
        """Return the keys in the public definition."""
        return [key.plain() for key in self.keys]

    @cached_property
    def id(self) -> str:
        """Identifier; equal definitions have equal ids."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def norm(self) -> int:
        """L1 sensitivity in ticks; no other norm is larger."""
        if isinstance(self.measure, Units):
            return self.measure.groups
        if isinstance(self.measure, Distinct) and self.measure.most is not None:
            return self.measure.most
        return self.measure.sensitivity * (1 if self.unit is None else self.unit.max_rows)

    @property
    def scale(self) -> int:
        """Lattice units in one tick: a power of two, from the public L2 sensitivity alone."""
        reach = self.norm
        if isinstance(self.measure, Units):
            reach = math.isqrt(self.measure.groups - 1) + 1
        return 1 << max(0, LATTICE_BITS - (reach - 1).bit_length())

    def lattice_sensitivity(self, privacy: PrivacyDefinition) -> int:
        """Return the sensitivity in lattice units: L1 for Laplace noise, else L2.

        The norms differ only for counts of ids: an id that counts in g groups changes g of them by
        1, which is g in L1 and sqrt(g) in L2, rounded up here.
        """
        if privacy.noise == "laplace" or not isinstance(self.measure, Units):
            return self.norm * self.scale
        return math.isqrt(self.measure.groups * self.scale**2 - 1) + 1

    def sensitivity(self, privacy: PrivacyDefinition) -> float:
        """Return the sensitivity in units of the measure."""
        return float(self.lattice_sensitivity(privacy) * self.granularity)

    def distribution(self, level: Fraction, privacy: PrivacyDefinition) -> NoiseDistribution:
        """Return the noise distribution of the view at a level, in units of the measure.

        The lattice adds up to 128 squared units to a Gaussian's variance (``path``): with 2**21
        units in the sensitivity, this is less than 3e-11 rho of its standard deviation.
        """
        return distribution(level, self.sensitivity(privacy), privacy)

    @property
    def spread(self) -> float:
        """Largest distance of one row's value from the origin of the sums; 1 for counts."""
        if isinstance(self.measure, Units):
            return 1.0
        return float(self.measure.sensitivity * self.measure.step)

    @property
    def granularity(self) -> Fraction:
        """Size of one lattice unit in units of the measure."""
        return self.measure.step / self.scale

    def lattice(self, ticks: Sequence[int]) -> list[int]:
        """Convert an exact vector to lattice units."""
        scale = self.scale
        return [tick * scale for tick in ticks]

    def values(self, vector: Sequence[int]) -> list[float]:
        """Convert a released lattice vector to units of the measure."""
        numerator, denominator = self.granularity.as_integer_ratio()
        return [entry * numerator / denominator for entry in vector]


def unit_of(table: str, unit: Unit | None) -> list[Any] | None:
    """Return the privacy unit of a table as plain data: its ids, their rows, and their kept rows.

    The kept rows are named only if they are those of another table: see ``dpnb.schema.persons``.
    """
    kept = kept_rows(table)
    if unit is None:
        return None
    return [unit.column, unit.max_rows, *([] if kept is None else [kept])]


def view_keys(query: Query) -> tuple[Partition, ...]:
    """Return the keys of the query's views: what it groups by, sorted."""
    return tuple(sorted((key.partition for key in query.keys), key=lambda key: key.order))


def views_of(aggregate: Aggregate, query: Query, version: int) -> dict[str, View]:
    """Return the views that answer one aggregate: ``sum`` and ``count`` as needed.

    AVG(x) uses the centred SUM(x) and COUNT(x), both without missing values. CELLS of x uses the
    counts of GROUP BY x.
    """
    where = simplify(And((query.where, aggregate.filter)), query.schema)
    keys = view_keys(query.finer(aggregate))

    def view(measure: Measure) -> View:
        return View(query.table, version, keys, where, measure, schema=query.schema)

    value, schema = aggregate.value, query.schema
    count = Count(None if value is None else present_in(value, schema))
    match aggregate.function:
        case Function.COUNT:
            return {"count": view(count)}
        case Function.CELLS:
            return {"count": view(Count(None))}
        case Function.DISTINCT:
            if not isinstance(value, Column):
                raise TypeError("different values are those of a column")
            return {"count": view(_distinct(value, keys, where, schema))}
        case Function.UNITS:
            return {"count": view(_units(keys, where, schema))}
        case Function.SUM:
            return {"sum": view(sum_of(aggregate.argument, schema, where, centred=False))}
        case Function.AVG:
            total = sum_of(aggregate.argument, schema, where, centred=True)
            return {"sum": view(total), "count": view(count)}
        case _:
            assert_never(aggregate.function)


def _groups(keys: Sequence[Partition], where: Predicate, schema: Schema) -> int:
    """Return how many groups a condition can match, from public facts; at least 1."""
    return max(1, len(_matched([(key, range(key.size)) for key in keys], where, schema)))


def _distinct(
    value: Column, keys: Sequence[Partition], where: Predicate, schema: Schema
) -> Distinct:
    """Return the measure that counts the different values in each group that ``where`` can match."""
    scale, rows = schema[value.name].scale, 1 if schema.unit is None else schema.unit.max_rows
    if not scale.integral:
        return Distinct(value)
    most = (int(scale.high - scale.low) + 1) * _groups(keys, where, schema)
    return Distinct(value, most if most < rows else None)


def _units(keys: Sequence[Partition], where: Predicate, schema: Schema) -> Units:
    """Return the measure that counts the different ids in each group that ``where`` can match."""
    if schema.unit is None:
        raise TypeError("only a table with a privacy unit has ids")
    groups = _groups(keys, where, schema)
    counted = groups_counted(schema.unit, groups)
    return Units(counted, counted < min(schema.unit.max_rows, groups))


def ids_counted(views: Iterable[View]) -> list[Any]:
    """Return how often an id counts in those of some views that count ids, as plain data.

    It is part of a request's meaning: the owner may count ids in more groups later, or in fewer.
    """
    measures = (view.measure for view in views)
    return [measure.definition() for measure in measures if isinstance(measure, Units)]


def counted_note(definitions: Iterable[Mapping[str, Any]], *, alone: bool) -> str:
    """Return a sentence if an id may be in more groups than it counts in; else ''.

    Parameters
    ----------
    definitions : iterable of mapping
        The public definitions of a statement's views.
    alone : bool
        Whether all results of the statement are counts of ids.
    """
    for definition in definitions:
        kind, _, *more = definition["measure"]
        if kind != "units" or not more[1]:
            continue
        most = f"{more[0]:,} group{'' if more[0] == 1 else 's'}"
        # an id's groups are picked whatever the conditions: see Scan
        early = "" if definition["where"] == plain(EVERY) else ", picked before any condition"
        who = "Each" if alone else f"In COUNT(DISTINCT {definition['unit'][0]}), each"
        return (
            f"{who} person counts in at most {most}{early}; the numbers are too low where people "
            "are in more."
        )
    return ""


def scan_of(where: Predicate, views: Mapping[str, View]) -> Scan:
    """Return one scan of the rows that satisfy ``where``, with the measures of the views.

    The measures are in the order of ``views``.
    """
    (keys,) = {view.keys for view in views.values()}
    measures = tuple(
        (view.measure, EVERY if view.where == where else view.where) for view in views.values()
    )
    return Scan(keys, where, measures)


def group_numbers(query: Query) -> list[tuple[int, ...]]:
    """Return the place of each group in every key; the last key changes fastest."""
    return list(itertools.product(*(range(len(key.labels)) for key in query.keys)))


def group_labels(query: Query) -> tuple[tuple[Label, ...], ...]:
    """Return the labels of each group, in the order of :func:`group_numbers`."""
    return tuple(itertools.product(*(key.labels for key in query.keys)))


def asked_groups(query: Query) -> list[int]:
    """Return the indices of the groups that WHERE can match, from public facts."""
    return list(
        _matched([(key.partition, key.order) for key in query.keys], query.where, query.schema)
    )


def _matched(
    keys: Sequence[tuple[Partition, Sequence[int]]], where: Predicate, schema: Schema
) -> Sequence[int]:
    """Return the indices of the groups, each key's in an order, that a condition can match."""
    columns = [key.column for key, _ in keys]
    stride = math.prod(len(order) for _, order in keys)
    twice = len(set(columns)) < len(columns)
    if where.columns.isdisjoint(columns) and not twice:
        return range(stride)
    # a group of one key that no row can be in leaves out many groups at once
    steps: list[list[tuple[int, Within]]] = []
    for key, order in keys:
        stride //= len(order)
        groups = ((i * stride, key.within(number)) for i, number in enumerate(order))
        steps.append([(step, one) for step, one in groups if can_hold(where, {key.column: one})])
    return [
        sum(step for step, _ in group)
        for group in itertools.product(*steps)
        if _meet(where, [one for _, one in group], schema, twice=twice)
    ]


def _meet(where: Predicate, group: Sequence[Within], schema: Schema, *, twice: bool) -> bool:
    """Return whether a row can be in the groups of all keys and satisfy a condition.

    ``twice`` says that several keys are of one column.
    """
    if not twice:
        return can_hold(where, {one.column: one for one in group})
    both = simplify(And(tuple(group)), schema)
    parts = both.parts if isinstance(both, And) else (both,)
    return both != NONE and can_hold(
        where, {part.column: part for part in parts if isinstance(part, Within)}
    )


def transposition(query: Query) -> list[int]:
    """Return, for each group in the query's order, its position in the views' order."""
    strides: dict[Partition, int] = {}
    stride = 1
    for partition in reversed(view_keys(query)):
        strides[partition] = stride
        stride *= partition.size
    cells = [0]
    for key in query.keys:
        step = strides[key.partition]
        cells = [cell + number * step for cell in cells for number in key.order]
    return cells
