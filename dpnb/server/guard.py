"""Checks and logging around every request, and the headers of every reply."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpnb.errors import DpnbError
from dpnb.server import refusals, wire
from dpnb.server.auth import NOBODY
from dpnb.server.refusals import RefusedError

log = logging.getLogger("dpnb.server")
"""One line for each request: time, analyst, path, status, milliseconds, number. No data."""

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_ONCE = (
    b"authorization",
    b"content-type",
    b"content-length",
    b"idempotency-key",
    b"host",
    b"dpnb-privilege",
)
_OTHER_VERSION = re.compile(rb"/v(?!2/)[0-9]{1,3}/[a-z.-]+\Z")
_CUT = (408, 413)
"""Statuses after which the rest of the body is not read."""
MOST_HEADER_BYTES = 16_384


def respond(value: Any, status: int = 200) -> Response:
    """Return a reply in JSON."""
    return Response(wire.reply(value), status, media_type="application/json")


def refuse(error: DpnbError) -> Response:
    """Return an error as a reply."""
    status = refusals.status_of(error)
    reply = respond(refusals.to_dict(error), status)
    if status == 401:
        reply.headers["WWW-Authenticate"] = "Bearer"
    if status in _CUT:
        reply.headers["Connection"] = "close"
    wait = refusals.retry_of(error)
    if wait is not None:
        reply.headers["Retry-After"] = str(wait)
    return reply


class Guard:
    """ASGI middleware that refuses unusable requests, hides the text of errors, and logs.

    Parameters
    ----------
    app : ASGI app
    paths : mapping of str to str
        The method of each known path.
    body : int
        Largest size of a body, in bytes.
    """

    def __init__(self, app: ASGIApp, paths: Mapping[str, str], body: int) -> None:
        self._app, self._paths, self._body = app, paths, body
        self._numbers: Iterator[int] = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, without revealing the text of an unexpected error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 0

        async def hardened(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        scope["state"] = {**scope.get("state", {}), "analyst": NOBODY}
        failed = False
        try:
            refused = self._refusal(scope)
            if refused is None:
                await self._app(scope, receive, hardened)
            else:
                reply = refuse(refused)
                # whatever follows on this connection may not be what it seems
                reply.headers["Connection"] = "close"
                if refused.status == 405:
                    reply.headers["Allow"] = self._paths[scope["path"]]
                await reply(scope, receive, hardened)
        except Exception:  # noqa: BLE001 - the text of an error can hold values
            failed = True
        if failed and status == 0:
            await refuse(refusals.broken())(scope, receive, hardened)
        log.info(
            "%s %s %s %d %.1f ms #%d",
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            scope["state"]["analyst"],
            scope["path"] if scope["path"] in self._paths else "-",
            status,
            1000 * (time.monotonic() - start),
            next(self._numbers),
        )

    def _refusal(self, scope: Scope) -> RefusedError | None:
        """Return the refusal for a request's URL, method or headers; None if they are in order."""
        headers = scope["headers"]
        names = [name for name, _ in headers]
        if scope["query_string"]:
            return RefusedError(
                400,
                "the URL must not have a query",
                "Send the token in the header Authorization: Bearer, and the rest as JSON in the body. "
                "If you sent a token in a URL, it may be in a log: ask for a new one.",
            )
        # check the path as sent: decoding or normalising may turn it into another one
        path = scope.get("raw_path") or scope["path"].encode()
        known = {known.encode(): methods for known, methods in self._paths.items()}
        if path not in known:
            if _OTHER_VERSION.search(path):
                return RefusedError(
                    404,
                    "this service speaks version 2 of its protocol, and the request another one",
                    "Use the same version of dpnb on both sides.",
                )
            return RefusedError(404, "there is no such path", "See /v2/openapi.json.")
        if scope["method"] != known[path]:
            return RefusedError(405, "this path needs another method", "See /v2/openapi.json.")
        if any(names.count(name) > 1 for name in _ONCE):
            return RefusedError(400, "a header was sent twice", "Send it once.")
        if b"transfer-encoding" in names and b"content-length" in names:
            return RefusedError(
                400,
                "the request has both Content-Length and Transfer-Encoding",
                "Send one of them.",
            )
        if sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
            return RefusedError(431, "the headers are too large", "Send fewer or shorter headers.")
        length = dict(headers).get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self._body:
            return too_large(self._body)
        return None


def too_large(most: int) -> RefusedError:
    """Return the refusal of a body that is too large."""
    return RefusedError(413, "the request is too large", f"Send at most {most:,} bytes.")
