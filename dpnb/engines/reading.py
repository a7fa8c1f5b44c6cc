"""The public rule by which a value is read, in DuckDB's SQL: see ``dpnb.schema.reading``."""

from __future__ import annotations

import re
from decimal import Decimal

from dpnb.engines.moments import ahead_of, wall
from dpnb.engines.sources import text
from dpnb.engines.steps import literal
from dpnb.schema.reading import FALSE, INFINITE, LARGEST_SHOWN, NUMBER, TIME, TRUE
from dpnb.schema.timestamps import Timestamp

WHOLE = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "BOOLEAN",
}  # fmt: skip
"""DuckDB's integer types."""
NUMBERS = WHOLE | {"FLOAT", "DOUBLE"}
NOTHING = {'"NULL"', "NULL"}
"""The type of columns without any value."""
TEXTS = {"VARCHAR", "ENUM", "UUID", "TIME"} | NOTHING
"""Types whose values are read by their texts."""
DAYS = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_EXACT_DIGITS, _EXACT_POWER = 15, 22
"""Whole numbers of so many digits, and powers of ten up to this one, are exact as doubles."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_OF_NANOSECONDS = {"TIMESTAMP_NS", "TIMESTAMPTZ_NS"}
INSTANTS = {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
"""Types of instants, which only columns of days and times read."""
SCALARS = TEXTS | NUMBERS | DAYS
"""Types of which any kind can be declared. Readers choose between them by all values of a column, so
a refusal of one of them would depend on the data: a value that is not of the kind is missing."""


def type_name(described: str) -> str:
    """Return the name of a type as DuckDB describes it; only that of a decimal has its digits.

    Examples
    --------
    >>> type_name("ENUM('a', 'b')"), type_name("DECIMAL(18,2)"), type_name("DECIMAL(18,2)[]")
    ('ENUM', 'DECIMAL(18,2)', 'DECIMAL(18,2)[]')
    """
    name = described.upper()
    return name if name.endswith("]") or _DECIMAL.fullmatch(name) else name.partition("(")[0]


def is_decimal(held: str) -> bool:
    """Return whether a type is one of decimals."""
    return _DECIMAL.fullmatch(held) is not None


def as_read(column: str, held: str) -> tuple[str, str]:
    """Return the SQL of what is read of a column, and its type: of a decimal the nearest double.

    A cast divides a whole number by a power of ten. That is rounded once if both are exact as
    doubles; else some versions of DuckDB round more often. A text is always rounded once.
    """
    found = _DECIMAL.fullmatch(held)
    if found is None:
        return column, held
    digits, scale = map(int, found.groups())
    real, most = f"CAST({column} AS DOUBLE)", f"{Decimal(2**53).scaleb(-scale):f}"
    if digits > _EXACT_DIGITS:
        is_exact = f"{column} BETWEEN CAST('-{most}' AS {held}) AND CAST('{most}' AS {held})"
        written = f"TRY_CAST(CAST({column} AS VARCHAR) AS DOUBLE)"
        real = (
            f"CASE WHEN {is_exact} THEN {real} ELSE {written} END"
            if scale <= _EXACT_POWER
            else written
        )
    return real, "DOUBLE"


def matches(column: str, pattern: str) -> str:
    """Return the SQL that tests that a whole text has a form."""
    return f"regexp_full_match({column}, {text(pattern)})"


def as_text(column: str, held: str) -> str:
    """Return the SQL of a value's text; days without a time of day have none in it."""
    written = f"CAST({column} AS VARCHAR)"
    if held not in DAYS - {"DATE"}:
        return written
    return f"CASE WHEN {column} = CAST({column} AS DATE) THEN CAST(CAST({column} AS DATE) AS VARCHAR) ELSE {written} END"


def as_number(column: str, held: str) -> str:
    """Return the SQL of the double that a value is read as, for columns of numbers.

    A truth is 1 or 0. What is not a number is missing, not a number, or infinite.
    """
    if held in NUMBERS:
        return f"CAST({column} AS DOUBLE)"
    if held in DAYS:
        return "CAST(NULL AS DOUBLE)"
    column = as_text(column, held)
    return (
        f"CASE WHEN {matches(column, NUMBER)} THEN TRY_CAST({column} AS DOUBLE) "
        f"WHEN {matches(column, TRUE)} THEN 1 WHEN {matches(column, FALSE)} THEN 0 END"
    )


def as_day(column: str, held: str) -> str:
    """Return the SQL of the day that a value is read as, for columns of days."""
    if held in NUMBERS:
        return "CAST(NULL AS DATE)"
    if held in INSTANTS:
        # an instant has its day in UTC, whatever the connection's time zone
        return f"DATE '1970-01-01' + CAST(FLOOR({_whole_seconds(column, held)} / 86400) AS INTEGER)"
    return f"TRY_CAST({column if held in DAYS else as_text(column, held)} AS DATE)"


def _whole_seconds(column: str, held: str) -> str:
    """Return the SQL of a time's seconds since 1970-01-01, without fractions; NULL if not finite."""
    if held == "DATE":
        days = f"CAST({column} - DATE '1970-01-01' AS BIGINT)"
        return f"CASE WHEN isfinite({column}) THEN {days} * 86400 END"
    if held in _OF_NANOSECONDS:
        fine, parts = f"epoch_ns({column})", 10**9
    else:
        # years beyond those of microseconds are missing
        moment = column if held in INSTANTS else f"TRY_CAST({column} AS TIMESTAMP)"
        fine, parts = f"epoch_us({moment})", 10**6
    # // rounds towards 0
    return f"(CASE WHEN {fine} < 0 THEN ({fine} + 1) // {parts} - 1 ELSE {fine} // {parts} END)"


def as_time(kind: Timestamp, column: str, held: str) -> str:
    """Return the SQL of the seconds that the clock of a column of times shows for a value."""
    if held in NUMBERS:
        return "CAST(NULL AS BIGINT)"
    if held in INSTANTS:
        return wall(kind, _whole_seconds(column, held))
    if held in DAYS:
        return _whole_seconds(column, held)
    column = as_text(column, held)

    def part(number: int) -> str:
        return f"regexp_extract({column}, {text(f'^(?:{TIME})$')}, {number})"

    # a CASE tests in order; a clock that is not written stands at midnight
    shown = f"TRY_CAST({part(1)} || ' ' || COALESCE(NULLIF({part(2)}, ''), '00:00') AS TIMESTAMP)"
    seconds, zone = f"(epoch_us({shown}) // 1000000)", part(3)
    instant = f"({seconds} - ({ahead_of(zone, 'TRY_CAST(SUBSTR({}, {}, {}) AS INTEGER)')}))"
    return f"CASE WHEN {zone} = '' THEN {seconds} ELSE {wall(kind, instant)} END"


def category_number(column: str, held: str) -> str:
    """Return the SQL of the double by which a number is compared with categories, else NULL."""
    if held in NUMBERS:
        real = f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN NOT isnan({real}) THEN {real} END"
    column = as_text(column, held)
    return (
        f"CASE WHEN {matches(column, f'{NUMBER}|{INFINITE}')} THEN TRY_CAST({column} AS DOUBLE) END"
    )


def canonical(column: str, held: str) -> str:
    """Return the SQL of the text by which a value is compared with categories."""
    if held == "BOOLEAN":
        return f"CASE WHEN {column} THEN 'True' WHEN NOT {column} THEN 'False' END"
    if held in NUMBERS:
        return _shown(category_number(column, held))
    column = as_text(column, held)
    if held in DAYS:
        return column
    # most texts of numbers are canonical, which costs less to see
    written = f"CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR)"
    return (
        f"CASE WHEN length({column}) <= {_EXACT_DIGITS} AND {written} = {column} THEN {column} "
        f"WHEN {matches(column, f'{NUMBER}|{INFINITE}')} THEN {_shown(f'TRY_CAST({column} AS DOUBLE)')} "
        f"WHEN {matches(column, TRUE)} THEN 'True' WHEN {matches(column, FALSE)} THEN 'False' "
        f"ELSE {column} END"
    )


def _shown(real: str) -> str:
    """Return the SQL of a double's text, as Python writes it."""
    is_whole = f"{real} = TRUNC({real}) AND abs({real}) < {literal(LARGEST_SHOWN)}"
    whole = f"CAST(TRY_CAST({real} AS BIGINT) AS VARCHAR)"
    return f"CASE WHEN {is_whole} THEN {whole} ELSE CAST({real} AS VARCHAR) END"
