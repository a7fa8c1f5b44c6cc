"""Aggregates and formulas of the SELECT list, read from their trees."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal

from sqlglot import expressions as exp

from dpnb.schema.predicates import EVERY, And, Predicate, simplify
from dpnb.sql.canonical import alias_of, default_alias, unused
from dpnb.sql.conditions import Conditions
from dpnb.sql.contributions import Contributions
from dpnb.sql.expressions import MAX_DEPTH, Arguments
from dpnb.sql.formulas import Applied, Combined, Constant, Formula, Leaf
from dpnb.sql.functions import Function, Measured
from dpnb.sql.operators import OPERATORS
from dpnb.sql.query import Aggregate, Derived
from dpnb.sql.source import Node, bare, others
from dpnb.sql.statistics import Statistics, is_statistic
from dpnb.sql.unanswered import check_answer
from dpnb.sql.values import Column, Number, Operator

_FUNCTIONS: dict[type, Measured] = {
    exp.Count: Function.COUNT, exp.Sum: Function.SUM, exp.Avg: Function.AVG,
}  # fmt: skip
SHAPE = (
    "Write COUNT(*), COUNT(x), SUM(x) or AVG(x), MEDIAN(x), QUANTILE(x, 0.9), VARIANCE(x) or "
    "STDDEV(x), with FILTER (WHERE ...) if needed, or combine them by + - * /, EXP, LN and SQRT."
)
_APPLIED: dict[type, Literal["EXP", "LN", "SQRT"]] = {
    exp.Exp: "EXP", exp.Ln: "LN", exp.Sqrt: "SQRT",
}  # fmt: skip
_COMBINING = (*OPERATORS, exp.Neg, *_APPLIED)
_RESULTS = (exp.Count, exp.Sum, exp.Avg, exp.CountIf, exp.Filter)


def is_formula(node: Node) -> bool:
    """Return whether a node combines results instead of being one."""
    return isinstance(bare(node), _COMBINING) or is_statistic(bare(node))


def is_result(node: Node) -> bool:
    """Return whether a node is an aggregate, or arithmetic on aggregates and numbers."""
    return _nature(node) == "result"


def holds_result(node: Node) -> bool:
    """Return whether there is an aggregate in a node."""
    return any(isinstance(part, _RESULTS) or is_statistic(part) for part in node.walk())


def _nature(node: Node) -> Literal["result", "constant", ""]:
    inner = bare(node)
    if is_statistic(inner) or isinstance(inner, _RESULTS):
        return "result"
    if isinstance(inner, exp.Literal | exp.Placeholder):
        return "constant"
    natures = set(map(_nature, _operands(inner))) if isinstance(inner, _COMBINING) else {""}
    if "" in natures:
        return ""
    return "result" if "result" in natures else "constant"


def _operands(node: Node) -> list[Node]:
    return [operand for operand in (node.this, node.args.get("expression")) if operand]


def same(left: Aggregate | Derived, right: Aggregate | Derived) -> bool:
    """Return whether two results are the same apart from their names and positions."""
    if isinstance(left, Aggregate) or isinstance(right, Aggregate):
        return isinstance(left, Aggregate) and isinstance(right, Aggregate) and left.means(right)
    if left.formula != right.formula:
        return False
    # equal formulas have equally many leaves
    return all(leaf.means(other) for leaf, other in zip(left.leaves, right.leaves, strict=True))


def _place(leaves: list[Aggregate], aggregate: Aggregate) -> int:
    """Return the position of an aggregate among the leaves; append it if it is new."""
    for place, leaf in enumerate(leaves):
        if leaf.means(aggregate):
            return place
    leaves.append(aggregate)
    return len(leaves) - 1


class Aggregates:
    """Reader of a statement's aggregates and the arithmetic on them."""

    def __init__(self, conditions: Conditions, contributions: Contributions) -> None:
        self.conditions = conditions
        self.contributions = contributions
        self.arguments = Arguments(conditions)
        self.statistics = Statistics(self.arguments, contributions)
        self.refuse = conditions.refuse

    def output(self, node: Node, alias: str, place: int) -> Aggregate | Derived:
        """Read one column of the SELECT list that is not a group column."""
        if not is_formula(node):
            return self.aggregate(bare(node), alias)
        leaves: list[Aggregate] = []
        formula = self._formula(node, leaves, 0)
        if not leaves:
            self.refuse("this expression is not supported", SHAPE, node)
        if isinstance(formula, Leaf):
            leaf = leaves[0]
            return Aggregate(leaf.function, leaf.value, leaf.filter, alias or leaf.alias)
        names: set[str] = set()
        unique_leaves = (replace(leaf, alias=unused(leaf.alias, names)) for leaf in leaves)
        return Derived(formula, tuple(unique_leaves), alias or self._default_alias(node), place)

    def _default_alias(self, node: Node) -> str:
        if not is_statistic(bare(node)):
            return "formula"
        return default_alias(*self.statistics.name(bare(node)))

    def aggregate(self, node: Node, alias: str) -> Aggregate:
        """Read a single aggregate."""
        inner = node
        condition: Predicate = EVERY
        if isinstance(node, exp.Filter):
            if not isinstance(node.expression, exp.Where):
                self.refuse("FILTER needs a condition", "Write FILTER (WHERE ...).", node)
            inner, condition = node.this, self.conditions.predicate(node.expression.this)
        if isinstance(inner, exp.CountIf):
            return self._count_if(inner, condition, alias)
        function = _FUNCTIONS.get(type(inner))
        self.contributions.settle(inner, self.arguments)
        if isinstance(inner, exp.Window):
            self.refuse("window functions are not supported", "Use GROUP BY.", node)
        if isinstance(inner, (exp.Subquery, exp.Select)):
            self.refuse("subqueries are not supported", "Write one SELECT over one table.", node)
        if function is None:
            check_answer(self.conditions, node)
            self.refuse("this expression is not supported", SHAPE, node)
        argument = inner.this
        if isinstance(argument, exp.Distinct):
            return self._distinct(inner, function, condition, alias)
        if others(inner.args, "this", "big_int") or argument is None:
            self.refuse(f"{function} takes one column", SHAPE, node)
        if function is Function.COUNT and isinstance(argument, exp.Star):
            if others(argument.args):
                self.refuse("COUNT(*) takes no EXCLUDE or REPLACE", SHAPE, node)
            return Aggregate(Function.COUNT, None, condition, alias or "count")
        if function is Function.COUNT and self.arguments.is_joint(argument):
            self.conditions.products.check(argument)
            there = exp.Not(this=exp.Is(this=exp.paren(argument.copy()), expression=exp.Null()))
            both = And((condition, self.conditions.predicate(there)))
            alias = alias or alias_of(function, self.conditions.columns(argument))
            return Aggregate(Function.COUNT, None, simplify(both, self.conditions.schema), alias)
        value = self.arguments.value(function, argument, condition)
        # a constant is never missing: COUNT(1) is COUNT(*)
        counted = None if function is Function.COUNT and isinstance(value, Number) else value
        return Aggregate(function, counted, condition, alias or default_alias(function, counted))

    def _count_if(self, node: Node, condition: Predicate, alias: str) -> Aggregate:
        """Read COUNT_IF(x > 3) FILTER (WHERE ...) as COUNT(*) with both conditions."""
        if others(node.args, "this") or isinstance(node.this, exp.Distinct | exp.Star):
            self.refuse("COUNT_IF takes one condition", "Write COUNT_IF(x > 3).", node)
        test = self.conditions.predicate(node.this)
        conjunction = simplify(And((condition, test)), self.conditions.schema)
        return Aggregate(Function.COUNT, None, conjunction, alias or "count_if")

    def _distinct(
        self, node: Node, function: Measured, condition: Predicate, alias: str
    ) -> Aggregate:
        columns, unit = node.this.expressions, self.conditions.schema.unit
        alone = function is Function.COUNT and len(columns) == 1
        plain = alone and not others(node.args, "this", "big_int")
        if unit is not None and plain and self.conditions.names_unit(columns[0]):
            return Aggregate(Function.UNITS, None, condition, alias or f"count_{unit.column}")
        if function is not Function.COUNT:
            text = self.conditions.written(columns[0])
            self.refuse(
                f"single rows decide {function}(DISTINCT {text})",
                f"Write {function}({text}).",
                node,
            )
        if not plain:
            text = self.conditions.written(columns[0])
            self.refuse("COUNT(DISTINCT) takes one column", f"Write COUNT(DISTINCT {text}).", node)
        value = Column(self.conditions.column(columns[0]))
        return Aggregate(
            Function.DISTINCT, value, condition, alias or default_alias("DISTINCT", value)
        )

    def _formula(self, node: Node, leaves: list[Aggregate], depth: int) -> Formula:
        if depth > MAX_DEPTH:
            self.refuse("the formula is nested too deeply", "Flatten it.", node)
        if isinstance(node, exp.Paren):
            return self._formula(node.this, leaves, depth + 1)
        if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
            argument = self._formula(node.this, leaves, depth + 1)
            return self._combined("*", Constant(Fraction(-1)), argument, node)
        if type(node) in OPERATORS and not others(node.args, "this", "expression", "typed", "safe"):
            left = self._formula(node.this, leaves, depth + 1)
            right = self._formula(node.expression, leaves, depth + 1)
            return self._combined(OPERATORS[type(node)], left, right, node)
        if type(node) in _APPLIED:
            return self._applied(_APPLIED[type(node)], node, leaves, depth)
        if is_statistic(node):
            return self.statistics.formula(node, partial(_place, leaves))
        if isinstance(node, (exp.Literal, exp.Neg, exp.Placeholder)):
            return Constant(self.arguments.number(node))
        if isinstance(node, exp.Column):
            self.refuse(
                "a formula takes aggregates and numbers, not columns", "Aggregate it, as in SUM(x) / COUNT(*).",
                node,
            )  # fmt: skip
        return Leaf(_place(leaves, self.aggregate(node, "")))

    def _applied(
        self,
        function: Literal["EXP", "LN", "SQRT"],
        node: Node,
        leaves: list[Aggregate],
        depth: int,
    ) -> Formula:
        argument = self._formula(node.this, leaves, depth + 1)
        if isinstance(argument, Constant):
            if function == "LN" and argument.value <= 0:
                self.refuse("LN needs a number above 0", "Change the number.", node)
            if function == "SQRT" and argument.value < 0:
                self.refuse("SQRT needs a number of 0 or more", "Change the number.", node)
        return Applied(function, argument)

    def _combined(self, operator: Operator, left: Formula, right: Formula, node: Node) -> Formula:
        if operator == "/" and isinstance(right, Constant) and right.value == 0:
            self.refuse("this divides by 0", "Change the divisor.", node)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(self.arguments.folded(operator, left.value, right.value, node))
        return Combined(operator, left, right)
