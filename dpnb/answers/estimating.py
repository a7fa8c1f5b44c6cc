"""Each value's estimate and confidence interval, by the requested method, prior and accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dpnb.answers.evidence import Evidence
from dpnb.answers.inferred import Inferred
from dpnb.answers.options import Options
from dpnb.errors import RequestError
from dpnb.estimation.joint import Joint
from dpnb.estimation.mixed import Pair, Width, mean_and_interval
from dpnb.estimation.noise import Mixture
from dpnb.published import published

if TYPE_CHECKING:
    from dpnb.answers.domain import Ints, Values
    from dpnb.answers.infer import Part

    Rows: TypeAlias = list[tuple[Ints, Values]]

SIMULATED = 100_000
"""Draws of the Monte-Carlo method; a confidence is almost surely off by less than 0.005."""
_NOWHERE: Pair = (-math.inf, math.inf)


def measured(
    joint: Joint,
    options: Options,
    evidence: Evidence,
    alpha: float,
    part: Part,
    place: tuple[int, ...],
    rows: Rows,
) -> tuple[float | None, Pair]:
    """Return one value's estimate and interval, uncut; for AVG relative to the origin of its sums.

    ``place`` holds the value's linear parts in ``joint``, ``rows`` the same as rows over atoms.
    """
    if options.method == "guaranteed":
        return _guaranteed(joint, options, evidence, part, place, rows)
    if not place:
        return None, _NOWHERE
    width = partial(_margin_of_error, options=options, alpha=alpha, evidence=evidence)
    if part.function.is_mean:
        return _mean(joint, options, width, place)
    distribution, estimate = joint.distribution(place[0]), float(joint.estimates[place[0]])
    if options.prior is not None:
        new_estimate, (low, high) = _updated(
            options, estimate + part.offset, distribution, alpha, whole=part.function.is_count
        )
        return new_estimate - part.offset, (low - part.offset, high - part.offset)
    half = width(distribution)
    return estimate, (estimate - half, estimate + half)


def _margin_of_error(
    distribution: Mixture, options: Options, alpha: float, evidence: Evidence
) -> float:
    if options.chosen == "any":
        return evidence.any_factor(alpha) * distribution.sd + distribution.margin
    if options.method == "blue":
        return distribution.margin_of_error(alpha)
    bayes = published("bayes")
    if options.method == "mc":
        if alpha * SIMULATED < 100:
            raise RequestError(
                "method='mc' cannot find intervals with such a high confidence",
                "Use method='blue'.",
            )
        simulated_half: float = bayes.monte_carlo_margin_of_error(distribution, alpha, SIMULATED, 0)
        return simulated_half
    if distribution.variance:
        raise RequestError("method='pc' needs Laplace noise", "Use method='blue'.")
    if not distribution.scales:
        return distribution.margin
    convolved_half: float = bayes.grid(distribution.scales).margin_of_error(alpha)
    return convolved_half + distribution.margin


def _mean(
    joint: Joint, options: Options, width: Width, place: tuple[int, ...]
) -> tuple[float | None, Pair]:
    if options.method != "blue" or options.prior is not None:
        raise RequestError("an AVG needs method='blue' and no prior", "Leave method and prior out.")
    total, count = place
    return mean_and_interval(joint, total, count, width)


def _updated(
    options: Options, estimate: float, distribution: Mixture, alpha: float, *, whole: bool
) -> tuple[float, Pair]:
    from dpnb.estimation.prior import AtMost, NonNegative, read_prior, update

    prior = read_prior(options.prior)
    posterior = update(prior, estimate, distribution, integer=whole)
    new_estimate = estimate if isinstance(prior, (NonNegative, AtMost)) else posterior.mean
    return new_estimate, posterior.interval(alpha)


def _guaranteed(
    joint: Joint,
    options: Options,
    evidence: Evidence,
    part: Part,
    place: tuple[int, ...],
    rows: Rows,
) -> tuple[float | None, Pair]:
    """Return bounds that hold for all values together; they do not share a failure probability."""
    if part.function.is_mean:
        raise RequestError(
            "guaranteed bounds do not work for an AVG", "Ask for SUM and COUNT instead of AVG."
        )
    from dpnb.estimation.bounds import guaranteed

    counts_only = len(evidence.domain.moments) == 1
    confidence = 0.95 if options.confidence is None else options.confidence
    alpha = evidence.any_share(1 - confidence)
    (bounds,) = guaranteed(evidence.history, rows, alpha, nonnegative=counts_only)
    return float(joint.estimates[place[0]]) if place else None, bounds


def asked(
    inferred: Sequence[Inferred], joint: Joint, options: Options, intervals: int
) -> tuple[float, bool | None, list[Inferred]]:
    """Return the confidence, whether the target margin of error is met, and the intervals.

    If a confidence is given, its intervals stay. If only a target margin of error or an interval is
    given, it replaces them, and its confidence is computed; for several values by the union bound.
    """
    aggregates = list(inferred)
    if options.confidence is not None:
        met = None
        if options.error is not None:
            widths = [
                _width_of(aggregate, group, joint, options, intervals)
                for aggregate in (aggregate.cut(whole=True) for aggregate in aggregates)
                for group in range(len(aggregate.low))
            ]
            met = max(widths) <= options.error * (1 + 1e-9)
        return options.confidence, met, aggregates
    if any(aggregate.function.is_mean for aggregate in aggregates):
        raise RequestError(
            "the confidence of a given error or interval can be found for counts and sums only",
            "Give a confidence for an AVG.",
        )
    if options.between is not None and intervals > 1:
        raise RequestError(
            f"between works for one value, and this statement has {intervals:,}",
            "Use .between(low, high, group) of the inference.",
        )
    risks = []
    for i, aggregate in enumerate(aggregates):
        ends = []
        for group, place in enumerate(aggregate.places):
            risk, pair = _missed(aggregate, group, place, joint, options)
            risks.append(risk * int(options.chosen))
            ends.append(pair)
        aggregates[i] = replace(
            aggregate, low=tuple(low for low, _ in ends), high=tuple(high for _, high in ends)
        )
    total = max(risks) if options.each else math.fsum(risks)
    return max(0.0, 1 - total), None, aggregates


def _width_of(
    aggregate: Inferred, group: int, joint: Joint, options: Options, intervals: int
) -> float:
    """Return an interval's margin of error: if the distribution alone decides, before it is cut."""
    place = aggregate.places[group]
    plain = options.method == "blue" and options.prior is None and options.chosen != "any"
    if plain and len(place) == 1:
        return joint.margin_of_error(place[0], options.alpha(intervals))
    return aggregate.margin_of_error(group)


def _missed(
    aggregate: Inferred, group: int, place: tuple[int, ...], joint: Joint, options: Options
) -> tuple[float, Pair]:
    """Return the probability that a given interval misses the true value, and its ends."""
    estimate = aggregate.estimate[group]
    if not place or estimate is None:
        return 1.0, _NOWHERE
    if options.between is not None:
        low, high = options.between
        return 1 - joint.between(place[0], low - aggregate.middle, high - aggregate.middle), (
            low,
            high,
        )
    error = options.error or 0.0
    return 1 - joint.confidence(place[0], error), (estimate - error, estimate + error)
