"""The trusted side: the only object that reads data and draws noise."""

from __future__ import annotations

import contextlib
import hmac
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpnb.answers import assembly
from dpnb.answers.answer import Answer
from dpnb.answers.listing import Asked, BudgetStatus, Price
from dpnb.answers.question import Question
from dpnb.answers.request import AnswerRequest
from dpnb.engines.base import Engine, guarded
from dpnb.errors import (
    BudgetError,
    DpnbError,
    EngineError,
    InterruptedRequestError,
    LedgerError,
    RequestError,
    SchemaError,
    given,
)
from dpnb.inference.held import Shelf
from dpnb.inference.online import OnlineRequest
from dpnb.inference.pricing import priced
from dpnb.joins import joined
from dpnb.ownership import Ownership
from dpnb.privacy.accountant import Cost
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss, is_picked, unit
from dpnb.privacy.noise import Noise, SecureNoise
from dpnb.provenance.administration import Administration, read_views
from dpnb.provenance.catalogue import DeclaredViews
from dpnb.provenance.policy import Policy, policy_of
from dpnb.provenance.refusals import Refusal, log
from dpnb.provenance.requests import ANALYST, OWNER, P, R, Request, definitions_of, header
from dpnb.provenance.store import Store
from dpnb.risk.looks import Looks
from dpnb.sql.query import Query
from dpnb.stamps import Stamp
from dpnb.table import Table
from dpnb.waiting import Progress

if TYPE_CHECKING:
    from dpnb.decide.decider import Decider
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice
    from dpnb.explain.request import ExplanationRequest
    from dpnb.inference.inference import Inference
    from dpnb.keys.discovery import Discovery, DiscoveryPrice
    from dpnb.keys.request import DiscoveryRequest
    from dpnb.risk.paper import PaperProfile
    from dpnb.risk.profile import RiskProfile
    from dpnb.server.service import Service
    from dpnb.session import Session

T = TypeVar("T")

_MOST_STATEMENTS = 2_000
"""How many statements are kept parsed."""
_MOST_TEXT = 2_000
"""Accuracies that are longer as a text are read anew each time."""


class Curator(Ownership):
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
        File that detects a restored older copy of the ledger. One that is not there is refused beside
        a ledger that has entries.
    new_anchor : bool
        Begin the anchor of a ledger that has entries: it is trusted as it is.
    new_version : bool
        Accept other data than the ledger has seen: old answers are closed, what was spent is kept.
    analysts : mapping of str to int or tuple of int, optional
        Who may ask, with privileges from 1 to 10. Without it there is one analyst only, who has the
        whole budget. A ledger that knows them takes those that they had at first or have now.
    policy : Policy, optional
        How limits follow from privileges, and how analysts are served; given when the ledger is
        opened for the first time. By default noise paths, and limits in proportion to the highest
        privilege. What may change of it changes by methods, such as :meth:`set_reserve`.
    views : 'attributes' or sequence, optional
        Declared histogram views: one for each column that can have one, or a list of columns, lists
        of columns, and mappings with the arguments of :meth:`add_view`.
    noise : Noise, optional
        For tests only; results are stamped NOT PRIVATE.
    rehearsal : bool
        The data are generated: results are stamped REHEARSAL.

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
        new_anchor: bool = False,
        new_version: bool = False,
        analysts: Mapping[str, int | Sequence[int]] | None = None,
        policy: Policy | None = None,
        views: str | Sequence[Any] = (),
        noise: Noise | None = None,
        rehearsal: bool = False,
    ) -> None:
        from dpnb.engines.choice import engine_of

        listed: list[Any] = list(tables) if isinstance(tables, (list, tuple)) else [tables]
        if not listed or not all(isinstance(table, Table) for table in listed):
            raise RequestError(
                "at least one table is needed", "Pass a dpnb.Table, or a list of them."
            )
        if budget is not None and not isinstance(budget, Budget):
            raise RequestError(
                f"the budget must be a dpnb.Budget, got {given(budget)}",
                "Write dpnb.Budget(rho=0.5).",
            )
        self._tables: dict[str, Table] = {table.name: table for table in listed}
        if len({name.casefold() for name in self._tables}) != len(listed):
            raise SchemaError("two tables have the same name", "Rename one of them.")
        rules = policy_of(budget, analysts, policy)
        wanted = read_views(views, self._tables)
        self._noise: Noise = SecureNoise() if noise is None else noise
        if noise is None:
            SecureNoise.warm_up()
        stamp: Stamp = "rehearsal" if rehearsal else "" if self._noise.private else "test"
        self._lock = threading.RLock()
        self._statements: dict[object, AnswerRequest] = {}
        self._shelf = Shelf()
        self._looks = Looks()
        self._store = Store(ledger, anchor, new_anchor=new_anchor)
        self._engines: dict[str, Engine] = {}
        try:
            if self._store.new and budget is None:
                raise RequestError(
                    "a new ledger needs a budget", "Pass budget=dpnb.Budget(epsilon=3, delta=1e-6)."
                )
            for name, table in self._tables.items():
                self._engines[name] = engine_of(table)
            self._tables = joined(
                self._tables,
                lambda name, join: self._engines[name].obstacle(self._engines[join.table], join),
            )
            listed = list(self._tables.values())
            paired = [pair for table in listed for pair in table.pairs.values()]
            pairs = {pair.name: pair for pair in paired if isinstance(pair, Table)}
            self._tables |= pairs
            self._store.open(
                list(self._tables.values()),
                partial(self._fingerprint, {}),
                budget=budget,
                policy=rules,
                declared=policy is not None,
                new_version=new_version,
                stamp=stamp,
            )
            for name, engine in self._engines.items():
                engine.bound(self._store.secret(f"rows kept of {name}"))
            for table in listed:
                for join in table.joins.values():
                    self._engines[table.name].join(self._engines[join.table], join)
            for name, table in pairs.items():
                one, other = (self._engines[part] for part in name.split("*"))
                self._engines[name] = one.paired(other, table)
            self._declared = DeclaredViews(self._tables, self._engines)
            self._owner = Administration(self._store, self.tables, self._declared)
            self._owner.register(analysts or {})
            self._owner.add_views(wanted)
        except BaseException:
            for engine in self._engines.values():
                engine.close()
            self._store.ledger.close()
            raise

    def _fingerprint(self, known: dict[str, str], name: str, secret: bytes) -> str:
        """Return the fingerprint of a table's rows, and of those that are looked up from it.

        ``known`` keeps those of single tables: the rows of each are read once.
        """
        used = {*name.split("*"), *(join.table for join in self._tables[name].joins.values())}
        for table in used - known.keys():
            known[table] = self._engines[table].fingerprint(secret + table.encode())
        if used == {name}:
            return known[name]
        sealed = json.dumps({table: known[table] for table in used}, sort_keys=True).encode()
        return hmac.new(secret + name.encode(), sealed, "sha256").hexdigest()

    def session(self, analyst: str | None = None, privilege: int | None = None) -> Session:
        """Return an analyst's handle on this curator.

        Parameters
        ----------
        analyst : str, optional
            A registered one; none where there is one analyst only.
        privilege : int, optional
            One of hers, where she has several; the first one by default.

        Raises
        ------
        RequestError
            For an unknown or disabled analyst.
        """
        from dpnb.channel import LocalChannel
        from dpnb.session import Session

        with self._lock:
            self._store.follow()
            if analyst is None:
                analyst = ANALYST
            row = self._store.provenance.row(analyst, privilege)
        alone = self._store.provenance.policy is None
        return Session._of(LocalChannel(self, row, owned=False), self if alone else None)

    # what costs

    def query(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
        cancel: threading.Event | None = None,
        identifier: str | None = None,
    ) -> Answer:
        """Answer a statement; see ``Session.query``.

        ``identifier`` is the client's name for this one request: used again, it gives the same
        answer, and with another statement it is refused.
        """
        request: Request[Any, Answer] = self._asked(self._admitted(analyst), sql, params, accuracy)
        return self._serve(request, cancel, identifier)

    def explain(
        self,
        analyst: str,
        question: Question,
        options: Mapping[str, Any],
        cancel: threading.Event | None = None,
        identifier: str | None = None,
    ) -> Explanation:
        """Explain a question; see ``Session.explain``, and :meth:`query` for ``identifier``."""
        request = self._explanation(self._admitted(analyst), question, options)
        return self._serve(request, cancel, identifier)

    def decide(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
        cancel: threading.Event | None = None,
        identifier: str | None = None,
    ) -> Decision:
        """Decide which groups satisfy a HAVING; see ``Session.decide``, and :meth:`query`.

        One transaction for each step.
        """
        decider = self._decider(self._admitted(analyst), sql, params, options)
        if decider.studies:
            look = partial(decider.look, self._engines[decider.plan.query.table])
            return decider.studied(_interruptible(partial(guarded, look), cancel))

        def serve(request: Request[Any, R], name: str) -> R:
            own = None if identifier is None else f"{identifier} {name}"
            return self._serve(request, cancel, own)

        return decider.decide(serve, cancel)

    def price_decision(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
    ) -> DecisionPrice:
        """Plan and price a decision; spends nothing."""
        return self._decider(self._admitted(analyst), sql, params, options).price()

    def _decider(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
    ) -> Decider:
        from dpnb.decide.decider import Decider
        from dpnb.decide.options import STUDY_MODES, read_options
        from dpnb.decide.plan import plan
        from dpnb.sql.parse import parse

        wanted = read_options(**options)
        query = parse(sql, self._tables, params, deciding=True, thresholds=wanted.thresholds)
        schema = self._tables[query.table].schema
        if wanted.mode in STUDY_MODES and not self._tables[query.table].public:
            raise RequestError(
                f"mode={wanted.mode!r} needs a public table: it simulates on exact values",
                "Use mode='certified', or declare the table with public=True.",
            )
        with self._lock:
            self._store.follow()
            version = self._store.version(query.table)
            made = plan(query, wanted, schema, version, self._store.accountant.currency)
        return Decider(analyst, sql, made, self._store, schema, self._lock)

    def _asked(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> AnswerRequest | OnlineRequest:
        """Return the request for a statement; with a wished error past answers may help."""
        own = self._statement(analyst, sql, params, accuracy)
        if accuracy.get("error") is None or accuracy.get("history") is False:
            return own
        if any(aggregate.function == "UNITS" for aggregate in own.query.measured):
            # numbers of different ids do not follow from other answers
            return own
        return OnlineRequest(own, self._shelf)

    def _statement(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> AnswerRequest:
        from dpnb.sql.parse import parse

        # a statement without bound parameters means the same every time
        asked = None if not isinstance(sql, str) or ":" in sql else _plain(accuracy)
        key = None if asked is None else (analyst, sql, asked)
        known = self._statements.get(key)
        if known is not None:
            return known
        query = parse(sql, self._tables, params)
        check_having(query)
        declared = None if analyst == OWNER else self._declared
        made = AnswerRequest(
            analyst, sql, query, dict(accuracy), self._store, self._tables, declared
        )
        if key is not None:
            # only what makes sense is kept
            made.check()
            if len(self._statements) >= _MOST_STATEMENTS:
                self._statements.clear()
            self._statements[key] = made
        return made

    def _explanation(
        self, analyst: str, question: Question, options: Mapping[str, Any]
    ) -> ExplanationRequest:
        from dpnb.explain.request import ExplanationRequest

        return ExplanationRequest(analyst, question, options, self._store, self._tables)

    def _serve(
        self,
        request: Request[P, R],
        cancel: threading.Event | None,
        identifier: str | None = None,
    ) -> R:
        """Carry out a request, and note for the owner what is refused by a limit."""
        try:
            return self._carried_out(request, cancel, identifier)
        except _Refused as found:
            refused = found
        self._note(refused.refusal)
        raise refused.error

    def _note(self, refusal: Refusal) -> None:
        """Log a refusal, and keep it in the ledger where it is news."""
        if refusal.row == OWNER or self._store.provenance.policy is None:
            return
        log.info(refusal.line(self._store.accountant.currency))

        def decide() -> dict[str, Any] | None:
            return refusal.entry() if self._store.provenance.is_news(refusal) else None

        # a ledger that cannot be written does not change what the analyst is told
        with self._lock, contextlib.suppress(LedgerError):
            if self._store.provenance.is_news(refusal):
                self._store.write(decide)

    def _carried_out(
        self,
        request: Request[P, R],
        cancel: threading.Event | None,
        identifier: str | None,
    ) -> R:
        """Carry out a request: from the store, or by one look at the data and one transaction.

        Free pre-check, measure outside any lock, then one transaction: plan on the current state,
        re-check the cap, draw, write charge and release, commit. Only then the result is built.
        """
        while True:
            with self._lock:
                plan = self._plan(request, identifier)
                stored = self._store.accountant.charges.get((request.analyst, plan.request))
                if stored is not None:
                    self._store.accountant.keep_identifier(
                        request.analyst, identifier, plan.request
                    )
                    return request.result(plan, stored, fresh=False)
                known = request.known(plan)
                if known is not None:
                    self._store.accountant.keep_identifier(
                        request.analyst, identifier, plan.request
                    )
                    return known
                self._check(request, plan, request.cost(plan), self._store.now())
                needed = request.needed(plan)
            exact = None
            if needed:
                engine = self._engines[request.table(plan)]
                look = partial(request.measure, plan, needed, engine)
                exact = _interruptible(partial(guarded, look), cancel)
            elif cancel is not None and cancel.is_set():
                raise InterruptedRequestError("interrupted", "Nothing was charged.")
            committed = self._commit(request, needed, exact, identifier)
            if committed is not None:
                return committed

    def _commit(
        self, request: Request[P, R], measured: Set[str], exact: Any, identifier: str | None
    ) -> R | None:
        """Charge and release in one transaction; None when it has to be planned anew first."""
        with self._lock:
            with self._store.ledger.transaction() as append:
                plan = self._plan(request, identifier)
                key = request.analyst, plan.request
                fresh = key not in self._store.accountant.charges
                if fresh:
                    if not request.needed(plan) <= measured or request.known(plan) is not None:
                        return None
                    cost, now = request.cost(plan), self._store.now()
                    granted = self._check(request, plan, cost, now)
                    entry = guarded(partial(request.release, plan, exact, self._noise))
                    append({**entry, **header(*key, cost, now, granted, identifier)})
            self._store.follow()
            return request.result(plan, self._store.accountant.charges[key], fresh=fresh)

    def _plan(self, request: Request[P, R], identifier: str | None) -> P:
        """Plan a request on the newest state; refuse who may not ask, and a name used before."""
        self._store.follow()
        if request.analyst != OWNER:
            self._store.provenance.admit(request.analyst)
        plan = request.plan()
        self._store.accountant.check_identifier(request.analyst, identifier, plan.request)
        return plan

    def _admitted(self, row: str) -> str:
        """Return an analyst's row; refuse one that may not ask, or not any more."""
        with self._lock:
            self._store.follow()
            self._store.provenance.admit(row)
            return row

    def _check(
        self, request: Request[P, R], plan: P, cost: Cost, now: str
    ) -> list[tuple[int, Fraction]]:
        """Refuse what would pass a limit; return what is taken from which grant."""
        limit: str
        refused: BudgetError | RequestError
        try:
            self._protect(request, plan, cost)
        except RequestError as error:
            limit, refused = "a protected claim", error
        else:
            names = {} if not cost.steps else self._declared.names(cost.steps)
            try:
                return self._store.provenance.check(
                    request.analyst, plan.request, cost, names, now, partial(definitions_of, plan)
                )
            except BudgetError as error:
                limit, refused = error.limit, error
        what = Refusal(request.analyst, request.verb, request.words(plan), cost.row, limit)
        raise _Refused(refused, what)

    def _protect(self, request: Request[P, R], plan: P, cost: Cost) -> None:
        """Refuse releases that would all but settle a claim that the owner protects."""
        if not self._store.provenance.claims or request.analyst == OWNER:
            return
        from dpnb.decide.responses import ResponsePlan

        if isinstance(plan, ResponsePlan):
            from dpnb.inference.control import guard_response

            guard_response(self._store, request.table(plan))
        views = getattr(plan, "views", None)
        if views and cost.steps:
            from dpnb.inference.control import guard

            schema = self._tables[request.table(plan)].schema
            levels = {name: step.level for name, step in cost.steps.items()}
            guard(self._store, self._shelf, request.analyst, views, levels, schema)

    def discover(
        self,
        analyst: str,
        column: str,
        options: Mapping[str, Any],
        cancel: threading.Event | None = None,
        identifier: str | None = None,
    ) -> Discovery:
        """Find the values of an undeclared column; see ``Session.discover``, and :meth:`query`."""
        return self._serve(self._discovery(analyst, column, options), cancel, identifier)

    def price_discovery(
        self, analyst: str, column: str, options: Mapping[str, Any]
    ) -> DiscoveryPrice:
        """Price a discovery; spends nothing."""
        with self._lock:
            self._store.follow()
            return self._discovery(analyst, column, options).price()

    def _discovery(self, analyst: str, column: str, options: Mapping[str, Any]) -> DiscoveryRequest:
        from dpnb.keys.request import DiscoveryRequest

        row = self._admitted(analyst)
        return DiscoveryRequest(row, column, options, self._store, self.tables)

    # what past answers tell

    def infer(
        self,
        analyst: str,
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
    ) -> Inference:
        """Work a statement out from what an analyst holds; see ``Session.infer``. No data is read."""
        row = self._admitted(analyst)
        return self._inferred([row], sql, params, options)

    def infer_together(
        self,
        analysts: Sequence[str],
        sql: str,
        *,
        params: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Inference:
        """Work out what some analysts could infer by putting their answers together. For the owner.

        The options are those of ``Session.infer``.

        Raises
        ------
        SqlError, RequestError
        """
        with self._lock:
            self._store.follow()
            table = self._store.provenance
            for name in analysts:
                table.row(name)
            rows = table.rows_of(analysts) if table.policy is not None else set(analysts)
        return self._inferred(rows, sql, params, options)

    def _inferred(
        self,
        rows: Collection[str],
        sql: str,
        params: Mapping[str, object] | None,
        options: Mapping[str, Any],
    ) -> Inference:
        from dpnb.inference.assembly import infer
        from dpnb.inference.options import read_options
        from dpnb.sql.parse import parse

        wanted = read_options(options)
        query = parse(sql, self._tables, params)
        check_having(query)
        with self._lock:
            self._store.follow()
            schema = self._tables[query.table].schema
            known = self._shelf.known(self._store, rows, query.table, schema)
        return infer(sql, query, wanted, known, schema)

    # what only the owner may see

    def risk(
        self,
        sql: str,
        *,
        params: Mapping[str, object] | None = None,
        by: str | Sequence[str] = (),
        cumulative: bool = False,
        form: str = "bound",
        split: object = None,
        mode: str = "tight",
        mechanism: str = "laplace",
        progress: Progress | None = None,
    ) -> RiskProfile | PaperProfile:
        """Look at whom an answer to a statement would expose. For the owner: nothing is released.

        Parameters
        ----------
        sql : str
            As for ``Session.query``.
        params : mapping
            Values of the bound parameters ``:name``.
        by : str or sequence of str
            Columns whose declared groups are told apart.
        cumulative : bool
            Add what the releases already made in this ledger tell about each row.
        form : {'bound', 'exact', 'linear'}
            Form of the indicator (docs/methods/rdr.md, definition 5).
        split : number
            Share of an AVG's level that goes to its sum.
        mode : {'tight', 'paper'}
            'paper' is for study: RDR's algorithms as printed, only on tables declared
            ``public=True``; the other options do not apply.
        mechanism : {'laplace', 'gaussian'}
            With ``mode='paper'``: whose noise is looked at.
        progress : callable
            Called with the elapsed seconds once a second has passed.

        Raises
        ------
        SqlError, RequestError, EngineError, InterruptedRequestError
        """
        from dpnb.risk import assembly
        from dpnb.risk.desk import Desk

        if not isinstance(mode, str) or mode not in ("tight", "paper"):
            raise RequestError(
                f"mode must be 'tight' or 'paper', got {given(mode)}", "Write mode='tight'."
            )
        with self._lock:
            self._store.follow()
            self._check_risk()
            level = {unit(self._store.accountant.currency): 1}
            request = self._statement(OWNER, sql, params, {**level, "split": split})
            plan, engine = request.plan(), self._engines[request.query.table]
            desk = Desk(
                sql, plan, self._store, engine, self._tables, self._serve, self._priced,
                _interruptible, self._lock, self._looks,
            )  # fmt: skip
            if mode == "paper":
                look: Callable[[], Any] = assembly.paper_look(desk, mechanism)
            else:
                options = assembly.options(desk, by, cumulative, form)
                look = partial(assembly.profile, desk, options)
        found: RiskProfile | PaperProfile = desk.look(look, progress)
        return found

    def _check_risk(self) -> None:
        state = self._store.accountant
        if state.currency not in ("zcdp", "pure") or state.mechanism_name != "path":
            raise RequestError(
                "risks can be shown only in a zCDP or pure session with mechanism='path'",
                "Open a ledger with Budget(rho=...) or Budget(epsilon=...), and mechanism='path'.",
            )

    # what costs nothing

    def price_explanation(
        self, analyst: str, question: Question, options: Mapping[str, Any]
    ) -> ExplanationPrice:
        """Price an explanation; spends nothing."""
        from dpnb.explain.price import price

        with self._lock:
            self._store.follow()
            request = self._explanation(self._admitted(analyst), question, options)
            plan = request.plan()
            stored = self._store.accountant.charges.get((analyst, plan.request))
            cost = request.cost(plan).row if stored is None else PrivacyLoss.none()
            return price(plan, question, analyst, self._store, cost)

    def price(
        self,
        analyst: str,
        statements: Sequence[str],
        params: Mapping[str, object] | None,
        accuracy: Mapping[str, Any],
    ) -> list[Price]:
        """Price statements as if asked one after the other; spends nothing."""
        row = self._admitted(analyst)
        return self._priced([self._asked(row, sql, params, accuracy) for sql in statements])

    def _priced(self, requests: Sequence[AnswerRequest | OnlineRequest]) -> list[Price]:
        with self._lock:
            self._store.follow()
            return priced(self._store, requests)

    @property
    def ledger(self) -> str:
        """Public name of the ledger; results carry it."""
        return self._store.name

    def status(self, analyst: str) -> BudgetStatus:
        """Return an analyst's cap, spent and remaining."""
        with self._lock:
            return assembly.status(self._store, self._admitted(analyst))

    def history(self, analyst: str) -> Sequence[Asked]:
        """Return the analyst's answered requests, oldest first."""
        with self._lock:
            charges = self._store.accountant.history(self._admitted(analyst))
        return [Asked(one.time, one.sql, one.row, one.conditional) for one in charges]

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return {name: table for name, table in self._tables.items() if "*" not in name}

    def check(self) -> None:
        """Raise what stands in the way of every request now: of the ledger, or of a table's engine.

        Charges nothing; a connection to a table that was lost is opened again.

        Raises
        ------
        LedgerError, EngineError
        """
        with self._lock:
            self._store.follow()
            for name in self._tables:
                self._store.version(name)
        for name, engine in self._engines.items():
            try:
                engine.check()
            except EngineError as error:
                raise EngineError(error.what, error.hint, f"table {name!r}") from None

    def interrupt(self, thread: int) -> None:
        """Stop the scan of the request that runs in the thread of the given identifier."""
        for engine in self._engines.values():
            engine.interrupt(thread)

    def serve(self, host: str = "127.0.0.1", port: int = 8899, **options: Any) -> Service | None:
        """Answer analysts over HTTP; the options are those of ``dpnb.server.service.serve``."""
        from dpnb.server.service import serve

        return serve(self, host, port, **options)

    def close(self) -> None:
        """Forget the data and close the ledger."""
        for engine in self._engines.values():
            engine.close()
        self._store.ledger.close()

    def __repr__(self) -> str:
        return f"Curator({', '.join(self.tables)})"

    def __reduce__(self) -> Any:
        raise TypeError("a Curator holds sensitive data and cannot be pickled")


class _Refused(Exception):  # noqa: N818 - never leaves the curator
    """A limit's refusal on its way out of a transaction, with what the owner is to know of it."""

    def __init__(self, error: DpnbError, refusal: Refusal) -> None:
        super().__init__()
        self.error, self.refusal = error, refusal


def check_having(query: Query) -> None:
    """Refuse HAVING where a statement is answered."""
    if query.having is not None:
        raise RequestError(
            "HAVING is not allowed in a query: the list of groups would reveal more than the query pays for",
            "Use session.decide, which bounds the errors. Or leave HAVING out and "
            "filter the noisy answer.",
        )


def _plain(accuracy: Mapping[str, Any]) -> tuple[tuple[object, ...], ...] | None:
    """Return an accuracy as a key: equal only for arguments of equal type, text and mark."""
    try:
        found = [
            (name, type(value), repr(value), is_picked(value)) for name, value in accuracy.items()
        ]
    except ValueError:
        # a whole number of thousands of digits has no text
        return None
    return tuple(found) if sum(len(text) for _, _, text, _ in found) <= _MOST_TEXT else None


def _interruptible(work: Callable[[], T], cancel: threading.Event | None) -> T:
    """Carry out work on the data; when it was cancelled meanwhile, its outcome is dropped."""
    result: T | None = None
    try:
        result = work()
    except DpnbError:
        if cancel is None or not cancel.is_set():
            raise
    if result is None or (cancel is not None and cancel.is_set()):
        raise InterruptedRequestError("interrupted", "Nothing was charged.")
    return result
