"""CPU seconds until a fresh process has imported dpnb, and until it has answered on Adult.

    python -m tests.benchmarks.start [--runs 7]

Each run is a process of its own; the least of all is what the machine's other work does not change.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.kit.verdicts import at_most, finish

IMPORT = "import dpnb"
ANSWER = """
import dpnb
with dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=3, delta=1e-6)) as session:
    session.query("SELECT education, COUNT(*) AS n, AVG(age) AS mean FROM adult GROUP BY education", rho="0.05")
"""
TIMED = """
import resource
{}
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime)
"""


def least(work: str, runs: int) -> float:
    """Return the least CPU seconds of several processes, the interpreter's own start included."""
    command = [sys.executable, "-c", TIMED.format(work)]
    return min(float(subprocess.check_output(command, text=True)) for _ in range(runs))


def main() -> None:
    """Print both and what they must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    bare = least("", runs)
    print(f"the interpreter alone: {bare:.3f} CPU s")
    at_most(least(IMPORT, runs) - bare, 0.1, "import dpnb", "CPU s")
    at_most(least(ANSWER, runs) - bare, 0.8, "first answer in a fresh process", "CPU s")
    finish()


if __name__ == "__main__":
    main()
