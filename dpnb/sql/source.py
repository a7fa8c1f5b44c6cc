"""The text of a statement: its tree, and errors that point into it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import sqlglot
from sqlglot import expressions as exp

from dpnb.errors import SqlError, closest, given
from dpnb.sql.commands import refusal
from dpnb.sql.foreign import Clause, spelled
from dpnb.sql.identifiers import in_double_quotes
from dpnb.sql.slips import ALIKE, SHAPE, Slip, slip
from dpnb.sql.top import without_top

Node: TypeAlias = Any
"""A node of sqlglot's tree; code checks its class at run time."""

MAX_TEXT = 20_000
MAX_NODES = 2_000
MAX_DEPTH = 20


_DUCKDB = sqlglot.Dialect.get_or_raise("duckdb")
_BRACKETS = {sqlglot.TokenType.L_PAREN: 1, sqlglot.TokenType.R_PAREN: -1}
Span: TypeAlias = tuple[int, int]
"""The first and the last character of a part of the text."""
_QUOTED = (sqlglot.TokenType.STRING, sqlglot.TokenType.IDENTIFIER)
_NO_SPACE = re.compile("[\x1c-\x1f\x85\u1680\u2028\u2029]")
"""Characters that sqlglot reads as spaces, and DuckDB as letters of a name."""
_BEFORE_BRACKETS = frozenset(
    ["ALL", "AND", "ANY", "AS", "BETWEEN", "BY", "CASE", "DISTINCT", "ELSE", "FILTER", "FROM",
     "HAVING", "ILIKE", "IN", "IS", "JOIN", "LIKE", "LIMIT", "NOT", "OFFSET", "ON", "OR", "OVER",
     "QUALIFY", "SELECT", "THEN", "USING", "VALUES", "WHEN", "WHERE"]
)  # fmt: skip
"""Words that a bracket may follow, and that are not names of functions."""
ENCLOSED = re.compile(r"--[^\n]*|/\*.*?\*/|'[^']*'|\"[^\"]*\"|/\*|['\"]", re.DOTALL)
"""A comment or a quoted text, or else the beginning of one that does not end."""


def opened(text: str) -> int:
    """Return the position where a quoted text or a comment begins that does not end, or -1.

    Examples
    --------
    >>> opened("-- don't"), opened("sex = 'Fem")
    (-1, 6)
    """
    marks = ("'", '"', "/*")
    return next((mark.start() for mark in ENCLOSED.finditer(text) if mark[0] in marks), -1)


def others(arguments: Mapping[str, Any], *known: str) -> list[str]:
    """Return the names of a node's arguments that are set but not among ``known``."""
    return [name for name, value in arguments.items() if value and name not in known]


def _start(token: Any) -> int:
    return int(token.start)


def _is_name(word: str) -> bool:
    """Return whether a word before a bracket can be the name of a function."""
    return word.isidentifier() and word not in _BEFORE_BRACKETS


def split(text: str) -> list[str]:
    """Return the statements of a text with ``;`` between them; a text without any is one.

    Examples
    --------
    >>> split("SELECT ';' -- a; b")
    ["SELECT ';' -- a; b"]
    """
    try:
        tokens = _DUCKDB.tokenize(text)
    except sqlglot.errors.TokenError:
        return [text]
    ends = [i for i, token in enumerate(tokens) if token.token_type is sqlglot.TokenType.SEMICOLON]
    statements, start, first = [], 0, 0
    for i in (*ends, len(tokens)):
        end = tokens[i].start if i < len(tokens) else len(text)
        if i > first:
            statements.append(text[start:end])
        start, first = end + 1, i + 1
    return statements or [text]


class Source:
    """One text, parsed by sqlglot and never run."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise SqlError(
                f"the statement must be a string, got {given(text)}", "Pass SQL as a string."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SqlError(
                "the statement contains an incomplete character", "Type it again."
            ) from None
        self.text = text
        self.tokens: list[Any] = []
        self.slip: Slip | None = None
        self.clause = Clause()

    def refuse(self, what: str, hint: str, node: Node | None = None, word: str = "") -> NoReturn:
        """Raise a SqlError that points at ``node``, or at the first ``word``."""
        span = None if node is None else self.span(node)
        if span is None or word:
            words = {word.upper()} if word else set()
            if isinstance(node, exp.Expression):
                words |= {str(node.name).upper(), node.sql(dialect="duckdb").upper()} - {""}
            for token in self.tokens:
                if token.text.upper() in words:
                    raise self.error_at(token.start, token.end, what, hint)
        if span is None:
            raise SqlError(what, hint)
        raise self.error_at(*span, what, hint)

    def written(self, node: Node) -> str:
        """Return a node as written, without quotes around the whole."""
        span = self.span(node)
        if span is None:
            return str(node.sql(dialect="duckdb"))
        return self.text[span[0] : span[1] + 1].strip('"')

    def span(self, node: Node) -> Span | None:
        """Return the first and last character of a node, with the words and brackets around it."""
        spans: dict[int, Span] = {}
        # parts before what they are parts of
        for part in reversed([*node.walk()]):
            inside = [spans[id(one)] for one in part.iter_expressions() if id(one) in spans]
            if "start" in part.meta:
                inside.append((part.meta["start"], part.meta["end"]))
            if inside:
                whole = min(start for start, _ in inside), max(end for _, end in inside)
                spans[id(part)] = self._widened(part, whole)
        return spans.get(id(node))

    def _widened(self, node: Node, span: Span) -> Span:
        """Return the span of a node, given that of its parts: most words bear no position."""
        first, last = (bisect_right(self.tokens, at, key=_start) - 1 for at in span)
        if first < 0:
            return span
        before = self._word(first - 1)
        if isinstance(node, exp.Case):
            first, last = self._between(first, "CASE", "END") or (first, last)
        elif isinstance(node, exp.Select):
            first = self._open(first, "SELECT", "FROM") if before else first
        elif isinstance(node, exp.Not | exp.Neg) and before in ("NOT", "-"):
            first -= 1
        elif isinstance(node, exp.Interval) and before == "INTERVAL":
            first, last = first - 1, last + (node.args.get("unit") is not None)
        elif isinstance(node, exp.Cast) and self._word(last + 1) == "::":
            last = self._closed(last + 2) if self._word(last + 3) == "(" else last + 2
        elif isinstance(node, exp.Cast) and before != "(":
            first -= 1
        elif isinstance(node, exp.Func) and "start" in node.meta:
            last = self._closed(first) if self._word(first + 1) == "(" else last
        elif isinstance(node, exp.Func | exp.Paren | exp.Subquery) and node.arg_key != "ifs":
            pair = None if isinstance(node, exp.Binary) else self._between(first, "(", ")")
            named = isinstance(node, exp.Func)
            if pair is not None and (not named or _is_name(self._word(pair[0] - 1))):
                first, last = pair[0] - named, pair[1]
        end = self.tokens[min(last, len(self.tokens) - 1)].end
        return min(self.tokens[first].start, span[0]), max(end, span[1])

    def _word(self, place: int) -> str:
        """Return the word or sign of a token; "" for quoted ones and outside of the text."""
        if not 0 <= place < len(self.tokens) or self.tokens[place].token_type in _QUOTED:
            return ""
        return str(self.tokens[place].text).upper()

    def _open(self, place: int, opening: str, closing: str) -> int:
        """Return the last token before a place that opens and is not closed before it, or -1."""
        depth = 0
        for before in range(place - 1, -1, -1):
            word = self._word(before)
            depth += (word == closing) - (word == opening)
            if depth < 0:
                return before
        return -1

    def _closed(self, place: int, opening: str = "(", closing: str = ")") -> int:
        """Return the token that closes what is opened first after a place."""
        depth = 0
        for after in range(place, len(self.tokens)):
            word = self._word(after)
            depth += (word == opening) - (word == closing)
            if word == closing and depth <= 0:
                return after
        return len(self.tokens) - 1

    def _between(self, place: int, opening: str, closing: str) -> tuple[int, int] | None:
        """Return the tokens around a place that open and close, or None."""
        first = self._open(place, opening, closing)
        return None if first < 0 else (first, self._closed(first, opening, closing))

    def error_at(self, start: int, end: int, what: str, hint: str) -> SqlError:
        """Return a SqlError that points at the characters start..end, both included."""
        before = self.text[:start]
        excerpt = self.text[start : end + 1]
        for opening, closing in ("()", "[]"):
            while excerpt.count(opening) > excerpt.count(closing) and end + 1 < len(self.text):
                end += 1
                excerpt += self.text[end]
        return SqlError(
            what,
            hint,
            line=before.count("\n") + 1,
            column=start - (before.rfind("\n") + 1) + 1,
            text=excerpt if len(excerpt) <= 60 else excerpt[:57] + "...",
        )

    def tree(self) -> exp.Select | exp.SetOperation:
        """Parse the text as one SELECT, or several combined, within limits of size and depth."""
        if len(self.text) > MAX_TEXT:
            raise SqlError(
                f"the statement has more than {MAX_TEXT:,} characters", "Make it shorter."
            )
        text = in_double_quotes(self.text)
        try:
            tokens = self.tokens = list(_DUCKDB.tokenize(text))
        except sqlglot.errors.TokenError:
            start = max(opened(self.text), 0)
            comment = self.text.startswith("/*", start)
            raise self.error_at(
                start,
                len(self.text) - 1,
                f"the statement ends inside a {'comment' if comment else 'quoted text'}",
                "End it with */." if comment else "Close every quote.",
            ) from None
        self._check_spaces()
        depth = subscripts = 0
        for token in tokens:
            depth += _BRACKETS.get(token.token_type, 0)
            # parsing each subscript in a[1][1]... takes as long as all before it
            subscripts += token.token_type is sqlglot.TokenType.L_BRACKET
            if max(depth, subscripts) > MAX_DEPTH:
                raise self.error_at(
                    token.start, token.end, "the statement is nested too deeply", "Flatten it."
                )
        if len(tokens) > 2 * MAX_NODES:
            raise SqlError(f"the statement has more than {MAX_NODES:,} parts", "Make it shorter.")
        if not tokens:
            raise SqlError("there is no statement", "Write SELECT ... FROM a table.")
        if tokens[0].text.upper() not in ("SELECT", "WITH"):
            other = refusal(tokens[0].text.upper())
            if other is not None:
                raise self.error_at(tokens[0].start, tokens[0].end, *other)
            guess = closest(tokens[0].text.upper(), ["SELECT"], alike=ALIKE)
            raise self.error_at(
                tokens[0].start, tokens[0].end, "only SELECT is supported",
                f"Did you mean {guess}?" if guess else "Write SELECT ... FROM a table.",
            )  # fmt: skip
        if ours := spelled(self, tokens):
            text, tokens, self.clause = ours.text, ours.tokens, ours.clause
        text, tokens = without_top(self, text, tokens)
        self.slip = slip(text, tokens)
        try:
            statements = _DUCKDB.parser().parse(tokens, text)
        except sqlglot.errors.ParseError as error:
            self.check()
            raise self._malformed((error.errors or [{}])[0]) from None
        except sqlglot.errors.TokenError:
            # sqlglot tokenizes the name of a type again, as if it were a statement
            self.check()
            raise self._malformed({}) from None
        # sqlglot makes a comment after the closing semicolon a statement of its own
        statements = [s for s in statements if s is not None and not isinstance(s, exp.Semicolon)]
        if len(statements) > 1:
            self.refuse("only one statement is allowed", "Put each in its own cell.", statements[1])
        tree = statements[0]
        if not isinstance(tree, exp.Select | exp.SetOperation):
            self.refuse("only SELECT is supported", "Write SELECT ... FROM a table.", tree)
        if sum(1 for _ in tree.walk()) > MAX_NODES:
            raise SqlError(f"the statement has more than {MAX_NODES:,} parts", "Make it shorter.")
        return tree

    def check(self) -> None:
        """Refuse a text that DuckDB's parser rejects although sqlglot built a tree."""
        if self.slip is None:
            return
        what, hint = "this is not valid SQL", self.slip.hint
        if self.slip.start < 0:
            raise SqlError(what, hint)
        raise self.error_at(self.slip.start, self.slip.end, what, hint)

    def _check_spaces(self) -> None:
        """Refuse characters outside quotes that sqlglot, but not DuckDB, reads as spaces."""
        start = 0
        quoted = [token for token in self.tokens if token.token_type in _QUOTED]
        for end, after in [
            *((token.start, token.end + 1) for token in quoted),
            (len(self.text), 0),
        ]:
            match = _NO_SPACE.search(self.text, start, end)
            if match:
                place = match.start()
                raise self.error_at(
                    place,
                    place,
                    f"U+{ord(match[0]):04X} looks like a space, but SQL reads it as a letter",
                    "Type a space instead.",
                )
            start = after

    def _malformed(self, details: dict[str, Any]) -> SqlError:
        line, end = int(details.get("line") or 0), int(details.get("col") or 0)
        excerpt = str(details.get("highlight") or "")[:60]
        return SqlError(
            "this is not valid SQL",
            SHAPE,
            line=line,
            column=max(1, end - len(excerpt) + 1),
            text=excerpt,
        )


def placed(node: Node, written: Node) -> Node:
    """Give a node, with all its parts, the place of what the user wrote, for error messages."""
    spans = [part.meta for part in written.walk() if "start" in part.meta]
    if spans:
        start, end = min(span["start"] for span in spans), max(span["end"] for span in spans)
        for part in node.walk():
            part.meta.update(start=start, end=end)
    return node


def bare(node: Node) -> Node:
    """Remove the brackets around a node."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
