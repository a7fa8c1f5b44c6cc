"""Whatever is declared, engines measure the same whole numbers, within what they claim.

The long form is ``python -m tests.fuzz.declared --tables 1000``.
"""

from __future__ import annotations

import os

from tests.fuzz.declared import examine

# between them they have whole columns beside real ones, and groups far from 0
TABLES = range(60) if os.environ.get("DPNB_ALL") else (2, 29)


def test_engines_agree_and_claims_hold():
    counts, failures = examine(0, TABLES)
    assert not failures
    assert counts["measured"] > 5 * len(TABLES)
    assert counts["by group"]
