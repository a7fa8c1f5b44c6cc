"""What is possible: the public range of a result, over all tables that the schema allows.

A range follows from the statement and the schema alone. No value of any table lies outside, so an
interval that is cut to it covers as often as before (docs/methods/estimation.md, theorem 16).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias, assert_never

from dpnb.codes import outward
from dpnb.schema.predicates import EVERY, And, Predicate, negation, simplify
from dpnb.schema.schema import Schema
from dpnb.sql.formulas import (
    Applied,
    Combined,
    Constant,
    Formula,
    Leaf,
    Quantile,
    Variance,
    linear,
)
from dpnb.sql.functions import Function
from dpnb.sql.narrowing import STEPS, allows, codes_of, present, span_of
from dpnb.sql.query import Aggregate, Derived, Query
from dpnb.sql.values import Number, Span, Value

Bound: TypeAlias = Fraction | float
"""An exact number, or a float if it is infinite."""
Range: TypeAlias = tuple[Bound, Bound]
Kind: TypeAlias = tuple[Predicate, frozenset[Predicate]]
"""A kind of row: what holds for its rows, and which conditions of a formula are among it."""

REALS: Range = (-math.inf, math.inf)
NOT_NEGATIVE: Range = (Fraction(0), math.inf)
ZERO: Span = (Fraction(0), Fraction(0))
ONE = Number(Fraction(1))

MOST_KINDS = 64
"""Most kinds of rows that a formula is looked at by; for more, only its parts are looked at."""
MOST_GROUPS = 1_000
"""Most groups that have ranges of their own."""
_ADDED = (Function.COUNT, Function.SUM)
"""Functions that add up what each row contributes."""


def ranges_of(output: Aggregate | Derived, query: Query) -> tuple[tuple[float, float], ...]:
    """Return the range of an output in each declared group; one for all groups if they agree.

    Ends are floats, rounded outward.
    """
    leaves = output.leaves if isinstance(output, Derived) else (output,)
    used = frozenset[str]().union(*(leaf.columns | leaf.filter.columns for leaf in leaves))
    keys = [key.partition for key in query.keys]
    sizes = math.prod(key.size for key in keys)
    if used.isdisjoint(key.column for key in keys) or sizes > MOST_GROUPS:
        return (_floats(range_of(output, query.schema, query.where)),)
    groups = (map(key.partition.within, key.order) for key in query.keys)
    return tuple(
        _floats(range_of(output, query.schema, And((query.where, *group))))
        for group in itertools.product(*groups)
    )


def range_of(output: Aggregate | Derived, schema: Schema, rows: Predicate = EVERY) -> Range:
    """Return the range of an aggregate or a formula over the rows that satisfy ``rows``.

    Parameters
    ----------
    output : Aggregate or Derived
    schema : Schema
    rows : Predicate
        WHERE, and the group.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> from dpnb.sql.values import Column
    >>> schema = Schema({"age": Integer(17, 90)})
    >>> age = Aggregate(Function.AVG, Column("age"), EVERY, "age")
    >>> from dpnb.schema.predicates import Within
    >>> range_of(age, schema, Within("age", ((30, 90),)))
    (Fraction(30, 1), Fraction(90, 1))
    """
    if isinstance(output, Aggregate):
        return _aggregate(output, schema, rows)
    return _Formulas(output.leaves, schema, rows).range(output.formula)


def meet(left: Range, right: Range) -> Range:
    """Return what two ranges share; the first if they share nothing."""
    low, high = max(left[0], right[0]), min(left[1], right[1])
    return (low, high) if low <= high else left


def _floats(span: Range) -> tuple[float, float]:
    return outward(span[0], -math.inf), outward(span[1], math.inf)


def _aggregate(aggregate: Aggregate, schema: Schema, rows: Predicate) -> Range:
    rows = And((rows, aggregate.filter))
    match aggregate.function:
        case Function.AVG:
            return _between(aggregate.argument, schema, rows)
        case Function.SUM:
            return _total(Fraction(0), *(span_of(aggregate.argument, schema, rows) or ZERO))
        case Function.DISTINCT:
            (column,) = aggregate.columns
            scale = schema[column].scale
            codes = codes_of(rows, column, schema[column])
            sizes = (Fraction(high - low + 1) for low, high in codes)
            return Fraction(0), sum(sizes, Fraction(0)) if scale.integral else math.inf
        case Function.COUNT | Function.CELLS:
            rows = And((rows, present(aggregate.value, schema)))
        case Function.UNITS:
            pass
        case _:
            assert_never(aggregate.function)
    return NOT_NEGATIVE if allows(rows, schema) else ZERO


def _between(value: Value, schema: Schema, rows: Predicate) -> Range:
    """Return the range of means and quantiles of a value, which exist only if a row has one."""
    return span_of(value, schema, rows) or span_of(value, schema, EVERY) or REALS


def _total(start: Fraction, least: Bound, most: Bound) -> Range:
    """Return the range of a number plus a sum over rows, each between ``least`` and ``most``."""
    return start if least >= 0 else -math.inf, start if most <= 0 else math.inf


# formulas


class _Formulas:
    """The ranges of formulas over the same aggregates and rows."""

    def __init__(self, leaves: Sequence[Aggregate], schema: Schema, rows: Predicate) -> None:
        self.leaves, self.schema, self.rows = leaves, schema, rows
        self.conditions = [
            simplify(And((leaf.filter, present(leaf.value, schema))), schema)
            if leaf.function in _ADDED
            else leaf.filter
            for leaf in leaves
        ]
        """The conditions of the rows that count in each leaf."""
        self.steps = itertools.count()
        self.known: dict[frozenset[int], list[Kind] | None] = {}

    def range(self, formula: Formula) -> Range:
        """Return the range of a formula where it is defined."""
        if isinstance(formula, Leaf):
            return _aggregate(self.leaves[formula.place], self.schema, self.rows)
        if isinstance(formula, Constant):
            return formula.value, formula.value
        if isinstance(formula, Variance):
            return Fraction(0), formula.half**2 * (2 if formula.sample else 1)
        if isinstance(formula, Quantile):
            cells = self.leaves[formula.cells]
            return _between(cells.argument, self.schema, And((self.rows, cells.filter)))
        if isinstance(formula, Applied):
            return _applied(formula.function, self.range(formula.argument))
        left, right = self.range(formula.left), self.range(formula.right)
        span = _combined(formula.operator, left, right)
        if formula.operator == "/":
            return meet(span, self._ratio(formula))
        return meet(span, self._sum(formula))

    def _sum(self, formula: Formula) -> Range:
        """Return the range of a weighted sum of sums over rows, from what one row adds to it."""
        form = linear(formula)
        kinds = None if form is None else self._kinds(form[1])
        if form is None or not kinds:
            return REALS
        parts = [self._added(form[1], kind) for kind in kinds]
        return _total(form[0], min(low for low, _ in parts), max(high for _, high in parts))

    def _ratio(self, formula: Combined) -> Range:
        """Return the range of a ratio of sums over rows, from what one row adds to both.

        A ratio of sums lies between the least and the greatest ratio of their terms if no term of
        the divisor is negative (the mediant inequality); terms with the divisor 0 must add nothing
        to the numerator.
        """
        above, below = linear(formula.left), linear(formula.right)
        if above is None or below is None or above[0] or below[0]:
            return REALS
        return self._share(above[1], below[1]) or REALS

    def _share(self, above: Mapping[int, Fraction], below: Mapping[int, Fraction]) -> Range | None:
        kinds = self._kinds({**above, **below})
        if kinds is None:
            return self._people(above, below)
        spans: list[Range] = []
        for sign in (1, -1):
            divisor = {place: sign * weight for place, weight in below.items()}
            if all(self._added(divisor, kind)[0] >= 0 for kind in kinds):
                numerator = {place: sign * weight for place, weight in above.items()}
                spans += [self._quotient(numerator, divisor, kind) for kind in kinds]
                break
        known = [span for span in spans if span[0] <= span[1]]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    def _people(self, above: Mapping[int, Fraction], below: Mapping[int, Fraction]) -> Range | None:
        """Return the range of a ratio of two numbers of people, if the first are among the second.

        Of people that are counted in some of their groups only, one may count above the line alone.
        """
        places, unit = [*above, *below], self.schema.unit
        functions = {self.leaves[place].function for place in places}
        if len(places) != 2 or functions != {Function.UNITS} or unit is None or unit.max_groups:
            return None
        (top, factor), (bottom, divisor) = *above.items(), *below.items()
        outside = negation(self.conditions[bottom], self.schema, self.schema.complete)
        if allows(And((self.rows, self.conditions[top], outside)), self.schema, self.steps):
            return None
        ends = Fraction(0), factor / divisor
        return min(ends), max(ends)

    def _quotient(
        self, above: Mapping[int, Fraction], below: Mapping[int, Fraction], kind: Kind
    ) -> Range:
        """Return the range of the ratio of what one row adds; empty if it adds nothing to both."""
        tops, bottoms = self._factors(above, kind), self._factors(below, kind)
        if len(bottoms) == 1 and tops.keys() <= bottoms.keys():
            # both are multiples of one value, which cancels
            ((value, factor),) = bottoms.items()
            share = tops.get(value, Fraction(0)) / factor
            return share, share
        top, bottom = self._added(above, kind), self._added(below, kind)
        if bottom[0] > 0:
            return _combined("/", top, bottom)
        # where the divisor can be 0, only the sign is known
        nothing: Range = ZERO if bottom[1] > 0 else (math.inf, -math.inf)
        low = -math.inf if top[0] < 0 else nothing[0]
        return low, math.inf if top[1] > 0 else nothing[1]

    def _factors(self, weights: Mapping[int, Fraction], kind: Kind) -> dict[Value, Fraction]:
        """Return what one row of a kind adds to a weighted sum: a factor for each value."""
        factors: dict[Value, Fraction] = {}
        for place, weight in weights.items():
            leaf = self.leaves[place]
            if self.conditions[place] in kind[1]:
                value = leaf.argument if leaf.function is Function.SUM else ONE
                factors[value] = factors.get(value, Fraction(0)) + weight
        return {value: factor for value, factor in factors.items() if factor}

    def _added(self, weights: Mapping[int, Fraction], kind: Kind) -> Range:
        """Return the range of what one row of a kind adds to a weighted sum."""
        total: Range = ZERO
        for value, factor in self._factors(weights, kind).items():
            span = span_of(value, self.schema, kind[0]) or ZERO
            total = _combined("+", total, _combined("*", (factor, factor), span))
        return total

    def _kinds(self, weights: Mapping[int, Fraction]) -> list[Kind] | None:
        """Return the kinds of rows that some leaves tell apart; None if there are too many.

        Also None if a leaf is not a sum over rows.
        """
        places = frozenset(weights)
        if places not in self.known:
            self.known[places] = self._split(weights)
        return self.known[places]

    def _split(self, weights: Mapping[int, Fraction]) -> list[Kind] | None:
        if any(self.leaves[place].function not in _ADDED for place in weights):
            return None
        kinds: list[Kind] = [(self.rows, frozenset())]
        for condition in dict.fromkeys(self.conditions[place] for place in weights):
            split = [
                (simplify(And((rows, part)), self.schema), held | among)
                for rows, held in kinds
                for part, among in (
                    (condition, frozenset({condition})),
                    (
                        negation(condition, self.schema, self.schema.complete),
                        frozenset[Predicate](),
                    ),
                )
            ]
            kinds = [kind for kind in split if allows(kind[0], self.schema, self.steps)]
            if len(kinds) > MOST_KINDS or next(self.steps) > STEPS:
                return None
        return kinds


def _times(left: Bound, right: Bound) -> Bound:
    if left == 0 or right == 0:
        return Fraction(0)
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left * right
    return math.inf if (left > 0) == (right > 0) else -math.inf


def _inverse(span: Range) -> Range | None:
    """Return the range of 1/x for x other than 0; None if it has no bound."""
    low, high = span
    if low < 0 < high or low == high == 0:
        return None
    least = Fraction(0) if math.isinf(high) else (-math.inf if high == 0 else 1 / Fraction(high))
    most = Fraction(0) if math.isinf(low) else (math.inf if low == 0 else 1 / Fraction(low))
    return least, most


def _combined(operator: str, left: Range, right: Range) -> Range:
    """Return the range of a result of two numbers, where it is defined."""
    if operator == "-":
        operator, right = "+", (-right[1], -right[0])
    if operator == "+":
        return _plus(left[0], right[0]), _plus(left[1], right[1])
    if operator == "/":
        inverse = _inverse(right)
        if inverse is None:
            return REALS
        right = inverse
    corners = [_times(a, b) for a in left for b in right]
    return min(corners), max(corners)


def _plus(left: Bound, right: Bound) -> Bound:
    # a fraction may be too large for the sum with a float
    return right if isinstance(right, float) else left if isinstance(left, float) else left + right


def _applied(function: str, argument: Range) -> Range:
    """Return the range of a function of a number, where it is defined."""
    low, high = argument
    if function == "EXP":
        return max(_image(math.exp, low, -1), Fraction(0)), _image(math.exp, high, 1)
    if function == "SQRT":
        return _root(max(low, Fraction(0)), -1), _root(max(high, Fraction(0)), 1)
    if high <= 0:
        return REALS
    return -math.inf if low <= 0 else _image(math.log, low, -1), _image(math.log, high, 1)


def _root(value: Bound, side: int) -> Bound:
    root = _image(math.sqrt, value, 0)
    exact = isinstance(root, Fraction) and root * root == value
    return root if exact else max(_image(math.sqrt, value, side), Fraction(0))


def _image(function: Callable[[float], float], value: Bound, side: int) -> Bound:
    """Return a function of an end, moved two floats outward; infinite if it is too large."""
    try:
        number = function(float(value))
    except OverflowError:
        return side * math.inf
    for _ in range(2 if side else 0):
        number = math.nextafter(number, side * math.inf)
    return number if math.isinf(number) else Fraction(number)
