"""Functions of days and times as other systems write them, in DuckDB's spelling.

GoogleSQL (BigQuery, Spanner) names the format first, or the unit last; PostgreSQL, Snowflake, Oracle
and Spark write formats by letters: ``TO_CHAR(t, 'YYYY-MM')``. What has no exact equal stays as it is,
and is refused where expressions are read.
"""

from __future__ import annotations

import re

from sqlglot import expressions as exp
from sqlglot.expressions import DType

from dpnb.sql.functions import UNITS
from dpnb.sql.source import Node, bare, others

_PARTS = {"DATE": DType.DATE, "TIME": DType.TIME}
_FORMATTED = {"FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIMESTAMP"}
_PARSED = {
    "PARSE_DATE": DType.DATE, "PARSE_DATETIME": DType.TIMESTAMPNTZ, "PARSE_TIMESTAMP": DType.TIMESTAMPNTZ,
}  # fmt: skip
_SAME = frozenset("aAbBdHIjmMpSyY%")
"""Letters of formats that mean the same in GoogleSQL and in DuckDB."""
_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M"}
_WORDS = {
    "YYYY": "%Y", "yyyy": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "dd": "%d", "DDD": "%j",
    "HH24": "%H", "HH12": "%I", "MI": "%M", "SS": "%S",
}  # fmt: skip
"""Words of the formats of PostgreSQL, Snowflake and Oracle."""
_LETTERS = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "a": "%p",
    "EEE": "%a", "EEEE": "%A", "MMM": "%b", "MMMM": "%B",
}  # fmt: skip
"""Letters of the formats of Spark."""
_SUNDAYS = ("TIMESTAMP_TRUNC", "DATETIME_TRUNC")
"""Functions of GoogleSQL alone, whose weeks begin on Sunday."""
_MYSQL = re.compile("(?:%[YymdHjbap]|[^%A-Za-z])+")
"""Formats that mean the same in MySQL and in DuckDB."""


def in_duckdb(node: Node, name: str) -> Node | None:
    """Return what a function of a day or a time is in DuckDB; None for other nodes.

    ``name`` is what the statement calls it.

    Examples
    --------
    >>> import sqlglot
    >>> for text in ("TIME_TRUNC(x, HOUR)", "TO_CHAR(x, 'YYYY-MM')", "PARSE_DATE('%F', x)"):
    ...     node = sqlglot.parse_one(text, read="duckdb")
    ...     print(in_duckdb(node, text.partition("(")[0]).sql(dialect="duckdb"))
    CAST(DATE_TRUNC('HOUR', CAST('1970-01-01' AS DATE) + x) AS TIME)
    STRFTIME(x, '%Y-%m')
    CAST(STRPTIME(x, '%Y-%m-%d') AS DATE)
    """
    if isinstance(node, exp.TimestampTrunc | exp.DatetimeTrunc | exp.TimeTrunc):
        return _truncated(node, name)
    if isinstance(node, exp.ParseTime | exp.ParseDatetime):
        kind = DType.TIME if isinstance(node, exp.ParseTime) else DType.TIMESTAMPNTZ
        return _parsed(node.this, node.args.get("format"), kind)
    if isinstance(node, exp.ToChar) and not others(node.args, "this", "format"):
        return _formatted(node.this, _by_words(node.args.get("format"), _WORDS))
    if isinstance(node, exp.Time | exp.Date) and not node.expressions and len(_given(node)) == 1:
        return exp.cast(node.this, DType.TIME if isinstance(node, exp.Time) else DType.DATE)
    if isinstance(node, exp.Extract) and node.this.name.upper() in _PARTS:
        return exp.cast(node.expression, _PARTS[node.this.name.upper()])
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 2:
        return None
    first, second = node.expressions
    called = str(node.this).upper()
    if called in _FORMATTED:
        return _formatted(second, _format(first))
    if called == "FORMAT_TIME":
        return _formatted(_on_a_day(second), _format(first))
    if called in _PARSED:
        return _parsed(first, second, _PARSED[called])
    if called != "DATE_FORMAT":
        return None
    mysql = isinstance(second, exp.Literal) and second.is_string and _MYSQL.fullmatch(second.name)
    return _formatted(first, second if mysql else _by_words(second, _LETTERS))


def _given(node: Node) -> list[object]:
    return [part for part in node.args.values() if part]


def _on_a_day(time: Node) -> Node:
    """Return a time of day as one of the first day, since DuckDB cuts down and writes no others."""
    day = exp.cast(exp.Literal.string("1970-01-01"), DType.DATE)
    return exp.Add(this=day, expression=time)


def _truncated(node: Node, name: str) -> Node | None:
    """Return DATE_TRUNC for a function that is given the unit last."""
    time, unit = bare(node.this), node.args.get("unit")
    if isinstance(node, exp.TimeTrunc):
        if not isinstance(unit, exp.Var):
            return None
        return exp.cast(exp.TimestampTrunc(this=_on_a_day(node.this), unit=unit), DType.TIME)
    sundays = name.upper() in _SUNDAYS
    if isinstance(node, exp.TimestampTrunc) and not sundays:
        # DATE_TRUNC(x, MONTH) was read as if the unit came first
        if isinstance(unit, exp.Var) and unit.name.upper() in UNITS:
            return None
        last = _unit(time)
        if last is None or unit is None:
            return None
        time = exp.column(exp.to_identifier(unit.name)) if isinstance(unit, exp.Var) else unit
        unit, sundays = last, True
    if not isinstance(unit, exp.Var):
        return None
    word = unit.name.upper()
    if word == "ISOWEEK":
        return exp.TimestampTrunc(this=time, unit=exp.var("WEEK"))
    if word == "WEEK" and sundays:
        moved = exp.Add(this=time, expression=_one_day())
        week = exp.TimestampTrunc(this=moved, unit=exp.var("WEEK"))
        return exp.Paren(this=exp.Sub(this=week, expression=_one_day()))
    if isinstance(node, exp.TimestampTrunc) and time is bare(node.this):
        return None
    return exp.TimestampTrunc(this=time, unit=unit)


def _one_day() -> Node:
    return exp.Interval(this=exp.Literal.string("1"), unit=exp.var("DAY"))


def _unit(node: Node) -> Node | None:
    """Return the unit that a bare word is; None if it is none."""
    plain = isinstance(node, exp.Column) and not node.table and not node.this.quoted
    word = node.name.upper() if plain else ""
    return exp.var(word) if word in UNITS or word == "ISOWEEK" else None


def _format(node: Node | None) -> Node | None:
    """Return a format of GoogleSQL as one of DuckDB; None if it may mean something else.

    It may stand in double quotes: no column can be a format.
    """
    quoted = isinstance(node, exp.Column) and not node.table and node.this.quoted
    if node is None or not (quoted or (isinstance(node, exp.Literal) and node.is_string)):
        return None
    made = re.sub("%(.)", lambda found: _SHORT.get(found[1], found[0]), node.name)
    known = all(letter in _SAME for letter in re.findall("%(.)", made))
    return exp.Literal.string(made) if known else None


def _by_words(node: Node | None, words: dict[str, str]) -> Node | None:
    """Return a format that is written by words as one of DuckDB; None if a word is unknown."""
    if not isinstance(node, exp.Literal) or not node.is_string or "%" in node.name:
        return None
    made, rest = "", node.name
    known = sorted(words, key=len, reverse=True)
    while rest:
        word = next((one for one in known if rest.startswith(one)), rest[0])
        rest = rest.removeprefix(word)
        # quotes keep letters as they are, and SSSS is not SS twice
        if word not in words and (word.isalnum() or word in "'\"[]"):
            return None
        if word.isalpha() and rest.startswith(word[-1]):
            return None
        made += words.get(word, word)
    return exp.Literal.string(made)


def _formatted(time: Node, shape: Node | None) -> Node | None:
    return None if shape is None else exp.TimeToStr(this=time, format=shape)


def _parsed(shape: Node, text: Node | None, kind: DType) -> Node | None:
    made = _format(shape)
    if made is None or text is None:
        return None
    time = exp.StrToTime(this=text, format=made)
    return time if kind == DType.TIMESTAMPNTZ else exp.cast(time, kind)
