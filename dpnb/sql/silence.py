"""Silence of the parser's log: what a statement lacks is said by its refusal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_reading: ContextVar[bool] = ContextVar("reading", default=False)


def _is_heard(_: logging.LogRecord) -> bool:
    return not _reading.get()


logging.getLogger("sqlglot").addFilter(_is_heard)


@contextmanager
def silent() -> Iterator[None]:
    """Read a statement without the parser's warnings, which would be printed above the answer."""
    before = _reading.set(True)
    try:
        yield
    finally:
        _reading.reset(before)
