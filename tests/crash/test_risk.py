"""A process that dies while it chooses privately has charged the choice or shown nothing of it."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpnb.engines.duckdb import DuckDBEngine

SCRIPT = Path(__file__).with_name("chooser.py")
SPEC = importlib.util.spec_from_file_location("chooser", SCRIPT)
chooser = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(chooser)
PAID = {"after the commit", "before it is shown"}
COST = Fraction(1, 200)


def entries(path):
    connection = sqlite3.connect(path)
    found = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entry ORDER BY seq")
    ]
    connection.close()
    return found


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """What the dead processes left, by step; none of them has shown anything."""
    folder = tmp_path_factory.mktemp("ledgers")
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=True,
        timeout=120,
    )  # fmt: skip
    assert run.stdout.split() == ["9"] * len(chooser.STEPS), run.stderr
    return {step: folder / f"{number}" for number, step in enumerate(chooser.STEPS)}


@pytest.mark.parametrize("step", chooser.STEPS)
def test_the_next_process_finds_the_choice_paid_for_or_nothing(step, ledgers, monkeypatch):
    before = entries(ledgers[step])
    paid = step in PAID
    assert [entry["kind"] for entry in before] == ["open", "table"] + ["release"] * paid
    curator = chooser.opened(ledgers[step])
    assert curator.budget.spent.rho == paid * COST
    profile = curator.risk(chooser.SQL)
    if paid:
        # from the ledger: the same draw, without a look at the data
        monkeypatch.setattr(DuckDBEngine, "contributions", lambda *_: 1 / 0)
    choice = profile.choose(0.9)
    assert choice.stored == paid
    assert choice.spent.rho == (0 if paid else COST)
    assert curator.budget.spent.rho == COST
    after = entries(ledgers[step])
    assert after[-1]["drawn"]["values"] == choice.detail["drawn"]
    assert after[: len(before)] == before
    assert len(after) == 3
    assert profile.choose(0.9).detail == choice.detail
    curator.close()
