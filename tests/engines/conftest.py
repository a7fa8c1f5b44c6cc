"""Shorthands: what an engine holds after loading, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpnb import Schema, Table
from dpnb.engines import duckdb
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.scans import Exact
from dpnb.privacy.definition import ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.sql.parser import parse
from tests.kit.one_database import one_database  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def nothing_is_small() -> Iterator[None]:
    """Tables are counted by DuckDB, and files are read in place, however few rows they have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "_SMALL_MB", -1)
        yield


@pytest.fixture
def codes() -> Callable[..., list[Any]]:
    """The normalised codes of the one column ``x`` of a source; the order of rows is free."""

    def load(source: Any, kind: Any) -> list[Any]:
        engine = DuckDBEngine(Table("t", source, Schema({"x": kind})))
        try:
            found = engine._connection.execute("SELECT c0 FROM rows").fetchall()
        finally:
            engine.close()
        return [value for (value,) in found]

    return load


@pytest.fixture
def vectors() -> Callable[..., list[list[int]]]:
    """The exact vectors that a statement rests on."""

    def measure(table: Table, sql: str, engine: DuckDBEngine | None = None) -> list[list[int]]:
        query = parse(sql, {table.name: table})
        planned = plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)
        own = DuckDBEngine(table) if engine is None else engine
        try:
            exact: Exact = own.measure(planned.scan(planned.views))
            return [list(exact.reveal(i)) for i in range(len(planned.views))]
        finally:
            if engine is None:
                own.close()

    return measure
