"""Formulas over results: their intervals hold whenever those of their leaves do."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpnb
from dpnb.answers.answer import Answer
from dpnb.errors import RequestError
from dpnb.estimation.estimates import Estimates, derived, estimate
from dpnb.estimation.formula import REALS, interval, text, value
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.sql.formulas import (
    Applied,
    Combined,
    Constant,
    Formula,
    Leaf,
    plain_formula,
    read_formula,
)
from dpnb.sql.functions import Function

Open = Callable[..., dpnb.Session]
Test = Callable[[object, float], bool]
Crowded = Callable[..., Callable[[float], np.ndarray]]

A, B = Leaf(0), Leaf(1)
SHARE = (
    "SELECT region, COUNT(*) FILTER (WHERE kind = 'old') / COUNT(*) AS share "
    "FROM people GROUP BY region"
)
MANY = (
    "SELECT region, SUM(gain) / COUNT(*) AS mean, COUNT(*) AS n, "
    "LN(COUNT(*)) AS size, 100 * (AVG(score) - 5) AS above FROM people GROUP BY region"
)

SUMS = (
    "SELECT region, COUNT(*) FILTER (WHERE kind = 'old') - COUNT(*) / 2 + 1 AS gap, COUNT(*) AS n, "
    "2 * COUNT(*) - 7 AS twice FROM people GROUP BY region"
)


def number(of: object) -> Constant:
    return Constant(Fraction(of))  # type: ignore[arg-type]


formulas = st.recursive(
    st.one_of(
        st.integers(0, 2).map(Leaf),
        st.sampled_from([0, 1, -3, "0.1", 1000]).map(number),
    ),
    lambda inner: st.one_of(
        st.builds(Combined, st.sampled_from("+-*/"), inner, inner),
        st.builds(Applied, st.sampled_from(["EXP", "LN", "SQRT"]), inner),
    ),
    max_leaves=6,
)
pairs = st.tuples(st.floats(-50, 50), st.floats(-50, 50)).map(lambda p: (min(p), max(p)))


class TestInterval:
    @pytest.mark.parametrize(
        ("formula", "leaves", "expected"),
        [
            (Combined("+", A, B), [(1, 2), (10, 20)], (11, 22)),
            (Combined("-", A, B), [(1, 2), (10, 20)], (-19, -8)),
            (Combined("*", A, B), [(-1, 2), (-10, 20)], (-20, 40)),
            (Combined("/", A, B), [(-1, 2), (4, 8)], (-0.25, 0.5)),
            (Combined("/", A, B), [(-1, 2), (-8, -4)], (-0.5, 0.25)),
            (Combined("/", A, B), [(1, 2), (0, 8)], REALS),
            (Combined("/", A, B), [(1, 2), (-8, 0)], REALS),
            (Combined("/", number(1), A), [(0, 0)], REALS),
            (Applied("EXP", A), [(-1, 1)], (math.exp(-1), math.e)),
            (Applied("EXP", A), [(0, 1000)], (1, math.inf)),
            (Applied("LN", A), [(1, math.e)], (0, 1)),
            (Applied("LN", A), [(0, 1)], REALS),
            (Applied("SQRT", A), [(0, 4)], (0, 2)),
            (Applied("SQRT", A), [(-1, 4)], REALS),
            # rounding outwards does not reach below a product or sum that is never negative
            (Applied("SQRT", Combined("*", A, B)), [(0, 4), (0, 1)], (0, 2)),
            (Applied("SQRT", Combined("+", A, B)), [(0, 2), (0, 2)], (0, 2)),
            (Applied("SQRT", Combined("*", number(0), A)), [(-3, 4)], (0, 0)),
            (Applied("SQRT", Combined("/", number(0), A)), [(-3, -1)], (0, 0)),
            (Applied("SQRT", Combined("*", A, B)), [(-1e-200, 1), (1e-200, 1e-200)], REALS),
            (Applied("SQRT", Combined("*", A, B)), [(0, 1e-200), (-1e-200, 1e-200)], REALS),
            (Applied("LN", A), [(-5, -1)], REALS),
            (Combined("*", number(0), Applied("LN", A)), [(0, 1)], REALS),
            (Applied("EXP", Combined("/", A, B)), [(0, 1), (-1, 1)], REALS),
            (Combined("-", Applied("EXP", A), Applied("EXP", A)), [(0, 1000)], REALS),
        ],
    )
    def test_of_each_operation(
        self, formula: Formula, leaves: list[tuple[float, float]], expected: tuple[float, float]
    ) -> None:
        found = interval(formula, leaves)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-150)
        assert found[0] <= expected[0]
        assert found[1] >= expected[1]

    @given(formulas, st.lists(pairs, min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=3))
    def test_holds_every_value_on_the_box(
        self, formula: Formula, leaves: list[tuple[float, float]], shares: list[float]
    ) -> None:
        low, high = interval(formula, leaves)
        assert low <= high
        for places in (shares, [0, 0, 0], [1, 1, 1], [0, 1, 0]):
            inside = [
                min(b, max(a, a + s * (b - a))) for (a, b), s in zip(leaves, places, strict=False)
            ]
            at = value(formula, inside)
            if at is None:
                continue
            size = 1e-9 * max(
                [1.0, abs(at), *(abs(end) for end in (low, high) if math.isfinite(end))]
            )
            assert low - size <= at <= high + size

    @given(formulas, st.lists(pairs, min_size=3, max_size=3))
    def test_is_all_reals_where_the_formula_is_not_defined(
        self, formula: Formula, leaves: list[tuple[float, float]]
    ) -> None:
        corners = [[pair[side] for pair in leaves] for side in (0, 1)]
        for corner in corners:
            try:
                _strictly(formula, corner)
            except (ZeroDivisionError, ValueError):
                assert interval(formula, leaves) == REALS
            except OverflowError:
                pass

    @given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.sampled_from("+-*"))
    def test_ends_are_rounded_outwards(self, a: float, b: float, operator: str) -> None:
        low, high = interval(Combined(operator, A, B), [(a, a), (b, b)])  # type: ignore[arg-type]
        x, y = Fraction(a), Fraction(b)
        exact = {"+": x + y, "-": x - y, "*": x * y}[operator]
        assert Fraction(low) <= exact <= Fraction(high)

    def test_a_constant_that_is_no_float_is_rounded_outwards(self) -> None:
        low, high = interval(number("0.1"), [])
        assert Fraction(low) < Fraction("0.1") < Fraction(high)
        assert interval(number("0.5"), []) == (0.5, 0.5)


def _strictly(formula: Formula, at: list[float]) -> float:
    if isinstance(formula, Leaf):
        return at[formula.place]
    if isinstance(formula, Constant):
        return float(formula.value)
    if isinstance(formula, Applied):
        inner = _strictly(formula.argument, at)
        return {"EXP": math.exp, "LN": math.log, "SQRT": math.sqrt}[formula.function](inner)
    left, right = _strictly(formula.left, at), _strictly(formula.right, at)
    if formula.operator == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[formula.operator]


@given(formulas)
def test_plain_data_and_back(formula: Formula) -> None:
    assert read_formula(json.loads(json.dumps(plain_formula(formula)))) == formula


def test_the_text_of_a_formula_keeps_its_meaning() -> None:
    names = ["a", "b"]
    nested = Combined("-", A, Combined("-", B, Combined("*", number(2), Combined("+", A, B))))
    assert text(nested, names) == "a - (b - 2 * (a + b))"
    assert text(Combined("/", A, Combined("/", B, A)), names) == "a / (b / a)"
    assert text(Applied("LN", Combined("+", A, B)), names) == "LN(a + b)"


def released(
    rng: np.random.Generator,
    exact: float,
    distribution: NoiseDistribution,
    groups: int,
    alpha: float,
    wrong: float,
) -> Estimates:
    """COUNTs of many groups that are all alike, with noise ``wrong`` times as wide as it says."""
    draw = rng.normal if distribution.family == "gaussian" else rng.laplace
    values = draw(exact, distribution.scale * wrong, groups)
    return estimate(
        "n", Function.COUNT, None, total=None, total_distribution=None, count=list(values), count_distribution=distribution,
        middle=0.0, reach=0.0, look=1, alpha=alpha, each=alpha,
    )  # fmt: skip


class TestCoverage:
    @pytest.mark.parametrize(
        ("family", "shape", "count"),
        [
            ("gaussian", Combined("-", A, B), 3_000),
            ("gaussian", Applied("LN", Combined("/", Combined("*", number(7), A), B)), 3_000),
            ("laplace", Combined("/", A, B), 12_000),
            (
                "laplace",
                Combined("*", A, Applied("EXP", Combined("/", B, number(50)))),
                12_000,
            ),
        ],
    )
    def test_intervals_keep_their_promise_and_half_the_noise_does_not(
        self,
        family: str,
        shape: Formula,
        count: int,
        size: Callable[[int], int],
        reaches: Test,
    ) -> None:
        rng, alpha = np.random.default_rng(8), 0.01
        first, second = 300.0, 100.0
        exact = value(shape, [first, second])
        assert exact is not None

        def hits(wrong: float) -> np.ndarray:
            distribution = NoiseDistribution(family, 5.0)  # type: ignore[arg-type]
            leaves = [
                released(rng, at, distribution, size(count), alpha / 2, wrong)
                for at in (first, second)
            ]
            found = derived("f", shape, leaves)
            return np.array([a <= exact <= b for a, b in zip(found.low, found.high, strict=True)])

        assert reaches(hits(1.0), 1 - alpha)
        assert not reaches(hits(2.0), 1 - alpha)

    def test_all_intervals_of_an_answer_hold_together(
        self, frame: pd.DataFrame, crowded: Crowded, reaches: Test
    ) -> None:
        # noise that is three times as wide as it says must be found
        groups = frame.groupby("region")
        exact = pd.DataFrame(
            {
                "mean": groups["gain"].mean(),
                "n": groups.size(),
                "size": np.log(groups.size()),
                "above": 100 * (groups["score"].mean() - 5),
            }
        )
        # a count, a sum and an average; the mean rests on two of them
        hits = crowded(MANY, exact, 0.9, [2 / 3, 1 / 3, 1 / 3, 1 / 3], rho=0.5)
        assert reaches(hits(1.0), 0.9)
        assert not reaches(hits(3.0), 0.9)

    def test_intervals_each_on_their_own(
        self, opened: Open, even: Callable[[int, int], dpnb.Table], reaches: Test
    ) -> None:
        sql = "SELECT g, SUM(x) - COUNT(*) AS d FROM t GROUP BY g"
        for scale, holds in ((1.0, True), (2.0, False)):
            session = opened(even(600, 20), scale=scale, rho=100)
            found = session.query(sql, rho=0.5, intervals="each", confidence=0.99).to_frame()
            hits = (found["d_low"] <= -10) & (found["d_high"] >= -10)
            assert reaches(hits, 0.99) is holds


class TestAnswer:
    def test_columns_are_shown_in_the_order_of_the_statement(self, opened: Open) -> None:
        found = opened().query(MANY, rho=5)
        assert [e.alias for e in found.estimates] == ["mean", "n", "size", "above"]
        assert [e.function for e in found.estimates] == ["FORMULA", "COUNT", "FORMULA", "FORMULA"]
        columns = list(found.to_frame().columns)
        assert columns[:4] == ["region", "mean", "mean_low", "mean_high"]

    def test_values_are_formulas_of_the_released_ones(
        self, opened: Open, frame: pd.DataFrame
    ) -> None:
        found = opened(rho=10**9).query(MANY, rho=10**8).to_frame().set_index("region")
        by = frame.groupby("region")
        exact = pd.DataFrame(
            {
                "mean": by["gain"].mean(),
                "n": by.size(),
                "size": np.log(by.size()),
                "above": 100 * (by["score"].mean() - 5),
            }
        )
        for alias in exact:
            assert (found.loc[exact.index, alias] - exact[alias]).abs().max() < 0.1
            assert (found[f"{alias}_low"] <= found[f"{alias}_high"]).all()

    def test_what_is_not_known_is_said(self, opened: Open) -> None:
        found = opened().query(MANY, rho=0.5)
        row = found.to_frame().set_index("region").loc["west"]
        # no gain is below 0, and the declared bounds hold of every mean
        assert row[["mean_low", "size_low"]].tolist() == [0, -math.inf]
        assert row["mean_high"] == 100
        assert math.isnan(row["mean"])
        assert math.isnan(row["above"])
        assert (row["above_low"], row["above_high"]) == pytest.approx((-500, 500))
        assert "too few rows to tell" in repr(found)
        assert "nan" not in repr(found)

    def test_a_shown_aggregate_and_a_leaf_of_equal_meaning_are_one(self, opened: Open) -> None:
        alone = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
        both = "SELECT region, COUNT(*) AS n, 2 * COUNT(*) AS twice FROM people GROUP BY region"
        session = opened()
        first = session.query(alone, rho=0.1).estimates[0]
        again = session.query(both, rho=0.1)
        assert again.spent.rho == 0
        assert again.estimates[0].low == first.low
        assert again.estimates[1].estimate == tuple(2 * (v or 0) for v in first.estimate)

    def test_levels_are_shared_among_what_is_measured(self, opened: Open) -> None:
        found = opened().query(SHARE, rho=0.1)
        assert found.spent.rho == Fraction(1, 10)
        assert sorted(found.levels.values()) == ["1/20", "1/20"]

    def test_order_by_a_formula(self, opened: Open) -> None:
        for order in ("share", "COUNT(*) FILTER (WHERE kind = 'old') / COUNT(*)"):
            found = opened().query(f"{SHARE} ORDER BY {order} DESC", rho=5).to_frame()
            known = found["share"].dropna()
            assert known.is_monotonic_decreasing
            assert found["region"].iloc[-1] == "west"

    def test_asked_again_in_the_same_words_it_is_free(self, opened: Open) -> None:
        session = opened()
        first, again = session.query(SHARE, rho=0.1), session.query(SHARE, rho=0.1)
        assert again.stored
        assert again.estimates == first.estimates

    def test_the_same_aggregates_in_another_formula_are_free(self, opened: Open) -> None:
        session = opened()
        session.query(SHARE, rho=0.1)
        other = session.query(SHARE.replace("/", "-"), rho=0.1)
        assert not other.stored
        assert other.spent.rho == 0

    def test_intervals_of_each_rest_on_narrower_promises_of_the_leaves(self, opened: Open) -> None:
        found = opened().query(SHARE, rho=1, intervals="each", confidence=0.9).estimates[0]
        for leaf in found.leaves:
            half = leaf.count_distribution.quantile(0.1 / 2) if leaf.count_distribution else 0
            assert leaf.margin_of_error(0) == pytest.approx(half)

    def test_plain_data_and_back(self, opened: Open) -> None:
        found = opened().query(MANY, rho=0.5)
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert Answer.from_dict(data) == found

    def test_the_record_has_the_noise_of_every_aggregate(self, opened: Open) -> None:
        found = opened().query(SHARE, rho=0.5)
        (distributions,) = found.record()["noise"]
        assert distributions["formula"] == "count / count_2"
        assert [leaf["count"]["family"] for leaf in distributions["leaves"]] == [
            "gaussian",
            "gaussian",
        ]
        json.dumps(found.record(), allow_nan=False)

    def test_every_rendering_shows_it(self, opened: Open) -> None:
        found = opened().query(MANY, rho=0.5)
        assert "above" in found.to_markdown()
        html = found._repr_html_()
        assert "above" in html
        assert not any(word in html for word in ("nan%", "inf%", ">inf", ">nan"))
        assert found.plot().get_xlabel().startswith("mean")
        assert found.widget().data["aggregates"][0]["alias"] == "mean"

    def test_half_infinite_intervals_are_drawn(self, opened: Open) -> None:
        sql = "SELECT region, EXP(2 * COUNT(*)) AS e FROM people GROUP BY region"
        found = opened().query(sql, rho=0.5)
        row = found.to_frame().set_index("region").loc["north"]
        assert row["e_high"] == math.inf
        assert math.isfinite(row["e_low"])
        assert "inf" not in found._repr_html_().replace("info", "")
        found.plot()


class TestRequests:
    def test_the_price_of_a_formula_says_that_its_width_is_unknown(self, opened: Open) -> None:
        price = opened().price(MANY, rho=0.1)
        assert [alias for alias, *_ in price.widths] == ["mean", "n", "size", *["above"] * 2]
        assert [width is None for *_, width in price.widths] == [1, 0, 1, 0, 0]
        assert "depends on the values" in repr(price)

    def test_an_error_cannot_be_wished_for(self, opened: Open) -> None:
        session = opened()
        for error in (5, {"share": 0.1}):
            with pytest.raises(RequestError, match="error of 'share'") as caught:
                session.query(SHARE, error=error)
            assert "rho" in caught.value.hint
        assert session.budget.spent.rho == 0

    @pytest.mark.parametrize("intervals", ["simultaneous", "each"])
    @pytest.mark.parametrize(
        "budget",
        [{"rho": 50}, {"epsilon": 500}, {"epsilon": 9, "delta": 0.01, "accountant": "gdp"}],
    )
    def test_the_error_of_a_weighted_sum_is_kept(self, budget, intervals, opened: Open) -> None:
        session = opened(**budget)
        asked = {"error": {"gap": 30, "n": 8, "twice": 40}, "intervals": intervals}
        price, found = session.price(SUMS, **asked), session.query(SUMS, **asked)
        for column in found.estimates:
            widest = max(
                (high - low) / 2 for low, high in zip(column.low, column.high, strict=True)
            )
            wanted = asked["error"][column.alias]
            assert widest <= wanted * (1 + 1e-9)
            (expected,) = [width for alias, _, width in price.widths if alias == column.alias]
            assert widest == pytest.approx(expected, rel=1e-9)
        # the narrowest target of what they share decides: 8 for n leaves 16 for twice n
        assert widest > 8

    def test_past_answers_make_no_difference_to_it(self, opened: Open) -> None:
        session = opened()
        session.query("SELECT region, kind, COUNT(*) AS n FROM people GROUP BY region, kind", rho=1)
        price = session.price(SUMS, error=40)
        assert session.query(SUMS, error=40).spent == price.spent

    def test_the_error_of_a_mean_within_a_sum_holds_for_groups_of_some_size(self, opened: Open):
        sql = "SELECT region, 100 * (AVG(score) - 5) AS above FROM people GROUP BY region"
        with pytest.raises(RequestError, match="size of the group"):
            opened(rho=50).query(sql, error=5)
        price = opened(rho=50).price(sql, error=5, rows=2_000)
        assert price.widths == (("above", 2_000, pytest.approx(5, rel=0.05)),)

    def test_a_leaf_with_another_name_is_the_same_leaf(self, opened: Open) -> None:
        found = opened().query(SHARE, rho=1).estimates[0]
        renamed = replace(found.leaves[0], alias="other")
        again = derived("share", found.formula or A, [renamed, found.leaves[1]])
        assert again.uncut == found.uncut
