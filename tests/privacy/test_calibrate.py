"""Noise distributions, their quantiles, and levels from wanted errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from dpnb.estimation.estimates import cut
from dpnb.estimation.intervals import mean_around_zero
from dpnb.privacy.calibrate import (
    SUM_SHARE,
    NoiseDistribution,
    distribution,
    level_for_error,
    level_for_mean_error,
    safe_scale,
    sum_quantile,
)
from dpnb.privacy.definition import PURE, ZCDP

DEFINITIONS = (ZCDP, PURE)


class TestLaw:
    @pytest.mark.parametrize(
        ("rho", "sensitivity", "sigma", "half"),
        [
            ("0.1", 1, 2.2360679775, 4.38261270288),
            ("0.1", 200_000, 447213.5955, 876522.540577),
            ("0.05", 1, 3.16227766017, 6.19795032305),
            ("0.05", 200_000, 632455.532034, None),
            ("0.05", 100_000, 316227.766017, None),
            ("1/10", 4, 8.94427191, 17.5304508115),
            ("1/10", 16, 35.77708764, 70.1218032461),
            ("1/10", 2, 4.472135955, 8.76522540577),
            ("1/100", 16, 113.137084990, 221.744611896),
        ],
    )
    def test_gaussian_scales_of_the_oracles(
        self, rho: str, sensitivity: float, sigma: float, half: float | None
    ) -> None:
        found = distribution(Fraction(rho), sensitivity, ZCDP)
        assert found.family == "gaussian"
        assert found.scale == pytest.approx(sigma, rel=1e-9)
        if half is not None:
            assert found.quantile(0.05) == pytest.approx(half, rel=1e-9)

    def test_laplace_scale_is_sensitivity_over_epsilon(self) -> None:
        found = distribution(Fraction(1, 4), 3, PURE)
        assert found == NoiseDistribution("laplace", 12.0)
        assert found.quantile(0.05) == pytest.approx(12 * math.log(20), rel=1e-12)

    @pytest.mark.parametrize(
        ("alpha", "z"),
        [
            (0.05, 1.95996398454),
            (0.025, 2.2414027276),
            (0.0125, 2.49770547441),
            (0.05 / 3, 2.39397979975),
            (0.05 / 6, 2.63825727348),
        ],
    )
    def test_normal_quantiles(self, alpha: float, z: float) -> None:
        assert NoiseDistribution("gaussian", 2.0).quantile(alpha) == pytest.approx(2 * z, rel=1e-9)

    @given(st.floats(1e-12, 0.999))
    def test_quantiles_leave_alpha_outside(self, alpha: float) -> None:
        gaussian, laplace = (
            NoiseDistribution("gaussian", 1.5).quantile(alpha),
            NoiseDistribution("laplace", 1.5).quantile(alpha),
        )
        assert 2 * stats.norm.sf(gaussian / 1.5) == pytest.approx(alpha, rel=1e-9)
        assert 2 * stats.laplace.sf(laplace / 1.5) == pytest.approx(alpha, rel=1e-9)

    def test_plain_data_round_trip(self) -> None:
        for family in ("gaussian", "laplace"):
            assert NoiseDistribution.from_dict(
                NoiseDistribution(family, 0.1).to_dict()
            ) == NoiseDistribution(family, 0.1)

    @given(
        st.fractions(Fraction(1, 10**6), 100, max_denominator=10**6).filter(bool),
        st.integers(2**21, 2**31),
    )
    def test_the_scale_drawn_never_costs_more_than_the_level(
        self, level: Fraction, sensitivity: int
    ) -> None:
        sigma = Fraction(safe_scale(level, sensitivity, ZCDP))
        assert sensitivity**2 / (2 * sigma**2) <= level
        scale = Fraction(safe_scale(level, sensitivity, PURE))
        assert sensitivity / scale <= level
        assert float(sensitivity / scale) == pytest.approx(float(level), rel=1e-13)


class TestSumQuantile:
    @pytest.mark.parametrize("ratio", [0.0, 1e-6, 0.01, 0.3, 0.9, 0.999, 0.99999, 0.999999, 1.0])
    @pytest.mark.parametrize("alpha", [0.9, 0.05, 1e-8])
    def test_laplace_tail_by_numeric_integration(self, ratio: float, alpha: float) -> None:
        scale = 3.7
        t = (
            sum_quantile(
                NoiseDistribution("laplace", scale),
                NoiseDistribution("laplace", ratio * scale),
                alpha,
            )
            / scale
        )
        if ratio == 0:
            tail = math.exp(-t)
        else:
            # P(X + Y > t) over the distribution of the narrower noise, cut at its kinks
            breaks = sorted({-40 * ratio, 0.0, min(t, 40 * ratio), 40 * ratio})
            tail = 2 * sum(
                integrate.quad(
                    lambda y: stats.laplace.pdf(y / ratio) / ratio * stats.laplace.sf(t - y),
                    low,
                    high,
                    epsabs=0,
                    epsrel=1e-11,
                    limit=200,
                )[0]
                for low, high in itertools.pairwise(breaks)
                if low < high
            )
        assert tail == pytest.approx(alpha, rel=1e-7)

    def test_order_is_irrelevant_and_scales_multiply(self) -> None:
        a, b = NoiseDistribution("laplace", 2.0), NoiseDistribution("laplace", 0.5)
        t = sum_quantile(a, b, 0.05)
        assert sum_quantile(b, a, 0.05) == t
        assert sum_quantile(
            NoiseDistribution("laplace", 20.0), NoiseDistribution("laplace", 5.0), 0.05
        ) == pytest.approx(10 * t)

    def test_gaussian_variances_add(self) -> None:
        found = sum_quantile(
            NoiseDistribution("gaussian", 3.0), NoiseDistribution("gaussian", 4.0), 0.05
        )
        assert found == pytest.approx(5 * 1.95996398454, rel=1e-9)

    @given(st.floats(0, 1), st.floats(1e-9, 0.99))
    def test_lies_between_the_wider_noise_and_the_sum_of_both(
        self, ratio: float, alpha: float
    ) -> None:
        t = sum_quantile(
            NoiseDistribution("laplace", 1.0), NoiseDistribution("laplace", ratio), alpha
        )
        alone = -math.log(alpha)
        assert alone * (1 - 1e-9) <= t <= alone * (1 + ratio) * (1 + 1e-9) + 2e-12


class TestSumShare:
    @staticmethod
    def mean_width(share: float, privacy: str) -> float:
        """Margin of error of the interval, averaged over means uniform on the bounds."""
        if privacy == ZCDP:
            return integrate.quad(lambda u: math.sqrt(1 / share + u**2 / (1 - share)), 0, 1)[0]
        wide = NoiseDistribution("laplace", 1 / share)
        nodes, weights = np.polynomial.legendre.leggauss(40)
        return sum(
            w
            / 2
            * sum_quantile(wide, NoiseDistribution("laplace", (x + 1) / 2 / (1 - share)), 0.05)
            for x, w in zip(nodes, weights, strict=True)
        )

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_is_within_a_ten_thousandth_of_the_optimum(self, privacy: str) -> None:
        best = optimize.minimize_scalar(
            self.mean_width, (0.4, 0.6, 0.8), args=(privacy,), options={"xtol": 1e-6}
        )
        chosen = self.mean_width(float(SUM_SHARE[privacy]), privacy)
        assert chosen <= best.fun * (1 + 1e-4)
        assert self.mean_width(0.5, privacy) > best.fun * (1 + 1e-2)


class TestLevelForError:
    @given(
        st.floats(1e-6, 1e6),
        st.floats(1e-3, 1e9),
        st.floats(1e-9, 0.5),
        st.sampled_from(DEFINITIONS),
    )
    def test_is_the_least_level_that_meets_the_error(
        self, error: float, sensitivity: float, alpha: float, privacy: str
    ) -> None:
        level = level_for_error(error, sensitivity, alpha, privacy)
        assert distribution(level, sensitivity, privacy).quantile(alpha) <= error
        less = level * Fraction(10**9 - 1, 10**9)
        assert distribution(less, sensitivity, privacy).quantile(alpha) > error

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_half_the_error_costs_twice_the_epsilon_and_four_times_the_rho(
        self, privacy: str
    ) -> None:
        one, half = (level_for_error(e, 1.0, 0.05, privacy) for e in (10.0, 5.0))
        assert float(half / one) == pytest.approx(4 if privacy == ZCDP else 2, rel=1e-10)


class TestLevelForMeanError:
    HALF_RANGE = 10.0

    def widths(
        self, privacy: str, level: Fraction, rows: int, mean: float, alpha: float, count: int
    ) -> np.ndarray:
        share = SUM_SHARE[privacy]
        total_distribution = distribution(level * share, self.HALF_RANGE, privacy)
        count_distribution = distribution(level * (1 - share), 1.0, privacy)
        rng = np.random.default_rng(rows)
        draw = rng.normal if privacy == ZCDP else rng.laplace
        totals = rows * mean + draw(0, total_distribution.scale, count)
        counts = rows + draw(0, count_distribution.scale, count)
        pairs = [
            cut(
                mean_around_zero(s, c, total_distribution, count_distribution, alpha),
                (-self.HALF_RANGE, self.HALF_RANGE),
            )
            for s, c in zip(totals, counts, strict=True)
        ]
        return np.array([(high - low) / 2 for low, high in pairs])

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize(
        ("rows", "error", "mean"),
        [(100, 0.5, 0.0), (100, 0.5, 10.0), (20, 3.0, -9.5), (5_000, 0.01, 6.0), (10, 9.0, 8.0)],
    )
    def test_intervals_are_as_narrow_as_wished_in_the_confidence_share(
        self,
        privacy: str,
        rows: int,
        error: float,
        mean: float,
        size: Callable[[int], int],
    ) -> None:
        alpha, count = 0.2, size(400 if privacy == ZCDP else 150)
        level = level_for_mean_error(
            error, self.HALF_RANGE, rows, alpha, SUM_SHARE[privacy], privacy
        )
        wide = (self.widths(privacy, level, rows, mean, alpha, count) > error).sum()
        assert stats.binom.sf(wide - 1, count, alpha) > 1e-9

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_a_quarter_more_noise_would_be_too_much(
        self, privacy: str, size: Callable[[int], int]
    ) -> None:
        alpha, count, rows, error = 0.2, size(800 if privacy == ZCDP else 600), 1_000, 0.1
        level = level_for_mean_error(
            error, self.HALF_RANGE, rows, alpha, SUM_SHARE[privacy], privacy
        )
        less = level / (Fraction(25, 16) if privacy == ZCDP else Fraction(5, 4))
        wide = (self.widths(privacy, less, rows, 9.5, alpha, count) > error).sum()
        assert stats.binom.sf(wide - 1, count, alpha) < 1e-9

    @given(
        st.floats(1e-3, 9.0),
        st.integers(1, 10**7),
        st.sampled_from(DEFINITIONS),
    )
    def test_larger_groups_cost_less(self, error: float, rows: int, privacy: str) -> None:
        share = SUM_SHARE[privacy]
        small, large = (
            level_for_mean_error(error, 10.0, n, 0.05, share, privacy) for n in (rows, 2 * rows)
        )
        assert float(small / large) == pytest.approx(4 if privacy == ZCDP else 2, rel=1e-9)
