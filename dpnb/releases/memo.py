"""What was worked out before and would come out the same: requests that were read, plans, merged answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 5_000_000
"""About how many values are kept, whatever they belong to."""
_FRAME = 500
"""What a result takes beside its values, counted in values."""


class Memo:
    """Keeps the last result of each piece of work, with what it rests on.

    Everything in it follows from public facts and from what was released; nothing is lost with it but time.
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
        """Return what ``make`` gave for a key on a stamp, or gives now; an error is not kept.

        Parameters
        ----------
        key : hashable or None
            What is worked out; None for what is not kept.
        stamp : hashable
            What it rests on besides, such as the ledger's sequence: of another one the result is forgotten.
        make : callable
        size : callable, optional
            How many values a result holds, where these may be many. One with more than a fiftieth of all that
            are kept is not kept.
        """
        found = None if key is None else self._kept.get(key)
        if found is not None and found[0] == stamp:
            result: T = found[1]
            return result
        made = make()
        if key is not None:
            self._keep(key, stamp, made, _FRAME + size(made))
        return made

    def _keep(self, key: Hashable, stamp: Hashable, made: object, size: int) -> None:
        """Keep a result in the place of what was worked out longest ago."""
        with self._lock:
            self._drop(key)
            if size <= MOST // 50:
                self._kept[key] = stamp, made, size
                self._size += size
            while self._size > MOST:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        self._size -= self._kept.pop(key, (None, None, 0))[2]

    def __len__(self) -> int:
        return len(self._kept)
