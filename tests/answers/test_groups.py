"""Which groups an answer shows: those in which a row may be, by the statement and the declarations."""

from __future__ import annotations

import pytest

from dpnb.display.cards import answer, inference

pytestmark = pytest.mark.fast

SHOWN = {
    "": "north south east west",
    "WHERE region IN ('south', 'west')": "south west",
    "WHERE NOT region = 'south'": "north east west",
    "WHERE region = 'south' OR score > 3": "north south east west",
    "WHERE region = 'south' AND score > 3 OR region = 'east' AND kind = 'old'": "south east",
    "WHERE (region = 'south' OR score > 3) AND region IN ('south', 'west')": "south west",
    "WHERE score > 10": "north south east west",
}


@pytest.mark.parametrize("where", SHOWN)
def test_a_group_that_the_condition_leaves_no_row_is_not_shown(where, opened):
    sql = f"SELECT region, COUNT(*) AS n FROM people {where} GROUP BY region"
    session = opened()
    found = session.query(sql, rho=1)
    assert list(found.to_frame()["region"]) == SHOWN[where].split()
    assert list(session.infer(sql).to_frame()["region"]) == SHOWN[where].split()
    shown = found._repr_html_() + repr(found) + found.to_markdown()
    assert [r for r in ("north", "south", "east", "west") if r in shown] == SHOWN[where].split()


def test_order_and_limit_act_on_what_is_shown(opened):
    sql = (
        "SELECT score, region, COUNT(*) AS n FROM people WHERE score BETWEEN 2 AND 3 AND "
        "region <> 'west' GROUP BY score, region ORDER BY score DESC, region LIMIT 4"
    )
    found = opened().query(sql, rho=1).to_frame()
    assert found[["score", "region"]].to_numpy().tolist() == [
        [3, "north"], [3, "south"], [3, "east"], [2, "north"],
    ]  # fmt: skip


@pytest.mark.parametrize("where", SHOWN)
def test_the_promise_is_about_the_groups_that_were_asked_for(where, opened):
    sql = f"SELECT region, COUNT(*) AS n, SUM(score) AS s FROM people {where} GROUP BY region"
    session, number = opened(), 2 * len(SHOWN[where].split())
    for told in (session.query(sql, rho=1), session.query(f"{sql} LIMIT 1", rho=1)):
        assert f"All {number} confidence intervals hold" in answer.interval_sentence(told)
    assert f"All {number} confidence intervals hold" in inference.interval_sentence(
        session.infer(sql)
    )


def test_a_total_is_always_shown(opened):
    found = opened().query("SELECT COUNT(*) AS n FROM people WHERE score > 10", rho=1)
    assert len(found.to_frame()) == 1
