"""The public tables in a database of their own, where subqueries over them are evaluated.

It holds the normalised values of tables with ``public=True`` and nothing else, and reaches no file,
setting or other table. Every subquery is evaluated once while the tables are open.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dpnb.engines.scans import Engine
from dpnb.errors import RequestError
from dpnb.schema.columns import Category, Kind
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date, Timestamp, value_of
from dpnb.schema.types import Boolean
from dpnb.sql.dataless import EvaluationError, TimeLimitError, empty, run

MOST_ROWS = 1_000_000
"""Most rows of a public table that a subquery can read."""
MOST_RESULTS = 1_000
"""Most rows of the result of a subquery."""


class PublicTables:
    """Evaluates subqueries over public tables.

    Parameters
    ----------
    tables : mapping of str to Table
        Those that are not public are never read.
    engines : mapping of str to Engine
    """

    def __init__(self, tables: Mapping[str, Table], engines: Mapping[str, Engine]) -> None:
        self._tables = {name: table for name, table in tables.items() if table.public}
        self._engines = engines
        self._lock = threading.Lock()
        self._database: Any = None
        self._loaded: set[str] = set()
        self._results: dict[str, list[tuple[Any, ...]]] = {}

    def __call__(self, select: str, names: Collection[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT that reads the named tables.

        Raises
        ------
        RequestError
            If a table or the result is too large, or the subquery has no result.
        """
        with self._lock:
            if select not in self._results:
                self._results[select] = self._evaluated(select, names)
            return self._results[select]

    def close(self) -> None:
        """Forget the tables and the results."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database, self._loaded, self._results = None, set(), {}

    def _evaluated(self, select: str, names: Collection[str]) -> list[tuple[Any, ...]]:
        if self._database is None:
            self._database = empty()
        for name in sorted(set(names) - self._loaded):
            self._load(self._tables[name])
            self._loaded.add(name)
        limited = f"SELECT * FROM ({select}) LIMIT {MOST_RESULTS + 1}"
        failure: RequestError | None = None
        rows: list[tuple[Any, ...]] = []
        try:
            rows = run(self._database, limited, lambda cursor: list(cursor.fetchall()))
        except TimeLimitError:
            failure = RequestError("this subquery takes too long", "Simplify it.")
        except EvaluationError:
            failure = RequestError(
                "this subquery has no result",
                "Try it on the public tables alone: it may name only their columns.",
            )
        if failure is not None:
            raise failure
        if len(rows) > MOST_RESULTS:
            raise RequestError(
                f"this subquery has more than {MOST_RESULTS:,} rows", "Select fewer."
            )
        return rows

    def _load(self, table: Table) -> None:
        rows = self._engines[table.name].listed(MOST_ROWS)
        if len(rows) > MOST_ROWS:
            raise RequestError(
                f"{table.name!r} has more than {MOST_ROWS:,} rows",
                "Subqueries read smaller public tables.",
            )
        # in one order, so that sums of real numbers are the same on every day
        ordered = sorted(rows, key=lambda row: [(code is None, code or 0) for code in row])
        kinds = table.schema.items()
        codes = list(zip(*ordered, strict=True)) or [()] * len(kinds)
        columns = [
            f"unnest(${i + 1}::{_type(kind)}[]) AS {_quoted(name)}"
            for i, (name, kind) in enumerate(kinds)
        ]
        self._database.execute(
            f"CREATE TABLE {_quoted(table.name)} AS SELECT {', '.join(columns)}",
            [_values(kind, column) for (_, kind), column in zip(kinds, codes, strict=True)],
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(kind: Kind) -> str:
    if isinstance(kind, Category):
        return "VARCHAR"
    if isinstance(kind, Boolean):
        return "BOOLEAN"
    if isinstance(kind, Date | Timestamp):
        return kind.kind.upper()
    return "BIGINT" if kind.scale.integral else "DOUBLE"


def _values(kind: Kind, codes: Sequence[Any]) -> list[Any]:
    """Return the values of codes."""
    if isinstance(kind, Category):
        return [None if code is None else kind.values[int(code)] for code in codes]
    if isinstance(kind, Boolean):
        return [None if code is None else bool(code) for code in codes]
    if isinstance(kind, Date | Timestamp):
        return [None if code is None else value_of(kind, code) for code in codes]
    return list(codes)
