"""What may be asked about a column that nobody declared: its values."""

from __future__ import annotations

import threading

from dpnb.discover.discovery import Discovery, DiscoveryPrice
from dpnb.discover.request import OPTIONS, DiscoveryRequest
from dpnb.releases.call import Call, Verb
from dpnb.releases.runner import Runner


def _request(runner: Runner, row: str, call: Call) -> DiscoveryRequest:
    return DiscoveryRequest(row, call.subject, call.options, runner.store, runner.own)


def _discover(
    runner: Runner, row: str, call: Call, cancel: threading.Event | None, identifier: str | None
) -> Discovery:
    return runner.run(_request(runner, row, call), cancel, identifier)


def _priced(runner: Runner, row: str, call: Call) -> DiscoveryPrice:
    with runner.reading():
        return _request(runner, row, call).price()


DISCOVER = Verb("column", OPTIONS, Discovery, _discover, DiscoveryPrice, _priced)
