"""Wall milliseconds of one answer inside the curator, on Adult, by mechanism.

    python -m tests.benchmarks.answers [--runs 200]

From the statement's text to the finished answer: stored ones, and new ones on a declared view that was
built when the table was opened, whose entry is committed to a ledger file. A tenth of the calls takes less
than what is printed: that is what other work of the machine does not change.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import dpnb
from tests.kit.inside import ask
from tests.kit.verdicts import at_most, finish

MECHANISMS = {
    "path": (dpnb.Budget(epsilon=50, delta=1e-6), dpnb.Policy()),
    "additive": (
        dpnb.Budget(epsilon=50, delta="1e-2", accountant="basic"),
        dpnb.Policy(mechanism="additive"),
    ),
    "vanilla": (
        dpnb.Budget(epsilon=50, delta="1e-2", accountant="basic"),
        dpnb.Policy(mechanism="vanilla", rows="sum"),
    ),
}
COLUMNS = ("education", "sex", "race", "workclass")
STORED, NEW = 0.3, 3.0
"""Milliseconds."""


def answers(name: str, folder: Path, runs: int) -> tuple[float, float]:
    """Return the milliseconds of a stored and of a new answer."""
    budget, policy = MECHANISMS[name]
    stored, new = [], []
    curator = dpnb.Curator(
        dpnb.datasets.adult(), budget=budget, ledger=folder / f"{name}.ledger",
        analysts={"ana": 1}, policy=policy, views="attributes",
    )  # fmt: skip
    with closing(curator):
        for run in range(-20, runs):
            column = COLUMNS[run % len(COLUMNS)]
            sql = f"SELECT {column}, COUNT(*) AS n FROM adult GROUP BY {column}"
            level = {"epsilon": str(Fraction(1, 1000) + Fraction(max(run, 0) + 20, 100_000))}
            start = time.perf_counter()
            answer = ask(curator, "ana", "query", sql, level)
            middle = time.perf_counter()
            ask(curator, "ana", "query", sql, level)
            if not all("histogram" in view for view in answer.definitions.values()):
                raise SystemExit(f"{sql} has no declared view")
            if run >= 0:
                new.append(1000 * (middle - start))
                stored.append(1000 * (time.perf_counter() - middle))
    return tuple(statistics.quantiles(times, n=10)[0] for times in (stored, new))


def main() -> None:
    """Print the times and what they must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        for name in MECHANISMS:
            stored, new = answers(name, Path(folder), runs)
            at_most(stored, STORED, f"{name}: stored answer in the curator", "ms")
            at_most(new, NEW, f"{name}: new answer with its commit", "ms")
    finish()


if __name__ == "__main__":
    main()
