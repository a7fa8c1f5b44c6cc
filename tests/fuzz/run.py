"""Asks random statements, and compares each answer without noise with what the statement means.

    python -m tests.fuzz.run [--seed N]
    python -m tests.fuzz.run --statements 1000000 [--first K] [--spark 2000] [--seed N] [--processes 2]
    python -m tests.fuzz.run --seed S --only K [--tables T]

Every statement must be answered, or refused with an error of the package that says the same, and asks
the same price, whatever the data. Leaves with 1 when one is not. The first form asks few statements
that are chosen for the features that meet in them, see features.py; the second asks very many. The
third asks the statement K again, alone, and then after all those that were asked of the same tables
before it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq

from dpnb import Budget, verbs
from dpnb.answers import verbs as asking
from dpnb.curator import Curator
from dpnb.errors import DpnbError, RequestError, SqlError
from dpnb.ledger.accounts import ANALYST
from dpnb.releases.call import Call
from dpnb.sql.canonical import describe, read
from dpnb.sql.parser import parse
from dpnb.sql.query import Query
from tests.fuzz.features import CANDIDATES, choose
from tests.fuzz.reference import Database, Rows, differences, joined, normalised
from tests.fuzz.statements import BLOCK, WORLDS, Statement, rows_of, statement, world_of
from tests.kit.inside import ask, runner
from tests.kit.noise import NoNoise

LEVEL = {"rho": 10**11}
"""So much that what noise could be does not matter, and the lattice is not felt."""
SECONDS = 20.0
"""No statement takes so long; where nothing happens, twenty times that."""
TWINS = 11
"""One block of so many is also asked of other data."""
FILES = 2
"""One block of so many is asked of Parquet files, the others of frames."""
MEMORIES = 3
"""One block of so many is asked of tables all of whose columns are kept in memory."""
TABLES = {"plain": 20, "sales": 12, "people": 12}
"""Chosen statements are asked of so many tables in turn."""
FULL = 40
"""Tables of so many rows are asked more often."""
UNUSABLE = re.compile(
    r"in every row|too close together|too small|too large|out of range|divides by 0"
    r"|LN needs a number above 0|SQRT needs a number of 0 or more"
)
"""Why a statement of the right form may be refused: its constants make no sense."""


class HangError(BaseException):
    """A statement takes too long; no ``Exception``, so that nothing takes it for its own."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop work that takes too long, in time of this process: other load does not matter."""

    def stop(number: int, frame: FrameType | None) -> None:
        # what is raised while Python cleans up is lost: then at the next signal
        while frame is not None:
            if frame.f_code.co_name in ("__del__", "gc_callback"):
                return
            frame = frame.f_back
        raise HangError

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


@dataclass
class Report:
    """How many statements were asked, what became of them, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    """How to ask again, the statement, and what is wrong."""

    def add(self, other: Report) -> None:
        self.counts += other.counts
        self.failures += other.failures

    def __str__(self) -> str:
        lines = [f"{count:>10,}  {name}" for name, count in sorted(self.counts.items())]
        return "\n".join(lines)


class Tables:
    """The tables of one block: opened by a curator without noise, and normalised by the reference."""

    def __init__(self, seed: int, number: int, *, spark: Any = None) -> None:
        self.seed, self.number = seed, number
        self.world = world_of(number)
        self._folder = tempfile.TemporaryDirectory()
        rows = rows_of(seed, number)
        kept = self._filed if number // BLOCK % FILES == 0 else dict
        self._in_memory = number // BLOCK % MEMORIES == 0
        self.curators = [self._opened(kept(rows))]
        if number // BLOCK % TWINS == 0:
            self.curators.append(self._opened(kept(rows_of(seed, number, twin=1))))
        self.spark = None
        if spark is not None:
            self._in_memory = False
            self.spark = self._opened({name: spark(table) for name, table in rows.items()})
        self.normal = {
            name: normalised(one, rows[name]) for name, one in self.world.declared.items()
        }  # fmt: skip
        self._joined: dict[int, Rows] = {}
        self._database: Database | None = None

    def _filed(self, rows: dict[str, Any]) -> dict[str, Path]:
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
        paths = {name: folder / f"{name}.parquet" for name in rows}
        for name, path in paths.items():
            pq.write_table(rows[name], path)
        return paths

    def _opened(self, rows: dict[str, Any]) -> Curator:
        tables = self.world.tables(rows, in_memory=self._in_memory)
        return Curator(tables, budget=Budget(rho=10**15), noise=NoNoise())

    def joined(self, asked: Statement) -> Rows:
        assert asked.source is not None
        place = self.world.sources.index(asked.source)
        if place not in self._joined:
            self._joined[place] = joined(asked.source, self.normal)
        return self._joined[place]

    @property
    def database(self) -> Database:
        if self._database is None:
            self._database = Database(self.world.declared, self.normal)
        return self._database

    def close(self) -> None:
        for curator in (*self.curators, *([self.spark] if self.spark else [])):
            curator.close()
        if self._database is not None:
            self._database.close()
        self._folder.cleanup()

    # one statement

    def ask(self, number: int, report: Report) -> None:
        """Ask a statement and compare; what is wrong is added to the report."""
        asked = statement(self.seed, number)
        report.counts["asked"] += 1
        report.counts[f"asked, {asked.kind}"] += 1
        try:
            with within(SECONDS):
                problems = self._problems(asked, report)
        except HangError:
            problems = [f"takes more than {SECONDS:g} seconds"]
        except Exception as error:  # noqa: BLE001 - whatever else comes out is what is looked for
            problems = [f"{type(error).__name__}: {error}"]
        again = f"--seed {self.seed} --only {number}"
        if number // BLOCK != self.number // BLOCK:
            again += f" --tables {self.number}"
        report.failures += [(again, asked.text, problem) for problem in problems[:3]]

    def _problems(self, asked: Statement, report: Report) -> list[str]:
        found, *others = [self._outcome(curator, asked) for curator in self.curators]
        problems = [
            f"other data: {found[1]} became {other[1]}" for other in others if found[1] != other[1]
        ]
        report.counts["compared with other data"] += len(others)
        answer, _, query = found
        if isinstance(answer, DpnbError):
            return problems + self._refused(asked, answer, report)
        report.counts[f"answered, {asked.kind}"] += 1
        problems += self._sound(query, answer)
        if asked.kind == "valid":
            problems += differences(asked, self.joined(asked), answer)
            report.counts["compared with the reference"] += 1
        elif asked.kind in ("mutated", "garbage", "excessive"):
            problems += self._compared_by_duckdb(asked, query, answer, report)
        elif asked.kind == "having":
            if len(answer.rows) + len(answer.rest) != len(answer.all_groups().rows):
                problems.append("hides groups that it does not keep")
            assert parse(asked.text, self.curators[0]._runner.tables, deciding=True).having
        else:
            problems.append("was answered")
        if self.spark is not None:
            problems += self._compared_by_spark(asked, answer)
            report.counts["compared with Spark"] += 1
        return problems

    def _outcome(self, curator: Curator, asked: Statement) -> tuple[Any, Any, Any]:
        """Return the answer or the refusal, what of it must not depend on the data, and its query."""
        call = Call("query", asked.text, LEVEL)
        try:
            # before it is answered: then the curator reads it once for both
            query = asking.statement(runner(curator), ANALYST, call).query
            told: Any = ()
            if len(self.curators) > 1:
                (priced,) = verbs.price(
                    runner(curator), ANALYST, replace(call, subject=[asked.text])
                )
                told = priced.spent, priced.affordable, priced.widths
            answer = ask(curator, ANALYST, "query", asked.text, LEVEL)
        except DpnbError as error:
            return error, (type(error).__name__, str(error)), None
        return answer, (told, answer.spent, answer.remaining, answer.groups, answer.levels), query

    def _refused(self, asked: Statement, error: DpnbError, report: Report) -> list[str]:
        report.counts[f"refused, {asked.kind}"] += 1
        reason = re.sub(r"'[^']*'|\"[^\"]*\"|[\d,]+", "_", error.what)[:60]
        report.counts[f"reason: {type(error).__name__}: {reason}"] += 1
        if not isinstance(error, SqlError | RequestError):
            return [f"{type(error).__name__}: {error}"]
        if not error.what or len(str(error)) > 1_000:
            return [f"an error of {len(str(error))} letters"]
        if error.__cause__ is not None:
            return ["the error shows its cause"]
        if asked.kind in ("valid", "having") and not UNUSABLE.search(error.what):
            return [f"was refused: {error}"]
        return []

    def _sound(self, query: Query, answer: Any) -> list[str]:
        """Return what is wrong with an answer, whatever it should be."""
        problems = []
        if describe(read(describe(query), query.schema)) != describe(query):
            problems.append("the description is not that of the statement")
        for told in answer.estimates:
            sizes = {len(told.estimate), len(told.low), len(told.high)}
            if sizes != {len(answer.groups)}:
                problems.append(f"{told.alias} has {sizes} values")
            ends = zip(told.low, told.estimate, told.high, strict=True)
            if any(not (low <= high) for low, _, high in ends):
                problems.append(f"{told.alias} has an empty interval")
        return problems

    def _compared_by_duckdb(
        self, asked: Statement, query: Query, answer: Any, report: Report
    ) -> list[str]:
        sizes = [key.partition.size for key in query.keys]
        found = self.database.disagreements(asked.text, answer, sizes)
        report.counts["compared with DuckDB" if found is not None else "not by DuckDB"] += 1
        return found or []

    def _compared_by_spark(self, asked: Statement, answer: Any) -> list[str]:
        assert self.spark is not None
        other = ask(self.spark, ANALYST, "query", asked.text, LEVEL)
        pairs = zip(answer.estimates, other.estimates, strict=True)
        return [
            f"Spark: {one.alias} is {two.estimate}, not {one.estimate}"
            for one, two in pairs
            if repr(one) != repr(two)
        ] + ([] if answer.rows == other.rows else ["Spark: other rows are shown"])


def examine(seed: int, numbers: Iterable[int], *, spark: Any = None) -> Report:
    """Ask some statements, whose numbers rise."""
    report, tables = Report(), None
    try:
        for number in numbers:
            if tables is None or tables.number // BLOCK != number // BLOCK:
                if tables is not None:
                    tables.close()
                tables = Tables(seed, number, spark=spark)
            tables.ask(number, report)
    finally:
        if tables is not None:
            tables.close()
    return report


def tables_of(seed: int, world: str) -> list[int]:
    """Return the numbers of tables for chosen statements: of all sizes, some compared with others."""
    numbers = [n for n in range(0, CANDIDATES, BLOCK) if world_of(n).name == world]
    wanted = TABLES[world]
    taken = [number for number in numbers if number // BLOCK % TWINS == 0][: wanted // 10]
    alone = [number for number in numbers if number // BLOCK % TWINS][: 5 * wanted]
    sizes = {number: size_of(seed, number) for number in alone}
    taken += {size: number for number, size in reversed(sizes.items())}.values()
    others = (n for n in alone if n not in taken and sizes[n] >= FULL)
    return sorted([*taken, *islice(others, wanted - len(taken))])


@cache
def size_of(seed: int, number: int) -> int:
    first, *_ = rows_of(seed, number).values()
    return int(first.num_rows)


@cache
def chosen_of(seed: int, world: str) -> dict[int, list[int]]:
    """Return which of the chosen statements are asked of which tables, mostly of full ones."""
    numbers = sorted(n for choice in choose(seed, world).values() for n in choice.numbers)
    tables = tables_of(seed, world)
    full = [number for number in tables if size_of(seed, number) >= FULL]
    turns = [*tables, *full]
    found: dict[int, list[int]] = {number: [] for number in tables}
    for turn, number in zip(cycle(turns), numbers, strict=False):
        found[turn].append(number)
    return found


def examine_at(seed: int, tables: int, numbers: Iterable[int]) -> Report:
    """Ask some statements of the tables that go with another number."""
    report, opened = Report(), Tables(seed, tables)
    try:
        for number in numbers:
            opened.ask(number, report)
    finally:
        opened.close()
    return report


def examine_chosen(seed: int, world: str) -> Report:
    """Ask the statements that were chosen for the features that meet in them."""
    report = Report()
    for tables, numbers in chosen_of(seed, world).items():
        report.add(examine_at(seed, tables, numbers))
    return report


# many processes


def frames_of(session: Any, folder: Path) -> Callable[[Any], Any]:
    """Return a function that makes a cached Spark frame of an arrow table."""

    def frame(rows: Any) -> Any:
        path = folder / f"rows{len(list(folder.iterdir()))}.parquet"
        pq.write_table(rows, path)
        return session.read.parquet(str(path)).cache()

    return frame


@contextmanager
def spark_frames() -> Iterator[Callable[[Any], Any]]:
    """Lend what makes Spark frames, in a Spark of its own."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": folder,
            "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dderby.system.home={folder}",
        }
        builder = SparkSession.builder.master("local[1]").appName("statements")
        for name, value in options.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield frames_of(session, Path(folder))
        session.stop()


def work(seed: int, blocks: list[int], end: int, spark: int, place: Any, reports: Any) -> None:
    """Ask the statements of some blocks; ``place`` is the number of the one that is being asked."""
    parent = multiprocessing.parent_process()

    def told(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            place.value = number
            yield number

    with spark_frames() if spark else nullcontext() as frames:
        for block in blocks:
            if parent is None or not parent.is_alive():
                return
            numbers = range(block * BLOCK, min((block + 1) * BLOCK, end))
            report = examine(seed, told(numbers), spark=frames if spark > 0 else None)
            spark -= report.counts["compared with Spark"]
            reports.put(report)
    reports.put(None)


@dataclass
class Lane:
    """One process, what is left for it to do, and the statement that it is at."""

    seed: int
    end: int
    blocks: list[int]
    spark: int
    process: Any = None
    reports: Any = None
    place: Any = None
    at: tuple[int, float] = (-1, 0.0)

    def begin(self) -> None:
        # of its own: a process that is killed may hold the lock of its queue
        context = multiprocessing.get_context("spawn")
        self.reports, self.place = context.Queue(), context.Value("q", self.blocks[0] * BLOCK)
        self.at = self.place.value, time.monotonic()
        arguments = (
            self.seed, self.blocks, self.end, self.spark, self.place, self.reports
        )  # fmt: skip
        self.process = context.Process(target=work, args=arguments, daemon=True)
        self.process.start()

    def report(self) -> Report | None:
        """Return what is new; None when all is done."""
        try:
            found: Report | None = self.reports.get(timeout=0.5)
        except queue.Empty:
            found = self.interrupted()
        if found is None:
            self.blocks = []
        return found

    def interrupted(self) -> Report:
        """Return a failure and go on after it, where the process died, or nothing has happened for long."""
        now, number = time.monotonic(), self.place.value
        if self.at[0] != number:
            self.at = number, now
        died = self.process.exitcode not in (None, 0)
        if not died and now - self.at[1] < 20 * SECONDS:
            return Report()
        what = f"the process died: {self.process.exitcode}" if died else "hangs"
        self.process.kill()
        self.process.join()
        self.blocks = [block for block in self.blocks if block > number // BLOCK]
        if self.blocks:
            self.begin()
        again = f"--seed {self.seed} --only {number}"
        return Report(failures=[(again, statement(self.seed, number).text, what)])


def examine_all(seed: int, first: int, statements: int, processes: int, spark: int) -> Report:
    """Ask many statements, from the block of the first one on, in some processes; one also asks Spark."""
    whole, start, said = Report(), time.monotonic(), 0.0
    end = first + statements
    blocks = range(first // BLOCK, -(-end // BLOCK))
    lanes = [
        Lane(seed, end, list(blocks[place::processes]), 0 if place else spark)
        for place in range(processes)
        if blocks[place::processes]
    ]
    for lane in lanes:
        lane.begin()
    while any(lane.blocks for lane in lanes):
        for lane in lanes:
            report = lane.report() if lane.blocks else None
            if report is None:
                continue
            whole.add(report)
            for again, text, problem in report.failures:
                print(f"FAILED {again}: {problem}\n    {text!r:.2000}", flush=True)
        elapsed = time.monotonic() - start
        if elapsed - said >= 60:
            said, done = elapsed, whole.counts["asked"]
            print(
                f"{done:,} of {statements:,} in {elapsed:,.0f} s, {done / elapsed:,.0f} each second, "
                f"{len(whole.failures)} failures", flush=True,
            )  # fmt: skip
    return whole


def ask_again(seed: int, number: int, tables: int | None) -> Report:
    """Ask one statement alone; where nothing is wrong, with all those before it."""
    print(statement(seed, number).text)
    block = range(number // BLOCK * BLOCK, (number // BLOCK + 1) * BLOCK)
    asked = block if tables is None else chosen_of(seed, world_of(number).name)[tables]
    place = number if tables is None else tables
    alone = examine_at(seed, place, [number])
    if alone.failures:
        return alone
    print("nothing is wrong with it alone; asked after those before it:")
    return examine_at(seed, place, [one for one in asked if one <= number])


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--statements", type=int, help="ask so many, and not the chosen ones")
    reader.add_argument("--first", type=int, default=0, help="go on from this statement")
    reader.add_argument("--spark", type=int, default=0, help="so many answers are asked of Spark")
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--only", type=int, help="ask this statement again")
    reader.add_argument("--tables", type=int, help="the tables that it was asked of")
    reader.add_argument("--processes", type=int, default=1)
    given = reader.parse_args()
    start, report = time.monotonic(), Report()
    if given.only is not None:
        report = ask_again(given.seed, given.only, given.tables)
    elif given.statements is not None:
        report = examine_all(
            given.seed, given.first, given.statements, given.processes, given.spark
        )
    else:
        for world in dict.fromkeys(one.name for one in WORLDS):
            report.add(examine_chosen(given.seed, world))
            choices = choose(given.seed, world).values()
            print(*[choice for choice in choices if choice.numbers], sep="\n", flush=True)
    print(report)
    for again, text, problem in report.failures[:100]:
        print(f"{again}: {problem}\n    {text!r:.2000}")
    elapsed = time.monotonic() - start
    print(f"{len(report.failures)} failures in {elapsed:,.0f} seconds", flush=True)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
