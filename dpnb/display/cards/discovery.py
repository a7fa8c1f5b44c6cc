"""Discovered values as text and as HTML, and a figure of the probability that a value is found."""

from __future__ import annotations

from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING

from dpnb.display import foot
from dpnb.display.cards import document_card, words
from dpnb.display.cards.price import price_document
from dpnb.display.document import Column, Document, Facts, Finding, Foot, Note, Table, strong
from dpnb.display.document import words as said
from dpnb.display.figures import finished, formula_free, row_axes
from dpnb.display.text import MAX_ROWS
from dpnb.engines.scans import MOST_LETTERS
from dpnb.formats import percent
from dpnb.privacy.loss import plain_context

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.discover.discovery import Detection, Discovery, DiscoveryPrice

_THEN = (
    "To group by these values, declare the column (.category()) instead of listing it as undeclared, and open "
    "the ledger with new_version=True (--new-version)."
)
_POINTS = 200


def document(found: Discovery) -> Document:
    """Return discovered values as a document."""
    values = found.keys[:MAX_ROWS]
    numbers = tuple(f"{place:,}" for place in range(1, len(values) + 1))
    more = words.rest_sentence(len(found.keys) - MAX_ROWS, "values")
    order = "The values that seem most common come first." if len(found.keys) > 1 else ""
    notes = tuple(Note(said(one)) for one in (order, more, _THEN if found.keys else "") if one)
    kernel = words.ledger_note(found.bill)
    left = f"Left: {words.left_text(found.bill.remaining, found.bill)}."
    return Document(
        kind=f"Values found privately in {found.table}",
        title=said(title(found)),
        banners=foot.banners(found.stamp, found.conditional),
        findings=(Finding(said(hidden_sentence(found)), certain=False),),
        parts=(
            *([Table((Column("", numbers), Column(found.column, values)))] if values else []),
            *notes,
        ),
        foot=Foot(
            foot.cost(found.bill),
            foot.budget(found.bill),
            said("The interval holds with ", strong(f"{percent(found.confidence)} confidence")),
        ),
        fine=tuple(said(one) for one in (detection_sentence(found.detection), left, kernel) if one),
    )


def hidden_sentence(found: Discovery) -> str:
    """Return how many values are hidden, in words."""
    low, high = found.hidden_low, found.hidden_high
    some = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    return f"Hidden values: {some}."


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


def discovery_price(price: DiscoveryPrice) -> Document:
    """Return the price of a discovery as a document."""
    sure = percent(price.detection.confidence)
    facts = (
        (f"count found with {sure} probability", said(strong(f"{price.detection.surely:,}"))),
        ("margin of error of the number of hidden values", said(strong(f"± {price.hidden:,}"))),
    )
    more = [detection_sentence(price.detection)]
    return price_document(price.bill, price.refusal, [Facts(facts)], more)


DISCOVERY = document_card(document, plot_discovery)
PRICE = document_card(discovery_price)
