"""One id per person: whatever way an id is spelled, and whatever door it comes through."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpnb import Integer, Schema, Table, Unit
from dpnb.engines import ids
from dpnb.engines.duckdb import DuckDBEngine
from tests.kit import ids as kit

SCHEMA = Schema({"n": Integer(0, 100_000)})


def held(source, unit=None, names="u, c0"):
    """What an engine keeps of a table of ids."""
    engine = DuckDBEngine(Table("t", source, SCHEMA, unit or Unit("id", max_rows=1_000)))
    try:
        return engine._connection.execute(f"SELECT {names} FROM rows ORDER BY c0").fetchall()
    finally:
        engine.close()


def people(source, **unit):
    """Positions of the rows of each person."""
    found = held(source, Unit("id", max_rows=1_000, **unit))
    return kit.people(
        range(len(source) if hasattr(source, "__len__") else 10_000), {n: u for u, n in found}.get
    )


class TestTexts:
    def test_the_rule_and_its_plain_evaluation_agree(self):
        found = people(kit.numbers_of(kit.SPELLINGS))
        assert found == kit.people(kit.SPELLINGS, kit.said)

    def test_what_is_one_person_and_what_is_not(self):
        places = iter(range(len(kit.SPELLINGS)))
        together = [[next(places) for _ in person] for person in kit.SAME]
        alone = [[next(places)] for _ in kit.ALONE]
        assert kit.people(kit.SPELLINGS, kit.said) == sorted([*together, *alone])

    def test_random_spellings(self):
        letters, draws = [*"0017.5+-eE {}af\u00a0"], np.random.default_rng(5)
        spellings = ["".join(draws.choice(letters, size)) for size in draws.integers(0, 10, 20_000)]
        assert people(kit.numbers_of(spellings)) == kit.people(spellings, kit.said)

    def test_what_is_missing_is_what_pandas_takes_for_missing(self):
        from pandas._libs.parsers import STR_NA_VALUES

        assert set(ids.MISSING) == STR_NA_VALUES == set(kit.MARKS)

    def test_a_table_may_say_that_its_ids_are_texts(self):
        found = people(kit.numbers_of(kit.SPELLINGS), kind="text")
        assert found == kit.people(kit.SPELLINGS, kit.plain)


class Odd:
    def __str__(self):
        raise ValueError("a secret")


def small():
    """Ids as pandas reads them from a file, each of one person."""
    return [1, 2, -3, 0, 7, 10**15, BIG - 1, 1 - BIG]


BIG = kit.BIG
# one more row, after which pandas gives the column another type
MORE = {
    "missing": None, "NaN": math.nan, "NA": pd.NA, "text": "x", "half": 7.5, "infinite": -math.inf,
    "large": 2**70, "beyond": BIG, "decimal": Decimal("0.5"), "bool": True, "object": Odd(), "bytes": b"7",
}  # fmt: skip


class TestTypes:
    """No row changes what the others' ids are: pandas picks a column's type by looking at all rows."""

    @pytest.mark.parametrize("more", MORE)
    @pytest.mark.parametrize("large", [False, True])
    def test_one_more_row_changes_no_other_id(self, more, large):
        ids = [BIG + i for i in range(-3, 64)] if large else small()
        frame = pd.DataFrame({"id": ids, "n": range(len(ids))})
        longer = pd.DataFrame({"id": [*ids, MORE[more]], "n": range(len(ids) + 1)})
        before = [(str(u), n) for u, n in held(frame)]
        assert [(str(u), n) for u, n in held(longer) if n < len(ids)] == before
        assert len(before) == (3 if large else len(ids))

    @pytest.mark.parametrize("more", ["", "x", "7.5", "1e99", "nan", "inf", "True"])
    def test_as_pandas_reads_them_from_a_file(self, more, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("id,n\n" + "".join(f"{who},{n}\n" for n, who in enumerate(small())))
        frame = pd.read_csv(path)
        path.write_text(path.read_text() + f"{more},99\n")
        longer = pd.read_csv(path)
        before = [(str(u), n) for u, n in held(frame)]
        assert [(str(u), n) for u, n in held(longer) if n < 99] == before
        assert [(str(u), n) for u, n in held(path) if n < 99] == before
        assert len(before) == len(small())

    @pytest.mark.parametrize("more", ["x", "True", ""])
    @pytest.mark.parametrize(
        "ids",
        [
            [str(BIG + i) for i in range(-2, 3)],
            ["1e18", "7", "9007199254740991.0", "9007199254740992"],
            ["7", "7.0000000000000000001", "1e-400", "-1e-400", "7.5", "inf", "1e400", "00"],
            ["True", "true", "TRUE", "False", "FALSE"],
            [f"{2**70}", "7", f"-{2**64}"],
        ],
    )
    def test_whatever_pandas_makes_of_all_of_them(self, more, ids, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("id,n\n" + "".join(f"{who},{n}\n" for n, who in enumerate(ids)))
        before = [(str(u), n) for u, n in held(pd.read_csv(path))]
        path.write_text(path.read_text() + f"{more},99\n")
        for types in ({}, {"id": object}, {"id": str}, {"id": "category"}):
            longer = pd.read_csv(path, dtype=types)
            assert [(str(u), n) for u, n in held(longer) if n < 99] == before

    @pytest.mark.parametrize("most", [1, 2])
    def test_it_changes_no_other_row_that_is_kept(self, most):
        rows = pd.DataFrame({"id": np.repeat([3, 5, 10**15], 9), "n": range(27)})
        unit, found = Unit("id", max_rows=most), []
        for more in (None, *MORE.values()):
            longer = (
                rows
                if more is None
                else pd.concat(
                    [rows.astype({"id": object}), pd.DataFrame({"id": [more], "n": [99]})]
                ).infer_objects()
            )
            engine = DuckDBEngine(Table("t", longer, SCHEMA, unit))
            engine.bound(b"secret")
            statement = "SELECT c0 FROM rows WHERE c0 < 99 ORDER BY c0"
            found.append(engine._connection.execute(statement).fetchall())
            engine.close()
        assert len(found[0]) == 3 * most
        assert all(kept == found[0] for kept in found)

    def test_a_bool_is_its_text(self):
        ids = [True, False, True]
        for source in (pd.Series(ids), pd.Series([*ids, None]), pd.Series([*ids, "x"])):
            frame = pd.DataFrame({"id": source, "n": range(len(source))})
            assert held(frame)[:3] == [("True", 0), ("False", 1), ("True", 2)]

    def test_categories_are_what_they_say(self):
        ids = pd.Series(["7", "7.0", " 7", None, "x", "8"], dtype="category")
        frame = pd.DataFrame({"id": ids, "n": range(6)})
        assert held(frame) == [("7", 0), ("7", 1), ("7", 2), ("x", 4), ("8", 5)]
        for categories in (
            [7, 8, BIG],
            [7.0, 8.0, 0.5],
            pd.Index([7, "8", None, 7.5], dtype=object),
        ):
            frame = pd.DataFrame({"id": pd.Categorical(categories), "n": range(len(categories))})
            assert held(frame) == [("7", 0), ("8", 1)]

    def test_objects(self):
        ids = [
            7, 7.0, np.int8(7), np.float32(7), Decimal("7.00"), Fraction(7), "07", np.str_("7 "),
            Decimal("1e999999999"), Decimal("1e-999999999"), Decimal("sNaN"), Fraction(1, 3), 10**5000, 7 + 1j,
            "\ud800", b"7", Odd(), pd.NaT, pd.Timestamp("2024-01-01"), np.bool_(True),
        ]  # fmt: skip
        frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "n": range(len(ids))})
        assert held(frame) == [
            *(("7", n) for n in range(8)), ("(7+1j)", 13), ("b'7'", 15), ("2024-01-01 00:00:00", 18),
            ("True", 19),
        ]  # fmt: skip

    @pytest.mark.parametrize("type_", ["float16", "float32", "float64", "int8", "uint64", ">i4"])
    def test_numbers_of_numpy(self, type_):
        frame = pd.DataFrame({"id": np.array([7, 0, 100], type_), "n": range(3)})
        assert held(frame) == [(7, 0), (0, 1), (100, 2)]

    def test_typed_numbers_are_exact(self, tmp_path):
        large = [2**62 + 1, -(2**63), 2**63 - 1, None, 7]
        frame = pd.DataFrame({"id": pd.array(large, "Int64"), "n": range(5)})
        frame.to_parquet(tmp_path / "t.parquet")
        expected = [(who, n) for n, who in enumerate(large) if who is not None]
        for source in (
            frame, tmp_path / "t.parquet", pa.Table.from_pandas(frame), pl.from_pandas(frame),
            frame.astype({"id": "int64[pyarrow]"}),
        ):  # fmt: skip
            assert held(source) == expected
        for type_ in (pa.decimal128(38), pa.decimal256(76)):
            long = [Decimal(10**37 + 1), Decimal(7), None]
            table = pa.table({"id": pa.array(long, type_), "n": range(3)})
            assert held(table) == [(str(10**37 + 1), 0), ("7", 1)]
        ids = [1e16, 2.0**60, 7.0, 0.5, math.nan, -math.inf, 1e300, -0.0]
        table = pa.table({"id": pa.array(ids), "n": range(8)})
        assert held(table) == [
            (str(10**16), 0), (str(2**60), 1), ("7", 2), (str(10**300), 6), ("0", 7)
        ]  # fmt: skip

    def test_texts_of_every_source(self, tmp_path):
        spellings = [s for s in kit.SPELLINGS if len(s) < 100]
        frame = kit.numbers_of(spellings)
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_csv(tmp_path / "t.csv", index=False, quoting=1)
        expected = kit.people(spellings, kit.said)
        for source in (
            tmp_path / "t.parquet", tmp_path / "t.csv", pa.Table.from_pandas(frame), pl.from_pandas(frame),
            pl.from_pandas(frame).with_columns(pl.col("id").cast(pl.Categorical)),
            frame.astype({"id": "string[pyarrow]"}), frame.astype({"id": "category"}),
        ):  # fmt: skip
            assert people(source) == expected
        expected = kit.people(spellings, kit.picked)
        for type_ in (object, str, "category"):
            source = frame.astype({"id": object}).astype({"id": type_})
            assert people(source) == expected
            assert people(source, kind="text") == kit.people(spellings, kit.plain)

    def test_a_relation(self):
        values = "VALUES ('7', 0), (' 07', 1), ('x', 2)"
        with duckdb.connect() as connection:
            relation = connection.sql(f"SELECT * FROM ({values}) AS t(id, n)")
            assert held(relation) == [("7", 0), ("7", 1), ("x", 2)]

    def test_an_id_that_is_declared_as_well(self):
        frame = pd.DataFrame({"ID": [" 7", 7.0, "x"], "ids": 1, "n": range(3)})
        schema = Schema({"ID": Integer(0, 9), "ids": Integer(0, 9), "n": Integer(0, 9)})
        engine = DuckDBEngine(Table("t", frame, schema, Unit("id", max_rows=9)))
        found = engine._connection.execute("SELECT * FROM rows ORDER BY c2").fetchall()
        engine.close()
        assert found == [(7, 1, 0, "7"), (7, 1, 1, "7"), (None, 1, 2, "x")]
