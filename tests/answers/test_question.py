"""Is one group above another? Free, on released values only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpnb
from dpnb.answers.answer import Answer
from dpnb.answers.estimates import estimate
from dpnb.answers.intervals import mean_around_zero, pair_half_width
from dpnb.answers.question import Question, verdict
from dpnb.errors import RequestError
from dpnb.privacy.calibrate import Law

Open = Callable[..., dpnb.Session]
Test = Callable[[object, float], bool]
ALL = (
    "SELECT region, COUNT(*) AS n, SUM(gain) AS total, AVG(score) AS mean "
    "FROM people GROUP BY region"
)
KEYS = "SELECT region, kind, COUNT(*) AS n FROM people GROUP BY region, kind"


@pytest.fixture(params=["zcdp", "pure"])
def answer(opened: Open, request: pytest.FixtureRequest) -> Answer:
    """Counts, sums and means of four regions."""
    if request.param == "zcdp":
        return opened().query(ALL, rho=3)
    return opened(epsilon=10).query(ALL, epsilon=6)


class TestGroups:
    def test_an_unknown_group_is_refused_with_a_suggestion(self, answer: Answer) -> None:
        with pytest.raises(RequestError) as refusal:
            answer.compare("north", "suth")
        assert refusal.value.what == "'suth' is no group of this answer"
        assert refusal.value.mend == "Did you mean 'south'?"
        with pytest.raises(RequestError, match="Declared: 'north', 'south', 'east', 'west'"):
            answer.compare(17, "south")

    def test_a_group_cannot_be_compared_with_itself(self, answer: Answer) -> None:
        with pytest.raises(RequestError, match="compared with itself"):
            answer.compare("north", "north")

    def test_an_unknown_aggregate_is_refused(self, answer: Answer) -> None:
        with pytest.raises(RequestError, match="no aggregate of this answer"):
            answer.compare("north", "south", "median")

    def test_several_keys_are_named_by_tuples(self, opened: Open) -> None:
        answer = opened().query(KEYS, rho=3)
        question = answer.compare(("north", "old"), ("east", "new"))
        assert (question.left, question.right) == ("north, old", "east, new")
        assert question.valid
        for wrong in ("north", ("north",), ("old", "north"), ("north", "old", "x")):
            with pytest.raises(RequestError, match="is no group of this answer"):
                answer.compare(wrong, ("east", "new"))

    def test_numbers_are_named_by_themselves_or_as_shown(self, opened: Open) -> None:
        answer = opened().query("SELECT score, COUNT(*) AS n FROM people GROUP BY score", rho=1)
        assert answer.compare(3, 10) == answer.compare("3", "10") == answer.compare((3,), ("10",))

    def test_without_groups_there_is_no_pair(self, opened: Open) -> None:
        answer = opened().query("SELECT COUNT(*) AS n FROM people", rho=1)
        with pytest.raises(RequestError):
            answer.compare("north", "south")

    def test_groups_hidden_by_limit_can_be_compared(self, opened: Open) -> None:
        answer = opened().query(f"{ALL} ORDER BY n DESC LIMIT 1", rho=3)
        assert answer.compare("south", "east", "n").valid

    def test_the_first_aggregate_is_compared_unless_another_is_named(self, answer: Answer) -> None:
        assert answer.compare("north", "south").aggregate == "n"
        assert answer.compare("north", "south", "mean").aggregate == "mean"


class TestIntervals:
    def test_asking_is_free(self, opened: Open) -> None:
        session = opened()
        answer = session.query(ALL, rho=3)
        before = session.budget.spent
        for _ in range(200):
            answer.compare("north", "south", "mean")
        assert session.budget.spent == before

    @pytest.mark.parametrize("aggregate", ["n", "total", "mean"])
    @pytest.mark.parametrize("planned", [True, False])
    def test_the_other_way_round_is_the_mirror_image(
        self, answer: Answer, aggregate: str, planned: bool
    ) -> None:
        one = answer.compare("north", "east", aggregate, planned=planned)
        two = answer.compare("east", "north", aggregate, planned=planned)
        assert (one.low, one.high) == pytest.approx((-two.high, -two.low))
        assert not (one.valid and two.valid)

    @pytest.mark.parametrize("aggregate", ["n", "total", "mean"])
    def test_a_pair_fixed_in_advance_has_the_narrower_interval(
        self, answer: Answer, aggregate: str
    ) -> None:
        planned = answer.compare("north", "east", aggregate, planned=True)
        picked = answer.compare("north", "east", aggregate)
        assert picked.low < planned.low < planned.high < picked.high
        assert planned.planned
        assert not picked.planned

    def test_counts_and_sums_are_centred_on_the_difference_of_released_values(
        self, answer: Answer
    ) -> None:
        for alias in ("n", "total"):
            found = answer.estimates_of(alias)
            law = found.count_law if alias == "n" else found.total_law
            assert law is not None
            for planned, alpha in ((True, 0.05), (False, 0.05 / 3)):
                question = answer.compare("north", "east", alias, planned=planned)
                centre = found.estimate[0] - found.estimate[2]  # type: ignore[operator]
                half = pair_half_width(law, alpha, 4, planned=planned)
                assert question.low == pytest.approx(centre - half)
                assert question.high == pytest.approx(centre + half)

    def test_averages_combine_the_ends_of_two_intervals(self, answer: Answer) -> None:
        found = answer.estimates_of("mean")
        assert found.total is not None
        assert found.count is not None
        assert found.total_law is not None
        assert found.count_law is not None
        for planned, alpha in ((True, 0.05 / 2), (False, 0.05 / 3 / 4)):
            (a, b), (c, d) = (
                mean_around_zero(
                    found.total[i], found.count[i], found.total_law, found.count_law, 5.0, alpha
                )
                for i in (0, 2)
            )
            question = answer.compare("north", "east", "mean", planned=planned)
            assert (question.low, question.high) == pytest.approx((a - d, b - c))

    def test_a_group_with_too_few_rows_tells_nothing(self, answer: Answer) -> None:
        question = answer.compare("north", "west", "mean")
        assert not question.valid
        assert question.low < 0 < question.high
        assert question.high - question.low >= 10

    def test_a_question_at_any_look_is_as_cautious_as_its_answer(self, opened: Open) -> None:
        once = opened().query(ALL, rho=3).compare("north", "east", planned=True)
        always = opened().query(ALL, rho=3, looks="any").compare("north", "east", planned=True)
        assert always.high - always.low > once.high - once.low


class TestSentences:
    def test_above(self) -> None:
        assert verdict("north", "east", "n", 3.21, 9.4, 0.95) == (
            "north is above east in n: the difference has the 95 % interval 3.2 to 9.4. "
            "Noise is an unlikely reason."
        )

    def test_below_offers_to_ask_the_other_way_round(self) -> None:
        assert verdict("north", "east", "n", -9.4, -3.21, 0.9) == (
            "north is below east in n, not above: the difference has the 90 % interval "
            "-9.4 to -3.2. Ask the other way round: is east above north?"
        )

    @pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.0, 2.0), (-2.0, 0.0)])
    def test_noise_may_explain_it(self, low: float, high: float) -> None:
        sentence = verdict("north", "east", "n", low, high, 0.95)
        assert sentence.startswith("Noise may explain the difference between north and east in n")
        assert sentence.endswith("contains 0.")

    def test_the_verdict_agrees_with_the_interval(self, answer: Answer) -> None:
        for left, right in (("north", "east"), ("east", "north"), ("west", "east")):
            for aggregate in ("n", "total", "mean"):
                question = answer.compare(left, right, aggregate)
                assert question.valid == (question.low > 0)
                assert ("is above" in question.sentence) == question.valid
                assert ("is below" in question.sentence) == (question.high < 0)
                assert repr(question) == question.sentence
        assert answer.compare("north", "east").valid

    def test_a_question_survives_json(self, answer: Answer) -> None:
        question = answer.compare("north", "east", "mean", planned=True)
        assert Question.from_dict(json.loads(json.dumps(question.to_dict()))) == question


class TestCoverage:
    """Many noisy answers about the same exact values, by the formulas of whole answers."""

    ROWS, MEANS, REACH = (40, 60, 25, 80, 50), (0.2, 0.5, 0.5, 0.4, 0.9), 0.5

    def answers(self, base: Answer, family: str, count: int, scale: float = 1.0) -> list[Answer]:
        total_law, count_law = Law(family, 1.5), Law(family, 2.5)  # type: ignore[arg-type]
        rng = np.random.default_rng(8)
        draw = rng.normal if family == "gaussian" else rng.laplace
        groups = len(self.ROWS)
        found = []
        for _ in range(count):
            totals = [
                n * (m - 0.5) + e
                for n, m, e in zip(self.ROWS, self.MEANS, draw(0, 1.5 * scale, groups), strict=True)
            ]
            counts = [n + e for n, e in zip(self.ROWS, draw(0, 2.5 * scale, groups), strict=True)]
            shown = estimate(
                "mean",
                "AVG",
                "x",
                total=totals,
                total_law=total_law,
                count=counts,
                count_law=count_law,
                middle=0.5,
                reach=self.REACH,
                look=1,
                alpha=0.3,
                each=0.05 / groups,
            )
            found.append(
                dataclasses.replace(
                    base, groups=tuple((i,) for i in range(groups)), estimates=(shown,)
                )
            )
        return found

    @pytest.mark.parametrize("family", ["gaussian", "laplace"])
    def test_a_pair_of_averages_picked_after_the_fact(
        self, opened: Open, family: str, reaches: Test, size: Callable[[int], int]
    ) -> None:
        base = opened().query("SELECT AVG(gain) AS mean FROM people", rho=1, confidence=0.7)
        assert base.estimates[0].alpha == pytest.approx(0.3)

        def hits(count: int, **options: Any) -> list[bool]:
            found = []
            for answer in self.answers(base, family, count, **options):
                shown = np.array(answer.estimates[0].estimate, dtype=float)
                errors = shown - np.array(self.MEANS)
                pick = int(np.nanargmax(errors)), int(np.nanargmin(errors))
                question = answer.compare(*pick)
                exact = self.MEANS[pick[0]] - self.MEANS[pick[1]]
                found.append(question.low <= exact <= question.high)
            return found

        assert reaches(hits(size(1_500 if family == "gaussian" else 300)), 0.7)
        if family == "gaussian":
            assert not reaches(hits(1_500, scale=2.2), 0.7)

    def test_largest_against_smallest_of_twenty_equal_groups(
        self,
        opened: Open,
        even: Callable[[int, int], dpnb.Table],
        reaches: Test,
        size: Callable[[int], int],
    ) -> None:
        groups, count = 20, size(1_000)
        base = opened(even(groups, 50)).query("SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=0.1)
        law = base.estimates[0].count_law
        assert law is not None
        rng = np.random.default_rng(2)

        def hits(planned: bool, wrong: float = 1.0) -> list[bool]:
            found = []
            for _ in range(count):
                counts = tuple(50 + rng.normal(0, law.scale * wrong, groups))
                shown = dataclasses.replace(base.estimates[0], count=counts, estimate=counts)
                answer = dataclasses.replace(base, estimates=(shown,))
                pick = int(np.argmax(counts)), int(np.argmin(counts))
                question = answer.compare(*pick, planned=planned)
                found.append(question.low <= 0 <= question.high)
            return found

        picked = hits(planned=False)
        assert reaches(picked, 0.95)
        assert reaches(~np.array(picked), 0.05)
        assert not reaches(hits(planned=False, wrong=1.25), 0.95)
        # the narrower interval is wrong for such a pair: about 8 % coverage instead of 95 %
        assert 0.04 < np.mean(hits(planned=True)) < 0.13
