"""Noise paths: all noisy versions of one vector, correlated so that the finest pays for all.

A knot is one version: its level and its vector of lattice integers. Two kinds: Gaussian paths (zCDP)
can be refined to any level; Laplace chains (pure DP) hold the levels of a fixed public grid.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.privacy.calibrate import safe_scale
from dpnb.privacy.noise import Noise

LEAST_LEVEL = Fraction(1, 10**9)
"""Smallest level of a vector: below it the noise tells nothing, and far below it leaves 64 bits."""
LEAST_INCREASE = LEAST_LEVEL / 10**6


@dataclass(frozen=True, slots=True)
class Knot:
    """One noisy version of a vector: its ``level`` and its lattice integers."""

    level: Fraction
    vector: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Knot(level={self.level}, private)"

    def __reduce__(self) -> Any:
        raise TypeError("a Knot may be finer than what was paid for and cannot be pickled")


def _by_level(knot: Knot) -> Fraction:
    return knot.level


def insert(path: list[Knot], knot: Knot) -> None:
    """Put a knot in its place on a path."""
    insort(path, knot, key=_by_level)


def find(path: Sequence[Knot], level: Fraction) -> Knot | None:
    """Return the knot at exactly ``level``, None where the path has none."""
    place = bisect_left(path, level, key=_by_level)
    return path[place] if place < len(path) and path[place].level == level else None


def needs_data(path: Sequence[Knot], level: Fraction) -> bool:
    """Return whether a Gaussian version at ``level`` takes a new look at the exact vector."""
    return not path or level > path[-1].level


def gaussian_knot(
    path: Sequence[Knot],
    level: Fraction,
    exact: Sequence[int] | None,
    sensitivity: int,
    noise: Noise,
) -> Knot:
    """Return the version of a Gaussian path at ``level`` (spec/dprovdb.md 3.7).

    The path is the reverse-time process y(s) = x + B(s), with s = sensitivity^2 / (2 rho) the noise
    variance and Cov(B(s), B(s')) = min(s, s'); all four cases below keep this law.

    Parameters
    ----------
    path : sequence of Knot
        The versions drawn so far, from coarse to fine.
    level : Fraction
        The wanted rho.
    exact : sequence of int or None
        The exact lattice vector; needed only when :func:`needs_data`.
    sensitivity : int
        L2 sensitivity in lattice units.
    """
    known = find(path, level)
    if known is not None:
        return known
    place = bisect_left(path, level, key=_by_level)
    if place == len(path):
        if exact is None:
            raise ValueError("a finer version needs the exact vector")
        return _refined(path, level, exact, sensitivity, noise)
    finer = path[place]
    variance = variance_of(sensitivity, level) - variance_of(sensitivity, finer.level)
    if place == 0:
        # coarser than all: more noise on the coarsest, no data
        return Knot(level, tuple(noise.gaussian(finer.vector, math.sqrt(variance))))
    # between two versions: a Brownian bridge, no data
    coarser = path[place - 1]
    gap = variance_of(sensitivity, coarser.level) - variance_of(sensitivity, finer.level)
    weight = variance / gap
    centre = [
        round(a + weight * (b - a)) for a, b in zip(finer.vector, coarser.vector, strict=True)
    ]
    return Knot(level, tuple(noise.gaussian(centre, math.sqrt(variance * (1 - weight)))))


def variance_of(sensitivity: int, level: Fraction) -> Fraction:
    """Return the noise variance of a Gaussian version, in squares of lattice units."""
    return Fraction(sensitivity * sensitivity) / (2 * level)


def _refined(
    path: Sequence[Knot],
    level: Fraction,
    exact: Sequence[int],
    sensitivity: int,
    noise: Noise,
) -> Knot:
    """Merge a fresh release that costs only the increase with the finest version, by precision.

    An increase below ``LEAST_INCREASE`` would need noise beyond 64 bits and tell nothing: the finest
    version stands for it, its variance right to 1e-6 of itself and paid for in full.
    """
    if not path:
        return Knot(level, tuple(noise.gaussian(exact, safe_scale(level, sensitivity, "zcdp"))))
    finest = path[-1]
    if level - finest.level < LEAST_INCREASE:
        return Knot(level, finest.vector)
    fresh = noise.gaussian(exact, safe_scale(level - finest.level, sensitivity, "zcdp"))
    share = finest.level / level
    old, whole = share.numerator, share.denominator
    merged = (
        (2 * (old * a + (whole - old) * b) + whole) // (2 * whole)
        for a, b in zip(finest.vector, fresh, strict=True)
    )
    return Knot(level, tuple(merged))


GRID_STEPS = 4
_FIRST, _LAST = -48, 24


def grid() -> tuple[Fraction, ...]:
    """Return the public levels of Laplace chains: epsilon = 2^(j/4) from 2^-12 to 2^6, ascending."""
    return tuple(
        Fraction(math.ceil(2 ** (j / GRID_STEPS) * 10**9), 10**9) for j in range(_FIRST, _LAST + 1)
    )


def snap(level: Fraction, *, up: bool) -> Fraction | None:
    """Return the grid level next to ``level``, below it or above it; None beyond the grid."""
    levels = grid()
    if up:
        place = bisect_left(levels, level)
        return levels[place] if place < len(levels) else None
    below = [candidate for candidate in levels if candidate <= level]
    return below[-1] if below else None


def laplace_chain(
    exact: Sequence[int], levels: Sequence[Fraction], sensitivity: int, noise: Noise
) -> tuple[Knot, ...]:
    """Draw all of some ascending levels; returned from coarse to fine.

    eta_G ~ DLap(scale_G); going coarser, eta_g = eta_{g+1} + B_g DLap(scale_g) with
    P(B_g = 0) = (a_{g+1} / a_g) ((1 - a_g) / (1 - a_{g+1}))^2 and a = exp(-1/scale)
    (spec/probe.md A11). Each level is discrete Laplace; levels 1..g together cost epsilon_g, since
    the coarser ones are a data-free randomisation of the finest one shown.
    """
    scales = [safe_scale(level, sensitivity, "pure") for level in levels]
    vector = noise.laplace(exact, scales[-1])
    knots = [Knot(levels[-1], tuple(vector))]
    for g in range(len(levels) - 2, -1, -1):
        rest, finer_rest = -math.expm1(-1 / scales[g]), -math.expm1(-1 / scales[g + 1])
        stay = math.exp(1 / scales[g] - 1 / scales[g + 1]) * (rest / finer_rest) ** 2
        moves = [i for i, move in enumerate(noise.coins(1 - stay, len(vector))) if move]
        vector = list(vector)
        for i, step in zip(moves, noise.laplace([0] * len(moves), scales[g]), strict=True):
            vector[i] += step
        knots.append(Knot(levels[g], tuple(vector)))
    return tuple(reversed(knots))
