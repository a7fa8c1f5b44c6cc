"""What ``%%dpexplain`` reads: the question in its body, and the options of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnb.answers.answer import Answer
from dpnb.answers.question import Question
from dpnb.answers.reading import read
from dpnb.errors import RequestError, given, nearest
from dpnb.magics.lines import listed, read_amount, read_number, read_whole


def read_question(name: str, body: str | None, options: Any, names: Mapping[str, Any]) -> Question:
    """Return the question that a cell asks about the answer called ``name``.

    ``name`` may also be that of a question; the body is empty then.
    """
    held = names.get(name)
    body = (body or "").strip()
    if isinstance(held, Question):
        if body or options.of is not None or options.planned:
            raise RequestError(
                f"{name!r} is already a question",
                "Leave out the body, --of and --planned, or name an answer.",
            )
        return held
    if not isinstance(held, Answer):
        answers = [
            key for key, value in names.items() if isinstance(value, Answer) and key[:1] != "_"
        ]
        hint = (
            nearest(name, answers)
            if answers
            else f"Run its query with -o {name}: what was answered before is free."
        )
        raise RequestError(f"there is no answer named {given(name)}", hint)
    if not body:
        raise RequestError("there is no question", "Write 'a' > 'b' below, with groups as shown.")
    return held.compare(
        read(body), aggregate=options.of, planned=options.planned, mode=options.mode
    )


def hint(question: Question) -> str:
    """Return what to do with a question that is not explained right away."""
    if question.high < 0:
        return "Swap the groups, or add --anyway to explain it as it is."
    return "Ask the query more accurately first, or add --anyway to explain it anyway."


def explanation_options(options: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Session.explain`` from a magic's options."""
    found: dict[str, Any] = {
        "k": read_whole(options.k, "--k"),
        "rho": None if options.rho is None else _rho(options.rho, names),
        "epsilon": read_amount(options.epsilon, "--epsilon", names),
        "error": None if options.error is None else _error(options.error),
        "confidence": read_number(options.confidence, "--confidence"),
        "joint": options.joint,
        "mode": options.mode,
        "lower": options.lower,
        "length": read_whole(options.length, "--length"),
        "connective": "or" if options.any_of else "and",
        "ranges": options.ranges,
        "exclude": listed(options.exclude),
    }
    if options.attributes is not None:
        found["attributes"] = listed(options.attributes)
    if options.predicates is not None:
        if options.predicates not in names:
            raise RequestError(
                f"there is no list named {given(options.predicates)}",
                'Name a variable with a list of conditions, such as ["age > 30"].',
            )
        found["predicates"] = names[options.predicates]
    return found


def _rho(text: str, names: Mapping[str, Any]) -> Any:
    if "=" not in text:
        return read_amount(text, "--rho", names)
    pairs = [part.partition("=") for part in text.split(",")]
    named = {part.strip(): read_amount(rho.strip(), "--rho", names) for part, _, rho in pairs}
    if len(named) < len(pairs):
        raise RequestError("--rho names a part twice", "Write topk=0.05,influence=0.05,rank=0.1.")
    return named


def _error(text: str) -> float:
    """Return 0.02 for '2%' and for '0.02'."""
    if text.strip().endswith("%"):
        return read_number(text.strip()[:-1], "--error") / 100
    return read_number(text, "--error")
