"""The same rows give the same exact vectors and fingerprint, wherever they come from."""

from __future__ import annotations

import datetime
import decimal
import itertools
import os
import sys
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpnb import Budget, Category, Curator, Date, Integer, Real, Schema, Session, Table, Unit
from dpnb.engines.choice import engine_of
from dpnb.engines.draft import draft_schema
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.rules import values_rule
from dpnb.engines.scans import guarded
from dpnb.engines.summary import summarise
from dpnb.errors import EngineError, SchemaError
from dpnb.schema.predicates import EVERY
from dpnb.views.measures import Count, Scan
from tests.kit import engines as shapes
from tests.kit.groups import own

SCHEMA = Schema(
    {
        "city": Category(["Bern", "Zürich", 'O\'Hara, "x"']),
        "Size": Integer(-5, 300, bins=[-5, 0, 100, 300]),
        "price": Real(0, 10, bins=[0, 1.5, 10]),
        "day": Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]),
    }
)
CITY = ["Bern", "Zürich", 'O\'Hara, "x"', "Paris", None, "Bern", "bern"]
SIZE = [1, 250, -9, 400, None, 0, 100]
PRICE = [0.1, 1.5, 1.5000000000000002, -3.25, None, 99.0, 7.7]
DAY = [
    datetime.date(2024, 1, 1),
    datetime.date(2024, 6, 30),
    datetime.date(2024, 7, 1),
    datetime.date(1999, 1, 1),
    None,
    datetime.date(2050, 1, 1),
    datetime.date(2024, 12, 31),
]
SQL = (
    "SELECT city, COUNT(*), COUNT(size), SUM(size), AVG(price), SUM(price) FROM t "
    "WHERE day > '2024-01-01' OR day IS NULL OR size <> 1 GROUP BY city"
)


def arrow() -> pa.Table:
    return pa.table(
        {
            "extra": ["secret"] * 7,
            "city": CITY,
            "size": pa.array(SIZE, pa.int64()),
            "price": pa.array(PRICE, pa.float64()),
            "day": pa.array(DAY, pa.date32()),
        }
    )


def plain(_):
    """NumPy types: whole numbers with gaps are floats, texts are objects, days are datetimes."""
    return pd.DataFrame(
        {
            "city": pd.Series(CITY, dtype=object),
            "size": np.array([np.nan if v is None else v for v in SIZE]),
            "price": np.array([np.nan if v is None else v for v in PRICE]),
            "day": pd.to_datetime(pd.Series(DAY)),
            "ignored": [object()] * 7,
        }
    )


def nullable(_):
    return pd.DataFrame(
        {
            "city": pd.array(CITY, dtype="string"),
            "size": pd.array(SIZE, dtype="Int32"),
            "price": pd.array(PRICE, dtype="Float64"),
            "day": pd.to_datetime(pd.Series(DAY)),
        }
    )


def categorical(_):
    frame = nullable(None)
    return frame.assign(city=pd.Categorical(CITY), size=pd.array(SIZE, dtype="Int64"))


def relation(_):
    connection = duckdb.connect()
    connection.register("source", arrow())
    return connection.sql("SELECT * FROM source")


def csv_file(folder):
    lines = ["extra,city,SIZE,price,day"]
    for city, size, price, day in zip(CITY, SIZE, PRICE, DAY, strict=True):
        text = "" if city is None else '"' + city.replace('"', '""') + '"'
        shown = ["" if v is None else str(v) for v in (size, price, day)]
        lines.append(",".join(["secret", text, *shown]))
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def parquet_file(folder):
    path = folder / "rows.parquet"
    pq.write_table(arrow(), path)
    return str(path)


def dictionary(_):
    table = arrow()
    return table.set_column(1, "city", table["city"].dictionary_encode())


SOURCES = {
    "pandas numpy": plain,
    "pandas nullable": nullable,
    "pandas categorical": categorical,
    "pandas pyarrow": lambda _: arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "pandas shuffled": lambda _: plain(None).sample(frac=1, random_state=1).set_index("ignored"),
    "pandas decimal": lambda _: (
        arrow()
        .set_column(2, "size", pa.array(SIZE, pa.float64()).cast(pa.decimal128(20, 2)))
        .to_pandas(types_mapper=pd.ArrowDtype)
    ),
    "polars": lambda _: pl.from_arrow(arrow()),
    "polars lazy": lambda _: pl.from_arrow(arrow()).lazy(),
    "polars categorical": lambda _: pl.from_arrow(arrow()).with_columns(
        pl.col("city").cast(pl.Categorical)
    ),
    "pyarrow": lambda _: arrow(),
    "pyarrow chunks": lambda _: pa.concat_tables([arrow().slice(0, 3), arrow().slice(3)]),
    "pyarrow dictionary": dictionary,
    "duckdb relation": relation,
    "Parquet": parquet_file,
    "CSV": csv_file,
}


@pytest.fixture(scope="module")
def reference():
    engine = DuckDBEngine(Table("t", arrow(), SCHEMA))
    yield engine
    engine.close()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_vectors_and_fingerprint(name, tmp_path, vectors, reference):
    table = Table("t", SOURCES[name](tmp_path), SCHEMA)
    engine = DuckDBEngine(table)
    assert vectors(table, SQL, engine) == vectors(table, SQL, reference)
    # a Parquet file is known by its bytes
    same = name != "Parquet"
    assert (engine.fingerprint(b"key") == reference.fingerprint(b"key")) == same
    engine.close()


def test_a_parquet_file_is_known_by_its_bytes_and_read_in_place(tmp_path):
    path = parquet_file(tmp_path)
    engines = [DuckDBEngine(Table("t", path, SCHEMA)) for _ in range(2)]
    first, again = (engine.fingerprint(b"key") for engine in engines)
    assert first == again != engines[0].fingerprint(b"other key")
    scan = Scan((), EVERY, ((Count(None), EVERY),))
    assert engines[0].measure(scan).reveal(0)[0] == arrow().num_rows
    pq.write_table(pa.concat_tables([arrow(), arrow()]), path)
    for look in (lambda: engines[0].measure(scan), lambda: engines[1].fingerprint(b"key")):
        with pytest.raises(EngineError, match="has changed since it was opened") as caught:
            look()
        assert caught.value.__cause__ is caught.value.__context__ is None
    for engine in engines:
        engine.close()


def test_what_a_changed_file_holds_is_not_the_context_of_its_error(tmp_path):
    """DuckDB cannot read the new rows and says a value of them, before the change is noticed."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"smoker": [True]}), path)
    table = Table("t", path, Schema({"smoker": Integer(0, 1)}))
    with Session(table, budget=Budget(rho=1)) as session:
        pq.write_table(pa.table({"smoker": ["yes, and more"]}), path)
        with pytest.raises(EngineError, match="has changed since it was opened") as caught:
            session.query("SELECT SUM(smoker) AS n FROM t", rho=0.1)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert not session.budget.spent.rho


def test_what_failed_before_is_not_the_context_of_an_error():
    def fail():
        try:
            raise ValueError("a value")
        except ValueError as error:
            raise EngineError("a failure", "Do something.") from error

    with pytest.raises(EngineError, match="a failure") as caught:
        guarded(fail)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_counts_that_are_kept_do_not_outlive_their_file(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"smoker": [0, 1, 1]}), path)
    table = Table("t", path, Schema({"smoker": Integer(0, 1)}))
    sql = "SELECT smoker, COUNT(*) AS n FROM t GROUP BY smoker"
    curator = Curator(table, budget=Budget(rho=1), analysts={"ana": 1}, views="attributes")
    with closing(curator), curator.session("ana") as session:
        first = session.query(sql, rho="0.1")
        pq.write_table(pa.table({"smoker": [1, 1, 1]}), path)
        with pytest.raises(EngineError, match="has changed since it was opened"):
            session.query(sql, rho="0.2")
        assert session.budget.spent == first.bill.spent
        assert session.query(sql, rho="0.1").estimates == first.estimates


@pytest.mark.parametrize("complete", [["x", "y"], []], ids=["complete", "may lack"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64", "bool"])
def test_conditions_hold_for_what_is_clamped(kind, complete, tmp_path, vectors):
    """Where a file is read in place, they compare its own numbers, as long as it is not loaded."""
    numbers = {"int8": [-128, -6, -5, 0, 5, 6, 127], "bool": [False, True, True]}.get(
        kind, [0, 4, 5, 6, 250 if kind == "uint8" else 2**63 - 1]
    )
    path = tmp_path / "t.parquet"
    rows = pa.table({"x": pa.array([*numbers, None], kind), "y": [1] * (len(numbers) + 1)})
    pq.write_table(rows, path)
    schema = Schema({"x": Integer(-5, 5), "y": Integer(0, 1)}, complete=complete)
    table = Table("t", path, schema)
    engine = DuckDBEngine(table)
    assert bool(engine._sql.raw.get("x")) == (kind != "bool")
    clamped = [min(max(int(number), -5), 5) for number in numbers]
    for loaded in (False, True):
        for low, high in itertools.combinations_with_replacement((-5, -4, 0, 4, 5), 2):
            both = f"x BETWEEN {low} AND {high}"
            sql = f"SELECT COUNT(*), SUM(CASE WHEN {both} THEN y ELSE 0 END) FROM t WHERE {both} OR x = 5"
            inside = sum(low <= code <= high for code in clamped)
            beside = sum(code == 5 for code in clamped) if high < 5 else 0
            found = vectors(table, sql, engine)
            assert found == [[inside + beside], [inside]], (sql, loaded)
        engine._load_rows()
    engine.close()


def test_a_file_may_have_columns_named_like_duckdbs_own(tmp_path, vectors):
    path = tmp_path / "t.parquet"
    columns = {"file_row_number": ["a", None, "b", "-1"], "file_row": [1, 2, 3, None], "x": [1, 2, 3, 4]}  # fmt: skip
    pq.write_table(pa.table(columns), path)
    kinds = {"file_row_number": Category(["a", "b"]), "file_row": Integer(0, 9)}
    table = Table("t", path, Schema({**kinds, "x": Integer(0, 9)}))
    for condition, count in {
        "x >= 2": 3, "file_row_number = 'a'": 1, "file_row >= 2": 2, "file_row IS NULL": 1,
    }.items():  # fmt: skip
        assert vectors(table, f"SELECT COUNT(*) FROM t WHERE {condition}") == [[count]]


def test_a_reversed_pandas_frame_can_be_opened(vectors):
    frame = pd.DataFrame({"x": [1, 2], "y": [3, 4]})[::-1]
    schema = Schema({"x": Integer(0, 9), "y": Integer(0, 9)})
    assert vectors(Table("t", frame, schema), "SELECT SUM(x) FROM t") == [[3]]


def test_the_vectors_are_the_right_ones(vectors):
    table = Table("t", arrow(), SCHEMA)
    count, sizes, total, *_ = vectors(table, SQL)
    # Bern (1st row falls to WHERE), Zürich, O'Hara; strangers and missing cities are in no group
    assert count == [1, 1, 1]
    assert sizes == [1, 1, 1]
    assert total == [0, 250, -5]


def test_later_changes_to_a_source_are_not_seen(vectors):
    frame = pd.DataFrame({"x": [1, 2, 3]})
    table = Table("t", frame, Schema({"x": Integer(0, 9)}))
    engine = DuckDBEngine(table)
    frame.loc[:, "x"] = 9
    assert vectors(table, "SELECT SUM(x) FROM t", engine) == [[6]]
    engine.close()


NUMBERS = [
    *(np.array([1, 0], dtype=t) for t in "bBhHiIlLqQefd?"),
    pd.array([1, 0], dtype="UInt64"),
    pd.array([True, False], dtype="boolean"),
    pd.array([1, 0], dtype="int8[pyarrow]"),
    pd.array([decimal.Decimal(1), decimal.Decimal(0)], dtype=pd.ArrowDtype(pa.decimal128(38, 0))),
    pd.array([decimal.Decimal(1), decimal.Decimal(0)], dtype=pd.ArrowDtype(pa.decimal256(50, 0))),
    pd.array([1, 0], dtype=pd.ArrowDtype(pa.float16())),
]


@pytest.mark.parametrize("values", NUMBERS, ids=lambda values: str(values.dtype))
def test_every_type_of_number_is_read(values):
    frame = pd.DataFrame({"x": values, "y": values, "z": values})
    schema = Schema({"x": Integer(-5, 300), "y": Integer(0, 2**53), "z": Real(-5, 300)})
    engine = DuckDBEngine(Table("t", frame, schema))
    found = engine._connection.execute("SELECT c0, c1, c2 FROM rows").fetchall()
    engine.close()
    assert sorted(found) == [(0, 0, 0.0), (1, 1, 1.0)]
    assert [type(value) for value in found[0]] == [int, int, float]


@pytest.mark.parametrize(
    "sql_type", ["TINYINT", "UTINYINT", "UBIGINT", "HUGEINT", "DECIMAL(38,0)", "FLOAT", "BOOLEAN"]
)
def test_values_at_the_end_of_a_type_are_clamped(sql_type, codes):
    largest = {
        "TINYINT": 2**7 - 1,
        "UTINYINT": 2**8 - 1,
        "UBIGINT": 2**64 - 1,
        "HUGEINT": 2**127 - 1,
        "DECIMAL(38,0)": 10**38 - 1,
        "FLOAT": 3e38,
        "BOOLEAN": 1,
    }[sql_type]
    relation = duckdb.connect().sql(
        f"SELECT CAST({largest} AS {sql_type}) AS x UNION ALL SELECT NULL"
    )
    bound = min(largest, 100)
    found = codes(relation, Integer(-5, 100))
    assert sorted(found, key=str) == sorted([bound, None], key=str)


def test_unsigned_128_bits_are_refused_by_type(codes):
    # arrow would hand the largest ones over as negative
    relation = duckdb.connect().sql(f"SELECT CAST({2**128 - 1} AS UHUGEINT) AS x")
    with pytest.raises(SchemaError, match="UHUGEINT"):
        codes(relation, Integer(-5, 100))


TYPES = [
    ("spans", pa.table({"x": [datetime.timedelta(1)]}), Integer(0, 9), "INTERVAL"),
    ("lists", pa.table({"x": [[1]]}), Integer(0, 9), "BIGINT[]"),
    ("bytes", pa.table({"x": [b"a"]}), Category(["a"]), "BLOB"),
    ("structs", pa.table({"x": [{"a": 1}]}), Integer(0, 9), "STRUCT"),
]


@pytest.mark.parametrize(("_name", "source", "kind", "word"), TYPES, ids=[t[0] for t in TYPES])
def test_types_that_do_not_fit_are_refused_at_opening(_name, source, kind, word, codes):
    with pytest.raises(SchemaError) as caught:
        codes(source, kind)
    assert word in str(caught.value)
    assert "Change the declaration, or convert the column" in str(caught.value)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_an_instant_of_duckdb_has_its_day_in_utc(zone, vectors):
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    values = ", ".join(
        f"(TIMESTAMPTZ '{moment}')"
        for moment in ("2024-01-01 23:59:59.9+00", "2024-01-02 00:00+00", "1969-12-31 23:00-02")
    )
    relation = connection.sql(f"SELECT *, 1 AS n FROM (VALUES {values}) AS t(d)")
    table = Table("t", relation, Schema({"d": Date("2023-12-31", "2024-01-03")}))
    engine = DuckDBEngine(table)
    assert vectors(table, "SELECT d, COUNT(*) FROM t GROUP BY d", engine) == [[1, 1, 1, 0]]
    engine.close()


class TestUnusableSources:
    @pytest.mark.parametrize("source", [None, 5, {1}, {"x": [1]}, np.array([1]), object()])
    def test_unknown_types(self, source, codes):
        with pytest.raises(SchemaError, match="is not supported"):
            codes(source, Integer(0, 9))

    def test_a_missing_column(self, codes):
        with pytest.raises(SchemaError, match="the source has no column 'x'"):
            codes(pa.table({"y": [1]}), Integer(0, 9))

    def test_a_pandas_frame_without_any_declared_column(self, codes):
        with pytest.raises(SchemaError, match="the source has no column 'x'"):
            codes(pd.DataFrame({"y": [1]}), Integer(0, 9))

    def test_a_missing_file_and_other_files(self, codes, tmp_path):
        with pytest.raises(SchemaError, match="there is no such file"):
            codes(tmp_path / "none.csv", Integer(0, 9))
        with pytest.raises(SchemaError, match="there is no Parquet file"):
            codes(tmp_path, Integer(0, 9))
        (tmp_path / "a.txt").write_text("x\n1\n")
        with pytest.raises(SchemaError, match="the file must be a .parquet or .csv file"):
            codes(tmp_path / "a.txt", Integer(0, 9))

    @pytest.mark.parametrize("read", ["table", "file", "draft"])
    @pytest.mark.parametrize("scheme", ["mysql", "postgresql+psycopg", "POSTGRESQL", "sqlite"])
    def test_a_url_is_not_shown(self, read, scheme, codes, tmp_path):
        """It may hold a password, and a notebook is shared with its errors."""
        url = f"{scheme}://u:s3cret@host/db#t.csv"
        toml = tmp_path / "t.toml"
        toml.write_text(
            f"source = {url!r}\n[columns]\nx = {{type = 'integer', low = 0, high = 9}}\n"
        )
        ways = {
            "table": lambda: codes(url, Integer(0, 9)),
            "file": lambda: Session(Table.load(toml), budget=Budget(rho=1)),
            "draft": lambda: draft_schema(url),
        }
        with pytest.raises(SchemaError, match="cannot be read from this URL") as caught:
            ways[read]()
        assert "s3cret" not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_a_csv_without_a_header_of_different_names(self, codes, tmp_path):
        path = tmp_path / "a.csv"
        for text in ("", "x,x\n1,2\n"):
            path.write_text(text)
            with pytest.raises(
                SchemaError,
                match="the first line of the CSV file does not hold different column names",
            ):
                codes(path, Integer(0, 9))

    @pytest.mark.parametrize("held", ["", "PAR1 Mallory PAR1", "cut off"])
    def test_a_file_that_is_no_whole_parquet_is_named(self, codes, tmp_path, held):
        path = tmp_path / "a.parquet"
        pd.DataFrame({"x": [1, 2]}).to_parquet(path)
        path.write_bytes(path.read_bytes()[:200] if held == "cut off" else held.encode())
        for read in (lambda: codes(path, Integer(0, 9)), lambda: summarise(path)):
            with pytest.raises((SchemaError, EngineError)) as caught:
                read()
            assert str(path) in str(caught.value)
            assert "Write or copy it again." in str(caught.value)
            assert "Mallory" not in str(caught.value)
            assert caught.value.__cause__ is caught.value.__context__ is None

    @pytest.mark.parametrize(
        "error", [MemoryError, duckdb.OutOfMemoryException, duckdb.IOException]
    )
    @pytest.mark.parametrize("kind", ["file", "frame"])
    def test_memory_is_named_where_it_is_lacking_and_nowhere_else(
        self, tmp_path, monkeypatch, error, kind
    ):
        path = tmp_path / "a.csv"
        path.write_text("x\n1\n")

        class Failing:
            def __getattr__(self, name):
                raise error("secret 42")

            def close(self):
                pass

        monkeypatch.setattr("dpnb.engines.duckdb.connected", Failing)
        monkeypatch.setattr("dpnb.engines.summary.connected", Failing)
        source = path if kind == "file" else pd.DataFrame({"x": [1]})
        table = Table("t", source, Schema({"x": Integer(0, 9)}))
        for opening in (lambda: DuckDBEngine(table), lambda: draft_schema(source)):
            with pytest.raises(EngineError) as caught:
                opening()
            said = str(caught.value)
            assert ("Free some memory" in said) == (error is not duckdb.IOException)
            assert (str(path) in said) == (kind == "file")
            assert "secret" not in said
            assert caught.value.__cause__ is caught.value.__context__ is None

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
    def test_a_csv_in_another_encoding_is_named(self, codes, tmp_path, encoding):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n1,2\n", encoding)
        with pytest.raises(SchemaError) as caught:
            codes(path, Integer(0, 9))
        assert str(caught.value) == (
            f"the CSV file is encoded in UTF-16 or UTF-32, not in UTF-8 ({path}). Save it as UTF-8."
        )
        path.write_text(path.read_text(encoding))
        codes(path, Integer(0, 9))

    @pytest.mark.parametrize(
        ("mark", "named", "written"),
        [(";", "semicolons", "';'"), ("\t", "tabs", r"'\t'"), ("|", "vertical bars", "'|'")],
    )
    def test_a_csv_with_another_delimiter_is_named_without_its_text(
        self, codes, tmp_path, mark, named, written
    ):
        path = tmp_path / "a.csv"
        # the first line of a file without a header is a person's
        for text in (f"x{mark}y\n1{mark}2\n", f"Mallory{mark}17\n", f'"Mallory"{mark}"17"\n'):
            path.write_text(text)
            for read in (lambda: codes(path, Integer(0, 9)), lambda: summarise(path)):
                with pytest.raises(SchemaError) as caught:
                    read()
                assert str(caught.value) == (
                    f"the first line of the CSV file has {named} between its values, not commas "
                    f"({path}). Save it with commas, or read it with "
                    f"pandas.read_csv(..., sep={written}) and give the frame. If its numbers are written "
                    "0,5, add decimal=','."
                )
                assert caught.value.__cause__ is caught.value.__context__ is None
        path.write_text("x,y;z\n1,2\n")
        codes(path, Integer(0, 9))

    @pytest.mark.parametrize("mark", [";", "\t", "|"])
    def test_a_csv_with_another_delimiter_is_read_as_advised(self, codes, tmp_path, mark):
        path = tmp_path / "a.csv"
        path.write_text(f"x{mark}y\n1{mark}2\n")
        frame = pd.read_csv(path, sep=mark)
        codes(frame, Integer(0, 9))
        frame.to_csv(path, index=False)
        codes(path, Integer(0, 9))

    def test_a_delimiter_in_the_name_of_another_sources_column_is_a_name(self, tmp_path):
        path = tmp_path / "a.parquet"
        frame = pd.DataFrame({"x;y": ["1;2"]})
        frame.to_parquet(path)
        assert [one.name for one in summarise(path)] == ["x;y"]
        assert [one.name for one in summarise(frame)] == ["x;y"]

    @pytest.mark.parametrize(
        "source",
        [pd.Series([1], name="x"), pd.DataFrame([[1, 2]], columns=["x", "x"])],
        ids=["series", "two columns of one name"],
    )
    def test_pandas_objects_that_are_no_tables(self, source, codes):
        with pytest.raises(SchemaError):
            codes(source, Integer(0, 9))

    def test_a_csv_whose_names_differ_by_case(self, codes, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x,X\n1,2\n")
        with pytest.raises(
            SchemaError, match="the first line of the CSV file does not hold different column names"
        ):
            codes(path, Integer(0, 9))


class TestTypesThatAreGuessedFromData:
    """pandas and polars pick a type by looking at the values; opening must not depend on that."""

    @pytest.mark.parametrize(
        "source",
        [
            pd.DataFrame({"x": [None, None]}),
            pd.DataFrame({"x": pd.Series([], dtype=object)}),
            pl.DataFrame({"x": [None, None]}),
            pa.table({"x": pa.array([None, None])}),
        ],
        ids=["pandas", "pandas empty", "polars", "pyarrow"],
    )
    @pytest.mark.parametrize("kind", [Integer(0, 9), Real(0, 9)], ids=["integer", "real"])
    def test_all_missing_numbers_can_be_opened(self, source, kind, codes):
        assert {*codes(source, kind)} <= {None}

    def test_categories_of_numbers_open_with_and_without_missing_values(self, codes):
        assert codes(pd.DataFrame({"x": pd.Categorical([1, 2])}), Category(["1", "2"])) == [0, 1]
        found = codes(pd.DataFrame({"x": pd.Categorical([1, 2, None])}), Category(["1", "2"]))
        assert sorted(found, key=str) == [0, 1, None]


def test_a_folder_that_looks_like_a_column_changes_no_value(tmp_path, vectors):
    folder = tmp_path / "x=3"
    folder.mkdir()
    path = folder / "t.parquet"
    pq.write_table(pa.table({"x": [1, 1, 2]}), path)
    schema = Schema({"x": Integer(0, 5)})
    assert vectors(Table("t", path, schema), "SELECT SUM(x) FROM t") == [[4]]


def test_a_relative_path_and_a_link_are_followed_once(tmp_path, monkeypatch):
    for name, values in (("one", [1, 1]), ("two", [2, 2, 2])):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": values}), tmp_path / name / "t.parquet")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    engine = DuckDBEngine(Table("t", "link/t.parquet", Schema({"x": Integer(0, 5)})))
    link.unlink()
    link.symlink_to(tmp_path / "two")
    monkeypatch.chdir("/")
    scan = Scan((), EVERY, ((Count(None), EVERY),))
    assert engine.measure(scan).reveal(0)[0] == 2
    (tmp_path / "one" / "t.parquet").unlink()
    with pytest.raises(EngineError, match="has changed since it was opened"):
        engine.measure(scan)
    engine.close()


def test_rows_that_are_kept_for_explanations_are_those_of_the_file(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(arrow(), path)
    engine = DuckDBEngine(Table("t", path, SCHEMA))
    scan = Scan(own(SCHEMA, "city"), EVERY, ((Count(None), EVERY),))
    before = engine.measure(scan).reveal(0)
    engine._load_rows()
    engine._load_rows()
    path.unlink()
    assert engine.measure(scan).reveal(0) == before
    engine.close()


WHOLE = [
    (), ("c",), ("long", "i"), ("listed", "number", "flag"), ("c", "long", "truth", "huge", "r", "d"),
]  # fmt: skip
"""Columns that are never missing: of a text without a place, a row is none of the table."""
LONG = os.environ.get("DPNB_LONG") == "1"


@pytest.fixture(scope="module")
def several():
    return shapes.rows()


@pytest.mark.parametrize("complete", WHOLE, ids=[*map("-".join, WHOLE)])
def test_a_file_read_in_place_and_its_frame_are_measured_alike(
    complete, tmp_path, vectors, several
):
    rows = several
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=700)
    schema = Schema(dict(shapes.schema()), complete=list(complete))
    tables = [Table("t", source, schema) for source in (rows, tmp_path / "t.parquet")]
    engines = [DuckDBEngine(table) for table in tables]
    # each statement is asked once of either end, and once of those between
    number = WHOLE.index(complete)
    start, step = {0: (0, 2), len(WHOLE) - 1: (1, 2)}.get(number, (number - 1, 3))
    for sql in shapes.STATEMENTS if LONG else shapes.STATEMENTS[start::step]:
        one, other = (
            vectors(table, sql, engine) for table, engine in zip(tables, engines, strict=True)
        )
        assert one == other, sql
    for engine in engines:
        engine.close()


def test_a_table_in_postgres_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dpnb.engines.postgres", raising=False)
    with pytest.raises(SchemaError, match="in PostgreSQL needs psycopg") as refusal:
        engine_of(Table("t", "postgresql://u:secret@h/db#t", SCHEMA))
    assert refusal.value.hint == "Run pip install 'dpnb[postgres]'."
    assert "secret" not in str(refusal.value)
    engine_of(Table("t", arrow(), SCHEMA)).close()


def test_a_statement_over_a_file_of_2000_columns_plans_those_that_it_uses(tmp_path, monkeypatch):
    """DuckDB would take a third of a second for a statement of them all."""
    names = [f"x{i}" for i in range(2_000)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(dict.fromkeys(names, pa.array([1, 2, None, 9], pa.int32()))), path)
    asked = []
    fetched = DuckDBEngine._fetched

    def noted(engine, statement, work):
        asked.append(statement)
        return fetched(engine, statement, work)

    monkeypatch.setattr(DuckDBEngine, "_fetched", noted)
    schema = Schema(dict.fromkeys(names, Integer(0, 5)), complete=names[:1_000])
    with Session(Table("t", path, schema), budget=Budget(rho=10**9)) as session:
        answer = session.query(
            "SELECT SUM(x7) AS s, COUNT(*) AS n FROM t WHERE x1999 > 1", rho=10**8
        )
    assert answer.to_frame()[["s", "n"]].round().values.tolist() == [[7, 2]]
    assert all(len(statement) < 2_000 for statement in asked)
    assert any('"x1999"' in statement for statement in asked)


class TestCsvAsOthersWriteIt:
    SCHEMA = Schema({"g": Category(["", "a", "b"]), "x": Integer(0, 9)})
    FRAME = pd.DataFrame({"g": ["a", "b", ""], "x": [1, 2, 3]})

    def rows(self, source, schema=SCHEMA):
        """The codes of all rows."""
        columns = ", ".join(f"c{i}" for i in range(len(schema)))
        with closing(DuckDBEngine(Table("t", source, schema))) as engine:
            found = engine._connection.execute(f"SELECT {columns} FROM rows").fetchall()
        return sorted(found, key=str)

    def test_with_the_index_of_pandas(self, tmp_path):
        path = tmp_path / "a.csv"
        frame = self.FRAME.replace("", "a")
        frame.to_csv(path)
        assert self.rows(path) == self.rows(frame)
        again = pd.read_csv(path)
        names = list(again.columns)
        assert [one.name for one in summarise(path)] == names == ["Unnamed: 0", "g", "x"]
        schema = Schema({"Unnamed: 0": Integer(0, 9)})
        assert self.rows(path, schema) == self.rows(again, schema)

    def test_with_the_row_names_of_r(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text('"","g","x"\n"1","a",1\n"2","b",2\n"3","",3\n')
        assert self.rows(path) == self.rows(self.FRAME)

    @pytest.mark.parametrize("last", ["", ",Unnamed: 3"])
    def test_with_several_columns_without_a_name(self, tmp_path, last):
        path = tmp_path / "a.csv"
        path.write_text(f",g,x,{last}\n0,a,1,\n1,b,2,\n")
        if last:
            with pytest.raises(SchemaError, match="does not hold different column names"):
                self.rows(path)
        else:
            assert self.rows(path) == [(1, 1), (2, 2)]

    def test_a_text_that_is_empty_in_quotes_is_a_value(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text('g,x\n"",1\na,""\n,3\n"b","2"\n')
        assert self.rows(path) == [(0, 1), (1, None), (2, 2), (None, 3)]
        other = Schema({"g": Category(["a", "other"], other="other"), "x": Integer(0, 9)})
        assert self.rows(path, other) == [(0, None), (1, 1), (1, 2), (None, 3)]

    @pytest.mark.parametrize(
        ("kind", "number"),
        [
            (Category(["a"]), 1),
            (Category(["", "a"]), 2),
            (Category(["a", "b"], other="b"), 2),
        ],
    )
    def test_an_empty_text_in_quotes_makes_a_new_version(self, kind, number):
        assert values_rule(kind, "csv") == number
        assert values_rule(Category(["a", "b"], other="b"), "VARCHAR") == 1

    def test_an_empty_text_is_no_id_in_quotes_or_without(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text('who,g,x\n"",a,1\n,a,1\n7,a,1\n')
        unit = Unit("who", max_rows=9)
        table = Table("t", path, self.SCHEMA, unit)
        with Session(table, budget=Budget(rho=1e9)) as session:
            answer = session.query("SELECT COUNT(*) AS n FROM t", rho=1e6)
        assert round(answer.to_frame().n[0]) == 1

    @pytest.mark.parametrize(
        ("raw", "what", "hint"),
        [
            (b"\x1f\x8b\x08\x00", "compressed", "Unpack it."),
            (b"PK\x03\x04\x14", "a spreadsheet or an archive", "Save its table as CSV."),
            (b"PAR1\x15\x04", "a Parquet file", "Rename it, so that it ends with .parquet."),
            (
                "g,x\n".encode("utf-16"),
                "encoded in UTF-16 or UTF-32, not in UTF-8",
                "Save it as UTF-8.",
            ),
            (
                "g,x\n".encode("utf-16-be"),
                "encoded in UTF-16 or UTF-32, not in UTF-8",
                "Save it as UTF-8.",
            ),
        ],
    )
    def test_what_is_no_text_is_named(self, tmp_path, raw, what, hint):
        path = tmp_path / "a.csv"
        path.write_bytes(raw)
        for opening in (lambda: self.rows(path), lambda: draft_schema(path)):
            with pytest.raises(SchemaError) as caught:
                opening()
            assert str(caught.value) == f"the CSV file is {what} ({path}). {hint}"

    @pytest.mark.parametrize("name", ["PK", "PAR1"])
    def test_names_that_begin_like_other_files_are_names(self, tmp_path, name):
        path = tmp_path / "a.csv"
        path.write_text(f"{name},x\n1,2\n")
        assert self.rows(path, Schema({name: Integer(0, 9)})) == [(1,)]
