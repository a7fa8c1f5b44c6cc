"""Who asks: from the headers of a request to the name of an analyst, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dpnb.ledger.policy import privileges_of
from dpnb.server.refusals import RefusedError

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Names in lower case, as ASGI gives them."""
Privilege: TypeAlias = int | tuple[int, ...]
NOBODY = "-"
"""In the place of an analyst's name before a token was accepted."""
_HEADER = re.compile(rb"(?i:bearer|token) +([!-~]{1,500}) *")


@dataclass(frozen=True, slots=True)
class Analyst:
    """Who asks, and the privilege with which the ledger is to know her."""

    name: str
    privilege: Privilege


class Authenticator(Protocol):
    """Tells who asks."""

    def known(self) -> Sequence[Analyst]:
        """Return the analysts that can be named beforehand."""
        ...

    async def identify(self, headers: Headers) -> Analyst:
        """Return who asks.

        Raises
        ------
        RefusedError
            In one and the same text whatever is wrong with a token.
        """
        ...


def refused() -> RefusedError:
    """Return the one refusal of every token that is not accepted."""
    return RefusedError(
        401,
        "the token is not accepted",
        "Ask the owner of the data for a token of this service. Put it in DPNB_TOKEN.",
    )


def bearer(headers: Headers) -> str:
    """Return the token of a request.

    Raises
    ------
    RefusedError
        Without exactly one header ``Authorization: Bearer TOKEN``.
    """
    found = [value for name, value in headers if name == b"authorization"]
    match = _HEADER.fullmatch(found[0]) if len(found) == 1 else None
    if match is None:
        raise refused()
    return match.group(1).decode("ascii")


def read_privilege(levels: Sequence[object]) -> Privilege:
    """Return one privilege, or several levels of it.

    Raises
    ------
    RequestError
        Unless they are different whole numbers from 1 to 10.
    """
    whole = privileges_of(list(levels))
    return whole[0] if len(whole) == 1 else whole


def privileges(groups: Mapping[str, Privilege], of: Sequence[str]) -> Privilege | None:
    """Return the highest privilege among those of some groups; None when none has one."""
    found = [groups[name] for name in of if name in groups]
    return max(found, key=highest) if found else None


def highest(privilege: Privilege) -> int:
    """Return the highest of several levels."""
    return privilege if isinstance(privilege, int) else max(privilege)
