"""A cache of work whose result would be the same again: parsed requests, plans, merged answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 5_000_000
"""Approximate number of values that are kept in all results together."""
_FRAME = 500
"""Fixed size of a result in addition to its values, counted in values."""


class Memo:
    """Keeps the last result for each key, with the stamp that the result depends on.

    Everything in it follows from public facts and from releases; losing it costs only time.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Hashable, Any, int]] = {}
        self._size = 0
        self._lock = threading.Lock()

    def at(
        self,
        key: Hashable | None,
        stamp: Hashable,
        make: Callable[[], T],
        size: Callable[[T], int] = lambda _: 0,
    ) -> T:
        """Return the result for a key and a stamp, from the cache or from ``make``; keep no error.

        Parameters
        ----------
        key : hashable or None
            Identifies the work; None if the result is not to be kept.
        stamp : hashable
            What else the result depends on, such as the ledger's sequence number. A result with
            another stamp is replaced.
        make : callable
        size : callable, optional
            Number of values in a result, if there may be many. A result larger than a fiftieth of
            the total limit is not kept.
        """
        entry = None if key is None else self._kept.get(key)
        if entry is not None and entry[0] == stamp:
            result: T = entry[1]
            return result
        new_result = make()
        if key is not None:
            self._keep(key, stamp, new_result, _FRAME + size(new_result))
        return new_result

    def get(self, key: Hashable | None) -> Any:
        """Return the result that is kept for a key, or None; for results that depend on nothing else."""
        stamp, result, _ = self._kept.get(key, (None, None, 0))
        return result if stamp is None else None

    def _keep(self, key: Hashable, stamp: Hashable, result: object, size: int) -> None:
        """Keep a result, and drop the oldest ones while there are too many values."""
        with self._lock:
            self._drop(key)
            if size <= MOST // 50:
                self._kept[key] = stamp, result, size
                self._size += size
            while self._size > MOST:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        self._size -= self._kept.pop(key, (None, None, 0))[2]

    def __len__(self) -> int:
        return len(self._kept)
