"""A client's address and token: where a token may be sent, and where it comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from dpnb.codes import truth
from dpnb.errors import RequestError
from dpnb.server.service import is_loopback

_VISIBLE = re.compile(r"[!-~]{1,500}")
_PATH = re.compile(r"(/[A-Za-z0-9_.~@-]+)*/?")
_PORTS = {"http": 80, "https": 443}


class Token:
    """A token that is not printed and cannot be pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def header(self) -> str:
        """Return the value of the Authorization header."""
        return f"Bearer {self._text}"

    def __repr__(self) -> str:
        return "Token(hidden)"

    def __reduce__(self) -> Any:
        raise TypeError("a Token cannot be pickled")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service.

    Attributes
    ----------
    scheme : {'http', 'https'}
    host : str
    port : int
    path : str
        Prefix of every path of the service; empty or ``/like/this``.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def read_address(url: object, *, insecure: bool = False) -> Address:
    """Return the address in a URL. The contents of a refused URL are not shown.

    Raises
    ------
    RequestError
        For a URL with a password, a query or a fragment; for http to another machine, unless
        ``insecure``.
    """
    hint = "Write https://host:port, or http://127.0.0.1:8899 for a service on this machine."
    parts, port = SplitResult("", "", "", "", ""), None
    usable = isinstance(url, str) and _VISIBLE.fullmatch(url) is not None
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port = parts.port
    except ValueError:
        usable = False
    if "@" in parts.netloc or parts.query or parts.fragment or str(url).endswith(("?", "#")):
        raise RequestError(
            "the address of a service may have only a host, a port and a path",
            "Leave out user, password and query. Put the token in DPNB_TOKEN.",
        )
    if (
        not usable
        or port == 0
        or parts.scheme not in _PORTS
        or not parts.hostname
        or "\\" in str(url)
    ):
        raise RequestError("this is not the address of a service", hint)
    if not _PATH.fullmatch(parts.path) or ".." in parts.path:
        raise RequestError("the path of the address is not valid", hint)
    if (
        parts.scheme == "http"
        and not truth(insecure, "insecure")
        and not is_loopback(parts.hostname)
    ):
        raise RequestError(
            "http to another machine sends the token unencrypted",
            "Use https, or insecure=True on a network that you trust completely.",
        )
    path = parts.path.rstrip("/")
    return Address(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


def find_token(
    given: object, address: Address, environment: Mapping[str, str] = os.environ
) -> Token:
    """Return the token: the given one, DPNB_TOKEN, the Hub's on the Hub's own host, or a typed one.

    Raises
    ------
    RequestError
        If there is no usable token.
    """
    text = given
    if text is None:
        text = environment.get("DPNB_TOKEN")
    if text is None and is_service_of_hub(address, environment):
        text = environment.get("JUPYTERHUB_API_TOKEN")
    if text is None:
        text = _typed(address)
    if not isinstance(text, str) or not _VISIBLE.fullmatch(text.strip()):
        raise RequestError(
            "there is no token, or it has characters that are not allowed", "Put it in DPNB_TOKEN."
        )
    return Token(text.strip())


_HUB_PORTS = (80, 443, 8000)
"""Usual ports of a JupyterHub."""


def is_service_of_hub(address: Address, environment: Mapping[str, str]) -> bool:
    """Return whether an address is a service of the JupyterHub in which this process runs.

    The Hub's token gives access to the user's whole account there, so it is sent only to the Hub's
    own host, and there only below ``services/``: other users' servers are on the same host.
    """
    base = environment.get("JUPYTERHUB_BASE_URL", "/").rstrip("/")
    if not address.path.startswith(f"{base}/services/"):
        return False
    public = [
        environment[name]
        for name in ("JUPYTERHUB_PUBLIC_HUB_URL", "JUPYTERHUB_HOST")
        if environment.get(name)
    ]
    origins = [
        (p.scheme, p.hostname, p.port or _PORTS.get(p.scheme)) for p in map(urlsplit, public)
    ]
    if origins:
        return (address.scheme, address.host, address.port) in origins
    # without a public address, accept the host of the Hub's API, with its port or a usual port of a
    # proxy: somebody else may listen on any other port of a shared machine
    api = urlsplit(environment.get("JUPYTERHUB_API_URL", ""))
    return address.host == api.hostname and address.port in (api.port, *_HUB_PORTS)


def _typed(address: Address) -> str | None:
    """Ask for the token without showing it; return None if nobody can answer."""
    from getpass import getpass

    try:
        return getpass(f"Token for {address.url}: ")
    except Exception:  # noqa: BLE001 - every front end without a keyboard has its own error
        return None
