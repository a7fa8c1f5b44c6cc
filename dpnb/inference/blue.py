"""The best linear unbiased estimate of a query from noisy linear answers, on as few numbers as it takes.

Cells with identical columns in the matrix of rows cannot be told apart, so they are kept as one *atom*;
rows become vectors on atoms, vectors become coordinates in an orthonormal basis of the row space, and the
number of cells disappears from the arithmetic (spec/bayes.md 3.1, 3.2). Nothing here ever sees data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]
    Ints: TypeAlias = npt.NDArray[np.intp]
    Cells: TypeAlias = range | Sequence[int] | npt.NDArray[np.integer]
    Values: TypeAlias = float | Sequence[float] | npt.NDArray[np.floating]

TOLERANCE = 1e-9
"""Largest residual, relative to the largest value of a row, that counts as none (spec/bayes.md P3)."""
CHECK = 1e-8
"""How far the weights of an estimate may be from reproducing its query (spec/bayes.md 3.2)."""
REFACTOR = 64
"""After so many rows the covariance is factored anew, where that takes less than WORK products."""
WORK = 2e7
CERTAIN = (1e-11, 1e-7)
"""Rows whose part outside the space has at most the first relative length are no new direction, from the
second on they are; in between the order decides."""
TABLE = 1 << 26
"""Largest table of (atom, key) pairs that is tried before pairs are sorted."""
DISJOINT = 64
"""From so many disjoint rows among the first ones on, their coordinates are kept apart, see Arrow."""


APART = (
    "The noises of the past answers are too far apart to be combined",
    "Leave out the noisiest answers.",
)
"""What is said when weights do not reproduce a query."""


class NotEstimable(RequestError):  # noqa: N818  the term of the field
    """The query is no combination of the past rows, so no estimate of it is unbiased.

    Attributes
    ----------
    residual : float
        Largest value of the part of the query outside the row space, relative to the largest value of
        the query; 1 when it cuts an atom. In (0, 1e-9] queries count as estimable.
    cuts : bool
        Whether the query treats cells differently that all past rows treat alike.
    place : int
        Which of the queries that were asked together it is.
    """

    def __init__(self, residual: float, *, cuts: bool, place: int = 0) -> None:
        why = (
            "it separates cells that no past answer tells apart"
            if cuts
            else "it is no combination of what was asked before"
        )
        super().__init__(
            f"The past answers do not determine this query: {why}",
            "Ask for a fresh answer, or for guaranteed bounds.",
        )
        self.residual = residual
        self.cuts = cuts
        self.place = place


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """A sparse row over cells in its shortest form.

    Attributes
    ----------
    where : slice or int array, shape (k,)
        The cells with non-zero values: a slice when they are consecutive, else strictly increasing.
    value : float or float array, shape (k,)
        Their values: one number when all are equal.
    """

    where: slice | Ints
    value: float | Floats

    @property
    def index(self) -> range | Ints:
        """The cells, as a range when they are consecutive."""
        if isinstance(self.where, slice):
            return range(self.where.start, self.where.stop)
        return self.where

    @property
    def count(self) -> int:
        """How many cells have a value."""
        return len(self.index)

    @property
    def largest(self) -> float:
        """The largest absolute value: the sensitivity when one row is added or removed."""
        import numpy as np

        return float(np.abs(self.value).max(initial=0.0)) if self.count else 0.0

    def dense(self, cells: int) -> Floats:
        """Return the row, shape (cells,)."""
        import numpy as np

        row = np.zeros(cells)
        row[self.where] = self.value
        return row


def support(cells: int, index: Cells, value: Values) -> Support:
    """Return a sparse row in its shortest form.

    Parameters
    ----------
    cells : int
        Number of cells of the domain.
    index : range, or ints, shape (k,)
        Cells, each at most once, in [0, cells).
    value : float, or floats, shape (k,)
        Values of these cells, finite; one number stands for all. Zeros are left out.

    Raises
    ------
    RequestError
        When a cell is named twice or outside the domain, or a value is not finite.
    """
    import numpy as np

    values = np.asarray(value, dtype=np.float64)
    if not np.isfinite(values).all():
        raise RequestError("A row has a value that is no finite number", "Check the row.")
    single = values.ndim == 0 or (values.size > 0 and bool((values == values.flat[0]).all()))
    if isinstance(index, range) and index.step == 1 and (single or not len(index)):
        first, last = (index.start, index.stop - 1) if len(index) else (0, -1)
        if (values.ndim and len(values) != len(index)) or (
            len(index) and (first < 0 or last >= cells)
        ):
            raise RequestError("A row does not fit the domain", "Check its cells and values.")
        one = float(values.flat[0]) if values.size else 0.0
        return Support(slice(first, last + 1 if one else first), one)
    places = np.asarray(index, dtype=np.intp)
    if places.ndim != 1 or (values.ndim and values.shape != places.shape):
        raise RequestError("A row does not fit the domain", "Give one value for each cell.")
    if len(places) > 1 and not (places[1:] > places[:-1]).all():
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order] if values.ndim else values
        if (places[1:] == places[:-1]).any():
            raise RequestError("A row names a cell twice", "Add the two values.")
    if len(places) and (places[0] < 0 or places[-1] >= cells):
        raise RequestError("A row names a cell outside the domain", "Check its cells.")
    if single:
        one = float(values.flat[0])
        if not one:
            places = places[:0]
        if len(places) and places[-1] - places[0] + 1 == len(places):
            return Support(slice(int(places[0]), int(places[-1]) + 1), one)
        return Support(places, one)
    kept = values != 0
    if not kept.all():
        return support(cells, places[kept], values[kept])
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return Support(slice(int(places[0]), int(places[-1]) + 1), values)
    return Support(places, values)


@dataclass(frozen=True, slots=True, eq=False)
class Solutions:
    """Estimates of several queries from the same rows.

    Attributes
    ----------
    estimates : float array, shape (g,)
        NaN when they rest on planned rows.
    variances : float array, shape (g,)
        Of the estimates' noise, in squared units of the answers.
    coordinates : float array, shape (g, r)
        Of the queries in the basis of the row space.
    residuals : float array, shape (g,)
        Largest value of the part outside the row space that was taken for rounding; with real values
        widen intervals by this times a public bound on the number of rows (spec/bayes.md P3).
    """

    estimates: Floats
    variances: Floats
    coordinates: Floats
    residuals: Floats
    _variances: Floats = field(repr=False)
    _weigh: Callable[[slice], Floats] = field(repr=False)

    def weights(self, places: slice = slice(None)) -> Floats:
        """Return A, shape (g, m), with estimates = A y (Xiao and Xiong, Theorem 3.1; spec 3.2).

        Parameters
        ----------
        places : slice
            Of which queries; all by default.

        Raises
        ------
        RequestError
            When A does not reproduce the queries to 1e-8, which takes noise of scales too far apart.
        """
        return self._weigh(places)

    def covariance(self) -> Floats:
        """Return the covariance of the estimates, shape (g, g)."""
        weights = self.weights()
        found = weights * self._variances @ weights.T
        return (found + found.T) / 2

    def __getitem__(self, place: int) -> Solution:
        return Solution(
            float(self.estimates[place]),
            float(self.variances[place]),
            self.coordinates[place],
            float(self.residuals[place]),
            self,
            place,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The estimate of one query; the attributes are those of :class:`Solutions` for a single one."""

    estimate: float
    variance: float
    coordinates: Floats
    residual: float
    _all: Solutions = field(repr=False)
    _place: int = field(repr=False)

    def weights(self) -> Floats:
        """Return A, shape (m,), with estimate = A y."""
        found: Floats = self._all.weights(slice(self._place, self._place + 1))[0]
        return found


def _grown(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array with room for ``shape``, doubling what is too small."""
    import numpy as np

    if all(has >= needs for has, needs in zip(array.shape, shape, strict=True)):
        return array
    room = [
        has if has >= needs else max(needs, 2 * has)
        for has, needs in zip(array.shape, shape, strict=True)
    ]
    larger = np.zeros(room, dtype=array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger


@dataclass(frozen=True, slots=True, eq=False)
class Arrow:
    """Least squares where some coordinates have answers of their own: those of disjoint rows.

    The d coordinates of disjoint rows have independent estimates, like a prior; only the M other rows
    need a dense factor, of their answers' covariance given that prior. The weights follow exactly:
    minimise a' V a + w' S w with w = k_D - C_D' a and C_E' a = k_E (spec/bayes.md 3.2, rearranged).

    Attributes
    ----------
    mean, spread : float arrays, shape (d,)
        Estimates of the coordinates of disjoint rows from these alone, and their variances.
    near : float array, shape (M, d)
    far : float array, shape (M, e)
        Coordinates of the other rows: along disjoint rows, and along the rest of the basis.
    answers, variances : float arrays, shape (M,)
    lower : float array, shape (M, M)
        Cholesky factor of near S near' + V.
    q, upper : float arrays, shapes (M, e), (e, e)
        QR factors of lower^-1 far.
    """

    mean: Floats
    spread: Floats
    near: Floats
    far: Floats
    answers: Floats
    variances: Floats
    lower: Floats
    q: Floats
    upper: Floats

    @classmethod
    def of(
        cls, mean: Floats, spread: Floats, place: Floats, answers: Floats, variances: Floats
    ) -> Arrow:
        """Return the factors; ``place`` has the coordinates of the other rows, shape (M, d + e)."""
        import numpy as np
        from scipy import linalg

        near, far = place[:, : len(mean)].copy(), place[:, len(mean) :].copy()
        if not len(place):
            nothing = np.zeros((0, 0))
            return cls(mean, spread, near, far, answers, variances, nothing, nothing, nothing)
        lower = linalg.cholesky(
            (near * spread) @ near.T + np.diag(variances), lower=True, check_finite=False
        )
        q, upper = np.linalg.qr(linalg.solve_triangular(lower, far, lower=True))
        return cls(mean, spread, near, far, answers, variances, lower, q, upper)

    def weigh(self, k: Floats) -> tuple[Floats, Floats]:
        """Return the weights of prior means and of the other rows, shapes (g, d) and (g, M)."""
        from scipy import linalg

        along, across = k[:, : len(self.mean)], k[:, len(self.mean) :]
        if not len(self.variances):
            return along, self.variances[None, :].repeat(len(k), axis=0)
        start = linalg.solve_triangular(self.lower, self.near @ (along * self.spread).T, lower=True)
        start = start - self.q @ (self.q.T @ start)
        # q' lower' a = upper'^-1 across: what the rest of the basis demands
        start += self.q @ linalg.solve_triangular(self.upper, across.T, trans="T")
        weights: Floats = linalg.solve_triangular(self.lower, start, lower=True, trans="T").T
        left = across - weights @ self.far
        more = self.q @ linalg.solve_triangular(self.upper, left.T, trans="T")
        weights = weights + linalg.solve_triangular(self.lower, more, lower=True, trans="T").T
        return along - weights @ self.near, weights

    def estimate(self, k: Floats) -> tuple[Floats, Floats]:
        """Return estimates and variances of queries with coordinates k, shape (g, d + e)."""
        prior, weights = self.weigh(k)
        values = prior @ self.mean + weights @ self.answers
        return values, prior**2 @ self.spread + weights**2 @ self.variances

    def misfit(self, mean: Floats, answers: Floats) -> Floats:
        """Return the misfit of the other rows, given answers of shape (s, M) and means (s, d)."""
        import numpy as np
        from scipy import linalg

        if not len(self.variances):
            return np.zeros(len(mean))
        off = linalg.solve_triangular(self.lower, (answers - mean @ self.near.T).T, lower=True)
        found: Floats = ((off - self.q @ (self.q.T @ off)) ** 2).sum(axis=0)
        return found


class RowSpace:
    """The space that rows with noisy answers span, and what they tell about it.

    Parameters
    ----------
    cells : int
        Number of cells of the domain, 1 or more.

    Examples
    --------
    >>> space = RowSpace(3)
    >>> space.add([0, 1], 1.0, 12.5, 2.0)
    True
    >>> space.add(range(1, 3), 1.0, 17.0, 8.0)
    True
    >>> round(space.solve([0, 2], [1.0, -1.0]).estimate, 9)
    -4.5
    """

    def __init__(self, cells: int) -> None:
        import numpy as np

        if cells < 1:
            raise RequestError("A domain has at least one cell", "Check the number of cells.")
        self.cells = cells
        self.rows = self.rank = 0
        self.atoms = 1
        self._label: Ints = np.zeros(cells, dtype=np.intp)
        self._size: Floats = np.array([float(cells)])
        # rows of disjoint groups: only which group, and how many times its direction
        self.groups = self._grouped = 0
        self._group: Ints = np.full(1, -1, dtype=np.intp)
        self._shape: Floats = np.zeros(1)
        self._row_group: Ints = np.zeros(0, dtype=np.intp)
        self._row_factor: Floats = np.zeros(0)
        self._arrow: Arrow | None = None
        # all other rows
        self._on_atoms: Floats = np.zeros((0, 1))
        self._basis: Floats = np.zeros((0, 1))
        self._place: Floats = np.zeros((0, 0))
        self._spread: Floats = np.zeros((0, 0))
        self._mean: Floats = np.zeros(0)
        self._answer: Floats = np.zeros(0)
        self._variance: Floats = np.zeros(0)

    def copy(self) -> RowSpace:
        """Return an independent copy, for rows that are only planned."""
        return copy.deepcopy(self)

    @property
    def labels(self) -> Ints:
        """The atom of each cell, shape (cells,)."""
        return self._label

    @property
    def sizes(self) -> Floats:
        """The number of cells of each atom, shape (atoms,)."""
        return self._size[: self.atoms]

    @property
    def matrix(self) -> Floats:
        """The rows on atoms, shape (rows, atoms)."""
        import numpy as np

        if not self.groups:
            return self._on_atoms[: self.rows, : self.atoms]
        found = np.zeros((self.rows, self.atoms))
        found[self._other] = self._on_atoms[: self._many, : self.atoms]
        own = self._row_group[: self.rows, None] == self._group[: self.atoms]
        own &= self._group[: self.atoms] >= 0
        factors = self._row_factor[: self.rows, None] * self._shape[: self.atoms]
        return np.asarray(np.where(own, factors, found), dtype=np.float64)

    @property
    def _other(self) -> Ints:
        """Numbers of the rows that are in no disjoint group."""
        import numpy as np

        found: Ints = np.flatnonzero(self._row_group[: self.rows] < 0)
        return found

    @property
    def _many(self) -> int:
        """How many rows are in no disjoint group."""
        return self.rows - self._grouped

    @property
    def answers(self) -> Floats:
        """The noisy answers, shape (rows,); NaN for planned rows."""
        return self._answer[: self.rows]

    @property
    def variances(self) -> Floats:
        """The variances of their noises, shape (rows,)."""
        return self._variance[: self.rows]

    @property
    def coordinates(self) -> Floats:
        """The rows in the basis of the row space, shape (rows, rank)."""
        import numpy as np

        if not self.groups:
            return self._place[: self.rows, : self.rank]
        found = np.zeros((self.rows, self.rank))
        found[self._other] = self._place[: self._many, : self.rank]
        own = np.flatnonzero(self._row_group[: self.rows] >= 0)
        found[own, self._row_group[own]] = self._row_factor[own]
        return found

    # the partition into atoms

    def _pairs(
        self, where: slice | Ints, codes: Ints | None, kinds: int
    ) -> tuple[Ints, Ints, Ints]:
        """Return the occupied pairs of atom and code, ascending, their counts, and the pair of each cell."""
        import numpy as np

        pairs = self._label[where]
        if codes is not None:
            pairs = pairs * kinds + codes
        room = self.atoms * kinds
        if room > TABLE:
            occupied, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
            return occupied, counts, inverse
        if room <= 2 * len(pairs) + 4096:
            whole = np.bincount(pairs, minlength=room)
            occupied = np.flatnonzero(whole)
            if len(occupied) == room:
                return occupied, whole, pairs
            number = np.empty(room, dtype=np.intp)
            number[occupied] = np.arange(len(occupied))
            return occupied, whole[occupied], number[pairs]
        seen = np.zeros(room, dtype=bool)
        seen[pairs] = True
        occupied = np.flatnonzero(seen)
        number = np.empty(room, dtype=np.intp)
        number[occupied] = np.arange(len(occupied))
        inverse = number[pairs]
        return occupied, np.bincount(inverse, minlength=len(occupied)), inverse

    def _refine(
        self, where: slice | Ints, codes: Ints | None, kinds: int, rows: int | None = None
    ) -> tuple[Ints, Ints]:
        """Split atoms so that codes are constant on them; return (atom, code) of the touched ones.

        The first ``rows`` stored rows, by default all, are carried over to the new atoms.
        """
        import numpy as np

        occupied, counts, inverse = self._pairs(where, codes, kinds)
        old, code = np.divmod(occupied, kinds)
        covered = np.bincount(old, weights=counts, minlength=self.atoms) == self.sizes
        last = np.append(old[1:] != old[:-1], True) if len(old) else np.zeros(0, dtype=bool)
        fresh = ~(last & covered[old])
        new = int(np.count_nonzero(fresh))
        if not new:
            return old, code
        atom = old.copy()
        atom[fresh] = np.arange(self.atoms, self.atoms + new)
        self._label[where] = atom[inverse]
        parents = old[fresh]
        rows = self._many if rows is None else rows
        total = self.atoms + new
        self._size = _grown(self._size, (total,))
        self._size[self.atoms : total] = counts[fresh]
        np.subtract.at(self._size, parents, counts[fresh])
        self._on_atoms = _grown(self._on_atoms, (self._on_atoms.shape[0], total))
        self._on_atoms[:rows, self.atoms : total] = self._on_atoms[:rows, parents]
        self._basis = _grown(self._basis, (self._basis.shape[0], total))
        rest = self.rank - self.groups
        self._basis[:rest, self.atoms : total] = self._basis[:rest, parents]
        if self.groups:
            self._group = np.concatenate([self._group[: self.atoms], self._group[parents]])
            self._shape = np.concatenate([self._shape[: self.atoms], self._shape[parents]])
        self.atoms = total
        return atom, code

    def _refine_row(self, row: Support, rows: int | None = None) -> Floats:
        """Split atoms so that a row is constant on them; return it on atoms."""
        import numpy as np

        if isinstance(row.value, float):
            atom, _ = self._refine(row.where, None, 1, rows)
            found = np.zeros(self.atoms)
            found[atom] = row.value
            return found
        levels, codes = _levels(row.value)
        atom, code = self._refine(row.where, codes, len(levels), rows)
        found = np.zeros(self.atoms)
        found[atom] = levels[code]
        return found

    def _refine_ranges(self, rows: Sequence[Support], places: Sequence[int]) -> None:
        """Split atoms by rows on consecutive cells, in one pass over the cells; store the rows."""
        import numpy as np

        if not rows:
            return
        starts, stops = np.array([(row.where.start, row.where.stop) for row in rows]).T  # type: ignore[union-attr]
        values = np.array([row.value for row in rows])
        bounds = np.unique(np.concatenate([starts, stops, [0, self.cells]]))
        inside = (starts[:, None] <= bounds[:-1]) & (bounds[:-1] < stops[:, None])
        # stretches that lie in the same rows are alike
        _, one, kind = np.unique(
            np.packbits(inside, axis=0), axis=1, return_index=True, return_inverse=True
        )
        codes = np.repeat(kind.ravel(), np.diff(bounds))
        atom, code = self._refine(slice(0, self.cells), codes, len(one), max(places) + 1)
        on_atoms = np.zeros((len(rows), self.atoms))
        on_atoms[:, atom] = values[:, None] * inside[:, one[code]]
        self._on_atoms[places, : self.atoms] = on_atoms

    def reduce(self, index: Cells, value: Values) -> Floats | None:
        """Return a row on atoms, shape (atoms,); None when it cuts one (spec/bayes.md 3.1, REDUCE)."""
        return self._reduce(support(self.cells, index, value))

    def _reduce(self, row: Support) -> Floats | None:
        import numpy as np

        labels = self._label[row.where]
        touched = np.bincount(labels, minlength=self.atoms)
        if (touched[touched > 0] != self.sizes[touched > 0]).any():
            return None
        found = np.zeros(self.atoms)
        if isinstance(row.value, float):
            found[touched > 0] = row.value
            return found
        found[labels] = row.value
        return found if bool((found[labels] == row.value).all()) else None

    # coordinates

    def _coordinates(self, rows: Floats, *, inside: bool = False) -> tuple[Floats, Floats]:
        """Return coordinates and residuals of rows on atoms, shape (g, atoms), in two passes.

        One pass will do for rows that are ``inside`` the space; their residuals are not asked for.
        """
        import numpy as np

        if not self.groups:
            return self._passes(rows, inside)
        covered = np.flatnonzero(self._group[: self.atoms] >= 0)
        group, shape = self._group[covered], self._shape[covered]
        weighted = rows[:, covered] * (self.sizes[covered] * shape)
        along = np.empty((len(rows), self.groups))
        for place, row in enumerate(weighted):
            along[place] = np.bincount(group, weights=row, minlength=self.groups)
        rest = rows.copy()
        rest[:, covered] -= along[:, group] * shape
        across, residual = self._passes(rest, inside)
        return np.concatenate([along, across], axis=1), residual

    def _passes(self, rows: Floats, once: bool) -> tuple[Floats, Floats]:
        basis = self._basis[: self.rank - self.groups, : self.atoms]
        place = (rows * self.sizes) @ basis.T
        if once:
            return place, rows
        residual = rows - place @ basis
        again = (residual * self.sizes) @ basis.T
        place += again
        residual -= again @ basis
        return place, residual

    # rows with answers

    def add(self, index: Cells, value: Values, answer: float, variance: float) -> bool:
        """Take in a row with its noisy answer; return whether it is a new direction.

        Parameters
        ----------
        index, value
            The row, see :func:`support`; not all zero.
        answer : float
            In units of the row's values times counts; NaN for a row that is only planned.
        variance : float
            Of the answer's noise, positive and finite.
        """
        return self.add_support(support(self.cells, index, value), answer, variance)

    def add_support(self, row: Support, answer: float, variance: float) -> bool:
        """Take in a row that is in its shortest form already, see :meth:`add`."""
        _check(row, variance)
        return self._add_on_atoms(self._refine_row(row), answer, variance)

    def _add_on_atoms(self, on_atoms: Floats, answer: float, variance: float) -> bool:
        import numpy as np

        if self.groups:
            return self._add_apart(on_atoms, answer, variance)
        (k,), (residual,) = self._coordinates(on_atoms[None, :])
        r, m = self.rank, self.rows
        solved = self._spread[:r, :r] @ k
        spread = float(k @ solved)
        surprise = answer - float(k @ self._mean[:r])
        self._keep(on_atoms[None, :], np.array([answer]), np.array([variance]))
        self._place = _grown(self._place, (m + 1, r))
        self._place[m, :r] = k
        new = bool(np.abs(residual).max() > TOLERANCE * np.abs(on_atoms).max())
        if new:
            length = float(np.sqrt((self.sizes * residual) @ residual))
            self._basis = _grown(self._basis, (r + 1, self.atoms))
            self._basis[r, : self.atoms] = residual / length
            self._place = _grown(self._place, (m + 1, r + 1))
            self._place[m, r] = length
            self._spread = _grown(self._spread, (r + 1, r + 1))
            self._spread[r, :r] = self._spread[:r, r] = -solved / length
            self._spread[r, r] = (spread + variance) / length**2
            self._mean = _grown(self._mean, (r + 1,))
            self._mean[r] = surprise / length
            self.rank = r + 1
        else:
            total = variance + spread
            self._mean[:r] += solved * (surprise / total)
            step = solved / np.sqrt(total)
            self._spread[:r, :r] -= np.outer(step, step)
        if self.rows % REFACTOR == 0 and self.rows * self.rank**2 <= WORK:
            self._factor()
        return new

    def _add_apart(self, on_atoms: Floats, answer: float, variance: float) -> bool:
        """Take in a row beside disjoint ones; the factors are made when they are needed."""
        import numpy as np

        self._arrow = None
        touched = np.flatnonzero(on_atoms)
        group = self._group[touched]
        if group[0] >= 0 and (group == group[0]).all():
            members = self._group[: self.atoms] == group[0]
            factor = on_atoms[touched[0]] / self._shape[touched[0]]
            if (on_atoms[members] == factor * self._shape[: self.atoms][members]).all():
                self._record(
                    np.array([answer]), np.array([variance]), group[:1], np.array([factor])
                )
                return False
        (k,), (residual,) = self._coordinates(on_atoms[None, :])
        new = bool(np.abs(residual).max() > TOLERANCE * np.abs(on_atoms).max())
        m, rest = self._many, self.rank - self.groups
        self._keep(on_atoms[None, :], np.array([answer]), np.array([variance]))
        self._place = _grown(self._place, (m + 1, self.rank + new))
        self._place[m, : self.rank] = k
        if new:
            length = float(np.sqrt((self.sizes * residual) @ residual))
            self._basis = _grown(self._basis, (rest + 1, self.atoms))
            self._basis[rest, : self.atoms] = residual / length
            self._place[m, self.rank] = length
            self.rank += 1
        return new

    def _set_groups(
        self, group: Ints, shape: Floats, answers: Floats, variances: Floats, lengths: Floats
    ) -> None:
        """Start with disjoint rows: the group of each atom, and its value in a unit direction."""
        import numpy as np

        self.groups = self.rank = len(answers)
        self._group, self._shape = group, shape
        self._record(answers, variances, np.arange(len(answers)), lengths)

    def _record(
        self,
        answers: Floats,
        variances: Floats,
        group: Ints | None = None,
        factor: Floats | None = None,
    ) -> None:
        """Store answers of rows; of disjoint groups which, and how many times their direction."""
        first, last = self.rows, self.rows + len(answers)
        for name, values in (
            ("_answer", answers), ("_variance", variances), ("_row_group", group), ("_row_factor", factor),
        ):  # fmt: skip
            kept = _grown(getattr(self, name), (last,))
            kept[first:last] = -1 if values is None else values
            setattr(self, name, kept)
        self.rows = last
        self._grouped += 0 if group is None else len(group)

    def _keep(self, rows: Floats, answers: Floats, variances: Floats) -> None:
        """Store rows on atoms with their answers."""
        first = self._many
        last = first + len(rows)
        self._on_atoms = _grown(self._on_atoms, (last, self.atoms))
        self._on_atoms[first:last, : self.atoms] = rows
        self._record(answers, variances)

    def _arrowed(self) -> Arrow:
        """Return the factors beside disjoint rows, made anew after rows were added."""
        if self._arrow is None:
            other = self._other
            mean, spread = self._prior(self.answers[None, :])
            self._arrow = Arrow.of(
                mean[0],
                spread,
                self._place[: self._many, : self.rank],
                self.answers[other],
                self.variances[other],
            )
        return self._arrow

    def _prior(self, answers: Floats) -> tuple[Floats, Floats]:
        """Return means, shape (s, groups), of answers, shape (s, rows), to disjoint rows; variances."""
        import numpy as np

        own = np.flatnonzero(self._row_group[: self.rows] >= 0)
        group, factor, v = self._row_group[own], self._row_factor[own], self.variances[own]
        spread = 1 / np.bincount(group, weights=factor**2 / v, minlength=self.groups)
        weighted = answers[:, own] * (factor / v)
        mean = np.empty((len(answers), self.groups))
        for place, row in enumerate(weighted):
            mean[place] = np.bincount(group, weights=row, minlength=self.groups)
        return mean * spread, spread

    def _factor(self) -> None:
        """Compute mean and covariance of the coordinates anew by a QR factorisation (spec 3.1)."""
        import numpy as np
        from scipy import linalg

        root = np.sqrt(self.variances)
        planned = bool(np.isnan(self.answers).any())
        answers = np.zeros(self.rows) if planned else self.answers
        seen, upper = linalg.qr_multiply(
            self.coordinates / root[:, None], answers / root, mode="right", overwrite_a=True
        )
        inverse = linalg.solve_triangular(upper, np.eye(self.rank), check_finite=False)
        self._spread[: self.rank, : self.rank] = inverse @ inverse.T
        self._mean[: self.rank] = np.nan if planned else inverse @ seen

    @classmethod
    def build(cls, cells: int, rows: Iterable[tuple[Cells, Values, float, float]]) -> RowSpace:
        """Return the space of many rows at once; the same estimates as adding one by one.

        Parameters
        ----------
        cells : int
        rows : iterable of (index, value, answer, variance)
            As for :meth:`add`.
        """
        space = cls(cells)
        space.extend([(support(cells, index, value), y, v) for index, value, y, v in rows])
        return space

    def extend(self, rows: Sequence[tuple[Support, float, float]]) -> None:
        """Take in many rows at once: one factorisation for all."""
        import numpy as np

        for row, _, variance in rows:
            _check(row, variance)
        first = self._many
        self._on_atoms = _grown(self._on_atoms, (first + len(rows), self.atoms))
        self._on_atoms[first:] = 0.0
        ranges = [i for i, (row, _, _) in enumerate(rows) if _is_range(row)]
        self._refine_ranges([rows[i][0] for i in ranges], [first + i for i in ranges])
        for place, (row, _, _) in enumerate(rows, first):
            if not _is_range(row):
                on_atoms = self._refine_row(row, first + len(rows))
                self._on_atoms[place, : self.atoms] = on_atoms
        found = self._on_atoms[first : first + len(rows), : self.atoms].copy()
        answers, variances = (np.array([row[i] for row in rows], dtype=np.float64) for i in (1, 2))
        if self.rows:
            self._extend(found, answers, variances)
            return
        apart = _disjoint(found, self.sizes)
        if len(apart) < max(DISJOINT, len(rows) - len(apart)):
            self._extend(found, answers, variances)
            return
        others = np.delete(np.arange(len(rows)), apart)
        chosen = found[apart]
        lengths = np.sqrt(chosen**2 @ self.sizes)
        group = np.where((chosen != 0).any(axis=0), np.argmax(chosen != 0, axis=0), -1)
        shape = np.where(group >= 0, (chosen / lengths[:, None])[group, np.arange(self.atoms)], 0.0)
        self._set_groups(group, shape, answers[apart], variances[apart], lengths)
        self._extend(found[others], answers[others], variances[others])
        self._reorder(np.argsort(np.concatenate([apart, others]), kind="stable"))

    def _reorder(self, order: Ints) -> None:
        """Give the rows new numbers; those in no disjoint group keep their order among themselves."""
        for name in ("_answer", "_variance", "_row_group", "_row_factor"):
            kept = getattr(self, name)
            kept[: self.rows] = kept[: self.rows][order]
        self._arrow = None

    def extend_disjoint(
        self,
        keys: npt.NDArray[np.integer],
        answers: Sequence[float] | Floats,
        variances: Sequence[float] | Floats,
        values: float | Sequence[float] | Floats = 1.0,
    ) -> None:
        """Take in disjoint counts, as of a GROUP BY: row g counts the cells whose key is g.

        Parameters
        ----------
        keys : int array, shape (cells,)
            In [-1, g); -1 for cells in no row. Each row has a cell.
        answers, variances : floats, shape (g,)
        values : float, or floats, shape (g,)
            What a cell counts in each row, not 0.
        """
        import numpy as np

        each = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(answers),))
        key: Ints = np.asarray(keys, dtype=np.intp)
        y, v = np.asarray(answers, dtype=np.float64), np.asarray(variances, dtype=np.float64)
        if key.shape != (self.cells,) or y.ndim != 1 or y.shape != v.shape:
            raise RequestError("The groups do not fit the domain", "Give one key for each cell.")
        inside = key >= 0
        where = slice(0, self.cells) if inside.all() else np.flatnonzero(inside)
        codes: Ints = key[where]
        if (
            len(codes) == 0
            or codes.max() >= len(y)
            or np.bincount(codes, minlength=len(y)).min() == 0
        ):
            raise RequestError("Each group needs a cell and an answer", "Check the keys.")
        if not (np.isfinite(v).all() and (v > 0).all()):
            raise RequestError("The variance of a noise is positive and finite", "Check the noise.")
        if not (np.isfinite(each).all() and each.all()):
            raise RequestError("A row has only zeros", "Leave it out.")
        atom, code = self._refine(where, codes, len(y))
        if not self.rows and len(y) >= DISJOINT:
            lengths = np.sqrt(np.bincount(code, weights=self.sizes[atom]))
            group = np.full(self.atoms, -1, dtype=np.intp)
            shape = np.zeros(self.atoms)
            group[atom], shape[atom] = code, 1 / lengths[code]
            self._set_groups(group, shape, y, v, lengths * each)
            return
        if self.groups and len(atom) == len(y):
            # the same groups again, each one atom
            held = self._group[atom]
            alone = np.bincount(self._group[: self.atoms] + 1, minlength=self.groups + 1)[held + 1]
            if (held >= 0).all() and (alone == 1).all():
                order = np.argsort(code)
                self._arrow = None
                self._record(y, v, held[order], each / self._shape[atom][order])
                return
        found = np.zeros((len(y), self.atoms))
        found[code, atom] = each[code]
        self._extend(found, y, v)

    def _extend(self, rows: Floats, answers: Floats, variances: Floats) -> None:
        """Take in rows on atoms: a basis of what is new by one QR, then one factorisation."""
        import numpy as np

        if not len(rows):
            return
        lengths = np.sqrt((rows**2) @ self.sizes)
        _, residual = self._coordinates(rows)
        root = np.sqrt(self.sizes)
        found = _directions(residual * root / lengths[:, None])
        if found is None:
            # whether a row is new depends on the order here: as if they came one by one
            for row, answer, variance in zip(rows, answers, variances, strict=True):
                self._add_on_atoms(row, float(answer), float(variance))
            return
        if new := len(found):
            added = found / root
            if self.rank:
                _, added = self._coordinates(added)
                added /= np.sqrt((added**2) @ self.sizes)[:, None]
            rest = self.rank - self.groups
            self._basis = _grown(self._basis, (rest + new, self.atoms))
            self._basis[rest : rest + new, : self.atoms] = added
            self.rank += new
        first = self._many
        self._keep(rows, answers, variances)
        self._place = _grown(self._place, (self._many, self.rank))
        self._place[first : self._many, : self.rank] = self._coordinates(rows, inside=True)[0]
        if self.groups:
            self._arrow = None
            return
        self._spread = _grown(self._spread, (self.rank, self.rank))
        self._mean = _grown(self._mean, (self.rank,))
        self._factor()

    # queries

    def estimable(self, index: Cells, value: Values) -> bool:
        """Return whether a query is a combination of the rows (spec/bayes.md D12)."""
        return self.residual(index, value)[0] <= TOLERANCE

    def residual(self, index: Cells, value: Values) -> tuple[float, bool]:
        """Return how far a query is from the row space, relative to its largest value.

        Returns
        -------
        residual : float
            1 when the query cuts an atom, 0 for a query of zeros.
        cuts : bool
        """
        import numpy as np

        on_atoms = self.reduce(index, value)
        if on_atoms is None:
            return 1.0, True
        largest = float(np.abs(on_atoms).max())
        if not largest:
            return 0.0, False
        _, residual = self._coordinates(on_atoms[None, :])
        return float(np.abs(residual).max()) / largest, False

    def refine(self, row: Support) -> None:
        """Split atoms so that a query is constant on them, without an answer."""
        self._refine_row(row)

    def determined(self) -> npt.NDArray[np.bool_]:
        """Return for each atom whether the number of rows in it is estimable, shape (atoms,)."""
        import numpy as np

        basis = self._basis[: self.rank - self.groups, : self.atoms]
        # an indicator in the space has its whole length there
        lengths = (basis**2).sum(axis=0)
        if self.groups:
            lengths += self._shape[: self.atoms] ** 2
        found: npt.NDArray[np.bool_] = lengths * self.sizes > 1 - 1e-6
        places = np.flatnonzero(found)
        for start in range(0, len(places), 256):
            part = places[start : start + 256]
            unit = np.zeros((len(part), self.atoms))
            unit[np.arange(len(part)), part] = 1.0
            found[part] = self._located(unit)[2] <= TOLERANCE
        return found

    def solve(self, index: Cells, value: Values) -> Solution:
        """Return the best linear unbiased estimate of a query (spec/bayes.md 3.2, ESTIMATE).

        Raises
        ------
        NotEstimable
            When the query is no combination of the rows.
        """
        return self.solve_many([(index, value)])[0]

    def try_many(self, queries: Sequence[tuple[Cells, Values]]) -> list[Solution | None]:
        """Return the estimates of queries, each as (index, value); None where not estimable."""
        import numpy as np

        reduced = [self._reduce(support(self.cells, *query)) for query in queries]
        whole = [place for place, row in enumerate(reduced) if row is not None]
        found: list[Solution | None] = [None] * len(reduced)
        if not whole:
            return found
        rows = np.array([reduced[place] for place in whole])
        coordinates, left, relative = self._located(rows)
        told = np.flatnonzero(relative <= TOLERANCE)
        solved = self._solution(coordinates[told], left[told])
        for place, number in enumerate(told):
            found[whole[number]] = solved[place]
        return found

    def solve_many(self, queries: Sequence[tuple[Cells, Values]]) -> Solutions:
        """Return the estimates of several queries, each as (index, value).

        Raises
        ------
        NotEstimable
            For the first query that is no combination of the rows.
        """
        import numpy as np

        rows = np.zeros((len(queries), self.atoms))
        for place, query in enumerate(queries):
            on_atoms = self._reduce(support(self.cells, *query))
            if on_atoms is None:
                raise NotEstimable(1.0, cuts=True, place=place)
            rows[place] = on_atoms
        return self._solve(rows)

    def solve_disjoint(self, keys: npt.NDArray[np.integer], groups: int) -> Solutions:
        """Return the estimates of disjoint counts: query g counts the cells whose key is g.

        Parameters
        ----------
        keys : int array, shape (cells,)
            In [-1, groups); -1 for cells in no query.
        groups : int
        """
        import numpy as np

        keys = np.asarray(keys, dtype=np.intp)
        first = np.zeros(self.atoms, dtype=np.intp)
        first[self._label] = keys
        mixed = first[self._label] != keys
        if mixed.any():
            cut = self._label[mixed]
            place = min(int(keys[mixed].max()), int(first[cut].max()))
            raise NotEstimable(1.0, cuts=True, place=max(place, 0))
        rows = np.zeros((groups, self.atoms))
        inside = np.flatnonzero(first >= 0)
        rows[first[inside], inside] = 1.0
        return self._solve(rows)

    def _solve(self, rows: Floats) -> Solutions:
        import numpy as np

        coordinates, left, relative = self._located(rows)
        outside = np.flatnonzero(relative > TOLERANCE)
        if len(outside):
            raise NotEstimable(float(relative[outside[0]]), cuts=False, place=int(outside[0]))
        return self._solution(coordinates, left)

    def _located(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Return coordinates of rows on atoms, and what is left outside, also relative to the rows."""
        import numpy as np

        coordinates, residual = self._coordinates(rows)
        left = np.abs(residual).max(axis=1)
        largest = np.maximum(np.abs(rows).max(axis=1), np.finfo(float).tiny)
        return coordinates, left, left / largest

    def _solution(self, place: Floats, left: Floats) -> Solutions:
        import numpy as np

        if self.groups:
            return self._solution_apart(place, left)
        rank, rows = self.rank, self._place[: self.rows, : self.rank]
        solved = place @ self._spread[:rank, :rank]
        variances = self.variances.copy()

        def weigh(places: slice) -> Floats:
            return self._weights(place[places], solved[places], rows, variances)

        spread = np.maximum((place * solved).sum(axis=1), 0.0)
        return Solutions(place @ self._mean[:rank], spread, place, left, variances, weigh)

    def _solution_apart(self, place: Floats, left: Floats) -> Solutions:
        """Solve beside disjoint rows."""
        import numpy as np

        arrow, rows, other = self._arrowed(), self.rows, self._other
        own = np.flatnonzero(self._row_group[:rows] >= 0)
        group, variances = self._row_group[own], self.variances.copy()
        share = self._row_factor[own] / variances[own] * arrow.spread[group]

        def weigh(places: slice) -> Floats:
            prior, weights = arrow.weigh(place[places])
            found = np.empty((len(prior), rows))
            found[:, other] = weights
            found[:, own] = prior[:, group] * share
            if not _reproduces(weights, arrow.far, place[places, len(arrow.mean) :]):
                raise RequestError(*APART)
            return found

        return Solutions(*arrow.estimate(place), place, left, variances, weigh)

    def solve_basis(self) -> Solutions:
        """Return the estimates of the basis of the row space itself, shape (rank,)."""
        import numpy as np

        return self._solution(np.eye(self.rank), np.zeros(self.rank))

    def misfit(self) -> float:
        """Return the sum over rows of (answer - fitted)^2 / variance (spec/bayes.md P16)."""
        if self.groups:
            return float(self.misfits([self.answers[None, :]])[0])
        left = self.answers - self.coordinates @ self._mean[: self.rank]
        return float((left**2 / self.variances).sum())

    def misfits(self, noises: Iterable[Floats]) -> Floats:
        """Return :meth:`misfit` for draws of the noises, arrays of shape (some, rows), in one array."""
        import numpy as np
        from scipy import linalg

        if self.groups:
            return np.concatenate([self._misfits_apart(noise) for noise in noises])
        root = np.sqrt(self.variances)
        q, _ = linalg.qr(self.coordinates / root[:, None], check_finite=False)
        rest = q[:, self.rank :]
        found = [(((noise / root) @ rest) ** 2).sum(axis=1) for noise in noises]
        return np.concatenate(found)

    def _misfits_apart(self, noise: Floats) -> Floats:
        import numpy as np

        mean, _ = self._prior(noise)
        own = np.flatnonzero(self._row_group[: self.rows] >= 0)
        off = noise[:, own] - mean[:, self._row_group[own]] * self._row_factor[own]
        inside: Floats = off**2 @ (1 / self.variances[own])
        return inside + self._arrowed().misfit(mean, noise[:, self._other])

    def _weights(self, k: Floats, solved: Floats, rows: Floats, variances: Floats) -> Floats:
        """Return A from coordinates of queries and rows; the covariance may be newer than these."""
        import numpy as np

        weights: Floats = solved @ rows.T / variances
        spread = self._spread[: k.shape[1], : k.shape[1]]
        # one step of refinement takes out what rounding left
        weights += (k - weights @ rows) @ spread @ rows.T / variances
        if not _reproduces(weights, rows, k):
            # the covariance has gathered rounding errors: an exact factor of these rows
            root = np.sqrt(variances)
            q, upper = np.linalg.qr(rows / root[:, None])
            weights = np.linalg.solve(upper.T, k.T).T @ q.T / root
            if not _reproduces(weights, rows, k):
                raise RequestError(*APART)
        return weights


def _disjoint(rows: Floats, sizes: Floats) -> Ints:
    """Return numbers of rows that share no atom, the smallest first."""
    import numpy as np

    touched = rows != 0
    free = np.ones(rows.shape[1], dtype=bool)
    chosen = []
    for place in np.argsort(touched @ sizes, kind="stable"):
        if free[touched[place]].all():
            free[touched[place]] = False
            chosen.append(place)
    found: Ints = np.sort(np.array(chosen, dtype=np.intp))
    return found


def _reproduces(weights: Floats, rows: Floats, wanted: Floats) -> bool:
    """Return whether A C = k, to rounding (spec/bayes.md 3.2)."""
    import numpy as np

    off = np.abs(weights @ rows - wanted).max(axis=1, initial=0.0)
    return bool((off <= CHECK * np.abs(wanted).max(axis=1, initial=0.0)).all())


def _directions(rows: Floats) -> Floats | None:
    """Return an orthonormal basis of the space of rows of length 1 or less, shape (rank, p).

    Rows are mixed by signs and cosine transforms before an unpivoted factorisation, so that its first
    columns reveal the rank like a pivoted one, at a fraction of its time (Demmel, Dumitriu and Holtz,
    Fast linear algebra is stable, section 5). None when the rank is not clear.
    """
    import numpy as np
    from scipy import fft, linalg

    mixed = rows
    for turn in (1, 2):
        # a fixed scramble of the row numbers serves as well as random signs
        bits = (np.arange(len(rows), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(
            40 + turn
        )
        mixed = fft.dct(
            mixed * np.where(bits & np.uint64(1), 1.0, -1.0)[:, None], axis=0, norm="ortho"
        )
    q, upper = linalg.qr(mixed.T, mode="economic", overwrite_a=True, check_finite=False)
    clear = np.abs(np.diagonal(upper))
    rank = int(np.count_nonzero(clear > CERTAIN[1]))
    if (clear[:rank] <= CERTAIN[1]).any() or (clear[rank:] > CERTAIN[0]).any():
        return None
    return np.asarray(q[:, :rank].T, dtype=np.float64)


def _check(row: Support, variance: float) -> None:
    """Refuse what no row of a history is."""
    if not row.count:
        raise RequestError("A row has only zeros", "Leave it out.")
    if not 0 < variance < float("inf"):
        raise RequestError("The variance of a noise is positive and finite", "Check the noise.")


def _is_range(row: Support) -> bool:
    return isinstance(row.where, slice) and isinstance(row.value, float)


def _levels(value: Floats) -> tuple[Floats, Ints]:
    """Return distinct values, ascending, and which of them each value is; whole numbers unsorted."""
    import numpy as np

    low, high = float(value.min()), float(value.max())
    if high - low < 65536 and bool((value == np.rint(value)).all()):
        codes = (value - low).astype(np.intp)
        return np.arange(low, high + 1), codes
    return np.unique(value, return_inverse=True)
