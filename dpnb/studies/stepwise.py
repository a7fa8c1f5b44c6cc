"""Decisions at rising levels, where a group stops once it is clear of the threshold.

PPWLM visits every level of its grid. DDPWLM picks the next level by the released values (Ghayyur
et al., PVLDB 15(11), 2022). ProBE-Ent runs DDPWLM on one condition after the other, and each passes
on the unused part of its bound on false negatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpnb.decide.certificate import Floats
from dpnb.decide.conditions import Bools
from dpnb.decide.entropy import greedy
from dpnb.studies.cases import Case, Mode, Row, Status, Studied, denied
from dpnb.studies.charges import DeniedError, Meter, first_shares, level_of, traverse
from dpnb.studies.probe import false_positives, smaller_region
from dpnb.studies.refinement import finer, predicted

if TYPE_CHECKING:
    from numpy.random import Generator

COARSE, FINE = 4, 3
"""Number of coarse levels of the progressive methods, and of parts of each gap between them."""
FIRST_LEVEL = 0.01
"""Their first epsilon (Ghayyur et al., PVLDB 15(11), 2022)."""
RATIO = 1.5
"""Ratio of one level to the one before on ProBE-Ent's public grid."""


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """Result of one condition decided level by level.

    Attributes
    ----------
    chosen : bool array, shape (groups,)
        Groups not rejected: clear above the threshold, or undecided at the end.
    epsilons : array, shape (groups,)
        The level at which each group was decided.
    used : float
        The largest level.
    levels : int
        Levels of the grid that count as used, visited or not.
    u : float
        Shift of the threshold at the largest level.
    """

    chosen: Bools
    epsilons: Floats
    used: float
    levels: int
    u: float


def geometric(first: float, last: float, count: int) -> Floats:
    """Return levels in geometric progression; the first is at most last / 2^(count - 1)."""
    first = min(first, last / 2 ** (count - 1))
    return first * (last / first) ** (np.arange(count) / (count - 1))


def subdivided(coarse: Floats, parts: int) -> Floats:
    """Return the coarse levels, with each gap between them divided into equal parts."""
    inner = coarse[:-1, None] + np.diff(coarse)[:, None] * np.arange(parts) / parts
    return np.append(inner.ravel(), coarse[-1])


def climb(
    margins: Floats,
    sensitivity: float,
    share: float,
    grid: Floats,
    rng: Generator,
    *,
    choose: bool,
    stop: Callable[[Floats], float] | None = None,
) -> Stepped:
    """Decide a condition level by level; a group is final once it is clear of the threshold.

    Algorithm 21 of docs/methods/probe.md.

    Each level of the grid gets an equal part of the share, visited or not. If only visited levels
    got a part, false negatives could exceed the bound if released values choose the levels
    (docs/methods/probe.md, error 7).

    Parameters
    ----------
    margins : array, shape (groups,)
    grid : array, shape (levels,)
        Epsilons, ascending.
    choose : bool
        Whether :func:`next_level` picks the next level; else each is visited.
    stop : callable, optional
        Takes the first level's noisy margins and returns the largest epsilon to visit.
    """
    count = len(grid)
    us = np.array([level_of(share / count, sensitivity, float(level)) for level in grid])
    noise = np.zeros(margins.shape)
    undecided = np.ones(margins.shape, dtype=bool)
    rejected = np.zeros(margins.shape, dtype=bool)
    epsilons = np.zeros(margins.shape)
    epsilon, at, end = 0.0, 0, count - 1
    while True:
        noise = finer(noise, epsilon, float(grid[at]), sensitivity, rng)
        epsilon = float(grid[at])
        noisy = margins + noise
        epsilons[undecided] = epsilon
        rejected |= undecided & (noisy <= -us[at])
        undecided &= np.abs(noisy) <= us[at]
        if stop is not None:
            limit = stop(noisy)
            end = max(at, min(end, int(np.searchsorted(grid, limit * (1 - 1e-12)))))
            stop = None
        if at == end or not undecided.any():
            return Stepped(~rejected, epsilons, epsilon, at + 1, float(us[at]))
        at = (
            next_level(noisy[undecided], epsilons, undecided, grid, us, at, end, sensitivity)
            if choose
            else at + 1
        )


def next_level(
    noisy: Floats,
    epsilons: Floats,
    undecided: Bools,
    grid: Floats,
    us: Floats,
    at: int,
    end: int,
    sensitivity: float,
) -> int:
    """Return the next level, after which the groups' epsilons are expected to be most even.

    Algorithm 22 of docs/methods/probe.md.

    For a candidate level, the undecided groups that are expected to stay undecided count with the
    last level, the other undecided groups with the candidate. The choice uses only released values,
    so it is free.
    """
    best, chosen = -math.inf, end
    for place in range(at + 1, end + 1):
        level = float(grid[place])
        still = predicted(noisy, float(grid[at]), level, -us[place], sensitivity) - predicted(
            noisy, float(grid[at]), level, us[place], sensitivity
        )
        expected = epsilons.copy()
        after = np.full(len(noisy), level)
        after[: round(float(still.sum()))] = grid[end]
        expected[undecided] = after
        evenness = greedy(expected)
        if evenness > best + 1e-12:
            best, chosen = evenness, place
    return chosen


def stepwise(case: Case, rng: Generator, mode: Mode) -> Studied:
    """Run PPWLM or DDPWLM on each condition, with the published shares (algorithm 21)."""
    betas = first_shares(mode, case.condition, case.weights, case.beta)
    count = COARSE if mode == "ppwlm" else 1 + (COARSE - 1) * FINE
    last_levels = [
        level_of(beta / count, bar.sensitivity, bar.u)
        for beta, bar in zip(betas, case.bars, strict=True)
    ]
    if sum(last_levels) > case.most:
        return denied(case, mode)
    meter, margins = Meter(case), case.margins()
    outcomes: dict[int, Stepped] = {}

    def leaf(i: int) -> Bools:
        if i not in outcomes:
            grid = geometric(FIRST_LEVEL, last_levels[i], COARSE)
            grid = grid if mode == "ppwlm" else subdivided(grid, FINE)
            outcomes[i] = climb(
                margins[i], case.bars[i].sensitivity, betas[i], grid, rng,
                choose=mode == "ddpwlm",
            )  # fmt: skip
            _note(meter, i, outcomes[i], betas[i] * outcomes[i].levels / count)
        return outcomes[i].chosen

    chosen = traverse(case, leaf, last_levels)
    return Studied(mode, "OK", chosen, meter.spent, meter.epsilons, tuple(meter.rows))


def _note(meter: Meter, i: int, stepped: Stepped, share: float) -> None:
    """Charge a condition decided level by level: each group pays the level that decided it."""
    meter.charge(
        Row(i, stepped.used, stepped.u, share, 1), np.zeros(len(meter.epsilons), dtype=bool)
    )
    meter.epsilons += stepped.epsilons


def public_grid(share: float, sensitivity: float, u: float, most: float) -> Floats:
    """Return ProBE-Ent's levels: from the level for ``u``, by factors of RATIO, up to ``most``.

    Empty if no level fits. The first level depends on the number of levels, so both are computed
    repeatedly.
    """
    count = 1
    for _ in range(3):
        first = level_of(share / count, sensitivity, u)
        if first > most:
            return np.zeros(0)
        count = 1 + int(math.log(most / first) / math.log(RATIO))
    first = level_of(share / count, sensitivity, u)
    return np.asarray(first * RATIO ** np.arange(count), dtype=np.float64)


def entropic(case: Case, rng: Generator) -> Studied:
    """Run ProBE-Ent: DDPWLM on each condition, which passes on the unused part of its bound.

    Algorithm 23 of docs/methods/probe.md.

    Estimates use all groups, regardless of other conditions. After a denial, conditions that did
    not run count as true.
    """
    weights, bars, margins = case.weights, case.bars, case.margins()
    meter, outcomes, used_shares = Meter(case), dict[int, Stepped](), dict[int, float]()
    estimates: dict[int, tuple[float, float]] = {}
    selected = np.ones(margins.shape, dtype=bool)

    def leaf(i: int) -> Bools:
        if i in outcomes:
            return outcomes[i].chosen
        waiting_weight = sum(weight for j, weight in enumerate(weights) if j not in outcomes)
        # the printed algorithm subtracts only what the last condition used (docs/methods/probe.md,
        # error 10)
        share = (case.beta - sum(used_shares.values())) * weights[i] / waiting_weight
        bar, rest = bars[i], case.most - meter.spent
        grid = public_grid(share, bar.sensitivity, bar.u, rest)
        if not len(grid):
            raise DeniedError

        def stop(noisy: Floats) -> float:
            selected[i] = noisy > -bar.u
            f, r = estimates[i] = false_positives(noisy, bar.u, share, selected[i])
            surplus = f - case.alpha / len(bars) * r
            if surplus <= 0:
                u: float | None = bar.u
            else:
                u = None if r < 0 else smaller_region(noisy, bar.u, selected[i], surplus)
            limit = math.inf if u is None else level_of(share / len(grid), bar.sensitivity, u)
            if limit > rest:
                # the first level was released, so it is charged
                meter.charge(Row(i, float(grid[0]), bar.u, share / len(grid), 1))
                raise DeniedError
            return limit

        outcomes[i] = climb(margins[i], bar.sensitivity, share, grid, rng, choose=True, stop=stop)
        used_shares[i] = share * outcomes[i].levels / len(grid)
        _note(meter, i, outcomes[i], used_shares[i])
        selected[i] = outcomes[i].chosen
        return outcomes[i].chosen

    status: Status = "OK"
    costs = [level_of(case.beta, bar.sensitivity, bar.u) for bar in bars]
    try:
        chosen = traverse(case, leaf, costs)
    except DeniedError:
        if not meter.spent:
            return denied(case, "probe-ent")
        status, chosen = "DENIED_AFTER_PHASE1", case.condition.value(selected)
    f, r = zip(*(estimates.get(i, (math.nan, math.nan)) for i in range(len(bars))), strict=True)
    return Studied(
        "probe-ent", status, chosen, meter.spent, meter.epsilons, tuple(meter.rows), f, r
    )
