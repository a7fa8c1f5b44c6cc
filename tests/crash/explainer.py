"""Explains once for each step and dies at it: one fork each, so everything is imported once.

Arguments: a folder. For each step it leaves a ledger there, and one line with the child's exit code.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kit.dying import DATA, at_the_ledger, die, fork_for_each

SQL = "SELECT purpose, COUNT(*) AS n FROM credit GROUP BY purpose"
SCHEMA = {
    "purpose": {"type": "category", "values": ["A40", "A41", "A42", "A43", "A46", "A49"]},
    "age": {"type": "integer", "low": 18, "high": 80, "bins": [18, 30, 40, 50, 80]},
}
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


def die_at(step):
    """Kill this process when it first comes to a step of an explanation."""
    from dpnb.explain import request
    from dpnb.privacy.noise import SecureNoise

    own = {
        "before the scan": (request, "measure", die),
        "before the selection": (SecureNoise, "largest", die),
        "between selection and influences": (SecureNoise, "gaussian", die),
        "before it is shown": (request, "explanation", die),
    }
    owner, name, new = own[step] if step in own else at_the_ledger(step)
    setattr(owner, name, new)


def main(folder):
    """Fork for each step."""
    import opendp.prelude  # noqa: F401

    import dpnb.curator
    import dpnb.engines.duckdb
    import dpnb.sql.parse

    def work(step, number):
        opened = session(Path(folder) / f"{number}", budget=dpnb.Budget(rho=2))
        asked = question(opened)
        die_at(step)
        opened.explain(asked, k=2)

    fork_for_each(STEPS, work)


if __name__ == "__main__":
    main(sys.argv[1])
