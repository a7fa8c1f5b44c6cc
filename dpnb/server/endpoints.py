"""The one table of endpoints: what each takes, does and returns. Bodies are checked for names here.

What a request means, and every refusal of its values, is the curator's.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.answers.options import OPTIONS as INFERENCE
from dpnb.answers.question import Question
from dpnb.decide.options import OPTIONS as DECISION
from dpnb.discover.request import OPTIONS as DISCOVERY
from dpnb.errors import RequestError, given, nearest
from dpnb.explain.options import OPTIONS as EXPLANATION
from dpnb.private import STAMPS
from dpnb.releases.accuracy import OPTIONS as ACCURACY
from dpnb.releases.options import Options, names
from dpnb.server import wire
from dpnb.server.thresholds import read_thresholds

if TYPE_CHECKING:
    from dpnb.curator import Curator


@dataclass(frozen=True, slots=True)
class Asked:
    """One authenticated request.

    Attributes
    ----------
    analyst : str
    body : mapping
        What was sent, decoded.
    identifier : str or None
        The client's name for this request.
    cancel : threading.Event
        Set when nobody waits any more.
    """

    analyst: str
    body: Mapping[str, Any]
    identifier: str | None
    cancel: threading.Event


Handler: TypeAlias = "Callable[[Curator, Asked], Any]"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the service.

    Attributes
    ----------
    method, path, name, summary : str
    handler : callable or None
        None for what is public and needs no curator.
    entries : mapping of str to bool
        Entries of the body, and whether they are needed.
    reply : str
        Name of the schema of what is returned.
    spends : bool
        Whether budget may be spent: such requests take a client's key.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler | None
    entries: Mapping[str, bool]
    reply: str
    spends: bool = False

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the entries of a body.

        Raises
        ------
        RequestError
            For what is no JSON object, for an unknown entry, and without a needed one.
        """
        found = wire.loads(body)
        if not isinstance(found, dict):
            raise wire.malformed("the body must be a JSON object")
        for entry in found:
            if entry not in self.entries:
                raise wire.malformed(f"{given(entry)} is not an entry of this request")
        for entry, needed in self.entries.items():
            if needed and entry not in found:
                raise wire.malformed(f"the body has no {entry!r}")
        return {entry: wire.decode(value) for entry, value in found.items()}


def _query(curator: Curator, asked: Asked) -> Any:
    body = asked.body
    accuracy = _names(body.get("accuracy"), ACCURACY, "accuracy")
    answer = curator.query(
        asked.analyst,
        body["sql"],
        body.get("params"),
        accuracy,
        cancel=asked.cancel,
        identifier=asked.identifier,
    )
    return answer.to_dict()


def _infer(curator: Curator, asked: Asked) -> Any:
    body = asked.body
    options = _names(body.get("options"), INFERENCE, "options")
    return curator.infer(asked.analyst, body["sql"], body.get("params"), options).to_dict()


def _explain(curator: Curator, asked: Asked) -> Any:
    question, options = _explained(asked.body)
    explanation = curator.explain(
        asked.analyst, question, options, cancel=asked.cancel, identifier=asked.identifier
    )
    return explanation.to_dict()


def _decide(curator: Curator, asked: Asked) -> Any:
    body = asked.body
    decision = curator.decide(
        asked.analyst,
        body["sql"],
        body.get("params"),
        _decided(body),
        cancel=asked.cancel,
        identifier=asked.identifier,
    )
    return decision.to_dict()


def _price(curator: Curator, asked: Asked) -> Any:
    body = asked.body
    statements = body["statements"]
    if not isinstance(statements, list) or len(statements) > MOST_STATEMENTS:
        raise RequestError(
            f"statements must be a list of at most {MOST_STATEMENTS} SQL texts",
            "Send ['SELECT ...'].",
        )
    accuracy = _names(body.get("accuracy"), ACCURACY, "accuracy")
    prices = curator.price(asked.analyst, statements, body.get("params"), accuracy)
    return {"prices": [price.to_dict() for price in prices]}


def _price_explanation(curator: Curator, asked: Asked) -> Any:
    question, options = _explained(asked.body)
    return curator.price_explanation(asked.analyst, question, options).to_dict()


def _price_decision(curator: Curator, asked: Asked) -> Any:
    body = asked.body
    price = curator.price_decision(asked.analyst, body["sql"], body.get("params"), _decided(body))
    return price.to_dict()


def _discover(curator: Curator, asked: Asked) -> Any:
    options = _names(asked.body.get("options"), DISCOVERY, "options")
    found = curator.discover(
        asked.analyst,
        asked.body["column"],
        options,
        cancel=asked.cancel,
        identifier=asked.identifier,
    )
    return found.to_dict()


def _price_discovery(curator: Curator, asked: Asked) -> Any:
    options = _names(asked.body.get("options"), DISCOVERY, "options")
    return curator.price_discovery(asked.analyst, asked.body["column"], options).to_dict()


def _budget(curator: Curator, asked: Asked) -> Any:
    return {"ledger": curator.ledger, "budget": curator.status(asked.analyst).to_dict()}


def _history(curator: Curator, asked: Asked) -> Any:
    return {"requests": [one.to_dict() for one in curator.history(asked.analyst)]}


def _tables(curator: Curator, asked: Asked) -> Any:
    return {"tables": [_dated(table.definition()) for table in curator.tables.values()]}


def _dated(value: Any) -> Any:
    """Return what is public about a table as JSON knows it: dates as texts."""
    if isinstance(value, Mapping):
        return {name: _dated(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_dated(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def _explained(body: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    return read_question(body["question"]), _names(body.get("options"), EXPLANATION, "options")


def _decided(body: Mapping[str, Any]) -> Mapping[str, Any]:
    options = _names(body.get("options"), DECISION, "options")
    if "thresholds" not in options:
        return options
    return {**options, "thresholds": read_thresholds(options["thresholds"])}


def _names(options: Any, declared: Options, entry: str) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise wire.malformed(f"{entry!r} must be a JSON object")
    known = names(declared)
    for name in options:
        if name not in known:
            raise RequestError(f"unknown option {given(name)}", nearest(name[:60], known))
    return options


_TEXTS = ("left", "right", "aggregate", "function", "sentence", "mode", "note", "table", "ledger",
          "request", "stamp")  # fmt: skip
_TRUTHS = ("valid", "planned", "conditional", "enough")
_NUMBERS = ("constant", "confidence")
_PERHAPS = (
    "estimate", "low", "high", "rows", "joint_low", "joint_high", "smallest_high", "largest_low",
)  # fmt: skip
_WHOLE = ("version", "index")


def read_question(data: Any) -> Any:
    """Return the question that was sent; it may be forged, and the curator checks what it claims.

    Raises
    ------
    RequestError
        When it is not of the shape of a question.
    """
    if not isinstance(data, Mapping):
        # no question at all: the curator says so, in its own words
        return data
    kinds: dict[str, type | tuple[type, ...]] = {
        **dict.fromkeys(_TEXTS, str),
        **dict.fromkeys(_TRUTHS, bool),
        **dict.fromkeys(_NUMBERS, (int, float)),
        **dict.fromkeys(_PERHAPS, (int, float, type(None))),
        **dict.fromkeys(_WHOLE, int),
        "groups": list,
        "weights": list,
    }
    right = set(data) == set(kinds) and all(
        isinstance(data[name], kind) and (kind is bool or not isinstance(data[name], bool))
        for name, kind in kinds.items()
    )
    right = (
        right
        and data["stamp"] in STAMPS
        and all(isinstance(group, list) for group in data["groups"])
        and all(isinstance(part, (str, int)) for group in data["groups"] for part in group)
        and all(isinstance(weight, (int, float)) for weight in data["weights"])
    )
    if not right:
        raise RequestError("this is not a question that dpnb made", "Ask it again with compare().")
    return Question.from_dict(data)


MOST_STATEMENTS = 100

ENDPOINTS = (
    Endpoint("POST", "/v1/query", "query", "Answer one statement.", _query,
             {"sql": True, "params": False, "accuracy": False}, "Answer", spends=True),
    Endpoint("POST", "/v1/infer", "infer", "Estimate a statement from past answers; costs nothing.",
             _infer, {"sql": True, "params": False, "options": False}, "Inference"),
    Endpoint("POST", "/v1/explain", "explain", "Explain a question about an answer.", _explain,
             {"question": True, "options": False}, "Explanation", spends=True),
    Endpoint("POST", "/v1/decide", "decide", "Decide which groups meet a condition.", _decide,
             {"sql": True, "params": False, "options": False}, "Decision", spends=True),
    Endpoint("POST", "/v1/discover", "discover", "Find the values of an undeclared column.", _discover,
             {"column": True, "options": False}, "Discovery", spends=True),
    Endpoint("POST", "/v1/price", "price", "Price statements; costs nothing.", _price,
             {"statements": True, "params": False, "accuracy": False}, "Prices"),
    Endpoint("POST", "/v1/explanation-price", "price_explanation",
             "Price an explanation; costs nothing.", _price_explanation,
             {"question": True, "options": False}, "ExplanationPrice"),
    Endpoint("POST", "/v1/decision-price", "price_decision", "Price a decision; costs nothing.",
             _price_decision, {"sql": True, "params": False, "options": False}, "DecisionPrice"),
    Endpoint("POST", "/v1/discovery-price", "price_discovery",
             "Price a search for values; costs nothing.", _price_discovery,
             {"column": True, "options": False}, "DiscoveryPrice"),
    Endpoint("GET", "/v1/budget", "budget", "Total budget, spent and left.", _budget, {}, "Budget"),
    Endpoint("GET", "/v1/history", "history", "Your answered requests.", _history, {}, "History"),
    Endpoint("GET", "/v1/tables", "tables", "Declared columns.", _tables, {}, "Tables"),
    Endpoint("GET", "/v1/health", "health", "The service runs; says whether it can answer requests.",
             None, {}, "Health"),
    Endpoint("GET", "/v1/ready", "ready", "Refused if the service cannot answer requests now.", None, {},
             "Ready"),
    Endpoint("GET", "/v1/openapi.json", "openapi", "This description.", None, {}, "Description"),
)  # fmt: skip
