"""Cost of statements with expressions of columns against the same over plain columns, in one run.

    python -m tests.benchmarks.expressions [--rows 10000000] [--runs 5]

Prints CPU seconds (user + system, all threads) of both and their ratio, in place and with columns in
memory; then milliseconds to read a statement whose expressions were not evaluated before, by the number
of the column's codes, and to read it again; the same for conditions on two columns.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import dpnb
from dpnb.schema.table import Table
from dpnb.sql.parser import parse
from tests.benchmarks.query import make, measured
from tests.kit.verdicts import at_most, finish

STATEMENTS = {
    "a sum": ("SELECT education, SUM({}) AS s FROM census GROUP BY education", "age % 7", "age"),
    "a key": ("SELECT {} AS k, COUNT(*) AS n FROM census GROUP BY 1", "FLOOR(age / 10)", "age"),
    "a condition": (
        "SELECT education, COUNT(*) AS n FROM census WHERE {} GROUP BY education", "age % 7 = 0", "age <= 40",
    ),
    "a condition on two columns": (
        "SELECT education, COUNT(*) AS n FROM census WHERE {} GROUP BY education", "age > hours_per_week",
        "age > 40 AND hours_per_week > 30",
    ),
    "a real key": (
        "SELECT {} AS k, COUNT(*) AS n FROM census GROUP BY 1", "FLOOR(hourly_wage / 20)", "hourly_wage",
    ),
    "a real sum": (
        "SELECT education, SUM({}) AS s FROM census GROUP BY education", "FLOOR(hourly_wage / 20)", "hourly_wage",
    ),
}  # fmt: skip
"""A statement, an expression to put into it, and what stands there without one."""
RATIO = 1.1
COLD = {10_000: 15, 2**20: 500}
"""Milliseconds to read a statement, by the number of codes."""
AGAIN = 2
MEMORY = ["education", "age", "hours_per_week", "hourly_wage"]


def ratios(rows: int, runs: int, folder: Path) -> None:
    """Compare the CPU seconds of answers."""
    path = folder / "census.parquet"
    schema = make(path, rows)
    for how, in_memory in (("in place", ()), ("columns in memory", MEMORY)):
        table = Table("census", path, schema, in_memory=in_memory)
        with dpnb.Session(table, budget=dpnb.Budget(rho=100_000)) as session:

            def ask(i: int, statement: str, session: dpnb.Session = session) -> None:
                # another level each time, so that nothing is answered from the ledger
                session.query(statement, rho=str(0.5 + i / 100))

            for name, (statement, *columns) in STATEMENTS.items():
                works = (partial(ask, statement=statement.format(column)) for column in columns)
                (ours, _), (plain, _) = measured(*works, runs=runs)
                print(
                    f"{how}, {name}: {ours:.4f} CPU s, plain {plain:.4f}; ratio {ours / plain:.2f}"
                )
                at_most(
                    ours / plain, RATIO, f"{rows:,} rows, {how}, {name}: CPU over plain columns"
                )


def reading(runs: int) -> None:
    """Time how long statements take to be read."""
    for codes, bound in COLD.items():
        schema = dpnb.Schema({"n": dpnb.Integer(0, codes - 1)})
        tables = {"t": Table("t", None, schema)}

        def read(i: int, more: int, tables: dict[str, Table] = tables, codes: int = codes) -> None:
            width = codes // 500 + more * i
            parse(f"SELECT n // {width} AS k, COUNT(*) AS c FROM t GROUP BY 1", tables)

        cold, again = measured(partial(read, more=1), partial(read, more=0), runs=runs)
        at_most(1000 * cold[0], bound, f"{codes:,} codes: reading an expression", "ms")
        at_most(1000 * again[0], AGAIN, f"{codes:,} codes: reading it again", "ms")


def reading_two(runs: int) -> None:
    """Time how long conditions on two columns take to be read."""
    schema = dpnb.Schema({"age": dpnb.Integer(17, 90), "hours": dpnb.Integer(1, 99)})
    tables = {"t": Table("t", None, schema)}
    for name, condition in (
        ("a comparison", "age + {} > hours"),
        ("others", "(age + hours) % {} = 1"),
    ):

        def read(i: int, condition: str = condition) -> None:
            parse(f"SELECT COUNT(*) AS n FROM t WHERE {condition.format(i + 2)}", tables)

        ((cold, _),) = measured(read, runs=runs)
        at_most(1000 * cold, COLD[10_000], f"two columns, {name}: reading a condition", "ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    reading(4 * options.runs)
    reading_two(4 * options.runs)
    with tempfile.TemporaryDirectory() as folder:
        ratios(options.rows, options.runs, Path(folder))
    finish()


if __name__ == "__main__":
    main()
