"""Private mechanisms that use the data to choose a level.

Theorems 22 to 26 of docs/methods/rdr.md.
All use one table of counts. Each row's normalised contribution r is rounded up to a multiple of
1/STEPS, and the table counts the rows at each multiple. Adding or removing a row changes one count
by 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dpnb.engines.contributions import Vector
from dpnb.privacy.calibrate import safe_scale
from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.noise import Noise, noised
from dpnb.privacy.one_off import gumbel_scale
from dpnb.risk.indicator import Form
from dpnb.risk.preferences import level_for_variance, level_of

STEPS = 4096
"""r is rounded up to a multiple of 1/STEPS."""
GRID = 64
"""A quantile is drawn from the multiples of 1/GRID."""
FIRST = 1 / (1 + 2 ** (2 / 3))
"""Share of the sparse vector's epsilon that goes to its threshold (RDR, Algorithm 2)."""
_ONE = 1 << 24
"""Lattice units per 1 for the moments of r: STEPS squared."""


class Mechanism(Protocol):
    """A private mechanism on the table of counts, charged in full."""

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        ...

    def draw(
        self, table: Vector, cost: Fraction, privacy: PrivacyDefinition, noise: Noise
    ) -> list[int]:
        """Draw the values to release.

        Parameters
        ----------
        table : int64 array, shape (STEPS + 1,)
            Number of rows at each multiple of 1/STEPS.
        cost : Fraction
            rho or epsilon.
        """
        ...


def exponential_scale(spread: float, cost: Fraction, privacy: PrivacyDefinition) -> float:
    """Return the Gumbel scale at which the exponential mechanism costs ``cost``, rounded up.

    ``spread`` bounds how much the difference of two scores changes. Selection at scale
    W / epsilon, W the spread, is epsilon-DP and (epsilon^2 / 8)-zCDP (bounded range;
    docs/methods/noise.md, algorithm 13).
    """
    return gumbel_scale(spread, 1, cost if privacy is ZCDP else cost * cost / 8)


@dataclass(frozen=True, slots=True)
class Quantile:
    """S1: the ``p``-quantile of r, on a public grid, by the exponential mechanism.

    u(g) = -|#{r <= g} - p n| changes by at most max(p, 1 - p), a difference of two by twice that.
    """

    p: Fraction

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {"method": "quantile", "p": str(self.p), "grid": GRID, "steps": STEPS}

    def scores(self, table: Vector) -> Vector:
        """Return u(g) for each g of the grid, times the denominator of p: whole numbers."""
        below = np.cumsum(table)[:: STEPS // GRID]
        part, whole = self.p.numerator, self.p.denominator
        return -np.abs(whole * below - part * int(table.sum()))

    def scale(self, cost: Fraction, privacy: PrivacyDefinition) -> float:
        """Return the scale of the Gumbel noise on :meth:`scores`."""
        reach = max(self.p, 1 - self.p) * self.p.denominator
        return exponential_scale(float(2 * reach), cost, privacy)

    def draw(
        self, table: Vector, cost: Fraction, privacy: PrivacyDefinition, noise: Noise
    ) -> list[int]:
        """Draw the index of the quantile on the grid."""
        return [noise.largest(self.scores(table), self.scale(cost, privacy))]

    def level(
        self, drawn: Sequence[int], tau: float, privacy: PrivacyDefinition, form: Form
    ) -> float:
        """Return the largest level with floor / quantile >= tau; a quantile is at least 1/GRID."""
        return level_of(max(drawn[0], 1) / GRID, tau, privacy.noise == "laplace", form)


@dataclass(frozen=True, slots=True)
class Tail:
    """S4: the largest candidate at which at most ``most`` rows break ``tau``, by sparse vector.

    The count has sensitivity 1. The threshold gets noise Lap(1/e1) and each count Lap(2/e2), with
    e1 : e2 = 1 : 2^(2/3). The cost is e1 + e2 = epsilon, or epsilon^2 / 2 in zCDP, for any number
    of candidates (docs/methods/rdr.md, theorem 26). All noise is drawn at once; the draws after
    the first candidate that passes are not used.
    """

    candidates: tuple[Fraction, ...]
    tau: float
    most: int
    form: Form

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {
            "method": "tail",
            "candidates": [str(candidate) for candidate in self.candidates],
            "tau": self.tau,
            "most": self.most,
            "form": self.form,
            "steps": STEPS,
        }

    def counts(self, table: Vector, privacy: PrivacyDefinition) -> list[int]:
        """Return for each candidate how many rows break ``tau``."""
        limit = level_of(1.0, self.tau, privacy.noise == "laplace", self.form)
        violations = []
        for candidate in self.candidates:
            ratio = limit / float(candidate)
            r = ratio if privacy.noise == "laplace" else math.sqrt(ratio)
            # the largest multiple of 1/STEPS that meets tau; ties as in preferences.TIE
            safe_score = min(STEPS, math.floor(STEPS * r * (1 + 1e-12))) if r < 1 else STEPS
            violations.append(int(table[safe_score + 1 :].sum()))
        return violations

    def scales(self, cost: Fraction, privacy: PrivacyDefinition) -> tuple[float, float]:
        """Return the noise scales of the threshold and of the counts."""
        epsilon = (
            cost if privacy.noise == "laplace" else Fraction(math.sqrt(2 * cost) * (1 - 2.0**-50))
        )
        first = Fraction(FIRST) * epsilon
        return safe_scale(first, 1, PURE), safe_scale(epsilon - first, 2, PURE)

    def draw(
        self, table: Vector, cost: Fraction, privacy: PrivacyDefinition, noise: Noise
    ) -> list[int]:
        """Draw the index of the first candidate that passes; -1 if none does."""
        first, second = self.scales(cost, privacy)
        (threshold,) = noise.laplace([-self.most], first)
        draws = noise.laplace([-count for count in self.counts(table, privacy)], second)
        return [next((i for i, value in enumerate(draws) if value >= threshold), -1)]


@dataclass(frozen=True, slots=True)
class Moments:
    """S2: n and the sums of r and r^2 (Laplace) or of r^2 and r^4 (Gaussian noise).

    Each of the three changes by at most 1: L2 sensitivity sqrt(3), L1 sensitivity 3.
    """

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {"method": "variance", "steps": STEPS}

    def scale(self, cost: Fraction, privacy: PrivacyDefinition) -> float:
        """Return the noise scale of each sum, in lattice units."""
        # sensitivities 3 (L1) and sqrt(3) (L2): each sum is released at a third of the cost
        return safe_scale(cost / 3, _ONE, privacy)

    def sums(self, table: Vector, privacy: PrivacyDefinition) -> list[int]:
        """Return the exact sums in lattice units."""
        step = np.arange(STEPS + 1, dtype=np.int64)
        # powers of r in units of 1 / STEPS^2; the fourth power is rounded up for each row
        first = step * STEPS if privacy.noise == "laplace" else step * step
        second = step * step if privacy.noise == "laplace" else -(-((step * step) ** 2) // _ONE)
        return [int(table.sum()) * _ONE, int(table @ first), int(table @ second)]

    def draw(
        self, table: Vector, cost: Fraction, privacy: PrivacyDefinition, noise: Noise
    ) -> list[int]:
        """Draw the three noisy sums."""
        exact, scale = self.sums(table, privacy), self.scale(cost, privacy)
        return noised(exact, scale, privacy, noise)

    def variance(self, drawn: Sequence[int], cost: Fraction, privacy: PrivacyDefinition) -> float:
        """Return the largest variance if each exact sum is within two noise scales of its draw.

        It is too small only if a sum is further off (docs/methods/rdr.md, theorem 24).
        """
        margin = 2 * self.scale(cost, privacy)
        fewest = max(float(_ONE), drawn[0] - margin)
        most = max(float(_ONE), drawn[0] + margin)
        first = max(0.0, drawn[1] - margin)
        second = drawn[2] + margin
        return min(0.25, max(0.0, second / fewest - (first / most) ** 2))

    def level(
        self, drawn: Sequence[int], limit: float, cost: Fraction, privacy: PrivacyDefinition
    ) -> float:
        """Return the largest level at which the variance is at most ``limit``."""
        return level_for_variance(
            limit, self.variance(drawn, cost, privacy), privacy.noise == "laplace"
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """The histogram of r over public bins, with noise on each count; L1 and L2 sensitivity 1."""

    bins: int

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {"method": "histogram", "bins": self.bins, "steps": STEPS}

    def exact(self, table: Vector) -> list[int]:
        """Return the exact counts: r = 0 alone, then ``bins`` right-closed bins up to 1."""
        edges = [1 + STEPS * i // self.bins for i in range(self.bins)]
        return [int(table[0]), *(int(count) for count in np.add.reduceat(table, edges))]

    def scale(self, cost: Fraction, privacy: PrivacyDefinition) -> float:
        """Return the noise scale of each count."""
        return safe_scale(cost, 1, privacy)

    def draw(
        self, table: Vector, cost: Fraction, privacy: PrivacyDefinition, noise: Noise
    ) -> list[int]:
        """Draw the noisy counts."""
        exact, scale = self.exact(table), self.scale(cost, privacy)
        return noised(exact, scale, privacy, noise)
