"""What is asked, as a value; and what a verb consists of, one declaration for each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpnb.releases.options import Options
from dpnb.releases.runner import Runner


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
