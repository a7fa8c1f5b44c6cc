"""An explanation as HTML: the verdict, the table, and what may be concluded from it.

As with answers, the table works without scripts and styles. Where scripts run,
``static/explanation.js`` sorts its lines and explains a selected one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpnb.display import elements
from dpnb.display.cards import Card, document_card, explanation_words, words
from dpnb.display.cards.price import price_document
from dpnb.display.cards.question import verdict
from dpnb.display.document import Column, Document, Table
from dpnb.display.figures import finished, formula_free, row_axes
from dpnb.display.marks import GREY, Scale, bar_mark, round_scale
from dpnb.display.text import (
    MAX_ROWS,
    aligned,
    markdown,
    markdown_table,
    stamps,
    strong,
)
from dpnb.errors import printable
from dpnb.explain.influence import RELATIVE_UNIT
from dpnb.explain.unbinned import unbinned_sentence
from dpnb.formats import figure, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.display.cards.explanation_widget import ExplanationWidget
    from dpnb.explain.explanation import Explanation, Row
    from dpnb.explain.price import ExplanationPrice


def explanation_cells(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    """Return the header and the shown lines of an explanation's table as texts."""
    rows = [
        [row.predicate, explanation_words.influence_text(explanation, row), explanation_words.rank_text(explanation, row),
         explanation_words.effect_text(explanation, row)]
        for row in explanation.rows[:MAX_ROWS]
    ]  # fmt: skip
    return ["predicate", "influence", "rank", "effect"], rows


def more_rows(explanation: Explanation) -> str:
    """Return how many table lines are not shown; '' if all are."""
    return words.rest_sentence(len(explanation.rows) - MAX_ROWS, "rows")


def explanation_sentences(explanation: Explanation) -> list[str]:
    """Return the sentences below an explanation, the same in every rendering."""
    texts = (more_rows(explanation), *explanation_words.sentences(explanation))
    return [sentence for sentence in texts if sentence]


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation for a terminal: the verdict, the table, and what it means."""
    above = [f"{stamp}\n" for stamp in stamps(explanation.stamp, explanation.conditional)]
    above += [
        printable(explanation_words.title(explanation)),
        printable(explanation.question.sentence),
        "",
    ]
    grid = aligned(*explanation_cells(explanation), (0, 3))
    return "\n".join([*above, *grid, "", *map(printable, explanation_sentences(explanation))])


def explanation_markdown(explanation: Explanation) -> str:
    """Return an explanation as a Markdown table with its verdict above and its sentences below."""
    stamped = stamps(explanation.stamp, explanation.conditional)
    above = [
        *map(strong, [*stamped, explanation_words.title(explanation)]),
        markdown(explanation.question.sentence),
    ]
    table = markdown_table(*explanation_cells(explanation), (0, 3))
    sentences = map(markdown, explanation_sentences(explanation))
    return "\n\n".join([*above, table, *sentences])


def explanation_html(explanation: Explanation, token: str = "") -> str:
    """Return an explanation as a table that can be sorted where scripts run.

    Parameters
    ----------
    explanation : Explanation
    token : str
        Names the live widget that this HTML accompanies. While the widget is alive, the HTML is
        folded to one line.
    """
    state = {"data": explanation_data(explanation), "selected": -1}
    script = elements.script("explanation.js", state, token)
    return elements.framed(explanation_body(explanation) + script)


def explanation_body(explanation: Explanation) -> str:
    """Return an explanation without styles and scripts: verdict, table, conclusions."""
    influences = _influence_axis(explanation)
    ranks = (0.5, explanation.candidates + 0.5, 1.0)
    body = "".join(
        _predicate_row(explanation, row, influences, ranks) for row in explanation.rows[:MAX_ROWS]
    )
    doubt = elements.said(explanation_words.doubt_sentence(explanation))
    below = (
        elements.said(
            more_rows(explanation),
            explanation_words.noise_sentence(explanation),
            explanation_words.caution_sentence(explanation),
        )
        + _details(
            "How to read this",
            *explanation_words.meaning_sentences(explanation),
            explanation_words.level_sentence(explanation),
            unbinned_sentence(explanation.unbinned),
        )
        + _details("How to make it more precise", explanation_words.advice_sentence(explanation))
        + elements.notes(
            explanation_words.cost_sentence(explanation), words.ledger_note(explanation.bill)
        )
    )
    stamps = elements.stamped(explanation.stamp, explanation.conditional)
    return (
        f'<div class="dpnb-body">{stamps}'
        f"{verdict(explanation.question)}{doubt}"
        f'<table class="dpnb-table dpnb-why">{elements.caption(explanation_words.title(explanation))}'
        f"<thead>{_explanation_head(explanation, influences)}</thead>"
        f"<tbody>{body}</tbody></table>{below}</div>"
    )


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """Return the script's data: the sort keys of the table lines, and a sentence for each line."""
    rows = explanation.rows[:MAX_ROWS]
    return {
        "predicate": [printable(row.predicate) for row in rows],
        "influence": [row.influence_high for row in rows],
        "rank": [row.rank_high for row in rows],
        "said": [printable(explanation_words.row_sentence(explanation, row)) for row in rows],
    }


def _influence_axis(explanation: Explanation) -> Scale:
    rows = explanation.rows[:MAX_ROWS]
    low = min((row.influence_low for row in rows), default=0.0)
    high = max((row.influence_high for row in rows), default=0.0)
    return round_scale(min(low, 0.0), max(high, 0.0), 6)


def _explanation_head(explanation: Explanation, axis: Scale) -> str:
    start, end, step = axis
    times, unit = (100, " %") if explanation.relative else (1, "")
    ends = [f"{figure(times * end, 10 * times * step)}{unit}" for end in (start, end)]
    zero = -100 * start / (end - start)
    # an end is labelled only if the label does not run into the mark at 0
    left = ends[0] if zero > 30 else ""
    right = ends[1] if zero < 70 else ""
    place = "display:inline-block;white-space:nowrap"
    influence_axis = (
        f'<span style="{place};width:{zero:.2f}%">{left}</span>'
        f'<span style="{place};width:{100 - zero:.2f}%">'
        f'<span class="dpnb-zero">0</span><span style="float:right">{right}</span></span>'
    )
    rank_axis = (
        '<span class="dpnb-axis" style="display:flex;justify-content:space-between">'
        f"<span>1</span> <span>{explanation.candidates:,}</span></span>"
    )
    heads = (
        _sorted_head("predicate", "left", ""),
        _sorted_head("influence", "right", explanation_words.influence_unit(explanation)),
        f'<th scope="col" class="dpnb-plot dpnb-signed" style="min-width:100px;text-align:left">{influence_axis}'
        "</th>",
        _sorted_head("rank", "right", f"of {explanation.candidates:,}"),
        f'<th scope="col" class="dpnb-plot dpnb-ranks" style="min-width:70px">{rank_axis}</th>',
    )
    return f"<tr>{''.join(heads)}</tr>"


def _sorted_head(name: str, side: str, unit: str) -> str:
    small = (
        '<span class="dpnb-unit" style="display:block;font-weight:normal">'
        f"{elements.text(unit)}</span>"
    )
    return (
        f'<th scope="col" data-sort="{name}" style="text-align:{side}">{name}'
        f"{small if unit else ''}</th>"
    )


def _predicate_row(explanation: Explanation, row: Row, influences: Scale, ranks: Scale) -> str:
    silent = explanation.effect(row) == "noise"
    unranked = silent or explanation.unranked(row)
    grey = ' class="dpnb-faint" style="opacity:.72"'
    faint, faint_rank = grey if silent else "", grey if unranked else ""
    effect = elements.text(explanation_words.effect_text(explanation, row))
    effect = f"<i>{effect}</i>" if silent else effect
    start, end, _ = influences
    zero = f"{-100 * start / (end - start):.2f}%"
    line = (
        f"background:linear-gradient({GREY},{GREY}) no-repeat {zero} 50%;background-size:1px 300%;"
        "background-origin:content-box"
    )
    interval = elements.text(explanation_words.influence_text(explanation, row))
    place = "text-align:left;white-space:nowrap"
    influence_bar = bar_mark(row.influence_low, row.influence_high, influences, opened=silent)
    rank_bar = bar_mark(row.rank_low - 0.5, row.rank_high + 0.5, ranks, opened=unranked)
    return (
        '<tr><th scope="row" style="text-align:left;font-weight:normal">'
        f"<span{faint}>{elements.text(row.predicate)}"
        f'<span class="dpnb-effect" style="display:block">{effect}</span></span></th>'
        f'<td style="text-align:right"><span{faint}>{interval}</span></td>'
        f'<td class="dpnb-plot dpnb-signed" style="{place};{line};--dpnb-zero:{zero}">{influence_bar}</td>'
        f'<td style="text-align:right"><span{faint_rank}>{explanation_words.rank_text(explanation, row)}</span></td>'
        f'<td class="dpnb-plot dpnb-ranks" style="{place}">{rank_bar}</td></tr>'
    )


def _details(summary: str, *sentences: str) -> str:
    """Return sentences in a collapsible section; '' if there are none."""
    text = "".join(elements.said(sentence, name="dpnb-more") for sentence in sentences)
    return elements.opened(summary, text) if text else ""


def plot_explanation(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw the confidence intervals of influence with 0 marked, one for each shown predicate.

    The ranks are on the right, grey if they are uncertain. Predicates whose influence may be 0 are
    grey and dashed, and their labels say so.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    rows = explanation.rows[:MAX_ROWS]
    ax = row_axes(1.5 * len(rows), ax)
    times = 100 if explanation.relative else 1
    for place, row in enumerate(rows):
        silent = explanation.effect(row) == "noise"
        unranked = silent or explanation.unranked(row)
        ends = [times * row.influence_low, times * row.influence_high]
        color, style = ("grey", (0, (2, 1))) if silent else ("C0", "-")
        ax.plot(ends, [place, place], color=color, linewidth=3, linestyle=style)
        ranks = f"rank {explanation_words.rank_text(explanation, row)}"
        # outside the axes
        ax.annotate(
            ranks, (1, place), (6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", color="grey" if unranked else None,
        )  # fmt: skip
    labels = [
        "\n".join(
            formula_free(text)
            for text in (row.predicate, explanation_words.effect_text(explanation, row))
        )
        for row in rows
    ]
    ax.set_yticks(range(len(rows)), labels)
    for tick, row in zip(ax.get_yticklabels(), rows, strict=True):
        if explanation.effect(row) == "noise":
            tick.set_color("grey")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.axvline(0, color=ax.xaxis.label.get_color(), linewidth=0.8)
    unit = formula_free(explanation_words.influence_unit(explanation))
    ax.set_xlabel(f"influence in {unit}, {percent(explanation.confidence)} confidence intervals")
    return finished(ax, explanation)


def explanation_price(price: ExplanationPrice) -> Document:
    """Return the price of an explanation as a document."""

    def shown(value: float) -> str:
        if price.relative:
            return f"{figure(100 * value, 100 * value)} %"
        return figure(value, value)

    unit = RELATIVE_UNIT.removeprefix("%") if price.relative else ""
    rows = (
        (
            "influence",
            f"margin of error {shown(price.margin_of_error)}{unit} ({percent(price.confidence)} confidence)",
        ),
        ("rank", f"separates influences that differ by {shown(price.resolution)}"),
        ("candidates", f"{price.candidates:,} predicates"),
    )
    default = (
        "You gave no privacy cost: this explanation was already released to you."
        if price.spent.rho == 0
        else "You gave no privacy cost: it would use a fifth of what is left."
    )
    texts = (
        "" if price.valid else "The difference itself could be noise, or goes the other way.",
        "The margin of error is more than three quarters of the difference: the influences would be "
        "mostly noise."
        if price.too_wide
        else "",
        "The smallest group has so few rows that no influence can be larger than its margin of error."
        if price.hopeless
        else "",
        unbinned_sentence(price.unbinned),
        default if price.unsaid else "",
    )
    names, expected = zip(*rows, strict=True)
    table = Table((Column("", names), Column("expected", expected)))
    return price_document(price.bill, price.refusal, [table], texts)


def _widget(explanation: Explanation, token: str = "") -> ExplanationWidget:
    from dpnb.display.cards.explanation_widget import ExplanationWidget

    return ExplanationWidget(explanation, token=token)


EXPLANATION = Card(
    explanation_text, explanation_html, explanation_markdown, plot_explanation, _widget
)
PRICE = document_card(explanation_price)
