"""Each value is read by itself, by the same rule whatever type a source gives to its column."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import tomllib
from contextlib import closing
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpnb import Boolean, Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.datasets import adult
from dpnb.engines.draft import draft_schema
from dpnb.engines.duckdb import DuckDBEngine, connected
from dpnb.engines.reading import as_number, canonical
from dpnb.engines.rules import FIRST, SECOND, values_rule
from dpnb.engines.sources import frame_source
from dpnb.errors import SchemaError
from dpnb.schema import reading
from dpnb.schema.timestamps import days
from tests.schema.test_reading import SPELLINGS, drawn

pytestmark = pytest.mark.fast

TEXTS = [text for text in [*SPELLINGS, *drawn(3_000)] if "\x00" not in text]


def read(source, kind):
    """The codes of the column ``x`` in the order of the rows."""
    with closing(DuckDBEngine(Table("t", source, Schema({"x": kind})))) as engine:
        return [code for (code,) in engine._connection.execute("SELECT c0 FROM rows").fetchall()]


def test_duckdb_reads_a_text_as_python_does():
    with closing(connected()) as connection:
        connection.register("t", pa.table({"x": TEXTS}))
        found = connection.execute(
            f"SELECT {canonical('x', 'VARCHAR')}, {as_number('x', 'VARCHAR')} FROM t"
        ).fetchall()
    for text, (shown, value) in zip(TEXTS, found, strict=True):
        assert shown == reading.canonical(text), repr(text)
        whether, expected = reading.truth(text), reading.number(text)
        if whether is not None:
            expected = float(whether)
        # infinite ones are missing in columns of numbers
        assert value == expected or (value is None and math.isinf(expected)), repr(text)


def test_duckdb_writes_a_number_as_python_does():
    rng = np.random.default_rng(4)
    numbers = [
        *rng.normal(0, 10.0 ** rng.integers(-300, 300, 2_000)),
        *(2.0**k for k in range(50, 70)),
        0.0,
        -0.0,
    ]
    with closing(connected()) as connection:
        connection.register("t", pa.table({"x": numbers}))
        found = connection.execute(f"SELECT {canonical('x', 'DOUBLE')} FROM t").fetchall()
    assert [shown for (shown,) in found] == [reading.canonical(repr(float(x))) for x in numbers]


def objects(values):
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


def relation(values):
    frame = pa.table({"x": values})
    return duckdb.connect().from_arrow(frame).project("x")


def parquet(values, folder):
    path = folder / "t.parquet"
    pq.write_table(pa.table({"x": values}), path)
    return path


def csv_file(values, folder):
    path = folder / "t.csv"
    path.write_text("x,i\n" + "".join(f"{value},1\n" for value in values))
    return path


W, R, T = [7001, -3, 0], [1.5, -0.25, 7001.0], [True, False, True]
DOORS = {
    "int64": (W, pd.DataFrame({"x": W})),
    "float64": (W, pd.DataFrame({"x": np.array(W, float)})),
    "Int64": (W, pd.DataFrame({"x": pd.array(W, dtype="Int64")})),
    "int objects": (W, objects(W)),
    "mixed objects": (W, objects([7001, "-3.0", 0.0])),
    "spellings": (W, objects(["07001", " -3", "-0"])),
    "scalars": (W, objects([np.int32(7001), np.float32(-3), decimal.Decimal("0.00")])),
    "categories": (W, pd.DataFrame({"x": pd.Categorical(W)})),
    "mixed categories": (W, pd.DataFrame({"x": pd.Categorical([7001.0, "-3", 0])})),
    "strings": (W, pd.DataFrame({"x": pd.array(["7001", "-3", "0"], dtype="string[python]")})),
    "int[pyarrow]": (W, pd.DataFrame({"x": pd.array(W, dtype="int16[pyarrow]")})),
    "Arrow dictionary": (W, pa.table({"x": pa.array(W).dictionary_encode()})),
    "Arrow large texts": (W, pa.table({"x": pa.array(["7001", "-3", "0"], pa.large_string())})),
    "Arrow decimal": (W, pa.table({"x": pa.array(list(map(decimal.Decimal, W)), pa.decimal128(9, 3))})),
    "Arrow wide decimal": (W, pa.table({"x": pa.array(list(map(decimal.Decimal, W)), pa.decimal256(60, 3))})),
    "polars": (W, pl.DataFrame({"x": W})),
    "polars texts": (W, pl.DataFrame({"x": pl.Series(["7001", "-3", "0"], dtype=pl.Categorical)})),
    "relation": (W, relation(W)),
    "reals": (R, pd.DataFrame({"x": R})),
    "real objects": (R, objects(R)),
    "real texts": (R, objects(["1.50", "-.25", "7001."])),
    "halves": ([1.5, -0.25, 700.0], pd.DataFrame({"x": np.array([1.5, -0.25, 700.0], np.float16)})),
    "Arrow halves": ([1.5, -0.25, 700.0], pa.table({"x": np.array([1.5, -0.25, 700.0], np.float16)})),
    "extended": (R, pd.DataFrame({"x": np.array(R, np.longdouble)})),
    "float32": (R, pd.DataFrame({"x": np.array(R, np.float32)})),
    "decimals": (R, objects([decimal.Decimal("1.50"), decimal.Decimal("-0.250"), decimal.Decimal(7001)])),
    "Arrow reals": (R, pa.table({"x": R})),
    "bool": (T, pd.DataFrame({"x": T})),
    "boolean": (T, pd.DataFrame({"x": pd.array(T, dtype="boolean")})),
    "bool objects": (T, objects(T)),
    "bools and words": (T, objects([True, "false", np.bool_(1)])),
    "truths": (T, objects(["TRUE", "False", "true"])),
    "bool categories": (T, pd.DataFrame({"x": pd.Categorical(T)})),
    "Arrow bool": (T, pa.table({"x": T})),
    "Arrow bool dictionary": (T, pa.table({"x": pa.array(T).dictionary_encode()})),
    "polars bool": (T, pl.DataFrame({"x": T})),
    "bool relation": (T, relation(T)),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_value_is_the_same_in_every_type(door, tmp_path):
    values, source = DOORS[door]
    shown = [reading.canonical(str(value)) for value in values]
    listed = list(dict.fromkeys([*shown, "word"]))
    places = [listed.index(key) for key in shown]
    long = Category([f"v{i}" for i in range(300)] + listed)
    assert read(source, Category(listed)) == places
    assert read(source, long) == [300 + place for place in places]
    assert read(source, Category(["word"], other="word")) == [0] * 3
    assert read(source, Real(-10, 9_000)) == [float(value) for value in values]
    assert read(source, Integer(-10, 9_000)) == [math.floor(float(value) + 0.5) for value in values]
    codes = [int(value) if value in (0, 1) else None for value in values]
    assert read(source, Boolean()) == codes
    # days are no numbers
    assert read(source, Date("2024-01-01", "2024-12-31")) == [None] * 3


@pytest.mark.parametrize("values", [W, R, T], ids=["whole", "real", "truth"])
@pytest.mark.parametrize("file", [parquet, csv_file])
def test_files_too(values, file, tmp_path):
    shown = [reading.canonical(str(value)) for value in values]
    listed = list(dict.fromkeys(shown))
    source = file(values, tmp_path)
    assert read(source, Category(listed)) == list(map(listed.index, shown))
    assert read(source, Real(-10, 9_000)) == [float(value) for value in values]
    codes = [int(value) if value in (0, 1) else None for value in values]
    assert read(source, Boolean()) == codes


def test_truths_are_not_1_and_0_in_categories():
    kind = Category(["1", "0", "TRUE", "false"])
    assert read(objects([True, 1, 1.0, "True", "01", False, 0.0]), kind) == [2, 0, 0, 2, 0, 3, 1]
    assert read(pd.DataFrame({"x": [True, False]}), kind) == [2, 3]


@pytest.mark.parametrize(
    ("digits", "scale"), [(15, 2), (16, 2), (18, 9), (20, 2), (38, 10), (38, 30), (60, 20), (5, -3)]
)
def test_a_decimal_is_the_nearest_double(digits, scale, tmp_path):
    rng = random.Random(digits)  # noqa: S311 - not for secrets
    wholes = [
        2**53,
        1 - 2**53,
        2**53 + 1,
        *(rng.randrange(-(10**k), 10**k) for k in [digits, min(digits, 17)] * 60),
    ]
    wholes = [whole for whole in wholes if abs(whole) < 10**digits]
    with decimal.localcontext(prec=99):
        values = [decimal.Decimal(whole).scaleb(-scale) for whole in wholes]
    nearest = [float(Fraction(whole) / Fraction(10) ** scale) for whole in wholes]
    column = pa.array(values, pa.decimal256(digits, scale))
    doors = [pa.table({"x": column})]
    if digits <= 38:
        short = column.cast(pa.decimal128(digits, scale))
        doors += [
            pa.table({"x": short}),
            pd.DataFrame({"x": pd.Series(short, dtype=pd.ArrowDtype(short.type))}),
        ]
    if digits <= 38 and scale >= 0:
        doors += [parquet(short, tmp_path), relation(short)]
    for source in doors:
        assert read(source, Real(-1e60, 1e60)) == nearest


def test_lists_of_decimals_are_no_decimals():
    held = pa.array([[decimal.Decimal(1)]], pa.list_(pa.decimal128(5, 2)))
    with pytest.raises(SchemaError, match="holds DECIMAL"):
        read(pa.table({"x": held}), Real(0, 9))


BOOLEANS = {
    "true": 1, " 1": 1, "1.0": 1, "10e-1": 1, "TRUE": 1, "False": 0, "0": 0, "-0.0": 0, "00": 0,
    "yes": None, "t": None, " true": None, "2": None, "0.5": None, "": None, "inf": None, "nan": None,
    "1_0": None, "2024-01-01": None,
}  # fmt: skip


def test_a_boolean_is_what_is_read_as_true_false_1_or_0(tmp_path):
    codes = list(BOOLEANS.values())
    assert read(objects(list(BOOLEANS)), Boolean()) == codes
    assert read(csv_file([f'"{text}"' for text in BOOLEANS], tmp_path), Boolean()) == codes
    assert read(objects([*BOOLEANS, True, 0.0, 1, 2**80, None]), Boolean()) == [
        *codes,
        1,
        0,
        1,
        None,
        None,
    ]
    assert (
        read(pd.DataFrame({"x": pd.to_datetime(["2024-01-01", "1970-01-01"])}), Boolean())
        == [None] * 2
    )


def test_numbers_beyond_two_to_the_53_are_their_nearest_double():
    kind = Category(["9007199254740993", "1e19"])
    for values in ([2**53, 2**53 + 1, 10**19], [float(2**53), 9007199254740992.0, 1e19]):
        assert read(objects(values), kind) == [0, 0, 1]
        assert read(objects(list(map(str, values))), kind) == [0, 0, 1]
    assert read(pd.DataFrame({"x": np.array([2**53 + 1, 10**19], np.uint64)}), kind) == [0, 1]


def test_missing_marks_are_texts():
    kind = Category(["NA", "nan", "", "7"])
    assert read(objects(["NA", "nan", "", None, math.nan, pd.NA, pd.NaT, 7.0]), kind) == [
        0,
        1,
        2,
        *[None] * 4,
        3,
    ]
    assert read(pd.DataFrame({"x": [math.nan, 7.0]}), kind) == [None, 3]


@pytest.mark.parametrize(
    "kind",
    [Category(["a"]), Category(["7"]), Integer(0, 9), Real(0, 9), Date("2024-01-01", "2024-02-01")],
)
@pytest.mark.parametrize(
    "values", [[math.nan], [None], [True], [7], [7.5], ["7"], [2**70], [{}]], ids=str
)
def test_no_column_that_a_reader_can_make_is_refused(kind, values):
    for dtype in (object, None):
        source = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
        assert len(read(source, kind)) == 1


DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 30, 0, 500_000)  # noqa: DTZ001
MIDNIGHT = datetime.datetime(2024, 2, 29)  # noqa: DTZ001
DAYS = {
    "datetime64": pd.DataFrame({"x": pd.to_datetime(["2024-02-29"])}),
    "with a time": pd.DataFrame({"x": pd.to_datetime(["2024-02-29 23:59:59"])}),
    "with a zone": pd.DataFrame({"x": pd.to_datetime(["2024-02-29 23:30:00-05:00"])}),
    "texts with a zone": objects(["2024-02-29 23:30:00-05:00"]),
    "aware objects": objects([pd.Timestamp("2024-02-29 23:30:00-05:00").to_pydatetime()]),
    "Arrow with a zone": pa.table(
        {"x": pa.array([datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)])}
    ),
    "ISO": objects(["2024-02-29"]),
    "ISO with a time": objects(["2024-02-29T23:59:59"]),
    "dates": objects([DAY]),
    "datetimes": objects([NOON]),
    "Timestamps": objects([pd.Timestamp(NOON)]),
    "datetime64 objects": objects([np.datetime64("2024-02-29T10:00", "ns")]),
    "mixed": objects([DAY, "word"]),
    "date[pyarrow]": pd.DataFrame({"x": pd.array([DAY], dtype=pd.ArrowDtype(pa.date32()))}),
    "categories": pd.DataFrame({"x": pd.Categorical([pd.Timestamp(DAY)])}),
    "polars": pl.DataFrame({"x": [DAY]}),
    "polars with a time": pl.DataFrame({"x": [NOON]}),
    "relation": relation([DAY]),
}


@pytest.mark.parametrize("door", DAYS)
def test_days_are_read_alike(door):
    assert read(DAYS[door], Date("2024-01-01", "2024-12-31"))[0] == days(DAY)


@pytest.mark.parametrize("value", [DAY, MIDNIGHT, NOON], ids=["day", "midnight", "noon"])
def test_days_can_be_categories(value):
    shown = "2024-02-29" if value is not NOON else "2024-02-29 12:30:00.5"
    for source in (
        objects([value]),
        pa.table({"x": [value]}),
        objects([shown]),
        objects([value, "word"]),
    ):
        assert read(source, Category(["2024-02-29", "2024-02-29 12:30:00.5"]))[0] == (value is NOON)


def test_ids_of_objects_stay_texts():
    """Whether ids are texts or numbers is a public fact, which no single value may decide."""
    schema = Schema({"x": Integer(0, 9)})
    for ids in ([1, 2], [1, "a"], [1, None], [True, False]):
        source = pd.DataFrame({"x": [1, 2], "id": pd.Series(ids, dtype=object)})
        with closing(DuckDBEngine(Table("t", source, schema, Unit("ID", max_rows=1)))) as engine:
            assert engine._text_ids


def test_a_draft_lists_each_value_once():
    source = objects(["07001", "7001", "7001.0", "true", "True", "word", "NA"] * 2)
    assert set(tomllib.loads(draft_schema(source))["columns"]["x"]["values"]) == {
        "7001",
        "True",
        "word",
        "NA",
    }


def test_frames_are_registered_without_a_look_at_their_objects():
    """DuckDB would guess from a sample; each column here has the type of its values, or of texts."""
    frame = pd.DataFrame(
        {
            "b": pd.Series([True, None], dtype=object),
            "i": pd.Series([1, None], dtype=object),
            "m": pd.Series([1, "a"], dtype=object),
        }
    )
    found = frame_source(frame, ["b", "i", "m"]).dtypes
    assert list(map(str, found)) == ["bool[pyarrow]", "int64[pyarrow]", "large_string[pyarrow]"]


WORDS, SPELLED, PLAIN = Category(["a", "b"]), Category(["a", "07001"]), Category(["a", "7001"])


@pytest.mark.parametrize(
    ("kind", "held", "touched"),
    [
        (WORDS, "csv", False),
        (WORDS, "pandas object", False),
        (PLAIN, "VARCHAR", True),
        (Category(["2024-01-05"]), "pandas object", True),
        (Category(["2024-01-05"]), "VARCHAR", False),
        (Category(["10th", "1st-4th"]), "VARCHAR", False),
        (Category(["10th", "1st-4th"]), "pandas object", False),
        (SPELLED, "BIGINT", True),
        (PLAIN, "BIGINT", False),
        (PLAIN, "pandas Int64", False),
        (Category(["9007199254740993"]), "BIGINT", True),
        (Category(["true"]), "BOOLEAN", False),
        (Category(["True"]), "pandas bool", True),
        (Integer(0, 9), "csv", True),
        (Real(0, 9), "pandas str", True),
        (Real(0, 9), "string", True),
        (Integer(0, 9), "pandas int64", False),
        (Real(0, 9), "DECIMAL", False),
        (Real(0, 9), "float8", False),
        (Date("2024-01-01", "2024-01-09"), "csv", False),
        (None, "csv", True),
        (None, "BOOLEAN", True),
        (None, "BIGINT", True),
        (None, "int4", False),
        (None, "SMALLINT", False),
        (None, "pandas int64", True),
        (None, "pandas UInt16", False),
    ],
    ids=str,
)
def test_tables_that_the_rule_touches_open_as_new_versions(kind, held, touched):
    assert (values_rule(kind, held) == SECOND) is touched


def test_the_table_of_the_first_steps_goes_on_in_its_version():
    engine = DuckDBEngine(adult())
    assert engine.reading["values"][0] == FIRST
    engine.close()
