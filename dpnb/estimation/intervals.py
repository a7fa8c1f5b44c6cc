"""Confidence intervals for exact values, given released values and their noise distribution.

The data are fixed; the only randomness is the noise. ``alpha`` is the failure probability of one
confidence interval: P(the interval does not contain the exact value) <= alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from dpnb.codes import outward
from dpnb.privacy.calibrate import NoiseDistribution, sum_quantile

Pair: TypeAlias = tuple[float, float]
Told: TypeAlias = tuple[list[float | None], list[Pair]]
"""A value for each group, None if it has too few rows to tell, and its confidence interval."""
Mode: TypeAlias = Literal["tight", "paper"]


def shifted(ends: Pair, by: float) -> Pair:
    """Shift an interval; round its ends outward, because far from 0 floats are far apart."""
    return _plus(ends[0], by, -math.inf), _plus(ends[1], by, math.inf)


def _plus(value: float, by: float, towards: float) -> float:
    nearest = value + by
    if not math.isfinite(nearest):
        return nearest
    # the exact rounding error (Knuth's two-sum)
    back = nearest - value
    error = (value - (nearest - back)) + (by - back)
    return math.nextafter(nearest, towards) if error and (error > 0) == (towards > 0) else nearest


def around(value: float, distribution: NoiseDistribution, alpha: float) -> Pair:
    """Return value -+ quantile: the confidence interval of a COUNT or SUM.

    Theorem 2 of docs/methods/estimation.md.
    """
    half = distribution.quantile(alpha)
    return value - half, value + half


def ratio(total: Pair, count: Pair) -> Pair:
    """Return the range of S/C over a box (docs/methods/estimation.md, definition 14).

    All reals if the count's interval reaches 0 or lies below it.
    """
    (sl, su), (cl, cu) = total, count
    if cl <= 0:
        return -math.inf, math.inf
    return (sl / cu if sl >= 0 else sl / cl), (su / cl if su >= 0 else su / cu)


def mean_in_box(
    total: float,
    count: float,
    total_distribution: NoiseDistribution,
    count_distribution: NoiseDistribution,
    alpha: float,
) -> Pair:
    """Return the paper's confidence interval of an AVG: a box of two intervals at alpha / 2 each.

    DPXPlain section 4.2 (Lemma 4.1); very conservative, kept for comparison.
    """
    return ratio(
        around(total, total_distribution, alpha / 2), around(count, count_distribution, alpha / 2)
    )


def mean_around_zero(
    total: float,
    count: float,
    total_distribution: NoiseDistribution,
    count_distribution: NoiseDistribution,
    alpha: float,
) -> Pair:
    """Return the confidence interval of a mean, from a centred sum and a count.

    {m : |S - m C| <= q(m)} with q(m) the quantile of the noise of S - m C
    (docs/methods/estimation.md, theorem 5: Fieller's set; exact). All reals if C is within its own
    noise of 0.
    """
    if count <= count_distribution.quantile(alpha):
        return -math.inf, math.inf
    if total_distribution.family == "gaussian":
        return fieller(
            total, count, total_distribution.quantile(alpha), count_distribution.quantile(alpha)
        )
    low = -_laplace_end(-total, count, total_distribution, count_distribution, alpha)
    return low, _laplace_end(total, count, total_distribution, count_distribution, alpha)


def fieller(total: float, count: float, total_half: float, count_half: float) -> Pair:
    """Solve (S - m C)^2 = h_S^2 + m^2 h_C^2 for m; here C > h_C, so the radicand is positive."""
    a = count**2 - count_half**2
    b = total * count
    # the square of a sum may be too large for a float
    root = math.hypot(total_half * math.sqrt(a), count_half * total)
    return (b - root) / a, (b + root) / a


def _laplace_end(
    total: float,
    count: float,
    total_distribution: NoiseDistribution,
    count_distribution: NoiseDistribution,
    alpha: float,
) -> float:
    """Return the upper end: the root of m C - S = q(m) above S/C, by chords (the Illinois method).

    q is convex in |m| with slope at most the count's own quantile, which is below C, so m C - q(m)
    increases and there is only one root. The end of the bracket that is outside is returned.
    """

    def noise(mean: float) -> float:
        spread = NoiseDistribution("laplace", count_distribution.scale * abs(mean))
        return sum_quantile(total_distribution, spread, alpha)

    def excess(mean: float) -> float:
        return mean * count - total - noise(mean)

    low = total / count
    # at least this far from the estimate, as q is least at 0
    step = total_distribution.quantile(alpha) / count
    high = low + step
    while (above := excess(high)) <= 0:
        low, step = high, 2 * step
        high = low + step
        if math.isinf(high):
            return high
    below, last = excess(low), 0
    least = 1e-14 * step + 1e-15 * abs(high)
    while high - low > 2 * least:
        chord = high - above * (high - low) / (above - below)
        middle = min(max(chord, low + least), high - least)
        if (found := excess(middle)) > 0:
            high, above, below, last = middle, found, below / 2 if last > 0 else below, 1
        else:
            low, below, above, last = middle, found, above / 2 if last < 0 else above, -1
    return high


@lru_cache(maxsize=1024)
def range_quantile(alpha: float, groups: int) -> float:
    """Return q with P(max - min of ``groups`` standard normals > q) = ``alpha``.

    The studentised range with infinite degrees of freedom:
    P(range <= q) = k integral phi(z) (Phi(z) - Phi(z - q))^(k-1) dz, by the trapezoid rule, which
    is exact to machine precision for such integrands.
    """
    step = 1 / 16
    grid = [i * step for i in range(-10 * 16, 10 * 16 + 1)]
    weights = [groups * step * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in grid]
    below = [0.5 * math.erfc(-z / math.sqrt(2)) for z in grid]

    def tail(q: float) -> float:
        # 1 - P(range <= q), summed as differences so that small tails keep their digits
        probability = 0.0
        for z, weight, phi in zip(grid, weights, below, strict=True):
            lower = 0.5 * math.erfc((q - z) / math.sqrt(2))
            power = phi ** (groups - 1)
            if power > 0:
                probability -= (
                    weight
                    * power
                    * math.expm1((groups - 1) * math.log1p(-min(lower / phi, 1 - 1e-16)))
                )
        return probability

    low, high = 0.0, 60.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > alpha else (low, middle)
    return high


def combine(ends: Sequence[Pair], weights: Sequence[Fraction], shift: Fraction) -> Pair:
    """Return the interval of a weighted sum plus ``shift``, from an interval of each term.

    It holds whenever all of ``ends`` hold (docs/methods/estimation.md, theorem 11): on a box, a
    linear function has its minimum and maximum at corners. An end is infinite if it depends on an
    infinite one or is too large for a float.
    """
    terms = [
        (weight, pair if weight > 0 else pair[::-1])
        for pair, weight in zip(ends, weights, strict=True)
    ]
    sides = [
        sum((weight * Fraction(pair[side]) for weight, pair in terms), shift)
        if all(math.isfinite(pair[side]) for _, pair in terms)
        else None
        for side in (0, 1)
    ]
    low, high = (
        towards if side is None else outward(side, towards)
        for side, towards in zip(sides, (-math.inf, math.inf), strict=True)
    )
    return low, high


def combination_margin_of_error(
    distribution: NoiseDistribution,
    alpha: float,
    weights: Sequence[Fraction],
    groups: int,
    *,
    planned: bool,
) -> float:
    """Return the margin of error of a weighted sum of groups' COUNTs or SUMs.

    Theorems 8 to 10 of docs/methods/estimation.md.

    Parameters
    ----------
    distribution : NoiseDistribution
        Noise of each group, independent.
    alpha : float
        Failure probability.
    weights : sequence of Fraction
        One for each compared group, none 0; exact, so that a sum of 0 is recognised.
    groups : int
        Number of groups of the answer.
    planned : bool
        Whether groups and weights were fixed before anybody saw the answers.

    Notes
    -----
    Planned: the margin holds for this sum alone. It is exact for Gaussian noise and for up to two
    groups with Laplace noise.

    Not planned, weights that add up to 0 (contrasts): simultaneous over **all contrasts** of the
    groups, including pairs (Tukey's method: Scheffe, The Analysis of Variance, 1959, section
    3.6). With P = sum|w| / 2, the positive weights add up to P and the negative ones to -P, so
    |sum w e| <= P (max e - min e). The range of the noise is bounded by the studentised range for
    Gaussian noise, and by the union bound over pairs for Laplace. Exact for pairs with Gaussian
    noise.

    Not planned, other weights: simultaneous over **all weights**, from each group's confidence
    interval at alpha / groups: |sum w e| <= sum|w| max|e|.

    Each of the last two kinds holds with confidence 1 - alpha. If sums are picked freely from both,
    all of them hold together with confidence 1 - 2 alpha.
    """
    sizes = [abs(float(weight)) for weight in weights]
    if planned:
        return _planned_margin_of_error(distribution, alpha, sizes)
    if sum(weights) != 0:
        return distribution.quantile(alpha / groups) * math.fsum(sizes)
    if distribution.family == "gaussian":
        spread = distribution.scale * range_quantile(alpha, groups)
    else:
        spread = sum_quantile(distribution, distribution, alpha / (groups * (groups - 1) / 2))
    return spread * (math.fsum(sizes) / 2)


def _planned_margin_of_error(
    distribution: NoiseDistribution, alpha: float, sizes: Sequence[float]
) -> float:
    if distribution.family == "gaussian":
        return distribution.quantile(alpha) * math.hypot(*sizes)
    if len(sizes) <= 2:
        first, second = [
            NoiseDistribution("laplace", distribution.scale * size) for size in (*sizes, 0.0)
        ][:2]
        return sum_quantile(first, second, alpha)
    union = math.fsum(sizes) * -math.log(alpha / len(sizes))
    return distribution.scale * min(union, _chernoff(alpha, sizes))


def _chernoff(alpha: float, scales: Sequence[float]) -> float:
    """Return t with P(|sum of independent Laplace noise| > t) <= ``alpha``.

    P <= 2 exp(-u t) prod 1 / (1 - u^2 b^2) for every 0 < u < 1 / max b (Chernoff), so any u gives a
    valid t. t is quasi-convex in u, and the search ends near its minimum.
    """
    largest = max(scales)
    ratios = [scale / largest for scale in scales]

    def margin_of_error(u: float) -> float:
        return (math.log(2 / alpha) - sum(math.log1p(-((u * r) ** 2)) for r in ratios)) / u

    low, high = 0.0, 1.0
    for _ in range(60):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if margin_of_error(a) < margin_of_error(b) else (a, high)
    return largest * margin_of_error(low + (high - low) / 3)
