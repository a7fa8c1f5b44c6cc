"""How much noise a fresh answer may have: worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpnb.answers.fresh import alone, beside, combine, least, level
from dpnb.errors import RequestError
from dpnb.estimation.history import History, Row
from dpnb.estimation.noise import Mixture
from dpnb.privacy.calibrate import NoiseDistribution

pytestmark = pytest.mark.fast

H = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
Y = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
B = (20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0)
HISTORY = History.of(H, Y, [NoiseDistribution("laplace", b) for b in B])
PAST = HISTORY.estimate(range(4), [1, 0, 1, 0]).distribution()


@pytest.mark.parametrize(
    ("sensitivity", "half", "alpha", "epsilon"),
    [(1, 25, 0.2, 0.064377516497), (1, 10, 0.05, 0.299573227355), (2, 25, 0.2, 0.128755032995),
     (3, 500, 0.2, 0.009656627475)],
)  # fmt: skip
def test_laplace_alone(sensitivity, half, alpha, epsilon):
    assert level("laplace", alone("laplace", half, alpha), sensitivity) == pytest.approx(
        epsilon, rel=1e-10
    )


def test_gaussian_alone():
    sigma = alone("gaussian", 10, 0.05)
    assert sigma == pytest.approx(5.102134569246, rel=1e-10)
    assert level("gaussian", sigma, 1) == pytest.approx(0.019207294103, rel=1e-10)


@pytest.mark.parametrize(
    ("half", "alpha", "paper", "scale"),
    [
        (25, 0.2, 15.53337, 27.66836),
        (10, 0.2, 6.2133493, 6.538658),
        (25, 0.05, 8.3452050, 10.123319),
    ],
)
def test_worked_example(half, alpha, paper, scale):
    assert alone("laplace", half, alpha) == pytest.approx(paper, rel=1e-6)
    found = least(PAST, half, alpha, "laplace")
    assert found.scale == pytest.approx(scale, abs=1e-4)
    assert found.combined


def test_no_fresh_answer_where_the_past_suffices():
    found = least(PAST, 30, 0.2, "laplace")
    assert not found.needed
    assert found.scale == math.inf


def test_without_a_past_the_answer_stands_alone():
    found = least(None, 25, 0.2, "laplace")
    assert (found.scale, found.combined) == (alone("laplace", 25, 0.2), False)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.001])
def test_adding_the_answer_reaches_the_wish_and_hardly_more(family, alpha):
    half = 0.7 * PAST.margin_of_error(alpha)
    scale = least(PAST, half, alpha, family).scale
    for factor, reached in ((1.0, True), (1.001, False)):
        tried = HISTORY.copy()
        distribution = NoiseDistribution(family, factor * scale)
        tried.add(Row("fresh", range(4), [1, 0, 1, 0], 0.0, distribution, planned=True))
        confidence = tried.estimate(range(4), [1, 0, 1, 0]).confidence(0, half)
        assert (confidence >= 1 - alpha - 1e-9) == reached


def test_gaussian_histories_have_a_closed_form():
    past = Mixture((), 400.0)
    wanted = (12.0 / 1.959963984540054) ** 2
    found = least(past, 12.0, 0.05, "gaussian")
    assert found.scale**2 == pytest.approx(1 / (1 / wanted - 1 / 400), rel=1e-10)
    assert found.scale**2 == pytest.approx(beside(wanted, 400.0), rel=1e-12)
    assert beside(400.0, 400.0) == math.inf


def test_where_the_combination_is_wider_the_answer_stands_alone():
    found = least(Mixture((20.0,), 0.0), 4.0, 0.5, "laplace")
    assert (found.scale, found.combined) == (alone("laplace", 4.0, 0.5), False)


def test_a_lattice_takes_its_share_of_the_width():
    fine, coarse = (least(PAST, 25, 0.05, "laplace", step) for step in (0.0, 2.0))
    assert coarse.scale < fine.scale
    with pytest.raises(RequestError):
        least(PAST, 0.5, 0.05, "laplace", 1.0)


def test_combining():
    found = combine(10.0, 287.3052418378, 20.0, 100.0)
    assert found.variance == pytest.approx(74.18057149821, rel=1e-10)
    assert found.weight == pytest.approx(0.741805714982, rel=1e-10)
    assert found.estimate == pytest.approx(10 + 10 * 0.741805714982, rel=1e-10)
    assert combine(math.nan, math.inf, 20.0, 100.0).estimate == 20.0


def test_combining_is_what_the_history_does():
    before = HISTORY.estimate(range(4), [1, 0, 1, 0])
    tried = HISTORY.copy()
    tried.add(Row("fresh", range(4), [1, 0, 1, 0], 33.0, NoiseDistribution("laplace", 7.0)))
    after = tried.estimate(range(4), [1, 0, 1, 0])
    made = combine(float(before.estimates[0]), before.distribution().sd ** 2, 33.0, 98.0)
    assert float(after.estimates[0]) == pytest.approx(made.estimate, rel=1e-10)
    assert after.distribution().sd ** 2 == pytest.approx(made.variance, rel=1e-10)
    assert after.weights[0, :8] == pytest.approx((1 - made.weight) * before.weights[0], rel=1e-9)


@pytest.mark.parametrize(("half", "alpha"), [(0, 0.1), (-1, 0.1), (math.nan, 0.1), (1, 0), (1, 1)])
def test_wishes_must_make_sense(half, alpha):
    with pytest.raises(RequestError):
        alone("laplace", half, alpha)
