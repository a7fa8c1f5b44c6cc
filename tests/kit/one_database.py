"""One DuckDB for all engines of a module: opening another takes 20 ms, attaching a database to it less than 1.

Each engine has a database of its own there, in memory, and runs what it always runs but for what would
lock the others out. What is about the lock, or fails in DuckDB, opens its own. A module switches it on::

    from tests.kit.one_database import one_database  # noqa: F401
"""

from __future__ import annotations

import atexit
import itertools
from functools import cache
from typing import Any

import pytest

from dpnb.engines import duckdb as engines
from dpnb.engines import summary

_SHUT = tuple(
    f"SET {name}"
    for name in (
        "allow_community_extensions",
        "allowed_paths",
        "autoinstall_known_extensions",
        "autoload_known_extensions",
        "enable_external_access",
        "lock_configuration",
    )
)
_names = map("d{}".format, itertools.count())
_open = engines.connected


@cache
def _database() -> Any:
    connection = _open()
    # DuckDB's module complains of connections that outlive it
    atexit.register(connection.close)
    return connection


class Lent:
    """A connection whose statements are about one of the attached databases."""

    def __init__(self, name: str, *, owner: bool = False) -> None:
        self._name, self._owner = name, owner
        self._made = _database().cursor()
        if owner:
            self._made.execute(f"ATTACH ':memory:' AS {name}")
        self._made.execute(f"USE {name}")

    def cursor(self) -> Lent:
        return Lent(self._name)

    def execute(self, statement: str, *values: Any) -> Any:
        return self._made if statement.startswith(_SHUT) else self._made.execute(statement, *values)

    def close(self) -> None:
        self._made.close()
        if self._owner:
            self._owner = False
            with _database().cursor() as cursor:
                cursor.execute(f"DETACH {self._name}")

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


@pytest.fixture(scope="module", autouse=True)
def one_database():
    """Let the engines that a module opens share a DuckDB."""
    with pytest.MonkeyPatch.context() as patch:
        for place in engines, summary:
            patch.setattr(place, "connected", lambda: Lent(next(_names), owner=True))
        yield
