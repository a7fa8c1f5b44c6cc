"""A bill: what a request cost, what is left, and the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display import foot
from dpnb.display.cards import document_card, words
from dpnb.display.document import Document, Facts, Note, strong
from dpnb.display.document import words as said
from dpnb.formats import loss_text

if TYPE_CHECKING:
    from dpnb.results import Bill


def document(bill: Bill) -> Document:
    """Return a bill as a document."""
    amounts = words.budget_rows(bill, "privacy cost", "limit")
    charged = bill.spent.level(bill.privacy) > 0
    cost = f"This cost {loss_text(bill.spent, bill.privacy, None)}" if charged else "This was free"
    notes = (foot.in_epsilon(bill), words.ledger_note(bill))
    return Document(
        kind="Bill",
        title=said(cost),
        banners=foot.banners(bill.stamp, bill.conditional),
        parts=(
            foot.budget(bill),
            Facts(tuple((name, said(strong(amount))) for name, amount in amounts.items())),
            *(Note(said(note)) for note in notes if note),
        ),
    )


BILL = document_card(document)
