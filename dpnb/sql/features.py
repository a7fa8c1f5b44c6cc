"""Tables of persons: one row for each id, whose columns are functions of the id's kept rows.

A feature depends on which rows of an id are kept, and not on their order in the source or on other
people's rows (docs/methods/expressions.md, theorem 16). Conditions on features (HAVING) are
conditions on the rows of the table of persons, so they are no part of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from dpnb.schema import predicates
from dpnb.schema.columns import Category, Kind, Real
from dpnb.schema.joins import PRESENT
from dpnb.schema.persons import is_persons, name_of, real_kind, sum_bounds, whole_kind
from dpnb.schema.predicates import EVERY, And, Predicate, Within, plain, simplify
from dpnb.schema.schema import MOST_OF_ONE, Schema, Unit
from dpnb.schema.table import Table
from dpnb.schema.types import Boolean
from dpnb.sql.canonical import plain_value, read_value
from dpnb.sql.computed import ComputedKey
from dpnb.sql.narrowing import bounds_within
from dpnb.sql.values import Column, Value, is_complete

Order: TypeAlias = tuple[str, bool, bool]
"""A column, whether the largest value comes first, and whether a missing one does."""


class Per(StrEnum):
    """What a feature computes from the kept rows of an id.

    ``FIRST`` is the value in the first row of an order, and ``ANY`` that in the first row where it
    is there; the secret order of the id's rows breaks ties. ``DISTINCT`` counts different values.
    ``EVERY`` and ``SOME`` are BOOL_AND and BOOL_OR, of values that are 1 or 0. ``MODE`` is the value
    that most rows have, the least of several.
    """

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    EVERY = "bool_and"
    SOME = "bool_or"
    MEDIAN = "median"
    MODE = "mode"
    DISTINCT = "distinct"
    FIRST = "first"
    ANY = "any_value"


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of a table of persons, over the kept rows of an id that satisfy ``filter``.

    ``value`` is None for ``COUNT(*)``. ``order`` is that of ``FIRST`` and ``ANY``.
    """

    per: Per
    value: Value | None = None
    filter: Predicate = EVERY
    order: tuple[Order, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the rows that the feature reads."""
        names = self.filter.columns | {column for column, *_ in self.order}
        return names if self.value is None else names | self.value.columns

    def plain(self) -> list[Any]:
        """Return the feature as plain data (JSON)."""
        entries = [str(self.per), plain_value(self.value), plain(self.filter)]
        return [*entries, [list(term) for term in self.order]] if self.order else entries

    @classmethod
    def read(cls, data: Sequence[Any]) -> Feature:
        """Return a feature from the data of :meth:`plain`."""
        per, value, condition, *order = data
        terms = tuple(tuple(term) for term in (order[0] if order else ()))
        return cls(Per(per), read_value(value), predicates.read(condition), terms)

    @property
    def name(self) -> str:
        """Name of the column; equal features have equal names.

        Examples
        --------
        >>> Feature(Per.COUNT).name, Feature(Per.SUM, Column("amount")).name
        ('count(*)', 'sum(amount)')
        """
        inside = "*" if self.value is None else _text(plain_value(self.value))
        inside += "".join(
            f" by {column}{' desc' * down}{' nulls first' * first}"
            for column, down, first in self.order
        )
        condition = "" if self.filter == EVERY else f" where {_text(plain(self.filter))}"
        return f"{self.per}({inside}){condition}"

    @property
    def is_one_row(self) -> bool:
        """Whether its value is that of a single row."""
        return self.per in (Per.FIRST, Per.ANY, Per.MODE)

    def counted(self, schema: Schema) -> Predicate:
        """Return the condition on the rows that count: with ``ANY``, those with a value."""
        if self.per is not Per.ANY:
            return self.filter
        names = {name for name, *_ in self.order}
        names |= frozenset() if self.value is None else self.value.columns
        needed = sorted(names - set(schema.complete))
        return simplify(And((self.filter, *(_there(name, schema) for name in needed))), schema)

    def complete(self, schema: Schema) -> bool:
        """Return whether each id with a row has a value."""
        if self.per in (Per.COUNT, Per.DISTINCT):
            return True
        if self.counted(schema) != EVERY:
            return False
        return self.value is not None and is_complete(self.value, schema)

    def kind(self, schema: Schema, most: int, where: Predicate = EVERY) -> Kind | None:
        """Return the bounds of the column, where an id has at most ``most`` rows, all with ``where``.

        None if the bounds are too large.
        """
        every = self.filter == EVERY and (self.value is None or is_complete(self.value, schema))
        if self.per is Per.COUNT:
            return whole_kind(1 if every else 0, most)
        if self.value is None:
            raise TypeError(f"{self.per} of nothing")
        own = schema[self.value.name] if isinstance(self.value, Column) else None
        if self.per is Per.DISTINCT and own is not None:
            values = most if isinstance(own, Real) else int(own.scale.high - own.scale.low) + 1
            return whole_kind(1 if every else 0, min(most, values))
        if own is not None and (self.is_one_row or self.per in (Per.MIN, Per.MAX)):
            return own
        if self.per in (Per.EVERY, Per.SOME):
            return Boolean()
        bounds = bounds_within(self.value, schema, And((where, self.filter)))
        low, high, integral = bounds.low, bounds.high, bounds.integral
        if self.per is Per.SUM:
            low, high = sum_bounds(low, high, most, every=every)
        if integral and self.per not in (Per.AVG, Per.MEDIAN):
            return whole_kind(math.floor(low), math.ceil(high))
        return real_kind(low, high)


def _text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data, sort_keys=True, ensure_ascii=False)


def _there(column: str, schema: Schema) -> Predicate:
    """Return the condition that a column has a value."""
    scale = schema[column].scale
    return Within(column, ((scale.low, scale.high),))


@dataclass(frozen=True, slots=True)
class Persons:
    """A table with one row for each id, or each id and key, that has a kept row with ``where``."""

    base: Table
    where: Predicate
    keys: tuple[str, ...]
    computed: tuple[ComputedKey, ...]
    features: tuple[Feature, ...]

    @classmethod
    def of(
        cls,
        base: Table,
        where: Predicate,
        keys: Iterable[str | ComputedKey],
        features: Iterable[Feature],
    ) -> Persons:
        """Return the table in its one form: columns sorted, each once, and the number of rows."""
        by_name = {feature.name: feature for feature in (Feature(Per.COUNT), *features)}
        keys = set(keys)
        computed = [key for key in keys if isinstance(key, ComputedKey)]
        return cls(
            base,
            where,
            tuple(sorted(key for key in keys if isinstance(key, str))),
            tuple(sorted(computed, key=lambda key: key.name)),
            tuple(by_name[name] for name in sorted(by_name)),
        )

    @property
    def by(self) -> Unit:
        """The privacy unit of the base table."""
        unit = self.base.unit
        if unit is None:
            raise TypeError("only a table with ids has persons")
        return unit

    def definition(self) -> dict[str, Any]:
        """Return the whole definition as plain data."""
        name = self.base.name
        return {
            "of": json.loads(name) if is_persons(name) else name,
            "by": self.by.column,
            "kept": self.by.max_rows,
            "keys": [*self.keys, *(key.plain() for key in self.computed)],
            "where": plain(self.where),
            "features": [feature.plain() for feature in self.features],
        }

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the base table's rows that the table depends on."""
        names = self.where.columns | {*self.keys, *(key.column for key in self.computed)}
        return names.union(*(feature.columns for feature in self.features))

    def feature_kinds(self) -> list[Kind | None]:
        """Return the kind of each feature, None where its bounds are too large."""
        most = self.by.max_rows
        return [feature.kind(self.base.schema, most, self.where) for feature in self.features]

    def table(self) -> Table:
        """Return the table, without rows of its own.

        Raises
        ------
        ValueError
            If the bounds of a column are too large.
        """
        base, unit = self.base.schema, self.by
        kinds = {key: base[key] for key in self.keys}
        kinds |= {key.name: key.kind for key in self.computed}
        for feature, kind in zip(self.features, self.feature_kinds(), strict=True):
            if kind is None:
                raise ValueError("the bounds of a column are too large")
            kinds[feature.name] = kind
        complete = [f.name for f in self.features if f.complete(base)]
        complete += [key for key in self.keys if key in base.complete]
        complete += [key.name for key in self.computed if key.is_complete(base, self.where)]
        rows = 1
        for key in self.keys:
            rows *= _values(base[key]) + (key not in base.complete)
        for made in self.computed:
            rows *= len(made.different) + (made.name not in complete)
        table = Table(
            "persons", None, Schema(kinds, (), complete),
            Unit(unit.column, min(unit.max_rows, rows, MOST_OF_ONE), unit.max_groups, unit.kind),
            public=self.base.public,
        )  # fmt: skip
        table.name = name_of(self.definition())
        # whatever belongs to an id belongs to each of its lines
        by_ids = {name: join for name, join in self.base.joins.items() if join.ids}
        return table.joining(by_ids, self.base.obstacles, {})


def _values(kind: Kind) -> int:
    """Return how many values a column may have; too many to matter for a Real."""
    if isinstance(kind, Real):
        return MOST_OF_ONE
    if isinstance(kind, Category):
        return len(kind.values)
    return int(kind.scale.high - kind.scale.low) + 1


@dataclass(frozen=True, slots=True)
class Linked:
    """The rows of a table, each with the line of its id in tables of persons.

    ``base`` is the table whose persons these are, or another table of its persons.
    """

    base: Table
    lines: tuple[Persons, ...]

    @staticmethod
    def present(place: int) -> str:
        """Return the name of the column that says whether the id has a line in the table at a place."""
        return f"lines {place}"

    @staticmethod
    def column(place: int, name: str) -> str:
        """Return the name of a column of the table at a place."""
        return f"lines {place}: {name}"

    def definition(self) -> dict[str, Any]:
        """Return the whole definition as plain data."""
        name, unit = self.base.name, self.base.unit
        if unit is None:
            raise TypeError("only a table with ids has persons")
        return {
            "of": json.loads(name) if is_persons(name) else name,
            "by": unit.column,
            "kept": unit.max_rows,
            "lines": [line.definition() for line in self.lines],
        }

    def table(self) -> Table:
        """Return the table, without rows of its own.

        Raises
        ------
        ValueError
            If a column of the base table has the name of one of the others.
        """
        base = self.base.schema
        kinds, complete = dict(base.items()), list(base.complete)
        for place, line in enumerate(self.lines):
            others: dict[str, Kind] = {self.present(place): PRESENT}
            others |= {self.column(place, name): kind for name, kind in line.table().schema.items()}
            if not kinds.keys().isdisjoint(others):
                raise ValueError("two columns have one name")
            kinds |= others
        schema = Schema(kinds, base.aliases, complete)
        table = Table("persons", None, schema, self.base.unit, public=self.base.public)
        table.name = name_of(self.definition())
        return table.joining(self.base.joins, self.base.obstacles, {})


def read_persons(name: str, tables: Mapping[str, Table]) -> Persons | Linked:
    """Return the table of persons, or with their lines, that has a name.

    Parameters
    ----------
    name : str
    tables : mapping of str to Table
        By name; it must have the table whose rows are grouped.

    Raises
    ------
    KeyError, ValueError
        If the name defines no table of persons over these tables.
    """
    definition = json.loads(name)
    of = definition["of"]
    base = tables[of if isinstance(of, str) else name_of(of)]
    persons: Persons | Linked
    if "lines" in definition:
        lines = [read_persons(name_of(line), tables) for line in definition["lines"]]
        persons = Linked(base, tuple(line for line in lines if isinstance(line, Persons)))
    else:
        where, features = definition["where"], map(Feature.read, definition["features"])
        keys = (
            key if isinstance(key, str) else ComputedKey.read(key) for key in definition["keys"]
        )
        persons = Persons.of(base, predicates.read(where), keys, features)
    if name_of(persons.definition()) != name:
        raise ValueError("the name does not define a table of persons")
    return persons
