"""Kinds of options' values: each reads a value or refuses it, and describes itself as JSON schema."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.codes import scalar, truth
from dpnb.errors import RequestError, given
from dpnb.privacy.loss import amount

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
TRUTH: dict[str, Any] = {"type": "boolean"}
WHOLE: dict[str, Any] = {"type": "integer"}
LIST: dict[str, Any] = {"type": "array"}
_MOST, _LEAST = 10**30, 1e-30
"""Numbers without an upper end are 0, or between these in size: their squares are finite and not 0."""


_PAIR = "(100, 200)"


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


class Kind(ABC):
    """A kind of values."""

    @property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Its values as JSON schema."""

    @abstractmethod
    def read(self, value: object, name: str) -> Any:
        """Return a value in its final type; a value that was read before stays as it is.

        Raises
        ------
        RequestError
            For a value of another kind, in terms of ``name``.
        """


class Amount(Kind):
    """A positive amount, exact as its decimal digits are."""

    @property
    def schema(self) -> dict[str, Any]:
        """A number or a text."""
        return {
            "description": "A number, or a string with its decimal digits; both are exact.",
            "oneOf": [{**NUMBER, "exclusiveMinimum": 0}, {**TEXT, "maxLength": 60}],
        }

    def read(self, value: object, name: str) -> Fraction:
        """Return the exact rational."""
        return amount(value, name)


class Percent(Amount):
    """An amount that a cell may write in percent."""


class Part(Amount):
    """A part of something that is divided in two: from 0.001 to 0.999."""

    def read(self, value: object, name: str) -> Fraction:
        """Return the exact rational."""
        part = amount(value, name)
        if not Fraction(1, 1000) <= part <= Fraction(999, 1000):
            raise RequestError(
                f"{name} must be between 0.001 and 0.999, got {float(part):g}",
                "Give a share such as 0.5.",
            )
        return part


@dataclass(frozen=True)
class Number(Kind):
    """A number, which may be bounded; it is never as low as ``low`` nor as high as ``high``."""

    example: str
    low: float | None = None
    high: float | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """A number."""
        ends = {"exclusiveMinimum": self.low, "exclusiveMaximum": self.high}
        return NUMBER | {word: end for word, end in ends.items() if end is not None}

    def read(self, value: object, name: str) -> float:
        """Return the number."""
        hint = f"Give a number such as {self.example}."
        exact = scalar(value)
        if isinstance(exact, bool) or not isinstance(exact, (int, float, Fraction)):
            raise RequestError(f"{name} must be a number, got {given(value)}", hint)
        number = float(exact) if -_MOST < exact < _MOST else math.nan
        tiny = self.high is None and 0 < abs(number) < _LEAST
        if math.isnan(number) or tiny:
            raise RequestError(f"{name} is out of range: {given(value)}", hint)
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low < number < high:
            place = f"above {low:g}" if self.high is None else f"between {low:g} and {high:g}"
            raise RequestError(f"{name} must be {place}, got {number:g}", hint)
        return number


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number from ``low`` to ``high``, or up; a ``word`` may stand in its place."""

    low: int
    high: int | None
    example: int
    word: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """A whole number."""
        number = {**WHOLE, "minimum": self.low}
        number |= {} if self.high is None else {"maximum": self.high}
        return {"anyOf": [number, {"const": self.word}]} if self.word else number

    def read(self, value: object, name: str) -> Any:
        """Return the number, or the word; 5.0 is a whole number as well."""
        if self.word and isinstance(value, str) and value == self.word:
            return value
        number = scalar(value)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        hint = f"Give a whole number such as {self.example}."
        high = _MOST if self.high is None else self.high
        if isinstance(number, int) and not isinstance(number, bool):
            if self.low <= number <= high:
                return number
            if number > _MOST:
                raise RequestError(f"{name} is out of range: {given(value)}", hint)
        upto = "up" if self.high is None else f"to {self.high:,}"
        word = f", or {self.word!r}" if self.word else ""
        raise RequestError(
            f"{name} must be a whole number from {self.low:,} {upto}{word}, got {given(value)}",
            hint,
        )


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few values; if they are many, ``listed`` says which."""

    values: tuple[str | int, ...]
    listed: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """The list of the values."""
        return {"enum": [*self.values]}

    def read(self, value: object, name: str) -> Any:
        """Return the value."""
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value in self.values:
            return value
        if self.listed:
            raise RequestError(f"there is no {name} {given(value)}", f"Use one of {self.listed}.")
        choices = ", ".join(map(repr, self.values[:-1])) + f" or {self.values[-1]!r}"
        examples = " or ".join(f"{name}={choice!r}" for choice in self.values)
        raise RequestError(f"{name} must be {choices}, got {given(value)}", f"Write {examples}.")


class Truth(Kind):
    """True or False."""

    @property
    def schema(self) -> dict[str, Any]:
        """A boolean."""
        return TRUTH

    def read(self, value: object, name: str) -> bool:
        """Return the value."""
        return truth(value, name)


@dataclass(frozen=True)
class Text(Kind):
    """A text."""

    example: str

    @property
    def schema(self) -> dict[str, Any]:
        """A string."""
        return TEXT

    def read(self, value: object, name: str) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise RequestError(
                f"{name} must be a string, got {given(value)}", _example(name, repr(self.example))
            )
        return value


@dataclass(frozen=True)
class Texts(Kind):
    """A list of texts, such as names of columns."""

    what: str
    example: str

    @property
    def schema(self) -> dict[str, Any]:
        """An array of strings."""
        return {**LIST, "items": TEXT}

    def read(self, value: object, name: str) -> tuple[str, ...]:
        """Return the texts in order."""
        entries = None if isinstance(value, str) or not isinstance(value, Sequence) else value
        if entries is None or not all(isinstance(entry, str) for entry in entries):
            raise RequestError(
                f"{name} must be a list of {self.what}, as strings", _example(name, self.example)
            )
        return tuple(entries)


class Range(Kind):
    """Two numbers in ascending order."""

    @property
    def schema(self) -> dict[str, Any]:
        """An array of two numbers."""
        return {**LIST, "items": NUMBER, "minItems": 2, "maxItems": 2}

    def read(self, value: object, name: str) -> tuple[float, float]:
        """Return both ends."""
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise RequestError(f"{name} must be two numbers", _example(name, _PAIR))
        low, high = (Number("100").read(end, name) for end in value)
        if low > high:
            raise RequestError(
                f"{name} starts at {low:g}, above its end {high:g}", "Swap the two numbers."
            )
        return low, high


@dataclass(frozen=True)
class Named(Kind):
    """One value of a kind, or one for each of several names."""

    kind: Kind

    @property
    def schema(self) -> dict[str, Any]:
        """A value, or an object of values."""
        each = {"type": "object", "additionalProperties": self.kind.schema}
        return {"anyOf": [self.kind.schema, each]}

    def read(self, value: object, name: str) -> Any:
        """Return the value, or the values by name."""
        if not isinstance(value, Mapping):
            return self.kind.read(value, name)
        return {str(key): self.kind.read(entry, f"{name} of {key}") for key, entry in value.items()}


def _example(name: str, example: object) -> str:
    """Return the hint to write an example; what is refused may be a part of the option's value."""
    option, _, _ = name.partition(" ")
    return f"Write {option}={example}."


AMOUNT = Amount()
SHARE = Number("0.95", 0, 1)
POSITIVE = Number("50", 0)
