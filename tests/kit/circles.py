"""What each circle of tests costs: seconds by the clock, CPU seconds, and what the fast one covers.

    python -m tests.kit.circles             the fast circle and README's command
    python -m tests.kit.circles fast        one of fast, python, coverage, all

``all`` is ``.ci/run`` from where it is, installation included; ``coverage`` is the fast circle with the
share of lines that it runs. Leaves with 1 when a circle fails or takes longer than it may.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.kit.verdicts import finish, must

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest")
COMMANDS = {
    "fast": (*PYTEST, "-m", "fast"),
    "coverage": (*PYTEST, "-m", "fast", "--cov=dpnb", "--cov-report=term"),
    "python": (*PYTEST, "-n", "auto"),
    "all": ("bash", ".ci/run"),
}
SECONDS = {"fast": 45, "coverage": 120, "python": 300, "all": 900}
"""By the clock, on two quiet cores."""
CPU = {"python": 480}
COVERED = 40
"""Per cent of the lines, at least."""


def run(name: str) -> None:
    """Run one circle, print what it took, and note whether that is what it must be."""
    used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        COMMANDS[name], cwd=ROOT, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    seconds, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    (last,) = re.findall(r"^.*\b(?:passed|failed|error).*$", done.stdout, re.MULTILINE)[-1:] or [""]
    print(f"{name:<9}{seconds:7.0f} s by the clock, {cpu:7.0f} CPU s   {last}", flush=True)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:])
    must(done.returncode == 0, f"{name}: every test passes")
    must(seconds <= SECONDS[name], f"{name}: at most {SECONDS[name]} s by the clock")
    if name in CPU:
        must(cpu <= CPU[name], f"{name}: at most {CPU[name]} CPU seconds")
    if name == "coverage":
        (share,) = re.findall(r"^TOTAL\s.*\s(\d+)%$", done.stdout, re.MULTILINE) or ["0"]
        print(f"{'':9}{share} % of the lines of dpnb are run")
        must(int(share) >= COVERED, f"{name}: at least {COVERED} % of the lines")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="CIRCLE", help=f"one of {', '.join(COMMANDS)}")
    names = parser.parse_args().names or ["fast", "coverage", "python"]
    unknown = set(names) - COMMANDS.keys()
    if unknown:
        parser.error(
            f"there is no circle {', '.join(sorted(unknown))}; write {', '.join(COMMANDS)}"
        )
    for name in names:
        run(name)
    finish()


if __name__ == "__main__":
    main()
