"""How much single rows add to some measures: what disclosure risk is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.engines.base import Measure
from dpnb.sql.query import Predicate

Vector: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """One measure over the declared cells of ``keys``, of the rows that satisfy ``where``.

    ``weight`` is its share of the row's score.
    """

    measure: Measure
    where: Predicate
    keys: tuple[str, ...]
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class ContributionScan:
    """One look at every row.

    Parameters
    ----------
    parts : tuple of Part
        A row adds to a part's measure what it does when it satisfies the condition and lies in a
        cell; else 0.
    by : tuple of str
        Columns with declared cells by which rows are told apart, beside what they add.
    steps : int
        With 0 the numbers are what a row adds to each part, in ticks. Otherwise there is one number:
        the row's score in ``steps`` steps, rounded upward. The score is a weighted mean over the
        parts of size / sensitivity, with ``squared`` the root of the weighted mean of its squares.
        It depends on that one row alone, so a table of counts changes in one place, by 1, when a
        row comes or goes.
    squared : bool
    """

    parts: tuple[Part, ...]
    by: tuple[str, ...] = ()
    steps: int = 0
    squared: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions:
    """The different rows of numbers that occur, with how many table rows have them. Private.

    Attributes
    ----------
    cells : int64 array, shape (u,)
        Number of the cell of ``by``, the last column fastest; -1 without one.
    numbers : int64 array, shape (u, parts) or, of scores, (u, 1)
    counts : int64 array, shape (u,)
    """

    cells: Vector
    numbers: Vector
    counts: Vector

    def __repr__(self) -> str:
        return "Contributions(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")
