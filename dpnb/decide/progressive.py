"""Decisions that become surer step by step: each step is half as uncertain as the one before.

Algorithm 8 of docs/methods/probe.md: a condition is rejected for good as soon as one step's noisy
value lies below the moved threshold. Every step has its own share of the bound on false negatives,
so the bound holds for any stopping rule.

Both kinds of noise work. Laplace chains reveal epsilons e, 2e, 4e, ... of one line and cost the
last. Gaussian paths reveal rhos r, 4r, 16r, ... A step's value merges fresh Gaussian releases,
whose precisions add, so its noise is exactly that of a single release at the level reached. Each
increment of rho is charged when it is released, and the union bound over steps needs only the
marginal distribution of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpnb.decide.apportion import shift
from dpnb.decide.certificate import Floats, chances, margin_of_error
from dpnb.decide.conditions import Bools, Condition
from dpnb.privacy.definition import PrivacyDefinition


def growth(privacy: PrivacyDefinition) -> int:
    """Return the factor between the levels of successive steps, which halves the noise."""
    return 2 if privacy.noise == "laplace" else 4


def ladder(first: Fraction, steps: int, privacy: PrivacyDefinition) -> tuple[Fraction, ...]:
    """Return the levels of all steps."""
    return tuple(first * growth(privacy) ** step for step in range(steps))


def passes(sign: int, values: Floats, limits: Floats, u: float) -> Bools:
    """Return where a condition is not rejected: the value is above the threshold moved by ``u``."""
    return np.asarray(sign * (values - limits) > -u)


def kept(
    condition: Condition,
    lines: Sequence[int],
    limits: Floats,
    seen: Sequence[Floats],
    us: Sequence[Sequence[float]],
) -> Bools:
    """Return which conditions no step has rejected, shape (conditions, groups).

    Parameters
    ----------
    lines : sequence of int
        The noisy aggregate of each condition.
    limits : array, shape (conditions, groups)
    seen : sequence of arrays, shape (aggregates, groups)
        The values of each step.
    us : sequence of sequences of float
        By step, the uncertain region of each condition.
    """
    survivors = np.ones(limits.shape, dtype=bool)
    for values, regions in zip(seen, us, strict=True):
        for i, atom in enumerate(condition.atoms):
            survivors[i] &= passes(atom.sign, values[lines[i]], limits[i], regions[i])
    return survivors


def regions(
    levels: Sequence[Fraction],
    shares_: Sequence[float],
    lines: Sequence[int],
    sensitivities: Sequence[float],
    privacy: PrivacyDefinition,
) -> tuple[float, ...]:
    """Return each condition's uncertain region at the levels of one step."""
    return tuple(
        shift(share, levels[line], sensitivities[line], privacy)
        for share, line in zip(shares_, lines, strict=True)
    )


def hopeless(
    condition: Condition,
    lines: Sequence[int],
    limits: Floats,
    still: Bools,
    values: Floats,
    scales: Sequence[float],
    last: Sequence[float],
    us: Sequence[float],
    goal: float,
    privacy: PrivacyDefinition,
) -> bool:
    """Return whether even the last step is not expected to certify the goal.

    True values are assumed to scatter about the newest ones by their noise. A group then counts as
    selected in doubt when its last value would be neither rejected nor surely above the threshold.
    The goal is out of reach when so many are expected, less two standard deviations, that their
    share exceeds it (docs/methods/probe.md, algorithm 13).

    Parameters
    ----------
    still : bool array, shape (conditions, groups)
        Conditions that no step has rejected.
    values : array, shape (aggregates, groups)
        The newest values, with noise of ``scales``.
    last : sequence of float
        Margins of error of the certificate's confidence intervals at the last step, by aggregate.
    us : sequence of float
        Uncertain regions of the last step, by condition.
    """
    signs = np.array([atom.sign for atom in condition.atoms])[:, None]
    regions_ = np.asarray(us)[:, None]
    reach = np.asarray(last)[list(lines)][:, None]

    def above(offsets: Floats) -> Floats:
        return chances(condition, lines, limits + signs * offsets, values, scales, privacy)

    selected, sure = (condition.chance(still * above(by)) for by in (-regions_, reach))
    doubtful = np.clip(selected - sure, 0, 1)
    rejected = 1 - condition.chance(above(-reach))
    most = goal / (1 - goal) * float(rejected.sum())
    spread = math.sqrt(float((doubtful * (1 - doubtful)).sum()))
    return float(doubtful.sum()) - 2 * spread > most


def last_margins_of_error(
    levels: Sequence[Fraction],
    sensitivities: Sequence[float],
    privacy: PrivacyDefinition,
    alpha: float,
) -> list[float]:
    """Return the margins of error of the certificate's confidence intervals at a step's levels."""
    return [
        margin_of_error(level, sensitivity, privacy, alpha)
        for level, sensitivity in zip(levels, sensitivities, strict=True)
    ]
