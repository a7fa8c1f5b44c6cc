"""Which statements the owner has looked at, and which terms were settled before.

Statement 17 of docs/methods/rdr.md. A limit, a target or a way to a level that is settled after an
exact figure of the statement was shown may depend on that figure. A release that uses it is marked
as data-dependent.
"""

from __future__ import annotations

import threading


class Looks:
    """The looks at one ledger in this process. Looks in a picker are also written to the ledger."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked: set[str] = set()
        self._settled: dict[str, set[str]] = {}

    def note(self, statement: str) -> None:
        """Note that an exact figure of a statement is shown."""
        with self._lock:
            self._looked.add(statement)

    def settle(self, statement: str, terms: str, *, late: bool = False) -> bool:
        """Settle terms of a statement; False if they are new after a look at it, or ``late``."""
        with self._lock:
            settled = self._settled.setdefault(statement, set())
            if not late and statement not in self._looked:
                settled.add(terms)
            return terms in settled

    def settled(self, statement: str) -> list[str]:
        """Return the terms that were settled before a look."""
        with self._lock:
            return sorted(self._settled.get(statement, ()))

    def __repr__(self) -> str:
        return "Looks(private)"
