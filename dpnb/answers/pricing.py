"""Prices of statements that are asked one after the other; nothing is spent."""

from __future__ import annotations

from collections.abc import Sequence

from dpnb.answers import assembly
from dpnb.answers.past import Held, planned
from dpnb.answers.price import Price
from dpnb.answers.query import AnswerRequest
from dpnb.answers.reuse import OnlineRequest
from dpnb.ledger.store import Store
from dpnb.privacy.loss import PrivacyLoss


def priced(store: Store, requests: Sequence[AnswerRequest | OnlineRequest]) -> list[Price]:
    """Return the price of each request, given that those before it were bought where affordable."""
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
            assembly.price(request.sql, wanted, row, cost.row, rest, store, levels, widths, origin)
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
