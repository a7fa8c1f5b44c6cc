"""The public set of candidate predicates, each of which describes a part of the data.

Single predicates say that an attribute has one of its declared values; longer ones join several
attributes by AND or OR; ranges join neighbouring bins; or the analyst lists conditions. This module
never sees data (DPXPlain, Definition 3.3).
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from dpnb.errors import RequestError, given, nearest
from dpnb.explain.listed import read_listed
from dpnb.explain.unbinned import remedy, unbinned_sentence
from dpnb.schema.columns import Category, Kind
from dpnb.schema.partition import declared, labels
from dpnb.schema.predicates import And, Or, Predicate, Within, plain, simplify
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.schema.types import Boolean
from dpnb.views.text import literal

Connective: TypeAlias = Literal["and", "or"]

MAX_LENGTH = 3
MAX_DENSE = 2**22
"""Most groups of one attribute set in a dense table, for ranges and OR over two groups."""
MAX_RANGED = 100
"""Most bins of an attribute with ranges."""
MAX_CODES = 2**49
"""Most joint codes of one attribute set; times the groups of a query they fit 64 bits."""
MAX_SIZE = 2**53
MAX_SETS = 5_000
"""Most attribute sets; the rows are read once for each."""


@dataclass(frozen=True, slots=True)
class Item:
    """One simple condition on an attribute: its value lies in the groups ``first..last``."""

    label: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column whose declared values make predicates.

    ``cells`` is the number of declared groups; ``items`` are the conditions on them.
    """

    column: str
    cells: int
    items: tuple[Item, ...]

    @property
    def single(self) -> bool:
        """Whether the items are the groups, one by one."""
        return len(self.items) == self.cells and all(i.first == i.last for i in self.items)


@dataclass(frozen=True)
class Space:
    """The candidate predicates, numbered from 0.

    Parameters
    ----------
    attributes : tuple of Attribute
        Empty if the analyst listed conditions.
    length : int
        Attributes in one predicate.
    connective : {'and', 'or'}
    listed : tuple of (str, Predicate)
        Conditions given one by one, as text and as predicate.
    unbinned : tuple of (str, str)
        Columns that would be attributes if they had bins, each with what to write.
    """

    attributes: tuple[Attribute, ...]
    length: int = 1
    connective: Connective = "and"
    listed: tuple[tuple[str, Predicate], ...] = field(default=())
    unbinned: tuple[tuple[str, str], ...] = field(default=())

    @cached_property
    def sets(self) -> tuple[tuple[Attribute, ...], ...]:
        """The sets of attributes that predicates are made of."""
        return tuple(itertools.combinations(self.attributes, self.length))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Number of the first predicate of each set; at the end, the number of all predicates."""
        sizes = (math.prod(len(a.items) for a in attributes) for attributes in self.sets)
        return tuple(itertools.accumulate(sizes, initial=0))

    @property
    def size(self) -> int:
        """|P|: the number of predicates."""
        return len(self.listed) or self.starts[-1]

    def label(self, index: int) -> str:
        """Return a predicate as shown."""
        if self.listed:
            return self.listed[index][0]
        word = f" {self.connective.upper()} "
        return word.join(f"{a.column} {item.label}" for a, item in self._parts(index))

    def predicate(self, index: int, schema: Schema) -> Predicate:
        """Return the meaning of a predicate."""
        if self.listed:
            return self.listed[index][1]
        atoms = []
        for attribute, item in self._parts(index):
            groups = declared(attribute.column, schema).groups[item.first : item.last + 1]
            pairs = [interval for group in groups for interval in group]
            atoms.append(Within(attribute.column, schema[attribute.column].scale.union(pairs)))
        joined: Predicate = And(tuple(atoms)) if self.connective == "and" else Or(tuple(atoms))
        return simplify(joined, schema)

    def _parts(self, index: int) -> Iterator[tuple[Attribute, Item]]:
        place = bisect_right(self.starts, index) - 1
        attributes, rest = self.sets[place], index - self.starts[place]
        items = []
        for attribute in reversed(attributes):
            rest, item = divmod(rest, len(attribute.items))
            items.append((attribute, attribute.items[item]))
        return reversed(items)

    def definition(self) -> Any:
        """Return the public definition as plain data."""
        if self.listed:
            return {"listed": [plain(predicate) for _, predicate in self.listed]}
        return {
            "attributes": [[a.column, a.cells, len(a.items)] for a in self.attributes],
            "length": self.length,
            "connective": self.connective,
        }


def space(
    table: Table,
    taken: Set[str],
    *,
    attributes: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    length: int = 1,
    connective: Connective = "and",
    ranges: bool = False,
    predicates: Sequence[str] | None = None,
    groups: int = 2,
) -> Space:
    """Declare the candidate predicates of a question.

    Parameters
    ----------
    table : Table
    taken : set of str
        Columns of the question: its group-by and aggregated columns. They and their aliases are
        left out (docs/methods/dpxplain.md, what is not covered).
    attributes : sequence of str, optional
        Columns to use; by default every other column with declared values or bins, one of each set
        of aliases.
    exclude : sequence of str
        Columns to leave out.
    length : int
        Attributes in one predicate, 1 to 3.
    connective : {'and', 'or'}
        How several attributes are joined.
    ranges : bool
        Whether ordered attributes also get every run of neighbouring bins.
    predicates : sequence of str, optional
        Conditions as in WHERE, instead of attributes; at most 1,000.
    groups : int
        Number of groups in the question; ranges and OR need one dense table for each.

    Raises
    ------
    RequestError, SqlError
        For an unknown, unusable or repeated column, an empty or repeated list, or too many.
    """
    if predicates is not None:
        if attributes is not None or exclude or ranges or length != 1 or connective != "and":
            raise RequestError(
                "predicates cannot be combined with options that choose attributes",
                "Leave out attributes, exclude, ranges, length and connective.",
            )
        return Space((), listed=read_listed(predicates, table))
    if length == 1:
        connective = "and"  # nothing is joined, so equal meanings get equal definitions
    schema = table.schema
    reserved = _aliased(schema, taken)
    dropped = {_column(name, schema) for name in exclude}
    bare: list[str] = []
    if attributes is None:
        chosen, bare = _defaults(schema, reserved, dropped)
    else:
        chosen = [_column(name, schema) for name in attributes]
        _check_chosen(chosen, schema, reserved)
        # attributes are numbered in the schema's order, in whatever order they were named
        chosen = [name for name in schema if name in chosen and name not in dropped]
    if len(chosen) < length:
        raise RequestError(
            f"predicates of {length} attributes need more than the {len(chosen)} that are left",
            _more(len(chosen), bare, schema, cut=attributes is not None or bool(dropped)),
        )
    candidates = Space(
        tuple(_attribute(name, schema[name], ranges=ranges) for name in chosen),
        length,
        connective,
        unbinned=tuple((name, remedy(name, schema[name])) for name in bare),
    )
    _check_size(candidates, groups)
    return candidates


def _column(name: str, schema: Schema) -> str:
    column = schema.find(name)
    if column is None:
        raise RequestError(f"there is no column {given(name)}", nearest(name, list(schema)))
    return column


def _aliased(schema: Schema, columns: Set[str]) -> set[str]:
    """Return columns with all their aliases."""
    sets = (set(names) for names in schema.aliases)
    return set(columns).union(*(names for names in sets if names & columns))


def _has_values(kind: Kind) -> bool:
    """Return whether a column has declared values: those of a category or a boolean, or bins."""
    return isinstance(kind, Category | Boolean) or kind.bins is not None


def _defaults(schema: Schema, reserved: Set[str], dropped: Set[str]) -> tuple[list[str], list[str]]:
    """Return the columns left that have values, one of each set of aliases; and those without."""
    chosen: list[str] = []
    aliases: set[str] = set()
    for name, kind in schema.items():
        if name in reserved or name in dropped or name in aliases or not _has_values(kind):
            continue
        chosen.append(name)
        aliases |= _aliased(schema, {name})
    ids = set() if schema.unit is None else {schema.unit.column}
    left_out = {*reserved, *dropped, *aliases, *ids}
    return chosen, [
        name for name, kind in schema.items() if name not in left_out and not _has_values(kind)
    ]


def _check_chosen(chosen: Sequence[str], schema: Schema, reserved: Set[str]) -> None:
    for name in chosen:
        if chosen.count(name) > 1:
            raise RequestError(f"the attribute {given(name)} is named twice", "Remove one of them.")
        if name in reserved:
            raise RequestError(f"the question itself uses {name!r}", "Name other attributes.")
        if not _has_values(schema[name]):
            raise RequestError(
                f"{name!r} has no declared values or bins",
                unbinned_sentence({name: remedy(name, schema[name])}),
            )


def _more(number: int, bare: Sequence[str], schema: Schema, *, cut: bool) -> str:
    """Return how to get more than ``number`` attributes, or to need no more."""
    ways = []
    if cut:
        ways.append("Name more columns, or exclude fewer.")
    if number:
        ways.append(f"Give length={number} or less.")
    if bare:
        ways.append(unbinned_sentence({name: remedy(name, schema[name]) for name in bare}))
    return " ".join(ways or ["List conditions as predicates."])


def _attribute(name: str, kind: Kind, *, ranges: bool) -> Attribute:
    names = list(map(str, labels(kind)))
    if isinstance(kind, Category):
        items = [Item(f"= '{label}'", i, i) for i, label in enumerate(names)]
    elif isinstance(kind, Boolean):
        items = [Item(f"= {literal(kind, i)}", i, i) for i in range(len(names))]
    else:
        items = [Item(f"in {label}", i, i) for i, label in enumerate(names)]
        if ranges:
            if len(names) > MAX_RANGED:
                raise RequestError(
                    f"{name!r} has {len(names):,} bins, too many for ranges",
                    "Declare fewer bins, or leave ranges out.",
                )
            items += [
                Item(f"in {_run(names[i], names[j])}", i, j)
                for i, j in itertools.combinations(range(len(names)), 2)
            ]
    return Attribute(name, len(names), tuple(items))


def _run(first: str, last: str) -> str:
    """Return '[17, 40]' for the bins '[17, 20]' to '(30, 40]'."""
    return f"{first.partition(',')[0]},{last.partition(',')[2]}"


def _check_size(candidates: Space, groups: int) -> None:
    sets = math.comb(len(candidates.attributes), candidates.length)
    if sets > MAX_SETS:
        raise RequestError(
            f"there are {sets:,} sets of attributes, more than the {MAX_SETS:,} that are allowed",
            "Name fewer attributes, or a smaller length.",
        )
    codes = max(math.prod(a.cells + 1 for a in attributes) for attributes in candidates.sets)
    if candidates.size > MAX_SIZE or codes > MAX_CODES:
        raise RequestError(
            f"there are {candidates.size:.3g} predicates, more than are allowed",
            "Name fewer attributes, or a smaller length.",
        )
    if candidates.connective == "or" or not all(a.single for a in candidates.attributes):
        cells = max(math.prod(max(a.cells + 1, len(a.items)) for a in s) for s in candidates.sets)
        if cells * groups > 2 * MAX_DENSE or candidates.size > 2 * MAX_DENSE:
            raise RequestError(
                f"there are {candidates.size:,} predicates, too many for ranges and OR",
                "Name fewer attributes, or a smaller length.",
            )
