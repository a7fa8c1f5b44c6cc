"""Comparisons of two columns of any number of values: ``a > b``, ``a + 5 < b``, ``b - a >= 7``.

Differences of whole numbers, of days and of times are compared with constants, exactly. Of real
numbers one may be moved by a constant, as DuckDB moves it. What compares so is one condition on two
columns, which engines test row by row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.schema.columns import Integer, Kind, Real
from dpnb.schema.predicates import FLIPPED, NEGATED, NONE, And, Order, Predicate, Within, compared
from dpnb.schema.timestamps import Date, Timestamp, seconds
from dpnb.sql.constants import Constants, is_constant
from dpnb.sql.source import Node, bare, others

ORDERS: dict[type, Order] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_DAY = 86_400
_LARGEST = 1e150


class _NoneError(Exception):
    """A side of a comparison is not a sum of columns and a constant."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """Columns, each so many times, plus a number, plus some seconds."""

    columns: Mapping[str, int] = field(default_factory=dict)
    number: Fraction = Fraction(0)
    seconds: int | None = None

    def plus(self, other: _Sum, sign: int) -> _Sum:
        """Return the sum, or the difference, of two of them."""
        columns = Counter(self.columns)
        for name, times in other.columns.items():
            columns[name] += sign * times
        spans = [span for span in (self.seconds, other.seconds) if span is not None]
        return _Sum(
            {name: times for name, times in columns.items() if times},
            self.number + sign * other.number,
            (self.seconds or 0) + sign * (other.seconds or 0) if spans else None,
        )


class Comparisons:
    """Reader of the comparisons of two columns in a statement."""

    def __init__(self, constants: Constants, kinds: Mapping[str, Kind]) -> None:
        self._constants, self._kinds = constants, kinds

    def condition(
        self, node: Node, names: Mapping[Node, str], *, negated: bool
    ) -> Predicate | None:
        """Read a comparison of two columns, or its negation; None for other conditions.

        ``names`` has the columns that the nodes in it name.
        """
        order = ORDERS.get(type(node))
        if order is None or others(node.args, "this", "expression"):
            return None
        try:
            sides = self._sum(node.this, names), self._sum(node.expression, names)
        except _NoneError:
            return None
        columns = sorted({*sides[0].columns, *sides[1].columns})
        kinds = [self._kinds[name] for name in columns]
        order = NEGATED[order] if negated else order
        if len(columns) == 2 and all(isinstance(kind, Integer) for kind in kinds):
            difference = sides[0].plus(sides[1], -1)
            return self._whole(difference, order)
        if len(columns) == 2 and all(isinstance(kind, Integer | Real) for kind in kinds):
            return self._real(*sides, order)
        if len(columns) == 2 and all(isinstance(kind, Date | Timestamp) for kind in kinds):
            return self._times(*sides, order)
        return None

    def _sum(self, node: Node, names: Mapping[Node, str]) -> _Sum:
        inner = bare(node)
        if isinstance(inner, exp.Column):
            return _Sum({names[inner]: 1})
        if is_constant(inner) and inner.find(exp.Null) is None:
            span = self._constants.span(inner)
            if span is not None:
                if span.months:
                    raise _NoneError
                return _Sum(seconds=span.days * _DAY + span.seconds)
            value = self._constants.value(inner)
            if isinstance(value, int | Fraction) and not isinstance(value, bool):
                return _Sum(number=Fraction(value))
        if isinstance(inner, exp.Add | exp.Sub):
            left, right = self._sum(inner.this, names), self._sum(inner.expression, names)
            return left.plus(right, 1 if isinstance(inner, exp.Add) else -1)
        if isinstance(inner, exp.DateDiff) and inner.args["unit"].name in ("DAY", "DAYS"):
            left, right = self._sum(inner.this, names), self._sum(inner.expression, names)
            days = left.plus(right, -1)
            if days.number == 0 and days.seconds is None and all(
                isinstance(self._kinds[name], Date) for name in days.columns
            ):  # fmt: skip
                return days
        raise _NoneError

    def _whole(self, difference: _Sum, order: Order) -> Predicate | None:
        """Return the condition that a difference compares so with 0, x - y + number for whole x and y."""
        if sorted(difference.columns.values()) != [-1, 1] or difference.seconds is not None:
            return None
        less, more = sorted(difference.columns, key=lambda name: difference.columns[name])
        number = difference.number
        offset = math.ceil(number) if order in ("<=", ">") else math.floor(number)
        if number != offset and order in ("=", "<>"):
            scales = ((name, self._kinds[name].scale) for name in (more, less))
            both = And(tuple(Within(name, ((one.low, one.high),)) for name, one in scales))
            return NONE if order == "=" else both
        return compared(more, order, less, offset, self._kinds)

    def _real(self, left: _Sum, right: _Sum, order: Order) -> Predicate | None:
        """Return the condition of a comparison of numbers, of which one may be moved."""
        moved = [side for side in (left, right) if side.number]
        one_each = [*left.columns.values()] == [*right.columns.values()] == [1]
        spans = left.seconds is not None or right.seconds is not None
        if not one_each or len(moved) > 1 or spans:
            return None
        ((a,), (b,)) = left.columns, right.columns
        if moved == [right]:
            a, b, order = b, a, FLIPPED[order]
        if not moved:
            return compared(a, order, b, 0, self._kinds)
        # sums of floats of this size are finite
        is_whole = moved[0].number.denominator == 1
        is_moved = (is_whole or isinstance(self._kinds[a], Real)) and (
            abs(moved[0].number) <= _LARGEST
        )
        number = float(moved[0].number) if is_moved else 0.0
        return compared(a, order, b, number, self._kinds) if is_moved else None

    def _times(self, left: _Sum, right: _Sum, order: Order) -> Predicate | None:
        """Return the condition of a comparison of days, or of times of one clock."""
        difference = left.plus(right, -1)
        kinds = [self._kinds[name] for name in difference.columns]
        moments = sum(left.columns.values()), sum(right.columns.values())
        if moments not in ((1, 1), (0, 0)):
            return None
        if all(isinstance(kind, Date) for kind in kinds):
            # a difference of days is a number, a day may be moved by a number or by an interval
            days = Fraction(difference.seconds or 0, _DAY)
            if difference.seconds is not None and moments == (0, 0):
                return None
        else:
            clocks = {(seconds(kind), kind.tz) for kind in kinds if isinstance(kind, Timestamp)}
            if (
                difference.number
                or len(clocks) > 1
                or not all(isinstance(k, Timestamp) for k in kinds)
            ):
                return None
            if moments == (0, 0) and difference.seconds is None:
                return None
            days = Fraction(difference.seconds or 0, next(iter(clocks))[0])
        return self._whole(_Sum(difference.columns, difference.number + days), order)
