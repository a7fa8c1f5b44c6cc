"""What a refusal for the budget says is true: what it says would pass does, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpnb.curator import Curator
from dpnb.errors import BudgetError
from dpnb.ledger.accounts import FREE, exhausted
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.session import Session

pytestmark = pytest.mark.fast

Opened = Callable[..., Curator]
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"
BOTH = "SELECT sex, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY sex"
ALL = "SELECT COUNT(*) AS k FROM t"
PART = "SELECT COUNT(*) AS k FROM t WHERE sex = 'F'"
OWNER = "Only the owner of the data can allow more. Nothing was charged."


def refusal(session: Session, sql: str = BOTH, **amount: object) -> str:
    before = session.budget
    with pytest.raises(BudgetError) as refused:
        session.query(sql, **amount)  # type: ignore[arg-type]
    assert repr(session.budget) == repr(before)
    return str(refused.value)


class TestOwnLimit:
    @pytest.mark.parametrize(
        ("budget", "name"), [(Budget(rho=1), "rho"), (Budget(epsilon=1), "epsilon")]
    )
    def test_what_is_left_can_be_asked_for(self, opened: Opened, budget: Budget, name: str) -> None:
        session = opened(budget=budget, analysts=None).session()
        assert refusal(session, BY_SEX, **{name: 2}) == (
            f"this costs {name} 2, but 1 is left. "
            f"Ask with {name}=1 or less, or for a larger margin of error. {OWNER}"
        )
        session.query(BY_SEX, **{name: "0.3"})
        said = refusal(session, **{name: 2})
        assert FREE in said
        session.infer(PART)
        session.query(BOTH, **{name: said.partition(f"{name}=")[2].partition(" ")[0]})

    def test_where_nothing_is_left_no_amount_is_named(self, opened: Opened) -> None:
        session = opened(analysts=None).session()
        session.query(BY_SEX, rho=1)
        assert refusal(session, ALL, rho="0.1") == (
            f"this costs rho 0.1, but 0 is left. {FREE}{OWNER}"
        )
        session.infer(PART)

    def test_a_frozen_analyst_is_sent_to_the_owner(self, opened: Opened) -> None:
        curator = opened()
        curator.limit("a", rho=0)
        session = curator.session("a")
        assert refusal(session, rho="0.1") == f"this costs rho 0.1, but 0 is left to you. {OWNER}"
        curator.limit("a", rho="0.1")
        session.query(BOTH, rho="0.1")

    def test_without_delta_less_epsilon_is_no_way(self, opened: Opened) -> None:
        budget = Budget(epsilon=3, delta="2e-9", accountant="basic", release_delta="1e-9")
        session = opened(
            budget=budget, analysts={"a": 1}, policy=Policy(mechanism="vanilla")
        ).session("a")
        session.query(BOTH, epsilon=1)
        assert refusal(session, ALL, epsilon="0.1") == (
            "this costs delta 1e-9, but 0 is left to you. "
            f"Each release costs the same delta, whatever its accuracy. {FREE}{OWNER}"
        )


class TestViewLimit:
    def test_one_analyst_alone_is_told_which_view_and_what_passes(self, opened: Opened) -> None:
        curator = opened(analysts=None, views=[["sex"]])
        curator.limit(view="sex", rho="0.2")
        session = curator.session()
        assert refusal(session, BY_SEX, rho="0.3") == (
            "this costs rho 0.3, but 0.2 is left of the limit of view 'sex'. "
            f"Ask with rho=0.2 or less, or for a larger margin of error. {OWNER}"
        )
        session.query(BY_SEX, rho="0.2")


class TestOthers:
    """Which of the owner's limits it was is the same one text; what it says may pass, may."""

    @pytest.mark.parametrize(
        ("policy", "limit"),
        [
            (Policy(), None),
            (Policy(top=1, collusion=[("a", "b")], together="0.9"), None),
            (Policy(top=1, reserve="0.1"), None),
            (Policy(top=1), {"view": "sex", "rho": "0.9"}),
        ],
        ids=["cap", "coalition", "reserve", "view"],
    )
    def test_a_coarser_answer_may_pass(
        self, opened: Opened, policy: Policy, limit: dict[str, str] | None
    ) -> None:
        curator = opened(analysts={"a": 1, "b": 1}, policy=policy, views=[["sex"]])
        if limit is not None:
            curator.limit(**limit)
        curator.session("b").query("SELECT job, COUNT(*) AS k FROM t GROUP BY job", rho="0.5")
        session = curator.session("a")
        assert not session.price(BY_SEX, rho="0.99").affordable
        assert session.price(BY_SEX, rho="0.3").affordable
        assert refusal(session, BY_SEX, rho="0.99") == str(exhausted(""))
        session.query(BY_SEX, rho="0.3")
        session.infer(PART)
