"""A version of a table is read by one rule for ever, and keeps the same rows of each id."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Table, Unit
from dpnb.engines import rules
from dpnb.errors import LedgerError
from dpnb.ledger.store import Store, Version
from tests.kit.ledgers import FileHome
from tests.kit.noise import NoNoise

IDS = 2_000
FRAME = pd.DataFrame(
    {
        "id": [i // 2 for i in range(2 * IDS)],
        "a": ["x", "y"] * IDS,
        "m": [i * 7 % 100 for i in range(2 * IDS)],
    }
)
SCHEMA = Schema({"a": Category(["x", "y"]), "m": Integer(0, 99)})
FIRST = {"values": 1, "ids": 1, "last": []}


def opened(ledger: Path, *tables: Table, unit: bool = True, **options: Any) -> dpnb.Curator:
    table = Table("t", FRAME, SCHEMA, Unit("id", max_rows=1) if unit else None)
    return dpnb.Curator(
        list(tables) or [table],
        budget=dpnb.Budget(rho=5),
        ledger=ledger,
        noise=NoNoise(),
        **options,
    )


def count(curator: dpnb.Curator, value: str) -> int:
    answer = curator.session().query(f"SELECT COUNT(*) AS n FROM t WHERE a = '{value}'", rho=1)
    return int(answer.to_frame()["n"].iloc[0])


def entries(ledger: Path) -> list[dict[str, Any]]:
    lines = FileHome(ledger).run("SELECT body FROM entry ORDER BY seq")
    return [entry for (body,) in lines if (entry := json.loads(body))["kind"] == "table"]


class TestOrder:
    def test_a_limit_set_later_does_not_change_which_rows_are_kept(self, tmp_path):
        """Else two answers that are charged as one would be about different rows of one person."""
        ledger = tmp_path / "l"
        with closing(opened(ledger)) as curator:
            found = [count(curator, "x")]
            spent = curator.budget.spent
            curator.limit(column="m", rho=0)
        with closing(opened(ledger)) as curator:
            found.append(count(curator, "y"))
            # disjoint regions: the second answer is free only because every row stayed
            assert curator.budget.spent == spent
        assert sum(found) == IDS
        assert min(found) > IDS / 3
        assert [entry["rules"] for entry in entries(ledger)] == [{"t": FIRST}]

    def test_the_next_version_has_it_last_and_is_charged_anew(self, tmp_path):
        ledger = tmp_path / "l"
        with closing(opened(ledger)) as curator:
            before = count(curator, "x")
            spent = curator.budget.spent.rho
            curator.limit(column="m", rho=0)
        for _ in range(2):
            # what comes last is fixed: opened again, it stays one version
            with closing(opened(ledger, new_version=True)) as curator:
                after = count(curator, "x")
                assert curator.budget.spent.rho == 2 * spent
        assert before != after
        last = [entry["rules"]["t"]["last"] for entry in entries(ledger)]
        assert last == [[], ["m"]]
        assert [entry["version"] for entry in entries(ledger)] == [1, 2]

    def test_tables_of_rows_have_no_order(self, tmp_path):
        with closing(opened(tmp_path / "l", unit=False)) as curator:
            curator.limit(column="m", rho=0)
        opened(tmp_path / "l", unit=False, new_version=True).close()
        assert [entry["rules"] for entry in entries(tmp_path / "l")] == [{"t": FIRST}]


class TestRules:
    @pytest.fixture
    def newer(self, monkeypatch):
        """A newer rule for the values of a type, or for ids."""

        def change(what: str, held: str) -> None:
            def rule(of: Any, type_: str) -> int:
                return 2 if type_ == held else 1

            monkeypatch.setattr(rules, f"{what}_rule", rule)

        return change

    @pytest.mark.parametrize(
        ("what", "held"), [("values", "pandas object"), ("ids", "pandas int64")]
    )
    def test_a_table_that_a_new_rule_touches_is_another_version(self, what, held, newer, tmp_path):
        frame = FRAME.astype({"a": object})
        table = Table("t", frame, SCHEMA, Unit("id", max_rows=1))
        with closing(opened(tmp_path / "l", table)) as curator:
            spent = curator.session().query("SELECT COUNT(*) AS n FROM t", rho=1).spent.rho
        newer(what, held)
        with pytest.raises(LedgerError, match="read by an earlier rule in the ledger") as refused:
            opened(tmp_path / "l", table)
        assert "new_version=True (what was spent is kept)" in refused.value.hint
        with closing(opened(tmp_path / "l", table, new_version=True)) as curator:
            assert curator.budget.spent.rho == spent
            curator.session().query("SELECT COUNT(*) AS n FROM t", rho=1)
            assert curator.budget.spent.rho == 2 * spent
        found = [entry["rules"]["t"] for entry in entries(tmp_path / "l")]
        assert found == [FIRST, {**FIRST, what: 2}]
        # and goes on in it
        opened(tmp_path / "l", table).close()

    def test_another_table_goes_on_in_its_version(self, newer, tmp_path):
        FRAME.to_parquet(tmp_path / "t.parquet")
        table = Table("t", tmp_path / "t.parquet", SCHEMA, Unit("id", max_rows=1))
        opened(tmp_path / "l", table).close()
        newer("values", "csv")
        opened(tmp_path / "l", table).close()
        FRAME.to_csv(tmp_path / "t.csv", index=False)
        newer("values", "VARCHAR")
        with pytest.raises(LedgerError, match="earlier rule"):
            opened(tmp_path / "l", table)

    def test_an_entry_without_rules_means_the_first_ones(self, newer, monkeypatch, tmp_path):
        found_by, entry_of = Store._found, Store._version_entry

        def older(*arguments: Any) -> dict[str, Any]:
            entry = entry_of(*arguments)
            del entry["rules"]
            return entry

        def nameless(*arguments: Any, **options: Any) -> list[Version]:
            return [replace(one, rules={}) for one in found_by(*arguments, **options)]

        with monkeypatch.context() as patch:
            patch.setattr(Store, "_version_entry", older)
            patch.setattr(Store, "_found", nameless)
            with closing(opened(tmp_path / "l")) as curator:
                found = [count(curator, "x")]
        with closing(opened(tmp_path / "l")) as curator:
            found.append(count(curator, "y"))
        assert sum(found) == IDS
        newer("ids", "pandas int64")
        with pytest.raises(LedgerError, match="earlier rule"):
            opened(tmp_path / "l")
        assert len(entries(tmp_path / "l")) == 1

    def test_a_table_changes_with_those_that_it_looks_up(self, newer, tmp_path):
        people = pd.DataFrame(
            {"id": range(IDS), "city": pd.Series(["A", "B"] * (IDS // 2), dtype=object)}
        )
        unit = Unit("id", max_rows=1)

        def tables() -> list[Table]:
            cities = Schema({"city": Category(["A", "B"])})
            return [
                Table(
                    "t",
                    FRAME[["id", "m"]],
                    Schema({"m": Integer(0, 99)}),
                    unit,
                ),
                Table("people", people, cities, unit),
                Table("other", FRAME[["m"]], Schema({"m": Integer(0, 99)})),
            ]

        opened(tmp_path / "l", *tables()).close()
        newer("values", "pandas object")
        with pytest.raises(LedgerError, match="rows of table 't' are read by an earlier rule"):
            opened(tmp_path / "l", *tables())
        with closing(opened(tmp_path / "l", *tables(), new_version=True)) as curator:
            curator.limit(column="city", table="people", rho=0)
        found = [entry["definition"]["name"] for entry in entries(tmp_path / "l")]
        assert found == ["t", "people", "other", "t", "people"]
        # so it does where only the order of their rows is another one
        opened(tmp_path / "l", *tables(), new_version=True).close()
        names = [entry["definition"]["name"] for entry in entries(tmp_path / "l")[5:]]
        assert names == ["t", "people"]
        assert entries(tmp_path / "l")[5]["rules"]["people"] == {
            "values": 2,
            "ids": 1,
            "last": ["city"],
        }

    def test_a_table_follows_a_version_that_was_opened_without_it(self, tmp_path):
        unit = Unit("id", max_rows=1)
        people = Table(
            "people", pd.DataFrame({"id": [1], "z": [1]}), Schema({"z": Integer(0, 9)}), unit
        )
        visits = Table("t", FRAME, SCHEMA, Unit("id", max_rows=3))
        with closing(opened(tmp_path / "l", people, visits)) as curator:
            curator.limit(column="z", table="people", rho=0)
        opened(tmp_path / "l", people, new_version=True).close()
        with pytest.raises(LedgerError, match="table 't'"):
            opened(tmp_path / "l", people, visits)
        opened(tmp_path / "l", people, visits, new_version=True).close()
        opened(tmp_path / "l", people, visits).close()
