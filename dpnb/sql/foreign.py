"""Privacy clauses of other systems: ours where they mean the same, refused by name where not.

``SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(...)``, the aggregates ``ANON_SUM(x)`` and ``DP_SUM(x)``,
and the bounds of an aggregate: ``contribution_bounds_per_row => (0, 10)`` and ``CLAMPED BETWEEN 0
AND 10``. No parser that is used here knows them. So they are taken from the tokens before a text is
parsed; blanks of the same length take their place, and every position stays what it is.

A bound goes on as a function of the argument: ``SUM(x, contribution_bounds_per_row => (0, 10))`` is
parsed as ``SUM(contribution_bounds_per_row(x, 0, 10))``, which ``dpnb.sql.contributions`` reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import Token, TokenType

from dpnb.errors import SqlError, nearest

if TYPE_CHECKING:
    from dpnb.sql.source import Source

PER_ROW, PER_GROUP, CLAMPED = (
    "contribution_bounds_per_row", "contribution_bounds_per_group", "CLAMPED",
)  # fmt: skip
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
_COMBINING = ("UNION", "INTERSECT", "EXCEPT")
_PREFIXES = ("ANON_", "DP_")
_AGGREGATES = {
    "COUNT": "COUNT", "SUM": "SUM", "AVG": "AVG", "VAR_POP": "VAR_POP", "STDDEV_POP": "STDDEV_POP",
    "PERCENTILE_CONT": "PERCENTILE_CONT", "QUANTILES": "APPROX_QUANTILES",
}  # fmt: skip
"""What follows the prefix, and the aggregate that it stands for."""
_ALONE = ("COUNT", "SUM", "AVG", "VAR_POP", "STDDEV_POP")
"""Aggregates of one argument."""
_OTHERS = {
    "VAR": "VAR_POP(x)", "STDDEV": "STDDEV_POP(x)", "NTILE": "QUANTILE(x, 0.9)",
    "VAR_WITH_BOUNDS": "VAR_POP(x, contribution_bounds_per_row => (0, 10))",
    "STDDEV_WITH_BOUNDS": "STDDEV_POP(x, contribution_bounds_per_row => (0, 10))",
    "SUM_WITH_BOUNDS": "SUM(x, contribution_bounds_per_row => (0, 10))",
    "AVG_WITH_BOUNDS": "AVG(x, contribution_bounds_per_row => (0, 10))",
}  # fmt: skip
"""Aggregates with a prefix that leave open what they mean, and what to write instead."""
_OWN = ("INTERVAL_LOW", "INTERVAL_HIGH")
"""What follows the prefix in functions of ours."""
_SELECTION = "All declared groups are shown: leave it out, or choose by HAVING."
_REFUSED = {
    "GROUP_SELECTION_STRATEGY": "All declared groups are shown: write PUBLIC_GROUPS, or leave it out.",
    "MIN_PRIVACY_UNITS_PER_GROUP": _SELECTION,
    "GROUP_SELECTION_THRESHOLD": _SELECTION,
    "THRESHOLD": _SELECTION,
    "PRIVACY_UNIT": "Write privacy_unit_column, or leave it out.",
}
_OPTIONS = (
    "EPSILON", "DELTA", "PRIVACY_UNIT_COLUMN", "MAX_GROUPS_CONTRIBUTED", "KAPPA",
    "MAX_ROWS_CONTRIBUTED", "GROUP_SELECTION_STRATEGY",
)  # fmt: skip
_OPTIONS_SHAPE = "Write OPTIONS(epsilon = 1, privacy_unit_column = id)."
_BOUNDS_SHAPE = "Write SUM(x, contribution_bounds_per_row => (0, 10))."


@dataclass(frozen=True, slots=True)
class Option:
    """One option as written: its name, its value, and where both stand."""

    name: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Clause:
    """The privacy clause of a statement, and whether it has aggregates of other systems."""

    word: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    aggregates: bool = False


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text without what is foreign in it, as long as before, and its tokens."""

    text: str
    tokens: list[Any]
    clause: Clause


def spelled(source: Source, tokens: Sequence[Any]) -> Spelled | None:
    """Return a text in our spelling; None if nothing in it is foreign.

    Raises
    ------
    SqlError
        For what has no meaning here.
    """
    pairs = pairwise(token.text.upper() for token in tokens)
    if any(map(_is_foreign, tokens)) or ("SELECT", "WITH") in pairs:
        return _Reader(source, tokens).read()
    return None


def _is_foreign(token: Any) -> bool:
    if token.token_type in _QUOTED:
        return False
    word = token.text.upper()
    return token.token_type is TokenType.FARROW or word in (*_CLAUSES, CLAMPED) or (
        word.startswith(_PREFIXES)
    )  # fmt: skip


def _token(kind: Any, text: str, at: Any) -> Any:
    """Return a token with the position of another one."""
    return Token(kind, text, at.line, at.col, at.start, at.end, [])


@dataclass(slots=True)
class _Call:
    """An open bracket: its position among the tokens that stay, and that of the first comma.

    ``name`` is that of a foreign aggregate of one argument, whose brackets these are.
    """

    place: int
    name: Any = None
    comma: int | None = None
    bounded: bool = False


class _Reader:
    """Reader of the tokens of one text."""

    def __init__(self, source: Source, tokens: Sequence[Any]) -> None:
        self.source = source
        self.tokens = list(tokens)
        self.letters = list(source.text)
        self.next = 0
        self.aggregate: Any = None

    def refuse(self, what: str, hint: str, first: Any, last: Any = None) -> SqlError:
        """Return the error for the tokens from ``first`` to ``last``."""
        return self.source.error_at(first.start, (last or first).end, what, hint)

    def word(self, ahead: int = 0) -> str:
        """Return the next token's text in capitals; '' for quoted ones and at the end."""
        place = self.next + ahead
        if not 0 <= place < len(self.tokens) or self.tokens[place].token_type in _QUOTED:
            return ""
        return str(self.tokens[place].text.upper())

    def take(self) -> Any:
        """Return the next token, and go on; the last one again at the end."""
        self.next += 1
        return self.tokens[min(self.next, len(self.tokens)) - 1]

    def blank(self, first: Any, last: Any) -> None:
        """Put blanks in place of the tokens from ``first`` to ``last``."""
        for place in range(first.start, last.end + 1):
            if self.letters[place] != "\n":
                self.letters[place] = " "

    def read(self) -> Spelled:
        kept: list[Any] = []
        calls: list[_Call] = []
        clause, aggregates, select = Clause(), False, False
        while self.next < len(self.tokens):
            word = self.word()
            if word == "WITH" and select and self.word(1):
                clause = self.clause(clause, depth=len(calls))
                select = False
                continue
            select = word == "SELECT"
            if clause.word and word in _COMBINING and not calls:
                raise self.refuse(
                    f"WITH {clause.word} is for one SELECT, and {word} combines several",
                    "Leave the clause out, and give epsilon=1.", self.tokens[self.next],
                )  # fmt: skip
            if word.startswith(_PREFIXES) and self.word(1) == "(":
                aggregates |= self.prefixed(kept)
                continue
            if self.word(1) == "=>" and calls:
                self.named(kept, calls[-1])
                continue
            if word == CLAMPED and self.word(1) == "BETWEEN" and calls:
                self.clamped(kept, calls[-1])
                continue
            token = self.take()
            if word == "(":
                alone = kept[-1:] == [self.aggregate] and kept[-1].text in _ALONE
                calls.append(_Call(len(kept), self.aggregate if alone else None))
            elif word == ")" and calls:
                calls.pop()
            elif word == "," and calls:
                if calls[-1].name is not None and self.word(1) != "=>":
                    raise self.refuse(
                        "this takes one argument, and bounds have a name",
                        f"{_BOUNDS_SHAPE} The privacy cost is epsilon=1.", calls[-1].name, token,
                    )  # fmt: skip
                if calls[-1].comma is None:
                    calls[-1].comma = len(kept)
            kept.append(token)
        aggregates = aggregates or bool(clause.word)
        return Spelled("".join(self.letters), kept, Clause(clause.word, clause.options, aggregates))

    # SELECT WITH ... OPTIONS(...)

    def clause(self, before: Clause, depth: int) -> Clause:
        """Read a clause; only one is allowed, behind the SELECT of the statement itself."""
        first = self.take()
        name = self.take()
        word = name.text.upper()
        if word not in _CLAUSES:
            raise self.refuse(
                f"SELECT WITH {name.text} is not supported",
                "Leave it out, or write WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1).",
                first, name,
            )  # fmt: skip
        if depth or before.word:
            raise self.refuse(
                f"WITH {word} stands behind the first SELECT alone",
                "Move it there, or leave it out.", first, name,
            )  # fmt: skip
        last, options = name, {}
        if self.word() == "OPTIONS" and self.word(1) == "(":
            self.take()
            self.take()
            while self.word() != ")":
                option = self.option()
                if option.name in options:
                    raise self.source.error_at(
                        option.start, option.end, f"{option.name.lower()} is given twice", "Give it once."
                    )  # fmt: skip
                options[option.name] = option
                if self.word() == ",":
                    self.take()
                elif self.word() != ")":
                    raise self.refuse("OPTIONS is not complete", _OPTIONS_SHAPE, self.take())
            last = self.take()
        self.blank(first, last)
        return Clause(word, options)

    def option(self) -> Option:
        """Read ``name = value``."""
        name = self.take()
        if self.word() != "=":
            raise self.refuse("OPTIONS takes names and values", _OPTIONS_SHAPE, name)
        self.take()
        values = []
        while self.word() not in (",", ")") and self.next < len(self.tokens):
            values.append(self.take())
        word = name.text.upper()
        if not values:
            raise self.refuse(f"{name.text} has no value", _OPTIONS_SHAPE, name)
        first, last = name, values[-1]
        strategy = word == "GROUP_SELECTION_STRATEGY" and values[0].text.upper() == "PUBLIC_GROUPS"
        if word in _REFUSED and not strategy:
            raise self.refuse(
                f"the option {name.text} is not supported", _REFUSED[word], first, last
            )
        if word not in _OPTIONS:
            known = [option.lower() for option in _OPTIONS]
            hint = nearest(name.text.lower(), known).replace("Declared", "Options")
            raise self.refuse(f"unknown option {name.text!r}", hint, first, last)
        value = self.source.text[values[0].start : last.end + 1]
        return Option(word, value, name.start, last.end)

    # ANON_SUM(x), and bounds

    def prefixed(self, kept: list[Any]) -> bool:
        """Take an aggregate's prefix away; return whether it was foreign."""
        name = self.take()
        prefix, _, word = name.text.upper().partition("_")
        if word in _OWN:
            kept.append(name)
            return False
        if word not in _AGGREGATES:
            instead = _OTHERS.get(word)
            hint = (
                f"Write {instead}." if instead else "Write COUNT(*), SUM(x), AVG(x) or VAR_POP(x)."
            )
            raise self.refuse(f"{name.text} is not supported", hint, name)
        start = name.start
        self.letters[start : start + len(prefix) + 1] = " " * (len(prefix) + 1)
        self.aggregate = _token(name.token_type, _AGGREGATES[word], name)
        kept.append(self.aggregate)
        return True

    def named(self, kept: list[Any], call: _Call) -> None:
        """Read ``name => (low, high)``, a further argument of an aggregate."""
        name = self.take()
        self.take()
        word = name.text.lower()
        if word not in (PER_ROW, PER_GROUP):
            raise self.refuse(f"an aggregate has no option {name.text!r}", "Leave it out.", name)
        if call.comma is None or kept[-1].text != ",":
            raise self.refuse(f"{word} follows the argument of an aggregate", _BOUNDS_SHAPE, name)
        if self.word() != "(":
            raise self.refuse(f"{word} takes two numbers", _BOUNDS_SHAPE, name)
        self.take()
        low = self.number()
        if self.word() != ",":
            raise self.refuse(f"{word} takes two numbers", _BOUNDS_SHAPE, name)
        self.take()
        high = self.number()
        if self.word() != ")":
            raise self.refuse(f"{word} takes two numbers", _BOUNDS_SHAPE, name)
        last = self.take()
        comma = kept.pop()
        if call.comma == len(kept):
            call.comma = None
        self.blank(comma, last)
        self.wrap(kept, call, _token(TokenType.VAR, word, name), low, high)

    def clamped(self, kept: list[Any], call: _Call) -> None:
        """Read ``CLAMPED BETWEEN low AND high`` behind the arguments of an aggregate."""
        name = self.take()
        self.take()
        low = self.number()
        if self.word() != "AND":
            raise self.refuse("CLAMPED BETWEEN takes two numbers", _BOUNDS_SHAPE, name)
        self.take()
        high = self.number()
        if self.word() != ")":
            raise self.refuse("CLAMPED BETWEEN takes two numbers", _BOUNDS_SHAPE, name)
        self.blank(name, self.tokens[self.next - 1])
        self.wrap(kept, call, _token(TokenType.VAR, CLAMPED, name), low, high)

    def number(self) -> list[Any]:
        """Read a number with or without a sign, as written."""
        taken = []
        while self.word() in ("-", "+", ".") or (
            self.next < len(self.tokens) and self.tokens[self.next].token_type is TokenType.NUMBER
        ):
            taken.append(self.take())
            if taken[-1].token_type is TokenType.NUMBER:
                return [token for token in taken if token.text != "+"]
        raise self.refuse("the bounds of an aggregate are two numbers", _BOUNDS_SHAPE, self.take())

    def wrap(
        self, kept: list[Any], call: _Call, name: Any, low: list[Any], high: list[Any]
    ) -> None:
        """Make a bound a function of the first argument of a call."""
        if call.bounded:
            raise self.refuse("an aggregate has bounds twice", "Give them once.", name)
        call.bounded = True
        opened, end = call.place + 1, call.comma or len(kept)
        if kept[opened : opened + 1] and kept[opened].text.upper() == "DISTINCT":
            raise self.refuse("COUNT(DISTINCT) takes no bounds", "Leave them out.", name)
        comma = _token(TokenType.COMMA, ",", name)
        argument = [
            name,
            _token(TokenType.L_PAREN, "(", name),
            *kept[opened:end],
            comma,
            *low,
            comma,
            *high,
        ]
        kept[opened:end] = [*argument, _token(TokenType.R_PAREN, ")", name)]
        if call.comma is not None:
            call.comma += len(argument) + 1 - (end - opened)
