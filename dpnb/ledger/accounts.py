"""The provenance table: the limit of each account, and which account is liable for which charge.

An account is an analyst, or one privilege of an analyst. The accountant keeps the loss of each
account from each view; this module keeps the limits of accounts, views and the whole, and the
liabilities.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpnb.errors import BudgetError, RequestError, given
from dpnb.ledger.accountant import ALLOW, Accountant, Cost, check, damaged, left_of, person
from dpnb.ledger.columns import Named, asked_of, lost, read_by, reads
from dpnb.ledger.mechanism import NONE
from dpnb.ledger.policy import MOST_PRIVILEGE, Policy, check_privilege, privileges_of
from dpnb.ledger.refusals import MOST_KEPT, Refusal
from dpnb.privacy.loss import PrivacyLoss, epsilon_shown

ANALYST = "analyst"
"""The account that a session without analysts charges."""
OWNER = "owner"
"""The account for the data owner's own requests."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_ZERO = Fraction(0)
_OWN = "the analyst's own limit"
FREE = "What follows from past answers is free: session.infer(sql). "
"""In the hint of a refusal, if the account holds answers from which others may follow."""


@dataclass(frozen=True, slots=True)
class Analyst:
    """A registered analyst with privileges; the first is in use unless another one is named."""

    name: str
    privileges: tuple[int, ...]
    active: bool = True

    def rows(self) -> dict[str, int]:
        """Return the analyst's accounts with their privileges."""
        return {row_name(self, privilege): privilege for privilege in self.privileges}


def row_name(analyst: Analyst, privilege: int) -> str:
    """Return the name of an analyst's account: for the first privilege, the analyst's own name."""
    first = privilege == analyst.privileges[0]
    return analyst.name if first else f"{analyst.name}#{privilege}"


@dataclass(frozen=True, slots=True)
class Grant:
    """A part of one account's budget that another account may spend."""

    giver: str
    receiver: str
    level: Fraction
    until: str | None
    used: Fraction = _ZERO
    time: str = ""
    withdrawn: str | None = None

    def left(self, now: str) -> Fraction:
        """Return how much of it is left at a time."""
        over = self.until is not None and now >= self.until
        return _ZERO if over or self.withdrawn is not None else self.level - self.used


@dataclass
class ProvenanceTable:
    """Limits and liabilities of one ledger: a fold over its entries.

    Without a policy there is one analyst, whose limit is the cap. ``opened`` is the policy at the
    opening and ``policy`` the current one; ``registered`` has the privileges that the
    analysts' declarations gave last, and ``since`` the time of each current decision.
    """

    state: Accountant
    policy: Policy | None
    opened: Policy | None = None
    analysts: dict[str, Analyst] = field(default_factory=dict)
    registered: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: dict[tuple[str, str], PrivacyLoss] = field(default_factory=dict)
    columns: dict[tuple[str | None, frozenset[Named]], PrivacyLoss] = field(default_factory=dict)
    grants: list[Grant] = field(default_factory=list)
    liable: dict[str, PrivacyLoss] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: dict[str, dict[tuple[object, ...], Refusal]] = field(default_factory=dict)
    since: dict[tuple[object, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.budget = self.state.budget
        self.privacy = self.budget.privacy
        self._limits: dict[Fraction, PrivacyLoss] = {}
        self._shares: dict[str, Fraction] = {}
        self._read: dict[str, frozenset[Named]] = {}

    def __repr__(self) -> str:
        return f"ProvenanceTable({len(self.rows)} rows)"

    # who is who

    def admit(self, row: str) -> None:
        """Refuse an account that does not exist, or whose analyst is disabled.

        Raises
        ------
        RequestError
        """
        name = person(row) if isinstance(row, str) else row
        if self.policy is not None and row not in self.rows and name in self.analysts:
            raise RequestError(f"there is no analyst {given(row)}", "Ask the owner of the data.")
        self.row(name)

    def row(self, analyst: str, privilege: int | None = None) -> str:
        """Return the account of an active analyst.

        Raises
        ------
        RequestError
            For an unknown or disabled analyst, and for a privilege that the analyst does not have.
        """
        if not isinstance(analyst, str):
            raise RequestError(
                f"the name of an analyst must be a string, got {given(analyst)}", "Write 'alice'."
            )
        if self.policy is None:
            if analyst == ANALYST:
                return analyst
            raise RequestError(
                f"there is no analyst {given(analyst)}", "Open the curator with analysts={...}."
            )
        if analyst == ANALYST:
            raise RequestError(
                "this ledger has several analysts", "Name one, as in curator.session('alice')."
            )
        registration = self.analysts.get(analyst)
        if registration is None or not registration.active:
            what = "no" if registration is None else "no active"
            raise RequestError(
                f"there is {what} analyst {given(analyst)}", "Ask the owner of the data."
            )
        if privilege is None:
            return analyst
        if type(privilege) is not int or privilege not in registration.privileges:
            raise RequestError(
                f"{given(analyst)} has no privilege {given(privilege)}",
                f"Registered: {', '.join(map(str, registration.privileges))}.",
            )
        return row_name(registration, privilege)

    def rows_of(self, names: Collection[str]) -> set[str]:
        """Return all accounts of some analysts."""
        return {row for name in names for row in self.analysts[name].rows()}

    def rows_with(self, row: str) -> set[str]:
        """Return all accounts of the analyst behind one account."""
        analyst = self.analysts.get(person(row))
        return {row} if analyst is None else {row, *analyst.rows()}

    def check_new(self, name: object, privileges: object, started: bool) -> tuple[int, ...]:
        """Return the privileges of a new analyst; refuse an analyst who cannot be registered now.

        ``started`` says whether anything was charged yet.
        """
        policy = self.shared()
        name = check_name(name)
        if name in self.analysts:
            raise RequestError(f"there is already an analyst {name!r}", "Choose another name.")
        valid_privileges = privileges_of(privileges, policy.top or MOST_PRIVILEGE)
        if policy.rows == "sum" and started:
            raise RequestError(
                "with rows='sum' all analysts must be registered before the first charge",
                "Use Policy(rows='max') to let analysts join later.",
            )
        members = policy.coalition(name, {*self.analysts, name})
        most = policy.most_colluders
        if most is not None and len(members) > most:
            raise RequestError(
                f"{name!r} would make a coalition of {len(members)}", f"At most {most} are allowed."
            )
        self.check_reserve(Analyst(name, valid_privileges))
        return valid_privileges

    def shared(self) -> Policy:
        """Return the policy for several analysts; refuse if there is only one analyst.

        Raises
        ------
        RequestError
        """
        if self.policy is None:
            raise RequestError(
                "this ledger was opened for one analyst", "Open one with analysts={...}."
            )
        return self.policy

    def with_privilege(self, name: str, privilege: object, started: bool) -> Analyst:
        """Return the analyst with a new first privilege; refuse one that is not possible."""
        policy, registration = self.shared(), self.analysts[name]
        first_privilege = check_privilege(privilege, policy.top or MOST_PRIVILEGE)
        if first_privilege in registration.privileges[1:]:
            raise RequestError(
                f"{name!r} already has privilege {first_privilege}, with its own account",
                f"Use curator.session({name!r}, {first_privilege}), or give another privilege.",
            )
        if policy.rows == "sum" and started:
            raise RequestError(
                "with rows='sum' another privilege would change everybody's limit",
                "Give privileges before the first charge, or use curator.limit.",
            )
        analyst = replace(registration, privileges=(first_privilege, *registration.privileges[1:]))
        self.check_reserve(analyst)
        return analyst

    def check_link(self, one: str, other: str) -> None:
        """Refuse a link whose coalition would be too large, or already beyond its limit."""
        policy = self.shared()
        limit, most = self.together_limit(), policy.most_colluders
        if limit is None and most is None:
            raise RequestError(
                "this ledger has no limit for coalitions, so a link would change nothing",
                "Open one with Policy(together=...), or see curator.coalition.",
            )
        linked_policy = policy.changed(collusion=(*policy.collusion, (one, other)))
        members = linked_policy.coalition(one, self.analysts) & self.analysts.keys()
        if most is not None and len(members) > most:
            raise RequestError(
                f"this would make a coalition of {len(members)}", f"At most {most} are allowed."
            )
        if limit is not None and self.state.loss(self.rows_of(members)).exceeds(
            limit, self.privacy
        ):
            raise RequestError(
                "more was already released to them together than a coalition may receive",
                f"See curator.coalition({', '.join(map(repr, sorted(members)))}).",
            )

    def check_reserve(self, *analysts: Analyst, **changes: Any) -> None:
        """Refuse a change that would reserve more for the analysts than is left of the cap.

        Parameters
        ----------
        *analysts : Analyst
            As they would be after the change.
        **changes
            New values of other fields of the table.

        Raises
        ------
        RequestError
        """
        trial = replace(
            self,
            analysts=self.analysts | {analyst.name: analyst for analyst in analysts},
            rows={**self.rows, **{row: level for a in analysts for row, level in a.rows().items()}},
            **changes,
        )
        # a change that reserves no more than before is always possible
        if trial._kept() > max(self.state.remaining().level(self.privacy), self._kept()):
            raise RequestError(
                "more would be reserved for the analysts than is left of the total budget",
                "Give a smaller reserve, a lower privilege or a lower limit.",
            )

    def _kept(self, but: str = "") -> Fraction:
        """Return what is reserved for all active analysts but one: a share of each one's limit."""
        reserves, privacy = _ZERO, self.privacy
        if self.policy is None or not self.policy.reserve:
            return reserves
        for analyst in self.analysts.values():
            if analyst.active and analyst.name != but:
                rows = analyst.rows()
                share = self.policy.reserve * self._total_limit(rows).level(privacy)
                loss = sum((self.state.known.get(row, NONE) for row in rows), NONE)
                reserves += max(_ZERO, share - loss.level(privacy))
        return reserves

    # limits

    def _limit(self, share: Fraction) -> PrivacyLoss:
        """Return a share of the cap: of its epsilon if it has a delta, else of its rho."""
        if share in self._limits:
            return self._limits[share]
        self._limits[share] = limit = self._with_keys(self._share_of_cap(share), share)
        return limit

    def _share_of_cap(self, share: Fraction) -> PrivacyLoss:
        budget = self.budget
        if share == 1:
            return budget.cap
        if budget.noise_delta is None:
            return PrivacyLoss.of(budget.cap.level(budget.privacy) * share, budget.privacy)
        epsilon = budget.epsilon
        if epsilon is None:
            epsilon = Fraction(epsilon_shown(budget.cap.rho, budget.noise_delta, budget.privacy))
            if epsilon == 0:
                # at a large delta a small rho has epsilon 0, which cannot be shared
                return PrivacyLoss(rho=budget.cap.rho * share)
        return budget.within(epsilon * share)

    def limit(self, row: str) -> PrivacyLoss:
        """Return an account's limit, at most the cap; its delta is a share of the key delta."""
        if self.policy is None or row not in self.rows:
            return self.state.cap
        override = self.limits.get(("row", row))
        if not self._shares:
            self._shares = self.policy.shares(self.rows)
        fair = self._limit(self._shares[row])
        limit = fair if override is None else replace(override, delta=fair.delta)
        return limit if self.state.cap.exceeds(limit, self.privacy) else self.state.cap

    def _with_keys(self, limit: PrivacyLoss, share: Fraction = Fraction(1)) -> PrivacyLoss:
        """Return a limit with a share of the delta that is set aside to discover keys."""
        aside = self.budget.key_delta
        return replace(limit, delta=aside * share) if aside else limit

    @property
    def static(self) -> bool:
        """Whether each declared view has its own limit; then nothing else is answered."""
        return self.policy is not None and self.policy.views != "water-filling"

    def view_limit(self, name: str) -> PrivacyLoss | None:
        """Return a declared view's limit; None if only the cap applies."""
        override = self.limits.get(("view", name))
        if override is not None or self.policy is None or not self.static:
            return override
        norms = {view: int(declared["norm"]) for view, declared in self.views.items()}
        return self._limit(self.policy.view_shares(norms)[name])

    def together_limit(self) -> PrivacyLoss | None:
        """Return the limit of one coalition; None if only the cap applies."""
        if self.policy is None or self.policy.together is None:
            return None
        if self.budget.delta is None:
            return self._with_keys(PrivacyLoss.of(self.policy.together, self.privacy))
        return self.budget.within(self.policy.together)

    def granted(self, row: str, now: str) -> Fraction:
        """Return what is left of all grants to an account."""
        return sum((grant.left(now) for _, grant in self._usable(row)), _ZERO)

    def _usable(self, row: str) -> list[tuple[int, Grant]]:
        """Return the grants to an account by active givers, with their indices."""
        return [
            (place, grant)
            for place, grant in enumerate(self.grants)
            if grant.receiver == row and self.analysts[person(grant.giver)].active
        ]

    def spent(self, row: str) -> PrivacyLoss:
        """Return what an account is liable for."""
        return self.liable.get(row, NONE)

    def _left(self, row: str) -> PrivacyLoss:
        """Return what is left of the account's or its analyst's limit, whichever is less."""
        privacy, rows = self.privacy, self.rows_with(row)
        account_left = left_of(self.limit(row), self.spent(row), privacy)
        if len(rows) == 1:
            return account_left
        total = sum(map(self.spent, rows), NONE)
        analyst_left = left_of(self._total_limit(rows), total, privacy)
        least = min(account_left, analyst_left, key=lambda left: left.level(privacy))
        return replace(least, delta=min(account_left.delta, analyst_left.delta))

    def _total_limit(self, rows: Collection[str]) -> PrivacyLoss:
        """Return the joint limit of one analyst's accounts: the largest limit of one of them.

        The joint loss of the accounts is at most the sum of their losses (docs/methods/dprovdb.md,
        definition 17).
        """
        return max(map(self.limit, rows), key=lambda limit: limit.level(self.privacy))

    def _passes(self, after: Mapping[str, PrivacyLoss], row: str) -> bool:
        """Return whether an account, or its analyst's accounts together, would exceed the limit."""
        rows = self.rows_with(row)
        total = sum((after.get(account, self.spent(account)) for account in rows), NONE)
        return after[row].exceeds(self.limit(row), self.privacy) or total.exceeds(
            self._total_limit(rows), self.privacy
        )

    def remaining(self, row: str, now: str) -> PrivacyLoss:
        """Return what an account may still spend, grants included."""
        privacy = self.privacy
        left = self._left(row)
        granted = self.granted(row, now)
        more = PrivacyLoss.of(left.level(privacy) + granted, privacy) if granted else left
        return replace(more, delta=left.delta)

    # the filter

    def check(
        self,
        row: str,
        request: str,
        cost: Cost,
        names: Mapping[str, Sequence[str]],
        now: str,
        definitions: Callable[[], Mapping[str, Mapping[str, Any]]],
    ) -> list[tuple[int, Fraction]]:
        """Refuse a charge that exceeds a limit; return how much to take from which grant.

        ``names`` has the names of the declared views among the cost's views. ``definitions`` gives
        the public definitions of its views, or of the request if it is a one-off release.
        Everything rests on charges alone. Other analysts' charges show only in the single text of
        :func:`exhausted`: what an account has left depends on its own charges, and so does what a
        request costs it (docs/methods/dprovdb.md, statement 22).

        Raises
        ------
        BudgetError
        """
        try:
            return self._checked(row, request, cost, names, now, definitions)
        except BudgetError as error:
            if not self.state.holds_answers(row, definitions().values()):
                raise
            hint = error.hint.replace(ALLOW, f"{FREE}{ALLOW}")
            raise BudgetError(error.what, hint, limit=error.limit) from None

    def _checked(
        self,
        row: str,
        request: str,
        cost: Cost,
        names: Mapping[str, Sequence[str]],
        now: str,
        definitions: Callable[[], Mapping[str, Mapping[str, Any]]],
    ) -> list[tuple[int, Fraction]]:
        """Check all limits, see :meth:`check`."""
        if self.policy is None:
            self.state.check(cost.table, self.state.paid(row, cost))
            self._check_views(cost, names)
            self._check_columns(row, request, cost, definitions, own=False)
            return []
        grant_parts = [] if row not in self.rows else self._check_row(row, cost, now)
        self._check_columns(row, request, cost, definitions, own=True)
        try:
            self.state.check(cost.table)
            self._check_views(cost, names)
            self._check_columns(row, request, cost, definitions, own=False)
            self._check_together(row, request, cost)
            self._check_reserved(row, cost)
        except BudgetError as error:
            raise exhausted(error.limit or "the total budget") from None
        return grant_parts

    def _check_row(self, row: str, request_cost: Cost, now: str) -> list[tuple[int, Fraction]]:
        cost, privacy, left = request_cost.row, self.privacy, self._left(row)
        if cost == NONE or not self._passes({row: self.spent(row) + cost}, row):
            return []
        missing = cost.level(privacy) - left.level(privacy)
        grant_parts: list[tuple[int, Fraction]] = []
        for place, grant in self._usable(row):
            if missing > 0:
                giver = person(grant.giver)
                same = (part for at, part in grant_parts if person(self.grants[at].giver) == giver)
                free = self._left(grant.giver).level(privacy) - sum(same, _ZERO)
                part = min(grant.left(now), free, missing)
                if part > 0:
                    grant_parts.append((place, part))
                    missing -= part
        if missing > 0 or cost.delta > left.delta:
            liability = self.spent(row)
            cap, paid = liability + self.remaining(row, now), self.state.paid(row, request_cost)
            check(cost, liability, cap, privacy, " to you", _OWN, paid)
            # the giver has spent what was granted
            raise exhausted("the limit of the giver of a grant")
        if self._answering(row, cost, grant_parts) is None:
            # the exact charge fits, but its rounded sum would lie just beyond the limit
            raise BudgetError(
                "this would end just beyond your own limit",
                f"Ask for a slightly less accurate answer. {ALLOW}",
                limit=_OWN,
            )
        return grant_parts

    def _answering(
        self, row: str, cost: PrivacyLoss, grant_parts: Sequence[tuple[int, Fraction]]
    ) -> dict[str, PrivacyLoss] | None:
        """Return what an account and its givers are liable for after a charge; None beyond a limit.

        ``grant_parts`` has the parts that come from grants, with the grants' indices.
        """
        privacy = self.privacy
        after: dict[str, PrivacyLoss] = {}
        for place, level in grant_parts:
            giver, part = self.grants[place].giver, PrivacyLoss.of(level, privacy)
            after[giver] = after.get(giver, self.spent(giver)) + part
            cost = replace(cost - part, delta=cost.delta)
        changed = [*after]
        if cost != NONE:
            after[row] = after.get(row, self.spent(row)) + cost
        # grants may still pay for an account whose limit was lowered below what it spent
        if cost.level(privacy) > 0 and row in self.rows:
            changed.append(row)
        return None if any(self._passes(after, account) for account in changed) else after

    def _check_views(self, cost: Cost, names: Mapping[str, Sequence[str]]) -> None:
        for view, step in cost.steps.items():
            if step.column == self.state.synopses.column(view):
                continue
            spent = self.state.synopses.column(view)
            for name in names.get(view, ()):
                limit = self.view_limit(name)
                if limit is None:
                    continue
                whose = f" of the limit of view {name!r}"
                limit_name = f"the limit of the view {name}"
                check(step.column - spent, spent, limit, self.privacy, whose, limit_name)

    def _check_columns(
        self,
        row: str,
        request: str,
        cost: Cost,
        definitions: Callable[[], Mapping[str, Mapping[str, Any]]],
        *,
        own: bool,
    ) -> None:
        """Refuse a charge that would exceed a column's limit, whatever the statement.

        ``own`` limits are those for the account's analyst alone; the others are for all together.
        """
        if not self.columns:
            return
        state, new_definitions = self.state, definitions()
        everyone = {row, *(who for who, _ in (*state.synopses.cells, *state.once))}
        for (name, columns), limit in self.columns.items():
            if own != (name is not None) or (own and name != person(row)):
                continue
            rows = everyone if name is None else {row, *self.rows_of([name])}

            def counts(release: str, columns: frozenset[Named] = columns) -> bool:
                return reads(self._columns_of(release, new_definitions), columns)

            once = not cost.steps and not any((account, request) in state.once for account in rows)
            changed = state.changed(row if name else None, cost)
            if not any(map(counts, [request] if once else changed)):
                # a request that adds nothing to this column passes, however low its limit is now
                continue
            after = state.loss_after(rows, row, cost, counts)
            if (after + cost.row if once else after).exceeds(limit, self.privacy):
                column_names = ", ".join(sorted(f"{table}.{column}" for table, column in columns))
                raise BudgetError(
                    f"your limit for {column_names} is reached" if own else "a column's limit is reached",
                    f"A less accurate answer may pass. {ALLOW}",
                    limit=f"the limit of the column {column_names}",
                )  # fmt: skip

    def _columns_of(
        self, release: str, definitions: Mapping[str, Mapping[str, Any]]
    ) -> frozenset[Named]:
        """Return the columns that a view, or a one-off release (by request), reads."""
        if release not in self._read:
            plain_definition = definitions.get(release) or self.state.definition(release)
            self._read[release] = read_by(plain_definition)
        return self._read[release]

    def _check_together(self, row: str, request: str, cost: Cost) -> None:
        limit, state = self.together_limit(), self.state
        if limit is None or self.policy is None or row not in self.rows:
            return
        cells = ((step.cell, state.synopses.cell(row, view)) for view, step in cost.steps.items())
        # a request that costs the account nothing may still add to what its coalition knows
        if cost.row == NONE and all(new == old for new, old in cells):
            return
        members = self.policy.coalition(person(row), self.analysts)
        rows = self.rows_of(members)
        total = state.loss_after(rows, row, cost)
        if not cost.steps and all((account, request) not in state.once for account in rows):
            total += cost.row
        if total.exceeds(limit, state.privacy):
            raise exhausted("the limit of a coalition")

    def _check_reserved(self, row: str, cost: Cost) -> None:
        if self.policy is None or not self.policy.reserve or cost.table == NONE:
            return
        reserves = self._kept(but=person(row))
        if cost.table.level(self.privacy) + reserves > self.state.remaining().level(self.privacy):
            raise exhausted("what is reserved for others")

    # entries of the ledger

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry about analysts, the policy, views, limits, grants, claims or refusals."""
        {
            "analyst": self._apply_analyst,
            "policy": self._apply_policy,
            "view": self._apply_view,
            "limit": self._apply_limit,
            "grant": self._apply_grant,
            "claim": self._apply_claim,
            "refusal": self._apply_refusal,
        }[entry["kind"]](entry)

    def _apply_view(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``view``: a declared view."""
        self.views[str(entry["name"])] = dict(entry["definition"])

    def _apply_claim(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``claim``: a statement that the owner protects."""
        self.claims.pop(str(entry["name"]), None)
        if not entry.get("withdrawn"):
            self.claims[str(entry["name"])] = dict(entry)

    def ending(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
        """Return the columns of a table whose limits, or protected claims, would end with a version.

        A limit ends if its column is no longer there. A claim ends also if a column that it is about
        is declared in another way. ``old`` and ``new`` are definitions of the table.
        """
        (dropped, changed), table = lost(old, new), str(new["name"])
        limited = {
            column for _, columns in self.columns for owner, column in columns if owner == table
        }
        claimed = {
            column
            for claim in self.claims.values()
            for owner, column in asked_of(claim["query"])
            if owner == table
        }
        return (limited & dropped) | (claimed & (dropped | changed))

    def apply_end(
        self, old: Mapping[str, Any], new: Mapping[str, Any], columns: Collection[str]
    ) -> None:
        """End the limits and claims on some columns of a table that would end with a version."""
        ended = {(str(new["name"]), column) for column in self.ending(old, new) & set(columns)}
        dropped = {(str(new["name"]), column) for column in lost(old, new)[0]}
        for name, claim in list(self.claims.items()):
            if ended & asked_of(claim["query"]):
                del self.claims[name]
        for key in [key for key in self.columns if key[1] & ended & dropped]:
            limit, (name_or_all, names) = self.columns.pop(key), key
            rest = name_or_all, names - (ended & dropped)
            time = self.since.pop(("limit", *key))
            if rest[1]:
                # of two limits of the same columns the smaller one stays
                other = self.columns.get(rest)
                if other is None or other.exceeds(limit, self.privacy):
                    self.columns[rest], self.since["limit", *rest] = limit, time

    def is_news(self, refusal: Refusal) -> bool:
        """Return whether the ledger should record a refusal: each only once, and not too many."""
        earlier_refusals = self.refusals.get(refusal.row, {})
        return (
            refusal.row in self.rows
            and refusal.key not in earlier_refusals
            and len(earlier_refusals) < MOST_KEPT
        )

    def _apply_refusal(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``refusal``."""
        refusal = Refusal.from_entry(entry)
        self.refusals.setdefault(refusal.row, {})[refusal.key] = refusal

    def _apply_analyst(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``analyst``: registered, disabled, enabled, new privilege."""
        analyst = Analyst(str(entry["name"]), tuple(entry["privileges"]), bool(entry["active"]))
        registration = self.analysts.get(analyst.name, analyst)
        if analyst.privileges[1:] != registration.privileges[1:]:
            raise ValueError("rows are kept")
        if analyst.privileges != registration.privileges:
            self.since["privilege", analyst.name] = str(entry["time"])
        if entry.get("declared", analyst.name not in self.registered):
            self.registered[analyst.name] = analyst.privileges
        self.analysts[analyst.name] = analyst
        self.rows.update(analyst.rows())
        self._shares = {}

    def _apply_policy(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``policy``: a new expansion, a larger reserve, or a link."""
        old_policy, time = self.shared(), str(entry["time"])
        if "link" in entry:
            first, second = (str(name) for name in entry["link"])
            self.policy = old_policy.changed(collusion=(*old_policy.collusion, (first, second)))
            self.since["link", first, second] = time
            return
        (name,) = entry.keys() & {"expansion", "reserve"}
        self.policy = old_policy.changed(**{name: Fraction(entry[name])})
        if self.policy.reserve < old_policy.reserve:
            raise ValueError("a reserve was promised")
        self.since["policy", name] = time
        self._shares = {}

    def _apply_limit(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``limit``: a new limit of an account, a view or the whole."""
        loss, time = PrivacyLoss.from_dict(entry["limit"]), str(entry["time"])
        if entry["scope"] == "table":
            self.state.cap = self._with_keys(loss)
            self.since["limit", "table"] = time
        elif entry["scope"] == "columns":
            columns = frozenset((str(table), str(column)) for table, column in entry["columns"])
            self.columns[entry["name"], columns] = self._with_keys(loss)
            self.since["limit", entry["name"], columns] = time
        else:
            key = str(entry["scope"]), str(entry["name"])
            self.limits[key] = loss
            self.since["limit", *key] = time

    def _apply_grant(self, entry: Mapping[str, Any]) -> None:
        """Apply one entry of kind ``grant``, or its withdrawal."""
        time = str(entry["time"])
        if entry.get("withdrawn"):
            for place, grant in enumerate(self.grants):
                pair = grant.giver, grant.receiver
                if pair == (entry["giver"], entry["receiver"]) and grant.left(time):
                    self.grants[place] = replace(grant, withdrawn=time)
            return
        until = entry["until"]
        self.grants.append(
            Grant(
                str(entry["giver"]), str(entry["receiver"]), Fraction(entry["level"]),
                None if until is None else str(until), time=time,
            )
        )  # fmt: skip

    def apply_charge(self, sequence: int, entry: Mapping[str, Any]) -> None:
        """Add a charge to the liable accounts: its own, except for parts taken from grants."""
        row, cost = str(entry["analyst"]), PrivacyLoss.from_dict(entry["row"])
        if row != OWNER and (row != ANALYST if self.policy is None else row not in self.rows):
            raise damaged(sequence)
        grant_parts = [(int(place), Fraction(part)) for place, part in entry.get("granted", ())]
        for place, level in grant_parts:
            grant = self.grants[place]
            if grant.receiver != row or not 0 < level <= grant.left(str(entry["time"])):
                raise damaged(sequence)
            self.grants[place] = replace(grant, used=grant.used + level)
        after = self._answering(row, cost, grant_parts)
        if after is None:
            raise damaged(sequence)
        self.liable |= after


def exhausted(limit: str) -> BudgetError:
    """Return the one refusal that other analysts can cause; its text is the same for every limit.

    Only the owner sees which ``limit`` it was.
    """
    return BudgetError(
        "budget exhausted: a limit that is not your own refuses this",
        f"A less accurate answer may pass. {ALLOW}",
        limit=limit,
    )


def check_name(name: object) -> str:
    """Return a valid name for an analyst.

    Raises
    ------
    RequestError
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RequestError(
            f"{given(name)} cannot be the name of an analyst",
            "Use at most 64 letters, digits and . _ @ + -.",
        )
    if name in (ANALYST, OWNER):
        raise RequestError(f"the name {given(name)} is reserved", "Choose another name.")
    return name


def read_time(until: object) -> str | None:
    """Return a moment in the text form that the ledger compares: UTC, to the second.

    Raises
    ------
    RequestError
    """
    if until is None:
        return None
    moment = until
    try:
        if isinstance(moment, str):
            moment = datetime.datetime.fromisoformat(moment)
        elif isinstance(moment, datetime.date) and not isinstance(moment, datetime.datetime):
            moment = datetime.datetime(moment.year, moment.month, moment.day, tzinfo=datetime.UTC)
        if isinstance(moment, datetime.datetime):
            aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            return aware.astimezone(datetime.UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        pass
    raise RequestError("until must be a date or a time", "Write until='2027-01-31'.") from None
