"""A bill: what a request cost, what is left, and the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display.cards import words
from dpnb.display.cards.info_table import as_info_table
from dpnb.display.text import CONDITIONAL
from dpnb.results import InfoTable

if TYPE_CHECKING:
    from dpnb.results import Bill


def bill_info_table(bill: Bill) -> InfoTable:
    """Return a bill as a table."""
    rows = tuple(words.budget_rows(bill, "privacy cost", "limit").items())
    warnings = (CONDITIONAL,) if bill.conditional else ()
    kernel = words.ledger_note(bill)
    notes = (*warnings, *((kernel,) if kernel else ()))
    return InfoTable("Bill", ("", "privacy loss"), rows, bill.stamp, notes)


BILL = as_info_table(bill_info_table)
