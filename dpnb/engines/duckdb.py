"""DuckDB in process: private, locked, over the normalised rows of one table.

The normaliser is the public per-row rule: cast, clamp, declared OTHER, NULL. After it every column
holds codes (see ``dpnb.schema``), and all SQL that runs is written here from the checked tree.
Frames, CSV files and small Parquet files are normalised once, into a table in memory. A larger
Parquet file is read in place by each scan, which costs less than keeping it; the engine stores only
which rows have no missing values. It loads the file into memory if DuckDB cannot decode all values.
If ids are protected, the kept rows of each id are always a table in memory.

All columns of small tables, and those that the owner names, are kept as arrays, too, and the others
from the first explanation on, which counts them many times.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dpnb.engines.arrays import Arrays, are_counted
from dpnb.engines.contributions import Contributions, ContributionScan
from dpnb.engines.decoding import decoded, undecodable
from dpnb.engines.dialect import Measuring, present
from dpnb.engines.duckdb_dialect import DuckDBDialect
from dpnb.engines.files import Files, is_several, one_file, several_files
from dpnb.engines.marginals import Marginals, MarginalScan
from dpnb.engines.moments import clocks
from dpnb.engines.normaliser import (
    found,
    found_code,
    id_steps,
    is_short,
    normaliser,
    presence,
    text_code,
)
from dpnb.engines.reading import INSTANTS, SCALARS, WHOLE, as_read, type_name
from dpnb.engines.rules import rule_of
from dpnb.engines.scans import Engine, Exact, engine_failure, guarded, opening_failure
from dpnb.engines.sources import (
    check_names,
    file_path,
    file_source,
    find_column,
    footer,
    frame_of,
    frame_source,
    held_types,
    is_csv,
    misfit,
    name_of_ids,
    text,
    unread,
)
from dpnb.engines.statements import StatementEngine, Work
from dpnb.engines.stored import stored
from dpnb.errors import EngineError
from dpnb.interrupt import checkpoint
from dpnb.schema.columns import Category, Integer, Real, code_bytes
from dpnb.schema.joins import Join
from dpnb.schema.partition import Partition
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.views.measures import Scan

if TYPE_CHECKING:
    from dpnb.engines.statements import Integers

T = TypeVar("T")

_BLIND = "statistics_propagation,join_filter_pushdown,build_side_probe_side"
"""What DuckDB must not do: it would leave a condition out where a column's least and largest values decide it,
and blocks of rows where a look-up finds none of their values, and look rows up the other way round where it expects
few. The time of a statement would tell whether a single row lies beyond."""
_FEW = 2**30
"""No statement depends on how many rows there are up to here."""
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
_GLIMPSE = 20_000
_VECTORS = 32
"""Batches of 2,048 rows that are fetched at a time."""
_TURN_SECONDS = 0.1
_SMALL_MB = 8
"""Megabytes of columns up to which a table is kept in memory, if its owner says nothing."""
_AT_ONCE = 2**26
"""So many bytes of columns are fetched at once."""


def quoted(name: str) -> str:
    """Quote an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def connected() -> Any:
    """Open a separate DuckDB database in memory."""
    import duckdb

    def connect() -> Any:
        # the progress bar shows fractions of the work done, which depend on the data
        connection = duckdb.connect(":memory:")
        connection.execute("SET enable_progress_bar=false")
        connection.execute(f"SET disabled_optimizers='{_BLIND}'")
        return connection

    return guarded(connect, opening_failure)


def _fitting(table: Table, rows: int) -> list[str]:
    """Return the columns to keep in memory: all of a small table, or those that the owner names."""
    sizes = {name: rows * code_bytes(kind) for name, kind in table.schema.items()}
    if table.in_memory is None:
        most = _SMALL_MB if table.memory_mb is None else table.memory_mb
        return list(sizes) if sum(sizes.values()) <= most * 1_000_000 else []
    left, names = math.inf if table.memory_mb is None else table.memory_mb * 1_000_000, []
    for name in table.in_memory:
        if sizes[name] <= left:
            left -= sizes[name]
            names.append(name)
    return names


class DuckDBEngine(StatementEngine):
    """The normalised rows of one table in a locked DuckDB.

    Parameters
    ----------
    table : Table
        Its source is read once, here.

    Raises
    ------
    SchemaError
        If the file or a declared column is missing, or a column's type cannot hold its kind.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table.schema, DuckDBDialect(table.schema), "rows")
        self._sql: DuckDBDialect
        self._files: Files | None = None
        self._in_place = False
        self._lookup_key = table.key
        self._looked_up: set[str] = set()
        self._positions: dict[str, tuple[str, str]] = {}
        self._arrays: Arrays | None = None
        self._pairs = False
        self._connection = connected()
        self._cursors: dict[str, Any] = {}
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
        if is_several(table.source):
            relation = self._opened(
                guarded(lambda: several_files(table.source), opening_failure), table
            )
        elif isinstance(table.source, (str, Path)):
            path = file_path(table.source).resolve()
            relation = guarded(lambda: file_source(path), opening_failure)
            if not is_csv(path):
                relation = self._opened(guarded(lambda: one_file(path), opening_failure), table)
        else:
            relation = "source_rows"
            ids = None if table.unit is None else table.unit.column
            plain = table.unit is not None and table.unit.kind == "text"
            times = {n for n, kind in table.schema.items() if isinstance(kind, Timestamp)}
            frame = guarded(
                lambda: frame_source(table.source, table.declared, ids, plain=plain, times=times),
                opening_failure,
            )
            guarded(lambda: self._connection.register(relation, frame), opening_failure)
        if is_csv(table.source):
            # a cast inside the reading statement would make DuckDB drop lines that it cannot read
            self._run(f"CREATE TEMP TABLE texts AS SELECT * FROM {relation}")
            relation = "texts"
        types = self._types(relation)
        if self._files is not None:
            relation = self._decodable(relation, self._files, table.columns, types)
        ((rows,),) = self._run(f"SELECT COUNT(*) FROM {relation}")
        self._sql.most_rows = max(_FEW, rows)
        self._count, self._in_memory = rows, _fitting(table, rows)
        id_column, id_types = "", dict[str, str]()
        if table.unit is not None:
            id_column = (
                find_column(table.unit.column, list(types))
                if isinstance(table.source, (str, Path))
                else name_of_ids(table.declared)
            )
            id_types = {table.unit.column: types[id_column]}
        self._reading = rule_of(
            table, held_types(table.source, table.columns, {**types, **id_types})
        )
        if table.in_memory is None and self._in_memory:
            self._in_place = False
        sources: dict[str, list[str]] = {}
        codes: dict[str, str] = {}
        long_lists: set[str] = set()
        needed = self._sql.needed(table)
        tests: list[str] = []
        raw: dict[str, str] = {}
        for i, (name, kind) in enumerate(table.schema.items()):
            source_name = find_column(name, list(types))
            column, source_type = as_read(quoted(source_name), types[source_name])
            columns = sources[name] = []
            is_moment = source_type in INSTANTS and isinstance(kind, Date | Timestamp)
            if source_type not in SCALARS and not is_moment:
                raise misfit(name, kind, source_type)
            test = presence(kind, column, source_type) if name in needed else ""
            if test:
                tests.append(test)
                del needed[name]
            if isinstance(kind, Category):
                code = found_code(kind, f"v{i}", f"e{i}", present=bool(test))
                codes[name] = f"{code} AS c{i}"
                columns.append(f"{found(kind, column, source_type)} AS v{i}")
                if is_short(kind):
                    self._positions[name] = f"v{i}", code
                else:
                    long_lists.add(name)
                    self._declare(kind, f"e{i}")
                continue
            code = normaliser(kind, column, source_type, present=bool(test))
            columns.append(f"{code} AS c{i}")
            compared = isinstance(kind, Integer) and source_type in WHOLE - {"BOOLEAN"}
            # the rows of ids are loaded into memory before they are asked for
            if self._in_place and table.unit is None and compared:
                raw[name] = f"r{i}"
                columns.append(f"{column} AS r{i}")
        own_columns = {name: ", ".join(columns) for name, columns in sources.items()}
        columns, said = list(own_columns.values()), list[str]()
        for i, name in enumerate(table.schema.undeclared):
            source_name = find_column(name, list(types))
            read = as_read(quoted(source_name), types[source_name])
            columns.append(f"{text_code(name, *read)} AS t{i}")
        if table.unit is not None:
            steps = id_steps(quoted(id_column), types[id_column], plain=table.unit.kind == "text")
            own_columns[""] = f"{steps.first} AS u"
            columns.append(own_columns[""])
            said, self._text_ids = [f"{steps.second} AS u"], steps.as_text
        select_list, complete = ", ".join(columns), present(needed.values())
        whole = " AND ".join(tests) or "TRUE"
        names = [codes.get(name, self._sql.column(name)) for name in table.schema]
        names += self._sql.texts() + said
        if self._files is None or not self._in_place:
            every = f"SELECT {select_list} FROM {relation} WHERE {whole}"
            every = f"SELECT {', '.join(names)} FROM ({every})"
            self._run(f"CREATE TABLE rows AS SELECT * FROM ({every}) WHERE {complete}")
            if self._files is not None:
                self._files.check()
        else:
            kept = place = order = ""
            if needed.keys() & long_lists:
                # DuckDB keeps the order of a file's rows, but not where it looks them up in a list
                place, order = ", row_number() OVER () AS place", " ORDER BY place"
            if tests or needed:
                # finding rows without missing values reads all columns: do it once, and keep a
                # byte for each row. Any other way takes longer the more rows are left out
                every = f"SELECT {select_list}, {whole} AS whole{place} FROM {relation}"
                looked_at = [codes.get(name, column) for name, column in needed.items()]
                every = f"SELECT {', '.join(['*', *looked_at])} FROM ({every})"
                every = f"SELECT whole AND {complete} AS ok FROM ({every}){order}"
                self._run(f"CREATE TABLE valid AS {every}")
                self._files.check()
                kept = "POSITIONAL JOIN valid WHERE ok"
            else:
                self._sql.beside = "file_row"

            def in_place(expressions: str) -> str:
                every = f"SELECT {expressions} FROM {relation}"
                return f"SELECT every.* FROM ({every}) AS every {kept}" if kept else every

            self._sql.raw = raw
            self._sql.in_place, self._sql.sources, self._sql.codes = in_place, own_columns, codes
            all_rows = f"({in_place(select_list)}) AS every"
            self._run(f"CREATE VIEW rows AS SELECT {', '.join(names)} FROM {all_rows}")
            self._run(f"SET allowed_paths=[{', '.join(map(text, self._files.paths))}]")
        if relation == "texts":
            self._run("DROP TABLE texts")
        elif not self._in_place:
            guarded(lambda: self._connection.unregister("source_rows"))
        for setting in _LOCK:
            self._run(setting)
        self._check_key(table)

    def _opened(self, files: Files, table: Table) -> str:
        """Return the relation of the rows of some Parquet files, which are read in place if possible."""
        self._files = files
        for path in files.paths:
            parts = f"SELECT name, num_children FROM parquet_schema({text(path)})"
            check_names(footer(partial(self._run, parts), Path(path)), Path(path))
        if not files.several:
            self._in_place = True
            return file_source(Path(files.paths[0]))
        unit = None if table.unit is None else table.unit.column
        relation, self._in_place = files.relation(self._types, table.columns, unit)
        return relation

    def _types(self, relation: str) -> dict[str, str]:
        """Return the columns of a relation with the names of their types."""
        described = self._run(f"DESCRIBE SELECT * FROM {relation}")
        return {str(row[0]): type_name(str(row[1])) for row in described}

    def _declare(self, kind: Category, name: str) -> None:
        """Create the type and the table of a long list of declared values."""
        values = [text(value) for value in kind.keys]
        self._run(f"CREATE TYPE {name} AS ENUM ({', '.join(values)})")
        # in a fraction of the time of a second list, which DuckDB would have to read
        every = f"unnest(enum_range(CAST(NULL AS {name})))"
        self._run(f"CREATE TABLE {name} AS SELECT CAST({every} AS VARCHAR) AS value")

    def _decodable(
        self, relation: str, files: Files, names: Sequence[str], types: Mapping[str, str]
    ) -> str:
        """Return a relation of the files' columns that DuckDB can read in full.

        Columns that DuckDB cannot decode in full are decoded here, and the others are read as
        usual; the rows are then loaded into memory. Nothing else may reveal that there are such
        values.
        """
        source_types = {
            name: types[name] for name in (find_column(name, list(types)) for name in names)
        }
        in_sql = {quoted(name): source_type for name, source_type in source_types.items()}
        failing = guarded(lambda: undecodable(self._connection, relation, in_sql), opening_failure)
        if not failing:
            return relation
        failing_types = {
            name: source_type
            for name, source_type in source_types.items()
            if quoted(name) in failing
        }
        mended = guarded(lambda: decoded(files.paths, failing_types), opening_failure)
        guarded(lambda: self._connection.register("source_rows", mended))
        self._in_place = False
        select_list = ", ".join(name for name in in_sql if name not in failing)
        if not select_list:
            return "source_rows"
        return f"(SELECT * FROM (SELECT {select_list} FROM {relation}) POSITIONAL JOIN source_rows)"

    def _keep(self, statement: str) -> str:
        def replace(cursor: Any) -> None:
            cursor.execute("BEGIN")
            cursor.execute(f"CREATE TABLE kept AS {statement}")
            cursor.execute(f"DROP {'VIEW' if self._in_place else 'TABLE'} rows")
            if self._sql.raw:
                codes = ((self._sql.column(name), raw) for name, raw in self._sql.raw.items())
                clamped = ", ".join(f"{code} AS {raw}" for code, raw in codes)
                cursor.execute(f"CREATE VIEW rows AS SELECT rowid, *, {clamped} FROM kept")
            else:
                cursor.execute("ALTER TABLE kept RENAME TO rows")
            cursor.execute("COMMIT")

        self._lent(replace)
        self._files, self._in_place = None, False
        self._sql.in_place = None
        return "rows"

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        """Keep at most ``max_rows`` rows of each id, and load the columns that stay in memory."""
        super().bound(key, last)
        if self._in_memory:
            self._arrays = self._loaded(self._in_memory)

    def _loaded(self, names: Sequence[str]) -> Arrays:
        """Return some of the table's own columns as arrays."""
        kinds = {name: self._schema[name] for name in names}
        columns = (stored(kind, self._sql.column(name)) for name, kind in kinds.items())
        statement = f"SELECT {', '.join(columns)} FROM {self._sql.relation(names)}"
        size = self._count * sum(map(code_bytes, kinds.values()))

        def load(cursor: Any) -> Arrays:
            cursor.execute(statement)
            if size <= _AT_ONCE:
                parts = [[column] for column in cursor.fetchnumpy().values()]
                return Arrays(self._schema, dict(zip(names, parts, strict=True)))
            # a part of the rows at a time needs half the memory, but loads pandas
            parts = [[] for _ in names]
            # the last part is empty, the only one if no rows are left
            while len(parts[0]) == 0 or len(parts[0][-1]):
                chunk = cursor.fetch_df_chunk(_VECTORS)
                for part, column in zip(parts, chunk, strict=True):
                    part.append(chunk[column].to_numpy())
            return Arrays(self._schema, dict(zip(names, parts, strict=True)))

        return self._lent(load)

    def _load_columns(self, names: Collection[str]) -> Arrays:
        """Load all columns for good, unless some of them are in memory."""
        with self._turn():
            if self._arrays is None or not self._arrays.have(names):
                self._arrays = self._loaded(list(self._schema))
            return self._arrays

    def measure(self, scan: Scan) -> Exact:
        """Return one exact vector for each measure, in ticks, in one scan."""
        arrays = self._arrays
        if arrays is None or not arrays.cover(scan):
            return super().measure(scan)
        return self._counted(lambda check: Exact(arrays.measure(scan, check)))

    def histograms(self, views: Sequence[Sequence[Partition]]) -> Exact:
        """Return the exact row counts in the joint bins of each list of axes, last axis fastest."""
        arrays = self._arrays
        if arrays is None or not arrays.cover_bins(views):
            return super().histograms(views)
        return self._counted(lambda check: Exact(arrays.histograms(views, check)))

    def _counted(self, count: Callable[[Callable[[], None]], T]) -> T:
        """Return what is counted in memory, unless it is stopped or the file changes."""
        import numpy as np

        def run() -> T:
            # whatever a caller has set: no value may raise an error
            with self._working() as work, np.errstate(all="ignore"):

                def check() -> None:
                    if work.stopped.is_set():
                        raise InterruptedError

                found = count(check)
                self.check()
                return found

        return self._guarded(run)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other request loads anything, or until this one is stopped."""
        with self._working() as work:
            while not self._loading.acquire(timeout=_TURN_SECONDS):
                if work.stopped.is_set():
                    raise engine_failure()
        try:
            yield
        finally:
            self._loading.release()

    def _load_rows(self) -> None:
        """Load the codes of a file into memory for good."""
        with self._turn():
            if self._files is not None:
                self._keep("SELECT * FROM rows")

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, with a hint."""
        if not isinstance(other, DuckDBEngine):
            return (
                "tables of different engines cannot be joined yet",
                "Join them in one of the engines, or read both from files or data frames.",
            )
        return None

    def join(self, other: Engine, join: Join) -> None:
        """Store the codes of another engine, by key or by id, to look them up."""
        if not isinstance(other, DuckDBEngine):
            raise engine_failure()
        name = f"{'ids' if join.ids else 'keys'}_of_{join.table}"
        if name not in self._looked_up:
            self._take(name, other._codes(ids=join.ids, text=self._text_ids))
            self._looked_up.add(name)
        self._sql.join(join, name)

    def paired(self, other: Engine, table: Table) -> DuckDBEngine:
        """Return an engine of the pairs of rows with one id, which are the rows of ``table``.

        Its columns are this engine's, then those of the other one.
        """
        if not isinstance(other, DuckDBEngine):
            raise engine_failure()
        number = len(self._looked_up)
        self._take(f"others{number}", other._codes(ids=True, text=self._text_ids))
        self._looked_up.add(f"others{number}")
        own_columns = [f"own.c{i} AS c{i}" for i in range(len(self._schema))]
        other_columns = [
            f"other.c{i} AS c{len(own_columns) + i}" for i in range(len(other._schema))
        ]
        self._run(
            f"CREATE VIEW pairs{number} AS SELECT own.u AS u, {', '.join([*own_columns, *other_columns])} "
            f"FROM rows AS own JOIN others{number} AS other ON own.u = other.k"
        )
        engine = object.__new__(DuckDBEngine)
        engine.__dict__.update(self.__dict__)
        engine._pairs, engine._arrays = True, None
        engine._schema, engine._sql = table.schema, DuckDBDialect(table.schema, f"pairs{number}")
        engine._connection, engine._running, engine._cursors = (
            guarded(self._connection.cursor),
            {},
            {},
        )
        return engine

    def _derived(self, table: Table, relation: str) -> Self:
        """Return an engine of other rows on the same connection, which are never in memory."""
        engine = super()._derived(table, relation)
        engine._pairs, engine._arrays, engine._positions = True, None, {}
        return engine

    def _codes(self, *, ids: bool, text: bool = False) -> Any:
        """Return all rows, by key or by id, for an engine whose ids are texts or not."""
        key = self._id(text=text) if ids else self._sql.column(str(self._lookup_key))
        columns = ", ".join(self._sql.column(name) for name in self._schema)
        statement = f"SELECT {key} AS k, {columns} FROM rows"
        return self._lent(lambda cursor: frame_of(cursor.execute(statement).fetchnumpy()))

    def _take(self, name: str, codes: Any) -> None:
        """Store the codes of another engine as a table."""

        def create(cursor: Any) -> None:
            cursor.register("handed_over", codes)
            try:
                cursor.execute(f"CREATE TABLE {name} AS SELECT * FROM handed_over")
            finally:
                cursor.unregister("handed_over")

        self._lent(create)

    def _run(self, statement: str) -> list[Any]:
        """Run a statement while the engine is being opened, and return its rows."""
        return self._opening(
            lambda: list(self._connection.execute(statement).fetchall()), opening_failure
        )

    def _opening(
        self, use: Callable[[], T], failed: Callable[[Exception], EngineError] = engine_failure
    ) -> T:
        """Run ``use`` of the engine's own connection, which :meth:`interrupt` can stop."""
        checkpoint()

        def run() -> T:
            with self._working() as work:
                self._cursors[work.name] = self._connection
                try:
                    return use()
                finally:
                    del self._cursors[work.name]

        return guarded(run, failed)

    def _grouped(self, scan: Scan, aggregation: Measuring, rows: str) -> str:
        columns = [key.column for key in scan.keys if key.declared]
        positions = self._positions.keys() & set(columns)
        alone = self._sql.alone(scan.columns, scan.keys)
        # a file that is read in place has no ids that are cut
        if positions and aggregation.adds_up and alone and self._in_place and not aggregation.first:
            return self._sql.by_found(self._positions, scan.keys, aggregation, rows)
        return super()._grouped(scan, aggregation, rows)

    def marginals(self, scan: MarginalScan) -> Marginals:
        """Return the tables of several attribute sets, each of which needs all rows."""
        if self._pairs or not are_counted(scan) or not self._sql.alone(scan.columns, ()):
            self._load_rows()
            return super().marginals(scan)
        arrays = self._load_columns(scan.columns)
        return self._counted(partial(arrays.marginals, scan))

    def contributions(
        self, scan: ContributionScan, most: int | None = None
    ) -> Contributions | None:
        """Return the contributions of single rows or ids.

        If there are more than ``most`` of them, the first rows often show this already.
        """
        if most is not None:
            _, rows = self._scored(scan)
            some = f"SELECT COUNT(*) FROM (SELECT DISTINCT * FROM ({rows} LIMIT {_GLIMPSE}))"
            ((distinct_count,),) = self._ask([some])
            if distinct_count > most:
                return None
        return super().contributions(scan, most)

    def _numbers(self, statements: Sequence[str], width: int) -> Integers:
        import numpy as np

        def fetched(statement: str, work: Work) -> Integers:
            with self._cursor(work) as cursor:
                columns = cursor.execute(statement).fetchnumpy()
            return np.array([np.asarray(column, dtype=np.int64) for column in columns.values()])

        return np.concatenate(self._each(statements, fetched), axis=1)

    def _fetched(self, statement: str, work: Work) -> list[Any]:
        with self._cursor(work) as cursor:
            return list(cursor.execute(statement).fetchall())

    def _lent(self, use: Callable[[Any], T]) -> T:
        """Run ``use`` with a cursor of its own, and return the result."""

        def run() -> T:
            with self._working() as work, self._cursor(work) as cursor:
                return use(cursor)

        return self._guarded(run)

    @contextlib.contextmanager
    def _cursor(self, work: Work) -> Iterator[Any]:
        """Lend a cursor that :meth:`interrupt` can stop."""
        cursor = self._cursors[work.name] = self._connection.cursor()
        try:
            yield cursor
        finally:
            del self._cursors[work.name]
            cursor.close()
            if self._files is not None:
                self._files.check()

    def _stop(self, work: Work) -> None:
        cursor = self._cursors.get(work.name)
        if cursor is not None:
            cursor.interrupt()

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint of the Parquet file itself, or of the rows in any order.

        Each row's codes are mixed into 64 bits under the key; HMAC-SHA256 seals two sums of such
        mixes and the number of rows. It is stable across versions of every dependency.
        """
        import numpy as np

        if self._files is not None:
            return guarded(partial(self._files.fingerprint, key, clocks(self._schema.values())))
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

        return self._opening(run)

    def check(self) -> None:
        """Raise an error if no request can run: a file that is read in place has changed."""
        files = self._files
        if files is not None:
            files.check()

    def close(self) -> None:
        """Release the rows."""
        self._connection.close()
