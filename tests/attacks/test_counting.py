"""A session never goes on with charges missing from its count, whatever interrupts its reading."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from fractions import Fraction

import pandas as pd
import pytest

import dpnb
from dpnb import DpnbError, Integer, Schema, Table
from dpnb.errors import BudgetError, LedgerError
from dpnb.ledger.accountant import Accountant
from dpnb.ledger.ledger import _digest

pytestmark = pytest.mark.fast

TABLE = Table("t", pd.DataFrame({"n": [1, 2, 3]}), Schema({"n": Integer(0, 9)}))
COUNT = "SELECT COUNT(*) AS k FROM t"
OTHER = "SELECT SUM(n) AS s FROM t"


@pytest.fixture
def two(tmp_path):
    """Two sessions on one ledger of rho 1."""
    path = tmp_path / "ledger"
    with (
        dpnb.Session(TABLE, budget=dpnb.Budget(rho=1), ledger=path) as one,
        dpnb.Session(TABLE, ledger=path) as other,
    ):
        yield one, other, path


def interrupted_once(monkeypatch, error):
    """The next entry that is read meets an error on its way into the count."""
    original, calls = Accountant.apply, []

    def apply(self, sequence, entry):
        calls.append(sequence)
        if len(calls) == 1:
            raise error
        return original(self, sequence, entry)

    monkeypatch.setattr(Accountant, "apply", apply)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError], ids=lambda e: e.__name__)
def test_an_interrupt_while_charges_are_read_does_not_lose_them(error, two, monkeypatch):
    one, other, _ = two
    one.query(COUNT, rho=0.7)
    interrupted_once(monkeypatch, error())
    with contextlib.suppress(error):
        _ = other.budget
    with pytest.raises((BudgetError, LedgerError)):
        other.query(OTHER, rho=0.7)
    with contextlib.suppress(LedgerError):
        assert other.budget.spent.rho == Fraction(7, 10)


def test_an_entry_that_cannot_be_read_stops_the_session_for_good(two):
    one, other, path = two
    one.query(COUNT, rho=0.7)
    body = json.dumps({"kind": "a kind of a later release", "spent": {"rho": "3/10"}})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        last, digest = connection.execute("SELECT max(seq), hash FROM entry").fetchone()
        connection.execute(
            "INSERT INTO entry VALUES (?, ?, ?)", (last + 1, body, _digest(digest, body))
        )
        connection.commit()
    for _ in range(3):
        with pytest.raises(DpnbError):
            other.query(OTHER, rho=0.1)


def test_a_broken_chain_stops_the_session_for_good(two):
    one, other, path = two
    one.query(COUNT, rho=0.7)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE entry SET hash = 'x' WHERE seq = 3")
        connection.commit()
    for _ in range(3):
        with pytest.raises(LedgerError):
            other.query(OTHER, rho=0.1)
        with pytest.raises(LedgerError):
            _ = other.budget


def test_charges_before_a_damaged_entry_still_count_once_it_is_restored(two):
    one, other, path = two
    one.query(COUNT, rho=0.7)
    one.query(COUNT + " WHERE n > 5", rho=0.1)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (digest,) = connection.execute("SELECT hash FROM entry WHERE seq = 4").fetchone()
        connection.execute("UPDATE entry SET hash = 'x' WHERE seq = 4")
        connection.commit()
        with pytest.raises(LedgerError):
            _ = other.budget
        connection.execute("UPDATE entry SET hash = ? WHERE seq = 4", (digest,))
        connection.commit()
    with pytest.raises((BudgetError, LedgerError)):
        other.query(OTHER, rho=0.7)


def test_the_last_of_the_budget_is_refused_to_the_second(two):
    one, other, _ = two
    one.query(COUNT, rho=0.7)
    with pytest.raises(BudgetError, match=r"0\.3 is left"):
        other.query(OTHER, rho=0.7)
    assert other.query(OTHER, rho=0.3).remaining.rho == 0
