"""Limits of rows, views and the whole; who answers for what (docs/methods/dprovdb.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.curator import Curator
from dpnb.errors import BudgetError, LedgerError, RequestError
from dpnb.ledger.accounts import FREE, exhausted, read_time
from dpnb.ledger.policy import Policy
from dpnb.owner.report import Provenance, Row
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import PrivacyLoss

Opened = Callable[..., Curator]
COUNT = "SELECT COUNT(*) AS k FROM t WHERE n >= {}"
EXHAUSTED = str(exhausted(""))


def basic(epsilon: object) -> Budget:
    """A budget that adds epsilons up."""
    return Budget(epsilon=epsilon, delta=1e-6, accountant="basic")


def ask(curator: Curator, analyst: str, view: int, **amount: Any) -> PrivacyLoss:
    """Ask for one of ten views; return what it cost the row."""
    return curator.session(analyst).query(COUNT.format(view), **amount).spent


def refused(curator: Curator, analyst: str, view: int, **amount: Any) -> str:
    """Ask, and be refused for the budget; nothing else changes. Return the text."""
    before = curator.provenance
    with pytest.raises(BudgetError) as refusal:
        ask(curator, analyst, view, **amount)
    after = curator.provenance
    assert replace(after, refusals=before.refusals) == before
    assert after.refusals
    return str(refusal.value).replace(FREE, "")


def row(curator: Curator, name: str) -> Row:
    (found,) = (found for found in curator.provenance.rows if found.name == name)
    return found


def rhos(curator: Curator, name: str) -> tuple[Fraction, Fraction, Fraction]:
    """What a row answers for, what was learned through it, and what is left."""
    found = row(curator, name)
    return found.spent.rho, found.known.rho, found.remaining.rho


class TestPaper:
    """T11: the printed check and the printed theorems against the corrected ones."""

    def test_a_first_request_beyond_the_cap_is_refused(self, opened: Opened) -> None:
        """E4: as printed, 5.0 passes a cap of 1."""
        curator = opened(budget=basic(1), policy=Policy(mechanism="additive"))
        assert "but 1 is left" in refused(curator, "b", 0, epsilon=5)

    def test_who_asks_for_less_than_is_known_is_served(self, opened: Opened) -> None:
        """E4: alice .5 and bob .3 under .6; the view stays at .5."""
        curator = opened(
            budget=basic("0.6"), analysts={"a": 1, "b": 1}, policy=Policy(mechanism="additive")
        )
        ask(curator, "a", 0, epsilon="0.5")
        assert ask(curator, "b", 0, epsilon="0.3").epsilon == Fraction(3, 10)
        assert curator.budget.spent.epsilon == Fraction(1, 2)
        # a refinement is charged whole: .2 more would pass .6
        assert refused(curator, "b", 0, epsilon="0.7").startswith("this costs epsilon")

    @pytest.mark.parametrize(("mechanism", "answered"), [("vanilla", 12), ("additive", 3)])
    def test_sharing_does_not_always_answer_more(
        self, opened: Opened, mechanism: str, answered: int
    ) -> None:
        """E16: what is accepted early can fill the table; Theorem 5.10 fails."""
        curator = opened(
            budget=basic(1), analysts={"a": 1, "b": 1}, policy=Policy(mechanism=mechanism)
        )
        requests = [("a", 1, "0.4"), ("b", 1, "0.4"), ("a", 2, "0.6")]
        requests += [("a", view, "0.02") for view in range(3, 13)]
        outcomes = []
        for name, view, epsilon in requests:
            sql = COUNT.format(f"{view % 10} AND job = '{'ab'[view // 10]}'")
            try:
                curator.session(name).query(sql, epsilon=epsilon)
            except BudgetError:
                outcomes.append(False)
            else:
                outcomes.append(True)
        assert sum(outcomes) == answered
        assert outcomes[:3] == [True, True, mechanism == "additive"]

    def test_limits_in_proportion_may_be_out_of_reach(self, opened: Opened) -> None:
        """E20: once the lower has had hers, the higher cannot reach her own limit."""
        curator = opened(budget=basic(1), policy=Policy(mechanism="additive"))
        ask(curator, "a", 1, epsilon="0.25")
        assert row(curator, "b").limit.epsilon == 1
        assert refused(curator, "b", 2, epsilon=1) == EXHAUSTED
        ask(curator, "b", 2, epsilon="0.75")
        assert refused(curator, "b", 3, epsilon="0.8") == (
            "this costs epsilon 0.8, but 0.25 is left to you. Ask with epsilon=0.25 or less, or for a "
            "larger margin of error. Only the owner of the "
            "data can allow more. Nothing was charged."
        )
        # fairness as it is: the higher has three times as much, not four
        consumed = [row(curator, name).spent.epsilon for name in "ab"]
        assert consumed == [Fraction(1, 4), Fraction(3, 4)]

    def test_only_the_table_protects_from_everybody(self, opened: Opened) -> None:
        """E17: rows of 1 each, and together 2."""
        curator = opened(budget=Budget(rho=2), analysts={"a": 1, "b": 1})
        for name in "ab":
            curator.limit(name, rho=1)
        ask(curator, "a", 1, rho=1)
        ask(curator, "b", 2, rho=1)
        assert curator.coalition("a", "b").rho == curator.budget.spent.rho == 2
        assert max(curator.coalition(name).rho for name in "ab") == 1

    def test_delta_runs_out_like_epsilon(self, opened: Opened) -> None:
        """Algorithm 10: three releases of 1e-9 do not fit into 2e-9."""
        curator = opened(
            budget=Budget(epsilon=10, delta="2e-9", accountant="basic"),
            policy=Policy(mechanism="vanilla"),
        )
        for view in (1, 2):
            ask(curator, "b", view, epsilon="0.1")
        assert "this costs delta 1e-9, but 0 is left" in refused(curator, "b", 3, epsilon="0.1")
        assert curator.budget.remaining.delta == 0
        assert curator.budget.remaining.epsilon == Fraction(98, 10)


class TestRows:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, ["0.25", "1"]),
            ({"rows": "sum"}, ["0.2", "0.8"]),
            ({"expansion": "1.5"}, ["0.375", "1"]),
            ({"expansion": 8}, ["1", "1"]),
            ({"top": 8}, ["0.125", "0.5"]),
            ({"rows": "sum", "expansion": 2}, ["0.4", "1"]),
        ],
    )
    def test_limits_follow_from_privileges(
        self, opened: Opened, options: dict[str, Any], expected: list[str]
    ) -> None:
        curator = opened(policy=Policy(**options))
        assert [row(curator, name).limit.rho for name in "ab"] == list(map(Fraction, expected))
        for name, limit in zip("ab", expected, strict=True):
            assert curator.session(name).budget.cap.rho == Fraction(limit)
            more = refused(curator, name, 1, rho=str(Fraction(limit) * Fraction(1001, 1000)))
            assert f"but {float(Fraction(limit)):.6g} is left" in more

    @pytest.mark.parametrize("accountant", ["zcdp", "gdp"])
    def test_where_there_is_a_delta_epsilons_are_shared(
        self, opened: Opened, accountant: str
    ) -> None:
        """Definition 17: the formulas are applied to epsilon, and converted each on its own."""
        budget = Budget(epsilon=4, delta=1e-6, accountant=accountant)
        curator = opened(budget=budget)
        assert row(curator, "a").limit == Budget(epsilon=1, delta=1e-6, accountant=accountant).cap
        assert row(curator, "b").limit == budget.cap
        assert row(curator, "a").limit.rho < budget.cap.rho / 4

    def test_a_row_can_be_spent_to_the_last_bit(self, opened: Opened) -> None:
        curator = opened()
        ask(curator, "a", 1, rho="0.25")
        assert rhos(curator, "a") == (Fraction(1, 4), Fraction(1, 4), 0)
        assert "but 0 is left" in refused(curator, "a", 2, rho="1e-8")

    def test_what_is_held_is_free_after_the_limit_too(self, opened: Opened) -> None:
        curator = opened()
        first = curator.session("a").query(COUNT.format(1), rho="0.25")
        curator.limit("a", rho=0)
        curator.limit(rho="0.1")
        for rho in ("0.25", "0.2"):
            again = curator.session("a").query(COUNT.format(1), rho=rho)
            assert again.spent == PrivacyLoss.none()
            assert again.estimates[0].count == first.estimates[0].count

    def test_limits_go_down_and_up_again(self, opened: Opened) -> None:
        curator = opened()
        ask(curator, "b", 1, rho="0.5")
        curator.limit("b", rho="0.4")
        assert rhos(curator, "b") == (Fraction(1, 2), Fraction(1, 2), 0)
        assert "but 0 is left" in refused(curator, "b", 2, rho="0.1")
        curator.limit("b", rho="0.6")
        assert ask(curator, "b", 2, rho="0.1").rho == Fraction(1, 10)
        assert "but 0 is left" in refused(curator, "b", 3, rho="0.1")

    def test_the_cap_of_all_together_goes_down_and_up(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 4, "b": 4})
        ask(curator, "a", 1, rho="0.5")
        curator.limit(rho="0.3")
        assert row(curator, "b").limit.rho == Fraction(3, 10)
        assert refused(curator, "b", 2, rho="0.1") == EXHAUSTED
        # what all together know already costs them nothing
        assert ask(curator, "b", 1, rho="0.3").rho == Fraction(3, 10)
        curator.limit(rho=2)
        ask(curator, "b", 2, rho="0.7")
        assert curator.budget.spent.rho == Fraction(12, 10)

    @pytest.mark.parametrize(
        ("arguments", "options", "word"),
        [
            (("c",), {"rho": 1}, "no analyst 'c'"),
            (("a#1",), {"rho": 1}, "no analyst"),
            (("a",), {}, "needs exactly one of"),
            (("a",), {"rho": 1, "epsilon": 1}, "needs exactly one of"),
            (("a",), {"rho": "1.1"}, "more than the total budget"),
            (("a",), {"rho": -1}, "rho"),
            (("a",), {"rho": "much"}, "rho"),
            (("a",), {"epsilon": 1}, "without a delta"),
            ((), {"view": "x", "rho": 1}, "no declared view 'x'"),
            (
                ("a",),
                {"view": "x", "rho": 1},
                "a limit is for an analyst, a column or a view, not for two of them",
            ),
        ],
    )
    def test_senseless_limits_are_refused(
        self, unchanged: Curator, arguments: tuple[str, ...], options: dict[str, Any], word: str
    ) -> None:
        before = unchanged.provenance
        with pytest.raises(RequestError, match=word):
            unchanged.limit(*arguments, **options)
        assert unchanged.provenance == before


class TestViews:
    def test_a_view_may_have_a_limit(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 4, "b": 4}, views=[["sex"], ["job"]])
        curator.limit(view="sex", rho="0.2")
        session = curator.session("a")
        sql = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"
        session.query(sql, rho="0.2")
        with pytest.raises(BudgetError, match="budget exhausted"):
            session.query(sql, rho="0.21")
        # the limit is of what all know together, and bob learns nothing new
        assert curator.session("b").query(sql, rho="0.2").spent.rho == Fraction(1, 5)
        session.query(sql.replace("sex", "job"), rho="0.5")

    def test_it_holds_for_one_analyst_alone_as_well(self, opened: Opened) -> None:
        curator = opened(analysts=None, views=[["sex"]])
        curator.limit(view="sex", rho="0.2")
        session = curator.session()
        session.query("SELECT COUNT(*) AS k FROM t WHERE sex = 'F'", rho="0.2")
        with pytest.raises(BudgetError):
            session.query("SELECT COUNT(*) AS k FROM t WHERE sex = 'M'", rho="0.3")
        session.query("SELECT COUNT(*) AS k FROM t WHERE n = 1", rho="0.3")

    def test_it_is_for_what_all_of_them_learn(self, opened: Opened) -> None:
        curator = opened(
            analysts={"a": 4, "b": 4}, views=[["sex"]], policy=Policy(mechanism="vanilla")
        )
        curator.limit(view="sex", rho="0.2")
        sql = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"
        curator.session("a").query(sql, rho="0.15")
        with pytest.raises(BudgetError, match="budget exhausted"):
            curator.session("b").query(sql, rho="0.1")
        assert curator.session("b").query(sql, rho="0.05").spent.rho == Fraction(1, 20)

    @pytest.mark.parametrize("views", ["equal", "proportional"])
    def test_static_limits_are_for_declared_views_alone(self, opened: Opened, views: str) -> None:
        from dpnb.views.histogram import Strategy

        twice = Strategy(((2, 0, 0), (0, 2, 0), (0, 0, 2)))
        curator = opened(analysts={"a": 4}, policy=Policy(views=views), views=[["sex"], ["job"]])
        if views == "proportional":
            curator.add_view(["sex"], name="finer", strategy=twice)
        shares = {column.name: column.limit.rho for column in curator.provenance.columns}
        expected = {"sex": "1/2", "job": "1/2"}
        if views == "proportional":
            expected = {"sex": "1/4", "job": "1/4", "finer": "1/2"}
        assert shares == {name: Fraction(share) for name, share in expected.items()}
        session = curator.session("a")
        with pytest.raises(RequestError, match="no declared view answers this statement"):
            session.query("SELECT COUNT(*) AS k FROM t WHERE n = 1", rho="0.1")
        sql = "SELECT job, COUNT(*) AS k FROM t GROUP BY job"
        session.query(sql, rho=expected["job"])
        with pytest.raises(BudgetError) as refusal:
            session.query(sql, rho=str(Fraction(expected["job"]) * Fraction(11, 10)))
        assert str(refusal.value).replace(FREE, "") == EXHAUSTED
        with pytest.raises(RequestError, match="before the first charge"):
            curator.add_view(["n"])

    def test_with_water_filling_views_come_any_time(self, opened: Opened) -> None:
        curator = opened(views=[["sex"]])
        ask(curator, "a", 1, rho="0.1")
        curator.add_view(["job"])
        assert [column.limit for column in curator.provenance.columns] == [None] * 3


class TestReserve:
    def test_everybodys_share_is_kept(self, opened: Opened) -> None:
        """E20: half of the other's own limit stays hers."""
        curator = opened(policy=Policy(reserve="0.5"))
        # a's limit is .25, so .125 is kept for her
        assert refused(curator, "b", 1, rho="0.876") == EXHAUSTED
        ask(curator, "b", 1, rho="0.875")
        assert ask(curator, "a", 2, rho="0.125").rho == Fraction(1, 8)
        assert curator.budget.remaining.rho == 0

    def test_what_somebody_has_had_is_not_kept_any_more(self, opened: Opened) -> None:
        curator = opened(policy=Policy(reserve="0.5"))
        ask(curator, "a", 2, rho="0.125")
        ask(curator, "b", 1, rho="0.875")

    def test_nothing_is_kept_for_the_disabled(self, opened: Opened) -> None:
        curator = opened(policy=Policy(reserve="0.5"))
        curator.disable("a")
        ask(curator, "b", 1, rho=1)

    def test_no_more_is_promised_than_there_is(self, opened: Opened) -> None:
        with pytest.raises(RequestError, match="more would be reserved"):
            opened(policy=Policy(reserve=1))
        curator = opened(policy=Policy(reserve="0.8"))
        with pytest.raises(RequestError, match="more would be reserved"):
            curator.add_analyst("c", 4)
        assert [found.name for found in curator.provenance.rows] == ["a", "b"]


class TestGrants:
    def test_who_learned_and_who_answers(self, opened: Opened) -> None:
        """Definition 21: knowledge is the receiver's, liability the giver's."""
        curator = opened()
        curator.grant("b", "a", rho="0.3")
        assert curator.session("a").budget.remaining.rho == Fraction(55, 100)
        assert curator.session("a").budget.cap.rho == Fraction(55, 100)
        assert ask(curator, "a", 1, rho="0.5").rho == Fraction(1, 2)
        assert rhos(curator, "a") == (Fraction(1, 4), Fraction(1, 2), Fraction(1, 20))
        assert rhos(curator, "b") == (Fraction(1, 4), 0, Fraction(3, 4))
        assert curator.coalition("a").rho == Fraction(1, 2)
        assert curator.coalition("b") == PrivacyLoss.none()
        assert "but 0.05 is left" in refused(curator, "a", 2, rho="0.06")
        ask(curator, "a", 2, rho="0.05")
        assert rhos(curator, "b")[0] == Fraction(3, 10)

    def test_her_own_comes_first(self, opened: Opened) -> None:
        curator = opened()
        curator.grant("b", "a", rho="0.3")
        ask(curator, "a", 1, rho="0.25")
        assert rhos(curator, "b") == (0, 0, 1)

    @pytest.mark.parametrize("offset", [1, 2, 3])
    def test_no_charge_is_written_that_cannot_be_read_again(
        self, tmp_path: Path, offset: int
    ) -> None:
        """Sums are rounded up far behind the point, one by one: a limit may be passed by that."""
        frame = pd.DataFrame({"x": [1, 2, 3] * 20, "g": ["a", "b", "b"] * 20})
        schema = Schema({"x": Integer(0, 100, bins=[0, 10, 50, 100]), "g": Category(["a", "b"])})
        table, ledger = Table("t", frame, schema), tmp_path / "l"
        curator = Curator([table], budget=Budget(rho=1), analysts={"a": 2, "b": 2}, ledger=ledger)
        curator.limit("a", rho="0.3")
        curator.grant("b", "a", rho="0.2")
        session = curator.session("a")
        many = [10**28 + n + offset for n in (331, 427, 559, 613, 891, 1001, 1037)]
        sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
        question = session.query(sql, rho=Fraction(37 * 10**25, many[0])).compare("b", "a")
        for at, number in enumerate(many[1:], 10):
            session.query(
                f"SELECT COUNT(*) AS n FROM t WHERE x <= {at}", rho=Fraction(37 * 10**25, number)
            )
        with contextlib.suppress(BudgetError):
            # with this the row's limit is passed, and the rest taken from the grant
            session.explain(
                question, k=1, rho=Fraction(13 * 10**26, 10**28 + 7 + offset), anyway=True
            )
        spent = curator.budget.spent
        curator.close()
        again = Curator([table], ledger=ledger)
        assert again.budget.spent == spent
        again.close()

    def test_it_ends_in_time(self, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
        """Until the moment itself; and a clock that is set back does not bring it again."""
        clock = ["2030-01-01T00:00:00+00:00"]
        monkeypatch.setattr("dpnb.ledger.store.now", lambda: clock[0])
        curator = opened()
        curator.grant("b", "a", rho="0.3", until="2030-01-02")
        clock[0] = "2030-01-01T23:59:59+00:00"
        ask(curator, "a", 1, rho="0.4")
        clock[0] = "2030-01-02T00:00:00+00:00"
        assert curator.session("a").budget.remaining.rho == 0
        assert "but 0 is left" in refused(curator, "a", 2, rho="0.1")
        # any entry of that time, and then the clock goes back
        ask(curator, "b", 3, rho="0.1")
        clock[0] = "2029-06-01T00:00:00+00:00"
        assert "but 0 is left" in refused(curator, "a", 2, rho="0.1")
        curator.grant("b", "a", rho="0.3", until="2030-01-02T00:00:01")
        assert ask(curator, "a", 2, rho="0.1").rho == Fraction(1, 10)
        with pytest.raises(RequestError, match="has already passed"):
            curator.grant("b", "a", rho="0.3", until="2030-01-02")

    def test_the_givers_own_limit_ends_it_too(self, opened: Opened) -> None:
        """What the giver did shows in the one fixed text alone."""
        curator = opened()
        curator.grant("b", "a", rho="0.3")
        ask(curator, "b", 5, rho="0.5")
        curator.limit("b", rho="0.5")
        assert refused(curator, "a", 1, rho="0.3") == EXHAUSTED
        ask(curator, "a", 1, rho="0.25")

    def test_two_grants_of_one_giver_do_not_pass_her_limit(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 4, "b": 4})
        curator.limit("a", rho="0.4")
        curator.limit("b", rho=0)
        for _ in range(2):
            curator.grant("a", "b", rho="0.3")
        assert refused(curator, "b", 1, rho="0.5") == EXHAUSTED
        ask(curator, "b", 1, rho="0.4")
        assert rhos(curator, "a") == (Fraction(2, 5), 0, 0)

    def test_grants_of_two_givers_add(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 4, "b": 4, "c": 1})
        for giver in "ab":
            curator.grant(giver, "c", rho="0.1")
        ask(curator, "c", 1, rho="0.45")
        assert [rhos(curator, name)[0] for name in "abc"] == [
            Fraction(1, 10), Fraction(1, 10), Fraction(1, 4),
        ]  # fmt: skip

    def test_a_row_beyond_its_lowered_limit_lives_on_grants(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        curator = opened(analysts={"a": 4, "b": 4}, ledger=tmp_path / "l")
        ask(curator, "a", 1, rho="0.5")
        curator.limit("a", rho="0.3")
        curator.grant("b", "a", rho="0.4")
        assert ask(curator, "a", 2, rho="0.2").rho == Fraction(1, 5)
        assert rhos(curator, "a") == (Fraction(1, 2), Fraction(7, 10), Fraction(1, 5))
        assert rhos(curator, "b") == (Fraction(1, 5), 0, Fraction(4, 5))
        assert "but 0.2 is left" in refused(curator, "a", 3, rho="0.3")
        before = curator.provenance
        curator.close()
        assert opened(analysts=None, budget=None, ledger=tmp_path / "l").provenance == before

    def test_a_grant_of_one_who_was_disabled_ends(self, opened: Opened) -> None:
        curator = opened()
        curator.grant("b", "a", rho="0.3")
        curator.disable("b")
        assert "but 0.25 is left" in refused(curator, "a", 1, rho="0.3")

    @pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
    def test_epsilons_can_be_granted(self, opened: Opened, accountant: str) -> None:
        budget = Budget(epsilon=4, delta=1e-6, accountant=accountant)
        curator = opened(budget=budget)
        curator.grant("b", "a", epsilon=1)
        one = Budget(epsilon=1, delta=1e-6, accountant=accountant).cap.rho
        assert curator.session("a").budget.remaining.rho == 2 * one

    def test_by_adding_up_too(self, opened: Opened) -> None:
        curator = opened(budget=basic(4), policy=Policy(mechanism="additive"))
        curator.grant("b", "a", epsilon=1)
        ask(curator, "a", 1, epsilon="1.5")
        assert row(curator, "a").spent.epsilon == 1
        assert row(curator, "a").known.epsilon == Fraction(3, 2)
        assert row(curator, "b").spent.epsilon == Fraction(1, 2)

    @pytest.mark.parametrize(
        ("giver", "receiver", "options", "word"),
        [
            ("a", "a", {"rho": 1}, "a grant needs two different"),
            ("a", "b", {"rho": 0}, "a grant needs two different"),
            ("a", "c", {"rho": 1}, "no analyst 'c'"),
            ("c", "a", {"rho": 1}, "no analyst 'c'"),
            ("a#4", "b", {"rho": 1}, "no analyst"),
            ("owner", "b", {"rho": 1}, "no analyst"),
            ("a", "b", {}, "needs exactly one of"),
            ("a", "b", {"rho": -1}, "rho"),
            ("a", "b", {"rho": 1, "until": "soon"}, "must be a date or a time"),
            ("a", "b", {"rho": 1, "until": 5}, "must be a date or a time"),
            ("a", "b", {"rho": 1, "until": "2001-01-01"}, "has already passed"),
        ],
    )
    def test_senseless_grants_are_refused(
        self, unchanged: Curator, giver: str, receiver: str, options: dict[str, Any], word: str
    ) -> None:
        with pytest.raises(RequestError, match=word):
            unchanged.grant(giver, receiver, **options)
        assert unchanged.session("a").budget.remaining.rho == Fraction(1, 4)

    def test_moments_are_utc_to_the_second(self) -> None:
        import datetime

        assert read_time(None) is None
        for until in (
            "2030-01-01", datetime.date(2030, 1, 1), datetime.datetime(2030, 1, 1),  # noqa: DTZ001
            "2030-01-01T02:00:00+02:00", "2029-12-31T19:00:00-05:00",
        ):  # fmt: skip
            assert read_time(until) == "2030-01-01T00:00:00+00:00"


class TestReplay:
    def changed(self, curator: Curator) -> Provenance:
        """Everything that an owner and two analysts can do."""
        curator.add_analyst("c", [2, 1])
        ask(curator, "a", 1, rho="0.2")
        ask(curator, "b", 1, rho="0.1")
        curator.grant("b", "a", rho="0.3", until="2999-01-01")
        ask(curator, "a", 2, rho="0.3")
        curator.session("c", 1).query(COUNT.format(1), rho="0.05")
        curator.limit("c", rho="0.4")
        curator.limit("c#1", rho="0.1")
        curator.limit(view="sex", rho="0.2")
        curator.session("b").query("SELECT sex, COUNT(*) AS k FROM t GROUP BY sex", rho="0.2")
        curator.limit(rho="0.9")
        curator.disable("b")
        return curator.provenance

    def test_a_restart_changes_nothing(self, opened: Opened, tmp_path: Path) -> None:
        curator = opened(ledger=tmp_path / "l", views=[["sex"]])
        before = self.changed(curator)
        budgets = {name: curator.session(name).budget for name in "ac"}
        curator.close()
        again = opened(analysts=None, budget=None, ledger=tmp_path / "l")
        assert again.provenance == before
        assert {name: again.session(name).budget for name in "ac"} == budgets
        with pytest.raises(RequestError, match="no active analyst 'b'"):
            again.session("b")

    def test_another_curator_of_the_same_ledger_sees_it_at_once(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        first = opened(ledger=tmp_path / "l", views=[["sex"]])
        second = opened(analysts=None, budget=None, ledger=tmp_path / "l")
        assert self.changed(first) == second.provenance
        second.enable("b")
        assert first.session("b").budget == second.session("b").budget


def test_a_charge_beyond_a_row_is_refused_when_it_is_read(opened: Opened) -> None:
    """The ledger's reader checks limits as the writer did."""
    curator = opened()
    table = curator._runner.store.provenance
    cost = PrivacyLoss(rho=Fraction(1, 2))
    with pytest.raises(LedgerError, match="entry 9 of the ledger does not add up"):
        table.apply_charge(9, {"analyst": "a", "row": cost.to_dict(), "time": ""})
