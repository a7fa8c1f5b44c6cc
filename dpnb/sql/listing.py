"""What every level of a statement has: names of columns, windows, ORDER BY, LIMIT and OFFSET."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.sql.constants import is_constant
from dpnb.sql.scalars import Scalars
from dpnb.sql.shown import Column, Expression, Field, Term, Total, is_label, parts
from dpnb.sql.source import Node, others

_MOST_LINES = 10**18


class Listing:
    """The columns that a SELECT lists, and the clauses that work on them."""

    def __init__(self, scalars: Scalars) -> None:
        self.scalars = scalars
        self.refuse = scalars.refuse
        self.columns: dict[str, Column] = {}
        """The columns of the SELECT list by their names, in small letters."""
        self.names: dict[str, Node] = {}
        """Names of the result's columns, with where they come from."""
        self.windows: dict[str, Node] = {}
        """The windows of the WINDOW clause."""

    def define(self, select: exp.Select) -> None:
        """Read the names of the WINDOW clause."""
        named = select.args.get("windows") or []
        self.windows = {node.this.name.casefold(): node for node in named}

    def entry(self, node: Node) -> tuple[Node, str]:
        """Return the expression and the name of one entry of the SELECT list."""
        if not isinstance(node, exp.Alias):
            return node, ""
        if "\0" in node.alias:
            self.refuse("a name contains U+0000", "Name it with letters and digits.", node)
        return node.this, node.alias

    def show(self, name: str, expression: Expression, node: Node) -> None:
        """Add a column, whose names must be new."""
        ends = () if is_label(expression) else (f"{name}_low", f"{name}_high")
        for taken in (name, *ends):
            if taken.casefold() in self.names:
                self.refuse(f"two results are called {taken!r}", "Name them with AS.", node)
            self.names[taken.casefold()] = node
        self.columns[name.casefold()] = Column(name, expression)

    def condition(self, node: Node | None) -> Expression | None:
        """Read the condition of a clause."""
        return None if node is None else self.scalars.truth(node.this)

    def distinct(self, node: Node | None, *, allowed: bool = True) -> bool:
        """Return whether equal lines are shown once."""
        if node is None:
            return False
        if others(node.args) or not allowed:
            self.refuse("DISTINCT is not supported", "Leave it out.", node, "DISTINCT")
        return True

    def terms(self, order: Node | None) -> Iterator[Term]:
        """Read ORDER BY."""
        for node in () if order is None else order.expressions:
            inner = node.this if isinstance(node, exp.Ordered) else node
            if isinstance(inner, exp.Literal):
                self.refuse("ORDER BY takes names", "Write the name, not its position.", node)
            expression = self.scalars.read(inner)
            if not any(isinstance(part, Field | Total) for part in parts(expression)):
                self.refuse(
                    "this orders nothing: it is the same for all groups",
                    "Order by a group column or a result.",
                    inner,
                )
            yield Term(expression, bool(node.args.get("desc")))

    def whole(self, node: Node | None, word: str) -> int | None:
        """Read the number of LIMIT or OFFSET."""
        if node is None:
            return None
        value = node.args.get("expression")
        known = isinstance(node, exp.Limit | exp.Offset) and not others(node.args, "expression")
        constants = self.scalars.conditions.constants
        count = constants.value(value) if known and is_constant(value) else None
        if isinstance(count, Fraction) and count.denominator == 1 and 0 <= count < _MOST_LINES:
            return int(count)
        self.refuse(f"{word} takes a whole number", f"Write {word} 10.", node)
