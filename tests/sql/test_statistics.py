"""Variances and quantiles: what they mean, in whichever words."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from dpnb import Category, Integer, Real, Schema, Table
from dpnb.errors import SqlError
from dpnb.sql.canonical import describe, read
from dpnb.sql.formulas import Applied, Combined, Quantile, Variance, plain_formula
from dpnb.sql.parser import parse
from dpnb.sql.query import Derived, Key
from dpnb.sql.shown import Field, Kind
from dpnb.sql.values import Column, bounds_of

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "age": Integer(17, 90),
        "pay": Real(0, 100, bins=[0, 50, 100]),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def column(expression: str, **params: object) -> Derived:
    (found,) = parse(f"SELECT {expression} FROM t", TABLES, params).derived
    return found


def same(left: str, right: str) -> bool:
    a, b = (describe(parse(f"SELECT {text} AS x FROM t", TABLES)) for text in (left, right))
    return a == b


class TestVariance:
    def test_is_an_average_and_a_sum_of_squares(self) -> None:
        found = column("VAR_POP(age)")
        assert found.formula == Variance(
            0, 1, Fraction("53.5"), Fraction("666.125"), Fraction("36.5"), sample=False
        )
        mean, squares = found.leaves
        assert (mean.function, mean.value) == ("AVG", Column("age"))
        assert squares.function == "SUM"
        assert squares.value is not None
        bounds = bounds_of(squares.value, SCHEMA)
        assert (bounds.low, bounds.high) == (Fraction("-666.125"), Fraction("666.125"))

    @pytest.mark.parametrize(
        ("left", "right", "equal"),
        [
            ("VARIANCE(age)", "VAR_SAMP(age)", True),
            ("STDDEV(age)", "STDDEV_SAMP(age)", True),
            ("STDDEV(age)", "SQRT(VARIANCE(age))", True),
            ("STDDEV_POP(age)", "SQRT((VAR_POP(age)))", True),
            ("VAR_POP(age)", "VAR_SAMP(age)", False),
            ("VAR_POP(age)", "VAR_POP(pay)", False),
            ("VAR_POP(age)", "VAR_POP(age) FILTER (WHERE sex = 'F')", False),
        ],
    )
    def test_has_many_names(self, left: str, right: str, equal: bool) -> None:
        assert same(left, right) is equal

    def test_of_an_expression(self) -> None:
        formula = column("STDDEV(age - pay)").formula
        assert isinstance(formula, Applied)
        assert isinstance(formula.argument, Variance)
        assert formula.argument.half == Fraction("86.5")


class TestQuantile:
    def test_is_made_of_counts_by_cell(self) -> None:
        found = column("MEDIAN(age)")
        assert found.formula == Quantile(0, Fraction(1, 2))
        (cells,) = found.leaves
        assert (cells.function, cells.value) == ("CELLS", Column("age"))
        query = parse("SELECT sex, MEDIAN(age) FROM t GROUP BY sex", TABLES)
        assert query.finer(cells).keys == tuple(
            Key.of(name, name, query.schema) for name in ("sex", "age")
        )

    @pytest.mark.parametrize(
        "spelled",
        [
            "QUANTILE(age, 0.5)",
            "QUANTILE((age), .50)",
            "quantile_cont(age, 0.5)",
            "QUANTILE_DISC(age, 0.5)",
            "APPROX_QUANTILE(age, 0.5)",
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)",
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age ASC)",
            "(MEDIAN(age))",
        ],
    )
    def test_has_many_names(self, spelled: str) -> None:
        assert same("MEDIAN(age)", spelled)

    def test_takes_a_parameter_and_a_filter(self) -> None:
        found = column("QUANTILE(age, :q) FILTER (WHERE sex = 'F')", q=0.25)
        assert found.formula == Quantile(0, Fraction(1, 4))
        assert found.leaves[0].filter.columns == {"sex"}

    def test_two_of_one_column_share_its_counts(self) -> None:
        found = column("QUANTILE(age, 0.75) - QUANTILE(age, 0.25)")
        assert found.formula == Combined(
            "-", Quantile(0, Fraction(3, 4)), Quantile(0, Fraction(1, 4))
        )
        assert len(found.leaves) == 1
        assert found.claims == 2


class TestQuery:
    def test_default_names(self) -> None:
        query = parse(
            "SELECT VAR_POP(age), STDDEV(age), VARIANCE(age + pay), MEDIAN(pay), "
            "QUANTILE(age, 0.9), 2 * MEDIAN(age), SQRT(AVG(age)) AS s FROM t",
            TABLES,
        )
        assert [one.alias for one in query.outputs] == [
            "var_pop_age", "stddev_age", "variance_age_pay", "median_pay", "quantile_age",
            "formula", "s",
        ]  # fmt: skip

    def test_can_be_ordered_by(self) -> None:
        query = parse(
            "SELECT sex, MEDIAN(age) AS m FROM t GROUP BY sex ORDER BY MEDIAN(age) DESC", TABLES
        )
        assert query.shown.order[0].expression == Field(1, Kind.NUMBER, released=True)
        assert len(query.outputs) == 1

    @pytest.mark.parametrize(
        ("selected", "claims", "measured"),
        [
            ("COUNT(*), AVG(age)", 2, 2),
            ("SUM(age) / COUNT(*) AS a, COUNT(*)", 2, 2),
            # the mean, and the variance given the mean
            ("VAR_POP(age)", 2, 2),
            ("VAR_POP(age) AS a, STDDEV_POP(age) AS b, AVG(age)", 2, 2),
            ("VAR_POP(age) AS a, VAR_SAMP(age) AS b", 3, 2),
            ("VAR_POP(age) AS a, VAR_POP(pay) AS b", 4, 4),
            ("MEDIAN(age) AS a, QUANTILE(age, 0.5) AS b", 1, 1),
            ("MEDIAN(age) AS a, QUANTILE(age, 0.9) AS b, MEDIAN(pay)", 3, 2),
            ("MEDIAN(age) / AVG(age) AS a, COUNT(*)", 3, 3),
        ],
    )
    def test_every_interval_that_has_to_hold_is_counted(
        self, selected: str, claims: int, measured: int
    ) -> None:
        query = parse(f"SELECT {selected} FROM t", TABLES)
        assert query.claims == claims
        assert len(query.measured) == measured

    def test_descriptions_are_read_back(self) -> None:
        query = parse(
            "SELECT sex, STDDEV(age) / AVG(age) AS c, MEDIAN(pay) FILTER (WHERE age > 30) AS m "
            "FROM t GROUP BY sex",
            TABLES,
        )
        described = json.loads(json.dumps(describe(query)))
        assert describe(read(described, query.schema)) == describe(query)

    def test_descriptions_tell_quantiles_apart(self) -> None:
        assert not same("QUANTILE(age, 0.995)", "QUANTILE(age, 0.996)")
        assert not same("QUANTILE(age, 0.5)", "QUANTILE(pay, 0.5)")

    def test_plain_data_of_a_formula(self) -> None:
        assert plain_formula(column("2 * MEDIAN(age)").formula) == [
            "*",
            "2",
            ["QUANTILE", 0, "1/2"],
        ]
        assert plain_formula(column("VAR_SAMP(age)").formula) == [
            "VARIANCE", 0, 1, "107/2", "5329/8", "73/2", True,
        ]  # fmt: skip


def test_a_quantile_needs_bins_that_hold_every_value():
    for low, high in ((0, 20), (-5, 100)):
        kind = Integer(-5, 100, bins=[low, 10, high])
        tables = {"t": Table("t", None, Schema({"x": kind}))}
        if low == -5:
            assert parse("SELECT MEDIAN(x) FROM t", tables).outputs
        else:
            with pytest.raises(SqlError, match="leave out some of its values"):
                parse("SELECT MEDIAN(x) FROM t", tables)


def test_values_of_a_wide_column_are_counted_before_they_are_listed():
    kind = Integer(0, 2**53)
    tables = {"t": Table("t", None, Schema({"x": kind, "sex": SCHEMA["sex"]}))}
    for group, cells in (
        ("", "9,007,199,254,740,993"),
        (" GROUP BY sex", "18,014,398,509,481,986"),
    ):
        with pytest.raises(SqlError, match=f"needs {cells} bins in all groups together"):
            parse(f"SELECT MEDIAN(x) FROM t{group}", tables)
