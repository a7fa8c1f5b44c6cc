"""The exact posterior: oracle O14, normal histories, and the sampler against closed forms (U7)."""

from __future__ import annotations

import numpy as np
import pytest

from dpnb.errors import RequestError
from dpnb.inference.exact import (
    Exponentials,
    Normal,
    Sample,
    batch_error,
    exponentials,
    gibbs,
    interval,
    posterior,
)  # fmt: skip
from dpnb.privacy.calibrate import Law

H = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
Y = np.array([30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5])
B = (20, 10, 20, 10, 10, 40, 40, 10)
QUERY = np.array([1.0, 0, 1, 0])


def laplace(*scales):
    return [Law("laplace", float(scale)) for scale in scales]


class TestOneUnknown:
    def test_three_answers(self):
        law = exponentials((10, 12, 20), (0.5, 1, 0.1))
        assert law.cdf(11) == pytest.approx(0.290702399124, abs=1e-11)
        assert law.cdf(15) == pytest.approx(0.994819142733, abs=1e-11)
        found = [law.quantile(p) for p in (0.025, 0.5, 0.975)]
        assert found == pytest.approx([9.19207668, 11.64552045, 13.87584649], abs=1e-8)

    def test_two_equal_answers_leave_a_flat_piece(self):
        law = exponentials((0, 5), (1, 1))
        assert law.cdf(0) == pytest.approx(1 / 12, rel=1e-12)
        assert law.cdf(2.5) == pytest.approx(0.5, rel=1e-12)
        ends = interval(law, 0.05)
        assert ends == pytest.approx((-0.601986402163, 5.601986402163), abs=1e-11)

    def test_the_hypothesis_example(self):
        law = posterior(np.ones((3, 1)), np.array([48.0, 55, 53]), laplace(5, 5, 10), np.ones(1))
        assert 1 - law.cdf(50) == pytest.approx(0.70272574, abs=1e-8)
        single = posterior(np.ones((1, 1)), np.array([45.0]), laplace(10), np.ones(1))
        assert 1 - single.cdf(50) == pytest.approx(0.30326533, abs=1e-8)

    @pytest.mark.parametrize("seed", range(6))
    def test_it_equals_its_integral(self, seed):
        generator = np.random.default_rng(seed)
        z, s = generator.normal(0, 3, 6).round(1), generator.exponential(1, 6) + 0.2
        law = exponentials(z.tolist(), s.tolist())
        x = np.linspace(-40, 40, 200_001)
        density = np.exp(-np.abs(x[:, None] - z) @ s)
        density /= density.sum()
        mean = float(density @ x)
        assert law.mean == pytest.approx(mean, abs=1e-6)
        assert law.sd == pytest.approx(float(density @ (x - mean) ** 2) ** 0.5, rel=1e-6)
        assert law.cdf(0.5002) == pytest.approx(float(density[x < 0.5002].sum()), abs=1e-6)

    def test_quantiles_invert_the_distribution_function(self):
        law = exponentials((1, 1, 4, 7.5), (0.3, 0.7, 2, 1))
        for p in (1e-12, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9):
            assert law.cdf(law.quantile(p)) == pytest.approx(p, rel=1e-9)

    def test_far_answers_do_not_overflow(self):
        law = exponentials((-1e6, 0, 1e6), (1, 5, 1))
        assert law.mean == pytest.approx(0, abs=1e-9)
        assert law.sd == pytest.approx(2**0.5 / 5, rel=1e-9)

    def test_the_query_may_be_a_multiple_and_rows_may_be_scaled(self):
        rows = np.array([[2.0], [-1.0], [0.0]])
        law = posterior(rows, np.array([20.0, -12.0, 5.0]), laplace(4, 1, 1), np.array([-3.0]))
        # gamma is 10 at rate 1/2 and 12 at rate 1; the query is -3 gamma
        expected = exponentials((-30, -36), (1 / 6, 1 / 3))
        assert isinstance(law, Exponentials)
        assert law.quantile(0.2) == pytest.approx(expected.quantile(0.2), rel=1e-12)


class TestGaussianHistories:
    def test_they_are_exact_without_draws(self):
        """O10."""
        laws = [Law("gaussian", s) for s in (20.0, 12, 25, 12, 10, 30, 35, 12)]
        law = posterior(H, Y, laws, QUERY)
        assert isinstance(law, Normal)
        assert law.mean == pytest.approx(44.491208563536, rel=1e-10)
        assert law.sd == pytest.approx(15.180542654323, rel=1e-10)
        low, high = interval(law, 0.05)
        assert (high - low) / 2 == pytest.approx(29.753316868247, rel=1e-10)


class TestSampler:
    """U7."""

    def test_it_meets_the_closed_form(self, size):
        """And that of noise of another scale it does not."""
        z = np.array([10.0, 12, 20])
        sample = gibbs(np.ones((3, 1)), z, laplace(2, 1, 10), seed=4, draws=size(20_000))[:, 0]
        shares = (0.025, 0.25, 0.75, 0.975)
        for scale in (1.0, 1 / 1.3, 1.3):
            law = exponentials(z.tolist(), (0.5 / scale, 1 / scale, 0.1 / scale))
            quantiles = np.quantile(sample, shares)
            distance = max(abs(law.cdf(q) - p) for q, p in zip(quantiles, shares, strict=True))
            assert (distance < 0.015) is (scale == 1.0)

    def test_the_worked_example(self, size):
        law = posterior(H, Y, laplace(*B), QUERY, seed=7, draws=size(15_000))
        assert isinstance(law, Sample)
        assert 0.02 < law.error < 0.4
        assert law.mean == pytest.approx(43.73, abs=0.6)
        assert law.sd == pytest.approx(18.1, abs=0.6)
        assert 1 - law.cdf(0) == pytest.approx(0.9865, abs=0.005)
        assert interval(law, 0.05) == pytest.approx((6.8, 79.7), abs=1.5)

    def test_mixed_laws_of_one_unknown(self, size):
        """Against the integral of Laplace(1) at 0 times N(4, 1)."""
        laws = [Law("laplace", 1.0), Law("gaussian", 1.0)]
        law = posterior(np.ones((2, 1)), np.array([0.0, 4.0]), laws, np.ones(1), draws=size(15_000))
        x = np.linspace(-10, 15, 100_001)
        density = np.exp(-np.abs(x) - (x - 4) ** 2 / 2)
        density /= density.sum()
        assert law.mean == pytest.approx(float(density @ x), abs=0.06)
        assert law.cdf(2) == pytest.approx(float(density[x <= 2].sum()), abs=0.02)

    def test_a_draw_on_an_answer_does_no_harm(self):
        """All answers agree, so the first draw starts at a distance of 0."""
        sample = gibbs(np.eye(2), np.array([3.0, 4.0]), laplace(1e-6, 1e6), draws=500)
        assert np.isfinite(sample).all()
        assert sample[:, 0] == pytest.approx(3.0, abs=1e-3)

    def test_the_same_seed_gives_the_same_draws(self):
        runs = [gibbs(H, Y, laplace(*B), seed=seed, draws=20) for seed in (1, 1, 2)]
        assert (runs[0] == runs[1]).all()
        assert (runs[0] != runs[2]).any()

    def test_batch_means_see_dependence(self):
        noise = np.random.default_rng(0).normal(size=40_000)
        assert batch_error(noise) == pytest.approx(1 / 200, rel=0.25)
        assert batch_error(np.repeat(noise[:4_000], 10)) == pytest.approx(4_000**-0.5, rel=0.35)

    def test_answers_that_do_not_determine_the_query_are_refused(self):
        rows = np.array([[1.0, 1.0], [2.0, 2.0]])
        for law in laplace(1)[0], Law("gaussian", 1.0):
            with pytest.raises(RequestError, match="do not determine"):
                posterior(rows, np.ones(2), [law] * 2, np.ones(2))
