"""Who is let in: analysts with the privileges that tokens, files and the Hub give them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from dpnb.errors import RequestError
from dpnb.owner.administration import Administration
from dpnb.releases.runner import Runner
from dpnb.server.auth import Analyst, not_allowed

log = logging.getLogger("dpnb.server")


class Admission:
    """Enters analysts in the ledger; one whose privilege it does not allow is kept out.

    Parameters
    ----------
    runner : Runner
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._admitted: dict[str, Analyst] = {}
        self._obstacles: dict[str, str] = {}
        self._lock = threading.Lock()

    def admit(self, analyst: Analyst) -> None:
        """Enter an analyst with a privilege, unless that was done before.

        Raises
        ------
        RefusedError
            If the ledger does not allow it.
        """
        with self._lock:
            if self._admitted.get(analyst.name) != analyst and not self._entered(analyst):
                raise not_allowed()

    def admit_all(self, analysts: Iterable[Analyst]) -> None:
        """Enter the analysts that are known before any request."""
        with self._lock:
            for analyst in analysts:
                self._entered(analyst)

    def _entered(self, analyst: Analyst) -> bool:
        obstacle = ""
        try:
            with self._runner.reading():
                Administration(self._runner).admit(analyst.name, analyst.privilege)
        except RequestError as error:
            # it has only public facts, and the log is for the owner
            obstacle = str(error)
        if obstacle and obstacle != self._obstacles.get(analyst.name):
            log.error("%s is kept out: %s", analyst.name, obstacle)
        self._obstacles[analyst.name] = obstacle
        if obstacle:
            self._admitted.pop(analyst.name, None)
        else:
            self._admitted[analyst.name] = analyst
        return not obstacle
