"""A short version of what the report measures at length (``python tests/audit/report.py``)."""

from __future__ import annotations

import pytest
from audit.coverage import CLAIMS, covered, decided, may_be

RUNS = 20
ERROR = 1e-6


@pytest.mark.parametrize("currency", ["zcdp", "pure"])
@pytest.mark.parametrize("name", CLAIMS)
def test_intervals_hold_as_often_as_they_say(name, currency, size):
    claim, runs = CLAIMS[name], size(RUNS)
    assert may_be(covered(claim, currency, runs), runs, claim.confidence, ERROR)
    if claim.exact:
        # intervals of a tenth of the width are found out
        assert not may_be(covered(claim, currency, runs, 0.1), runs, claim.confidence, ERROR)


@pytest.mark.parametrize("currency", ["zcdp", "pure"])
def test_decisions_err_no_more_often_than_they_say(currency, size):
    found = decided(currency, 0.05, size(RUNS))
    assert may_be(found.runs - found.missed, found.runs, 0.95, ERROR)
    assert may_be(found.runs - found.uncertain, found.runs, 0.95, ERROR)
