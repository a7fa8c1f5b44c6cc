"""Other spellings of a statement: the same answer, the same release, and places as they were written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpnb import Budget, Category, Date, Integer, Real, Schema, Session, Table, Unit
from dpnb.errors import SqlError
from dpnb.schema.joins import joined
from dpnb.sql.canonical import describe
from dpnb.sql.parser import parse
from tests.kit.twins import Twins

SCHEMA = Schema(
    {
        "sex": Category(["f", "m"]),
        "shop": Integer(1, 4),
        "yes": Integer(0, 1),
        "age": Integer(0, 100, bins=[0, 30, 60, 100]),
        "wage": Real(0, 100, bins=[0, 50, 100]),
        "day": Date("2024-01-01", "2024-01-04"),
    },
    complete=["sex"],
)
SHOPS = Schema({"shop": Integer(1, 4), "town": Category(["Ulm", "Bonn"])})


def frame(rows=400):
    rng = np.random.default_rng(3)
    wage = np.round(rng.uniform(0, 100, rows), 1)
    wage[rng.random(rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "person": np.arange(rows) // 2,
            "sex": np.array(["f", "m"])[rng.integers(0, 2, rows)],
            "shop": rng.integers(1, 5, rows),
            "yes": rng.integers(0, 2, rows),
            "age": rng.integers(0, 101, rows),
            "wage": wage,
            "day": [f"2024-01-0{day}" for day in rng.integers(1, 5, rows)],
        }
    )


PEOPLE = Table("t", frame(), SCHEMA, Unit("person", max_rows=2))
TOWNS = pd.DataFrame({"shop": [1, 2, 3], "town": ["Ulm", "Bonn", "Bonn"]})
LOOKED_UP = Table("shops", TOWNS, SHOPS, public=True, key="shop")
TABLES = joined({"t": PEOPLE, "shops": LOOKED_UP}, lambda name, join: None)


@pytest.fixture(scope="module")
def twins():
    opened = Twins({"t": (PEOPLE, frame()), "shops": (LOOKED_UP, TOWNS)})
    yield opened
    opened.close()


def meaning(text, **options):
    query = parse(text, TABLES, **options)
    names = [key.alias for key in query.keys], [output.alias for output in query.outputs]
    return describe(query), names, query.shown, query.having


def refused(text, **options):
    with pytest.raises(SqlError) as caught:
        parse(text, TABLES, **options)
    return caught.value


SAME = [
    # GROUP BY
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY 1", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"),
    ("SELECT shop, sex AS s, COUNT(*) AS n FROM t GROUP BY 1, 2", "SELECT shop, sex AS s, COUNT(*) AS n FROM t GROUP BY shop, sex"),
    ("SELECT COUNT(*) AS n, sex AS s, shop FROM t GROUP BY 3, s", "SELECT COUNT(*) AS n, sex AS s, shop FROM t GROUP BY shop, sex"),
    ("SELECT sex AS s, COUNT(*) AS n FROM t GROUP BY S", "SELECT sex AS s, COUNT(*) AS n FROM t GROUP BY sex"),
    ("SELECT sex, shop, COUNT(*) AS n FROM t GROUP BY ALL", "SELECT sex, shop, COUNT(*) AS n FROM t GROUP BY sex, shop"),
    ("SELECT COUNT(*) AS n FROM t GROUP BY ALL", "SELECT COUNT(*) AS n FROM t"),
    ("SELECT AVG(s) AS m FROM (SELECT person, SUM(IF(yes, wage, 0)) AS s FROM t GROUP BY ALL)", "SELECT AVG(s) AS m FROM (SELECT person, SUM(CASE WHEN yes = 1 THEN wage ELSE 0 END) AS s FROM t GROUP BY person)"),
    ("SELECT COUNT(*) AS n FROM t GROUP BY ()", "SELECT COUNT(*) AS n FROM t"),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex, 1, (sex)", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"),
    # a column of FROM comes before an alias
    ("SELECT shop AS sex, COUNT(*) AS n FROM t GROUP BY shop, 1", "SELECT shop AS sex, COUNT(*) AS n FROM t GROUP BY shop"),
    # ORDER BY
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY 2 DESC", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY n DESC"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY 2, 1", "SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY COUNT(*), sex"),
    ("SELECT sex, SUM(wage) / COUNT(*) FROM t GROUP BY sex ORDER BY 2", "SELECT sex, SUM(wage) / COUNT(*) FROM t GROUP BY sex ORDER BY SUM(wage) / COUNT(*)"),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY ALL DESC", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY sex DESC, n DESC"),
    # rows
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex LIMIT ALL", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY 2 FETCH FIRST 1 ROWS ONLY", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY 2 LIMIT 1"),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY 2 FETCH NEXT ROW ONLY", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY 2 LIMIT 1"),
    ("SELECT TOP 2 shop, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 1 DESC;", "SELECT shop, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 1 DESC LIMIT 2"),
    ("select distinct top (2) shop, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 1", "SELECT shop, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 1 LIMIT 2"),
    ("SELECT sex, COUNT(*) AS n FROM (t) GROUP BY 1", "SELECT sex, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT x.sex, COUNT(*) AS n FROM ((t AS x)) JOIN (shops) USING (shop) GROUP BY 1", "SELECT x.sex, COUNT(*) AS n FROM t AS x JOIN shops USING (shop) GROUP BY 1"),
    ("SELECT x.sex, COUNT(*) AS n FROM (t) AS x GROUP BY 1", "SELECT x.sex, COUNT(*) AS n FROM t AS x GROUP BY 1"),
    ("SELECT DISTINCT sex, COUNT(*) AS n FROM t GROUP BY sex", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"),
    ("SELECT DISTINCT COUNT(*) AS n FROM t", "SELECT COUNT(*) AS n FROM t"),
    # functions
    ("SELECT COUNT() AS n FROM t", "SELECT COUNT(*) AS n FROM t"),
    ("SELECT COUNT(1) AS n, COUNT('x') AS m FROM t", "SELECT COUNT(*) AS n, COUNT(*) AS m FROM t"),
    ("SELECT SUM(1) AS n FROM t", "SELECT COUNT(*) AS n FROM t"),
    ("SELECT SUM(1) FILTER (WHERE yes) AS n FROM t", "SELECT COUNT(*) FILTER (WHERE yes = 1) AS n FROM t"),
    ("SELECT COUNT(person) AS n FROM t", "SELECT COUNT(*) AS n FROM t"),
    ("SELECT sex, COUNT(t.person) FILTER (WHERE yes) AS n FROM t GROUP BY 1", "SELECT sex, COUNT(*) FILTER (WHERE yes) AS n FROM t GROUP BY 1"),
    ("SELECT MEAN(wage) AS m FROM t", "SELECT AVG(wage) AS m FROM t"),
    ("SELECT VAR(wage) AS v, STD(wage) AS s FROM t", "SELECT VAR_SAMP(wage) AS v, STDDEV_SAMP(wage) AS s FROM t"),
    ("SELECT VARIANCE(wage) AS v, STDDEV(wage) AS s FROM t", "SELECT VAR_SAMP(wage) AS v, STDDEV_SAMP(wage) AS s FROM t"),
    ("SELECT SUM(IF(age > 30, wage, 0)) AS s FROM t", "SELECT SUM(CASE WHEN age > 30 THEN wage ELSE 0 END) AS s FROM t"),
    ("SELECT SUM(IIF(yes, wage, 0)) AS s FROM t", "SELECT SUM(CASE WHEN yes = 1 THEN wage ELSE 0 END) AS s FROM t"),
    ("SELECT COUNT(IF(TRUE, wage, NULL)) AS n FROM t", "SELECT COUNT(wage) AS n FROM t"),
    ("SELECT SUM(CASE sex WHEN 'f' THEN wage ELSE 1 END) AS s FROM t", "SELECT SUM(CASE WHEN sex = 'f' THEN wage ELSE 1 END) AS s FROM t"),
    ("SELECT SUM((age > 30)::INT) AS s FROM t", "SELECT SUM(CASE WHEN age > 30 THEN 1 WHEN NOT (age > 30) THEN 0 END) AS s FROM t"),
    ("SELECT AVG(CAST(age > 30 AS INTEGER)) AS s FROM t", "SELECT AVG(CASE WHEN age > 30 THEN 1 WHEN age <= 30 THEN 0 END) AS s FROM t"),
    ("SELECT COUNTIF(yes) AS n FROM t", "SELECT COUNT(*) FILTER (WHERE yes = 1) AS n FROM t"),
    ("SELECT COUNT(wage > 3) AS n FROM t", "SELECT COUNT(CASE WHEN wage > 3 THEN 1 WHEN wage <= 3 THEN 0 END) AS n FROM t"),
    # what is counted only where a condition holds
    ("SELECT COUNT(DISTINCT CASE WHEN age > 30 THEN person END) AS n FROM t", "SELECT COUNT(DISTINCT person) FILTER (WHERE age > 30) AS n FROM t"),
    ("SELECT COUNT(DISTINCT IF(age > 30 OR yes, shop, NULL)) FILTER (WHERE wage > 3) AS n FROM t", "SELECT COUNT(DISTINCT shop) FILTER (WHERE wage > 3 AND (age > 30 OR yes = 1)) AS n FROM t"),
    ("SELECT COUNT(DISTINCT CASE sex WHEN 'f' THEN shop ELSE NULL END) AS n FROM t", "SELECT COUNT(DISTINCT shop) FILTER (WHERE sex = 'f') AS n FROM t"),
    ("SELECT COUNT(CASE WHEN yes THEN person END) AS n FROM t", "SELECT COUNT(*) FILTER (WHERE yes) AS n FROM t"),
    ("SELECT COUNT(CASE WHEN yes THEN 'x' END) AS n FROM t", "SELECT COUNT(CASE WHEN yes THEN 1 END) AS n FROM t"),
    ("SELECT COUNT(CASE WHEN yes THEN sex WHEN age > 30 THEN 'x' END) AS n FROM t", "SELECT COUNT(CASE WHEN yes THEN CASE WHEN sex IS NOT NULL THEN 1 END WHEN age > 30 THEN TRUE END) AS n FROM t"),
    # functions of other systems
    ("SELECT SUM(SAFE_MULTIPLY(SAFE_ADD(age, 1), SAFE_SUBTRACT(yes, 2))) AS s FROM t", "SELECT SUM((age + 1) * (yes - 2)) AS s FROM t"),
    ("SELECT SUM(SAFE_NEGATE(wage)) AS s FROM t", "SELECT SUM(-wage) AS s FROM t"),
    ("SELECT SUM(SAFE_DIVIDE(100, age)) AS s FROM t", "SELECT SUM(100 / NULLIF(age, 0)) AS s FROM t"),
    ("SELECT SUM(SAFE_MULTIPLY(CEIL(SAFE_DIVIDE(CAST(age AS FLOAT64), 10.0)), 10.0)) AS s FROM t", "SELECT SUM(CEIL(age / 10) * 10) AS s FROM t"),
    ("SELECT SUM(NVL2(wage, 1, 2)) AS s FROM t", "SELECT SUM(CASE WHEN wage IS NOT NULL THEN 1 ELSE 2 END) AS s FROM t"),
    ("SELECT SUM(ZEROIFNULL(age)) AS s FROM t", "SELECT SUM(COALESCE(age, 0)) AS s FROM t"),
    ("SELECT SUM(SQUARE(age - 5)) AS s FROM t", "SELECT SUM((age - 5) * (age - 5)) AS s FROM t"),
    ("SELECT COUNT(*) AS n FROM t WHERE REGEXP_CONTAINS(sex, '^f')", "SELECT COUNT(*) AS n FROM t WHERE regexp_matches(sex, '^f')"),
    ("SELECT UNIX_DATE(day) AS d, COUNT(*) AS n FROM t GROUP BY 1", "SELECT DATE_DIFF('day', DATE '1970-01-01', day) AS d, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT IFF(age > 30, 1, 0) AS k, COUNT(*) AS n FROM t GROUP BY 1", "SELECT CASE WHEN age > 30 THEN 1 ELSE 0 END AS k, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT AVG(ISNULL(age, 3)) AS m FROM t", "SELECT AVG(COALESCE(age, 3)) AS m FROM t"),
    ("SELECT APPROX_PERCENTILE(age, 0.5) AS m, percentile_approx(wage, 0.9) AS p FROM t", "SELECT QUANTILE(age, 0.5) AS m, QUANTILE(wage, 0.9) AS p FROM t"),
    ("SELECT DATE_TRUNC(d, MONTH) AS k, COUNT(*) AS n FROM (SELECT day AS d FROM t) GROUP BY 1", "SELECT DATE_TRUNC('month', day) AS k, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT FORMAT_DATE('%Y-%m-%d', day) AS k, COUNT(*) AS n FROM t GROUP BY 1", "SELECT STRFTIME(day, '%Y-%m-%d') AS k, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT TO_CHAR(day, 'DD.MM.YYYY') AS k, COUNT(*) AS n FROM t GROUP BY 1", "SELECT STRFTIME(day, '%d.%m.%Y') AS k, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT DATE_FORMAT(day, 'yyyy-MM-dd') AS k, COUNT(*) AS n FROM t GROUP BY 1", "SELECT STRFTIME(day, '%Y-%m-%d') AS k, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT DATEPART(day, day) AS k, COUNT(*) AS n FROM t GROUP BY 1", "SELECT DATE_PART('day', day) AS k, COUNT(*) AS n FROM t GROUP BY 1"),
    ("SELECT COUNT(*) AS n FROM t WHERE day >= DATEADD(month, -1, '2024-02-02')", "SELECT COUNT(*) AS n FROM t WHERE day >= DATE '2024-02-02' - INTERVAL 1 MONTH"),
    ("SELECT COUNT(*) AS n FROM t WHERE day < DATE_SUB(DATE '2024-01-31', INTERVAL 29 DAY) OR day > DATE_ADD('2024-01-01', 2)", "SELECT COUNT(*) AS n FROM t WHERE day < '2024-01-02' OR day > '2024-01-03'"),
    ("SELECT COUNT(*) AS n FROM t WHERE DATE_DIFF(day, DATE '2024-01-01', DAY) > 1 AND DATE('2024-01-04') > day", "SELECT COUNT(*) AS n FROM t WHERE DATE_DIFF('day', DATE '2024-01-01', day) > 1 AND day < '2024-01-04'"),
    ("SELECT AVG(DATE_DIFF('days', DATE '2024-01-01', day)) AS n FROM t", "SELECT AVG(DATE_DIFF('day', DATE '2024-01-01', day)) AS n FROM t"),
    # names and lines as other systems write them
    ("SELECT `sex`, COUNT(*) AS `a 'b` FROM `t` GROUP BY `sex`", "SELECT sex, COUNT(*) AS \"a 'b\" FROM t GROUP BY sex"),
    ("SELECT [x].[sex], SUM([wage]) AS [all of it] FROM [t] AS [x] WHERE [yes] = 1 GROUP BY [x].[sex]", "SELECT x.sex, SUM(wage) AS \"all of it\" FROM t AS x WHERE yes = 1 GROUP BY x.sex"),
    ("SELECT shop, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 2 LIMIT 1, 2", "SELECT shop, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 2 LIMIT 2 OFFSET 1"),
    ("SELECT shop, AVG(wage) AS n FROM t GROUP BY 1 ORDER BY 2 DESC NULLS LAST", "SELECT shop, AVG(wage) AS n FROM t GROUP BY 1 ORDER BY 2 DESC"),
    ("SELECT shop, sex, COUNT(*) AS n FROM t GROUP BY (shop, sex)", "SELECT shop, sex, COUNT(*) AS n FROM t GROUP BY shop, sex"),
    ("SELECT 3 AS k, sex, COUNT(*) AS n FROM t GROUP BY 1, 2", "SELECT 3 AS k, sex, COUNT(*) AS n FROM t GROUP BY sex"),
    ("SELECT n, COUNT(*) AS m FROM (SELECT person, COUNT(*) FROM t GROUP BY person ORDER BY 2) AS x (who, n) GROUP BY n", "SELECT n, COUNT(*) AS m FROM (SELECT person, COUNT(*) AS n FROM t GROUP BY person) GROUP BY n"),
    # HAVING on keys
    ("SELECT yes, COUNT(*) AS n FROM t GROUP BY yes HAVING n > 10 OR NOT yes", "SELECT yes, COUNT(*) AS n FROM t GROUP BY yes HAVING n > 10 OR NOT yes = 1"),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING sex = 'f'", "SELECT sex, COUNT(*) AS n FROM t WHERE sex = 'f' GROUP BY sex"),
    ("SELECT yes, COUNT(*) AS n FROM t GROUP BY yes HAVING yes", "SELECT yes, COUNT(*) AS n FROM t WHERE yes = 1 GROUP BY yes"),
    ("SELECT shop AS s, COUNT(*) AS n FROM t WHERE yes GROUP BY s HAVING s < 2 OR s > 3", "SELECT shop AS s, COUNT(*) AS n FROM t WHERE yes AND (shop < 2 OR shop > 3) GROUP BY s"),
    ("SELECT age, COUNT(*) AS n FROM t GROUP BY age HAVING age <= 30", "SELECT age, COUNT(*) AS n FROM t WHERE age <= 30 GROUP BY age"),
    ("SELECT sex, shop, COUNT(*) AS n FROM t GROUP BY 1, 2 HAVING sex = 'f' AND (shop = 1 AND NOT shop = 2)", "SELECT sex, shop, COUNT(*) AS n FROM t WHERE sex = 'f' AND shop = 1 GROUP BY 1, 2"),
    # a column that is grouped comes before an alias
    ("SELECT COUNT(*) AS shop, shop AS s FROM t GROUP BY t.shop HAVING shop > 1", "SELECT COUNT(*) AS shop, shop AS s FROM t WHERE shop > 1 GROUP BY t.shop"),
    # groups that are counted
    ("SELECT COUNT(shop) AS n FROM (SELECT DISTINCT shop FROM t WHERE age > 30)", "SELECT COUNT(DISTINCT shop) AS n FROM t WHERE age > 30"),
    ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT sex AS s FROM t) AS x", "SELECT COUNT(DISTINCT sex) AS n FROM t"),
    # joins
    ("SELECT town, COUNT(*) AS n FROM shops RIGHT JOIN t USING (shop) GROUP BY 1", "SELECT town, COUNT(*) AS n FROM t LEFT JOIN shops USING (shop) GROUP BY 1"),
    ("SELECT s.town, COUNT(*) AS n FROM shops AS s RIGHT OUTER JOIN t ON s.shop = t.shop GROUP BY 1", "SELECT s.town, COUNT(*) AS n FROM t LEFT JOIN shops AS s ON s.shop = t.shop GROUP BY 1"),
]  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(("written", "same"), SAME, ids=[pair[0] for pair in SAME])
def test_two_spellings_are_one_statement(written, same):
    assert meaning(written) == meaning(same)


ALONE = (
    "TOP", "top", "(t",
    "SAFE_", "NVL2", "ZEROIFNULL", "SQUARE", "REGEXP_CONTAINS", "UNIX_DATE",
    "STD(", "IIF(", "VAR(", "RIGHT", "age <= 30", "SELECT COUNT(*) AS n, sex", "COUNT(*) AS shop", "COUNTIF",
    "THEN DATE", "AS x (who", "FORMAT_", "3 AS k", "IFF(", "ISNULL(", "PERCENTILE", "DATE_", "DATEADD", "DATEPART", "TO_CHAR", "`", "[", "LIMIT 1, 2",
)  # fmt: skip
"""Not so in DuckDB, with groups that it does not have, or in another order of columns."""


@pytest.mark.parametrize(
    "written", [one for one, _ in SAME if not any(word in one for word in ALONE)]
)
def test_the_answer_is_that_of_duckdb(twins, written):
    assert not twins.difference(written)


@pytest.mark.fast
class TestDecisions:
    def test_conditions_on_keys_leave_having(self):
        text = (
            "SELECT sex, COUNT(*) AS n FROM t GROUP BY 1 HAVING (sex = 'f' OR sex = 'm') AND n > 3"
        )
        same = "SELECT sex, COUNT(*) AS n FROM t WHERE sex IN ('f', 'm') GROUP BY sex HAVING n > 3"
        assert meaning(text, deciding=True) == meaning(same, deciding=True)


CUT = [
    ("age < 30", "age < 30", "this condition cuts [0, 30], a group of 'age'"),
    (
        "age = 7 OR sex = 'f'",
        "age = 7 OR sex = 'f'",
        "this condition cuts [0, 30], a group of 'age'",
    ),
    ("COUNT(*) > 3 AND NOT a BETWEEN 31 AND 59", "a BETWEEN 31 AND 59", "cuts (30, 60]"),
]


@pytest.mark.fast
@pytest.mark.parametrize(("condition", "shown", "what"), CUT)
def test_having_cuts_no_group(condition, shown, what):
    error = refused(f"SELECT age AS a, sex, COUNT(*) FROM t GROUP BY 1, 2 HAVING {condition}")
    assert what in error.what
    assert shown in error.text
    assert "age with the upper end" in error.hint
    parse(f"SELECT age, COUNT(*) FROM t GROUP BY age HAVING {'age <= 30'}", TABLES)


KEPT = [
    "SELECT town, COUNT(*) FROM t RIGHT JOIN shops USING (shop) GROUP BY town",
    "SELECT town, COUNT(*) FROM shops LEFT JOIN t USING (shop) GROUP BY town",
    "SELECT town, COUNT(*) FROM t FULL JOIN shops USING (shop) GROUP BY town",
    "SELECT town, COUNT(*) FROM shops FULL OUTER JOIN t USING (shop) GROUP BY town",
    "SELECT town, COUNT(*) FROM shops LEFT OUTER JOIN t ON t.shop = shops.shop GROUP BY town",
    "SELECT town, COUNT(*) FROM t RIGHT OUTER JOIN shops ON t.shop = shops.shop GROUP BY town",
]


@pytest.mark.fast
@pytest.mark.parametrize("text", KEPT)
def test_no_join_keeps_unmatched_rows_of_a_public_table(text):
    """One private row removes such a row and adds its own: two counts change."""
    assert "JOIN" in refused(text).what


TOPS = [
    (
        "SELECT TOP 2 sex, COUNT(*) FROM t GROUP BY 1 LIMIT 3",
        "this SELECT has TOP and LIMIT",
        "LIMIT",
    ),
    (
        "SELECT TOP 2 PERCENT sex, COUNT(*) FROM t GROUP BY 1",
        "TOP takes a whole number",
        "TOP 2 PERCENT",
    ),
    (
        "SELECT TOP 2 WITH TIES sex, COUNT(*) FROM t GROUP BY 1",
        "TOP takes a whole number",
        "TOP 2 WITH",
    ),
    ("SELECT TOP 1.5 sex, COUNT(*) FROM t GROUP BY 1", "LIMIT takes a whole number", "1.5"),
    ("SELECT COUNT(*) FROM (t) GROUP BY weight", "unknown column 'weight'", "weight"),
]


@pytest.mark.fast
@pytest.mark.parametrize(("text", "what", "shown"), TOPS)
def test_tops_without_meaning_are_refused(text, what, shown):
    error = refused(text)
    assert what in error.what
    assert error.text == shown


@pytest.mark.fast
def test_missing_values_are_not_counted_as_a_value():
    error = refused("SELECT COUNT(*) FROM (SELECT DISTINCT shop FROM t)")
    assert error.what == "COUNT(*) would count missing values as one more value"
    assert error.text == "(SELECT DISTINCT shop FROM t)"
    parse("SELECT COUNT(DISTINCT shop) FROM t", TABLES)


@pytest.mark.fast
@pytest.mark.parametrize(
    "condition",
    [
        "sex IN (SELECT DISTINCT sex FROM t)",
        "EXISTS (SELECT 1 FROM t)",
    ],
)
def test_no_condition_uses_rows_of_a_query(condition):
    error = refused(f"SELECT COUNT(*) FROM t WHERE {condition}")
    assert "no condition uses what rows of another query say" in error.what
    assert error.text == condition
    assert error.hint.startswith("Write the values out")


PLACES = [
    ("SELECT weight AS w, COUNT(*) FROM t GROUP BY 1", "unknown column 'weight'", "weight"),
    ("SELECT person, COUNT(*) FROM t GROUP BY 1", "the privacy unit", "person"),
    ("SELECT person AS p, COUNT(*) FROM t GROUP BY p", "the privacy unit", "person"),
    ("SELECT SUM(IF(age > 50, sex, 0)) FROM t", "is not a numeric column", "sex"),
    ("SELECT COUNT(*) FROM t WHERE IF(yes, shop, wage)", "this condition", "IF(yes, shop, wage)"),
    (
        "SELECT COUNT(*) FROM t WHERE EXTRACT(month FROM day) = wage + 0",
        "",
        "EXTRACT(month FROM day)",
    ),
    ("SELECT COUNT(*) FROM t WHERE CAST(age AS VARCHAR) = wage || ''", "", "CAST(age AS VARCHAR)"),
    ("SELECT COUNT(*) FROM t WHERE age::VARCHAR(3) = wage || ''", "", "age::VARCHAR(3)"),
    ("SELECT COUNT(*) FROM t WHERE POSITION('f' IN sex) > wage + 0", "", "POSITION('f' IN sex)"),
    ("SELECT COUNT(*) FROM t WHERE FLOOR(ABS(age)) = (wage * 2)", "", "FLOOR(ABS(age))"),
    (
        "SELECT COUNT(*) FROM t WHERE CASE WHEN yes THEN age END = wage - 3",
        "",
        "CASE WHEN yes THEN age END",
    ),
    ("SELECT sex, COUNT(*) FROM t GROUP BY 1 HAVING sex = 'x'", "not a declared category", "'x'"),
    ("SELECT COUNT(*) FROM t WHERE NOT sex LIKE shop AND yes", "", "sex LIKE shop"),
]


@pytest.mark.fast
@pytest.mark.parametrize(("text", "what", "shown"), PLACES, ids=[place[0] for place in PLACES])
def test_places_mark_what_was_written(text, what, shown):
    error = refused(text)
    assert what in error.what
    assert error.text == shown


TWICE = [
    "SELECT sex, SUM(wage), SUM(wage), COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) AS a, COUNT(*) AS b FROM t GROUP BY sex ORDER BY b",
    "SELECT sex, sex AS s, COUNT(*) AS a FROM t GROUP BY sex",
    "SELECT COUNT(*), COUNT(*), COUNT(*) + 1, COUNT(*) + 1 FROM t",
]


@pytest.mark.parametrize("written", TWICE)
def test_what_is_written_twice_is_shown_twice(twins, written):
    assert not twins.difference(written)


def test_what_is_written_twice_is_one_number(twins):
    session = Session([Table("t", frame(), SCHEMA)], budget=Budget(rho=1))
    once, twice = (
        session.price(f"SELECT shop, {results} FROM t GROUP BY shop", rho=0.01)
        for results in ("COUNT(*)", "COUNT(*), COUNT(*)")
    )
    assert once.spent == twice.spent
    assert [width for *_, width in once.widths] * 2 == [width for *_, width in twice.widths]


class TestVerbs:
    """Each verb reads a statement in the same way."""

    SAME = (
        "SELECT sex, COUNT(person) AS n FROM (t) GROUP BY 1 HAVING sex IN ('f', 'm') ORDER BY 2",
        "SELECT sex, COUNT(*) AS n FROM t WHERE sex IN ('f', 'm') GROUP BY sex ORDER BY n",
    )

    def test_another_spelling_is_the_same_request_and_free(self):
        one, other = self.SAME
        session = Session([Table("t", frame(), SCHEMA, Unit("person", 2))], budget=Budget(rho=5))
        first, second = session.query(one, rho=0.5), session.query(other, rho=0.5)
        assert second.spent.rho == 0
        assert first.estimates == second.estimates
        assert session.price(other, rho=0.5).spent.rho == 0
        assert session.infer(one).to_frame().equals(session.infer(other).to_frame())
        left, right = (answer.compare("f", "m") for answer in (first, second))
        assert (left.low, left.high) == (right.low, right.high)

    def test_decisions(self, twins):
        text = "SELECT sex FROM t GROUP BY 1 HAVING COUNT(person) > 10 + 10 AND sex = 'f'"
        decision = twins.session.decide(text, beta=0.05, alpha=0.1, most=1000)
        assert list(decision.selected) == ["f"]

    def test_explanations(self):
        session = Session([Table("t", frame(), SCHEMA)], budget=Budget(rho=1e6))
        answer = session.query("SELECT shop, SUM((age > 30)::INT) AS n FROM t GROUP BY 1", rho=1e3)
        explanation = session.explain(answer.compare(1, 2), k=2, rho=1e3, anyway=True)
        assert len(explanation.to_frame()) == 2
