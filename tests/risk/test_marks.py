"""A level that was picked by looking at the data keeps its mark on every road that is no arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.errors import LedgerError, RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import Picked, PickedRational, is_picked
from dpnb.risk.choice import Choice
from dpnb.risk.words import odds

pytestmark = pytest.mark.fast

SUM = "SELECT SUM(x) AS s FROM t"
COUNT = "SELECT COUNT(*) AS n FROM t"
VALUES = [0, 1, 2, 5, 9, 9]


def table(**options) -> dpnb.Table:
    return dpnb.Table(
        "t", pd.DataFrame({"x": VALUES}), dpnb.Schema({"x": dpnb.Integer(0, 9)}), **options
    )


@pytest.fixture(params=[ZCDP, PURE])
def curator(request):
    budget = dpnb.Budget(rho=9, delta=1e-6) if request.param == ZCDP else dpnb.Budget(epsilon=9)
    with_noise = dpnb.Curator([table()], budget=budget)
    yield with_noise
    with_noise.close()


def unit(curator) -> str:
    return "rho" if curator.budget.privacy == ZCDP else "epsilon"


class TestLevels:
    def test_an_exact_level_marks_what_is_released_with_it(self, curator):
        choice = curator.risk(SUM).choose(0.5, private=False)
        assert isinstance(choice.level, PickedRational)
        assert curator.session().query(SUM, **{unit(curator): choice.level}).conditional

    def test_the_level_of_a_picker_does_too(self, curator):
        picker = curator.risk(SUM).widget()
        # before a look it is the rule's
        assert not curator.session().query(SUM, **{unit(curator): picker.level}).conditional
        picker.at = 7
        assert curator.session().query(SUM, **{unit(curator): picker.level}).conditional

    def test_a_choice_keeps_it_as_plain_data(self, curator):
        choice = curator.risk(SUM).choose(0.5, private=False)
        again = Choice.from_dict(json.loads(json.dumps(choice.to_dict())))
        assert again == choice
        assert is_picked(again.level, again.rho)

    def test_it_is_marked_in_every_unit(self, curator):
        choice = curator.risk(SUM).choose(0.5, private=False)
        assert is_picked(choice.rho)
        assert is_picked(choice.epsilon)
        assert curator.session().query(SUM, epsilon=choice.epsilon).conditional

    @pytest.mark.parametrize("private", [True, False])
    def test_candidates_that_were_picked_mark_the_choice(self, curator, private):
        profile = curator.risk(SUM)
        candidates = [profile.choose(0.5, private=False).level, 8]
        for choice in (
            profile.choose(0.01, private=private, candidates=candidates, mode="paper"),
            profile.suggest(0, policy="alone", candidates=candidates),
        ):
            assert choice.conditional
            assert "DATA-DEPENDENT" in repr(choice)
            assert choice.level is None or is_picked(choice.level)

    def test_a_rule_that_counts_a_picked_release_is_marked(self, curator):
        profile = curator.risk(SUM)
        assert not profile.suggest(0.3).conditional
        profile.answer(Fraction(1, 100))
        assert profile.suggest(0.3).conditional
        assert profile.suggest(0.3, policy="paper-dynamic").conditional
        assert not profile.suggest(0.3, policy="alone").conditional

    def test_of_a_public_table_nothing_is_marked(self):
        public = dpnb.Curator([table(public=True)], budget=dpnb.Budget(rho=9))
        profile = public.risk(SUM)
        choice = profile.choose(0.5, private=False)
        assert not choice.conditional
        assert not is_picked(choice.level, choice.rho)
        assert not profile.answer(choice.level).conditional
        public.close()

    def test_marks_are_found_among_several(self):
        assert is_picked([1, Picked(2)], "3")
        assert is_picked({"topk": PickedRational(1, 2)})
        assert not is_picked([1, 2.0, Fraction(1, 2)], {"a": "1"}, None, "text")


class TestWhatASavedCellKeeps:
    def test_a_choice_by_exact_values_says_nothing_of_its_outcome(self, curator):
        choices = [curator.risk(SUM).choose(tau, private=False) for tau in (0.2, 0.5, 1)]
        assert {choice.level is None for choice in choices} == {True, False}
        assert len(set(map(repr, choices))) == 1
        assert len({choice._repr_html_() for choice in choices}) == 1

    def test_sentences_and_ratios_are_shown_when_that_is_asked_for(self, curator):
        profile = curator.risk(SUM, by="x")
        level = {unit(curator): 1}
        for show in (
            lambda **options: profile.sentence(**level, **options),
            lambda **options: profile.group_ratio("1", "9", **level, **options),
        ):
            with pytest.raises(RequestError, match="reveal=True"):
                show()
            assert show(reveal=True)


class TestRule:
    def test_what_is_held_of_the_statement_counts_only_once(self):
        """A rule's level is as if bought alone: a view that is held is brought up to it."""
        curator = dpnb.Curator([table()], budget=dpnb.Budget(rho=9))
        profile = curator.risk(SUM)
        curator.session().query(SUM, rho="0.1")
        found = profile.suggest(0.9)
        assert float(found.level) == pytest.approx(0.1172839506, abs=1e-9)
        assert profile.price(found.level).spent.rho == pytest.approx(0.0172839506, abs=1e-9)

    def test_a_threshold_that_no_arithmetic_can_follow_is_refused_before_it_costs(self, curator):
        profile = curator.risk(SUM, form="exact")
        for tau in (1e-200, 5e-324, 1e-7):
            with pytest.raises(RequestError, match="too close to 0"):
                profile.choose(tau, mode="paper")
        assert curator.budget.spent.level(curator.budget.privacy) == 0


class TestTables:
    def test_what_was_sensitive_does_not_become_public(self, tmp_path):
        path = tmp_path / "t.ledger"
        dpnb.Curator([table()], budget=dpnb.Budget(rho=1), ledger=path).close()
        for new_version in (False, True):
            with pytest.raises(LedgerError, match="sensitive"):
                dpnb.Curator([table(public=True)], ledger=path, new_version=new_version)

    def test_groups_beyond_number_are_refused_from_the_declaration(self):
        schema = dpnb.Schema({name: dpnb.Integer(0, 1_999) for name in "abc"})
        frame = pd.DataFrame({name: [1] for name in "abc"})
        wide = dpnb.Curator([dpnb.Table("t", frame, schema)], budget=dpnb.Budget(rho=1))
        with pytest.raises(RequestError, match="more than 4,096 groups"):
            wide.risk(COUNT, by=["a", "b", "c"])
        with pytest.raises(RequestError, match="twice"):
            wide.risk(COUNT, by=["a", "A"])
        wide.close()


@pytest.mark.parametrize("rho", [1e-4, 0.005, 0.05, 0.5, 5.0])
def test_odds_shift_further_than_said_in_one_of_a_hundred_answers(rho):
    """Either way: the loss is N(rho, 2 rho), and what counts is its size."""

    class Gaussian:
        pure, constant, steps = False, 0.0, 0

    text = odds(rho, Gaussian())
    said = float(text.partition("less than ")[2].partition(" in")[0].replace(",", ""))
    drawn = np.random.default_rng(5).normal(rho, np.sqrt(2 * rho), 400_000)
    beyond = np.mean(np.exp(np.abs(drawn)) > said)
    assert beyond <= 0.0108
    assert beyond >= 0.003


def test_a_choice_that_was_paid_for_comes_back_whatever_its_level(curator):
    """Levels may be candidates at which no noise can be drawn."""
    profile = curator.risk(SUM)
    for candidates in (["1e-17"], ["1e17"], ["1e-17", "1e17"]):
        for method, tau in (("quantile", 0), ("tail", 1e-6), ("variance", 1e-17)):
            choice = profile.choose(
                tau, method=method, at_most=99, candidates=candidates, mode="paper"
            )
            assert choice.level is None or isinstance(choice.level, Fraction)
            assert choice.level is None or not choice.affordable
