"""The density of a value given past answers, and its confidence interval at every confidence."""

from __future__ import annotations

import itertools
from operator import methodcaller
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpnb.answers.inference import Inference
    from dpnb.answers.inferred import Inferred
    from dpnb.estimation.intervals import Pair

POINTS = 61
"""Number of points of a curve."""
REACH = 4.0
"""Reach of a curve to either side of the estimate, in standard deviations."""
LEVELS = (
    *(share / 100 for share in (*range(50, 90, 2), *range(90, 100))),
    0.995, 0.998, 0.999, 0.9999,
)  # fmt: skip
"""Confidences for which an interval is shown, in addition to the inference's own."""


def has_curve(inference: Inference, found: Inferred, group: int) -> bool:
    """Return whether a group's interval comes from a distribution, so that the value has a curve.

    Guaranteed bounds do not come from a distribution.
    """
    determined = bool(found.places[group]) and found.estimate[group] is not None
    return determined and inference.method != "guaranteed"


def has_levels(inference: Inference, found: Inferred, group: int) -> bool:
    """Return whether the noise distribution alone gives a group an interval at every confidence."""
    if not has_curve(inference, found, group):
        return False
    if inference.method != "blue" or inference.prior is not None or inference.chosen == "any":
        return False
    # a mean with noise other than Gaussian would take seconds
    return len(found.places[group]) == 1 or inference.joint.gaussian


def curve(inference: Inference, found: Inferred, group: int) -> list[tuple[float, float]]:
    """Return values around an estimate, each with its density given past answers.

    Uses finite differences of the probability that the exact value is above a number
    (docs/methods/bayes.md, theorem 9).

    Returns
    -------
    list of pairs, length 61
        Empty if there is no noise.
    """
    first, last = axis(inference, found, group)
    if not first < last:
        return []
    step, labels = (last - first) / (POINTS - 1), inference.groups[group]
    ends = [first + (place - 0.5) * step for place in range(POINTS + 1)]
    tails = [inference.probability(">", end, labels, found.alias) for end in ends]
    return [(ends[i] + step / 2, max(tails[i] - tails[i + 1], 0.0) / step) for i in range(POINTS)]


def density_at(points: list[tuple[float, float]], at: float) -> float:
    """Return the density between two points of a curve; 0 beyond its ends."""
    for (left, lower), (right, upper) in itertools.pairwise(points):
        if left <= at <= right:
            return lower + (upper - lower) * (at - left) / (right - left)
    return 0.0


def levels(inference: Inference, found: Inferred, group: int) -> list[tuple[float, float, float]]:
    """Return confidences in ascending order, each with the ends of its confidence interval.

    Each interval is for this value alone. If the question was picked from several, the intervals
    are wide enough to hold nevertheless.
    """
    from dpnb.estimation.estimates import cut
    from dpnb.estimation.mixed import mean_interval

    confidences = {inference.confidence} if 0 < inference.confidence < 1 else set()
    joint, place, value = inference.joint, found.places[group], found.uncut.estimate[group]
    distribution, discrete = joint.distribution(place[0]), found.function.is_count
    intervals = []
    for level in sorted({*LEVELS, *confidences}):
        width = methodcaller("margin_of_error", (1 - level) / int(inference.chosen))
        if len(place) == 2:
            low, high = (found.middle + end for end in mean_interval(joint, *place, width))
        else:
            half, middle = width(distribution), value or 0.0
            low, high = middle - half, middle + half
        intervals.append((level, *cut((low, high), found.possible_of(group), whole=discrete)))
    return intervals


def axis(inference: Inference, found: Inferred, group: int) -> Pair:
    """Return the ends of a curve: what is possible of the values near the estimate."""
    from dpnb.estimation.estimates import cut

    half, middle = REACH * _spread(inference, found, group), found.uncut.estimate[group] or 0.0
    return cut((middle - half, middle + half), found.possible_of(group))


def _spread(inference: Inference, found: Inferred, group: int) -> float:
    """Return the standard deviation of an estimate; for a mean, to first order."""
    place, middle = found.places[group], found.uncut.estimate[group]
    if len(place) == 1 or middle is None:
        return float(inference.joint.distribution({place[0]: 1.0}).sd)
    total, count = place
    rows = abs(float(inference.joint.estimates[count]))
    sd = float(inference.joint.distribution({total: 1.0, count: found.middle - middle}).sd)
    return sd / rows if rows else 0.0
