"""What was worked out before and would come out the same: requests that were read, plans, merged answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 5_000
"""How many results are kept."""


class Memo:
    """Keeps the last result of each piece of work, with what it rests on.

    Everything in it follows from public facts and from what was released; nothing is lost with it but time.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Hashable, Any]] = {}

    def at(
        self,
        key: Hashable | None,
        stamp: Hashable,
        make: Callable[[], T],
        keep: Callable[[T], bool] | None = None,
    ) -> T:
        """Return what ``make`` gave for a key on a stamp, or gives now; an error is not kept.

        Parameters
        ----------
        key : hashable or None
            What is worked out; None for what is not kept.
        stamp : hashable
            What it rests on besides, such as the ledger's sequence: of another one the result is forgotten.
        make : callable
        keep : callable, optional
            Whether a result is kept; by default each is.
        """
        found = None if key is None else self._kept.get(key)
        if found is not None and found[0] == stamp:
            result: T = found[1]
            return result
        made = make()
        if key is not None and (keep is None or keep(made)):
            self._kept.pop(key, None)
            if len(self._kept) >= MOST:
                # the one that was worked out longest ago
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = stamp, made
        return made

    def __len__(self) -> int:
        return len(self._kept)
