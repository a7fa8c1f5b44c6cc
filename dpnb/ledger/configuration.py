"""The owner's settings for opening a table: budget and policy, from options or the table's file."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from dpnb.errors import RequestError
from dpnb.ledger.policy import Policy, privileges_of
from dpnb.privacy.budget import Budget


def read_budget(
    rho: Any, epsilon: Any, delta: Any, key_delta: Any, declared: object
) -> Budget | None:
    """Return the budget from options, else from the table's file, else None.

    Parameters
    ----------
    rho, epsilon, delta, key_delta : number or None
        Options.
    declared : mapping or None
        ``[budget]`` of the table's file.

    Raises
    ------
    RequestError
    """
    if any(option is not None for option in (rho, epsilon, delta, key_delta)):
        return Budget(rho=rho, epsilon=epsilon, delta=delta, key_delta=key_delta)
    if declared is None:
        return None
    options = [*signature(Budget).parameters]
    if not isinstance(declared, Mapping) or set(declared) - set(options):
        raise RequestError("[budget] has an unknown entry", f"It takes {', '.join(options)}.")
    return Budget(**declared)


def read_analysts(declared: object, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the analysts in a table's file, ``[analysts]``, together with those in ``known``.

    Parameters
    ----------
    declared : mapping or None
        From names to privileges.
    known : mapping
        The same, for analysts who have a token.

    Raises
    ------
    RequestError
    """
    if not isinstance(declared, Mapping | None):
        raise RequestError(
            "[analysts] must give each analyst a privilege", "Write lines like alice = 4."
        )
    analysts = dict(declared or {})
    for name, privilege in known.items():
        if name in analysts and privileges_of(analysts[name]) != privileges_of(privilege):
            raise RequestError(
                f"the privilege of {name!r} in [analysts] differs from that of the token",
                "Write the privilege of the token.",
            )
    return {**analysts, **known}


def read_policy(declared: object, **more: Any) -> Policy | None:
    """Return the policy in a table's file, ``[policy]``, and ``more``; None if there is neither.

    Raises
    ------
    RequestError
    """
    if declared is None:
        return Policy(**more) if more else None
    options = [*signature(Policy).parameters]
    if not isinstance(declared, Mapping) or set(declared) - set(options):
        raise RequestError("[policy] has an unknown entry", f"It takes {', '.join(options)}.")
    return Policy(**{**declared, **more})
