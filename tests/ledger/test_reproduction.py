"""The numbers of answers that corrected DProvDB gives, on the real accounting.

A short form of the benchmarks in tests/benchmarks/dprovdb.
"""

from __future__ import annotations

import math
import os

import pandas as pd
import pytest

import dpnb
from dpnb.errors import BudgetError
from dpnb.privacy.definition import BASIC, GDP
from tests.benchmarks.dprovdb import common, trees

LONG = os.environ.get("DPNB_LONG") == "1"


@pytest.mark.parametrize(
    ("mechanism", "accountant", "rows", "wanted", "count"),
    # nothing is answered after so many queries of either analyst
    [
        ("path", GDP, "max", {1: 3643}, 3000),
        ("additive", BASIC, "max", {2: 1696}, 2500),
        ("vanilla", BASIC, "sum", {1: 737}, 2000),
    ],
)
def test_range_counts_are_answered_as_often_as_computed_independently(
    mechanism, accountant, rows, wanted, count
):
    for run, answers in wanted.items():
        case = common.Case(
            mechanism, "6.4", run, accountant=accountant, rows=rows, count=4000 if LONG else count
        )
        outcome = common.play(case)
        assert outcome.total == pytest.approx(answers, rel=0.03)
        assert outcome.used <= 1 + 1e-9


@pytest.mark.parametrize(
    ("mechanism", "accountant", "rows"),
    [("path", GDP, "max"), ("additive", BASIC, "max"), ("vanilla", BASIC, "sum")],
)
def test_a_curator_answers_the_same_requests_as_the_accounting_without_data(
    mechanism, accountant, rows
):
    case = common.Case(mechanism, "0.8", 3, accountant=accountant, rows=rows, count=60)
    kind = dpnb.Real(0, common.BINS, bins=list(range(common.BINS + 1)))
    schema = dpnb.Schema(dict.fromkeys(common.DOMAINS["adult"], kind))
    frame = pd.DataFrame({name: [0.5, 7.0, 49.5] for name in schema})
    curator = dpnb.Curator(
        dpnb.Table("people", frame, schema),
        budget=dpnb.Budget(
            epsilon="0.8", delta="1e-5" if accountant == "basic" else "1e-9", accountant=accountant
        ),
        analysts={"analyst0": 1, "analyst1": 9},
        policy=dpnb.Policy(mechanism=mechanism, rows=rows),
        views="attributes",
    )
    sessions = [curator.session("analyst0"), curator.session("analyst1")]
    served = bytearray()
    for analyst, query in case.asked():
        try:
            answer = sessions[analyst].query(
                f"SELECT COUNT(*) AS n FROM people WHERE {query.view} <= {query.bins}",
                error=1.959963984540054 * math.sqrt(query.variance),
                history=False,
            )
        except BudgetError:
            served.append(0)
        else:
            served.append(1 + analyst)
            assert len(answer.levels) == 1
    curator.close()
    assert 10 < len(served) - served.count(0) < len(served)
    assert bytes(served) == common.play(case).served


def test_baselines_answer_as_often_as_computed_independently():
    def mean(play, *rest, count=4000):
        case = common.Case("", "6.4", 1, count=4000 if LONG else count)
        return math.fsum(play(one, *rest).total for one in common.runs(case)) / 4

    # later queries are dearer than those that were the first to be refused
    assert round(mean(common.chorus, count=1500)) == 69
    assert mean(common.chorus, "bins", count=1500) == pytest.approx(9, abs=0.5)
    assert mean(common.static, 15) == pytest.approx(3756, rel=0.03)
    assert mean(common.static, 30) == pytest.approx(30, abs=1)


def test_trees_have_the_published_sizes():
    assert {name: search.size() for name, search in trees.SEARCHES.items()} == {
        "adult": 156,
        "tpch": 43,
    }


def test_a_search_asks_for_less_and_less_and_takes_the_last_child_first():
    asked = []

    def ask(first, end, variance):
        asked.append((first, end, variance))
        return 10 if len(asked) <= 2 else 0

    trees.alternate(trees.SEARCHES["adult"], [ask])
    assert asked[:3] == [(0, 50, 24_900), (40, 50, 24_800), (48, 50, 24_700)]
    assert len(asked) == 1 + 5 + 5
