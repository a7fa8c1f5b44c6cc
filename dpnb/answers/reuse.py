"""Answers with a requested error: from past answers if they suffice, or buying what is missing.

Xiao and Xiong, section 5; docs/methods/bayes.md, algorithm 12. Decisions use public facts alone:
matrix rows, noise distributions and the requested accuracy, never released values, let alone data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from dpnb.answers.answer import Answer
from dpnb.answers.assembly import answer
from dpnb.answers.price import Origin, Way, Width
from dpnb.answers.query import AnswerRequest
from dpnb.engines.scans import Engine
from dpnb.estimation.estimates import Estimates
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.mechanism import NONE
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise
from dpnb.releases.held import Held
from dpnb.releases.plan import Plan
from dpnb.views.view import View

MOST_VALUES = 500
"""A statement with more values is answered without past answers."""


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """How a statement is answered, with or without past answers.

    Attributes
    ----------
    alone : Plan
        The plan without past answers to other statements.
    bought : Plan
        The plan with the levels that past answers leave missing; without views if none are.
    way : str or None
        None if past answers do not matter.
    past : mapping
        The levels of the past versions that the answer uses, by view.
    price : PrivacyLoss
        What it would have cost without past answers to other statements.
    """

    alone: Plan
    bought: Plan
    way: Way | None = None
    past: Mapping[str, Fraction] = field(default_factory=dict)
    price: PrivacyLoss = NONE

    @property
    def request(self) -> str:
        """The name of the request."""
        return self.alone.request

    @property
    def views(self) -> Mapping[str, View]:
        """The views to buy."""
        return self.bought.views

    @property
    def origin(self) -> Origin | None:
        """How the answer reaches its error, if past answers to other statements help."""
        if self.way is None:
            return None
        return Origin(
            self.way, self.price, sum(view not in self.bought.views for view in self.past)
        )

    def widths(self) -> tuple[Width, ...]:
        """Return the margins of error that will be reached, for :class:`Price`."""
        accuracy = self.alone.accuracy
        return tuple(
            (part.aggregate.alias, accuracy.rows if part.is_mean else None,
             (accuracy.error or {})[part.aggregate.alias])
            for part in self.alone.parts
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OnlineRequest:
    """One analyst's statement with a requested error; other analysts' releases play no part."""

    verb: ClassVar[str] = "query"
    own: AnswerRequest

    @property
    def analyst(self) -> str:
        """The account that asks."""
        return self.own.analyst

    @property
    def key(self) -> Hashable | None:
        """A key that distinguishes the request from others; None if it is not kept."""
        return None if self.own.key is None else ("online", self.own.key)

    @property
    def sql(self) -> str:
        """The statement as asked."""
        return self.own.sql

    def plan(self) -> OnlinePlan:
        """Decide how to answer, on the current state of the store."""
        return self.planned(self.own.plan())

    def planned(self, alone: Plan, bought: Mapping[str, Held] | None = None) -> OnlinePlan:
        """Decide how to answer; ``bought`` are versions that the analyst will have by then."""
        from dpnb.answers.evidence import NoRoomError
        from dpnb.answers.merging import missing_levels, sufficient

        state, analyst = self.own.store.accountant, self.analyst
        charge = state.charges.get((analyst, alone.request))
        if charge is not None:
            return _again(alone, charge)
        accuracy, table = alone.accuracy, alone.query.table
        purchases = bought or {}
        held_levels = {
            view: purchases[view].level if view in purchases else state.level(analyst, view)
            for view in alone.levels
        }
        enough = all(held_levels[view] >= level for view, level in alone.levels.items())
        plain_plan = OnlinePlan(alone, alone)
        if accuracy.error is None or not accuracy.history or accuracy.looks != 1 or enough:
            return plain_plan
        if alone.query.derived or alone.groups * len(alone.parts) > MOST_VALUES:
            # formulas use answers of their own
            return plain_plan
        version = self.own.store.version(table)
        current_releases = self.own.runner.cache.held(state, [analyst], table, version)
        releases = [release for release in current_releases if release.name not in purchases]
        releases += [release for release in purchases.values() if release.view.table == table]
        if not any(release.name not in alone.views for release in releases):
            return plain_plan
        price = self.own.cost(alone).row
        try:
            past_levels = sufficient(alone, releases)
            if past_levels is not None:
                empty_plan = replace(alone, views={}, levels={}, epsilons={})
                return OnlinePlan(alone, empty_plan, "history", past_levels, price)
            others = [release for release in releases if release.name not in alone.views]
            reduced_levels, past = missing_levels(alone, others)
        except NoRoomError:
            return plain_plan
        if not past:
            return plain_plan
        way: Way = "refined" if any(held_levels.values()) else "new"
        return OnlinePlan(alone, replace(alone, levels=reduced_levels), way, past, price)

    def known(self, plan: OnlinePlan) -> Answer | None:
        """Return the answer if past answers alone give it; None if something must be bought."""
        if plan.way != "history":
            return None
        state, query = self.own.store.accountant, plan.alone.query
        charge = Charge(
            sequence=0,
            analyst=self.analyst,
            request=plan.request,
            time="",
            sql=self.sql,
            levels={},
            spent=NONE,
            row=NONE,
            version=self.own.store.version(query.table),
            query={},
            conditional=not state.conditional.isdisjoint(plan.past),
            past=plan.past,
            way=plan.way,
            alone=plan.price,
        )
        return self._merged(plan, charge, fresh=False)

    def words(self, plan: OnlinePlan) -> str:
        """Return the request in words, for the data owner."""
        return self.sql.strip()

    def table(self, plan: OnlinePlan) -> str:
        """Return the name of the table that the request reads."""
        return self.own.table(plan.alone)

    def cost(self, plan: OnlinePlan) -> Cost:
        """Return the cost of raising the views to the missing levels."""
        return self.own.cost(plan.bought)

    def needed(self, plan: OnlinePlan, cost: Cost) -> Set[str]:
        """Return the views that must be measured."""
        return self.own.needed(plan.bought, cost)

    def measure(self, plan: OnlinePlan, needed: Set[str], engine: Engine) -> Any:
        """Return the exact vector of each needed view: one scan at most."""
        return self.own.measure(plan.bought, needed, engine)

    def release(self, plan: OnlinePlan, cost: Cost, exact: Any, noise: Noise) -> dict[str, Any]:
        """Draw the versions that the ledger lacks; the entry names the past answers."""
        entry = self.own.release(plan.bought, cost, exact, noise)
        if plan.way is None:
            return entry
        conditional = self.own.store.accountant.conditional
        return {
            **entry,
            "way": plan.way,
            "past": {view: str(level) for view, level in plan.past.items()},
            "alone": plan.price.to_dict(),
            "conditional": entry["conditional"] or not conditional.isdisjoint(plan.past),
        }

    def result(self, plan: OnlinePlan, charge: Charge, *, fresh: bool) -> Answer:
        """Build the answer from the committed charge, merged with past answers."""
        if charge.way is None:
            return self.own.result(plan.alone, charge, fresh=fresh)
        return self._merged(plan, charge, fresh=fresh)

    def recalled(self, alone: Plan, charge: Charge) -> Answer:
        """Rebuild an answer from the plan of what was bought and its charge."""
        return self.result(_again(alone, charge), charge, fresh=False)

    def _merged(self, plan: OnlinePlan, charge: Charge, *, fresh: bool) -> Answer:
        store = self.own.store
        # a committed answer never changes; one that was not committed has no charge to key it by
        work = partial(self._worked_out, plan, charge)
        key = "merged", self.analyst, plan.request
        memo_key = key if charge.sequence else None
        estimates = self.own.runner.memo.at(memo_key, charge.sequence, work, _values)
        merged_answer = answer(
            self.sql, plan.alone, charge, store, fresh=fresh, worked_out=estimates
        )
        return replace(merged_answer, origin=plan.origin)

    def _worked_out(self, plan: OnlinePlan, charge: Charge) -> list[Estimates]:
        from dpnb.answers.merging import merged

        state, table = self.own.store.accountant, plan.alone.query.table
        levels = {**charge.past, **charge.levels}
        releases = self.own.runner.cache.held(state, [self.analyst], table, charge.version, levels)
        views = list(plan.alone.views)
        look = 1 + len(state.looks(self.analyst, views))
        if charge.levels:
            look = state.look(self.analyst, {view: charge.levels[view] for view in views})
        return merged(plan.alone, releases, look)


def _values(estimates: Sequence[Estimates]) -> int:
    return sum(3 * len(output.estimate) for output in estimates)


def _again(alone: Plan, charge: Charge) -> OnlinePlan:
    """Return the plan of a stored answer, without deciding anything anew."""
    way: Any = charge.way
    bought_plan = alone if charge.levels else replace(alone, views={}, levels={}, epsilons={})
    return OnlinePlan(alone, bought_plan, way, charge.past, charge.alone)
