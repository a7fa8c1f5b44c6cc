"""The paper's approximations: what they give as printed, and how they should be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from dpnb.errors import RequestError
from dpnb.estimation.noise import Mixture, tails
from dpnb.studies.bayes import (
    draws,
    error,
    exact_cells,
    grid,
    histogram,
    kolmogorov_bound,
    lengths,
    monte_carlo_margin_of_error,
    normal_margin_of_error,
)  # fmt: skip

pytestmark = pytest.mark.fast

SCALES = (
    9.538461538462, 3.644859813084, 0.6542056074766, 4.953271028037,
    5.000718907261, 10.46153846154, 2.803738317757, 2.383896477354,
)  # fmt: skip
LAW = Mixture(SCALES, 0.0)


class TestGridMethod:
    def test_the_corrected_lengths_lose_less_than_gamma(self):
        assert lengths(SCALES) == [129, 51, 11, 69, 69, 141, 39, 33]
        assert grid(SCALES, step=1.0).lost == pytest.approx(0.0073492, abs=1e-7)

    def test_the_printed_lengths_lose_nineteen_times_gamma(self):
        """Error 2 of docs/methods/bayes.md."""
        assert lengths(SCALES, mode="paper") == [65, 27, 7, 35, 35, 71, 21, 17]
        assert grid(SCALES, mode="paper").lost == pytest.approx(0.18982041, abs=1e-8)

    def test_the_printed_algorithm_would_never_end_on_them(self):
        """Error 4."""
        with pytest.raises(RequestError, match="covers only 0.81018"):
            grid(SCALES, mode="paper").margin_of_error(0.05, "paper")

    def test_whole_cells_are_counted_or_returned(self):
        """k = 48 on the unit grid; error 4: the printed ends leave out half a cell."""
        unit = grid(SCALES, step=1.0)
        assert unit.margin_of_error(0.05, "paper") == 48
        assert unit.margin_of_error(0.05) == 48.5

    def test_the_corrected_method_is_near_the_exact_distribution(self):
        fine = grid(SCALES, gamma=1e-5)
        assert fine.margin_of_error(0.05) == pytest.approx(LAW.margin_of_error(0.05), rel=0.005)
        assert LAW.confidence(fine.margin_of_error(0.05)) >= 0.95 - 1e-5

    def test_printed_ends_of_a_narrow_law_cover_too_little(self):
        """Error 4: one Laplace of scale 0.5."""
        exact = exact_cells(Mixture((0.5,), 0.0), 101)
        held = Mixture((0.5,), 0.0).confidence(exact.margin_of_error(0.05, "paper"))
        assert held == pytest.approx(0.865, abs=0.0005)
        assert Mixture((0.5,), 0.0).confidence(exact.margin_of_error(0.05)) >= 0.95

    def test_the_unit_grid_distorts_many_small_terms(self):
        """Error 3: 1,000 terms of scale 0.1 have variance 20, on the unit grid 6.7."""
        found = grid([0.1] * 1000, step=1.0)
        places = np.arange(len(found.masses)) - len(found.masses) // 2
        assert float(found.masses @ places**2) == pytest.approx(6.7, abs=0.1)

    def test_cells_lie_around_the_middle(self):
        """Three cells, the middle one from -1/2 to 1/2."""
        found = exact_cells(Mixture((2.0,), 0.0), 3)
        inner = 1 - np.exp(-0.25)
        outer = (np.exp(-0.25) - np.exp(-0.75)) / 2
        assert found.masses == pytest.approx([outer, inner, outer], rel=1e-12)


class TestMonteCarlo:
    def test_draws_follow_the_exact_distribution(self, size):
        """Kolmogorov's distance; a scale off by 2 % is seen."""
        count = size(200_000)
        sample = np.sort(draws(LAW, count, seed=3))
        steps = np.arange(count + 1) / count
        # a cubic through so many points of the distribution function is within 1e-6 of it
        points = np.linspace(-20, 20, 1_001) * LAW.sd
        cdf = CubicSpline(points, 1 - tails(LAW, points))
        assert cdf(3.21) == pytest.approx(LAW.cdf(3.21), abs=1e-6)
        for scale in (1, 1.02):
            exact = cdf(scale * sample)
            distance = max(np.max(steps[1:] - exact), np.max(exact - steps[:-1]))
            assert bool(distance < kolmogorov_bound(count, 1e-3)) is (scale == 1)

    def test_gaussian_parts_are_drawn_too(self, size):
        distribution = Mixture((1.0,), 9.0)
        assert draws(distribution, size(100_000), seed=1).var() == pytest.approx(11, rel=0.03)

    def test_the_same_seed_gives_the_same_margin_of_error(self):
        found = [monte_carlo_margin_of_error(LAW, 0.05, 20_000, seed) for seed in (1, 1, 2)]
        assert found[0] == found[1] != found[2]
        assert found[0] == pytest.approx(LAW.margin_of_error(0.05), rel=0.03)

    def test_the_error_of_its_masses(self):
        """(1 - sum p^2) / m_s = 9.87e-6 on average for 10^5 draws and unit cells."""
        exact = exact_cells(LAW, 401)
        count = 100_000
        expected = (1 - float(np.sum(exact.masses**2))) / count
        assert expected == pytest.approx(9.87e-6, rel=1e-3)
        found = [error(histogram(draws(LAW, count, seed)), exact) for seed in range(20)]
        assert np.mean(found) == pytest.approx(expected, rel=0.05)


class TestNormalApproximation:
    def test_it_is_refused_far_from_normal(self):
        with pytest.raises(RequestError, match="kurtosis is 0.849"):
            normal_margin_of_error(LAW, 0.05)

    def test_it_is_near_for_many_small_terms(self):
        distribution = Mixture((0.1,) * 400, 0.0)
        assert normal_margin_of_error(distribution, 0.05) == pytest.approx(
            distribution.margin_of_error(0.05), rel=1e-3
        )
