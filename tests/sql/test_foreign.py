"""Clauses of other systems: one release with our own spelling, or refused by name."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import pandas as pd
import pytest

from dpnb import Budget, Category, Curator, Integer, Schema, Session, Table, Unit
from dpnb.errors import DpnbError, RequestError, SqlError
from dpnb.privacy.definition import BASIC, PURE, ZCDP
from dpnb.releases.accuracy import promised_delta
from dpnb.sql.canonical import describe
from dpnb.sql.parser import parse
from dpnb.sql.query import Promise

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {"item": Category(["pen", "ink"]), "quantity": Integer(0, 100), "price": Integer(-5, 20)}
)
TABLES = {
    "visits": Table("visits", None, SCHEMA, unit=Unit("id", max_rows=5)),
    "people": Table("people", None, SCHEMA, unit=Unit("id", max_rows=1)),
    "rows": Table("rows", None, SCHEMA),
}
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) {} FROM {}"


def clause(options, rest="COUNT(*) AS n", table="visits"):
    return CLAUSE.format(options, rest, table)


def read(text):
    return parse(text, TABLES, answering=True)


def refused(text):
    with pytest.raises(SqlError) as caught:
        read(text)
    return caught.value


# a statement of another system, and the same in our words
SAME = [
    (clause("epsilon = 1"), "SELECT COUNT(*) FROM visits"),
    (clause("epsilon=.5, delta=1e-5", "item, COUNT(*)", "visits GROUP BY item"),
     "SELECT item, COUNT(*) FROM visits GROUP BY item"),
    ("SELECT with differential_privacy\n  options (EPSILON = 1e0) -- a comment\n COUNT(*) FROM visits;",
     "SELECT COUNT(*) FROM visits"),
    ("SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1, kappa = 5) item, ANON_COUNT(*) FROM visits GROUP BY item",
     "SELECT item, COUNT(*) FROM visits GROUP BY item"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits", "SELECT COUNT(*) FROM visits"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS() COUNT(*) FROM visits", "SELECT COUNT(*) FROM visits"),
    (clause("privacy_unit_column = id"), "SELECT COUNT(*) FROM visits"),
    (clause("privacy_unit_column = visits.ID"), "SELECT COUNT(*) FROM visits"),
    (clause('privacy_unit_column = v."id"', table="visits AS v"), "SELECT COUNT(*) FROM visits"),
    (clause("privacy_unit_column = m.id", table="(SELECT * FROM visits) AS m"), "SELECT COUNT(*) FROM visits"),
    (clause("privacy_unit_column = id", table="(SELECT item, id FROM visits) AS m"), "SELECT COUNT(*) FROM visits"),
    ("WITH m AS (SELECT * FROM visits) " + clause("privacy_unit_column = m.id", table="m"), "SELECT COUNT(*) FROM visits"),
    # nobody can exceed these limits, so they change nothing
    (clause("max_groups_contributed = 5", "item, COUNT(*)", "visits GROUP BY item"),
     "SELECT item, COUNT(*) FROM visits GROUP BY item"),
    (clause("max_groups_contributed = NULL", "item, COUNT(*)", "visits GROUP BY item"),
     "SELECT item, COUNT(*) FROM visits GROUP BY item"),
    (clause("max_groups_contributed = 1"), "SELECT COUNT(*) FROM visits"),
    (clause("max_groups_contributed = 1", "item, COUNT(*)", "people GROUP BY item"),
     "SELECT item, COUNT(*) FROM people GROUP BY item"),
    (clause("max_groups_contributed = 1", "item, COUNT(*)", "rows GROUP BY item"),
     "SELECT item, COUNT(*) FROM rows GROUP BY item"),
    (clause("max_rows_contributed = 99999999999999999999"), "SELECT COUNT(*) FROM visits"),
    (clause("group_selection_strategy = PUBLIC_GROUPS"), "SELECT COUNT(*) FROM visits"),
    (clause("", "COUNT(*, contribution_bounds_per_group => (0, 5))"), "SELECT COUNT(*) FROM visits"),
    (clause("", "COUNT(item, contribution_bounds_per_group=>(-1, 1e2)) FILTER (WHERE item = 'pen')"),
     "SELECT COUNT(item) FILTER (WHERE item = 'pen') FROM visits"),
    (clause("", "SUM(quantity, contribution_bounds_per_group => (0, 500))"), "SELECT SUM(quantity) FROM visits"),
    (clause("", "SUM(price, contribution_bounds_per_group => (-25, 100.))"), "SELECT SUM(price) FROM visits"),
    ("SELECT ANON_SUM(quantity CLAMPED BETWEEN 0 AND 500) FROM visits", "SELECT SUM(quantity) FROM visits"),
    ("SELECT SUM(quantity, contribution_bounds_per_row => (0, 100)) FROM rows", "SELECT SUM(quantity) FROM rows"),
    ("SELECT ANON_PERCENTILE_CONT(quantity, 0.5 CLAMPED BETWEEN 0 AND 100) FROM rows",
     "SELECT QUANTILE(quantity, 0.5) FROM rows"),
    (clause("", "PERCENTILE_CONT(quantity, .9, contribution_bounds_per_row => (-1, 100))", "visits"),
     "SELECT QUANTILE(quantity, 0.9) FROM visits"),
    # bounds of a row are a clamp
    ("SELECT SUM(quantity, contribution_bounds_per_row => (10, 50)) FROM visits",
     "SELECT SUM(CASE WHEN quantity < 10 THEN 10 WHEN quantity > 50 THEN 50 ELSE quantity END) FROM visits"),
    ("SELECT DP_SUM(quantity, contribution_bounds_per_row => (-3, 50)) FROM visits",
     "SELECT SUM(CASE WHEN quantity > 50 THEN 50 ELSE quantity END) FROM visits"),
    ("SELECT ANON_VAR_POP(price CLAMPED BETWEEN -1 AND 1) FROM visits",
     "SELECT VAR_POP(CASE WHEN price < -1 THEN -1 WHEN price > 1 THEN 1 ELSE price END) FROM visits"),
    (clause("", "STDDEV_POP(quantity, contribution_bounds_per_row => (.5, 100))"),
     "SELECT STDDEV_POP(CASE WHEN quantity < 0.5 THEN 0.5 ELSE quantity END) FROM visits"),
    ("SELECT SUM(quantity + 1, contribution_bounds_per_row => (10, 50)) FROM visits",
     "SELECT SUM(CASE WHEN quantity + 1 < 10 THEN 10 WHEN quantity + 1 > 50 THEN 50 ELSE quantity + 1 END) FROM visits"),
    ("SELECT SUM(y, contribution_bounds_per_row => (10, 50)) FROM (SELECT quantity AS y FROM visits)",
     "SELECT SUM(CASE WHEN quantity < 10 THEN 10 WHEN quantity > 50 THEN 50 ELSE quantity END) FROM visits"),
    # with one row a person, bounds of a person are those of a row
    (clause("", "SUM(quantity, contribution_bounds_per_group => (10, 50))", "people"),
     "SELECT SUM(CASE WHEN quantity < 10 THEN 10 WHEN quantity > 50 THEN 50 ELSE quantity END) FROM people"),
    (clause("", "AVG(quantity, contribution_bounds_per_group => (0, 50))", "rows"),
     "SELECT AVG(CASE WHEN quantity > 50 THEN 50 ELSE quantity END) FROM rows"),
    ("SELECT ANON_AVG(quantity) / DP_COUNT(*) FROM people", "SELECT AVG(quantity) / COUNT(*) FROM people"),
    ("SELECT 1 + ANON_SUM(CASE WHEN item IN ('pen', 'ink') THEN quantity END) FROM visits",
     "SELECT 1 + SUM(CASE WHEN item IN ('pen', 'ink') THEN quantity END) FROM visits"),
]  # fmt: skip


@pytest.mark.parametrize(("foreign", "ours"), SAME)
def test_a_foreign_statement_means_the_same_as_ours(foreign, ours):
    assert describe(read(foreign)) == describe(read(ours))


# text, what is said, what it points at, the hint
ID = "Write privacy_unit_column = id, or leave it out."
NAMED = "Write SUM(x, contribution_bounds_per_row => (0, 10))."
SHAPE = "Write OPTIONS(epsilon = 1, privacy_unit_column = id)."
REFUSED = [
    (clause("privacy_unit_column = item"), "the privacy unit is 'id'", "privacy_unit_column = item", ID),
    (clause("privacy_unit_column = other.id"), "the privacy unit is 'id'", "privacy_unit_column = other.id", ID),
    (clause("privacy_unit_column = 'id'"), "takes a column", "privacy_unit_column = 'id'", "Leave it out."),
    (clause("privacy_unit_column = id + 1"), "takes a column", "privacy_unit_column = id + 1", "Leave it out."),
    (clause("privacy_unit_column = id", table="rows"), "each row of 'rows' is protected, not 'id'",
     "privacy_unit_column = id", "Leave privacy_unit_column out."),
    (clause("max_groups_contributed = 4", "item, COUNT(*)", "visits GROUP BY item"),
     "max_groups_contributed would leave out rows: here one id can count in 5 groups",
     "max_groups_contributed = 4", "Leave it out. Only the owner bounds people, by Unit(..., max_rows=...)."),
    (clause("kappa = 1", "item, COUNT(*)", "visits GROUP BY item"), "kappa would leave out rows", "kappa = 1", "Leave it"),
    (clause("kappa = 0", "item, COUNT(*)", "rows GROUP BY item"), "a whole number", "kappa = 0", "Leave it out."),
    (clause("kappa = 1.5", "item, COUNT(*)", "rows GROUP BY item"), "a whole number", "kappa = 1.5", "Leave it out."),
    (clause("max_rows_contributed = 4"), "one id can have 5 rows", "max_rows_contributed = 4", "Leave it out."),
    (clause("group_selection_strategy = LAPLACE_THRESHOLD"), "the option group_selection_strategy is not supported",
     "group_selection_strategy = LAPLACE_THRESHOLD", "All declared groups are shown: write PUBLIC_GROUPS, or leave it out."),
    (clause("min_privacy_units_per_group = 5"), "the option min_privacy_units_per_group is not supported",
     "min_privacy_units_per_group = 5", "All declared groups are shown: leave it out, or choose by HAVING."),
    (clause("epsilom = 1"), "unknown option 'epsilom'", "epsilom = 1", "Did you mean epsilon?"),
    (clause("rho = 1"), "unknown option 'rho'", "rho = 1", "Options: epsilon, delta"),
    (clause("epsilon = 1, epsilon = 2"), "epsilon is given twice", "epsilon = 2", "Give it once."),
    (clause("epsilon"), "OPTIONS takes names and values", "epsilon", SHAPE),
    (clause("epsilon ="), "epsilon has no value", "epsilon", SHAPE),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1", "OPTIONS is not complete", "1", SHAPE),
    (clause("epsilon = -1"), "epsilon must be above 0", "epsilon = -1", "Give epsilon as a positive number, such as 0.1."),
    (clause("epsilon = :e"), "epsilon must be a finite number", "epsilon = :e", "Give epsilon as a positive number, such as 0.1."),
    (clause("epsilon = 1e999999999"), "epsilon must be between", "epsilon = 1e999999999", "Give epsilon as a positive number, such as 0.1."),
    (clause("delta = 1e-5"), "delta needs an epsilon beside it", "delta = 1e-5", "Leave delta out."),
    (clause("epsilon = 1, delta = 1"), "delta must be between", "delta = 1", "Write delta = 1e-6."),
    (clause("epsilon = 1, delta = 1e-16"), "delta must be between", "delta = 1e-16", "Write delta = 1e-6."),
    ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold = 50) COUNT(*) FROM visits",
     "SELECT WITH AGGREGATION_THRESHOLD is not supported", "WITH AGGREGATION_THRESHOLD", "Leave it out, or write WITH DIFFERENTIAL_PRIVACY"),
    ("SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) item FROM visits)",
     "stands behind the first SELECT alone", "WITH DIFFERENTIAL_PRIVACY", "Move it there, or leave it out."),
    (clause("epsilon = 1", table="visits UNION ALL SELECT COUNT(*) FROM visits"),
     "WITH DIFFERENTIAL_PRIVACY is for one SELECT, and UNION combines several", "UNION",
     "Leave the clause out, and give epsilon=1."),
    ("SELECT COUNT(*) FROM (SELECT 1 UNION SELECT WITH DIFFERENTIAL_PRIVACY 2) WHERE 1 = 1",
     "stands behind the first SELECT alone", "WITH DIFFERENTIAL_PRIVACY", "Move it there, or leave it out."),
    # aggregates
    ("SELECT COUNT(*, contribution_bounds_per_group => (0, 4)) FROM visits",
     "would change numbers: here one id adds 0 to 5 to a group", "COUNT(*, contribution_bounds_per_group => (0, 4))",
     "SELECT SUM(LEAST(GREATEST(v, 0), 4)) AS v FROM (SELECT id, COUNT(*) AS v FROM visits GROUP BY id) AS p"),
    ("SELECT COUNT(*, contribution_bounds_per_group => (1, 5)) FROM visits", "would change numbers",
     "COUNT(*, contribution_bounds_per_group => (1, 5))", "Without the clause, ask SELECT SUM(LEAST(GREATEST(v, 1), 5))"),
    ("SELECT SUM(price, contribution_bounds_per_group => (0, 100)) FROM visits",
     "here one id adds -25 to 100 to a group", "SUM(price, contribution_bounds_per_group => (0, 100))",
     "Without the clause, ask SELECT SUM(LEAST(GREATEST(v, 0), 100))"),
    ("SELECT ANON_SUM(quantity CLAMPED BETWEEN 0 AND 100) FROM visits", "CLAMPED would change numbers",
     "ANON_SUM(quantity CLAMPED BETWEEN 0 AND 100)", "FROM (SELECT id, SUM(quantity) AS v FROM visits GROUP BY id) AS p"),
    ("SELECT VAR_POP(price, contribution_bounds_per_group => (0, 100)) FROM visits",
     "contribution_bounds_per_group is for COUNT, SUM and AVG", "VAR_POP(price, contribution_bounds_per_group => (0, 100))",
     "Write contribution_bounds_per_row instead."),
    ("SELECT COUNT(item, contribution_bounds_per_row => (0, 1)) FROM rows", "COUNT counts each row once",
     "COUNT(item, contribution_bounds_per_row => (0, 1))", "Leave contribution_bounds_per_row out."),
    ("SELECT SUM(price, contribution_bounds_per_row => (9, 1)) FROM rows", "in the wrong order",
     "SUM(price, contribution_bounds_per_row => (9, 1))", "Write the lower one first."),
    ("SELECT QUANTILE(quantity, 0.5, contribution_bounds_per_row => (9, 50)) FROM rows",
     "a quantile is of the declared values", "QUANTILE(quantity, 0.5, contribution_bounds_per_row => (9, 50))",
     "Leave contribution_bounds_per_row out."),
    ("SELECT SUM(price, contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (0, 1)) FROM rows",
     "an aggregate has bounds twice", "contribution_bounds_per_group", "Give them once."),
    ("SELECT SUM(price, report_format => 1) FROM rows", "an aggregate has no option 'report_format'", "report_format", "Leave it out."),
    ("SELECT SUM(contribution_bounds_per_row => (0, 1)) FROM rows", "follows the argument", "contribution_bounds_per_row", NAMED),
    ("SELECT SUM(price, contribution_bounds_per_row => 1) FROM rows", "takes two numbers", "contribution_bounds_per_row", NAMED),
    ("SELECT SUM(price, contribution_bounds_per_row => (1, 2, 3)) FROM rows", "takes two numbers", "contribution_bounds_per_row", NAMED),
    ("SELECT SUM(price, contribution_bounds_per_row => (1, price)) FROM rows", "are two numbers", "price", NAMED),
    ("SELECT ANON_SUM(price CLAMPED BETWEEN 1 OR 2) FROM rows", "takes two numbers", "CLAMPED", NAMED),
    ("SELECT COUNT(DISTINCT id, contribution_bounds_per_group => (0, 1)) FROM visits", "COUNT(DISTINCT) takes no bounds",
     "contribution_bounds_per_group", "Leave them out."),
    ("SELECT DP_SUM(price, 0, 10) FROM rows", "this takes one argument, and bounds have a name", "DP_SUM(price, 0, 10)", NAMED),
    ("SELECT ANON_COUNT(item, 0.5) FROM rows", "this takes one argument", "ANON_COUNT(item, 0.5)", "The privacy cost is epsilon=1."),
    ("SELECT ANON_NTILE(price, 0.5) FROM rows", "ANON_NTILE is not supported", "ANON_NTILE", "Write QUANTILE(x, 0.9)."),
    ("SELECT ANON_SUM_WITH_BOUNDS(price, 0, 1) FROM rows", "ANON_SUM_WITH_BOUNDS is not", "ANON_SUM_WITH_BOUNDS", NAMED),
    ("SELECT DP_FIRST(price) FROM rows", "DP_FIRST is not supported", "DP_FIRST", "Write COUNT(*), SUM(x)"),
    (clause("epsilon = 1", "AVG(quantity)"), "this AVG is the average of each id's average", "AVG(quantity)",
     "ask SELECT AVG(v) AS v FROM (SELECT id, AVG(quantity) AS v FROM visits GROUP BY id) AS p"),
    ("SELECT DP_AVG(quantity) FROM visits", "this AVG is the average of each id's average", "DP_AVG(quantity)", "ask SELECT AVG(v) AS v FROM"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "place", "hint"), REFUSED)
def test_what_has_no_meaning_here_is_refused_by_name(text, what, place, hint):
    error = refused(text)
    assert what in error.what
    assert (error.text or "").removesuffix("...") in place or place in (error.text or "")
    assert error.hint.startswith(hint) or hint in error.hint


# a refused statement, and the statement that its hint says
FOLLOWED = [
    (clause("privacy_unit_column = item"), clause("privacy_unit_column = id")),
    (clause("privacy_unit_column = id", table="rows"), clause("", table="rows")),
    (clause("kappa = 1", "item, COUNT(*)", "visits GROUP BY item"), clause("", "item, COUNT(*)", "visits GROUP BY item")),
    (clause("group_selection_strategy = LAPLACE_THRESHOLD"), clause("group_selection_strategy = PUBLIC_GROUPS")),
    (clause("epsilon = 1, delta = 1"), clause("epsilon = 1, delta = 1e-6")),
    ("SELECT DP_SUM(price, 0, 10) FROM rows", "SELECT SUM(price, contribution_bounds_per_row => (0, 10)) FROM rows"),
    (clause("", "SUM(price + quantity, contribution_bounds_per_row => (0, 10))"),
     "SELECT SUM(CASE WHEN price > 10 THEN 10 ELSE price END) FROM rows"),
    ("SELECT ANON_VAR(price) FROM rows", "SELECT VAR_POP(price) FROM rows"),
    ("SELECT DP_STDDEV_WITH_BOUNDS(price, 0, 10) FROM rows", "SELECT STDDEV_POP(price, contribution_bounds_per_row => (0, 10)) FROM rows"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "instead"), FOLLOWED)
def test_a_hint_that_is_followed_works(text, instead):
    refused(text)
    read(instead)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'ANON_COUNT(' AS x, COUNT(*) FROM visits",
        'SELECT COUNT(*) AS "DP_COUNT(" FROM visits',
        "WITH DIFFERENTIAL_PRIVACY AS (SELECT 1) SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits -- WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 50)",
    ],
)
def test_texts_names_and_comments_are_no_clause(text):
    try:
        query = read(text)
    except SqlError as error:
        assert "OPTIONS" not in str(error)
        return
    assert query.promise is None


def test_errors_point_into_the_text_as_it_was_written():
    error = refused(
        "SELECT WITH DIFFERENTIAL_PRIVACY\nOPTIONS(epsilon = 1)\n  COUNT(*), SUM(prize) FROM rows"
    )
    assert (error.line, error.column, error.text) == (3, 17, "prize")


@pytest.mark.parametrize(
    "query",
    [
        "(SELECT quantity AS id, item FROM visits) AS v",
        "(SELECT item, quantity FROM visits) AS v (id, item)",
    ],
)
def test_a_renamed_column_is_not_the_privacy_unit(query):
    for column in ("id", "v.id"):
        with pytest.raises(SqlError):
            read(clause(f"epsilon = 1, privacy_unit_column = {column}", table=query))


# the privacy cost

FRAME = pd.DataFrame(
    {
        "id": [1, 1, 2, 3] * 25,
        "item": ["pen", "ink"] * 50,
        "quantity": range(100),
        "price": [3] * 100,
    }
)
BUDGET = {"epsilon": 30, "delta": "1e-6"}
BY_ITEM = "item, COUNT(*) AS n"


def session(**budget):
    tables = [Table(name, FRAME, SCHEMA, unit=table.unit) for name, table in TABLES.items()]
    return Session(tables, budget=Budget(**(budget or BUDGET)))


def asked(options):
    return clause(options, BY_ITEM, "visits GROUP BY item")


OURS = f"SELECT {BY_ITEM} FROM visits GROUP BY item"


@pytest.mark.parametrize("first", [0, 1])
def test_a_foreign_statement_and_ours_are_one_release(first):
    with session() as opened:
        ways = [
            lambda: opened.query(asked("epsilon = 1, delta = 1e-6, privacy_unit_column = id")),
            lambda: opened.query(OURS, epsilon=1),
        ]
        one = ways[first]()
        other = ways[1 - first]()
        assert one.spent.rho > 0
        assert other.spent.rho == 0
        assert other.to_frame().equals(one.to_frame())
        assert len(opened.history) == 1


def test_a_clamped_sum_and_its_case_are_one_release():
    with session() as opened:
        opened.query(
            "SELECT SUM(quantity, contribution_bounds_per_row => (10, 50)) AS s FROM rows", rho=0.1
        )
        case = "CASE WHEN quantity < 10 THEN 10 WHEN quantity > 50 THEN 50 ELSE quantity END"
        assert opened.query(f"SELECT SUM({case}) AS s FROM rows", rho=0.1).spent.rho == 0


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": 0.1}, {"error": 50}])
def test_a_cost_in_the_clause_and_in_the_cell_is_refused_and_free(cost):
    with session() as opened:
        for call in (opened.query, opened.price):
            with pytest.raises(RequestError, match="has its own epsilon in OPTIONS, and") as caught:
                call(asked("epsilon = 1"), **cost)
            assert caught.value.hint == "Leave one of them out."
        assert opened.budget.spent.rho == 0


def test_price_and_query_of_a_clause_agree_with_the_cell():
    with session() as opened:
        price, ours = opened.price(asked("epsilon = 1")), opened.price(OURS, epsilon=1)
        assert price.spent == ours.spent
        assert opened.query(asked("epsilon = 1")).spent == price.spent


def test_a_larger_delta_buys_nothing_and_a_smaller_one_costs_less():
    def cost(options):
        with session() as opened:
            return opened.price(asked(options)).spent.rho

    plain = cost("epsilon = 1")
    assert cost("epsilon = 1, delta = 1e-6") == plain
    assert cost("epsilon = 1, delta = 0.5") == plain
    assert cost("epsilon = 1, delta = 1e-9") < plain


def test_a_session_without_delta_takes_that_of_the_clause():
    with session(rho=1) as opened:
        with pytest.raises(RequestError, match="the session has no delta"):
            opened.price(asked("epsilon = 1"))
        smaller = opened.price(asked("epsilon = 1, delta = 1e-9")).spent.rho
        assert 0 < smaller < opened.price(asked("epsilon = 1, delta = 1e-3")).spent.rho


def test_a_pure_session_keeps_every_delta():
    with session(epsilon=3) as opened:
        costs = {
            opened.price(asked(f"epsilon = 1{delta}")).spent.epsilon
            for delta in ("", ", delta = 0", ", delta = 1e-5")
        }
        assert costs == {opened.price(OURS, epsilon=1).spent.epsilon}


def test_a_delta_that_the_session_cannot_keep_is_refused():
    promise = Promise(Fraction(1), Fraction(0))
    assert promised_delta(promise, PURE, None) is None
    for privacy, said in (
        (ZCDP, "only a pure session keeps delta 0"),
        (BASIC, "the delta of the budget"),
    ):
        with pytest.raises(RequestError, match=said):
            promised_delta(promise, privacy, Fraction(1, 10**6))


def test_only_a_query_takes_its_cost_from_a_clause():
    table = Table("visits", FRAME, SCHEMA, unit=Unit("id", max_rows=5))
    with closing(Curator([table], budget=Budget(**BUDGET))) as curator:
        opened = curator.session()
        text = asked("epsilon = 1")
        calls = [
            lambda: opened.infer(text),
            lambda: opened.decide(f"{text} HAVING COUNT(*) > 10"),
            lambda: opened.price(f"{text} HAVING COUNT(*) > 10", beta=0.05),
            lambda: curator.risk(text),
        ]
        for call in calls:
            with pytest.raises(DpnbError) as caught:
                call()
            assert caught.value.what == "only a query takes its privacy cost from OPTIONS"
            assert caught.value.hint == "Leave epsilon and delta out of OPTIONS."
        assert opened.budget.spent.rho == 0
        opened.query(asked("epsilon = 1"))
        inference = opened.infer(asked("privacy_unit_column = id"))
        assert len(inference.to_frame()) == 2


BY_PERSON = [
    (clause("", "SUM(price, contribution_bounds_per_group => (1, 10))", "visits WHERE quantity > 2"),
     "SELECT SUM(LEAST(GREATEST(v, 1), 10)) AS v FROM (SELECT id, SUM(price) AS v FROM visits WHERE quantity > 2 GROUP BY id) "
     "AS p WHERE v IS NOT NULL"),
    (clause("", "item, COUNT(*, contribution_bounds_per_group => (0, 2))", "visits GROUP BY item"),
     "SELECT item, SUM(LEAST(GREATEST(v, 0), 2)) AS v FROM (SELECT id, item, COUNT(*) AS v FROM visits GROUP BY id, item) AS p "
     "GROUP BY item"),
    (clause("epsilon = 1", "AVG(quantity)"),
     "SELECT AVG(v) AS v FROM (SELECT id, AVG(quantity) AS v FROM visits GROUP BY id) AS p"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "instead"), BY_PERSON)
def test_what_one_person_adds_is_bounded_by_a_row_for_each(text, instead):
    assert refused(text).hint == f"Without the clause, ask {instead}."
    assert read(instead).schema.unit.column == "id"
