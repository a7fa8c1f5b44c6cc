"""What the owner changes after the opening, and what stays promised (docs/methods/dprovdb.md)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpnb.curator import Curator
from dpnb.errors import BudgetError, LedgerError, RequestError
from dpnb.ledger.accounts import FREE, exhausted
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss
from tests.kit.streams import entries

Opened = Callable[..., Curator]
COUNT = "SELECT COUNT(*) AS k FROM t WHERE n >= {}"
EQUAL = {"a": 4, "b": 4}


def ask(curator: Curator, analyst: str, view: int, rho: object) -> Fraction:
    """Ask for one of ten views that share rows; return what it cost the row."""
    return curator.session(analyst).query(COUNT.format(view), rho=rho).spent.rho


def refused(curator: Curator, analyst: str, view: int, rho: object) -> str:
    with pytest.raises(BudgetError) as refusal:
        ask(curator, analyst, view, rho)
    return str(refusal.value).replace(FREE, "")


def limits(curator: Curator) -> list[Fraction]:
    return [row.limit.rho for row in curator.provenance.rows]


def unchanged(curator: Curator, word: str, change: Callable[..., Any], *given: Any) -> None:
    """A change is refused, says what to do instead, and leaves everything as it was."""
    before = curator.provenance
    with pytest.raises(RequestError, match=word) as refusal:
        change(*given)
    assert refusal.value.hint
    assert curator.provenance == before


class TestPrivilege:
    def test_a_higher_one_raises_her_limit_and_nobody_elses(self, opened: Opened) -> None:
        curator = opened()
        session = curator.session("a")
        ask(curator, "a", 1, "0.25")
        assert refused(curator, "a", 2, "0.01")
        curator.set_privilege("a", 3)
        assert limits(curator) == [Fraction(3, 4), 1]
        assert session.budget.remaining.rho == Fraction(1, 2)
        ask(curator, "a", 2, "0.5")
        assert refused(curator, "a", 3, "0.01")
        # the cap of all together is what it was
        assert refused(curator, "b", 3, "0.3") == str(exhausted(""))
        assert curator.budget.cap.rho == 1

    def test_a_lower_one_refuses_everything_further(self, opened: Opened) -> None:
        curator = opened()
        first = curator.session("b").query(COUNT.format(1), rho="0.5")
        curator.set_privilege("b", 1)
        assert "but 0 is left" in refused(curator, "b", 2, "0.01")
        assert curator.session("b").query(COUNT.format(1), rho="0.5").estimates == first.estimates
        assert curator.coalition("b").rho == Fraction(1, 2)

    def test_a_limit_that_was_set_stays(self, opened: Opened) -> None:
        curator = opened()
        curator.limit("a", rho="0.1")
        curator.set_privilege("a", 4)
        assert limits(curator) == [Fraction(1, 10), 1]

    def test_further_rows_of_hers_stay(self, opened: Opened) -> None:
        curator = opened(analysts={"a": (3, 1), "b": 4})
        curator.session("a", 1).query(COUNT.format(1), rho="0.1")
        curator.set_privilege("a", 2)
        assert [row.name for row in curator.provenance.rows] == ["a", "a#1", "b"]
        assert limits(curator) == [Fraction(1, 2), Fraction(1, 4), 1]
        assert curator.session("a", 1).budget.spent.rho == Fraction(1, 10)
        for gone in (3, 4):
            with pytest.raises(RequestError, match="has no privilege"):
                curator.session("a", gone)
        unchanged(curator, "already has privilege 1", curator.set_privilege, "a", 1)

    @pytest.mark.parametrize(
        ("given", "word"),
        [(("c", 1), "no analyst 'c'"), (("a#1", 1), "no analyst"), (("a", 5), "from 1 to 4, got 5"),
         (("a", 0), "from 1 to 4, got 0"), (("a", (1, 2)), "whole number"), (("a", True), "whole number")],
    )  # fmt: skip
    def test_senseless_ones_are_refused(self, opened: Opened, given: Any, word: str) -> None:
        curator = opened()
        unchanged(curator, word, curator.set_privilege, *given)

    def test_by_sum_it_is_fixed_at_the_first_charge(self, opened: Opened) -> None:
        """Another one would lower the limits of others."""
        curator = opened(policy=Policy(rows="sum"))
        curator.set_privilege("a", 4)
        assert limits(curator) == [Fraction(1, 2), Fraction(1, 2)]
        ask(curator, "b", 1, "0.1")
        unchanged(curator, "everybody's limit", curator.set_privilege, "a", 1)

    def test_scripts_go_on_with_the_first_ones_and_with_the_new(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        curator = opened(ledger=tmp_path / "l")
        curator.set_privilege("a", 2)
        curator.set_privilege("a", 2)
        curator.disable("a")
        curator.enable("a")
        curator.close()
        for level in (1, 2):
            again = opened(ledger=tmp_path / "l", analysts={"a": level, "b": 4})
            assert limits(again) == [Fraction(1, 2), 1]
            again.close()
        with pytest.raises(RequestError, match=r"curator\.set_privilege changes them"):
            opened(ledger=tmp_path / "l", analysts={"a": 3, "b": 4})
        kinds = [entry["kind"] for entry in entries(tmp_path / "l")]
        assert kinds.count("analyst") == 5


class TestExpansion:
    def test_limits_follow_and_end_at_the_cap(self, opened: Opened) -> None:
        curator = opened()
        ask(curator, "a", 1, "0.25")
        curator.set_expansion("1.5")
        assert limits(curator) == [Fraction(3, 8), 1]
        ask(curator, "a", 2, "0.125")
        curator.set_expansion(9)
        assert limits(curator) == [1, 1]
        curator.set_expansion(1)
        assert limits(curator) == [Fraction(1, 4), 1]
        assert "but 0 is left" in refused(curator, "a", 3, "0.01")

    @pytest.mark.parametrize(("given", "word"), [("0.9", "at least 1"), ("much", "expansion")])
    def test_senseless_ones_are_refused(self, opened: Opened, given: str, word: str) -> None:
        curator = opened()
        unchanged(curator, word, curator.set_expansion, given)

    def test_one_analyst_alone_has_no_policy(self, opened: Opened) -> None:
        curator = opened(analysts=None)
        for change, given in (
            (curator.set_expansion, (2,)), (curator.set_reserve, ("0.5",)), (curator.link, ("a", "b")),
        ):  # fmt: skip
            unchanged(curator, "opened for one analyst", change, *given)


class TestReserve:
    def test_it_holds_from_then_on(self, opened: Opened) -> None:
        curator = opened()
        curator.set_reserve("0.5")
        assert refused(curator, "b", 1, "0.876") == str(exhausted(""))
        ask(curator, "b", 1, "0.875")
        ask(curator, "a", 2, "0.125")

    def test_it_is_never_lowered(self, opened: Opened) -> None:
        curator = opened(policy=Policy(reserve="0.2"))
        for given in ("0.1", 0):
            unchanged(curator, "cannot be lowered", curator.set_reserve, given)
        unchanged(curator, "at most 1", curator.set_reserve, "1.1")
        curator.set_reserve("0.3")
        unchanged(curator, "cannot be lowered", curator.set_reserve, "0.2")

    def test_no_more_is_promised_than_is_left(self, opened: Opened) -> None:
        """Of the cap, once others have had theirs, not only of the whole."""
        curator = opened()
        ask(curator, "b", 1, "0.9")
        unchanged(curator, "more would be reserved", curator.set_reserve, "0.5")
        curator.set_reserve("0.4")
        for change, given in (
            (curator.set_privilege, ("a", 4)), (curator.set_expansion, (4,)),
            (curator.add_analyst, ("c", 1)),
        ):  # fmt: skip
            unchanged(curator, "more would be reserved", change, *given)
        with pytest.raises(RequestError, match="more would be reserved"):
            curator.limit("a", rho="0.5")
        # what keeps less is always possible
        curator.limit("a", rho="0.2")
        assert ask(curator, "a", 2, "0.08") == Fraction(2, 25)

    def test_who_is_let_in_again_takes_nothing_from_others(self, opened: Opened) -> None:
        curator = opened(policy=Policy(reserve="0.5"))
        curator.disable("a")
        ask(curator, "b", 1, "0.9")
        unchanged(curator, "more would be reserved", curator.enable, "a")
        curator.limit("a", rho="0.2")
        curator.enable("a")
        assert ask(curator, "a", 2, "0.1") == Fraction(1, 10)

    def test_several_rows_are_one_analyst(self, opened: Opened) -> None:
        curator = opened(analysts={"a": (4, 3, 2), "b": 4}, policy=Policy(reserve="0.5"))
        # half of b's limit is kept from a, and nothing for her own other rows
        ask(curator, "a", 1, "0.5")
        ask(curator, "b", 2, "0.5")


class TestLink:
    def opened(self, opened: Opened, **options: Any) -> Curator:
        policy = {"collusion": [("a", "b")], "together": "0.5", **options}
        analysts = {"a": 4, "b": 4, "c": 4, "d": 4}
        return opened(analysts=analysts, budget=Budget(rho=2), policy=Policy(**policy))

    def test_the_limit_holds_for_the_larger_coalition(self, opened: Opened) -> None:
        curator = self.opened(opened)
        ask(curator, "a", 1, "0.3")
        ask(curator, "c", 2, "0.1")
        curator.link("c", "b")
        assert curator.coalition("a", "b", "c").rho == Fraction(2, 5)
        for name in "abc":
            assert refused(curator, name, 3, "0.11") == str(exhausted(""))
        ask(curator, "b", 3, "0.1")
        ask(curator, "d", 4, "0.5")

    def test_who_knows_too_much_already_is_not_linked(self, opened: Opened) -> None:
        curator = self.opened(opened)
        ask(curator, "a", 1, "0.3")
        ask(curator, "c", 2, "0.3")
        unchanged(curator, "than a coalition may receive", curator.link, "b", "c")
        # the same view at the same accuracy: together they know no more
        ask(curator, "d", 1, "0.3")
        curator.link("b", "d")

    def test_the_disabled_and_the_unregistered_count(self, opened: Opened) -> None:
        curator = self.opened(opened)
        ask(curator, "a", 1, "0.3")
        ask(curator, "c", 2, "0.3")
        curator.disable("c")
        curator.link("a", "stranger")
        unchanged(curator, "than a coalition may receive", curator.link, "stranger", "c")

    def test_a_large_coalition_is_refused(self, opened: Opened) -> None:
        curator = self.opened(opened, most_colluders=2, together=None)
        unchanged(curator, "a coalition of 3", curator.link, "b", "c")
        curator.link("c", "d")

    @pytest.mark.parametrize(
        ("pair", "word"),
        [(("a", "a"), "two different analysts"), (("a", "owner"), "is reserved"), (("a", "c#1"), "cannot be the name of an analyst"),
         (("a", 5), "cannot be the name of an analyst")],
    )  # fmt: skip
    def test_senseless_ones_are_refused(self, opened: Opened, pair: Any, word: str) -> None:
        curator = self.opened(opened)
        unchanged(curator, word, curator.link, *pair)

    def test_without_a_limit_it_would_change_nothing(self, opened: Opened) -> None:
        curator = opened()
        unchanged(curator, "no limit for coalitions", curator.link, "a", "b")

    def test_scripts_go_on_with_the_policy_of_the_opening_and_with_the_new(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        first = Policy(together="0.5", reserve="0.1")
        options = {"ledger": tmp_path / "l", "analysts": EQUAL}
        curator = opened(policy=first, **options)
        curator.link("a", "b")
        curator.link("b", "a")
        curator.set_reserve("0.2")
        curator.set_expansion(2)
        curator.close()
        new = Policy(together="0.5", reserve="0.2", expansion=2, collusion=[("a", "b")])
        for policy in (first, new):
            again = opened(policy=policy, **options)
            ask(again, "a", 1, "0.3")
            assert refused(again, "b", 2, "0.3") == str(exhausted(""))
            again.close()
        with pytest.raises(LedgerError, match="another policy"):
            opened(policy=first.changed(reserve="0.2"), **options)
        kinds = [entry["kind"] for entry in entries(tmp_path / "l")]
        assert kinds.count("policy") == 3


class TestWithdrawal:
    def test_nothing_further_is_granted_and_what_was_learned_stays(self, opened: Opened) -> None:
        curator = opened()
        for rho in ("0.2", "0.1"):
            curator.grant("b", "a", rho=rho)
        ask(curator, "a", 1, "0.3")
        curator.withdraw_grant("b", "a")
        assert curator.session("a").budget.remaining == PrivacyLoss.none()
        assert "but 0 is left" in refused(curator, "a", 2, "0.01")
        found = curator.provenance.rows
        assert [row.known.rho for row in found] == [Fraction(3, 10), 0]
        assert [row.spent.rho for row in found] == [Fraction(1, 4), Fraction(1, 20)]
        curator.grant("b", "a", rho="0.1")
        ask(curator, "a", 2, "0.1")

    def test_there_must_be_something_to_withdraw(self, opened: Opened) -> None:
        curator = opened()
        curator.grant("b", "a", rho="0.1")
        for pair in (("a", "b"), ("b", "c"), (None, 5)):
            unchanged(curator, "no open grant", curator.withdraw_grant, *pair)
        ask(curator, "a", 1, "0.35")
        unchanged(curator, "no open grant", curator.withdraw_grant, "b", "a")

    def test_the_ledger_remembers(self, opened: Opened, tmp_path: Path) -> None:
        curator = opened(ledger=tmp_path / "l")
        curator.grant("b", "a", rho="0.2")
        ask(curator, "a", 1, "0.3")
        curator.withdraw_grant("b", "a")
        before = curator.provenance
        curator.close()
        again = opened(ledger=tmp_path / "l", analysts=None, budget=None)
        assert again.provenance == before
        assert "but 0 is left" in refused(again, "a", 2, "0.01")
