"""DuckDB in process: sources are normalised once into a private, locked, in-memory table.

The normaliser is the public per-row rule: cast, clamp, declared OTHER, NULL. After it every column
holds codes (see ``dpnb.schema``), and all SQL that runs is written here from the checked tree.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dpnb.engines.base import Axis, Exact, Scan, engine_failure
from dpnb.engines.contributions import Contributions, ContributionScan
from dpnb.engines.dialect import WHOLE, Dialect, normaliser
from dpnb.engines.marginals import Marginals, MarginalScan
from dpnb.engines.sources import file_source, find_column, frame_source, is_csv, text
from dpnb.errors import DpnbError, SchemaError
from dpnb.kinds import Category, Date, Integer, Kind, Real
from dpnb.sql.query import EVERY, And
from dpnb.table import Table

T = TypeVar("T")

_NUMBERS = WHOLE | {"FLOAT", "DOUBLE", "DECIMAL"}
_TEXTS = {"VARCHAR", "ENUM", "UUID"}
_DAYS = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_FITS: dict[type[Kind], set[str]] = {
    Category: _TEXTS | WHOLE,
    Integer: _NUMBERS,
    Real: _NUMBERS,
    Date: _DAYS,
}
_NOTHING = {'"NULL"', "NULL"}
"""The type of columns without any value."""
_LOCK = (
    "SET python_enable_replacements=false",
    "SET autoinstall_known_extensions=false",
    "SET autoload_known_extensions=false",
    "SET allow_community_extensions=false",
    "SET temp_directory=''",
    "SET max_expression_depth=250",
    "SET enable_external_access=false",
    "SET lock_configuration=true",
)
_CHUNK = 65_536
_BRANCHES = 64
_GLIMPSE = 20_000


def quoted(name: str) -> str:
    """Return an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class DuckDBEngine:
    """The normalised rows of one table in a locked DuckDB.

    Parameters
    ----------
    table : Table
        Its source is read once, here.

    Raises
    ------
    SchemaError
        When the file or a declared column is missing, or a column's type cannot hold its kind.
    """

    def __init__(self, table: Table) -> None:
        import duckdb

        self._schema = table.schema
        self._sql = Dialect(table.schema)
        self._connection: Any = duckdb.connect(":memory:")
        self._running: dict[int, Any] = {}
        # its steps are fractions of the work done, which depend on the data
        self._connection.execute("SET enable_progress_bar=false")
        try:
            self._load(table)
        except BaseException:
            self._connection.close()
            raise

    def _load(self, table: Table) -> None:
        texts: set[str] = set()
        if isinstance(table.source, (str, Path)):
            path = Path(table.source)
            relation = self._guarded(lambda: file_source(path))
        else:
            relation = "source_rows"
            frame, texts = self._guarded(lambda: frame_source(table.source, table.schema))
            self._guarded(lambda: self._connection.register(relation, frame))
        if is_csv(table.source):
            # a cast inside the reading statement would make DuckDB drop lines that it cannot read
            self._run(f"CREATE TEMP TABLE texts AS SELECT * FROM {relation}")
            relation = "texts"
        described = self._run(f"DESCRIBE SELECT * FROM {relation}")
        types = {str(row[0]): str(row[1]).partition("(")[0].upper() for row in described}
        if relation == "texts":
            texts = set(types)
        columns: list[str] = []
        for i, (name, kind) in enumerate(table.schema.items()):
            found = find_column(name, list(types))
            fits = found in texts or types[found] in _FITS[type(kind)] | _NOTHING
            if not fits:
                raise SchemaError(
                    f"column {name!r} is declared {kind.kind} but holds {types[found]} values",
                    "Change the declaration, or convert the column.",
                )
            if isinstance(kind, Category):
                values = ", ".join(text(value) for value in kind.values)
                self._run(f"CREATE TYPE e{i} AS ENUM ({values})")
            code = normaliser(kind, quoted(found), types[found], f"e{i}")
            columns.append(f"{code} AS c{i}")
        # a row without a value that is declared never to be missing is no row of the table
        present = [i for i, name in enumerate(table.schema) if name in table.schema.complete]
        whole = " AND ".join(["TRUE", *(f"c{i} IS NOT NULL" for i in present)])
        rows = f"SELECT * FROM (SELECT {', '.join(columns)} FROM {relation}) WHERE {whole}"
        self._run(f"CREATE TABLE rows AS {rows}")
        if relation == "texts":
            self._run("DROP TABLE texts")
        elif relation == "source_rows":
            self._guarded(lambda: self._connection.unregister(relation))
        for setting in _LOCK:
            self._run(setting)

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run engine work; any failure becomes one fixed error without cause or context."""
        try:
            return work()
        except DpnbError:
            raise
        except Exception:  # noqa: BLE001, S110 - the text of an engine's error can hold values
            pass
        raise engine_failure()

    def _run(self, statement: str) -> list[Any]:
        return self._guarded(lambda: list(self._connection.execute(statement).fetchall()))

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks: one statement, one scan."""
        keys = [self._sql.cell(name) for name in scan.keys]
        size = math.prod(count for _, count in keys)
        plans = [self._sql.terms(measure, condition) for measure, condition in scan.measures]
        aggregates = list(dict.fromkeys(sql for plan in plans for sql, _ in plan))
        selected = ", ".join([*(sql for sql, _ in keys), *aggregates])
        where = "" if scan.where == And(()) else f" WHERE {self._sql.predicate(scan.where)}"
        group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        statement = f"SELECT {selected} FROM rows{where}{group}"

        def run() -> Exact:
            with self._cursor() as cursor:
                found = cursor.execute(statement).fetchall()
            vectors = [[0] * size for _ in plans]
            for row in found:
                cell = 0
                for value, (_, count) in zip(row[: len(keys)], keys, strict=True):
                    if value is None:
                        break
                    cell = cell * count + int(value)
                else:
                    values = dict(zip(aggregates, row[len(keys) :], strict=True))
                    for vector, plan in zip(vectors, plans, strict=True):
                        vector[cell] = sum(weight * int(values[sql] or 0) for sql, weight in plan)
            return Exact(vectors)

        return self._guarded(run)

    def marginals(self, scan: MarginalScan) -> Marginals:
        """Return the tables of several attribute sets: one branch of a statement for each set.

        Grouping by one joint number is never far from the fastest way, for any number of attributes:
        GROUPING SETS take nearly three times as long for sets of three, grouping by all attributes
        at once five times as long for single ones (``tests/benchmarks/dpxplain/speed.py``).
        """
        import numpy as np

        where = [self._sql.in_groups(scan), self._sql.predicate(scan.where)]
        if scan.value is not None:
            where.append(f"{self._sql.value(scan.value)} IS NOT NULL")
        terms = [] if scan.measure is None else self._sql.terms(scan.measure, EVERY)
        sums = "".join(f", {sql} AS t{i}" for i, (sql, _) in enumerate(terms))
        branches = [
            f"SELECT {place} AS place, {self._sql.joint(attributes, scan)} AS joint, "
            f"COUNT(*) AS n{sums} FROM rows WHERE {' AND '.join(where)} GROUP BY joint"
            for place, attributes in enumerate(scan.sets)
        ]

        def run() -> Marginals:
            parts = []
            with self._cursor() as cursor:
                # planning a statement takes time that grows with the square of its branches
                for start in range(0, len(branches), _BRANCHES):
                    self._go_on()
                    statement = " UNION ALL ".join(branches[start : start + _BRANCHES])
                    parts.append(cursor.execute(statement).fetchnumpy())
            found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            total = np.zeros(len(found["n"]), dtype=np.int64)
            for i, (_, weight) in enumerate(terms):
                total += weight * found[f"t{i}"].astype(np.int64)
            return Marginals(scan, found["place"], found["joint"], found["n"], total)

        return self._guarded(run)

    def histograms(self, views: Sequence[Sequence[Axis]]) -> Exact:
        """Return the exact counts of several histograms: one statement, a branch for each."""
        branches = []
        for number, axes in enumerate(views):
            joint = "0"
            for axis in axes:
                joint = f"({joint}) * {axis.size} + ({self._sql.place(axis)})"
            branches.append(
                f"SELECT {number} AS place, CAST({joint} AS BIGINT) AS joint, COUNT(*) AS n "
                "FROM rows GROUP BY joint"
            )

        def run() -> Exact:
            vectors = [[0] * math.prod(axis.size for axis in axes) for axes in views]
            with self._cursor() as cursor:
                for place, joint, count in cursor.execute(" UNION ALL ".join(branches)).fetchall():
                    vectors[place][joint] = int(count)
            return Exact(vectors)

        return self._guarded(run)

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return what single rows add: one statement.

        With ``most``, a glimpse at the first rows often tells that there are more lines.
        """
        import numpy as np

        places = [f"v{i}" for i in range(len(scan.parts))]
        added = ", ".join(
            f"{self._sql.contribution(part)} AS {place}"
            for part, place in zip(scan.parts, places, strict=True)
        )
        numbers = [self._sql.score(scan, places)] if scan.steps else places
        names = [f"n{i}" for i in range(len(numbers))]
        selected = ", ".join(f"{sql} AS {name}" for sql, name in zip(numbers, names, strict=True))
        rows = (
            f"SELECT cell, {selected} FROM "
            f"(SELECT {self._sql.cell_of(scan.by)} AS cell, {added} FROM rows)"
        )
        if not scan.by:
            rows = f"SELECT -1 AS cell, {selected} FROM (SELECT {added} FROM rows)"
        glimpse = f"SELECT COUNT(*) FROM (SELECT DISTINCT * FROM ({rows} LIMIT {_GLIMPSE}))"
        statement = f"SELECT *, COUNT(*) AS n FROM ({rows}) GROUP BY ALL"

        def run() -> Contributions | None:
            with self._cursor() as cursor:
                if most is not None:
                    (seen,) = cursor.execute(glimpse).fetchone()
                    if seen > most:
                        return None
                    self._go_on()
                found = cursor.execute(statement).fetchnumpy()
            if most is not None and len(found["n"]) > most:
                return None
            columns = [np.asarray(found[name], dtype=np.int64) for name in ("cell", *names, "n")]
            return Contributions(columns[0], np.column_stack(columns[1:-1]), columns[-1])

        return self._guarded(run)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint that does not depend on the order of rows.

        Each row's codes are mixed into 64 bits under the key; two sums of such mixes and the number
        of rows are sealed by HMAC-SHA256. Stable across versions of every dependency.
        """
        import numpy as np

        columns = [
            f"COALESCE(c{i}, 'NaN'::DOUBLE) AS c{i}"
            if isinstance(kind, Real)
            else f"COALESCE(CAST(c{i} AS BIGINT), {-(2**62)}) AS c{i}"
            for i, kind in enumerate(self._schema.values())
        ]
        seeds = [
            np.uint64(int.from_bytes(hmac.digest(key, b"column %d" % i, "sha256")[:8], "little"))
            for i in range(len(columns) + 2)
        ]

        def mix(values: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
            # the finaliser of SplitMix64 (Steele, Lea, Flood 2014), in place
            values ^= values >> np.uint64(30)
            values *= np.uint64(0xBF58476D1CE4E5B9)
            values ^= values >> np.uint64(27)
            values *= np.uint64(0x94D049BB133111EB)
            values ^= values >> np.uint64(31)

        def run() -> str:
            (count,) = self._connection.execute("SELECT COUNT(*) FROM rows").fetchone()
            sums = [0, 0]
            for start in range(0, count, _CHUNK):
                chunk = self._connection.execute(
                    f"SELECT {', '.join(columns)} FROM rows "
                    f"WHERE rowid >= {start} AND rowid < {start + _CHUNK}"
                ).fetchnumpy()
                state = np.zeros(len(next(iter(chunk.values()))), dtype=np.uint64)
                for seed, values in zip(seeds, chunk.values(), strict=False):
                    state ^= np.ascontiguousarray(np.asarray(values)).view(np.uint64)
                    state += seed
                    mix(state)
                for i, seed in enumerate(seeds[-2:]):
                    tail = state + seed
                    mix(tail)
                    sums[i] = (sums[i] + int(np.sum(tail, dtype=np.uint64))) % 2**64
            sealed = json.dumps([count, *sums]).encode()
            return hmac.new(key, sealed, hashlib.sha256).hexdigest()

        return self._guarded(run)

    def interrupt(self, thread: int) -> None:
        """Stop the scan that runs in the thread of the given identifier."""
        running = self._running.pop(thread, None)
        if running is not None:
            running.interrupt()

    def _go_on(self) -> None:
        """Stop here when this thread was interrupted between two statements."""
        if threading.get_ident() not in self._running:
            raise InterruptedError

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Lend a cursor that :meth:`interrupt` can stop."""
        thread = threading.get_ident()
        cursor = self._running[thread] = self._connection.cursor()
        try:
            yield cursor
        finally:
            self._running.pop(thread, None)
            cursor.close()

    def close(self) -> None:
        """Forget the rows."""
        self._connection.close()

    def __repr__(self) -> str:
        return "DuckDBEngine(private)"

    def __reduce__(self) -> Any:
        raise TypeError("an engine holds sensitive data and cannot be pickled")
