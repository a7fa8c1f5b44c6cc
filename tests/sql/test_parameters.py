"""Bound parameters are values, whatever is written in them."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb import Boolean, Category, Date, Integer, Real, Schema, Table
from dpnb.errors import DpnbError, SqlError
from dpnb.schema.predicates import NONE, Within
from dpnb.sql.parser import parse
from dpnb.sql.shown import Literal

pytestmark = pytest.mark.fast

HOSTILE = ["x' OR '1'='1", "'; DROP TABLE t; --", "1 OR 1=1", "<script>", ":other", "a\x00b", ""]
SCHEMA = Schema(
    {
        "c": Category(["a", *HOSTILE]),
        "i": Integer(0, 9),
        "r": Real(0, 9),
        "d": Date("2024-01-01", "2024-12-31"),
        "b": Boolean(),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def where(condition, **params):
    return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", TABLES, params).where


class TestValues:
    @pytest.mark.parametrize(
        "value", [3, 3.0, np.int8(3), np.uint64(3), np.float32(3), np.float64(3), np.array(3)]
    )
    def test_numbers_of_python_and_numpy(self, value):
        assert where("i = :v", v=value) == Within("i", ((3, 3),))
        assert where("r = :v", v=value) == Within("r", ((3.0, 3.0),))

    @pytest.mark.parametrize("value", ["a", np.str_("a"), *HOSTILE])
    def test_texts_are_looked_up_and_never_read_as_sql(self, value):
        place = SCHEMA["c"].values.index(value)
        assert where("c = :v", v=value) == Within("c", ((place, place),))

    @pytest.mark.parametrize(
        "value",
        [
            "2024-01-02",
            datetime.date(2024, 1, 2),
            datetime.datetime(2024, 1, 2),  # noqa: DTZ001
            pd.Timestamp("2024-01-02"),
            np.datetime64("2024-01-02"),
            np.datetime64("2024-01-02", "us"),
        ],
    )
    def test_dates(self, value):
        assert where("d = :v", v=value) == Within("d", ((19724, 19724),))

    @pytest.mark.parametrize("value", [True, np.bool_(True), 1, "true"])
    def test_booleans(self, value):
        assert where("b = :v", v=value) == where("b") == Within("b", ((1, 1),))
        assert where("COALESCE(b, :v)", v=True) == Within("b", ((1, 1),), null=True)

    @pytest.mark.parametrize("condition", ["i = :v", "i < :v", "c = :v", "d = :v", "r + :v > 1"])
    def test_a_boolean_is_no_value_of_other_columns(self, condition):
        with pytest.raises(SqlError):
            where(condition, v=True)

    def test_a_time_of_day_is_refused(self):
        with pytest.raises(SqlError, match="has a time of day"):
            where("d < :v", v=datetime.datetime(2024, 1, 2, 12))  # noqa: DTZ001

    def test_everywhere_a_constant_may_stand(self):
        assert where("i BETWEEN :a AND :b", a=2, b=4) == Within("i", ((2, 4),))
        assert where("i IN (:a, :b, 9)", a=2, b=4) == Within("i", ((2, 2), (4, 4), (9, 9)))
        assert where(":a < i", a=7) == Within("i", ((8, 9),))
        text, values = "SELECT COUNT(*) n FROM t HAVING n > :a", {"a": np.int64(5)}
        assert parse(text, TABLES, values, deciding=True).having.value == 5
        assert parse(text, TABLES, values).shown.having.arguments[1] == Literal(Fraction(5))

    def test_one_parameter_may_stand_in_several_places(self):
        assert where("i = :v OR i = :v", v=5) == Within("i", ((5, 5),))

    def test_large_numbers_are_compared_exactly(self):
        assert where("i < :v", v=10**400) == Within("i", ((0, 9),))
        assert where("i > :v", v=10**400) == NONE


class TestRefused:
    @pytest.mark.parametrize(
        ("value", "word"),
        [
            (None, "NoneType"),
            (b"a", "bytes"),
            (1 + 2j, "complex"),
            ([1], "list"),
            ({"a": 1}, "dict"),
            (pd.NA, "NAType"),
            (object(), "object"),
        ],
        ids=lambda value: str(value)[:12],
    )
    def test_other_types(self, value, word):
        with pytest.raises(SqlError, match=f"parameter :v is of type {word}"):
            where("i = :v", v=value)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -np.inf, np.float32("nan")])
    def test_numbers_that_are_not_finite(self, value):
        with pytest.raises(SqlError, match="parameter :v is not a finite number"):
            where("r = :v", v=value)

    def test_missing_ones_are_named_with_a_hint(self):
        with pytest.raises(SqlError, match=r":v has no value.*Pass params="):
            where("i = :v")

    @pytest.mark.parametrize("text", ["i = ?", "i = $1", "i = :1"])
    def test_parameters_without_a_name(self, text):
        with pytest.raises(SqlError):
            where(text, v=1)

    def test_the_wrong_type_for_a_column(self):
        with pytest.raises(SqlError, match="is not a number"):
            where("i = :v", v="three")
        with pytest.raises(SqlError, match="its values are texts"):
            where("c = :v", v=3)

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT COUNT(*) FROM :v",
            "SELECT :v FROM t",
            "SELECT SUM(:v) FROM t",
            "SELECT COUNT(*) FROM t GROUP BY :v",
            "SELECT COUNT(*) FROM t WHERE :v = 1",
            "SELECT COUNT(*) FROM t WHERE :v",
            "SELECT COUNT(*) FROM t ORDER BY :v",
            "SELECT COUNT(*) FROM t LIMIT :v",
        ],
    )
    def test_no_parameter_stands_for_a_name_or_clause(self, text):
        with pytest.raises(DpnbError):
            parse(text, TABLES, {"v": "i"})

    @pytest.mark.parametrize(
        "value", [np.array([1, 2]), pd.Series([1, 2])], ids=["array", "series"]
    )
    def test_several_values_at_once(self, value):
        with pytest.raises(SqlError, match="parameter :v"):
            where("i = :v", v=value)

    def test_a_whole_number_beyond_the_floats_on_a_real_column(self):
        assert where("r < :v", v=10**400) == Within("r", ((0.0, 9.0),))

    @pytest.mark.parametrize("params", [5, ["v"], "v"])
    def test_params_that_are_no_mapping(self, params):
        with pytest.raises(DpnbError):
            parse("SELECT COUNT(*) FROM t WHERE i = :v", TABLES, params)


@given(
    st.text(
        st.one_of(st.characters(exclude_categories=()), st.sampled_from("'\";-:/*()= OR")),
        max_size=20,
    )
)
@settings(deadline=None, max_examples=150)
def test_no_text_changes_the_meaning_of_the_statement(value):
    schema = Schema({"c": Category(["a", "z" + value])})
    tables = {"t": Table("t", None, schema)}
    query = parse("SELECT COUNT(*) FROM t WHERE c = :v AND c <> 'a'", tables, {"v": "z" + value})
    assert query.where == Within("c", ((1, 1),))
