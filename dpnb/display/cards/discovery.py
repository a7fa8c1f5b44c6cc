"""Discovered values as text, as HTML, and how likely a value was to be found as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.answers.words import rest_sentence
from dpnb.display import elements
from dpnb.display.cards import Card
from dpnb.display.cards.listing import as_listing
from dpnb.display.cards.price import price_words
from dpnb.display.figures import finished, formula_free, row_axes
from dpnb.display.html import listing_body
from dpnb.display.text import CONDITIONAL, MAX_ROWS, listing_text
from dpnb.formats import percent
from dpnb.results import Listing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.discover.discovery import Discovery, DiscoveryPrice

_POINTS = 200


def _listing(found: Discovery) -> Listing:
    """Return the values as a table, with what is said about them."""
    shown = found.keys[:MAX_ROWS]
    rows = tuple((f"{place:,}", value) for place, value in enumerate(shown, start=1))
    more = rest_sentence(len(found.keys) - MAX_ROWS, "values")
    notes = tuple(one for one in (more, *found.sentences()) if one)
    return Listing(found.title, ("", found.column), rows, found.stamp, notes)


def discovery_text(found: Discovery) -> str:
    """Return the values for a terminal, and what is said about them."""
    above = [f"{CONDITIONAL}\n"] if found.conditional else []
    return "\n".join([*above, listing_text(_listing(found))])


def discovery_html(found: Discovery) -> str:
    """Return the values as a table, and what is said about them below."""
    return elements.framed(
        f'<div class="dpnb-body">{listing_body(_listing(found), found.conditional)}</div>'
    )


def plot_discovery(found: Discovery, ax: Axes | None = None) -> Axes:
    """Draw the probability that a value is shown against the number of rows, or ids, that have it."""
    import numpy as np

    law, sure = found.law, found.law.surely
    threshold = law.threshold
    ax = row_axes(8, ax)
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
    ax.set_ylabel(f"probability that a value of {formula_free(found.column)} is found")
    return finished(ax, found)


def price_listing(price: DiscoveryPrice) -> Listing:
    """Return the price of a discovery as a table."""
    sure = percent(price.law.confidence)
    rows = (
        (f"count found with {sure} probability", f"{price.law.surely:,}"),
        ("margin of error of the number of hidden values", f"± {price.hidden:,}"),
    )
    caption, note = price_words(price.bill, affordable=price.affordable)
    said = (note, price.law.sentence())
    return Listing(caption, ("", "expected"), rows, price.stamp, said)


DISCOVERY = Card(discovery_text, discovery_html, plot=plot_discovery)
PRICE = as_listing(price_listing)
