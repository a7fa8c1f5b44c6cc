"""An argument that is misnamed, or given without its name, is answered with what was meant."""

from __future__ import annotations

import inspect

import pytest

from dpnb import Budget, Session, Table
from dpnb.errors import RequestError

pytestmark = pytest.mark.fast

SQL = "SELECT COUNT(*) FROM t"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.query(SQL, rh=0.1), "query has no argument 'rh'. Did you mean rho?"),
        (
            lambda s: s.query(SQL, 0.1),
            "query takes only sql without a name. Write the others with their names, such as rho=0.05.",
        ),
        (
            lambda s: s.infer(SQL, confidense=0.9),
            "infer has no argument 'confidense'. Did you mean confidence?",
        ),
        (
            lambda s: s.decide(SQL, rho=0.1),
            "decide has no argument 'rho'. Write most=0.05: the highest total privacy cost.",
        ),
        (lambda s: s.price(SQL, rh=0.1), "unknown option 'rh'. Did you mean rho?"),
        (lambda s: s.price_discovery("c", roh=0.1), "unknown option 'roh'. Did you mean rho?"),
        (
            lambda s: s.query(SQL, dry_run=True),
            "query has no argument 'dry_run'. session.price(...) says what it would cost, free.",
        ),
        (
            lambda s: s.explain("an answer", "'a' > 'b'", rho=0.1),
            "explain takes only question without a name. Compare the groups first: "
            "session.explain(answer.compare('a', 'b'), rho=0.05).",
        ),
        (
            lambda _: Session("a table", epsilon=3, delta=1e-6),
            "Session has no argument 'epsilon'. Write budget=dpnb.Budget(epsilon=3, delta=1e-6).",
        ),
        (
            lambda _: Table("t", None, None, None, "id"),
            "Table takes only name, source, schema and unit without a name. Write the others with their names.",
        ),
        (lambda _: Budget(eps=3), "Budget has no argument 'eps'. Did you mean epsilon?"),
        (
            lambda _: Budget(3),
            "Budget takes no value without a name. Write the others with their names, such as rho=0.05.",
        ),
    ],
)
def test_it_says_what_was_meant(call, said):
    # nothing of a session is looked at before
    with pytest.raises(RequestError) as refused:
        call(Session.__new__(Session))
    assert str(refused.value) == said


def test_signatures_are_those_of_the_functions():
    assert "rho" in inspect.signature(Session.query).parameters
    assert "doubling" in inspect.signature(Budget).parameters
