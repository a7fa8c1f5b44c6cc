"""What a statement shows of its released results: filters, arithmetic, windows, order and limits.

A statement has two parts. Its keys and results are released, and paid for. Everything else is
described here and carried out on released numbers by ``dpnb.answers.postprocessing``: it costs
nothing, and it is not part of what identifies a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias


class Kind(StrEnum):
    """What an expression gives: a number, a text or a truth."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the rows that a level works on, by its position.

    The rows of the first level are the released groups: their keys, then their results.
    """

    place: int
    kind: Kind
    released: bool
    """Whether its values are released numbers, or computed from some; False for labels of groups."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: Fraction | str | bool | None


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator with its arguments."""

    function: str
    arguments: tuple[Expression, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Choice:
    """``CASE WHEN condition THEN value ... ELSE default END``."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression
    kind: Kind


Expression: TypeAlias = Field | Literal | Call | Choice


def parts(expression: Expression) -> Iterator[Expression]:
    """Return an expression and all its parts."""
    yield expression
    if isinstance(expression, Call):
        inner = expression.arguments
    elif isinstance(expression, Choice):
        inner = (*(part for branch in expression.branches for part in branch), expression.default)
    else:
        return
    for part in inner:
        yield from parts(part)


def kind_of(expression: Expression) -> Kind | None:
    """Return the kind of an expression; None for NULL."""
    if not isinstance(expression, Literal):
        return expression.kind
    if expression.value is None:
        return None
    if isinstance(expression.value, bool):
        return Kind.TRUTH
    return Kind.TEXT if isinstance(expression.value, str) else Kind.NUMBER


def is_label(expression: Expression) -> bool:
    """Return whether an expression names a group: without released numbers, or not a number."""
    if kind_of(expression) is not Kind.NUMBER:
        return True
    return not any(isinstance(part, Field) and part.released for part in parts(expression))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the SELECT list: its name and its expression."""

    alias: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Term:
    """One term of ORDER BY."""

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class OuterPart:
    """What is shown of the released groups.

    Attributes
    ----------
    columns : tuple of Column or None
        The SELECT list; None for the keys and results as they are released.
    having : Expression or None
        The condition that shown groups satisfy, by released numbers.
    distinct : bool
        Whether equal lines are shown once.
    order : tuple of Term
    limit : int or None
    offset : int
    """

    columns: tuple[Column, ...] | None = None
    having: Expression | None = None
    distinct: bool = False
    order: tuple[Term, ...] = ()
    limit: int | None = None
    offset: int = 0


PLAIN = OuterPart()
"""All released groups, as they are."""
