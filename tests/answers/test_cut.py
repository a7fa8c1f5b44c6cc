"""What is publicly impossible is cut away from what is shown, and from nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.answers.answer import Answer
from dpnb.answers.inference import Inference
from dpnb.errors import RequestError
from dpnb.estimation.estimates import Intervals, cut
from dpnb.formats import ends_text
from dpnb.sql.functions import Function

Open = Callable[..., dpnb.Session]
INF = math.inf
GROUPS = 630
SHARE = "COUNT(*) FILTER (WHERE kind = 'old') / COUNT(*)"
SMALL = {"rho": {"rho": 0.01}, "epsilon": {"epsilon": 0.2}}
BUDGETS = {"rho": {"rho": 100, "delta": 1e-6}, "epsilon": {"epsilon": 100}}


@pytest.fixture(scope="module")
def sparse() -> dpnb.Table:
    """630 groups; the first ten have 30 rows each, the others none."""
    frame = pd.DataFrame(
        {
            "g": np.repeat(np.arange(10), 30),
            "x": [0, 5, 10] * 100,
            "kind": ["old", "new", "new"] * 100,
        }
    )
    schema = dpnb.Schema(
        {
            "g": dpnb.Integer(0, GROUPS - 1),
            "x": dpnb.Integer(0, 10),
            "kind": dpnb.Category(["old", "new"]),
        }
    )
    return dpnb.Table("t", frame, schema)


@pytest.fixture(scope="module")
def edges() -> dpnb.Table:
    """400 groups of 60 rows, whose sums, shares and means lie at the ends of what is possible."""
    frame = pd.DataFrame({"g": np.repeat(np.arange(400), 60), "kind": "new", "x": 0, "y": -4})
    schema = dpnb.Schema(
        {
            "g": dpnb.Integer(0, 399),
            "kind": dpnb.Category(["old", "new"]),
            "x": dpnb.Integer(0, 10),
            "y": dpnb.Integer(-4, 0),
        }
    )
    return dpnb.Table("t", frame, schema)


class TestCut:
    @pytest.mark.parametrize(
        ("interval", "possible", "expected"),
        [
            ((-3, 5), (0, INF), (0, 5)),
            ((2, 5), (0, INF), (2, 5)),
            ((-9, -5), (0, INF), (0, 2)),
            ((-9, 0), (0, INF), (0, 4.5)),
            ((0.4, 1.7), (0, 1), (0.4, 1)),
            ((1.2, 1.4), (0, 1), (pytest.approx(0.9), 1)),
            ((-9, -5), (0, 1), (0, 1)),
            ((-INF, INF), (0, 1), (0, 1)),
            ((-INF, -2), (0, INF), (0, INF)),
            ((-2, 2), (0, 0), (0, 0)),
            ((3, 4), (0, 0), (0, 0)),
        ],
    )
    def test_is_the_intersection_or_a_margin_of_error_inside(self, interval, possible, expected):
        assert cut(interval, possible) == expected

    def test_whole_numbers_move_inward_only_inside(self):
        assert cut((-3.4, 5.6), (0, INF), whole=True) == (0, 5)
        assert cut((-9.0, -5.5), (0, INF), whole=True) == (0, 1.75)


class TestAnswers:
    SQL = (
        "SELECT g, SUM(x) AS s, COUNT(*) AS n, AVG(x) AS m, "
        "SUM(CASE WHEN kind = 'old' THEN 1 ELSE 0 END) AS c, "
        f"{SHARE} AS share, SUM(x) / COUNT(*) AS mean, 0 - SUM(x) AS minus FROM t GROUP BY g"
    )
    POSSIBLE: ClassVar = {
        "s": (0, INF), "n": (0, INF), "m": (0, 10), "c": (0, INF), "share": (0, 1),
        "mean": (0, 10), "minus": (-INF, 0),
    }  # fmt: skip

    @pytest.mark.parametrize("unit", SMALL)
    def test_nothing_impossible_is_shown(self, opened: Open, sparse: dpnb.Table, unit: str) -> None:
        answer = opened(sparse, **BUDGETS[unit]).query(self.SQL, **SMALL[unit])
        shown, uncut = answer.to_frame(), answer.to_frame(cut=False)
        for alias, (least, most) in self.POSSIBLE.items():
            low, high = shown[f"{alias}_low"], shown[f"{alias}_high"]
            assert ((least <= low) & (low <= high) & (high <= most)).all()
            value, known = shown[alias], shown[alias].notna()
            assert (known <= ((low <= value) & (value <= high))).all()
            # an interval that reaches inside is its intersection with what is possible
            inside = (uncut[f"{alias}_high"] > least) & (uncut[f"{alias}_low"] < most)
            assert (low[inside] >= uncut[f"{alias}_low"][inside]).all()
            assert (high[inside] <= uncut[f"{alias}_high"][inside]).all()
        for alias in ("s", "n", "c"):
            assert (shown[alias] == uncut[alias].clip(lower=0)).all()
            assert uncut[alias].min() < 0
        assert (shown["minus"] == uncut["minus"].clip(upper=0)).all()

    def test_the_sum_of_cut_numbers_is_too_high(self, opened: Open, sparse: dpnb.Table) -> None:
        answer = opened(sparse).query("SELECT g, SUM(x) AS s FROM t GROUP BY g", rho=0.01)
        sd = answer.estimates[0].total_distribution.scale * math.sqrt(GROUPS)
        exact = 10 * 150
        assert answer.to_frame()["s"].sum() - exact > 8 * sd
        assert abs(answer.to_frame(cut=False)["s"].sum() - exact) < 3 * sd

    def test_a_share_that_is_none_is_not_cut_to_one(self, opened: Open) -> None:
        sql = "SELECT COUNT(*) / COUNT(*) FILTER (WHERE kind = 'old') AS r FROM people"
        found = opened().query(sql, rho=10).to_frame()
        assert found["r"][0] > 1.5
        assert found["r_low"][0] >= 1

    def test_totals_and_questions_use_uncut_numbers(self, opened: Open, sparse: dpnb.Table) -> None:
        answer = opened(sparse).query(self.SQL, rho=0.01)
        uncut = answer.to_frame(cut=False)
        pick = int(uncut["s"].idxmin()), int(uncut["s"].idxmax())
        for alias in ("s", "n", "share", "mean"):
            numbers = [uncut[alias][group] for group in pick]
            if any(map(math.isnan, numbers)):
                continue
            question = answer.compare(*pick, alias)
            assert question.estimate == pytest.approx(numbers[0] - numbers[1])
        question = answer.compare({pick[0]: 1, pick[1]: 1}, aggregate="s", constant=1)
        assert question.estimate == pytest.approx(uncut["s"][list(pick)].sum() - 1)

    def test_a_formula_is_computed_from_uncut_numbers(
        self, opened: Open, sparse: dpnb.Table
    ) -> None:
        sql = "SELECT g, COUNT(*) AS n, SUM(x) AS s, COUNT(*) + SUM(x) AS both FROM t GROUP BY g"
        uncut = opened(sparse).query(sql, rho=0.01).to_frame(cut=False)
        assert uncut["both"].to_numpy() == pytest.approx((uncut["n"] + uncut["s"]).to_numpy())
        assert uncut["both"].min() < 0

    def test_an_order_is_of_what_is_shown_then_of_keys_then_of_uncut_numbers(
        self, opened: Open, sparse: dpnb.Table
    ) -> None:
        session = opened(sparse)
        sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n"
        found = session.query(sql, rho=0.01)
        shown, uncut = found.to_frame()["n"], found.to_frame(cut=False)["n"]
        assert shown.is_monotonic_increasing
        assert (shown == 0).sum() > 100
        assert uncut.is_monotonic_increasing
        again = session.query(f"{sql} DESC, g DESC", rho=0.01).to_frame()
        assert again["n"].is_monotonic_decreasing
        assert again["g"][again["n"] == 0].is_monotonic_decreasing

    def test_both_numbers_travel_and_are_stored(self, opened: Open, sparse: dpnb.Table) -> None:
        session = opened(sparse)
        answer = session.query(self.SQL, rho=0.01)
        again = session.query(self.SQL, rho=0.01)
        sent = Answer.from_dict(json.loads(json.dumps(answer.to_dict())))
        for other in (again, sent):
            for way in (True, False):
                pd.testing.assert_frame_equal(other.to_frame(cut=way), answer.to_frame(cut=way))
        assert again.spent.rho == 0
        assert sent == answer
        (ranges,) = (
            one["ranges"] for one in answer.record()["possible"] if one["alias"] == "share"
        )
        assert ranges == [[0.0, 1.0]]

    def test_cut_must_be_a_truth_value(self, opened: Open) -> None:
        answer = opened().query("SELECT COUNT(*) AS n FROM people", rho=1)
        with pytest.raises(RequestError, match="cut must be"):
            answer.to_frame(cut="no")


class TestHistory:
    def test_inferred_numbers_are_cut_too(self, opened: Open, even: Any) -> None:
        session = opened(even(20, 3))
        sql = "SELECT g, SUM(x) AS s FROM t GROUP BY g"
        session.query("SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g", rho=0.01)
        found = session.infer(sql)
        shown, uncut = found.to_frame(), found.to_frame(cut=False)
        assert uncut["s"].min() < 0
        assert shown["s"].tolist() == uncut["s"].clip(lower=0).tolist()
        assert (shown["s_low"] >= 0).all()
        # what follows from them starts from the uncut ones
        low = int(uncut["s"].idxmin())
        assert found.difference(low, 0, "s").value == pytest.approx(uncut["s"][low] - uncut["s"][0])
        sent = Inference.from_dict(json.loads(json.dumps(found.to_dict())))
        pd.testing.assert_frame_equal(sent.to_frame(cut=False), uncut)

    def test_what_is_not_determined_is_at_least_possible(self, opened: Open) -> None:
        session = opened()
        session.query("SELECT COUNT(*) AS n FROM people WHERE region = 'north'", rho=1)
        found = session.infer(
            "SELECT region, COUNT(*) AS n, SUM(score) AS s, AVG(score) AS m FROM people GROUP BY region"
        ).to_frame()
        south = found.set_index("region").loc["south"]
        assert south[["n_low", "s_low", "m_low"]].tolist() == [0, 0, 0]
        assert south[["n_high", "s_high", "m_high"]].tolist() == [INF, INF, 10]

    def test_an_answer_worked_out_from_the_past_is_cut(self, opened: Open) -> None:
        session = opened()
        session.query("SELECT region, SUM(score) AS s FROM people GROUP BY region", rho=0.002)
        past = session.query(
            "SELECT SUM(score) AS s FROM people WHERE region = 'west'", error=1_000
        )
        assert past.origin is not None
        assert past.to_frame()["s_low"][0] == 0
        assert past.to_frame(cut=False)["s_low"][0] < 0

    def test_approximate_intervals_are_cut(self, opened: Open, edges: dpnb.Table) -> None:
        answer = opened(edges).query(f"SELECT g, {SHARE} AS share FROM t GROUP BY g", rho=0.1)
        found = answer.bootstrap(draws=100).to_frame()
        assert found["share"].min() == 0
        assert found["share_low"].min() == 0


class TestCoverage:
    """At the ends of what is possible, intervals cover what they covered before the cut."""

    EXACT: ClassVar = {"s": 0, "c": 0, "share": 0, "rest": 1, "m": 0, "y": -4, "t": -240}
    SQL = (
        "SELECT g, SUM(x) AS s, COUNT(*) FILTER (WHERE kind = 'old') AS c, "
        f"{SHARE} AS share, 1 - {SHARE} AS rest, AVG(x) AS m, AVG(y) AS y, SUM(y) AS t "
        "FROM t GROUP BY g"
    )

    @pytest.mark.parametrize("wanted", [{"rho": 0.3}, {"epsilon": 1.5}], ids=["zcdp", "pure"])
    @pytest.mark.parametrize("mode", ["each", "simultaneous"])
    def test_at_the_ends(
        self,
        opened: Open,
        edges: dpnb.Table,
        equals: Any,
        reaches: Any,
        wanted: dict[str, float],
        mode: str,
    ) -> None:
        budget = {name: 10 * level for name, level in wanted.items()}
        answer = opened(edges, seed=5, **budget).query(
            self.SQL, confidence=0.8, intervals=mode, **wanted
        )

        def hits(frame: pd.DataFrame, alias: str) -> np.ndarray:
            exact, slack = self.EXACT[alias], 1e-9
            low, high = frame[f"{alias}_low"] - slack, frame[f"{alias}_high"] + slack
            return ((low <= exact) & (exact <= high)).to_numpy()

        shown, uncut = answer.to_frame(), answer.to_frame(cut=False)
        for alias in self.EXACT:
            after, before = hits(shown, alias), hits(uncut, alias)
            # no interval that held is lost; those of shares are narrower, from cut counts
            assert (after >= before).all()
            assert reaches(after, 0.8)
            if mode == "each" and alias in ("s", "c", "t"):
                assert equals(before, 0.8)
        together = np.all([hits(shown, alias) for alias in self.EXACT], axis=0)
        if mode == "simultaneous":
            assert together.all()
            widths = shown["share_high"] - shown["share_low"]
            assert widths.max() <= 1


class TestNoEstimate:
    def shown(
        self, low: float, high: float, possible: tuple[float, float], **more: Any
    ) -> Intervals:
        values = {"function": Function.AVG, "value": (low + high) / 2, **more}
        return Intervals(
            "m", values["function"], None, (values["value"],), (low,), (high,), possible=(possible,)
        ).cut()

    @pytest.mark.parametrize(
        ("low", "high", "possible", "known"),
        [
            (0.0, 1.0, (0, 1), False),
            (0.0, 0.998, (0, 1), False),  # printed 0.00 to 1.00
            (0.003, 0.998, (0, 1), True),  # printed 0.0030 to 1.00
            (0.011, 0.998, (0, 1), True),
            (0.003, 0.98, (0, 1), True),
            (-3.0, 4.0, (0, 1), False),
            (17.02, 89.99, (17, 90), False),
            (17.6, 89.2, (17, 90), False),  # printed 17 to 90
            (18.2, 89.9, (17, 90), True),
            (0.0, INF, (0, INF), False),
            (0.2, INF, (0, INF), True),
            (0.0, 7.0, (0, INF), True),
            (-INF, INF, (-INF, INF), False),
            (-1.0, 1.0, (1, 1), True),  # known beforehand
        ],
    )
    def test_is_shown_where_the_printed_interval_is_everything(self, low, high, possible, known):
        value = 0.5 if math.isinf(high) else (low + high) / 2
        found = self.shown(low, high, possible, value=value)
        assert (found.estimate[0] is not None) == known
        assert (found.text(0) != "too few rows to tell") == known
        half = found.margin_of_error(0)
        same = found.interval_text(0) == ends_text(*possible, half)
        assert same == (not known) or possible[0] == possible[1]
        # the number itself stays, for those who compute with it
        assert found.uncut.estimate == (value,)

    def test_two_groups_with_the_same_printed_interval_look_the_same(self, opened: Open) -> None:
        for seed in range(30):
            answer = opened(seed=seed).query(
                f"SELECT region, AVG(score) AS m, {SHARE} AS share FROM people GROUP BY region",
                rho=0.004,
            )
            for output in answer.estimates:
                texts = {
                    output.text(group) == "too few rows to tell"
                    for group in range(4)
                    if output.interval_text(group) in ("0.0 to 10.0", "0 to 10", "0.00 to 1.00")
                }
                assert texts <= {True}
