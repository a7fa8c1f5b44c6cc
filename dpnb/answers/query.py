"""The request for an answer: from a statement to released versions of its views."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from dpnb.answers import assembly
from dpnb.answers.answer import Answer
from dpnb.engines.scans import Engine, Exact, Vectors, engine_failure
from dpnb.ledger.accountant import Charge, Cost, plain_step
from dpnb.ledger.mechanism import Drawn, Step
from dpnb.ledger.store import Store
from dpnb.privacy.definition import PURE
from dpnb.privacy.noise import Noise
from dpnb.privacy.path import grid, laplace_chain
from dpnb.releases.accuracy import Accuracy, read_accuracy
from dpnb.releases.catalogue import Choice
from dpnb.releases.plan import Plan, plan, request_name
from dpnb.releases.runner import Runner
from dpnb.schema.partition import Partition
from dpnb.sql.canonical import describe
from dpnb.sql.query import Query
from dpnb.views.histogram import Histogram
from dpnb.views.view import View


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One analyst's statement with its accuracy; ``declared`` allows declared views."""

    verb: ClassVar[str] = "query"
    analyst: str
    sql: str
    query: Query
    accuracy: Mapping[str, Any]
    runner: Runner
    declared: bool = True
    key: Hashable | None = None

    @property
    def store(self) -> Store:
        """The state of the ledger."""
        return self.runner.store

    def plan(self) -> Plan:
        """Decide what would be measured, from public facts and this analyst's releases."""
        state, table = self.store.accountant, self.query.table
        version = self.store.version(table)
        accuracy, name = self._name(version)
        charge = state.charges.get((self.analyst, name))

        def make() -> Plan:
            return plan(
                self.query,
                accuracy,
                version,
                state.privacy,
                lambda views: len(state.looks(self.analyst, views)),
                catalogue=self.choice(charge),
                name=name,
                release_delta=state.budget.release_delta,
            )

        if charge is None:
            return make()
        # a plan that was bought never changes
        return self.runner.memo.at(self._named("bought"), name, make, _bins)

    def check(self) -> None:
        """Refuse an accuracy that makes no sense."""
        self._name(self.store.version(self.query.table))

    def _name(self, version: int) -> tuple[Accuracy, str]:
        """Return the accuracy, and the name of the request on a table version."""

        def make() -> tuple[Accuracy, str]:
            state = self.store.accountant
            checked_accuracy = read_accuracy(
                self.query, state.privacy, state.budget.noise_delta, **self.accuracy
            )
            own = not self.declared and bool(self.store.provenance.views)
            return checked_accuracy, request_name(self.query, checked_accuracy, version, own=own)

        return self.runner.memo.at(self._named("name"), version, make)

    def _named(self, part: str) -> Hashable | None:
        return None if self.key is None else (part, self.analyst, self.key)

    def choice(self, charge: Charge | None) -> Choice | None:
        """Return the declared views that may answer, those of a stored answer if there is one."""
        if not self.declared or not self.store.provenance.views:
            return None
        return Choice(
            self.runner.declared,
            self.runner.declared.of(self.query.table, self.store),
            self.store.accountant,
            self.analyst,
            None if charge is None else charge.declared,
            self.store.provenance.static,
        )

    def words(self, plan: Plan) -> str:
        """Return the request in words, for the data owner."""
        return self.sql.strip()

    def table(self, plan: Plan) -> str:
        """Return the name of the table that the request reads."""
        return plan.query.table

    def cost(self, plan: Plan) -> Cost:
        """Return the cost of raising the views to their levels."""
        return self.store.accountant.cost(self.analyst, plan.level_targets(), _definitions(plan))

    def needed(self, plan: Plan, cost: Cost) -> Set[str]:
        """Return the views that must be measured, given what the ledger holds."""
        state = self.store.accountant
        if state.privacy is PURE:
            paths = state.synopses.paths
            return {name for name in plan.views if name not in paths}
        return {name for name, step in cost.steps.items() if step.fresh}

    def measure(self, plan: Plan, needed: Set[str], engine: Engine) -> dict[str, Sequence[int]]:
        """Return the exact vector of each needed view, in lattice units.

        One scan serves all views with equal keys; views for a quantile have one key more.
        """
        vectors = Vectors()
        scans: dict[tuple[Partition, ...], dict[str, View]] = {}
        for name in needed:
            view = plan.views[name]
            if self.declared and isinstance(view, Histogram):
                vectors[name] = self.runner.declared.exact(view)
            else:
                scans.setdefault(view.keys, {})[name] = view
        for views in scans.values():
            exact: Exact = engine.measure(plan.scan(views))
            for i, (name, view) in enumerate(views.items()):
                vectors[name] = view.lattice(exact.reveal(i))
        return vectors

    def release(
        self, plan: Plan, cost: Cost, exact: Mapping[str, Sequence[int]] | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the versions that the ledger lacks."""
        state = self.store.accountant
        steps = cost.steps
        versions: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        locals_: dict[str, tuple[str, str, tuple[int, ...]]] = {}
        for name, step in steps.items():
            vector = None if exact is None else exact.get(name)
            draws = self._draw(name, plan.views[name], step, vector, noise)
            if draws.versions:
                versions[name] = [
                    (str(version.level), version.vector) for version in draws.versions
                ]
            if draws.local is not None:
                local_version = draws.local
                locals_[name] = (
                    str(local_version.level),
                    str(local_version.source),
                    local_version.vector,
                )
        entry = {
            "kind": "answer",
            "sql": self.words(plan),
            "query": describe(plan.query),
            "accuracy": plan.accuracy.to_dict(),
            "version": self.store.version(plan.query.table),
            "levels": {name: str(step.level) for name, step in steps.items()},
            "views": _definitions(plan),
            "knots": versions,
            "declared": [
                None if part.alignment is None else part.alignment.view.id for part in plan.parts
            ],
            "conditional": plan.accuracy.conditional or not state.conditional.isdisjoint(steps),
        }
        if state.mechanism_name != "path":
            entry["locals"] = locals_
            entry["steps"] = {name: plain_step(step) for name, step in steps.items()}
            entry["wishes"] = {
                name: [str(target.level), None if target.epsilon is None else str(target.epsilon)]
                for name, target in plan.level_targets().items()
            }
        return entry

    def _draw(
        self, name: str, view: View, step: Step, exact: Sequence[int] | None, noise: Noise
    ) -> Drawn:
        state = self.store.accountant
        if state.privacy is not PURE:
            sensitivity = view.lattice_sensitivity(state.privacy)
            return state.mechanism.draw(state.synopses, name, step, exact, sensitivity, noise)
        if name in state.synopses.paths:
            return Drawn()
        if exact is None:
            raise engine_failure()
        # the only analyst then has this level, and is never shown a coarser one
        levels = [level for level in grid() if step.level <= level <= state.cap.level(PURE)]
        return Drawn(laplace_chain(exact, levels, view.lattice_sensitivity(PURE), noise))

    def known(self, plan: Plan) -> Answer | None:
        """Return the declared groups if the statement asks for nothing else; else None.

        This request never uses past answers to other statements.
        """
        return (
            None
            if plan.query.outputs
            else assembly.listed(self.sql, plan, self.analyst, self.store)
        )

    def result(self, plan: Plan, charge: Charge, *, fresh: bool) -> Answer:
        """Build the answer from the committed versions."""
        make = partial(assembly.answer, self.sql, plan, charge, self.store, fresh=False)
        # nothing changes until something is committed, or a grant expires
        granted = self.store.provenance.granted(self.analyst, self.store.now())
        state = charge.sequence, self.store.ledger.sequence, granted
        stored: Answer = self.runner.memo.at(self._named("answer"), state, make, _values)
        if not fresh:
            return stored
        # whoever asks the same again gets the stored one
        return replace(
            stored,
            bill=replace(stored.bill, spent=charge.row, stored=False),
            levels=deepcopy(stored.levels),
            definitions=deepcopy(stored.definitions),
        )


def _values(answer: Answer) -> int:
    """Return about how many numbers and labels an answer has."""
    return len(answer.groups) * (len(answer.keys) + 4 * len(answer.estimates))


def _definitions(plan: Plan) -> dict[str, dict[str, Any]]:
    return {name: view.definition() for name, view in plan.views.items()}


def _bins(plan: Plan) -> int:
    """Return the number of bins of declared views in a plan."""
    return sum(0 if part.alignment is None else part.alignment.view.size for part in plan.parts)
