"""A column's limit bounds what any statement tells of it, whatever the statement looks like."""

from __future__ import annotations

import json
import re
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Budget, Category, Integer, Real, Schema, Table, Unit
from dpnb.errors import BudgetError
from tests.fuzz.features import SEED, choose
from tests.fuzz.run import Tables
from tests.fuzz.statements import statement
from tests.kit.inside import ask
from tests.kit.noise import ContinuousNoise

ROWS = 400
SHOPS = Table(
    "shops",
    pd.DataFrame({"shop": ["a", "b"], "size": [1, 2]}),
    Schema({"shop": Category(["a", "b"]), "size": Integer(1, 2)}),
    public=True,
    key="shop",
)
READ_AGE = [
    "SELECT age, COUNT(*) AS k FROM t GROUP BY age",
    "SELECT age, g, COUNT(*) AS k FROM t GROUP BY g, age",
    "SELECT SUM(age) AS s FROM t",
    "SELECT SUM(age * 1) AS s FROM t",
    "SELECT AVG(n + 0 * age) AS m FROM t",
    "SELECT g, AVG(age) AS m FROM t GROUP BY g",
    "SELECT COUNT(*) FILTER (WHERE age > 40) AS k FROM t",
    "SELECT COUNT(*) AS k FROM t WHERE age > 40",
    "SELECT COUNT(*) AS k FROM t WHERE NOT (g = 'a' AND age <= 40) OR n > 3",
    "SELECT SUM(CASE WHEN age > 40 THEN 1 ELSE 0 END) AS k FROM t",
    "SELECT SUM(CASE WHEN g = 'a' THEN n ELSE age END) AS k FROM t",
    "SELECT COUNT(*) - COUNT(*) FILTER (WHERE AGE IS NULL) AS k FROM t",
    "SELECT VARIANCE(age) AS v FROM t",
    "SELECT MEDIAN(age) AS q FROM t",
    "SELECT STDDEV(n) FILTER (WHERE age <> 30) AS c FROM t",
    "SELECT s.size, AVG(u.age) AS m FROM t u JOIN shops s ON u.shop = s.shop GROUP BY s.size",
]
OF_ALL = "SELECT SUM(CASE WHEN age > 30 OR age IS NULL THEN 1 ELSE 2 END) AS k FROM t"
"""Tells of every row, so it shares with none of the others."""
OTHERS = [
    "SELECT g, COUNT(*) AS k FROM t GROUP BY g",
    "SELECT SUM(n) AS s FROM t WHERE g = 'b'",
    "SELECT COUNT(*) AS age FROM t",
    "SELECT s.size, COUNT(*) AS k FROM t JOIN shops s ON t.shop = s.shop GROUP BY s.size",
]
READ_SIZE = [
    OTHERS[-1],
    "SELECT COUNT(*) AS k FROM t JOIN shops s ON t.shop = s.shop WHERE s.size = 1",
]


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "id": np.arange(ROWS) // 2,
            "age": generator.integers(17, 91, ROWS),
            "n": generator.integers(0, 10, ROWS),
            "g": generator.choice(["a", "b"], ROWS),
            "shop": generator.choice(["a", "b"], ROWS),
            "city": generator.choice(["x", "y"], ROWS),
            "wage": generator.uniform(0, 100, ROWS),
        }
    )
    schema = Schema(
        {
            "age": Integer(17, 90, bins=[17, 40, 60, 90]), "n": Integer(0, 9),
            "g": Category(["a", "b"]), "shop": Category(["a", "b"]), "wage": Real(0, 100),
        },
        undeclared=["city"],
    )  # fmt: skip
    return Table("t", frame, schema, unit=Unit("id", max_rows=2))


@pytest.fixture
def curator(table):
    budget = Budget(rho=4, delta=1e-6, key_delta=1e-7)
    with_limits = dpnb.Curator(
        [table, SHOPS], budget=budget, analysts={"ann": 2, "bob": 2}, noise=ContinuousNoise(1)
    )
    yield with_limits
    with_limits.close()


def spent(curator):
    return curator._runner.store.accountant.spent


@pytest.mark.parametrize("sql", READ_AGE)
def test_every_way_to_read_it_is_bounded(sql, curator):
    curator.limit(column="age", table="t", rho=0.001)
    session = curator.session("ann")
    with pytest.raises(BudgetError) as refused:
        session.query(sql, rho=0.02)
    assert str(refused.value).startswith("budget exhausted")
    assert spent(curator).rho == 0
    session.query(sql, rho="0.0009")
    assert 0 < spent(curator).rho <= 0.001
    # the rest is too little for another one, whoever asks
    with pytest.raises(BudgetError):
        curator.session("bob").query(OF_ALL, rho="0.0009")


@pytest.mark.parametrize("sql", OTHERS)
def test_other_statements_are_free_of_it(sql, curator):
    curator.limit(column="age", table="t", rho=0.001)
    curator.session("ann").query(sql, rho=0.02)


@pytest.mark.parametrize("sql", READ_SIZE)
def test_a_column_is_read_through_a_join(sql, curator):
    curator.limit(column="size", table="shops", rho=0.001)
    with pytest.raises(BudgetError):
        curator.session("ann").query(sql, rho=0.02)
    # by which it is looked up
    curator.limit(column="size", table="shops", rho=1)
    curator.limit(column="shop", table="t", rho=0.001)
    with pytest.raises(BudgetError):
        curator.session("ann").query(sql, rho=0.02)


def test_explanations_decisions_and_discoveries_count(curator):
    session = curator.session("ann")
    asked = session.query("SELECT g, AVG(n) AS m FROM t GROUP BY g", rho=0.5)
    having = "SELECT g FROM t GROUP BY g HAVING SUM(age) > 9000"
    requests = {
        "age": [
            lambda: session.explain(asked.compare("a", "b"), k=1, rho=0.02, anyway=True),
            lambda: session.decide(having, u=200),
            lambda: session.decide(having, mode="rr", beta=0.05),
        ],
        "city": [lambda: session.discover("city", table="t", rho=0.02)],
    }
    for column, tried in requests.items():
        before = spent(curator)
        curator.limit(column=column, table="t", rho="1e-6")
        for one in tried:
            with pytest.raises(BudgetError):
                one()
        assert spent(curator) == before
        curator.limit(column=column, table="t", rho=3)
        tried[-1]()


def test_one_analyst_and_several_columns(curator):
    curator.limit("ann", column=["age", "wage"], table="t", rho="0.001")
    ann, bob = curator.session("ann"), curator.session("bob")
    ann.query("SELECT SUM(wage) AS s FROM t", rho="0.0006")
    with pytest.raises(BudgetError):
        ann.query("SELECT SUM(age) AS s FROM t", rho="0.0006")
    bob.query("SELECT SUM(age) AS s FROM t", rho="0.1")
    # refining pays the increase, and what is held is free
    ann.query("SELECT SUM(wage) AS s FROM t", rho="0.001")
    assert ann.query("SELECT SUM(wage) AS s FROM t", rho="0.0006").spent.rho == 0
    with pytest.raises(BudgetError):
        ann.query("SELECT SUM(wage) AS s FROM t", rho="0.0011")


def test_disjoint_groups_share_it(curator):
    curator.limit(column="age", table="t", rho="0.001")
    session = curator.session("ann")
    for group in "ab":
        session.query(f"SELECT SUM(age) AS s FROM t WHERE g = '{group}'", rho="0.0008")
    with pytest.raises(BudgetError):
        session.query("SELECT SUM(age) AS s FROM t", rho="0.0008")


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=4), Budget(epsilon=4, delta=1e-6, accountant="gdp")]
)
def test_one_person_in_other_definitions_of_privacy(budget, table, tmp_path):
    path = tmp_path / "ledger"
    amount = {"epsilon": 0.01}
    with closing(dpnb.Curator([table], budget=budget, ledger=path)) as curator:
        curator.limit(column="age", **amount)
        with pytest.raises(BudgetError, match="a column's limit is reached"):
            curator.session().query(READ_AGE[4], epsilon=0.02)
        curator.session().query(READ_AGE[4], epsilon=0.009)
    # it is in the ledger
    with (
        closing(dpnb.Curator([table], ledger=path)) as curator,
        pytest.raises(BudgetError, match="a column's limit is reached"),
    ):
        curator.session().query(READ_AGE[0], epsilon=0.02)


def test_bad_limits_are_refused_and_change_nothing(curator):
    for column, table, word in (
        ("ages", "t", "Did you mean age"), ("age", None, "table is missing"), ([], "t", "must be a name"),
        (5, "t", "must be a name"), (["age", 5], "t", "no column"), ("age", "u", "no table"),
    ):  # fmt: skip
        with pytest.raises(dpnb.DpnbError, match=word):
            curator.limit(column=column, table=table, rho=0.1)
    with pytest.raises(
        dpnb.DpnbError, match="a limit is for an analyst, a column or a view, not for two of them"
    ):
        curator.limit(view="age", column="age", table="t", rho=0.1)
    with pytest.raises(dpnb.DpnbError, match="no analyst"):
        curator.limit("eve", column="age", table="t", rho=0.1)
    assert not curator._runner.store.provenance.columns


@pytest.mark.parametrize("world", ["plain", "sales"])
def test_no_generated_statement_finds_a_way_round(world):
    numbers = choose(SEED, world)["valid"].numbers[::15][:9]
    with closing(Tables(1, numbers[0])) as tables:
        curator = tables.curators[0]
        state, refused = curator._runner.store.accountant, 0
        asked = [(number, name) for number in numbers for name in curator.tables]
        for place, (number, name) in enumerate(asked):
            text = statement(1, number).text
            for turn, column in enumerate(curator.tables[name].schema):
                curator._runner.store.provenance.columns.clear()
                curator.limit(column=column, table=name, rho="1e-9")
                before = dict(state.synopses.finest)
                try:
                    # finer than all before, so that nothing is held
                    ask(curator, "analyst", "query", text, {"rho": 10**6 + 100 * place + turn})
                except BudgetError:
                    refused += 1
                    continue
                except dpnb.DpnbError:
                    break
                finer = [v for v, level in state.synopses.finest.items() if level != before.get(v)]
                assert not any(mentions(state.definitions[v], name, column) for v in finer), text
        assert refused > 20


def mentions(definition, table, column):
    """Whether a view's definition names a column of a table, by a plain search in its text."""
    text = json.dumps(definition, ensure_ascii=False)
    own = definition["table"] == table and json.dumps(column, ensure_ascii=False) in text
    return own or re.search(rf"{table}\[[^\]]*\]\.{re.escape(column)}\"", text) is not None
