"""Confidence intervals of quantiles, from released counts of the declared bins of a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.estimation.intervals import Pair, Told
from dpnb.estimation.noise import mixture
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.schema.columns import Integer, Real
from dpnb.schema.partition import declared
from dpnb.sql.formulas import Quantile

if TYPE_CHECKING:
    import numpy as np

    from dpnb.estimation.estimates import Estimates

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_ANCHORS = 128
"""Number of cuts with a computed margin of error for Laplace noise; other cuts use a nearby one."""


def edges(kind: Integer | Real) -> list[Pair]:
    """Return the least and greatest value of each declared bin; for Real, its edges."""
    if isinstance(kind, Real) and kind.bins is not None:
        return list(zip(kind.bins[:-1], kind.bins[1:], strict=True))
    pieces = declared("", {"": kind}).numbers.pieces
    return [(float(low), float(high)) for low, high, _ in pieces]


def quantiles(wanted: Quantile, cells: Estimates, kind: Integer | Real, alpha: float) -> Told:
    """Return the quantile of each group with its confidence interval.

    Parameters
    ----------
    wanted : Quantile
    cells : Estimates
        Counts of the bins of all groups; the bin is the fastest index.
    kind : Integer or Real
        The column, with its declared bins.
    alpha : float
        Failure probability of each confidence interval.

    Notes
    -----
    The quantile is the smallest value with at least a share q of the rows at or below it. Let n_j
    be the exact counts of the bins in order, N their sum, and T_k = (n_1 + ... + n_k) - q N for a
    cut after bin k. The quantile lies in bin k if and only if T_k >= 0 > T_(k-1). T_k is the sum of
    the counts below the cut times 1 - q minus that of the others times q, so its noise has a known
    distribution, symmetric around 0; let h_k be its quantile, P(noise > h_k) <= alpha / 2. The
    confidence interval contains the bins k that neither of two tests rejects, T'_k >= -h_k and
    T'_(k-1) <= h_(k-1) with T' the released values, and the bins between them. The exact quantile
    lies in one fixed bin. At that bin each test fails with probability at most alpha / 2, so the
    interval fails to contain it with probability at most alpha. Only the two tests at the true bin
    matter, so the number of bins costs nothing.

    The same interval holds for quantiles that interpolate, as PERCENTILE_CONT does: the value lies
    between those of ranks floor(y) + 1 and ceil(y) + 1 with y = q (N - 1), and these lie in bins
    with T_k > -q and T_(k-1) < 1 - q. The tests leave that room, which is less than one row.

    The estimate is in the bin that minimises the sum of T'_j before it, as the exact quantile
    minimises that of T_j. There the isotonic regression of T' crosses 0, and it is never outside
    the interval. The estimate is interpolated within a bin, while the interval ends with whole
    bins. If the number of rows is within its noise of 0, all declared values are possible.
    """
    import numpy as np

    distribution = cells.count_distribution
    if cells.count is None or distribution is None:
        raise TypeError("a quantile is computed from released counts")
    ends = edges(kind)
    share, size = float(wanted.share), len(ends)
    counts = np.array(cells.count, dtype=np.float64).reshape(-1, size)
    halves = margins_of_error(share, size, distribution, alpha)
    fewest = margins_of_error(0.0, size, distribution, alpha)[-1]
    values: list[float | None] = []
    intervals: list[Pair] = []
    for group in counts:
        rows = float(group.sum())
        if rows <= fewest:
            values.append(None)
            intervals.append((ends[0][0], ends[-1][1]))
            continue
        above = np.cumsum(group) - share * rows
        first, last = _reached(above[:-1], halves[:-1], share)
        intervals.append((ends[first][0], ends[last][1]))
        point = _point(above, -share * rows, ends)
        values.append(float(math.floor(point + 0.5)) if isinstance(kind, Integer) else point)
    return values, intervals


def _reached(above: Floats, halves: Floats, share: float) -> tuple[int, int]:
    """Return the first and the last bin that is not rejected, from the cuts between bins."""
    import numpy as np

    size = len(above) + 1
    not_below = np.flatnonzero(above >= -halves - share)
    not_above = np.flatnonzero(above <= halves + 1 - share)
    first = int(not_below[0]) if len(not_below) else size - 1
    last = int(not_above[-1]) + 1 if len(not_above) else 0
    return first, last


def _point(above: Floats, start: float, ends: Sequence[Pair]) -> float:
    """Return the value at which the cumulative counts cross the share."""
    import numpy as np

    before = np.concatenate(([start], above[:-1]))
    cell = int(np.argmin(np.concatenate(([0.0], np.cumsum(above[:-1])))))
    low, high = ends[cell]
    if low == high:
        return low
    rise = float(above[cell] - before[cell])
    part = min(max(-float(before[cell]) / rise, 0.0), 1.0) if rise > 0 else 0.5
    return low + part * (high - low)


def margins_of_error(
    share: float, size: int, distribution: NoiseDistribution, alpha: float
) -> Floats:
    """Return h_k with P(|noise of T_k| > h_k) <= ``alpha`` for cuts k = 1 ... size, shape (size,).

    The noise of T_k has weight 1 - share on k counts and share on the others. For Laplace noise h_k
    rises with k for shares below one half, and falls above: the spread of a sum of independent
    symmetric unimodal noise terms grows with each of their scales (Birnbaum, On random variables
    with comparable peakedness, 1948). So if there are many cuts, the larger margin of the two
    nearest computed cuts is safe.
    """
    import numpy as np

    below = np.arange(1, size + 1, dtype=np.float64)
    if distribution.family == "gaussian":
        unit = NoiseDistribution("gaussian", distribution.scale).quantile(alpha)
        squares: Floats = (1 - share) ** 2 * below + share**2 * (size - below)
        return unit * np.sqrt(squares)

    def margin_of_error(cut: int) -> float:
        weights = [1 - share] * cut + [share] * (size - cut)
        return mixture(weights, [distribution] * size).margin_of_error(alpha)

    if share == 0.5:
        return np.full(size, margin_of_error(size))
    if share == 0:
        # the caller needs only the last: the noise of the number of rows
        return np.full(size, margin_of_error(size))
    anchors = np.unique(np.linspace(1, size, min(size, _ANCHORS)).round().astype(np.int64))
    margins = np.array([margin_of_error(int(cut)) for cut in anchors])
    right = np.searchsorted(anchors, below)
    left = np.searchsorted(anchors, below, side="right") - 1
    wider: Floats = np.maximum(margins[left], margins[right])
    return wider
