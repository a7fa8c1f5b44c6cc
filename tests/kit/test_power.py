from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.kit.power import FALSE, MISSED, coverage, decided, repeated, scales, shares

pytestmark = pytest.mark.fast


def test_intervals_a_tenth_too_narrow_hold_less_often():
    assert coverage(0.95, 1) == pytest.approx(0.95)
    assert coverage(0.95, 0.9) == pytest.approx(0.9223, abs=1e-4)


@pytest.mark.parametrize(("claimed", "defect"), [(0.95, 0.9223), (0.05, 0.08), (0.5, 0.6)])
def test_so_many_trials_tell_two_probabilities_apart(claimed, defect):
    count = shares(claimed, defect)
    ends = stats.binom.ppf([FALSE, 1 - FALSE], count, claimed)
    found = stats.binom.ppf([MISSED, 1 - MISSED], count, defect)
    assert found[1] < ends[0] or found[0] > ends[1]


def test_so_many_draws_tell_a_scale_that_is_off():
    assert 1_300 < scales(0.85) < 2_600
    assert 1_300 < scales(1.15) < 3_600


@pytest.mark.parametrize("truth", [0.95, 0.9])
def test_a_sequence_stops_on_the_right_side(truth):
    draws = np.random.default_rng(1).random(20_000) < truth
    asked = []

    def trial(seed):
        asked.append(seed)
        return bool(draws[seed])

    assert decided(repeated(trial), 0.95, 0.9) is (truth == 0.95)
    assert len(asked) < shares(0.95, 0.9)
