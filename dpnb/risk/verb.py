"""The verb ``risk``: whom an answer would expose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dpnb.answers.verbs import statement
from dpnb.errors import RequestError, given
from dpnb.interrupt import Progress
from dpnb.ledger.accounts import OWNER
from dpnb.ledger.store import Store
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.call import Call
from dpnb.releases.runner import Runner
from dpnb.risk.context import RiskContext
from dpnb.risk.plan import family, options, paper_look, profile
from dpnb.sql.functions import Function


def risk(
    runner: Runner,
    sql: str,
    params: Mapping[str, object] | None,
    split: object,
    mode: object,
    mechanism: object,
    progress: Progress | None,
    **asked: Any,
) -> Any:
    """Return the risk profile of a statement; see ``Curator.risk``.

    ``asked`` holds the options ``by``, ``cumulative`` and ``form``.
    """
    noise_family = family(mechanism)
    if not isinstance(mode, str) or mode not in ("tight", "paper"):
        raise RequestError(
            f"mode must be 'tight' or 'paper', got {given(mode)}", "Write mode='tight'."
        )
    with runner.reading() as store:
        _check(store)
        accuracy = {store.accountant.privacy.parameter: 1, "split": split}
        call = Call("risk", sql, accuracy, params)
        plan = statement(runner, OWNER, call).plan()
        if any(one.function is Function.DISTINCT for one in plan.query.measured):
            raise RequestError(
                "what a row adds to COUNT(DISTINCT ...) depends on the other rows",
                "Leave it out of the statement.",
            )
        context = RiskContext(sql, plan, runner)
        look: Callable[[], Any]
        if mode == "paper":
            look = paper_look(context, noise_family)
        else:
            look = partial(profile, context, options(context, **asked))
    return context.look(look, progress)


def _check(store: Store) -> None:
    state = store.accountant
    if state.privacy not in (ZCDP, PURE) or state.mechanism_name != "path":
        raise RequestError(
            "risks can be shown only in a zCDP or pure session with mechanism='path'",
            "Open a ledger with Budget(rho=...) or Budget(epsilon=...), and mechanism='path'.",
        )
