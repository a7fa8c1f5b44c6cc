"""What is sent by hand: questions, names and amounts that no honest client makes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pytest

import dpnb
from dpnb import verbs
from dpnb.errors import DpnbError, RequestError
from dpnb.releases.call import Call
from tests.kit.inside import ask, runner

pytestmark = pytest.mark.fast

HALF = "\ud800"
"""Half of a character: no text that can be encoded."""
SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def curator(**options):
    frame = pd.DataFrame({"sex": ["Female", "Male"] * 200, "age": list(range(100)) * 4})
    schema = dpnb.Schema(
        {"sex": dpnb.Category(["Female", "Male"]), "age": dpnb.Integer(0, 99, bins=[0, 50, 99])}
    )
    options = {
        "budget": dpnb.Budget(rho=10, delta=1e-6),
        "analysts": {"alice": 2, "bob": 1},
    } | options
    return dpnb.Curator([dpnb.Table("people", frame, schema)], **options)


class TestText:
    """Text that cannot be encoded is refused before anything is drawn."""

    @pytest.mark.parametrize("name", ["aggregate", "ledger", "request"])
    def test_in_a_question(self, name):
        made = curator()
        alice = made.session("alice")
        question = alice.query(SQL, rho=0.1).compare("Male", "Female")
        before = alice.budget.spent
        with pytest.raises(DpnbError) as caught:
            alice.explain(replace(question, **{name: HALF}), rho=0.2, anyway=True)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert alice.budget.spent == before
        assert not made._runner.store.accountant.releases

    def test_in_the_name_of_a_view(self):
        with pytest.raises(RequestError, match="the name of a view must be"):
            curator().add_view(["age"], name=HALF)

    def test_in_an_identifier_it_does_not_end_the_ledger(self, tmp_path):
        made = curator(ledger=tmp_path / "l")
        accuracy = {"rho": 0.1}
        first = ask(made, "alice", "query", SQL, accuracy, identifier=HALF)
        made.close()
        again = ask(
            curator(ledger=tmp_path / "l"), "alice", "query", SQL, accuracy, identifier=HALF
        )
        assert (again.estimates, again.stored) == (first.estimates, True)


class TestAmounts:
    def test_denominators_do_not_grow_without_end(self):
        """Exact sums of many odd fractions stay printable, and never fall below the true sum."""
        made = curator(budget=dpnb.Budget(rho=10**6, delta=1e-6))
        alice, total = made.session("alice"), Fraction(0)
        for i in range(60):
            level = Fraction(1, 10**20 + 2 * i + 1) + Fraction(1, 10**6)
            alice.query(f"SELECT COUNT(*) AS n FROM people WHERE age >= {i}", rho=level)
            total += level
        spent = made.budget.spent.rho
        assert total <= spent <= total + Fraction(1, 10**100)
        assert len(str(made.provenance.to_dict())) > 0
        assert Fraction(made.budget.to_dict()["spent"]["rho"]) == spent

    @pytest.mark.parametrize(
        "value",
        [10**5000, Fraction(1, 10**5000 + 1), -(10**5000)],
        ids=["large", "small", "negative"],
    )
    def test_a_number_of_thousands_of_digits_is_refused(self, value):
        with pytest.raises(RequestError, match="rho must be between 1e-18 and 1e18"):
            curator().session("alice").query(SQL, rho=value)


class TestMemory:
    def test_what_is_refused_is_not_kept(self):
        made = curator()
        for i in range(20):
            with pytest.raises(DpnbError):
                verbs.price(runner(made), "alice", Call("query", [SQL], {"rho": f"{i}x" * 100_000}))
        assert not len(runner(made).memo)

    def test_a_long_accuracy_is_not_kept(self):
        made = curator()
        verbs.price(runner(made), "alice", Call("query", [SQL], {"rho": 0.1}))
        kept = len(runner(made).memo)
        verbs.price(runner(made), "alice", Call("query", [SQL], {"rho": " " * 10_000 + "0.1"}))
        verbs.price(runner(made), "alice", Call("query", [SQL + " " * 10_000], {"rho": 0.1}))
        assert kept
        assert len(runner(made).memo) == kept

    def test_the_number_of_plans_is_bounded(self, monkeypatch):
        monkeypatch.setattr("dpnb.releases.memo.MOST", 50_000)
        made = curator()
        for i in range(1, 50):
            verbs.price(runner(made), "alice", Call("query", [SQL], {"rho": f"0.{i:03}"}))
        assert 50 < len(runner(made).memo) <= 100

    def test_steps_of_a_large_decision_are_not_kept(self, monkeypatch):
        made = curator()
        monkeypatch.setattr("dpnb.decide.verb._MOST_KEPT", 0)
        sql, options = f"{SQL} HAVING COUNT(*) > 5", {"u": 3}
        verbs.price(runner(made), "alice", Call("decide", sql, options))
        assert len(runner(made).memo) == 1

    def test_names_of_repeated_requests_are_bounded(self):
        made = curator()
        for i in range(5):
            ask(made, "alice", "query", SQL, {"rho": 0.1}, identifier=f"k{i}")
        state = made._runner.store.accountant
        assert len(state.identifiers) == 1
        assert len(state._repeated) == 4
        with pytest.raises(RequestError, match="used for another request"):
            ask(made, "alice", "query", SQL, {"rho": 0.2}, identifier="k3")


class TestLimits:
    def test_one_view_has_one_name(self):
        made = curator()
        made.add_view(["age"], name="first")
        with pytest.raises(RequestError, match="under the name 'first'"):
            made.add_view(["age"], name="second")

    def test_static_views_leave_no_way_around(self):
        made = curator(policy=dpnb.Policy(views="equal"), views=["sex", "age"])
        alice = made.session("alice")
        question = alice.query(SQL, rho=0.1).compare("Male", "Female")
        with pytest.raises(RequestError, match="only views are answered"):
            alice.explain(question, rho=0.1, anyway=True)

    def test_an_opening_that_fails_leaves_the_ledger_as_it_was(self, tmp_path):
        for options in (
            {"policy": dpnb.Policy(top=1)},
            {"views": ["height"]},
            {"analysts": {"alice": 0}},
        ):
            with pytest.raises(DpnbError):
                curator(ledger=tmp_path / "l", **options)
        made = curator(ledger=tmp_path / "l")
        assert {row.privilege for row in made.provenance.rows} == {1, 2}
