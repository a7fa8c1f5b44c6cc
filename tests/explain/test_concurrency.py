"""Explanations under interrupts, and asked by two kernels at once."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pandas as pd
import pytest

import dpnb
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, InterruptedRequestError
from dpnb.releases.runner import Runner

pytestmark = pytest.mark.fast

SQL = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"


@pytest.fixture
def table():
    frame = pd.DataFrame({"g": ["a"] * 900 + ["b"] * 100, "x": (["u"] * 3 + ["v"]) * 250})
    schema = dpnb.Schema({"g": dpnb.Category(["a", "b"]), "x": dpnb.Category(["u", "v"])})
    return dpnb.Table("t", frame, schema)


def asked(table, ledger, rho="2.5"):
    session = dpnb.Session(table, budget=dpnb.Budget(rho=rho), ledger=ledger)
    return session, session.query(SQL, rho=1).compare("a", "b")


def press_stop(when):
    def press():
        when.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def test_an_interrupt_before_the_commit_costs_nothing(table, monkeypatch):
    session, question = asked(table, None)
    begun, stopped = threading.Event(), threading.Event()
    marginals = DuckDBEngine.marginals

    def slow(self, scan):
        begun.set()
        stopped.wait(10)
        return marginals(self, scan)

    with session, monkeypatch.context() as patch:
        patch.setattr(DuckDBEngine, "marginals", slow)
        patch.setattr(DuckDBEngine, "interrupt", lambda self, thread: stopped.set())
        press_stop(begun)
        with pytest.raises(InterruptedRequestError, match="Nothing was charged"):
            session.explain(question, k=1, rho=1)
        assert session.budget.spent.rho == 1
        patch.undo()
        assert session.explain(question, k=1, rho=1).spent.rho == 1


def test_an_interrupt_after_the_commit_keeps_the_explanation(table, monkeypatch):
    session, question = asked(table, None)
    begun, stopped = threading.Event(), threading.Event()
    commit = Runner._commit

    def slow(self, *arguments):
        found = commit(self, *arguments)
        begun.set()
        stopped.wait(10)
        return found

    with session, monkeypatch.context() as patch:
        patch.setattr(Runner, "_commit", slow)
        patch.setattr(DuckDBEngine, "interrupt", lambda self, thread: stopped.set())
        press_stop(begun)
        with pytest.raises(InterruptedRequestError, match="after the answer was charged"):
            session.explain(question, k=1, rho=1)
        assert session.budget.spent.rho == 2
        assert session.explain(question, k=1, rho=1).spent.rho == 0


def both(table, ledger, monkeypatch, options):
    """Let two kernels explain at once: both have measured before either commits."""
    sessions = [asked(table, ledger) for _ in range(2)]
    meeting = threading.Barrier(2)
    commit = Runner._commit

    def together(self, *arguments):
        meeting.wait(10)
        return commit(self, *arguments)

    def explain(number):
        session, question = sessions[number]
        try:
            return session.explain(question, k=1, **options[number])
        except BudgetError as error:
            return error

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(Runner, "_commit", together)
        found = list(pool.map(explain, range(2)))
    spent = sessions[0][0].budget.spent.rho
    for session, _ in sessions:
        session.close()
    return found, spent


def test_two_kernels_get_one_explanation_for_one_price(table, tmp_path, monkeypatch):
    found, spent = both(table, tmp_path / "t.ledger", monkeypatch, [{"rho": 1}, {"rho": 1}])
    assert found[0].rows == found[1].rows
    assert sorted(e.spent.rho for e in found) == [0, 1]
    assert spent == 2


def test_two_kernels_cannot_spend_the_rest_twice(table, tmp_path, monkeypatch):
    found, spent = both(table, tmp_path / "t.ledger", monkeypatch, [{"rho": 1}, {"rho": "1.1"}])
    refused = [e for e in found if isinstance(e, BudgetError)]
    (kept,) = (e for e in found if not isinstance(e, BudgetError))
    assert len(refused) == 1
    assert spent == 1 + kept.spent.rho <= Fraction(5, 2)
