"""A small declared table, and statements read against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from dpnb.kinds import Category, Date, Integer, Real
from dpnb.schema import Schema
from dpnb.sql.parse import parse
from dpnb.sql.query import Query
from dpnb.table import Table


@pytest.fixture(scope="session")
def schema() -> Schema:
    """Keys a, b, d, age; numbers of every make."""
    return Schema(
        {
            "a": Category(["x", "y", "z"]),
            "b": Category(["u", "v"]),
            "d": Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]),
            "age": Integer(17, 90, bins=[17, 30, 50, 90]),
            "bit": Integer(0, 1),
            "gain": Real(0, 99_999),
            "score": Real(-5.0, 5.0),
        }
    )


@pytest.fixture(scope="session")
def read(schema: Schema) -> Callable[..., Query]:
    """From a statement's text to its meaning; no data are involved."""
    table = Table("t", None, schema)

    def parsed(sql: str, params: Mapping[str, object] | None = None) -> Query:
        return parse(sql, {"t": table}, params)

    return parsed
