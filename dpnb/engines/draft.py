"""A first draft of a table's TOML file, made from the data; owners replace it by public facts."""

from __future__ import annotations

import csv
import datetime
import json
import math
import re
import threading
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from dpnb.errors import SchemaError
from dpnb.interrupt import wait
from dpnb.schema.schema import Schema
from dpnb.schema.table import check_name

if TYPE_CHECKING:
    from dpnb.engines.summary import Summary

_ANSWER = "one_row_per_person"
_QUESTION = (
    "# WHO IS PROTECTED? dpnb refuses this file until you answer.{0}\n"
    "# If a column says whose row it is, use its [unit] below: dpnb then protects all rows of one id.\n"
    "# It keeps max_rows of them; fewer lose some rows, and twice as many double the noise.{1}\n"
    "# If each person has exactly one row, write true:\n"
    f'{_ANSWER} = "?"\n'
)
_AS_TEXTS = (
    '\n# Days and decimal numbers are ids only as texts (in pandas of type "string"): convert such a\n'
    '# column, and add a [unit] with its name, max_rows and kind = "text".'
)
_AGES = 200
"""Whole numbers in so small a range are declared, and asked about: they may be ages."""
_RHO = 0.02
"""Of the margins of error that a draft shows."""
STAMP = (
    "# DRAFT, made from the data: NOT PRIVATE. For the owner only; do not show it to analysts.\n"
    "# Replace every bound, bin and value by public knowledge: what you would write without these\n"
    "# data. Then delete the line draft = true; before that, dpnb refuses the file.\n"
    "draft = true\n"
)
MOST_BINS = 10
FEW_IDS = 10
OFTEN = 10
"""So many different values may be ids if a value has at most so many rows on average."""
PLAIN_VALUES = 30
"""Whole numbers with at most this range need no bins."""
_ID = re.compile(r"(^|[_ -])([iI][dD]|uuid|UUID|guid|GUID)$|[a-z0-9]I[dD]$")


_PLAIN_LIST = re.compile(r"\[\n((?:    [-+.:\w]+(?: [:\d]+)?,\n)+)\]")


class Draft(str):
    """The text of a draft; a notebook shows its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def draft_schema(source: Any, name: str | None = None) -> Draft:
    """Draft a table's TOML file to start from.

    The draft is not private: its bounds, values and complete columns come from the data. It is for
    the owner, who replaces all of it by public knowledge; do not show it to analysts. Sessions
    cannot make one. ``Schema.load`` and ``Table.load`` refuse it until the line ``draft = true``
    is deleted.

    Parameters
    ----------
    source : data frame, path or DuckDB relation
        As for ``Table``.
    name : str, optional
        The table's name; by default the file's name, else "t".

    Returns
    -------
    Draft
        A str. Whole numbers, real numbers and days have bins and bounds rounded outward; up to
        50 texts are listed. It asks whose rows these are, and lists the columns that may say so;
        ``Table.load`` refuses the file until ``[unit]`` or ``one_row_per_person = true`` is in it.

    Raises
    ------
    SchemaError
        If a table cannot have this source, or a CSV file is not in UTF-8, or has lines of different length.

    Examples
    --------
    >>> import pandas as pd
    >>> draft = draft_schema(pd.DataFrame({"age": [23, 51, None], "sex": ["m", "f", "f"]}))
    >>> draft.splitlines()[3]
    'draft = true'
    """
    try:
        # not partial, which prints its arguments
        return wait(
            lambda: _draft(source, name), threading.Event(), lambda thread: None, None, free=True
        )
    except BaseException:
        # a traceback keeps this frame, which must not keep rows
        source = None
        raise


def _draft(source: Any, name: str | None) -> Draft:
    from dpnb.engines.sources import is_csv
    from dpnb.engines.summary import summarise

    if name is None:
        name = _name_of(source)
    check_name(name)
    summaries = summarise(source)
    if is_csv(source):
        _check_encoding(Path(source))
        _check_lines(Path(source))
    declared = {
        column_summary.name: kind
        for column_summary in summaries
        if (kind := _declared(column_summary)) is not None
    }
    complete = [
        column_summary.name
        for column_summary in summaries
        if column_summary.name in declared and column_summary.present == column_summary.rows > 0
    ]
    path: str | list[str] | None = None
    if isinstance(source, (str, Path)):
        path = str(source)
    elif isinstance(source, (list, tuple)):
        path = list(map(str, source))
    head = {"name": name, **({} if path is None else {"source": path}), "complete": complete}
    # the privacy unit is the first thing to decide
    asked = sorted(filter(_may_be_id, summaries), key=_likelihood)
    found = "" if asked else " No column repeats like an id."
    found += "".join(f"\n# - {_told(summary)}" for summary in asked)
    question = _QUESTION.format(found, _AS_TEXTS * any(map(_is_measure, asked)))
    parts = [STAMP, question, _toml(head)]
    if path is None:
        parts.append("# The file with the rows, relative to this one; Table.load needs it:\n"
                     '# source = "rows.parquet"\n')  # fmt: skip
    parts += [_unit(summary) for summary in asked if not _is_measure(summary)]
    for column_summary in summaries:
        if column_summary.name in declared:
            parts.append(
                f"{_remark(column_summary, declared[column_summary.name])}{_toml({'columns': {column_summary.name: declared[column_summary.name]}})}"
            )
        else:
            parts.append(_left_out(column_summary))
    return Draft("\n".join(parts))


def _name_of(source: Any) -> str:
    """Derive a table's name from the name of its file."""
    if not isinstance(source, (str, Path)):
        return "t"
    name = re.sub(r"[^A-Za-z0-9_]+", "_", Path(source).stem).strip("_")[:62]
    return f"_{name}" if name[:1].isdigit() else name or "t"


def _check_encoding(path: Path) -> None:
    """Refuse a file if a table would leave out some of its rows; only the owner may learn this.

    Raises
    ------
    SchemaError
    """
    with path.open(encoding="utf-8") as file:
        try:
            while file.read(2**20):
                pass
        except UnicodeDecodeError:
            pass
        else:
            return
    raise SchemaError(
        "the CSV file is not encoded in UTF-8, so a table would leave out rows",
        "Save it as UTF-8, or read it with pandas.read_csv(..., encoding='latin-1') and give the frame.",
        str(path),
    )


def _check_lines(path: Path) -> None:
    """Refuse a file with a line of more or fewer values than the first; only the owner may learn this.

    Raises
    ------
    SchemaError
    """
    begun = 1
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, strict=True)
        try:
            names = len(next(lines, []))
            begun = lines.line_num + 1
            for values in lines:
                # an empty line is skipped, as a table does
                if values and len(values) != names:
                    break
                begun = lines.line_num + 1
            else:
                return
        except csv.Error:
            # a quote does not end
            pass
    raise SchemaError(
        f"line {begun:,} of the CSV file has more or fewer values than the first line",
        "Correct it: a quote may be missing, or the first line may lack the name of a column.",
        str(path),
    )


def _toml(content: dict[str, Any]) -> str:
    import tomli_w

    # numbers and days on one line, texts on one line each
    return _PLAIN_LIST.sub(
        lambda match: "[" + " ".join(match[1].split())[:-1] + "]",
        tomli_w.dumps(content),
    )


def _declared(summary: Summary) -> dict[str, Any] | None:
    """Return the declaration of a column, or None to leave it out."""
    if not summary.present or _is_id(summary) or summary.holds == "other":
        return None
    try:
        if summary.holds == "text":
            declaration: dict[str, Any] = {"type": "category", "values": list(summary.values)}
        elif summary.holds == "boolean":
            declaration = {"type": "boolean"}
        else:
            is_day = summary.holds == "day"
            declaration = _days(summary) if is_day else _numbers(summary)
        Schema.from_dict({summary.name: declaration})
    except (SchemaError, OverflowError):
        # no declaration fits the values: too many texts, too large numbers
        return None
    return declaration


def step(width: Fraction, most: int = MOST_BINS) -> Fraction:
    """Return the smallest increment (1, 2 or 5) * 10**k of which ``most`` cover a width.

    Examples
    --------
    >>> step(Fraction(73)), step(Fraction(1, 3))
    (Fraction(10, 1), Fraction(1, 20))
    """
    if width <= 0:
        return Fraction(1)
    power = Fraction(1)
    while power * most < width:
        power *= 10
    while power / 10 * most >= width:
        power /= 10
    return next(
        increment for increment in (power / 5, power / 2, power) if increment * most >= width
    )


def _numbers(summary: Summary) -> dict[str, Any]:
    """Return bounds rounded outward to whole increments, and bins one increment wide."""
    # the decimal number that a float prints as
    low, high = Fraction(str(summary.low)), Fraction(str(summary.high))
    by = step(high - low)
    integral = summary.holds == "whole"
    by = max(by, Fraction(1)) if integral else by
    first, last = math.floor(low / by), math.ceil(high / by)
    # a column with one value needs bounds, too
    edges = [by * place for place in range(first, max(last, first + 1) + 1)]
    bins = [int(edge) if integral else float(edge) for edge in edges]
    declaration = {"type": "integer" if integral else "real", "low": bins[0], "high": bins[-1]}
    return (
        declaration
        if integral and bins[-1] - bins[0] <= PLAIN_VALUES
        else {**declaration, "bins": bins}
    )


def _days(summary: Summary) -> dict[str, Any]:
    """Return whole years as bounds; bins are years, or the quarters of a single year."""
    low, high = summary.low, summary.high
    first, last = datetime.date(low.year, 1, 1), datetime.date(high.year, 12, 31)
    by = max(int(step(Fraction(high.year - low.year + 1))), 1)
    ends = [datetime.date(year, 12, 31) for year in range(low.year, high.year, by)]
    if low.year == high.year:
        ends = [datetime.date(low.year, month, day) for month, day in ((3, 31), (6, 30), (9, 30))]
    edges = [first, *ends, last]
    if not summary.times:
        return {"type": "date", "low": first, "high": last, "bins": edges}
    return {"type": "timestamp", "low": first, "high": last, "resolution": "hour", "tz": "UTC", "bins": [
        datetime.datetime.combine(edge, datetime.time(23 if place else 0)) for place, edge in enumerate(edges)
    ]}  # fmt: skip


def _may_be_id(summary: Summary) -> bool:
    """Return whether a column is asked about: for its name, or because it has many different values.

    Each day and each decimal number of a measure may differ, so these must repeat.
    """
    if not summary.present or summary.holds == "other":
        return False
    many = summary.different > PLAIN_VALUES or (
        summary.different >= FEW_IDS and summary.different * OFTEN >= summary.present
    )
    return (many and (summary.most > 1 or not _is_measure(summary))) or _is_named_so(summary)


def _is_named_so(summary: Summary) -> bool:
    return _ID.search(summary.name) is not None


def _is_measure(summary: Summary) -> bool:
    """Return whether a column holds days or decimal numbers, and its name is not that of an id."""
    is_measure = summary.holds in ("number", "day") or summary.spelling is not None
    return is_measure and not _is_named_so(summary)


def _is_id(summary: Summary) -> bool:
    """Return whether a column is left out as an id, until the owner says that it is none."""
    often = summary.different * OFTEN >= summary.present > 0 and summary.most > 1
    if often and summary.holds == "whole" and summary.high - summary.low <= _AGES:
        often = False
    often = often and summary.different > PLAIN_VALUES and not _is_measure(summary)
    return _is_named_so(summary) or (often and _may_be_id(summary))


def _likelihood(summary: Summary) -> tuple[bool, bool, bool, int]:
    """Return a key that puts the likeliest ids first."""
    return not _is_named_so(summary), not _is_id(summary), _is_measure(summary), -summary.different


def _told(summary: Summary) -> str:
    """Return how often the values of a column repeat."""
    rows = "one row each" if summary.most == 1 else f"up to {summary.most:,} rows each"
    return (
        f"{_named(summary)}: {summary.different:,} values in {summary.present:,} rows, {rows}: does it say "
        "whose row it is?"
    )


def _named(summary: Summary) -> str:
    """Return a column's name in quotes, on one line whatever it contains."""
    return json.dumps(summary.name)


def _left_out(summary: Summary) -> str:
    name = _named(summary)
    if _is_id(summary) and (summary.holds == "whole" or _is_named_so(summary)):
        return f"# Column {name} looks like an id, so it is left out.\n"
    if summary.holds == "other":
        return f"# Column {name} holds {summary.type} values. No kind of column fits them, so it is left out.\n"
    if not summary.present:
        return f"# Column {name} holds no values: left out.\n"
    if summary.holds == "text":
        return (
            f"{_spelling(summary)}"
            f"# Column {name} has {summary.different:,} different strings: left out. If some are\n"
            "# public, list them, with one value for all others:\n"
            f"# [columns.{name}]\n"
            '# type = "category"\n'
            '# values = ["this", "that", "other"]\n'
            '# other = "other"\n'
        )
    return f"# Column {name} has values that fit no bounds: left out.\n"


def _remark(summary: Summary, declaration: dict[str, Any]) -> str:
    """Return comments on a column: missing values, what its bounds cost."""
    lines = _spelling(summary)
    if declaration["type"] in ("integer", "real") and not summary.spelling:
        largest = max(abs(declaration["low"]), abs(declaration["high"]))
        lines += (
            f"# With these bounds a SUM at rho {_RHO} has a margin of error of {_margin(largest)}, times\n"
            "# max_rows if there is a [unit]. Bounds half as wide halve it.\n"
        )
    if declaration["type"] == "timestamp":
        lines += (
            "# Cut to hours, as a clock in the zone tz shows them. If the days are enough, write\n"
            '# type = "date" without resolution and tz, and bins that are days.\n'
        )
    if summary.present < summary.rows:
        lines += "# Missing in some rows.\n"
    return lines


def _spelling(summary: Summary) -> str:
    """Return a comment on texts that are numbers or days in a spelling of spreadsheets, or ""."""
    if summary.spelling is None:
        return ""
    return (
        f"# Column {_named(summary)} holds {summary.spelling.holds}.\n"
        "# dpnb does not read them so. Read the file with pandas, and give dpnb the data frame:\n"
        f"# {summary.spelling.reading.format(_named(summary))}\n"
    )


def _margin(sensitivity: float) -> str:
    """Return the margin of error of one total, at 95 % confidence and the draft's rho."""
    margin = NormalDist().inv_cdf(0.975) * sensitivity / math.sqrt(2 * _RHO)
    return f"{float(f'{margin:.2g}'):,g}" if margin < 1e6 else f"{margin:.1e}"


def _ids(summary: Summary) -> str:
    """Return a comment on ids that are spelled in several ways, or too large, or ""."""
    lines = ""
    if summary.ways:
        several = "1 id is" if summary.ways == 1 else f"{summary.ways:,} ids are"
        lines += (
            f"# In {_named(summary)} {several} spelled in several ways, such as 7, 7.0 and 07, and count as one\n"
            '# person each. If these are different people, add kind = "text".\n'
        )
    if summary.rounded:
        lines += (
            f"# In {_named(summary)} some numbers are so large that pandas may have rounded them: they are no\n"
            f'# ids. Read them as texts: pandas.read_csv(..., dtype={{{_named(summary)}: "string"}}).\n'
        )
    return lines


def _unit(summary: Summary) -> str:
    most = 1 if summary.most <= 1 else int(max(step(Fraction(summary.most), 1), Fraction(2)))
    return (
        f"{_ids(summary)}# [unit]\n"
        f"# column = {_named(summary)}\n"
        f"# max_rows = {most}  # then a count at rho {_RHO} has a margin of error of {_margin(most)}\n"
    )
