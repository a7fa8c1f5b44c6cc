"""Quantiles: the exact value is in the interval as often as said, whichever definition is meant."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.answers.answer import Answer
from dpnb.errors import RequestError, SqlError
from dpnb.estimation.estimates import Estimates, counted
from dpnb.estimation.noise import Mixture
from dpnb.estimation.quantile import edges, margins_of_error, quantiles
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.schema.columns import Integer, Real
from dpnb.sql.formulas import Quantile
from tests.kit.noise import NoNoise

Open = Callable[..., dpnb.Session]
Test = Callable[[object, float], bool]
Crowded = Callable[..., Callable[[float], np.ndarray]]

MEDIAN = Quantile(0, Fraction(1, 2))
SQL = (
    "SELECT region, MEDIAN(score) AS m, QUANTILE(score, 0.9) AS high, "
    "QUANTILE(score, 0.75) - QUANTILE(score, 0.25) AS spread FROM people GROUP BY region"
)
FIVE = Integer(1, 5)


def cells(counts: Any, scale: float, family: Any = "gaussian") -> Estimates:
    return counted(
        "cells", "x", [float(count) for count in counts], NoiseDistribution(family, scale), 1, 0.05
    )


def one(
    counts: Any, scale: float, wanted: Quantile = MEDIAN, kind: Any = FIVE, alpha: float = 0.05
) -> tuple[float | None, tuple[float, float]]:
    (value,), (ends,) = quantiles(wanted, cells(counts, scale), kind, alpha)
    return value, ends


class TestQuantiles:
    def test_by_hand(self) -> None:
        # 100 rows, cumulative 10, 40, 75, 95, 100: less 50 it is -40, -10, 25, 45, 50
        counts = [10, 30, 35, 20, 5]
        assert one(counts, 1e-9) == (3, (3, 3))
        # h = 1.96 * 0.5 * sqrt(5) * scale = 2.19 scale
        assert one(counts, 4.0) == (3, (3, 3))
        assert one(counts, 5.0) == (3, (2, 3))
        assert one(counts, 11.0) == (3, (2, 3))
        assert one(counts, 12.0) == (3, (2, 4))
        # the room for interpolated quantiles: 39.45 + 0.5 is below 40
        assert one(counts, 18.0) == (3, (2, 4))
        assert one(counts, 19.0) == (3, (1, 4))

    def test_of_another_share_by_hand(self) -> None:
        # less 90: -80, -50, -15, 5, 10; the cut after 3 has variance 0.01 * 3 + 0.81 * 2
        counts, wanted = [10, 30, 35, 20, 5], Quantile(0, Fraction(9, 10))
        half = [0.1 * 0.1 * k + 0.9 * 0.9 * (5 - k) for k in range(1, 6)]
        expected = 1.959964 * np.sqrt(half)
        assert margins_of_error(0.9, 5, NoiseDistribution("gaussian", 1.0), 0.05) == pytest.approx(
            expected, rel=1e-6
        )
        assert one(counts, 1.0, wanted) == (4, (4, 4))
        assert one(counts, 5.0, wanted) == (4, (4, 5))
        assert one(counts, 6.0, wanted) == (4, (3, 5))

    def test_where_the_share_is_met_exactly_both_values_are_inside(self) -> None:
        # half the rows are 1 and half are 4: PERCENTILE_DISC says 1, PERCENTILE_CONT says 2.5
        assert one([50, 0, 0, 50, 0], 1e-9) == (1, (1, 4))

    @pytest.mark.parametrize("share", ["0.1", "0.25", "0.5", "0.77", "0.95"])
    def test_without_noise_the_interval_holds_both_definitions(self, share: str) -> None:
        rng = np.random.default_rng(7)
        wanted = Quantile(0, Fraction(share))
        for _ in range(200):
            rows = rng.integers(1, 6, rng.integers(1, 12))
            value, (low, high) = one(np.bincount(rows, minlength=6)[1:], 1e-9, wanted)
            discrete = np.sort(rows)[math.ceil(Fraction(share) * len(rows)) - 1]
            assert value == discrete
            assert low <= np.quantile(rows, float(share)) <= high
            assert low <= discrete <= high

    def test_groups_do_not_share_anything(self) -> None:
        values, ends = quantiles(MEDIAN, cells([9, 0, 0, 0, 0, 0, 0, 0, 0, 9], 1e-9), FIVE, 0.05)
        assert values == [1, 5]
        assert ends == [(1, 1), (5, 5)]

    def test_a_small_group_may_have_any_declared_value(self) -> None:
        assert one([0, 0, 0, 0, 0], 1.0) == (None, (1, 5))
        # the quantile of five noises is 4.4
        assert one([0, 4, 0, 0, 0], 1.0) == (None, (1, 5))
        assert one([0, 5, 0, 0, 0], 1.0) == (2, (1, 5))

    def test_bins_give_a_point_inside_and_whole_bins(self) -> None:
        kind = Real(0, 100, bins=[0, 10, 50, 90])
        assert edges(kind) == [(0, 10), (10, 50), (50, 90)]
        # 30 rows below the bin, 40 in it, and half of 100: half way
        assert one([30, 40, 30], 1e-9, kind=kind) == (30, (10, 50))
        whole = Integer(0, 100, bins=[0, 10, 50, 90])
        assert edges(whole) == [(0, 10), (11, 50), (51, 90)]
        value, ends = one([30, 41, 30], 1e-9, kind=whole)
        assert value == 31
        assert ends == (11, 50)

    def test_the_estimate_is_inside_whatever_was_released(self) -> None:
        rng = np.random.default_rng(8)
        for _ in range(2_000):
            wanted = Quantile(0, Fraction(rng.integers(1, 100).item(), 100))
            counts = rng.normal(0, 10 ** rng.uniform(-1, 2), 5) + rng.uniform(-5, 50)
            value, (low, high) = one(counts, 10 ** rng.uniform(-2, 2), wanted)
            assert 1 <= low <= high <= 5
            assert value is None or low <= value <= high

    @pytest.mark.parametrize("family", ["gaussian", "laplace"])
    @pytest.mark.parametrize("share", ["0.2", "0.5", "0.9"])
    def test_intervals_hold_and_would_not_with_wider_noise(
        self, family: Any, share: str, size: Callable[[int], int], reaches: Test, equals: Test
    ) -> None:
        rng = np.random.default_rng(9)
        kind, alpha, scale, groups = Integer(1, 60), 0.1, 10.0, size(3_000)
        exact = rng.integers(5, 15, 60)
        wanted = Quantile(0, Fraction(share))
        truth = 1 + int(np.argmax(np.cumsum(exact) >= float(share) * exact.sum()))
        draw = rng.normal if family == "gaussian" else rng.laplace

        def missed(wrong: float) -> np.ndarray:
            released = np.tile(exact, groups) + draw(0, wrong * scale, 60 * groups)
            _, ends = quantiles(wanted, cells(released, scale, family), kind, alpha)
            return np.array([not low <= truth <= high for low, high in ends])

        # 10 rows in a cell are few beside the noise, so little is lost by whole cells
        right = missed(1.0)
        assert reaches(~right, 1 - alpha)
        assert np.mean(right) > alpha / 4
        assert not reaches(~missed(1.5), 1 - alpha)


class TestHalfWidths:
    def test_of_laplace_noise_are_those_of_the_weighted_sum(self) -> None:
        found = margins_of_error(0.25, 4, NoiseDistribution("laplace", 2.0), 0.05)
        for cut in range(1, 5):
            scales = (1.5,) * cut + (0.5,) * (4 - cut)
            assert found[cut - 1] == pytest.approx(
                Mixture(scales, 0.0).margin_of_error(0.05), rel=1e-9
            )

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
    def test_of_many_cuts_are_never_too_narrow(self, share: float) -> None:
        distribution = NoiseDistribution("laplace", 1.0)
        found = margins_of_error(share, 700, distribution, 0.01)
        for cut in (1, 2, 77, 333, 698, 700):
            scales = (1 - share,) * cut + (share,) * (700 - cut)
            exact = Mixture(scales, 0.0).margin_of_error(0.01)
            assert exact * (1 - 1e-9) <= found[cut - 1] <= 1.3 * exact


class TestAnswer:
    @pytest.mark.parametrize("budget", [{"rho": 1}, {"epsilon": 1}])
    def test_without_noise_it_is_what_duckdb_says(self, budget: dict[str, Any]) -> None:
        adult = dpnb.datasets.adult()
        rows = duckdb.read_parquet(str(adult.source))
        columns = (
            "sex, MEDIAN(hours_per_week) AS a, QUANTILE_DISC(hours_per_week, 0.9) AS b, "
            "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY hours_per_week) AS c, "
            "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY hours_per_week) AS d, "
            "QUANTILE_CONT(hours_per_week, 0.99) FILTER (WHERE age < 30) AS e"
        )
        frame = rows.query("rows", f"SELECT {columns} FROM rows GROUP BY sex ORDER BY sex").df()
        expected = frame.set_index("sex")
        level = dict.fromkeys(budget, 0.9)
        with dpnb.Session(adult, budget=dpnb.Budget(**budget), noise=NoNoise()) as session:
            found = session.query(f"SELECT {columns} FROM adult GROUP BY sex", **level)
        shown = found.to_frame().set_index("sex")
        for name in expected:
            assert list(shown[name]) == list(expected[name]), name
            assert (shown[f"{name}_low"] <= expected[name]).all()
            assert (shown[f"{name}_high"] >= expected[name]).all()

    @pytest.mark.parametrize("wanted", [{"rho": 0.02}, {"epsilon": 0.3}])
    def test_all_intervals_of_an_answer_hold_together(
        self, frame: pd.DataFrame, crowded: Crowded, reaches: Test, wanted: dict[str, float]
    ) -> None:
        # noise eight times as wide as it says must be found
        groups = frame.groupby("region")["score"]
        exact = pd.DataFrame(
            {
                "m": groups.median(), "high": groups.quantile(0.9),
                "spread": groups.quantile(0.75) - groups.quantile(0.25),
            }
        )  # fmt: skip
        # four quantiles, two of them in one column
        hits = crowded(SQL, exact, 0.8, [1 / 4, 1 / 4, 2 / 4], **wanted)
        assert reaches(hits(1.0), 0.8)
        assert not reaches(hits(8.0), 0.8)

    @pytest.mark.parametrize("budget", [{"rho": 100}, {"epsilon": 100}])
    def test_empty_groups_are_told_to_be_small(self, opened: Open, budget: dict[str, Any]) -> None:
        level = {"rho": 0.5} if "rho" in budget else {"epsilon": 2}
        found = opened(**budget).query(SQL, **level)
        row = found.to_frame().set_index("region").loc["west"]
        assert math.isnan(row["m"])
        assert (row["m_low"], row["m_high"]) == (0, 10)
        assert row["spread_low"] <= -10
        assert "too few rows to tell" in repr(found)
        assert "nan" not in (repr(found) + found._repr_html_()).casefold()

    def test_every_rendering_and_record_shows_it(self, opened: Open) -> None:
        found = opened().query(SQL, rho=2)
        data = json.loads(json.dumps(found.to_dict()))
        assert Answer.from_dict(data) == found
        assert repr(Answer.from_dict(data)) == repr(found)
        row = found.estimates[0]
        # whole numbers are shown as such
        assert row.text(0) == f"{row.estimate[0]:.0f}"
        assert row.interval_text(0) == f"{row.low[0]:.0f} to {row.high[0]:.0f}"
        assert row.text(0) in found._repr_html_()
        assert found.plot() is not None
        assert found.widget().data["aggregates"][1]["alias"] == "high"
        formulas = [distribution["formula"] for distribution in found.record()["noise"]]
        assert formulas == [
            "QUANTILE(cells_score, 0.5)",
            "QUANTILE(cells_score, 0.9)",
            "QUANTILE(cells_score, 0.75) - QUANTILE(cells_score, 0.25)",
        ]
        assert json.dumps(found.record())

    def test_rests_on_the_counts_of_group_by(self, opened: Open) -> None:
        session = opened()
        asked = session.query(SQL, rho=0.5)
        assert float(asked.spent.rho) == pytest.approx(0.5)
        again = "SELECT score, region, COUNT(*) FROM people GROUP BY score, region"
        assert session.query(again, rho=0.5).spent.rho == 0
        assert session.query("SELECT region, MEDIAN(score) FROM people GROUP BY region",
                             rho=0.4).spent.rho == 0  # fmt: skip

    def test_stands_beside_other_results(self, opened: Open) -> None:
        sql = (
            "SELECT kind, region, COUNT(*) AS n, MEDIAN(score) AS m, AVG(gain) AS a, "
            "MEDIAN(score) FILTER (WHERE gain > 50) AS f FROM people WHERE score > 2 "
            "GROUP BY region, kind ORDER BY m DESC LIMIT 5"
        )
        found = opened(scale=0.0).query(sql, rho=5).to_frame()
        assert len(found) == 5
        assert list(found["m"]) == sorted(found["m"], reverse=True)

    def test_in_the_order_of_the_groups_of_the_statement(
        self, opened: Open, frame: pd.DataFrame
    ) -> None:
        # views have their keys sorted: gain, kind, region, score; the statement has not
        sql = "SELECT region, kind, QUANTILE(score, 0.3) AS q FROM people GROUP BY region, kind"
        found = opened(scale=0.0).query(sql, rho=5).to_frame().set_index(["region", "kind"])
        for group, rows in frame.groupby(["region", "kind"]):
            expected = np.sort(rows["score"])[math.ceil(Fraction(3, 10) * len(rows)) - 1]
            assert found.loc[group]["q"] == expected

    def test_declared_views_answer_it(self, table: dpnb.Table, frame: pd.DataFrame) -> None:
        curator = dpnb.Curator(
            [table], budget=dpnb.Budget(rho=5, delta=1e-6), analysts={"a": 1}, noise=NoNoise()
        )
        curator.add_view(["kind", "region", "score"])
        session = curator.session("a")
        found = session.query(
            "SELECT region, MEDIAN(score) AS m FROM people GROUP BY region", rho=1
        )
        assert len(found.levels) == 1
        shown = found.to_frame().set_index("region")
        for region, rows in frame.groupby("region"):
            assert shown.loc[region]["m"] == np.sort(rows["score"])[math.ceil(len(rows) / 2) - 1]
            assert (
                shown.loc[region]["m_low"] <= rows["score"].median() <= shown.loc[region]["m_high"]
            )
        curator.close()

    def test_risk_sees_one_row_in_one_cell(self, table: dpnb.Table) -> None:
        curator = dpnb.Curator([table], budget=dpnb.Budget(rho=5, delta=1e-6), noise=NoNoise())
        profile = curator.risk("SELECT region, MEDIAN(score) AS m FROM people GROUP BY region")
        assert profile.top(1).to_frame().iloc[0, -1] == 900
        sql = "SELECT region, MEDIAN(score) AS m FROM people GROUP BY region"
        with pytest.raises(RequestError, match="not supported for quantiles"):
            profile.signed_losses(curator.session().query(sql, rho=1))
        curator.close()

    def test_of_two_groups_are_compared_by_their_intervals(self, opened: Open) -> None:
        found = opened().query(SQL, rho=5)
        question = found.compare("north", "south", "m")
        shown = found.to_frame().set_index("region")
        assert question.low == shown["m_low"]["north"] - shown["m_high"]["south"]

    def test_what_formulas_cannot_have_it_cannot_have(self, opened: Open) -> None:
        session = opened()
        with pytest.raises(RequestError, match="cannot be fixed in advance"):
            session.query(SQL, error=1)
        with pytest.raises(RequestError, match="only counts, sums and averages can"):
            session.infer("SELECT MEDIAN(score) FROM people")
        with pytest.raises(SqlError, match="compares a COUNT, SUM or AVG"):
            session.decide("SELECT region FROM people GROUP BY region HAVING MEDIAN(score) > 5")
        found = session.query(SQL, rho=1)
        with pytest.raises(RequestError, match="variance or a quantile, which cannot be resampled"):
            found.bootstrap("spread")
        with pytest.raises(RequestError, match="is a quantile, which cannot"):
            session.explain(found.compare("north", "south", "m"), anyway=True)

    @pytest.mark.parametrize("looks", [1, "any"])
    def test_a_finer_answer_follows_a_coarser_one(self, opened: Open, looks: Any) -> None:
        session = opened()
        first = session.query(SQL, rho=0.01, looks=looks)
        second = session.query(SQL, rho=0.5, looks=looks)
        assert float(second.spent.rho) == pytest.approx(0.49)
        assert second.look == 2
        wide, narrow = (
            found.to_frame()["high_high"] - found.to_frame()["high_low"]
            for found in (first, second)
        )
        assert (narrow <= wide).all()
