"""Results as matplotlib figures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from dpnb.display.text import stamps
from dpnb.errors import RequestError, given, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.answers.inference import Inference
    from dpnb.answers.question import Question
    from dpnb.decide.decision import Decision
    from dpnb.discover.discovery import Discovery
    from dpnb.explain.explanation import Explanation

_ROW_INCHES = 0.34


def checked_axes(ax: object) -> Axes:
    """Return the axes to draw on.

    Raises
    ------
    RequestError
        If they are not matplotlib axes.
    """
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise RequestError(f"ax must be matplotlib axes, got {given(ax)}", "Write .plot(ax=ax).")
    return ax


def row_axes(rows: float, ax: object = None) -> Axes:
    """Return the axes to draw on: the given ones, or new ones with room for ``rows`` lines.

    Raises
    ------
    RequestError
        If something else is given.
    """
    if ax is not None:
        return checked_axes(ax)
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(6.4, 1.0 + _ROW_INCHES * rows), layout="constrained")
    return ax


def formula_free(text: str) -> str:
    """Return a text that matplotlib does not read as a formula."""
    return printable(text).replace("$", r"\$")


def name_rows(ax: Axes, labels: Sequence[str], told: Sequence[bool]) -> None:
    """Write the groups' names beside their lines, the first on top, grey if ``told`` is false."""
    ax.set_yticks(range(len(labels)), labels)
    for tick, known in zip(ax.get_yticklabels(), told, strict=True):
        if not known:
            tick.set_color("grey")
    ax.set_ylim(max(len(labels) - 0.5, 0.5), -0.5)


def finished(
    ax: Axes, result: Answer | Decision | Discovery | Explanation | Inference | Question
) -> Axes:
    """Remove needless spines and ticks, and write the stamps of a result above the axes."""
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    # long names at the left leave little room above the axes
    stamped = [textwrap.fill(stamp, 36) for stamp in stamps(result.stamp, result.conditional)]
    if stamped:
        ax.set_title("\n".join(stamped), loc="left", fontweight="bold")
    return ax
