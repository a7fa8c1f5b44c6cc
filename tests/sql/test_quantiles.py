"""Lists of quantiles: each is one result, the same as if it were written alone."""

from __future__ import annotations

import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.errors import SqlError
from dpnb.sql.canonical import describe
from dpnb.sql.parser import parse

pytestmark = pytest.mark.fast

TABLES = {"t": Table("t", None, Schema({"sex": Category(["F", "M"]), "age": Integer(0, 100)}))}


def read(results, rest=""):
    return parse(f"SELECT {results} FROM t {rest}", TABLES)


def alone(*shares, name="q"):
    return ", ".join(f"QUANTILE(age, {share}) AS {name}_{per_cent}" for share, per_cent in shares)


HALVES = alone((0.25, 25), (0.5, 50))
QUARTERS = alone((0.25, 25), (0.5, 50), (0.75, 75))


@pytest.mark.parametrize(
    ("listed", "apart"),
    [
        ("QUANTILE(age, [0.25, 0.5]) AS q", HALVES),
        ("quantile_cont(age, [.25, 0.50]) q", HALVES),
        ("quantile_disc(age, list_value(0.25, 0.5)) AS q", HALVES),
        ("approx_quantile(age, [0.25, 0.5]) AS q", HALVES),
        ("PERCENTILE_CONT([0.25, 0.5]) WITHIN GROUP (ORDER BY age) AS q", HALVES),
        ("APPROX_QUANTILES(age, 4) AS q", QUARTERS),
        ("ANON_QUANTILES(age, 4 CLAMPED BETWEEN 0 AND 100) AS q", QUARTERS),
        ("APPROX_QUANTILES(age, 8) AS q", alone(*((i / 8, str(i * 12.5).replace(".", "_").removesuffix("_0")) for i in range(1, 8)))),
        ("(QUANTILE(age, [0.999])) AS q", alone((0.999, "99_9"))),
        ("QUANTILE(age, [0.25, 0.5])", alone((0.25, 25), (0.5, 50), name="quantile_age")),
        ("APPROX_QUANTILES(age, 2) FILTER (WHERE sex = 'F') AS q", "QUANTILE(age, 0.5) FILTER (WHERE sex = 'F') AS q_50"),
        ("COUNT(*), QUANTILE(age, [0.25, 0.5]) AS q, AVG(age)", f"COUNT(*), {HALVES}, AVG(age)"),
    ],
)  # fmt: skip
def test_a_list_is_one_result_for_each_quantile(listed, apart):
    one, other = read(listed), read(apart)
    assert describe(one) == describe(other)
    assert [output.alias for output in one.outputs] == [output.alias for output in other.outputs]


def test_the_quantiles_of_a_list_share_one_measurement():
    assert len(read("APPROX_QUANTILES(age, 10) AS q").measured) == 1


def test_order_by_names_one_of_them():
    rest = "GROUP BY sex ORDER BY q_50 DESC"
    assert (
        read("sex, QUANTILE(age, [0.25, 0.5]) AS q", rest).shown
        == read(f"sex, {HALVES}", rest).shown
    )


ENDS = "a list of quantiles takes numbers between 0 and 1; at the ends one row decides"


@pytest.mark.parametrize(
    ("results", "what", "hint"),
    [
        ("QUANTILE(age, [0, 0.5, 1])", ENDS, "Write QUANTILE(x, [0.25, 0.5, 0.75])."),
        ("QUANTILE(age, [])", ENDS, "Write QUANTILE(x"),
        ("QUANTILE(age, [1e-9])", ENDS, "Write QUANTILE(x"),
        ("QUANTILE(age, [1e999999999])", ENDS, "Write QUANTILE(x"),
        ("QUANTILE(age, ['0.5'])", ENDS, "Write QUANTILE(x"),
        ("QUANTILE(age, [age, 1])", ENDS, "Write QUANTILE(x"),
        ("QUANTILE(age, [0.5, .50])", "a quantile is twice in the list", "Write it once."),
        (f"QUANTILE(age, [{', '.join(f'0.1{i:03}1' for i in range(101))}])", "a list has at most 100 quantiles", "Ask for fewer."),
        ("APPROX_QUANTILES(age, 3)", "100 equal parts", "Write QUANTILE(x"),
        ("APPROX_QUANTILES(age, 1)", "100 equal parts", "Write QUANTILE(x"),
        ("APPROX_QUANTILES(age, 101)", "100 equal parts", "Write QUANTILE(x"),
        ("APPROX_QUANTILES(age, 99999999999)", "100 equal parts", "Write QUANTILE(x"),
        ("APPROX_QUANTILES(age, age)", "100 equal parts", "Write QUANTILE(x"),
        ("QUANTILE(age, [0.5]) - 1", "must be a number", "Write MEDIAN(x)"),
        ("QUANTILE(sex, [0.5])", "'sex' is not a numeric column", "Quantiles need"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_quantiles_is_refused(results, what, hint):
    with pytest.raises(SqlError) as caught:
        read(results)
    assert what in caught.value.what
    assert caught.value.hint.startswith(hint)
