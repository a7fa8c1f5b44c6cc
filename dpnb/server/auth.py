"""Authentication: from the headers of a request to an analyst, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dpnb.ledger.policy import privileges_of
from dpnb.server.refusals import RefusedError

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Pairs of name and value, with names in lower case, as in ASGI."""
Privilege: TypeAlias = int | tuple[int, ...]
NOBODY = "-"
"""Placeholder for the analyst's name until a token is accepted."""
_HEADER = re.compile(rb"(?i:bearer|token) +([!-~]{1,500}) *")


@dataclass(frozen=True, slots=True)
class Analyst:
    """An analyst, with the privilege to register in the ledger."""

    name: str
    privilege: Privilege


class Authenticator(Protocol):
    """Identifies the analyst who sends a request."""

    def known(self) -> Sequence[Analyst]:
        """Return the analysts that are known before any request."""
        ...

    async def identify(self, headers: Headers) -> Analyst:
        """Return the analyst who sends a request.

        Raises
        ------
        RefusedError
            With the same text, whatever is wrong with a token.
        """
        ...


def refused() -> RefusedError:
    """Return the refusal for every token that is not accepted."""
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
        If there is not exactly one header ``Authorization: Bearer TOKEN`` (or ``token TOKEN``).
    """
    credentials = [value for name, value in headers if name == b"authorization"]
    match = _HEADER.fullmatch(credentials[0]) if len(credentials) == 1 else None
    if match is None:
        raise refused()
    return match.group(1).decode("ascii")


def read_privilege(levels: Sequence[object]) -> Privilege:
    """Return one privilege as a number, or several as a tuple.

    Raises
    ------
    RequestError
        Unless they are different whole numbers from 1 to 10.
    """
    numbers = privileges_of(list(levels))
    return numbers[0] if len(numbers) == 1 else numbers


def privileges(groups: Mapping[str, Privilege], of: Sequence[str]) -> Privilege | None:
    """Return the highest privilege of the groups named in ``of``; None if none has one."""
    candidates = [groups[name] for name in of if name in groups]
    return max(candidates, key=highest) if candidates else None


def highest(privilege: Privilege) -> int:
    """Return the highest level of a privilege."""
    return privilege if isinstance(privilege, int) else max(privilege)
