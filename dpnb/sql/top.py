"""``SELECT TOP n``, ``LIMIT a, b`` and ``FROM (t)``, which DuckDB's parser does not know, and NULLS LAST.

They are taken from the tokens before a text is parsed: TOP becomes LIMIT at the end of its SELECT,
a pair of numbers LIMIT and OFFSET, and brackets around a table and the default order of missing
values go. Blanks take their place in the text, so positions stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import Token, TokenType

if TYPE_CHECKING:
    from dpnb.sql.source import Source

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_ENDS = ("UNION", "INTERSECT", "EXCEPT", ";")
_SEVERAL = "Write TOP n or LIMIT n, not both."


def without_top(source: Source, text: str, tokens: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return a text and its tokens without TOP, pairs of LIMIT, NULLS LAST and brackets around tables.

    Raises
    ------
    SqlError
        For TOP with LIMIT, WITH TIES or PERCENT, and for NULLS FIRST.
    """
    words = [*map(_word, tokens)]
    pairs = {*pairwise(words)}
    if not {"TOP", "LIMIT", "NULLS"} & {*words} and not {("FROM", "("), ("JOIN", "(")} & pairs:
        return text, list(tokens)
    gone = _bracketed(tokens, words) | _last(source, tokens, words)
    offsets = _offsets(tokens, words)
    gone |= {place for first in offsets for place in (first, first + 1)}
    kept: list[Any] = []
    tops: list[Any] = [None]
    for place, token in enumerate(tokens):
        if words[place] == "TOP" and _select(words, place) and place not in gone:
            number = _number(tokens, words, place)
            if number is not None:
                tops[-1] = tokens[number]
                last = number + (words[number - 1] == "(")
                gone |= set(range(place, last + 1))
                if words[last + 1 : last + 2] == ["PERCENT"] or words[last + 1 : last + 3] == [
                    "WITH",
                    "TIES",
                ]:
                    raise source.error_at(
                        token.start, tokens[last + 1].end, "TOP takes a whole number", "Write LIMIT 10."
                    )  # fmt: skip
        if place in gone:
            continue
        if place - 2 in offsets:
            number = tokens[place - 2]
            kept += [token, _token(TokenType.OFFSET, number), number]
            continue
        if tops[-1] is not None and words[place] in ("LIMIT", "FETCH"):
            raise source.error_at(token.start, token.end, "this SELECT has TOP and LIMIT", _SEVERAL)
        if words[place] in (*_ENDS, ")"):
            kept += _limit(tops)
        if words[place] == "(":
            tops.append(None)
        elif words[place] == ")" and len(tops) > 1:
            tops.pop()
        kept.append(token)
    kept += _limit(tops)
    letters = list(text)
    for place in gone:
        for letter in range(tokens[place].start, tokens[place].end + 1):
            letters[letter] = " "
    return "".join(letters), kept


def _word(token: Any) -> str:
    """Return a token's text in capitals; "" for quoted ones."""
    return "" if token.token_type in _QUOTED else str(token.text).upper()


def _select(words: Sequence[str], place: int) -> bool:
    """Return whether a place follows SELECT."""
    before = place - 1 - (words[place - 1] in ("ALL", "DISTINCT"))
    return before >= 0 and words[before] == "SELECT"


def _number(tokens: Sequence[Any], words: Sequence[str], place: int) -> int | None:
    """Return the place of the number of TOP, with or without brackets; None for another meaning."""
    kinds = [token.token_type for token in tokens[place + 1 : place + 4]]
    if kinds[:1] == [TokenType.NUMBER]:
        return place + 1
    if kinds == [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]:
        following = tokens[place + 4].token_type if place + 4 < len(tokens) else None
        listed = following in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STAR)
        return place + 2 if listed else None
    return None


def _limit(tops: list[Any]) -> list[Any]:
    """Return LIMIT for the TOP of the innermost SELECT, which ends here."""
    number, tops[-1] = tops[-1], None
    if number is None:
        return []
    return [_token(TokenType.LIMIT, number), number]


def _token(kind: Any, place: Any) -> Any:
    """Return the word of a kind at the place of another token."""
    return Token(kind, kind.name, place.line, place.col, place.start, place.end, [])


def _offsets(tokens: Sequence[Any], words: Sequence[str]) -> set[int]:
    """Return the places of the numbers a of ``LIMIT a, b``."""
    kinds = [token.token_type for token in tokens]
    pair = [TokenType.NUMBER, TokenType.COMMA, TokenType.NUMBER]
    return {
        place + 1
        for place, word in enumerate(words)
        if word == "LIMIT"
        and kinds[place + 1 : place + 4] == pair
        and _select_ends(words, place + 4)
    }


def _select_ends(words: Sequence[str], place: int) -> bool:
    return words[place : place + 1] in ([], *([end] for end in (*_ENDS, ")")))


def _last(source: Source, tokens: Sequence[Any], words: Sequence[str]) -> set[int]:
    """Return the places of NULLS LAST, which is the default."""
    gone: set[int] = set()
    for place, pair in enumerate(pairwise(words)):
        if pair == ("NULLS", "FIRST"):
            raise source.error_at(
                tokens[place].start, tokens[place + 1].end, "NULLS FIRST is not supported",
                "Leave it out: missing values come last.",
            )  # fmt: skip
        if pair == ("NULLS", "LAST"):
            gone |= {place, place + 1}
    return gone


def _bracketed(tokens: Sequence[Any], words: Sequence[str]) -> set[int]:
    """Return the places of brackets around one table, with its alias perhaps."""
    found: set[int] = set()
    for place in range(1, len(tokens)):
        if words[place] != "(" or words[place - 1] not in ("FROM", "JOIN"):
            continue
        first = place
        while words[first : first + 1] == ["("]:
            first += 1
        last = next((i for i in range(first, len(tokens)) if words[i] == ")"), len(tokens))
        names = [token.token_type for token in tokens[first:last]]
        if len(names) == 3 and words[first + 1] == "AS":
            del names[1]
        depth = first - place
        if (
            1 <= len(names) <= 2
            and all(kind in (TokenType.VAR, TokenType.IDENTIFIER) for kind in names)
            and [*words[last : last + depth]] == [")"] * depth
        ):
            found |= {*range(place, first), *range(last, last + depth)}
    return found
