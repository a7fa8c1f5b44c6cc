"""What names mean in one SELECT: the columns of FROM, and the aliases of the SELECT list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlglot import expressions as exp

from dpnb.errors import nearest
from dpnb.sql.quoting import as_written
from dpnb.sql.source import MAX_NODES, Node, Source, others, placed

_ROOM = 10 * MAX_NODES
"""So many nodes may be copied in all: a CTE that is used twice, in a CTE used twice, grows fast."""
LARGE = (
    f"the statement has more than {MAX_NODES:,} parts once its subqueries are put in",
    "Use each subquery fewer times.",
)
"""Error message and hint."""
ORDER = ("the order of the columns of a table is not declared", "Name them in a SELECT: x AS y.")
"""Error message and hint."""


Named: TypeAlias = tuple[str, Node]
"""A column as it is spelled, and its expression over the tables of FROM."""


@dataclass(frozen=True, slots=True)
class Visible:
    """What one name of FROM shows: its columns by folded name.

    ``ordered`` is whether their order is that of the query; a declared table may have others
    between. ``open`` names a subquery that has results besides.
    """

    name: str
    columns: Mapping[str, Named]
    ordered: bool = True
    open: str = ""


@dataclass(slots=True)
class Result:
    """The rows of a public query of FROM.

    ``found`` has its columns by folded name, as expressions of what their rows are looked up by.
    """

    names: list[str]
    rows: list[tuple[Any, ...]]
    found: dict[str, Node] = field(default_factory=dict)


@dataclass(slots=True)
class Level:
    """FROM and WHERE of one SELECT: tables joined without condition, left joins, conditions.

    ``results`` are those of public queries, by the table of the columns that stand for theirs.
    """

    tables: list[Node] = field(default_factory=list)
    left: list[exp.Join] = field(default_factory=list)
    conditions: list[Node] = field(default_factory=list)
    visible: list[Visible] = field(default_factory=list)
    merged: dict[str, Named] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)

    def columns(self) -> Iterator[Named]:
        """Yield all columns that ``*`` stands for."""
        seen: set[str] = set()
        for visible in self.visible:
            for name, column in visible.columns.items():
                if name not in seen:
                    yield self.merged.get(name, column)
                seen |= {name} & self.merged.keys()


def folded(name: str) -> str:
    """Return a name as DuckDB compares it: only the letters A to Z are alike in both cases.

    Examples
    --------
    >>> folded("Age"), folded("ÄGE")
    ('age', 'Äge')
    """
    return name.encode().lower().decode()


def text_of(node: Node) -> str:
    """Return the text of an expression, in which names are alike in both cases."""
    result = node.copy()
    for name in result.find_all(exp.Identifier):
        name.args.update(this=folded(name.name), quoted=True)
    return str(result.sql(dialect="duckdb"))


def own_nodes(node: Node) -> Iterator[Node]:
    """Yield the nodes of an expression without those of subqueries in it."""
    yield from node.walk(prune=lambda part: isinstance(part, exp.Query))


class Names:
    """Puts expressions over the tables of FROM in place of the names in a statement."""

    def __init__(self, source: Source) -> None:
        self.refuse = source.refuse
        self.room = _ROOM

    def resolved(
        self, node: Node, level: Level, aliases: Mapping[str, Node], kept: frozenset[str] = frozenset()
    ) -> Node:  # fmt: skip
        """Return an expression over the tables of a level, in place of the names that it shows."""

        def put(part: Node) -> Node:
            if isinstance(part, exp.Query):
                return part.copy()
            if not isinstance(part, exp.Column) or not isinstance(part.this, exp.Identifier):
                return part
            if folded(part.name) in kept and not part.table and not part.find_ancestor(exp.AggFunc):
                return part.copy()
            return self.column(part, level, aliases)

        return node.transform(put)

    def column(self, node: Node, level: Level, aliases: Mapping[str, Node]) -> Node:
        """Return what a name stands for: a column of FROM, or else an alias of the SELECT list."""
        if others(node.args, "this", "table"):
            self.refuse(f"unknown table {node.sql(dialect='duckdb')!r}", "Write only the name of the column.", node)  # fmt: skip
        name = folded(node.name)
        among = self.among(node, level)
        matches = [visible.columns[name] for visible in among if name in visible.columns]
        if not node.table and name in level.merged:
            matches = [level.merged[name]]
        if len(matches) > 1:
            qualifiers = [f"{visible.name}.{as_written(node.name)}" for visible in among if name in visible.columns]  # fmt: skip
            self.refuse(f"several tables have a column {node.name!r}", f"Write {' or '.join(qualifiers)}.", node)  # fmt: skip
        if matches:
            return self.placed(_bracketed(matches[0][1].copy()), node)
        if not node.table and name in aliases:
            return self.placed(_bracketed(aliases[name].copy()), node)
        unnamed = [visible.open for visible in among if visible.open]
        if len(unnamed) == 1:
            return self.placed(base_column(node.name, unnamed[0]), node)
        known = [spelled for visible in among for spelled, _ in visible.columns.values() if spelled]
        self.refuse(f"unknown column {node.name!r}", nearest(node.name, known, shown=as_written), node)  # fmt: skip

    def among(self, node: Node, level: Level) -> list[Visible]:
        """Return the entries of FROM that a column can belong to."""
        if not node.args.get("table"):
            return level.visible
        among = [visible for visible in level.visible if visible.name == folded(node.table)]
        if not among:
            known = [visible.name for visible in level.visible if visible.name]
            hint = f"Tables of FROM: {', '.join(known)}." if known else "Write only the name."
            self.refuse(f"unknown table {node.table!r}", hint, node)
        return among

    def spend(self, node: Node) -> None:
        """Refuse a statement whose parts are copied too often."""
        self.room -= sum(1 for _ in node.walk())
        if self.room < 0:
            self.refuse(*LARGE)

    def placed(self, node: Node, written: Node) -> Node:
        """Give a node the place of what the user wrote, for error messages."""
        self.spend(node)
        return placed(node, written)


def base_column(name: str, table: str) -> exp.Column:
    """Return a column of one table of FROM."""
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True))


def _bracketed(node: Node) -> Node:
    """Put brackets around an expression that has operators."""
    # a number alone would be a position in GROUP BY and ORDER BY
    operators = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Interval, exp.Literal)
    return exp.Paren(this=node) if isinstance(node, operators) and not isinstance(node, exp.Paren) else node  # fmt: skip


def rename(source: Source, level: Level, name: str, columns: Sequence[Node]) -> None:
    """Show a level under one name, and its first columns under other names."""
    shown = list(level.columns())
    show(source, level, name, columns, shown, is_ordered(level), open_of(level))


def show(
    source: Source, level: Level, name: str, columns: Sequence[Node], shown: Sequence[Named], ordered: bool, open_: str
) -> None:  # fmt: skip
    """Show some columns of a level under one name, and the first of them under other names."""
    if len(columns) > len(shown):
        source.refuse("there are more names than columns", "Name each column once.", columns[-1])
    if columns and not ordered:
        source.refuse(*ORDER, columns[0])
    names = [column.name for column in columns]
    names += [spelled for spelled, _ in shown[len(columns) :]]
    found: dict[str, Named] = {}
    for spelled, (_, value) in zip(names, shown, strict=True):
        unique, number = spelled, 0
        while folded(unique) in found:
            # DuckDB calls the second column `a` of a subquery `a_1`
            number += 1
            unique = f"{spelled}_{number}"
        found[folded(unique)] = unique, value
    level.visible = [Visible(folded(name), found, ordered, open_)]
    level.merged = {}


def open_of(level: Level) -> str:
    """Return the name of the subquery whose results may have no names, or ""."""
    return next((visible.open for visible in level.visible if visible.open), "")


def is_ordered(level: Level) -> bool:
    """Return whether the columns of a level have the order of the query."""
    return all(visible.ordered for visible in level.visible)
