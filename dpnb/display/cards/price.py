"""A price: margins of error, what it would cost, and what would be left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display import foot
from dpnb.display.cards import document_card, words
from dpnb.display.document import Column, Document, Foot, Note, Table, strong
from dpnb.display.document import words as said
from dpnb.formats import figure, loss_text
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import amount_text
from dpnb.results import Bill

if TYPE_CHECKING:
    from dpnb.answers.price import Origin, Price

KIND = "Price, nothing is spent yet"


def document(price: Price) -> Document:
    """Return the price of a statement as a document."""
    sizes = ["any size" if size is None else f"{size:,} rows" for _, size, _ in price.widths]
    margins = [
        "depends on the values" if width is None else f"± {figure(width, width)}"
        for _, _, width in price.widths
    ]
    table = Table(
        (
            Column("aggregate", tuple(alias for alias, _, _ in price.widths)),
            Column("group size", tuple(sizes)),
            Column("expected margin of error", tuple(margins), end=True),
        )
    )
    caption, note = price_words(price.bill, price.refusal)
    more = [price.counted]
    if price.bought:
        more.append(words.bought_sentence(price.bought))
    if price.origin is not None:
        more.append(_forecast(price.origin, price.privacy, price.delta))
    return Document(
        kind=KIND,
        title=said(caption),
        banners=foot.banners(price.stamp),
        parts=(
            *([table] if price.widths else []),
            Note(said(note)),
            *(Note(said(one)) for one in more if one),
        ),
        foot=price_foot(price.bill),
    )


def price_foot(bill: Bill) -> Foot:
    """Return the foot strip of a price: what is spent so far, and what would be left."""
    before = bill.cap.level(bill.privacy) - bill.remaining.level(bill.privacy)
    spent = amount_text(before)
    return Foot(
        said("Spent so far ", strong(f"{bill.privacy.parameter} {spent}")),
        foot.budget_after(bill),
        said("Looking costs nothing"),
    )


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


PRICE = document_card(document)
