"""A process that dies while it explains has charged all of it or nothing."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("explainer.py")
SPEC = importlib.util.spec_from_file_location("explainer", SCRIPT)
explainer = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(explainer)
PAID = {"after the commit", "before it is shown"}


def entries(path):
    connection = sqlite3.connect(path)
    found = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entry ORDER BY seq")
    ]
    connection.close()
    return found


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """What the dead processes left, by step."""
    folder = tmp_path_factory.mktemp("ledgers")
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=True,
        timeout=120,
    )  # fmt: skip
    assert run.stdout.split() == ["9"] * len(explainer.STEPS), run.stderr
    return {step: folder / f"{number}" for number, step in enumerate(explainer.STEPS)}


@pytest.mark.parametrize("step", explainer.STEPS)
def test_the_next_process_finds_all_of_it_or_nothing(step, ledgers):
    before = entries(ledgers[step])
    kinds = [entry["kind"] for entry in before]
    assert kinds == ["open", "table", "answer"] + ["release"] * (step in PAID)
    with explainer.session(ledgers[step]) as session:
        assert session.budget.spent.rho == 1 + (Fraction("0.3") if step in PAID else 0)
        found = session.explain(explainer.question(session), k=2)
        assert found.stored == (step in PAID)
        assert session.budget.spent.rho == Fraction("1.3")
    after = entries(ledgers[step])
    assert len(after) == 4
    named = [name for name, _ in after[-1]["drawn"]["predicates"]]
    assert sorted(named) == sorted(row.predicate for row in found.rows)
    if step in PAID:
        assert after == before
