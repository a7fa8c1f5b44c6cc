"""RDR's figure 8: the time of a profile, from a thousand to ten million rows.

    python -m tests.benchmarks.rdr.figure8 [--rows 10000000] [--runs 5]

Samples of Adult (1,000 and 10,000 rows) and stacked copies, cut to size: in each copy age, fnlwgt,
education_num and hours_per_week move by one common random step of 1, and the sexes may be swapped. Times
are wall seconds, medians, of whole calls on an open curator: ``risk(sql)``, which anything else
follows from, and the published algorithms in mode 'paper' with their search and release. Printed are the
means of the paper, on 32 cores with 8 processes; tau_p = .95, eps_svt = 1, tau_var = 1e-5, Laplace noise.
Two more statements have so many different contributions that they are rounded upward.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dpnb
from dpnb.privacy.noise import SecureNoise
from dpnb.risk.preferences import CANDIDATES, MinMaxRatio
from dpnb.risk.profile import RiskProfile
from tests.benchmarks.rdr.common import QUERIES
from tests.kit.verdicts import at_most, finish, must

PRINTED = {  # Find, Find-and-release: seconds for Q1 to Q5
    1_000: ((0.38, 0.44, 0.33, 0.36, 0.33), (0.38, 0.38, 0.27, 0.33, 0.28)),
    10_000: ((2.26, 2.63, 1.53, 1.86, 1.52), (2.19, 2.61, 1.51, 1.76, 1.46)),
    100_000: ((23.29, 25.31, 14.55, 18.00, 14.42), (22.97, 25.33, 14.59, 17.90, 14.34)),
    1_000_000: ((288.32, 313.81, 143.79, 210.46, 141.55), (283.28, 314.56, 145.87, 209.57, 141.07)),
}
MORE = {
    "fnlwgt": "SELECT SUM(fnlwgt) FROM adult",
    "wage": "SELECT marital_status, AVG(wage) FROM adult WHERE age < 60 GROUP BY marital_status",
}
"""Many different contributions; ``wage`` is generated, a real number for each row."""
WAGE = "round(-20 * ln(1 - random()), 2)"
NOISE = SecureNoise()
SHIFTED = ("age", "fnlwgt", "education_num", "hours_per_week")


def generate(path: Path, rows: int) -> None:
    """Write ``rows`` rows as Parquet."""
    adult = dpnb.datasets.adult()
    generator = np.random.default_rng(1)
    with duckdb.connect() as con:
        con.execute("SELECT setseed(0.5)")
        con.execute(f"CREATE TABLE adult AS SELECT * FROM '{adult.source}'")
        (size,) = con.execute("SELECT COUNT(*) FROM adult").fetchone()
        if rows <= size:
            sample = "" if rows == size else f"USING SAMPLE reservoir({rows} ROWS) REPEATABLE (1)"
            selected = f"SELECT *, {WAGE} AS wage FROM adult {sample}"
            con.execute(f"COPY ({selected}) TO '{path}' (FORMAT parquet)")
            return
        con.execute("CREATE TABLE stacked AS SELECT * FROM adult LIMIT 0")
        for start in range(0, rows, size):
            moved = [f"{n} + {step} AS {n}" for n, step in zip(
                SHIFTED, generator.choice((-1, 1), len(SHIFTED)), strict=True)]  # fmt: skip
            if generator.integers(2):
                moved.append("CASE sex WHEN 'Male' THEN 'Female' ELSE 'Male' END AS sex")
            con.execute(
                f"INSERT INTO stacked SELECT * REPLACE ({', '.join(moved)}) FROM adult "
                f"LIMIT {rows - start}"
            )
        con.execute(f"COPY (SELECT *, {WAGE} AS wage FROM stacked) TO '{path}' (FORMAT parquet)")


def seconds(work: Callable[[], Any], runs: int) -> float:
    """Return the median wall time of a call, after one warm-up."""
    found = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def candidate(profile: RiskProfile) -> float:
    """Return the seconds that one candidate epsilon takes, by evaluating all indicators."""
    preference = MinMaxRatio(0.95)
    levels = [float(level) for level in CANDIDATES]

    def sweep() -> None:
        for level in levels:
            preference.met(profile._rows, level)

    return seconds(sweep, 20) / len(levels)


def rounding(curator: dpnb.Curator, source: str) -> float:
    """Return by how much, at most, quantiles of rounded contributions lie above the exact ones."""
    found = curator.risk(MORE["fnlwgt"])._rows
    values = duckdb.sql(f"SELECT fnlwgt FROM '{source}'").fetchnumpy()["fnlwgt"] / 1_500_000
    shares = np.linspace(0, 1, 1001)[1:]
    exact = np.quantile(values, shares, method="inverted_cdf")
    rounded = np.array([found.quantile(found.r, share, 0.0) for share in shares])
    must(bool((rounded >= exact - 1e-12).all()), "rounded contributions are never below the exact")
    return float((rounded - exact).max())


def measured(path: Path, rows: int, runs: int) -> dict[str, dict[str, float]]:
    """Time all queries on one table."""
    kinds = {**dpnb.datasets.adult().schema, "wage": dpnb.Real(0, 200)}
    table = dpnb.Table("adult", path, dpnb.Schema(kinds), public=True)
    curator = dpnb.Curator(table, budget=dpnb.Budget(epsilon=1))
    found: dict[str, dict[str, float]] = {}
    for name, sql in {**QUERIES, **MORE}.items():
        profile = curator.risk(sql)
        if profile._rows.total != rows:
            raise AssertionError("rows are missing")
        found[name] = {
            "profile": seconds(lambda sql=sql: curator.risk(sql), runs),
            "candidate": candidate(profile),
        }
        if name in QUERIES:
            find = lambda sql=sql: curator.risk(sql, mode="paper").find()  # noqa: E731
            release = lambda sql=sql: curator.risk(sql, mode="paper").find_and_release(NOISE)  # noqa: E731
            found[name] |= {"find": seconds(find, runs), "release": seconds(release, runs)}
    if rows == 32_561:
        error = rounding(curator, str(path))
        must(error <= 1 / 4096, f"rounding moves quantiles of r by {error:.6f} <= 1/4096")
    curator.close()
    return found


def report(rows: int, found: dict[str, dict[str, float]]) -> None:
    print(f"\n{rows:,} rows, wall seconds")
    print(f"  {'':28}" + "".join(f"{name:>10}" for name in found))
    titles = {
        "profile": "risk(sql)",
        "candidate": "one candidate (microseconds)",
        "find": "Find",
        "release": "Find-and-release",
    }
    for place, (key, title) in enumerate(titles.items()):
        factor = 1e6 if key == "candidate" else 1
        digits = 1 if key == "candidate" else 4
        row = (figures.get(key) for figures in found.values())
        cells = ("" if value is None else f"{factor * value:.{digits}f}" for value in row)
        print(f"  {title:28}" + "".join(f"{cell:>10}" for cell in cells))
        if place >= 2 and rows in PRINTED:
            printed = PRINTED[rows][place - 2]
            print(f"  {'  printed':28}" + "".join(f"{value:>10.2f}" for value in printed))
    slowest = max(figures["profile"] for figures in found.values())
    limit = {32_561: 0.06, 10_000_000: 1.0}.get(rows)
    if limit is not None:
        at_most(slowest, limit, f"risk of {rows:,} rows: slowest profile", "s")
    if rows in PRINTED:
        factors = [
            printed / found[name]["find"]
            for name, printed in zip(QUERIES, PRINTED[rows][0], strict=True)
        ]
        must(
            min(factors) > 1,
            f"{rows:,} rows: Find is {min(factors):,.0f} to {max(factors):,.0f} times as fast as printed",
        )
    step = max(figures["candidate"] for figures in found.values())
    at_most(1e6 * step, 50, f"risk of {rows:,} rows: one candidate epsilon", "microseconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the largest table")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    sizes = (1_000, 10_000, 32_561, 100_000, 1_000_000, options.rows)
    for rows in sorted({size for size in sizes if size <= options.rows}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "adult.parquet"
            generate(path, rows)
            report(rows, measured(path, rows, options.runs))
    finish()


if __name__ == "__main__":
    main()
