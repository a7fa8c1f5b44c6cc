"""Generated data on which analysts can try their requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from dpnb.backend import LocalBackend
from dpnb.ledger.accounts import ANALYST
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import BASIC, PURE
from dpnb.results import BudgetStatus
from dpnb.schema.columns import Kind
from dpnb.schema.synthetic import generated
from dpnb.schema.table import Table
from dpnb.verbs import opened


def rehearsal(
    tables: Mapping[str, Table], status: BudgetStatus, rows: int, seed: int
) -> LocalBackend:
    """Open generated tables, with a ledger in memory and one analyst.

    Parameters
    ----------
    tables : mapping of str to Table
        Only their public facts are used.
    status : BudgetStatus
        Status of the analyst who rehearses.
    rows, seed : int
        As in ``dpnb.schema.synthetic.generated``.
    """
    kinds = _kinds_of_ids(tables.values())
    synthetic_tables = [
        generated(
            name, table.schema, rows, seed, public=table.public, key=table.key,
            ids=None if table.unit is None else kinds.get(table.unit.column.casefold()),
        )
        for name, table in tables.items()
    ]  # fmt: skip
    budget = budget_for(status)
    if budget.privacy is BASIC:
        # the "basic" accountant cannot count noise paths
        policy = Policy(mechanism="additive")
        name = (status.analyst or "you").partition("#")[0]
        runner = opened(
            synthetic_tables, budget=budget, analysts={name: 1}, policy=policy, rehearsal=True
        )
        return LocalBackend(runner, name, owned=True)
    return LocalBackend(
        opened(synthetic_tables, budget=budget, rehearsal=True), ANALYST, owned=True
    )


def _kinds_of_ids(tables: Iterable[Table]) -> dict[str, Kind]:
    """Return the kinds of id columns that tables declare, by name: ids of tables must match."""
    units = ((table.schema, table.unit) for table in tables if table.unit is not None)
    id_columns = ((schema, schema.find(unit.column)) for schema, unit in units)
    return {name.casefold(): schema[name] for schema, name in id_columns if name is not None}


def budget_for(status: BudgetStatus) -> Budget:
    """Return the budget of a rehearsal: what is left, or the whole budget if nothing is left."""
    left, privacy = status.remaining, status.privacy
    used_up = left.level(privacy) <= 0 or (privacy is BASIC and left.delta <= 0)
    loss = status.cap if used_up else left
    if privacy is PURE:
        return Budget(epsilon=loss.level(privacy))
    if privacy is BASIC:
        return Budget(epsilon=loss.level(privacy), delta=loss.delta, accountant="basic")
    # delta is where epsilons are shown, plus what is set aside for keys
    aside = loss.delta
    delta = None if status.delta is None else Fraction(str(status.delta)) + aside
    return Budget(rho=loss.rho, delta=delta, accountant=privacy, key_delta=aside or None)
