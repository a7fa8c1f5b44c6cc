"""The owner's changes: analysts, views, limits, grants. Each change is one entry of the ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpnb.codes import scalar
from dpnb.errors import RequestError, SchemaError, given, nearest
from dpnb.ledger.accountant import person
from dpnb.ledger.accounts import Analyst, check_name, read_time
from dpnb.ledger.policy import privileges_of
from dpnb.privacy.definition import PURE
from dpnb.privacy.loss import Amount, PrivacyLoss, amount, amount_text, refuse_rho
from dpnb.releases.catalogue import declaration, read_view
from dpnb.releases.runner import Runner
from dpnb.schema.table import Table
from dpnb.views.histogram import Histogram, Strategy, histogram

EACH = "attributes"
"""Stands for one view over each column that can have one."""


@dataclass(frozen=True, slots=True, repr=False)
class Administration:
    """The owner's changes to one ledger."""

    runner: Runner

    def add_analyst(self, name: str, privileges: object) -> None:
        """Register an analyst; see ``Curator.add_analyst``."""
        self.runner.store.write(lambda: self._registration(name, privileges))

    def _registration(self, name: object, privileges: object) -> dict[str, Any]:
        started = bool(self.runner.store.accountant.charges)
        privilege_levels = self.runner.store.provenance.check_new(name, privileges, started)
        return _entry(Analyst(str(name), privilege_levels))

    def register(self, analysts: Mapping[str, int | Sequence[int]]) -> None:
        """Register those analysts who are not registered yet.

        Raises
        ------
        RequestError
            When a registered one has other privileges.
        """
        if not isinstance(analysts, Mapping):
            raise RequestError(
                "analysts must be a dict with privileges", "Write {'alice': 4, 'bob': 1}."
            )
        for name, privileges in analysts.items():
            self._register(name, privileges_of(privileges))

    def _register(self, name: str, privilege_levels: tuple[int, ...]) -> None:
        def decide() -> dict[str, Any] | None:
            # another process may have registered the analyst first
            analyst = self.runner.store.provenance.analysts.get(name)
            if analyst is None:
                return self._registration(name, privilege_levels)
            if privilege_levels not in (
                analyst.privileges,
                self.runner.store.provenance.registered[name],
            ):
                raise RequestError(
                    f"{name!r} has other privileges in the ledger",
                    "Pass those. curator.set_privilege changes them.",
                )
            return None

        if decide() is not None:
            self.runner.store.write(decide)

    def admit(self, name: str, privileges: object) -> None:
        """Register an analyst, or take over the first privilege that a token file or a Hub now gives.

        A privilege that was given before and changed by :meth:`set_privilege` since stays changed.

        Raises
        ------
        RequestError
            For privileges that the ledger does not allow.
        """
        privilege_levels = privileges_of(privileges)

        def decide() -> dict[str, Any] | None:
            table = self.runner.store.provenance
            analyst = table.analysts.get(name)
            if analyst is None:
                return self._registration(name, privilege_levels)
            if privilege_levels == table.registered[name]:
                return None
            first, *others = privilege_levels
            if tuple(others) != analyst.privileges[1:]:
                raise RequestError(
                    f"{name!r} has the privileges {', '.join(map(str, analyst.privileges))} in the "
                    "ledger, and only the first one can change",
                    "Give the others as they are.",
                )
            started = bool(self.runner.store.accountant.charges)
            return {**_entry(table.with_privilege(name, first, started)), "declared": True}

        if decide() is not None:
            self.runner.store.write(decide)

    def enable(self, name: str, active: bool) -> None:
        """Disable an analyst, or enable one again; the account keeps its charges."""

        def decide() -> dict[str, Any] | None:
            analyst = self._analyst(name)
            if analyst.active == active:
                return None
            changed_analyst = replace(analyst, active=active)
            self.runner.store.provenance.check_reserve(changed_analyst)
            return _entry(changed_analyst)

        self.runner.store.write(decide)

    def set_privilege(self, name: str, privilege: object) -> None:
        """Replace an analyst's first privilege; see ``Curator.set_privilege``."""

        def decide() -> dict[str, Any] | None:
            table, analyst = self.runner.store.provenance, self._analyst(name)
            started = bool(self.runner.store.accountant.charges)
            changed_analyst = table.with_privilege(name, privilege, started)
            return None if changed_analyst == analyst else _entry(changed_analyst)

        self.runner.store.write(decide)

    # the policy

    def set_expansion(self, expansion: Amount) -> None:
        """Set how many times larger limits from privileges are; see ``Curator.set_expansion``."""

        def decide() -> dict[str, Any] | None:
            table = self.runner.store.provenance
            old_policy = table.shared()
            new_policy = old_policy.changed(expansion=expansion)
            table.check_reserve(policy=new_policy)
            return (
                None
                if new_policy == old_policy
                else {"kind": "policy", "expansion": str(new_policy.expansion)}
            )

        self.runner.store.write(decide)

    def set_reserve(self, reserve: Amount) -> None:
        """Reserve a larger share of each analyst's limit; see ``Curator.set_reserve``."""

        def decide() -> dict[str, Any] | None:
            table = self.runner.store.provenance
            old_policy = table.shared()
            new_policy = old_policy.changed(reserve=reserve)
            if new_policy.reserve < old_policy.reserve:
                raise RequestError(
                    "the reserve was promised to the analysts and cannot be lowered",
                    f"It is {amount_text(old_policy.reserve)}. Give a larger one.",
                )
            table.check_reserve(policy=new_policy)
            return (
                None
                if new_policy == old_policy
                else {"kind": "policy", "reserve": str(new_policy.reserve)}
            )

        self.runner.store.write(decide)

    def link(self, one: str, other: str) -> None:
        """Note that two analysts may share their answers; see ``Curator.link``."""

        def decide() -> dict[str, Any] | None:
            table, pair = self.runner.store.provenance, (check_name(one), check_name(other))
            policy = table.shared()
            if one == other:
                raise RequestError("a link needs two different analysts", "Name two.")
            if {pair, pair[::-1]} & {*policy.collusion}:
                return None
            table.check_link(*pair)
            return {"kind": "policy", "link": list(pair)}

        self.runner.store.write(decide)

    def _analyst(self, name: str) -> Analyst:
        analysts = self.runner.store.provenance.analysts
        if not isinstance(name, str) or name not in analysts:
            raise RequestError(
                f"there is no analyst {given(name)}", nearest(str(name), list(analysts))
            )
        return analysts[name]

    def _level(self, rho: object, epsilon: object) -> PrivacyLoss:
        """Return a limit from its amount; 0 is allowed."""
        budget = self.runner.store.accountant.budget
        if (rho is None) == (epsilon is None):
            raise RequestError(
                "a limit needs exactly one of rho and epsilon", "Give rho=0.1, or epsilon=1."
            )
        number = scalar(rho if epsilon is None else epsilon)
        if (
            isinstance(number, (int, float, Fraction))
            and not isinstance(number, bool)
            and number == 0
        ):
            return PrivacyLoss.none()
        if rho is not None:
            refuse_rho(budget.privacy)
            return PrivacyLoss(rho=amount(rho, "rho"))
        if budget.privacy.counts_rho and budget.delta is None:
            raise RequestError("epsilon has no meaning in a ledger without a delta", "Give rho=.")
        return budget.within(amount(epsilon, "epsilon"))

    def limit(self, scope: str, name: str | None, rho: object, epsilon: object) -> None:
        """Set the limit of an account, a declared view or the whole; see ``Curator.limit``."""
        loss = self._level(rho, epsilon)

        def decide() -> dict[str, Any]:
            table, privacy = self.runner.store.provenance, self.runner.store.accountant.privacy
            if name is not None and not isinstance(name, str):
                raise RequestError(
                    "limit() needs the name of an analyst or a view", "Write 'alice'."
                )
            if scope == "row" and name not in table.rows:
                raise _unknown(name, table.rows)
            if scope == "view" and name not in table.views:
                raise RequestError(
                    f"there is no declared view {given(name)}",
                    nearest(str(name), list(table.views)),
                )
            if scope != "table" and loss.exceeds(self.runner.store.accountant.cap, privacy):
                raise RequestError(
                    "this is more than the total budget", "Raise the total budget first."
                )
            if scope == "row":
                table.check_reserve(limits={**table.limits, ("row", str(name)): loss})
            if scope == "table" and privacy is PURE:
                raise RequestError(
                    "a total budget of pure epsilon is fixed: its noise is drawn for that total",
                    "Open another ledger.",
                )
            return {"kind": "limit", "scope": scope, "name": name, "limit": loss.to_dict()}

        self.runner.store.write(decide)

    def limit_columns(
        self, columns: object, table: str | None, analyst: str | None, rho: object, epsilon: object
    ) -> None:
        """Set one limit for all releases that read some columns; see ``Curator.limit``."""
        loss = self._level(rho, epsilon)
        table_name = _table(table, self.runner.own, columns)
        schema = self.runner.own[table_name].schema
        known_columns = [*schema, *schema.undeclared]
        names = [columns] if isinstance(columns, str) else columns
        if not isinstance(names, (list, tuple)) or not names:
            raise RequestError(
                "column must be a name or a list of names",
                "Write column='age', or a list of names.",
            )
        for name in names:
            if name not in known_columns:
                raise RequestError(
                    f"{given(table_name)} has no column {given(name)}",
                    nearest(str(name), known_columns),
                )
        pairs = sorted([table_name, str(name)] for name in set(names))

        def decide() -> dict[str, Any]:
            if analyst is not None:
                self._analyst(analyst)
            return {
                "kind": "limit", "scope": "columns", "name": analyst, "columns": pairs,
                "limit": loss.to_dict(),
            }  # fmt: skip

        self.runner.store.write(decide)

    def grant(self, giver: str, receiver: str, rho: object, epsilon: object, until: object) -> None:
        """Let one analyst spend from another's limit; see ``Curator.grant``."""
        loss, moment = self._level(rho, epsilon), read_time(until)

        def decide() -> dict[str, Any]:
            table = self.runner.store.provenance
            level = loss.level(self.runner.store.accountant.privacy)
            for name in (giver, receiver):
                table.row(name.partition("#")[0] if isinstance(name, str) else name)
                if name not in table.rows:
                    raise _unknown(name, table.rows)
            if person(giver) == person(receiver) or level == 0:
                raise RequestError(
                    "a grant needs two different analysts and an amount above 0",
                    "Name two analysts and an amount.",
                )
            if moment is not None and moment <= self.runner.store.now():
                raise RequestError(f"{until} has already passed", "Give a later time.")
            return {
                "kind": "grant", "giver": giver, "receiver": receiver, "level": str(level),
                "until": moment,
            }  # fmt: skip

        self.runner.store.write(decide)

    def withdraw_grant(self, giver: str, receiver: str) -> None:
        """End one analyst's grants to another; see ``Curator.withdraw_grant``."""

        def decide() -> dict[str, Any]:
            now = self.runner.store.now()
            if not any(
                (grant.giver, grant.receiver) == (giver, receiver) and grant.left(now)
                for grant in self.runner.store.provenance.grants
            ):
                raise RequestError(
                    f"there is no open grant from {given(giver)} to {given(receiver)}",
                    "See curator.provenance.",
                )
            return {"kind": "grant", "giver": giver, "receiver": receiver, "withdrawn": True}

        self.runner.store.write(decide)

    # views

    def add_view(
        self,
        columns: Sequence[str],
        table: str | None,
        bins: Mapping[str, Sequence[Any] | None] | None,
        name: str | None,
        strategy: Strategy | None,
    ) -> Histogram:
        """Declare a view, whose bins are counted later; see ``Curator.add_view``."""
        table_name = _table(table, self.runner.own)
        version = self.runner.store.version(table_name)
        view = histogram(
            table_name, version, self.runner.own[table_name].schema, columns, bins, name, strategy
        )  # fmt: skip
        content = {**declaration(table_name, columns, bins, strategy), "norm": view.norm}

        def decide() -> dict[str, Any] | None:
            provenance, state = self.runner.store.provenance, self.runner.store.accountant
            if state.privacy is PURE:
                raise RequestError(
                    "declared views need Gaussian noise, and this ledger's budget has no delta",
                    "Start a new ledger with Budget(epsilon=3, delta=1e-6).",
                )
            definition = provenance.views.get(view.name)
            if definition == content:
                return None
            for other in self.runner.declared.of(table_name, self.runner.store):
                if other.id == view.id:
                    raise RequestError(
                        f"this view already exists under the name {other.name!r}",
                        "Use that one, or take other columns or bins.",
                    )
            if definition is not None:
                raise RequestError(f"there is already a view {view.name!r}", "Give another name.")
            if provenance.static and state.charges:
                raise RequestError(
                    "the policy gives each view its own limit, so views must be declared before the first charge",
                    "Use Policy(views='water-filling') to add views later.",
                )
            return {"kind": "view", "name": view.name, "definition": content}

        self.runner.store.write(decide)
        return read_view(view.name, content, version, self.runner.own[table_name].schema)

    def add_views(self, views: Sequence[Mapping[str, Any]]) -> None:
        """Declare several views, as returned by :func:`read_views`, and count all bins at once."""
        for view in views:
            self.add_view(**view)
        self.runner.declared.build(
            [
                declared_view
                for table in self.runner.own
                for declared_view in self.runner.declared.of(table, self.runner.store)
            ]
        )


def _entry(analyst: Analyst) -> dict[str, Any]:
    """Return the ledger's entry for an analyst's new state."""
    return {
        "kind": "analyst", "name": analyst.name, "privileges": list(analyst.privileges),
        "active": analyst.active,
    }  # fmt: skip


def read_views(views: object, tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    """Return the arguments of :meth:`Administration.add_view` for several views.

    Parameters
    ----------
    views : 'attributes' or sequence
        'attributes' for one view over each column that can have one; or columns, lists of columns,
        and mappings with columns, table, bins and name.

    Raises
    ------
    RequestError, SchemaError
        For views that no table can have; nothing was written.
    """
    if isinstance(views, str):
        if views != EACH:
            raise RequestError(
                f"views cannot be {given(views)}", f"Write {EACH!r}, or a list of views."
            )
        declarations: list[Any] = [
            {"columns": [column], "table": table.name, "name": _name(tables, table, column)}
            for table in tables.values()
            for column in table.schema
            if _fits(table, column)
        ]
    elif isinstance(views, (list, tuple)):
        declarations = list(views)
    else:
        raise RequestError("views must be a list", f"Write {EACH!r}, or a list of views.")
    return [_read_view(view, tables) for view in declarations]


def _read_view(view: Any, tables: Mapping[str, Table]) -> dict[str, Any]:
    if not isinstance(view, Mapping):
        view = {"columns": [view] if isinstance(view, str) else view}
    if "columns" not in view or set(view) - {"columns", "table", "bins", "name"}:
        raise RequestError(
            "a view needs columns, and may have table, bins and name",
            "Write {'columns': ['age'], 'bins': {'age': [17, 30, 90]}}.",
        )
    arguments = {"table": None, "bins": None, "name": None, "strategy": None, **view}
    table = _table(arguments["table"], tables)
    histogram(
        table, 1, tables[table].schema, arguments["columns"], arguments["bins"], arguments["name"]
    )
    return arguments


def _table(table: object, tables: Mapping[str, Table], columns: object = ()) -> str:
    """Return a table's name; if there are several to choose from, name those with the columns."""
    if table is None and len(tables) == 1:
        return next(iter(tables))
    if table is None:
        wanted = {columns} if isinstance(columns, str) else columns
        wanted = wanted if isinstance(wanted, (list, tuple, set)) else ()
        having = [
            name
            for name, of in tables.items()
            if all(column in (*of.schema, *of.schema.undeclared) for column in wanted)
        ]
        choices = " or ".join(f"table={name!r}" for name in having or tables)
        raise RequestError("there are several tables, and table is missing", f"Write {choices}.")
    if not isinstance(table, str) or table not in tables:
        raise RequestError(f"there is no table {given(table)}", nearest(str(table), list(tables)))
    return table


def _name(tables: Mapping[str, Table], table: Table, column: str) -> str:
    return column if len(tables) == 1 else f"{table.name}.{column}"


def _fits(table: Table, column: str) -> bool:
    try:
        histogram(table.name, 1, table.schema, [column])
    except (RequestError, SchemaError):
        return False
    return True


def _unknown(name: object, rows: Collection[str]) -> RequestError:
    """Return the refusal of an unknown account; the hint depends on whether there are any."""
    hint = nearest(str(name), list(rows)) if rows else "Open the curator with analysts={...}."
    return RequestError(f"there is no analyst {given(name)}", hint)
