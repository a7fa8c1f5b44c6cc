"""The budget: its total, what was spent, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.cards import Card, words
from dpnb.display.html import info_table_body
from dpnb.display.text import info_table_text
from dpnb.formats import part_text
from dpnb.results import InfoTable

if TYPE_CHECKING:
    from dpnb.results import BudgetStatus

_BOUNDS = (
    "The limit bounds what the answers to this analyst reveal. Answers that others pass on come on "
    "top. The owner's total budget bounds all analysts together."
)


def budget_info_table(status: BudgetStatus) -> InfoTable:
    """Return the status as a table."""
    limit = "total" if status.analyst is None else "limit"
    amounts = words.budget_rows(status.bill, "spent", limit)
    rows = tuple((word, amounts[word]) for word in (limit, "spent", "left"))
    whose = "" if status.analyst is None else f" of {status.analyst}"
    promise = () if status.analyst is None else (_BOUNDS,)
    note = () if status.kept else (words.KERNEL,)
    header = ("", "privacy loss")
    return InfoTable(f"Privacy budget{whose}", header, rows, status.stamp, (*promise, *note))


def budget_text(status: BudgetStatus) -> str:
    """Return the budget for a terminal."""
    return info_table_text(budget_info_table(status))


def budget_html(status: BudgetStatus) -> str:
    """Return the budget as a labelled bar above a table."""
    cap, spent = status.cap.level(status.privacy), status.spent.level(status.privacy)
    share = min(1.0, float(spent / cap)) if cap else 1.0
    left = words.left_text(status.remaining, status.bill)
    bar = elements.meter(share) + elements.strong(f"Spent: {part_text(spent, cap)}. Left: {left}.")
    body = info_table_body(budget_info_table(status), above=bar)
    return elements.framed(f'<div class="dpnb-body">{body}</div>')


BUDGET = Card(budget_text, budget_html)
