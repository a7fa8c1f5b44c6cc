"""The argument of an aggregate: arithmetic, CASE and some functions of the columns of one row.

The result of an operation is missing if any operand is, as in SQL; LEAST and GREATEST leave out
operands that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from dpnb.codes import Steps
from dpnb.schema.columns import MAX_INTEGER, Integer, Real
from dpnb.schema.timestamps import Date

if TYPE_CHECKING:
    from dpnb.schema.predicates import Predicate
    from dpnb.schema.schema import Schema

Operator: TypeAlias = Literal["+", "-", "*", "/"]
Called: TypeAlias = Literal["ABS", "LEAST", "GREATEST"]
Span: TypeAlias = tuple[Fraction, Fraction]
"""The least and the greatest value."""


@dataclass(frozen=True, slots=True)
class Column:
    """The normalised value of a column; that of a date is its code, a number of days."""

    name: str

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the value uses."""
        return frozenset((self.name,))


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: Fraction

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the value uses: none."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right``; a divisor is a ``Number`` other than 0."""

    operator: Operator
    left: Value
    right: Value

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the value uses."""
        return self.left.columns | self.right.columns


@dataclass(frozen=True, slots=True)
class Call:
    """A function of numbers: the size of one, or the least or greatest of those that are not missing."""

    function: Called
    parts: tuple[Value, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the value uses."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, or ``default`` if none is.

    None stands for a missing value.
    """

    branches: tuple[tuple[Predicate, Value | None], ...]
    default: Value | None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the value uses, including those in conditions."""
        names = frozenset() if self.default is None else self.default.columns
        for condition, value in self.branches:
            names |= condition.columns | (frozenset() if value is None else value.columns)
        return names


@dataclass(frozen=True, slots=True)
class Mapped:
    """A number for each code of a column, and perhaps for a missing value.

    ``text`` is how a statement writes it; what is read from a ledger has none.
    """

    column: str
    numbers: Steps[Fraction]
    text: str = field(default="", compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the value uses."""
        return frozenset((self.column,))

    @property
    def outputs(self) -> tuple[Fraction, ...]:
        """The different numbers, that of a missing value last."""
        null = self.numbers.null
        return tuple(dict.fromkeys([*self.numbers.outputs, *([] if null is None else [null])]))


Value: TypeAlias = Column | Number | Arithmetic | Call | Case | Mapped
"""A number, or a missing value, for each row. A bare column can also be a category or a date."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower and upper bound of a value over all possible rows.

    ``integral`` is true if the value and everything it is computed from are whole numbers within
    +-2**53, so that 64-bit integers and floats hold each of them exactly.
    """

    low: Fraction
    high: Fraction
    integral: bool

    @property
    def is_narrow(self) -> bool:
        """Whether they are too close together to average what lies between them."""
        width = self.high - self.low
        return width == 0 or (not self.integral and width * 2**30 < max(-self.low, self.high))


def bounds_of(value: Value, schema: Schema) -> Bounds:
    """Derive the bounds of a value from the declared ones by interval arithmetic.

    They hold for the exact value of the expression. They are attained if each column occurs once,
    or in squares; a column that occurs twice elsewhere can make them wider than needed. They depend
    on public facts only.

    Raises
    ------
    TypeError
        If the expression computes with a column that has no numeric bounds.
    """
    parts = [bounds_of(part, schema) for part in _parts(value)]
    low, high, integral = _image(value, parts, schema)
    is_whole = integral and all(part.integral for part in parts)
    return Bounds(low, high, is_whole and low >= -MAX_INTEGER and high <= MAX_INTEGER)


def present_in(value: Value, schema: Schema) -> Value | None:
    """Return a value that is missing in the same rows; None if it is missing in none.

    Of a mapped one it does not matter which numbers there are.
    """
    if isinstance(value, Call) and value.function == "ABS":
        return present_in(value.parts[0], schema)
    if isinstance(value, Mapped):
        if not value.numbers.covers(schema[value.column].scale):
            return Mapped(value.column, value.numbers.then(lambda _: Fraction(1)))
        if value.numbers.null is not None:
            return None
        value = Column(value.column)
    # in a column that is never missing, all rows have a value
    return None if isinstance(value, Column) and value.name in schema.complete else value


def is_complete(value: Value, schema: Schema) -> bool:
    """Return whether a value is missing in no row; False when in doubt."""
    if isinstance(value, Column):
        return value.name in schema.complete
    if isinstance(value, Call):
        some = (is_complete(part, schema) for part in value.parts)
        return any(some)
    if isinstance(value, Mapped):
        return present_in(value, schema) is None
    if isinstance(value, Case):
        results = (value.default, *(result for _, result in value.branches))
        return all(result is not None and is_complete(result, schema) for result in results)
    return all(is_complete(part, schema) for part in _parts(value))


def subvalues(value: Value) -> Iterator[Value]:
    """Return a value and everything it is computed from, except conditions."""
    yield value
    for part in _parts(value):
        yield from subvalues(part)


def _parts(value: Value) -> tuple[Value, ...]:
    if isinstance(value, Arithmetic):
        return value.left, value.right
    if isinstance(value, Call):
        return value.parts
    if isinstance(value, Case):
        results = (*(result for _, result in value.branches), value.default)
        return tuple(result for result in results if result is not None)
    return ()


def _image(value: Value, parts: list[Bounds], schema: Schema) -> tuple[Fraction, Fraction, bool]:
    if isinstance(value, Column):
        kind = schema[value.name]
        if not isinstance(kind, (Integer, Real, Date)):
            raise TypeError("arithmetic needs numeric columns")
        return Fraction(kind.scale.low), Fraction(kind.scale.high), kind.scale.integral
    if isinstance(value, Number):
        return value.value, value.value, value.value.denominator == 1
    if isinstance(value, Mapped):
        whole = all(output.denominator == 1 for output in value.outputs)
        return min(value.outputs), max(value.outputs), whole
    if isinstance(value, Case):
        return min(part.low for part in parts), max(part.high for part in parts), True
    if isinstance(value, Call):
        certain = [is_complete(part, schema) for part in value.parts]
        spans = [(part.low, part.high) for part in parts]
        return *result_of(value.function, spans, certain), True
    left, right = parts
    low, high = image(value, (left.low, left.high), (right.low, right.high))
    return low, high, value.operator != "/"


def result_of(function: Called, spans: Sequence[Span], certain: Sequence[bool]) -> Span:
    """Return the least and greatest result of a function of numbers that lie in some intervals.

    ``certain`` says which of them are never missing.

    Examples
    --------
    >>> result_of("LEAST", [(Fraction(0), Fraction(9)), (Fraction(5), Fraction(5))], [False, True])
    (Fraction(0, 1), Fraction(5, 1))
    """
    if function == "ABS":
        ((low, high),) = spans
        ends = abs(low), abs(high)
        return Fraction(0) if low <= 0 <= high else min(ends), max(ends)
    lows, highs = [low for low, _ in spans], [high for _, high in spans]
    # what is missing does not count, but what is there does
    if function == "LEAST":
        known = [high for high, is_there in zip(highs, certain, strict=True) if is_there]
        return min(lows), min(known) if known else max(highs)
    known = [low for low, is_there in zip(lows, certain, strict=True) if is_there]
    return max(known) if known else min(lows), max(highs)


def image(value: Arithmetic, left: Span, right: Span) -> Span:
    """Return the least and greatest result of an operation whose operands lie in two intervals."""
    if value.operator == "+":
        return left[0] + right[0], left[1] + right[1]
    if value.operator == "-":
        return left[0] - right[1], left[1] - right[0]
    if value.operator == "*" and value.left == value.right:
        # a square is never negative
        ends = left[0] ** 2, left[1] ** 2
        return Fraction(0) if left[0] <= 0 <= left[1] else min(ends), max(ends)
    divided = value.operator == "/"
    corners = [a / b if divided else a * b for a in left for b in right]
    return min(corners), max(corners)
