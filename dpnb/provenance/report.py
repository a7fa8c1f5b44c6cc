"""The owner's view of a ledger: who has learned how much of what, and what is left. Charges only."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dpnb.errors import RequestError
from dpnb.privacy.loss import Currency, PrivacyLoss, unit
from dpnb.privacy.mechanisms import NONE
from dpnb.provenance.store import Store

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the provenance table: an analyst, or one privilege of hers.

    Attributes
    ----------
    limit, remaining : PrivacyLoss
    spent : PrivacyLoss
        What the row answers for: its own charges and those made under its grants (liability).
    known : PrivacyLoss
        What was learned through it (knowledge).
    answered : int
        Number of different requests answered.
    """

    name: str
    analyst: str
    privilege: int
    active: bool
    limit: PrivacyLoss
    spent: PrivacyLoss
    known: PrivacyLoss
    remaining: PrivacyLoss
    answered: int


@dataclass(frozen=True, slots=True)
class Column:
    """One view, or one one-off release: its name in words and what all together know of it.

    ``kind`` tells declared views, views that a statement made, and one-off releases apart.
    """

    id: str
    name: str
    kind: Literal["declared", "statement", "release"]
    known: PrivacyLoss
    limit: PrivacyLoss | None


@dataclass(frozen=True, slots=True)
class Spending:
    """One committed request: when, whose row, and what it added to the row and to the whole."""

    time: str
    row: str
    own: PrivacyLoss
    table: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Provenance:
    """The provenance table at one moment, for the owner.

    Attributes
    ----------
    rows : tuple of Row
    columns : tuple of Column
        In order of first charge.
    cells : mapping of (row name, column id) to PrivacyLoss
        What each row knows of each column; those it knows nothing of are left out.
    timeline : tuple of Spending
        Oldest first.
    cap, spent, remaining : PrivacyLoss
        Of all analysts together.
    currency : {'zcdp', 'gdp', 'basic', 'pure'}
    delta : float or None
        At which epsilons are shown.
    mechanism : {'path', 'additive', 'vanilla'}
    """

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, str], PrivacyLoss]
    timeline: tuple[Spending, ...]
    cap: PrivacyLoss
    spent: PrivacyLoss
    remaining: PrivacyLoss
    currency: Currency
    delta: float | None
    mechanism: str
    together: Callable[[Collection[str]], PrivacyLoss] = field(repr=False, compare=False)

    def coalition(self, *analysts: str) -> PrivacyLoss:
        """Return what some analysts, putting all their answers together, have learned: exactly.

        Raises
        ------
        RequestError
            For an unknown analyst.
        """
        known = {row.analyst for row in self.rows}
        for name in analysts:
            if name not in known:
                raise RequestError(f"there is no analyst {name!r}", "See rows.")
        return self.together([row.name for row in self.rows if row.analyst in analysts])

    @property
    def ndcfg(self) -> float | None:
        """How much of what was answered went to the privileged; None before the first answer.

        sum |Q_i| / log2(1/l_i + 1) over sum |Q_i| (DProvDB, section 7): from 1 / log2(1/l + 1) of the
        lowest privilege to that of the highest.
        """
        return ndcfg([(row.privilege, row.answered) for row in self.rows])

    def to_frame(self) -> pd.DataFrame:
        """Return one line for each row: privilege, limit, spent, known, remaining, answered."""
        import pandas as pd

        name = unit(self.currency)
        lines: list[dict[str, Any]] = [
            {
                "analyst": row.name,
                "privilege": row.privilege,
                "active": row.active,
                **{
                    f"{name}_{word}": float(loss.level(self.currency))
                    for word, loss in (
                        ("limit", row.limit), ("spent", row.spent), ("known", row.known),
                        ("remaining", row.remaining),
                    )
                },
                "answered": row.answered,
            }
            for row in self.rows
        ]  # fmt: skip
        return pd.DataFrame(lines)


def ndcfg(answered: Sequence[tuple[int, int]]) -> float | None:
    """Return the fairness of (privilege, number of answers) pairs; None without answers."""
    total = sum(count for _, count in answered)
    if not total:
        return None
    return sum(count / math.log2(1 / level + 1) for level, count in answered) / total


def report(store: Store, names: Mapping[str, str]) -> Provenance:
    """Build the owner's view; ``names`` has the names of declared views by id."""
    state, table, now = store.accountant, store.provenance, store.now()
    charges = sorted(state.charges.values(), key=lambda charge: charge.sequence)
    labels: dict[str, tuple[str, Literal["declared", "statement", "release"]]] = {}
    answered: dict[str, int] = {}
    for charge in charges:
        answered[charge.analyst] = answered.get(charge.analyst, 0) + 1
        for view in charge.levels:
            if view in names:
                labels[view] = names[view], "declared"
            else:
                labels.setdefault(view, (charge.sql, "statement"))
        if not charge.levels:
            labels[charge.request] = charge.sql, "release"
    for view, name in names.items():
        labels.setdefault(view, (name, "declared"))
    privileges = table.rows or dict.fromkeys((charge.analyst for charge in charges), 1)
    rows = tuple(
        Row(
            row, row.partition("#")[0], privilege,
            table.analysts[row.partition("#")[0]].active if row in table.rows else True,
            table.limit(row), table.spent(row), state.known.get(row, NONE),
            table.remaining(row, now), answered.get(row, 0),
        )
        for row, privilege in privileges.items()
    )  # fmt: skip
    columns = tuple(
        Column(
            name, label, kind,
            state.releases[name].spent if kind == "release" else state.synopses.column(name),
            table.view_limit(names[name]) if name in names else None,
        )
        for name, (label, kind) in labels.items()
    )  # fmt: skip
    timeline = tuple(Spending(one.time, one.analyst, one.row, one.spent) for one in charges)
    delta = state.budget.delta
    return Provenance(
        rows, columns, {**state.synopses.cells, **state.once}, timeline, state.cap, state.spent,
        state.remaining(), state.currency, None if delta is None else float(delta),
        state.mechanism_name, state.loss,
    )  # fmt: skip
