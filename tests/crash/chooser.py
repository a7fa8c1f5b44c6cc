"""Chooses privately once for each step and dies at it: one fork each, so everything is imported once.

Arguments: a folder. For each step it leaves a ledger there, and one line with the child's exit code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.kit.dying import DATA, at_the_ledger, die, fork_for_each

SQL = "SELECT SUM(credit_amount) AS s FROM credit WHERE age > 30"
SCHEMA = {
    "age": {"type": "integer", "low": 18, "high": 80},
    "credit_amount": {"type": "integer", "low": 0, "high": 20_000},
}
STEPS = (
    "before the scan",
    "after the scan",
    "before the draw",
    "after the draw",
    "before the insert",
    "before the commit",
    "after the commit",
    "before it is shown",
)


def opened(ledger, **options):
    """Open the ledger."""
    import dpnb
    from dpnb.curator import Curator

    table = dpnb.Table("credit", DATA, dpnb.Schema.from_dict(SCHEMA))
    return Curator(table, ledger=ledger, **options)


def die_at(step):
    """Kill this process when it first comes to a step of a private choice."""
    from dpnb.engines.duckdb import DuckDBEngine
    from dpnb.privacy.noise import SecureNoise
    from dpnb.risk.request import SelectionRequest

    def after(owner, name):
        work = getattr(owner, name)

        def run(*arguments, **options):
            work(*arguments, **options)
            os._exit(9)

        return run

    own = {
        "before the scan": (DuckDBEngine, "contributions", die),
        "after the scan": (SelectionRequest, "measure", after(SelectionRequest, "measure")),
        "before the draw": (SecureNoise, "largest", die),
        "after the draw": (SecureNoise, "largest", after(SecureNoise, "largest")),
        "before it is shown": (SelectionRequest, "result", die),
    }
    owner, name, new = own[step] if step in own else at_the_ledger(step)
    setattr(owner, name, new)


def main(folder):
    """Fork for each step."""
    import opendp.prelude  # noqa: F401

    import dpnb.curator
    import dpnb.engines.duckdb
    import dpnb.risk.assembly
    import dpnb.sql.parse

    def work(step, number):
        curator = opened(Path(folder) / f"{number}", budget=dpnb.Budget(rho="0.01"))
        profile = curator.risk(SQL)
        die_at(step)
        print(profile.choose(0.9), flush=True)

    fork_for_each(STEPS, work)


if __name__ == "__main__":
    main(sys.argv[1])
