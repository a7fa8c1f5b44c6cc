"""Published methods through a session on public data: what they say is what they did, and no more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Decision, Integer, Schema, Table
from dpnb.decide.options import STUDY_MODES, TWO_PHASES
from dpnb.display.cards import decision_words
from dpnb.display.cards.decision import decision_html
from dpnb.studies import study

pytestmark = pytest.mark.fast

SCHEMA = Schema({"k": Category(list("abcdefgh")), "x": Integer(0, 100)})
SIZES = (900, 800, 700, 600, 60, 50, 40, 0)
ROWS = pd.DataFrame({"k": np.repeat(list("abcdefgh"), SIZES), "x": 30})
TABLE = Table("t", ROWS, SCHEMA, public=True)
SQL = (
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 400 AND AVG(x) > 20 "
    "OR COUNT(*) > 200 AND AVG(x) < 5"
)
"""Two thresholds of one count, which a decision in earnest measures once."""


@pytest.fixture
def runs(monkeypatch):
    """What simulations returned."""
    found, original = [], study.run

    def run(*given):
        found.append(original(*given))
        return found[-1]

    monkeypatch.setattr(study, "run", run)
    return found


@pytest.fixture(scope="module")
def session():
    with dpnb.Session(TABLE, budget=dpnb.Budget(rho=1)) as opened:
        yield opened


def rows_of(found, place):
    return [row for row in found.rows if row.place == place]


@pytest.mark.parametrize("mode", STUDY_MODES)
def test_the_plan_has_the_regions_and_shares_that_the_method_starts_with(session, runs, mode):
    price = session.price(SQL, mode=mode, beta=0.05)
    assert [test.u / test.rows for test in price.tests] == [120, 5, 60, 5]
    session.decide(SQL, mode=mode, most=50)
    for place, test in enumerate(price.tests):
        for first in rows_of(runs[0], place)[:1]:
            if mode in ("naive", *TWO_PHASES):
                assert (first.u, first.share) == (test.u, pytest.approx(test.share))
            elif mode != "probe-ent" or place == 0:
                assert 0 < first.share <= test.share * (1 + 1e-12)
    assert ("in phase one" in repr(price)) is (mode in TWO_PHASES)
    assert price.costs == ()


@pytest.mark.parametrize("mode", STUDY_MODES)
def test_a_decision_has_those_that_were_used(session, runs, mode):
    made = session.decide(SQL, mode=mode)
    assert runs[0].rows
    for place, test in enumerate(made.tests):
        used = rows_of(runs[0], place)
        assert test.share == pytest.approx(sum(row.share for row in used))
        if used:
            assert test.u == used[-1].u
    assert made.fnr_bound == 0.05
    assert "at most 5 % of being left out" in repr(made)


def test_a_method_that_stops_early_used_a_wider_region(session, runs):
    """All groups are clear of the threshold at a level that is coarser than the last one."""
    made = session.decide("SELECT k FROM t GROUP BY k HAVING COUNT(*) > 400", mode="ppwlm", u=1)
    (row,) = runs[0].rows
    assert row.share < 0.05
    assert made.tests[0].u == row.u > 1


@pytest.mark.parametrize("mode", STUDY_MODES)
def test_nothing_is_bounded_where_nothing_was_run(session, mode):
    made = session.decide(SQL, mode=mode, most="0.0001")
    assert (made.status, made.selected, made.fnr_bound) == ("DENIED_PLAN", [], None)
    assert decision_words.kinds(made) == ("none",)
    assert [test.share for test in made.tests] == [0, 0, 0, 0]
    for shown in (repr(made), decision_html(made), made.to_markdown()):
        assert "being left out" not in shown
        assert "No group was judged" in shown
        assert "more than epsilon 0.0001, so nothing was run" in shown
    assert Decision.from_dict(made.to_dict()) == made


def test_groups_of_which_nothing_is_proven_are_counted(session):
    made = session.decide(
        "SELECT k FROM t GROUP BY k HAVING COUNT(*) > 400", mode="naive", beta=1e-9
    )
    assert made.selected == list("abcd")
    assert set(made.verdicts) == {0}
    # any selected group may be wrong, and any other one missing
    assert (made.false, made.missed, made.fpr_bound) == (1.0, 1.0, None)
