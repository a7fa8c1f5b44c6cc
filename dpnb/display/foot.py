"""What every card says of its privacy: warnings above, and the budget in its foot strip."""

from __future__ import annotations

from fractions import Fraction

from dpnb.display.document import Banner, Track, Words, strong, words
from dpnb.display.text import stamps
from dpnb.formats import loss_text, part_text
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.private import STAMPS, Stamp
from dpnb.results import Bill


def banners(stamp: Stamp, conditional: bool = False) -> tuple[Banner, ...]:
    """Return the warnings of a result, the same in every rendering."""
    generated = STAMPS["rehearsal"]
    return tuple(Banner(mark, generated=mark == generated) for mark in stamps(stamp, conditional))


def budget(bill: Bill) -> Track:
    """Return a budget in parts: what was spent before, what this request spent, what is left."""
    total, left = bill.cap.level(bill.privacy), bill.remaining.level(bill.privacy)
    now = min(bill.spent.level(bill.privacy), total - left)
    said = words(strong(part_text(left, total, left=True)), " left")
    return Track(_share(total - left - now, total), _share(now, total), said)


def budget_after(bill: Bill, *, refused: bool) -> Track:
    """Return a budget if a request with this price is paid: spent, its cost, what would be left.

    If it would be refused, nothing would be spent.
    """
    total, left = bill.cap.level(bill.privacy), bill.remaining.level(bill.privacy)
    cost = bill.spent.level(bill.privacy)
    if refused:
        rest = " left, which is too little" if cost > left else " left"
        said = words(strong(part_text(left, total, left=True)), rest)
        return Track(_share(total - left, total), 0.0, said)
    said = words(strong(part_text(left - cost, total, left=True)), " would be left")
    return Track(_share(total - left, total), _share(cost, total), said)


def _share(part: Fraction, total: Fraction) -> float:
    return float(part / total) if total else 0.0


def cost(bill: Bill) -> Words:
    """Return what a request cost, in short: **rho 0.02**, epsilon 0.9."""
    privacy, level = bill.privacy, bill.spent.level(bill.privacy)
    if not level:
        return words("No privacy cost: already released" if bill.stored else "No privacy cost")
    spent = PrivacyLoss.of(level, privacy)
    more = ""
    if privacy.counts_rho and bill.delta is not None:
        more = f", epsilon {amount_text(spent.epsilon_at(bill.delta, privacy))}"
    if bill.spent.delta:
        more += f", and delta {amount_text(bill.spent.delta)}"
    return words("Privacy cost ", strong(loss_text(spent, privacy, None)), more)


def in_epsilon(bill: Bill) -> str:
    """Return what was spent and the limit as epsilons, in words; '' where these are counted.

    They are not said as parts of each other: half of the budget is more than half of its epsilon. A
    delta that is spent beside rho belongs to neither.
    """
    privacy = bill.privacy
    if not privacy.counts_rho or bill.delta is None:
        return ""
    spent, cap = (PrivacyLoss.of(one.level(privacy), privacy) for one in (bill.spent, bill.cap))
    some = bill.remaining.level(privacy) > 0
    limit, at = loss_text(cap, privacy, None, limit=some), f"At delta {amount_text(bill.delta)}"
    total = amount_text(cap.epsilon_at(bill.delta, privacy))
    if not spent.rho:
        return f"{at}, {limit} amounts to epsilon {total}."
    now = amount_text(spent.epsilon_at(bill.delta, privacy))
    amount = loss_text(spent, privacy, None)
    return f"{at}, {amount} amounts to epsilon {now}, and {limit} to epsilon {total}."
