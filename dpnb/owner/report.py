"""The owner's view of a ledger: each account's privacy loss, what is left, and the rules.

It rests on charges and on the owner's decisions, never on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dpnb.errors import RequestError, given
from dpnb.ledger.accountant import Accountant, loss, person
from dpnb.ledger.mechanism import NONE
from dpnb.ledger.refusals import Refusal
from dpnb.ledger.store import Store
from dpnb.owner.rules import Rule, rules
from dpnb.privacy.composition import epsilons, kov
from dpnb.privacy.definition import BASIC, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss
from dpnb.results import Result

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Row:
    """One account in the provenance table: an analyst, or one privilege of an analyst.

    Attributes
    ----------
    limit, remaining : PrivacyLoss
    spent : PrivacyLoss
        The account's liability: its own charges and those made under its grants.
    known : PrivacyLoss
        The loss from everything that was released to it.
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
    """One view, or one one-off release: its name in words and the joint loss of all from it.

    Views on disjoint parts of a table share charges, so columns add up to the total or more.
    ``kind`` distinguishes declared views, views from a statement, and one-off releases.
    """

    id: str
    name: str
    kind: Literal["declared", "statement", "release"]
    known: PrivacyLoss
    limit: PrivacyLoss | None


@dataclass(frozen=True, slots=True)
class Spending:
    """One committed request: time and account, and what it added to the account and in total."""

    time: str
    row: str
    own: PrivacyLoss
    table: PrivacyLoss


@dataclass(frozen=True, slots=True, repr=False)
class Provenance(Result):
    """The provenance table at one moment, for the owner.

    Attributes
    ----------
    rows : tuple of Row
    columns : tuple of Column
        In order of first charge.
    cells : mapping of (row name, column id) to PrivacyLoss
        The loss of each account from each column; losses of zero are left out.
    timeline : tuple of Spending
        Oldest first.
    cap, spent, remaining : PrivacyLoss
        For all analysts together.
    privacy : PrivacyDefinition
    delta : float or None
        The delta at which epsilons are shown.
    mechanism : {'path', 'additive', 'vanilla'}
    refusals : tuple of Refusal
        Requests that limits refused, oldest first; each once, the first 1,000 of each account.
    rules : tuple of Rule
        The owner's current decisions, oldest first: the policy, privileges that were changed,
        limits that were set, grants and protected claims.
    together : callable
        Maps accounts to their joint loss at this moment.
    renew : callable or None
        Returns the current provenance table; a live view calls it.

    Examples
    --------
    >>> list(curator.provenance.to_frame()["analyst"])
    ['alice', 'bob']
    """

    card = "provenance.PROVENANCE"

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, str], PrivacyLoss]
    timeline: tuple[Spending, ...]
    cap: PrivacyLoss
    spent: PrivacyLoss
    remaining: PrivacyLoss
    privacy: PrivacyDefinition
    delta: float | None
    mechanism: str
    refusals: tuple[Refusal, ...]
    rules: tuple[Rule, ...]
    together: Callable[[Collection[str]], PrivacyLoss] = field(repr=False, compare=False)
    renew: Callable[[], Provenance] | None = field(default=None, repr=False, compare=False)

    def coalition(self, *analysts: str) -> PrivacyLoss:
        """Return the exact joint privacy loss of analysts who pool all their answers.

        Parameters
        ----------
        analysts : str
            Registered names.

        Returns
        -------
        PrivacyLoss
            The largest loss of any row of the data (docs/methods/dprovdb.md).

        Raises
        ------
        RequestError
            For an unknown analyst.
        """
        names = {row.analyst for row in self.rows}
        for name in analysts:
            if not isinstance(name, str) or name not in names:
                raise RequestError(f"there is no analyst {given(name)}", "See rows.")
        return self.together([row.name for row in self.rows if row.analyst in analysts])

    @property
    def epsilons(self) -> dict[str, float]:
        """The joint loss of all as an epsilon at ``delta``, by the name of the rule.

        ``kov``, optimal composition, stands beside ``basic`` if all charges were equal; it is valid
        only for charges that were fixed beforehand. Empty without a delta or a charge.
        """
        if self.delta is None or self.spent == NONE:
            return {}
        rule_epsilons = epsilons(self.spent, self.delta, self.privacy)
        charges = {(spending.table.epsilon, spending.table.delta) for spending in self.timeline}
        if self.privacy is BASIC and len(charges) == 1:
            ((epsilon, delta),) = charges
            pairs = kov(len(self.timeline), float(epsilon or 0), float(delta))
            totals = [total for total, failing in pairs if failing <= self.delta]
            rule_epsilons |= {"kov": min(totals)} if totals and epsilon else {}
        return rule_epsilons

    @property
    def ndcfg(self) -> float | None:
        """How much of what was answered went to the privileged; None before the first answer.

        sum |Q_i| / log2(1/l_i + 1) over sum |Q_i| (DProvDB, section 7): between 1 / log2(1/l + 1)
        for the lowest privilege and for the highest.
        """
        return ndcfg([(row.privilege, row.answered) for row in self.rows])

    @property
    def ndcfg_range(self) -> tuple[float, float] | None:
        """The smallest and largest possible :attr:`ndcfg` for these privileges, or None."""
        levels = [row.privilege for row in self.rows]
        return (_weight(min(levels)), _weight(max(levels))) if levels else None

    @property
    def ndcfg_even(self) -> float | None:
        """The value of :attr:`ndcfg` if every account had the same number of answers."""
        return ndcfg([(row.privilege, 1) for row in self.rows])

    def to_frame(
        self, *, cells: bool = False, refusals: bool = False, rules: bool = False
    ) -> pd.DataFrame:
        """Return one line for each account: privilege, limit, spent, known, remaining, answered.

        With ``cells`` one line for each account and column with a loss; with ``refusals`` one line
        for each request that a limit refused: when, whose, what, its cost, which limit; with
        ``rules`` one line for each of the owner's decisions: since when, its kind, its amount, in
        words.

        Parameters
        ----------
        cells : bool
            Return one line for each account and view.
        refusals : bool
            Return the refused requests.
        rules : bool
            Return the owner's decisions.

        Returns
        -------
        pandas.DataFrame
            Amounts in rho, or in epsilon in a pure session.
        """
        import pandas as pd

        name, privacy = self.privacy.parameter, self.privacy
        if refusals:
            return pd.DataFrame(
                [
                    (
                        record.time,
                        record.row,
                        record.verb,
                        record.asked,
                        float(record.cost.level(privacy)),
                        record.limit,
                    )
                    for record in self.refusals
                ],
                columns=["time", "analyst", "verb", "asked", f"{name}_cost", "limit"],
            )
        if rules:
            return pd.DataFrame(
                [
                    (
                        record.time,
                        record.kind,
                        None if record.amount is None else float(record.amount.level(privacy)),
                        record.text,
                    )
                    for record in self.rules
                ],
                columns=["time", "kind", name, "rule"],
            )
        if cells:
            columns = {column.id: column for column in self.columns}
            return pd.DataFrame(
                [
                    (row, columns[place].name, columns[place].kind, float(cell_loss.level(privacy)))
                    for (row, place), cell_loss in self.cells.items()
                ],
                columns=["analyst", "column", "kind", f"{name}_known"],
            )
        lines: list[dict[str, Any]] = [
            {
                "analyst": row.name,
                "privilege": row.privilege,
                "active": row.active,
                **{
                    f"{name}_{word}": float(loss.level(privacy))
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

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data (JSON): charges and rules, with exact amounts as texts.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        data = {
            name: _plain(getattr(self, name))
            for name in ("rows", "columns", "timeline", "cap", "spent", "remaining", "privacy",
                         "delta", "mechanism", "rules")
        }  # fmt: skip
        data["cells"] = [
            {"row": row, "column": column, "known": cell_loss.to_dict()}
            for (row, column), cell_loss in self.cells.items()
        ]
        return data


def _plain(value: Any) -> Any:
    """Return rows, columns, charges, rules and losses as plain data."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (Row, Column, Spending, Rule)):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    return value.to_dict() if isinstance(value, PrivacyLoss) else value


def _weight(privilege: int) -> float:
    return 1 / math.log2(1 / privilege + 1)


def ndcfg(answered: Sequence[tuple[int, int]]) -> float | None:
    """Return the fairness of (privilege, number of answers) pairs; None without answers."""
    total = sum(count for _, count in answered)
    if not total:
        return None
    return sum(count * _weight(level) for level, count in answered) / total


def report(
    store: Store, names: Mapping[str, str], renew: Callable[[], Provenance] | None = None
) -> Provenance:
    """Build the owner's view.

    Parameters
    ----------
    store : Store
    names : mapping
        Names of declared views by id.
    renew : callable, optional
        Builds a current one.
    """
    state, table, now = store.accountant, store.provenance, store.now()
    charges = sorted(state.charges.values(), key=lambda charge: charge.sequence)
    labels: dict[str, tuple[str, Literal["declared", "statement", "release"]]] = {}
    answer_counts: dict[str, int] = {}
    for charge in charges:
        answer_counts[charge.analyst] = answer_counts.get(charge.analyst, 0) + 1
        for view in charge.levels:
            if view in names:
                labels[view] = names[view], "declared"
            else:
                labels.setdefault(view, (charge.sql, "statement"))
        if charge.request in state.releases:
            labels[charge.request] = charge.sql, "release"
    for view, name in names.items():
        labels.setdefault(view, (name, "declared"))
    privileges = table.rows or dict.fromkeys((charge.analyst for charge in charges), 1)
    rows = tuple(
        Row(
            row, person(row), privilege,
            table.analysts[person(row)].active if row in table.rows else True,
            table.limit(row), table.spent(row), state.known.get(row, NONE),
            table.remaining(row, now), answer_counts.get(row, 0),
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
    timeline = tuple(
        Spending(record.time, record.analyst, record.row, record.spent) for record in charges
    )
    records = [
        record for row_refusals in table.refusals.values() for record in row_refusals.values()
    ]
    refusals = tuple(sorted(records, key=lambda record: record.time))
    delta = state.budget.noise_delta
    return Provenance(
        rows, columns, {**state.synopses.cells, **state.once}, timeline, state.cap, state.spent,
        state.remaining(), state.privacy, None if delta is None else float(delta),
        state.mechanism_name, refusals, rules(table, store.versions, now), _together(state), renew,
    )  # fmt: skip


def _together(state: Accountant) -> Callable[[Collection[str]], PrivacyLoss]:
    """Return a function for the joint loss of accounts as of now; it keeps no vectors."""
    synopses = state.synopses
    local_versions = {
        key: {level: replace(local, vector=()) for level, local in versions.items()}
        for key, versions in synopses.locals.items()
    }
    levels = replace(synopses.sketch(), paths={}, locals=local_versions)
    return partial(loss, levels, state.mechanism, dict(state.once))
