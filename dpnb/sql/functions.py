"""What an aggregate computes.

To add a function, add a member here and whatever ``mypy`` then reports.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class Function(StrEnum):
    """The function of an aggregate, or of a result.

    ``DISTINCT`` is COUNT(DISTINCT column), which only decisions accept. ``UNITS`` counts different
    ids. ``CELLS`` counts the rows in each declared bin of a column, from which quantiles are
    computed. ``FORMULA`` is a result that is computed from several aggregates.
    """

    COUNT = "COUNT"
    CELLS = "CELLS"
    DISTINCT = "DISTINCT"
    UNITS = "UNITS"
    SUM = "SUM"
    AVG = "AVG"
    FORMULA = "FORMULA"

    @property
    def is_count(self) -> bool:
        """Whether its true values are whole numbers, at least 0."""
        match self:
            case Function.COUNT | Function.CELLS | Function.DISTINCT | Function.UNITS:
                return True
            case Function.SUM | Function.AVG | Function.FORMULA:
                return False

    @property
    def is_total(self) -> bool:
        """Whether it is a count or a sum, and so 0 without rows."""
        match self:
            case (
                Function.COUNT | Function.CELLS | Function.DISTINCT | Function.UNITS | Function.SUM
            ):
                return True
            case Function.AVG | Function.FORMULA:
                return False

    @property
    def is_mean(self) -> bool:
        """Whether it divides a sum by a count, so that a group without rows has no value."""
        match self:
            case Function.AVG:
                return True
            case (
                Function.COUNT
                | Function.CELLS
                | Function.DISTINCT
                | Function.UNITS
                | Function.SUM
                | Function.FORMULA
            ):
                return False


Measured: TypeAlias = Literal[
    Function.COUNT,
    Function.CELLS,
    Function.DISTINCT,
    Function.UNITS,
    Function.SUM,
    Function.AVG,
]
"""A function of one aggregate, which is measured in the data."""
