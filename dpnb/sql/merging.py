"""Which queries of FROM are merged into the SELECT that reads them, and what an outer join shows of one."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import expressions as exp

from dpnb.sql.names import Level, Visible, own_nodes
from dpnb.sql.source import Node, Source, others

_STRICT = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Column, exp.Literal, exp.Identifier)  # fmt: skip
"""Nodes that are NULL where one of their columns is NULL."""
ROWS = {
    "limit": ("LIMIT in a subquery keeps some rows and drops others", "Leave LIMIT out, or write it last."),
    "offset": ("OFFSET in a subquery keeps some rows and drops others", "Leave OFFSET out."),
    "sample": ("sampling is not supported", "Leave it out; noise is added for you."),
    "qualify": ("QUALIFY in a subquery compares rows with each other", "Leave QUALIFY out."),
    "windows": ("window functions over rows are not supported", "Use GROUP BY."),
    "laterals": ("LATERAL is not supported", "Write the columns in SELECT."),
    "into": ("INTO is not supported", "Leave INTO out."),
}  # fmt: skip
"""Clauses of a query without aggregates that do more than filter and compute."""
_PLAIN = ("expressions", "from_", "joins", "where", "order", "with_")


def is_plain(query: Node) -> bool:
    """Return whether a query only filters and computes."""
    parts = (part for item in query.expressions for part in own_nodes(item))
    return (
        isinstance(query, exp.Select)
        and not others(query.args, *_PLAIN)
        and not any(isinstance(part, exp.AggFunc) for part in parts)
    )


def is_merged(source: Source, query: Node) -> bool:
    """Return whether a query only filters and computes; refuse what is neither that nor grouped."""
    if not isinstance(query, exp.Select):
        return False
    parts = [part for item in query.expressions for part in own_nodes(item)]
    grouped = any(query.args.get(name) for name in ("group", "having", "distinct"))
    if grouped or any(isinstance(part, exp.AggFunc) for part in parts):
        return False
    for name in others(query.args, *_PLAIN):
        what, hint = ROWS.get(name, (f"{name.strip('_').upper()} in a subquery is not supported", "Leave it out."))  # fmt: skip
        value = query.args[name]
        source.refuse(what, hint, value[0] if isinstance(value, list) else value, name.upper())
    return True


def missing(source: Source, new: Level, test: Node, node: Node) -> list[Visible]:
    """Return what a LEFT JOIN shows: without a match, columns that it computes are NULL, too."""
    label = new.tables[0].alias_or_name
    sides = [test.this, test.expression] if isinstance(test, exp.EQ) else []
    keys = [side for side in sides if {column.table for column in side.find_all(exp.Column)} == {label}]  # fmt: skip
    if len(keys) != 1:
        source.refuse("ON takes one equality of two columns", "Write FROM a LEFT JOIN b ON a.x = b.x.", test or node.this)  # fmt: skip
    found = exp.Not(this=exp.Paren(this=exp.Is(this=keys[0], expression=exp.Null())))

    def shown(value: Node) -> Node:
        if value.find(exp.Column) is not None and all(isinstance(part, _STRICT) for part in value.walk()):  # fmt: skip
            return value
        return exp.Case(ifs=[exp.If(this=found.copy(), true=value)])

    return [
        replace(visible, columns={key: (name, shown(value)) for key, (name, value) in visible.columns.items()})
        for visible in new.visible
    ]  # fmt: skip
