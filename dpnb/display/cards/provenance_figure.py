"""The provenance table as a matplotlib figure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from dpnb.display.cards.provenance_tables import units
from dpnb.display.cards.provenance_words import (
    MAX_COLUMNS,
    TOGETHER,
    cell,
    heads,
    known_of,
    lines,
    more,
    rounds_down,
    share_text,
)
from dpnb.display.figures import checked_axes
from dpnb.display.text import MAX_ROWS
from dpnb.errors import printable
from dpnb.privacy.loss import amount_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.owner.report import Provenance

_DARK = 0.18
"""A number is white if the luminance of its cell is below this."""


def plot_provenance(provenance: Provenance, ax: Axes | None = None) -> Axes:
    """Draw releases by analyst and column: numbers on cells shaded by the share of a limit.

    Parameters
    ----------
    provenance : Provenance
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    columns, table_lines = heads(provenance), lines(provenance)[:MAX_ROWS]
    groups = [[column] for column in columns[:MAX_COLUMNS]]
    names = [f"{_wrapped(group[0].short)}\n({group[0].kind})" for group in groups]
    if len(columns) > MAX_COLUMNS:
        groups.append(columns[MAX_COLUMNS:])
        names.append(f"and {len(groups[-1]):,} more, at most")
    unit = units(provenance)[0]
    texts, shares = [], []
    for line in table_lines:
        losses = [line.known, *(cell(provenance, line.name, group) for group in groups)]
        texts.append(list(map(unit.text, losses)))
        shares.append([min(1.0, unit.share(loss, line.limit)) for loss in losses])
    losses = [provenance.spent, *map(known_of, groups)]
    limits = [
        (group[0].column.limit if len(group) == 1 else None) or provenance.cap for group in groups
    ]
    texts.append(list(map(unit.text, losses)))
    shares.append(
        [
            min(1.0, unit.share(*pair))
            for pair in zip(losses, [provenance.cap, *limits], strict=True)
        ]
    )
    ax = _axes(len(groups) + 1, len(table_lines) + 1) if ax is None else checked_axes(ax)
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    colors = image.to_rgba(np.asarray(shares))
    for at, row in enumerate(texts):
        for place, text in enumerate(row):
            red, green, blue, _ = colors[at, place]
            bright = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
            color = "white" if bright < _DARK else "black"
            ax.text(place, at, text, ha="center", va="center", color=color, fontsize="small")
    ax.xaxis.tick_top()
    ax.set_xticks(range(len(names) + 1), ["total", *map(_label, names)], fontsize="small")
    for tick in ax.get_xticklabels():
        tick.set(rotation=40, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(len(texts)), [*(_label(line.label) for line in table_lines), TOGETHER])
    ax.axhline(len(table_lines) - 0.5, color="grey", linewidth=1)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    spent = share_text(provenance, provenance.spent, provenance.cap)
    some = rounds_down(provenance, provenance.remaining)
    cap = amount_text(provenance.cap.level(provenance.privacy), left=some)
    notes = [
        f"{unit.name}; shaded by the share of each analyst's limit; total: {spent} of the budget of {cap}"
    ]
    ax.set_xlabel("\n".join([*notes, *more(len(provenance.rows), MAX_ROWS, "analysts")]))
    return ax


def _axes(columns: int, rows: int) -> Axes:
    from matplotlib import pyplot as plt

    size = max(6.4, 2.0 + 0.8 * columns), 2.4 + 0.4 * rows
    _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 26, max_lines=2, placeholder=" …")) or name


def _label(text: str) -> str:
    """Return a text that matplotlib does not read as a formula, with its line breaks."""
    return "\n".join(printable(line) for line in text.split("\n")).replace("$", r"\$")
