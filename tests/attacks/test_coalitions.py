"""Analysts who put their answers together, and work with them as well as anybody could.

Promised: a coalition learns what ``curator.coalition`` says, no more, and all together never more than the cap.
Exact on noise paths, where a coalition knows of a view what its best-served member knows. Not promised: that
two accounts are two people; what one is refused, the other is answered, up to the coalition's or the common
limit.

Each of many groups is an experiment of its own, so the covariance of all versions that the analysts hold is
seen in one session, and with it how good the best combination of them is.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Integer, Policy, Schema, Table
from dpnb.errors import BudgetError
from tests.kit.guessing import with_gaussians

GROUPS, OTHERS = 1_500, 4
SCHEMA = Schema({"g": Integer(0, GROUPS - 1), "she": Integer(0, 1)})
THERE = np.random.default_rng(7).random(GROUPS) < 0.5
TABLE = Table(
    "t",
    pd.concat(
        [
            pd.DataFrame({"g": np.repeat(range(GROUPS), OTHERS), "she": 0}),
            pd.DataFrame({"g": np.flatnonzero(THERE), "she": 1}),
        ]
    ),
    SCHEMA,
)
COUNT = "SELECT g, COUNT(*) AS n FROM t {} GROUP BY g"
EXACT = OTHERS + THERE
NAMES = ("a", "b", "c", "d")


def opened(mechanism="path", **options):
    return dpnb.Curator(
        TABLE, budget=dpnb.Budget(epsilon=9, delta=1e-6, accountant="gdp"),
        analysts=dict.fromkeys(NAMES, 1), policy=Policy(mechanism=mechanism, **options),
    )  # fmt: skip


def ask(curator, name, rho, where=""):
    return np.array(curator.session(name).query(COUNT.format(where), rho=rho).estimates[0].count)


BOUGHT = [
    ("d", "0.2"), ("a", "0.05"), ("b", "0.1"), ("a", "0.08"), ("c", "0.02"), ("c", "0.1"), ("b", "0.15"),
    ("c", "0.15"), ("a", "0.1"),
]  # fmt: skip


@pytest.fixture(scope="module", params=["path", "additive", "vanilla"])
def bought(request):
    """A mechanism, a curator of it, and the errors of what each analyst bought."""
    curator = opened(request.param)
    yield request.param, curator, [(name, ask(curator, name, rho) - EXACT) for name, rho in BOUGHT]
    curator.close()


@pytest.mark.parametrize("members", ["a", "ab", "abc", "abcd"])
def test_the_best_combination_of_all_answers_is_as_good_as_was_charged(bought, members):
    """In precision, which is twice the rho: what is combined best has a variance of 1 / (2 rho)."""
    mechanism, curator, held = bought
    errors = [error for name, error in held if name in members]
    # versions that are the same numbers again are no other ones
    errors = np.unique(np.round(errors, 9), axis=0)
    covariance = errors @ errors.T / GROUPS
    precision = np.linalg.inv(covariance).sum()
    known = curator.coalition(*members).rho
    assert precision == pytest.approx(2 * float(known), rel=0.2)
    assert known <= curator.budget.spent.rho <= curator.budget.cap.rho
    if mechanism == "path":
        assert known == max(Fraction(rho) for name, rho in BOUGHT if name in members)


def test_averaging_ones_own_coarse_versions_does_not_pass_the_synopsis_of_all():
    """With noise added to one synopsis, many coarse versions of it show the synopsis, and nothing finer."""
    curator = opened("additive")
    finest = ask(curator, "d", "0.1") - EXACT
    seen = [finest]
    for name in "abc":
        seen += [ask(curator, name, f"0.0{level}") - EXACT for level in range(1, 10)]
    for versions in (seen[1:], seen):
        assert np.var(np.mean(versions, axis=0)) > 0.9 * np.var(finest)
    assert curator.coalition(*NAMES).rho == curator.budget.spent.rho == Fraction(1, 10)
    curator.close()


def test_one_asks_about_everybody_and_another_one_about_everybody_but_her(reaches):
    curator = opened(together=1, collusion=[("a", "b")])
    difference = ask(curator, "a", "0.01") - ask(curator, "b", "0.01", "WHERE she <> 1")
    known = curator.coalition("a", "b").rho
    assert known == Fraction(1, 50)
    hits = (difference > 0.5) == THERE
    assert reaches(~hits, 1 - with_gaussians(known))
    # what is too much for the two is refused to either
    for name in "ab":
        with pytest.raises(BudgetError, match="budget exhausted"):
            ask(curator, name, "0.3", "WHERE she = 1")
    curator.close()


def test_four_accounts_share_what_one_has(reaches):
    """Each has the whole cap as a limit; together they have it once."""
    curator = opened()
    cap = curator.budget.cap.rho
    half = Fraction(int(cap * 500), 1_000)
    hers = ask(curator, "a", half, "WHERE she = 1")
    others = ask(curator, "b", half, "WHERE she = 0")
    all_ = ask(curator, "c", half)
    with pytest.raises(BudgetError, match="budget exhausted"):
        ask(curator, "d", cap / 5, "WHERE she = 1 OR she IS NULL")
    # the difference has twice the variance of the first count
    hits = (2 * hers + (all_ - others) > 1.5) == THERE
    assert reaches(~hits, 1 - with_gaussians(cap))
    assert curator.coalition(*NAMES).rho == curator.budget.spent.rho <= cap
    curator.close()
