"""Health and readiness tell whether requests can be answered, at little cost, to everybody."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import EngineError, LedgerError
from dpnb.server import readiness
from dpnb.server.readiness import Readiness
from tests.kit.inside import runner

pytestmark = pytest.mark.fast


class Checked:
    """A check that counts, and fails when it is told to."""

    def __init__(self):
        self.count, self.failure, self.free = 0, None, threading.Event()
        self.free.set()

    def __call__(self):
        self.count += 1
        self.free.wait(10)
        if self.failure is not None:
            raise self.failure
        return True


@pytest.fixture
def now(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(readiness.time, "monotonic", lambda: clock[0])
    return clock


def asked(found, times=1):
    async def ask():
        return await asyncio.gather(*(found.ready() for _ in range(times)))

    # in a thread of its own: a browser's test may have left an event loop running in this one
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, ask()).result()


class TestReadiness:
    @pytest.mark.parametrize("failure", [EngineError("broken"), ValueError("4,000 rows")])
    def test_it_follows_what_happens(self, now, failure, caplog):
        check = Checked()
        found = Readiness(check)
        for ready in (True, False, False, True):
            check.failure = None if ready else failure
            now[0] += 10
            assert asked(found) == [ready]
        assert caplog.text.count("requests cannot be answered") == isinstance(failure, EngineError)
        assert "rows" not in caplog.text

    def test_many_who_ask_are_served_by_one_look(self, now):
        check = Checked()
        found = Readiness(check)
        assert asked(found, 50) == [True] * 50
        now[0] += 1
        assert asked(found, 50) == [True] * 50
        assert check.count == 1
        now[0] += 1
        asked(found)
        assert check.count == 2

    def test_a_look_that_goes_on_is_a_no_and_nobody_waits_for_it(self, monkeypatch):
        monkeypatch.setattr(readiness, "_PATIENCE", 0.05)
        check = Checked()
        check.free.clear()
        found = Readiness(check)

        async def ask():
            told = [await found.ready(), await found.ready()]
            check.free.set()
            while found._looking:
                await asyncio.sleep(0.01)
            return [*told, await found.ready()]

        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(asyncio.run, ask()).result() == [False, False, True]
        assert check.count == 1


@pytest.mark.parametrize("failure", [EngineError("broken", "at once"), LedgerError("at /secret")])
def test_the_service_tells_the_truth_and_not_why(house, monkeypatch, failure):
    def told():
        # what was found before is not said again
        monkeypatch.setattr(readiness, "_FRESH", 0.0)
        return [httpx.get(f"{house.url}/v2/{name}") for name in ("health", "ready")]

    check = Checked()
    monkeypatch.setattr(DuckDBEngine, "check", lambda _: check())
    assert [(r.status_code, r.json()) for r in told()] == [
        (200, {"status": "ok"}), (200, {"status": "ready"}),
    ]  # fmt: skip
    check.failure = failure
    with pytest.raises(type(failure)):
        runner(house.curator).check()
    health, ready = told()
    assert (health.status_code, health.json()) == (200, {"status": "degraded"})
    assert (ready.status_code, ready.headers["retry-after"]) == (503, "2")
    assert not any(word in ready.text for word in ("broken", "secret", "ledger", "at once"))
    check.failure = None
    assert [reply.status_code for reply in told()] == [200, 200]
    assert house.curator.budget.spent.rho == 0


@pytest.mark.parametrize("what", ["deleted", "replaced", "copied over", "full disk"])
def test_a_ledger_that_could_not_be_written_is_noticed_before_anybody_asks(
    house, monkeypatch, what, tmp_path
):
    ledger = house.home / "ledger"
    copy = tmp_path / "copy"
    copy.write_bytes(ledger.read_bytes())
    house.session().query("SELECT COUNT(*) AS n FROM people", rho=0.01)
    if what == "deleted":
        ledger.unlink()
    elif what == "replaced":
        copy.replace(ledger)
    elif what == "copied over":
        ledger.write_bytes(copy.read_bytes())
    else:
        full = os.statvfs_result((4096, 4096, 100, 0, 0, 10, 10, 10, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(LedgerError, match="deleted|replaced|full"):
        runner(house.curator).check()
    monkeypatch.setattr(readiness, "_FRESH", 0.0)
    assert httpx.get(f"{house.url}/v2/ready").status_code == 503
    monkeypatch.undo()
    assert house.curator.budget.spent.rho > 0


def test_a_damaged_token_file_makes_it_unready_and_locks_nobody_out(house, monkeypatch):
    monkeypatch.setattr(readiness, "_FRESH", 0.0)
    good = house.file.read_text()
    for text, ready in (("{", 503), (good, 200)):
        house.file.write_text(text)
        assert httpx.get(f"{house.url}/v2/ready").status_code == ready
        assert house.get("/v2/budget").status_code == 200


def test_a_curator_is_checked_at_no_cost(house):
    runner(house.curator).check()
    house.home.joinpath("ledger").write_bytes(b"no ledger" * 1000)
    with pytest.raises(LedgerError):
        runner(house.curator).check()
