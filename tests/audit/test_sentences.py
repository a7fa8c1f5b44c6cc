"""A short version of what the report measures at length (``python -m tests.audit.report``)."""

from __future__ import annotations

import os

import pytest

from tests.audit.coverage import may_be
from tests.audit.sentences import AGGREGATES, AS_IT_IS, CAUGHT, NARROW, told

RUNS = 20
ERROR = 1e-9
LONG = os.environ.get("DPNB_LONG") == "1"


@pytest.mark.parametrize("name", AGGREGATES)
def test_sentences_hold_as_often_as_they_say(name, size):
    planted = [defect for defect in CAUGHT[name] if LONG or defect != NARROW]
    found = told(name, size(RUNS), AS_IT_IS, *planted)
    for defect, counts in found.items():
        kept = all(may_be(true, said, 0.95, ERROR) for true, said in counts)
        assert kept == (defect == AS_IT_IS), defect
