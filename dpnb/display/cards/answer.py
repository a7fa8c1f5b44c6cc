"""An answer as a static table, which a short script makes interactive.

The table needs no scripts, styles or network, so a notebook can keep it. Where scripts run,
``static/answer.js`` lets the reader pick two groups and compare them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpnb.answers.compare import pairs
from dpnb.answers.question import AMONG
from dpnb.display import elements
from dpnb.display.cards import Card, words
from dpnb.display.figures import finished, formula_free, name_rows, row_axes
from dpnb.display.html import aggregate_cells, aggregate_head
from dpnb.display.marks import interval_marks, scale
from dpnb.display.text import (
    MAX_ROWS,
    aligned,
    group_cells,
    markdown,
    markdown_table,
    stamps,
    strong,
)
from dpnb.errors import printable
from dpnb.formats import label, label_text, loss_text, percent
from dpnb.privacy.loss import PrivacyLoss
from dpnb.schema.persons import shown_name
from dpnb.schema.schema import kept_note
from dpnb.sql.functions import Function

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.display.cards.answer_widget import AnswerWidget
    from dpnb.estimation.estimates import Estimates

EACH = (
    " These confidence intervals hold each on its own, so groups cannot be compared. "
    "Ask without --each (in Python intervals='simultaneous')."
)


def table_cells(answer: Answer) -> tuple[list[str], list[list[str]]]:
    """Return the header and the shown lines of an answer's table as texts."""
    return group_cells(answer.shown or answer, answer.columns, percent(answer.confidence))


def sentences(answer: Answer) -> list[str]:
    """Return the sentences about an answer, the same in every rendering."""
    intervals = interval_sentence(answer) if answer.estimates else groups_sentence(answer)
    texts = [
        intervals, answer.counted, cost_sentence(answer), origin_sentence(answer),
        words.ledger_note(answer.bill),
    ]  # fmt: skip
    more = words.rest_sentence(len((answer.shown or answer).rows) - MAX_ROWS)
    above = more, hidden_sentence(answer), over_sentence(answer), undeclared_sentence(answer)
    return [sentence for sentence in (*above, *texts) if sentence]


def undeclared_sentence(answer: Answer) -> str:
    """Return which undeclared values count for the letters of their label; '' without any."""
    return " ".join(
        f"Undeclared values of {column} count as the text '{label}' here."
        for column, label in answer.undeclared
    )


def groups_sentence(answer: Answer) -> str:
    """Return what a list of declared groups is."""
    left = "" if answer.asked == len(answer.groups) else " that WHERE does not rule out"
    return (
        f"These are the declared groups{left}, whether there are rows in them or not. "
        "There are no data in this list, so it costs nothing."
    )


def over_sentence(answer: Answer) -> str:
    """Return over which groups windows and totals go; '' without them."""
    table = answer.shown
    if table is None or not (table.windows or table.totals is not None):
        return ""
    left = f"the {answer.asked:,} groups"
    if table.totals is not None and table.totals < answer.asked:
        left = f"{table.totals:,} of {left}, chosen by released numbers"
    elif "HAVING" in answer.hidden_by:
        left = "the groups that HAVING leaves"
    what = "Windows" if table.totals is None else "Totals"
    return f"{what} go over {left}; rows without a group are in none of them."


def hidden_sentence(answer: Answer) -> str:
    """Return how many groups HAVING and QUALIFY hide, and where they are; '' without them."""
    if answer.hidden is None:
        return ""
    number = f"{answer.hidden:,}" if answer.hidden else "none"
    hides = "hides" if len(answer.hidden_by) == 1 else "hide"
    hides = f"{' and '.join(answer.hidden_by)} {hides} {number} of {answer.asked:,} group{'' if answer.asked == 1 else 's'}"
    if not answer.estimates:
        return f"{hides}: all_groups() has them all."
    if answer.branches:
        return f"{hides}, by their released numbers: all_groups() of each of its branches has them all."
    return (
        f"{hides}, by their released numbers: all_groups() has them all. To bound how often noise hides or shows the "
        "wrong ones, use %%dpdecide (in Python session.decide)."
    )


def interval_sentence(answer: Answer) -> str:
    """Return what the confidence intervals guarantee."""
    number = sum(one.asked * len(one.estimates) for one in answer.branches or (answer,))
    sure = percent(answer.confidence)
    each = answer.intervals == "each"
    meaning = words.interval_sentence(sure, number, each=each)
    if answer.shown is not None and number > 1 and not each:
        meaning = meaning.replace("intervals hold", "intervals of released numbers hold")
        meaning += " Those computed from them hold, too."
    meaning += kept_note(answer.unit) + answer.past_note()
    holds = "the interval holds" if number == 1 else "the intervals hold"
    if answer.looks == "any":
        return (
            f"{meaning} Look {answer.look} of this answer: {holds} at all looks together, if you "
            "chose their accuracies beforehand. You may stop whenever you like."
        )
    if answer.look > 1:
        return (
            f"{meaning} Look {answer.look} of this answer: {holds} only if you planned this look "
            "beforehand. To stop whenever you like, ask with --any-look (in Python looks='any')."
        )
    return meaning


def cost_sentence(answer: Answer) -> str:
    """Return what was spent and what is left."""
    worked_out = not answer.estimates or (
        answer.origin is not None and answer.origin.way == "history"
    )
    cost = words.cost_text(answer.bill, worked_out=worked_out)
    if answer.bought is not None:
        cost = f"{cost} {words.bought_sentence([answer.bought])}"
    if answer.finer:
        more = f"a higher {answer.privacy.parameter}, up to the one that was paid, is free"
        return f"{cost} A more accurate answer was already released: {more}."
    return cost


def origin_sentence(answer: Answer) -> str:
    """Return how past answers were used, the saving, and the cost without them; else ''."""
    origin, privacy = answer.origin, answer.privacy
    if origin is None:
        return ""
    past = "one past answer" if origin.past == 1 else f"{origin.past} past answers"
    saving = origin.alone.level(privacy) - answer.spent.level(privacy)
    alone = f"Asked alone, it would have cost {loss_text(origin.alone, privacy, answer.delta)}"
    if origin.way == "history" and not origin.past:
        return f"This follows from the declared values: no row can match. {alone}."
    if origin.way == "history":
        return f"Computed from {past}, without reading the data. {alone}."
    release = "A past release was refined" if origin.way == "refined" else "A new release was made"
    sentence = f"{release} and combined with {past}."
    if saving <= 0:
        return sentence
    return f"{sentence} {alone}. This saved {loss_text(PrivacyLoss.of(saving, privacy), privacy, None)}."


def answer_text(answer: Answer) -> str:
    """Return an answer for a terminal."""
    header, rows = table_cells(answer)
    above = [f"{stamp}\n" for stamp in stamps(answer.stamp, answer.conditional)]
    grid = aligned(header, rows, range(len(answer.keys)))
    return "\n".join([*above, *grid, "", *sentences(answer)])


def answer_markdown(answer: Answer) -> str:
    """Return an answer as a Markdown table with its sentences below."""
    header, rows = table_cells(answer)
    table = markdown_table(header, rows, range(len(answer.keys)))
    above = map(strong, stamps(answer.stamp, answer.conditional))
    return "\n\n".join([*above, table, *map(markdown, sentences(answer))])


def answer_html(answer: Answer, token: str = "") -> str:
    """Return an answer as a table that becomes interactive where scripts run.

    Parameters
    ----------
    answer : Answer
    token : str
        Names the live widget that this HTML accompanies. While the widget is alive, the HTML is
        folded to one line.
    """
    state = {"data": view_data(answer), "selected": [], "aggregate": ""}
    return elements.framed(answer_body(answer) + elements.script("answer.js", state, token))


def answer_body(answer: Answer) -> str:
    """Return the table of an answer and its sentences, without styles and scripts."""
    table, columns = answer.shown or answer, answer.columns
    rows = table.rows[:MAX_ROWS]
    axes = [scale(aggregate, rows) for aggregate in columns]
    alone = len(axes) == 1
    head = "".join(elements.head(key) for key in table.keys or ("",)) + "".join(
        aggregate_head(aggregate, index, percent(answer.confidence), axis, alone=alone)
        for index, (aggregate, axis) in enumerate(zip(columns, axes, strict=True))
    )
    whole = "all groups" if answer.grouped else "all rows"
    body = "".join(
        f"<tr>{''.join(elements.row_head(label_text(value)) for value in table.groups[row] or (whole,))}"
        + "".join(
            aggregate_cells(
                aggregate, index, row, axis, drawn=interval_marks(aggregate, row, axis), alone=alone
            )
            for index, (aggregate, axis) in enumerate(zip(columns, axes, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    names = " and ".join(aggregate.alias for aggregate in columns)
    by = f"{' by ' if names else ''}{', '.join(table.keys)}" if table.keys else ""
    caption = elements.caption(f"{names}{by}, from {shown_name(answer.table)}")
    stamps = elements.stamped(answer.stamp, answer.conditional)
    return (
        f'<div class="dpnb-body">{stamps}<table class="dpnb-table">{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{elements.notes(*sentences(answer))}</div>"
    )


def view_data(answer: Answer) -> dict[str, Any]:
    """Return the data from which the script compares shown groups by subtraction.

    Returns
    -------
    dict
        ``groups`` (indices) and ``names`` of the shown groups, ``sure`` (the confidence as text)
        and for each aggregate ``alias``, ``name`` (the alias as shown), ``among`` (which
        comparisons hold together), ``note`` (on looks) and either ``value`` and ``half`` or ``low``
        and ``high``, as :func:`dpnb.answers.question.difference` uses them; infinite ends are
        strings. There is nothing to compare in a table that is computed from results.
    """
    if answer.shown is not None or not answer.estimates:
        columns = [
            {"alias": one.alias, "name": printable(one.alias), "among": "", "note": ""}
            for one in answer.columns
        ]
        sure = percent(answer.confidence)
        return {"groups": [], "names": [], "sure": sure, "aggregates": columns}
    rows = answer.rows[:MAX_ROWS]
    return {
        "groups": list(rows),
        "names": [printable(answer.group_label(row)) for row in rows],
        "sure": percent(answer.confidence),
        "aggregates": [
            {
                "alias": aggregate.alias,
                "name": printable(aggregate.alias),
                "among": AMONG if aggregate.function is Function.FORMULA else "",
                "note": answer.look_note(aggregate),
                **_parts(answer, aggregate),
            }
            for aggregate in answer.estimates
        ],
    }


def _parts(answer: Answer, aggregate: Estimates) -> dict[str, Any]:
    """Return what the script subtracts to compare any two shown groups."""
    rows = answer.rows[:MAX_ROWS]
    if len(rows) < 2:
        return {}
    if aggregate.plain and answer.intervals != "simultaneous":
        nothing = {"low": ["-Infinity"] * len(rows), "high": ["Infinity"] * len(rows)}
        return {**nothing, "note": EACH}
    parts = pairs(answer, aggregate, rows)
    if parts.value:
        return {"value": list(parts.value), "half": parts.half}
    return {"low": _ends(parts.low), "high": _ends(parts.high)}


def _ends(ends: Sequence[float]) -> list[float | str]:
    """Return ends as JSON values; JavaScript converts the strings to numbers when it subtracts."""
    return [end if math.isfinite(end) else "Infinity" if end > 0 else "-Infinity" for end in ends]


def plot_answer(answer: Answer, ax: Axes | None = None) -> Axes:
    """Draw the confidence intervals of the first aggregate, one line for each shown group.

    Groups with too few rows for an estimate have no interval; their label says so.

    Parameters
    ----------
    answer : Answer
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    table = answer.shown if answer.shown is not None and answer.shown.columns else answer
    columns = (*answer.columns, *answer.estimates)
    aggregate, rows = columns[0] if columns else answer.estimates_of(), table.rows[:MAX_ROWS]
    ax = row_axes(len(rows), ax)
    for place, row in enumerate(rows):
        value = aggregate.estimate[row]
        if value is not None:
            ax.plot(
                [aggregate.low[row], aggregate.high[row]], [place, place], color="C0", linewidth=2
            )
            ax.plot(value, place, "o", color="C0", markersize=5)
    determined = [aggregate.estimate[row] is not None for row in rows]
    labels = [
        formula_free(label(table.groups[row])) + ("" if known else " (too few rows to tell)")
        for row, known in zip(rows, determined, strict=True)
    ]
    name_rows(ax, labels, determined)
    ax.set_xlabel(
        f"{formula_free(aggregate.alias)}, {percent(answer.confidence)} confidence intervals"
    )
    if aggregate.function.is_total:
        ax.axvline(0, color="grey", linewidth=0.8)
    return finished(ax, answer)


def _widget(answer: Answer, token: str = "") -> AnswerWidget:
    from dpnb.display.cards.answer_widget import AnswerWidget

    return AnswerWidget(answer, token=token)


ANSWER = Card(answer_text, answer_html, answer_markdown, plot_answer, _widget)
