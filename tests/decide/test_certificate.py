"""What intervals prove of a result: docs/methods/probe.md, theorems 11 and 12."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpnb.decide.certificate import (
    chances,
    margin_of_error,
    past_margin_of_error,
    settle,
    shares,
    verdicts,
)
from dpnb.decide.conditions import Atom, Condition, Node, condition_of
from dpnb.privacy.definition import BASIC, GDP, PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.noise import Noise
from dpnb.privacy.path import gaussian_version, laplace_chain

Reaches = Callable[[object, float], bool]
Formula = Callable[[str], Condition]
Seeded = Callable[[int], Noise]


@pytest.fixture(scope="module")
def seldom(reaches: Reaches) -> Reaches:
    """Whether a share of failures may well be ``level`` or less."""
    return lambda failures, level: reaches(~np.asarray(failures, dtype=bool), 1 - level)


class TestHalfWidth:
    def test_figures_of_the_specification(self) -> None:
        # n = 1 aggregate, k = 60 groups, G steps, failure probability 0.05
        found = margin_of_error(Fraction(4, 10), 1, PURE, 0.05 / 60)
        assert found == pytest.approx(17.725192089440228, rel=1e-9)
        first = Fraction(0.040943445622221006)
        widths = [margin_of_error(first * 2**g, 1, PURE, 0.05 / (60 * 6)) for g in range(6)]
        assert widths[0] == pytest.approx(216.92938075987814, rel=1e-9)
        assert widths == pytest.approx([widths[0] / 2**g for g in range(6)], rel=1e-12)

    @pytest.mark.parametrize("privacy", [ZCDP, GDP, BASIC])
    def test_gaussian_intervals_fail_on_both_sides_together(
        self, privacy: PrivacyDefinition
    ) -> None:
        for alpha in (0.5, 0.05, 1e-6):
            width = margin_of_error(Fraction(1, 8), 3.0, privacy, alpha)
            # sigma = 3 / sqrt(2 / 8) = 6
            assert 2 * stats.norm.sf(width / 6) == pytest.approx(alpha, rel=1e-9)


class TestSettle:
    def test_thresholds_count_as_they_are_written(
        self, unrelated: Callable[[int], list[Atom]]
    ) -> None:
        (atom,) = unrelated(1)
        low, high = np.array([[0.0, -2.0, 0.5, -3.0, -1.0]]), np.array([[2.0, 0.0, 3.0, -0.5, 1.0]])
        limits = np.zeros((1, 5))
        for sign, strict, yes, no in [
            (1, True, [0, 0, 1, 0, 0], [0, 1, 0, 1, 0]),
            (1, False, [1, 0, 1, 0, 0], [0, 0, 0, 1, 0]),
            (-1, True, [0, 0, 0, 1, 0], [1, 0, 1, 0, 0]),
            (-1, False, [0, 1, 0, 1, 0], [0, 0, 1, 0, 0]),
        ]:
            one = condition_of([replace(atom, sign=sign, strict=strict)], 0)  # type: ignore[arg-type]
            sure, possible = settle(one, [0], limits, low, high)
            assert sure.astype(int).tolist() == [yes]
            assert (~possible).astype(int).tolist() == [no]

    @settings(max_examples=60)
    @given(data=st.data())
    def test_a_verdict_is_what_all_values_within_the_intervals_agree_on(
        self, unrelated: Callable[[int], list[Atom]], data: st.DataObject
    ) -> None:
        # each of three aggregates is read by one condition, so Kleene's logic leaves nothing out
        atoms = [
            replace(
                atom,
                sign=data.draw(st.sampled_from([1, -1])),
                strict=data.draw(st.booleans()),
            )
            for atom in unrelated(3)
        ]
        words = data.draw(st.tuples(*[st.sampled_from(["AND", "OR"])] * 2))
        condition = condition_of(atoms, Node(words[0], (0, Node(words[1], (1, 2)))))
        ends = st.lists(st.integers(-2, 2), min_size=2, max_size=2).map(sorted)
        box = [data.draw(ends) for _ in range(3)]
        lines = data.draw(st.permutations(range(3)))
        limits = np.array([[data.draw(st.integers(-2, 2))] for _ in range(3)], dtype=float)
        low = np.array([[one[0]] for one in box], dtype=float)
        high = np.array([[one[1]] for one in box], dtype=float)
        (found,) = verdicts(condition, lines, limits, low, high)
        values = np.array(list(itertools.product(*[np.arange(a, b + 0.5, 0.5) for a, b in box]))).T
        gaps = np.array([atom.sign for atom in condition.atoms])[:, None] * (values[lines] - limits)
        strict = np.array([atom.strict for atom in condition.atoms])[:, None]
        truth = condition.value((gaps > 0) | (~strict & (gaps == 0)))
        assert found == (1 if truth.all() else -1 if not truth.any() else 0)

    def test_conditions_may_share_an_aggregate(self, formula: Formula) -> None:
        condition = formula("a and b")
        turned = replace(condition.atoms[1], sign=-1)
        between = condition_of([condition.atoms[0], turned], condition.tree)
        low, high = np.array([[4.0, 1.0, 12.0, 2.0]]), np.array([[6.0, 2.0, 14.0, 5.0]])
        limits = np.array([[3.0] * 4, [9.0] * 4])
        assert verdicts(between, [0, 0], limits, low, high).tolist() == [1, -1, -1, 0]


class TestShares:
    def test_figures_of_the_specification(self, formula: Formula) -> None:
        noisy = np.array([50.0] * 50 + [91, 95, 98, 99.5, 104, 120, 130, 140, 150, 160])[None, :]
        condition, limits = formula("a"), np.full((1, 60), 100.0)
        width = margin_of_error(Fraction(4, 10), 1, PURE, 0.05 / 60)
        verdict = verdicts(condition, [0], limits, noisy - width, noisy + width)
        assert (verdict == 1).sum() == 5
        assert (verdict == -1).sum() == 50
        assert shares(noisy[0] > 90, verdict) == (pytest.approx(5 / 55), 0.0)

    def test_are_the_largest_rates_that_the_verdicts_leave_open(self) -> None:
        # by brute force: all selections, verdicts and truths of four groups
        truths = np.array(list(itertools.product([False, True], repeat=4)))
        for verdict_ in itertools.product([-1, 0, 1], repeat=4):
            verdict = np.array(verdict_, dtype=np.int8)
            fitting = [
                truth for truth in truths
                if all(truth[verdict == 1]) and not any(truth[verdict == -1])
            ]  # fmt: skip
            for selected in truths:
                false = max(rate(selected, truth) for truth in fitting)
                missed = max(rate(~selected, ~truth) for truth in fitting)
                assert shares(selected, verdict) == (pytest.approx(false), pytest.approx(missed))

    def test_are_nothing_where_nothing_is_in_doubt(self) -> None:
        none = np.zeros(3, dtype=bool)
        assert shares(none, np.array([-1, -1, -1], dtype=np.int8)) == (0.0, 0.0)
        assert shares(~none, np.array([1, 1, 1], dtype=np.int8)) == (0.0, 0.0)
        assert shares(none, np.array([0, 0, 0], dtype=np.int8)) == (0.0, 1.0)
        assert shares(~none, np.array([0, 0, 0], dtype=np.int8)) == (1.0, 0.0)


def rate(selected: np.ndarray, truth: np.ndarray) -> float:
    """The measured share of the false groups that are selected; 0 where none is false."""
    return float(selected[~truth].mean()) if (~truth).any() else 0.0


class TestCoverage:
    RUNS, LIMIT, DELTA = 2000, 100.0, 0.05

    def measured(
        self, condition: Condition, values: np.ndarray, privacy: PrivacyDefinition, wider: float,
        share: float = 0.025,
    ) -> np.ndarray:  # fmt: skip
        """Whether a rate of errors of each run exceeds what is certified."""
        level = Fraction(4, 10)
        rng = np.random.default_rng(11)
        size = (self.RUNS, len(values))
        if privacy == PURE:
            noise = rng.laplace(0, wider / float(level), size)
            u = -math.log(2 * share) / float(level)
        else:
            sigma = 1 / math.sqrt(2 * level)
            noise = rng.normal(0, wider * sigma, size)
            u = stats.norm.isf(share) * sigma
        noisy = (values + noise).reshape(1, -1)
        width = margin_of_error(level, 1, privacy, self.DELTA / len(values))
        limits = np.full(noisy.shape, self.LIMIT)
        verdict = verdicts(condition, [0], limits, noisy - width, noisy + width).reshape(size)
        selected = noisy.reshape(size) > self.LIMIT - u
        truth = values > self.LIMIT
        return np.array(
            [
                rate(chosen, truth) > shares(chosen, own)[0] + 1e-12
                or rate(~chosen, ~truth) > shares(chosen, own)[1] + 1e-12
                for chosen, own in zip(selected, verdict, strict=True)
            ]
        )

    @pytest.mark.parametrize("privacy", [PURE, ZCDP])
    def test_certified_rates_hold_as_often_as_is_said(
        self, formula: Formula, privacy: PrivacyDefinition, seldom: Reaches
    ) -> None:
        # docs/methods/probe.md, error 1: 30 groups just below the threshold, 10 far above, the rest
        # far below
        values = np.array([self.LIMIT - 0.001] * 30 + [1e4] * 10 + [-1e4] * 436)
        assert seldom(self.measured(formula("a"), values, privacy, 1.0), self.DELTA)

    @pytest.mark.parametrize("privacy", [PURE, ZCDP])
    def test_and_noise_that_is_wider_than_was_said_is_noticed(
        self, formula: Formula, privacy: PrivacyDefinition, seldom: Reaches
    ) -> None:
        # half of the groups at the threshold and all of them selected: any failing interval shows
        values = np.array([self.LIMIT - 0.001] * 240 + [-1e4] * 236)
        condition, share = formula("a"), 1e-9
        assert seldom(self.measured(condition, values, privacy, 1.0, share), self.DELTA)
        assert not seldom(self.measured(condition, values, privacy, 1.5, share), self.DELTA)


TINY = 1.01 ** np.arange(300)
DOUBLING = 2.0 ** np.arange(24)
MIXED = np.unique(np.concatenate([1.05 ** np.arange(60), 20 * 3.0 ** np.arange(12)]))
HUGE = 1e3 ** np.arange(6)


class TestPast:
    """An adversary who knows the truth refines until the interval leaves it, at whatever level."""

    ALPHA, COUNT = 0.05, 20_000

    def gaussian(self, levels: np.ndarray) -> np.ndarray:
        """Errors of Gaussian paths in units of the first one's, shape (levels, paths)."""
        rng = np.random.default_rng(5)
        steps = np.diff(levels, prepend=0.0)[:, None]
        walk = np.cumsum(rng.normal(0, 1, (len(levels), self.COUNT)) * np.sqrt(steps), axis=0)
        return np.asarray(walk / levels[:, None])

    @pytest.mark.parametrize("levels", [TINY, DOUBLING, MIXED, HUGE])
    def test_gaussian_paths(self, levels: np.ndarray, seldom: Reaches) -> None:
        first = Fraction(1, 50)
        errors = np.abs(self.gaussian(levels))

        def widths(width: Callable[[Fraction], float]) -> np.ndarray:
            # sensitivity sqrt(2 * first): the first error has a standard deviation of 1
            return np.array([[width(first * Fraction(float(level)))] for level in levels])

        unit = math.sqrt(2 * first)
        sound = widths(lambda held: past_margin_of_error(first, held, 7, unit, ZCDP, self.ALPHA))
        failed = (errors > sound).any(axis=0)
        assert seldom(failed, self.ALPHA)
        # negative control: intervals for one level that was fixed beforehand
        naive = widths(lambda held: margin_of_error(held, unit, ZCDP, self.ALPHA))
        assert not seldom((errors > naive).any(axis=0), self.ALPHA)
        # as wide as needed, not more: two thirds of it fail
        assert not seldom((errors > sound * 0.65).any(axis=0), self.ALPHA)

    def test_merged_paths(self, seldom: Reaches, seeded: Seeded) -> None:
        unit, count, noise = 2**21, 10_000, seeded(3)
        levels = [Fraction(1, 50) * Fraction(3, 2) ** i for i in range(10)]
        path = []
        failed, naive = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        for i, level in enumerate(levels):
            path.append(gaussian_version(path, level, [0] * count, unit, noise))
            errors = np.abs(np.array(path[-1].vector)) / unit
            failed |= errors > past_margin_of_error(levels[0], level, i, 1.0, ZCDP, self.ALPHA)
            naive |= errors > margin_of_error(level, 1.0, ZCDP, self.ALPHA)
        assert seldom(failed, self.ALPHA)
        assert not seldom(naive, self.ALPHA)

    def test_laplace_chains(self, seldom: Reaches, seeded: Seeded) -> None:
        unit, count = 2**21, 10_000
        levels = [Fraction(1, 100) * 2**i for i in range(10)]
        versions = laplace_chain([0] * count, levels, unit, seeded(4))
        errors = np.abs(np.array([version.vector for version in versions])) / unit
        failed, naive = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        for i, (level, own) in enumerate(zip(levels, errors, strict=True)):
            failed |= own > past_margin_of_error(levels[0], level, i, 1.0, PURE, self.ALPHA)
            naive |= own > margin_of_error(level, 1.0, PURE, self.ALPHA)
        assert seldom(failed, self.ALPHA)
        assert not seldom(naive, self.ALPHA)

    def test_the_levels_of_a_chain_share_the_failure_probability(self) -> None:
        first, parts = Fraction(1, 100), []
        for i in range(4000):
            width = past_margin_of_error(first, first * (1 + i), i, 1.0, PURE, 0.05)
            parts.append(math.exp(-width * float(first) * (1 + i)))
        assert sum(parts) == pytest.approx(0.05, rel=3e-4)
        assert sum(parts) < 0.05
        assert parts[0] == pytest.approx(0.05 * 6 / math.pi**2, rel=1e-9)
        assert parts[2] == pytest.approx(parts[0] / 9, rel=1e-9)

    def test_at_the_first_level_intervals_are_about_a_fifth_wider(self) -> None:
        for alpha, least, most in [(1e-3, 1.15, 1.35), (1e-5, 1.1, 1.25), (1e-8, 1.05, 1.2)]:
            level = Fraction(1, 50)
            fixed = margin_of_error(level, 1.0, ZCDP, alpha)
            assert least < past_margin_of_error(level, level, 0, 1.0, ZCDP, alpha) / fixed < most

    def test_gaussian_intervals_by_hand(self) -> None:
        # level / r = 16 * 4: sqrt((1 + 1/64) (ln 65 + 2 ln 20)), sigma = 5 / sqrt(2 * 4 / 50)
        found = past_margin_of_error(Fraction(1, 50), Fraction(4, 50), 3, 5.0, ZCDP, 0.05)
        expected = 12.5 * math.sqrt(65 / 64 * (math.log(65) + 2 * math.log(20)))
        assert found == pytest.approx(expected, rel=1e-12)


class TestChances:
    @pytest.mark.parametrize("privacy", [PURE, ZCDP])
    def test_values_stand_for_the_truth_off_by_their_noise(
        self, formula: Formula, privacy: PrivacyDefinition
    ) -> None:
        either = formula("a or b")
        condition = condition_of(
            [either.atoms[0], replace(either.atoms[1], sign=-1)], Node("AND", (0, 1))
        )
        values = np.array([[9.0, 12.0, 10.0], [3.0, 5.5, -40.0]])
        limits = np.array([[10.0, 10.0, 10.0], [5.0, 5.0, 5.0]])
        each = chances(condition, [0, 1], limits, values, [2.0, 0.5], privacy)
        found = condition.chance(each)
        noise = stats.laplace if privacy == PURE else stats.norm
        first = noise.sf((limits[0] - values[0]) / 2.0)
        second = noise.cdf((limits[1] - values[1]) / 0.5)
        assert found == pytest.approx(first * second, rel=1e-9)
        assert found[2] == pytest.approx(0.5, rel=1e-6)
