"""The trusted side: the only object that reads data and draws noise."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnb.answers import assembly
from dpnb.answers.answer import Answer
from dpnb.answers.listing import BudgetStatus, Price
from dpnb.engines.base import Engine, Exact, engine_failure
from dpnb.errors import (
    DpnbError,
    InterruptedRequestError,
    RequestError,
    SchemaError,
)
from dpnb.privacy.accountant import Charge, loss
from dpnb.privacy.loss import Budget
from dpnb.privacy.noise import Noise, SecureNoise
from dpnb.privacy.path import Knot, gaussian_knot, laplace_chain, needs_data
from dpnb.provenance.plan import Plan, plan, read_accuracy
from dpnb.provenance.store import Store
from dpnb.provenance.views import View
from dpnb.sql.canonical import describe
from dpnb.sql.query import Query
from dpnb.table import Table

if TYPE_CHECKING:
    from dpnb.session import Session


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

        listed: list[Any] = list(tables) if isinstance(tables, (list, tuple)) else [tables]
        if not listed or not all(isinstance(table, Table) for table in listed):
            raise RequestError("there is no table", "Pass a dpnb.Table, or a list of them.")
        if budget is not None and not isinstance(budget, Budget):
            raise RequestError("the budget is not a dpnb.Budget", "Write dpnb.Budget(rho=0.5).")
        self._tables: dict[str, Table] = {table.name: table for table in listed}
        if len({name.casefold() for name in self._tables}) != len(listed):
            raise SchemaError("two tables have one name", "Rename one of them.")
        self._noise: Noise = SecureNoise() if noise is None else noise
        if noise is None:
            SecureNoise.warm_up()
        self._lock = threading.RLock()
        self._store = Store(ledger, anchor)
        try:
            if self._store.new and budget is None:
                raise RequestError("a new ledger needs a budget", "Pass budget=dpnb.Budget(...).")
            self._engines: dict[str, Engine] = {
                name: DuckDBEngine(table) for name, table in self._tables.items()
            }
            self._store.open(
                listed,
                lambda name, secret: self._engines[name].fingerprint(secret + name.encode()),
                budget=budget,
                new_version=new_version,
                private=self._noise.private,
            )
        except BaseException:
            self._store.ledger.close()
            raise

    def session(self) -> Session:
        """Return an analyst's handle on this curator."""
        from dpnb.session import Session

        return Session._of(self)

    # from text to a plan: public facts only

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
        state = self._store.accountant
        return plan(
            query,
            read_accuracy(query, state.currency, state.budget.delta, **accuracy),
            self._tables[query.table].schema,
            self._store.version(query.table),
            state.currency,
            lambda views: len(state.looks(analyst, views)),
        )

    def _served(self, analyst: str, wanted: Plan) -> dict[str, Fraction]:
        """Return the level at which each view will be shown: the asked one, or a finer one held."""
        return {
            view: max(level, self._store.accountant.level(analyst, view))
            for view, level in wanted.levels.items()
        }

    def _needed(self, wanted: Plan) -> dict[str, View]:
        """Return the views that take a look at the data, given what the ledger holds."""
        paths = self._store.accountant.paths
        return {
            name: view
            for name, view in wanted.views.items()
            if needs_data(paths.get(name, ()), wanted.levels[name])
        }

    # from a plan to an answer

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
                self._store.follow()
                wanted = self._plan(analyst, query, accuracy)
                state = self._store.accountant
                stored = state.charges.get((analyst, wanted.request))
                if stored is not None:
                    return self._answer(sql, wanted, stored, fresh=False)
                state.check(state.increase(analyst, self._served(analyst, wanted)))
                needed = self._needed(wanted)
            exact = self._measure(wanted, needed, cancel)
            committed = self._commit(analyst, sql, query, accuracy, needed, exact)
            if committed is not None:
                return committed

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
            with self._store.ledger.transaction() as append:
                self._store.follow()
                wanted = self._plan(analyst, query, accuracy)
                fresh = (analyst, wanted.request) not in self._store.accountant.charges
                if fresh:
                    if not self._needed(wanted).keys() <= needed.keys():
                        return None
                    append(self._entry(analyst, sql, wanted, needed, exact))
            self._store.follow()
            charge = self._store.accountant.charges[analyst, wanted.request]
            return self._answer(sql, wanted, charge, fresh=fresh)

    def _entry(
        self, analyst: str, sql: str, wanted: Plan, needed: Mapping[str, View], exact: Exact | None
    ) -> dict[str, Any]:
        """Re-check the cap, draw the noise, return the ledger's entry of charge and releases."""
        state = self._store.accountant
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
            "version": self._store.version(wanted.query.table),
            "spent": spent.to_dict(),
            "levels": {name: str(level) for name, level in levels.items()},
            "views": {name: view.definition() for name, view in wanted.views.items()},
            "knots": knots,
        }

    def _draw(
        self, path: Sequence[Knot], view: View, level: Fraction, exact: Sequence[int] | None
    ) -> Sequence[Knot]:
        state = self._store.accountant
        try:
            if state.currency == "zcdp":
                return [gaussian_knot(path, level, exact, view.sensitivity, self._noise)]
            if exact is not None:
                return laplace_chain(exact, state.cap.level("pure"), view.sensitivity, self._noise)
        except Exception:  # noqa: BLE001, S110 - the text of a sampler's error can hold values
            pass
        raise engine_failure()

    def _answer(self, sql: str, wanted: Plan, charge: Charge, *, fresh: bool) -> Answer:
        schema = self._tables[wanted.query.table].schema
        return assembly.answer(sql, wanted, charge, self._store, schema, fresh=fresh)

    # what costs nothing

    def price(
        self,
        analyst: str,
        statements: Sequence[str],
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> list[Price]:
        """Price statements as if asked one after the other; spends nothing."""
        with self._lock:
            self._store.follow()
            state = self._store.accountant
            held = dict(state.held)
            left = state.remaining()
            prices = []
            for sql in statements:
                wanted = self._plan(analyst, self._parse(sql, params), accuracy)
                stored = state.charges.get((analyst, wanted.request))
                levels = {
                    view: max(level, held.get((analyst, view), level))
                    for view, level in wanted.levels.items()
                }
                levels = levels if stored is None else dict(stored.levels)
                after = held | {
                    (analyst, view): max(level, held.get((analyst, view), level))
                    for view, level in levels.items()
                }
                cost = loss(after, state.currency) - loss(held, state.currency)
                prices.append(assembly.price(sql, wanted, analyst, levels, cost, left, self._store))
                if prices[-1].affordable:
                    held, left = after, left - cost
            return prices

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining."""
        with self._lock:
            self._store.follow()
            return assembly.status(self._store)

    def history(self, analyst: str) -> Sequence[Charge]:
        """Return the analyst's committed requests, oldest first."""
        with self._lock:
            self._store.follow()
            return self._store.accountant.history(analyst)

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return dict(self._tables)

    def interrupt(self, thread: int) -> None:
        """Stop the scan of the request that runs in the thread of the given identifier."""
        for engine in self._engines.values():
            engine.interrupt(thread)

    def close(self) -> None:
        """Forget the data and close the ledger."""
        for engine in self._engines.values():
            engine.close()
        self._store.ledger.close()

    def __repr__(self) -> str:
        return f"Curator({', '.join(self._tables)})"

    def __reduce__(self) -> Any:
        raise TypeError("a Curator holds sensitive data and cannot be pickled")
