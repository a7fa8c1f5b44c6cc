"""What an analyst may try in order to have a decision promise more than it can hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.errors import LedgerError, RequestError
from dpnb.privacy import response
from dpnb.privacy.definition import PURE, ZCDP

GROUPS = 40
SCHEMA = Schema({"dept": Integer(0, GROUPS - 1), "city": Category(["a", "b"])})
FRAME = pd.DataFrame({"dept": np.repeat(np.arange(GROUPS), 100), "city": "a"})
TABLE = Table("t", FRAME, SCHEMA)
BUDGETS = {ZCDP: dpnb.Budget(rho=100), PURE: dpnb.Budget(epsilon=100)}


def seen(session, views, level):
    """The number of rows in city a for each of many views, at ``level`` each."""
    counts = ", ".join(f"COUNT(*) FILTER (WHERE dept = {dept}) AS n{dept}" for dept in range(views))
    ((name, amount),) = level.items()
    answer = session.query(f"SELECT city, {counts} FROM t GROUP BY city", **{name: views * amount})
    return {f"WHERE dept = {dept}": one.estimate[0] for dept, one in enumerate(answer.estimates)}


class TestCertificatesOfPickedViews:
    """Of many views that were seen, the one is decided upon whose noise flatters it most."""

    RUNS = 24

    def proven(self, privacy: str, views: int) -> int:
        """In how many runs a group at the threshold, which is not above it, is surely above."""
        unit = {ZCDP: {"rho": 0.005}, PURE: {"epsilon": 0.1}}[privacy]
        wrong = 0
        for _ in range(self.RUNS):
            with dpnb.Session(TABLE, budget=BUDGETS[privacy]) as session:
                where, _ = max(seen(session, views, unit).items(), key=lambda one: one[1])
                sql = f"SELECT city FROM t {where} GROUP BY city HAVING COUNT(*) > 100"
                made = session.decide(sql, steps=1, u=1000)
            assert made.past
            wrong += "a" in made.strict
        return wrong

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_picking_does_not_make_certificates_fail(self, privacy, reaches):
        assert reaches(np.arange(self.RUNS) >= self.proven(privacy, 25), 0.95)

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_each_view_that_was_seen_counts_for_less_than_those_before(self, privacy):
        unit = {ZCDP: {"rho": 0.005}, PURE: {"epsilon": 0.1}}[privacy]
        schema = Schema({"dept": Integer(0, GROUPS - 1), "city": Category(["a", "b", "c"])})
        session = dpnb.Session(Table("t", FRAME, schema), budget=BUDGETS[privacy])
        where = [f"WHERE dept = {dept}" for dept in range(9)]
        for one in where:
            session.query(f"SELECT city, COUNT(*) AS n FROM t {one} GROUP BY city", **unit)
        widths = []
        for one in where:
            sql = f"SELECT city FROM t {one} GROUP BY city HAVING COUNT(*) > 100"
            reading = session.decide(sql, steps=1, u=5000).readings[0]
            # of three groups at most one is cut or widened by a rare value of the new step
            widths.append(np.median(np.subtract(reading.high, reading.low)))
        assert widths == sorted(widths)
        # of the half of 5 % that the past has, the n-th view gets 6 / (pi n)^2, shared by all groups
        alphas = [0.025 * 6 / (math.pi * rank) ** 2 / 3 for rank in range(1, 10)]
        if privacy == PURE:
            # one level of a chain was seen
            halves = [-math.log(alpha * 6 / math.pi**2) / 0.1 for alpha in alphas]
            assert widths == pytest.approx([2 * half for half in halves], rel=0.2)
        assert widths[-1] > widths[0] * 1.1


def test_the_bound_holds_for_all_rows_of_a_person(reaches):
    # with one privilege she looks for noise that misleads, with the other she decides on it
    missed = []
    for _ in range(24):
        curator = dpnb.Curator(TABLE, budget=BUDGETS[ZCDP], analysts={"ann": (4, 1)})
        one, other = curator.session("ann", 4), curator.session("ann", 1)
        sql = "SELECT city FROM t {} GROUP BY city HAVING COUNT(*) >= 100"
        level = other.price(sql.format("WHERE dept = 0"), beta=0.05, u=60).first.rho
        where, _ = min(seen(one, GROUPS, {"rho": level}).items(), key=lambda found: found[1])
        made = other.decide(sql.format(where), u=60, steps=1)
        curator.close()
        assert made.fnr_bound == 0.05
        assert made.past
        missed.append("a" not in made.selected)
    assert reaches(~np.array(missed), 0.95)


class TestRandomisedResponse:
    @pytest.mark.parametrize("options", [{"beta": 1e-20}, {"alpha": 1e-19}, {"beta": 5e-324}])
    def test_bounds_that_coins_cannot_hold_are_refused(self, options):
        session = dpnb.Session(TABLE, budget=BUDGETS[PURE])
        for mode in ("rr", "hybrid", "certified", "margin"):
            with pytest.raises(RequestError, match="must be at least 1e-09"):
                session.decide(
                    "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 5", mode=mode, **options
                )

    @pytest.mark.parametrize(("missed", "false"), [(0.05, 0.1), (5e-10, 0.4), (0.4, 5e-10)])
    def test_the_charge_covers_the_coins_as_they_fall(self, missed, false):
        # coins compare 64 random bits with a whole number
        kept, raised = (Fraction(int(p * 2**64), 2**64) for p in (1 - missed, false))
        loss = max(math.log(kept / raised), math.log((1 - raised) / (1 - kept)))
        assert loss <= response.level(missed, false, PURE) <= loss * (1 + 1e-5)

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_a_protected_claim_is_not_answered_by_it(self, privacy):
        budget = BUDGETS[privacy]
        many = {} if privacy == PURE else {"analysts": {"ann": 1}}
        curator = dpnb.Curator(TABLE, budget=budget, **many)
        curator.protect("SELECT COUNT(*) AS n FROM t WHERE city = 'a'", ">", 100, probability=0.9)
        session = curator.session(*many.get("analysts", {}))
        sql = "SELECT dept FROM t GROUP BY dept HAVING COUNT(*) > 100"
        with pytest.raises(RequestError, match="protects"):
            session.decide(sql, mode="rr")
        made = session.decide(sql, mode="hybrid", u=50, beta=0.2, alpha=0.2)
        assert made.status == "partial"
        assert "protects" in made.reason


def test_a_margin_that_the_lattice_would_spoil_is_refused():
    session = dpnb.Session(TABLE, budget=dpnb.Budget(rho=10**6))
    session.query("SELECT city, COUNT(*) AS n FROM t GROUP BY city", rho=10_000)
    with pytest.raises(RequestError, match="far more accurate"):
        session.decide(
            "SELECT city FROM t GROUP BY city HAVING COUNT(*) > 100", mode="margin", u=300
        )


def test_a_decision_does_not_go_on_with_older_data(tmp_path):
    first = dpnb.Session(TABLE, budget=BUDGETS[ZCDP], ledger=tmp_path / "l")
    sql = "SELECT dept FROM t GROUP BY dept HAVING COUNT(*) > 100"
    first.decide(sql, steps=1)
    spent = first.budget.spent
    dpnb.Session(
        Table("t", FRAME.iloc[1:], SCHEMA), ledger=tmp_path / "l", new_version=True
    ).close()
    with pytest.raises(LedgerError, match="newer version of table"):
        first.decide(sql, steps=2)
    assert first.budget.spent == spent


@pytest.mark.parametrize("alias", ["selected", "verdict", "epsilon"])
def test_names_of_results_cannot_be_taken(alias):
    session = dpnb.Session(TABLE, budget=BUDGETS[ZCDP])
    with pytest.raises(RequestError, match="is reserved"):
        session.decide(
            f"SELECT dept, COUNT(*) AS {alias} FROM t GROUP BY dept HAVING {alias} > 100"
        )


def test_what_is_not_decided_upon_is_not_measured():
    session = dpnb.Session(TABLE, budget=BUDGETS[ZCDP])
    with pytest.raises(RequestError, match="'m' is not used in HAVING"):
        session.decide("SELECT dept, SUM(dept) AS m FROM t GROUP BY dept HAVING COUNT(*) > 100")
