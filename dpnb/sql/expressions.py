"""Expressions inside an aggregate: from sqlglot trees to a ``Value`` with derived bounds."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpnb.codes import Interval
from dpnb.schema.columns import Category
from dpnb.schema.predicates import EVERY, NONE, And, Predicate, Within
from dpnb.schema.timestamps import EPOCH, Date, Timestamp
from dpnb.schema.types import Boolean
from dpnb.sql.conditions import Conditions, example
from dpnb.sql.conjuncts import branches_of
from dpnb.sql.constants import is_constant
from dpnb.sql.functions import Function
from dpnb.sql.narrowing import codes_of
from dpnb.sql.operators import (
    CALLS,
    OPERATORS,
    called,
    first_present,
    is_called,
    operands,
    shows_column,
    sign,
)
from dpnb.sql.outputs import MOST_PIECES, fraction
from dpnb.sql.quoting import as_written
from dpnb.sql.source import Node, bare, others
from dpnb.sql.values import (
    Arithmetic,
    Case,
    Column,
    Mapped,
    Number,
    Operator,
    Value,
    bounds_of,
    subvalues,
)

MAX_DEPTH = 40
"""Largest nesting depth of operations; the engine refuses deeper trees."""
LARGEST = Fraction(10) ** 150
"""Products of two numbers of this size are still finite as floats."""
_ALLOWED = "Use columns, numbers, + - * /, ABS, LEAST, GREATEST, COALESCE and CASE WHEN ... END."
_DAYS = ("DAY", "DAYS")
_EPOCH = exp.cast(exp.Literal.string(EPOCH.isoformat()), exp.DataType.Type.DATE)
_DIGITS = 4_000


def commuted(operator: Operator, left: Value, right: Value) -> Arithmetic:
    """Put the operands of + and * in one canonical order; these commute for floats, too."""
    if operator in ("+", "*") and repr(right) < repr(left):
        left, right = right, left
    return Arithmetic(operator, left, right)


class Arguments:
    """Reader of the arguments of a statement's aggregates."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.schema = conditions.schema
        self.refuse = conditions.refuse
        self.rows: Predicate = EVERY
        """The condition of WHERE."""
        self._counted: Predicate = EVERY
        """What the rows satisfy for which an argument, or a branch of it, is computed."""
        self._counts = False
        """Whether it matters only if a value is there: COUNT takes texts and dates, too."""

    def value(self, function: Function, node: Node, condition: Predicate = EVERY) -> Value:
        """Read the argument of an aggregate with a FILTER; check that its bounds are usable."""
        self._counted = And((self.rows, condition))
        self._counts = function is Function.COUNT
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        is_mapped = function is Function.COUNT and self._is_mapped(inner)
        if isinstance(inner, exp.Column):
            column = self.conditions.column(inner)
            kind = self.schema[column]
            # a condition is 1 where it is true, and 0 where it is false
            is_mapped = function is not Function.COUNT and isinstance(kind, Boolean)
            if function is not Function.COUNT and isinstance(kind, Category | Date | Timestamp):
                self._refuse_kind(function, column, kind, inner)
            if not is_mapped:
                return Column(column)
        argument = self._of_one_column(function, inner) if is_mapped else self._value(inner, 0)
        if argument is None:
            self.refuse(
                "this expression is NULL in every row",
                "Give it a value in some rows, or write 1 to count rows.",
                node,
            )
        self.check(function, argument, node)
        return argument

    def _refuse_kind(
        self, function: Function, column: str, kind: Category | Date | Timestamp, node: Node
    ) -> NoReturn:
        """Refuse a sum or a mean of texts or dates."""
        text = self.conditions.written(node)
        if isinstance(kind, Category):
            part = f"COUNT_IF({text} = {example(kind)})"
            if function.is_mean:
                part = f"AVG(({text} = {example(kind)})::INT)"
            self.refuse(
                f"{column!r} has texts, not numbers", f"Count a value: {part}.", node.parent
            )
        what, days = "dates", f"{text} - DATE '{kind.low}'"
        if isinstance(kind, Timestamp):
            what, days = "times", f"DATE_DIFF('day', DATE '{kind.low.date()}', {text})"
        days = f"{function}({days})"
        self.refuse(
            f"{column!r} has {what}, not numbers", f"Use days since a date: {days}.", node.parent
        )

    def check(self, function: Function, value: Value, node: Node) -> None:
        """Refuse a value whose bounds are not usable."""
        for part in subvalues(value):
            bounds = bounds_of(part, self.schema)
            if max(-bounds.low, bounds.high) > LARGEST:
                self.refuse(
                    "the values of this expression can be too large",
                    "Keep each intermediate result within 1e150 in size.",
                    node,
                )
        if function is Function.COUNT:
            return
        bounds = bounds_of(value, self.schema)
        reach = max(-bounds.low, bounds.high)
        if reach == 0:
            self.refuse(
                "this expression is 0 in every row",
                "Give it another value in some rows, or write 1 to count rows.",
                node,
            )
        if function.is_mean and bounds.is_narrow:
            same = bounds.low == bounds.high
            self.refuse(
                "this expression is the same number in every row"
                if same
                else "the bounds of this expression are too close together for their size",
                "Its average is that number; count rows instead."
                if same
                else "Leave out the part that is the same in every row.",
                node,
            )
        if reach * LARGEST < 1:
            self.refuse(
                "the values of this expression are too small", "Multiply them by a number.", node
            )

    def _value(self, node: Node, depth: int) -> Value | None:
        """Read a node; return None if it is missing in every row."""
        if depth > MAX_DEPTH:
            self.refuse("the expression is nested too deeply", "Flatten it.", node)
        if isinstance(node, exp.Paren):
            return self._value(node.this, depth + 1)
        if not isinstance(node, exp.Column) and self._is_mapped(node):
            return self._of_one_column(Function.SUM, node)
        days = self._days(node, depth)
        if days is not None:
            return days
        if is_called(node):
            return self._called(node, depth)
        if isinstance(node, exp.Column):
            column = self.conditions.column(node)
            kind = self.schema[column]
            if not kind.numeric and self._counts:
                present = Within(column, ((kind.scale.low, kind.scale.high),))
                return Case(((present, Number(Fraction(1))),), None)
            if not kind.numeric:
                name = self.conditions.scope.spelled(column)
                self.refuse(
                    f"{name!r} is not a numeric column",
                    f"Write CAST({as_written(name)} AS INTEGER)."
                    if isinstance(kind, Boolean)
                    else f"Compare it in a condition: CASE WHEN {name} = ... THEN 1 ELSE 0 END.",
                    node,
                )
            return Column(column)
        if isinstance(node, exp.Null):
            return None
        if self._counts and is_constant(node) and self._has_no_size(node):
            return Number(Fraction(1))
        if isinstance(node, exp.Neg) and not isinstance(node.this, exp.Literal):
            return self._operation(
                "*", Number(Fraction(-1)), self._operand(node.this, depth + 1), node
            )
        if type(node) in OPERATORS and not others(node.args, "this", "expression", "typed", "safe"):
            left, right = (self._operand(part, depth + 1) for part in (node.this, node.expression))
            return self._operation(OPERATORS[type(node)], left, right, node)
        if isinstance(node, exp.Case | exp.If):
            return self._case(node, depth)
        if isinstance(node, (exp.Literal, exp.Neg, exp.Placeholder)):
            return Number(self.number(node))
        if node.find(exp.Select, exp.Subquery) is not None:
            self.refuse("subqueries are not supported", "Write the values out.", node)
        self.conditions.check_names(node)
        if self.conditions.is_product(node):
            numbers = self.conditions.products.numbers(node)
            branches = tuple((condition, Number(output)) for condition, output in numbers)
            return Case(branches, None) if branches else None
        self.refuse("this is not supported inside an aggregate", _ALLOWED, node)

    def _operand(self, node: Node, depth: int) -> Value | None:
        """Read what is computed with: a number, also where it only counts whether it is there."""
        counts, self._counts = self._counts, False
        value = self._value(node, depth)
        self._counts = counts
        return value

    def _has_no_size(self, node: Node) -> bool:
        """Return whether a constant is a text, a truth or a date."""
        return isinstance(self.conditions.constants.value(node), str | bool | datetime.date)

    def _is_plain(self, node: Node) -> bool:
        """Return whether a node is arithmetic and CASE on numeric columns as they stand."""
        if isinstance(node, exp.Paren | exp.Neg):
            return self._is_plain(node.this)
        if isinstance(node, exp.Column):
            return not self.conditions.is_expression(node) or (
                self.schema[self.conditions.column(node)].numeric
            )
        if isinstance(node, exp.Case):
            results = [branch.args["true"] for branch in node.args["ifs"]]
            default = node.args.get("default")
            return node.this is None and all(
                map(self._is_plain, [*results, *([] if default is None else [default])])
            )
        if type(node) in OPERATORS:
            divided = isinstance(node, exp.Div) and node.expression.find(exp.Column) is not None
            return not divided and self._is_plain(node.this) and self._is_plain(node.expression)
        return isinstance(node, exp.Literal | exp.Placeholder | exp.Null)

    def is_joint(self, node: Node) -> bool:
        """Return whether a node computes from several columns with more than arithmetic and CASE."""
        several = not isinstance(bare(node), exp.Column) and len(self.conditions.columns(node)) > 1
        is_closed = node.find(exp.AggFunc, exp.Window, exp.Select) is None
        return is_closed and several and not self._is_plain(node)

    def _is_mapped(self, node: Node) -> bool:
        """Return whether a node is read as numbers of the codes of its only column."""
        is_closed = node.find(exp.AggFunc, exp.Window, exp.Select) is None
        if not is_closed or self._is_plain(node) or not self.conditions.is_expression(node):
            return False
        (column,) = self.conditions.domains.columns(node)
        kind = self.schema[column]
        is_wide = not kind.scale.integral or kind.scale.high - kind.scale.low >= MOST_PIECES
        return not (kind.numeric and is_wide and shows_column(node))

    def _of_one_column(self, function: Function, node: Node) -> Value | None:
        """Read an expression of one column; return None if it is missing in every row."""
        column, found, holds = self.conditions.domains.outputs(node, self._codes)
        if function is Function.COUNT:
            numbers = found.then(lambda _: Fraction(1))
        elif holds in ("text", "date", "time"):
            self.refuse(
                f"this is a {holds}, not a number", "Count it, or compare it with a value.", node
            )
        else:
            numbers = found.then(fraction)
        value = Mapped(column, numbers, str(node.sql(dialect="duckdb")))
        return value if value.outputs else None

    def _codes(self, column: str) -> Sequence[Interval]:
        """Return codes that contain a column's in the rows that count."""
        return codes_of(self._counted, column, self.schema[column])

    def _called(self, node: Node, depth: int) -> Value | None:
        """Read a function of numbers part by part."""
        if isinstance(node, exp.Sign):
            return sign(self.conditions.predicate, node)
        if isinstance(node, exp.Nullif):
            equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
            missing, value = self._test(equal), self._value(node.this, depth + 1)
            return value if value is None or missing == NONE else Case(((missing, None),), value)
        parts = [self._value(part, depth + 1) for part in operands(node)]
        if isinstance(node, exp.Coalesce):
            return first_present(parts, self.schema)
        return called(CALLS[type(node)], parts)

    def _test(self, node: Node) -> Predicate:
        """Read a condition that the reader made, which may hold for no declared value."""
        if self.conditions.is_expression(node):
            return self.conditions.domains.condition(node, negated=False)
        return self.conditions.predicate(node)

    def _days(self, node: Node, depth: int) -> Value | None:
        """Read a difference of two columns of dates or times; None if a node is none."""
        if not isinstance(node, exp.Sub | exp.DateDiff) or self.conditions.is_expression(node):
            return None
        sides = node.this, node.expression
        if not all(map(self.conditions.is_expression, sides)):
            return None
        dates = [self._date(side) for side in sides]
        if isinstance(node, exp.DateDiff) and (
            None in dates or node.args["unit"].name not in _DAYS
        ):
            # a difference of how many units have begun since one day
            parts = [node.copy(), node.copy()]
            for part, side in zip(parts, sides, strict=True):
                part.set("this", side.copy())
                part.set("expression", _EPOCH.copy())
            dates = [self._value(part, depth + 1) for part in parts]
        left, right = dates
        return None if left is None or right is None else Arithmetic("-", left, right)

    def _date(self, node: Node) -> Value | None:
        """Read a column of dates, or a day some whole number of days before or after one."""
        inner = bare(node)
        if isinstance(inner, exp.Column) and self.conditions.is_expression(inner):
            column = self.conditions.column(inner)
            return Column(column) if isinstance(self.schema[column], Date) else None
        if not isinstance(inner, exp.Add | exp.Sub) or not is_constant(inner.expression):
            return None
        date, moved = self._date(inner.this), inner.expression
        # a day less a day is a number
        if date is None or moved.find(exp.Interval) is not None or self._has_no_size(moved):
            return None
        days = Number(self.number(moved))
        is_whole = days.value.denominator == 1
        return Arithmetic(OPERATORS[type(inner)], date, days) if is_whole else None

    def number(self, node: Node) -> Fraction:
        """Read a constant number of moderate size."""
        value = self.conditions.constants.value(node)
        if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
            self.refuse("this must be a number", "Write the number without quotes.", node)
        return self.moderate(Fraction(value), node)

    def moderate(self, value: Fraction, node: Node) -> Fraction:
        """Return the number if floats can hold it and its inverse; refuse it otherwise."""
        if value != 0 and not 1 / LARGEST <= abs(value) <= LARGEST:
            self.refuse(
                "the number is out of range", "Keep numbers within 1e-150..1e150 in size.", node
            )
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _DIGITS:
            self.refuse("the number is too long", "Round it.", node)
        return value

    def folded(self, operator: Operator, left: Fraction, right: Fraction, node: Node) -> Fraction:
        """Return the result of an operation on constants; the divisor is not 0."""
        if operator == "+":
            return self.moderate(left + right, node)
        if operator == "-":
            return self.moderate(left - right, node)
        return self.moderate(left * right if operator == "*" else left / right, node)

    def _operation(
        self, operator: Operator, left: Value | None, right: Value | None, node: Node
    ) -> Value | None:
        if operator == "/" and right is not None:
            if not isinstance(right, Number):
                self.refuse(
                    "the divisor must be a number",
                    "Divide sums instead: SUM(a) / SUM(b).",
                    node.expression,
                )
            if right.value == 0:
                self.refuse("this divides by 0", "Change the divisor.", node)
        if left is None or right is None:
            return None
        if isinstance(left, Number) and isinstance(right, Number):
            return Number(self.folded(operator, left.value, right.value, node))
        return commuted(operator, left, right)

    def _case(self, node: Node, depth: int) -> Value | None:
        branches: list[tuple[Predicate, Value | None]] = []
        default: Value | None = None
        certain = False
        tests, last = branches_of(node)
        for test, result in tests:
            condition, counted = self.conditions.predicate(test), self._counted
            self._counted = And((counted, condition))
            value = self._value(result, depth + 1)
            self._counted = counted
            if certain or condition == NONE:
                continue
            if condition == EVERY:
                certain, default = True, value
            else:
                branches.append((condition, value))
        if last is not None:
            value = self._value(last, depth + 1)
            default = default if certain else value
        if not branches or (default is None and all(value is None for _, value in branches)):
            return default
        return Case(tuple(branches), default)
