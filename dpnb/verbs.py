"""The verbs of analysts, and functions that run them on a runner's tables and ledger."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dpnb.answers.assembly import status
from dpnb.errors import LedgerError, RequestError, SchemaError, given
from dpnb.interrupt import checkpoint, wait
from dpnb.ledger.policy import Policy, policy_of
from dpnb.ledger.store import Store
from dpnb.owner.administration import Administration, read_views
from dpnb.owner.protection import protect
from dpnb.privacy.budget import Budget
from dpnb.privacy.noise import Noise
from dpnb.releases.call import Call, Verb
from dpnb.releases.runner import Runner
from dpnb.results import Asked, BudgetStatus
from dpnb.schema.table import Table

VERBS = {
    "query": "answers.verbs",
    "infer": "answers.verbs",
    "explain": "explain.verb",
    "decide": "decide.verb",
    "discover": "discover.verb",
}
"""Module of each verb, which is declared there in capitals. It is imported on first use, so the
other verbs work if one is missing.
"""


@cache
def verb(name: str) -> Verb:
    """Return a verb by name."""
    request_kind: Verb = getattr(import_module(f"dpnb.{VERBS[name]}"), name.upper())
    return request_kind


def run(
    runner: Runner,
    row: str,
    call: Call,
    cancel: threading.Event | None = None,
    identifier: str | None = None,
) -> Any:
    """Run a call and return its result.

    Parameters
    ----------
    runner : Runner
    row : str
        The analyst's account: a name, or ``'name#privilege'``.
    call : Call
    cancel : threading.Event, optional
        Set it to stop the request.
    identifier : str, optional
        The client's identifier of this request. A repetition returns the same result; another
        request with it is refused.

    Raises
    ------
    SqlError, RequestError, BudgetError, EngineError, InterruptedRequestError
        As in the method of the session.
    """
    request_kind = verb(call.verb)
    return request_kind.run(
        runner, runner.admitted(row), request_kind.whole(call), cancel, identifier
    )


def price(runner: Runner, row: str, call: Call) -> Any:
    """Return what a call would cost. Free.

    For queries, which may be several statements, it is a list, as if they were answered in turn.

    Raises
    ------
    SqlError, RequestError
        As in the method of the session.
    """
    request_kind = verb(call.verb)
    if request_kind.priced is None:
        raise TypeError(f"{call.verb} is free")
    return request_kind.priced(runner, runner.admitted(row), request_kind.whole(call))


def budget(runner: Runner, row: str) -> BudgetStatus:
    """Return an analyst's limit, what is spent and what is left."""
    with runner.lock:
        return status(runner.store, runner.admitted(row))


def history(runner: Runner, row: str) -> Sequence[Asked]:
    """Return an analyst's answered requests, oldest first."""
    with runner.lock:
        charges = runner.store.accountant.history(runner.admitted(row))
    return [Asked(charge.time, charge.sql, charge.row, charge.conditional) for charge in charges]


def opened(
    tables: Table | Sequence[Table],
    *,
    budget: Budget | None = None,
    ledger: str | Path | None = None,
    anchor: str | Path | None = None,
    new_anchor: bool = False,
    new_version: bool = False,
    lift: Sequence[str] = (),
    analysts: Mapping[str, int | Sequence[int]] | None = None,
    policy: Policy | None = None,
    views: str | Sequence[Any] = (),
    noise: Noise | None = None,
    rehearsal: bool = False,
) -> Runner:
    """Open tables and their ledger; see ``Curator``.

    Raises
    ------
    SchemaError, LedgerError, RequestError
        As in ``Curator``.
    """
    from dpnb.engines.statements import interrupt

    tables_by_name = _named(tables)
    if budget is not None and not isinstance(budget, Budget):
        raise RequestError(
            f"the budget must be a dpnb.Budget, got {given(budget)}",
            "Write dpnb.Budget(rho=0.5).",
        )
    rules = policy_of(budget, analysts, policy)
    view_arguments = read_views(views, tables_by_name)
    runners: list[Runner] = []
    cancel = threading.Event()

    def make() -> None:
        runner = Runner(
            tables_by_name, budget=budget, ledger=ledger, anchor=anchor, new_anchor=new_anchor, new_version=new_version,
            lift=lift, policy=rules, declared=policy is not None, noise=noise, rehearsal=rehearsal, protect=protect,
        )  # fmt: skip
        runners.append(runner)
        try:
            owner = Administration(runner)
            owner.register(analysts or {})
            owner.add_views(view_arguments)
            checkpoint()
        except BaseException:
            runner.close()
            raise

    # in a thread of its own: its frames hold rows, and no traceback may keep them
    try:
        wait(make, cancel, interrupt, None, free=True)
    except BaseException:
        cancel.set()
        for runner in runners:
            runner.close()
        raise
    return runners[0]


def administered(ledger: str | Path, anchor: str | Path | None) -> Runner:
    """Open a ledger without its data; see ``Curator.administer``.

    Raises
    ------
    LedgerError
        If there is no ledger, or it is damaged.
    """
    if "://" not in str(ledger) and not Path(ledger).is_file():
        raise LedgerError(
            "there is no such ledger", "Name the ledger that analysts use.", str(ledger)
        )
    store = Store(ledger, anchor)
    store.ledger.close()
    if store.new:
        raise LedgerError(
            "the ledger has no entries", "Name the ledger that analysts use.", store.ledger.place
        )
    pairs = [set(name.split("*")) for name in store.versions if "*" in name]
    tables = []
    for name, version in store.versions.items():
        if "*" not in name:
            partners = set().union(*(pair for pair in pairs if name in pair))
            joined = partners | {*version.definition.get("joins", ())}
            tables.append(Table.recorded(version.definition, joined))
    return Runner(
        _named(tables), budget=None, ledger=ledger, anchor=anchor, new_anchor=False, new_version=False,
        lift=(), policy=None, declared=False, noise=None, rehearsal=False, protect=protect,
    )  # fmt: skip


def _named(tables: Table | Sequence[Table]) -> dict[str, Table]:
    table_list: list[Any] = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    if not table_list or not all(isinstance(table, Table) for table in table_list):
        raise RequestError("at least one table is needed", "Pass a dpnb.Table, or a list of them.")
    tables_by_name: dict[str, Table] = {table.name: table for table in table_list}
    if len({name.casefold() for name in tables_by_name}) != len(table_list):
        raise SchemaError("two tables have the same name", "Rename one of them.")
    return tables_by_name
