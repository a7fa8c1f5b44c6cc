"""Functions of days and times that repeat: read once for all repetitions, however long a column is."""

from __future__ import annotations

import math
import re
import time

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import dpnb
from dpnb import Boolean, Date, Schema, Table, Timestamp
from dpnb.codes import Periodic, Scale, StepFunction, repeated
from dpnb.schema.partition import present, read
from dpnb.schema.predicates import EVERY, And, boxes, can_hold, plain, simplify
from dpnb.schema.predicates import read as read_predicate
from dpnb.sql.canonical import plain_value, read_value
from dpnb.sql.grains import period_of
from dpnb.sql.narrowing import span_of
from dpnb.sql.parser import parse
from dpnb.sql.values import Mapped
from dpnb.views.text import predicate_text

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "moment": Timestamp("1899-12-30 22:10:05", "2041-03-03 04:00", tz="Europe/Berlin"),
        "hour": Timestamp("1960-01-01 05:00", "2039-12-31", resolution="hour"),
        "day": Date("1890-01-03", "2029-12-31"),
        "ok": Boolean(),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}
DAYS = (
    "DAYOFWEEK(x)", "ISODOW(x)", "WEEKDAY(x)", "DAYNAME(x)", "STRFTIME(x, '%A')", "EXTRACT(dow FROM x)",
    "DATE_PART('isodow', x) // 6", "DAYOFWEEK(x + INTERVAL 3 DAY)", "DAYOFWEEK(x - INTERVAL 2 WEEK) IN (0, 6)",
    "CASE WHEN DAYOFWEEK(x) = 0 THEN NULL ELSE 'week' END", "COALESCE(DAYOFWEEK(x), 9)",
    "DAYNAME(x) LIKE 'S%'", "x IS NULL OR DAYOFWEEK(x) > 5", "DAYOFWEEK(DATE_TRUNC('week', x))",
)  # fmt: skip
HOURS = (
    "HOUR(x)", "EXTRACT(hour FROM x)", "HOUR(x) BETWEEN 8 AND 17", "HOUR(x + INTERVAL 90 MINUTE)", "HOUR(x) % 2",
    "DAYOFWEEK(x) * 100 + HOUR(x)", "STRFTIME(x, '%a %H')", "HOUR(DATE_TRUNC('day', x) + INTERVAL 5 HOUR)",
    "IF(HOUR(x) < 12, 'am', 'pm')", "HOUR(x) IN (0, 23)", "NOT HOUR(x) < 3", "HOUR(x) >= 0", "DAYOFWEEK(x::DATE)",
)  # fmt: skip
TIMES = (
    "MINUTE(x)",
    "SECOND(x)",
    "STRFTIME(x, '%H:%M')",
    "MINUTE(x) < 30",
    "SECOND(x) = 59 AND MINUTE(x) > 58",
)


def named(text, column):
    return re.sub(r"\bx\b", column, text)


@pytest.fixture(scope="module")
def sample():
    """For each column, codes around its ends and inside, and a relation of their values."""
    connection, codes = duckdb.connect(), {}
    for name, make in {
        "moment": "make_timestamp(c * 1000000)",
        "hour": "make_timestamp(c * 3600000000)",
        "day": "DATE '1970-01-01' + c::INTEGER",
    }.items():
        low, high = int(SCHEMA[name].scale.low), int(SCHEMA[name].scale.high)
        some = {*range(low, low + 400), *range(-300, 300), *range(high - 300, high + 1)}
        some |= {*range(low, high, (high - low) // 1_500)}
        some |= {
            edge + by for edge in range(low - low % 86_400, high, 86_400 * 997) for by in (-1, 0, 1)
        }
        codes[name] = sorted(code for code in some if low <= code <= high)
        connection.execute(
            f"CREATE TABLE {name} AS SELECT {make} AS x FROM (SELECT unnest($1::BIGINT[]) AS c) "
            "UNION ALL SELECT NULL", [codes[name]],
        )  # fmt: skip
    return connection, codes


CASES = [
    *((text, name) for name in ("moment", "hour", "day") for text in DAYS),
    *((text, name) for name in ("moment", "hour") for text in HOURS),
    *((text, "moment") for text in TIMES),
]


@pytest.mark.parametrize(("text", "column"), CASES)
def test_an_expression_is_duckdbs_before_and_after_1970(text, column, sample):
    connection, codes = sample
    expected = [one for (one,) in connection.execute(f"SELECT {text} FROM {column}").fetchall()]
    (key,) = parse(f"SELECT {named(text, column)}, COUNT(*) FROM t GROUP BY 1", TABLES).keys
    steps, seen = key.partition.steps, {}
    for code, output in zip([*codes[column], None], expected, strict=True):
        group = steps.null if code is None else steps(code)
        assert seen.setdefault(output, group) == group
        assert (group is None) == (output is None)
    assert len({*seen.values()}) == len(seen)
    if isinstance(next(filter(None, expected), ""), bool):
        where = parse(f"SELECT COUNT(*) FROM t WHERE {named(text, column)}", TABLES).where
        if where != EVERY:
            atoms = where.parts if isinstance(where, And) else (where,)
            tests = [atom.steps(True) for atom in atoms]
            held = [all(test(code) for test in tests) for code in codes[column]]
            assert held == [output is True for output in expected[:-1]]
            assert all(atom.null for atom in atoms) == (expected[-1] is True)


def test_what_repeats_is_as_short_as_one_repetition():
    start = time.thread_time()
    for text, size in (("HOUR(moment)", 24), ("SECOND(moment)", 60), ("DAYOFWEEK(day)", 7)):
        query = parse(f"SELECT {text}, COUNT(*) FROM t WHERE {text} > 3 GROUP BY 1", TABLES)
        (key,) = query.keys
        assert len(key.partition.steps.steps.pieces) == size == key.partition.size
        assert len(str(query.where.intervals)) < 100
        assert read(key.partition.plain(), SCHEMA) == key.partition
        assert read_predicate(plain(query.where)) == query.where
    assert time.thread_time() - start < 1


def test_what_is_moved_by_months_does_not_repeat():
    for text in ("x + INTERVAL 1 MONTH", "DATE_TRUNC('month', x)", "x::DATE - INTERVAL 1 YEAR"):
        node = sqlglot.parse_one(f"DAYOFWEEK({text})", read="duckdb")
        assert period_of(node, SCHEMA["moment"]) is None
    node = sqlglot.parse_one("DAYOFWEEK(x + INTERVAL 1 WEEK)", read="duckdb")
    assert period_of(node, SCHEMA["day"]) == 7


def test_what_is_short_is_written_out():
    short = {"t": Table("t", None, Schema({"moment": Timestamp("2024-01-01", "2024-01-31")}))}
    query = parse("SELECT HOUR(moment), COUNT(*) FROM t WHERE HOUR(moment) > 3 GROUP BY 1", short)
    assert len(query.keys[0].partition.steps.pieces) == 31 * 24
    assert len(query.where.intervals) == 31


@pytest.mark.parametrize("low", [0, -7, 5])
def test_a_function_has_its_least_period(low):
    scale = Scale(low, low + 10_000, integral=True)
    steps = StepFunction((n, n, n % 6) for n in range(24))
    function = repeated(24, steps, scale, 100)
    assert function == Periodic(6, StepFunction((n, n, n) for n in range(6)))
    written = repeated(24, steps, scale, 20_000)
    assert all(written(code) == function(code) for code in range(low, low + 10_001))


def test_conditions_meet_groups_that_can_hold():
    def holds(where, *keys):
        text = f"SELECT {', '.join(keys)}, COUNT(*) FROM t WHERE {where} GROUP BY {', '.join(keys)}"
        query = parse(text, TABLES)
        return [
            number
            for number in range(query.keys[0].partition.size)
            if can_hold(query.where, {"moment": query.keys[0].partition.within(number)})
        ]

    assert holds("HOUR(moment) BETWEEN 8 AND 10", "HOUR(moment)") == [8, 9, 10]
    assert holds("moment < '1899-12-31 02:00'", "HOUR(moment)") == [0, 1, 22, 23]
    assert len(holds("DAYOFWEEK(moment) = 3", "HOUR(moment)")) == 24


def test_regions_of_what_repeats_cover_every_row_that_may_be_in_them():
    where = parse("SELECT COUNT(*) FROM t WHERE HOUR(moment) = 3 AND ok", TABLES).where
    (key,) = parse("SELECT HOUR(moment), COUNT(*) FROM t GROUP BY 1", TABLES).keys
    assert present(key.partition.plain()) == ["moment", [[-math.inf, math.inf]], False]
    (box,) = boxes(plain(where))
    ((low, high),), null = box["moment"]
    assert low <= SCHEMA["moment"].scale.low < SCHEMA["moment"].scale.high <= high
    assert not null
    assert box["ok"] == (((1, 1),), False)


def test_conditions_on_one_column_stay_apart_or_are_merged():
    def where(text):
        return parse(f"SELECT COUNT(*) FROM t WHERE {text}", TABLES).where

    assert where("HOUR(moment) > 3 AND HOUR(moment) < 5") == where("HOUR(moment) = 4")
    assert where("NOT HOUR(moment) >= 4") == where("HOUR(moment) < 4")
    assert where("HOUR(moment) < 4 OR HOUR(moment) >= 4 OR moment IS NULL") == EVERY
    # what is merged has its least period, or is written out
    assert where("HOUR(moment) = 1 OR HOUR(moment) = 13") == where("HOUR(moment) IN (1, 13)")
    assert where("HOUR(moment) > 3 OR HOUR(moment) <= 3") == where("moment IS NOT NULL")
    assert where("(HOUR(moment) = 1 OR HOUR(moment) = 13) AND HOUR(moment) % 12 < 2") == where(
        "HOUR(moment) % 12 = 1"
    )
    assert where("DAYOFWEEK(day) = 1 OR DAYOFWEEK(day) > 1") == where("DAYOFWEEK(day) > 0")
    both = where("HOUR(moment) = 4 AND moment >= '2000-01-01' AND DAYOFWEEK(moment) = 1")
    assert len(both.parts) == 3
    assert simplify(both, SCHEMA) == both


def test_texts_say_what_a_clock_shows():
    def said(text):
        return predicate_text(parse(f"SELECT COUNT(*) FROM t WHERE {text}", TABLES).where, SCHEMA)

    assert said("HOUR(moment) BETWEEN 8 AND 17") == "moment in 08:00:00 to 17:59:59 of every day"
    assert said("DAYOFWEEK(day) = 0") == "day in Sunday of every week"
    assert said("MINUTE(moment) % 2 = 0") == "moment in 1 ranges of every 120 seconds"


def test_numbers_of_parts_have_bounds_and_are_kept():
    query = parse("SELECT SUM(HOUR(moment)) FROM t WHERE HOUR(moment) BETWEEN 8 AND 17", TABLES)
    (leaf,) = query.aggregates
    assert isinstance(leaf.value, Mapped)
    assert read_value(plain_value(leaf.value)) == leaf.value
    assert span_of(leaf.value, SCHEMA, query.where) == (8, 17)
    weekdays = parse("SELECT COUNT(*) FROM t WHERE DAYOFWEEK(moment) < 6", TABLES).where
    assert span_of(leaf.value, SCHEMA, weekdays) == (0, 23)
    assert leaf.value.numbers.image([(0, 7_200)]) == (0, 1, 2)


def test_limits_see_the_column():
    curator = dpnb.Curator(
        [
            Table(
                "t",
                pa.table({"moment": ["2000-01-01 08:00"]}),
                Schema({"moment": SCHEMA["moment"]}),
            )
        ],
        budget=dpnb.Budget(rho=1),
        analysts={"a": 1},
    )
    curator.limit("a", column="moment", rho=0.05)
    with pytest.raises(dpnb.DpnbError, match="moment"):
        curator.session("a").query("SELECT HOUR(moment), COUNT(*) FROM t GROUP BY 1", rho=0.5)


def test_answers_in_memory_and_in_sql_are_those_of_duckdb(sample):
    """Without noise to speak of: enough budget that no interval is wider than one row."""
    connection, _ = sample
    frame = connection.execute("SELECT x AS moment FROM moment").df()
    kind = Timestamp("1899-12-30 22:10:05", "2041-03-03 04:00")
    for kept in (None, ()):
        table = Table("t", frame, Schema({"moment": kind}), in_memory=kept)
        session = dpnb.Session(table, budget=dpnb.Budget(rho=1e8))
        for keys in (("HOUR(x)",), ("DAYOFWEEK(x)", "HOUR(x)"), ("MINUTE(x) // 7",)):
            listed = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
            numbers = ", ".join(str(i + 1) for i in range(len(keys)))
            text = f"SELECT {listed}, COUNT(*) AS n, SUM(HOUR(x)) AS s FROM {{}} WHERE DAYOFWEEK(x) < 6 GROUP BY {numbers}"
            expected = {
                row[:-2]: row[-2:] for row in connection.execute(text.format("moment")).fetchall()
            }
            answer = session.query(named(text.format("t"), "moment"), rho=1e6).to_frame()
            columns = [f"k{i}" for i in range(len(keys))]
            for line in answer.to_dict("records"):
                key = tuple(line[column] for column in columns)
                assert (round(line["n"]), round(line["s"])) == expected.get(key, (0, 0))


def test_what_is_inferred_of_what_repeats():
    """Releases that would make too many bins are left out before any bin is made."""
    kind = Timestamp("2000-01-01", "2019-12-31")
    data = pa.table({"moment": ["2001-01-01 08:30"] * 50})
    session = dpnb.Session(Table("t", data, Schema({"moment": kind})), budget=dpnb.Budget(rho=1e5))
    session.query("SELECT DAYOFWEEK(moment), COUNT(*) FROM t GROUP BY 1", rho=1e3)
    session.query("SELECT MINUTE(moment), COUNT(*) FROM t GROUP BY 1", rho=1e3)
    start = time.thread_time()
    inference = session.infer("SELECT COUNT(*) AS n FROM t WHERE DAYOFWEEK(moment) = 1")
    assert round(inference.estimate) == 50
    assert time.thread_time() - start < 2
