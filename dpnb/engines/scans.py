"""What engines compute: exact integer vectors over declared groups, without types of an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpnb.errors import ChangedDataError, DpnbError, EngineError
from dpnb.schema.partition import Partition
from dpnb.views.measures import Scan

if TYPE_CHECKING:
    from dpnb.engines.contributions import Contributions, ContributionScan
    from dpnb.engines.marginals import Marginals, MarginalScan
    from dpnb.schema.joins import Join
    from dpnb.schema.table import Table
    from dpnb.sql.features import Linked, Persons

T = TypeVar("T")


class Exact:
    """Exact vectors on their way from the engine to the noise; the repr shows no values."""

    __slots__ = ("_vectors",)

    def __init__(self, vectors: Sequence[Sequence[int]]) -> None:
        self._vectors = vectors

    def reveal(self, index: int) -> Sequence[int]:
        """Return one exact vector; use it only to add noise."""
        return self._vectors[index]

    def __repr__(self) -> str:
        return "Exact(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


class Vectors(dict[str, Sequence[int]]):
    """Exact lattice vectors by view; the repr shows no values."""

    def __repr__(self) -> str:
        return "Vectors(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


@dataclass(frozen=True, slots=True, repr=False)
class Tally:
    """The texts of a column, the number of rows or ids with each, and the number of other texts.

    As secret as the data.
    """

    texts: tuple[str, ...]
    counts: tuple[int, ...]
    total: int

    @classmethod
    def read(cls, rows: Sequence[Sequence[Any]]) -> Tally:
        """Read the result of the statement of ``Dialect.tally``; the total has no text.

        The texts are sorted, because engines return groups in any order.
        """
        text_counts = sorted((text, int(count)) for text, count in rows if text is not None)
        (total,) = (int(count) for text, count in rows if text is None)
        return cls(
            tuple(text for text, _ in text_counts), tuple(count for _, count in text_counts), total
        )

    def __repr__(self) -> str:
        return "Tally(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


MOST_LETTERS = 100
"""Longer texts count as missing in key selection."""


class Engine(Protocol):
    """Holder of the normalised rows of one table."""

    @property
    def reading(self) -> Mapping[str, tuple[int, int]]:
        """The rules by which the rows are read: see ``dpnb.engines.rules``."""
        ...

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed, order-free fingerprint of the normalised rows."""
        ...

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        """Keep at most ``max_rows`` rows of each id, in an order under a secret key.

        The columns in ``last`` decide only between rows that are equal in all others. Call this
        once, before the first scan. If the privacy unit is the row, it does nothing.
        """
        ...

    def listed(self, most: int) -> list[tuple[Any, ...]]:
        """Return the codes of the rows of a public table, or of ``most`` + 1 of them."""
        ...

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, with a hint; None if they can.

        The result depends only on the types of both sources.
        """
        ...

    def join(self, other: Engine, join: Join) -> None:
        """Store the rows of another engine to look them up; its :meth:`bound` was called before."""
        ...

    def paired(self, other: Engine, table: Table) -> Engine:
        """Return an engine of the pairs of rows with one id, from this engine and another one."""
        ...

    def persons(self, persons: Persons) -> Engine:
        """Return an engine of the rows of a table of persons, whose base table is this engine's."""
        ...

    def linked(self, linked: Linked, lines: Sequence[Engine]) -> Engine:
        """Return an engine of this engine's rows with the lines of their ids, from other engines."""
        ...

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks, in one scan."""
        ...

    def marginals(self, scan: MarginalScan) -> Marginals:
        """Return counts and sums of some groups over sets of attributes, in one pass."""
        ...

    def histograms(self, views: Sequence[Sequence[Partition]]) -> Exact:
        """Return the exact row counts in the joint bins of each list of axes, last axis fastest."""
        ...

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return the contributions of single rows or ids, one line for each different one.

        None if there are more than ``most`` lines.
        """
        ...

    def tally(self, place: int, least: int) -> Tally:
        """Return the texts of the undeclared column at a position that ``least`` rows or ids have.

        The result has their counts and the number of all different texts. An id counts for at most
        ``groups_asked`` texts, picked in its own secret order.
        """
        ...

    def check(self) -> None:
        """Raise an error if no request can run, as far as a quick check can find out."""
        ...

    def interrupt(self, thread: int) -> None:
        """Stop the scan that runs in the thread with the given identifier."""
        ...

    def close(self) -> None:
        """Release the rows."""
        ...


def engine_failure(error: Exception | None = None) -> EngineError:
    """Return the single error that replaces every failure of an engine, whatever its cause."""
    return EngineError(
        "the engine could not carry out this request",
        "Nothing was charged. Try again. If it fails again, check that the table's file is complete, or "
        "free some memory and reopen the session.",
    )


def changed_rows() -> ChangedDataError:
    """Return the error for rows that are no longer those with which the table was opened."""
    return ChangedDataError(
        "the table's rows have changed since it was opened",
        "Nothing was charged. Open it again, with new_version=True.",
    )


NO_MEMORY = "there is not enough memory to open the table"
OTHERWISE = "the rows could not be read"


def opening_failure(error: Exception) -> EngineError:
    """Return the error for a table that cannot be opened: only its owner learns the cause."""
    # by its class: its text can hold values
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return EngineError(
            NO_MEMORY,
            "Free some memory, and open it again. Nothing was charged.",
        )
    return EngineError(OTHERWISE, "Check that the source can be read outside of dpnb, too.")


def guarded(
    work: Callable[[], T], failed: Callable[[Exception], EngineError] = engine_failure
) -> T:
    """Run work on exact values; replace any failure by a fixed error without cause or context."""
    try:
        return work()
    except DpnbError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - the text of an error can hold values
        failure = failed(error)
    # an exception that was being handled can hold values, too
    failure.__cause__ = failure.__context__ = None
    raise failure
