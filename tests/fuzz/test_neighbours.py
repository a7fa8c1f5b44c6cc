"""What a person or a row adds to random statements is paid for.

The long form is ``python -m tests.fuzz.neighbours --statements 10000``.
"""

from __future__ import annotations

import os

from tests.fuzz.neighbours import examine, used
from tests.kit.noise import Draw

STATEMENTS = 500 if os.environ.get("DPNB_ALL") else 10


def test_draws_hide_one_person_and_one_row():
    counts, failures = examine(0, range(350, 350 + STATEMENTS), 1)
    assert not failures
    assert counts["answered"] > 0.6 * STATEMENTS
    assert counts["answered, reached"]


def test_what_costs_too_little_is_noticed():
    one, other = (Draw("gaussian", (number, 3), 1.0) for number in (5, 7))
    assert used([one, one], [other, one]) == 2
