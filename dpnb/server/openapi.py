"""The service's description, OpenAPI 3.1, made from the table of endpoints."""

from __future__ import annotations

from typing import Any

from dpnb.decide.options import MODES, STEPS, STUDY_MODES
from dpnb.private import STAMPS
from dpnb.server.endpoints import (
    ACCURACY,
    DECISION,
    ENDPOINTS,
    INFERENCE,
    MOST_STATEMENTS,
    OPTIONS,
    Endpoint,
)
from dpnb.server.limits import Limits

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_TRUTH: dict[str, Any] = {"type": "boolean"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_OBJECT: dict[str, Any] = {"type": "object"}
_LIST: dict[str, Any] = {"type": "array"}
_AMOUNT = {
    "description": "A number, or a string with its decimal digits; both are exact.",
    "oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "maxLength": 60}],
}
_POSITIVE = {**_NUMBER, "exclusiveMinimum": 0}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Your name for this request. Repeat the request with the same name.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
}
_PRIVILEGE = {
    "name": "Dpnb-Privilege",
    "in": "header",
    "description": "One of your privileges, if you have several.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10},
}
_STATUS = {
    "400": "The request is not valid; nothing was charged.",
    "401": "The token is not accepted.",
    "403": "It costs more than is left, or the analyst is not allowed to ask; nothing was charged.",
    "404": "There is no such path.",
    "405": "The path needs another method.",
    "408": "The body did not arrive in time.",
    "409": "The key was already used for another request.",
    "413": "The body is too large.",
    "415": "The Content-Type must be application/json.",
    "429": "Too many requests.",
    "431": "The headers are too large.",
    "500": "The data could not be read, or the service failed; asking again is free.",
    "503": "The ledger cannot be used now, or the request took too long.",
}
_ENTRIES: dict[str, Any] = {
    "sql": {**_TEXT, "description": "One SELECT with COUNT, SUM or AVG; a decision: with HAVING."},
    "statements": {**_LIST, "items": _TEXT, "maxItems": MOST_STATEMENTS},
    "params": {**_OBJECT, "description": "Values of :name; a date is {'$date': '2024-01-31'}."},
    "accuracy": {"$ref": "#/components/schemas/Accuracy"},
    "question": {"$ref": "#/components/schemas/Question"},
    "column": _TEXT,
}
_OWN_OPTIONS = {
    "Inference": "InferenceOptions",
    "Decision": "DecisionOptions",
    "DecisionPrice": "DecisionOptions",
    "Discovery": "DiscoveryOptions",
    "DiscoveryPrice": "DiscoveryOptions",
}
"""Replies to requests whose options are others."""


def describe(prefix: str, limits: Limits) -> dict[str, Any]:
    """Return the description of a service whose paths start with ``prefix``."""
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dpnb",
            "version": "1",
            "description": "Ask questions of sensitive tables under differential privacy. "
            f"Bodies have at most {limits.body:,} bytes.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    open_to_all = endpoint.handler is None
    statuses = ["400", "404", "405", "413", "431", "500", "503"]
    if not open_to_all:
        statuses += ["401", "403", "429"]
    if endpoint.entries:
        statuses += ["408", "415"]
    if endpoint.spends:
        statuses += ["409"]
    replies = {"200": _reply("The result.", endpoint.reply)}
    replies |= {status: _reply(_STATUS[status], "Error") for status in sorted(statuses)}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "security": [] if open_to_all else [{"token": []}],
        "responses": replies,
    }
    if endpoint.entries:
        options = _OWN_OPTIONS.get(endpoint.reply, "Options")
        known = {**_ENTRIES, "options": {"$ref": f"#/components/schemas/{options}"}}
        schema = {
            "type": "object",
            "properties": {entry: known[entry] for entry in endpoint.entries},
            "required": [entry for entry, needed in endpoint.entries.items() if needed],
            "additionalProperties": False,
        }
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": True, "content": content}
    if not open_to_all:
        operation["parameters"] = [_PRIVILEGE, *([_KEY] if endpoint.spends else [])]
    return operation


def _reply(words: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": words, "content": content}


def _object(required: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required, "required": list(required), **more}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _by_name(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


def _decision_options() -> dict[str, Any]:
    share = {**_NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    size = {"anyOf": [_POSITIVE, _by_name(_POSITIVE)]}
    ends = {**_LIST, "items": _NUMBER, "minItems": 2, "maxItems": 2}
    width = {"anyOf": [_POSITIVE, ends]}
    group = {**_LIST, "items": {"type": ["string", "integer"]}, "minItems": 1}
    threshold = {**_LIST, "prefixItems": [group, _NUMBER], "minItems": 2, "maxItems": 2}
    free: dict[str, Any] = {}
    return dict.fromkeys(DECISION, free) | {
        "beta": share,
        "alpha": share,
        "u": _or_null(size),
        "ranges": _or_null({"anyOf": [width, _by_name(width)]}),
        "rows": _or_null(size),
        "mode": {"enum": [*MODES, *STUDY_MODES]},
        "protect": {"enum": ["fnr", "fpr"]},
        "confidence": share,
        "thresholds": {
            **_or_null(_by_name({**_LIST, "items": threshold})),
            "description": "For :name in HAVING, a number for each group.",
        },
        "steps": _or_null({**_WHOLE, "minimum": 1, "maximum": STEPS}),
        "most": _or_null(_AMOUNT),
        "history": _TRUTH,
    }


def _schemas() -> dict[str, Any]:
    loss = {"$ref": "#/components/schemas/PrivacyLoss"}
    losses = {"spent": loss, "remaining": loss, "cap": loss}
    price = {**losses, "currency": _TEXT, "affordable": _TRUTH}
    named = _by_name(_AMOUNT)
    free: dict[str, Any] = {}
    accuracy = dict.fromkeys(ACCURACY, free) | {
        "rho": _or_null(_AMOUNT),
        "epsilon": _or_null(_AMOUNT),
        "error": _or_null({"anyOf": [_AMOUNT, named]}),
        "rows": _or_null({**_WHOLE, "minimum": 1}),
        "confidence": {**_NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "looks": {"enum": [1, "any"]},
        "intervals": {"enum": ["simultaneous", "each"]},
        "split": _or_null(_AMOUNT),
        "history": _TRUTH,
    }
    inference = dict.fromkeys(INFERENCE, free) | {
        "confidence": _or_null(accuracy["confidence"]),
        "error": _or_null(_AMOUNT),
        "between": _or_null({**_LIST, "items": _NUMBER, "minItems": 2, "maxItems": 2}),
        "intervals": accuracy["intervals"],
        "method": {"enum": ["blue", "mc", "pc"]},
        "guaranteed": _TRUTH,
        "prior": {"description": "'nonnegative', or public knowledge as an object; null for none."},
        "chosen": {"anyOf": [{**_WHOLE, "minimum": 1}, {"const": "any"}]},
    }
    origin = _object(
        {"way": {"enum": ["history", "refined", "new"]}, "alone": loss, "past": _WHOLE}
    )
    options = dict.fromkeys(OPTIONS, free) | {
        "k": {**_WHOLE, "minimum": 1, "maximum": 100},
        "rho": _or_null({"anyOf": [_AMOUNT, named]}),
        "epsilon": _or_null(_AMOUNT),
        "error": _or_null(_AMOUNT),
        "confidence": accuracy["confidence"],
        "joint": _TRUTH,
        "mode": {"enum": ["tight", "paper"]},
        "attributes": _or_null({**_LIST, "items": _TEXT}),
        "exclude": {**_LIST, "items": _TEXT},
        "length": {**_WHOLE, "minimum": 1, "maximum": 3},
        "connective": {"enum": ["and", "or"]},
        "ranges": _TRUTH,
        "predicates": _or_null({**_LIST, "items": _TEXT}),
        "lower": _AMOUNT,
    }
    stamp = {
        "enum": [*STAMPS],
        "description": "Set if the numbers are not private numbers about real data.",
    }
    question = {
        "groups": {**_LIST, "items": _LIST}, "weights": {**_LIST, "items": _NUMBER},
        "constant": _NUMBER, "left": _TEXT, "right": _TEXT, "aggregate": _TEXT, "function": _TEXT,
        "estimate": _or_null(_NUMBER), "low": _or_null(_NUMBER), "high": _or_null(_NUMBER),
        "valid": _TRUTH, "sentence": _TEXT, "confidence": _NUMBER, "planned": _TRUTH,
        "stamp": stamp, "conditional": _TRUTH, "mode": _TEXT, "rows": _or_null(_NUMBER),
        "enough": _TRUTH, "joint_low": _or_null(_NUMBER), "joint_high": _or_null(_NUMBER),
        "smallest_high": _or_null(_NUMBER), "largest_low": _or_null(_NUMBER),
        "note": _TEXT, "table": _TEXT, "version": _WHOLE, "ledger": _TEXT,
        "request": _TEXT, "index": _WHOLE,
    }  # fmt: skip
    unit = _object({"column": _TEXT, "max_rows": _WHOLE, "max_groups": _WHOLE})
    table = _object(
        {
            "name": _TEXT,
            "columns": _OBJECT,
            "aliases": _LIST,
            "complete": _LIST,
            "unit": _or_null(unit),
            "public": _TRUTH,
        }
    )
    table["properties"] |= {"key": _TEXT, "joins": _OBJECT, "undeclared": _LIST}
    discovery = {
        "table": _or_null(_TEXT), "rho": _or_null(_AMOUNT), "epsilon": _or_null(_AMOUNT),
        "delta": _or_null(_AMOUNT), "confidence": accuracy["confidence"],
    }  # fmt: skip
    asked = _object({"time": _TEXT, "sql": _TEXT, "spent": loss, "conditional": _TRUTH})
    status = _object({**losses, "currency": _TEXT, "delta": free, "kept": _TRUTH, "stamp": stamp})
    return {
        "Accuracy": {"type": "object", "properties": accuracy, "additionalProperties": False},
        "InferenceOptions": {
            "type": "object", "properties": inference, "additionalProperties": False,
        },
        "DecisionOptions": {
            "type": "object", "properties": _decision_options(), "additionalProperties": False,
        },
        "DiscoveryOptions": {
            "type": "object", "properties": discovery, "additionalProperties": False,
        },
        "Options": {"type": "object", "properties": options, "additionalProperties": False},
        "Question": _object(question, additionalProperties=False),
        "PrivacyLoss": _object({"rho": _TEXT, "epsilon": _or_null(_TEXT), "delta": _TEXT}),
        "Answer": _object(
            {**losses, "sql": _TEXT, "table": _TEXT, "keys": _LIST, "groups": _LIST,
             "estimates": _LIST, "rows": _LIST, "asked": _WHOLE, "currency": _TEXT, "confidence": _NUMBER,
             "stored": _TRUTH, "ledger": _TEXT, "request": _TEXT, "origin": _or_null(origin)}
        ),
        "Inference": _object(
            {"sql": _TEXT, "table": _TEXT, "keys": _LIST, "groups": _LIST, "aggregates": _LIST,
             "rows": _LIST, "asked": _WHOLE, "confidence": _NUMBER, "method": _TEXT, "prior": inference["prior"],
             "joint": _OBJECT,
             "shares": _LIST, "missing": _LIST, "consistency": _OBJECT, "ledger": _TEXT}
        ),
        "Explanation": _object(
            {**losses, "question": {"$ref": "#/components/schemas/Question"}, "rows": _LIST,
             "relative": _TRUTH, "candidates": _WHOLE, "stored": _TRUTH}
        ),
        "Discovery": _object(
            {**losses, "table": _TEXT, "column": _TEXT, "keys": {**_LIST, "items": _TEXT},
             "hidden_low": _WHOLE, "hidden_high": _WHOLE, "law": _OBJECT, "stored": _TRUTH}
        ),
        "DiscoveryPrice": _object(
            {**losses, "law": _OBJECT, "hidden": _WHOLE, "affordable": _TRUTH}
        ),
        "Prices": _object(
            {"prices": {**_LIST, "items": _object(
                {**price, "sql": _TEXT, "widths": _LIST, "origin": _or_null(origin)}
            )}}
        ),
        "ExplanationPrice": _object({**price, "candidates": _WHOLE, "rho": _OBJECT}),
        "Decision": _object(
            {**losses, "charged": loss, "sql": _TEXT, "table": _TEXT, "keys": _LIST, "groups": _LIST,
             "condition": _TEXT, "mode": _TEXT, "status": _TEXT, "reason": _TEXT,
             "chosen": {**_LIST, "items": _TRUTH},
             "verdicts": {**_LIST, "items": {"enum": [1, 0, -1]}},
             "fnr_bound": _or_null(_NUMBER), "fpr_bound": _or_null(_NUMBER), "false": _NUMBER,
             "missed": _NUMBER, "tests": _LIST, "readings": _LIST, "taken": _LIST,
             "next_cost": _or_null(loss), "currency": _TEXT, "confidence": _NUMBER,
             "stored": _TRUTH, "ledger": _TEXT, "request": _TEXT}
        ),
        "DecisionPrice": _object(
            {**price, "sql": _TEXT, "condition": _TEXT, "groups": _WHOLE, "tests": _LIST,
             "costs": {**_LIST, "items": loss}, "first": loss, "ceiling": loss}
        ),
        "Budget": _object({"ledger": _TEXT, "budget": status}),
        "History": _object({"requests": {**_LIST, "items": asked}}),
        "Tables": _object({"tables": {**_LIST, "items": table}}),
        "Health": _object({"status": {"enum": ["ok", "degraded"]}}),
        "Ready": _object({"status": {"const": "ready"}}),
        "Description": _object({"openapi": _TEXT, "info": _OBJECT, "paths": _OBJECT}),
        "Error": _object({"kind": _TEXT, "what": _TEXT, "hint": _TEXT, "where": _TEXT}),
    }  # fmt: skip
