"""Every failure of the engine becomes one fixed text, without cause, context or a trace of data."""

from __future__ import annotations

import copy
import pickle
import traceback

import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.scans import Exact, engine_failure
from dpnb.errors import EngineError
from tests.kit.inside import runner

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module", autouse=True)
def one_database():
    """Each engine opens, and locks, a database of its own."""


SCHEMA = Schema({"c": Category(["a", "b"]), "n": Integer(0, 9)})
TABLE = Table("t", pd.DataFrame({"c": ["a", "b"], "n": [1, 2]}), SCHEMA)
SECRET = "Mallory earns 123456"
SQL = "SELECT COUNT(*) FROM t"


class Broken:
    """A connection that fails with the data in its text."""

    def __init__(self, error):
        self.error = error

    def cursor(self):
        return self

    def execute(self, statement):
        try:
            raise ValueError(SECRET)
        except ValueError as inner:
            raise self.error from inner

    def close(self):
        pass


def chain(error):
    seen = []
    while error is not None:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


@pytest.fixture
def session():
    with dpnb.Session(TABLE, budget=dpnb.Budget(rho=1)) as found:
        yield found


@pytest.mark.parametrize(
    "error",
    [RuntimeError(SECRET), MemoryError(SECRET), OverflowError(SECRET), UnicodeError(SECRET)],
    ids=lambda error: type(error).__name__,
)
def test_one_fixed_text(error, session, monkeypatch, capfd, caplog):
    engine = runner(session).engines["t"]
    whole = engine._connection
    monkeypatch.setattr(engine, "_connection", Broken(error))
    before = session.budget.spent
    with pytest.raises(EngineError) as caught:
        session.query(SQL, rho=0.1)
    assert str(caught.value) == str(engine_failure())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert len(chain(caught.value)) == 1
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert session.budget.spent == before
    assert len(session.history) == 0
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(engine, "_connection", whole)
    assert session.query(SQL, rho=0.1).spent.rho > 0


def test_a_failure_of_the_fingerprint_says_no_more(monkeypatch):
    engine = DuckDBEngine(TABLE)
    whole = engine._connection
    monkeypatch.setattr(engine, "_connection", Broken(RuntimeError(SECRET)))
    with pytest.raises(EngineError) as caught:
        engine.fingerprint(b"key")
    assert chain(caught.value) == [caught.value]
    assert SECRET not in str(caught.value)
    whole.close()


def test_an_engine_out_of_memory_says_the_same():
    engine = DuckDBEngine(Table("t", pd.DataFrame({"c": ["a"] * 9, "n": [1] * 9}), SCHEMA))
    engine.close()
    with pytest.raises(EngineError) as caught:
        engine.fingerprint(b"key")
    assert str(caught.value) == str(engine_failure())
    assert chain(caught.value) == [caught.value]


class Unprintable:
    def __str__(self):
        raise ValueError(SECRET)

    __repr__ = __str__


def lazy_polars(folder):
    import polars as pl

    (folder / "rows.csv").write_text(f"c,n\na,{SECRET}\n")
    return pl.scan_csv(folder / "rows.csv", schema={"c": pl.String, "n": pl.Int64})


def duckdb_relation(folder):
    import duckdb

    return duckdb.sql(f"SELECT 'a' AS c, CAST(x AS INT) AS n FROM (SELECT '{SECRET}' AS x)")


def odd_objects(folder):
    return pd.DataFrame({"c": pd.Series(["a", Unprintable()], dtype=object), "n": [1, 2]})


def half_characters(folder):
    return pd.DataFrame({"c": pd.Series(["a", f"{SECRET}\ud800"], dtype=object), "n": [1, 2]})


def wide_numbers(folder):
    import polars as pl

    return pl.DataFrame({"c": ["a"], "n": pl.Series([2**100], dtype=pl.Int128)})


class TestSourcesThatFailWhileRead:
    SOURCES = (lazy_polars, duckdb_relation, odd_objects, half_characters, wide_numbers)

    @pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
    def test_no_value_is_in_the_text(self, source, tmp_path):
        try:
            dpnb.Session(Table("t", source(tmp_path), SCHEMA), budget=dpnb.Budget(rho=1)).close()
        except dpnb.DpnbError as error:
            shown = "".join(traceback.format_exception(error))
            assert SECRET not in shown
            assert len(chain(error)) == 1


class TestSecrecy:
    def test_exact_vectors_show_nothing(self):
        exact = Exact([[123456, 2]])
        assert "123456" not in f"{exact} {exact!r} {[exact]} {exact!s:>20}"
        assert not hasattr(exact, "__dict__")
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(exact)

    def test_engines_show_nothing(self):
        engine = DuckDBEngine(TABLE)
        assert repr(engine) == "DuckDBEngine(private)"
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(engine)
        engine.close()
