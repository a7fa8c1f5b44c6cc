"""What may be asked of the data in a statement: query, and infer from past answers alone."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dpnb.answers import assembly, options
from dpnb.answers.answer import Answer
from dpnb.answers.infer import infer
from dpnb.answers.inference import Inference
from dpnb.answers.price import Price
from dpnb.answers.query import AnswerRequest
from dpnb.answers.reuse import OnlineRequest
from dpnb.errors import RequestError
from dpnb.ledger.accounts import OWNER
from dpnb.privacy.loss import PrivacyLoss, is_picked
from dpnb.releases import accuracy
from dpnb.releases.call import Call, Verb
from dpnb.releases.held import Held, planned
from dpnb.releases.request import Request
from dpnb.releases.runner import Runner
from dpnb.sql.parser import parse
from dpnb.sql.query import Query

_MOST_TEXT = 2_000
"""Accuracies that are longer as a text are read anew each time."""


def statement(
    runner: Runner,
    row: str,
    sql: str,
    params: Mapping[str, object] | None,
    wanted: Mapping[str, Any],
) -> AnswerRequest:
    """Return the request for a statement at an accuracy."""
    # a statement without bound parameters means the same every time
    fixed = isinstance(sql, str) and ":" not in sql and isinstance(params, Mapping | None)
    asked = _plain(wanted) if fixed else None

    def read() -> AnswerRequest:
        query = parse(sql, runner.tables, params)
        _check_having(query)
        declared = None if row == OWNER else runner.declared
        return AnswerRequest(row, sql, query, dict(wanted), runner.store, runner.tables, declared)

    def checked() -> AnswerRequest:
        # only what makes sense is kept
        made = read()
        made.check()
        return made

    return read() if asked is None else runner.requests.kept((row, sql, asked), checked)


def _plain(wanted: Mapping[str, Any]) -> tuple[tuple[object, ...], ...] | None:
    """Return an accuracy as a key: equal only for arguments of equal type, text and mark."""
    try:
        found = [
            (name, type(value), repr(value), is_picked(value)) for name, value in wanted.items()
        ]
    except ValueError:
        # a whole number of thousands of digits has no text
        return None
    return tuple(found) if sum(len(text) for _, _, text, _ in found) <= _MOST_TEXT else None


def _check_having(query: Query) -> None:
    """Refuse HAVING where a statement is answered."""
    if query.having is not None:
        raise RequestError(
            "HAVING is not allowed in a query: the list of groups would reveal more than the query pays for",
            "Use session.decide, which bounds the errors. Or leave HAVING out and "
            "filter the noisy answer.",
        )


def _asked(runner: Runner, row: str, sql: str, call: Call) -> AnswerRequest | OnlineRequest:
    """Return the request for a statement; past answers may help to reach a requested error."""
    own = statement(runner, row, sql, call.params, call.options)
    if call.options.get("error") is None or call.options.get("history") is False:
        return own
    if any(aggregate.function == "UNITS" for aggregate in own.query.measured):
        # numbers of different ids do not follow from other answers
        return own
    return OnlineRequest(own, runner.shelf)


def _query(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Answer:
    request: Request[Any, Answer] = _asked(runner, row, call.subject, call)
    return runner.run(request, cancel, identifier)


def _priced(runner: Runner, row: str, call: Call) -> list[Price]:
    return priced(runner, [_asked(runner, row, sql, call) for sql in call.subject])


def priced(runner: Runner, requests: Sequence[AnswerRequest | OnlineRequest]) -> list[Price]:
    """Return the price of each request, given that those before it were bought where affordable."""
    with runner.reading() as store:
        state = store.accountant
        tried = state.synopses.sketch()
        left: dict[str, PrivacyLoss] = {}
        bought: dict[str, Held] = {}
        prices = []
        for request in requests:
            row = request.analyst
            online = None
            if isinstance(request, AnswerRequest):
                wanted = request.plan()
            else:
                online = request.planned(request.own.plan(), bought)
                wanted = online.bought
            stored = state.charges.get((row, wanted.request))
            definitions = {name: view.definition() for name, view in wanted.views.items()}
            cost = state.cost(row, wanted.wishes() if stored is None else {}, definitions, tried)
            levels = {view: step.level for view, step in cost.steps.items()}
            levels = levels if stored is None else dict(stored.levels)
            rest = left.setdefault(row, assembly.status(store, row).remaining)
            origin = None if online is None else online.origin
            widths = (
                assembly.widths(wanted, row, levels, store)
                if online is None or origin is None
                else online.widths()
            )
            prices.append(
                assembly.price(
                    request.sql, wanted, row, cost.row, rest, store, levels, widths, origin
                )
            )
            if prices[-1].affordable:
                left[row] = rest - cost.row
                state.note(row, cost, tried)
                if stored is None:
                    bought |= {
                        name: planned(view, levels[name], state.currency)
                        for name, view in wanted.views.items()
                    }
        return prices


def _infer(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Inference:
    return inferred(runner, [row], call)


def inferred(runner: Runner, rows: Collection[str], call: Call) -> Inference:
    """Return what some rows could infer together. No data are read."""
    wanted = options.read_options(call.options)
    query = parse(call.subject, runner.tables, call.params)
    _check_having(query)
    with runner.reading() as store:
        schema = runner.tables[query.table].schema
        known = runner.shelf.known(store, rows, query.table, schema)
    return infer(call.subject, query, wanted, known, schema)


QUERY = Verb("sql", accuracy.OPTIONS, Answer, _query, Price, _priced)
INFER = Verb("sql", options.OPTIONS, Inference, _infer)
