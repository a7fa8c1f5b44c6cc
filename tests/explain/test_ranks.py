"""Ranks: at most the draws that are paid for, and intervals that hold as often as they say."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpnb.explain.edits import best_place, edits_above, edits_below, worst_place
from dpnb.explain.ranks import Search, rank_intervals, search

TENTH, REST = Fraction(1, 10), Fraction(9, 10)


def statistic_of(scores, places):
    """S(row, place) for the rows at the given places of scores that fall."""
    falling = sorted(scores, reverse=True)
    return lambda row, place: falling[places[row] - 1] - falling[place - 1]


class TestSearch:
    """Known noise and margins; the spread there is 2 Delta."""

    @pytest.mark.parametrize(
        ("delta", "size", "rho", "lower", "upper"),
        [
            (16, 103, "1.9", (307.1087584, 1030.970058), (102.3695861, 343.6566859)),
            (3.2e6, 111, "1", (84664041.95, 284218830.7), (28221347.32, 94739610.25)),
            (2, 128, "1", None, (17.63834207, 59.21225641)),
        ],
    )
    def test_the_papers_noise(self, delta, size, rho, lower, upper):
        for share, expected in ((TENTH, lower), (REST, upper)):
            if expected is not None:
                distribution = search(2 * delta, size, 5, share * Fraction(rho), 0.95, "paper")
                assert (distribution.sigma, distribution.margin) == pytest.approx(
                    expected, rel=1e-9
                )
                assert distribution.draws == 7

    def test_the_tight_noise(self):
        below = search(32, 103, 5, TENTH * Fraction("1.9"), 0.95, "tight")
        above = search(32, 103, 5, REST * Fraction("1.9"), 0.95, "tight")
        assert below == Search(pytest.approx(284.3274613), pytest.approx(749.1138783), 6)
        assert above == Search(pytest.approx(94.77582044), pytest.approx(249.7046261), 6)
        power = search(4, 128, 5, REST, 0.95, "tight")
        assert power == Search(pytest.approx(17.63834207), pytest.approx(47.38532527), 7)

    def test_the_multipliers(self):
        def factor(size, mode):
            distribution = search(1, size, 1, Fraction(1), 0.95, mode)
            return distribution.margin / distribution.sigma

        assert factor(128, "paper") == pytest.approx(3.357019393, rel=1e-9)
        assert factor(128, "tight") == pytest.approx(2.686495424, rel=1e-9)
        assert factor(64, "tight") == pytest.approx(2.634687043, rel=1e-9)

    @pytest.mark.parametrize("mode", ["tight", "paper"])
    @pytest.mark.parametrize("size", [2, 3, 4, 15, 16, 17, 64, 103, 128, 2**40 + 1, 2**53])
    def test_all_tests_together_cost_at_most_rho(self, size, mode):
        spread, k, rho = 12345.678, 7, Fraction("0.0917")
        distribution = search(spread, size, k, rho, 0.9, mode)
        each = Fraction(spread) ** 2 / (2 * Fraction(distribution.sigma) ** 2)
        assert rho * Fraction(999_999, 10**6) < k * distribution.draws * each <= rho

    @pytest.mark.parametrize("mode", ["tight", "paper"])
    def test_one_candidate_needs_no_noise(self, mode):
        assert search(5, 1, 1, Fraction(1), 0.95, mode).draws == 0

    def test_more_confidence_takes_wider_margins_at_the_same_noise(self):
        distributions = [
            search(1, 100, 5, REST, sure, "tight") for sure in (0.1, 0.5, 0.95, 1 - 1e-9)
        ]
        assert len({distribution.sigma for distribution in distributions}) == 1
        assert [distribution.margin for distribution in distributions] == sorted(
            {distribution.margin for distribution in distributions}
        )
        assert math.isfinite(distributions[-1].margin)


class TestZeroNoise:
    """The path of the binary search."""

    SMALL = tuple(100 - 3 * place for place in range(15))
    LARGE = tuple(150 - 10 * place for place in range(15))

    def run(self, fast, scores, place, mode):
        noise, seen = fast(scale=0), []
        inner = statistic_of(scores, [place])

        def statistic(row, t):
            seen.append(t)
            return inner(row, t)

        size = len(scores)
        distributions = [search(2, size, 1, share, 0.95, mode) for share in (TENTH, REST)]
        ((low, high),) = rank_intervals(statistic, 1, size, *distributions, noise, mode)
        return (low, high), seen, sum(noise.gaussians)

    def test_the_margins_are_those_of_the_oracle(self):
        tight = [search(2, 15, 1, share, 0.95, "tight").margin for share in (REST, TENTH)]
        paper = [search(2, 15, 1, share, 0.95, "paper").margin for share in (REST, TENTH)]
        assert tight == pytest.approx([6.173255405, 18.51976622], rel=1e-9)
        assert paper == pytest.approx([9.498700557, 28.49610167], rel=1e-9)

    def test_small_steps(self, fast):
        ends, seen, draws = self.run(fast, self.SMALL, 3, "tight")
        assert ends == (1, 5)
        assert seen[:3] == [8, 4, 6]
        assert draws == 6

    def test_small_steps_with_the_papers_margins(self, fast):
        ends, _, draws = self.run(fast, self.SMALL, 3, "paper")
        assert ends == (1, 7)
        assert draws == 6

    def test_large_steps(self, fast):
        assert self.run(fast, self.LARGE, 12, "tight")[0] == (11, 13)

    def test_large_steps_with_the_papers_margins_and_return_value(self, fast):
        assert self.run(fast, self.LARGE, 12, "paper")[0] == (9, 13)

    @pytest.mark.parametrize("mode", ["tight", "paper"])
    def test_a_single_candidate_ranks_first_without_a_draw(self, fast, mode):
        noise = fast()
        none = search(2, 1, 1, REST, 0.95, mode)
        assert rank_intervals(lambda row, place: 0, 1, 1, none, none, noise, mode) == [(1, 1)]
        assert noise.gaussians == []

    def test_example_4_9(self):
        """Outcomes pass, fail, pass at places 8, 4, 6 end at 5."""

        class Scripted:
            def gaussian(self, exact, sigma):
                return [{8: 10, 4: -10, 6: 10}.get(place, -10) for place in exact]

        distribution = Search(1.0, 5.0, 3)
        ((_, most),) = rank_intervals(
            lambda row, place: place, 1, 15, distribution, distribution, Scripted()
        )
        assert most == 5


class TestRankIntervals:
    @pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 15, 16, 31, 64, 103, 111, 128, 1000])
    @pytest.mark.parametrize("mode", ["tight", "paper"])
    def test_no_search_draws_more_than_it_paid_for(self, size, mode, fast):
        rng = np.random.default_rng(size)
        rows = 60
        scores = np.sort(rng.integers(-50, 50, size))[::-1].tolist()
        places = rng.integers(1, size + 1, rows).tolist()
        noise = fast(size)
        distributions = [search(20, size, rows, share, 0.95, mode) for share in (TENTH, REST)]
        found = rank_intervals(
            statistic_of(scores, places), rows, size, *distributions, noise, mode
        )
        assert sum(noise.gaussians) <= rows * sum(
            distribution.draws for distribution in distributions
        )
        assert all(drawn <= rows for drawn in noise.gaussians)
        assert len(noise.gaussians) <= 2 * max(0, size.bit_length() - 1)
        assert all(1 <= low <= high <= size for low, high in found)

    def test_a_search_that_would_draw_more_stops(self, fast):
        short = Search(1.0, 0.0, 2)
        with pytest.raises(AssertionError, match="more draws"):
            rank_intervals(lambda row, place: 0, 1, 100, short, short, fast())

    @pytest.mark.parametrize("candidates", [2, 15, 64, 103, 128])
    def test_each_side_of_flat_scores_holds_exactly_as_often_as_it_says(
        self, candidates, fast, size, equals
    ):
        """The worst case of each bound, predicates that all score nearly the same."""
        rows = size(8_000)
        distribution = search(2.0**21, candidates, 1, Fraction(1), 0.95, "tight")
        found = rank_intervals(
            lambda row, place: 0, rows, candidates, distribution, distribution, fast(candidates)
        )
        lows, highs = np.array(found).T
        # the way to the first place is one test shorter for powers of two, and so is safer
        one_test = 0.975 ** (1 / distribution.draws)
        to_last, to_first = path_lengths(candidates)
        assert to_last == distribution.draws
        assert equals(highs == candidates, 0.975)
        assert equals(lows == 1, one_test**to_first)

    def test_wrong_noise_would_be_noticed(self, fast, size, equals):
        distribution = search(2.0**21, 64, 1, Fraction(1), 0.95, "tight")
        found = rank_intervals(
            lambda row, place: 0, size(8_000), 64, distribution, distribution, fast(3, scale=1.15)
        )
        assert not equals(np.array(found)[:, 1] == 64, 0.975)

    @pytest.mark.parametrize("mode", ["tight", "paper"])
    def test_intervals_of_random_scores_hold_jointly(self, mode, fast, size, reaches):
        rng = np.random.default_rng(4)
        for count in (7, 40, 103):
            rows = size(4_000)
            scores = np.sort(rng.normal(0, 2.0**22, count).astype(int))[::-1].tolist()
            places = rng.integers(1, count + 1, rows).tolist()
            distributions = [search(2.0**20, count, 1, share, 0.9, mode) for share in (TENTH, REST)]
            found = rank_intervals(
                statistic_of(scores, places), rows, count, *distributions, fast(7), mode
            )
            inside = [low <= p <= high for p, (low, high) in zip(places, found, strict=True)]
            assert reaches(inside, 0.9)
            assert any(high - low < count - 1 for low, high in found)

    def test_crossed_ends_are_exchanged(self, fast):
        found = rank_intervals(
            lambda row, place: 10**6, 1, 15, Search(0.0, 1.0, 3), Search(0.0, 1.0, 3), fast(scale=0),
            lower_statistic=lambda row, place: -(10**6),
        )  # fmt: skip
        assert found == [(1, 15)]


def path_lengths(size):
    """How many tests the search makes whose answers lead to the last, and to the first place."""

    def steps(up):
        lo, hi, count = 1, size, 0
        while lo < hi:
            t = (lo + hi) // 2
            lo, hi = (t + 1, hi) if up else (lo, t - 1)
            count += 1
        return count

    return steps(True), steps(False)


def linear(values, delta):
    """Bounds of influences that each edit moves by at most delta."""
    return lambda d: ([v - d * delta for v in values], [v + d * delta for v in values])


class TestEditDistance:
    """Theorem 14 of docs/methods/dpxplain.md."""

    def test_omega_is_the_first_distance_whose_worst_place_is_as_low(self):
        # Bd(p, d) = 2, 2, 4, 6, 10 for d = 0 to 4: so many predicates are not surely above p
        def bounds(d):
            above = 10 - [2, 2, 4, 6, 10][min(d, 4)]
            return [0.0] * 10, [0.0] + [-1.0] * above + [1.0] * (9 - above)

        assert [worst_place(0, d, bounds) for d in range(5)] == [2, 2, 4, 6, 10]
        found = [edits_below(0, place, bounds, 50) for place in range(1, 8)]
        assert found == [0, 0, 2, 2, 3, 3, 4]

    def test_example_c_5(self):
        bounds = lambda d: ([0, 0, 4, 0, 0], [1, 3, 6, 7, 10])  # noqa: E731
        assert worst_place(2, 3, bounds) == 3

    def test_bounds_that_move_by_delta_give_the_closed_form(self):
        assert edits_below(0, 2, linear([10, 3], 2), 100) == 2
        rng = np.random.default_rng(1)
        for _ in range(300):
            count, delta = rng.integers(1, 9), int(rng.integers(1, 5))
            values = rng.integers(-20, 20, count).tolist()
            falling = sorted(values, reverse=True)
            for row, place in itertools.product(range(count), range(1, count + 1)):
                gap = values[row] - falling[place - 1]
                closed = max(0, math.ceil(Fraction(gap, 2 * delta)))
                assert edits_below(row, place, linear(values, delta), 100) == closed
                below = max(0, math.ceil(Fraction(-gap, 2 * delta)))
                assert edits_above(row, place, linear(values, delta), 100) == -below

    def test_it_is_capped_where_no_number_of_edits_suffices(self):
        fixed = lambda d: ([3, 2, 1], [3, 2, 1])  # noqa: E731
        assert edits_below(0, 2, fixed, 7) == 7
        assert edits_below(0, 1, fixed, 7) == 0
        assert edits_above(2, 1, fixed, 7) == -7
        assert edits_above(2, 3, fixed, 7) == 0
        assert best_place(2, 5, fixed) == worst_place(2, 5, fixed) == 3

    def test_it_is_monotone_and_0_at_the_place_of_p(self):
        rng = np.random.default_rng(2)
        for _ in range(50):
            values = rng.permutation(30)[:8].tolist()
            bounds = linear(values, 3)
            falling = sorted(values, reverse=True)
            for row in range(8):
                rank = falling.index(values[row]) + 1
                for function in (edits_below, edits_above):
                    path = [function(row, place, bounds, 9) for place in range(1, 9)]
                    assert path == sorted(path)
                    assert path[rank - 1] == 0

    @pytest.mark.parametrize("most", [2, 50])
    def test_one_edit_changes_it_by_at_most_1(self, most):
        """Every table of at most 3 rows of 4 kinds; bounds by looking at every table in reach."""
        kinds, limit = 4, 3
        tables = [
            counts
            for counts in itertools.product(range(limit + 1), repeat=kinds)
            if sum(counts) <= limit
        ]

        # influences of three predicates, far from linear, as different in sensitivity as can be
        def scores(t):
            return (t[0] * t[1] - t[2], t[0] ** 3 - t[3], (t[1] + 1) * (t[2] - t[3]) / (1 + t[0]))

        exact = np.array([scores(t) for t in tables], dtype=float)
        places = np.array(tables)
        apart = np.abs(places[:, None, :] - places[None, :, :]).sum(axis=2)

        def bounds_at(i):
            def bounds(d):
                near = exact[apart[i] <= d]
                return near.min(axis=0).tolist(), near.max(axis=0).tolist()

            return bounds

        found = np.array(
            [
                [
                    [function(row, place, bounds_at(i), most) for place in (1, 2, 3)]
                    for row in range(3)
                    for function in (edits_below, edits_above)
                ]
                for i in range(len(tables))
            ]
        )
        neighbours = np.argwhere(apart == 1)
        changes = np.abs(found[neighbours[:, 0]] - found[neighbours[:, 1]])
        assert changes.max() == 1
        assert len(np.unique(found)) > 3

    def test_intervals_from_it_hold_as_often_as_they_say(self, fast, size, reaches):
        fine = 2**20
        values = [900, 600, 400, 390, 380, 200, 100, 50, 20, 0, -5, -60, -200]
        count, rows = len(values), size(3_000)
        bounds = linear(values, 2)
        below = [[fine * edits_below(p, t, bounds, 60) for t in range(1, count + 1)]
                 for p in range(count)]  # fmt: skip
        above = [[fine * edits_above(p, t, bounds, 60) for t in range(1, count + 1)]
                 for p in range(count)]  # fmt: skip
        distributions = [search(fine, count, 1, share * Fraction("0.05"), 0.9, "tight")
                for share in (TENTH, REST)]  # fmt: skip
        found = rank_intervals(
            lambda row, place: below[row % count][place - 1], rows, count, *distributions, fast(9),
            lower_statistic=lambda row, place: above[row % count][place - 1],
        )  # fmt: skip
        inside = [low <= row % count + 1 <= high for row, (low, high) in enumerate(found)]
        assert reaches(inside, 0.9)
        assert not reaches(inside, 0.995)
        assert np.mean([high - low for low, high in found]) < 10
