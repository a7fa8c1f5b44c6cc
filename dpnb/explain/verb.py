"""The verb that explains a difference."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

from dpnb.answers.question import Question, Reference
from dpnb.answers.recall import recalled
from dpnb.errors import RequestError
from dpnb.explain.assembly import check_served
from dpnb.explain.explanation import Explanation
from dpnb.explain.options import OPTIONS
from dpnb.explain.price import ExplanationPrice, price
from dpnb.explain.reach import largest_influence, smallest_rows
from dpnb.explain.request import ExplanationRequest
from dpnb.releases.call import Call, Verb
from dpnb.releases.runner import Runner


def _request(runner: Runner, row: str, call: Call) -> ExplanationRequest:
    topic = call.subject
    if isinstance(topic, Question):
        topic = topic.reference
    with runner.reading() as store:
        check_served(store)
        if not isinstance(topic, Reference):
            raise RequestError("an explanation needs a question", "Pass answer.compare('a', 'b').")

        key = replace(call, subject=topic.to_dict()).key()

        def read() -> ExplanationRequest:
            question = recalled(runner, row, topic)
            return ExplanationRequest(row, question, dict(call.options), runner, key)

        # a question depends on nothing but what was released
        return runner.memo.at(key and ("request", row, key), store.ledger.sequence, read)


def _explain(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Explanation:
    return runner.run(_request(runner, row, call), cancel, identifier)


def _priced(runner: Runner, row: str, call: Call) -> ExplanationPrice:
    with runner.reading() as store:
        request = _request(runner, row, call)
        ready = runner.ready(request)
        target = ready.plan.target
        question = request.question
        count = partial(smallest_rows, question, target, row, store, runner.tables, runner.cache)
        # it depends on nothing but what was released
        key = ("smallest", row, question.reference)
        rows = runner.memo.at(key, store.ledger.sequence, count)
        largest = None if rows is None else largest_influence(target, rows)
        refusal = runner.refusal(request, ready)
        return price(ready.plan, request.question, row, store, ready.cost.row, largest, refusal)


EXPLAIN = Verb("question", OPTIONS, Explanation, _explain, ExplanationPrice, _priced)
