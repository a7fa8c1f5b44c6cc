"""Confidence intervals of variances, from released sums, sums of squares and counts.

Given the mean, a variance is a ratio of released values, like a mean: see :func:`variance`. A box
from the intervals of the mean and of the mean square would be about 1.5 times as wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dpnb.estimation.intervals import Pair, Told, fieller
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.sql.formulas import Variance

if TYPE_CHECKING:
    from dpnb.estimation.estimates import Estimates

ROUNDING = 2.0**-21
"""Bound on the effect of rounding values to ticks, as a share of the largest distance, doubled."""
_APART = 3e-3


def variances(wanted: Variance, mean: Estimates, square: Estimates, alpha: float) -> Told:
    """Return the variance of each group, with a confidence interval that relies on the mean's.

    Parameters
    ----------
    wanted : Variance
    mean, square : Estimates
        Estimates of AVG(x) and of SUM((x - origin)^2 - shift).
    alpha : float
        Failure probability of each interval, in addition to that of the mean's.
    """
    total_distribution, count_distribution, square_distribution = (
        mean.total_distribution,
        mean.count_distribution,
        square.total_distribution,
    )
    if mean.total is None or mean.count is None or square.total is None:
        raise TypeError("a variance is computed from released vectors")
    assert total_distribution and count_distribution and square_distribution  # noqa: S101, PT018
    distributions = Distributions(
        square_distribution, total_distribution, count_distribution, alpha
    )
    values: list[float | None] = []
    ends: list[Pair] = []
    for group, pair in enumerate(zip(mean.low, mean.high, strict=True)):
        sums = Sums(square.total[group], mean.total[group], mean.count[group])
        value, interval = variance(wanted, sums, mean.middle, pair, distributions)
        values.append(value)
        ends.append(interval)
    return values, ends


@dataclass(frozen=True, slots=True)
class Sums:
    """Released sums of a group: squares minus the shift, distances from the middle, rows."""

    square: float
    total: float
    count: float


@dataclass(frozen=True, slots=True)
class Distributions:
    """The independent noise distributions of :class:`Sums`, and a failure probability."""

    square: NoiseDistribution
    total: NoiseDistribution
    count: NoiseDistribution
    alpha: float

    def margin_of_error(self, of_total: float, of_count: float) -> float:
        """Return q with P(|e_S + of_total e_T + of_count e_C| > q) <= alpha."""
        scales = (
            self.square.scale,
            abs(of_total) * self.total.scale,
            abs(of_count) * self.count.scale,
        )
        if self.square.family == "gaussian":
            return NoiseDistribution("gaussian", math.hypot(*scales)).quantile(self.alpha)
        return laplace_quantile(scales, self.alpha)


def variance(
    wanted: Variance, sums: Sums, middle: float, mean: Pair, distributions: Distributions
) -> tuple[float | None, Pair]:
    """Return the variance of one group, and its confidence interval.

    Parameters
    ----------
    wanted : Variance
    sums : Sums
    middle : float
        Origin of ``sums.total``.
    mean : (low, high)
        A confidence interval of the mean, within the bounds.
    distributions : Distributions

    Notes
    -----
    Let a be the origin of the squares, b the middle, k the shift, m the mean, u = m - a,
    t(u) = u^2 + 2 u (a - b) + k. As n u = T + (b - a) n, and n V = S + k n - n u^2,

        S - 2 u T + (t(u) - V) n = 0

    holds for the exact sums S, T, n; with the divisor n - 1 the same plus V. So for released sums
    s, T', c the number s - 2 u T' + t(u) c - V c' (c' = c, or c - 1) is pure noise,
    e_S - 2 u e_T + (t(u) - V) e_C, with a known distribution. The interval contains every V for
    which the number is within its quantile for some u in the interval of the mean. It fails only if
    the interval of the mean does, or the noise at the true m and V exceeds its quantile, which has
    probability at most alpha.

    The set is computed from outside: f(u) = t(u) c - 2 u T' is a parabola whose range is taken over
    the interval, and the quantile is taken at the largest factors of e_T and e_C there; the spread
    of a sum of independent symmetric unimodal noise terms grows with each factor (Birnbaum, On
    random variables with comparable peakedness, 1948). For Gaussian noise the ends are those of two
    Fieller sets (docs/methods/estimation.md, theorem 12), one for each end of the range of t. For
    Laplace noise any bounds on V bound the factor of e_C, so each interval narrows the next one.

    The interval is cut to the possible values: 0 <= V <= H^2 - u^2 for values within H of the
    origin (Bhatia and Davis, A better bound on the variance, 2000), twice that with the divisor
    n - 1. If the count is within its noise of 0, the interval is all possible values.
    """
    origin, shift, half = float(wanted.origin), float(wanted.shift), float(wanted.half)
    divisor = sums.count - 1 if wanted.sample else sums.count
    factor = 2.0 if wanted.sample else 1.0
    low, high = (min(max(end - origin, -half), half) for end in mean)
    nearest = min(max(0.0, low), high)
    possible = 0.0, factor * (half**2 - nearest**2)
    if divisor <= distributions.count.quantile(distributions.alpha):
        return None, possible
    apart = middle - origin
    top = (sums.total + apart * sums.count) / sums.count
    vertex = min(max(top, low), high)

    def weight(u: float) -> float:
        return u * u - 2 * u * apart + shift

    def offset(u: float) -> float:
        return sums.square + weight(u) * sums.count - 2 * u * sums.total

    lifted = max(offset(low), offset(high))
    closest = min(max(apart, low), high)
    weights = weight(closest), max(weight(low), weight(high))
    steep = 2 * max(-low, high)
    pair = _ends((offset(vertex), lifted), divisor, weights, steep, possible, distributions)
    slack = ROUNDING * (half**2 / 2 + steep * half)
    interval = max(pair[0] - slack, 0.0), min(pair[1] + slack, possible[1])
    if interval[0] > interval[1]:
        interval = possible
    return min(max(offset(vertex) / divisor, interval[0]), interval[1]), interval


def _ends(
    offsets: Pair,
    divisor: float,
    weights: Pair,
    steep: float,
    possible: Pair,
    distributions: Distributions,
) -> Pair:
    """Return the least and greatest V with -q <= offset - V divisor <= q for some offset."""
    if distributions.square.family == "gaussian":
        total_half, count_half = (
            NoiseDistribution("gaussian", scale).quantile(distributions.alpha)
            for scale in (
                math.hypot(distributions.square.scale, steep * distributions.total.scale),
                distributions.count.scale,
            )
        )
        lows, highs = [], []
        for weight in weights:
            # with w = weight - V: offset - V divisor = (offset - weight divisor) + w divisor
            least = fieller(weight * divisor - offsets[0], divisor, total_half, count_half)
            greatest = fieller(weight * divisor - offsets[1], divisor, total_half, count_half)
            lows.append(weight - least[1])
            highs.append(weight - greatest[0])
        return min(lows), max(highs)
    low, high = possible
    for _ in range(3):
        reach = max(abs(weight - end) for weight in weights for end in (low, high))
        half = distributions.margin_of_error(steep, reach)
        low = max(low, (offsets[0] - half) / divisor)
        high = min(high, (offsets[1] + half) / divisor)
        if low > high:
            break
    return low, high


def laplace_quantile(scales: Sequence[float], alpha: float) -> float:
    """Return q with P(|X| > q) <= ``alpha`` for a sum X of independent Laplace noise.

    With different scales, P(|X| > q) = sum_i exp(-q / b_i) prod_{j != i} b_i^2 / (b_i^2 - b_j^2),
    by partial fractions of the characteristic function. Nearly equal scales are first moved apart
    upward, which increases q by less than a hundredth.

    Examples
    --------
    >>> round(laplace_quantile([1.0], 0.05), 6)
    2.995732
    """
    largest = max(scales)
    shares = tuple(sorted(scale / largest for scale in scales if scale > 0))
    return largest * _unit_quantile(shares, alpha) if shares else 0.0


@lru_cache(maxsize=65536)
def _unit_quantile(shares: tuple[float, ...], alpha: float) -> float:
    apart: list[float] = []
    for share in shares:
        apart.append(max(share, apart[-1] * (1 + _APART)) if apart else share)
    factors = [math.prod(b * b / ((b - c) * (b + c)) for c in apart if c != b) for b in apart]
    low, high = 0.0, -math.log(alpha / len(apart)) * math.fsum(apart)
    for _ in range(60):
        middle = (low + high) / 2
        tail = math.fsum(f * math.exp(-middle / b) for f, b in zip(factors, apart, strict=True))
        low, high = (middle, high) if tail > alpha else (low, middle)
    return high
