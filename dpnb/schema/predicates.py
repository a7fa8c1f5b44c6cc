"""Conditions on the codes of a row, in one spelling, and the boxes of codes that satisfy them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from dpnb.codes import (
    Code,
    Interval,
    Output,
    Periodic,
    Scale,
    StepFunction,
    Steps,
    common,
    remainders,
    repeated,
)
from dpnb.schema.columns import Kind

Side: TypeAlias = tuple[str, tuple[Interval, ...], bool]
"""A box's condition on one column: the value lies in an interval, or may be missing."""
Box: TypeAlias = tuple[Side, ...]
"""The rows that satisfy every side; columns without a side are free."""
Sides: TypeAlias = Mapping[str, tuple[tuple[Interval, ...], bool]]
"""The sides of a box by column."""

Order: TypeAlias = Literal["<", "<=", ">", ">=", "=", "<>"]
NEGATED: dict[Order, Order] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: dict[Order, Order] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

MOST_REPEATED = 500
"""A condition that repeats is written out if it then has so few intervals."""
MOST_BOXES = 32
"""Most boxes of a condition; one with more is loosened, and its region then covers more."""
MOST_INTERVALS = 64
"""Most intervals of a column in a condition; with more, all codes between them count too."""


@dataclass(frozen=True, slots=True)
class Within:
    """True for rows whose normalised value of ``column`` lies in one of the intervals of codes.

    Missing values satisfy it only if ``null`` is true (``IS NULL``). With a ``period``, the
    intervals are of the remainders of codes: the condition is the same after so many codes.
    """

    column: str
    intervals: tuple[Interval, ...]
    null: bool = False
    period: int | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the predicate uses."""
        return frozenset((self.column,))

    def scale(self, kind: Kind) -> Scale:
        """Return the scale of the intervals: that of the column, or of remainders."""
        return kind.scale if self.period is None else Scale(0, self.period - 1, integral=True)

    def steps(self, output: Output) -> Steps[Output]:
        """Return the function that has an output for the values that satisfy the predicate."""
        pieces = StepFunction(
            ((low, high, output) for low, high in self.intervals), output if self.null else None
        )
        return pieces if self.period is None else Periodic(self.period, pieces)

    def joined(self, kind: Kind) -> Within:
        """Return the same condition with intervals in order, none of which meet."""
        return replace(self, intervals=self.scale(kind).union(self.intervals))

    def codes(self, kind: Kind) -> tuple[Interval, ...]:
        """Return the codes that satisfy the predicate, each repetition written out."""
        return self.intervals if self.period is None else self.steps(True).over(kind.scale).support

    def complement(self, kind: Kind, *, null: bool) -> Within:
        """Return the predicate that the other codes satisfy; ``null``: missing values, too."""
        others = self.scale(kind).complement(self.intervals)
        return Within(self.column, others, null, self.period)

    def meets(self, other: Within) -> bool:
        """Return whether a code can satisfy both; True when in doubt."""
        mine, theirs = self.intervals, other.intervals
        if self.period != other.period:
            if self.period is not None and other.period is not None:
                return bool(mine) and bool(theirs)
            period = self.period or other.period or 1
            mine, theirs = remainders(mine, period), remainders(theirs, period)
        return any(first <= high and low <= last for low, high in mine for first, last in theirs)


def with_output(column: str, steps: Steps[Any]) -> Within:
    """Return the condition that a function of a column has an output."""
    return Within(column, steps.steps.support, steps.null is not None, steps.period)


@dataclass(frozen=True, slots=True)
class Compared:
    """True for rows where ``left + offset`` compares so with ``right``; both have a value.

    ``spans`` has the codes between which both columns lie then. Between whole numbers the operators
    are ``<=``, ``>=``, ``=`` and ``<>``.
    """

    left: str
    operator: Order
    right: str
    offset: Code
    spans: tuple[Interval, Interval]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the predicate uses."""
        return frozenset((self.left, self.right))

    @property
    def written(self) -> tuple[Order, Code]:
        """The operator and the offset that are shortest: ``a < b`` is ``a + 1 <= b``."""
        if isinstance(self.offset, int):
            if (self.operator, self.offset) == ("<=", 1):
                return "<", 0
            if (self.operator, self.offset) == (">=", -1):
                return ">", 0
        return self.operator, self.offset

    @property
    def sides(self) -> Sides:
        """What each column satisfies by itself."""
        left, right = self.spans
        return {self.left: ((left,), False), self.right: ((right,), False)}


@dataclass(frozen=True, slots=True)
class And:
    """True when every part is true; ``And(())`` is always true."""

    parts: tuple[Predicate, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the predicate uses."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True, slots=True)
class Or:
    """True when at least one part is true; ``Or(())`` is never true."""

    parts: tuple[Predicate, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the predicate uses."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


Predicate: TypeAlias = Within | Compared | And | Or
"""A two-valued predicate in negation normal form.

SQL's three-valued logic keeps exactly the rows for which the normal form is true: NOT moves inwards
by De Morgan's laws, which hold with NULL, and each atom names the non-missing values that satisfy
it.
"""

EVERY = And(())
NONE = Or(())


def simplify(predicate: Predicate, kinds: Mapping[str, Kind]) -> Predicate:
    """Flatten, merge atoms on one column, drop constant parts, and sort the rest."""
    if isinstance(predicate, Within):
        return _atom(predicate, kinds)
    if isinstance(predicate, Compared):
        return predicate
    conjunction = isinstance(predicate, And)
    neutral, absorbing = (EVERY, NONE) if conjunction else (NONE, EVERY)
    atoms: dict[tuple[str, int | None], Within] = {}
    others: list[Predicate] = []
    stack = [simplify(part, kinds) for part in reversed(predicate.parts)]
    while stack:
        part = stack.pop()
        if part == absorbing:
            return absorbing
        if part == neutral:
            continue
        if type(part) is type(predicate):
            stack.extend(reversed(part.parts))
        elif isinstance(part, Within):
            about = part.column, part.period
            earlier_atom = atoms.get(about)
            atoms[about] = (
                part if earlier_atom is None else _merge(earlier_atom, part, kinds, conjunction)
            )
        else:
            others.append(part)
    for column, period in [about for about in atoms if about[1] is not None]:
        present = atoms.get((column, None))
        if present is not None and _is_of_presence(present, kinds[column]):
            del atoms[column, None]
            whole = ((0, (period or 1) - 1),) if present.intervals else ()
            same = Within(column, whole, present.null, period)
            atoms[column, period] = _merge(atoms[column, period], same, kinds, conjunction)
    merged = [_atom(atom, kinds) for atom in atoms.values()]
    if absorbing in merged:
        return absorbing
    pairs = zip(atoms.values(), merged, strict=True)
    if any(isinstance(new, Within) and new.period != old.period for old, new in pairs):
        # what was merged repeats sooner, as another atom may
        return simplify(type(predicate)((*merged, *others)), kinds)
    parts = {*(part for part in merged if part != neutral), *others}
    if len(parts) == 1:
        return parts.pop()
    return type(predicate)(tuple(sorted(parts, key=str)))


def _is_of_presence(atom: Within, kind: Kind) -> bool:
    """Return whether an atom says no more than whether a value is missing."""
    return atom.intervals in ((), ((kind.scale.low, kind.scale.high),))


@lru_cache(maxsize=512)
def _least(atom: Within, kind: Kind) -> Within:
    """Return a condition that repeats with its least period, or written out."""
    assert atom.period is not None  # noqa: S101 - callers ask for no other
    pieces = ((low, high, True) for low, high in atom.intervals)
    true = StepFunction(pieces, True if atom.null else None)
    return with_output(atom.column, repeated(atom.period, true, kind.scale, MOST_REPEATED))


def _atom(atom: Within, kinds: Mapping[str, Kind]) -> Predicate:
    scale = atom.scale(kinds[atom.column])
    whole, intervals = ((scale.low, scale.high),), atom.intervals
    if not scale.is_normal(intervals):
        intervals = scale.intersection(intervals, whole)
        atom = Within(atom.column, intervals, atom.null, atom.period)
    if atom.period is not None:
        least = _least(atom, kinds[atom.column])
        if least.period != atom.period:
            return _atom(least, kinds)
    if atom.null and intervals == whole:
        return EVERY
    return atom if atom.null or intervals else NONE


def _merge(left: Within, right: Within, kinds: Mapping[str, Kind], conjunction: bool) -> Within:
    if conjunction:
        both = common(left.intervals, right.intervals)
        return Within(left.column, both, left.null and right.null, left.period)
    either = left.scale(kinds[left.column]).union([*left.intervals, *right.intervals])
    return Within(left.column, either, left.null or right.null, left.period)


def compared(
    left: str, operator: Order, right: str, offset: Code, kinds: Mapping[str, Kind]
) -> Predicate:
    """Return the condition that ``left + offset`` compares so with ``right``, in one spelling.

    Both columns are whole numbers, or days; else the offset is 0, or added to real numbers.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> compared("b", ">", "a", 0, {"a": Integer(0, 9), "b": Integer(3, 5)})
    Compared(left='a', operator='<=', right='b', offset=1, spans=((0, 4), (3, 5)))
    """
    whole = kinds[left].scale.integral and kinds[right].scale.integral
    if right < left and (whole or not offset):
        left, operator, right, offset = right, FLIPPED[operator], left, -offset
    one, other = kinds[left].scale, kinds[right].scale
    both = And((Within(left, ((one.low, one.high),)), Within(right, ((other.low, other.high),))))
    low, high, least, most = one.low + offset, one.high + offset, other.low, other.high
    if whole and operator in ("<", ">"):
        offset += 1 if operator == "<" else -1
        return compared(left, "<=" if operator == "<" else ">=", right, offset, kinds)
    never = {
        "<": low >= most, "<=": low > most, ">": high <= least, ">=": high < least,
        "=": low > most or high < least, "<>": low == high == least == most,
    }  # fmt: skip
    always = {
        "<": high < least, "<=": high <= least, ">": low > most, ">=": low >= most,
        "=": never["<>"], "<>": never["="],
    }  # fmt: skip
    if never[operator] or always[operator]:
        return NONE if never[operator] else both
    if operator in ("<", "<=", "="):
        high, least = min(high, most), max(least, low)
    if operator in (">", ">=", "="):
        low, most = max(low, least), min(most, high)
    # what a sum of floats is less its summand may be another float
    own = (low - offset, high - offset) if whole or not offset else (one.low, one.high)
    spans = _codes(one, own), _codes(other, (least, most))
    if any(first > last for first, last in spans):
        return NONE
    return Compared(left, operator, right, offset, spans)


def negation(
    predicate: Predicate, kinds: Mapping[str, Kind], complete: Collection[str] = ()
) -> Predicate:
    """Return the condition of the other rows; columns that are ``complete`` are never missing."""
    if isinstance(predicate, Within):
        null = not predicate.null and predicate.column not in complete
        return predicate.complement(kinds[predicate.column], null=null)
    if isinstance(predicate, Compared):
        order = NEGATED[predicate.operator]
        other = compared(predicate.left, order, predicate.right, predicate.offset, kinds)
        missing = sorted(predicate.columns.difference(complete))
        return Or((other, *(Within(name, (), null=True) for name in missing)))
    parts = tuple(negation(part, kinds, complete) for part in predicate.parts)
    return Or(parts) if isinstance(predicate, And) else And(parts)


def _codes(scale: Scale, span: Interval) -> Interval:
    """Return the least and greatest code between two numbers."""
    low, high = span
    return (math.ceil(low), math.floor(high)) if scale.integral else (float(low), float(high))


def can_hold(predicate: Predicate, group: Mapping[str, Within]) -> bool:
    """Return whether a row of a group can satisfy a condition.

    ``group`` says what codes each column has there. The result is True when in doubt. It follows
    from the statement and the declared groups alone.
    """
    if isinstance(predicate, Within):
        own = group.get(predicate.column)
        if own is None:
            return bool(predicate.intervals) or predicate.null
        if predicate.null and own.null:
            return True
        return own.meets(predicate)
    if isinstance(predicate, Compared):
        sides = predicate.sides.items()
        return all(can_hold(Within(name, codes), group) for name, (codes, _) in sides)
    possible = (can_hold(part, group) for part in predicate.parts)
    return all(possible) if isinstance(predicate, And) else any(possible)


def plain(predicate: Predicate) -> Any:
    """Return a predicate as plain data (JSON): ``[column, intervals, null]`` or ``{op: parts}``.

    Two columns are compared as in ``{"compare": [left, operator, right, offset, spans]}``. A period,
    if there is one, comes last.
    """
    if isinstance(predicate, Within):
        period = [] if predicate.period is None else [predicate.period]
        pairs = [list(pair) for pair in predicate.intervals]
        return [predicate.column, pairs, predicate.null, *period]
    if isinstance(predicate, Compared):
        spans = [list(span) for span in predicate.spans]
        return {
            "compare": [
                predicate.left,
                predicate.operator,
                predicate.right,
                predicate.offset,
                spans,
            ]
        }
    word = "and" if isinstance(predicate, And) else "or"
    return {word: [plain(part) for part in predicate.parts]}


def read(data: Any) -> Predicate:
    """Build a predicate from the data of :func:`plain`."""
    if isinstance(data, Mapping):
        ((word, parts),) = data.items()
        if word == "compare":
            left, operator, right, offset, ((low, high), (least, most)) = parts
            return Compared(left, operator, right, offset, ((low, high), (least, most)))
        read_parts = tuple(read(part) for part in parts)
        return And(read_parts) if word == "and" else Or(read_parts)
    column, intervals, null, *period = data
    pairs = tuple((low, high) for low, high in intervals)
    return Within(column, pairs, null, *map(int, period))


def boxes(formula: Any) -> list[Sides]:
    """Return boxes that together contain at least the rows of a condition in plain form."""
    if not isinstance(formula, Mapping):
        column, intervals, null, *period = formula
        # of what repeats, all that is between counts too
        ranges = ((-math.inf, math.inf),) if period and intervals else _apart(intervals)
        if len(ranges) > MOST_INTERVALS:
            ranges = (_ends(ranges),)
        return [{str(column): (ranges, bool(null))}] if ranges or null else []
    ((word, parts),) = formula.items()
    if word == "compare":
        left, _, right, _, (own, other) = parts
        return [{left: ((tuple(own),), False), right: ((tuple(other),), False)}]
    part_boxes = [boxes(part) for part in parts]
    if word == "or":
        either = [box for alternative in part_boxes for box in alternative]
        return either if len(either) <= MOST_BOXES and {} not in either else [_around(either)]
    if word != "and":
        raise ValueError("this is not a condition")
    both: list[Sides] = [{}]
    for factor in sorted(part_boxes, key=len):
        if len(both) * len(factor) > MOST_BOXES:
            factor = [_around(factor)]
        pairs = (intersected(one, other) for one in both for other in factor)
        both = [box for box in pairs if box is not None]
    return both


def _around(boxes: Sequence[Sides]) -> Sides:
    """Return the smallest box of single intervals that contains some boxes."""
    ends = hull([tuple((column, *side) for column, side in box.items()) for box in boxes])
    return {
        column: (((low, high),) if low <= high else (), null)
        for column, (low, high, null) in ends.items()
    }


def intersected(one: Sides, other: Sides) -> Sides | None:
    """Return the box of the rows in both, or None if there can be none."""
    box = {**one, **other}
    for column in one.keys() & other.keys():
        (left, left_null), (right, right_null) = one[column], other[column]
        box[column] = codes, null = common(left, right), left_null and right_null
        if not codes and not null:
            return None
    return box


def _apart(intervals: Iterable[Sequence[Code]]) -> tuple[Interval, ...]:
    """Return the intervals sorted, and merged where they overlap."""
    ranges: list[Interval] = []
    for low, high in sorted((low, high) for low, high in intervals if low <= high):
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(high, ranges[-1][1])
        else:
            ranges.append((low, high))
    return tuple(ranges)


def hull(boxes: Sequence[Box]) -> dict[str, tuple[Code, Code, bool]]:
    """Return for each column the smallest and largest code, and whether it may be missing."""
    ends: dict[str, tuple[Code, Code, bool]] = {}
    for number, box in enumerate(boxes):
        sides = {
            column: (_ends(intervals), null)
            for column, intervals, null in box
            if not number or column in ends
        }
        # a column without a side in one of the boxes is free
        ends = {
            column: (low, high, null)
            if not number
            else (min(low, ends[column][0]), max(high, ends[column][1]), null or ends[column][2])
            for column, ((low, high), null) in sides.items()
        }
    return ends


def _ends(intervals: tuple[Interval, ...]) -> Interval:
    return (intervals[0][0], intervals[-1][1]) if intervals else (math.inf, -math.inf)
