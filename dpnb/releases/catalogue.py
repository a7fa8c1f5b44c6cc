"""The declared views of a curator: their exact counts, and the choice of one for a statement."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

from dpnb.engines.scans import Engine
from dpnb.errors import RequestError, SchemaError
from dpnb.ledger.accountant import Accountant
from dpnb.ledger.mechanism import LevelTarget
from dpnb.ledger.store import Store
from dpnb.privacy.definition import BASIC
from dpnb.releases.accuracy import Accuracy
from dpnb.releases.plan import Part, basic_level, declared_level
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate, Query
from dpnb.views.alignment import Alignment, align, columns_of
from dpnb.views.histogram import Histogram, Strategy, histogram
from dpnb.views.view import View

_MOST_ALIGNED = 5_000_000
"""Approximate number of bins in all alignments that are kept."""


class DeclaredViews:
    """Declared views with their exact counts, which never leave the curator.

    Each view is built once for each version of its table; one statement counts all missing views of
    a table.
    """

    def __init__(self, tables: Mapping[str, Table], engines: Mapping[str, Engine]) -> None:
        self._tables, self._engines = tables, engines
        self._views: dict[tuple[str, str, int], Histogram | None] = {}
        self._exact: dict[str, Sequence[int]] = {}
        self._aligned: dict[tuple[object, ...], Alignment | None] = {}
        self._building = threading.Lock()

    def of(self, table: str, store: Store) -> list[Histogram]:
        """Return the declared views of a table in its current version."""
        version = store.version(table)
        histograms: list[Histogram | None] = []
        for name, declared in store.provenance.views.items():
            if declared["table"] == table:
                key = name, table, version
                if key not in self._views:
                    self._views[key] = _fitting(name, declared, version, self._tables[table].schema)
                histograms.append(self._views[key])
        return [view for view in histograms if view is not None]

    def aligned(self, aggregate: Aggregate, query: Query, view: Histogram) -> Alignment | None:
        """Return how a view answers an aggregate of a query; None if it cannot."""
        key = (
            view.id, aggregate.function, aggregate.value, aggregate.filter, query.where, query.keys,
        )  # fmt: skip
        if key not in self._aligned:
            if (len(self._aligned) + 1) * view.size > _MOST_ALIGNED:
                self._aligned.clear()
            self._aligned[key] = align(aggregate, query, view)
        return self._aligned[key]

    def all_names(self, store: Store) -> dict[str, str]:
        """Return the names of all declared views of the current table versions, by id."""
        return {view.id: view.name for table in self._tables for view in self.of(table, store)}

    def names(self, views: Collection[str]) -> dict[str, list[str]]:
        """Return the names of the declared views among ``views``, by id."""
        view_names: dict[str, list[str]] = {}
        for view in self._views.values():
            if view is not None and view.id in views:
                view_names.setdefault(view.id, []).append(view.name)
        return view_names

    def build(self, views: Iterable[Histogram]) -> None:
        """Count the bins of views that are not counted yet, with one statement for each table."""
        with self._building:
            missing: dict[str, dict[str, Histogram]] = {}
            for view in views:
                if view.id not in self._exact:
                    missing.setdefault(view.table, {})[view.id] = view
            for table, new in missing.items():
                counts = self._engines[table].histograms([view.keys for view in new.values()])
                for i, (name, view) in enumerate(new.items()):
                    self._exact[name] = view.measured(counts.reveal(i))

    def exact(self, view: Histogram) -> Sequence[int]:
        """Return the exact values of a view, in lattice units; use them only to add noise."""
        # counts that are kept could outlive the file that they were counted in
        self._engines[view.table].check()
        if view.id not in self._exact:
            self.build([view])
        return self._exact[view.id]

    def __repr__(self) -> str:
        return "DeclaredViews(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


@dataclass(frozen=True, slots=True)
class Choice:
    """The declared views that may answer one analyst.

    Parameters
    ----------
    stored : sequence of str or None
        For a repeated request: the declared view that answered each measured aggregate, None for
        aggregates with views of their own. The stored answer is given again.
    static : bool
        Whether the views have limits of their own, so that nothing else may be answered.
    """

    declared: DeclaredViews
    views: Sequence[Histogram]
    state: Accountant
    row: str
    stored: Sequence[str | None] | None
    static: bool

    def part(self, aggregate: Aggregate, query: Query, accuracy: Accuracy) -> Part | None:
        """Return the cheapest way to answer an aggregate from these views; None if there is none.

        The cheapest way costs least for all analysts together, then least for this account, then
        has the least noise (docs/methods/dprovdb.md, algorithm 16).
        On noise paths only the account counts: an answer must not show what other analysts did.
        """
        needed = columns_of(aggregate, query)
        parts = [
            _part(aggregate, alignment)
            for view in self.views
            if needed <= view.columns
            and (alignment := self.declared.aligned(aggregate, query, view)) is not None
        ]
        if self.stored is not None:
            stored_view = self.stored[query.measured.index(aggregate)]
            return next((part for part in parts if part.views()[0].id == stored_view), None)
        if not parts and self.static:
            raise RequestError(
                "no declared view answers this statement",
                "Use conditions and groups that consist of bins of one declared view.",
            )
        if len(parts) <= 1:
            return parts[0] if parts else None
        return min(parts, key=lambda part: self._rank(part, query, accuracy))

    def _rank(self, part: Part, query: Query, accuracy: Accuracy) -> tuple[Any, ...]:
        view = part.views()[0]
        target = self._target(part, view, query, accuracy)
        cost = self.state.cost(self.row, {view.id: target}, {view.id: view.definition()})
        privacy = self.state.privacy
        alone = self.state.mechanism_name == "path"
        table = Fraction(0) if alone else cost.table.level(privacy)
        noise = 0.0 if part.alignment is None else part.alignment.norm(None)
        return table, cost.row.level(privacy), noise, view.id

    def _target(self, part: Part, view: View, query: Query, accuracy: Accuracy) -> LevelTarget:
        if accuracy.level is None:
            return LevelTarget(declared_level(part, query, accuracy, self.state.privacy))
        if self.state.privacy is not BASIC:
            return LevelTarget(accuracy.level)
        level = basic_level(accuracy.level, self.state.budget.release_delta)
        return LevelTarget(level, accuracy.level)


def _part(aggregate: Aggregate, alignment: Alignment) -> Part:
    match aggregate.function:
        case Function.COUNT | Function.CELLS:
            return Part(aggregate, None, alignment.view, alignment)
        case Function.SUM:
            return Part(aggregate, alignment.view, None, alignment)
        case Function.AVG:
            return Part(aggregate, alignment.view, alignment.view, alignment)
        case Function.DISTINCT | Function.UNITS:
            raise TypeError("a histogram counts rows, not what is different")
        case _:
            assert_never(aggregate.function)


def declaration(
    table: str,
    columns: Sequence[str],
    bins: Mapping[str, Sequence[Any] | None] | None,
    strategy: Strategy | None,
) -> dict[str, Any]:
    """Return the ledger's record of a declared view."""
    return {
        "table": table,
        "columns": list(columns),
        "bins": {
            name: None if edges is None else [_plain(edge) for edge in edges]
            for name, edges in (bins or {}).items()
        },
        "strategy": None if strategy is None else [list(row) for row in strategy.matrix],
    }


def _plain(edge: Any) -> Any:
    return edge.isoformat() if hasattr(edge, "isoformat") else edge


def _fitting(
    name: str, declared: Mapping[str, Any], version: int, schema: Schema
) -> Histogram | None:
    """Return a declared view; None if the current schema has no place for it."""
    try:
        return read_view(name, declared, version, schema)
    except (RequestError, SchemaError):
        return None


def read_view(name: str, declared: Mapping[str, Any], version: int, schema: Schema) -> Histogram:
    """Build a declared view from the result of :func:`declaration`."""
    matrix = declared["strategy"]
    strategy = None if matrix is None else Strategy(tuple(map(tuple, matrix)))
    return histogram(
        declared["table"], version, schema, declared["columns"], declared["bins"], name, strategy
    )
