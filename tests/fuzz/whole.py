"""Asks random statements of the whole grammar without noise, and DuckDB for the same.

    python -m tests.fuzz.whole --statements 100000 [--first K] [--seed N] [--processes 2]
    python -m tests.fuzz.whole --seed S --only K

DuckDB is asked over the normalised rows, with the declared groups in front: a group without rows is
there, a count or sum of nothing is 0. Leaves with 1 when a number, a group or an order differs, or when
a statement is refused for none of the known reasons.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import multiprocessing
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from dpnb import Budget, Table
from dpnb.curator import Curator
from dpnb.errors import DpnbError, SqlError
from dpnb.ledger.accounts import ANALYST
from tests.fuzz.grammar import DECLARED, Asked, rows_of
from tests.fuzz.reference import Database, normalised
from tests.fuzz.run import within
from tests.fuzz.shapes import Writer
from tests.kit.inside import ask
from tests.kit.noise import NoNoise

LEVEL = {"rho": 10**11}
SECONDS = 20.0
BLOCK = 100
"""So many statements in a row are asked of the same tables."""
CLOSE = 2e-4
"""What rounding to the lattice may change."""
NOTHING = 1e-3
"""A standard deviation of 0 is shown as the root of what rounding may change, so below this is 0."""
MEANINGLESS = re.compile(
    r"never equals|is never so|have no order|is not a declared category|makes [0-9,]* groups|NULL for every value|in every row|too close together|too small|too large|no finite result|is not supported|nothing is left"
    r"|too many for this|cannot be looked up|must be a condition|a column alone"
    r"|nothing equals NULL|this must be a value|must be a column|changes more than [0-9,]* times|this condition cuts|cannot compute this from"
)
"""Why a statement may be refused: its constants or types make no sense, or there are too many values."""
_BINS = re.compile(r"[\[(]\S+, \S+\]")
"""Labels of declared bins, which DuckDB does not have."""


def statement(seed: int, number: int) -> Asked:
    """Return the statement of a number."""
    return Writer(random.Random(seed << 64 | number)).statement()  # noqa: S311


class Tables:
    """The tables of one block, in a curator without noise, and normalised in a DuckDB."""

    def __init__(
        self, seed: int, number: int, source: Callable[[str, pa.Table], Any] | None = None
    ) -> None:
        rows = rows_of(seed, number // BLOCK)
        memory = None if number // BLOCK % 3 == 0 and source is None else ()
        tables = [
            Table(
                name, source(name, rows[name]) if source else rows[name], one.schema, one.unit,
                public=one.key is not None, key=one.key, in_memory=memory,
            )
            for name, one in DECLARED.items()
        ]  # fmt: skip
        self.curator = Curator(tables, budget=Budget(rho=10**15), noise=NoNoise())
        normal = {name: normalised(one, rows[name]) for name, one in DECLARED.items()}
        self.database = Database(DECLARED, normal)
        self.database.connection.execute("SET TimeZone='UTC'; SET default_collation='binary'")

    def answer(self, text: str) -> Any:
        return ask(self.curator, ANALYST, "query", text, LEVEL)

    def close(self) -> None:
        self.curator.close()
        self.database.close()

    def expected(
        self, asked: Asked, groups: Sequence[Sequence[Any]]
    ) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Return the lines that are to be shown, and what is wrong with the groups."""
        connection = self.database.connection
        size = len(asked.keys)
        columns = {f"k{i}": [group[i] for group in groups] for i in range(size)}
        for i in range(size):
            places = {one: n for n, one in enumerate(dict.fromkeys(columns[f"k{i}"]))}
            columns[f"o{i}"] = [places[one] for one in columns[f"k{i}"]]
        table = pa.table(
            {name: array_of(values) for name, values in columns.items()} or {"none": [0]}
        )
        connection.register("groups", table)
        problems = [] if len({*groups}) == len(groups) else ["a group is there twice"]
        on = " AND ".join(f"g.k{i} = b.k{i}" for i in range(size)) or "TRUE"
        values = ", ".join(
            f"COALESCE(b.{name}, {nothing}) AS {name}" for name, nothing in asked.nothing
        )
        connection.execute(f"CREATE OR REPLACE TEMP TABLE base AS {asked.released}")
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE released AS SELECT g.*, {values} FROM groups g LEFT JOIN base b ON {on}"
        )
        known = " AND ".join(f"k{i} IS NOT NULL" for i in range(size)) or "TRUE"
        lost = connection.execute(
            f"SELECT * FROM base b WHERE {known} AND NOT EXISTS (SELECT 1 FROM groups g WHERE {on})"
        ).fetchall()
        problems += [f"the group of {line} is not there" for line in lost[:2]]
        return connection.execute(asked.shown).fetchall(), problems


def array_of(values: list[Any]) -> pa.Array:
    """Return labels as a column."""
    if any(isinstance(one, Decimal | float) for one in values):
        return pa.array([None if one is None else float(one) for one in values], pa.float64())
    return pa.array(values)


def alike(one: Any, other: Any) -> bool:
    """Whether a shown value is the expected one."""
    missing = [
        value is None or (isinstance(value, float) and math.isnan(value)) for value in (one, other)
    ]
    if any(missing):
        return all(missing)
    if isinstance(other, bool) or isinstance(one, str) or isinstance(other, str):
        return str(one).lower() == str(other).lower()
    if isinstance(other, datetime.date):
        return str(one)[:10] == str(other)[:10]
    if max(abs(float(one)), abs(float(other))) < NOTHING:
        return True
    return math.isclose(float(one), float(other), rel_tol=CLOSE, abs_tol=CLOSE)


def unlike(shown: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], *, ordered: bool) -> str:
    """Return in words how the lines differ; '' where they do not."""
    if len(shown) != len(expected):
        return f"{len(shown)} lines, not {len(expected)}: {shown[:4]}, not {expected[:4]}"
    left = list(expected)
    for place, line in enumerate(shown):
        among = left[:1] if ordered else left
        found = next((i for i, other in enumerate(among) if all(map(alike, line, other))), None)
        if found is None:
            return f"line {place} is {line}, not {among[:4]}"
        del left[found]
    return ""


def lines_of(answer: Any, aliases: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return what is shown, in some columns, before the cut."""
    frame = answer.to_frame(cut=False)
    return [tuple(line) for line in frame[list(aliases)].astype(object).itertuples(index=False)]


def superfluous(answer: Any, asked: Asked) -> list[str]:
    """Return columns that are shown, and are neither asked for nor keys that are not listed."""
    shown = [*(answer.shown or answer).keys, *(column.alias for column in answer.columns)]
    more = [name for name in shown if name not in asked.aliases]
    listed = sum(alias.startswith("g") for alias in asked.aliases)
    return more if len(more) > max(len(asked.keys) - listed, 0) else []


def problems_of(tables: Tables, asked: Asked, counts: Counter[str]) -> list[str]:
    try:
        answer = tables.answer(asked.text)
    except SqlError as error:
        reason = re.sub(r"'[^']*'|\b[a-z]\.?[a-z]*\d*\b = \S+|[-\d,.]+", "_", error.what)[:70]
        counts["refused"] += 1
        counts[f"reason: {reason}"] += 1
        return [] if MEANINGLESS.search(error.what) else [f"was refused: {error}"]
    counts["answered"] += 1
    more = superfluous(answer, asked)
    if more:
        return [f"shows {', '.join(more)} besides"]
    if len(answer.grouped) != len(asked.keys):
        counts["with one key twice"] += 1
        return []
    for feature in asked.features:
        counts[f"feature: {feature}"] += 1
    places = sorted({*answer.rows, *answer.rest})
    groups = [tuple(answer.groups[place]) for place in places]
    if any(isinstance(one, str) and _BINS.fullmatch(one) for group in groups for one in group):
        counts["with declared bins"] += 1
        return []
    try:
        expected, problems = tables.expected(asked, groups)
    except duckdb.Error as error:
        counts["not by DuckDB"] += 1
        counts[f"DuckDB: {str(error)[:90]}"] += 1
        return []
    counts["compared"] += 1
    counts["groups compared"] += len(groups)
    difference = unlike(lines_of(answer, asked.aliases), expected, ordered=asked.ordered)
    return [*problems, difference] if difference else problems


def examine(
    seed: int, numbers: Iterable[int], source: Callable[[str, pa.Table], Any] | None = None
) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Ask some statements, whose numbers rise; return what became of them, and what is wrong."""
    counts: Counter[str] = Counter()
    failures = []
    for block, some in itertools.groupby(numbers, lambda number: number // BLOCK):
        tables = Tables(seed, block * BLOCK, source)
        for number in some:
            asked = statement(seed, number)
            counts["asked"] += 1
            try:
                with within(SECONDS):
                    found = problems_of(tables, asked, counts)
            except DpnbError as error:
                found = [f"{type(error).__name__}: {error}"]
            except BaseException as error:  # noqa: BLE001 - whatever comes out is looked for
                found = [f"{type(error).__name__}: {error}"]
            failures += [(number, asked.text, problem) for problem in found[:2]]
        tables.close()
    return counts, failures


def _examined(task: tuple[int, range]) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    return examine(*task)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--statements", type=int, default=1_000)
    reader.add_argument("--first", type=int, default=0)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--only", type=int, help="ask this statement again")
    reader.add_argument("--processes", type=int, default=1)
    given = reader.parse_args()
    if given.only is not None:
        asked = statement(given.seed, given.only)
        print(asked.text, asked.released, asked.shown, sep="\n\n")
        tasks = [(given.seed, range(given.only, given.only + 1))]
    else:
        end = given.first + given.statements
        starts = range(given.first, end, BLOCK)
        tasks = [(given.seed, range(start, min(start + BLOCK, end))) for start in starts]
    counts: Counter[str] = Counter()
    start, wrong, said = time.monotonic(), 0, 0.0
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        work = map(_examined, tasks) if given.processes == 1 else pool.imap(_examined, tasks)
        for found, failures in work:
            counts += found
            wrong += len(failures)
            for number, text, problem in failures:
                print(
                    f"FAILED --seed {given.seed} --only {number}: {problem:.1000}\n    {text}",
                    flush=True,
                )
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(f"{counts['asked']:,} in {said - start:,.0f} s, {wrong} failures", flush=True)
    print("\n".join(f"{count:>10,}  {name}" for name, count in sorted(counts.items())))
    print(f"{wrong} failures in {time.monotonic() - start:,.0f} seconds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
