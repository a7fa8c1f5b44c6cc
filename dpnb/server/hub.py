"""Authentication by JupyterHub, if the service runs as one of its services."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from dpnb.errors import RequestError
from dpnb.ledger.accounts import check_name
from dpnb.server.auth import (
    Analyst,
    Headers,
    Privilege,
    bearer,
    highest,
    privileges,
    refused,
)
from dpnb.server.refusals import LATER, RefusedError

_REMEMBER = 30
"""Seconds for which the Hub's reply is cached; a token revoked at the Hub works for as long."""


def is_service(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a JupyterHub started this process as one of its services."""
    return bool(environment.get("JUPYTERHUB_SERVICE_NAME")) and not environment.get(
        "JUPYTERHUB_USER"
    )


class HubAuthenticator:
    """Asks the Hub whose token it is; groups of the Hub give privileges.

    A user needs the scope ``access:services!service=NAME`` and one of the groups.

    Parameters
    ----------
    groups : mapping of str to int or tuple of int
        Privileges by group. A user in several groups has the highest; a user in none is refused.

    Raises
    ------
    RequestError
        Outside a JupyterHub, without groups, without an access scope, or if jupyterhub is not
        installed.
    """

    def __init__(self, groups: Mapping[str, Privilege]) -> None:
        if not groups:
            raise RequestError("no group of the Hub has a privilege", "Add --group NAME=PRIVILEGE.")
        if not is_service() or not os.environ.get("JUPYTERHUB_API_TOKEN"):
            raise RequestError(
                "this process was not started by a JupyterHub",
                "Let the Hub start it, or use --tokens.",
            )
        try:
            from jupyterhub.services.auth import HubAuth
        except ImportError:
            raise RequestError(
                "a service of a JupyterHub needs jupyterhub", "Run pip install 'dpnb[server,hub]'."
            ) from None
        self._groups = dict(groups)
        self._hub: Any = HubAuth(cache_max_age=_REMEMBER)
        self._scopes = frozenset(self._hub.access_scopes)
        if not self._scopes:
            raise RequestError(
                "the Hub gives this service no access scope",
                "Leave JUPYTERHUB_OAUTH_ACCESS_SCOPES out of its environment.",
            )

    @property
    def top(self) -> int:
        """The highest privilege of any group."""
        return max(map(highest, self._groups.values()))

    def known(self) -> Sequence[Analyst]:
        """Return nobody: the Hub names users only when they send a request."""
        return ()

    def ready(self) -> bool:
        """Return True: each request asks the Hub."""
        return True

    async def identify(self, headers: Headers) -> Analyst:
        """Return the Hub's user who sends this token."""
        token = bearer(headers)
        user, failed = None, False
        try:
            user = await self._hub.user_for_token(token, sync=False)
        except Exception:  # noqa: BLE001 - whatever the Hub's client raises; it may name the token
            failed = True
        if failed:
            raise RefusedError(503, "the Hub did not say who you are", "Ask again later.", LATER)
        if not isinstance(user, dict):
            raise refused()
        allowed = self._hub.check_scopes(self._scopes, {"scopes": user.get("scopes", ())})
        if user.get("kind") != "user" or not allowed:
            # the longest is the service's own; the Hub also names that of all services
            raise RefusedError(
                403,
                "the Hub does not let your token use this service",
                f"Ask the administrator of the Hub for the scope {max(self._scopes, key=len)}, on "
                "the roles user and server. Then restart your server.",
            )
        groups = user.get("groups")
        privilege = privileges(self._groups, groups if isinstance(groups, list) else [])
        if privilege is None:
            raise RefusedError(
                403,
                "you are in no group that may use this service",
                f"Ask the administrator of the Hub to put you into {' or '.join(self._groups)}.",
            )
        try:
            return Analyst(check_name(user.get("name")), privilege)
        except RequestError as error:
            raise RefusedError(403, error.what, error.hint) from None

    def __repr__(self) -> str:
        return f"HubAuthenticator({', '.join(self._groups)})"
