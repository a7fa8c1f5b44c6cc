"""Is one side above the other, or may the noise explain what is seen? Free: released values only."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpnb.answers.comparison import Comparison, Group, exact, read, sides
from dpnb.answers.intervals import (
    Mode,
    Pair,
    combination_half_width,
    combine,
    mean_around_zero,
    mean_in_box,
)
from dpnb.answers.numbers import figure, percent
from dpnb.errors import RequestError
from dpnb.kinds import nearest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.answers.estimates import Estimates

MAX_GROUPS = 100
_PLAIN = re.compile(r"[^\W\d][\w.]*(?:[ -][\w.]+)*")


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a weighted sum of groups is above a constant, with the interval of the difference.

    The question "is a above b?" has the weights 1 and -1, and the constant 0.

    Attributes
    ----------
    groups : tuple of tuples
        Labels of the compared groups.
    weights : tuple of float
        One for each group, none 0; the question is whether sum(weight x value) > ``constant``.
    constant : float
        In units of the aggregate.
    left, right : str
        The two sides as shown: weights above 0 left, the others and the constant right.
    aggregate : str
        Alias of the compared aggregate.
    function : {'COUNT', 'SUM', 'AVG', 'FORMULA'}
    estimate : float or None
        sum(weight x released value) - constant; None where an AVG has too few rows to tell.
    low, high : float
        Interval of left - right, in units of the aggregate; infinite only in mode 'paper', and for
        formulas whose own intervals are.
    valid : bool
        True when the whole interval is above 0: noise is an unlikely reason.
    sentence : str
        The verdict in words.
    confidence : float
        Level of the interval.
    planned : bool
        True when the groups were fixed before the answer was seen; otherwise the interval also holds
        for groups picked because of what was seen (in mode 'tight').
    private : bool
    mode : {'tight', 'paper'}
    rows : float or None
        For AVG the smallest released count of the groups.
    enough : bool
        For AVG whether every released count lies above its own noise at this confidence
        (spec/dpxplain.md E12).
    note : str
        What the sentence says about looks.
    table, version : str, int
        Where the answer came from: table and data version,
    ledger, request : str
        ledger and request by their public names,
    index : int
        and the place of the aggregate in the statement.
    """

    groups: tuple[Group, ...]
    weights: tuple[float, ...]
    constant: float
    left: str
    right: str
    aggregate: str
    function: str
    estimate: float | None
    low: float
    high: float
    valid: bool
    sentence: str
    confidence: float
    planned: bool
    private: bool
    mode: Mode
    rows: float | None
    enough: bool
    note: str
    table: str
    version: int
    ledger: str
    request: str
    index: int

    @property
    def contradicted(self) -> bool:
        """Whether the released values say the opposite."""
        return self.estimate is not None and self.estimate < 0

    def flipped(self) -> Question:
        """Return the question the other way round. Free."""
        turned = sorted(zip(self.groups, self.weights, strict=True), key=lambda pair: pair[1] > 0)
        question = replace(
            self,
            groups=tuple(group for group, _ in turned),
            weights=tuple(-weight for _, weight in turned),
            constant=0.0 - self.constant,
            left=self.right,
            right=self.left,
            estimate=None if self.estimate is None else 0.0 - self.estimate,
            low=0.0 - self.high,
            high=0.0 - self.low,
            valid=self.high < 0,
        )
        return replace(question, sentence=_sentence(question))

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plain data (JSON); an infinite end is None."""
        ends = {"low": self.low, "high": self.high}
        shown = {name: end if math.isfinite(end) else None for name, end in ends.items()}
        return asdict(self) | shown

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Question:
        """Build a question from :meth:`to_dict`."""
        values = dict(data)
        values["groups"] = tuple(tuple(group) for group in values["groups"])
        values["weights"] = tuple(values["weights"])
        values["low"] = -math.inf if values["low"] is None else values["low"]
        values["high"] = math.inf if values["high"] is None else values["high"]
        return cls(**values)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        from dpnb.display.html import question_html

        return question_html(self)

    def to_html(self, path: str) -> None:
        """Write the question as a page that needs nothing else."""
        from dpnb.display.parts import write_page

        write_page(path, self._repr_html_())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the interval on a line with 0 marked; returns the matplotlib Axes."""
        from dpnb.display.figures import plot_question

        return plot_question(self, ax)

    def widget(self) -> Any:
        """Return the question as a Jupyter widget."""
        from dpnb.display.widgets import html_widget

        return html_widget(self._repr_html_())


def label(group: tuple[str | int, ...]) -> str:
    """Return a group's name as shown; several keys are joined by a comma."""
    return ", ".join(str(value) for value in group) if group else "all rows"


def find_group(answer: Answer, name: object) -> int:
    """Return the index of a declared group given by its label, or a tuple of labels.

    Raises
    ------
    RequestError
        When no declared group has that name.
    """
    wanted = tuple(map(str, name if isinstance(name, tuple) else (name,)))
    for index, group in enumerate(answer.groups):
        # without group columns the one group is () or, as shown, "all rows"
        if wanted in (tuple(map(str, group)), group or (label(group),)):
            return index
    labels = [label(group) for group in answer.groups]
    raise RequestError(
        f"{label(wanted)!r} is no group of this answer", nearest(label(wanted), labels, quote=True)
    )


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
) -> Pair:
    """Return the interval of sum(weight x exact value) - constant (spec/dpxplain.md 3.3).

    COUNT and SUM: the noise of the sum. AVG: one interval for each group, at alpha / compared groups
    each for planned questions and at alpha / groups otherwise, combined by their ends. FORMULA: the
    answer's intervals, which hold together, combined likewise.

    Parameters
    ----------
    weights : mapping
        From indices in ``answer.groups`` to weights that are not 0.
    mode : {'tight', 'paper'}
        'paper': as DPXPlain, section 4.2: boxes for AVG, and always as if planned.
    """
    shares = list(weights.values())
    if estimates.function == "FORMULA":
        shown = [(estimates.low[i], estimates.high[i]) for i in weights]
        return combine(shown, shares, -constant)
    planned = planned or mode == "paper"
    alpha = question_alpha(answer, estimates, planned=planned)
    groups = len(answer.groups)
    total_law, count_law = estimates.total_law, estimates.count_law
    if estimates.total is not None and estimates.count is not None:
        assert total_law is not None and count_law is not None  # noqa: S101, PT018
        share = alpha / (len(weights) if planned else groups)
        ends = []
        for i in weights:
            total, count = estimates.total[i], estimates.count[i]
            if mode == "paper":
                ends.append(mean_in_box(total, count, total_law, count_law, share))
            else:
                ends.append(
                    mean_around_zero(total, count, total_law, count_law, estimates.reach, share)
                )
        # released sums are centred, so their middle returns here; in contrasts it cancels exactly
        return combine(ends, shares, Fraction(estimates.middle) * sum(shares) - constant)
    values = estimates.count if estimates.total is None else estimates.total
    law = count_law if estimates.total is None else total_law
    assert values is not None and law is not None  # noqa: S101, PT018
    half = combination_half_width(law, alpha, shares, groups, planned=planned)
    centre = math.fsum(float(w) * values[i] for i, w in weights.items()) - float(constant)
    return centre - half, centre + half


def verdict(
    left: str,
    right: str,
    aggregate: str,
    low: float,
    high: float,
    confidence: float,
    *,
    advance: bool = False,
    mode: Mode = "tight",
) -> str:
    """Return the verdict in words; ``advance`` when it holds for groups fixed in advance only."""
    picked = "only for groups picked before" if advance else "also for groups picked after"
    method = "the paper's, " if mode == "paper" else ""
    between = (
        f"{percent(confidence)} interval {_end(low, low, high)} to {_end(high, low, high)} "
        f"({method}{picked} seeing the answer)"
    )
    if low > 0:
        return (
            f"{left} is above {right} in {aggregate}: the difference has the {between}. "
            "Noise is an unlikely reason."
        )
    if high < 0:
        return (
            f"{left} is below {right} in {aggregate}, not above: the difference has the {between}. "
            f"Ask the other way round: is {right} above {left}?"
        )
    return (
        f"Noise may explain the difference between {left} and {right} in {aggregate}: "
        f"its {between} contains 0."
    )


def _end(value: float, low: float, high: float) -> str:
    """Return an end of an interval as shown; never as 0 when it is not."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    shown = figure(value, (high - low) / 2)
    return shown if re.search("[1-9]", shown) else figure(value, abs(value))


def _sentence(question: Question) -> str:
    # intervals of formulas hold for all groups together, however a question came about
    advance = question.mode == "paper" or (question.planned and question.function != "FORMULA")
    said = verdict(
        question.left, question.right, question.aggregate, question.low, question.high,
        question.confidence, advance=advance, mode=question.mode,
    )  # fmt: skip
    return said + question.note


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
    asked = _comparison(answer, left, right, constant)
    if asked is None:
        weights = _resolved(answer, [*_side(left, 1), *([] if right is None else _side(right, -1))])
        bound = exact(constant, "constant")
        if len(weights) == 1 and not bound:
            raise RequestError(
                "one group is compared with nothing", "Name a second group, or a constant."
            )
    else:
        weights = _resolved(answer, list(asked.weights))
        bound = exact(asked.constant, "constant")
        if asked.aggregate is not None and aggregate not in (None, asked.aggregate):
            raise RequestError("two aggregates are named", "Name one.")
        aggregate = asked.aggregate or aggregate
    estimates = answer.estimates_of(aggregate)
    _check_mode(answer, estimates, mode)
    low, high = difference(answer, estimates, weights, bound, planned=planned, mode=mode)
    rows, enough = _rows(answer, estimates, weights)
    names = _sides(answer, weights, bound)
    question = Question(
        groups=tuple(answer.groups[i] for i in weights),
        weights=tuple(map(float, weights.values())),
        constant=float(bound),
        left=names[0],
        right=names[1],
        aggregate=estimates.alias,
        function=estimates.function,
        estimate=_estimate(estimates, weights, bound),
        low=low,
        high=high,
        valid=low > 0,
        sentence="",
        confidence=answer.confidence,
        planned=planned,
        private=answer.private,
        mode=mode,
        rows=rows,
        enough=enough,
        note=answer.look_note(estimates),
        table=answer.table,
        version=answer.version,
        ledger=answer.ledger,
        request=answer.request,
        index=[found.alias for found in answer.estimates].index(estimates.alias),
    )
    return replace(question, sentence=_sentence(question))


def _comparison(answer: Answer, left: object, right: object, constant: object) -> Comparison | None:
    """Return the comparison that ``left`` is, when it is one: a group of that name wins."""
    if isinstance(left, Comparison):
        asked = left
    elif right is None and isinstance(left, str):
        try:
            find_group(answer, left)
        except RequestError:
            try:
                asked = read(left)
            except RequestError:
                return None
        else:
            return None
    else:
        return None
    if right is not None or exact(constant, "constant") != 0:
        raise RequestError(
            "a comparison in words holds both sides itself", "Write it as 'a' > 'b' + 100."
        )
    return asked


def _side(side: object, sign: int) -> list[tuple[object, Fraction]]:
    if isinstance(side, Mapping):
        return [(group, sign * exact(weight, "weight")) for group, weight in side.items()]
    return [(side, Fraction(sign))]


def _resolved(answer: Answer, named: list[tuple[Any, Fraction]]) -> dict[int, Fraction]:
    """Return weights by group index, those above 0 first; refuse what is no comparison."""
    if len(named) > MAX_GROUPS:
        raise RequestError(
            f"more than {MAX_GROUPS} groups are compared", "Group by fewer columns, or by bins."
        )
    weights: dict[int, Fraction] = {}
    for name, weight in named:
        index = find_group(answer, name)
        if index in weights:
            raise RequestError(
                f"{label(answer.groups[index])!r} is named twice: no group can be compared with itself",
                "Name each group once, with its whole weight.",
            )
        weights[index] = exact(weight, "weight")
    found = sorted(((i, w) for i, w in weights.items() if w), key=lambda pair: pair[1] < 0)
    if not found:
        raise RequestError("all weights are 0", "Give at least one group another weight.")
    return dict(found)


def _check_mode(answer: Answer, estimates: Estimates, mode: object) -> None:
    if mode not in ("tight", "paper"):
        raise RequestError(f"{mode!r} is no mode", "Use 'tight' or 'paper'.")
    if mode == "paper" and answer.currency == "pure":
        raise RequestError("the paper's intervals are for Gaussian noise", "Open a zcdp session.")
    if estimates.function != "FORMULA":
        return
    if mode == "paper":
        raise RequestError("the paper compares no computed columns", "Leave mode out.")
    if answer.intervals != "simultaneous":
        raise RequestError(
            f"the intervals of {estimates.alias!r} hold each on its own, so they cannot be combined",
            "Ask the statement with intervals='simultaneous'.",
        )


def _estimate(
    estimates: Estimates, weights: Mapping[int, Fraction], constant: Fraction
) -> float | None:
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


def _rows(
    answer: Answer, estimates: Estimates, weights: Mapping[int, Fraction]
) -> tuple[float | None, bool]:
    """Return for AVG the smallest released count, and whether it lies above its own noise."""
    if estimates.function != "AVG" or estimates.count is None or estimates.count_law is None:
        return None, True
    fewest = min(estimates.count[i] for i in weights)
    return fewest, fewest > estimates.count_law.quantile(1 - answer.confidence)


def _sides(answer: Answer, weights: Mapping[int, Fraction], constant: Fraction) -> tuple[str, str]:
    """Return the two sides as shown; in sums, names that could be misread are set off."""
    named = [(answer.groups[i], weight) for i, weight in weights.items()]
    plain = not constant and len(named) <= 2 and all(abs(weight) == 1 for _, weight in named)

    def shown(group: Group) -> str:
        name = label(group)
        if plain or _PLAIN.fullmatch(name):
            return name
        return f"({name})" if len(group) > 1 else f"'{name}'"

    return sides(named, constant, shown, " ")
