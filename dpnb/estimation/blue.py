"""Best linear unbiased estimates of queries from noisy linear answers.

Rows become vectors on atoms, and these become coordinates in a basis of the row space, so the cost
of the arithmetic does not depend on the number of bins (docs/methods/bayes.md, theorems 6 and 7).
This module never sees data. Answers enter only after the weights are computed, so planned rows have
everything but estimates.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpnb.errors import RequestError, given
from dpnb.estimation.atoms import Atoms, Support, support

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpnb.estimation.atoms import Cells, Floats, Ints, Values

TOLERANCE = 1e-10
"""Largest residual, relative to the largest value of a row, that counts as zero.

Definition 3 of docs/methods/bayes.md.
"""
CHECK = 1e-8
"""Largest relative error with which the weights of an estimate may reproduce its query.

Algorithm 8 of docs/methods/bayes.md.
"""
REFACTOR = 64
"""The covariance is factored anew every REFACTOR rows, if that takes at most WORK products."""
WORK = 2e7
CERTAIN = (1e-11, 1e-7)
"""Relative lengths of a row's part outside the space. Up to the first the row adds no direction,
above the second it does; in between the order of the rows decides."""
ROOM = 5e7
"""Largest number of values of the rows on atoms, not counting disjoint rows."""


class NotEstimable(RequestError):  # noqa: N818  the term of the field
    """The query is not a combination of the past rows, so no estimate of it is unbiased.

    Attributes
    ----------
    residual : float
        Largest value of the part of the query outside the row space, relative to the largest value
        of the query; 1 if it cuts an atom. Queries with at most :data:`TOLERANCE` are estimable.
    cuts : bool
        Whether the query separates bins that no past row separates.
    place : int
        Index of the query among those solved together.
    """

    def __init__(self, residual: float, *, cuts: bool, place: int = 0) -> None:
        why = (
            "it separates groups that no past answer separates"
            if cuts
            else "it is not a combination of past questions"
        )
        super().__init__(
            f"The past answers do not determine this query: {why}",
            "Ask for a fresh answer, or for guaranteed bounds.",
        )
        self.residual = residual
        self.cuts = cuts
        self.place = place


@dataclass(frozen=True, slots=True, eq=False)
class Solutions:
    """Estimates of several queries from the same rows.

    Attributes
    ----------
    estimates : float array, shape (g,)
        NaN if a row is only planned.
    variances : float array, shape (g,)
        Variances of the estimates' noise, in squared units of the answers.
    coordinates : float array, shape (g, r)
        Coordinates of the queries in the basis of the row space.
    residuals : float array, shape (g,)
        Largest value of the part outside the row space, treated as rounding. With real values,
        widen confidence intervals by this times a public bound on the number of rows of data.
    """

    estimates: Floats
    variances: Floats
    coordinates: Floats
    residuals: Floats
    _weights: Floats = field(repr=False)

    def weights(self) -> Floats:
        """Return A, shape (g, m), with estimates = A y (docs/methods/bayes.md, theorem 7)."""
        return self._weights

    def __getitem__(self, place: int) -> Solution:
        return Solution(
            float(self.estimates[place]),
            float(self.variances[place]),
            self.coordinates[place],
            float(self.residuals[place]),
            self._weights[place],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The estimate of one query, with the attributes of :class:`Solutions` for a single query."""

    estimate: float
    variance: float
    coordinates: Floats
    residual: float
    _weights: Floats = field(repr=False)

    def weights(self) -> Floats:
        """Return A, shape (m,), with estimate = A y."""
        return self._weights


class RowSpace:
    """The space spanned by rows with noisy answers, and the estimates of queries in it.

    Rows that are added together and share no bin are directions of their own, each with one answer:
    the *near* coordinates, whose estimates are independent. All other rows are stored by their
    *far* coordinates in an orthonormal basis of the rest. Given the near answers, the other rows
    have the covariance near S near' + V. With W the inverse of its Cholesky factor, W times the far
    coordinates are the rows of an ordinary least-squares problem.

    Algorithm 8 of docs/methods/bayes.md.

    Parameters
    ----------
    cells : int
        Number of bins of the domain, 1 or more.

    Examples
    --------
    >>> space = RowSpace(3)
    >>> space.extend([(support(3, [0, 1], 1.0), 12.5, 2.0), (support(3, [1, 2], 1.0), 17.0, 8.0)])
    >>> round(space.solve([0, 2], [1.0, -1.0]).estimate, 9)
    -4.5
    """

    _own: Ints  # indices of the rows with near directions
    _other: list[int]  # indices of all other rows
    _group: Ints  # the near direction of each atom, -1 for none
    _shape: Floats  # the value of that direction at each atom
    _length: Floats  # length of each own row
    _spread: Floats  # S, the variance along each near direction by its own answer
    _basis: Floats  # far directions on atoms
    _near: Floats  # near coordinates of the other rows
    _whiten: Floats  # W
    _white: Floats  # W times the far coordinates of the other rows
    _covariance: Floats  # covariance of the far coordinates
    _many: int  # number of other rows added so far
    _rest: int  # number of far directions

    def __init__(self, cells: int) -> None:
        if cells < 1:
            raise RequestError(
                f"A domain needs at least one cell, got {cells}", "Check the number of cells."
            )
        self.cells = cells
        self._supports: list[Support] = []
        self._answers: list[float] = []
        self._variances: list[float] = []
        self._build()

    def copy(self) -> RowSpace:
        """Return an independent copy, for rows that are only planned."""
        clone = copy.copy(self)
        for name, value in vars(self).items():
            if hasattr(value, "copy"):
                setattr(clone, name, value.copy())
        return clone

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._supports)

    @property
    def rank(self) -> int:
        """Dimension of the space."""
        return self.groups + self._rest

    @property
    def groups(self) -> int:
        """Number of disjoint rows with directions of their own."""
        return len(self._own)

    @property
    def matrix(self) -> Floats:
        """The rows on atoms, shape (rows, atoms)."""
        dense: Floats = self.atoms.table(self._supports).toarray()
        return dense

    @property
    def answers(self) -> Floats:
        """The noisy answers, shape (rows,); NaN for planned rows."""
        import numpy as np

        return np.array(self._answers, dtype=np.float64)

    @property
    def variances(self) -> Floats:
        """The noise variances of the answers, shape (rows,)."""
        import numpy as np

        return np.array(self._variances, dtype=np.float64)

    @property
    def coordinates(self) -> Floats:
        """The rows in the basis of the row space, shape (rows, rank)."""
        import numpy as np

        return np.concatenate(self._coordinates(self.matrix)[:2], axis=1)

    # rows with answers

    def add_support(self, row: Support, answer: float, variance: float) -> bool:
        """Add a row with its noisy answer; return whether it adds a direction.

        Parameters
        ----------
        row : Support
            Not all zero.
        answer : float
            In units of the row's values times counts; NaN for a planned row.
        variance : float
            Variance of the answer's noise, positive and finite.
        """
        import numpy as np

        _check(row, variance)
        parents = self.atoms.refine(row)
        if len(parents):
            self._group = np.append(self._group, self._group[parents])
            self._shape = np.append(self._shape, self._shape[parents])
            atoms = len(self.atoms)
            self._basis = _grown(self._basis, (self._rest, atoms))
            self._basis[: self._rest, atoms - len(parents) : atoms] = self._basis[
                : self._rest, parents
            ]
        self._supports.append(row)
        self._answers.append(answer)
        self._variances.append(variance)
        self._other.append(len(self._supports) - 1)
        return self._take(self.atoms.read(row)[0], variance)

    def extend(self, rows: Sequence[tuple[Support, float, float]]) -> None:
        """Add many rows at once, all or none, with one factorisation for all rows, old and new.

        Raises
        ------
        RequestError
            If a row or variance is not valid, or the rows cut the bins into too many atoms.
        """
        for row, _, variance in rows:
            _check(row, variance)
        before = self._supports, self._answers, self._variances
        self._supports = [*self._supports, *(row for row, _, _ in rows)]
        self._answers = [*self._answers, *(answer for _, answer, _ in rows)]
        self._variances = [*self._variances, *(variance for _, _, variance in rows)]
        try:
            self._build()
        except RequestError:
            self._supports, self._answers, self._variances = before
            raise

    def _build(self) -> None:
        """Recompute everything from the rows."""
        import numpy as np
        from scipy import linalg

        atoms = Atoms(self.cells, self._supports)
        sizes, variances = atoms.sizes, self.variances
        table = atoms.table(self._supports)
        disjoint = _disjoint(table, sizes)
        if (self.rows - len(disjoint)) * len(sizes) > ROOM:
            raise RequestError(
                "The past answers split the data into too many parts to combine",
                "Leave some out: groups by different keys multiply.",
            )
        self.atoms, self._own = atoms, disjoint
        self._other = np.delete(np.arange(self.rows), self._own).tolist()
        self._group = np.full(len(sizes), -1, dtype=np.intp)
        self._shape = np.zeros(len(sizes))
        own_rows = table[self._own].tocoo()
        self._length = np.sqrt(own_rows.multiply(own_rows) @ sizes)
        self._group[own_rows.col] = own_rows.row
        self._shape[own_rows.col] = own_rows.data / self._length[own_rows.row]
        self._spread = variances[self._own] / self._length**2

        rows, noise = table[self._other].toarray(), variances[self._other]
        self._many = self._rest = 0
        self._near = np.zeros((0, self.groups))
        self._whiten = np.zeros((0, 0))
        self._white = np.zeros((0, 0))
        self._covariance = np.zeros((0, 0))
        self._basis = np.zeros((0, len(sizes)))
        near, _, residual = self._coordinates(rows)
        directions = _directions(residual * (np.sqrt(sizes) / np.sqrt(rows**2 @ sizes)[:, None]))
        if directions is None:
            # the rank depends on the order of the rows here, so add them one by one
            for row, variance in zip(rows, noise.tolist(), strict=True):
                self._take(row, variance)
            return
        # orthogonalise again, because a short residual is not quite orthogonal to the near
        # directions
        _, _, basis = self._coordinates(directions / np.sqrt(sizes))
        self._basis = basis / np.sqrt(basis**2 @ sizes)[:, None]
        self._many, self._rest = len(rows), len(directions)
        gram = (near * self._spread) @ near.T
        gram[np.diag_indices(self._many)] += noise
        lower = np.linalg.cholesky(gram)
        self._near = near
        self._whiten = linalg.solve_triangular(lower, np.eye(self._many), lower=True)
        self._white = self._whiten @ ((residual * sizes) @ self._basis.T)
        self._factor()

    def _take(self, row: Floats, variance: float) -> bool:
        """Add a row on atoms as the last other row; return whether it adds a direction."""
        import numpy as np

        m, r = self._many, self._rest
        near, far, residual = (part[0] for part in self._coordinates(row[None, :]))
        independent = bool(np.abs(residual).max() > TOLERANCE * np.abs(row).max())
        # its answer, given the near answers and the other rows
        cross_covariance = self._whiten[:m, :m] @ (self._near[:m] @ (self._spread * near))
        deviation = (
            max(
                variance
                + float(self._spread @ near**2)
                - float(cross_covariance @ cross_covariance),
                variance,
            )
            ** 0.5
        )
        far = (far - cross_covariance @ self._white[:m, :r]) / deviation
        self._near = _grown(self._near, (m + 1, self.groups))
        self._near[m, :] = near
        self._whiten = _grown(self._whiten, (m + 1, m + 1))
        self._whiten[m, :m] = cross_covariance @ self._whiten[:m, :m] / -deviation
        self._whiten[m, m] = 1 / deviation
        self._white = _grown(self._white, (m + 1, r + independent))
        self._white[m, :r] = far
        solved = self._covariance[:r, :r] @ far
        spread = 1.0 + float(far @ solved)
        if independent:
            # orthogonalise again, because a short residual is not quite orthogonal
            direction = self._coordinates(residual[None, :])[2][0]
            direction = direction / np.sqrt(direction**2 @ self.atoms.sizes)
            length = float(residual * self.atoms.sizes @ direction) / deviation
            self._basis = _grown(self._basis, (r + 1, len(row)))
            self._basis[r, : len(row)] = direction
            self._white[m, r] = length
            self._covariance = _grown(self._covariance, (r + 1, r + 1))
            self._covariance[r, :r] = self._covariance[:r, r] = solved / -length
            self._covariance[r, r] = spread / length**2
        else:
            step = solved / np.sqrt(spread)
            self._covariance[:r, :r] -= np.outer(step, step)
        self._many, self._rest = m + 1, r + independent
        if self._many % REFACTOR == 0 and self._many * self._rest**2 <= WORK:
            self._factor()
        return independent

    def _factor(self) -> None:
        """Compute the covariance of the far coordinates by a QR factorisation."""
        import numpy as np
        from scipy import linalg

        m, r = self._many, self._rest
        if r:
            upper = np.linalg.qr(self._white[:m, :r], mode="r")
            inverse = linalg.solve_triangular(upper, np.eye(r), check_finite=False)
            self._covariance = _grown(self._covariance, (r, r))
            self._covariance[:r, :r] = inverse @ inverse.T

    def _coordinates(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the near and far coordinates and the residuals of rows on atoms."""
        import numpy as np
        from scipy.sparse import csr_array

        sizes, basis = self.atoms.sizes, self._basis[: self._rest, : rows.shape[1]]
        near, residual = np.zeros((len(rows), self.groups)), rows
        if self.groups:
            inside = np.flatnonzero(self._group >= 0)
            entries = (sizes * self._shape)[inside], (self._group[inside], inside)
            near = np.asarray(csr_array(entries, shape=(self.groups, len(sizes))) @ rows.T).T
            residual = rows - near[:, self._group] * self._shape
        if not self._rest:
            return near, np.zeros((len(rows), 0)), residual
        far = (residual * sizes) @ basis.T
        residual = residual - far @ basis
        correction = (residual * sizes) @ basis.T
        return near, far + correction, residual - correction @ basis

    # queries

    def _located(self, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return coordinates of rows on atoms, and largest residuals, absolute and relative."""
        import numpy as np

        near, far, residual = self._coordinates(rows)
        residuals = np.abs(residual).max(axis=1)
        largest = np.maximum(np.abs(rows).max(axis=1), np.finfo(float).tiny)
        return near, far, residuals, residuals / largest

    def estimable(self, index: Cells, value: Values) -> bool:
        """Return whether a query is a combination of the rows.

        Definition 3 of docs/methods/bayes.md.
        """
        row = self.atoms.reduce(support(self.cells, index, value))
        return row is not None and bool(self._located(row[None, :])[3][0] <= TOLERANCE)

    def determined(self) -> npt.NDArray[np.bool_]:
        """Return for each atom whether the number of rows in it is estimable, shape (atoms,)."""
        import numpy as np

        # an indicator in the space has its whole length there
        lengths = (self._basis[: self._rest, : len(self.atoms)] ** 2).sum(axis=0) + self._shape**2
        spanned: npt.NDArray[np.bool_] = lengths * self.atoms.sizes > 1 - 1e-6
        places = np.flatnonzero(spanned)
        for start in range(0, len(places), 256):
            part = places[start : start + 256]
            unit = np.zeros((len(part), len(spanned)))
            unit[np.arange(len(part)), part] = 1.0
            spanned[part] = self._located(unit)[3] <= TOLERANCE
        return spanned

    def solve(self, index: Cells, value: Values) -> Solution:
        """Return the best linear unbiased estimate of a query (docs/methods/bayes.md, theorem 7).

        Raises
        ------
        NotEstimable
            If the query is not a combination of the rows.
        RequestError
            If the noise scales are too far apart to reproduce the query to 1e-8.
        """
        return self.solve_many([(index, value)])[0]

    def solve_many(self, queries: Sequence[tuple[Cells, Values]]) -> Solutions:
        """Return the estimates of several queries, each as (index, value).

        Raises
        ------
        NotEstimable
            For the first query that is not a combination of the rows.
        RequestError
            As in :meth:`solve`.
        """
        import numpy as np

        rows = np.zeros((len(queries), len(self.atoms)))
        for place, query in enumerate(queries):
            on_atoms = self.atoms.reduce(support(self.cells, *query))
            if on_atoms is None:
                raise NotEstimable(1.0, cuts=True, place=place)
            rows[place] = on_atoms
        near, far, residuals, relative = self._located(rows)
        outside = np.flatnonzero(relative > TOLERANCE)
        if len(outside):
            raise NotEstimable(float(relative[outside[0]]), cuts=False, place=int(outside[0]))
        return self._solution(near, far, residuals)

    def _solution(self, near: Floats, far: Floats, residuals: Floats) -> Solutions:
        """Solve for the weights a that minimise a' V a and reproduce the queries."""
        import numpy as np
        from scipy import linalg

        m, r = self._many, self._rest
        beside, white, whiten = self._near[:m], self._white[:m, :r], self._whiten[:m, :m]
        cross_covariance, gap = np.zeros((len(near), m)), far
        if self.groups:
            cross_covariance = ((near * self._spread) @ beside.T) @ whiten.T
            gap = far - cross_covariance @ white
        weights = cross_covariance + gap @ self._covariance[:r, :r] @ white.T
        # one step of iterative refinement removes rounding errors
        weights += (far - weights @ white) @ self._covariance[:r, :r] @ white.T
        largest = np.abs(np.concatenate([near, far], axis=1)).max(axis=1, initial=0.0)
        if not _reproduces(weights @ white, far, largest):
            # the covariance has accumulated rounding errors, so factor anew
            q, upper = np.linalg.qr(white)
            weights = (
                cross_covariance
                - (cross_covariance @ q) @ q.T
                + linalg.solve_triangular(upper, far.T, trans="T").T @ q.T
            )
            if not _reproduces(weights @ white, far, largest):
                raise RequestError(
                    "The past answers have noise of too different sizes to combine",
                    "Leave out the noisiest answers.",
                )
        full_weights = np.zeros((len(near), self.rows))
        full_weights[:, self._other] = weights = weights @ whiten
        full_weights[:, self._own] = (near - weights @ beside) / self._length
        return Solutions(
            full_weights @ self.answers,
            full_weights**2 @ self.variances,
            np.concatenate([near, far], axis=1),
            residuals,
            full_weights,
        )

    def misfit(self) -> float:
        """Return the sum over rows of (answer - fitted)^2 / variance.

        Definition 17 of docs/methods/bayes.md.
        """
        return float(self.misfits([self.answers[None, :]])[0])

    def misfits(self, noises: Iterable[Floats]) -> Floats:
        """Return :meth:`misfit` for draws of the noise, given in arrays of shape (some, rows)."""
        import numpy as np

        m = self._many
        q = np.linalg.qr(self._white[:m, : self._rest])[0]
        sums = []
        for noise in noises:
            means = noise[:, self._own] / self._length
            deviations = (noise[:, self._other] - means @ self._near[:m].T) @ self._whiten[:m, :m].T
            sums.append(((deviations - (deviations @ q) @ q.T) ** 2).sum(axis=1))
        return np.concatenate(sums)


def _grown(array: Floats, shape: tuple[int, int]) -> Floats:
    """Return an array with room for ``shape``, doubling sides that are too small."""
    import numpy as np

    if all(has >= needs for has, needs in zip(array.shape, shape, strict=True)):
        return array
    room = [
        has if has >= needs else max(needs, 2 * has)
        for has, needs in zip(array.shape, shape, strict=True)
    ]
    larger = np.zeros(room)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger


def _disjoint(table: Any, sizes: Floats) -> Ints:
    """Return ascending indices of rows that share no atom; small rows have priority."""
    import numpy as np

    free = np.ones(len(sizes), dtype=bool)
    chosen = []
    for place in np.argsort((table != 0) @ sizes, kind="stable").tolist():
        atoms = table.indices[table.indptr[place] : table.indptr[place + 1]]
        if free[atoms].all():
            free[atoms] = False
            chosen.append(place)
    places: Ints = np.sort(np.array(chosen, dtype=np.intp))
    return places


def _reproduces(combinations: Floats, targets: Floats, largest: Floats) -> bool:
    """Return whether weights reproduce the queries, up to rounding."""
    import numpy as np

    return bool((np.abs(combinations - targets).max(axis=1, initial=0.0) <= CHECK * largest).all())


def _directions(rows: Floats) -> Floats | None:
    """Return an orthonormal basis of the space of rows of length 1 or less, shape (rank, p).

    Pivots are chosen only in the small triangular factor, which has the same rank (Chan 1987, Rank
    revealing QR factorizations). None if the rank is not clear.
    """
    import numpy as np
    from scipy import linalg

    if not rows.size:
        return rows[:0]
    wide, upper = linalg.qr(rows.T, mode="economic", overwrite_a=True, check_finite=False)
    turn, pivots, _ = linalg.qr(upper, mode="economic", pivoting=True, check_finite=False)
    lengths = np.abs(np.diagonal(pivots))
    rank = int(np.count_nonzero(lengths > CERTAIN[1]))
    if (lengths[rank:] > CERTAIN[0]).any():
        return None
    basis: Floats = (wide @ turn[:, :rank]).T
    return basis


def _check(row: Support, variance: float) -> None:
    """Refuse a row of zeros, or a variance that is not positive and finite."""
    if not row.count:
        raise RequestError("A measurement has only zeros", "Leave it out.")
    if not 0 < variance < float("inf"):
        raise RequestError(
            f"A variance must be positive and finite, got {given(variance)}", "Check the noise."
        )
