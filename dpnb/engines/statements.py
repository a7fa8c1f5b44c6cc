"""Every request as SQL statements with aggregates: the part that SQL engines share."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from dpnb.engines.contributions import Contributions, ContributionScan
from dpnb.engines.dialect import Dialect, Measuring
from dpnb.engines.marginals import Marginals, MarginalScan
from dpnb.engines.persons import linked_relation, persons_relation
from dpnb.engines.rules import Reading
from dpnb.engines.scans import Engine, Exact, Tally, engine_failure, guarded
from dpnb.engines.sources import repeated
from dpnb.errors import DpnbError
from dpnb.schema.joins import Join
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import EVERY
from dpnb.schema.schema import Schema, groups_asked
from dpnb.schema.table import Table
from dpnb.sql.features import Linked, Persons
from dpnb.views.measures import Scan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers: TypeAlias = npt.NDArray[np.int64]

T = TypeVar("T")

_BRANCHES = 64
_AGAIN_SECONDS = 0.2


@dataclass(slots=True, eq=False)
class Work:
    """A running request: its name, whether it must stop, and whether it is done."""

    name: str = field(default_factory=lambda: f"dpnb_{uuid.uuid4().hex}")
    stopped: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)


_engines: weakref.WeakSet[StatementEngine] = weakref.WeakSet()
"""All engines, also those that are being opened."""


def interrupt(thread: int) -> None:
    """Stop what a thread runs in whichever engine."""
    for engine in list(_engines):
        engine.interrupt(thread)


class StatementEngine(ABC):
    """Base of engines that answer SQL statements on the normalised rows of one table.

    Each engine defines how rows get their codes, and how statements run and stop.
    """

    def __init__(self, schema: Schema, sql: Dialect, rows: str) -> None:
        self._schema, self._sql, self._rows = schema, sql, rows
        self._key = b""
        self._text_ids = False
        self._reading: Reading = {}
        _engines.add(self)
        self._running: dict[int, Work] = {}

    @abstractmethod
    def _fetched(self, statement: str, work: Work) -> list[Any]:
        """Run one statement and return its rows."""

    @abstractmethod
    def _stop(self, work: Work) -> None:
        """Stop the running work of a request; called repeatedly until it is done."""

    @abstractmethod
    def _keep(self, statement: str) -> str:
        """Keep a statement's rows instead of all rows, and return the name of their relation."""

    @abstractmethod
    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, with a hint."""

    @abstractmethod
    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint of the rows, the same in any order and on any day."""

    @abstractmethod
    def close(self) -> None:
        """Release the rows."""

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run engine work; replace any failure by a fixed error without cause or context."""
        return guarded(work)

    def _each(self, statements: Sequence[str], fetch: Callable[[str, Work], T]) -> list[T]:
        """Fetch the result of each statement; statements return aggregates only."""

        def run() -> list[T]:
            results = []
            with self._working() as work:
                for statement in statements:
                    if work.stopped.is_set():
                        raise InterruptedError
                    results.append(fetch(statement, work))
            return results

        return self._guarded(run)

    def _ask(self, statements: Sequence[str]) -> list[Any]:
        """Run statements one after the other, and return their rows."""
        return [row for rows in self._each(statements, self._fetched) for row in rows]

    def _numbers(self, statements: Sequence[str], width: int) -> Integers:
        """Return the integers that statements return, shape (``width`` columns, rows)."""
        import numpy as np

        rows = self._ask(statements)
        return np.array(rows, dtype=np.int64).reshape(len(rows), width).T

    def _check_key(self, table: Table) -> None:
        """Refuse a dimension table whose key is not unique."""
        if table.key is not None and self._ask([self._sql.repeated(table.key)]):
            raise repeated(table.key)

    @property
    def reading(self) -> Mapping[str, tuple[int, int]]:
        """The rules by which the rows are read."""
        return self._reading

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        """Keep at most ``max_rows`` rows of each id, in an order under a secret key."""
        unit = self._schema.unit
        if unit is None:
            return
        self._rows = self._keep(self._sql.kept(unit.max_rows, key, last, text=self._text_ids))
        most = self._sql.most_rows
        self._key, self._sql = key, type(self._sql)(self._schema, self._rows)
        self._sql.most_rows = most

    def _id(self, *, text: bool) -> str:
        """Return the SQL of a row's id for a table whose ids are kept as texts or not."""
        rule = self._sql.IDS
        if text == self._text_ids:
            return "u"
        return rule.as_text("u") if text else rule.as_number("u")

    def listed(self, most: int) -> list[tuple[Any, ...]]:
        """Return the codes of the rows of a public table, or of ``most`` + 1 of them."""
        columns = ", ".join(self._sql.column(name) for name in self._schema)
        return self._ask([f"SELECT {columns} FROM {self._sql.rows(self._schema)} LIMIT {most + 1}"])

    def join(self, other: Engine, join: Join) -> None:
        """Raise an error; ``obstacle`` says why."""
        raise engine_failure()

    def paired(self, other: Engine, table: Table) -> Engine:
        """Raise an error; ``obstacle`` says why."""
        raise engine_failure()

    def persons(self, persons: Persons) -> Engine:
        """Return an engine of the rows of a table of persons, whose base table is this engine's.

        It shares the connection, and computes its rows anew for each request.
        """
        relation = persons_relation(self._sql, persons, self._key, text=self._text_ids)
        engine = self._derived(persons.table(), relation)
        for join, looked_up in self._sql.lookups:
            if join.ids:
                engine._sql.join(join, looked_up)
        return engine

    def linked(self, linked: Linked, lines: Sequence[Engine]) -> Engine:
        """Return an engine of this engine's rows with the lines of their ids, on its connection."""
        rows = [line._rows for line in lines if isinstance(line, StatementEngine)]
        sizes = [len(line.table().schema) for line in linked.lines]
        relation = linked_relation(self._rows, len(self._schema), rows, sizes)
        engine = self._derived(linked.table(), relation)
        for join, looked_up in self._sql.lookups:
            engine._sql.join(join, looked_up)
        return engine

    def _derived(self, table: Table, relation: str) -> Self:
        """Return an engine of other rows on the same connection."""
        engine = object.__new__(type(self))
        engine.__dict__.update(self.__dict__)
        engine._schema, engine._rows = table.schema, relation
        # without the columns that are looked up, which join() adds
        engine._sql = type(self._sql)(table.schema.protecting(table.unit), relation)
        engine._sql.most_rows = self._sql.most_rows
        return engine

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks: one statement, one scan.

        Counts of different ids that are cut to fewer groups take a statement of their own.
        """
        size = math.prod(key.size for key in scan.keys)
        vectors = [[0] * size for _ in scan.measures]
        for groups, places in scan.parts():
            aggregation = self._sql.measuring(scan, places)
            rows = self._sql.measured(
                scan, groups, self._key, text=self._text_ids, made=aggregation
            )
            aggregation.fill(vectors, self._ask([self._grouped(scan, aggregation, rows)]))
        return Exact(vectors)

    def _grouped(self, scan: Scan, aggregation: Measuring, rows: str) -> str:
        """Return the statement with the aggregates of each group of a relation, with WHERE."""
        return self._sql.grouped(aggregation, rows)

    def marginals(self, scan: MarginalScan) -> Marginals:
        """Return the tables of several attribute sets: a statement with one branch for each set.

        Grouping by one joint number is close to the fastest way in SQL, for any number of
        attributes: GROUPING SETS copy every row once for each set, and grouping by all attributes
        at once takes five times as long for single ones (``tests/benchmarks/dpxplain/speed.py``).
        """
        import numpy as np

        where = [self._sql.in_groups(scan), self._sql.predicate(scan.where)]
        if scan.value is not None:
            where.append(f"{self._sql.value(scan.value)} IS NOT NULL")
        terms = (
            []
            if scan.measure is None
            else self._sql.terms(scan.measure, EVERY, present=scan.measure.value == scan.value)
        )
        sums = "".join(f", {sql} AS t{i}" for i, (sql, _) in enumerate(terms))
        rows = self._sql.only(
            self._sql.relation(scan.columns, scan.partitions),
            " AND ".join(where),
            scan.columns,
            scan.partitions,
        )
        branches = [
            f"SELECT {place} AS place, {self._sql.joint(attributes, scan)} AS joint, COUNT(*) AS n{sums} "
            f"FROM {rows} GROUP BY joint"
            for place, attributes in enumerate(scan.sets)
        ]
        # planning time grows with the square of the number of branches
        parts = range(0, len(branches), _BRANCHES)
        statements = [" UNION ALL ".join(branches[i : i + _BRANCHES]) for i in parts]
        columns = self._numbers(statements, 3 + len(terms))
        total = np.zeros(columns.shape[1], dtype=np.int64)
        for column, (_, weight) in zip(columns[3:], terms, strict=True):
            total += weight * column
        return Marginals(scan, columns[0], columns[1], columns[2], total)

    def histograms(self, views: Sequence[Sequence[Partition]]) -> Exact:
        """Return the exact counts of several histograms: a statement with one branch for each."""
        vectors = [[0] * math.prod(axis.size for axis in axes) for axes in views]
        for place, joint, count in self._ask([self._sql.histograms(views)]):
            vectors[place][joint] = int(count)
        return Exact(vectors)

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return the contributions of single rows or ids, from one statement.

        None if there are more than ``most`` lines.
        """
        names, rows = self._scored(scan)
        limit = "" if most is None else f" LIMIT {most + 1}"
        columns = ", ".join(names)
        # threads finish in any order
        statement = (
            f"SELECT {columns}, COUNT(*) AS n FROM ({rows}) AS scored "
            f"GROUP BY {columns} ORDER BY {columns}{limit}"
        )
        lines = self._numbers([statement], len(names) + 1)
        if most is not None and lines.shape[1] > most:
            return None
        return Contributions(lines[0], lines[1:-1].T, lines[-1])

    def _scored(self, scan: ContributionScan) -> tuple[list[str], str]:
        """Return the columns to read for each row or id, and the statement that selects them."""
        numbers = places = [f"v{i}" for i in range(len(scan.parts))]
        if scan.steps:
            numbers = [self._sql.score(scan, places)]
        elif scan.ids:
            numbers = list(map(self._sql.steps, scan.parts, places))
        names = ["cell", *(f"n{i}" for i in range(len(numbers)))]
        selected = ", ".join(
            f"{sql} AS {name}" for sql, name in zip(["cell", *numbers], names, strict=True)
        )
        relation = self._sql.added(scan, places, self._key, text=self._text_ids)
        return names, f"SELECT {selected} FROM {relation}"

    def tally(self, place: int, least: int) -> Tally:
        """Return the texts of the undeclared column at a position with ``least`` rows or ids."""
        unit, name = self._schema.unit, self._sql.texts()[place]
        groups = 0 if unit is None else groups_asked(unit)
        statement = self._sql.tally(name, least, groups, self._key, text=self._text_ids)
        return Tally.read(self._ask([statement]))

    def _sealed(self, key: bytes, statement: str) -> str:
        """Return the HMAC-SHA256 of a statement's result, which is one row of integers."""
        ((sums,),) = self._each([statement], self._fetched)
        numbers = json.dumps([int(total or 0) for total in sums]).encode()
        return hmac.new(key, numbers, hashlib.sha256).hexdigest()

    @contextlib.contextmanager
    def _working(self) -> Iterator[Work]:
        """Register this thread's work, so that :meth:`interrupt` can stop it; it can be nested."""
        thread = threading.get_ident()
        outer_work, work = self._running.get(thread), Work()
        self._running[thread] = work
        try:
            yield work
        finally:
            work.done.set()
            if outer_work is None:
                self._running.pop(thread, None)
            else:
                self._running[thread] = outer_work

    def check(self) -> None:
        """Raise an error if no request can run."""
        self._each(["SELECT 1"], self._fetched)

    def interrupt(self, thread: int) -> None:
        """Stop the scan that runs in the thread with the given identifier."""
        work = self._running.get(thread)
        if work is None:
            return
        work.stopped.set()

        def stop() -> None:
            # repeatedly: a statement may not have started yet, so that there is nothing to stop
            while not work.done.wait(_AGAIN_SECONDS):
                with contextlib.suppress(DpnbError):
                    self._guarded(lambda: self._stop(work))

        threading.Thread(target=stop, name="dpnb interrupt", daemon=True).start()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce__(self) -> Any:
        raise TypeError("an engine holds sensitive data and cannot be pickled")
