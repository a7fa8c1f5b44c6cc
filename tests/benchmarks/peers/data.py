"""The benchmark's tables as Parquet, made once by DuckDB: persons, 16 groups of unequal size, ages."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

GROUPS = [f"group_{i:02d}" for i in range(16)]
LOW, HIGH = 17, 90
"""Bounds of age, which are public. No age lies outside, none is missing."""
ROWS_PER_PERSON = 10
SIZES = {"32k": 32_561, "1M": 1_000_000, "10M": 10_000_000, "100M": 100_000_000}


def make(folder: Path, rows: int, *, even: bool = False) -> Path:
    """Return the file of a table, made if it is not there.

    A person has 10 rows on average, in any groups; how many is Poisson, or with ``even`` never more
    than 10, so that a bound of 10 rows leaves nothing out.
    """
    path = folder / f"persons_{rows}{'_even' if even else ''}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    persons = -(-rows // ROWS_PER_PERSON)
    part = path.with_suffix(".part")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            f"""
            COPY (
                SELECT CAST({"i" if even else "hash(i * 5 + 1)"} % {persons} AS BIGINT) AS person_id,
                       printf('group_%02d', CAST(floor(16 * pow(u, 1.5)) AS INTEGER)) AS grp,
                       CAST({LOW} + floor({HIGH - LOW + 1} * v * sqrt(w)) AS INTEGER) AS age
                FROM (SELECT i, (hash(i * 5 + 2) % 1000003) / 1000003 AS u,
                             (hash(i * 5 + 3) % 1000003) / 1000003 AS v,
                             (hash(i * 5 + 4) % 1000003) / 1000003 AS w
                      FROM range({rows}) AS rows(i))
            ) TO '{part}' (FORMAT parquet)
            """
        )
    os.replace(part, path)  # noqa: PTH105
    return path


def truth(path: Path) -> dict[str, tuple[int, float]]:
    """Return the exact count and mean of each group."""
    sql = f"SELECT grp, COUNT(*), AVG(age) FROM '{path}' GROUP BY grp"
    with duckdb.connect() as connection:
        return {grp: (count, mean) for grp, count, mean in connection.execute(sql).fetchall()}
