"""The exact privacy of Gaussian noise: mu-GDP (docs/methods/accounting.md, theorem 6).

A release of x with Gaussian noise and total precision I about x is mu-GDP with mu = Delta sqrt(I):
it is no easier to test than N(0, 1) against N(mu, 1). In rho, mu^2 = 2 rho. All searches work on
logarithms and stop on relative width, on the safe side: an absolute tolerance on delta is wrong for
small ones (docs/methods/dprovdb.md, E14).
"""

from __future__ import annotations

import math
from functools import lru_cache

MOST_EPSILON = 50.0
LEAST_DELTA, MOST_DELTA = 1e-15, 0.1


def _check(epsilon: float, delta: float) -> None:
    if not 0 <= epsilon <= MOST_EPSILON:
        raise ValueError(f"epsilon {epsilon:g} is not within 0..{MOST_EPSILON:g}")
    # the part of a delta that is reserved for the lattice may bring it slightly below the minimum
    if not 0.98 * LEAST_DELTA <= delta <= MOST_DELTA:
        raise ValueError(f"delta {delta:g} is not within {LEAST_DELTA:g}..{MOST_DELTA:g}")


def log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of the smallest delta at which mu-GDP gives (epsilon, delta)-DP.

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
    """
    from scipy.special import log_ndtr

    a = float(log_ndtr(mu / 2 - epsilon / mu))
    b = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return -math.inf if b >= a else a + math.log(-math.expm1(b - a))


@lru_cache(maxsize=65_536)
def mu_from(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-DP.

    Raises
    ------
    ValueError
        Unless 0 < epsilon <= 50 and 1e-15 <= delta <= 0.1.
    """
    _check(epsilon, delta)
    if epsilon == 0:
        raise ValueError("epsilon is 0")
    target = math.log(delta)
    low, high = math.log(1e-12), math.log(1e6)
    while math.expm1(high - low) > 1e-14:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (
            (middle, high) if log_delta(epsilon, math.exp(middle)) <= target else (low, middle)
        )
    return math.exp(low)


@lru_cache(maxsize=65_536)
def epsilon_from(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 such that mu-GDP is (epsilon, delta)-DP."""
    _check(0.0, delta)
    target = math.log(delta)
    if mu <= 0 or log_delta(0.0, mu) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while log_delta(high, mu) > target:
        low, high = high, 2 * high
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if log_delta(middle, mu) <= target else (middle, high)
    return high


def sigma_from(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest sigma that is (epsilon, delta)-DP: the analytic Gaussian mechanism."""
    return sensitivity / mu_from(epsilon, delta)


def translate(
    variance: float,
    most: float,
    delta: float,
    sensitivity: float = 1.0,
    precision: float = 1e-6,
) -> float | None:
    """Return the smallest epsilon in (0, ``most``] whose noise has at most the given variance.

    By bisection to ``precision`` (DProvDB, Definition 5.1; docs/methods/dprovdb.md, bound 11). None
    if even ``most`` is not enough.
    """
    if sigma_from(most, delta, sensitivity) ** 2 > variance:
        return None
    low, high = 0.0, most
    while high - low > precision:
        middle = (low + high) / 2
        enough = sigma_from(middle, delta, sensitivity) ** 2 <= variance
        low, high = (low, middle) if enough else (middle, high)
    return high
