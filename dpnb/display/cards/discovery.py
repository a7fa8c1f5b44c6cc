"""Discovered values as text and as HTML, and a figure of the probability that a value is found."""

from __future__ import annotations

from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.cards import Card, words
from dpnb.display.cards.info_table import as_info_table
from dpnb.display.cards.price import price_words
from dpnb.display.figures import finished, formula_free, row_axes
from dpnb.display.html import info_table_body
from dpnb.display.text import CONDITIONAL, MAX_ROWS, info_table_text
from dpnb.engines.scans import MOST_LETTERS
from dpnb.formats import percent
from dpnb.privacy.loss import plain_context
from dpnb.results import InfoTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.discover.discovery import Detection, Discovery, DiscoveryPrice

_THEN = (
    "To group by these values, declare the column (.category()) instead of listing it as undeclared, and open "
    "the ledger with new_version=True (--new-version)."
)
_POINTS = 200


def _values(found: Discovery) -> InfoTable:
    """Return the values as a table, with their sentences as notes."""
    values = found.keys[:MAX_ROWS]
    rows = tuple((f"{place:,}", value) for place, value in enumerate(values, start=1))
    more = words.rest_sentence(len(found.keys) - MAX_ROWS, "values")
    notes = tuple(sentence for sentence in (more, *discovery_sentences(found)) if sentence)
    return InfoTable(title(found), ("", found.column), rows, found.stamp, notes)


def discovery_sentences(found: Discovery) -> list[str]:
    """Return the sentences about a discovery, the same in every rendering."""
    sure, low, high = percent(found.confidence), found.hidden_low, found.hidden_high
    some = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    hidden = f"Hidden values: {some} (with {sure} confidence)."
    cost = words.cost_text(found.bill)
    note = words.ledger_note(found.bill)
    order = ["The values that seem most common come first."] if len(found.keys) > 1 else []
    then = [_THEN] if found.keys else []
    return [
        *order,
        hidden,
        detection_sentence(found.detection),
        *then,
        cost,
        *([note] if note else []),
    ]


def title(found: Discovery) -> str:
    """Return the number of values found, in words."""
    many = {0: "No value", 1: "1 value"}.get(len(found.keys), f"{len(found.keys):,} values")
    return f"{many} of {found.column} found in {found.table}"


def _counted(detection: Detection, count: int) -> str:
    """Return a value's count in words: its rows, or the different ids that count for it."""
    if not detection.ids:
        return f"with {count:,} {'row' if count == 1 else 'rows'}"
    if count == 1:
        return f"counted for a single {detection.ids}"
    return f"counted for {count:,} different {detection.ids}"


def detection_sentence(detection: Detection) -> str:
    """Return which values are found with which probability, in words."""
    # rounded up: the text promises an upper bound
    up, delta = plain_context(6, ROUND_UP), detection.threshold.delta
    alone = f"{up.divide(Decimal(delta.numerator), Decimal(delta.denominator)):.6g}"
    sentences = (
        f"A value {_counted(detection, detection.surely)} is found with a probability of at least "
        f"{percent(detection.confidence)}. A value {_counted(detection, 1)} is found with a probability of at "
        f"most {alone}."
    )
    long = f"texts of more than {MOST_LETTERS} letters"
    if not detection.ids:
        return f"{sentences} {long.capitalize()} are neither found nor included in the number of hidden values."
    times = "one value" if detection.groups == 1 else f"{detection.groups:,} values"
    return (
        f"{sentences} Each {detection.ids} counts for at most {times}, chosen in secret. Values for which none "
        f"counts, and {long}, are neither found nor included in the number of hidden values."
    )


def discovery_text(found: Discovery) -> str:
    """Return the values for a terminal, with sentences below."""
    above = [f"{CONDITIONAL}\n"] if found.conditional else []
    return "\n".join([*above, info_table_text(_values(found))])


def discovery_html(found: Discovery) -> str:
    """Return the values as an HTML table, with sentences below."""
    return elements.framed(
        f'<div class="dpnb-body">{info_table_body(_values(found), found.conditional)}</div>'
    )


def plot_discovery(found: Discovery, ax: Axes | None = None) -> Axes:
    """Draw the probability that a value is found against its number of rows, or of ids."""
    import numpy as np

    detection, sure = found.detection, found.detection.surely
    threshold = detection.threshold
    ax = row_axes(8, ax)
    counts = np.unique(np.linspace(0, 1.5 * sure, _POINTS).round())
    ax.plot(counts, [threshold.shown(int(count)) for count in counts], color="C0")
    ax.axvline(sure, color="grey", linewidth=0.8)
    ax.annotate(
        f"{sure:,}: at least {percent(detection.confidence)}", (sure, 0.5), xytext=(4, 0),
        textcoords="offset points",
    )  # fmt: skip
    ax.set_ylim(0, 1.02)
    who = (
        f"different {formula_free(detection.ids)} that count for a value"
        if detection.ids
        else "rows of a value"
    )
    ax.set_xlabel(who)
    ax.set_ylabel(f"probability that a value of {formula_free(found.column)} is found")
    return finished(ax, found)


def price_info_table(price: DiscoveryPrice) -> InfoTable:
    """Return the price of a discovery as a table."""
    sure = percent(price.detection.confidence)
    rows = (
        (f"count found with {sure} probability", f"{price.detection.surely:,}"),
        ("margin of error of the number of hidden values", f"± {price.hidden:,}"),
    )
    caption, note = price_words(price.bill, price.refusal)
    notes = (note, detection_sentence(price.detection))
    return InfoTable(caption, ("", "expected"), rows, price.stamp, notes)


DISCOVERY = Card(discovery_text, discovery_html, plot=plot_discovery)
PRICE = as_info_table(price_info_table)
