"""Cost of a whole private query against the same aggregate in plain DuckDB, measured in one run.

    python tests/benchmarks/query.py [--rows 32561 1000000 10000000] [--runs 7]

Prints CPU seconds (user + system, all threads) and their ratio, for an integer and a real column,
GROUP BY education (16 groups): COUNT(*) and AVG. Plain DuckDB reads the same Parquet file. Then the
time of a repeated query, of opening, and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import dpnb
from dpnb.schema import Schema
from dpnb.table import Table


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def make(path: Path, rows: int) -> Schema:
    """Write generated persons as Parquet, in a process of its own so that its memory is not counted."""
    script = (
        "import duckdb, sys, dpnb\n"
        f"table = dpnb.datasets.census({rows}, 1)\n"
        "frame = table.source\n"
        "con = duckdb.connect(); con.register('f', frame)\n"
        f"con.execute(\"COPY f TO '{path}' (FORMAT parquet)\")\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    return dpnb.datasets.census(0).schema


def measured(work, runs: int) -> tuple[float, float]:
    """Return median CPU and wall seconds over ``runs`` after one warm-up."""
    figures = []
    for i in range(runs + 1):
        wall, used = time.perf_counter(), cpu()
        work(i)
        figures.append((cpu() - used, time.perf_counter() - wall))
    return tuple(statistics.median(column) for column in zip(*figures[1:], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[32_561, 1_000_000, 10_000_000])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "census.parquet"
            schema = make(path, rows)
            before = cpu()
            start = time.perf_counter()
            session = dpnb.Session(
                Table("census", path, schema),
                budget=dpnb.Budget(rho=1000),
                ledger=Path(folder) / "census.ledger",
            )
            print(
                f"{rows:>10,} rows: opened in {time.perf_counter() - start:.2f} s wall, "
                f"{cpu() - before:.2f} s CPU"
            )
            plain = duckdb.connect()
            for column in ("hours_per_week", "hourly_wage"):
                sql = f"SELECT education, COUNT(*) AS n, AVG({column}) AS mean FROM census"
                ours = measured(
                    # a new predicate each time, so that nothing is answered from the ledger
                    lambda i, sql=sql: session.query(
                        f"{sql} WHERE fnlwgt <= {1_499_000 + i} GROUP BY education", rho="0.5"
                    ),
                    options.runs,
                )
                theirs = measured(
                    lambda i, sql=sql: plain.execute(
                        f"{sql.replace('census', repr(str(path)))} "
                        f"WHERE fnlwgt <= {1_499_000 + i} GROUP BY education"
                    ).fetchall(),
                    options.runs,
                )
                bare = measured(
                    lambda i, sql=sql: session.query(
                        f"{sql} GROUP BY education", rho=str(0.5 + i / 100)
                    ),
                    options.runs,
                )
                plain_bare = measured(
                    lambda _, sql=sql: plain.execute(
                        f"{sql.replace('census', repr(str(path)))} GROUP BY education"
                    ).fetchall(),
                    options.runs,
                )
                for word, a, b in (("", bare, plain_bare), (" with WHERE", ours, theirs)):
                    print(
                        f"{'':>10}  AVG({column}){word}: dpnb {a[0]:.4f} CPU s ({a[1]:.4f} wall), "
                        f"DuckDB {b[0]:.4f} ({b[1]:.4f}); CPU ratio {a[0] / b[0]:.2f}, "
                        f"{1000 * (a[0] - b[0]):+.1f} ms"
                    )
            again = f"{sql} GROUP BY education"
            repeated = measured(lambda _: session.query(again, rho="0.5"), 50)
            print(f"{'':>10}  repeated: {1000 * repeated[1]:.2f} ms wall")
            session.close()
            plain.close()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{'':>10}  peak memory of the process so far: {peak:.0f} MB")


if __name__ == "__main__":
    main()
