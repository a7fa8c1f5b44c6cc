"""The store of one ledger: its entries, folded into the state behind all requests."""

from __future__ import annotations

import datetime
import hmac
import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpnb.errors import LedgerError, RequestError
from dpnb.ledger.accountant import Accountant, damaged
from dpnb.ledger.accounts import ProvenanceTable
from dpnb.ledger.ledger import FORMAT, Ledger
from dpnb.ledger.looks import Looks
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.path import find
from dpnb.private import STAMPS, Stamp
from dpnb.schema.persons import origin
from dpnb.schema.table import NoData, Table

_LEDGERS: dict[Stamp, str] = {
    "": "a private ledger",
    "test": "a ledger of test noise",
    "rehearsal": "a ledger of generated data",
}


def now() -> str:
    """Return the time by the machine's clock: UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


FIRST: Mapping[str, Any] = {"values": 1, "ids": 1, "last": []}
"""The rule of versions whose entry names none."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table in the ledger.

    Within a version the loss is a maximum over regions, which holds only while every row stays
    where it is. So a version is read by one rule for ever: ``rules`` has that of the table and of
    each table that it looks up or pairs, by name. A rule has the numbers of the rules for
    ``values`` and ``ids``, and the columns that come ``last`` in the order of an id's rows. That
    order depends on the order of the ``columns``, too, which a definition does not show.
    """

    number: int
    definition: Mapping[str, Any]
    fingerprint: str = field(repr=False)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    """The columns in order, if rows have ids; the first versions did not name them."""
    alike: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict, compare=False)
    """The lowest and the highest numbers of rules that read the tables as these do."""

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self.definition["name"])

    def rule(self, table: str) -> Mapping[str, Any]:
        """Return the rule by which a table's rows are read and kept in this version."""
        return self.rules.get(table, FIRST)

    def declares(self, other: Version) -> bool:
        """Whether another version has the same schema, in which the columns have the same order."""
        return self.definition == other.definition and self.columns in (None, other.columns)

    def agrees(self, other: Version) -> bool:
        """Whether another version would read all its tables as this one does."""
        return all(
            self.rule(table)["last"] == rule["last"]
            and all(
                lowest <= self.rule(table)[what] <= highest
                for what, (lowest, highest) in other.alike[table].items()
            )
            for table, rule in other.rules.items()
        )


class Store:
    """Budget, table versions, noise paths and charges of one ledger, also from other kernels.

    Parameters
    ----------
    path, anchor : str or Path, optional
    new_anchor : bool
        See ``Ledger``.
    """

    def __init__(
        self, path: str | Path | None, anchor: str | Path | None, *, new_anchor: bool = False
    ) -> None:
        self.ledger = Ledger(path, anchor=anchor, new_anchor=new_anchor)
        self.stamp: Stamp = ""
        self.versions: dict[str, Version] = {}
        self.looks: dict[str, set[str]] = {}
        self.shown = Looks()
        self._accountant: Accountant | None = None
        self._provenance: ProvenanceTable | None = None
        self._clock = ""
        self._secret = b""
        self.name = ""
        """A public name of this ledger, which results give as their source."""
        self._opened: dict[str, Version] = {}
        try:
            self.follow()
        except BaseException:
            self.ledger.close()
            raise

    @property
    def new(self) -> bool:
        """Whether the ledger is still empty."""
        return self._accountant is None

    def secret(self, purpose: str) -> bytes:
        """Return a secret key of this ledger for one purpose."""
        return hmac.digest(self._secret, purpose.encode(), "sha256")

    @property
    def kept(self) -> bool:
        """Whether the ledger outlives the process."""
        return self.ledger.kept

    @property
    def accountant(self) -> Accountant:
        """The paths and charges so far."""
        if self._accountant is None:
            raise LedgerError("the ledger has no first entry", "Restore an unchanged copy.")
        return self._accountant

    @property
    def provenance(self) -> ProvenanceTable:
        """The accounts with their limits and liabilities."""
        if self._provenance is None:
            raise LedgerError("the ledger has no first entry", "Restore an unchanged copy.")
        return self._provenance

    def now(self) -> str:
        """Return the time for a new entry: never before the last entry's, whatever clocks say."""
        return max(now(), self._clock)

    def open(
        self,
        tables: Sequence[Table],
        fingerprint: Callable[[str, bytes], str],
        readings: Mapping[str, Mapping[str, Mapping[str, tuple[int, int]]]],
        *,
        budget: Budget | None,
        policy: Policy | None,
        declared: bool,
        new_version: bool,
        lift: Collection[str],
        stamp: Stamp,
    ) -> None:
        """Write or check the opening entry and each table's version, in one transaction.

        Parameters
        ----------
        tables : sequence of Table
        fingerprint : callable
            Maps a table's name and a secret key to the fingerprint of its rows; not called if the
            ledger is not kept.
        readings : mapping of str to mapping
            For each table, the rules that read it and the tables that it looks up or pairs, by
            name; see ``dpnb.engines.rules``.
        budget : Budget or None
            Required for a new ledger; must equal the budget of an existing one.
        policy : Policy or None
            For a ledger with several analysts. If it was ``declared`` it must equal the policy at
            the opening or the current one, except for its top.
        new_version : bool
            Accept other data, another schema or another rule; closes the paths and keeps what was
            spent. The columns that are limited by now come last in the order of an id's rows.
        lift : collection of str
            Columns whose limits and protected claims may end with a new version.
        stamp : str
            The stamp of all results: see ``dpnb.private``.
        """
        with self.ledger.transaction() as append:
            self.follow()
            # taken before later reads: other kernels may open newer versions by then
            opened = dict(self.versions)
            secret = self._secret
            if self.new:
                assert budget is not None  # noqa: S101 - Curator refuses a new ledger without one
                secret = secrets.token_bytes(32)
                append(
                    {
                        "kind": "open",
                        "format": FORMAT,
                        "secret": secret.hex(),
                        "budget": budget.to_dict(),
                        "policy": None if policy is None else policy.to_dict(),
                        "stamp": stamp,
                        "time": self.now(),
                    }
                )
            elif budget is not None and budget != self.accountant.budget:
                raise LedgerError(
                    f"the ledger was opened with {self.accountant.budget!r}",
                    "Open it without a budget, or start a new ledger.",
                    self.ledger.place,
                )
            elif declared and policy is not None and not self._agrees(policy):
                raise LedgerError(
                    "the ledger was opened with another policy",
                    "Pass the analysts and policy it was opened with, or start a new ledger.",
                    self.ledger.place,
                )
            elif stamp not in ("", self.stamp):
                what = "test noise" if stamp == "test" else "generated data"
                raise LedgerError(
                    f"{what} cannot enter {_LEDGERS[self.stamp]}", "Use a new ledger."
                )
            if any(isinstance(table.source, NoData) for table in tables):
                tables = ()
            # without a kept ledger there is nothing to compare the rows with
            digests = {t.name: fingerprint(t.name, secret) if self.kept else "" for t in tables}
            for version in self._found(tables, digests, readings, reordered=new_version):
                entry = self._version_entry(version, new_version, lift)
                append(entry)
                opened[version.name] = version
        self.follow()
        self._opened = opened

    def _found(
        self,
        tables: Sequence[Table],
        digests: Mapping[str, str],
        readings: Mapping[str, Mapping[str, Mapping[str, tuple[int, int]]]],
        *,
        reordered: bool,
    ) -> list[Version]:
        """Return the tables that are not as in their current version, as their next ones.

        If ``reordered``, a table is so, too, whose rows are not in the order that a new version
        would have.
        """
        limited = {
            table.name: [] if table.unit is None else self._limited(table.name) for table in tables
        }
        definitions = {
            t.name: _of_rows(json.loads(json.dumps(t.definition(), default=str))) for t in tables
        }
        columns = {
            t.name: None if t.unit is None or "*" in t.name else list(t.schema) for t in tables
        }
        # tables that are looked up by looked-up columns stand in no definition and fingerprint
        further = {
            table.name: {join.table for join in table.joins.values() if join.path[1:]}
            for table in tables
        }
        changed: dict[str, Version] = {}
        # a table changes with those that it looks up
        while True:
            last = {
                name: columns
                if name in changed or name not in self.versions
                else self.versions[name].rule(name)["last"]
                for name, columns in limited.items()
            }
            before = set(changed)
            for name, definition in definitions.items():
                alike = readings[name]
                rules = {
                    part: {**{what: ends[1] for what, ends in reading.items()}, "last": last[part]}
                    for part, reading in alike.items()
                }
                current = self.versions.get(name)
                number = 1 if current is None else current.number + 1
                version = Version(number, definition, digests[name], rules, columns[name], alike)
                if (
                    name in changed
                    or any(part in changed and part in self.versions for part in further[name])
                    or current is None
                    or not current.declares(version)
                    or current.fingerprint != digests[name]
                    or not current.agrees(version)
                    or (reordered and last[name] != limited[name])
                ):
                    changed[name] = version
            if before == set(changed):
                return [changed[name] for name in definitions if name in changed]

    def _limited(self, table: str) -> list[str]:
        """Return the columns of a table that have a limit."""
        every = (
            [] if self.new else [column for _, names in self.provenance.columns for column in names]
        )
        return sorted({column for owner, column in every if owner == table})

    def _agrees(self, policy: Policy) -> bool:
        current_policy, opened = self.provenance.policy, self.provenance.opened
        return current_policy is not None and policy.changed(top=current_policy.top) in (
            current_policy,
            opened,
        )

    def _version_entry(
        self, version: Version, new_version: bool, lift: Collection[str]
    ) -> dict[str, Any]:
        """Return the entry that opens a version of a table; refuse one that may not be opened."""
        definition, name = version.definition, version.name
        current_version = self.versions.get(name)
        ending: list[str] = []
        if current_version is not None:
            if definition["public"] and not current_version.definition["public"]:
                raise LedgerError(
                    f"table {name!r} is sensitive in the ledger",
                    "It stays sensitive there. Start a new ledger for public data.",
                )
            if not definition["public"] and _protected(definition) != _protected(
                current_version.definition
            ):
                raise LedgerError(
                    f"table {name!r} has another privacy unit in the ledger",
                    "What was spent there does not count for this unit. Start a new ledger.",
                )
            if not new_version:
                raise self._refused(current_version, version)
            ending = sorted(self.provenance.ending(current_version.definition, definition))
            if not set(ending) <= set(lift):
                raise LedgerError(
                    f"a limit or a protected claim would end: table {name!r} no longer declares "
                    f"{', '.join(map(repr, ending))} as before",
                    "Keep the name and declaration, or end it with "
                    f"dpnb.Curator(..., new_version=True, lift={ending!r}).",
                )
        elif self.versions and not new_version:
            raise LedgerError(
                f"the ledger belongs to {', '.join(map(repr, self.versions))}, not to {name!r}",
                "Use that table's ledger, or pass new_version=True to add this one.",
            )
        return {
            "kind": "table",
            "definition": definition,
            **({"lifted": ending} if ending else {}),
            "fingerprint": version.fingerprint,
            "rules": version.rules,
            **({} if version.columns is None else {"columns": version.columns}),
            "version": version.number,
        }

    def _refused(self, current: Version, version: Version) -> LedgerError:
        """Return the error for a version that the owner has not asked for."""
        new = "pass new_version=True (what was spent is kept)."
        same_schema = current.declares(version)
        if same_schema and not current.agrees(version):
            return LedgerError(
                f"the rows of table {version.name!r} are read by an earlier rule in the ledger",
                f"dpnb reads or orders some of them in another way now: {new}",
            )
        other, that = ("other data", "data") if same_schema else ("another schema", "schema")
        return LedgerError(
            f"table {version.name!r} has {other} in the ledger", f"Use that {that}, or {new}"
        )

    def follow(self) -> None:
        """Read what this and other kernels appended; a refused entry comes again next time."""
        try:
            for sequence, entry in self.ledger.read_new():
                self._apply_whole(entry, sequence)
        except LedgerError:
            raise
        except BaseException:
            # perhaps interrupted between two changes: forget everything and read it again
            self.ledger.rewind()
            self.versions, self._accountant, self._provenance = {}, None, None
            self.looks = {}
            raise

    def _apply_whole(self, entry: Mapping[str, Any], sequence: int) -> None:
        try:
            self._apply(entry, sequence)
        except (
            ArithmeticError, AttributeError, LookupError, RequestError, TypeError, ValueError
        ):  # fmt: skip
            raise LedgerError(
                f"entry {sequence} of the ledger is damaged",
                "Restore the newest unchanged copy.",
                self.ledger.place,
            ) from None

    def _apply(self, entry: Mapping[str, Any], sequence: int) -> None:
        if entry["kind"] == "open":
            if entry["format"] != FORMAT:
                raise LedgerError(
                    "the ledger has another format", "Use the version of dpnb that wrote it."
                )
            if not self.new:
                raise damaged(sequence)
            policy = None if entry["policy"] is None else Policy.from_dict(entry["policy"])
            mechanism = "path" if policy is None else policy.mechanism
            self._accountant = Accountant(Budget.from_dict(entry["budget"]), mechanism)
            self._provenance = ProvenanceTable(self._accountant, policy, policy)
            self._provenance.since["policy", "opened"] = str(entry.get("time", ""))
            self._secret = bytes.fromhex(entry["secret"])
            self.name = self.secret("public name of the ledger")[:8].hex()
            self.stamp = {label: label for label in STAMPS}[entry["stamp"]]
        elif entry["kind"] == "table":
            definition = _of_rows(entry["definition"])
            if entry.get("lifted"):
                old = self.versions[definition["name"]].definition
                self.provenance.apply_end(old, definition, entry["lifted"])
            self.versions[definition["name"]] = Version(
                int(entry["version"]),
                definition,
                str(entry["fingerprint"]),
                entry.get("rules", {}),
                entry.get("columns"),
            )
        elif entry["kind"] == "cap":
            self.accountant.apply_doubling(sequence)
        elif entry["kind"] == "answer":
            _check_past(self.accountant, sequence, entry)
            self.accountant.apply(sequence, entry)
            self.provenance.apply_charge(sequence, entry)
        elif entry["kind"] == "release":
            self.accountant.apply_release(sequence, entry)
            self.provenance.apply_charge(sequence, entry)
        elif entry["kind"] == "look":
            self.looks.setdefault(str(entry["statement"]), set()).update(entry["settled"])
        else:
            self.provenance.apply(entry)
        self._clock = max(self._clock, str(entry.get("time", "")))

    def write(self, decide: Callable[[], Mapping[str, Any] | None]) -> None:
        """Append what ``decide`` returns for the current state, if anything, in one transaction."""
        with self.ledger.transaction() as append:
            self.follow()
            entry = decide()
            if entry is not None:
                append({**entry, "time": self.now()})
        self.follow()

    def double_cap(self) -> None:
        """Move to the next of the declared caps."""

        def decide() -> dict[str, Any]:
            if not self.accountant.budget.doubling:
                raise RequestError(
                    "the total budget is fixed",
                    "Open a ledger with Budget(rho=..., doubling=True).",
                )
            return {"kind": "cap"}

        self.write(decide)

    def last(self, table: str) -> list[str]:
        """Return the columns that come last in the order of an id's rows, as at the opening."""
        return list(self._opened[table].rule(table)["last"])

    def version(self, table: str) -> int:
        """Return a table's version; refuse if another kernel has opened a newer one.

        That of a table of persons is the version of the table whose rows it is made of.
        """
        table = origin(table)
        if self.versions[table] != self._opened[table]:
            raise LedgerError(
                f"another session opened a newer version of table {table!r}",
                "Open the session again.",
            )
        return self.versions[table].number

    def __repr__(self) -> str:
        return f"Store({self.ledger!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a Store is as secret as the data and cannot be pickled")


def _of_rows(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table's definition says of its rows and of the tables that they look up.

    In how many groups an id counts is left out: each view has this number in its own definition.
    """
    lasting = dict(definition)
    if definition["unit"] is not None:
        entries = definition["unit"].items()
        lasting["unit"] = {name: entry for name, entry in entries if name != "max_groups"}
    if "joins" in definition:
        joins = definition["joins"].items()
        lasting["joins"] = {name: _of_rows(other) for name, other in joins}
    return lasting


def _protected(definition: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Return the id column that a table's definition protects, and its kind; None for rows."""
    unit = definition["unit"]
    return None if unit is None else (str(unit["column"]).casefold(), unit.get("kind"))


def _check_past(state: Accountant, sequence: int, entry: Mapping[str, Any]) -> None:
    """Refuse an answer merged with releases that its analyst did not receive."""
    past, way = entry.get("past", {}), entry.get("way")
    analyst = str(entry["analyst"])
    if way is None and not past and "alone" not in entry:
        return
    alone = PrivacyLoss.from_dict(entry["alone"])
    wrong = way not in ("refined", "new") or not entry["levels"]
    wrong = wrong or min(alone.rho, alone.epsilon or 0, alone.delta) < 0
    for view, text in past.items():
        level = Fraction(text)
        if not 0 < level <= state.level(analyst, view):
            raise damaged(sequence)
        if state.mechanism_name == "path":
            wrong = wrong or find(state.synopses.paths[view], level) is None
        else:
            wrong = wrong or level not in state.synopses.locals[analyst, view]
    if wrong:
        raise damaged(sequence)
