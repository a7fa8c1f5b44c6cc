"""Which groups an answer shows: those in which a row may be, by the statement and the declarations."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dpnb
from dpnb.answers.answer import Answer
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


class TestGroupsAlone:
    """A statement without an aggregate lists declared groups: there are no data in the list."""

    @pytest.mark.parametrize(
        ("sql", "lines"),
        [
            ("SELECT DISTINCT region FROM people", "north south east west"),
            ("SELECT region FROM people GROUP BY region LIMIT 2", "north south"),
            (
                "SELECT region FROM people WHERE score > 3 GROUP BY 1 ORDER BY 1",
                "north south east west",
            ),
            (
                "SELECT DISTINCT region FROM people WHERE region <> 'east' AND score > 3",
                "north south west",
            ),
            ("SELECT DISTINCT UPPER(kind) AS k, 1 AS one FROM people", "NEW,1 OLD,1"),
            (
                "SELECT kind, region FROM people GROUP BY ALL HAVING kind = 'old' AND region = 'east'",
                "old,east",
            ),
            ("SELECT DISTINCT kind FROM people GROUP BY kind, region", "old new"),
        ],
    )
    def test_they_are_listed(self, sql, lines, opened):
        session = opened()
        found = session.query(sql)
        frame = found.to_frame()
        keys = [name for name in frame if not name.endswith(("_low", "_high"))]
        assert [",".join(map(str, line)) for line in frame[keys].to_numpy()] == lines.split()
        assert Answer.from_dict(found.to_dict()) == found
        assert session.query(sql, rho=1).to_frame().equals(frame)
        assert (
            session.price(sql, error=5).spent.rho
            == found.spent.rho
            == session.budget.spent.rho
            == 0
        )
        assert len(session.history) == 0
        for shown in (repr(found), found.to_markdown(), found._repr_html_()):
            assert "whether there are rows in them or not" in shown
            assert ("that WHERE does not rule out" in shown) == (
                "region <>" in sql or "HAVING" in sql
            )

    def test_they_are_the_same_for_any_rows(self, table, frame, opened):
        sql = "SELECT DISTINCT region, kind FROM people"
        empty = dpnb.Table("people", frame.head(0), table.schema)
        full, none = opened().query(sql, rho=1), opened(empty).query(sql, rho=1)
        assert replace(full, ledger="", request="") == replace(none, ledger="", request="")
        assert full.record()["views"] == []

    def test_there_is_nothing_to_compute_with(self, opened):
        session = opened()
        sql = "SELECT DISTINCT kind FROM people"
        found = session.query(sql)
        for ask in (lambda: found.compare("old", "new"), found.plot, found.bootstrap):
            with pytest.raises(dpnb.DpnbError, match="without any numbers. Add COUNT"):
                ask()
        for refused in (
            lambda: session.infer(sql),
            lambda: session.decide(sql),
        ):
            with pytest.raises(dpnb.DpnbError, match=r"COUNT\(\*\)"):
                refused()
        assert found.widget().data["aggregates"] == found.widget().data["groups"] == []
        with pytest.raises(dpnb.DpnbError, match="rho must be above 0"):
            session.query(sql, rho=-1)

    @pytest.mark.parametrize("what", ["COUNT(*)", "COUNT(region)", "region", "*"])
    def test_a_list_of_declared_groups_is_no_part_of_another_query(self, what, opened):
        sql = f"SELECT {what} FROM (SELECT region FROM people GROUP BY region)"
        with pytest.raises(dpnb.DpnbError, match="only a whole query lists groups"):
            opened().query(sql, rho=1)
