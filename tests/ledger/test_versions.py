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
from dpnb.errors import LedgerError, RequestError
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
NEWEST = {"values": 2, "ids": 2, "last": []}


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


class TestTables:
    def test_a_table_changes_with_those_that_it_looks_up_through_others(self, tmp_path):
        def shop(name: str, other: Any = None, **options: Any) -> dpnb.Curator:
            codes = Integer(0, 3)
            places = pd.DataFrame({"town": [0, 1], "land": ["x", name]}) if other is None else other
            tables = [
                Table("t", FRAME, Schema({"m": Integer(0, 99)}), Unit("id", max_rows=2)),
                Table("p", pd.DataFrame({"m": [7, 14], "town": [0, 1]}), Schema({"m": Integer(0, 99), "town": codes}),
                      public=True, key="m"),
                Table("q", places, Schema({"town": codes, "land": SCHEMA["a"]}), public=True, key="town"),
            ]  # fmt: skip
            return opened(tmp_path / "l", *tables, **options)

        sql = "SELECT land, COUNT(*) AS n FROM t, p, q WHERE t.m = p.m AND p.town = q.town GROUP BY land"

        def ask(curator: dpnb.Curator) -> list[int]:
            with closing(curator):
                return [int(n) for n in curator.session().query(sql, rho=1).to_frame()["n"]]

        assert ask(shop("y")) == [40, 40]
        assert ask(shop("y")) == [40, 40]
        with pytest.raises(LedgerError, match="has other data in the ledger"):
            shop("x")
        assert ask(shop("x", new_version=True)) == [80, 0]
        versions = [
            (entry["definition"]["name"], entry["version"]) for entry in entries(tmp_path / "l")
        ]
        assert versions == [("t", 1), ("p", 1), ("q", 1), ("t", 2), ("p", 2), ("q", 2)]


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
        assert [entry["rules"] for entry in entries(ledger)] == [{"t": NEWEST}]

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

    def test_columns_in_another_order_are_another_schema(self, tmp_path):
        """A file's fingerprint and its columns are the same, but other rows would be kept."""
        FRAME.to_parquet(tmp_path / "t.parquet")
        unit = Unit("id", max_rows=1)
        mixed = Schema({name: SCHEMA[name] for name in reversed([*SCHEMA])})
        tables = [Table("t", tmp_path / "t.parquet", schema, unit) for schema in (SCHEMA, mixed)]
        with closing(opened(tmp_path / "l", tables[0])) as curator:
            found, spent = [count(curator, "x")], curator.budget.spent.rho
        with pytest.raises(LedgerError, match="has another schema in the ledger"):
            opened(tmp_path / "l", tables[1])
        with closing(opened(tmp_path / "l", tables[0])) as curator:
            found.append(count(curator, "y"))
            assert curator.budget.spent.rho == spent
        assert sum(found) == IDS
        with closing(opened(tmp_path / "l", tables[1], new_version=True)) as curator:
            assert count(curator, "x") != found[0]
            assert curator.budget.spent.rho == 2 * spent
        # rows of a file that are protected one by one have no order
        for number, schema in enumerate((SCHEMA, mixed)):
            table = Table("t", tmp_path / "t.parquet", schema)
            options = {} if number else {"budget": dpnb.Budget(rho=1)}
            dpnb.Curator(table, ledger=tmp_path / "rows", **options).close()

    def test_tables_of_rows_have_no_order(self, tmp_path):
        with closing(opened(tmp_path / "l", unit=False)) as curator:
            curator.limit(column="m", rho=0)
        opened(tmp_path / "l", unit=False, new_version=True).close()
        assert [entry["rules"] for entry in entries(tmp_path / "l")] == [{"t": NEWEST}]


class TestRules:
    @pytest.fixture
    def newer(self, monkeypatch):
        """A newer rule for the values of a type, or for ids."""

        def change(what: str, held: str, number: int = 3) -> None:
            def rule(of: Any, type_: str) -> int:
                return number if type_ == held else 1

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
        assert found == [NEWEST, {**NEWEST, what: 3}]
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
        newer("ids", "pandas int64", number=2)
        with pytest.raises(LedgerError, match="earlier rule"):
            opened(tmp_path / "l")
        assert len(entries(tmp_path / "l")) == 1

    @pytest.mark.parametrize(
        ("type_", "goes_on"),
        [("int64", True), ("Int64", True), ("parquet", True), ("string", False), ("object", False),
         ("csv", False), ("parquet of floats", False)],
    )  # fmt: skip
    def test_ids_that_the_newest_rule_reads_differently_need_a_new_version(
        self, type_, goes_on, monkeypatch, tmp_path
    ):
        kind, _, floats = type_.partition(" of ")
        source: Any = FRAME.astype({"id": float}) if floats else FRAME
        if kind in ("parquet", "csv"):
            path = tmp_path / f"t.{kind}"
            source.to_parquet(path) if kind == "parquet" else source.to_csv(path, index=False)
            source = path
        else:
            source = source.astype({"id": kind})
        table = Table("t", source, SCHEMA, Unit("id", max_rows=1))
        with monkeypatch.context() as patch:
            patch.setitem(rules._NEWEST, "ids", 1)
            patch.setattr(rules, "ids_rule", lambda unit, held: 1)
            opened(tmp_path / "l", table).close()
        if not goes_on:
            with pytest.raises(LedgerError, match="read by an earlier rule"):
                opened(tmp_path / "l", table)
        opened(tmp_path / "l", table, new_version=not goes_on).close()
        opened(tmp_path / "l", table).close()
        assert [entry["version"] for entry in entries(tmp_path / "l")] == [1, 2][: 2 - goes_on]

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
            "values": 3,
            "ids": 2,
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


CITY = Schema(
    {"a": Category(["x", "y"]), "m": Integer(0, 99, bins=[0, 50, 99]), "k": Integer(0, 9)},
    undeclared=["city"],
)


class TestWhatAnOwnerLimitsOrProtects:
    """Neither a limit nor a protected claim ends in silence, because a column has another name."""

    def curator(self, ledger: Path, schema: Schema = CITY, **options: Any) -> dpnb.Curator:
        names = (*schema, *schema.undeclared)
        frame = pd.DataFrame({name: ["x"] if name == "a" else [1] for name in names})
        table = Table("t", frame, schema)
        return opened(ledger, table, **options)

    def changed(self, undeclared: tuple[str, ...] = ("city",), **columns: Any) -> Schema:
        """The schema with columns declared in another way, or without those that are None."""
        kinds = {**CITY, **columns}
        return Schema({n: kind for n, kind in kinds.items() if kind}, undeclared=undeclared)

    @pytest.mark.parametrize("limited", ["m", "city", ["m", "k"]])
    @pytest.mark.parametrize("analysts", [None, {"alice": 1}])
    def test_a_limit_on_a_column_that_is_gone_is_named(self, limited, analysts, tmp_path):
        gone = "city" if limited == "city" else "m"
        with closing(self.curator(tmp_path / "l", analysts=analysts)) as curator:
            who = None if analysts is None else "alice"
            curator.limit(who, column=limited, rho=0)
            curator.limit(column="a", rho=1)
        versions = [
            self.changed(undeclared=()) if gone == "city" else self.changed(m=None),
            self.changed(undeclared=("town",))
            if gone == "city"
            else self.changed(m=None, n=CITY["m"]),
            self.changed(undeclared=("City",))
            if gone == "city"
            else self.changed(m=None, M=CITY["m"]),
        ]
        for schema in versions:
            with pytest.raises(
                LedgerError, match=f"table 't' no longer declares '{gone}' as before"
            ) as error:
                self.curator(tmp_path / "l", schema, new_version=True)
            assert f"lift=['{gone}']" in error.value.hint
        # what it says first: with its name, everything may change
        self.curator(tmp_path / "l", self.changed(k=Integer(0, 8)), new_version=True).close()
        with closing(
            self.curator(tmp_path / "l", versions[1], new_version=True, lift=[gone])
        ) as curator:
            rules = [rule.text for rule in curator.provenance.rules if rule.kind == "limit"]
        # and it is known to whoever opens the ledger later
        with closing(self.curator(tmp_path / "l", versions[1])) as curator:
            assert [rule.text for rule in curator.provenance.rules if rule.kind == "limit"] == rules
        assert len(rules) == (2 if limited == ["m", "k"] else 1)
        assert any("of t.a may" in text for text in rules)
        assert any("rho 0 of t.k may" in text for text in rules) == (limited == ["m", "k"])
        # nothing is left to end
        self.curator(tmp_path / "l", CITY, new_version=True).close()

    def test_of_two_limits_that_become_one_the_smaller_stays(self, tmp_path):
        with closing(self.curator(tmp_path / "l")) as curator:
            curator.limit(column="k", rho=1)
            curator.limit(column=["m", "k"], rho=2)
        with closing(
            self.curator(tmp_path / "l", self.changed(m=None), new_version=True, lift=["m", "a"])
        ) as curator:
            (text,) = [rule.text for rule in curator.provenance.rules if rule.kind == "limit"]
        assert "rho 1" in text

    @pytest.mark.parametrize(
        "kinds",
        [
            {"a": None},
            {"m": None, "M": CITY["m"]},
            {"a": Category(["y", "x"])},
            {"a": Category(["x", "y", "z"])},
            {"m": Integer(0, 100, bins=[0, 50, 100])},
        ],
    )
    def test_a_claim_that_would_mean_something_else_is_named(self, kinds, tmp_path):
        with closing(self.curator(tmp_path / "l")) as curator:
            curator.protect("SELECT SUM(m) AS s FROM t WHERE a = 'x' AND m > 40", ">", 40)
            curator.protect("SELECT COUNT(*) AS s FROM t WHERE k = 1", ">", 40, name="of k")
        schema, gone = self.changed(**kinds), next(iter(kinds))
        with pytest.raises(LedgerError, match=f"a protected claim .* no longer declares '{gone}'"):
            self.curator(tmp_path / "l", schema, new_version=True)
        self.curator(
            tmp_path / "l", self.changed(m=Integer(0, 99), k=CITY["k"]), new_version=True
        ).close()
        with closing(
            self.curator(tmp_path / "l", schema, new_version=True, lift=[gone])
        ) as curator:
            (claim,) = [rule.text for rule in curator.provenance.rules if rule.kind == "claim"]
            assert "(of k)" in claim

    def test_what_to_lift_is_a_list_of_names(self, tmp_path):
        for wrong in ("m", [1], None):
            with pytest.raises(RequestError, match="lift must be a list of columns"):
                self.curator(tmp_path / "l", lift=wrong)

    def test_the_choice_of_a_table_is_named(self, tmp_path):
        other = Table("other", FRAME[["m"]], Schema({"m": Integer(0, 99)}))
        third = Table("third", FRAME[["id"]], Schema({"id": Integer(0, 99)}))
        with closing(opened(tmp_path / "l", Table("t", FRAME, SCHEMA), other, third)) as curator:
            for columns, names in [
                ("m", ["t", "other"]),
                (["m", "a"], ["t"]),
                ("z", ["t", "other", "third"]),
            ]:
                with pytest.raises(RequestError, match="there are several tables") as error:
                    curator.limit(column=columns, rho=0)
                choices = " or ".join(f"table={name!r}" for name in names)
                assert error.value.hint == f"Write {choices}."
            curator.limit(column="m", table="other", rho=0)
            with pytest.raises(RequestError, match="there are several tables"):
                curator.add_view(["m"])

    def test_the_card_says_what_still_depends_on_a_limited_column(self, tmp_path):
        schema = Schema({"a": Category(["x", "y"]), "m": Integer(0, 99)}, complete=["m"])
        ids, rows = Table("t", FRAME, schema, Unit("id", max_rows=1)), Table("r", FRAME, SCHEMA)

        def sentences(curator: dpnb.Curator) -> list[str]:
            texts = [rule.text for rule in curator.provenance.rules if rule.kind == "limit"]
            return sorted(text.partition("together.")[2].strip() for text in texts)

        with closing(opened(tmp_path / "l", ids, rows)) as curator:
            curator.limit(column="m", table="r", rho=0)
            assert sentences(curator) == [""]
            curator.limit(column="m", table="t", rho=0)
            missing = (
                "Rows without a value in m are left out of t, so every number depends on that."
            )
            assert sentences(curator)[1] == (
                f"{missing} Which rows of one id are kept depends on m until t is opened with "
                "new_version=True."
            )
        with closing(opened(tmp_path / "l", ids, rows, new_version=True)) as curator:
            assert sentences(curator)[1] == missing
            curator.limit(column="a", table="t", rho=0)
        with closing(opened(tmp_path / "l", ids, rows, new_version=True)) as curator:
            other = "which has a limit of its own, may depend on"
            assert sentences(curator)[1:] == [
                f"Numbers that use m, {other} a by which rows are kept.",
                f"{missing} Numbers that use a, {other} m by which rows are kept.",
            ]
            assert "until t is opened" not in repr(curator.provenance)


def test_how_an_undeclared_text_is_read_matters_only_for_the_rows_of_ids():
    """No statement selects rows by it, and a search for values is charged for every row."""
    schema = Schema({"k": Integer(0, 9)}, undeclared=["city"])
    types = {"k": "pandas int64", "city": "csv", "id": "pandas int64"}
    rows, ids = Table("t", None, schema), Table("t", None, schema, Unit("id", max_rows=1))
    assert rules.rule_of(rows, types)["values"] == (1, 2)
    assert rules.rule_of(ids, types)["values"] == (2, 2)
