"""As many digits as the uncertainty deserves."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnb.display.cards.words import budget_rows, left_text
from dpnb.formats import (
    decimals,
    end_text,
    ends_text,
    figure,
    loss_text,
    part_text,
    percent,
)
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.results import Bill

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("value", "margin_of_error", "shown"),
    [
        (16115.4321, 6.2, "16,115.4"),
        (16115.4321, 62, "16,115"),
        (0.04551, 0.00046, "0.04551"),
        (-0.2, 3, "-0.2"),
        (-0.01, 3, "0.0"),
        (0.0, 100, "0"),
        (-0.4, 100, "0"),
        (1234567.891, 0.001, "1,234,567.8910"),
        (5.0, 0.0, "5"),
        (0.5, 0.0, "0.5"),
        (1234567.25, 0.0, "1,234,567.25"),
        (2.490847204020864e15, 2e12, "2.4908e+15"),
        (3e20, 1e3, "3e+20"),
        (1e-12, 1e-13, "1e-12"),
        (math.inf, 1.0, "unknown"),
        (math.nan, 1.0, "unknown"),
        (7.0, math.inf, "7"),
    ],
)
def test_a_figure_is_cut_where_its_margin_of_error_makes_digits_idle(
    value: float, margin_of_error: float, shown: str
) -> None:
    assert figure(value, margin_of_error) == shown


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e9))
def test_a_figure_is_off_by_a_tenth_of_its_margin_of_error_at_most(
    value: float, margin_of_error: float
) -> None:
    shown = float(figure(value, margin_of_error).replace(",", ""))
    assert abs(shown - value) <= 0.1 * margin_of_error + 1e-3 * abs(value) * (abs(value) < 1e-9)


SIZES = st.one_of(
    st.floats(-1e3, 1e3), st.floats(allow_nan=False, allow_infinity=False), st.integers(-99, 99)
)


@given(SIZES, SIZES, st.floats(0, 1e300))
def test_an_interval_is_never_shown_shorter_than_it_is(one: float, two: float, half: float) -> None:
    low, high = sorted((float(one), float(two)))
    shown = [float(end.replace(",", "")) for end in ends_text(low, high, half).split(" to ")]
    slack = 2.0**-49 * max(abs(low), abs(high), half)
    if half == 0:
        # known exactly; shown with 12 digits
        slack = 1e-11 * max(abs(low), abs(high))
    assert shown[0] <= low + slack
    assert shown[1] >= high - slack


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e9), st.sampled_from([-1, 1]))
def test_an_end_is_rounded_by_less_than_one_digit(value: float, half: float, side: int) -> None:
    shown = float(end_text(value, half, side).replace(",", ""))
    unit = max(
        10.0 ** -decimals(half), 1e-3 * max(abs(value), half) * (max(abs(value), half) < 1e-9)
    )
    assert side * (shown - value) <= unit * (1 + 1e-6) + 2.0**-49 * abs(value)


@pytest.mark.parametrize(
    ("low", "high", "margin_of_error", "counts", "shown"),
    [
        (4.04, 12.34, 4.15, False, "4.0 to 12.4"),
        (0.3, 0.7, 0.2, False, "0.30 to 0.70"),
        (-6.17 + 6.17, 6.17 + 6.17, 6.17, False, "0.0 to 12.4"),
        (2.7, 3.4, 10.0, True, "3 to 3"),
        (2490847204020864.0, 2494767131716992.0, 1.96e12, False, "2.4908e+15 to 2.4948e+15"),
        (1.7e15 + 1234, 1.7e15 + 5234, 2e3, False, "1.7000000000012e+15 to 1.7000000000053e+15"),
        (0.5, 0.5, 0.0, False, "0.5 to 0.5"),
        (-math.inf, math.inf, math.inf, False, "unknown"),
        (2.0, math.inf, math.inf, True, "2 to ∞"),
    ],
)
def test_intervals(
    low: float, high: float, margin_of_error: float, counts: bool, shown: str
) -> None:
    assert ends_text(low, high, margin_of_error, counts=counts) == shown


@pytest.mark.parametrize(
    ("margin_of_error", "expected"),
    [(62, 0), (6.2, 1), (0.62, 2), (0.00046, 5), (1e-30, 12), (0, 0), (math.inf, 0), (math.nan, 0)],
)
def test_two_significant_digits_of_the_margin_of_error_are_shown(
    margin_of_error: float, expected: int
) -> None:
    assert decimals(margin_of_error) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 10), "0.1"),
        (Fraction(1, 3), "0.3334"),
        (Fraction(3), "3"),
        (0.00012345, "0.0001235"),
        (1.2345e-7, "1.24e-7"),
        (2e6, "2e6"),
        (23456.7, "23,457"),
    ],
)
def test_amounts_have_four_significant_digits(value: Fraction | float, shown: str) -> None:
    assert amount_text(value) == shown


@given(st.one_of(st.floats(1e-30, 1e12), st.fractions(0, 10**9)))
def test_no_cost_is_shown_smaller_and_nothing_left_larger_than_it_is(
    value: Fraction | float,
) -> None:
    more, less = (
        Fraction(amount_text(value, left=left).replace(",", "")) for left in (False, True)
    )
    last_bits = Fraction(value) / 10**11
    assert less <= Fraction(value) + last_bits
    assert more >= Fraction(value) - last_bits
    # four digits, or three of the very small and large ones
    assert more - less <= Fraction(value) / 100


def test_what_is_left_is_rounded_down_beside_the_cost_rounded_up() -> None:
    third = PrivacyLoss(rho=Fraction(1, 3))
    assert loss_text(third, ZCDP, None) == "rho 0.3334"
    assert loss_text(third, ZCDP, None, left=True) == "rho 0.3333"
    costs, left = (loss_text(third, ZCDP, 1e-6, left=left) for left in (False, True))
    assert costs.startswith("rho 0.3334 (epsilon ")
    assert left.startswith("rho 0.3333 (epsilon ")


@given(st.fractions(0, 1))
def test_no_more_of_a_budget_is_said_to_be_left_than_is(share: Fraction) -> None:
    shown = part_text(share, Fraction(1), left=True)
    words = ("less than 0.1 %", "more than 99.9 %")
    assert shown in words or Fraction(shown.removesuffix(" %")) <= 100 * share
    assert (shown == "100 %") == (share == 1)


@given(st.fractions(0, 1), st.fractions(Fraction(1, 10**6), 10**6))
def test_what_is_spent_and_what_is_left_add_up_to_all(share: Fraction, whole: Fraction) -> None:
    spent = part_text(share * whole, whole)
    left = part_text((1 - share) * whole, whole, left=True)
    if "than" in spent or "than" in left:
        assert {spent, left} == {"less than 0.1 %", "more than 99.9 %"}
        return
    total = sum(Fraction(text.removesuffix(" %")) for text in (spent, left))
    assert total == 100
    assert Fraction(spent.removesuffix(" %")) >= 100 * share


def test_of_no_budget_everything_is_spent() -> None:
    nothing = Fraction(0)
    assert part_text(nothing, nothing) == "100 %"
    assert part_text(nothing, nothing, left=True) == "0 %"


def test_a_limit_is_rounded_as_what_is_left_of_it() -> None:
    total = PrivacyLoss(rho=Fraction("0.0243559703595"))
    none, part = PrivacyLoss.none(), PrivacyLoss(rho=Fraction("0.01"))
    untouched = Bill(none, total, total, ZCDP, 1e-6)
    assert left_text(total, untouched) == "rho 0.02435 of 0.02435 (100 %)"
    assert left_text(total - part, untouched) == "rho 0.01435 of 0.02435 (58 %)"
    used_up = Bill(total, none, total, ZCDP, 1e-6)
    # beside what is spent, which is never shown smaller than it is
    assert left_text(none, used_up) == "rho 0 of 0.02436 (0 %)"
    for bill, text in ((untouched, "rho 0.02435"), (used_up, "rho 0.02436")):
        assert budget_rows(bill, "spent", "limit")["limit"] == text
    assert budget_rows(used_up, "spent", "limit")["spent"] == "rho 0.02436"
    # but the epsilon of a limit is a promise
    whole = PrivacyLoss(rho=Fraction(1))
    assert loss_text(whole, ZCDP, 1e-6, limit=True) == "rho 1 (epsilon 7.767 at delta 1e-6)"
    assert loss_text(whole, ZCDP, 1e-6, left=True) == "rho 1 (epsilon 7.766 at delta 1e-6)"


def test_a_loss_is_written_with_all_its_digits() -> None:
    assert repr(PrivacyLoss(rho=Fraction("0.0243559703595"))) == "PrivacyLoss(rho=0.0243559703595)"


def test_what_is_left_is_said_in_per_cent_too() -> None:
    none, left, total = (PrivacyLoss(rho=Fraction(rho)) for rho in ("0", "0.789", "1"))
    bill = Bill(none, left, total, ZCDP, None)
    assert left_text(left, bill) == "rho 0.789 of 1 (78 %)"
    assert left_text(total, bill) == "rho 1 of 1 (100 %)"
    assert left_text(none, replace(bill, cap=none)) == "rho 0 of 0"


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [(0.95, "95 %"), (0.999, "99.9 %"), (0.5, "50 %"), (0.975, "97.5 %"), (1 / 3, "33.3333 %")],
)
def test_percentages_have_no_idle_zeros(confidence: float, shown: str) -> None:
    assert percent(confidence) == shown
