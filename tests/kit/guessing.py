"""How often the best guess about one row can be right, at most, for what was spent on it.

Whether she is in the table is as likely as not; the attacker sees what was released and says yes or no.
"""

from __future__ import annotations

import math

from scipy import stats


def with_gaussians(rho: float) -> float:
    """Return the bound for releases with Gaussian noise of rho in total.

    Together they are one Gaussian whose mean moves by mu = sqrt(2 rho) standard deviations, between which
    the best test is right with Phi(mu / 2) (Dong, Roth and Su 2022). It is reached.
    """
    return float(stats.norm.cdf(math.sqrt(rho / 2)))


def with_rho(rho: float) -> float:
    """Return the bound for any rho-zCDP releases: a divergence of rho bounds the total variation.

    By Pinsker, and by Bretagnolle and Huber where rho is large.
    """
    apart = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
    return (1 + apart) / 2


def with_epsilon(epsilon: float) -> float:
    """Return the bound for epsilon-DP releases: the odds change by a factor of e^epsilon at most."""
    return 1 / (1 + math.exp(-epsilon))
