"""Errors with a hint, instead of a TypeError, for misnamed or misplaced arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from traceback import clear_frames
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
    parameters = [
        parameter
        for parameter in signature(function).parameters.values()
        if parameter.name != "self"
    ]
    method = "self" in signature(function).parameters
    function_name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    positional = [parameter for parameter in parameters if parameter.kind in _BY_PLACE]
    names = [parameter.name for parameter in parameters if parameter.kind != Parameter.VAR_KEYWORD]
    open_ended = len(names) < len(parameters)

    @wraps(function)
    def call(*values: P.args, **keywords: P.kwargs) -> R:
        try:
            check(len(values), list(keywords))
            return function(*values, **keywords)
        except BaseException as error:
            # a traceback keeps its frames with all variables, and a table's rows are an argument
            values = keywords = None  # type: ignore[assignment]
            clear_frames(error.__traceback__)
            raise

    def check(count: int, given_names: Sequence[str]) -> None:
        for name in given_names:
            if name not in names and not open_ended:
                raise RequestError(
                    f"{function_name} has no argument {given(name)}",
                    _MEANT.get((function_name, name)) or nearest(name, names),
                )
        if count > len(positional) + method:
            first = " and ".join(
                ", ".join(parameter.name for parameter in positional).rsplit(", ", 1)
            )
            example = ", such as rho=0.05" if "rho" in names else ""
            raise RequestError(
                f"{function_name} takes {f'only {first}' if first else 'no value'} without a name",
                _PLACED.get(function_name, f"Write the others with their names{example}."),
            )

    return call
