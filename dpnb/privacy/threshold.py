"""Partition selection: an undeclared value is shown if its noisy count reaches a threshold.

Each id adds 1 to the counts of at most ``groups`` values. Noise of sigma = sqrt(groups / (2 rho))
is added to the count of every value that has at least L, a public number, and the values whose
noisy count reaches T are shown. This is delta-approximate rho-zCDP (Bun and Steinke 2016,
Definition 8.1) for

    P(L + noise >= T) <= p  with  (1 - p)^groups = 1 - delta.

Proof. Let the second table have one more id. Of its values, k <= groups have the count L - 1 in the
first table, and so L in the second. The event that none of these k is shown has probability at
least (1 - p)^k >= 1 - delta, because the noises are independent. Given this event, the output
depends on the values with a count of L or more in the first table: the same thresholds apply to two
vectors of counts that differ by 1 in at most groups - k places, with Gaussian noise of the same
distribution. That is (groups / (2 sigma^2))-zCDP in both directions, and the event says nothing
about these noises. The first table needs no event. Such losses add up, rho and delta separately,
even if requests adapt to what was shown before (Whitehouse, Ramdas, Rogers and Wu 2023).

L = 1 would find slightly more values. L = 1 + sigma / 4 raises T by no more than that, and saves
drawing noise for most values when nearly all are different.

A noisy number of distinct values is released as well, to show how many are hidden. One id changes
it by at most ``groups``, so it costs a rho of its own, and the two add.

The noise is the discrete Gaussian, whose tails are at most those of the Gaussian one unit further
in: P(X >= m) <= P(N >= m - 1) (Canonne, Kamath and Steinke 2020, Proposition 25).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from dpnb.privacy.calibrate import distribution
from dpnb.privacy.definition import ZCDP

TOTAL_SHARE = Fraction(1, 10)
"""Share of the rho for the number of distinct values."""
_UP = 1 + 2.0**-40


@dataclass(frozen=True, slots=True)
class Threshold:
    """The parameters of partition selection.

    Parameters
    ----------
    rho : Fraction
        Privacy cost of the values and of their number together.
    delta : Fraction
        Upper bound on the probability of showing a value that one id alone makes a candidate.
    groups : int
        The most values for which one id counts.

    Examples
    --------
    >>> found = Threshold(Fraction(1, 10), Fraction(1, 10**8), groups=1)
    >>> found.least, found.count, found.surely(0.95)
    (2, 17, 21)
    """

    rho: Fraction
    delta: Fraction
    groups: int

    @property
    def parts(self) -> dict[str, Fraction]:
        """The rho for the values, and the rho for their number."""
        total = self.rho * TOTAL_SHARE
        return {"keys": self.rho - total, "total": total}

    @property
    def sigma(self) -> float:
        """Scale of the noise on a value's count: sqrt(groups) / sqrt(2 rho), rounded up."""
        return distribution(self.parts["keys"], math.sqrt(self.groups), ZCDP).scale * _UP

    @property
    def total_sigma(self) -> float:
        """Scale of the noise on the number of values: groups / sqrt(2 rho), rounded up."""
        return distribution(self.parts["total"], self.groups, ZCDP).scale * _UP

    @property
    def least(self) -> int:
        """L: the smallest exact count that gets noise."""
        return 1 + math.ceil(self.sigma / 4)

    @property
    def count(self) -> int:
        """T: the smallest noisy count that is shown."""
        chance = -math.expm1(math.log1p(-float(self.delta)) / self.groups) / _UP
        # L + X >= T if X >= T - L, whose probability is at most that of N >= T - L - 1
        return self.least + 1 + _steps(self.sigma, chance)

    def surely(self, confidence: float) -> int:
        """Return the smallest count at which a value is shown with probability ``confidence``."""
        # c + X < T if X <= T - 1 - c, whose probability is at most that of N <= T - c
        return self.count + _steps(self.sigma, 1 - confidence)

    def margin_of_error(self, confidence: float) -> int:
        """Return w with P(|noise on the number of values| > w) <= 1 - ``confidence``."""
        return _steps(self.total_sigma, (1 - confidence) / 2)

    def shown(self, count: int) -> float:
        """Return the probability of showing a value of ``count`` rows, or ids; to 0.4 / sigma."""
        if count < self.least:
            return 0.0
        return NormalDist(0, self.sigma).cdf(count - self.count + 0.5)


def _steps(sigma: float, tail: float) -> int:
    """Return an m >= 0, close to the smallest, with P(N >= m) <= ``tail`` for a Gaussian N."""
    return math.ceil(-NormalDist().inv_cdf(min(tail, 0.5)) * sigma * _UP)
