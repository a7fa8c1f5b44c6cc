"""DProvDB's figure 5: answers against the size of the workload, with cached synopses and without.

    python -m tests.benchmarks.dprovdb.figure5 [--processes 2]

Two analysts of privileges 1 and 4, limits by sum for everybody, variances from 15,000 down by two with
each query, round robin. "reference" was computed independently of this package.
"""

from __future__ import annotations

import numpy as np

from tests.benchmarks.dprovdb.common import (
    LIMITS,
    RUNS,
    Case,
    Grid,
    chorus,
    expect,
    finish,
    heading,
    line,
    must,
    runs,
)

SIZES = (100, 800, 2000, 4000, 8000, 14000)
SYSTEMS = {
    "path, gdp": {"mechanism": "path", "accountant": "gdp"},
    "additive": {"mechanism": "additive"},
    "vanilla": {"mechanism": "vanilla"},
    "Chorus, sensitivity 1": {"mechanism": ""},
}
REFERENCE = {
    "path, gdp": SIZES,
    "additive": (100, 792, 1950, 3649, 6137, 7600),
    "vanilla": (92, 685, 1639, 2802, 3588, 3607),
    "Chorus, sensitivity 1": (100, *[161] * 5),
}
PUBLISHED = {
    "6.4": "published (DProvDB): nearly all up to 8,000, about 12,600 of 14,000",
    "0.4": "published (DProvDB): about 790 of 14,000",
}


def main() -> None:
    """Print the tables and what they must show."""
    common = {
        "run": 1, "privileges": (1, 4), "rows": "sum", "count": SIZES[-1] // 2,
        "start": 15_000, "step": 2,
    }  # fmt: skip
    work = {
        (name, limit): runs(Case(limit=limit, **common, **options))
        for limit in LIMITS
        for name, options in SYSTEMS.items()
    }
    grid = Grid(work, {key: chorus for key in work if key[0].startswith("Chorus")})

    def means(name: str, limit: str) -> list[float]:
        """Return the mean number of answers to the first requests of each size."""
        # a smaller workload is the beginning of a larger one
        found = grid.found[name, limit]
        return [float(np.mean([outcome.first(size) for outcome in found])) for size in SIZES]

    for limit in LIMITS:
        heading(f"limit {limit}: means of {len(RUNS)} runs for workloads of")
        line("", SIZES)
        for name in SYSTEMS:
            line(name, [f"{mean:.0f}" for mean in means(name, limit)])
            if limit == "6.4":
                line("  reference", REFERENCE[name])
        print(PUBLISHED.get(limit, ""), end="\n" if limit in PUBLISHED else "")

    for name, wanted in REFERENCE.items():
        expect(f"{name} at 6.4, each size", means(name, "6.4"), wanted)
    must(
        all(
            path >= additive >= vanilla
            for limit in LIMITS
            for path, additive, vanilla in zip(
                *(means(name, limit) for name in ("path, gdp", "additive", "vanilla")), strict=True
            )
        ),
        "with one rule for all, paths answer most and additive noise no less than vanilla, everywhere",
    )
    must(grid.used() <= 1 + 1e-9, f"no run uses more than {grid.used():.6f} of a limit")
    finish()


if __name__ == "__main__":
    main()
