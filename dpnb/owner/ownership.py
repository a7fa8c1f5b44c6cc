"""The part of a curator that only the owner may see and change, and analysts never reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dpnb.answers.assembly import status
from dpnb.errors import RequestError, given, nearest
from dpnb.owner.administration import Administration
from dpnb.owner.report import Provenance, report
from dpnb.privacy.loss import Amount, PrivacyLoss
from dpnb.releases.runner import Runner
from dpnb.results import BudgetStatus
from dpnb.views.histogram import Strategy


class Ownership:
    """Analysts, limits, grants, declared views and the provenance table of one ledger."""

    _runner: Runner

    @property
    def _owner(self) -> Administration:
        return Administration(self._runner)

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining of all analysts together."""
        with self._runner.reading():
            return status(self._runner.store)

    def double_cap(self) -> BudgetStatus:
        """Move to the next of the caps that ``Budget(doubling=True)`` declared; charges nothing.

        Returns
        -------
        BudgetStatus
            With the new cap.

        Raises
        ------
        RequestError
            If the budget was declared without ``doubling``.

        Notes
        -----
        docs/methods/accounting.md, statement 14.

        Examples
        --------
        >>> import dpnb
        >>> owner = dpnb.Curator(table, budget=dpnb.Budget(rho="0.5", doubling=True))
        >>> owner.double_cap().cap.rho
        Fraction(1, 1)
        """
        with self._runner.lock:
            self._runner.store.double_cap()
        return self.budget

    def add_analyst(self, name: str, privilege: int | Sequence[int]) -> None:
        """Register an analyst.

        Parameters
        ----------
        name : str
            Letters, digits and . _ @ + -, at most 64.
        privilege : int or sequence of int
            From 1 to the policy's ``top``. Several privileges give several accounts, each with a
            limit; the largest of these limits bounds all of them together. ``coalition(name)`` is
            their joint privacy loss.

        Raises
        ------
        RequestError
            For a name that is taken or unusable, for a privilege out of range, and with
            ``rows="sum"`` once anything was charged.

        Examples
        --------
        >>> curator.add_analyst("carol", 2)
        >>> curator.session("carol")
        Session(...)
        """
        self._administer(partial(self._owner.add_analyst, name, privilege))

    def register(self, analysts: Mapping[str, int | Sequence[int]]) -> None:
        """Register those analysts who are not registered yet.

        Parameters
        ----------
        analysts : mapping of str to int or sequence of int
            Names and privileges, as for :meth:`add_analyst`.

        Raises
        ------
        RequestError
            As :meth:`add_analyst`, and if a registered analyst has other privileges.

        Examples
        --------
        >>> curator.register({"alice": 4, "carol": 2})
        """
        self._administer(partial(self._owner.register, analysts))

    def disable(self, name: str) -> None:
        """Refuse an analyst's requests from now on.

        The account is kept, because its answers are out.

        Parameters
        ----------
        name : str
            A registered analyst.

        Raises
        ------
        RequestError
            For an unknown analyst.

        Examples
        --------
        >>> curator.disable("bob")
        """
        self._administer(partial(self._owner.enable, name, active=False))

    def enable(self, name: str) -> None:
        """Admit a disabled analyst again.

        Parameters
        ----------
        name : str
            A registered analyst.

        Raises
        ------
        RequestError
            For an unknown analyst, and if the analyst's reserve no longer fits into the budget.

        Examples
        --------
        >>> curator.disable("bob")
        >>> curator.enable("bob")
        """
        self._administer(partial(self._owner.enable, name, active=True))

    def set_privilege(self, name: str, privilege: int) -> None:
        """Give an analyst another privilege from now on.

        The analyst's limit follows from the privilege: it may rise, within the budget of all
        together. An analyst who has spent more than a lower limit is refused everything further.
        Nobody else's limit changes, except with ``rows="sum"``, where a change is possible only
        before the first charge. A limit that was set with :meth:`limit` stays. The ledger records
        the change with its date.

        Parameters
        ----------
        name : str
            A registered analyst.
        privilege : int
            From 1 to the policy's ``top``. It replaces the first privilege; further ones stay.

        Raises
        ------
        RequestError
            For an unknown analyst, a privilege out of range or in use by another account of the
            analyst, with ``rows="sum"`` once anything was charged, and if more would be reserved
            than is left.

        Examples
        --------
        >>> curator.set_privilege("bob", 2)
        """
        self._administer(partial(self._owner.set_privilege, name, privilege))

    def set_expansion(self, expansion: Amount) -> None:
        """Set how many times larger the limits are than the privileges say.

        A larger expansion raises what each analyst may spend alone, up to the budget of all
        together, which stays. With a smaller one, an analyst who has spent more than the new limit
        is refused everything further. A limit that was set with :meth:`limit` stays. The ledger
        records the change with its date.

        Parameters
        ----------
        expansion : number
            At least 1; see ``dpnb.Policy``.

        Raises
        ------
        RequestError
            For a number out of range, and if more would be reserved for the analysts than is left.

        Examples
        --------
        >>> curator.set_expansion(2)
        """
        self._administer(partial(self._owner.set_expansion, expansion))

    def set_reserve(self, reserve: Amount) -> None:
        """Reserve a larger share of each analyst's limit.

        A request of others is refused if it would use this share, as long as the budget is not
        lowered. It is a share of the analyst's current limit, and can be raised but not lowered.
        The ledger records the change with its date.

        Parameters
        ----------
        reserve : number
            From its current value to 1; see ``dpnb.Policy``.

        Raises
        ------
        RequestError
            For a smaller share, and if more would be reserved than is left of the budget.

        Examples
        --------
        >>> curator.set_reserve(0.1)
        """
        self._administer(partial(self._owner.set_reserve, reserve))

    def link(self, analyst: str, other: str) -> None:
        """Note that two analysts may share their answers.

        All analysts who are joined by links form one coalition. From now on the limit of a
        coalition (``Policy(together=...)``) holds for the larger one. A link cannot be removed,
        because the analysts may have shared their answers by then. The ledger records it with its
        date.

        Parameters
        ----------
        analyst, other : str
            Names; they need not be registered, as anybody can pass answers on.

        Raises
        ------
        RequestError
            If more was already released to the coalition than its limit, if it would be too large,
            and if coalitions have no limit.

        Examples
        --------
        >>> import dpnb
        >>> policy = dpnb.Policy(together=1)
        >>> budget = dpnb.Budget(epsilon=3, delta=1e-6)
        >>> shared = dpnb.Curator(table, budget=budget, analysts={"alice": 4, "bob": 1}, policy=policy)
        >>> shared.link("alice", "bob")
        """
        self._administer(partial(self._owner.link, analyst, other))

    def limit(
        self,
        analyst: str | None = None,
        *,
        view: str | None = None,
        column: str | Sequence[str] | None = None,
        table: str | None = None,
        rho: object = None,
        epsilon: object = None,
    ) -> None:
        """Set the limit of an analyst, of columns, of a declared view, or of all together.

        The limit of a column bounds what is released from all statements that read it, however they
        are written: in groups, conditions, arguments, explanations, decisions and discoveries. It
        is counted like the budget: disjoint groups share it, refinements pay the increase, and
        repeated questions are free.

        Three things still depend on the values of a limited column. A row without a value in a column
        that is declared ``complete`` is left out, so every number depends on that. Of an id with more
        than ``max_rows`` rows, an order that is fixed when a version of the table is opened decides
        which are kept: columns that had a limit then come last in it, and decide only between rows
        that are equal in all other columns. A limit that is set later changes this order only with the
        next version (``new_version=True``). With several limited columns, an answer that reads one of
        them may depend on the others by this order. :attr:`provenance` says which of these applies.

        A limit may be lower than what is spent: then everything further is refused. Analysts keep
        their limits if the budget of all together is raised; that is a new promise, which the
        ledger records.

        Parameters
        ----------
        analyst : str, optional
            A name, or ``'name#privilege'``. With a column: whose limit it is; by default that of
            all together.
        view : str, optional
            Name of a declared view. The limit bounds this view, and no other statement about its
            columns. Without analyst, view and column, this sets the budget of all together.
        column : str or sequence of str, optional
            One column, or several that share one limit.
        table : str, optional
            The table of the columns; needed if there are several. A new version of the table that
            drops or renames a limited column is refused; ``Curator(..., lift=[...])`` ends the limit.
        rho, epsilon : number, at least 0
            The new limit. 0 refuses everything.

        Raises
        ------
        RequestError
            For an unknown analyst, view, column or table, and an amount out of range.

        Notes
        -----
        docs/methods/accounting.md derives how the loss of columns adds up.

        Examples
        --------
        >>> curator.limit("bob", rho=0.01)
        >>> curator.limit(column="age", rho=0.1)
        """
        if view is not None and (analyst is not None or column is not None):
            raise RequestError(
                "a limit is for an analyst, a column or a view, not for two of them",
                "Write limit('bob', rho=0.1) or limit(view='age', rho=0.1).",
            )
        if table is not None and column is None:
            raise RequestError(
                "table says whose column is limited, but column is missing",
                "Write limit(column='age', table='people', rho=0.1).",
            )
        if column is not None:
            self._administer(
                partial(self._owner.limit_columns, column, table, analyst, rho, epsilon)
            )
            return
        scope = (
            "table" if analyst is None and view is None else "view" if analyst is None else "row"
        )
        self._administer(
            partial(self._owner.limit, scope, analyst if view is None else view, rho, epsilon)
        )

    def grant(
        self,
        giver: str,
        receiver: str,
        *,
        rho: object = None,
        epsilon: object = None,
        until: object = None,
    ) -> None:
        """Let one analyst spend from another's limit, once the analyst's own limit is used up.

        What the receiver spends under the grant counts against the giver's limit. The receiver's
        guarantee becomes the receiver's own limit plus the grant. :meth:`withdraw_grant` ends it.

        Parameters
        ----------
        giver, receiver : str
            Accounts of two analysts.
        rho, epsilon : number above 0
            The most that may be used.
        until : str, date or datetime, optional
            In UTC. The grant ends then.

        Raises
        ------
        RequestError
            For unknown analysts, an amount out of range, and a time that has passed.

        Examples
        --------
        >>> curator.grant("alice", "bob", rho=0.05, until="2099-12-31")
        """
        self._administer(partial(self._owner.grant, giver, receiver, rho, epsilon, until))

    def withdraw_grant(self, giver: str, receiver: str) -> None:
        """End one analyst's grants to another.

        What was spent from the giver's limit stays recorded: the receiver has the answers, and they
        count against the giver's limit. The ledger records the change with its date.

        Parameters
        ----------
        giver, receiver : str
            As in :meth:`grant`. All grants between them end.

        Raises
        ------
        RequestError
            If nothing is left of any grant.

        Examples
        --------
        >>> curator.grant("alice", "bob", rho=0.05)
        >>> curator.withdraw_grant("alice", "bob")
        """
        self._administer(partial(self._owner.withdraw_grant, giver, receiver))

    def add_view(
        self,
        columns: Sequence[str],
        *,
        table: str | None = None,
        bins: Mapping[str, Sequence[Any] | None] | None = None,
        name: str | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        """Declare a histogram view: one count of the table answers many statements.

        These are the statements whose conditions and groups consist of the view's bins: counts, and
        sums and means of columns that have one value in each bin.

        Parameters
        ----------
        columns : sequence of str
            Its columns; at most 100,000 bins in all.
        table : str, optional
            Required if there are several.
        bins : mapping of str to edges or None, optional
            Edges in place of the declared ones; None for one bin for each value.
        name : str, optional
            By default the columns' names.
        strategy : Strategy, optional
            The queries to measure instead of the bins.

        Raises
        ------
        RequestError, SchemaError
            For undeclared columns, a Real without bins, too many bins, a name that is taken, and,
            with limits for each view, once anything was charged.

        Examples
        --------
        >>> curator.add_view(["sex", "job"])
        """

        def change() -> None:
            self._runner.declared.build(
                [self._owner.add_view(columns, table, bins, name, strategy)]
            )

        self._administer(change)

    def protect(
        self,
        sql: str,
        operator: str,
        value: float,
        *,
        probability: float = 0.9,
        params: Mapping[str, object] | None = None,
        name: str | None = None,
    ) -> None:
        """Withhold answers that would make an analyst surer of a claim than a limit.

        The decision rests on what the analyst has received and on the noise of the requested
        answer, never on the data. It is a policy without a guarantee: a first answer is not
        withheld, and explanations do not count. Inferences from answers that the analyst has stay
        free.

        Parameters
        ----------
        sql : str
            One COUNT, SUM or AVG without GROUP BY.
        operator : {'>', '<'}
            Whether the claim is that the aggregate is above or below ``value``.
        value : float
            The number to compare with, in units of the aggregate.
        probability : float
            The limit, above 0.5 and below 1.
        params : mapping of str to value
            Values of the parameters ``:name``.
        name : str, optional
            By default the claim itself. It replaces a claim of the same name.

        Raises
        ------
        SqlError, RequestError
            For a statement, operator or probability that cannot be used.

        Notes
        -----
        docs/methods/bayes.md derives the probability of a claim.

        Examples
        --------
        >>> curator.protect("SELECT COUNT(*) AS n FROM people WHERE age > 80", ">", 20, name="old")
        """
        from dpnb.owner.claims import check_room, read_claim
        from dpnb.sql.parser import parse

        query = parse(sql, self._runner.tables, params, public=self._runner.public)
        claim = read_claim(sql, query, operator, value, probability, name)
        check_room(claim)
        self._administer(partial(self._runner.store.write, claim.entry))

    def unprotect(self, name: str) -> None:
        """Withdraw a protected claim.

        Parameters
        ----------
        name : str
            As in :meth:`protect`.

        Raises
        ------
        RequestError
            For an unknown name.

        Examples
        --------
        >>> curator.protect("SELECT COUNT(*) AS n FROM people WHERE age > 80", ">", 20, name="old")
        >>> curator.unprotect("old")
        """

        def decide() -> dict[str, Any]:
            claims = self._runner.store.provenance.claims
            if not isinstance(name, str) or name not in claims:
                raise RequestError(
                    f"there is no claim {given(name)}", nearest(str(name), list(claims))
                )
            return {"kind": "claim", "name": name, "withdrawn": True}

        self._administer(partial(self._runner.store.write, decide))

    @property
    def provenance(self) -> Provenance:
        """The privacy loss of each analyst, and what is left; for the owner."""
        with self._runner.reading():
            return report(
                self._runner.store,
                self._runner.declared.all_names(self._runner.store),
                lambda: self.provenance,
            )

    def coalition(self, *analysts: str) -> PrivacyLoss:
        """Return the exact joint privacy loss of analysts who pool all their answers.

        Parameters
        ----------
        analysts : str
            Registered names.

        Returns
        -------
        PrivacyLoss
            The largest loss of any row of the data (docs/methods/dprovdb.md).

        Raises
        ------
        RequestError
            For an unknown analyst.

        Examples
        --------
        >>> curator.coalition("alice", "bob").rho
        Fraction(0, 1)
        """
        return self.provenance.coalition(*analysts)

    def _administer(self, change: Callable[[], object]) -> None:
        with self._runner.reading():
            change()
