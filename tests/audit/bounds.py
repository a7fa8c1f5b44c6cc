"""Lower bounds on the privacy loss of a mechanism, from what it did on two neighbouring tables.

Nothing is assumed about its distribution: only that runs are independent. A sound mechanism has a bound above its
claim with a chance of at most ``error``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

Sample = npt.NDArray[np.float64]


def rho_bound(first: Sample, second: Sample, error: float) -> float:
    """Return a lower bound on rho, from a score of each run on either table.

    rho-zCDP bounds the Kullback-Leibler divergence of the two distributions, in either direction, by rho (its Renyi
    divergences of order a by a rho; Bun and Steinke 2016). By Donsker and Varadhan, for any bounded score f,
    KL(P, Q) >= E_P f - ln E_Q exp(f). It is equal where f is the log-likelihood ratio, so this is what to
    give as the score; both expectations are bounded by Maurer and Pontil's empirical Bernstein inequality.

    Parameters
    ----------
    first, second : float array, shape (runs,)
        Score of each run. Large means: more likely the first table.
    error : float
        Chance that the bound is wrong, at most.
    """
    return max(0.0, _divergence(first, second, error / 2), _divergence(-second, -first, error / 2))


def _divergence(first: Sample, second: Sample, error: float) -> float:
    # the ends of the clipping are fixed beforehand, for they may not depend on the runs they bound
    return max(
        _mean(np.clip(first, -reach, reach), 2 * reach, error / 4, up=False)
        - math.log(
            _mean(np.exp(np.clip(second, -reach, reach)), math.exp(reach), error / 4, up=True)
        )
        for reach in (3.0, 6.0)
    )


def _mean(values: Sample, width: float, error: float, *, up: bool) -> float:
    """Return an upper or lower bound on the expectation of values that lie in a range of ``width``."""
    count, tail = len(values), math.log(2 / error)
    margin = math.sqrt(2 * float(values.var(ddof=1)) * tail / count)
    margin += 7 * width * tail / (3 * (count - 1))
    return float(values.mean()) + (margin if up else -margin)


CUTS = tuple(np.linspace(-4, 4, 33))
"""Where scores are cut into two events."""


def epsilon_bound(first: Sample, second: Sample, error: float, delta: float = 0.0) -> float:
    """Return a lower bound on epsilon at ``delta``, from a score of each run on either table.

    (epsilon, delta)-DP bounds each event: P(E) <= e^epsilon Q(E) + delta. The events are that the score is at
    least, or at most, one of ``CUTS``; both probabilities are bounded by Clopper and Pearson.
    """
    share = error / (4 * 2 * len(CUTS))
    found = 0.0
    for one, other in ((first, second), (second, first)):
        for cut in CUTS:
            for likely, rare in ((one >= cut, other >= cut), (one <= cut, other <= cut)):
                low = _proportion(likely, share, up=False) - delta
                if low > 0:
                    found = max(found, math.log(low / _proportion(rare, share, up=True)))
    return found


def delta_bound(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], error: float) -> float:
    """Return a lower bound on the chance of an event on one table that never happens on the other."""
    if second.any():
        raise ValueError("the event happened on the other table too")
    return _proportion(first, error, up=False)


def _proportion(hits: npt.NDArray[np.bool_], error: float, *, up: bool) -> float:
    count, found = len(hits), int(np.count_nonzero(hits))
    if up:
        return 1.0 if found == count else float(stats.beta.isf(error, found + 1, count - found))
    return 0.0 if found == 0 else float(stats.beta.ppf(error, found, count - found + 1))
