"""Subqueries that name columns of the query around them, and what to write instead.

Such a subquery has another result for each row of the outer query. What it asks for is mostly a
list of values, a look-up, or a number for each group: the messages write that out.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import expressions as exp

from dpnb.sql.names import folded
from dpnb.sql.source import Node, Source

_WHAT = "this subquery names a column of the query around it"


def check_correlated(source: Source, select: Node) -> None:
    """Refuse subqueries in conditions and expressions that depend on a row of the outer query."""
    for inner in select.find_all(exp.Select):
        place = _place(inner)
        if place is None or any(map(_place, _around(inner))):
            # what is nested deeper may name what the subquery itself reads
            continue
        own = {folded(table.alias_or_name) for table in inner.find_all(exp.Table, exp.Subquery)}
        outer = [column for column in inner.find_all(exp.Column) if column.table]
        outer = [column for column in outer if folded(column.table) not in own]
        if outer:
            _refuse(source, inner, place, outer)


def _place(inner: Node) -> Node | None:
    """Return what a subquery is part of in a condition or expression; None for one in FROM."""
    place = inner.parent
    if isinstance(place, exp.Exists):
        return place
    if not isinstance(place, exp.Subquery) or isinstance(
        place.parent, exp.From | exp.Join | exp.Lateral | exp.Subquery | exp.SetOperation
    ):
        return None
    return place.parent if isinstance(place.parent, exp.In | exp.Any) else place


def _around(inner: Node) -> Iterator[Node]:
    """Yield the queries around a subquery."""
    outer = inner.find_ancestor(exp.Select)
    while outer is not None:
        yield outer
        outer = outer.find_ancestor(exp.Select)


def _refuse(source: Source, inner: Node, place: Node, outer: list[Node]) -> None:
    """Refuse one of them."""
    where, start = inner.args.get("where"), inner.args.get("from_")
    test = None if where is None else where.this
    tests = [] if test is None else [*test.flatten()] if isinstance(test, exp.And) else [test]
    links = [one for one in tests if any(column.parent is one for column in outer)]
    sides = (
        [links[0].this, links[0].expression]
        if len(links) == 1 and isinstance(links[0], exp.EQ)
        else []
    )
    if len(outer) != 1 or len(sides) != 2 or start is None or inner.args.get("joins"):
        source.refuse(_WHAT, "Join its table, or write the values out.", place)
    own = sides[1] if sides[0] is outer[0] else sides[0]
    flat = inner.copy()
    rest = [one.copy() for one in tests if one is not links[0]]
    flat.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
    (shown, *_) = inner.expressions
    if shown.find(exp.AggFunc) is not None:
        flat.set("expressions", [own.copy(), *flat.expressions])
        flat.set("group", exp.Group(expressions=[own.copy()]))
        text = flat.sql(dialect="duckdb")
        source.refuse(_WHAT, f"Ask {text} in a cell of its own. Then write its numbers.", place)
    if isinstance(place, exp.Exists):
        flat.set("expressions", [own.copy()])
        text = flat.sql(dialect="duckdb")
        source.refuse(_WHAT, f"Write {source.written(outer[0])} IN ({text}).", place)
    joined = f"LEFT JOIN {start.this.sql(dialect='duckdb')} ON {links[0].sql(dialect='duckdb')}"
    source.refuse(_WHAT, f"Add {joined}. Then write {source.written(shown)} here.", place)
