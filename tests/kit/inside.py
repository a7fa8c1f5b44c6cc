"""Ways behind a session or a curator, for tests that look at what nobody is shown."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from dpnb import verbs
from dpnb.curator import Curator
from dpnb.releases.call import Call
from dpnb.releases.runner import Runner
from dpnb.session import Session


def runner(held: Session | Curator) -> Runner:
    """Return what carries out the calls of a session or a curator in this process."""
    backend: Any = held._runner if isinstance(held, Curator) else held._backend
    return backend if isinstance(backend, Runner) else backend.runner


def owner(session: Session) -> Curator:
    """Return the owner's handle on what a session asks."""
    return Curator._of(runner(session))


def ask(
    held: Session | Curator,
    row: str,
    verb: str,
    subject: object,
    options: Mapping[str, Any],
    cancel: threading.Event | None = None,
    identifier: str | None = None,
) -> Any:
    """Return the result of a call, which may be cancelled or have a client's name."""
    return verbs.run(runner(held), row, Call(verb, subject, options), cancel, identifier)


def priced(
    held: Session | Curator, row: str, verb: str, subject: object, options: Mapping[str, Any]
) -> Any:
    """Return the price of a call."""
    return verbs.price(runner(held), row, Call(verb, subject, options))
