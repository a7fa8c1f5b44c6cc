"""Decisions in one or two phases: ProBE, and the single threshold shift that it is compared with.

Each condition is measured once, with its threshold moved by u. ProBE then estimates the false
positives of each condition. Conditions with too many are measured once more, in the undecided
groups and with a smaller u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpnb.decide.certificate import Floats
from dpnb.decide.conditions import Bools
from dpnb.studies.cases import Case, Mode, Row, Status, Studied, denied
from dpnb.studies.charges import (
    SPLIT,
    DeniedError,
    Meter,
    first_shares,
    level_of,
    traverse,
)

if TYPE_CHECKING:
    from numpy.random import Generator


class _Pass:
    """A run of the conditions, each at most once per phase, by threshold shifts (theorem 4)."""

    def __init__(self, case: Case, betas: Sequence[float], rng: Generator) -> None:
        self.case = case
        self.meter = Meter(case)
        self.us = list(case.us)
        self.betas = list(betas)
        self.margins = case.margins()
        self.noisy: dict[int, Floats] = {}
        self.rng = rng
        self.phase = 1

    def sensitivity(self, i: int) -> float:
        return self.case.sensitivities[self.case.lines[i]]

    def price(self, i: int) -> float:
        return level_of(self.betas[i], self.sensitivity(i), self.us[i])

    def measure(self, i: int, where: Bools | None = None) -> None:
        """Charge and draw one condition's noisy margins, in the groups ``where`` or in all."""
        epsilon = self.price(i)
        self.meter.charge(Row(i, epsilon, self.us[i], self.betas[i], self.phase), where)
        noisy_margins = self.margins[i] + self.rng.laplace(
            0.0, self.sensitivity(i) / epsilon, self.case.groups
        )
        self.noisy[i] = (
            noisy_margins if where is None else np.where(where, noisy_margins, self.noisy[i])
        )

    def leaf(self, i: int) -> Bools:
        if i not in self.noisy:
            self.measure(i)
        return np.asarray(self.noisy[i] > -self.us[i])

    def select(self) -> Bools:
        costs = [self.price(i) for i in range(len(self.us))]
        return traverse(self.case, self.leaf, costs)

    def finished(
        self, mode: str, status: Status, chosen: Bools, found: dict[int, tuple[float, float]]
    ) -> Studied:
        f, r = zip(*(found.get(i, (math.nan, math.nan)) for i in range(len(self.us))), strict=True)
        meter = self.meter
        return Studied(mode, status, chosen, meter.spent, meter.epsilons, tuple(meter.rows), f, r)


def naive(case: Case, rng: Generator) -> Studied:
    """Run each condition once with an equal share, regardless of false positives (algorithm 19)."""
    return one_phase(case, first_shares("naive", case.condition, case.weights, case.beta), rng)


def one_phase(case: Case, betas: Sequence[float], rng: Generator) -> Studied:
    """Run each condition once with its own share, regardless of false positives.

    Algorithm 19 of docs/methods/probe.md.
    """
    run = _Pass(case, betas, rng)
    if sum(map(run.price, range(len(case.us)))) > case.most:
        return denied(case, "naive")
    return run.finished("naive", "OK", run.select(), {})


def false_positives(noisy: Floats, u: float, beta: float, selected: Bools) -> tuple[float, float]:
    """Return ProBE's estimates of the false positives and of the negatives of a condition.

    Algorithm 20 of docs/methods/probe.md.

    The paper calls them bounds, but they are not: groups just below the threshold lie above it half
    of the time (docs/methods/probe.md, error 1).

    Parameters
    ----------
    noisy : array, shape (groups,)
        Noisy margins.
    selected : bool array, shape (groups,)
    """
    above, shifted = noisy > 0, noisy > -u
    f = int((shifted & ~above & selected).sum()) + int((above & selected).sum()) * beta
    r = (int((~shifted & ~selected).sum()) - beta * len(noisy)) / (1 - beta)
    return f, r


def smaller_region(noisy: Floats, u: float, selected: Bools, surplus: float) -> float | None:
    """Return the largest u that drops ``surplus`` of the selected groups; None if there is none.

    Algorithm 20 of docs/methods/probe.md.
    """
    between = np.sort(noisy[(noisy > -u) & (noisy <= 0) & selected])
    drop = math.ceil(surplus)
    if drop > len(between):
        return None
    shift = -float(between[drop - 1])
    return shift if shift > 0 else None


def two_phases(case: Case, rng: Generator, mode: Mode = "probe") -> Studied:
    """Run ProBE: a cheap phase, an estimate of its false positives, and a second phase.

    Algorithm 20 of docs/methods/probe.md.

    Phase two draws fresh noise for the undecided groups of conditions with too many false
    positives. With refined noise, false negatives would exceed their bound (docs/methods/probe.md,
    error 7).

    Parameters
    ----------
    mode : {'probe', 'probe-naive', 'paper'}
        'probe-naive' gives equal shares. 'paper' checks each charge of phase two separately, so a
        denial may come after some of them, and takes the parts of an AND as written.
    """
    if mode == "paper":
        case = replace(case, ordered=False)
    betas = first_shares(mode, case.condition, case.weights, case.beta)
    run = _Pass(case, betas, rng)
    if sum(map(run.price, range(len(case.us)))) > case.most:
        return denied(case, mode)
    first = run.select()
    allowed = case.alpha / len(case.us)
    estimates: dict[int, tuple[float, float]] = {}
    shifts: dict[int, float] = {}
    for i, noisy in run.noisy.items():
        f, r = estimates[i] = false_positives(noisy, run.us[i], run.betas[i], first)
        if f <= allowed * r:
            continue
        u = None if r < 0 else smaller_region(noisy, run.us[i], first, f - allowed * r)
        if u is None:
            return run.finished(mode, "DENIED_AFTER_PHASE1", first, estimates)
        shifts[i] = u
    if not shifts:
        return run.finished(mode, "OK", first, estimates)
    run.phase = 2
    undecided = {i: (run.noisy[i] > -run.us[i]) & (run.noisy[i] <= 0) for i in shifts}
    for i, u in shifts.items():
        run.us[i] = u
    run.betas = [(1 - SPLIT) / SPLIT * beta for beta in betas]
    if mode != "paper" and run.meter.spent + sum(map(run.price, shifts)) > case.most:
        return run.finished(mode, "DENIED_AFTER_PHASE1", first, estimates)
    try:
        for i in sorted(shifts):
            run.measure(i, undecided[i])
    except DeniedError:
        return run.finished(mode, "DENIED_AFTER_PHASE1", first, estimates)
    try:
        last = run.select()
    except DeniedError:
        return run.finished(mode, "DENIED_AFTER_PHASE2", first, estimates)
    for i in shifts:
        estimates[i] = false_positives(run.noisy[i], run.us[i], run.betas[i], last)
    alpha_met = all(estimates[i][0] <= allowed * estimates[i][1] for i in shifts)
    return run.finished(mode, "OK" if alpha_met else "DENIED_AFTER_PHASE2", last, estimates)
