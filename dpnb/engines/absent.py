"""The engine of a table whose data are not there, while its ledger is administered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from dpnb.engines.scans import Engine
from dpnb.errors import EngineError
from dpnb.schema.joins import Join
from dpnb.schema.table import NoData, Table
from dpnb.sql.features import Linked, Persons


class AbsentEngine:
    """Holds no rows, and refuses everything that needs some.

    Parameters
    ----------
    source : NoData
        What the ledger says about the table.
    """

    reading: Mapping[str, tuple[int, int]] = MappingProxyType({})

    def __init__(self, source: NoData) -> None:
        self._source = source

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return None for the tables that were joined when the ledger's version was opened."""
        if join.table in self._source.joined or len(join.path) > 1:
            return None
        return f"{join.table!r} was not joined in the ledger", "Open the curator with its tables."

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        """Do nothing: there are no rows."""

    def join(self, other: Engine, join: Join) -> None:
        """Do nothing: there are no rows."""

    def paired(self, other: Engine, table: Table) -> Engine:
        """Return an engine without rows."""
        return AbsentEngine(self._source)

    def persons(self, persons: Persons) -> Engine:
        """Return an engine without rows."""
        return AbsentEngine(self._source)

    def linked(self, linked: Linked, lines: Sequence[Engine]) -> Engine:
        """Return an engine without rows."""
        return AbsentEngine(self._source)

    def interrupt(self, thread: int) -> None:
        """Do nothing: nothing runs."""

    def close(self) -> None:
        """Do nothing: there are no rows."""

    def _refuse(self, *arguments: Any) -> NoReturn:
        raise EngineError(
            "the ledger was opened without the data",
            "Nothing was charged. Open it with its tables.",
        )

    fingerprint = measure = marginals = histograms = contributions = tally = check = listed = (
        _refuse
    )
