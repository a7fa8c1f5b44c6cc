"""What SELECTs that group have in common: their keys, and what stands outside of aggregates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from sqlglot import expressions as exp

from dpnb.schema.table import Table
from dpnb.sql.names import folded
from dpnb.sql.source import Node, Source, bare
from dpnb.sql.spellings import positioned, unaliased

CLOSED = exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Query
"""Nodes inside of which each row counts, and queries, which count by themselves."""


def alike(one: Node, other: Node) -> bool:
    """Return whether two expressions are the same, with or without the tables of their columns.

    Examples
    --------
    >>> import sqlglot
    >>> alike(*map(sqlglot.parse_one, ("t.age + 1", "(AGE + 1)")))
    True
    """
    one, other = bare(one), bare(other)
    if type(one) is not type(other):
        return False
    for a, b in zip(one.find_all(exp.Column), other.find_all(exp.Column), strict=False):
        qualified = a.table and b.table
        if folded(a.name) != folded(b.name) or (qualified and folded(a.table) != folded(b.table)):
            return False
    return bool(_plain(one) == _plain(other))


def _plain(node: Node) -> Node:
    """Return an expression whose columns have no tables, and no other spelling."""

    def put(part: Node) -> Node:
        if isinstance(part, exp.Column) and isinstance(part.this, exp.Identifier):
            return exp.column(exp.to_identifier(folded(part.name), quoted=True))
        return part

    return node.transform(put)


def outside(node: Node) -> Iterator[Node]:
    """Yield the parts of an expression that are not inside an aggregate."""
    yield from node.walk(prune=lambda part: isinstance(part, CLOSED))


def replaced(node: Node, new: Callable[[Node], Node | None]) -> Node:
    """Put other nodes in place of some parts of an expression, and return it.

    ``new`` returns what stands in place of a part, or None to go on with its parts. The largest
    parts come first, and the inside of an aggregate is not asked for.
    """

    def put(part: Node) -> Node:
        found = new(part)
        if found is None and isinstance(part, CLOSED):
            # what is copied is not looked into
            found = part.copy()
        return part if found is None else found

    return node.transform(put, copy=False)


def key_of(source: Source, select: exp.Select, columns: Collection[str], node: Node) -> Node:
    """Return what a key is: of a position or an alias, the column of the SELECT list.

    ``columns`` are those of FROM, which come before aliases.
    """
    items = select.expressions
    item = positioned(source, items, node, "GROUP BY")
    if item is not None:
        return unaliased(item)
    if isinstance(node, exp.Column) and not node.table and folded(node.name) not in columns:
        for one in items:
            if isinstance(one, exp.Alias) and folded(one.alias) == folded(node.name):
                return unaliased(one)
    return node


def columns_of(
    select: exp.Select, tables: Mapping[str, Table], queries: Mapping[str, Node]
) -> set[str]:
    """Return the names of the columns of FROM; ``queries`` are CTEs."""
    known = {name.casefold(): table for name, table in tables.items()}
    start = select.args.get("from_")
    names: set[str] = set()
    for entry in (start, *(select.args.get("joins") or ())):
        node = None if entry is None else entry.this
        query = queries.get(folded(node.name)) if isinstance(node, exp.Table) else node
        # a query that has the name of a table reads that table
        earlier = {name: one for name, one in queries.items() if one is not query}
        query = query.this if isinstance(query, exp.CTE | exp.Subquery) else query
        if isinstance(query, exp.Select) and any(item.is_star for item in query.expressions):
            names |= columns_of(query, tables, earlier)
        if isinstance(query, exp.Select):
            names |= {folded(item.alias_or_name) for item in query.expressions}
        elif isinstance(node, exp.Table) and node.name.casefold() in known:
            names |= set(map(folded, known[node.name.casefold()].columns))
    return names
