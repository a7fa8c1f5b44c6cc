"""Comparisons of two columns: what DuckDB says of each row, in every engine, without listing values."""

from __future__ import annotations

import datetime
import itertools
from contextlib import closing
from fractions import Fraction

import duckdb
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table, Timestamp
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, SqlError
from dpnb.ledger.columns import read_by
from dpnb.privacy.parallel import region
from dpnb.schema.predicates import EVERY, NONE, Compared, plain, read
from dpnb.sql.parser import parse
from dpnb.views.measures import Count, Scan, Sum
from dpnb.views.text import predicate_text
from dpnb.views.view import views_of
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

DAYS = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), datetime.date(2030, 1, 1), None]
TIMES = ["2024-01-01 00:00", "2024-01-01 01:00:01", "2024-12-31 12:00", None]
ROWS = pd.DataFrame(
    itertools.chain(
        itertools.product([0.1, 4.9, 5.0, None], [5.1, 0.1, 5.0, None], [0, 5, 10**6, None],
                          [5, 4, 0, None], [1], DAYS[:1], DAYS[:1], TIMES[:1], TIMES[:1]),
        itertools.product([1.0], [1.0], [7], [8], [1, 300, 301, None], DAYS, DAYS, TIMES, TIMES),
    ),
    columns=["w", "v", "n", "m", "k", "d", "e", "t1", "t2"],
).astype({"n": "Int64", "m": "Int64", "k": "Int64"})  # fmt: skip
SCHEMA = Schema(
    {
        "w": Real(0, 10), "v": Real(-1, 8), "n": Integer(0, 10**6), "m": Integer(0, 9), "k": Integer(1, 400),
        "d": Date(DAYS[0], DAYS[2]), "e": Date(DAYS[0], DAYS[2]),
        "t1": Timestamp("2024-01-01", "2024-12-31", resolution="second"),
        "t2": Timestamp("2024-01-01", "2024-12-31", resolution="second"),
        "day": Timestamp("2024-01-01", "2024-12-31", resolution="day"), "s": Category(["F", "M"]),
    }
)  # fmt: skip
TABLES = {"t": Table("t", None, SCHEMA)}
CONDITIONS = (
    "w > v", "NOT w > v", "w <> v", "w + 5 <= v", "w + 5 = v", "v - 5 >= w", "w < v - 5", "n > v", "NOT n = w", "n + 5 >= v", "v < n - 3", "NOT w > m - 1", "n = m", "n <> m",
    "n > m", "n + 5 < m", "n - m >= 2.5", "n - m = 0.5", "n - m <> 0.5", "m - n > -3", "ABS(n - m) <= 3", "NOT ABS(n - m) <= 3",
    "ABS(n - m) = 5", "n BETWEEN m AND m + 3", "NOT n BETWEEN m AND 7", "n IS DISTINCT FROM m", "n IS NOT DISTINCT FROM m",
    "(n > m) IS NOT TRUE", "(w > v) = FALSE", "d < e", "e - d > 1", "d + 1 = e", "d + INTERVAL 1 DAY >= e",
    "DATE_DIFF('day', d, e) < 100", "NOT DATE_DIFF('day', d, e) < 100", "t1 < t2", "t2 - t1 > INTERVAL 1 HOUR",
    "t1 + INTERVAL 3601 SECOND = t2", "m > k", "n > k", "k >= m + 300", "w > v AND n > m OR d < e", "n > m + 2000000",
    "CASE WHEN n > 3 THEN w > v ELSE n > m END",
)  # fmt: skip


def where(condition):
    return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", TABLES).where


@pytest.fixture(scope="module")
def truth():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("f", ROWS)
        connection.execute(
            "CREATE TABLE t AS SELECT * REPLACE (d::DATE AS d, e::DATE AS e, "
            "t1::TIMESTAMP AS t1, t2::TIMESTAMP AS t2) FROM f"
        )
        columns = ", ".join(f"count_if({one})" for one in CONDITIONS)
        yield dict(zip(CONDITIONS, connection.execute(f"SELECT {columns} FROM t").fetchone(), strict=True))  # fmt: skip


@pytest.mark.parametrize("in_memory", [(), None], ids=["sql", "arrays"])
def test_engines_count_the_rows_that_satisfy_it(in_memory, truth):
    schema = Schema({name: SCHEMA[name] for name in ROWS.columns})
    with closing(DuckDBEngine(Table("t", ROWS, schema, in_memory=in_memory))) as engine:
        engine.bound(bytes(32))
        assert (engine._arrays is not None) == (in_memory is None)
        read_conditions = [one for one in CONDITIONS if "CASE" not in one]
        measures = tuple((Count(None), where(one)) for one in read_conditions)
        found = engine.measure(Scan((), EVERY, measures))
        counts = {one: found.reveal(place)[0] for place, one in enumerate(read_conditions)}
    assert counts == {one: truth[one] for one in read_conditions}


def test_files_are_compared_within_their_bounds(tmp_path):
    """Whole numbers of files are compared as they are read, after they are clamped."""
    values = [-(2**40), -1, 0, 3, 9, 200, 300, 400, 2**40, None]
    rows = pd.DataFrame(itertools.product(values, repeat=2), columns=["m", "k"]).astype("Int64")
    rows.assign(n=rows.m).to_parquet(tmp_path / "t.parquet")
    schema = Schema({name: SCHEMA[name] for name in ("m", "k", "n")})
    inside = rows.assign(m=rows.m.clip(0, 9), k=rows.k.clip(1, 400), n=rows.m.clip(0, 10**6))
    expected = {
        "k > m": inside.k > inside.m, "k + 5 <= m": inside.k + 5 <= inside.m, "NOT k = m": inside.k != inside.m,
        "n > k": inside.n > inside.k, "n - m = 0": inside.n == inside.m,
    }  # fmt: skip
    table = Table("t", tmp_path / "t.parquet", schema, in_memory=())
    with closing(DuckDBEngine(table)) as engine:
        engine.bound(bytes(32))
        assert engine._sql.raw
        measures = tuple((Count(None), where(condition)) for condition in expected)
        found = engine.measure(Scan((), EVERY, measures))
        for place, (condition, satisfied) in enumerate(expected.items()):
            assert found.reveal(place) == [satisfied.fillna(False).sum()], condition


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n > m", "m < n"), ("n > m", "NOT n <= m"), ("n > m", "n - m >= 1"), ("n > m", "m + 0.5 < n"), ("w > v", "v < w"),
        ("d < e", "e - d > 0"), ("d < e", "DATE_DIFF('day', d, e) >= 1"), ("d < e", "d + INTERVAL 1 DAY <= e"),
        ("n >= m AND n <= m + 3", "n BETWEEN m AND m + 3"), ("k > m AND m > 2", "m > 2 AND k - m >= 1"),
    ],
)  # fmt: skip
def test_two_spellings_are_one_condition(one, other):
    assert plain(where(one)) == plain(where(other))


def test_others_are_others():
    spellings = ("n > m", "n >= m", "n < m", "n = m", "n <> m", "n > m + 1", "w > v", "w > v + 1")
    assert len({str(where(one)) for one in spellings}) == len(spellings)


def test_small_products_become_comparisons_and_few_cases_stay_boxes():
    assert isinstance(where("k > m"), Compared)
    assert isinstance(where("k * 2 > m * 2"), Compared)
    assert predicate_text(where("(k > m) IS NOT TRUE"), SCHEMA) == (
        "k <= m OR k IS NULL OR m IS NULL"
    )
    small = Schema({"a": Integer(-2, 3), "b": Integer(0, 4)})
    few = parse("SELECT COUNT(*) FROM t WHERE a > b", {"t": Table("t", None, small)}).where
    assert "compare" not in str(plain(few))


def test_its_region_is_what_each_column_can_be_then():
    query = parse("SELECT COUNT(*) FROM t WHERE n + 5 < m AND w < v", TABLES)
    (view,) = views_of(query.aggregates[0], query, 1).values()
    assert region(view.definition()).boxes == (
        (("m", ((6, 9),), False), ("n", ((0, 3),), False), ("v", ((0, 8),), False), ("w", ((0, 8),), False)),
    )  # fmt: skip
    assert where("m + 5 < n").spans == ((0, 9), (6, 10**6))
    assert where("m > n + 5").spans == ((6, 9), (0, 3))
    assert where("m = n + 5").spans == ((5, 9), (0, 4))
    assert read(plain(query.where)) == query.where
    assert {name for _, name in read_by(view.definition())} == {"m", "n", "v", "w"}


def test_conditions_narrow_sums_and_leave_out_groups():
    query = parse("SELECT SUM(n) AS s FROM t WHERE n < m", TABLES)
    assert views_of(query.aggregates[0], query, 1)["sum"].measure.sensitivity == 8
    query = parse("SELECT SUM(CASE WHEN n < m THEN 0 ELSE m - n END) AS s FROM t", TABLES)
    assert views_of(query.aggregates[0], query, 1)["sum"].measure.sensitivity == 10**6


@pytest.mark.parametrize("condition", ["n < w", "w >= n", "n = w", "m <= w", "NOT m <> w", "n > w"])
def test_whole_columns_keep_whole_bounds_beside_real_ones(condition):
    schema = Schema({"n": Integer(0, 10), "m": Integer(2, 9), "w": Real(0.5, 3.2)})
    tables = {"t": Table("t", None, schema)}
    query = parse(f"SELECT AVG(n) AS a, AVG(m) AS b FROM t WHERE {condition}", tables)
    for name, (low, high) in zip(
        (query.where.left, query.where.right), query.where.spans, strict=True
    ):
        assert name == "w" or {type(low), type(high)} == {int}
    for aggregate in query.aggregates:
        for view in views_of(aggregate, query, 1).values():
            assert not isinstance(view.measure, Sum) or view.measure.step >= Fraction(1, 2)


def test_no_whole_number_between_two_numbers_equals_one():
    schema = Schema({"n": Integer(0, 10), "w": Real(3.2, 3.8)})
    parsed = parse("SELECT COUNT(*) FROM t WHERE n = w", {"t": Table("t", None, schema)})
    assert parsed.where == NONE


@pytest.mark.parametrize("in_memory", [(), None], ids=["sql", "arrays"])
def test_an_average_of_whole_numbers_beside_real_ones_is_theirs(in_memory):
    rows = pd.DataFrame({"n": [3] * 20_000, "w": [3.1] * 20_000})
    schema = Schema({"n": Integer(0, 10), "w": Real(0.5, 3.2)})
    table = Table("t", rows, schema, in_memory=in_memory)
    with closing(dpnb.Curator([table], budget=dpnb.Budget(rho=10**9), noise=NoNoise())) as made:
        sql = "SELECT AVG(n) AS a, COUNT(*) AS n FROM t WHERE n < w"
        answer = made.session().query(sql, rho=10**6)
    assert answer.to_frame().iloc[0][["a", "n"]].tolist() == pytest.approx([3.0, 20_000], abs=1e-3)


@pytest.fixture(scope="module")
def curator():
    rows = ROWS.drop(columns=["t1", "t2"])
    schema = Schema({name: SCHEMA[name] for name in rows.columns})
    made = dpnb.Curator(
        [Table("t", rows, schema)], budget=dpnb.Budget(rho=1e12), analysts={"ann": 1, "bob": 1}
    )
    yield made
    made.close()


def test_answers_and_inference_take_it(curator):
    session = curator.session("ann")
    asked = "SELECT k, COUNT(*) AS n FROM t WHERE n > m AND k IN (1, 300, 301) GROUP BY k"
    frame = session.query(asked, rho=1e8).to_frame()
    total = int(((ROWS.n > ROWS.m) & ROWS.k.notna()).sum())
    assert frame.n.sum() == pytest.approx(total, abs=1)
    wanted = "SELECT COUNT(*) AS n FROM t WHERE n > m AND k IN (1, 300, 301)"
    assert session.infer(wanted).estimate == pytest.approx(total, abs=1)
    with pytest.raises(dpnb.DpnbError, match="do not determine"):
        session.infer("SELECT COUNT(*) AS n FROM t WHERE n >= m AND k IN (1, 300, 301)")


def test_limits_see_both_columns(curator):
    curator.limit(column="v", rho="0.05")
    for condition in ("w > v", "n > m AND (w < v OR d < e)", "ABS(n - m) > 2 OR v < w"):
        with pytest.raises(BudgetError, match="a limit that is not your own"):
            curator.session("bob").query(f"SELECT COUNT(*) FROM t WHERE {condition}", rho=0.1)
    curator.session("bob").query("SELECT COUNT(*) FROM t WHERE n > m", rho=0.1)


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("day < t1", "two columns of so many values"), ("d < t1", "two columns of so many values"),
        ("n * 2 > m - n", "must be"), ("w + 1 > v - 1", "must be"), ("e - d > INTERVAL 1 DAY", "a column alone"),
        ("n > s", "two columns of so many values"),
    ],
)  # fmt: skip
def test_what_is_not_compared_is_refused(condition, what):
    with pytest.raises(SqlError, match=what):
        where(condition)
