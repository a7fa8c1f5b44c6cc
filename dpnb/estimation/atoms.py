"""Sparse rows over the bins of a domain, and its atoms: sets of bins that no row separates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.intp]
    Words: TypeAlias = npt.NDArray[np.uint64]
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


class Atoms:
    """The coarsest partition of a domain into sets of bins that no given row separates.

    Bins with identical columns in the matrix of rows are interchangeable. So a row is one number for
    each atom, and a query is a combination of the rows only if it is constant on atoms
    (docs/methods/bayes.md, theorem 6).

    Parameters
    ----------
    cells : int
        Number of bins of the domain, 1 or more.
    rows : sequence of Support

    Attributes
    ----------
    labels : int array, shape (cells,)
        The atom of each bin.
    sizes : float array, shape (atoms,)
        The number of bins of each atom.

    Examples
    --------
    >>> Atoms(4, [Support(slice(0, 2), 1.0), Support(slice(1, 3), 1.0)]).labels
    array([0, 1, 2, 3])
    """

    def __init__(self, cells: int, rows: Sequence[Support] = ()) -> None:
        import numpy as np

        self.cells = cells
        # bins with equal values in all rows have equal sums of words drawn for row and value; two
        # of a million different columns have equal sums with probability 3e-8, of a thousand 3e-14
        marks = np.zeros(cells + 1, dtype=np.uint64)
        words = _scrambled(np.arange(1, len(rows) + 1, dtype=np.uint64))
        flat = [i for i, row in enumerate(rows) if _is_range(row)]
        if flat:
            hashes = _scrambled(
                words[flat] ^ np.array([rows[i].value for i in flat]).view(np.uint64)
            )
            np.add.at(marks, [rows[i].where.start for i in flat], hashes)  # type: ignore[union-attr]
            np.subtract.at(marks, [rows[i].where.stop for i in flat], hashes)  # type: ignore[union-attr]
        marks = np.cumsum(marks)[:-1]
        for word, row in zip(words, rows, strict=True):
            if not _is_range(row):
                marks[row.where] += _scrambled(np.atleast_1d(row.value).view(np.uint64) ^ word)
        starts = np.flatnonzero(np.append(True, marks[1:] != marks[:-1]))
        _, first, kind = np.unique(marks[starts], return_index=True, return_inverse=True)
        number_of = np.argsort(np.argsort(first))
        self.labels: Ints = np.repeat(number_of[kind], np.diff(np.append(starts, cells)))
        self.sizes: Floats = np.bincount(self.labels).astype(np.float64)

    def __len__(self) -> int:
        return len(self.sizes)

    def copy(self) -> Atoms:
        """Return an independent copy."""
        clone = Atoms.__new__(Atoms)
        clone.cells, clone.labels, clone.sizes = self.cells, self.labels.copy(), self.sizes.copy()
        return clone

    def refine(self, row: Support) -> Ints:
        """Split atoms so that a row is constant on them.

        Returns
        -------
        parents : int array, shape (new,)
            The atom that each new atom was part of; new atoms are numbered after the old ones.
        """
        import numpy as np

        old, kinds = self.labels[row.where], 1
        if not isinstance(row.value, float):
            levels, codes = np.unique(row.value, return_inverse=True)
            kinds = len(levels)
            old = old * kinds + codes
        # pairs of atom and value in the row, and how often each occurs
        if kinds == 1:
            occurrences = np.bincount(old, minlength=len(self))
            pairs = np.flatnonzero(occurrences)
            counts, place = occurrences[pairs], (np.cumsum(occurrences > 0) - 1)[old]
        else:
            pairs, place, counts = np.unique(old, return_inverse=True, return_counts=True)
        parents = pairs // kinds
        covered = np.bincount(parents, weights=counts, minlength=len(self)) == self.sizes
        # if the row covers an atom, the atom's last part keeps its number
        last = np.append(parents[1:] != parents[:-1], True)
        fresh = ~(last & covered[parents])
        if not fresh.any():
            return np.zeros(0, dtype=np.intp)
        atoms = parents.copy()
        atoms[fresh] = np.arange(len(self), len(self) + np.count_nonzero(fresh))
        self.labels[row.where] = atoms[place]
        np.subtract.at(self.sizes, parents[fresh], counts[fresh])
        self.sizes = np.append(self.sizes, counts[fresh])
        split_atoms: Ints = parents[fresh]
        return split_atoms

    def read(self, row: Support) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return a row on atoms, shape (atoms,), and the atoms it cuts; ignore its values there."""
        import numpy as np

        labels = self.labels[row.where]
        counts = np.bincount(labels, minlength=len(self))
        inside = counts > 0
        cut = inside & (counts != self.sizes)
        if isinstance(row.value, float):
            return np.where(inside, row.value, 0.0), cut
        values = np.zeros(len(self))
        values[labels] = row.value
        differ = values[labels] != row.value
        if differ.any():
            cut[labels[differ]] = True
        return values, cut

    def reduce(self, row: Support) -> Floats | None:
        """Return a row on atoms, shape (atoms,); None if it cuts one."""
        values, cut = self.read(row)
        return None if cut.any() else values

    def table(self, rows: Sequence[Support]) -> Any:
        """Return rows that cut no atom as a sparse array, shape (len(rows), atoms)."""
        import numpy as np
        from scipy.sparse import csr_array

        # one bin stands for each atom
        place = np.empty(len(self), dtype=np.intp)
        place[self.labels[::-1]] = np.arange(self.cells)[::-1]
        stands = np.zeros(self.cells, dtype=bool)
        stands[place] = True
        order = np.argsort(place)
        place = place[order]
        columns, values = [], []
        for row in rows:
            if _is_range(row):
                first, last = np.searchsorted(place, [row.where.start, row.where.stop])  # type: ignore[union-attr]
                columns.append(order[first:last])
                values.append(np.full(last - first, row.value))
            else:
                representative = stands[row.where]
                columns.append(self.labels[row.where][representative])
                values.append(np.broadcast_to(row.value, representative.shape)[representative])
        ends = np.cumsum([0, *map(len, columns)])
        if not columns:
            return csr_array((0, len(self)))
        parts = np.concatenate(values), np.concatenate(columns), ends
        return csr_array(parts, shape=(len(rows), len(self)))


def _is_range(row: Support) -> bool:
    return isinstance(row.where, slice) and isinstance(row.value, float)


def _scrambled(words: Words) -> Words:
    """Hash words to 64 bits that look random (splitmix64: Steele, Lea and Flood 2014)."""
    import numpy as np

    bits = words * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes: Words = bits ^ (bits >> np.uint64(31))
    return hashes
