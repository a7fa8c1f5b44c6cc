"""dpnb against its peers: cost and error of one GROUP BY at equal privacy, and plain DuckDB as the limit.

    python -m tests.benchmarks.peers.install      # once: an environment for each peer
    python -m tests.benchmarks.peers.run [--sizes 32k,1M,10M,100M] [--repeat 5] [--write-docs]

SELECT grp, COUNT(*), AVG(age) FROM t GROUP BY grp: 16 public groups, age within 17..90, no value
missing, all of epsilon 1 and delta 1e-6 for this query. The unit is a row, or a person, of whom at
most 10 rows count. Each case runs in a fresh process, systems take turns; figures are medians. CPU is user
and system time of the process and all it starts, from opening the Parquet file to the answer; importing
is left out (whatever a query imports late is imported before). Later queries are the same with
WHERE age <= 60, in the same process. Errors are means over groups and repetitions, at 32,561
rows; those of the unit person on a table where nobody has more than 10 rows, so that they are noise
alone. 100M is for dpnb and plain DuckDB. With --add, figures of systems that are not measured now are kept from the
last run; with --write-docs the table in docs/comparison.md is replaced.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.peers.data import GROUPS, HIGH, LOW, SIZES, make, truth
from tests.benchmarks.peers.install import FOLDER, OWN, interpreter
from tests.benchmarks.peers.report import DOCS, SYSTEMS, write

HERE = Path(__file__).parent
MAX_ROWS = 10
UNITS = {"row": None, "person": "person_id"}
LIMIT = 900
"""Seconds of one process."""
SLOW = 20
"""Who takes more wall seconds than this is measured once."""


class Runner:
    """Runs cases in the systems' own interpreters.

    Parameters
    ----------
    folder : Path
        The peers' environments, and ``data``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self._modules: dict[tuple[str, str], list[str]] = {}

    def python(self, system: str) -> Path | None:
        """Return a system's interpreter, or None when it is not installed, and note why."""
        path = Path(sys.executable) if system in OWN else interpreter(self.folder, system)
        failed = self.folder / f"{system}.failed"
        if path.exists() and not failed.exists():
            return path
        self.missing[system] = failed.read_text() if failed.exists() else "not installed"
        return None

    def case(
        self,
        system: str,
        unit: str,
        rows: int,
        *,
        later: int = 0,
        draws: int = 0,
        warm: bool = True,
    ) -> dict:
        """Run one case; the result has ``failed`` or ``refused`` when there are no figures."""
        python = self.python(system)
        if python is None:
            return {"failed": self.missing[system]}
        if warm and (system, unit) not in self._modules:
            first = self.case(system, unit, SIZES["32k"], later=later, warm=False)
            if "modules" not in first:
                return first
            self._modules[system, unit] = first["modules"]
        path = make(self.folder / "data", rows, even=draws > 0 and unit == "person")
        with tempfile.TemporaryDirectory() as place:
            result = Path(place) / "result.json"
            case = {
                "system": system, "path": str(path), "rows": rows, "unit": UNITS[unit],
                "max_rows": MAX_ROWS, "groups": GROUPS, "bounds": [LOW, HIGH], "epsilon": 1.0,
                "delta": 1e-6, "later": later, "draws": draws, "result": str(result),
                "modules": self._modules.get((system, unit), []),
            }  # fmt: skip
            try:
                ran = subprocess.run(
                    [str(python), str(HERE / "worker.py"), json.dumps(case)],
                    capture_output=True, text=True, timeout=LIMIT, cwd=place, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return {"failed": f"more than {LIMIT} s"}
            if not result.exists():
                said = ran.stderr.strip().splitlines() or [f"ended with {ran.returncode}"]
                return {"failed": said[-1][:300]}
            figures = json.loads(result.read_text())
        self.versions.setdefault(system, figures.get("version", system))
        if "answers" in figures:
            exact = truth(path)
            figures["errors"] = [
                [statistics.fmean(abs(row[i] - exact[row[0]][i - 1]) for row in answer)
                 for i in (1, 2)]
                for answer in figures.pop("answers")
            ]  # fmt: skip
        return figures


def note(*words: object) -> None:
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def costs(runner: Runner, systems: list[str], unit: str, size: str, repeat: int) -> dict:
    """Measure systems in turns; returns a list of figures for each."""
    found: dict[str, list[dict]] = {system: [] for system in systems}
    for turn in range(repeat):
        for system in systems:
            past = found[system]
            if past and ("first" not in past[-1] or past[-1]["first"]["wall"] > SLOW):
                continue
            note(f"{unit}, {size}, {system}, {turn + 1} of {repeat}")
            figures = runner.case(system, unit, SIZES[size], later=1)
            figures.pop("modules", None)
            past.append(figures)
    return found


def errors(runner: Runner, systems: list[str], unit: str, draws: int) -> dict:
    """Return the mean absolute error of counts and of means with standard errors, for each system."""
    found = {}
    for system in systems:
        number = max(2, draws // 10) if system == "tumult" else draws
        note(f"{unit}, errors, {system}, {number} draws")
        figures = runner.case(system, unit, SIZES["32k"], draws=number)
        if "errors" not in figures:
            continue
        columns = list(zip(*figures["errors"], strict=True))
        found[system] = [
            [statistics.fmean(one), statistics.stdev(one) / len(one) ** 0.5] for one in columns
        ]
    return found


def save(results: dict, runner: Runner, folder: Path) -> None:
    """Write what has been measured so far."""
    results["versions"] |= runner.versions
    results["missing"] = runner.missing
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(SIZES), help="of 32k,1M,10M,100M")
    parser.add_argument("--units", default="row,person")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of environments and data")
    parser.add_argument("--report", type=Path, default=HERE.parent / "report" / "peers")
    parser.add_argument("--add", action="store_true", help="keep the last run's other figures")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    systems = options.systems.split(",")
    runner = Runner(options.folder)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    results: dict = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}, "
        f"Python {platform.python_version()}",
        "costs": {},
        "errors": {},
        "versions": {},
    }
    if options.add:
        results = json.loads((options.report / "results.json").read_text()) | {
            key: results[key] for key in ("when", "machine")
        }
    for unit in options.units.split(","):
        private = [system for system in systems if system != "duckdb"]
        for size in options.sizes.split(","):
            chosen = systems if unit == "row" else private
            if size == "100M":
                chosen = [system for system in chosen if system in OWN]
            found = costs(runner, chosen, unit, size, options.repeat)
            results["costs"].setdefault(unit, {}).setdefault(size, {}).update(found)
            save(results, runner, options.report)
        if options.draws:
            found = errors(runner, private, unit, options.draws)
            results["errors"].setdefault(unit, {}).update(found)
            save(results, runner, options.report)
    write(results, options.report, DOCS if options.write_docs else None)


if __name__ == "__main__":
    main()
