"""The provenance table as HTML, for the owner: how much was released to whom.

Tables that need neither scripts nor styles come first; the live view starts from the same tables.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.cards import Card
from dpnb.display.cards import provenance_tables as tables
from dpnb.display.cards.provenance_timeline import timeline
from dpnb.display.cards.provenance_words import (
    coalition_sentence,
    fairness_sentences,
    provenance_text,
    reading_sentences,
    share,
    summary_sentences,
)
from dpnb.display.marks import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.display.cards.provenance_widget import ProvenanceWidget
    from dpnb.owner.report import Provenance


def provenance_html(provenance: Provenance) -> str:
    """Return the provenance table as HTML that a notebook can keep."""
    style = f"<style>{provenance_css()}</style>"
    return elements.framed(f"{style}{provenance_body(provenance)}")


def provenance_body(provenance: Provenance) -> str:
    """Return the provenance table as HTML without styles."""
    first, *rest = summary_sentences(provenance)
    part = share(provenance, provenance.spent, provenance.cap)
    groups = tables.coalition_table(provenance)
    if groups:
        groups = (
            f"{elements.section('If analysts share their answers')}"
            f"{elements.notes(coalition_sentence(provenance))}{groups}"
        )
    reading = "".join(
        elements.said(sentence, name="dpnb-more") for sentence in reading_sentences(provenance)
    )
    return (
        '<div class="dpnb-body dpnb-prov">'
        f"{elements.title('How much was released to each analyst?')}{elements.strong(first)}"
        f"{elements.meter(part)}"
        f"{elements.notes(*rest)}{tables.analysts(provenance)}{_heat(provenance)}"
        f"{timeline(provenance)}{tables.charge_list(provenance)}{_fairness(provenance)}"
        f'<div class="dpnb-prov-coalitions">{groups}</div>'
        f"{tables.rule_list(provenance)}{elements.opened('How to read this', reading)}</div>"
    )


def _heat(provenance: Provenance) -> str:
    heat = tables.heat_map(provenance)
    if not heat:
        return ""
    note = elements.notes(tables.heat_note(provenance, tables.units(provenance)[0]))
    return f'<div class="dpnb-prov-map">{heat}</div>{note}{tables.column_list(provenance)}'


def _fairness(provenance: Provenance) -> str:
    """Return how far answers went to privileged analysts, as a mark on a scale and in words."""
    if len(provenance.rows) < 2:
        return ""
    fairness, ends, equal = provenance.ndcfg, provenance.ndcfg_range, provenance.ndcfg_even
    drawing = ""
    if fairness is not None and equal is not None and ends is not None and ends[1] > ends[0]:
        place, even = (
            f"{100 * (score - ends[0]) / (ends[1] - ends[0]):.2f}%" for score in (fairness, equal)
        )
        drawing = (
            '<div class="dpnb-line" style="max-width:520px"><div class="dpnb-prov-scale" '
            f'style="position:relative;height:12px;border-bottom:1px solid {GREY}">'
            f'<span class="dpnb-mark" style="position:absolute;left:{place};bottom:-5px;width:10px;'
            f'height:10px;margin-left:-5px;border-radius:5px;background:{GREY}"></span>'
            f'<i class="dpnb-prov-even" style="left:{even}" data-label="equal numbers"></i></div>'
            '<div class="dpnb-ends" style="display:flex;justify-content:space-between">'
            f"<span>{ends[0]:.2f}</span> <span>{ends[1]:.2f}</span></div></div>"
        )
    return (
        f"{elements.section('Fairness: who got answers')}"
        f"{drawing}{elements.notes(*fairness_sentences(provenance))}"
    )


@cache
def provenance_css() -> str:
    """Return the styles of provenance, which add to those of every result."""
    return (elements.STATIC / "provenance.css").read_text(encoding="utf-8")


def _plot(provenance: Provenance, ax: Axes | None) -> Axes:
    from dpnb.display.cards.provenance_figure import plot_provenance

    return plot_provenance(provenance, ax)


def _widget(provenance: Provenance) -> ProvenanceWidget:
    from dpnb.display.cards.provenance_widget import ProvenanceWidget

    return ProvenanceWidget(provenance)


PROVENANCE = Card(provenance_text, provenance_html, plot=_plot, widget=_widget)
