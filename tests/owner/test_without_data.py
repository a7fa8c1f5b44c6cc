"""A ledger is administered without its data: everything but what needs rows."""

from __future__ import annotations

import pandas as pd
import pytest

import dpnb
from dpnb import Category, Curator, Date, Integer, Schema, Table, Unit
from dpnb.errors import EngineError, LedgerError
from tests.kit.inside import runner

pytestmark = pytest.mark.fast

SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "age": Integer(0, 100, bins=[0, 50, 100]),
        "day": Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]),
    }
)


def tables(path):
    rows = {"sex": ["F", "M"] * 20, "age": range(40), "day": [pd.Timestamp("2024-02-03")] * 40}
    ids = pd.DataFrame({**rows, "id": [i // 2 for i in range(40)]})
    ids.to_parquet(path)
    unit = Unit("id", max_rows=3)
    other = pd.DataFrame({"id": range(20), "x": [1] * 20})
    return [
        Table("people", path, SCHEMA, unit),
        Table("visits", other, Schema({"x": Integer(0, 9)}), unit),
    ]


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "people.parquet"
    curator = Curator(
        tables(path),
        budget=dpnb.Budget(epsilon=3, delta=1e-6),
        ledger=tmp_path / "l",
        analysts={"alice": 4, "bob": 1},
        views="attributes",
    )
    curator.session("alice").query(SQL, rho=0.01)
    curator.close()
    path.unlink()
    return tmp_path / "l"


def test_analysts_limits_and_reports_need_no_rows(ledger):
    owner = Curator.administer(ledger)
    assert sorted(owner.tables) == ["people", "visits"]
    assert owner.tables["people"].unit == Unit("id", max_rows=3)
    assert float(owner.budget.spent.rho) == 0.01
    owner.disable("bob")
    owner.add_analyst("carol", 2)
    owner.set_privilege("alice", 3)
    owner.limit(column="age", rho=0, table="people")
    owner.close()
    again = Curator.administer(ledger)
    assert {row.name: row.privilege for row in again.provenance.rows} == {
        "alice": 3, "bob": 1, "carol": 2,
    }  # fmt: skip
    assert {column.name for column in again.provenance.columns} >= {"people.sex", "people.age"}
    again.close()


def test_stored_answers_are_there_and_new_ones_are_refused_free(ledger):
    owner = Curator.administer(ledger)
    session = owner.session("alice")
    assert session.query(SQL, rho=0.01).stored
    asked = [
        lambda: session.query(SQL, rho=0.02),
        lambda: session.explain(session.query(SQL, rho=0.01).compare("F", "M"), anyway=True),
        lambda: owner.risk(SQL),
        runner(owner).check,
    ]
    for ask in asked:
        with pytest.raises(EngineError, match="without the data") as refusal:
            ask()
        assert refusal.value.hint == "Nothing was charged. Open it with its tables."
    assert float(owner.budget.spent.rho) == 0.01
    owner.close()


def test_its_versions_stay_and_the_data_can_come_back(ledger, tmp_path):
    owner = Curator.administer(ledger)
    owner.disable("bob")
    owner.close()
    curator = Curator(tables(tmp_path / "people.parquet"), ledger=ledger)
    assert curator.session("alice").query(SQL, rho=0.01).stored
    assert curator.session("alice").query(SQL, rho=0.02).spent.rho > 0
    curator.close()


def test_a_ledger_that_is_not_there_is_not_started(tmp_path):
    (tmp_path / "empty").touch()
    for name, said in (("nothing", "there is no such ledger"), ("empty", "has no entries")):
        with pytest.raises(LedgerError, match=said):
            Curator.administer(tmp_path / name)
    assert not (tmp_path / "nothing").exists()
