"""DuckDB in process: private, locked, over the normalised rows of one table.

The normaliser is the public per-row rule: cast, clamp, declared OTHER, NULL. After it every column
holds codes (see ``dpnb.schema``), and all SQL that runs is written here from the checked tree. Frames and
CSV files are normalised once, into a table in memory; a Parquet file is read in place by each scan, which
costs less than keeping it, until an explanation looks at its rows many times, and unless it holds values
that DuckDB cannot decode. Where ids are protected, the rows that are kept of each id are always a table.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dpnb.engines.contributions import Contributions, ContributionScan
from dpnb.engines.decoding import decoded, undecodable
from dpnb.engines.dialect import Dialect, present
from dpnb.engines.marginals import Marginals, MarginalScan
from dpnb.engines.normaliser import (
    NOTHING,
    NUMBERS,
    TEXT_IDS,
    TEXTS,
    WHOLE,
    id_code,
    normaliser,
    tells_missing,
    text_code,
)
from dpnb.engines.scans import Engine, Exact, Tally, engine_failure, guarded
from dpnb.engines.sources import (
    check_names,
    file_source,
    find_column,
    footer,
    frame_of,
    frame_source,
    is_csv,
    misfit,
    repeated,
    text,
    unlike,
    unread,
)
from dpnb.errors import EngineError
from dpnb.schema.columns import Category, Date, Integer, Kind, Real
from dpnb.schema.joins import Join
from dpnb.schema.table import Table
from dpnb.sql.query import EVERY
from dpnb.views.measures import Axis, Scan

_DAYS = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_FITS: dict[type[Kind], set[str]] = {
    Category: TEXTS | WHOLE,
    Integer: NUMBERS,
    Real: NUMBERS,
    Date: _DAYS,
}
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


@dataclass(frozen=True, slots=True)
class _File:
    """A Parquet file that is read in place, and what tells that it is still the same."""

    path: str
    state: tuple[int, int, int] = field(repr=False)

    @classmethod
    def found(cls, path: Path) -> _File:
        return cls(str(path), _state(path))

    def check(self) -> None:
        """Refuse what a scan found when the file was changed meanwhile."""
        try:
            same = _state(Path(self.path)) == self.state
        except OSError:
            same = False
        if not same:
            raise EngineError(
                "the table's file has changed since it was opened",
                "Nothing was charged. Open it again, with new_version=True.",
            )

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint of the bytes."""
        with Path(self.path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        self.check()
        return hmac.new(key, digest, hashlib.sha256).hexdigest()


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def connected() -> Any:
    """Return a connection to a DuckDB of its own, in memory."""
    import duckdb

    def connect() -> Any:
        # the steps of its progress bar are fractions of the work done, which depend on the data
        connection = duckdb.connect(":memory:")
        connection.execute("SET enable_progress_bar=false")
        return connection

    return guarded(connect)


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
        self._schema = table.schema
        self._sql = Dialect(table.schema)
        self._file: _File | None = None
        self._in_place = False
        self._text_ids = False
        self._key = b""
        self._lookup_key = table.key
        self._looked_up: set[str] = set()
        self._texts: dict[str, tuple[str, str]] = {}
        self._needed: dict[str, str] = {}
        self._connection = connected()
        self._running: dict[int, Any] = {}
        self._loading = threading.Lock()
        failure: EngineError | None = None
        try:
            self._load(table)
        except EngineError as error:
            failure = unread(error, table.source)
        except BaseException:
            self._connection.close()
            raise
        if failure is not None:
            self._connection.close()
            raise failure

    def _load(self, table: Table) -> None:
        texts: set[str] = set()
        if isinstance(table.source, (str, Path)):
            path = Path(table.source).resolve()
            relation = guarded(lambda: file_source(path))
            if not is_csv(path):
                self._file = guarded(lambda: _File.found(path))
                self._in_place = True
                parts = f"SELECT name, num_children FROM parquet_schema({text(str(path))})"
                check_names(footer(partial(self._run, parts), path), path)
        else:
            relation = "source_rows"
            frame, texts = guarded(lambda: frame_source(table.source, table.columns))
            guarded(lambda: self._connection.register(relation, frame))
        if is_csv(table.source):
            # a cast inside the reading statement would make DuckDB drop lines that it cannot read
            self._run(f"CREATE TEMP TABLE texts AS SELECT * FROM {relation}")
            relation = "texts"
        described = self._run(f"DESCRIBE SELECT * FROM {relation}")
        types = {str(row[0]): str(row[1]).partition("(")[0].upper() for row in described}
        if relation == "texts":
            texts = set(types)
        if self._file is not None:
            relation = self._decodable(relation, self._file, table.columns, types)
        columns: list[str] = []
        self._needed = self._sql.needed(table)
        whole: list[str] = []
        for i, (name, kind) in enumerate(table.schema.items()):
            found = find_column(name, list(types))
            column, held = quoted(found), types[found]
            fits = found in texts or held in _FITS[type(kind)] | NOTHING
            if not fits:
                raise misfit(name, kind, held)
            if isinstance(kind, Category):
                values = ", ".join(text(value) for value in kind.values)
                self._run(f"CREATE TYPE e{i} AS ENUM ({values})")
                if self._in_place:
                    self._texts[name] = f"v{i}", normaliser(kind, f"v{i}", "VARCHAR", f"e{i}")
                    columns.append(f"CAST({column} AS VARCHAR) AS v{i}")
            known = name in table.needed and tells_missing(kind, held)
            if known:
                whole.append(column)
                del self._needed[name]
            code = normaliser(kind, column, held, f"e{i}", present=known)
            columns.append(f"{code} AS c{i}")
        for i, name in enumerate(table.schema.undeclared):
            found = find_column(name, list(types))
            held = "VARCHAR" if found in texts else types[found]
            columns.append(f"{text_code(name, quoted(found), held)} AS t{i}")
        if table.unit is not None:
            found = find_column(table.unit.column, list(types))
            held = "VARCHAR" if found in texts else types[found]
            columns.append(f"{id_code(quoted(found), held)} AS u")
            self._text_ids = held in TEXT_IDS
        codes = f"SELECT {', '.join(columns)} FROM {relation} WHERE {present(whole)}"
        where = present(self._needed.values())
        if self._file is None or not self._in_place:
            self._run(f"CREATE TABLE rows AS SELECT * FROM ({codes}) WHERE {where}")
            if self._file is not None:
                self._file.check()
        else:
            names = [self._sql.column(name) for name in table.schema] + self._sql.texts()
            names += [] if table.unit is None else ["u"]
            self._run(f"CREATE VIEW codes AS {codes}")
            self._run(f"CREATE VIEW rows AS SELECT {', '.join(names)} FROM codes WHERE {where}")
            self._run(f"SET allowed_paths=[{text(self._file.path)}]")
        if relation == "texts":
            self._run("DROP TABLE texts")
        elif not self._in_place:
            guarded(lambda: self._connection.unregister("source_rows"))
        for setting in _LOCK:
            self._run(setting)
        if table.key is not None and self._run(self._sql.repeated(table.key)):
            raise repeated(table.key)

    def _decodable(
        self, relation: str, file: _File, names: Sequence[str], types: Mapping[str, str]
    ) -> str:
        """Return a relation of a file's columns that DuckDB can read in full.

        Columns of which it cannot decode all values are handed over, and the others read as ever; then
        the file's rows will be loaded into memory. Nothing else may tell that there are such values.
        """
        found = {name: types[name] for name in (find_column(name, list(types)) for name in names)}
        in_sql = {quoted(name): held for name, held in found.items()}
        failing = guarded(lambda: undecodable(self._connection, relation, in_sql))
        if not failing:
            return relation
        lost = {name: held for name, held in found.items() if quoted(name) in failing}
        mended = guarded(lambda: decoded(Path(file.path), lost))
        guarded(lambda: self._connection.register("source_rows", mended))
        self._in_place = False
        kept = ", ".join(name for name in in_sql if name not in failing)
        if not kept:
            return "source_rows"
        return f"(SELECT * FROM (SELECT {kept} FROM {relation}) POSITIONAL JOIN source_rows)"

    def bound(self, key: bytes) -> None:
        """Keep at most ``max_rows`` rows of each id, picked by an order under a secret key."""
        unit = self._schema.unit
        if unit is None:
            return
        self._key = key
        statement = self._sql.kept(unit.max_rows, key, text=self._text_ids)

        guarded(partial(self._replace_rows, statement))

    def _replace_rows(self, statement: str) -> None:
        """Put a table in memory in the place of the rows."""
        with self._cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"CREATE TABLE kept AS {statement}")
            cursor.execute(f"DROP {'VIEW' if self._in_place else 'TABLE'} rows")
            cursor.execute("ALTER TABLE kept RENAME TO rows")
            cursor.execute("COMMIT")
        self._file, self._in_place = None, False

    def _load_rows(self) -> None:
        """Keep the codes of a file in memory from now on."""
        with self._loading:
            if self._file is not None:
                self._replace_rows("SELECT * FROM rows")

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, and the hint."""
        if not isinstance(other, DuckDBEngine):
            return (
                "tables of different engines cannot be joined yet",
                "Join them in one of the engines, or read both from files or data frames.",
            )
        return unlike(join) if join.ids and self._text_ids != other._text_ids else None

    def join(self, other: Engine, join: Join) -> None:
        """Keep the codes of another engine, by key or by id, to look them up."""
        if not isinstance(other, DuckDBEngine):
            raise engine_failure()
        name = f"{'ids' if join.ids else 'keys'}_of_{join.table}"
        if name not in self._looked_up:
            codes = guarded(partial(other._codes, ids=join.ids))
            guarded(partial(self._keep, name, codes))
            self._looked_up.add(name)
        self._sql.join(join, name)

    def paired(self, other: Engine, table: Table) -> DuckDBEngine:
        """Return an engine of the pairs of rows of one id, which are those of ``table``.

        Its columns are this engine's, then those of the other one.
        """
        if not isinstance(other, DuckDBEngine):
            raise engine_failure()
        number = len(self._looked_up)
        codes = guarded(partial(other._codes, ids=True))
        guarded(partial(self._keep, f"others{number}", codes))
        self._looked_up.add(f"others{number}")
        own = [f"own.c{i} AS c{i}" for i in range(len(self._schema))]
        rest = [f"other.c{i} AS c{len(own) + i}" for i in range(len(other._schema))]
        self._run(
            f"CREATE VIEW pairs{number} AS SELECT own.u AS u, {', '.join([*own, *rest])} "
            f"FROM rows AS own JOIN others{number} AS other ON own.u = other.k"
        )
        made = object.__new__(DuckDBEngine)
        made.__dict__.update(self.__dict__)
        made._schema, made._sql = table.schema, Dialect(table.schema, f"pairs{number}")
        made._connection, made._running = guarded(self._connection.cursor), {}
        return made

    def _codes(self, *, ids: bool) -> Any:
        """Return all rows, by key or by id, on their way to the engine of another table."""
        key = "u" if ids else self._sql.column(str(self._lookup_key))
        columns = ", ".join(self._sql.column(name) for name in self._schema)
        with self._cursor() as cursor:
            return frame_of(cursor.execute(f"SELECT {key} AS k, {columns} FROM rows").fetchnumpy())

    def _keep(self, name: str, codes: Any) -> None:
        with self._cursor() as cursor:
            cursor.register("handed_over", codes)
            try:
                cursor.execute(f"CREATE TABLE {name} AS SELECT * FROM handed_over")
            finally:
                cursor.unregister("handed_over")

    def _run(self, statement: str) -> list[Any]:
        return guarded(lambda: list(self._connection.execute(statement).fetchall()))

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks: one statement, one scan.

        Different ids that are cut to fewer groups take a statement of their own.
        """
        size = math.prod(self._sql.cell(name)[1] for name in scan.keys)

        def run() -> Exact:
            vectors = [[0] * size for _ in scan.measures]
            with self._cursor() as cursor:
                for groups, places in scan.parts():
                    self._go_on()
                    self._fill(vectors, scan, groups, places, cursor)
            return Exact(vectors)

        return guarded(run)

    def _fill(
        self,
        vectors: Sequence[list[int]],
        scan: Scan,
        groups: int,
        places: Sequence[int],
        cursor: Any,
    ) -> None:
        """Measure what has the same bound on an id's groups."""
        made = self._sql.measuring(scan, places)
        rows = self._sql.measured(scan, groups, self._key, text=self._text_ids)
        texts = self._texts.keys() & set(scan.keys)
        if texts and made.adds_up and self._sql.relation(scan.columns) == "rows" and self._in_place:
            # a file has no ids that are cut; a text without a code has no cell
            needed = (column for name, column in self._needed.items() if name not in texts)
            known = f"(SELECT * FROM codes WHERE {present(needed)}) AS known"
            rows = known + rows.removeprefix("rows")
            statement = self._sql.by_text(self._texts, scan.keys, made, rows)
        else:
            statement = self._sql.grouped(made, rows)
        made.fill(vectors, cursor.execute(statement).fetchall())

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
        rows = self._sql.relation(scan.columns)
        branches = [
            f"SELECT {place} AS place, {self._sql.joint(attributes, scan)} AS joint, "
            f"COUNT(*) AS n{sums} FROM {rows} WHERE {' AND '.join(where)} GROUP BY joint"
            for place, attributes in enumerate(scan.sets)
        ]

        def run() -> Marginals:
            # each branch looks at all rows
            self._load_rows()
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

        return guarded(run)

    def histograms(self, views: Sequence[Sequence[Axis]]) -> Exact:
        """Return the exact counts of several histograms: one statement, a branch for each."""
        statement = self._sql.histograms(views)

        def run() -> Exact:
            vectors = [[0] * math.prod(axis.size for axis in axes) for axes in views]
            with self._cursor() as cursor:
                for place, joint, count in cursor.execute(statement).fetchall():
                    vectors[place][joint] = int(count)
            return Exact(vectors)

        return guarded(run)

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return what single rows, or ids, add: one statement.

        With ``most``, a glimpse at the first rows often tells that there are more lines.
        """
        import numpy as np

        places = [f"v{i}" for i in range(len(scan.parts))]
        numbers = places
        if scan.steps:
            numbers = [self._sql.score(scan, places)]
        elif scan.ids:
            numbers = list(map(self._sql.steps, scan.parts, places))
        names = [f"n{i}" for i in range(len(numbers))]
        selected = ", ".join(f"{sql} AS {name}" for sql, name in zip(numbers, names, strict=True))
        added = self._sql.added(scan, places, self._key, text=self._text_ids)
        rows = f"SELECT cell, {selected} FROM {added}"
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

        return guarded(run)

    def tally(self, place: int, least: int) -> Tally:
        """Return the texts of the undeclared column at a place that ``least`` rows, or ids, have."""
        unit, name = self._schema.unit, self._sql.texts()[place]
        groups = 0 if unit is None else unit.max_groups
        statement = self._sql.tally(name, least, groups, self._key, text=self._text_ids)

        def run() -> Tally:
            with self._cursor() as cursor:
                return Tally.read(cursor.execute(statement).fetchall())

        return guarded(run)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint: of a Parquet file itself, else of the rows in any order.

        Each row's codes are mixed into 64 bits under the key; two sums of such mixes and the number
        of rows are sealed by HMAC-SHA256. Stable across versions of every dependency.
        """
        import numpy as np

        if self._file is not None:
            return guarded(partial(self._file.fingerprint, key))
        columns = [
            f"COALESCE(c{i}, 'NaN'::DOUBLE) AS c{i}"
            if isinstance(kind, Real)
            else f"COALESCE(CAST(c{i} AS BIGINT), {-(2**62)}) AS c{i}"
            for i, kind in enumerate(self._schema.values())
        ]
        texts = ((self._sql.text_number(name), name) for name in self._sql.texts())
        columns += [f"COALESCE({number}, -1) AS {name}" for number, name in texts]
        if self._schema.unit is not None:
            columns.append(f"{self._sql.id_number(text=self._text_ids)} AS u")
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

        return guarded(run)

    def check(self) -> None:
        """Raise what stands in the way of every request: a file that is read in place was changed."""
        file = self._file
        if file is not None:
            file.check()

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
            if self._file is not None:
                self._file.check()

    def close(self) -> None:
        """Forget the rows."""
        self._connection.close()

    def __repr__(self) -> str:
        return "DuckDBEngine(private)"

    def __reduce__(self) -> Any:
        raise TypeError("an engine holds sensitive data and cannot be pickled")
