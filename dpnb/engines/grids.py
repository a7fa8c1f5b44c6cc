"""Step functions of real numbers whose breaks lie on a grid, so that a division finds a number's piece.

DuckDB compares a number with a hundred breaks in ten times the time in which it divides it once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpnb.codes import Code, Scale
from dpnb.engines.steps import literal

_FEWEST = 4
"""Fewer pieces are compared one after the other."""
_LARGEST = 2.0**52
"""Places below this one are whole numbers that floats hold exactly, with their neighbours."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The pieces of a step function of all floats from ``low`` to ``high``, by number.

    That of a float is FLOOR((x - shift) / step) - first. Both operations are monotone in floats, too,
    so it is right everywhere if it is right on both sides of each break.
    """

    shift: float
    step: float
    first: int

    def number(self, code: float) -> int:
        """Return the number of a code's piece."""
        return math.floor((code - self.shift) / self.step) - self.first

    def place(self, code: str) -> str:
        """Return the SQL of the number of a code's piece, a whole DOUBLE."""
        moved = code if self.shift == 0 else f"({code} - {literal(self.shift)})"
        cell = f"FLOOR({moved} / {literal(self.step)})"
        # both are whole numbers that floats hold exactly, and so is what is between them
        return cell if self.first == 0 else f"({cell} - {literal(float(self.first))})"


def grid(starts: Sequence[Code], scale: Scale) -> Grid | None:
    """Return the grid of the pieces of a scale of floats with some first codes, if there is one.

    Examples
    --------
    >>> tens = grid([0.0, 10.0, 20.0, 30.0, 40.0], Scale(0.0, 45.0, integral=False))
    >>> tens, tens.place("x"), grid([0.0, 1.0, 2.0, 4.0], Scale(0.0, 9.0, integral=False))
    (Grid(shift=0.0, step=10.0, first=0), "FLOOR(x / CAST('10.0' AS DOUBLE))", None)
    """
    if scale.integral or len(starts) < _FEWEST:
        return None
    breaks = list(map(float, starts[1:]))
    width = (breaks[-1] - breaks[0]) / (len(breaks) - 1)
    for shift, step in itertools.product((0.0, breaks[0]), {float(f"{width:.12g}"), width}):
        place = (breaks[0] - shift) / step
        if not abs(place) < _LARGEST:
            continue
        made = Grid(shift, step, math.floor(place) - 1)
        ends = made.number(float(scale.low)), made.number(float(scale.high))
        if ends == (0, len(breaks)) and all(
            made.number(code) == number
            and made.number(math.nextafter(code, -math.inf)) == number - 1
            for number, code in enumerate(breaks, 1)
        ):
            return made
    return None


def line(outputs: Sequence[Fraction | int | None]) -> tuple[int, int] | None:
    """Return what to multiply the number of a piece by, and to add, to get its whole output.

    Examples
    --------
    >>> line([5, 7, 9]), line([5, 7, 8]), line([None, 1])
    ((2, 5), None, None)
    """
    if None in outputs:
        return None
    start, after, *_ = (int(output) for output in outputs if output is not None)
    rate = after - start
    exact = all(output == start + rate * number for number, output in enumerate(outputs))
    return (rate, start) if exact else None
