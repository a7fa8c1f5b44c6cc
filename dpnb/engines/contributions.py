"""How much single rows, or ids, add to some measures: what disclosure risk is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.sql.query import Predicate
from dpnb.views.measures import Measure

Vector: TypeAlias = npt.NDArray[np.int64]

FINE = 2**30
"""Steps of the largest possible norm to which what an id adds is rounded upward."""


@dataclass(frozen=True, slots=True)
class Part:
    """One measure over the declared cells of ``keys``, of the rows that satisfy ``where``.

    ``weight`` is its share of the score, ``norm`` the most that one id can add, in ticks; 0 for rows.
    """

    measure: Measure
    where: Predicate
    keys: tuple[str, ...]
    weight: float = 0.0
    norm: float = 0.0

    @property
    def sensitivity(self) -> float:
        """The most that can be added, in ticks."""
        return self.norm or float(self.measure.sensitivity)


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
    ids : bool
        What is told apart are ids with all their rows, not rows. What an id adds to a part is the norm
        over the cells, L2 with ``squared``, else L1, in FINE steps of the part's sensitivity.
    """

    parts: tuple[Part, ...]
    by: tuple[str, ...] = ()
    steps: int = 0
    squared: bool = False
    ids: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The columns in use."""
        used = frozenset(self.by)
        for part in self.parts:
            used |= part.where.columns.union(part.keys)
            used |= frozenset() if part.measure.value is None else part.measure.value.columns
        return used


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
