"""Is one group above another, or may the noise explain what is seen? Free: released values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dpnb.answers.intervals import mean_around_zero, pair_half_width
from dpnb.answers.numbers import figure, percent
from dpnb.errors import RequestError
from dpnb.kinds import nearest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.answers.estimates import Estimates


@dataclass(frozen=True, slots=True)
class Question:
    """Whether ``left`` is above ``right`` in one aggregate, with the interval of the difference.

    Attributes
    ----------
    left, right : str
        The two groups as shown.
    aggregate : str
        Alias of the compared aggregate.
    low, high : float
        Interval of exact(left) - exact(right), in units of the aggregate.
    valid : bool
        True when the whole interval is above 0: noise is an unlikely reason.
    sentence : str
        The verdict in words.
    confidence : float
        Level of the interval.
    planned : bool
        True when the pair was fixed before the answer was seen; otherwise the interval also holds
        for a pair picked because of what was seen.
    """

    left: str
    right: str
    aggregate: str
    low: float
    high: float
    valid: bool
    sentence: str
    confidence: float
    planned: bool
    private: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plain data (JSON)."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Question:
        """Build a question from :meth:`to_dict`."""
        return cls(**data)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        from dpnb.display.html import question_html

        return question_html(self)

    def to_html(self, path: str) -> None:
        """Write the question as a page that needs nothing else."""
        from dpnb.display.html import write_page

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
    wanted = name if isinstance(name, tuple) else (name,)
    for index, group in enumerate(answer.groups):
        if tuple(map(str, group)) == tuple(map(str, wanted)):
            return index
    labels = [label(group) for group in answer.groups]
    raise RequestError(
        f"{label(tuple(map(str, wanted)))!r} is no group of this answer",
        nearest(label(tuple(map(str, wanted))), labels, quote=True),
    )


def pair_alpha(answer: Answer, estimates: Estimates, *, planned: bool) -> float:
    """Return the failure probability that one question may use.

    A question made up after seeing the answers may also have picked its aggregate.
    """
    return estimates.alpha if planned else estimates.alpha / len(answer.estimates)


def difference(
    answer: Answer, estimates: Estimates, left: int, right: int, *, planned: bool
) -> tuple[float, float]:
    """Return the interval of exact(left) - exact(right) (spec/dpxplain.md 3.3).

    COUNT and SUM: the noise of a difference. AVG: one interval for each group, at alpha / 2 each for
    a planned pair and at alpha / groups otherwise, combined by their ends.
    """
    alpha = pair_alpha(answer, estimates, planned=planned)
    groups = len(answer.groups)
    total_law, count_law = estimates.total_law, estimates.count_law
    if estimates.total is not None and estimates.count is not None:
        assert total_law is not None and count_law is not None  # noqa: S101, PT018
        share = alpha / 2 if planned else alpha / groups
        ends = [
            mean_around_zero(
                estimates.total[i], estimates.count[i], total_law, count_law,
                estimates.reach, share,
            )
            for i in (left, right)
        ]  # fmt: skip
        return ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]
    values = estimates.count if estimates.total is None else estimates.total
    law = count_law if estimates.total is None else total_law
    assert values is not None and law is not None  # noqa: S101, PT018
    half = pair_half_width(law, alpha, groups, planned=planned)
    centre = values[left] - values[right]
    return centre - half, centre + half


def verdict(
    left: str, right: str, aggregate: str, low: float, high: float, confidence: float
) -> str:
    """Return the verdict in words."""
    half = (high - low) / 2
    between = f"{percent(confidence)} interval {figure(low, half)} to {figure(high, half)}"
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


def compare(
    answer: Answer, left: object, right: object, aggregate: str | None, *, planned: bool
) -> Question:
    """Build the question; see :meth:`Answer.compare`."""
    first, second = find_group(answer, left), find_group(answer, right)
    if first == second:
        raise RequestError("a group cannot be compared with itself", "Name two groups.")
    estimates = answer.estimates_of(aggregate)
    low, high = difference(answer, estimates, first, second, planned=planned)
    names = label(answer.groups[first]), label(answer.groups[second])
    return Question(
        left=names[0],
        right=names[1],
        aggregate=estimates.alias,
        low=low,
        high=high,
        valid=low > 0,
        sentence=verdict(*names, estimates.alias, low, high, answer.confidence)
        + answer.look_note(estimates),
        confidence=answer.confidence,
        planned=planned,
        private=answer.private,
    )
