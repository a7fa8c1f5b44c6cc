"""What is possible of a result, from public facts alone."""

from __future__ import annotations

import math
import random

import duckdb
import pandas as pd
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.sql.parser import parse
from dpnb.sql.ranges import MOST_GROUPS, ranges_of

pytestmark = pytest.mark.fast

INF = math.inf
SCHEMA = Schema(
    {
        "kind": Category(["new", "old", "odd"]),
        "age": Integer(0, 60, bins=[0, 20, 60]),
        "debt": Real(-5, 0),
        "net": Integer(-50, 50),
        "flag": Integer(0, 1),
        "day": Date("2024-01-01", "2024-01-10"),
        "id": Integer(1, 2_000),
    },
    complete=["age"],
)
TABLES = {"t": Table("t", None, SCHEMA)}


def ranges(expression: str, where: str = "", group: str = "") -> list[tuple[float, float]]:
    keys = f"{group}, " if group else ""
    query = parse(
        f"SELECT {keys}{expression} AS value FROM t"
        + (f" WHERE {where}" if where else "")
        + (f" GROUP BY {group}" if group else ""),
        TABLES,
    )
    return list(ranges_of(query.outputs[0], query))


class TestAggregates:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("COUNT(*)", (0, INF)),
            ("COUNT(net)", (0, INF)),
            ("SUM(age)", (0, INF)),
            ("SUM(debt)", (-INF, 0)),
            ("SUM(net)", (-INF, INF)),
            ("SUM(net * net)", (0, INF)),
            ("SUM(age + 5)", (0, INF)),
            ("SUM(CASE WHEN kind = 'new' THEN 1 ELSE 0 END)", (0, INF)),
            ("SUM(CASE WHEN net > 0 THEN net ELSE 0 END)", (0, INF)),
            ("SUM(CASE WHEN net < 0 THEN net END)", (-INF, 0)),
            ("SUM(CASE WHEN net < 0 THEN -net ELSE net END)", (0, INF)),
            ("SUM(CASE WHEN kind = 'new' THEN net ELSE 0 END)", (-INF, INF)),
            ("SUM(net) FILTER (WHERE net >= 3)", (0, INF)),
            ("SUM(net) FILTER (WHERE net >= 3 OR age > 5)", (-INF, INF)),
            ("AVG(age)", (0, 60)),
            ("AVG(net) FILTER (WHERE net > 10)", (11, 50)),
            ("AVG(CASE WHEN kind = 'new' THEN 1 ELSE 0 END)", (0, 1)),
            ("COUNT(*) FILTER (WHERE kind = 'new' AND kind = 'old')", (0, 0)),
            ("SUM(net) FILTER (WHERE kind = 'new' AND kind = 'old')", (0, 0)),
        ],
    )
    def test_follow_from_the_declared_bounds(self, expression, expected):
        assert ranges(expression) == [expected]

    def test_of_a_condition_on_the_summed_column(self):
        assert ranges("SUM(net)", "net BETWEEN 0 AND 9") == [(0, INF)]
        assert ranges("AVG(net)", "net IN (-3, 7)") == [(-3, 7)]

    def test_each_group_of_the_summed_column_has_its_own(self):
        assert ranges("AVG(age)", group="age") == [(0, 20), (21, 60)]
        assert ranges("COUNT(*) FILTER (WHERE kind = 'old')", group="kind") == [
            (0, 0),
            (0, INF),
            (0, 0),
        ]
        assert ranges("SUM(net)", group="kind") == [(-INF, INF)]

    def test_very_many_groups_share_one(self):
        assert MOST_GROUPS < 2_000
        assert ranges("AVG(id)", "id > 7", group="id") == [(8, 2_000)]


class TestFormulas:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("COUNT(*) FILTER (WHERE kind = 'new') / COUNT(*)", (0, 1)),
            ("100.0 * COUNT(*) FILTER (WHERE kind = 'new') / COUNT(*)", (0, 100)),
            ("1 - COUNT(*) FILTER (WHERE kind = 'new') / COUNT(*)", (0, 1)),
            ("COUNT(kind) / COUNT(*)", (0, 1)),
            ("COUNT(*) / COUNT(*)", (1, 1)),
            # the rows above the line are among those below it, by their conditions
            (
                "COUNT(*) FILTER (WHERE kind = 'new' AND age > 3) / COUNT(*) FILTER (WHERE age > 2)",
                (0, 1),
            ),
            (
                "COUNT(*) FILTER (WHERE age > 40) / COUNT(*) FILTER (WHERE age > 2 OR net > 0)",
                (0, 1),
            ),
            (
                "COUNT(*) FILTER (WHERE kind = 'new') / "
                "(COUNT(*) FILTER (WHERE kind = 'new') + COUNT(*) FILTER (WHERE kind = 'old'))",
                (0, 1),
            ),
            # or they are not
            (
                "COUNT(*) FILTER (WHERE kind = 'new') / COUNT(*) FILTER (WHERE kind = 'old')",
                (0, INF),
            ),
            ("COUNT(*) FILTER (WHERE age > 2) / COUNT(*) FILTER (WHERE age > 3)", (1, INF)),
            ("COUNT(*) FILTER (WHERE age > 2) / COUNT(*) FILTER (WHERE net > 2)", (0, INF)),
            ("COUNT(*) / COUNT(kind)", (1, INF)),
            # sums are shares where no row is negative
            ("SUM(age) FILTER (WHERE kind = 'new') / SUM(age)", (0, 1)),
            ("SUM(debt) FILTER (WHERE kind = 'new') / SUM(debt)", (0, 1)),
            ("SUM(net) FILTER (WHERE kind = 'new') / SUM(net)", (-INF, INF)),
            ("SUM(flag) / COUNT(*)", (0, 1)),
            ("SUM(age) / COUNT(age)", (0, 60)),
            ("SUM(net) / COUNT(*) FILTER (WHERE kind = 'new')", (-INF, INF)),
            ("SUM(age) / SUM(flag)", (0, INF)),
            ("AVG(age) / AVG(flag)", (0, INF)),
            ("COUNT(*) - COUNT(*) FILTER (WHERE kind = 'new')", (0, INF)),
            ("COUNT(*) FILTER (WHERE kind = 'new') - COUNT(*)", (-INF, 0)),
            ("COUNT(*) FILTER (WHERE kind = 'new') - COUNT(*) / 2", (-INF, INF)),
            ("SUM(age) - SUM(debt) + 7", (7, INF)),
            ("SUM(age) - SUM(net)", (-INF, INF)),
            ("AVG(age) - AVG(net)", (-50, 110)),
            ("2 * COUNT(*) - 7", (-7, INF)),
            ("SQRT(AVG(age))", (0, pytest.approx(math.sqrt(60)))),
            ("LN(COUNT(*))", (-INF, INF)),
            ("EXP(AVG(flag))", (pytest.approx(1), pytest.approx(math.e))),
            ("VAR_POP(net)", (0, 2_500)),
            ("STDDEV_POP(net)", (0, 50)),
            ("MEDIAN(age)", (0, 60)),
            ("SUM(age) * AVG(debt)", (-INF, 0)),
        ],
    )
    def test_follow_from_conditions_and_bounds(self, expression, expected):
        assert ranges(expression) == [expected]

    def test_a_missing_value_counts_below_but_not_above(self):
        # a mean over all rows may be nearer to 0 than every value
        assert ranges("SUM(net) / COUNT(*)", "net > 3") == [(4, 50)]
        assert ranges("SUM(net) / COUNT(net)", "net > 3") == [(4, 50)]
        assert ranges("SUM(CASE WHEN net > 3 THEN net END) / COUNT(*)") == [(0, 50)]
        assert ranges("SUM(CASE WHEN net > 3 THEN net END) / COUNT(CASE WHEN net > 3 THEN 1 END)") == [
            (4, 50)
        ]  # fmt: skip

    def test_complicated_conditions_are_left_alone(self):
        many = " + ".join(f"COUNT(*) FILTER (WHERE net > {i})" for i in range(-6, 6))
        odd = " AND ".join(f"(kind = 'new' OR net > {i} OR age > {i})" for i in range(20))
        for formula in (f"({many}) / COUNT(*)", f"COUNT(*) FILTER (WHERE {odd}) / COUNT(*)"):
            ((low, high),) = ranges(formula)
            assert low == 0
            assert high >= 1


class TestPeople:
    SHARE = "SELECT COUNT(DISTINCT pid) FILTER (WHERE {}) / COUNT(DISTINCT pid) FILTER (WHERE {}) AS v FROM p"

    @pytest.mark.parametrize(
        ("above", "below", "most", "expected"),
        [
            ("age > 40", "age > 20", None, (0, 1)),
            ("age > 20", "age > 40", None, (0, INF)),
            # people that are counted in one group only may be missing below the line
            ("age > 40", "age > 20", 1, (0, INF)),
        ],
    )
    def test_a_share_of_people_is_at_most_all(self, above, below, most, expected):
        unit = Unit("pid", max_rows=5, max_groups=most)
        tables = {"p": Table("p", None, SCHEMA, unit)}
        query = parse(self.SHARE.format(above, below), tables)
        assert ranges_of(query.outputs[0], query) == (expected,)
        count = parse("SELECT COUNT(DISTINCT pid) AS v FROM p", tables)
        assert ranges_of(count.outputs[0], count) == (((0, INF)),)


EXPRESSIONS = (
    "COUNT(*)", "COUNT(net)", "SUM(age)", "SUM(debt)", "SUM(net)", "AVG(net)", "AVG(age)",
    "SUM(CASE WHEN net > 2 THEN net END)", "SUM(CASE WHEN age > 9 THEN debt ELSE 1 END)",
)  # fmt: skip
CONDITIONS = (
    "kind = 'new'", "kind <> 'old'", "age > 20", "age <= 20 AND net > 0", "net IS NULL",
    "kind = 'new' OR net >= 0", "NOT (age > 20 OR kind = 'odd')", "net BETWEEN -5 AND 5",
)  # fmt: skip


def test_hold_for_every_table():
    """Random formulas on many small tables; the engine computes what the range must contain."""
    draw = random.Random(3)  # noqa: S311

    def term() -> str:
        text = draw.choice(EXPRESSIONS)
        return f"{text} FILTER (WHERE {draw.choice(CONDITIONS)})" if draw.random() < 0.7 else text

    size, tables = 200, 40
    frame = pd.DataFrame(
        {
            "place": [draw.randrange(tables) for _ in range(size)],
            "kind": [draw.choice(["new", "old", "odd", None]) for _ in range(size)],
            "age": [draw.choice([0, 10, 20, 21, 60]) for _ in range(size)],
            "debt": [draw.choice([-5.0, -1.5, 0.0, None]) for _ in range(size)],
            "net": pd.array(
                [draw.choice([-50, -1, 0, 3, 50, None]) for _ in range(size)], dtype="Int64"
            ),
        }
    )
    shapes = (
        "{0}",
        "{0} / {1}",
        "{0} - {1}",
        "({0} + {1}) / {2}",
        "{0} / ({0} + {1})",
        "2 * {0} / {1}",
    )
    held = ends = 0
    with duckdb.connect() as engine:
        engine.register("t", frame)
        for _ in range(150):
            formula = draw.choice(shapes).format(term(), term(), term())
            where = draw.choice(("", *CONDITIONS))
            ((low, high),) = ranges(formula, where)
            condition = f" WHERE {where}" if where else ""
            values = engine.execute(
                f"SELECT CAST({formula} AS DOUBLE) FROM t{condition} GROUP BY place"
            ).fetchall()
            for (value,) in values:
                if value is not None and math.isfinite(value):
                    assert low - 1e-9 <= value <= high + 1e-9, (formula, where, value)
                    held += 1
                    ends += value in (low, high)
    # the ranges are not all of the line, and values reach their ends
    assert held > 2_000
    assert ends > 200
