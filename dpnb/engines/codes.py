"""The public per-row rule from plain values to codes, in SQL that does not fail for any value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpnb.engines.dialect import clamp, smallest_integer
from dpnb.engines.moments import code_of_time
from dpnb.engines.scans import MOST_LETTERS
from dpnb.engines.steps import literal
from dpnb.errors import SchemaError
from dpnb.schema.columns import Category, Kind, Real
from dpnb.schema.reading import FALSE, INFINITE, LARGEST_SHOWN, NUMBER, TRUE, is_word, number
from dpnb.schema.timestamps import Date, Timestamp, days
from dpnb.schema.types import Boolean

_LARGEST = "CAST('1.7976931348623157e308' AS DOUBLE)"


def code_of(kind: Kind, value: str, *, whole: bool, found: str = "") -> str:
    """Return the SQL of the code of a value; ``value`` is the value's SQL.

    Parameters
    ----------
    value : str
        For a category its text; for a date its days since 1970-01-01; for a timestamp the seconds
        that its clock shows; else an integer or a double.
    whole : bool
        Whether the value is a whole number.
    found : str
        SQL of a text's position in the list of a category; NULL if it is not listed.
    """
    if isinstance(kind, Category):
        if kind.other is None:
            return found
        other = kind.values.index(kind.other)
        return f"CASE WHEN {value} IS NOT NULL THEN COALESCE({found}, {other}) END"
    if isinstance(kind, Boolean):
        return boolean_code(value)
    if isinstance(kind, Date):
        return f"CAST({clamp(value, str(days(kind.low)), str(days(kind.high)))} AS INT)"
    if isinstance(kind, Timestamp):
        return code_of_time(kind, value)
    # false for NaN, which is greater than all numbers
    finite = f"abs({value}) <= {_LARGEST}"
    if isinstance(kind, Real):
        clamped = clamp(value, literal(kind.low), literal(kind.high))
        return f"CASE WHEN {finite} THEN {clamped} + CAST(0 AS DOUBLE) END"
    result = smallest_integer(kind.low, kind.high)
    if whole:
        return f"CAST({clamp(value, str(kind.low), str(kind.high))} AS {result})"
    # clamp first: FLOOR of a large number fails
    clamped = f"({clamp(value, literal(float(kind.low)), literal(float(kind.high)))})"
    half = f"CASE WHEN {clamped} - FLOOR({clamped}) >= CAST('0.5' AS DOUBLE) THEN 1 ELSE 0 END"
    return f"CASE WHEN {finite} THEN CAST(FLOOR({clamped}) + {half} AS {result}) END"


def boolean_code(number: str) -> str:
    """Return the SQL of the code of a boolean that is read as a number; what is neither is missing."""
    return f"CAST(CASE {number} WHEN 1 THEN 1 WHEN 0 THEN 0 END AS {smallest_integer(0, 1)})"


@dataclass(frozen=True, slots=True)
class Texts:
    """What an engine's SQL has for texts that are read by ``dpnb.schema.reading``.

    Attributes
    ----------
    matches : callable
        Takes a text and a pattern; tests whether it describes the whole text.
    place : callable
        Takes numbers by text, and a text; its number, or NULL.
    double, written : callable
        Take a text that is a number and give its double; a double and give its text.
    whole : callable
        Takes a double that is a whole number of 64 bits and gives its digits.
    """

    matches: Callable[[str, str], str]
    place: Callable[[Mapping[str, int], str], str]
    double: Callable[[str], str]
    whole: Callable[[str], str]
    written: Callable[[str], str]

    def position(self, kind: Category, value: str) -> str:
        """Return the SQL of a text's position in the list of a category, from 0."""
        spelled = self.place({value: i for i, value in enumerate(kind.values)}, value)
        if all(map(is_word, kind.values)):
            return spelled
        real, places = self.double(value), dict(zip(kind.keys, range(len(kind.keys)), strict=True))
        truths = [
            f"WHEN {self.matches(value, pattern)} THEN {places[key]}"
            for key, pattern in (("True", TRUE), ("False", FALSE))
            if key in places
        ]
        numbers = {key: found for key in places if (found := number(key)) is not None}
        others = [
            f"WHEN {real} = {literal(found)} THEN {places[key]}"
            for key, found in numbers.items()
            if not _has_digits(found)
        ]
        integers = {key: places[key] for key, found in numbers.items() if _has_digits(found)}
        if integers:
            place = self.place(integers, self.whole(real))
            others.append(f"WHEN {self._is_whole(real)} THEN {place}")
        cases = f"CASE {' '.join(others)} END" if others else "NULL"
        is_number = self.matches(value, f"{NUMBER}|{INFINITE}")
        # a CASE tests in order, so what is not a number is not cast
        return f"COALESCE({spelled}, CASE {' '.join(truths)} WHEN {is_number} THEN {cases} END)"

    def canonical(self, value: str) -> str:
        """Return the SQL of the text by which a value is compared."""
        real = self.double(value)
        shown = f"CASE WHEN {self._is_whole(real)} THEN {self.whole(real)} ELSE {self.written(real)} END"
        return (
            f"CASE WHEN {self.matches(value, f'{NUMBER}|{INFINITE}')} THEN COALESCE({shown}, {value}) "
            f"WHEN {self.matches(value, TRUE)} THEN 'True' WHEN {self.matches(value, FALSE)} THEN 'False' "
            f"ELSE {value} END"
        )

    def _is_whole(self, real: str) -> str:
        # FLOOR of a larger number may fail
        size = f"abs({real}) < {literal(LARGEST_SHOWN)}"
        return f"CASE WHEN {size} THEN {real} = FLOOR({real}) ELSE FALSE END"


def _has_digits(found: float) -> bool:
    """Return whether a number is written with its digits alone."""
    return found.is_integer() and abs(found) < LARGEST_SHOWN


def short_text(value: str) -> str:
    """Return the SQL of an undeclared text: NULL if it has more than 100 letters."""
    return f"CASE WHEN length({value}) <= {MOST_LETTERS} THEN {value} END"


def alike_ids(collation: str) -> SchemaError:
    """Return the error for ids that the database itself holds for one."""
    return SchemaError(
        f"the ids of the privacy unit have the collation {collation}, to which different texts are equal",
        "Give each id one spelling in a view, as by lower(), with a collation that compares bytes: "
        'COLLATE "C" in PostgreSQL, COLLATE UTF8_BINARY in Spark.',
    )


def no_ids(held: str) -> SchemaError:
    """Return the error for values whose type cannot be an id of a privacy unit."""
    return SchemaError(
        f"the ids of the privacy unit are {held} values", "Use whole numbers or strings as ids."
    )
