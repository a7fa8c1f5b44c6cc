"""One value that cannot be decoded is missing, and changes nothing for anybody else."""

from __future__ import annotations

import os
import struct

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpnb import Budget, Category, Curator, Date, Integer, Schema, Session, Table, Unit
from dpnb.engines import duckdb as engines
from dpnb.engines.decoding import undecodable
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import DpnbError, EngineError, SchemaError

LATIN = b"caf\xe9"
FAR = 2**62
ROWS = 3_000
KEY = bytes(32)


def texts(values):
    """An arrow column of texts that need not be UTF-8."""
    return pa.array(values, pa.binary()).view(pa.string())


def times(values):
    return pa.array(values, pa.int64()).cast(pa.timestamp("ms"))


def dictionary(column):
    found = pc.dictionary_encode(column.view(pa.binary()))
    return pa.DictionaryArray.from_arrays(found.indices, found.dictionary.view(pa.string()))


def view(column):
    return column.view(pa.binary()).cast(pa.binary_view()).view(pa.string_view())


HELD = {
    "string": lambda column: column,
    "large_string": lambda column: column.cast(pa.large_string()),
    "string_view": view,
    "dictionary": dictionary,
    "run ends": pc.run_end_encode,
    "opaque": lambda column: pa.ExtensionArray.from_storage(pa.opaque(pa.utf8(), "t", "v"), column),
}
PANDAS = {
    "string": lambda column: pd.arrays.ArrowStringArray(
        pa.chunked_array([column.cast(pa.large_string())]), dtype=pd.StringDtype("pyarrow")
    ),
    "arrow": lambda column: pd.arrays.ArrowExtensionArray(pa.chunked_array([column])),
    "python": lambda column: pd.array(
        [None if v is None else v.decode(errors="surrogateescape") for v in
         column.view(pa.binary()).to_pylist()],
        dtype=pd.StringDtype("python"),
    ),
}  # fmt: skip


def annotated(path):
    """Annotate the column x of a small file as an enumeration: the bytes of its footer are Thrift's."""
    raw = path.read_bytes()
    start = len(raw) - 8 - struct.unpack("<I", raw[-8:-4])[0]
    text, enumeration = b"\x18\x01x\x25\x00\x4c\x1c\x00\x00", b"\x18\x01x\x25\x08\x4c\x4c\x00\x00"
    assert raw[start:].count(text) == 1
    path.write_bytes(raw[:start] + raw[start:].replace(text, enumeration))


ROLES = {
    "declared": (Schema({"x": Category(["a", "b"]), "y": Integer(0, 9)}), None),
    "other": (Schema({"x": Category(["a", "b"], other="b"), "y": Integer(0, 9)}), None),
    "undeclared": (Schema({"y": Integer(0, 9)}, undeclared=["x"]), None),
    "id": (Schema({"y": Integer(0, 9)}), Unit("x", max_rows=2)),
    "all": (Schema({"x": Category(["a", "b"])}, undeclared=["y"]), None),
    "columns": (
        Schema(
            {"x": Category(["a", "b"]), "o": Category(["a", "b"], other="b"), "y": Integer(0, 9)},
            undeclared=["w"],
        ),
        None,
    ),
}
PARTS = {"columns": ["declared", "other", "undeclared"], "id": ["id"]}
"""Roles that are read together: without its id a row has no values to be compared."""
SQL = {
    "declared": ["SELECT x, COUNT(*) FROM t GROUP BY x", "SELECT COUNT(*) FROM t WHERE x = 'a'"],
    "id": ["SELECT COUNT(DISTINCT x) FROM t", "SELECT SUM(y) FROM t"],
}


def rows(last, *, role="declared", count=ROWS):
    values = [b"a", b"b", *(b"k%d" % i for i in range(count - 2)), last]
    y = texts([b"1"] * count + [LATIN]) if role == "all" else pa.array([3] * len(values))
    return {"x": texts(values), "y": y}


def codes(source, role):
    """All that is read of a source, in any order."""
    schema, unit = ROLES[role]
    engine = DuckDBEngine(Table("t", source, schema, unit=unit))
    try:
        engine.bound(KEY)
        names = ", ".join(
            [*map(engine._sql.column, schema), *engine._sql.texts(), *(["u"] if unit else [])]
        )
        rows = engine._connection.execute(f"SELECT {names} FROM rows").fetchall()
        return sorted(rows, key=repr)
    finally:
        engine.close()


def outcome(source, schema, unit, statements):
    """What an analyst can tell apart without a look at the numbers."""
    found = []
    table = Table("t", source, schema, unit=unit)
    with Session(table, budget=Budget(rho="1e6", key_delta="1e-7")) as session:
        asked = [lambda sql=sql: session.query(sql, rho=1) for sql in statements]
        asked += [lambda name=name: session.discover(name, rho=1) for name in schema.undeclared]
        for ask in asked:
            try:
                found.append(type(ask()).__name__)
            except DpnbError as error:
                found.append(str(error))
    return found


def answered(source, role="declared"):
    schema, unit = ROLES[role]
    statements = SQL.get(role, ["SELECT COUNT(*) FROM t"])
    found = outcome(source, schema, unit, statements)
    assert set(found) <= {"Answer", "Discovery"}, found
    return found


def alike(bad, missing, role, *, asked):
    """Whether sources with a value that cannot be decoded, and without it, are read and answered alike."""
    assert codes(bad, role) == codes(missing, role)
    if asked:
        assert answered(bad, role) == answered(missing, role)


def written(folder, columns, **settings):
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=700, **settings)
    return path


@pytest.fixture(params=[True, False], ids=["statistics", "no statistics"])
def statistics(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["dictionary", "plain"])
def dictionaries(request):
    return request.param


def ways(values):
    """Each value with half of the ways to write, so that every pair of choices occurs."""
    return [
        pytest.param(value, kept, kept != place % 2, id=f"{value}-{'+' if kept else '-'}")
        for place, value in enumerate(values)
        for kept in (True, False)
    ]


class TestParquet:
    @pytest.fixture
    def write(self, tmp_path, statistics, dictionaries):
        return lambda columns: written(
            tmp_path, columns, write_statistics=statistics, use_dictionary=dictionaries
        )

    @pytest.mark.parametrize(
        ("role", "statistics", "dictionaries"),
        ways(["declared", "other", "undeclared", "id", "all"]),
    )
    def test_a_text_that_is_not_utf_8_is_missing(self, write, role, statistics):
        bad = write(rows(LATIN, role=role))
        missing = write(rows(None, role=role))
        alike(bad, missing, role, asked=statistics)

    @pytest.mark.parametrize(
        ("value", "statistics", "dictionaries"), ways([FAR, -FAR, 2**63 - 1, -(2**63)])
    )
    def test_a_time_beyond_microseconds_is_missing(self, write, value):
        schema = Schema({"d": Date("1960-01-01", "1980-01-01"), "g": Category(["a", "b"])})
        queries = ["SELECT COUNT(d) FROM t", "SELECT COUNT(*) FROM t WHERE g = 'a'"]
        inside = [0, -1, -86_400_001, 86_399_999, (2**63 - 1) // 1000, -((2**63 - 1) // 1000)]
        found = []
        for last in (value, None):
            days = times([*inside, *range(ROWS), last])
            path = write({"d": days, "g": ["a", "b"] * (len(days) // 2) + ["a"] * (len(days) % 2)})
            # asked once: what is read is the same
            if value == FAR:
                assert outcome(path, schema, None, queries) == ["Answer"] * 2
            engine = DuckDBEngine(Table("t", path, schema))
            found.append(engine._connection.execute("SELECT * FROM rows").fetchall())
            engine.close()
        assert sorted(found[0], key=repr) == sorted(found[1], key=repr)

    @pytest.mark.parametrize(("place", "statistics", "dictionaries"), ways([0, 1_234, ROWS]))
    def test_every_value_is_decoded_when_the_file_is_opened(self, write, place):
        for held, make, good, bad in (
            ("VARCHAR", texts, b"a", LATIN),
            ("TIMESTAMP", times, 0, FAR),
        ):
            x = [good] * ROWS
            x.insert(place, bad)
            columns = {"x": make(x), "y": make([good] * len(x)), "z": make([bad] * len(x))}
            path, types = write(columns), dict.fromkeys(columns, held)
            with duckdb.connect() as connection:
                found = undecodable(connection, f"read_parquet('{path}')", types)
            assert found == ["x", "z"]

    def test_columns_that_are_not_read_do_not_matter(self, write):
        path = write({"x": ["a"] * 9, "d": times([FAR] * 9), "z": texts([LATIN] * 9)})
        engine = DuckDBEngine(Table("t", path, Schema({"x": Category(["a"])})))
        assert engine._files is not None
        engine.close()

    def test_readable_files_stay_where_they_are(self, write):
        path = write(rows(None) | {"d": times([0] * (ROWS + 1))})
        schema = Schema({"x": Category(["a"]), "d": Date("1960-01-01", "1980-01-01")})
        engine = DuckDBEngine(Table("t", path, schema))
        assert engine._files is not None
        engine.close()


class TestMended:
    SCHEMA = Schema({"x": Category(["a", "b"]), "y": Integer(0, 2**40), "g": Category(["m", "w"])})

    def test_values_of_a_row_stay_together(self, tmp_path):
        count = 300_000
        numbers = np.arange(count)
        x = texts([*(b"a" if i % 3 else b"b" for i in range(count - 1)), LATIN])
        g = pa.array(np.where(numbers % 5 == 0, "m", "w"))
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table({"x": x, "y": numbers, "g": g}), path, row_group_size=20_000)
        engine = DuckDBEngine(Table("t", path, self.SCHEMA))
        found = engine._connection.execute("SELECT c0, c1, c2 FROM rows ORDER BY c1").fetchnumpy()
        engine.close()
        assert (np.ma.getmaskarray(found["c0"]) == (numbers == count - 1)).all()
        assert (found["c1"] == numbers).all()
        assert (found["c0"][:-1] == (numbers % 3 == 0)[:-1]).all()
        assert (found["c2"] == (numbers % 5 != 0)).all()

    def test_fingerprints_tell_data_apart_and_again_the_same(self, tmp_path):
        def fingerprint(columns):
            engine = DuckDBEngine(Table("t", written(tmp_path, columns), self.SCHEMA))
            try:
                return engine.fingerprint(KEY)
            finally:
                engine.close()

        columns = {"x": texts([b"a", LATIN]), "y": [1, 2], "g": ["m", "w"]}
        assert fingerprint(columns) == fingerprint(columns)
        assert fingerprint(columns) != fingerprint({**columns, "y": [1, 3]})

    def test_explanations_and_joins(self, tmp_path):
        people = written(tmp_path, {"x": texts([b"a", b"b", LATIN] * 50), "y": [1, 2, 3] * 50, "g": ["m", "w", "w"] * 50})  # fmt: skip
        places = written(tmp_path, {"x": texts([b"a", b"b", LATIN]), "n": texts([b"k", LATIN, b"l"])})  # fmt: skip
        known = Table("p", places, Schema({"x": Category(["a", "b"]), "n": Category(["k", "l"])}), key="x", public=True)  # fmt: skip
        table = Table("t", people, self.SCHEMA)
        curator = Curator([table, known], budget=Budget(rho=100), analysts={"ann": 1})
        session = curator.session("ann")
        joined = session.query("SELECT n, COUNT(*) FROM t JOIN p ON t.x = p.x GROUP BY n", rho=20)
        assert joined.to_frame().iloc[0, 1] == pytest.approx(50, abs=5)
        answer = session.query("SELECT g, SUM(y) FROM t GROUP BY g", rho=10)
        assert session.explain(answer.compare("w", "m"), rho=10, k=2, anyway=True)
        curator.close()

    def test_a_file_that_changes_while_it_is_opened(self, tmp_path, monkeypatch):
        path = written(tmp_path, {"x": texts([b"a", LATIN]), "y": [1, 2], "g": ["m", "w"]})

        def decoded(*given):
            found = decoded_before(*given)
            path.write_bytes(path.read_bytes() + b" ")
            return found

        decoded_before = engines.decoded
        monkeypatch.setattr(engines, "decoded", decoded)
        with pytest.raises(EngineError):
            DuckDBEngine(Table("t", path, self.SCHEMA))

    def test_texts_that_arrow_takes_for_bytes(self, tmp_path):
        """Some writers annotate the texts of an enumeration as such."""
        good = ["Zürich".encode()] * 4 + [b"Bern"]
        schema = Schema({"x": Category(["Zürich", "Bern"])})
        found = []
        for name, last in (("bad", LATIN), ("missing", None), ("good", b"Bern")):
            path = tmp_path / f"{name}.parquet"
            pq.write_table(pa.table({"x": texts([*good, last])}), path, store_schema=False)
            annotated(path)
            assert pq.read_schema(path).field("x").type == pa.binary()
            engine = DuckDBEngine(Table("t", path, schema))
            found.append(engine._connection.execute("SELECT * FROM rows").fetchall())
            engine.close()
        assert found == [[(0,)] * 4 + [(1,), (one,)] for one in (None, None, 1)]

    @pytest.mark.parametrize("names", [["X", "x"], ["x", "x"], ["X", "x", "x_1"], ["y", "x", "X"]])
    def test_names_that_are_alike_are_refused_whatever_the_values(self, tmp_path, names):
        for last in (b"a", LATIN):
            path = tmp_path / "x.parquet"
            columns = [texts([b"a", last]) for _ in names]
            pq.write_table(pa.Table.from_arrays(columns, names=names), path)
            with pytest.raises(
                SchemaError,
                match="two columns of the Parquet file differ only in upper and lower case",
            ):
                DuckDBEngine(Table("t", path, Schema({names[-1]: Category(["a", "b"])})))

    @pytest.mark.parametrize("last", [b"a", LATIN])
    def test_names_of_parts_are_their_own(self, tmp_path, last):
        path = tmp_path / "x.parquet"
        parts = pa.array([{"x": "b", "X": [{"y": "b"}]}] * 2)
        columns = {"s": parts, "x": texts([b"a", last]), "x.y": ["b", "b"], "y": [1, 2], "s.x": ["b", "b"]}  # fmt: skip
        pq.write_table(pa.table(columns), path)
        engine = DuckDBEngine(Table("t", path, Schema({"x": Category(["a", "b"])})))
        found = engine._connection.execute("SELECT * FROM rows").fetchall()
        engine.close()
        assert found == [(0,), (0 if last == b"a" else None,)]

    @pytest.mark.parametrize("explained", [False, True])
    def test_whether_a_file_was_changed_is_asked_of_all_alike(self, tmp_path, explained):
        """Also when it was only touched: a refusal would tell of the value that cannot be decoded."""
        found = []
        for last in (LATIN, b"b"):
            path = written(tmp_path, {"x": texts([b"a", last]), "y": [1, 2], "g": ["m", "w"]})
            with Session(Table("t", path, self.SCHEMA), budget=Budget(rho=100)) as session:
                answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1)
                if explained:
                    session.explain(answer.compare("w", "m"), rho=10, k=2, anyway=True)
                os.utime(path, ns=(1, 1))
                try:
                    found.append(type(session.query("SELECT SUM(y) FROM t", rho=1)).__name__)
                except EngineError as error:
                    found.append(str(error))
        assert found[0] == found[1]
        assert "has changed since it was opened" in found[0]

    @pytest.mark.parametrize(
        "failure", [duckdb.OutOfMemoryException, duckdb.InterruptException, duckdb.IOException]
    )
    def test_other_failures_are_no_unreadable_values(self, failure):
        class Broken:
            def cursor(self):
                return self

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def execute(self, _):
                raise failure("no")

        with pytest.raises(failure):
            undecodable(Broken(), "t", {"x": "VARCHAR"})


def held_in(make, held, ways_to_hold, reading):
    """A text that is not UTF-8 is read and answered as a missing one, in each role of ``reading``."""
    columns = PARTS[reading]
    assert codes(make(LATIN, columns), reading) == codes(make(None, columns), reading)
    for role in columns:
        # each way to hold a text once, each role at least once
        if ([*ways_to_hold].index(held) + [*ROLES].index(role)) % 4 == 0:
            assert answered(make(LATIN, columns), role) == answered(make(None, columns), role)


class TestFrames:
    @pytest.mark.parametrize("reading", PARTS)
    @pytest.mark.parametrize("held", HELD)
    def test_arrow(self, held, reading):
        def table(last, roles):
            columns = rows(last, count=300)
            x = HELD[held](columns["x"])
            x = pa.chunked_array([x.slice(0, 100), x.slice(100)])
            return pa.table({**columns, **dict.fromkeys("xow"[: len(roles)], x)})

        held_in(table, held, HELD, reading)

    @pytest.mark.parametrize("reading", PARTS)
    @pytest.mark.parametrize("held", PANDAS)
    def test_pandas(self, held, reading):
        def frame(last, roles):
            x = PANDAS[held](rows(last, count=300)["x"])
            texts = {name: pd.Series(x) for name in "xow"[: len(roles)]}
            return pd.DataFrame({**texts, "y": [3] * 301})

        held_in(frame, held, PANDAS, reading)

    def test_far_times(self):
        columns = {
            f"{unit}{place}": pa.array([0, value], pa.int64()).cast(pa.timestamp(unit))
            for unit in ("s", "ms", "us", "ns")
            for place, value in enumerate([FAR, -FAR, 2**63 - 1, -(2**63)])
        }
        schema = Schema(dict.fromkeys(columns, Date("1960-01-01", "1980-01-01")))
        counts = ", ".join(f"COUNT({name})" for name in columns)
        found = outcome(pa.table(columns), schema, None, [f"SELECT {counts} FROM t"])
        assert found == ["Answer"]

    def test_a_batch_of_rows(self):
        assert answered(pa.record_batch(rows(LATIN, count=9)), "undeclared")

    def test_types_of_texts_do_not_depend_on_them(self):
        for last in (b"c", LATIN):
            column = pa.ExtensionArray.from_storage(pa.json_(pa.utf8()), texts([b"a", last]))
            assert codes(pa.table({"x": column, "y": [1, 2]}), "declared")
            lists = pa.table({"x": pa.ListArray.from_arrays([0, 1, 2], texts([b"a", last]))})
            with pytest.raises(SchemaError):
                DuckDBEngine(Table("t", lists, Schema({"x": Category(["a"])})))
