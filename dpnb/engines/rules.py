"""By which rules a table's values and ids are read: public facts, which the ledger keeps with a version.

A rule has a number. A newer rule may read some sources differently from the older ones, and most of
them alike. A table is named by the lowest number that reads it as the newest rule does. So a table
that a new rule does not touch goes on in its version, and another one opens as a new version, even
if its file and its schema are the same: within a version every row must stay where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from dpnb.schema.columns import Kind
from dpnb.schema.schema import Unit
from dpnb.schema.table import Table

Reading: TypeAlias = "dict[str, int]"
"""The numbers of a table's rules, of ``values`` and of ``ids``."""

FIRST = 1
"""The first rule of each, also that of versions whose entry names none."""


def rule_of(table: Table, types: Mapping[str, str]) -> Reading:
    """Return the rules by which a table is read, from public facts alone.

    Parameters
    ----------
    table : Table
    types : mapping of str to str
        For each of ``table.columns``, the name of the type that its source gives to it.

    Returns
    -------
    dict of str to int
        The lowest numbers of rules that read this table as the newest ones do.
    """
    schema, unit = table.schema, table.unit
    kinds: dict[str, Kind | None] = {**schema, **dict.fromkeys(schema.undeclared)}
    values = [values_rule(kind, types[name]) for name, kind in kinds.items()]
    return {
        "values": max(values, default=FIRST),
        "ids": FIRST if unit is None else ids_rule(unit, types[unit.column]),
    }


def values_rule(kind: Kind | None, held: str) -> int:
    """Return the rule that reads a column's values; ``kind`` is None if it is not declared."""
    return FIRST


def ids_rule(unit: Unit, held: str) -> int:
    """Return the rule that reads the ids of a privacy unit."""
    return FIRST
