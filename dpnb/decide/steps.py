"""The request for one step of a decision: from its lines to versions of noise paths."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpnb.decide.findings import check_lattice
from dpnb.decide.plan import DecisionPlan
from dpnb.decide.stage import Stage, stage
from dpnb.engines.scans import Engine, Vectors, engine_failure
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.store import Store
from dpnb.privacy.definition import PURE
from dpnb.privacy.noise import Noise
from dpnb.privacy.path import Version, find, gaussian_version, laplace_chain
from dpnb.sql.canonical import describe
from dpnb.views.view import View, scan_of

if TYPE_CHECKING:
    from dpnb.decide.decision import Decision


def measured(
    plan: DecisionPlan, names: Set[str] | None, engine: Engine, groups: int = 0
) -> Vectors:
    """Return exact lattice vectors in one scan: of the named views, or of all that the truth needs.

    With ``groups`` above 0, each id counts in at most that many groups.
    """
    views = {line.view.id: line.view for line in plan.lines}
    if names is None:
        views |= {line.rows.id: line.rows for line in plan.lines if line.rows is not None}
    else:
        views = {name: view for name, view in views.items() if name in names}
    exact = engine.measure(replace(scan_of(plan.query.where, views), groups=groups))
    return Vectors(
        {name: view.lattice(exact.reveal(i)) for i, (name, view) in enumerate(views.items())}
    )


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One analyst's request to take one step of a decision.

    ``show`` builds the decision from the stage and its charge. ``past`` returns the decision from
    values seen before, if these are enough.
    """

    verb: ClassVar[str] = "decide"
    analyst: str
    sql: str
    draft: DecisionPlan
    step: int
    conditional: bool
    store: Store
    show: Callable[[Stage, Charge, bool], Decision]
    past: Callable[[Stage], Decision | None]
    key: Hashable | None

    def plan(self) -> Stage:
        """Return the stage; once the decision has begun, its start comes from the ledger."""
        current_stage = stage(self.draft, self.step, self.analyst, self.store)
        check_lattice(current_stage)
        return current_stage

    def words(self, plan: Stage) -> str:
        """Return the request in words, for the owner of the data."""
        return f"decide, step {plan.step}: {self.sql.strip()}"

    def table(self, plan: Stage) -> str:
        """Return the name of the table."""
        return plan.plan.query.table

    def cost(self, plan: Stage) -> Cost:
        """Return the cost of raising the views to their levels."""
        return self.store.accountant.cost(self.analyst, plan.level_targets(), plan.definitions())

    def needed(self, plan: Stage, cost: Cost) -> Set[str]:
        """Return the views that must be measured, given what is in the ledger."""
        state = self.store.accountant
        if state.privacy is PURE:
            return {name for name in plan.views if name not in state.synopses.paths}
        return {name for name, step in cost.steps.items() if step.fresh}

    def measure(self, plan: Stage, needed: Set[str], engine: Engine) -> Vectors:
        """Return the exact vectors of the needed views: one scan."""
        return measured(plan.plan, needed, engine)

    def release(
        self, plan: Stage, cost: Cost, exact: Mapping[str, Sequence[int]] | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the versions that the ledger lacks, and return its entry."""
        state, steps = self.store.accountant, cost.steps
        versions = {}
        for name, line, target in zip(plan.names, plan.plan.lines, plan.targets(), strict=True):
            if find(state.synopses.paths.get(name, ()), target) is None:
                vector = None if exact is None else exact.get(name)
                new_versions = self._draw(line.view, target, line.levels, vector, noise)
                versions[name] = [(str(version.level), version.vector) for version in new_versions]
        return {
            "kind": "answer",
            "sql": self.words(plan),
            "query": {
                **describe(plan.plan.query),
                "decision": plan.plan.definition(),
                "starts": [str(start) for start in plan.starts],
                "seen": [past_view.plain() for past_view in plan.seen],
            },
            "version": plan.plan.version,
            "levels": {name: str(step.level) for name, step in steps.items()},
            "views": plan.definitions(),
            "knots": versions,
            "conditional": self.conditional or not state.conditional.isdisjoint(steps),
        }

    def _draw(
        self,
        view: View,
        target: Fraction,
        levels: Sequence[Fraction],
        exact: Sequence[int] | None,
        noise: Noise,
    ) -> Sequence[Version]:
        state = self.store.accountant
        sensitivity = view.lattice_sensitivity(state.privacy)
        if state.privacy is not PURE:
            path = state.synopses.paths.get(view.id, ())
            return [gaussian_version(path, target, exact, sensitivity, noise)]
        if exact is None:
            raise engine_failure()
        return laplace_chain(exact, levels, sensitivity, noise)

    def known(self, plan: Stage) -> Decision | None:
        """Return the decision from values seen before, if these are enough."""
        return self.past(plan)

    def result(self, plan: Stage, charge: Charge, *, fresh: bool) -> Decision:
        """Build the decision from the committed charge."""
        return self.show(plan, charge, fresh)
