"""Statements other than SELECT: those that show what is declared, and why the others are refused.

``DESCRIBE t``, ``SHOW TABLES`` and ``SHOW COLUMNS FROM t`` show declared tables, and ``EXPLAIN
SELECT ...`` a price. They are read from their words, before any parser, and run nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import Dialect, TokenType
from sqlglot.errors import TokenError

_DUCKDB = Dialect.get_or_raise("duckdb")
_DECLARED = (
    "{} shows declared tables, alone in a cell of a query",
    "Write DESCRIBE t, SHOW TABLES or SHOW COLUMNS FROM t there, or use session.tables.",
)
_SETTING = ("settings cannot be shown or changed", "Write SELECT ... FROM a table.")
_REFUSED = {
    "EXPLAIN": (
        "EXPLAIN shows the price of one SELECT, alone in a cell of a query",
        "Write EXPLAIN SELECT ... there, or call session.price(sql, rho=0.05).",
    ),
    "DESCRIBE": _DECLARED,
    "DESC": _DECLARED,
    "SHOW": _DECLARED,
    "SUMMARIZE": (
        "SUMMARIZE would show exact values of the rows",
        "Write SELECT with aggregates. What is declared is in session.tables.",
    ),
    "(": (
        "a statement in brackets is not supported",
        "Leave the brackets out. After UNION ALL they may stay.",
    ),
    "PRAGMA": _SETTING,
    "SET": _SETTING,
    "RESET": _SETTING,
}


@dataclass(frozen=True, slots=True)
class Command:
    """What a statement shows: the price of ``statement``, or declared tables.

    ``table`` is the one whose columns are meant, as written; None stands for all.
    """

    statement: str = ""
    table: str | None = None


def command(text: str) -> Command | None:
    """Return what a text shows if it is one of these statements, else None.

    The statement of EXPLAIN keeps its positions in the text.

    Examples
    --------
    >>> command("DESCRIBE people;")
    Command(statement='', table='people')
    >>> command("EXPLAIN SELECT 1").statement
    '        SELECT 1'
    >>> command("EXPLAIN ANALYZE SELECT 1") is command("SHOW ALL TABLES") is None
    True
    """
    words, tokens = _words(text)
    if words[:1] == ["EXPLAIN"]:
        start, end = tokens[0].start, tokens[0].end + 1
        statement = text[:start] + " " * (end - start) + text[end:]
        explained = _words(statement)[0][:1] in (["SELECT"], ["WITH"])
        return Command(statement=statement) if explained else None
    match words:
        case ["SHOW", "TABLES"]:
            return Command()
        case ["DESCRIBE" | "DESC", _] | ["SHOW", "COLUMNS", "FROM" | "IN", _]:
            name = tokens[len(words) - 1]
            if name.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
                return Command(table=name.text)
    return None


def _words(text: str) -> tuple[list[str], list[Any]]:
    """Return the words of a text in capitals, '' for quoted ones, without a last ``;``; its tokens."""
    try:
        tokens = list(_DUCKDB.tokenize(text))
    except TokenError:
        return [], []
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    words = ["" if token.token_type in quoted else token.text.upper() for token in tokens]
    while words[-1:] == [";"]:
        words.pop()
    return words, tokens


def refusal(word: str) -> tuple[str, str] | None:
    """Return why a statement that begins with a word is refused, and what to do."""
    what = _REFUSED.get(word)
    return None if what is None else (what[0].format(word), what[1])
