"""Expressions of results: from trees to what ``dpnb.sql.shown`` describes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.sql.aggregates import SHAPE, holds_result
from dpnb.sql.comparisons import ORDERS
from dpnb.sql.conditions import Conditions
from dpnb.sql.constants import is_constant
from dpnb.sql.expressions import MAX_DEPTH, Arguments
from dpnb.sql.operators import OPERATORS
from dpnb.sql.shown import Call, Choice, Expression, Kind, Literal, Window, is_label, kind_of
from dpnb.sql.source import Node, others
from dpnb.sql.unanswered import check_answer

_ARITHMETIC: dict[type, str] = {**OPERATORS, exp.Mod: "%", exp.IntDiv: "//"}
_NUMERIC: dict[type, str] = {
    exp.Abs: "ABS", exp.Ceil: "CEIL", exp.Exp: "EXP", exp.Floor: "FLOOR", exp.Ln: "LN",
    exp.Sign: "SIGN", exp.Sqrt: "SQRT",
}  # fmt: skip
"""Functions of one number."""
_TEXTUAL: dict[type, str] = {exp.Upper: "UPPER", exp.Lower: "LOWER"}
_CHOSEN: dict[type, str] = {
    exp.Coalesce: "COALESCE", exp.Greatest: "GREATEST", exp.Least: "LEAST",
}  # fmt: skip
"""Functions of several values of one kind, which is also their own."""
_WHOLE = (*exp.DataType.INTEGER_TYPES, exp.DataType.Type.INT128)
_REAL = (*exp.DataType.FLOAT_TYPES,)
_ALLOWED = (
    "Combine results by + - * / and ROUND, CEIL, FLOOR, TRUNC, ABS, SIGN, POWER, SQRT, EXP, LN, LOG, GREATEST, LEAST, "
    "COALESCE, NULLIF, CAST and CASE."
)
_TESTS = "Use =, <>, <, <=, >, >=, BETWEEN, IN or IS NULL, with AND, OR, NOT."


class Scalars:
    """Reader of the expressions of one level.

    Parameters
    ----------
    conditions : Conditions
        For constants, parameters and errors.
    arguments : Arguments
        For the size of constants.
    leaf : callable
        Returns what a column or an aggregate stands for; None for a node that is to be taken apart.
    """

    def __init__(
        self,
        conditions: Conditions,
        arguments: Arguments,
        leaf: Callable[[Node], Expression | None],
    ) -> None:
        self.conditions = conditions
        self.arguments = arguments
        self.refuse = conditions.refuse
        self.leaf = leaf

    def read(self, node: Node, depth: int = 0) -> Expression:
        """Read an expression of any kind."""
        if depth > MAX_DEPTH:
            self.refuse("the expression is nested too deeply", "Flatten it.", node)
        if isinstance(node, exp.Paren):
            return self.read(node.this, depth + 1)
        known = self.leaf(node)
        if known is not None:
            return known
        for reader in (self._constant, self._test, self._function):
            expression = reader(node, depth + 1)
            if expression is not None:
                return expression
        if node.find(exp.Select, exp.Subquery) is not None:
            self.refuse("subqueries are not supported", "Write the values out.", node)
        check_answer(self.conditions, node)
        computed = holds_result(node)
        self.refuse("this expression is not supported", _ALLOWED if computed else SHAPE, node)

    def number(self, node: Node, depth: int = 0) -> Expression:
        """Read a number."""
        expression = self.read(node, depth)
        if kind_of(expression) not in (Kind.NUMBER, None):
            self.refuse(
                f"this must be a number, not a {kind_of(expression)}",
                "Use a result or a number.",
                node,
            )
        return expression

    def truth(self, node: Node, depth: int = 0) -> Expression:
        """Read a condition."""
        expression = self.read(node, depth)
        if kind_of(expression) not in (Kind.TRUTH, None):
            self.refuse("this must be a condition", _TESTS, node)
        return expression

    def _constant(self, node: Node, depth: int) -> Expression | None:
        if isinstance(node, exp.Null):
            return Literal(None)
        if type(node) in ORDERS or not is_constant(node):
            return None
        value = self.conditions.constants.value(node)
        if isinstance(value, datetime.date):
            return Literal(value.isoformat())
        if isinstance(value, str | bool):
            return Literal(value)
        return Literal(self.arguments.moderate(Fraction(value), node))

    # conditions

    def _test(self, node: Node, depth: int) -> Expression | None:
        if isinstance(node, exp.Not):
            return Call("NOT", (self.truth(node.this, depth),), Kind.TRUTH)
        if isinstance(node, exp.And | exp.Or):
            tests = tuple(self.truth(part, depth) for part in node.flatten(unnest=False))
            return Call("AND" if isinstance(node, exp.And) else "OR", tests, Kind.TRUTH)
        if type(node) in ORDERS:
            left, right = self._alike((node.this, node.expression), node, depth)
            return Call(ORDERS[type(node)], (left, right), Kind.TRUTH)
        if isinstance(node, exp.Between) and not others(node.args, "this", "low", "high"):
            bounds = node.args["low"], node.args["high"]
            value, low, high = self._alike((node.this, *bounds), node, depth)
            ends = (
                Call(">=", (value, low), Kind.TRUTH), Call("<=", (value, high), Kind.TRUTH),
            )  # fmt: skip
            return Call("AND", ends, Kind.TRUTH)
        if isinstance(node, exp.In) and not others(node.args, "this", "expressions"):
            value, *listed = self._alike((node.this, *node.expressions), node, depth)
            tests = tuple(Call("=", (value, one), Kind.TRUTH) for one in listed)
            return Call("OR", tests, Kind.TRUTH)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Call("IS NULL", (self.read(node.this, depth),), Kind.TRUTH)
        return None

    def _alike(self, nodes: Sequence[Node], node: Node, depth: int) -> tuple[Expression, ...]:
        """Read expressions that must be of one kind."""
        expressions = tuple(self.read(part, depth) for part in nodes)
        kinds = sorted({kind for kind in map(kind_of, expressions) if kind is not None})
        if len(kinds) > 1:
            self.refuse(
                f"this takes a {kinds[0]} and a {kinds[1]} together",
                "Use values of one kind; texts take single quotes, numbers none.",
                node,
            )
        return expressions

    # functions

    def _function(self, node: Node, depth: int) -> Expression | None:
        if type(node) in _ARITHMETIC and not others(
            node.args, "this", "expression", "typed", "safe"
        ):
            left, right = (self.number(part, depth) for part in (node.this, node.expression))
            if isinstance(node, exp.Div):
                return _quotient(left, right)
            return Call(_ARITHMETIC[type(node)], (left, right), Kind.NUMBER)
        if isinstance(node, exp.Neg):
            return Call("*", (Literal(Fraction(-1)), self.number(node.this, depth)), Kind.NUMBER)
        if type(node) in _NUMERIC and not others(node.args, "this"):
            return Call(_NUMERIC[type(node)], (self.number(node.this, depth),), Kind.NUMBER)
        if isinstance(node, exp.Round | exp.Trunc) and not others(node.args, "this", "decimals"):
            return self._rounded(node, depth)
        if isinstance(node, exp.Pow):
            pair = tuple(self.number(part, depth) for part in (node.this, node.expression))
            return Call("POWER", pair, Kind.NUMBER)
        if isinstance(node, exp.Log):
            base: Expression = Literal(Fraction(10))
            value = node.this
            if node.args.get("expression"):
                base, value = self._positive(node.this, depth), node.expression
            return Call("LOG", (base, self.number(value, depth)), Kind.NUMBER)
        if type(node) in _CHOSEN and not others(node.args, "this", "expressions", "ignore_nulls"):
            values = self._alike((node.this, *node.expressions), node, depth)
            kind = next(filter(None, map(kind_of, values)), Kind.NUMBER)
            return Call(_CHOSEN[type(node)], values, kind)
        if isinstance(node, exp.Nullif):
            values = self._alike((node.this, node.expression), node, depth)
            return Call("NULLIF", values, kind_of(values[0]) or Kind.NUMBER)
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._cast(node, depth)
        if isinstance(node, exp.Case):
            return self._case(node, depth)
        if isinstance(node, exp.If):
            default = node.args.get("false") or exp.Null()
            return self._choice([(node.this, node.args["true"])], default, None, node, depth)
        if isinstance(node, exp.DPipe | exp.Concat):
            return self._joined(node, depth)
        if type(node) in _TEXTUAL and not others(node.args, "this"):
            text = self._text(node.this, depth)
            return Call(_TEXTUAL[type(node)], (text,), Kind.TEXT)
        return None

    def _positive(self, node: Node, depth: int) -> Expression:
        """Read the base of a logarithm."""
        base = self.number(node, depth)
        if not isinstance(base, Literal) or not isinstance(base.value, Fraction):
            self.refuse("the base of LOG must be a number", "Write LOG(2, x).", node)
        if base.value <= 0 or base.value == 1:
            self.refuse("the base of LOG must be above 0, and not 1", "Write LOG(2, x).", node)
        return base

    def _rounded(self, node: Node, depth: int) -> Expression:
        name = "ROUND" if isinstance(node, exp.Round) else "TRUNC"
        digits = Fraction(0)
        if node.args.get("decimals") is not None:
            digits = self.arguments.number(node.args["decimals"])
        if digits.denominator != 1 or abs(digits) > 30:
            self.refuse(f"{name} takes a whole number of digits", f"Write {name}(x, 1).", node)
        value = self.number(node.this, depth)
        return Call(name, (value, Literal(digits)), Kind.NUMBER)

    def _cast(self, node: Node, depth: int) -> Expression:
        kind = node.to.this
        if kind in _WHOLE:
            return Call("INTEGER", (self.number(node.this, depth),), Kind.NUMBER)
        if kind in _REAL:
            return self.number(node.this, depth)
        if kind == exp.DataType.Type.DECIMAL:
            parameters = [part.this for part in node.to.expressions]
            digits = self.arguments.number(parameters[1]) if len(parameters) > 1 else Fraction(3)
            value = self.number(node.this, depth)
            return Call("ROUND", (value, Literal(digits)), Kind.NUMBER)
        if kind in exp.DataType.TEXT_TYPES:
            return Call("TEXT", (self._text(node.this, depth),), Kind.TEXT)
        self.refuse(
            "a result cannot be cast to this type",
            "Cast to INTEGER, DOUBLE or DECIMAL, and group columns to VARCHAR.",
            node,
        )

    def _case(self, node: Node, depth: int) -> Expression:
        branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        default = node.args.get("default") or exp.Null()
        return self._choice(branches, default, node.this, node, depth)

    def _choice(
        self,
        branches: Sequence[tuple[Node, Node]],
        default: Node,
        operand: Node | None,
        node: Node,
        depth: int,
    ) -> Expression:
        values = self._alike([*(value for _, value in branches), default], node, depth)
        tests: list[Expression] = []
        for test, _ in branches:
            if operand is None:
                tests.append(self.truth(test, depth))
            else:
                tests.append(Call("=", self._alike((operand, test), node, depth), Kind.TRUTH))
        kind = next(filter(None, map(kind_of, values)), Kind.NUMBER)
        return Choice(tuple(zip(tests, values[:-1], strict=True)), values[-1], kind)

    def _joined(self, node: Node, depth: int) -> Expression:
        both = isinstance(node, exp.DPipe)
        nodes = (node.this, node.expression) if both else tuple(node.expressions)
        texts = tuple(self._text(part, depth) for part in nodes)
        return Call("||" if both else "CONCAT", texts, Kind.TEXT)

    def _text(self, node: Node, depth: int) -> Expression:
        """Read a text, or a label that is shown as one."""
        expression = self.read(node, depth)
        if not is_label(expression):
            self.refuse(
                "a result cannot be part of a text: it would lose its interval",
                "Show the result as a column of its own.",
                node,
            )
        return expression


def counted(argument: Expression, condition: Expression | None = None) -> Expression:
    """Return 1 where a value is not NULL, and a condition holds; else NULL."""
    present = Call("NOT", (Call("IS NULL", (argument,), Kind.TRUTH),), Kind.TRUTH)
    tests = (present,) if condition is None else (present, condition)
    return Choice(
        ((Call("AND", tests, Kind.TRUTH), Literal(Fraction(1))),), Literal(None), Kind.NUMBER
    )


def _quotient(left: Expression, right: Expression) -> Expression:
    """Return a quotient; a share of a total keeps it together: ``100 * x / t`` is ``100 * (x / t)``."""
    if isinstance(left, Call) and left.function == "*" and isinstance(right, Window):
        factor, part = left.arguments
        if isinstance(part, Literal):
            factor, part = part, factor
        if isinstance(factor, Literal) and right.arguments == (part,):
            return Call("*", (factor, Call("/", (part, right), Kind.NUMBER)), Kind.NUMBER)
    return Call("/", (left, right), Kind.NUMBER)
