"""The public per-row rule in DuckDB's SQL: from source values to codes, and to ids."""

from __future__ import annotations

from dpnb.engines.codes import boolean_code, no_ids, short_text
from dpnb.engines.dialect import smallest_integer
from dpnb.engines.ids import IdRule, Steps
from dpnb.engines.moments import code_of_time
from dpnb.engines.reading import (
    DAYS,
    NOTHING,
    NUMBERS,
    SCALARS,
    TEXTS,
    WHOLE,
    as_day,
    as_number,
    as_text,
    as_time,
    canonical,
    category_number,
    is_decimal,
    matches,
)
from dpnb.engines.sources import text, undiscovered
from dpnb.engines.steps import literal
from dpnb.schema.columns import Category, Integer, Kind, Real
from dpnb.schema.reading import FALSE, TRUE, is_word, number
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.schema.types import Boolean

_LONG = {"HUGEINT", "UBIGINT", "UHUGEINT"}
"""Integer types with values beyond a BIGINT."""

SHORT_LIST = 250
"""So many declared values are searched one after the other; more of them are hashed."""


def _within(value: str, low: str, high: str) -> str:
    """Return the SQL that clamps a value that is not missing: twice as fast as :func:`clamp`."""
    return f"LEAST(GREATEST({value}, {low}), {high})"


def presence(kind: Kind, column: str, source_type: str) -> str:
    """Return the SQL that tests that a row has a code, if that costs less than its code; else ''."""
    if isinstance(kind, Integer) and source_type in WHOLE:
        return f"{column} IS NOT NULL"
    if isinstance(kind, Boolean) and source_type == "BOOLEAN":
        return f"{column} IS NOT NULL"
    if isinstance(kind, Real) and source_type in NUMBERS:
        return f"isfinite({as_number(column, source_type)})"
    if isinstance(kind, Category) and kind.other is not None and source_type in TEXTS | WHOLE:
        return f"{column} IS NOT NULL"
    if isinstance(kind, Category) and is_short(kind):
        return f"{found(kind, column, source_type)} <= {len(kind.values)}"
    return ""


def is_short(kind: Category) -> bool:
    """Whether :func:`found` is the position of a value."""
    return len(kind.values) <= SHORT_LIST


def found(kind: Category, column: str, source_type: str) -> str:
    """Return the SQL of what is read of a category, from which :func:`found_code` makes its code.

    It is the canonical text where the list of declared values is long. Otherwise it is the position
    in the list, from 1: DuckDB searches the list once for each value in a dictionary. A missing
    value has the position after the last one, and an undeclared value has none.
    """
    # a text that is read as a number or a truth is none of such values
    words = source_type in TEXTS | DAYS and all(map(is_word, kind.values))
    if not is_short(kind):
        return (as_text if words else canonical)(column, source_type)
    size = len(kind.values)
    if source_type == "BOOLEAN":
        true, false = (_position(kind, key) for key in ("True", "False"))
        return f"CASE WHEN {column} THEN {true} WHEN NOT {column} THEN {false} ELSE {size + 1} END"
    if source_type in NUMBERS:
        return f"list_position([{_numbers(kind)}, NULL], {category_number(column, source_type)})"
    column = as_text(column, source_type)
    spelled = f"list_position([{', '.join(map(text, kind.values))}, NULL], {column})"
    if words or source_type in DAYS:
        return spelled
    # most values are spelled as declared; a missing one is found there, too
    others = f"list_position([{_numbers(kind)}], {category_number(column, 'VARCHAR')})"
    truths = [
        f"WHEN {matches(column, pattern)} THEN {_position(kind, key)}"
        for key, pattern in (("True", TRUE), ("False", FALSE))
        if key in kind.keys
    ]
    if truths:
        others = f"CASE {' '.join(truths)} ELSE {others} END"
    # a CASE keeps dictionaries, COALESCE does not
    return f"CASE WHEN {spelled} IS NULL THEN {others} ELSE {spelled} END"


def _position(kind: Category, key: str) -> str:
    """Return the position of a key in the list, from 1."""
    return str(kind.keys.index(key) + 1) if key in kind.keys else "NULL"


def _numbers(kind: Category) -> str:
    """Return the declared numbers, in the places of their values: no number equals a NaN there."""
    numbers = (number(key) for key in kind.keys)
    return ", ".join(literal(float("nan") if real is None else real) for real in numbers)


def found_code(kind: Category, found: str, enum: str, *, present: bool = False) -> str:
    """Return the SQL of the code of what was :func:`found`; ``present`` values are not missing.

    ``enum`` is the type of a long list, and a table of it. No cast of an undeclared value may be
    tried: DuckDB 2.0 would search the whole list for a similar one, and time would tell of it.
    """
    if is_short(kind):
        missing = f"{found} > {len(kind.values)}"
        code = f"CAST({found} - 1 AS UTINYINT)"
    else:
        missing = f"{found} IS NULL"
        declared = f"CASE WHEN {found} IN (SELECT value FROM {enum}) THEN {found} END"
        code = f"enum_code(CAST({declared} AS {enum}))"
    if kind.other is not None:
        code = f"COALESCE({code}, {kind.values.index(kind.other)})"
    return code if present else f"CASE WHEN {missing} THEN NULL ELSE {code} END"


def normaliser(
    kind: Boolean | Integer | Real | Date | Timestamp,
    column: str,
    source_type: str,
    *,
    present: bool = False,
) -> str:
    """Return the SQL of the code of a source's number, day or time; ``present`` ones are not missing."""
    if isinstance(kind, Boolean):
        if source_type == "BOOLEAN":
            column = f"CAST({column} AS TINYINT)"
        return boolean_code(column if source_type in WHOLE else as_number(column, source_type))
    if isinstance(kind, Integer):
        result = smallest_integer(kind.low, kind.high)
        if source_type == "BOOLEAN":
            column = f"CAST({column} AS TINYINT)"
        if source_type in WHOLE:
            inside = f"CAST({_within(column, str(kind.low), str(kind.high))} AS {result})"
            return inside if present else f"CASE WHEN {column} IS NOT NULL THEN {inside} END"
        real = as_number(column, source_type)
        # not FLOOR(x + 0.5), which is wrong just below one half and above 2**52
        nearest = f"(FLOOR({real}) + CASE WHEN {real} - FLOOR({real}) >= 0.5 THEN 1 ELSE 0 END)"
        clamped = _within(nearest, literal(float(kind.low)), literal(float(kind.high)))
        return f"CASE WHEN isfinite({real}) THEN CAST({clamped} AS {result}) END"
    if isinstance(kind, Real):
        real = as_number(column, source_type)
        clamped = _within(real, literal(kind.low), literal(kind.high))
        inside = f"{clamped} + 0.0::DOUBLE"
        return inside if present else f"CASE WHEN isfinite({real}) THEN {inside} END"
    if isinstance(kind, Timestamp):
        return code_of_time(kind, as_time(kind, column, source_type))
    day = as_day(column, source_type)
    clamped = _within(day, *(f"DATE '{end.isoformat()}'" for end in (kind.low, kind.high)))
    return f"CASE WHEN isfinite({day}) THEN CAST({clamped} - DATE '1970-01-01' AS INTEGER) END"


def text_code(name: str, column: str, held: str) -> str:
    """Return the SQL of an undeclared value: its canonical text of at most 100 letters, else NULL.

    Raises
    ------
    SchemaError
        If texts do not distinguish the values of the type.
    """
    if held not in SCALARS:
        raise undiscovered(name, held)
    return short_text(canonical(column, held))


def id_steps(column: str, source_type: str, *, plain: bool) -> Steps:
    """Return the SQL of a row's id; ``plain`` texts are neither numbers nor UUIDs.

    Raises
    ------
    SchemaError
        If values of the type cannot be ids.
    """
    rule, as_text = IdRule(), f"CAST({column} AS VARCHAR)"
    if source_type in WHOLE - _LONG | NOTHING:
        return rule.of_whole(column)
    if source_type in _LONG | {"UUID"}:
        return Steps(as_text)
    if source_type in TEXTS - {"TIME"}:
        return rule.of_text(as_text, plain=plain)
    if is_decimal(source_type):
        return rule.of_decimal(as_text)
    if source_type in NUMBERS:
        return rule.of_double(f"CAST({column} AS DOUBLE)")
    raise no_ids(source_type)
