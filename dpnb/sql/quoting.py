"""Names that need double quotes, and signs that are not those of SQL: what a refused text meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice, pairwise

import sqlglot
from sqlglot import expressions as exp

from dpnb.errors import SqlError
from dpnb.schema.table import Table
from dpnb.sql.identifiers import in_double_quotes
from dpnb.sql.slips import slip
from dpnb.sql.source import ENCLOSED, Node, Source

_SINGLE, _DOUBLE = "‘’‚‛‹›´′", "“”„‟«»″`"
_PLAIN = {
    **dict.fromkeys(_SINGLE, "'"),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("×∗·", "*"),
    **dict.fromkeys("÷⁄∕", "/"),
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\u00ad", ""),
    "≥": ">=",
    "≤": "<=",
    "≠": "<>",
    "…": "...",
    "、": ",",
    "\u3000": " ",
}
"""Typographic, mathematical and full-width signs, and what SQL has for them."""
_SIGN = re.compile(f"[{re.escape(''.join([*_PLAIN, *_DOUBLE]))}]")
_IN_QUOTES = re.compile(rf'["{_DOUBLE}]([^"{_DOUBLE}]*)["{_DOUBLE}]')
MOST_LETTERS = 60
"""Longest name that an expression gives to its column."""
_MOST_PARSED = 20_000
"""So many letters are parsed again in all, with other spellings."""


def as_written(name: str) -> str:
    """Return a name as a statement must spell it, in double quotes if it needs them.

    Examples
    --------
    >>> as_written("age"), as_written("hours per week"), as_written("order"), as_written("Größe")
    ('age', '"hours per week"', '"order"', 'Größe')
    """
    return name if _is_plain(name) else '"' + name.replace('"', '""') + '"'


def expression_name(node: Node, *, alone: bool) -> str:
    """Return an expression as one would write it; ``alone``: without the name of its only table."""
    result = node.copy()
    for column in result.find_all(exp.Column):
        column.this.set("quoted", as_written(column.name) != column.name)
        if alone:
            column.set("table", None)
    return str(result.sql(dialect="duckdb"))


@lru_cache(maxsize=1024)
def _is_plain(name: str) -> bool:
    """Return whether a name is read as such wherever a column can stand, by both parsers."""
    if not re.fullmatch(r"[^\W\d]\w*", name):
        return False
    text = f"SELECT {name}, SUM({name}) FROM t WHERE {name} > 1 AND {name} < 3 GROUP BY {name}"
    try:
        columns = [
            node.name for node in sqlglot.parse_one(text, read="duckdb").find_all(exp.Column)
        ]
    except (sqlglot.errors.ParseError, sqlglot.errors.TokenError):
        return False
    return columns == [name] * 5 and slip(text, ()) is None


def meant(
    error: SqlError, text: str, names: Sequence[str], parse: Callable[[str], object]
) -> SqlError:
    """Return what to say of a refused text: the name or sign that was mistyped, or else the error.

    Parameters
    ----------
    error : SqlError
        Why the text is refused.
    names : sequence of str
        Names of tables and columns, declared or not.
    parse : callable
        Reads a text, or raises a SqlError.
    """
    return _unquoted(error, text, names, parse) or _sign(in_double_quotes(text), names) or error


def _unquoted(
    error: SqlError, text: str, names: Sequence[str], parse: Callable[[str], object]
) -> SqlError | None:
    """Return the error for names without quotes, if quotes around them mend the text."""
    places = [
        (*place, name) for name in names for place in _places(text, name) if not _is_plain(name)
    ]
    sets = (some for size in range(1, len(places) + 1) for some in combinations(places, size))
    found = None
    for chosen in islice(sets, _MOST_PARSED // max(len(text), 1)):
        ordered = sorted(chosen)
        if any(end > start for (_, end, _), (start, _, _) in pairwise(ordered)):
            continue
        mended = text
        for start, end, name in reversed(ordered):
            mended = mended[:start] + as_written(name) + mended[end:]
        other = _refusal(mended, parse)
        if found is None and (other is None or _is_better(other, error)):
            found = ordered
        if other is None:
            found = ordered
            break
    if found is None:
        return None
    start, end, name = found[0]
    several = dict.fromkeys(as_written(name) for *_, name in found)
    hint = f"Write {' and '.join(several)}."
    strange = next(
        (letter for *_, name in found for letter in name if not letter.isprintable()), ""
    )
    if strange:
        hint = f"Rename the column, without U+{ord(strange):04X}."
    what = f"the name {name!r} needs double quotes"
    return Source(text).error_at(start, end - 1, what, hint)


def _refusal(text: str, parse: Callable[[str], object]) -> SqlError | None:
    try:
        parse(text)
    except SqlError as error:
        return error
    return None


def _is_better(other: SqlError, error: SqlError) -> bool:
    """Return whether a text is refused for another reason than its syntax, or than before."""
    syntax = ("is not valid SQL", "ends inside")
    return other.what != error.what and not any(words in other.what for words in syntax)


def _places(text: str, name: str) -> list[tuple[int, int]]:
    """Return where a name stands without double quotes and outside of texts and comments."""
    letters = r"\s+".join(map(re.escape, name.split()))
    pattern = re.compile(rf"(?<![\w\"])[`\[]?{letters}[`\]]?(?![\w\"])", re.IGNORECASE)
    hidden = [] if {"'", '"'} & set(name) else [mark.span() for mark in ENCLOSED.finditer(text)]
    return [
        place.span()
        for place in pattern.finditer(text)
        if name.strip() and not any(start <= place.start() < end for start, end in hidden)
    ]


def _sign(text: str, names: Sequence[str]) -> SqlError | None:
    """Return the error for the first sign that is not one of SQL, outside of texts and comments."""
    hidden = [mark.span() for mark in ENCLOSED.finditer(text)]
    hidden += [place for name in names if _SIGN.search(name) for place in _places(text, name)]
    for match in _SIGN.finditer(text):
        place, sign = match.start(), match[0]
        if any(start <= place < end for start, end in hidden):
            continue
        shown = sign if sign.isprintable() and not sign.isspace() else f"U+{ord(sign):04X}"
        plain = _plain(text, place, names)
        hint = f"Type {plain} instead." if plain.strip() else "Type a space instead."
        if sign == "—":
            hint = "Type - instead, or -- before a comment."
        elif not plain:
            hint = "Delete it."
        return Source(text).error_at(place, place, f"{shown} is not a sign of SQL", hint)
    return None


def _plain(text: str, place: int, names: Sequence[str]) -> str:
    """Return what SQL has for a sign: double quotes only around a name."""
    if text[place] not in _DOUBLE:
        return _PLAIN[text[place]]
    known = {name.casefold() for name in names}
    enclosed = [
        match[1].casefold()
        for match in _IN_QUOTES.finditer(text)
        if match.start() <= place < match.end()
    ]
    return '"' if known.intersection(enclosed) else "'"


def names_of(tables: Mapping[str, Table]) -> list[str]:
    """Return the names of tables and of their columns, declared or not, and of their ids."""
    names = [name for name in tables if name.isidentifier()]
    for name in names[:]:
        names += tables[name].columns
    return [*dict.fromkeys(names)]
