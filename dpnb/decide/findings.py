"""What the released values of a decision's steps show: which conditions remain, what is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpnb.decide.certificate import (
    Floats,
    Verdicts,
    margin_of_error,
    past_margin_of_error,
    settle,
    shares,
    verdicts,
    wrong_share,
)
from dpnb.decide.conditions import Bools
from dpnb.decide.plan import LATTICE_SHARE, DecisionPlan
from dpnb.decide.progressive import hopeless, kept, last_margins_of_error, passes
from dpnb.decide.stage import Stage
from dpnb.errors import RequestError
from dpnb.ledger.accountant import Accountant
from dpnb.privacy.path import find
from dpnb.releases.accuracy import ANY_LOOK
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate
from dpnb.sql.ranges import ranges_of
from dpnb.sql.values import Arithmetic, Number
from dpnb.views.view import asked_groups

_LATTICE = 8
"""Lattice units added to a threshold's move: more than discrete noise needs up to rho 10**9."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What the released values of some steps show about the protected condition.

    Attributes
    ----------
    kept : bool array, shape (conditions, groups)
        Conditions that no step has rejected.
    verdict : int8 array, shape (groups,)
    newest, low, high : array, shape (lines, groups)
        Newest values (merged with values seen before), and the certificate's confidence intervals.
    fresh : array, shape (lines, groups)
        Newest values with the noise of this decision alone.
    scales : list of float
        Noise scales of ``newest``.
    """

    kept: Bools
    verdict: Verdicts
    newest: Floats
    low: Floats
    high: Floats
    fresh: Floats
    scales: list[float]


def found_at(stage: Stage, step: int, state: Accountant) -> Found:
    """Return the findings after a step; step 0 means only values seen before.

    The bound on false negatives rests on the noise that this decision alone added. On a Gaussian
    path that was released at level l before, (L y_L - l y_l) / (L - l) is a release at level L - l
    that is independent of everything seen before (rho y is a Brownian motion with drift in rho).
    Values seen before enter only the certificate. Their own confidence intervals hold however the
    analyst chose the statement after seeing them, and take half of the certificate's failure
    probability.

    What is publicly impossible is cut from the certificate, and a condition that the public ranges
    decide is not tested.
    """
    plan = stage.plan
    low, high = _past_intervals(stage, state)
    alpha = _failing(stage) / len(plan.lines) / plan.steps
    releases: list[Floats] = []
    line_levels = stage.targets(step) if step else held_before(stage)
    newest = np.zeros_like(low)
    for past_view in stage.seen:
        if not step and past_view.held == line_levels[past_view.line]:
            newest[past_view.line] = _version(
                plan, past_view.line, past_view.view, past_view.held, state
            )
    for number in range(1, step + 1):
        newest = _versions(stage, stage.targets(number), state)
        fresh = _added(stage, newest, number, state)
        releases.append(fresh)
        for i, line in enumerate(plan.lines):
            half = margin_of_error(line.levels[number - 1], plan.reaches[i], plan.privacy, alpha)
            half += slack(stage, i, number)
            low[i] = np.maximum(low[i], fresh[i] - half)
            high[i] = np.minimum(high[i], fresh[i] + half)
    us = [_regions(stage, number) for number in range(1, step + 1)]
    least, most = np.moveaxis(np.array([possible_of(plan, i) for i in range(len(low))]), 2, 0)
    surely, perhaps = settle(plan.condition, plan.places, plan.limits, least, most)
    survivors = kept(plan.condition, plan.places, plan.limits, releases, us)
    inside = _cut(low, high, least, most)
    return Found(
        (survivors | surely) & perhaps,
        verdicts(plan.condition, plan.places, plan.limits, *inside),
        newest, low, high, releases[-1] if releases else newest,
        [
            line.view.distribution(level, plan.privacy).scale if level else float("inf")
            for level, line in zip(line_levels, plan.lines, strict=True)
        ],
    )  # fmt: skip


def possible_of(plan: DecisionPlan, place: int) -> list[tuple[float, float]]:
    """Return the public range of a line's value in each group."""
    line, query = plan.lines[place], plan.query
    aggregate = line.aggregate
    if line.about is not None:
        distance = Arithmetic("-", aggregate.argument, Number(line.about))
        aggregate = Aggregate(Function.SUM, distance, aggregate.filter, aggregate.alias)
    ranges = ranges_of(aggregate, query)
    if len(ranges) == 1:
        return [ranges[0]] * len(plan.groups)
    return [ranges[row] for row in asked_groups(query)]


def _cut(low: Floats, high: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return what is possible of intervals, as ``dpnb.estimation.estimates.cut`` does of one.

    Intervals of steps that contradict each other stay.
    """
    with np.errstate(invalid="ignore"):
        half = (high - low) / 2
        below = (low < least) & (high <= least)
        above = ~below & (high > most) & (low >= most)
        first = np.where(above, np.maximum(most - half, least), np.maximum(low, least))
        last = np.where(below, np.minimum(least + half, most), np.minimum(high, most))
    stays = low > high
    first, last = np.where(below, least, first), np.where(above, most, last)
    return np.where(stays, low, first), np.where(stays, high, last)


def check_lattice(stage: Stage) -> None:
    """Refuse a margin that the lattice would distort, as when much finer values were seen before.

    Raises
    ------
    RequestError
    """
    plan = stage.plan
    if plan.options.mode != "margin":
        return
    if any(slack(stage, term.line, 1) > LATTICE_SHARE * term.u for term in plan.terms):
        raise RequestError(
            "the grey width is too narrow for the grid of the noise, or earlier answers are far more "
            "accurate than this decision would be",
            "Use mode='certified' (--mode certified). Nothing was charged.",
        )


def held_before(stage: Stage) -> tuple[Fraction, ...]:
    """Return, by line, the finest level seen before; 0 for none."""
    finest = [Fraction(0)] * len(stage.plan.lines)
    for past_view in stage.seen:
        finest[past_view.line] = max(finest[past_view.line], past_view.held)
    return tuple(finest)


def _regions(stage: Stage, step: int) -> list[float]:
    """Return the uncertain regions of a step, widened for the lattice of the noise."""
    return [
        u + slack(stage, place, step)
        for u, place in zip(stage.plan.regions(step), stage.plan.places, strict=True)
    ]


def slack(stage: Stage, place: int, step: int) -> float:
    """Return how far rounding to the lattice may move a value, in units of a line."""
    line = stage.plan.lines[place]
    growth = stage.targets(step)[place] / line.levels[step - 1]
    return float(_LATTICE * growth * line.view.granularity)


def _version(
    plan: DecisionPlan, place: int, name: str, level: Fraction, state: Accountant
) -> npt.NDArray[np.float64]:
    """Return a version of a line's view, with groups in the statement's order; zeros if missing."""
    version = find(state.synopses.paths.get(name, ()), level)
    if version is None:
        return np.zeros(len(plan.groups))
    unit = float(plan.lines[place].view.granularity)
    values: Floats = np.asarray(version.vector, dtype=np.float64)[list(plan.order)] * unit
    return values


def _versions(stage: Stage, levels: Sequence[Fraction], state: Accountant) -> Floats:
    """Return the lines' versions at given levels, shape (lines, groups)."""
    pairs = enumerate(zip(stage.names, levels, strict=True))
    return np.array([_version(stage.plan, i, name, level, state) for i, (name, level) in pairs])


def _added(stage: Stage, newest: Floats, step: int, state: Accountant) -> Floats:
    """Return the newest values as the noise of this decision alone would give them."""
    if not any(stage.starts):
        return newest
    before = _versions(stage, stage.starts, state)
    release = newest.copy()
    for i, (start, target) in enumerate(zip(stage.starts, stage.targets(step), strict=True)):
        if start:
            gap = float(target - start)
            release[i] = newest[i] + (newest[i] - before[i]) * (float(start) / gap)
    return release


def _failing(stage: Stage) -> float:
    """Return a group's share of the failure probability, for past values and for new ones each."""
    return (1 - stage.plan.options.confidence) / (2 if stage.seen else 1) / len(stage.plan.groups)


def _past_intervals(stage: Stage, state: Accountant) -> tuple[Floats, Floats]:
    """Return the confidence intervals of values seen before; the real line where there are none."""
    plan, alpha = stage.plan, _failing(stage)
    low = np.full((len(plan.lines), len(plan.groups)), -np.inf)
    high = -low
    for past_view in stage.seen:
        line = plan.lines[past_view.line]
        # view n of all views seen gets 6/(pi n)^2: the choice of views may depend on what they
        # showed
        view_alpha = alpha * ANY_LOOK / past_view.rank**2
        half = past_margin_of_error(
            past_view.first,
            past_view.held,
            past_view.refinements,
            plan.reaches[past_view.line],
            plan.privacy,
            view_alpha,
        )
        values = _version(plan, past_view.line, past_view.view, past_view.held, state)
        half += float(_LATTICE * line.view.granularity)
        low[past_view.line] = np.maximum(low[past_view.line], values - half)
        high[past_view.line] = np.minimum(high[past_view.line], values + half)
    return low, high


def is_hopeless(stage: Stage, found: Found) -> bool:
    """Return whether even the last step is not expected to certify the goal."""
    plan = stage.plan
    last = [line.levels[-1] for line in plan.lines]
    alpha = _failing(stage) / len(plan.lines) / plan.steps
    return hopeless(
        plan.condition, plan.places, plan.limits, found.kept, found.newest, found.scales,
        last_margins_of_error(last, plan.reaches, plan.privacy, alpha),
        plan.regions(plan.steps), plan.options.goal, plan.privacy,
    )  # fmt: skip


def is_enough(plan: DecisionPlan, found: Found) -> bool:
    """Return whether no further step is needed: the goal is reached, or the list is certified."""
    chosen, options = plan.condition.value(found.kept), plan.options
    if shares(chosen, found.verdict)[0] <= options.goal:
        return True
    return options.protect == "fnr" and wrong_share(chosen, found.verdict) <= options.alpha


def three_way(stage: Stage, found: Found) -> Verdicts:
    """Return which groups one pass settles by its own shifts, whatever the data.

    Theorem 16 of docs/methods/probe.md.
    """
    plan, sure = stage.plan, np.zeros_like(found.kept)
    for i, term in enumerate(plan.terms):
        line = plan.lines[term.line]
        v = line.view.distribution(line.levels[0], plan.privacy).quantile(
            2 * (term.allowance or 0.5)
        )
        v += slack(stage, term.line, 1)
        sure[i] = passes(term.atom.sign, found.fresh[term.line], plan.limits[i], -v)
    verdict = plan.condition.value(sure).astype(np.int8)
    verdict -= (~plan.condition.value(found.kept)).astype(np.int8)
    return np.asarray(verdict, dtype=np.int8)
