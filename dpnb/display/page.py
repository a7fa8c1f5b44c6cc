"""A document as HTML: markup that says everything without scripts and styles.

``static/tokens.css`` and ``static/card.css`` draw it (docs/design/cards.md). Where a page drops
styles, titles, tables and sentences are left, with their numbers as text.
"""

from __future__ import annotations

import re
from functools import cache

from dpnb.display.document import (
    Column,
    Document,
    Facts,
    Foot,
    Note,
    Part,
    Table,
    Track,
    Words,
    plain,
)
from dpnb.display.elements import STATIC
from dpnb.display.elements import text as escaped
from dpnb.display.text import SHORT, lines_of

LONG = 40
"""A text of more letters has a line of its own where the card is narrow."""
UNSURE = '<li class="dp-q">'
_SMALL = re.compile(r"(?<![\w.])[\d.]+e-\d+")


@cache
def styles() -> str:
    """Return the style sheet of all cards."""
    sheets = ((STATIC / name).read_text(encoding="utf-8") for name in ("tokens.css", "card.css"))
    return "\n".join(sheets)


def document_html(shown: Document) -> str:
    """Return a result as HTML, with its styles."""
    # pages that typeset formulas would read names with dollar signs as formulas
    classes = ["dp", "mathjax_ignore", "tex2jax_ignore"]
    if any(banner.generated for banner in shown.banners):
        classes.append("dp-fake")
    # in a box also where styles are dropped
    banners = "".join(
        '<p class="dp-banner"><strong style="border:2px solid;padding:2px 8px">'
        f"{text(banner.text)}</strong></p>"
        for banner in shown.banners
    )
    kind = f'<p class="dp-eye">{text(shown.kind)}</p>' if shown.kind else ""
    findings = "".join(
        f"{'<li>' if one.certain else UNSURE}<span>{sentence(one.words)}</span></li>"
        for one in shown.findings
    )
    said = f'<ul class="dp-say">{findings}</ul>' if findings else ""
    title = f'<p class="dp-title"><b>{sentence(shown.title)}</b></p>'
    body = "".join(map(_part, shown.parts))
    fine = "".join(f"<p>{sentence(one)}</p>" for one in shown.fine)
    if shown.foot is None and fine:
        body += f'<div class="dp-note">{fine}</div>'
    body = f'<div class="dp-body">{body}</div>' if body else ""
    return (
        f'<article class="{" ".join(classes)}" aria-label="{escaped(plain(shown.title))}">'
        f'<style>{styles()}</style><div class="dp-card">{banners}'
        f'<div class="dp-head">{kind}{title}{said}</div>'
        f"{body}{'' if shown.foot is None else _foot(shown.foot, fine)}</div></article>"
    )


def text(value: str) -> str:
    """Return a text escaped for HTML; a number stays on one line."""
    return _SMALL.sub(lambda found: f'<span class="dp-short">{found[0]}</span>', escaped(value))


def sentence(words: Words) -> str:
    """Return a sentence as HTML."""
    return "".join(
        f"<b>{text(span.text)}</b>" if span.style == "strong" else text(span.text) for span in words
    )


def _part(part: Part) -> str:
    match part:
        case Table():
            return _table(part)
        case Track():
            return _track(part, large=True) + f'<p class="dp-note">{sentence(part.words)}</p>'
        case Facts():
            pairs = (
                f"<div><dt>{text(name)}</dt><dd>{sentence(said)}</dd></div>"
                for name, said in part.pairs
            )
            return f'<dl class="dp-facts">{"".join(pairs)}</dl>'
        case Note():
            return f'<p class="dp-note">{sentence(part.words)}</p>'


def _table(table: Table) -> str:
    if not len(table):
        return ""
    named = f"<caption>{text(table.name)}</caption>" if table.name else ""
    head = "".join(map(_head, table.columns))
    lines = (
        "".join(
            _cell(*pair, place) for place, pair in enumerate(zip(table.columns, line, strict=True))
        )
        for line in lines_of(table)
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    long = any(len(cell) > LONG for column in table.columns for cell in column.values)
    kind = ' class="dp-long"' if long else ""
    return f"<table{kind}>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _head(column: Column) -> str:
    if not column.head:
        return '<td style="width:1%"></td>'
    return f'<th scope="col"{_style(column)}>{text(column.head)}</th>'


def _cell(column: Column, value: str, place: int) -> str:
    short = ' class="dp-short"' if len(value) <= SHORT else ""
    shown = text(value)
    if place == 0 and column.head:
        return f'<th scope="row"{short}{_style(column)}>{shown}</th>'
    return f"<td{short}{_style(column)}>{shown}</td>"


def _style(column: Column) -> str:
    return f' style="text-align:{"right" if column.end else "left"}"'


def _track(track: Track, *, large: bool = False) -> str:
    name = plain(track.words)
    parts = ((track.spent, ""), (track.now, ' class="dp-now"'))
    spans = "".join(
        f'<span{kind} style="--p:{100 * share:.2f}"></span>' for share, kind in parts if share > 0
    )
    size = " dp-large" if large else ""
    return f'<div class="dp-track{size}" role="img" aria-label="{escaped(name)}">{spans}</div>'


def _foot(foot: Foot, fine: str) -> str:
    left = f'<div class="dp-bud">{_track(foot.left)}<span>{sentence(foot.left.words)}</span></div>'
    sure = f"<div>{sentence(foot.sure)}</div>" if foot.sure else ""
    more = (
        '<details class="dp-more"><summary data-lm-suppress-shortcuts="true">More</summary>'
        f"<div>{fine}</div></details>"
    )
    return f'<div class="dp-foot"><div>{sentence(foot.cost)}</div>{left}{sure}{more if fine else ""}</div>'
