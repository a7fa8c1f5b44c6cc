"""How limits follow from privileges (docs/methods/dprovdb.md, T10)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnb.errors import RequestError
from dpnb.ledger.policy import MOST_PRIVILEGE, Policy, check_privilege

pytestmark = pytest.mark.fast


def limits(policy: Policy, cap: str, *privileges: int) -> list[float]:
    """The limits of rows with these privileges."""
    rows = {str(place): privilege for place, privilege in enumerate(privileges)}
    policy = policy.changed(top=max(privileges)) if policy.top is None else policy
    return [float(share * Fraction(cap)) for share in policy.shares(rows).values()]


class TestShares:
    @pytest.mark.parametrize(
        ("cap", "privileges", "by_sum", "by_max"),
        [
            ("6.4", (1, 4), [1.28, 5.12], [1.6, 6.4]),
            ("6.4", (1, 9), [0.64, 5.76], [0.7111111111111111, 6.4]),
            ("1", (1, 2, 4), [1 / 7, 2 / 7, 4 / 7], [0.25, 0.5, 1]),
        ],
    )
    def test_by_sum_and_by_max(
        self, cap: str, privileges: tuple[int, ...], by_sum: list[float], by_max: list[float]
    ) -> None:
        """T10: Definitions 5.12 and 5.13."""
        assert limits(Policy(rows="sum"), cap, *privileges) == pytest.approx(by_sum)
        assert limits(Policy(), cap, *privileges) == pytest.approx(by_max)

    def test_expansion_goes_up_to_the_cap(self) -> None:
        """T10: 1.9 times, and no more than there is."""
        assert limits(Policy(expansion="1.9"), "6.4", 1, 4) == pytest.approx([3.04, 6.4])
        assert limits(Policy(rows="sum", expansion=2), "7", 1, 2, 4) == pytest.approx([2, 4, 7])

    def test_static_views_get_equal_or_proportional_shares(self) -> None:
        """T10, E19: proportional to the sensitivity, not to its inverse."""
        norms = {"u": 1, "v": 1, "w": 2}
        shares = Policy(views="proportional").view_shares(norms)
        assert {view: float(share * Fraction("6.4")) for view, share in shares.items()} == {
            "u": 1.6, "v": 1.6, "w": 3.2,
        }  # fmt: skip
        assert set(Policy(views="equal").view_shares(norms).values()) == {Fraction(1, 3)}
        assert set(Policy().view_shares(norms).values()) == {1}

    def test_the_top_is_fixed_so_that_nobodys_share_shrinks(self) -> None:
        policy = Policy(top=10)
        assert policy.shares({"a": 1})["a"] == policy.shares({"a": 1, "b": 10})["a"]

    @given(
        st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 10), min_size=1),
        st.fractions(1, 20),
        st.sampled_from(["max", "sum"]),
    )
    def test_shares_rise_with_privilege_and_end_at_the_whole(
        self, privileges: dict[str, int], expansion: Fraction, rows: str
    ) -> None:
        policy = Policy(rows=rows, expansion=expansion, top=10)
        shares = policy.shares(privileges)
        assert all(0 < share <= 1 for share in shares.values())
        for one, other in zip(shares, reversed(shares), strict=True):
            assert (privileges[one] <= privileges[other]) == (
                shares[one] <= shares[other]
            ) or 1 in (shares[one], shares[other])
        if expansion == 1 and rows == "sum":
            assert sum(shares.values()) == 1
            # proportional fairness: everybody's share is as large as her privilege
            assert len({shares[row] / privileges[row] for row in shares}) == 1


class TestCoalition:
    def test_whoever_is_joined_by_pairs_is_one_coalition(self) -> None:
        policy = Policy(collusion=[("a", "b"), ("c", "b"), ("d", "e")])
        everybody = "abcdef"
        assert policy.coalition("a", everybody) == set("abc")
        assert policy.coalition("c", everybody) == set("abc")
        assert policy.coalition("e", everybody) == set("de")
        assert policy.coalition("f", everybody) == {"f"}

    def test_who_is_not_registered_still_joins_others(self) -> None:
        """b needs no account to carry answers from a to c, and is not counted herself."""
        policy = Policy(collusion=[("a", "b"), ("b", "c")])
        assert policy.coalition("a", {"a", "c"}) == {"a", "c"}


class TestMaking:
    @pytest.mark.parametrize(
        ("wrong", "word"),
        [
            ({"mechanism": "star"}, "mechanism cannot be 'star'"),
            ({"mechanism": None}, "mechanism cannot be None"),
            ({"rows": "equal"}, "rows cannot be 'equal'"),
            ({"views": "static"}, "views cannot be 'static'"),
            ({"expansion": "0.9"}, "expansion must be at least 1"),
            ({"expansion": -1}, "expansion must be above 0, got -1"),
            ({"expansion": "many"}, "expansion"),
            ({"reserve": "1.1"}, "reserve must be at most 1"),
            ({"reserve": -1}, "reserve must be above 0, got -1"),
            ({"top": 0}, "from 1 to 10, got 0"),
            ({"top": 11}, "from 1 to 10, got 11"),
            ({"top": True}, "whole number"),
            ({"top": 4.0}, "whole number"),
            ({"collusion": [("a", "b", "c")]}, "must be a list of pairs"),
            ({"collusion": [("a", 1)]}, "must be a list of pairs"),
            ({"together": 0}, "together must be above 0, got 0"),
            ({"together": 1, "mechanism": "additive"}, "together needs noise paths"),
            ({"together": 1, "mechanism": "vanilla"}, "together needs noise paths"),
        ],
    )
    def test_senseless_rules_are_refused_by_name(self, wrong: dict[str, Any], word: str) -> None:
        with pytest.raises(RequestError, match=word) as refusal:
            Policy(**wrong)
        assert refusal.value.hint

    def test_it_survives_as_plain_data(self) -> None:
        policy = Policy(
            mechanism="path", rows="sum", expansion="1.5", views="equal", top=7, reserve="0.25",
            collusion=[("a", "b")], together="0.5", most_colluders=2,
        )  # fmt: skip
        assert Policy.from_dict(policy.to_dict()) == policy
        assert Policy.from_dict(Policy().to_dict()) == Policy()

    @pytest.mark.parametrize("privilege", [1, 5, MOST_PRIVILEGE])
    def test_privileges_are_1_to_10(self, privilege: int) -> None:
        assert check_privilege(privilege, MOST_PRIVILEGE) == privilege

    @pytest.mark.parametrize("privilege", [0, -1, 11, True, False, 1.0, "4", None, (4,)])
    def test_everything_else_is_refused(self, privilege: object) -> None:
        with pytest.raises(RequestError) as refusal:
            check_privilege(privilege, MOST_PRIVILEGE)
        assert refusal.value.hint
