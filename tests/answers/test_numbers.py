"""As many digits as the uncertainty deserves."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnb.answers.numbers import decimals, figure, percent
from dpnb.privacy.loss import amount_text


@pytest.mark.parametrize(
    ("value", "half_width", "shown"),
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
        (3e20, 1e3, "3e+20"),
        (1e-12, 1e-13, "1e-12"),
        (math.inf, 1.0, "unknown"),
        (math.nan, 1.0, "unknown"),
        (7.0, math.inf, "7"),
    ],
)
def test_a_figure_is_cut_where_its_half_width_makes_digits_idle(
    value: float, half_width: float, shown: str
) -> None:
    assert figure(value, half_width) == shown


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e9))
def test_a_figure_is_off_by_a_tenth_of_its_half_width_at_most(
    value: float, half_width: float
) -> None:
    shown = float(figure(value, half_width).replace(",", ""))
    assert abs(shown - value) <= 0.1 * half_width + 1e-3 * abs(value) * (abs(value) < 1e-9)


@pytest.mark.parametrize(
    ("half_width", "expected"),
    [(62, 0), (6.2, 1), (0.62, 2), (0.00046, 5), (1e-30, 12), (0, 0), (math.inf, 0), (math.nan, 0)],
)
def test_two_significant_digits_of_the_half_width_are_shown(
    half_width: float, expected: int
) -> None:
    assert decimals(half_width) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 10), "0.1"),
        (Fraction(1, 3), "0.3333"),
        (Fraction(3), "3"),
        (0.00012345, "0.0001234"),
        (1.2345e-7, "1.23e-7"),
        (2e6, "2e6"),
        (23456.7, "23,457"),
    ],
)
def test_amounts_have_four_significant_digits(value: Fraction | float, shown: str) -> None:
    assert amount_text(value) == shown


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [(0.95, "95 %"), (0.999, "99.9 %"), (0.5, "50 %"), (0.975, "97.5 %"), (1 / 3, "33.3333 %")],
)
def test_percentages_have_no_idle_zeros(confidence: float, shown: str) -> None:
    assert percent(confidence) == shown
