"""The request for a private selection or a shareable histogram: one scan, one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpnb.engines.contributions import Contributions, ContributionScan, Vector
from dpnb.engines.scans import Engine, engine_failure
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.accounts import OWNER
from dpnb.ledger.store import Store
from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise
from dpnb.risk.selection import STEPS, Mechanism

DEFAULT_COST: dict[PrivacyDefinition, Fraction] = {ZCDP: Fraction(1, 200), PURE: Fraction(1, 10)}
"""Default privacy cost of a private choice or a shared histogram."""


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """A mechanism on one statement's contributions, and its cost, from public facts only."""

    target: Mapping[str, Any]
    mechanism: Mapping[str, Any]
    cost: Fraction
    privacy: PrivacyDefinition

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {
            "target": dict(self.target),
            "mechanism": dict(self.mechanism),
            self.privacy.parameter: {"selection": str(self.cost)},
        }

    @property
    def request(self) -> str:
        """Name shared by requests with the same meaning and cost on one version of the table."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Released values and their charge."""

    values: tuple[int, ...]
    charge: Charge
    fresh: bool


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """The owner's request for a private selection.

    Parameters
    ----------
    sql : str
    target : mapping
        Table and meaning of the statement; :meth:`plan` adds the version of the table.
    scan : ContributionScan
        Scores, rounded up to multiples of 1/STEPS.
    mechanism : Mechanism
    amount : Fraction
        rho or epsilon.
    conditional : bool
        Whether the amount was picked by looking at the data.
    """

    verb: ClassVar[str] = "risk"
    key: ClassVar[None] = None
    sql: str
    target: Mapping[str, Any]
    scan: ContributionScan
    mechanism: Mechanism
    amount: Fraction
    conditional: bool
    store: Store

    @property
    def analyst(self) -> str:
        """Who asks."""
        return OWNER

    def plan(self) -> SelectionPlan:
        """Plan the selection on the current version of the table."""
        name = str(self.target["table"])
        target = {**self.target, "version": self.store.version(name)}
        privacy = self.store.accountant.privacy
        return SelectionPlan(target, self.mechanism.definition(), self.amount, privacy)

    def words(self, plan: SelectionPlan) -> str:
        """Return the request in words, for the owner of the data."""
        return f"risk, {plan.mechanism['method']}: {self.sql.strip()}"

    def table(self, plan: SelectionPlan) -> str:
        """Return the name of the table."""
        return str(plan.target["table"])

    def cost(self, plan: SelectionPlan) -> Cost:
        """Return the price of the mechanism."""
        price = PrivacyLoss.of(plan.cost, plan.privacy)
        return self.store.accountant.once_cost(plan.request, price)

    def needed(self, plan: SelectionPlan, cost: Cost) -> Set[str]:
        """Return the exact values to measure: the table of counts."""
        return {"counts"}

    def measure(self, plan: SelectionPlan, needed: Set[str], engine: Engine) -> Tally:
        """Count the rows by score."""
        lines = engine.contributions(self.scan)
        if lines is None:
            raise engine_failure()
        return Tally(counted(lines))

    def release(
        self, plan: SelectionPlan, cost: Cost, exact: Tally | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the values and return the ledger's entry."""
        if exact is None:
            raise engine_failure()
        draws = self.mechanism.draw(exact.counts, plan.cost, plan.privacy, noise)
        return {
            "kind": "release",
            "sql": self.words(plan),
            "query": plan.definition(),
            "version": plan.target["version"],
            "drawn": {"values": draws},
            "conditional": self.conditional,
        }

    def known(self, plan: SelectionPlan) -> None:
        """Return None: there is no result without a release."""

    def result(self, plan: SelectionPlan, charge: Charge, *, fresh: bool) -> Drawn:
        """Return the committed values with their charge."""
        values: Sequence[int] = self.store.accountant.releases[charge.request].drawn["values"]
        return Drawn(tuple(values), charge, fresh)


@dataclass(frozen=True, slots=True, repr=False)
class Tally:
    """Exact counts of rows by score, before noise is added."""

    counts: Vector

    def __repr__(self) -> str:
        return "Tally(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def counted(found: Contributions) -> Vector:
    """Return the number of rows at each multiple of 1/STEPS, shape (STEPS + 1,)."""
    table = np.zeros(STEPS + 1, dtype=np.int64)
    np.add.at(table, found.numbers[:, 0], found.counts)
    return table
