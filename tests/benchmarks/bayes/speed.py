"""What inference from past answers costs: adding an answer, and a query with its interval.

    python -m tests.benchmarks.bayes.speed [--cells 1048576] [--rows 1000] [--repeats 20]

Wall milliseconds. 1,000 ranges over 2^20 cells, then 130 rows over 100 cells, added one by one and at
once; a query is a sum of 20 of the rows, its interval at 95 %. Half of the noises are Laplace. Last, a
GROUP BY of 10,000 disjoint counts, and ranges asked of it. No data are needed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dpnb.estimation.atoms import support
from dpnb.estimation.blue import RowSpace
from dpnb.estimation.history import History, Row
from dpnb.privacy.calibrate import NoiseDistribution
from tests.kit.verdicts import at_most, finish, must


def milliseconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of one call, and what it returned."""
    begun = time.perf_counter()
    found = work()
    return 1000 * (time.perf_counter() - begun), found


def ranges(rng: np.random.Generator, cells: int, count: int) -> list[Row]:
    """Return rows on random ranges, one in eight of them on boundaries of 64 equal parts."""
    rows = []
    for number in range(count):
        low, high = np.sort(rng.choice(cells + 1, 2, replace=False)).tolist()
        if number % 8 == 0:
            first, last = np.sort(rng.integers(0, min(64, cells), 2)).tolist()
            part = max(cells // 64, 1)
            low, high = first * part, (last + 1) * part
        distribution = NoiseDistribution(
            "laplace" if number % 2 else "gaussian", float(10 ** rng.uniform(0, 1))
        )
        rows.append(Row(f"row {number}", range(low, high), 1.0, float(rng.normal()), distribution))
    return rows


def measure(name: str, cells: int, count: int, repeats: int) -> dict[str, float]:
    """Print and return the medians of one history."""
    rng = np.random.default_rng(7)
    rows = ranges(rng, cells, count)
    history = History(cells)
    adding = [milliseconds(lambda r=row: history.add(r))[0] for row in rows]
    building, _ = milliseconds(lambda: History(cells).extend(rows))
    asking, ends, off = [], [], []
    matrix = history.space.matrix
    for _ in range(repeats):
        query = np.zeros(cells)
        chosen = rng.choice(count, 20, replace=False)
        for place, sign in zip(chosen, rng.choice([-1.0, 1.0], 20), strict=True):
            query[rows[place].index] += sign
        inside = np.flatnonzero(query)
        took, joint = milliseconds(lambda i=inside, q=query: history.estimate(i, q[i]))
        asking.append(took)
        ends.append(milliseconds(lambda j=joint: j.interval(0, 0.05))[0])
        atoms = history.space.atoms
        on_atoms = atoms.reduce(support(cells, inside, query[inside]))
        off.append(float(np.abs(joint.weights[0] @ matrix - on_atoms).max()))
    last = statistics.median(adding[-repeats:])
    both = statistics.median(a + b for a, b in zip(asking, ends, strict=True))
    space = history.space
    print(f"\n{name}: {space.rows:,} rows, rank {space.rank:,}, {len(space.atoms):,} atoms")
    print(f"  add one          {last:9.2f} (largest {max(adding):.1f})")
    print(f"  add all at once  {building:9.2f}")
    print(f"  query            {statistics.median(asking):9.2f}")
    print(f"  its interval     {statistics.median(ends):9.2f}")
    print(f"  max |A H - Q|    {max(off):9.1e}")
    return {"add": last, "query": both, "off": max(off), "build": building}


def disjoint(cells: int, groups: int) -> float:
    """Print the times of a large GROUP BY; return that of a query."""
    rng = np.random.default_rng(8)
    keys = rng.permutation(np.arange(cells) % groups)
    space = RowSpace(cells)
    order = np.split(np.argsort(keys, kind="stable"), np.cumsum(np.bincount(keys))[:-1])
    rows = [(support(cells, where, 1.0), float(rng.normal()), 1.0) for where in order]
    made, _ = milliseconds(lambda: space.extend(rows))
    inside = np.flatnonzero(keys < groups // 2)
    asked, _ = milliseconds(lambda: space.solve(inside, 1.0).weights())
    added, _ = milliseconds(lambda: space.add_support(support(cells, range(cells), 1.0), 0.0, 1.0))
    again, _ = milliseconds(lambda: space.solve(inside, 1.0).weights())
    print(f"\n{groups:,} disjoint rows over {cells:,} cells")
    print(f"  all at once      {made:9.2f}")
    print(f"  query            {asked:9.2f}")
    print(f"  add the total    {added:9.2f}")
    print(f"  query again      {again:9.2f}")
    return max(asked, again)


def main() -> None:
    """Print the tables and what they must show."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1 << 20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    small = measure("small", 100, 130, given.repeats)
    large = measure("large", given.cells, given.rows, given.repeats)
    group_by = disjoint(given.cells, 10_000)
    at_most(large["add"], 40, "inference, 1,000 answers over a million bins: add one", "ms")
    at_most(large["query"], 40, "inference, 1,000 answers over a million bins: query", "ms")
    must(large["off"] <= 1e-12, f"large: weights are off by {large['off']:.1e} (1e-12 or less)")
    at_most(small["add"], 4, "inference, 130 answers over 100 bins: add one", "ms")
    must(small["off"] <= 1e-12, f"small: weights are off by {small['off']:.1e} (1e-12 or less)")
    at_most(group_by, 100, "inference from 10,000 disjoint groups: query", "ms")
    finish()


if __name__ == "__main__":
    main()
