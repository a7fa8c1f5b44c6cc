"""Views and predicates as SQL that a person might write. Public facts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpnb.codes import Code, Interval
from dpnb.formats import label_text
from dpnb.schema import partition
from dpnb.schema.columns import Category, Kind
from dpnb.schema.joins import is_looked_up
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import EVERY, And, Compared, Or, Predicate, Within
from dpnb.schema.schema import Schema
from dpnb.schema.timestamps import DAY, Date, Timestamp, seconds, text_of, value_of
from dpnb.schema.types import Boolean
from dpnb.sql.values import Arithmetic, Call, Column, Mapped, Number, Value
from dpnb.views.histogram import Histogram
from dpnb.views.measures import Count, Distinct, Units
from dpnb.views.view import View

_SPELLED = 4
"""Most different numbers of a mapped value that are listed."""
_LISTED = 8
"""Most cases of a condition on several columns, or that repeats, that are listed."""
_PERIODS = {
    60: ("minute", "%S"), 3_600: ("hour", "%M:%S"), DAY: ("day", "%H:%M:%S"), 7 * DAY: ("week", "%A %H:%M:%S"),
}  # fmt: skip
"""What repeats after so many seconds, and what is shown of a time then."""


def literal(kind: Kind, code: Code) -> str:
    """Return the SQL constant for a code."""
    if isinstance(kind, Category):
        quoted = kind.values[int(code)].replace("'", "''")
        return f"'{quoted}'"
    if isinstance(kind, Boolean):
        return label_text(bool(code))
    if isinstance(kind, Date | Timestamp):
        return f"'{text_of(kind, code)}'"
    return f"{code:g}" if isinstance(code, float) and f"{code:g}" == repr(code) else repr(code)


def predicate_text(predicate: Predicate, schema: Mapping[str, Kind]) -> str:
    """Return a predicate as a condition of WHERE; '' if it is always true."""
    if predicate == EVERY:
        return ""
    if isinstance(predicate, Within):
        return _atom_text(predicate, schema)
    if isinstance(predicate, Compared):
        left, right = _name(predicate.left), _name(predicate.right)
        operator, offset = predicate.written
        shift = f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset else ""
        return f"{left}{shift} {operator} {right}"
    if not predicate.parts:
        return "FALSE"
    if isinstance(predicate, Or) and len(predicate.parts) > _LISTED:
        names = " and ".join(map(_name, sorted(predicate.columns)))
        return f"{names} in {len(predicate.parts):,} ranges"
    word = " AND " if isinstance(predicate, And) else " OR "
    parts = [predicate_text(part, schema) or "TRUE" for part in predicate.parts]
    inner = [
        part if isinstance(operand, Within | Compared) and " OR " not in part else f"({part})"
        for part, operand in zip(parts, predicate.parts, strict=True)
    ]
    return word.join(inner)


def _atom_text(atom: Within, schema: Mapping[str, Kind]) -> str:
    kind, name = schema[atom.column], _name(atom.column)
    scale = atom.scale(kind)
    present = scale.union(atom.intervals)
    tests: list[str] = []
    if atom.period is not None and isinstance(kind, Date | Timestamp):
        tests += [f"{name} {_repeated_text(kind, atom.period, present)}"] if present else []
    elif present == ((scale.low, scale.high),):
        tests.append(f"{name} IS NOT NULL")
    elif isinstance(kind, Category):
        codes = [code for low, high in present for code in range(int(low), int(high) + 1)]
        constants = ", ".join(literal(kind, code) for code in codes)
        if codes:
            tests.append(f"{name} = {constants}" if len(codes) == 1 else f"{name} IN ({constants})")
    else:
        tests += [_range_text(kind, name, interval) for interval in present]
    if atom.null:
        tests.append(f"{name} IS NULL")
    return " OR ".join(tests) or "FALSE"


def _repeated_text(kind: Date | Timestamp, period: int, ranges: Sequence[Interval]) -> str:
    """Return the remainders of days or times as what a clock or a calendar shows."""
    length = period * seconds(kind)
    word, shown = _PERIODS.get(length, (f"{length:,} seconds", ""))
    if not shown or len(ranges) > _LISTED:
        return f"in {len(ranges):,} ranges of every {word}"
    if isinstance(kind, Date):
        shown = "%A"
    texts = (
        " to ".join(dict.fromkeys(f"{value_of(kind, code):{shown}}" for code in ends))
        for ends in ranges
    )
    return f"in {', '.join(texts)} of every {word}"


def _range_text(kind: Kind, name: str, interval: Interval) -> str:
    low, high = interval
    if low == high:
        return f"{name} = {literal(kind, low)}"
    scale = kind.scale
    # for a Real, "x > 0" is shorter than "x >= 5e-324"
    above = _shorter(kind, ">=", low, ">", scale.previous(low))
    below = _shorter(kind, "<=", high, "<", scale.next(high))
    if low == scale.low:
        return f"{name} {below}"
    if high == scale.high:
        return f"{name} {above}"
    if above[1] + below[1] == "==":
        return f"{name} BETWEEN {literal(kind, low)} AND {literal(kind, high)}"
    return f"{name} {above} AND {name} {below}"


def _shorter(kind: Kind, closed: str, end: Code, opened: str, beyond: Code) -> str:
    """Compare with an end, or with the number just beyond it if that text is shorter."""
    closed_text = f"{closed} {literal(kind, end)}"
    if not isinstance(end, float):
        return closed_text
    open_text = f"{opened} {literal(kind, beyond)}"
    return open_text if len(open_text) < len(closed_text) - 1 else closed_text


def _name(column: str) -> str:
    if column.isidentifier() or is_looked_up(column):
        return column
    quoted = column.replace('"', '""')
    return f'"{quoted}"'


def value_text(value: Value | None, schema: Schema) -> str:
    """Return the argument of an aggregate as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, Column):
        return _name(value.name)
    if isinstance(value, Number):
        return _number_text(value.value)
    if isinstance(value, Mapped):
        return value.text or _mapped_text(value, schema)
    if isinstance(value, Arithmetic):
        sides = (value_text(side, schema) for side in (value.left, value.right))
        return f"({f' {value.operator} '.join(sides)})"
    if isinstance(value, Call):
        return f"{value.function}({', '.join(value_text(part, schema) for part in value.parts)})"
    branches = "".join(
        f" WHEN {predicate_text(test, schema) or 'TRUE'} THEN {value_text(result, schema)}"
        for test, result in value.branches
    )
    return f"CASE{branches} ELSE {value_text(value.default, schema)} END"


def _mapped_text(value: Mapped, schema: Schema) -> str:
    """Return a mapped value as SQL; in words if it has many values."""
    name, numbers = _name(value.column), value.numbers.over(schema[value.column].scale)
    if len(value.outputs) > _SPELLED:
        return f"{len(value.outputs):,} values of {name}"
    branches = "".join(
        f" WHEN {predicate_text(Within(value.column, numbers.where(output), numbers.null == output), schema)}"
        f" THEN {_number_text(output)}"
        for output in value.outputs
    )
    return f"CASE{branches} END"


def _number_text(value: Fraction) -> str:
    exact = value.denominator == 1 or Fraction(repr(float(value))) == value
    return f"{float(value):.15g}" if exact else f"({value.numerator} / {value.denominator})"


def view_text(view: View) -> str:
    """Return the statement that a view answers."""
    measure = view.measure
    if isinstance(view, Histogram):
        subject = f"view {view.name}"
    elif isinstance(measure, Count):
        subject = (
            f"COUNT({'*' if measure.value is None else value_text(measure.value, view.schema)})"
        )
    elif isinstance(measure, Units):
        subject = f"COUNT(DISTINCT {_name(view.schema.unit.column if view.schema.unit else 'id')})"
    elif isinstance(measure, Distinct):
        subject = f"COUNT(DISTINCT {value_text(measure.value, view.schema)})"
    else:
        inside = value_text(measure.value, view.schema)
        shift = f" - {_number_text(measure.shift)}" if measure.shift else ""
        subject = f"SUM({inside}{shift})"
    where = predicate_text(view.where, view.schema)
    condition = f" WHERE {where}" if where else ""
    group = f" GROUP BY {', '.join(map(key_text, view.keys))}" if view.keys else ""
    return f"{subject}{condition}{'' if isinstance(view, Histogram) else group}"


def key_text(key: Partition) -> str:
    """Return groups in words: a column, or how many an expression of it makes."""
    name = _name(key.column)
    return name if key.declared else f"{name} in {key.size:,} group{'' if key.size == 1 else 's'}"


def cell_text(view: View, place: int) -> str:
    """Return the group of an entry of a view's vector; '' without groups."""
    if isinstance(view, Histogram):
        if view.strategy is not None:
            return f"row {place + 1}"
        return _bin_text(view, place)
    labels = []
    for key in reversed(view.keys):
        place, number = divmod(place, key.size)
        labels.append(
            label_text(partition.labels(key.kind)[number])
            if key.declared
            else predicate_text(key.within(number), view.schema)
        )
    return ", ".join(reversed(labels))


def _bin_text(view: Histogram, place: int) -> str:
    labels = []
    for axis in reversed(view.keys):
        place, number = divmod(place, axis.size)
        if number == axis.null:
            labels.append(f"{axis.column} missing")
            continue
        kind, ((low, high),) = axis.kind, axis.groups[number]
        ends = literal(kind, low).strip("'"), literal(kind, high).strip("'")
        labels.append(ends[0] if low == high else f"{ends[0]} to {ends[1]}")
    return ", ".join(reversed(labels))
