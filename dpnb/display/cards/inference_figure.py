"""Inference from past answers, as matplotlib figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpnb.display.cards.inference_curve import curve, density_at, has_curve
from dpnb.display.figures import finished, formula_free, name_rows, row_axes
from dpnb.display.text import MAX_ROWS
from dpnb.formats import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.inference import Inference


def plot_inference(inference: Inference, ax: Axes | None = None) -> Axes:
    """Draw the first aggregate: the density of a single value, or the intervals of groups.

    Groups that past answers do not determine are labelled as such.

    Parameters
    ----------
    inference : Inference
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    aggregate = inference.aggregates[0]
    if len(inference.groups) == 1 and has_curve(inference, aggregate, 0):
        points = curve(inference, aggregate, 0)
        if points:
            return _density(inference, points, ax)
    return _intervals(inference, ax)


def _density(inference: Inference, points: list[tuple[float, float]], ax: Axes | None) -> Axes:
    aggregate = inference.aggregates[0]
    ax = row_axes(6, ax)
    values, densities = [at for at, _ in points], [density for _, density in points]
    low, high = max(aggregate.low[0], values[0]), min(aggregate.high[0], values[-1])
    within = [low, *(at for at in values if low < at < high), high]
    ax.plot(values, densities, color="C0", linewidth=2)
    shaded = [density_at(points, at) for at in within]
    ax.fill_between(within, shaded, color="C0", alpha=0.3, linewidth=0)
    ax.axvline(float(aggregate.estimate[0] or 0.0), color=ax.xaxis.label.get_color(), linewidth=1)
    ax.set_ylim(bottom=0)
    ax.set_yticks([])
    sure = percent(inference.confidence)
    ax.set_xlabel(
        f"{formula_free(aggregate.alias)} from past answers, {sure} confidence interval shaded"
    )
    return finished(ax, inference)


def _intervals(inference: Inference, ax: Axes | None) -> Axes:
    aggregate, rows = inference.aggregates[0], inference.rows[:MAX_ROWS]
    ax = row_axes(len(rows), ax)
    determined = []
    for place, row in enumerate(rows):
        ends, value = [aggregate.low[row], aggregate.high[row]], aggregate.estimate[row]
        finite = all(map(math.isfinite, ends))
        determined.append(finite and (value is not None or inference.method == "guaranteed"))
        if determined[-1]:
            ax.plot(ends, [place, place], color="C0", linewidth=2)
        if determined[-1] and value is not None:
            ax.plot(value, place, "o", color="C0", markersize=5)
    labels = [
        formula_free(inference.group_label(row)) + ("" if known else f" ({aggregate.text(row)})")
        for row, known in zip(rows, determined, strict=True)
    ]
    name_rows(ax, labels, determined)
    ax.set_xlabel(
        f"{formula_free(aggregate.alias)} from past answers, {percent(inference.confidence)} confidence intervals"
    )
    if aggregate.function.is_total:
        ax.axvline(0, color="grey", linewidth=0.8)
    return finished(ax, inference)
