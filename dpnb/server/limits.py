"""Limits on requests and connections, and the requests that idempotency keys stand for."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from dpnb.errors import RequestError
from dpnb.server.refusals import RefusedError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the service for its clients.

    Attributes
    ----------
    body : int
        Bytes of one request's body.
    rate : float
        Requests per second of one analyst, on average.
    burst : int
        Requests of one analyst that may come at once.
    concurrent : int
        Requests of one analyst that may run at the same time.
    seconds : float
        Time for one request, in seconds; then its scan is stopped.
    head, upload, reply : float
        Seconds for the head and the body of a request to arrive, and for its reply to be taken.
    idle : float
        Seconds for which a connection is kept without a request.
    connections : int
        Connections at the same time.
    strangers, per_address : int
        Connections whose clients have not shown an accepted token: in all, and from one address.
        The places above ``strangers`` are kept for analysts.
    threads : int
        Requests of all analysts that may run at the same time.
    keys : int
        Idempotency keys that are remembered.
    """

    body: int = 1_000_000
    rate: float = 100.0
    burst: int = 200
    concurrent: int = 8
    seconds: float = 300.0
    head: float = 10.0
    upload: float = 20.0
    reply: float = 120.0
    idle: float = 30.0
    connections: int = 512
    strangers: int = 256
    per_address: int = 64
    threads: int = 32
    keys: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 < getattr(self, name) < math.inf:
                raise RequestError(f"the limit {name} must be above 0", "Give a positive number.")


@dataclass(slots=True)
class _Account:
    tokens: float
    filled: float
    running: int = 0


@dataclass(slots=True)
class Gate:
    """Limits each analyst's requests to the declared rate (a token bucket)."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _accounts: dict[str, _Account] = field(default_factory=dict)

    def enter(self, analyst: str) -> None:
        """Count a request that starts.

        Raises
        ------
        RefusedError
            If there are too many requests, by rate or at the same time.
        """
        now, limits = self.clock(), self.limits
        account = self._accounts.setdefault(analyst, _Account(limits.burst, now))
        filled = account.tokens + (now - account.filled) * limits.rate
        account.tokens, account.filled = min(float(limits.burst), filled), now
        if account.tokens < 1:
            wait = math.ceil((1 - account.tokens) / limits.rate)
            raise RefusedError(429, "too many requests", f"Ask again in {wait} s.", wait)
        if account.running >= limits.concurrent:
            raise RefusedError(
                429,
                f"{limits.concurrent} of your requests are running",
                "Wait for one of them, or stop it.",
                1,
            )
        account.tokens -= 1
        account.running += 1

    def leave(self, analyst: str) -> None:
        """Count a request that ends."""
        self._accounts[analyst].running -= 1


@dataclass(slots=True)
class Keys:
    """The requests that idempotency keys stand for: each key is for one request."""

    most: int
    _digests: OrderedDict[tuple[str, str], bytes] = field(default_factory=OrderedDict)

    def check(self, analyst: str, key: str, digest: bytes) -> None:
        """Remember the request that a key stands for.

        Raises
        ------
        RefusedError
            If the key stands for another request.
        """
        name = analyst, key
        earlier_digest = self._digests.get(name)
        if earlier_digest is not None and earlier_digest != digest:
            raise RefusedError(
                409,
                "this request identifier was already used for another request",
                "Send a new identifier. Nothing was charged.",
            )
        self._digests[name] = digest
        self._digests.move_to_end(name)
        while len(self._digests) > self.most:
            self._digests.popitem(last=False)
