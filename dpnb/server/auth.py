"""Authentication: from the headers of a request to an analyst, or a refusal."""

from __future__ import annotations

import logging
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
log = logging.getLogger("dpnb.server")
_HEADER = re.compile(rb"(?i:bearer|token) +([!-~]{1,500}) *")


@dataclass(frozen=True, slots=True)
class Analyst:
    """An analyst, with the privilege to register in the ledger."""

    name: str
    privilege: Privilege


class Authenticator(Protocol):
    """Identifies the analyst who sends a request."""

    @property
    def top(self) -> int:
        """The highest privilege of any analyst; 0 if nobody can be let in."""
        ...

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

    def ready(self) -> bool:
        """Return whether it can identify everybody now; if not, the log says why."""
        ...


class Declared:
    """An authenticator, with the privileges that a table's file declares under ``[analysts]``.

    Analysts whose token has another privilege than the file are kept out, and so are those whose
    declared privilege, here (), is not usable.
    """

    def __init__(self, authenticator: Authenticator, privileges: Mapping[str, Privilege]) -> None:
        self._authenticator, self._privileges = authenticator, privileges

    @property
    def top(self) -> int:
        """The highest privilege of any analyst; 0 if nobody can be let in."""
        own = [highest(privilege) for privilege in self._privileges.values() if privilege]
        return max(self._authenticator.top, *own, 0)

    def known(self) -> Sequence[Analyst]:
        """Return the declared analysts, and the others who have a token."""
        others = []
        for analyst in self._authenticator.known():
            if analyst.name not in self._privileges:
                others.append(analyst)
            elif self._privileges[analyst.name] not in ((), analyst.privilege):
                log.error(
                    "%s is kept out: [analysts] gives privilege %s, and the token %s",
                    analyst.name, self._privileges[analyst.name], analyst.privilege,
                )  # fmt: skip
        declared = (Analyst(*pair) for pair in self._privileges.items() if pair[1])
        return [*declared, *others]

    async def identify(self, headers: Headers) -> Analyst:
        """Return the analyst who sends a request, if the file does not say otherwise."""
        analyst = await self._authenticator.identify(headers)
        if not self._agrees(analyst):
            raise not_allowed()
        return analyst

    def ready(self) -> bool:
        """Return whether the authenticator is ready."""
        return self._authenticator.ready()

    def _agrees(self, analyst: Analyst) -> bool:
        return self._privileges.get(analyst.name, analyst.privilege) == analyst.privilege


def refused() -> RefusedError:
    """Return the refusal for every token that is not accepted."""
    return RefusedError(
        401,
        "the token is not accepted",
        "Ask the owner of the data for a token of this service. Put it in DPNB_TOKEN.",
    )


def not_allowed() -> RefusedError:
    """Return the refusal for an analyst whose privilege the owner's files do not allow."""
    return RefusedError(
        403,
        "the owner has not allowed an analyst with your privilege",
        "Ask the owner of the data.",
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
