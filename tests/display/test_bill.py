"""The card of a bill."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pytest

import dpnb
from dpnb.display import foot
from dpnb.display.cards.price import price_document
from dpnb.display.cards.words import KERNEL
from dpnb.display.document import plain
from dpnb.display.text import CONDITIONAL, document_text
from dpnb.privacy.loss import PrivacyLoss, amount_text
from tests.kit.html import Reading

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def bill():
    schema = dpnb.Schema({"sex": dpnb.Category(["Female", "Male"])})
    table = dpnb.Table("people", dpnb.datasets.adult().source, schema)
    with dpnb.Session(table, budget=dpnb.Budget(rho=1)) as session:
        return session.query("SELECT COUNT(*) AS n FROM people", rho="0.25").bill


def test_cost_rest_and_limit_stand_below_each_other(bill):
    text = repr(bill)
    for word, amount in (("privacy cost", "rho 0.25"), ("left", "rho 0.75"), ("limit", "rho 1")):
        assert any(line.startswith(word) and amount in line for line in text.splitlines()), text
    assert "This cost rho 0.25" in text
    facts = Reading(bill._repr_html_()).text
    assert "privacy costrho 0.25leftrho 0.75limitrho 1" in facts


def test_what_else_must_be_said_is_said(bill):
    assert KERNEL in repr(bill)
    assert KERNEL not in repr(replace(bill, kept=True))
    assert CONDITIONAL not in repr(bill)
    assert CONDITIONAL in repr(replace(bill, conditional=True))
    assert "NOT PRIVATE" in repr(replace(bill, stamp="test"))


@pytest.fixture(scope="module")
def status():
    """A budget of which a small delta may be spent on values."""
    schema = dpnb.Schema({"age": dpnb.Integer(17, 90)}, undeclared=["name"])
    frame = pd.DataFrame({"age": [30], "name": ["Ann"]})
    budget = dpnb.Budget(epsilon=3, delta="1e-6", key_delta="1e-7")
    with dpnb.Session(dpnb.Table("people", frame, schema), budget=budget) as session:
        return session.budget


class TestInEpsilon:
    """A delta that is spent on values beside rho belongs to no epsilon of rho."""

    def test_the_limit_is_the_epsilon_that_was_set(self, status):
        rho = amount_text(status.cap.rho, left=True)
        assert foot.in_epsilon(status.bill) == f"At delta 9e-7, rho {rho} amounts to epsilon 3."

    def test_what_is_spent_beside_stands_last(self, status):
        spent = PrivacyLoss(rho=Fraction(1, 20), delta=Fraction(1, 10**8))
        paid = replace(status.bill, spent=spent)
        epsilon = amount_text(PrivacyLoss(rho=Fraction(1, 20)).epsilon_at(9e-7))
        said = f"Privacy cost rho 0.05, epsilon {epsilon}, and delta 1e-8"
        assert plain(foot.cost(paid)) == said
        assert f"rho 0.05 amounts to epsilon {epsilon}, and rho" in foot.in_epsilon(paid)

    def test_what_was_released_before_costs_nothing(self, bill):
        free = replace(bill, spent=PrivacyLoss.none(), stored=True)
        assert plain(foot.cost(free)) == "No privacy cost: already released"
        assert plain(foot.cost(replace(free, stored=False))) == "No privacy cost"


class TestPrice:
    """The strip of a price tells what would be left, if it would be answered."""

    @pytest.mark.parametrize(
        ("cost", "refusal", "left"),
        [
            ("1/4", "", "50 % would be left"),
            ("1/4", "the owner limits it", "75 % left"),
            ("1", "it costs too much", "75 % left, which is too little"),
        ],
    )
    def test_what_would_be_left(self, bill, cost, refusal, left):
        asked = replace(bill, spent=PrivacyLoss(rho=Fraction(cost)))
        shown = price_document(asked, refusal, [], ["More."])
        assert plain(shown.foot.cost) == "Spent so far rho 0.25"
        assert plain(shown.foot.left.words) == left
        assert (shown.foot.left.now > 0) == (not refusal)
        assert document_text(shown).count("othing") == 1
