"""The verb ``decide``: which groups satisfy a condition."""

from __future__ import annotations

import threading
from functools import partial

from dpnb.decide.decider import Decider
from dpnb.decide.decision import Decision
from dpnb.decide.options import OPTIONS, STUDY_MODES, read_options
from dpnb.decide.plan import DecisionPlan, plan, size_of
from dpnb.decide.price import DecisionPrice
from dpnb.errors import RequestError
from dpnb.releases.call import Call, Verb
from dpnb.releases.runner import Runner, looked
from dpnb.sql.parser import parse

_MOST_KEPT = 20_000
"""Largest size of a decision whose steps are kept; those of a larger one are planned each time."""


def _decider(
    runner: Runner,
    row: str,
    call: Call,
    cancel: threading.Event | None = None,
    identifier: str | None = None,
) -> Decider:
    key = call.key()
    with runner.reading() as store:
        make = partial(_plan, runner, call)
        draft = runner.memo.at(key and ("draft", key), store.ledger.sequence, make, size_of)
    # nor are the steps of a large decision kept
    key = key if size_of(draft) <= _MOST_KEPT else None
    return Decider(row, call.subject, draft, runner, key, cancel, identifier)


def _plan(runner: Runner, call: Call) -> DecisionPlan:
    settings = read_options(**call.options)
    query = parse(
        call.subject,
        runner.tables,
        call.params,
        deciding=True,
        thresholds=settings.thresholds,
        public=runner.public,
    )
    table = runner.tables[query.table]
    if settings.mode in STUDY_MODES and not table.public:
        raise RequestError(
            f"mode={settings.mode!r} needs a public table: it simulates on exact values",
            "Use mode='certified', or declare the table with public=True.",
        )
    version = runner.store.version(query.table)
    return plan(query, settings, version, runner.store.accountant.privacy)


def _decide(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Decision:
    decider = _decider(runner, row, call, cancel, identifier)
    if decider.studies:
        look = partial(decider.look, runner.engines[decider.plan.query.table])
        return decider.studied(looked(look, cancel))
    return decider.decide()


def _priced(runner: Runner, row: str, call: Call) -> DecisionPrice:
    return _decider(runner, row, call).price()


DECIDE = Verb("sql", OPTIONS, Decision, _decide, DecisionPrice, _priced)
