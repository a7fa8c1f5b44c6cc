"""Expressions of timestamps with too many codes to evaluate each: only at times where they can change."""

from __future__ import annotations

import datetime
import itertools
import re

import duckdb
import pytest

import dpnb
from dpnb import Schema, Table, Timestamp
from dpnb.codes import Scale, StepFunction
from dpnb.engines.steps import Cells, cells
from dpnb.errors import SqlError
from dpnb.schema.predicates import NONE
from dpnb.sql.functions import written
from dpnb.sql.parser import parse

pytestmark = pytest.mark.fast

KIND = Timestamp("2024-01-30 22:10:05", "2024-03-03 04:00", tz="Europe/Berlin")
TABLES = {
    "t": Table("t", None, Schema({"moment": KIND, "long": Timestamp("2000-01-01", "2030-12-31")}))
}
MOMENT = datetime.datetime(2024, 2, 1, tzinfo=datetime.UTC)
CONSTANT = "'2024-02-29 08:00:07'"
FINE = {"CAST(x AS TIMESTAMP)", "DATE_ADD(x, INTERVAL 1 DAY)"}
"""Examples that make or need more intervals than are read."""
MORE = (
    "x >= '2024-02-01'", "x IN ('2024-02-01', '2024-02-29 08:00:07')", "x > TIMESTAMP '2024-02-29 08:00:07.5'",
    "CASE x WHEN '2024-02-29 08:00:07' THEN 1 WHEN '2024-02-01' THEN 2 END",
    "CASE WHEN x < '2024-02-10 10:30' THEN 'a' WHEN HOUR(x) < 6 THEN 'b' ELSE 'c' END",
    "DATE_TRUNC('day', x + INTERVAL 3 HOUR)", "DATE_TRUNC('day', x - INTERVAL '90' MINUTE)",
    "DATE_TRUNC('day', x + INTERVAL 100 MINUTE) < '2024-02-10' AND HOUR(x) > 3",
    "HOUR(x + INTERVAL 1 MONTH)", "HOUR(x + INTERVAL 3 MONTH - INTERVAL 30 MINUTE) // 6", "STRFTIME(x, '%d %H')",
    "DATE_DIFF('hour', x, TIMESTAMP '2024-02-29 08:30:00')", "x IS DISTINCT FROM '2024-02-29 08:00:07'",
    "MONTH(DATE_TRUNC('month', x) + INTERVAL 1 HOUR)", "(x::DATE + INTERVAL 1 DAY)::DATE", "x::DATE > '2024-02-05'",
    "COALESCE(DATE_TRUNC('hour', x), TIMESTAMP '2024-02-01 00:00:00')", "DATE_PART('dow', x) IN (0, 6)",
    "x + INTERVAL 1 HOUR > '2024-02-10 10:30'", "CASE WHEN x <= DATE '2024-02-10' + INTERVAL 1 SECOND THEN 1 END", "EXTRACT(hour FROM x) BETWEEN 9 AND 17",
)  # fmt: skip


def examples():
    for text in (*written("times"), *MORE):
        if (text not in FINE and not re.search("x [+-] ", text)) or text in MORE:
            yield text.replace(":value", CONSTANT)


def named(text):
    return re.sub(r"\bx\b", "moment", text)


@pytest.fixture(scope="module")
def times():
    """Codes around hours, midnights and constants, and others."""
    low, high = int(KIND.scale.low), int(KIND.scale.high)
    some = list(range(low, high, 13_417))
    some += [edge + by for edge in range(low - low % 1_800, high, 19_800) for by in (-1, 0, 1)]
    noted = [1_709_193_607, 1_707_561_000, 1_707_523_200, 1_706_745_600, low, high]
    some += [code + by for code in noted for by in (-1, 0, 1)]
    return sorted({code for code in some if low <= code <= high})


@pytest.fixture(scope="module")
def rows(times):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT make_timestamp(c * 1000000) AS x FROM (SELECT unnest($1::BIGINT[]) AS c) "
        "UNION ALL SELECT NULL", [times],
    )  # fmt: skip
    return connection


@pytest.mark.parametrize("text", list(examples()))
def test_an_expression_is_duckdbs_at_every_time(text, times, rows):
    expected = [output for (output,) in rows.execute(f"SELECT {text} FROM t").fetchall()]
    if isinstance(next(filter(None, expected), True), bool):
        where = parse(f"SELECT COUNT(*) FROM t WHERE {named(text)}", TABLES).where
        intervals, null = ((), False) if where == NONE else (where.intervals, where.null)
        found = [any(a <= code <= b for a, b in intervals) for code in times]
        assert [*found, null] == [output is True for output in expected]
        return
    (key,) = parse(f"SELECT {named(text)}, COUNT(*) FROM t GROUP BY 1", TABLES).keys
    groups = key.partition.steps
    seen = {}
    for code, output in zip([*times, None], expected, strict=True):
        group = groups.null if code is None else groups(code)
        assert seen.setdefault(output, group) == group
        assert (group is None) == (output is None)
    assert len({*seen.values()}) == len(seen)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("x", "groups, more than 10,000", "DATE_TRUNC('day', moment)"),
        (
            "SECOND(x) + MONTH(x)",
            "this changes more than 10,000 times",
            "DATE_TRUNC('day', moment)",
        ),
        (
            "x + INTERVAL 1 HOUR",
            "this changes more than 10,000 times",
            "DATE_TRUNC('day', moment)",
        ),
        (
            "DATE_TRUNC('minute', x)",
            "this changes more than 10,000 times",
            "DATE_TRUNC('day', moment)",
        ),
        ("CASE WHEN x < '2024-02-01 08:00+01' THEN 1 END", "this time has a zone", "what a clock"),
    ],
)
def test_what_changes_too_often_is_refused_with_what_to_write(text, what, hint):
    with pytest.raises(SqlError) as refused:
        parse(f"SELECT {named(text)}, COUNT(*) FROM t GROUP BY 1", TABLES)
    assert what in refused.value.what
    assert hint in refused.value.hint
    parse("SELECT DATE_TRUNC('day', moment), COUNT(*) FROM t GROUP BY 1", TABLES)


def test_long_columns_are_cut_down_to_months():
    with pytest.raises(SqlError, match=re.escape("DATE_TRUNC('year', long)")):
        parse("SELECT long, COUNT(*) FROM t GROUP BY 1", TABLES)
    (key,) = parse("SELECT DATE_TRUNC('month', long), COUNT(*) FROM t GROUP BY 1", TABLES).keys
    assert key.labels[:2] == ("2000-01-01", "2000-02-01")


def test_times_have_a_mean_only_in_numbers():
    with pytest.raises(SqlError) as refused:
        parse("SELECT AVG(moment) FROM t", TABLES)
    assert refused.value.what == "'moment' has times, not numbers"
    parse(f"SELECT {refused.value.hint.partition(': ')[2].rstrip('.')} FROM t", TABLES)


def test_instants_are_no_constants():
    for value in ("'2024-02-01T08:00Z'", ":moment"):
        with pytest.raises(SqlError, match="has a zone"):
            parse(f"SELECT COUNT(*) FROM t WHERE moment >= {value}", TABLES, {"moment": MOMENT})


@pytest.mark.parametrize("first", [0, 7, -3_600, -5])
def test_cells_of_codes_are_as_long_as_can_be(first):
    high = first + 24 * 3_600 - 1
    edges = [first, *range(-(-first // 3_600) * 3_600 or 3_600, high + 1, 3_600)]
    edges = sorted({*edges, high + 1})
    function = StepFunction(
        (low, end - 1, i % 5) for i, (low, end) in enumerate(itertools.pairwise(edges))
    )
    found = cells(function, Scale(first, high, integral=True), 1_000)
    assert found.step == 3_600
    for code in range(first, high + 1, 599):
        start = found.first + (found.number(code) - found.first) * found.step
        inside = [function(one) for one in (max(start, first), min(start + 3_599, high))]
        assert inside == [function(code)] * 2


def test_few_codes_are_cells_of_their_own():
    assert cells(StepFunction([(0, 5, 1)]), Scale(0, 9, integral=True), 10) == Cells(0, 1, 10)


def test_answers_in_memory_and_in_sql_are_those_of_duckdb(rows, times):
    """Without noise to speak of: enough budget that no interval is wider than one row."""
    frame = rows.execute("SELECT x AS moment FROM t").df()
    schema = Schema({"moment": KIND})
    for text in ("HOUR(x)", "DATE_TRUNC('day', x)", "DATE_PART('dow', x)"):
        counts = dict(rows.execute(f"SELECT {text}, COUNT(*) FROM t GROUP BY 1").fetchall())
        for kept in (None, ()):
            table = Table("t", frame, schema, in_memory=kept)
            session = dpnb.Session(table, budget=dpnb.Budget(rho=1e7))
            answer = session.query(
                f"SELECT {named(text)} AS k, COUNT(*) AS n FROM t GROUP BY 1", rho=1e6
            )
            found = {str(key): round(n) for key, n, *_ in answer.to_frame().itertuples(index=False)}
            shown = {
                str(key).removesuffix(" 00:00:00"): n
                for key, n in counts.items()
                if key is not None
            }
            assert {key: n for key, n in found.items() if n} == shown
