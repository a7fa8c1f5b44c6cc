"""The service's description, OpenAPI 3.1, made from the table of endpoints."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dpnb.answers.question import Reference
from dpnb.private import STAMPS
from dpnb.releases.kinds import LIST, NUMBER, TEXT, TRUTH, WHOLE, or_null
from dpnb.releases.options import schema_of
from dpnb.server.calls import MOST_STATEMENTS
from dpnb.server.endpoints import ENDPOINTS, Endpoint
from dpnb.server.limits import Limits
from dpnb.verbs import VERBS, verb

_OBJECT: dict[str, Any] = {"type": "object"}
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
    "sql": {**TEXT, "description": "One SELECT with COUNT, SUM or AVG; a decision: with HAVING."},
    "statements": {**LIST, "items": TEXT, "maxItems": MOST_STATEMENTS},
    "params": {**_OBJECT, "description": "Values of :name; a date is {'$date': '2024-01-31'}."},
    "question": {"$ref": "#/components/schemas/Reference"},
    "column": TEXT,
}


def describe(prefix: str, limits: Limits) -> dict[str, Any]:
    """Return the description of a service whose paths start with ``prefix``."""
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dpnb",
            "version": "2",
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
        options = {"$ref": f"#/components/schemas/{_options(endpoint.verb)}"}
        schemas = {**_ENTRIES, "options": options}
        schema = {
            "type": "object",
            "properties": {entry: schemas[entry] for entry in endpoint.entries},
            "required": [entry for entry, needed in endpoint.entries.items() if needed],
            "additionalProperties": False,
        }
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": True, "content": content}
    if not open_to_all:
        operation["parameters"] = [_PRIVILEGE, *([_KEY] if endpoint.spends else [])]
    return operation


def _options(verb: str) -> str:
    """Return the name of the options schema of a verb."""
    return f"{verb.capitalize()}Options"


def _reply(words: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": words, "content": content}


def _object(required: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required, "required": list(required), **more}


def _schemas() -> dict[str, Any]:
    loss = {"$ref": "#/components/schemas/PrivacyLoss"}
    losses = {"spent": loss, "remaining": loss, "cap": loss}
    price = {**losses, "privacy": TEXT, "affordable": TRUTH, "refusal": TEXT}
    free: dict[str, Any] = {}
    origin = _object({"way": {"enum": ["history", "refined", "new"]}, "alone": loss, "past": WHOLE})
    stamp = {
        "enum": [*STAMPS],
        "description": "Set if the numbers are not private numbers about real data.",
    }
    question = {
        "groups": {**LIST, "items": LIST}, "weights": {**LIST, "items": NUMBER},
        "constant": NUMBER, "left": TEXT, "right": TEXT, "aggregate": TEXT, "function": TEXT,
        "estimate": or_null(NUMBER), "low": or_null(NUMBER), "high": or_null(NUMBER),
        "valid": TRUTH, "sentence": TEXT, "confidence": NUMBER, "planned": TRUTH,
        "stamp": stamp, "conditional": TRUTH, "mode": TEXT, "rows": or_null(NUMBER),
        "enough": TRUTH, "joint_low": or_null(NUMBER), "joint_high": or_null(NUMBER),
        "smallest_high": or_null(NUMBER), "largest_low": or_null(NUMBER),
        "note": TEXT, "table": TEXT, "version": WHOLE, "ledger": TEXT,
        "request": TEXT, "index": WHOLE,
    }  # fmt: skip
    unit = _object({"column": TEXT, "max_rows": WHOLE})
    unit["properties"] |= {"max_groups": WHOLE, "kind": TEXT}
    table = _object(
        {
            "name": TEXT,
            "columns": _OBJECT,
            "aliases": LIST,
            "complete": LIST,
            "unit": or_null(unit),
            "public": TRUTH,
        }
    )
    table["properties"] |= {"key": TEXT, "joins": _OBJECT, "undeclared": LIST}
    declared = {_options(name): schema_of(verb(name).options) for name in VERBS}
    request = _object({"time": TEXT, "sql": TEXT, "spent": loss, "conditional": TRUTH})
    status = _object({**losses, "privacy": TEXT, "delta": free, "kept": TRUTH, "stamp": stamp})
    return {
        **declared,
        "Question": _object(question),
        "Reference": _object(
            {name: question[name] for name in (field.name for field in fields(Reference))}, additionalProperties=False
        ),
        "PrivacyLoss": _object({"rho": TEXT, "epsilon": or_null(TEXT), "delta": TEXT}),
        "Answer": _object(
            {**losses, "sql": TEXT, "table": TEXT, "keys": LIST, "groups": LIST,
             "estimates": LIST, "rows": LIST, "asked": WHOLE, "privacy": TEXT, "confidence": NUMBER,
             "stored": TRUTH, "ledger": TEXT, "request": TEXT, "origin": or_null(origin)}
        ),
        "Inference": _object(
            {"sql": TEXT, "table": TEXT, "keys": LIST, "groups": LIST, "aggregates": LIST,
             "rows": LIST, "asked": WHOLE, "confidence": NUMBER, "method": TEXT, "prior": declared["InferOptions"]["properties"]["prior"],
             "joint": _OBJECT,
             "shares": LIST, "missing": LIST, "consistency": _OBJECT, "ledger": TEXT}
        ),
        "Explanation": _object(
            {**losses, "question": {"$ref": "#/components/schemas/Question"}, "rows": LIST,
             "relative": TRUTH, "candidates": WHOLE, "stored": TRUTH}
        ),
        "Discovery": _object(
            {**losses, "table": TEXT, "column": TEXT, "keys": {**LIST, "items": TEXT},
             "hidden_low": WHOLE, "hidden_high": WHOLE, "detection": _OBJECT, "stored": TRUTH}
        ),
        "DiscoveryPrice": _object(
            {**losses, "detection": _OBJECT, "hidden": WHOLE, "affordable": TRUTH, "refusal": TEXT}
        ),
        "Prices": _object(
            {"prices": {**LIST, "items": _object(
                {**price, "sql": TEXT, "widths": LIST, "origin": or_null(origin)}
            )}}
        ),
        "ExplanationPrice": _object({**price, "candidates": WHOLE, "rho": _OBJECT}),
        "Decision": _object(
            {**losses, "charged": loss, "sql": TEXT, "table": TEXT, "keys": LIST, "groups": LIST,
             "condition": TEXT, "mode": TEXT, "status": TEXT, "reason": TEXT,
             "chosen": {**LIST, "items": TRUTH},
             "verdicts": {**LIST, "items": {"enum": [1, 0, -1]}},
             "fnr_bound": or_null(NUMBER), "fpr_bound": or_null(NUMBER), "false": NUMBER,
             "missed": NUMBER, "tests": LIST, "readings": LIST, "taken": LIST,
             "next_cost": or_null(loss), "privacy": TEXT, "confidence": NUMBER,
             "stored": TRUTH, "ledger": TEXT, "request": TEXT}
        ),
        "DecisionPrice": _object(
            {**price, "sql": TEXT, "condition": TEXT, "groups": WHOLE, "tests": LIST,
             "costs": {**LIST, "items": loss}, "first": loss, "ceiling": loss}
        ),
        "Budget": _object({"ledger": TEXT, "budget": status}),
        "History": _object({"requests": {**LIST, "items": request}}),
        "Tables": _object({"tables": {**LIST, "items": table}}),
        "Health": _object({"status": {"enum": ["ok", "degraded"]}}),
        "Ready": _object({"status": {"const": "ready"}}),
        "Description": _object({"openapi": TEXT, "info": _OBJECT, "paths": _OBJECT}),
        "Error": _object({"kind": TEXT, "what": TEXT, "hint": TEXT, "where": TEXT}),
    }  # fmt: skip
