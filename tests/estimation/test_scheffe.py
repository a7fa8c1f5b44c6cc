"""How far any combination of noises can be off, in its own standard deviations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpnb.errors import RequestError
from dpnb.estimation.scheffe import MOST, factor


@pytest.mark.parametrize("count", [1, 6, 400])
def test_gaussian_noises_alone_are_chi_squared(count):
    assert factor(count, 0, 0.05) == pytest.approx(
        math.sqrt(stats.chi2.ppf(0.95, count)), rel=1e-12
    )


@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-3, 1e-6, 1e-9])
def test_one_laplace_noise_has_a_closed_form(alpha):
    # P(|N| > q sd) = exp(-sqrt(2) q)
    exact = -math.log(alpha) / math.sqrt(2)
    assert exact * (1 - 1e-6) <= factor(0, 1, alpha) <= exact * 1.01


def test_two_laplace_noises_agree_with_an_integral():
    found = factor(0, 2, 0.01)
    # P(E1^2 + E2^2 > 2 q^2) over the first exponential
    limit = math.sqrt(2) * found
    x = np.linspace(0, limit, 2_000_001)
    inside = np.exp(-x - np.sqrt(np.maximum(limit**2 - x**2, 0)))
    chance = math.exp(-limit) + np.trapezoid(inside, x)
    assert chance == pytest.approx(0.01, rel=2e-3)
    assert chance <= 0.01 * (1 + 1e-6)


@pytest.mark.parametrize(("gaussian", "laplace"), [(0, 4), (3, 5), (20, 1), (0, 300)])
def test_it_is_what_simulation_gives(gaussian, laplace):
    generator, count = np.random.default_rng(5), 50_000
    squares = generator.chisquare(gaussian, count) if gaussian else np.zeros(count)
    for _ in range(laplace):
        # the size of Laplace noise is exponential, its variance twice the square of its scale
        squares += generator.standard_exponential(count) ** 2 / 2
    worst = np.sqrt(squares)
    for alpha in (0.2, 0.02):
        missed = int((worst > factor(gaussian, laplace, alpha)).sum())
        assert stats.binomtest(missed, count, alpha).pvalue > 1e-6


def test_of_very_many_it_is_too_wide_rather_than_too_narrow():
    # near the root of the mean plus 1.645 standard deviations of a sum of so many
    near = math.sqrt(5_000 + 1.645 * math.sqrt(5 * 5_000))
    assert near <= factor(0, 5_000, 0.05) <= 1.02 * near


@pytest.mark.parametrize("laplace", [MOST + 1, 300_000, 10**8])
@pytest.mark.parametrize("gaussian", [0, 500])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-6])
def test_of_any_number_it_is_found_and_near(gaussian, laplace, alpha):
    # the sum is nearly normal by then, of mean n and variance 5 n
    exact = gaussian + laplace + stats.norm.isf(alpha) * math.sqrt(2 * gaussian + 5 * laplace)
    found = factor(gaussian, laplace, alpha)
    assert math.sqrt(exact) <= found <= math.sqrt(exact) * 1.1


def test_both_ways_meet():
    below, above = factor(9, MOST, 0.05), factor(9, MOST + 1, 0.05)
    assert below == pytest.approx(above, rel=0.05)


def test_nothing_held_is_never_off():
    assert factor(0, 0, 0.05) == 0


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, 1e-10, math.nan])
def test_what_makes_no_sense(alpha):
    with pytest.raises(RequestError):
        factor(3, 3, alpha)
