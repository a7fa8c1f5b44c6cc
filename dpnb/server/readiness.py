"""Readiness: whether requests can be answered now, checked on demand and not too often."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio
from anyio import CapacityLimiter, to_thread

from dpnb.errors import DpnbError

log = logging.getLogger("dpnb.server")
_FRESH = 2.0
"""Seconds for which the result of a check is reused."""
_PATIENCE = 2.0
"""Seconds after which an unfinished check counts as not ready."""


class Readiness:
    """A check whether requests can be answered; only one check runs at a time.

    Parameters
    ----------
    check : callable
        Returns whether requests can be answered, or raises an error that says why not.
    """

    def __init__(self, check: Callable[[], bool]) -> None:
        self._check = check
        self._limiter: CapacityLimiter | None = None
        self._ready, self._looking, self._until = True, False, 0.0

    async def ready(self) -> bool:
        """Return whether requests can be answered."""
        if not self._looking and time.monotonic() >= self._until:
            self._looking = True
            if self._limiter is None:
                self._limiter = CapacityLimiter(1)
            with anyio.move_on_after(_PATIENCE):
                await to_thread.run_sync(self._look, limiter=self._limiter, abandon_on_cancel=True)
            if self._looking:
                self._ready = False
        return self._ready

    def _look(self) -> None:
        ready, why = False, ""
        try:
            ready = self._check()
        except DpnbError as error:
            # the error has only public facts, and the log is for the owner
            why = str(error)
        except Exception:  # noqa: BLE001, S110 - the text of an error can hold values
            pass
        if why and self._ready:
            log.error("requests cannot be answered: %s", why)
        self._ready, self._until, self._looking = ready, time.monotonic() + _FRESH, False
