"""Spark: compute a data frame's codes once and keep them there; every request is one SQL statement.

This works on classic sessions and on Spark Connect. Only counts and sums of declared groups reach
the driver.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from dpnb.engines.codes import short_text
from dpnb.engines.dialect import present
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.rules import rule_of
from dpnb.engines.scans import Engine, changed_rows, engine_failure
from dpnb.engines.sources import find_column, misfit, undiscovered
from dpnb.engines.spark_dialect import (
    FITS,
    NOTHING,
    READ,
    SparkDialect,
    id_steps,
    normaliser,
    raw,
    text,
    type_name,
)
from dpnb.engines.spark_plan import check_plan
from dpnb.engines.statements import StatementEngine, Work
from dpnb.errors import DpnbError, SchemaError
from dpnb.schema.columns import Category, Real
from dpnb.schema.joins import Join
from dpnb.schema.table import Table

T = TypeVar("T")

_LOGGERS = (
    "SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging",
    "py4j.clientserver", "py4j.java_gateway",
)  # fmt: skip
"""Loggers of PySpark for errors, whose texts can hold values."""
_LIMB_BITS = 22
"""A hash is summed in parts of this many bits, so that the sums fit in 64 bits for 2**41 rows."""


_silent = threading.local()
"""Marks the threads whose errors must not be logged."""


def _is_loud(record: logging.LogRecord) -> bool:
    return not getattr(_silent, "on", False)


class SparkEngine(StatementEngine):
    """The normalised rows of one table, computed once from a Spark data frame.

    A row that could move between two answers would be counted in both of them for the price of one.
    So the codes are fixed at the opening by a local checkpoint: they stay on the executors and have
    no lineage, so Spark cannot compute them again. If an executor that holds some of them is lost,
    requests fail until the table is opened again.

    With ``in_memory=[]`` the frame stays where it is, and every statement reads and normalises its
    rows again. After each request, before anything is charged, their keyed fingerprint is compared
    with that of the opening, which takes a second pass. If it differs, nothing is answered any more.

    Parameters
    ----------
    table : Table
        Its source is a data frame of a classic or of a Connect session.

    Raises
    ------
    SchemaError
        If a declared column is missing, a column's type cannot hold its kind, or the frame's plan
        says that its rows change (``spark_plan``).

    Notes
    -----
    Spark itself shows exact row counts on its web page, in its event log and in its progress bar
    (``spark.ui.enabled``, ``spark.eventLog.enabled``, ``spark.ui.showConsoleProgress``). The logs
    of driver and executors show errors of the frame's own computation, including values. All of
    these are as secret as the data. If a value makes that computation fail, the table does not
    open, or, in place, all requests that read its column fail; Spark's Parquet reader does so for
    some times in milliseconds that do not fit in microseconds.
    """

    def __init__(self, table: Table) -> None:
        self._name = f"dpnb_{uuid.uuid4().hex}"
        rows = f"{self._name}_rows"
        super().__init__(table.schema, SparkDialect(table.schema, rows), rows)
        self._spark: Any = table.source.sparkSession
        self._lookup_key = table.key
        self._looked_up: set[str] = set()
        self._stays = table.in_memory == ()
        self._fixed: dict[str, Any] = {}
        self._seal: tuple[bytes, str] | None = None
        self._changed = False
        self._comparisons: dict[Callable[[], None], None] = {}
        try:
            self._each([f"{self._name}_source"], lambda source, _: self._load(table, source))
            self._check_key(table)
        except BaseException:
            self.close()
            raise

    def _load(self, table: Table, source: str) -> None:
        if table.source.isStreaming:
            raise SchemaError(
                "a streaming data frame is not supported: its rows change",
                "Use a table or a batch data frame.",
            )
        names, types = zip(*table.source.dtypes, strict=True) if table.source.dtypes else ((), ())
        values, codes = [], []
        for i, (name, kind) in enumerate(table.schema.items()):
            place = names.index(find_column(name, list(names)))
            declared = types[place]
            if type_name(declared) not in FITS[type(kind)] | {NOTHING}:
                raise misfit(name, kind, type_name(declared))
            # in two steps, so that a value that is used several times is computed once
            values.append(f"{raw(kind, f's{place}', declared)} AS v{i}")
            codes.append(f"{normaliser(kind, f'v{i}', declared)} AS c{i}")
        for i, name in enumerate(table.schema.undeclared):
            place = names.index(find_column(name, list(names)))
            if type_name(types[place]) not in FITS[Category] | {NOTHING}:
                raise undiscovered(name, type_name(types[place]))
            values.append(f"{raw(Category(('',)), f's{place}', types[place])} AS r{i}")
            shown = READ.canonical(f"try_validate_utf8(r{i})")
            codes.append(f"{short_text(shown)} AS t{i}")
        if table.unit is not None:
            place = names.index(find_column(table.unit.column, list(names)))
            steps = id_steps(f"s{place}", types[place], plain=table.unit.kind == "text")
            values.append(f"{steps.first} AS u")
            codes.append(f"{steps.second} AS u")
            self._text_ids = steps.as_text
        held = {name: types[names.index(find_column(name, list(names)))] for name in table.columns}
        self._reading = rule_of(table, held)
        # by position: names may differ only by case, or hold any character
        table.source.toDF(*(f"s{i}" for i in range(len(names)))).createOrReplaceTempView(source)
        try:
            check_plan(self._spark, source)
            self._fix(
                self._rows,
                f"SELECT * FROM (SELECT {', '.join(codes)} "
                f"FROM (SELECT {', '.join(values)} FROM {source})) WHERE {present(self._sql.needed(table).values())}",
            )
        finally:
            # the view of codes holds its plan, time zone included
            self._spark.catalog.dropTempView(source)

    def _fix(self, view: str, statement: str) -> None:
        """Make a view of a statement's rows as they are now; in place, of the statement."""
        frame = self._spark.sql(statement)
        if not self._stays:
            # eager: the rows are computed here, and only here
            frame = frame.localCheckpoint(eager=True)
            self._fixed[view] = frame
        frame.createOrReplaceTempView(view)

    def _keep(self, statement: str) -> str:
        all_rows, kept = self._rows, f"{self._name}_kept"
        self._each([statement], lambda sql, _: self._fix(kept, sql))
        if not self._stays:
            self._guarded(lambda: self._forget(all_rows))
        return kept

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        """Keep at most ``max_rows`` rows of each id; from now on rows that stay in place are compared."""
        if self._stays:
            if self._seal is None:
                # no ledger has asked for the fingerprint of these rows
                self.fingerprint(key)
            self._comparisons[self._compare] = None
        super().bound(key, last)

    def _ask(self, statements: Sequence[str]) -> list[Any]:
        rows = super()._ask(statements)
        for compare in self._comparisons:
            compare()
        return rows

    def _compare(self) -> None:
        """Refuse rows that are not those of the opening; from then on without reading them."""
        key, seal = self._seal or (b"", "")
        if self._changed or self._fingerprint(key) != seal:
            self._changed = True
            raise changed_rows()

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run engine work unlogged; any failure becomes a fixed error without cause or context."""
        from pyspark.logger import PySparkLogger

        for name in _LOGGERS:
            find = logging.getLogger if name.startswith("py4j") else PySparkLogger.getLogger
            find(name).addFilter(_is_loud)
        _silent.on = True
        try:
            return super()._guarded(work)
        finally:
            _silent.on = False

    @contextlib.contextmanager
    def _working(self) -> Iterator[Work]:
        """Tag the jobs that this thread starts."""
        with super()._working() as work:
            mark, unmark, _ = self._tags()
            mark(work.name)
            try:
                yield work
            finally:
                unmark(work.name)

    def _stop(self, work: Work) -> None:
        self._tags()[2](work.name)

    def _is_remote(self) -> bool:
        """Whether the session is one of Spark Connect."""
        return type(self._spark).__module__.startswith("pyspark.sql.connect")

    def _tags(self) -> tuple[Callable[[str], object], ...]:
        """Return the functions that tag, untag and stop jobs of this thread."""
        if self._is_remote():
            return self._spark.addTag, self._spark.removeTag, self._spark.interruptTag
        # in a classic session, tags are visible only to the thread that set them
        context = self._spark.sparkContext
        return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag

    def _fetched(self, statement: str, work: Work) -> list[Any]:
        return list(self._spark.sql(statement).collect())

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, with a hint.

        Tables of the same Spark session can be looked up, as can dimension tables from files and
        frames.
        """
        if isinstance(other, SparkEngine) and other._spark is self._spark:
            return None
        if join.ids or not isinstance(other, DuckDBEngine):
            return (
                "tables of different engines cannot be joined yet",
                "Read both in one Spark session.",
            )
        return None

    def join(self, other: Engine, join: Join) -> None:
        """Look up the codes of another table, by its key or by its ids."""
        name = f"{self._name}_{'ids' if join.ids else 'keys'}_of_{join.table}"
        if name not in self._looked_up:
            if isinstance(other, SparkEngine):
                self._comparisons |= other._comparisons
            self._guarded(lambda: self._codes(other, join).createOrReplaceTempView(name))
            self._looked_up.add(name)
        self._sql.join(join, name)

    def paired(self, other: Engine, table: Table) -> SparkEngine:
        """Return an engine of the pairs of rows with one id, which are the rows of ``table``.

        Its columns are this engine's, then those of the other one.
        """
        if not isinstance(other, SparkEngine):
            raise engine_failure()
        name = f"{self._name}_pairs{len(self._looked_up)}"
        own_columns = [f"own.c{i} AS c{i}" for i in range(len(self._schema))]
        other_columns = [
            f"other.c{i} AS c{len(own_columns) + i}" for i in range(len(other._schema))
        ]
        pairs = (
            f"SELECT own.u AS u, {', '.join([*own_columns, *other_columns])} "
            f"FROM {self._rows} AS own "
            f"JOIN (SELECT *, {other._id(text=self._text_ids)} AS k FROM {other._rows}) AS other ON own.u = other.k"
        )
        self._guarded(lambda: self._spark.sql(pairs).createOrReplaceTempView(name))
        self._looked_up.add(name)
        engine = object.__new__(SparkEngine)
        engine.__dict__.update(self.__dict__)
        engine._schema, engine._rows, engine._running = table.schema, name, {}
        engine._sql, engine._looked_up = SparkDialect(table.schema, name), set()
        engine._comparisons = self._comparisons | other._comparisons
        return engine

    def _codes(self, other: Engine, join: Join) -> Any:
        """Return the codes of another table as a data frame, whose key or id is called k."""
        if isinstance(other, SparkEngine):
            columns = [other._sql.column(name) for name in other._schema]
            key = (
                other._id(text=self._text_ids)
                if join.ids
                else other._sql.column(str(other._lookup_key))
            )
            return self._spark.sql(f"SELECT {key} AS k, {', '.join(columns)} FROM {other._rows}")
        if not isinstance(other, DuckDBEngine):
            raise engine_failure()
        import pyarrow

        codes = pyarrow.Table.from_pandas(other._codes(ids=False), preserve_index=False)
        # Spark has no unsigned integers
        for i, field_ in enumerate(codes.schema):
            if str(field_.type) != "double":
                codes = codes.set_column(i, field_.name, codes.column(i).cast("int64"))
        return self._spark.createDataFrame(codes)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint of the rows in any order, from one statement.

        Each row's codes are mixed twice into 64 bits (xxHash64, each time after a secret number);
        HMAC-SHA256 seals the sums of these mixes and the number of rows.
        """
        seal = self._fingerprint(key)
        self._seal = key, seal
        return seal

    def _fingerprint(self, key: bytes) -> str:
        codes = [
            f"COALESCE(c{i}, CAST('NaN' AS DOUBLE))"
            if isinstance(kind, Real)
            else f"COALESCE(CAST(c{i} AS BIGINT), {-(2**62)})"
            for i, kind in enumerate(self._schema.values())
        ]
        nothing = text("\0")
        codes += [f"COALESCE({name}, {nothing})" for name in self._sql.texts()]
        if self._schema.unit is not None:
            codes.append("u")
        seeds = [
            int.from_bytes(hmac.digest(key, b"mix %d" % i, "sha256")[:8], "big", signed=True) // 2
            for i in range(2)
        ]
        mixes = ", ".join(
            f"xxhash64(CAST({seed} AS BIGINT), {', '.join(codes)}) AS h{i}"
            for i, seed in enumerate(seeds)
        )
        limbs = ", ".join(
            f"SUM(shiftrightunsigned(h{i}, {bit}) & {2**_LIMB_BITS - 1})"
            for i in range(2)
            for bit in range(0, 64, _LIMB_BITS)
        )
        rows = f"{self._name}_rows" if self._stays else self._rows
        return self._sealed(key, f"SELECT COUNT(*), {limbs} FROM (SELECT {mixes} FROM {rows})")

    def close(self) -> None:
        """Release the rows."""
        # a stopped session has already dropped them
        with contextlib.suppress(DpnbError):
            self._guarded(
                lambda: self._forget(f"{self._name}_kept", f"{self._name}_rows", *self._looked_up)
            )

    def _forget(self, *views: str) -> None:
        for view in views:
            self._spark.catalog.dropTempView(view)
            frame = self._fixed.pop(view, None)
            if frame is not None and not self._is_remote():
                # a Connect server does this when its client has let go of the frame
                frame._jdf.queryExecution().logical().rdd().unpersist(False)
