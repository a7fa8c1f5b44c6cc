"""The distribution of a weighted sum of noises: known values, bounds that hold, and power.

Theorem 4 of docs/methods/bayes.md.
"""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate

from dpnb.estimation import noise as module
from dpnb.estimation.noise import ERROR, Mixture, densities, mixture, surely, tails
from dpnb.privacy.calibrate import NoiseDistribution, sum_quantile

pytestmark = pytest.mark.fast

LEVELS = (0.2, 0.05, 0.01)
# the worked history, query [1, 0, 1, 0]
A = (
    0.4769230769231, 0.3644859813084, -0.03271028037383, 0.4953271028037,
    -0.5000718907261, 0.2615384615385, 0.07009345794393, 0.2383896477354,
)  # fmt: skip
B = (20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0)
ESTIMATE = 42.01380301941
MIXED_SCALES = (3.856399171611, 0.7351597345717, 4.206273714638, 2.325834618873)
MIXED_ESTIMATE = 44.44936247722


@pytest.fixture(scope="module")
def worked():
    return mixture(A, [NoiseDistribution("laplace", b) for b in B])


@pytest.fixture(scope="module")
def mixed():
    return Mixture(MIXED_SCALES, 210.2762025519)


def exact_tail(scales, x):
    """P(X > x) for distinct rational Laplace scales, by partial fractions over the rationals."""
    total = Fraction(0)
    for c in scales:
        weight = Fraction(1)
        for other in scales:
            if other != c:
                weight *= Fraction(c) ** 2 / (Fraction(c) ** 2 - Fraction(other) ** 2)
        total += weight * Fraction(math.exp(-x / c)) / 2
    return float(total)


def random_mixtures(count, seed=5):
    generator = np.random.default_rng(seed)
    for i in range(count):
        scales = generator.exponential(size=generator.integers(0, 8)) * 10 ** generator.uniform(
            -3, 3
        )
        variance = generator.exponential() * (i % 3) * 10 ** generator.uniform(-2, 2)
        if len(scales) or variance:
            yield Mixture(tuple(scales.tolist()), variance)


class TestWorkedHistory:
    """The worked history: its weights and margins of error."""

    def test_its_variance_and_kurtosis(self, worked):
        assert worked.sd**2 == pytest.approx(554.4500359454, rel=1e-8)
        assert worked.kurtosis == pytest.approx(0.84916385, rel=1e-7)

    @pytest.mark.parametrize(
        ("alpha", "half"),
        [(0.2, 28.94770697917), (0.1, 38.45805501941), (0.05, 47.38332970714),
         (0.01, 66.88488644957), (0.001, 93.30055818297)],
    )  # fmt: skip
    def test_its_margins_of_error(self, worked, alpha, half):
        found = worked.margin_of_error(alpha)
        assert found == pytest.approx(half, rel=1e-6)
        assert found >= half

    @pytest.mark.parametrize(
        ("half", "confidence"),
        [(25, 0.7380276917545), (30, 0.8142447285551), (50, 0.9594437496877)],
    )
    def test_its_confidences(self, worked, half, confidence):
        found = worked.confidence(half)
        assert found == pytest.approx(confidence, abs=1e-8)
        assert found <= confidence

    def test_its_claims(self, worked):
        assert worked.cdf(ESTIMATE) == pytest.approx(0.9619041161415, abs=1e-8)
        assert worked.cdf(ESTIMATE - 10) == pytest.approx(0.9195377805779, abs=1e-8)
        between = worked.cdf(ESTIMATE - 30) - worked.cdf(ESTIMATE - 60)
        assert between == pytest.approx(0.5070351908561, abs=1e-8)


class TestMixedHistory:
    """A history of Laplace and Gaussian answers."""

    def test_its_margins_of_error(self, mixed):
        expected = (21.62608217757, 33.2958146836, 44.16341318524)
        for alpha, half in zip(LEVELS, expected, strict=True):
            assert mixed.margin_of_error(alpha) == pytest.approx(half, rel=1e-6)

    def test_its_claims(self, mixed):
        assert mixed.cdf(MIXED_ESTIMATE) == pytest.approx(0.9952258127436, abs=1e-8)
        assert mixed.confidence(25) == pytest.approx(0.8608880157333, abs=1e-8)


class TestSmallMixtures:
    """Known margins of error."""

    @pytest.mark.parametrize(
        ("scales", "variance", "halves"),
        [((1, 1), 0, (2.397275987281, 4.11300328072, 5.990244346246)),
         ((1, 2), 0, (3.714630826199, 6.547809388031, 9.781943925842)),
         ((1, 2, 3), 0, (6.339317408003, 10.83219452269, 15.81682533029)),
         ((1,), 1, (2.085202807859, 3.495132106203, 5.105169077628)),
         ((20,), 25, (32.81375824868, 60.53964547108, 92.72840371976)),
         ((1, 2), 1, (3.940129358743, 6.792306484298, 10.03087193909)),
         ((1, 2, 3), 25, (9.133425097459, 14.40988898086, 19.75041111436))],
    )  # fmt: skip
    def test_their_margins_of_error(self, scales, variance, halves):
        distribution = Mixture(tuple(map(float, scales)), float(variance))
        for alpha, half in zip(LEVELS, halves, strict=True):
            assert distribution.margin_of_error(alpha) == pytest.approx(half, rel=1e-6)

    @pytest.mark.parametrize(
        ("scales", "variance", "values"),
        [((1.0, 2.0, 3.0), 25.0, (0.5285723870417, 0.5569873765375, 0.6660799237058, 0.9188243557033)),
         ((1.0, 2.0), 0.0, (0.5818879212378, 0.6569594670535, 0.859544404629, 0.9955156019889))],
    )  # fmt: skip
    def test_their_distribution_functions(self, scales, variance, values):
        distribution = Mixture(scales, variance)
        for x, value in zip((0.5, 1, 3, 10), values, strict=True):
            assert distribution.cdf(x) == pytest.approx(value, abs=ERROR)
            assert distribution.cdf(-x) == pytest.approx(1 - value, abs=ERROR)


class TestBounds:
    """What is promised holds with the stated error, and is not promised at the price of width."""

    @pytest.mark.parametrize(
        "scales", [(1.0, 2.0), (1.0, 0.01), (1.0, 1e-4), (5.0, 3.0, 2.0, 0.5, 0.125), (1e-6, 3e-6)]
    )
    @pytest.mark.parametrize("alpha", [0.9, 0.2, 1e-3, 9e-4, 1e-6, 1.01e-7])
    def test_margins_of_error_are_safe_and_nearly_least(self, scales, alpha):
        half = Mixture(scales, 0.0).margin_of_error(alpha)
        missed = 2 * exact_tail(scales, half)
        assert missed <= alpha
        assert missed >= alpha - 4.1 * ERROR

    def test_far_out_chernoff_is_safe(self):
        for scales in ((1.0, 2.0), (1.0, 0.5, 0.25)):
            for alpha in (1e-8, 1e-12):
                half = Mixture(scales, 0.0).margin_of_error(alpha)
                assert 2 * exact_tail(scales, half) <= alpha
                assert half < 2 * sum(scales) * math.log(1 / alpha)

    def test_two_equal_laplace_noises(self):
        distribution = NoiseDistribution("laplace", 7.0)
        half = Mixture((7.0, 7.0), 0.0).margin_of_error(0.05)
        assert half == pytest.approx(sum_quantile(distribution, distribution, 0.05), rel=1e-6)

    def test_many_equal_laplace_noises(self):
        """The difference of two Gamma(n) variables, by its integral (Theorem 4.2)."""
        for n in (2, 5, 30):
            found = Mixture((1.0,) * n, 0.0).tail(3.0)
            log_norm = n * math.log(2) + 2 * math.lgamma(n)

            def density(z, n=n, log_norm=log_norm):
                def inner(v):
                    return math.exp((n - 1) * math.log(v * (z + v / 2)) - v - z - log_norm)

                return integrate.quad(inner, 0, 20 + 4 * n, epsabs=1e-13, limit=200)[0]

            expected = integrate.quad(density, 3.0, 30 + 4 * n, epsabs=1e-11, limit=200)[0]
            assert found == pytest.approx(expected, abs=1e-9)

    def test_one_laplace_with_very_little_or_very_much_gaussian_noise(self):
        for ratio in (1e-5, 1e-2, 1.0, 30.0, 1e4):
            distribution = Mixture((1.0,), ratio**2)
            for x in (0.0, 0.3 * distribution.sd, distribution.sd, 4 * distribution.sd):
                by_inversion = module._inversion((1.0,), ratio**2, wide=True).tail_and_density(x)
                assert distribution.tail(x) == pytest.approx(by_inversion[0], abs=ERROR)
        assert Mixture((1.0,), 1e-10).margin_of_error(0.05) == pytest.approx(math.log(20), rel=1e-6)

    def test_confidence_and_margin_of_error_are_inverse(self):
        for distribution in random_mixtures(60):
            for alpha in (0.5, 0.05, 1e-3, 1e-5):
                held = distribution.confidence(distribution.margin_of_error(alpha) * (1 + 1e-12))
                assert 1 - alpha - 5 * ERROR <= held <= 1 - alpha + 5 * ERROR + 1e-11

    def test_arrays_equal_single_values_and_integrate_to_one(self):
        plain = Mixture((), 4.0), Mixture((2.0,), 0.0), Mixture((2.0,), 1.0)
        for distribution in (*random_mixtures(9, seed=6), *plain):
            points = np.linspace(-6, 6, 25) * distribution.sd
            expected = [distribution.tail(float(x)) for x in points]
            assert tails(distribution, points) == pytest.approx(expected, abs=2 * ERROR)
            fine = np.linspace(0, 2, 2_001) * distribution.sd
            inside = integrate.simpson(densities(distribution, fine), x=fine)
            assert inside == pytest.approx(distribution.cdf(2 * distribution.sd) - 0.5, abs=1e-6)

    def test_no_noise_leaves_the_margin(self):
        distribution = Mixture((), 0.0, 0.5)
        assert distribution.margin_of_error(0.05) == 0.5
        assert distribution.confidence(0.5) == 1
        assert distribution.confidence(0.49) == 0
        assert (distribution.cdf(-1e-9), distribution.cdf(0.0)) == (0, 1)

    def test_the_margin_is_added_and_taken_off(self):
        plain, wide = Mixture((1.0, 2.0), 1.0), Mixture((1.0, 2.0), 1.0, 0.25)
        assert wide.margin_of_error(0.05) == plain.margin_of_error(0.05) + 0.25
        assert wide.confidence(5.25) == plain.confidence(5.0)

    def test_no_scales_need_more_terms_than_stated(self):
        for ratio in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
            assert module._inversion((1.0, ratio), 0.0, wide=True).sines.size < 2**18


class TestWeights:
    def test_scales_are_weighted_and_zeros_left_out(self):
        distributions = [
            NoiseDistribution("laplace", 2.0),
            NoiseDistribution("gaussian", 3.0),
            NoiseDistribution("laplace", 5.0),
            NoiseDistribution("gaussian", 1.0),
        ]
        found = mixture([-2, 2, 0, 1], distributions, [1.0, 0.0, 9.0, 0.5])
        assert found == Mixture((4.0,), 37.0, 1.0)


class TestScreening:
    def test_it_never_contradicts_the_exact_distribution(self):
        verdicts = set()
        for distribution, alpha in itertools.product(random_mixtures(60), (0.9, 0.2, 0.05, 1e-3)):
            for factor in (0.3, 0.7, 0.95, 1.05, 1.5, 4.0):
                half = distribution.margin_of_error(alpha) * factor
                verdict = surely(distribution, half, alpha)
                verdicts.add(verdict)
                assert verdict is None or verdict == (factor > 1)
        assert verdicts == {True, False, None}

    def test_it_takes_the_margin_into_account(self):
        assert surely(Mixture((1.0,), 0.0, 10.0), 10.1, 0.05) is False


def lattice(distribution, reach):
    """The exact distribution of noise on the integers from -reach to reach."""
    k = np.abs(np.arange(-reach, reach + 1))
    raw = (
        np.exp(-k / distribution.scale)
        if distribution.family == "laplace"
        else np.exp(-((k / distribution.scale) ** 2) / 2)
    )
    return raw / raw.sum()


def misses(distributions, weights, half):
    """P(|sum of weighted lattice noises| > half), exactly, for whole weights."""
    total = np.ones(1)
    for distribution, weight in zip(distributions, weights, strict=True):
        base = lattice(distribution, int(40 * distribution.scale) + 20)
        stretched = np.zeros((len(base) - 1) * weight + 1)
        stretched[::weight] = base
        total = np.convolve(total, stretched)
    places = np.abs(np.arange(len(total)) - len(total) // 2)
    return float(total[places > half].sum())


class TestLatticeNoise:
    """By exact probabilities instead of draws."""

    @pytest.mark.parametrize("scale", [0.2, 0.3, 0.5, 1.0, 2.0, 3.0])
    @pytest.mark.parametrize("weights", [(1,), (1, 1), (1,) * 6, (3, 2, 1), (7, 1, 1, 2)])
    @pytest.mark.parametrize("gaussian", [False, True])
    def test_margins_of_error_hold(self, scale, weights, gaussian):
        distributions = [NoiseDistribution("laplace", scale)] * len(weights)
        if gaussian:
            distributions[-1] = NoiseDistribution("gaussian", scale)
        distribution = mixture(weights, distributions, [1.0] * len(weights))
        for alpha in (0.2, 0.05, 0.01, 1e-3, 1e-5):
            assert misses(distributions, weights, distribution.margin_of_error(alpha)) <= alpha

    def test_noise_of_equal_variance_would_not_do(self):
        distributions = [NoiseDistribution("laplace", 0.2)] * 2
        p = math.exp(-5)
        matched = Mixture((math.sqrt(p) / (1 - p),) * 2, 0.0, 0.5)
        assert misses(distributions, (1, 1), matched.margin_of_error(0.01)) > 0.02

    def test_without_the_margin_it_would_not_do_either(self):
        distributions = [NoiseDistribution("laplace", 1.0)] * 2
        assert (
            misses(distributions, (1, 1), mixture((1, 1), distributions).margin_of_error(0.01))
            > 0.013
        )


class TestCoverage:
    """Noise stays within the margin of error as often as stated; noise of another scale does not."""

    @pytest.mark.parametrize("alpha", LEVELS)
    @pytest.mark.parametrize("wrong", [False, True])
    def test_of_random_mixtures(self, alpha, wrong, size, equals):
        distribution = Mixture((3.0, 1.0, 0.5, 0.5), 4.0)
        generator = np.random.default_rng(11)
        count = size(100_000)
        noise = generator.normal(0, 2, count)
        for scale in distribution.scales:
            noise += generator.laplace(0, scale, count)
        if wrong:
            noise *= 1.1
        assert equals(np.abs(noise) > distribution.margin_of_error(alpha), alpha) is not wrong


class TestSpeed:
    """Ten times the targets of 4 ms and 20 ms, so that a busy machine passes."""

    @pytest.mark.parametrize(("terms", "limit"), [(130, 0.04), (1000, 0.2)])
    def test_of_first_intervals(self, terms, limit, seconds):
        generator = np.random.default_rng(1)
        times = []
        for _ in range(5):
            scales = generator.exponential(size=terms) * 1e-2
            scales[0] = 5.0
            distribution = Mixture(tuple(scales.tolist()), 0.0)
            start = time.perf_counter()
            distribution.margin_of_error(0.05)
            times.append(time.perf_counter() - start)
        assert min(times) < seconds(limit)
