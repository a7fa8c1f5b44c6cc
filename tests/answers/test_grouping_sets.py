"""GROUPING SETS, ROLLUP and CUBE: totals beside groups, in one request."""

from __future__ import annotations

import itertools
import json
import math
import random

import duckdb
import pandas as pd
import pytest

import dpnb
from dpnb.answers.answer import Answer

pytestmark = pytest.mark.fast

ROLLUP = "SELECT region, kind, COUNT(*) AS n FROM people GROUP BY ROLLUP (region, kind)"
KEYS = ["region", "kind", "score // 4", "CASE WHEN score > 5 THEN 'many' ELSE 'few' END"]
SETS = [
    "ROLLUP ({0}, {1})", "CUBE ({0}, {1})", "{0}, ROLLUP ({1})", "GROUPING SETS (({0}, {1}), {1}, ())",
    "GROUPING SETS (ROLLUP ({0}, {1}), ({1}))", "ROLLUP (({0}, {1}))", "ROLLUP ({0}), CUBE ({1})",
    "ROLLUP (1, b)", "GROUPING SETS ({0}, ({0}), {1})", "ROLLUP (a), {1}",
]  # fmt: skip
ITEMS = [
    "SUM(score) AS s", "AVG(gain) AS m", "GROUPING({0}) AS g", "GROUPING_ID({1}, {0}) AS g",
    "COALESCE(({0})::VARCHAR, 'none') AS c", "CASE WHEN GROUPING({1}) = 1 THEN 'total' ELSE 'part' END AS c",
]  # fmt: skip
HAVING = [
    "", "", " HAVING COUNT(*) > 60", " HAVING GROUPING({0}) = 0", " HAVING {0} IS NOT NULL AND n > 20",
    " HAVING GROUPING_ID({0}, {1}) IN (0, 1, 3)", " HAVING NOT GROUPING({1}) = 1 OR COUNT(*) > 500",
    " HAVING b IS NULL", " HAVING region <> 'east'",
]  # fmt: skip
ORDER = ["n, a, b", "a DESC, b, n", "GROUPING({1}), n DESC, a, b", "SUM(score) / 2, a, b, n", "3, 1, 2",
         "COALESCE(({1})::VARCHAR, '!'), n, a", "CASE WHEN b IS NULL THEN 0 ELSE 1 END, n, a, b"]  # fmt: skip


def statement(rng: random.Random) -> str:
    """Return a statement with several sets of keys."""
    keys = rng.sample(KEYS, 2)
    having = rng.choice(HAVING if "region" in keys else HAVING[:-1])
    limit = rng.choice(["", "", " LIMIT 4 OFFSET 1"])
    text = (
        f"SELECT {{0}} AS a, {{1}} AS b, COUNT(*) AS n, {rng.choice(ITEMS)} FROM people "
        f"GROUP BY {rng.choice(SETS)}{having} ORDER BY {rng.choice(ORDER)}{limit}"
    )
    return text.format(*keys)


def plain(value: object, mark: object = "all") -> object:
    """Return a value as it can be compared."""
    if value is None or value == mark or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str) else round(float(value), 3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def full(frame: pd.DataFrame) -> dpnb.Table:
    """The people, in a schema without empty regions and in the order of their names."""
    schema = dpnb.Schema(
        {
            "region": dpnb.Category(["east", "north", "south"]),
            "kind": dpnb.Category(["new", "old"]),
            "score": dpnb.Integer(0, 10),
            "gain": dpnb.Real(0, 100),
        }
    )
    return dpnb.Table("people", frame, schema)


def test_lines_are_those_of_duckdb(frame, full, opened):
    connection = duckdb.connect()
    connection.register("people", frame)
    session = opened(full, scale=0.0, rho=10**9, delta=1e-6)
    rng = random.Random(5)  # noqa: S311
    for _ in range(8):
        sql = statement(rng)
        wanted = connection.execute(sql)
        names = [one[0] for one in wanted.description]
        rows = [[plain(one) for one in line] for line in wanted.fetchall()]
        found = session.query(sql, rho=10**6).to_frame(cut=False)[names]
        assert [[plain(one) for one in line] for line in found.itertuples(index=False)] == rows, sql


def test_it_is_one_request_with_one_bill(table, tmp_path):
    path = tmp_path / "sets.ledger"
    with dpnb.Session(table, budget=dpnb.Budget(rho=1), ledger=path) as session:
        price = session.price(ROLLUP, rho=0.3)
        first = session.query(ROLLUP, rho=0.3)
        assert price.spent == first.spent == session.budget.spent
        assert float(first.spent.rho) == pytest.approx(0.3)
        assert len(session.history) == 1
        assert "All 13 confidence intervals hold at once" in repr(first)
        # each set is a statement that was asked, too
        alone = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
        assert session.query(alone, rho=0.1).spent.rho == 0
        assert session.query(alone, rho=0.1).estimates[0].estimate == first.estimates[0].estimate[8:12]  # fmt: skip
    with dpnb.Session(table, ledger=path) as session:
        again = session.query(f"{ROLLUP} ORDER BY GROUPING(region), SUM(1) LIMIT 1", rho=0.3)
        assert again.stored
        assert again.estimates == first.estimates
        assert (again.keys, len(again.rows)) == (("region", "kind"), 1)
    assert Answer.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    assert first._repr_html_()
    assert "| all | all |" in first.to_markdown()


def test_a_set_that_is_there_twice_is_released_once(opened):
    """Its lines are equal, so nobody averages their noise."""
    session = opened()
    twice = "SELECT region, COUNT(*) AS n FROM people GROUP BY GROUPING SETS (region, region)"
    found = session.query(twice, rho=0.2)
    assert float(found.spent.rho) == pytest.approx(0.2)
    assert found.estimates[0].estimate[:4] == found.estimates[0].estimate[4:]
    assert session.query(twice.replace("region, region", "region"), rho=0.2).spent.rho == 0
    with pytest.raises(dpnb.DpnbError, match="several groups 'north'"):
        found.compare("north", "south")


def test_groups_of_different_sets_can_be_compared(opened):
    session = opened()
    found = session.query(ROLLUP, rho=1)
    assert found.compare(("all", "all"), ("north", "all")).valid
    question = found.compare(("north", "all"), ("south", "all"))
    refused = [
        (lambda: session.explain(question, rho=1, anyway=True), "an answer to several statements"),
        (lambda: session.infer(ROLLUP), "only a query combines statements"),
        (lambda: session.decide(f"{ROLLUP} HAVING COUNT(*) > 9"), "only a query combines"),
        (lambda: session.query(ROLLUP, error={"n": 3}), "one number"),
    ]
    for ask, what in refused:
        with pytest.raises(dpnb.DpnbError, match=what):
            ask()


def test_the_mark_is_the_label_of_no_group(frame, opened):
    """Else the total and a group could not be told apart."""
    schema = dpnb.Schema(
        {"region": dpnb.Category(["ALL", "(all)", "north", "((all))"], other="((all))"), "kind": dpnb.Category(["old", "new"])}
    )  # fmt: skip
    session = opened(dpnb.Table("people", frame, schema))
    found = session.query("SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (region)", rho=1)
    assert [group for (group,) in found.groups] == ["ALL", "(all)", "north", "((all))", "(((all)))"]
    constant = "SELECT 'all' AS part, kind, COUNT(*) FROM people GROUP BY ROLLUP (kind)"
    assert session.query(constant, rho=1).groups[-1] == ("all", "(all)")


def test_a_set_that_having_excludes_is_not_paid(opened):
    """Its condition on sets alone is public."""
    session = opened()
    totals = session.query(f"{ROLLUP} HAVING GROUPING(region) = 1", rho=0.3)
    assert (totals.groups, len(totals.branches)) == ((("all", "all"),), 1)
    parts = f"{ROLLUP} HAVING GROUPING(kind) = 0"
    whole = session.query(parts, rho=0.3)
    assert not whole.branches
    assert session.query("SELECT region, kind, COUNT(*) AS n FROM people GROUP BY ALL", rho=0.3).spent.rho == 0  # fmt: skip


def test_sets_multiply_as_in_sql(opened):
    session = opened(scale=0.0)
    sql = "SELECT kind, COUNT(*) AS n FROM people GROUP BY ROLLUP (kind), ROLLUP (kind)"
    assert [group for (group,) in session.query(sql, rho=1).groups] == [*["old", "new"] * 3, "all"]
    listed = ", ".join(f"ROLLUP ({key})" for key in itertools.repeat("kind", 5))
    with pytest.raises(dpnb.DpnbError, match="32 sets of keys, more than 20"):
        session.price(f"SELECT COUNT(*) FROM people GROUP BY {listed}", rho=1)


def test_a_key_has_one_name_whichever_set_comes_first(opened):
    session = opened()
    asked = (
        "SELECT score // 4, COUNT(*) AS n FROM (SELECT * FROM people) GROUP BY GROUPING SETS ({})"
    )
    names = {session.query(asked.format(sets), rho=1).keys for sets in ("(), (1)", "(1), ()")}
    assert names == {("score // 4",)}
