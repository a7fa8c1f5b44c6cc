"""The public per-row rule from plain values to codes, in SQL that no value can make fail."""

from __future__ import annotations

from dpnb.engines.dialect import clamp, literal, smallest_integer
from dpnb.engines.scans import MOST_LETTERS
from dpnb.errors import SchemaError
from dpnb.schema.columns import Category, Date, Kind, Real, days

_LARGEST = "CAST('1.7976931348623157e308' AS DOUBLE)"


def code_of(kind: Kind, value: str, *, whole: bool, found: str = "") -> str:
    """Return the SQL of the code of a value, whose own SQL is ``value``.

    Parameters
    ----------
    value : str
        Of a category its text; of a date its days since 1970-01-01; else a whole number, or a double.
    whole : bool
        Whether a number is a whole one.
    found : str
        SQL of the place of a text in the list of a category; NULL without one.
    """
    if isinstance(kind, Category):
        if kind.other is None:
            return found
        other = kind.values.index(kind.other)
        return f"CASE WHEN {value} IS NOT NULL THEN COALESCE({found}, {other}) END"
    if isinstance(kind, Date):
        return f"CAST({clamp(value, str(days(kind.low)), str(days(kind.high)))} AS INT)"
    # false for NaN, which is above all numbers
    finite = f"abs({value}) <= {_LARGEST}"
    if isinstance(kind, Real):
        clamped = clamp(value, literal(kind.low), literal(kind.high))
        return f"CASE WHEN {finite} THEN {clamped} + CAST(0 AS DOUBLE) END"
    result = smallest_integer(kind.low, kind.high)
    if whole:
        return f"CAST({clamp(value, str(kind.low), str(kind.high))} AS {result})"
    # clamped first: FLOOR of a large number fails
    clamped = f"({clamp(value, literal(float(kind.low)), literal(float(kind.high)))})"
    half = f"CASE WHEN {clamped} - FLOOR({clamped}) >= CAST('0.5' AS DOUBLE) THEN 1 ELSE 0 END"
    return f"CASE WHEN {finite} THEN CAST(FLOOR({clamped}) + {half} AS {result}) END"


def short_text(value: str) -> str:
    """Return the SQL of a text that is not declared: one of at most 100 letters, else NULL."""
    return f"CASE WHEN length({value}) <= {MOST_LETTERS} THEN {value} END"


def no_ids(held: str) -> SchemaError:
    """Return why values of a type are no ids of a privacy unit."""
    return SchemaError(
        f"the ids of the privacy unit are {held} values", "Use whole numbers or strings as ids."
    )
