"""A question: its verdict, and the confidence interval of the difference with 0 marked."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.cards import Card
from dpnb.display.figures import finished, formula_free, row_axes
from dpnb.display.marks import difference_mark
from dpnb.display.text import stamps
from dpnb.errors import printable
from dpnb.formats import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.question import Question


def question_text(question: Question) -> str:
    """Return a question's verdict for a terminal."""
    return " ".join([*stamps(question.stamp, question.conditional), printable(question.sentence)])


def question_html(question: Question) -> str:
    """Return a question as HTML: its verdict above the confidence interval of the difference."""
    stamps = elements.stamped(question.stamp, question.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamps}{verdict(question)}</div>')


def verdict(question: Question) -> str:
    """Return a question's verdict above its confidence interval, without styles and scripts."""
    conclusion = elements.strong(question.sentence)
    drawing = (
        '<div class="dpnb-line" style="max-width:520px">'
        f"{difference_mark(question.low, question.high)}"
        '<div class="dpnb-ends" style="display:flex;justify-content:space-between">'
        f"<span>{elements.text(question.right)} is higher</span> <span>0</span> "
        f"<span>{elements.text(question.left)} is higher</span></div></div>"
    )
    return conclusion + drawing


def plot_question(question: Question, ax: Axes | None = None) -> Axes:
    """Draw the confidence interval of the difference on a line with 0 marked.

    Parameters
    ----------
    question : Question
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    ax = row_axes(1, ax)
    low, high = question.low, question.high
    # an infinite end is drawn as an arrow
    reach = 1.5 * max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0) or 1.0
    interval = [max(low, -reach), min(high, reach)]
    ax.plot(interval, [0, 0], color="C0", linewidth=4)
    for end, cut, arrow in ((low, interval[0], "<"), (high, interval[1], ">")):
        if not math.isfinite(end):
            ax.plot(cut, 0, arrow, color="C0", markersize=12)
    ax.axvline(0, color=ax.xaxis.label.get_color(), linewidth=1)
    ax.set_yticks([])
    ax.set_ylim(-1, 1)
    if not math.isfinite(low) and not math.isfinite(high):
        ax.set_xticks([0])
    sides = f"{question.left} minus {_grouped(question.right)}"
    lines = textwrap.wrap(printable(sides), 70, max_lines=2, placeholder=" ...")
    lines[-1] += printable(
        f" in {question.aggregate}, {percent(question.confidence)} confidence interval"
    )
    ax.set_xlabel("\n".join(map(formula_free, lines)))
    return finished(ax, question)


def _grouped(side: str) -> str:
    return f"({side})" if " + " in side or " - " in side else side


QUESTION = Card(question_text, question_html, plot=plot_question)
