"""Whether intervals hold as often as they say, of every kind that inference gives, and whether it would show.

    python -m tests.benchmarks.bayes.coverage [--repeats 1.0]

Noises are drawn anew many times. Misses must not be more than stated at p = 1e-9 (exact binomial), and
when the true noise is 1.2 times what was stated they must be, at one level at least, with one exception,
which says why.
--repeats multiplies all counts; the power needs 1.0. Six minutes of one core.
"""

from __future__ import annotations

import argparse
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from dpnb.errors import RequestError
from dpnb.estimation.bounds import allowances, guaranteed
from dpnb.estimation.estimates import cut
from dpnb.estimation.history import History, Row
from dpnb.estimation.joint import Joint, noise_variance, snapped
from dpnb.estimation.mixed import mean_interval, ratio
from dpnb.estimation.prior import AtMost, NonNegative, update
from dpnb.estimation.scheffe import factor
from dpnb.privacy.calibrate import NoiseDistribution
from tests.kit.verdicts import finish, must

LEVELS = (0.2, 0.05, 0.01)
CHANCE = 1e-9
WRONG = 1.2
MATRIX = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
     [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]], dtype=float,
)  # fmt: skip
COUNTS = np.array([10.0, 20.0, 20.0, 10.0])
LAWS = tuple(
    NoiseDistribution("laplace" if place % 2 == 0 else "gaussian", scale)
    for place, scale in enumerate((20.0, 12.0, 20.0, 12.0, 10.0, 30.0, 40.0, 12.0))
)
"""Of the worked history, mixed (tests/estimation/test_noise.py)."""


@dataclass(frozen=True, slots=True)
class Misses:
    """How often intervals missed, of so many, at a stated failure probability."""

    missed: int
    count: int
    alpha: float

    @property
    def chance(self) -> float:
        """The probability of as many or more when the statement is true."""
        return float(stats.binom.sf(self.missed - 1, self.count, self.alpha))


def noises(
    rng: np.random.Generator, distributions: Sequence[NoiseDistribution], count: int, wrong: float
) -> np.ndarray:
    """Draw noises, shape (count, m), ``wrong`` times as wide as the distributions say."""
    found = np.empty((count, len(distributions)))
    for place, distribution in enumerate(distributions):
        unit = (
            rng.standard_normal(count)
            if distribution.family == "gaussian"
            else rng.laplace(size=count)
        )
        found[:, place] = wrong * distribution.scale * unit
    return found


def lattice(
    rng: np.random.Generator,
    distributions: Sequence[NoiseDistribution],
    step: float,
    count: int,
    wrong: float,
) -> np.ndarray:
    """Draw discrete noises of a step, shape (count, m)."""
    found = np.empty((count, len(distributions)))
    for place, distribution in enumerate(distributions):
        scale = wrong * distribution.scale
        if distribution.family == "laplace":
            up, down = rng.geometric(-math.expm1(-step / scale), (2, count))
            found[:, place] = step * (up - down)
        else:
            points = np.arange(-math.ceil(12 * scale / step), math.ceil(12 * scale / step) + 1)
            masses = np.exp(-((step * points / scale) ** 2) / 2)
            found[:, place] = step * rng.choice(points, count, p=masses / masses.sum())
    return found


def random_history(rng: np.random.Generator, rows: int, cells: int) -> tuple[Joint, np.ndarray]:
    """Return the distribution of a random estimable query, and the rows; half of the noises are Laplace."""
    matrix = rng.integers(-2, 3, (rows, cells)).astype(float)
    # rows that depend on others, so that the rank is not full
    for place in range(rows // 2, rows):
        matrix[place] = rng.integers(-1, 2, rows // 2) @ matrix[: rows // 2]
    matrix = matrix[np.abs(matrix).max(axis=1) > 0]
    distributions = [
        NoiseDistribution(
            "laplace" if rng.uniform() < 0.5 else "gaussian", float(10 ** rng.uniform(-1, 1))
        )
        for _ in matrix
    ]
    history = History.of(matrix, np.zeros(len(matrix)), distributions)
    query = np.zeros(cells)
    while not query.any():
        query = rng.integers(-2, 3, len(matrix)) @ matrix
    return history.estimate(*history.row(query)), matrix


def held(joint: Joint, place: int, noise: np.ndarray, alpha: float) -> np.ndarray:
    """Return which draws lie in the interval of an estimate."""
    return np.abs(noise @ joint.weights[place]) <= joint.margin_of_error(place, alpha)


Experiment = Callable[[np.random.Generator, float, Callable[[int], int]], list[Misses]]


def best_estimates(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Mixed histories of 4 to 15 rows that do not determine all cells."""
    missed, count = dict.fromkeys(LEVELS, 0), size(10_000)
    histories = 20
    for _ in range(histories):
        joint, _ = random_history(rng, int(rng.integers(4, 16)), int(rng.integers(8, 13)))
        noise = noises(rng, joint.distributions, count, wrong)
        for alpha in LEVELS:
            missed[alpha] += int((~held(joint, 0, noise, alpha)).sum())
    return [Misses(missed[alpha], histories * count, alpha) for alpha in LEVELS]


def many_rows(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:
    """1,000 ranges of 120 cells."""
    rows = []
    for place in range(1000):
        low, high = np.sort(rng.choice(121, 2, replace=False)).tolist()
        distribution = NoiseDistribution(
            "laplace" if place % 2 else "gaussian", float(10 ** rng.uniform(0, 1.5))
        )
        rows.append(Row(f"row {place}", range(low, high), 1.0, 0.0, distribution))
    history = History(120)
    history.extend(rows)
    query = rng.integers(0, 2, 1000)[:8] @ np.array([row.support.dense(120) for row in rows[:8]])
    joint = history.estimate(*history.row(query))
    count = size(50_000)
    errors = np.zeros(count)
    for weight, distribution in zip(joint.weights[0], joint.distributions, strict=True):
        errors += weight * noises(rng, [distribution], count, wrong)[:, 0]
    return [
        Misses(int((np.abs(errors) > joint.margin_of_error(0, alpha)).sum()), count, alpha)
        for alpha in LEVELS
    ]


def worked() -> tuple[History, Joint]:
    """Return the worked history without noise, and the distribution of its query."""
    history = History.of(MATRIX, MATRIX @ COUNTS, LAWS)
    return history, history.estimate(*history.row([1, 0, 1, 0]))


def whole_numbers(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Intervals moved inward to whole numbers, and to whole numbers that are not negative."""
    _, joint = worked()
    exact = float(joint.estimates[0])
    found = []
    for alpha, ends in ((0.2, snapped), (0.05, None)):
        half, count = joint.margin_of_error(0, alpha), size(20_000)
        missed = 0
        for error in (noises(rng, LAWS, count, wrong) @ joint.weights[0]).tolist():
            centre = exact + error
            if ends is None:
                low, high = cut((centre - half, centre + half), (0.0, math.inf), whole=True)
            else:
                low, high = ends(centre - half, centre + half)
            # the exact value is a whole number, but for rounding
            missed += not low <= round(exact) <= high
        found.append(Misses(missed, count, alpha))
    return found


def never_negative(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Intervals under priors that only bound, at one and at three standard deviations from the bound.

    At the bound itself a cut interval misses half as often as it says.
    """
    _, joint = worked()
    distribution, found = joint.distribution(), []
    for theta, prior in ((distribution.sd, NonNegative()), (3 * distribution.sd, AtMost(1000.0))):
        count, missed = size(1500), 0
        for error in (noises(rng, LAWS, count, wrong) @ joint.weights[0]).tolist():
            low, high = update(prior, theta + error, distribution).interval(0.2)
            missed += not low <= theta <= high
        found.append(Misses(missed, count, 0.2))
    return found


def on_fine_lattices(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Discrete noises whose step is small beside them."""
    return _lattices(rng, wrong, size(100_000), (0.2, 2.0))


def on_coarse_lattices(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Discrete noises of the size of their step, which the margin makes rarer to miss."""
    return _lattices(rng, wrong, size(100_000), (10.0,))


def _lattices(
    rng: np.random.Generator, wrong: float, count: int, steps: Sequence[float]
) -> list[Misses]:
    found = []
    for step in steps:
        distributions = [
            replace(distribution, scale=distribution.scale / 2) for distribution in LAWS
        ]
        history = History(4)
        for place, (row, distribution) in enumerate(zip(MATRIX, distributions, strict=True)):
            history.add(Row(f"row {place}", range(4), row, 0.0, distribution, granularity=step))
        joint = history.estimate(*history.row([1, 0, 1, 0]))
        noise = lattice(rng, distributions, step, count, wrong)
        found += [
            Misses(int((~held(joint, 0, noise, alpha)).sum()), count, alpha) for alpha in LEVELS
        ]
    return found


def all_combinations(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Scheffe's: no combination whatever is further off than so many standard deviations."""
    found, families = [], Counter(distribution.family for distribution in LAWS)
    variances = np.array([noise_variance(distribution) for distribution in LAWS])
    for alpha in (0.2, 0.05):
        count = size(20_000)
        limit = factor(families["gaussian"], families["laplace"], alpha)
        # the worst combination of each draw, in its own standard deviations
        worst = np.sqrt((noises(rng, LAWS, count, wrong) ** 2 / variances).sum(axis=1))
        found.append(Misses(int((worst > limit).sum()), count, alpha))
    return found


def selected(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:
    """Bonferroni's: the cell of 100 empty ones whose answer is furthest from 0."""
    found = []
    for distribution in (NoiseDistribution("laplace", 5.0), NoiseDistribution("gaussian", 5.0)):
        history = History.of(np.eye(100), np.zeros(100), distribution)
        joint = history.joint([history.row(np.eye(100)[0])])
        half, count = joint.bonferroni(0, 0.05, 100), size(20_000)
        furthest = np.abs(noises(rng, joint.distributions, count, wrong)).max(axis=1)
        found.append(Misses(int((furthest > half).sum()), count, 0.05))
    return found


def programs(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:
    """Guaranteed bounds, of all eight rows as queries at once; contradictions count as misses."""
    queries = [History(4).row(row) for row in MATRIX]
    exact, count, missed = MATRIX @ COUNTS, size(800), 0
    for noise in noises(rng, LAWS, count, wrong):
        history = History.of(MATRIX, exact + noise, LAWS)
        try:
            bounds = guaranteed(history, queries, 0.05)
        except RequestError:
            missed += 1
            continue
        missed += any(
            not low <= value <= high for (low, high), value in zip(bounds, exact, strict=True)
        )
    return [Misses(missed, count, 0.05)]


def one_program(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:  # fmt: skip
    """Guaranteed bounds of one query."""
    exact, count, missed = MATRIX @ COUNTS, size(800), 0
    for noise in noises(rng, LAWS, count, wrong):
        history = History.of(MATRIX, exact + noise, LAWS)
        try:
            ((low, high),) = guaranteed(history, [history.row([1, 0, 1, 0])], 0.05)
        except RequestError:
            missed += 1
            continue
        missed += not low <= 30 <= high
    return [Misses(missed, count, 0.05)]


def growing(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:
    """The allowances behind them, of a history that may grow without end."""
    distributions = [
        NoiseDistribution(("laplace", "gaussian")[place % 2], 1.0 + place % 5)
        for place in range(300)
    ]
    widths, count = np.array(allowances(distributions, 0.05, growing=True)), size(20_000)
    over = (np.abs(noises(rng, distributions, count, wrong)) > widths).any(axis=1)
    return [Misses(int(over.sum()), count, 0.05)]


def means(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:
    """Means from a centred sum and a count that rest on the same answers; Gaussian, then mixed."""
    total, count_ = np.array([-10.0, 0.0, 10.0, 20.0]), np.ones(4)
    exact = np.array([total @ COUNTS, 60.0]) * 10
    found = []
    for distributions, repeats in (
        (
            tuple(NoiseDistribution("gaussian", distribution.scale) for distribution in LAWS),
            size(4000),
        ),
        (LAWS, size(1000)),
    ):
        history = History.of(MATRIX, np.zeros(8), distributions)
        joint = history.joint([history.row(total), history.row(count_)])
        missed = 0
        for error in noises(rng, distributions, repeats, wrong) @ joint.weights.T:
            one = replace(joint, estimates=exact + error)
            low, high = mean_interval(
                one, 0, 1, lambda distribution: distribution.margin_of_error(0.2)
            )
            missed += not low <= exact[0] / exact[1] <= high
        found.append(Misses(missed, repeats, 0.2))
    return found


def ratios(rng: np.random.Generator, wrong: float, size: Callable[[int], int]) -> list[Misses]:
    """Ratios by Fieller's interval; of a denominator that noise can hide, too."""
    history = History.of(MATRIX, np.zeros(8), LAWS)
    joint = history.joint([history.row([1, 0, 1, 0]), history.row([1, 1, 1, 1])])
    found = []
    for exact in (np.array([300.0, 600.0]), np.array([300.0, -12.0])):
        repeats, missed = size(1500), 0
        for error in noises(rng, LAWS, repeats, wrong) @ joint.weights.T:
            made = ratio(replace(joint, estimates=exact + error), 0, 1, 0.2)
            missed += not made.low <= exact[0] / exact[1] <= made.high
        found.append(Misses(missed, repeats, 0.2))
    return found


EXPERIMENTS: dict[str, tuple[Experiment, str]] = {
    "best estimates, mixed and rank-deficient": (best_estimates, ""),
    "best estimates, 1,000 rows": (many_rows, ""),
    "whole numbers": (whole_numbers, ""),
    "bounded below or above": (never_negative, ""),
    "fine lattices": (on_fine_lattices, ""),
    "coarse lattices": (on_coarse_lattices, ""),
    "Scheffe, all combinations": (all_combinations, ""),
    "Bonferroni, after selection": (selected, ""),
    "guaranteed bounds, all rows at once": (programs, ""),
    "guaranteed bounds, one query": (
        one_program,
        "they hold for all queries at once, and so for one far more often than stated",
    ),
    "allowances of a growing history": (growing, ""),
    "means": (means, ""),
    "ratios": (ratios, ""),
}
"""Each with why too much noise need not show, where that is so."""


def main() -> None:
    """Print the shares of misses and what they must show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=float, default=1.0)
    given = parser.parse_args()

    def size(count: int) -> int:
        return max(50, int(count * given.repeats))

    print("missed of what is stated, and (with noise 1.2 times as wide)")
    for place, (name, (experiment, excuse)) in enumerate(EXPERIMENTS.items()):
        right = experiment(np.random.default_rng((place, 1)), 1.0, size)
        wrong = experiment(np.random.default_rng((place, 2)), WRONG, size)
        print(f"  {name}")
        for a, b in zip(right, wrong, strict=True):
            print(f"    {a.missed / a.count:.4f} of {a.alpha:<6g}({b.missed / b.count:.4f}), {a.count:,} times, p = {a.chance:.2g} ({b.chance:.2g})", flush=True)  # fmt: skip
        least = min(one.chance for one in right)
        must(least > CHANCE, f"{name}: not missed more often than stated (p = {least:.2g})")
        seen = min(one.chance for one in wrong)
        if not excuse:
            must(seen <= CHANCE, f"{name}: noise 1.2 times as wide shows (p = {seen:.2g})")
        else:
            print(f"    wider noise need not show: {excuse}")
    finish()


if __name__ == "__main__":
    main()
