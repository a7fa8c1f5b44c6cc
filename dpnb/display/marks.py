"""Intervals drawn with inline styles only, which survive where scripts and style sheets do not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from dpnb.estimation.estimates import Intervals

GREY = "#767676"
"""Readable on white (4.5:1) and on JupyterLab's dark background (4.1:1)."""

Scale: TypeAlias = tuple[float, float, float]
"""Start, end and step."""


def scale(found: Intervals, rows: tuple[int, ...], *, bounds: bool = False) -> Scale:
    """Return a scale in round numbers; for counts and sums it includes 0.

    Infinite ends are ignored. With ``bounds`` the scale also covers intervals without an estimate.
    """
    covered_rows = [row for row in rows if bounds or found.estimate[row] is not None] or list(rows)
    ends = [end for row in covered_rows for end in (found.low[row], found.high[row])]
    ends = [end for end in ends if math.isfinite(end)]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    if found.function.is_total:
        low, high = min(low, 0.0), max(high, 0.0)
    return round_scale(low, high, 4)


def round_scale(low: float, high: float, steps: int) -> Scale:
    """Return a scale in round numbers with about ``steps`` steps."""
    rough = (high - low) / steps or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= rough * (1 - 1e-9))
    start, end = math.floor(low / step) * step, math.ceil(high / step) * step
    return start, end if end > start else start + step, step


def interval_marks(found: Intervals, row: int, axis: Scale) -> str:
    """Return an interval with its estimate as a dot, in inline styles; '' without an estimate."""
    value = found.estimate[row]
    if value is None:
        return ""
    start, end, _ = axis
    value = min(max(value, found.low[row]), found.high[row])
    low, middle, high = (
        100 * (min(max(point, start), end) - start) / (end - start)
        for point in (found.low[row], value, found.high[row])
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


def bar_mark(low: float, high: float, axis: Scale, *, opened: bool) -> str:
    """Return an interval as a bar, in inline styles only; hollow if ``opened``."""
    start, end, _ = axis
    left, right = (100 * (min(max(x, start), end) - start) / (end - start) for x in (low, high))
    box = "display:inline-block;vertical-align:middle"
    fill = f"border:1px solid {GREY}" if opened else f"background:{GREY}"
    return (
        f'<span style="{box};width:{min(left, 97):.2f}%"></span>'
        f'<span class="dpnb-mark{" dpnb-open" if opened else ""}" style="{box};'
        f'box-sizing:border-box;height:8px;min-width:3%;width:{right - left:.2f}%;{fill}"></span>'
    )


def difference_mark(low: float, high: float) -> str:
    """Return a difference's interval on a line with 0 in the middle; hollow if it contains 0.

    An infinite end reaches the end of the line.
    """
    reach = 1.1 * max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0) or 1.0
    left, right = (50 * min(max(end / reach, -1.0), 1.0) for end in (low, high))
    start, width = 50 + left, right - left
    opened = "" if low > 0 or high < 0 else " dpnb-open"
    zero = f"transparent 49.8%, {GREY} 49.8%, {GREY} 50.2%, transparent 50.2%"
    return (
        '<div class="dpnb-track" style="position:relative;height:16px;'
        f'background:linear-gradient(to right, {zero})">'
        f'<span class="dpnb-mark{opened}" style="position:absolute;top:5px;height:6px;'
        f'min-width:6px;left:{start:.2f}%;width:{width:.2f}%;background:{GREY}"></span></div>'
    )
