"""Counts of random subsets until the budget is gone, then a linear program for everybody's secret.

Dinur and Nissim: too many, too accurate answers give the whole column away. The attacker knows every row but
for one secret bit, asks how many of random subsets have it, and solves for all bits at once.

Promised: the cap holds the chance to guess a row's bit right to what it allows, however many questions it is
spread over and whatever is done with the answers. A row without the bit is in none of the boxes that are
counted, so for these statements to have it or not is to be there or not.

Not promised: that a *changed* row costs what an added or removed one does. Counts of those with the bit and
of those without it share no row, so both are had for the price of one; a change moves both.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import dpnb
from dpnb import Integer, Schema, Table
from dpnb.errors import BudgetError
from tests.kit.guessing import with_epsilon, with_gaussians


def people(count, seed=1):
    bits = np.random.default_rng(seed).integers(0, 2, count)
    schema = Schema({"id": Integer(0, count - 1), "ill": Integer(0, 1)})
    return bits, Table("t", pd.DataFrame({"id": range(count), "ill": bits}), schema)


PEOPLE, STATEMENTS = 40, 60
BITS, TABLE = people(PEOPLE)


def asked(unit, cap, seed=2):
    """Subsets, what was said about them until a refusal, and what was spent."""
    draw = np.random.default_rng(seed)
    level = Fraction(cap) / STATEMENTS
    subsets, said = [], []
    with dpnb.Session(TABLE, budget=dpnb.Budget(**{unit: cap})) as session:
        while len(said) < 3 * STATEMENTS:
            subset = draw.random(PEOPLE) < 0.5
            listed = ", ".join(map(str, np.flatnonzero(subset)))
            sql = f"SELECT COUNT(*) AS n FROM t WHERE ill = 1 AND id IN ({listed})"
            try:
                answer = session.query(sql, **{unit: level})
            except BudgetError:
                break
            subsets.append(subset)
            said.append(answer)
        spent = session.budget.spent.level(session.budget.privacy)
    paid = np.array([answer.spent.level(answer.privacy) for answer in said])
    assert paid.sum() == spent <= cap
    numbers = np.array([answer.estimates[0].count[0] for answer in said])
    return np.array(subsets, dtype=float), numbers, float(spent)


def by_linear_program(subsets, said):
    """Least absolute errors with every secret between 0 and 1."""
    questions, rows = subsets.shape
    errors = np.eye(questions)
    limits = np.block([[subsets, -errors], [-subsets, -errors]])
    found = optimize.linprog(
        np.r_[np.zeros(rows), np.ones(questions)], limits, np.r_[said, -said],
        bounds=[(0, 1)] * rows + [(0, None)] * questions,
    )  # fmt: skip
    assert found.success
    return found.x[:rows]


def by_least_squares(subsets, said):
    return optimize.lsq_linear(subsets, said, (0, 1)).x


METHODS = [by_linear_program, by_least_squares]


@pytest.fixture(scope="module")
def answered():
    """What the attacker was told under each cap; each is asked for once."""
    return {}


def right(answered, unit, cap, method):
    if (unit, cap) not in answered:
        answered[unit, cap] = asked(unit, cap)
    subsets, said, spent = answered[unit, cap]
    # statements that a row is not in cost it nothing, so there are a few more of them
    assert STATEMENTS <= len(said) < 3 * STATEMENTS
    return (method(subsets, said) > 0.5) == BITS, spent


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("unit", "cap", "bound"),
    [("rho", Fraction(1, 2), with_gaussians), ("epsilon", Fraction(1), with_epsilon)],
)
def test_the_cap_holds_every_row(unit, cap, bound, method, answered, reaches):
    hits, spent = right(answered, unit, cap, method)
    assert reaches(~hits, 1 - bound(spent))


@pytest.mark.parametrize("method", METHODS)
def test_without_a_cap_to_speak_of_nearly_all_rows_are_found(method, answered):
    hits, _ = right(answered, "rho", Fraction(1_000), method)
    assert hits.mean() > 0.95


MANY = 3_000
RHO = Fraction(1, 2)


@pytest.fixture(scope="module")
def counted():
    """One histogram of all rows: the most that a budget of ``RHO`` buys about each."""
    bits, table = people(MANY, seed=3)
    found = []
    with dpnb.Session(table, budget=dpnb.Budget(rho=RHO)) as session:
        for ill in (1, 0):
            sql = f"SELECT id, COUNT(*) AS n FROM t WHERE ill = {ill} GROUP BY id"
            found.append(np.array(session.query(sql, rho=RHO).estimates[0].count))
        assert session.budget.spent.rho == RHO
    return bits, *found


def test_the_best_questions_reach_the_bound_and_do_not_pass_it(counted, equals):
    bits, with_it, _ = counted
    assert equals((with_it > 0.5) == bits, with_gaussians(RHO))


def test_a_changed_row_is_one_removed_and_one_added(counted, equals, reaches):
    """Both halves together tell a changed row better than the bound of one step, and keep that of two."""
    bits, with_it, without = counted
    hits = (with_it > without) == bits
    assert equals(hits, float(stats.norm.cdf(math.sqrt(RHO))))
    assert not reaches(~hits, 1 - with_gaussians(RHO))
    # two steps of mu each are one of 2 mu, which is 4 rho
    assert reaches(~hits, 1 - with_gaussians(4 * RHO))
