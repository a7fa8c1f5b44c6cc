"""Confidence intervals of ranks: a noisy binary search for each bound.

DPXPlain, Algorithm 4, corrected (docs/methods/dpxplain.md, algorithm 11, errors 1 to 4): the loop
is strict, so that at most floor(log2 |P|) draws are made, all of which are paid for; both bounds
are as tight as proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from dpnb.explain.influence import Mode
from dpnb.privacy.noise import Noise

_NORMAL = NormalDist()

Statistic = Callable[[int, int], int]
"""Maps a row of the explanation and a place to S(p, place), which is non-decreasing in the place
and 0 at the place of p (docs/methods/dpxplain.md, algorithm 11)."""


@dataclass(frozen=True, slots=True)
class Search:
    """The noise of one bound's tests: standard deviation ``sigma`` and margin ``margin``.

    Both are in the units of the statistic; ``draws`` is the number of tests that are paid for.
    """

    sigma: float
    margin: float
    draws: int


def search(
    spread: float, size: int, k: int, rho: Fraction, confidence: float, mode: Mode
) -> Search:
    """Return the noise of one bound for each of k predicates among ``size``.

    Parameters
    ----------
    spread : float
        How much the statistic changes between neighbouring tables: W (or 2 Delta) for influences.
    size : int
        Number of candidates, at least 1.
    k : int
        Predicates that share ``rho``.
    rho : Fraction
        Budget of this bound over all k predicates.
    confidence : float
        Of the confidence interval; each bound fails with probability (1 - confidence) / 2.
    mode : {'tight', 'paper'}
        The exact quantile of ``draws`` independent tests, or the published Chernoff margin with
        ceil(log2 |P|) tests.
    """
    if size == 1:
        return Search(0.0, 0.0, 0)
    sure = (1 + confidence) / 2
    depth = size.bit_length() - 1
    draws = depth + (size > 2**depth) if mode == "paper" else depth
    # rounded up, so that the loss never exceeds rho
    sigma = spread * math.sqrt(draws * k / (2 * rho)) * (1 + 2.0**-48)
    if mode == "paper":
        return Search(sigma, sigma * math.sqrt(2 * math.log(draws / (1 - sure))), draws)
    return Search(sigma, sigma * _NORMAL.inv_cdf(sure ** (1 / draws)), draws)


def rank_intervals(
    statistic: Statistic,
    rows: int,
    size: int,
    lower: Search,
    upper: Search,
    noise: Noise,
    mode: Mode = "tight",
    *,
    lower_statistic: Statistic | None = None,
) -> list[tuple[int, int]]:
    """Return a confidence interval of ranks for each row; 1 is the best rank.

    Parameters
    ----------
    statistic : callable
        S(row, place) in lattice units; for influences I(p) - (place-th largest influence).
    rows, size : int
        Number of predicates to rank, and of all candidates.
    lower, upper : Search
        Noise of the two bounds, in lattice units.
    noise : Noise
    mode : {'tight', 'paper'}
        The paper's lower bound is one place looser (docs/methods/dpxplain.md, error 3).
    lower_statistic : callable, optional
        Another statistic for the lower bounds, 0 from the place of p on and at most 0 before it.

    Returns
    -------
    list of (int, int)
    """
    above = _bounds(statistic, rows, size, upper, noise, above=True)
    below = _bounds(lower_statistic or statistic, rows, size, lower, noise, above=False)
    intervals = []
    for (lo, hi), (_, most) in zip(below, above, strict=True):
        ends = max(hi, 1) if mode == "paper" else min(lo, size), max(most, 1)
        # the ends cross only if a bound has failed; the larger interval is just as valid
        intervals.append((min(ends), max(ends)))
    return intervals


def _bounds(
    statistic: Statistic, rows: int, size: int, distribution: Search, noise: Noise, *, above: bool
) -> list[tuple[int, int]]:
    """Search one bound of all rows in parallel; return the last (lo, hi) of each."""
    ends = [(1, size)] * rows
    for _ in range(distribution.draws):
        open_ = [row for row, (lo, hi) in enumerate(ends) if lo < hi]
        if not open_:
            return ends
        places = [(ends[row][0] + ends[row][1]) // 2 for row in open_]
        exact = [statistic(row, place) for row, place in zip(open_, places, strict=True)]
        for row, place, score in zip(
            open_, places, noise.gaussian(exact, distribution.sigma), strict=True
        ):
            lo, hi = ends[row]
            past = score >= distribution.margin if above else score > -distribution.margin
            ends[row] = (lo, place - 1) if past else (place + 1, hi)
    if any(lo < hi for lo, hi in ends):
        raise AssertionError("a rank search needs more draws than were paid for")
    return ends
