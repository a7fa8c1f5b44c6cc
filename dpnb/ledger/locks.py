"""A lock on a file of its own, which ends when the process that holds it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path


def hold(lock: Path, timeout: float | None = None) -> int:
    """Return a descriptor that holds a lock until it is closed; create the file if necessary.

    Parameters
    ----------
    timeout : float, optional
        Seconds to wait for another holder; forever by default.

    Raises
    ------
    TimeoutError
        When another process still holds it.
    OSError
        When the file cannot be created.
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
