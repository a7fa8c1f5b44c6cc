"""A risk profile as HTML tables, from its frames; text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpnb.answers.price import Price
from dpnb.display import elements
from dpnb.display.marks import GREY, bar_mark
from dpnb.formats import percent
from dpnb.risk.frames import within
from dpnb.risk.guesses import COIN
from dpnb.risk.offers import accuracy_texts

TITLE = "Who would this answer expose?"
_READING = (
    "Guesses right of 100: how often the best guess of whether a person is in the table is right. The "
    "guesser sees the answer, knows everybody else's data and starts from a coin toss. 50 is a coin toss, "
    "100 is certain.",
    "Someone who adds nothing to the answer is guessed no better than by a coin toss. This hides whether "
    "they are in the table, not what their value is. Guessing which of two values someone has can succeed "
    "more often.",
    "A row is not a person: someone with several rows is guessed more easily.",
    "The indicator (RDR) is the expected distance of a noisy answer from the answer without one row, or "
    "without all rows of one protected id. It is shown as a multiple of its floor, the indicator of someone "
    "who adds nothing.",
    "A smaller margin of error exposes more.",
)
_LEFT, _RIGHT = "text-align:left", "text-align:right"


def ranges(shown: Mapping[str, Any], prices: Sequence[Price]) -> str:
    """Return a line for each privacy cost: guesses right of 100, rows above the limit, accuracy."""
    limit = shown["thresholds"][shown["first"]]
    delta, sure = shown["levels"][0]["delta"], percent(prices[0].confidence)
    beside = _unit(f"ε at {delta}") if delta else ""
    heads = (
        f'<th scope="col" style="{_LEFT}">privacy cost{beside}</th>',
        f'<th scope="col" class="dpnb-plot" style="min-width:110px;{_LEFT}">{_axis(limit)}</th>',
        f'<th scope="col" style="{_RIGHT}">at most{_unit("RDR over its floor")}</th>',
        f'<th scope="col" style="{_RIGHT}">{elements.text(shown["noun"])} above{_unit("the limit")}</th>',
        f'<th scope="col" style="{_RIGHT}">margin of error{_unit(f"{sure} confidence")}</th>',
    )
    body = "".join(_range(shown, at, price) for at, price in enumerate(prices))
    caption = elements.caption("What an answer would expose at each privacy cost", part=True)
    return (
        f'<table class="dpnb-table dpnb-risk-range">{caption}<thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def histogram(level: Mapping[str, Any], noun: str) -> str:
    """Return the non-empty bins at one level, with bars for the logarithms of their counts."""
    lines = _bins(level)
    if not lines:
        return ""
    most = 1 + math.log10(max(count for _, count in lines))
    body = "".join(
        f'<tr>{elements.row_head(label)}<td style="{_RIGHT}">{count:,}</td>'
        f'<td class="dpnb-plot" style="min-width:110px;{_LEFT}">'
        f"{bar_mark(0.0, 1 + math.log10(count), (0.0, most, most), opened=False)}</td></tr>"
        for label, count in lines
    )
    caption = elements.caption(f"How easily {noun} are guessed, at {named(level)}", part=True)
    heads = (
        f'<th scope="col" style="{_LEFT}">guesses right of 100</th>'
        f'<th scope="col" style="{_RIGHT}">{elements.text(noun)}</th>'
        f'<th scope="col" class="dpnb-plot" style="{_LEFT}">{_unit("logarithmic")}</th>'
    )
    largest = f"Most easily guessed: {level['guesses_text']} of 100, {level['most']}."
    return (
        f'<table class="dpnb-table dpnb-risk-bins">{caption}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>{elements.notes(largest)}"
    )


def details(shown: Mapping[str, Any]) -> str:
    """Return who stands out, the groups, and how to read all this, in collapsible sections."""
    reading = "".join(elements.said(sentence, name="dpnb-more") for sentence in _READING)
    standing = elements.opened(
        "Who stands out", listed(shown["top"], "Largest contributions to the answer"), first=True
    )
    return f"{standing}{_groups(shown)}{elements.opened('How to read this', reading)}"


def listed(found: Mapping[str, Any], caption: str, name: str = "") -> str:
    """Return a table of texts; on narrow pages each cell shows its column head."""
    sides = [_RIGHT if number else _LEFT for number in found["numbers"]]
    head = "".join(
        f'<th scope="col" style="{side}">{elements.text(title)}</th>'
        for title, side in zip(found["head"], sides, strict=True)
    )
    body = [
        "<tr>"
        + "".join(
            f'<td data-head="{elements.text(title)}" style="{side}">{elements.one_line(cell)}</td>'
            for title, cell, side in zip(found["head"], line, sides, strict=True)
        )
        + "</tr>"
        for line in found["rows"]
    ]
    if not body:
        return elements.said("There are no rows.")
    if found.get("hidden"):
        note = f"… {found['hidden']:,} lines between these are in profile.signed_losses …"
        body.insert(len(body) // 2, f'<tr><td colspan="{len(sides)}">{note}</td></tr>')
    return (
        f'<table class="dpnb-table dpnb-listing {name}">{elements.caption(caption, part=True)}'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def named(level: Mapping[str, Any]) -> str:
    """Return a privacy cost in the session's privacy definition, with its epsilon and delta."""
    beside = f" ({level['epsilon']} at {level['delta']})" if level["epsilon"] else ""
    return f"{level['name']}{beside}"


def kept(found: float, limit: float) -> str:
    """Return whether guesses right of 100 are within a limit, as a word with a mark."""
    return "✓ within" if within(found, limit) else "✗ above"


def _range(shown: Mapping[str, Any], at: int, price: Price) -> str:
    level, limit = shown["levels"][at], shown["thresholds"][shown["first"]]
    word = kept(level["guesses"], limit["guesses"])
    bar = bar_mark(COIN, level["guesses"], (COIN, 100.0, 50.0), opened=False)
    place = f"{_place(limit):.2f}%"
    line = (
        f"background:linear-gradient({GREY},{GREY}) no-repeat {place} 50%;background-size:2px 200%;"
        f"background-origin:content-box;--dpnb-limit:{place}"
    )
    accuracy = "<br>".join(map(elements.text, accuracy_texts(price)))
    attributes = ' aria-current="true"' if at == shown["at"] else ""
    attributes += ' class="dpnb-risk-beyond"' if word.startswith("✗") else ""
    beside = _unit(level["epsilon"].replace("epsilon", "ε")) if level["epsilon"] else ""
    return (
        f'<tr{attributes}><th scope="row" style="{_LEFT};font-weight:normal">'
        f"<span>{level['name']} {beside}</span></th>"
        f'<td class="dpnb-plot" style="{_LEFT};white-space:nowrap;{line}">{bar}</td>'
        f'<td style="{_RIGHT}">{level["guesses_text"]} '
        f'<span data-kept="" style="white-space:nowrap">{word}</span>{_unit(level["indicator"])}</td>'
        f'<td data-beyond="" style="{_RIGHT}">{elements.one_line(level["beyond"][shown["first"]])}</td>'
        f'<td data-accuracy="" style="{_RIGHT}">{accuracy}</td></tr>'
    )


def _axis(limit: Mapping[str, Any]) -> str:
    """Return the head of the guesses column: its title, the ends of the axis, and the limit."""
    place = _place(limit)
    if place > 50:
        where = f"padding-right:{100 - place:.2f}%;{_RIGHT}"
    else:
        where = f"padding-left:{max(0.0, place):.2f}%;{_LEFT}"
    return (
        'guesses right of 100<span class="dpnb-unit" style="display:flex;justify-content:space-between;'
        'font-weight:normal"><span>50, a coin toss</span> <span>100</span></span>'
        f'<span class="dpnb-unit" data-limit="" style="display:block;font-weight:normal;{where}">'
        f"limit {limit['text']}</span>"
    )


def _place(limit: Mapping[str, Any]) -> float:
    """Return the position of the limit on the axis from 50 to 100, in percent."""
    return 100 * (float(limit["guesses"]) - COIN) / COIN


def _bins(level: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return names and counts of the non-empty bins."""
    width = COIN / len(level["counts"])
    lines = [("50, adds nothing", int(level["floor"]))] if level["floor"] else []
    for i, count in enumerate(level["counts"]):
        if count:
            low, high = COIN + i * width, COIN + (i + 1) * width
            lines.append((f"{low:g} to {high:g}", int(count)))
    return lines


def _groups(shown: Mapping[str, Any]) -> str:
    groups = shown["groups"]
    if groups is None:
        return ""
    at, by, limit = shown["at"], groups["by"], shown["first"]
    columns = (
        groups["names"], groups["rows"], groups["beyond"][at][limit], groups["guesses"][at],
        groups["indicator"][at],
    )  # fmt: skip
    listing = {
        "head": [
            by,
            "rows",
            "above your limit",
            "most guesses right",
            "largest RDR over its floor",
        ],
        "numbers": [False, True, True, True, True],
        "rows": [list(line) for line in zip(*columns, strict=True)],
    }
    more = f"{groups['hidden']:,} more groups are not listed." if groups["hidden"] else ""
    table = listed(listing, f"How easily {shown['noun']} are guessed, by {by}", "dpnb-risk-groups")
    return elements.opened(f"Groups by {by}", table + elements.notes(more), first=True)


def _unit(value: str, data: str = "") -> str:
    attributes = f' data-{data}=""' if data else ""
    return (
        f'<span class="dpnb-unit"{attributes} style="display:block;font-weight:normal">'
        f"{elements.text(value)}</span>"
    )
