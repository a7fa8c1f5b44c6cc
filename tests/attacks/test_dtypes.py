"""Readers choose a column's type by all of its values: one row must not change how others are read.

Promised: through every door, the rows of a table and those of the same table with one more row
become the same codes, up to that row, and neither table is refused. Not promised: that two readers
make the same of a text. What a reader takes for missing, such as ``NA``, it decides for each value.
"""

from __future__ import annotations

import io
from collections import Counter
from contextlib import closing

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

from dpnb import Boolean, Budget, Category, Date, Integer, Real, Schema, Session, Table, Timestamp
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.schema.reading import canonical
from tests.kit.noise import BlindNoise

BASES = {
    "truths": ["True", "False", "True"],
    "other truths": ["TRUE", "true", "FALSE"],
    "whole": ["7001", "1", "1"],
    "zeros": ["07001", "007", "1"],
    "blanks": [" 7", "7", "1"],
    "reals": ["1.5", "1.50", "7.0"],
    "large": ["9007199254740993", "18446744073709551615", "1"],
    "larger": ["36893488147419103232", "1", "1"],
    "days": ["2024-01-05", "2024-02-29", "2024-02-29"],
    "times": ["2024-01-05 08:30", "2024-02-29T23:10:00", "2024-03-31 01:30:00+01:00"],
    "words": ["a", "b", "b"],
    "nothing": ["", "", ""],
}
MORE = [
    "",
    "word",
    "2.5",
    "True",
    "12345678901234567890123",
    "nan",
    " 7",
    "2024-03-01 09:00Z",
]


def schema():
    """Each column is declared as several kinds, and once not at all."""
    kinds, undeclared = {}, []
    for base, values in BASES.items():
        listed = list({canonical(value): value for value in values}.values())
        kinds[f"{base} listed"] = Category(listed)
        if base in ("truths", "zeros", "reals"):
            kinds[f"{base} long"] = Category([*listed, *(f"v{i}" for i in range(300))])
            kinds[f"{base} other"] = Category(["1.0", "rest"], other="rest")
            kinds[f"{base} real"] = Real(-10, 10_000)
        kinds[f"{base} whole"] = Integer(-10, 10_000)
        if base in ("days", "nothing", "whole"):
            kinds[f"{base} day"] = Date("2024-01-01", "2024-12-31")
        if base == "times":
            kinds[f"{base} moment"] = Timestamp("2024-01-01", "2024-04-01", "day")
        if base in ("truths", "reals"):
            kinds[f"{base} truth"] = Boolean()
        undeclared.append(f"{base} undeclared")
    return Schema(kinds, undeclared=undeclared)


SCHEMA = schema()
NAMES = [*SCHEMA, *SCHEMA.undeclared]


def written(more):
    """A CSV file of the bases, with one more row of this text unless it is None."""
    rows = list(zip(*BASES.values(), strict=True))
    rows += [] if more is None else [(more,) * len(BASES)]
    return "\n".join(",".join(row) for row in [BASES, *rows]) + "\n"


def repeated(frame):
    """Each column of a frame once for each kind."""
    return {name: frame[name.rpartition(" ")[0]] for name in NAMES}


def read(more):
    return pd.read_csv(io.StringIO(written(more)))


def in_parts(more):
    """As a reader of a large file does it: a type for each part, then one for the whole."""
    parts = [read(None)]
    truths = parts[0].select_dtypes("bool").columns
    # unlike read_csv, concat would make numbers of truths
    parts[0] = parts[0].astype(dict.fromkeys(truths, object))
    if more is not None:
        lines = written(more).splitlines()
        parts.append(pd.read_csv(io.StringIO("\n".join([lines[0], lines[-1]]))))
    return pd.DataFrame(repeated(pd.concat(parts)))


NULLS = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
"""Otherwise nothing would be a text in columns of texts, and missing in the others."""


def converted(more, folder=None):
    """A frame of types that others than pandas know, too."""
    found = read(more).convert_dtypes()
    objects = found.select_dtypes("object").columns
    return pd.DataFrame(repeated(found.astype(dict.fromkeys(objects, "string"))))


def parquet(more, folder):
    path = folder / "t.parquet"
    converted(more).to_parquet(path)
    return path


def polars(more, folder):
    found = pl.read_csv(
        io.BytesIO(written(more).encode()), infer_schema_length=None, try_parse_dates=True
    )
    # a type that Arrow does not have
    found = found.with_columns(pl.col(pl.Int128).cast(pl.String))
    return pl.DataFrame(repeated(found))


def file(more, folder):
    path = folder / "t.csv"
    pd.DataFrame(
        repeated(pd.read_csv(io.StringIO(written(more)), dtype=str, keep_default_na=False))
    ).to_csv(path, index=False)
    return path


def frame(more, _folder=None, change=lambda frame: frame):
    return pd.DataFrame(repeated(change(read(more))))


DOORS = {
    "frame": frame,
    "objects": lambda more, folder: frame(more, change=lambda f: f.astype(object)),
    "categories": lambda more, folder: frame(more, change=lambda f: f.astype("category")),
    "converted": converted,
    "pyarrow types": lambda more, folder: frame(more, change=lambda f: f.convert_dtypes(dtype_backend="pyarrow")),
    "parts": lambda more, folder: in_parts(more),
    "Parquet": parquet,
    "CSV": file,
    "Arrow": lambda more, folder: pa.Table.from_pandas(converted(more)),
    "Arrow's reader": lambda more, folder: pa.table(repeated(pyarrow.csv.read_csv(io.BytesIO(written(more).encode()), convert_options=NULLS))),
    "polars": polars,
    "relation": lambda more, folder: duckdb.connect().from_df(converted(more)),
}  # fmt: skip


def values(source):
    """How often each code, or each text of an undeclared column, is in each column."""
    with closing(DuckDBEngine(Table("t", source, SCHEMA))) as engine:
        found = engine._connection.execute("SELECT * FROM rows").fetchall()
    return [Counter(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize("door", DOORS)
def test_one_more_row_changes_how_no_other_is_read(door, tmp_path):
    before = values(DOORS[door](None, tmp_path))
    assert {counter.total() for counter in before} == {3}
    for more in MORE:
        after = values(DOORS[door](more, tmp_path))
        for name, one, other in zip(NAMES, before, after, strict=True):
            assert (one - other, (other - one).total()) == (Counter(), 1), (name, more)


def loss(x, y, kind, sql):
    """The true loss between two frames, as a share of what is charged."""
    found = []
    for source in (x, y):
        noise = BlindNoise()
        with Session(
            Table("t", source, Schema({"x": kind})), budget=Budget(rho=9), noise=noise
        ) as session:
            session.query(sql, rho=0.5)
        found.append(noise.draws)
    pairs = zip(*found, strict=True)
    return 2 * sum(
        sum((a - b) ** 2 for a, b in zip(one.exact, other.exact, strict=True)) / (2 * one.scale**2)
        for one, other in pairs
    )


SUMS = ["SELECT COUNT(x) FROM t", "SELECT SUM(x) FROM t", "SELECT AVG(x) FROM t"]
GROUPS = ["SELECT x, COUNT(*) FROM t GROUP BY x", "SELECT COUNT(*) FROM t WHERE x = '{}'"]


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        ("True", Integer(0, 1)),
        ("true", Real(0, 1)),
        ("1", Integer(0, 1)),
        ("07001", Category(["07001", "b"])),
        ("1.50", Category(["1.5"])),
        ("True", Category(["True", "False"])),
        ("TRUE", Category(["true", "no"], other="no")),
    ],
    ids=str,
)
@pytest.mark.parametrize("more", ["", "word"])
def test_one_row_costs_no_more_than_is_charged(held, kind, more):
    """One missing value took 2,500 times the charge: pandas made texts of all others."""
    x, y = (
        pd.read_csv(io.StringIO("x,i\n" + f"{held},1\n" * 50 + last))
        for last in ("", f"{more},1\n")
    )
    for sql in GROUPS if isinstance(kind, Category) else SUMS:
        assert loss(x, y, kind, sql.format(held)) <= 1


def test_what_is_discovered_is_the_same_through_every_door(tmp_path):
    """Values that several readers have made of one file are one value each."""
    places = [
        NAMES.index(f"{base} undeclared") for base in ("truths", "whole", "zeros", "reals", "large")
    ]
    expected = [
        {"True": 2, "False": 1},
        {"7001": 1, "1": 2},
        {"7001": 1, "7": 1, "1": 1},
        {"1.5": 2, "7": 1},
    ]
    for door, source in DOORS.items():
        found = values(source(None, tmp_path))
        for place, counts in zip(places, expected, strict=False):
            assert found[place] == counts, (door, NAMES[place])
