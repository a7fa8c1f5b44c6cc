"""Codes on an ordered scale, intervals of codes, and functions that are constant on intervals.

Every column maps a normalised value to a **code**: the index of a category, an integer, days since
1970-01-01, or a float. Predicates and groups are closed intervals of codes, so the same operations
serve all kinds of columns. A function that repeats, such as the hour of a time, is written once for
all its repetitions.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, TypeAlias, TypeVar

from dpnb.errors import RequestError, given

Code: TypeAlias = int | float
Interval: TypeAlias = tuple[Code, Code]
"""A closed interval of codes, ``low <= high``."""
Output = TypeVar("Output")
Other = TypeVar("Other")


def _union(intervals: Sequence[Interval], adjacent: bool) -> tuple[Interval, ...]:
    """Return sorted, disjoint intervals; integer neighbours such as 1..2 and 3..4 are joined."""
    merged: list[Interval] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1] + (1 if adjacent else 0):
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Scale:
    """An ordered scale of codes between ``low`` and ``high``, both included."""

    low: Code
    high: Code
    integral: bool

    def next(self, code: Code) -> Code:
        """Return the next higher code."""
        # 0.0 rather than -0.0
        return code + 1 if self.integral else math.nextafter(code, math.inf) + 0.0

    def previous(self, code: Code) -> Code:
        """Return the next lower code."""
        return code - 1 if self.integral else math.nextafter(code, -math.inf)

    def at_most(self, value: Fraction | float) -> Code:
        """Return the largest code that is at most ``value``.

        Above the scale it is ``high``; below the scale it is the code just below ``low``.
        """
        if value >= self.high:
            return self.high
        if value < self.low:
            return self.previous(self.low)
        if self.integral:
            return math.floor(value)
        code = float(value)
        return self.previous(code) if Fraction(code) > Fraction(value) else code

    def below(self, value: Fraction | float) -> Code:
        """Return the largest code below ``value``."""
        code = self.at_most(value)
        return self.previous(code) if Fraction(code) == Fraction(value) else code

    def compare(self, operator: str, value: Fraction | float) -> tuple[Interval, ...]:
        """Return the codes on this scale for which ``code operator value`` is true."""
        if operator == "<>":
            return self.complement(self.compare("=", value))
        least, greatest = self.low, self.high
        if operator in ("<", "<="):
            greatest = self.at_most(value) if operator == "<=" else self.below(value)
        elif operator in (">", ">="):
            least = self.next(self.at_most(value) if operator == ">" else self.below(value))
        else:
            least = self.next(self.below(value))
            greatest = self.at_most(value)
        least, greatest = max(least, self.low), min(greatest, self.high)
        return ((least, greatest),) if least <= greatest else ()

    def union(self, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        """Return sorted, disjoint intervals with the same codes."""
        return _union(intervals, self.integral)

    def complement(self, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        """Return the codes of the scale outside the intervals."""
        gaps: list[Interval] = []
        start = self.low
        for low, high in self.union(intervals):
            if start < low:
                gaps.append((start, self.previous(low)))
            start = self.next(high)
        if start <= self.high:
            gaps.append((start, self.high))
        return tuple(gaps)

    def is_normal(self, intervals: Sequence[Interval]) -> bool:
        """Return whether intervals are what ``union`` makes of them, all on the scale."""
        start = self.low
        for low, high in intervals:
            if not start <= low <= high <= self.high:
                return False
            start = high + 2 if self.integral else math.nextafter(high, math.inf)
        return True

    def intersection(
        self, left: Sequence[Interval], right: Sequence[Interval]
    ) -> tuple[Interval, ...]:
        """Return the codes in both."""
        return self.union(common(self.union(left), self.union(right)))


@dataclass(frozen=True, slots=True)
class StepFunction(Generic[Output]):
    """A function of a code that is constant on intervals.

    Functions that are equal everywhere are equal: pieces are sorted, and neighbours with equal
    outputs are one piece. All codes are whole numbers, or all are floats.

    Parameters
    ----------
    pieces : sequence of (low, high, output)
        Closed intervals of codes without common codes, in any order. A code in none of them has no
        output; None as the output means the same.
    null : optional
        The output of a missing value; None if it has none.

    Examples
    --------
    >>> decade = StepFunction([(30, 39, 3), (17, 19, 1), (20, 29, 2), (40, 42, 3)])
    >>> decade.pieces
    ((17, 19, 1), (20, 29, 2), (30, 42, 3))
    >>> decade(25), decade(16), decade.where(3), decade.then(lambda tens: tens > 1).pieces
    (2, None, ((30, 42),), ((17, 19, False), (20, 42, True)))
    """

    pieces: tuple[tuple[Code, Code, Output], ...]
    null: Output | None = None

    def __init__(
        self, pieces: Iterable[tuple[Code, Code, Output | None]], null: Output | None = None
    ) -> None:
        joined: list[tuple[Code, Code, Output]] = []
        for low, high, output in sorted(pieces, key=lambda piece: piece[0]):
            if low > high or (joined and low <= joined[-1][1]):
                raise ValueError("pieces of a step function must be intervals without common codes")
            if output is None:
                continue
            if joined and joined[-1][2] == output and low == _next(joined[-1][1]):
                joined[-1] = joined[-1][0], high, output
            else:
                joined.append((low, high, output))
        object.__setattr__(self, "pieces", tuple(joined))
        object.__setattr__(self, "null", null)

    def __call__(self, code: Code) -> Output | None:
        """Return the output of a code."""
        number = bisect_right(self.pieces, code, key=lambda piece: piece[0]) - 1
        if number < 0 or code > self.pieces[number][1]:
            return None
        return self.pieces[number][2]

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The different outputs of codes, in the order of their least codes."""
        return tuple(dict.fromkeys(output for _, _, output in self.pieces))

    @property
    def support(self) -> tuple[Interval, ...]:
        """The codes that have an output, in as few intervals as possible."""
        return self.then(lambda _: True).where(True)

    def where(self, output: Output) -> tuple[Interval, ...]:
        """Return the codes with an output."""
        return tuple((low, high) for low, high, other in self.pieces if other == output)

    def then(self, mapping: Callable[[Output], Other | None]) -> StepFunction[Other]:
        """Return the function followed by a mapping of its outputs; None stays without output."""
        images = {output: mapping(output) for output in self.outputs}
        null = None if self.null is None else mapping(self.null)
        return StepFunction([(low, high, images[out]) for low, high, out in self.pieces], null)

    def over(self, scale: Scale) -> StepFunction[Output]:
        """Return the function itself; see :meth:`Periodic.over`."""
        return self

    @property
    def period(self) -> None:
        """None: the function does not repeat, as a :class:`Periodic` does."""

    @property
    def steps(self) -> StepFunction[Output]:
        """The function itself; of a :class:`Periodic` that of the remainders of codes."""
        return self

    def covers(self, scale: Scale) -> bool:
        """Return whether every code of a scale has an output."""
        return self.support == ((scale.low, scale.high),)

    def image(self, codes: Sequence[Interval]) -> tuple[Output, ...]:
        """Return the different outputs of some codes, in sorted intervals without common codes."""
        found: dict[Output, None] = {}
        place = 0
        for low, high, output in self.pieces:
            while place < len(codes) and codes[place][1] < low:
                place += 1
            if place < len(codes) and codes[place][0] <= high:
                found[output] = None
        return tuple(found)

    def plain(self, write: Callable[[Output], Any]) -> Any:
        """Return the pieces as plain data (JSON), each output written by a function."""
        return [[low, high, write(output)] for low, high, output in self.pieces]

    def refined(
        self, other: StepFunction[Other]
    ) -> StepFunction[tuple[Output | None, Other | None]]:
        """Return the pairs of this function's and another's output, None where one has none.

        Codes without output in both have none here.

        Examples
        --------
        >>> StepFunction([(1, 3, "a")]).refined(StepFunction([(2, 5, "b")])).pieces
        ((1, 1, ('a', None)), (2, 3, ('a', 'b')), (4, 5, (None, 'b')))
        """
        starts = {low for low, _, _ in (*self.pieces, *other.pieces)}
        starts |= {_next(high) for _, high, _ in (*self.pieces, *other.pieces)}
        ends = sorted(starts)
        pieces = [
            (low, _previous(end), _pair(self(low), other(low)))
            for low, end in itertools.pairwise(ends)
        ]
        return StepFunction(pieces, _pair(self.null, other.null))


@dataclass(frozen=True, slots=True)
class Periodic(Generic[Output]):
    """A function of a whole code that repeats after ``period`` codes, for ever.

    Functions that are equal everywhere are equal if they are made by :func:`repeated`, which finds
    the least period.

    Parameters
    ----------
    period : int
        Number of codes after which the outputs repeat.
    steps : StepFunction
        From the remainder of a code, 0..period - 1, to the output. Its ``null`` is that of a
        missing value.

    Examples
    --------
    >>> hour = Periodic(86_400, StepFunction((3_600 * h, 3_600 * h + 3_599, h) for h in range(24)))
    >>> hour(-1), hour(90_000), hour.image([(82_800, 90_000)])
    (23, 1, (0, 1, 23))
    >>> hour.over(Scale(80_000, 90_000, integral=True)).pieces
    ((80000, 82799, 22), (82800, 86399, 23), (86400, 89999, 0), (90000, 90000, 1))
    """

    period: int
    steps: StepFunction[Output]

    @property
    def null(self) -> Output | None:
        """The output of a missing value; None if it has none."""
        return self.steps.null

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The different outputs of codes, in the order of their least remainders."""
        return self.steps.outputs

    @property
    def unit(self) -> int:
        """The largest number of codes that divides the period and all pieces."""
        edges = (edge for low, high, _ in self.steps.pieces for edge in (int(low), int(high) + 1))
        return math.gcd(self.period, *edges)

    @property
    def repetition(self) -> list[Output | None]:
        """The output of each unit of a repetition, None where there is none."""
        return [self.steps(start) for start in range(0, self.period, self.unit)]

    def __call__(self, code: Code) -> Output | None:
        """Return the output of a code."""
        return self.steps(int(code) % self.period)

    def then(self, mapping: Callable[[Output], Other | None]) -> Periodic[Other]:
        """Return the function followed by a mapping of its outputs; None stays without output."""
        return Periodic(self.period, self.steps.then(mapping))

    def over(self, scale: Scale) -> StepFunction[Output]:
        """Return the function of the codes of a scale, each repetition written out."""
        low, high = int(scale.low), int(scale.high)
        return StepFunction(
            (
                (max(start + first, low), min(start + last, high), output)
                for start in range(low - low % self.period, high + 1, self.period)
                for first, last, output in self.steps.pieces
                if start + last >= low and start + first <= high
            ),
            self.null,
        )

    def covers(self, scale: Scale) -> bool:
        """Return whether every code of a scale, longer than a period, has an output."""
        del scale
        return self.steps.support == ((0, self.period - 1),)

    def image(self, codes: Sequence[Interval]) -> tuple[Output, ...]:
        """Return the different outputs of some codes, in sorted intervals without common codes."""
        return self.steps.image(remainders(codes, self.period))

    def plain(self, write: Callable[[Output], Any]) -> Any:
        """Return the function as plain data (JSON), each output written by a function."""
        return {"period": self.period, "pieces": self.steps.plain(write)}


Steps: TypeAlias = StepFunction[Output] | Periodic[Output]
"""A function that is constant on intervals of codes."""


def repeated(period: int, steps: StepFunction[Output], scale: Scale, most: int) -> Steps[Output]:
    """Return a function that repeats after so many codes: with its least period, or written out.

    It is written out if it then has at most ``most`` pieces.

    Examples
    --------
    >>> steps = StepFunction([(0, 2, "a"), (3, 5, "b"), (6, 8, "a"), (9, 11, "b")])
    >>> repeated(12, steps, Scale(0, 10**6, integral=True), 100).period
    6
    >>> repeated(12, steps, Scale(0, 7, integral=True), 100).pieces
    ((0, 2, 'a'), (3, 5, 'b'), (6, 7, 'a'))
    """
    factor = 2
    rest = period
    while rest > 1:
        if rest % factor:
            factor += 1
            continue
        rest //= factor
        shorter = period // factor
        part = StepFunction(
            (
                (low, min(high, shorter - 1), output)
                for low, high, output in steps.pieces
                if low < shorter
            ),
            steps.null,
        )
        if Periodic(shorter, part).over(Scale(0, period - 1, integral=True)) == steps:
            period, steps = shorter, part
    function = Periodic(period, steps)
    pieces = steps.pieces
    if period == 1:
        return StepFunction([(scale.low, scale.high, output) for *_, output in pieces], steps.null)
    # where one repetition ends and the next one begins, neighbours with equal outputs are one piece
    joined = steps(0) is not None and steps(0) == steps(period - 1)
    if (scale.high - scale.low) // period * (len(pieces) - joined) > most:
        return function
    written = function.over(scale)
    return written if len(written.pieces) <= most else function


def read_steps(data: Any, read: Callable[[Any], Output], null: Output | None) -> Steps[Output]:
    """Build a function from the data of :meth:`StepFunction.plain`, each output read by a function."""
    repeats = isinstance(data, dict)
    pieces = data["pieces"] if repeats else data
    steps = StepFunction([(low, high, read(output)) for low, high, output in pieces], null)
    return Periodic(int(data["period"]), steps) if repeats else steps


def remainders(codes: Iterable[Interval], period: int) -> tuple[Interval, ...]:
    """Return the remainders of whole codes, sorted, in as few intervals as possible.

    Examples
    --------
    >>> remainders([(22, 26), (30, 31)], 24), remainders([(0, 30)], 24)
    (((0, 2), (6, 7), (22, 23)), ((0, 23),))
    """
    last, found = period - 1, list[Interval]()
    for low, high in codes:
        start, stop = int(low) % period, int(high) % period
        if high - low >= last:
            found.append((0, last))
        elif start <= stop:
            found.append((start, stop))
        else:
            found += [(start, last), (0, stop)]
    return _union(found, adjacent=True)


def common(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Return the codes in both; the intervals are sorted and disjoint."""
    if left == right:
        return left
    overlaps = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            overlaps.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(overlaps)


def _pair(left: Output | None, right: Other | None) -> tuple[Output | None, Other | None] | None:
    return None if left is None and right is None else (left, right)


def _next(code: Code) -> Code:
    return math.nextafter(code, math.inf) + 0.0 if isinstance(code, float) else code + 1


def _previous(code: Code) -> Code:
    return math.nextafter(code, -math.inf) if isinstance(code, float) else code - 1


def outward(value: Fraction | float, towards: float) -> float:
    """Return an exact end as a float, rounded towards an infinity, which it is if it is too large."""
    try:
        nearest = float(value)
    except OverflowError:
        return towards
    beyond = value > nearest if towards > 0 else value < nearest
    return math.nextafter(nearest, towards) if beyond else nearest


def number(value: object) -> int | float | Fraction | None:
    """Return a real number, plain, decimal or from NumPy; None for bools and everything else."""
    plain = scalar(value)
    if isinstance(plain, bool) or not isinstance(plain, (int, float, Fraction)):
        return None
    return plain


def scalar(value: Any) -> Any:
    """Return the plain number or day in a NumPy scalar or a ``Decimal``; other values unchanged.

    Examples
    --------
    >>> scalar(Decimal("0.1")), scalar(Decimal("3")), scalar("3")
    (Fraction(1, 10), 3, '3')
    """
    if isinstance(value, Decimal):
        return _rational(value)
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    plain = value.item()
    if isinstance(plain, int) and value.dtype.kind == "M":
        # nanoseconds, which Python's times do not have
        plain = value.astype("M8[us]").item()
    return value if isinstance(plain, str) else plain


def _rational(value: Decimal) -> int | float | Fraction:
    """Return a decimal as the exact number that it is, or as a float if it is very long."""
    if value.is_nan():
        return math.nan
    if (
        value.is_infinite()
        or max(abs(value.adjusted()), len(value.as_tuple().digits)) > _MOST_DIGITS
    ):
        return float(value)
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else exact


_MOST_DIGITS = 400


def listed(values: object) -> list[Any] | None:
    """Return the plain elements of a list, tuple, range or one-dimensional array; None for others.

    Examples
    --------
    >>> listed((1, 2)), listed(range(0, 6, 2)), listed("ab"), listed(5)
    ([1, 2], [0, 2, 4], None, None)
    """
    if hasattr(values, "to_pylist"):
        return [*values.to_pylist()]
    array = hasattr(values, "tolist") or hasattr(values, "to_list")
    if not isinstance(values, (list, tuple, range)) and not (
        array and getattr(values, "ndim", 1) == 1
    ):
        return None
    return [scalar(value) for value in values]  # type: ignore[attr-defined]


def truth(value: object, name: str) -> bool:
    """Check that a value is a bool, and return it; a text such as 'no' would count as true.

    Raises
    ------
    RequestError
    """
    if not isinstance(value, bool):
        raise RequestError(
            f"{name} must be True or False, got {given(value)}",
            f"Write {name}=True or {name}=False.",
        )
    return value


def natural(value: object, name: str, most: int | None = None) -> int:
    """Return a whole number from 0 to ``most``.

    Raises
    ------
    RequestError
    """
    plain = scalar(value)
    if (
        isinstance(plain, bool)
        or not isinstance(plain, int)
        or plain < 0
        or (most is not None and plain > most)
    ):
        upto = "or more" if most is None else f"to {most:,}"
        raise RequestError(
            f"{name} must be a whole number, got {given(value)}", f"Give one from 0 {upto}."
        )
    return plain
