"""Guesses right of 100: formulas against enumeration, integrals, known numbers.

Theorems and numbers are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from dpnb.errors import RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.risk import guesses

PHI = NormalDist().cdf


def overlap_by_draws(sizes, draws=400_000, seed=5):
    """1 - TV of Laplace coordinates, as the mean of min(1, q/p) under p."""
    generator = np.random.default_rng(seed)
    t = np.asarray(sizes, dtype=float)
    noise = generator.laplace(size=(draws, len(t)))
    loss = (np.abs(noise) - np.abs(noise - t)).sum(axis=1)
    return float(np.minimum(1, np.exp(loss)).mean())


class TestOneRelease:
    @pytest.mark.parametrize(("mu", "found"), [(1.0, 69.1462), (0.506694, 60), (3.289707, 95)])
    def test_gaussian_noise(self, mu, found):
        assert float(guesses.guesses(guesses.gaussian(mu**2))) == pytest.approx(found, abs=1e-4)
        assert found == pytest.approx(100 * PHI(mu / 2), abs=1e-4)

    @pytest.mark.parametrize("steps", [1, 2, 3, 8])
    @pytest.mark.parametrize("rate", [0.05, 0.5, 2.0])
    def test_discrete_laplace_against_enumeration(self, rate, steps):
        drawn = np.arange(-3_000, 3_001)
        masses = np.exp(-rate * np.abs(drawn))
        masses /= masses.sum()
        moved = np.exp(-rate * np.abs(drawn - steps))
        moved /= np.exp(-rate * np.abs(drawn)).sum()
        exact = np.abs(masses - moved).sum() / 2
        assert guesses.discrete_laplace(rate, steps) == pytest.approx(exact, abs=1e-12)

    @pytest.mark.parametrize("steps", [1, 2, 5])
    @pytest.mark.parametrize("sigma", [0.7, 3.0])
    def test_discrete_gaussian_against_enumeration(self, sigma, steps):
        drawn = np.arange(-300, 301).astype(float)
        masses, moved = (np.exp(-((drawn - d) ** 2) / (2 * sigma**2)) for d in (0, steps))
        exact = np.abs(masses / masses.sum() - moved / moved.sum()).sum() / 2
        assert guesses.discrete_gaussian(sigma, steps) == pytest.approx(exact, abs=1e-12)

    def test_on_the_lattice_in_use_discrete_and_continuous_agree(self):
        """Theorem 10: to 1e-9 from 2^12 steps per sensitivity on."""
        steps = 1 << 12
        assert guesses.discrete_laplace(0.8 / steps, steps) == pytest.approx(
            float(guesses.laplace([0.8])), abs=1e-9
        )
        assert guesses.discrete_gaussian(1.3 * steps, steps) == pytest.approx(
            float(guesses.gaussian(1.3**-2)), abs=1e-8
        )

    @pytest.mark.parametrize(
        ("sizes", "overlap", "within"),
        [
            ([1], 0.606530660, 1e-9),
            ([1, 1], 0.551819162, 1e-9),
            ([1, 0.3], 0.600352643, 1e-9),
            ([2, 0.5, 0.4], 0.351855432, 1e-9),
            ([1, 1, 1], 0.432314685, 2.1e-4),
            ([0.5, 0.5, 0.5, 0.5], 0.6476101, 2.1e-4),
        ],
    )
    def test_laplace_noise(self, sizes, overlap, within):
        """Closed where the largest outweighs the rest, else an integral that errs upward."""
        found = 1 - float(guesses.laplace(sizes))
        assert found == pytest.approx(overlap, abs=within)
        assert found <= overlap + 1e-9
        assert found == pytest.approx(overlap_by_draws(sizes), abs=5e-3)
        assert 1 - found <= float(guesses.laplace_at_most(sum(sizes))) + 2.1e-4

    def test_many_people_at_once_are_each_alone(self):
        sizes = np.array([[1, 0.3, 0.0], [1, 1, 1], [0, 0, 0], [0.4, 0.5, 0.3]])
        found = guesses.laplace(sizes)
        alone = [float(guesses.laplace(one)) for one in sizes]
        assert found == pytest.approx(alone, abs=2e-4)
        assert found[2] == 0

    def test_the_sum_of_sizes_does_not_order_people_in_several_coordinates(self):
        """Theorem 14: (1, 0) is guessed more often than (.8, .8), whose sum is larger."""
        first, second = guesses.guesses(guesses.laplace([[1, 0], [0.8, 0.8]]))
        assert [first, second] == pytest.approx([69.67, 68.55], abs=0.005)

    def test_the_most_of_other_mechanisms(self):
        """(1, 1e-6) as a definition: 73.11; a selection of range eta; zCDP at 60."""
        assert 50 + 50 * guesses.approximate(1, 1e-6) == pytest.approx(73.11, abs=0.005)
        assert guesses.response(1) == pytest.approx(math.tanh(0.5))
        # (e^eta - e^t)(1 - e^-t)/(e^eta - 1) is largest at t = eta/2
        eta = 0.7
        t = np.linspace(0, eta, 100_001)
        exact = (np.exp(eta) - np.exp(t)) * -np.expm1(-t) / np.expm1(eta)
        assert guesses.selection(eta) == pytest.approx(exact.max(), abs=1e-9)


class TestSeveralReleases:
    @pytest.mark.parametrize(
        ("parts", "overlap"),
        [
            ({"laplaces": [[0.5]], "mu_squared": 0.25}, 0.7266206),
            ({"laplaces": [[1, 0.3]], "mu_squared": 0.5}, 0.5475137),
            ({"responses": [1.0], "mu_squared": 0.5}, 0.51656515),
        ],
    )
    def test_mixtures(self, parts, overlap):
        """Theorem 11."""
        found = 1 - float(guesses.composed(**parts)[0])
        assert found == pytest.approx(overlap, abs=2.1e-4)
        assert found <= overlap + 1e-9

    def test_gaussian_parts_add_in_mu_squared(self):
        alone = guesses.composed(mu_squared=[0.25, 4.0])
        assert alone == pytest.approx(guesses.gaussian([0.25, 4.0]), abs=2.1e-4)

    def test_of_black_boxes_the_overlaps_multiply(self):
        assert float(guesses.several([0.2, 0.5])) == pytest.approx(0.6)

    @pytest.mark.parametrize(
        ("limit", "epsilon", "rho", "any_rho"),
        [(55, 0.200671, 0.031582, 0.020067), (60, 0.405465, 0.128370, 0.081093),
         (70, 0.847298, 0.549992, 0.338919), (80, 1.386294, 1.416653, 0.831777),
         (95, 2.944439, 5.411087, 2.649995)],
    )  # fmt: skip
    def test_what_a_limit_allows(self, limit, epsilon, rho, any_rho):
        """The table of theorem 12, there and back."""
        assert guesses.level_of_guesses(limit, PURE) == pytest.approx(epsilon, abs=1e-6)
        assert guesses.level_of_guesses(limit, ZCDP) == pytest.approx(rho, abs=1e-6)
        for privacy, level in ((PURE, epsilon), (ZCDP, rho)):
            assert guesses.guesses_within(level, privacy) == pytest.approx(limit, abs=1e-4)
        assert float(guesses.guesses(guesses.zcdp(any_rho))) == pytest.approx(limit, abs=1e-4)

    def test_zcdp_of_any_mechanism_allows_more_guesses_than_gaussian_noise(self):
        """K: 54.39 for 55.51 at the rho of (1, 1e-6)."""
        rho = 0.0243560
        assert float(guesses.guesses(guesses.zcdp(rho))) == pytest.approx(55.51, abs=0.006)
        assert guesses.guesses_within(rho, ZCDP) == pytest.approx(54.39, abs=0.006)

    @pytest.mark.parametrize(("rows", "found"), [(2, 69.4), (3, 77.6), (5, 89.7)])
    def test_somebody_with_several_rows(self, rows, found):
        """Statement 13: 60 for one row."""
        level = guesses.level_of_guesses(60, ZCDP)
        assert guesses.guesses_within(level, ZCDP, rows) == pytest.approx(found, abs=0.05)


class TestWords:
    @pytest.mark.parametrize(
        ("found", "most", "about"),
        [(50, "50", "50"), (50.0001, "50.1", "50.1"), (54.96, "55", "55"), (56.53, "57", "57"),
         (60.4, "61", "60"), (98.4, "99", "98"), (99, "99", "99"), (99.4, "over 99", "99"), (99.5, "over 99", "over 99"), (100, "over 99", "over 99")],
    )  # fmt: skip
    def test_bounds_are_rounded_up_and_figures_to_the_nearest(self, found, most, about):
        assert guesses.at_most_text(found) == most
        assert guesses.about_text(found) == about

    def test_a_limit_that_was_asked_for_is_named_as_it_was(self):
        for limit in (51.3, 55, 60, 70, 80):
            for privacy in (ZCDP, PURE):
                level = guesses.level_of_guesses(limit, privacy)
                assert float(guesses.at_most_text(guesses.guesses_within(level, privacy))) == limit

    @pytest.mark.parametrize("limit", [49, 100, 0.6, math.nan, "60", None, True])
    def test_a_limit_is_a_number_of_guesses(self, limit):
        with pytest.raises(RequestError, match="guesses must be at least 50 and below 100"):
            guesses.read_guesses(limit)
