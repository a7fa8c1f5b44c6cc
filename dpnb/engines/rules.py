"""By which rules a table's values and ids are read: public facts, which the ledger keeps with a version.

A rule has a number. A newer rule may read some sources differently from the older ones, and most of
them alike. A version names the newest rules of its time. A table that newer rules do not touch goes
on in its version, and another one opens as a new version, even if its file and its schema are the
same: within a version every row must stay where it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dpnb.schema.columns import MAX_INTEGER, Category, Kind
from dpnb.schema.reading import canonical, is_word, number, truth
from dpnb.schema.schema import Unit
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date, Timestamp

Reading: TypeAlias = "dict[str, tuple[int, int]]"
"""For ``values`` and ``ids``, the lowest number of a rule that reads a table as the newest rule does, and the newest."""

FIRST = 1
"""The first rule of each, also that of versions whose entry names none."""
SECOND = 2
_NEWEST = {"values": SECOND, "ids": SECOND}
_UNTOUCHED = re.compile(
    r"(?i:(tiny|small|big|utiny|usmall)int|u?integer|int|int[248]|boolean|void|\W?null\W?)"
    r"|pandas (([uU]?[iI]nt(8|16|32)|[iI]nt64)(\[pyarrow\])?|bool\[pyarrow\]|boolean|float(16|32|64))"
)
"""Types of ids that all rules read alike."""
_TEXTS = re.compile(
    "csv|object|str|category|dictionary|large_string|varchar|enum|uuid|text|bpchar|char|time$"
)
_WHOLE = re.compile("u?(tiny|small|big|huge)?int")
_SMALL = re.compile(r"u?(tinyint|smallint|integer|int(2|4|16|32)?)(\[|$)")
"""Types whose whole numbers are exact as doubles."""
_MOMENT = re.compile(r"\d+[-:]")


def rule_of(table: Table, types: Mapping[str, str]) -> Reading:
    """Return the rules by which a table is read, from public facts alone.

    Parameters
    ----------
    table : Table
    types : mapping of str to str
        For each of ``table.columns``, the name of the type that its source gives to it.

    Returns
    -------
    dict of str to pair of int
    """
    schema, unit = table.schema, table.unit
    # no statement selects rows by an undeclared text, and a search for values is charged for every
    # row: only the order of the rows of an id depends on how it is read
    undeclared = () if unit is None else schema.undeclared
    kinds: dict[str, Kind | None] = {**schema, **dict.fromkeys(undeclared)}
    lowest = {
        "values": max((values_rule(kind, types[n]) for n, kind in kinds.items()), default=FIRST),
        "ids": FIRST
        if unit is None
        else ids_rule(unit, types[_spelled(unit.column, table.columns)]),
    }
    return {what: (number, max(number, _NEWEST[what])) for what, number in lowest.items()}


def _spelled(name: str, columns: Sequence[str]) -> str:
    """Return the spelling of a column's name among others; it may be declared as well."""
    return next(column for column in columns if column.casefold() == name.casefold())


def values_rule(kind: Kind | None, held: str) -> int:
    """Return the rule that reads a column's values; ``kind`` is None if it is not declared.

    The second rule reads each text by itself (``dpnb.schema.reading``). Before, texts were compared
    as they stood, DuckDB's casts decided which of them are numbers, and an empty text in quotes was
    missing in a CSV file.
    """
    name = held.removeprefix("pandas ").lower()
    if isinstance(kind, Date | Timestamp):
        return FIRST
    if kind is None:
        return FIRST if _SMALL.match(name) else SECOND
    if not isinstance(kind, Category):
        return SECOND if _TEXTS.match(name) else FIRST
    if _TEXTS.match(name):
        touched = not all(map(is_word, kind.values))
        # days and times of day among the objects of a column were spelled otherwise
        if held in ("pandas object", "pandas category"):
            touched |= any(map(_MOMENT.match, kind.values))
        touched |= held == "csv" and _takes_empty(kind)
    elif name.startswith("bool"):
        # a truth was the text 'true' or 'false'
        touched = any(truth(value) is not None and not value.islower() for value in kind.values)
    elif _WHOLE.match(name):
        touched = any(map(_is_other_text, kind.values))
    else:
        touched = True
    return SECOND if touched else FIRST


def _is_other_text(value: str) -> bool:
    """Return whether a declared value finds other whole numbers than the one that it spells."""
    found = number(value)
    return found is not None and (canonical(value) != value or abs(found) >= MAX_INTEGER)


def _takes_empty(kind: Category) -> bool:
    return kind.other is not None or "" in kind.values


def ids_rule(unit: Unit, held: str) -> int:
    """Return the rule that reads the ids of a privacy unit, from the type of their column.

    The second rule compares texts by what they say, has no bound on the size of a number, and puts
    the rows of an id in an order that is the same for a text and a number. It does not touch whole
    numbers of 64 bits. Where pandas picks the type of a column, numbers beyond 2**53 are no ids any
    more; a frame with such a number has another fingerprint without it.
    """
    return FIRST if _UNTOUCHED.fullmatch(held) else SECOND
