"""Processes die at every step of a request and at random moments; the ledger stays true.

No release without its charge, no acknowledged answer lost, the same request answered the same, the
chain intact, the cap never passed. ``DPNB_LONG=1`` kills many more times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from fractions import Fraction
from pathlib import Path

import pytest

from dpnb.privacy.loss import PrivacyLoss
from tests.crash import worker

LONG = os.environ.get("DPNB_LONG") == "1"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_place(request, tmp_path):
    """Make places for a ledger and its acknowledgements, in each storage."""

    def make(number=0):
        if request.param == "sqlite":
            ledger = str(tmp_path / f"ledger{number}")
        else:
            server = request.getfixturevalue("postgres")
            ledger = server.url(schema=server.schema())
        return {"ledger": ledger, "acks": str(tmp_path / f"acks{number}")}

    return make


@pytest.fixture
def place(new_place):
    """Ledger and acknowledgements of one test."""
    return new_place()


def acknowledged(place):
    """What the processes acknowledged, oldest first; a line cut off by a kill does not count."""
    folder = Path(place["acks"]).parent
    texts = [path.read_text("utf-8") for path in folder.glob(f"{Path(place['acks']).name}.*")]
    lines = [line for text in texts for line in text.split("\n")[:-1]]
    return sorted((json.loads(line) for line in lines), key=lambda ack: ack["at"])


def written(place):
    folder = Path(place["acks"]).parent
    return sum(path.stat().st_size for path in folder.glob(f"{Path(place['acks']).name}.*"))


def entries(place):
    if place["ledger"].startswith("postgresql:"):
        import psycopg

        with psycopg.connect(place["ledger"]) as connection:
            bodies = connection.execute("SELECT body FROM dpnb_entry ORDER BY seq").fetchall()
        return [json.loads(body) for (body,) in bodies]
    connection = sqlite3.connect(place["ledger"])
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [json.loads(b) for (b,) in connection.execute("SELECT body FROM entry ORDER BY seq")]
    finally:
        connection.close()


def spent_in(place):
    answers = [entry for entry in entries(place) if entry["kind"] == "answer"]
    for entry in answers:
        assert set(entry["levels"]) == set(entry["views"])
        assert set(entry["knots"]) <= set(entry["levels"])
    return sum((PrivacyLoss.from_dict(entry["spent"]).rho for entry in answers), Fraction(0))


def check(place, cap):
    """Open the ledger again, which replays and checks it, and ask for everything acknowledged."""
    with worker.session(place["ledger"], None) as session:
        return check_opened(session, place, cap)


def check_opened(session, place, cap):
    """Ask a session that has just been opened for everything acknowledged."""
    answers = [ack for ack in acknowledged(place) if "numbers" in ack]
    spent = session.budget.spent.rho
    assert spent == spent_in(place)
    assert spent <= Fraction(cap)
    assert sum(Fraction(ack["spent"]) for ack in answers) <= spent
    newest = {}
    for ack in answers:
        newest[ack["sql"], ack["rho"]] = ack
    for (sql, rho), ack in newest.items():
        again = session.query(sql, rho=rho)
        assert again.stored
        assert again.spent.rho == 0
        assert json.loads(json.dumps(worker.numbers(again))) == ack["numbers"]
    assert session.budget.spent.rho == spent
    return len(answers)


@pytest.mark.parametrize("step", worker.STEPS)
def test_a_process_dies_at_a_step_of_a_request(step, workers, place):
    worker.work({**place, "cap": "1", "first": 0, "requests": 3})
    before = spent_in(place)
    workers.start(worker, **place, first=3, requests=5, step=step)
    assert workers.wait() == [9]
    after = spent_in(place)
    committed = worker.STEPS.index(step) >= worker.STEPS.index("after the commit")
    assert (after > before) == committed
    assert len(acknowledged(place)) == 3
    with worker.session(place["ledger"], None) as session:
        assert check_opened(session, place, 1) == 3
        # the request that was cut off: free when it was paid for, and otherwise it costs as usual
        requests = map(worker.request, range(3, 8))
        spent = [session.query(sql, rho=rho).spent.rho for sql, rho in requests]
        assert (spent[0] == 0) == committed
        assert sum(spent[1:]) > 0
    assert check(place, 1) == 3
    assert spent_in(place) == after + sum(spent)


@pytest.mark.parametrize("step", ["before the insert", "before the commit"])
def test_a_process_dies_while_it_opens_a_new_ledger(step, workers, place):
    workers.start(worker, **place, cap="1", first=0, requests=1, step=step)
    workers.wait()
    workers.start(worker, **place, cap="1", first=0, requests=2)
    assert workers.wait() == [0]
    assert len(acknowledged(place)) == 2
    assert check(place, 1) == 2


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_are_killed_at_random_moments(processes, workers, place):
    generator = random.Random(processes)  # noqa: S311
    first, kills = 0, 0
    rounds = 150 if LONG else 6 // processes + 2
    worker.session(place["ledger"], "50").close()
    for round_number in range(rounds):
        children = [
            workers.start(worker, **place, first=first + 40 * i, requests=1_000_000)
            for i in range(processes)
        ]
        known, patience = written(place), time.time() + 10
        while written(place) == known and time.time() < patience:
            time.sleep(0.02)
        time.sleep(generator.uniform(0, 0.1))
        for child in children:
            os.kill(child, signal.SIGKILL)
        codes = workers.wait()
        kills += codes.count(-signal.SIGKILL)
        first += 13
        if round_number % 5 == 4:
            check(place, 50)
    assert kills == rounds * processes
    assert check(place, 50) >= rounds
    assert all("refused" not in ack for ack in acknowledged(place))


def test_exactly_one_of_several_processes_gets_the_last_of_the_budget(workers, new_place):
    for number in range(30 if LONG else 3):
        place = new_place(number)
        with worker.session(place["ledger"], "1") as session:
            session.query("SELECT COUNT(*) FROM credit", rho="0.5")
        start = time.time() + 0.3
        for i in range(4):
            sql = f"SELECT COUNT(*) FROM credit WHERE age > {30 + i}"
            workers.start(worker, **place, first=0, requests=1, start=start, request=[sql, "0.5"])
        assert workers.wait() == [0] * 4
        outcomes = acknowledged(place)
        assert sorted("numbers" in outcome for outcome in outcomes) == [False] * 3 + [True]
        refused = [outcome for outcome in outcomes if "refused" in outcome]
        assert {outcome["refused"] for outcome in refused} == {"BudgetError"}
        assert {"this costs rho 0.5, but 0 is left" in o["text"] for o in refused} == {True}
        assert spent_in(place) == 1
        check(place, 1)


def test_several_processes_asking_the_same_get_the_same_and_pay_once(workers, place):
    worker.session(place["ledger"], "1").close()
    start = time.time() + 0.3
    order = ["SELECT purpose, AVG(age) AS m FROM credit GROUP BY purpose", "0.25"]
    for _ in range(4):
        workers.start(worker, **place, first=0, requests=2, start=start, request=order)
    assert workers.wait() == [0] * 4
    outcomes = acknowledged(place)
    assert len(outcomes) == 8
    assert len({json.dumps(outcome["numbers"]) for outcome in outcomes}) == 1
    assert sorted(outcome["spent"] for outcome in outcomes) == ["0"] * 7 + ["1/4"]


def test_several_processes_opening_one_new_ledger_agree(workers, place):
    for _ in range(4):
        workers.start(worker, **place, cap="1", first=0, requests=2)
    assert workers.wait() == [0] * 4
    assert [entry["kind"] for entry in entries(place)].count("open") == 1
    assert all("numbers" in ack for ack in acknowledged(place))
    check(place, 1)
