"""Processes that die at a step of a request: one fork for each, so everything is imported once."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "german_credit.csv"
PAID = {"after the commit", "before it is shown"}


def die(*_, **__):
    """End without any clean-up."""
    os._exit(9)


def at_the_ledger(step: str) -> tuple[Any, str, Any]:
    """What to replace by what, to die at a step of the ledger's transaction."""
    from dpnb.privacy.ledger import Ledger

    original = Ledger.transaction

    @contextlib.contextmanager
    def transaction(self):
        with original(self) as append:

            def write(entry):
                if step == "before the commit":
                    append(entry)
                os._exit(9)

            yield write

    return {
        "before the insert": (Ledger, "transaction", transaction),
        "before the commit": (Ledger, "transaction", transaction),
        "after the commit": (Ledger, "_write_anchor", die),
    }[step]


def fork_for_each(steps: Sequence[str], work: Callable[[str, int], None]) -> None:
    """Carry out work in a child for each step; prints one line with each child's exit code."""
    for number, step in enumerate(steps):
        child = os.fork()
        if child == 0:
            try:
                work(step, number)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                traceback.print_exc()
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def left_by(script: Path, steps: Sequence[str], folder: Path) -> dict[str, Path]:
    """The ledgers that dead processes left, by step; none of them has shown anything."""
    run = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=True,
        timeout=120,
    )  # fmt: skip
    assert run.stdout.split() == ["9"] * len(steps), run.stderr
    return {step: folder / f"{number}" for number, step in enumerate(steps)}


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a ledger file, oldest first."""
    connection = sqlite3.connect(path)
    found = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entry ORDER BY seq")
    ]
    connection.close()
    return found
