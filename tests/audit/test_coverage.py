"""A short version of what the report measures at length (``python -m tests.audit.report``)."""

from __future__ import annotations

import os

import pytest

from tests.audit.coverage import CLAIMS, covered, decided, may_be

RUNS = 20
ERROR = 1e-6
LONG = os.environ.get("DPNB_LONG") == "1"
ALIKE = (
    ("a sum", "pure"), ("a share of two counts", "zcdp"), ("counts of three groups", "zcdp"),
    ("a difference of two groups", "zcdp"),
)  # fmt: skip
"""The other currency has them; each currency has six kinds."""


@pytest.mark.parametrize(
    ("name", "currency"),
    [
        (name, currency)
        for name in CLAIMS
        for currency in ("zcdp", "pure")
        if LONG or (name, currency) not in ALIKE
    ],
)
def test_intervals_hold_as_often_as_they_say(name, currency, size):
    claim, runs = CLAIMS[name], size(RUNS)
    held, narrowed = covered(claim, currency, runs, 1.0, 0.1)
    assert may_be(held, runs, claim.confidence, ERROR)
    assert not may_be(narrowed, runs, claim.confidence, ERROR)


@pytest.mark.parametrize("currency", ["zcdp", "pure"])
def test_decisions_err_no_more_often_than_they_say(currency, size):
    runs = size(RUNS)
    errors, planted = decided(currency, 0.05, runs, 0.0)
    assert may_be(runs - errors.missed, runs, 0.95, ERROR)
    assert may_be(runs - errors.uncertain, runs, 0.95, ERROR)
    assert not may_be(runs - planted.missed, runs, 0.95, ERROR)
    assert not may_be(runs - planted.uncertain, runs, 0.95, ERROR)
