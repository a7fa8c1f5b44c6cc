"""HAVING of a decision: aggregates compared with numbers, whose errors are bounded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.errors import nearest
from dpnb.schema.predicates import FLIPPED
from dpnb.sql.aggregates import Aggregates, is_formula
from dpnb.sql.comparisons import ORDERS
from dpnb.sql.constants import is_constant
from dpnb.sql.query import Aggregate, Compare, Having, Junction
from dpnb.sql.source import Node, bare, others
from dpnb.sql.statistics import is_statistic


class HavingReader:
    """Reader of the condition that a decision decides.

    ``thresholds`` are parameters that stand for another number in each group.
    """

    def __init__(self, aggregates: Aggregates, thresholds: Collection[str]) -> None:
        self.aggregates = aggregates
        self.conditions = aggregates.conditions
        self.refuse = aggregates.refuse
        self.thresholds = thresholds

    def read(self, node: Node, shown: Sequence[Aggregate]) -> Having:
        """Read a condition; ``shown`` are the aggregates of the SELECT list."""
        if isinstance(node, exp.Paren):
            return self.read(node.this, shown)
        if isinstance(node, exp.Not):
            return Junction("NOT", (self.read(node.this, shown),))
        if isinstance(node, exp.And | exp.Or):
            parts = node.flatten(unnest=False)
            return Junction(
                "AND" if isinstance(node, exp.And) else "OR",
                tuple(self.read(part, shown) for part in parts),
            )
        if isinstance(node, exp.Between) and not others(node.args, "this", "low", "high"):
            aggregate = self._measured(node.this, shown)
            low, high = (self._threshold(node.args[name]) for name in ("low", "high"))
            ends = Compare(aggregate, ">=", low), Compare(aggregate, "<=", high)
            return Junction("AND", ends)
        if type(node) not in ORDERS:
            self.refuse(
                "this condition is not supported",
                "Compare aggregates with constants, with AND, OR, NOT, BETWEEN.",
                node,
            )
        operator, left, right = ORDERS[type(node)], bare(node.this), bare(node.expression)
        if is_constant(left):
            left, right, operator = right, left, FLIPPED[operator]
        return Compare(self._measured(left, shown), operator, self._threshold(right))

    def _threshold(self, node: Node) -> Fraction | str:
        if isinstance(node, exp.Placeholder) and str(node.this) in self.thresholds:
            return str(node.this)
        value = self.conditions.constants.value(node)
        if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
            self.refuse("this must be a number", "Write the number without quotes.", node)
        return self.aggregates.arguments.moderate(Fraction(value), node)

    def _measured(self, node: Node, shown: Sequence[Aggregate]) -> Aggregate:
        """Return the aggregate that a node names or contains."""
        if isinstance(node, exp.Column):
            for aggregate in shown:
                if aggregate.alias.casefold() == node.name.casefold():
                    return aggregate
            self.refuse(
                f"{node.name!r} is not an aggregate of this statement",
                nearest(node.name, [a.alias for a in shown]) if shown else "Write COUNT(*) > 10.",
                node,
            )
        if is_statistic(bare(node)):
            self.refuse(
                "a decision compares a COUNT, SUM or AVG with a number",
                "Compare a share: AVG(CASE WHEN x > 40 THEN 1 ELSE 0 END) > 0.5 for MEDIAN(x) > 40.",
                node,
            )
        if is_formula(node):
            self.refuse(
                "a decision compares one aggregate with a number",
                "Write one aggregate: AVG(x) for SUM(x) / COUNT(x), and for a share "
                "AVG(CASE WHEN ... THEN 1 ELSE 0 END).",
                node,
            )
        operand = self.aggregates.aggregate(bare(node), "")
        return next((aggregate for aggregate in shown if aggregate.means(operand)), operand)
