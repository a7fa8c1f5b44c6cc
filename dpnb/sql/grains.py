"""The units of time on which an expression of a timestamp depends, and after how long it repeats.

A timestamp has too many codes to evaluate an expression on each. But most expressions see only a
part of a time: DATE_TRUNC('day', x) is the same for all seconds of a day, and ``x < '2024-06-01'``
for all before that day. So they are evaluated once for each cell of codes between which they cannot
change (docs/methods/expressions.md, theorem 16). And many repeat, as HOUR(x) does after a day: they
are evaluated for one repetition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import expressions as exp

from dpnb.schema.timestamps import DAY, SECONDS, Date, Timestamp, seconds
from dpnb.sql.constants import is_constant
from dpnb.sql.dataless import EvaluationError, evaluate
from dpnb.sql.source import Node, bare

_PARTS: dict[type, int] = {
    **dict.fromkeys(
        (
            exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfMonth, exp.DayOfWeek,
            exp.DayOfWeekIso, exp.DayOfYear, exp.Dayname, exp.Monthname, exp.LastDay,
        ),
        DAY,
    ),
    exp.Hour: SECONDS["hour"], exp.Minute: SECONDS["minute"], exp.Second: SECONDS["second"],
}  # fmt: skip
"""Functions of a time that see it cut down to so many seconds."""
_WHOLE_DAYS = {
    "MILLENNIUM", "CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW",
    "ISODOW", "DAYOFYEAR", "DOY", "ISOYEAR", "YEARWEEK", "ERA", "WEEKDAY",
}  # fmt: skip
"""Parts of a time that are the same for a whole day."""
_FORMATS = {**dict.fromkeys("aAwudbBhmyYjUWGVxDFen%", DAY), **dict.fromkeys("HIp", 3_600), "M": 60}
_WEEK = 7 * DAY
_REPEATED: dict[type, int] = {
    exp.Hour: DAY, exp.Minute: SECONDS["hour"], exp.Second: SECONDS["minute"],
    **dict.fromkeys((exp.DayOfWeek, exp.DayOfWeekIso, exp.Dayname), _WEEK),
}  # fmt: skip
"""Functions of a time that are the same again after so many seconds."""
_REPEATED_PARTS = {
    "HOUR": DAY, "MINUTE": SECONDS["hour"], "SECOND": SECONDS["minute"],
    **dict.fromkeys(("DAYOFWEEK", "DOW", "ISODOW", "WEEKDAY"), _WEEK),
}  # fmt: skip
_REPEATED_FORMATS = {
    **dict.fromkeys("HIp", DAY), "M": SECONDS["hour"], "S": SECONDS["minute"], "%": 1,
    **dict.fromkeys("aAwu", _WEEK),
}  # fmt: skip
_FIXED = {**SECONDS, "week": _WEEK}
"""Seconds of the units that are always equally long."""
_COMPARED = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.NullSafeEQ,
    exp.NullSafeNEQ,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of codes: each begins with a multiple of ``step``, or with a code of ``cuts``.

    Outputs repeat after ``period`` codes, if there is one.
    """

    step: int = 1
    cuts: tuple[int, ...] = ()
    period: int | None = None

    def starts(self, low: int, high: int) -> list[int]:
        """Return the first code of each cell between two codes, ascending."""
        steps = range(-(-low // self.step) * self.step, high + 1, self.step)
        return sorted({low, *steps, *(code for code in self.cuts if low < code <= high)})

    def most(self, low: int, high: int) -> int:
        """Return an upper bound on the number of cells."""
        return high // self.step - -(-low // self.step) + 1 + bool(low % self.step) + len(self.cuts)


class _EveryCodeError(Exception):
    """The expression may change from each code to the next."""


def cells_of(node: Node, kind: Timestamp, text: Callable[[Node], str]) -> Cells:
    """Return cells of codes within which an expression of a timestamp does not change.

    ``text`` returns the SQL of a constant.
    """
    unit, cuts = seconds(kind), set[int]()

    def compared(operands: list[Node]) -> int:
        """Note the codes at which a comparison of the column itself with constants changes."""
        for operand in operands:
            if not is_constant(operand):
                raise _EveryCodeError
            code = _place(text(operand), unit)
            if code is not None:
                cuts.update((code, code + 1))
        return DAY

    def grain(part: Node) -> int:
        """Return a number of seconds: times that are equal when cut down to them are alike to it."""
        if part.find(exp.Column) is None:
            return DAY
        if isinstance(part, exp.Is) and isinstance(bare(part.this), exp.Column):
            return DAY
        operands = list(map(bare, part.iter_expressions()))
        if isinstance(part, exp.Case) and part.this is not None:
            tests = [branch.this for branch in part.args["ifs"]]
            results = [branch.args["true"] for branch in part.args["ifs"]]
            default = part.args.get("default")
            if isinstance(bare(part.this), exp.Column):
                compared(tests)
                tests = []
            else:
                tests.append(part.this)
            return math.gcd(
                *map(grain, [*tests, *results, *([] if default is None else [default])])
            )
        columns = [operand for operand in operands if isinstance(operand, exp.Column)]
        if isinstance(part, _COMPARED) and columns:
            return compared([operand for operand in operands if operand not in columns])
        seen = _seen(part)
        if seen is not None:
            return math.gcd(*(_cut(operand, seen, grain) for operand in operands))
        if not operands or isinstance(part, exp.Column):
            raise _EveryCodeError
        return math.gcd(*map(grain, operands))

    try:
        step = grain(node)
    except _EveryCodeError:
        return Cells()
    return Cells(max(1, step // unit), tuple(sorted(cuts))) if step % unit == 0 else Cells()


def _seen(node: Node) -> int | None:
    """Return to how many seconds a function cuts a time down; None if it sees all of it."""
    if type(node) in _PARTS:
        return _PARTS[type(node)]
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc | exp.DateDiff):
        unit = node.args.get("unit")
        return _unit("" if unit is None else unit.name)
    if isinstance(node, exp.Extract):
        return _unit(node.this.name)
    if isinstance(node, exp.Anonymous):
        name = node.name.upper()
        if name in ("DATE_PART", "DATEPART") and node.expressions:
            return _unit(node.expressions[0].name)
        return DAY if name in _WHOLE_DAYS else None
    if isinstance(node, exp.TimeToStr):
        parts = re.findall("%-?(.)", node.args["format"].name)
        return min((_FORMATS.get(part, 1) for part in parts), default=1)
    if isinstance(node, exp.DateBin) and node.args.get("unit") is None:
        # DuckDB counts from a midnight
        width = node.this.this.name if isinstance(node.this, exp.Interval) else ""
        unit = node.this.args.get("unit")
        counted = unit is not None and re.fullmatch(r"\d{1,9}", width)
        return math.gcd(DAY, int(width) * _unit(unit.name)) if counted else 1
    is_day = isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE
    return DAY if is_day else None


def _unit(name: str) -> int:
    singular = name.upper().removesuffix("S")
    return DAY if singular in _WHOLE_DAYS else SECONDS.get(singular.lower(), 1)


def _cut(node: Node, seen: int, grain: Callable[[Node], int]) -> int:
    """Return on which units an argument has an effect if it is cut down to ``seen`` seconds."""
    shift = _moved(node)
    return grain(node) if shift is None else math.gcd(seen, shift)


def _moved(node: Node) -> int | None:
    """Return by how many seconds, apart from whole days, an expression moves the column, or None."""
    node = bare(node)
    if isinstance(node, exp.Column):
        return 0
    is_time = isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TIMESTAMPNTZ
    if is_time:
        return _moved(node.this)
    if not isinstance(node, exp.Add | exp.Sub | exp.DateAdd | exp.DateSub):
        return None
    sides = bare(node.this), bare(node.expression)
    by = next((side for side in sides if isinstance(side, exp.Interval)), None)
    moved = next((_moved(side) for side in sides if side is not by), None)
    if by is None or moved is None or not isinstance(by.args.get("unit"), exp.Var):
        return None
    unit = _unit(by.args["unit"].name)
    if unit == DAY:
        return moved
    count = by.this.name if isinstance(by.this, exp.Literal) else ""
    return math.gcd(moved, int(count) * unit) if re.fullmatch(r"\d{1,9}", count) else None


def period_of(node: Node, kind: Date | Timestamp) -> int | None:
    """Return after how many codes an expression of a day or a time repeats; None if it may not.

    A function of parts that repeat does so itself.
    """

    def repeats(part: Node) -> int | None:
        if part.find(exp.Column) is None:
            return 1
        if isinstance(part, exp.Is) and isinstance(bare(part.this), exp.Column):
            return 1
        if isinstance(part, exp.Column):
            return None
        parts = [one for one in part.iter_expressions() if one.find(exp.Column) is not None]
        own = _repeated(part)
        if own is not None and len(parts) == 1:
            moved = _follows(parts[0])
            if moved is not None:
                return math.lcm(own, moved)
        found = list(map(repeats, parts))
        return math.lcm(*(one for one in found if one)) if all(found) else None

    period = repeats(node)
    if period is None:
        return None
    unit = seconds(kind)
    return math.lcm(period, unit) // unit


def _repeated(node: Node) -> int | None:
    """Return after how many seconds a function of a time is the same again; None if it never is."""
    if type(node) in _REPEATED:
        return _REPEATED[type(node)]
    if isinstance(node, exp.Extract):
        return _REPEATED_PARTS.get(node.this.name.upper())
    if isinstance(node, exp.Anonymous):
        name, *arguments = node.name.upper(), *node.expressions
        is_part = name in ("DATE_PART", "DATEPART") and arguments
        return _REPEATED_PARTS.get(arguments[0].name.upper() if is_part else name)
    if isinstance(node, exp.TimeToStr):
        found = [
            _REPEATED_FORMATS.get(part) for part in re.findall("%-?(.)", node.args["format"].name)
        ]
        return math.lcm(*(one for one in found if one)) if all(found) else None
    return DAY if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TIME else None


def _follows(node: Node) -> int | None:
    """Return a number of seconds by which a time moves as far as the column does; None if it may not."""
    node = bare(node)
    if isinstance(node, exp.Column):
        return 1
    if isinstance(node, exp.Cast):
        is_time = node.to.this == exp.DataType.Type.TIMESTAMPNTZ
        is_day = node.to.this == exp.DataType.Type.DATE
        inner = _follows(node.this) if is_time or is_day else None
        return math.lcm(inner, DAY) if inner and is_day else inner
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        unit = node.args.get("unit")
        fixed = _FIXED.get("" if unit is None else unit.name.lower().removesuffix("s"))
        inner = _follows(node.this)
        return math.lcm(inner, fixed) if inner and fixed else None
    if isinstance(node, exp.Add | exp.Sub | exp.DateAdd | exp.DateSub):
        by = bare(node.expression)
        unit = by.args.get("unit") if isinstance(by, exp.Interval) else None
        name = unit.name.lower().removesuffix("s") if isinstance(unit, exp.Var) else ""
        return _follows(node.this) if name in _FIXED else None
    return None


def _place(constant: str, unit: int) -> int | None:
    """Return the code of the unit in which a constant lies, as DuckDB reads it."""
    try:
        select = f"SELECT epoch_us(CAST({constant} AS TIMESTAMP)) AS y"
        (found,) = evaluate(select)["y"].tolist()
    except EvaluationError:
        return None
    return None if found is None else int(found) // (unit * 1_000_000)
