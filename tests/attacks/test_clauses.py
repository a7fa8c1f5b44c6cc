"""Options in a statement cannot raise a budget, change whom the table protects, or reach another table."""

from __future__ import annotations

from contextlib import closing

import pandas as pd
import pytest

from dpnb import Budget, Category, Curator, Integer, Schema, Session, Table, Unit
from dpnb.errors import BudgetError, DpnbError

pytestmark = pytest.mark.fast

SCHEMA = Schema({"item": Category(["pen", "ink"]), "quantity": Integer(0, 100)})
FRAME = pd.DataFrame({"id": [1, 1, 2, 3] * 5, "item": ["pen", "ink"] * 10, "quantity": range(20)})


def tables(frame=FRAME):
    return [
        Table("visits", frame, SCHEMA, unit=Unit("id", max_rows=5)),
        Table("other", FRAME, SCHEMA, unit=Unit("quantity", max_rows=1)),
    ]


def clause(options, rest="COUNT(*) AS n FROM visits"):
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {rest}"


RAISING = [
    "epsilon = 49", "epsilon = 49, delta = 0.999999", "epsilon = 49, epsilon = 0.01", "epsilon = 49, delta = 1e-300",
    "epsilon = 1e18", "epsilon = 0.001, budget = 100", "epsilon = 0.001, rho = 100", "epsilon = 0.001, delta = 2",
    "epsilon = 0.001, analyst = bob", "epsilon = 0.001, max_epsilon = 10", "epsilon = .001 + 49", "epsilon = (49)",
]  # fmt: skip


@pytest.mark.parametrize("options", RAISING)
def test_no_option_raises_a_budget_or_an_analysts_limit(options):
    with closing(
        Curator(tables(), budget=Budget(epsilon=3, delta=1e-6), analysts={"alice": 1, "bob": 4})
    ) as curator:
        alice = curator.session("alice")
        with pytest.raises(DpnbError):
            alice.query(clause(options))
        assert curator.budget.spent.rho == 0
        before = alice.budget.remaining.rho
        charged = alice.query(clause("epsilon = 0.01")).spent.rho
        assert 0 < charged == before - alice.budget.remaining.rho


def test_a_cost_in_a_statement_counts_against_the_limit_of_a_column():
    with closing(Curator(tables(), budget=Budget(rho=10))) as curator:
        curator.limit(column="quantity", rho=0.001, table="visits")
        with pytest.raises(BudgetError):
            curator.session().query(
                clause("epsilon = 5, delta = 1e-6", "SUM(quantity) AS s FROM visits")
            )


@pytest.mark.parametrize(
    "text",
    [
        clause("privacy_unit_column = quantity"),
        clause("privacy_unit_column = other.quantity"),
        clause("privacy_unit_column = other.id"),
        clause("privacy_unit_column = NULL"),
        clause("privacy_unit_column = item"),
        clause("privacy_unit_column = id", "COUNT(*) FROM other"),
        clause(
            "privacy_unit_column = id", "COUNT(*) FROM (SELECT quantity AS id FROM visits) AS v"
        ),
        clause("privacy_unit = quantity"),
        clause("max_rows_contributed = 1"),
        clause("max_groups_contributed = 1", "item, COUNT(*) FROM visits GROUP BY item"),
        clause("anonymization_userid_column = quantity"),
    ],
)
def test_no_option_changes_the_privacy_unit(text):
    with Session(tables(), budget=Budget(rho=1)) as session:
        with pytest.raises(DpnbError):
            session.price(text, rho=0.01)
        assert session.budget.spent.rho == 0


@pytest.mark.parametrize(
    "text",
    [
        clause("table = other"),
        clause("epsilon = 1, from = other"),
        clause("epsilon = 1 /* ) COUNT(*) FROM other */, source = other"),
        clause("epsilon = 'a) COUNT(*) FROM other --'"),
        clause('epsilon = "1) COUNT(*) FROM other"'),
        clause("epsilon = 1; SELECT COUNT(*) FROM other"),
        clause("epsilon = (SELECT COUNT(*) FROM other)"),
        "SELECT SUM(quantity, contribution_bounds_per_row => (0, (SELECT MAX(quantity) FROM other))) FROM visits",
        "SELECT SUM(quantity, contribution_bounds_per_row => (0, 9) FROM other --",
    ],
)  # fmt: skip
def test_no_option_reaches_another_table(text):
    with Session(tables(), budget=Budget(epsilon=30, delta=1e-6)) as session:
        with pytest.raises(DpnbError):
            session.query(text)
        assert session.budget.spent.rho == 0


def test_what_is_said_of_a_clause_depends_on_declarations_alone():
    texts = [clause(options) for options in RAISING]
    texts += [
        clause("", f"{aggregate} FROM visits")
        for aggregate in (
            "COUNT(*, contribution_bounds_per_group => (0, 1))", "SUM(quantity, contribution_bounds_per_group => (0, 60))",
            "SUM(quantity, contribution_bounds_per_row => (0, 10))", "AVG(quantity)", "DP_SUM(quantity, 0, 1)",
        )
    ]  # fmt: skip

    def said(frame):
        with Session(tables(frame), budget=Budget(epsilon=3, delta=1e-6)) as session:
            return [heard(session, text) for text in texts]

    assert said(FRAME) == said(FRAME[FRAME["id"] != 1])


def heard(session, text):
    try:
        return repr(session.price(text))
    except DpnbError as error:
        return str(error)
