"""What planning a decision takes, and what a decision takes beside the scan and the noise.

    python -m tests.benchmarks.probe.speed [--runs 7]

Plans: twelve conditions joined in several ways, as ``session.price`` tells them, in both definitions; 50 ms each.
A run: flights of 2013 by destination and month, 1,260 groups, six conditions that must all hold
(``flights.py``), as a user asks for it. Its time is taken apart into the one scan of the
table, the drawing of noise (exact sampling, counted in calls of ``SecureNoise``) and the rest: plan,
ledger, certificate and result. The rest may take 15 ms. Best of several runs, each with another beta, so that
nothing comes from the ledger or from a cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import dpnb
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.noise import SecureNoise
from tests.kit.inside import runner
from tests.kit.verdicts import at_most, finish, must

PLAN, REST = 0.050, 0.015
"""Seconds."""
BUDGETS = {PURE: dpnb.Budget(epsilon=1_000), ZCDP: dpnb.Budget(rho=1_000)}
FLIGHTS = """
SELECT dest, month FROM flights GROUP BY dest, month
HAVING COUNT(*) > 1337
   AND COUNT(*) FILTER (WHERE dep_delay > 15) > 278
   AND COUNT(*) FILTER (WHERE arr_delay > 30) > 210
   AND COUNT(*) FILTER (WHERE origin = 'JFK') > 531
   AND COUNT(*) FILTER (WHERE carrier IN ('UA', 'AA', 'DL')) > 832
   AND COUNT(DISTINCT tailnum) > 573
"""
RANGES = dict(
    zip(
        ("count", "count_2", "count_3", "count_4", "count_5", "distinct_tailnum"),
        (1604, 490, 434, 985, 1284, 701),
        strict=True,
    )
)
SHAPES = {
    # outer operator, and how many conditions the other one joins inside
    "and of 12": ("AND", 1),
    "or of 12": ("OR", 1),
    "or of 6 twos": ("OR", 2),
    "and of 6 twos": ("AND", 2),
    "or of 4 threes": ("OR", 3),
}


def joined(shape: tuple[str, int], atoms: list[str]) -> str:
    """Return a HAVING."""
    outer, size = shape
    inner = " OR " if outer == "AND" else " AND "
    parts = [inner.join(atoms[i : i + size]) for i in range(0, len(atoms), size)]
    return f" {outer} ".join(f"({part})" for part in parts)


def people() -> dpnb.Table:
    """Return a small table with twelve categories to count by."""
    rng = np.random.default_rng(1)
    letters = [chr(ord("a") + i) for i in range(12)]
    frame = pd.DataFrame({"k": rng.choice(["x", "y", "z"], 500), "c": rng.choice(letters, 500)})
    schema = dpnb.Schema({"k": dpnb.Category(["x", "y", "z"]), "c": dpnb.Category(letters)})
    return dpnb.Table("people", frame, schema)


def best(ask: Callable[[int], Any], runs: int) -> float:
    """Return the least seconds of several calls, each with its number."""
    found = []
    for i in range(runs):
        start = time.perf_counter()
        ask(i)
        found.append(time.perf_counter() - start)
    return min(found)


def plans(privacy: str, runs: int) -> None:
    """Time the planning of twelve conditions."""
    atoms = [f"COUNT(*) FILTER (WHERE c = '{chr(ord('a') + i)}') > {20 + 3 * i}" for i in range(12)]
    with dpnb.Session(people(), budget=BUDGETS[privacy]) as session:
        for name, shape in SHAPES.items():
            sql = f"SELECT k FROM people GROUP BY k HAVING {joined(shape, atoms)}"

            def ask(i: int, sql: str = sql) -> Any:
                return session.price(sql, beta=0.05 - i * 1e-4)

            taken = best(ask, runs)
            print(f"  {privacy}  plan, {name:15} {1e3 * taken:8.1f} ms   at most {1e3 * PLAN:.0f}")
            at_most(1e3 * taken, 1e3 * PLAN, f"{privacy}: plan of 12 conditions, {name}", "ms")


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of a run and of its parts; how many scans and steps it had."""

    total: float
    scan: float
    noise: float
    scans: int
    steps: int

    @property
    def rest(self) -> float:
        """Seconds of what is neither scan nor noise."""
        return self.total - self.scan - self.noise


class Watch:
    """Sums up the seconds of wrapped calls."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - start
                self.calls += 1

        return timed


@contextmanager
def watched(session: dpnb.Session) -> Iterator[tuple[Watch, Watch]]:
    """Time the scans of a session's table and all drawing of noise."""
    scan, noise = Watch(), Watch()
    engine = runner(session).engines["flights"]
    with mock.patch.object(engine, "measure", scan(engine.measure)):
        methods = {
            name: noise(getattr(SecureNoise, name)) for name in ("gaussian", "laplace", "coins")
        }
        with mock.patch.multiple(SecureNoise, **methods):
            yield scan, noise


def table() -> dpnb.Table:
    """Return the flights; what is declared is what occurs in the file, which only a public one allows."""
    rows = pd.read_parquet(dpnb.datasets.flights().source)
    schema = dpnb.Schema(
        {
            "month": dpnb.Integer(1, 12),
            "dest": dpnb.Category(sorted(rows["dest"].unique())),
            "origin": dpnb.Category(["EWR", "JFK", "LGA"]),
            "carrier": dpnb.Category(sorted(rows["carrier"].unique())),
            "tailnum": dpnb.Category(sorted(rows["tailnum"].dropna().unique())),
            "dep_delay": dpnb.Real(-60, 1500),
            "arr_delay": dpnb.Real(-30, 120),
        }
    )
    return dpnb.Table("flights", rows, schema)


def decide(session: dpnb.Session, i: int) -> Taken:
    """Decide once."""
    with watched(session) as (scan, noise):
        start = time.perf_counter()
        made = session.decide(FLIGHTS, ranges=RANGES, beta=0.05 - i * 1e-4, history=False)
        total = time.perf_counter() - start
    return Taken(total, scan.seconds, noise.seconds, scan.calls, len(made.taken))


def decisions(privacy: str, runs: int) -> None:
    """Time a decision and its parts."""
    with dpnb.Session(table(), budget=BUDGETS[privacy]) as session:
        found = [decide(session, i) for i in range(runs)]
    least = min(found, key=lambda one: one.rest)
    both = min(one.rest + one.noise for one in found)
    print(f"  {privacy}  decision, 1,260 groups, 6 conditions: {least.steps} step(s), {least.scans} scan(s)")  # fmt: skip
    for name, seconds in (
        ("total", least.total), ("scan", least.scan), ("noise", least.noise), ("rest", least.rest),
    ):  # fmt: skip
        print(f"  {privacy}    {name:20} {1e3 * seconds:8.1f} ms")
    kept = "kept" if both <= REST else "missed"
    print(
        f"  {privacy}    rest and noise       {1e3 * both:8.1f} ms   wanted {1e3 * REST:.0f}: {kept}"
    )
    must(all(one.scans == 1 for one in found), f"{privacy}: one scan of the table")
    at_most(1e3 * least.rest, 1e3 * REST, f"{privacy}: decision, without scan and noise", "ms")


def main() -> None:
    """Time all and exit 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    SecureNoise.warm_up()
    for privacy in BUDGETS:
        plans(privacy, runs)
    for privacy in BUDGETS:
        decisions(privacy, runs)
    finish()


if __name__ == "__main__":
    main()
