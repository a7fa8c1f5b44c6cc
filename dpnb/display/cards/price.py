"""A price: margins of error, what it would cost, and what would be left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display.cards import words
from dpnb.display.cards.info_table import as_info_table
from dpnb.formats import figure, loss_text
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import amount_text
from dpnb.results import Bill, InfoTable

if TYPE_CHECKING:
    from dpnb.answers.price import Origin, Price


def price_info_table(price: Price) -> InfoTable:
    """Return the price of a statement as a table."""
    rows = tuple(
        (
            alias,
            "any size" if size is None else f"{size:,} rows",
            "depends on the values" if width is None else f"± {figure(width, width)}",
        )
        for alias, size, width in price.widths
    )
    caption, note = price_words(price.bill, price.refusal)
    notes = [note, *filter(None, [price.counted])]
    if price.bought:
        notes.append(words.bought_sentence(price.bought))
    if price.origin is not None:
        notes.append(_forecast(price.origin, price.privacy, price.delta))
    header = ("aggregate", "group size", "expected margin of error")
    return InfoTable(caption, header, rows, price.stamp, tuple(notes))


def price_words(bill: Bill, refusal: str) -> tuple[str, str]:
    """Return the price as a caption, and a note on what would be left, or why it is refused."""
    spent, remaining, privacy = bill.spent, bill.remaining, bill.privacy
    left = remaining.level(privacy)
    if not refusal:
        after = f"This would leave {words.left_text(remaining - spent, bill)}"
    elif spent.level(privacy) > left:
        after = f"Only {privacy.parameter} {amount_text(left, left=True)} is left"
    elif spent.delta > remaining.delta:
        after = f"Only delta {amount_text(remaining.delta, left=True)} is left"
    else:
        after = f"It would be refused now: {refusal}"
    free = spent.level(privacy) == 0
    cost = "free" if free else loss_text(spent, privacy, bill.delta)
    return f"Price: {cost}", f"{after}. Nothing was spent."


def _forecast(origin: Origin, privacy: PrivacyDefinition, delta: float | None) -> str:
    """Return how much past answers contribute, and what the answer would cost without them."""
    alone = f"Asked alone, it would cost {loss_text(origin.alone, privacy, delta)}."
    if origin.way == "history" and not origin.past:
        return f"This follows from the declared values: no row can match. {alone}"
    past = "One past answer gives" if origin.past == 1 else f"{origin.past} past answers give"
    part = "this" if origin.way == "history" else "a part of this"
    return f"{past} {part}. {alone}"


PRICE = as_info_table(price_info_table)
