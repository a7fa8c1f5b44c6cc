"""Private selections do what they say: exact scores, noise of the stated distribution, results by arithmetic.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.noise import SecureNoise
from dpnb.risk import selection
from dpnb.risk.indicator import FORMS, limit
from dpnb.risk.preferences import CANDIDATES, level_for_variance
from dpnb.risk.request import Tally
from dpnb.risk.selection import GRID, STEPS, Counts, Moments, Quantile, Tail, exponential_scale
from tests.kit.noise import DiscreteNoise, NoNoise

DEFINITIONS = (PURE, ZCDP)
RNG = np.random.default_rng(2)
ONE = Fraction(1)


def table(steps, counts=None):
    """Rows by their step."""
    found = np.zeros(selection.STEPS + 1, dtype=np.int64)
    np.add.at(found, np.asarray(steps, dtype=int), 1 if counts is None else np.asarray(counts))
    return found


SPREAD = np.r_[[0] * 40, RNG.integers(0, STEPS + 1, 150), [STEPS] * 3, [64, 128, 65]]


def rated(steps):
    """Normalised contributions of rows, ascending."""
    return np.sort(np.asarray(steps)) / STEPS


class TestQuantile:
    @pytest.mark.parametrize(
        "p", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(1, 3)]
    )
    def test_a_score_is_how_many_rows_too_few_or_too_many_lie_below(self, p):
        r = rated(SPREAD)
        expected = [-abs(np.count_nonzero(r <= g / GRID) - p * len(r)) for g in range(GRID + 1)]
        found = Quantile(p).scores(table(SPREAD))
        assert [Fraction(int(score), p.denominator) for score in found] == expected

    def test_without_noise_it_is_the_quantile_rounded_to_the_grid(self):
        r = rated(SPREAD)
        for p in (Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)):
            (place,) = Quantile(p).draw(table(SPREAD), ONE, PURE, NoNoise())
            exact = np.quantile(r, float(p), method="inverted_cdf")
            assert abs(place / GRID - exact) <= 1 / GRID

    def test_the_scale_is_twice_the_sensitivity_over_epsilon(self):
        for p in (Fraction(1, 2), Fraction(99, 100), Fraction(1, 100)):
            reach = max(p, 1 - p) * p.denominator
            assert Quantile(p).scale(Fraction(1, 5), PURE) == pytest.approx(10 * reach)
            assert Quantile(p).scale(Fraction(1, 200), ZCDP) == pytest.approx(10 * reach)

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_scales_are_rounded_upward(self, privacy):
        for cost in (Fraction(1, 10), Fraction(1, 3), Fraction(7, 1000), Fraction(123_457, 10**7)):
            scale = Fraction(exponential_scale(2.0, cost, privacy))
            epsilon = Fraction(2) / scale
            assert epsilon < cost if privacy == PURE else epsilon**2 / 8 < cost

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_places_have_the_law_of_the_exponential_mechanism(
        self, privacy, quantile_distribution, size, fits
    ):
        wanted, rows, cost = Quantile(Fraction(4, 5)), table(SPREAD), Fraction(3, 10)
        distribution = quantile_distribution(wanted.scores(rows), wanted.scale(cost, privacy))
        wider = quantile_distribution(wanted.scores(rows), 1.3 * wanted.scale(cost, privacy))
        noise, count = DiscreteNoise(4), size(3_600)
        drawn = np.array([wanted.draw(rows, cost, privacy, noise)[0] for _ in range(count)])
        assert np.count_nonzero(distribution > 0.02) > 4
        assert fits(drawn, distribution)
        # a scale that is off by 30 % is missed once in a million runs
        assert not fits(drawn, wider)

    def test_the_secure_draw_has_it_too(self, quantile_distribution, size, equals):
        wanted, rows = Quantile(Fraction(1, 2)), table([0, 0, 0, STEPS, STEPS])
        distribution, noise = (
            quantile_distribution(wanted.scores(rows), wanted.scale(ONE, PURE)),
            SecureNoise(),
        )
        drawn = np.array([wanted.draw(rows, ONE, PURE, noise)[0] for _ in range(size(3_000))])
        assert equals(drawn == GRID, distribution[GRID])
        assert equals(drawn < GRID // 2, distribution[: GRID // 2].sum())

    def test_a_published_example(self, monkeypatch, quantile_distribution, size, equals, fits):
        """900 rows at 0, 80 at 0.1, 15 at 0.5, 5 at 1; grid in steps of 0.05."""
        monkeypatch.setattr(selection, "STEPS", 20)
        monkeypatch.setattr(selection, "GRID", 20)
        wanted, rows = Quantile(Fraction(99, 100)), table([0, 2, 10, 20], [900, 80, 15, 5])
        distribution = quantile_distribution(wanted.scores(rows), wanted.scale(ONE, PURE))
        for place in range(21):
            if 2 <= place < 20:
                expected = 0.0933 if place >= 10 else 0.0075
                assert distribution[place] == pytest.approx(expected, abs=5e-5)
        assert distribution[20] == pytest.approx(0.0075, abs=5e-5)
        noise = DiscreteNoise(9)
        drawn = np.array([wanted.draw(rows, ONE, PURE, noise)[0] for _ in range(size(3_600))])
        assert fits(drawn, distribution)
        assert equals((drawn >= 10) & (drawn < 20), 10 * 0.0933)

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_the_level_is_that_at_which_a_row_of_the_drawn_size_reaches_tau(self, form, privacy):
        wanted = Quantile(Fraction(99, 100))
        for place in (1, 7, GRID):
            r = place / GRID
            level = wanted.level([place], 0.8, privacy, form)
            loss = level * (r if privacy == PURE else r * r)
            assert loss == pytest.approx(limit(0.8, privacy, form))
        # at 0 too one step is assumed: the draw has no finer grid
        assert wanted.level([0], 0.8, privacy, form) == wanted.level([1], 0.8, privacy, form)


class TestTail:
    def wanted(self, tau=0.9, most=0, form="bound", candidates=CANDIDATES):
        return Tail(candidates, tau, most, form)

    @pytest.mark.parametrize("tau", [0, 0.2, 0.5, 0.9, 0.99, 1])
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_it_counts_the_rows_that_break_tau(self, tau, form, privacy):
        most = limit(tau, privacy, form)
        power = 1 if privacy == PURE else 2
        expected = [
            sum(float(c) * r**power > most * (1 + 1e-9) for r in rated(SPREAD)) for c in CANDIDATES
        ]
        found = self.wanted(tau, form=form).counts(table(SPREAD), privacy)
        assert found == expected
        assert found == sorted(found, reverse=True)

    def test_rows_that_just_keep_to_tau_do_not_break_it(self):
        """tau = 0.5 allows epsilon_i = 1: rows at r = 1/4 keep to it at epsilon 4, at 5 they do not."""
        wanted = self.wanted(0.5, candidates=(Fraction(5), Fraction(4)))
        assert wanted.counts(table([STEPS // 4] * 3), PURE) == [3, 0]

    @pytest.mark.parametrize("most", [0, 3, 40, 10**6])
    def test_without_noise_it_is_the_largest_candidate_that_at_most_so_many_break(self, most):
        wanted = self.wanted(most=most)
        broken = wanted.counts(table(SPREAD), PURE)
        expected = next((i for i, count in enumerate(broken) if count <= most), -1)
        assert wanted.draw(table(SPREAD), ONE, PURE, NoNoise()) == [expected]

    def test_when_too_many_break_all_it_is_none(self):
        wanted = self.wanted(1, candidates=(Fraction(1), Fraction(1, 10)))
        assert wanted.draw(table([STEPS] * 9), ONE, PURE, NoNoise()) == [-1]

    def test_the_cost_is_split_as_1_to_2_to_the_two_thirds(self):
        """Oracle 12."""
        first, second = self.wanted().scales(ONE, PURE)
        assert 1 / first == pytest.approx(0.3864882096, abs=1e-9)
        assert 2 / second == pytest.approx(0.6135117904, abs=1e-9)
        assert Fraction(1 / first) + Fraction(2 / second) < 1
        first, second = self.wanted().scales(Fraction(1, 200), ZCDP)
        assert 1 / first + 2 / second == pytest.approx(0.1)
        assert (1 / first + 2 / second) ** 2 / 2 < 1 / 200

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_outcomes_have_the_law_of_the_sparse_vector(
        self, privacy, tail_distribution, size, fits
    ):
        candidates = (Fraction(2), Fraction(1), Fraction(1, 2), Fraction(1, 20))
        wanted, rows = self.wanted(0.8, 2, candidates=candidates), table(SPREAD[::20])
        counts, scales = wanted.counts(rows, privacy), wanted.scales(ONE, privacy)
        distribution = tail_distribution(counts, 2, scales)
        assert distribution.sum() == pytest.approx(1, abs=1e-12)
        other = tail_distribution(counts, 2, (scales[0] * 1.3, scales[1] * 1.3))
        noise = DiscreteNoise(6)
        # both scales off by 30 % are missed once in a million runs
        drawn = np.array([wanted.draw(rows, ONE, privacy, noise)[0] for _ in range(size(4_000))])
        outcomes = np.where(drawn < 0, len(candidates), drawn)
        assert fits(outcomes, distribution)
        assert not fits(outcomes, other)

    def test_every_draw_asks_for_the_same_noise_wherever_it_passes(self):
        asked = []
        for rows in (table([0]), table([STEPS] * 1_000), table([])):
            noise = DiscreteNoise(1)
            self.wanted().draw(rows, ONE, PURE, noise)
            asked.append([(draw.name, len(draw.exact), draw.scale) for draw in noise.draws])
        assert asked[0] == asked[1] == asked[2]
        assert [count for _, count, _ in asked[0]] == [1, len(CANDIDATES)]


class TestMoments:
    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_they_are_the_number_of_rows_and_two_power_sums(self, privacy):
        powers = (0, 1, 2) if privacy == PURE else (0, 2, 4)
        found = Moments().sums(table(SPREAD), privacy)
        for value, power in zip(found, powers, strict=True):
            exact = float((rated(SPREAD) ** power).sum())
            # the fourth powers are rounded up, row by row
            assert exact <= value / 2**24 * (1 + 1e-12)
            assert value / 2**24 <= exact + len(SPREAD) / 2**24

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_the_scale_is_that_of_three_sums_that_change_by_1(self, privacy):
        cost = Fraction(1, 8)
        scale = Moments().scale(cost, privacy) / 2**24
        assert scale == pytest.approx(24 if privacy == PURE else math.sqrt(12))

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_with_little_noise_the_variance_comes_out(self, privacy):
        cost = Fraction(10**12)
        wanted = Moments()
        drawn = wanted.sums(table(SPREAD), privacy)
        r = rated(SPREAD)
        exact = np.var(r if privacy == PURE else r**2)
        assert wanted.variance(drawn, cost, privacy) == pytest.approx(exact, rel=1e-3)
        level = wanted.level(drawn, 1e-3, cost, privacy)
        assert level == pytest.approx(level_for_variance(1e-3, exact, privacy == PURE), rel=1e-3)

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize(
        "steps", [[0, STEPS], [3_277, STEPS], [3_900, STEPS], [0, 0, 0, STEPS]]
    )
    def test_noise_within_its_margin_never_makes_the_variance_too_small(self, privacy, steps):
        """Each sum is moved by two noise scales, so that a level is not too large."""
        rows, cost = table(np.repeat(steps, 250)), Fraction(1, 5)
        exact = Moments().sums(rows, privacy)
        r = rated(np.repeat(steps, 250))
        true = np.var(r if privacy == PURE else r**2)
        margin = 2 * Moments().scale(cost, privacy)
        for signs in itertools.product((-0.99, 0, 0.99), repeat=3):
            drawn = [int(x + s * margin) for x, s in zip(exact, signs, strict=True)]
            assert Moments().variance(drawn, cost, privacy) >= true * (1 - 1e-6)

    def test_a_variance_stays_between_0_and_a_quarter(self):
        for drawn in ([0, 0, 0], [-(10**9), 10**9, -(10**9)], [2**24, 0, 2**40], [1, 2**40, 0]):
            for privacy in DEFINITIONS:
                assert 0 <= Moments().variance(drawn, ONE, privacy) <= 0.25
                assert Moments().level(drawn, 1e-3, ONE, privacy) > 0


class TestCounts:
    @pytest.mark.parametrize("bins", [1, 3, 16, 17, 64])
    def test_rows_that_add_nothing_are_counted_apart(self, bins):
        found = Counts(bins).exact(table(SPREAD))
        assert sum(found) == len(SPREAD)
        assert found[0] == np.count_nonzero(SPREAD == 0)
        edges = [STEPS * i // bins for i in range(bins + 1)]
        assert found[1:] == [
            np.count_nonzero((low < SPREAD) & (high >= SPREAD))
            for low, high in itertools.pairwise(edges)
        ]

    def test_the_scale_is_that_of_a_histogram(self):
        assert Counts(9).scale(Fraction(1, 10), PURE) == pytest.approx(10)
        assert Counts(9).scale(Fraction(1, 200), ZCDP) == pytest.approx(10)

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    def test_each_count_has_its_noise(self, privacy):
        noise = DiscreteNoise(1)
        drawn = Counts(4).draw(table(SPREAD), ONE, privacy, noise)
        assert len(drawn) == 5
        (noted,) = noise.draws
        assert noted.name == ("laplace" if privacy == PURE else "gaussian")
        assert list(noted.exact) == Counts(4).exact(table(SPREAD))
        assert drawn != list(noted.exact)


MECHANISMS = {
    "quantile": Quantile(Fraction(99, 100)),
    "tail": Tail(CANDIDATES, 0.9, 3, "bound"),
    "variance": Moments(),
    "histogram": Counts(16),
}


class TestEvery:
    @pytest.mark.parametrize("name", MECHANISMS)
    def test_its_definition_is_plain_data_and_names_all_that_shapes_the_draw(self, name):
        found = MECHANISMS[name].definition()
        assert json.loads(json.dumps(found)) == found
        assert found["method"] == name
        assert found["steps"] == STEPS

    def test_other_options_are_other_definitions(self):
        others = [
            Quantile(Fraction(9, 10)), Tail(CANDIDATES[1:], 0.9, 3, "bound"),
            Tail(CANDIDATES, 0.8, 3, "bound"), Tail(CANDIDATES, 0.9, 4, "bound"),
            Tail(CANDIDATES, 0.9, 3, "exact"), Counts(17), *MECHANISMS.values(),
        ]  # fmt: skip
        texts = [json.dumps(other.definition(), sort_keys=True) for other in others]
        assert len(set(texts)) == len(others)

    @pytest.mark.parametrize("privacy", DEFINITIONS)
    @pytest.mark.parametrize("rows", [[], [0], [STEPS], [STEPS] * 5])
    @pytest.mark.parametrize("name", MECHANISMS)
    def test_every_table_can_be_looked_at(self, name, rows, privacy):
        for noise in (DiscreteNoise(1), SecureNoise()):
            drawn = MECHANISMS[name].draw(table(rows), Fraction(1, 10), privacy, noise)
            assert all(isinstance(value, int) for value in drawn)

    def test_a_tally_shows_nothing_and_cannot_be_pickled(self):
        found = Tally(table([5], [48_611]))
        for text in (repr(found), str(found), f"{found}", f"{[found]}"):
            assert "48611" not in text
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(found)
