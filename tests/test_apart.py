"""A folder can be taken away, and the rest still answers."""

from __future__ import annotations

import json
import subprocess
import sys

WITHOUT = {
    "display": [], "studies": [], "explain": ["explain"], "decide": ["decide"], "risk": ["risk"],
    "discover": ["discover"], "server": [], "magics": [], "engines.spark": [], "engines.postgres": [],
}  # fmt: skip
"""The verbs that fail without each part."""


def test_the_rest_still_answers():
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.hidden", *WITHOUT],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert {part: sorted(failed) for part, failed in found.items()} == WITHOUT, found
