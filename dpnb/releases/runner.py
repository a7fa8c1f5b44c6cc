"""The trusted loop: the only code that reads data and draws noise."""

from __future__ import annotations

import contextlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from dpnb.codes import truth
from dpnb.engines.public import PublicTables
from dpnb.engines.scans import guarded
from dpnb.errors import (
    BudgetError,
    DpnbError,
    EngineError,
    InterruptedRequestError,
    LedgerError,
    RequestError,
    given,
)
from dpnb.interrupt import checkpoint
from dpnb.ledger.accountant import Charge, Cost
from dpnb.ledger.accounts import OWNER
from dpnb.ledger.mechanism import NONE
from dpnb.ledger.policy import Policy
from dpnb.ledger.refusals import Refusal, log
from dpnb.ledger.store import Store
from dpnb.privacy.budget import Budget
from dpnb.privacy.noise import Noise, SecureNoise
from dpnb.private import Stamp
from dpnb.releases.catalogue import DeclaredViews
from dpnb.releases.derived import Engines, Tables
from dpnb.releases.held import ReleaseCache
from dpnb.releases.memo import Memo
from dpnb.releases.request import P, R, Ready, Request, definitions_of, header
from dpnb.schema.joins import joined
from dpnb.schema.table import Table

T = TypeVar("T")
Protect: TypeAlias = "Callable[[Runner, Request[Any, Any], Any, Cost], None]"
"""Refuses a plan that would almost settle a claim that the owner protects."""

_NO_COST = Cost(NONE, NONE)
_DRAWS = ("gaussian", "laplace", "coins", "largest", "below")


class Runner:
    """Tables, their engines and one ledger, and the loop that carries requests out.

    Parameters
    ----------
    tables : mapping of str to Table
        Read once, here.
    policy : Policy or None
        Of a ledger for several analysts; ``declared`` says whether the owner gave it.
    protect : callable
        Called before each request that costs.
    budget, ledger, anchor, new_anchor, new_version, lift, noise, rehearsal
        As for ``Curator``.

    Attributes
    ----------
    tables : Tables
        Including columns from joined tables, pairs of tables, and by their names tables of persons.
    engines : Engines
    store : Store
        Read and written under ``lock``.
    declared : DeclaredViews
    public : PublicTables
        Evaluates subqueries over public tables.
    memo : Memo
        Cache of requests, plans and merged answers.
    cache : ReleaseCache
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        *,
        budget: Budget | None,
        ledger: str | Path | None,
        anchor: str | Path | None,
        new_anchor: bool,
        new_version: bool,
        lift: Sequence[str],
        policy: Policy | None,
        declared: bool,
        noise: Noise | None,
        rehearsal: bool,
        protect: Protect,
    ) -> None:
        from dpnb.engines.choice import engine_of

        if noise is not None and not any(callable(getattr(noise, name, None)) for name in _DRAWS):
            raise RequestError(
                f"noise must be a source of noise for tests, got {given(noise)}", "Leave it out."
            )
        truth(new_anchor, "new_anchor")
        truth(new_version, "new_version")
        if not isinstance(lift, (list, tuple)) or not all(isinstance(n, str) for n in lift):
            raise RequestError(
                f"lift must be a list of columns, got {given(lift)}", "Write lift=['age']."
            )
        truth(rehearsal, "rehearsal")
        # only this source is known to draw what was charged: whoever passes one in, also an object
        # of the same class, may have changed it
        self.noise: Noise = SecureNoise() if noise is None else noise
        if noise is None:
            SecureNoise.warm_up()
        stamp: Stamp = "test" if noise is not None else "rehearsal" if rehearsal else ""
        self.lock = threading.RLock()
        self.memo = Memo()
        self._protect = protect
        self.tables = Tables(tables)
        self.engines = Engines(self.tables)
        self.public = PublicTables(tables, self.engines)
        self.store = Store(ledger, anchor, new_anchor=new_anchor)
        try:
            if self.store.new and budget is None:
                raise RequestError(
                    "a new ledger needs a budget", "Pass budget=dpnb.Budget(epsilon=3, delta=1e-6)."
                )
            for name, table in self.tables.items():
                self.engines[name] = engine_of(table)
                checkpoint()
            self.tables.update(
                joined(
                    self.tables,
                    lambda name, join: self.engines[name].obstacle(self.engines[join.table], join),
                )
            )
            base_tables = list(self.tables.values())
            paired = [pair for table in base_tables for pair in table.pairs.values()]
            pairs = {pair.name: pair for pair in paired if isinstance(pair, Table)}
            self.tables |= pairs
            self.cache = ReleaseCache(self.memo, lambda name: self.tables[name].schema)
            self.store.open(
                list(self.tables.values()),
                partial(self._fingerprint, {}),
                {
                    name: {part: self.engines[part].reading for part in self._parts(name)}
                    for name in self.tables
                },
                budget=budget,
                policy=policy,
                declared=declared,
                new_version=new_version,
                lift=lift,
                stamp=stamp,
            )
            for name, engine in self.engines.items():
                checkpoint()
                engine.bound(self.store.secret(f"rows kept of {name}"), self.store.last(name))
            for table in base_tables:
                checkpoint()
                for join in table.joins.values():
                    self.engines[table.name].join(self.engines[join.table], join)
            for name, table in pairs.items():
                first_engine, second_engine = (self.engines[part] for part in name.split("*"))
                self.engines[name] = first_engine.paired(second_engine, table)
            self.declared = DeclaredViews(self.tables, self.engines)
        except BaseException:
            self.close()
            raise

    def _parts(self, name: str) -> set[str]:
        """Return the tables whose rows make up a table's: itself or a pair, and those looked up."""
        looked_up = (join.table for join in self.tables[name].joins.values() if not join.path[1:])
        return {*name.split("*"), *looked_up}

    def _fingerprint(self, fingerprints: dict[str, str], name: str, secret: bytes) -> str:
        """Return the fingerprint of a table's rows and of the tables that it joins.

        ``fingerprints`` keeps those of single tables, so that each is read only once.
        """
        table_names = self._parts(name)
        for table in table_names - fingerprints.keys():
            fingerprints[table] = self.engines[table].fingerprint(secret + table.encode())
        if table_names == {name}:
            return fingerprints[name]
        sealed = json.dumps(
            {table: fingerprints[table] for table in table_names}, sort_keys=True
        ).encode()
        return hmac.new(secret + name.encode(), sealed, "sha256").hexdigest()

    @property
    def own(self) -> dict[str, Table]:
        """The given tables, without their pairs."""
        return {name: table for name, table in self.tables.items() if "*" not in name}

    @contextlib.contextmanager
    def reading(self) -> Iterator[Store]:
        """Lock the newest state of the store; nothing else is read or written meanwhile."""
        with self.lock:
            self.store.follow()
            yield self.store

    def admitted(self, row: str) -> str:
        """Return an analyst's account; refuse one that may not ask, or may no longer ask."""
        with self.reading() as store:
            store.provenance.admit(row)
            return row

    def run(
        self,
        request: Request[P, R],
        cancel: threading.Event | None = None,
        identifier: str | None = None,
    ) -> R:
        """Carry out a request; record a refusal by a limit for the owner.

        Parameters
        ----------
        request : Request
        cancel : threading.Event, optional
            Set it to stop the request.
        identifier : str, optional
            The client's name for this request.
        """
        try:
            return self._carried_out(request, cancel, identifier)
        except _Refused as exception:
            refused = exception
        self._note(refused.refusal)
        raise refused.error

    def _note(self, refusal: Refusal) -> None:
        """Log a refusal, and keep it in the ledger if it is new."""
        if refusal.row == OWNER or self.store.provenance.policy is None:
            return
        log.info(refusal.line(self.store.accountant.privacy))

        def decide() -> dict[str, Any] | None:
            return refusal.entry() if self.store.provenance.is_news(refusal) else None

        # the analyst gets the same refusal if the ledger cannot be written
        with self.lock, contextlib.suppress(LedgerError):
            if self.store.provenance.is_news(refusal):
                self.store.write(decide)

    def _carried_out(
        self,
        request: Request[P, R],
        cancel: threading.Event | None,
        identifier: str | None,
    ) -> R:
        """Carry out a request: from the store, or with one measurement and one transaction.

        First a free check; then a measurement outside any lock; then one transaction: plan on the
        current state, check the limits again, draw, write charge and release, commit. The result is
        built only then.
        """
        while True:
            with self.lock:
                ready = self._admitted(request, identifier)
                plan, stored = ready.plan, ready.stored
                answer = request.known(plan) if stored is None else None
                if stored is not None:
                    answer = request.result(plan, stored, fresh=False)
                if answer is not None:
                    self.store.accountant.keep_identifier(request.analyst, identifier, plan.request)
                    return answer
                self._check(request, ready, self.store.now())
                needed = request.needed(plan, ready.cost)
            exact = None
            if needed:
                engine = self.engines[request.table(plan)]
                exact = looked(partial(request.measure, plan, needed, engine), cancel)
            elif cancel is not None and cancel.is_set():
                raise InterruptedRequestError("interrupted", "Nothing was charged.")
            committed = self._commit(request, ready, needed, exact, identifier)
            if committed is not None:
                return committed

    def _commit(
        self,
        request: Request[P, R],
        before: Ready[P],
        measured: Set[str],
        exact: Any,
        identifier: str | None,
    ) -> R | None:
        """Charge and release in one transaction; None if the request must be planned anew first."""
        with self.lock:
            with self.store.ledger.transaction() as append:
                ready = self._admitted(request, identifier)
                plan, fresh = ready.plan, ready.stored is None
                key = request.analyst, plan.request
                if fresh:
                    # on the same state of the ledger, nothing has changed since the measurement
                    if ready is not before and (
                        not request.needed(plan, ready.cost) <= measured
                        or request.known(plan) is not None
                    ):
                        return None
                    now = self.store.now()
                    granted = self._check(request, ready, now)
                    release = partial(request.release, plan, ready.cost, exact, self.noise)
                    entry = guarded(release)
                    append({**entry, **header(*key, ready.cost, now, granted, identifier)})
            self.store.follow()
            return request.result(plan, self.store.accountant.charges[key], fresh=fresh)

    def _admitted(self, request: Request[P, R], identifier: str | None) -> Ready[P]:
        """Return a plan on the newest state; refuse a disabled account or a used identifier."""
        self.store.follow()
        if request.analyst != OWNER:
            self.store.provenance.admit(request.analyst)
        ready = self.ready(request)
        self.store.accountant.check_identifier(request.analyst, identifier, ready.plan.request)
        return ready

    def ready(self, request: Request[P, R]) -> Ready[P]:
        """Return a request's plan and cost, made once for each state of the ledger; needs the lock.

        So a query carries out what its price shows, as long as nothing is committed in between.
        """
        store = self.store

        def make() -> Ready[P]:
            plan = request.plan()
            stored: Charge | None = store.accountant.charges.get((request.analyst, plan.request))
            return Ready(plan, stored, request.cost(plan) if stored is None else _NO_COST)

        # grants from other analysts may expire
        granted = store.provenance.granted(request.analyst, store.now())
        key = None if request.key is None else ("plan", request.analyst, request.key)
        return self.memo.at(key, (store.ledger.sequence, granted), make)

    def _check(
        self, request: Request[P, R], ready: Ready[P], now: str
    ) -> list[tuple[int, Fraction]]:
        """Refuse what would exceed a limit; return what is taken from which grant."""
        try:
            return self._allowed(request, ready, now, partial(definitions_of, ready.plan))
        except (BudgetError, RequestError) as error:
            limit = error.limit if isinstance(error, BudgetError) else "a protected claim"
            words = request.words(ready.plan)
            refusal = Refusal(request.analyst, request.verb, words, ready.cost.row, limit)
            raise _Refused(error, refusal) from None

    def _allowed(
        self,
        request: Request[P, R],
        ready: Ready[P],
        now: str,
        definitions: Callable[[], Mapping[str, Mapping[str, Any]]],
    ) -> list[tuple[int, Fraction]]:
        """Check a protected claim and all limits; return what is taken from which grant."""
        plan, cost = ready.plan, ready.cost
        self._protect(self, request, plan, cost)
        names = {} if not cost.steps else self.declared.names(cost.steps)
        return self.store.provenance.check(
            request.analyst, plan.request, cost, names, now, definitions
        )

    def refusal(
        self,
        request: Request[P, R],
        ready: Ready[P],
        definitions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> str:
        """Return why a request would be refused now, in the words of its refusal; '' if it is not.

        So a price and what it is the price of never disagree. Needs the lock. ``definitions`` has
        the public definitions of all views of the cost, if it is that of several requests.
        """
        if ready.stored is not None:
            return ""
        made = partial(definitions_of, ready.plan) if definitions is None else lambda: definitions
        try:
            self._allowed(request, ready, self.store.now(), made)
        except (BudgetError, RequestError) as error:
            return "" if request.known(ready.plan) is not None else error.what
        return ""

    def check(self) -> None:
        """Raise the error that prevents every request now, of the ledger or of a table's engine.

        Nothing is charged. A lost connection to a table is opened again.

        Raises
        ------
        LedgerError, EngineError
            The error that a request would raise.
        """
        with self.reading() as store:
            store.ledger.check()
            for name in self.tables:
                store.version(name)
        for name, engine in self.engines.items():
            try:
                engine.check()
            except EngineError as error:
                raise type(error)(error.what, error.hint, f"table {name!r}") from None

    def interrupt(self, thread: int) -> None:
        """Stop the scan of the request that runs in a thread, given the thread's identifier.

        A thread without a request is ignored.
        """
        for engine in self.engines.values():
            engine.interrupt(thread)

    def close(self) -> None:
        """Forget the data and close the ledger."""
        self.public.close()
        for engine in self.engines.values():
            engine.close()
        self.store.ledger.close()

    def __repr__(self) -> str:
        return f"Runner({', '.join(self.own)})"

    def __reduce__(self) -> Any:
        raise TypeError("a Runner holds sensitive data and cannot be pickled")


class _Refused(Exception):  # noqa: N818 - never leaves the runner
    """A refusal by a limit on its way out of a transaction, with the facts for the owner."""

    def __init__(self, error: DpnbError, refusal: Refusal) -> None:
        super().__init__()
        self.error, self.refusal = error, refusal


def looked(work: Callable[[], T], cancel: threading.Event | None) -> T:
    """Read the data; an error has one fixed text, and a result cancelled meanwhile is dropped."""
    result: T | None = None
    try:
        result = guarded(work)
    except DpnbError:
        if cancel is None or not cancel.is_set():
            raise
    if result is None or (cancel is not None and cancel.is_set()):
        raise InterruptedRequestError("interrupted", "Nothing was charged.")
    return result
