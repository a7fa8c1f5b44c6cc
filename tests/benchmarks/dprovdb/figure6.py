"""DProvDB's figures 6 and 11: additive noise against vanilla, by number of analysts and by limit.

    python -m tests.benchmarks.dprovdb.figure6 [--processes 2]

Analysts of privilege 5 each, 2,500 queries each, variances from 5,000 down by two, round robin.
"reference" was computed independently of this package for Adult; "published" those of the paper.
Figure 11 is the same on TPC-H.
"""

from __future__ import annotations

from tests.benchmarks.dprovdb.common import Case, Grid, expect, finish, heading, line, must, runs

SYSTEMS = {
    "path, max": {"mechanism": "path", "accountant": "gdp"},
    "additive, max": {"mechanism": "additive"},
    "additive, sum": {"mechanism": "additive", "rows": "sum"},
    "vanilla, sum": {"mechanism": "vanilla", "rows": "sum"},
}
ANALYSTS = (2, 3, 4, 5, 6)
SMALL = ("0.8", "1.6", "3.2", "6.4")
BY_ANALYSTS = {
    "path, max": (4876, 7315, 9753, 12191, 14630),
    "additive, max": (2090, 3135, 4180, 5225, 6270),
    "additive, sum": (1152, 1526, 1558, 1301, 1722),
    "vanilla, sum": (730, 1034, 1082, 1210, 1226),
}
BY_LIMIT = {
    "path, max": (3177, 4536, 4876, 4979),
    "additive, max": (779, 1152, 2090, 3210),
    "vanilla, sum": (286, 541, 730, 1115),
}
PUBLISHED_BY_ANALYSTS = {
    "additive, max": (4800, 7150, 9550, 11900, 14300),
    "additive, sum": (4050, 4850, 5300, 6750, 7350),
    "vanilla, sum": (3800, 3700, 4400, 2650, 3100),
}
PUBLISHED_BY_LIMIT = {
    "additive, max": (1850, 4150, 4800, 4950),
    "additive, sum": (1500, 2150, 4150, 4750),
    "vanilla, sum": (950, 2200, 3800, 4700),
}


def main() -> None:
    """Print the tables and what they must show."""
    work = {}
    for data in ("adult", "tpch"):
        for name, options in SYSTEMS.items():
            settings = {"data": data, "count": 2500, "start": 5000, "step": 2, **options}
            for analysts in ANALYSTS:
                one = Case(limit="3.2", run=1, privileges=(5,) * analysts, **settings)
                work[data, name, "3.2", analysts] = runs(one)
            for limit in SMALL:
                one = Case(limit=limit, run=1, privileges=(5, 5), **settings)
                work[data, name, limit, 2] = runs(one)
    grid = Grid(work)

    def means(data: str, name: str, *, by_limit: bool) -> list[float]:
        """Return the means along one of the two halves of the figure."""
        keys = [(limit, 2) for limit in SMALL] if by_limit else [("3.2", n) for n in ANALYSTS]
        return [grid.mean((data, name, *key)) for key in keys]

    for data in ("adult", "tpch"):
        for by_limit, title, reference, published in (
            (False, "limit 3.2, analysts", BY_ANALYSTS, PUBLISHED_BY_ANALYSTS),
            (True, "two analysts, limit", BY_LIMIT, PUBLISHED_BY_LIMIT),
        ):
            heading(f"{data}, means of four runs; {title}")
            line("", SMALL if by_limit else ANALYSTS)
            for name in SYSTEMS:
                line(name, [f"{mean:.0f}" for mean in means(data, name, by_limit=by_limit)])
                if data == "adult":
                    line("  reference", reference.get(name, ("-",)))
                    line("  published", published.get(name, ("-",)))
    for by_limit, word, reference in (
        (False, "2 to 6 analysts", BY_ANALYSTS), (True, "limits .8 to 6.4", BY_LIMIT),
    ):  # fmt: skip
        for name, wanted in reference.items():
            expect(f"adult, {name}, {word}", means("adult", name, by_limit=by_limit), wanted)
    for data in ("adult", "tpch"):
        rows = [
            [*means(data, name, by_limit=False), *means(data, name, by_limit=True)]
            for name in ("path, max", "additive, max", "additive, sum", "vanilla, sum")
        ]
        ordered = all(
            list(column) == sorted(column, reverse=True) for column in zip(*rows, strict=True)
        )
        must(ordered, f"{data}: paths, then additive (max, then sum), then vanilla, everywhere")
    must(grid.used() <= 1 + 1e-9, f"no run uses more than {grid.used():.6f} of a limit")
    finish()


if __name__ == "__main__":
    main()
