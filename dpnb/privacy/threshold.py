"""Values that nobody declared: a value is shown when its noisy count passes a threshold.

Each id adds 1 to the counts of ``groups`` values at most. Noise of sigma = sqrt(groups / (2 rho)) is added
to the count of every value that has at least L, a public number, and the values whose noisy count reaches T
are shown. This is delta-approximate rho-zCDP (Bun and Steinke 2016, Definition 8.1) for

    P(L + noise >= T) <= p  with  (1 - p)^groups = 1 - delta.

Proof. Let the second table have one more id. Of its values, k <= groups have L - 1 in the first table, and
so L in the second. The event that none of these k is shown has probability at least (1 - p)^k >= 1 - delta,
for the noises are independent. Given it, what is shown rests on the values that have L or more in the first
table: the same thresholds on two vectors of counts that differ by 1 in groups - k places at most, with
Gaussian noise of the same distribution, which is (groups / (2 sigma^2))-zCDP in both directions; and the given event
tells nothing about these noises. The first table needs no event. Such losses add up, rho and delta each,
also where requests adapt to what was shown before (Whitehouse, Ramdas, Rogers and Wu 2023).

L = 1 would find a little more. A quarter of sigma above it costs T no more than that, and spares the noise
of most values where nearly all are different.

A noisy number of different values is released beside them, for the number of those that are hidden: one id
changes it by ``groups`` at most, so it costs a rho of its own; both add.

Noise is the discrete Gaussian, whose tails are those of the Gaussian one step further in: P(X >= m) <=
P(N >= m - 1) (Canonne, Kamath and Steinke 2020, Proposition 25).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from dpnb.privacy.calibrate import distribution
from dpnb.privacy.definition import ZCDP

TOTAL_SHARE = Fraction(1, 10)
"""Share of the rho that goes to the number of different values."""
_UP = 1 + 2.0**-40


@dataclass(frozen=True, slots=True)
class Threshold:
    """How values are discovered.

    Parameters
    ----------
    rho : Fraction
        Level of values and of their number, together.
    delta : Fraction
        Chance that something is shown which one id alone makes a candidate, at most.
    groups : int
        Values for which one id counts.

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
        """The rho of the values, and of their number."""
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
        """L: the least exact count that gets noise."""
        return 1 + math.ceil(self.sigma / 4)

    @property
    def count(self) -> int:
        """T: the least noisy count that is shown."""
        chance = -math.expm1(math.log1p(-float(self.delta)) / self.groups) / _UP
        # L + X >= T for X >= T - L, whose chance is that of N >= T - L - 1 at most
        return self.least + 1 + _steps(self.sigma, chance)

    def surely(self, confidence: float) -> int:
        """Return the least count with which a value is shown with a probability of ``confidence``."""
        # c + X < T for X <= T - 1 - c, whose chance is that of N <= T - c at most
        return self.count + _steps(self.sigma, 1 - confidence)

    def margin_of_error(self, confidence: float) -> int:
        """Return w with P(|noise on the number of values| > w) <= 1 - ``confidence``."""
        return _steps(self.total_sigma, (1 - confidence) / 2)

    def shown(self, count: int) -> float:
        """Return the probability that a value of so many rows, or ids, is shown; to 0.4 / sigma."""
        if count < self.least:
            return 0.0
        return NormalDist(0, self.sigma).cdf(count - self.count + 0.5)


def _steps(sigma: float, tail: float) -> int:
    """Return a whole number m >= 0 with P(N >= m) <= ``tail`` for a Gaussian, hardly above the least one."""
    return math.ceil(-NormalDist().inv_cdf(min(tail, 0.5)) * sigma * _UP)
