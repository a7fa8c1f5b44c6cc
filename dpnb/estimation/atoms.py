"""Sparse rows over the bins of a domain: linear queries in their shortest form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dpnb.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.intp]
    Cells: TypeAlias = range | Sequence[int] | npt.NDArray[np.integer]
    Values: TypeAlias = float | Sequence[float] | npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """A sparse row over bins in its shortest form.

    Attributes
    ----------
    where : slice or int array, shape (k,)
        The bins with non-zero values: a slice if they are consecutive, else strictly increasing.
    value : float or float array, shape (k,)
        Their values: one number if all are equal.
    """

    where: slice | Ints
    value: float | Floats

    @property
    def index(self) -> range | Ints:
        """The bins, as a range if they are consecutive."""
        if isinstance(self.where, slice):
            return range(self.where.start, self.where.stop)
        return self.where

    @property
    def count(self) -> int:
        """Number of bins with a value."""
        return len(self.index)

    @property
    def largest(self) -> float:
        """The largest absolute value: the sensitivity to adding or removing one row of data."""
        import numpy as np

        return float(np.abs(self.value).max(initial=0.0)) if self.count else 0.0

    def dense(self, cells: int) -> Floats:
        """Return the row as a dense array, shape (cells,)."""
        import numpy as np

        row = np.zeros(cells)
        row[self.where] = self.value
        return row


def support(cells: int, index: Cells, value: Values) -> Support:
    """Return a sparse row in its shortest form.

    Parameters
    ----------
    cells : int
        Number of bins of the domain.
    index : range, or ints, shape (k,)
        Bins, each at most once, in [0, cells).
    value : float, or floats, shape (k,)
        Values of these bins, finite; one number stands for all. Zeros are left out.

    Raises
    ------
    RequestError
        If a bin occurs twice or is outside the domain, or a value is not finite.
    """
    import numpy as np

    values = np.asarray(value, dtype=np.float64)
    if not np.isfinite(values).all():
        raise RequestError(
            "A measurement has a value that is not a finite number", "Check its values."
        )
    single = values.ndim == 0 or (values.size > 0 and bool((values == values.flat[0]).all()))
    if isinstance(index, range) and index.step == 1 and (single or not len(index)):
        first, last = (index.start, index.stop - 1) if len(index) else (0, -1)
        if (values.ndim and len(values) != len(index)) or (
            len(index) and (first < 0 or last >= cells)
        ):
            raise RequestError(
                "A measurement does not fit the domain", "Check its cells and values."
            )
        constant = float(values.flat[0]) if values.size else 0.0
        return Support(slice(first, last + 1 if constant else first), constant)
    places = np.asarray(index, dtype=np.intp)
    if places.ndim != 1 or (values.ndim and values.shape != places.shape):
        raise RequestError("A measurement does not fit the domain", "Give one value for each cell.")
    if len(places) > 1 and not (places[1:] > places[:-1]).all():
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order] if values.ndim else values
        if (places[1:] == places[:-1]).any():
            raise RequestError("A measurement names a cell twice", "Add the two values.")
    if len(places) and (places[0] < 0 or places[-1] >= cells):
        raise RequestError("A measurement names a cell outside the domain", "Check its cells.")
    if single:
        constant = float(values.flat[0])
        if not constant:
            places = places[:0]
        if len(places) and places[-1] - places[0] + 1 == len(places):
            return Support(slice(int(places[0]), int(places[-1]) + 1), constant)
        return Support(places, constant)
    nonzero = values != 0
    if not nonzero.all():
        return support(cells, places[nonzero], values[nonzero])
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return Support(slice(int(places[0]), int(places[-1]) + 1), values)
    return Support(places, values)
