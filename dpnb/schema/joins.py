"""Which rows of other tables can be looked up from the rows of a table, and under which names.

Each row of a table matches at most one row of the table that is looked up. The result is one more
fact about that row: a public function of it if a dimension table is looked up by its key, or a
value of the same protected person if ids are looked up. So the bound on one person's contribution
stays the same. A key may itself be looked up: ``nation[supplier[s_id].nation_id].name`` is a public
function of ``s_id``.

If two tables may both hold several rows of one id, the pairs of these rows form a table of their
own. An id has at most as many rows in it as the product of both bounds. The losses of queries on
the pairs and on the two tables add up.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dpnb.errors import SchemaError, given, nearest
from dpnb.schema.columns import Category, Kind
from dpnb.schema.schema import MOST_OF_ONE, Schema, Unit
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Timestamp

PRESENT = Category(["yes"])
"""Kind of the column that says whether a match was found: it has a value there, or is missing."""
MOST_JOINS = 8
"""Largest number of tables that one statement may look up."""
MOST_CHAINS = 64
"""Largest number of ways to look up a table by a column that is looked up, from one table."""
_LONGEST = 4
"""Most tables that are looked up one by the other."""
ITSELF = ("a table cannot be joined with itself", "Join it with another table.")
"""Error message and hint."""

_LOOKED_UP = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,62})\[(.*)\](?:\.(.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Join:
    """The row of another table that belongs to each row of a table.

    Parameters
    ----------
    table : str
        The table that is looked up.
    column : str
        Column of the first table whose values are looked up.
    ids : bool
        Whether the values are ids of both tables' privacy unit; otherwise they match the key.
    kinds : tuple of pairs of str and Kind
        The declared columns of the table that is looked up.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> join = Join("products", "product_id", False, (("price", Integer(0, 99)),))
    >>> list(join.columns)
    ['products[product_id]', 'products[product_id].price']
    """

    table: str
    column: str
    ids: bool
    kinds: tuple[tuple[str, Kind], ...]

    @property
    def name(self) -> str:
        """Name of the column that has a value if a row was found."""
        return f"{self.table}[{self.column}]"

    def attribute(self, name: str) -> str:
        """Return the name of a column of the other table in this table."""
        return f"{self.name}.{name}"

    @property
    def path(self) -> tuple[str, ...]:
        """The tables that are looked up, the last one first."""
        names, column = [self.table], looked_up(self.column)
        while column is not None:
            names.append(column[0])
            column = looked_up(column[1])
        return tuple(names)

    @property
    def columns(self) -> dict[str, Kind]:
        """All columns that are looked up, by name."""
        return {self.name: PRESENT, **{self.attribute(name): kind for name, kind in self.kinds}}


def own_name(column: str) -> str:
    """Return the name of a column in its own table.

    Examples
    --------
    >>> own_name("products[product_id].price"), own_name("age")
    ('price', 'age')
    """
    match = _LOOKED_UP.fullmatch(column)
    return column if match is None or match[3] is None else match[3]


def looked_up(column: str) -> tuple[str, str, str | None] | None:
    """Return the table, the column to look it up by, and the column there; None without a lookup.

    Examples
    --------
    >>> looked_up("products[product_id].price"), looked_up("visits[].day"), looked_up("age")
    (('products', 'product_id', 'price'), ('visits', '', 'day'), None)
    """
    match = _LOOKED_UP.fullmatch(column)
    return None if match is None else (match[1], match[2], match[3])


def is_looked_up(column: str) -> bool:
    """Return whether a name has the form of a looked-up column."""
    return _LOOKED_UP.fullmatch(column) is not None


def lookup(base: Table, column: str, other: Table, key: str) -> Join:
    """Return the join of ``base`` with the rows of ``other`` whose ``key`` is the row's ``column``.

    Raises
    ------
    SchemaError
        If these rows cannot be looked up, with the reason; it depends on declarations alone.
    """
    if base.name == other.name:
        raise SchemaError(*ITSELF)
    if _is_id(base, column) and _is_id(other, key):
        return _by_id(base, other)
    if other.key is None:
        raise _refused(base, other)
    if key.casefold() != other.key.casefold():
        raise SchemaError(
            f"{other.name!r} is declared unique in {other.key!r}, not in {key!r}",
            f"Join on the key {other.key!r} of {other.name!r}.",
        )
    declared_name = base.schema.find(column)
    if declared_name is None:
        raise SchemaError(
            f"{given(column)} is not a declared column of {given(base.name)}",
            nearest(column, list(base.schema)),
        )
    if _domain(base.schema[declared_name]) != _domain(other.schema[other.key]):
        raise SchemaError(
            f"{declared_name!r} of {base.name!r} and {other.key!r} of {other.name!r} are declared differently",
            "Declare the same kind with the same values, or the same bounds, in both schemas.",
        )
    return Join(other.name, declared_name, False, tuple(other.schema.items()))


def _is_id(table: Table, column: str) -> bool:
    return table.unit is not None and table.unit.column.casefold() == column.casefold()


def _domain(kind: Kind) -> object:
    """Return what two columns must share for their codes to mean the same; bins do not matter."""
    if isinstance(kind, Category):
        other = None if kind.other is None else kind.values.index(kind.other)
        return kind.kind, kind.keys, other
    counted = (kind.resolution, kind.tz) if isinstance(kind, Timestamp) else ()
    return kind.kind, kind.scale, *counted


def _by_id(base: Table, other: Table) -> Join:
    if base.unit is None or other.unit is None or not _is_id(other, base.unit.column):
        raise _refused(base, other)
    name = base.unit.column
    _check_kinds(base, other)
    if other.unit.max_rows > 1:
        which = "both tables" if base.unit.max_rows > 1 else repr(other.name)
        raise SchemaError(
            f"{which} may hold several rows of one {name}",
            "Declare max_rows=1 for the table that is looked up.",
        )
    if base.public and not other.public:
        # methods for study may use the rows of a public table without noise
        raise SchemaError(
            f"{base.name!r} is declared public, and {other.name!r} is not",
            "Declare both as public, or neither.",
        )
    return Join(other.name, name, True, tuple(other.schema.items()))


def _check_kinds(one: Table, other: Table) -> None:
    """Refuse tables whose ids are read by different rules: one person would be several."""
    if one.unit is None or other.unit is None or one.unit.kind == other.unit.kind:
        return
    plain, spelled = (one, other) if one.unit.kind == "text" else (other, one)
    raise SchemaError(
        f"the ids of {plain.name!r} have kind='text', and those of {spelled.name!r} do not",
        "Declare the same kind of ids for both units.",
    )


def pair_name(one: Table, other: Table) -> str:
    """Return the name of the table of pairs of two tables, in either order."""
    return "*".join(sorted((one.name, other.name)))


def pair(one: Table, other: Table) -> Table | None:
    """Return the table of the pairs of rows with one id, or None if two tables need no pairs.

    Its columns have names such as ``visits[].day``.

    Raises
    ------
    SchemaError
        If one id may have too many pairs.
    """
    if one.name == other.name or one.unit is None or other.unit is None:
        return None
    if not _is_id(other, one.unit.column) or min(one.unit.max_rows, other.unit.max_rows) == 1:
        return None
    _check_kinds(one, other)
    rows = one.unit.max_rows * other.unit.max_rows
    if rows > MOST_OF_ONE:
        raise SchemaError(
            f"one {one.unit.column} may have {rows:,} rows in this join; at most {MOST_OF_ONE:,} are allowed",
            "Declare a smaller max_rows.",
        )
    tables = sorted((one, other), key=lambda table: table.name)
    kinds = {f"{t.name}[].{name}": kind for t in tables for name, kind in t.schema.items()}
    complete = [f"{t.name}[].{name}" for t in tables for name in t.schema.complete]
    aliases = [[f"{t.name}[].{n}" for n in names] for t in tables for names in t.schema.aliases]
    declared = [t.unit.max_groups for t in (one, other) if t.unit and t.unit.max_groups]
    unit = Unit(one.unit.column, rows, min(declared, default=None), one.unit.kind)
    schema = Schema(kinds, aliases, complete)
    pair_table = Table(tables[0].name, None, schema, unit, public=one.public and other.public)
    pair_table.name = pair_name(one, other)
    return pair_table.joining({}, {}, {table.name: table.definition() for table in tables})


def _refused(base: Table, other: Table) -> SchemaError:
    """Return the error for a table that cannot be looked up by this column."""
    if other.public and other.unit is None:
        return SchemaError(
            f"{other.name!r} has no key: no column is declared unique",
            f"Declare Table({other.name!r}, ..., public=True, key='...').",
        )
    if base.unit is None or other.unit is None:
        row_table, partner = (base, other) if base.unit is None else (other, base)
        protects = "a row" if partner.unit is None else f"a {partner.unit.column}"
        return SchemaError(
            f"{row_table.name!r} protects a row, and {partner.name!r} {protects}",
            "Sensitive tables can be joined on the ids of a privacy unit that both declare. Declare a "
            "table that needs no protection with public=True and key='...'.",
        )
    if base.unit.column.casefold() != other.unit.column.casefold():
        return SchemaError(
            f"{base.name!r} protects a {base.unit.column}, and {other.name!r} a {other.unit.column}",
            "Tables can be joined if they are about the same people. Then give their ids the same name.",
        )
    return SchemaError(
        "tables that protect the same ids can be joined only on these ids",
        f"Join on the ids {base.unit.column!r} of both tables.",
    )


def joins_of(base: Table, tables: Mapping[str, Table]) -> Iterator[Join]:
    """Yield all joins that a table allows."""
    for other in tables.values():
        columns = [*base.schema] if other.key is not None else []
        key = other.key
        if key is None and base.unit is not None and other.unit is not None:
            columns, key = [base.unit.column], other.unit.column
        for column in columns:
            try:
                yield lookup(base, column, other, str(key))
            except SchemaError:
                continue


def chained(join: Join, link: Join) -> Join:
    """Return the join that looks up a row by a column of the row that another join finds.

    Raises
    ------
    SchemaError
        If too many tables are looked up one by the other.
    """
    if len(join.path) == _LONGEST:
        raise SchemaError(
            f"more than {_LONGEST} tables are looked up one by the other",
            f"Put what {join.table!r} says of {link.table!r} into one public table.",
        )
    return Join(link.table, join.attribute(link.column), False, link.kinds)


def chains_of(
    base: Table,
    joins: Iterable[Join],
    tables: Mapping[str, Table],
    obstacle: Callable[[str, Join], tuple[str, str] | None],
) -> Iterator[Join]:
    """Yield joins by columns of public tables and of people that are looked up from a table."""
    ends, count = list(joins), 0
    for join in ends:
        for link in joins_of(tables[join.table], tables):
            if link.ids or link.table in (base.name, *join.path) or len(join.path) == _LONGEST:
                continue
            chain = chained(join, link)
            if obstacle(join.table, link) or obstacle(base.name, chain) or count == MOST_CHAINS:
                continue
            count += 1
            ends.append(chain)
            yield chain


def joined(
    tables: Mapping[str, Table], obstacle: Callable[[str, Join], tuple[str, str] | None]
) -> dict[str, Table]:
    """Return copies of tables that know what can be looked up from their rows.

    Parameters
    ----------
    tables : mapping of str to Table
    obstacle : callable
        Takes a table's name and a join; returns why the join is impossible and a hint, or None. It
        depends on public facts only.

    Raises
    ------
    SchemaError
        If a declared column has the name of a looked-up column.
    """
    copies = {}
    pairs = dict(_pairs(tables, obstacle))
    for name, table in tables.items():
        joins, obstacles = {}, {}
        for join in joins_of(table, tables):
            reason = obstacle(name, join)
            if reason is None:
                joins[join.name] = join
            else:
                obstacles[join.name] = reason
        definitions = {join.table: tables[join.table].definition() for join in joins.values()}
        joins |= {join.name: join for join in chains_of(table, joins.values(), tables, obstacle)}
        own_pairs = {other: pairs[name, other] for other in tables if (name, other) in pairs}
        copies[name] = table.joining(joins, obstacles, definitions)
        copies[name].pairs = own_pairs
    return copies


def _pairs(
    tables: Mapping[str, Table], obstacle: Callable[[str, Join], tuple[str, str] | None]
) -> Iterator[tuple[tuple[str, str], Table | SchemaError]]:
    """Yield the tables of pairs, or the error, by the names of both tables in either order."""
    for first, second in itertools.combinations(tables.values(), 2):
        try:
            outcome: Table | SchemaError | None = pair(first, second)
        except SchemaError as error:
            outcome = error
        if outcome is None or first.unit is None:
            continue
        ids = Join(second.name, first.unit.column, True, ())
        reason = obstacle(first.name, ids)
        if reason is not None:
            outcome = SchemaError(*reason)
        yield (first.name, second.name), outcome
        yield (second.name, first.name), outcome
