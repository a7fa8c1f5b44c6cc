"""What a statement shows of its released results: filters, arithmetic, windows, order and limits.

A statement has two parts. Its keys and results are released, and paid for. Everything else is
described here and carried out on released numbers by ``dpnb.answers.postprocessing``: it costs
nothing, and it is not part of what identifies a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias, TypeVar

from dpnb.schema.partition import Label


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
class Renamed:
    """What a key's column determines in each of its groups, by the labels of the key; None is NULL."""

    key: Field
    values: Mapping[Label, Label | None] = field(hash=False)
    kind: Kind


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


@dataclass(frozen=True, slots=True)
class Window:
    """A function over several lines: ``function(arguments) OVER (PARTITION BY ... ORDER BY ...)``.

    Attributes
    ----------
    partition : tuple of Expression
    order : tuple of Term
    rows : tuple of (int or None) or None
        How many lines before and after the own one it covers, None for all; None for SQL's default:
        all lines, or with an order those up to the own one and its equals.
    """

    function: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[Term, ...]
    rows: tuple[int | None, int | None] | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Total:
    """An aggregate over the lines of one group of a level; without arguments, COUNT(*)."""

    function: str
    arguments: tuple[Expression, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Term:
    """One term of ORDER BY."""

    expression: Expression
    descending: bool


Expression: TypeAlias = Field | Renamed | Literal | Call | Choice | Window | Total


def operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of an expression."""
    if isinstance(expression, Field | Literal):
        return ()
    if isinstance(expression, Renamed):
        return (expression.key,)
    if isinstance(expression, Choice):
        tests = (part for branch in expression.branches for part in branch)
        return (*tests, expression.default)
    if isinstance(expression, Window):
        ordered = (term.expression for term in expression.order)
        return (*expression.arguments, *expression.partition, *ordered)
    return expression.arguments


def parts(expression: Expression) -> Iterator[Expression]:
    """Return an expression and all its parts."""
    yield expression
    for part in operands(expression):
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
    return not any(
        isinstance(part, Total) or (isinstance(part, Field) and part.released)
        for part in parts(expression)
    )


def _combines(expression: Expression) -> bool:
    """Return whether an expression is computed from more than one released number."""
    found = set(parts(expression))
    numbers = {part for part in found if isinstance(part, Field) and part.released}
    return len(numbers) > 1 or any(isinstance(part, Window | Total) for part in found)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the SELECT list: its name and its expression."""

    alias: str
    expression: Expression


Over = TypeVar("Over", Window, Total)


def found_in(kind: type[Over], expressions: Iterable[Expression]) -> tuple[Over, ...]:
    """Return the different windows or totals in some expressions."""
    found = (part for expression in expressions for part in parts(expression))
    return tuple(dict.fromkeys(part for part in found if isinstance(part, kind)))


@dataclass(frozen=True, slots=True)
class OuterPart:
    """What one SELECT shows of its lines, and what the queries around it show of those.

    The lines of the first level are the released groups.

    Attributes
    ----------
    where : Expression or None
        Which lines it takes.
    groups : tuple of Expression or None
        By which labels it adds up its lines: all of them for (), each on its own for None.
    columns : tuple of Column or None
        The SELECT list; None for the keys and results as they are released.
    having : Expression or None
        The condition that lines satisfy, by released numbers.
    qualify : Expression or None
        The same after windows are computed.
    distinct : bool
        Whether equal lines are shown once.
    order : tuple of Term
    limit : int or None
    offset : int
    around : OuterPart or None
        The query that reads these lines.
    """

    where: Expression | None = None
    groups: tuple[Expression, ...] | None = None
    columns: tuple[Column, ...] | None = None
    having: Expression | None = None
    qualify: Expression | None = None
    distinct: bool = False
    order: tuple[Term, ...] = ()
    limit: int | None = None
    offset: int = 0
    around: OuterPart | None = None

    def levels(self) -> Iterator[OuterPart]:
        """Return the levels from the innermost to the outermost."""
        yield self
        if self.around is not None:
            yield from self.around.levels()

    @property
    def outermost(self) -> tuple[Column, ...]:
        """The SELECT list of the outermost query; empty for keys and results as they are released."""
        *_, last = self.levels()
        return last.columns or ()

    def then(self, level: OuterPart) -> OuterPart:
        """Return this with one more query around all others."""
        return replace(self, around=level if self.around is None else self.around.then(level))

    def computed(self) -> tuple[Expression, ...]:
        """Return the expressions that may contain windows or totals."""
        conditions = (one for one in (self.having, self.qualify) if one is not None)
        columns = (column.expression for column in self.columns or ())
        return (*columns, *conditions, *(term.expression for term in self.order))

    @property
    def combines(self) -> bool:
        """Whether a number that is shown is computed from several released ones."""
        return any(
            _combines(column.expression)
            for level in self.levels()
            for column in level.columns or ()
        )


PLAIN = OuterPart()
"""All released groups, as they are."""
