"""Answers every verb where a part of dpnb cannot be imported, and prints which verbs failed.

    python -m tests.kit.hidden PART ...

One fork for each part, so everything else is imported once.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401 - imported once, here
import pandas as pd

IMPORTED = (
    "opendp.measurements", "scipy.special", "sqlglot.dialects.duckdb", "dpnb.answers.verbs",
    "dpnb.session", "dpnb.curator", "dpnb.engines.duckdb", "scipy.linalg", "scipy.optimize",
    "scipy.sparse.csgraph",
)  # fmt: skip


class Hidden:
    """A finder that finds no module of some part of dpnb."""

    def __init__(self, part: str) -> None:
        self.part = f"dpnb.{part}"

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.part or name.startswith(f"{self.part}."):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)


def verbs() -> Mapping[str, Callable[[], Any]]:
    """Return what asks each verb of one session, and shows its result."""
    import dpnb

    schema = dpnb.Schema(
        {"sex": dpnb.Category(["Female", "Male"]), "job": dpnb.Category(["a", "b"])},
        undeclared=["city"],
    )
    frame = pd.DataFrame(
        {"sex": ["Female"] * 300 + ["Male"] * 600, "job": ["a", "a", "b"] * 300, "city": "Bonn"}
    )
    budget = dpnb.Budget(epsilon=9, delta=1e-6, key_delta=1e-7)
    ledger = Path(tempfile.mkdtemp()) / "people.ledger"
    table = dpnb.Table("people", frame, schema)
    curator = dpnb.Curator(table, budget=budget, ledger=str(ledger))
    session = curator.session()
    sql = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    return {
        "query": lambda: session.query(sql, rho="0.1"),
        "infer": lambda: session.infer(sql),
        "explain": lambda: session.explain(
            session.query(sql, rho="0.1").compare("Male", "Female"), rho="0.1", anyway=True
        ),
        "decide": lambda: session.decide(f"{sql} HAVING COUNT(*) > 400", u=200),
        "discover": lambda: session.discover("city", rho="0.1"),
        "risk": lambda: curator.risk(sql),
    }


def failed(part: str) -> dict[str, str]:
    """Return which verbs fail without a part, and why."""
    sys.meta_path.insert(0, Hidden(part))  # type: ignore[arg-type]
    found = {}
    try:
        asked = verbs()
    except ImportError as error:
        return {"open": str(error)}
    for verb, ask in asked.items():
        try:
            result = ask()
            assert type(result).__name__ in repr(result) or part != "display"
        except Exception as error:  # noqa: BLE001 - the test tells which were to be expected
            found[verb] = f"{type(error).__name__}: {error}"
    return found


def main(parts: list[str]) -> None:
    """Print a line for each part."""
    for name in IMPORTED:
        importlib.import_module(name)
    # nothing that is hidden may be there already
    known = [
        name for name in sys.modules for part in parts if f"{name}.".startswith(f"dpnb.{part}.")
    ]
    assert not known, known
    for part in parts:
        child = os.fork()
        if child == 0:
            try:
                print(json.dumps([part, failed(part)]), flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
