"""What a statement shows of its released groups: the outer part, carried out on released numbers.

Conditions test the numbers that are shown, without what is publicly impossible; where these are
equal, ORDER BY goes on with the numbers before that cut. Sums and other arithmetic use the latter,
because a sum of cut numbers is too high (docs/methods/estimation.md, theorem 16). Intervals are
images of intervals that hold at once, so they hold with them, whichever groups are shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dpnb.estimation.estimates import Intervals, Numbers
from dpnb.estimation.images import image, value
from dpnb.schema import partition
from dpnb.sql.functions import Function
from dpnb.sql.query import Query
from dpnb.sql.shown import Call, Choice, Column, Expression, Field, Kind, Literal, Term, is_label
from dpnb.views.view import group_labels, group_numbers


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a group, or another exact text, number or truth, with its place in the order."""

    text: partition.Label
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A released number: before the cut, and the interval of what is shown.

    ``known`` is False if there are too few rows to tell.
    """

    uncut: float | None
    low: float
    high: float
    known: bool = True

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
Line: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ShownTable:
    """The table that an answer shows where it is not its released groups as they are.

    Attributes
    ----------
    keys : tuple of str
        Names of the columns of labels.
    groups : tuple of tuples
        The labels of each line.
    columns : tuple of Intervals
        The columns of numbers, line by line.
    """

    keys: tuple[str, ...]
    groups: tuple[tuple[partition.Label | None, ...], ...]
    columns: tuple[Intervals, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """The places of the lines, all of which are shown."""
        return tuple(range(len(self.groups)))

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data (JSON)."""
        return {
            "keys": list(self.keys),
            "groups": [list(group) for group in self.groups],
            "columns": [Intervals.to_dict(column) for column in self.columns],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ShownTable:
        """Build a table from :meth:`to_dict`."""
        return cls(
            tuple(data["keys"]),
            tuple(tuple(group) for group in data["groups"]),
            tuple(Intervals(**Intervals.read_fields(column)) for column in data["columns"]),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is shown of the released groups.

    Attributes
    ----------
    rows : tuple of int
        Indices of the groups that are shown, in order.
    rest : tuple of int
        Indices of the groups that are not.
    hidden : int or None
        How many of them HAVING hides; None without HAVING.
    table : ShownTable or None
        What is shown of them; None for their keys and results as they are.
    """

    rows: tuple[int, ...]
    rest: tuple[int, ...] = ()
    hidden: int | None = None
    table: ShownTable | None = None


def shown(query: Query, groups: Sequence[int], results: Sequence[Intervals]) -> Outcome:
    """Carry out the outer part of a statement.

    Parameters
    ----------
    groups : sequence of int
        Indices of the groups that WHERE does not rule out.
    results : sequence of Intervals
        The released results over all declared groups.
    """
    outer = query.shown
    if outer.columns is None and outer.having is None and not outer.order:
        kept = list(groups)
        lines: dict[int, Line] = {}
    else:
        lines = _released(query, groups, results)
        kept = _filtered(outer.having, list(groups), lines)
        kept = _sorted(outer.order, kept, lines)
    hidden = None if outer.having is None else len(groups) - len(kept)
    columns = outer.columns
    if outer.distinct and columns is not None:
        kept = _distinct(columns, kept, lines)
    end = None if outer.limit is None else outer.offset + outer.limit
    rows = tuple(kept[outer.offset : end])
    rest = tuple(sorted(set(groups).difference(rows)))
    if columns is None:
        return Outcome(rows, rest, hidden)
    places = {column.alias: place for place, column in enumerate(results)}
    table = _table(columns, rows, lines, results, places, len(query.keys))
    return Outcome(rows, rest, hidden, table)


def _released(query: Query, groups: Sequence[int], results: Sequence[Intervals]) -> dict[int, Line]:
    """Return the released groups as lines: their labels, then their results."""
    labels, numbers = group_labels(query), group_numbers(query)
    lines: dict[int, Line] = {}
    for group in groups:
        names = map(Label, labels[group], numbers[group])
        lines[group] = (*names, *(_number(column, group) for column in results))
    return lines


def _number(column: Intervals, group: int) -> Number:
    known = column.estimate[group] is not None
    return Number(column.uncut.estimate[group], column.low[group], column.high[group], known)


def _filtered(
    condition: Expression | None, rows: list[int], lines: Mapping[int, Line]
) -> list[int]:
    if condition is None:
        return rows
    return [row for row in rows if _truth(evaluate(condition, lines[row])).known]


def _sorted(order: Sequence[Term], rows: list[int], lines: Mapping[int, Line]) -> list[int]:
    """Sort rows by what is shown, equal ones by their numbers before the cut.

    Labels of groups sort in declared order; unknown values come last in either direction.
    """
    rows = list(rows)
    values = [{row: evaluate(term.expression, lines[row]) for row in rows} for term in order]
    for uncut in (True, False):
        for term, found in zip(reversed(order), reversed(values), strict=True):
            ranks = {row: _rank(one, uncut=uncut) for row, one in found.items()}
            rows.sort(key=lambda row: ranks[row] or _FIRST, reverse=term.descending)
            rows.sort(key=lambda row: ranks[row] is None)
    return rows


Rank: TypeAlias = tuple[float, str]
_FIRST: Rank = (-math.inf, "")


def _rank(found: Value, *, uncut: bool) -> Rank | None:
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


def _distinct(
    columns: Sequence[Column], rows: Sequence[int], lines: Mapping[int, Line]
) -> list[int]:
    """Return the first of the rows that show the same."""
    first: dict[tuple[object, ...], int] = {}
    for row in rows:
        values = (evaluate(column.expression, lines[row]) for column in columns)
        first.setdefault(tuple(map(_as_shown, values)), row)
    return list(first.values())


def _as_shown(found: Value) -> partition.Label | None:
    """Return a value without its interval."""
    if isinstance(found, Number):
        number = found.shown
        return int(number) if number is not None and number.is_integer() else number
    if isinstance(found, Truth):
        return found.known
    return None if found is None else found.text


def _table(
    columns: Sequence[Column],
    rows: Sequence[int],
    lines: Mapping[int, Line],
    results: Sequence[Intervals],
    places: Mapping[str, int],
    keys: int,
) -> ShownTable:
    labels = [column for column in columns if is_label(column.expression)]
    groups = tuple(
        tuple(_as_shown(evaluate(column.expression, lines[row])) for column in labels)
        for row in rows
    )
    numbers: list[Intervals] = []
    for column in columns:
        expression = column.expression
        if column in labels:
            continue
        if isinstance(expression, Field):
            numbers.append(_picked(results[expression.place - keys], rows, column.alias))
        else:
            found = [evaluate(expression, lines[row]) for row in rows]
            numbers.append(_column(column.alias, found))
    return ShownTable(tuple(column.alias for column in labels), groups, tuple(numbers))


def _picked(column: Intervals, rows: Sequence[int], alias: str) -> Intervals:
    """Return the lines of a released result."""
    before = column.before
    possible = column.possible
    return Intervals(
        alias,
        column.function,
        column.column,
        tuple(column.estimate[row] for row in rows),
        tuple(column.low[row] for row in rows),
        tuple(column.high[row] for row in rows),
        possible=tuple(possible[row] for row in rows) if len(possible) > 1 else possible,
        before=before
        and Numbers(
            tuple(before.estimate[row] for row in rows),
            tuple(before.low[row] for row in rows),
            tuple(before.high[row] for row in rows),
        ),
    )


def _column(alias: str, found: Sequence[Value]) -> Intervals:
    """Return a column of computed numbers."""
    numbers = [_as_number(one) or Number(None, -math.inf, math.inf) for one in found]
    low, high = tuple(one.low for one in numbers), tuple(one.high for one in numbers)
    estimate = tuple(one.shown for one in numbers)
    uncut = tuple(one.point for one in numbers)
    before = None
    if uncut != estimate:
        spans = [
            (low, high) if point is None else (min(low, point), max(high, point))
            for point, low, high in zip(uncut, low, high, strict=True)
        ]
        before = Numbers(uncut, tuple(a for a, _ in spans), tuple(b for _, b in spans))
    return Intervals(alias, Function.FORMULA, None, estimate, low, high, before=before)


# expressions


def evaluate(expression: Expression, line: Line) -> Value:
    """Return the value of an expression on one line."""
    if isinstance(expression, Field):
        return line[expression.place]
    if isinstance(expression, Literal):
        return _literal(expression)
    if isinstance(expression, Choice):
        return _choice(expression, line)
    arguments = [evaluate(argument, line) for argument in expression.arguments]
    return _call(expression, arguments)


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
        return _joined(name, [_truth(argument) for argument in arguments])
    if name == "IS NULL":
        return _missing(arguments[0])
    if name == "COALESCE":
        return _coalesced(arguments)
    if name == "NULLIF":
        equal = _compared("=", *arguments)
        number = _as_number(arguments[0])
        if not equal.known:
            return arguments[0]
        return None if number is None else Number(None, number.low, number.high)
    if name in ("GREATEST", "LEAST"):
        return _extreme(name, arguments, expression.kind)
    if name in ("||", "CONCAT", "TEXT", "UPPER", "LOWER"):
        return _text(name, [_as_shown(argument) for argument in arguments])
    return _function(name, arguments)


def _function(name: str, arguments: Sequence[Value]) -> Value:
    """Return a function of numbers; a label if all of them are labels."""
    numbers = [_as_number(argument) for argument in arguments]
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
    return Number(point, low, high)


def _as_number(found: Value) -> Number | None:
    """Return a value as a number; None for NULL."""
    if isinstance(found, Number):
        return found
    if isinstance(found, Label) and isinstance(found.text, int | float):
        return Number(float(found.text), float(found.text), float(found.text))
    return None


def _truth(found: Value) -> Truth:
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
        known = compare(_as_shown(left), _as_shown(right))
        return Truth(known, frozenset((known,)))
    a, b = _as_number(left), _as_number(right)
    if a is None or b is None:
        raise TypeError("a number is compared with a text")
    if a.shown is None or b.shown is None:
        return Truth(None, frozenset((True, False, None)))
    possible = {compare(x, y) for x in (a.low, a.high) for y in (b.low, b.high)}
    if operator in ("=", "<>") and a.low <= b.high and b.low <= a.high:
        # the intervals meet: both are possible unless each is one number
        possible.add(operator == "=")
        if (a.low, a.high) != (b.low, b.high) or a.low < a.high:
            possible.add(operator != "=")
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
        unknown = found.point is None
        return Truth(unknown, frozenset((True, False) if unknown else (False,)))
    missing = found is None or (isinstance(found, Truth) and found.known is None)
    return Truth(missing, frozenset((missing,)))


def _coalesced(arguments: Sequence[Value]) -> Value:
    """Return the first value that is not NULL; a number that may be missing adds its interval."""
    doubtful: list[Number] = []
    for argument in arguments:
        if argument is None:
            continue
        if isinstance(argument, Number) and argument.point is None:
            doubtful.append(argument)
            continue
        return _hull(argument, [*doubtful, argument])
    return _hull(doubtful[0], doubtful) if doubtful else None


def _hull(chosen: Value, possible: Sequence[Value]) -> Value:
    """Return the chosen value, with the interval of everything that is possible."""
    if len(possible) < 2 and chosen in possible:
        return chosen
    numbers = [number for one in possible if (number := _as_number(one)) is not None]
    if not numbers:
        return chosen
    number = _as_number(chosen)
    return Number(
        None if number is None else number.point,
        min(one.low for one in numbers),
        max(one.high for one in numbers),
    )


def _extreme(name: str, arguments: Sequence[Value], kind: Kind) -> Value:
    """Return the greatest or least value that is not NULL."""
    known = [argument for argument in arguments if argument is not None]
    if not known:
        return None
    if kind is not Kind.NUMBER:
        best = max if name == "GREATEST" else min
        return best(known, key=lambda one: _rank(one, uncut=False) or _FIRST)
    doubtful = [one for one in known if isinstance(one, Number) and one.point is None]
    sure = [one for one in known if one not in doubtful]
    everything = _function(name, known)
    if not doubtful or not sure:
        return everything
    # what is missing in truth is left out
    return _hull(_function(name, sure), [everything, _function(name, sure)])


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
        truth = _truth(evaluate(condition, line))
        if True not in truth.possible:
            continue
        found = evaluate(result, line)
        possible.append(found)
        if truth.known:
            chosen.append(found)
        if truth.possible == frozenset((True,)):
            break
    return _hull(chosen[0], possible) if expression.kind is Kind.NUMBER else chosen[0]
