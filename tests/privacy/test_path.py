"""Noise paths: all versions of one vector, correlated so that the finest pays for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

from dpnb.privacy.gaussian import log_delta
from dpnb.privacy.noise import SecureNoise
from dpnb.privacy.path import (
    VARIANCE_STEP,
    Version,
    gaussian_version,
    grid,
    laplace_chain,
    needs_data,
    snap,
    variance_of,
)

UNIT = 2**21
"""Sensitivity in lattice units, as in the smallest of views."""


def within(cap: Fraction) -> list[Fraction]:
    """The levels of the public grid up to a cap."""
    return [level for level in grid() if level <= cap]


def level_of(variance: float) -> Fraction:
    """The level at which a view of sensitivity 1 has this noise variance."""
    return 1 / (2 * Fraction(variance))


class Recorder:
    """Records what is asked of the noise and adds none."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], float]] = []

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        self.asked.append((tuple(exact), sigma))
        return list(exact)

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        self.asked.append((tuple(exact), scale))
        return list(exact)

    def coins(self, probability: float, count: int) -> list[bool]:
        return [probability > 0.5] * count


def extend(
    path: list[Version], level: Fraction, exact: Sequence[int] | None, noise: object
) -> Version:
    version = gaussian_version(path, level, exact, UNIT, noise)
    if version not in path:
        path.append(version)
        path.sort(key=lambda k: k.level)
    return version


class TestGaussianLaw:
    def paths(self, order: Sequence[float], count: int) -> dict[float, np.ndarray]:
        """Errors of the versions with the given noise variances, drawn in this order."""
        exact = [5 * UNIT] * count
        path: list[Version] = []
        for variance in order:
            level = level_of(variance)
            extend(path, level, exact if needs_data(path, level) else None, SecureNoise())
        return {
            float(1 / (2 * version.level)): (np.array(version.vector) - 5 * UNIT) / UNIT
            for version in path
        }

    @pytest.mark.parametrize(
        "order",
        [
            pytest.param((100, 40, 70, 160, 25, 30), id="every case"),
            pytest.param((100, 25, 6), id="refining only"),
            pytest.param((25, 100, 400), id="coarsening only"),
            pytest.param((100, 10, 30, 20, 15), id="bridges within bridges"),
            pytest.param((100, 99, 98.5), id="tiny steps"),
        ],
    )
    def test_increments_are_independent_gaussians_whatever_the_order(
        self,
        order: Sequence[float],
        fits: Callable[..., bool],
        uncorrelated: Callable[..., bool],
        size: Callable[[int], int],
    ) -> None:
        # Cov(y(s), y(s')) = min(s, s') is the same as independent increments of variance s' - s
        errors = self.paths(order, size(10_000))
        variances = [0.0, *sorted(errors)]
        steps = [
            (errors[b] - (errors[a] if a else 0), math.sqrt(b - a)) for a, b in pairwise(variances)
        ]
        for step, sigma in steps:
            assert fits(step, stats.norm(0, sigma))
            assert not fits(step, stats.norm(0, sigma * 0.75))
            assert not fits(step, stats.norm(0, sigma * 1.3))
        for (a, _), (b, _) in combinations(steps, 2):
            assert uncorrelated(a, b)
            assert not uncorrelated(a, b / b.std() + 0.15 * a / a.std())

    def test_each_version_has_exactly_the_variance_of_its_level(
        self, fits: Callable[..., bool], size: Callable[[int], int]
    ) -> None:
        for variance, errors in self.paths((100, 40, 70, 160, 25, 30), size(10_000)).items():
            assert fits(errors, stats.norm(0, math.sqrt(variance)))
            assert not fits(errors, stats.norm(0, math.sqrt(variance) * 1.3))
            assert not fits(errors, stats.norm(0, math.sqrt(variance) * 0.75))

    def test_independent_versions_are_told_apart_from_a_path(
        self, uncorrelated: Callable[..., bool], size: Callable[[int], int]
    ) -> None:
        # negative control: two releases drawn afresh have the right distributions but no common path
        first, second = (self.paths((s,), size(10_000))[s] for s in (100.0, 40.0))
        assert not uncorrelated(first - second, second)


class TestGaussianCases:
    def test_the_first_version_is_drawn_around_the_exact_vector(self) -> None:
        noise = Recorder()
        version = gaussian_version([], Fraction(1, 10), [3, -4], UNIT, noise)
        assert version == Version(Fraction(1, 10), (3, -4))
        ((exact, sigma),) = noise.asked
        assert exact == (3, -4)
        assert sigma**2 == pytest.approx(variance_of(UNIT, Fraction(1, 10)), rel=1e-14)
        assert sigma == pytest.approx(UNIT / math.sqrt(0.2), rel=1e-11)

    def test_refining_draws_around_the_finest_and_the_exact_vector_by_precision(self) -> None:
        noise = Recorder()
        coarse = Version(level_of(100), (40 * UNIT,))
        version = gaussian_version([coarse], level_of(25), [80 * UNIT], UNIT, noise)
        ((centre, sigma),) = noise.asked
        # variances 100 and 25: the exact vector has a weight of 0.75
        assert centre[0] / UNIT == pytest.approx(70, rel=1e-10)
        assert (sigma / UNIT) ** 2 == pytest.approx(25 * 75 / 100, rel=1e-10)
        assert version == Version(level_of(25), centre)

    def test_a_refinement_costs_the_increase_given_what_was_seen(self) -> None:
        # shift of the centre by one unit of sensitivity, and its variance: precisions add
        noise, path = Recorder(), [Version(Fraction(1, 7), (0,))]
        for low, high in pairwise(
            (Fraction(1, 7), Fraction(1, 5), Fraction(1, 3), Fraction(9, 10))
        ):
            extend(path, high, [2**20 * UNIT], noise)
            path[-1] = Version(high, (0,))
            (shift,), sigma = noise.asked[-1]
            cost = (shift / 2**20) ** 2 / (2 * sigma**2)
            assert cost == pytest.approx(float(high - low), rel=1e-9)

    def test_between_two_versions_a_bridge_needs_no_data(self) -> None:
        noise = Recorder()
        path = [Version(level_of(100), (14 * UNIT,)), Version(level_of(25), (10 * UNIT,))]
        gaussian_version(path, level_of(50), None, UNIT, noise)
        (((centre,), sigma),) = noise.asked
        assert centre / UNIT == pytest.approx(11.3333333333, rel=1e-6)
        assert (sigma / UNIT) ** 2 == pytest.approx(16.6666666667, rel=1e-9)

    def test_coarser_than_all_adds_noise_and_needs_no_data(self) -> None:
        noise = Recorder()
        path = [Version(level_of(100), (14 * UNIT,)), Version(level_of(25), (10 * UNIT,))]
        gaussian_version(path, level_of(160), None, UNIT, noise)
        ((exact, sigma),) = noise.asked
        assert exact == (14 * UNIT,)
        assert (sigma / UNIT) ** 2 == pytest.approx(60, rel=1e-12)

    def test_a_stored_version_is_returned_and_nothing_is_drawn(self) -> None:
        noise = Recorder()
        path = [Version(level_of(100), (14,)), Version(level_of(25), (10,))]
        for version in path:
            assert gaussian_version(path, version.level, None, UNIT, noise) is version
            assert gaussian_version(path, version.level, [7], UNIT, noise) is version
        assert noise.asked == []

    def test_data_are_needed_only_above_the_finest_version(self) -> None:
        path = [Version(Fraction(1, 10), (0,)), Version(Fraction(1, 5), (0,))]
        assert needs_data([], Fraction(1, 1000))
        assert needs_data(path, Fraction(1, 5) + Fraction(1, 10**12))
        for level in (Fraction(1, 5), Fraction(3, 20), Fraction(1, 10), Fraction(1, 100)):
            assert not needs_data(path, level)

    def test_refining_without_data_is_impossible(self) -> None:
        with pytest.raises(ValueError, match="needs the exact vector"):
            gaussian_version([], Fraction(1), None, UNIT, Recorder())

    def test_levels_that_the_lattice_does_not_tell_apart_are_one_version(self) -> None:
        noise = Recorder()
        path = [Version(Fraction(3, 20), (14 * UNIT,)), Version(Fraction(3, 7), (10 * UNIT,))]
        for held in path:
            for level in (held.level * (1 + Fraction(1, 10**15)), held.level - Fraction(1, 10**15)):
                assert variance_of(UNIT, level) == variance_of(UNIT, held.level)
                assert gaussian_version(path, level, [0], UNIT, noise) == Version(
                    level, held.vector
                )
        assert noise.asked == []

    def test_versions_are_whole_lattice_numbers(self) -> None:
        path: list[Version] = []
        for level in (Fraction(1, 7), Fraction(1, 3), Fraction(1, 5), Fraction(1, 100)):
            version = extend(path, level, [1, 2, 3], SecureNoise())
            assert all(type(value) is int for value in version.vector)
            assert len(version.vector) == 3


class TestLattice:
    """What whole numbers cost: docs/methods/noise.md, theorems 6 to 8."""

    def test_variances_are_equal_or_a_whole_step_apart_and_leave_a_step_free(self) -> None:
        for sensitivity in (1, 327_680, UNIT):
            for level in (Fraction(1, 10**9), Fraction(1, 7), Fraction(1), Fraction(10**12)):
                nominal = Fraction(sensitivity) ** 2 / (2 * level)
                variance = variance_of(sensitivity, level)
                assert variance % VARIANCE_STEP == 0
                assert nominal <= variance - VARIANCE_STEP < nominal + VARIANCE_STEP

    @pytest.mark.parametrize(
        ("sensitivity", "level"), [(1, 0.5), (1, 2.0), (8, 0.5), (3, 0.01), (16, 1.0)]
    )
    def test_a_version_is_no_easier_to_tell_apart_than_its_level(
        self, sensitivity: int, level: float
    ) -> None:
        """sqrt(2 rho)-GDP, by enumeration; a discrete Gaussian of variance D^2 / (2 rho) is not."""

        def deltas(variance: float, epsilons: Sequence[float]) -> list[float]:
            reach = sensitivity + math.ceil(12 * math.sqrt(variance)) + 12
            places = np.arange(-reach, reach + sensitivity + 1)
            near, far = (np.exp(-((places - c) ** 2) / (2 * variance)) for c in (0, sensitivity))
            whole = near.sum()
            return [np.maximum(far - math.exp(e) * near, 0).sum() / whole for e in epsilons]

        epsilons = [i / 40 for i in range(160)]
        allowed = [math.exp(log_delta(e, math.sqrt(2 * level))) for e in epsilons]
        drawn = deltas(variance_of(sensitivity, Fraction(level)), epsilons)
        assert all(d <= a * (1 + 1e-9) for d, a in zip(drawn, allowed, strict=True))
        plain = deltas(sensitivity**2 / (2 * level), epsilons)
        assert any(d > a * (1 + 1e-7) for d, a in zip(plain, allowed, strict=True))

    @pytest.mark.parametrize("coarse", [0, 7, -31])
    def test_a_version_that_nobody_sees_leaves_no_trace(self, coarse: int) -> None:
        """A bridge given a hidden finest version, by enumeration: as if there had been none."""
        hidden, between, most = 2 * VARIANCE_STEP, 3 * VARIANCE_STEP, 5 * VARIANCE_STEP
        places = np.arange(-150, 151)

        def distribution(centre: np.ndarray, variance: float) -> np.ndarray:
            """Probabilities of all places, by row of centres; exact discrete Gaussians."""
            weights = np.exp(-((places - centre[:, None]) ** 2) / (2 * variance))
            return weights / weights.sum(axis=1, keepdims=True)

        weight = (between - hidden) / (most - hidden)
        spread = (between - hidden) * (most - between) / (most - hidden)
        bridge = distribution((1 - weight) * places + weight * coarse, spread)
        given = (
            distribution(np.array([0.0]), hidden)[0]
            * distribution(places, most - hidden)[:, coarse + 150]
        )
        seen = given @ bridge / given.sum()
        # no finer version: the next version is drawn from the coarse one and the exact vector, 0
        plain = distribution(
            np.array([coarse * between / most]), between * (most - between) / most
        )[0]
        assert np.allclose(seen, plain, rtol=1e-9, atol=1e-14)
        # negative control: around a rounded centre the two differ
        rounded = distribution(np.floor((1 - weight) * places + weight * coarse + 0.5), spread)
        assert not np.allclose(given @ rounded / given.sum(), plain, rtol=1e-9, atol=1e-6)

    def test_a_path_can_be_drawn_from_continuous_releases_that_cost_its_levels(self) -> None:
        """The kernels of the proof in ``path``: variances and covariances come out as they must."""
        step = VARIANCE_STEP
        seen, between = [Fraction(40 * step)], [[Fraction(40 * step)]]
        for variance in (Fraction(n * step) for n in (39, 17, 16, 3, 2)):
            gap = seen[-1] - variance
            weight, extra = step / (step + gap), step * gap / (step + gap)
            assert extra >= 32
            least = variance - step
            across = [weight * c + (1 - weight) * least for c in between[-1]]
            own = weight**2 * seen[-1] + 2 * weight * (1 - weight) * least
            own += (1 - weight) ** 2 * least + extra
            assert [*across, own] == [variance] * (len(seen) + 1)
            assert weight * least + (1 - weight) * least == variance - step
            seen.append(variance)
            between.append([*across, own])


class TestGrid:
    def test_levels_rise_by_a_fourth_root_of_two_from_2_to_the_minus_12_to_64(self) -> None:
        levels = grid()
        assert float(levels[0]) == pytest.approx(2**-12, rel=1e-5)
        assert levels[-1] == 64
        assert len(levels) == 73
        for low, high in pairwise(levels):
            assert float(high / low) == pytest.approx(2**0.25, rel=1e-5)
        assert levels[levels.index(Fraction(1))] == 1

    def test_the_grid_is_public_and_fixed(self) -> None:
        assert grid() == grid()
        assert all(level.denominator <= 10**9 for level in grid())

    def test_snapping_goes_to_the_neighbour_below_or_above(self) -> None:
        for level in (Fraction(1, 3), Fraction(2), Fraction(7, 10), grid()[0], grid()[-1]):
            below, above = snap(level, up=False), snap(level, up=True)
            assert below is not None
            assert above is not None
            assert below <= level <= above
            assert not [g for g in grid() if below < g < above]
        assert snap(grid()[5], up=True) == snap(grid()[5], up=False) == grid()[5]

    def test_beyond_the_grid_there_is_nothing(self) -> None:
        assert snap(Fraction(1, 10**5), up=False) is None
        assert snap(Fraction(65), up=True) is None
        assert snap(Fraction(1, 10**5), up=True) == grid()[0]
        assert snap(Fraction(1000), up=False) == 64


def finer_to_coarser(
    finest: np.ndarray, levels: Sequence[float], stay: Callable[[float], float], *, signed: bool
) -> list[np.ndarray]:
    """A chain by the continuous recursion, from fine to coarse; the wrong ones are controls."""
    rng = np.random.default_rng(5)
    chain = [finest]
    for fine, coarse in pairwise(levels):
        move = rng.random(len(finest)) >= stay(coarse / fine)
        step = rng.laplace(0, 1 / coarse, len(finest))
        last = chain[-1]
        chain.append(np.where(move, (last if signed else abs(last)) + step, last))
    return chain


@pytest.fixture(scope="module")
def chain(size: Callable[[int], int]) -> list[tuple[float, np.ndarray]]:
    """Levels and errors, coarse to fine."""
    exact = -3 * UNIT
    versions = laplace_chain([exact] * size(30_000), within(Fraction(13, 10)), UNIT, SecureNoise())
    return [
        (float(version.level), (np.array(version.vector) - exact) / UNIT)
        for version in versions[-6:]
    ]


class TestLaplaceChain:
    def test_holds_all_grid_levels_within_the_cap(self) -> None:
        versions = laplace_chain([0], within(Fraction(1)), UNIT, SecureNoise())
        assert [version.level for version in versions] == [g for g in grid() if g <= 1]
        assert len(versions) == 49

    def test_every_level_is_laplace_with_its_own_scale(
        self, chain: list[tuple[float, np.ndarray]], fits: Callable[..., bool]
    ) -> None:
        assert len(chain) == 6
        for level, errors in chain:
            assert fits(errors, stats.laplace(0, 1 / level))
            assert not fits(errors, stats.laplace(0, 0.75 / level))
            assert not fits(errors, stats.laplace(0, 1.3 / level))

    def test_coarser_levels_add_noise_that_knows_nothing_of_the_finer_ones(
        self, chain: list[tuple[float, np.ndarray]], uncorrelated: Callable[..., bool]
    ) -> None:
        # Cov(eta_1, eta_2) = Var(eta_2) for eta_2 the finer one
        for (_, coarse), (_, fine) in combinations(chain, 2):
            assert uncorrelated(coarse - fine, fine)
            assert not uncorrelated(coarse - 0.8 * fine, fine)

    def test_neighbouring_levels_repeat_with_the_square_of_their_ratio(
        self,
        chain: list[tuple[float, np.ndarray]],
        share_fits: Callable[[int, int, float], bool],
    ) -> None:
        for (low, coarse), (high, fine) in pairwise(chain):
            repeats = int((coarse == fine).sum())
            assert share_fits(repeats, len(fine), (low / high) ** 2)
            assert not share_fits(repeats, len(fine), low / high)

    def test_a_chain_that_drops_the_sign_is_rejected(
        self, chain: list[tuple[float, np.ndarray]], fits: Callable[..., bool]
    ) -> None:
        levels = [level for level, _ in reversed(chain)]
        for signed in (True, False):
            made = finer_to_coarser(chain[-1][1], levels, lambda r: r * r, signed=signed)
            sound = [
                fits(errors, stats.laplace(0, 1 / level))
                for level, errors in zip(levels[1:], made[1:], strict=True)
            ]
            assert all(sound) if signed else not any(sound)

    def test_a_chain_with_the_wrong_stay_probability_is_rejected(
        self, chain: list[tuple[float, np.ndarray]], fits: Callable[..., bool]
    ) -> None:
        levels = [level for level, _ in reversed(chain)]
        made = finer_to_coarser(chain[-1][1], levels, lambda r: r, signed=True)
        assert not fits(made[-1], stats.laplace(0, 1 / levels[-1]))

    def test_on_a_coarse_lattice_every_level_is_exactly_discrete_laplace(
        self, size: Callable[[int], int]
    ) -> None:
        # with sensitivity 1 the lattice is felt, and the stay probability differs from r^2
        count = size(30_000)
        versions = laplace_chain([0] * count, within(Fraction(3)), 1, SecureNoise())

        def p_value(values: np.ndarray, level: float) -> float:
            a, reach = math.exp(-level), 2
            middle = [(1 - a) / (1 + a) * a ** abs(k) for k in range(-reach + 1, reach)]
            tail = a**reach / (1 + a)
            cells = np.clip(values, -reach, reach)
            seen = [(cells == k).sum() for k in range(-reach, reach + 1)]
            return float(stats.chisquare(seen, np.array([tail, *middle, tail]) * count).pvalue)

        for version in (version for version in versions if version.level >= Fraction(1, 2)):
            values, level = np.array(version.vector), float(version.level)
            assert p_value(values, level) > 1e-9
            assert p_value(values, level * 0.75) < 1e-9
            assert p_value(values, level * 1.3) < 1e-9

    def test_the_finest_draw_costs_no_more_than_its_level(self) -> None:
        noise = Recorder()
        versions = laplace_chain([9], within(grid()[44]), UNIT, noise)
        exact, scale = noise.asked[0]
        assert exact == (9,)
        assert UNIT / Fraction(scale) <= versions[-1].level
        # all that follows is drawn around zero: no second look at the data
        assert all(centre == (0,) * len(centre) for centre, _ in noise.asked[1:])

    def test_every_vector_has_the_length_of_the_exact_one(self) -> None:
        versions = laplace_chain([1, 2, 3, 4], within(Fraction(2)), UNIT, SecureNoise())
        assert all(len(version.vector) == 4 for version in versions)
        assert all(type(value) is int for version in versions for value in version.vector)
