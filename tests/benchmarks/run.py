"""Runs the benchmarks and writes one report: what each must reach, what it printed, trends over past runs.

    python -m tests.benchmarks.run --list
    python -m tests.benchmarks.run [--only NAME ...] [--full] [--limit SECONDS]

Without --full the longer ones run with fewer repetitions (`QUICK`). The report lies in
tests/benchmarks/report, with one JSON file for each run in ``history``. Leaves with 1 when something
that must be reached is missed. Figures are those of a machine that does nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REPORT = HERE / "report"
QUICK = {
    "bayes/coverage": ["--repeats", "0.1"],
    "dprovdb/figure4": ["--runs", "4"],
    "dprovdb/race": ["--requests", "2000", "--kills", "10"],
    "dprovdb/speed": ["--runs", "50"],
    "dpxplain/adult": ["--runs", "50"],
    "dpxplain/speed": ["--large", "0", "--runs", "5"],
    "dpxplain/sweeps": ["--runs", "10"],
    "dpxplain/taxi": ["--runs", "10"],
    "intervals": ["--repeats", "5"],
    "peers": [
        "--sizes",
        "32k,1M",
        "--repeat",
        "3",
        "--systems",
        "duckdb,dpnb,dpnb_pure,smartnoise",
    ],
    "probe/flights": ["--runs", "60"],
    "probe/intro": ["--runs", "200"],
    "probe/taxi": ["--runs", "20"],
    "query": ["--rows", "32561", "1000000"],
    "service": ["--seconds", "8"],
    "rdr/figure8": ["--rows", "1000000", "--runs", "3"],
    "rdr/figure9": ["--runs", "100"],
}
"""Fewer repetitions. What must hold is the same; chance or a small table may miss what --full reaches."""


def scripts() -> dict[str, Path]:
    """Return the benchmarks by name: all scripts here but this one, the guard and parts of others."""
    found = {}
    for path in sorted(HERE.rglob("*.py")):
        name = path.relative_to(HERE).with_suffix("").as_posix()
        if name in ("guard", "run") or (name.startswith("peers/") and name != "peers/run"):
            continue
        if "__main__" in path.read_text("utf-8"):
            found[name.removesuffix("/run")] = path
    return found


def summary(path: Path) -> str:
    """Return the first line of a script's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]


def run(name: str, path: Path, arguments: list[str], limit: float) -> dict:
    """Run one benchmark; what it prints is kept in the report's folder."""
    output = REPORT / "output" / f"{name.replace('/', '_')}.txt"
    output.parent.mkdir(parents=True, exist_ok=True)
    used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        try:
            code: int | str = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = f"stopped after {limit:.0f} s"
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    musts = re.findall(r"^(PASS|FAIL) +(.*)$", output.read_text(errors="replace"), re.MULTILINE)
    return {
        "arguments": arguments,
        "seconds": time.perf_counter() - start,
        "cpu": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime,
        "code": code,
        "musts": musts,
        "output": output.relative_to(REPORT).as_posix(),
    }


def history() -> list[dict]:
    """Return past runs, oldest first."""
    return [json.loads(path.read_text()) for path in sorted((REPORT / "history").glob("*.json"))]


def trends(runs: list[dict], names: list[str]) -> str:
    """Draw CPU seconds of the named benchmarks over past runs with the same arguments."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 1 + 0.28 * len(names) + 3), layout="constrained")
    for name in names:
        arguments = runs[-1]["benchmarks"][name]["arguments"]
        past = [
            (one["when"][:16].replace("T", " "), one["benchmarks"][name]["cpu"])
            for one in runs
            if one["benchmarks"].get(name, {}).get("arguments") == arguments
        ]
        axes.plot(*zip(*past, strict=True), marker="o", label=name)
    axes.set(yscale="log", ylabel="CPU s", title="CPU seconds of each benchmark, run by run")
    axes.tick_params(axis="x", rotation=30)
    axes.legend(fontsize=7, bbox_to_anchor=(1.01, 1), loc="upper left")
    figure.savefig(REPORT / "trends.png", dpi=120)
    plt.close(figure)
    return "trends.png"


def write(runs: list[dict]) -> None:
    """Write report.md about the last run."""
    last = runs[-1]
    found = last["benchmarks"]
    lines = [
        f"# Benchmarks\n\n{last['when']}\n",
        "| benchmark | reached | wall s | CPU s | ended |",
    ]
    lines.append("|---|--:|--:|--:|---|")
    for name, one in found.items():
        reached = sum(word == "PASS" for word, _ in one["musts"])
        of = f"{reached} of {len(one['musts'])}" if one["musts"] else "–"
        lines.append(
            f"| [{name}]({one['output']}) {' '.join(one['arguments'])} | {of} "
            f"| {one['seconds']:.0f} | {one['cpu']:.0f} | {one['code'] or 'well'} |"
        )
    lines.append(f"\n![CPU seconds run by run]({trends(runs, list(found))})")
    pictures = sorted(path.relative_to(REPORT).as_posix() for path in REPORT.glob("*/*.png"))
    lines += [f"\n![{picture}]({picture})" for picture in pictures]
    for name, one in found.items():
        if one["musts"]:
            lines += [f"\n## {name}\n", *(f"- {word}: {what}" for word, what in one["musts"])]
    (REPORT / "report.md").write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    known = scripts()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="tell which there are")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these, or all of a folder")
    parser.add_argument("--full", action="store_true", help="with their own numbers of repetitions")
    parser.add_argument("--limit", type=float, default=1_800, help="seconds for each")
    options = parser.parse_args()
    only = options.only or list(known)
    names = [
        name for name in known if any(name == one or name.startswith(f"{one}/") for one in only)
    ]
    if options.list:
        for name in names:
            print(f"{name:18} {summary(known[name])}")
        return
    if not names:
        parser.error(f"there is no {' '.join(only)}; --list tells which there are")
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    this: dict = {"when": when, "benchmarks": {}}
    for name in names:
        arguments = [] if options.full else QUICK.get(name, [])
        one = this["benchmarks"][name] = run(name, known[name], arguments, options.limit)
        missed = [what for word, what in one["musts"] if word == "FAIL"]
        print(
            f"{name:18} {one['seconds']:6.0f} s  {'well' if one['code'] == 0 else one['code']}",
            flush=True,
        )
        for what in missed:
            print(f"{'':18} FAIL  {what}", flush=True)
    (REPORT / "history").mkdir(parents=True, exist_ok=True)
    place = REPORT / "history" / f"{when.replace(':', '')}.json"
    place.write_text(json.dumps(this, indent=1))
    write(history())
    print(REPORT / "report.md")
    sys.exit(0 if all(one["code"] == 0 for one in this["benchmarks"].values()) else 1)


if __name__ == "__main__":
    main()
