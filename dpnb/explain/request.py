"""The request for an explanation: one look at the data, one transaction."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar

from dpnb.answers.question import Question
from dpnb.engines.scans import Engine, engine_failure
from dpnb.explain.assembly import check_served, explanation, plan_for
from dpnb.explain.explanation import Explanation
from dpnb.explain.mechanism import Influences, measure, release
from dpnb.explain.plan import ExplanationPlan
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.store import Store
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise
from dpnb.releases.runner import Runner
from dpnb.schema.predicates import plain


@dataclass(frozen=True, slots=True)
class ExplanationRequest:
    """One analyst's question with the options of its explanation."""

    verb: ClassVar[str] = "explain"
    analyst: str
    question: Question
    options: Mapping[str, Any]
    runner: Runner
    key: Hashable | None

    @property
    def store(self) -> Store:
        """The state of the ledger."""
        return self.runner.store

    def plan(self) -> ExplanationPlan:
        """Decide what would be measured. Uses public facts only."""
        check_served(self.store)
        return plan_for(self.question, self.analyst, self.store, self.runner.tables, self.options)

    def words(self, plan: ExplanationPlan) -> str:
        """Return the request in words, for the data owner."""
        question = self.question
        return f"explain: {question.left} > {question.right} in {question.aggregate}"

    def table(self, plan: ExplanationPlan) -> str:
        """Return the name of the table that the request reads."""
        return plan.target.table

    def _known(self, plan: ExplanationPlan) -> bool:
        """Return whether these numbers were released already, to anyone."""
        return plan.request in self.store.accountant.releases

    def cost(self, plan: ExplanationPlan) -> Cost:
        """Return the cost: always her own, that of all together only for a new release."""
        return self.store.accountant.once_cost(plan.request, _price(plan))

    def needed(self, plan: ExplanationPlan, cost: Cost) -> Set[str]:
        """Return the name of the influences, unless the release exists."""
        return set() if self._known(plan) else {"influences"}

    def measure(self, plan: ExplanationPlan, needed: Set[str], engine: Engine) -> Influences:
        """Return the exact influences of all candidates: one statement."""
        return measure(plan, engine)

    def release(
        self, plan: ExplanationPlan, cost: Cost, exact: Influences | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw selection, influences and ranks together."""
        draws = None
        if not self._known(plan):
            if exact is None:
                raise engine_failure()
            draws = self._drawn(plan, exact, noise)
        conditional_names = self.store.accountant.conditional
        return {
            "kind": "release",
            "sql": self.words(plan),
            "query": plan.definition(),
            "version": plan.target.version,
            "drawn": draws,
            "conditional": plan.conditional or plan.request in conditional_names,
        }

    def _drawn(self, plan: ExplanationPlan, exact: Influences, noise: Noise) -> dict[str, Any]:
        """Return the draws, with predicates by name and meaning: numbers may change meaning."""
        draws = release(plan, exact, noise)
        space, schema = plan.space, plan.target.schema
        predicates = [
            [space.label(i), plain(space.predicate(i, schema))] for i in draws["predicates"]
        ]
        return {**draws, "predicates": predicates, "noise": plan.noise()}

    def known(self, plan: ExplanationPlan) -> None:
        """Return None: past answers alone never give an explanation."""

    def result(self, plan: ExplanationPlan, charge: Charge, *, fresh: bool) -> Explanation:
        """Build the explanation from the committed charge."""
        return explanation(plan, self.question, charge, self.store, fresh=fresh)


def _price(plan: ExplanationPlan) -> PrivacyLoss:
    return PrivacyLoss.of(plan.budgets.total, ZCDP)
