"""A session over HTTP: the same methods, with the data in another process."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dpnb.errors import DpnbError, RequestError, ServiceError, given
from dpnb.releases.call import Call
from dpnb.results import Asked, BudgetStatus
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.server.access import find_token, read_address
from dpnb.server.calls import sent
from dpnb.server.connection import Connection, open_client
from dpnb.session import Session
from dpnb.verbs import verb

T = TypeVar("T")


def connect(
    url: str,
    token: str | None = None,
    *,
    privilege: int | None = None,
    insecure: bool = False,
    verify: str | Path | None = None,
    timeout: float = 330.0,
) -> Session:
    """Open a session on a service.

    Parameters
    ----------
    url : str
        ``https://host:port``; ``http://`` to this machine only, unless ``insecure``.
    token : str, optional
        By default the environment variable DPNB_TOKEN; else, for a service of the JupyterHub in
        which this process runs, the token that it has there; else you are asked for it. Leave it
        out in a notebook that others read.
    privilege : int, optional
        One of your privileges, if you have several; the first one by default.
    insecure : bool
        Allow http to another machine: anyone on the network path can read token and answers.
    verify : str or Path, optional
        File with the certificate of your own authority, in PEM format.
    timeout : float
        Seconds to wait for an answer.

    Returns
    -------
    Session
        A session with the same methods as a local one.

    Raises
    ------
    RequestError
        For an unusable address or token.
    ServiceError
        If the service cannot be reached or does not accept the token, or httpx is not installed.
    """
    address = read_address(url, insecure=insecure)
    if privilege is not None and (isinstance(privilege, bool) or not isinstance(privilege, int)):
        raise RequestError(
            f"privilege must be a whole number, got {given(privilege)}",
            "Leave it out, or give one of yours.",
        )
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise RequestError(
            f"timeout must be above 0 seconds, got {given(timeout)}", "Write timeout=330."
        )
    client = open_client(verify, float(timeout))
    backend = HttpBackend(Connection(address, find_token(token, address), client, privilege))
    try:
        backend.budget  # noqa: B018 - raises if the token is not accepted
    except BaseException:
        backend.close()
        raise
    return Session._of(backend)


class HttpBackend:
    """An analyst's calls, carried out by a service."""

    __slots__ = ("_connection", "_ledger", "_tables")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[str, Table] | None = None
        self._ledger: str | None = None

    def run(self, call: Call, cancel: threading.Event) -> Any:
        """Return the result of a call; if it may cost, a key makes sure that retries are free."""
        request_kind = verb(call.verb)
        key = None if request_kind.price is None else secrets.token_hex(16)
        reply = self._connection.ask("POST", f"/v2/{call.verb}", sent(call), key, cancel)
        return self._read(request_kind.result.from_dict, reply)

    def price(self, call: Call) -> Any:
        """Return what a call would cost."""
        price, several = verb(call.verb).price, call.verb == "query"
        if price is None:
            raise TypeError(f"{call.verb} is free")
        reply = self._connection.ask("POST", f"/v2/{call.verb}/price", sent(call, several=several))
        if several:
            return self._read(
                lambda data: [price.from_dict(entry) for entry in data["prices"]], reply
            )
        return self._read(price.from_dict, reply)

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        if self._ledger is None:
            self.budget  # noqa: B018 - reading the budget sets the name
        return str(self._ledger)

    @property
    def budget(self) -> BudgetStatus:
        """The analyst's cap, spent and remaining."""

        def read(data: Mapping[str, Any]) -> BudgetStatus:
            self._ledger = str(data["ledger"])
            return BudgetStatus.from_dict(data["budget"])

        return self._read(read, self._connection.ask("GET", "/v2/budget"))

    @property
    def history(self) -> Sequence[Asked]:
        """The analyst's requests."""
        reply = self._connection.ask("GET", "/v2/history")
        return self._read(
            lambda data: [Asked.from_dict(entry) for entry in data["requests"]], reply
        )

    @property
    def tables(self) -> Mapping[str, Table]:
        """The declared tables, fetched once."""
        if self._tables is None:

            def read(data: Mapping[str, Any]) -> dict[str, Table]:
                tables = (
                    Table(
                        entry["name"],
                        None,
                        Schema.of(entry),
                        public=entry["public"],
                        key=entry.get("key"),
                    )
                    for entry in data["tables"]
                )
                return {table.name: table for table in tables}

            self._tables = self._read(read, self._connection.ask("GET", "/v2/tables"))
        return self._tables

    def interrupt(self, thread: int) -> None:
        """Stop the request that runs in a thread."""
        self._connection.interrupt(thread)

    def close(self) -> None:
        """Close the connection to the service."""
        self._connection.close()

    @staticmethod
    def _read(build: Callable[[Any], T], data: Any) -> T:
        """Build a result from a reply."""
        try:
            return build(data)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, DpnbError):
            pass
        raise ServiceError(
            "the reply of the service cannot be read", "Use the same version of dpnb on both sides."
        )

    def __repr__(self) -> str:
        return f"HttpBackend({self._connection.address.url!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a session over HTTP holds a token and cannot be pickled")
