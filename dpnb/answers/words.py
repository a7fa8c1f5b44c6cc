"""What all results say alike: what was paid, what is left, and what intervals promise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpnb.answers.numbers import loss_text
from dpnb.privacy.loss import Currency, PrivacyLoss, amount_text, unit

KERNEL = "Kept in this kernel only; running again after a restart spends again."
"""Said of what was paid for where no file keeps the ledger."""


def left_text(remaining: PrivacyLoss, cap: PrivacyLoss, currency: Currency) -> str:
    """Return what is left of a cap."""
    level = amount_text(remaining.level(currency), left=True)
    beside = f", delta {amount_text(remaining.delta, left=True)}" if remaining.delta else ""
    return f"{unit(currency)} {level} of {amount_text(cap.level(currency))}{beside}"


def cost_text(
    spent: PrivacyLoss,
    remaining: PrivacyLoss,
    cap: PrivacyLoss,
    currency: Currency,
    delta: float | None,
    *,
    stored: bool,
    worked_out: bool = False,
) -> str:
    """Return what a request cost and what is left, in words."""
    free = spent.level(currency) == 0
    if worked_out:
        cost = "No cost"
    elif free and stored:
        cost = "Answered from the ledger at no cost"
    elif free:
        cost = "No cost: bought before, or about rows of which less was told so far"
    else:
        cost = f"Cost {loss_text(spent, currency, delta)}"
    return f"{cost}; left {left_text(remaining, cap, currency)}."


def bought_sentence(bought: Sequence[str]) -> str:
    """Return to what the epsilons that were asked for are rounded down."""
    amounts = " and ".join(amount_text(Fraction(epsilon)) for epsilon in bought)
    return f"In a pure session, epsilon is rounded down to a fixed grid, here to {amounts}."


def ledger_note(spent: PrivacyLoss, currency: Currency, *, kept: bool) -> str:
    """Return where the ledger lives, when that matters for what was just spent."""
    return "" if kept or spent.level(currency) == 0 else KERNEL


def interval_sentence(sure: str, number: int, *, each: bool = False) -> str:
    """Return what so many intervals promise, together or each on its own."""
    if number == 1:
        return f"With {sure} confidence the interval contains the exact value."
    if each:
        return f"With {sure} confidence, each on its own, an interval contains its exact value."
    which = "both" if number == 2 else f"all {number:,}"
    return f"With {sure} confidence {which} intervals contain their exact values."


def rest_sentence(hidden: int, what: str = "rows", *, where: str = "to_frame()") -> str:
    """Return how many rows are not shown; empty when all are."""
    name = what.removesuffix("s") if hidden == 1 else what
    return f"{hidden:,} more {name}: see {where}." if hidden > 0 else ""
