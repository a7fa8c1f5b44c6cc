"""Errors over HTTP: their status, their JSON, and the same error again in the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnb.errors import (
    BudgetError,
    ChangedDataError,
    DpnbError,
    EngineError,
    InterruptedRequestError,
    LedgerError,
    RequestError,
    SchemaError,
    ServiceError,
    SqlError,
)

_STATUS: dict[type[DpnbError], int] = {
    SqlError: 400,
    RequestError: 400,
    SchemaError: 400,
    BudgetError: 403,
    ChangedDataError: 503,
    EngineError: 500,
    LedgerError: 503,
    InterruptedRequestError: 503,
}
_KINDS = (*_STATUS, ServiceError, DpnbError)
LATER = 2
"""Seconds after which to ask again, by default."""


class RefusedError(ServiceError):
    """A refusal of the service itself, with its HTTP status.

    Parameters
    ----------
    status : int
    what, hint : str
    retry : int, optional
        Seconds after which to ask again.
    """

    def __init__(self, status: int, what: str, hint: str, retry: int | None = None) -> None:
        super().__init__(what, hint)
        self.status = status
        self.retry = retry


def broken() -> RefusedError:
    """Return the error for every unexpected failure."""
    return RefusedError(
        500,
        "the service failed",
        "Ask again. If this was charged, the answer is stored and asking again is free.",
    )


def status_of(error: DpnbError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, RefusedError):
        return error.status
    return next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)


def retry_of(error: DpnbError) -> int | None:
    """Return after how many seconds to ask again; None if that would not help."""
    if isinstance(error, RefusedError):
        return error.retry
    return LATER if isinstance(error, LedgerError) else None


def to_dict(error: DpnbError) -> dict[str, Any]:
    """Return an error as plain data.

    The text of a ledger's error (paths, hosts), and what to do about changed data, is for the owner
    of the data only; analysts get a fixed text.
    """
    if isinstance(error, ChangedDataError):
        error = ChangedDataError(
            "the data behind this service have changed, so it cannot answer new questions",
            "Tell the owner of the data. Nothing was charged. Questions that were answered before are "
            "still answered, free.",
        )
    if isinstance(error, LedgerError):
        error = LedgerError(
            "the service's ledger cannot be used",
            "Ask again later. What was charged is stored, and asking again is free.",
        )
    kind = next(kind for kind in _KINDS if isinstance(error, kind))
    data: dict[str, Any] = {
        "kind": kind.__name__, "what": error.what, "hint": error.hint, "where": error.where,
    }  # fmt: skip
    if isinstance(error, SqlError):
        data |= {"line": error.line, "column": error.column, "text": error.text}
    return data


def from_dict(data: Any) -> DpnbError | None:
    """Return the error that :func:`to_dict` wrote; None for anything else."""
    if not isinstance(data, Mapping):
        return None
    kinds: dict[str, type[DpnbError]] = {
        error_class.__name__: error_class for error_class in _KINDS
    }
    kind = kinds.get(str(data.get("kind")))
    texts = [data.get(name) for name in ("what", "hint", "where")]
    if kind is None or not all(isinstance(text, str) for text in texts):
        return None
    if kind is not SqlError:
        return kind(*(str(text) for text in texts))
    line, column, text = data.get("line"), data.get("column"), data.get("text")
    if not isinstance(line, int) or not isinstance(column, int) or not isinstance(text, str):
        return None
    return SqlError(str(texts[0]), str(texts[1]), line=line, column=column, text=text)
