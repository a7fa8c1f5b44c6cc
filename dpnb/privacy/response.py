"""Randomised response on the truth of each group: bounds on both errors for every database.

One row is in one group, so all groups together cost as much as one. No mechanism with these two
bounds has a smaller epsilon: apply its privacy to neighbouring tables with different truth
(docs/methods/probe.md, theorem 15).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import ceiling_digits
from dpnb.privacy.noise import Noise

if TYPE_CHECKING:
    import numpy.typing as npt


def epsilon(missed: float, false: float) -> float:
    """Return max(ln((1 - beta)/alpha), ln((1 - alpha)/beta)) for the bounds beta and alpha."""
    return max(math.log((1 - missed) / false), math.log((1 - false) / missed))


def level(missed: float, false: float, privacy: PrivacyDefinition) -> Fraction:
    """Return the privacy cost: epsilon, or in zCDP epsilon tanh(epsilon / 2), rounded up.

    Pure epsilon-DP implies zCDP of that rho. Renyi divergences of pure DP are largest for symmetric
    randomised response; there the ratio of divergence to order is largest at order 1, where it is
    the Kullback-Leibler divergence (docs/methods/probe.md, theorem 15).
    """
    loss = epsilon(missed, false)
    cost = loss if privacy.noise == "laplace" else loss * math.tanh(loss / 2)
    # coins are exact to 2**-64, and so is a double next to 1: the last term covers the effect
    return ceiling_digits(cost * (1 + 1e-12) + 2.0**-50 / min(missed, false))


def respond(truth: npt.NDArray[np.bool_], missed: float, false: float, noise: Noise) -> list[int]:
    """Return 1 with probability 1 - beta if true and alpha if false; otherwise 0."""
    true_coins, false_coins = noise.coins(1 - missed, len(truth)), noise.coins(false, len(truth))
    return [int(answer) for answer in np.where(truth, true_coins, false_coins)]
