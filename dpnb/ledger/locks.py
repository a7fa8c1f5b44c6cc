"""The lock of a file that is used for nothing else, which ends when its holder does."""

from __future__ import annotations

import os
import time
from pathlib import Path


def hold(lock: Path, timeout: float | None = None) -> int:
    """Return a descriptor that holds a lock, made where it is not there, until it is closed.

    Parameters
    ----------
    timeout : float, optional
        Seconds to wait for another holder; without end by default.

    Raises
    ------
    TimeoutError
        When somebody else holds it still.
    OSError
        When it cannot be made.
    """
    import fcntl

    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if timeout is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return descriptor
        end = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError from None
                time.sleep(0.01)
            else:
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
