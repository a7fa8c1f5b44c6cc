"""Bounds of the difference without the rows of a predicate, as far as its influence gives them.

An influence is the change of the difference times a factor for the rows that remain. With f the
rows that remain in the group where the fewest do, and N the rows of the largest group,

    AVG:         I(p) = f * (difference - difference without the rows)
    COUNT, SUM:  I(p) = f / (N + 1) * (difference - difference without the rows)

(docs/methods/dpxplain.md, definition 1 and theorem 15). The factor itself is not released, but f is
at most the number of rows of the smallest group, so each influence with a known sign bounds what
remains on one side. Nothing more follows: an influence of 5 % may stand for rows that make up the
whole difference and leave few others.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from dpnb.answers.question import Question

Effect: TypeAlias = Literal["noise", "reverses", "lowers", "narrows", "widens", "leaves"]
"""What is known of leaving rows out, see :func:`effect`."""


def factor(question: Question) -> float:
    """Return the largest factor by which an influence may multiply the change of a difference.

    For AVG, the upper bound of the smallest group's rows. For COUNT, this divided by one more than
    the lower bound of the largest group's rows. A SUM has no counts, but its factor is below 1.
    """
    smallest, largest = question.smallest_high, question.largest_low
    # at least one row remains wherever an influence is not 0
    rows = 1.0 if smallest is None or not smallest > 1 else smallest
    if question.function.is_mean:
        return math.inf if smallest is None else rows
    if smallest is None or largest is None:
        return 1.0
    return min(1.0, rows / (max(largest, 0.0) + 1))


def remaining(question: Question, low: float, high: float) -> tuple[float | None, float | None]:
    """Return a lower and an upper bound of the difference that remains; None where none follows.

    The bound holds with the confidence 1 - a of the influence or of the question, whichever is
    smaller. An influence of 0 gets a sign with probability a. For an influence above 0, the lower
    end is wrong with probability a/2, and the question's ends, whose noise is independent, with
    probability 1 - sqrt(1 - a); a wrong sign takes at least as much from the latter as it adds, up
    to a. And (1 - a/2) sqrt(1 - a) >= 1 - a.

    Parameters
    ----------
    question : Question
    low, high : float
        The confidence interval of the influence, in its own units.
    """
    if low > 0:
        return None, _finite(question.joint_high - low / factor(question))
    if high < 0:
        return _finite(question.joint_low - high / factor(question)), None
    return None, None


def effect(
    question: Question, low: float, high: float, left_low: float | None, left_high: float | None
) -> Effect:
    """Return what leaving out the rows of a predicate does to the gap that the question shows.

    Parameters
    ----------
    question : Question
    low, high : float
        The confidence interval of the influence, in any units.
    left_low, left_high : float or None
        Bounds of the difference that remains, see :func:`remaining`.

    Returns
    -------
    {'noise', 'reverses', 'lowers', 'narrows', 'widens', 'leaves'}
        'noise' if the influence may be 0, and 'reverses' if what remains certainly has the other
        sign. The gap 'widens' if what remains lies beyond the difference, seen from 0. If it lies
        on the other side of the difference, 0 may be between them: a difference above 0 'lowers'
        or reverses, one below 0 'narrows' or reverses. It 'leaves' what remains if the sign of the
        difference itself is not known.
    """
    if low <= 0 <= high:
        return "noise"
    falls = low > 0
    if question.joint_low > 0:
        if not falls:
            return "widens"
        return "reverses" if left_high is not None and left_high < 0 else "lowers"
    if question.joint_high < 0:
        if falls:
            return "widens"
        return "reverses" if left_low is not None and left_low > 0 else "narrows"
    return "leaves"


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None
