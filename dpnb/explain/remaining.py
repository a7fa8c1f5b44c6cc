"""The difference that remains when the rows of a predicate are left out, as far as its influence tells.

An influence is the change of the difference times a factor that says how many rows remain: with f the
rows that remain in the group where fewest do, and N the rows of the largest group,

    AVG:         I(p) = f * (difference - difference without the rows)
    COUNT, SUM:  I(p) = f / (N + 1) * (difference - difference without the rows)

(docs/methods/dpxplain.md, definition 1 and theorem 15). The factor itself is not released, but f is
at most the rows of the smallest group, so each influence whose sign is known bounds what remains on
one side. No more follows: an influence of 5 % may stand for rows that make the whole difference,
and leave few others.
"""

from __future__ import annotations

import math

from dpnb.answers.question import Question


def factor(question: Question) -> float:
    """Return the most that the change of a difference may be multiplied by in an influence.

    The upper end of the rows of the smallest group for AVG; for COUNT as a share of one more than the
    lower end of those of the largest. Sums are without counts, and the share is below 1.
    """
    smallest, largest = question.smallest_high, question.largest_low
    # at least one row remains wherever an influence is not 0
    rows = 1.0 if smallest is None or not smallest > 1 else smallest
    if question.function == "AVG":
        return math.inf if smallest is None else rows
    if smallest is None or largest is None:
        return 1.0
    return min(1.0, rows / (max(largest, 0.0) + 1))


def remaining(question: Question, low: float, high: float) -> tuple[float | None, float | None]:
    """Return the lower and upper end of the difference that remains; None for an end that does not follow.

    What is said holds with the confidence 1 - a of the influence or of the question, whichever is
    smaller. An influence of 0 gets a sign with probability a. Of one above 0 the lower end is wrong with
    a/2, and the question's ends, whose noise is independent, are with 1 - sqrt(1 - a); that the sign is
    wrong takes at least as much from the latter as it adds, up to a. And (1 - a/2) sqrt(1 - a) >= 1 - a.

    Parameters
    ----------
    question : Question
    low, high : float
        The interval of the influence, in its own units.
    """
    if low > 0:
        return None, _finite(question.joint_high - low / factor(question))
    if high < 0:
        return _finite(question.joint_low - high / factor(question)), None
    return None, None


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None
