"""How much single rows or ids contribute to measures; disclosure risk is computed from this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.schema.partition import Partition
from dpnb.schema.predicates import Predicate
from dpnb.views.measures import Measure

Vector: TypeAlias = npt.NDArray[np.int64]

FINE = 2**30
"""An id's contribution is rounded up to a multiple of 1 / FINE of the part's sensitivity."""


@dataclass(frozen=True, slots=True)
class Part:
    """One measure in the declared groups of ``keys``, over the rows that satisfy ``where``.

    ``weight`` is its share of the score. ``norm`` is the most that one id can add, in ticks; 0 for
    rows.
    """

    measure: Measure
    where: Predicate
    keys: tuple[Partition, ...]
    weight: float = 0.0
    norm: float = 0.0

    @property
    def sensitivity(self) -> float:
        """The most that one row or id can add, in ticks."""
        return self.norm or float(self.measure.sensitivity)


@dataclass(frozen=True, slots=True)
class ContributionScan:
    """A scan of the contributions of every row or id.

    Parameters
    ----------
    parts : tuple of Part
        A row contributes to a part's measure if it satisfies the condition and lies in a group;
        otherwise its contribution is 0.
    by : tuple of Partition
        Groups that distinguish rows in addition to their contributions.
    steps : int
        With 0 the numbers are a row's contributions to each part, in ticks. Otherwise there is one
        number: the row's score in ``steps`` increments, rounded upward. The score is a weighted
        mean over the parts of size / sensitivity; with ``squared`` it is the root of the weighted
        mean of the squares. It depends on that row alone, so adding or removing a row changes one
        entry of a table of counts by 1.
    squared : bool
    ids : bool
        Distinguish ids with all their rows instead of rows. An id's contribution to a part is its
        norm over the groups, L2 with ``squared``, else L1, in units of sensitivity / FINE.
    """

    parts: tuple[Part, ...]
    by: tuple[Partition, ...] = ()
    steps: int = 0
    squared: bool = False
    ids: bool = False

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The keys of all parts, and those of ``by``, each once."""
        return tuple(dict.fromkeys([*self.by, *(key for part in self.parts for key in part.keys)]))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the scan uses."""
        names = frozenset(key.column for key in self.partitions)
        for part in self.parts:
            names |= part.where.columns
            names |= frozenset() if part.measure.value is None else part.measure.value.columns
        return names


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions:
    """The different contributions, and how many table rows or ids have each. Private.

    Attributes
    ----------
    cells : int64 array, shape (u,)
        Number of the group of ``by``, the last column fastest; -1 if there is none.
    numbers : int64 array, shape (u, parts), or (u, 1) for scores
    counts : int64 array, shape (u,)
    """

    cells: Vector
    numbers: Vector
    counts: Vector

    def __repr__(self) -> str:
        return "Contributions(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")
