"""Fixtures: a small declared table and statements read against it; curators over a small table of people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pytest

from dpnb.curator import Curator
from dpnb.privacy.budget import Budget
from dpnb.schema.columns import Category, Integer, Real
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date
from dpnb.sql.parser import parse
from dpnb.sql.query import Query
from tests.kit.noise import NoNoise


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


@pytest.fixture
def silent() -> NoNoise:
    """No noise at all; what is made with it is stamped NOT PRIVATE."""
    return NoNoise()


PEOPLE = Schema({"sex": Category(["F", "M"]), "n": Integer(0, 9), "job": Category(["a", "b", "c"])})


@pytest.fixture(scope="session")
def people() -> Table:
    """120 people; 60 of either sex."""
    rows = range(120)
    return Table(
        "t",
        pd.DataFrame(
            {
                "sex": ["FM"[i % 2] for i in rows],
                "n": [i % 10 for i in rows],
                "job": ["abc"[i % 3] for i in rows],
            }
        ),
        PEOPLE,
    )


Opening = Callable[..., Curator]


@contextmanager
def _curators(people: Table) -> Iterator[Opening]:
    made = []

    def open_(table: Table = people, **options: Any) -> Curator:
        options = {"budget": Budget(rho=1), "analysts": {"a": 1, "b": 4}, **options}
        made.append(Curator(table, **options))
        return made[-1]

    yield open_
    for curator in made:
        curator.close()


@pytest.fixture
def opened(people: Table) -> Iterator[Opening]:
    """Open curators; all are closed afterwards. By default rho 1, and analysts a: 1 and b: 4."""
    with _curators(people) as open_:
        yield open_


@pytest.fixture(scope="module")
def shared(people: Table) -> Iterator[Opening]:
    """Open curators that all tests of a file use."""
    with _curators(people) as open_:
        yield open_


@pytest.fixture(scope="module")
def unchanged(shared: Opening) -> Curator:
    """One as ``opened`` gives it, for requests that are refused and so change nothing."""
    return shared()
