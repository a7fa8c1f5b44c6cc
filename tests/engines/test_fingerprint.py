"""A fingerprint names the normalised rows: keyed, free of order, changed by any cell."""

from __future__ import annotations

import copy

import pyarrow as pa
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.engines import duckdb as module
from dpnb.engines.duckdb import DuckDBEngine

SCHEMA = Schema(
    {
        "c": Category(["a", "b", "c"]),
        "i": Integer(-5, 5),
        "j": Integer(-5, 5),
        "r": Real(-1, 1),
        "d": Date("2024-01-01", "2024-12-31"),
    }
)
ROWS = [
    {"c": "a", "i": 1, "j": 2, "r": 0.5, "d": "2024-01-01"},
    {"c": "b", "i": 2, "j": 1, "r": -0.5, "d": "2024-06-01"},
    {"c": None, "i": None, "j": 0, "r": None, "d": None},
    {"c": "a", "i": 1, "j": 2, "r": 0.5, "d": "2024-01-01"},
    {"c": "c", "i": -5, "j": 5, "r": 0.0, "d": "2024-12-31"},
]


def fingerprint(rows, key=b"secret", schema=SCHEMA):
    types = {
        "c": pa.string(),
        "i": pa.int64(),
        "j": pa.int64(),
        "r": pa.float64(),
        "d": pa.string(),
    }
    source = pa.Table.from_pylist(rows, schema=pa.schema(types))
    source = source.set_column(4, "d", source["d"].cast(pa.date32()))
    engine = DuckDBEngine(Table("t", source, schema))
    try:
        return engine.fingerprint(key)
    finally:
        engine.close()


class TestWhatItSees:
    base = fingerprint(ROWS)

    def test_the_order_of_rows_is_free(self):
        assert fingerprint(ROWS[::-1]) == self.base
        assert fingerprint([*ROWS[2:], *ROWS[:2]]) == self.base

    def test_the_key_matters(self):
        assert fingerprint(ROWS, key=b"other") != self.base

    def test_duplicates_count(self):
        assert fingerprint(ROWS[:4] + ROWS[4:] * 3) != self.base
        assert fingerprint([*ROWS, ROWS[0]]) != self.base
        assert fingerprint(ROWS[1:]) != self.base
        assert fingerprint([]) != fingerprint([ROWS[2]])
        # two times this row and once that one, or the other way round
        one, two = ROWS[0], ROWS[1]
        assert fingerprint([one, one, two]) != fingerprint([one, two, two])

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("c", "b"),
            ("c", None),
            ("i", 0),
            ("i", None),
            ("j", -2),
            ("r", 0.5000000000000001),
            ("r", None),
            ("d", "2024-01-02"),
            ("d", None),
        ],
    )
    @pytest.mark.parametrize("place", [0, 1, 4])
    def test_any_cell_matters(self, column, value, place):
        rows = copy.deepcopy(ROWS)
        if rows[place][column] == value:
            return
        rows[place][column] = value
        assert fingerprint(rows) != self.base

    def test_values_cannot_change_places(self):
        swapped = [{**row, "i": row["j"], "j": row["i"]} for row in ROWS]
        assert fingerprint(swapped) != self.base
        crossed = copy.deepcopy(ROWS)
        crossed[0]["c"], crossed[1]["c"] = crossed[1]["c"], crossed[0]["c"]
        assert fingerprint(crossed) != self.base

    def test_only_normalised_values_count(self):
        rows = copy.deepcopy(ROWS)
        rows[4] |= {"i": -99, "j": 99, "r": -0.0, "d": "2030-01-01"}
        rows[2] |= {"c": "stranger", "r": float("nan")}
        assert fingerprint(rows) == self.base

    def test_zero_and_missing_differ(self):
        zero = {"c": "a", "i": 0, "j": 0, "r": 0.0, "d": "2024-01-01"}
        prints = {fingerprint([zero | {name: None}]) for name in zero} | {fingerprint([zero])}
        assert len(prints) == 6


def test_rows_beyond_one_chunk_count_in_any_order(monkeypatch):
    many = [{**ROWS[0], "r": i / 1_000} for i in range(700)]
    whole = fingerprint(many)
    monkeypatch.setattr(module, "_CHUNK", 64)
    assert fingerprint(many) == whole
    assert fingerprint(many[::-1]) == whole
    assert fingerprint(many[:-1]) != whole
