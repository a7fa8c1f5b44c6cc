"""Cost and remaining doubt with other uncertain regions, from released values only. Free."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpnb.display.cards.decision_line import region_text
from dpnb.errors import printable
from dpnb.privacy.loss import amount_text

if TYPE_CHECKING:
    from dpnb.decide.decision import Decision, Test

MULTIPLES = tuple(2.0 ** (place / 2) for place in range(-6, 7))
"""Multiples of the first uncertain regions, from 1/8 to 8."""


def offers(made: Decision) -> list[list[str]]:
    """Return multiples of the first uncertain regions, each with its cost and remaining doubt.

    Returns
    -------
    list of [multiple, sentence]
        Empty if there are no noisy values, or if the first step was free.
    """
    first = made.first_cost.level(made.privacy)
    if not made.readings or first == 0:
        return []
    return [[f"× {times:.3g}", _sentence(made, times, first)] for times in MULTIPLES]


def first_factor(made: Decision) -> float:
    """Return the uncertain regions of the first step as a multiple of the newest step's."""
    return 2.0 ** (max(len(made.taken), 1) - 1)


def cost_at(first: Fraction, times: float, *, pure: bool) -> Fraction:
    """Return the privacy loss of a first step with ``times`` its uncertain regions.

    Laplace noise: epsilon = sensitivity ln(1/(2 beta)) / u; Gaussian: rho is proportional to 1/u^2
    (:func:`dpnb.decide.apportion.level_for`).
    """
    return first / Fraction(times if pure else times * times)


def expected_doubt(made: Decision, times: float) -> float:
    """Estimate how many groups would have a condition in doubt after such a first step.

    A new noisy value scatters around the released one with the noise of both. A condition is in
    doubt while its threshold lies in the confidence interval, whose width is proportional to the
    noise. The estimate treats noise as normal, and noise of different conditions as independent; it
    is not a bound.
    """
    certainty = np.ones(len(made.groups))
    for test in made.tests:
        certainty *= 1 - _doubt(made, test, times * first_factor(made))
    return float((1 - certainty).sum())


def _doubt(
    made: Decision, test: Test, growth: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return each group's chance that a condition is in doubt with ``growth`` times the noise."""
    from scipy.special import ndtr

    reading = made.readings[test.reading]
    sd = reading.distribution.scale * (
        math.sqrt(2) if reading.distribution.family == "laplace" else 1.0
    )
    half = growth * (np.asarray(reading.high) - np.asarray(reading.low)) / 2
    gap = np.asarray(reading.values) - np.asarray(test.limits)
    spread = max(sd * math.hypot(1.0, growth), 1e-300)
    chance = ndtr((half - gap) / spread) - ndtr((-half - gap) / spread)
    return np.asarray(np.where(np.isfinite(half), chance, 1.0))


def _regions(made: Decision, times: float) -> str:
    if made.mode == "margin":
        return f"Grey widths: {times:.3g} times those you gave"
    growth = times * first_factor(made)
    regions = (f"{test.text} by {region_text(test, growth)}" for test in made.tests)
    return f"Uncertain regions: {'; '.join(regions)}"


def _sentence(made: Decision, times: float, first: Fraction) -> str:
    cost = cost_at(first, times, pure=made.privacy.noise == "laplace")
    regions = _regions(made, times)
    beyond = " (more than is left)" if cost > made.remaining.level(made.privacy) else ""
    doubt, total = expected_doubt(made, times), len(made.groups)
    about = "fewer than 1" if doubt < 1 else f"about {round(doubt):,}"
    # other conditions may settle a group that has one condition in doubt
    most = "at most " if len(made.tests) > 1 and doubt >= 1 else ""
    return printable(
        f"{regions}. A first step would cost {made.privacy.parameter} "
        f"{amount_text(cost)}{beyond} and leave {most}{about} of {total:,} groups in "
        "doubt."
    )
