"""Who may stay connected: how long each part of a request may take, and who gives way to newcomers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from dpnb.server.limits import Limits

Phase: TypeAlias = Literal["head", "work", "reply", "body", "idle"]
"""What a connection waits for: the rest of a request's head, the service, its client to take the reply,
the rest of a body that nobody reads, or another request."""


class Connection(Protocol):
    """What is looked at of one connection."""

    @property
    def address(self) -> str:
        """Where its client is."""

    @property
    def phase(self) -> Phase:
        """What it waits for."""

    @property
    def request(self) -> object:
        """Another object for each request."""

    @property
    def signed_in(self) -> bool:
        """Whether its request has shown a token that is accepted."""

    def end(self) -> None:
        """Close it at once, whatever is on its way."""


_PATIENCE = 1.0
"""Seconds for which a newcomer is not yet counted among the strangers that are too many."""


@dataclass(frozen=True, slots=True)
class _Wait:
    opened: float
    since: float
    phase: Phase
    request: object


@dataclass(slots=True)
class Connections:
    """All connections of a service, oldest first.

    A client that has not shown a token is a stranger. Strangers never keep the places of analysts: where
    they are too many, the oldest ones go, and where every place is taken, one of them gives way.
    """

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _waits: dict[Connection, _Wait] = field(default_factory=dict)

    def enter(self, connection: Connection) -> None:
        """Note a new connection; another one gives way to it where all places are taken."""
        leaving = self._giving_way()
        if leaving is not None:
            self._end(leaving)
        now = self.clock()
        self._waits[connection] = _Wait(now, now, connection.phase, connection.request)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
        self._waits.pop(connection, None)

    def look(self) -> None:
        """End those that keep the service waiting too long or are too many; to be called often."""
        now = self.clock()
        for connection, wait in list(self._waits.items()):
            phase, request = connection.phase, connection.request
            if phase != wait.phase or request is not wait.request:
                self._waits[connection] = _Wait(wait.opened, now, phase, request)
            elif now - wait.since > self._seconds(phase):
                self._end(connection)
        kept = Counter[str]()
        for connection in reversed(self._strangers()):
            if now - self._waits[connection].opened < _PATIENCE:
                continue
            full = kept.total() >= self.limits.strangers
            if full or kept[connection.address] >= self.limits.per_address:
                self._end(connection)
            else:
                kept[connection.address] += 1

    def _strangers(self) -> list[Connection]:
        return [one for one in self._waits if not one.signed_in and one.phase != "work"]

    def _giving_way(self) -> Connection | None:
        """Return who gives way to a newcomer; None where nobody must, or nobody can."""
        if len(self._waits) < self.limits.connections:
            return None
        strangers = self._strangers()
        if len(strangers) >= self.limits.strangers:
            return strangers[0]
        waiting = [one for one in self._waits if one.phase != "work"]
        # who takes a reply is disturbed last
        return min(
            waiting, key=lambda one: (one.phase == "reply", self._waits[one].since), default=None
        )

    def _seconds(self, phase: Phase) -> float:
        limits = self.limits
        # work has limits of its own: of the body that it reads, and of the whole
        return {
            "head": limits.head, "work": float("inf"), "reply": limits.reply, "body": limits.upload,
            "idle": limits.idle,
        }[phase]  # fmt: skip

    def _end(self, connection: Connection) -> None:
        self.leave(connection)
        connection.end()
