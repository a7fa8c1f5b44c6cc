"""Columns in memory count and add up what DuckDB counts and adds up, and are as secret as the rows."""

from __future__ import annotations

import os
import pickle
import threading
import traceback
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpnb
from dpnb import Budget, Integer, Real, Schema, Session, Table, Unit
from dpnb.engines import arrays, duckdb
from dpnb.engines.arrays import Arrays
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.marginals import MarginalScan
from dpnb.engines.statements import StatementEngine
from dpnb.errors import EngineError
from dpnb.schema.columns import code_bytes
from dpnb.schema.predicates import EVERY, NONE, Or, Within
from dpnb.views.measures import Count, Scan
from tests.kit.engines import ON_ADULT, STATEMENTS, OtherLooks, Units, rows, schema
from tests.kit.groups import own
from tests.kit.inside import runner

pytestmark = pytest.mark.fast


def opened(table, key=b"k"):
    engine = DuckDBEngine(table)
    engine.bound(key)
    return engine


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "t.parquet"
    pq.write_table(rows(), path, row_group_size=700)
    return path


@pytest.fixture(scope="module")
def table(file):
    return Table("t", file, schema(), in_memory=list(schema()))


@pytest.fixture(scope="module")
def engine(table):
    with closing(opened(table)) as found:
        yield found


class Plain(DuckDBEngine):
    """An engine that asks DuckDB also for what an explanation needs."""

    marginals = StatementEngine.marginals


@pytest.fixture(scope="module")
def ducks():
    with closing(Plain(Table("t", rows(), schema()))) as found:
        yield found


@pytest.fixture
def covered(monkeypatch):
    """Whether each scan is measured in memory."""
    found = []
    cover = Arrays.cover

    def noted(held, scan):
        found.append(cover(held, scan))
        return found[-1]

    monkeypatch.setattr(Arrays, "cover", noted)
    return found


class TestStatements:
    # a few rows at a time, and few values that are counted one by one: both ways of adding up
    @pytest.mark.parametrize("block", [None, 64])
    def test_on_everything_that_a_table_can_hold(
        self, block, engine, ducks, table, vectors, covered, monkeypatch
    ):
        if block is not None:
            monkeypatch.setattr(arrays, "_BLOCK", block)
        for sql in STATEMENTS:
            found = vectors(table, sql, engine)
            assert found == vectors(table, sql, ducks), sql
            assert all(type(number) is int for vector in found for number in vector)
        # the others have arithmetic or CASE
        assert covered.count(True) == 55
        assert covered.count(False) == len(STATEMENTS) - 55

    def test_on_adult(self, vectors, covered):
        adult = dpnb.datasets.adult()
        kept = Table("adult", adult.source, adult.schema, in_memory=list(adult.schema))
        with closing(opened(kept)) as ours, closing(opened(adult)) as theirs:
            for sql in ON_ADULT:
                assert vectors(adult, sql, ours) == vectors(adult, sql, theirs)
        assert covered == [True] * len(ON_ADULT)

    @pytest.mark.parametrize("at_once", [True, False])
    def test_an_empty_table_and_one_of_nothing_but_missing_values(
        self, at_once, vectors, covered, monkeypatch
    ):
        monkeypatch.setattr(duckdb, "_AT_ONCE", 2**26 if at_once else -1)
        nothing = pa.table({name: pa.nulls(5, rows()[name].type) for name in schema()})
        for source, count in ((rows().slice(0, 0), 0), (nothing, 5)):
            table = Table("t", source, schema(), in_memory=list(schema()))
            with closing(opened(table)) as ours:
                assert vectors(table, STATEMENTS[0], ours) == [[count]]
                for sql in STATEMENTS[1 : 20 if at_once else 4]:
                    found = np.concatenate(vectors(table, sql, ours))
                    assert set(found.tolist()) <= {0, count}
        assert all(covered)

    def test_a_list_of_many_values_and_no_values(self, engine, ducks):
        several = Within("i", tuple((code, code) for code in range(-100, 101, 3)), null=True)
        missing = Within("i", (), null=True)
        conditions = (several, Within("i", several.intervals), NONE, missing, Or((EVERY, missing)))
        scan = Scan(
            own(schema(), "c"), EVERY, tuple((Count(None), condition) for condition in conditions)
        )
        ours, theirs = engine.measure(scan), ducks.measure(scan)
        for place in range(len(conditions)):
            assert ours.reveal(place) == theirs.reveal(place)
        assert sum(ours.reveal(0)) > sum(ours.reveal(1)) > 0 == sum(ours.reveal(2))

    def test_the_last_row_of_a_block(self, vectors):
        for count in (arrays._BLOCK - 1, arrays._BLOCK, arrays._BLOCK + 1):
            frame = pd.DataFrame({"x": np.full(count, 7)})
            table = Table("t", frame, Schema({"x": Integer(0, 9)}), in_memory=["x"])
            with closing(opened(table)) as ours:
                sql = "SELECT SUM(x), COUNT(*) FROM t"
                assert vectors(table, sql, ours) == [[7 * count], [count]]


class TestOtherLooks(OtherLooks):
    def test_attribute_sets_are_counted_as_many_at_a_time_as_fit(self, engine, ducks, monkeypatch):
        monkeypatch.setattr(arrays, "_BINS", 500)
        self.test_marginals("SELECT c, AVG(r) AS m FROM t GROUP BY c", ((0,), (2,)), engine, ducks)


class TestUnits(Units):
    def test_rows_that_are_kept_of_each_id(self, vectors, covered):
        source, unit = self.rows(self.IDS["whole numbers"]), Unit("person", max_rows=3)
        plain = Table("t", source, self.SCHEMA, unit)
        kept = Table("t", source, self.SCHEMA, unit, in_memory=list(self.SCHEMA))
        with closing(opened(kept)) as ours, closing(opened(plain)) as theirs:
            for sql in self.STATEMENTS:
                assert vectors(plain, sql, ours) == vectors(plain, sql, theirs)
        # different ids are counted by DuckDB
        assert covered == [True, *[False] * 4]


class TestColumns:
    def test_any_kind_is_held_in_as_few_bytes_as_its_declaration_allows(self, engine):
        sizes = {name: codes.values.itemsize for name, codes in engine._arrays._columns.items()}
        assert [sizes[name] for name in ("c", "long", "wide", "huge", "r")] == [1, 2, 4, 8, 8]

    def test_statements_that_use_others_are_answered_in_place(self, file, ducks, vectors, covered):
        table = Table("t", file, schema(), in_memory=["c"])
        with closing(opened(table)) as ours:
            for sql in (
                "SELECT c, COUNT(*) FROM t GROUP BY c",
                "SELECT c, SUM(i) FROM t GROUP BY c",
                "SELECT COUNT(*) FROM t WHERE i > 3",
            ):
                assert vectors(table, sql, ours) == vectors(table, sql, ducks)
        assert covered == [True, False, False]

    def test_those_that_do_not_fit_stay_in_place(self, file, ducks, vectors, covered):
        """3,000 rows with 1 byte for c, 2 for long and 1 for i."""
        sql = "SELECT c, COUNT(*) FROM t GROUP BY c"
        for size, names in (
            (0.0029, []),
            (0.003, ["c"]),
            (0.0089, ["c", "i"]),
            (0.009, ["c", "long"]),
        ):
            table = Table("t", file, schema(), in_memory=["c", "long", "i"], memory_mb=size)
            with closing(opened(table)) as ours:
                assert [*getattr(ours._arrays, "_columns", [])] == names
                assert vectors(table, sql, ours) == vectors(table, sql, ducks)
        assert covered == [True] * 3

    def test_many_rows_are_fetched_part_by_part(self, ducks, table, vectors, monkeypatch):
        monkeypatch.setattr(duckdb, "_AT_ONCE", 0)
        monkeypatch.setattr(duckdb, "_VECTORS", 1)
        with closing(opened(table)) as ours:
            for sql in STATEMENTS[:18]:
                assert vectors(table, sql, ours) == vectors(table, sql, ducks)

    def test_pairs_of_rows_are_counted_by_duckdb(self):
        unit = Unit("id", max_rows=2)
        frames = [pd.DataFrame({"id": [1, 1, 2], name: [1, 2, 3]}) for name in "xy"]
        tables = [
            Table(f"t{name}", frame, Schema({name: Integer(0, 9)}), unit, in_memory=[name])
            for name, frame in zip("xy", frames, strict=True)
        ]
        sql = "SELECT COUNT(*) AS n FROM tx JOIN ty ON tx.id = ty.id"
        with Session(tables, budget=Budget(rho=10**9)) as session:
            answer = session.query(sql, rho=10**8)
        assert answer.to_frame()["n"].round().tolist() == [5]


class TestSmallTables:
    @pytest.fixture(autouse=True)
    def as_in_use(self, monkeypatch):
        monkeypatch.setattr(duckdb, "_SMALL_MB", 8)

    @pytest.mark.parametrize("whole", [True, False])
    def test_all_columns_are_in_memory_or_none(self, whole, file, ducks, vectors, covered):
        """3,000 rows of 21 columns, 64 bytes each."""
        size = 3_000 * sum(map(code_bytes, schema().values())) / 1_000_000
        assert size == pytest.approx(0.192)
        table = Table("t", file, schema(), memory_mb=size if whole else 0.999 * size)
        with closing(opened(table)) as ours:
            assert (ours._arrays is not None) is whole
            assert ours._in_place is not whole
            for sql in STATEMENTS[:12]:
                assert vectors(table, sql, ours) == vectors(table, sql, ducks)
        assert covered == [True] * 12 * whole

    def test_what_is_computed_is_answered_from_loaded_rows(self, file, ducks, vectors, covered):
        table = Table("t", file, schema())
        with closing(opened(table)) as ours:
            sql = "SELECT SUM(i - n), AVG(-i * n) FROM t WHERE r > 0"
            assert vectors(table, sql, ours) == vectors(table, sql, ducks)
        assert covered == [False]

    @pytest.mark.parametrize("sql", ["SELECT SUM(i) FROM t", "SELECT SUM(2 * i) FROM t"])
    def test_a_small_file_must_not_change_either(self, sql, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(rows(), path)
        with Session(Table("t", path, schema()), budget=Budget(rho=1)) as session:
            session.query("SELECT COUNT(*) FROM t", rho=0.1)
            pq.write_table(rows().slice(1), path)
            with pytest.raises(EngineError, match="has changed since it was opened"):
                session.query(sql, rho=0.1)
            assert float(session.budget.spent.rho) == pytest.approx(0.1)

    def test_an_owner_can_leave_it_in_place(self, file):
        with closing(opened(Table("t", file, schema(), in_memory=()))) as ours:
            assert ours._in_place
            assert ours._arrays is None


class TestFiles:
    def test_a_file_that_was_rewritten_is_refused_and_costs_nothing(self, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(rows(), path)
        table = Table("t", path, schema(), in_memory=["c"])
        with Session(table, budget=Budget(rho=1)) as session:
            session.query("SELECT COUNT(*) FROM t", rho=0.1)
            pq.write_table(rows().slice(1), path)
            with pytest.raises(EngineError, match="has changed since it was opened"):
                session.query("SELECT c, COUNT(*) FROM t GROUP BY c", rho=0.1)
            assert float(session.budget.spent.rho) == pytest.approx(0.1)

    def test_one_that_changes_during_a_count_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "t.parquet"
        pq.write_table(rows(), path)
        measure = Arrays.measure

        def late(held, scan, check):
            found = measure(held, scan, check)
            os.utime(path, (0, 0))
            return found

        monkeypatch.setattr(Arrays, "measure", late)
        with Session(Table("t", path, schema(), in_memory=["c"]), budget=Budget(rho=1)) as session:
            with pytest.raises(EngineError, match="has changed since it was opened"):
                session.query("SELECT COUNT(*) FROM t", rho=0.1)
            assert session.budget.spent.rho == 0

    def test_the_same_ledger_goes_on_with_other_columns_in_memory(self, file, tmp_path):
        ledger = tmp_path / "t.ledger"
        with Session(Table("t", file, schema()), budget=Budget(rho=1), ledger=ledger) as session:
            first = session.query("SELECT COUNT(*) AS n FROM t", rho=0.1)
        with Session(Table("t", file, schema(), in_memory=["c"]), ledger=ledger) as session:
            again = session.query("SELECT COUNT(*) AS n FROM t", rho=0.1)
        assert again.spent.rho == 0
        assert again.to_frame().equals(first.to_frame())


class TestSecrets:
    def test_they_show_nothing_and_cannot_be_copied(self, engine):
        held = engine._arrays
        assert repr(held) == "Arrays(private)"
        for secret in (held, held._columns["i"]):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(secret)
        assert repr(held._columns["i"]) == "Codes(private)"

    def test_a_failure_says_nothing(self, engine, monkeypatch):
        def fail(*_):
            raise ValueError("row 17 is 9007199254740991")

        monkeypatch.setattr(Arrays, "measure", fail)
        with pytest.raises(EngineError) as caught:
            engine.measure(Scan((), EVERY, ((Count(None), EVERY),)))
        shown = "".join(traceback.format_exception(caught.value))
        assert "9007199254740991" not in shown
        assert "row 17" not in shown

    def test_an_interrupt_stops_between_blocks(self, engine, monkeypatch):
        monkeypatch.setattr(arrays, "_BLOCK", 8)
        counted = []
        joint = arrays._joint

        def interrupting(*arguments):
            counted.append(1)
            engine.interrupt(threading.get_ident())
            return joint(*arguments)

        monkeypatch.setattr(arrays, "_joint", interrupting)
        with pytest.raises(EngineError):
            engine.measure(Scan((), EVERY, ((Count(None), EVERY),)))
        assert counted == [1]

    def test_an_interrupt_ends_the_wait_for_what_another_request_loads(self, file):
        scan = MarginalScan(
            own(schema(), "c"), ((0,),), EVERY, None, None, (own(schema(), "truth"),)
        )
        failures = []

        def ask():
            try:
                engine.marginals(scan)
            except EngineError as error:
                failures.append(error)

        with closing(opened(Table("t", file, schema()))) as engine, engine._loading:
            worker = threading.Thread(target=ask)
            worker.start()
            while worker.is_alive():
                engine.interrupt(worker.ident)
                worker.join(0.01)
        assert len(failures) == 1

    def test_what_a_caller_has_told_numpy_does_not_matter(self, vectors):
        frame = pd.DataFrame({"r": [5e-324, 1.0, np.nan, np.inf]})
        table = Table("t", frame, Schema({"r": Real(-1e12, 1e12)}), in_memory=["r"])
        with closing(opened(table)) as ours, np.errstate(all="raise"):
            assert vectors(table, "SELECT COUNT(r) FROM t WHERE r < 1", ours) == [[1]]
            assert vectors(table, "SELECT SUM(r) FROM t", ours) == [[0]]

    def test_views_are_counted_in_memory_too(self, table):
        with closing(dpnb.Curator(table, budget=Budget(rho=10**9))) as curator:
            runner(curator).engines["t"]._fetched = None  # DuckDB is not asked
            curator.add_view(["c", "truth"], table="t")
            sql = "SELECT truth, COUNT(*) AS n FROM t GROUP BY truth"
            answer = curator.session().query(sql, rho=10**8)
        truth = rows()["truth"].to_pylist()
        counts = [truth.count(True), truth.count(False)]
        assert answer.to_frame()["n"].round().tolist() == counts
