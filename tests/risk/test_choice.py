"""Choices: what they rest on, what they cost, that they are paid once and survive; shared histograms.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import sqlite3
import threading
import traceback
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpnb import Budget, Integer, Schema, Table
from dpnb.curator import Curator
from dpnb.display.cards.risk import choice_sentences
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, DpnbError, LedgerError, RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import Picked, PrivacyLoss, epsilon_of_rho
from dpnb.risk.choice import Choice, RiskHistogram
from dpnb.risk.indicator import limit
from dpnb.risk.preferences import CANDIDATES, Judged, largest_within
from dpnb.risk.selection import Counts, Moments, Tail
from tests.kit.noise import DiscreteNoise, NoNoise

SUM = "SELECT SUM(x) AS s FROM t"
METHODS = ("quantile", "tail", "variance")
DEFAULT = {"rho": Fraction(1, 200), "epsilon": Fraction(1, 10)}
CURRENCY = {"rho": ZCDP, "epsilon": PURE}


def spent(curator, unit):
    return curator.budget.spent.level(CURRENCY[unit])


def tau_of(method):
    return 0.01 if method == "variance" else 0.9


@pytest.fixture(scope="module")
def people():
    """1,000 rows: 900 add nothing, 80 a tenth, 15 a half, 5 all."""
    values = np.repeat([0, 1, 5, 10], [900, 80, 15, 5])
    return Table("t", pd.DataFrame({"x": values}), Schema({"x": Integer(0, 10)}))


class TestSuggest:
    @pytest.mark.parametrize(
        ("tau", "epsilon", "rho"),
        [(0.99, 0.0101010101, 0.0101520253), (0.95, 0.0526315789, 0.0540166205),
         (0.9, 0.1111111111, 0.1172839506), (0.75, 1 / 3, 0.3888888889), (0.5, 1, 1.5),
         (0.25, 3, 7.5), (0.05, 19, 199.5)],
    )  # fmt: skip
    def test_a_tau_means_a_level(self, tau, epsilon, rho, opened, four, budget, unit):
        """Oracle 4; never above the limit."""
        choice = opened(four, **budget).risk(SUM).suggest(tau)
        expected = epsilon if unit == "epsilon" else rho
        assert float(choice.level) == pytest.approx(expected, abs=1e-9)
        assert choice.level <= Fraction(limit(tau, CURRENCY[unit]))
        assert (choice.source, choice.method, choice.tau) == ("rule", "public", tau)
        assert not choice.conditional

    def test_it_is_rounded_down_to_candidates(self, opened, four):
        profile = opened(four, epsilon=9).risk(SUM)
        assert profile.suggest(0.95, candidates=CANDIDATES).level == Fraction(1, 20)
        assert profile.suggest(0.5, candidates=["3", 1, 0.3]).level == 1
        assert profile.suggest(0.95, candidates=[1, 0.1]).level is None

    def test_extremes(self, opened, four, budget):
        profile = opened(four, **budget).risk(SUM)
        assert profile.suggest(1).level is None
        assert profile.suggest(0).level == 10

    def test_a_choice_without_a_level_is_not_answered(self, opened, four, budget):
        profile = opened(four, **budget).risk(SUM)
        choice = profile.suggest(1)
        with pytest.raises(RequestError, match="found no privacy cost to use") as refusal:
            profile.answer(choice)
        assert refusal.value.hint == choice.sentence
        assert profile.budget.spent == PrivacyLoss.none()
        assert profile.answer(profile.suggest(0.5)).spent != PrivacyLoss.none()

    def test_the_strict_form_allows_less(self, opened, four):
        curator = opened(four, rho=9)
        levels = [curator.risk(SUM, form=form).suggest(0.9).level for form in ("bound", "linear")]
        assert levels[1] < levels[0]
        assert float(levels[1]) == pytest.approx((1 / 0.9 - 1) ** 2 / 2)

    def test_it_costs_nothing_and_reads_nothing(self, opened, four, budget, unit, monkeypatch):
        curator = opened(four, **budget)
        profile = curator.risk(SUM)
        for name in ("contributions", "measure", "marginals"):
            monkeypatch.setattr(DuckDBEngine, name, lambda *_: 1 / 0)
        for policy in ("cumulative", "alone", "paper-dynamic"):
            choice = profile.suggest(0.5, policy=policy)
            assert choice.spent == PrivacyLoss.none()
        assert spent(curator, unit) == 0
        assert list(curator._runner.store.accountant.history("owner")) == []

    def test_what_it_suggests_can_be_asked_for(self, opened, four, budget, unit):
        """Theorem 16: tau is a total budget, of which the first release may take all."""
        curator = opened(four, **budget)
        profile, session = curator.risk(SUM), curator.session()
        choice = profile.suggest(0.9)
        session.query(SUM, **{unit: getattr(choice, unit)})
        if unit == "rho":
            assert spent(curator, unit) == choice.level
        else:
            # levels lie on a grid
            assert choice.level * Fraction(8, 10) < spent(curator, unit) <= choice.level

    def test_what_is_spent_counts_against_it(self, opened, four):
        curator = opened(four, rho=9)
        profile, session = curator.risk(SUM), curator.session()
        before = profile.suggest(0.9).level
        session.query("SELECT COUNT(*) AS n FROM t", rho=0.1)
        assert profile.suggest(0.9).level == pytest.approx(before - Fraction(1, 10), rel=1e-9)
        assert profile.suggest(0.9, policy="alone").level == before
        assert profile.suggest(0.95).level is None
        # private choices count, too
        profile.choose(0.9, mode="paper")
        assert float(profile.suggest(0.9).level) == pytest.approx(0.1172839506 - 0.105, abs=1e-9)

    def test_once_all_is_spent_nothing_is_suggested(self, opened, four):
        """Not the 1e-14 that rounding leaves over, which nobody could ask for."""
        curator = opened(four, rho=9)
        first, session = curator.risk(SUM).suggest(0.9), curator.session()
        session.query(SUM, rho=first.rho)
        left = curator.risk("SELECT COUNT(*) AS n FROM t").suggest(0.9)
        assert left.level is None
        assert left.rho is None
        assert left.epsilon is None
        assert left.sentence == (
            "Your limit allows a total of rho 0.1172, and 0.1173 is spent. Raise the limit or reuse answers."
        )

    def test_what_is_held_already_can_be_asked_for_again(self, opened, four):
        """It costs nothing, and tells nothing that is not known."""
        curator = opened(four, rho=9)
        session, first = curator.session(), curator.risk(SUM).suggest(0.9)
        session.query(SUM, rho=first.rho)
        again = curator.risk(SUM).suggest(0.9)
        assert again.level == pytest.approx(first.level, rel=1e-9)
        assert again.level <= first.level
        assert session.query(SUM, rho=again.rho).spent.rho == 0
        # a part of the rule is left for what is finer, and counts for it once
        other = opened(four, rho=9)
        other.session().query(SUM, rho="0.1")
        assert other.risk(SUM).suggest(0.9).level == pytest.approx(first.level, rel=1e-9)
        average = other.risk("SELECT AVG(x) AS m FROM t").suggest(0.9).level
        assert average == pytest.approx(first.level - Fraction(1, 10), rel=1e-9)

    @pytest.mark.parametrize(
        "history",
        [
            [],
            [("SELECT COUNT(x) AS n FROM t", "0.05")],
            [("SELECT AVG(x) AS m FROM t", "0.02"), ("SELECT COUNT(x) AS n FROM t", "0.04")],
            [("SELECT SUM(x) AS s FROM t", "0.03"), ("SELECT AVG(x) AS m FROM t", "0.06")],
        ],
    )
    def test_it_is_the_largest_level_whose_answer_keeps_to_the_rule(self, history, opened, four):
        """An average shares its count with others: what is held of it is not paid again."""
        curator = opened(four, rho=9)
        for sql, rho in history:
            curator.session().query(sql, rho=rho)
        profile = curator.risk("SELECT AVG(x) AS m FROM t")
        choice = profile.suggest(0.9)
        total = curator.budget.spent.rho + profile.price(choice.level).spent.rho
        assert total <= Fraction(limit(0.9, ZCDP))
        assert total == pytest.approx(limit(0.9, ZCDP), rel=1e-9)

    def test_the_policy_of_the_paper_needs_a_candidate_above_all_that_was_spent(self, opened, four):
        """Oracle 13 under the public rule: 0.05, then never again."""
        curator = opened(four, rho=9)
        profile, session = curator.risk(SUM), curator.session()
        for tau, first in ((0.95, Fraction(1, 20)), (0.8, Fraction(2, 10)), (0.3, 5)):
            choice = profile.suggest(tau, policy="paper-dynamic")
            assert choice.level == first
            session.query(SUM, rho=choice.rho)
            assert profile.suggest(tau, policy="paper-dynamic").level is None

    def test_a_candidate_that_equals_what_was_spent_is_not_above_it(self, opened, four):
        """3/10 is above the float 0.3."""
        curator = opened(four, rho=9)
        profile, session = curator.risk(SUM), curator.session()
        session.query(SUM, rho="0.3")
        listed = ["0.3"]
        assert profile.suggest(0.5, policy="paper-dynamic", candidates=listed).level is None
        assert profile.suggest(0.5, policy="paper-dynamic", candidates=["0.3000001"]).level

    def test_in_a_pure_session_it_is_what_was_charged_that_counts(self, opened, four):
        """0.05 is charged as 0.0442, below the 0.05 that it is called: it must not come again."""
        curator = opened(four, epsilon=9)
        profile, session = curator.risk(SUM), curator.session()
        first = profile.suggest(0.95, policy="paper-dynamic")
        assert first.level == Fraction(1, 20)
        session.query(SUM, epsilon=first.epsilon)
        assert spent(curator, "epsilon") < Fraction(1, 20)
        for sql in (SUM, "SELECT COUNT(*) AS n FROM t"):
            again = curator.risk(sql).suggest(0.95, policy="paper-dynamic")
            assert again.level is None
            assert again.sentence == (
                "No candidate is above the epsilon 0.0442 spent and within the 0.05263 that your limit "
                "allows."
            )

    def test_why_there_is_no_level(self, opened, four):
        """From public numbers alone, and what to do about it."""
        curator = opened(four, rho=9)
        profile = curator.risk(SUM)
        said = "Your limit allows rho 0.05401 now, but no candidate is that small."
        assert profile.suggest(candidates=[1]).sentence == said
        assert profile.suggest(1).sentence.startswith("A limit of 50 allows no answer")
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho="0.075")
        used = profile.suggest()
        assert used.level is None
        assert used.sentence == (
            "Your limit allows a total of rho 0.05401, and 0.075 is spent. Raise the limit or reuse answers."
        )
        assert profile.suggest(candidates=[1]).sentence == used.sentence

    @pytest.mark.parametrize(
        ("limit", "epsilon", "rho"),
        [(55, 0.200671, 0.031582), (60, 0.405465, 0.128370), (80, 1.386294, 1.416653)],
    )
    def test_a_limit_in_guesses_means_a_level(
        self, limit, epsilon, rho, opened, four, budget, unit
    ):
        """Theorem 12."""
        choice = opened(four, **budget).risk(SUM).suggest(guesses=limit)
        expected = epsilon if unit == "epsilon" else rho
        assert float(choice.level) == pytest.approx(expected, abs=1e-6)
        assert choice.guesses == limit
        assert f"guessed right at most {limit} times in 100" in choice.sentence

    def test_rows_are_not_people(self, opened, four):
        """Statement 13: 60 for one row, 77.6 for three."""
        said = choice_sentences(opened(four, rho=9).risk(SUM).suggest(guesses=60))
        assert "Someone with 3 rows may be guessed right 78 times in 100." in " ".join(said)

    @pytest.mark.parametrize("tau", [-0.1, 1.1, math.nan, math.inf, "x", None, True, [0.5]])
    def test_a_tau_is_between_0_and_1(self, tau, opened, four):
        with pytest.raises(RequestError, match="tau must be between 0 and 1"):
            opened(four).risk(SUM).suggest(tau)

    @pytest.mark.parametrize(
        "options",
        [{"policy": "nope"}, {"policy": None}, {"policy": 5}, {"candidates": []},
         {"candidates": [0]}, {"candidates": [-1]}, {"candidates": [math.inf]}, {"candidates": 5}],
    )  # fmt: skip
    def test_options_that_make_no_sense_are_refused(self, options, opened, four):
        with pytest.raises(RequestError):
            opened(four).risk(SUM).suggest(0.9, **options)


class TestPrivate:
    def test_a_quantile_comes_with_the_level_that_keeps_it_to_tau(
        self, opened, people, budget, unit
    ):
        profile = opened(people, noise=NoNoise(), **budget).risk(SUM)
        choice = profile.choose(0.9, p=0.97, mode="paper")
        (place,) = choice.detail["drawn"]
        assert place == 7  # a tenth, rounded up to 1/64
        r = place / 64
        level = limit(0.9, CURRENCY[unit]) / (r if unit == "epsilon" else r * r)
        assert choice.level == largest_within(CANDIDATES, level)
        assert (choice.source, choice.method) == ("private", "quantile")

    def test_a_tail_comes_with_the_first_candidate_that_few_break(self, opened, people):
        profile = opened(people, noise=NoNoise(), epsilon=9).risk(SUM)
        # 1/tau - 1 = 1: at 2 rows at a half keep to it, at 9 those at a tenth, rounded up to 410/4096
        for most, level in ((0, 1), (4, 1), (5, 2), (19, 2), (20, 9), (99, 9), (100, 10)):
            choice = profile.choose(0.5, method="tail", at_most=most, mode="paper")
            assert choice.level == level

    def test_a_tail_may_find_none(self, opened, people):
        profile = opened(people, noise=NoNoise(), epsilon=9).risk(SUM)
        choice = profile.choose(0.99, method="tail", candidates=[1, 0.1], mode="paper")
        assert choice.level is None
        assert choice.detail["drawn"] == [-1]
        assert choice.spent.epsilon == Fraction(1, 10)
        assert choice.sentence == "No candidate meets the condition."

    def test_a_variance_comes_with_its_level(self, opened, people, budget, unit):
        profile = opened(people, noise=NoNoise(), **budget).risk(SUM)
        choice = profile.choose(0.001, method="variance", **{unit: 10}, mode="paper")
        mechanism, cost = Moments(), Fraction(10)
        level = mechanism.level(choice.detail["drawn"], 0.001, cost, CURRENCY[unit])
        assert choice.level == largest_within(CANDIDATES, level)
        # on the safe side of the choice by exact values
        hidden = profile.choose(0.001, private=False, preference="variance")
        assert choice.level <= hidden.level

    def test_most_draws_come_near_the_quantile_that_they_seek(self, opened, people, size):
        """At a cost for which n (1 - p) is clearly above ln 65 / epsilon."""
        profile = opened(people, noise=DiscreteNoise(5), epsilon=10**4).risk(SUM)
        drawn = [
            profile.choose(0.9, p=0.97, epsilon=f"3.{i:04}", mode="paper").detail["drawn"][0]
            for i in range(size(30))
        ]
        # 98 % lie at or below each of these places, 90 % below the first, 99.5 % above the last
        assert set(drawn) <= set(range(7, 32))
        assert len(set(drawn)) > 5

    @pytest.mark.parametrize("method", METHODS)
    def test_it_charges_exactly_its_cost(self, method, opened, people, budget, unit):
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        for cost, options in (
            (DEFAULT[unit], {}),
            (Fraction("0.123"), {unit: "0.123"}),
            (Fraction(1, 3), {unit: Fraction(1, 3)}),
        ):
            before = spent(curator, unit)
            choice = profile.choose(tau_of(method), method=method, **options, mode="paper")
            assert choice.spent == PrivacyLoss.of(cost, CURRENCY[unit])
            assert spent(curator, unit) == before + cost
            assert choice.remaining == curator.budget.remaining
            assert choice.cap == curator.budget.cap

    def test_an_epsilon_in_a_zcdp_session_is_charged_as_the_rho_it_means(self, opened, people):
        curator = opened(people, rho=9, delta=1e-6)
        choice = curator.risk(SUM).choose(0.9, epsilon=0.5, mode="paper")
        price = curator.session().price(SUM, epsilon=0.5)
        assert choice.spent.rho == price.spent.rho

    @pytest.mark.parametrize("method", METHODS)
    def test_it_is_in_the_history_of_the_owner_alone(self, method, opened, people, budget):
        curator = opened(people, **budget)
        choice = curator.risk(SUM).choose(tau_of(method), method=method, mode="paper")
        (charge,) = curator._runner.store.accountant.history("owner")
        assert charge.sql == f"risk, {method}: {SUM}"
        assert charge.spent == choice.spent
        assert charge.query["mechanism"]["method"] == method
        assert len(curator.session().history) == 0

    @pytest.mark.parametrize("method", METHODS)
    def test_asked_again_it_is_free_and_the_same(self, method, opened, people, budget, unit):
        curator = opened(people, **budget)
        first = curator.risk(SUM).choose(tau_of(method), method=method, mode="paper")
        total = spent(curator, unit)
        for sql in (SUM, f"  {SUM} ", "SELECT SUM(x) AS other FROM T"):
            again = curator.risk(sql).choose(tau_of(method), method=method, mode="paper")
            assert (again.level, again.detail) == (first.level, first.detail)
            assert again.stored
            assert not first.stored
            assert again.spent == PrivacyLoss.none()
        assert spent(curator, unit) == total

    def test_another_tau_of_the_same_draw_is_free(self, opened, people, budget, unit):
        """The quantile is what was released; a level is arithmetic on it."""
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        levels = [profile.choose(tau, mode="paper").level for tau in (0.95, 0.9, 0.5)]
        assert spent(curator, unit) == DEFAULT[unit]
        assert levels == sorted(levels)

    def test_other_draws_are_charged(self, opened, people, unit, budget):
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        options = [
            {}, {"p": 0.9}, {"method": "tail"}, {"method": "tail", "at_most": 1},
            {"method": "tail", "tau": 0.5}, {"method": "tail", "candidates": [1]},
            {"method": "variance"}, {unit: 1},
        ]  # fmt: skip
        for i, option in enumerate(options, start=1):
            assert not profile.choose(**option, mode="paper").stored
            assert len(curator._runner.store.accountant.history("owner")) == i
        curator.risk("SELECT SUM(x) AS s FROM t WHERE x > 0").choose(mode="paper")
        assert len(curator._runner.store.accountant.history("owner")) == len(options) + 1
        # where an average's level goes changes its contributions
        for split in (0.5, 0.7):
            curator.risk("SELECT AVG(x) AS m FROM t", split=split).choose(mode="paper")
        assert len(curator._runner.store.accountant.history("owner")) == len(options) + 3

    @pytest.mark.parametrize("method", METHODS)
    def test_when_it_does_not_fit_it_is_refused_before_the_data_is_read(
        self, method, opened, people, unit, monkeypatch
    ):
        curator = opened(people, **{unit: "0.001"})
        profile = curator.risk(SUM)
        monkeypatch.setattr(DuckDBEngine, "contributions", lambda *_: 1 / 0)
        for options in ({}, {unit: "0.0011"}, {unit: 1}):
            with pytest.raises(BudgetError, match="Nothing was charged"):
                profile.choose(tau_of(method), method=method, **options, mode="paper")
        with pytest.raises(BudgetError):
            profile.share()
        assert spent(curator, unit) == 0

    def test_the_last_of_the_budget_can_be_chosen_with(self, opened, people, unit):
        curator = opened(people, **{unit: "0.1"})
        choice = curator.risk(SUM).choose(0.9, **{unit: "0.1"}, mode="paper")
        assert choice.remaining.level(CURRENCY[unit]) == 0

    @pytest.mark.parametrize("place", ["contributions", "largest"])
    def test_a_failure_charges_nothing_and_says_nothing(self, place, opened, people, monkeypatch):
        class Failing:
            def largest(self, scores, scale):
                if place == "largest":
                    raise ArithmeticError(f"48611 {scores}")
                return 0

        curator = opened(people, noise=Failing(), rho=1)
        profile = curator.risk(SUM)

        def fail(*_):
            raise ArithmeticError("48611 rows")

        if place == "contributions":
            monkeypatch.setattr(DuckDBEngine, "contributions", fail)
        with pytest.raises(DpnbError, match="the engine could not carry out") as caught:
            profile.choose(0.9, mode="paper")
        assert "48611" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None
        assert curator.budget.spent.rho == 0

    def test_threads_that_ask_the_same_pay_once(self, opened, people, budget, unit):
        curator = opened(people, **budget)
        profile, found = curator.risk(SUM), []
        threads = [
            threading.Thread(target=lambda: found.append(profile.choose(0.9, mode="paper")))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 6
        assert len({(choice.level, tuple(choice.detail["drawn"])) for choice in found}) == 1
        assert sum(not choice.stored for choice in found) == 1
        assert spent(curator, unit) == DEFAULT[unit]


class TestNonsense:
    @pytest.fixture
    def profile(self, opened, people, budget):
        return opened(people, **budget).risk(SUM)

    def test_a_cost_is_a_positive_number(self, profile, unit):
        for use in (profile.choose, profile.share):
            for level in (0, -1, math.nan, math.inf, -math.inf, "x", "", True, [1]):
                with pytest.raises(RequestError):
                    use(**{unit: level})
            with pytest.raises(RequestError):
                use(rho=1, epsilon=1)

    @pytest.mark.parametrize("options", [{}, {"method": "tail"}, {"private": False}])
    def test_a_tau_is_between_0_and_1(self, options, profile):
        for tau in (-0.1, 1.1, math.nan, math.inf, "x", None, True):
            with pytest.raises(RequestError, match="tau must be between 0 and 1"):
                profile.choose(tau, **options, mode="paper")

    def test_a_variance_is_positive(self, profile):
        for options in ({"method": "variance"}, {"private": False, "preference": "variance"}):
            for tau in (0, -1, math.nan, math.inf, "x", None, True):
                with pytest.raises(RequestError):
                    profile.choose(tau, **options, mode="paper")

    def test_a_quantile_is_between_0_and_1_with_few_digits(self, profile):
        for p in (0, 1, -0.5, 1.5, math.nan, "x", True, 1e-9, "0.1234567"):
            with pytest.raises(RequestError):
                profile.choose(0.9, p=p, mode="paper")

    def test_most_is_a_number_of_rows(self, profile):
        for most in (-1, 0.5, "x", True, 2**41, math.inf):
            with pytest.raises(RequestError, match="at_most must be a whole number"):
                profile.choose(0.9, method="tail", at_most=most, mode="paper")

    def test_methods_are_known(self, profile):
        for method in ("nope", "", 5, "Quantile", ["quantile"]):
            with pytest.raises(RequestError, match="there is no method"):
                profile.choose(0.9, method=method, mode="paper")

    @pytest.mark.parametrize("preference", ["nope", "", None, 5, object(), ["max_loss"]])
    def test_preferences_are_known(self, preference, opened, four):
        with pytest.raises(RequestError):
            opened(four).risk(SUM).choose(0.9, private=False, preference=preference)

    @pytest.mark.parametrize("options", [{}, {"method": "tail"}, {"private": False}])
    def test_candidates_are_positive_numbers(self, options, profile):
        for levels in ([], [0], [-1, 1], [math.inf], [math.nan], ["x"], "0.1", 5):
            with pytest.raises(RequestError):
                profile.choose(0.9, candidates=levels, **options, mode="paper")

    def test_policies_are_known(self, profile):
        for policy in ("nope", "", None, 5):
            with pytest.raises(RequestError, match="there is no policy"):
                profile.suggest(0.9, policy=policy)

    def test_nothing_of_this_was_charged(self, opened, people, unit, budget):
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        for options in ({"p": 2}, {"method": "nope"}, {"candidates": []}, {unit: -1}, {"tau": 3}):
            with pytest.raises(RequestError):
                profile.choose(**options, mode="paper")
        assert spent(curator, unit) == 0


class TestByExactValues:
    def test_a_function_of_the_owner_may_decide(self, opened, people):
        profile = opened(people, epsilon=9).risk(SUM)

        def share_above(rdr, rows):
            return rows[rdr > 2].sum() / rows.sum()

        choice = profile.choose(private=False, preference=Judged(share_above, 0.005))
        # at 2 five rows in a thousand stand out by more than twice, at 3 all 20
        assert choice.level == 2
        assert choice.method == "Judged"
        assert choice.conditional

    def test_a_function_that_fails_charges_nothing_and_says_nothing(self, opened, people):
        curator = opened(people, epsilon=9)
        judged = Judged(lambda rdr, rows: 1 / 0, 1.0)
        with pytest.raises(RequestError, match="the preference function failed") as caught:
            curator.risk(SUM).choose(private=False, preference=judged)
        assert caught.value.__context__ is None

    def test_a_condition_that_comes_and_goes_is_warned_of(self, opened, people):
        odd = Judged(lambda rdr, rows: 0 if rdr.max() > 5 or rdr.max() < 1.01 else 1, 0.5)
        public = Table("t", people.source, people.schema, public=True)
        with pytest.warns(UserWarning, match="not at every smaller one") as caught:
            opened(public, epsilon=9).risk(SUM).choose(private=False, preference=odd)
        assert not any(c.isdigit() for c in str(caught[0].message))
        with warnings.catch_warnings():
            # of a table that is not public it would tell something of the rows
            warnings.simplefilter("error")
            opened(people, epsilon=9).risk(SUM).choose(private=False, preference=odd)

    def test_when_no_candidate_will_do_there_is_none(self, opened, people):
        choice = opened(people, epsilon=9).risk(SUM).choose(0.95, private=False, candidates=[1, 2])
        assert (choice.level, choice.rho, choice.epsilon) == (None, None, None)


class TestConditional:
    """Statement 17: what rests on a look at exact values is marked, all the way."""

    def test_a_level_by_exact_values_marks_the_answer(self, opened, people, budget, unit):
        curator = opened(people, **budget)
        choice = curator.risk(SUM).choose(0.9, private=False)
        assert choice.conditional
        assert "DATA-DEPENDENT" in repr(choice)
        assert isinstance(getattr(choice, unit), Picked)
        answer = curator.session().query(SUM, **{unit: getattr(choice, unit)})
        assert answer.conditional
        assert "DATA-DEPENDENT" in repr(answer)

    def test_rules_and_private_choices_mark_nothing(self, opened, people, budget, unit):
        curator = opened(people, **budget)
        profile, session = curator.risk(SUM), curator.session()
        for choice in (profile.suggest(0.9), profile.choose(0.9, mode="paper")):
            assert not choice.conditional
            assert "DATA-DEPENDENT" not in repr(choice)
            assert not isinstance(getattr(choice, unit), Picked)
            assert not session.query(SUM, **{unit: getattr(choice, unit)}).conditional

    def test_a_cost_that_was_picked_marks_the_private_choice(self, opened, people, budget, unit):
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        level = getattr(profile.choose(0.9, private=False), unit)
        choice = profile.choose(0.9, **{unit: level}, mode="paper")
        assert choice.conditional
        assert isinstance(getattr(choice, unit), Picked)
        (charge,) = curator._runner.store.accountant.history("owner")
        assert charge.conditional

    def test_a_stored_private_choice_keeps_its_mark(self, opened, people, budget, unit):
        """Asked again with the same amount, typed by hand this time: the draw is the same."""
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        first = profile.choose(0.9, **{unit: Picked(0.25)}, mode="paper")
        again = profile.choose(0.9, **{unit: 0.25}, mode="paper")
        assert again.detail == first.detail
        assert again.conditional


def cheaper(entry):
    for name, value in entry["spent"].items():
        if value not in ("0", None):
            entry["spent"][name] = str(Fraction(value) / 2)


def free(entry):
    entry["spent"] = PrivacyLoss.none().to_dict()


def renamed(entry):
    unit = "rho" if "rho" in entry["query"] else "epsilon"
    entry["query"][unit] = {"selection": "1/1000"}


def negative(entry):
    unit = "rho" if "rho" in entry["query"] else "epsilon"
    entry["query"][unit] = {"selection": "-1/200", "other": "1/100"}


def nothing_drawn(entry):
    del entry["drawn"]


CHANGES = {
    "a smaller price": cheaper, "no price": free, "a smaller part": renamed,
    "a negative part": negative, "nothing drawn": nothing_drawn,
}  # fmt: skip


class TestLedger:
    @pytest.fixture
    def kept(self, opened, people, budget, unit, tmp_path):
        path = tmp_path / "ledger"
        curator = opened(people, ledger=path, **budget)
        profile = curator.risk(SUM)
        choices = {m: profile.choose(tau_of(m), method=m, mode="paper") for m in METHODS}
        shared = profile.share()
        total = spent(curator, unit)
        curator.close()
        return path, choices, shared, total

    def test_after_a_restart_all_is_answered_from_the_ledger(self, kept, people, unit, monkeypatch):
        path, choices, shared, total = kept
        curator = Curator([people], ledger=path, noise=DiscreteNoise(99))
        profile = curator.risk(SUM)
        monkeypatch.setattr(DuckDBEngine, "contributions", lambda *_: 1 / 0)
        assert spent(curator, unit) == total == 4 * DEFAULT[unit]
        for method, choice in choices.items():
            again = profile.choose(tau_of(method), method=method, mode="paper")
            assert again.stored
            assert again.kept
            assert (again.level, again.detail) == (choice.level, choice.detail)
        assert profile.share().counts == shared.counts
        assert profile.share().stored
        assert spent(curator, unit) == total
        curator.close()

    def test_other_data_make_other_choices(self, kept, unit):
        path, _, _, total = kept
        other = Table("t", pd.DataFrame({"x": [10] * 50}), Schema({"x": Integer(0, 10)}))
        curator = Curator([other], ledger=path, new_version=True, noise=DiscreteNoise(3))
        fresh = curator.risk(SUM).choose(0.9, mode="paper")
        assert not fresh.stored
        assert spent(curator, unit) == total + DEFAULT[unit]
        curator.close()

    def edit(self, path, change):
        """Change the first release, and make the chain whole again."""
        connection = sqlite3.connect(path)
        entries = connection.execute("SELECT seq, body, hash FROM entry ORDER BY seq").fetchall()
        previous, changed = hashlib.sha256(b"dpnb ledger").hexdigest(), False
        for sequence, body, stored in entries:
            entry = json.loads(body)
            if entry["kind"] == "release" and not changed:
                change(entry)
                changed = True
            text = json.dumps(entry, sort_keys=True, ensure_ascii=False)
            digest = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
            assert changed or digest == stored
            connection.execute(
                "UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (text, digest, sequence)
            )
            previous = digest
        connection.commit()
        connection.close()
        assert changed

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_price_that_was_changed_is_refused(self, name, kept, people):
        path, *_ = kept
        self.edit(path, CHANGES[name])
        with pytest.raises(LedgerError, match=r"does not add up|is damaged"):
            Curator([people], ledger=path, noise=DiscreteNoise(1))

    def test_the_chain_detects_careless_changes(self, kept, people):
        path, *_ = kept
        connection = sqlite3.connect(path)
        connection.execute("UPDATE entry SET body = replace(body, 'selection', 'selektion')")
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match="changed after it was written"):
            Curator([people], ledger=path, noise=DiscreteNoise(1))


class TestShare:
    def test_counts_with_intervals_over_public_bins(self, opened, people, budget, unit):
        found = opened(people, **budget).risk(SUM).share(bins=4, **{unit: 50})
        assert found.edges == (0, 0.25, 0.5, 0.75, 1)
        assert len(found.counts) == len(found.low) == len(found.high) == 5
        exact = (900, 80, 15, 0, 5)
        assert all(
            low <= n <= high for low, n, high in zip(found.low, exact, found.high, strict=True)
        )
        frame = found.to_frame()
        assert frame["r_low"].tolist() == [0, 0, 0.25, 0.5, 0.75]
        assert frame["r_high"].tolist() == [0, 0.25, 0.5, 0.75, 1]
        assert frame["rows"].tolist() == list(found.counts)

    def test_it_is_charged_once(self, opened, people, budget, unit):
        curator = opened(people, **budget)
        profile = curator.risk(SUM)
        first = profile.share()
        assert first.spent == PrivacyLoss.of(DEFAULT[unit], CURRENCY[unit])
        again = profile.share()
        assert again.counts == first.counts
        assert (again.stored, again.spent) == (True, PrivacyLoss.none())
        assert spent(curator, unit) == DEFAULT[unit]
        profile.share(bins=15)
        profile.share(**{unit: 1})
        assert spent(curator, unit) == 2 * DEFAULT[unit] + 1

    @pytest.mark.parametrize("bins", [1, 7, 16, 64])
    def test_the_intervals_hold_together_with_the_stated_confidence(
        self, bins, opened, people, budget, unit
    ):
        """The noise is whole numbers: its exact distribution, not that of its continuous cousin."""
        profile = opened(people, **budget).risk(SUM)
        for cost in ("0.005", "0.05", "0.3", "0.5", "1", "2", "5.83", "9"):
            found = profile.share(bins=bins, **{unit: cost})
            half = found.high[0] - found.counts[0]
            scale = Counts(bins).scale(Fraction(cost), CURRENCY[unit])
            share = 0.05 / (bins + 1)
            if unit == "epsilon":
                q, least = math.exp(-1 / scale), math.floor(half + 1e-9) + 1
                outside = 2 * q**least / (1 + q)
                continuous = -math.log(share) * scale
            else:
                drawn = np.arange(-4_000, 4_001)
                distribution = np.exp(-(drawn.astype(float) ** 2) / (2 * scale**2))
                outside = distribution[np.abs(drawn) > half + 1e-9].sum() / distribution.sum()
                continuous = scale * math.sqrt(2 * -math.log(share))
            assert (1 - outside) ** (bins + 1) >= found.confidence
            # and they are no wider than whole numbers make them
            assert half <= continuous + 2

    def test_intervals_of_counts_are_not_negative(self, opened, single):
        found = opened(single([]), epsilon=9).risk(SUM).share()
        assert min(found.low) >= 0
        assert min(found.high) >= 0

    def test_it_can_be_stored_and_shown(self, opened, people, budget):
        found = opened(people, **budget).risk(SUM).share(bins=3)
        again = RiskHistogram.from_dict(json.loads(json.dumps(found.to_dict())))
        assert again == found
        assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301
        for text in (repr(found), found._repr_html_().replace("&nbsp;", " ")):
            assert "NOT PRIVATE" in text
            assert "95 % confidence" in text
            assert "33 % to 67 %" in text

    def test_with_secure_noise_it_is_not_stamped(self, people):
        with_noise = Curator([people], budget=Budget(rho=1))
        found = with_noise.risk(SUM).share()
        assert found.stamp == ""
        assert "NOT PRIVATE" not in repr(found)
        with_noise.close()

    def test_a_picked_cost_marks_it(self, opened, people, budget, unit):
        curator = opened(people, **budget)
        found = curator.risk(SUM).share(**{unit: Picked(0.5)})
        (charge,) = curator._runner.store.accountant.history("owner")
        assert charge.conditional
        assert "DATA-DEPENDENT" in repr(found)


class TestPlainData:
    @pytest.fixture
    def choices(self, opened, people, budget):
        profile = opened(people, **budget).risk(SUM)
        private = [profile.choose(tau_of(m), method=m, mode="paper") for m in METHODS]
        return [
            profile.suggest(0.9), profile.suggest(1), profile.choose(0.9, private=False), *private,
            profile.choose(0.9, mode="paper"),
        ]  # fmt: skip

    def test_they_survive_json_and_pickling(self, choices):
        for choice in choices:
            assert Choice.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice
            assert pickle.loads(pickle.dumps(choice)) == choice  # noqa: S301

    def test_they_say_how_they_came_about_and_what_they_cost(self, choices):
        rule, none, hidden, quantile, tail, variance, stored = map(repr, choices)
        assert "Rule fixed in advance" in rule
        assert "No privacy cost." in rule
        assert "A limit of 50 allows no answer" in none
        assert "Chosen by looking at the data" in hidden
        for text in (quantile, tail, variance):
            assert "Private selection" in text
            assert "Privacy cost: " in text
            assert "makes no promise" in text
        assert "already released: no privacy cost" in stored
        for choice in choices:
            assert choice.sentence in choice._repr_html_() or "&" in choice._repr_html_()

    def test_levels_are_handed_on_in_the_unit_of_the_session(self, opened, people):
        pure = opened(people, epsilon=9).risk(SUM).suggest(0.5)
        assert pure.epsilon == 1
        assert pure.loss == PrivacyLoss.of(Fraction(1), PURE)
        zcdp = opened(people, rho=9, delta=1e-6).risk(SUM).suggest(0.5)
        assert zcdp.rho == 1.5
        assert zcdp.epsilon == pytest.approx(epsilon_of_rho(1.5, 1e-6), rel=1e-9)
        assert opened(people, rho=9).risk(SUM).suggest(0.5).epsilon is None

    @pytest.mark.parametrize(
        ("tau", "expected"),
        [(0.99, 0.7592), (0.95, 1.7818), (0.9, 2.6631), (0.75, 5.0247), (0.5, 10.6046)],
    )
    def test_the_total_budget_that_a_tau_means(self, tau, expected, opened, people):
        """Theorem 16, as epsilon at delta = 1e-6 by the sharp conversion."""
        found = opened(people, rho=9, delta=1e-6).risk(SUM).suggest(tau)
        simple = found.rho + 2 * math.sqrt(found.rho * math.log(1e6))
        assert simple == pytest.approx(expected, abs=2e-4)
        assert 0.8 * expected < found.epsilon < expected

    def test_test_noise_is_stamped_and_secure_noise_is_not(self, opened, people):
        assert "NOT PRIVATE" in repr(opened(people).risk(SUM).choose(0.9, mode="paper"))
        curator = Curator([people], budget=Budget(rho=1))
        choice = curator.risk(SUM).choose(0.9, mode="paper")
        assert choice.stamp == ""
        assert "NOT PRIVATE" not in repr(choice)
        curator.close()


def test_a_tail_names_what_it_asked(opened, people):
    choice = (
        opened(people, epsilon=9)
        .risk(SUM)
        .choose(0.8, method="tail", at_most=3, candidates=[2, 1], mode="paper")
    )
    expected = Tail((Fraction(2), Fraction(1)), 0.8, 3, "bound").definition()
    assert {**expected, "drawn": choice.detail["drawn"], "mode": "paper"} == choice.detail
