"""How numbers are written: as many digits as their uncertainty deserves."""

from __future__ import annotations

import math
from fractions import Fraction

from dpnb.privacy.loss import Currency, PrivacyLoss, counts_rho


def decimals(half_width: float) -> int:
    """Return the decimals that show a half-width with two significant digits, at most 12."""
    if not 0 < half_width < math.inf:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(half_width))))


def figure(value: float, half_width: float) -> str:
    """Return a number with thousands separators, cut where its half-width makes digits idle.

    Examples
    --------
    >>> figure(16115.4321, 6.2), figure(0.04551, 0.00046), figure(-0.2, 3)
    ('16,115.4', '0.04551', '-0.2')
    """
    if not math.isfinite(value):
        return "unknown"
    size = max(abs(value), half_width)
    if size >= 1e15 or 0 < size < 1e-9:
        return f"{value + 0.0:.3g}"
    shown = f"{value:,.{decimals(half_width)}f}"
    return shown.lstrip("-") if not shown.strip("-0.,") else shown


def amount_text(value: Fraction | float) -> str:
    """Return a privacy amount with up to four significant digits."""
    number = float(value)
    if number == 0:
        return "0"
    return f"{number:.4g}" if 1e-4 <= abs(number) < 1e6 else f"{number:.2e}"


def percent(confidence: float) -> str:
    """Return a confidence as a percentage without idle zeros.

    Examples
    --------
    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    shown = f"{100 * confidence:.6g}"
    return f"{100 * confidence:.12g} %" if shown == "100" else f"{shown} %"


def loss_text(loss: PrivacyLoss, currency: Currency, delta: float | Fraction | None) -> str:
    """Return a loss in the session's currency, with the epsilon it means at ``delta``."""
    beside = f" and delta {float(loss.delta):.3g}" if loss.delta else ""
    if not counts_rho(currency):
        return f"epsilon {amount_text(loss.level(currency))}{beside}"
    text = f"rho {amount_text(loss.rho)}"
    if delta is None or loss.rho == 0:
        return f"{text}{beside}"
    epsilon = amount_text(loss.epsilon_at(delta, currency))
    return f"{text} (epsilon {epsilon} at delta {float(delta):g}){beside}"


def cost_text(
    spent: PrivacyLoss,
    remaining: PrivacyLoss,
    cap: PrivacyLoss,
    currency: Currency,
    delta: float | None,
    *,
    stored: bool,
) -> str:
    """Return what a request cost and what is left, in words."""
    free = spent.level(currency) == 0
    if free and stored:
        cost = "Answered from the ledger at no cost"
    elif free:
        cost = "No cost: bought before, or about rows of which less was told so far"
    else:
        cost = f"Cost {loss_text(spent, currency, delta)}"
    left = loss_text(remaining, currency, None)
    return f"{cost}; left {left} of {amount_text(cap.level(currency))}."
