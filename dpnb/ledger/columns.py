"""Which columns a release reads, whatever the statement looks like.

A view reads the columns of its keys, its condition and its value; a declared histogram reads its
axes. For a one-off release, every name in its public definition counts. A lookup reads the column
in the other table and the column that it is looked up by. Whatever is asked of a table of persons
reads every column that decides on its rows or their values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from dpnb.schema import predicates
from dpnb.schema.joins import looked_up
from dpnb.schema.partition import column_of
from dpnb.schema.persons import definition_of, is_persons, name_of
from dpnb.sql.canonical import read_value
from dpnb.sql.features import Feature

Named: TypeAlias = tuple[str, str]
"""The name of a table and of one of its columns."""


def read_by(definition: Mapping[str, Any]) -> frozenset[Named]:
    """Return the columns that a view or a one-off release reads, from its public definition.

    For a one-off release the set may be too large; names without a table count for every table.
    """
    if "measure" in definition:
        value = read_value(definition["measure"][1])
        names = {*map(column_of, definition["keys"]), *predicates.read(definition["where"]).columns}
        names |= set() if value is None else value.columns
        names |= {str(column) for column, _ in definition.get("histogram", ())}
        return resolved(str(definition["table"]), names)
    return resolved("", {*_texts(definition)})


def asked_of(query: Mapping[str, Any]) -> frozenset[Named]:
    """Return the columns that a statement reads, from its description by ``dpnb.sql.canonical``."""
    names = {*map(column_of, query["keys"]), *predicates.read(query["where"]).columns}
    for _, argument, condition in query["aggregates"]:
        value = read_value(argument)
        names |= predicates.read(condition).columns | (set() if value is None else value.columns)
    return resolved(str(query["table"]), names)


def lost(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the columns of a table that a new version of it drops, and those that it redeclares.

    Other bins change no value. The definitions are those of ``Table.definition``.
    """
    names = {*new["columns"], *new.get("undeclared", ())}
    changed = {
        name
        for name, kind in old["columns"].items()
        if name in new["columns"] and _without_bins(kind) != _without_bins(new["columns"][name])
    }
    return {*old["columns"], *old.get("undeclared", ())} - names, changed


def _without_bins(kind: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in kind.items() if name != "bins"}


def reads(known: Collection[Named], columns: Collection[Named]) -> bool:
    """Return whether one of some columns is among the columns read."""
    return any(column in known or ("", column[1]) in known for column in columns)


def resolved(table: str, names: Collection[str]) -> frozenset[Named]:
    """Return the columns that the names in a statement over a table refer to."""
    if not is_persons(table):
        return frozenset(column for name in names for column in _resolved(table, name))
    definition = definition_of(table)
    if "lines" in definition:
        of = definition["of"]
        return _behind(table) | resolved(of if isinstance(of, str) else name_of(of), names)
    lookups = (lookup for lookup in map(looked_up, names) if lookup is not None)
    return _behind(table).union(
        *(_resolved(other, column) for other, _, column in lookups if column is not None)
    )


@lru_cache(maxsize=256)
def _behind(table: str) -> frozenset[Named]:
    """Return the columns that the rows of a table of persons depend on."""
    definition = definition_of(table)
    if "lines" in definition:
        return frozenset[Named]().union(*(_behind(name_of(line)) for line in definition["lines"]))
    of = definition["of"]
    names = {*map(column_of, definition["keys"])}
    names |= predicates.read(definition["where"]).columns
    for feature in definition["features"]:
        names |= Feature.read(feature).columns
    return resolved(of if isinstance(of, str) else name_of(of), names)


@lru_cache(maxsize=4096)
def _resolved(table: str, name: str) -> tuple[Named, ...]:
    if is_persons(name):
        return tuple(_behind(name))
    lookup = looked_up(name)
    if lookup is None:
        return ((table, name),)
    other, by, column = lookup
    return (
        *(_resolved(table, by) if by else ()),
        *(_resolved(other, column) if column is not None else ()),
    )


def _texts(data: Any) -> Iterator[str]:
    """Yield every text in plain data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for name, value in data.items():
            yield from _texts([name, value])
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _texts(value)
