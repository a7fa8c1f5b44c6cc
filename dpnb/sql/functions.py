"""Which aggregates and which functions of a column may be written.

To add an aggregate, add a member of :class:`Function` and whatever ``mypy`` then reports. To add a
function of a column, add an example to :data:`WRITTEN`: the reader accepts what the examples are
made of, and nothing else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class Function(StrEnum):
    """The function of an aggregate, or of a result.

    ``DISTINCT`` is COUNT(DISTINCT column), which only decisions accept. ``UNITS`` counts different
    ids. ``CELLS`` counts the rows in each declared bin of a column, from which quantiles are
    computed. ``FORMULA`` is a result that is computed from several aggregates.
    """

    COUNT = "COUNT"
    CELLS = "CELLS"
    DISTINCT = "DISTINCT"
    UNITS = "UNITS"
    SUM = "SUM"
    AVG = "AVG"
    FORMULA = "FORMULA"

    @property
    def is_count(self) -> bool:
        """Whether its true values are whole numbers, at least 0."""
        match self:
            case Function.COUNT | Function.CELLS | Function.DISTINCT | Function.UNITS:
                return True
            case Function.SUM | Function.AVG | Function.FORMULA:
                return False

    @property
    def is_total(self) -> bool:
        """Whether it is a count or a sum, and so 0 without rows."""
        match self:
            case (
                Function.COUNT | Function.CELLS | Function.DISTINCT | Function.UNITS | Function.SUM
            ):
                return True
            case Function.AVG | Function.FORMULA:
                return False

    @property
    def is_mean(self) -> bool:
        """Whether it divides a sum by a count, so that a group without rows has no value."""
        match self:
            case Function.AVG:
                return True
            case (
                Function.COUNT
                | Function.CELLS
                | Function.DISTINCT
                | Function.UNITS
                | Function.SUM
                | Function.FORMULA
            ):
                return False


Measured: TypeAlias = Literal[
    Function.COUNT,
    Function.CELLS,
    Function.DISTINCT,
    Function.UNITS,
    Function.SUM,
    Function.AVG,
]
"""A function of one aggregate, which is measured in the data."""


Subject: TypeAlias = Literal["any column", "booleans", "numbers", "texts", "dates", "times"]
"""What a function of one column is written about."""

WRITTEN: dict[Subject, tuple[str, ...]] = {
    "any column": (
        "CASE WHEN x IS NOT NULL THEN 1 ELSE 0 END", "CASE x WHEN :value THEN 1 END",
        "IF(x = :value, 1, 0)", "COALESCE(x, :value)", "IFNULL(x, :value)", "NULLIF(x, :value)",
        "LEAST(x, :value)", "GREATEST(x, :value)", "CAST(x AS VARCHAR)", "x::VARCHAR",
        "x = :value", "x <> :value", "x IN (:value, :value)", "x IS NULL", "(x = :value) IS TRUE",
        "x IS DISTINCT FROM :value", "x IS NOT DISTINCT FROM :value",
        "x = :value AND NOT x IS NULL", "x = :value OR (x IS NULL) = FALSE",
    ),
    "booleans": (
        "x", "NOT x", "x IS NOT TRUE", "x AND NOT x IS NULL", "IF(x, 1, 0)", "CAST(x AS INTEGER)",
    ),
    "numbers": (
        "x < 2", "x <= 2", "x > 2", "x >= 2", "x BETWEEN 2 AND 3",
        "x + 1", "x - 1", "-x", "x * 2", "x / 2", "x // 2", "x % 2", "MOD(x, 2)", "x ^ 2",
        "POWER(x, 2)", "ABS(x)", "SIGN(x)", "ROUND(x)", "ROUND(x, 1)", "FLOOR(x)", "CEIL(x)",
        "TRUNC(x)", "SQRT(ABS(x))", "EXP(x / 100)", "LN(ABS(x) + 1)", "LOG(ABS(x) + 1)",
        "CAST(x AS INTEGER)", "CAST(x AS BIGINT)", "CAST(x AS DOUBLE)", "CAST(x AS FLOAT)",
        "CAST(x AS DECIMAL(10, 2))", "CAST(x AS BOOLEAN)", "TRY_CAST(x AS SMALLINT)",
    ),
    "texts": (
        "x LIKE 'P%'", "x NOT LIKE 'P%'", "x LIKE 'P!%%' ESCAPE '!'", "x ILIKE 'p%'",
        "x NOT ILIKE 'p%'", "x SIMILAR TO 'P[a-z]*'", "x NOT SIMILAR TO 'P[a-z]*'",
        "regexp_matches(x, '^P')", "regexp_matches(x, '^p', 'i')", "regexp_full_match(x, 'P.*')",
        "regexp_extract(x, '[a-z]+')", "regexp_extract(x, '(P)([a-z]+)', 2)",
        "regexp_replace(x, '[aeiou]', '-')", "regexp_replace(x, '([a-z])', '\\1\\1', 'g')", "UPPER(x)", "LOWER(x)",
        "TRIM(x)", "TRIM(x, 'P')", "LTRIM(x)", "RTRIM(x)", "SUBSTR(x, 2)", "SUBSTR(x, 1, 3)",
        "LEFT(x, 2)", "RIGHT(x, 2)", "LENGTH(x)", "STRLEN(x)", "x || '!'", "CONCAT(x, '!')",
        "REPLACE(x, 'a', 'b')", "SPLIT_PART(x, 'a', 1)", "STARTS_WITH(x, 'P')", "ENDS_WITH(x, 's')",
        "CONTAINS(x, 'a')", "POSITION('a' IN x)", "REVERSE(x)", "TRY_CAST(x AS INTEGER)",
        "TRY_STRPTIME(x, '%d.%m.%Y')", "CASE WHEN x LIKE '__:__' THEN STRPTIME(x, '%H:%M')::TIME END",
    ),
    "dates": (
        "x < :value", "x BETWEEN :value AND :value",
        "DATE_TRUNC('month', x)", "DATE_PART('year', x)", "EXTRACT(month FROM x)", "YEAR(x)",
        "QUARTER(x)", "MONTH(x)", "WEEK(x)", "DAY(x)", "DAYOFMONTH(x)", "DAYOFWEEK(x)",
        "DAYOFYEAR(x)", "ISODOW(x)", "WEEKDAY(x)", "DAYNAME(x)", "MONTHNAME(x)", "LAST_DAY(x)",
        "STRFTIME(x, '%Y-%m')", "DATE_DIFF('day', x, DATE '2024-01-01')",
        "DATEDIFF('month', DATE '2024-01-01', x)", "x + INTERVAL 1 MONTH", "x - INTERVAL '2' DAY",
        "DATE_ADD(x, INTERVAL 1 DAY)", "x - DATE '2024-01-01'", "CAST(x AS TIMESTAMP)",
    ),
    "times": (
        "HOUR(x)", "MINUTE(x)", "SECOND(x)", "CAST(x AS DATE)", "x + INTERVAL 3 HOUR",
        "x::TIME >= TIME '08:00'", "TIME_BUCKET(INTERVAL 15 MINUTE, x)",
    ),
}  # fmt: skip
"""Examples of all that may be written about one column x and constants, by what x holds."""
UNITS = frozenset(
    {
        "MILLENNIUM", "CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW",
        "ISODOW", "DAYOFYEAR", "DOY", "ISOYEAR", "YEARWEEK", "ERA", "EPOCH", "JULIAN",
        "YEARS", "QUARTERS", "MONTHS", "WEEKS", "DAYS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND",
        "SECONDS",
    }
)  # fmt: skip
"""Parts of a date or time."""


def written(subject: Subject) -> tuple[str, ...]:
    """Return the examples for what a column holds: a time is also a date, but has no whole difference."""
    if subject != "times":
        return WRITTEN[subject]
    dates = (text for text in WRITTEN["dates"] if not text.startswith("x - DATE"))
    return (*dates, *WRITTEN["times"])
