"""Wait for a request that can be interrupted, and show its progress; end a process that serves."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dpnb.errors import InterruptedRequestError, RequestError, given

T = TypeVar("T")
Progress = Callable[[float], None]

_QUIET_SECONDS = 1.0
_TICK_SECONDS = 0.25


def wait(
    work: Callable[[], T],
    cancel: threading.Event,
    interrupt: Callable[[int], None],
    progress: Progress | None,
    *,
    free: bool = False,
    shown: bool = False,
) -> T:
    """Run ``work`` in a thread, so that an interrupt acts at once and its outcome is known.

    An interrupt stops the scan. A request that has reached its commit completes, and the error says
    so: its answer is in the ledger, and asking again is free. ``free`` work never costs anything.
    Work of several steps (``shown``) stops before the next step and returns what it has.
    """
    if progress is not None and not callable(progress):
        raise RequestError(
            f"progress must be a function, got {given(progress)}", "Write progress=print."
        )
    results: list[T] = []
    failures: list[BaseException] = []
    # not Thread.join: after an interrupt it treats a running thread as finished (CPython bpo-45274)
    began, done = threading.Event(), threading.Event()

    def run() -> None:
        began.set()
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            failures.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=run, name="dpnb request", daemon=True)
    start = time.monotonic()
    interrupted = False
    try:
        worker.start()
    except KeyboardInterrupt:
        interrupted = True
        cancel.set()
        if not began.wait(_QUIET_SECONDS):
            raise InterruptedRequestError("interrupted", "Nothing was charged.") from None
    while True:
        try:
            if done.wait(_TICK_SECONDS):
                break
            elapsed = time.monotonic() - start
            if progress is not None and elapsed > _QUIET_SECONDS:
                progress(elapsed)
        except KeyboardInterrupt:
            interrupted = True
            cancel.set()
            interrupt(worker.ident or 0)
    if failures:
        raise failures[0]
    if interrupted and free:
        raise InterruptedRequestError("interrupted", "Nothing was charged.")
    if interrupted and not shown:
        raise InterruptedRequestError(
            "interrupted after the answer was charged",
            "Run the same cell again to see it: that is free.",
        )
    return results[0]


def end_at_signals() -> dict[signal.Signals, Any]:
    """Let SIGTERM end the process at any moment with exit code 0; let it outlive its terminal.

    Only for a process that serves, in its main thread. Returns what was done at signals before.
    """

    def end(number: int, frame: object) -> None:
        # entries of the ledger are written whole: there is nothing to clean up
        os._exit(0)

    actions: dict[signal.Signals, Any] = {signal.SIGTERM: end, signal.SIGHUP: signal.SIG_IGN}
    return {number: signal.signal(number, act) for number, act in actions.items()}
