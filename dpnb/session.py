"""One analyst's handle on a curator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dpnb.answers.answer import Answer
from dpnb.answers.listing import BudgetStatus, Listing, Price
from dpnb.answers.numbers import loss_text
from dpnb.curator import Curator
from dpnb.errors import DpnbError, InterruptedRequestError, RequestError
from dpnb.privacy.loss import Budget
from dpnb.table import Table

if TYPE_CHECKING:
    from dpnb.privacy.noise import Noise

T = TypeVar("T")
Progress = Callable[[float], None]

_ANALYST = "analyst"
_QUIET_SECONDS = 1.0
_TICK_SECONDS = 0.25


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
        File that detects a restored older copy of the ledger.
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
        new_version: bool = False,
        noise: Noise | None = None,
    ) -> None:
        self._curator = Curator(
            tables,
            budget=budget,
            ledger=ledger,
            anchor=anchor,
            new_version=new_version,
            noise=noise,
        )

    @classmethod
    def _of(cls, curator: Curator) -> Session:
        session = cls.__new__(cls)
        session._curator = curator
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
        params: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """Answer one statement privately.

        Parameters
        ----------
        sql : str
            SELECT with COUNT, SUM, AVG over one table, WHERE, GROUP BY, ORDER BY, LIMIT.
        rho, epsilon : number
            The level of the statement as if bought alone, split over its vectors by a fixed public
            rule; what is already held is deducted.
        error : number or dict of alias to number
            Instead of a level: the half-width of the displayed intervals.
        rows : int
            With AVG and ``error``: the error holds for groups of at least so many rows.
        confidence : float
            Between 0 and 1.
        looks : 1 or 'any'
            'any' gives intervals that hold at every later look too.
        intervals : {'simultaneous', 'each'}
            Whether the confidence is for all intervals together or for each on its own.
        split : number
            Share of an AVG's level that goes to its sum.
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
        }
        cancel = threading.Event()

        def ask() -> Answer:
            return self._curator.query(_ANALYST, sql, params, accuracy, cancel)

        return _waiting(ask, cancel, self._curator.interrupt, progress)

    @overload
    def price(self, sql: str, **options: Any) -> Price: ...

    @overload
    def price(self, sql: Sequence[str], **options: Any) -> list[Price]: ...

    def price(
        self,
        sql: str | Sequence[str],
        *,
        params: Mapping[str, object] | None = None,
        **accuracy: Any,
    ) -> Price | list[Price]:
        """Return what statements would cost now and how wide their intervals would be. Free.

        A list is priced as if its statements were asked one after the other. The other arguments
        are those of :meth:`query`.
        """
        if not isinstance(sql, (str, list, tuple)):
            raise RequestError("there is no statement", "Pass SQL as a string, or a list of them.")
        statements = [sql] if isinstance(sql, str) else list(sql)
        prices = self._curator.price(_ANALYST, statements, params, accuracy)
        return prices[0] if isinstance(sql, str) else prices

    @property
    def budget(self) -> BudgetStatus:
        """Cap, spent and remaining."""
        return self._curator.budget

    @property
    def history(self) -> Listing:
        """The requests answered so far, oldest first."""
        status = self._curator.budget
        rows = tuple(
            (str(i), charge.time, charge.sql, loss_text(charge.spent, status.currency, None))
            for i, charge in enumerate(self._curator.history(_ANALYST), start=1)
        )
        caption = f"{len(rows)} request{'' if len(rows) == 1 else 's'} answered."
        return Listing(caption, ("", "time (UTC)", "statement", "cost"), rows)

    @property
    def tables(self) -> Listing:
        """The declared tables and columns."""
        rows = tuple(
            (table.name, name, kind.kind, _domain(kind.to_dict()))
            for table in self._curator.tables.values()
            for name, kind in table.schema.items()
        )
        return Listing("Declared columns.", ("table", "column", "kind", "declared values"), rows)

    def close(self) -> None:
        """Forget the data and close the ledger."""
        self._curator.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(self._curator.tables)
        try:
            left = self._curator.budget
        except DpnbError as error:
            return f"Session({names}; {error.what})"
        return f"Session({names}; left {loss_text(left.remaining, left.currency, left.delta)})"

    def __reduce__(self) -> Any:
        raise TypeError("a Session leads to sensitive data and cannot be pickled")


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


def _waiting(
    work: Callable[[], T],
    cancel: threading.Event,
    interrupt: Callable[[int], None],
    progress: Progress | None,
) -> T:
    """Run ``work`` in a thread, so that an interrupt is seen at once and its outcome is known.

    On an interrupt the scan is stopped; a request that has reached its commit completes, and the
    text says so: its answer is in the ledger and asking again is free.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    # not Thread.join: interrupted, it takes a running thread for finished (CPython bpo-45274)
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            failures.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=run, name="dpnb request", daemon=True)
    start = time.monotonic()
    worker.start()
    interrupted = False
    while True:
        try:
            if done.wait(_TICK_SECONDS):
                break
            elapsed = time.monotonic() - start
            if progress is not None and elapsed > _QUIET_SECONDS:
                progress(elapsed)
        except KeyboardInterrupt:
            interrupted = True
            cancel.set()
            interrupt(worker.ident or 0)
    if failures:
        raise failures[0]
    if interrupted:
        raise InterruptedRequestError(
            "interrupted after the answer was paid for", "Run the same cell again: it is free."
        )
    return results[0]
