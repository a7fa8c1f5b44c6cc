"""How evenly epsilons are spread: exact values, the bound below and the filling above them."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from dpnb.decide.entropy import box, dual, enumerated, greedy, min_entropy

pytestmark = pytest.mark.fast

ORACLES = [
    # docs/methods/probe.md, definition 24: exact, and the lower bound
    ([0.1] * 4, 0.9878370737578037, 0.9856209478),
    ([0.5] * 4, 0.7020649983900173, 0.6666529344),
    ([1.0] * 4, 0.31730656975078425, 0.2566195384),
    ([0.1, 0.1, 0.5, 1.0], 0.7611882443457668, 0.6062492503),
    ([0.05] * 476, 0.9991903847914595, 0.9991897001),
    ([1.0] * 476, 0.7534501681047995, 0.7529464591),
]


@pytest.mark.parametrize(("epsilons", "exact", "below"), ORACLES)
def test_values_are_those_of_the_specification(epsilons, exact, below):
    assert min_entropy(epsilons) == pytest.approx(exact, rel=1e-9)
    spent = np.array(epsilons)
    assert dual(spent) / math.log(len(spent)) == pytest.approx(below, rel=1e-9)


def test_the_bound_lies_below_and_the_filling_above():
    rng = np.random.default_rng(5)
    for k in (2, 3, 5, 9, 12):
        for _ in range(20):
            spent = rng.exponential(rng.choice([0.05, 0.5, 3.0]), k)
            exact = enumerated(spent)
            assert min_entropy(spent) == pytest.approx(max(exact, 0) / math.log(k), abs=1e-12)
            assert dual(spent) <= exact + 1e-12
            assert greedy(spent) * math.log(k) >= exact - 1e-12


def test_no_probabilities_that_are_allowed_have_less_entropy():
    """Random vertices and mixtures of them; also beyond what is enumerated."""
    rng = np.random.default_rng(6)
    for k in (4, 40):
        spent = rng.exponential(0.5, k)
        low, high = box(spent)
        least = math.inf
        for _ in range(500):
            p, rest = low.copy(), 1 - low.sum()
            for i in rng.permutation(k):
                step = min(rest, high[i] - low[i])
                p[i] += step
                rest -= step
            assert rest < 1e-12
            least = min(least, float(-(p * np.log(p)).sum()))
        assert min_entropy(spent) * math.log(k) <= least + 1e-12
        # and the bound is no idle one
        assert min_entropy(spent) * math.log(k) >= least - 0.25


def test_the_bound_is_the_best_multiplier():
    rng = np.random.default_rng(7)
    spent = rng.exponential(0.5, 30)
    low, high = box(spent)
    nu = np.linspace(-10, 10, 20_001)[:, None]
    ends = [-(p * np.log(p)) + nu * p for p in (low, high)]
    grid = np.minimum(*ends).sum(axis=1) - nu[:, 0]
    assert grid.max() <= dual(spent) + 1e-12
    assert grid.max() == pytest.approx(dual(spent), abs=1e-3)


def test_nothing_spent_leaves_everything_open():
    assert min_entropy([0.0] * 7) == pytest.approx(1.0, rel=1e-12)
    assert min_entropy([0.0] * 700) == pytest.approx(1.0, rel=1e-12)
    assert min_entropy([3.0]) == 1.0


def test_it_falls_as_one_group_spends_more():
    found = [min_entropy([0.1] * 99 + [more]) for more in (0.1, 0.5, 2.0, 5.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.7 * found[0]


@pytest.mark.parametrize("spent", [800.0, 1e6])
def test_large_epsilons_neither_overflow_nor_turn_negative(spent):
    assert 0 <= min_entropy([spent] * 5) <= 1
    assert 0 <= min_entropy([spent] * 50) <= 1
    assert 0 <= min_entropy([0.1] * 50 + [spent]) <= 1


def test_many_groups_take_little_time(seconds):
    spent = np.random.default_rng(8).exponential(0.5, 20_000)
    start = time.perf_counter()
    min_entropy(spent)
    taken = time.perf_counter() - start
    assert taken < seconds(0.5)
