"""Intervals drawn with inline styles alone, which survive where scripts and style sheets do not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from dpnb.answers.estimates import Estimates

GREY = "#767676"
"""Readable on white (4.5:1) and on JupyterLab's dark ground (4.1:1)."""

Scale: TypeAlias = tuple[float, float, float]
"""Start, end and step."""


def scale(found: Estimates, rows: tuple[int, ...]) -> Scale:
    """Return a scale in round numbers; counts and sums start from 0."""
    told = [row for row in rows if found.estimate[row] is not None] or list(rows)
    low = min((found.low[row] for row in told), default=0.0)
    high = max((found.high[row] for row in told), default=0.0)
    if found.function != "AVG":
        low, high = min(low, 0.0), max(high, 0.0)
    rough = (high - low) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= rough * (1 - 1e-9))
    start, end = math.floor(low / step) * step, math.ceil(high / step) * step
    return start, end if end > start else start + step, step


def interval_marks(found: Estimates, row: int, axis: Scale) -> str:
    """Return an interval with its estimate as a dot, in inline styles alone."""
    value = found.estimate[row]
    if value is None:
        return ""
    start, end, _ = axis
    value = min(max(value, found.low[row]), found.high[row])
    low, middle, high = (
        100 * (point - start) / (end - start) for point in (found.low[row], value, found.high[row])
    )
    box = "display:inline-block;vertical-align:middle"
    line = f"{box};height:3px;background:{GREY}"
    dot = f"{box};width:8px;height:8px;margin:0 -4px;border-radius:4px;background:{GREY}"
    return (
        f'<span style="{box};width:{low:.2f}%"></span>'
        f'<span class="dpnb-mark" style="{line};width:{middle - low:.2f}%"></span>'
        f'<span class="dpnb-mark" style="{dot}"></span>'
        f'<span class="dpnb-mark" style="{line};width:{high - middle:.2f}%"></span>'
    )


def difference_mark(low: float, high: float) -> str:
    """Return the interval of a difference on a line with 0 in its middle; hollow when it holds 0."""
    reach = 1.1 * max(abs(low), abs(high)) or 1.0
    start, width = 50 + 50 * low / reach, 50 * (high - low) / reach
    opened = "" if low > 0 or high < 0 else " dpnb-open"
    zero = f"transparent 49.8%, {GREY} 49.8%, {GREY} 50.2%, transparent 50.2%"
    return (
        '<div class="dpnb-track" style="position:relative;height:16px;'
        f'background:linear-gradient(to right, {zero})">'
        f'<span class="dpnb-mark{opened}" style="position:absolute;top:5px;height:6px;'
        f'min-width:6px;left:{start:.2f}%;width:{width:.2f}%;background:{GREY}"></span></div>'
    )
