"""The request for randomised response on some groups of a decision: one scan, one transaction."""

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
        decision_plan = self.plan
        return {
            "target": {**describe(decision_plan.query), "version": decision_plan.version},
            "decision": decision_plan.meaning(),
            "asked": list(self.asked),
            decision_plan.privacy.parameter: {"response": str(self.level)},
        }

    @property
    def request(self) -> str:
        """A name, equal for requests with the same meaning and cost on one version of the table."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, repr=False)
class Truth:
    """Which groups satisfy a condition: exact values, until noise is added."""

    values: Bools

    def __repr__(self) -> str:
        return "Truth(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """One analyst's request for randomised response on all groups, or on those in doubt."""

    verb: ClassVar[str] = "decide"
    analyst: str
    sql: str
    draft: DecisionPlan
    asked: tuple[int, ...]
    conditional: bool
    store: Store
    key: Hashable | None

    def plan(self) -> ResponsePlan:
        """Return the plan; uses public facts only."""
        state = self.store.accountant
        check_served(state, static=self.store.provenance.static, responds=True)
        # refuses if another kernel has opened a newer version
        self.store.version(self.draft.query.table)
        return ResponsePlan(self.draft, self.asked, self.draft.response or Fraction(0))

    def words(self, plan: ResponsePlan) -> str:
        """Return the request in words, for the owner of the data."""
        return f"decide, randomised response: {self.sql.strip()}"

    def table(self, plan: ResponsePlan) -> str:
        """Return the name of the table."""
        return plan.plan.query.table

    def cost(self, plan: ResponsePlan) -> Cost:
        """Return the cost: to the analyst always, to all together only for a new release."""
        price = PrivacyLoss.of(plan.level, plan.plan.privacy)
        return self.store.accountant.once_cost(plan.request, price)

    def needed(self, plan: ResponsePlan, cost: Cost) -> Set[str]:
        """Return ``{"truth"}``, or nothing if the release exists."""
        return set() if plan.request in self.store.accountant.releases else {"truth"}

    def measure(self, plan: ResponsePlan, needed: Set[str], engine: Engine) -> Truth:
        """Return which groups satisfy the condition: one scan."""
        return Truth(truth_of(plan.plan, measured(plan.plan, None, engine, plan.plan.cut)))

    def release(
        self, plan: ResponsePlan, cost: Cost, exact: Truth | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the responses, and return the ledger's entry."""
        state, draws = self.store.accountant, None
        if plan.request not in state.releases:
            if exact is None:
                raise engine_failure()
            missed, false = plan.plan.errors
            truth = exact.values[list(plan.asked)]
            draws = {"response": response.respond(truth, missed, false, noise)}
        return {
            "kind": "release",
            "sql": self.words(plan),
            "query": plan.definition(),
            "version": plan.plan.version,
            "drawn": draws,
            "conditional": self.conditional or plan.request in state.conditional,
        }

    def known(self, plan: ResponsePlan) -> None:
        """Return None, because randomised responses need a release."""

    def result(self, plan: ResponsePlan, charge: Charge, *, fresh: bool) -> Responded:
        """Return the committed responses."""
        answers = self.store.accountant.releases[charge.request].drawn["response"]
        return Responded(tuple(bool(answer) for answer in answers), charge, fresh)


@dataclass(frozen=True, slots=True)
class Responded:
    """The drawn responses for the requested groups, and their charge."""

    values: tuple[bool, ...]
    charge: Charge
    fresh: bool
