"""Services that end at once, and clients that read one root certificate. A conftest switches both on::

from tests.kit.services import one_certificate, quick_ends  # noqa: F401
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import certifi
import pytest

from dpnb.server.service import Service


class _Pauses:
    """``asyncio`` for a server: its pauses of 0.1 seconds become short when it should end."""

    def __init__(self) -> None:
        self._ends: WeakKeyDictionary[
            threading.Thread, tuple[asyncio.AbstractEventLoop, asyncio.Event]
        ] = WeakKeyDictionary()

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        made = asyncio.get_running_loop(), asyncio.Event()
        _, end = self._ends.setdefault(threading.current_thread(), made)
        if end.is_set():
            await asyncio.sleep(seconds / 20)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), seconds)

    def end(self, thread: threading.Thread) -> None:
        if thread in self._ends and thread.is_alive():
            loop, end = self._ends[thread]
            loop.call_soon_threadsafe(end.set)


@pytest.fixture(scope="module", autouse=True)
def quick_ends() -> Iterator[None]:
    """Wake a server that is closed: it would look up 0.1 seconds later, and then wait as long."""
    pauses, close = _Pauses(), Service.close

    def quickly(service: Service) -> None:
        service._server.should_exit = True
        pauses.end(service._thread)
        close(service)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uvicorn.server.asyncio", pauses)
        patch.setattr(Service, "close", quickly)
        yield


@pytest.fixture(scope="module", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let clients read one root certificate in place of all, which takes them 20 ms each."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(first + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(path))
        yield
