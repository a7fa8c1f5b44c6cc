"""Calls of verbs as values, and the declaration of a verb."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpnb.privacy.loss import Picked, PickedRational
from dpnb.releases.options import Options
from dpnb.releases.runner import Runner

_PLAIN = (str, int, float, bool, type(None), Fraction, Decimal, Picked, PickedRational)
_MOST_TEXT, _MOST_PARTS, _DEEPEST = 10_000, 500, 5
"""A call beyond these limits is not kept, but read anew each time."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb.

    Attributes
    ----------
    verb : str
    subject : object
        A statement, a question or a column; several statements if their prices are asked together.
    options : mapping of str to object
        As given.
    params : mapping of str to object, optional
        Values of the parameters ``:name``.
    """

    verb: str
    subject: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, object] | None = None

    def key(self) -> Hashable | None:
        """Return a key that is equal only for calls of equal meaning; None if the call is not kept.

        Calls with very many values, or with values other than texts, numbers and collections of
        them, are not kept.
        """
        plain_call = _plain([self.verb, self.subject, dict(self.options), self.params])
        return None if len(repr(plain_call)) > _MOST_TEXT else plain_call


def _plain(value: Any, depth: int = 0) -> Hashable | None:
    """Return a key, equal only for values of equal type and text; None for unsupported values."""
    kind = type(value)
    if kind in _PLAIN:
        try:
            return kind, repr(value)
        except ValueError:
            # Python refuses to write a whole number of thousands of digits
            return None
    if kind not in (dict, list, tuple) or len(value) > _MOST_PARTS or depth > _DEEPEST:
        return None
    parts = [*value, *value.values()] if kind is dict else value
    keys = [_plain(part, depth + 1) for part in parts]
    return None if None in keys else (kind, tuple(keys))


@dataclass(frozen=True, slots=True)
class Verb:
    """A kind of request that analysts may make.

    Attributes
    ----------
    subject : str
        The service's name for the subject of a call.
    options : sequence of Option
    result, price : type
        Types of the result and of the price; a verb without a price is free.
    run : callable
        Turns a runner, an analyst's account and a call into the result. It also takes an event that
        cancels it and the client's identifier.
    priced : callable
        Turns a runner, an analyst's account and a call into the price, or a list of prices.
    """

    subject: str
    options: Options
    result: type[Any]
    run: Callable[[Runner, str, Call, threading.Event | None, str | None], Any]
    price: type[Any] | None = None
    priced: Callable[[Runner, str, Call], Any] | None = None

    def whole(self, call: Call) -> Call:
        """Return a call with all defaults filled in, so that equal meanings have equal keys."""
        defaults = {option.name: option.default for option in self.options}
        return replace(call, options=defaults | {**call.options})
