"""A price: margins of error, what it would cost, and what would be left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.answers.words import bought_sentence, left_text
from dpnb.display.cards.listing import as_listing
from dpnb.formats import figure, loss_text
from dpnb.privacy.loss import amount_text, unit
from dpnb.results import Bill, Listing

if TYPE_CHECKING:
    from dpnb.answers.listing import Price


def price_listing(price: Price) -> Listing:
    """Return the price of a statement as a table."""
    rows = tuple(
        (
            alias,
            "any size" if size is None else f"{size:,} rows",
            "depends on the values" if width is None else f"± {figure(width, width)}",
        )
        for alias, size, width in price.widths
    )
    caption, note = price_words(price.bill, affordable=price.affordable)
    notes = [note]
    if price.bought:
        notes.append(bought_sentence(price.bought))
    if price.origin is not None:
        notes.append(price.origin.forecast(price.currency, price.delta))
    header = ("aggregate", "group size", "expected margin of error")
    return Listing(caption, header, rows, price.stamp, tuple(notes))


def price_words(bill: Bill, *, affordable: bool) -> tuple[str, str]:
    """Return a price, and what it would leave."""
    spent, remaining, currency = bill.spent, bill.remaining, bill.currency
    left = remaining.level(currency)
    if affordable:
        after = f"This would leave {left_text(remaining - spent, bill)}"
    elif spent.level(currency) <= left:
        after = f"Only delta {amount_text(remaining.delta, left=True)} is left"
    else:
        after = f"Only {unit(currency)} {amount_text(left, left=True)} is left"
    free = spent.level(currency) == 0
    cost = "free" if free else loss_text(spent, currency, bill.delta)
    return f"Price: {cost}", f"{after}. Nothing was spent."


PRICE = as_listing(price_listing)
