"""Every figure of speed that must be reached, in one table: its bound, that of the last time, today's.

    python -m tests.benchmarks.guard [--write] [--only NAME ...]

Runs the benchmarks of :data:`WATCHED` one after the other, 10 minutes on two cores, and prints the table.
``--write`` puts it into docs/performance.md, whose column "today" is "last" the next time. Leaves with
1 when a bound is missed. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
START, END = "<!-- guard: start -->\n", "<!-- guard: end -->\n"
WATCHED = {
    "start": [],
    "answers": [],
    "service": ["--seconds", "8"],
    "query": ["--rows", "32561", "10000000", "--runs", "5"],
    "units": [],
    "expressions": [],
    "bayes.speed": ["--repeats", "10"],
    "probe.speed": ["--runs", "5"],
    "dpxplain.speed": ["--large", "0", "--runs", "5"],
    "rdr.figure8": ["--rows", "1000000", "--runs", "3"],
}
_FIGURE = re.compile(
    r"^(PASS|FAIL)  (.+): (\S+(?: [^()\n]+)?) \((at (?:most|least) \S+)\)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, as a benchmark prints it: its name, value and bound, and whether it is within."""

    name: str
    value: str
    bound: str
    within: bool


def read(printed: str) -> list[Figure]:
    """Return the figures in what a benchmark has printed."""
    return [
        Figure(name, value, bound, word == "PASS")
        for word, name, value, bound in _FIGURE.findall(printed)
    ]


def figures(benchmark: str, arguments: list[str]) -> list[Figure]:
    """Run a benchmark and return its figures.

    Raises
    ------
    SystemExit
        When it prints none: then it has failed.
    """
    command = [sys.executable, "-m", f"tests.benchmarks.{benchmark}", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = read(ran.stdout)
    if not found:
        sys.exit(f"{benchmark} has printed no figure:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return found


def last(page: str) -> dict[str, str]:
    """Return the figures of the last time by name: the fourth column of the page's table."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| \**(.+?)\** \|$", page, re.MULTILINE)
    return {name: today for name, _, _, today in rows[1:]}


def table(found: list[Figure], before: dict[str, str]) -> str:
    """Return the table in Markdown; what misses its bound is bold."""
    lines = ["| what | bound | last | today |", "|---|---|--:|--:|"]
    for one in found:
        today = one.value if one.within else f"**{one.value}**"
        lines.append(f"| {one.name} | {one.bound} | {before.get(one.name, '–')} | {today} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all, print the table and write it where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write it to docs/performance.md")
    parser.add_argument("--only", nargs="+", choices=WATCHED, default=list(WATCHED))
    options = parser.parse_args()
    page = PAGE.read_text("utf-8")
    before = last(page)
    found = []
    for name in options.only:
        new = figures(name, WATCHED[name])
        print(table(new, before), flush=True)
        found += new
    if options.write:
        begin, end = page.index(START) + len(START), page.index(END)
        PAGE.write_text(page[:begin] + table(found, before) + page[end:], "utf-8")
    missed = [one.name for one in found if not one.within]
    print(f"{len(found) - len(missed)} of {len(found)} within their bounds")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
