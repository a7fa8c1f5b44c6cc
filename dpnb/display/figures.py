"""Results as matplotlib figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.answers.numbers import percent
from dpnb.display.text import MAX_ROWS, NOT_PRIVATE, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.answers.question import Question

_ROW_INCHES = 0.34


def plot_answer(answer: Answer, ax: Axes | None = None) -> Axes:
    """Draw the intervals of the first aggregate, one row for each shown group.

    Groups with too few rows to tell say so beside their name and have no interval.

    Parameters
    ----------
    answer : Answer
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    found = answer.estimates_of()
    rows = answer.rows[:MAX_ROWS]
    ax = ax or _axes(len(rows))
    for place, row in enumerate(rows):
        value = found.estimate[row]
        if value is not None:
            ax.plot([found.low[row], found.high[row]], [place, place], color="C0", linewidth=2)
            ax.plot(value, place, "o", color="C0", markersize=5)
    told = [found.estimate[row] is not None for row in rows]
    labels = [
        _label(answer.group_label(row)) + ("" if known else " (too few rows to tell)")
        for row, known in zip(rows, told, strict=True)
    ]
    ax.set_yticks(range(len(rows)), labels)
    for tick, known in zip(ax.get_yticklabels(), told, strict=True):
        if not known:
            tick.set_color("grey")
    ax.set_ylim(max(len(rows) - 0.5, 0.5), -0.5)
    ax.set_xlabel(f"{_label(found.alias)}, {percent(answer.confidence)} intervals")
    if found.function != "AVG":
        ax.axvline(0, color="grey", linewidth=0.8)
    return _finished(ax, private=answer.private)


def plot_question(question: Question, ax: Axes | None = None) -> Axes:
    """Draw the interval of the difference on a line with 0 marked.

    Parameters
    ----------
    question : Question
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    ax = ax or _axes(1)
    ax.plot([question.low, question.high], [0, 0], color="C0", linewidth=4)
    ax.axvline(0, color=ax.xaxis.label.get_color(), linewidth=1)
    ax.set_yticks([])
    ax.set_ylim(-1, 1)
    ax.set_xlabel(
        f"{_label(question.left)} minus {_label(question.right)} in {_label(question.aggregate)}, "
        f"{percent(question.confidence)} interval"
    )
    return _finished(ax, private=question.private)


def _axes(rows: int) -> Axes:
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(6.4, 1.0 + _ROW_INCHES * rows), layout="constrained")
    return ax


def _label(text: str) -> str:
    """Return a text that matplotlib does not read as a formula."""
    return plain(text).replace("$", r"\$")


def _finished(ax: Axes, *, private: bool) -> Axes:
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if not private:
        ax.set_title(NOT_PRIVATE, loc="left", fontweight="bold")
    return ax
