"""Explains, and dies at a step of that."""

from __future__ import annotations

from tests.kit.dying import DATA, at_the_ledger, die

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


def work(order):
    """Die at the step that an order names."""
    import dpnb

    opened = session(order["ledger"], budget=dpnb.Budget(rho=2))
    asked = question(opened)
    die_at(order["step"])
    opened.explain(asked, k=2, rho="0.3")
