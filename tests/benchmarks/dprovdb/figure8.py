"""DProvDB's figure 8: answers against the delta of one release.

    python -m tests.benchmarks.dprovdb.figure8 [--processes 2]

The workload of figure 3 at limit 6.4 (privileges 1 and 9): the 5,000 answers of the published figure
are more than the tree search that its text names can ask. Under basic composition each release has
delta, and all together at most 1e-5; on paths delta is that of the whole.
"""

from __future__ import annotations

from tests.benchmarks.dprovdb.common import Case, Grid, finish, heading, line, must, runs

DELTAS = ("1e-9", "1e-10", "1e-11", "1e-12", "1e-13")
SYSTEMS = {
    "path, gdp": {"mechanism": "path", "accountant": "gdp"},
    "path, zcdp": {"mechanism": "path", "accountant": "zcdp"},
    "additive": {"mechanism": "additive"},
    "vanilla": {"mechanism": "vanilla", "rows": "sum"},
}


def main() -> None:
    """Print the tables and what they must show."""
    work = {
        (schedule, name, delta): runs(
            Case(limit="6.4", run=1, delta=delta, schedule=schedule, **options)
        )
        for schedule in ("round robin", "random")
        for name, options in SYSTEMS.items()
        for delta in DELTAS
    }
    grid = Grid(work)
    for schedule in ("round robin", "random"):
        heading(f"adult, {schedule}: means of four runs at delta")
        line("", DELTAS)
        for name in SYSTEMS:
            line(name, [f"{grid.mean((schedule, name, delta)):.0f}" for delta in DELTAS])
        means = {name: [grid.mean((schedule, name, delta)) for delta in DELTAS] for name in SYSTEMS}
        must(
            all(means["path, gdp"][i] >= max(means["additive"][i], means["vanilla"][i])
                for i in range(len(DELTAS))),
            f"{schedule}: paths answer most at every delta",
        )  # fmt: skip
        for name, found in means.items():
            must(found[0] >= found[-1], f"{schedule}, {name}: 1e-9 answers no less than 1e-13")
    must(grid.used() <= 1 + 1e-9, f"no run uses more than {grid.used():.6f} of a limit")
    finish()


if __name__ == "__main__":
    main()
