"""The sampler that releases rest on: exact distributions, 64-bit integers, fair coins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpnb.privacy.noise import SecureNoise, gaussian_around
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.entropy
P_FLOOR = 1e-9


def discrete_distribution(family: str, scale: float, reach: int) -> np.ndarray:
    """Probabilities of -reach..reach, the tails gathered in the two end cells."""
    wide = np.arange(-60 * math.ceil(scale), 60 * math.ceil(scale) + 1)
    weights = (
        np.exp(-(wide**2) / (2 * scale**2)) if family == "gaussian" else np.exp(-abs(wide) / scale)
    )
    weights /= weights.sum()
    cells = np.clip(wide, -reach, reach)
    return np.array([weights[cells == value].sum() for value in range(-reach, reach + 1)])


def chi_square(sample: np.ndarray, probabilities: np.ndarray, reach: int) -> float:
    """The p-value of the sample's cells."""
    clipped = np.clip(sample, -reach, reach)
    seen = np.array([(clipped == value).sum() for value in range(-reach, reach + 1)])
    return float(stats.chisquare(seen, probabilities * len(sample)).pvalue)


def draw(family: str, exact: list[int], scale: float) -> np.ndarray:
    noise = SecureNoise()
    return np.array(getattr(noise, family)(exact, scale), dtype=np.int64)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
class TestVectors:
    def test_small_scales_have_the_exact_discrete_distribution(
        self, family: str, size: Callable[[int], int]
    ) -> None:
        # 5,000 tell distributions of Laplace noise that are 20 % apart at P_FLOOR, and miss one in a million
        sample = draw(family, [0] * size(10_000), 3.0)
        assert chi_square(sample, discrete_distribution(family, 3.0, 7), 7) > P_FLOOR
        for wrong in (0.8, 1.2):
            assert chi_square(sample, discrete_distribution(family, 3.0 * wrong, 7), 7) < P_FLOOR

    def test_scales_near_one_have_the_exact_discrete_distribution(
        self, family: str, size: Callable[[int], int]
    ) -> None:
        # 12,500 tell distributions of Laplace noise that are 10 % apart at P_FLOOR, and miss one in a million
        sample = draw(family, [0] * size(16_000), 0.9)
        assert chi_square(sample, discrete_distribution(family, 0.9, 2), 2) > P_FLOOR
        for wrong in (0.8, 1.2):
            assert chi_square(sample, discrete_distribution(family, 0.9 * wrong, 2), 2) < P_FLOOR

    def test_a_scale_of_2_to_the_40_is_neither_saturated_nor_narrowed(
        self, family: str, fits: Callable[..., bool], size: Callable[[int], int]
    ) -> None:
        scale = 2.0**40
        sample = draw(family, [0] * size(20_000), scale)
        assert abs(sample).max() > 2**40
        frozen = getattr(stats, "norm" if family == "gaussian" else "laplace")
        assert fits(sample, frozen(0, scale))
        for wrong in (0.75, 1.3):
            assert not fits(sample, frozen(0, scale * wrong))
        # standard deviation: 1 for the Gaussian, sqrt(2) for the Laplace; kurtosis 3 and 6
        unit, kurtosis = (1.0, 3) if family == "gaussian" else (math.sqrt(2), 6)
        error = math.sqrt((kurtosis - 1) / (4 * len(sample)))
        assert sample.std() / scale / unit == pytest.approx(1, abs=6.5 * error)
        assert len(np.unique(sample)) > 0.99 * len(sample)

    def test_noise_is_added_to_each_exact_value(self, family: str) -> None:
        exact = [0, 1, -1, 2**50, -(2**50), 2**62]
        moved = draw(family, exact, 2.0) - np.array(exact)
        assert abs(moved).max() < 2 * 50
        assert draw(family, [], 2.0).tolist() == []

    def test_coordinates_and_calls_are_independent(
        self, family: str, uncorrelated: Callable[..., bool], size: Callable[[int], int]
    ) -> None:
        first, second = (draw(family, [0] * size(15_000), 2.0**30) for _ in range(2))
        assert uncorrelated(first, second)
        assert uncorrelated(first[1:], first[:-1])
        assert not uncorrelated(first, second + 0.1 * first)


class TestCentres:
    """Discrete Gaussians around any centres (docs/methods/noise.md, algorithm 10)."""

    @pytest.mark.parametrize(
        ("centre", "variance"),
        [("1/2", "5/2"), ("-1/2", "5/2"), ("-11/3", "13/4"), ("7", "2"), ("2/5", "40")],
    )
    def test_they_have_the_exact_distribution(
        self, centre: str, variance: str, size: Callable[[int], int]
    ) -> None:
        middle, spread = Fraction(centre), Fraction(variance)
        count = size(5_000)
        drawn = gaussian_around(
            [middle.numerator] * count, middle.denominator, spread, SecureNoise()
        )
        reach = math.ceil(2 * math.sqrt(spread))
        places = np.arange(-200, 201)

        def fits(around: float, parameter: float) -> bool:
            weights = np.exp(-((places - around) ** 2) / (2 * parameter))
            ends = np.clip(places - round(middle), -reach, reach)
            cells = [weights[ends == place].sum() for place in range(-reach, reach + 1)]
            distribution = np.array(cells) / weights.sum()
            return chi_square(np.array(drawn) - round(middle), distribution, reach) > P_FLOOR

        assert fits(float(middle), float(spread))
        assert not fits(float(middle) + 0.25 * math.sqrt(spread), float(spread))
        assert not fits(float(middle), 1.35 * float(spread))

    def test_fine_lattices_hardly_ever_take_a_second_draw(self) -> None:
        drawn: list[int] = []

        class Counting(SecureNoise):
            def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
                drawn.append(len(exact))
                return super().gaussian(exact, sigma)

        found = gaussian_around([2**40 + 1] * 500, 2, Fraction(2**44), Counting())
        assert drawn[0] == 500
        assert sum(drawn) <= 503
        assert abs(np.mean(found) - 2**39) < 7 * 2**22 / math.sqrt(500)
        assert gaussian_around([], 3, Fraction(2**44), SecureNoise()) == []

    def test_centres_are_rounded_without_regard_to_parity(self) -> None:
        assert gaussian_around([-3, -1, 1, 3, 5], 2, Fraction(9), NoNoise()) == [-1, 0, 1, 2, 3]


class TestCoins:
    @pytest.mark.parametrize("p", [0.02, 0.2929, 0.5, 0.7071, 0.98])
    def test_probability(
        self,
        p: float,
        share_fits: Callable[[int, int, float], bool],
        size: Callable[[int], int],
    ) -> None:
        count = size(100_000)
        hits = sum(SecureNoise().coins(p, count))
        assert share_fits(hits, count, p)
        smaller = min(p, 1 - p)
        for wrong in (0.7, 1.3):
            off = smaller * wrong if p < 0.5 else 1 - smaller * wrong
            assert not share_fits(hits, count, off)

    def test_never_and_always(self) -> None:
        assert SecureNoise().coins(0.0, 10_000) == [False] * 10_000
        assert SecureNoise().coins(1.0, 10_000) == [True] * 10_000
        assert SecureNoise().coins(0.5, 0) == []

    @pytest.mark.parametrize("p", [1e-9, 0.3, 1 - 1e-9])
    def test_it_is_decided_by_all_64_bits(self, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Heads for exactly the words below p 2**64."""
        first = int(p * 2**64)
        words = b"".join(word.to_bytes(8, "little") for word in (first - 1, first, 0, 2**64 - 1))
        monkeypatch.setattr("dpnb.privacy.noise.os.urandom", lambda count: words[:count])
        assert SecureNoise().coins(p, 4) == [True, False, True, False]

    def test_one_coin_does_not_foretell_the_next(
        self, uncorrelated: Callable[..., bool], size: Callable[[int], int]
    ) -> None:
        coins = np.array(SecureNoise().coins(0.5, size(50_000)), dtype=float) - 0.5
        assert uncorrelated(coins[1:], coins[:-1])
