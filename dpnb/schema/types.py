"""Kinds of columns beside texts, numbers and dates: booleans."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpnb.codes import Interval, Scale
from dpnb.errors import SchemaError, given

if TYPE_CHECKING:
    from dpnb.schema.columns import Constant


@dataclass(frozen=True, slots=True)
class Boolean:
    """A column of booleans.

    A value is read as a number is: true and the texts that ``pandas.read_csv`` reads as True are 1,
    false is 0. What is neither 1 nor 0, such as 2 or 'yes', is missing.

    Attributes
    ----------
    values : tuple of bool
        False and True, in the order of display.

    Examples
    --------
    >>> Boolean().compare("=", True), Boolean().compare("<>", 1)
    (((1, 1),), ((0, 0),))
    """

    kind: ClassVar[str] = "boolean"
    numeric: ClassVar[bool] = False
    bins: ClassVar[None] = None
    values: ClassVar[tuple[bool, bool]] = (False, True)

    @property
    def scale(self) -> Scale:
        """The codes 0 for false and 1 for true."""
        return Scale(0, 1, integral=True)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``.

        Parameters
        ----------
        operator : {'=', '<>', '<', '<=', '>', '>='}
            As in WHERE.
        value : bool or number
            The constant to compare with; true is 1 and false is 0.

        Returns
        -------
        tuple of Interval
            Inclusive ranges of codes.

        Raises
        ------
        SchemaError
            For texts and dates.
        """
        if not isinstance(value, (int, float, Fraction)):
            raise SchemaError(f"{given(value)} is not a boolean", "Write TRUE or FALSE.")
        return self.scale.compare(operator, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML.

        Returns
        -------
        dict of str to value
            ``type`` alone.
        """
        return {"type": self.kind}
