"""Variances: their exact value is covered, never beyond what is possible, never undefined."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpnb
from dpnb.answers.answer import Answer
from dpnb.errors import RequestError
from dpnb.estimation.intervals import mean_around_zero
from dpnb.estimation.variance import Distributions, Sums, laplace_quantile, variance
from dpnb.privacy.calibrate import NoiseDistribution, sum_quantile
from dpnb.sql.formulas import Variance
from dpnb.sql.parser import parse
from dpnb.views.measures import sum_of
from tests.kit.noise import NoNoise
from tests.kit.power import decided

Open = Callable[..., dpnb.Session]
Test = Callable[[object, float], bool]
Crowded = Callable[..., Callable[[float], np.ndarray]]

SQL = (
    "SELECT region, VAR_POP(score) AS v, VARIANCE(gain) AS s, STDDEV(score) AS d, "
    "STDDEV_POP(gain) AS p FROM people GROUP BY region"
)
UNIT = Variance(0, 1, Fraction(0), Fraction(1, 2), Fraction(1), sample=False)
SAMPLE = Variance(0, 1, Fraction(0), Fraction(1, 2), Fraction(1), sample=True)


def exact(values: np.ndarray, middle: float = 0.0, wanted: Variance = UNIT) -> Sums:
    """What a curator without noise would release."""
    squares = (values - float(wanted.origin)) ** 2 - float(wanted.shift)
    return Sums(float(squares.sum()), float((values - middle).sum()), float(len(values)))


def distributions(
    square: float, total: float, count: float, alpha: float, family: Any = "gaussian"
) -> Distributions:
    return Distributions(
        *(NoiseDistribution(family, scale) for scale in (square, total, count)), alpha
    )


class TestVariance:
    def test_of_four_values_by_hand(self) -> None:
        # mean 0.25, squares 1 + 0.25 + 0 + 0.25, so 0.375 - 0.0625
        values = np.array([1.0, 0.5, 0.0, -0.5])
        found, (low, high) = variance(
            UNIT, exact(values), 0.0, (0.25, 0.25), distributions(0, 0, 0, 0.05)
        )
        assert found == pytest.approx(0.3125, abs=1e-12)
        assert low == pytest.approx(0.3125, abs=1e-6)
        assert low < 0.3125 < high < 0.3125 + 1e-6

    def test_with_the_other_divisor(self) -> None:
        values = np.array([1.0, 0.5, 0.0, -0.5])
        found, (low, high) = variance(
            SAMPLE, exact(values), 0.0, (0.25, 0.25), distributions(0, 0, 0, 0.05)
        )
        assert found == pytest.approx(1.25 / 3, abs=1e-12)
        assert low < 1.25 / 3 < high < 1.25 / 3 + 1e-6

    def test_with_the_other_divisor_it_may_be_twice_as_large(self) -> None:
        # -1 and 1: squares 2, divided by 1; no population of values within 1 varies by more than 1
        values = np.array([-1.0, 1.0])
        found, (low, high) = variance(
            SAMPLE, exact(values), 0.0, (0.0, 0.0), distributions(0, 0, 0, 0.05)
        )
        assert found == pytest.approx(2, abs=1e-6)
        assert low <= 2 <= high
        # as much is possible where nothing is told
        assert variance(SAMPLE, exact(values), 0.0, (0.0, 0.0), distributions(1, 1, 3, 0.05))[
            1
        ] == (0, 2)

    def test_with_noise_in_the_squares_alone_by_hand(self) -> None:
        # the mean is known: V = released / 100 with a quantile of 1.96 * 2 / 100 to either side
        values = np.linspace(-1, 1, 100)
        found, (low, high) = variance(
            UNIT, exact(values), 0.0, (0.0, 0.0), distributions(2, 0, 0, 0.05)
        )
        assert found == pytest.approx(values.var(), abs=1e-12)
        half = 1.959964 * 2 / 100
        assert (low, high) == pytest.approx((values.var() - half, values.var() + half), abs=1e-6)

    def test_with_noise_in_all_three_by_hand(self) -> None:
        # t = 0.25 + 0.5 and V = 0.05: (0.75 - V) e_C, 2 * 0.5 e_T, e_S; count 1,000 +- 3.92
        values = 0.5 + np.where(np.arange(1_000) % 2, 1, -1) * math.sqrt(0.05)
        _, (low, high) = variance(
            UNIT, exact(values), 0.0, (0.5, 0.5), distributions(3, 4, 2, 0.05)
        )
        half = 1.959964 * math.hypot(3, 4, 0.7 * 2) / 1_000
        assert (high - low) / 2 == pytest.approx(half, rel=5e-3)

    @pytest.mark.parametrize("wanted", [UNIT, SAMPLE])
    @pytest.mark.parametrize("family", ["gaussian", "laplace"])
    @pytest.mark.parametrize("origin", [0.0, 0.3])
    def test_any_origin_of_the_sums_gives_the_same_value(
        self, wanted: Variance, family: str, origin: float
    ) -> None:
        values = np.random.default_rng(1).uniform(-1, 1, 500)
        at = values.mean()
        found, (low, high) = variance(
            wanted,
            exact(values, origin),
            origin,
            (at, at),
            distributions(1e-9, 1e-9, 1e-9, 0.1, family),
        )
        truth = values.var(ddof=wanted.sample)
        assert found == pytest.approx(truth, rel=1e-9)
        assert low <= truth <= high <= truth + 1e-5

    @pytest.mark.parametrize("wanted", [UNIT, SAMPLE])
    @pytest.mark.parametrize("family", ["gaussian", "laplace"])
    def test_is_possible_whatever_was_released(self, wanted: Variance, family: str) -> None:
        rng = np.random.default_rng(2)
        for _ in range(2_000):
            size = 10 ** rng.uniform(-1, 3)
            sums = Sums(*(float(x) for x in rng.normal(0, size, 3)))
            scales = 10 ** rng.uniform(-2, 2, 3)
            ends = sorted(rng.uniform(-1, 1, 2))
            found, (low, high) = variance(
                wanted, sums, float(rng.uniform(-1, 1)), (ends[0], ends[1]),
                distributions(*map(float, scales), 0.05, family),
            )  # fmt: skip
            assert 0 <= low <= high <= (2 if wanted.sample else 1)
            assert found is None or low <= found <= high

    def test_a_small_group_gives_all_that_is_possible(self) -> None:
        values = np.zeros(5)
        found, pair = variance(UNIT, exact(values), 0.0, (-1.0, 1.0), distributions(1, 1, 3, 0.05))
        assert found is None
        assert pair == (0.0, 1.0)
        # a mean of at least 0.5 leaves no more than 1 - 0.25
        assert variance(UNIT, exact(values), 0.0, (0.5, 1.0), distributions(1, 1, 3, 0.05))[1] == (
            0.0,
            0.75,
        )

    @pytest.mark.parametrize(
        ("family", "shape", "wanted"),
        [
            ("gaussian", "even", UNIT),
            ("gaussian", "skewed", SAMPLE),
            ("gaussian", "same", UNIT),
            ("laplace", "even", SAMPLE),
            ("laplace", "skewed", UNIT),
            ("laplace", "same", SAMPLE),
        ],
    )
    def test_intervals_hold_and_would_not_with_wider_noise(
        self,
        family: str,
        shape: str,
        wanted: Variance,
    ) -> None:
        # noise that is five times as wide as it says must be found, where one of a constant holds
        # in 0.6 of all samples at most
        rng = np.random.default_rng(3)
        values = {
            "even": rng.uniform(-1, 1, 300),
            "skewed": rng.beta(0.5, 5, 300) * 2 - 1,
            "same": np.full(300, 0.6),
        }[shape]
        truth, alpha = values.var(ddof=wanted.sample), 0.1
        scales, sums = (6.0, 8.0, 5.0), exact(values, 0.1)
        noise = distributions(*scales, alpha / 2, family)
        draw = rng.normal if family == "gaussian" else rng.laplace

        def hits(wrong: float) -> Iterator[bool]:
            while True:
                s, t, c = (float(draw(0, scale * wrong)) for scale in scales)
                released = Sums(sums.square + s, sums.total + t, sums.count + c)
                mean = mean_around_zero(
                    released.total, released.count, noise.total, noise.count, alpha / 2
                )
                ends = 0.1 + mean[0], 0.1 + mean[1]
                _, (low, high) = variance(wanted, released, 0.1, ends, noise)
                yield low <= truth <= high

        assert decided(hits(1.0), 1 - alpha, 0.6)
        assert not decided(hits(5.0), 1 - alpha, 0.6)

    def test_is_narrower_than_a_box_of_means(self) -> None:
        # mean in [m, M] and mean square in [q, Q] alone would give Q - min m^2 down to q - max m^2
        values = np.random.default_rng(4).normal(-0.4, 0.3, 5_000).clip(-1, 1)
        noise, alpha = distributions(40, 50, 20, 0.025), 0.025
        sums = exact(values)
        mean = mean_around_zero(sums.total, sums.count, noise.total, noise.count, alpha)
        square = mean_around_zero(sums.square, sums.count, noise.square, noise.count, alpha)
        box = square[1] - mean[1] ** 2 - (square[0] - mean[0] ** 2)
        _, (low, high) = variance(UNIT, sums, 0.0, mean, noise)
        assert high - low < 0.85 * box


class TestLaplaceQuantile:
    @pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-6])
    def test_of_one_and_two_is_the_known_one(self, alpha: float) -> None:
        assert laplace_quantile([3.0], alpha) == pytest.approx(-3 * math.log(alpha), rel=1e-9)
        expected = sum_quantile(
            NoiseDistribution("laplace", 3.0), NoiseDistribution("laplace", 1.0), alpha
        )
        assert laplace_quantile([3.0, 1.0, 0.0], alpha) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("scales", [(1, 1, 1), (1, 1.0001, 3), (1, 1e-3, 1e-9), (2, 5, 1)])
    def test_is_reached_as_often_as_said(
        self, scales: tuple[float, ...], size: Callable[[int], int], equals: Test
    ) -> None:
        rng = np.random.default_rng(5)
        drawn = sum(rng.laplace(0, scale, size(20_000)) for scale in scales)
        assert equals(np.abs(drawn) > laplace_quantile(scales, 0.1), 0.1)

    def test_of_equal_scales_is_a_little_above_the_exact_one(self) -> None:
        # |X| of three: the density is a mixture of gammas; P(|X| > q) = e^-q (1 + 5q/8 + q^2/8)
        found = laplace_quantile([1, 1, 1], 0.05)
        tail = math.exp(-found) * (1 + 5 * found / 8 + found**2 / 8)
        assert 0.05 * 0.97 < tail <= 0.05


class TestMeasure:
    @pytest.mark.parametrize(
        ("kind", "origin", "shift", "reach"),
        [
            (dpnb.Integer(0, 10), 5, 12, 13),
            (dpnb.Integer(17, 90), 53.5, 666.125, 666.125),
            (dpnb.Integer(-4, 4), 0, 8, 8),
            (dpnb.Real(0, 100), 50, 1250, 1250),
        ],
    )
    def test_squares_are_centred_twice(
        self, kind: Any, origin: float, shift: float, reach: float
    ) -> None:
        schema = dpnb.Schema({"x": kind})
        (column,) = parse("SELECT VAR_POP(x) FROM t", {"t": dpnb.Table("t", None, schema)}).derived
        formula = column.formula
        assert isinstance(formula, Variance)
        assert (formula.origin, formula.shift) == (Fraction(origin), Fraction(shift))
        value = column.leaves[formula.square].value
        assert value is not None
        measure = sum_of(value, schema, centred=False)
        assert float(measure.sensitivity * measure.step) == pytest.approx(reach, rel=1e-6)

    @pytest.mark.parametrize("kind", [dpnb.Integer(0, 7), dpnb.Integer(0, 10), dpnb.Real(-1, 5.3)])
    def test_no_row_adds_more_than_the_sensitivity(self, kind: Any) -> None:
        from dpnb.engines.duckdb import DuckDBEngine
        from dpnb.views.view import scan_of, views_of

        # every row is a group of its own
        values = [*np.linspace(kind.low - 1, kind.high + 1, 23), 1e300, math.nan]
        schema = dpnb.Schema({"i": dpnb.Integer(0, len(values) - 1), "x": kind})
        frame = pd.DataFrame({"i": range(len(values)), "x": values})
        table = dpnb.Table("t", frame, schema)
        query = parse("SELECT i, STDDEV(x) FROM t GROUP BY i", {"t": table})
        (column,) = query.derived
        engine = DuckDBEngine(table)
        for leaf in column.leaves:
            for view in views_of(leaf, query, 1).values():
                exact_vector = engine.measure(scan_of(query.where, {"v": view})).reveal(0)
                assert len(exact_vector) == len(values)
                assert np.abs(exact_vector).max() <= view.norm
        engine.close()


class TestAnswer:
    def test_without_noise_it_is_what_duckdb_says(self) -> None:
        adult = dpnb.datasets.adult()
        rows = duckdb.read_parquet(str(adult.source))
        columns = (
            "sex, VAR_POP(age) AS a, VARIANCE(age) AS b, STDDEV(hours_per_week) AS c, "
            "STDDEV_POP(capital_gain) AS d, VAR_SAMP(age + hours_per_week) AS e, "
            "STDDEV_SAMP(age) FILTER (WHERE age > 40) / AVG(age) AS f"
        )
        exact = rows.query("rows", f"SELECT {columns} FROM rows GROUP BY sex ORDER BY sex").df()
        expected = exact.set_index("sex")
        with dpnb.Session(adult, budget=dpnb.Budget(rho=1), noise=NoNoise()) as session:
            found = session.query(f"SELECT {columns} FROM adult GROUP BY sex", rho=0.9)
        frame = found.to_frame().set_index("sex")
        for name in expected:
            assert list(frame[name]) == pytest.approx(list(expected[name]), rel=1e-5), name
            assert (frame[f"{name}_low"] <= expected[name]).all()
            assert (frame[f"{name}_high"] >= expected[name]).all()

    def test_all_intervals_of_an_answer_hold_together(
        self, frame: pd.DataFrame, crowded: Crowded, reaches: Test
    ) -> None:
        # noise four times as wide as it says must be found
        groups = frame.groupby("region")
        exact_values = pd.DataFrame(
            {
                "v": groups["score"].var(ddof=0), "s": groups["gain"].var(),
                "d": groups["score"].std(), "p": groups["gain"].std(ddof=0),
            }
        )  # fmt: skip
        # two means and four variances; each column rests on one of either
        hits = crowded(SQL, exact_values, 0.8, [2 / 6] * 4, rho=0.5)
        assert reaches(hits(1.0), 0.8)
        assert not reaches(hits(4.0), 0.8)

    @pytest.mark.parametrize("budget", [{"rho": 100}, {"epsilon": 100}])
    def test_empty_groups_are_told_to_be_small(self, opened: Open, budget: dict[str, Any]) -> None:
        level = {"rho": 0.5} if "rho" in budget else {"epsilon": 2}
        found = opened(**budget).query(SQL, **level)
        row = found.to_frame().set_index("region").loc["west"]
        assert math.isnan(row["v"])
        assert row["v_low"] == 0
        assert row["v_high"] <= 25
        assert 0 == row["d_low"] <= row["d_high"] <= math.sqrt(50) * 1.000001
        assert "too few rows to tell" in repr(found)
        assert "nan" not in repr(found).casefold()
        assert "nan" not in found._repr_html_().casefold()

    @pytest.mark.parametrize("budget", [{"rho": 100}, {"epsilon": 100}])
    def test_every_rendering_and_record_shows_it(
        self, opened: Open, budget: dict[str, Any]
    ) -> None:
        level = {"rho": 0.5} if "rho" in budget else {"epsilon": 2}
        found = opened(**budget).query(SQL, **level)
        data = json.loads(json.dumps(found.to_dict()))
        assert Answer.from_dict(data) == found
        assert repr(Answer.from_dict(data)) == repr(found)
        assert found.to_markdown().count("|") > 20
        assert found.plot() is not None
        assert found.widget().data["aggregates"][0]["alias"] == "v"
        laws_ = found.record()["noise"]
        assert laws_[0]["formula"] == "squares / n + 12 - (mean - 5)^2"
        assert laws_[2]["formula"] == "SQRT((squares / n + 12 - (mean - 5)^2) * n / (n - 1))"
        assert json.dumps(found.record())

    def test_of_two_groups_are_compared_by_their_intervals(self, opened: Open) -> None:
        found = opened().query(SQL, rho=5)
        question = found.compare("north", "south", "s")
        shown = found.to_frame().set_index("region")
        expected = shown["s_low"]["north"] - shown["s_high"]["south"]
        assert question.low == pytest.approx(expected)

    def test_share_views_with_the_average(self, opened: Open) -> None:
        session = opened()
        session.query("SELECT region, AVG(score), STDDEV(score) FROM people GROUP BY region", rho=1)
        again = session.query("SELECT region, VAR_POP(score) FROM people GROUP BY region", rho=1)
        assert again.spent.rho == 0

    def test_spends_the_level_whatever_is_asked(self, opened: Open) -> None:
        assert float(opened().query(SQL, rho=0.5).spent.rho) == pytest.approx(0.5)
        price = opened().price(SQL, rho=0.5)
        assert float(price.spent.rho) == pytest.approx(0.5)
        assert price.widths[0] == ("v", None, None)

    def test_what_formulas_cannot_have_it_cannot_have(self, opened: Open) -> None:
        session = opened()
        with pytest.raises(RequestError, match="cannot be fixed in advance"):
            session.query(SQL, error=1, rows=100)
        with pytest.raises(RequestError, match="only counts, sums and averages can"):
            session.infer(SQL)
        with pytest.raises(RequestError, match="cannot have computed columns"):
            session.decide(
                "SELECT region, VAR_POP(score) FROM people GROUP BY region HAVING COUNT(*) > 5"
            )
        found = session.query(SQL, rho=1)
        with pytest.raises(RequestError, match="variance or a quantile, which cannot be resampled"):
            found.bootstrap("v")
        with pytest.raises(RequestError, match="is a variance, which cannot"):
            session.explain(found.compare("north", "south", "v"), anyway=True)

    def test_intervals_each_on_their_own_are_narrower(self, opened: Open) -> None:
        each, together = (
            opened().query(SQL, rho=0.5, intervals=word).to_frame()
            for word in ("each", "simultaneous")
        )
        assert (each["v_high"] - each["v_low"] <= together["v_high"] - together["v_low"]).all()


def test_the_oracle_of_three_equal_laplace_noises_is_right() -> None:
    rng = np.random.default_rng(6)
    drawn = np.abs(rng.laplace(0, 1, (200_000, 3)).sum(axis=1))
    for q in (1.0, 3.0, 5.0):
        tail = math.exp(-q) * (1 + 5 * q / 8 + q**2 / 8)
        assert stats.binomtest(int((drawn > q).sum()), len(drawn), tail).pvalue > 1e-9
