"""The second wall: after loading, the engine's own SQL reaches no file, variable, setting or network."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module", autouse=True)
def one_database():
    """Each engine opens, and locks, a database of its own."""


SECRET = pd.DataFrame({"x": [1]})


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    path = folder / "rows.csv"
    path.write_text("x\n1\n2\n")
    engine = DuckDBEngine(Table("t", str(path), Schema({"x": Integer(0, 9)})))
    yield engine._connection, folder
    engine.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM SECRET",
        "SELECT * FROM frame",
        "SELECT * FROM source_rows",
        "SELECT * FROM '{folder}/rows.csv'",
        "SELECT * FROM read_csv('{folder}/rows.csv')",
        "SELECT * FROM read_text('{folder}/rows.csv')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{folder}/rows.csv')",
        "COPY rows TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/other.db'",
        "ATTACH 'http://localhost/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SET python_enable_replacements = true",
        "SET lock_configuration = false",
        "SET temp_directory = '{folder}'",
        "SET allowed_directories = ['/']",
        "RESET enable_external_access",
        "RESET lock_configuration",
        "SET GLOBAL python_scan_all_frames = true",
    ],
)
@pytest.mark.parametrize("cursor", [False, True], ids=["connection", "cursor"])
def test_refused(statement, cursor, connection):
    frame = SECRET  # a variable that a replacement scan would find
    assert len(frame) == 1
    handle, folder = connection
    handle = handle.cursor() if cursor else handle
    before = sorted(folder.iterdir())
    with pytest.raises(duckdb.Error):
        handle.execute(statement.format(folder=folder)).fetchall()
    assert sorted(folder.iterdir()) == before


def test_profiling_cannot_be_set(connection):
    with pytest.raises(duckdb.Error):
        connection[0].cursor().execute("SET enable_profiling = 'json'")


def test_nothing_is_spilled_to_disk(connection):
    handle, _ = connection
    assert handle.execute("SELECT current_setting('temp_directory')").fetchone()[0] in ("", None)


def test_a_file_that_is_read_in_place_is_the_only_one(tmp_path):
    for name in ("rows", "others"):
        pd.DataFrame({"x": [1, 2]}).to_parquet(tmp_path / f"{name}.parquet")
    engine = DuckDBEngine(Table("t", tmp_path / "rows.parquet", Schema({"x": Integer(0, 9)})))
    assert engine._in_place
    handle = engine._connection.cursor()
    assert handle.execute("SELECT COUNT(*) FROM rows").fetchone() == (2,)
    with pytest.raises(duckdb.Error):
        handle.execute(f"SELECT * FROM '{tmp_path}/others.parquet'")
    engine.close()


def test_only_declared_columns_are_held():
    frame = pd.DataFrame({"x": [1], "secret": ["Mallory"]})
    engine = DuckDBEngine(Table("t", frame, Schema({"x": Integer(0, 9)})))
    names = engine._connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
    ).fetchall()
    engine.close()
    assert names == [("rows", "c0")]


@pytest.mark.parametrize(
    "name",
    ['a"b', "a'b", "a;b", 'x" FROM rows; DROP TABLE rows; --', "größe", "\n", "<b>", "%s", "{}"],
)
def test_names_and_values_cannot_break_out(name):
    frame = pd.DataFrame({name: [name, "b"], "n": [1, 2]})
    schema = Schema({name: Category([name, "x'); DROP TABLE rows; --"]), "n": Integer(0, 9)})
    engine = DuckDBEngine(Table("t", frame, schema))
    found = engine._connection.execute("SELECT c0, c1 FROM rows ORDER BY c1").fetchall()
    engine.close()
    assert found == [(0, 1), (None, 2)]
