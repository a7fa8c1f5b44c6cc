"""One id per person: the public rule by which an id is read, in SQL and for objects of a data frame.

A person whose id is spelled in k ways would be k privacy units, and what an answer reveals of them
would grow with the square of k. So ids are compared by what they say, by one rule for every source:

- Blanks at both ends do not count: spaces, tabs, ends of lines, no-break spaces, byte order marks.
- Nothing, NaN, and the texts that ``pandas.read_csv`` takes for missing are no id.
- A text of sign, digits, point, digits and exponent is a number: ``07``, ``+7.00``, ``7.`` and
  ``.7e1`` are one whole number, exact at any length. A number that is not whole or is infinite is
  no id. An exponent of more than 18 digits is no number, so the text stays as it is.
- 32 hexadecimal digits with dashes between groups of four, in braces, or both, are a UUID.
- Every other text is compared as it is, letter by letter.

``Unit(kind="text")`` leaves out numbers and UUIDs, for texts. The rule is on the text, never by an
engine's cast, which would read '7.5' as 8 or '0x1F' as 31.

In memory an id is a BIGINT where the source's type holds whole numbers of 64 bits, else the text
of what it says. A number is written with its digits; one that ends in more than 400 zeros as its
other digits, ``e`` and the number of zeros. So ``1e999999999`` takes no space.
"""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

from dpnb.schema.reading import FALSE, INFINITE, NUMBER, TRUE, number, truth

LARGEST_FLOAT = 2**53
"""Numbers in a column whose type pandas picks are ids below this size: it may have rounded others."""
BLANKS = " \t\n\r\u00a0\ufeff"
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""What ``pandas.read_csv`` takes for missing by default."""

_DIGITS = r"[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)"
_NUMBER = rf"{_DIGITS}(?:[eE][+-]?[0-9]+)?"
_PLAIN_NUMBER = "-?[1-9][0-9]*|0"
_PLAIN_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
READ = f"[{BLANKS}]*({NUMBER}|{INFINITE}|{TRUE}|{FALSE})[{BLANKS}]*"
"""A text that is a number or a truth where pandas picks the type of its column."""
_LENGTH = len(str(LARGEST_FLOAT))
PLAIN_DIGITS = f"[0-9]{{1,{_LENGTH - 1}}}"
"""Such a text that is an id as it stands."""
_read = re.compile(READ)
_SHORT = "[+-]?[0-9]{1,18}(?:[.]0*)?"
_INFINITE = "[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
_FOURS = "(?:[0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}"
_UUID = rf"{_FOURS}|[{{]{_FOURS}[}}]"
_NUMBER_OR_UUID = rf"{_NUMBER}|{_INFINITE}|{_UUID}"
_MOST_ZEROS = 400
_MOST_EXPONENT = 18
"""Digits of an exponent: its value fits in 64 bits."""


class Steps(NamedTuple):
    """The SQL of a row's id, in two steps; the second refers to the result of the first as ``u``."""

    first: str
    second: str = "u"
    as_text: bool = True
    """Whether the id is kept as a text, not as a BIGINT."""


class IdRule:
    """The rule in DuckDB's SQL. Nothing that is written here fails, whatever a text holds."""

    TEXT = "VARCHAR"

    def quoted(self, value: str) -> str:
        """Return the SQL of a text."""
        return "'" + value.replace("'", "''") + "'"

    def matches(self, value: str, pattern: str) -> str:
        """Return the SQL that tests whether a pattern describes the whole text."""
        return f"regexp_full_match({value}, {self.quoted(pattern)})"

    def stripped(self, value: str, letters: str, ends: str = "both") -> str:
        """Return the SQL of a text without some letters at one end, ``left`` or ``right``, or both."""
        function = {"both": "trim", "left": "ltrim", "right": "rtrim"}[ends]
        return f"{function}({value}, {self.quoted(letters)})"

    def whole(self, digits: str) -> str:
        """Return the SQL of the BIGINT that a text of a sign and at most 18 digits says."""
        return f"TRY_CAST({digits} AS BIGINT)"

    def part(self, value: str, mark: str, number: int) -> str:
        """Return the SQL of the part of a text before or after a mark."""
        return f"split_part({value}, {self.quoted(mark)}, {number})"

    def trimmed(self, text: str) -> str:
        """Return the SQL of a text without blanks at its ends."""
        # to look for blanks takes a third of the time that it takes to strip them
        blank = self.matches(text, f"(?s:[{BLANKS}].*|.*[{BLANKS}])")
        return f"CASE WHEN {blank} THEN {self.stripped(text, BLANKS)} ELSE {text} END"

    def of_whole(self, number: str) -> Steps:
        """Return the steps for a whole number of at most 64 bits."""
        return Steps(f"CAST({number} AS BIGINT)", as_text=False)

    def of_text(self, text: str, *, plain: bool) -> Steps:
        """Return the steps for a text; ``plain`` ones are neither numbers nor UUIDs."""
        return Steps(self.trimmed(text), self.said("u", plain=plain))

    def of_decimal(self, text: str) -> Steps:
        """Return the steps for the text of a decimal number."""
        return Steps(text, self.said("u"))

    def of_double(self, double: str) -> Steps:
        """Return the steps for a double.

        Within 64 bits it is the whole number itself, beyond it what its shortest text says.
        """
        low, high = (f"CAST('{bound!r}' AS DOUBLE)" for bound in (-(2.0**63), 2.0**63))
        small = f"{double} >= {low} AND {double} < {high}"
        whole = f"CASE WHEN {double} = FLOOR({double}) THEN CAST(CAST({double} AS BIGINT) AS {self.TEXT}) END"
        text = f"CASE WHEN {small} THEN {whole} ELSE CAST({double} AS {self.TEXT}) END"
        return Steps(text, self.said("u"))

    def said(self, value: str, *, plain: bool = False) -> str:
        """Return the SQL of what a trimmed text says as an id, or NULL; the second step.

        Parameters
        ----------
        plain : bool
            Whether texts are neither numbers nor UUIDs.
        """
        missing = f"{value} IN ({', '.join(map(self.quoted, MISSING))})"
        if plain:
            return f"CASE WHEN NOT ({missing}) THEN {value} END"
        short, before = f"length({value}) <= {_MOST_ZEROS}", self.part(value, ".", 1)
        uuid = f"{self.matches(value, _UUID)} AND length({value}) <> 32"
        return (
            f"CASE WHEN {missing} THEN NULL "
            f"WHEN length({value}) = 36 AND {self.matches(value, _PLAIN_UUID)} THEN {value} "
            # most other texts are neither, which one look shows
            f"WHEN NOT {self.matches(value, _NUMBER_OR_UUID)} THEN {value} "
            f"WHEN {short} AND {self.matches(value, _PLAIN_NUMBER)} THEN {value} "
            f"WHEN {self.matches(value, _SHORT)} THEN {self.as_text(self.whole(before))} "
            f"WHEN {self.matches(value, _NUMBER)} THEN {self._number(value)} "
            f"WHEN {uuid} THEN {self._uuid(value)} "
            f"WHEN {self.matches(value, _INFINITE)} THEN NULL ELSE {value} END"
        )

    def _number(self, value: str) -> str:
        """Return the SQL of the whole number that a number's text says, or NULL."""
        size = f"lower({self.stripped(value, '+-', 'left')})"
        mantissa, exponent = self.part(size, "e", 1), self.part(size, "e", 2)
        digits = self.stripped(f"replace({mantissa}, '.', '')", "0", "left")
        significant = self.stripped(digits, "0", "right")
        power = self.stripped(exponent, "+-0", "left")
        negative = f"substr({exponent}, 1, 1) = '-'"
        given = f"NULLIF({power}, '')"
        size_of_shift = f"COALESCE({self.whole(given)}, 0)"
        shift = f"CASE WHEN {negative} THEN -{size_of_shift} ELSE {size_of_shift} END"
        after = f"length({self.part(mantissa, '.', 2)})"
        zeros = f"(({shift}) - {after} + length({digits}) - length({significant}))"
        sign = f"CASE WHEN substr({value}, 1, 1) = '-' THEN '-' ELSE '' END"
        repeated = f"repeat('0', CAST({zeros} AS INTEGER))"
        return (
            f"CASE WHEN {digits} = '' THEN '0' "
            f"WHEN length({power}) > {_MOST_EXPONENT} THEN CASE WHEN NOT {negative} THEN {value} END "
            f"WHEN {zeros} < 0 THEN NULL "
            f"WHEN {zeros} <= {_MOST_ZEROS} THEN concat({sign}, {significant}, {repeated}) "
            f"ELSE concat({sign}, {significant}, 'e', CAST({zeros} AS {self.TEXT})) END"
        )

    def _uuid(self, value: str) -> str:
        """Return the SQL of a UUID in small letters, with the usual dashes."""
        digits = f"replace({self.stripped(f'lower({value})', '{}')}, '-', '')"
        parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
        fields = [f"substr({digits}, {start}, {size})" for start, size in parts]
        joined = ", '-', ".join(fields)
        return f"concat({joined})"

    def as_text(self, number: str) -> str:
        """Return the SQL of the text of an id that is a BIGINT."""
        return f"CAST({number} AS {self.TEXT})"

    def as_number(self, value: str) -> str:
        """Return the SQL of an id that is a text as a BIGINT; NULL if it is another id."""
        return (
            f"CASE WHEN {self.matches(value, _PLAIN_NUMBER)} THEN TRY_CAST({value} AS BIGINT) END"
        )

    def number(self, value: str, hashed: str) -> str:
        """Return the SQL of a BIGINT that stands for an id that is kept as a text.

        It is the number that an id of a numeric type with this value has, so that the secret order
        of an id's rows does not depend on the type of its column.
        """
        digits = self.matches(value, f"-?[0-9]{{1,{_MOST_EXPONENT}}}")
        return f"CASE WHEN {digits} THEN {self.whole(value)} ELSE {hashed} END"


def of_object(value: Any, *, plain: bool = False) -> str | None:
    """Return the text of an object that is an id, for the rule on texts; None if it is none.

    A number says what it is worth. So does a text, unless texts are ``plain``: whether pandas holds
    numbers, truths or texts depends on all rows.
    """
    try:
        if isinstance(value, str):
            text = str(value)
            return _encoded(text) if plain else _of_text(text)
        if value is None or value != value:
            return None
        if type(value) is not bool and isinstance(value, (Real, Decimal)):
            return _of_number(value)
        return _encoded(str(value))
    except Exception:  # noqa: BLE001 - whatever a value does, it is a fact about data
        return None


def _of_text(text: str) -> str | None:
    """Return what a text says in a column of numbers or truths; another text is itself."""
    if text.isascii() and text.isdigit():
        if len(text) < _LENGTH:
            return text
        if len(text) > _LENGTH and text[0] != "0":
            return None
    if not _read.fullmatch(text):
        return _encoded(text)
    text = text.strip(BLANKS)
    found = number(text)
    return str(truth(text)) if found is None else _of_number(found)


def _encoded(text: str) -> str:
    text.encode()
    return text


def _of_number(value: Any) -> str | None:
    if not -LARGEST_FLOAT < value < LARGEST_FLOAT:
        return None
    whole = int(value)
    return str(whole) if whole == value else None
