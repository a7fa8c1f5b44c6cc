"""The tests themselves run wherever somebody starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
CHOSEN = (
    "tests/test_session.py::TestInterrupt",
    "tests/explain/test_concurrency.py",
    "tests/crash/test_risk.py",
    "tests/notebooks/test_course.py",
)
"""Tests that are interrupted, start processes, write files and read the checkout."""


def ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_in_a_path_with_blanks_with_interrupts_ignored_in_another_environment_twice(tmp_path):
    """As from nohup or cron: no terminal, no home of its own, and a second run beside it."""
    checkout = tmp_path / "a path with blanks"
    for name in ("dpnb", "tests", "notebooks"):
        copytree(ROOT / name, checkout / name, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "SECURITY.md"):
        copy(ROOT / name, checkout)
    environment = {**os.environ, "PYTHONPATH": str(checkout), "VIRTUAL_ENV": "/another one"}
    command = [sys.executable, "-m", "pytest", "-n0", *CHOSEN]
    runs = [
        subprocess.Popen(
            command, cwd=checkout, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=ignored,
        )
        for _ in range(2)
    ]  # fmt: skip
    for run in runs:
        shown, _ = run.communicate(timeout=300)
        assert run.returncode == 0, shown[-3000:]
        assert " passed" in shown
