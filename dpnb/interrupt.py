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


_running = threading.local()
"""In a thread that somebody waits for: the event that says that it shall stop."""


def _interrupted() -> InterruptedRequestError:
    return InterruptedRequestError("interrupted", "Nothing was charged.")


def checkpoint() -> None:
    """Stop work that costs nothing, if whoever waits for this thread was interrupted.

    Raises
    ------
    InterruptedRequestError
    """
    cancel: threading.Event | None = getattr(_running, "cancel", None)
    if cancel is not None and cancel.is_set():
        raise _interrupted()


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
    so: its answer is in the ledger, and asking again is free. ``free`` work never costs anything,
    and is left behind if it does not stop soon: it must clean up when ``cancel`` is set. Work of
    several steps (``shown``) stops before the next step and returns what it has.

    Frames of the work hold rows, and a traceback keeps its frames. So no traceback leaves the
    thread: an error is raised here without its frames, its cause and its context.
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
        _running.cancel = cancel
        began.set()
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            failures.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=run, name="dpnb request", daemon=True)
    start = time.monotonic()
    interrupted: float | None = None
    try:
        worker.start()
    except KeyboardInterrupt:
        interrupted = time.monotonic()
        cancel.set()
        if not began.wait(_QUIET_SECONDS):
            raise _interrupted() from None
    while True:
        try:
            # a thread that an error killed at the wrong moment is never done
            if done.wait(_TICK_SECONDS) or not worker.is_alive():
                break
            now = time.monotonic()
            if free and interrupted is not None and now - interrupted > _QUIET_SECONDS:
                break
            if progress is not None and now - start > _QUIET_SECONDS:
                progress(now - start)
        except KeyboardInterrupt:
            interrupted = interrupted or time.monotonic()
            cancel.set()
            interrupt(worker.ident or 0)
        except BaseException:
            cancel.set()
            raise
    if free and interrupted is not None:
        raise _interrupted()
    if failures:
        failure = failures.pop()
        failure.__traceback__ = failure.__cause__ = failure.__context__ = None
        raise failure
    if not results:
        raise InterruptedRequestError(
            "interrupted", "Run the same cell again: what was charged is in the ledger, and free."
        )
    if interrupted is not None and not shown:
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
