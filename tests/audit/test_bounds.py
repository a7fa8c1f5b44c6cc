"""The bounds themselves: never above the truth, near it, and for no particular distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.audit.bounds import delta_bound, epsilon_bound, rho_bound

ERROR = 1e-6


@pytest.fixture
def generator():
    return np.random.default_rng(7)


@pytest.mark.parametrize("rho", [0.05, 0.5, 2.0])
def test_a_gaussian_loses_its_rho_and_no_more(rho, generator):
    shift = math.sqrt(2 * rho)
    first, second = generator.normal(shift, 1, 200_000), generator.normal(0, 1, 200_000)
    ratio = [shift * x - rho for x in (first, second)]
    found = rho_bound(*ratio, ERROR)
    assert 0.8 * rho - 0.03 < found < rho


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_a_coin_loses_its_epsilon_and_no_more(epsilon, generator):
    kept = math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = generator.random(200_000) < kept, generator.random(200_000) >= kept
    found = epsilon_bound(first.astype(float), second.astype(float), ERROR)
    assert 0.85 * epsilon - 0.03 < found < epsilon


def test_delta_is_taken_off(generator):
    leaked = np.where(generator.random(100_000) < 0.05, 3.0, 0.0)
    assert epsilon_bound(leaked, np.zeros(100_000), ERROR) > 3
    assert epsilon_bound(leaked, np.zeros(100_000), ERROR, delta=0.051) == 0


def test_equal_laws_lose_nothing(generator):
    first, second = generator.normal(size=(2, 50_000))
    assert rho_bound(first, second, ERROR) == 0
    assert epsilon_bound(first, second, ERROR) == 0


def test_whatever_the_score_the_bound_holds_and_only_good_ones_reach_it(generator):
    first, second = generator.normal(1, 1, 100_000), generator.normal(0, 1, 100_000)
    for score in (np.sin, np.square, np.exp, lambda x: 40 * x, lambda x: -x):
        assert rho_bound(score(first), score(second), ERROR) < 0.5


def test_what_one_table_alone_can_show(generator):
    hits = generator.random(100_000) < 0.01
    never = np.zeros(100_000, dtype=bool)
    assert 0.008 < delta_bound(hits, never, ERROR) < 0.01
    with pytest.raises(ValueError, match="other table"):
        delta_bound(hits, hits, ERROR)
