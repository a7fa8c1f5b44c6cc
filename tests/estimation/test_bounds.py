"""Bounds for everything at once: a worked example, coverage after any choice, contradictions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from dpnb.errors import RequestError
from dpnb.estimation.bounds import allowances, closed_form, guaranteed
from dpnb.estimation.history import History, Row
from dpnb.privacy.calibrate import NoiseDistribution

H = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
X = np.array([10.0, 20, 20, 10])
Y = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
B = (20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0)
LAPLACE = [NoiseDistribution("laplace", b) for b in B]
QUERY = range(4), [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("alpha", "nonnegative", "low", "high"),
    [
        (0.05, True, 0.0, 203.2552145),
        (0.05, False, -128.2060835, 222.1310834),
        (0.2, True, 0.0, 161.6663836),
        (0.2, False, -79.6857810, 173.6107810),
    ],
)
def test_worked_example(alpha, nonnegative, low, high):
    history = History.of(H, Y, LAPLACE)
    (found,) = guaranteed(history, [QUERY], alpha, nonnegative=nonnegative)
    assert found == pytest.approx((low, high), abs=1e-4)


def test_the_closed_form_is_never_narrower_than_the_program():
    history = History.of(H, Y, LAPLACE)
    joint = history.estimate(*QUERY)
    half = closed_form(joint.weights[0], allowances(LAPLACE, 0.05))
    ((low, high),) = guaranteed(history, [QUERY], 0.05, nonnegative=False)
    assert joint.estimates[0] - half <= low < high <= joint.estimates[0] + half


@pytest.mark.parametrize("unit", [1e-140, 1e-12, 1e-7, 1e7, 1e20, 1e140])
def test_units_change_nothing(unit):
    """Neither those of the query nor those of the answers."""
    plain = History.of(H, Y, LAPLACE)
    ((low, high),) = guaranteed(plain, [QUERY], 0.2)
    query = QUERY[0], [unit * each for each in QUERY[1]]
    assert guaranteed(plain, [query], 0.2)[0] == pytest.approx((unit * low, unit * high), rel=1e-6)
    distributions = [NoiseDistribution("laplace", unit * b) for b in B]
    history = History.of(unit * H, [unit * y for y in Y], distributions)
    assert guaranteed(history, [QUERY], 0.2)[0] == pytest.approx((low, high), rel=1e-6)


def test_allowances_add_up_to_the_failure_probability():
    distributions = [NoiseDistribution("laplace", 2.0), NoiseDistribution("gaussian", 3.0)] * 3
    q = allowances(distributions, 0.06)
    assert [distribution.quantile(0.01) for distribution in distributions] == pytest.approx(q)
    assert allowances(distributions, 0.06, [1.0] * 6) == pytest.approx([each + 0.5 for each in q])
    many = allowances([NoiseDistribution("laplace", 1.0)] * 2000, 0.05, growing=True)
    assert 0.0499 < math.fsum(math.exp(-each) for each in many) < 0.05


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_a_failure_probability_is_one(alpha):
    with pytest.raises(RequestError):
        allowances(LAPLACE, alpha)


def test_all_cells_are_covered_together(size):
    """The most extreme of all cells and pairs, chosen after seeing the answers, is covered."""
    rng = np.random.default_rng(7)
    queries = [(range(4), unit) for unit in (*np.eye(4), [1, 0, -1, 0], [1, 1, 1, 1])]
    exact = np.array([X @ np.asarray(query[1]) for query in queries])
    held, runs = 0, size(30)
    for _ in range(runs):
        history = History.of(H, H @ X + rng.laplace(scale=B), LAPLACE)
        try:
            low, high = np.array(guaranteed(history, queries, 0.2)).T
        except RequestError:
            # a noise beyond its allowance can show as a contradiction
            continue
        held += bool(((low <= exact) & (exact <= high)).all())
    assert held >= 0.8 * runs


def test_cells_that_nothing_tells_apart():
    history = History.of([[1, 1, 0]], [10.0], NoiseDistribution("laplace", 1.0))
    q = math.log(20)
    found = guaranteed(history, [([0], 1.0), ([0, 1], [1.0, 3.0]), ([2], 1.0)], 0.05)
    assert found[0] == pytest.approx((0.0, 10 + q), abs=1e-5)
    assert found[1] == pytest.approx((10 - q, 3 * (10 + q)), abs=1e-5)
    assert found[2] == (0.0, math.inf)
    assert guaranteed(history, [([0], 1.0)], 0.05, nonnegative=False) == [(-math.inf, math.inf)]


def test_a_negative_coefficient_on_half_an_atom():
    history = History.of([[1, 1]], [10.0], NoiseDistribution("laplace", 1.0))
    assert guaranteed(history, [([0], -1.0)], 0.05) == [
        pytest.approx((-10 - math.log(20), 0), abs=1e-5)
    ]


def test_nothing_is_known_without_answers():
    assert guaranteed(History(3), [([0], 1.0)], 0.05) == [(0.0, math.inf)]


def test_contradictions_raise_an_alarm():
    history = History.of([[1.0], [1.0]], [0.0, 100.0], NoiseDistribution("laplace", 1.0))
    with pytest.raises(RequestError, match="contradict"):
        guaranteed(history, [([0], 1.0)], 0.05)


def test_a_solver_that_gives_up_is_no_answer(monkeypatch):
    history = History.of([[1.0]], [10.0], NoiseDistribution("laplace", 1.0))
    with monkeypatch.context() as given_up:
        given_up.setattr(optimize, "linprog", lambda **_: optimize.OptimizeResult(status=1))
        with pytest.raises(RequestError, match="bounds could not be computed") as refusal:
            guaranteed(history, [([0], 1.0)], 0.05)
    assert refusal.value.hint == "Ask for a fresh answer."
    ((low, high),) = guaranteed(history, [([0], 1.0)], 0.05)
    assert low < 10 < high


def test_planned_rows_are_refused():
    history = History(1)
    history.add(Row("a", [0], 1.0, 0.0, NoiseDistribution("laplace", 1.0), planned=True))
    with pytest.raises(RequestError):
        guaranteed(history, [([0], 1.0)], 0.05)
