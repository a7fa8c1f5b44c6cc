"""The verb for undeclared columns: ``discover``."""

from __future__ import annotations

import threading

from dpnb.answers.assembly import status
from dpnb.discover.discovery import Discovery, DiscoveryPrice
from dpnb.discover.request import OPTIONS, DiscoveryRequest
from dpnb.releases.call import Call, Verb
from dpnb.releases.runner import Runner


def _request(runner: Runner, row: str, call: Call) -> DiscoveryRequest:
    return DiscoveryRequest(row, call.subject, call.options, runner, call.key())


def _discover(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Discovery:
    return runner.run(_request(runner, row, call), cancel, identifier)


def _priced(runner: Runner, row: str, call: Call) -> DiscoveryPrice:
    with runner.reading() as store:
        request = _request(runner, row, call)
        ready = runner.ready(request)
        plan, budget = ready.plan, status(store, row)
        refusal = runner.refusal(request, ready)
        return DiscoveryPrice(
            detection=plan.detection,
            hidden=plan.threshold.margin_of_error(plan.confidence),
            bill=budget.charged(ready.cost.row),
            affordable=not refusal,
            refusal=refusal,
        )


DISCOVER = Verb("column", OPTIONS, Discovery, _discover, DiscoveryPrice, _priced)
