"""How numbers are written: as many digits as their uncertainty deserves."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from dpnb.privacy.loss import Currency, PrivacyLoss, amount_text, counts_rho


def decimals(half_width: float) -> int:
    """Return the decimals that show a half-width with two significant digits, at most 12."""
    if not 0 < half_width < math.inf:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(half_width))))


def whole(half_width: float) -> float:
    """Return a half-width that shows no decimals: of counts, which are whole numbers."""
    return max(half_width, 10.0)


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


def end_text(value: float, half_width: float) -> str:
    """Return an end of an interval as :func:`figure` does, but never as 0 when it is not.

    Examples
    --------
    >>> end_text(12.34, 5.0), end_text(0.04, 1.0), end_text(-math.inf, math.inf)
    ('12.3', '0.040', '-∞')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    shown = figure(value, half_width)
    return shown if re.search("[1-9]", shown) else figure(value, abs(value))


def rounded_up(value: float, digits: int) -> float:
    """Return a bound above 0 with so many significant digits, rounded up.

    Examples
    --------
    >>> rounded_up(0.05, 2), rounded_up(8.33333, 2), rounded_up(2.0137, 3), rounded_up(1234.5, 3)
    (0.05, 8.4, 2.02, 1240.0)
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # 5 % as a float may lie a little above 5
    return float(f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}")


def percent(confidence: float) -> str:
    """Return a confidence as a percentage without idle zeros.

    Examples
    --------
    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    shown = f"{100 * confidence:.6g}"
    return f"{100 * confidence:.12g} %" if shown == "100" else f"{shown} %"


def share_text(share: float) -> str:
    """Return a share in percent, of two digits from the nearer end; none and all only when it is.

    Examples
    --------
    >>> share_text(0.284), share_text(0.0681), share_text(0.9731), share_text(1e-5), share_text(1.0)
    ('28 %', '6.8 %', '97.3 %', 'less than 0.1 %', '100 %')
    """
    if 0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1:
        return "more than 99.9 %"
    digits = 1 if 0 < min(share, 1 - share) < 0.0995 else 0
    shown = f"{100 * share:.{digits}f}"
    return f"{shown.removesuffix('.0')} %"


def loss_text(loss: PrivacyLoss, currency: Currency, delta: float | Fraction | None) -> str:
    """Return a loss in the session's currency, with the epsilon it means at ``delta``."""
    beside = f" and delta {amount_text(loss.delta)}" if loss.delta else ""
    if not counts_rho(currency):
        return f"epsilon {amount_text(loss.level(currency))}{beside}"
    text = f"rho {amount_text(loss.rho)}"
    if delta is None or loss.rho == 0:
        return f"{text}{beside}"
    epsilon = amount_text(loss.epsilon_at(delta, currency))
    return f"{text} (epsilon {epsilon} at delta {amount_text(delta)}){beside}"
