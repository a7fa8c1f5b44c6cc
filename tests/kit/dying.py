"""Processes that die at a step of a request: one fork for each, so everything is imported once.

:class:`Workers` runs this file and tells it what to do.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "german_credit.csv"
IMPORTED = (
    "duckdb", "encodings.utf_8_sig", "opendp._data", "opendp.measurements", "pandas", "scipy.special",
    "sqlglot.dialects.duckdb", "sqlglot.generators.duckdb", "sqlglot.parsers.duckdb",
    "sqlglot.typing.duckdb", "dpnb.curator", "dpnb.engines.choice", "dpnb.engines.duckdb",
    "dpnb.explain.assembly", "dpnb.explain.request", "dpnb.privacy.gaussian",
    "dpnb.privacy.gumbel", "dpnb.risk.plan", "dpnb.session", "dpnb.sql.parser",
)  # fmt: skip
"""What children would import each for itself."""
PAID = {"after the commit", "before it is shown"}


def die(*_, **__):
    """End without any clean-up."""
    os._exit(9)


def at_the_ledger(step: str) -> tuple[Any, str, Any]:
    """What to replace by what, to die at a step of the ledger's transaction."""
    from dpnb.ledger.ledger import Ledger

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


def fork_for_orders() -> None:
    """Fork for each order, a line of JSON, and print the child's id; an empty line waits for all.

    What an order is for stands in the function ``work`` of the module that it names.
    """
    children = []
    for line in sys.stdin:
        if not line.strip():
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            children = []
            print(json.dumps(codes), flush=True)
            continue
        child = os.fork()
        if child == 0:
            try:
                order = json.loads(line)
                importlib.import_module(order["module"]).work(order)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                traceback.print_exc()
                os._exit(3)
            os._exit(0)
        children.append(child)
        print(child, flush=True)


class Workers:
    """Gives orders to a process that forks for each."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.kit.dying"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _say(self, line: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, module: ModuleType, **order: Any) -> int:
        """Return the process id of a child that carries out an order."""
        return int(self._say(json.dumps({"module": module.__name__, **order})))

    def wait(self) -> list[int]:
        """Return the exit codes of all children since the last time."""
        return list(self._say(""))

    def left_at(self, module: ModuleType, steps: Sequence[str], folder: Path) -> dict[str, Path]:
        """The ledgers that dead processes left, by step; none of them has shown anything."""
        ledgers = {step: folder / f"{number}" for number, step in enumerate(steps)}
        for step, ledger in ledgers.items():
            self.start(module, step=step, ledger=str(ledger))
        assert self.wait() == [9] * len(steps)
        return ledgers

    def close(self) -> None:
        self.process.communicate(timeout=30)


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a ledger file, oldest first."""
    connection = sqlite3.connect(path)
    found = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entry ORDER BY seq")
    ]
    connection.close()
    return found


if __name__ == "__main__":
    for imported in IMPORTED:
        # other versions of a package may have other parts
        with contextlib.suppress(ImportError):
            importlib.import_module(imported)
    # a child that collects garbage would copy the memory of everything that is imported
    gc.collect()
    gc.freeze()
    fork_for_orders()
