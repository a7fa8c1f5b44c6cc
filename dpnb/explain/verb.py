"""What may be asked about a difference: what explains it."""

from __future__ import annotations

import threading

from dpnb.answers.question import Question, Reference
from dpnb.answers.recall import recalled
from dpnb.errors import RequestError
from dpnb.explain.assembly import check_served
from dpnb.explain.explanation import Explanation
from dpnb.explain.options import OPTIONS
from dpnb.explain.price import ExplanationPrice, price
from dpnb.explain.request import ExplanationRequest
from dpnb.privacy.loss import PrivacyLoss
from dpnb.releases.call import Call, Verb
from dpnb.releases.runner import Runner


def _request(runner: Runner, row: str, call: Call) -> ExplanationRequest:
    asked = call.subject
    with runner.reading() as store:
        check_served(store)
    if isinstance(asked, Question):
        asked = asked.reference
    if not isinstance(asked, Reference):
        raise RequestError("an explanation needs a question", "Pass answer.compare('a', 'b').")
    question = recalled(runner, row, asked)
    return ExplanationRequest(row, question, call.options, runner.store, runner.tables)


def _explain(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Explanation:
    return runner.run(_request(runner, row, call), cancel, identifier)


def _priced(runner: Runner, row: str, call: Call) -> ExplanationPrice:
    with runner.reading() as store:
        request = _request(runner, row, call)
        plan = request.plan()
        stored = store.accountant.charges.get((row, plan.request))
        cost = request.cost(plan).row if stored is None else PrivacyLoss.none()
        return price(plan, request.question, row, store, cost)


EXPLAIN = Verb("question", OPTIONS, Explanation, _explain, ExplanationPrice, _priced)
