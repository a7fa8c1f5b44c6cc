"""The DuckDB connection that holds no data: it parses statements, and evaluates public expressions.

It has no table, and cannot get one: it reads no file, no variable of Python and no extension. So
what it returns, and what it refuses, depends on the text alone.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from dpnb.errors import EngineError

T = TypeVar("T")
Arrays: TypeAlias = dict[str, Any]
"""The columns of a result, as NumPy arrays; masked where values are missing."""

SECONDS = 2.0
"""Longest time of one evaluation."""
_LOCK = (
    "SET TimeZone='UTC'",
    "SET default_collation='binary'",
    "SET memory_limit='512MB'",
    "SET temp_directory=''",
    "SET max_expression_depth=250",
    "SET enable_progress_bar=false",
    "SET python_enable_replacements=false",
    "SET autoinstall_known_extensions=false",
    "SET autoload_known_extensions=false",
    "SET allow_community_extensions=false",
    "SET enable_external_access = false",
    "SET lock_configuration=true",
)


class EvaluationError(Exception):
    """DuckDB cannot evaluate an expression: its types do not fit, or a value has no result."""


class TimeLimitError(Exception):
    """An evaluation took too much time or memory."""


def empty() -> Any:
    """Return a connection to an empty database of its own, which stays shut off like this one."""
    import duckdb

    connected = duckdb.connect(":memory:", config={"errors_as_json": True, "threads": 1})
    for statement in _LOCK:
        connected.execute(statement)
    return connected


@lru_cache(maxsize=1)
def connection() -> Any:
    """Return the connection; a cursor of it is another one to the same empty database."""
    # DuckDB's module complains about connections that outlive it
    atexit.register(connection.cache_clear)
    return empty()


def parsed(text: str) -> list[Any]:
    """Return the statements of a text, parsed and not run.

    Raises
    ------
    duckdb.ParserException
    EngineError
        If DuckDB cannot parse at all, for example for lack of memory.
    """
    import duckdb

    try:
        return list(connection().extract_statements(text))
    except duckdb.ParserException:
        raise
    except (duckdb.Error, MemoryError):
        raise EngineError(
            "the statement could not be parsed",
            "Nothing was charged. Free some memory, and try again.",
        ) from None


def time_limit() -> Callable[[], None]:
    """Return a check for an evaluation in steps: it raises if this thread computes for too long.

    The check raises TimeLimitError once :data:`SECONDS` have been spent since it was made.
    """
    end = time.thread_time() + SECONDS

    def check() -> None:
        if time.thread_time() > end:
            raise TimeLimitError

    return check


def evaluate(select: str, parameters: Sequence[Any] = ()) -> Arrays:
    """Run one SELECT of public values and return its columns; it fails as :func:`run` does."""
    return run(connection(), select, lambda cursor: cursor.fetchnumpy(), parameters)


def run(database: Any, select: str, fetch: Callable[[Any], T], parameters: Sequence[Any] = ()) -> T:
    """Run one SELECT in a database of public values, and fetch its result.

    Raises
    ------
    EvaluationError
        If DuckDB cannot evaluate it.
    TimeLimitError
        If it takes more than :data:`SECONDS`, or too much memory.
    """
    import duckdb

    cursor = database.cursor()
    watch = threading.Timer(SECONDS, cursor.interrupt)
    watch.start()
    try:
        (statement,) = database.extract_statements(select)
        if statement.type != duckdb.StatementType.SELECT:
            raise EvaluationError
        return fetch(cursor.execute(statement, list(parameters)))
    except (duckdb.InterruptException, duckdb.OutOfMemoryException, MemoryError):
        raise TimeLimitError from None
    except duckdb.Error:
        raise EvaluationError from None
    finally:
        watch.cancel()
        cursor.close()
