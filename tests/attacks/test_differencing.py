"""Everybody, and everybody but her: the difference is she.

Promised: however two answers are set off against each other, a guess whether she is in the table is right no
more often than what was spent on her row allows. Both answers are charged, though each is about many people.
Not promised: that the bound is small. A cap of rho 1000 protects nobody, and the same attacks then find out
nearly everybody.

A person of whom all this is asked stands in each of many groups that share no rows, so that one session is
many experiments, each with noise of its own.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Integer, Real, Schema, Table
from dpnb.errors import BudgetError
from tests.kit.guessing import with_epsilon, with_gaussians, with_rho

GROUPS, OTHERS = 1_500, 6
SCHEMA = Schema({"g": Integer(0, GROUPS - 1), "she": Integer(0, 1), "wage": Real(0, 1)})
GENERATOR = np.random.default_rng(5)
THERE = GENERATOR.random(GROUPS) < 0.5
WAGES = GENERATOR.integers(0, 2, (GROUPS, OTHERS)).astype(float)
TABLE = Table(
    "t",
    pd.concat(
        [
            pd.DataFrame({"g": np.repeat(range(GROUPS), OTHERS), "she": 0, "wage": WAGES.ravel()}),
            pd.DataFrame({"g": np.flatnonzero(THERE), "she": 1, "wage": 1.0}),
        ]
    ),
    SCHEMA,
)
BUDGETS = {"rho": Fraction(1, 2), "epsilon": Fraction(1)}


class Attacker:
    """Asks about all groups, each statement at a share of the whole budget."""

    def __init__(self, unit, total):
        self.unit, self.total = unit, total
        self.session = dpnb.Session(TABLE, budget=dpnb.Budget(**{unit: total}))

    def ask(self, what, where="", share=1):
        sql = f"SELECT g, {what} FROM t {where} GROUP BY g"
        answer = self.session.query(sql, **{self.unit: self.total * share})
        columns = answer.to_frame().iloc[:, 1:]
        return [columns[found.alias].to_numpy() for found in answer.estimates]

    def spent(self):
        return float(self.session.budget.spent.level(self.session.budget.privacy))


def two_statements(attacker):
    (all_,) = attacker.ask("COUNT(*) AS n", share=Fraction(1, 2))
    (others,) = attacker.ask("COUNT(*) AS n", "WHERE she <> 1", share=Fraction(1, 2))
    return all_ - others


def one_statement(attacker):
    all_, others = attacker.ask("COUNT(*) AS n, COUNT(*) FILTER (WHERE NOT she = 1) AS m")
    return all_ - others


def a_formula(attacker):
    (difference,) = attacker.ask("COUNT(*) - COUNT(CASE WHEN she < 1 THEN she END) AS her")
    return difference


def sums(attacker):
    (all_,) = attacker.ask("SUM(wage) AS s", share=Fraction(1, 2))
    (others,) = attacker.ask("SUM(wage) AS s", "WHERE she = 0 OR she IS NULL", share=Fraction(1, 2))
    return all_ - others


def of_means(attacker):
    """Her wage is 1 for certain: the sum that a mean rests on moves with her."""
    mean, count = attacker.ask("AVG(wage) AS m, COUNT(wage) AS n")
    return np.nan_to_num(mean) * count - WAGES.sum(axis=1)


def knowing_the_others(attacker):
    (all_,) = attacker.ask("COUNT(*) AS n")
    return all_ - OTHERS


def outright(attacker):
    (hers,) = attacker.ask("COUNT(*) AS n", "WHERE she = 1")
    return hers


DIFFERENCES = {
    f.__name__: f
    for f in (
        two_statements,
        one_statement,
        a_formula,
        sums,
        of_means,
        knowing_the_others,
        outright,
    )
}
BEST = {"knowing_the_others", "outright"}


@pytest.mark.parametrize("unit", BUDGETS)
@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_guess_is_right_no_more_often_than_what_was_spent_allows(name, unit, reaches, equals):
    attacker = Attacker(unit, BUDGETS[unit])
    right = (DIFFERENCES[name](attacker) > 0.5) == THERE
    assert attacker.spent() <= BUDGETS[unit]
    bound = {"rho": with_gaussians, "epsilon": with_epsilon}[unit](attacker.spent())
    assert reaches(~right, 1 - bound)
    # with all of the budget on one count the bound of Gaussian noise is what the attacker gets
    assert name not in BEST or unit != "rho" or equals(right, bound)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_without_a_cap_to_speak_of_it_works(name):
    attacker = Attacker("rho", Fraction(1_000))
    assert np.mean((DIFFERENCES[name](attacker) > 0.5) == THERE) > 0.99


@pytest.mark.parametrize("unit", BUDGETS)
def test_the_second_half_of_a_difference_is_refused_where_the_first_took_the_budget(unit):
    attacker = Attacker(unit, BUDGETS[unit])
    attacker.ask("COUNT(*) AS n")
    spent = attacker.spent()
    for where in ("WHERE she <> 1", "WHERE she = 0 OR she IS NULL", "WHERE NOT (she >= 1)"):
        with pytest.raises(BudgetError):
            attacker.ask("COUNT(*) AS n", where, share=Fraction(1, 2))
    # nor is it worked out from what is held
    with pytest.raises(dpnb.DpnbError, match="do not determine"):
        attacker.session.infer("SELECT COUNT(*) AS n FROM t WHERE she <> 1 AND g = 5")
    assert attacker.spent() == spent


@pytest.mark.parametrize("unit", BUDGETS)
def test_a_decision_about_her_alone_tells_no_more(unit, reaches):
    """Coins instead of noise; the bound is the one of any release of that cost."""
    attacker = Attacker(unit, BUDGETS[unit])
    sql = "SELECT g FROM t WHERE she = 1 GROUP BY g HAVING COUNT(*) > 0"
    made = attacker.session.decide(sql, mode="rr", beta=0.3, alpha=0.3)
    right = np.isin(range(GROUPS), made.selected) == THERE
    bound = {"rho": with_rho, "epsilon": with_epsilon}[unit](attacker.spent())
    assert reaches(~right, 1 - bound)
    assert right.mean() > 0.6
