"""What was spent is a fold over the entries; charges beyond the cap are refused."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnb.errors import BudgetError, LedgerError
from dpnb.privacy.accountant import Accountant, loss
from dpnb.privacy.loss import Budget, PrivacyLoss
from dpnb.privacy.path import Knot

THIRD = Fraction(1, 3)


def state(accountant: Accountant) -> dict[str, object]:
    """What the accountant holds, down to the paths."""
    return {
        name: {key: list(v) if isinstance(v, list) else v for key, v in value.items()}
        if isinstance(value, dict)
        else copy.copy(value)
        for name, value in vars(accountant).items()
    }


def entry(
    accountant: Accountant, analyst: str, levels: Mapping[str, Fraction], request: str = "r"
) -> dict[str, Any]:
    """What the curator would write: the increase as charge, a knot for every new level."""
    held = {view: {knot.level for knot in path} for view, path in accountant.paths.items()}
    return {
        "kind": "answer",
        "analyst": analyst,
        "request": request,
        "query": {},
        "time": "2024-01-01T00:00:00+00:00",
        "sql": "SELECT COUNT(*) FROM t",
        "version": 1,
        "spent": accountant.increase(analyst, levels).to_dict(),
        "levels": {view: str(level) for view, level in levels.items()},
        "knots": {
            view: [[str(level), [1, 2]]]
            for view, level in levels.items()
            if level not in held.get(view, set())
        },
    }


def buy(accountant: Accountant, analyst: str, **levels: Fraction) -> PrivacyLoss:
    """Check and apply one request; return its charge."""
    charge = accountant.increase(analyst, levels)
    accountant.check(charge)
    number = len(accountant.charges) + 1
    accountant.apply(number, entry(accountant, analyst, levels, f"r{number}"))
    return charge


@pytest.fixture(params=["zcdp", "pure"])
def accountant(request: pytest.FixtureRequest) -> Accountant:
    """An accountant with a cap of 1 in either currency."""
    return Accountant(Budget(rho=1) if request.param == "zcdp" else Budget(epsilon=1))


class TestLoss:
    def test_views_add_and_a_view_costs_its_finest_level(self) -> None:
        held = {
            ("alice", "v"): Fraction(1, 10),
            ("bob", "v"): Fraction(3, 10),
            ("alice", "w"): Fraction(1, 5),
        }
        assert loss(held, "zcdp") == PrivacyLoss(rho=Fraction(1, 2), epsilon=None)
        assert loss(held, "pure").epsilon == Fraction(1, 2)
        assert loss(held, "pure").rho == Fraction(9, 200) + Fraction(1, 50)

    def test_is_a_pure_function_that_ignores_order(self) -> None:
        held = {
            (analyst, view): Fraction(i, 7)
            for i, (analyst, view) in enumerate(product(("alice", "bob"), "uvw"), start=1)
        }
        before = copy.deepcopy(held)
        assert loss(held, "zcdp") == loss(dict(reversed(held.items())), "zcdp")
        assert held == before

    def test_nothing_held_costs_nothing(self) -> None:
        assert loss({}, "zcdp") == loss({}, "pure") == PrivacyLoss.none()


class TestIncrease:
    def test_refining_costs_the_difference(self, accountant: Accountant) -> None:
        currency = accountant.currency
        assert buy(accountant, "alice", v=Fraction(1, 20)).level(currency) == Fraction(1, 20)
        assert buy(accountant, "alice", v=Fraction(2, 25)).level(currency) == Fraction(3, 100)
        assert accountant.spent.level(currency) == Fraction(2, 25)

    def test_what_is_held_or_coarser_is_free(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=THIRD)
        for level in (THIRD, THIRD / 2, Fraction(1, 10**9)):
            assert accountant.increase("alice", {"v": level}).level(accountant.currency) == 0

    def test_a_second_analyst_pays_nothing_for_what_the_first_one_bought(
        self, accountant: Accountant
    ) -> None:
        buy(accountant, "alice", v=THIRD)
        assert buy(accountant, "bob", v=THIRD).level(accountant.currency) == 0
        assert accountant.level("bob", "v") == THIRD
        assert accountant.spent.level(accountant.currency) == THIRD

    def test_asking_the_price_changes_nothing(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=THIRD)
        before = state(accountant)
        accountant.increase("bob", {"v": Fraction(2, 3), "w": Fraction(1)})
        accountant.remaining()
        accountant.look("bob", {"v": THIRD})
        assert state(accountant) == before


class TestCheck:
    def test_the_cap_can_be_spent_to_the_last_bit_and_no_further(
        self, accountant: Accountant
    ) -> None:
        for number in range(10):
            buy(accountant, "alice", **{f"v{number}": Fraction(1, 10)})
        assert accountant.remaining().level(accountant.currency) == 0
        tiny = PrivacyLoss.of(Fraction(1, 10**30), accountant.currency)
        with pytest.raises(BudgetError):
            accountant.check(tiny)
        accountant.check(PrivacyLoss.none())

    def test_the_third_charge_of_a_cap_of_1_is_refused(self, accountant: Accountant) -> None:
        buy(accountant, "alice", a=Fraction(4, 10))
        buy(accountant, "alice", b=Fraction(4, 10))
        with pytest.raises(BudgetError) as refusal:
            buy(accountant, "alice", c=Fraction(3, 10))
        assert accountant.spent.level(accountant.currency) == Fraction(8, 10)
        name = "rho" if accountant.currency == "zcdp" else "epsilon"
        assert refusal.value.what == f"this costs {name} 0.3, but 0.2 is left"
        assert "Nothing was charged" in refusal.value.mend

    def test_a_refusal_depends_on_charges_alone(self) -> None:
        texts = set()
        for numbers in ([0, 0], [10**9, -5]):
            accountant = Accountant(Budget(rho=1))
            made = entry(accountant, "alice", {"v": Fraction(9, 10)})
            made["knots"]["v"][0][1] = numbers
            accountant.apply(1, made)
            with pytest.raises(BudgetError) as refusal:
                accountant.check(accountant.increase("alice", {"w": THIRD}))
            texts.add(str(refusal.value))
        assert len(texts) == 1


class TestReplay:
    def test_a_charge_that_is_not_what_its_releases_cost_is_refused(
        self, accountant: Accountant
    ) -> None:
        buy(accountant, "alice", v=THIRD)
        for wrong in (Fraction(0), THIRD - Fraction(1, 10**20), Fraction(2, 3)):
            made = entry(accountant, "alice", {"v": Fraction(2, 3)})
            made["spent"] = PrivacyLoss.of(wrong, accountant.currency).to_dict()
            with pytest.raises(LedgerError, match="entry 7 of the ledger does not add up"):
                accountant.apply(7, made)
        right = entry(accountant, "alice", {"v": Fraction(2, 3)})
        accountant.apply(7, right)
        assert accountant.spent.level(accountant.currency) == Fraction(2, 3)

    def test_a_ledger_beyond_its_cap_is_refused(self, accountant: Accountant) -> None:
        made = entry(accountant, "alice", {"v": 1 + Fraction(1, 10**12)})
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply(1, made)

    def test_a_level_without_its_knot_is_refused(self, accountant: Accountant) -> None:
        made = entry(accountant, "alice", {"v": THIRD})
        made["knots"] = {}
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply(1, made)

    def test_the_same_entries_give_the_same_state(self, accountant: Accountant) -> None:
        entries = []
        for analyst, levels in (
            ("alice", {"v": THIRD}),
            ("bob", {"v": THIRD / 2, "w": THIRD}),
            ("alice", {"v": THIRD + Fraction(1, 7)}),
        ):
            entries.append(entry(accountant, analyst, levels, f"r{len(entries)}"))
            accountant.apply(len(entries), entries[-1])
        again = Accountant(accountant.budget)
        for number, made in enumerate(entries, start=1):
            again.apply(number, made)
        assert again == accountant


class TestState:
    def test_paths_are_kept_from_coarse_to_fine(self, accountant: Accountant) -> None:
        for level in (Fraction(1, 5), Fraction(1, 3), Fraction(1, 4)):
            buy(accountant, "alice", v=level)
        assert [knot.level for knot in accountant.paths["v"]] == [
            Fraction(1, 5),
            Fraction(1, 4),
            Fraction(1, 3),
        ]
        assert accountant.knot("v", Fraction(1, 4)) == Knot(Fraction(1, 4), (1, 2))

    def test_looks_count_the_versions_that_one_analyst_has_seen(
        self, accountant: Accountant
    ) -> None:
        assert accountant.look("alice", {"v": THIRD}) == 1
        buy(accountant, "alice", v=THIRD / 2)
        buy(accountant, "alice", v=THIRD / 2)
        assert accountant.look("alice", {"v": THIRD / 2}) == 1
        assert accountant.look("alice", {"v": THIRD}) == 2
        assert accountant.look("bob", {"v": THIRD}) == 1
        assert accountant.look("alice", {"w": THIRD}) == 1

    def test_two_views_raised_in_turn_make_a_look_each(self, accountant: Accountant) -> None:
        shown = []
        for number in range(1, 4):
            for views in ({"v": number, "w": number}, {"v": number + 1, "w": number}):
                levels = {view: Fraction(n, 20) for view, n in views.items()}
                shown.append(accountant.look("alice", levels))
                buy(accountant, "alice", **levels)
        assert shown == [1, 2, 3, 4, 5, 6]
        assert accountant.look("alice", {"v": Fraction(1, 20), "w": Fraction(1, 20)}) == 1

    def test_history_holds_the_analysts_own_requests_in_order(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=Fraction(1, 10))
        buy(accountant, "bob", v=Fraction(2, 10))
        buy(accountant, "alice", w=Fraction(1, 10))
        assert [charge.sequence for charge in accountant.history("alice")] == [1, 3]
        assert [charge.sequence for charge in accountant.history("bob")] == [2]

    @pytest.mark.parametrize("kind", ["answer", "release"])
    def test_what_was_released_conditionally_is_known_by_name(
        self, accountant: Accountant, kind: str
    ) -> None:
        buy(accountant, "alice", u=Fraction(1, 10))
        assert accountant.conditional == set()
        made = entry(accountant, "alice", {"v": Fraction(1, 10)}) | {"conditional": True}
        if kind == "answer":
            accountant.apply(2, made)
        else:
            unit = "rho" if accountant.currency == "zcdp" else "epsilon"
            accountant.apply_release(2, made | {"query": {unit: {"all": "0.1"}}, "drawn": {}})
        assert accountant.conditional == {"v" if kind == "answer" else "r"}
        plain, marked = accountant.history("alice")
        assert (plain.conditional, marked.conditional) == (False, True)

    def test_shows_what_was_spent_and_no_release(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=Fraction(1, 10))
        assert "Knot" not in repr(accountant)
        assert "0.1" in repr(accountant)


requests = st.lists(
    st.tuples(
        st.sampled_from(["alice", "bob"]),
        st.dictionaries(
            st.sampled_from(["u", "v", "w"]),
            st.fractions(Fraction(1, 1000), Fraction(1), max_denominator=1000),
            min_size=1,
        ),
    ),
    max_size=25,
)


class TestAnySequence:
    @given(requests, st.sampled_from([Budget(rho=1), Budget(epsilon=1), Budget(rho="0.7")]))
    def test_spent_is_the_loss_of_what_is_held_and_never_above_the_cap(
        self, asked: list[tuple[str, dict[str, Fraction]]], budget: Budget
    ) -> None:
        accountant = Accountant(budget)
        currency, sum_of_charges = accountant.currency, Fraction(0)
        for analyst, wanted in asked:
            served = {v: max(x, accountant.level(analyst, v)) for v, x in wanted.items()}
            before = state(accountant)
            try:
                charge = buy(accountant, analyst, **served)
            except BudgetError:
                cost = accountant.increase(analyst, served).level(currency)
                assert accountant.spent.level(currency) + cost > accountant.cap.level(currency)
                assert state(accountant) == before
                continue
            sum_of_charges += charge.level(currency)
            assert accountant.spent == loss(accountant.held, currency)
            assert accountant.spent.level(currency) == sum_of_charges
            assert sum_of_charges <= accountant.cap.level(currency)
            assert accountant.remaining().level(currency) == (
                accountant.cap.level(currency) - sum_of_charges
            )
            for view, level in served.items():
                assert accountant.level(analyst, view) == level
                assert accountant.knot(view, level).level == level
