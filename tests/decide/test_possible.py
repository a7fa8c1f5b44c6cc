"""Decisions show and prove only what is possible."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.decide.decision import Decision
from dpnb.decide.findings import _cut
from dpnb.errors import RequestError
from dpnb.estimation.estimates import cut
from tests.kit.noise import ContinuousNoise

FRAME = pd.DataFrame({"k": [*"aaaaaaaaab"], "x": range(10), "net": [-3] * 5 + [4] * 5})
SCHEMA = dpnb.Schema(
    {
        "k": dpnb.Category([*"abcdefgh"]),
        "x": dpnb.Integer(0, 10),
        "net": dpnb.Integer(-5, 5, bins=[-5, 0, 5]),
    }
)


@pytest.fixture
def session():
    budget = dpnb.Budget(rho=100, delta=1e-6)
    table = dpnb.Table("t", FRAME, SCHEMA)
    with dpnb.Session(table, budget=budget, noise=ContinuousNoise(2)) as opened:
        yield opened


def test_no_value_and_no_interval_is_below_0(session):
    sql = (
        "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY k HAVING SUM(x) > 5 AND COUNT(*) > 2"
    )
    made = session.decide(sql, u={"s": 60, "n": 6}, beta=0.1)
    released = np.array([reading.values for reading in made.readings])
    assert released.min() < 0
    frame = made.to_frame()
    for alias, values in zip(("s", "n"), released, strict=True):
        assert frame[alias].min() == 0
        assert (frame[f"{alias}_low"] >= 0).all()
        assert (frame[f"{alias}_low"] <= frame[alias]).all()
        assert frame[alias].to_numpy()[values > 0] == pytest.approx(values[values > 0])
    for text in (repr(made), made.to_markdown()):
        lines = [line for line in text.splitlines() if "surely" in line or "unknown" in line]
        assert lines
        assert not any(" -" in line.replace(" --", "") for line in lines if " to " in line)
    sent = Decision.from_dict(json.loads(json.dumps(made.to_dict())))
    pd.testing.assert_frame_equal(sent.to_frame(), frame)


def test_what_a_groups_bounds_decide_needs_no_test(session):
    # in the first group no row is above 0, so its sum is not; noise might say something else
    sql = "SELECT net, SUM(net) AS s FROM t GROUP BY net HAVING SUM(net) > 0"
    for beta in (0.1, 0.3):
        made = session.decide(sql, u=40, beta=beta, steps=1)
        assert made.verdicts[0] == -1
        assert not made.chosen[0]


@pytest.mark.parametrize(
    "condition",
    ["SUM(net) FILTER (WHERE net > 1) > -1", "SUM(x * x) >= 0", "AVG(x) FILTER (WHERE x > 4) > 3"],
)
def test_what_bounds_and_conditions_decide_is_refused(session, condition):
    with pytest.raises(RequestError, match="always true"):
        session.decide(f"SELECT k FROM t GROUP BY k HAVING {condition}", u=10)


def test_many_intervals_are_cut_as_one_is():
    ends = [-math.inf, -9.0, -1.0, 0.0, 0.5, 1.0, 4.0, math.inf]
    intervals = [
        (low, high) for low in ends for high in ends if low < math.inf and high > -math.inf
    ]
    ranges = [(-math.inf, math.inf), (0.0, 1.0), (0.0, math.inf), (-1.0, 0.0), (0.0, 0.0)]
    cases = [(*interval, *possible) for interval in intervals for possible in ranges]
    found = np.array(_cut(*map(np.array, zip(*cases, strict=True)))).T.tolist()
    for (low, high, least, most), pair in zip(cases, found, strict=True):
        wanted = cut((low, high), (least, most)) if low <= high else (low, high)
        assert tuple(pair) == wanted, (low, high, least, most)
