"""How large a sample must be, and when it is large enough.

A statistical test names the defect that it must find. :func:`shares` gives the least sample at which a
correct method is rejected at most once in 10^9 runs and the defect is missed at most once in 10^6;
:class:`Sequence` asks for no more than it needs. Exact distributions and enumeration are better than
either: use these where no distribution function is at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache

from scipy import stats

FALSE = 1e-9
"""How often a correct method may be rejected."""
MISSED = 1e-6
"""How often the named defect may be missed."""


def coverage(level: float, factor: float) -> float:
    """Return how often a normal confidence interval of ``level`` holds when its width is off by ``factor``.

    Noise that is ``1 / factor`` times as wide as it says has the same effect.
    """
    return float(1 - 2 * stats.norm.sf(stats.norm.isf((1 - level) / 2) * factor))


@cache
def shares(claimed: float, defect: float) -> int:
    """Return the least number of trials whose successes tell two probabilities apart.

    Accept when at most ``FALSE`` of all samples of probability ``claimed`` lie as far on the side of
    ``defect`` (``stats.binom``, exact).
    """
    low, high = 1, 2
    while not _tells(high, claimed, defect):
        low, high = high, 2 * high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if _tells(middle, claimed, defect) else (middle, high)
    return high


def _tells(count: int, claimed: float, defect: float) -> bool:
    if defect < claimed:
        # rejected when there are at most so many
        most = int(stats.binom.ppf(FALSE, count, claimed)) - 1
        return bool(stats.binom.sf(most, count, defect) <= MISSED)
    least = int(stats.binom.isf(FALSE, count, claimed)) + 1
    return bool(stats.binom.cdf(least - 1, count, defect) <= MISSED)


def scales(factor: float) -> int:
    """Return the least number of normal draws whose mean square tells a scale off by ``factor``."""
    low, high = 1, 2
    while not _wide(high, factor):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _wide(middle, factor) else (middle, high)
    return high


def _wide(count: int, factor: float) -> bool:
    distribution = stats.chi2(count)
    if factor > 1:
        return bool(distribution.cdf(distribution.isf(FALSE) / factor**2) <= MISSED)
    return bool(distribution.sf(distribution.ppf(FALSE) / factor**2) <= MISSED)


def decided(
    draws: Iterable[bool], claimed: float, defect: float, *, most: int | None = None
) -> bool:
    """Return whether successes come with probability ``claimed`` rather than ``defect``.

    Wald's sequential probability ratio test: it stops as soon as the odds are beyond doubt, on average
    after a third to a half of :func:`shares`. ``most`` (by default four times :func:`shares`) bounds it;
    then the likelier one is returned.
    """
    bound = 4 * shares(claimed, defect) if most is None else most
    accept, reject = math.log(1 / MISSED), -math.log(1 / FALSE)
    hit, miss = math.log(claimed / defect), math.log((1 - claimed) / (1 - defect))
    odds = 0.0
    for number, success in enumerate(draws, 1):
        odds += hit if success else miss
        if odds >= accept or odds <= reject or number >= bound:
            break
    return odds > 0


def repeated(trial: Callable[[int], bool]) -> Iterable[bool]:
    """Yield a trial's outcomes for seeds 0, 1, 2, ... without end, for :func:`decided`."""
    seed = 0
    while True:
        yield trial(seed)
        seed += 1
