"""What every card says of its privacy: warnings above, and the budget in its foot strip."""

from __future__ import annotations

from fractions import Fraction

from dpnb.display.document import Banner, Track, Words, strong, words
from dpnb.display.text import CONDITIONAL
from dpnb.formats import loss_text, part_text
from dpnb.privacy.loss import amount_text
from dpnb.private import STAMPS, Stamp
from dpnb.results import Bill


def banners(stamp: Stamp, conditional: bool = False) -> tuple[Banner, ...]:
    """Return the warnings of a result, the same in every rendering."""
    found = [Banner(STAMPS[stamp], generated=stamp == "rehearsal")] if stamp else []
    return (*found, *([Banner(CONDITIONAL)] if conditional else []))


def budget(bill: Bill) -> Track:
    """Return a budget in parts: what was spent before, what this request spent, what is left."""
    total, left = bill.cap.level(bill.privacy), bill.remaining.level(bill.privacy)
    now = min(bill.spent.level(bill.privacy), total - left)
    said = words(strong(part_text(left, total, left=True)), " left")
    return Track(_share(total - left - now, total), _share(now, total), said)


def budget_after(bill: Bill) -> Track:
    """Return a budget if a request with this price is paid: spent, its cost, what would be left."""
    total, left = bill.cap.level(bill.privacy), bill.remaining.level(bill.privacy)
    cost = bill.spent.level(bill.privacy)
    said = words(strong(part_text(left - cost, total, left=True)), " would be left")
    if cost > left:
        said = words(strong(part_text(left, total, left=True)), " left, which is too little")
    return Track(_share(total - left, total), _share(min(cost, left), total), said)


def _share(part: Fraction, total: Fraction) -> float:
    return float(part / total) if total else 0.0


def cost(bill: Bill) -> Words:
    """Return what a request cost, in short: **rho 0.02**, epsilon 0.9."""
    if not bill.spent.level(bill.privacy):
        return words("No privacy cost")
    amount = strong(loss_text(bill.spent, bill.privacy, None))
    if not bill.privacy.counts_rho or bill.delta is None:
        return words("Privacy cost ", amount)
    epsilon = amount_text(bill.spent.epsilon_at(bill.delta, bill.privacy))
    return words("Privacy cost ", amount, f", epsilon {epsilon}")


def in_epsilon(bill: Bill) -> str:
    """Return what was spent and the limit as epsilons, in words; '' where these are counted.

    They are not said as parts of each other: half of the budget is more than half of its epsilon.
    """
    if not bill.privacy.counts_rho or bill.delta is None:
        return ""
    spent, cap = bill.spent, bill.cap
    total = amount_text(cap.epsilon_at(bill.delta, bill.privacy))
    now = amount_text(spent.epsilon_at(bill.delta, bill.privacy)) if spent.rho else "0"
    some = bill.remaining.level(bill.privacy) > 0
    limit = loss_text(cap, bill.privacy, None, limit=some)
    return (
        f"At delta {amount_text(bill.delta)}, {loss_text(spent, bill.privacy, None)} amounts to "
        f"epsilon {now}, and {limit} to epsilon {total}."
    )
