"""The card of a bill."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dpnb
from dpnb.display.cards.words import KERNEL
from dpnb.display.text import CONDITIONAL

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def bill():
    schema = dpnb.Schema({"sex": dpnb.Category(["Female", "Male"])})
    table = dpnb.Table("people", dpnb.datasets.adult().source, schema)
    with dpnb.Session(table, budget=dpnb.Budget(rho=1)) as session:
        return session.query("SELECT COUNT(*) AS n FROM people", rho="0.25").bill


def test_cost_rest_and_limit_stand_in_a_table(bill):
    text = repr(bill)
    for word, amount in (("privacy cost", "rho 0.25"), ("left", "rho 0.75"), ("limit", "rho 1")):
        assert any(line.startswith(word) and amount in line for line in text.splitlines()), text
    assert "This cost rho 0.25" in text
    assert "rho 0.75" in bill._repr_html_()


def test_what_else_must_be_said_is_said(bill):
    assert KERNEL in repr(bill)
    assert KERNEL not in repr(replace(bill, kept=True))
    assert CONDITIONAL not in repr(bill)
    assert CONDITIONAL in repr(replace(bill, conditional=True))
    assert "NOT PRIVATE" in repr(replace(bill, stamp="test"))
