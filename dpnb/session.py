"""One analyst's handle on a curator."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dpnb.answers.answer import Answer
from dpnb.answers.price import Price
from dpnb.answers.question import Question
from dpnb.arguments import checked
from dpnb.backend import Backend, LocalBackend
from dpnb.codes import truth
from dpnb.errors import BudgetError, DpnbError, RequestError, given, nearest, printable
from dpnb.formats import loss_text
from dpnb.interrupt import Progress, wait
from dpnb.ledger.accounts import ANALYST
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PICKED
from dpnb.private import STAMPS
from dpnb.releases.call import Call
from dpnb.results import Asked, BudgetStatus, InfoTable, format_time
from dpnb.schema.table import Table, protection
from dpnb.verbs import opened

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice
    from dpnb.discover.discovery import Discovery, DiscoveryPrice
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice
    from dpnb.privacy.noise import Noise


class Session:
    """Queries of sensitive tables under one privacy budget.

    Parameters
    ----------
    tables : Table or sequence of Table
        The tables to query. They are read once, when the session opens.
    budget : Budget, optional
        The most that all answers together may cost. Required unless the ledger already exists.
    ledger : str or Path, optional
        File that records costs and released numbers, or the URL of a PostgreSQL database. Without
        it the budget lasts as long as this process.
    anchor : str or Path, optional
        Small file, best on another disk, that detects a restored older copy of the ledger. If the
        ledger has entries, the file must exist.
    new_anchor : bool
        Start an anchor for a ledger with entries, and trust the ledger as it is.
    new_version : bool
        Accept data that differ from those in the ledger's record, or that are read by other rules
        now. Spent budget stays spent.
    noise : Noise, optional
        For tests only. Results are stamped NOT PRIVATE, whatever the source is or claims.

    Raises
    ------
    SchemaError
        If two tables have the same name, or columns do not fit their declarations.
    LedgerError
        If the ledger belongs to other data or another budget, or is damaged.
    RequestError
        If there is no table or no budget.

    Examples
    --------
    >>> import dpnb
    >>> session = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=3, delta=1e-6))
    >>> answer = session.query("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", rho=0.1)
    >>> list(answer.to_frame().columns)
    ['sex', 'n', 'n_low', 'n_high']
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
        noise: Noise | None = None,
    ) -> None:
        runner = opened(
            tables, budget=budget, ledger=ledger, anchor=anchor, new_anchor=new_anchor,
            new_version=new_version, noise=noise,
        )  # fmt: skip
        self._backend: Backend = LocalBackend(runner, ANALYST, owned=True)
        self._owner = True

    @classmethod
    def _of(cls, backend: Backend, *, owner: bool = False) -> Session:
        """Return an analyst's session; ``owner`` says whether its holder owns the data."""
        session = cls.__new__(cls)
        session._backend, session._owner = backend, owner
        return session

    @checked
    def query(
        self,
        sql: str,
        *,
        rho: object = None,
        epsilon: object = None,
        error: object = None,
        rows: object = None,
        confidence: object = 0.95,
        looks: object = 1,
        intervals: object = "simultaneous",
        split: object = None,
        history: object = True,
        params: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """Answer a statement, with a confidence interval for each number.

        Parameters
        ----------
        sql : str
            SELECT with COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN or QUANTILE over one table, WHERE,
            GROUP BY, ORDER BY and LIMIT. Aggregates take arithmetic and CASE, quantiles a column of
            whole numbers or with bins. Results combine by + - * /, EXP, LN and SQRT. For a mean
            write AVG: it is more accurate than SUM / COUNT.
        rho, epsilon : number above 0
            Give one of the two: the privacy cost of the statement on its own. ``epsilon`` is at the
            delta of the session; a pure session takes ``epsilon`` only. A fixed public rule divides
            the cost among the aggregates. Earlier releases are deducted. A number picked by looking
            at the data, a ``Picked``, marks the answer and everything that follows from it.
        error : number above 0, or dict of alias to number
            Instead of a cost: the margin of error, in units of the aggregate. Earlier answers to
            other statements are used first, and you pay only for what is missing.
        rows : int, at least 1
            With AVG and ``error``: the margin of error holds for groups of at least this many rows.
        confidence : float
            Between 0 and 1; 0.95 gives 95 % confidence intervals.
        looks : 1 or 'any'
            With 'any' the confidence intervals hold at all looks together (sequential analysis), if
            you chose the accuracies beforehand. You may then decide by the answers when to stop.
        intervals : {'simultaneous', 'each'}
            Whether the confidence holds for all confidence intervals together or for each on its
            own.
        split : number
            Share of an AVG's privacy cost for its sum, between 0 and 1.
        history : bool
            False ignores earlier answers to other statements.
        params : mapping of str to value
            Values of the parameters ``:name``.
        progress : callable
            Called with the elapsed seconds, every quarter of a second from the first second on.

        Returns
        -------
        Answer
            The same request returns the stored numbers, free.

        Raises
        ------
        SqlError, RequestError, BudgetError
            For public reasons only. Nothing was charged.
        EngineError
            If the engine fails, in one fixed text. Nothing was charged.
        InterruptedRequestError
            After Ctrl-C or the stop button. It says whether anything was charged.

        Notes
        -----
        docs/methods/estimation.md derives the confidence intervals, docs/methods/accounting.md the
        costs.

        Examples
        --------
        >>> answer = session.query("SELECT sex, AVG(wage) AS wage FROM people GROUP BY sex", rho=0.1)
        >>> list(answer.to_frame()["sex"])
        ['Female', 'Male']
        >>> session.query("SELECT COUNT(*) AS n FROM people", error=50).spent.rho < 0.01
        True
        """
        accuracy = {
            "rho": rho,
            "epsilon": epsilon,
            "error": error,
            "rows": rows,
            "confidence": confidence,
            "looks": looks,
            "intervals": intervals,
            "split": split,
            "history": history,
        }
        answer: Answer = self._run(Call("query", sql, accuracy, params), progress)
        return answer

    def query_all(self, statements: Sequence[str], **options: Any) -> list[Answer]:
        """Answer several statements, or none if the budget does not cover all of them.

        Later statements use the answers to earlier ones.

        Parameters
        ----------
        statements : sequence of str
            At least one, each as for :meth:`query`.
        options
            Other arguments of :meth:`query`, the same for all statements.

        Returns
        -------
        list of Answer
            In the order of the statements.

        Raises
        ------
        BudgetError
            If the budget does not cover all of them. Nothing was charged.
        SqlError, RequestError, EngineError, InterruptedRequestError
            As in :meth:`query`. Answers from before an interruption stay in the ledger.

        Examples
        --------
        >>> by = ["SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "SELECT AVG(wage) AS wage FROM people"]
        >>> [len(answer.to_frame()) for answer in session.query_all(by, rho=0.1)]
        [2, 1]
        """
        if not isinstance(statements, (list, tuple)):
            raise RequestError(
                f"statements must be a list, got {given(statements)}", "Pass a list of SQL strings."
            )
        price_options = {name: value for name, value in options.items() if name != "progress"}
        prices = self.price(list(statements), **price_options)
        if not prices:
            raise RequestError("the list of statements is empty", "Pass a list of SQL strings.")
        total = Price.together(prices)
        if not total.affordable:
            hint = "Leave some out, or ask for larger margins of error. Nothing was charged."
            if not total.spent.exceeds(total.remaining, total.privacy):
                raise BudgetError(
                    f"together these statements would be refused: {total.refusal}", hint
                )
            cost = loss_text(total.spent, total.privacy, None)
            left = loss_text(total.remaining, total.privacy, None, left=True)
            raise BudgetError(
                f"together these statements cost {cost}, but only {left} is left", hint
            )
        answers: list[Answer] = []
        for statement in statements:
            try:
                answers.append(self.query(statement, **options))
            except (BudgetError, RequestError) as error:
                if not answers:
                    raise
                # other analysts may have spent meanwhile, or a claim is protected
                raise type(error)(
                    f"statement {len(answers) + 1} of {len(statements)} was refused: {error.what}",
                    "The statements before it were answered and charged. Asking them again is free.",
                ) from None
        return answers

    @checked
    def infer(
        self,
        sql: str,
        *,
        confidence: object = None,
        error: object = None,
        between: Sequence[object] | None = None,
        intervals: object = "simultaneous",
        method: object = "blue",
        guaranteed: bool = False,
        prior: object = None,
        chosen: object = 1,
        params: Mapping[str, object] | None = None,
    ) -> Inference:
        """Answer a statement from earlier answers alone, free and without reading the data.

        Parameters
        ----------
        sql : str
            As for :meth:`query`, without computed columns.
        confidence : float
            Between 0 and 1; 0.95, the default, gives 95 % confidence intervals.
        error : number above 0
            A margin of error, in units of the aggregate. Alone, dpnb finds its confidence. With
            ``confidence``, the result says whether earlier answers reach it.
        between : pair of numbers
            An interval whose confidence dpnb finds. Not with ``confidence`` or ``error``.
        intervals : {'simultaneous', 'each'}
            Whether the confidence holds for all confidence intervals together or for each on its
            own.
        method : {'blue', 'mc', 'pc'}
            'blue' is the best linear unbiased estimate, with the exact distribution of its noise.
            'mc' and 'pc' are the approximations of Xiao and Xiong, for study.
        guaranteed : bool
            Return bounds that hold however you chose the question, even if earlier answers do not
            determine a value. They are wider.
        prior : optional
            'nonnegative', or public knowledge about the value: see ``dpnb.estimation.prior``.
        chosen : int, at least 1, or 'any'
            From how many questions you picked this one after seeing their answers. Confidence
            intervals with 'any' hold for any choice, and are wider the more values were answered.
        params : mapping of str to value
            Values of the parameters ``:name``.

        Returns
        -------
        Inference
            Estimates, confidence intervals and the earlier answers used.

        Raises
        ------
        SqlError
            If the statement cannot be answered in any case.
        RequestError
            If earlier answers determine none of the values. The error says what is missing.

        Notes
        -----
        docs/methods/bayes.md derives estimates, confidence intervals and bounds.

        Examples
        --------
        >>> answer = session.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", rho=0.1)
        >>> inference = session.infer("SELECT COUNT(*) AS n FROM people")
        >>> inference.low < inference.estimate < inference.high
        True
        """
        if prior is not None:
            from dpnb.estimation.prior import plain_prior

            prior = plain_prior(prior)
        options = {
            "confidence": confidence,
            "error": error,
            "between": between,
            "intervals": intervals,
            "method": method,
            "guaranteed": guaranteed,
            "prior": prior,
            "chosen": chosen,
        }
        inference: Inference = self._backend.run(
            Call("infer", sql, options, params), threading.Event()
        )
        return inference

    @checked
    def explain(
        self,
        question: Question,
        *,
        k: int = 5,
        rho: object = None,
        epsilon: object = None,
        error: object = None,
        confidence: object = 0.95,
        joint: bool = False,
        mode: str = "tight",
        anyway: bool = False,
        attributes: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        length: int = 1,
        connective: str = "and",
        ranges: bool = False,
        predicates: Sequence[str] | None = None,
        lower: object = "0.1",
        progress: Progress | None = None,
    ) -> Explanation:
        """Find the parts of the data that account for a difference.

        Parameters
        ----------
        question : Question
            From :meth:`Answer.compare`, on an answer of this session.
        k : int, at least 1
            How many predicates to show; fewer if there are fewer.
        rho, epsilon : number above 0; rho also a mapping
            Give one of the two: the privacy cost on top of the answer, a quarter each for selection
            and influences, half for ranks. A mapping gives a rho for each (topk, influence, rank).
            By default it is free if the same explanation was released to you before, else a fifth
            of what is left.
        error : number above 0
            Instead of a cost: the margin of error of the displayed influences, 0.02 for 2 %.
        confidence : float
            Between 0 and 1; 0.95 gives 95 % confidence intervals.
        joint : bool
            Whether the confidence holds for all predicates together instead of for each on its own.
        mode : {'tight', 'paper'}
            'paper' uses the published sensitivities and margins, which are 4 to 8 times larger.
        anyway : bool
            Explain even a difference that may be noise or has the other sign, or with a margin of
            error almost as large as the difference.
        attributes, exclude : sequences of str
            Columns whose declared values may explain the difference. By default all except those of
            the question, with one of each set of aliases.
        length : int
            Number of attributes in one predicate, 1 to 3.
        connective : {'and', 'or'}
            How several attributes are joined.
        ranges : bool
            Also use every run of neighbouring bins of an ordered attribute.
        predicates : sequence of str
            Conditions as in WHERE, instead of attributes.
        lower : number
            Share of the ranks' budget, between 0 and 1, that goes to lower bounds.
        progress : callable
            As in :meth:`query`.

        Returns
        -------
        Explanation
            The same request returns the stored explanation, free.

        Raises
        ------
        RequestError
            For an invalid option. Unless ``anyway``, also for a difference that may be noise, and
            if the default cost would leave a margin of error of more than three quarters of the
            difference. Nothing was charged.
        BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.

        Notes
        -----
        docs/methods/dpxplain.md defines influence and rank, and derives their confidence intervals.

        Examples
        --------
        >>> answer = session.query("SELECT sex, AVG(wage) AS wage FROM people GROUP BY sex", rho=0.5)
        >>> explanation = session.explain(answer.compare("Male", "Female"), k=2, rho=0.5, anyway=True)
        >>> len(explanation.to_frame())
        2
        """
        options = _explanation_options(
            k=k, rho=rho, epsilon=epsilon, error=error, confidence=confidence, joint=joint,
            mode=mode, attributes=attributes, exclude=exclude, length=length,
            connective=connective, ranges=ranges, predicates=predicates, lower=lower,
        )  # fmt: skip
        call = Call("explain", question, options)
        if not truth(anyway, "anyway"):
            _check_worth_explaining(question)
            self._backend.price(call).check_worth()
        explanation: Explanation = self._run(call, progress)
        return explanation

    @checked
    def decide(
        self,
        sql: str,
        *,
        beta: object = 0.05,
        alpha: object = 0.1,
        u: object = None,
        ranges: object = None,
        rows: object = None,
        mode: str = "certified",
        protect: str = "fnr",
        confidence: object = 0.95,
        thresholds: Mapping[str, Mapping[Any, object]] | None = None,
        steps: int | None = None,
        most: object = None,
        history: bool = True,
        params: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Decision:
        """Select the declared groups that satisfy a HAVING condition, and bound wrong decisions.

        Parameters
        ----------
        sql : str
            One SELECT over one table with GROUP BY and HAVING: AND, OR, NOT and BETWEEN over COUNT,
            SUM, AVG and COUNT(DISTINCT column), compared with numbers.
        beta : float
            Largest probability of a false negative: leaving out a group that satisfies the
            condition. Between 0 and 0.5.
        alpha : float
            Between 0 and 1. In mode 'certified' the list is certified if at most this share of it may
            be wrong, and no further step is taken if at most this share of the groups that do not
            satisfy the condition is selected; else a bound on the probability of a false positive.
        u : number above 0, or mapping by alias
            The first uncertain region: how far below its threshold a noisy value may lie without
            being rejected, in units of the aggregate. By default 30 % of the declared range, else
            of the threshold; for AVG 5 % of the width of its bounds.
        ranges : number, pair, or mapping by alias
            Public widths of the range of an aggregate over groups, in its units.
        rows : number or mapping by alias
            For AVG: the number of rows in a group to which ``u`` refers. By default the count in
            the condition.
        mode : {'certified', 'margin', 'rr', 'hybrid'}
            'certified': steps of rising accuracy until one of the shares reaches ``alpha``. 'margin':
            one step; false positives are bounded for groups that miss their thresholds by ``u``.
            'rr': randomised response, which bounds both errors of every group. 'hybrid': one step,
            and randomised response for what it leaves in doubt. On public tables also the published
            methods, for study: 'paper', 'probe', 'probe-naive', 'probe-ent', 'naive', 'ppwlm',
            'ddpwlm'.
        protect : {'fnr', 'fpr'}
            'fpr' bounds false positives beforehand and certifies false negatives.
        confidence : float
            Confidence of the certificate, between 0 and 1.
        thresholds : mapping of name to mapping of group to number
            Numbers for ``:name`` in HAVING that differ by group. Every declared group needs one.
        steps : int, at least 1
            How many steps to take; by default as many as needed.
        most : number above 0
            The most that the whole decision may cost, in rho, or in epsilon in a pure session.
        history : bool
            False ignores earlier releases.
        params : mapping of str to value
            Values of the parameters ``:name``.
        progress : callable
            As in :meth:`query`.

        Returns
        -------
        Decision
            The same request returns the stored steps, free. If a further step is refused or
            interrupted, the result has the steps that were paid.

        Raises
        ------
        SqlError, RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.

        Notes
        -----
        docs/methods/probe.md derives the bounds and the certificate.

        Examples
        --------
        >>> sql = "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 100"
        >>> decision = session.decide(sql, beta=0.05, most=1)
        >>> set(decision.strict) <= set(decision.selected)
        True
        """
        options = {
            "beta": beta,
            "alpha": alpha,
            "u": u,
            "ranges": ranges,
            "rows": rows,
            "mode": mode,
            "protect": protect,
            "confidence": confidence,
            "thresholds": thresholds,
            "steps": steps,
            "most": most,
            "history": history,
        }
        decision: Decision = self._run(Call("decide", sql, options, params), progress, shown=True)
        # later steps must not see changes to the caller's mappings
        options_copy: dict[str, Any] = _copied(options)
        # in a notebook, params holds all its names; keep only those in the statement alive
        words = re.findall(r"\w+", sql)
        options_copy["params"] = {name: params[name] for name in words if params and name in params}

        def further(count: int) -> Decision:
            return self.decide(sql, **{**options_copy, "steps": count})

        return replace(decision, further=further)

    @checked
    def discover(
        self,
        column: str,
        *,
        table: str | None = None,
        rho: object = None,
        epsilon: object = None,
        delta: object = None,
        confidence: object = 0.95,
        progress: Progress | None = None,
    ) -> Discovery:
        """List the values of an undeclared column that many rows, or people, have.

        The budget needs a ``key_delta``: ``Budget(epsilon=3, delta=1e-6, key_delta=1e-7)``. To
        group by the values, declare them (``Discovery.category``) and open the ledger again with
        ``new_version=True``. Texts of more than 100 letters are left out.

        Parameters
        ----------
        column : str
            One of the table's ``undeclared`` columns.
        table : str, optional
            Needed if several tables have such columns.
        rho, epsilon : number above 0
            Give one of the two: the privacy cost. A larger one finds rarer values.
        delta : number
            How much of ``key_delta`` to use, above 0; by default a tenth. It hardly changes the
            result.
        confidence : float
            Confidence of the statement about hidden values, at least 0.5 and below 1.
        progress : callable
            As in :meth:`query`.

        Returns
        -------
        Discovery
            The same request returns the stored result, free.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.

        Notes
        -----
        docs/methods/accounting.md derives the threshold.

        Examples
        --------
        >>> discovery = session.discover("city", rho=0.5)
        >>> "Paris" in discovery.keys
        True
        """
        options = {
            "table": table, "rho": rho, "epsilon": epsilon, "delta": delta, "confidence": confidence
        }  # fmt: skip
        discovery: Discovery = self._run(Call("discover", column, options), progress)
        return discovery

    def price_discovery(self, column: str, **options: Any) -> DiscoveryPrice:
        """Return what :meth:`discover` costs now, and how common a value must be to appear. Free.

        Parameters
        ----------
        column : str
            One of the table's ``undeclared`` columns.
        options
            Other arguments of :meth:`discover`.

        Returns
        -------
        DiscoveryPrice
            The cost, and how many rows a value needs to be shown.

        Raises
        ------
        RequestError
            For a column that is not undeclared, or an invalid option.

        Examples
        --------
        >>> session.price_discovery("city", rho=0.5).affordable
        True
        """
        _check_names(options, Session.discover)
        price: DiscoveryPrice = self._backend.price(Call("discover", column, options))
        return price

    @overload
    def price(self, sql: str, **options: Any) -> Price: ...

    @overload
    def price(self, sql: Question, **options: Any) -> ExplanationPrice: ...

    @overload
    def price(self, sql: Sequence[str], **options: Any) -> list[Price]: ...

    @checked
    def price(
        self,
        sql: str | Question | Sequence[str],
        *,
        params: Mapping[str, object] | None = None,
        **accuracy: Any,
    ) -> Price | ExplanationPrice | DecisionPrice | list[Price]:
        """Return what statements would cost now, and their margins of error. Free.

        Parameters
        ----------
        sql : str, Question, or sequence of str
            A statement is priced as an answer, or as a decision if you pass an argument that only
            :meth:`decide` has, such as ``beta``. A Question is priced as an explanation. A list is
            priced as if its statements were answered one after the other.
        params : mapping of str to value
            Values of the parameters ``:name``.
        accuracy
            Other arguments of :meth:`query`, :meth:`explain` or :meth:`decide`. With ``error`` the
            result has the cost of this margin of error.

        Returns
        -------
        Price, ExplanationPrice, DecisionPrice, or list of Price
            Cost, margins of error, and whether the budget covers it.

        Raises
        ------
        SqlError, RequestError
            As in the method that would be called.

        Examples
        --------
        >>> session.price("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", rho=0.1).affordable
        True
        """
        if isinstance(sql, str) and accuracy.keys() & _DECIDING:
            _check_names(accuracy, Session.decide)
            decision: DecisionPrice = self._backend.price(Call("decide", sql, accuracy, params))
            return decision
        if isinstance(sql, Question):
            accuracy.pop("anyway", None)
            explanation: ExplanationPrice = self._backend.price(
                Call("explain", sql, _explanation_options(**accuracy))
            )
            return explanation
        if not isinstance(sql, (str, list, tuple)):
            raise RequestError(
                "there is no statement", "Pass SQL as a string, or a list of strings."
            )
        statements = [sql] if isinstance(sql, str) else list(sql)
        _check_names(accuracy, Session.query)
        prices: list[Price] = self._backend.price(Call("query", statements, accuracy, params))
        return prices[0] if isinstance(sql, str) else prices

    def _run(self, call: Call, progress: Progress | None, *, shown: bool = False) -> Any:
        """Run a call until it ends or an interrupt stops it, and return its result."""
        cancel = threading.Event()
        run = partial(self._backend.run, call, cancel)
        return wait(run, cancel, self._backend.interrupt, progress, shown=shown)

    @property
    def ledger(self) -> str:
        """Public name of the ledger; results have it, too."""
        return self._backend.ledger

    @property
    def budget(self) -> BudgetStatus:
        """The budget: limit, spent and remaining."""
        return self._backend.budget

    @property
    def history(self) -> InfoTable:
        """The requests answered so far, oldest first."""
        budget = self._backend.budget
        requests = self._backend.history

        def cost(request: Asked) -> str:
            spent = loss_text(request.spent, budget.privacy, None)
            return f"{spent}, data-dependent" if request.conditional else spent

        rows = tuple(
            (f"{i:,}", format_time(request.time), request.sql, cost(request))
            for i, request in enumerate(requests, start=1)
        )
        caption = (
            "1 request was answered" if len(rows) == 1 else f"{len(rows):,} requests were answered"
        )
        if not rows:
            caption = "No request has been answered yet"
        picked = any(request.conditional for request in requests)
        notes = (f"Data-dependent: {PICKED}.",) if picked else ()
        return InfoTable(
            caption, ("", "time (UTC)", "statement", "privacy cost"), rows, budget.stamp, notes
        )

    @property
    def tables(self) -> InfoTable:
        """The declared tables and columns."""
        rows = tuple(
            (name, column, kind.kind, _domain(kind.to_dict()))
            for name, table in self._backend.tables.items()
            for column, kind in table.schema.items()
        )
        rows += tuple(
            (name, column, "undeclared", "find values with session.discover")
            for name, table in self._backend.tables.items()
            for column in table.schema.undeclared
        )
        notes: tuple[str, ...] = ()
        if any(table.unit is not None for table in self._backend.tables.values()):
            notes = tuple(filter(None, [protection(self._backend.tables)]))
        header = ("table", "column", "kind", "declared values")
        return InfoTable("Declared columns", header, rows, notes=notes)

    def rehearse(self, rows: int = 10_000, seed: int = 0) -> Session:
        """Open a session on generated data, to try code before spending. Free.

        Its tables have the names, columns and privacy units of this session's. The rows are
        generated from public facts alone, so its answers say nothing about the data, and are
        stamped. Its budget is what is left here, or the whole budget if nothing is left. It has
        neither earlier answers, which can make statements cheaper here, nor the owner's views. The
        noise is real.

        Parameters
        ----------
        rows : int
            Number of rows of each table, from 0 to 10,000,000.
        seed : int
            0 or more. The same seed gives the same rows.

        Returns
        -------
        Session
            A session with a ledger in memory.

        Raises
        ------
        RequestError
            For a number out of range.

        Examples
        --------
        >>> import dpnb
        >>> session = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(rho="0.5"))
        >>> session.rehearse()
        GENERATED DATA: nothing here is real. Session(adult; left: rho 0.5)
        """
        from dpnb.rehearsal import rehearsal

        return Session._of(
            rehearsal(self._backend.tables, self._backend.budget, rows, seed), owner=True
        )

    def close(self) -> None:
        """Release the data and close the ledger, if this session opened them.

        Examples
        --------
        >>> session.close()
        """
        self._backend.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            names = ", ".join(self._backend.tables)
            left = self._backend.budget
        except DpnbError as error:
            return f"Session({printable(error.what)})"
        amount = loss_text(left.remaining, left.privacy, left.delta, left=True)
        stamp = f"{STAMPS[left.stamp]} " if left.stamp else ""
        return f"{stamp}Session({names}; left: {amount})"

    def __reduce__(self) -> Any:
        raise TypeError("a Session leads to sensitive data and cannot be pickled")


_DECIDING = signature(Session.decide).parameters.keys() - signature(Session.query).parameters.keys()
"""Arguments that only decisions have."""


def _explanation_options(**options: Any) -> dict[str, Any]:
    """Check the names of an explanation's options, and return the options."""
    _check_names(options, Session.explain)
    return options


def _copied(value: Any) -> Any:
    """Copy mappings and lists at all depths; return anything else unchanged."""
    if isinstance(value, Mapping):
        return {name: _copied(entry) for name, entry in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list) else value


def _check_names(options: Mapping[str, Any], method: Callable[..., Any]) -> None:
    option_names = [
        name
        for name in signature(method).parameters
        if name not in ("self", "sql", "column", "progress")
    ]
    unknown = min(options.keys() - option_names, default=None)
    if unknown is not None:
        raise RequestError(f"unknown option {given(unknown)}", nearest(unknown, option_names))


def _check_worth_explaining(question: Question) -> None:
    """Refuse a difference that may be noise; uses released values only."""
    if not isinstance(question, Question) or question.valid:
        return
    if question.high < 0:
        raise RequestError(
            f"the answer shows that {question.left} is lower than {question.right}, not higher",
            "Swap the groups (question.flipped()), or pass anyway=True. Nothing was charged.",
        )
    raise RequestError(
        "the difference could be noise, so an explanation of it may be meaningless",
        "Ask the query more accurately first, or pass anyway=True. Nothing was charged.",
    )


def _domain(declaration: Mapping[str, Any]) -> str:
    if "values" in declaration:
        values = declaration["values"]
        return ", ".join(values[:8]) + (f", ... ({len(values)})" if len(values) > 8 else "")
    if "low" not in declaration:
        return "FALSE, TRUE"
    low, high = (_written(declaration[end]) for end in ("low", "high"))
    bins = declaration.get("bins")
    edges = f"; bins at {', '.join(map(_written, bins))}" if bins else ""
    return f"{low} to {high}{edges}"


def _written(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
