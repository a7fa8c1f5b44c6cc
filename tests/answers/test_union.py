"""UNION ALL: several statements in one request."""

from __future__ import annotations

import json

import duckdb
import pytest

import dpnb
from dpnb.answers.answer import Answer

pytestmark = pytest.mark.fast

ALL = "SELECT region, COUNT(*) AS n FROM people GROUP BY region UNION ALL SELECT 'all', COUNT(*) FROM people"
PARTS = [
    f"{ALL} ORDER BY n DESC, region LIMIT 3 OFFSET 1",
    "SELECT COUNT(*) AS n FROM people UNION ALL SELECT SUM(score) FROM people WHERE kind = 'old' ORDER BY 1",
    "WITH kept AS (SELECT * FROM people WHERE score > 3) SELECT kind AS part, ROUND(AVG(gain), 1) AS g "
    "FROM kept GROUP BY kind UNION ALL (SELECT region, AVG(gain) FROM kept GROUP BY region HAVING COUNT(*) > 100 "
    "ORDER BY 2 LIMIT 1) UNION ALL SELECT 'all', AVG(gain) FROM kept ORDER BY g",
]  # fmt: skip


@pytest.mark.parametrize("sql", PARTS)
def test_its_lines_are_those_of_its_statements(sql, frame, opened):
    connection = duckdb.connect()
    connection.register("people", frame)
    wanted = connection.execute(sql).df()
    found = opened(scale=0.0).query(sql, rho=1)
    names = [*wanted]
    if "'all'" in sql and "kept" not in sql:
        # the empty west is a declared group, and last
        assert len(found.groups) == 5
    assert (
        found.to_frame()[names].round(6).to_numpy().tolist() == wanted.round(6).to_numpy().tolist()
    )
    assert Answer.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found._repr_html_()
    assert found.to_markdown()
    assert len(found.branches) == sql.count("UNION ALL") + 1


def test_it_is_one_request_that_a_ledger_keeps(table, tmp_path):
    path = tmp_path / "union.ledger"
    with dpnb.Session(table, budget=dpnb.Budget(rho=1), ledger=path) as session:
        price = session.price(ALL, rho=0.2)
        first = session.query(ALL, rho=0.2)
        assert price.spent.rho == first.spent.rho == session.budget.spent.rho
        assert float(first.spent.rho) == pytest.approx(0.2)
        assert len(session.history) == 1
    with dpnb.Session(table, ledger=path) as session:
        again = session.query(f"{ALL} ORDER BY n LIMIT 1", rho=0.2)
        assert again.stored
        assert again.spent.rho == 0
        assert again.estimates == first.estimates
        # its statements were answered, too
        alone = session.query(ALL.partition(" UNION")[0], rho=0.1)
        assert alone.spent.rho == 0
        assert alone.estimates[0].estimate == first.estimates[0].estimate[:4]


def test_statements_about_disjoint_rows_share_their_cost(opened):
    part = "SELECT COUNT(*) AS n FROM people WHERE kind = '{}'"
    session = opened()
    apart = session.query(" UNION ALL ".join(map(part.format, ("old", "new"))), rho=0.2)
    assert float(apart.spent.rho) == pytest.approx(0.1)
    whole = " UNION ALL ".join(
        ["SELECT SUM(score) AS n FROM people", "SELECT SUM(gain) FROM people"]
    )
    assert float(session.query(whole, rho=0.2).spent.rho) == pytest.approx(0.2)


def test_a_view_of_two_statements_is_released_once_at_the_larger_level(opened):
    """An AVG needs a count at a lower level than COUNT(*) does."""
    score = "SELECT 'm' AS what, AVG(score) AS x FROM people WHERE score IS NOT NULL"
    sql = f"{score} UNION ALL SELECT 'n', COUNT(score) FROM people WHERE score IS NOT NULL"
    for text in (sql, " UNION ALL ".join(reversed(sql.split(" UNION ALL ")))):
        found = opened().query(text, rho=0.2)
        levels = [dict(part.levels) for part in found.branches]
        shared = set(levels[0]) & set(levels[1])
        assert shared
        assert all(levels[0][view] == levels[1][view] == "1/10" for view in shared)


def test_all_intervals_hold_at_once(opened):
    """Five intervals share what can fail, so each is as wide as one of five in one statement."""
    found = opened().query(ALL, rho=0.2)
    first = opened().query(ALL.partition(" UNION")[0], rho=0.1)
    total = opened().query("SELECT COUNT(*) AS n FROM people", rho=0.1)
    widths = [found.estimates[0].margin_of_error(i) for i in (0, 4)]
    assert widths[0] > first.estimates[0].margin_of_error(0)
    assert widths[1] > total.estimates[0].margin_of_error(0)
    assert "All 5 confidence intervals hold at once" in repr(found)
    fixed = opened().query(ALL, error=20)
    assert all(fixed.estimates[0].margin_of_error(i) <= 20 for i in range(5))


def test_groups_of_different_statements_can_be_compared(opened):
    session = opened()
    found = session.query(ALL, rho=1)
    question = found.compare("all", "north")
    assert question.valid
    low, high = found.estimates[0].low, found.estimates[0].high
    assert (question.low, question.high) == (
        pytest.approx(low[4] - high[0], abs=1),
        pytest.approx(high[4] - low[0], abs=1),
    )
    twice = session.query(
        f"{ALL.partition(' UNION')[0]} UNION ALL {ALL.partition(' UNION')[0]}", rho=1
    )
    refused = [
        (lambda: twice.compare("north", "south"), "several groups 'north'"),
        (found.bootstrap, "cannot be resampled"),
        (
            lambda: session.explain(question, rho=1, anyway=True),
            "about an answer to several statements",
        ),
        (lambda: session.infer(ALL), "only a query combines statements"),
        (lambda: session.query(ALL, error={"n": 3}), "one number"),
    ]
    for ask, what in refused:
        with pytest.raises(dpnb.DpnbError, match=what):
            ask()
    assert len(found.record()["parts"]) == 2


@pytest.mark.parametrize(
    "budget", [{"epsilon": 5}, {"epsilon": 5, "delta": 1e-6, "accountant": "gdp"}]
)
def test_every_way_of_counting_charges_it(budget, opened):
    session = opened(**budget)
    found = session.query(ALL, epsilon=0.5)
    assert session.budget.spent == found.spent
    assert session.query(ALL, epsilon=0.5).stored
