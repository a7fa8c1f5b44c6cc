"""A short version of what the report measures at length (``python -m tests.audit.report``)."""

from __future__ import annotations

import pytest

from dpnb.privacy.noise import SecureNoise
from tests.audit.choices import ALLOWED, CAUGHT, DEFECTS, cases, false, planted, tail_false
from tests.audit.coverage import may_be
from tests.kit import power

RUNS = power.shares(ALLOWED, 0.099)
"""Enough to tell 5 % from the 9.9 % of margins that hold each on its own."""


@pytest.mark.parametrize("case", [*cases()][::5], ids=str)
def test_what_is_said_is_rarely_false(case):
    runs = RUNS // 4
    assert may_be(runs - false(case, runs, SecureNoise()), runs, 1 - ALLOWED, power.FALSE)


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_caught(defect):
    with planted(defect):
        found = false(CAUGHT, RUNS, SecureNoise())
    assert not may_be(RUNS - found, RUNS, 1 - ALLOWED, power.FALSE)


def test_the_old_tail_is_caught():
    """False in 95 of 100 draws."""
    runs = 100
    assert not may_be(runs - tail_false(runs, SecureNoise()), runs, 1 - ALLOWED, power.FALSE)
