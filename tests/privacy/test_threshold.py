"""Values are shown when their noisy counts pass a threshold: exact losses on small tables."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dpnb.privacy.loss import epsilon_of_rho
from dpnb.privacy.threshold import Threshold

LEVELS = [
    (rho, delta, groups)
    for rho in (Fraction(1, 1000), Fraction(1, 20), Fraction(1), Fraction(20))
    for delta in (Fraction(1, 10), Fraction(1, 10**4), Fraction(1, 10**9), Fraction(1, 10**17))
    for groups in (1, 2, 7, 1000)
]


def noise(sigma):
    """The whole numbers that matter, and their probabilities under the discrete Gaussian."""
    reach = math.ceil(40 * sigma) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values.astype(float) ** 2) / (2 * sigma**2))
    return values, weights / weights.sum()


def tail(sigma, least):
    """P(X >= least), summed from its smallest terms."""
    values, chances = noise(sigma)
    return float(np.sort(chances[values >= least]).sum())


@pytest.mark.parametrize(("rho", "delta", "groups"), LEVELS)
def test_levels_are_kept(rho, delta, groups):
    made = Threshold(rho, delta, groups)
    parts = made.parts
    assert sum(parts.values()) == rho
    kept = Fraction(groups) / (2 * Fraction(made.sigma) ** 2)
    assert parts["keys"] * Fraction(99, 100) < kept <= parts["keys"]
    kept = Fraction(groups) ** 2 / (2 * Fraction(made.total_sigma) ** 2)
    assert parts["total"] * Fraction(99, 100) < kept <= parts["total"]


@pytest.mark.parametrize(("rho", "delta", "groups"), LEVELS)
def test_the_values_of_one_id_alone_are_hidden(rho, delta, groups):
    made = Threshold(rho, delta, groups)
    alone = tail(made.sigma, made.count - made.least)
    assert -math.expm1(groups * math.log1p(-alone)) <= delta
    # no more than two steps further than needed
    nearer = tail(made.sigma, made.count - made.least - 2)
    assert -math.expm1(groups * math.log1p(-nearer)) > delta


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999999])
@pytest.mark.parametrize(("rho", "groups"), [("0.05", 1), ("0.5", 3), ("5", 1)])
def test_what_is_said_of_counts_holds(rho, groups, confidence):
    made = Threshold(Fraction(rho), Fraction(1, 10**8), groups)
    # c + X >= T
    shown = tail(made.sigma, made.count - made.surely(confidence))
    assert shown >= confidence
    assert tail(made.sigma, made.count - made.surely(confidence) + 2) < confidence
    width = made.margin_of_error(confidence)
    assert 2 * tail(made.total_sigma, width + 1) <= 1 - confidence
    assert 2 * tail(made.total_sigma, width - 1) > 1 - confidence
    for count in (1, made.count - 2, made.count, made.count + 3, made.surely(confidence)):
        exact = tail(made.sigma, made.count - count) if count >= made.least else 0
        assert made.shown(count) == pytest.approx(exact, abs=0.4 / made.sigma)


@dataclass(frozen=True)
class Moved:
    """The threshold with one of its promises broken."""

    made: Threshold
    steps: int = 0
    narrower: float = 1.0

    @property
    def sigma(self):
        return self.made.sigma * self.narrower

    @property
    def least(self):
        return self.made.least

    @property
    def count(self):
        return self.made.count - self.steps


def outcomes(made, counts):
    """What is shown of some values, with probabilities: None for hidden, else the noisy count."""
    values, chances = noise(made.sigma)
    each = []
    for count in counts:
        if count < made.least:  # too rare a value is never shown
            each.append({None: 1.0})
            continue
        seen = values + count >= made.count
        shown = dict(zip((values + count)[seen].tolist(), chances[seen].tolist(), strict=True))
        each.append({None: float(np.sort(chances[~seen]).sum()), **shown})
    return each


def loss(made, counts, neighbour, epsilon):
    """The least delta with which two tables are epsilon-alike, both ways; values are independent."""
    ours, theirs = outcomes(made, counts), outcomes(made, neighbour)
    worst = 0.0
    for one, other in ((ours, theirs), (theirs, ours)):
        total = 0.0
        for keys in itertools.product(*(sorted(part, key=str) for part in one)):
            mine = math.prod(part[key] for part, key in zip(one, keys, strict=True))
            his = math.prod(part.get(key, 0.0) for part, key in zip(other, keys, strict=True))
            total += max(0.0, mine - math.exp(epsilon) * his)
        worst = max(worst, total)
    return worst


# counts, from the least one that gets noise
NEIGHBOURS = [
    ((-1,), (0,)), ((0,), (1,)), ((6,), (7,)), ((29,), (30,)),
    ((-1, 8), (0, 9)), ((-1, -1), (0, 0)), ((5, 7), (6, 8)),
]  # fmt: skip


def exceeded(broken, rho, delta):
    """By what the promise (epsilon, delta + delta') of delta-approximate rho-zCDP is broken at most."""
    most = -math.inf
    for counts, neighbour in NEIGHBOURS:
        groups = len(counts)
        made = broken(Threshold(rho, delta, groups))
        counts, neighbour = ([made.least + n for n in one] for one in (counts, neighbour))
        for beside in (1e-2, 1e-5):
            epsilon = epsilon_of_rho(made.made.parts["keys"], beside)
            found = loss(made, counts, neighbour, epsilon)
            most = max(most, found - (float(delta) + beside))
    return most


@pytest.mark.parametrize("delta", [Fraction(1, 1000), Fraction(1, 20)])
@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(1)])
def test_no_pair_of_neighbours_tells_more_than_the_promise(rho, delta):
    assert exceeded(Moved, rho, delta) <= 0


@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(1)])
def test_a_lower_threshold_or_less_noise_would_be_seen(rho):
    delta = Fraction(1, 20)
    assert exceeded(lambda made: Moved(made, steps=2 + math.ceil(made.sigma)), rho, delta) > 0
    assert exceeded(lambda made: Moved(made, narrower=0.4), rho, Fraction(1, 1000)) > 0
