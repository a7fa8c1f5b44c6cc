"""Exact contents of a source's columns, only for the owner who drafts a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dpnb.engines.duckdb import connected, quoted
from dpnb.engines.files import is_several, several_files
from dpnb.engines.frames import library, names_of, plain_frame, unreadable
from dpnb.engines.ids import LARGEST_FLOAT
from dpnb.engines.normaliser import id_steps
from dpnb.engines.reading import (
    DAYS,
    NUMBERS,
    SCALARS,
    TEXTS,
    WHOLE,
    as_day,
    as_read,
    as_time,
    canonical,
    category_number,
    type_name,
)
from dpnb.engines.scans import guarded, opening_failure
from dpnb.engines.sources import (
    file_path,
    file_source,
    frame_source,
    is_csv,
    is_picked,
    unread,
)
from dpnb.engines.sources import text as literal
from dpnb.engines.spelling import SPELLINGS, Spelling
from dpnb.errors import EngineError
from dpnb.interrupt import checkpoint
from dpnb.schema.reading import NUMBER
from dpnb.schema.timestamps import Timestamp

_CLOCK = Timestamp("1970-01-01", "1970-12-31")
Holds: TypeAlias = Literal["text", "boolean", "whole", "number", "day", "other"]

MOST_VALUES = 50
"""Largest number of different texts to list."""
MOSTLY = 0.95
"""A column holds numbers or days if this share of its texts are such."""


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """One column of a source. Exact, as secret as the data.

    Attributes
    ----------
    name : str
    type : str
        The engine's name of the type.
    holds : {'text', 'boolean', 'whole', 'number', 'day', 'other'}
    rows, present, different : int
        Number of rows, of rows with a value, and of different values.
    most : int
        Number of rows of the most frequent value.
    low, high : number, date or None
        Least and greatest value, for numbers and days.
    values : tuple of str
        Texts in ascending order; empty if there are more than 50.
    spelling : Spelling or None
        How most of its texts write numbers or days that dpnb does not read as such.
    ways : int
        Number of values that are spelled in several ways, read as ids; ``most`` counts them as one.
    rounded : bool
        Whether it holds numbers so large that pandas may have rounded them.
    times : bool
        Whether its days have times other than midnight.
    """

    name: str
    type: str
    holds: Holds
    rows: int
    present: int = 0
    different: int = 0
    most: int = 0
    low: Any = None
    high: Any = None
    values: tuple[str, ...] = ()
    spelling: Spelling | None = None
    ways: int = 0
    rounded: bool = False
    times: bool = False

    def __repr__(self) -> str:
        return "Summary(private)"

    def __reduce__(self) -> Any:
        raise TypeError("a Summary is as secret as the data and cannot be pickled")


def summarise(source: Any) -> list[Summary]:
    """Summarise each column of a source; of names that differ only by case, the first.

    Parameters
    ----------
    source : data frame, path or DuckDB relation
        As for ``Table``.

    Raises
    ------
    SchemaError
        If a table cannot have this source.
    EngineError
        If the source cannot be read.
    """
    connection = connected()
    try:
        return guarded(lambda: _columns(connection, source), opening_failure)
    except EngineError as error:
        failure = unread(error, source)
    finally:
        connection.close()
    raise failure


def _columns(connection: Any, source: Any) -> list[Summary]:
    odd: Mapping[str, tuple[str, str]] = {}
    if is_several(source):
        # declared or not, all columns and all keys
        files = several_files(source)
        names = [*_types(connection, files.read(files.paths[:1])), *files.keys]
        relation, _ = files.relation(lambda part: _types(connection, part), names, None)
    elif isinstance(source, (str, Path)):
        relation = file_source(file_path(source))
    else:
        source = plain_frame(source)
        odd, every = unreadable(source), names_of(source)
        names = _first([name for name in every if name not in odd])
        if not names:
            return [Summary(name, odd[name][0], "other", 0) for name in every]
        frame = frame_source(source, names)
        relation = "source_rows"
        connection.register(relation, frame)
    if is_csv(source):
        # as in the engine: keep lines that cannot be read
        connection.execute(f"CREATE TEMP TABLE texts AS SELECT * FROM {relation}")
        relation = "texts"
    types = _types(connection, relation)
    summaries = []
    for name in _first(list(types)):
        summary = _column(connection, relation, name, types[name], loose=_is_untyped(source, name))
        summary = _spelled(connection, relation, summary)
        if types[name] == "VARCHAR" and summary.holds in ("text", "whole"):
            summary = _as_ids(connection, relation, summary)
        if summary.present and _is_picked(source, name):
            summary = replace(summary, rounded=_is_large(connection, relation, summary))
        summaries.append(summary)
    rows = summaries[0].rows
    summaries += [Summary(name, held, "other", rows) for name, (held, _) in odd.items()]
    return summaries


def _as_ids(connection: Any, relation: str, summary: Summary) -> Summary:
    """Add how many ids the texts of a column spell in several ways, and the rows of the most frequent one."""
    checkpoint()
    steps = id_steps(quoted(summary.name), summary.type, plain=False)
    texts = f"SELECT {quoted(summary.name)} AS x, {steps.first} AS u FROM {relation}"
    ways, most = connection.execute(
        "SELECT COUNT(*) FILTER (ways > 1), COALESCE(MAX(n), 0) FROM (SELECT COUNT(*) AS n, "
        f"COUNT(DISTINCT x) AS ways FROM (SELECT x, {steps.second} AS u FROM ({texts})) "
        "WHERE u IS NOT NULL GROUP BY u)"
    ).fetchone()
    return replace(summary, ways=ways, most=max(summary.most, most))


def _is_large(connection: Any, relation: str, summary: Summary) -> bool:
    """Return whether a column holds numbers, or texts that say one, too large to be ids there."""
    if summary.type != "VARCHAR":
        return (
            summary.holds == "whole" and max(abs(summary.low), abs(summary.high)) >= LARGEST_FLOAT
        )
    name, number = quoted(summary.name), literal(f"(?:{NUMBER})")
    (found,) = connection.execute(
        f"SELECT COALESCE(BOOL_OR(ABS(TRY_CAST({name} AS DOUBLE)) >= {LARGEST_FLOAT}), FALSE) "
        f"FROM {relation} WHERE regexp_full_match({name}, {number})"
    ).fetchone()
    return bool(found)


def _is_picked(source: Any, name: str) -> bool:
    """Return whether pandas may have picked the type of a column by looking at all rows."""
    return library(source) == "pandas" and any(
        is_picked(dtype) for column, dtype in source.dtypes.items() if str(column) == name
    )


def _is_untyped(source: Any, name: str) -> bool:
    """Return whether the texts of a column may be numbers or days: its source has no type for them."""
    if library(source) != "pandas":
        return is_csv(source)
    dtypes = {str(column): str(dtype) for column, dtype in source.dtypes.items()}
    return dtypes[name] in ("object", "str")


def _spelled(connection: Any, relation: str, summary: Summary) -> Summary:
    """Add the spelling of most texts of a column, if it is one of spreadsheets."""
    # days without marks are read as whole numbers
    days = summary.holds == "whole" and 19_000_101 <= (summary.low or 0) <= summary.high < 3e7
    if not summary.present or not (days or summary.holds == "text"):
        return summary
    text = f"CAST({quoted(summary.name)} AS VARCHAR)"
    fitting = ", ".join(
        f"COUNT(*) FILTER (regexp_full_match(x, {literal(spelling.pattern)}))"
        for spelling in SPELLINGS
    )
    plain, *counts = connection.execute(
        f"SELECT COUNT(TRY_CAST(x AS DOUBLE)), {fitting} FROM (SELECT {text} AS x FROM {relation})"
    ).fetchone()
    for spelling, count in zip(SPELLINGS, counts, strict=True):
        fits = spelling is SPELLINGS[-1] if days else plain < MOSTLY * summary.present
        if fits and count >= MOSTLY * summary.present:
            return replace(summary, spelling=spelling)
    return summary


def _types(connection: Any, relation: str) -> dict[str, str]:
    """Return the columns of a relation with the names of their types."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {str(row[0]): type_name(str(row[1])) for row in described}


def _first(names: Sequence[str]) -> list[str]:
    """Return the names, with only the first of those that differ by case alone."""
    spellings: dict[str, str] = {}
    for name in names:
        spellings.setdefault(name.casefold(), name)
    return list(spellings.values())


def _column(connection: Any, relation: str, name: str, source_type: str, *, loose: bool) -> Summary:
    """Summarise a column; with ``loose`` its texts may be numbers or days."""
    column, source_type = as_read(quoted(name), source_type)

    def one(statement: str) -> Any:
        checkpoint()
        return connection.execute(statement).fetchone()

    (rows,) = one(f"SELECT COUNT(*) FROM {relation}")
    if source_type not in SCALARS:
        return Summary(name, source_type, "other", rows)
    number, day = category_number(column, source_type), as_day(column, source_type)
    if source_type in TEXTS:
        shown = f"NULLIF({canonical(column, source_type)}, '')"
        present, numbers, whole_numbers, days = one(
            f"SELECT COUNT(x), COUNT(*) FILTER (isfinite(n)), COUNT(*) FILTER (isfinite(n) AND "
            f"n = FLOOR(n)), COUNT(*) FILTER (isfinite(d)) FROM (SELECT {shown} AS x, "
            f"{number} AS n, {day} AS d FROM {relation})"
        )
        holds: Holds = "text"
        if loose and present and numbers >= MOSTLY * present:
            holds = "whole" if whole_numbers == numbers else "number"
        elif loose and present and days >= MOSTLY * present:
            holds = "day"
        value = {"text": shown, "day": day}.get(holds, number)
    elif source_type in WHOLE:
        holds = "boolean" if source_type == "BOOLEAN" else "whole"
        value = f"TRY_CAST({column} AS HUGEINT)"
    elif source_type in NUMBERS:
        # frames hold whole numbers as floats if some are missing
        (broken,) = one(
            f"SELECT COUNT(*) FILTER (isfinite(x) AND x <> FLOOR(x)) FROM (SELECT {number} AS x "
            f"FROM {relation})"
        )
        holds, value = "number" if broken else "whole", number
    else:
        holds, value = "day", day
    condition = "TRUE" if holds == "text" or source_type in WHOLE else "isfinite(x)"
    # an instant is a value of its own, of which the draft declares the day
    counted = (shown if source_type in TEXTS else column) if holds == "day" else value
    present, low, high = one(
        f"SELECT COUNT(x), MIN(x), MAX(x) FROM (SELECT {value} AS x FROM {relation}) "
        f"WHERE {condition}"
    )
    different, most = one(
        "SELECT COUNT(*), COALESCE(MAX(n), 0) FROM (SELECT COUNT(*) AS n FROM (SELECT "
        f"{value} AS x, {counted} AS y FROM {relation}) WHERE x IS NOT NULL AND {condition} GROUP BY y)"
    )
    times = False
    if holds == "day" and source_type != "DATE":
        clock = f"({as_time(_CLOCK, column, source_type)}) % 86400"
        # a day of another zone begins at one of two times of UTC
        several = "TRUE" if source_type in DAYS else f"COUNT(DISTINCT {clock}) > 2"
        (times,) = one(
            f"SELECT COALESCE(BOOL_OR({clock} <> 0), FALSE) AND {several} FROM {relation}"
        )
    values: tuple[str, ...] = ()
    if holds == "text":
        low = high = None
        if different <= MOST_VALUES:
            every = f"SELECT {value} AS x FROM {relation}"
            distinct_texts = f"SELECT DISTINCT x FROM ({every}) WHERE x IS NOT NULL ORDER BY x"
            values = tuple(row[0] for row in connection.execute(distinct_texts).fetchall())
    return Summary(
        name, source_type, holds, rows, present, different, most, low, high, values, times=times
    )
