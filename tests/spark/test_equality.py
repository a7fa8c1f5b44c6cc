"""Spark and DuckDB give the same exact vectors, to the last bit, for every shape of statement."""

from __future__ import annotations

import numpy as np
import pytest

import dpnb
from dpnb import Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.spark import SparkEngine
from dpnb.schema.predicates import EVERY
from dpnb.sql.values import Column
from dpnb.views.measures import Sum, sum_of
from tests.kit.engines import ON_ADULT, STATEMENTS, OtherLooks, rows, schema

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(rows(), path)
    return path


@pytest.fixture(scope="module")
def ducks(source):
    engine = DuckDBEngine(Table("t", rows(), schema()))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def table(classic, source):
    # cached: what is tried is each statement, not the reader of files
    return Table("t", classic.read.parquet(str(source)).cache(), schema())


@pytest.fixture(scope="module")
def engine(table):
    engine = SparkEngine(table)
    yield engine
    engine.close()


class TestStatements:
    @pytest.mark.parametrize("sql", STATEMENTS)
    def test_on_everything_that_a_table_can_hold(self, sql, engine, ducks, table, vectors):
        found = vectors(engine, table, sql)
        assert found == vectors(ducks, table, sql)
        assert all(type(number) is int for vector in found for number in vector)

    def test_on_adult(self, classic, connect, vectors):
        adult = dpnb.datasets.adult()
        ducks = DuckDBEngine(adult)
        for session in (classic, connect):
            frame = session.read.parquet(str(adult.source))
            engine = SparkEngine(Table("adult", frame, adult.schema))
            for sql in ON_ADULT:
                assert vectors(engine, adult, sql) == vectors(ducks, adult, sql)
            engine.close()
        ducks.close()

    def test_over_connect(self, connect, source, ducks, vectors):
        table = Table("t", connect.read.parquet(str(source)), schema())
        engine = SparkEngine(table)
        for sql in STATEMENTS[1:16:4]:
            assert vectors(engine, table, sql) == vectors(ducks, table, sql)
        engine.close()

    def test_a_statement_is_one_statement_for_spark(self, engine, table, vectors, monkeypatch):
        asked = []
        monkeypatch.setattr(engine, "_spark", Listening(engine._spark, asked))
        vectors(engine, table, STATEMENTS[14])
        assert len(asked) == 1


class Listening:
    """A session that notes what it is asked."""

    def __init__(self, spark, asked):
        self.spark, self.asked = spark, asked

    def sql(self, statement):
        self.asked.append(statement)
        return self.spark.sql(statement)

    def __getattr__(self, name):
        return getattr(self.spark, name)


class TestOtherLooks(OtherLooks):
    pass


class TestSums:
    def test_sums_of_large_whole_numbers_are_taken_in_two_parts(self, engine):
        for name, parts in (("i", 1), ("wide", 2), ("huge", 1)):
            measure = sum_of(Column(name), schema(), centred=False)
            assert isinstance(measure, Sum)
            assert len(engine._sql.terms(measure, EVERY)) == parts

    def test_an_empty_table(self, classic, source, vectors):
        table = Table("t", classic.read.parquet(str(source)).limit(0), schema())
        engine = SparkEngine(table)
        for sql in STATEMENTS[:3]:
            assert not np.any(np.concatenate(vectors(engine, table, sql)))
        engine.close()
