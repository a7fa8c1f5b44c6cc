"""A process that dies while it chooses privately has charged the choice or shown nothing of it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpnb.engines.duckdb import DuckDBEngine
from tests.crash import chooser
from tests.kit.dying import PAID, entries

COST = Fraction(1, 200)


@pytest.fixture(scope="module")
def ledgers(workers, tmp_path_factory):
    """What the dead processes left, by step; none of them has shown anything."""
    return workers.left_at(chooser, chooser.STEPS, tmp_path_factory.mktemp("ledgers"))


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
    choice = profile.choose(0.9, mode="paper")
    assert choice.stored == paid
    assert choice.spent.rho == (0 if paid else COST)
    assert curator.budget.spent.rho == COST
    after = entries(ledgers[step])
    assert after[-1]["drawn"]["values"] == choice.detail["drawn"]
    assert after[: len(before)] == before
    assert len(after) == 3
    assert profile.choose(0.9, mode="paper").detail == choice.detail
    curator.close()
