"""Joins as they are written: entries of FROM, and the equalities by which tables are looked up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import expressions as exp

from dpnb.sql.source import Node, Source, others

if TYPE_CHECKING:
    from dpnb.sql.relations import Relation

Side: TypeAlias = tuple[int, str]
"""One side of ON: the position of a table in FROM, and the column as written."""
SHAPE = "Write FROM a JOIN b ON a.x = b.x."


@dataclass(frozen=True, slots=True)
class Link:
    """An equality of columns of two tables of FROM."""

    sides: tuple[Side, Side]

    def of(self, place: int) -> str:
        """Return the column of the table at a position."""
        return next(name for side, name in self.sides if side == place)

    def other(self, place: int) -> Side:
        """Return the other side: its position and column."""
        return next(side for side in self.sides if side[0] != place)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of FROM: its table, its tree, and how it can be joined with others."""

    relation: Relation
    node: Node
    links: list[Link] = field(default_factory=list)


def check_join(source: Source, node: Node) -> bool:
    """Return whether a join drops rows without a match; refuse unsupported joins."""
    side, kind, method = (str(node.args.get(n) or "").upper() for n in ("side", "kind", "method"))
    if isinstance(node.this, exp.Lateral):
        source.refuse("LATERAL is not supported", SHAPE, node.this)
    known = (("", ""), ("", "INNER"), ("", "CROSS"), ("LEFT", ""), ("LEFT", "OUTER"))
    if (side, kind) not in known or method:
        word = " ".join(filter(None, (method, side, kind)))
        source.refuse(f"{word} JOIN is not supported", SHAPE, node.this)
    if others(node.args, "this", "on", "using", "side", "kind"):
        source.refuse("this join is not supported", SHAPE, node.this)
    if side and not node.args.get("on") and not node.args.get("using"):
        source.refuse("a join needs a condition", SHAPE, node.this)
    return not side


def is_column(node: Node) -> bool:
    """Return whether a node names a column, perhaps with its table."""
    return (
        isinstance(node, exp.Column)
        and isinstance(node.this, exp.Identifier)
        and not others(node.args, "this", "table")
    )
