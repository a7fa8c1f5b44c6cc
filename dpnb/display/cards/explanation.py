"""An explanation as HTML: the verdict, the table, and what may be concluded from it.

As with answers, the table stands without scripts and styles. Where scripts run,
``static/explanation.js`` sorts its rows and says what one of them means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpnb.display import elements
from dpnb.display.html import verdict
from dpnb.display.marks import GREY, Scale, bar_mark, round_scale
from dpnb.display.text import MAX_ROWS, more_rows
from dpnb.errors import printable
from dpnb.explain.unbinned import unbinned_sentence
from dpnb.formats import figure

if TYPE_CHECKING:
    from dpnb.explain.explanation import Explanation, Row


def explanation_html(explanation: Explanation, token: str = "") -> str:
    """Return an explanation as a table that can be sorted where scripts run.

    Parameters
    ----------
    explanation : Explanation
    token : str
        Names the live widget that accompanies this record; while that is alive, the record is
        folded to one line.
    """
    state = {"data": explanation_data(explanation), "selected": -1}
    script = elements.script("explanation.js", state, token)
    return elements.framed(explanation_body(explanation) + script)


def explanation_body(explanation: Explanation) -> str:
    """Return an explanation without styles and scripts: verdict, table, what may be concluded."""
    influences = _influence_axis(explanation)
    ranks = (0.5, explanation.candidates + 0.5, 1.0)
    body = "".join(
        _predicate_row(explanation, row, influences, ranks) for row in explanation.rows[:MAX_ROWS]
    )
    doubt = elements.said(explanation.doubt_sentence())
    below = (
        elements.said(
            more_rows(explanation), explanation.noise_sentence(), explanation.caution_sentence()
        )
        + _details(
            "How to read this",
            *explanation.meaning_sentences(),
            explanation.level_sentence(),
            unbinned_sentence(explanation.unbinned),
        )
        + _details("How to make it more precise", explanation.advice_sentence())
        + elements.notes(explanation.cost_sentence(), explanation.note())
    )
    stamps = elements.stamped(explanation.stamp, explanation.conditional)
    return (
        f'<div class="dpnb-body">{stamps}'
        f"{verdict(explanation.question)}{doubt}"
        f'<table class="dpnb-table dpnb-why">{elements.caption(explanation.title)}'
        f"<thead>{_explanation_head(explanation, influences)}</thead>"
        f"<tbody>{body}</tbody></table>{below}</div>"
    )


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """Return what the script needs: what rows are sorted by, and a sentence for each."""
    rows = explanation.rows[:MAX_ROWS]
    return {
        "predicate": [printable(row.predicate) for row in rows],
        "influence": [row.influence_high for row in rows],
        "rank": [row.rank_high for row in rows],
        "said": [printable(explanation.row_sentence(row)) for row in rows],
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
    # 0 is marked, and the ends where there is room beside it
    left = ends[0] if zero > 30 else ""
    right = ends[1] if zero < 70 else ""
    place = "display:inline-block;white-space:nowrap"
    marked = (
        f'<span style="{place};width:{zero:.2f}%">{left}</span>'
        f'<span style="{place};width:{100 - zero:.2f}%">'
        f'<span class="dpnb-zero">0</span><span style="float:right">{right}</span></span>'
    )
    ranked = (
        '<span class="dpnb-axis" style="display:flex;justify-content:space-between">'
        f"<span>1</span> <span>{explanation.candidates:,}</span></span>"
    )
    heads = (
        _sorted_head("predicate", "left", ""),
        _sorted_head("influence", "right", explanation.influence_unit),
        f'<th scope="col" class="dpnb-plot dpnb-signed" style="min-width:100px;text-align:left">{marked}'
        "</th>",
        _sorted_head("rank", "right", f"of {explanation.candidates:,}"),
        f'<th scope="col" class="dpnb-plot dpnb-ranks" style="min-width:70px">{ranked}</th>',
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
    silent = explanation.indistinct(row)
    faint = ' class="dpnb-faint" style="opacity:.72"' if silent else ""
    effect = elements.text(explanation.effect_text(row))
    effect = f"<i>{effect}</i>" if silent else effect
    start, end, _ = influences
    zero = f"{-100 * start / (end - start):.2f}%"
    line = (
        f"background:linear-gradient({GREY},{GREY}) no-repeat {zero} 50%;background-size:1px 300%;"
        "background-origin:content-box"
    )
    interval = elements.text(explanation.influence_text(row))
    place = "text-align:left;white-space:nowrap"
    drawn = bar_mark(row.influence_low, row.influence_high, influences, opened=silent)
    ranked = bar_mark(row.rank_low - 0.5, row.rank_high + 0.5, ranks, opened=silent)
    return (
        '<tr><th scope="row" style="text-align:left;font-weight:normal">'
        f"<span{faint}>{elements.text(row.predicate)}"
        f'<span class="dpnb-effect" style="display:block">{effect}</span></span></th>'
        f'<td style="text-align:right"><span{faint}>{interval}</span></td>'
        f'<td class="dpnb-plot dpnb-signed" style="{place};{line};--dpnb-zero:{zero}">{drawn}</td>'
        f'<td style="text-align:right"><span{faint}>{explanation.rank_text(row)}</span></td>'
        f'<td class="dpnb-plot dpnb-ranks" style="{place}">{ranked}</td></tr>'
    )


def _details(summary: str, *said: str) -> str:
    """Return sentences under a line that opens them; nothing where there is none."""
    text = "".join(elements.said(sentence, name="dpnb-more") for sentence in said)
    return elements.opened(summary, text) if text else ""
