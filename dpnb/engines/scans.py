"""What an engine computes: exact integer vectors over declared cells. No engine's type leaks here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpnb.errors import DpnbError, EngineError
from dpnb.views.measures import Axis, Scan

if TYPE_CHECKING:
    from dpnb.engines.contributions import Contributions, ContributionScan
    from dpnb.engines.marginals import Marginals, MarginalScan
    from dpnb.schema.joins import Join
    from dpnb.schema.table import Table

T = TypeVar("T")


class Exact:
    """Exact vectors on their way from the engine to the noise; shows nothing of itself."""

    __slots__ = ("_vectors",)

    def __init__(self, vectors: Sequence[Sequence[int]]) -> None:
        self._vectors = vectors

    def reveal(self, index: int) -> Sequence[int]:
        """Return one exact vector; only noise may be drawn on it."""
        return self._vectors[index]

    def __repr__(self) -> str:
        return "Exact(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


class Vectors(dict[str, Sequence[int]]):
    """Exact lattice vectors by view; shows nothing of itself."""

    def __repr__(self) -> str:
        return "Vectors(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


@dataclass(frozen=True, slots=True, repr=False)
class Tally:
    """Texts that a column holds, how many rows, or ids, each has, and how many others there are.

    As secret as the data.
    """

    texts: tuple[str, ...]
    counts: tuple[int, ...]
    total: int

    @classmethod
    def read(cls, rows: Sequence[Sequence[Any]]) -> Tally:
        """Return what the statement of ``Dialect.tally`` found; the total has no text."""
        found = [(text, int(count)) for text, count in rows if text is not None]
        (total,) = (int(count) for text, count in rows if text is None)
        return cls(tuple(text for text, _ in found), tuple(count for _, count in found), total)

    def __repr__(self) -> str:
        return "Tally(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


MOST_LETTERS = 100
"""Longer texts count as missing where values are discovered."""


class Engine(Protocol):
    """Holds the normalised rows of one table."""

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed, order-free fingerprint of the normalised rows."""
        ...

    def bound(self, key: bytes) -> None:
        """Keep at most ``max_rows`` rows of each id, picked by an order under a secret key.

        Once, before the first scan; without a unit other than the row nothing happens.
        """
        ...

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, and the hint; None where they can.

        It depends on the types of both sources alone.
        """
        ...

    def join(self, other: Engine, join: Join) -> None:
        """Keep the rows of another engine, which :meth:`bound` was called of, to look them up."""
        ...

    def paired(self, other: Engine, table: Table) -> Engine:
        """Return an engine of the pairs of rows of one id, of this engine and another one."""
        ...

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks, in one scan."""
        ...

    def marginals(self, scan: MarginalScan) -> Marginals:
        """Return counts and sums of some groups over sets of attributes, in one pass."""
        ...

    def histograms(self, views: Sequence[Sequence[Axis]]) -> Exact:
        """Return for each list of axes the exact count of rows in every joint cell, last axis fastest."""
        ...

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return what single rows add, one line for each different one that occurs.

        None when there are more than ``most`` lines.
        """
        ...

    def tally(self, place: int, least: int) -> Tally:
        """Return the texts of the undeclared column at a place that ``least`` rows, or ids, have.

        With their counts, and how many different texts there are in all.

        An id counts for ``max_groups`` texts at most, picked by its own secret order.
        """
        ...

    def check(self) -> None:
        """Raise what stands in the way of every request, as far as a quick look tells."""
        ...

    def interrupt(self, thread: int) -> None:
        """Stop the scan that runs in the thread of the given identifier."""
        ...

    def close(self) -> None:
        """Forget the rows."""
        ...


def engine_failure() -> EngineError:
    """Return the one error that every failure of an engine becomes."""
    return EngineError(
        "the engine could not carry out this request",
        "Nothing was charged. Try again. If it fails again, check that the table's file is complete, or "
        "free some memory and reopen the session.",
    )


def guarded(work: Callable[[], T]) -> T:
    """Carry out work on exact values; any failure becomes one fixed error without cause or context."""
    try:
        return work()
    except DpnbError as error:
        failure = error
    except Exception:  # noqa: BLE001 - the text of an error can hold values
        failure = engine_failure()
    # what was being handled when it was raised can hold values, too
    failure.__cause__ = failure.__context__ = None
    raise failure
