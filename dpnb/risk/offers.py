"""Price and accuracy of an answer at each candidate level, from public facts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpnb.answers.price import Price
from dpnb.formats import figure
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import amount_text

if TYPE_CHECKING:
    from dpnb.risk.profile import RiskProfile


def prices(profile: RiskProfile, candidates: Sequence[Fraction]) -> list[Price]:
    """Return the current price and the accuracy of an answer at each candidate."""
    return [profile.price(level) for level in candidates]


def accuracy_texts(price: Price) -> list[str]:
    """Return each aggregate's expected margin of error; for an AVG, at its smallest group size."""
    margins: dict[str, str] = {}
    for alias, size, width in price.widths:
        margin = "depends on the values" if width is None else f"± {figure(width, width)}"
        margins.setdefault(alias, margin if size is None else f"{margin} on {size:,} rows")
    if len(margins) == 1:
        return list(margins.values())
    return [f"{alias} {margin}" for alias, margin in margins.items()]


def name(level: Fraction, privacy: PrivacyDefinition) -> str:
    """Return a level as text, such as 'rho 0.05'."""
    return f"{privacy.parameter} {amount_text(level)}"


def offer_text(level: Fraction, price: Price) -> str:
    """Return the label of the button that releases an answer."""
    amounts, level_name = price.privacy.parameter, name(level, price.privacy)
    cost = price.spent.level(price.privacy)
    left = amount_text(price.remaining.level(price.privacy), left=True)
    if cost == 0:
        return f"Answer at {level_name}: free now"
    if not price.affordable:
        return f"{level_name} would cost {amounts} {amount_text(cost)}, but only {left} is left"
    return f"Answer at {level_name}: costs {amounts} {amount_text(cost)} of the {left} left"
