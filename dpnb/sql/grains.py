"""The units of time on which an expression of a timestamp depends.

A timestamp has too many codes to evaluate an expression on each. But most expressions see only a
part of a time: DATE_TRUNC('day', x) is the same for all seconds of a day, and ``x < '2024-06-01'``
for all before that day. So they are evaluated once for each cell of codes between which they cannot
change (docs/methods/expressions.md, theorem 16).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import expressions as exp

from dpnb.schema.timestamps import DAY, SECONDS, Timestamp, seconds
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
_COMPARED = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.NullSafeEQ,
    exp.NullSafeNEQ,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of codes: each begins with a multiple of ``step``, or with a code of ``cuts``."""

    step: int = 1
    cuts: tuple[int, ...] = ()

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


def _place(constant: str, unit: int) -> int | None:
    """Return the code of the unit in which a constant lies, as DuckDB reads it."""
    try:
        select = f"SELECT epoch_us(CAST({constant} AS TIMESTAMP)) AS y"
        (found,) = evaluate(select)["y"].tolist()
    except EvaluationError:
        return None
    return None if found is None else int(found) // (unit * 1_000_000)
