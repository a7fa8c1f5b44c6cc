"""What only the owner of the data may see and change: the part of a curator that analysts never reach."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dpnb.answers.assembly import status
from dpnb.answers.listing import BudgetStatus
from dpnb.errors import RequestError, given
from dpnb.kinds import nearest
from dpnb.privacy.loss import Amount, PrivacyLoss
from dpnb.provenance.administration import Administration
from dpnb.provenance.catalogue import DeclaredViews
from dpnb.provenance.histograms import Strategy
from dpnb.provenance.report import Provenance, report
from dpnb.provenance.store import Store
from dpnb.table import Table


class Ownership:
    """Analysts, limits, grants, declared views and the provenance table of one ledger."""

    _store: Store
    _lock: threading.RLock
    _declared: DeclaredViews
    _owner: Administration
    _tables: dict[str, Table]

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining of all analysts together."""
        with self._lock:
            self._store.follow()
            return status(self._store)

    def double_cap(self) -> BudgetStatus:
        """Go on to the next of the caps that ``Budget(doubling=True)`` declared; charges nothing."""
        with self._lock:
            self._store.double_cap()
        return self.budget

    def add_analyst(self, name: str, privilege: int | Sequence[int]) -> None:
        """Register an analyst.

        Parameters
        ----------
        name : str
            Letters, digits and . _ @ + -, at most 64.
        privilege : int or sequence of int
            1 to the policy's top. Several give her several rows, each with a limit of its own; all
            of them together are bounded by the largest of these limits. What she has learned in all
            of them is ``coalition(name)``.

        Raises
        ------
        RequestError
            For a name that is taken or no name, a privilege out of range, and with limits by sum once
            anything was charged.
        """
        self._administer(partial(self._owner.add_analyst, name, privilege))

    def register(self, analysts: Mapping[str, int | Sequence[int]]) -> None:
        """Register those of several analysts who are not known yet.

        Raises
        ------
        RequestError
            As :meth:`add_analyst`, and when a known one has other privileges.
        """
        self._administer(partial(self._owner.register, analysts))

    def disable(self, name: str) -> None:
        """Refuse an analyst from now on; her row is kept, since the answers are out.

        Raises
        ------
        RequestError
            For an unknown analyst.
        """
        self._administer(partial(self._owner.enable, name, active=False))

    def enable(self, name: str) -> None:
        """Admit a disabled analyst again.

        Raises
        ------
        RequestError
            For an unknown analyst, and when what would be reserved for her again is no longer left.
        """
        self._administer(partial(self._owner.enable, name, active=True))

    def set_privilege(self, name: str, privilege: int) -> None:
        """Give an analyst another privilege, from now on; a dated entry of the ledger.

        What is promised of her is that she learns at most her limit, plus what others grant her. It
        follows from the privilege, so a higher one promises less of her from now on; all together stay
        within the cap. With a lower one she may have learned more than her limit already, and keeps it:
        everything further is refused. Nobody else's limit changes, but with limits by sum, where it is
        possible before the first charge only. A limit that was set with :meth:`limit` stays.

        Parameters
        ----------
        name : str
        privilege : int
            1 to the policy's top. It takes the place of her first one; further ones stay.

        Raises
        ------
        RequestError
            For an unknown analyst, a privilege out of range or one that another row of hers has; with
            limits by sum once anything was charged; and when more would be reserved than is left.
        """
        self._administer(partial(self._owner.set_privilege, name, privilege))

    def set_expansion(self, expansion: Amount) -> None:
        """Set how many times larger the limits are than the privileges say; a dated entry of the ledger.

        Each analyst's limit is promised of her, and the cap of all of them. More changes what each may
        learn alone, at most the cap; the cap stays. With less, who has learned more than her new limit
        keeps it and is refused everything further. A limit that was set with :meth:`limit` stays.

        Parameters
        ----------
        expansion : number
            At least 1; see ``dpnb.Policy``.

        Raises
        ------
        RequestError
            Also when more would be reserved for the analysts than is left.
        """
        self._administer(partial(self._owner.set_expansion, expansion))

    def set_reserve(self, reserve: Amount) -> None:
        """Keep a larger share of each analyst's limit for her; a dated entry of the ledger.

        The share is promised to every analyst who is not disabled: what others ask for is refused
        where it would take it, as long as the cap is not lowered. It is a share of the limit that she
        has at the time. It can be raised and not lowered.

        Parameters
        ----------
        reserve : number
            Between what it is and 1; see ``dpnb.Policy``.

        Raises
        ------
        RequestError
            For a smaller share, and when more would be reserved than is left of the cap.
        """
        self._administer(partial(self._owner.set_reserve, reserve))

    def link(self, analyst: str, other: str) -> None:
        """Note that two analysts may put their answers together; a dated entry of the ledger.

        Everybody who is joined by links is one coalition, and the limit of a coalition
        (``Policy(together=...)``) is promised of each. From now on it holds for the larger one. A link
        is not taken away: by then they may have shared their answers.

        Parameters
        ----------
        analyst, other : str
            They need not be registered; who is not can still carry answers from one to another.

        Raises
        ------
        RequestError
            When they have learned more together than a coalition may (by charges alone), when the
            coalition would be too large, and where coalitions have no limit.
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
        """Set the limit of an analyst's row, of a column, of a declared view, or of all together.

        The limit of a column bounds what is released from all statements that read it, in a key, a
        condition, an argument, an explanation, a decision or a discovery, by whatever spelling. It is
        counted as the cap is: views on disjoint groups share, refinements pay their increase, and what
        is held already is free.

        Rows keep their limits when the cap is raised. A limit below what is spent is allowed: everything further is refused. A raised cap of all
        together is a promise changed; it is in the ledger.

        Parameters
        ----------
        analyst : str, optional
            A row: an analyst's name, or ``'name#privilege'``.
            With a column: the analyst whom the limit is for; by default all together.
        view : str, optional
            Name of a declared view; it bounds that view alone, and no other statement on its columns.
            Without analyst, view and column: the cap of all together.
        column : str or sequence of str, optional
            One column, or several that share one limit.
        table : str, optional
            The table of the columns; needed where there are several.
        rho, epsilon : number
            The new limit; 0 refuses everything.

        Raises
        ------
        RequestError
        """
        if view is not None and (analyst is not None or column is not None):
            raise RequestError(
                "a limit is for an analyst, a column or a view, not for two of them",
                "Write limit('bob', rho=0.1) or limit(view='age', rho=0.1).",
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
        """Let one analyst learn at another one's expense, once her own limit is used up.

        What she learns is hers (knowledge), and counts against the giver's limit (liability). Her own
        guarantee becomes her limit plus what is granted. :meth:`withdraw_grant` ends it.

        Parameters
        ----------
        giver, receiver : str
            Rows, of two analysts.
        rho, epsilon : number
            At most so much.
        until : str, date or datetime, optional
            UTC; nothing is granted from then on.

        Raises
        ------
        RequestError
        """
        self._administer(partial(self._owner.grant, giver, receiver, rho, epsilon, until))

    def withdraw_grant(self, giver: str, receiver: str) -> None:
        """End what one analyst has granted to another; a dated entry of the ledger.

        What was learned at the giver's expense stays so: the receiver knows it, and the giver answers
        for it. Nothing further is granted.

        Parameters
        ----------
        giver, receiver : str
            Rows, as in :meth:`grant`; all grants between them end.

        Raises
        ------
        RequestError
            When nothing is left of any.
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
        """Declare a histogram view: the table is scanned once, statements then never touch it.

        Statements whose conditions and groups are made of its bins are answered from it: counts, and
        sums and means of columns that have one value in each bin.

        Parameters
        ----------
        columns : sequence of str
        table : str, optional
            Needed where there are several.
        bins : mapping of str to edges or None, optional
            Instead of the declared ones; None for one bin for each value.
        name : str, optional
            The columns' names by default.
        strategy : Strategy, optional
            What is measured instead of the bins.

        Raises
        ------
        RequestError, SchemaError
            For undeclared columns, a Real without bins, more than 100,000 bins, a name that is taken,
            and with limits for each view once anything was charged.
        """

        def change() -> None:
            self._declared.build([self._owner.add_view(columns, table, bins, name, strategy)])

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
        """Protect a claim: answers that would make an analyst surer of it than a limit are withheld.

        Decided from what the analyst holds already and from the noise of what she asks for, never from
        the data. A policy tool, no guarantee: a first answer is not withheld, and explanations do not
        count. What she holds stays free to infer from.

        Parameters
        ----------
        sql : str
            One COUNT, SUM or AVG without GROUP BY.
        operator : {'>', '<'}
        value : float
            The claim is that the aggregate is above, or below, so much.
        probability : float
            Above 0.5 and below 1.
        params : mapping
            Values of the bound parameters ``:name``.
        name : str, optional
            A claim of the same name is replaced. By default the claim itself in words.

        Raises
        ------
        SqlError, RequestError
        """
        from dpnb.inference.control import check_room, read_claim
        from dpnb.sql.parse import parse

        query = parse(sql, self._tables, params)
        claim = read_claim(sql, query, operator, value, probability, name)
        check_room(claim, self._tables[query.table].schema)
        self._administer(partial(self._store.write, claim.entry))

    def unprotect(self, name: str) -> None:
        """Withdraw a protected claim.

        Raises
        ------
        RequestError
            For an unknown name.
        """

        def decide() -> dict[str, Any]:
            claims = self._store.provenance.claims
            if not isinstance(name, str) or name not in claims:
                raise RequestError(
                    f"there is no claim {given(name)}", nearest(str(name), list(claims))
                )
            return {"kind": "claim", "name": name, "withdrawn": True}

        self._administer(partial(self._store.write, decide))

    @property
    def provenance(self) -> Provenance:
        """Who has learned how much of what, and what is left; for the owner."""
        with self._lock:
            self._store.follow()
            return report(
                self._store, self._declared.all_names(self._store), lambda: self.provenance
            )

    def coalition(self, *analysts: str) -> PrivacyLoss:
        """Return what some analysts, putting all their answers together, have learned: exactly.

        Raises
        ------
        RequestError
            For an unknown analyst.
        """
        return self.provenance.coalition(*analysts)

    def _administer(self, change: Callable[[], object]) -> None:
        with self._lock:
            self._store.follow()
            change()
