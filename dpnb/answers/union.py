"""Several statements in one request: one charge, and intervals that hold at once for all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpnb.answers import assembly
from dpnb.answers.answer import Answer
from dpnb.answers.postprocessing import ordered
from dpnb.answers.query import AnswerRequest
from dpnb.engines.scans import Engine, Vectors
from dpnb.errors import RequestError
from dpnb.estimation.estimates import Estimates, Intervals, Numbers
from dpnb.ledger.accountant import Charge, Cost
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import Plan, plan, request_name
from dpnb.sql.canonical import describe
from dpnb.sql.functions import Function
from dpnb.sql.query import Union
from dpnb.sql.shown import is_label


@dataclass(frozen=True, slots=True)
class UnionRequest:
    """One analyst's UNION ALL with its accuracy; ``own`` are the requests for its statements.

    Different statements get equal shares of a privacy cost; a view of several statements is released
    once, at the largest of its levels.
    """

    verb: ClassVar[str] = "query"
    union: Union
    own: tuple[AnswerRequest, ...]
    key: Hashable | None = None

    @property
    def analyst(self) -> str:
        """The account that asks."""
        return self.own[0].analyst

    @property
    def sql(self) -> str:
        """The statement as asked."""
        return self.own[0].sql

    def check(self) -> None:
        """Refuse an accuracy that makes no sense."""
        self.plan()

    def plan(self) -> Plan:
        """Decide what would be measured, from public facts and this analyst's releases."""
        first, queries = self.own[0], self.union.branches
        state, store = first.store.accountant, first.store
        if isinstance(first.accuracy.get("error"), Mapping):
            raise RequestError("error must be one number for several statements", "Give error=50.")
        accuracies = [
            read_accuracy(query, state.privacy, state.budget.noise_delta, **first.accuracy)
            for query in queries
        ]
        whole = accuracies[0]
        version = store.version(queries[0].table)
        own = not first.declared and bool(store.provenance.views)

        def named() -> list[str]:
            pairs = zip(queries, accuracies, strict=True)
            return [request_name(query, one, version, own=own) for query, one in pairs]

        if whole.level is not None:
            share = whole.level / len(set(named()))
            accuracies = [replace(one, level=share) for one in accuracies]
        names = named()
        text = json.dumps(["union", *names])
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        charge = state.charges.get((self.analyst, name))
        claims = [query.size * query.claims for query in queries]
        plans: list[Plan] = []
        start = 0
        for i, (query, accuracy) in enumerate(zip(queries, accuracies, strict=True)):
            end = start + len(query.measured)
            stored = (
                None if charge is None else replace(charge, declared=charge.declared[start:end])
            )
            plans.append(
                plan(
                    query,
                    accuracy,
                    version,
                    state.privacy,
                    lambda views: len(state.looks(self.analyst, views)),
                    catalogue=first.choice(stored),
                    name=names[i],
                    release_delta=state.budget.release_delta,
                    others=sum(claims) - claims[i],
                )
            )
            start = end
        levels = [[*one.levels.items()] for one in plans]
        epsilons = [[*one.epsilons.items()] for one in plans]
        return replace(
            plans[0],
            accuracy=whole,
            request=name,
            parts=tuple(part for one in plans for part in one.parts),
            views={view: seen for one in plans for view, seen in one.views.items()},
            levels=_largest(levels),
            epsilons=_largest(epsilons),
            branches=tuple(plans),
        )

    def words(self, plan: Plan) -> str:
        """Return the request in words, for the data owner."""
        return self.sql.strip()

    def table(self, plan: Plan) -> str:
        """Return the name of the table that the request reads."""
        return plan.query.table

    def cost(self, plan: Plan) -> Cost:
        """Return the cost of raising the views to their levels."""
        return self.own[0].cost(plan)

    def needed(self, plan: Plan, cost: Cost) -> Set[str]:
        """Return the views that must be measured, given what the ledger holds."""
        return self.own[0].needed(plan, cost)

    def measure(self, plan: Plan, needed: Set[str], engine: Engine) -> dict[str, Sequence[int]]:
        """Return the exact vector of each needed view, in lattice units: a scan for each statement."""
        vectors = Vectors()
        for own, one in zip(self.own, plan.branches, strict=True):
            missing = (needed & one.views.keys()) - vectors.keys()
            if missing:
                vectors.update(own.measure(one, missing, engine))
        return vectors

    def release(
        self, plan: Plan, cost: Cost, exact: Mapping[str, Sequence[int]] | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the versions that the ledger lacks."""
        entry = self.own[0].release(plan, cost, exact, noise)
        meanings = [describe(one.query) for one in plan.branches]
        return {**entry, "query": {"table": plan.query.table, "union": meanings}}

    def known(self, plan: Plan) -> None:
        """Return None: this request never uses past answers to other statements."""

    def result(self, plan: Plan, charge: Charge, *, fresh: bool) -> Answer:
        """Build the answer from the committed versions."""
        store = self.own[0].store
        answers: list[Answer] = []
        start = 0
        for one in plan.branches:
            end = start + len(one.parts)
            part = replace(
                charge,
                levels={view: charge.levels[view] for view in one.views},
                declared=charge.declared[start:end],
            )
            answers.append(assembly.answer(self.sql, one, part, store, fresh=False))
            start = end
        return _together(self.union, plan, answers, charge, fresh=fresh)


def _largest(levels: Sequence[Sequence[tuple[str, Any]]]) -> dict[str, Any]:
    largest: dict[str, Any] = {}
    for items in levels:
        for view, level in items:
            largest[view] = max(level, largest.get(view, level))
    return largest


def _together(
    union: Union, plan: Plan, answers: Sequence[Answer], charge: Charge, *, fresh: bool
) -> Answer:
    """Return the lines of several answers below each other, in the order of the whole."""
    first = answers[0]
    tables = [one.shown for one in answers if one.shown is not None]
    groups: Any = tuple(group for table in tables for group in table.groups)
    look = max(one.look for one in answers)
    columns = [
        _stacked(parts, first, look)
        for parts in zip(*(table.columns for table in tables), strict=True)
    ]
    rows = ordered(union, groups, columns)
    shown = union.branches[0].shown.outermost
    shown = shown[: len(shown) - union.unshown]
    keys = sum(is_label(column.expression) for column in shown)
    hidden = [one.hidden for one in answers if one.hidden is not None]
    names = {view for one in answers for view in one.levels}
    return replace(
        first,
        keys=tables[0].keys[:keys],
        grouped=tables[0].keys[:keys],
        groups=tuple(group[:keys] for group in groups),
        estimates=tuple(columns[: len(shown) - keys]),
        rows=rows,
        rest=tuple(sorted(set(range(len(groups))).difference(rows))),
        asked=sum(one.asked for one in answers),
        hidden=sum(hidden) if hidden else None,
        hidden_by=tuple(dict.fromkeys(name for one in answers for name in one.hidden_by)),
        undeclared=tuple(dict.fromkeys(pair for one in answers for pair in one.undeclared)),
        shown=None,
        bill=replace(
            first.bill,
            spent=charge.row if fresh else PrivacyLoss.none(),
            stored=not fresh,
        ),
        finer=any(one.finer for one in answers),
        levels={view: str(charge.levels[view]) for view in charge.levels if view in names},
        definitions={view: seen for one in answers for view, seen in one.definitions.items()},
        request=plan.request,
        shared=any(one.shared for one in answers),
        bought=assembly.bought(plan, charge.levels),
        branches=tuple(answers),
    )


def _stacked(parts: Sequence[Intervals], first: Answer, look: int) -> Estimates:
    """Return columns of numbers below each other: their intervals hold at once."""
    functions = {part.function for part in parts}
    estimate = tuple(point for part in parts for point in part.estimate)
    low = tuple(end for part in parts for end in part.low)
    high = tuple(end for part in parts for end in part.high)
    before = Numbers(
        tuple(point for part in parts for point in part.uncut.estimate),
        tuple(end for part in parts for end in part.uncut.low),
        tuple(end for part in parts for end in part.uncut.high),
    )
    return Estimates(
        parts[0].alias,
        parts[0].function if len(functions) == 1 else Function.FORMULA,
        parts[0].column if len({part.column for part in parts}) == 1 else None,
        estimate,
        low,
        high,
        look=look,
        alpha=1 - first.confidence,
        possible=tuple(part.possible_of(i) for part in parts for i in range(len(part.estimate))),
        before=None if before == Numbers(estimate, low, high) else before,
    )
