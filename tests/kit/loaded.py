"""Rows that are loaded once: curators of equal tables share a DuckDB, which costs 20 ms to open.

Noise, ledger, budget and whatever else a curator remembers are its own; rows are only read. An engine that
keeps more than rows (ids, joined tables, columns in memory) loads its own. A conftest switches it on for its folder::

    from tests.kit.loaded import loaded_once  # noqa: F401

What is about loading itself builds a ``DuckDBEngine``, which is not touched.
"""

from __future__ import annotations

import atexit
import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpnb
from dpnb.engines import choice
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.schema.table import Table

_MOST = 40
_STORED = Path(dpnb.__file__).parent, Path(__file__).parents[1] / "data"
"""What lies there does not change."""
_engine_of = choice.engine_of
_engines: OrderedDict[bytes, DuckDBEngine] = OrderedDict()
# DuckDB's module complains of connections that outlive it
atexit.register(_engines.clear)


class LoadedEngine(DuckDBEngine):
    """An engine whose rows another one has loaded."""

    def __init__(self, table: Table, loaded: DuckDBEngine) -> None:
        self.__dict__.update(vars(loaded))
        self._table, self._shared = table, loaded

    def _load_own(self) -> None:
        if self._shared is not None:
            self.__dict__.update(vars(DuckDBEngine(self._table)), _shared=None)

    def _load_rows(self) -> None:
        if self._shared is None:
            super()._load_rows()
        else:
            self._shared._load_rows()
            self._files, self._in_place = self._shared._files, self._shared._in_place

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        if self._shared is None:
            super().bound(key, last)
            return
        if self._shared._arrays is None:
            self._shared.bound(key)
        self._arrays = self._shared._arrays

    def _load_columns(self, names: Any) -> Any:
        if self._shared is None:
            return super()._load_columns(names)
        self._arrays = self._shared._load_columns(names)
        return self._arrays

    def join(self, other: Any, join: Any) -> None:
        self._load_own()
        super().join(other, join)

    def paired(self, other: Any, table: Table) -> DuckDBEngine:
        self._load_own()
        return super().paired(other, table)

    def close(self) -> None:
        if self._shared is None:
            super().close()


def _contents(table: Table) -> bytes | None:
    """Return a digest of rows and schema; None where they are not kept."""
    source = table.source
    stored = isinstance(source, Path) and any(map(source.resolve().is_relative_to, _STORED))
    if table.unit is not None or table.in_memory:
        return None
    if not (stored or isinstance(source, pd.DataFrame)):
        return None
    parts = table.name, source, table.schema, table.key, table.in_memory
    return hashlib.blake2b(pickle.dumps(parts)).digest()


def engine_of(table: Table) -> Any:
    """Return an engine as ``dpnb.engines.choice.engine_of`` does, of rows that are loaded once."""
    name = _contents(table)
    if name is None:
        return _engine_of(table)
    loaded = _engines.pop(name, None) or DuckDBEngine(table)
    _engines[name] = loaded
    if len(_engines) > _MOST:
        # somebody may still use it
        _engines.popitem(last=False)
    return LoadedEngine(table, loaded)


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """Let the curators of a module share loaded rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "engine_of", engine_of)
        yield
