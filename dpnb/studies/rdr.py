"""Disclosure risk as published, for public tables only: nothing here is differentially private.

Zhu and Castro Fernandez, Within-Dataset Disclosure Risk for Differential Privacy
(arXiv 2310.13104), to the letter; docs/methods/rdr.md lists its errors. Curators must refuse it on
other tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.engines.contributions import Contributions, ContributionScan, Part, Vector
from dpnb.engines.scans import Engine, engine_failure
from dpnb.errors import RequestError
from dpnb.privacy.noise import Noise
from dpnb.risk import preferences
from dpnb.risk.plan import Mechanism
from dpnb.risk.selection import FIRST
from dpnb.schema.predicates import EVERY, simplify
from dpnb.sql.query import Query
from dpnb.sql.shown import PLAIN
from dpnb.views.measures import Count, Sum
from dpnb.views.view import view_keys, views_of

Floats: TypeAlias = npt.NDArray[np.float64]

CANDIDATES = tuple(float(level) for level in preferences.CANDIDATES)
"""The 37 epsilons of the paper's experiments: 10, ..., 1, 0.9, ..., 0.001."""
LATTICE = 2.0**20
"""Lattice units per noise scale."""


@dataclass(frozen=True, slots=True, repr=False)
class PaperRelease:
    """Output of Algorithms 1 and 3: an epsilon chosen from the data, a noisy value per group."""

    epsilon: float
    values: tuple[float, ...]
    private: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return f"NOT PRIVATE: PaperRelease(epsilon={self.epsilon!r}, values={self.values!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PaperProfile:
    """How much single rows change one answer, and what follows at any epsilon.

    Attributes
    ----------
    mechanism : {'laplace', 'gaussian'}
    distances : float64 array, shape (u,)
        Distinct per-instance sensitivities, ascending, in the unit of the answer.
    counts : int64 array, shape (u,)
        Number of rows with each distance.
    sensitivity : float
        Delta as in the authors' code (docs/methods/rdr.md, E8 and E9).
    k : int
        Number of values of the answer, one per group.
    values : tuple of float, shape (k,)
        The exact answer.

    Examples
    --------
    >>> profile = PaperProfile("laplace", np.array([0.0, 1.0]), np.array([2, 1]), 1.0, 1, (1.0,))
    >>> profile.rdr(0.1).tolist(), profile.find(0.9)
    ([10.0, 11.0], 0.1)
    """

    mechanism: Mechanism
    distances: Floats
    counts: Vector
    sensitivity: float
    k: int
    values: tuple[float, ...]

    @property
    def n(self) -> int:
        """Number of rows of the table, including those that the statement filters out."""
        return int(self.counts.sum())

    @property
    def delta(self) -> float:
        """1/n^2 for Gaussian noise, else 0 (the authors' code)."""
        return self.n**-2.0 if self.mechanism == "gaussian" else 0.0

    def scale(self, epsilon: float) -> float:
        """Return b = Delta/eps, or sigma = Delta sqrt(2 ln(1.25/delta))/eps.

        Definitions 3.3 and 3.4.
        """
        if not epsilon > 0:
            raise RequestError("epsilon must be above 0", "Give a number above 0.")
        scale = self.sensitivity / epsilon
        return scale * math.sqrt(2 * math.log(1.25 / self.delta)) if self.delta else scale

    def rdr(self, epsilon: float) -> Floats:
        """Return d + k b or sqrt(d^2 + k sigma^2), shape (u,) (Lemmas 3.6 and 3.7)."""
        return self._rdr(self.distances, epsilon)

    def _rdr(self, distances: Floats, epsilon: float) -> Floats:
        scale = self.scale(epsilon)
        if self.mechanism == "laplace":
            return distances + self.k * scale
        return np.hypot(distances, math.sqrt(self.k) * scale)

    def ratio(self, epsilon: float) -> float:
        """Return the smallest over the largest RDR; 1 if all are 0 (docs/methods/rdr.md, E13)."""
        low, high = self._rdr(self.distances[[0, -1]], epsilon)
        return float(low / high) if high > 0 else 1.0

    def variance(self, epsilon: float) -> float:
        """Return the population variance of RDR / largest RDR (section 5.1)."""
        risks = self.rdr(epsilon)
        if not risks[-1] > 0:
            return 0.0
        shares = risks / risks[-1]
        mean = np.dot(self.counts, shares) / self.n
        return float(np.dot(self.counts, (shares - mean) ** 2) / self.n)

    def find(self, tau: float = 0.95, candidates: Sequence[float] = CANDIDATES) -> float | None:
        """Return the largest epsilon with ``ratio >= tau``, if any (Algorithm 1)."""
        least = tau * (1 - preferences.TIE)
        return next((e for e in sorted(candidates, reverse=True) if self.ratio(e) >= least), None)

    def find_and_release(
        self,
        noise: Noise,
        tau: float = 1e-5,
        candidates: Sequence[float] = CANDIDATES,
        selection: float = 1.0,
    ) -> PaperRelease | None:
        """Release at the largest epsilon whose variance seems at most ``tau``; None if none does.

        A sparse vector (Algorithms 2 and 3), which the paper says costs ``selection``. It assumes a
        sensitivity of 1/n, which is wrong (docs/methods/rdr.md, E2).
        """
        spread = 1 / self.n / selection
        threshold = -tau + _drawn(noise, "laplace")[0] * spread / FIRST
        for epsilon in sorted(candidates, reverse=True):
            blur = _drawn(noise, "laplace")[0] * 2 * spread / (1 - FIRST)
            if -self.variance(epsilon) + blur >= threshold:
                return self.release(noise, epsilon)
        return None

    def release(self, noise: Noise, epsilon: float) -> PaperRelease:
        """Release the answer with noise for ``epsilon``."""
        draws = _drawn(noise, self.mechanism, len(self.values)) * self.scale(epsilon)
        return PaperRelease(epsilon, tuple((np.asarray(self.values) + draws).tolist()))

    def __repr__(self) -> str:
        return f"NOT PRIVATE: PaperProfile({self.mechanism})"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def _drawn(noise: Noise, mechanism: Mechanism, count: int = 1) -> Floats:
    """Return noise of scale 1, shape (count,)."""
    draw = noise.laplace if mechanism == "laplace" else noise.gaussian
    return np.asarray(draw([0] * count, LATTICE), dtype=np.float64) / LATTICE


def measure(query: Query, version: int, engine: Engine, mechanism: Mechanism) -> PaperProfile:
    """Return the paper's profile of a statement.

    A row's distance is the change of the answer if the row is removed, in closed form.
    As in the authors' code, an average that becomes NULL counts as no change, a group that vanishes
    as 0, and Delta comes from the data: the column's range for SUM, range/n for AVG.

    Parameters
    ----------
    query : Query
        One COUNT, SUM or AVG, with or without GROUP BY; undeclared groups do not exist.
    version : int
        Version of the table.
    engine : Engine
    mechanism : {'laplace', 'gaussian'}

    Raises
    ------
    RequestError
        If the statement is not of this form, or the table has no rows.
    """
    if len(query.outputs) != 1 or query.derived or replace(query.shown, order=()) != PLAIN:
        raise RequestError(
            "the paper's method takes exactly one aggregate",
            "Write one COUNT, SUM or AVG, with GROUP BY if need be, and no HAVING or LIMIT.",
        )
    (aggregate,), keys = query.aggregates, view_keys(query)
    views = list(views_of(aggregate, query, version).values())
    total = next((view.measure for view in views if isinstance(view.measure, Sum)), None)
    value_part = Part(Count(aggregate.value), views[0].where, keys)
    parts = [Part(Count(None), simplify(query.where, query.schema), keys), value_part]
    if total is not None:
        parts.append(Part(total, value_part.where, keys))
    lines = _contributions(engine, ContributionScan(tuple(parts), keys))
    if not len(lines.counts):
        raise RequestError("the table has no rows", "Use a table with rows.")
    values, distances = _changes(lines, total, mean=aggregate.function.is_mean, grouped=bool(keys))
    sensitivity = 1.0
    if total is not None:
        scan = ContributionScan(tuple(replace(part, where=EVERY, keys=()) for part in parts[1:]))
        numbers = _contributions(engine, scan).numbers
        ticks = numbers[numbers[:, 0] > 0, 1]
        sensitivity = float(total.step) * int(np.ptp(ticks)) if len(ticks) else 0.0
        if aggregate.function.is_mean:
            sensitivity /= int(lines.counts.sum())
    distinct, place = np.unique(distances, return_inverse=True)
    counts = _summed(lines.counts, place, len(distinct))
    return PaperProfile(mechanism, distinct, counts, sensitivity, len(values), tuple(values))


def _contributions(engine: Engine, scan: ContributionScan) -> Contributions:
    lines = engine.contributions(scan)
    if lines is None:
        raise engine_failure()
    return lines


def _summed(numbers: Vector, places: npt.NDArray[np.intp], size: int) -> Vector:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, places, numbers)
    return sums


def _changes(
    lines: Contributions, total: Sum | None, *, mean: bool, grouped: bool
) -> tuple[list[float], Floats]:
    """Return the answer, and for each line how much it changes if one of its rows is removed.

    The numbers of a line: whether it is in the group, whether it has a value, the value in ticks.
    """
    present, has_value, *rest = lines.numbers.T
    cells, group = np.unique(lines.cells, return_inverse=True)
    rows, m = (_summed(n * lines.counts, group, len(cells)) for n in (present, has_value))
    visible = rows > 0 if grouped else np.ones(1, dtype=bool)
    if total is None:
        return m[visible].astype(float).tolist(), has_value.astype(np.float64)
    (ticks,), shift, step = rest, float(total.shift), float(total.step)
    sums = _summed(ticks * lines.counts, group, len(cells))
    sizes = np.abs(shift * has_value + step * ticks)
    if not mean:
        return (shift * m + step * sums)[visible].tolist(), sizes
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / m
        distances = step * np.abs(ticks - means[group]) / (m[group] - 1)
    # without its only row a group vanishes; without its only value an average is NULL
    alone = sizes * (rows[group] == 1) if grouped else np.zeros(len(sizes))
    return (shift + step * means)[visible].tolist(), np.where(
        m[group] > 1, distances, alone
    ) * has_value


@dataclass(slots=True)
class Dynamic:
    """The paper's rule for many queries without a preset total (section 5.2).

    Its errors are in docs/methods/rdr.md, E16.

    ``selection``, the cost of the search of Algorithm 3, is charged with each answer; with
    ``rejected`` also if there is no answer, which the paper leaves out. ``spent`` is the exact sum
    of the charges.
    """

    candidates: tuple[float, ...] = CANDIDATES
    selection: Fraction = Fraction(0)
    rejected: bool = False
    spent: Fraction = Fraction(0)

    @property
    def open(self) -> tuple[float, ...]:
        """The candidates above what was spent."""
        return tuple(e for e in self.candidates if Fraction(repr(e)) > self.spent)

    def answer(self, find: Callable[[Sequence[float]], float | None]) -> float | None:
        """Let ``find`` choose among the open candidates, and charge; None if it finds none.

        Without open candidates ``find`` is not called, so nothing reads the data.
        """
        candidates = self.open
        epsilon = find(candidates) if candidates else None
        if epsilon is not None:
            self.spent += Fraction(repr(float(epsilon))) + self.selection
        elif candidates and self.rejected:
            self.spent += self.selection
        return epsilon
