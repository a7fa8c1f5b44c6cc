"""The request for randomised response on some groups of a decision: one look, one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpnb.decide.conditions import Bools
from dpnb.decide.plan import DecisionPlan, truth_of
from dpnb.decide.stage import check_served
from dpnb.decide.steps import measured
from dpnb.engines.scans import Engine, engine_failure
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.store import Store
from dpnb.privacy import response
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise
from dpnb.sql.canonical import describe


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """Randomised response for some groups of a decision. Public facts only."""

    plan: DecisionPlan
    asked: tuple[int, ...]
    level: Fraction

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        made = self.plan
        return {
            "target": {**describe(made.query), "version": made.version},
            "decision": made.meaning(),
            "asked": list(self.asked),
            made.privacy.parameter: {"response": str(self.level)},
        }

    @property
    def request(self) -> str:
        """A name that is equal for requests of equal meaning and cost on one data version."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, repr=False)
class Truth:
    """Which groups satisfy a condition, on its way to the noise."""

    values: Bools

    def __repr__(self) -> str:
        return "Truth(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """One analyst's request for randomised response on some groups (all, or those in doubt)."""

    verb: ClassVar[str] = "decide"
    analyst: str
    sql: str
    draft: DecisionPlan
    asked: tuple[int, ...]
    conditional: bool
    store: Store
    key: Hashable | None

    def plan(self) -> ResponsePlan:
        """Decide what is asked; public facts only."""
        state = self.store.accountant
        check_served(state, static=self.store.provenance.static, responds=True)
        # refuses once another kernel has opened a newer one
        self.store.version(self.draft.query.table)
        return ResponsePlan(self.draft, self.asked, self.draft.response or Fraction(0))

    def words(self, plan: ResponsePlan) -> str:
        """Return what is asked, for the owner of the data."""
        return f"decide, randomised response: {self.sql.strip()}"

    def table(self, plan: ResponsePlan) -> str:
        """Return the name of the table that is looked at."""
        return plan.plan.query.table

    def cost(self, plan: ResponsePlan) -> Cost:
        """Return the price: her own in any case, that of all together only for a new release."""
        price = PrivacyLoss.of(plan.level, plan.plan.privacy)
        return self.store.accountant.once_cost(plan.request, price)

    def needed(self, plan: ResponsePlan, cost: Cost) -> Set[str]:
        """Return the truth, unless the release exists."""
        return set() if plan.request in self.store.accountant.releases else {"truth"}

    def measure(self, plan: ResponsePlan, needed: Set[str], engine: Engine) -> Truth:
        """Return which groups satisfy the condition: one scan."""
        return Truth(truth_of(plan.plan, measured(plan.plan, None, engine, plan.plan.cut)))

    def release(
        self, plan: ResponsePlan, cost: Cost, exact: Truth | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw, and return the ledger's entry."""
        state, drawn = self.store.accountant, None
        if plan.request not in state.releases:
            if exact is None:
                raise engine_failure()
            missed, false = plan.plan.errors
            truth = exact.values[list(plan.asked)]
            drawn = {"response": response.respond(truth, missed, false, noise)}
        return {
            "kind": "release",
            "sql": self.words(plan),
            "query": plan.definition(),
            "version": plan.plan.version,
            "drawn": drawn,
            "conditional": self.conditional or plan.request in state.conditional,
        }

    def known(self, plan: ResponsePlan) -> None:
        """Nothing is known without a release."""

    def result(self, plan: ResponsePlan, charge: Charge, *, fresh: bool) -> Responded:
        """Return what was committed."""
        drawn = self.store.accountant.releases[charge.request].drawn["response"]
        return Responded(tuple(bool(one) for one in drawn), charge, fresh)


@dataclass(frozen=True, slots=True)
class Responded:
    """What randomised response said of the groups that were asked for, and its charge."""

    values: tuple[bool, ...]
    charge: Charge
    fresh: bool
