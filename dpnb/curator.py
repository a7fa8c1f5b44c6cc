"""The trusted side: the only object that reads data, draws noise and writes the ledger."""

from __future__ import annotations

import datetime
import itertools
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnb.answers.answer import Answer, Estimates, estimate
from dpnb.answers.listing import BudgetStatus, Price
from dpnb.engines.base import Engine, Exact
from dpnb.errors import (
    DpnbError,
    InterruptedRequestError,
    LedgerError,
    RequestError,
    SchemaError,
)
from dpnb.privacy.accountant import Accountant, Charge
from dpnb.privacy.ledger import FORMAT, Ledger
from dpnb.privacy.loss import Budget, Currency, PrivacyLoss
from dpnb.privacy.noise import Noise, SecureNoise
from dpnb.privacy.path import Knot, gaussian_knot, laplace_chain, needs_data
from dpnb.provenance.plan import Plan, half_width, plan, read_accuracy
from dpnb.provenance.views import View, transposition
from dpnb.sql.canonical import describe
from dpnb.sql.query import Query
from dpnb.table import Table

if TYPE_CHECKING:
    from dpnb.session import Session

_PRICED_ROWS = (100, 1_000)


@dataclass(frozen=True, slots=True)
class Version:
    """One data version of a table in the ledger."""

    number: int
    definition: Mapping[str, Any]
    fingerprint: str


class Curator:
    """Tables, engine, noise, ledger.

    Parameters
    ----------
    tables : Table or sequence of Table
        Read once, here.
    budget : Budget, optional
        The cap. Needed for a new ledger; an existing one knows its own, and a different one is
        refused.
    ledger : str or Path, optional
        File of charges and releases, as secret as the data. None keeps it in memory.
    anchor : str or Path, optional
        File that detects a restored older copy of the ledger.
    new_version : bool
        Accept other data than the ledger has seen: old answers are closed, what was spent is kept.
    noise : Noise, optional
        For tests only; results are stamped NOT PRIVATE.

    Raises
    ------
    SchemaError, LedgerError, RequestError
    """

    def __init__(
        self,
        tables: Table | Sequence[Table],
        *,
        budget: Budget | None = None,
        ledger: str | Path | None = None,
        anchor: str | Path | None = None,
        new_version: bool = False,
        noise: Noise | None = None,
    ) -> None:
        from dpnb.engines.duckdb import DuckDBEngine

        listed = [tables] if isinstance(tables, Table) else list(tables)
        if not listed or not all(isinstance(table, Table) for table in listed):
            raise RequestError("there is no table", "Pass a dpnb.Table, or a list of them.")
        if budget is not None and not isinstance(budget, Budget):
            raise RequestError("the budget is not a dpnb.Budget", "Write dpnb.Budget(rho=0.5).")
        self._tables = {table.name: table for table in listed}
        if len({name.casefold() for name in self._tables}) != len(listed):
            raise SchemaError("two tables have one name", "Rename one of them.")
        self._noise: Noise = SecureNoise() if noise is None else noise
        if noise is None:
            SecureNoise.warm_up()
        self._lock = threading.RLock()
        self._ledger = Ledger(ledger, anchor=anchor)
        self._accountant: Accountant | None = None
        self._secret = b""
        self._private = True
        self._versions: dict[str, Version] = {}
        try:
            self._follow()
            self._ledger.check_anchor()
            if self._accountant is None and budget is None:
                raise RequestError("a new ledger needs a budget", "Pass budget=dpnb.Budget(...).")
            self._engines: dict[str, Engine] = {
                name: DuckDBEngine(table) for name, table in self._tables.items()
            }
            self._open(budget, new_version)
        except BaseException:
            self._ledger.close()
            raise

    # opening and following the ledger

    def _open(self, budget: Budget | None, new_version: bool) -> None:
        with self._ledger.transaction() as append:
            self._follow()
            secret = self._secret
            if self._accountant is None and budget is not None:
                secret = secrets.token_bytes(32)
                append(
                    {
                        "kind": "open",
                        "format": FORMAT,
                        "secret": secret.hex(),
                        "budget": budget.to_dict(),
                        "private": self._noise.private,
                    }
                )
            elif budget is not None and budget != self._state.budget:
                raise LedgerError(
                    f"the ledger was opened with {self._state.budget!r}",
                    "Leave budget out, or start a new ledger.",
                    str(self._ledger.path),
                )
            elif self._private and not self._noise.private:
                raise LedgerError("test noise cannot enter a private ledger", "Use a new one.")
            for name, table in self._tables.items():
                fingerprint = self._engines[name].fingerprint(secret + name.encode())
                entry = self._version_entry(table, fingerprint, new_version)
                if entry is not None:
                    append(entry)
        self._follow()
        self._opened = dict(self._versions)

    def _version_entry(
        self, table: Table, fingerprint: str, new_version: bool
    ) -> dict[str, Any] | None:
        import json

        definition = json.loads(json.dumps(table.definition(), default=str))
        known = self._versions.get(table.name)
        if known is not None:
            same_schema = known.definition == definition
            if same_schema and known.fingerprint == fingerprint:
                return None
            if not new_version:
                other, that = (
                    ("other data", "data") if same_schema else ("another schema", "schema")
                )
                raise LedgerError(
                    f"the ledger knows table {table.name!r} with {other}",
                    f"Use that {that}, or pass new_version=True (what was spent is kept).",
                )
        if known is None and self._versions and not new_version:
            raise LedgerError(
                f"the ledger belongs to {', '.join(map(repr, self._versions))}, "
                f"not to {table.name!r}",
                "Use that table's ledger, or pass new_version=True to add this one.",
            )
        return {
            "kind": "table",
            "definition": definition,
            "fingerprint": fingerprint,
            "version": 1 if known is None else known.number + 1,
        }

    def _follow(self) -> None:
        """Read what this and other kernels appended."""
        with self._lock:
            first = self._ledger.sequence
            for offset, entry in enumerate(self._ledger.read_new(), start=1):
                self._apply(entry, first + offset)

    def _apply(self, entry: Mapping[str, Any], sequence: int) -> None:
        if entry["kind"] == "open":
            if entry["format"] != FORMAT:
                raise LedgerError("the ledger has another format", "Use a matching dpnb.")
            self._accountant = Accountant(Budget.from_dict(entry["budget"]))
            self._secret = bytes.fromhex(entry["secret"])
            self._private = bool(entry["private"])
        elif entry["kind"] == "table":
            definition = entry["definition"]
            self._versions[definition["name"]] = Version(
                int(entry["version"]), definition, str(entry["fingerprint"])
            )
        else:
            self._state.apply(sequence, entry)

    @property
    def _state(self) -> Accountant:
        if self._accountant is None:
            raise LedgerError("the ledger has no opening entry", "Restore an unchanged copy.")
        return self._accountant

    # requests

    def session(self) -> Session:
        """Return an analyst's handle on this curator."""
        from dpnb.session import Session

        return Session._of(self)

    def _parse(self, sql: str, params: Mapping[str, object] | None) -> Query:
        from dpnb.sql.parse import parse

        query = parse(sql, self._tables, params)
        if query.having is not None:
            raise RequestError(
                "HAVING is not answered here: the groups it lets pass would tell more than was paid",
                "Leave it out and filter the released rows, answer.to_frame().query(...); "
                "they are noisy, so a group near the limit may fall on either side.",
            )
        return query

    def _plan(self, analyst: str, query: Query, accuracy: Mapping[str, Any]) -> Plan:
        """Decide what a statement would measure, on the current state of the ledger.

        Rests on public facts and on how often this analyst has looked, never on data.
        """
        state = self._state
        if self._versions[query.table] != self._opened[query.table]:
            raise LedgerError(
                f"table {query.table!r} has a newer data version", "Open the session again."
            )
        wanted = read_accuracy(query, state.currency, state.budget.delta, **accuracy)
        return plan(
            query,
            wanted,
            self._tables[query.table].schema,
            self._versions[query.table].number,
            state.currency,
            lambda view: len(state.shown.get((analyst, view), ())),
        )

    def query(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
        cancel: threading.Event | None = None,
    ) -> Answer:
        """Answer a statement: from the store, or by one scan and one transaction.

        Free pre-check, measure outside any lock, then one transaction: re-plan on the current state,
        re-check the cap, draw, write charge and release, commit. Only then the answer is built.
        """
        query = self._parse(sql, params)
        while True:
            with self._lock:
                self._follow()
                wanted = self._plan(analyst, query, accuracy)
                stored = self._state.charges.get((analyst, wanted.request))
                if stored is not None:
                    return self._answer(sql, wanted, stored, fresh=False)
                self._state.check(self._state.increase(analyst, self._served(analyst, wanted)))
                needed = self._needed(wanted)
            exact = self._measure(wanted, needed, cancel)
            committed = self._commit(analyst, sql, query, accuracy, needed, exact)
            if committed is not None:
                return committed

    def _commit(
        self,
        analyst: str,
        sql: str,
        query: Query,
        accuracy: Mapping[str, Any],
        needed: Mapping[str, View],
        exact: Exact | None,
    ) -> Answer | None:
        """Charge and release in one transaction; None when more has to be measured first."""
        with self._lock:
            with self._ledger.transaction() as append:
                self._follow()
                wanted = self._plan(analyst, query, accuracy)
                fresh = (analyst, wanted.request) not in self._state.charges
                if fresh:
                    if not self._needed(wanted).keys() <= needed.keys():
                        return None
                    append(self._entry(analyst, sql, wanted, needed, exact))
            self._follow()
            charge = self._state.charges[analyst, wanted.request]
            return self._answer(sql, wanted, charge, fresh=fresh)

    def _served(self, analyst: str, wanted: Plan) -> dict[str, Fraction]:
        """Return the level at which each view will be shown: the asked one, or a finer one held."""
        return {
            view: max(level, self._state.level(analyst, view))
            for view, level in wanted.levels.items()
        }

    def _needed(self, wanted: Plan) -> dict[str, View]:
        """Return the views that take a look at the data, given what the ledger holds."""
        return {
            name: view
            for name, view in wanted.views.items()
            if needs_data(self._state.paths.get(name, ()), wanted.levels[name])
        }

    def _measure(
        self, wanted: Plan, needed: Mapping[str, View], cancel: threading.Event | None
    ) -> Exact | None:
        try:
            engine = self._engines[wanted.query.table]
            exact = engine.measure(wanted.scan(needed)) if needed else None
        except DpnbError:
            if cancel is None or not cancel.is_set():
                raise
        if cancel is not None and cancel.is_set():
            raise InterruptedRequestError("interrupted", "Nothing was charged.")
        return exact

    def _entry(
        self, analyst: str, sql: str, wanted: Plan, needed: Mapping[str, View], exact: Exact | None
    ) -> dict[str, Any]:
        """Re-plan on the current state, re-check the cap, draw the noise."""
        state = self._state
        levels = self._served(analyst, wanted)
        spent = state.increase(analyst, levels)
        state.check(spent)
        order = {name: i for i, name in enumerate(needed)}
        knots: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        for name, level in levels.items():
            path = state.paths.get(name, [])
            if any(knot.level == level for knot in path):
                continue
            view, vector = wanted.views[name], None
            if exact is not None and name in order:
                vector = view.lattice(exact.reveal(order[name]))
            knots[name] = [
                (str(knot.level), knot.vector) for knot in self._draw(path, view, level, vector)
            ]
        return {
            "kind": "answer",
            "analyst": analyst,
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "request": wanted.request,
            "sql": sql.strip(),
            "query": describe(wanted.query),
            "accuracy": wanted.accuracy.to_dict(),
            "version": self._versions[wanted.query.table].number,
            "spent": spent.to_dict(),
            "levels": {name: str(level) for name, level in levels.items()},
            "views": {name: view.definition() for name, view in wanted.views.items()},
            "knots": knots,
        }

    def _draw(
        self, path: Sequence[Knot], view: View, level: Fraction, exact: Sequence[int] | None
    ) -> Sequence[Knot]:
        state = self._state
        if state.currency == "zcdp":
            return [gaussian_knot(path, level, exact, view.sensitivity, self._noise)]
        if exact is None:
            raise LedgerError("a chain in the ledger is incomplete", "Restore an unchanged copy.")
        cap = max(level, state.cap.level("pure"))
        return laplace_chain(exact, level, cap, view.sensitivity, self._noise)

    # results

    def _answer(self, sql: str, wanted: Plan, charge: Charge, *, fresh: bool) -> Answer:
        state, query = self._state, wanted.query
        schema = self._tables[query.table].schema
        look = max(state.look(charge.analyst, view, charge.levels[view]) for view in wanted.levels)
        order = transposition(query, schema)
        found = tuple(
            self._estimates(wanted, part_index, charge, look, order)
            for part_index in range(len(wanted.parts))
        )
        cells = [schema[key.column].cells() for key in query.keys]
        places = list(itertools.product(*(range(len(column)) for column in cells)))
        groups = tuple(
            tuple(column[i].label for column, i in zip(cells, place, strict=True))
            for place in places
        )
        budget = state.budget
        return Answer(
            sql=sql.strip(),
            table=query.table,
            version=charge.version,
            keys=tuple(key.alias for key in query.keys),
            groups=groups,
            estimates=found,
            rows=_ordered(query, places, found),
            spent=charge.spent if fresh else PrivacyLoss.none(),
            remaining=state.remaining(),
            cap=state.cap,
            delta=None if budget.delta is None else float(budget.delta),
            currency=state.currency,
            confidence=wanted.accuracy.confidence,
            intervals=wanted.accuracy.intervals,
            looks=wanted.accuracy.looks,
            look=look,
            alpha=wanted.accuracy.alpha(1, look),
            stored=not fresh,
            finer=any(
                state.level(charge.analyst, view) > level for view, level in charge.levels.items()
            ),
            kept=self._ledger.path is not None,
            private=self._private,
            levels={view: str(level) for view, level in charge.levels.items()},
            definitions={name: view.definition() for name, view in wanted.views.items()},
        )

    def _estimates(
        self, wanted: Plan, index: int, charge: Charge, look: int, order: Sequence[int]
    ) -> Estimates:
        part = wanted.parts[index]

        def released(view: View | None) -> list[float] | None:
            if view is None:
                return None
            values = view.values(self._state.knot(view.id, charge.levels[view.id]).vector)
            return [values[cell] for cell in order]

        def law(view: View | None) -> Any:
            return None if view is None else wanted.law(view, charge.levels[view.id])

        middle = reach = 0.0
        if part.aggregate.function == "AVG" and part.sum is not None:
            measure = part.sum.measure
            middle = float(getattr(measure, "shift", 0))
            reach = float(measure.sensitivity * measure.step)
        return estimate(
            part.aggregate.alias,
            part.aggregate.function,
            part.aggregate.column,
            total=released(part.sum),
            total_law=law(part.sum),
            count=released(part.count),
            count_law=law(part.count),
            middle=middle,
            reach=reach,
            alpha=wanted.alpha(look),
        )

    def price(
        self,
        analyst: str,
        statements: Sequence[str],
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> list[Price]:
        """Price statements as if asked one after the other; spends nothing."""
        with self._lock:
            self._follow()
            state = self._state
            held = {view: level for (name, view), level in state.held.items() if name == analyst}
            left = state.remaining()
            prices = []
            for sql in statements:
                wanted = self._plan(analyst, self._parse(sql, params), accuracy)
                levels = {v: max(x, held.get(v, x)) for v, x in wanted.levels.items()}
                before = {v: held[v] for v in levels if v in held}
                cost = _cost(levels, state.currency).level(state.currency) - _cost(
                    before, state.currency
                ).level(state.currency)
                spent = PrivacyLoss.of(cost, state.currency)
                affordable = cost <= left.level(state.currency)
                prices.append(
                    Price(
                        sql=sql.strip(),
                        spent=spent,
                        remaining=left,
                        cap=state.cap,
                        currency=state.currency,
                        delta=None if state.budget.delta is None else float(state.budget.delta),
                        confidence=wanted.accuracy.confidence,
                        affordable=affordable,
                        widths=self._widths(analyst, wanted, levels),
                    )
                )
                if affordable:
                    held |= levels
                    left = PrivacyLoss.of(left.level(state.currency) - cost, state.currency)
            return prices

    def _widths(
        self, analyst: str, wanted: Plan, levels: Mapping[str, Fraction]
    ) -> tuple[tuple[str, int | None, float], ...]:
        look = max(self._state.look(analyst, view, level) for view, level in levels.items())
        rows = _PRICED_ROWS if wanted.accuracy.rows is None else (wanted.accuracy.rows,)
        widths: list[tuple[str, int | None, float]] = []
        for part in wanted.parts:
            sizes: tuple[int | None, ...] = rows if part.aggregate.function == "AVG" else (None,)
            widths += [
                (part.aggregate.alias, size, half_width(part, wanted, levels, look, size or 1))
                for size in sizes
            ]
        return tuple(widths)

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining."""
        with self._lock:
            self._follow()
            state = self._state
            return BudgetStatus(
                cap=state.cap,
                spent=state.spent,
                remaining=state.remaining(),
                currency=state.currency,
                delta=None if state.budget.delta is None else float(state.budget.delta),
                kept=self._ledger.path is not None,
            )

    def history(self, analyst: str) -> Sequence[Charge]:
        """Return the analyst's committed requests, oldest first."""
        with self._lock:
            self._follow()
            return self._state.history(analyst)

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return dict(self._tables)

    def interrupt(self) -> None:
        """Stop running scans; requests that have not committed are dropped."""
        for engine in self._engines.values():
            engine.interrupt()

    def close(self) -> None:
        """Forget the data and close the ledger."""
        for engine in self._engines.values():
            engine.close()
        self._ledger.close()

    def __repr__(self) -> str:
        return f"Curator({', '.join(self._tables)})"

    def __reduce__(self) -> Any:
        raise TypeError("a Curator holds sensitive data and cannot be pickled")


def _cost(levels: Mapping[str, Fraction], currency: Currency) -> PrivacyLoss:
    total = PrivacyLoss.none()
    for level in levels.values():
        total += PrivacyLoss.of(level, currency)
    return total


def _ordered(
    query: Query,
    groups: Sequence[Sequence[int]],
    found: Sequence[Estimates],
) -> tuple[int, ...]:
    """Return the indices of the rows to show: ORDER BY and LIMIT on released values.

    ``groups`` holds each group's cell numbers, so keys sort in declared order. Unknown values come
    last in either direction.
    """
    rows = list(range(len(groups)))
    for term in reversed(query.order):
        sign = -1 if term.descending else 1
        places = [i for i, key in enumerate(query.keys) if key.alias == term.alias]
        if places:
            ranks: list[float | None] = [group[places[0]] for group in groups]
        else:
            ranks = list(next(e.estimate for e in found if e.alias == term.alias))
        rows.sort(key=lambda row, r=ranks, s=sign: (r[row] is None, s * (r[row] or 0.0)))  # type: ignore[misc]
    return tuple(rows if query.limit is None else rows[: query.limit])
