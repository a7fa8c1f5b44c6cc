"""Functions of numbers that are read part by part: ABS, LEAST, GREATEST, COALESCE, NULLIF, SIGN.

A column of very many values, or several columns, have no list of outputs. So the parts of these
functions are arguments themselves, whose bounds give those of the whole (docs/methods/expressions.md,
theorem 7).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.schema.predicates import EVERY, NONE, Predicate, simplify
from dpnb.schema.schema import Schema
from dpnb.sql.conjuncts import branches_of
from dpnb.sql.narrowing import present
from dpnb.sql.source import Node, bare, others
from dpnb.sql.values import Call, Called, Case, Number, Operator, Value

OPERATORS: dict[type, Operator] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
CALLS: dict[type, Called] = {exp.Abs: "ABS", exp.Least: "LEAST", exp.Greatest: "GREATEST"}
_CHOICES = (exp.Coalesce, exp.Nullif, exp.Sign)
_STRICT = (
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Abs, exp.Sign, exp.Floor, exp.Ceil, exp.Round, exp.Trunc,
    exp.DPipe, exp.Upper, exp.Lower, exp.Length, exp.Trim, exp.DateDiff,
)  # fmt: skip
"""Functions with a result for all values, and none if one of these is missing."""


def operands(node: Node) -> list[Node]:
    """Return what a function of several numbers is applied to."""
    return [node.this, *node.expressions]


def is_called(node: Node) -> bool:
    """Return whether a node is a function that is read part by part."""
    is_one = isinstance(node, (*CALLS, *_CHOICES))
    return is_one and not others(node.args, "this", "expression", "expressions", "ignore_nulls")


def shows_column(node: Node) -> bool:
    """Return whether a value of a column itself is among what an expression computes with.

    Whatever is rounded or compared has few values, so that its outputs can be listed.
    """
    if isinstance(node, exp.Column):
        return True
    if isinstance(node, exp.Paren | exp.Neg | exp.Abs | exp.Nullif):
        return shows_column(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return shows_column(node.this) or shows_column(node.expression)
    if isinstance(node, exp.Div):
        return node.expression.find(exp.Column) is None and shows_column(node.this)
    if isinstance(node, exp.Least | exp.Greatest | exp.Coalesce):
        return any(map(shows_column, operands(node)))
    if isinstance(node, exp.Case | exp.If):
        branches, last = branches_of(node)
        results = [result for _, result in branches]
        return any(map(shows_column, [*results, *([] if last is None else [last])]))
    return False


def depends_on(node: Node) -> tuple[list[Node], bool]:
    """Return the parts on which it depends whether a value is missing, and whether one of them suffices.

    There are none if it depends on more than that.
    """
    if isinstance(node, exp.Least | exp.Greatest | exp.Coalesce):
        return operands(node), False
    if isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.TEXT_TYPES):
        return [node.this], True
    divides = isinstance(node, exp.Div) and isinstance(bare(node.expression), exp.Literal)
    if isinstance(node, _STRICT) or (divides and float(bare(node.expression).name)):
        return [part for part in node.iter_expressions() if not isinstance(part, exp.Var)], True
    return [], True


def called(function: Called, parts: Iterable[Value | None]) -> Value | None:
    """Return a function of numbers, in one spelling; None stands for a part that is always missing.

    Examples
    --------
    >>> called("LEAST", [Number(Fraction(3)), None, Number(Fraction(2))])
    Number(value=Fraction(2, 1))
    """
    known = [part for part in parts if part is not None]
    if function == "ABS":
        if known and isinstance(known[0], Number):
            return Number(abs(known[0].value))
        return Call("ABS", tuple(known)) if known else None
    flat = itertools.chain.from_iterable(
        part.parts if isinstance(part, Call) and part.function == function else (part,)
        for part in known
    )
    others_of, numbers = list[Value](), list[Fraction]()
    for part in flat:
        if isinstance(part, Number):
            numbers.append(part.value)
        elif part not in others_of:
            others_of.append(part)
    others_of.sort(key=repr)
    pick: Callable[[Sequence[Fraction]], Fraction] = min if function == "LEAST" else max
    every = (*others_of, *([Number(pick(numbers))] if numbers else []))
    return Call(function, every) if len(every) > 1 else next(iter(every), None)


def first_present(parts: Iterable[Value | None], schema: Schema) -> Value | None:
    """Return COALESCE of some values: the first that is not missing."""
    branches: list[tuple[Predicate, Value | None]] = []
    for part in parts:
        there = NONE if part is None else simplify(present(part, schema), schema)
        if there == EVERY:
            return Case(tuple(branches), part) if branches else part
        if there != NONE:
            branches.append((there, part))
    if len(branches) < 2:
        return branches[0][1] if branches else None
    return Case(tuple(branches[:-1]), branches[-1][1])


def sign(test: Callable[[Node], Predicate], node: Node) -> Value:
    """Return SIGN of a number, from conditions on it."""
    number = functools.partial(exp.paren, node.this, copy=True)
    zero = exp.Literal.number(0)
    tests = (
        (exp.GT(this=number(), expression=zero), 1),
        (exp.EQ(this=number(), expression=zero.copy()), 0),
        (exp.LT(this=number(), expression=zero.copy()), -1),
    )
    return Case(tuple((test(one), Number(Fraction(output))) for one, output in tests), None)
