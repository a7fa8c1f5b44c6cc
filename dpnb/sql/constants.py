"""Constants of a statement: literals, bound parameters, and exact arithmetic on them.

Whole numbers and decimals are computed exactly. Where SQL computes with doubles, so does this: ``/``
divides doubles, and so does all arithmetic on numbers with an exponent. A date plus an interval of
months ends on the last day of a month that is too short.
"""

from __future__ import annotations

import calendar
import datetime
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard

from sqlglot import expressions as exp

from dpnb.codes import scalar
from dpnb.errors import SqlError
from dpnb.schema.columns import Constant
from dpnb.schema.reading import NUMBER
from dpnb.sql.source import Node, Source, others

_UNITS = {
    "year": (12, 0, 0), "quarter": (3, 0, 0), "month": (1, 0, 0), "week": (0, 7, 0),
    "day": (0, 1, 0), "hour": (0, 0, 3600), "minute": (0, 0, 60), "second": (0, 0, 1),
}  # fmt: skip
"""Months, days and seconds of each unit of an interval."""
_SPAN = re.compile(r"\s*([+-]?\d{1,9})\s*([a-z]+?)s?\s*(?=[+\-\d]|$)", re.IGNORECASE)
WHOLE = (
    "INT", "BIGINT", "SMALLINT", "TINYINT", "UINT", "UBIGINT", "USMALLINT", "UTINYINT", "INT128",
)  # fmt: skip
_BITS = 8_000
"""Size of the largest numerator and denominator."""
TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
"""What a text is as a boolean."""
_ORDERS: dict[type, Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_PARTS = (
    exp.Literal, exp.Boolean, exp.Null, exp.Placeholder, exp.Identifier, exp.Paren, exp.Neg,
    exp.Interval, exp.Var, exp.Cast, exp.DataType, exp.DataTypeParam, exp.DPipe,
    *_ARITHMETIC, *_ORDERS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of time."""

    months: int = 0
    days: int = 0
    seconds: int = 0

    def times(self, factor: int) -> Span:
        """Return the interval ``factor`` times over."""
        return Span(self.months * factor, self.days * factor, self.seconds * factor)

    def plus(self, other: Span) -> Span:
        """Return the sum of two intervals."""
        months, days = self.months + other.months, self.days + other.days
        return Span(months, days, self.seconds + other.seconds)

    def after(self, start: datetime.date) -> datetime.datetime:
        """Return the time that an interval after ``start`` ends."""
        month = start.year * 12 + start.month - 1 + self.months
        year, month = divmod(month, 12)
        if not 1 <= year <= 9999:
            raise OverflowError
        day = min(start.day, calendar.monthrange(year, month + 1)[1])
        moved = _time_of(start).replace(year=year, month=month + 1, day=day)
        return moved + datetime.timedelta(self.days, self.seconds)


_Computed: TypeAlias = Constant | Span


def is_constant(node: Node) -> bool:
    """Return whether a node is made of literals, parameters and operators alone."""
    return all(isinstance(part, _PARTS) for part in node.walk())


def number(text: str) -> Fraction | None:
    """Return the number that a text is read as, or None.

    Examples
    --------
    >>> number(" 8"), number("8.50"), number("8 a")
    (Fraction(8, 1), Fraction(17, 2), None)
    """
    mantissa, _, exponent = text.strip().lower().partition("e")
    short = len(mantissa) <= 400 and len(exponent) <= 4
    return Fraction(text.strip()) if short and re.fullmatch(NUMBER, text) else None


class Constants:
    """Reader of the constants of a statement; ``params`` are the values of ``:name``."""

    def __init__(self, source: Source, params: Mapping[str, object]) -> None:
        self.refuse = source.refuse
        self.params = params

    def value(self, node: Node) -> Constant:
        """Return the value of a constant expression; numbers are exact or doubles."""
        value = self._computed(node)
        if isinstance(value, Span):
            self.refuse("this is an interval, not a value", "Add it to a date.", node)
        return Fraction(value) if type(value) is float else value

    def span(self, node: Node) -> Span | None:
        """Return the interval that a constant expression is; None for other values."""
        value = self._computed(node)
        return value if isinstance(value, Span) else None

    def truth(self, node: Node) -> bool | None:
        """Return whether a constant condition holds; None if it is NULL."""
        if isinstance(node, exp.Paren):
            return self.truth(node.this)
        if isinstance(node, exp.Null):
            return None
        if type(node) in _ORDERS:
            left, right = self.value(node.this), self.value(node.expression)
            kinds = {_kind(left), _kind(right)}
            if len(kinds) > 1:
                self.refuse(
                    "these two values cannot be compared",
                    f"Compare two {' or two '.join(sorted(kinds))}.",
                    node,
                )
            return _ORDERS[type(node)](left, right)
        value = self.value(node)
        if _kind(value) not in ("numbers", "truths"):
            self.refuse("this is not a condition", "Compare a column with it.", node)
        return bool(value)

    def _computed(self, node: Node) -> _Computed:
        if isinstance(node, exp.Paren):
            return self._computed(node.this)
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self._number(str(node.this), node)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg):
            value = self._computed(node.this)
            if isinstance(value, Span):
                return value.times(-1)
            return -self._numeric(value, node)
        if isinstance(node, exp.Placeholder):
            return self._parameter(node)
        if isinstance(node, exp.Interval):
            return self._span(node)
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            return self._cast(node)
        if type(node) in _ARITHMETIC and node.find(exp.Column) is None:
            return self._operation(node)
        if isinstance(node, exp.DPipe) and node.find(exp.Column) is None:
            left, right = self._computed(node.this), self._computed(node.expression)
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        if isinstance(node, exp.Null):
            self.refuse("nothing equals NULL", "Use IS NULL or IS NOT NULL.", node)
        elif isinstance(node, exp.Column):
            self.refuse("this must be a value, not a column", "Put texts in single quotes.", node)
        elif isinstance(node, exp.Concat):
            self.refuse("a comma is missing between two texts", "Write 'a', 'b'.", node)
        elif isinstance(node, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentTime):
            self.refuse(
                "the current time is not a constant: the same statement would change its meaning",
                "Write the date: '2024-01-31'.",
                node,
            )
        self.refuse("this must be a value", "Write a constant or :name.", node)

    def _number(self, text: str, node: Node) -> Fraction | float:
        mantissa, _, exponent = text.lower().partition("e")
        if len(mantissa) > 400 or len(exponent) > 4:
            self.refuse("the number is too long", "Round it.", node)
        try:
            value = Fraction(text)
        except ValueError:
            self.refuse("this number cannot be read", "Write it in decimal digits.", node)
        is_alone = not isinstance(node.parent, _ARITHMETIC)
        if not exponent or is_alone or abs(value) > 2**1023:
            return value
        return float(value)

    def _numeric(self, value: _Computed, node: Node) -> Fraction | float:
        if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
            self.refuse("this must be a number", "Write the number without quotes.", node)
        return Fraction(value) if isinstance(value, int) else value

    def _operation(self, node: Node) -> _Computed:
        left, right = self._computed(node.this), self._computed(node.expression)
        try:
            if isinstance(left, Span) or isinstance(right, Span) or _are_dates(left, right):
                return self._in_time(node, left, right)
            value = self._arithmetic(
                node, self._numeric(left, node.this), self._numeric(right, node.expression)
            )
        except OverflowError:
            self.refuse("the result is out of range", "Change the constant.", node)
        large = isinstance(value, Fraction) and max(
            value.numerator.bit_length(), value.denominator.bit_length()
        )
        if (large and large > _BITS) or (isinstance(value, float) and not math.isfinite(value)):
            self.refuse("the result is out of range", "Change the constant.", node)
        return value

    def _arithmetic(
        self, node: Node, left: Fraction | float, right: Fraction | float
    ) -> Fraction | float:
        if isinstance(left, float) or isinstance(right, float) or isinstance(node, exp.Div):
            left, right = float(left), float(right)
        if isinstance(node, exp.Add):
            return left + right
        if isinstance(node, exp.Sub):
            return left - right
        if isinstance(node, exp.Mul):
            return left * right
        if right == 0:
            self.refuse("this divides by 0", "Change the divisor.", node)
        if isinstance(node, exp.Div):
            return left / right
        # both round towards 0
        left, right = Fraction(left), Fraction(right)
        quotient = Fraction(math.trunc(left / right))
        return quotient if isinstance(node, exp.IntDiv) else left - right * quotient

    def _in_time(self, node: Node, left: _Computed, right: _Computed) -> _Computed:
        """Compute with dates and intervals."""
        if isinstance(node, exp.Mul):
            if isinstance(left, Span):
                left, right = right, left
            if isinstance(right, Span) and isinstance(left, Fraction) and left.denominator == 1:
                return right.times(int(left))
        elif isinstance(node, exp.Add | exp.Sub):
            minus = isinstance(node, exp.Sub)
            if _is_date(right) and not minus:
                left, right = right, left
            if isinstance(left, Span) and isinstance(right, Span):
                return left.plus(right.times(-1) if minus else right)
            if isinstance(left, datetime.date):
                if isinstance(right, Span):
                    return (right.times(-1) if minus else right).after(left)
                if _is_date(right) and minus and not isinstance(left, datetime.datetime):
                    return Fraction((left - right).days)
                if isinstance(right, Fraction) and right.denominator == 1:
                    return left + datetime.timedelta(int(-right if minus else right))
        self.refuse(
            "dates and intervals cannot be combined like this",
            "Write DATE '2024-01-31' - INTERVAL '90' DAY.",
            node,
        )

    def _span(self, node: Node) -> Span:
        unit, length = node.args.get("unit"), node.this
        if unit is None and isinstance(length, exp.Literal) and length.is_string:
            text = str(length.this)
        elif isinstance(unit, exp.Var):
            value = self._computed(length)
            text = f"{value if isinstance(value, str) else self._numeric(value, node)} {unit.this}"
        else:
            text = ""
        total, end = Span(), 0
        for part in _SPAN.finditer(text):
            months, days, seconds = _UNITS.get(part[2].lower(), (0, 0, 0))
            if part.start() != end or not months + days + seconds:
                break
            total, end = total.plus(Span(months, days, seconds).times(int(part[1]))), part.end()
        if not end or end != len(text):
            self.refuse("this interval cannot be read", "Write INTERVAL '90' DAY.", node)
        return total

    def _cast(self, node: Node) -> Constant:
        value, kind = self._computed(node.this), node.to.this.name
        cast: Constant | None = None
        if others(node.args, "this", "to", "_type") or isinstance(value, Span):
            pass
        elif kind in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"):
            cast = self._date(value, node, whole=kind == "DATE")
        elif isinstance(value, datetime.date):
            pass
        elif kind in ("TEXT", "VARCHAR"):
            whole = isinstance(value, Fraction) and value.denominator == 1
            cast = str(value) if whole or isinstance(value, str) else None
        elif kind == "BOOLEAN":
            cast = TRUTHS.get(str(value).strip().lower())
        else:
            read = number(value) if isinstance(value, str) else value
            cast = None if read is None else _cast_number(read, kind, node.to)
        if cast is None:
            self.refuse("this must be a value", "Write a constant or :name, without CAST.", node)
        return cast

    def _date(self, value: _Computed, node: Node, *, whole: bool) -> datetime.date:
        try:
            if isinstance(value, str):
                value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            self.refuse("this is not a date", "Write DATE '2024-01-31'.", node)
        if not isinstance(value, datetime.date) or (
            isinstance(value, datetime.datetime) and value.tzinfo is not None
        ):
            self.refuse("this is not a date", "Write DATE '2024-01-31'.", node)
        return _time_of(value).date() if whole else _time_of(value)

    def _parameter(self, node: Node) -> Constant:
        name = str(node.this or "")
        if not name.isidentifier():
            self.refuse("a parameter needs a name", "Write :name.", node)
        if name not in self.params:
            self.refuse(
                f"the parameter :{name} has no value",
                f"Pass params={{'{name}': ...}}.",
                node,
            )
        value = scalar(self.params[name])
        if (
            not isinstance(value, (str, int, float, Fraction, datetime.date))
            or type(value).__name__ == "NaTType"
        ):
            raise SqlError(
                f"the parameter :{name} is of type {type(value).__name__}",
                "Use a string, a number, a boolean or a date.",
            )
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SqlError(
                    f"the parameter :{name} is not a finite number", "Give a finite number."
                )
            return Fraction(value)
        return value


def _time_of(value: datetime.date) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime.combine(value, datetime.time())


def _is_date(value: _Computed) -> TypeGuard[datetime.date]:
    return isinstance(value, datetime.date)


def _are_dates(left: _Computed, right: _Computed) -> bool:
    return _is_date(left) or _is_date(right)


def _kind(value: Constant) -> str:
    if isinstance(value, bool):
        return "truths"
    if isinstance(value, str):
        return "texts"
    return "dates" if isinstance(value, datetime.date) else "numbers"


def _cast_number(value: Fraction | float, kind: str, to: Node) -> Fraction | float | None:
    """Return a number as one of another type; SQL rounds halves of doubles to even numbers."""
    if kind == "DOUBLE":
        return float(value) if -(2**1023) < value < 2**1023 else None
    if kind in WHOLE and type(value) is float:
        return Fraction(round(value))
    if kind in WHOLE:
        return _rounded(Fraction(value), 0)
    if kind == "DECIMAL":
        sizes = [int(str(size.this.this)) for size in to.expressions]
        scale = sizes[1] if len(sizes) > 1 else 0 if sizes else 3
        return _rounded(Fraction(value), scale) if scale <= 38 else None
    return None


def _rounded(value: Fraction, digits: int) -> Fraction:
    """Return a decimal rounded to some digits, halves away from 0."""
    shifted = abs(value) * 10**digits
    rounded = Fraction(math.floor(shifted + Fraction(1, 2)), 10**digits)
    return rounded if value >= 0 else -rounded
