"""What was spent is a fold over the entries; charges beyond the cap are refused."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb.errors import BudgetError, LedgerError, RequestError
from dpnb.ledger.accountant import Accountant, left_of, loss, plain_step, read_step
from dpnb.ledger.mechanism import MECHANISMS, LevelTarget, Name, Step, Synopses
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import BASIC, PURE, ZCDP
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.parallel import region
from dpnb.privacy.path import Version

pytestmark = pytest.mark.fast

THIRD = Fraction(1, 3)
NONE = PrivacyLoss.none()
WHOLE = {
    "table": "t", "version": 1, "unit": None, "keys": [], "where": {"and": []},
    "measure": ["count", None],
}  # fmt: skip
"""The definition of a view of all rows; such views add up, whatever they are called."""
NAMES = dict.fromkeys([*"abcuvw", *(f"v{number}" for number in range(10))], WHOLE)


def state(accountant: Accountant) -> dict[str, object]:
    """What the accountant holds, down to the synopses; not what it only remembers to be quick."""
    held = {**vars(accountant), **vars(accountant.synopses)}
    for name in ("synopses", "_looks", "_priced", "_applied", "mechanism"):
        del held[name]
    return {
        name: {
            key: list(v) if isinstance(v, list) else dict(v) if isinstance(v, dict) else v
            for key, v in value.items()
        }
        if isinstance(value, dict)
        else copy.copy(value)
        for name, value in held.items()
    }


def entry(
    accountant: Accountant,
    analyst: str,
    levels: Mapping[str, Fraction],
    request: str = "r",
) -> dict[str, Any]:
    """What the curator would write: the increases, and a vector for every new level."""
    state = accountant.synopses
    cost = accountant.cost(analyst, {view: LevelTarget(x) for view, x in levels.items()}, NAMES)
    versions, own = {}, {}
    for view, step in cost.steps.items():
        if accountant.mechanism_name == "path":
            if step.level not in {version.level for version in state.paths.get(view, ())}:
                versions[view] = [[str(step.level), [1, 2]]]
        else:
            if step.fresh and accountant.mechanism_name == "additive":
                versions[view] = [[str(step.source), [1, 2]]]
            if step.level not in state.locals.get((analyst, view), {}):
                own[view] = [str(step.level), str(step.source), [1, 2]]
    made: dict[str, Any] = {
        "kind": "answer",
        "analyst": analyst,
        "request": request,
        "query": {},
        "time": "2024-01-01T00:00:00+00:00",
        "sql": "SELECT COUNT(*) FROM t",
        "version": 1,
        "spent": cost.table.to_dict(),
        "row": cost.row.to_dict(),
        "levels": {view: str(step.level) for view, step in cost.steps.items()},
        "views": {view: NAMES[view] for view in cost.steps},
        "knots": versions,
    }
    if accountant.mechanism_name != "path":
        made |= {
            "locals": own,
            "steps": {view: plain_step(step) for view, step in cost.steps.items()},
            "wishes": {view: [str(x), None] for view, x in levels.items()},
        }
    return made


def once(
    accountant: Accountant, analyst: str, request: str, amount: Fraction, **changed: Any
) -> dict[str, Any]:
    """What the curator would write of a one-off release."""
    price = PrivacyLoss.of(amount, accountant.privacy)
    cost = accountant.once_cost(request, price)
    unit = "rho" if accountant.privacy in ("zcdp", "gdp") else "epsilon"
    return {
        **entry(accountant, analyst, {}, request),
        "kind": "release",
        "query": {unit: {"all": str(amount)}},
        "drawn": {} if request not in accountant.releases else None,
        "spent": cost.table.to_dict(),
        "row": cost.row.to_dict(),
        **changed,
    }


def buy(accountant: Accountant, analyst: str, **levels: Fraction) -> PrivacyLoss:
    """Check and apply one request; return what it adds to what all together know."""
    charge = accountant.cost(
        analyst, {view: LevelTarget(level) for view, level in levels.items()}, NAMES
    ).table
    accountant.check(charge)
    number = len(accountant.charges) + 1
    accountant.apply(number, entry(accountant, analyst, levels, f"r{number}"))
    return charge


def row_of(accountant: Accountant, analyst: str, **levels: Fraction) -> Fraction:
    """What one request adds to what its analyst knows."""
    cost = accountant.cost(
        analyst, {view: LevelTarget(level) for view, level in levels.items()}, NAMES
    )
    return cost.row.level(accountant.privacy)


@pytest.fixture(params=[ZCDP, PURE])
def accountant(request: pytest.FixtureRequest) -> Accountant:
    """An accountant with a cap of 1 in either privacy."""
    return Accountant(Budget(rho=1) if request.param == ZCDP else Budget(epsilon=1))


def known(**cells: Fraction) -> Synopses:
    """Paths on which rows hold cells, named like ``alice_v``."""
    made = Synopses(ZCDP, Fraction(1, 10**9))
    for name, level in cells.items():
        row, _, view = name.partition("_")
        step = MECHANISMS["path"].step(made, row, view, LevelTarget(level))
        made.note(row, view, step)
        made.regions[view] = region(WHOLE)
    return made


class TestLoss:
    PATH = MECHANISMS["path"]

    def test_views_add_and_a_view_costs_its_finest_level(self) -> None:
        made = known(alice_v=Fraction(1, 10), bob_v=Fraction(3, 10), alice_w=Fraction(1, 5))
        assert loss(made, self.PATH, {}, ("alice", "bob")) == PrivacyLoss(rho=Fraction(1, 2))
        assert loss(made, self.PATH, {}, ("alice",)) == PrivacyLoss(rho=Fraction(3, 10))
        assert loss(made, self.PATH, {}, ("bob",)) == PrivacyLoss(rho=Fraction(3, 10))

    def test_pure_epsilons_add_and_their_squares_are_rho(self) -> None:
        made = Synopses(PURE, Fraction(0))
        for view, level in (("v", Fraction(3, 10)), ("w", Fraction(1, 5))):
            made.regions[view] = region(WHOLE)
            made.note("alice", view, self.PATH.step(made, "alice", view, LevelTarget(level)))
        found = loss(made, self.PATH, {}, ("alice",))
        assert found.epsilon == Fraction(1, 2)
        assert found.rho == Fraction(9, 200) + Fraction(1, 50)

    def test_each_distinct_one_off_release_counts_once(self) -> None:
        price = {"r": PrivacyLoss(rho=Fraction(1, 10)), "s": PrivacyLoss(rho=Fraction(1, 7))}
        held = {("alice", "r"): price["r"], ("bob", "r"): price["r"], ("bob", "s"): price["s"]}
        both = Fraction(1, 10) + Fraction(1, 7)
        made = known(alice_v=THIRD)
        assert loss(made, self.PATH, held, ("alice", "bob")).rho == THIRD + both
        assert loss(made, self.PATH, held, ("alice",)).rho == THIRD + Fraction(1, 10)
        assert loss(made, self.PATH, held, ("bob",)).rho == both

    def test_is_a_pure_function_that_ignores_order(self) -> None:
        cells = {
            f"{analyst}_{view}": Fraction(i, 7)
            for i, (analyst, view) in enumerate(product(("alice", "bob"), "uvw"), start=1)
        }
        made, other = known(**cells), known(**dict(reversed(cells.items())))
        before = dict(made.cells)
        for rows in (("alice", "bob"), ("bob", "alice"), ("alice",), ()):
            assert loss(made, self.PATH, {}, rows) == loss(other, self.PATH, {}, rows)
        assert made.cells == before

    def test_nothing_held_costs_nothing(self) -> None:
        assert loss(known(), self.PATH, {}, ("alice",)) == NONE
        assert loss(known(alice_v=THIRD), self.PATH, {}, ()) == NONE
        assert loss(known(alice_v=THIRD), self.PATH, {}, ("carol",)) == NONE


class TestCost:
    def test_refining_costs_the_difference(self, accountant: Accountant) -> None:
        privacy = accountant.privacy
        assert buy(accountant, "alice", v=Fraction(1, 20)).level(privacy) == Fraction(1, 20)
        assert buy(accountant, "alice", v=Fraction(2, 25)).level(privacy) == Fraction(3, 100)
        assert accountant.spent.level(privacy) == Fraction(2, 25)

    def test_what_is_held_or_coarser_is_free(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=THIRD)
        for level in (THIRD, THIRD / 2, Fraction(1, 10**9)):
            cost = accountant.cost("alice", {"v": LevelTarget(level)}, NAMES)
            assert (cost.table, cost.row) == (NONE, NONE)

    def test_a_second_analyst_adds_nothing_to_what_is_known_already(
        self, accountant: Accountant
    ) -> None:
        buy(accountant, "alice", v=THIRD)
        assert row_of(accountant, "bob", v=THIRD) == THIRD
        assert buy(accountant, "bob", v=THIRD).level(accountant.privacy) == 0
        assert accountant.level("bob", "v") == THIRD
        assert accountant.spent.level(accountant.privacy) == THIRD
        for rows in (("alice",), ("bob",), ("alice", "bob")):
            assert accountant.loss(rows).level(accountant.privacy) == THIRD

    def test_a_row_pays_for_what_its_analyst_learns_whatever_others_hold(
        self, accountant: Accountant
    ) -> None:
        prices = [row_of(accountant, "alice", v=THIRD)]
        for level in (Fraction(1, 10), Fraction(1, 2)):
            buy(accountant, "bob", v=level)
            prices.append(row_of(accountant, "alice", v=THIRD))
        assert prices == [THIRD] * 3
        cost = accountant.cost("alice", {"v": LevelTarget(Fraction(3, 4))}, NAMES)
        assert cost.row.level(accountant.privacy) == Fraction(3, 4)
        assert cost.table.level(accountant.privacy) == Fraction(1, 4)

    def test_rows_and_coalitions_follow_from_the_entries(self, accountant: Accountant) -> None:
        privacy = accountant.privacy
        buy(accountant, "alice", v=Fraction(1, 10), w=Fraction(1, 5))
        buy(accountant, "bob", v=Fraction(3, 10))
        assert {row: known.level(privacy) for row, known in accountant.known.items()} == {
            "alice": Fraction(3, 10),
            "bob": Fraction(3, 10),
        }
        assert accountant.loss(("alice", "bob")).level(privacy) == Fraction(1, 2)

    def test_a_price_is_that_of_the_newest_state(self, accountant: Accountant) -> None:
        asked = {"v": LevelTarget(THIRD), "w": LevelTarget(THIRD / 2)}
        for analyst, level in (("bob", THIRD / 4), ("alice", THIRD / 3), ("alice", THIRD)):
            before = accountant.cost("alice", asked, NAMES)
            buy(accountant, analyst, v=level)
            own = accountant.cost(analyst, {"v": LevelTarget(level)}, {"v": NAMES["v"]})
            assert (own.table, own.row) == (NONE, NONE)
            now = accountant.cost("alice", asked, NAMES)
            assert now == accountant.cost("alice", asked, NAMES, accountant.synopses.sketch())
            assert (now == before) == (analyst == "bob" and now.table == before.table)
        assert (
            accountant.cost("bob", asked, NAMES).row != accountant.cost("alice", asked, NAMES).row
        )

    def test_asking_the_price_changes_nothing(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=THIRD)
        before = state(accountant)
        accountant.cost(
            "bob", {"v": LevelTarget(Fraction(2, 3)), "w": LevelTarget(Fraction(1))}, NAMES
        )
        accountant.remaining()
        accountant.loss(("alice",))
        accountant.once_cost("r", NONE)
        accountant.look("bob", {"v": THIRD})
        assert state(accountant) == before


class TestCheck:
    def test_the_cap_can_be_spent_to_the_last_bit_and_no_further(
        self, accountant: Accountant
    ) -> None:
        for number in range(10):
            buy(accountant, "alice", **{f"v{number}": Fraction(1, 10)})
        assert accountant.remaining().level(accountant.privacy) == 0
        tiny = PrivacyLoss.of(Fraction(1, 10**30), accountant.privacy)
        with pytest.raises(BudgetError):
            accountant.check(tiny)
        accountant.check(NONE)

    def test_the_third_charge_of_a_cap_of_1_is_refused(self, accountant: Accountant) -> None:
        buy(accountant, "alice", a=Fraction(4, 10))
        buy(accountant, "alice", b=Fraction(4, 10))
        with pytest.raises(BudgetError) as refusal:
            buy(accountant, "alice", c=Fraction(3, 10))
        assert accountant.spent.level(accountant.privacy) == Fraction(8, 10)
        name = "rho" if accountant.privacy == "zcdp" else "epsilon"
        assert refusal.value.what == f"this costs {name} 0.3, but 0.2 is left"
        assert "Nothing was charged" in refusal.value.hint

    def test_a_refusal_depends_on_charges_alone(self) -> None:
        texts = set()
        for numbers in ([0, 0], [10**9, -5]):
            accountant = Accountant(Budget(rho=1))
            made = entry(accountant, "alice", {"v": Fraction(9, 10)})
            made["knots"]["v"][0][1] = numbers
            accountant.apply(1, made)
            with pytest.raises(BudgetError) as refusal:
                accountant.check(accountant.cost("alice", {"w": LevelTarget(THIRD)}, NAMES).table)
            texts.add(str(refusal.value))
        assert len(texts) == 1

    def test_basic_counts_delta_as_well(self) -> None:
        budget = Budget(epsilon=1, delta="2e-9", accountant="basic")
        accountant = Accountant(budget, "vanilla")
        one = PrivacyLoss(Fraction(0), Fraction(1, 10), Fraction(1, 10**9))
        accountant.check(one + one)
        with pytest.raises(BudgetError) as refusal:
            accountant.check(one + one + one)
        assert refusal.value.what == "this costs delta 3e-9, but 2e-9 is left"
        left = left_of(accountant.cap, one, BASIC)
        assert (left.epsilon, left.delta) == (Fraction(9, 10), Fraction(1, 10**9))


class TestOnce:
    AMOUNT = Fraction(1, 4)

    def test_the_second_holder_pays_in_full_and_all_together_nothing(
        self, accountant: Accountant
    ) -> None:
        privacy = accountant.privacy
        for number, name in enumerate(("alice", "bob"), start=1):
            accountant.apply_release(number, once(accountant, name, "r", self.AMOUNT))
        assert accountant.spent.level(privacy) == self.AMOUNT
        for rows in (("alice",), ("bob",), ("alice", "bob")):
            assert accountant.loss(rows).level(privacy) == self.AMOUNT
            assert [accountant.known[row].level(privacy) for row in rows] == [self.AMOUNT] * len(
                rows
            )
        assert accountant.history("bob")[0].spent == NONE
        assert accountant.history("bob")[0].row.level(privacy) == self.AMOUNT

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"row": NONE.to_dict()}, id="nothing for the row"),
            pytest.param({"spent": NONE.to_dict()}, id="nothing for all"),
            pytest.param({"drawn": None}, id="nothing drawn"),
            pytest.param({"query": {"rho": {}, "epsilon": {}}}, id="no parts"),
        ],
    )
    def test_a_price_that_is_not_paid_is_refused(
        self, accountant: Accountant, change: dict[str, Any]
    ) -> None:
        before = state(accountant)
        with pytest.raises(LedgerError, match="entry 4 of the ledger does not add up"):
            accountant.apply_release(4, once(accountant, "alice", "r", self.AMOUNT, **change))
        assert state(accountant) == before

    def test_a_release_is_drawn_once(self, accountant: Accountant) -> None:
        accountant.apply_release(1, once(accountant, "alice", "r", self.AMOUNT))
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply_release(2, once(accountant, "bob", "r", self.AMOUNT, drawn={}))
        assert "bob" not in accountant.known


class TestReplay:
    @pytest.mark.parametrize("name", ["spent", "row"])
    def test_a_charge_below_what_its_releases_cost_is_refused(
        self, accountant: Accountant, name: str
    ) -> None:
        buy(accountant, "alice", v=THIRD)
        for wrong in (Fraction(-1), Fraction(0), THIRD - Fraction(1, 10**20)):
            made = entry(accountant, "alice", {"v": Fraction(2, 3)})
            made[name] = PrivacyLoss.of(wrong, accountant.privacy).to_dict()
            with pytest.raises(LedgerError, match="entry 7 of the ledger does not add up"):
                accountant.apply(7, made)
        right = entry(accountant, "alice", {"v": Fraction(2, 3)})
        accountant.apply(7, right)
        assert accountant.spent.level(accountant.privacy) == Fraction(2, 3)

    @pytest.mark.parametrize("name", ["spent", "row"])
    def test_a_charge_above_what_its_releases_cost_counts_as_it_is(
        self, accountant: Accountant, name: str
    ) -> None:
        """The bound that it rests on was a coarser one; what was charged too much is used up first."""
        made, half = entry(accountant, "alice", {"v": THIRD}), Fraction(1, 2)
        made[name] = PrivacyLoss.of(half, accountant.privacy).to_dict()
        accountant.apply(7, made)
        paid = accountant.spent if name == "spent" else accountant.known["alice"]
        assert paid.level(accountant.privacy) == half
        assert accountant.loss(("alice",)).level(accountant.privacy) == THIRD
        made = entry(accountant, "alice", {"v": Fraction(3, 5)})
        accountant.apply(8, made)
        paid = accountant.spent if name == "spent" else accountant.known["alice"]
        assert paid.level(accountant.privacy) == Fraction(3, 5)

    def test_a_charge_above_what_its_releases_cost_stays_below_the_cap(
        self, accountant: Accountant
    ) -> None:
        made = entry(accountant, "alice", {"v": THIRD})
        made["spent"] = PrivacyLoss.of(Fraction(2), accountant.privacy).to_dict()
        before = state(accountant)
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply(7, made)
        assert state(accountant) == before

    def test_a_charge_without_an_epsilon_is_refused_where_epsilons_count(self) -> None:
        accountant = Accountant(Budget(epsilon=1))
        made = entry(accountant, "alice", {"v": THIRD})
        made["spent"] = PrivacyLoss(Fraction(1), None).to_dict()
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply(7, made)

    def test_a_ledger_beyond_its_cap_is_refused(self, accountant: Accountant) -> None:
        made = entry(accountant, "alice", {"v": 1 + Fraction(1, 10**12)})
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply(1, made)

    def test_a_level_without_its_knot_is_refused(self, accountant: Accountant) -> None:
        made = entry(accountant, "alice", {"v": THIRD})
        made["knots"] = {}
        with pytest.raises(LedgerError, match="does not add up"):
            accountant.apply(1, made)

    def test_so_is_a_refinement_without_its_own(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=THIRD)
        made = entry(accountant, "alice", {"v": 2 * THIRD}, "r2")
        for versions in ({}, {"v": [[str(THIRD / 2), [1, 2]]]}):
            with pytest.raises(LedgerError, match="does not add up"):
                accountant.apply(2, {**made, "knots": versions})
        accountant.apply(2, made)

    def test_the_same_entries_give_the_same_state(self, accountant: Accountant) -> None:
        entries = []
        for analyst, levels in (
            ("alice", {"v": THIRD}),
            ("bob", {"v": THIRD / 2, "w": THIRD}),
            ("alice", {"v": THIRD + Fraction(1, 7)}),
        ):
            entries.append(entry(accountant, analyst, levels, f"r{len(entries)}"))
            accountant.apply(len(entries), entries[-1])
        entries.append(once(accountant, "bob", "once", Fraction(1, 10)))
        accountant.apply_release(len(entries), entries[-1])
        again = Accountant(accountant.budget)
        for number, made in enumerate(entries, start=1):
            (again.apply if made["kind"] == "answer" else again.apply_release)(number, made)
        assert again == accountant
        assert state(again) == state(accountant)

    @pytest.mark.parametrize("mechanism", ["additive", "vanilla"])
    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(lambda made: made.pop("steps"), id="no steps"),
            pytest.param(lambda made: made.update(steps={}), id="a step is missing"),
            pytest.param(lambda made: made.update(locals={}), id="nothing drawn"),
            pytest.param(lambda made: made.update(spent=NONE.to_dict()), id="nothing for all"),
            pytest.param(lambda made: made.update(row=NONE.to_dict()), id="nothing for the row"),
            pytest.param(lambda made: made["levels"].update(v="9/10"), id="a finer level"),
            pytest.param(
                lambda made: (
                    made["steps"]["v"].update(column=made["steps"]["v"]["cell"]),
                    made.update(spent=NONE.to_dict()),
                    made["steps"]["v"]["column"].update(rho="1/100"),
                ),
                id="less known by all",
            ),
            pytest.param(
                lambda made: (
                    made["steps"]["v"].update(cell=NONE.to_dict()),
                    made.update(row=NONE.to_dict()),
                ),
                id="nothing known",
            ),
            pytest.param(lambda made: made["steps"]["v"].update(fresh="1/1000"), id="less noise"),
            pytest.param(lambda made: made["steps"]["v"].update(source="2"), id="another source"),
            pytest.param(
                lambda made: made["wishes"].update(v=["1/1000", None]), id="another target"
            ),
            pytest.param(lambda made: made.pop("wishes"), id="no targets"),
            pytest.param(
                lambda made: made["locals"].update(v=["9/10", "9/10", [1]]), id="a finer vector"
            ),
        ],
    )
    def test_entries_of_other_mechanisms_are_checked_too(self, mechanism: Name, wrong: Any) -> None:
        budget = Budget(epsilon=9, delta=1e-6, accountant="basic")
        accountant = Accountant(budget, mechanism)
        buy(accountant, "bob", v=Fraction(1, 100))
        made = entry(accountant, "alice", {"v": Fraction(1, 10)})
        before = state(accountant)
        wrong(made)
        with pytest.raises((LedgerError, KeyError)):
            accountant.apply(2, made)
        assert state(accountant) == before

    @pytest.mark.parametrize("mechanism", ["additive", "vanilla"])
    def test_the_other_mechanisms_replay_too(self, mechanism: Name) -> None:
        budget = Budget(epsilon=30, delta=1e-6, accountant="basic")
        first, again = Accountant(budget, mechanism), Accountant(budget, mechanism)
        for number, (analyst, level) in enumerate(
            (("alice", "0.1"), ("bob", "0.05"), ("bob", "0.2"), ("alice", "0.2")), start=1
        ):
            made = entry(first, analyst, {"v": Fraction(level)}, f"r{number}")
            first.apply(number, made)
            again.apply(number, made)
        assert state(again) == state(first)
        assert first.vector("bob", "v", Fraction("0.05")) == (1, 2)


class TestState:
    def test_paths_are_kept_from_coarse_to_fine(self, accountant: Accountant) -> None:
        for level in (Fraction(1, 5), Fraction(1, 3), Fraction(1, 4)):
            buy(accountant, str(level), v=level)
        assert [version.level for version in accountant.synopses.paths["v"]] == [
            Fraction(1, 5),
            Fraction(1, 4),
            Fraction(1, 3),
        ]
        assert accountant.version("v", Fraction(1, 4)) == Version(Fraction(1, 4), (1, 2))

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

    def test_an_identifier_belongs_to_one_request_of_one_analyst(
        self, accountant: Accountant
    ) -> None:
        made = entry(accountant, "alice", {"v": THIRD}, "first") | {"identifier": "x"}
        accountant.apply(1, made)
        accountant.check_identifier("alice", "x", "first")
        accountant.check_identifier("alice", None, "second")
        accountant.check_identifier("bob", "x", "second")
        with pytest.raises(RequestError, match="used for another request"):
            accountant.check_identifier("alice", "x", "second")
        # also under another of her privileges
        with pytest.raises(RequestError, match="used for another request"):
            accountant.check_identifier("alice#2", "x", "second")

    def test_that_of_a_decision_belongs_to_all_its_steps(self, accountant: Accountant) -> None:
        made = entry(accountant, "alice", {"v": THIRD}, "first") | {"identifier": "x step 1"}
        accountant.apply(1, made)
        accountant.check_identifier("alice", "x step 1", "first")
        accountant.check_identifier("alice", "x step 2", "second")
        for name, request in (("x step 1", "other"), ("x", "first"), ("x", "other")):
            with pytest.raises(RequestError, match="used for another request"):
                accountant.check_identifier("alice", name, request)
        accountant.keep_identifier("alice", "y", "plain")
        with pytest.raises(RequestError, match="used for another request"):
            accountant.check_identifier("alice", "y step 1", "first")

    @pytest.mark.parametrize("kind", ["answer", "release"])
    def test_what_was_released_conditionally_is_known_by_name(
        self, accountant: Accountant, kind: str
    ) -> None:
        buy(accountant, "alice", u=Fraction(1, 10))
        assert accountant.conditional == set()
        if kind == "answer":
            made = entry(accountant, "alice", {"v": Fraction(1, 10)}) | {"conditional": True}
            accountant.apply(2, made)
        else:
            made = once(accountant, "alice", "r", Fraction(1, 10), conditional=True)
            accountant.apply_release(2, made)
        assert accountant.conditional == {"v" if kind == "answer" else "r"}
        plain, marked = accountant.history("alice")
        assert (plain.conditional, marked.conditional) == (False, True)

    def test_shows_what_was_spent_and_no_release(self, accountant: Accountant) -> None:
        buy(accountant, "alice", v=Fraction(1, 10))
        assert "Version" not in repr(accountant)
        assert "0.1" in repr(accountant)

    def test_steps_survive_as_plain_data(self) -> None:
        basic = PrivacyLoss(Fraction(1, 8), Fraction(1, 2), Fraction(1, 10**9))
        step = Step(THIRD, Fraction(2, 3), PrivacyLoss(rho=THIRD), basic, Fraction(1, 7))
        assert read_step(plain_step(step)) == step


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
ROWS = ("alice", "bob")


class TestAnySequence:
    @settings(max_examples=50)
    @given(requests, st.sampled_from([Budget(rho=1), Budget(epsilon=1), Budget(rho="0.7")]))
    def test_spent_is_the_loss_of_what_is_held_and_never_above_the_cap(
        self, asked: list[tuple[str, dict[str, Fraction]]], budget: Budget
    ) -> None:
        accountant = Accountant(budget)
        privacy, sum_of_charges = accountant.privacy, Fraction(0)
        for analyst, wanted in asked:
            served = {v: max(x, accountant.level(analyst, v)) for v, x in wanted.items()}
            before = state(accountant)
            try:
                charge = buy(accountant, analyst, **served)
            except BudgetError:
                targets = {view: LevelTarget(level) for view, level in served.items()}
                cost = accountant.cost(analyst, targets, NAMES).table.level(privacy)
                assert accountant.spent.level(privacy) + cost > accountant.cap.level(privacy)
                assert state(accountant) == before
                continue
            sum_of_charges += charge.level(privacy)
            assert accountant.spent == accountant.loss(ROWS)
            assert accountant.spent.level(privacy) == sum_of_charges
            assert sum_of_charges <= accountant.cap.level(privacy)
            assert accountant.remaining().level(privacy) == (
                accountant.cap.level(privacy) - sum_of_charges
            )
            for view, level in served.items():
                assert accountant.level(analyst, view) == level
                assert accountant.version(view, level).level == level
            for row in ROWS:
                known = accountant.known.get(row, NONE)
                assert known == accountant.loss((row,))
                assert known.level(privacy) <= sum_of_charges
