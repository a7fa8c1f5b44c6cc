"""Runs one case of one system in a fresh process and writes what it cost and answered as JSON.

    python worker.py CASE     # CASE is JSON; run.py writes it, and picks the system's own interpreter

A module of ``systems`` has ``start(case)``, which opens the data and returns a function: called with
None, or with a highest age (WHERE age <= ...), it asks the query and returns (group, count, mean) rows.
The first call and later ones all spend the whole (epsilon, delta). ``draws(case, n)`` may answer n
times in a cheaper way; each answer must have noise of its own. A system without privacy units of many
rows refuses with NotImplementedError.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path


def descendants() -> list[int]:
    """Return the processes that this one has started, directly or not, and that live."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def cpu() -> float:
    """Return CPU seconds (user + system) of this process and all it has started."""
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    for pid in descendants():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds


def peak() -> float:
    """Return the peak memory in MB, summed over this process and those it has started."""
    kilobytes = 0
    for pid in [os.getpid(), *descendants()]:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2]
            kilobytes += int((status.split() or ["0"])[0])  # a process that has ended has none
    return kilobytes / 1024


class Clock:
    """CPU and wall seconds since the last reading."""

    def __init__(self) -> None:
        self.cpu, self.wall = cpu(), time.perf_counter()

    def read(self) -> dict[str, float]:
        before, self.cpu, self.wall = (self.cpu, self.wall), cpu(), time.perf_counter()
        return {"cpu": self.cpu - before[0], "wall": self.wall - before[1]}


def load(name: str):
    """Import the adapter of a system by its path: some have the name of what they import."""
    path = Path(__file__).parent / "systems" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"system_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.remove(str(Path(__file__).parent))
    spec.loader.exec_module(module)
    return module


def run(case: dict) -> dict:
    """Run a case: import, open, ask once, ask again; or only answer many times."""
    clock = Clock()
    system = load(case["system"])
    for name in case["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    figures = {"version": system.version(), "import": clock.read()}
    if case["draws"]:
        if hasattr(system, "draws"):
            figures["answers"] = system.draws(case, case["draws"])
        else:
            figures["answers"] = [system.start(case)(None) for _ in range(case["draws"])]
        return figures
    ask = system.start(case)
    figures["open"] = clock.read()
    figures["answers"] = [ask(None)]
    figures["first"] = clock.read()
    figures["later"] = []
    for most in range(60, 60 + case["later"]):
        clock.read()
        ask(most)
        figures["later"].append(clock.read())
    figures["peak"] = peak()
    figures["modules"] = [name for name in sys.modules if not name.startswith(("system_", "__"))]
    return figures


def main() -> None:
    case = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    try:
        figures = run(case)
    except NotImplementedError as error:
        figures = {"refused": str(error)}
    Path(case["result"]).write_text(json.dumps(figures, default=float))
    sys.stdout.flush()
    # what an interpreter does at its end, such as stopping a JVM, is nobody's business here
    os._exit(0)


if __name__ == "__main__":
    main()
