"""Intervals as pure arithmetic on released values: oracles first, then coverage by simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from dpnb import Budget, Integer, Schema, Session, Table
from dpnb.estimation.estimates import cut
from dpnb.estimation.intervals import (
    Pair,
    around,
    combination_margin_of_error,
    combine,
    mean_around_zero,
    mean_in_box,
    range_quantile,
    ratio,
    shifted,
)
from dpnb.privacy.calibrate import NoiseDistribution
from tests.kit.power import coverage, shares

Test = Callable[[object, float], bool]
FAMILIES = ("gaussian", "laplace")
WRONG = (0.85, 1.15)


def draw(
    rng: np.random.Generator, distribution: NoiseDistribution, shape: object, scale: float = 1.0
) -> np.ndarray:
    sample = rng.normal if distribution.family == "gaussian" else rng.laplace
    return sample(0.0, distribution.scale * scale, shape)  # type: ignore[arg-type]


def exactly(weights: Sequence[float | str]) -> list[Fraction]:
    return [Fraction(str(weight)) for weight in weights]


def margin_of_error(
    distribution: NoiseDistribution,
    alpha: float,
    groups: int,
    *weights: float | str,
    planned: bool = False,
) -> float:
    return combination_margin_of_error(
        distribution, alpha, exactly(weights or (1, -1)), groups, planned=planned
    )


def bounded_mean(
    total: float,
    count: float,
    total_distribution: NoiseDistribution,
    count_distribution: NoiseDistribution,
    reach: float,
    alpha: float,
) -> Pair:
    """Return the interval of a mean that lies within ``reach`` of 0."""
    ends = mean_around_zero(total, count, total_distribution, count_distribution, alpha)
    return cut(ends, (-reach, reach))


def combined(ends: Sequence[Pair], weights: Sequence[float], shift: float | str = 0) -> Pair:
    return combine(ends, exactly(weights), Fraction(str(shift)))


class TestOracles:
    @pytest.mark.parametrize(
        ("level", "quantile"),
        [
            (0.95, 1.95996398454),
            (0.975, 2.2414027276),
            (0.9875, 2.49770547441),
            (1 - 0.05 / 6, 2.63825727348),
        ],
    )
    def test_quantiles(self, level: float, quantile: float) -> None:
        assert NoiseDistribution("gaussian", 1.0).quantile(1 - level) == pytest.approx(
            quantile, rel=1e-9
        )

    @pytest.mark.parametrize(
        ("weights", "half"), [((1, -10), 44.0447125596), ((1, 1, -2), 10.73516486)]
    )
    def test_weighted_counts(self, weights: tuple[int, ...], half: float) -> None:
        distribution = NoiseDistribution("gaussian", math.sqrt(5))
        found = margin_of_error(distribution, 0.05, 9, *weights, planned=True)
        assert found == pytest.approx(half, rel=1e-9)

    def test_weighted_counts_around_their_centre(self) -> None:
        half = margin_of_error(
            NoiseDistribution("gaussian", math.sqrt(5)), 0.05, 9, 1, -10, planned=True
        )
        centre = 7624.085314090087
        assert (centre - half, centre + half) == pytest.approx(
            (7580.04060153057, 7668.130026649605), rel=1e-9
        )

    def test_boxes_of_weighted_averages(self) -> None:
        distributions = (
            NoiseDistribution("gaussian", math.sqrt(10)),
            NoiseDistribution("gaussian", math.sqrt(0.1)),
        )
        groups = [(2600, 600), (2100, 400), (1000, 100)]
        boxes = [mean_in_box(s, c, *distributions, 0.05 / 3) for s, c in groups]
        found = combined(boxes, (1, 1, -2), -1.5)
        assert found == pytest.approx((-12.304834034673158, -11.533879898661782), rel=1e-9)

    @pytest.mark.parametrize(
        ("middle", "scale", "expected"),
        [
            (0, math.sqrt(10), (-0.9495652516511646, -0.8837889564810961)),
            (5, math.sqrt(2.5), (-0.9314982771573792, -0.9018384868465019)),
        ],
        ids=["plain", "centred"],
    )
    def test_fiellers_difference(self, middle: int, scale: float, expected: Pair) -> None:
        distributions = (
            NoiseDistribution("gaussian", scale),
            NoiseDistribution("gaussian", math.sqrt(0.1)),
        )
        ends = [
            bounded_mean(s - middle * c, c, *distributions, 10.0 - middle, 0.025)
            for s, c in ((2600, 600), (2100, 400))
        ]
        assert combined(ends, (1, -1)) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(
        ("total", "count", "expected"),
        [
            ((2, 4), (5, 10), (0.2, 0.8)),
            ((-4, -2), (5, 10), (-0.8, -0.2)),
            ((-2, 4), (5, 10), (-0.4, 0.8)),
            ((2, 4), (-1, 10), (-math.inf, math.inf)),
            ((2, 4), (0, 10), (-math.inf, math.inf)),
            ((2, 4), (-10, -5), (-math.inf, math.inf)),
        ],
    )
    def test_ratio_of_two_intervals(
        self, total: tuple[float, float], count: tuple[float, float], expected: tuple[float, float]
    ) -> None:
        assert ratio(total, count) == pytest.approx(expected, rel=1e-12)

    @given(
        st.tuples(st.floats(-10, 10), st.floats(-10, 10)).map(sorted),
        st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)).map(sorted),
        st.floats(0, 1),
        st.floats(0, 1),
    )
    def test_ratio_holds_every_quotient_of_the_box(
        self, total: list[float], count: list[float], s: float, c: float
    ) -> None:
        low, high = ratio((total[0], total[1]), (count[0], count[1]))
        value = (total[0] + s * (total[1] - total[0])) / (count[0] + c * (count[1] - count[0]))
        assert low - 1e-9 <= value <= high + 1e-9
        corners = [a / b for a, b in itertools.product(total, count)]
        assert (low, high) == pytest.approx((min(corners), max(corners)), rel=1e-12, abs=1e-12)

    @pytest.mark.parametrize(
        ("rho", "reach", "groups", "expected"),
        [
            (
                0.1,
                1,
                [(9982.926929253796, 22382.183312771773), (733.5750581061126, 16118.723030353407)],
                (0.39948772348837247, 0.4015329300800539),
            ),
            (
                0.1,
                1,
                [(15.765188211211795, 34.03588831851936), (9982.926929253796, 22382.183312771773)],
                (-0.2589346986687564, 0.4598422551149035),
            ),
            (
                0.1,
                200_000,
                [
                    (25463430279.621223, 556231.7230303534),
                    (18379920387.850758, 590325.1833127717),
                ],
                (14636.627916155696, 14649.79306911513),
            ),
            (
                0.1,
                1,
                [(154607.9269292538, 269138.1833127718), (144026.5750581061, 273516.72303035343)],
                (0.04779207887063275, 0.0479726572110577),
            ),
            (10, 10, [(2600, 600), (2100, 400)], (-0.96568272641625, -0.8677198521187455)),
            (10, 10, [(2600, 600)], (4.316421016450684, 4.35028565529145)),
        ],
        ids=["civ-never", "AF-civ", "IPUMS", "German", "toy difference", "toy group"],
    )
    def test_boxes_of_averages(
        self,
        rho: float,
        reach: float,
        groups: list[tuple[float, float]],
        expected: tuple[float, float],
    ) -> None:
        total_distribution = NoiseDistribution("gaussian", reach / math.sqrt(rho))
        count_distribution = NoiseDistribution("gaussian", 1 / math.sqrt(rho))
        ends = [
            mean_in_box(s, c, total_distribution, count_distribution, 0.05 / len(groups))
            for s, c in groups
        ]
        found = combined(ends, (1, -1)[: len(ends)])
        assert found == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(
        ("total", "count", "expected"),
        [
            (2600, 600, (4.3204646961335795, 4.346214065090786)),
            (2100, 400, (5.230003021571882, 5.270029947784744)),
        ],
    )
    def test_fiellers_interval(
        self, total: float, count: float, expected: tuple[float, float]
    ) -> None:
        total_distribution, count_distribution = (
            NoiseDistribution("gaussian", x) for x in (math.sqrt(10), math.sqrt(0.1))
        )
        found = bounded_mean(total, count, total_distribution, count_distribution, 10.0, 0.025)
        assert found == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(
        ("total", "count", "expected"),
        [
            (2600, 600, (4.327373511994982, 4.3392912939705)),
            (2100, 400, (5.241129780817001, 5.258871789152361)),
        ],
    )
    def test_fiellers_interval_of_a_centred_sum(
        self, total: float, count: float, expected: tuple[float, float]
    ) -> None:
        total_distribution, count_distribution = (
            NoiseDistribution("gaussian", x) for x in (math.sqrt(2.5), math.sqrt(0.1))
        )
        low, high = bounded_mean(
            total - 5 * count, count, total_distribution, count_distribution, 5.0, 0.025
        )
        assert (5 + low, 5 + high) == pytest.approx(expected, rel=1e-9)

    def test_the_largest_numbers_have_an_interval(self) -> None:
        distributions = NoiseDistribution("gaussian", 1e151), NoiseDistribution("gaussian", 2.0)
        low, high = mean_around_zero(1e160, 100.0, *distributions, 0.05)
        assert low < 1e158 < high

    def test_margins_of_error_of_counts(self) -> None:
        distribution = NoiseDistribution("gaussian", math.sqrt(5))
        low, high = around(100.0, distribution, 0.05)
        assert (high - low) / 2 == pytest.approx(4.38261270288, rel=1e-9)
        assert (high + low) / 2 == pytest.approx(100)
        assert margin_of_error(distribution, 0.05, 20, planned=True) == pytest.approx(
            6.198, abs=1e-3
        )
        assert margin_of_error(distribution, 0.05, 20) == pytest.approx(11.21, abs=5e-3)


class TestMeanInterval:
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("count", [-50.0, 0.0, 1.0, 5.0, 5.9])
    def test_a_count_within_its_own_noise_of_zero_gives_the_bounds(
        self, family: str, count: float
    ) -> None:
        distributions = NoiseDistribution(family, 2.0), NoiseDistribution(family, 3.1)  # type: ignore[arg-type]
        assert bounded_mean(3.0, count, *distributions, 7.0, 0.05) == (-7.0, 7.0)

    @given(
        st.floats(-1e4, 1e4),
        st.floats(-100, 1e4),
        st.floats(0.01, 50),
        st.floats(0.01, 50),
        st.floats(1e-6, 0.5),
        st.sampled_from(FAMILIES),
    )
    def test_lies_within_the_bounds(
        self, total: float, count: float, a: float, b: float, alpha: float, family: str
    ) -> None:
        distributions = NoiseDistribution(family, a), NoiseDistribution(family, b)  # type: ignore[arg-type]
        low, high = bounded_mean(total, count, *distributions, 5.0, alpha)
        assert -5.0 <= low < high <= 5.0

    @given(
        st.floats(-900, 900),
        st.floats(200, 1e4),
        st.floats(0.1, 20),
        st.floats(0.1, 20),
        st.sampled_from(FAMILIES),
    )
    def test_mirrors_with_the_sign_of_the_sum(
        self, total: float, count: float, a: float, b: float, family: str
    ) -> None:
        distributions = NoiseDistribution(family, a), NoiseDistribution(family, b)  # type: ignore[arg-type]
        low, high = bounded_mean(total, count, *distributions, 5.0, 0.05)
        mirrored = bounded_mean(-total, count, *distributions, 5.0, 0.05)
        assert mirrored == pytest.approx((-high, -low), rel=1e-6, abs=1e-9)
        assert low - 1e-9 <= total / count <= high + 1e-9

    @pytest.mark.parametrize("family", FAMILIES)
    def test_its_ends_are_where_the_noise_quantile_is_reached(self, family: str) -> None:
        from dpnb.privacy.calibrate import sum_quantile

        total_distribution, count_distribution = (
            NoiseDistribution(family, 3.0),
            NoiseDistribution(family, 2.0),
        )  # type: ignore[arg-type]
        for total, count in ((0.0, 40.0), (55.0, 60.0), (-20.0, 30.0)):
            for end in bounded_mean(total, count, total_distribution, count_distribution, 5.0, 0.1):
                spread = NoiseDistribution(
                    count_distribution.family, count_distribution.scale * abs(end)
                )
                assert abs(total - end * count) == pytest.approx(
                    sum_quantile(total_distribution, spread, 0.1), rel=1e-8
                )


class TestRangeQuantile:
    @pytest.mark.parametrize("groups", [2, 3, 5, 20, 50])
    @pytest.mark.parametrize("alpha", [0.2, 0.05, 0.01])
    def test_is_the_studentised_range_with_infinite_degrees_of_freedom(
        self, groups: int, alpha: float
    ) -> None:
        tail = stats.studentized_range.sf(range_quantile(alpha, groups), groups, np.inf)
        assert tail == pytest.approx(alpha, rel=1e-5)

    @pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-3, 1e-9, 1e-14])
    def test_of_two_groups_is_the_quantile_of_a_difference(self, alpha: float) -> None:
        expected = math.sqrt(2) * NoiseDistribution("gaussian", 1.0).quantile(alpha)
        assert range_quantile(alpha, 2) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("groups", [3, 20, 500, 10_000])
    @pytest.mark.parametrize("alpha", [0.05, 1e-6, 1e-12])
    def test_lies_between_one_pair_and_all_pairs(self, groups: int, alpha: float) -> None:
        def pair(a: float) -> float:
            return math.sqrt(2) * NoiseDistribution("gaussian", 1.0).quantile(a)

        pairs = groups * (groups - 1) / 2
        assert pair(alpha) < range_quantile(alpha, groups) <= pair(alpha / pairs)

    def test_a_narrower_promise_for_one_pair_than_for_all(self) -> None:
        for family, groups in itertools.product(FAMILIES, (3, 20)):
            distribution = NoiseDistribution(family, 2.0)  # type: ignore[arg-type]
            planned, picked = (
                margin_of_error(distribution, 0.05, groups, planned=p) for p in (True, False)
            )
            assert planned < picked
        for family in FAMILIES:
            distribution = NoiseDistribution(family, 2.0)  # type: ignore[arg-type]
            assert margin_of_error(distribution, 0.05, 2) == pytest.approx(
                margin_of_error(distribution, 0.05, 2, planned=True)
            )


INFINITE = (-math.inf, math.inf)


FLOATS = st.floats(-1e200, 1e200)


class TestRounding:
    @given(FLOATS, FLOATS, FLOATS)
    def test_a_moved_interval_holds_the_exact_one(self, one: float, two: float, by: float) -> None:
        low, high = sorted((one, two))
        found = shifted((low, high), by)
        exact = Fraction(low) + Fraction(by), Fraction(high) + Fraction(by)
        assert Fraction(found[0]) <= exact[0]
        assert Fraction(found[1]) >= exact[1]
        # by one step at most, and not at all where nothing was rounded off
        assert found[0] in (low + by, math.nextafter(low + by, -math.inf))
        assert found[1] in (high + by, math.nextafter(high + by, math.inf))
        assert (found[0] == low + by) is (Fraction(low + by) <= exact[0])

    @given(st.lists(st.tuples(FLOATS, FLOATS, st.fractions(-9, 9)), min_size=1, max_size=4))
    def test_a_weighted_sum_holds_the_exact_one(
        self, terms: list[tuple[float, float, Fraction]]
    ) -> None:
        ends = [(min(one, two), max(one, two)) for one, two, _ in terms]
        weights = [weight for _, _, weight in terms]
        low, high = combine(ends, weights, Fraction(1, 3))
        corners = [
            Fraction(1, 3) + sum(w * Fraction(at) for w, at in zip(weights, place, strict=True))
            for place in itertools.product(*ends)
        ]
        assert Fraction(low) <= min(corners) <= max(corners) <= Fraction(high)

    @pytest.mark.parametrize("low", [4 * 10**15, 2**53 - 100, 1_700_000_000_000_000])
    def test_means_far_from_0(self, low: int) -> None:
        """Where neighbouring floats lie farther apart than the interval is wide."""
        groups, rows = 10, 60
        values = [low + i % 3 for i in range(rows)]
        exact = Fraction(sum(values), rows)
        frame = pd.DataFrame({"g": np.repeat(range(groups), rows), "x": values * groups})
        schema = Schema({"g": Integer(0, 9), "x": Integer(low, low + 100)}, complete=["g", "x"])
        wanted = {"rho": 10_000, "confidence": 0.999999}
        with Session(Table("t", frame, schema), budget=Budget(rho=10_000)) as session:
            (means,) = session.query("SELECT g, AVG(x) AS m FROM t GROUP BY g", **wanted).estimates
            for g, ends in enumerate(zip(means.low, means.high, strict=True)):
                sql = f"SELECT AVG(x) AS m FROM t WHERE g = {g}"
                told = session.infer(sql, confidence=0.999999)
                for one, other in (ends, (told.low, told.high)):
                    assert Fraction(one) <= exact <= Fraction(other)
                    assert other - one < 4


class TestCombinations:
    def test_hold_every_sum_of_the_box(self) -> None:
        ends = [(1.0, 2.0), (-3.0, 5.0), (0.0, 1.0)]
        assert combined(ends, (1, -1, 0.5), 10) == (6.0, 15.5)
        assert combined(ends, (-2, 2, 1)) == (-10.0, 9.0)

    @pytest.mark.parametrize(
        ("ends", "expected"),
        [
            ([INFINITE, (1.0, 2.0)], INFINITE),
            ([INFINITE, INFINITE], INFINITE),
            ([(3.0, math.inf), (1.0, 2.0)], (1.0, math.inf)),
            ([(3.0, math.inf), (1.0, math.inf)], INFINITE),
            ([(-1.7e308, 1.7e308), (-1.7e308, 1.7e308)], INFINITE),
        ],
    )
    def test_unbounded_ends_stay_unbounded(self, ends: list[Pair], expected: Pair) -> None:
        assert combined(ends, (1, -1)) == expected

    def test_no_number_is_too_large(self) -> None:
        assert combined([(1e300, 2e300)], (1e9,)) == INFINITE
        assert combined([(1e300, 2e300), (1e300, 2e300)], (1e9, -1e9)) == INFINITE

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("weight", [0.25, 3, 1e9])
    def test_a_weight_scales_the_interval_of_a_pair(self, family: str, weight: float) -> None:
        distribution = NoiseDistribution(family, 2.0)  # type: ignore[arg-type]
        for planned in (True, False):
            one = margin_of_error(distribution, 0.05, 7, planned=planned)
            scaled = margin_of_error(distribution, 0.05, 7, weight, -weight, planned=planned)
            assert scaled == pytest.approx(weight * one, rel=1e-9)

    @pytest.mark.parametrize("family", FAMILIES)
    def test_decimal_weights_that_cancel_are_a_contrast(self, family: str) -> None:
        distribution = NoiseDistribution(family, 2.0)  # type: ignore[arg-type]
        assert 0.1 + 0.2 - 0.3 != 0
        found = margin_of_error(distribution, 0.05, 7, 0.1, 0.2, -0.3)
        assert found == pytest.approx(0.3 * margin_of_error(distribution, 0.05, 7), rel=1e-12)
        assert margin_of_error(distribution, 0.05, 7, 0.1, 0.2, -0.300001) > found * 1.01

    @pytest.mark.parametrize("family", FAMILIES)
    def test_one_group_has_its_own_interval(self, family: str) -> None:
        distribution = NoiseDistribution(family, 2.0)  # type: ignore[arg-type]
        for planned, alpha in ((True, 0.05), (False, 0.05 / 7)):
            found = margin_of_error(distribution, 0.05, 7, -3, planned=planned)
            assert found == pytest.approx(3 * distribution.quantile(alpha), rel=1e-9)

    @pytest.mark.parametrize("groups", [2, 3, 10])
    def test_a_pair_that_was_picked_has_the_range_of_all_groups(self, groups: int) -> None:
        half = margin_of_error(NoiseDistribution("gaussian", 3.0), 0.05, groups)
        tail = stats.studentized_range.sf(half / 3, groups, np.inf)
        assert tail == pytest.approx(0.05, rel=1e-6)

    def test_two_laplace_noises_are_exact_and_more_are_bounded(self) -> None:
        from dpnb.privacy.calibrate import sum_quantile

        distribution = NoiseDistribution("laplace", 2.0)
        two = margin_of_error(distribution, 0.05, 9, 1, -3, planned=True)
        assert two == pytest.approx(
            sum_quantile(distribution, NoiseDistribution("laplace", 6.0), 0.05)
        )
        union = 2.0 * 3 * math.log(3 / 0.05)
        three = margin_of_error(distribution, 0.05, 9, 1, 1, 1, planned=True)
        assert two / 10**0.5 * 3**0.5 < three < union
        tiny = margin_of_error(distribution, 0.05, 9, 1, 1, 1e-9, planned=True)
        assert (
            margin_of_error(distribution, 0.05, 9, 1, 1, planned=True)
            < tiny
            < 2.0 * 2 * math.log(3 / 0.05)
        )


@pytest.mark.parametrize("family", FAMILIES)
class TestCoverage:
    COUNT = 20_000

    @pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
    def test_one_value_exactly(
        self, family: str, confidence: float, equals: Test, size: Callable[[int], int]
    ) -> None:
        distribution = NoiseDistribution(family, 3.0)  # type: ignore[arg-type]
        errors = draw(np.random.default_rng(1), distribution, size(self.COUNT))

        def hits(scale: float) -> np.ndarray:
            ends = [around(error * scale, distribution, 1 - confidence) for error in errors]
            return np.array([low <= 0 <= high for low, high in ends])

        assert equals(hits(1.0), confidence)
        for wrong in WRONG:
            assert not equals(hits(wrong), confidence)

    @pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
    def test_the_difference_of_a_planned_pair_exactly(
        self, family: str, confidence: float, equals: Test, size: Callable[[int], int]
    ) -> None:
        distribution = NoiseDistribution(family, 3.0)  # type: ignore[arg-type]
        errors = draw(np.random.default_rng(2), distribution, (2, size(self.COUNT)))
        difference = abs(errors[0] - errors[1])
        half = margin_of_error(distribution, 1 - confidence, 9, planned=True)
        assert equals(difference <= half, confidence)
        for wrong in WRONG:
            assert not equals(difference * wrong <= half, confidence)

    def test_the_pair_that_looks_most_different(
        self, family: str, equals: Test, reaches: Test, size: Callable[[int], int]
    ) -> None:
        # 20 groups, all equal in truth; the analyst picks the largest against the smallest
        distribution, groups = NoiseDistribution(family, 3.0), 20  # type: ignore[arg-type]
        shown = draw(np.random.default_rng(3), distribution, (size(self.COUNT), groups))
        spread = shown.max(axis=1) - shown.min(axis=1)
        half = margin_of_error(distribution, 0.05, groups)
        assert reaches(spread <= half, 0.95)
        naive = np.mean(spread <= margin_of_error(distribution, 0.05, groups, planned=True))
        if family == "gaussian":
            assert equals(spread <= half, 0.95)
            for wrong in WRONG:
                assert not equals(spread * wrong <= half, 0.95)
            assert naive == pytest.approx(0.08, abs=0.015)
        assert naive < 0.25

    @pytest.mark.parametrize("weights", [(1, -10), (1, 1, -2), (0.5, 0.5, 0.5), (2,)])
    @pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
    def test_planned_weights(
        self,
        family: str,
        weights: tuple[float, ...],
        confidence: float,
        equals: Test,
        reaches: Test,
        size: Callable[[int], int],
    ) -> None:
        distribution = NoiseDistribution(family, 3.0)  # type: ignore[arg-type]
        errors = draw(np.random.default_rng(5), distribution, (size(self.COUNT), len(weights)))
        missed_by = abs(errors @ np.array(weights))
        half = margin_of_error(distribution, 1 - confidence, 9, *weights, planned=True)
        if family == "gaussian" or len(weights) <= 2:
            assert equals(missed_by <= half, confidence)
            for wrong in WRONG:
                assert not equals(missed_by * wrong <= half, confidence)
        else:
            assert reaches(missed_by <= half, confidence)
            assert not reaches(missed_by * 2.6 <= half, confidence)

    def test_all_contrasts_together(
        self, family: str, equals: Test, reaches: Test, size: Callable[[int], int]
    ) -> None:
        # ten groups; the analyst picks, among several kinds of contrasts, the one that is most wrong
        distribution, groups = NoiseDistribution(family, 3.0), 10  # type: ignore[arg-type]
        shown = np.sort(
            draw(np.random.default_rng(6), distribution, (size(self.COUNT), groups)), axis=1
        )
        kinds = [(1, -1), ("0.5", "0.5", -1), (3, -1, -2), (1, 1, -1, -1)]
        share = np.zeros(len(shown))
        for weights in kinds:
            numbers = np.array(weights, dtype=float)
            above = (numbers > 0).sum()
            low, high = shown[:, : len(numbers) - above], shown[:, ::-1][:, :above]
            worst = high @ -np.sort(-numbers[:above]) + low @ np.sort(numbers[above:])
            half = margin_of_error(distribution, 0.05, groups, *weights)
            share = np.maximum(share, worst / half)
        assert reaches(share <= 1, 0.95)
        if family == "gaussian":
            assert equals(share <= 1, 0.95)
            for wrong in WRONG:
                assert not equals(share * wrong <= 1, 0.95)

    def test_all_other_weights_together(
        self, family: str, reaches: Test, size: Callable[[int], int]
    ) -> None:
        # the most wrong group against a constant, and the most wrong sums of two and three
        distribution, groups = NoiseDistribution(family, 3.0), 10  # type: ignore[arg-type]
        shown = draw(np.random.default_rng(7), distribution, (size(self.COUNT), groups))
        sizes = -np.sort(-abs(shown), axis=1)
        share = np.maximum.reduce(
            [
                sizes[:, :number].sum(axis=1)
                / margin_of_error(distribution, 0.05, groups, *[1] * number)
                for number in (1, 2, 3)
            ]
        )
        assert reaches(share <= 1, 0.95)
        assert not reaches(share * 1.15 <= 1, 0.95)
        unadjusted = margin_of_error(distribution, 0.05, groups, 1, planned=True)
        assert np.mean(sizes[:, 0] <= unadjusted) == pytest.approx(0.95**groups, abs=0.03)


MEANS = [(10, 10), (20, 20), (37, 22_379), (100, 100)]


def tail(one: NoiseDistribution, other: NoiseDistribution, x: float) -> float:
    """How often the sum of two noises is farther than x from 0."""
    a, b = one.scale, other.scale
    if one.family == "gaussian":
        return float(2 * stats.norm.sf(x / math.hypot(a, b)))
    if a == b:
        return (1 + x / (2 * a)) * math.exp(-x / a)
    far = (scale**2 * math.exp(-x / scale) if scale else 0.0 for scale in (a, b))
    return (next(far) - next(far)) / (a**2 - b**2)


class TestMeanCoverage:
    """Averages of values in [0, 1]: true means .3 and .8, rho .1 shared equally, as released.

    An interval holds the true mean m exactly as often as it should where it does so, whatever the
    noise of C, as long as the noise of S - m C is within the ends it exceeds with probability alpha:
    that is looked at there, and needs no sample.
    """

    def distributions(self, family: str) -> tuple[NoiseDistribution, NoiseDistribution]:
        if family == "gaussian":
            scale = 1 / math.sqrt(0.1)
            return NoiseDistribution("gaussian", scale / 2), NoiseDistribution("gaussian", scale)
        return NoiseDistribution("laplace", 1.0), NoiseDistribution("laplace", 2.0)

    def ends(
        self, family: str, rows: int, mean: float, alpha: float, wider: float = 1.0
    ) -> list[Pair]:
        """Intervals where noise that is ``wider`` than it says reaches its quantile, either way."""
        total_distribution, count_distribution = self.distributions(family)
        centred = mean - 0.5
        share = NoiseDistribution(
            count_distribution.family, count_distribution.scale * abs(centred)
        )
        far = wider * optimize.brentq(
            lambda x: tail(total_distribution, share, x) - alpha,
            0,
            99 * total_distribution.scale,
            xtol=1e-14,
        )
        found = []
        for noise in (-1.5, -0.4, 0.0, 0.6, 2.0):
            count = rows + noise * count_distribution.scale
            for total in (centred * count - far, centred * count + far):
                low, high = bounded_mean(
                    total, count, total_distribution, count_distribution, 0.5, alpha
                )
                found.append((0.5 + low, 0.5 + high))
        return found

    def held(self, *given: Any) -> list[bool]:
        return [low <= given[2] <= high for low, high in self.ends(*given)]

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("rows", [0, 1, 10, 20, 100, 22_379])
    @pytest.mark.parametrize("mean", [0.0, 0.3, 1.0])
    def test_one_group(self, family: str, rows: int, mean: float) -> None:
        for within in (0.1, 0.6, 1 - 1e-6):
            assert all(self.held(family, rows, mean, 0.05, within))
        if rows >= 20 and mean == 0.3:
            assert not any(self.held(family, rows, mean, 0.05, 1 + 1e-6))

    @pytest.mark.parametrize("family", FAMILIES)
    def test_noise_that_is_wider_or_narrower_than_it_says_is_noticed(self, family: str) -> None:
        assert all(self.held(family, 100, 0.3, 0.2, 0.999))
        assert not any(self.held(family, 100, 0.3, 0.2, 1.001))

    def test_as_often_as_is_looked_at(self, equals: Test, size: Callable[[int], int]) -> None:
        """A sample of released values; must find noise that is 30 % off."""
        distributions, rng = self.distributions("gaussian"), np.random.default_rng(100)
        count = size(shares(0.8, coverage(0.8, 1 / 1.3)))

        def hits(wrong: float) -> np.ndarray:
            totals = 100 * (0.3 - 0.5) + draw(rng, distributions[0], count, wrong)
            counts = 100 + draw(rng, distributions[1], count, wrong)
            ends = [
                bounded_mean(s, c, *distributions, 0.5, 0.2)
                for s, c in zip(totals, counts, strict=True)
            ]
            return np.array([low <= 0.3 - 0.5 <= high for low, high in ends])

        assert equals(hits(1.0), 0.8)
        for wrong in (0.7, 1.3):
            assert not equals(hits(wrong), 0.8)

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("rows", MEANS)
    def test_the_difference_of_two_groups(self, family: str, rows: tuple[int, int]) -> None:
        # the difference is covered whenever both are; each at half the failure probability
        one, other = (
            self.ends(family, n, mean, 0.025, 1 - 1e-6)
            for n, mean in zip(rows, (0.3, 0.8), strict=True)
        )
        for both in itertools.product(one, other):
            low, high = combined(both, (1, -1))
            assert low <= -0.5 <= high

    @pytest.mark.parametrize("rows", MEANS)
    def test_the_paper_box_covers_nearly_always_and_is_wider(
        self, rows: tuple[int, int], reaches: Test, size: Callable[[int], int]
    ) -> None:
        count, scale = size(6_000), 1 / math.sqrt(0.1)
        distributions = NoiseDistribution("gaussian", scale), NoiseDistribution("gaussian", scale)
        rng = np.random.default_rng(7)
        covered, box_width, tight_width = [], [], []
        for n, mean in zip(rows, (0.3, 0.8), strict=True):
            totals = n * mean + draw(rng, distributions[0], count)
            counts = n + draw(rng, distributions[1], count)
            boxes = [
                mean_in_box(s, c, *distributions, 0.05) for s, c in zip(totals, counts, strict=True)
            ]
            covered.append(np.array([low <= mean <= high for low, high in boxes]))
            box_width.append(np.median([high - low for low, high in boxes]))
            tight = [
                bounded_mean(
                    s - c / 2, c, self.distributions("gaussian")[0], distributions[1], 0.5, 0.05
                )
                for s, c in zip(totals, counts, strict=True)
            ]
            tight_width.append(np.median([high - low for low, high in tight]))
        for hits in covered:
            assert reaches(hits, 0.95)
            assert hits.mean() > 0.96
        assert all(t < 0.75 * b for t, b in zip(tight_width, box_width, strict=True))
