"""All that a session says, draws and writes, so that it can be compared on tables that differ in their rows."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpnb import DpnbError
from tests.kit.noise import BlindNoise, Draw, Name

LONG = os.environ.get("DPNB_LONG") == "1"
"""Whether streams are compared in full, on every table."""


@contextmanager
def silence(caplog: Any, capfd: Any) -> Iterator[None]:
    """Hold that nothing is warned, logged or printed."""
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        caplog.clear()
        yield
    assert [str(item.message) for item in warned] == []
    assert [record.message for record in caplog.records] == []
    assert capfd.readouterr() == ("", "")


class WatchedNoise(BlindNoise):
    """Blind noise that also notes whether all that it was given were whole numbers."""

    def __init__(self, *, last: bool = False) -> None:
        super().__init__(last=last)
        self.whole = True

    def _note(self, name: Name, exact: Sequence[int], scale: float) -> list[int]:
        integers = (
            exact.dtype == np.int64 if name == "largest" else {type(one) for one in exact} <= {int}
        )
        self.whole = self.whole and bool(integers)
        return super()._note(name, exact, scale)

    def coins(self, probability: float, count: int) -> list[bool]:
        found = super().coins(probability, count)
        self.draws[-1] = Draw("coins", (0,) * count, probability)
        return found

    @property
    def asked(self) -> list[tuple[str, int, float]]:
        """What was asked for, without the exact values: these may differ between tables."""
        return [(draw.name, len(draw.exact), draw.scale) for draw in self.draws]


def outcome(work: Callable[[], Any]) -> Any:
    """Return what a piece of work returns, or everything that its refusal holds."""
    try:
        return work()
    except DpnbError as error:
        return (
            type(error).__name__, error.args, str(error), repr(error.__cause__),
            repr(error.__context__),
        )  # fmt: skip


def refusals(said: Iterable[Any]) -> list[str]:
    """Return the names of the errors among outcomes."""
    return [
        one[0] for one in said if isinstance(one, tuple) and str(one[0]).endswith("Error")
    ]  # fmt: skip


def entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a ledger file, without what differs for every ledger and table."""
    connection = sqlite3.connect(path)
    bodies = [json.loads(b) for (b,) in connection.execute("SELECT body FROM entry ORDER BY seq")]
    connection.close()
    hidden = {"time", "secret", "fingerprint"}
    return [{key: value for key, value in body.items() if key not in hidden} for body in bodies]


def compared(tables: Iterable[str], **names: Sequence[str]) -> list[tuple[str, str]]:
    """Return which tables are compared under which privacy definition.

    All under each where streams are compared in full; else those named, which differ in kind.
    """
    return [(each, name) for each, few in names.items() for name in (tables if LONG else few)]
