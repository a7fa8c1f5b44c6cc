"""One analyst's handle on a curator."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dpnb.answers.answer import Answer
from dpnb.answers.listing import Asked, BudgetStatus, Listing, Price, minute
from dpnb.answers.numbers import loss_text
from dpnb.answers.question import Question
from dpnb.channel import Channel, LocalChannel
from dpnb.curator import Curator
from dpnb.errors import BudgetError, DpnbError, RequestError, printable
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PICKED
from dpnb.provenance.requests import ANALYST
from dpnb.stamps import STAMPS
from dpnb.table import Table
from dpnb.waiting import Progress, wait

if TYPE_CHECKING:
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice
    from dpnb.explain.explanation import Explanation
    from dpnb.explain.price import ExplanationPrice
    from dpnb.inference.inference import Inference
    from dpnb.keys.discovery import Discovery, DiscoveryPrice
    from dpnb.privacy.noise import Noise


class Session:
    """Ask questions of sensitive tables under one budget.

    Parameters
    ----------
    tables : Table or sequence of Table
        Read once, when the session opens.
    budget : Budget, optional
        The cap; needed unless the ledger exists already.
    ledger : str or Path, optional
        File of charges and releases. None keeps it in this process only: asking again after a
        restart spends again.
    anchor : str or Path, optional
        File that detects a restored older copy of the ledger. One that is not there is refused beside
        a ledger that has entries.
    new_anchor : bool
        Begin the anchor of a ledger that has entries: it is trusted as it is.
    new_version : bool
        Accept other data than the ledger has seen; what was spent is kept.

    Raises
    ------
    SchemaError, LedgerError, RequestError

    Examples
    --------
    >>> import dpnb
    >>> session = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=3, delta=1e-6))
    >>> answer = session.query("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", rho=0.1)
    >>> list(answer.to_frame().columns)
    ['sex', 'n', 'n_low', 'n_high']
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
        noise: Noise | None = None,
    ) -> None:
        self._curator: Curator | None = Curator(
            tables,
            budget=budget,
            ledger=ledger,
            anchor=anchor,
            new_anchor=new_anchor,
            new_version=new_version,
            noise=noise,
        )
        self._channel: Channel = LocalChannel(self._curator, ANALYST, owned=True)

    @classmethod
    def _of(cls, channel: Channel, curator: Curator | None = None) -> Session:
        """Return a session over a channel; ``curator`` where its holder owns the data."""
        session = cls.__new__(cls)
        session._channel, session._curator = channel, curator
        return session

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
        """Answer one statement privately.

        Parameters
        ----------
        sql : str
            SELECT with COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN and QUANTILE over one table, WHERE,
            GROUP BY, ORDER BY, LIMIT. Aggregates take arithmetic and CASE, quantiles a bare column
            with bins or of whole numbers; results combine by + - * /, EXP, LN and SQRT. For a mean
            write AVG: its interval is narrower than that of SUM / COUNT.
        rho, epsilon : number
            The level of the statement as if bought alone, split over its vectors by a fixed public
            rule; what is already held is deducted. One that was picked by looking at the data, a
            ``Picked``, marks the answer and what follows from it as conditional.
        error : number or dict of alias to number
            Instead of a level: the half-width of the displayed intervals. What past answers to other
            statements tell is used first, and only what is missing is bought.
        rows : int
            With AVG and ``error``: the error holds for groups of at least so many rows.
        confidence : float
            Between 0 and 1.
        looks : 1 or 'any'
            'any' gives intervals that hold at all looks together, for levels fixed beforehand:
            when to stop may depend on the answers.
        intervals : {'simultaneous', 'each'}
            Whether the confidence is for all intervals together or for each on its own.
        split : number
            Share of an AVG's level that goes to its sum.
        history : bool
            False leaves past answers to other statements aside.
        params : mapping
            Values of the bound parameters ``:name``.
        progress : callable
            Called with the elapsed seconds every quarter second once a second has passed.

        Returns
        -------
        Answer
            Asked again in the same words, the stored numbers at no cost.

        Raises
        ------
        SqlError, RequestError, BudgetError
            On public facts only; nothing was charged.
        EngineError
            One fixed text for every failure of the engine; nothing was charged.
        InterruptedRequestError
            After Ctrl-C or the stop button; says whether anything was charged.
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
        cancel = threading.Event()

        def ask() -> Answer:
            return self._channel.query(sql, params, accuracy, cancel)

        return wait(ask, cancel, self._channel.interrupt, progress)

    def query_all(self, statements: Sequence[str], **options: Any) -> list[Answer]:
        """Answer statements one after the other; none is asked unless all can be paid at the start.

        The options are those of :meth:`query`; what each will cost tells :meth:`price` with the same
        list. Later statements rest on the answers to earlier ones.

        Raises
        ------
        BudgetError
            When the statements cannot be paid together; nothing was charged.
        SqlError, RequestError, EngineError, InterruptedRequestError
            As :meth:`query`; answers that were given before an interruption are kept by the ledger.
        """
        priced = {name: value for name, value in options.items() if name != "progress"}
        prices = self.price(list(statements), **priced)
        if not prices:
            raise RequestError("the list of statements is empty", "Pass a list of SQL strings.")
        whole = Price.together(prices)
        if not whole.affordable:
            cost = loss_text(whole.spent, whole.currency, None)
            left = loss_text(whole.remaining, whole.currency, None, left=True)
            raise BudgetError(
                f"together these statements cost {cost}, but only {left} is left",
                "Leave some out, or ask for larger margins of error. Nothing was charged.",
            )
        found: list[Answer] = []
        for one in statements:
            try:
                found.append(self.query(one, **options))
            except (BudgetError, RequestError) as error:
                if not found:
                    raise
                # others may have spent meanwhile, or a claim is protected
                raise type(error)(
                    f"statement {len(found) + 1} of {len(statements)} was refused: {error.what}",
                    "The statements before it were answered and charged. Asking them again is free.",
                ) from None
        return found

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
        """Work a statement out from past answers alone. Always free: the data are not looked at.

        Parameters
        ----------
        sql : str
            As for :meth:`query`, without computed columns.
        confidence : float
            Between 0 and 1; 0.95 by default.
        error : number
            Half-width of the intervals. Alone: the confidence that it has is found. With a
            confidence: whether past answers reach it is said.
        between : pair of numbers
            An interval, whose confidence is found. Not with ``confidence`` or ``error``.
        intervals : {'simultaneous', 'each'}
            Whether the confidence is for all intervals together or for each on its own.
        method : {'blue', 'mc', 'pc'}
            'blue': best linear unbiased estimate with the exact law of its noise; for Gaussian noise
            it is the whole posterior. 'mc', 'pc': the approximations of Xiao and Xiong, for study.
        guaranteed : bool
            Bounds that hold whatever is asked about the table and however it was chosen, and also where
            past answers do not determine a value (linear programs; wider).
        prior : optional
            'nonnegative', or public knowledge about the value: see ``dpnb.inference.priors``.
        chosen : int or 'any'
            How many questions this one was picked from after seeing their answers; 'any' for
            intervals that hold for whatever choice of a question about the table (Scheffe's; the
            wider the more values were answered).
        params : mapping
            Values of the bound parameters ``:name``.

        Returns
        -------
        Inference

        Raises
        ------
        SqlError, RequestError
            Also when past answers determine none of the values; says what is missing.
        """
        if prior is not None:
            from dpnb.inference.priors import plain_prior

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
        return self._channel.infer(sql, params, options)

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
        """Explain a difference: which parts of the data have most influence on it.

        Parameters
        ----------
        question : Question
            From :meth:`Answer.compare` on an answer of this session.
        k : int
            Predicates to show.
        rho, epsilon : number; rho also a mapping
            What the explanation costs beyond the answer: split 1:1:2 over selection, influences and
            ranks, or a rho for each by name (topk, influence, rank). By default nothing where the
            same explanation was released to you at whatever cost, else a fifth of what is left.
        error : number
            Instead: half-width of the influences' intervals as they are shown, 0.02 for 2 %.
        confidence : float
            Between 0 and 1.
        joint : bool
            Confidence for all rows together instead of each on its own.
        mode : {'tight', 'paper'}
            'paper' uses the published, 4 to 8 times larger sensitivities and margins.
        anyway : bool
            Explain although noise may explain the difference, or although it points the other way.
        attributes, exclude : sequences of str
            Columns whose declared values explain; by default all but those of the question, one of
            each set of aliases.
        length : int
            Attributes in one predicate, 1 to 3.
        connective : {'and', 'or'}
            How several attributes are joined.
        ranges : bool
            For ordered attributes every run of neighbouring bins.
        predicates : sequence of str
            Conditions as in WHERE, instead of attributes.
        lower : number
            Share of the ranks' budget that goes to lower bounds.
        progress : callable
            As in :meth:`query`.

        Returns
        -------
        Explanation
            Asked again with the same options, the stored one at no cost.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        options = _explanation_options(
            k=k, rho=rho, epsilon=epsilon, error=error, confidence=confidence, joint=joint,
            mode=mode, attributes=attributes, exclude=exclude, length=length,
            connective=connective, ranges=ranges, predicates=predicates, lower=lower,
        )  # fmt: skip
        if not anyway:
            _check_worth_explaining(question)
        cancel = threading.Event()

        def ask() -> Explanation:
            return self._channel.explain(question, options, cancel)

        return wait(ask, cancel, self._channel.interrupt, progress)

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
        """Decide which declared groups satisfy a HAVING, with bounded errors.

        Parameters
        ----------
        sql : str
            One SELECT over one table with GROUP BY and HAVING: AND, OR, NOT, BETWEEN over COUNT, SUM,
            AVG and COUNT(DISTINCT column), compared with numbers.
        beta : float
            Bound on the chance to leave out a group that satisfies it; below 0.5.
        alpha : float
            The share of false alarms that the certificate is to reach (mode 'certified'), or a bound
            on the chance of a false alarm.
        u : number or mapping by alias
            The first uncertain region: how far below its threshold a noisy value may lie without being
            rejected, in units of the aggregate. By default 30 % of the declared range, else of the
            threshold; for AVG 5 % of the width of its bounds.
        ranges : number, pair, or mapping by alias
            Public widths of the range of an aggregate over groups.
        rows : number or mapping by alias
            Rows of a group for which ``u`` of an AVG is said; by default the count that is asked for
            beside it.
        mode : {'certified', 'margin', 'rr', 'hybrid'}
            'certified': steps of rising accuracy until a certificate reaches ``alpha``. 'margin': one
            step; false alarms are bounded for groups that miss their thresholds by ``u``. 'rr':
            randomised response, both errors bounded for every group. 'hybrid': one step, and
            randomised response for what it leaves in doubt. On public tables also the published
            methods, for study: 'paper', 'probe', 'probe-naive', 'probe-ent', 'naive', 'ppwlm',
            'ddpwlm'.
        protect : {'fnr', 'fpr'}
            'fpr' bounds false alarms beforehand and certifies misses.
        confidence : float
            Of the certificate.
        thresholds : mapping of name to mapping of group to number
            Numbers for ``:name`` in HAVING that differ by group; every declared group has one.
        steps : int
            How many steps to take; by default as many as it takes.
        most : number
            The most that the decision may cost in all, in the session's currency.
        history : bool
            False leaves values that were seen before aside.
        params, progress
            As in :meth:`query`.

        Returns
        -------
        Decision
            Asked again, the stored steps at no cost. What was paid for is shown also when a further
            step is refused or interrupted.

        Raises
        ------
        SqlError, RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
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
        cancel = threading.Event()

        def ask() -> Decision:
            return self._channel.decide(sql, params, options, cancel)

        found = wait(ask, cancel, self._channel.interrupt, progress, shown=True)
        # what is changed afterwards in the caller's mappings is of no later step
        same: dict[str, Any] = _copied(options)
        # a notebook's names are passed whole: no others are kept alive
        words = re.findall(r"\w+", sql)
        same["params"] = {name: params[name] for name in words if params and name in params}

        def further(count: int) -> Decision:
            return self.decide(sql, **{**same, "steps": count})

        return replace(found, further=further)

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
        """Find the values of a column that nobody declared, as far as many rows have them.

        Needs a delta that was set aside: ``Budget(epsilon=3, delta=1e-6, key_delta=1e-7)``. What is
        found is the same for all later requests; to group by it, declare it (``Discovery.category``)
        and open the ledger again with ``new_version=True``. Texts of more than 100 letters are left out.

        Parameters
        ----------
        column : str
            One of the table's ``undeclared`` columns.
        table : str, optional
            Needed where several tables have such columns.
        rho, epsilon : number
            What it costs; more finds rarer values.
        delta : number
            What it takes of ``key_delta``; by default a tenth. It hardly matters for what is found.
        confidence : float
            From 0.5 to below 1, of what is said about hidden values.
        progress : callable
            As in :meth:`query`.

        Returns
        -------
        Discovery
            Asked again with the same amounts, the stored one at no cost.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        options = {
            "table": table, "rho": rho, "epsilon": epsilon, "delta": delta, "confidence": confidence
        }  # fmt: skip
        cancel = threading.Event()

        def ask() -> Discovery:
            return self._channel.discover(column, options, cancel)

        return wait(ask, cancel, self._channel.interrupt, progress)

    def price_discovery(self, column: str, **options: Any) -> DiscoveryPrice:
        """Return what :meth:`discover` would cost now, and which values it would show. Free."""
        _check_names(options, Session.discover)
        return self._channel.price_discovery(column, options)

    @overload
    def price(self, sql: str, **options: Any) -> Price: ...

    @overload
    def price(self, sql: Question, **options: Any) -> ExplanationPrice: ...

    @overload
    def price(self, sql: Sequence[str], **options: Any) -> list[Price]: ...

    def price(
        self,
        sql: str | Question | Sequence[str],
        *,
        params: Mapping[str, object] | None = None,
        **accuracy: Any,
    ) -> Price | ExplanationPrice | DecisionPrice | list[Price]:
        """Return what statements would cost now and how wide their intervals would be. Free.

        A list is priced as if its statements were asked one after the other. The other arguments
        are those of :meth:`query`. A Question is priced as an explanation, with the arguments of
        :meth:`explain`; ``error`` tells the rho that a wanted width needs. With ``beta`` or another
        argument that only :meth:`decide` has, the statement is planned as a decision.
        """
        if isinstance(sql, str) and accuracy.keys() & _DECIDING:
            _check_names(accuracy, Session.decide)
            return self._channel.price_decision(sql, params, accuracy)
        if isinstance(sql, Question):
            accuracy.pop("anyway", None)
            return self._channel.price_explanation(sql, _explanation_options(**accuracy))
        if not isinstance(sql, (str, list, tuple)):
            raise RequestError(
                "there is no statement", "Pass SQL as a string, or a list of strings."
            )
        statements = [sql] if isinstance(sql, str) else list(sql)
        _check_names(accuracy, Session.query)
        prices = self._channel.price(statements, params, accuracy)
        return prices[0] if isinstance(sql, str) else prices

    @property
    def ledger(self) -> str:
        """Public name of the ledger; results carry it."""
        return self._channel.ledger

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining."""
        return self._channel.budget

    @property
    def history(self) -> Listing:
        """The requests answered so far, oldest first."""
        budget = self._channel.budget
        asked = self._channel.history

        def cost(one: Asked) -> str:
            spent = loss_text(one.spent, budget.currency, None)
            return f"{spent}, data-dependent" if one.conditional else spent

        rows = tuple(
            (f"{i:,}", minute(one.time), one.sql, cost(one)) for i, one in enumerate(asked, start=1)
        )
        caption = (
            "1 request was answered" if len(rows) == 1 else f"{len(rows):,} requests were answered"
        )
        if not rows:
            caption = "No request was answered yet"
        picked = any(one.conditional for one in asked)
        notes = (f"Data-dependent: {PICKED}.",) if picked else ()
        return Listing(
            caption, ("", "time (UTC)", "statement", "privacy cost"), rows, budget.stamp, notes
        )

    @property
    def tables(self) -> Listing:
        """The declared tables and columns."""
        rows = tuple(
            (name, column, kind.kind, _domain(kind.to_dict()))
            for name, table in self._channel.tables.items()
            for column, kind in table.schema.items()
        )
        rows += tuple(
            (name, column, "undeclared", "find values with session.discover")
            for name, table in self._channel.tables.items()
            for column in table.schema.undeclared
        )
        notes: tuple[str, ...] = ()
        if any(table.unit is not None for table in self._channel.tables.values()):
            protected = (
                f"{name} protects {'single rows' if table.unit is None else table.unit.text}"
                for name, table in self._channel.tables.items()
                if table.key is None
            )
            notes = (f"{'; '.join(protected)}.",)
        header = ("table", "column", "kind", "declared values")
        return Listing("Declared columns", header, rows, notes=notes)

    def rehearse(self, rows: int = 10_000, seed: int = 0) -> Session:
        """Return a session on generated data, to try cells before spending. Free.

        Its tables have the names, columns and privacy units of this session's; their rows are made up
        from what is public about these alone, so its answers tell nothing, and are stamped so. Its
        budget is what is left here (your whole one, once nothing is left), so that you see whether a
        plan fits. It knows neither what you hold already, which makes statements cheaper here, nor the
        views that the owner declared. Noise is real. Nothing of it is kept.

        Parameters
        ----------
        rows : int
            Of each table, from 0 to 10,000,000.
        seed : int
            0 or more; the same seed gives the same rows.

        Raises
        ------
        RequestError

        Examples
        --------
        >>> import dpnb
        >>> session = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(rho="0.5"))
        >>> session.rehearse()
        GENERATED DATA: nothing here is real. Session(adult; left: rho 0.5)
        """
        from dpnb.rehearsal import rehearsal

        channel = rehearsal(self._channel.tables, self._channel.budget, rows, seed)
        return Session._of(channel, channel.curator)

    def close(self) -> None:
        """Forget the data and close the ledger, when this session opened them."""
        self._channel.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            names = ", ".join(self._channel.tables)
            left = self._channel.budget
        except DpnbError as error:
            return f"Session({printable(error.what)})"
        amount = loss_text(left.remaining, left.currency, left.delta, left=True)
        stamp = f"{STAMPS[left.stamp]} " if left.stamp else ""
        return f"{stamp}Session({names}; left: {amount})"

    def __reduce__(self) -> Any:
        raise TypeError("a Session leads to sensitive data and cannot be pickled")


_DECIDING = signature(Session.decide).parameters.keys() - signature(Session.query).parameters.keys()
"""Arguments that tell a decision from a query."""


def _explanation_options(**options: Any) -> dict[str, Any]:
    """Return the options of an explanation."""
    _check_names(options, Session.explain)
    return options


def _copied(value: Any) -> Any:
    """Return mappings and lists copied through and through, and anything else as it is."""
    if isinstance(value, Mapping):
        return {name: _copied(one) for name, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _check_names(options: Mapping[str, Any], method: Callable[..., Any]) -> None:
    unknown = set(options) - (
        {*signature(method).parameters} - {"self", "sql", "column", "progress"}
    )
    if unknown:
        raise RequestError(f"unknown option {min(unknown)!r}", f"See Session.{method.__name__}.")


def _check_worth_explaining(question: Question) -> None:
    """Refuse to spend on what noise may have made; released values only."""
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
    low, high = (_written(declaration[end]) for end in ("low", "high"))
    bins = declaration.get("bins")
    edges = f"; bins at {', '.join(map(_written, bins))}" if bins else ""
    return f"{low} to {high}{edges}"


def _written(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
