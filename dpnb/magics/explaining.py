"""The body of ``%%dpexplain``: a question about an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnb.answers.answer import Answer
from dpnb.answers.question import Question
from dpnb.answers.reading import read
from dpnb.errors import RequestError, given, nearest


def read_question(
    name: str, body: str | None, options: Any, names: Mapping[str, Any], mode: Any
) -> Question:
    """Return the question that a cell asks about the answer called ``name``.

    ``name`` may also name a question; the body must then be empty.
    """
    subject = names.get(name)
    body = (body or "").strip()
    if isinstance(subject, Question):
        if body or options.of is not None or options.planned:
            raise RequestError(
                f"{name!r} is already a question",
                "Leave out the body, --of and --planned, or name an answer.",
            )
        return subject
    if not isinstance(subject, Answer):
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
    return subject.compare(read(body), aggregate=options.of, planned=options.planned, mode=mode)


def hint(question: Question) -> str:
    """Return what to do with a question that is not explained right away."""
    if question.high < 0:
        return "Swap the groups, or add --anyway to explain it as it is."
    return "Ask the query more accurately first, or add --anyway to explain it anyway."
