"""Decisions as matplotlib figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from dpnb.display.cards.decision_line import exact, limit_label, number_line
from dpnb.display.figures import finished, formula_free, name_rows, row_axes
from dpnb.display.text import MAX_ROWS
from dpnb.errors import RequestError
from dpnb.formats import figure, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.decide.decision import Decision
    from dpnb.display.cards.decision_line import NumberLine

_STYLES = {1: ("o", "C0", "surely yes"), 0: ("D", "C1", "unknown"), -1: ("X", "grey", "surely no")}
"""Marker, colour and words of each verdict."""


def plot_decision(made: Decision, ax: Axes | None = None) -> Axes:
    """Draw the number line of the first condition with the groups nearest to its threshold.

    Parameters
    ----------
    made : Decision
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Raises
    ------
    RequestError
        For randomised response and simulations, which have no noisy values.
    """
    if not made.readings:
        raise RequestError(
            "this decision has no noisy values to draw",
            "Decide with mode='certified' (--mode certified).",
        )
    line = number_line(made, made.tests[0], MAX_ROWS)
    ax = row_axes(max(len(line.groups), 2) + 2, ax)
    start, end, _ = line.axis()
    for row, (verdict, place) in enumerate(zip(line.verdicts, line.places, strict=True)):
        marker, color, _ = _STYLES[verdict]
        low, value, high = (min(max(x, start), end) for x in place)
        ax.plot([low, high], [row, row], color=color, linewidth=2)
        ax.plot(value, row, marker, color=color, markersize=7)
    names = [formula_free(made.group_label(group)) for group in line.groups]
    name_rows(ax, names, [True] * len(names))
    _thresholds(ax, line)
    ax.set_xlim(start, end)
    ax.set_xlabel(_label(made, line))
    _legend(ax, made, line)
    return finished(ax, made)


def _thresholds(ax: Axes, line: NumberLine) -> None:
    ink = ax.xaxis.label.get_color()
    ax.axvspan(*sorted((line.limit, line.moved)), color="grey", alpha=0.15, linewidth=0)
    ax.axvline(line.limit, color=ink, linewidth=1.5)
    ax.axvline(line.moved, color=ink, linewidth=1, linestyle="--")


def _label(made: Decision, line: NumberLine) -> str:
    reading = made.readings[line.test.reading]
    name = reading.name
    if reading.about is not None:
        name = f"{name}: sum of distances from {exact(reading.about)}"
    elif line.own:
        name = f"{name}: distance from each group's threshold"
    beyond = line.below + line.above
    more = f" ({beyond:,} groups lie farther away)" if beyond else ""
    return formula_free(f"{name}, {percent(made.confidence)} confidence intervals{more}")


def _legend(ax: Axes, made: Decision, line: NumberLine) -> None:
    """Write a legend of the lines and the markers in use, below the axes."""
    ink = ax.xaxis.label.get_color()
    prefix = "" if len(made.tests) == 1 else f"{formula_free(line.test.text)}: "
    entries = [
        Line2D([], [], marker=marker, color=color, linewidth=2, label=f"{prefix}{words}")
        for verdict, (marker, color, words) in _STYLES.items()
        if verdict in line.verdicts
    ]
    entries.append(Line2D([], [], color=ink, linewidth=1.5, label=limit_label(made, line)))
    if line.moved != line.limit:
        moved_text = f"tested against {figure(line.moved, line.test.u)}"
        entries.append(Line2D([], [], color=ink, linewidth=1, linestyle="--", label=moved_text))
    # borderaxespad is in units of the font size: the distance does not depend on the axes' height
    ax.legend(
        handles=entries, loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4, ncols=2,
        frameon=False,
    )  # fmt: skip
