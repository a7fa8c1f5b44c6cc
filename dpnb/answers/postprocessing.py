"""What a statement shows of its released groups: the outer part, carried out on released numbers.

Conditions test the numbers that are shown, without what is publicly impossible; where these are
equal, ORDER BY goes on with the numbers before that cut. Intervals are images of intervals that
hold at once, so they hold with them, whichever groups are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpnb.answers.scalars import Label, Line, Number, Value, as_number, as_shown, evaluate, truth_of
from dpnb.answers.windows import grouped, sorted_lines, total, windowed
from dpnb.estimation.estimates import Intervals, Numbers
from dpnb.schema import partition
from dpnb.sql.functions import Function
from dpnb.sql.query import Query, Union
from dpnb.sql.shown import (
    PLAIN,
    Column,
    Expression,
    Field,
    Literal,
    OuterPart,
    Total,
    Window,
    found_in,
    is_label,
)
from dpnb.views.view import group_labels, group_numbers


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
    windows : bool
        Whether windows go over the lines that are left.
    totals : int or None
        Over how many released groups totals go; None without totals.
    """

    keys: tuple[str, ...]
    groups: tuple[tuple[partition.Label | None, ...], ...]
    columns: tuple[Intervals, ...]
    windows: bool = False
    totals: int | None = None

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
            "windows": self.windows,
            "totals": self.totals,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ShownTable:
        """Build a table from :meth:`to_dict`."""
        return cls(
            tuple(data["keys"]),
            tuple(tuple(group) for group in data["groups"]),
            tuple(Intervals(**Intervals.read_fields(column)) for column in data["columns"]),
            data["windows"],
            data["totals"],
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
        How many of them HAVING and QUALIFY hide; None without them.
    hidden_by : tuple of str
        Which of the two there are.
    table : ShownTable or None
        What is shown of them; None for their keys and results as they are.
    """

    rows: tuple[int, ...]
    rest: tuple[int, ...] = ()
    hidden: int | None = None
    hidden_by: tuple[str, ...] = ()
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
    first = query.shown
    if replace(first, limit=None, offset=0) == PLAIN:
        end = None if first.limit is None else first.offset + first.limit
        rows = tuple(groups[first.offset : end])
        return Outcome(rows, tuple(sorted(set(groups).difference(rows))))
    lines = _Lines(_released(query, groups, results))
    left: list[Line] = []
    for level in first.levels():
        lines.take(level)
        if level is first:
            left = lines.lines
    *_, last = first.levels()
    alone = all(line.group is not None for line in lines.lines) and not lines.added
    rows = tuple(line.group for line in (lines.lines if alone else left) if line.group is not None)
    outcome = Outcome(
        rows, tuple(sorted(set(groups).difference(rows))), lines.hidden, tuple(lines.hidden_by)
    )
    if last.columns is None:
        return outcome
    windows = any(found_in(Window, level.computed()) for level in first.levels())
    table = _table(first, last.columns, lines, results, len(query.keys))
    return replace(outcome, table=replace(table, windows=windows, totals=lines.totals))


def ordered(
    union: Union,
    groups: Sequence[Sequence[partition.Label | None]],
    results: Sequence[Intervals],
) -> tuple[int, ...]:
    """Return which lines of a union are shown, in order.

    Labels sort in declared order where all statements have the same ones. The mark of a key that is
    left out is last, as NULL is.
    """
    columns = [query.shown.outermost for query in union.branches]
    ranks = [_ranks(union, place) for place in range(len(columns[0]))]
    labels = [is_label(column.expression) for column in columns[0]]
    lines: list[Line] = []
    for place, group in enumerate(groups):
        names, numbers = iter(group), iter(_number(column, place) for column in results)
        fields: list[Value] = []
        for label, known in zip(labels, ranks, strict=True):
            name = next(names) if label else None
            named = None if name is None or name == union.mark else Label(name, known.get(name))
            fields.append(named if label else next(numbers))
        lines.append(Line(tuple(fields), place))
    left = _Lines(lines)
    left.take(union.shown)
    return tuple(line.group for line in left.lines if line.group is not None)


def _ranks(union: Union, place: int) -> dict[partition.Label | None, int]:
    """Return the places of a column's labels in their declared order; empty if its parts differ in it."""
    found: list[dict[partition.Label | None, int]] = []
    for query in union.branches:
        expression = query.shown.outermost[place].expression
        if isinstance(expression, Literal) and expression.value == union.mark:
            continue
        if not isinstance(expression, Field) or expression.released or query.shown.around:
            return {}
        key = query.keys[expression.place]
        found.append(dict(zip(key.labels, key.order, strict=True)))
    return found[0] if found and all(one == found[0] for one in found) else {}


def _released(query: Query, groups: Sequence[int], results: Sequence[Intervals]) -> list[Line]:
    """Return the released groups as lines: their labels, then their results."""
    labels, numbers = group_labels(query), group_numbers(query)
    lines = []
    for group in groups:
        names = map(Label, labels[group], numbers[group])
        lines.append(Line((*names, *(_number(column, group) for column in results)), group))
    return lines


def _number(column: Intervals, group: int) -> Number:
    known = column.estimate[group] is not None
    return Number(column.uncut.estimate[group], column.low[group], column.high[group], known)


@dataclass(slots=True)
class _Lines:
    """The lines that are left, level by level.

    ``doubtful`` are lines that conditions leave out by what is shown, but perhaps not in truth.
    """

    lines: list[Line]
    doubtful: list[Line] = field(default_factory=list)
    hidden: int | None = None
    hidden_by: list[str] = field(default_factory=list)
    totals: int | None = None

    @property
    def added(self) -> bool:
        """Whether lines are totals of others."""
        return self.totals is not None

    def take(self, level: OuterPart) -> None:
        """Carry out one level, in SQL's order."""
        self._filter(level.where)
        if level.groups is not None:
            self._add_up(level.groups, found_in(Total, level.computed()))
        self._filter(level.having, "HAVING")
        windows = found_in(Window, level.computed())
        if windows:
            self._know(windows)
        self._filter(level.qualify, "QUALIFY")
        if level.order:
            self.lines = sorted_lines(level.order, self.lines)
        if level.columns is not None:
            self.lines = [_projected(level.columns, line) for line in self.lines]
            self.doubtful = (
                [] if windows else [_projected(level.columns, line) for line in self.doubtful]
            )
        if level.distinct:
            alike: dict[object, Line] = {}
            for line in self.lines:
                alike.setdefault(tuple(map(as_shown, line.fields)), line)
            self.lines = list(alike.values())
        if level.limit is not None or level.offset:
            end = None if level.limit is None else level.offset + level.limit
            self.lines = self.lines[level.offset : end]
        if windows or level.distinct or level.limit is not None or level.offset:
            # from here on the lines are those that are shown
            self.doubtful = []
            self.lines = [replace(line, sure=True) for line in self.lines]

    def _filter(self, condition: Expression | None, clause: str = "") -> None:
        if condition is None:
            return
        kept: list[Line] = []
        self.doubtful = [
            line for line in self.doubtful if True in truth_of(evaluate(condition, line)).possible
        ]
        for line in self.lines:
            truth = truth_of(evaluate(condition, line))
            if truth.known:
                kept.append(replace(line, sure=line.sure and truth.possible == {True}))
            elif True in truth.possible:
                self.doubtful.append(line)
        if clause and not self.added:
            self.hidden = (self.hidden or 0) + len(self.lines) - len(kept)
            self.hidden_by.append(clause)
        self.lines = kept

    def _add_up(self, keys: Sequence[Expression], totals: Sequence[Total]) -> None:
        """Put one line in place of those with equal labels."""
        buckets = grouped(keys, self.lines) or ([] if keys else [[]])
        more = [[as_shown(evaluate(key, line)) for key in keys] for line in self.doubtful]
        sums: list[Line] = []
        for bucket in buckets:
            names = [as_shown(evaluate(key, bucket[0])) for key in keys] if bucket else []
            number = more.count(names)
            known: dict[Expression, Value] = {}
            for one in totals:
                values = [_argument(one, line) for line in bucket]
                pairs = zip(bucket, values, strict=True)
                sure = sum(line.sure and found is not None for line, found in pairs)
                known[one] = total(one.function, values, number, sure)
            sums.append(Line(bucket[0].fields if bucket else (), known=known))
        if self.totals is None:
            self.totals = len(self.lines)
        self.lines, self.doubtful = sums, []

    def _know(self, windows: Sequence[Window]) -> None:
        found = {window: windowed(window, self.lines) for window in windows}
        self.lines = [
            replace(
                line,
                known={**line.known, **{window: found[window][id(line)] for window in windows}},
            )
            for line in self.lines
        ]
        # windows go over the lines that are left, and have no value on others
        self.doubtful = []


def _argument(one: Total, line: Line) -> Value:
    return evaluate(one.arguments[0], line) if one.arguments else Label(1)


def _projected(columns: Sequence[Column], line: Line) -> Line:
    fields = tuple(evaluate(column.expression, line) for column in columns)
    return replace(line, fields=fields, known={})


def _table(
    first: OuterPart,
    columns: Sequence[Column],
    lines: _Lines,
    results: Sequence[Intervals],
    keys: int,
) -> ShownTable:
    """Return the lines as labels and numbers with intervals."""
    labels = [place for place, column in enumerate(columns) if is_label(column.expression)]
    numbers: list[Intervals] = []
    for place, column in enumerate(columns):
        if place in labels:
            continue
        found = [line.fields[place] for line in lines.lines]
        result = None if lines.added else _result(list(first.levels()), column.expression, keys)
        if result is None:
            numbers.append(_column(column.alias, found))
        else:
            rows = [line.group for line in lines.lines if line.group is not None]
            numbers.append(_picked(results[result], rows, column.alias))
    return ShownTable(
        tuple(columns[place].alias for place in labels),
        tuple(tuple(as_shown(line.fields[place]) for place in labels) for line in lines.lines),
        tuple(numbers),
    )


def _result(levels: Sequence[OuterPart], expression: Expression, keys: int) -> int | None:
    """Return the released result that a column of the last level shows as it is."""
    *inner, _ = levels
    for level in reversed(inner):
        if not isinstance(expression, Field):
            return None
        if level.columns is not None:
            expression = level.columns[expression.place].expression
    return expression.place - keys if isinstance(expression, Field) else None


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
    numbers = [as_number(one) or Number(None, -math.inf, math.inf) for one in found]
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
