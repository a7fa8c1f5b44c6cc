"""The service as an ASGI app: authenticate, check, run, reply."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from dpnb.errors import DpnbError, InterruptedRequestError, LedgerError
from dpnb.releases.runner import Runner
from dpnb.server.admission import Admission
from dpnb.server.auth import Analyst, Authenticator
from dpnb.server.endpoints import ENDPOINTS, Asked, Endpoint
from dpnb.server.guard import Guard, log, refuse, respond, too_large
from dpnb.server.limits import Gate, Keys, Limits
from dpnb.server.openapi import describe
from dpnb.server.readiness import Readiness
from dpnb.server.refusals import LATER, RefusedError
from dpnb.server.running import Runs
from dpnb.server.wire import malformed

_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PRIVILEGE = re.compile(r"[0-9]{1,2}")
_JSON = re.compile(r"application/json\s*(;\s*charset=utf-8\s*)?", re.IGNORECASE)


def create_app(
    runner: Runner,
    authenticator: Authenticator,
    *,
    limits: Limits | None = None,
    prefix: str = "",
) -> Starlette:
    """Return the ASGI app that serves a runner's tables.

    Parameters
    ----------
    runner : Runner
    authenticator : Authenticator
    limits : Limits, optional
    prefix : str
        Prefix of every path, such as ``/services/dpnb``.

    Returns
    -------
    Starlette
        ``app.state.stop()`` stops all running scans.
    """
    limits = limits or Limits()
    prefix = prefix.rstrip("/")
    service = _Service(runner, authenticator, limits, prefix)
    routes = [
        Route(prefix + endpoint.path, service.serving(endpoint), methods=[endpoint.method])
        for endpoint in ENDPOINTS
    ]
    paths = {prefix + endpoint.path: endpoint.method for endpoint in ENDPOINTS}
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, paths=paths, body=limits.body)],
        exception_handlers={DpnbError: _refuse},
    )
    app.router.redirect_slashes = False
    app.state.stop = service.runs.stop_all
    service.admit_known()
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, LedgerError):
        log.error("the ledger cannot be used: %s", error)
    if isinstance(error, DpnbError):
        return refuse(error)
    raise error


class _Service:
    """State and checks that all endpoints share."""

    def __init__(
        self, runner: Runner, authenticator: Authenticator, limits: Limits, prefix: str
    ) -> None:
        self._runner, self._authenticator, self._limits = runner, authenticator, limits
        self._description = describe(prefix, limits)
        self._readiness = Readiness(self._check)
        self._gate, self._keys = Gate(limits), Keys(limits.keys)
        self.runs = Runs(limits.threads, runner.interrupt)
        self._admission = Admission(runner)

    def admit_known(self) -> None:
        """Enter in the ledger the analysts that are known before any request."""
        with self._runner.reading() as store:
            store.provenance.shared()
        self._admission.admit_all(self._authenticator.known())

    def _check(self) -> bool:
        self._runner.check()
        return self._authenticator.ready()

    def _row(self, analyst: Analyst, privilege: str | None) -> str:
        """Return the analyst's account, for the privilege named in the header if there is one."""
        if privilege is None:
            return analyst.name
        if not _PRIVILEGE.fullmatch(privilege):
            raise RefusedError(
                400,
                "the header Dpnb-Privilege must be a whole number",
                "Send one of your privileges.",
            )
        with self._runner.reading() as store:
            return store.provenance.row(analyst.name, int(privilege))

    def serving(self, endpoint: Endpoint) -> Callable[[Request], Any]:
        """Return the coroutine function that serves one endpoint."""
        if endpoint.handler is None:
            handlers = {"health": self._health, "ready": self._ready, "openapi": self._describe}
            return handlers[endpoint.name]

        async def serve(request: Request) -> Response:
            analyst = await self._authenticator.identify(request.scope["headers"])
            request.scope["state"]["analyst"] = analyst.name
            self._gate.enter(analyst.name)
            try:
                return await self._serve(endpoint, analyst, request)
            finally:
                self._gate.leave(analyst.name)

        return serve

    async def _health(self, request: Request) -> Response:
        return respond({"status": "ok" if await self._readiness.ready() else "degraded"})

    async def _ready(self, request: Request) -> Response:
        if not await self._readiness.ready():
            raise RefusedError(
                503, "the service cannot answer requests now", "Ask again later.", LATER
            )
        return respond({"status": "ready"})

    async def _describe(self, request: Request) -> Response:
        return respond(self._description)

    async def _serve(self, endpoint: Endpoint, analyst: Analyst, request: Request) -> Response:
        key = _key(request, endpoint)
        privilege = request.headers.get("dpnb-privilege")
        body = await _body(request, endpoint, self._limits)
        if key is not None:
            content = f"{endpoint.path} {privilege}\n".encode() + body
            self._keys.check(analyst.name, key, hashlib.sha256(content).digest())

        def work(cancel: threading.Event) -> Response:
            self._admission.admit(analyst)
            entries = endpoint.read(body) if endpoint.entries else {}
            if endpoint.handler is None or cancel.is_set():
                raise InterruptedRequestError("interrupted", "Nothing was charged.")
            analyst_request = Asked(self._row(analyst, privilege), entries, key, cancel)
            return respond(endpoint.handler(self._runner, analyst_request))

        async def gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        return await self.runs.run(work, gone, self._limits.seconds)


def _key(request: Request, endpoint: Endpoint) -> str | None:
    """Return the idempotency key of a request that may spend; None without one."""
    key = request.headers.get("idempotency-key") if endpoint.spends else None
    if key is not None and not _KEY.fullmatch(key):
        raise RefusedError(
            400,
            "the header Idempotency-Key is not valid",
            "Send 1 to 64 letters, digits or . _ -.",
        )
    return key


async def _body(request: Request, endpoint: Endpoint, limits: Limits) -> bytes:
    """Return the body of a request; refuse one that is too large or too slow."""
    if not endpoint.entries:
        return b""
    if not _JSON.fullmatch(request.headers.get("content-type", "")):
        raise RefusedError(
            415, "the Content-Type must be application/json", "Send Content-Type: application/json."
        )
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "a compressed body is not supported", "Send it uncompressed.")
    content = bytearray()
    try:
        with anyio.fail_after(limits.upload):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limits.body:
                    raise too_large(limits.body)
    except TimeoutError:
        raise RefusedError(408, "the body did not arrive in time", "Send it again.") from None
    except ClientDisconnect:
        raise malformed("the body is incomplete") from None
    return bytes(content)
