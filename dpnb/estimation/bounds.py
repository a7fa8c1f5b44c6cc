"""Bounds that hold for all queries at once, even if chosen after a look or not estimable.

All noise draws stay within their allowances with probability at least the confidence. The exact
counts then solve a system of inequalities, and a query lies between its least and greatest value
there: two linear programs over atoms (docs/methods/bayes.md, theorem 14).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError, given
from dpnb.estimation.atoms import Support, support
from dpnb.estimation.history import History
from dpnb.privacy.calibrate import NoiseDistribution

if TYPE_CHECKING:
    from dpnb.estimation.atoms import Cells, Floats, Values

Pair: TypeAlias = tuple[float, float]

SLACK = 1e-7
"""How far ends move outward, in units of the largest number, for the tolerance of the solver."""


def allowances(
    distributions: Sequence[NoiseDistribution],
    alpha: float,
    granularities: Sequence[float] | None = None,
    *,
    growing: bool = False,
) -> list[float]:
    """Return q_i with P(some |noise i| > q_i) <= ``alpha``.

    Each noise gets the share alpha / m, or 6 alpha / (pi^2 i^2) for a history that may grow without
    limit (docs/methods/bayes.md, theorem 14).

    Parameters
    ----------
    distributions : sequence of NoiseDistribution, length m
    alpha : float
        Failure probability, 0 < alpha < 1.
    granularities : sequence of float, length m
        Spacings of the lattices; half a spacing is added.
    growing : bool

    Examples
    --------
    >>> [round(q, 3) for q in allowances([NoiseDistribution("laplace", 1.0)] * 2, 0.1)]
    [2.996, 2.996]
    """
    if not 0 < alpha < 1:
        raise RequestError(
            f"alpha must be between 0 and 1, got {given(alpha)}", "Use 0.05 for 95 %."
        )
    steps = [0.0] * len(distributions) if granularities is None else granularities
    return [
        distribution.quantile(
            6 * alpha / (math.pi * place) ** 2 if growing else alpha / len(distributions)
        )
        + step / 2
        for place, (distribution, step) in enumerate(zip(distributions, steps, strict=True), 1)
    ]


def closed_form(weights: Sequence[float] | Floats, widths: Sequence[float]) -> float:
    """Return an estimate's margin of error that holds for all queries at once: sum |A_i| q_i.

    Parameters
    ----------
    weights : floats, shape (m,)
        A, with estimate = A y.
    widths : floats, length m
        Output of :func:`allowances`.
    """
    return math.fsum(abs(float(w)) * q for w, q in zip(weights, widths, strict=True))


def guaranteed(
    history: History,
    queries: Sequence[tuple[Cells, Values]],
    alpha: float,
    *,
    nonnegative: bool = True,
    growing: bool = False,
) -> list[Pair]:
    """Return bounds of queries that all hold together with probability 1 - ``alpha``.

    The promise covers all other queries, too: the failure probability is not divided among queries.

    Parameters
    ----------
    history : History
        Without planned rows.
    queries : sequence of (index, value)
        They need not be estimable, and may be chosen after looking at answers.
    alpha : float
        Failure probability, 0 < alpha < 1.
    nonnegative : bool
        Whether every bin is at least 0, as for counts.
    growing : bool
        Whether the promise also covers rows that are added later.

    Returns
    -------
    list of (low, high)
        Infinite if nothing bounds the query.

    Raises
    ------
    RequestError
        If no counts fit the answers within the allowances: they contradict each other.

    Examples
    --------
    >>> history = History.of([[1, 1], [1, 0]], [30.0, 10.0], NoiseDistribution("laplace", 1.0))
    >>> ((low, high),) = guaranteed(history, [([1], 1.0)], 0.1)
    >>> round(low, 3), round(high, 3)
    (14.009, 25.991)
    """
    import numpy as np
    from scipy.sparse import csr_array, vstack

    rows, space = history.rows, history.space
    if any(row.planned for row in rows):
        raise RequestError("Planned rows have no answers yet", "Leave them out.")
    steps = [row.granularity for row in rows]
    widths = np.array(allowances([row.distribution for row in rows], alpha, steps, growing=growing))
    # the solver's tolerances are absolute, so each row and cost is in units of its largest number
    sizes = np.abs(space.matrix).max(axis=1, initial=0.0)
    matrix = csr_array(space.matrix / sizes[:, None])
    answers, widths = space.answers / sizes, widths / sizes
    constraints = vstack([matrix, -matrix], format="csr") if rows else None
    limits = np.concatenate([answers + widths, widths - answers])
    largest = float(np.abs(limits).max(initial=1.0))
    bounds = []
    for index, value in queries:
        low, high = _coefficients(history, support(history.cells, index, value))
        if not nonnegative and (low != high).any():
            # bins of one atom can offset each other without limit
            bounds.append((-math.inf, math.inf))
            continue
        least, size = 0.0 if nonnegative else None, float(np.abs([low, high]).max()) or 1.0
        first = size * (_minimum(low / size, constraints, limits, least) - SLACK * largest)
        last = -size * (_minimum(-high / size, constraints, limits, least) - SLACK * largest)
        bounds.append((max(first, 0.0) if nonnegative and (low >= 0).all() else first, last))
    return bounds


def _coefficients(history: History, query: Support) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of a query in each atom, shape (atoms,)."""
    import numpy as np

    atoms = history.space.atoms
    labels = atoms.labels[query.where]
    partly = np.bincount(labels, minlength=len(atoms)) < atoms.sizes
    low, high = np.where(partly, 0.0, math.inf), np.where(partly, 0.0, -math.inf)
    np.minimum.at(low, labels, query.value)
    np.maximum.at(high, labels, query.value)
    return low, high


def _minimum(cost: Floats, rows: Any, limits: Floats, least: float | None) -> float:
    """Return the minimum of ``cost`` s over s with rows s <= limits; -inf if it is unbounded."""
    from scipy.optimize import linprog

    if not cost.any() and rows is None:
        return 0.0
    problem = {
        "c": cost,
        "A_ub": rows,
        "b_ub": None if rows is None else limits,
        "bounds": (least, None),
        "method": "highs",
    }
    solution = linprog(**problem)
    if solution.status == 4:
        # presolving cannot tell infeasible from unbounded
        solution = linprog(**problem, options={"presolve": False})
    if solution.status == 2:
        raise RequestError(
            "The past answers contradict each other: no counts fit them all",
            "Check whether one was changed, entered twice, or is about other data.",
        )
    if solution.status == 3:
        return -math.inf
    if solution.status != 0:
        raise RequestError("The bounds could not be computed", "Ask for a fresh answer.")
    return float(solution.fun)
