"""Confidence intervals of means and ratios of values that share noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import methodcaller
from typing import TypeAlias

from dpnb.estimation.joint import Joint, Quantity
from dpnb.estimation.noise import Mixture

Pair: TypeAlias = tuple[float, float]
Width: TypeAlias = Callable[[Mixture], float]


def mean_interval(joint: Joint, total: int, count: int, width: Width) -> Pair:
    """Return the confidence interval of a mean, from a centred sum and a count.

    {m : |S - m C| <= q(m)}, with q(m) the margin of error of S - m C, whose noise the two may share
    (docs/methods/bayes.md, theorem 10: Fieller's set). All reals if C is within its own noise of 0.

    Parameters
    ----------
    width : callable
        From a noise distribution to a margin of error.
    """
    s, c = float(joint.estimates[total]), float(joint.estimates[count])
    if c <= width(joint.distribution(count)):
        return -math.inf, math.inf
    middle, quantile = s / c, _widths(joint, total, count, width)
    # q is convex with slopes below C in size, so m C - S - q(m) rises and has one root
    high = _root(lambda m: m * c - s - quantile(m), middle)
    return -_root(lambda m: m * c + s - quantile(-m), -middle), high


def mean_and_interval(
    joint: Joint, total: int, count: int, width: Width
) -> tuple[float | None, Pair]:
    """Return a mean, None if there are too few rows to tell, and its :func:`mean_interval`."""
    interval = mean_interval(joint, total, count, width)
    s, c = float(joint.estimates[total]), float(joint.estimates[count])
    return None if math.isinf(interval[1]) else s / c, interval


def ratio(joint: Joint, i: int, j: int, alpha: float = 0.05) -> Quantity:
    """Return value i / value j with Fieller's interval, which holds for both families of noise.

    All reals if the sign of value j is not certain at this confidence. Quantiles of joint draws
    would be too narrow near this case: at 95 % they cover 94 %.
    """
    if i == j:
        return Quantity(1.0, 1.0, 1.0, 1 - alpha)
    above, below = float(joint.estimates[i]), float(joint.estimates[j])
    value = above / below if below else math.nan
    # the same ratio with a positive denominator
    side = joint if below > 0 else replace(joint, estimates=-joint.estimates)
    low, high = mean_interval(side, i, j, methodcaller("margin_of_error", alpha))
    return Quantity(value, low, high, 1 - alpha)


def _widths(joint: Joint, total: int, count: int, width: Width) -> Callable[[float], float]:
    """Return the function q(m), the margin of error of S - m C."""
    if not joint.gaussian:
        return lambda m: width(joint.distribution({total: 1.0, count: -m}))
    weights = joint.weights[[total, count]]
    covariance = weights * joint.variances @ weights.T
    z = width(Mixture((), 1.0))
    margins = joint.distribution(total).margin, joint.distribution(count).margin

    def gaussian(m: float) -> float:
        variance = covariance[0, 0] - 2 * m * covariance[0, 1] + m * m * covariance[1, 1]
        return z * math.sqrt(max(float(variance), 0.0)) + margins[0] + abs(m) * margins[1]

    return gaussian


def _root(rising: Callable[[float], float], start: float) -> float:
    """Return where a function, not positive at ``start``, becomes positive."""
    from scipy.optimize import brentq

    step = 1.0 + abs(start)
    while rising(start + step) <= 0:
        step *= 2
        if math.isinf(step):
            return step
    most = start + step
    if rising(start) >= 0:
        return start
    slack = 1e-9 * (abs(start) + abs(most))
    return float(brentq(rising, start, most, xtol=slack)) + slack
