"""Calls over HTTP: the body that a client sends, and the call that the service reads from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnb.answers.question import Question, Reference
from dpnb.errors import RequestError, given, nearest
from dpnb.releases.call import Call
from dpnb.releases.options import Options, names
from dpnb.server import wire
from dpnb.server.params import named
from dpnb.server.thresholds import read_thresholds, send_thresholds
from dpnb.verbs import verb

MOST_STATEMENTS = 100


def sent(call: Call, *, several: bool = False) -> dict[str, Any]:
    """Return a call as the body of a request; ``several``: its subject is a list of statements."""
    about, options, subject = verb(call.verb).subject, call.options, call.subject
    if "thresholds" in options:
        options = {**options, "thresholds": send_thresholds(options["thresholds"])}
    if about == "question":
        return {"question": _sent_question(subject), "options": options}
    if about == "column":
        return {"column": subject, "options": options}
    entry, statements = ("statements", subject) if several else ("sql", [subject])
    return {entry: subject, "params": named(statements, call.params), "options": options}


def received(name: str, body: Mapping[str, Any]) -> Call:
    """Return the call that :func:`sent` wrote; the verb checks its values.

    Raises
    ------
    RequestError
        For an option that the verb does not have, and for a body that does not have the shape of a
        call.
    """
    request_kind = verb(name)
    subject = body.get("statements", body.get(request_kind.subject))
    if "statements" in body and not (isinstance(subject, list) and len(subject) <= MOST_STATEMENTS):
        raise RequestError(
            f"statements must be a list of at most {MOST_STATEMENTS} SQL texts",
            "Send ['SELECT ...'].",
        )
    if request_kind.subject == "question" and isinstance(subject, Mapping):
        # the verb refuses anything else, with its usual message
        subject = Reference.from_dict(subject)
    options = _named(body.get("options"), request_kind.options)
    if "thresholds" in options:
        options = {**options, "thresholds": read_thresholds(options["thresholds"])}
    return Call(name, subject, options, body.get("params"))


def _named(options: Any, declared: Options) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise wire.malformed("'options' must be a JSON object")
    option_names = names(declared)
    for name in options:
        if name not in option_names:
            raise RequestError(f"unknown option {given(name)}", nearest(name[:60], option_names))
    return options


def _sent_question(question: Any) -> Any:
    """Return the reference of a question; anything else is sent on, for the service to refuse."""
    if isinstance(question, Question):
        return question.reference.to_dict()
    return {"$type": "dict"} if isinstance(question, Mapping) else question
