"""A price: margins of error, what it would cost, and what would be left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpnb.display import foot
from dpnb.display.cards import document_card, words
from dpnb.display.document import Column, Document, Foot, Note, Part, Table, strong
from dpnb.display.document import words as said
from dpnb.formats import figure, loss_text
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import amount_text
from dpnb.results import Bill

if TYPE_CHECKING:
    from dpnb.answers.price import Origin, Price


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
    more = [price.counted]
    if price.bought:
        more.append(words.bought_sentence(price.bought))
    if price.origin is not None:
        more.append(_forecast(price.origin, price.privacy, price.delta))
    return price_document(price.bill, price.refusal, [table] if price.widths else [], more)


def price_document(
    bill: Bill, refusal: str, parts: Sequence[Part], more: Sequence[str]
) -> Document:
    """Return a price as a document.

    Parameters
    ----------
    bill : Bill
        What the request would cost, and what is left without it.
    refusal : str
        Why it would be refused now; else ''.
    parts : sequence
        What it would tell.
    more : sequence of str
        Sentences below what would be left; empty ones are left out.
    """
    caption, note = price_words(bill, refusal)
    before = bill.cap.level(bill.privacy) - bill.remaining.level(bill.privacy)
    spent = strong(f"{bill.privacy.parameter} {amount_text(before)}")
    return Document(
        kind="Price",
        title=said(caption),
        banners=foot.banners(bill.stamp),
        parts=(*parts, *(Note(said(one)) for one in (note, *more) if one)),
        foot=Foot(said("Spent so far ", spent), foot.budget_after(bill, refused=bool(refusal))),
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
    return f"Price: {cost}", f"{after.removesuffix('.')}. Nothing was spent."


def _forecast(origin: Origin, privacy: PrivacyDefinition, delta: float | None) -> str:
    """Return how much past answers contribute, and what the answer would cost without them."""
    alone = f"Asked alone, it would cost {loss_text(origin.alone, privacy, delta)}."
    if origin.way == "history" and not origin.past:
        return f"This follows from the declared values: no row can match. {alone}"
    past = "One past answer gives" if origin.past == 1 else f"{origin.past} past answers give"
    part = "this" if origin.way == "history" else "a part of this"
    return f"{past} {part}. {alone}"


PRICE = document_card(document)
