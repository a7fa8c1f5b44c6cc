"""Formulas of the SELECT list: arithmetic over aggregates, without any data in it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.sql.values import Operator


@dataclass(frozen=True, slots=True)
class Leaf:
    """An aggregate, by its place among the leaves of the formula."""

    place: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Combined:
    """``left operator right``."""

    operator: Operator
    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Applied:
    """The exponential or the natural logarithm of a formula."""

    function: Literal["EXP", "LN"]
    argument: Formula


Formula: TypeAlias = Leaf | Constant | Combined | Applied
"""Arithmetic over the leaves of a derived column."""


def plain_formula(formula: Formula) -> Any:
    """Return a formula as plain data: a place, a number as text, or ``[operator, *arguments]``."""
    if isinstance(formula, Leaf):
        return formula.place
    if isinstance(formula, Constant):
        return str(formula.value)
    if isinstance(formula, Applied):
        return [formula.function, plain_formula(formula.argument)]
    return [formula.operator, plain_formula(formula.left), plain_formula(formula.right)]


def read_formula(data: Any) -> Formula:
    """Build a formula from the data of :func:`plain_formula`."""
    if isinstance(data, int):
        return Leaf(data)
    if isinstance(data, str):
        return Constant(Fraction(data))
    operator, *arguments = data
    parts = [read_formula(part) for part in arguments]
    if len(parts) == 1:
        return Applied(operator, parts[0])
    return Combined(operator, *parts)
