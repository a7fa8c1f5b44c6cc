"""What needs more than Python is run with ``--all`` or DPNB_ALL=1, and then a missing program fails.

Statistical tests cannot flake and still have power: a sample is accepted when its p-value is above
1e-9; where a method is exact, the same test rejects noise whose scale is off by 15 to 30 %.
``DPNB_LONG=1`` multiplies sample sizes. What is drawn is repeatable, see kit/repeatable.py; ``--entropy``
draws anew from the operating system.
"""

from __future__ import annotations

import os

os.environ["MPLBACKEND"] = "agg"
# there is a process per core; more threads in each would only wait for one another. Read when numpy is imported
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import gc
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

# repeatable, whatever the load of the machine; notes are kept outside the checkout
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "hypothesis")
settings.register_profile("repeatable", database=None, deadline=None, derandomize=True)
settings.load_profile("repeatable")

P_FLOOR = 1e-9

_NEEDS = {
    "hub": "starts a JupyterHub with its proxy",
    "lab": "drives a real JupyterLab in Chromium",
    "node": "runs JavaScript in Node",
    "packaging": "builds the package and installs it into new environments",
    "postgres": "starts a PostgreSQL server",
    "spark": "starts a Spark session",
}

_SAMPLES = {"equals", "reaches", "seconds", "size"}
"""Fixtures of simulations and of limits of time; a test with one of them is never fast."""

_TOGETHER = ("lab", "packaging", "spark", "notebooks", "crash")
"""Folders that take minutes, longest first. Each of the first three runs in one process, which starts
one JupyterLab with one Chromium, builds one wheel, and starts one Spark."""

# of another environment that happens to be active IPython would warn
os.environ.pop("VIRTUAL_ENV", None)
# programs that tests start import what tests share, too
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)
# or each of hundreds of processes would compile everything anew
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# where interrupts are ignored (nohup, cron), children would inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.kit.provoked", "tests.kit.repeatable"]


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="also run what needs Node, Chromium, PostgreSQL, Spark or new environments",
    )
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


def pytest_configure(config):
    for name, meaning in _NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.addinivalue_line("markers", "entropy: draws from the operating system, as in use")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Share the whole fast circle among the cores, unless the command says otherwise."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    chosen = getattr(config.option, "numprocesses", 0) is not None
    if (
        whole
        and config.getoption("-m") == "fast"
        and not (chosen or hasattr(config, "workerinput"))
    ):
        config.option.numprocesses = "auto"


def pytest_ignore_collect(collection_path, config):
    """Do not even import what has no fast tests when only these are asked for."""
    if config.getoption("-m") == "fast" and collection_path.suffix == ".py":
        text = collection_path.read_text("utf-8")
        return "pytest.mark.fast" not in text or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    # nothing that is made meanwhile is garbage
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    # what was collected lives to the end, so nothing in it is garbage before; after that full collections, which
    # took 4 % of a run, come more seldom
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config) -> int | None:
    """Take one process more than there are cores where some wait for browsers or disks."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return (os.cpu_count() or 1) + _everything(config)


def pytest_collection_modifyitems(config, items):
    fast, everything = config.getoption("-m") == "fast", _everything(config)

    def is_wanted(item: pytest.Item) -> bool:
        if fast and not _SAMPLES.isdisjoint(item.fixturenames):
            return False
        return everything or not any(mark.name in _NEEDS for mark in item.iter_markers())

    wanted: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (wanted if is_wanted(item) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = _spread(wanted)


def _everything(config) -> bool:
    return config.getoption("--all") or os.environ.get("DPNB_ALL") == "1"


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests file by file, the folders that take minutes first."""

    def turn(item: pytest.Item) -> int:
        name = item.path.parent.name
        return _TOGETHER.index(name) if name in _TOGETHER else len(_TOGETHER)

    return sorted(items, key=turn)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem) -> bool | None:
    """Let a process of pytest-xdist report each test once.

    Five messages about each of thousands of tests took more of a processor than many tests do. What
    does not pass is reported as ever, and so is everything when somebody wants times or names.
    """
    option = item.config.option
    if not hasattr(item.config, "workerinput") or option.durations or option.verbose > 0:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each process whole files, and some of them whole folders."""
    from xdist.scheduler import LoadFileScheduling

    class Folders(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = nodeid.partition("tests/")[2].partition("/")[0]
            return folder if folder in _TOGETHER[:3] else super()._split_scope(nodeid)

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            # asked after each test: files that are done would be counted every time
            for scope in [scope for scope, unit in workload.items() if all(unit.values())]:
                del workload[scope]
            return super()._pending_of(workload)

    return Folders(config, log)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of our own; only for tests marked postgres."""
    from tests.kit.postgres import Server

    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def regenerate(pytestconfig) -> bool:
    """Whether golden files are to be written instead of read."""
    return bool(pytestconfig.getoption("--regenerate"))


@pytest.fixture(scope="session")
def size() -> Callable[[int], int]:
    """Sample sizes, ten times as large with DPNB_LONG=1."""
    factor = 10 if os.environ.get("DPNB_LONG") == "1" else 1
    return lambda count: count * factor


@pytest.fixture(scope="session")
def seconds() -> Callable[[float], float]:
    """Twice a limit of time, and more where this machine is slow at the moment."""

    def limit(quiet: float) -> float:
        taken = []
        for _ in range(3):
            start, total = time.perf_counter(), 0
            for number in range(10**6):
                total += number
            taken.append(time.perf_counter() - start)
        # a quiet machine needs 0.06 seconds for that
        return 2 * quiet * max(1.0, min(taken) / 0.06)

    return limit


@pytest.fixture(scope="session")
def reaches() -> Callable[[Any, float], bool]:
    """Whether a share of successes may well be ``level`` or more."""

    # every process of a run would load it
    from scipy import stats

    def check(hits: Any, level: float) -> bool:
        hits = np.asarray(hits)
        return bool(stats.binom.cdf(hits.sum(), hits.size, level) > P_FLOOR)

    return check


@pytest.fixture(scope="session")
def equals(reaches: Callable[[Any, float], bool]) -> Callable[[Any, float], bool]:
    """Whether a share of successes may well be exactly ``level``."""
    return lambda hits, level: (
        reaches(hits, level) and reaches(~np.asarray(hits, dtype=bool), 1 - level)
    )
