"""The public per-row rule in Spark's SQL, to the same codes as everywhere, and Spark's own sums.

Spark raises on a failing cast and on overflow: nothing that is written here can do either. Every
text is written in hexadecimal, so no setting of a session changes its meaning.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping

from dpnb.engines.codes import Texts, alike_ids, code_of, no_ids
from dpnb.engines.dialect import Dialect
from dpnb.engines.ids import BLANKS, IdRule, Steps
from dpnb.engines.moments import ahead_of, wall
from dpnb.schema.columns import Category, Integer, Kind, Real
from dpnb.schema.predicates import EVERY, Predicate
from dpnb.schema.reading import FALSE, NUMBER, TIME, TRUE
from dpnb.schema.timestamps import DAY, Date, Timestamp
from dpnb.schema.types import Boolean
from dpnb.sql.values import Mapped
from dpnb.views.measures import TICKS, Measure, Sum

WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN"}
"""Spark's integer types."""
TEXTS = {"STRING", "CHAR", "VARCHAR"}
NUMBERS = WHOLE | {"FLOAT", "DOUBLE", "DECIMAL"}
DAYS = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
FITS: dict[type[Kind], set[str]] = {
    Category: TEXTS | NUMBERS,
    Boolean: NUMBERS | TEXTS,
    Integer: NUMBERS | TEXTS,
    Real: NUMBERS | TEXTS,
    Date: DAYS | TEXTS | NUMBERS,
    Timestamp: DAYS | TEXTS | NUMBERS,
}
"""Types that can hold a kind; values of texts are read as in a CSV file. Between texts, numbers and
truths Spark's readers choose by the values of a column, so none of these is refused."""
NOTHING = "VOID"
"""The type of columns without any value."""

_FEW = 16
"""Up to this many values, a CASE is as fast as a map."""
_BUCKET = 4
"""Values per bucket of a longer list."""
_CLOCK = r"(?:(?:[01]?\d|2[0-3]):[0-5]?\d(?::[0-5]?\d(?:\.\d{0,9})?)?|24:00(?::00)?)"
_TIME = rf"(?:(?:T| +){_CLOCK}(?: *(?:Z|[+-]\d{{2}}(?::?\d{{2}})?))?)?"
_DAY = rf"\A\s*(-?)0*(\d{{1,7}})([-/ \\])(\d{{1,2}})\3(\d{{1,2}}){_TIME}\s*\z"
_SPACE = " \t\n\v\f\r"
_LIMB = 2**16


def text(value: str) -> str:
    """Quote an SQL string."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def type_name(declared: str) -> str:
    """Return the bare name of a Spark type, without length, precision or collation."""
    return re.split(r"[(< ]", declared, maxsplit=1)[0].upper()


def _place(places: Mapping[str, int], value: str) -> str:
    """Return the SQL of the number that belongs to a text; NULL if there is none."""
    if len(places) <= _FEW:
        cases = " ".join(f"WHEN {text(label)} THEN {i}" for label, i in places.items())
        return f"CASE {value} {cases} END"
    # Spark searches a map from first to last key, so use many small ones
    buckets: list[dict[str, int]] = [{} for _ in range(-(-len(places) // _BUCKET))]
    for label, i in places.items():
        buckets[zlib.crc32(label.encode()) % len(buckets)][label] = i
    maps = f"from_json({text(json.dumps(buckets))}, 'ARRAY<MAP<STRING, INT>>')"
    bucket = f"CAST(crc32({value}) % {len(buckets)} AS INT)"
    return f"try_element_at(get({maps}, {bucket}), {value})"


def _double(value: str) -> str:
    """Return the double of a text that is a number."""
    return f"TRY_CAST(translate({value}, {text('+' + _SPACE)}, '') AS DOUBLE)"


def matches(value: str, pattern: str) -> str:
    """Return the SQL that tests whether a pattern describes the whole text."""
    return SparkIdRule().matches(value, pattern)


READ = Texts(
    matches=matches,
    place=_place,
    double=_double,
    whole=lambda real: f"CAST(TRY_CAST({real} AS BIGINT) AS STRING)",
    written=lambda real: f"CAST({real} AS STRING)",
)


def raw(kind: Kind, column: str, declared: str) -> str:
    """Return the SQL of a source value as a text, a number, days since 1970-01-01, or seconds of a clock."""
    source = type_name(declared)
    if source == NOTHING:
        return f"CAST(NULL AS {'STRING' if isinstance(kind, Category) else 'INT'})"
    if source in TEXTS and "collate" in declared:
        # some collations treat different texts as equal
        column = f"CAST(CAST({column} AS BINARY) AS STRING)"
    if isinstance(kind, Category):
        if source in NUMBERS - WHOLE:
            real = f"CAST({column} AS DOUBLE)"
            return f"CASE WHEN NOT isnan({real}) THEN CAST({real} AS STRING) END"
        return f"CAST({column} AS STRING)"
    if isinstance(kind, Date):
        if source in NUMBERS:
            return "CAST(NULL AS INT)"
        if source == "TIMESTAMP":
            return _utc_day(column)
        return f"unix_date({_day(column) if source in TEXTS else f'CAST({column} AS DATE)'})"
    if isinstance(kind, Timestamp):
        return _seconds(column, source)
    if isinstance(kind, Boolean | Integer) and source in WHOLE:
        return f"CAST({column} AS BIGINT)"
    if source in TEXTS:
        return (
            f"CASE WHEN {matches(column, NUMBER)} THEN {_double(column)} "
            f"WHEN {matches(column, TRUE)} THEN 1 WHEN {matches(column, FALSE)} THEN 0 END"
        )
    return f"CAST({column} AS DOUBLE)"


def _utc_day(column: str) -> str:
    """Return the day of an instant in UTC, whatever the session's time zone."""
    moment, day = f"unix_micros({column})", 86_400_000_000
    before = f"({moment} + 1) div {day} - 1"
    return f"CAST(CASE WHEN {moment} < 0 THEN {before} ELSE {moment} div {day} END AS INT)"


def _seconds(column: str, source: str) -> str:
    """Return the seconds of an instant, or that a clock shows; those of texts say which.

    They are twice as many, and one more for an instant: :func:`_shown` takes them apart.
    """
    if source in NUMBERS:
        return "CAST(NULL AS BIGINT)"
    if source == "TIMESTAMP":
        micros, parts = f"unix_micros({column})", 1_000_000
        before = f"({micros} + 1) div {parts} - 1"
        return f"(CASE WHEN {micros} < 0 THEN {before} ELSE {micros} div {parts} END)"
    days = f"CAST(unix_date(CAST({column} AS DATE)) AS BIGINT) * {DAY}"
    if source == "DATE":
        return days
    if source == "TIMESTAMP_NTZ":
        return f"({days} + hour({column}) * 3600 + minute({column}) * 60 + second({column}))"
    pattern = text(rf"\A(?:{TIME})\z")
    day, clock, zone = (f"regexp_extract({column}, {pattern}, {group})" for group in (1, 2, 3))
    hour, minute, second = (
        f"COALESCE(TRY_CAST(split_part({clock}, ':', {place}) AS BIGINT), 0)" for place in (1, 2, 3)
    )
    shown = (
        f"(CAST(unix_date(TRY_CAST({day} AS DATE)) AS BIGINT) * {DAY} "
        f"+ {hour} * 3600 + {minute} * 60 + {second})"
    )
    instant = f"({shown} - ({ahead_of(zone, 'TRY_CAST(SUBSTR({}, {}, {}) AS BIGINT)')}))"
    return f"CASE WHEN {zone} = '' THEN {shown} * 2 ELSE {instant} * 2 + 1 END"


def _shown(kind: Timestamp, value: str, source: str) -> str:
    """Return the seconds that the clock of a column of times shows for what :func:`raw` found."""
    if source == "TIMESTAMP":
        return wall(kind, value)
    if source not in TEXTS:
        return value
    half = f"shiftright({value}, 1)"
    return f"(CASE WHEN {value} % 2 = 0 THEN {half} ELSE {wall(kind, half)} END)"


def _day(column: str) -> str:
    """Return the day that a text names, with or without a time."""
    sign, year, month, day = (
        f"regexp_extract({column}, {text(_DAY)}, {group})" for group in (1, 2, 4, 5)
    )
    padded = f"lpad({year}, greatest(4, length({year})), '0')"
    plain = f"concat({sign}, {padded}, '-', {month}, '-', {day})"
    return f"CASE WHEN {column} RLIKE {text(_DAY)} THEN TRY_CAST({plain} AS DATE) END"


def normaliser(kind: Kind, value: str, declared: str) -> str:
    """Return the SQL that maps the result of :func:`raw` to its code."""
    if isinstance(kind, Timestamp):
        value = _shown(kind, value, type_name(declared))
    position = READ.position(kind, value) if isinstance(kind, Category) else ""
    return code_of(kind, value, whole=type_name(declared) in WHOLE | {NOTHING}, found=position)


class SparkIdRule(IdRule):
    """The rule for ids in Spark's SQL."""

    TEXT = "STRING"

    def quoted(self, value: str) -> str:
        """Return the SQL of a text."""
        return text(value)

    def matches(self, value: str, pattern: str) -> str:
        """Return the SQL that tests whether a pattern describes the whole text."""
        whole = rf"\A(?:{pattern})\z"
        return f"{value} RLIKE {self.quoted(whole)}"

    def trimmed(self, text: str) -> str:
        """Return the SQL of a text without blanks at its ends."""
        return self.stripped(text, BLANKS)

    def stripped(self, value: str, letters: str, ends: str = "both") -> str:
        """Return the SQL of a text without some letters at its ends."""
        where = {"both": "BOTH", "left": "LEADING", "right": "TRAILING"}[ends]
        return f"TRIM({where} {self.quoted(letters)} FROM {value})"


def id_steps(column: str, declared: str, *, plain: bool) -> Steps:
    """Return the SQL of a row's id; ``plain`` texts are neither numbers nor UUIDs.

    Raises
    ------
    SchemaError
        If values of the type cannot be ids.
    """
    source, rule = type_name(declared), SparkIdRule()
    if collation := re.search(r"\bcollate (\w+)", declared, re.IGNORECASE):
        raise alike_ids(collation[1])
    if source in WHOLE or source == NOTHING:
        return rule.of_whole(column)
    if source == "DECIMAL":
        return rule.of_decimal(f"CAST({column} AS STRING)")
    if source in NUMBERS:
        return rule.of_double(f"CAST({column} AS DOUBLE)")
    if source in TEXTS:
        return rule.of_text(raw(Category(("",)), column, declared), plain=plain)
    raise no_ids(source)


class SparkDialect(Dialect):
    """The SQL for one schema's columns, in which no sum exceeds 64 bits."""

    IDS = SparkIdRule()
    SERIES = "explode(sequence(low, high))"
    WIDE = "DECIMAL(38, 0)"
    SUMMED_BY_MEAN = 0

    def text_number(self, column: str) -> str:
        """Return the SQL of a whole number from 0 to below 2**48 that stands for a text."""
        return f"CAST(conv(substr(md5(CAST({column} AS BINARY)), 1, 12), 16, 10) AS BIGINT)"

    def terms(
        self, measure: Measure, condition: Predicate, *, present: bool = False
    ) -> list[tuple[str, int]]:
        """Return integer aggregates and weights whose weighted sum is the measure in ticks.

        Sums of large whole numbers are taken in two parts: over billions of rows they exceed 64
        bits.
        """
        if (
            not isinstance(measure, Sum)
            or isinstance(measure.value, Mapped)
            or measure.rounded
            or measure.largest <= TICKS
        ):
            return super().terms(measure, condition, present=present)
        value = f"CAST({self.summand(measure)} AS BIGINT)"
        test = "" if condition == EVERY else f"CASE WHEN {self.predicate(condition)} THEN "
        end = " END" if test else ""
        scale, offset = int(1 / measure.step), int(measure.shift / measure.step)
        terms = [
            (f"SUM({test}shiftright({value}, 16){end})", scale * _LIMB),
            (f"SUM({test}({value} & {_LIMB - 1}){end})", scale),
        ]
        return terms if offset == 0 else [*terms, (f"COUNT({test}{value}{end})", -offset)]
