"""Tables of results as HTML, which a short script makes interactive.

The tables need no scripts, styles or network, so a notebook can keep them. Where scripts run,
``static/answer.js`` lets the reader pick two groups and compare them. Text is escaped here; colours
are plain in the table and follow the page where styles are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.marks import Scale
from dpnb.display.text import SHORT
from dpnb.formats import figure
from dpnb.results import InfoTable

if TYPE_CHECKING:
    from dpnb.estimation.estimates import Intervals


def aggregate_head(found: Intervals, index: int, sure: str, axis: Scale, *, alone: bool) -> str:
    """Return the heads of one aggregate's columns: value, interval, and the scale of the drawing.

    Parameters
    ----------
    found : Intervals
    index : int
        Index of the aggregate.
    sure : str
        The confidence as shown.
    axis : Scale
    alone : bool
        Whether this is the only aggregate, which gets more room.
    """
    start, end, step = axis
    return (
        f'<th scope="col" data-agg="{index}" style="text-align:right">{elements.text(found.alias)}</th>'
        f'<th scope="col" data-agg="{index}" style="text-align:right">'
        f"{elements.text(sure)} interval</th>"
        f'<th scope="col" data-agg="{index}" class="dpnb-plot" '
        f'style="min-width:{160 if alone else 90}px">'
        '<span class="dpnb-axis" style="display:flex;justify-content:space-between">'
        f"<span>{figure(start, 10 * step)}</span> <span>{figure(end, 10 * step)}</span></span></th>"
    )


def aggregate_cells(
    found: Intervals, index: int, row: int, axis: Scale, *, drawn: str, alone: bool
) -> str:
    """Return one group's cells of one aggregate: value, interval, and drawing (``drawn``)."""
    few = found.estimate[row] is None
    value = f"<i>{found.text(row)}</i>" if few else found.text(row)
    cell = f'<td data-agg="{index}"' + (' class="dpnb-few"' if few else "")
    style = "text-align:right" + (";white-space:nowrap" if alone else "")
    return (
        f'{cell} style="{style}">{value}</td>'
        f'{cell} style="{style}">{found.interval_text(row)}</td>'
        f'<td data-agg="{index}" class="dpnb-plot" style="text-align:left;white-space:nowrap;'
        f'--dpnb-steps:{round((axis[1] - axis[0]) / axis[2])}">{drawn}</td>'
    )


def info_table_element(info: InfoTable, *, part: bool = False) -> str:
    """Return a captioned table as an HTML table without styles; if empty, only its caption."""
    if not info.rows:
        return elements.strong(info.caption)
    head = "".join(elements.head(name) for name in info.header)
    body = "".join(
        "<tr>"
        + _info_table_cell("th", row[0])
        + "".join(_info_table_cell("td", cell) for cell in row[1:])
        + "</tr>"
        for row in info.rows
    )
    return (
        f'<table class="dpnb-table dpnb-listing">{elements.caption(info.caption, part=part)}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _info_table_cell(tag: str, cell: str) -> str:
    """Return a cell; a short one stays on one line if there is room."""
    short = ' class="dpnb-short"' if len(cell) <= SHORT else ""
    scope = ' scope="row"' if tag == "th" else ""
    style = "text-align:left" + (";font-weight:normal" if scope else "")
    return f'<{tag}{scope}{short} style="{style}">{elements.one_line(cell)}</{tag}>'
