"""Which declared view answers a statement (docs/methods/dprovdb.md, algorithm 16)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpnb.answers.answer import Answer
from dpnb.curator import Curator
from dpnb.display.cards.answer import interval_sentence
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss
from dpnb.views.histogram import Strategy

pytestmark = pytest.mark.fast

Opened = Callable[..., Curator]
ONE = "SELECT COUNT(*) AS k FROM t WHERE sex = 'F'"


def axes(answer: Answer) -> list[list[str]]:
    """The columns of the declared views that an answer rests on."""
    return sorted([axis for axis, _ in made["histogram"]] for made in answer.definitions.values())


class TestChoice:
    def test_what_costs_the_row_least(self, opened: Opened) -> None:
        curator = opened(views=[["sex"], ["sex", "job"]])
        session = curator.session("b")
        session.query("SELECT sex, job, COUNT(*) AS k FROM t GROUP BY sex, job", rho="0.2")
        answer = session.query(ONE, rho="0.2")
        assert (axes(answer), answer.spent) == ([["sex", "job"]], PrivacyLoss.none())
        # from nothing held, a refinement by .1 beats .3 from scratch
        finer = session.query(ONE, rho="0.3")
        assert (axes(finer), finer.spent.rho) == ([["sex", "job"]], Fraction(1, 10))

    def test_noise_that_was_seen_before_is_told(self, opened: Opened) -> None:
        """Whoever asks for the largest of the groups that were shown has looked at its noise."""
        note = "This assumes that you did not choose the question by looking at past answers."
        groups = "SELECT sex, job, COUNT(*) AS k FROM t GROUP BY sex, job"
        curator = opened(views=[["sex", "job"]])
        first, second = curator.session("b"), curator.session("a")
        shown = [
            first.query(groups, rho="0.1"),
            first.query(ONE, rho="0.1"),
            first.query(groups, rho="0.1"),
        ]
        assert [note in interval_sentence(each) for each in shown] == [False, True, False]
        assert note in interval_sentence(Answer.from_dict(shown[1].to_dict()))
        # what others were shown is not what she saw
        assert note not in interval_sentence(second.query(ONE, rho="0.05"))

    def test_then_the_one_with_the_least_noise(self, opened: Opened) -> None:
        views: list[Any] = [["sex", "n", "job"], ["sex", "job"], ["sex"], ["sex", "n"]]
        for order in (views, views[::-1]):
            session = opened(views=order).session("b")
            assert axes(session.query(ONE, rho="0.2")) == [["sex"]]

    def test_an_error_takes_the_view_that_reaches_it_most_cheaply(self, opened: Opened) -> None:
        curator = opened(views=[["sex", "n"], ["sex"]], budget=Budget(rho=9))
        session = curator.session("b")
        answer = session.query(ONE, error=10)
        assert axes(answer) == [["sex"]]
        # eleven bins of n would need eleven times the level
        other = opened(views=[["sex", "n"]], budget=Budget(rho=9)).session("b")
        price = other.price(ONE, error=10)
        assert float(price.spent.rho / answer.spent.rho) == pytest.approx(11, rel=1e-6)

    @pytest.mark.parametrize("accountant", ["zcdp", "gdp"])
    def test_on_paths_others_do_not_decide(self, opened: Opened, accountant: str) -> None:
        """E21: whatever bob holds, alice is answered from the same view at the same price."""
        budget = Budget(epsilon=9, delta=1e-6, accountant=accountant)
        outcomes = []
        for bought in ((), ("sex, job",), ("sex",), ("sex, job", "sex")):
            curator = opened(
                views=[["sex"], ["sex", "job"]], budget=budget, analysts={"a": 4, "b": 4}
            )
            alice, bob = curator.session("a"), curator.session("b")
            alice.query("SELECT sex, COUNT(*) AS k FROM t GROUP BY sex", rho="0.01")
            for keys in bought:
                bob.query(f"SELECT {keys}, COUNT(*) AS k FROM t GROUP BY {keys}", rho="0.3")
            price = alice.price(ONE, rho="0.02")
            answer = alice.query(ONE, rho="0.02")
            outcomes.append((price, axes(answer), answer.spent, answer.remaining))
        assert outcomes == outcomes[:1] * 4
        assert outcomes[0][1] == [["sex"]]

    def test_with_one_synopsis_of_all_the_table_decides(self, opened: Opened) -> None:
        """Algorithm 16: least for all together, then least for the row."""
        curator = opened(
            views=[["sex"], ["sex", "job"]],
            budget=Budget(epsilon=9, delta=1e-6, accountant="basic"),
            policy=Policy(mechanism="additive"),
        )
        alice, bob = curator.session("a"), curator.session("b")
        assert axes(alice.query(ONE, epsilon="0.1")) == [["sex"]]
        bob.query("SELECT sex, job, COUNT(*) AS k FROM t GROUP BY sex, job", epsilon=1)
        spent = curator.budget.spent
        assert axes(alice.query(ONE, epsilon="0.5")) == [["sex", "job"]]
        assert curator.budget.spent == spent

    def test_aggregates_choose_each_for_itself(self, opened: Opened) -> None:
        session = opened(views=[["sex"], ["n"]]).session("b")
        answer = session.query("SELECT COUNT(*) AS k, SUM(n) AS s FROM t", rho="0.2")
        assert axes(answer) == [["n"], ["sex"]]
        assert answer.spent.rho == Fraction(1, 5)

    def test_questions_rest_on_independent_groups(self, opened: Opened) -> None:
        """Noise of groups from a strategy goes together, which comparisons do not count with."""
        prefixes = Strategy(((1, 0, 0), (1, 1, 0), (1, 1, 1)))
        curator = opened()
        curator.add_view(["sex"], strategy=prefixes)
        session = curator.session("b")
        assert axes(session.query(ONE, rho="0.1")) == [["sex"]]
        groups = session.query("SELECT sex, COUNT(*) AS k FROM t GROUP BY sex", rho="0.1")
        assert ["histogram" in made for made in groups.definitions.values()] == [False]


class TestAgain:
    SQL = "SELECT COUNT(*) AS k, SUM(n) AS s FROM t"

    @pytest.mark.parametrize("views", [[["sex"], ["n"]], [["n"], ["sex"]]])
    def test_an_answer_is_given_again_from_the_same_views(
        self, opened: Opened, views: list[list[str]], tmp_path: Any
    ) -> None:
        """Byte by byte, although either view could answer the count; after a restart as well."""
        curator = opened(views=views, ledger=tmp_path / "l")
        first = curator.session("b").query(self.SQL, rho="0.1")
        for _ in range(2):
            again = curator.session("b").query(self.SQL, rho="0.1")
            assert (again.spent, again.stored) == (PrivacyLoss.none(), True)
            assert again.estimates == first.estimates
            assert again.to_frame().to_csv() == first.to_frame().to_csv()
            curator.close()
            curator = opened(analysts=None, budget=None, ledger=tmp_path / "l")

    def test_views_that_came_later_change_nothing(self, opened: Opened) -> None:
        curator = opened(views=[["sex", "n", "job"]])
        session = curator.session("b")
        first = session.query(self.SQL, rho="0.1")
        own = session.query("SELECT COUNT(*) AS k FROM t WHERE n = 1 AND sex = 'F'", rho="0.1")
        for columns in (["n"], ["sex"], ["n", "sex"]):
            curator.add_view(columns)
            for before in (first, own):
                again = session.query(before.sql, rho="0.1")
                assert again.estimates == before.estimates
                assert again.stored

    def test_finer_and_coarser_ones_stay_what_they_were(self, opened: Opened) -> None:
        session = opened(views=[["sex"]]).session("b")
        shown = {rho: session.query(ONE, rho=rho) for rho in ("0.1", "0.2", "0.3")}
        for rho, before in shown.items():
            again = session.query(ONE, rho=rho)
            assert again.estimates == before.estimates
            assert again.finer == (rho != "0.3")
