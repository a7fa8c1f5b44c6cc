"""Expressions of columns with very many values: exact at every break point, and limited."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.errors import SqlError
from dpnb.schema.predicates import Within
from dpnb.schema.timestamps import EPOCH
from dpnb.sql import breaks
from dpnb.sql.dataless import evaluate
from dpnb.sql.outputs import outputs, type_of, typed
from dpnb.sql.parser import parse

SCHEMA = Schema(
    {
        "g": Category(["a", "b"]),
        "wage": Real(-5, 200),
        "huge": Integer(-(2**40), 2**40),
        "day": Date("0001-01-01", "9999-12-31"),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}
NUMBERS = (
    "FLOOR(v / 10)", "CEIL(v)", "ROUND(v)", "ROUND(v, 1)", "TRUNC(v / 7)", "SIGN(v)",
    "v * 2 > 30", "v = 7.1", "NOT v < 0.1", "v IN (1, 2.5, 300)",
    "ABS(v - 20) < 5", "ABS(ABS(v - 20) - 5) < 2", "ROUND(v) = 7", "ROUND(v) % 7", "FLOOR(v) * FLOOR(v)",
    "CASE WHEN v < 20 THEN 'low' WHEN v < 50.5 THEN 'mid' ELSE 'high' END", "CASE v WHEN 3 THEN 1 END",
    "LEAST(FLOOR(v), 5)", "GREATEST(LEAST(v, 3), 3)", "COALESCE(v, 3) > 2",
    "NULLIF(ROUND(v), 3)", "v IS NULL OR v > 5", "SQRT(ABS(v)) < 3",
    "SQRT(v) < 3", "CAST(v AS SMALLINT)", "CAST(v AS DECIMAL(10, 1))", "CAST(v AS BOOLEAN)",
    "CAST(ROUND(v) AS VARCHAR)", "-v / 3 + 1 >= 0.1", "v IS DISTINCT FROM 3", "v - 1e-320 > -1",
    "FLOOR(v * 10) / 10", "v > 1 AND v < 2 OR FLOOR(v) = ROUND(v)", "v * 0", "CAST(v / 99 AS INTEGER)",
)  # fmt: skip
WHOLE = (
    "v // 1000000000", "FLOOR(v / 1e9) % 3 = 1", "v / 3 = 1", "ROUND(v, -9)", "CAST(v AS FLOAT) > 16777217",
    "v * 0.1 >= 2.5",
)  # fmt: skip
DAYS = (
    "YEAR(v)", "DATE_TRUNC('month', v) >= DATE '2020-02-02'", "EXTRACT(century FROM v)", "DATE_PART('decade', v)",
    "v + INTERVAL 1 MONTH > DATE '2024-02-29'", "LAST_DAY(v) = DATE '2024-02-29'", "DATE_TRUNC('year', v)",
    "DATE_DIFF('year', v, DATE '2024-01-01')", "v - DATE '2024-01-01' > 0", "ABS(v - DATE '2024-01-01') < 3",
    "CAST(v AS TIMESTAMP) < TIMESTAMP '2024-01-01 12:00:00'",
)  # fmt: skip
CASES = [
    *((text, SCHEMA["wage"]) for text in NUMBERS),
    *((text, SCHEMA["huge"]) for text in WHOLE),
    *((text, SCHEMA["day"]) for text in DAYS),
    ("FLOOR(v * 1000)", Real(0, 1)),
    ("v > 0", Real(-1e149, 1e149)),
]


def samples(kind, found):
    """Codes around all break points, at the ends and at random, ascending."""
    scale, draw = kind.scale, np.random.default_rng(3)
    picked = {scale.low, scale.high}
    for low, _, _ in found.function.pieces[:: max(1, len(found.function.pieces) // 100)]:
        for code in (
            low,
            scale.next(low),
            scale.previous(low),
            scale.previous(scale.previous(low)),
        ):
            picked.add(min(max(code, scale.low), scale.high))
    spread = draw.uniform(scale.low, scale.high, 200).tolist()
    picked |= {code if kind.kind == "real" else int(code) for code in spread}
    if kind.kind == "real":
        picked |= {c for c in (5e-324, -5e-324, 0.0, 0.5, math.pi) if scale.low <= c <= scale.high}
    return sorted(picked)


@pytest.mark.fast
@pytest.mark.parametrize(("text", "kind"), CASES)
def test_every_output_is_duckdbs(text, kind):
    found = breaks.searched(text, kind)
    codes = samples(kind, found)
    name = type_of(text, kind)
    values, missing, _ = outputs(text, kind, codes, name)
    for code, value, lacks in zip(codes, typed(values, name), missing.tolist(), strict=True):
        expected = value.date() if name == "TIMESTAMP" else value
        assert found.function(code) == (None if lacks else expected), code


@pytest.mark.fast
def test_a_break_point_takes_few_queries(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "dpnb.sql.outputs.evaluate", lambda *parts: asked.append(parts) or evaluate(*parts)
    )
    breaks.searched("FLOOR(v / 10)", SCHEMA["wage"])
    assert len(asked) <= 64


@pytest.mark.fast
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("wage * 2 > 30", "wage > 15"),
        ("ABS(wage - 20) < 5", "wage > 15 AND wage < 25"),
        ("ABS(wage - 20) < 0.125", "wage > 19.875 AND wage < 20.125"),
        ("ROUND(wage) = 7", "wage >= 6.5 AND wage < 7.5"),
        ("SIGN(wage) = 1", "wage > 0"),
        ("NOT COALESCE(wage, 0) >= 0", "wage < 0"),
        ("huge // 1000 = 5", "huge BETWEEN 5000 AND 5999"),
        ("YEAR(day) = 2024", "day BETWEEN '2024-01-01' AND '2024-12-31'"),
    ],
)
def test_conditions_change_where_equal_comparisons_do(left, right):
    found = [parse(f"SELECT COUNT(*) FROM t WHERE {one}", TABLES).where for one in (left, right)]
    assert isinstance(found[0], Within)
    assert repr(found[0]) == repr(found[1])


@pytest.mark.fast
class TestLimits:
    @pytest.mark.parametrize(
        ("statement", "hint"),
        [
            ("SELECT SUM(EXP({})) FROM t", "FLOOR(wage / 10)"),
            ("SELECT COUNT(*) FROM t WHERE {} % 7 = 3", "FLOOR(wage / 10)"),
            ("SELECT COUNT(*) FROM t GROUP BY {} * 1.1 - {}", "FLOOR(wage / 10)"),
            ("SELECT COUNT(*) FROM t WHERE {} / 0 = 3", "FLOOR(wage / 10)"),
        ],
    )
    def test_what_changes_too_often_is_refused_with_what_does_not(self, statement, hint):
        with pytest.raises(SqlError, match=r"changes more than 10,000 times") as refused:
            parse(statement.format("wage", "wage"), TABLES)
        assert refused.value.hint.endswith(f"make it coarser: {hint} for wage.")
        if "/ 0" not in statement:
            parse(statement.format(hint, hint), TABLES)

    @pytest.mark.parametrize(
        ("column", "hint"),
        [("huge % 7", "FLOOR(huge / 10000000000)"), ("MONTH(day)", "DATE_TRUNC('year', day)")],
    )
    def test_the_hint_fits_the_column(self, column, hint):
        with pytest.raises(SqlError) as refused:
            parse(f"SELECT COUNT(*) FROM t GROUP BY {column}", TABLES)
        assert hint in refused.value.hint
        name = column.strip("MONTH()").split()[0]
        parse(f"SELECT COUNT(*) FROM t GROUP BY {column.replace(name, hint)}", TABLES)

    def test_a_real_column_without_bins_makes_groups_by_an_expression(self):
        with pytest.raises(SqlError, match="no declared groups") as refused:
            parse("SELECT COUNT(*) FROM t GROUP BY wage", TABLES)
        assert refused.value.hint.endswith("or write FLOOR(wage / 10).")
        parse("SELECT COUNT(*) FROM t GROUP BY FLOOR(wage / 10)", TABLES)

    def test_a_value_without_a_result_is_named(self):
        with pytest.raises(SqlError, match=r"no finite result for wage = -5"):
            parse("SELECT SUM(ROUND(SQRT(wage))) FROM t", TABLES)
        parse("SELECT SUM(ROUND(SQRT(GREATEST(wage, 0)))) FROM t", TABLES)

    def test_parts_out_of_range_on_both_sides_are_refused(self):
        with pytest.raises(SqlError, match=r"a part of this has no finite result") as refused:
            parse("SELECT COUNT(*) FROM t WHERE CAST(huge AS SMALLINT) = 3", TABLES)
        inside = "LEAST(GREATEST(huge, 0), 100)"
        assert inside in refused.value.hint
        parse(f"SELECT COUNT(*) FROM t WHERE CAST({inside} AS SMALLINT) = 3", TABLES)


STATEMENTS = (
    "SELECT FLOOR(wage / 10) AS k, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT ROUND(wage) AS k, COUNT(*) AS n FROM t WHERE ABS(wage - 20) < 5 GROUP BY ROUND(wage)",
    "SELECT CASE WHEN wage < 20 THEN 'low' WHEN wage >= 100 THEN 'high' ELSE 'mid' END AS k, "
    "SUM(FLOOR(wage)) AS n FROM t WHERE wage IS NOT NULL GROUP BY 1",
    "SELECT g AS k, SUM(ROUND(wage, -1)) AS n FROM t WHERE wage * 2 > 30 OR ROUND(wage) = 7 GROUP BY g",
    "SELECT YEAR(day) // 100 AS k, COUNT_IF(huge // 100000000000 % 2 = 0) AS n FROM t GROUP BY 1",
)  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    draw, n = np.random.default_rng(8), 3_000
    wage = np.where(draw.random(n) < 0.5, draw.normal(40, 60, n), draw.integers(-20, 420, n) / 2)
    return pd.DataFrame(
        {
            "g": draw.choice(["a", "b"], n),
            "wage": np.where(draw.random(n) < 0.1, np.nan, wage),
            "huge": draw.integers(-(2**40), 2**40, n),
            "day": [EPOCH.fromordinal(int(one)) for one in draw.integers(1, 3_652_059, n)],
        }
    )


@pytest.mark.parametrize("in_memory", [(), None], ids=["sql", "arrays"])
def test_answers_are_duckdbs(in_memory, rows):
    normal = rows.assign(
        wage=rows["wage"].clip(-5, 200).astype(object).where(rows["wage"].notna(), None)
    )
    table = Table("t", rows, SCHEMA, in_memory=in_memory)
    with duckdb.connect() as plain, dpnb.Session(table, budget=dpnb.Budget(rho=1e12)) as session:
        plain.register("f", normal)
        plain.execute("CREATE TABLE t AS SELECT * REPLACE (wage::DOUBLE AS wage) FROM f")
        for statement in STATEMENTS:
            found = session.query(statement, rho=1e9).to_frame().set_index("k")["n"]
            exact = {key: n for key, n in plain.execute(statement).fetchall() if key is not None}
            assert exact.keys() <= set(found.index)
            for key, n in found.items():
                assert n == pytest.approx(float(exact.get(key) or 0), abs=0.3), (statement, key)
