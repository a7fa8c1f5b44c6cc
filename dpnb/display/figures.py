"""Results as matplotlib figures."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from dpnb.display.text import EXACT, MAX_ROWS, stamps
from dpnb.errors import RequestError, given, printable
from dpnb.formats import percent
from dpnb.risk.nouns import noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.answers.inference import Inference
    from dpnb.answers.question import Question
    from dpnb.decide.decision import Decision
    from dpnb.discover.discovery import Discovery
    from dpnb.explain.explanation import Explanation
    from dpnb.risk.profile import RiskProfile

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
    ax = row_axes(len(rows), ax)
    for place, row in enumerate(rows):
        value = found.estimate[row]
        if value is not None:
            ax.plot([found.low[row], found.high[row]], [place, place], color="C0", linewidth=2)
            ax.plot(value, place, "o", color="C0", markersize=5)
    told = [found.estimate[row] is not None for row in rows]
    labels = [
        formula_free(answer.group_label(row)) + ("" if known else " (too few rows to tell)")
        for row, known in zip(rows, told, strict=True)
    ]
    name_rows(ax, labels, told)
    ax.set_xlabel(f"{formula_free(found.alias)}, {percent(answer.confidence)} confidence intervals")
    if found.function in ("COUNT", "SUM"):
        ax.axvline(0, color="grey", linewidth=0.8)
    return finished(ax, answer)


def plot_question(question: Question, ax: Axes | None = None) -> Axes:
    """Draw the interval of the difference on a line with 0 marked.

    Parameters
    ----------
    question : Question
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    ax = row_axes(1, ax)
    low, high = question.low, question.high
    # a line to an infinite end ends in an arrow
    reach = 1.5 * max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0) or 1.0
    shown = [max(low, -reach), min(high, reach)]
    ax.plot(shown, [0, 0], color="C0", linewidth=4)
    for end, cut, arrow in ((low, shown[0], "<"), (high, shown[1], ">")):
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


def plot_explanation(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw the intervals of influence with 0 marked, one row for each shown predicate.

    The ranks stand at the right. Rows that tell nothing are grey, dashed, and say so.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    rows = explanation.rows[:MAX_ROWS]
    ax = row_axes(1.5 * len(rows), ax)
    times = 100 if explanation.relative else 1
    for place, row in enumerate(rows):
        silent = explanation.indistinct(row)
        ends = [times * row.influence_low, times * row.influence_high]
        color, style = ("grey", (0, (2, 1))) if silent else ("C0", "-")
        ax.plot(ends, [place, place], color=color, linewidth=3, linestyle=style)
        ranks = f"rank {explanation.rank_text(row)}"
        # beside the axes, not inside them
        ax.annotate(
            ranks, (1, place), (6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", color="grey" if silent else None,
        )  # fmt: skip
    labels = [
        "\n".join(formula_free(text) for text in (row.predicate, explanation.effect_text(row)))
        for row in rows
    ]
    ax.set_yticks(range(len(rows)), labels)
    for tick, row in zip(ax.get_yticklabels(), rows, strict=True):
        if explanation.indistinct(row):
            tick.set_color("grey")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.axvline(0, color=ax.xaxis.label.get_color(), linewidth=0.8)
    unit = formula_free(explanation.influence_unit)
    ax.set_xlabel(f"influence in {unit}, {percent(explanation.confidence)} confidence intervals")
    return finished(ax, explanation)


def plot_risk(profile: RiskProfile, ax: Axes | None = None) -> Axes:
    """Draw how many rows have which share of the largest possible contribution. Exact values.

    Counts are logarithmic, or the many who add nothing would hide the few who stand out.

    Parameters
    ----------
    profile : RiskProfile
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    found = profile.histogram()
    low, high, rows = found["r_low"], found["r_high"], found[noun(profile.ids)]
    width = high[1] - low[1]
    ax = row_axes(6, ax)
    if rows.any():
        ax.set_yscale("log")
    # those who add nothing have a place of their own
    ax.bar(-1.5 * width, rows[0], width=width, color="grey")
    ax.bar(
        low[1:], rows[1:], width=width, align="edge", color="C0", edgecolor="white", linewidth=0.5
    )
    ax.set_ylim(0.5, max(2.0, 2 * float(rows.max())))
    ax.set_xticks([-1.5 * width, 0.25, 0.5, 0.75, 1], ["none", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xlabel("share of the largest possible contribution to the answer")
    ax.set_ylabel(formula_free(noun(profile.ids)))
    ax.spines[["right", "top"]].set_visible(False)
    said = [*stamps(profile.stamp, False), *([] if profile.public else [EXACT])]
    ax.set_title("\n".join(said), loc="left", fontweight="bold")
    return ax


def checked_axes(ax: object) -> Axes:
    """Return the axes to draw on.

    Raises
    ------
    RequestError
    """
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise RequestError(f"ax must be matplotlib axes, got {given(ax)}", "Write .plot(ax=ax).")
    return ax


def row_axes(rows: float, ax: object = None) -> Axes:
    """Return the axes to draw on: those that were passed, or new ones with room for so many rows.

    Raises
    ------
    RequestError
        When something else was passed.
    """
    if ax is not None:
        return checked_axes(ax)
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(6.4, 1.0 + _ROW_INCHES * rows), layout="constrained")
    return ax


def _grouped(side: str) -> str:
    return f"({side})" if " + " in side or " - " in side else side


def formula_free(text: str) -> str:
    """Return a text that matplotlib does not read as a formula."""
    return printable(text).replace("$", r"\$")


def name_rows(ax: Axes, labels: Sequence[str], told: Sequence[bool]) -> None:
    """Write the groups' names beside their rows, the first on top, in grey where there is no estimate."""
    ax.set_yticks(range(len(labels)), labels)
    for tick, known in zip(ax.get_yticklabels(), told, strict=True):
        if not known:
            tick.set_color("grey")
    ax.set_ylim(max(len(labels) - 0.5, 0.5), -0.5)


def finished(
    ax: Axes, result: Answer | Decision | Discovery | Explanation | Inference | Question
) -> Axes:
    """Take away what frames nothing, and put the stamps of a result above it."""
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    # long names at the left leave little room above the axes
    stamped = [textwrap.fill(stamp, 36) for stamp in stamps(result.stamp, result.conditional)]
    if stamped:
        ax.set_title("\n".join(stamped), loc="left", fontweight="bold")
    return ax
