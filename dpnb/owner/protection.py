"""The check that a runner makes before each charge: whether it would settle a protected claim."""

from __future__ import annotations

from typing import Any

from dpnb.ledger.accountant import Cost
from dpnb.ledger.accounts import OWNER
from dpnb.owner.claims import guard, guard_persons, guard_response
from dpnb.releases.request import Request
from dpnb.releases.runner import Runner


def protect(runner: Runner, request: Request[Any, Any], plan: Any, cost: Cost) -> None:
    """Refuse releases that would nearly settle a claim that the owner protects.

    Raises
    ------
    RequestError
    """
    store = runner.store
    if not store.provenance.claims or request.analyst == OWNER:
        return
    guard_persons(store, request.table(plan))
    views = getattr(plan, "views", None)
    if request.verb == "decide" and views is None:
        guard_response(store, request.table(plan))
    if views and cost.steps:
        levels = {name: step.level for name, step in cost.steps.items()}
        guard(store, runner.cache, request.analyst, views, levels)
