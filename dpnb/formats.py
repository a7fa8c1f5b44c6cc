"""Number formats: as many digits as their uncertainty justifies."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.schema.partition import Label

_LAST_BITS = 2.0**-50


def decimals(margin_of_error: float) -> int:
    """Return the decimals that show a margin of error with two significant digits, at most 12."""
    if not 0 < margin_of_error < math.inf:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(margin_of_error))))


def step_of(margin_of_error: float) -> float:
    """Return the distance between two neighbouring numbers with :func:`decimals` digits."""
    return 10.0 ** -decimals(margin_of_error)


def whole(margin_of_error: float) -> float:
    """Return a margin of error for counts, which shows no decimals: counts are whole numbers."""
    return max(margin_of_error, 10.0)


def _digits(size: float, margin_of_error: float) -> int:
    """Return the significant digits of a very large or small number: two of its margin of error."""
    if not margin_of_error < math.inf:
        return 3
    places = math.floor(math.log10(size)) - math.floor(math.log10(margin_of_error))
    return min(17, max(3, places + 2))


def figure(value: float, margin_of_error: float) -> str:
    """Return a number with thousands separators, without digits far below its margin of error.

    Examples
    --------
    >>> figure(16115.4321, 6.2), figure(0.04551, 0.00046), figure(-0.2, 3), figure(0.5, 0)
    ('16,115.4', '0.04551', '-0.2', '0.5')
    """
    if not math.isfinite(value):
        return "unknown"
    if margin_of_error == 0:
        return f"{value + 0.0:,.12g}"
    size = max(abs(value), margin_of_error)
    if size >= 1e15 or size < 1e-9:
        return f"{value + 0.0:,.{_digits(size, margin_of_error)}g}"
    text = f"{value:,.{decimals(margin_of_error)}f}"
    return text.lstrip("-") if not text.strip("-0.,") else text


def _beyond(value: float, margin_of_error: float) -> float:
    """Return the distance between a number as :func:`figure` shows it and the next one."""
    size = max(abs(value), margin_of_error)
    if margin_of_error == 0:
        return 0.0
    if size >= 1e15 or size < 1e-9:
        leading = math.floor(math.log10(abs(value))) if value else 0
        return 10.0 ** (leading - _digits(size, margin_of_error) + 1)
    return step_of(margin_of_error)


def end_text(value: float, margin_of_error: float, side: int) -> str:
    """Format an end of a confidence interval as :func:`figure` does, but rounded outward.

    It shows 0 only if the end is 0.

    Parameters
    ----------
    side : {-1, 1}
        Lower or upper end.

    Examples
    --------
    >>> end_text(12.34, 5.0, -1), end_text(12.34, 5.0, 1), end_text(0.04, 1.0, -1)
    ('12.3', '12.4', '0.040')
    >>> end_text(12.3, 5.0, 1), end_text(-math.inf, math.inf, -1)
    ('12.3', '-∞')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    text = figure(value, margin_of_error)
    # if the rounded text lacks only the last bits, do not go one digit further
    slack = max(abs(value), margin_of_error) * _LAST_BITS if margin_of_error < math.inf else 0.0
    rounded = float(text.replace(",", ""))
    if _tells(text) and side * (value - rounded) > slack:
        # a value near the largest float may be shown as larger than any float
        text = figure(
            (rounded if math.isfinite(rounded) else value) + side * _beyond(value, margin_of_error),
            margin_of_error,
        )
    return text if _tells(text) or abs(value) <= slack else end_text(value, abs(value), side)


def _tells(text: str) -> bool:
    return re.search("[1-9]", text) is not None


def ends_text(low: float, high: float, margin_of_error: float, *, counts: bool = False) -> str:
    """Format a confidence interval: never shorter than it is, with digits that fit its margin.

    For ``counts`` it rounds the ends to the nearest whole numbers, which keep every count inside.

    Examples
    --------
    >>> ends_text(4.04, 12.34, 4.15), ends_text(2.7, 3.4, 10.0, counts=True)
    ('4.0 to 12.4', '3 to 3')
    """
    if math.isinf(low) and math.isinf(high):
        return "unknown"
    if counts and math.isfinite(high - low):
        return f"{figure(low, margin_of_error)} to {figure(high, margin_of_error)}"
    return f"{end_text(low, margin_of_error, -1)} to {end_text(high, margin_of_error, 1)}"


def rounded_up(value: float, digits: int) -> float:
    """Round a bound above 0 up to a number of significant digits.

    Examples
    --------
    >>> rounded_up(0.05, 2), rounded_up(8.33333, 2), rounded_up(2.0137, 3), rounded_up(1234.5, 3)
    (0.05, 8.4, 2.02, 1240.0)
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # 5 % as a float may be slightly above 5
    return float(f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}")


def percent(confidence: float) -> str:
    """Return a confidence as a percentage without trailing zeros.

    Examples
    --------
    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    text = f"{100 * confidence:.6g}"
    return f"{100 * confidence:.12g} %" if text == "100" else f"{text} %"


def share_text(share: float | Fraction) -> str:
    """Return a share in percent, with two significant digits of the distance from 0 or 100 %.

    It shows 0 % and 100 % only if they are exact.

    Examples
    --------
    >>> share_text(0.284), share_text(0.0681), share_text(0.9731), share_text(1e-5), share_text(1.0)
    ('28 %', '6.8 %', '97.3 %', 'less than 0.1 %', '100 %')
    """
    return _percent_text(share, lambda percents: percents)


def part_text(part: Fraction, whole: Fraction, *, left: bool = False) -> str:
    """Return a part of a budget in percent: rounded up, or down with ``left``.

    So what is spent and what is left add up to 100 %, a cost is never shown smaller than it is, and
    what is left never larger. Of a budget of 0, everything is spent.

    Examples
    --------
    >>> part_text(Fraction(532), Fraction(1000)), part_text(Fraction(468), Fraction(1000), left=True)
    ('54 %', '46 %')
    """
    share = part / whole if whole else Fraction(part > 0 or not left)
    return _percent_text(share, math.floor if left else math.ceil)


def _percent_text(share: float | Fraction, rounding: Callable[[Any], Any]) -> str:
    if 0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1:
        return "more than 99.9 %"
    digits = 1 if 0 < min(share, 1 - share) < 0.0995 else 0
    percents = float(rounding(100 * share * 10**digits)) / 10**digits
    return f"{f'{percents:.{digits}f}'.removesuffix('.0')} %"


def loss_text(
    loss: PrivacyLoss,
    privacy: PrivacyDefinition,
    delta: float | Fraction | None,
    *,
    left: bool = False,
    limit: bool = False,
) -> str:
    """Return a loss in the session's privacy definition, with its epsilon at ``delta``.

    It is rounded up, or down with ``left``, for a remaining amount. With ``limit`` it is rounded as
    what is left of it, but its epsilon up, which is a promise.
    """
    down = left or limit
    beside = f" and delta {amount_text(loss.delta, left=down)}" if loss.delta else ""
    if not privacy.counts_rho:
        return f"epsilon {amount_text(loss.level(privacy), left=down)}{beside}"
    text = f"rho {amount_text(loss.rho, left=down)}"
    if delta is None or loss.rho == 0:
        return f"{text}{beside}"
    epsilon = amount_text(loss.epsilon_at(delta, privacy), left=left)
    return f"{text} (epsilon {epsilon} at delta {amount_text(delta)}){beside}"


def label(group: Sequence[Label | None]) -> str:
    """Return the display name of a group; several keys are joined by a comma."""
    return ", ".join(map(label_text, group)) if group else "all rows"


def label_text(value: Label | None) -> str:
    """Return a label as displayed; truths and missing values as SQL writes them.

    Examples
    --------
    >>> label_text("a"), label_text(3), label_text(True), label_text(None)
    ('a', '3', 'TRUE', 'NULL')
    """
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    return str(value)
