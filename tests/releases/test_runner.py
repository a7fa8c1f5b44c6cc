"""What is priced is what is carried out: each step of a request is taken once while the ledger stands still."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pandas as pd
import pytest

from dpnb.answers.query import AnswerRequest
from dpnb.answers.reuse import OnlineRequest
from dpnb.curator import Curator
from dpnb.decide.steps import StepRequest
from dpnb.discover.request import DiscoveryRequest
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.explain.request import ExplanationRequest
from dpnb.ledger.ledger import Ledger
from dpnb.privacy.budget import Budget
from dpnb.releases.runner import Runner
from dpnb.schema.columns import Category, Integer
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from tests.kit.noise import NoNoise

BY_SEX = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"
FEW = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING n > 30"
REQUESTS = AnswerRequest, OnlineRequest, ExplanationRequest, StepRequest, DiscoveryRequest
READERS = (
    "dpnb.answers.verbs.parse", "dpnb.decide.verb.parse", "dpnb.explain.verb.recalled",
)  # fmt: skip


@pytest.fixture
def steps(monkeypatch):
    """How often each step of a request was taken."""
    counts = Counter()

    def counted(name, work):
        def run(*arguments, **options):
            counts[name] += 1
            return work(*arguments, **options)

        return run

    for request in REQUESTS:
        for method in ("plan", "cost", "release"):
            name = f"{request.__name__}.{method}"
            monkeypatch.setattr(request, method, counted(name, getattr(request, method)))
    monkeypatch.setattr(Runner, "_check", counted("check", Runner._check))
    for look in ("measure", "marginals", "tally"):
        monkeypatch.setattr(
            DuckDBEngine, look, counted("look", getattr(DuckDBEngine, look)), raising=True
        )
    monkeypatch.setattr(Ledger, "transaction", counted("transaction", Ledger.transaction))
    for place in READERS:
        module, name = place.rsplit(".", 1)
        monkeypatch.setattr(
            place, counted("read", getattr(__import__(module, fromlist=[name]), name))
        )
    return counts
    return counts


@pytest.fixture
def session():
    rows = range(120)
    frame = pd.DataFrame(
        {
            "sex": ["FM"[i % 2] for i in rows],
            "job": ["abc"[i % 3] for i in rows],
            "n": [i % 10 for i in rows],
        }
    )
    schema = Schema(
        {"sex": Category(["F", "M"]), "n": Integer(0, 9, bins=[0, 3, 6, 9])}, undeclared=["job"]
    )
    budget = Budget(rho=1, delta="1e-6", key_delta="1e-7")
    made = Curator(Table("t", frame, schema), budget=budget, noise=NoNoise())
    yield made.session()
    made.close()


def question(session):
    return session.query(BY_SEX, rho=0.1).compare("M", "F")


CASES = {
    "query": ("AnswerRequest", lambda s: (BY_SEX, {"rho": 0.1})),
    "query of an error": ("OnlineRequest", lambda s: (BY_SEX, {"error": 10})),
    "explain": (
        "ExplanationRequest",
        lambda s: (question(s), {"rho": 0.1, "attributes": ["n"], "anyway": True}),
    ),
    "decide": ("StepRequest", lambda s: (FEW, {"u": 10, "mode": "margin"})),
    "discover": ("DiscoveryRequest", lambda s: ("job", {"rho": 0.1})),
}


def price_of(session, verb, subject, options):
    if verb == "discover":
        return session.price_discovery(subject, **options)
    return session.price(subject, **options)


@pytest.mark.parametrize("case", CASES)
def test_what_is_priced_is_what_is_carried_out(case, session, steps):
    request, asked = CASES[case]
    subject, options = asked(session)
    verb = case.split()[0]
    steps.clear()
    price = price_of(session, verb, subject, options)
    planned = Counter(steps)
    assert planned[f"{request}.plan"] == planned[f"{request}.cost"] == 1
    assert set(planned.values()) == {1}
    assert not {"check", "look", "transaction"} & set(planned)

    found = getattr(session, verb)(subject, **options)
    # nothing that the price did is done again
    assert planned <= steps
    done = steps - planned
    release = done.pop(f"{request}.release")
    assert (release, done["check"], done["look"], done["transaction"]) == (1, 2, 1, 1)
    assert {name.split(".")[-1] for name in done} - {"release"} == {"check", "look", "transaction"}
    assert price.bill.spent == found.bill.spent

    steps.clear()
    again = getattr(session, verb)(subject, **options)
    assert again.stored
    assert not {"check", "look", "transaction"} & set(steps)


def test_a_plan_is_made_anew_when_the_ledger_has_changed(session, steps):
    session.price(BY_SEX, rho=0.1)
    session.query(BY_SEX, rho=0.05)
    steps.clear()
    found = session.query(BY_SEX, rho=0.1)
    assert steps["AnswerRequest.plan"] == 1
    assert found.spent.rho == Fraction("0.05")
