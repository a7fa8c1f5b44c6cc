"""The part of a curator that a risk profile uses."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from dpnb.answers.answer import Answer
from dpnb.answers.assembly import status
from dpnb.answers.price import Price
from dpnb.answers.query import AnswerRequest
from dpnb.answers.verbs import priced
from dpnb.engines.contributions import ContributionScan
from dpnb.engines.scans import Engine
from dpnb.interrupt import Progress, wait
from dpnb.ledger.accounts import ANALYST, OWNER
from dpnb.ledger.store import Store
from dpnb.privacy.definition import PURE
from dpnb.privacy.loss import Picked
from dpnb.privacy.path import snap
from dpnb.releases.plan import Plan, shares
from dpnb.releases.runner import Runner, looked
from dpnb.results import BudgetStatus
from dpnb.risk.request import Drawn, SelectionRequest
from dpnb.risk.selection import Mechanism
from dpnb.schema.table import Table
from dpnb.sql.canonical import describe
from dpnb.views.view import ids_counted

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskContext:
    """One statement's plan, and the runner of its tables."""

    sql: str
    plan: Plan
    runner: Runner

    @property
    def store(self) -> Store:
        """The store of the ledger."""
        return self.runner.store

    @property
    def engine(self) -> Engine:
        """Engine with the rows of the table."""
        return self.runner.engines[self.plan.query.table]

    @property
    def table(self) -> Table:
        """The table of the statement."""
        return self.runner.tables[self.plan.query.table]

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining."""
        with self.runner.reading():
            return status(self.store)

    @property
    def conditional(self) -> bool:
        """Whether anything was released at a level that was picked by looking at the data."""
        with self.runner.reading():
            return bool(self.store.accountant.conditional)

    def affordable(self, cost: float) -> float:
        """Return the largest level at which an answer costs at most ``cost``.

        A view already released at level h costs max(0, share level - h): piecewise linear in level.
        """
        with self.runner.reading():
            released_levels = [
                float(self.store.accountant.finest(view)) for view in self.plan.views
            ]
        parts = shares(self.plan.parts, self.plan.accuracy, self.plan.privacy)
        weights = [float(parts[view]) for view in self.plan.views]
        breakpoints = sorted(
            zip(
                (h / w for h, w in zip(released_levels, weights, strict=True)), weights, strict=True
            )
        )
        slope, paid, level = 0.0, 0.0, 0.0
        for start, weight in breakpoints:
            if paid + slope * (start - level) > cost:
                break
            paid, level = paid + slope * (start - level), start
            slope += weight
        # views already released cost nothing, even if no budget is left
        return level + max(0.0, cost - paid) / slope if slope else 0.0

    def charged(self, level: Fraction) -> Fraction:
        """Return the charge for a first answer at a level; pure sessions round down to a grid."""
        if self.plan.privacy is not PURE:
            return level
        parts = shares(self.plan.parts, self.plan.accuracy, self.plan.privacy)
        return sum(
            (snap(level * part, up=False) or Fraction(0) for part in parts.values()), Fraction(0)
        )

    @property
    def target(self) -> dict[str, Any]:
        """Statement and split of its level, as plain data."""
        counted = ids_counted(self.plan.views.values())
        return {**self._meaning, **({"ids": counted} if counted else {})}

    @property
    def _meaning(self) -> dict[str, Any]:
        return {**describe(self.plan.query), "split": str(self.plan.accuracy.split)}

    @property
    def statement(self) -> str:
        """Name shared by statements with the same meaning on one version of the table."""
        version = self.store.version(self.plan.query.table)
        # whoever has seen how ids contribute, however often they count, has seen something of it
        text = json.dumps([self._meaning, version], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def note_look(self) -> None:
        """Note that an exact value of the statement is shown, unless the table is public."""
        if not self.table.public:
            self.store.shown.note(self.statement)

    def write_look(self) -> None:
        """Write the owner's look to the ledger, with the terms settled before; no exact value."""
        if self.table.public:
            return
        name = self.statement

        def entry() -> dict[str, Any] | None:
            if name in self.store.looks:
                return None
            return {"kind": "look", "statement": name, "settled": self.store.shown.settled(name)}

        with self.runner.lock:
            self.store.write(entry)

    def settle(self, *terms: object) -> bool:
        """Settle terms of a choice; return False if they come after a look at exact values."""
        if self.table.public:
            return True
        with self.runner.reading():
            look_terms = self.store.looks.get(self.statement)
        settled = self.store.shown.settle(self.statement, repr(terms), late=look_terms is not None)
        return settled or (look_terms is not None and repr(terms) in look_terms)

    def bought(self, mechanism: Mechanism) -> Fraction:
        """Return the highest cost paid for a mechanism on this statement; 0 if there is none."""
        with self.runner.reading():
            state, version = self.store.accountant, self.store.version(self.plan.query.table)
            target = {**self.target, "version": version}
            costs = [
                state.releases[charge.request].spent.level(state.privacy)
                for charge in state.charges.values()
                if charge.query.get("mechanism") == mechanism.definition()
                and charge.query.get("target") == target
            ]
        return max(costs, default=Fraction(0))

    def request(self, level: Fraction | Picked) -> AnswerRequest:
        """Return the request for an answer at a level."""
        accuracy = {self.plan.privacy.parameter: level, "split": self.plan.accuracy.split}
        asker = ANALYST if self.store.provenance.policy is None else OWNER
        key = "risk", self.plan.request, type(level), str(level)
        return AnswerRequest(
            asker, self.sql, self.plan.query, accuracy, self.runner, declared=False, key=key
        )

    def price(self, level: Fraction | Picked) -> Price:
        """Return the price of an answer at a level, without spending anything."""
        return priced(self.runner, [self.request(level)])[0]

    def answer(self, level: Fraction | Picked) -> Answer:
        """Release the statement at a level."""
        noisy_answer: Answer = self.runner.run(self.request(level))
        return noisy_answer

    def select(
        self,
        mechanism: Mechanism,
        scan: ContributionScan,
        amount: Fraction,
        conditional: bool,
        progress: Progress | None,
    ) -> Drawn:
        """Carry out a private selection and charge it to the ledger."""
        request = SelectionRequest(
            self.sql, self.target, scan, mechanism, amount, conditional, self.store
        )
        cancel = threading.Event()
        run = partial(self.runner.run, request, cancel)
        draw: Drawn = wait(run, cancel, self.engine.interrupt, progress)
        return draw

    def look(self, work: Callable[[], T], progress: Progress | None = None) -> T:
        """Look at the data in a thread that an interrupt can stop; failures have one fixed text."""
        cancel = threading.Event()
        look = partial(looked, work, cancel)
        outcome: T = wait(look, cancel, self.engine.interrupt, progress, free=True)
        return outcome

    def __repr__(self) -> str:
        return "RiskContext(private)"

    def __reduce__(self) -> Any:
        raise TypeError("a RiskContext leads to sensitive data and cannot be pickled")
