"""Options of requests on a magic's line: their arguments, and the values of their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from IPython.core.magic_arguments import argument

from dpnb.errors import RequestError, given, nearest
from dpnb.magics.lines import listed, read_amount, read_number, read_whole
from dpnb.releases.options import Option, Options, Written

Names: TypeAlias = Mapping[str, Any]
"""The variables of a notebook."""


def arguments(options: Options) -> list[Callable[..., Any]]:
    """Return the arguments of a magic, as its help lists them."""
    return [_argument(option) for option in options if option.help]


def _argument(option: Option) -> Callable[..., Any]:
    how: dict[str, Any] = {"dest": option.name, "help": option.help.replace("%", "%%")}
    if option.written == "alone":
        how["action"] = "store_true"
    elif option.metavar:
        how["metavar"] = option.metavar
    if option.written == "pair":
        how["nargs"] = 2
    decorator: Callable[..., Any] = argument(option.spelled, **how)
    return decorator


def read(options: Options, line: Any, names: Names) -> dict[str, Any]:
    """Return the arguments of a method of ``Session`` from the parsed line of a cell.

    Raises
    ------
    RequestError
        For a text that its option does not accept.
    """
    return {option.name: _value(option, line, names) for option in options if option.help}


def _value(option: Option, line: Any, names: Names) -> Any:
    text = getattr(line, option.name)
    if option.written == "alone":
        return option.means if text else option.default
    return option.default if text is None else _READERS[option.written](text, option.spelled, names)


def by_alias(text: str, option: str, names: Names) -> float | dict[str, float]:
    """Return 50 for '50', and a number for each aggregate for 'n=100,mean=2'."""
    if "=" not in text:
        return read_number(text, option)
    numbers = [(alias, read_number(number, option)) for alias, number in _named(text)]
    if len(dict(numbers)) < len(numbers):
        raise RequestError(
            f"{option} names an aggregate twice", f"Write {option} n=100,mean=2, each once."
        )
    return dict(numbers)


def _named(text: str) -> list[tuple[str, str]]:
    """Return the names and texts of 'n=100,mean=2'."""
    pairs = [part.partition("=") for part in text.split(",")]
    return [(name.strip(), written.strip()) for name, _, written in pairs]


def _percent(text: str, option: str, names: Names) -> float:
    """Return 0.02 for '2%' and for '0.02'."""
    if text.strip().endswith("%"):
        return read_number(text.strip()[:-1], option) / 100
    return read_number(text, option)


def _parts(text: str, option: str, names: Names) -> Any:
    """Return an amount, or a dict with one for each part of an explanation."""
    if "=" not in text:
        return read_amount(text, option, names)
    amounts = [(part, read_amount(rho, option, names)) for part, rho in _named(text)]
    if len(dict(amounts)) < len(amounts):
        raise RequestError(
            f"{option} names a part twice", "Write topk=0.05,influence=0.05,rank=0.1."
        )
    return dict(amounts)


def _mapping(name: str, option: str, names: Names) -> Mapping[str, Any]:
    variable = names.get(name)
    if isinstance(variable, Mapping):
        return variable
    candidates = [
        key for key, value in names.items() if isinstance(value, Mapping) and key[:1] != "_"
    ]
    hint = (
        nearest(name, candidates)
        if candidates
        else "Write limits = {'quota': {'a': 100, 'b': 50}} first."
    )
    raise RequestError(f"there is no dict named {given(name)}", hint)


def _list(name: str, option: str, names: Names) -> Any:
    if name not in names:
        raise RequestError(
            f"there is no list named {given(name)}",
            'Name a variable with a list of conditions, such as ["age > 30"].',
        )
    return names[name]


_READERS: dict[Written, Callable[[Any, str, Names], Any]] = {
    "text": lambda text, option, names: text,
    "number": lambda text, option, names: read_number(text, option),
    "whole": lambda text, option, names: read_whole(text, option),
    "amount": read_amount,
    "names": lambda text, option, names: listed(text),
    "by alias": by_alias,
    "percent": _percent,
    "parts": _parts,
    "pair": lambda texts, option, names: [read_number(text, option) for text in texts],
    "any or whole": lambda text, option, names: int(text) if text.isdecimal() else text,
    "mapping": _mapping,
    "list": _list,
}
