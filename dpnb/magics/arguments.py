"""Options of requests on a magic's line: their arguments, and the values of their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from IPython.core.magic_arguments import argument

from dpnb.decide.options import Thresholds
from dpnb.errors import RequestError, given, nearest
from dpnb.explain.options import Conditions
from dpnb.magics.lines import listed, read_amount
from dpnb.releases.kinds import Amount, Kind, Named, Number, Percent, Range, Texts, Whole
from dpnb.releases.options import Option, Options

Names: TypeAlias = Mapping[str, Any]
"""The variables of a notebook."""


def arguments(options: Options) -> list[Callable[..., Any]]:
    """Return the arguments of a magic, as its help lists them."""
    return [_argument(option) for option in options if option.help]


def _argument(option: Option) -> Callable[..., Any]:
    how: dict[str, Any] = {"dest": option.name, "help": option.help.replace("%", "%%")}
    if option.alone:
        how["action"] = "store_true"
    elif option.metavar:
        how["metavar"] = option.metavar
    if isinstance(option.kind, Range):
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
    if option.alone:
        return (True if option.means is None else option.means) if text else option.default
    return option.default if text is None else _meant(option.kind, text, option.spelled, names)


def _meant(kind: Kind, text: Any, option: str, names: Names) -> Any:
    """Return the value that a cell's text stands for, for its kind to read."""
    if isinstance(text, str) and text.startswith(":"):
        return read_amount(text, option, names)
    match kind:
        case Percent():
            return _percent(text)
        case Whole():
            number = _number(text)
            whole = isinstance(number, float) and number.is_integer()
            return int(number) if whole else number
        case Number():
            return _number(text)
        case Range():
            return [_number(read_amount(end, option, names)) for end in text]
        case Named(kind=Amount()):
            return _parts(text, option, names)
        case Named():
            return by_alias(text, option, names)
        case Conditions():
            return _list(text, option, names)
        case Texts():
            return listed(text)
        case Thresholds():
            return _mapping(text, option, names)
        case _:
            return text


def _number(text: Any) -> Any:
    """Return the number in a text; other texts and values stay as they are, for a kind to refuse."""
    try:
        return float(text) if isinstance(text, str) else text
    except ValueError:
        return text


def by_alias(text: str, option: str, names: Names) -> Any:
    """Return 50 for '50', and a number for each aggregate for 'n=100,mean=2'."""
    if "=" not in text:
        return _number(text)
    numbers = [
        (alias, _number(read_amount(number, option, names))) for alias, number in _named(text)
    ]
    if len(dict(numbers)) < len(numbers):
        raise RequestError(
            f"{option} names an aggregate twice", f"Write {option} n=100,mean=2, each once."
        )
    return dict(numbers)


def _named(text: str) -> list[tuple[str, str]]:
    """Return the names and texts of 'n=100,mean=2'."""
    pairs = [part.partition("=") for part in text.split(",")]
    return [(name.strip(), written.strip()) for name, _, written in pairs]


def _percent(text: str) -> Any:
    """Return 0.02 for '2%' and for '0.02'."""
    number, percent = _number(text.strip().removesuffix("%")), text.strip().endswith("%")
    if isinstance(number, str):
        return text
    return number / 100 if percent else number


def _parts(text: str, option: str, names: Names) -> Any:
    """Return an amount, or a dict with one for each part of an explanation."""
    if "=" not in text:
        return text
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
