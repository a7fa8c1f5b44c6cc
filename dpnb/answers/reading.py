"""Reads a comparison written as text, such as ``share: 0.5*'a' + 0.5*'b' > 'c' + 100``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from dpnb.answers.comparison import MAX_DIGITS, Comparison, Group
from dpnb.errors import RequestError
from dpnb.schema.partition import Label

MAX_TEXT = 2_000
MAX_DEPTH = 20
MAX_WORKING = 10 ** (10 * MAX_DIGITS)
SHAPE = "Write 'a' > 'b', or 0.5*'a' + 0.5*'b' > 'c' + 100."

_PLAIN = re.compile(r"\s*([^\W\d][^<>='\"*/+(),:]*?)\s*([<>]=?)\s*([^\W\d][^<>='\"*/+(),:]*?)\s*")
"""Two names without quotes, which may hold hyphens and blanks, and the sign between them."""
_MEANT = {**dict.fromkeys("‘’‚‛“”„‟´`", "'"), **dict.fromkeys("−–", "-"), "×": "*", "·": "*"}
"""Signs that word processors write, each with the one that is meant."""
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<quoted>'[^']*(?:''[^']*)*' | "[^"]*(?:""[^"]*)*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>[<>=!]+)
    | (?P<mark>[-+*/(),:])""",
    re.VERBOSE,
)


def read(text: str) -> Comparison:
    """Read a comparison such as ``share: 0.5*'a' + 0.5*'b' > 'c' + 100``.

    Parameters
    ----------
    text : str
        At most 2,000 characters. Groups stand in quotes; where there are several group columns, as
        ``('Male', 'HS-grad')``. ``<`` reverses the comparison; ``>=`` and ``<=`` mean the same as
        ``>`` and ``<``. An aggregate's alias may stand in front, with a colon.

    Returns
    -------
    Comparison

    Raises
    ------
    RequestError
        With the place in the text.
    """
    if not isinstance(text, str):
        raise RequestError(f"a comparison must be text, got {type(text).__name__}", SHAPE)
    if len(text) > MAX_TEXT:
        raise RequestError(
            f"the comparison has {len(text):,} characters, more than {MAX_TEXT:,}",
            "Pass the weights as a mapping: answer.compare({'a': 0.5, 'b': 0.5}, 'c').",
        )
    return _Reader(text).comparison()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class _Sum:
    """Groups with their weights, plus a number."""

    groups: dict[Group, Fraction]
    number: Fraction

    def plus(self, other: _Sum, sign: int) -> _Sum:
        # a group is read once only, so no key is in both
        groups = self.groups | {group: sign * weight for group, weight in other.groups.items()}
        return _Sum(groups, self.number + sign * other.number)

    def times(self, factor: Fraction) -> _Sum:
        return _Sum({g: w * factor for g, w in self.groups.items()}, self.number * factor)


class _Reader:
    """A recursive-descent parser over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = []
        self.at = 0
        self.seen: set[tuple[str, ...]] = set()
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                self._stray(place)
            if match.lastgroup != "space":
                self.tokens.append(_Token(str(match.lastgroup), match[0], place))
            place = match.end()
        self.end = _Token("end", "", len(text))

    def _stray(self, place: int) -> NoReturn:
        token = _Token("stray", self.text[place:], place)
        if token.text[0] in "'\"":
            raise self._error("this quote is not closed", "Close every quote.", token)
        meant = _MEANT.get(token.text[0])
        if meant is not None:
            sign = _Token("", token.text[0], place)
            raise self._error(
                f"{sign.text} is not a sign of a comparison", f"Type {meant} instead.", sign
            )
        raise self._error(
            "this character is not expected here", SHAPE, _Token("", token.text[0], place)
        )

    def _error(self, what: str, hint: str, token: _Token) -> RequestError:
        before = self.text[: token.start]
        line, column = before.count("\n") + 1, token.start - (before.rfind("\n") + 1) + 1
        excerpt = token.text if len(token.text) <= 60 else token.text[:57] + "..."
        where = f"line {line}, column {column}: {excerpt!r}" if excerpt else "at the end"
        return RequestError(what, hint, where)

    def _peek(self, ahead: int = 0) -> _Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else self.end

    def _take(self, *texts: str) -> _Token | None:
        """Consume and return the next mark if it is one of ``texts``."""
        token = self._peek()
        if token.kind == "mark" and token.text in texts:
            self.at += 1
            return token
        return None

    def comparison(self) -> Comparison:
        aggregate = self._aggregate()
        left = self._sum(0)
        sign = self._sign()
        right = self._sum(0)
        self._nothing_follows()
        if sign.text[0] == "<":
            left, right = right, left
        difference = left.plus(right, -1)
        weights = [(group, weight) for group, weight in difference.groups.items() if weight]
        if not weights:
            raise RequestError("the comparison names no group", f"Put groups in quotes. {SHAPE}")
        # weights above 0 first
        weights.sort(key=lambda pair: pair[1] < 0)
        return Comparison(tuple(weights), -difference.number, aggregate)

    def _aggregate(self) -> str | None:
        name, colon = self._peek(), self._peek(1)
        if name.kind not in ("word", "quoted") or (colon.kind, colon.text) != ("mark", ":"):
            return None
        self.at += 2
        return _unquoted(name.text) if name.kind == "quoted" else name.text

    def _sign(self) -> _Token:
        token = self._peek()
        if token.kind != "sign":
            self._unexpected(token)
        if token.text not in (">", "<", ">=", "<="):
            raise self._error(f"a comparison uses > or <, not {token.text}", SHAPE, token)
        self.at += 1
        return token

    def _nothing_follows(self) -> None:
        token = self._peek()
        if token.kind == "sign":
            raise self._error("a comparison has only one > or <", "Ask each on its own.", token)
        if token.kind == "word" and token.text.upper() in ("AND", "OR"):
            raise self._error(
                f"{token.text.upper()} is not allowed in a comparison",
                "Ask each on its own.",
                token,
            )
        if token.kind != "end":
            self._unexpected(token)

    def _unexpected(self, token: _Token) -> NoReturn:
        if token.kind == "end":
            raise self._error("the comparison is incomplete", SHAPE, token)
        if token.kind == "word":
            raise self._error(
                "a group in quotes or a number is expected here",
                f"Put groups in quotes: {self._with_quotes(token)}.", token,
            )  # fmt: skip
        if token.kind in ("quoted", "number") or token.text == "(":
            raise self._error("an operator is missing before this", "Write 0.5*'a' + 'b'.", token)
        raise self._error("this is not expected here", SHAPE, token)

    def _with_quotes(self, token: _Token) -> str:
        """Return two plain names compared, with quotes around them, or the word alone in quotes."""
        match = _PLAIN.fullmatch(self.text)
        if match is None:
            return f"'{token.text[:40]}'"
        left, sign, right = (
            part if len(part) <= 60 else f"{part[:57]}..." for part in match.groups()
        )
        return f"'{left}' {sign} '{right}'"

    def _sum(self, depth: int) -> _Sum:
        total = self._term(depth)
        while mark := self._take("+", "-"):
            total = total.plus(self._term(depth), 1 if mark.text == "+" else -1)
        return total

    def _term(self, depth: int) -> _Sum:
        product = self._factor(depth)
        while mark := self._take("*", "/"):
            other = self._factor(depth)
            if mark.text == "/":
                if other.groups:
                    raise self._error(
                        "dividing by a group is not allowed",
                        "Compare weighted sums of groups.",
                        mark,
                    )
                if not other.number:
                    raise self._error("this divides by 0", "Divide by another number.", mark)
                other = _Sum({}, 1 / other.number)
            if product.groups and other.groups:
                raise self._error(
                    "groups cannot be multiplied with each other",
                    "Multiply each group by a number.",
                    mark,
                )
            product = product.times(other.number) if product.groups else other.times(product.number)
            self._check_size(product, mark)
        return product

    def _check_size(self, product: _Sum, token: _Token) -> None:
        for value in (product.number, *product.groups.values()):
            if abs(value.numerator) > MAX_WORKING or value.denominator > MAX_WORKING:
                raise self._error("these numbers have too many digits", "Round them.", token)

    def _factor(self, depth: int) -> _Sum:
        sign = 1
        while mark := self._take("+", "-"):
            sign = -sign if mark.text == "-" else sign
        token = self._peek()
        if token.kind == "number":
            self.at += 1
            return _Sum({}, sign * Fraction(token.text))
        if token.kind == "quoted":
            self.at += 1
            return self._group((_unquoted(token.text),), token).times(Fraction(sign))
        bracket = self._take("(")
        if bracket is None:
            self._unexpected_operand(token)
        if depth >= MAX_DEPTH:
            raise self._error("too many brackets are nested here", "Use fewer brackets.", bracket)
        labels = self._labels()
        if labels is not None:
            return self._group(labels, bracket).times(Fraction(sign))
        inside = self._sum(depth + 1)
        if self._take(")") is None:
            raise self._error("this bracket is not closed", "Close every bracket.", bracket)
        return inside.times(Fraction(sign))

    def _unexpected_operand(self, token: _Token) -> NoReturn:
        if token.kind in ("sign", "mark"):
            raise self._error("a group or a number is missing here", SHAPE, token)
        self._unexpected(token)

    def _labels(self) -> Group | None:
        """Return the labels of a group of several columns; None if the brackets hold a sum."""
        start, labels = self.at, []
        while (label := self._label()) is not None:
            labels.append(label)
            if self._take(","):
                if self._take(")"):
                    return tuple(labels)
                continue
            if len(labels) > 1 and self._take(")"):
                return tuple(labels)
            break
        if labels and (len(labels) > 1 or self._peek(-1).text == ","):
            raise self._error(
                "a group of several columns is a list of labels",
                "Write ('Male', 'HS-grad').", self._peek(),
            )  # fmt: skip
        self.at = start
        return None

    def _label(self) -> Label | None:
        negative = self._peek().kind == "mark" and self._peek().text == "-"
        token = self._peek(1 if negative else 0)
        if token.kind == "quoted" and not negative:
            self.at += 1
            return _unquoted(token.text)
        if token.kind == "number" and token.text.isdigit():
            self.at += 2 if negative else 1
            return -int(token.text) if negative else int(token.text)
        return None

    def _group(self, labels: Group, token: _Token) -> _Sum:
        name = tuple(map(str, labels))
        if name in self.seen:
            raise self._error(
                "this group is named twice", "Name it once, with its total weight: 2*'a'.", token
            )
        self.seen.add(name)
        return _Sum({labels: Fraction(1)}, Fraction(0))


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(2 * quote, quote)
