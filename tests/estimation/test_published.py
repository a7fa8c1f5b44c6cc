"""Published accuracies that follow from group sizes and means alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpnb.estimation.intervals import combine, mean_in_box
from dpnb.privacy.calibrate import NoiseDistribution

pytestmark = pytest.mark.fast

LARGEST = 200_000
"""Bound of an income."""
PRESCHOOL, GRADE_9 = (3_437, 16_418.25), (22_931, 15_553.80)


@pytest.mark.parametrize(("rho", "published"), [(0.05, 0.588), (0.1, 0.942)])
def test_how_often_a_true_but_small_difference_is_confirmed(rho, published, size):
    """Question I5 in its true direction by the paper's intervals: half the budget to sums and counts."""
    runs = size(4_000)
    rng = np.random.default_rng(12)
    total, count = (
        NoiseDistribution("gaussian", LARGEST / math.sqrt(rho)),
        NoiseDistribution("gaussian", 1 / math.sqrt(rho)),
    )
    share = 0.05 / 2
    confirmed = 0
    for _ in range(runs):
        ends = [
            mean_in_box(
                rows * mean + rng.normal(0, total.scale), rows + rng.normal(0, count.scale),
                total, count, share,
            )
            for rows, mean in (PRESCHOOL, GRADE_9)
        ]  # fmt: skip
        confirmed += combine(ends, [1, -1], 0)[0] >= 0
    assert confirmed / runs == pytest.approx(published, abs=0.03)
