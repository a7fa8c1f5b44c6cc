"""Explains once for each step and dies at it: one fork each, so everything is imported once.

Arguments: a folder. For each step it leaves a ledger there, and one line with the child's exit code.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path

SQL = "SELECT purpose, COUNT(*) AS n FROM credit GROUP BY purpose"
SCHEMA = {
    "purpose": {"type": "category", "values": ["A40", "A41", "A42", "A43", "A46", "A49"]},
    "age": {"type": "integer", "low": 18, "high": 80, "bins": [18, 30, 40, 50, 80]},
}
DATA = Path(__file__).parents[1] / "data" / "german_credit.csv"
STEPS = (
    "before the scan",
    "before the selection",
    "between selection and influences",
    "before the insert",
    "before the commit",
    "after the commit",
    "before it is shown",
)


def session(ledger, **options):
    """Open the ledger."""
    import dpnb

    return dpnb.Session(
        dpnb.Table("credit", DATA, dpnb.Schema.from_dict(SCHEMA)), ledger=ledger, **options
    )


def question(opened):
    """Ask the query and the question about it."""
    return opened.query(SQL, rho=1).compare("A43", "A46")


def die(*_, **__):
    """End without any clean-up."""
    os._exit(9)


def die_at(step):
    """Kill this process when it first comes to a step of an explanation."""
    from dpnb.explain import request
    from dpnb.privacy.ledger import Ledger
    from dpnb.privacy.noise import SecureNoise

    original = Ledger.transaction

    @contextlib.contextmanager
    def transaction(self):
        with original(self) as append:

            def write(entry):
                if step == "before the commit":
                    append(entry)
                os._exit(9)

            yield write

    owner, name, new = {
        "before the scan": (request, "measure", die),
        "before the selection": (SecureNoise, "largest", die),
        "between selection and influences": (SecureNoise, "gaussian", die),
        "before the insert": (Ledger, "transaction", transaction),
        "before the commit": (Ledger, "transaction", transaction),
        "after the commit": (Ledger, "_write_anchor", die),
        "before it is shown": (request, "explanation", die),
    }[step]
    setattr(owner, name, new)


def main(folder):
    """Fork for each step."""
    import opendp.prelude  # noqa: F401

    import dpnb.curator
    import dpnb.engines.duckdb
    import dpnb.sql.parse

    for number, step in enumerate(STEPS):
        child = os.fork()
        if child == 0:
            try:
                opened = session(Path(folder) / f"{number}", budget=dpnb.Budget(rho=2))
                asked = question(opened)
                die_at(step)
                opened.explain(asked, k=2)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                traceback.print_exc()
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
