"""What is computed from the columns of one row and constants, and from nothing else."""

from __future__ import annotations

from sqlglot import expressions as exp

from dpnb.sql.grammar import is_written
from dpnb.sql.names import own_nodes
from dpnb.sql.source import Node, Source


def check_row(source: Source, node: Node) -> None:
    """Refuse an expression that counts, draws, reads or sets anything, also where nobody uses it."""
    for part in own_nodes(node):
        if isinstance(part, exp.Query):
            source.refuse("subqueries are not supported here", "Write the values out.", node)
        if isinstance(part, exp.Window):
            source.refuse("window functions over rows are not supported", "Use GROUP BY.", node)
        if not isinstance(part, exp.Column | exp.Identifier) and not is_written(part):
            word = source.written(part).partition("(")[0].strip().upper()
            source.refuse(
                f"{word} cannot be computed in a subquery",
                "Compute one value for each row, from its columns and constants.",
                node,
            )
