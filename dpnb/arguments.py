"""Errors with a hint, instead of a TypeError, for misnamed or misplaced arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

from dpnb.errors import RequestError, given, nearest

P = ParamSpec("P")
R = TypeVar("R")

_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
MOST = "Write most=0.05: the highest total privacy cost."
_PRICED = "session.price(...) says what it would cost, free."
_MEANT = {
    ("decide", "rho"): MOST,
    ("decide", "epsilon"): MOST,
    **{
        (who, amount): "Write budget=dpnb.Budget(epsilon=3, delta=1e-6)."
        for who in ("Session", "Curator")
        for amount in ("rho", "epsilon", "delta")
    },
    **{(verb, "dry_run"): _PRICED for verb in ("query", "explain", "decide")},
    ("discover", "dry_run"): _PRICED.replace("price", "price_discovery"),
}
"""Hint for an argument that other functions have."""
_PLACED = {
    "explain": "Compare the groups first: session.explain(answer.compare('a', 'b'), rho=0.05)."
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function explain which arguments it does not have.

    Raises
    ------
    RequestError
        The returned function raises it for an unknown name, or for a positional value where a name
        is needed.
    """
    parameters = [one for one in signature(function).parameters.values() if one.name != "self"]
    method = "self" in signature(function).parameters
    whose = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    placed = [one for one in parameters if one.kind in _BY_PLACE]
    names = [one.name for one in parameters if one.kind != Parameter.VAR_KEYWORD]
    open_ended = len(names) < len(parameters)

    @wraps(function)
    def call(*values: P.args, **named: P.kwargs) -> R:
        for name in named:
            if name not in names and not open_ended:
                raise RequestError(
                    f"{whose} has no argument {given(name)}",
                    _MEANT.get((whose, name)) or nearest(name, names),
                )
        if len(values) > len(placed) + method:
            first = " and ".join(", ".join(one.name for one in placed).rsplit(", ", 1))
            such = ", such as rho=0.05" if "rho" in names else ""
            raise RequestError(
                f"{whose} takes {f'only {first}' if first else 'no value'} without a name",
                _PLACED.get(whose, f"Write the others with their names{such}."),
            )
        return function(*values, **named)

    return call
