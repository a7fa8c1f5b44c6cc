"""DuckDB's plan of a statement says nothing of the data: what it takes follows from what is declared.

DuckDB keeps the least and largest value of each block of a file. Where they decide a condition or a bound, it
would leave work out, and the time of a statement would tell whether one row lies beyond. Tables that
differ in such rows must have the same plans, but for how many rows there may be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.engines import duckdb
from dpnb.engines.dialect import Dialect
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.normaliser import SHORT_LIST
from dpnb.schema.columns import Category, Integer, Real
from dpnb.schema.schema import Schema, Unit
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date
from dpnb.schema.types import Boolean

KINDS = {
    "g": Category(["a", "b"], other="b"),
    "k": Integer(0, 9),
    "x": Integer(0, 100),
    "y": Real(0, 10),
    "d": Date("2020-01-01", "2020-12-31"),
    "b": Boolean(),
    "h": Boolean(),
    "l": Category([f"v{i}" for i in range(SHORT_LIST + 1)]),
}
STATEMENTS = (
    "SELECT g, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY g",
    "SELECT k, SUM(x) AS s, AVG(y) AS m FROM t GROUP BY k",
    "SELECT COUNT(*) AS n FROM t WHERE x <= 99",
    "SELECT g, COUNT(x) AS n FROM t WHERE x BETWEEN 1 AND 50 AND y < 9.5 GROUP BY g",
    "SELECT COUNT(*) AS n, AVG(x) FILTER (WHERE y > 1) AS m FROM t WHERE d < '2020-06-01'",
    "SELECT g, VARIANCE(x) AS v FROM t WHERE g = 'a' OR k IN (1, 2) GROUP BY g",
    "SELECT SUM(x * k) AS s FROM t WHERE g = 'a'",
    "SELECT MEDIAN(x) AS q FROM t",
    "SELECT b, COUNT(*) AS n, SUM(h) AS s FROM t WHERE NOT h GROUP BY b",
    "SELECT AVG(x) AS m FROM t WHERE b AND k > 3 OR COALESCE(h, TRUE)",
    "SELECT l, COUNT(*) AS n, AVG(y) AS m FROM t WHERE l != 'v7' GROUP BY l",
    "SELECT MONTH(d) AS m, COUNT(*) AS n, AVG(x) AS a FROM t GROUP BY MONTH(d)",
    "SELECT x % 2 AS odd, LEFT(g, 1) AS h, COUNT(*) AS n FROM t GROUP BY x % 2, LEFT(g, 1)",
    "SELECT COUNT(*) AS n FROM t WHERE DAYOFWEEK(d) = 1 GROUP BY LEFT(g, 1), COALESCE(k, 0)",
    "SELECT COUNT(*) AS n FROM t WHERE x % 7 = 3 AND l LIKE 'v1%' AND COALESCE(k, 5) > 4",
    "SELECT g, SUM(x) FILTER (WHERE MONTH(d) IN (3, 4)) AS s FROM t WHERE UPPER(g) = 'B' GROUP BY g",
    "SELECT COUNT(*) AS n FROM t WHERE x > k OR k + 3 <= x",
    "SELECT g, SUM(ABS(x - k)) AS s, COUNT(LEAST(x, y) + k) AS n FROM t WHERE y < k GROUP BY g",
)
ROWS = 3_000


def frame() -> pd.DataFrame:
    """Rows within all bounds, in no order, no block of which is special."""
    places = pd.Series(range(ROWS))
    return pd.DataFrame(
        {
            "g": (places % 7 < 3).map({True: "a", False: "b"}),
            "k": (places * 7 % 8 + 1).astype("int64"),
            "x": (places * 31 % 89 + 5).astype("int64"),
            "y": places * 17 % 83 / 10 + 0.5,
            "d": pd.to_datetime("2020-02-01") + pd.to_timedelta(places * 13 % 300, unit="D"),
            "l": "v" + (places * 11 % 200).astype(str),
            "b": places % 5 < 2,
            "h": (places % 3 < 1).astype("float64"),
        }
    )


def with_one(column: str, value: object) -> pd.DataFrame:
    made = frame().astype({column: object})
    made.loc[1_234, column] = value
    if column in "kx":
        made[column] = made[column].astype("Int64")
    made = made.astype({"y": float, "h": float, "b": "boolean"})
    return made.assign(d=pd.to_datetime(made["d"]))


def nothing(rows: pd.DataFrame) -> pd.DataFrame:
    """Return as many rows without any value, of the same types."""
    columns = {name: pd.Series([None] * ROWS, dtype=object) for name in "gl"}
    whole = {name: pd.array([None] * ROWS, dtype="Int64") for name in "kx"}
    truths = pd.array([None] * ROWS, dtype="boolean")
    return rows.assign(**columns, **whole, y=float("nan"), d=pd.NaT, b=truths, h=float("nan"))


VARIANTS = {
    "a number above": lambda: with_one("x", 5_000),
    "a number below": lambda: with_one("x", -5_000),
    "a decimal above": lambda: with_one("y", 1e9),
    "a decimal that is not finite": lambda: with_one("y", float("inf")),
    "a day outside": lambda: with_one("d", pd.Timestamp("1999-01-01")),
    "another text": lambda: with_one("g", "zebra"),
    "another text of a long list": lambda: with_one("l", "zebra"),
    "a text lacks": lambda: with_one("l", None),
    "a number lacks": lambda: with_one("x", None),
    "a boolean lacks": lambda: with_one("b", None),
    "a boolean that is neither": lambda: with_one("h", 0.5),
    "one value only": lambda: frame().assign(x=50, y=5.0, k=3, b=True, h=1.0),
    "nothing but missing values": lambda: nothing(frame()),
    "no rows": lambda: frame().head(0).astype({"g": "string", "l": "string"}),
    "sorted": lambda: frame().sort_values(["x", "y"], ignore_index=True),
    "one row more": lambda: pd.concat([frame(), frame().head(1)], ignore_index=True),
}


def stored(rows: pd.DataFrame, complete: Sequence[str], folder: Path) -> Table:
    path = folder / "t.parquet"
    rows.to_parquet(path, index=False)
    return Table("t", path, Schema(KINDS, complete=complete), in_memory=())


def statements(table: Table) -> list[str]:
    """Return what a session asks DuckDB."""
    asked = []
    fetched = DuckDBEngine._fetched

    def noted(engine, statement, work):
        asked.append(statement)
        return fetched(engine, statement, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBEngine, "_fetched", noted)
        with dpnb.Session(table, budget=dpnb.Budget(rho=1_000)) as session:
            for sql in STATEMENTS:
                session.query(sql, rho="0.1")
    assert len(asked) >= len(STATEMENTS)
    return asked


def plans(table: Table, asked: Sequence[str]) -> list[str]:
    """Return the plans of statements about another table's file, without numbers of rows."""
    engine = DuckDBEngine(table)
    own = [re.sub(r"read_parquet\('[^']*'", f"read_parquet('{table.source}'", one) for one in asked]
    found = [engine._connection.execute(f"EXPLAIN {one}").fetchall()[0][1] for one in own]
    engine.close()
    return [re.sub(r"~?[\d,]+ rows? *", "", plan) for plan in found]


@pytest.fixture(scope="module")
def one_database():
    """Each engine has a DuckDB of its own: the names of others' databases would stand in plans."""


@pytest.fixture(scope="module", params=[(), tuple(KINDS)], ids=["may lack", "complete"])
def usual(request, tmp_path_factory):
    """The complete columns, statements, and their plans where nothing is special."""
    table = stored(frame(), request.param, tmp_path_factory.mktemp("usual"))
    asked = statements(table)
    return request.param, asked, plans(table, asked)


@pytest.mark.parametrize("variant", VARIANTS)
def test_they_are_those_of_any_other_table(variant, usual, tmp_path):
    complete, asked, wanted = usual
    assert plans(stored(VARIANTS[variant](), complete, tmp_path), asked) == wanted


def test_no_condition_is_evaluated_while_a_file_is_read(usual):
    """There, a block of values that all fail it is left out, and time would tell of single rows."""
    _, asked, wanted = usual
    assert any("r2 <= 99" in statement for statement in asked)
    assert not any("Filters" in plan for plan in wanted)


def test_a_bare_condition_would_be(usual, tmp_path, monkeypatch):
    complete, _, _ = usual
    monkeypatch.setattr(duckdb.DuckDBDialect, "only", Dialect.only)
    table = stored(frame(), complete, tmp_path)
    assert any("Filters" in plan for plan in plans(table, statements(table))) == (not complete)


def test_what_duckdb_would_take_from_the_file_is_seen(usual, tmp_path, monkeypatch):
    complete, asked, _ = usual
    monkeypatch.setattr(duckdb, "_BLIND", "")
    made = frame(), VARIANTS["a number lacks"](), VARIANTS["one value only"]()
    found = [plans(stored(rows, complete, tmp_path), asked) for rows in made]
    assert any(one != found[0] for one in found[1:])


@pytest.fixture(scope="module")
def sales():
    """Rows that are kept in memory, of products only one of which is listed."""
    rows = pd.DataFrame({"product": [i // 500 for i in range(ROWS)], "amount": 7})
    listed = pd.DataFrame({"product": [0], "kind": ["tool"]})
    product = Integer(0, 9)
    return [
        Table("sales", rows, Schema({"product": product, "amount": Integer(0, 9)})),
        Table(
            "products", listed, Schema({"product": product, "kind": Category(["tool", "toy"])}),
            public=True, key="product",
        ),
    ]  # fmt: skip


def filters(tables: Sequence[Table]) -> list[str]:
    """Return what DuckDB takes from what a look-up lists to the rows that it reads."""
    found = []
    fetched = DuckDBEngine._fetched

    def explained(engine, statement, work):
        (row,) = engine._connection.execute(f"EXPLAIN ANALYZE {statement}").fetchall()
        found.extend(re.findall("Dynamic Filters", row[1]))
        return fetched(engine, statement, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBEngine, "_fetched", explained)
        with dpnb.Session(tables, budget=dpnb.Budget(rho=1)) as session:
            session.query(
                "SELECT p.kind, COUNT(*) AS n FROM sales s JOIN products p "
                "ON s.product = p.product GROUP BY p.kind",
                rho="0.1",
            )
    return found


def test_no_block_is_left_out_where_a_look_up_finds_nothing(sales, monkeypatch):
    assert filters(sales) == []
    monkeypatch.setattr(duckdb, "_BLIND", "statistics_propagation")
    assert filters(sales)


BLOCK = 122_880
"""Rows for which DuckDB keeps the least and largest value of each column."""


@pytest.fixture(scope="module")
def blocks():
    """Five blocks in memory; no row of the last three has the values of the others.

    The rows of persons are in a secret order, so none of them is in a group.
    """
    x = np.minimum(np.arange(5 * BLOCK) // BLOCK, 2)
    rows = pd.DataFrame({"x": x, "y": x * 4.0, "g": np.where(x > 1, "b", "a"), "id": x % 2})
    columns = {name: KINDS[name] for name in "xyg"} | {"x": Integer(0, 3)}
    own = Table("own", rows, Schema(columns), in_memory=())
    unheard = Schema({**columns, "g": Category(["a", "b"])})
    persons = Table(
        "persons", rows.assign(g="z"), unheard, Unit("id", max_rows=400_000, max_groups=1)
    )
    return [own, persons]


def scanned(tables: Sequence[Table], ask: Callable[[dpnb.Session], object]) -> set[bool]:
    """Return whether DuckDB reads all blocks, of each relation in each statement."""
    found = set()
    each = DuckDBEngine._each

    def explained(engine, asked, fetch):
        for statement in asked:
            (row,) = engine._connection.execute(f"EXPLAIN ANALYZE {statement}").fetchall()
            blocks = re.findall(r"Row Groups Scanned: (\d+) / (\d+)", row[1])
            found.update(read == every for read, every in blocks)
        return each(engine, asked, fetch)

    session = dpnb.Session(tables, budget=dpnb.Budget(rho=9))
    with session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBEngine, "_each", explained)
        ask(session)
    return found


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.query("SELECT COUNT(*) AS n FROM own WHERE x > 2", rho=0.1),
        lambda session: session.query("SELECT AVG(y) AS m FROM own WHERE g IS NULL", rho=0.1),
        lambda session: session.query(
            "SELECT g, COUNT(DISTINCT id) AS n FROM persons WHERE y > 7 GROUP BY g", rho=0.1
        ),
        lambda session: session.explain(
            session.query("SELECT x, AVG(2 * y) AS m FROM own GROUP BY x", rho=0.1).compare(1, 0),
            rho=0.1,
        ),
    ],
    ids=["a number", "a missing text", "ids", "an explanation"],
)
def test_every_block_in_memory_is_read(ask, blocks, monkeypatch):
    assert scanned(blocks, ask) == {True}
    monkeypatch.setattr(duckdb.DuckDBDialect, "only", Dialect.only)
    assert False in scanned(blocks, ask)


FILES = {
    "in place": ("{}.parquet", False, {"in_memory": ()}),
    "in place, by a key": ("k={}/a.parquet", False, {"in_memory": ()}),
    "with a key": ("k={}/a.parquet", True, {"in_memory": ()}),
    "persons": ("k={}/a.parquet", True, {"in_memory": (), "unit": Unit("id", max_rows=2)}),
    "in memory": ("k={}/a.parquet", True, {}),
}
"""How three files are named, whether the key in their paths is declared, and how they are opened."""
ONE_FILE = 8_192
ASKED = (
    "SELECT COUNT(*) AS n FROM t WHERE x > 50",
    "SELECT AVG(y) AS m FROM t WHERE x = 11",
    "SELECT COUNT(x) AS n FROM t WHERE g IS NULL OR x IS NULL",
    "SELECT x, COUNT(*) AS n FROM t WHERE g = 'b' AND y < 1 GROUP BY x",
    "SELECT COUNT(*) FILTER (WHERE g = 'b') AS n, SUM(y) AS s FROM t WHERE x BETWEEN 2 AND 4",
)
ASKED_OF_KEYS = (
    "SELECT COUNT(*) AS n FROM t WHERE k = 1",
    "SELECT k, AVG(y) AS m FROM t WHERE k > 7 OR k IS NULL GROUP BY k",
    "SELECT SUM(x) AS s FROM t WHERE k = 2 AND x < 5",
)
NEIGHBOURS = {
    "a number above": {"x": 5_000},
    "a number of another file": {"x": 22},
    "a number lacks": {"x": None},
    "a decimal above": {"y": 1e9},
    "another text": {"g": "zebra"},
    "a text lacks": {"g": None},
}


def several(home: Path, kind: str, changes: dict[str, object]) -> Table:
    """Three files of four row groups; the numbers and texts of one are not those of another.

    One row of the first file has the values in ``changes``.
    """
    pattern, keyed, more = FILES[kind]
    for number in range(3):
        rows = pd.DataFrame(
            {
                "x": np.arange(ONE_FILE) // 2_048 + 10 * number,
                "y": number * 3.0,
                "g": "ab"[number % 2],
                "id": np.arange(ONE_FILE) // 2 + ONE_FILE * number,
            }
        ).astype({"x": "Int64", "g": "string"})
        for name, value in changes.items():
            if not number:
                rows.loc[5_000, name] = value
        path = home / pattern.format(number)
        path.parent.mkdir(exist_ok=True)
        rows.to_parquet(path, index=False, row_group_size=2_048)
    names = "xyk" if keyed else "xy"
    columns = {name: KINDS[name] for name in names} | {"g": Category(["a", "b"])}
    return Table("t", home, Schema(columns), **more)


def scans(steps: Sequence[dict]) -> list[dict]:
    """Return the steps of a plan that read rows."""
    below = [scan for step in steps for scan in scans(step.get("children", ()))]
    return [step for step in steps if step["type"] == "TABLE_SCAN"] + below


def reads(table: Table) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """Return the plan of each statement, and the files, row groups and rows that DuckDB reads."""
    found, files = [], "Total Files Read"
    each = DuckDBEngine._each

    def explained(engine, asked, fetch):
        for statement in asked:
            run = engine._connection.execute
            ((*_, plan),) = run(f"EXPLAIN {statement}").fetchall()
            ((*_, done),) = run(f"EXPLAIN (ANALYZE, FORMAT json) {statement}").fetchall()
            read = [
                (
                    scan["extra_info"].get(files, "none"),
                    scan["row_groups_scanned"] - scan["total_row_groups_to_scan"],
                    # in memory, a condition is evaluated for each row while it is read
                    scan["intermediate_rows" if files in scan["extra_info"] else "rows_scanned"],
                )
                for scan in scans(json.loads(done)["operator"])
            ]
            found.append((re.sub(r"~?[\d,]+ rows? *", "", plan), read))
        return each(engine, asked, fetch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBEngine, "_each", explained)
        with dpnb.Session(table, budget=dpnb.Budget(rho=1_000)) as session:
            for sql in ASKED + ASKED_OF_KEYS * ("k" in table.schema):
                session.query(sql, rho="0.1")
    return found


@pytest.fixture(scope="module", params=FILES)
def several_read(request, tmp_path_factory):
    """How the files are opened, and what is read of them where no row is special."""
    home = tmp_path_factory.mktemp("several")
    return request.param, reads(several(home, request.param, {}))


def test_no_file_and_no_row_of_several_is_skipped(several_read):
    """Also where a condition fails for all rows of a file, by its path or by its least and largest values."""
    kind, found = several_read
    files = "3" if kind.startswith("in place") else "none"
    assert {scan for _, read in found for scan in read} <= {(files, 0, 3 * ONE_FILE)}
    assert bool(found) == (kind != "in memory")
    assert files == "none" or not any("Filters" in plan for plan, _ in found)


@pytest.mark.parametrize("change", NEIGHBOURS)
def test_what_is_read_of_several_files_says_nothing_of_a_row(several_read, change, tmp_path):
    kind, expected = several_read
    assert reads(several(tmp_path, kind, NEIGHBOURS[change])) == expected


def test_files_would_be_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(duckdb.DuckDBDialect, "only", Dialect.only)
    found = reads(several(tmp_path, "in place", {}))
    assert any(missing for _, read in found for _, missing, _ in read)
