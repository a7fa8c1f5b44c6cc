"""A request's work in a thread, stopped when its client goes away or when it takes too long."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

T = TypeVar("T")
_AGAIN = 0.1


class Run:
    """One piece of work, which can be stopped until its commit.

    Parameters
    ----------
    work : callable
        Takes an event that is set when the work is stopped.
    interrupt : callable
        Stops the scan that runs in the thread of the given identifier.
    """

    def __init__(
        self, work: Callable[[threading.Event], Any], interrupt: Callable[[int], None]
    ) -> None:
        self._work, self._interrupt = work, interrupt
        self._cancel = threading.Event()
        self._lock = threading.Lock()
        self._thread: int | None = None

    def __call__(self) -> Any:
        """Do the work in this thread."""
        with self._lock:
            self._thread = threading.get_ident()
        try:
            return self._work(self._cancel)
        finally:
            # from here on the thread may serve another request, which must not be stopped
            with self._lock:
                self._thread = None

    def stop(self) -> None:
        """Stop the scan; work that has reached its commit completes."""
        self._cancel.set()
        with self._lock:
            if self._thread is not None:
                self._interrupt(self._thread)


class Runs:
    """All runs in progress.

    Parameters
    ----------
    threads : int
        Most runs at the same time.
    interrupt : callable
        As for :class:`Run`.
    """

    def __init__(self, threads: int, interrupt: Callable[[int], None]) -> None:
        self._threads, self._interrupt = threads, interrupt
        self._limiter: CapacityLimiter | None = None
        self._running: weakref.WeakSet[Run] = weakref.WeakSet()

    async def run(
        self,
        work: Callable[[threading.Event], T],
        gone: Callable[[], Awaitable[None]],
        seconds: float,
    ) -> T:
        """Do the work in a thread; stop it when ``gone`` returns, or after ``seconds``."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._threads)
        run = Run(work, self._interrupt)
        self._running.add(run)
        results: list[T] = []
        failures: list[Exception] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._stop_when_gone, run, gone)
            group.start_soon(self._stop_when_late, run, seconds)
            try:
                results.append(await to_thread.run_sync(run, limiter=self._limiter))
            except Exception as error:  # noqa: BLE001 - carried out of the group as it is
                failures.append(error)
            group.cancel_scope.cancel()
        if failures:
            raise failures[0]
        return results[0]

    @staticmethod
    async def _stop_when_gone(run: Run, gone: Callable[[], Awaitable[None]]) -> None:
        await gone()
        await _stop(run)

    @staticmethod
    async def _stop_when_late(run: Run, seconds: float) -> None:
        await anyio.sleep(seconds)
        await _stop(run)

    def stop_all(self) -> None:
        """Stop everything that has not reached its commit."""
        for run in list(self._running):
            run.stop()


async def _stop(run: Run) -> None:
    """Keep stopping a run until cancelled: one of its scans may begin after the first try."""
    while True:
        run.stop()
        await anyio.sleep(_AGAIN)
