"""What a Spark frame may hold, its fingerprint, the rows that are kept of an id, failures, interrupts."""

from __future__ import annotations

import copy
import datetime
import decimal
import itertools
import logging
import math
import pickle
import threading
import time
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpnb import Boolean, Category, Date, Integer, Real, Schema, Table, Timestamp, Unit
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.scans import engine_failure
from dpnb.engines.spark import SparkEngine
from dpnb.errors import EngineError, SchemaError
from dpnb.schema.table import is_spark
from tests.kit.engines import SpelledIds, Units

pytestmark = pytest.mark.spark

SECRET = "Mallory earns 123456"
COUNT = "SELECT COUNT(*) FROM t"


@pytest.fixture
def codes(classic, written):
    """The codes of the one column ``x``, from Spark and from DuckDB; the order of rows is free."""

    def load(rows, kind, other=None):
        schema = Schema({"x": kind})
        engine = SparkEngine(Table("t", classic.read.parquet(written(rows)), schema))
        ours = [row[0] for row in classic.sql(f"SELECT c0 FROM {engine._rows}").collect()]
        engine.close()
        ducks = DuckDBEngine(Table("t", rows if other is None else other, schema))
        theirs = [value for (value,) in ducks._connection.execute("SELECT c0 FROM rows").fetchall()]
        ducks.close()
        return ordered(ours), ordered(theirs)

    return load


def ordered(values):
    return tuple(sorted(map(repr, values)))


class TestValues:
    TEXTS = (
        "3", " 3 ", "\t3\n", "1_000", "1__0", "_1", "0x10", "1e5", "1E+2", "1e", "1e400", "1e-400",
        ".5", "5.", "+5", "+-3", "-.5", "-", "", "inf", "nan", "3d", "3f", "3L", "3,5", "1.5_0",
        "٣", "- 3", "0.1", "0.30000000000000004", "9" * 30, "1.e2", "true", "2024", "7.5", "8.49999",
    )  # fmt: skip
    DAYS = (
        "2024-01-05", "2024-1-5", " 2024/01/05 ", "2024-01/05", "2024 01 05", "20240105",
        "2024-01-05T10:00:00", "2024-01-05 10:00:00.5+02", "2024-01-05T23:30:00Z", "2024-01-05x",
        "2024-01", "2024", "infinity", "24-01-05", "02024-01-05", "12024-01-05", "-2024-01-05",
        "2024-13-01", "2024-02-30", "2024-02-29", "0000-01-01", "2024.01.05", "2024\\01\\06", "?",
        "2024-01-05 25:00:00", "9999-12-31", "now",
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("kind", "texts"),
        [
            (Boolean(), (*TEXTS, "TRUE", "fALSE", "0", "1.0", "-0", " 1 ", "1e-0")),
            (Integer(-10, 1_000), TEXTS),
            (Real(-10, 1e6), TEXTS),
            (Date("2024-01-01", "2024-12-31"), DAYS),
            (Category(["03.0", "0x10", ""]), TEXTS),
            (Category(["3", ".50", "TRUE", "a", "1e400", "9" * 30]), TEXTS),
            (Category(["3", ".50", "TRUE", "a", *map(str, range(100, 200))], other="a"), TEXTS),
        ],
        ids=["boolean", "integer", "real", "date", "category", "numbers", "many"],
    )
    def test_texts_are_read_as_in_a_csv_file(self, kind, texts, codes):
        column = [*texts, None]
        ours, theirs = codes(
            pa.table({"x": pa.array(column, pa.string())}),
            kind,
            pd.DataFrame({"x": pd.Series(column, dtype=object)}),
        )
        assert ours == theirs
        assert len(set(ours)) > 2

    @pytest.mark.parametrize(
        ("values", "type_", "kind"),
        [
            ([-0.0, 0.0, 5e-324, None], pa.float64(), Real(-1, 1)),
            ([-0.0, -3.0], pa.float64(), Real(-0.0, 1)),
            ([0.49999999999999994, 0.5, 1.5, -0.5, 1e300, -1e300], pa.float64(), Integer(-9, 9)),
            ([2.0**53 - 1, 2.0**52 + 1], pa.float64(), Integer(-(2**53), 2**53)),
            ([2**63 - 1, 2**53 + 1], pa.int64(), Real(0, 1e30)),
            ([2**63 - 1, 7, None], pa.int64(), Category(["9223372036854775807"])),
            ([-128, 127], pa.int8(), Integer(-(2**53), 2**53)),
            ([True, False, None], pa.bool_(), Category(["true"], other="true")),
            ([True, False, None], pa.bool_(), Real(0, 1)),
            ([True, False, None], pa.bool_(), Boolean()),
            ([1, 0, -1, 2, None], pa.int32(), Boolean()),
            ([1.0, -0.0, 0.5, math.nan, math.inf], pa.float64(), Boolean()),
            ([decimal.Decimal("1.00"), decimal.Decimal("0.10"), decimal.Decimal(0)], pa.decimal128(9, 2), Boolean()),
            ([True, False, None], pa.bool_(), Category(["1", "TRUE"])),
            ([7.0, 1.5, -0.0, math.nan, 1e8, None], pa.float64(), Category(["0", "07", "1.50", "nan", "1e8"])),
            ([decimal.Decimal("7.00"), decimal.Decimal("1.50")], pa.decimal128(9, 2), Category(["7", "1.5"])),
            ([7, None], pa.int64(), Date("2024-01-01", "2024-12-31")),
            ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], pa.date32(),
             Date("1600-01-01", "2024-01-01")),
            ([decimal.Decimal("0.1"), decimal.Decimal("12345678901234567.89")],
             pa.decimal128(20, 2), Real(0, 1e20)),
            ([decimal.Decimal(10**37), decimal.Decimal(3)], pa.decimal128(38, 0), Integer(0, 9)),
            ([decimal.Decimal("1.005"), decimal.Decimal("-98765432109876.123456789")],
             pa.decimal128(38, 18), Real(-1e15, 1e15)),
            # the absolute value would be rounded out of its type
            ([decimal.Decimal(1), decimal.Decimal(f"-{'9' * 20}.{'9' * 18}")],
             pa.decimal128(38, 18), Real(-5, 5)),
        ],
    )  # fmt: skip
    def test_typed_values(self, values, type_, kind, codes):
        ours, theirs = codes(pa.table({"x": pa.array(values, type_)}), kind)
        assert ours == theirs

    def test_discovered_texts_are_canonical(self, classic, written):
        path = written(
            pa.table({"x": ["07001", "7001.0", "true", "TRUE", "1.50", "word"], "y": [1] * 6})
        )
        schema = Schema({"y": Integer(0, 9)}, undeclared=["x"])
        engine = SparkEngine(Table("t", classic.read.parquet(path), schema))
        engine.bound(b"secret")
        tally = engine.tally(0, 1)
        assert dict(zip(tally.texts, tally.counts, strict=True)) == {
            "7001": 2,
            "True": 2,
            "1.5": 1,
            "word": 1,
        }
        engine.close()

    @pytest.mark.parametrize("kind", [Integer(0, 9), Real(0, 9)])
    def test_a_long_text_takes_neither_long_nor_a_deep_stack(self, kind, codes, seconds):
        """It would stop all of Spark, or keep it for minutes: whoever writes rows could do so."""
        texts = ["3", "1" + "_1" * 30_000, "1" * 50_000 + "x", " " * 50_000 + "x", "7"]
        begun = time.monotonic()
        ours, theirs = codes(pa.table({"x": texts}), kind, pd.DataFrame({"x": texts}, dtype=object))
        assert time.monotonic() - begun < seconds(30)
        assert ours == theirs
        assert ours.count("None") == 3

    def test_texts_that_are_not_utf8_are_not_discovered(self, classic, connect, written):
        """A client could not read them: that as many have one as are needed would be seen."""
        found = [b"ab", b"ab", b"cd", b"cd", b"a\xc3", b"a\xc3", b"a\xe2", b"a\xe2"]
        ends = np.cumsum([0, *map(len, found)]).astype("i4")
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(found))]
        texts = pa.Array.from_buffers(pa.string(), len(found), buffers)
        path = written(pa.table({"x": texts, "y": [1] * len(found)}))
        schema = Schema({"y": Integer(0, 9)}, undeclared=["x"])
        for session in (classic, connect):
            engine = SparkEngine(Table("t", session.read.parquet(path), schema))
            engine.bound(b"secret")
            tally = engine.tally(0, 2)
            assert dict(zip(tally.texts, tally.counts, strict=True)) == {"ab": 2, "cd": 2}
            engine.close()

    def test_odd_categories_are_found_exactly(self, codes):
        odd = ["", "'", '"', "a\nb", "a\x00b", "é", "e\u0301", "☃😀", "';--", " a ", "\\", "${x}"]
        for values in (odd, [*odd, *(f"v{i}" for i in range(30))]):
            ours, theirs = codes(pa.table({"x": [*values, "é ", "A"]}), Category(values))
            assert ours == theirs
            assert ours.count("None") == 2

    def test_the_longest_list_of_categories(self, codes):
        kind = Category([f"v{i}" for i in range(65_535)])
        ours, theirs = codes(pa.table({"x": ["v0", "v65534", "v65535"]}), kind)
        assert ours == theirs == ("0", "65534", "None")

    def test_a_collation_does_not_change_what_a_category_is(self, classic):
        frame = classic.sql("SELECT * FROM VALUES ('a'), ('A') AS t(x)").selectExpr(
            "collate(x, 'UTF8_LCASE') AS x"
        )
        engine = SparkEngine(Table("t", frame, Schema({"x": Category(["a"])})))
        found = [row[0] for row in classic.sql(f"SELECT c0 FROM {engine._rows}").collect()]
        assert sorted(found, key=str) == [0, None]
        engine.close()

    @pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
    def test_an_instant_has_its_day_in_utc(self, spark):
        micros = [0, -1, 86_399_999_999, 86_400_000_000, -86_400_000_000, -86_400_000_001]
        micros += [2**63 - 1, -(2**63), -(2**63) + 5]
        values = ", ".join(f"(timestamp_micros({number}))" for number in micros)
        schema = Schema({"d": Date("1960-01-01", "1980-01-01")})
        zone, found = spark.conf.get("spark.sql.session.timeZone"), set()
        try:
            for other in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
                spark.conf.set("spark.sql.session.timeZone", other)
                engine = SparkEngine(
                    Table("t", spark.sql(f"SELECT * FROM VALUES {values} AS t(d)"), schema)
                )
                found.add(
                    ordered(row[0] for row in spark.sql(f"SELECT c0 FROM {engine._rows}").collect())
                )
                engine.close()
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert found == {ordered([0, -1, 0, 1, -1, -2, 3652, -3653, -3653])}

    def test_a_time_is_what_a_clock_in_its_zone_shows(self, spark):
        day = "2024-10-27"
        values = [
            f"TIMESTAMP '{day} 00:30:00 UTC'", f"TIMESTAMP '{day} 01:30:00 UTC'", "timestamp_micros(-1)",
            "timestamp_micros(9223372036854775807)", "timestamp_micros(-9223372036854775808)",
        ]  # fmt: skip
        texts = [f"'{day}T02:30Z'", f"' {day} 02:30:59.9 -0130'", f"'{day}'", "'2024-02-30'", "'x'",
                 f"'{day} 5:00'", "'1969-12-31 23:59:59.5'", f"'{day} 24:00'"]  # fmt: skip
        others = [f"TIMESTAMP_NTZ '{day} 02:30:00'", "TIMESTAMP_NTZ '1969-12-31 23:59:59.5'"]
        kind = Timestamp("1969-12-31", day, resolution="hour", tz="Europe/Berlin")
        last, zone = int(kind.scale.high), spark.conf.get("spark.sql.session.timeZone")
        two, found = last - 21, []
        try:
            spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            for listed in (values, texts, others, [f"DATE '{day}'"], ["5"]):
                rows = ", ".join(f"({value})" for value in listed)
                table = Table(
                    "t", spark.sql(f"SELECT * FROM VALUES {rows} AS t(d)"), Schema({"d": kind})
                )
                engine = SparkEngine(table)
                found.append(
                    ordered(row[0] for row in spark.sql(f"SELECT c0 FROM {engine._rows}").collect())
                )
                engine.close()
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert found == [
            ordered([two, two, 0, last, -24]),
            ordered([two + 1, two + 3, two - 2, None, None, two + 3, -1, None]),
            ordered([two, -1]),
            ordered([two - 2]),
            ordered([None]),
        ]

    def test_rows_that_lack_a_complete_value_are_left_out(self, classic, vectors):
        frame = classic.sql(
            "SELECT * FROM VALUES ('a', 1), ('b', 2), (NULL, 3), ('c', 4) AS t(c, n)"
        )
        columns = {"c": Category(["a", "b"]), "n": Integer(0, 9)}
        table = Table("t", frame, Schema(columns, complete=["c"]))
        engine = SparkEngine(table)
        assert vectors(engine, table, "SELECT COUNT(*), SUM(n) FROM t") == [[2], [3]]
        engine.close()

    def test_names_of_columns_are_never_read_as_sql(self, classic, vectors):
        names = ["c0", "a`; DROP TABLE rows; --", "a.b", "SUM(x)", "Ä"]
        frame = classic.range(3).selectExpr(*("id AS x" for _ in names)).toDF(*names)
        table = Table("t", frame, Schema({name: Integer(0, 9) for name in reversed(names)}))
        engine = SparkEngine(table)
        for name in names:
            assert vectors(engine, table, f'SELECT SUM("{name}") FROM t') == [[3]]
        engine.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("sql", "kind", "text"),
        [
            (
                "DATE '2024-01-01'",
                Real(0, 1),
                "column 'x' is declared as real but holds DATE values",
            ),
            ("array(1)", Integer(0, 1), "column 'x' is declared as integer but holds ARRAY values"),
        ],
    )
    def test_types_that_cannot_hold_the_kind(self, sql, kind, text, classic):
        with pytest.raises(SchemaError, match=text):
            SparkEngine(Table("t", classic.sql(f"SELECT {sql} AS x"), Schema({"x": kind})))

    def test_two_columns_of_one_name(self, classic):
        frame = classic.sql("SELECT 1 AS a, 2 AS b").toDF("X", "X")
        with pytest.raises(SchemaError, match="the source has several columns named 'x'"):
            SparkEngine(Table("t", frame, Schema({"x": Integer(0, 1)})))

    def test_a_missing_column(self, classic):
        with pytest.raises(SchemaError, match="the source has no column 'y'"):
            SparkEngine(Table("t", classic.range(3), Schema({"y": Integer(0, 9)})))

    def test_a_stream(self, classic):
        stream = classic.readStream.format("rate").load()
        with pytest.raises(SchemaError, match="its rows change"):
            SparkEngine(Table("t", stream, Schema({"value": Integer(0, 9)})))

    def test_what_is_a_spark_frame(self, classic, connect):
        assert is_spark(classic.range(1))
        assert is_spark(connect.range(1))
        assert not is_spark(pd.DataFrame())
        assert not is_spark("t.parquet")


class TestFingerprint:
    SCHEMA = Schema(
        {
            "c": Category(["a", "b"]),
            "i": Integer(-5, 5),
            "j": Integer(-5, 5),
            "r": Real(-1, 1),
            "d": Date("2024-01-01", "2024-12-31"),
        }
    )
    ROWS = (
        ("'a'", "1", "2", "0.5D", "DATE '2024-01-01'"),
        ("'b'", "2", "1", "-0.5D", "DATE '2024-06-01'"),
        ("NULL", "NULL", "0", "NULL", "NULL"),
        ("'a'", "0", "0", "0D", "DATE '2024-01-01'"),
    )

    @pytest.fixture
    def fingerprint(self, classic):
        def find(rows, key=b"secret", partitions=2):
            values = ", ".join(f"({', '.join(row)})" for row in rows)
            frame = classic.sql(
                "SELECT CAST(c AS STRING) c, CAST(i AS INT) i, CAST(j AS INT) j, CAST(r AS DOUBLE) r, "
                f"CAST(d AS DATE) d FROM VALUES {values} AS t(c, i, j, r, d)"
            ).repartition(partitions)
            engine = SparkEngine(Table("t", frame, self.SCHEMA))
            found = engine.fingerprint(key)
            engine.close()
            return found

        return find

    def test_what_it_sees(self, fingerprint):
        base = fingerprint(self.ROWS)
        assert fingerprint(self.ROWS[::-1], partitions=3) == base
        normalised = (*self.ROWS[:3], ("'a'", "0", "0", "-0.0D", "DATE '2024-01-01'"))
        assert fingerprint(normalised) == base
        others = [self.ROWS[1:], (*self.ROWS, self.ROWS[0]), (*self.ROWS[:3], self.ROWS[2])]
        for place, value in enumerate(["'b'", "-1", "1", "0.5000000000000001D", "NULL"]):
            changed = list(self.ROWS[0])
            changed[place] = value
            others.append((tuple(changed), *self.ROWS[1:]))
        swapped = ("'a'", "2", "1", "0.5D", "DATE '2024-01-01'")
        others.append((swapped, *self.ROWS[1:]))
        found = {fingerprint(rows) for rows in others} | {base, fingerprint(self.ROWS, b"other")}
        assert len(found) == len(others) + 2

    def test_classic_and_connect_agree(self, classic, connect, written):
        path = written(pd.DataFrame({"x": np.arange(99.0)}))
        found = set()
        for session in (classic, connect):
            schema = Schema({"x": Real(0, 50)})
            engine = SparkEngine(Table("t", session.read.parquet(path), schema))
            found.add(engine.fingerprint(b"key"))
            engine.close()
        assert len(found) == 1


class TestUnits(Units):
    @pytest.mark.parametrize("ids", Units.IDS.values(), ids=Units.IDS)
    def test_the_same_rows_of_each_id_are_kept_as_by_duckdb(self, ids, classic, written, vectors):
        rows, unit = self.rows(ids), Unit("person", max_rows=3, max_groups=2)
        ducks = DuckDBEngine(Table("t", rows, self.SCHEMA, unit))
        table = Table("t", classic.read.parquet(written(rows)), self.SCHEMA, unit)
        engine = SparkEngine(table)
        for one in (ducks, engine):
            one.bound(b"secret", self.LAST if ids is self.IDS["texts"] else ())
        names = "c0, c1, c2, c3, c4, u"
        ours = classic.sql(f"SELECT {names} FROM {engine._rows}").collect()
        theirs = ducks._connection.execute(f"SELECT {names} FROM rows").fetchall()
        assert sorted(map(repr, map(tuple, ours))) == sorted(map(repr, theirs))
        assert 300 < len(ours) <= 3 * 600
        # people count in two groups, or in all of theirs: the kept rows are the same
        everywhere = Table("t", None, self.SCHEMA, Unit("person", max_rows=3))
        for sql, asked in itertools.product(self.STATEMENTS, (table, everywhere)):
            assert vectors(engine, asked, sql) == vectors(ducks, asked, sql)
        assert self.lines_of_persons(engine, table) == self.lines_of_persons(ducks, table)
        kept = engine._rows
        engine.close()
        ducks.close()
        assert not classic.catalog.tableExists(kept)

    def test_over_connect(self, connect, written, vectors):
        rows = self.rows(lambda numbers: pd.Series(numbers, dtype="Int64"))
        unit = Unit("person", max_rows=2)
        ducks = DuckDBEngine(Table("t", rows, self.SCHEMA, unit))
        table = Table("t", connect.read.parquet(written(rows)), self.SCHEMA, unit)
        engine = SparkEngine(table)
        for one in (ducks, engine):
            one.bound(b"secret")
        for sql in self.STATEMENTS[::2]:
            assert vectors(engine, table, sql) == vectors(ducks, table, sql)
        engine.close()
        ducks.close()

    @pytest.mark.parametrize("scale", [1, 18, 37])
    def test_decimals_that_are_not_whole_are_no_ids(self, scale, classic, written):
        """Nor do they become another person's, or make a statement fail."""
        near, low = f"1.{'0' * (scale - 1)}1", f"-{'9' * (38 - scale)}.5"
        values = [decimal.Decimal(one) for one in ("1", near, low, "-7")]
        rows = pa.table({"person": pa.array(values, pa.decimal128(38, scale)), "n": [1] * 4})
        schema, unit = Schema({"n": Integer(0, 9)}), Unit("person", max_rows=1)
        engine = SparkEngine(Table("t", classic.read.parquet(written(rows)), schema, unit))
        ours = [row[0] for row in classic.sql(f"SELECT u FROM {engine._rows}").collect()]
        assert sorted(one for one in ours if one is not None) == ["-7", "1"]
        engine.close()
        for source in (rows, written(rows)):
            ducks = DuckDBEngine(Table("t", source, schema, unit))
            theirs = [u for (u,) in ducks._connection.execute("SELECT u FROM rows").fetchall()]
            assert sorted(one for one in theirs if one is not None) == ["-7", "1"]
            ducks.close()

    @pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
    def test_ids_that_spark_holds_for_one_are_refused(self, spark):
        schema, unit = Schema({"n": Integer(0, 9)}), Unit("person", max_rows=1)
        for collation in ("UTF8_LCASE", "UNICODE_CI", "UNICODE", "en_AI", "UTF8_BINARY_RTRIM"):
            frame = spark.sql(f"SELECT collate('A', '{collation}') AS person, 1 AS n")
            with pytest.raises(
                SchemaError, match=f"have the collation {collation}, to which"
            ) as refusal:
                SparkEngine(Table("t", frame, schema, unit))
            assert "COLLATE UTF8_BINARY in Spark" in refusal.value.hint
            spelled = frame.selectExpr("lower(person) COLLATE UTF8_BINARY AS person", "n")
            SparkEngine(Table("t", spelled, schema, unit)).close()

    def test_dates_are_no_ids(self, classic):
        frame = classic.sql("SELECT DATE '2024-01-01' AS person, 1 AS n")
        with pytest.raises(SchemaError, match="ids of the privacy unit are DATE values"):
            SparkEngine(Table("t", frame, Schema({"n": Integer(0, 9)}), Unit("person", max_rows=1)))


class TestSpelledIds(SpelledIds):
    @pytest.fixture
    def whose(self, classic, written):
        def found(rows, unit):
            table = Table("t", classic.read.parquet(written(rows)), self.SCHEMA, unit)
            engine = SparkEngine(table)
            rows = classic.sql(f"SELECT c0, u FROM {engine._rows}").collect()
            engine.close()
            return {n: u for n, u in rows}  # noqa: C416 - of Spark's rows

        return found


def chain(error):
    seen = []
    while error is not None:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


def failing(session):
    """A frame whose own computation fails with a value in its text, for one of its rows."""
    return session.range(10).selectExpr(
        f"CASE WHEN id = 7 THEN CAST(raise_error('{SECRET}') AS BIGINT) ELSE id END AS n",
        f"CAST(CASE WHEN id = 8 THEN '{SECRET}' ELSE '1' END AS INT) AS m",
    )


class TestFailures:
    SCHEMA = Schema({"n": Integer(0, 9), "m": Integer(0, 9)})

    @pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
    @pytest.mark.parametrize("column", ["n", "m"])
    def test_one_fixed_text_and_nothing_in_logs(self, spark, column, vectors, capfd, caplog):
        frame = failing(spark)
        table = Table("t", frame, self.SCHEMA, in_memory=[])
        fixed = Table("u", frame, Schema({column: self.SCHEMA[column]}))
        engine = SparkEngine(table)
        capfd.readouterr()
        for look in (
            lambda: vectors(engine, table, f"SELECT SUM({column}) FROM t"),
            lambda: engine.fingerprint(b"key"),
            lambda: SparkEngine(fixed),
        ):
            with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
                look()
            assert str(caught.value) == str(engine_failure())
            assert chain(caught.value) == [caught.value]
            assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert SECRET not in caplog.text
        shown = capfd.readouterr()
        assert SECRET not in shown.out + shown.err
        engine.close()

    def test_a_worker_that_dies_says_no_more(self, classic, vectors):
        def dying(frames):
            import os

            os._exit(1)
            yield from frames

        frame = (
            classic.range(4).selectExpr("id AS n", "id AS m").mapInPandas(dying, "n long, m long")
        )
        with pytest.raises(EngineError) as caught:
            SparkEngine(Table("t", frame, self.SCHEMA))
        assert str(caught.value) == str(engine_failure())
        assert chain(caught.value) == [caught.value]

    def test_engines_show_nothing(self, classic):
        engine = SparkEngine(Table("t", classic.range(3), Schema({"id": Integer(0, 9)})))
        assert repr(engine) == "SparkEngine(private)"
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(engine)
        engine.close()

    @pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
    def test_a_closed_engine_leaves_nothing_behind_and_answers_nothing(self, spark, vectors):
        def views():
            return {row[1] for row in spark.sql("SHOW VIEWS").collect()}

        before = views()
        table = Table("t", spark.range(3), Schema({"id": Integer(0, 9)}))
        engine = SparkEngine(table)
        assert len(views() - before) == 1
        engine.close()
        engine.close()
        assert views() == before
        with pytest.raises(EngineError):
            vectors(engine, table, COUNT)


def within(seconds, condition):
    for _ in range(10 * seconds):
        if condition():
            return True
        time.sleep(0.1)
    return False


class TestInterrupts:
    @pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
    def test_a_scan_is_stopped_with_its_jobs(self, spark, classic, vectors):
        # hours of work; the sessions share a driver, which knows the stages of both
        frame = spark.range(0, 10**14, 1, 2).selectExpr("id % 7 AS n")
        table = Table("t", frame, Schema({"n": Integer(0, 9)}), in_memory=[])
        engine, failures = SparkEngine(table), []
        stages = classic.sparkContext.statusTracker().getActiveStageIds

        def look():
            try:
                vectors(engine, table, "SELECT SUM(n) FROM t")
            except EngineError as error:
                failures.append(str(error))

        worker = threading.Thread(target=look)
        worker.start()
        assert within(30, stages)
        engine.interrupt(worker.ident)
        worker.join(30)
        assert not worker.is_alive()
        assert failures == [str(engine_failure())]
        assert not engine._running
        assert within(30, lambda: not stages())
        engine.close()

    def test_what_is_stopped_before_it_starts_does_not_start(self, classic, vectors, monkeypatch):
        table = Table("t", classic.range(3), Schema({"id": Integer(0, 9)}))
        engine = SparkEngine(table)
        engine.interrupt(threading.get_ident())
        assert vectors(engine, table, COUNT) == [[3]]
        whole, thread = engine._tags, threading.get_ident()

        def early():
            engine.interrupt(thread)
            return whole()

        monkeypatch.setattr(engine, "_tags", early)
        with pytest.raises(EngineError):
            vectors(engine, table, COUNT)
        monkeypatch.setattr(engine, "_tags", whole)
        assert vectors(engine, table, COUNT) == [[3]]
        engine.close()
