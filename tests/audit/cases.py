"""What is audited by sampling: each mechanism on two neighbouring inputs, and planted defects of it.

A case draws features of what one run shows, any number of runs at once. Inputs 0 and 1 are neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpnb.privacy import response
from dpnb.privacy.calibrate import safe_scale
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.noise import Noise
from dpnb.privacy.one_off import gumbel_scale, top_k
from dpnb.privacy.path import Version, gaussian_version, insert, laplace_chain, variance_of
from dpnb.privacy.threshold import Threshold
from dpnb.risk.selection import STEPS, Quantile, Tail
from dpnb.studies.rdr import PaperProfile

UNIT = 2**20
"""Lattice units in 1."""

Features = npt.NDArray[np.float64]
Draw = Callable[[int, int, Noise], Features]
"""From the input (0 or 1), a number of runs and the noise to what is shown: shape (runs, features)."""


@dataclass(frozen=True)
class Case:
    """A mechanism, what it claims, and what must be caught.

    Attributes
    ----------
    name : str
    claim : float
        rho, or epsilon.
    privacy : {'zcdp', 'pure'}
    draw : callable
    defects : mapping of str to callable
        Wrong versions that claim the same.
    share : float
        Of the usual number of runs, where one run takes long.
    """

    name: str
    claim: float
    privacy: Literal["zcdp", "pure"]
    draw: Draw
    defects: Mapping[str, Draw] = field(default_factory=dict)
    share: float = 1.0


RHO = Fraction(1, 2)
LEVELS = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2))


def _plain(scale: float) -> Draw:
    """A vector of one count with Gaussian noise."""

    def draw(given: int, runs: int, noise: Noise) -> Features:
        sigma = scale * safe_scale(RHO, UNIT, ZCDP)
        return np.array(noise.gaussian([given * UNIT] * runs, sigma))[:, None] / UNIT

    return draw


def _shown(versions: list[Version]) -> Features:
    return np.array([version.vector for version in versions], dtype=float).T / UNIT


def _path(order: tuple[int, ...]) -> Draw:
    """All versions of a Gaussian path, bought in some order."""

    def draw(given: int, runs: int, noise: Noise) -> Features:
        path: list[Version] = []
        for place in order:
            version = gaussian_version(path, LEVELS[place], [given * UNIT] * runs, UNIT, noise)
            insert(path, version)
        return _shown(path)

    return draw


def _anew(given: int, runs: int, noise: Noise) -> Features:
    """Each version is a fresh release, but only increases are charged."""
    versions = [gaussian_version([], level, [given * UNIT] * runs, UNIT, noise) for level in LEVELS]
    return _shown(versions)


def _coarser_from_data(given: int, runs: int, noise: Noise) -> Features:
    """A coarser version is drawn about the exact value instead of about the finer version."""
    fine = gaussian_version([], LEVELS[-1], [given * UNIT] * runs, UNIT, noise)
    coarse = gaussian_version([], LEVELS[1], [given * UNIT] * runs, UNIT, noise)
    return _shown([coarse, fine])


def _local_from_exact_view(given: int, runs: int, noise: Noise) -> Features:
    """An analyst's coarser synopsis gets the difference noise only, but about the exact view.

    E11 of docs/methods/dprovdb.md.
    """
    fine = gaussian_version([], LEVELS[-1], [given * UNIT] * runs, UNIT, noise)
    difference = float(variance_of(UNIT, LEVELS[1]) - variance_of(UNIT, LEVELS[-1]))
    local = noise.gaussian([given * UNIT] * runs, math.sqrt(difference))
    return np.array([fine.vector, local], dtype=float).T / UNIT


GRID = (Fraction(1, 4), Fraction(1, 2), Fraction(1))


def _steps(values: Features) -> Features:
    """A Laplace variable about 0 or 1 tells the difference by where it lies between them, alone."""
    return np.concatenate([np.clip(values, 0, 1), values == 0, values == 1], axis=1)


def _chain(given: int, runs: int, noise: Noise) -> Features:
    return _steps(_shown(list(laplace_chain([given * UNIT] * runs, GRID, UNIT, noise))))


def _independent_levels(given: int, runs: int, noise: Noise) -> Features:
    exact = [given * UNIT] * runs
    drawn = [noise.laplace(exact, safe_scale(level, UNIT, PURE)) for level in GRID]
    return _steps(np.array(drawn, dtype=float).T / UNIT)


def _published_noise_down(given: int, runs: int, noise: Noise) -> Features:
    """From level 1/2 to 1 by the sampler of the published code (docs/methods/probe.md, error 6).

    It draws one uniform for the decision and for the amount, and forgets the sign of the old noise.
    """
    coarse, fine = 1 / 0.5, 1 / 1.0
    old = np.array(noise.laplace([0] * runs, coarse * UNIT), dtype=float) / UNIT
    uniform = np.array([noise.below(2**53) for _ in range(runs)]) / 2**53
    size = np.abs(old)
    rate = 1 / fine - 1 / coarse
    stay = coarse / fine * np.exp(-rate * size) * (fine / coarse) ** 2
    drawn = np.where(uniform < stay, size, -np.log(np.maximum(uniform, 1e-300)) * fine)
    values = np.stack([given + old, given + drawn], axis=1)
    return _steps(values)


SELECTED = Fraction(1, 2)


def _one_hot(found: list[int], size: int) -> Features:
    return np.eye(size)[found]


def _selection(factor: float) -> Draw:
    """One of four candidates; one row more takes the first up and all others down."""

    def draw(given: int, runs: int, noise: Noise) -> Features:
        scores = np.array([2, 2, 2, 2] if given == 0 else [3, 1, 1, 1]) * UNIT
        scale = factor * gumbel_scale(2 * UNIT, 1, SELECTED)
        return _one_hot([noise.largest(scores, scale) for _ in range(runs)], 4)

    return draw


def _best(factor: float) -> Draw:
    """The two best of five, in order; three of them idle."""

    def draw(given: int, runs: int, noise: Noise) -> Features:
        active, scores = np.array([1, 3]), np.array([0, 0] if given == 0 else [UNIT, UNIT])
        scale = factor * gumbel_scale(UNIT, 2, SELECTED)
        found = [top_k(active, scores, 5, 2, scale, noise) for _ in range(runs)]
        return _one_hot([5 * first + second for first, second in found], 25)

    return draw


BETA, ALPHA = 0.05, 0.1


def _coins(missed: float, false: float) -> Draw:
    """Randomised response on one group's truth."""

    def draw(given: int, runs: int, noise: Noise) -> Features:
        found = response.respond(np.full(runs, bool(given)), missed, false, noise)
        return np.array(found, dtype=float)[:, None]

    return draw


def _quantile(factor: float) -> Draw:
    """A quantile of the rows' contributions; one row more at the far end."""
    wanted = Quantile(Fraction(1, 2))

    def draw(given: int, runs: int, noise: Noise) -> Features:
        table = np.zeros(STEPS + 1, dtype=np.int64)
        table[STEPS // 2] = 1
        table[STEPS] = given
        scale = factor * wanted.scale(Fraction(1), PURE)
        scores = wanted.scores(table)
        found = [noise.largest(scores, scale) for _ in range(runs)]
        return _one_hot([(place >= 32) + (place >= 33) + (place >= 64) for place in found], 4)

    return draw


def _sparse(given: int, runs: int, noise: Noise, *, fresh: bool) -> Features:
    """The first level from above at which few rows break tau (docs/methods/rdr.md, theorem 26).

    The defect compares exact counts with a threshold that has a quarter of its noise.
    """
    wanted = Tail(tuple(Fraction(level) for level in (4, 2, 1)), 0.5, 0, "floor")
    table = np.zeros(STEPS + 1, dtype=np.int64)
    table[STEPS] = given
    if fresh:
        drawn = [wanted.draw(table, Fraction(1), PURE, noise)[0] for _ in range(runs)]
    else:
        counts = np.array(wanted.counts(table, PURE))
        first, _ = wanted.scales(Fraction(1), PURE)
        limits = noise.laplace([0] * runs, first / 4)
        drawn = [
            next((i for i, count in enumerate(counts) if -count >= limit), -1) for limit in limits
        ]
    return _one_hot([place + 1 for place in drawn], 4)


def _public_level(given: int, runs: int, noise: Noise) -> Features:
    """A count at the epsilon that the public rule gives for tau = 1/2, whatever the table."""
    return _beyond_two(noise.laplace([given * UNIT] * runs, safe_scale(Fraction(1), UNIT, PURE)))


def _level_from_data(given: int, runs: int, noise: Noise) -> Features:
    """The published Algorithm 1 finds epsilon 10 where nobody counts, and 1 where one row does.

    E1 of docs/methods/rdr.md.
    """
    distances, rows = (np.array([0.0, 1.0]), [99, 1]) if given else (np.array([0.0]), [100])
    profile = PaperProfile("laplace", distances, np.array(rows), 1.0, 1, (float(given),))
    epsilon = profile.find(0.5)
    assert epsilon == (1 if given else 10)
    scale = profile.scale(epsilon) * UNIT
    return _beyond_two(noise.laplace([given * UNIT] * runs, scale))


def _beyond_two(values: list[int]) -> Features:
    answers = np.array(values, dtype=float)[:, None] / UNIT
    return np.concatenate([_steps(answers), np.abs(answers) > 2], axis=1)


def _published_sparse(given: int, runs: int, noise: Noise) -> Features:
    """The published Algorithm 3 divides by the table's own maximum and claims 1/n.

    E2 of docs/methods/rdr.md.
    Half of a thousand people count for nothing, half for 0.4, and perhaps one for 1.
    """
    distances, rows = [0.0, 0.4, 1.0], [500, 500, 1]
    size = 2 + given
    profile = PaperProfile(
        "laplace", np.array(distances[:size]), np.array(rows[:size]), 1.0, 1, (0.0,)
    )
    candidates = (10.0, 5.0, 3.0, 2.0, 1.0)
    found = [profile.find_and_release(noise, 0.05, candidates, 1.0) for _ in range(runs)]
    chosen = [candidates.index(one.epsilon) if one else len(candidates) for one in found]
    return _one_hot(chosen, len(candidates) + 1)


CASES = (
    Case(
        "Gaussian noise on a count",
        0.5,
        ZCDP,
        _plain(1.0),
        {"a scale smaller by 20 %": _plain(0.8), "half the sensitivity": _plain(0.5)},
    ),
    Case("Gaussian path, from coarse to fine", 0.5, ZCDP, _path((0, 1, 2))),
    Case(
        "Gaussian path, in any order",
        0.5,
        ZCDP,
        _path((1, 2, 0)),
        {
            "each version drawn anew": _anew,
            "a coarser version drawn about the exact value": _coarser_from_data,
            "a coarser version by the difference noise about the exact value": _local_from_exact_view,
        },
    ),
    Case(
        "Laplace chain, all levels",
        1.0,
        PURE,
        _chain,
        {
            "levels drawn independently": _independent_levels,
            "the published noise-down sampler": _published_noise_down,
        },
    ),
    Case(
        "Selection of one",
        0.5,
        ZCDP,
        _selection(1.0),
        {"a third of the scale": _selection(1 / 3)},
        share=0.5,
    ),
    Case(
        "Selection of the best two",
        0.5,
        ZCDP,
        _best(1.0),
        {"charged for one of them, and half the spread": _best(0.5 / math.sqrt(2))},
        share=0.25,
    ),
    Case(
        "Randomised response",
        response.epsilon(BETA, ALPHA),
        PURE,
        _coins(BETA, ALPHA),
        {"coins of half the bounds": _coins(BETA / 2, ALPHA / 2)},
    ),
    Case(
        "Quantile of the contributions",
        1.0,
        PURE,
        _quantile(1.0),
        {"half the sensitivity": _quantile(0.4)},
        share=0.25,
    ),
    Case(
        "A count at the level of the public rule",
        1.0,
        PURE,
        _public_level,
        {"a level found in the data (published Algorithm 1)": _level_from_data},
    ),
    Case(
        "First level with few outliers (sparse vector)",
        1.0,
        PURE,
        lambda given, runs, noise: _sparse(given, runs, noise, fresh=True),
        {
            "exact counts, and a quarter of the noise on the threshold": lambda given, runs, noise: (
                _sparse(given, runs, noise, fresh=False)
            ),
            "the published Algorithm 3": _published_sparse,
        },
        share=0.25,
    ),
)
"""All of them."""

HIDDEN = Threshold(Fraction(1, 2), Fraction(1, 100), 1)
"""Of key discovery, at a delta so large that a run in a hundred may show a value of one row."""


def lone_values(threshold: int, runs: int, noise: Noise) -> npt.NDArray[np.bool_]:
    """Return in which runs a value is shown that one row has made a candidate."""
    drawn = noise.gaussian([HIDDEN.least] * runs, HIDDEN.sigma)
    return np.array(drawn) >= threshold
