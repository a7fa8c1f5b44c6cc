"""Expressions inside aggregates: what they mean, and between which numbers they lie."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnb import Category, Integer, Real, Schema, Table
from dpnb.schema.predicates import EVERY, Or, Within
from dpnb.sql.canonical import describe, plain_value, read, read_value
from dpnb.sql.parser import parse
from dpnb.sql.query import Aggregate, Derived
from dpnb.sql.shown import Field, Kind, Term
from dpnb.sql.values import Arithmetic, Bounds, Case, Column, Number, bounds_of, subvalues

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "sex": Category(["Female", "Male"]),
        "x": Integer(-2, 10),
        "y": Integer(3, 5),
        "r": Real(0, 1.5),
        "big": Integer(-(2**53), 2**53),
        '"; DROP TABLE rows; --': Integer(0, 1),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def aggregate(text, params=None) -> Aggregate:
    return parse(f"SELECT {text} FROM t", TABLES, params).aggregates[0]


def value(text):
    return aggregate(f"SUM({text})").value


def number(of):
    return Number(Fraction(of))


class TestMeaning:
    def test_arithmetic(self):
        assert value("x - y") == Arithmetic("-", Column("x"), Column("y"))
        assert value("2 * x + 1") == Arithmetic(
            "+", Arithmetic("*", Column("x"), number(2)), number(1)
        )
        assert value("-x") == Arithmetic("*", Column("x"), number(-1))
        assert value("x / 4") == Arithmetic("/", Column("x"), number(4))

    def test_case(self):
        found = value("CASE WHEN sex = 'Male' THEN x WHEN y > 4 THEN NULL ELSE 0.5 END")
        male, more = Within("sex", ((1, 1),)), Within("y", ((5, 5),))
        assert found == Case(((male, Column("x")), (more, None)), number("0.5"))
        assert value("CASE WHEN sex = 'Male' THEN 1 END").default is None

    def test_the_first_branch_of_a_case_that_is_true_counts(self):
        always = "y >= 3 OR y IS NULL"
        assert value(f"CASE WHEN {always} THEN x WHEN sex = 'Male' THEN y END") == Column("x")
        found = value(f"CASE WHEN sex = 'Male' THEN x WHEN {always} THEN y WHEN x > 3 THEN 1 END")
        assert found == Case(((Within("sex", ((1, 1),)), Column("x")),), Column("y"))

    def test_a_difference_has_an_order(self):
        assert value("y - x") == Arithmetic("-", Column("y"), Column("x"))

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            ("x + y", "y + x"),
            ("2 * x", "(x) * (4 - 2)"),
            ("x / 0.5", "x / (1 / 2)"),
            ("CASE WHEN x > 3 THEN 1 ELSE 0 END", "CASE WHEN NOT x <= 3 OR x IS NULL AND x = 1 THEN 1 ELSE 0 END"),
            ("CASE WHEN x > 99 THEN 7 WHEN y >= 3 OR y IS NULL THEN x ELSE 1 END", "x"),
            ("CASE WHEN x > 99 THEN 7 ELSE y END", "y"),
            ("T.X", "x"),
            ("x * :two", "x * 2"),
        ],
    )  # fmt: skip
    def test_equal_meanings_have_equal_descriptions(self, left, right):
        first, second = (
            describe(parse(f"SELECT SUM({text}) FROM t", TABLES, {"two": 2}))
            for text in (left, right)
        )
        assert first == second

    def test_a_count_of_a_constant_is_a_count_of_rows(self):
        assert aggregate("COUNT(1)") == aggregate("COUNT(*)")
        assert aggregate("COUNT(2 - 3.5)").value is None

    def test_categories_are_counted(self):
        assert aggregate("COUNT(sex)").value == Column("sex")

    def test_columns_are_those_of_the_value_and_its_conditions_but_not_of_the_filter(self):
        found = aggregate("SUM(CASE WHEN sex = 'Male' THEN x * 2 ELSE r END) FILTER (WHERE y > 3)")
        assert found.columns == {"sex", "x", "r"}
        assert aggregate("COUNT(*)").columns == set()

    @pytest.mark.parametrize(
        ("text", "alias"),
        [
            ("SUM(x)", "sum_x"),
            ("AVG(x - y)", "avg_x_y"),
            ("SUM(1)", "sum"),
            ("COUNT(CASE WHEN sex = 'Male' THEN 1 END)", "count_sex"),
            ("SUM(x - y) AS gain", "gain"),
        ],
    )
    def test_names(self, text, alias):
        assert aggregate(text).alias == alias

    def test_names_that_look_like_sql_are_names(self):
        found = aggregate('SUM("""; DROP TABLE rows; --" + x)')
        assert found.columns == {'"; DROP TABLE rows; --', "x"}


class TestBounds:
    @pytest.mark.parametrize(
        ("text", "low", "high", "integral"),
        [
            ("x", -2, 10, True),
            ("r", 0, "1.5", False),
            ("x + y", 1, 15, True),
            ("x - y", -7, 7, True),
            ("x * y", -10, 50, True),
            ("x * x", 0, 100, True),
            ("-x", -10, 2, True),
            ("x / 4", "-0.5", "2.5", False),
            ("x / -2", -5, 1, False),
            ("x * r", -3, 15, False),
            ("x + 0.5", "-1.5", "10.5", False),
            ("0.1 * x", "-0.2", 1, False),
            ("big", -(2**53), 2**53, True),
            ("big + 1", 1 - 2**53, 2**53 + 1, False),
            ("big * 2 - big", -3 * 2**53, 3 * 2**53, False),
            ("CASE WHEN x > 1 THEN y END", 3, 5, True),
            ("CASE WHEN x > 1 THEN y ELSE 0 END", 0, 5, True),
            ("CASE WHEN x > 1 THEN y WHEN x > 0 THEN -7 ELSE r END", -7, 5, False),
            ("3", 3, 3, True),
        ],
    )
    def test_follow_from_the_declared_ones(self, text, low, high, integral):
        expected = Bounds(Fraction(low), Fraction(high), integral)
        assert bounds_of(value(text), SCHEMA) == expected

    @given(st.recursive(
        st.sampled_from([Column("x"), Column("y"), number(3), number("-0.5")]),
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from("+-*"), inner, inner),
            st.builds(Arithmetic, st.just("/"), inner, st.sampled_from([number(2), number(-3)])),
            st.builds(lambda a, b: Case(((Within("x", ((0, 4),)), a),), b), inner, st.none() | inner),
        ),
        max_leaves=6,
    ))  # fmt: skip
    def test_hold_for_every_row(self, expression):
        bounds = bounds_of(expression, SCHEMA)
        for x, y in itertools.product(range(-2, 11), (3, 4, 5)):
            found = exact(expression, {"x": x, "y": y})
            if found is not None:
                assert bounds.low <= found <= bounds.high
                assert not bounds.integral or found.denominator == 1

    def test_texts_have_none(self):
        with pytest.raises(TypeError, match="arithmetic needs numeric columns"):
            bounds_of(Column("sex"), SCHEMA)


def exact(expression, row):
    """The value of an expression for one row, in rationals."""
    if isinstance(expression, Column):
        return Fraction(row[expression.name])
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Case):
        (((condition, result),), default) = expression.branches, expression.default
        inside = any(a <= row[condition.column] <= b for a, b in condition.intervals)
        taken = result if inside else default
        return None if taken is None else exact(taken, row)
    left, right = exact(expression.left, row), exact(expression.right, row)
    if left is None or right is None:
        return None
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
    }[expression.operator]()


class TestDerived:
    def query(self, outputs, rest=""):
        return parse(f"SELECT {outputs} FROM t {rest}", TABLES)

    def test_leaves_are_different_aggregates(self):
        found = self.query("SUM(x) / COUNT(*) + SUM(x) AS a").derived[0]
        assert isinstance(found, Derived)
        assert [(leaf.function, leaf.value) for leaf in found.leaves] == [
            ("SUM", Column("x")),
            ("COUNT", None),
        ]

    def test_filters_tell_leaves_apart(self):
        found = self.query("SUM(x) FILTER (WHERE y > 3) / SUM(x) AS a").derived[0]
        assert [leaf.filter for leaf in found.leaves] == [Within("y", ((4, 5),)), EVERY]

    def test_results_keep_their_order(self):
        found = self.query("COUNT(*) / 2 AS a, SUM(x) AS b, EXP(AVG(r)) AS c, COUNT(*) AS d")
        assert [result.alias for result in found.outputs] == ["a", "b", "c", "d"]
        assert [leaf.alias for leaf in found.measured] == ["b", "d", "avg_r"]

    def test_what_is_only_in_formulas_is_measured_once(self):
        found = self.query("SUM(x) / COUNT(*) AS a, SUM(r) / COUNT(*) AS b")
        assert found.aggregates == ()
        assert len(found.measured) == 3

    def test_brackets_and_plus_around_an_aggregate_are_none(self):
        assert self.query("((COUNT(*)))") == self.query("COUNT(*)")

    def test_order_by_a_formula_or_its_name(self):
        for order in ("q", "COUNT(*) FILTER (WHERE x > 3) / COUNT(*)"):
            found = self.query(
                "sex, COUNT(*) FILTER (WHERE x > 3) / COUNT(*) AS q",
                f"GROUP BY sex ORDER BY {order} DESC",
            )
            (term,) = found.shown.order
            assert term == Term(Field(1, Kind.NUMBER, released=True), descending=True)
            assert len(found.outputs) == 1


STATEMENTS = [
    "SELECT COUNT(*) FROM t",
    "SELECT sex, COUNT(*) AS a, COUNT(*) FILTER (WHERE x > 3) AS b FROM t WHERE r < 0.1 GROUP BY sex",
    "SELECT y, x, SUM(x - y) FROM t WHERE sex = 'Male' AND (r > 0.5 OR x IS NULL) GROUP BY y, x",
    "SELECT AVG(CASE WHEN r > 1e-3 AND x > 1 THEN NULL WHEN y = 3 THEN x / 7 ELSE -0.1 END) FROM t",
    "SELECT SUM(x) / COUNT(*) AS a, COUNT(*), 100 * LN(AVG(r) + 2) - EXP(1/3) AS b FROM t WHERE x > 99",
    "SELECT SUM(x) / SUM(y) AS a, SUM(x) / SUM(y) AS b, SUM(x) AS c FROM t GROUP BY sex",
]


class TestRead:
    @pytest.mark.parametrize("text", STATEMENTS)
    def test_is_the_inverse_of_describe(self, text):
        query = parse(text, TABLES)
        again = read(describe(query), query.schema)
        assert describe(again) == describe(query)
        assert again.where == query.where
        assert [a.means(b) for a, b in zip(again.measured, query.measured, strict=True)]
        assert [d.formula for d in again.derived] == [d.formula for d in query.derived]
        names = [result.alias for result in again.outputs]
        assert len(set(names)) == len(names)

    def test_a_predicate_that_is_never_true(self):
        query = parse("SELECT COUNT(*) FROM t WHERE x > 99", TABLES)
        assert read(describe(query), query.schema).where == Or(())

    def test_values(self):
        for part in subvalues(value("CASE WHEN x > 1 THEN 2*x - y/3 ELSE r END")):
            assert read_value(plain_value(part)) == part
