"""Results as HTML: a plain table first, which a short script of its own makes interactive.

The table needs neither scripts nor styles nor the network, so it is what a notebook keeps. Where
scripts run, ``static/answer.js`` lets the reader pick two groups and ask about them. Text is escaped
here; colours are plain in the table and follow the page where styles are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpnb.answers.compare import question_alpha
from dpnb.answers.question import AMONG
from dpnb.answers.words import left_text
from dpnb.display import elements
from dpnb.display.marks import Scale, difference_mark, interval_marks, scale
from dpnb.display.text import MAX_ROWS, sentences
from dpnb.errors import printable
from dpnb.estimation.intervals import combination_half_width, mean_around_zero
from dpnb.formats import figure, percent, share_text

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.answers.inferred import Inferred
    from dpnb.answers.listing import BudgetStatus, Listing
    from dpnb.answers.question import Question
    from dpnb.estimation.estimates import Estimates

SHORT = 18
"""Letters that a cell may have to stay on one line."""
EACH = (
    " These confidence intervals hold each on its own, so groups cannot be compared. "
    "Ask without --each (in Python intervals='simultaneous')."
)


def answer_html(answer: Answer, token: str = "") -> str:
    """Return an answer as a table that becomes interactive where scripts run.

    Parameters
    ----------
    answer : Answer
    token : str
        Names the live widget that accompanies this record; while that is alive, the record is
        folded to one line.
    """
    state = {"data": view_data(answer), "selected": [], "aggregate": ""}
    return elements.framed(answer_body(answer) + elements.script("answer.js", state, token))


def question_html(question: Question) -> str:
    """Return a question: its verdict, and the interval of the difference on a line with 0 marked."""
    stamps = elements.stamped(question.stamp, question.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamps}{verdict(question)}</div>')


def verdict(question: Question) -> str:
    """Return the verdict of a question above its interval, without styles and scripts."""
    said = elements.strong(question.sentence)
    drawn = (
        '<div class="dpnb-line" style="max-width:520px">'
        f"{difference_mark(question.low, question.high)}"
        '<div class="dpnb-ends" style="display:flex;justify-content:space-between">'
        f"<span>{elements.text(question.right)} is higher</span> <span>0</span> "
        f"<span>{elements.text(question.left)} is higher</span></div></div>"
    )
    return said + drawn


def listing_html(listing: Listing) -> str:
    """Return a listing as a table, its notes below."""
    return elements.framed(f'<div class="dpnb-body">{listing_body(listing)}</div>')


def listing_body(listing: Listing, conditional: bool = False, above: str = "") -> str:
    """Return a listing with its stamps and notes, without styles; ``above`` stands between them."""
    stamped = elements.stamped(listing.stamp, conditional)
    return f"{stamped}{above}{listing_table(listing)}{elements.notes(*listing.notes)}"


def budget_html(status: BudgetStatus) -> str:
    """Return the budget as a labelled bar above a table."""
    cap, spent = status.cap.level(status.currency), status.spent.level(status.currency)
    share = min(1.0, float(spent / cap)) if cap else 1.0
    left = left_text(status.remaining, status.cap, status.currency)
    bar = elements.meter(share) + elements.strong(f"Spent: {share_text(share)}. Left: {left}.")
    body = listing_body(status.listing(), above=bar)
    return elements.framed(f'<div class="dpnb-body">{body}</div>')


def answer_body(answer: Answer) -> str:
    """Return the table of an answer and what is said about it, without styles and scripts."""
    rows = answer.rows[:MAX_ROWS]
    axes = [scale(found, rows) for found in answer.estimates]
    alone = len(axes) == 1
    head = "".join(elements.head(key) for key in answer.keys or ("",)) + "".join(
        aggregate_head(found, index, percent(answer.confidence), axis, alone=alone)
        for index, (found, axis) in enumerate(zip(answer.estimates, axes, strict=True))
    )
    body = "".join(
        f"<tr>{''.join(elements.row_head(str(value)) for value in answer.groups[row] or ('all rows',))}"
        + "".join(
            aggregate_cells(
                found, index, row, axis, drawn=interval_marks(found, row, axis), alone=alone
            )
            for index, (found, axis) in enumerate(zip(answer.estimates, axes, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    names = " and ".join(found.alias for found in answer.estimates)
    by = f" by {', '.join(answer.keys)}" if answer.keys else ""
    caption = elements.caption(f"{names}{by}, from {answer.table}")
    stamps = elements.stamped(answer.stamp, answer.conditional)
    return (
        f'<div class="dpnb-body">{stamps}<table class="dpnb-table">{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{elements.notes(*sentences(answer))}</div>"
    )


def view_data(answer: Answer) -> dict[str, Any]:
    """Return what the script needs to answer questions about the shown groups by subtraction.

    Returns
    -------
    dict
        ``groups`` (indices) and ``names`` of the shown groups, ``sure`` (the confidence as text) and
        for each aggregate ``alias``, ``name`` (the alias as shown), ``among`` (which comparisons hold
        together), ``note`` (on looks) and either ``value`` and ``half`` or ``low`` and ``high``, as
        :func:`dpnb.answers.question.difference` uses them; infinite ends are texts.
    """
    rows = answer.rows[:MAX_ROWS]
    return {
        "groups": list(rows),
        "names": [printable(answer.group_label(row)) for row in rows],
        "sure": percent(answer.confidence),
        "aggregates": [
            {
                "alias": found.alias,
                "name": printable(found.alias),
                "among": AMONG if found.function == "FORMULA" else "",
                "note": answer.look_note(found),
                **_pairs(answer, found),
            }
            for found in answer.estimates
        ],
    }


def _pairs(answer: Answer, found: Estimates) -> dict[str, Any]:
    """Return the parts of every pair's interval, after the fact.

    Theorem 9 of docs/methods/estimation.md.
    """
    rows = answer.rows[:MAX_ROWS]
    if len(rows) < 2:
        return {}
    if found.plain:
        if answer.intervals != "simultaneous":
            nothing = {"low": ["-Infinity"] * len(rows), "high": ["Infinity"] * len(rows)}
            return {**nothing, "note": EACH}
        return {"low": _ends(found.low, rows), "high": _ends(found.high, rows)}
    alpha = question_alpha(answer, found, planned=False)
    groups = len(answer.groups)
    if found.total is not None and found.count is not None:
        assert found.total_law is not None and found.count_law is not None  # noqa: S101, PT018
        ends = [
            mean_around_zero(
                found.total[row], found.count[row], found.total_law, found.count_law,
                found.reach, alpha / groups,
            )
            for row in rows
        ]  # fmt: skip
        return {"low": [low for low, _ in ends], "high": [high for _, high in ends]}
    values = found.count if found.total is None else found.total
    law = found.count_law if found.total is None else found.total_law
    assert values is not None and law is not None  # noqa: S101, PT018
    half = combination_half_width(law, alpha, (Fraction(1), Fraction(-1)), groups, planned=False)
    return {"value": [values[row] for row in rows], "half": half}


def _ends(ends: Sequence[float], rows: Sequence[int]) -> list[float | str]:
    """Return ends as JSON; JavaScript reads the texts as numbers when it subtracts."""
    shown = [ends[row] for row in rows]
    return [end if math.isfinite(end) else "Infinity" if end > 0 else "-Infinity" for end in shown]


def aggregate_head(
    found: Estimates | Inferred, index: int, sure: str, axis: Scale, *, alone: bool
) -> str:
    """Return the heads of one aggregate's columns: value, interval, and the scale of what is drawn.

    Parameters
    ----------
    found : Estimates or Inferred
    index : int
        Which of the aggregates it is.
    sure : str
        The confidence as shown.
    axis : Scale
    alone : bool
        Whether it is the only one, and so has more room.
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
    found: Estimates | Inferred, index: int, row: int, axis: Scale, *, drawn: str, alone: bool
) -> str:
    """Return one group's cells of one aggregate: value, interval, and what is ``drawn`` of it."""
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


def listing_table(listing: Listing, *, part: bool = False) -> str:
    """Return the table of a listing, without styles; its caption alone where it has no rows."""
    if not listing.rows:
        return elements.strong(listing.caption)
    head = "".join(elements.head(name) for name in listing.header)
    body = "".join(
        "<tr>"
        + _listing_cell("th", row[0])
        + "".join(_listing_cell("td", cell) for cell in row[1:])
        + "</tr>"
        for row in listing.rows
    )
    return (
        f'<table class="dpnb-table dpnb-listing">{elements.caption(listing.caption, part=part)}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _listing_cell(tag: str, cell: str) -> str:
    """Return a cell; a short one stays on one line where there is room."""
    short = ' class="dpnb-short"' if len(cell) <= SHORT else ""
    scope = ' scope="row"' if tag == "th" else ""
    style = "text-align:left" + (";font-weight:normal" if scope else "")
    return f'<{tag}{scope}{short} style="{style}">{elements.one_line(cell)}</{tag}>'
