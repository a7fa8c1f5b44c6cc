"""UNION ALL and sets of keys: the lines of several statements, one below the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import expressions as exp

from dpnb.errors import SqlError
from dpnb.schema.table import Table
from dpnb.sql.constants import Constants
from dpnb.sql.expressions import Arguments
from dpnb.sql.grouping_sets import PLACE, grouping_sets
from dpnb.sql.levels import LevelReader
from dpnb.sql.query import MAX_CELLS, Query, Union
from dpnb.sql.shown import Column, Literal, OuterPart, is_label
from dpnb.sql.source import Node, Source, others

MOST_BRANCHES = 20
"""Largest number of statements that UNION ALL combines."""
_APART = "Write each SELECT as a statement of its own, with ; between them."


def several_error() -> SqlError:
    """Return what is said of several statements where one is needed."""
    return SqlError(
        "only a query combines statements",
        "Ask one of them: a SELECT with one list of columns in GROUP BY, without UNION ALL.",
    )


@dataclass(frozen=True, slots=True)
class Part:
    """One of the statements that are combined.

    ``written`` is the SELECT that it comes from, and ``dropped`` the places of columns that are keys
    which its set leaves out.
    """

    select: exp.Select
    written: exp.Select
    dropped: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Parts:
    """Statements that are combined; ``whole`` has the ORDER BY, LIMIT and OFFSET of their lines.

    The last ``unshown`` columns are there only for ORDER BY.
    """

    listed: tuple[Part, ...]
    whole: Node
    unshown: int = 0

    @property
    def several(self) -> bool:
        """Whether the lines are not just those of one statement."""
        return len(self.listed) > 1 or any(part.dropped for part in self.listed)


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
    return found


def parts(
    source: Source, tables: Mapping[str, Table], written: Node, tree: Node, constants: Constants
) -> Parts:
    """Return the statements that UNION ALL or sets of keys combine.

    ``written`` is the same statement before queries of FROM are put where they are used.
    """
    selects = branches(source, tree)
    found = [grouping_sets(source, tables, select, constants) for select in selects]
    whole = tree if len(found) > 1 else found[0].whole
    listed: list[Part] = []
    for own, sets in zip(branches(source, written), found, strict=True):
        if whole is tree and len(sets.selects) > 1:
            for clause in ("order", "limit", "offset"):
                if sets.whole.args.get(clause):
                    source.refuse(
                        f"{clause.upper()} of a part with several sets of keys is not supported",
                        "Write it last, for all lines.",
                        sets.whole.args[clause],
                    )
        pairs = zip(sets.selects, sets.dropped, strict=True)
        listed += [Part(select, own, dropped) for select, dropped in pairs]
    if len(listed) > MOST_BRANCHES:
        source.refuse(
            f"UNION ALL combines {len(listed):,} statements, more than {MOST_BRANCHES}",
            _APART,
            tree,
        )
    return Parts(tuple(listed), whole, 0 if len(found) > 1 else found[0].unshown)


def united(source: Source, found: Parts, queries: Sequence[Query], arguments: Arguments) -> Union:
    """Return the queries of UNION ALL together; their columns must be alike."""
    tree = found.whole
    listed = [query.shown.outermost for query in queries]
    first = listed[0]
    for query, columns in zip(queries, listed, strict=True):
        if query.table != queries[0].table:
            texts = dict.fromkeys(source.written(part.written) for part in found.listed)
            source.refuse(
                "UNION ALL combines statements over one table",
                f"Write each SELECT as a statement of its own: {'; '.join(texts)}.",
                tree,
            )
        if query.promise is not None:
            source.refuse(
                "OPTIONS cannot stand in one of several statements", "Leave it out.", tree
            )
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
    dropped = [part.dropped for part in found.listed]
    mark = _mark(queries, listed) if any(dropped) else None
    if mark is not None:
        queries = [_marked(*pair, mark) for pair in zip(queries, dropped, strict=True)]
    # a column has the kind of the labels that a set shows
    kinds = [
        next((columns[i] for columns, left in zip(listed, dropped, strict=True) if i not in left), column)
        for i, column in enumerate(first)
    ]  # fmt: skip
    named = [replace(kind, alias=column.alias) for kind, column in zip(kinds, first, strict=True)]
    reader = LevelReader(arguments.conditions, arguments, named)
    shown = reader.read(_around(tree, [column.alias for column in first]))
    return Union(tuple(queries), shown, mark, found.unshown)


def _mark(queries: Sequence[Query], listed: Sequence[Sequence[Column]]) -> str:
    """Return what stands for keys that a set leaves out: no label of a group, and no constant."""
    labels = (one for query in queries for key in query.keys for one in key.labels)
    expressions = (column.expression for columns in listed for column in columns)
    constants = (one.value for one in expressions if isinstance(one, Literal))
    taken = {one.casefold() for one in (*labels, *constants) if isinstance(one, str)}
    mark = "all"
    while mark in taken:
        mark = f"({mark})"
    return mark


def _marked(query: Query, dropped: frozenset[int], mark: str) -> Query:
    """Return a query that shows the mark in place of the keys that its set leaves out."""
    *inner, last = query.shown.levels()
    columns = tuple(
        replace(column, expression=Literal(mark)) if place in dropped else column
        for place, column in enumerate(last.columns or ())
    )
    shown: OuterPart = replace(last, columns=columns)
    for level in reversed(inner):
        shown = replace(level, around=shown)
    return replace(query, shown=shown)


def _around(tree: Node, names: list[str]) -> exp.Select:
    """Return what a union asks of its lines, as a query around them."""
    order = tree.args.get("order")
    for term in () if order is None else order.expressions:
        inner = term.this if isinstance(term, exp.Ordered) else term
        place = int(inner.this) if isinstance(inner, exp.Literal) and inner.is_int else 0
        if 1 <= place <= len(names):
            inner.replace(exp.column(exp.to_identifier(names[place - 1], quoted=True)))
    for column in [] if order is None else [*order.find_all(exp.Column)]:
        if PLACE in column.meta:
            column.set("this", exp.to_identifier(names[column.meta[PLACE]], quoted=True))
    clauses = {name: tree.args.get(name) for name in ("order", "limit", "offset")}
    return exp.Select(expressions=[exp.Star()], **clauses)
