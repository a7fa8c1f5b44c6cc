"""PostgreSQL and DuckDB find the same, to the last bit; nothing that rows hold makes a statement fail."""

from __future__ import annotations

import copy
import datetime
import itertools
import logging
import math
import pickle
import sys
import threading
import time
import traceback
from contextlib import closing

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pytest

import dpnb
from dpnb import Boolean, Budget, Category, Date, Integer, Real, Schema, Table, Timestamp, Unit
from dpnb.curator import Curator
from dpnb.engines.contributions import ContributionScan, Part
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.scans import engine_failure
from dpnb.errors import EngineError, InterruptedRequestError, SchemaError
from dpnb.ledger.accounts import ANALYST
from dpnb.schema.predicates import EVERY
from dpnb.schema.reading import canonical
from dpnb.sql.values import Column
from dpnb.views.measures import Scan, Sum, sum_of
from dpnb.views.measures import Units as Ids
from tests.kit.engines import (
    ON_ADULT,
    SCHEMA,
    STATEMENTS,
    OtherLooks,
    SpelledIds,
    Still,
    TheSameAnswers,
    Units,
    frame,
)
from tests.kit.engines import rows as everything
from tests.kit.engines import schema as schema_of_everything
from tests.kit.groups import own
from tests.kit.ids import UUID
from tests.kit.inside import ask, runner
from tests.kit.postgres import OWNER, PASSWORD, Server

pytestmark = pytest.mark.postgres

SECRETS = (PASSWORD, "s3cret", "p@ss", "w%rd", "s3cret%2Fp%40ss%3Aw%25rd")
INF = math.inf
TYPES = {
    pa.string(): "text",
    pa.large_string(): "text",
    pa.bool_(): "boolean",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
}


TEXTS = [
    "7", "07", "7.0", " 7", "+7", "-7", "7e0", "1.5", "1.50", ".5", "5.", "-0", "1e5", "100000", "1e400", "1e-400",
    "9007199254740993", "0x10", "1_000", "1,5", "+-7", "inf", "nan", "NA", "", "True", "TRUE", "false", "t", "a", " a",
    "1e", "e5", "1e-5", "0.30000000000000004", "123", "150.0", "٣",
]  # fmt: skip


class Place:
    """A place for tables on a server."""

    def __init__(self, server):
        self.server, self.number = server, 0

    def keep(self, rows):
        """Return the source of a new table with the rows of an arrow table or a pandas frame."""
        if isinstance(rows, pd.DataFrame):
            rows = pa.Table.from_pandas(rows, preserve_index=False)
        types = [TYPES.get(field.type, "numeric") for field in rows.schema]
        name = self.made(
            ", ".join(f'"{n}" {t}' for n, t in zip(rows.column_names, types, strict=True))
        )
        url = self.server.url(user="chief")
        with (
            psycopg.connect(url) as connection,
            connection.cursor().copy(f"COPY {name} FROM STDIN") as lines,
        ):
            for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                lines.write_row(row)
        return self.source(name)

    def made(self, columns):
        self.number += 1
        name = f"rows_{self.number}"
        self.server.execute(f"CREATE TABLE {name} ({columns})")
        self.server.execute(f"GRANT SELECT ON {name} TO {OWNER}")
        return name

    def column(self, held, *values):
        """Return the source of a new table with a column ``x`` of values, in SQL."""
        name = self.made(f"x {held}")
        for value in values:
            self.server.execute(f"INSERT INTO {name} VALUES ({value})")
        return self.source(name)

    def source(self, name):
        return f"{self.server.url()}#{name}"


@pytest.fixture(scope="session")
def place(postgres):
    return Place(postgres)


@pytest.fixture(scope="module")
def restarted():
    """A place on a server of its own, which may be stopped."""
    with Server() as server:
        yield Place(server)


def opened(table):
    from dpnb.engines.postgres import PostgresEngine

    return PostgresEngine(table)


def held(engine, names="c0"):
    found = engine._connection.execute(f"SELECT {names} FROM {engine._rows}").fetchall()
    return sorted(repr(tuple(row)) for row in found)


def both_codes(place, source, rows, kind):
    """The codes of one column ``x`` of a source, and what DuckDB makes of rows."""
    found = []
    for engine in (
        opened(Table("t", source, Schema({"x": kind}))),
        DuckDBEngine(Table("t", rows, Schema({"x": kind}))),
    ):
        engine._rows = "rows"
        found.append(held(engine))
        engine.close()
    return found


@pytest.fixture(scope="module")
def table(place):
    return Table("t", place.keep(everything()), schema_of_everything())


@pytest.fixture(scope="module")
def engine(table):
    with closing(opened(table)) as found:
        yield found


@pytest.fixture(scope="module")
def ducks():
    with closing(DuckDBEngine(Table("t", everything(), schema_of_everything()))) as found:
        yield found


class TestStatements:
    @pytest.mark.parametrize("sql", STATEMENTS)
    def test_on_everything_that_a_table_can_hold(self, sql, engine, ducks, table, vectors):
        found = vectors(table, sql, engine)
        assert found == vectors(table, sql, ducks)
        assert all(type(number) is int for vector in found for number in vector)

    def test_on_adult(self, place, vectors):
        import pyarrow.parquet as pq

        adult = dpnb.datasets.adult()
        table = Table("adult", place.keep(pq.read_table(adult.source)), adult.schema)
        with closing(opened(table)) as ours, closing(DuckDBEngine(adult)) as theirs:
            for sql in ON_ADULT:
                assert vectors(adult, sql, ours) == vectors(adult, sql, theirs)

    def test_an_empty_table(self, place, vectors):
        table = Table("t", place.keep(everything().slice(0, 0)), schema_of_everything())
        with closing(opened(table)) as ours:
            for sql in STATEMENTS[:3]:
                assert not np.any(np.concatenate(vectors(table, sql, ours)))

    def test_later_changes_are_not_seen(self, place, vectors):
        source = place.column("int", "1", "2")
        table = Table("t", source, Schema({"x": Integer(0, 9)}))
        with closing(opened(table)) as ours:
            place.server.execute(f"DROP TABLE {source.rpartition('#')[2]}")
            assert vectors(table, "SELECT COUNT(*), SUM(x) FROM t", ours) == [[2], [3]]


class TestOtherLooks(OtherLooks):
    pass


class TestUnits(Units):
    @pytest.mark.parametrize("ids", Units.IDS.values(), ids=Units.IDS)
    def test_the_same_rows_of_each_id_are_kept_as_by_duckdb(self, ids, place, vectors):
        rows, unit = self.rows(ids), Unit("person", max_rows=3, max_groups=2)
        ducks = DuckDBEngine(Table("t", rows, self.SCHEMA, unit))
        table = Table("t", place.keep(rows), self.SCHEMA, unit)
        engine = opened(table)
        for one in (ducks, engine):
            one.bound(b"secret", self.LAST if ids is self.IDS["texts"] else ())
        ducks._rows = "rows"
        names = "c0, c1, c2, c3, c4, u"
        assert held(engine, names) == held(ducks, names)
        assert 300 < len(held(engine)) <= 3 * 600
        # people count in two groups, or in all of theirs: the kept rows are the same
        everywhere = Table("t", None, self.SCHEMA, Unit("person", max_rows=3))
        for sql, asked in itertools.product(self.STATEMENTS, (table, everywhere)):
            assert vectors(asked, sql, engine) == vectors(asked, sql, ducks)
        assert self.lines_of_persons(engine, table) == self.lines_of_persons(ducks, table)
        for squared in (False, True):
            scan = self.scan(squared)
            ours, theirs = engine.contributions(scan), ducks.contributions(scan)
            assert self.lines(ours) == self.lines(theirs)
        assert engine._connection.execute("SELECT to_regclass('rows')").fetchall() == [(None,)]
        engine.close()
        ducks.close()

    def scan(self, squared):
        measures = [
            Ids(groups=2, cut=True),
            sum_of(Column("n"), self.SCHEMA, centred=False),
            sum_of(Column("r"), self.SCHEMA, centred=True),
        ]
        parts = [
            Part(
                one,
                EVERY,
                own(self.SCHEMA, "g"),
                0.25,
                norm=3.0 * one.sensitivity if isinstance(one, Sum) else 2,
            )
            for one in measures
        ]
        return ContributionScan(tuple(parts), squared=squared, ids=True)

    def lines(self, found):
        return sorted(zip(map(tuple, found.numbers.tolist()), found.counts.tolist(), strict=True))

    @pytest.mark.parametrize("largest", [1e149, 1e9, 1e-3])
    def test_orders_of_reals_of_every_size(self, largest, place):
        values = [
            sign * size
            for size in (5e-324, 1e-310, 2.0**-1060, 1e-200, 1e-150, 1e-9, 1e-4, 0.9 * largest)
            for sign in (-1, 1)
        ]
        rows = pd.DataFrame({"person": np.repeat(np.arange(8), 16), "r": values * 8})
        kinds, unit = Schema({"r": Real(-largest, largest)}), Unit("person", max_rows=5)
        found = []
        for engine in (
            opened(Table("t", place.keep(rows), kinds, unit)),
            DuckDBEngine(Table("t", rows, kinds, unit)),
        ):
            engine.bound(b"secret")
            engine._rows = getattr(engine, "_rows", "rows")
            found.append(held(engine, "u, c0"))
            engine.close()
        assert found[0] == found[1]
        assert len(found[0]) == 40

    def test_values_that_are_no_ids(self, place):
        source = place.column(
            "numeric", "1", "1.00", "1.5", "'NaN'", "'-infinity'", "1e500", "NULL"
        )
        schema = Schema({"n": Integer(0, 9)})
        with pytest.raises(SchemaError, match="no column 'n'"):
            opened(Table("t", source, schema, Unit("x", max_rows=3)))
        view = source.rpartition("#")[2]
        place.server.execute(f"CREATE VIEW {view}_n AS SELECT x, 1 AS n FROM {view}")
        place.server.execute(f"GRANT SELECT ON {view}_n TO {OWNER}")
        with closing(opened(Table("t", f"{source}_n", schema, Unit("x", max_rows=3)))) as engine:
            assert held(engine, "u") == ["('1',)", "('1',)", "('1e500',)"]

    @pytest.mark.parametrize(
        ("type_", "value", "found"),
        [
            ("char(9)", "'07 '", "'7'"),
            ("varchar(9)", "'\t7.0'", "'7'"),
            ("uuid", f"'{UUID.upper()}'", f"'{UUID}'"),
            ("smallint", "7", "7"),
            ("real", "16777216", "'16777216'"),
        ],
    )
    def test_types_of_ids(self, type_, value, found, place):
        name = place.made(f"x {type_}, n int")
        place.server.execute(f"INSERT INTO {name} VALUES ({value}, 1)")
        table = Table("t", place.source(name), Schema({"n": Integer(0, 9)}), Unit("x", max_rows=3))
        with closing(opened(table)) as engine:
            assert held(engine, "u") == [f"({found},)"]

    def test_days_are_no_ids(self, place):
        source = place.keep(pd.DataFrame({"n": [1], "day": [datetime.date(2024, 1, 1)]}))
        with pytest.raises(SchemaError, match="ids of the privacy unit are date values"):
            opened(Table("t", source, Schema({"n": Integer(0, 9)}), Unit("day", max_rows=1)))


class TestSpelledIds(SpelledIds):
    @pytest.fixture
    def whose(self, place):
        def found(rows, unit):
            with closing(opened(Table("t", place.keep(rows), self.SCHEMA, unit))) as engine:
                return dict(engine._connection.execute("SELECT c0, u FROM rows").fetchall())

        return found


@pytest.fixture
def both(place):
    """Two curators, over DuckDB and over PostgreSQL, without any noise."""
    curators = [
        Curator(Table("t", source, SCHEMA), budget=Budget(rho=50), noise=Still())
        for source in (frame(), place.keep(frame()))
    ]
    yield curators
    for curator in curators:
        curator.close()


class TestTheSameAnswers(TheSameAnswers):
    pass


class TestValues:
    @pytest.mark.parametrize(
        ("held", "values", "kind", "rows"),
        [
            ("float8", ["'NaN'", "'inf'", "'-inf'", "-0.0", "1e-320", "-1e308", "0.1", "NULL"],
             Real(-1, 1), [math.nan, INF, -INF, -0.0, 1e-320, -1e308, 0.1, None]),
            ("float8", ["0.49999999999999994", "0.5", "-0.5", "2.5", "1e300", "'NaN'", "'-inf'"],
             Integer(-9, 9), [0.49999999999999994, 0.5, -0.5, 2.5, 1e300, math.nan, -INF]),
            ("float4", ["0.1", "'NaN'", "'inf'"], Real(0, 1), np.float32([0.1, math.nan, INF])),
            ("numeric", ["0.1", "1e-400", "-1e-400", "2.47e-324", "3e-324", "12345678901234567890.5"],
             Real(-9, 1e19), [0.1, 0.0, 0.0, 0.0, 5e-324, 1e19]),
            ("numeric", ["'NaN'", "'Infinity'", "'-Infinity'", "1e400", "-1e16000", "1e308"],
             Integer(0, 7), [None, None, None, None, None, 7]),
            ("numeric", ["2.5", "-0.5", "6.4999999999999999999999", "1e-16000"],
             Integer(-7, 7), [2.5, -0.5, 6.5, 0]),
            ("numeric(6, 2)", ["1.005", "9999.99"], Real(0, 1e4), [1.01, 9999.99]),
            ("int8", ["9223372036854775807", "-9223372036854775808", "3", "NULL"],
             Integer(-(2**53), 2**53), pd.array([2**63 - 1, -(2**63), 3, None], "Int64")),
            ("int8", ["9223372036854775807", "9007199254740993", "-9223372036854775808"], Real(-1e30, 1e30),
             [2**63 - 1, 2**53 + 1, -(2**63)]),
            ("int2", ["-32768", "32767"], Integer(-5, 40_000), [-32768, 32767]),
            ("boolean", ["true", "false", "NULL"], Integer(0, 1), [1, 0, None]),
            ("boolean", ["true", "false", "NULL"], Real(0, 1), [1, 0, None]),
            ("boolean", ["true", "false", "NULL"], Boolean(), [1, 0, None]),
            ("int2", ["1", "0", "-1", "2"], Boolean(), [1, 0, None, None]),
            ("float8", ["1", "-0.0", "0.5", "'NaN'", "'inf'"], Boolean(), [1, 0, None, None, None]),
            ("numeric", ["1.00", "1e-9", "0", "'NaN'", "1e400"], Boolean(), [1, None, 0, None, None]),
            ("date", ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'",
                      "'2024-01-02'"], Date("2024-01-01", "2024-01-03"),
             np.array([None, None, "0001-01-01", "9999-12-31", "2024-01-02"], "M8[s]")),
            ("timestamp", ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31 23:59:59'",
                           "'2024-01-02 23:59:59.999999'", "'1969-12-31 23:59:59'"],
             Date("1969-12-30", "2024-01-03"),
             np.array([None, None, "0001-01-01", "9999-12-31", "2024-01-02T23:59:59",
                       "1969-12-31T23:59:59"], "M8[s]")),
        ],
    )  # fmt: skip
    def test_every_number_and_day(self, held, values, kind, rows, place, postgres):
        before = postgres.log()
        source = place.column(held, *values)
        ours, theirs = both_codes(place, source, pd.DataFrame({"x": rows}), kind)
        assert ours == theirs
        assert postgres.log() == before

    def test_texts_are_found_byte_by_byte(self, place):
        odd = [
            "", "'", '"', "a\nb", "é", "e\u0301", "☃😀", "';--", " a ", "\\", "\\'", "${x}", "%s", "a",
            "{}", "null", "\x01", "a\x00b",
        ]  # fmt: skip
        others = ["A", "a ", " a", "É", "\\\\", "\u2028", "x" * 300_000]
        texts = [one for one in [*odd, *others] if "\0" not in one]
        rows = pa.table({"x": pa.array([*texts, None], pa.string())})
        for kind in (Category(odd), Category([*odd, "rest"], other="rest")):
            ours, theirs = both_codes(place, place.keep(rows), rows, kind)
            assert ours == theirs
        assert ours.count("(None,)") == 1

    def test_the_longest_list_of_categories(self, place):
        kind = Category([f"v{i}" for i in range(65_535)])
        rows = pd.DataFrame({"x": ["v0", "v65534", "v65535"]})
        ours, theirs = both_codes(place, place.keep(rows), rows, kind)
        assert ours == theirs == ["(0,)", "(65534,)", "(None,)"]

    @pytest.mark.parametrize(
        ("held", "values", "kind", "codes"),
        [
            ("char(3)", ["'a'", "'a  '", "' a'"], Category(["a"]), [0, 0, None]),
            ("varchar(9)", ["'a'", "'a '"], Category(["a"]), [0, None]),
            ("boolean", ["true", "NULL"], Category(["true"], other="true"), [0, None]),
            ("int8", ["9223372036854775807", "7"], Category(["9223372036854775807"]), [0, None]),
            ("uuid", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
             Category(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]), [0]),
        ],
    )  # fmt: skip
    def test_what_is_a_category(self, held, values, kind, codes, place):
        with closing(
            opened(Table("t", place.column(held, *values), Schema({"x": kind})))
        ) as engine:
            found = [code for (code,) in engine._connection.execute("SELECT c0 FROM rows")]
        assert found == codes

    @pytest.mark.parametrize(
        "kind",
        [
            Category(["07.0", "1.50", "TRUE", "a", "1e5", "9007199254740993"]),
            Category(["7", "TRUE", *map(str, range(100, 400))], other="7"),
        ],
        ids=["few", "many"],
    )
    def test_a_text_is_read_by_itself(self, kind, place):
        rows = pd.DataFrame({"x": TEXTS}, dtype=object)
        ours, theirs = both_codes(place, place.keep(pa.table({"x": TEXTS})), rows, kind)
        assert ours == theirs

    def test_discovered_texts_are_canonical(self, place):
        texts = [text for text in TEXTS if text != "1e400"]
        source = place.keep(pa.table({"x": texts, "y": [1] * len(texts)}))
        schema = Schema({"y": Integer(0, 9)}, undeclared=["x"])
        with closing(opened(Table("t", source, schema))) as engine:
            found = [text for (text,) in engine._connection.execute("SELECT t0 FROM rows")]
        assert found == list(map(canonical, texts))

    def test_a_collation_that_merges_texts_changes_no_category(self, place, vectors):
        place.server.execute(
            "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        name = place.made("x text COLLATE folded, person text")
        place.server.execute(f"INSERT INTO {name} VALUES ('a', 'p'), ('A', 'P'), ('a', 'p')")
        table = Table(
            "t", place.source(name), Schema({"x": Category(["a"])}), Unit("person", max_rows=1)
        )
        with closing(opened(table)) as engine:
            assert held(engine) == ["(0,)", "(0,)", "(None,)"]
            engine.bound(b"key")
            assert held(engine, "u") == ["('P',)", "('p',)"]
            assert vectors(table, "SELECT COUNT(DISTINCT person) AS p FROM t", engine) == [[2]]

    def test_texts_that_are_not_declared(self, place):
        texts = ["a", "A", None, "a", "☃" * 100, "☃" * 101, "'\\"]
        rows = pa.table({"n": [1] * 7, "x": pa.array(texts, pa.string())})
        schema = Schema({"n": Integer(0, 9)}, undeclared=["x"])
        found = []
        for engine in (
            opened(Table("t", place.keep(rows), schema)),
            DuckDBEngine(Table("t", rows, schema)),
        ):
            tally = engine.tally(0, 1)
            found.append([*sorted(zip(tally.texts, tally.counts, strict=True)), tally.total])
            engine.close()
        assert found[0] == found[1]
        assert ("a", 2) in found[0]
        assert len(found[0]) == 5

    def test_numbers_with_a_rest_are_not_discovered(self, place):
        source = place.keep(pd.DataFrame({"n": [1], "x": [0.5]}))
        with pytest.raises(SchemaError, match="undeclared column 'x' holds float8 values"):
            opened(Table("t", source, Schema({"n": Integer(0, 9)}, undeclared=["x"])))

    def test_rows_that_lack_a_complete_value_are_left_out(self, place, vectors):
        rows = pa.table({"c": ["a", "b", None, "c"], "n": [1, 2, 3, 4]})
        columns = {"c": Category(["a", "b"]), "n": Integer(0, 9)}
        table = Table("t", place.keep(rows), Schema(columns, complete=["c"]))
        with closing(opened(table)) as engine:
            assert vectors(table, "SELECT COUNT(*), SUM(n) FROM t", engine) == [[2], [3]]

    def test_names_are_never_read_as_sql(self, place, vectors):
        names = ["c0", 'a"; DROP TABLE rows; --', "a.b", "SUM(x)", "Ä", "%s"]
        odd = 'My "odd". table'
        columns = ", ".join('"' + name.replace('"', '""') + '" int' for name in names)
        quoted = '"' + odd.replace('"', '""') + '"'
        place.server.execute(f'CREATE SCHEMA "Odd"; GRANT USAGE ON SCHEMA "Odd" TO {OWNER}')
        place.server.execute(f'CREATE TABLE "Odd".{quoted} ({columns})')
        place.server.execute(f'INSERT INTO "Odd".{quoted} VALUES (3, 3, 3, 3, 3, 3)')
        place.server.execute(f'GRANT SELECT ON "Odd".{quoted} TO {OWNER}')
        source = place.source('Odd.My "odd"%2E table')
        table = Table("t", source, Schema({name: Integer(0, 9) for name in reversed(names)}))
        with closing(opened(table)) as engine:
            for name in names:
                written = name.replace('"', '""')
                assert vectors(table, f'SELECT SUM("{written}") FROM t', engine) == [[3]]


class TestArithmetic:
    TINY = (5e-324, -5e-324, 1e-310, 1e-200, -1e-160, 1e-154, 0.0, -0.0, 0.5, 1.0)
    SQL = (
        "SELECT SUM(x * y) AS a, AVG(x * x * x * y) AS b, SUM(x / 1e150) AS c, SUM(x * 1e-150) AS d FROM t",
        "SELECT SUM((x - y) * (x + y)) AS a, AVG(x / 7) AS b, SUM(x * n) AS c, SUM(x) AS d FROM t",
        "SELECT SUM(w) AS a, AVG(w) AS b, SUM(w / 3) AS c, SUM(w * x) AS d, SUM(w * 0.3) AS e FROM t",
        "SELECT SUM(CASE WHEN x > 0 THEN x * y * w / 9 ELSE y * y END) AS a FROM t",
        "SELECT AVG(x * x * x * x * x * x * x * x * x * x * x * x * x * x * x * x) AS a FROM t",
    )

    def test_products_that_are_too_small_for_a_float_are_0(self, place, vectors, postgres):
        pairs = [(x, y, w, n % 3) for x in self.TINY for y in self.TINY
                 for n, w in enumerate((5e-324, -1e-300, 1.0, 9e148))]  # fmt: skip
        rows = pd.DataFrame(pairs, columns=["x", "y", "w", "n"])
        schema = Schema(
            {"x": Real(-1, 1), "y": Real(0, 1), "w": Real(-1e149, 1e149), "n": Integer(0, 5)}
        )
        table = Table("t", place.keep(rows), schema)
        before = postgres.log()
        with (
            closing(opened(table)) as ours,
            closing(DuckDBEngine(Table("t", rows, schema))) as ducks,
        ):
            for sql in self.SQL:
                assert vectors(table, sql, ours) == vectors(table, sql, ducks)
        assert postgres.log() == before

    def test_large_numbers_that_do_not_cancel_are_within_the_bounds(self, place, vectors, postgres):
        # 0 but for what the floats of these fractions leave over: -1e133
        rest = "((x + 1e149) / 7 * 3 + (x + 1e149) / 7 * 4 - (x + 1e149))"
        rows = pd.DataFrame({"x": [0.0, 1e-150, -1e-30, None]})
        schema = Schema({"x": Real(-1e-30, 1e-30)})
        table = Table("t", place.keep(rows), schema)
        before = postgres.log()
        with closing(opened(table)) as engine:
            for sql in (
                f"SELECT SUM({rest} * {rest}) AS s FROM t",
                f"SELECT SUM({rest} * {rest} * {rest}) AS s FROM t",
                f"SELECT SUM({rest}) AS s FROM t",
                f"SELECT SUM(({rest} - {rest} * {rest} * {rest} / 1e-60) / 1e-9) AS s FROM t",
            ):
                ((ticks,),) = vectors(table, sql, engine)
                assert 2**22 < abs(ticks) <= 3 * 2**22
        assert postgres.log() == before

    def test_large_whole_numbers_about_an_origin(self, place, ducks):
        from fractions import Fraction

        from dpnb.views.measures import sum_about

        schema = Schema({"x": Integer(2**53 - 10, 2**53)})
        rows = pd.DataFrame({"x": [2**53 - 3, 2**53, 0]})
        about = sum_about(Column("x"), schema, 2**53 - 5 + Fraction(1, 2**20))
        assert not about.rounded
        ticks = sum(int((x - about.shift) / about.step) for x in (2**53 - 3, 2**53, 2**53 - 10))
        for engine in (
            opened(Table("t", place.keep(rows), schema)),
            DuckDBEngine(Table("t", rows, schema)),
        ):
            found = engine.measure(Scan((), EVERY, ((about, EVERY),)))
            assert list(found.reveal(0)) == [ticks]
            lines = engine.contributions(ContributionScan((Part(about, EVERY, ()),)))
            assert int(lines.numbers[:, 0] @ lines.counts) == ticks
            engine.close()


class TestFingerprint:
    BASE = (
        "'a', 1, 2, 0.5, '2024-01-01', 'p'",
        "NULL, NULL, 0, NULL, NULL, ''",
        "'b', 2, 1, 0, NULL, 'q'",
    )
    SCHEMA = Schema(
        {
            "c": Category(["a", "b"]),
            "i": Integer(-5, 5),
            "j": Integer(-5, 5),
            "r": Real(-1, 1),
            "d": Date("2024-01-01", "2024-12-31"),
        }
    )

    @pytest.fixture
    def fingerprint(self, place):
        def find(rows, key=b"secret"):
            name = place.made("c text, i int, j int, r float8, d date, person text")
            for row in rows:
                place.server.execute(f"INSERT INTO {name} VALUES ({row})")
            table = Table("t", place.source(name), self.SCHEMA, Unit("person", max_rows=2))
            with closing(opened(table)) as engine:
                return engine.fingerprint(key)

        return find

    def test_what_it_sees(self, fingerprint):
        base = fingerprint(self.BASE)
        assert fingerprint(self.BASE[::-1]) == base
        # the same after normalisation
        assert fingerprint([*self.BASE[:2], "'b', 2, 1, -0.0, NULL, 'q'"]) == base
        first = "'a', 1, 2, 0.5, '2024-01-01', 'p'"
        others = [
            self.BASE[1:],
            [*self.BASE, first],
            *(
                [first.replace(old, new), *self.BASE[1:]]
                for old, new in (
                    ("'a'", "'b'"), ("'a', 1", "'a', NULL"), ("1, 2", "2, 1"),
                    ("0.5", "0.5000000000000001"), ("'2024-01-01'", "NULL"), ("'p'", "'p,'"),
                )
            ),
        ]  # fmt: skip
        found = {fingerprint(rows) for rows in others} | {base, fingerprint(self.BASE, b"other")}
        assert len(found) == len(others) + 2

    def test_of_an_empty_table(self, fingerprint):
        assert fingerprint([]) == fingerprint([])

    def test_a_ledger_knows_the_table_again(self, place, tmp_path):
        sql = "SELECT COUNT(*) FROM t"
        for spent in (True, False):
            table = Table("t", place.keep(frame()), SCHEMA)
            with dpnb.Session(table, budget=Budget(rho=1), ledger=tmp_path / "l") as session:
                assert (session.query(sql, rho=0.1).spent.rho > 0) == spent
        with pytest.raises(dpnb.DpnbError, match="other data"):
            dpnb.Session(
                Table("t", place.keep(frame(3)), SCHEMA),
                budget=Budget(rho=1),
                ledger=tmp_path / "l",
            )


def chain(error):
    seen = []
    while error is not None:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


class TestDays:
    def test_an_instant_has_its_day_in_utc(self, place):
        """Whatever the time zones of server, role and machine: PostgreSQL's own day is theirs."""
        values = ["'2024-01-01 23:59:59.999999+00'", "'2024-01-02 00:00+00'", "'infinity'", "NULL",
                  "'1969-12-31 23:00-02'", "'4713-01-01 BC'", "'294276-12-31 23:59+00'"]  # fmt: skip
        source, schema = (
            place.column("timestamptz", *values),
            Schema({"x": Date("1960-01-01", "2024-01-03")}),
        )
        found = set()
        for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
            place.server.execute(f"ALTER ROLE {OWNER} SET timezone = '{zone}'")
            engine = opened(Table("t", source, schema))
            assert engine._connection.execute("SHOW timezone").fetchone() == (zone,)
            found.add(tuple(held(engine)))
            engine.close()
        place.server.execute(f"ALTER ROLE {OWNER} RESET timezone")
        days = [19723, 19724, 0, -3653, 19725]
        assert found == {tuple(sorted([*(f"({day},)" for day in days), "(None,)", "(None,)"]))}

    @pytest.mark.parametrize(
        ("held_as", "expected"),
        [
            ("timestamptz", [0, -1, -1, 7, 9, None, None]),
            ("timestamp", [-2, -3, -3, 5, 9, None, None]),
            ("date", [-24, -24, -24, 0, 9, None, None]),
        ],
    )
    def test_a_time_is_what_a_clock_in_its_zone_shows(self, place, held_as, expected):
        values = ["'1969-12-31 22:00:00'", "'1969-12-31 21:59:59.999999'", "'1969-12-31 21:00:00'",
                  "'1970-01-01 05:30'", "'294276-12-31 23:59'", "'infinity'", "NULL"]  # fmt: skip
        kind = Timestamp("1969-12-30", "1970-01-01 09:30", resolution="hour", tz="Africa/Tripoli")
        place.server.execute(f"ALTER ROLE {OWNER} SET timezone = 'UTC'")
        source = place.column(held_as, *values)
        place.server.execute(f"ALTER ROLE {OWNER} SET timezone = 'Asia/Tokyo'")
        engine = opened(Table("t", source, Schema({"x": kind})))
        place.server.execute(f"ALTER ROLE {OWNER} RESET timezone")
        assert held(engine) == sorted(f"({code},)" for code in expected)
        engine.close()


class TestSecrets:
    def test_are_not_in_the_text_of_statements(self, place, monkeypatch):
        """``pg_stat_statements`` and ``pg_stat_activity`` show texts, of CREATE TABLE AS in full."""
        rows = pd.DataFrame({"x": ["a", "b", "c"] * 5, "n": range(15), "t": ["v"] * 15})
        schema = Schema({"n": Integer(0, 20)}, undeclared=["t"])
        source, texts = place.keep(rows), {}
        execute = psycopg.Connection.execute
        for key in (b"one key", b"another"):
            with closing(opened(Table("t", source, schema, Unit("x", max_rows=2)))) as engine:
                told = texts[key] = []

                def noted(connection, query, *rest, told=told, **more):
                    told.append(query)
                    return execute(connection, query, *rest, **more)

                monkeypatch.setattr(psycopg.Connection, "execute", noted)
                engine.fingerprint(key)
                engine.bound(key)
                engine.tally(0, 1)
                engine.measure(Scan(own(schema, "n"), EVERY, ((Ids(groups=1, cut=True), EVERY),)))
                monkeypatch.undo()
        one, other = texts.values()
        assert one == other
        assert len(one) > 4
        assert b"%s" in b"".join(one)


class TestRefusals:
    X = Schema({"x": Integer(0, 9)})

    @pytest.mark.parametrize(
        ("held", "kind", "text"),
        [
            (
                "float8",
                Category(["a"]),
                "column 'x' is declared as category but holds float8 values",
            ),
            ("text", Integer(0, 9), "column 'x' is declared as integer but holds text values"),
            ("text", Real(0, 9), "column 'x' is declared as real but holds text values"),
            ("text", Date("2024-01-01", "2024-01-02"), "is declared as date but holds text values"),
            (
                "timetz",
                Date("2024-01-01", "2024-01-02"),
                "declared as date but holds timetz values",
            ),
            ("int[]", Integer(0, 9), r"declared as integer but holds integer\[\] values"),
            ("text[]", Category(["a"]), r"declared as category but holds text\[\] values"),
            ("jsonb", Category(["a"]), "declared as category but holds jsonb values"),
            ("money", Real(0, 9), "declared as real but holds money values"),
            ("bit", Category(["1"]), "declared as category but holds bit values"),
        ],
    )
    def test_types_that_cannot_hold_the_kind(self, held, kind, text, place):
        with pytest.raises(SchemaError, match=text):
            opened(Table("t", place.column(held), Schema({"x": kind})))

    def test_types_that_are_made_by_users(self, place):
        place.server.execute(
            "CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN whole AS int8; CREATE EXTENSION citext;"
            "CREATE DOMAIN humour AS mood; CREATE DOMAIN folded AS citext"
        )
        for held, named in {
            "citext": "citext", "folded": "citext",
            "mood[]": r"public.mood\[\]", "citext[]": r"public.citext\[\]",
        }.items():  # fmt: skip
            source = place.source(place.made(f"x {held}, n int"))
            with pytest.raises(SchemaError, match=f"declared as category but holds {named} values"):
                opened(Table("t", source, Schema({"x": Category(["sad"])})))
            with pytest.raises(SchemaError, match=f"undeclared column 'x' holds {named} values"):
                opened(Table("t", source, Schema({"n": Integer(0, 9)}, undeclared=["x"])))
            with pytest.raises(SchemaError, match=f"ids of the privacy unit are {named} values"):
                opened(Table("t", source, Schema({"n": Integer(0, 9)}), Unit("x", max_rows=1)))
        opened(Table("t", place.column("whole", "1"), self.X)).close()

    @pytest.mark.parametrize("name", ["temper", "tempered"])
    def test_enums_are_texts(self, name, place):
        place.server.execute(
            "DO $$ BEGIN CREATE TYPE temper AS ENUM ('07', 'sad', 'true'); "
            "CREATE DOMAIN tempered AS temper; EXCEPTION WHEN duplicate_object THEN END $$"
        )
        values = ["sad", "07", "true", None, "sad"]
        source = place.column(name, *("NULL" if one is None else f"'{one}'" for one in values))
        rows = pd.DataFrame({"x": pd.Series(values, dtype=object)})
        for kind in (Category(["7", "sad"]), Category(["TRUE", "x"], other="x")):
            ours, theirs = both_codes(place, source, rows, kind)
            assert ours == theirs
        schema = Schema({"x": Category(["7", "sad"])})
        with closing(opened(Table("t", source, schema, Unit("x", max_rows=1)))) as engine:
            engine.bound(b"key")
            assert len(set(held(engine, "u"))) == 3
        with pytest.raises(SchemaError, match="is declared as integer but holds enum values"):
            opened(Table("t", source, self.X))

    ALIKE = "have the collation {}, to which different texts are equal"

    def test_ids_that_the_database_holds_for_one(self, place):
        """Not to be told from citext: one person of two spellings is one there, and two here."""
        place.server.execute(
            "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
            "CREATE COLLATION \"En!\" (provider = icu, locale = 'en-u-ks-level1', deterministic = false);"
            "CREATE COLLATION fine (provider = icu, locale = 'en');"
            "CREATE DOMAIN code AS text COLLATE ci; CREATE DOMAIN inner_code AS code"
        )
        unit, schema = Unit("x", max_rows=1), Schema({"n": Integer(0, 9)})
        for held in ("text COLLATE ci", "varchar(9) COLLATE ci", "char(9) COLLATE ci", "code",
                     "inner_code"):  # fmt: skip
            with pytest.raises(SchemaError, match=self.ALIKE.format("ci")):
                opened(Table("t", place.source(place.made(f"x {held}, n int")), schema, unit))
        name = place.made("x text")
        for number, (sql, refused) in enumerate({
            'x COLLATE "En!"': "En!", "lower(x COLLATE ci)": "ci", "CAST(x AS code)": "ci",
            'lower(x COLLATE ci) COLLATE "C"': "", "x COLLATE fine": "", "x": "",
        }.items()):  # fmt: skip
            view = f"view_{name}_{number}"
            place.server.execute(
                f"CREATE VIEW {view} AS SELECT {sql} AS x, 'a'::code AS c FROM {name}"
            )
            place.server.execute(f"GRANT SELECT ON {view} TO {OWNER}")
            # a category is looked up byte by byte, so its collation does not matter
            table = Table("t", place.source(view), Schema({"c": Category(["a", "A"])}), unit)
            if refused:
                with pytest.raises(SchemaError, match=self.ALIKE.format(refused)) as refusal:
                    opened(table)
                assert 'COLLATE "C"' in refusal.value.hint
            else:
                opened(table).close()

    def test_a_user_who_is_read_only(self, place, caplog):
        source = place.column("int", "1")
        place.server.execute(f"ALTER ROLE {OWNER} SET default_transaction_read_only = on")
        try:
            self.refused(source, "standby, or the user is read-only.*primary server", caplog)
        finally:
            place.server.execute(f"ALTER ROLE {OWNER} RESET default_transaction_read_only")
        opened(Table("t", source, self.X)).close()

    def refused(self, source, text, caplog):
        with caplog.at_level(logging.DEBUG), pytest.raises(SchemaError, match=text) as caught:
            Curator(Table("t", source, self.X), budget=Budget(rho=1))
        assert chain(caught.value) == [caught.value]
        shown = "".join(traceback.format_exception(caught.value)) + caplog.text
        assert not any(secret in shown for secret in SECRETS)

    def test_what_is_missing(self, place, caplog):
        url = place.server.url()
        place.server.execute("CREATE TABLE hidden (x int)")
        for source, text in (
            (f"{url}#missing", "no such table.* Check the part after #"),
            (f"{url}#nowhere.missing", "no such table"),
            (f"{url}#hidden", "no such table that the user may read"),
            (url, "the URL of the source names no table.* Write postgresql://"),
            (f"{url}#", "names no table"),
            ("postgresql://keeper:s3cret#p@ss:w%25rd@127.0.0.1/db", "names no table"),
            (place.column("int").replace(f":{place.server.port}/", ":1/"), "cannot be reached"),
            (
                f"{place.server.url(user='nobody')}#t",
                "cannot be reached.* address, user and password",
            ),
            (f"{place.server.url('nowhere')}#t", "cannot be reached"),
            ("postgresql://s3cret:p@ss:w%rd@[/#t", "cannot be reached"),
        ):
            self.refused(source, text, caplog)
        with pytest.raises(SchemaError, match="the source has no column 'y'"):
            opened(Table("t", place.column("int"), Schema({"y": Integer(0, 9)})))

    def test_a_user_without_temporary_tables(self, place, caplog):
        place.server.execute("CREATE DATABASE poor")
        place.server.execute("REVOKE TEMPORARY ON DATABASE poor FROM PUBLIC")
        self.refused(f"{place.server.url('poor')}#t", "may not make temporary tables", caplog)

    def test_a_database_of_another_encoding(self, place, caplog):
        place.server.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
        self.refused(f"{place.server.url('old')}#t", "does not use UTF-8", caplog)

    def test_without_the_package(self, place, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        monkeypatch.delitem(sys.modules, "dpnb.engines.postgres", raising=False)
        with pytest.raises(SchemaError, match=r"needs psycopg. Run pip install 'dpnb\[postgres\]'"):
            Curator(Table("t", place.source("t"), self.X), budget=Budget(rho=1))

    def test_joins(self, place):
        rows = pd.DataFrame({"x": [1, 2]})
        for one, other in ((place.keep(rows), rows), (rows, place.keep(rows))):
            tables = [
                Table("t", one, self.X),
                Table("k", other, Schema({"k": Integer(0, 9)}), public=True, key="k"),
            ]
            if isinstance(other, str):
                place.server.execute(f"ALTER TABLE {other.rpartition('#')[2]} RENAME x TO k")
            else:
                tables[1].source = rows.rename(columns={"x": "k"})
            with closing(Curator(tables, budget=Budget(rho=9))) as curator:
                session = curator.session()
                with pytest.raises(dpnb.DpnbError, match="cannot be joined yet"):
                    session.query("SELECT COUNT(*) FROM t JOIN k ON t.x = k.k", rho=0.1)
                assert session.query("SELECT COUNT(*) FROM t", rho=0.1).spent.rho > 0

    def test_a_key_that_is_not_unique(self, place):
        source = place.column("int", "1", "1")
        with pytest.raises(SchemaError, match="not unique"):
            opened(Table("k", source, self.X, public=True, key="x"))


class TestSecrecy:
    def test_nothing_shows_the_password(self, place):
        table = Table("t", place.column("int", "1"), Schema({"x": Integer(0, 9)}))
        with closing(opened(table)) as engine:
            shown = repr(table) + str(table.definition()) + repr(engine) + repr(vars(engine))
            assert not any(secret in shown for secret in SECRETS)
            assert repr(engine) == "PostgresEngine(private)"
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    use(engine)

    def test_a_file_names_the_source(self, place, tmp_path):
        source = place.column("int", "1", "2")
        path = tmp_path / "t.toml"
        path.write_text(
            f'name = "t"\nsource = "{source}"\n[columns.x]\ntype = "integer"\nlow = 0\nhigh = 9\n'
        )
        table = Table.load(path)
        assert table.source == source
        with dpnb.Session(table, budget=Budget(rho=1e6)) as session:
            found = session.query("SELECT SUM(x) AS s FROM t", rho=1e5).to_frame()
        assert found["s"][0] == pytest.approx(3, abs=0.5)


class TestFailures:
    def test_one_fixed_text(self, place, caplog):
        secret = "Mallory earns 123456"
        name = place.made("x int")
        place.server.execute(f"INSERT INTO {name} VALUES (1)")
        place.server.execute(
            f"CREATE VIEW {name}_v AS SELECT CAST('{secret}' || x AS int) AS x FROM {name}"
        )
        place.server.execute(f"GRANT SELECT ON {name}_v TO {OWNER}")
        with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
            opened(Table("t", place.source(f"{name}_v"), Schema({"x": Integer(0, 9)})))
        assert str(caught.value) == str(engine_failure())
        assert chain(caught.value) == [caught.value]
        assert secret not in "".join(traceback.format_exception(caught.value)) + caplog.text


class TestReconnecting:
    """After a restart of the server requests go on, with the same rows or not at all."""

    FIRST, SECOND = "SELECT COUNT(*) AS c FROM t", "SELECT g, COUNT(*) AS c FROM t GROUP BY g"

    @pytest.fixture
    def place(self, restarted):
        return restarted

    def cut(self, place):
        """End the connections as a restart does, but faster."""
        place.server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpnb'"
        )

    def test_a_server_that_stops_costs_nothing_and_then_it_goes_on(self, place, caplog):
        table = Table("t", place.keep(frame()), SCHEMA)
        with dpnb.Session(table, budget=Budget(rho=1)) as session:
            paid = session.query(self.FIRST, rho=0.1)
            spent = session.budget.spent
            place.server.stop()
            with caplog.at_level(logging.DEBUG), pytest.raises(EngineError) as caught:
                session.query(self.SECOND, rho=0.1)
            assert str(caught.value) == str(engine_failure())
            assert chain(caught.value) == [caught.value]
            with pytest.raises(EngineError):
                runner(session).check()
            assert session.budget.spent == spent
            assert session.query(self.FIRST, rho=0.1).to_frame().equals(paid.to_frame())
            place.server.start()
            runner(session).check()
            assert session.budget.spent == spent
            assert session.query(self.SECOND, rho=0.1).spent.rho > 0
        assert not any(secret in caplog.text for secret in SECRETS)

    def test_ids_keep_the_same_rows_in_the_same_order(self, place):
        rows = pd.DataFrame({"u": [str(i % 7) for i in range(70)], "x": range(70)})
        schema = Schema({"x": Integer(0, 69)}, undeclared=[])
        table = Table("t", place.keep(rows), schema, Unit("u", max_rows=3))
        with closing(opened(table)) as engine:
            engine.bound(b"secret")
            kept = sorted(engine._ask(["SELECT * FROM kept"]))
            self.cut(place)
            assert sorted(engine._ask(["SELECT * FROM kept"])) == kept
            assert len(kept) == 21

    @pytest.mark.parametrize(
        "change",
        [
            "INSERT INTO {} VALUES (3)",
            "UPDATE {} SET x = 2 WHERE x = 1",
            "ALTER TABLE {} ALTER x TYPE float8",
        ],
    )
    @pytest.mark.parametrize("kept", [True, False])
    def test_other_rows_are_never_taken_for_these(self, place, change, kept, tmp_path):
        name = place.made("x int")
        place.server.execute(f"INSERT INTO {name} VALUES (1)")
        table = Table("t", place.source(name), Schema({"x": Integer(0, 9)}))
        ledger = tmp_path / "l" if kept else None
        with dpnb.Session(table, budget=Budget(rho=1), ledger=ledger) as session:
            paid = session.query("SELECT COUNT(*) AS c FROM t", rho=0.1)
            place.server.execute(change.format(name))
            # until then the rows are those that were copied
            spent = session.query("SELECT SUM(x) AS s FROM t", rho=0.1).spent + paid.spent
            self.cut(place)
            for _ in range(2):
                with pytest.raises(EngineError, match="rows have changed since it was opened"):
                    session.query("SELECT AVG(x) AS a FROM t WHERE x > 0", rho=0.1)
                with pytest.raises(EngineError, match="have changed"):
                    runner(session).check()
            assert session.budget.spent == spent
            assert session.query("SELECT COUNT(*) AS c FROM t", rho=0.1).stored

    def test_a_table_that_is_not_there_yet_is_waited_for(self, place):
        name = place.made("x int")
        table = Table("t", place.source(name), Schema({"x": Integer(0, 9)}))
        with dpnb.Session(table, budget=Budget(rho=1)) as session:
            place.server.execute(f"ALTER TABLE {name} RENAME TO elsewhere")
            self.cut(place)
            with pytest.raises(EngineError) as caught:
                session.query(self.FIRST, rho=0.1)
            assert str(caught.value) == str(engine_failure())
            place.server.execute(f"ALTER TABLE elsewhere RENAME TO {name}")
            assert session.query(self.FIRST, rho=0.1).spent.rho > 0

    def test_copying_anew_can_be_interrupted(self, place, monkeypatch):
        table = Table("t", place.column("int", "1"), Schema({"x": Integer(0, 9)}))
        with closing(opened(table)) as engine:
            engine.bound(b"secret")
            load, caught = engine._load, []
            monkeypatch.setattr(engine, "_load", lambda *_: engine._ask(["SELECT pg_sleep(600)"]))
            engine._connection.close()

            def ask():
                try:
                    engine._ask(["SELECT 1"])
                except EngineError as error:
                    caught.append(error)

            worker = threading.Thread(target=ask)
            worker.start()
            asks = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(6%'"
            assert within(10, lambda: place.server.execute(asks))
            engine.interrupt(worker.ident)
            worker.join(20)
            assert len(caught) == 1
            assert not engine._running
            monkeypatch.setattr(engine, "_load", load)
            assert engine._ask(["SELECT COUNT(*) FROM rows"]) == [(1,)]


def within(seconds, condition):
    for _ in range(50 * seconds):
        if condition():
            return True
        time.sleep(0.02)
    return False


class TestInterrupts:
    def test_a_request_is_stopped_and_the_others_go_on(self, place):
        with closing(
            opened(Table("t", place.column("int", "1"), Schema({"x": Integer(0, 9)})))
        ) as engine:
            found = {}

            def ask(name, statement):
                try:
                    found[name] = engine._ask([statement])
                except EngineError as error:
                    found[name] = error

            asked = {
                "slow": "SELECT 1 FROM pg_sleep(600)",
                "given up": "SELECT 2",
                "next": "SELECT 3",
            }
            workers = {}
            for name, statement in asked.items():
                workers[name] = threading.Thread(target=ask, args=(name, statement))
                workers[name].start()
                assert within(10, lambda: len(engine._running) == len(workers))
            engine.interrupt(workers["given up"].ident)
            time.sleep(0.5)
            assert not found
            engine.interrupt(workers["slow"].ident)
            for worker in workers.values():
                worker.join(20)
            assert str(found["slow"]) == str(engine_failure())
            assert chain(found["slow"]) == [found["slow"]]
            assert found["next"] == [(3,)]
            assert not engine._running
            engine.interrupt(threading.get_ident())
            assert engine._ask(["SELECT 4"]) == [(4,)]

    def test_an_interrupted_request_is_not_charged(self, place, monkeypatch):
        table = Table("t", place.column("int", "1"), Schema({"x": Integer(0, 9)}))
        with closing(Curator(table, budget=Budget(rho=1), noise=Still())) as curator:
            engine, cancel, caught = curator._runner.engines["t"], threading.Event(), []
            whole, sql = engine._fetched, "SELECT SUM(x) FROM t"
            monkeypatch.setattr(
                engine, "_fetched", lambda _, work: whole("SELECT pg_sleep(600)", work)
            )

            def asked():
                try:
                    ask(curator, ANALYST, "query", sql, {"rho": 0.1}, cancel)
                except InterruptedRequestError as error:
                    caught.append(error)

            worker = threading.Thread(target=asked)
            worker.start()
            assert within(10, lambda: engine._running)
            cancel.set()
            runner(curator).interrupt(worker.ident)
            worker.join(20)
            assert len(caught) == 1
            monkeypatch.undo()
            session = curator.session()
            assert session.budget.spent.rho == 0
            assert session.query(sql, rho=0.1).spent.rho > 0
