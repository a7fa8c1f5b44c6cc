"""One client's connection to a service: sending, retrying, and interrupting."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnb.errors import DpnbError, InterruptedRequestError, RequestError, ServiceError
from dpnb.server import refusals, wire
from dpnb.server.access import Address, Token

if TYPE_CHECKING:
    import httpx

_PAUSES = (0.2, 0.5, 1.0)
"""Seconds before each retry."""
_LONGEST_PAUSE = 5.0
_UNKNOWN = "It is unknown whether this was charged. If it was, asking again is free."


@cache
def _usual_authorities() -> ssl.SSLContext:
    """Return the usual authorities; reading their certificates takes longer than a request."""
    import httpx

    # nothing from the environment
    return httpx.create_ssl_context(trust_env=False)


def open_client(verify: str | Path | None, timeout: float) -> httpx.Client:
    """Return a client that trusts the usual authorities, or the given one. It never has the token.

    Raises
    ------
    ServiceError
        If httpx is not installed.
    RequestError
        If the authority's certificate cannot be read.
    """
    try:
        import httpx
    except ImportError:
        raise ServiceError(
            "connecting to a service needs httpx", "Run pip install 'dpnb[server]'."
        ) from None
    if verify is None:
        trusted = _usual_authorities()
    else:
        try:
            trusted = ssl.create_default_context(cafile=str(verify))
        except (OSError, ValueError):
            raise RequestError(
                "the certificate file given as verify cannot be read", "Give a file in PEM format."
            ) from None
    return httpx.Client(
        verify=trusted,
        # use no proxies or passwords from the environment
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(timeout, connect=10.0),
        # one connection for each request, so that an interrupt ends only that request
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
    )


class Connection:
    """Sends one analyst's requests to a service.

    Parameters
    ----------
    address : Address
    token : Token
    client : httpx.Client
        Must not contain the token.
    privilege : int, optional
    """

    __slots__ = ("_client", "_privilege", "_sockets", "_token", "address")

    def __init__(
        self, address: Address, token: Token, client: httpx.Client, privilege: int | None = None
    ) -> None:
        self.address, self._token, self._client = address, token, client
        self._privilege = privilege
        self._sockets: dict[int, Any] = {}

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
        cancel: threading.Event | None = None,
    ) -> Any:
        """Return the service's reply, after a few retries if necessary."""
        content = None if body is None else wire.dumps(body)
        headers = {"Accept": "application/json", "Connection": "close"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._privilege is not None:
            headers["Dpnb-Privilege"] = str(self._privilege)
        if key is not None:
            headers["Idempotency-Key"] = key
        cancel = threading.Event() if cancel is None else cancel
        if cancel.is_set():
            raise InterruptedRequestError("interrupted", "Nothing was charged.")
        failure: DpnbError | None = None
        for pause in (*_PAUSES, None):
            reply = self._send(method, path, content, headers)
            if cancel.is_set() and not isinstance(reply, _Reply):
                raise InterruptedRequestError("interrupted", _UNKNOWN)
            if isinstance(reply, _Reply) and reply.status == 200:
                return wire.decode(reply.data)
            failure, wait = self._failure(reply, spends=key is not None)
            if wait is None or pause is None:
                break
            if cancel.wait(max(pause, min(wait, _LONGEST_PAUSE))):
                raise InterruptedRequestError("interrupted", _UNKNOWN)
        raise failure or refusals.broken()

    def _failure(self, reply: _Reply | None, *, spends: bool) -> tuple[DpnbError, float | None]:
        """Return the error, and the seconds after which a retry may help; None if it would not."""
        hint = _UNKNOWN if spends else "Check the address, and whether the service is running."
        if reply is None:
            what = f"the service at {self.address.url} cannot be reached, or did not reply"
            return ServiceError(what, hint), 0.0
        error = refusals.from_dict(reply.data)
        if error is not None and reply.status == 404:
            # a service of this version has every path that this client uses
            return ServiceError(
                f"the service at {self.address.url} speaks another version of the protocol",
                "Use the same version of dpnb on both sides.",
            ), None
        if error is not None:
            broken = reply.status == 500 and isinstance(error, ServiceError)
            return error, 0.0 if broken else reply.retry
        if 300 <= reply.status < 400:
            return ServiceError(
                "the service redirects to another address", "Use that address, if you trust it."
            ), None
        if reply.status >= 500:
            return ServiceError(f"the service failed (HTTP {reply.status})", hint), 0.0
        return ServiceError(
            f"there is no dpnb service at {self.address.url} (HTTP {reply.status})",
            "Check the address.",
        ), None

    def _send(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> _Reply | None:
        """Return a reply, or None after an error, which is dropped: it may contain the token."""
        thread = threading.get_ident()

        def authorize(request: httpx.Request) -> httpx.Request:
            request.headers["Authorization"] = self._token.header()
            return request

        def trace(event: str, info: Mapping[str, Any]) -> None:
            if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                self._sockets[thread] = info["return_value"].get_extra_info("socket")

        try:
            response = self._client.request(
                method,
                self.address.url + path,
                content=content,
                headers=dict(headers),
                auth=authorize,
                extensions={"trace": trace},
            )
            return _Reply.of(response)
        except Exception:  # noqa: BLE001 - the errors of a connection, interrupted ones too
            return None
        finally:
            self._sockets.pop(thread, None)

    def interrupt(self, thread: int) -> None:
        """End the connection of the request in a thread, so that the service stops its scan."""
        import socket

        connection = self._sockets.pop(thread, None)
        if connection is not None:
            try:
                # closing alone would not wake the thread that reads
                connection.shutdown(socket.SHUT_RDWR)
            except (OSError, ValueError, AttributeError):
                return

    def close(self) -> None:
        """Close the connection to the service."""
        self._client.close()

    def __repr__(self) -> str:
        return f"Connection({self.address.url!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a connection holds a token and cannot be pickled")


class _Reply:
    """A reply of the service."""

    __slots__ = ("data", "retry", "status")

    def __init__(self, status: int, data: Any, retry: float | None) -> None:
        self.status, self.data, self.retry = status, data, retry

    @classmethod
    def of(cls, found: httpx.Response) -> _Reply:
        """Read a reply; if it is not JSON, its data is None."""
        try:
            data = wire.loads(found.content, wire.REPLY_DEPTH)
        except DpnbError:
            data = None
        wait = found.headers.get("retry-after", "")
        return cls(found.status_code, data, float(wait) if wait.isdigit() else None)
