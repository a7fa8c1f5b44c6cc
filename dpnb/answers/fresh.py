"""How much noise a fresh answer may have, given past answers.

Theorem 11 of docs/methods/bayes.md.

The past estimate and the fresh answer are combined with weights by their variances, so the fresh
answer alone need not have the requested accuracy. Everything here depends on noise distributions
only, never on an answer: the choice costs neither budget nor coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

from dpnb.errors import RequestError, given
from dpnb.estimation.noise import Mixture

Family: TypeAlias = Literal["gaussian", "laplace"]

_NORMAL = NormalDist()
BISECTIONS = 40


@dataclass(frozen=True, slots=True)
class Fresh:
    """The noise that a fresh answer may have.

    Attributes
    ----------
    scale : float
        Sigma or b of its distribution, in units of the answer; infinite if past answers suffice.
    combined : bool
        Whether the accuracy is that of the answer combined with the past estimate, or of it alone.
    """

    scale: float
    combined: bool

    @property
    def needed(self) -> bool:
        """Whether a fresh answer is needed at all."""
        return math.isfinite(self.scale)


@dataclass(frozen=True, slots=True)
class Combined:
    """A past estimate combined with a fresh answer.

    Attributes
    ----------
    estimate, variance : float
    weight : float
        Of the fresh answer; the weights of the past ones are multiplied by 1 minus this.
    """

    estimate: float
    variance: float
    weight: float


def _check(half: float, alpha: float) -> None:
    if not 0 < half < math.inf:
        raise RequestError(
            f"A margin of error must be positive, got {given(half)}", "Write error=10."
        )
    if not 0 < alpha < 1:
        raise RequestError(
            f"alpha must be between 0 and 1, got {given(alpha)}", "Use 0.05 for 95 %."
        )


def alone(family: Family, half: float, alpha: float) -> float:
    """Return the largest scale at which a fresh answer has margin of error ``half`` by itself.

    Laplace b = h / ln(1/alpha) (Xiao and Xiong, Theorem 5.3); Gaussian sigma = h / z.

    Parameters
    ----------
    family : {'gaussian', 'laplace'}
    half : float
        Positive, in units of the answer.
    alpha : float
        Failure probability, 0 < alpha < 1.

    Examples
    --------
    >>> round(1 / alone("laplace", 25, 0.2), 12)
    0.064377516497
    """
    _check(half, alpha)
    return half / (-math.log(alpha) if family == "laplace" else -_NORMAL.inv_cdf(alpha / 2))


def level(family: Family, scale: float, sensitivity: float) -> float:
    """Return a scale's level: epsilon = S / b for Laplace, rho = S^2 / (2 sigma^2) for Gaussian."""
    ratio = sensitivity / scale
    return ratio if family == "laplace" else ratio * ratio / 2


def combine(estimate: float, variance: float, answer: float, fresh_variance: float) -> Combined:
    """Return the best combination of a past estimate and a fresh answer to the same query.

    w = var / (var + v), variance 1 / (1/var + 1/v) (docs/methods/bayes.md, theorem 11).

    Parameters
    ----------
    estimate, variance : float
        The past estimate; its variance is infinite if there is none.
    answer, fresh_variance : float
        The fresh answer; its variance is positive and finite.
    """
    if math.isinf(variance):
        return Combined(answer, fresh_variance, 1.0)
    weight = variance / (variance + fresh_variance)
    return Combined(estimate + weight * (answer - estimate), weight * fresh_variance, weight)


def beside(target: float, variance: float) -> float:
    """Return the fresh variance that brings a past one down to ``target``: 1 / (1/v* - 1/var).

    Infinite if the past variance is small enough already.
    """
    if variance <= target:
        return math.inf
    return 1 / (1 / target - 1 / variance)


def merged_distribution(
    past: Mixture, scale: float, family: Family, granularity: float = 0.0
) -> Mixture:
    """Return the distribution of the error of a past estimate combined with a fresh answer.

    Parameters
    ----------
    past : Mixture
        Distribution of the past estimate's error; an exact estimate stays exact.
    scale : float
        Scale of the fresh answer's noise.
    family : {'gaussian', 'laplace'}
    granularity : float
        Resolution of the fresh answer's lattice.
    """
    variance = past.sd**2
    if not variance:
        return past
    w = variance / (variance + scale * scale * (2 if family == "laplace" else 1))
    scales = tuple((1 - w) * c for c in past.scales)
    rest = (1 - w) ** 2 * past.variance
    if family == "laplace":
        scales += (w * scale,)
    else:
        rest += (w * scale) ** 2
    return Mixture(scales, rest, max((1 - w) * past.margin, w * granularity / 2))


def least(
    past: Mixture | None,
    half: float,
    alpha: float,
    family: Family,
    granularity: float = 0.0,
) -> Fresh:
    """Return the noisiest fresh answer that reaches a margin of error together with the past.

    For Gaussian noise sigma^2 = 1 / (1/v* - 1/var) with v* = (h/z)^2. Otherwise the scale is
    doubled and bisected, with the distribution of the combination as the test. The last scale that
    passed is kept, so no monotonicity is needed (docs/methods/bayes.md, theorem 11).

    Parameters
    ----------
    past : Mixture or None
        Distribution of the past estimate's error; None if there is no estimate.
    half : float
        Requested margin of error, positive.
    alpha : float
        Failure probability, 0 < alpha < 1.
    family : {'gaussian', 'laplace'}
        Family of the fresh noise.
    granularity : float
        Resolution of the fresh answer's lattice, 0 or more; must leave room within ``half``.
    """
    margin = granularity / 2
    if not half > margin:
        raise RequestError(
            "The rounding of this answer is coarser than the requested error",
            "Request a larger error.",
        )
    start = alone(family, half - margin, alpha)
    if past is None:
        return Fresh(start, combined=False)
    if past.margin_of_error(alpha) <= half:
        return Fresh(math.inf, combined=True)
    if family == "gaussian" and not past.scales and not granularity and not past.margin:
        return Fresh(math.sqrt(beside(start**2, past.sd**2)), combined=True)

    def passes(scale: float) -> bool:
        return merged_distribution(past, scale, family, granularity).confidence(half) >= 1 - alpha

    if not passes(start):
        return Fresh(start, combined=False)
    low, high = start, 2 * start
    for _ in range(60):
        if not passes(high):
            break
        low, high = high, 2 * high
    else:
        return Fresh(low, combined=True)
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if passes(middle) else (low, middle)
    return Fresh(low, combined=True)
