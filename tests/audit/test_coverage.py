"""A short version of what the report measures at length (``python -m tests.audit.report``)."""

from __future__ import annotations

import os

import pytest

from tests.audit.coverage import CLAIMS, EQUAL, EQUALITIES, covered, decided, equal, may_be

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


@pytest.mark.parametrize(
    ("having", "mode", "currency"),
    [
        (having, mode, currency)
        for place, having in enumerate(EQUALITIES)
        for kind, mode in enumerate(("certified", "margin", "rr", "hybrid"))
        for number, currency in enumerate(("zcdp", "pure"))
        if LONG or (place + kind + number) % 3 == 0
    ],
)
def test_groups_exactly_at_a_threshold_are_left_out_no_more_often_than_said(
    having, mode, currency, size
):
    runs = size(1)
    pairs = [equal(having, mode, currency, 0.05) for _ in range(runs)]
    missed, planted = map(sum, zip(*pairs, strict=True))
    assert may_be(runs * EQUAL - missed, runs * EQUAL, 0.95, 1e-9)
    assert not may_be(runs * EQUAL - planted, runs * EQUAL, 0.95, 1e-9)
