"""Randomised response: both bounds for every database, at the least cost there can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from dpnb.privacy.definition import BASIC, GDP, PURE, ZCDP
from dpnb.privacy.noise import SecureNoise
from dpnb.privacy.response import epsilon, level, respond

pytestmark = pytest.mark.fast

Equals = Callable[[object, float], bool]
BOUNDS = [
    (0.05, 0.1), (0.1, 0.05), (0.05, 0.05), (0.025, 0.1), (0.15, 0.15), (0.01, 0.4), (0.3, 0.002),
    (0.49, 0.49), (1e-4, 1e-4), (1e-5, 0.2), (0.45, 0.1),
]  # fmt: skip
"""Bounds on misses and on false alarms."""


class Seeded:
    """Coins of a fixed seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.asked: list[tuple[float, int]] = []

    def coins(self, probability: float, count: int) -> list[bool]:
        self.asked.append((probability, count))
        return [bool(one) for one in self.rng.random(count) < probability]


class TestEpsilon:
    @pytest.mark.parametrize(
        ("false", "missed", "expected"),
        [
            (0.1, 0.05, 2.8903717578961645),
            (0.05, 0.05, 2.9444389791664403),
            (0.1, 0.025, 3.58351893845611),
            (0.15, 0.15, 1.7346010553881064),
            # halves of the first, as a hybrid decision spends them
            (0.05, 0.025, 3.6375861597263857),
        ],
    )
    def test_figures_of_the_specification(
        self, false: float, missed: float, expected: float
    ) -> None:
        assert epsilon(missed, false) == pytest.approx(expected, rel=1e-9)
        assert epsilon(false, missed) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(("missed", "false"), BOUNDS)
    def test_is_the_privacy_loss_of_the_response(self, missed: float, false: float) -> None:
        losses = [abs(math.log(p / q)) for p, q in ((1 - missed, false), (missed, 1 - false))]
        assert epsilon(missed, false) == pytest.approx(max(losses), rel=1e-12)

    @pytest.mark.parametrize(("missed", "false"), BOUNDS)
    def test_no_response_within_the_bounds_has_less(self, missed: float, false: float) -> None:
        # any mechanism is a pair of chances to answer 1, at least 1 - beta and at most alpha
        grid = np.linspace(0, 1, 60)[1:-1]
        right = [1 - missed, *(1 - missed * (1 - grid))]
        wrong = [false, *(false * grid)]
        needed = [
            max(abs(math.log(p / q)), abs(math.log((1 - p) / (1 - q))))
            for p, q in itertools.product(right, wrong)
        ]
        assert min(needed) >= epsilon(missed, false) * (1 - 1e-12)
        assert needed[0] == pytest.approx(epsilon(missed, false), rel=1e-12)


def divergence(order: np.ndarray, p: float, q: float) -> np.ndarray:
    """Renyi divergence of coins of chance p from coins of chance q."""
    terms = [order * math.log(a) + (1 - order) * math.log(b) for a, b in ((p, q), (1 - p, 1 - q))]
    return np.asarray(np.logaddexp(*terms) / (order - 1))


ORDERS = 1 + np.geomspace(1e-4, 1e6, 4000)


def least_rho(missed: float, false: float) -> float:
    """The largest ratio of divergence and order, in both directions."""
    p, q = 1 - missed, false
    return float(max((divergence(ORDERS, *pair) / ORDERS).max() for pair in ((p, q), (q, p))))


class TestLevel:
    @pytest.mark.parametrize(("missed", "false"), BOUNDS)
    def test_pays_for_epsilon_in_full(self, missed: float, false: float) -> None:
        paid = float(level(missed, false, PURE))
        assert epsilon(missed, false) <= paid <= epsilon(missed, false) * (1 + 1e-10)

    @pytest.mark.parametrize(("missed", "false"), BOUNDS)
    @pytest.mark.parametrize("privacy", [ZCDP, GDP, BASIC])
    def test_rho_covers_every_order_in_both_directions(
        self, missed: float, false: float, privacy: str
    ) -> None:
        assert least_rho(missed, false) <= float(level(missed, false, privacy))  # type: ignore[arg-type]

    @pytest.mark.parametrize("error", [0.45, 0.3, 0.15, 0.05, 0.01, 1e-3, 1e-5])
    def test_rho_is_tight_for_equal_bounds(self, error: float) -> None:
        # at order 1 the divergence is Kullback and Leibler's: epsilon tanh(epsilon / 2)
        loss = epsilon(error, error)
        assert least_rho(error, error) == pytest.approx(float(level(error, error, ZCDP)), rel=1e-3)
        exact = (1 - 2 * error) * loss
        assert float(level(error, error, ZCDP)) == pytest.approx(exact, rel=1e-10)
        assert float(level(error, error, ZCDP)) >= exact

    @pytest.mark.parametrize("loss", [0.01, 0.3, 1.0, 2.89, 6.0])
    def test_no_two_coins_of_that_epsilon_need_more_rho(self, loss: float) -> None:
        # pairs on the border of pure epsilon-DP: q from p at the largest ratio that is allowed
        for p in np.linspace(0.01, 0.99, 45):
            q = max(p * math.exp(-loss), 1 - (1 - p) * math.exp(loss))
            assert least_rho(1 - p, q) <= loss * math.tanh(loss / 2) * (1 + 1e-9)

    def test_rho_is_less_than_half_of_the_square(self) -> None:
        # the general conversion from epsilon would cost more
        for missed, false in BOUNDS:
            assert float(level(missed, false, ZCDP)) < epsilon(missed, false) ** 2 / 2


class TestRespond:
    def test_each_group_is_answered_by_its_own_coin(self) -> None:
        noise = Seeded(1)
        truth = np.array([True, False, True, False])
        found = respond(truth, 0.05, 0.1, noise)  # type: ignore[arg-type]
        assert noise.asked == [(0.95, 4), (0.1, 4)]
        again = Seeded(1)
        kept, raised = again.coins(0.95, 4), again.coins(0.1, 4)
        assert found == [int(kept[0]), int(raised[1]), int(kept[2]), int(raised[3])]
        assert all(type(one) is int for one in found)

    @pytest.mark.parametrize("noise", [Seeded(2), SecureNoise()])
    @pytest.mark.parametrize(("missed", "false"), [(0.05, 0.1), (0.3, 0.02)])
    def test_errs_as_often_as_was_said(
        self, noise: Seeded | SecureNoise, missed: float, false: float, equals: Equals
    ) -> None:
        truth = np.arange(100_000) % 3 == 0
        answers = np.array(respond(truth, missed, false, noise), dtype=bool)  # type: ignore[arg-type]
        assert equals(~answers[truth], missed)
        assert equals(answers[~truth], false)
        # the test has power: 5 % more of either error would be noticed
        assert not equals(~answers[truth], missed * 1.25)
        assert not equals(answers[~truth], false * 1.25)

    def test_no_groups_no_answers(self) -> None:
        assert respond(np.zeros(0, dtype=bool), 0.05, 0.1, SecureNoise()) == []
