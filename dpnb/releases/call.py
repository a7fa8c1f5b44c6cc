"""What is asked, as a value; and what a verb consists of, one declaration for each."""

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
"""A call that is longer is read anew each time."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a verb is asked.

    Attributes
    ----------
    verb : str
    subject : object
        What it is about: a statement, a question, a column. Queries are priced several at once.
    options : mapping of str to object
        As they were given.
    params : mapping of str to object, optional
        Values of the parameters ``:name``.
    """

    verb: str
    subject: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, object] | None = None

    def key(self) -> Hashable | None:
        """Return what is equal only for calls of equal meaning; None for one that is not kept.

        That is one with values other than texts, numbers and collections of them, or with very many.
        """
        said = _plain([self.verb, self.subject, dict(self.options), self.params])
        return None if len(repr(said)) > _MOST_TEXT else said


def _plain(value: Any, depth: int = 0) -> Hashable | None:
    """Return a value as a key, equal only for values of equal type, text and mark; None for others."""
    kind = type(value)
    if kind in _PLAIN:
        try:
            return kind, repr(value)
        except ValueError:
            # a whole number of thousands of digits has no text
            return None
    if kind not in (dict, list, tuple) or len(value) > _MOST_PARTS or depth > _DEEPEST:
        return None
    parts = [*value, *value.values()] if kind is dict else value
    found = [_plain(part, depth + 1) for part in parts]
    return None if None in found else (kind, tuple(found))


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that analysts may ask.

    Attributes
    ----------
    subject : str
        What the service calls the subject of a call.
    options : sequence of Option
    result, price : type
        What comes back; a verb without a price is free.
    run : callable
        From a runner, an analyst's row and a call to the result. It may be cancelled, and named by the client.
    priced : callable
        From a runner, an analyst's row and a call to the price, or to a list of them.
    """

    subject: str
    options: Options
    result: type[Any]
    run: Callable[[Runner, str, Call, threading.Event | None, str | None], Any]
    price: type[Any] | None = None
    priced: Callable[[Runner, str, Call], Any] | None = None

    def whole(self, call: Call) -> Call:
        """Return a call with what it leaves unsaid, so that calls of equal meaning have equal keys."""
        unsaid = {option.name: option.default for option in self.options}
        return replace(call, options=unsaid | {**call.options})
