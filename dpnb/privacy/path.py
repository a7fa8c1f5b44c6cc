"""Noise paths: all noisy versions of one vector, correlated so that the finest pays for all.

A version is a level and a vector of lattice integers. There are two kinds: Gaussian paths (zCDP)
can be refined to any level; Laplace chains (pure DP) have the levels of a fixed public grid.

Why a Gaussian path costs its levels and no more, although its numbers are integers
-----------------------------------------------------------------------------------
With L2 sensitivity D, a version at level rho has variance V(rho) = 64 (ceil(s / 64) + 1), where
s = D^2 / (2 rho) is that of continuous noise, all in squares of lattice units. So V - 64 >= s, and
two variances on a path are equal, which makes them one version, or at least 64 apart. Every version
is a discrete Gaussian with exactly the centre and the variance of the Gaussian process with
Cov(y, y') = min(V, V') given its neighbours on the path (for the finest version, given the exact
vector): its parameter h is at least 32.

1. Versions that nobody sees may be left out. Given the others, a hidden version is Gaussian with a
   parameter of at least 32, and the sum of exp(-(z - c)^2 / (2h)) / sqrt(2 pi h) over all integers
   z lies within 1 +- 2T, T = exp(-2 pi^2 32) < 1e-274 (Poisson summation; docs/methods/noise.md,
   lemma 3). So the versions that somebody sees are within e^(+-X) of the process at integer points,
   X < 1e-200 for any path that fits into a computer; only the elements that one unit changes count.
2. GDP. Let u_1, u_2, ... be continuous Gaussian releases merged by precision, u_k of variance
   V_k - 64 when version k is seen; each costs mu^2 = D^2 (1/(V_k - 64) - 1/(V_(k-1) - 64)), and all
   together at most twice the level. The versions can be drawn from them alone: y_1 around u_1 with
   parameter 64, and y_2 around b y_1 + (1 - b) u_2 with parameter 64 g / (64 + g) >= 32, where
   b = 64 / (64 + g) and g = V_1 - V_2. This gives Var(y_2) = Cov(y_1, y_2) = V_2 and
   Cov(y_2, u_2) = V_2 - 64, so the construction can continue; coarser versions are drawn from those
   seen. Up to e^(+-X) the path is a post-processing of releases that cost the levels, however the
   next level was chosen. The X is subtracted from the cap (``loss.RESERVE``).
3. zCDP. All versions together cost D_a <= a D^2 / (2V) + X (2a - 1) / (a - 1) at each order a. The
   first term is below a rho by the share 64 / V > 1e-60 of it. This margin exceeds the second term
   for a >= 1 + 1e-100. D_a grows with a, so a rho also bounds it for the orders below. Nothing has
   to be added.

The sums in 2 and 3 are those of the charges on the path so far, which are never below the loss from
it. All steps of the proof are in docs/methods/noise.md, theorems 6 to 8.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.privacy.calibrate import safe_scale
from dpnb.privacy.definition import PURE
from dpnb.privacy.noise import Noise, gaussian_around

LEAST_LEVEL = Fraction(1, 10**9)
"""Smallest level of a vector: below it a version shows nothing; far below it exceeds 64 bits."""
VARIANCE_STEP = 64
"""Variances of Gaussian versions are multiples of this, in squares of lattice units."""


@dataclass(frozen=True, slots=True)
class Version:
    """One noisy version of a vector: its ``level`` and its lattice integers."""

    level: Fraction
    vector: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Version(level={self.level}, private)"

    def __reduce__(self) -> Any:
        raise TypeError("a Version may be finer than what was paid for and cannot be pickled")


def _by_level(version: Version) -> Fraction:
    return version.level


def insert(path: list[Version], version: Version) -> None:
    """Insert a version into a path, ordered by level."""
    insort(path, version, key=_by_level)


def find(path: Sequence[Version], level: Fraction) -> Version | None:
    """Return the version at exactly ``level``, or None if the path has none."""
    place = bisect_left(path, level, key=_by_level)
    return path[place] if place < len(path) and path[place].level == level else None


def needs_data(path: Sequence[Version], level: Fraction) -> bool:
    """Return whether a Gaussian version at ``level`` needs the exact vector."""
    return not path or level > path[-1].level


def gaussian_version(
    path: Sequence[Version],
    level: Fraction,
    exact: Sequence[int] | None,
    sensitivity: int,
    noise: Noise,
) -> Version:
    """Return the version of a Gaussian path at ``level`` (docs/methods/noise.md, algorithm 5).

    The path is the reverse-time process y = x + B(V) with Cov(B(V), B(V')) = min(V, V') for the
    variances V of :func:`variance_of`. A version is drawn given the next finer one (or the exact
    vector, if there is none) and the next coarser one (if there is one). Levels of equal variance
    are one version.

    Parameters
    ----------
    path : sequence of Version
        The versions drawn so far, from coarse to fine.
    level : Fraction
        The target rho.
    exact : sequence of int or None
        The exact lattice vector; required only if :func:`needs_data`.
    sensitivity : int
        L2 sensitivity in lattice units.
    """
    place = bisect_left(path, level, key=_by_level)
    variance = variance_of(sensitivity, level)
    for near in (*path[place : place + 1], *path[max(0, place - 1) : place]):
        if near.level == level:
            return near
        if variance_of(sensitivity, near.level) == variance:
            return Version(level, near.vector)
    fine: Sequence[int]
    if place < len(path):
        fine, least = path[place].vector, variance_of(sensitivity, path[place].level)
    elif exact is not None:
        fine, least = exact, 0
    else:
        raise ValueError("a finer version needs the exact vector")
    if place == 0:
        return Version(level, tuple(gaussian_around(fine, 1, Fraction(variance - least), noise)))
    coarse = path[place - 1]
    most = variance_of(sensitivity, coarse.level)
    # both parts of the gap are multiples of the variance step, which keeps the numbers short
    above, below = (most - variance) // VARIANCE_STEP, (variance - least) // VARIANCE_STEP
    centres = [above * a + below * b for a, b in zip(fine, coarse.vector, strict=True)]
    spread = Fraction((variance - least) * (most - variance), most - least)
    return Version(level, tuple(gaussian_around(centres, above + below, spread, noise)))


def variance_of(sensitivity: int, level: Fraction) -> int:
    """Return the noise variance of a Gaussian version, in squares of lattice units.

    It is that of continuous noise, sensitivity^2 / (2 rho), plus one to two times
    ``VARIANCE_STEP``.
    """
    nominal = Fraction(sensitivity * sensitivity) / (2 * level)
    return VARIANCE_STEP * (math.ceil(nominal / VARIANCE_STEP) + 1)


GRID_STEPS = 4
_FIRST, _LAST = -48, 24


def grid() -> tuple[Fraction, ...]:
    """Return the public levels of Laplace chains, ascending: epsilon = 2^(j/4), 2^-12 to 2^6."""
    return tuple(
        Fraction(math.ceil(2 ** (j / GRID_STEPS) * 10**9), 10**9) for j in range(_FIRST, _LAST + 1)
    )


def snap(level: Fraction, *, up: bool) -> Fraction | None:
    """Return the nearest grid level below ``level``, or above with ``up``; None beyond the grid."""
    levels = grid()
    if up:
        place = bisect_left(levels, level)
        return levels[place] if place < len(levels) else None
    below = [candidate for candidate in levels if candidate <= level]
    return below[-1] if below else None


def laplace_chain(
    exact: Sequence[int], levels: Sequence[Fraction], sensitivity: int, noise: Noise
) -> tuple[Version, ...]:
    """Draw versions at all given levels (ascending); return them from coarse to fine.

    eta_G ~ DLap(scale_G); going coarser, eta_g = eta_{g+1} + B_g DLap(scale_g) with
    P(B_g = 0) = (a_{g+1} / a_g) ((1 - a_g) / (1 - a_{g+1}))^2 and a = exp(-1/scale)
    (docs/methods/probe.md, theorem 17). Each level is discrete Laplace; levels 1..g together cost
    epsilon_g, since the coarser ones are a data-free randomisation of the finest one shown.
    """
    scales = [safe_scale(level, sensitivity, PURE) for level in levels]
    vector = noise.laplace(exact, scales[-1])
    versions = [Version(levels[-1], tuple(vector))]
    for g in range(len(levels) - 2, -1, -1):
        rest, finer_rest = -math.expm1(-1 / scales[g]), -math.expm1(-1 / scales[g + 1])
        stay = math.exp(1 / scales[g] - 1 / scales[g + 1]) * (rest / finer_rest) ** 2
        moves = [i for i, move in enumerate(noise.coins(1 - stay, len(vector))) if move]
        vector = list(vector)
        for i, step in zip(moves, noise.laplace([0] * len(moves), scales[g]), strict=True):
            vector[i] += step
        versions.append(Version(levels[g], tuple(vector)))
    return tuple(reversed(versions))
