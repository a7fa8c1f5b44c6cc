"""A small sensitive table behind a real service on a loopback port."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.scans import engine_failure
from dpnb.server import tokens
from dpnb.server.service import Service
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401
from tests.kit.services import one_certificate, quick_ends  # noqa: F401

SQL = "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM people GROUP BY sex"
# reading the certificates of this machine takes longer than most requests; no connection is kept
REQUESTS = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
ANALYSTS = {"alice": (4,), "bob": (2,), "carol": (4, 1)}


def people() -> Table:
    frame = pd.DataFrame(
        {
            "sex": np.where(np.arange(4000) % 3 == 0, "Female", "Male"),
            "job": np.where(np.arange(4000) % 5 == 0, "clerk", "smith"),
            "wage": np.arange(4000) % 90,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(4000) % 365, unit="D"),
        }
    ).astype({"sex": "string", "job": "string", "day": "datetime64[us]"})
    schema = Schema(
        {
            "sex": Category(["Female", "Male"]),
            "job": Category(["clerk", "smith"]),
            "wage": Integer(0, 100, bins=[0, 50, 100]),
            "day": Date(
                "2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]
            ),
        }
    )
    return Table("people", frame, schema)


class House:
    """A curator, its token file, and its service."""

    def __init__(self, home: Path, stack: ExitStack, options: Mapping[str, Any]) -> None:
        self.home = home
        self.file = home / "tokens.json"
        self.tokens = {
            name: tokens.add(self.file, name, levels) for name, levels in ANALYSTS.items()
        }
        self.curator = dpnb.Curator(
            [people()],
            budget=options.pop("budget", dpnb.Budget(epsilon=3, delta=1e-6)),
            ledger=home / "ledger",
            analysts=dict(ANALYSTS),
        )
        stack.callback(self.curator.close)
        self.service: Service = self.curator.serve(
            port=0, tokens=self.file, background=True, **options
        )
        stack.callback(self.service.close)
        self.url = self.service.url
        self._stack = stack

    def session(self, name: str = "alice", **options: Any) -> dpnb.Session:
        session = dpnb.connect(self.url, token=self.tokens[name], **options)
        self._stack.callback(session.close)
        return session

    def headers(self, name: str = "alice", **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}", **more}

    def post(
        self, path: str, body: Any, name: str = "alice", content: bytes | None = None, **more: str
    ) -> httpx.Response:
        content = json.dumps(body).encode() if content is None else content
        headers = {"Content-Type": "application/json", **self.headers(name, **more)}
        return REQUESTS.post(self.url + path, content=content, headers=headers)

    def get(self, path: str, name: str = "alice", **more: str) -> httpx.Response:
        return REQUESTS.get(self.url + path, headers=self.headers(name, **more))

    def raw(self, sent: bytes, seconds: float = 2.0) -> bytes:
        """Send bytes as they are; returns what comes back until the end, or until it is silent."""
        place = urlsplit(self.url)
        found = b""
        with socket.create_connection((place.hostname, place.port), timeout=seconds) as connection:
            # a server that refuses may have closed before everything was sent
            with suppress(OSError):
                connection.sendall(sent)
            with suppress(OSError):
                while part := connection.recv(65_536):
                    found += part
        return found


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., House]]:
    with ExitStack() as stack:
        yield lambda **options: House(tmp_path, stack, options)


@pytest.fixture
def house(build: Callable[..., House]) -> House:
    return build()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house for requests that it refuses: nothing is spent, so one serves a module."""
    with ExitStack() as stack:
        house = House(tmp_path_factory.mktemp("refusing"), stack, {})
        yield house
        assert not any(house.curator.session(name).budget.spent.rho for name in ANALYSTS)


class Slow:
    """Scans that last until they are interrupted, or until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started, self.stopped, self.free = (threading.Event() for _ in range(3))
        real = DuckDBEngine.measure

        def measure(engine: DuckDBEngine, scan: Any) -> Any:
            self.started.set()
            for _ in range(2000):
                if self.stopped.is_set():
                    raise engine_failure()
                if self.free.wait(0.01):
                    return real(engine, scan)
            raise AssertionError("nobody stopped the scan")

        monkeypatch.setattr(DuckDBEngine, "measure", measure)
        monkeypatch.setattr(DuckDBEngine, "interrupt", lambda engine, thread: self.stopped.set())


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)
