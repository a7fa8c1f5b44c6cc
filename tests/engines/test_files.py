"""Tables of several Parquet files: folders, patterns and lists; each row counts once, whatever its file."""

from __future__ import annotations

import decimal
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpnb
from dpnb import Budget, Category, Date, Integer, Real, Schema, Session, Table, Unit
from dpnb.engines.files import several_files
from dpnb.errors import ChangedDataError, LedgerError, SchemaError
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401

SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "age": Integer(0, 99, bins=[0, 49, 99]),
        "wage": Real(0, 100),
        "day": Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]),
    }
)
SQL = "SELECT sex, COUNT(*) AS n, SUM(age) AS s, SUM(wage) AS w FROM t WHERE age > 9 GROUP BY sex"


def rows(seed=0, count=300):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": generator.choice(["F", "M"], count),
            "age": generator.integers(0, 120, count),
            "wage": generator.uniform(-5, 105, count).round(2),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(count), unit="D"),
            "id": np.arange(count) // 3,
        }
    )


def numbers(source, sql=SQL, schema=SCHEMA, unit=None, **more):
    """Nearly exact numbers."""
    with Session(Table("t", source, schema, unit, **more), budget=Budget(rho=1e9)) as session:
        frame = session.query(sql, rho=1e6).to_frame()
    return [
        [round(value) if isinstance(value, float) else value for value in line]
        for line in frame[[c for c in frame if not c.endswith(("_low", "_high"))]].to_numpy()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files with the same columns, one of them in a folder below."""
    home = tmp_path_factory.mktemp("table")
    (home / "more").mkdir()
    for i, name in enumerate(["a", "b", "more/c"]):
        rows(i).to_parquet(home / f"{name}.parquet")
    # what programs leave in such folders
    (home / "_SUCCESS").touch()
    (home / "_temporary").mkdir()
    shutil.copy(home / "a.parquet", home / "_temporary" / "x.parquet")
    shutil.copy(home / "a.parquet", home / ".a.parquet")
    return home


@pytest.fixture(scope="module")
def expected():
    return numbers(pd.concat([rows(i) for i in range(3)], ignore_index=True))


class TestSources:
    @pytest.mark.parametrize("kind", ["folder", "text", "pattern", "list", "reversed", "toml"])
    def test_all_their_rows_are_one_table(self, folder, expected, kind, tmp_path):
        paths = [folder / "a.parquet", folder / "b.parquet", folder / "more" / "c.parquet"]
        if kind == "toml":
            text = Schema(SCHEMA).to_toml()
            relative = [os.path.relpath(path, tmp_path) for path in paths]
            (tmp_path / "t.toml").write_text(f"source = {relative}\n{text}")
            table = Table.load(tmp_path / "t.toml")
            with Session(table, budget=Budget(rho=1e9)) as session:
                assert round(session.query(SQL, rho=1e6).to_frame().n.sum()) == sum(
                    line[1] for line in expected
                )
            return
        source = {
            "folder": folder, "text": str(folder), "pattern": f"{folder}/**/[a-c].parquet",
            "list": paths, "reversed": [str(path) for path in reversed(paths)],
        }[kind]  # fmt: skip
        assert numbers(source) == expected

    @pytest.mark.parametrize("memory", [None, 0.000001, 100])
    def test_in_place_or_in_memory(self, folder, expected, memory):
        assert numbers(folder, memory_mb=memory) == expected

    def test_with_complete_columns_in_place(self, folder):
        schema = Schema(SCHEMA, complete=["day", "sex"])
        whole = pd.concat([rows(i) for i in range(3)], ignore_index=True)
        assert numbers(folder, schema=schema, memory_mb=0.000001) == numbers(whole, schema=schema)

    def test_the_rows_of_a_person_in_several_files_are_bounded_together(self, folder):
        sql = "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM t"
        assert numbers(folder, sql, unit=Unit("id", max_rows=2)) == [[200, 100]]

    def test_texts_that_are_not_unicode_are_missing_in_each(self, tmp_path):
        for i in range(3):
            texts = pa.array([b"F", b"M", b"\xff"], pa.binary()).view(pa.string())
            table = pa.table({"sex": texts, "age": [1, 2, 3 + i]})
            pq.write_table(table, tmp_path / f"{i}.parquet")
        schema = Schema({"sex": Category(["F", "M"]), "age": Integer(0, 9)})
        sql = "SELECT sex, COUNT(*) AS n, SUM(age) AS s FROM t GROUP BY sex"
        assert numbers(tmp_path, sql, schema) == [["F", 3, 3], ["M", 3, 6]]


class TestTypes:
    """Each file's values are read by their own types."""

    def test_a_column_in_different_types(self, tmp_path):
        for i, column in enumerate(
            [
                pa.array([1, 2, None]), pa.array([1.0, 2.5, None]), pa.array(["1", "02", "x"]),
                pa.array([True, False, None]), pa.array([1, 2, 3], pa.float32()),
                pa.array([1, 2, 3], pa.decimal128(5, 2)),
            ]
        ):  # fmt: skip
            pq.write_table(pa.table({"x": column}), tmp_path / f"{i}.parquet")
        schema = Schema({"x": Integer(0, 9)})
        sql = "SELECT COUNT(x) AS n, SUM(x) AS s FROM t"
        assert numbers(tmp_path, sql, schema) == [[14, 3 + 4 + 3 + 1 + 6 + 6]]

    def test_decimals_of_different_lengths(self, tmp_path):
        """One of them that is too long for the first file neither fails nor is rounded."""
        for name, value, length in (("a", "0.12", (5, 2)), ("b", "98765.4321", (12, 4))):
            column = pa.array([decimal.Decimal(value)], pa.decimal128(*length))
            pq.write_table(pa.table({"x": column}), tmp_path / f"{name}.parquet")
        schema = Schema({"x": Real(0, 1e6)})
        sql = "SELECT COUNT(*) AS n FROM t WHERE x = 98765.4321 OR x = 0.12"
        assert numbers(tmp_path, sql, schema) == [[2]]

    def test_days_in_different_types(self, tmp_path):
        for i, column in enumerate(
            [
                pa.array(["2024-05-01"]),
                pa.array([pd.Timestamp("2024-05-01 11:00")], pa.timestamp("us")),
                pa.array([pd.Timestamp("2024-05-01").date()]),
            ]
        ):
            pq.write_table(pa.table({"day": column}), tmp_path / f"{i}.parquet")
        schema = Schema({"day": SCHEMA["day"]})
        assert numbers(
            tmp_path, "SELECT COUNT(*) AS n FROM t WHERE day = '2024-05-01'", schema
        ) == [[3]]

    def test_a_column_that_one_file_lacks(self, folder, tmp_path):
        shutil.copy(folder / "a.parquet", tmp_path / "a.parquet")
        rows().drop(columns="wage").to_parquet(tmp_path / "b.parquet")
        with pytest.raises(SchemaError, match="one of the files has no column 'wage'") as refusal:
            numbers(tmp_path)
        assert refusal.value.where == "b.parquet"

    def test_columns_in_another_order_and_case(self, tmp_path):
        rows(0).to_parquet(tmp_path / "a.parquet")
        rows(1)[["wage", "day", "age", "sex"]].to_parquet(tmp_path / "b.parquet")
        whole = pd.concat([rows(0), rows(1)], ignore_index=True)
        assert numbers(tmp_path) == numbers(whole)
        rows(1).rename(columns={"age": "AGE"}).to_parquet(tmp_path / "b.parquet")
        assert numbers(tmp_path) == numbers(whole)


class TestKeys:
    """A key in the paths is a column like any other."""

    @pytest.fixture
    def partitioned(self, tmp_path):
        for year, seed in ((2023, 0), (2024, 1), ("__HIVE_DEFAULT_PARTITION__", 2)):
            home = tmp_path / f"year={year}" / "place=New%20York"
            home.mkdir(parents=True)
            rows(seed).to_parquet(home / "part-0.parquet")
        return tmp_path

    SCHEMA = Schema(
        {**SCHEMA, "year": Integer(2020, 2025), "place": Category(["New York", "Bern"])}
    )

    def test_it_has_a_value_in_each_row(self, partitioned):
        sql = "SELECT year, place, COUNT(*) AS n FROM t GROUP BY year, place"
        found = [line for line in numbers(partitioned, sql, self.SCHEMA) if line[2]]
        assert found == [[2023, "New York", 300], [2024, "New York", 300]]
        assert numbers(partitioned, "SELECT COUNT(*) AS n FROM t", self.SCHEMA) == [[900]]

    def test_conditions_on_it_and_other_columns(self, partitioned, expected):
        sql = SQL.replace("age > 9", "age > 9 AND year = 2024")
        assert numbers(partitioned, sql, self.SCHEMA) == numbers(rows(1))
        assert numbers(partitioned, SQL, self.SCHEMA) == numbers(partitioned) == expected

    def test_the_id_of_persons_cannot_be_one(self, partitioned):
        with pytest.raises(
            SchemaError, match="'year' is a key in the paths of the files"
        ) as refusal:
            numbers(partitioned, "SELECT COUNT(*) AS n FROM t", unit=Unit("year", max_rows=3))
        assert "Paths are public." in refusal.value.hint

    def test_a_column_of_that_name_is_refused(self, partitioned):
        path = partitioned / "year=2023" / "place=New%20York" / "part-0.parquet"
        rows().assign(year=1).to_parquet(path)
        with pytest.raises(SchemaError, match="both a column and a key"):
            numbers([path], schema=self.SCHEMA)

    def test_different_keys_are_refused(self, partitioned):
        rows().to_parquet(partitioned / "x.parquet")
        with pytest.raises(SchemaError, match="different keys"):
            numbers(partitioned)


class TestTwice:
    """A file that is read twice would let each row count twice, for four times the privacy loss."""

    @pytest.mark.parametrize(
        "way", ["list", "spelling", "link", "hard link", "folder", "case of both"]
    )
    def test_the_same_file_is_refused(self, folder, tmp_path, way):
        home = tmp_path / "h"
        shutil.copytree(folder, home)
        a = home / "a.parquet"
        if way == "link":
            (home / "z.parquet").symlink_to(a)
        elif way == "hard link":
            (home / "z.parquet").hardlink_to(a)
        source = {
            "list": [a, a], "spelling": [a, home / "more" / ".." / "a.parquet"],
            "folder": [home, a], "case of both": [f"{home}/*.parquet", home],
        }.get(way, home)  # fmt: skip
        with pytest.raises(SchemaError, match="a file occurs twice") as refusal:
            numbers(source)
        assert refusal.value.hint == "Name it once: its rows would count twice."


class TestChanges:
    def opened(self, folder, ledger, **more):
        return Session(Table("t", folder, SCHEMA), budget=Budget(rho=1), ledger=ledger, **more)

    def test_a_changed_file_is_refused_at_no_cost(self, folder, tmp_path):
        home = tmp_path / "h"
        shutil.copytree(folder, home)
        with self.opened(home, None) as session:
            rows(9).to_parquet(home / "more" / "c.parquet")
            with pytest.raises(ChangedDataError, match="one of the table's files has changed"):
                session.query(SQL, rho=0.1)
            assert session.budget.spent.rho == 0

    @pytest.mark.parametrize("change", ["content", "one more", "one less", "renamed"])
    def test_other_files_are_other_data(self, folder, tmp_path, change):
        home = tmp_path / "h"
        shutil.copytree(folder, home)
        self.opened(home, tmp_path / "l").close()
        # elsewhere, the same files are the same data
        moved = home.rename(tmp_path / "elsewhere")
        self.opened(moved, tmp_path / "l").close()
        if change == "content":
            rows(9).to_parquet(moved / "a.parquet")
        elif change == "one more":
            rows(9).to_parquet(moved / "d.parquet")
        elif change == "one less":
            (moved / "b.parquet").unlink()
        else:
            (moved / "b.parquet").rename(moved / "d.parquet")
        with pytest.raises(LedgerError, match="has other data in the ledger"):
            self.opened(moved, tmp_path / "l")
        self.opened(moved, tmp_path / "l", new_version=True).close()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([], "there is no Parquet file"),
        (["nowhere.parquet"], "there is no such file"),
        (["a.csv"], "must all be .parquet files"),
        (["a.parquet", 3], "must hold paths"),
        (["a.parquet", "s3://b/c.parquet"], "must hold paths"),
        ("*.nothing", "there is no Parquet file"),
        ("empty", "there is no Parquet file"),
    ],
)
def test_what_is_no_list_of_files_is_refused(source, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows().to_parquet("a.parquet")
    rows().to_csv("a.csv")
    Path("empty").mkdir()
    with pytest.raises(SchemaError, match=said) as refusal:
        numbers(source)
    assert refusal.value.hint


def test_they_are_drafted_too(folder):
    draft = dpnb.draft_schema(folder, "t")
    assert "[columns.age]" in draft
    assert f'source = "{folder}"' in draft
    assert several_files(folder).names == ("a.parquet", "b.parquet", "more/c.parquet")
