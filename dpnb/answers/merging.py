"""Merging past and fresh answers: whether past ones suffice, what is missing, and the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from dpnb.answers.evidence import ROOM, SMALL, Evidence, Room
from dpnb.answers.fresh import merged_distribution
from dpnb.answers.infer import Part as Output
from dpnb.answers.infer import centre, in_order, parts_of
from dpnb.estimation.estimates import Estimates
from dpnb.estimation.intervals import shifted
from dpnb.estimation.joint import Joint
from dpnb.estimation.mixed import mean_and_interval
from dpnb.estimation.noise import Mixture
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PURE
from dpnb.privacy.loss import ceiling_digits
from dpnb.privacy.path import LEAST_LEVEL, grid
from dpnb.releases.held import Held
from dpnb.releases.plan import Part, Plan
from dpnb.sql.query import Aggregate
from dpnb.sql.ranges import ranges_of
from dpnb.views.view import View, transposition

if TYPE_CHECKING:
    from dpnb.answers.domain import Ints, Values

    Rows: TypeAlias = list[tuple[Ints, Values]]

SLACK = 1 - 1e-6
"""Requested errors are aimed at from just below, so that no rounding or lattice exceeds them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One aggregate with its requested error, and its parts.

    ``reach`` is the largest distance of a mean from the origin of its sums; ``apart`` is the
    distance of that origin from the origin of the declared view to buy.
    """

    part: Part
    output: Output
    error: float
    rows: float
    alpha: float
    reach: float
    apart: float


def wanted_of(plan: Plan) -> list[Wanted]:
    """Return the aggregates of a plan with their requested errors."""
    errors = plan.accuracy.error or {}
    (version,) = {view.version for view in plan.views.values()}
    outputs = parts_of(plan.query, version)
    alpha = plan.alpha(1)
    targets = []
    for part, output in zip(plan.parts, outputs, strict=True):
        middle, reach = centre(output, part.aggregate) if part.is_mean else (0.0, 0.0)
        apart = 0.0 if part.alignment is None else abs(part.alignment.middle - middle)
        error = errors[part.aggregate.alias] * SLACK
        targets.append(
            Wanted(part, output, error, float(plan.accuracy.rows or 1), alpha, reach, apart)
        )
    return targets


def _evidence(releases: Sequence[Held], targets: Sequence[Wanted], room: Room = SMALL) -> Evidence:
    views = [view for target in targets for view in target.output.views]
    return Evidence(releases, views, room=room)


def sufficient(plan: Plan, held: Sequence[Held]) -> dict[str, Fraction] | None:
    """Return the versions that reach every requested error alone; None if they do not."""
    targets = wanted_of(plan)
    evidence = _evidence(held, targets)
    for one in targets:
        combinations = _combinations(one, evidence)
        if not all(all(evidence.told(rows)) for rows in combinations):
            return None
        joints = [evidence.history.joint(rows) for rows in combinations]
        for group in range(len(joints[0])):
            if not _reached(one, [joint.margin_of_error(group, one.alpha) for joint in joints]):
                return None
    return {one.name: one.level for one in evidence.used}


def _combinations(target: Wanted, evidence: Evidence) -> list[Rows]:
    """Return what must be accurate: a count or sum; for AVG S - H C, S + H C, and C."""
    parts = target.output.parts
    if len(parts) == 1:
        return [evidence.combined(parts[0])]
    (total, _), (count, _) = parts[0][0], parts[1][0]
    mixed = [evidence.combined([(total, 1.0), (count, sign * target.reach)]) for sign in (-1, 1)]
    return [*mixed, evidence.combined([(count, 1.0)])]


def _reached(target: Wanted, halves: Sequence[float]) -> bool:
    """Return whether a value has its requested error.

    The margin of error of an AVG is at most the largest q(m) / C over |m| <= H, with
    C >= rows - q_C. As q is convex, the ends +-H decide (docs/methods/bayes.md, theorem 11).
    """
    if len(halves) == 1:
        return halves[0] <= target.error
    return max(halves[:2]) <= target.error * (target.rows - halves[2])


def missing_levels(
    plan: Plan, others: Sequence[Held]
) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    """Return the least level of each view given releases of other views, and the releases used.

    With Gaussian noise, the row of a value, released with variance s, and other evidence about it,
    with variance v, give 1 / (1/s + 1/v) at most, so 1/s = 1/v* - 1/v suffices for v*
    (docs/methods/bayes.md, theorem 11). With Laplace noise the distribution of the merged estimate
    decides.
    """
    targets = wanted_of(plan)
    evidence = _evidence(others, targets)
    least: dict[str, Fraction] = {}
    for one in targets:
        target_levels = (
            _pure_levels(one, plan, evidence)
            if plan.privacy is PURE
            else _levels(one, plan, evidence)
        )
        for view, level in target_levels.items():
            least[view] = max(level, least.get(view, level))
    levels = {view: min(level, plan.levels[view]) for view, level in least.items()}
    cheaper = any(level < plan.levels[view] for view, level in levels.items())
    past_levels = {one.name: one.level for one in evidence.used}
    return (levels, past_levels) if cheaper else (dict(plan.levels), {})


def _levels(target: Wanted, plan: Plan, evidence: Evidence) -> dict[str, Fraction]:
    plan_levels = {view.id: plan.levels[view.id] for view in target.part.views()}
    past_variances = [
        max(variances, default=math.inf)
        for variances in (evidence.variances(rows) for rows in _combinations(target, evidence))
    ]
    if all(math.isinf(variance) for variance in past_variances):
        return plan_levels
    z = NoiseDistribution("gaussian", 1.0).quantile(target.alpha)
    fresh_variances = _own_variances(target, plan)

    def enough(share: float) -> bool:
        halves = [
            z * math.sqrt(_together(variance / share, past))
            for variance, past in zip(fresh_variances, past_variances, strict=True)
        ]
        return _reached(target, halves)

    share = _least(enough)
    return {view: _up(level, share) for view, level in plan_levels.items()}


def _own_variances(target: Wanted, plan: Plan) -> list[float]:
    """Return the variances that the views alone would give, at the levels of the plan.

    For S - m C, with S centred around another origin at distance d: the variance of S, which is
    uncorrelated with C, plus at most (|m| + |d|)^2 times that of C.
    """
    part = target.part

    def variance(view: View | None, centred: bool | None) -> float:
        return (
            0.0
            if view is None
            else part.distribution(plan, view, plan.levels[view.id], centred).scale ** 2
        )

    if part.is_mean:
        total, count = variance(part.sum, True), variance(part.count, None)
        mixed = total + (target.reach + target.apart) ** 2 * count
        return [mixed, mixed, count]
    return [variance(part.sum or part.count, None if part.sum is None else False)]


def _together(variance: float, past: float) -> float:
    """Return the variance of the best merge of two estimates; an exact past one stays exact."""
    return 0.0 if past == 0 else 1 / (1 / variance + 1 / past)


def _least(enough: Callable[[float], bool]) -> float:
    """Return the least share of the levels that is enough, by bisection from above."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _up(level: Fraction, share: float) -> Fraction:
    return max(LEAST_LEVEL, ceiling_digits(float(level) * share))


def _pure_levels(target: Wanted, plan: Plan, evidence: Evidence) -> dict[str, Fraction]:
    """Return the coarsest level of the grid at which every merged value meets its error."""
    plan_levels = {view.id: plan.levels[view.id] for view in target.part.views()}
    rows = _combinations(target, evidence)[0]
    if target.part.is_mean or not all(evidence.told(rows)):
        return plan_levels
    ((name, plan_level),) = plan_levels.items()
    (view,) = target.part.views()
    joint = evidence.history.joint(rows)
    distributions = {
        _rounded(distribution): distribution
        for distribution in (joint.distribution(i) for i in range(len(joint)))
    }.values()
    levels = [level for level in grid() if level <= plan_level]

    def enough(level: Fraction) -> bool:
        fresh = target.part.distribution(
            plan, view, level, None if target.part.sum is None else False
        ).scale
        merges = (
            merged_distribution(past, fresh, "laplace", float(view.granularity))
            for past in distributions
        )
        return all(
            distribution.confidence(target.error) >= 1 - target.alpha for distribution in merges
        )

    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(levels[middle]) else (middle + 1, high)
    return {name: levels[high]}


def _rounded(distribution: Mixture) -> tuple[float, ...]:
    return tuple(float(f"{scale:.9g}") for scale in sorted(distribution.scales))


def merged(plan: Plan, held: Sequence[Held], look: int) -> list[Estimates]:
    """Return a plan's estimates from all releases, with intervals of their joint distribution."""
    targets = wanted_of(plan)
    # everything that the plan rests on, and what was bought for it
    evidence = _evidence(held, targets, ROOM)
    order = transposition(plan.query)
    estimates = []
    for target in targets:
        rows = [in_order(evidence.combined(weighted), order) for weighted in target.output.parts]
        joint = evidence.history.joint([row for part in rows for row in part])
        estimates.append(_estimates(target, joint, plan, len(order), look))
    return estimates


def _estimates(target: Wanted, joint: Joint, plan: Plan, groups: int, look: int) -> Estimates:
    aggregate: Aggregate = target.part.aggregate
    values: list[float | None] = []
    ends: list[tuple[float, float]] = []

    def width(distribution: Mixture) -> float:
        return distribution.margin_of_error(target.alpha)

    for group in range(groups):
        if target.part.is_mean:
            total, count = group, groups + group
            mean, interval = mean_and_interval(joint, total, count, width)
            values.append(mean)
            ends.append(interval)
            continue
        estimate, half = float(joint.estimates[group]), joint.margin_of_error(group, target.alpha)
        values.append(estimate)
        ends.append((estimate - half, estimate + half))
    shift = centre(target.output, aggregate)[0] if target.part.is_mean else 0.0
    return Estimates.worked_out(
        aggregate,
        [None if value is None else shift + value for value in values],
        [shifted(pair, shift) for pair in ends],
        plan.accuracy.alpha(1, 1),
        look,
        ranges_of(aggregate, plan.query),
    ).cut(whole=True)
