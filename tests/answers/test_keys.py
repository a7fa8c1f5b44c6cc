"""Groups by expressions of a column: what DuckDB makes of the rows, in every verb and at every price."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import duckdb
import pandas as pd
import pytest

import dpnb
from dpnb.curator import Curator
from dpnb.errors import DpnbError, SqlError
from dpnb.sql.canonical import describe, read
from dpnb.sql.parser import parse

SCHEMA = dpnb.Schema(
    {
        "age": dpnb.Integer(17, 90, bins=[17, 30, 50, 90]),
        "n": dpnb.Integer(-3, 300),
        "day": dpnb.Date("2024-01-01", "2024-12-31"),
        "city": dpnb.Category(["Paris", "Pisa", "Rome", "other"], other="other"),
    }
)
KEYS = [
    "FLOOR(age / 10)",
    "age // 10",
    "age > 40",
    "n % 7",
    "EXTRACT(month FROM day)",
    "MONTH(day)",
    "DATE_TRUNC('month', day)",
    "DAYOFWEEK(day)",
    "UPPER(city)",
    "LEFT(city, 1)",
    "COALESCE(city, 'none')",
    "CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'middle' END",
    "CASE WHEN city LIKE 'P%' THEN 1 ELSE 0 END",
    "CASE WHEN n IS NULL THEN 'unknown' WHEN n > 100 THEN 'many' ELSE 'few' END",
]
HUGE = 10**12


def frame() -> pd.DataFrame:
    rows = range(2_000)
    return pd.DataFrame(
        {
            "age": pd.array([None if i % 41 == 0 else 17 + i * 7 % 74 for i in rows], "Int64"),
            "n": pd.array([None if i % 31 == 0 else i % 290 - 3 for i in rows], "Int64"),
            "day": pd.to_datetime("2024-01-01") + pd.to_timedelta([i * 5 % 366 for i in rows], "D"),
            "city": [[*SCHEMA["city"].values, None][i % 5] for i in rows],
        }
    )


TABLE = dpnb.Table("t", frame(), SCHEMA)


def opened() -> closing[Curator]:
    return closing(Curator([TABLE], budget=dpnb.Budget(rho=HUGE)))


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def session(curator):
    return curator.session()


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("t", frame())
        yield connection


def shown(answer) -> list[tuple]:
    """The lines of an answer without noise to speak of: group labels and rounded numbers."""
    names = [*answer.keys, *(one.alias for one in answer.estimates)]
    found = answer.to_frame()[names]
    return [
        tuple(round(value) if isinstance(value, float) else value for value in line)
        for line in found.itertuples(index=False, name=None)
    ]


def exact(rows, sql: str) -> list[tuple]:
    lines = rows.execute(sql).fetchall()
    return [
        tuple(
            str(getattr(value, "date", lambda value=value: value)())
            if hasattr(value, "isoformat")
            else value
            for value in line
        )
        for line in lines
    ]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("where", ["", " WHERE n > 20 AND age < 70"])
def test_groups_and_numbers_are_those_of_duckdb(key, where, session, rows):
    sql = f"SELECT {key} AS k, COUNT(*) AS c, SUM(n) AS s FROM t{where} GROUP BY {key}"
    answer = session.query(sql, rho=HUGE // 1_000)
    found = [line for line in shown(answer) if line[1]]
    assert found == exact(
        rows, f"SELECT k, c, COALESCE(s, 0) FROM ({sql}) WHERE k IS NOT NULL ORDER BY k"
    )


@pytest.mark.parametrize(
    ("shown_as", "keys", "kept"),
    [
        ("MONTH(day) AS m, DATE_TRUNC('month', day) AS start", "m, start", 1),
        ("n - 3 AS before, n, 2 - n AS reverse", "before, n, reverse", 1),
        ("MONTH(day) % 2 = 0 AS even, day", "1, 2", 1),
        ("day, QUARTER(day) AS q, city", "day, q, city", 2),
        ("7 AS seven, city, LEFT(city, 1) AS letter", "1, 2, 3", 1),
        ("SUBSTRING(city FROM 2 FOR 2) AS part, REVERSE(LOWER(city)) AS back", "city", 1),
        ("CONCAT(n // 10, '0s') AS tens, LENGTH(city) AS letters", "(n // 10, city)", 2),
        ("CASE WHEN n < 40 THEN 'few' ELSE 'many' END AS a, n // 5 AS five, n", "n, five", 1),
    ],
)
def test_what_a_key_determines_is_shown_with_it(shown_as, keys, kept, session, rows):
    sql = f"SELECT {shown_as}, COUNT(*) AS c FROM t WHERE n >= 0 AND city IS NOT NULL"
    sql += f" GROUP BY {keys}"
    assert len(parse(sql, {"t": TABLE}).keys) == kept
    lines = exact(rows, sql)
    found = session.query(sql, rho=HUGE // 10**6).to_frame()[
        [column for column, *_ in rows.description]
    ]
    counted = [line for line in found.itertuples(index=False, name=None) if round(line[-1])]
    assert sorted(f"{line[:-1]}{round(line[-1])}" for line in counted) == sorted(
        f"{line[:-1]}{line[-1]}" for line in lines
    )


@pytest.mark.parametrize("keys", ["age, age // 10 AS ten", "age // 10 AS ten, age"])
def test_bins_are_shown_beside_a_key_that_is_finer(keys):
    schema = dpnb.Schema({"age": dpnb.Integer(0, 39, bins=[0, 19, 39])})
    rows = pd.DataFrame({"age": [3, 12, 12, 20]})
    with dpnb.Session(dpnb.Table("t", rows, schema), budget=dpnb.Budget(rho=HUGE)) as session:
        sql = f"SELECT {keys}, COUNT(*) AS c FROM t GROUP BY 1, 2 ORDER BY ten"
        frame = session.query(sql, rho=HUGE // 10).to_frame()
    first, second = dpnb.schema.partition.labels(schema["age"])
    assert list(zip(frame.age, frame.ten, frame.c.round(), strict=True)) == [
        (first, 0, 1), (first, 1, 2), (second, 2, 1), (second, 3, 0),
    ]  # fmt: skip


def test_truths_are_not_called_as_the_numbers_that_equal_them(session, rows):
    for key, labels in (
        ("n % 2 + 2 - 2", [-1, 0, 1]),
        ("ABS(n) % 2", [0, 1]),
        ("ABS(n) % 2 = 1", [False, True]),
    ):
        answer = session.query(f"SELECT {key} AS k, COUNT(*) AS c FROM t GROUP BY k", rho=1)
        assert [repr(label) for (label,) in answer.groups] == list(map(repr, labels))
    text = "SELECT ABS(n) % 2 AS odd, COUNT(*) AS c FROM t GROUP BY odd, ABS(n) % 2 = 1 HAVING c < 0 OR ABS(n) % 2 = 1"
    answer = session.query(text, rho=HUGE // 10**6)
    assert answer.to_frame()["odd"].tolist() == [1]


def test_a_column_that_differs_within_a_group_is_in_no_key():
    for text in ("n % 7", "n", "LEFT(city, 1)", "n // 10 = 3 OR n = 3", "n // 20"):
        with pytest.raises(SqlError, match="is not in GROUP BY|is not supported"):
            parse(f"SELECT {text}, COUNT(*) AS c FROM t GROUP BY n // 10", {"t": TABLE})


def test_groups_stand_in_the_order_of_sql(session):
    found = session.query("SELECT UPPER(city) AS u, COUNT(*) FROM t GROUP BY UPPER(city)", rho=1)
    assert [group for (group,) in found.groups] == ["OTHER", "PARIS", "PISA", "ROME"]
    young = "CASE WHEN age < 30 THEN 'young' ELSE 'old' END"
    found = session.query(f"SELECT {young} AS a, COUNT(*) FROM t GROUP BY {young}", rho=1)
    assert found.groups == (("old",), ("young",))


@pytest.mark.parametrize(
    ("key", "labels"),
    [
        ("age > 40", [False, True]),
        ("FLOOR(age / 50)", [0, 1]),
        ("age / 60 > 1 AND age < 70", [False, True]),
        ("CAST(age // 50 AS VARCHAR)", ["0", "1"]),
        ("CAST(age // 50 AS DOUBLE) / 2", [0.0, 0.5]),
        ("DATE_TRUNC('year', day)", ["2024-01-01"]),
    ],
)
def test_labels_have_their_types(key, labels, session):
    found = session.query(f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY {key}", rho=1)
    assert [repr(label) for (label,) in found.groups] == list(map(repr, labels))
    again = type(found).from_dict(found.to_dict())
    assert again.groups == found.groups


def test_several_keys_of_a_column_make_the_groups_that_can_be(session, rows):
    sql = "SELECT MONTH(day) AS m, QUARTER(day) AS q, COUNT(*) AS c FROM t GROUP BY MONTH(day), QUARTER(day)"
    found = session.query(sql, rho=HUGE // 1_000)
    assert shown(found) == exact(rows, f"{sql} ORDER BY m, q")
    assert len(found.rows) == 12


def test_a_label_may_be_computed_from_a_key(session, rows):
    sql = "SELECT FLOOR(age / 10) * 10 AS d, COUNT(*) AS c FROM t GROUP BY FLOOR(age / 10)"
    found = session.query(f"{sql} ORDER BY FLOOR(age / 10) DESC", rho=HUGE // 1_000)
    assert list(found.to_frame()["d"]) == [90, 80, 70, 60, 50, 40, 30, 20, 10]


class TestIdentity:
    """The groups are what a view is about; their names are not."""

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("MONTH(day)", "EXTRACT(month FROM day)"),
            ("MONTH(day)", "DATE_TRUNC('month', day)"),
            ("FLOOR(age / 10)", "age // 10"),
            (
                "city = 'Rome'",
                "CASE WHEN city = 'Rome' THEN 'yes' WHEN city <> 'Rome' THEN 'no' END",
            ),
            ("LOWER(city)", "city"),
            ("n + 0", "n"),
            ("CASE WHEN age <= 30 THEN 1 WHEN age <= 50 THEN 2 WHEN age > 50 THEN 3 END", "age"),
        ],
    )
    def test_equal_groups_share_releases(self, one, other, session):
        def bought(key):
            return session.query(
                f"SELECT COUNT(*) AS c FROM t GROUP BY {key}", rho="0.25"
            ).spent.rho

        session.query(f"SELECT COUNT(*) AS c FROM t GROUP BY {one}", rho="0.25")
        assert bought(other) == 0

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("age // 10", "age // 11"),
            ("age <= 30", "age <= 31"),
            ("COALESCE(city, 'none')", "city"),
            ("n // 50", "n // 51"),
        ],
    )
    def test_other_groups_do_not(self, one, other):
        with opened() as curator:
            session = curator.session()
            session.query(f"SELECT COUNT(*) AS c FROM t GROUP BY {one}", rho="0.25")
            second = session.query(f"SELECT COUNT(*) AS c FROM t GROUP BY {other}", rho="0.25")
            assert second.spent.rho > 0

    @pytest.mark.parametrize("key", KEYS)
    def test_a_description_is_read_back(self, key):
        query = parse(f"SELECT COUNT(*) AS c FROM t GROUP BY {key}, n // 100", {"t": TABLE})
        again = read(describe(query), query.schema)
        assert describe(again) == describe(query)
        assert [(k.partition, k.labels, k.order) for k in again.keys] == [
            (k.partition, k.labels, k.order) for k in query.keys
        ]

    def test_disjoint_groups_share_a_budget(self):
        """A group column without ELSE covers only the rows that it names."""
        with opened() as curator:
            session = curator.session()
            young = "CASE WHEN age < 30 THEN 'y' WHEN age < 40 THEN 'm' END"
            old = "CASE WHEN age >= 60 THEN 'o' WHEN age >= 50 THEN 'm' END"
            for key in (young, old):
                session.query(f"SELECT COUNT(*) AS c FROM t GROUP BY {key}", rho="0.5")
            assert curator.budget.spent.rho == 0.5
            session.query("SELECT COUNT(*) AS c FROM t GROUP BY age < 40", rho="0.5")
            assert curator.budget.spent.rho == 1


class TestOtherVerbs:
    def test_a_question_and_its_explanation(self):
        with opened() as curator:
            session = curator.session()
            key = "CASE WHEN age < 40 THEN 'young' ELSE 'old' END"
            answer = session.query(
                f"SELECT {key} AS a, AVG(n) AS m FROM t GROUP BY {key}", rho=1_000
            )
            question = answer.compare("old", "young")
            found = session.explain(question, k=1, rho=1_000, anyway=True)
            assert found.to_dict()["attributes"] == ["city"]

    def test_a_decision(self, session, rows):
        key = "MONTH(day)"
        sql = f"SELECT {key} AS m FROM t GROUP BY {key} HAVING COUNT(*) > 165"
        found = session.decide(sql, u=1)
        assert found.selected == [m for (m,) in exact(rows, f"{sql} ORDER BY m")]

    def test_days_give_months_quarters_and_ranges(self):
        with opened() as curator:
            session = curator.session()
            session.query("SELECT day, COUNT(*) AS c FROM t GROUP BY day", rho=HUGE // 1_000)
            months = session.infer(
                "SELECT MONTH(day) AS m, COUNT(*) AS c FROM t GROUP BY MONTH(day)"
            )
            assert list(months.to_frame()["c"]) == list(
                frame().groupby(frame()["day"].dt.month).size()
            )

    def test_months_give_quarters_and_ranges(self):
        with opened() as curator:
            session = curator.session()
            session.query("SELECT COUNT(*) AS c FROM t GROUP BY MONTH(day)", rho=HUGE // 1_000)
            quarters = session.infer("SELECT COUNT(*) AS c FROM t GROUP BY QUARTER(day)")
            assert list(quarters.to_frame()["c"]) == list(
                frame().groupby(frame()["day"].dt.quarter).size()
            )
            spring = "day BETWEEN '2024-03-01' AND '2024-05-31'"
            found = session.infer(f"SELECT COUNT(*) AS c FROM t WHERE {spring}")
            assert found.estimate == frame()["day"].dt.month.between(3, 5).sum()
            with pytest.raises(DpnbError, match="do not determine"):
                session.infer("SELECT COUNT(*) AS c FROM t WHERE day < '2024-03-02'")

    def test_a_declared_view_by_day_answers_months_but_none_of_months_a_week(self):
        with opened() as curator:
            curator.add_view(["day"], name="days")
            session = curator.session()

            def views(key):
                answer = session.query(f"SELECT COUNT(*) AS c FROM t GROUP BY {key}", rho="0.5")
                return ["histogram" in one for one in answer.definitions.values()]

            assert views("MONTH(day)") == views("DAYOFWEEK(day)") == [True]
            assert views("n // 10") == [False]

    def test_a_view_whose_bins_straddle_groups_does_not_answer(self):
        with opened() as curator:
            curator.add_view(["n"], bins={"n": [0, 15, 30]})
            session = curator.session()
            answer = session.query("SELECT COUNT(*) AS c FROM t GROUP BY n // 10", rho="0.5")
            assert all("histogram" not in one for one in answer.definitions.values())

    def test_risk(self, curator):
        found = curator.risk("SELECT COUNT(*) AS c FROM t GROUP BY MONTH(day)")
        same = curator.risk("SELECT COUNT(*) AS c FROM t GROUP BY city")
        assert repr(found.rdr(rho=1)) == repr(same.rdr(rho=1))


class TestBaseColumns:
    @pytest.mark.parametrize("key", ["MONTH(day)", "QUARTER(day)", "day > '2024-03-01'"])
    def test_a_limit_of_a_column_counts_its_expressions(self, key):
        with opened() as curator:
            curator.limit(column="day", rho="0.05")
            session = curator.session()
            with pytest.raises(DpnbError, match="a column's limit"):
                session.query(f"SELECT COUNT(*) AS c FROM t GROUP BY {key}", rho=1)
            session.query("SELECT COUNT(*) AS c FROM t GROUP BY city", rho=1)


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("age / n", "expressions of one column"),
        ("'x'", "expressions of one column"),
        ("NULLIF(age, age)", "NULL for every value"),
        ("1 // (age - 30)", "no finite result for age = 30"),
        ("n * n, day", "more than 10,000"),
        ("RANDOM()", "expressions of one column"),
        ("age + RANDOM()", "not supported"),
        ("COUNT(*)", "expressions of one column"),
        ("COUNT(age)", "aggregates"),
        ("(SELECT 1)", "expressions of one column"),
    ],
)
def test_refusals(key, what):
    with pytest.raises(SqlError, match=what):
        parse(f"SELECT COUNT(*) AS c FROM t GROUP BY {key}", {"t": TABLE})
