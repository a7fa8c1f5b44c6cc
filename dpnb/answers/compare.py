"""A ``Question`` from two sides or a comparison in words: a weighted sum of groups."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpnb.answers.comparison import Comparison, Group, exact, sides
from dpnb.answers.question import Question, sentence_of, shown_label
from dpnb.answers.reading import read
from dpnb.codes import truth
from dpnb.errors import RequestError, given, nearest
from dpnb.estimation.intervals import (
    Mode,
    Pair,
    combination_margin_of_error,
    combine,
    mean_around_zero,
    mean_in_box,
)
from dpnb.formats import label, label_text
from dpnb.sql.functions import Function

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.estimation.estimates import Estimates

MAX_GROUPS = 100
_BETWEEN = re.compile(r"\S\s*[<>]=?\s*\S")
_PLAIN = re.compile(r"[^\W\d][\w.]*(?:[ -][\w.]+)*")


def find_group(answer: Answer, name: object) -> int:
    """Return the index of a declared group given by its label, or a tuple of labels.

    Raises
    ------
    RequestError
        When no declared group has that name.
    """
    target = tuple(map(str, name if isinstance(name, tuple) else (name,)))
    if sum(target == tuple(map(str, group)) for group in answer.groups) > 1:
        raise RequestError(
            f"this answer has several groups {shown_label(name)}",
            "Name the parts of UNION ALL in a column: SELECT 'a' AS part, ... Write no set of GROUP BY twice.",
        )
    for index, group in enumerate(answer.groups):
        # without group columns the one group is () or, as shown, "all rows"
        if target in (tuple(map(str, group)), tuple(map(label_text, group or (label(group),)))):
            return index
    labels = [label(group) for group in answer.groups]
    raise RequestError(
        f"this answer has no group {shown_label(name)}",
        nearest(label(target), labels, shown=repr),
    )


def compare(
    answer: Answer,
    left: object,
    right: object,
    aggregate: str | None,
    *,
    constant: object,
    planned: bool,
    mode: Mode,
) -> Question:
    """Build the question; see :meth:`Answer.compare`."""
    truth(planned, "planned")
    if aggregate is not None and not isinstance(aggregate, str):
        raise RequestError(
            f"aggregate must be an alias, got {given(aggregate)}", "Give the alias of an aggregate."
        )
    comparison = _comparison(answer, left, right, constant)
    if comparison is None:
        weights = _resolved(answer, [*_side(left, 1), *([] if right is None else _side(right, -1))])
        threshold = exact(constant, "constant")
        if len(weights) == 1 and not threshold:
            raise RequestError(
                "a comparison needs two groups, or one group and a constant",
                "Name a second group, or give constant=10.",
            )
    else:
        weights = _resolved(answer, list(comparison.weights))
        threshold = exact(comparison.constant, "constant")
        if comparison.aggregate is not None and aggregate not in (None, comparison.aggregate):
            raise RequestError(
                f"the comparison is of {given(comparison.aggregate)}, but aggregate is {given(aggregate)}",
                "Name only one of them.",
            )
        aggregate = comparison.aggregate or aggregate
    estimates = answer.estimates_of(aggregate)
    _check_mode(answer, estimates, mode)
    low, high = difference(answer, estimates, weights, threshold, planned=planned, mode=mode)
    wider = difference(
        answer, estimates, weights, threshold, planned=planned, mode=mode, share=JOINT_SHARE
    )
    smallest, largest = rows_between(answer, estimates, weights, planned=planned or mode == "paper")
    rows, enough = fewest_rows(answer, estimates, weights)
    names = _sides(answer, weights, threshold)
    question = Question(
        groups=tuple(answer.groups[i] for i in weights),
        weights=tuple(map(float, weights.values())),
        constant=float(threshold),
        left=names[0],
        right=names[1],
        aggregate=estimates.alias,
        function=estimates.function,
        estimate=released_difference(estimates, weights, threshold),
        low=low,
        high=high,
        valid=low > 0,
        sentence="",
        confidence=answer.confidence,
        planned=planned,
        stamp=answer.stamp,
        conditional=answer.conditional,
        mode=mode,
        rows=rows,
        enough=enough,
        joint_low=wider[0],
        joint_high=wider[1],
        smallest_high=smallest,
        largest_low=largest,
        note=answer.look_note(estimates),
        table=answer.table,
        version=answer.version,
        ledger=answer.ledger,
        request=answer.request,
        index=[output.alias for output in answer.estimates].index(estimates.alias),
    )
    return replace(question, sentence=sentence_of(question))


def _comparison(answer: Answer, left: object, right: object, constant: object) -> Comparison | None:
    """Return ``left`` as a comparison if it is one; a group of that name takes precedence."""
    if isinstance(left, Comparison):
        comparison = left
    elif right is None and isinstance(left, str):
        try:
            find_group(answer, left)
        except RequestError:
            try:
                comparison = read(left)
            except RequestError:
                if _BETWEEN.search(left):
                    raise
                return None
        else:
            return None
    else:
        return None
    if right is not None or exact(constant, "constant") != 0:
        raise RequestError(
            "a comparison written as text already has both sides", "Write it as 'a' > 'b' + 100."
        )
    return comparison


def _side(side: object, sign: int) -> list[tuple[object, Fraction]]:
    if isinstance(side, Mapping):
        return [(group, sign * exact(weight, "weight")) for group, weight in side.items()]
    return [(side, Fraction(sign))]


def _resolved(answer: Answer, terms: list[tuple[Any, Fraction]]) -> dict[int, Fraction]:
    """Return weights by group index, those above 0 first; refuse what cannot be compared."""
    if len(terms) > MAX_GROUPS:
        raise RequestError(
            f"a comparison can have at most {MAX_GROUPS} groups, got {len(terms):,}",
            "Group by fewer columns, or by bins.",
        )
    weights: dict[int, Fraction] = {}
    for name, weight in terms:
        index = find_group(answer, name)
        if index in weights:
            raise RequestError(
                f"{label(answer.groups[index])!r} is named twice: a group cannot be compared with itself",
                "Name each group once, with its total weight.",
            )
        weights[index] = exact(weight, "weight")
    nonzero_weights = sorted(
        ((i, w) for i, w in weights.items() if w), key=lambda pair: pair[1] < 0
    )
    if not nonzero_weights:
        raise RequestError("all weights are 0", "Give at least one group a weight other than 0.")
    return dict(nonzero_weights)


def _check_mode(answer: Answer, estimates: Estimates, mode: object) -> None:
    if not isinstance(mode, str) or mode not in ("tight", "paper"):
        raise RequestError(
            f"mode must be 'tight' or 'paper', got {given(mode)}", "Write mode='tight'."
        )
    if mode == "paper" and answer.privacy.noise == "laplace":
        raise RequestError(
            "mode='paper' needs Gaussian noise", "Leave mode out, or open a zcdp session."
        )
    if not estimates.plain:
        return
    if mode == "paper":
        raise RequestError(
            "mode='paper' cannot compare computed columns or combined answers", "Leave mode out."
        )
    if answer.intervals != "simultaneous":
        raise RequestError(
            f"the confidence intervals of {estimates.alias!r} hold each on its own and cannot be combined",
            "Ask the statement with intervals='simultaneous'.",
        )


def _sides(answer: Answer, weights: Mapping[int, Fraction], constant: Fraction) -> tuple[str, str]:
    """Return the two sides as shown; in sums, names that could be misread are quoted."""
    terms = [(answer.groups[i], weight) for i, weight in weights.items()]
    plain = not constant and len(terms) <= 2 and all(abs(weight) == 1 for _, weight in terms)

    def shown(group: Group) -> str:
        name = label(group)
        if plain or _PLAIN.fullmatch(name):
            return name
        return f"({name})" if len(group) > 1 else f"'{name}'"

    return sides(terms, constant, shown, " ")


def question_alpha(answer: Answer, estimates: Estimates, *, planned: bool) -> float:
    """Return the failure probability that one question may use.

    A question made up after seeing the answers may also have picked its aggregate. Formulas do not
    count: questions about them use the answer's intervals, which have a guarantee of their own.
    """
    aggregates = sum(output.function is not Function.FORMULA for output in answer.estimates)
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
    """Return the confidence interval of sum(weight x exact value) - constant.

    Theorems 8 to 11 of docs/methods/estimation.md.

    COUNT and SUM: from the noise of the sum. AVG: from one interval for each group, at alpha /
    compared groups for planned questions and at alpha / groups otherwise, combined by their ends.
    FORMULA, and estimates from several releases: from the answer's intervals, which hold together,
    combined likewise.

    Parameters
    ----------
    weights : mapping
        From indices in ``answer.groups`` to weights that are not 0.
    mode : {'tight', 'paper'}
        'paper': as in DPXPlain, section 4.2: boxes for AVG, and always as if planned.
    share : float
        Share of the failure probability that the interval may use.
    """
    shares = list(weights.values())
    if estimates.plain:
        numbers = estimates.uncut
        intervals = [(numbers.low[i], numbers.high[i]) for i in weights]
        return combine(intervals, shares, -constant)
    planned = planned or mode == "paper"
    alpha = share * question_alpha(answer, estimates, planned=planned)
    groups = len(answer.groups)
    total_distribution, count_distribution = (
        estimates.total_distribution,
        estimates.count_distribution,
    )
    if estimates.total is not None and estimates.count is not None:
        assert total_distribution is not None and count_distribution is not None  # noqa: S101, PT018
        group_alpha = alpha / (len(weights) if planned else groups)
        if mode == "paper":
            ends = [
                mean_in_box(
                    estimates.total[i],
                    estimates.count[i],
                    total_distribution,
                    count_distribution,
                    group_alpha,
                )
                for i in weights
            ]
        else:
            ends = _means(estimates, weights, group_alpha)
        # released sums are centred, so their middle returns here; in contrasts it cancels exactly
        return combine(ends, shares, Fraction(estimates.middle) * sum(shares) - constant)
    values = estimates.count if estimates.total is None else estimates.total
    distribution = count_distribution if estimates.total is None else total_distribution
    assert values is not None and distribution is not None  # noqa: S101, PT018
    half = combination_margin_of_error(distribution, alpha, shares, groups, planned=planned)
    centre = math.fsum(float(w) * values[i] for i, w in weights.items()) - float(constant)
    return centre - half, centre + half


def _means(estimates: Estimates, rows: Iterable[int], alpha: float) -> list[Pair]:
    """Return intervals of each group's AVG, around the middle, that fail with ``alpha`` each."""
    total, count, total_distribution, count_distribution = (
        estimates.total,
        estimates.count,
        estimates.total_distribution,
        estimates.count_distribution,
    )
    assert total is not None and count is not None  # noqa: S101, PT018
    assert total_distribution is not None and count_distribution is not None  # noqa: S101, PT018
    ends = [
        mean_around_zero(total[row], count[row], total_distribution, count_distribution, alpha)
        for row in rows
    ]
    # where the rows are too few to tell, the bounds are what is known
    everything = -estimates.reach, estimates.reach
    return [everything if math.isinf(high) else (low, high) for low, high in ends]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The parts from which the confidence interval of the difference of any two groups follows.

    The groups may be picked after the fact. The parts are both ends of each group, where opposite
    ends are subtracted, or each group's value and the margin of error of every difference.
    Theorem 9 of docs/methods/estimation.md.
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    value: tuple[float, ...] = ()
    half: float = 0.0


def pairs(answer: Answer, found: Estimates, rows: Sequence[int]) -> Pairs:
    """Return the parts of all differences of the groups in ``rows``, as in :func:`difference`."""
    if found.plain:
        ends = found.uncut.low, found.uncut.high
        low, high = (tuple(end[row] for row in rows) for end in ends)
        return Pairs(low, high)
    alpha, groups = question_alpha(answer, found, planned=False), len(answer.groups)
    if found.total is not None and found.count is not None:
        low, high = zip(*_means(found, rows, alpha / groups), strict=True)
        return Pairs(low, high)
    total = found.total is not None
    values, distribution = (
        (found.total, found.total_distribution)
        if total
        else (found.count, found.count_distribution)
    )
    assert values is not None and distribution is not None  # noqa: S101, PT018
    half = combination_margin_of_error(
        distribution, alpha, (Fraction(1), Fraction(-1)), groups, planned=False
    )
    return Pairs(value=tuple(values[row] for row in rows), half=half)


def released_difference(
    estimates: Estimates, weights: Mapping[int, Fraction], constant: Fraction
) -> float | None:
    """Return sum(weight x released value) - constant; None if an AVG has too few rows to tell."""
    terms, values = [-float(constant)], estimates.uncut.estimate
    for index, weight in weights.items():
        value = values[index]
        if value is None:
            return None
        terms.append(float(weight) * value)
    try:
        total = math.fsum(terms)
    except (OverflowError, ValueError):
        return None
    return total if math.isfinite(total) else None


def fewest_rows(
    answer: Answer, estimates: Estimates, weights: Mapping[int, Fraction]
) -> tuple[float | None, bool]:
    """Return for AVG the smallest released count, and whether it lies above its own noise."""
    if (
        not estimates.function.is_mean
        or estimates.count is None
        or estimates.count_distribution is None
    ):
        return None, True
    fewest = min(estimates.count[i] for i in weights)
    return fewest, fewest > estimates.count_distribution.quantile(1 - answer.confidence)


JOINT_SHARE = 0.25
"""Share of a question's failure probability that each of two wider intervals may use: that of the
difference and that of its groups' rows. Together they fail with at most half of it, so they hold
together with the square root of the confidence, because 1 - a/2 >= sqrt(1 - a)."""


def rows_between(
    answer: Answer, estimates: Estimates, weights: Mapping[int, Fraction], *, planned: bool
) -> tuple[float | None, float | None]:
    """Return the most rows that the smallest group may have, and the fewest of the largest group.

    None if no rows were counted: for a SUM, and for combined answers.
    """
    if estimates.count is None or estimates.count_distribution is None:
        return None, None
    alpha = JOINT_SHARE * question_alpha(answer, estimates, planned=planned)
    half = estimates.count_distribution.quantile(
        alpha / (len(weights) if planned else len(answer.groups))
    )
    counts = [estimates.count[i] for i in weights]
    return max(0.0, min(counts) + half), max(0.0, max(counts) - half)
