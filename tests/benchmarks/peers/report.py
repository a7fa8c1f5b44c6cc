"""What was measured, as a report with plots, a table for docs/comparison.md, and what dpnb must reach.

python -m tests.benchmarks.peers.report [--write-docs]      # again, from results.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from tests.benchmarks.peers.data import SIZES
from tests.benchmarks.peers.install import OWN, PEERS
from tests.kit.verdicts import finish, must

HERE = Path(__file__).parent

OURS = {"dpnb": "(ε, δ) session", "dpnb_pure": "pure session"}
"""Both keep (ε, δ): a pure one spends no δ."""
SYSTEMS = [*OWN, *PEERS]
SQL = ["smartnoise", "opendp"]
"""Peers whose queries are relational; the others are libraries for arrays and pipelines."""
DOCS = Path(__file__).parents[3] / "docs" / "comparison.md"
START, END = "<!-- peers: start -->", "<!-- peers: end -->"
SIZE = "32k", "1M", "10M"


class Results:
    """Medians and verdict texts from the figures of a run."""

    def __init__(self, figures: dict) -> None:
        self.figures = figures
        tried = {
            name for sizes in figures["costs"].values() for one in sizes.values() for name in one
        }
        self.systems = [name for name in SYSTEMS if name in tried]

    def name(self, system: str) -> str:
        """Return a system's name with its version."""
        return self.figures["versions"].get(system, system)

    def cases(self, system: str, unit: str, size: str) -> list[dict]:
        """Return the measured cases with figures."""
        found = self.figures["costs"].get(unit, {}).get(size, {}).get(system, [])
        return [case for case in found if "first" in case]

    def reason(self, system: str, unit: str, size: str) -> str:
        """Return why there are no figures."""
        for case in self.figures["costs"].get(unit, {}).get(size, {}).get(system, []):
            return case.get("refused") or case.get("failed") or ""
        return ""

    def median(self, system: str, unit: str, size: str, part: str, what: str = "cpu") -> float:
        """Return a median: of ``open``, ``first``, ``both``, ``later``, ``import`` or ``peak``; NaN if none."""
        found: list[float] = []
        for case in self.cases(system, unit, size):
            if part == "both":
                found.append(case["open"][what] + case["first"][what])
            elif part == "later":
                found += [one[what] for one in case["later"]]
            else:
                found.append(case[part] if part == "peak" else case[part][what])
        return statistics.median(found) if found else float("nan")

    def error(self, system: str, unit: str, column: int) -> tuple[float, float]:
        """Return the mean absolute error of counts (0) or means (1), and its standard error."""
        pair = self.figures["errors"].get(unit, {}).get(system)
        return tuple(pair[column]) if pair else (float("nan"), float("nan"))


def number(value: float, digits: int = 2) -> str:
    """Return a number with so many digits that count; a dash for none."""
    if value != value:
        return "–"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if value >= 100 or "e+" in text else text


def table(results: Results) -> str:
    """Return the compact table."""
    head = (
        "| system | row: 32k | 1M | 10M | person: 10M | later | peak GB | row: counts | means "
        "| person: counts | means |"
    )
    lines = [head, "|---|" + "--:|" * 10]
    for system in results.systems:
        cells = [number(results.median(system, "row", size, "both")) for size in SIZE]
        cells += [
            number(results.median(system, "person", "10M", part)) for part in ("both", "later")
        ]
        peaks = [results.median(system, unit, "10M", "peak") / 1024 for unit in ("row", "person")]
        cells.append(" / ".join(number(peak) for peak in peaks))
        for unit in ("row", "person"):
            cells += [number(results.error(system, unit, column)[0]) for column in (0, 1)]
        lines.append(f"| {results.name(system)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def reasons(results: Results) -> list[str]:
    """Return one line for each reason why there are no figures."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for unit, sizes in results.figures["costs"].items():
        for size, systems in sizes.items():
            for system in systems:
                if why := results.reason(system, unit, size):
                    name = results.name(system)
                    found.setdefault((name, unit, why), []).append(size)
    return [
        f"{name}, unit {unit}, {', '.join(of)}: {why}" for (name, unit, why), of in found.items()
    ]


def section(results: Results) -> str:
    """Return the section between the markers of docs/comparison.md."""
    return f"""{START}
We measured `SELECT grp, COUNT(*), AVG(age) FROM t GROUP BY grp` with 16 public groups. Each query has
(ε, δ) = (1, 10⁻⁶). The protected unit is a row, or a person with at most 10 rows. The first columns show CPU seconds
from opening a Parquet file to the answer. "Later" is for further queries on the open table of 10M rows, with persons
protected and the same privacy parameters. Peak memory is at 10M rows, for rows / persons. The last columns show the
mean absolute error of counts and of means at 32,561 rows. The command was
`python -m tests.benchmarks.peers.run --write-docs`, on {results.figures["machine"]}.
Each system ran as its file in `tests/benchmarks/peers/systems` says.

{table(results)}

A pure session has a budget of ε alone and uses Laplace noise; its answers also satisfy (ε, δ). A dash means that
something is not offered or was not measured.
{END}"""


def verdicts(results: Results) -> None:
    """Hold dpnb's sessions against what they must reach."""
    for ours, words in OURS.items():
        if ours not in results.systems:
            continue

        def value(unit: str, size: str, part: str, ours: str = ours) -> float:
            return results.median(ours, unit, size, part)

        def parts(peer: str, size: str, ours: str = ours) -> str:
            both = [
                " of ".join(f"{results.median(one, 'row', size, part):.3f}" for one in (ours, peer))
                for part in ("open", "first", "later")
            ]
            return "opening {}, first query {}, later {}".format(*both)

        row, person = (results.figures["costs"].get(unit, {}) for unit in ("row", "person"))
        for size in ("32k", "1M"):
            if size not in row:
                continue
            peers = [peer for peer in SQL if results.cases(peer, "row", size)]
            if not peers:
                must(False, f"{words}: row, {size}: no SQL peer to compare with")
                continue
            best = min((results.median(peer, "row", size, "both"), peer) for peer in peers)
            mine = value("row", size, "both")
            must(
                best[0] >= 5 * mine,
                f"{words}: row, {size}: >= 5 times less CPU than {best[1]}: {best[0] / mine:.1f} "
                f"({mine:.3f} of {best[0]:.3f} s; {parts(best[1], size)})",
            )
        if "10M" in row:
            mine, plain = (
                value("row", "10M", "both"),
                results.median("duckdb", "row", "10M", "both"),
            )
            must(
                mine <= 1.5 * plain,
                f"{words}: row, 10M: <= 1.5 times plain DuckDB: {mine / plain:.2f} "
                f"({mine:.3f} of {plain:.3f} s; {parts('duckdb', '10M')})",
            )
        if "10M" in person:
            mine, later = (value("person", "10M", part) for part in ("both", "later"))
            must(mine <= 9, f"{words}: person, 10M: first query <= 9 CPU s: {mine:.2f}")
            must(later <= 0.4, f"{words}: person, 10M: later queries <= 0.4 CPU s: {later:.2f}")
        for unit, size in (("row", "10M"), ("person", "10M"), ("row", "100M")):
            if size in results.figures["costs"].get(unit, {}):
                peak = value(unit, size, "peak")
                must(peak <= 2048, f"{words}: {unit}, {size}: peak memory <= 2 GB: {peak:.0f} MB")
        if "100M" in row and "10M" in row:
            ratio = value("row", "100M", "both") / value("row", "10M", "both")
            must(ratio <= 12, f"{words}: row: 100M <= 12 times 10M: {ratio:.1f}")
        for unit in results.figures["errors"]:
            for column, name in enumerate(("counts", "means")):
                mine, spread = results.error(ours, unit, column)
                others = {
                    peer: results.error(peer, unit, column)
                    for peer in results.figures["errors"][unit]
                    if peer not in OURS
                }
                if not others:
                    must(False, f"{words}: {unit}: no peer to compare the error of {name} with")
                    continue
                # the peer that dpnb is furthest above, in standard errors of the difference
                excess, peer = max(
                    ((mine - theirs) / ((spread**2 + of**2) ** 0.5 or 1), peer)
                    for peer, (theirs, of) in others.items()
                )
                theirs, of = others[peer]
                must(
                    excess <= 3,
                    f"{words}: {unit}: error of {name} <= every peer's, within 3 standard errors; nearest {peer}: "
                    f"{mine:.3f} ± {spread:.3f} of {theirs:.3f} ± {of:.3f}",
                )


def details(results: Results) -> str:
    """Return the report's long table: all sizes, parts apart."""
    lines = [
        "| system | unit | rows | import CPU s | open | first | both, wall s | later | peak MB "
        "| counts off by | means off by | runs |",
        "|---|---|---|" + "--:|" * 9,
    ]
    for unit, sizes in results.figures["costs"].items():
        for size in sizes:
            for system in results.systems:
                cases = results.cases(system, unit, size)
                if not cases:
                    continue
                cells = [
                    *(
                        number(results.median(system, unit, size, part))
                        for part in ("import", "open", "first")
                    ),
                    number(results.median(system, unit, size, "both", "wall")),
                    number(results.median(system, unit, size, "later")),
                    number(results.median(system, unit, size, "peak"), 3),
                ]
                wrong = [error for case in cases for error in case["errors"]]
                cells += [number(statistics.fmean(one)) for one in zip(*wrong, strict=True)]
                version = results.name(system)
                lines.append(
                    f"| {version} | {unit} | {size} | {' | '.join(cells)} | {len(cases)} |"
                )
    return "\n".join(lines)


def plot(results: Results, folder: Path) -> list[str]:
    """Draw CPU by rows and system, one figure for each unit; returns the files' names."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = []
    for unit, sizes in results.figures["costs"].items():
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for system in results.systems:
            points = [(SIZES[size], results.median(system, unit, size, "both")) for size in sizes]
            points = [point for point in points if point[1] == point[1]]
            if points:
                style = "-" if system in OURS else ":" if system == "duckdb" else "--"
                label = results.name(system)
                axes.plot(*zip(*points, strict=True), style, marker="o", label=label)
        axes.set(
            xscale="log", yscale="log", xlabel="rows", ylabel="CPU s, opening and first query",
            title=f"GROUP BY, COUNT and AVG; unit: {unit}",
        )  # fmt: skip
        axes.legend(fontsize=7)
        names.append(f"{unit}.png")
        figure.savefig(folder / names[-1], dpi=120)
        plt.close(figure)
    return names


def write(figures: dict, folder: Path, target: Path | None) -> None:
    """Write report.md with plots, replace the section of docs/comparison.md if wanted, print verdicts and leave."""
    results = Results(figures)
    pictures = "\n\n".join(f"![{name}]({name})" for name in plot(results, folder))
    missing = "\n".join(f"- {line}" for line in reasons(results)) or "- none"
    (folder / "report.md").write_text(
        f"# Peers\n\n{figures['when']}, {figures['machine']}\n\n{table(results)}\n\n"
        "Counts and means off by: against the whole table, so for persons with what the bound leaves out.\n\n"
        f"{details(results)}\n\nWithout figures:\n\n{missing}\n\n{pictures}\n",
        "utf-8",
    )
    if target is not None:
        text = target.read_text("utf-8")
        before, _, rest = text.partition(START)
        _, found, after = rest.partition(END)
        if not found:
            raise SystemExit(f"{target} lacks the markers {START} and {END}")
        target.write_text(before + section(results) + after, "utf-8")
    print(table(results))
    print(f"\n{folder / 'report.md'}")
    verdicts(results)
    finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=HERE.parent / "report" / "peers")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    figures = json.loads((options.report / "results.json").read_text())
    target = DOCS if options.write_docs else None
    write(figures, options.report, target)


if __name__ == "__main__":
    main()
