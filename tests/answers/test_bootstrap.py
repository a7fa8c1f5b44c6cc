"""Bootstrap intervals: approximate, said to be so, and about as sure as they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpnb
from dpnb.answers.answer import Answer
from dpnb.answers.bootstrap import bootstrap
from dpnb.display.text import CONDITIONAL
from dpnb.errors import RequestError
from dpnb.estimation.estimates import derived
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.results import rebilled
from dpnb.sql.formulas import Combined, Leaf
from tests.kit.noise import ContinuousNoise

Open = Callable[..., dpnb.Session]
MEAN = "SELECT region, COUNT(*) AS n, AVG(gain) AS m FROM people GROUP BY region"
RATIO = "SELECT g, SUM(x) / COUNT(*) AS q FROM t GROUP BY g"


@pytest.fixture(scope="module")
def answer(table: dpnb.Table) -> Answer:
    """Counts and means of four regions, one of them without people."""
    budget = dpnb.Budget(rho=1)
    with dpnb.Session(table, budget=budget, noise=ContinuousNoise()) as session:
        return session.query(MEAN, rho=1)


class TestCoverage:
    @pytest.mark.parametrize(
        ("sql", "exact"),
        [
            (RATIO, 0.5),
            ("SELECT g, AVG(x) AS q FROM t GROUP BY g", 0.5),
            ("SELECT g, AVG(x) - AVG(x) FILTER (WHERE x >= 0) AS q FROM t GROUP BY g", 0.0),
            ("SELECT g, LN(COUNT(*)) - LN(SUM(x)) AS q FROM t GROUP BY g", math.log(2)),
        ],
    )
    @pytest.mark.parametrize("budget", [{"rho": 1000, "delta": 1e-6}, {"epsilon": 1000}])
    def test_is_near_the_nominal_level(
        self,
        opened: Open,
        even: Callable[[int, int], dpnb.Table],
        monkeypatch: pytest.MonkeyPatch,
        budget: dict[str, float],
        sql: str,
        exact: float,
    ) -> None:
        # the answer's own intervals of averages are not looked at, and take long with Laplace noise
        monkeypatch.setattr(
            "dpnb.estimation.estimates.mean_around_zero", lambda *given: (-1.0, 1.0)
        )
        session = opened(even(1_500, 60), seed=4, **budget)
        level = {"rho": 1} if "rho" in budget else {"epsilon": 2}
        answer = session.query(sql, **level, intervals="each")
        found = answer.bootstrap(draws=600).to_frame()
        hits = (found["q_low"] <= exact) & (found["q_high"] >= exact)
        known = found["q"].notna()
        assert known.mean() > 0.99
        assert 0.92 <= hits[known].mean() <= 0.98

    def test_half_the_noise_is_not_enough(
        self, opened: Open, even: Callable[[int, int], dpnb.Table]
    ) -> None:
        session = opened(even(1_500, 60), seed=4, scale=2)
        found = session.query(RATIO, rho=1).bootstrap(draws=400).to_frame()
        hits = (found["q_low"] <= 0.5) & (found["q_high"] >= 0.5)
        assert hits.mean() < 0.85

    def test_is_narrower_than_interval_arithmetic(
        self, opened: Open, even: Callable[[int, int], dpnb.Table]
    ) -> None:
        answer = opened(even(50, 60)).query(RATIO, rho=1, intervals="each")
        own, other = answer.to_frame(), answer.bootstrap().to_frame()
        widths = [(f["q_high"] - f["q_low"]).mean() for f in (other, own)]
        assert widths[0] < widths[1]


class TestResult:
    def test_one_released_vector_in_two_leaves_is_drawn_once(self, opened: Open) -> None:
        # as COUNT(score) beside the count behind AVG(score): their noise is one, and cancels here
        answer = opened().query(
            "SELECT region, COUNT(score) AS n FROM people GROUP BY region", rho=1
        )
        leaf = answer.estimates[0]
        formula = Combined("-", Leaf(0), Leaf(1))
        alike = derived("d", formula, [leaf, replace(leaf, alias="other")])
        found = replace(answer, estimates=(alike,)).bootstrap()
        assert found.low == found.high == (0.0,) * 4
        noise = replace(leaf.count_distribution or NoiseDistribution("gaussian", 1.0), scale=99.0)
        other = derived("d", formula, [leaf, replace(leaf, count_distribution=noise)])
        found = replace(answer, estimates=(other,)).bootstrap()
        assert all(low < -50 and high > 50 for low, high in zip(found.low, found.high, strict=True))

    def test_percentiles_are_corrected_for_twice_the_bias(self, opened: Open) -> None:
        # (3 + 4 e)^2, of which the share Phi(0) - Phi(-1.5) lies below the released 9
        answer = opened().query(
            "SELECT region, COUNT(score) AS n FROM people GROUP BY region", rho=1
        )
        leaf = replace(
            answer.estimates[0],
            count=(3.0,) * 4,
            estimate=(3.0,) * 4,
            before=None,
            count_distribution=NoiseDistribution("gaussian", 4),
        )
        squared = derived("d", Combined("*", Leaf(0), Leaf(0)), [leaf])
        found = replace(answer, estimates=(squared,)).bootstrap(draws=100_000)
        twice = 2 * stats.norm.ppf(0.5 - stats.norm.cdf(-1.5))
        ends = stats.norm.cdf(twice + stats.norm.ppf([0.025, 0.975]))
        low, high = 16 * stats.ncx2.ppf(ends, 1, 9 / 16)
        assert found.high == pytest.approx((high,) * 4, rel=0.02)
        assert found.low == pytest.approx((low,) * 4, abs=0.01)

    def test_rows_follow_the_answer(self, opened: Open) -> None:
        answer = opened().query(f"{MEAN} ORDER BY n DESC LIMIT 2", rho=1)
        found = answer.bootstrap().to_frame()
        assert list(found.columns) == ["region", "m", "m_low", "m_high"]
        assert list(found["region"]) == list(answer.to_frame()["region"])
        assert list(found["m"]) == list(answer.to_frame()["m"])

    def test_too_few_rows(self, answer: Answer) -> None:
        found = answer.bootstrap()
        assert found.low[3] is None
        assert found.to_frame().loc[3, ["m", "m_low", "m_high"]].isna().all()
        assert "too few rows to tell" in repr(found)

    def test_says_that_it_is_approximate(self, answer: Answer) -> None:
        found = answer.bootstrap()
        for shown in (repr(found), found._repr_html_()):
            assert "Approximate: they may miss the exact value more often than stated" in shown
            assert "each on its own" in shown
            assert "NOT PRIVATE" in shown
        assert "NOT PRIVATE" not in repr(replace(found, stamp=""))

    def test_a_picked_level_is_told(self, answer: Answer) -> None:
        assert CONDITIONAL not in repr(answer.bootstrap())
        found = rebilled(answer, conditional=True).bootstrap()
        assert found.conditional
        for shown in (repr(found), found._repr_html_()):
            assert CONDITIONAL in shown

    def test_the_same_seed_gives_the_same_numbers(self, answer: Answer) -> None:
        assert answer.bootstrap(seed=5) == answer.bootstrap("m", seed=5)
        assert answer.bootstrap(seed=5) != answer.bootstrap(seed=6)

    def test_costs_nothing(self, opened: Open) -> None:
        session = opened()
        answer = session.query(MEAN, rho=1)
        answer.bootstrap()
        assert session.budget.spent.rho == 1

    def test_a_statement_without_groups(self, opened: Open) -> None:
        found = opened().query("SELECT AVG(gain) AS m FROM people", rho=1).bootstrap()
        assert list(found.to_frame().columns) == ["m", "m_low", "m_high"]
        assert "all rows" in repr(found)


class TestRefusals:
    def test_counts_and_sums_have_exact_intervals(self, answer: Answer, opened: Open) -> None:
        with pytest.raises(RequestError, match="'n' is already exact"):
            answer.bootstrap("n")
        only = opened().query("SELECT COUNT(*) AS n FROM people", rho=1)
        with pytest.raises(RequestError, match="already exact"):
            only.bootstrap()

    @pytest.mark.parametrize("draws", [0, 99, 10**6, 200.5, "many", None, True])
    def test_draws(self, answer: Answer, draws: object) -> None:
        with pytest.raises(RequestError, match="draws must be a whole number"):
            bootstrap(answer, None, draws, 0)

    @pytest.mark.parametrize("seed", [-1, 0.5, "a", None])
    def test_seed(self, answer: Answer, seed: object) -> None:
        with pytest.raises(RequestError, match="seed must be a whole number"):
            bootstrap(answer, None, 1_000, seed)

    def test_numpy_numbers_are_numbers(self, answer: Answer) -> None:
        assert answer.bootstrap(draws=np.int64(200)).draws == 200

    def test_unknown_names(self, answer: Answer) -> None:
        with pytest.raises(RequestError, match="no aggregate"):
            answer.bootstrap("nope")
