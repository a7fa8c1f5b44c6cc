"""Preferences: closed forms are what a search finds, and published levels come out.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from dpnb.errors import RequestError
from dpnb.privacy.definition import PURE
from dpnb.risk import preferences
from dpnb.risk.indicator import FORMS
from dpnb.risk.preferences import (
    CANDIDATES,
    Difference,
    FloorMaxRatio,
    GroupRatio,
    Judged,
    MaxLoss,
    MinMaxRatio,
    QuantileRatio,
    Variance,
    descending,
    largest_within,
    level_for_variance,
    read,
    search,
    threshold,
)

FINE = tuple(Fraction(f"{level:.6g}") for level in np.geomspace(1e4, 1e-6, 600))


def searched(preference, rows, candidates=FINE):
    """The largest candidate by trying all, from above."""
    return next((c for c in candidates if preference.met(rows, float(c))), None)


def near(found, level):
    """Whether a fine search found a level in closed form."""
    if level <= float(FINE[-1]):
        return found is None
    return (
        found is not None
        and float(found) * (1 - 1e-9) <= min(level, float(FINE[0])) <= float(found) * 1.04
    )


class TestCandidates:
    def test_there_are_37_from_10_to_a_thousandth(self):
        """Oracle 12."""
        assert len(CANDIDATES) == 37
        assert CANDIDATES[0] == 10
        assert CANDIDATES[-1] == Fraction(1, 1000)
        assert sorted(CANDIDATES, reverse=True) == list(CANDIDATES)
        assert {Fraction(9), Fraction(9, 10), Fraction(9, 100), Fraction(9, 1000)} < set(CANDIDATES)

    def test_given_ones_are_sorted_exact_and_counted_once(self):
        assert descending([0.1, 1, "0.5", np.float64(0.1)]) == (1, Fraction(1, 2), Fraction(1, 10))
        assert descending(None) == CANDIDATES
        assert descending(np.array([1.0, 2.0])) == (2, 1)

    @pytest.mark.parametrize(
        "levels",
        [[], (), "", "0.1", [0], [-1], [math.inf], [math.nan], [None], ["x"], [True], [1, -1],
         5, 0.5, object()],
    )  # fmt: skip
    def test_others_are_refused(self, levels):
        with pytest.raises(RequestError):
            descending(levels)

    def test_a_tie_goes_to_the_owner(self):
        """0.1 + 0.2 is not 0.3 for floats; the largest candidate at the limit is taken all the same."""
        assert largest_within(CANDIDATES, 1 / 0.5 - 1) == 1
        assert largest_within(CANDIDATES, 0.3 * (1 - 1e-15)) == Fraction(3, 10)
        assert largest_within(CANDIDATES, 0.3 * (1 - 1e-9)) == Fraction(2, 10)
        assert largest_within(CANDIDATES, 0.0009) is None
        assert largest_within(CANDIDATES, math.inf) == 10


class TestThresholds:
    @pytest.mark.parametrize("value", [0, 1, 0.5, Fraction(1, 3), np.float32(0.5)])
    def test_from_0_to_1(self, value):
        assert threshold(value) == float(value)

    @pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True, [0.5]])
    def test_others_are_refused(self, value):
        with pytest.raises(RequestError, match="tau must be between 0 and 1"):
            threshold(value)


class TestPublishedLevels:
    def test_smallest_over_largest(self, adding):
        """Oracle 2."""
        pure, gaussian = adding([0, 200, 500, 1_000]), adding([0, 200, 500, 1_000], pure=False)
        for level, ratio in ((10, 0.0909090909), (1, 0.5), (0.5, 2 / 3), (0.1, 0.9090909091)):
            assert MinMaxRatio(0).value(pure, level) == pytest.approx(ratio, abs=1e-9)
        assert MinMaxRatio(0.9).closed(pure) == pytest.approx(1 / 9)
        # oracle 3
        for level, ratio in ((1, 0.5773502692), (0.5, 0.7071067812), (0.05, 0.9534625892)):
            assert MinMaxRatio(0).value(gaussian, level) == pytest.approx(ratio, abs=1e-9)

    def test_without_anybody_at_the_floor_more_is_allowed(self, adding):
        rows = adding([200, 500, 1_000])
        assert MinMaxRatio(0.9).closed(rows) == pytest.approx(0.1428571429, abs=1e-9)
        assert MinMaxRatio(0.9).value(rows, 1 / 7) == pytest.approx(0.9)
        assert MinMaxRatio(0.2).closed(rows) == math.inf
        assert MinMaxRatio(0.2).met(rows, 1e9)

    def test_variances_normalised_by_the_public_maximum(self, adding):
        """Oracles 1, 2 and 11."""
        pure, gaussian = adding([0, 200, 500, 1_000]), adding([0, 200, 500, 1_000], pure=False)
        assert pure.variance() == pytest.approx(0.141875, abs=1e-12)
        assert gaussian.variance() == pytest.approx(0.16201875, abs=1e-12)
        for level, variance in (
            (10, 0.1172520661), (1, 0.03546875), (0.5, 0.0157638889), (0.1, 0.0011725207),
        ):  # fmt: skip
            assert Variance(1).value(pure, level) == pytest.approx(variance, abs=1e-9)
        for tau, epsilon in ((0.01, 0.3614506004), (0.001, 0.0916495421), (1e-5, 0.0084665909)):
            assert Variance(tau).closed(pure) == pytest.approx(epsilon, abs=1e-9)
        for tau, rho in ((0.01, 0.1652807722), (0.001, 0.0426306210)):
            assert Variance(tau).closed(gaussian) == pytest.approx(rho, abs=1e-9)
        figure = adding([0, 0, 1_000])
        for level, variance in ((1, 0.0555555556), (0.1, 0.0018365473), (0.01, 2.178435665e-5)):
            assert Variance(1).value(figure, level) == pytest.approx(variance, abs=1e-9)

    def test_a_variance_that_no_level_reaches_allows_all(self, adding):
        rows = adding([0, 1_000])
        assert Variance(0.25).closed(rows) == math.inf
        assert Variance(0.25).met(rows, 1e12)
        assert level_for_variance(0.1, 0.0, pure=False) == math.inf

    def test_the_gaussian_variance_is_that_of_squares_over_their_public_maximum(self, adding):
        """Theorem 8: w = (r^2 + C) / (1 + C), C = 1 / (2 rho)."""
        rows, rho = adding(np.arange(0, 1_001, 50), pure=False), 0.37
        c = 1 / (2 * rho)
        assert Variance(1).value(rows, rho) == pytest.approx(np.var((rows.r**2 + c) / (1 + c)))

    def test_the_laplace_variance_is_that_of_indicators_over_their_public_maximum(self, adding):
        rows, epsilon = adding(np.arange(0, 1_001, 50)), 0.37
        assert Variance(1).value(rows, epsilon) == pytest.approx(
            np.var(rows.relative(epsilon) / (1 + epsilon))
        )

    def test_medians_of_groups(self, adding):
        """Oracle 10 has a median between two values; ours is a value that occurs."""
        rows = adding([0, 500, 500, 200, 1_000, 1_000], cells=[0, 0, 0, 1, 1, 1])
        assert GroupRatio(0, 0, 1).value(rows, 1.0) == pytest.approx(15 / 20)
        assert GroupRatio(0, 0, 1).value(rows, 0.1) == pytest.approx(105 / 110)

    def test_the_ratio_of_groups_is_symmetric(self, adding):
        """E18: the published one passes when A is much more exposed than B."""
        rows = adding([1_000, 0], cells=[0, 1])
        assert GroupRatio(0, 0, 1).value(rows, 9.0) == GroupRatio(0, 1, 0).value(rows, 9.0) == 0.1
        assert not GroupRatio(0.5, 0, 1).met(rows, 9.0)
        assert GroupRatio(0.5, 0, 1).met(rows, 1.0)

    def test_a_group_without_rows_is_at_the_floor(self, adding):
        rows = adding([1_000], cells=[0])
        assert GroupRatio(0, 0, 1).value(rows, 1.0) == 0.5


NAMES = {
    "min_max_ratio": MinMaxRatio(0.8),
    "min_max_ratio, loose": MinMaxRatio(0.2),
    "floor_max_ratio": FloorMaxRatio(0.8),
    "quantile_ratio": QuantileRatio(0.8, 0.7),
    "quantile_ratio, all": QuantileRatio(0.7, 1.0),
    "variance": Variance(1e-3),
    "max_loss": MaxLoss(0.05),
}
TABLES = {
    "spread": {"numbers": [0, 200, 300, 300, 900], "counts": [5, 1, 2, 2, 1]},
    "nobody at the floor": {"numbers": [250, 300, 900]},
    "all alike": {"numbers": [400, 400]},
    "nothing added": {"numbers": [0, 0]},
    "empty": {"numbers": []},
    "one row": {"numbers": [1_000]},
    "two vectors": {
        "numbers": [[0, 0], [30, 1], [-50, 1], [7, 1], [50, 0]],
        "sensitivities": [50, 1], "shares": [0.65, 0.35],
    },
    "rounded": {"numbers": [0, 17, 1_000, 4_096], "steps": 4_096},
}  # fmt: skip


class TestClosedForms:
    """Theorem 8: descending search and closed form agree, in every privacy and form."""

    @pytest.mark.parametrize("table", TABLES)
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(PURE, [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_they_are_what_a_search_finds(self, table, name, pure, form, adding):
        rows, wanted = adding(**TABLES[table], pure=pure, form=form), NAMES[name]
        closed = wanted.closed(rows)
        if closed is not None:
            assert near(searched(wanted, rows), closed)
        assert search(wanted, rows, CANDIDATES) == searched(wanted, rows, CANDIDATES)

    @pytest.mark.parametrize("name", [*NAMES, "difference"])
    @pytest.mark.parametrize(PURE, [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_once_true_it_stays_true_for_smaller_levels(self, name, pure, form, adding):
        wanted = NAMES.get(name, Difference(0.3))
        rng = np.random.default_rng(8)
        for _ in range(8):
            rows = adding(
                rng.integers(0, 1_001, rng.integers(1, 9)) // rng.choice([1, 3, 40]),
                pure=pure, form=form,
            )  # fmt: skip
            met = [wanted.met(rows, float(c)) for c in FINE[::20]]
            assert met == sorted(met)

    @pytest.mark.parametrize(PURE, [True, False])
    def test_a_cap_on_the_loss_is_a_ratio_to_the_floor(self, pure, adding):
        """Theorem 6: 1/tau - 1, or (1/tau^2 - 1)/2."""
        rows = adding([0, 123, 877], pure=pure)
        for tau in (0.3, 0.8, 0.99):
            cap = 1 / tau - 1 if pure else (1 / tau**2 - 1) / 2
            assert MaxLoss(cap).closed(rows) == pytest.approx(FloorMaxRatio(tau).closed(rows))

    @pytest.mark.parametrize(PURE, [True, False])
    def test_an_earlier_loss_leaves_less(self, pure, adding):
        """Where losses of earlier releases count, the search is over all that anybody knows."""
        first = adding([0, 500, 1_000], pure=pure)
        later = adding([0, 500, 1_000], pure=pure, constant=0.02)
        for wanted in (FloorMaxRatio(0.9), QuantileRatio(0.9, 0.6), MaxLoss(0.1)):
            assert search(wanted, later, FINE) < search(wanted, first, FINE)
        assert search(FloorMaxRatio(0.99), adding([0], constant=0.2, pure=pure), CANDIDATES) is None

    @pytest.mark.parametrize(PURE, [True, False])
    def test_the_variance_of_what_is_known_by_now_counts_earlier_losses(self, pure, adding):
        """Losses of 0 and 1 by another release, then 0 and L by this one."""
        later = adding([[0, 0], [0, 1_000]], sensitivities=[1_000, 1_000], shares=[1, 0],
                       held=[0, 1.0], pure=pure)  # fmt: skip
        scaled = 1.0 if pure else 2.0
        assert Variance(1).value(later, 1e-9) == pytest.approx(
            (scaled / (scaled + 1)) ** 2 / 4, rel=1e-6
        )


class TestDegenerate:
    """Oracle 19."""

    @pytest.mark.parametrize(PURE, [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_when_all_are_alike_their_ratio_is_1_but_they_are_not_safe(self, pure, form, adding):
        rows = adding([1_000, 1_000, 1_000], pure=pure, form=form)
        assert MinMaxRatio(0.95).value(rows, 3.0) == 1
        assert search(MinMaxRatio(1), rows, CANDIDATES) == 10
        assert search(FloorMaxRatio(1), rows, CANDIDATES) is None
        if pure and form == "bound":
            assert search(FloorMaxRatio(0.95), rows, CANDIDATES) == Fraction(1, 20)

    @pytest.mark.parametrize("numbers", [[], [0], [0, 0, 0]])
    @pytest.mark.parametrize(PURE, [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_when_nobody_adds_anything_every_level_will_do(self, numbers, pure, form, adding):
        rows = adding(numbers, pure=pure, form=form)
        for wanted in (
            MinMaxRatio(1), FloorMaxRatio(1), QuantileRatio(1, 0.5), GroupRatio(1, 0, 1),
            Variance(1e-9), MaxLoss(1e-9), Difference(1e-9),
        ):  # fmt: skip
            assert search(wanted, rows, CANDIDATES) == 10

    @pytest.mark.parametrize(PURE, [True, False])
    def test_without_noise_nobody_differs_where_nobody_adds_anything(self, pure, adding):
        rows = adding([0, 0], pure=pure)
        assert MinMaxRatio(0).value(rows, math.inf) == 1
        assert FloorMaxRatio(0).value(rows, math.inf) == 1

    def test_without_noise_a_ratio_is_that_of_the_bare_contributions(self, adding):
        """Oracle 1 at epsilon = inf: (0, 0, 1) has ratio 0."""
        assert MinMaxRatio(0).value(adding([0, 0, 1_000]), math.inf) == 0
        assert FloorMaxRatio(0).value(adding([0, 0, 1_000]), math.inf) == 0

    def test_a_threshold_of_0_allows_the_largest_candidate(self, adding):
        rows = adding([0, 1_000])
        for wanted in (MinMaxRatio(0), FloorMaxRatio(0), QuantileRatio(0, 1.0)):
            assert search(wanted, rows, CANDIDATES) == 10

    def test_a_quantile_below_the_crowd_protects_nobody_above_it(self, adding):
        """E14 warns of it: one exposed person in a thousand."""
        rows = adding([0, 1_000], counts=[999, 1])
        assert search(QuantileRatio(0.95, 0.99), rows, CANDIDATES) == 10
        assert search(QuantileRatio(0.95, 1.0), rows, CANDIDATES) == Fraction(1, 20)


class TestDifference:
    def test_it_is_that_of_two_losses(self, adding):
        rows = adding([200, 500, 1_000])
        assert Difference(0).value(rows, 0.5) == pytest.approx(0.4)
        assert search(Difference(0.4), rows, CANDIDATES) == Fraction(1, 2)

    def test_gaussian_differences_shrink_with_the_noise(self, adding):
        """E5: in units of the noise, d in {0, 1}: 0.414, and 0.010 at a fifth of the scale."""
        rows = adding([0, 1_000], pure=False)
        for sigma, expected in ((1, 0.414), (5, 0.099), (50, 0.010)):
            found = Difference(0).value(rows, 1 / (2 * sigma**2)) * sigma
            assert found == pytest.approx(expected, abs=6e-4)


class TestJudged:
    def test_a_function_of_the_owner_decides(self, adding):
        rows = adding([0, 500, 1_000], counts=[6, 3, 1])
        mean = Judged(lambda rdr, weight: np.average(rdr, weights=weight), 1.1)
        assert mean.value(rows, 1.0) == pytest.approx(1.25)
        assert search(mean, rows, CANDIDATES) == Fraction(4, 10)

    def test_it_may_ask_for_large_numbers_too(self, adding):
        rows = adding([0, 1_000])
        least = Judged(lambda rdr, _: rdr.min() / rdr.max(), 0.5, at_most=False)
        assert search(least, rows, CANDIDATES) == 1

    def test_a_condition_that_comes_and_goes_is_warned_of(self, adding):
        rows = adding([1_000])
        odd = Judged(lambda rdr, _: 0 if rdr[0] > 5 or rdr[0] < 1.01 else 1, 0.5)
        with pytest.warns(UserWarning, match="not at every smaller one") as caught:
            assert search(odd, rows, CANDIDATES, public=True) == 10
        assert not any(c.isdigit() for c in str(caught[0].message))
        with warnings.catch_warnings():
            # elsewhere it would tell something of the data
            warnings.simplefilter("error")
            assert search(odd, rows, CANDIDATES) == 10

    def test_a_monotone_one_warns_of_nothing(self, adding):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            monotone = Judged(lambda rdr, _: rdr.max(), 1.5)
            search(monotone, adding([0, 1_000]), CANDIDATES, public=True)

    @pytest.mark.parametrize(
        "judge",
        [lambda rdr, w: 1 / 0, lambda rdr, w: "48611 rows", lambda rdr: 1.0, lambda rdr, w: None,
         lambda rdr, w: rdr],
    )  # fmt: skip
    def test_one_that_fails_is_refused_without_what_it_saw(self, judge, adding):
        with pytest.raises(RequestError, match="the preference function failed") as caught:
            search(Judged(judge, 1.0), adding([0, 1_000]), CANDIDATES)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_no_number_meets_nothing(self, adding):
        never = Judged(lambda rdr, w: math.nan, 1.0)
        assert search(never, adding([0, 1_000]), CANDIDATES) is None

    def test_it_cannot_change_what_it_is_given(self, adding):
        rows = adding([0, 1_000], counts=[2, 2])

        def spoil(rdr, weight):
            rdr[:], weight[:] = 0, 0
            return 0.0

        search(Judged(spoil, 1.0), rows, CANDIDATES)
        assert rows.r.tolist() == [0, 1]
        assert rows.counts.tolist() == [2, 2]


class TestReading:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("min_max_ratio", MinMaxRatio), ("floor_max_ratio", FloorMaxRatio),
            ("quantile_ratio", QuantileRatio), ("variance", Variance), ("difference", Difference),
            ("max_loss", MaxLoss),
        ],
    )  # fmt: skip
    def test_each_has_a_name(self, name, kind):
        found = read(name, 0.5)
        assert isinstance(found, kind)
        assert found.threshold == 0.5

    def test_a_quantile_is_the_99th_of_100_if_not_told(self):
        assert read("quantile_ratio", 0.5).p == 0.99
        assert read("quantile_ratio", 0.5, p=0.9).p == 0.9

    @pytest.mark.parametrize(
        ("name", "tau", "options"),
        [
            ("nope", 0.5, {}), ("", 0.5, {}), ("max_loss", 0, {}), ("max_loss", -1, {}),
            ("variance", math.inf, {}), ("difference", math.nan, {}), ("variance", "x", {}),
            ("floor_max_ratio", 1.5, {}), ("min_max_ratio", -0.1, {}),
            ("quantile_ratio", 0.5, {"p": 1.5}), ("quantile_ratio", 0.5, {"p": "x"}),
            ("max_loss", None, {}),
        ],
    )  # fmt: skip
    def test_nonsense_is_refused(self, name, tau, options):
        with pytest.raises(RequestError):
            read(name, tau, **options)

    def test_unknown_names_are_told_the_known_ones(self):
        with pytest.raises(RequestError, match="floor_max_ratio, min_max_ratio"):
            read("ratio", 0.5)


def test_a_preference_of_ones_own_takes_part(adding):
    class Never:
        threshold = 0.0

        def value(self, rows, level):
            return 1.0

        def met(self, rows, level):
            return level < 0.005

        def closed(self, rows):
            return None

    assert preferences.search(Never(), adding([1_000]), CANDIDATES) == Fraction(4, 1000)
