"""The request for the values of an undeclared column: one scan of the data, one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpnb.answers.assembly import status
from dpnb.discover.discovery import Detection, Discovery
from dpnb.engines.scans import Engine, Tally, engine_failure
from dpnb.errors import RequestError, given, nearest
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.store import Store
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.loss import PrivacyLoss, amount_text, is_picked, rho_meant
from dpnb.privacy.noise import Noise
from dpnb.privacy.threshold import Threshold
from dpnb.releases.kinds import AMOUNT, SHARE, Text
from dpnb.releases.options import Option, read_values
from dpnb.releases.runner import Runner
from dpnb.schema.schema import groups_asked
from dpnb.schema.table import Table

_CHUNK = 2**20
OPTIONS = (
    Option("table", Text("people"), None,
           "table of the column, if several tables have such a column", metavar="NAME"),
    Option("rho", AMOUNT, None,
           "privacy cost in zCDP, or :name; a larger one finds rarer values"),
    Option("epsilon", AMOUNT, None, "privacy cost as epsilon, or :name"),
    Option("delta", AMOUNT, None, "part of the budget's key_delta; a tenth by default"),
    Option("confidence", SHARE, 0.95, "from 0.5 to below 1; 0.95 by default"),
)  # fmt: skip
"""The options of ``discover``."""


@dataclass(frozen=True, slots=True)
class DiscoveryPlan:
    """Plan of a key selection. Public facts only."""

    table: Table
    place: int
    version: int
    threshold: Threshold
    confidence: float
    conditional: bool

    @property
    def column(self) -> str:
        """The column, as spelled in the schema."""
        return self.table.schema.undeclared[self.place]

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        unit = self.table.unit
        return {
            "target": {
                "table": self.table.name,
                "column": self.column,
                "version": self.version,
                "unit": None if unit is None else [unit.column, unit.max_rows],
                "groups": self.threshold.groups,
            },
            "rho": {name: str(rho) for name, rho in self.threshold.parts.items()},
            "delta": str(self.threshold.delta),
        }

    @property
    def request(self) -> str:
        """Identifier, equal for equal requests with equal cost on one version of the table."""
        text = json.dumps(["discover", self.definition()], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def detection(self) -> Detection:
        """How likely a value is to be shown."""
        cutoff, unit = self.threshold, self.table.unit
        ids = "" if unit is None else unit.column
        return Detection(str(cutoff.rho), str(cutoff.delta), cutoff.groups, ids, self.confidence)


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """One analyst's request for the values of a column."""

    verb: ClassVar[str] = "discover"
    analyst: str
    column: str
    options: Mapping[str, Any]
    runner: Runner
    key: Hashable | None

    @property
    def store(self) -> Store:
        """The state of the ledger."""
        return self.runner.store

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables of the session, without tables of pairs."""
        return self.runner.own

    def plan(self) -> DiscoveryPlan:
        """Make the plan from public facts only.

        Raises
        ------
        RequestError
            If no key_delta was set aside, or the column cannot be discovered.
        """
        self._check_undeclared()
        values = read_values(OPTIONS, self.options)
        state = self.store.accountant
        if state.privacy is not ZCDP:
            raise RequestError(
                "finding undeclared values needs the accountant 'zcdp', the default for a budget with a delta",
                self._new_ledger(),
            )
        if not state.budget.key_delta:
            raise RequestError("no delta was set aside for finding values", self._new_ledger())
        if self.store.provenance.static:
            raise RequestError(
                "the policy gives each view its own limit, so only views are answered",
                "Finding values needs Policy(views='water-filling').",
            )
        table = self._table(values["table"])
        place = self._place(table)
        most = state.budget.key_delta
        delta = most / 10 if values["delta"] is None else values["delta"]
        if delta > most:
            raise RequestError(
                f"delta is {amount_text(delta)}, but only {amount_text(most)} was set aside",
                "Give a smaller delta. It hardly changes what is found.",
            )
        return DiscoveryPlan(
            table, place, self.store.version(table.name), Threshold(self._rho(values), delta, groups_asked(table.unit)),
            values["confidence"], is_picked(self.options),
        )  # fmt: skip

    def _check_undeclared(self) -> None:
        """Refuse a column whose values are declared, before any other check."""
        table_name = self.options.get("table")
        alone = isinstance(table_name, str)
        tables = [one for one in self.tables.values() if not alone or one.name == table_name]
        name = self.column
        if not isinstance(name, str) or any(
            name.casefold() == one.casefold() for table in tables for one in table.schema.undeclared
        ):
            return
        if any(table.schema.find(name) is not None for table in tables):
            raise RequestError(
                f"the values of {given(name)} are declared", "There is nothing to discover."
            )

    def _new_ledger(self) -> str:
        has_undeclared = any(table.schema.undeclared for table in self.tables.values())
        if has_undeclared:
            return "A ledger keeps its budget, so start a new one with Budget(epsilon=3, delta=1e-6, key_delta=1e-7)."
        return (
            "List the column under undeclared, not under columns. A ledger keeps its budget, so start a new one with "
            "Budget(epsilon=3, delta=1e-6, key_delta=1e-7)."
        )

    def _table(self, name: str | None) -> Table:
        if name is None:
            candidates = [table for table in self.tables.values() if table.schema.undeclared]
            if len(candidates) != 1:
                raise RequestError(
                    "several tables have undeclared columns"
                    if candidates
                    else "no table has undeclared columns",
                    f"Write table={candidates[0].name!r}."
                    if candidates
                    else "The owner declares which columns can be searched: Schema(..., undeclared=['city']).",
                )
            return candidates[0]
        if name not in self.tables:
            raise RequestError(f"there is no table {given(name)}", nearest(name, [*self.tables]))
        return self.tables[name]

    def _place(self, table: Table) -> int:
        folded = [name.casefold() for name in table.schema.undeclared]
        if not isinstance(self.column, str):
            raise RequestError("column must be a string", "Write session.discover('city').")
        if self.column.casefold() in folded:
            return folded.index(self.column.casefold())
        raise RequestError(
            f"{table.name!r} has no undeclared column {given(self.column)}",
            nearest(self.column, list(table.schema.undeclared))
            if folded
            else "The owner declares which columns can be searched: Schema(..., undeclared=['city']).",
        )

    def _rho(self, values: Mapping[str, Any]) -> Fraction:
        rho: Fraction | None = values["rho"]
        epsilon = values["epsilon"]
        if (rho is None) == (epsilon is None):
            raise RequestError(
                "give exactly one of rho and epsilon", "Give rho=0.05, or epsilon=0.5."
            )
        if rho is not None:
            return rho
        budget = self.store.accountant.budget
        return rho_meant(epsilon, budget.noise_delta, budget.privacy)

    def words(self, plan: DiscoveryPlan) -> str:
        """Describe the request for the owner of the data."""
        return f"discover: {plan.column} in {plan.table.name}"

    def table(self, plan: DiscoveryPlan) -> str:
        """Return the name of the table that the request reads."""
        return plan.table.name

    def _known(self, plan: DiscoveryPlan) -> bool:
        return plan.request in self.store.accountant.releases

    def cost(self, plan: DiscoveryPlan) -> Cost:
        """Return the cost: to the analyst in any case, to all together only for a new release."""
        cutoff = plan.threshold
        price = PrivacyLoss(cutoff.rho, None, cutoff.delta)
        return self.store.accountant.once_cost(plan.request, price)

    def needed(self, plan: DiscoveryPlan, cost: Cost) -> Set[str]:
        """Return what to measure: the values, unless the release exists."""
        return set() if self._known(plan) else {"values"}

    def measure(self, plan: DiscoveryPlan, needed: Set[str], engine: Engine) -> Tally:
        """Return all values with their counts, from one statement."""
        return engine.tally(plan.place, plan.threshold.least)

    def release(
        self, plan: DiscoveryPlan, cost: Cost, exact: Tally | None, noise: Noise
    ) -> dict[str, Any]:
        """Draw the noise, and return the ledger's entry."""
        draws = None
        if not self._known(plan):
            if exact is None:
                raise engine_failure()
            draws = draw(plan.threshold, exact, noise)
        return {
            "kind": "release",
            "sql": self.words(plan),
            "query": plan.definition(),
            "version": plan.version,
            "drawn": draws,
            "conditional": plan.conditional or plan.request in self.store.accountant.conditional,
        }

    def known(self, plan: DiscoveryPlan) -> None:
        """Return None: without this release, earlier releases cannot give the result."""

    def result(self, plan: DiscoveryPlan, charge: Charge, *, fresh: bool) -> Discovery:
        """Build the discovery from the committed release."""
        budget = status(self.store, charge.analyst)
        draws = self.store.accountant.releases[charge.request].drawn
        half = plan.threshold.margin_of_error(plan.confidence)
        hidden = int(draws["total"]) - len(draws["keys"])
        return Discovery(
            table=plan.table.name,
            column=plan.column,
            keys=tuple(draws["keys"]),
            hidden_low=max(0, hidden - half),
            hidden_high=max(0, hidden + half),
            detection=plan.detection,
            bill=budget.charged(
                charge.row if fresh else PrivacyLoss.none(),
                stored=not fresh,
                conditional=plan.conditional or charge.conditional,
            ),
            ledger=self.store.name,
            definition={**plan.definition(), "noise": draws["noise"]},
        )


def draw(threshold: Threshold, exact: Tally, noise: Noise) -> dict[str, Any]:
    """Return the values whose noisy count passes the threshold, and the noisy total of values."""
    hits: list[tuple[int, str]] = []
    for start in range(0, len(exact.counts), _CHUNK):
        noisy = noise.gaussian(exact.counts[start : start + _CHUNK], threshold.sigma)
        texts = exact.texts[start : start + _CHUNK]
        hits += [
            (-count, text)
            for count, text in zip(noisy, texts, strict=True)
            if count >= threshold.count
        ]
    (total,) = noise.gaussian([exact.total], threshold.total_sigma)
    # break ties of noisy counts by text, not in the engine's order
    return {
        "keys": [text for _, text in sorted(hits)],
        "total": total,
        "noise": {
            "keys": {"family": "gaussian", "scale": threshold.sigma},
            "least": threshold.least,
            "threshold": threshold.count,
            "total": {"family": "gaussian", "scale": threshold.total_sigma},
        },
    }
