"""Chooses privately once for each step and dies at it: one fork each, so everything is imported once.

Arguments: a folder. For each step it leaves a ledger there, and one line with the child's exit code.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path

SQL = "SELECT SUM(credit_amount) AS s FROM credit WHERE age > 30"
SCHEMA = {
    "age": {"type": "integer", "low": 18, "high": 80},
    "credit_amount": {"type": "integer", "low": 0, "high": 20_000},
}
DATA = Path(__file__).parents[1] / "data" / "german_credit.csv"
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


def die(*_, **__):
    """End without any clean-up."""
    os._exit(9)


def die_at(step):
    """Kill this process when it first comes to a step of a private choice."""
    from dpnb.engines.duckdb import DuckDBEngine
    from dpnb.privacy.ledger import Ledger
    from dpnb.privacy.noise import SecureNoise
    from dpnb.risk.request import SelectionRequest

    original = Ledger.transaction

    @contextlib.contextmanager
    def transaction(self):
        with original(self) as append:

            def write(entry):
                if step == "before the commit":
                    append(entry)
                os._exit(9)

            yield write

    def after(owner, name):
        work = getattr(owner, name)

        def run(*arguments, **options):
            work(*arguments, **options)
            os._exit(9)

        return run

    owner, name, new = {
        "before the scan": (DuckDBEngine, "contributions", die),
        "after the scan": (SelectionRequest, "measure", after(SelectionRequest, "measure")),
        "before the draw": (SecureNoise, "largest", die),
        "after the draw": (SecureNoise, "largest", after(SecureNoise, "largest")),
        "before the insert": (Ledger, "transaction", transaction),
        "before the commit": (Ledger, "transaction", transaction),
        "after the commit": (Ledger, "_write_anchor", die),
        "before it is shown": (SelectionRequest, "result", die),
    }[step]
    setattr(owner, name, new)


def main(folder):
    """Fork for each step."""
    import opendp.prelude  # noqa: F401

    import dpnb.curator
    import dpnb.engines.duckdb
    import dpnb.risk.assembly
    import dpnb.sql.parse

    for number, step in enumerate(STEPS):
        child = os.fork()
        if child == 0:
            try:
                curator = opened(Path(folder) / f"{number}", budget=dpnb.Budget(rho="0.01"))
                profile = curator.risk(SQL)
                die_at(step)
                print(profile.choose(0.9), flush=True)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                traceback.print_exc()
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
