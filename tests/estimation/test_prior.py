"""Priors: worked examples, intervals that keep their level, contradictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpnb.errors import RequestError
from dpnb.estimation.noise import Mixture, densities
from dpnb.estimation.prior import AtMost, NonNegative, Normal, Uniform, update

pytestmark = pytest.mark.fast

LAPLACE = Mixture((2.0,), 0.0)
GAUSS = Mixture((), 1.0)
SUM = Mixture((1.0, 2.0), 1.0, 0.5)


class TestUniform:
    def test_on_whole_numbers(self):
        """A worked example."""
        found = update(Uniform(0, 50), 3.0, LAPLACE, integer=True)
        assert found.probability(0, 0) == pytest.approx(0.059675878757, abs=1e-10)
        assert found.probability(high=2) == pytest.approx(0.320280626233, abs=1e-10)
        assert found.probability(3, 3) == pytest.approx(0.267448733587, abs=1e-10)
        assert found.mean == pytest.approx(3.509762116817, abs=1e-9)

    def test_the_interval_holds_the_most_likely_values(self):
        found = update(Uniform(0, 50), 3.0, LAPLACE, integer=True)
        low, high = found.interval(0.2)
        assert (low, high) == (0, 5)
        assert found.probability(low, high) >= 0.8
        assert found.probability(low, high - 1) < 0.8

    def test_on_real_numbers(self):
        """Laplace cut to [1, 9] at 3, by its integral."""
        found = update(Uniform(1, 9), 3.0, LAPLACE)
        x = np.linspace(1, 9, 800_001)
        density = np.exp(-np.abs(x - 3) / 2)
        density /= density.sum()
        assert found.mean == pytest.approx(float(density @ x), abs=1e-4)
        assert found.probability(2, 5) == pytest.approx(
            float(density[(x > 2) & (x < 5)].sum()), abs=1e-4
        )
        assert found.probability() == pytest.approx(1, abs=1e-12)

    def test_a_wide_one_says_nothing(self):
        found = update(Uniform(-1e9, 1e9), 3.0, SUM)
        assert found.mean == pytest.approx(3, abs=1e-6)
        assert found.sd == pytest.approx(SUM.sd, rel=1e-4)


class TestNormal:
    def test_with_normal_noise_it_is_the_weighted_mean(self):
        """A worked example."""
        found = update(Normal(50, 10), 42.0, Mixture((), 225.0))
        assert found.mean == pytest.approx(47.538461538, abs=1e-8)
        assert found.sd == pytest.approx(8.320502943, abs=1e-8)
        low, high = found.interval(0.05)
        assert (high - low) / 2 == pytest.approx(1.959964 * 8.320502943, rel=0.005)

    @pytest.mark.parametrize("sd", [1e-4, 1e4])
    def test_narrow_and_wide_ones_are_resolved(self, sd):
        found = update(Normal(3.5, sd), 3.0, SUM)
        assert found.sd == pytest.approx(min(sd, SUM.sd), rel=0.001)


class TestValues:
    def test_two_values_by_bayes_rule(self):
        found = update({0: 0.5, 10: 0.5}, 6.0, LAPLACE)
        assert found.probability(10) == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-12)
        assert found.interval(0.05) == (0, 10)
        assert found.interval(0.3) == (10, 10)

    def test_their_probabilities_count(self):
        found = update({0: 0.9, 4: 0.1}, 3.0, SUM)
        left, right = densities(SUM, np.array([3.0, -1.0]))
        assert found.probability(0, 0) == pytest.approx(0.9 * left / (0.9 * left + 0.1 * right))

    def test_a_function_is_taken_on_the_grid(self):
        triangle = update(lambda x: max(0.0, 1 - abs(x - 5) / 5), 5.0, SUM)
        assert triangle.mean == pytest.approx(5, abs=1e-6)
        assert triangle.probability(0, 10) == pytest.approx(1, abs=1e-6)
        assert triangle.sd < min(SUM.sd, 5 / math.sqrt(6))


class TestKnownBounds:
    """Definition 16 of docs/methods/bayes.md."""

    def test_the_interval_is_cut_and_no_narrower(self):
        half = SUM.margin_of_error(0.05)
        assert update(NonNegative(), 2.0, SUM).interval(0.05) == (0, 2 + half)
        assert update(AtMost(5), 2.0, SUM).interval(0.05) == (0, 5)
        assert update(NonNegative(), 100.0, SUM).interval(0.05) == (100 - half, 100 + half)

    def test_below_zero_only_zero_is_left(self):
        assert update(NonNegative(), -4.0, GAUSS).interval(0.05) == (0, 0)

    @pytest.mark.parametrize(("theta", "coverage"), [(0, 0.975), (4, 0.95)])
    def test_it_covers_as_often_as_without(self, theta, coverage, size, equals):
        count = size(1_000)
        estimates = theta + np.random.default_rng(2).normal(size=count)
        held = [
            low <= theta <= high
            for low, high in (update(NonNegative(), e, GAUSS).interval(0.05) for e in estimates)
        ]
        assert equals(held, coverage)

    def test_the_narrowest_interval_of_the_truncated_law_would_cover_less(self):
        """The estimates whose interval from a uniform prior on [0, 100] holds 4, exactly."""
        grid = np.linspace(-3, 9, 481)
        holds = []
        for e in grid:
            low, high = update(Uniform(0, 100), 4.0 + (e - 3), GAUSS).interval(0.05)
            holds.append(low <= 4 <= high)
        weights = np.exp(-((grid - 3) ** 2) / 2)
        assert float(weights @ holds / weights.sum()) == pytest.approx(0.943, abs=0.003)

    def test_claims_use_the_bound(self):
        found = update(NonNegative(), 0.0, GAUSS)
        assert found.probability(high=0) == 0
        assert found.mean == pytest.approx(math.sqrt(2 / math.pi), abs=1e-4)


class TestRefusals:
    @pytest.mark.parametrize(
        ("prior", "estimate"),
        [(Uniform(0, 1), 100.0), (Normal(0, 1), 100.0), ({0: 1.0}, 100.0), (NonNegative(), -100.0),
         (AtMost(10), 99.0), (lambda x: 0.0, 1.0)],
    )  # fmt: skip
    def test_a_contradiction_is_told(self, prior, estimate):
        with pytest.raises(
            RequestError, match=r"contradicts the answers.*Check the prior's numbers"
        ):
            update(prior, estimate, LAPLACE)

    @pytest.mark.parametrize("prior", [NonNegative(), Uniform(0, 9), Normal(-9, 5), {-8.0: 1.0}])
    def test_a_strain_is_no_contradiction(self, prior):
        assert math.isfinite(update(prior, -8.0, LAPLACE).mean)

    @pytest.mark.parametrize(
        "prior",
        [Uniform(1, 1), Uniform(0, math.inf), AtMost(0), Normal(0, 0), Normal(math.nan, 1), {},
         {0: 0.0}, {0: -1.0, 1: 2.0}, {math.inf: 1.0}, lambda x: -1.0, lambda x: math.nan, "flat"],
    )  # fmt: skip
    def test_nonsense_is_told(self, prior):
        with pytest.raises(RequestError) as caught:
            update(prior, 3.0, LAPLACE)
        assert caught.value.hint

    def test_without_noise_there_is_nothing_to_update(self):
        with pytest.raises(RequestError, match="the estimate has no noise"):
            update(NonNegative(), 3.0, Mixture((), 0.0))
