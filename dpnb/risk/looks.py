"""Which statements the owner has looked at, and what was settled about each before (spec/exposure.md C).

A limit, a wish or a way to a level that is settled after an exact figure of the statement was shown
may have been chosen by it: what is released then is marked as data-dependent.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable


class Looks:
    """Of one curator, in memory: another kernel knows nothing of what this one has shown."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked: set[str] = set()
        self._settled: set[tuple[str, Hashable]] = set()

    def note(self, statement: str) -> None:
        """Note that an exact figure of a statement is shown."""
        with self._lock:
            self._looked.add(statement)

    def looked(self, statement: str) -> bool:
        """Return whether an exact figure of a statement was shown."""
        with self._lock:
            return statement in self._looked

    def settle(self, statement: str, terms: Hashable) -> bool:
        """Settle terms of a statement; False when they come after a look at it."""
        with self._lock:
            if statement not in self._looked:
                self._settled.add((statement, terms))
            return (statement, terms) in self._settled

    def __repr__(self) -> str:
        return "Looks(private)"
