"""Who may put answers together, and what they then know (docs/methods/dprovdb.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb.curator import Curator
from dpnb.errors import BudgetError, RequestError
from dpnb.ledger.accounts import FREE, exhausted
from dpnb.ledger.mechanism import MECHANISMS, LevelTarget, Synopses
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import GDP
from dpnb.privacy.gaussian import epsilon_from, sigma_from
from dpnb.privacy.loss import PrivacyLoss

pytestmark = pytest.mark.fast

Opened = Callable[..., Curator]
COUNT = "SELECT COUNT(*) AS k FROM t WHERE n >= {}"
EXHAUSTED = str(exhausted(""))
FOUR = {"a": 4, "b": 4, "c": 4, "d": 4}


def ask(curator: Curator, analyst: str, view: int, rho: object) -> PrivacyLoss:
    return curator.session(analyst).query(COUNT.format(view), rho=rho).spent


def refused(curator: Curator, analyst: str, view: int, rho: object) -> str:
    with pytest.raises(BudgetError) as refusal:
        ask(curator, analyst, view, rho)
    return str(refusal.value).replace(FREE, "")


class TestKnowledge:
    def test_on_paths_a_coalition_knows_the_most_of_each_view(self, opened: Opened) -> None:
        """The new theorem of section 4: the sum over views of the largest cell, exactly."""
        curator = opened(analysts=FOUR, budget=Budget(rho=9))
        bought = {("a", 1): "0.1", ("b", 1): "0.3", ("a", 2): "0.2", ("c", 2): "0.05", ("c", 3): 1}
        for (name, view), rho in bought.items():
            ask(curator, name, view, rho)
        for size in range(5):
            for names in combinations(FOUR, size):
                expected = sum(
                    max((Fraction(rho) for (n, v), rho in bought.items() if n in names and v == view),
                        default=Fraction(0))
                    for view in (1, 2, 3)
                )  # fmt: skip
                assert curator.coalition(*names).rho == expected

    def test_all_together_know_what_was_spent(self, opened: Opened) -> None:
        for mechanism in MECHANISMS:
            curator = opened(
                analysts=FOUR, budget=Budget(rho=9), policy=Policy(mechanism=mechanism)
            )
            for i, name in enumerate("abcdabcd", start=1):
                ask(curator, name, i % 3, f"0.0{1 + i * 5 % 8}")
            everybody, spent = curator.coalition(*FOUR).rho, curator.budget.spent.rho
            assert everybody == pytest.approx(spent, rel=1e-9)
            assert everybody <= spent

    def test_several_rows_of_one_analyst_are_one_coalition(self, opened: Opened) -> None:
        curator = opened(analysts={"a": (4, 1), "b": 4})
        curator.session("a").query(COUNT.format(1), rho="0.1")
        curator.session("a", 1).query(COUNT.format(2), rho="0.2")
        assert curator.coalition("a").rho == Fraction(3, 10)

    def test_a_star_tells_a_coalition_more_than_its_best_member(self, opened: Opened) -> None:
        """E1, through answers: coalition {2, 3} of epsilons 1, .5 and .3."""
        budget = Budget(epsilon=3, delta=1e-9, accountant="gdp")
        rhos = [1 / (2 * sigma_from(e, 1e-9) ** 2) for e in (1, 0.5, 0.3)]
        for mechanism, expected in (("additive", 0.551670210384), ("path", 0.5)):
            curator = opened(analysts=FOUR, budget=budget, policy=Policy(mechanism=mechanism))
            for name, rho in zip("abc", rhos, strict=True):
                ask(curator, name, 1, repr(rho))
            known = curator.coalition("b", "c")
            assert epsilon_from(math.sqrt(2 * known.rho), 1e-9) == pytest.approx(expected, rel=1e-9)

    def test_nobody_is_a_coalition_and_strangers_are_none(self, opened: Opened) -> None:
        curator = opened()
        assert curator.coalition() == PrivacyLoss.none()
        for name in ("c", "owner", "a#1", ""):
            with pytest.raises(RequestError, match="no analyst"):
                curator.coalition("a", name)

    @settings(max_examples=50)
    @given(
        st.lists(
            st.tuples(st.sampled_from("abcd"), st.sampled_from("vw"), st.fractions(0, 1)),
            max_size=12,
        ),
        st.sets(st.sampled_from("abcd")),
        st.sets(st.sampled_from("abcd")),
        st.sampled_from(["path", "additive", "vanilla"]),
    )
    def test_more_members_never_know_less_and_never_more_than_the_sum(
        self, asked: list[tuple[str, str, Fraction]], one: set[str], two: set[str], name: Any
    ) -> None:
        state, mechanism = Synopses(GDP, Fraction(0)), MECHANISMS[name]
        for row, view, level in asked:
            if level:
                state.note(row, view, mechanism.step(state, row, view, LevelTarget(level)))

        def known(rows: set[str]) -> Fraction:
            return sum((mechanism.together(state, view, rows).rho for view in "vw"), Fraction(0))

        slack = 1 + Fraction(1, 10**9)
        assert max(known(one), known(two)) <= known(one | two) * slack
        assert known(one | two) <= (known(one) + known(two)) * slack
        if name == "path":
            assert known({"a", "b", "c", "d"}) == sum(state.finest.values())


class TestLimit:
    def opened(self, opened: Opened, **options: Any) -> Curator:
        """a-b-c may share; d is alone."""
        pairs = [("a", "b"), ("b", "c")]
        policy = Policy(**{"collusion": pairs, "together": "0.5", **options})
        return opened(analysts=FOUR, budget=Budget(rho=2), policy=policy)

    def test_a_component_has_one_limit(self, opened: Opened) -> None:
        """Theorem 5: sum over views of the most that any of them knows."""
        curator = self.opened(opened)
        ask(curator, "a", 1, "0.3")
        ask(curator, "c", 1, "0.3")  # the same version: nothing new for the three
        ask(curator, "b", 2, "0.2")
        assert curator.coalition("a", "b", "c").rho == Fraction(1, 2)
        for name in "abc":
            assert refused(curator, name, 3, "0.01") == EXHAUSTED
        # what one of them has had, the others may have
        ask(curator, "c", 2, "0.2")
        ask(curator, "d", 3, "0.5")
        assert refused(curator, "d", 4, "0.01") == EXHAUSTED

    def test_others_do_not_count(self, opened: Opened) -> None:
        curator = self.opened(opened)
        ask(curator, "d", 1, "0.5")
        ask(curator, "a", 1, "0.4")
        assert curator.coalition("a", "b", "c").rho == Fraction(2, 5)
        assert refused(curator, "b", 1, "0.51") == EXHAUSTED
        ask(curator, "b", 1, "0.5")

    def test_all_rows_of_a_member_count(self, opened: Opened) -> None:
        policy = Policy(collusion=[("a", "b")], together="0.5")
        curator = opened(analysts={"a": (4, 2), "b": 4}, budget=Budget(rho=2), policy=policy)
        curator.session("a", 2).query(COUNT.format(1), rho="0.4")
        with pytest.raises(BudgetError):
            ask(curator, "b", 2, "0.2")
        assert ask(curator, "b", 2, "0.1").rho == Fraction(1, 10)

    def test_who_joins_later_joins_the_coalition(self, opened: Opened) -> None:
        policy = Policy(collusion=[("a", "late")], together="0.5")
        curator = opened(analysts={"a": 4}, budget=Budget(rho=2), policy=policy)
        ask(curator, "a", 1, "0.5")
        curator.add_analyst("late", 4)
        with pytest.raises(BudgetError):
            ask(curator, "late", 2, "0.1")
        ask(curator, "late", 1, "0.5")

    def test_releases_that_are_drawn_once_count(self, opened: Opened) -> None:
        """What one of them holds the others may have."""
        sql = "SELECT sex FROM t GROUP BY sex HAVING COUNT(*) > 5"
        options = {"mode": "rr", "beta": 0.4, "alpha": 0.4}
        curator = self.opened(opened, together="0.1")
        ask(curator, "a", 1, "0.05")
        with pytest.raises(BudgetError, match="budget exhausted"):
            curator.session("b").decide(sql, **options)
        ask(curator, "c", 1, "0.01")
        cost = curator.session("d").decide(sql, **options).spent.rho
        assert Fraction(1, 20) < cost < Fraction(1, 10)
        curator = self.opened(opened, together="0.1")
        for name in "ab":
            assert curator.session(name).decide(sql, **options).spent.rho == cost
        assert curator.coalition("a", "b", "c").rho == cost
        assert refused(curator, "c", 1, "0.05") == EXHAUSTED

    def test_a_large_coalition_is_not_let_in(self, opened: Opened) -> None:
        policy = Policy(collusion=[("a", "b"), ("b", "c"), ("c", "d")], most_colluders=3)
        curator = opened(analysts={"a": 4, "d": 4}, policy=policy)
        curator.add_analyst("b", 1)
        with pytest.raises(RequestError, match="'c' would make a coalition of 4"):
            curator.add_analyst("c", 1)
        assert [found.name for found in curator.provenance.rows] == ["a", "d", "b"]

    def test_its_limit_is_an_epsilon_where_there_is_a_delta(self, opened: Opened) -> None:
        budget = Budget(epsilon=4, delta=1e-6, accountant="gdp")
        policy = Policy(collusion=[("a", "b")], together=1)
        curator = opened(analysts={"a": 4, "b": 4}, budget=budget, policy=policy)
        curator.session("a").query(COUNT.format(1), epsilon=1)
        with pytest.raises(BudgetError):
            curator.session("b").query(COUNT.format(2), epsilon="0.01")

    def test_the_cap_holds_whatever_coalitions_are_promised(self, opened: Opened) -> None:
        curator = opened(
            analysts={"a": 4, "b": 4}, budget=Budget(rho=1), policy=Policy(together="0.8")
        )
        ask(curator, "a", 1, "0.8")
        assert refused(curator, "b", 2, "0.3") == EXHAUSTED
        ask(curator, "b", 2, "0.2")
