"""The indicator against its published values, its simulation, and what it says of losses.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.risk.indicator import FORMS, expected_size, floor, limit, relative

pytestmark = pytest.mark.fast

LOSSES = np.r_[0.0, np.geomspace(1e-9, 1e4, 400)]
DEFINITIONS = (ZCDP, PURE)


def gaussian(k, distance, sigma, form):
    """The indicator in units of the answer."""
    losses = np.array([distance**2 / (2 * sigma**2)])
    return relative(losses, ZCDP, form, k)[0] * floor(NoiseDistribution("gaussian", sigma), form, k)


def laplace(parts, b, form, k=1):
    """The indicator in units of the answer; ``parts`` are the coordinates of one row."""
    losses = np.atleast_2d(parts) / b if form == "exact" else np.array([np.sum(parts) / b])
    return relative(losses, PURE, form, k)[0] * floor(NoiseDistribution("laplace", b), form, k)


class TestPublishedValues:
    """Oracles 5, 6 and 7."""

    @pytest.mark.parametrize(
        ("b", "distance", "expected"),
        [(1, 0, 1), (1, 1, 1.3678794412), (10, 1, 10.0483741804), (100, 1, 100.0049833749)],
    )
    def test_exact_form_of_laplace_noise(self, b, distance, expected):
        assert laplace(distance, b, "exact") == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize(
        ("k", "distance", "sigma", "expected"),
        [
            (1, 1, 1, 1.1666309412),
            (1, 0, 1, 0.7978845608),
            (1, 1, 4.8, 3.9126595555),
            (3, 2, 1.5, 3.0469601007),
            (5, 1, 10, 21.2981909483),
            (6, 1, 0.5, 1.5257796630),
            (1, 1, 0.01, 1),
        ],
    )
    def test_exact_form_of_gaussian_noise(self, k, distance, sigma, expected):
        assert gaussian(k, distance, sigma, "exact") == pytest.approx(expected, abs=1e-9)

    def test_divergence_of_laplace_noise(self):
        t = 1.3 / 2
        assert t + math.exp(-t) - 1 == pytest.approx(0.1720457768, abs=1e-9)
        assert laplace(1.3, 2, "exact") == pytest.approx(2.3440915535, abs=1e-9)

    @pytest.mark.parametrize(
        ("v", "sigma", "rho", "expected"),
        [
            ((3, -1, 0, 2), (1, 2, 0.5, 4), 4.75, 3.6742346142),
            ((1, 3), (2, 5), 0.305, 1.6155494421),
        ],
    )
    def test_several_outputs_of_different_noise(self, v, sigma, rho, expected):
        found = np.sum((np.array(v) / sigma) ** 2) / 2
        assert found == pytest.approx(rho)
        k = len(v)
        indicator = relative(np.array([rho]), ZCDP, "bound", k)[0] * floor(
            NoiseDistribution("gaussian", 1.0), "bound", k
        )
        assert indicator == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize(
        ("tau", "epsilon", "rho"), [(0.95, 0.3429771568, 0.0530965094), (0.5, 1.8414056604, 1.1898380290)]
    )  # fmt: skip
    def test_inversion_of_the_exact_forms(self, tau, epsilon, rho):
        assert limit(tau, PURE, "exact") == pytest.approx(epsilon, abs=1e-7)
        assert limit(tau, ZCDP, "exact") == pytest.approx(rho, abs=1e-7)

    @pytest.mark.parametrize(
        ("tau", "epsilon", "rho"),
        [
            (0.99, 0.0101010101, 0.0101520253),
            (0.95, 0.0526315789, 0.0540166205),
            (0.9, 0.1111111111, 0.1172839506),
            (0.75, 1 / 3, 0.3888888889),
            (0.5, 1, 1.5),
            (0.25, 3, 7.5),
            (0.05, 19, 199.5),
            (1, 0, 0),
            (0, math.inf, math.inf),
        ],
    )
    def test_the_public_rule(self, tau, epsilon, rho):
        """Oracle 4: a tau fixes the level when somebody may reach the largest contribution."""
        assert limit(tau, PURE) == pytest.approx(epsilon, abs=1e-9)
        assert limit(tau, ZCDP) == pytest.approx(rho, abs=1e-9)

    def test_the_strict_form_is_comparable_with_laplace_noise(self):
        """E12: at the same tau Laplace noise of epsilon costs epsilon^2 / 2 of zCDP."""
        assert limit(0.95, ZCDP, "linear") == pytest.approx(0.001385, abs=1e-6)
        for tau in (0.1, 0.5, 0.95, 0.999):
            assert limit(tau, ZCDP, "linear") == pytest.approx(limit(tau, PURE) ** 2 / 2)


class TestMeaning:
    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize("form", FORMS)
    def test_nobody_is_below_the_floor_and_losses_raise_it(self, privacy, form):
        found = relative(LOSSES, privacy, form)
        assert found[0] == 1
        assert np.all(np.diff(found) >= 0)
        # below 1e-8 the exact Laplace form is 1 + t^2 / 2 = 1 for floats
        assert np.all(np.diff(found[LOSSES > 1e-6]) > 0)
        assert np.isfinite(found).all()

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("tau", [0.01, 0.3, 0.5, 0.9, 0.999])
    def test_a_limit_is_where_the_ratio_reaches_tau(self, privacy, form, tau):
        """Theorem 6: a ratio to the floor is a cap on the loss of one person."""
        most = limit(tau, privacy, form)
        assert 1 / relative(np.array([most]), privacy, form)[0] == pytest.approx(tau, rel=1e-9)
        assert 1 / relative(np.array([most * 1.01]), privacy, form)[0] < tau

    def test_the_excess_over_the_floor_says_the_loss(self):
        assert relative(np.array([0.7]), PURE)[0] == pytest.approx(1.7)
        assert relative(np.array([0.7]), ZCDP)[0] ** 2 == pytest.approx(1 + 2 * 0.7)
        assert relative(np.array([0.72]), ZCDP, "linear")[0] == pytest.approx(1 + 1.2)

    def test_the_bound_is_never_below_the_exact_form_and_never_above_the_strict_one(self):
        for k in (1, 2, 7):
            exact = [gaussian(k, d, 1.7, "exact") for d in (0, 0.1, 1, 5, 60)]
            bound = [gaussian(k, d, 1.7, "bound") for d in (0, 0.1, 1, 5, 60)]
            linear = [gaussian(k, d, 1.7, "linear") for d in (0, 0.1, 1, 5, 60)]
            assert all(a <= b <= c for a, b, c in zip(exact, bound, linear, strict=True))
        assert laplace([2.0, 1.0], 1.5, "exact", k=2) < laplace([2.0, 1.0], 1.5, "bound", k=2)

    def test_the_exact_form_tells_apart_what_the_laplace_bound_ties(self):
        """Theorem 4: in the mean the order is that of the divergence."""
        one, two = [2.0, 0.0], [1.0, 1.0]
        assert laplace(one, 1, "bound", k=2) == laplace(two, 1, "bound", k=2)
        assert laplace(one, 1, "exact", k=2) > laplace(two, 1, "exact", k=2)

    @pytest.mark.parametrize("k", [1, 2, 3, 6])
    @pytest.mark.parametrize("loss", [0.0, 1e-8, 0.3, 40.0, 800.0])
    def test_the_exact_gaussian_form_is_the_mean_of_a_noncentral_chi(self, k, loss):
        chi = stats.ncx2(k, 2 * loss) if loss else stats.chi2(k)
        low, high = (chi.ppf(p) for p in (1e-14, 1 - 1e-14))
        mean, _ = integrate.quad(
            lambda r: r * 2 * r * chi.pdf(r * r), math.sqrt(low), math.sqrt(high), limit=500
        )
        found = relative(np.array([loss]), ZCDP, "exact", k)[0]
        assert found * floor(NoiseDistribution("gaussian", 1.0), "exact", k) == pytest.approx(
            mean, rel=1e-6
        )


class TestSimulated:
    """Theorems 3 and 4 of docs/methods/rdr.md, by 2e6 draws."""

    COUNT = 2_000_000

    @pytest.mark.parametrize("v", [(0.0,), (1.3,), (-2.0, 0.5, 1.0)])
    def test_distances_under_laplace_noise(self, v, size):
        b, count = 2.0, size(self.COUNT) // len(v)
        drawn = np.random.default_rng(1).laplace(0, b, (count, len(v)))
        distances = np.abs(drawn + v).sum(axis=1)
        error = distances.std() / math.sqrt(count)
        mean, k = distances.mean(), len(v)
        assert mean == pytest.approx(laplace(np.abs(v), b, "exact", k), abs=6 * error)
        assert mean <= laplace(np.abs(v), b, "bound", k) + 6 * error
        assert abs(mean - laplace(np.abs(v) * 1.1, b, "exact", k)) > 6 * error or not any(v)

    @pytest.mark.parametrize("v", [(0.0,), (1.3,), (-2.0, 0.5, 1.0)])
    def test_distances_under_gaussian_noise(self, v, size):
        sigma, count = 1.5, size(self.COUNT) // len(v)
        drawn = np.random.default_rng(2).normal(0, sigma, (count, len(v)))
        distances = np.sqrt(((drawn + v) ** 2).sum(axis=1))
        error = distances.std() / math.sqrt(count)
        mean, k, d = distances.mean(), len(v), float(np.linalg.norm(v))
        assert mean == pytest.approx(gaussian(k, d, sigma, "exact"), abs=6 * error)
        assert mean <= gaussian(k, d, sigma, "bound") + 6 * error
        assert np.sqrt((distances**2).mean()) == pytest.approx(
            gaussian(k, d, sigma, "bound"), rel=0.002
        )

    def test_the_gaussian_loss_is_normal_with_twice_its_mean_as_variance(self, size):
        """Theorem 3: v = (1, -2, 0.5), sigma = 3."""
        v, sigma, count = np.array([1, -2, 0.5]), 3.0, size(1_000_000)
        z = np.random.default_rng(3).normal(0, sigma, (count, 3))
        losses = (2 * z @ v + v @ v) / (2 * sigma**2)
        rho = float(v @ v) / (2 * sigma**2)
        assert rho == pytest.approx(0.2917, abs=1e-4)
        assert losses.mean() == pytest.approx(rho, abs=0.005)
        assert losses.var() == pytest.approx(0.5833, abs=0.006)
        assert expected_size(rho, ZCDP) == pytest.approx(0.6533, abs=1e-4)
        assert np.abs(losses).mean() == pytest.approx(expected_size(rho, ZCDP), abs=0.003)
        assert stats.kstest(losses[:10_000], stats.norm(rho, math.sqrt(2 * rho)).cdf).pvalue > 1e-9
        assert stats.kstest(losses[:10_000], stats.norm(rho, math.sqrt(rho)).cdf).pvalue < 1e-9

    @pytest.mark.parametrize(("t", "expected"), [(1, 0.84518), (3, 2.39647), (0, 0)])
    def test_the_mean_size_of_a_laplace_loss(self, t, expected, size):
        z = np.random.default_rng(4).laplace(0, 1, size(self.COUNT))
        losses = np.abs(z + t) - np.abs(z)
        assert expected_size(t, PURE) == pytest.approx(expected, abs=1e-5)
        assert np.abs(losses).mean() == pytest.approx(expected, abs=0.002)

    def test_the_mean_size_of_no_loss_is_0(self):
        assert expected_size(0.0, ZCDP) == 0
