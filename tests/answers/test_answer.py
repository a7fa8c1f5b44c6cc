"""Answers: what they hold, how they are ordered, and that their promise of coverage is kept."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.answers.answer import Answer
from dpnb.display.cards.answer import cost_sentence, interval_sentence
from dpnb.display.cards.words import ledger_note
from dpnb.display.text import CONDITIONAL
from dpnb.errors import RequestError
from dpnb.estimation.estimates import estimate
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import Picked, PrivacyLoss
from dpnb.sql.functions import Function
from tests.kit.power import shares

Open = Callable[..., dpnb.Session]
Test = Callable[[object, float], bool]

ALL = (
    "SELECT region, kind, COUNT(*) AS n, SUM(gain) AS total, AVG(score) AS mean "
    "FROM people GROUP BY region, kind"
)
COUNT = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"


class TestFrame:
    def test_has_keys_then_each_alias_with_its_interval(self, opened: Open) -> None:
        found = opened().query(ALL, rho=1).to_frame()
        assert list(found.columns) == [
            *("region", "kind", "n", "n_low", "n_high"),
            *("total", "total_low", "total_high", "mean", "mean_low", "mean_high"),
        ]
        assert list(zip(found["region"], found["kind"], strict=True)) == [
            (region, kind)
            for region in ("north", "south", "east", "west")
            for kind in ("old", "new")
        ]

    def test_values_lie_near_the_truth_and_inside_their_intervals(
        self, opened: Open, frame: pd.DataFrame
    ) -> None:
        answer = opened(rho=10**9).query(ALL, rho=10**8)
        exact = frame.groupby(["region", "kind"]).agg(
            n=("gain", "size"), total=("gain", "sum"), mean=("score", "mean")
        )
        found = answer.to_frame().set_index(["region", "kind"])
        for alias, error in (("n", 0.01), ("total", 0.1), ("mean", 0.001)):
            assert (found.loc[exact.index, alias] - exact[alias]).abs().max() < error
            inside = found[alias].between(found[f"{alias}_low"], found[f"{alias}_high"])
            assert inside[found[alias].notna() & (found[alias] >= 0)].all()

    def test_groups_without_a_row_are_shown_like_all_others(self, opened: Open) -> None:
        found = opened().query(ALL, rho=0.5).to_frame().set_index(["region", "kind"])
        west = found.loc["west"]
        assert len(west) == 2
        assert (west["n_low"] == 0).all()
        assert west["mean"].isna().all()
        assert (west["mean_low"] == 0).all()
        assert (west["mean_high"] == 10).all()

    def test_a_statement_without_groups_has_one_row_and_no_key(self, opened: Open) -> None:
        found = opened().query("SELECT COUNT(*) AS n FROM people", rho=1).to_frame()
        assert list(found.columns) == ["n", "n_low", "n_high"]
        assert len(found) == 1
        assert found["n"].iloc[0] == pytest.approx(900, abs=10)

    def test_key_aliases_are_the_column_names(self, opened: Open) -> None:
        sql = "SELECT score AS points, COUNT(*) AS n FROM people GROUP BY score"
        found = opened().query(sql, rho=1).to_frame()
        assert list(found["points"]) == list(range(11))

    def test_counts_and_their_intervals_start_at_zero_unless_uncut(self, opened: Open) -> None:
        answers = [opened(seed=seed).query(COUNT, rho=0.01) for seed in range(12)]
        shown = pd.concat([answer.to_frame() for answer in answers])
        released = pd.concat([answer.to_frame(cut=False) for answer in answers])
        assert min(shown["n"]) == min(shown["n_low"]) == 0
        assert (shown["n_low"] <= shown["n_high"]).all()
        assert min(released["n"]) < 0
        middle = (released["n_low"] + released["n_high"]) / 2
        assert released["n"].to_numpy() == pytest.approx(middle.to_numpy())


class TestOrder:
    def query(self, opened: Open, ending: str) -> tuple[Answer, list[Any]]:
        answer = opened().query(f"{COUNT} {ending}", rho=10)
        return answer, list(answer.to_frame()["region"])

    def test_groups_come_in_declared_order(self, opened: Open) -> None:
        assert self.query(opened, "")[1] == ["north", "south", "east", "west"]

    def test_by_a_key_means_declared_order(self, opened: Open) -> None:
        assert self.query(opened, "ORDER BY region DESC")[1] == ["west", "east", "south", "north"]

    def test_by_an_aggregate_means_released_values(self, opened: Open) -> None:
        for ending, sign in (("ORDER BY n", 1), ("ORDER BY n DESC", -1)):
            answer, _ = self.query(opened, ending)
            values = answer.to_frame()["n"].to_numpy() * sign
            assert (np.diff(values) > 0).all()

    def test_ties_are_broken_by_the_next_term(self, opened: Open) -> None:
        sql = ALL.replace("GROUP BY region, kind", "GROUP BY region, kind ORDER BY kind, n DESC")
        found = opened().query(sql, rho=10).to_frame()
        assert list(found["kind"]) == ["old"] * 4 + ["new"] * 4
        for kind in ("old", "new"):
            assert found.loc[found["kind"] == kind, "n"].is_monotonic_decreasing

    @pytest.mark.parametrize("direction", ["", "DESC"])
    def test_what_is_unknown_comes_last_in_either_direction(
        self, opened: Open, direction: str
    ) -> None:
        sql = f"SELECT region, AVG(gain) AS m FROM people GROUP BY region ORDER BY m {direction}"
        found = opened().query(sql, rho=5).to_frame()
        assert found["region"].iloc[-1] == "west"
        assert np.isnan(found["m"].iloc[-1])

    def test_limit_hides_rows_and_keeps_their_intervals_as_wide(self, opened: Open) -> None:
        whole, _ = self.query(opened, "")
        answer, shown = self.query(opened, "ORDER BY n DESC LIMIT 2")
        assert shown == ["north", "south"]
        assert len(answer.groups) == 4
        assert answer.estimates[0].margin_of_error(0) == whole.estimates[0].margin_of_error(0)
        assert interval_sentence(answer) == interval_sentence(whole)
        assert "All 4 confidence intervals" in interval_sentence(answer)

    def test_limit_zero_and_beyond(self, opened: Open) -> None:
        assert self.query(opened, "LIMIT 0")[1] == []
        assert len(self.query(opened, "LIMIT 99")[1]) == 4

    def test_another_order_of_the_same_question_is_free(self, opened: Open) -> None:
        session = opened()
        first = session.query(COUNT, rho=1)
        again = session.query(f"{COUNT} ORDER BY n LIMIT 1", rho=1)
        assert again.stored
        assert again.spent == PrivacyLoss.none()
        assert again.estimates == first.estimates
        assert len(again.to_frame()) == 1


class TestPlainData:
    @pytest.mark.parametrize(
        ("budget", "wanted"),
        [
            ({"rho": 100, "delta": 1e-6}, {"rho": "1/3"}),
            ({"epsilon": 30}, {"epsilon": 3, "looks": "any", "intervals": "each"}),
        ],
    )
    def test_an_answer_survives_json(
        self, opened: Open, budget: dict[str, Any], wanted: dict[str, Any]
    ) -> None:
        answer = opened(**budget).query(ALL + " ORDER BY n DESC LIMIT 3", **wanted)
        text = json.dumps(answer.to_dict(), allow_nan=False)
        again = Answer.from_dict(json.loads(text))
        assert again == answer
        assert repr(again) == repr(answer)
        assert again.to_frame().equals(answer.to_frame())
        assert again.compare(("north", "old"), ("east", "new")) == answer.compare(
            ("north", "old"), ("east", "new")
        )

    def test_test_noise_is_stamped_everywhere(self, opened: Open) -> None:
        answer = opened().query(COUNT, rho=1)
        assert answer.stamp == "test"
        assert answer.to_dict()["stamp"] == "test"
        assert answer.record()["stamp"] == "test"
        assert answer.compare("north", "south").stamp == "test"

    def test_a_picked_level_is_told_everywhere(self, opened: Open) -> None:
        session = opened()
        plain, answer = session.query(COUNT, rho=1), session.query(COUNT, rho=Picked(2))
        for found, marked in ((plain, False), (answer, True)):
            assert found.conditional is marked
            assert Answer.from_dict(found.to_dict()) == found
            for shown in (repr(found), found.to_markdown(), found._repr_html_()):
                assert (CONDITIONAL in shown) is marked
        assert plain.record()["guarantee"] == "unconditional"
        assert answer.record()["guarantee"].startswith("conditional: epsilon was picked")

    def test_the_record_tells_the_noise_law_of_every_vector(self, opened: Open) -> None:
        answer = opened().query(ALL, rho=3)
        record = json.loads(json.dumps(answer.record(), allow_nan=False))
        assert {view["level"] for view in record["views"]} == {"1", "13/20", "7/20"}
        distributions = {distribution["alias"]: distribution for distribution in record["noise"]}
        assert distributions["n"]["count"] == {
            "family": "gaussian",
            "scale": pytest.approx(0.5**0.5),
        }
        assert distributions["n"]["sum"] is None
        assert distributions["total"]["sum"]["scale"] == pytest.approx(100 * 0.5**0.5)
        assert distributions["mean"]["sum"]["scale"] == pytest.approx(5 / 1.3**0.5)
        assert record["spent"]["rho"] == "3"

    def test_an_answer_cannot_be_changed(self, opened: Open) -> None:
        answer = opened().query(COUNT, rho=1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            answer.table = ""  # type: ignore[misc]
        with pytest.raises(dataclasses.FrozenInstanceError):
            answer.bill.stamp = ""  # type: ignore[misc]
        # Python refuses what is no field of a class with slots in other words
        with pytest.raises((AttributeError, TypeError)):
            answer.stamp = ""  # type: ignore[misc]
        assert answer.stamp == "test"


class TestSentences:
    @pytest.mark.parametrize(
        ("sql", "wanted", "words"),
        [
            (COUNT, {}, "All 4 confidence intervals hold at once, with 95 % confidence."),
            (
                "SELECT COUNT(*) AS n FROM people",
                {"confidence": 0.9},
                "The confidence interval holds with 90 % confidence.",
            ),
            (
                COUNT,
                {"intervals": "each"},
                "Each confidence interval holds on its own, with 95 % confidence.",
            ),
            (
                COUNT,
                {"looks": "any"},
                "Look 1 of this answer: the intervals hold at all looks together, if",
            ),
            (ALL, {}, "All 24 confidence intervals"),
        ],
    )
    def test_what_the_intervals_promise(
        self, opened: Open, sql: str, wanted: dict[str, Any], words: str
    ) -> None:
        assert words in interval_sentence(opened().query(sql, rho=1, **wanted))

    def test_a_later_look_says_so(self, opened: Open) -> None:
        session = opened()
        session.query(COUNT, rho=1)
        second = session.query(COUNT, rho=2)
        assert second.look == 2
        assert (
            "Look 2 of this answer: the intervals hold only if you planned this look beforehand."
            in (interval_sentence(second))
        )
        assert "ask with --any-look (in Python looks='any')" in interval_sentence(second)
        assert session.query(COUNT, rho=3, looks="any").look == 3

    def test_what_was_spent_and_what_is_left(self, opened: Open) -> None:
        session = opened(rho=2, delta=1e-6)
        assert cost_sentence(session.query(COUNT, rho=0.5)) == (
            "Privacy cost: rho 0.5 (epsilon 5.222 at delta 1e-6). Left: rho 1.5 of 2 (75 %)."
        )
        refined = session.query(COUNT, rho=0.75)
        assert cost_sentence(refined).startswith("Privacy cost: rho 0.25 ")
        again = session.query(COUNT, rho=0.5)
        assert cost_sentence(again) == (
            "This answer was already released: no privacy cost. Left: rho 1.25 of 2 (62 %). "
            "A more accurate answer was already released: a higher rho, up to the one that was paid, is free."
        )
        coarser = session.query(COUNT, rho=0.6)
        assert cost_sentence(coarser).startswith("No privacy cost: already paid for.")
        assert coarser.estimates == refined.estimates

    def test_in_pure_epsilon(self, opened: Open) -> None:
        answer = opened(epsilon=2).query(COUNT, epsilon=0.5)
        assert cost_sentence(answer) == "Privacy cost: epsilon 0.5. Left: epsilon 1.5 of 2 (75 %)."
        assert "After a restart, the same answers cost budget again." in ledger_note(answer.bill)

    def test_what_was_bought_where_that_is_less_than_was_asked_for(self, opened: Open) -> None:
        session = opened(epsilon=4)
        less = session.query(COUNT, epsilon="0.9999")
        assert cost_sentence(less) == (
            "Privacy cost: epsilon 0.8409. Left: epsilon 3.159 of 4 (78 %). "
            "In a pure session, epsilon is rounded down to a fixed grid, here to 0.8409."
        )
        assert Answer.from_dict(json.loads(json.dumps(less.to_dict()))) == less
        assert "fixed grid" in cost_sentence(session.query(COUNT, epsilon="0.9999"))
        # the sum of its views' levels; then one that the grid has
        mean = session.query("SELECT AVG(score) AS m FROM people", epsilon=1)
        assert "fixed grid, here to 0.9482." in cost_sentence(mean)
        assert session.query(COUNT, epsilon=1).bought is None
        # who holds more than she asks for gets that
        assert session.query(COUNT, epsilon="0.98").bought is None
        assert session.query(COUNT, error=50).bought is None
        assert opened().query(COUNT, rho="0.9999").bought is None

    def test_unknown_aggregates_are_refused(self, opened: Open) -> None:
        answer = opened().query(ALL, rho=1)
        assert answer.estimates_of("total").alias == "total"
        assert answer.estimates_of().alias == "n"
        with pytest.raises(RequestError, match="Did you mean total") as refusal:
            answer.estimates_of("totals")
        assert "no aggregate" in refusal.value.what


class TestEstimates:
    def test_a_mean_is_the_ratio_cut_to_its_bounds(self) -> None:
        total_distribution, count_distribution = (
            NoiseDistribution("gaussian", 1.0),
            NoiseDistribution("gaussian", 1.0),
        )
        found = estimate(
            "m",
            Function.AVG,
            "x",
            total=[10.0, 900.0, -900.0, 3.0],
            total_distribution=total_distribution,
            count=[100.0, 100.0, 100.0, 1.9],
            count_distribution=count_distribution,
            middle=50.0,
            reach=5.0,
            look=1,
            alpha=0.05,
            each=0.05,
            possible=[(45.0, 55.0)],
        ).cut()
        assert found.estimate == (50.1, 55.0, 45.0, None)
        assert found.uncut.estimate == (50.1, 59.0, 41.0, None)
        assert (found.low[3], found.high[3]) == (45.0, 55.0)
        assert found.text(3) == "too few rows to tell"
        assert all(
            low <= value <= high
            for low, value, high in zip(found.low, found.estimate, found.high, strict=True)
            if value is not None
        )

    def test_a_negative_count_is_shown_as_zero_and_kept_as_released(self) -> None:
        found = estimate(
            "n",
            Function.COUNT,
            None,
            total=None,
            total_distribution=None,
            count=[-3.2, 7.0],
            count_distribution=NoiseDistribution("laplace", 1.0),
            middle=0.0,
            reach=0.0,
            look=1,
            alpha=0.05,
            each=0.05,
            possible=[(0.0, math.inf)],
        ).cut()
        assert found.estimate == (0.0, 7.0)
        assert found.uncut.estimate == (-3.2, 7.0)
        assert found.text(0) == "0"
        # wholly below 0 it has missed already, and shows no certainty
        assert (found.low[0], found.high[0]) == (0.0, pytest.approx(math.log(20)))
        assert found.low[1] == pytest.approx(7 - math.log(20))


class TestCoverage:
    """Whole answers of whole sessions, over many tables or groups."""

    @pytest.mark.parametrize("wanted", [{"rho": 1}, {"epsilon": 1}], ids=[ZCDP, PURE])
    def test_all_intervals_of_an_answer_together(
        self,
        opened: Open,
        even: Callable[[int, int], dpnb.Table],
        equals: Test,
        wanted: dict[str, int],
        size: Callable[[int], int],
    ) -> None:
        # six independent intervals that miss with 1/12 each; must find noise that is 30 % off
        groups, rows, budget = 6, 10, dict.fromkeys(wanted, 2)
        sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
        alone = {"confidence": 1 - 0.5 / groups, "intervals": "each", **wanted}
        session = opened(even(groups, rows), **budget)
        (together,) = session.query(sql, confidence=0.5, **wanted).estimates
        (each,) = session.query(sql, **alone).estimates
        assert together.low == pytest.approx(each.low)
        assert together.high == pytest.approx(each.high)
        exact, wider = (1 - 0.5 / groups) ** groups, (0.5 / groups) ** (1 / 1.3)
        many = even(groups * size(shares(exact, (1 - wider) ** groups)), rows)

        def hits(scale: float) -> np.ndarray:
            """Six groups of one answer at a time stand for the six of an answer of their own."""
            (n,) = opened(many, seed=9, scale=scale, **budget).query(sql, **alone).estimates
            inside = (np.array(n.low) <= rows) & (rows <= np.array(n.high))
            return inside.reshape(-1, groups).all(axis=1)

        assert equals(hits(1.0), exact)
        assert not equals(hits(1.3), exact)
        assert not equals(hits(0.7), exact)

    @pytest.mark.parametrize(
        ("wanted", "wider"),
        [({"rho": 0.03}, 1.5), ({"epsilon": 0.3}, 1.9)],
        ids=[ZCDP, PURE],
    )
    def test_counts_sums_and_averages_together(
        self,
        opened: Open,
        reaches: Test,
        wanted: dict[str, float],
        wider: float,
        size: Callable[[int], int],
    ) -> None:
        # nine intervals; noise that is so much wider than it says lets them hold in 0.4 at most
        sizes, rng, count = (5, 30, 200), np.random.default_rng(4), size(shares(0.8, 0.4))
        frame = pd.DataFrame({"g": np.repeat(range(3 * count), np.tile(sizes, count))})
        frame["x"] = rng.integers(0, 11, len(frame))
        exact = frame.groupby("g")["x"].agg(n="size", total="sum", mean="mean")
        sql = "SELECT g, COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean FROM t GROUP BY g"
        budget = dict.fromkeys(wanted, 1)
        alone = {"confidence": 1 - 0.2 / 9, "intervals": "each", **wanted}

        def table(groups: int) -> dpnb.Table:
            kinds = {"g": dpnb.Integer(0, groups - 1), "x": dpnb.Integer(0, 10)}
            return dpnb.Table("t", frame[frame["g"] < groups], dpnb.Schema(kinds))

        session = opened(table(3), **budget)
        together = session.query(sql, confidence=0.8, **wanted).to_frame()
        pd.testing.assert_frame_equal(together, session.query(sql, **alone).to_frame())

        def hits(scale: float) -> np.ndarray:
            """Three groups of one answer at a time stand for the three of an answer of their own."""
            session = opened(table(3 * count), seed=9, scale=scale, **budget)
            shown = session.query(sql, **alone).to_frame()
            inside = [
                shown[f"{alias}_low"].le(exact[alias]) & shown[f"{alias}_high"].ge(exact[alias])
                for alias in exact
            ]
            return np.logical_and.reduce(inside).reshape(count, 3).all(axis=1)

        assert reaches(hits(1.0), 0.8)
        assert not reaches(hits(wider), 0.8)

    @pytest.mark.parametrize(
        ("budget", "wanted"),
        [({"rho": 1}, {"rho": 0.1}), ({"epsilon": 1}, {"epsilon": 0.5})],
        ids=[ZCDP, PURE],
    )
    def test_each_interval_on_its_own(
        self,
        opened: Open,
        even: Callable[[int, int], dpnb.Table],
        equals: Test,
        budget: dict[str, int],
        wanted: dict[str, float],
        size: Callable[[int], int],
    ) -> None:
        groups, rows, sessions = 2_000, 30, size(1)

        def hits(scale: float) -> list[bool]:
            found = []
            for seed in range(sessions):
                session = opened(even(groups, rows), seed=seed, scale=scale, **budget)
                answer = session.query(
                    "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
                    confidence=0.8,
                    intervals="each",
                    **wanted,
                )
                (n,) = answer.estimates
                found += [low <= rows <= high for low, high in zip(n.low, n.high, strict=True)]
            return found

        assert equals(hits(1.0), 0.8)
        assert not equals(hits(1.3), 0.8)
        assert not equals(hits(0.7), 0.8)

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_intervals_for_any_look_hold_at_all_looks_together(
        self,
        opened: Open,
        even: Callable[[int, int], dpnb.Table],
        equals: Test,
        reaches: Test,
        privacy: str,
        size: Callable[[int], int],
    ) -> None:
        groups, rows, looks, confidence = 2_000, 20, 6, 0.7
        # so fine that no interval reaches below 0, where it would be cut
        levels = [2**i for i in range(looks)]
        name, cap = ("rho", {"rho": 40}) if privacy == ZCDP else ("epsilon", {"epsilon": 40})

        def one_session(seed: int, scale: float, kind: object) -> np.ndarray:
            session = opened(even(groups, rows), seed=seed, scale=scale, **cap)
            found = []
            for look, level in enumerate(levels, start=1):
                answer = session.query(
                    "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
                    confidence=confidence,
                    intervals="each",
                    looks=kind,
                    **{name: level},
                )
                assert answer.look == look
                (n,) = answer.estimates
                found.append((np.array(n.low) <= rows) & (rows <= np.array(n.high)))
            return np.array(found)

        def hits(scale: float, kind: object) -> np.ndarray:
            return np.hstack([one_session(seed, scale, kind) for seed in range(size(1))])

        valid = hits(1.0, "any")
        assert reaches(valid.all(axis=0), confidence)
        for look, covered in enumerate(valid, start=1):
            assert equals(covered, 1 - (1 - confidence) * 6 / (math.pi * look) ** 2)
        # noise that is 30 % wider than it says is noticed, and so are intervals for one look
        assert not equals(hits(1.3, "any")[0], 1 - (1 - confidence) * 6 / math.pi**2)
        assert not reaches(hits(1.0, 1).all(axis=0), confidence)
