"""Limits on connections: how long each part of a request may take, and which ones are closed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from dpnb.server.limits import Limits

Phase: TypeAlias = Literal["head", "work", "reply", "body", "idle"]
"""What a connection waits for: the rest of a request's head, the service, the client to take the
reply, the rest of a body that nobody reads, or another request."""


class Connection(Protocol):
    """The properties of a connection that the limits use."""

    @property
    def address(self) -> str:
        """Address of the client."""

    @property
    def phase(self) -> Phase:
        """What the connection waits for."""

    @property
    def request(self) -> object:
        """An object that is different for each request."""

    @property
    def signed_in(self) -> bool:
        """Whether the request has shown an accepted token."""

    def end(self) -> None:
        """Close the connection at once, without sending pending data."""


_PATIENCE = 1.0
"""Seconds for which :meth:`Connections.look` does not count a new connection as a stranger."""


@dataclass(frozen=True, slots=True)
class _Wait:
    opened: float
    since: float
    phase: Phase
    request: object


@dataclass(slots=True)
class Connections:
    """All connections of a service, oldest first.

    A client that has not shown an accepted token is a stranger. Strangers never take the places of
    analysts: if there are too many strangers, the oldest are closed. If every place is taken, the
    oldest stranger gives way if strangers use up their places, else the connection that has waited
    longest.
    """

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _waits: dict[Connection, _Wait] = field(default_factory=dict)

    def enter(self, connection: Connection) -> None:
        """Note a new connection; another one gives way to it if all places are taken."""
        leaving = self._giving_way()
        if leaving is not None:
            self._end(leaving)
        now = self.clock()
        self._waits[connection] = _Wait(now, now, connection.phase, connection.request)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
        self._waits.pop(connection, None)

    def look(self) -> None:
        """Close connections that wait too long and strangers that are too many. Call this often."""
        now = self.clock()
        for connection, wait in list(self._waits.items()):
            phase, request = connection.phase, connection.request
            if phase != wait.phase or request is not wait.request:
                self._waits[connection] = _Wait(wait.opened, now, phase, request)
            elif now - wait.since > self._seconds(phase):
                self._end(connection)
        address_counts = Counter[str]()
        for connection in reversed(self._strangers()):
            if now - self._waits[connection].opened < _PATIENCE:
                continue
            full = address_counts.total() >= self.limits.strangers
            if full or address_counts[connection.address] >= self.limits.per_address:
                self._end(connection)
            else:
                address_counts[connection.address] += 1

    def _strangers(self) -> list[Connection]:
        return [
            connection
            for connection in self._waits
            if not connection.signed_in and connection.phase != "work"
        ]

    def _giving_way(self) -> Connection | None:
        """Return the connection that gives way to a new one; None if none must, or none can."""
        if len(self._waits) < self.limits.connections:
            return None
        strangers = self._strangers()
        if len(strangers) >= self.limits.strangers:
            return strangers[0]
        waiting = [connection for connection in self._waits if connection.phase != "work"]
        # a connection that is taking a reply comes last
        return min(
            waiting,
            key=lambda connection: (connection.phase == "reply", self._waits[connection].since),
            default=None,
        )

    def _seconds(self, phase: Phase) -> float:
        limits = self.limits
        # work has its own limits: on reading the body, and on the whole request
        return {
            "head": limits.head, "work": float("inf"), "reply": limits.reply, "body": limits.upload,
            "idle": limits.idle,
        }[phase]  # fmt: skip

    def _end(self, connection: Connection) -> None:
        self.leave(connection)
        connection.end()
