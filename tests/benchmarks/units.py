"""Cost of answers that protect persons, and of joins, against the same statement in plain DuckDB.

    python -m tests.benchmarks.units [--rows 1000000] [--runs 7]

Generated purchases of a tenth as many persons, who have at most 20 each, in Parquet files; CPU seconds (user +
system, all threads), the least of several runs that take turns. The bounds are what the same runs showed
before DuckDB's statistics were switched off, with a fifth more for noise.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

import dpnb
from tests.benchmarks.query import cpu
from tests.kit.verdicts import at_most, finish

PRODUCTS, KINDS, REGIONS = 200, ["tool", "supply", "food", "toy"], ["north", "south", "east"]
BOUNDS = {
    "opening and a first answer about persons": 40,
    "rows of persons": 2.4,
    "persons": 1.15,
    "a look-up by a public key": 1.2,
    "a look-up by the person": 0.6,
    "one row for each person": 2,
    "persons and their rows": 2,
}
STATEMENTS = {
    "rows of persons": "SELECT product, COUNT(*) AS n, AVG(amount) AS m FROM sales GROUP BY product",
    "persons": "SELECT product, COUNT(DISTINCT buyer) AS n FROM sales GROUP BY product",
    "a look-up by a public key": "SELECT p.kind, COUNT(*) AS n, AVG(s.amount) AS m FROM sales s "
    "JOIN products p ON s.product = p.product GROUP BY p.kind",
    "a look-up by the person": "SELECT b.region, COUNT(*) AS n, AVG(s.amount) AS m FROM sales s "
    "JOIN buyers b ON s.buyer = b.buyer GROUP BY b.region",
    "one row for each person": "WITH p AS (SELECT buyer, SUM(amount) AS spent, COUNT(*) AS orders FROM sales "
    "GROUP BY buyer) SELECT orders, AVG(spent) AS spent FROM p WHERE orders >= 3 AND orders < 20 GROUP BY orders",
    "persons and their rows": "SELECT product, COUNT(*) AS n FROM sales WHERE buyer IN (SELECT buyer FROM sales GROUP BY "
    "buyer HAVING SUM(amount) > 400) GROUP BY product",
}


def write(folder: Path, rows: int) -> None:
    """Write the three tables as Parquet."""
    persons = rows // 10
    tables = {
        "sales": f"(hash(range) % {persons})::BIGINT AS buyer, (hash(range + 7) % {PRODUCTS})::INTEGER AS product, "
        f"(hash(range + 13) % 100)::INTEGER AS amount FROM range({rows})",
        "products": f"range::INTEGER AS product, ({KINDS})[range % {len(KINDS)} + 1] AS kind FROM range({PRODUCTS})",
        "buyers": f"range AS buyer, ({REGIONS})[(hash(range) % {len(REGIONS)})::BIGINT + 1] AS region FROM range({persons})",
    }
    with duckdb.connect() as connection:
        for name, selected in tables.items():
            connection.execute(
                f"COPY (SELECT {selected}) TO '{folder}/{name}.parquet' (FORMAT parquet)"
            )


def opened(folder: Path) -> dpnb.Session:
    product = dpnb.Integer(0, PRODUCTS - 1)
    sales = dpnb.Schema({"product": product, "amount": dpnb.Integer(0, 99)})
    tables = [
        dpnb.Table(
            "sales", folder / "sales.parquet", sales, dpnb.Unit("buyer", max_rows=20, max_groups=20)
        ),
        dpnb.Table(
            "buyers",
            folder / "buyers.parquet",
            dpnb.Schema({"region": dpnb.Category(REGIONS)}),
            dpnb.Unit("buyer", max_rows=1),
        ),
        dpnb.Table(
            "products",
            folder / "products.parquet",
            dpnb.Schema({"product": product, "kind": dpnb.Category(KINDS)}),
            public=True,
            key="product",
        ),
    ]
    return dpnb.Session(tables, budget=dpnb.Budget(rho=1_000))


def fetched(plain: duckdb.DuckDBPyConnection, sql: str) -> list[tuple]:
    return plain.execute(sql).fetchall()


def used(work: Callable[[], object]) -> float:
    start = cpu()
    work()
    return cpu() - start


def ratios(folder: Path, runs: int) -> dict[str, float]:
    """Return each question's CPU over that of plain DuckDB."""

    def first() -> None:
        with opened(folder) as session:
            session.query(STATEMENTS["rows of persons"], rho="0.1")

    found = {}
    with opened(folder) as session, duckdb.connect() as plain:
        for name in ("sales", "buyers", "products"):
            plain.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")
        for name, sql in STATEMENTS.items():
            ours, theirs = [], []
            for i in range(runs + 1):
                # another level each time, so that nothing is answered from the ledger
                ours.append(used(partial(session.query, sql, rho=str(0.1 + i / 100))))
                theirs.append(used(partial(fetched, plain, sql)))
            found[name] = min(ours[1:]) / min(theirs[1:])
            if name == "rows of persons":
                opening = min(used(first) for _ in range(runs // 2 + 1))
                found["opening and a first answer about persons"] = opening / min(theirs[1:])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.rows)
        found = ratios(Path(folder), options.runs)
    for name, bound in BOUNDS.items():
        at_most(found[name], bound, f"{options.rows:,} rows, {name}: CPU over plain DuckDB")
    finish()


if __name__ == "__main__":
    main()
