"""What follows from the different contributions of a table equals what follows from its rows.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from dpnb.errors import EngineError, RequestError
from dpnb.privacy.definition import PURE
from dpnb.risk.indicator import FORMS

pytestmark = pytest.mark.fast

RNG = np.random.default_rng(5)
SIZES = np.r_[0, 1_000, RNG.integers(1, 1_000, 40)]
COUNTS = np.r_[0, 1, RNG.integers(1, 9, 40)] + 1


class TestLosses:
    def test_laplace_losses_grow_with_the_size_gaussian_ones_with_its_square(self, adding):
        assert adding([0, 200, 500, 1_000]).losses(0.5) == pytest.approx([0, 0.1, 0.25, 0.5])
        found = adding([0, 200, 500, 1_000], pure=False)
        assert found.losses(0.5) == pytest.approx([0, 0.02, 0.125, 0.5])

    def test_the_sign_of_a_contribution_does_not_matter(self, adding):
        found = adding([-300, 300])
        assert found.r.tolist() == [0.3, 0.3]

    def test_whitened_sum_over_several_vectors(self, adding):
        """Oracle 7: v = (3, -1, 0, 2) under noise of (1, 2, 0.5, 4)."""
        sensitivities, sigma = np.array([3, 1, 1, 2]), np.array([1, 2, 0.5, 4])
        levels = sensitivities**2 / (2 * sigma**2)
        found = adding(
            [[3, -1, 0, 2]],
            sensitivities=sensitivities.tolist(),
            shares=(levels / levels.sum()).tolist(),
            pure=False,
        )
        assert found.losses(float(levels.sum())) == pytest.approx([4.75])
        assert found.relative(float(levels.sum())) == pytest.approx([math.sqrt(10.5)])

    def test_laplace_losses_of_several_vectors_add(self, adding):
        found = adding([[50, 2]], sensitivities=[100, 4], shares=[0.7, 0.3])
        assert found.losses(2.0) == pytest.approx([2 * (0.7 * 0.5 + 0.3 * 0.5)])

    @pytest.mark.parametrize(PURE, [True, False])
    def test_nobody_loses_more_than_the_level(self, adding, pure):
        rng = np.random.default_rng(1)
        numbers = np.c_[rng.integers(-9, 10, 200), rng.integers(-3, 4, 200)]
        found = adding(numbers, sensitivities=[9, 3], shares=[0.61, 0.39], pure=pure)
        assert found.losses(0.3).max() <= 0.3 * (1 + 1e-12)
        assert found.r.max() <= 1 + 1e-12

    def test_without_noise_everybody_who_adds_anything_is_lost(self, adding):
        assert adding([0, 1]).losses(math.inf).tolist() == [0, math.inf]

    @pytest.mark.parametrize(PURE, [True, False])
    def test_a_row_that_adds_more_than_the_sensitivity_is_an_error_of_ours(self, adding, pure):
        """Oracle 20: the noise would be too small, as with Delta = (U - L)/n for an average."""
        with pytest.raises(EngineError, match="more than its sensitivity"):
            adding([13_450], sensitivities=[3_009], pure=pure)
        with pytest.raises(EngineError):
            adding([[1, -1_001]], sensitivities=[1, 1_000], pure=pure)
        adding([-1_000], pure=pure)


class TestGroupedEqualsExpanded:
    """Oracle 21: multiplicities say the same as one line for each row."""

    @pytest.fixture(params=[(pure, form) for pure in (True, False) for form in FORMS])
    def pair(self, request, adding):
        pure, form = request.param
        cells = np.arange(len(SIZES)) % 3 - 1
        return (
            adding(SIZES, counts=COUNTS, cells=cells, pure=pure, form=form),
            adding(np.repeat(SIZES, COUNTS), cells=np.repeat(cells, COUNTS), pure=pure, form=form),
        )

    def test_totals_and_variances(self, pair):
        grouped, full = pair
        assert grouped.total == full.total == COUNTS.sum()
        assert grouped.variance() == pytest.approx(full.variance(), rel=1e-12)
        powers = full.r if full.pure else full.r**2
        assert full.variance() == pytest.approx(np.var(powers), rel=1e-12)

    @pytest.mark.parametrize("p", [0, 0.1, 1 / 3, 0.5, 0.75, 0.99, 1])
    def test_quantiles(self, pair, p):
        grouped, full = pair
        expected = np.quantile(full.r, p, method="inverted_cdf")
        assert grouped.quantile(grouped.r, p, 0.0) == full.quantile(full.r, p, 0.0) == expected

    def test_quantiles_of_a_cell(self, pair):
        grouped, full = pair
        for cell in (-1, 0, 1):
            expected = np.quantile(full.r[full.cells == cell], 0.5, method="inverted_cdf")
            assert grouped.quantile(grouped.r, 0.5, 0.0, cell) == expected
        assert grouped.quantile(grouped.r, 0.5, 7.0, 5) == 7

    def test_indicators(self, pair):
        grouped, full = pair
        found = np.sort(np.repeat(grouped.relative(0.4), grouped.counts))
        assert found == pytest.approx(np.sort(full.relative(0.4)), rel=1e-12)


def test_a_quantile_is_a_value_that_occurs_not_one_between(adding):
    found = adding([0, 500, 1_000], counts=[1, 1, 2])
    assert [found.quantile(found.r, p, 0.0) for p in (0.25, 0.26, 0.5, 0.51, 1)] == [
        0, 0.5, 0.5, 1, 1,
    ]  # fmt: skip


def test_seven_hundredths_of_a_hundred_rows_are_seven(adding):
    """Though 0.07 * 100 is a little above 7 for floats."""
    found = adding(np.arange(100) * 10)
    assert [found.quantile(found.r, p / 100, 0.0) for p in range(1, 101)] == [
        i / 100 for i in range(100)
    ]


class TestRounded:
    """Beyond 4,096 different contributions r is known in steps only."""

    def test_a_score_of_k_steps_lies_above_k_minus_1(self, adding):
        found = adding([0, 1, 7, 4_096], steps=4_096)
        assert found.r == pytest.approx([0, 1 / 4_096, 7 / 4_096, 1])
        assert found.r_low == pytest.approx([0, 0, 6 / 4_096, 4_095 / 4_096])

    @pytest.mark.parametrize(PURE, [True, False])
    def test_losses_err_upward_and_the_lowest_downward(self, adding, pure):
        found = adding([0, 1, 7, 4_096], steps=4_096, pure=pure)
        high, low = found.losses(2.0), found.losses(2.0, lowest=True)
        power = 1 if pure else 2
        assert high == pytest.approx(2 * found.r**power)
        assert low == pytest.approx(2 * found.r_low**power)

    def test_exact_contributions_have_no_other_lower_end(self, adding):
        found = adding([3, 7])
        assert found.r_low.tolist() == found.r.tolist()
        assert found.losses(1.0, lowest=True).tolist() == found.losses(1.0).tolist()

    @pytest.mark.parametrize("steps", [0, 4_096])
    def test_what_was_told_by_other_releases_may_be_nothing(self, adding, steps):
        """The loss by an explanation is known as an upper bound: it raises no lower end."""
        found = adding([0, 500], steps=steps, constant=0.3)
        assert found.losses(1.0).min() == pytest.approx(0.3)
        assert found.losses(1.0, lowest=True).min() == 0

    @pytest.mark.parametrize(PURE, [True, False])
    def test_the_exact_form_of_one_vector_needs_no_shares(self, adding, pure):
        fine = adding([0, 5, 4_096], sensitivities=[4_096], pure=pure, form="exact")
        rounded = adding([0, 5, 4_096], steps=4_096, pure=pure, form="exact")
        assert rounded.relative(1.5) == pytest.approx(fine.relative(1.5))


class TestEmpty:
    @pytest.mark.parametrize(PURE, [True, False])
    @pytest.mark.parametrize("form", FORMS)
    def test_a_table_without_rows_has_no_indicators(self, adding, pure, form):
        found = adding([], pure=pure, form=form)
        assert found.total == 0
        assert found.variance() == 0
        assert len(found.losses(1.0)) == len(found.relative(1.0)) == 0
        assert found.quantile(found.r, 0.5, 3.0) == 3


class TestSecrecy:
    def test_they_show_nothing_and_cannot_be_pickled(self, adding):
        found = adding([48_611], counts=[271_828], sensitivities=[10**6])
        for text in (repr(found), str(found), f"{found}", f"{[found]}"):
            assert not any(secret in text for secret in ("48611", "271828", "0.048"))
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(found)

    def test_after_closing_nothing_is_left(self, adding):
        found = adding([48_611], sensitivities=[10**6])
        found.close()
        for use in (
            lambda: found.losses(1.0), lambda: found.relative(1.0), lambda: found.r,
            lambda: found.total, lambda: found.cumulative, lambda: found.variance(),
        ):  # fmt: skip
            with pytest.raises(RequestError, match="the profile is closed"):
                use()
        found.close()
        assert repr(found) == "Rows(private)"
