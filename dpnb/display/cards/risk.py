"""The risk of an answer as HTML and text. The values are exact.

For a sensitive table, a notebook keeps only a notice. The live picker starts from the same tables
as the static rendering, which is for public tables and for pages that the owner asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from dpnb.answers.price import Price
from dpnb.display import elements
from dpnb.display.cards import Card, risk_tables, words
from dpnb.display.figures import formula_free, row_axes
from dpnb.display.html import info_table_element
from dpnb.display.text import EXACT, stamps
from dpnb.errors import printable
from dpnb.formats import ends_text, figure, percent
from dpnb.privacy.loss import amount_text
from dpnb.results import InfoTable
from dpnb.risk import frames, offers
from dpnb.risk.guesses import LIMIT, at_most_text
from dpnb.risk.nouns import noun
from dpnb.risk.safe_counts import share_at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.risk.choice import Choice, RiskHistogram, Source
    from dpnb.risk.profile import RiskProfile
    from dpnb.risk.safe_counts import SafeCounts

NOTICE = (
    "A private risk picker was shown here. It has exact facts about people, so it is not saved. "
    "Run the cell again to see it."
)
REVEALED = (
    "This page shows exact facts about people: how much single rows, or ids, add to the answer, how many "
    "do, and how exposed they are. Keep it as secret as the data."
)
PUBLIC = "Exact values of a table that is declared public."
UNSEEN = "No exact value is shown yet. Set the limit first."
BADGES: dict[Source, str] = {
    "rule": "Rule fixed in advance: the data were not read.",
    "private": "Private selection.",
    "data": "Chosen by looking at the data.",
}
LIVE = "Exact values, for the owner only. Nothing shown here is saved in the notebook."


def notice_html(token: str = "") -> str:
    """Return the notice that stays in a notebook in place of a picker.

    Parameters
    ----------
    token : str
        Names the live picker that the notice accompanies. While the picker is alive, the notice is
        hidden.
    """
    notice = elements.notes(NOTICE)
    return elements.framed(
        f'<div class="dpnb-body dpnb-risk-notice">{notice}</div>{_folding(token)}'
    )


def risk_html(
    profile: RiskProfile,
    limit: float = LIMIT,
    token: str = "",
    candidates: Sequence[Fraction] | None = None,
) -> str:
    """Return privacy costs, histogram and largest contributions as tables; for public tables.

    Parameters
    ----------
    profile : RiskProfile
    limit : float
        In guesses right of 100.
    token : str
        Names the live picker that this HTML accompanies. While the picker is alive, the HTML is
        folded to one line.
    candidates : sequence of Fraction, optional
        Privacy costs in the session's privacy definition, ascending; a few round ones by default.
    """
    return _framed(_static(profile, limit, candidates, _badge(PUBLIC)) + _folding(token))


def risk_page(profile: RiskProfile, limit: float = LIMIT) -> str:
    """Return the risks for a separate page, with a stamp if they are as secret as the data."""
    return _framed(_static(profile, limit, None, _badge(PUBLIC) if profile.public else _stamp()))


def risk_text(
    profile: RiskProfile,
    limit: float = LIMIT,
    candidates: Sequence[Fraction] | None = None,
) -> str:
    """Return privacy costs and largest contributions for a terminal; for public tables."""
    contents, prices = _shown(profile, limit, candidates)
    threshold, top = contents["thresholds"][contents["first"]], contents["top"]
    rows = tuple(
        (
            risk_tables.named(level),
            level["guesses_text"],
            risk_tables.kept(level["guesses"], threshold["guesses"]),
            level["beyond"][contents["first"]],
            level["indicator"],
            "; ".join(offers.accuracy_texts(price)),
        )
        for level, price in zip(contents["levels"], prices, strict=True)
    )
    head = (
        "privacy cost",
        "guesses right of 100",
        f"limit {threshold['text']}",
        f"{contents['noun']} above",
        "RDR over its floor",
        "margin of error",
    )
    ranges = InfoTable(f"{risk_tables.TITLE} {contents['statement']}", head, rows)
    standing = InfoTable("Who stands out", tuple(top["head"]), tuple(map(tuple, top["rows"])))
    above = [f"{stamp}\n" for stamp in stamps(profile.stamp, False)]
    sentences = [printable(contents["levels"][contents["at"]]["sentence"]), *contents["notes"]]
    return "\n".join([*above, repr(ranges), "", *sentences, "", repr(standing)])


def choice_sentences(choice: Choice) -> list[str]:
    """Return the choice in words, how it was made, and what it cost."""
    cost = "No privacy cost."
    if choice.source == "private":
        cost = words.cost_text(choice.bill)
    badge = BADGES[choice.source]
    if choice.source == "rule" and choice.conditional:
        badge = "Rule fixed in advance. Its terms, or what was spent so far, depend on the data."
    return [choice.sentence, *choice.notes(), badge, cost]


def histogram_sentences(histogram: RiskHistogram) -> list[str]:
    """Return what the confidence intervals guarantee, and what the histogram cost."""
    cost = words.cost_text(histogram.bill)
    sure = percent(histogram.confidence)
    return [words.interval_sentence(sure, len(histogram.counts)), cost]


def counts_sentences(counts: SafeCounts) -> list[str]:
    """Return what safe counts guarantee, how they may be used, and what they cost."""
    cost = words.cost_text(counts.bill)
    if not counts.levels:
        return ["Your limit is used up: it allows no further answer.", cost]
    sure = f"All of this holds at once, with {percent(counts.confidence)} confidence"
    return [
        f"{sure}. Your limit is for all answers together, the last column for this one alone."
        if counts.shared
        else f"{sure}, for each answer on its own.",
        "You may choose a privacy cost from this table if you have seen no exact value.",
        cost,
    ]


def choice_html(choice: Choice) -> str:
    """Return a choice as HTML: its stamps, the choice in words, how it was made, and its cost."""
    sentence, *notes = choice_sentences(choice)
    body = elements.strong(sentence) + elements.notes(*notes)
    stamped = elements.stamped(choice.stamp, choice.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamped}{body}</div>')


def histogram_html(histogram: RiskHistogram) -> str:
    """Return a released histogram as an HTML table, with its guarantee."""
    footnotes = elements.notes(*histogram_sentences(histogram))
    table = info_table_element(histogram_info_table(histogram))
    stamped = elements.stamped(histogram.stamp, histogram.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamped}{table}{footnotes}</div>')


def counts_html(counts: SafeCounts) -> str:
    """Return safe counts as HTML: a line for each privacy cost, their guarantee and their cost."""
    stamped = elements.stamped(counts.stamp, counts.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamped}{counts_body(counts)}</div>')


def counts_body(counts: SafeCounts) -> str:
    """Return safe counts as HTML without styles and stamps."""
    return info_table_element(counts_info_table(counts)) + elements.notes(*counts_sentences(counts))


def picker_body(
    profile: RiskProfile, shown: Mapping[str, Any] | None, prices: Sequence[Price]
) -> str:
    """Return the initial HTML of the live picker, without styles; its script adds the controls.

    Before the owner has looked at exact values, ``shown`` is None, and the HTML has the statement
    but no numbers.
    """
    badge = PUBLIC if profile.public else UNSEEN if shown is None else LIVE
    above = _above(profile, [] if shown is None else shown["notes"], _badge(badge))
    tables = "" if shown is None else risk_tables.ranges(shown, prices) + risk_tables.details(shown)
    return f'<div class="dpnb-body dpnb-risk">{above}{tables}</div>'


def losses_html(lines: Mapping[str, Any], answered: str) -> str:
    """Return what a released answer reveals about single rows, as a table in an open section."""
    meaning = (
        "Loss: the logarithm of how much more likely this answer is with the row than without it. A "
        "positive loss speaks for the row being in the table, a negative one against."
    )
    table = risk_tables.listed(lines, f"By the answer at {answered}")
    footnotes = elements.notes(meaning)
    return elements.opened(
        "What this answer reveals about single rows", table + footnotes, first=True
    )


@cache
def risk_css() -> str:
    """Return the styles of risk, which add to those of every result."""
    return (elements.STATIC / "risk.css").read_text(encoding="utf-8")


def _framed(content: str) -> str:
    return elements.framed(f"<style>{risk_css()}</style>{content}")


def _folding(token: str) -> str:
    """Return the script that folds the static HTML while its picker is alive."""
    return elements.script("notice.js", {}, token) if token else ""


def _shown(
    profile: RiskProfile, limit: float, candidates: Sequence[Fraction] | None
) -> tuple[dict[str, Any], list[Price]]:
    levels = candidates or frames.coarse(profile.privacy)
    return frames.frames(profile, levels, limit), offers.prices(profile, levels)


def _static(
    profile: RiskProfile, limit: float, candidates: Sequence[Fraction] | None, badge: str
) -> str:
    contents, prices = _shown(profile, limit, candidates)
    level = contents["levels"][contents["at"]]
    return (
        f'<div class="dpnb-body dpnb-risk">{_above(profile, contents["notes"], badge)}'
        f"{elements.strong(level['sentence'])}{risk_tables.ranges(contents, prices)}"
        f"{risk_tables.histogram(level, contents['noun'])}{risk_tables.details(contents)}</div>"
    )


def _above(profile: RiskProfile, notes: Sequence[str], badge: str) -> str:
    """Return the title, the statement, the kind of values, and the notes."""
    return (
        f"{elements.stamped(profile.stamp, False)}"
        f"{elements.title(risk_tables.TITLE)}"
        f'<p class="dpnb-risk-statement"><code>{elements.one_line(profile.sql)}</code></p>'
        f"{badge}{elements.notes(*notes)}"
    )


def _badge(badge: str) -> str:
    return elements.notes(badge)


def _stamp() -> str:
    box = "border:2px solid;padding:2px 8px;display:inline-block"
    return f'<p class="dpnb-stamp"><strong style="{box}">{EXACT}</strong></p>'


def histogram_info_table(histogram: RiskHistogram) -> InfoTable:
    """Return the histogram as a table."""
    half = max(histogram.high) - max(histogram.counts)
    rows = tuple(
        (label, figure(count, half), ends_text(low, high, half, counts=True))
        for label, count, low, high in zip(
            histogram.labels(), histogram.counts, histogram.low, histogram.high, strict=True
        )
    )
    who = f"Values of {histogram.ids}" if histogram.ids else "Rows"
    caption = f"{who} by their share of the largest possible contribution"
    return InfoTable(
        caption, ("share", noun(histogram.ids), f"{percent(histogram.confidence)} interval"), rows
    )


def counts_info_table(counts: SafeCounts) -> InfoTable:
    """Return the safe counts as a table."""
    rows = tuple(
        (
            f"{counts.privacy.parameter} {amount_text(line.level, left=True)}",
            f"{line.at_most:,}",
            share_at_most(line.share),
            at_most_text(line.ceiling),
        )
        for line in counts.levels
    )
    limit = at_most_text(counts.limit)
    shared = counts.shared
    head = (
        "privacy cost",
        f"people above {limit} of 100{' from all answers' if shared else ''}, at most",
        "share",
        f"guesses right{' from this answer' if shared else ''}, at most",
    )
    return InfoTable("Safe counts: how many people are above your limit", head, rows)


def choice_text(choice: Choice) -> str:
    """Return a choice for a terminal."""
    return " ".join([*stamps(choice.stamp, choice.conditional), *choice_sentences(choice)])


def histogram_text(histogram: RiskHistogram) -> str:
    """Return a released histogram for a terminal, with its guarantee."""
    above = stamps(histogram.stamp, histogram.conditional)
    table = repr(histogram_info_table(histogram))
    return "\n".join([*above, table, "", *histogram_sentences(histogram)])


def counts_text(counts: SafeCounts) -> str:
    """Return safe counts for a terminal, with their guarantee and their cost."""
    above = stamps(counts.stamp, counts.conditional)
    return "\n".join([*above, repr(counts_info_table(counts)), "", *counts_sentences(counts)])


def plot_risk(profile: RiskProfile, ax: Axes | None = None) -> Axes:
    """Draw how many rows have which share of the largest possible contribution. Exact values.

    Counts are on a logarithmic scale; otherwise the many who add nothing would hide the few who
    stand out.

    Parameters
    ----------
    profile : RiskProfile
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    bins = profile.histogram()
    low, high, rows = bins["r_low"], bins["r_high"], bins[noun(profile.ids)]
    width = high[1] - low[1]
    ax = row_axes(6, ax)
    if rows.any():
        ax.set_yscale("log")
    # a separate bar for those who add nothing
    ax.bar(-1.5 * width, rows[0], width=width, color="grey")
    ax.bar(
        low[1:], rows[1:], width=width, align="edge", color="C0", edgecolor="white", linewidth=0.5
    )
    ax.set_ylim(0.5, max(2.0, 2 * float(rows.max())))
    ax.set_xticks([-1.5 * width, 0.25, 0.5, 0.75, 1], ["none", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xlabel("share of the largest possible contribution to the answer")
    ax.set_ylabel(formula_free(noun(profile.ids)))
    ax.spines[["right", "top"]].set_visible(False)
    lines = [*stamps(profile.stamp, False), *([] if profile.public else [EXACT])]
    ax.set_title("\n".join(lines), loc="left", fontweight="bold")
    return ax


def profile_html(profile: RiskProfile) -> str:
    """Return the risks of a public table; a notice for a sensitive table or a closed profile."""
    return risk_html(profile) if profile.public and not profile.closed else notice_html()


def write_risks(profile: RiskProfile, path: str, limit: float) -> str:
    """Write the risks as a page, and return a warning about what it reveals."""
    elements.write_page(path, risk_page(profile, limit))
    return REVEALED


CHOICE = Card(choice_text, choice_html)
HISTOGRAM = Card(histogram_text, histogram_html)
COUNTS = Card(counts_text, counts_html)
