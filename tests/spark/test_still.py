"""A Spark frame stands still: no row moves between two answers, whatever becomes of its source.

A row that is counted in ten parts of a table is charged for one of them, as parts share the budget.
"""

from __future__ import annotations

import datetime
import time
from importlib import import_module

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpnb
from dpnb import Budget, Category, Date, Integer, Schema, Table, Unit
from dpnb.engines.scans import changed_rows, engine_failure
from dpnb.engines.spark import SparkEngine
from dpnb.errors import EngineError, SchemaError
from tests.kit.inside import runner
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.spark

PARTS = ("a", "b", "c")
SCHEMA = Schema({"part": Category(PARTS), "n": Integer(0, 9)})
BOTH = pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)


def asked(part):
    return f"SELECT COUNT(*) AS n FROM t WHERE part = '{part}'"


class File:
    """A Parquet file that is replaced by one of the same size and time."""

    def __init__(self, spark, classic, folder):
        self.spark, self.path = spark, folder / "rows.parquet"

    def write(self, part):
        import os

        table = pa.table({"id": [1, 2], "part": [part, "a"], "n": [1, 2]})
        pq.write_table(table, self.path, use_dictionary=False, compression="none")
        os.utime(self.path, (10**9, 10**9))

    def frame(self):
        return self.spark.read.parquet(str(self.path))


class Saved:
    """A saved table that is overwritten in the same Spark."""

    def __init__(self, spark, classic, folder):
        self.spark, self.classic, self.name = spark, classic, f"saved{time.time_ns()}"

    def write(self, part):
        rows = self.classic.createDataFrame(
            [(1, part, 1), (2, "a", 2)], "id int, part string, n int"
        )
        rows.write.mode("overwrite").saveAsTable(self.name)

    def frame(self):
        return self.spark.table(self.name)


class Database(Saved):
    """A table in another database, read through JDBC."""

    URL = "jdbc:derby:memory:rows;create=true"

    def write(self, part):
        rows = self.classic.createDataFrame(
            [(1, part, 1), (2, "a", 2)], "id int, part string, n int"
        )
        rows.write.mode("overwrite").jdbc(self.URL, self.name)

    def frame(self):
        return self.spark.read.jdbc(self.URL, self.name)


PERSON = Unit("id", max_rows=1)
SOURCES = pytest.mark.parametrize(
    ("spark", "source", "unit"),
    [
        ("classic", File, None),
        ("classic", Saved, PERSON),
        ("classic", Database, None),
        ("connect", File, PERSON),
        ("connect", Saved, None),
        ("connect", Database, PERSON),
    ],
    indirect=["spark"],
)


@pytest.fixture
def place(source, spark, classic, tmp_path):
    found = source(spark, classic, tmp_path)
    found.write("a")
    return found


class TestFixed:
    @SOURCES
    def test_the_loss_is_what_was_charged(self, place, unit):
        noise, found = NoNoise(), []
        table = Table("t", place.frame(), SCHEMA, unit)
        with dpnb.Session(table, budget=Budget(rho=1), noise=noise) as session:
            for part in PARTS:
                place.write(part)
                found.append(round(session.query(asked(part), rho=0.1).to_frame()["n"][0]))
            # the person who moves is counted once: all their answers cost what one of them costs
            assert found == [2, 0, 0]
            assert float(session.budget.spent.rho) == pytest.approx(0.1)

    def test_rows_of_the_opening_are_kept_of_an_id(self, classic, tmp_path):
        place = File(classic, classic, tmp_path)
        place.write("b")
        engine = SparkEngine(Table("t", place.frame(), SCHEMA, PERSON))
        place.write("c")
        seal = engine.fingerprint(b"key")
        engine.bound(b"key")
        rows = classic.sql(f"SELECT c0 FROM {engine._rows} ORDER BY u").collect()
        assert [row[0] for row in rows] == [1, 0]
        assert engine.fingerprint(b"key") == seal
        engine.close()

    def test_a_lost_executor_is_an_error_and_costs_nothing(self, classic):
        frame = classic.range(9).selectExpr("'a' AS part", "id AS n")
        with dpnb.Session(Table("t", frame, SCHEMA), budget=Budget(rho=1)) as session:
            paid = session.query(asked("a"), rho=0.1)
            for fixed in runner(session).engines["t"]._fixed.values():
                fixed._jdf.queryExecution().logical().rdd().unpersist(True)
            with pytest.raises(EngineError) as caught:
                session.query(asked("b"), rho=0.1)
            assert str(caught.value) == str(engine_failure())
            assert caught.value.__context__ is None
            assert session.budget.spent == paid.spent
            assert session.query(asked("a"), rho=0.1).stored

    def test_a_closed_table_takes_no_room(self, classic):
        def held():
            return set(classic.sparkContext._jsc.getPersistentRDDs())

        # frames of other tests may be cleaned up meanwhile
        before = held()
        frame = classic.range(9).selectExpr("id", "'a' AS part", "id AS n")
        for unit in (None, PERSON):
            session = dpnb.Session(Table("t", frame, SCHEMA, unit), budget=Budget(rho=1))
            assert len(held() - before) == 1
            session.close()
            assert not held() - before
        twice = Table(
            "d", classic.sql("SELECT 1 AS n FROM range(2)"), Schema({"n": Integer(0, 9)}),
            public=True, key="n",
        )  # fmt: skip
        with pytest.raises(SchemaError, match="not unique"):
            SparkEngine(twice)
        assert not held() - before


class TestInPlace:
    """With ``in_memory=[]`` every request reads the frame again."""

    @SOURCES
    def test_changed_rows_are_refused_before_anything_is_charged(self, place, unit):
        table = Table("t", place.frame(), SCHEMA, unit, in_memory=[])
        with dpnb.Session(table, budget=Budget(rho=1), noise=NoNoise()) as session:
            paid = session.query(asked("a"), rho=0.1)
            assert paid.to_frame()["n"][0] == 2
            place.write("b")
            # what a source says of its change is its own; a saved table may have lost its files
            with pytest.raises(EngineError, match="rows have changed|could not carry out"):
                session.query(asked("b"), rho=0.1)
            assert session.budget.spent == paid.spent
            assert session.query(asked("a"), rho=0.1).stored

    def test_they_stay_refused(self, classic):
        rows = [(1, "a", 1)]
        name = f"moving{time.time_ns()}"

        def put(rows):
            classic.createDataFrame(rows, "id int, part string, n int").write.mode(
                "overwrite"
            ).jdbc(Database.URL, name)

        put(rows)
        table = Table("t", classic.read.jdbc(Database.URL, name), SCHEMA, in_memory=[])
        with dpnb.Session(table, budget=Budget(rho=1)) as session:
            session.query(asked("a"), rho=0.1)
            put([(1, "b", 1)])
            for again in (False, True):
                with pytest.raises(EngineError) as caught:
                    session.query(asked("b"), rho=0.1)
                assert str(caught.value) == str(changed_rows())
                put(rows)
                assert again or session.budget.spent.rho * 10 == 1

    @pytest.mark.parametrize(
        "options",
        [{"unit": PERSON}, {"unit": Unit("id", max_rows=2)}, {"public": True, "key": "id"}],
        ids=["one row", "pairs", "key"],
    )
    def test_of_tables_that_are_joined_each_is_compared(self, classic, options):
        name = f"joined{time.time_ns()}"

        def put(value):
            classic.createDataFrame([(1, value)], "id int, n int").write.mode("overwrite").jdbc(
                Database.URL, name
            )

        put(1)
        left = classic.createDataFrame([(1, "a")], "id int, part string")
        ids = {} if "unit" in options else {"id": Integer(0, 9)}
        tables = [
            Table("l", left, Schema({"part": Category(PARTS), **ids}), PERSON if not ids else None),
            Table("r", classic.read.jdbc(Database.URL, name), Schema({"n": Integer(0, 9), **ids}),
                  in_memory=[], **options),
        ]  # fmt: skip
        sql = "SELECT r.n, COUNT(*) AS c FROM l JOIN r ON l.id = r.id WHERE {} GROUP BY r.n"
        with dpnb.Session(tables, budget=Budget(rho=1)) as session:
            session.query(sql.format("part = 'a'"), rho=0.01)
            put(2)
            with pytest.raises(EngineError, match="rows have changed"):
                session.query(sql.format("part = 'b'"), rho=0.01)


REFUSED = {
    "not deterministic": [
        "SELECT rand() AS n FROM range(3)",
        "SELECT rand(1) AS n FROM range(3)",
        "SELECT id AS n FROM range(3) WHERE randn() > 0",
        "SELECT id AS n FROM range(3) WHERE EXISTS (SELECT 1 FROM range(3) WHERE rand() < .5)",
        "SELECT monotonically_increasing_id() AS n FROM range(3)",
        "SELECT uuid() AS s, id AS n FROM range(3)",
        "SELECT id AS n FROM range(3) ORDER BY rand()",
        "SELECT reflect('java.lang.System', 'nanoTime') AS s, id AS n FROM range(3)",
    ],
    "names the current date, time or user": [
        "SELECT datediff(current_date(), DATE '2026-01-01') AS n",
        "SELECT day(current_timestamp) AS n",
        "SELECT second(now()) AS n",
        "SELECT id AS n FROM range(3) WHERE localtimestamp() > TIMESTAMP_NTZ '2026-01-01'",
        "SELECT unix_timestamp() AS n",
        "SELECT length(current_user()) AS n",
        "SELECT length(session_user) AS n",
        "SELECT length(current_timezone()) AS n",
        "SELECT length(current_schema()) AS n",
        "SELECT day(CAST('today' AS DATE)) AS n",
        "SELECT day(to_date('tomorrow')) AS n",
        "SELECT id AS n FROM range(3) WHERE timestamp_seconds(id) < 'now'",
        "WITH x AS (SELECT day(curdate()) AS n) SELECT n FROM x UNION ALL SELECT 1",
        "SELECT id AS n FROM range(3) WHERE id < (SELECT MAX(day(now())) FROM range(2))",
    ],
}
STILL = [
    "SELECT id AS n FROM range(3) ORDER BY id LIMIT 2",
    "SELECT COUNT(*) AS n, first(id) AS f, collect_list(id) AS l FROM range(3)",
    "SELECT id AS `now()`, id AS `rand()`, 'today' AS current_date, id AS n FROM range(3)",
    "SELECT datediff(DATE '2026-02-01', `current_date()`) AS n FROM "
    "(SELECT DATE '2026-01-01' AS `current_date()`, 'now' AS s)",
    "SELECT 1 AS `datediff(current_date(), joined)`, CAST('epoch' AS DATE) AS d, 1 AS n",
    "SELECT CAST(now AS DATE) AS d, 1 AS n FROM (SELECT '2026-01-01' AS now)",
    "SELECT " + ", ".join(f"id AS x{i}" for i in range(60)) + ", id AS n FROM range(3)",
]


class TestPlans:
    COUNTED = Schema({"n": Integer(0, 9)})

    @BOTH
    @pytest.mark.parametrize("what", REFUSED)
    def test_rows_that_change_by_themselves_are_refused(self, spark, what):
        for number, sql in enumerate(REFUSED[what]):
            # however deep in views and however far down a list of columns
            spark.sql(sql).createOrReplaceTempView("inner_view")
            names = ", ".join(f"n + {i} AS x{i}" for i in range(30 * (number % 2)))
            frame = spark.sql(f"SELECT {names}{', ' if names else ''} n FROM inner_view")
            in_memory = [None, []][number % 2]
            with pytest.raises(SchemaError, match=what) as refusal:
                SparkEngine(Table("t", frame, self.COUNTED, in_memory=in_memory))
            assert "read them from there" in refusal.value.hint
        assert not [row for row in spark.sql("SHOW VIEWS").collect() if row[1].startswith("dpnb")]

    @BOTH
    def test_the_hint_works(self, spark, tmp_path):
        sql = "SELECT datediff(current_date(), DATE '2026-01-01'), CAST(rand() * 9 AS INT) AS n"
        path = str(tmp_path / "rows")
        spark.sql(sql).write.parquet(path)
        frame = spark.read.parquet(path)
        assert "current_date()" in frame.columns[0]
        SparkEngine(Table("t", frame, self.COUNTED)).close()

    @BOTH
    def test_others_are_opened(self, spark):
        for sql in STILL:
            SparkEngine(Table("t", spark.sql(sql), self.COUNTED, in_memory=[])).close()
        setting = "spark.sql.debug.maxToStringFields"
        assert spark.conf.get(setting) == "25"

    @BOTH
    def test_functions_in_python_are_asked_what_they_are(self, spark):
        remote = type(spark).__module__.startswith("pyspark.sql.connect")
        udf = import_module(f"pyspark.sql{'.connect' if remote else ''}.functions").udf
        moving = udf(lambda n: n, "long").asNondeterministic()
        with pytest.raises(SchemaError, match="not deterministic"):
            SparkEngine(Table("t", spark.range(3).select(moving("id").alias("n")), self.COUNTED))

    def test_days_since_a_date_are_counted_from_a_fixed_day(self, classic):
        joined = datetime.date(2026, 1, 1)
        rows = classic.createDataFrame([(joined,)], "joined date")
        with pytest.raises(SchemaError, match="current date"):
            dpnb.Session(
                Table("t", rows.selectExpr("datediff(curdate(), joined) AS n"), self.COUNTED),
                budget=Budget(rho=1),
            )
        fixed = rows.selectExpr("datediff(DATE '2026-01-05', joined) AS n", "joined")
        schema = Schema({"n": Integer(0, 9), "joined": Date("2026-01-01", "2026-12-31")})
        dpnb.Session(Table("t", fixed, schema), budget=Budget(rho=1)).close()
