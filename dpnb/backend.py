"""Backends of one analyst's session: in this process, or a service (``dpnb.server.client``)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpnb import verbs
from dpnb.releases.call import Call
from dpnb.releases.runner import Runner
from dpnb.results import Asked, BudgetStatus
from dpnb.schema.table import Table


class Backend(Protocol):
    """Backend that carries out the calls of one analyst. Its results give no access to data."""

    def run(self, call: Call, cancel: threading.Event) -> Any:
        """Carry out a call and return its result."""
        ...

    def price(self, call: Call) -> Any:
        """Return what a call would cost, without spending anything."""
        ...

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        ...

    @property
    def budget(self) -> BudgetStatus:
        """The analyst's cap, spent and remaining."""
        ...

    @property
    def history(self) -> Sequence[Asked]:
        """The analyst's requests, oldest first."""
        ...

    @property
    def tables(self) -> Mapping[str, Table]:
        """The declared tables by name, without their rows."""
        ...

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in the thread with the given identifier."""
        ...

    def close(self) -> None:
        """Release all open resources."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class LocalBackend:
    """A runner in this process; ``owned`` if only this session uses it."""

    runner: Runner
    analyst: str
    owned: bool = False

    def run(self, call: Call, cancel: threading.Event) -> Any:
        """Carry out a call and return its result."""
        return verbs.run(self.runner, self.analyst, call, cancel)

    def price(self, call: Call) -> Any:
        """Return what a call would cost."""
        return verbs.price(self.runner, self.analyst, call)

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        return self.runner.store.name

    @property
    def budget(self) -> BudgetStatus:
        """The analyst's cap, spent and remaining."""
        return verbs.budget(self.runner, self.analyst)

    @property
    def history(self) -> Sequence[Asked]:
        """The analyst's requests."""
        return verbs.history(self.runner, self.analyst)

    @property
    def tables(self) -> Mapping[str, Table]:
        """The declared tables, without their rows."""
        return {
            name: Table(name, None, table.schema, public=table.public, key=table.key)
            for name, table in self.runner.own.items()
        }

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in a thread."""
        self.runner.interrupt(thread)

    def close(self) -> None:
        """Close the runner if it was opened for this session alone."""
        if self.owned:
            self.runner.close()
