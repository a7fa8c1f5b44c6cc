"""The table of all endpoints: what each takes, does and returns.

This module checks the names of the entries in a body. The verb reads and checks their values.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpnb import verbs
from dpnb.errors import given
from dpnb.releases.runner import Runner
from dpnb.server import wire
from dpnb.server.calls import received


@dataclass(frozen=True, slots=True)
class Asked:
    """One authenticated request.

    Attributes
    ----------
    analyst : str
    body : mapping
        The decoded entries of the body.
    identifier : str or None
        The client's idempotency key.
    cancel : threading.Event
        Set when the request is stopped.
    """

    analyst: str
    body: Mapping[str, Any]
    identifier: str | None
    cancel: threading.Event


Handler: TypeAlias = Callable[[Runner, Asked], Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the service.

    Attributes
    ----------
    method, path, name, summary : str
    handler : callable or None
        None for endpoints without authentication.
    entries : mapping of str to bool
        Entries of the body, and whether they are required.
    reply : str
        Name of the schema of the reply.
    verb : str
        The verb; '' if the endpoint has none.
    spends : bool
        Whether budget may be spent: such requests take an idempotency key.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler | None
    entries: Mapping[str, bool]
    reply: str
    verb: str = ""
    spends: bool = False

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the entries of a body.

        Raises
        ------
        RequestError
            If the body is not a JSON object, has an unknown entry, or lacks a required one.
        """
        content = wire.loads(body)
        if not isinstance(content, dict):
            raise wire.malformed("the body must be a JSON object")
        for entry in content:
            if entry not in self.entries:
                raise wire.malformed(f"{given(entry)} is not an entry of this request")
        for entry, needed in self.entries.items():
            if needed and entry not in content:
                raise wire.malformed(f"the body has no {entry!r}")
        return {entry: wire.decode(value) for entry, value in content.items()}


def _run(verb: str) -> Handler:
    def handler(runner: Runner, request: Asked) -> Any:
        call = received(verb, request.body)
        return verbs.run(
            runner, request.analyst, call, request.cancel, request.identifier
        ).to_dict()

    return handler


def _price(verb: str) -> Handler:
    def handler(runner: Runner, request: Asked) -> Any:
        quotation = verbs.price(runner, request.analyst, received(verb, request.body))
        if isinstance(quotation, list):
            return {"prices": [price.to_dict() for price in quotation]}
        return quotation.to_dict()

    return handler


def _budget(runner: Runner, request: Asked) -> Any:
    status = verbs.budget(runner, request.analyst)
    return {"ledger": runner.store.name, "budget": status.to_dict()}


def _history(runner: Runner, request: Asked) -> Any:
    return {
        "requests": [
            past_request.to_dict() for past_request in verbs.history(runner, request.analyst)
        ]
    }


def _tables(runner: Runner, request: Asked) -> Any:
    return {"tables": [_dated(table.definition()) for table in runner.own.values()]}


def _dated(value: Any) -> Any:
    """Return a table's definition for JSON, with dates as texts."""
    if isinstance(value, Mapping):
        return {name: _dated(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_dated(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


_STATEMENT = {"sql": True, "params": False, "options": False}
ENDPOINTS = (
    Endpoint("POST", "/v2/query", "query", "Answer one statement.", _run("query"),
             _STATEMENT, "Answer", "query", spends=True),
    Endpoint("POST", "/v2/infer", "infer", "Estimate a statement from past answers; costs nothing.",
             _run("infer"), _STATEMENT, "Inference", "infer"),
    Endpoint("POST", "/v2/explain", "explain", "Explain a question about an answer.", _run("explain"),
             {"question": True, "options": False}, "Explanation", "explain", spends=True),
    Endpoint("POST", "/v2/decide", "decide", "Decide which groups meet a condition.", _run("decide"),
             _STATEMENT, "Decision", "decide", spends=True),
    Endpoint("POST", "/v2/discover", "discover", "Find the values of an undeclared column.",
             _run("discover"), {"column": True, "options": False}, "Discovery", "discover", spends=True),
    Endpoint("POST", "/v2/query/price", "price_query", "Price statements; costs nothing.",
             _price("query"), {"statements": True, "params": False, "options": False}, "Prices", "query"),
    Endpoint("POST", "/v2/explain/price", "price_explanation", "Price an explanation; costs nothing.",
             _price("explain"), {"question": True, "options": False}, "ExplanationPrice", "explain"),
    Endpoint("POST", "/v2/decide/price", "price_decision", "Price a decision; costs nothing.",
             _price("decide"), _STATEMENT, "DecisionPrice", "decide"),
    Endpoint("POST", "/v2/discover/price", "price_discovery", "Price a search for values; costs nothing.",
             _price("discover"), {"column": True, "options": False}, "DiscoveryPrice", "discover"),
    Endpoint("GET", "/v2/budget", "budget", "Total budget, spent and left.", _budget, {}, "Budget"),
    Endpoint("GET", "/v2/history", "history", "Your answered requests.", _history, {}, "History"),
    Endpoint("GET", "/v2/tables", "tables", "Declared columns.", _tables, {}, "Tables"),
    Endpoint("GET", "/v2/health", "health", "The service runs; says whether it can answer requests.",
             None, {}, "Health"),
    Endpoint("GET", "/v2/ready", "ready", "Refused if the service cannot answer requests now.", None, {},
             "Ready"),
    Endpoint("GET", "/v2/openapi.json", "openapi", "This description.", None, {}, "Description"),
)  # fmt: skip
