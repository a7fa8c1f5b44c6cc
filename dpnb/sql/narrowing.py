"""Narrowing: the bounds of a value in the rows that conditions leave.

In a CASE, a row that takes a branch satisfies its condition and none before it; in a statement, the
rows that count satisfy WHERE and FILTER. So ``SUM(wage) FILTER (WHERE wage <= 20)`` has the bound
20, whatever the bounds of the column are (docs/methods/expressions.md, theorem 17). The engine
clamps each value to the bounds found here, last, so that no sensitivity rests on a condition.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpnb.codes import Interval, Scale, remainders
from dpnb.schema.predicates import (
    EVERY,
    And,
    Compared,
    Or,
    Predicate,
    Within,
    negation,
    simplify,
    with_output,
)
from dpnb.sql.values import (
    Arithmetic,
    Bounds,
    Call,
    Case,
    Column,
    Mapped,
    Number,
    Span,
    Value,
    bounds_of,
    image,
    result_of,
)

if TYPE_CHECKING:
    from dpnb.schema.columns import Kind
    from dpnb.schema.schema import Schema

STEPS = 256
"""Most steps of a search for rows that conditions allow; beyond them, some are supposed."""


def bounds_within(value: Value, schema: Schema, rows: Predicate = EVERY) -> Bounds:
    """Derive the bounds of a value in the rows that satisfy a condition.

    Those of all rows, if no row that satisfies it has a value other than 0: a measure needs bounds
    that differ from 0.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> from dpnb.schema.schema import Schema
    >>> schema = Schema({"wage": Integer(0, 200)})
    >>> bounds_within(Column("wage"), schema, Within("wage", ((0, 20),))).high
    Fraction(20, 1)
    """
    declared, span = bounds_of(value, schema), span_of(value, schema, rows)
    return Bounds(*span, declared.integral) if span is not None and any(span) else declared


def allows(predicate: Predicate, schema: Schema, steps: Iterator[int] | None = None) -> bool:
    """Return whether a row can satisfy a condition; True when in doubt.

    ``steps`` counts the steps of several searches that share a limit.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> schema = {"age": Integer(17, 90)}
    >>> allows(And((Within("age", ((17, 29),)), Within("age", ((30, 90),)))), schema)
    False
    """
    taken = itertools.count() if steps is None else steps

    def search(condition: Predicate) -> bool:
        condition = simplify(condition, schema)
        if isinstance(condition, Within | Compared) or next(taken) > STEPS:
            return True
        if isinstance(condition, Or):
            # without parts, nothing satisfies it
            return any(map(search, condition.parts))
        for place, part in enumerate(condition.parts):
            if isinstance(part, Or):
                rest = condition.parts[:place] + condition.parts[place + 1 :]
                return any(search(And((*rest, choice))) for choice in part.parts)
        return True

    return search(predicate)


def codes_of(
    predicate: Predicate, column: str, kind: Kind, period: int | None = None
) -> Sequence[Interval]:
    """Return codes that contain a column's in all rows that satisfy a condition.

    With a ``period``, return remainders of them.
    """
    scale = kind.scale if period is None else Scale(0, period - 1, integral=True)
    if isinstance(predicate, Within):
        narrows = predicate.column == column
        return _in_terms_of(predicate, period, scale) if narrows else ((scale.low, scale.high),)
    if isinstance(predicate, Compared):
        everything = ((kind.scale.low, kind.scale.high),)
        span = predicate.sides.get(column, (everything, False))[0]
        return span if period is None else remainders(span, period)
    parts = [codes_of(part, column, kind, period) for part in predicate.parts]
    if isinstance(predicate, Or):
        return scale.union([interval for part in parts for interval in part])
    codes: Sequence[Interval] = ((scale.low, scale.high),)
    for part in parts:
        codes = scale.intersection(codes, part)
    return codes


def _in_terms_of(atom: Within, period: int | None, scale: Scale) -> Sequence[Interval]:
    """Return the codes of a condition, or their remainders; more of them when in doubt."""
    own = atom.period
    if own == period:
        return atom.intervals
    if period is not None and (own is None or own % period == 0):
        return remainders(atom.intervals, period)
    if period is not None and own is not None and period % own == 0:
        return atom.steps(True).over(scale).support
    return ((scale.low, scale.high),)


def _allows_missing(predicate: Predicate, column: str, schema: Schema) -> bool:
    """Return whether a column may be missing in a row that satisfies a condition."""
    if isinstance(predicate, Within):
        return column not in schema.complete and (predicate.column != column or predicate.null)
    if isinstance(predicate, Compared):
        return column not in schema.complete and column not in predicate.columns
    parts = (_allows_missing(part, column, schema) for part in predicate.parts)
    return any(parts) if isinstance(predicate, Or) else all(parts)


def cases(case: Case, rows: Predicate, schema: Schema) -> Iterator[tuple[Predicate, Value | None]]:
    """Return the branches of a CASE, each with the condition of the rows that take it."""
    for condition, result in case.branches:
        yield And((rows, condition)), result
        rows = simplify(And((rows, negation(condition, schema, schema.complete))), schema)
    yield rows, case.default


def present(value: Value | None, schema: Schema) -> Predicate:
    """Return the condition that a value is not missing; no value stands for the row itself."""
    if value is None or isinstance(value, Number):
        return EVERY
    if isinstance(value, Column):
        scale = schema[value.name].scale
        everything = Within(value.name, ((scale.low, scale.high),))
        return EVERY if value.name in schema.complete else everything
    if isinstance(value, Mapped):
        return with_output(value.column, value.numbers)
    if isinstance(value, Arithmetic):
        return And((present(value.left, schema), present(value.right, schema)))
    if isinstance(value, Call):
        return Or(tuple(present(part, schema) for part in value.parts))
    return Or(
        tuple(
            And((condition, present(result, schema)))
            for condition, result in cases(value, EVERY, schema)
            if result is not None
        )
    )


def _is_certain(value: Value, schema: Schema, rows: Predicate) -> bool:
    """Return whether a value is missing in no row that satisfies a condition; False when in doubt."""
    absent = negation(present(value, schema), schema, schema.complete)
    return not allows(And((rows, absent)), schema)


def span_of(value: Value, schema: Schema, rows: Predicate) -> Span | None:
    """Return the range of a value in the rows that satisfy a condition; None if all lack it."""
    if isinstance(value, Number):
        return value.value, value.value
    if isinstance(value, Column):
        codes = codes_of(rows, value.name, schema[value.name])
        low, high = min(codes, default=None), max(codes, default=None)
        return None if low is None or high is None else (Fraction(low[0]), Fraction(high[1]))
    if isinstance(value, Mapped):
        kind, numbers = schema[value.column], value.numbers
        codes = codes_of(rows, value.column, kind, numbers.period)
        outputs = [*numbers.steps.image(kind.scale.union(codes))]
        if value.numbers.null is not None and _allows_missing(rows, value.column, schema):
            outputs.append(value.numbers.null)
        return (min(outputs), max(outputs)) if outputs else None
    if isinstance(value, Case):
        steps = itertools.count()
        parts = [
            span_of(result, schema, condition)
            for condition, result in cases(value, rows, schema)
            if result is not None and allows(condition, schema, steps)
        ]
        known = [part for part in parts if part is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None
    if isinstance(value, Call):
        found = [(part, span_of(part, schema, rows)) for part in value.parts]
        there = [(part, span) for part, span in found if span is not None]
        certain = [_is_certain(part, schema, rows) for part, _ in there]
        spans = [span for _, span in there]
        return result_of(value.function, spans, certain) if spans else None
    left, right = span_of(value.left, schema, rows), span_of(value.right, schema, rows)
    if left is None or right is None:
        return None
    return image(value, left, right)
