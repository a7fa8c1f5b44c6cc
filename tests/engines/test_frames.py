"""Frames of every make are read, or refused by the column and its type, with what makes them readable."""

from __future__ import annotations

from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import SchemaError

pytestmark = pytest.mark.fast

NUMBERS = Integer(0, 9)
DAYS = Date("2024-01-01", "2024-12-31")


class Pandas(pd.DataFrame):
    """As of a package for maps."""


class Polars(pl.DataFrame):
    pass


def relation(sql: str) -> duckdb.DuckDBPyRelation:
    return duckdb.connect().sql(sql)


def closed() -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    found = connection.sql("SELECT 1 AS x")
    connection.close()
    return found


READ = {
    "a subclass of pandas": Pandas({"x": [1, 2]}),
    "a subclass of polars": Polars({"x": [1, 2]}),
    "sparse whole numbers": pd.DataFrame({"x": pd.arrays.SparseArray([1, 2])}),
    "sparse numbers": pd.DataFrame({"x": pd.arrays.SparseArray([1.0, 2.0])}),
    "long floats": pd.DataFrame({"x": np.array([1, 2], np.longdouble)}),
    "a record batch": pa.record_batch({"x": [1, 2]}),
    "a lazy frame": pl.LazyFrame({"x": [1, 2]}),
    "odd columns that are not declared": pd.DataFrame(
        {"x": [1, 2], "p": pd.period_range("2024-01", periods=2, freq="M"), "c": [1j, 2j]}
    ),
    "others of polars": pl.DataFrame({"x": [1, 2], "y": pl.Series([1, 2], dtype=pl.Int128)}),
    "others of a relation": relation(
        "SELECT x, x::UHUGEINT AS u, '01:00:00+01'::TIMETZ AS z FROM range(1, 3) AS t(x)"
    ),
}


@pytest.mark.parametrize("source", READ.values(), ids=READ)
def test_are_read(source, codes):
    assert sorted(codes(source, NUMBERS)) == [1, 2]


@pytest.mark.parametrize("label", [0, 1.5, None, ("a", "b"), pd.Timestamp("2024-01-01")])
def test_a_column_may_be_named_by_anything(label):
    frame = pd.DataFrame({"x": [5]}).rename(columns={"x": label}).assign(y=[1])
    schema = dpnb.Schema({str(label): NUMBERS})
    with closing(DuckDBEngine(dpnb.Table("t", frame, schema))) as engine:
        assert engine._connection.execute("SELECT c0 FROM rows").fetchall() == [(5,)]
    draft = dpnb.draft_schema(frame).replace("draft = true", "")
    assert f'"{label}"' in draft or f"[columns.{label}]" in draft


def test_equal_names_of_a_number_and_a_text_are_refused():
    with pytest.raises(SchemaError, match="several columns named '0'"):
        dpnb.Session(
            dpnb.Table("t", pd.DataFrame([[1, 2]], columns=["0", 0]), dpnb.Schema({"0": NUMBERS})),
            budget=dpnb.Budget(rho=1),
        )


REFUSED = {
    "several levels": (
        pd.DataFrame({("x", "a"): [1]}),
        NUMBERS,
        "the columns of the frame have several levels of names. Give each column one name: "
        "frame.columns = ['_'.join(map(str, c)) for c in frame.columns].",
        lambda frame: frame.set_axis(["x"], axis=1),
    ),
    "periods": (
        pd.DataFrame({"x": pd.period_range("2024-01", periods=1, freq="M")}),
        DAYS,
        "column 'x' holds period[M] values, which are not read. Convert it: frame['x'].dt.to_timestamp().",
        lambda frame: frame.assign(x=frame["x"].dt.to_timestamp()),
    ),
    "intervals": (
        pd.DataFrame({"x": pd.arrays.IntervalArray.from_breaks([0, 1])}),
        Category(["(0, 1]"]),
        "column 'x' holds interval[int64, right] values, which are not read. Convert it: frame['x'].astype(str).",
        lambda frame: frame.assign(x=frame["x"].astype(str)),
    ),
    "complex numbers": (
        pd.DataFrame({"x": [1j]}),
        Real(0, 9),
        "column 'x' holds complex128 values, which are not read. Take its real part, or its size: frame['x'].abs().",
        lambda frame: frame.assign(x=frame["x"].abs()),
    ),
    "sparse complex numbers": (
        pd.DataFrame({"x": pd.arrays.SparseArray([1j])}),
        Real(0, 9),
        "column 'x' holds complex128 values, which are not read. Take its real part, or its size: frame['x'].abs().",
        lambda frame: frame.assign(x=abs(np.asarray(frame["x"]))),
    ),
    "128 bits of polars": (
        pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}),
        NUMBERS,
        "column 'x' holds Int128 values, which are not read. Cast it: frame.cast({'x': polars.Int64}).",
        lambda frame: frame.cast({"x": pl.Int64}),
    ),
    "unsigned 128 bits": (
        relation("SELECT 1::UHUGEINT AS x"),
        NUMBERS,
        "column 'x' holds UHUGEINT values, which are not read. Cast it to DOUBLE.",
        lambda frame: frame.project("x::DOUBLE AS x"),
    ),
    "times with zones": (
        relation("SELECT '01:00:00+01'::TIMETZ AS x"),
        Category(["01:00:00+01"]),
        "column 'x' holds TIME WITH TIME ZONE values, which are not read. Cast it to VARCHAR.",
        lambda frame: frame.project("x::VARCHAR AS x"),
    ),
    "a closed relation": (
        closed(),
        NUMBERS,
        "the connection of the DuckDB relation is closed. Keep it open until the session is open.",
        lambda _: relation("SELECT 1 AS x"),
    ),
    "a relation that fails": (
        relation("SELECT error('secret 42') AS x"),
        NUMBERS,
        "the query of the DuckDB relation cannot be run. Check that relation.fetchone() works.",
        lambda _: relation("SELECT 1 AS x"),
    ),
    "a lazy frame that fails": (
        pl.LazyFrame({"x": [1]}).select(pl.col("secret")),
        NUMBERS,
        "the polars LazyFrame cannot be collected. Collect it yourself with frame.collect(), and give the result.",
        lambda _: pl.LazyFrame({"x": [1]}).collect(),
    ),
}


@pytest.mark.parametrize(("source", "kind", "said", "mended"), REFUSED.values(), ids=REFUSED)
def test_are_refused_by_their_type_and_read_as_advised(source, kind, said, mended, codes):
    with pytest.raises(SchemaError) as caught:
        codes(source, kind)
    assert str(caught.value) == said
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert len(codes(mended(source), kind)) == 1


@pytest.mark.parametrize(
    ("source", "held"),
    [(REFUSED[name][0], held) for name, held in {
        "periods": "period[M]", "intervals": "interval[int64, right]", "complex numbers": "complex128",
        "128 bits of polars": "Int128", "unsigned 128 bits": "UHUGEINT", "times with zones": "TIME WITH TIME ZONE",
    }.items()],
)  # fmt: skip
def test_a_draft_leaves_them_out(source, held):
    draft = dpnb.draft_schema(source)
    assert (
        f'# Column "x" holds {held} values. No kind of column fits them, so it is left out.'
        in draft
    )


def test_a_draft_of_a_mixed_frame_declares_the_others():
    frame = pd.DataFrame({"x": [1, 2], "c": [1j, 2j]})
    draft = dpnb.draft_schema(frame)
    assert "[columns.x]" in draft
    assert '# Column "c" holds complex128 values.' in draft


def test_a_polars_series_lists_the_values_of_a_category():
    assert Category(pl.Series(["a", "b"])) == Category(["a", "b"])
