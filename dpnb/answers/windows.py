"""Functions over several lines: totals, running sums, neighbours and ranks of released numbers.

Lines are those that are left, whichever released numbers picked. An interval is the image of
intervals that hold at once, so it holds with them.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpnb.answers.scalars import (
    FIRST,
    Label,
    Line,
    Number,
    Rank,
    Value,
    as_number,
    as_shown,
    evaluate,
    hull,
    rank,
)
from dpnb.estimation.formula import combined, widened
from dpnb.estimation.intervals import Pair
from dpnb.sql.shown import Expression, Field, Term, Total, Window, parts

_RANKS = "CUME_DIST", "DENSE_RANK", "NTILE", "PERCENT_RANK", "RANK", "ROW_NUMBER"


def sorted_lines(order: Sequence[Term], lines: Sequence[Line]) -> list[Line]:
    """Sort lines by what is shown, equal ones by their numbers before the cut.

    Labels of groups sort in declared order; unknown values come last in either direction.
    """
    places = list(range(len(lines)))
    values = [[evaluate(term.expression, line) for line in lines] for term in order]
    for uncut in (True, False):
        for term, found in zip(reversed(order), reversed(values), strict=True):
            ranks = [rank(one, uncut=uncut) for one in found]
            keys = [one or FIRST for one in ranks]
            places.sort(key=keys.__getitem__, reverse=term.descending)
            places.sort(key=[one is None for one in ranks].__getitem__)
    return [lines[place] for place in places]


def grouped(keys: Sequence[Expression], lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines with equal labels together, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        key = tuple(as_shown(evaluate(one, line)) for one in keys)
        groups.setdefault(key, []).append(line)
    return list(groups.values())


def windowed(window: Window, lines: Sequence[Line]) -> dict[int, Value]:
    """Return the value of a window on each line, by the line's identity (``id``)."""
    found: dict[int, Value] = {}
    for group in grouped(window.partition, lines):
        partition = _Partition(window, sorted_lines(window.order, group))
        found |= dict(zip(map(id, partition.lines), partition.values(), strict=True))
    return found


def total(function: str, arguments: Sequence[Value], more: int = 0, sure: int = 0) -> Value:
    """Return an aggregate of the values of several lines.

    For COUNT, ``sure`` lines are there for all numbers in their intervals, and ``more`` may be.
    """
    if function == "COUNT":
        values = [one for one in arguments if one is not None]
        doubtful = [one for one in values if isinstance(one, Number) and one.doubtful]
        number = sum(as_shown(one) is not None for one in values)
        least, most = min(sure, len(values)) - len(doubtful), len(values) + more
        if least == most:
            return Label(number)
        return Number(float(number), float(max(least, 0)), float(most))
    numbers = [one for one in map(as_number, arguments) if one is not None]
    if function in ("MIN", "MAX") and len(numbers) < sum(one is not None for one in arguments):
        texts = [one for one in arguments if one is not None]
        best = min if function == "MIN" else max
        return best(texts, key=lambda one: rank(one, uncut=False) or FIRST)
    if not numbers:
        return None
    if all(isinstance(one, Label) for one in arguments if one is not None):
        exact = _of_numbers(function, numbers)
        point = exact.uncut or 0.0
        return Label(int(point) if point.is_integer() else point)
    return _of_numbers(function, numbers)


def _of_numbers(function: str, numbers: Sequence[Number]) -> Number:
    """Return a sum, mean, least or greatest number; what may be missing is in or out."""
    sure = [number for number in numbers if not number.doubtful]
    points = [number.point for number in numbers if number.point is not None]
    lows, highs = [one.low for one in numbers], [one.high for one in numbers]
    if function == "SUM":
        # a missing value adds nothing
        doubtful = [one for one in numbers if one.doubtful]
        ends = [hull(None, [one, Label(0)]) for one in doubtful]
        in_or_out = [one for one in ends if isinstance(one, Number)]
        spans = [(one.low, one.high) for one in (*sure, *in_or_out)]
        low, high = _added(spans)
        return Number(math.fsum(points) if points else None, low, high, bool(points))
    if function == "AVG":
        if len(sure) < len(numbers):
            low, high = min(lows), max(highs)
        else:
            count = float(len(numbers))
            low, high = combined("/", _added(list(zip(lows, highs, strict=True))), (count, count))
        point = math.fsum(points) / len(points) if points else None
        return Number(point, low, high, bool(points))
    least = function == "MIN"
    inner = [(one.low, one.high) for one in sure] or list(zip(lows, highs, strict=True))
    best = min if least else max
    low = min(lows) if least else best(low for low, _ in inner)
    high = best(high for _, high in inner) if least else max(highs)
    return Number(best(points) if points else None, low, high, bool(points))


def _added(spans: Sequence[Pair]) -> Pair:
    low, high = math.fsum(low for low, _ in spans), math.fsum(high for _, high in spans)
    exact = all(low == high and low.is_integer() for low, high in spans)
    return (low, high) if exact else widened(low, high)


@dataclass(slots=True)
class _Partition:
    """The lines of one partition in the order of a window."""

    window: Window
    lines: list[Line]

    def values(self) -> Iterator[Value]:
        """Return the value of the window on each line."""
        name = self.window.function
        if name in _RANKS:
            return self._ranks()
        if name in ("LAG", "LEAD"):
            return self._neighbours()
        return self._frames()

    def _arguments(self) -> list[Value]:
        if not self.window.arguments:
            return [Label(1)] * len(self.lines)
        return [evaluate(self.window.arguments[0], line) for line in self.lines]

    def _keys(self) -> list[tuple[Rank | None, ...]]:
        """Return what decides which lines are equal in the order: what they show."""
        order = self.window.order
        return [
            tuple(rank(evaluate(term.expression, line), uncut=False) for term in order)
            for line in self.lines
        ]

    def _frames(self) -> Iterator[Value]:
        arguments, keys = self._arguments(), self._keys()
        function, count = self.window.function, len(self.lines)
        whole: Value = None
        if self.window.rows is None and not self.window.order:
            whole = self._of(function, arguments)
        for place in range(count):
            if self.window.rows is not None:
                before, after = self.window.rows
                start = 0 if before is None else max(0, place - before)
                end = count if after is None else min(count, place + after + 1)
            elif not self.window.order:
                yield whole
                continue
            else:
                start, end = 0, place + 1
                while end < count and keys[end] == keys[place]:
                    end += 1
            yield self._of(function, arguments[start:end])

    @staticmethod
    def _of(function: str, arguments: Sequence[Value]) -> Value:
        if function in ("FIRST_VALUE", "LAST_VALUE"):
            return (
                (arguments[0] if function == "FIRST_VALUE" else arguments[-1])
                if arguments
                else None
            )
        return total(function, arguments, sure=len(arguments))

    def _neighbours(self) -> Iterator[Value]:
        arguments = self._arguments()
        _, offset, default = self.window.arguments
        for place, line in enumerate(self.lines):
            step = as_number(evaluate(offset, line))
            distance = 0 if step is None else int(step.low)
            other = place + (distance if self.window.function == "LEAD" else -distance)
            known = 0 <= other < len(self.lines)
            yield arguments[other] if known else evaluate(default, line)

    def _ranks(self) -> Iterator[Value]:
        """Return ranks by what is shown, between the least and the greatest that are possible."""
        name, keys, count = self.window.function, self._keys(), len(self.lines)
        spans = self._spans()
        lows, highs = sorted(low for low, _ in spans), sorted(high for _, high in spans)
        # later terms decide between lines that the first one does not tell apart
        exact = all(low == high for low, high in spans) and not any(
            isinstance(part, Window | Total) or (isinstance(part, Field) and part.released)
            for term in self.window.order[1:]
            for part in parts(term.expression)
        )
        first = dense = 0
        for place in range(count):
            if place == 0 or keys[place] != keys[place - 1]:
                first, dense = place + 1, dense + 1
            if name == "CUME_DIST":
                number = next((i for i in range(place, count) if keys[i] != keys[place]), count)
            else:
                number = {"DENSE_RANK": dense, "RANK": first, "PERCENT_RANK": first}.get(
                    name, place + 1
                )
            if exact:
                yield Label(self._rank(number))
                continue
            low, high = spans[place]
            before, most = bisect.bisect_left(highs, low), bisect.bisect_right(lows, high)
            if name == "CUME_DIST" and not self.window.order[1:]:
                # lines that are surely equal count, too
                before = bisect.bisect_right(highs, low) - (low == high)
            least = 1 + (min(before, 1) if name == "DENSE_RANK" else before)
            ranks = number, min(least, number), max(most, number)
            point, start, end = (float(self._rank(one)) for one in ranks)
            yield Number(point, start, end)

    def _rank(self, number: int) -> int | float:
        """Return the value of the function where a rank is ``number``; it never falls with it."""
        name, count = self.window.function, len(self.lines)
        if name == "PERCENT_RANK":
            return (number - 1) / (count - 1) if count > 1 else 0.0
        if name == "CUME_DIST":
            return number / count
        if name != "NTILE":
            return number
        parts_of = as_number(evaluate(self.window.arguments[0], self.lines[0]))
        size, more = divmod(count, 1 if parts_of is None else int(parts_of.low))
        # the first parts have one line more
        longer = more * (size + 1)
        if number <= longer:
            return (number - 1) // (size + 1) + 1
        return more + (number - 1 - longer) // size + 1

    def _spans(self) -> list[Pair]:
        """Return the interval of the first term on each line; lower numbers come first."""
        spans: list[Pair] = []
        for line in self.lines:
            if not self.window.order:
                break
            term = self.window.order[0]
            found = evaluate(term.expression, line)
            number = as_number(found)
            if number is None or number.doubtful:
                spans.append((-math.inf, math.inf))
            else:
                low, high = number.low, number.high
                spans.append((-high, -low) if term.descending else (low, high))
        return spans
