"""A short version of what the report measures at length (``python -m tests.audit.report``)."""

from __future__ import annotations

import os

import pytest

from dpnb.privacy.definition import PURE, ZCDP
from tests.audit.coverage import CLAIMS, EQUAL, EQUALITIES, covered, decided, equal, may_be

RUNS = 20
ERROR = 1e-6
LONG = os.environ.get("DPNB_LONG") == "1"
ALIKE = (
    ("a sum", PURE), ("a share of two counts", ZCDP), ("counts of three groups", ZCDP),
    ("a difference of two groups", ZCDP),
)  # fmt: skip
"""The other privacy definition has them; each privacy has six kinds."""


@pytest.mark.parametrize(
    ("name", "privacy"),
    [
        (name, privacy)
        for name in CLAIMS
        for privacy in (ZCDP, PURE)
        if LONG or (name, privacy) not in ALIKE
    ],
)
def test_intervals_hold_as_often_as_they_say(name, privacy, size):
    claim, runs = CLAIMS[name], size(RUNS)
    held, narrowed = covered(claim, privacy, runs, 1.0, 0.1)
    assert may_be(held, runs, claim.confidence, ERROR)
    assert not may_be(narrowed, runs, claim.confidence, ERROR)


@pytest.mark.parametrize("privacy", [ZCDP, PURE])
def test_decisions_err_no_more_often_than_they_say(privacy, size):
    runs = size(RUNS)
    errors, planted = decided(privacy, 0.05, runs, 0.0)
    assert may_be(runs - errors.missed, runs, 0.95, ERROR)
    assert may_be(runs - errors.uncertain, runs, 0.95, ERROR)
    assert not may_be(runs - planted.missed, runs, 0.95, ERROR)
    assert not may_be(runs - planted.uncertain, runs, 0.95, ERROR)


@pytest.mark.parametrize(
    ("having", "mode", "privacy"),
    [
        (having, mode, privacy)
        for place, having in enumerate(EQUALITIES)
        for kind, mode in enumerate(("certified", "margin", "rr", "hybrid"))
        for number, privacy in enumerate((ZCDP, PURE))
        if LONG or (place + kind + number) % 3 == 0
    ],
)
def test_groups_exactly_at_a_threshold_are_left_out_no_more_often_than_said(
    having, mode, privacy, size
):
    runs = size(1)
    pairs = [equal(having, mode, privacy, 0.05) for _ in range(runs)]
    missed, planted = map(sum, zip(*pairs, strict=True))
    assert may_be(runs * EQUAL - missed, runs * EQUAL, 0.95, 1e-9)
    assert not may_be(runs * EQUAL - planted, runs * EQUAL, 0.95, 1e-9)
