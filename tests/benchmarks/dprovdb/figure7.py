"""DProvDB's figure 7: limits of rows that promise more than there is, and static limits of views.

    python -m tests.benchmarks.dprovdb.figure7 [--processes 2]

Two analysts of privileges 1 and 4, 4,000 queries each, variances from 15,000 down by two. Expansion
multiplies the limits in proportion to the highest privilege; "static" shares the limit equally among
15 views. "reference" was computed independently of this package, for additive noise, round robin.
"""

from __future__ import annotations

from tests.benchmarks.dprovdb.common import Case, Grid, expect, finish, heading, line, must, runs

LIMITS = ("0.4", "0.8", "1.6", "3.2")
RULES = {
    "static": {"views": "equal"},
    **{tau: {"expansion": tau} for tau in ("1", "1.3", "1.6", "1.9")},
}
REFERENCE = {"answers": (5437, 5566, 5996, 6410), "nDCFG": (2.50, 2.46, 2.36, 2.27)}
PUBLISHED = {
    "answers": (3900, 5400, 5600, 6500, 7600),
    "nDCFG": (1.95, 2.75, 2.63, 2.6, 2.6),
}
SYSTEMS = {
    "additive": {"mechanism": "additive"},
    "path, gdp": {"mechanism": "path", "accountant": "gdp"},
}


def main() -> None:
    """Print the tables and what they must show."""
    work = {
        (schedule, name, limit, rule): runs(
            Case(
                limit=limit, run=1, privileges=(1, 4), start=15_000, step=2, schedule=schedule,
                **options, **system,
            )
        )
        for schedule in ("round robin", "random")
        for name, system in SYSTEMS.items()
        for limit in LIMITS
        for rule, options in RULES.items()
    }  # fmt: skip
    grid = Grid(work)
    for schedule in ("round robin", "random"):
        for name in SYSTEMS:
            heading(f"{name}, {schedule}: means of four runs (nDCFG) with expansion")
            line("limit", RULES, 14)
            for limit in LIMITS:
                keys = [(schedule, name, limit, rule) for rule in RULES]
                line(
                    limit, [f"{grid.mean(key):.0f} ({grid.fairness(key):.2f})" for key in keys], 14
                )
            if (name, schedule) == ("additive", "round robin"):
                both = zip(REFERENCE["answers"], REFERENCE["nDCFG"], strict=True)
                line("  reference, 3.2", ["-", *(f"{n} ({fair:.2f})" for n, fair in both)], 14)
                both = zip(PUBLISHED["answers"], PUBLISHED["nDCFG"], strict=True)
                line("  published, 3.2", [f"{n} ({fair:.2f})" for n, fair in both], 14)

    keys = [("round robin", "additive", "3.2", tau) for tau in list(RULES)[1:]]
    answers, fairness = [grid.mean(key) for key in keys], [grid.fairness(key) for key in keys]
    expect("additive, answers at 3.2", answers, REFERENCE["answers"])
    expect("additive, nDCFG at 3.2", fairness, REFERENCE["nDCFG"])
    must(answers == sorted(answers), "a larger expansion answers more at 3.2 ...")
    must(fairness == sorted(fairness, reverse=True), "... and less fairly")
    must(
        all(
            grid.mean((schedule, "path, gdp", limit, rule))
            >= grid.mean((schedule, "additive", limit, rule))
            for schedule in ("round robin", "random")
            for limit in LIMITS
            for rule in RULES
        ),
        "paths answer no less than additive noise under every rule and limit",
    )
    must(grid.used() <= 1 + 1e-9, f"no run uses more than {grid.used():.6f} of a limit")
    finish()


if __name__ == "__main__":
    main()
