"""Tables of persons beside the opened ones: found by their names, which define them."""

from __future__ import annotations

from collections.abc import Mapping

from dpnb.engines.scans import Engine
from dpnb.schema.persons import is_persons
from dpnb.schema.table import Table
from dpnb.sql.features import Linked, Persons, read_persons


class Tables(dict[str, Table]):
    """The opened tables by name, and any table of persons of theirs by its name."""

    def __missing__(self, name: str) -> Table:
        return persons_of(name, self).table()


class Engines(dict[str, Engine]):
    """The engines of the opened tables by name, and those of their tables of persons."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        super().__init__()
        self._tables = tables

    def __missing__(self, name: str) -> Engine:
        derived = persons_of(name, self._tables)
        base = self[derived.base.name]
        if isinstance(derived, Persons):
            return base.persons(derived)
        return base.linked(derived, [self[line.table().name] for line in derived.lines])


def persons_of(name: str, tables: Mapping[str, Table]) -> Persons | Linked:
    """Return the table of persons, or with their lines, that has a name.

    Raises
    ------
    KeyError
        If the name defines none of these tables.
    """
    try:
        if is_persons(name):
            return read_persons(name, tables)
    except (AttributeError, LookupError, TypeError, ValueError):
        pass
    raise KeyError(name)
