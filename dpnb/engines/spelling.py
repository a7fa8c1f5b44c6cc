"""Numbers and days as spreadsheets write them, which are read as texts: how to notice and to mend them."""

from __future__ import annotations

from dataclasses import dataclass

_SIGN = "[-+(]?"
_MONEY = "[$\u00a3\u20ac\u00a5]|[A-Z]{3}"


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a number or a day.

    Attributes
    ----------
    holds : str
        What such a column holds, in words.
    pattern : str
        A regular expression of DuckDB (RE2) for a whole text.
    reading : str
        A statement of pandas that reads a column of ``frame``; ``{0}`` is its name in quotes.
    """

    holds: str
    pattern: str
    reading: str


_NUMBER = (
    "frame[{0}] = pandas.to_numeric(frame[{0}].str.replace(r'^\\((.*)\\)$', r'-\\1', regex=True)"
    ".str.replace(r'[^0-9.eE-]', '', regex=True), errors='coerce')"
)
_COMMA = (
    "frame[{0}] = pandas.to_numeric(frame[{0}].str.replace(r'[^0-9,-]', '', regex=True)"
    ".str.replace(',', '.'), errors='coerce')"
)
SPELLINGS = (
    Spelling(
        "numbers with a decimal comma",
        rf"\s*{_SIGN}\s*({_MONEY})?\s*{_SIGN}(\d+|\d{{1,3}}([. \x{{a0}}\x{{202f}}\'\x{{2019}}]\d{{3}})+),\d{{1,2}}"
        rf"\s*({_MONEY}|%)?\s*\)?\s*",
        _COMMA,
    ),
    Spelling(
        "numbers as a spreadsheet writes them (money, per cent, commas between thousands)",
        rf"\s*{_SIGN}\s*({_MONEY})?\s*{_SIGN}(\d+|\d{{1,3}}([, \x{{a0}}\x{{202f}}\'\x{{2019}}]\d{{3}})+)(\.\d+)?"
        rf"\s*({_MONEY}|%)?\s*\)?\s*",
        _NUMBER,
    ),
    Spelling(
        "days as 31/12/2024 or 12/31/2024",
        r"\s*\d{1,2}/\d{1,2}/\d{4}(\s+\d{1,2}:\d{2}(:\d{2})?)?\s*",
        "frame[{0}] = pandas.to_datetime(frame[{0}].str.split().str[0], format='%d/%m/%Y', "
        "errors='coerce')  # or '%m/%d/%Y': you must know which",
    ),
    Spelling(
        "days as 31.12.2024",
        r"\s*\d{1,2}\.\d{1,2}\.\d{4}(\s+\d{1,2}:\d{2}(:\d{2})?)?\s*",
        "frame[{0}] = pandas.to_datetime(frame[{0}].str.split().str[0], format='%d.%m.%Y', "
        "errors='coerce')",
    ),
    Spelling(
        "days as 31-Dec-2024",
        r"\s*\d{1,2}[- ][A-Za-z]{3}[- ]\d{4}\s*",
        "frame[{0}] = pandas.to_datetime(frame[{0}].str.strip().str.replace(' ', '-'), "
        "format='%d-%b-%Y', errors='coerce')",
    ),
    Spelling(
        "days as Dec 31, 2024",
        r"\s*[A-Za-z]{3,9} \d{1,2}, ?\d{4}\s*",
        "frame[{0}] = pandas.to_datetime(frame[{0}].str.strip().str.replace(r'^([A-Za-z]{{3}})[A-Za-z]*', "
        "r'\\1', regex=True), format='%b %d, %Y', errors='coerce')",
    ),
    Spelling(
        "numbers of years, months and days without marks, as 20241231",
        r"\s*(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])\s*",
        "frame[{0}] = pandas.to_datetime(frame[{0}].astype('string'), format='%Y%m%d', errors='coerce')",
    ),
)
"""In this order: the first that fits most texts of a column is named."""
