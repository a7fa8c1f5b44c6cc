"""Check that a text is SQL at all, and explain the commonest mistakes in it.

DuckDB's own parser comes first: sqlglot, which builds the tree, accepts some things that DuckDB
does not, such as WHERE after GROUP BY. Nothing is run, and no data is touched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dpnb.errors import closest
from dpnb.sql import dataless

CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT")
"""The clauses, in the order in which they are written."""
ALIKE = 0.75
"""Least similarity of a mistyped word to the intended one."""
SHAPE = "Write SELECT columns, aggregates FROM table WHERE ... GROUP BY columns."
_PLACE = re.compile(r'"location":"\[(\d+),(\d+)\]"|"position":"(\d+)"')
_NEXT = (",", "FROM")
"""Tokens that can follow a name in the SELECT list."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Where a text stops being valid SQL, and what to write instead.

    ``start`` and ``end`` are the first and last character of the mistake; ``start`` is -1 if its
    position is unknown.
    """

    start: int
    end: int
    hint: str


def slip(text: str, tokens: Sequence[Any]) -> Slip | None:
    """Return where DuckDB's parser stops, or None if it accepts the whole text.

    Parameters
    ----------
    text : str
    tokens : sequence of sqlglot.Token
        Tokens of the text; parameters ``:name`` are read as ``$name``, DuckDB's spelling, and OFFSET in
        a place of a list as a name.

    Raises
    ------
    EngineError
        If DuckDB cannot parse at all, for example for lack of memory.
    """
    import duckdb

    letters = list(text)
    for sign, name in pairwise(tokens):
        if sign.text == ":" and name.start == sign.end + 1:
            letters[sign.start] = "$"
        elif sign.text == "[" and text[name.start : name.end + 1].upper() == "OFFSET":
            # BigQuery's place in a list is a word of ours
            letters[name.start] = "_"
    statement = "".join(letters)
    try:
        dataless.parsed(statement)
    except duckdb.ParserException as error:
        match = _PLACE.search(str(error))
        if match is None:
            return Slip(-1, -1, SHAPE)
        first, length = int(match[1] or match[3]), int(match[2] or 1)
        # DuckDB counts positions in bytes
        start = len(statement.encode()[:first].decode(errors="ignore"))
        return Slip(start, start + max(length, 1) - 1, _advice(tokens, start))
    return None


def _advice(tokens: Sequence[Any], start: int) -> str:
    """Return what to write instead, given where the parser stopped."""
    place = next((i for i, token in enumerate(tokens) if token.end >= start), None)
    if place is None:
        return SHAPE
    word = tokens[place].text.upper()
    before = [keyword for keyword in map(_clause, tokens[:place]) if keyword]
    clause = _clause(tokens[place])
    later = [
        keyword for keyword in before if clause and CLAUSES.index(keyword) > CLAUSES.index(clause)
    ]
    if later:
        return f"{clause} goes before {later[0]}."
    balance = sum({"(": 1, ")": -1}.get(token.text, 0) for token in tokens)
    if balance:
        return f"{'Close' if balance > 0 else 'Remove'} a bracket."
    if word == "," and 0 < place < len(tokens) - 1:
        digits = tokens[place - 1].text, tokens[place + 1].text
        if all(map(str.isdecimal, digits)):
            return f"Write a decimal point: {_cut('.'.join(digits))}."
    if place == len(tokens) - 1 and word in ("AND", "OR", "NOT"):
        return f"Write a condition after {word}, or remove it."
    if place >= 2 and word == "(" and before[-1:] in (["SELECT"], ["GROUP BY"]):
        name, earlier = tokens[place - 1], tokens[place - 2]
        if _ends_value(earlier):
            return f"Put a comma between {_cut(earlier.text)} and {_cut(name.text)}."
    if place and (before[-1:] in (["GROUP BY"], ["ORDER BY"]) or _in_list(tokens[:place])):
        earlier, value = tokens[place - 1], tokens[place]
        if _ends_value(earlier) and _ends_value(value) and value.text != ")":
            return f"Put a comma between {_cut(earlier.text)} and {_cut(value.text)}."
    first_words = [keyword.split()[0] for keyword in CLAUSES]
    guess = closest(tokens[place - 1].text.upper(), first_words, alike=ALIKE) if place else ""
    if guess and not any(keyword.startswith(guess) for keyword in before):
        return f"Did you mean {next(keyword for keyword in CLAUSES if keyword.startswith(guess))}?"
    after = tokens[place + 1].text.upper() if place + 1 < len(tokens) else ""
    if place and before[-1:] == ["SELECT"] and tokens[place - 1].text == ")" and after in _NEXT:
        return f"Write AS {_cut(tokens[place].text)}."
    return SHAPE


def _clause(token: Any) -> str:
    """Return the clause that a token begins, or "" if it begins none."""
    word = " ".join(token.text.upper().split())
    return word if word in CLAUSES else ""


def _in_list(tokens: Sequence[Any]) -> bool:
    """Return whether tokens end inside the brackets of IN."""
    opened = next((i for i in reversed(range(len(tokens))) if tokens[i].text in "()"), 0)
    return opened > 0 and tokens[opened].text == "(" and tokens[opened - 1].text.upper() == "IN"


def _ends_value(token: Any) -> bool:
    """Return whether a column, a call or a constant can end with a token."""
    return token.text == ")" or (
        (token.text[:1].isalnum() or token.text[:1] == "_") and not _clause(token)
    )


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
