"""The owner's settings for opening a table: budget and policy, from options or the table's file."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from dpnb.errors import RequestError
from dpnb.ledger.policy import Policy
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


def read_analysts(declared: object) -> dict[str, Any]:
    """Return the analysts in a table's file, ``[analysts]``, with their privileges as written.

    Raises
    ------
    RequestError
    """
    if not isinstance(declared, Mapping | None):
        raise RequestError(
            "[analysts] must give each analyst a privilege", "Write lines like alice = 4."
        )
    return dict(declared or {})


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
