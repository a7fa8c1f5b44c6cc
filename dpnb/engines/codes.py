"""The public per-row rule from plain values to codes, in SQL that does not fail for any value."""

from __future__ import annotations

from dpnb.engines.dialect import clamp, literal, smallest_integer
from dpnb.engines.scans import MOST_LETTERS
from dpnb.errors import SchemaError
from dpnb.schema.columns import Category, Date, Kind, Real, days

_LARGEST = "CAST('1.7976931348623157e308' AS DOUBLE)"


def code_of(kind: Kind, value: str, *, whole: bool, found: str = "") -> str:
    """Return the SQL of the code of a value; ``value`` is the value's SQL.

    Parameters
    ----------
    value : str
        For a category its text; for a date its days since 1970-01-01; else an integer or a double.
    whole : bool
        Whether the value is a whole number.
    found : str
        SQL of a text's position in the list of a category; NULL if it is not listed.
    """
    if isinstance(kind, Category):
        if kind.other is None:
            return found
        other = kind.values.index(kind.other)
        return f"CASE WHEN {value} IS NOT NULL THEN COALESCE({found}, {other}) END"
    if isinstance(kind, Date):
        return f"CAST({clamp(value, str(days(kind.low)), str(days(kind.high)))} AS INT)"
    # false for NaN, which is greater than all numbers
    finite = f"abs({value}) <= {_LARGEST}"
    if isinstance(kind, Real):
        clamped = clamp(value, literal(kind.low), literal(kind.high))
        return f"CASE WHEN {finite} THEN {clamped} + CAST(0 AS DOUBLE) END"
    result = smallest_integer(kind.low, kind.high)
    if whole:
        return f"CAST({clamp(value, str(kind.low), str(kind.high))} AS {result})"
    # clamp first: FLOOR of a large number fails
    clamped = f"({clamp(value, literal(float(kind.low)), literal(float(kind.high)))})"
    half = f"CASE WHEN {clamped} - FLOOR({clamped}) >= CAST('0.5' AS DOUBLE) THEN 1 ELSE 0 END"
    return f"CASE WHEN {finite} THEN CAST(FLOOR({clamped}) + {half} AS {result}) END"


def short_text(value: str) -> str:
    """Return the SQL of an undeclared text: NULL if it has more than 100 letters."""
    return f"CASE WHEN length({value}) <= {MOST_LETTERS} THEN {value} END"


def alike_ids(collation: str) -> SchemaError:
    """Return the error for ids that the database itself holds for one."""
    return SchemaError(
        f"the ids of the privacy unit have the collation {collation}, to which different texts are equal",
        "Give each id one spelling in a view, as by lower(), with a collation that compares bytes: "
        'COLLATE "C" in PostgreSQL, COLLATE UTF8_BINARY in Spark.',
    )


def no_ids(held: str) -> SchemaError:
    """Return the error for values whose type cannot be an id of a privacy unit."""
    return SchemaError(
        f"the ids of the privacy unit are {held} values", "Use whole numbers or strings as ids."
    )
