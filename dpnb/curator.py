"""The owner's handle on tables, budget and ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnb.arguments import checked
from dpnb.backend import LocalBackend
from dpnb.interrupt import Progress
from dpnb.ledger.accounts import ANALYST
from dpnb.ledger.policy import Policy
from dpnb.owner.ownership import Ownership
from dpnb.privacy.budget import Budget
from dpnb.privacy.noise import Noise
from dpnb.releases.call import Call
from dpnb.releases.runner import Runner
from dpnb.schema.table import Table
from dpnb.session import Session
from dpnb.verbs import administered, opened

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.risk.profile import RiskProfile
    from dpnb.server.service import Service
    from dpnb.studies.rdr import PaperProfile


class Curator(Ownership):
    """The owner's handle on tables, budget and ledger, with a session for each analyst.

    Parameters
    ----------
    tables : Table or sequence of Table
        The tables that analysts may query. They are read once, here.
    budget : Budget, optional
        The most that all analysts together may spend. Required for a new ledger; an existing ledger
        has its own, and a different one is refused.
    ledger : str or Path, optional
        File that records costs and released numbers, as secret as the data, or the URL of a
        PostgreSQL database. Without it the budget lasts as long as this process.
    anchor : str or Path, optional
        Small file, best on another disk, that detects a restored older copy of the ledger. If the
        ledger has entries, the file must exist.
    new_anchor : bool
        Start an anchor for a ledger with entries, and trust the ledger as it is.
    new_version : bool
        Accept data that differ from those in the ledger's record, or that are read by other rules
        now. Answers on the old data are not used again, and spent budget stays spent.
    lift : sequence of str, optional
        Columns that a new version drops, renames or redeclares, and whose limits and protected
        claims shall end with it. Without this, such a version is refused.
    analysts : mapping of str to int or tuple of int, optional
        The analysts, with privileges from 1 to 10. Without it there is one analyst, who has the
        whole budget. A ledger with analysts accepts its first or its current ones.
    policy : Policy, optional
        How limits follow from privileges, and how analysts are served. Pass it when the ledger is
        opened for the first time. Methods such as :meth:`set_reserve` change what can change later.
    views : 'attributes' or sequence, optional
        Declared histogram views: 'attributes' declares one for each possible column; a list has
        columns, lists of columns, or mappings with the arguments of :meth:`add_view`.
    noise : Noise, optional
        For tests only. Results are stamped NOT PRIVATE, whatever the source is or claims.
    rehearsal : bool
        The data are generated: results are stamped GENERATED DATA.

    Raises
    ------
    SchemaError
        If two tables have the same name, or columns do not fit their declarations.
    LedgerError
        If the ledger belongs to other data or another budget, or is damaged.
    RequestError
        If there is no table or no budget, or for invalid analysts, policies or views.

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
        lift: Sequence[str] = (),
        analysts: Mapping[str, int | Sequence[int]] | None = None,
        policy: Policy | None = None,
        views: str | Sequence[Any] = (),
        noise: Noise | None = None,
        rehearsal: bool = False,
    ) -> None:
        self._runner = opened(
            tables, budget=budget, ledger=ledger, anchor=anchor, new_anchor=new_anchor,
            new_version=new_version, lift=lift, analysts=analysts, policy=policy, views=views, noise=noise,
            rehearsal=rehearsal,
        )  # fmt: skip

    @classmethod
    def administer(cls, ledger: str | Path, *, anchor: str | Path | None = None) -> Curator:
        """Open a ledger without its data: to look at it, and to change analysts and limits.

        For when the data are gone or have changed, or on a machine that does not have them. Stored
        answers can be read; requests that need rows are refused. A service that uses the ledger may
        go on meanwhile.

        Parameters
        ----------
        ledger : str or Path
            A ledger that was opened with its tables before.
        anchor : str or Path, optional
            Its anchor, if it has one.

        Returns
        -------
        Curator
            Of all tables of the ledger, in their newest versions.

        Raises
        ------
        LedgerError
            If there is no such ledger, or it is damaged.

        Examples
        --------
        >>> import dpnb
        >>> dpnb.Curator.administer("nowhere.ledger")
        Traceback (most recent call last):
            ...
        dpnb.errors.LedgerError: there is no such ledger (nowhere.ledger). Name the ledger that ...
        """
        return cls._of(administered(ledger, anchor))

    @classmethod
    def _of(cls, runner: Runner) -> Curator:
        """Return a curator on a runner that is already open."""
        curator = cls.__new__(cls)
        curator._runner = runner
        return curator

    def session(self, analyst: str | None = None, privilege: int | None = None) -> Session:
        """Return an analyst's session on this curator.

        Parameters
        ----------
        analyst : str, optional
            A registered name. Optional if there is only one analyst.
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
        with self._runner.reading() as store:
            row = store.provenance.row(ANALYST if analyst is None else analyst, privilege)
            alone = store.provenance.policy is None
        return Session._of(LocalBackend(self._runner, row), owner=alone)

    def infer_together(
        self,
        analysts: Sequence[str],
        sql: str,
        *,
        params: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Inference:
        """Infer values from the pooled answers of several analysts. For the owner; free.

        Parameters
        ----------
        analysts : sequence of str
            Registered names.
        sql : str
            As for ``Session.infer``.
        params : mapping of str to value, optional
            Values of the parameters ``:name``.
        options
            Other arguments of ``Session.infer``.

        Returns
        -------
        Inference
            No data are read.

        Raises
        ------
        SqlError, RequestError
            As in ``Session.infer``, or for an unknown analyst.

        Examples
        --------
        >>> for name in ("alice", "bob"):
        ...     answer = curator.session(name).query("SELECT COUNT(*) AS n FROM people", rho=0.01)
        >>> curator.infer_together(["alice", "bob"], "SELECT COUNT(*) AS n FROM people").keys
        ()
        """
        from dpnb.answers.verbs import inferred

        with self._runner.reading() as store:
            table = store.provenance
            for name in analysts:
                table.row(name)
            rows = table.rows_of(analysts) if table.policy is not None else set(analysts)
        return inferred(self._runner, rows, Call("infer", sql, options, params))

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
        """Compute how much an answer would expose each row.

        For the owner: nothing is released or charged.

        Parameters
        ----------
        sql : str
            As for ``Session.query``.
        params : mapping of str to value
            Values of the parameters ``:name``.
        by : str or sequence of str
            Columns whose declared groups the profile distinguishes.
        cumulative : bool
            Add what this ledger has already released about each row.
        form : {'bound', 'exact', 'linear'}
            Form of the indicator (docs/methods/rdr.md, definition 5).
        split : number
            Share of an AVG's privacy cost for its sum, between 0 and 1.
        mode : {'tight', 'paper'}
            'paper' runs the published algorithms, for study, on tables declared ``public=True``.
            Other options do not apply.
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
        from dpnb.risk.verb import risk

        profile: RiskProfile | PaperProfile = risk(
            self._runner, sql, params, split, mode, mechanism, progress, by=by, cumulative=cumulative,
            form=form,
        )  # fmt: skip
        return profile

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return self._runner.own

    def serve(self, host: str = "127.0.0.1", port: int = 8899, **options: Any) -> Service | None:
        """Answer analysts over HTTP.

        Parameters
        ----------
        host : str
            Where to listen. Beyond this machine it needs a certificate.
        port : int
            0 to 65535; 0 takes a free one.
        options
            The other arguments of ``dpnb.server.service.serve``, such as ``tokens``,
            ``certificate`` and ``background``.

        Returns
        -------
        Service or None
            None if it ran in this thread until interrupted; with ``background=True`` a handle to
            close it.

        Raises
        ------
        RequestError
            For an invalid address, certificate or token file.
        ServiceError
            If the address is not available, or starlette or uvicorn is missing.

        Examples
        --------
        >>> curator.serve(port=0, tokens="nobody.json")
        Traceback (most recent call last):
            ...
        dpnb.errors.RequestError: ...
        """
        from dpnb.server.service import serve

        return serve(self._runner, host, port, **options)

    def close(self) -> None:
        """Release the data and close the ledger.

        Examples
        --------
        >>> curator.close()
        """
        self._runner.close()

    def __repr__(self) -> str:
        return f"Curator({', '.join(self.tables)})"

    def __reduce__(self) -> Any:
        raise TypeError("a Curator holds sensitive data and cannot be pickled")


def owner_of(session: Session) -> Curator | None:
    """Return the curator of a session whose holder owns the data, else None."""
    backend = session._backend
    if session._owner and isinstance(backend, LocalBackend):
        return Curator._of(backend.runner)
    return None
