"""The public per-row rule in DuckDB's SQL: from source values to codes, and to ids."""

from __future__ import annotations

from dpnb.engines.codes import no_ids, short_text
from dpnb.engines.dialect import literal, smallest_integer
from dpnb.engines.ids import IdRule, Steps
from dpnb.engines.sources import text, undiscovered
from dpnb.schema.columns import Category, Date, Integer, Kind, Real

WHOLE = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "BOOLEAN",
}  # fmt: skip
"""DuckDB's integer types."""
NUMBERS = WHOLE | {"FLOAT", "DOUBLE", "DECIMAL"}
NOTHING = {'"NULL"', "NULL"}
"""The type of columns without any value."""
TEXTS = {"VARCHAR", "ENUM", "UUID"}
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
    if isinstance(kind, Real) and source_type in NUMBERS:
        return f"isfinite(TRY_CAST({column} AS DOUBLE))"
    if isinstance(kind, Category) and kind.other is not None:
        return f"{column} IS NOT NULL"
    if isinstance(kind, Category) and is_short(kind):
        return f"{found(kind, column)} <= {len(kind.values)}"
    return ""


def is_short(kind: Category) -> bool:
    """Whether :func:`found` is the position of a value."""
    return len(kind.values) <= SHORT_LIST


def found(kind: Category, column: str) -> str:
    """Return the SQL of what is read of a category, from which :func:`found_code` makes its code.

    It is the text where the list of declared values is long. Otherwise it is the position in the
    list, from 1: DuckDB searches the list once for each value in a dictionary. A missing value has
    the position after the last one, and an undeclared value has none.
    """
    column = f"CAST({column} AS VARCHAR)"
    if not is_short(kind):
        return column
    return f"list_position([{', '.join(map(text, kind.values))}, NULL], {column})"


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
    kind: Integer | Real | Date, column: str, source_type: str, *, present: bool = False
) -> str:
    """Return the SQL of the code of a source's number or day; ``present`` ones are not missing."""
    if isinstance(kind, Integer):
        result = smallest_integer(kind.low, kind.high)
        if source_type == "BOOLEAN":
            column = f"CAST({column} AS TINYINT)"
        if source_type in WHOLE:
            inside = f"CAST({_within(column, str(kind.low), str(kind.high))} AS {result})"
            return inside if present else f"CASE WHEN {column} IS NOT NULL THEN {inside} END"
        real = f"TRY_CAST({column} AS DOUBLE)"
        # not FLOOR(x + 0.5), which is wrong just below one half and above 2**52
        nearest = f"(FLOOR({real}) + CASE WHEN {real} - FLOOR({real}) >= 0.5 THEN 1 ELSE 0 END)"
        clamped = _within(nearest, literal(float(kind.low)), literal(float(kind.high)))
        return f"CASE WHEN isfinite({real}) THEN CAST({clamped} AS {result}) END"
    if isinstance(kind, Real):
        real = f"TRY_CAST({column} AS DOUBLE)"
        clamped = _within(real, literal(kind.low), literal(kind.high))
        inside = f"{clamped} + 0.0::DOUBLE"
        return inside if present else f"CASE WHEN isfinite({real}) THEN {inside} END"
    day = f"TRY_CAST({column} AS DATE)"
    clamped = _within(day, *(f"DATE '{end.isoformat()}'" for end in (kind.low, kind.high)))
    return f"CASE WHEN isfinite({day}) THEN CAST({clamped} - DATE '1970-01-01' AS INTEGER) END"


def text_code(name: str, column: str, held: str) -> str:
    """Return the SQL of an undeclared value: a text of at most 100 letters, else NULL.

    Raises
    ------
    SchemaError
        If texts do not distinguish the values of the type.
    """
    if held not in TEXTS | WHOLE | NOTHING:
        raise undiscovered(name, held)
    return short_text(f"CAST({column} AS VARCHAR)")


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
    if source_type in TEXTS:
        return rule.of_text(as_text, plain=plain)
    if source_type == "DECIMAL":
        return rule.of_decimal(as_text)
    if source_type in NUMBERS:
        return rule.of_double(f"CAST({column} AS DOUBLE)")
    raise no_ids(source_type)
