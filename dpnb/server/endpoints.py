"""The one table of endpoints: what each takes, does and returns. Bodies are checked for names here.

What a request means, and every refusal of its values, is the curator's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.answers.question import Question
from dpnb.errors import RequestError
from dpnb.kinds import nearest
from dpnb.server import wire

if TYPE_CHECKING:
    from dpnb.curator import Curator

ACCURACY = ("rho", "epsilon", "error", "rows", "confidence", "looks", "intervals", "split",
            "history")  # fmt: skip
INFERENCE = (
    "confidence",
    "error",
    "between",
    "intervals",
    "method",
    "guaranteed",
    "prior",
    "chosen",
)
OPTIONS = (
    "k", "rho", "epsilon", "error", "confidence", "joint", "mode", "attributes", "exclude", "length",
    "connective", "ranges", "predicates", "lower",
)  # fmt: skip


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
            raise wire.malformed("the body is no JSON object")
        for entry in found:
            if entry not in self.entries:
                raise wire.malformed(f"{entry[:60]!r} is no entry of this request")
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


def _price(curator: Curator, asked: Asked) -> Any:
    body = asked.body
    statements = body["statements"]
    if not isinstance(statements, list) or len(statements) > MOST_STATEMENTS:
        raise RequestError(
            "statements is no list", f"Send SQL texts, at most {MOST_STATEMENTS} of them."
        )
    accuracy = _names(body.get("accuracy"), ACCURACY, "accuracy")
    prices = curator.price(asked.analyst, statements, body.get("params"), accuracy)
    return {"prices": [price.to_dict() for price in prices]}


def _price_explanation(curator: Curator, asked: Asked) -> Any:
    question, options = _explained(asked.body)
    return curator.price_explanation(asked.analyst, question, options).to_dict()


def _budget(curator: Curator, asked: Asked) -> Any:
    return {"ledger": curator.ledger, "budget": curator.status(asked.analyst).to_dict()}


def _history(curator: Curator, asked: Asked) -> Any:
    return {"requests": [one.to_dict() for one in curator.history(asked.analyst)]}


def _tables(curator: Curator, asked: Asked) -> Any:
    tables = [
        {
            "name": name,
            "columns": {
                column: {entry: _listed(value) for entry, value in kind.to_dict().items()}
                for column, kind in table.schema.items()
            },
            "aliases": [list(names) for names in table.schema.aliases],
            "complete": list(table.schema.complete),
        }
        for name, table in curator.tables.items()
    ]
    return {"tables": tables}


def _listed(value: Any) -> Any:
    """Return bounds and edges as JSON knows them: dates as texts."""
    if isinstance(value, list):
        return [_listed(item) for item in value]
    return value if isinstance(value, (str, int, float)) else value.isoformat()


def _explained(body: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    return read_question(body["question"]), _names(body.get("options"), OPTIONS, "options")


def _names(given: Any, known: tuple[str, ...], entry: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise wire.malformed(f"{entry!r} is no object")
    for name in given:
        if name not in known:
            raise RequestError(f"unknown option {name[:60]!r}", nearest(name[:60], known))
    return given


_TEXTS = ("left", "right", "aggregate", "function", "sentence", "mode", "note", "table", "ledger",
          "request")  # fmt: skip
_TRUTHS = ("valid", "planned", "private", "conditional", "enough")
_NUMBERS = ("constant", "confidence")
_PERHAPS = ("estimate", "low", "high", "rows")
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
        and all(isinstance(group, list) for group in data["groups"])
        and all(isinstance(part, (str, int)) for group in data["groups"] for part in group)
        and all(isinstance(weight, (int, float)) for weight in data["weights"])
    )
    if not right:
        raise RequestError("this question makes no sense", "Ask it anew.")
    return Question.from_dict(data)


MOST_STATEMENTS = 100

ENDPOINTS = (
    Endpoint("POST", "/v1/query", "query", "Answer one statement.", _query,
             {"sql": True, "params": False, "accuracy": False}, "Answer", spends=True),
    Endpoint("POST", "/v1/infer", "infer", "Work a statement out from past answers; spends nothing.",
             _infer, {"sql": True, "params": False, "options": False}, "Inference"),
    Endpoint("POST", "/v1/explain", "explain", "Explain a question about an answer.", _explain,
             {"question": True, "options": False}, "Explanation", spends=True),
    Endpoint("POST", "/v1/price", "price", "Price statements; spends nothing.", _price,
             {"statements": True, "params": False, "accuracy": False}, "Prices"),
    Endpoint("POST", "/v1/explanation-price", "price_explanation",
             "Price an explanation; spends nothing.", _price_explanation,
             {"question": True, "options": False}, "ExplanationPrice"),
    Endpoint("GET", "/v1/budget", "budget", "Cap, spent and remaining.", _budget, {}, "Budget"),
    Endpoint("GET", "/v1/history", "history", "Your answered requests.", _history, {}, "History"),
    Endpoint("GET", "/v1/tables", "tables", "Declared columns.", _tables, {}, "Tables"),
    Endpoint("GET", "/v1/health", "health", "Whether the service runs.", None, {}, "Health"),
    Endpoint("GET", "/v1/openapi.json", "openapi", "This description.", None, {}, "Description"),
)  # fmt: skip
