"""How evenly epsilons are spread over groups: the least entropy of which group a row is in.

With a uniform prior, and after releases that cost a row of group i at most epsilon_i, the
probability p_i that it is in group i lies in
[e^(-epsilon_i) / sum e^epsilon, e^epsilon_i / sum e^(-epsilon)].
The result is the smallest Shannon entropy of such p, as a share of ln k (docs/methods/probe.md,
definition 24). It is for comparison, and never a budget.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

MOST_ENUMERATED = 12
"""Up to this many groups the vertices are enumerated."""


def box(epsilons: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest probability of each group, shape (k,)."""
    all_low, all_high = np.logaddexp.reduce(epsilons), np.logaddexp.reduce(-epsilons)
    with np.errstate(under="ignore"):
        low = np.exp(-epsilons - all_low)
        high = np.exp(np.minimum(epsilons - all_high, 0.0))
    # both are 1/k when nothing was spent
    return low, np.maximum(low, high)


def surprise(p: Floats) -> Floats:
    """Return -p ln p, with 0 at p = 0."""
    return np.asarray(-p * np.log(np.where(p > 0, p, 1.0)))


def min_entropy(epsilons: npt.ArrayLike) -> float:
    """Return the smallest entropy as a share of ln k: exact for k <= 12 and for equal epsilons.

    Otherwise return a lower bound: the best Lagrange multiplier of sum p = 1, with each p at the
    better end of its range.

    Parameters
    ----------
    epsilons : array_like of float, shape (k,)
        Each >= 0.

    Examples
    --------
    >>> round(min_entropy([0.5] * 4), 6)
    0.702065
    """
    spent = np.asarray(epsilons, dtype=np.float64)
    if len(spent) == 1:
        return 1.0
    if spent.min() == spent.max():
        return greedy(spent)
    least = enumerated(spent) if len(spent) <= MOST_ENUMERATED else dual(spent)
    return max(0.0, least) / math.log(len(spent))


def greedy(epsilons: Floats) -> float:
    """Return the entropy, as a share of ln k, of one p: raise groups in falling order of epsilon.

    It is an upper bound on the smallest entropy, and equals it when all epsilons are equal.
    """
    low, high = box(-np.sort(-epsilons))
    room = np.cumsum(high - low)
    rest = 1 - low.sum()
    raised = int(np.searchsorted(room, rest, side="right"))
    p = np.where(np.arange(len(low)) < raised, high, low)
    if raised < len(low):
        p[raised] += rest - (room[raised - 1] if raised else 0.0)
    return float(surprise(p).sum()) / math.log(len(low))


def enumerated(epsilons: Floats) -> float:
    """Return the smallest entropy in nats over all vertices, where all p but one are at an end."""
    low, high = box(epsilons)
    k = len(low)
    ends = (np.arange(1 << (k - 1))[:, None] >> np.arange(k - 1) & 1).astype(bool)
    least = math.inf
    for free in range(k):
        others = np.where(ends, np.delete(high, free), np.delete(low, free))
        rest = 1 - others.sum(axis=1)
        slack = 1e-12
        fits = (rest >= low[free] - slack) & (rest <= high[free] + slack)
        if fits.any():
            entropies = surprise(others[fits]).sum(axis=1) + surprise(np.maximum(rest[fits], 0.0))
            least = min(least, float(entropies.min()))
    return least


def dual(epsilons: Floats) -> float:
    """Return a lower bound on the smallest entropy in nats, in O(k log k).

    max over nu of  sum_i min(h(l_i) + nu l_i, h(u_i) + nu u_i) - nu  with h(p) = -p ln p. It is
    concave and piecewise linear in nu, so its maximum is at the breakpoint where the slope turns
    negative.
    """
    low, high = box(epsilons)
    open_ = high > low
    at_low, at_high = surprise(low), surprise(high)
    breaks = (at_low[open_] - at_high[open_]) / (high[open_] - low[open_])
    order = np.argsort(breaks)
    # beyond its breakpoint, a group is at its low end
    slope = high.sum() - 1 - np.cumsum((high - low)[open_][order])
    nu = breaks[order][min(int(np.searchsorted(-slope, 0.0)), len(order) - 1)]
    return float(np.minimum(at_low + nu * low, at_high + nu * high).sum() - nu)
