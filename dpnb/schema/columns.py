"""The kinds of columns: which values may occur, how they are grouped, how they compare."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from dpnb.codes import Interval, Scale, listed, scalar
from dpnb.errors import SchemaError, given, nearest
from dpnb.schema.bins import checked_bins, edges_of
from dpnb.schema.reading import canonical
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.schema.types import Boolean

Constant: TypeAlias = str | int | float | Fraction | datetime.date

MAX_INTEGER = 2**53
"""Largest absolute bound of an ``Integer``: all codes are exact as floats."""


@dataclass(frozen=True, slots=True)
class Category:
    """A column with a declared list of values.

    Parameters
    ----------
    values : sequence of str
        Every value that may be shown, in the order of display. At most 65,535, all different. A
        number or a truth is compared by its value, in the rows, here and in statements: '07001',
        '7001' and 7001.0 are one value, and so are 'true' and True. What is declared is shown.
    other : str, optional
        The declared value (one of ``values``) that replaces every value not in the list. Without it
        such a value counts as missing.

    Examples
    --------
    >>> Category(["Female", "Male"]).values
    ('Female', 'Male')
    """

    values: tuple[str, ...]
    other: str | None = None
    keys: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What values of the rows are compared with: the canonical text of each declared value."""
    kind: ClassVar[str] = "category"
    numeric: ClassVar[bool] = False

    def __init__(self, values: Sequence[str], other: str | None = None) -> None:
        texts = listed(values)
        if texts is None or not all(isinstance(value, str) for value in texts):
            strange = values if texts is None else next(v for v in texts if not isinstance(v, str))
            raise SchemaError(
                f"a Category takes a list of strings, got a value of type {type(strange).__name__}",
                "Write Category(['a', 'b']); for whole numbers use Integer(0, 9).",
            )
        values = [str.__str__(value) for value in texts]
        if not 1 <= len(values) <= 65_535 or len(set(values)) != len(values):
            raise SchemaError(
                "a Category needs 1 to 65,535 different values",
                "List each value once; group rare ones under other='Other'.",
            )
        keys = tuple(map(canonical, values))
        if len(set(keys)) != len(keys):
            first, second = _alike(values, keys)
            raise SchemaError(
                f"{given(first)} and {given(second)} are one value: texts that are numbers or truths "
                "are compared by their value",
                "Declare one of them.",
            )
        if other is not None:
            key = canonical(other) if isinstance(other, str) else None
            if key not in keys:
                raise SchemaError(
                    f"other={given(other)} is not one of the declared values", "Add it."
                )
            other = values[keys.index(key)]
        object.__setattr__(self, "values", tuple(values))
        object.__setattr__(self, "other", other)
        object.__setattr__(self, "keys", keys)

    @property
    def scale(self) -> Scale:
        """Codes 0..len(values)-1."""
        return Scale(0, len(self.values) - 1, integral=True)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``; only ``=`` and ``<>``.

        Parameters
        ----------
        operator : {'=', '<>'}
            As in WHERE.
        value : str
            One of ``values``.

        Returns
        -------
        tuple of Interval
            Inclusive ranges of codes.

        Raises
        ------
        SchemaError
            For another operator, or a value that is not declared.
        """
        if operator not in ("=", "<>"):
            raise SchemaError("categories have no order", "Use =, <> or IN.")
        if not isinstance(value, str):
            raise SchemaError(
                "its values are texts", f"Write one in single quotes, such as {self.values[0]!r}."
            )
        key = canonical(value)
        if key not in self.keys:
            raise SchemaError(
                f"{given(value)} is not a declared category",
                nearest(value, self.values, shown=repr),
            )
        return self.scale.compare(operator, self.keys.index(key))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML.

        Returns
        -------
        dict of str to value
            ``type``, and the arguments of the declaration.
        """
        other = {} if self.other is None else {"other": self.other}
        return {"type": self.kind, "values": list(self.values), **other}


def _alike(values: Sequence[str], keys: Sequence[str]) -> tuple[str, str]:
    """Return the first two values with the same key."""
    seen: dict[str, str] = {}
    for value, key in zip(values, keys, strict=True):
        if key in seen:
            return seen[key], value
        seen[key] = value
    raise AssertionError


def _number(value: Constant) -> Fraction | float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise SchemaError(f"{given(value)} is not a number", "Write the number without quotes.")
    return value


@dataclass(frozen=True, slots=True)
class Integer:
    """A column of whole numbers, clamped to ``low..high``.

    Parameters
    ----------
    low, high : int
        Public bounds, ``low < high``, within +-2**53. Values outside are clamped; values that
        are not numbers are missing; fractions are rounded half up.
    bins : sequence of int, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Without bins GROUP
        BY uses each whole number.

    Examples
    --------
    >>> Integer(17, 90, bins=[17, 30, 90]).bins
    (17, 30, 90)
    """

    low: int
    high: int
    bins: Sequence[int] | None = None
    kind: ClassVar[str] = "integer"
    numeric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        low, high, edges = scalar(self.low), scalar(self.high), edges_of(self.bins)
        if any(isinstance(n, bool) or not isinstance(n, int) for n in (low, high, *edges)):
            raise SchemaError(
                "the bounds and bins of an Integer must be whole numbers",
                "Write Integer(17, 90), or use Real.",
            )
        if not -MAX_INTEGER <= low < high <= MAX_INTEGER:
            raise SchemaError(
                "an Integer needs low < high, both within +-2**53", "Write Integer(17, 90)."
            )
        bins = None if self.bins is None else checked_bins(edges, low, high)
        for name, value in (("low", low), ("high", high), ("bins", bins)):
            object.__setattr__(self, name, value)

    @property
    def scale(self) -> Scale:
        """The whole numbers low..high."""
        return Scale(self.low, self.high, integral=True)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``.

        Parameters
        ----------
        operator : {'=', '<>', '<', '<=', '>', '>='}
            As in WHERE.
        value : number, str or date
            The constant to compare with.

        Returns
        -------
        tuple of Interval
            Inclusive ranges of codes.
        """
        return self.scale.compare(operator, _number(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML.

        Returns
        -------
        dict of str to value
            ``type``, and the arguments of the declaration.
        """
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        return {"type": self.kind, "low": self.low, "high": self.high, **bins}


@dataclass(frozen=True, slots=True)
class Real:
    """A column of real numbers, clamped to ``low..high``.

    Parameters
    ----------
    low, high : float
        Public, finite bounds, ``low < high``. Values outside are clamped; NaN and infinities are
        missing. In sums each value is rounded to a public grid of about (high - low) / 2**23.
    bins : sequence of float, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Needed to group.

    Examples
    --------
    >>> Real(0, 10, bins=[0, 2.5, 10]).bins
    (0.0, 2.5, 10.0)
    """

    low: float
    high: float
    bins: Sequence[float] | None = None
    kind: ClassVar[str] = "real"
    numeric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        numbers = [scalar(self.low), scalar(self.high), *edges_of(self.bins)]
        if any(isinstance(n, bool) or not isinstance(n, (int, float, Fraction)) for n in numbers):
            raise SchemaError(
                "the bounds and bins of a Real must be numbers", "Write Real(0, 200)."
            )
        finite = all(abs(n) < math.inf for n in numbers)
        if not finite or not numbers[0] < numbers[1]:
            raise SchemaError("a Real needs finite bounds with low < high", "Write Real(0, 200).")
        if not 1e-150 < max(map(abs, numbers[:2])) < 1e150:
            raise SchemaError(
                "the bounds of a Real must be between 1e-150 and 1e150 in size",
                "Use another unit of measurement.",
            )
        if (numbers[1] - numbers[0]) < max(map(abs, numbers[:2])) * 2.0**-30:
            raise SchemaError(
                "the bounds of a Real are too close together for their size",
                "Subtract a constant from the column first.",
            )
        low, high, *edges = map(float, numbers)
        bins = None if self.bins is None else checked_bins(edges, low, high)
        for name, value in (("low", low), ("high", high), ("bins", bins)):
            object.__setattr__(self, name, value)

    @property
    def scale(self) -> Scale:
        """The floats low..high."""
        return Scale(self.low, self.high, integral=False)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``.

        A decimal means the float nearest to it, as in any comparison of floats: 2.24 in a statement
        is the 2.24 in the column and in its bins.

        Parameters
        ----------
        operator : {'=', '<>', '<', '<=', '>', '>='}
            As in WHERE.
        value : number, str or date
            The constant to compare with.

        Returns
        -------
        tuple of Interval
            Inclusive ranges of codes.
        """
        number = _number(value)
        with contextlib.suppress(OverflowError):
            number = float(number)
        return self.scale.compare(operator, number)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML.

        Returns
        -------
        dict of str to value
            ``type``, and the arguments of the declaration.
        """
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        return {"type": self.kind, "low": self.low, "high": self.high, **bins}


Kind: TypeAlias = Category | Boolean | Integer | Real | Date | Timestamp
KINDS: dict[str, type[Kind]] = {
    k.kind: k for k in (Category, Boolean, Integer, Real, Date, Timestamp)
}


def code_bytes(kind: Kind) -> int:
    """Return how many bytes hold a code or its absence: 1, 2, 4 or 8."""
    if isinstance(kind, Real):
        return 8
    codes = int(kind.scale.high - kind.scale.low) + 2
    return next(size for size in (1, 2, 4, 8) if codes <= 2 ** (8 * size))
