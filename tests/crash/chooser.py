"""Chooses privately, and dies at a step of that."""

from __future__ import annotations

import os

from tests.kit.dying import DATA, at_the_ledger, die

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


def work(order):
    """Die at the step that an order names."""
    import dpnb

    profile = opened(order["ledger"], budget=dpnb.Budget(rho="0.01")).risk(SQL)
    die_at(order["step"])
    print(profile.choose(0.9, mode="paper"), flush=True)
