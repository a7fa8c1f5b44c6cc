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
from dpnb.answers.past import Shelf
from dpnb.answers.price import Price
from dpnb.answers.pricing import priced
from dpnb.answers.query import AnswerRequest
from dpnb.answers.question import Question
from dpnb.answers.reuse import OnlineRequest
from dpnb.arguments import checked
from dpnb.codes import truth
from dpnb.engines.scans import Engine, guarded
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
from dpnb.interrupt import Progress
from dpnb.ledger.accountant import Cost
from dpnb.ledger.accounts import ANALYST, OWNER
from dpnb.ledger.policy import Policy, policy_of
from dpnb.ledger.refusals import Refusal, log
from dpnb.ledger.store import Store
from dpnb.owner.administration import Administration, read_views
from dpnb.owner.ownership import Ownership
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss, is_picked, unit
from dpnb.privacy.noise import Noise, SecureNoise
from dpnb.private import Stamp
from dpnb.releases.catalogue import DeclaredViews
from dpnb.releases.request import P, R, Request, definitions_of, header
from dpnb.results import Asked, BudgetStatus
from dpnb.schema.joins import joined
from dpnb.schema.table import Table
from dpnb.sql.query import Query

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.decide.decider import Decider
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice
    from dpnb.discover.discovery import Discovery, DiscoveryPrice
    from dpnb.discover.request import DiscoveryRequest
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice
    from dpnb.explain.request import ExplanationRequest
    from dpnb.risk.looks import Looks
    from dpnb.risk.profile import RiskProfile
    from dpnb.server.service import Service
    from dpnb.session import Session
    from dpnb.studies.rdr import PaperProfile

T = TypeVar("T")

_MOST_STATEMENTS = 2_000
"""How many statements are kept parsed."""
_MOST_TEXT = 2_000
"""Accuracies that are longer as a text are read anew each time."""


class Curator(Ownership):
    """The owner's handle on tables, budget and ledger, which hands out a session for each analyst.

    Parameters
    ----------
    tables : Table or sequence of Table
        What may be asked about. They are read once, here.
    budget : Budget, optional
        The most that all analysts together may learn. Needed for a new ledger; an existing one has its own, and a
        different one is refused.
    ledger : str or Path, optional
        File that records costs and released numbers, as secret as the data, or the URL of a PostgreSQL database. Without
        it the budget lasts as long as this process.
    anchor : str or Path, optional
        Small file, best on another disk, that detects a restored older copy of the ledger. A missing anchor is refused
        beside a ledger with entries.
    new_anchor : bool
        Start an anchor for a ledger with entries. The ledger is trusted as it is.
    new_version : bool
        Accept other data than the ledger has recorded. Old answers are closed, and what was spent stays spent.
    analysts : mapping of str to int or tuple of int, optional
        Who may ask, with privileges from 1 to 10. Without it there is one analyst, who has the whole budget. A ledger
        that has analysts accepts those that it had at first or has now.
    policy : Policy, optional
        How limits follow from privileges, and how analysts are served. It is given when the ledger is opened for the
        first time. Methods such as :meth:`set_reserve` change what may change later.
    views : 'attributes' or sequence, optional
        Declared histogram views: one for each column that can have one, or a list of columns, lists of columns, and
        mappings with the arguments of :meth:`add_view`.
    noise : Noise, optional
        For tests only. Results are stamped NOT PRIVATE.
    rehearsal : bool
        The data are generated: results are stamped GENERATED DATA.

    Raises
    ------
    SchemaError
        If two tables have one name, or columns do not fit their declarations.
    LedgerError
        If the ledger belongs to other data or another budget, or is damaged.
    RequestError
        If there is no table or no budget, and for unusable analysts, policies and views.

    Examples
    --------
    >>> import dpnb
    >>> budget = dpnb.Budget(epsilon=3, delta=1e-6)
    >>> curator = dpnb.Curator(dpnb.datasets.adult(), budget=budget, analysts={"alice": 4, "bob": 1})
    >>> alice = curator.session("alice")
    >>> alice.query("SELECT COUNT(*) AS n FROM adult", rho=0.01).spent.rho
    Fraction(1, 100)
    """

    @checked
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
        if noise is not None and not isinstance(getattr(noise, "private", None), bool):
            raise RequestError(
                f"noise must be a source of noise for tests, got {given(noise)}", "Leave it out."
            )
        truth(new_anchor, "new_anchor")
        truth(new_version, "new_version")
        truth(rehearsal, "rehearsal")
        rules = policy_of(budget, analysts, policy)
        wanted = read_views(views, self._tables)
        self._noise: Noise = SecureNoise() if noise is None else noise
        if noise is None:
            SecureNoise.warm_up()
        stamp: Stamp = "rehearsal" if rehearsal else "" if self._noise.private else "test"
        self._lock = threading.RLock()
        self._statements: dict[object, AnswerRequest] = {}
        self._shelf = Shelf()
        self._looks: Looks | None = None
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
        """Return an analyst's session on this curator.

        Parameters
        ----------
        analyst : str, optional
            A registered name. Left out if there is one analyst only.
        privilege : int, 1 to 10, optional
            One of the analyst's privileges, if there are several; the first one by default.

        Returns
        -------
        Session
            It shares the curator's tables and budget.

        Raises
        ------
        RequestError
            For an unknown or disabled analyst.

        Examples
        --------
        >>> bob = curator.session("bob")
        >>> bob.price("SELECT COUNT(*) AS n FROM people", rho=0.01).affordable
        True
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
        """Answer an analyst's statement; see ``Session.query``.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        sql : str
            As for ``Session.query``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        accuracy : mapping of str to value
            The other arguments of ``Session.query``, such as ``{"rho": 0.1}``.
        cancel : threading.Event, optional
            Set it to stop the request.
        identifier : str, optional
            The client's name for this one request. Used again it gives the same result; with another request it is refused.

        Returns
        -------
        Answer
            The stored numbers if the analyst asked before.

        Raises
        ------
        SqlError, RequestError, BudgetError, EngineError, InterruptedRequestError
            As the method of the session.

        Examples
        --------
        >>> answer = curator.query("alice", "SELECT COUNT(*) AS n FROM people", None, {"rho": 0.01})
        >>> len(answer.to_frame())
        1
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
        """Explain a difference to an analyst; see ``Session.explain``.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        question : Question
            From ``Answer.compare``.
        options : mapping of str to value
            The other arguments of ``Session.explain``.
        cancel : threading.Event, optional
            Set it to stop the request.
        identifier : str, optional
            The client's name for this one request. Used again it gives the same result; with another request it is refused.

        Returns
        -------
        Explanation
            The stored one if the analyst asked before.

        Raises
        ------
        SqlError, RequestError, BudgetError, EngineError, InterruptedRequestError
            As the method of the session.

        Examples
        --------
        >>> sql = "SELECT sex, AVG(wage) AS wage FROM people GROUP BY sex"
        >>> question = curator.session("alice").query(sql, rho=0.1).compare("Male", "Female")
        >>> len(curator.explain("alice", question, {"k": 2, "rho": 0.5, "anyway": True}).rows)
        2
        """
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
        """Select the groups that satisfy a HAVING condition, for an analyst; see ``Session.decide``.

        Each step is charged and recorded on its own.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        sql : str
            As for ``Session.decide``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        options : mapping of str to value
            The other arguments of ``Session.decide``.
        cancel : threading.Event, optional
            Set it to stop the request.
        identifier : str, optional
            The client's name for this one request. Used again it gives the same result; with another request it is refused.

        Returns
        -------
        Decision
            The stored steps if the analyst asked before.

        Raises
        ------
        SqlError, RequestError, BudgetError, EngineError, InterruptedRequestError
            As the method of the session.

        Examples
        --------
        >>> sql = "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 100"
        >>> curator.decide("alice", sql, None, {"most": 1}).keys
        ('job',)
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
        """Return the plan of a decision and what each step would cost; see ``Session.price``. Free.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        sql : str
            As for ``Session.decide``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        options : mapping of str to value
            The other arguments of ``Session.decide``.

        Returns
        -------
        DecisionPrice
            Conditions, uncertain regions and costs by step.

        Raises
        ------
        SqlError, RequestError
            As ``Session.decide``.

        Examples
        --------
        >>> sql = "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 100"
        >>> curator.price_decision("alice", sql, None, {"beta": 0.01}).groups
        3
        """
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
        from dpnb.sql.parser import parse

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
        from dpnb.sql.parser import parse

        # a statement without bound parameters means the same every time
        fixed = isinstance(sql, str) and ":" not in sql and isinstance(params, Mapping | None)
        asked = _plain(accuracy) if fixed else None
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
            from dpnb.owner.claims import guard_response

            guard_response(self._store, request.table(plan))
        views = getattr(plan, "views", None)
        if views and cost.steps:
            from dpnb.owner.claims import guard

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
        """List values of an undeclared column, for an analyst; see ``Session.discover``.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        column : str
            One of a table's ``undeclared`` columns.
        options : mapping of str to value
            The other arguments of ``Session.discover``.
        cancel : threading.Event, optional
            Set it to stop the request.
        identifier : str, optional
            The client's name for this one request. Used again it gives the same result; with another request it is refused.

        Returns
        -------
        Discovery
            The stored one if the analyst asked before.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            As ``Session.discover``.

        Examples
        --------
        >>> "Paris" in curator.discover("alice", "city", {"rho": 0.5}).keys
        True
        """
        return self._serve(self._discovery(analyst, column, options), cancel, identifier)

    def price_discovery(
        self, analyst: str, column: str, options: Mapping[str, Any]
    ) -> DiscoveryPrice:
        """Return what ``Session.discover`` would cost an analyst. Free.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        column : str
            One of a table's ``undeclared`` columns.
        options : mapping of str to value
            The other arguments of ``Session.discover``.

        Returns
        -------
        DiscoveryPrice
            The cost, and how many rows a value needs to be shown.

        Raises
        ------
        RequestError
            As ``Session.discover``.

        Examples
        --------
        >>> curator.price_discovery("alice", "city", {"rho": 0.5}).affordable
        True
        """
        with self._lock:
            self._store.follow()
            return self._discovery(analyst, column, options).price()

    def _discovery(self, analyst: str, column: str, options: Mapping[str, Any]) -> DiscoveryRequest:
        from dpnb.discover.request import DiscoveryRequest

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
        """Answer a statement from what an analyst has received; see ``Session.infer``. Free.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        sql : str
            As for ``Session.infer``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        options : mapping of str to value
            The other arguments of ``Session.infer``.

        Returns
        -------
        Inference
            No data are read.

        Raises
        ------
        SqlError, RequestError
            As ``Session.infer``.

        Examples
        --------
        >>> sql = "SELECT COUNT(*) AS n FROM people"
        >>> answer = curator.session("alice").query(sql, rho=0.1)
        >>> curator.infer("alice", sql, None, {}).sources[0].weight
        1.0
        """
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
        """Return what analysts could infer if they pooled their answers. For the owner; free.

        Parameters
        ----------
        analysts : sequence of str
            Registered names.
        sql : str
            As for ``Session.infer``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        options
            The other arguments of ``Session.infer``.

        Returns
        -------
        Inference
            No data are read.

        Raises
        ------
        SqlError, RequestError
            As ``Session.infer``, and for an unknown analyst.

        Examples
        --------
        >>> for name in ("alice", "bob"):
        ...     answer = curator.session(name).query("SELECT COUNT(*) AS n FROM people", rho=0.01)
        >>> curator.infer_together(["alice", "bob"], "SELECT COUNT(*) AS n FROM people").keys
        ()
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
        from dpnb.answers.infer import infer
        from dpnb.answers.options import read_options
        from dpnb.sql.parser import parse

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
        """Compute which rows an answer would expose.

        For the owner: nothing is released or charged.

        Parameters
        ----------
        sql : str
            As for ``Session.query``.
        params : mapping of str to value
            Values of the parameters ``:name``.
        by : str or sequence of str
            Columns whose declared groups are distinguished.
        cumulative : bool
            Add what this ledger has already released about each row.
        form : {'bound', 'exact', 'linear'}
            Form of the indicator (docs/methods/rdr.md, definition 5).
        split : number
            Share of an AVG's cost, between 0 and 1, that goes to its sum.
        mode : {'tight', 'paper'}
            'paper' runs the published algorithms, for study, on tables declared ``public=True``. The other options do not
            apply.
        mechanism : {'laplace', 'gaussian'}
            With ``mode='paper'``: the noise of the answer.
        progress : callable
            Called with the elapsed seconds, from the first second on.

        Returns
        -------
        RiskProfile or PaperProfile
            Exact values, as secret as the data.

        Raises
        ------
        SqlError, RequestError, EngineError, InterruptedRequestError
            Nothing was charged.

        Examples
        --------
        >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people", by="sex")
        >>> risk.suggest(guesses=60)
        At rho 0.1284 (epsilon ...
        """
        from dpnb.risk import plan as exposure
        from dpnb.risk.context import Desk
        from dpnb.risk.looks import Looks

        known = exposure.family(mechanism)
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
            self._looks = self._looks or Looks()
            desk = Desk(
                sql, plan, self._store, engine, self._tables, self._serve, self._priced,
                _interruptible, self._lock, self._looks,
            )  # fmt: skip
            if mode == "paper":
                look: Callable[[], Any] = exposure.paper_look(desk, known)
            else:
                options = exposure.options(desk, by, cumulative, form)
                look = partial(exposure.profile, desk, options)
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
        """Return what an explanation would cost an analyst; see ``Session.price``. Free.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        question : Question
            From ``Answer.compare``.
        options : mapping of str to value
            The other arguments of ``Session.explain``.

        Returns
        -------
        ExplanationPrice
            Cost and margins of error.

        Raises
        ------
        RequestError
            As ``Session.explain``.

        Examples
        --------
        >>> sql = "SELECT sex, AVG(wage) AS wage FROM people GROUP BY sex"
        >>> question = curator.session("alice").query(sql, rho=0.1).compare("Male", "Female")
        >>> curator.price_explanation("alice", question, {"rho": 0.5}).affordable
        True
        """
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
        """Return what statements would cost an analyst, asked one after the other. Free.

        Parameters
        ----------
        analyst : str
            Who asks: a name, or ``'name#privilege'``.
        statements : sequence of str
            As for ``Session.query``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        accuracy : mapping of str to value
            The other arguments of ``Session.query``.

        Returns
        -------
        list of Price
            One for each statement.

        Raises
        ------
        SqlError, RequestError
            As ``Session.query``.

        Examples
        --------
        >>> [price] = curator.price("alice", ["SELECT COUNT(*) AS n FROM people"], None, {"rho": 0.1})
        >>> price.affordable
        True
        """
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
        """Return an analyst's limit, and what is spent and left of it.

        Parameters
        ----------
        analyst : str
            A name, or ``'name#privilege'``.

        Returns
        -------
        BudgetStatus
            In rho, or in epsilon in a pure session.

        Raises
        ------
        RequestError
            For an unknown analyst.

        Examples
        --------
        >>> curator.status("bob").spent.rho
        Fraction(0, 1)
        """
        with self._lock:
            return assembly.status(self._store, self._admitted(analyst))

    def history(self, analyst: str) -> Sequence[Asked]:
        """Return an analyst's answered requests, oldest first.

        Parameters
        ----------
        analyst : str
            A name, or ``'name#privilege'``.

        Returns
        -------
        sequence of Asked
            Time, statement and privacy cost of each.

        Examples
        --------
        >>> len(curator.history("alice"))
        0
        """
        with self._lock:
            charges = self._store.accountant.history(self._admitted(analyst))
        return [Asked(one.time, one.sql, one.row, one.conditional) for one in charges]

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return {name: table for name, table in self._tables.items() if "*" not in name}

    def check(self) -> None:
        """Raise what prevents every request now: an error of the ledger or of a table's engine.

        Nothing is charged. A lost connection to a table is opened again.

        Raises
        ------
        LedgerError, EngineError
            What a request would raise.

        Examples
        --------
        >>> curator.check()
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
        """Stop the scan of the request that runs in a thread.

        Parameters
        ----------
        thread : int
            Identifier of the thread, as ``threading.get_ident`` returns it. One without a request is ignored.

        Examples
        --------
        >>> import threading
        >>> curator.interrupt(threading.get_ident())
        """
        for engine in self._engines.values():
            engine.interrupt(thread)

    def serve(self, host: str = "127.0.0.1", port: int = 8899, **options: Any) -> Service | None:
        """Answer analysts over HTTP.

        Parameters
        ----------
        host : str
            Where to listen. Beyond this machine it needs a certificate.
        port : int
            0 to 65535; 0 takes a free one.
        options
            The other arguments of ``dpnb.server.service.serve``, such as ``tokens``, ``certificate`` and ``background``.

        Returns
        -------
        Service or None
            None if it ran here until it was interrupted; with ``background=True`` a handle to close it.

        Raises
        ------
        RequestError
            For an unusable address, certificate or token file.
        ServiceError
            If the address is not available, and without starlette and uvicorn.

        Examples
        --------
        >>> curator.serve(port=0, tokens="nobody.json")
        Traceback (most recent call last):
            ...
        dpnb.errors.RequestError: ...
        """
        from dpnb.server.service import serve

        return serve(self, host, port, **options)

    def close(self) -> None:
        """Forget the data and close the ledger.

        Examples
        --------
        >>> curator.close()
        """
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
