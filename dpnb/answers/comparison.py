"""Comparisons of weighted groups with a constant, read from text and written as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import TypeAlias

from dpnb.errors import RequestError, given
from dpnb.schema.partition import Label

Group: TypeAlias = tuple[Label, ...]

MAX_SIZE = 10**9
MAX_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Comparison:
    """The question whether a weighted sum of groups is above a constant.

    Attributes
    ----------
    weights : tuple of (group, Fraction)
        Groups as tuples of labels, distinct, each with its weight: those above 0 first.
    constant : Fraction
        In units of the aggregate.
    aggregate : str or None
        Alias of the aggregate, where one is named.

    Examples
    --------
    >>> from dpnb.answers.reading import read
    >>> print(read("'a' / 2 < 'b' + 'c' - 100"))
    'b' + 'c' > 0.5*'a' + 100
    """

    weights: tuple[tuple[Group, Fraction], ...]
    constant: Fraction
    aggregate: str | None

    def __str__(self) -> str:
        left, right = sides(self.weights, self.constant, _quoted_group, "*")
        name = self.aggregate
        if name is None:
            return f"{left} > {right}"
        return f"{name if _WORD.fullmatch(name) else _quoted(name)}: {left} > {right}"


def exact(value: object, name: str) -> Fraction:
    """Return the exact number that a value shows: a decimal is itself, not its nearest float.

    Parameters
    ----------
    value : int, float, Fraction, Decimal, NumPy scalar or decimal text
        At most 1e9 in size, with at most 40 decimals.
    name : str
        What the number is, for the error.

    Raises
    ------
    RequestError

    Examples
    --------
    >>> exact(0.1, "weight"), exact("1e-2", "weight")
    (Fraction(1, 10), Fraction(1, 100))
    """
    number = None
    if isinstance(value, bool):
        pass  # a truth value is not a number here
    elif isinstance(value, Rational):
        number = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, (str, Real, Decimal)) and _DECIMAL.fullmatch(str(value)):
        number = Fraction(str(value).strip())
    if number is None:
        raise RequestError(
            f"the {name} must be a finite number, got {given(value)}", "Give a number, such as 0.5."
        )
    if abs(number) > MAX_SIZE or number.denominator > 10**MAX_DIGITS:
        raise RequestError(
            f"the {name} is too large, or has too many digits",
            f"Use numbers up to {MAX_SIZE:,} with at most {MAX_DIGITS} decimals.",
        )
    return number


def number_text(value: Fraction) -> str:
    """Return a number as a decimal if it is one, else as a fraction.

    Examples
    --------
    >>> number_text(Fraction(-5, 4)), number_text(Fraction(1, 3)), number_text(Fraction(100))
    ('-1.25', '1/3', '100')
    """
    odd, twos, fives = value.denominator, 0, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    while odd % 5 == 0:
        odd, fives = odd // 5, fives + 1
    if odd != 1:
        return str(value)
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    integer_part, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    return f"{'-' if value < 0 else ''}{integer_part}{'.' if decimals else ''}{decimals}"


def sides(
    weights: Iterable[tuple[Group, Fraction]],
    constant: Fraction,
    shown: Callable[[Group], str],
    times: str,
) -> tuple[str, str]:
    """Return the two sides of a comparison as text: weights above 0 left, the others right.

    The constant is on the right, or on the left if no group is there.
    """
    left: list[str] = []
    right: list[str] = []
    for group, weight in weights:
        size = abs(weight)
        term = shown(group) if size == 1 else f"{number_text(size)}{times}{shown(group)}"
        (left if weight > 0 else right).append(term)
    if not left:
        return number_text(-constant), " + ".join(right) or "0"
    if not right:
        return " + ".join(left), number_text(constant)
    rest = f" {'+' if constant > 0 else '-'} {number_text(abs(constant))}" if constant else ""
    return " + ".join(left), " + ".join(right) + rest


_WORD = re.compile(r"[^\W\d]\w*")
_DECIMAL = re.compile(
    r"\s*[-+]?(?:[0-9]{1,60}\.?[0-9]{0,60}|\.[0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?\s*"
)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted_group(group: Group) -> str:
    if len(group) == 1 and isinstance(group[0], str):
        return _quoted(group[0])
    inside = ", ".join(_quoted(part) if isinstance(part, str) else str(part) for part in group)
    return f"({inside},)" if len(group) == 1 else f"({inside})"
