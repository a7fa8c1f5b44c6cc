"""A running service: the app behind uvicorn, in this thread or in a separate one."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import math
import socket
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnb.codes import truth
from dpnb.errors import RequestError, ServiceError, given
from dpnb.releases.runner import Runner
from dpnb.server.auth import NOBODY, Authenticator
from dpnb.server.connections import Connections, Phase
from dpnb.server.limits import Limits
from dpnb.server.tokens import TokenFile

if TYPE_CHECKING:
    import uvicorn

_GRACE = 10
"""Seconds for running requests to complete at shutdown; scans are stopped after half of them."""
_BACKLOG = 512


class Service:
    """A service in a thread of this process.

    Attributes
    ----------
    url : str
        Address of the service.
    """

    def __init__(self, server: uvicorn.Server, listener: socket.socket, url: str) -> None:
        self.url = url
        self._server = server
        self._thread = threading.Thread(
            target=server.run, args=([listener],), name="dpnb service", daemon=True
        )
        self._thread.start()
        while not server.started and self._thread.is_alive():
            self._thread.join(0.01)
        if not self._thread.is_alive():
            listener.close()
            raise ServiceError("the service did not start", "See the log.")

    def close(self) -> None:
        """Let running requests complete, and end the service. The tables stay open."""
        self._server.should_exit = True
        self._thread.join(2 * _GRACE)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Service({self.url!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a Service leads to sensitive data and cannot be pickled")


def serve(
    runner: Runner,
    host: str = "127.0.0.1",
    port: int = 8899,
    *,
    tokens: str | Path = "tokens.json",
    authenticator: Authenticator | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
    prefix: str = "",
    background: bool = False,
) -> Service | None:
    """Answer analysts over HTTP.

    Parameters
    ----------
    runner : Runner
    host, port : str, int
        Where to listen; port 0 takes a free one.
    tokens : str or Path
        File of the analysts' tokens, see ``dpnb analyst``.
    authenticator : Authenticator, optional
        Used instead of a token file.
    certificate, key : str or Path, optional
        Files for TLS, in PEM.
    insecure : bool
        Let other machines connect without TLS: anyone on the network path can read tokens and
        answers.
    limits : Limits, optional
    prefix : str
        Prefix of every path.
    background : bool
        Return at once; the service runs in a thread until it is closed.

    Returns
    -------
    Service or None
        None after the service has run in this thread until it was interrupted.

    Raises
    ------
    RequestError
        For an unusable address, certificate, token file or other option.
    ServiceError
        If the service cannot listen on the address, or starlette or uvicorn is not installed.
    """
    if not isinstance(host, str) or isinstance(port, bool) or not isinstance(port, int):
        raise RequestError(
            f"host must be a string and port a whole number, got {given(host)} and {given(port)}",
            "Write port=8899.",
        )
    if not isinstance(prefix, str) or (prefix and not prefix.startswith("/")):
        raise RequestError(
            f"the prefix must be a path that starts with /, got {given(prefix)}",
            "Write prefix='/services/dpnb/'.",
        )
    if limits is not None and not isinstance(limits, Limits):
        raise RequestError(
            f"limits must be a Limits, got {given(limits)}",
            "Write dpnb.server.limits.Limits(rate=10).",
        )
    if authenticator is not None and not hasattr(authenticator, "identify"):
        raise RequestError(
            f"the authenticator must have identify(), got {given(authenticator)}",
            "See dpnb.server.auth.Authenticator.",
        )
    paths = [path for path in (tokens, certificate, key) if path is not None]
    if not all(isinstance(path, (str, Path)) and "\0" not in str(path) for path in paths):
        raise RequestError(
            "tokens, certificate and key must be paths of files", "Write tokens='analysts.tokens'."
        )
    if (certificate is None) != (key is None):
        raise RequestError(
            "a certificate needs its key, and a key its certificate", "Give certificate and key."
        )
    if not (is_loopback(host) or certificate is not None or truth(insecure, "insecure")):
        raise RequestError(
            f"other machines can reach {given(host)}, and there is no TLS",
            "Give certificate and key, or insecure=True (--insecure) behind a proxy with TLS.",
        )
    if certificate is not None and key is not None:
        _check_certificate(certificate, key)
    try:
        from dpnb.server.app import create_app

        server_class = _server_class()
    except ImportError:
        raise ServiceError(
            "a service needs starlette and uvicorn", "Run pip install 'dpnb[server]'."
        ) from None
    limits = limits or Limits()
    app = create_app(runner, authenticator or TokenFile(tokens), limits=limits, prefix=prefix)
    listener = _listen(host, port)
    connections = Connections(limits)
    config = _config(app, certificate, key, connections)
    server = server_class(config, app.state.stop, connections)
    url_host = f"[{host}]" if ":" in host else host
    scheme = "http" if certificate is None else "https"
    url = f"{scheme}://{url_host}:{listener.getsockname()[1]}{prefix.rstrip('/')}"
    logging.getLogger("dpnb.server").info("answering on %s", url)
    if background:
        return Service(server, listener, url)
    with contextlib.suppress(KeyboardInterrupt):
        server.run([listener])
    return None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host.isascii() and host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_certificate(certificate: str | Path, key: str | Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ValueError):
        raise RequestError(
            "the certificate or its key cannot be used",
            "Give a certificate and its key, both in PEM format.",
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    listener: socket.socket | None = None
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # IPPROTO_TCP makes asyncio switch off Nagle's algorithm, which costs 40 ms a reply
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError, TypeError, UnicodeError):
        if listener is not None:
            listener.close()
        raise ServiceError(
            f"cannot listen on {host}, port {port}", "The port may be in use: give another port."
        ) from None
    return listener


def _config(
    app: Any, certificate: str | Path | None, key: str | Path | None, connections: Connections
) -> Any:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    # the stricter of uvicorn's two parsers
    class Protocol(H11Protocol):
        """A connection of the service.

        It never writes uvicorn's own access log, which contains the query of a URL.
        """

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.access_log = False
            self.address = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.address = self.client[0] if self.client else ""
            connections.enter(self)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.leave(self)
            super().connection_lost(exc)

        @property
        def phase(self) -> Phase:
            cycle: Any = self.cycle
            # also if the next reply waits until the client has taken this one
            if self.transport.get_write_buffer_size():
                return "reply"
            if cycle is not None and not cycle.response_complete:
                return "work"
            if self.conn.their_state is h11.SEND_BODY:
                return "body"
            return "head" if cycle is None or self.conn.trailing_data[0] else "idle"

        @property
        def request(self) -> object:
            return self.cycle

        @property
        def signed_in(self) -> bool:
            scope: Any = self.scope
            return scope is not None and scope["state"].get("analyst", NOBODY) != NOBODY

        def end(self) -> None:
            # close() would wait until the client has taken all pending data
            self.transport.abort()

    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # do not trust headers about the client or its address
        proxy_headers=False,
        h11_max_incomplete_event_size=32_768,
        # applies if no connection can give way
        limit_concurrency=connections.limits.connections + 1,
        timeout_keep_alive=math.ceil(connections.limits.idle),
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _server_class() -> Any:
    import uvicorn

    class Stoppable(uvicorn.Server):
        """A server that stops running scans during shutdown; requests past their commit complete.

        At every tick it closes connections that are over their limits.
        """

        def __init__(self, config: uvicorn.Config, stop: Any, connections: Connections) -> None:
            super().__init__(config)
            self._stop, self._connections = stop, connections

        async def on_tick(self, counter: int) -> bool:
            self._connections.look()
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            timer = asyncio.get_running_loop().call_later(_GRACE / 2, self._stop)
            try:
                await super().shutdown(sockets)
            finally:
                timer.cancel()

    return Stoppable
