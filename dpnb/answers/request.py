"""The request for an answer: from a statement to knots of noise paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.answers import assembly
from dpnb.answers.answer import Answer
from dpnb.engines.base import Engine, Exact, engine_failure
from dpnb.privacy.accountant import Charge
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise
from dpnb.privacy.path import Knot, gaussian_knot, laplace_chain, needs_data
from dpnb.provenance.plan import Plan, plan, read_accuracy
from dpnb.provenance.store import Store
from dpnb.provenance.views import View
from dpnb.sql.canonical import describe
from dpnb.sql.query import Query
from dpnb.table import Table


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One analyst's statement with its accuracy."""

    analyst: str
    sql: str
    query: Query
    accuracy: Mapping[str, Any]
    store: Store
    tables: Mapping[str, Table]

    def plan(self) -> Plan:
        """Decide what would be measured: public facts, and how often this analyst has looked."""
        state = self.store.accountant
        return plan(
            self.query,
            read_accuracy(self.query, state.currency, state.budget.delta, **self.accuracy),
            self.tables[self.query.table].schema,
            self.store.version(self.query.table),
            state.currency,
            lambda views: len(state.looks(self.analyst, views)),
        )

    def table(self, plan: Plan) -> str:
        """Return the name of the table that is looked at."""
        return plan.query.table

    def served(self, plan: Plan) -> dict[str, Fraction]:
        """Return the level at which each view will be shown: the asked one, or a finer one held."""
        held = self.store.accountant.level
        return {view: max(level, held(self.analyst, view)) for view, level in plan.levels.items()}

    def cost(self, plan: Plan) -> PrivacyLoss:
        """Return the increase that bringing the views up to their levels costs."""
        return self.store.accountant.increase(self.analyst, self.served(plan))

    def needed(self, plan: Plan) -> Set[str]:
        """Return the views that take a look at the data, given what the ledger holds."""
        paths = self.store.accountant.paths
        return {name for name in plan.views if needs_data(paths.get(name, ()), plan.levels[name])}

    def measure(self, plan: Plan, needed: Set[str], engine: Engine) -> dict[str, Sequence[int]]:
        """Return the exact vector of each needed view, in lattice units: one scan."""
        views = {name: view for name, view in plan.views.items() if name in needed}
        exact: Exact = engine.measure(plan.scan(views))
        return _Vectors(
            (name, view.lattice(exact.reveal(i))) for i, (name, view) in enumerate(views.items())
        )

    def release(
        self, plan: Plan, exact: Mapping[str, Sequence[int]] | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the knots that the ledger lacks."""
        state = self.store.accountant
        paths = state.paths
        levels = self.served(plan)
        knots: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        for name, level in levels.items():
            path = paths.get(name, [])
            if all(knot.level != level for knot in path):
                vector = None if exact is None else exact.get(name)
                drawn = self._draw(path, plan.views[name], level, vector, noise)
                knots[name] = [(str(knot.level), knot.vector) for knot in drawn]
        return {
            "kind": "answer",
            "sql": self.sql.strip(),
            "query": describe(plan.query),
            "accuracy": plan.accuracy.to_dict(),
            "version": self.store.version(plan.query.table),
            "levels": {name: str(level) for name, level in levels.items()},
            "views": {name: view.definition() for name, view in plan.views.items()},
            "knots": knots,
            "conditional": plan.accuracy.conditional or not state.conditional.isdisjoint(levels),
        }

    def _draw(
        self,
        path: Sequence[Knot],
        view: View,
        level: Fraction,
        exact: Sequence[int] | None,
        noise: Noise,
    ) -> Sequence[Knot]:
        state = self.store.accountant
        if state.currency == "zcdp":
            return [gaussian_knot(path, level, exact, view.sensitivity, noise)]
        if exact is None:
            raise engine_failure()
        return laplace_chain(exact, state.cap.level("pure"), view.sensitivity, noise)

    def result(self, plan: Plan, charge: Charge, *, fresh: bool) -> Answer:
        """Build the answer from the committed knots."""
        schema = self.tables[plan.query.table].schema
        return assembly.answer(self.sql, plan, charge, self.store, schema, fresh=fresh)


class _Vectors(dict[str, Sequence[int]]):
    """Exact vectors by view; shows nothing of itself."""

    def __repr__(self) -> str:
        return "Vectors(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")
