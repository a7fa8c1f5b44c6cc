"""The verbs for statements: query, and infer from past answers alone."""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpnb.answers import assembly, options
from dpnb.answers.answer import Answer
from dpnb.answers.infer import check_shown, infer
from dpnb.answers.inference import Inference
from dpnb.answers.price import Price
from dpnb.answers.query import AnswerRequest
from dpnb.answers.reuse import OnlineRequest
from dpnb.answers.union import UnionRequest
from dpnb.ledger.accountant import Cost
from dpnb.ledger.accounts import OWNER
from dpnb.privacy.loss import PrivacyLoss
from dpnb.releases import accuracy
from dpnb.releases.call import Call, Verb
from dpnb.releases.held import Held, planned
from dpnb.releases.request import Ready, Request
from dpnb.releases.runner import Runner
from dpnb.sql.functions import Function
from dpnb.sql.parser import answered, parse
from dpnb.sql.query import Query, Union
from dpnb.sql.union import several_error


def statement(runner: Runner, row: str, call: Call) -> AnswerRequest:
    """Return the request for one statement, not a union, at an accuracy."""
    request = _request(runner, row, call)
    if isinstance(request, UnionRequest):
        raise several_error()
    return request


def _request(runner: Runner, row: str, call: Call) -> AnswerRequest | UnionRequest:
    """Return the request for a statement at an accuracy; equal calls share one request."""
    key = call.key()

    def read() -> AnswerRequest | UnionRequest:
        # requests at other levels share the tree
        text = replace(call, options={}).key()
        tree = text and ("query", text)
        known: Query | Union | None = runner.memo.get(tree)
        reader = answered if call.verb == "query" else parse
        query = known or reader(call.subject, runner.tables, call.params, public=runner.public)

        def one(query: Query, key: Hashable | None) -> AnswerRequest:
            return AnswerRequest(
                row, call.subject, query, dict(call.options), runner, row != OWNER, key
            )

        request: AnswerRequest | UnionRequest
        if isinstance(query, Union):
            own = tuple(one(branch, None) for branch in query.branches)
            request = UnionRequest(query, own, key)
        else:
            request = one(query, key)
        # keep valid requests only
        request.check()
        runner.memo.at(tree, None, lambda: query)
        return request

    return runner.memo.at(key and ("request", row, key), None, read)


def _asked(runner: Runner, row: str, call: Call) -> AnswerRequest | OnlineRequest | UnionRequest:
    """Return the request for a statement; past answers may help to reach a requested error."""
    request = _request(runner, row, call)
    if isinstance(request, UnionRequest):
        return request
    if call.options.get("error") is None or call.options.get("history") is False:
        return request
    if not request.query.outputs:
        return request
    if any(aggregate.function is Function.UNITS for aggregate in request.query.measured):
        # counts of distinct ids do not follow from other answers
        return request
    return OnlineRequest(request)


def _query(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Answer:
    request: Request[Any, Answer] = _asked(runner, row, call)
    return runner.run(request, cancel, identifier)


def _priced(runner: Runner, row: str, call: Call) -> list[Price]:
    return priced(runner, [_asked(runner, row, replace(call, subject=sql)) for sql in call.subject])


def priced(
    runner: Runner, requests: Sequence[AnswerRequest | OnlineRequest | UnionRequest]
) -> list[Price]:
    """Return the price of each request, as if affordable ones before it had been bought."""
    with runner.reading() as store:
        state = store.accountant
        trial = state.synopses.sketch()
        balances: dict[str, PrivacyLoss] = {}
        bought: dict[str, Cost] = {}
        definitions: dict[str, Mapping[str, Any]] = {}
        purchases: dict[str, Held] = {}
        prices = []
        for request in requests:
            row = request.analyst
            typed_request: Request[Any, Answer] = request
            ready = runner.ready(typed_request)
            request_plan, charge, cost, online = ready.plan, ready.stored, ready.cost, None
            if isinstance(request, OnlineRequest):
                online = (
                    request.planned(request_plan.alone, purchases) if purchases else request_plan
                )
                request_plan = online.bought
            if charge is None:
                own = {name: view.definition() for name, view in request_plan.views.items()}
                definitions |= own
                if purchases:
                    cost = state.cost(row, request_plan.level_targets(), own, trial)
            levels = {view: step.level for view, step in cost.steps.items()}
            levels = levels if charge is None else dict(charge.levels)
            balance = balances.setdefault(row, assembly.status(store, row).remaining)
            together = bought[row].then(cost) if row in bought else cost
            asked = Ready(ready.plan, charge, together)
            refusal = runner.refusal(typed_request, asked, definitions)
            origin = None if online is None else online.origin
            widths = (
                assembly.widths(request_plan, row, levels, store)
                if online is None or origin is None
                else online.widths()
            )
            prices.append(
                assembly.price(
                    request.sql,
                    request_plan,
                    row,
                    cost.row,
                    balance,
                    store,
                    levels,
                    widths,
                    origin,
                    refusal,
                )
            )
            if not refusal:
                bought[row], balances[row] = together, balance - cost.row
                state.note(row, cost, trial)
                if charge is None:
                    purchases |= {
                        name: planned(view, levels[name], state.privacy)
                        for name, view in request_plan.views.items()
                    }
        return prices


def _infer(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Inference:
    return inferred(runner, [row], call)


def inferred(runner: Runner, rows: Collection[str], call: Call) -> Inference:
    """Return what some accounts could infer together. Reads no data."""
    settings = options.read_options(call.options)
    query = parse(call.subject, runner.tables, call.params, public=runner.public)
    check_shown(query)
    with runner.reading() as store:
        known = runner.cache.known(store, rows, query.table)
    return infer(call.subject, query, settings, known)


QUERY = Verb("sql", accuracy.OPTIONS, Answer, _query, Price, _priced)
INFER = Verb("sql", options.OPTIONS, Inference, _infer)
