"""The budget: how much of it is left, what was spent, and its total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display import foot
from dpnb.display.cards import document_card, words
from dpnb.display.document import Document, Facts, Note, Track, strong
from dpnb.display.document import words as said
from dpnb.formats import part_text

if TYPE_CHECKING:
    from dpnb.results import BudgetStatus

_BOUNDS = (
    "The limit bounds what the answers to this analyst reveal. Answers that others pass on come on "
    "top. The owner's total budget bounds all analysts together."
)


def document(status: BudgetStatus) -> Document:
    """Return a budget as a document."""
    bill, privacy = status.bill, status.privacy
    cap, left = status.cap.level(privacy), status.remaining.level(privacy)
    amounts = words.budget_rows(bill, "spent", "in all" if status.analyst is None else "limit")
    share = part_text(left, cap, left=True)
    whose = "" if status.analyst is None else f" of {status.analyst}"
    spent = said(f"Spent: {part_text(status.spent.level(privacy), cap)}. Left: {share}.")
    promise = "" if status.analyst is None else _BOUNDS
    notes = (foot.in_epsilon(bill), promise, "" if status.kept else words.KERNEL)
    return Document(
        kind=f"Privacy budget{whose}",
        title=said(f"{share} of the budget is left"),
        banners=foot.banners(status.stamp),
        parts=(
            Track(1 - float(left / cap) if cap else 1.0, 0.0, spent),
            Facts(tuple((name, said(strong(amount))) for name, amount in amounts.items())),
            *(Note(said(note)) for note in notes if note),
        ),
    )


BUDGET = document_card(document)
