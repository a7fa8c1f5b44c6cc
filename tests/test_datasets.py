"""The data that come with dpnb are what their schemas declare."""

from __future__ import annotations

import pandas as pd
import pytest

import dpnb
from tests.data.flights import COLUMNS, chosen

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("make", [dpnb.datasets.adult, dpnb.datasets.flights])
def test_declared_values_and_complete_columns_are_so(make):
    table = make()
    rows = pd.read_parquet(table.source, columns=[*table.schema])
    for name, kind in table.schema.items():
        if isinstance(kind, dpnb.Category):
            assert {*rows[name].dropna().unique()} <= set(kind.values), name
        else:
            assert pd.api.types.is_numeric_dtype(rows[name]), name
    assert not rows[[*table.schema.complete]].isna().any().any()


@pytest.mark.parametrize("make", [dpnb.datasets.adult, dpnb.datasets.flights])
def test_they_play_the_part_of_sensitive_data_unless_declared_public(make):
    assert not make().public
    assert make(public=True).public


def test_the_flights_are_all_of_the_year_with_the_marks_of_aircraft_undeclared():
    table = dpnb.datasets.flights()
    rows = pd.read_parquet(table.source)
    assert len(rows) == 336_776
    assert set(rows) - set(table.schema) == {"tailnum"}
    assert table.schema["arr_delay"].low == -30
    assert len(table.schema["dest"].values) == 105


def test_flights_are_chosen_whole_and_sorted():
    raw = pd.DataFrame(
        {
            "year": 2013, "month": [2, 1], "dest": ["BOS", "ABQ"], "origin": "JFK", "carrier": "B6",
            "tailnum": [None, "N1"], "dep_delay": [float("nan"), 3.0], "arr_delay": [float("nan"), -7.0],
        }
    )  # fmt: skip
    table = chosen(raw)
    assert table.column_names == [*COLUMNS]
    assert table.column("dest").to_pylist() == ["ABQ", "BOS"]
    assert table.column("arr_delay").to_pylist() == [-7, None]
