"""Discovered values as text, as HTML, and how likely a value was to be found as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.answers.listing import Listing
from dpnb.answers.numbers import percent
from dpnb.display import parts
from dpnb.display.figures import finished, formula_free, row_axes
from dpnb.display.html import listing_table
from dpnb.display.text import CONDITIONAL, MAX_ROWS, listing_text, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpnb.keys.discovery import Discovery, DiscoveryPrice

_POINTS = 200


def _listing(found: Discovery) -> Listing:
    """Return the values as a table, without what is said about them."""
    shown = found.keys[:MAX_ROWS]
    rows = tuple((f"{place:,}", value) for place, value in enumerate(shown, start=1))
    return Listing(found.title, ("", found.column), rows, found.stamp)


def _sentences(found: Discovery) -> list[str]:
    more = len(found.keys) - MAX_ROWS
    above = [f"{more:,} more values: see to_frame()."] if more > 0 else []
    return [*above, *found.sentences()]


def discovery_text(found: Discovery) -> str:
    """Return the values for a terminal, and what is said about them."""
    return _text(_listing(found), found.conditional, _sentences(found))


def discovery_html(found: Discovery) -> str:
    """Return the values as a table, and what is said about them below."""
    return _html(_listing(found), found.conditional, _sentences(found))


def price_text(price: DiscoveryPrice) -> str:
    """Return a price for a terminal, and which values would be shown."""
    return _text(price.listing(), False, [price.law.sentence()])


def price_html(price: DiscoveryPrice) -> str:
    """Return a price as a table, and which values would be shown."""
    return _html(price.listing(), False, [price.law.sentence()])


def _text(listing: Listing, conditional: bool, said: Sequence[str]) -> str:
    above = [f"{CONDITIONAL}\n"] if conditional else []
    return "\n".join([*above, listing_text(listing), "", *map(plain, said)])


def _html(listing: Listing, conditional: bool, said: Sequence[str]) -> str:
    marks = parts.stamped(listing.stamp, conditional)
    below = (
        f'<p class="dpnb-notes" style="max-width:46rem">{"<br>".join(map(parts.text, said))}</p>'
    )
    return parts.framed(f'<div class="dpnb-body">{marks}{listing_table(listing)}{below}</div>')


def plot_discovery(found: Discovery, ax: Axes | None = None) -> Axes:
    """Draw the probability that a value is shown against the number of rows, or ids, that have it."""
    import numpy as np

    law, sure = found.law, found.law.surely
    threshold = law.threshold
    ax = ax or row_axes(8)
    counts = np.unique(np.linspace(0, 1.5 * sure, _POINTS).round())
    ax.plot(counts, [threshold.shown(int(count)) for count in counts], color="C0")
    ax.axvline(sure, color="grey", linewidth=0.8)
    ax.annotate(
        f"{sure:,}: at least {percent(law.confidence)}", (sure, 0.5), xytext=(4, 0),
        textcoords="offset points",
    )  # fmt: skip
    ax.set_ylim(0, 1.02)
    who = (
        f"different {formula_free(law.ids)} that count for a value"
        if law.ids
        else "rows of a value"
    )
    ax.set_xlabel(who)
    ax.set_ylabel(f"chance that a value of {formula_free(found.column)} is shown")
    return finished(ax, found)
