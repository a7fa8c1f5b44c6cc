"""Whole sessions over a Spark frame: the same answers as over DuckDB, before and after Spark has gone."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import dpnb
from dpnb import Budget, Integer, Schema, Table
from dpnb.curator import Curator
from dpnb.engines.spark import SparkEngine
from dpnb.errors import EngineError, InterruptedRequestError
from dpnb.ledger.accounts import ANALYST
from tests.kit.engines import QUERY, SCHEMA, Still, TheSameAnswers, frame
from tests.kit.inside import ask, runner

pytestmark = pytest.mark.spark


@pytest.fixture
def both(classic, written):
    """Two curators, over DuckDB and over Spark, without any noise."""
    rows = frame()
    sources = rows, classic.read.parquet(written(rows))
    curators = [
        Curator(Table("t", source, SCHEMA), budget=Budget(rho=50), noise=Still())
        for source in sources
    ]
    yield curators
    for curator in curators:
        curator.close()


class TestTheSameAnswers(TheSameAnswers):
    pass


class TestPrivately:
    @pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
    def test_a_session_with_noise(self, spark, written):
        table = Table("t", spark.read.parquet(written(frame())), SCHEMA)
        with dpnb.Session(table, budget=Budget(rho=50)) as session:
            answer = session.query(QUERY, rho=20)
            rows = answer.to_frame()
            truth = frame().query("n > 2")["g"].value_counts()
            assert np.allclose(rows["rows"], truth[["a", "b", "c"]], atol=20)
            again = session.query(QUERY, rho=20)
            assert again.spent.rho == 0
            assert again.to_frame().equals(rows)

    def test_a_ledger_knows_the_table_again(self, classic, written, tmp_path):
        path, ledger = written(frame()), tmp_path / "t.ledger"
        for spent in (True, False):
            table = Table("t", classic.read.parquet(path), SCHEMA)
            with dpnb.Session(table, budget=Budget(rho=1), ledger=ledger) as session:
                assert (session.query(QUERY, rho=0.1).spent.rho > 0) == spent
        other = Table("t", classic.read.parquet(written(frame(3))), SCHEMA)
        with pytest.raises(dpnb.DpnbError, match="other data"):
            dpnb.Session(other, budget=Budget(rho=1), ledger=ledger)

    def test_an_interrupted_request_is_not_charged(self, classic):
        schema = Schema({"n": Integer(0, 9)})
        many = classic.range(0, 10**13, 1, 2).selectExpr("id % 7 AS n")
        curator = Curator(Table("t", many.limit(10), schema), budget=Budget(rho=1), noise=Still())
        few, slow = (
            curator._runner.engines["t"],
            SparkEngine(Table("t", many, schema, in_memory=[])),
        )
        curator._runner.engines["t"] = slow
        cancel, caught = threading.Event(), []

        def asked():
            try:
                ask(curator, ANALYST, "query", "SELECT SUM(n) FROM t", {"rho": 0.1}, cancel)
            except InterruptedRequestError as error:
                caught.append(error)

        worker = threading.Thread(target=asked)
        worker.start()
        while not slow._running and worker.is_alive():
            time.sleep(0.001)
        cancel.set()
        runner(curator).interrupt(worker.ident)
        worker.join(30)
        assert not worker.is_alive()
        assert caught
        session = curator.session()
        assert session.budget.spent.rho == 0
        curator._runner.engines["t"] = few
        assert session.query("SELECT SUM(n) FROM t", rho=0.1).spent.rho > 0
        slow.close()
        curator.close()


STOPPING = """
    import warnings
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession
    import dpnb
    from dpnb.errors import EngineError

    def spark():
        found = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config(
            "spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "512m").config(
            "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
        found.sparkContext.setLogLevel("OFF")
        return found

    def opened(session):
        frame = session.range(0, 1000, 1, 1).selectExpr("id % 10 AS n")
        table = dpnb.Table("t", frame, dpnb.Schema({"n": dpnb.Integer(0, 9)}))
        return dpnb.Session(table, budget=dpnb.Budget(rho=1), ledger="t.ledger")

    first, second = "SELECT COUNT(*) AS c FROM t", "SELECT n, COUNT(*) AS c FROM t GROUP BY n"
    running = spark()
    session = opened(running)
    paid = session.query(first, rho=0.1)
    spent = session.budget.spent
    running.stop()
    try:
        session.query(second, rho=0.1)
    except EngineError as error:
        assert error.__context__ is None and error.__cause__ is None
        assert "Nothing was charged" in str(error), str(error)
    else:
        raise AssertionError
    assert session.budget.spent == spent
    again = session.query(first, rho=0.1)
    assert again.spent.rho == 0 and again.to_frame().equals(paid.to_frame())
    session.close()

    running = spark()
    session = opened(running)
    assert session.query(first, rho=0.1).spent.rho == 0
    assert session.query(second, rho=0.1).spent.rho > 0
    session.close()
    running.stop()
    print("done")
"""


def test_a_spark_that_is_stopped_costs_nothing_and_what_was_paid_stays(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STOPPING)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.stdout.strip() == "done", done.stderr[-3000:]


def test_a_failing_request_leaves_the_session_whole(classic, tmp_path):
    rows = classic.range(10).selectExpr(
        "id AS n", "CASE WHEN id = 7 THEN CAST(raise_error('x') AS BIGINT) END AS m"
    )
    schema = Schema({"n": Integer(0, 9), "m": Integer(0, 9)})
    # the fingerprint reads every column, so it is what fails first
    with pytest.raises(EngineError) as caught:
        dpnb.Session(Table("t", rows, schema), budget=Budget(rho=1), ledger=tmp_path / "ledger")
    assert caught.value.__context__ is None
