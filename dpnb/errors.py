"""Errors of dpnb: what happened, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

_MOST_LETTERS = 400
"""Longest text of what happened, and of the hint, in characters."""
_MOST_SHOWN = 60
"""Longest argument shown in a message, in characters."""
_MOST_PLACE = 200
"""Longest text of where it happened, in characters: a path may be long."""


def printable(text: str) -> str:
    """Replace characters that could control a terminal; names and values can contain any."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def given(value: object) -> str:
    """Return an invalid argument for a message; only its type if it may be long or hold data.

    A NumPy scalar may be a value of the data.

    Examples
    --------
    >>> given("yes"), given(None), given([1, 2])
    ("'yes'", 'None', 'a value of type list')
    """
    if type(value) is str:
        return repr(value if len(value) <= _MOST_SHOWN else f"{value[: _MOST_SHOWN - 3]}...")
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int and value.bit_length() < 64:
        return str(value)
    return f"a value of type {type(value).__name__}"


def _cut(text: str, most: int = _MOST_LETTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


class DpnbError(Exception):
    """Base of every error that dpnb raises on purpose.

    Parameters
    ----------
    what : str
        What happened, in one clause, without any fact about the data.
    hint : str
        What to write or do instead, in one clause.
    where : str
        The place in the cell, schema or file, if there is one.

    Examples
    --------
    >>> import dpnb
    >>> try:
    ...     session.query("SELECT wages FROM people", rho=0.1)
    ... except dpnb.DpnbError as error:
    ...     print(type(error).__name__)
    SqlError
    """

    def __init__(self, what: str, hint: str = "", where: str = "") -> None:
        what, hint, where = _cut(what), _cut(hint), _cut(where, _MOST_PLACE)
        super().__init__(what, hint, where)
        self.what = what
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        advice = f" {self.hint}" if self.hint else ""
        stop = "" if self.what.endswith((".", "?", "!")) else "."
        return printable(f"{self.what}{place}{stop}{advice}")

    def _render_traceback_(self) -> list[str]:
        """Return one line for the notebook; the cell still fails (IPython's custom tracebacks)."""
        return [f"{type(self).__name__}: {self}"]


class SchemaError(DpnbError):
    """A table's public description is incomplete, contradictory, or does not fit its source."""


class SqlError(DpnbError):
    """The statement is malformed, or asks for something that cannot be answered privately.

    ``line`` and ``column`` count from 1 and are 0 if the position is unknown; ``text`` is the part
    of the statement that is wrong, as written.
    """

    def __init__(
        self, what: str, hint: str = "", *, line: int = 0, column: int = 0, text: str = ""
    ) -> None:
        where = f"line {line}, column {column}: {text!r}" if line else ""
        super().__init__(what, hint, where)
        self.line = line
        self.column = column
        self.text = text


class RequestError(DpnbError):
    """An argument of a request (accuracy, confidence, group, option) is invalid."""


class BudgetError(DpnbError):
    """The request costs more than is left. Nothing was charged.

    ``limit`` is a clause for the owner of the data about whose limit it is; no text shows it.
    """

    def __init__(self, what: str, hint: str = "", where: str = "", *, limit: str = "") -> None:
        super().__init__(what, hint, where)
        self.limit = limit


class LedgerError(DpnbError):
    """The ledger cannot be used: unreadable, damaged, of another table, or busy."""


class EngineError(DpnbError):
    """The data could not be read. Nothing was charged; the text is the same for every cause."""


class ChangedDataError(EngineError):
    """The data are no longer those that were opened. Nothing was charged."""


class InterruptedRequestError(DpnbError):
    """The request was interrupted; the text says whether anything was charged."""


class ServiceError(DpnbError):
    """A service cannot be reached, is busy, or rejects the caller."""


def closest(word: str, words: Sequence[str], *, alike: float = 0.6) -> str:
    """Return the most similar word, with a similarity of ``alike`` (0 to 1) or more, or ""."""
    matches = [w for w in words if w.casefold() == word.casefold()]
    return next(iter(matches or difflib.get_close_matches(word, words, n=1, cutoff=alike)), "")


def nearest(word: str, words: Sequence[str], *, shown: Callable[[str], str] = str) -> str:
    """Return 'Did you mean ...?' for a close match, else the first few choices, as ``shown``."""
    close = closest(word, words)
    if close:
        return f"Did you mean {shown(close)}?"
    choices = ", ".join(shown(w) for w in list(words)[:6])
    return f"Declared: {choices}{', ...' if len(words) > 6 else ''}."
