"""Sentences that all results share: privacy cost, budget left, confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpnb.formats import loss_text, part_text
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.results import Bill

KERNEL = "The ledger is in this kernel only. After a restart, the same answers cost budget again."
"""Warning if no file keeps the ledger."""


def left_text(remaining: PrivacyLoss, bill: Bill) -> str:
    """Return what is left of a bill's budget, also in per cent."""
    left, total = remaining.level(bill.privacy), bill.cap.level(bill.privacy)
    share = f" ({part_text(left, total, left=True)})" if total else ""
    beside = f", delta {amount_text(remaining.delta, left=True)}" if remaining.delta else ""
    whole = amount_text(total, left=left > 0)
    return f"{bill.privacy.parameter} {amount_text(left, left=True)} of {whole}{share}{beside}"


def budget_rows(bill: Bill, spent: str, limit: str) -> dict[str, str]:
    """Return what is spent, what is left, and the limit, by name, as amounts without epsilons.

    A limit is rounded like what is left of it: down, and up only if nothing is left, where it is
    compared with what is spent.
    """
    privacy = bill.privacy
    some = bill.remaining.level(privacy) > 0
    return {
        spent: loss_text(bill.spent, privacy, None),
        "left": loss_text(bill.remaining, privacy, None, left=True),
        limit: loss_text(bill.cap, privacy, None, limit=some),
    }


def cost_text(bill: Bill, *, worked_out: bool = False) -> str:
    """Return the privacy cost of a request and what is left, in words."""
    if worked_out:
        cost = "No privacy cost."
    elif bill.spent.level(bill.privacy):
        cost = f"Privacy cost: {loss_text(bill.spent, bill.privacy, bill.delta)}."
    elif bill.stored:
        cost = "This answer was already released: no privacy cost."
    else:
        cost = "No privacy cost: already paid for."
    return f"{cost} Left: {left_text(bill.remaining, bill)}."


def bought_sentence(bought: Sequence[str]) -> str:
    """Return the amounts to which requested epsilons are rounded down, in words."""
    amounts = " and ".join(amount_text(Fraction(epsilon)) for epsilon in bought)
    return f"In a pure session, epsilon is rounded down to a fixed grid, here to {amounts}."


def ledger_note(bill: Bill) -> str:
    """Return a warning after a charge if no file keeps the ledger; else ''."""
    return "" if bill.kept or bill.spent.level(bill.privacy) == 0 else KERNEL


def interval_sentence(sure: str, number: int, *, each: bool = False, credible: bool = False) -> str:
    """Return what confidence or credible intervals guarantee, together or each on its own."""
    kind, chance = ("credible", "probability") if credible else ("confidence", "confidence")
    if number == 1:
        return f"The {kind} interval holds with {sure} {chance}."
    if each:
        return f"Each {kind} interval holds on its own, with {sure} {chance}."
    which = "Both" if number == 2 else f"All {number:,}"
    return f"{which} {kind} intervals hold at once, with {sure} {chance}."


def rest_sentence(hidden: int, what: str = "groups", *, where: str = "to_frame()") -> str:
    """Return how many groups are not shown; '' if all are."""
    name = what.removesuffix("s") if hidden == 1 else what
    return f"{hidden:,} more {name}: see {where}." if hidden > 0 else ""
