"""Expressions of results on one line: values by what is shown, with the intervals of all that is possible.

Conditions test the numbers that are shown, without what is publicly impossible. Arithmetic starts
from the numbers before that cut, because a sum of cut numbers is too high
(docs/methods/estimation.md, theorem 16).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

from dpnb.estimation.formula import REALS, combined
from dpnb.estimation.images import image, value
from dpnb.estimation.intervals import Pair
from dpnb.schema import partition
from dpnb.sql.shown import Call, Choice, Expression, Field, Kind, Literal, Renamed, Total, Window


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a group, or another exact text, number or truth, with its place in the order."""

    text: partition.Label
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A released number: before the cut, and the interval of what is shown.

    ``known`` is False if there are too few rows to tell, ``missing`` says whether it may be NULL for
    some numbers in their intervals.
    """

    uncut: float | None
    low: float
    high: float
    known: bool = True
    missing: bool = False

    @property
    def doubtful(self) -> bool:
        """Whether the number may be NULL in truth."""
        return self.missing or self.point is None

    @property
    def point(self) -> float | None:
        """The number before the cut if it is known."""
        return self.uncut if self.known else None

    @property
    def shown(self) -> float | None:
        """The number as it is shown."""
        return None if self.point is None else min(max(self.point, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Truth:
    """Whether a condition holds by what is shown, and what is possible within the intervals."""

    known: bool | None
    possible: frozenset[bool | None]


Value: TypeAlias = Label | Number | Truth | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: its fields, and what windows and totals give on it.

    ``group`` is the index of its released group; None for a line that sums up several. ``sure`` says
    whether it is among the lines for all numbers in their intervals.
    """

    fields: tuple[Value, ...]
    group: int | None = None
    sure: bool = True
    known: Mapping[Expression, Value] = field(default_factory=dict)


def evaluate(expression: Expression, line: Line) -> Value:
    """Return the value of an expression on one line."""
    if isinstance(expression, Field):
        return line.fields[expression.place]
    if isinstance(expression, Renamed):
        return _renamed(expression, line)
    if isinstance(expression, Window | Total):
        return line.known[expression]
    if isinstance(expression, Literal):
        return _literal(expression)
    if isinstance(expression, Choice):
        return _choice(expression, line)
    arguments = [evaluate(argument, line) for argument in expression.arguments]
    if _is_share(expression):
        return _share(*arguments)
    return _call(expression, arguments)


def _renamed(expression: Renamed, line: Line) -> Value:
    label = line.fields[expression.key.place]
    found = expression.values.get(label.text) if isinstance(label, Label) else None
    return None if found is None else Label(found)


def _is_share(expression: Call) -> bool:
    """Return whether a number is divided by a total that it is part of."""
    if expression.function != "/":
        return False
    part, total = expression.arguments
    return isinstance(total, Window) and (total.function, total.arguments, total.order) == (
        "SUM",
        (part,),
        (),
    )


def _share(part: Value, total: Value) -> Value:
    """Return x / (x + rest), which rises with x and falls with the rest if both are at least 0."""
    quotient = _function("/", [part, total])
    if not (
        isinstance(part, Number) and isinstance(total, Number) and isinstance(quotient, Number)
    ):
        return quotient
    least = combined("-", (total.low, total.low), (part.low, part.low))[0]
    most = combined("-", (total.high, total.high), (part.high, part.high))[1]
    if part.low < 0 or total.low < part.low or math.isinf(most):
        return quotient
    low, high = _part_of(part.low, most), _part_of(part.high, max(least, 0.0))
    if REALS in (low, high):
        return quotient
    point = None
    if part.point is not None and total.point is not None:
        point = value("/", part.point, total.point)
    return Number(point, low[0], min(high[1], 1.0), point is not None, quotient.missing)


def _part_of(part: float, rest: float) -> Pair:
    return combined("/", (part, part), combined("+", (part, part), (rest, rest)))


def _literal(expression: Literal) -> Value:
    constant = expression.value
    if constant is None:
        return None
    if isinstance(constant, Fraction):
        return Label(int(constant) if constant.denominator == 1 else float(constant))
    return Label(constant)


def _call(expression: Call, arguments: Sequence[Value]) -> Value:
    name = expression.function
    if name in _COMPARED:
        return _compared(name, *arguments)
    if name in ("AND", "OR", "NOT"):
        return _joined(name, [truth_of(argument) for argument in arguments])
    if name == "IS NULL":
        return _missing(arguments[0])
    if name == "COALESCE":
        return _coalesced(arguments)
    if name == "NULLIF":
        equal = _compared("=", *arguments)
        number = as_number(arguments[0])
        if number is None or True not in equal.possible:
            return None if equal.known else arguments[0]
        return replace(number, uncut=None if equal.known else number.uncut, missing=True)
    if name in ("GREATEST", "LEAST"):
        return _extreme(name, arguments, expression.kind)
    if name in ("||", "CONCAT", "TEXT", "UPPER", "LOWER"):
        return _text(name, [as_shown(argument) for argument in arguments])
    return _function(name, arguments)


def _function(name: str, arguments: Sequence[Value]) -> Value:
    """Return a function of numbers; a label if all of them are labels."""
    numbers = [as_number(argument) for argument in arguments]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    points = [number.point for number in known if number.point is not None]
    low, high = image(name, *((number.low, number.high) for number in known))
    defined = len(points) == len(known) and (low, high) != (-math.inf, math.inf)
    point = value(name, *points) if defined else None
    if all(isinstance(argument, Label) for argument in arguments):
        if point is None:
            return None
        return Label(int(point) if point.is_integer() else point)
    missing = any(number.missing for number in known)
    return Number(point, low, high, point is not None, missing)


def as_number(found: Value) -> Number | None:
    """Return a value as a number; None for NULL."""
    if isinstance(found, Number):
        return found
    if isinstance(found, Label) and isinstance(found.text, int | float):
        return Number(float(found.text), float(found.text), float(found.text))
    return None


def truth_of(found: Value) -> Truth:
    """Return a value as a condition."""
    if isinstance(found, Truth):
        return found
    known = bool(found.text) if isinstance(found, Label) else None
    return Truth(known, frozenset((known,)))


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compared(operator: str, left: Value, right: Value) -> Truth:
    """Compare two values: by what is shown, and over all values in their intervals."""
    if left is None or right is None:
        return Truth(None, frozenset((None,)))
    compare = _COMPARED[operator]
    if not isinstance(left, Number) and not isinstance(right, Number):
        known = compare(as_shown(left), as_shown(right))
        return Truth(known, frozenset((known,)))
    a, b = as_number(left), as_number(right)
    if a is None or b is None:
        raise TypeError("a number is compared with a text")
    if a.shown is None or b.shown is None:
        return Truth(None, frozenset((True, False, None)))
    possible: set[bool | None] = {compare(x, y) for x in (a.low, a.high) for y in (b.low, b.high)}
    if operator in ("=", "<>") and a.low <= b.high and b.low <= a.high:
        # the intervals meet: both are possible unless each is one number
        possible.add(operator == "=")
        if (a.low, a.high) != (b.low, b.high) or a.low < a.high:
            possible.add(operator != "=")
    if a.missing or b.missing:
        possible.add(None)
    return Truth(compare(a.shown, b.shown), frozenset(possible))


def _joined(name: str, truths: Sequence[Truth]) -> Truth:
    """Combine conditions by AND, OR or NOT, in SQL's three-valued logic."""

    def join(values: Sequence[bool | None]) -> bool | None:
        if name == "NOT":
            return None if values[0] is None else not values[0]
        decisive = name == "OR"
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    possible = truths[0].possible
    if name == "NOT":
        possible = frozenset(join([one]) for one in possible)
    for truth in truths[1:]:
        pairs = itertools.product(possible, truth.possible)
        possible = frozenset(join(pair) for pair in pairs)
    return Truth(join([truth.known for truth in truths]), possible)


def _missing(found: Value) -> Truth:
    if isinstance(found, Number):
        possible = (True, False) if found.doubtful else (False,)
        return Truth(found.point is None, frozenset(possible))
    missing = found is None or (isinstance(found, Truth) and found.known is None)
    return Truth(missing, frozenset((missing,)))


def _coalesced(arguments: Sequence[Value]) -> Value:
    """Return the first value that is not NULL; a number that may be missing adds its interval."""
    doubtful: list[Number] = []
    for argument in arguments:
        if argument is None:
            continue
        if isinstance(argument, Number) and argument.doubtful:
            doubtful.append(argument)
            continue
        chosen = next((one for one in doubtful if one.point is not None), argument)
        return hull(chosen, [*doubtful, argument], missing=False)
    first = next((one for one in doubtful if one.point is not None), None)
    return hull(first or doubtful[0], doubtful) if doubtful else None


def hull(chosen: Value, possible: Sequence[Value], *, missing: bool = True) -> Value:
    """Return the chosen value, with the interval of everything that is possible.

    It may be NULL if one of the possible values may, unless ``missing`` is False.
    """
    if len(possible) < 2 and chosen in possible:
        return chosen
    numbers = [number for one in possible if (number := as_number(one)) is not None]
    if not numbers:
        return chosen
    number = as_number(chosen)
    null = missing and (len(numbers) < len(possible) or any(one.doubtful for one in numbers))
    return Number(
        None if number is None else number.point,
        min(one.low for one in numbers),
        max(one.high for one in numbers),
        number is not None and number.point is not None,
        null,
    )


def _extreme(name: str, arguments: Sequence[Value], kind: Kind) -> Value:
    """Return the greatest or least value that is not NULL."""
    known = [argument for argument in arguments if argument is not None]
    if not known:
        return None
    if kind is not Kind.NUMBER:
        best = max if name == "GREATEST" else min
        return best(known, key=lambda one: rank(one, uncut=False) or FIRST)
    doubtful = [one for one in known if isinstance(one, Number) and one.doubtful]
    sure = [one for one in known if one not in doubtful]
    everything = _function(name, known)
    if not doubtful or not sure:
        return everything
    # what is missing in truth is left out
    chosen = _function(name, [one for one in known if as_shown(one) is not None])
    return hull(chosen, [everything, _function(name, sure), *sure], missing=False)


def _text(name: str, values: Sequence[partition.Label | None]) -> Label | None:
    if name == "CONCAT":
        values = [one for one in values if one is not None]
    if None in values:
        return None
    text = "".join(str(one).lower() if isinstance(one, bool) else str(one) for one in values)
    return Label({"UPPER": text.upper, "LOWER": text.lower}.get(name, text.__str__)())


def _choice(expression: Choice, line: Line) -> Value:
    """Return what CASE chooses by what is shown, with the interval of all that it may choose."""
    chosen: list[Value] = []
    possible: list[Value] = []
    for condition, result in (*expression.branches, (Literal(True), expression.default)):
        truth = truth_of(evaluate(condition, line))
        if True not in truth.possible:
            continue
        found = evaluate(result, line)
        possible.append(found)
        if truth.known:
            chosen.append(found)
        if truth.possible == frozenset((True,)):
            break
    return hull(chosen[0], possible) if expression.kind is Kind.NUMBER else chosen[0]


# what is shown of a value

Rank: TypeAlias = tuple[float, str]
FIRST: Rank = (-math.inf, "")


def rank(found: Value, *, uncut: bool) -> Rank | None:
    """Return where a value stands in an order, by what is shown or before the cut; None at the end."""
    if isinstance(found, Number):
        number = found.uncut if uncut else found.shown
        return None if number is None else (number, "")
    if isinstance(found, Truth):
        return None if found.known is None else (float(found.known), "")
    if found is None:
        return None
    if found.rank is not None:
        return float(found.rank), ""
    if isinstance(found.text, int | float):
        return float(found.text), ""
    return 0.0, str(found.text)


def as_shown(found: Value) -> partition.Label | None:
    """Return a value without its interval."""
    if isinstance(found, Number):
        number = found.shown
        return int(number) if number is not None and number.is_integer() else number
    if isinstance(found, Truth):
        return found.known
    return None if found is None else found.text
