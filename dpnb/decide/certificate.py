"""What released values prove about one result: surely yes, surely no, or unknown for each group.

Confidence intervals that hold for all groups and noisy aggregates at once, with confidence
1 - alpha, settle conditions. Kleene's logic settles the groups. Counting them bounds the shares of
false and missed groups *of this very result*. Nothing is released for it (docs/methods/probe.md,
theorem 11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.decide.conditions import Bools, Condition
from dpnb.privacy.calibrate import distribution
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.releases.accuracy import ANY_LOOK

Floats: TypeAlias = npt.NDArray[np.float64]
Verdicts: TypeAlias = npt.NDArray[np.int8]
"""1 for surely yes, -1 for surely no, 0 for unknown."""

_FIRST_SHARE = 16
"""The mixture of :func:`past_margin_of_error` is tightest at the first level seen, divided by this.
At the first level its confidence intervals are a fifth wider than at a level fixed beforehand."""


def margin_of_error(
    level: Fraction, sensitivity: float, privacy: PrivacyDefinition, alpha: float
) -> float:
    """Return the margin of error of a confidence interval that fails with probability ``alpha``.

    Laplace: sensitivity ln(1/alpha) / epsilon, for docs/methods/probe.md, theorem 11.
    Gaussian: the two-sided quantile; the theorem uses no other property of Laplace noise.
    """
    return distribution(level, sensitivity, privacy).quantile(alpha)


def past_margin_of_error(
    first: Fraction,
    held: Fraction,
    refinements: int,
    sensitivity: float,
    privacy: PrivacyDefinition,
    alpha: float,
) -> float:
    """Return the margin of error of a value whose reader chose how often and how far to refine it.

    Gaussian paths: precision times error is a Brownian motion in the level. With r > 0 fixed before
    its first value was seen, |error| <= sigma sqrt((1 + r/level) (ln(1 + level/r) + 2 ln(1/alpha)))
    at all levels at once (docs/methods/probe.md, theorem 12); r is a sixteenth of the first level.
    Laplace chains: the levels of a chain are fixed, and the i-th level from the first one seen
    gets 6/(pi i)^2 of alpha (union bound).

    Parameters
    ----------
    first, held : Fraction
        The level seen first, and the current one.
    refinements : int
        Levels of the chain from ``first`` to ``held``, 0 when they are the same.
    """
    noise_law = distribution(held, sensitivity, privacy)
    match privacy.noise:
        case "laplace":
            return noise_law.quantile(alpha * ANY_LOOK / (refinements + 1) ** 2)
        case "gaussian":
            ratio = float(held / first) * _FIRST_SHARE
            return noise_law.scale * math.sqrt(
                (1 + 1 / ratio) * (math.log1p(ratio) - 2 * math.log(alpha))
            )


def settle(
    condition: Condition, lines: Sequence[int], limits: Floats, low: Floats, high: Floats
) -> tuple[Bools, Bools]:
    """Return which conditions are surely true and which may be true, in each group.

    Parameters
    ----------
    lines : sequence of int
        The noisy aggregate of each condition.
    limits : array, shape (conditions, groups)
        Thresholds.
    low, high : array, shape (aggregates, groups)
        Ends of the confidence intervals of the aggregates.
    """
    sure, open_ = [], []
    for atom, line, limit in zip(condition.atoms, lines, limits, strict=True):
        lower, upper, bar = low[line], high[line], limit
        if atom.sign < 0:
            lower, upper, bar = -upper, -lower, -bar
        # a sum of 0 may mean an average at its threshold, or no rows, which satisfies nothing
        either = atom.aggregate.function.is_mean
        sure.append(lower > bar if atom.strict or either else lower >= bar)
        open_.append(upper > bar if atom.strict and not either else upper >= bar)
    return np.array(sure, dtype=bool), np.array(open_, dtype=bool)


def verdicts(
    condition: Condition, lines: Sequence[int], limits: Floats, low: Floats, high: Floats
) -> Verdicts:
    """Return what the confidence intervals prove about each group; see :func:`settle`.

    As the condition is monotone, Kleene's logic is its value at the sure and at the possible
    truths.
    """
    sure, possible = settle(condition, lines, limits, low, high)
    verdict = condition.value(sure).astype(np.int8) - (~condition.value(possible)).astype(np.int8)
    return np.asarray(verdict, dtype=np.int8)


def shares(selected: Bools, verdict: Verdicts) -> tuple[float, float]:
    """Return upper bounds of the false-positive and false-negative rates of this result.

    The bound is F / (F + T), where F counts the selected groups that are not surely true and T the
    other groups that are surely false. Every selected false group is in F, and moving a group of F
    from true to false raises the rate (docs/methods/probe.md, theorem 11). The bound is 0 when no
    group in doubt is selected (false positives) or left out (false negatives).
    """
    yes, no = verdict == 1, verdict == -1

    def share(doubtful: int, right: int) -> float:
        return doubtful / (doubtful + right) if doubtful else 0.0

    false = share(int((selected & ~yes).sum()), int((no & ~selected).sum()))
    missed = share(int((~selected & ~no).sum()), int((yes & selected).sum()))
    return false, missed


def wrong_share(selected: Bools, verdict: Verdicts) -> float:
    """Return an upper bound of the share of the selected groups that are false; 0 of none.

    Every false one is among those that are not surely true (docs/methods/probe.md, theorem 11).
    """
    doubtful = int((selected & (verdict != 1)).sum())
    return doubtful / int(selected.sum()) if doubtful else 0.0


def chances(
    condition: Condition,
    lines: Sequence[int],
    limits: Floats,
    values: Floats,
    scales: Sequence[float],
    privacy: PrivacyDefinition,
) -> Floats:
    """Return an estimate of each condition's probability in each group; not a bound.

    The true values are taken as the released ones plus noise (a flat prior). Shape (conditions,
    groups).
    """
    probabilities = []
    for atom, line, limit in zip(condition.atoms, lines, limits, strict=True):
        z = atom.sign * (values[line] - limit) / scales[line]
        if privacy.noise == "laplace":
            half = 0.5 * np.exp(-np.abs(z))
            probabilities.append(np.where(z > 0, 1 - half, half))
        else:
            from scipy.special import ndtr

            probabilities.append(ndtr(z))
    return np.array(probabilities)
