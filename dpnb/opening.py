"""What the owner says on opening a table: budget and policy, by options or in the table's file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

from dpnb.errors import DpnbError, RequestError
from dpnb.privacy.budget import Budget
from dpnb.provenance.policy import Policy

_SWITCH = re.compile(r"pass ([a-z]+(?:_[a-z]+)*)=True")
_BUDGET = "Pass budget=dpnb.Budget(...)."


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """Let errors of opening speak of options, as in ``--new-version``, instead of arguments."""
    try:
        yield
    except DpnbError as error:
        mend = error.mend.replace(_BUDGET, "Add --epsilon 3 --delta 1e-6, or --rho 0.5.")
        error.mend = _SWITCH.sub(lambda found: f"add --{found[1].replace('_', '-')}", mend)
        raise


def read_budget(
    rho: Any, epsilon: Any, delta: Any, key_delta: Any, declared: object
) -> Budget | None:
    """Return the budget given by options, else the one in the table's file, else None.

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
    if any(one is not None for one in (rho, epsilon, delta, key_delta)):
        return Budget(rho=rho, epsilon=epsilon, delta=delta, key_delta=key_delta)
    if declared is None:
        return None
    known = [*signature(Budget).parameters]
    if not isinstance(declared, Mapping) or set(declared) - set(known):
        raise RequestError("[budget] has an unknown entry", f"It takes {', '.join(known)}.")
    return Budget(**declared)


def read_policy(declared: object, **more: Any) -> Policy | None:
    """Return the policy in a table's file, ``[policy]``, with what is given beside it; None for none.

    Raises
    ------
    RequestError
    """
    if declared is None:
        return Policy(**more) if more else None
    known = [*signature(Policy).parameters]
    if not isinstance(declared, Mapping) or set(declared) - set(known):
        raise RequestError("[policy] has an unknown entry", f"It takes {', '.join(known)}.")
    return Policy(**{**declared, **more})
