"""How a text is read, by itself: the public rule that no other row of a table can change.

Readers such as ``pandas.read_csv`` decide by all values of a column whether its texts are numbers:
one missing value turns 7001 into 7001.0, and one word leaves '07001' a text. So texts are compared
by what they would be read as: ``07001``, `` 7001`` and 7001.0 are one value, as are ``true`` and
True. The patterns are those of ``pandas.read_csv``. They mean the same to Python, DuckDB, Spark and
PostgreSQL.
"""

from __future__ import annotations

import re

_BLANKS = "[\t\n\v\f\r ]*"
NUMBER = rf"{_BLANKS}[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?{_BLANKS}"
"""A finite number; one that is too large for a double is infinite."""
INFINITE = "[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
# letter by letter: ignoring case would let other alphabets in
TRUE, FALSE = "[tT][rR][uU][eE]", "[fF][aA][lL][sS][eE]"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_CLOCK = "(?:[01]?[0-9]|2[0-3]):[0-5][0-9]"
TIME = (
    f"{_BLANKS}({_YEAR}-[0-9]{{1,2}}-[0-9]{{1,2}})"
    f"(?:(?:T| +)({_CLOCK}(?::[0-5][0-9])?)(?:[.][0-9]*)?"
    f" ?([zZ]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?{_BLANKS}"
)
"""A time: its day, what the clock shows in whole seconds, and how far that is from UTC."""
LARGEST_SHOWN = 2.0**63
"""Whole numbers below this size are written without exponent."""

_number, _infinite, _true, _false = map(re.compile, (NUMBER, INFINITE, TRUE, FALSE))
_FIRST = frozenset("\t\n\v\f\r +-.0123456789iItTfF")
"""What a text that is read as something else begins with."""


def number(text: str) -> float | None:
    """Return the number that a text is read as, the nearest double; None if it is not one.

    Examples
    --------
    >>> number("07001"), number(" 1.50"), number("-inf"), number("1_000"), number("nan")
    (7001.0, 1.5, -inf, None, None)
    """
    return float(text) if _number.fullmatch(text) or _infinite.fullmatch(text) else None


def truth(text: str) -> bool | None:
    """Return the truth that a text is read as; None if it is not one.

    Examples
    --------
    >>> truth("TRUE"), truth("false"), truth("1")
    (True, False, None)
    """
    return True if _true.fullmatch(text) else False if _false.fullmatch(text) else None


def is_word(text: str) -> bool:
    """Return whether a text is read as itself alone: it is neither a number nor a truth."""
    return text[:1] not in _FIRST or (number(text) is None and truth(text) is None)


def canonical(text: str) -> str:
    """Return the text by which categories are compared.

    Examples
    --------
    >>> [canonical(text) for text in ("07001", "7001.0", "1.50", "true", "NA", " a")]
    ['7001', '7001', '1.5', 'True', 'NA', ' a']
    """
    if text[:1] not in _FIRST:
        return text
    found = number(text)
    if found is not None:
        is_whole = found.is_integer() and abs(found) < LARGEST_SHOWN
        return str(int(found)) if is_whole else repr(found)
    read = truth(text)
    return text if read is None else str(read)
