"""The interval of a weighted sum of groups, from released values and the laws of their noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from dpnb.answers.intervals import (
    Mode,
    Pair,
    combination_half_width,
    combine,
    mean_around_zero,
    mean_in_box,
)

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.answers.estimates import Estimates


def question_alpha(answer: Answer, estimates: Estimates, *, planned: bool) -> float:
    """Return the failure probability that one question may use.

    A question made up after seeing the answers may also have picked its aggregate. Formulas do not
    count: questions about them rest on the intervals of the answer, a promise of its own.
    """
    aggregates = sum(found.function != "FORMULA" for found in answer.estimates)
    return estimates.alpha if planned else estimates.alpha / aggregates


def difference(
    answer: Answer,
    estimates: Estimates,
    weights: Mapping[int, Fraction],
    constant: Fraction = Fraction(0),
    *,
    planned: bool,
    mode: Mode = "tight",
    share: float = 1.0,
) -> Pair:
    """Return the interval of sum(weight x exact value) - constant.

    Theorems 8 to 11 of docs/methods/estimation.md.

    COUNT and SUM: the noise of the sum. AVG: one interval for each group, at alpha / compared groups
    each for planned questions and at alpha / groups otherwise, combined by their ends. FORMULA, and
    what was computed from several releases: the answer's intervals, which hold together, combined
    likewise.

    Parameters
    ----------
    weights : mapping
        From indices in ``answer.groups`` to weights that are not 0.
    mode : {'tight', 'paper'}
        'paper': as DPXPlain, section 4.2: boxes for AVG, and always as if planned.
    share : float
        The part of the failure probability that the interval may use.
    """
    shares = list(weights.values())
    if estimates.plain:
        shown = [(estimates.low[i], estimates.high[i]) for i in weights]
        return combine(shown, shares, -constant)
    planned = planned or mode == "paper"
    alpha = share * question_alpha(answer, estimates, planned=planned)
    groups = len(answer.groups)
    total_law, count_law = estimates.total_law, estimates.count_law
    if estimates.total is not None and estimates.count is not None:
        assert total_law is not None and count_law is not None  # noqa: S101, PT018
        each = alpha / (len(weights) if planned else groups)
        ends = []
        for i in weights:
            total, count = estimates.total[i], estimates.count[i]
            if mode == "paper":
                ends.append(mean_in_box(total, count, total_law, count_law, each))
            else:
                ends.append(
                    mean_around_zero(total, count, total_law, count_law, estimates.reach, each)
                )
        # released sums are centred, so their middle returns here; in contrasts it cancels exactly
        return combine(ends, shares, Fraction(estimates.middle) * sum(shares) - constant)
    values = estimates.count if estimates.total is None else estimates.total
    law = count_law if estimates.total is None else total_law
    assert values is not None and law is not None  # noqa: S101, PT018
    half = combination_half_width(law, alpha, shares, groups, planned=planned)
    centre = math.fsum(float(w) * values[i] for i, w in weights.items()) - float(constant)
    return centre - half, centre + half


def released_difference(
    estimates: Estimates, weights: Mapping[int, Fraction], constant: Fraction
) -> float | None:
    """Return sum(weight x released value) - constant; None where an AVG has too few rows to tell."""
    terms = [-float(constant)]
    for index, weight in weights.items():
        value = estimates.estimate[index]
        if value is None:
            return None
        terms.append(float(weight) * value)
    try:
        found = math.fsum(terms)
    except (OverflowError, ValueError):
        return None
    return found if math.isfinite(found) else None


def fewest_rows(
    answer: Answer, estimates: Estimates, weights: Mapping[int, Fraction]
) -> tuple[float | None, bool]:
    """Return for AVG the smallest released count, and whether it lies above its own noise."""
    if estimates.function != "AVG" or estimates.count is None or estimates.count_law is None:
        return None, True
    fewest = min(estimates.count[i] for i in weights)
    return fewest, fewest > estimates.count_law.quantile(1 - answer.confidence)


JOINT_SHARE = 0.25
"""The part of a question's failure probability that each of two wider intervals may use, of the difference
and of its groups' rows: together they fail with half of it at most, so they hold together with the square
root of the confidence, for 1 - a/2 >= sqrt(1 - a)."""


def rows_between(
    answer: Answer, estimates: Estimates, weights: Mapping[int, Fraction], *, planned: bool
) -> tuple[float | None, float | None]:
    """Return the most rows that the smallest group may have, and the fewest that the largest may have.

    None where no rows were counted: for a SUM, and for combined answers.
    """
    if estimates.count is None or estimates.count_law is None:
        return None, None
    alpha = JOINT_SHARE * question_alpha(answer, estimates, planned=planned)
    half = estimates.count_law.quantile(alpha / (len(weights) if planned else len(answer.groups)))
    counts = [estimates.count[i] for i in weights]
    return max(0.0, min(counts) + half), max(0.0, max(counts) - half)
