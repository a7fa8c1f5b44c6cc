"""UNION ALL: the lines of several statements, one below the other."""

from __future__ import annotations

from sqlglot import expressions as exp

from dpnb.sql.expressions import Arguments
from dpnb.sql.levels import LevelReader
from dpnb.sql.query import MAX_CELLS, Query, Union
from dpnb.sql.shown import is_label
from dpnb.sql.source import Node, Source, others

MOST_BRANCHES = 20
"""Largest number of statements that UNION ALL combines."""
_APART = "Write each SELECT as a statement of its own, with ; between them."


def branches(source: Source, tree: Node) -> list[exp.Select]:
    """Return the statements that UNION ALL combines; one statement alone is its only branch."""
    if not isinstance(tree, exp.SetOperation):
        return [tree]
    found: list[exp.Select] = []
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Subquery) and not others(node.args, "this"):
            node = node.this
        if isinstance(node, exp.Select):
            found.append(node)
            continue
        if isinstance(node, exp.Union) and node.args.get("distinct"):
            source.refuse(
                "UNION drops equal lines, and noise makes equal lines different",
                "Write UNION ALL.",
                node,
                "UNION",
            )
        if not isinstance(node, exp.Union) or node.args.get("by_name"):
            source.refuse("only UNION ALL combines statements", _APART, node)
        clauses = ("order", "limit", "offset", "with_") if node is tree else ()
        if others(node.args, "this", "expression", "distinct", *clauses):
            source.refuse("this UNION ALL is not supported", _APART, node)
        waiting += [node.expression, node.this]
    if len(found) > MOST_BRANCHES:
        source.refuse(
            f"UNION ALL combines {len(found):,} statements, more than {MOST_BRANCHES}", _APART, tree
        )
    return found


def united(source: Source, tree: Node, queries: list[Query], arguments: Arguments) -> Union:
    """Return the queries of UNION ALL together; their columns must be alike."""
    listed = [list(query.shown.levels())[-1].columns or () for query in queries]
    first = listed[0]
    for query, columns in zip(queries, listed, strict=True):
        if query.table != queries[0].table:
            source.refuse("UNION ALL combines statements over one table", _APART, tree)
        if query.promise is not None:
            source.refuse("OPTIONS cannot stand in a part of UNION ALL", "Leave it out.", tree)
        if len(columns) != len(first):
            source.refuse(
                f"the parts of UNION ALL have {len(first)} and {len(columns)} columns",
                "Give each SELECT the same columns.",
                tree,
            )
        for one, other in zip(first, columns, strict=True):
            if is_label(one.expression) != is_label(other.expression):
                source.refuse(
                    f"{one.alias!r} is a result in one part of UNION ALL, and none in another",
                    "Give each SELECT the same columns.",
                    tree,
                )
    if sum(query.size for query in queries) > MAX_CELLS:
        source.refuse(f"this makes more than {MAX_CELLS:,} groups", _APART, tree)
    order = tree.args.get("order")
    if order is not None and order.find(exp.AggFunc) is not None:
        source.refuse("UNION ALL is ordered by its columns", "Name one of them.", order)
    reader = LevelReader(arguments.conditions, arguments, first)
    return Union(tuple(queries), reader.read(_around(tree, [column.alias for column in first])))


def _around(tree: Node, names: list[str]) -> exp.Select:
    """Return what a union asks of its lines, as a query around them."""
    order = tree.args.get("order")
    for term in () if order is None else order.expressions:
        inner = term.this if isinstance(term, exp.Ordered) else term
        place = int(inner.this) if isinstance(inner, exp.Literal) and inner.is_int else 0
        if 1 <= place <= len(names):
            inner.replace(exp.column(exp.to_identifier(names[place - 1], quoted=True)))
    clauses = {name: tree.args.get(name) for name in ("order", "limit", "offset")}
    return exp.Select(expressions=[exp.Star()], **clauses)
