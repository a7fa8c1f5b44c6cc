"""The risk of an answer as HTML and text. Exact values: of a sensitive table only a notice is kept.

The live picker starts from the same tables as the static rendering, which is shown of public tables
and in pages that the owner asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from dpnb.answers.listing import Listing, Price
from dpnb.display import elements
from dpnb.display.cards import risk_tables
from dpnb.display.html import listing_table
from dpnb.display.text import EXACT, listing_text, stamps
from dpnb.errors import printable
from dpnb.risk import frames, offers
from dpnb.risk.guesses import LIMIT

if TYPE_CHECKING:
    from dpnb.risk.choice import Choice, RiskHistogram
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
LIVE = "Exact values, for the owner only. Nothing shown here is saved in the notebook."


def notice_html(token: str = "") -> str:
    """Return what stays in a notebook where a picker was.

    Parameters
    ----------
    token : str
        Names the live picker that accompanies the notice, which is hidden while that is alive.
    """
    said = elements.notes(NOTICE)
    return elements.framed(f'<div class="dpnb-body dpnb-risk-notice">{said}</div>{_folding(token)}')


def risk_html(
    profile: RiskProfile,
    limit: float = LIMIT,
    token: str = "",
    candidates: Sequence[Fraction] | None = None,
) -> str:
    """Return levels, histogram and largest contributions as tables; for public tables.

    Parameters
    ----------
    profile : RiskProfile
    limit : float
        In guesses right of 100.
    token : str
        Names the live picker that accompanies this record; while that is alive, the record is folded
        to one line.
    candidates : sequence of Fraction, optional
        Levels in the session's currency, rising; few round ones by default.
    """
    return _framed(_static(profile, limit, candidates, _badge(PUBLIC)) + _folding(token))


def risk_page(profile: RiskProfile, limit: float = LIMIT) -> str:
    """Return the same for a page of its own, stamped when it is as secret as the data."""
    return _framed(_static(profile, limit, None, _badge(PUBLIC) if profile.public else _stamp()))


def risk_text(
    profile: RiskProfile,
    limit: float = LIMIT,
    candidates: Sequence[Fraction] | None = None,
) -> str:
    """Return levels and largest contributions for a terminal; for public tables."""
    shown, prices = _shown(profile, limit, candidates)
    asked, top = shown["thresholds"][shown["first"]], shown["top"]
    rows = tuple(
        (
            risk_tables.named(level),
            level["guesses_text"],
            risk_tables.kept(level["guesses"], asked["guesses"]),
            level["beyond"][shown["first"]],
            level["indicator"],
            "; ".join(offers.accuracy_texts(price)),
        )
        for level, price in zip(shown["levels"], prices, strict=True)
    )
    head = (
        "privacy cost",
        "guesses right of 100",
        f"limit {asked['text']}",
        f"{shown['noun']} above",
        "RDR over its floor",
        "margin of error",
    )
    ranges = Listing(f"{risk_tables.TITLE} {shown['statement']}", head, rows)
    standing = Listing("Who stands out", tuple(top["head"]), tuple(map(tuple, top["rows"])))
    above = [f"{stamp}\n" for stamp in stamps(profile.stamp, False)]
    said = [printable(shown["levels"][shown["at"]]["sentence"]), *shown["notes"]]
    return "\n".join([*above, listing_text(ranges), "", *said, "", listing_text(standing)])


def choice_html(choice: Choice) -> str:
    """Return a choice: its stamps, the level in words, how it came about and what it cost."""
    sentence, *notes = choice.sentences()
    said = elements.strong(sentence) + elements.notes(*notes)
    stamped = elements.stamped(choice.stamp, choice.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamped}{said}</div>')


def histogram_html(histogram: RiskHistogram) -> str:
    """Return a released histogram as a table, and what it promises."""
    said = elements.notes(*histogram.sentences())
    table = listing_table(histogram.listing())
    stamped = elements.stamped(histogram.stamp, histogram.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamped}{table}{said}</div>')


def counts_html(counts: SafeCounts) -> str:
    """Return safe counts: one line for each level, of what they speak, and what they cost."""
    stamped = elements.stamped(counts.stamp, counts.conditional)
    return elements.framed(f'<div class="dpnb-body">{stamped}{counts_body(counts)}</div>')


def counts_body(counts: SafeCounts) -> str:
    """Return the same without styles and stamps."""
    return listing_table(counts.listing()) + elements.notes(*counts.sentences())


def picker_body(
    profile: RiskProfile, shown: Mapping[str, Any] | None, prices: Sequence[Price]
) -> str:
    """Return what the live picker starts from, without styles: its script adds the controls.

    Before the owner has looked, ``shown`` is None: the statement, and no figure.
    """
    badge = PUBLIC if profile.public else UNSEEN if shown is None else LIVE
    above = _above(profile, [] if shown is None else shown["notes"], _badge(badge))
    seen = "" if shown is None else risk_tables.ranges(shown, prices) + risk_tables.details(shown)
    return f'<div class="dpnb-body dpnb-risk">{above}{seen}</div>'


def losses_html(lines: Mapping[str, Any], answered: str) -> str:
    """Return what a released answer reveals about single rows, as a table under a line that opens it."""
    meaning = (
        "Loss: the logarithm of how much more likely this answer is with the row than without it. A "
        "positive loss speaks for the row being in the table, a negative one against."
    )
    table = risk_tables.listed(lines, f"By the answer at {answered}")
    said = elements.notes(meaning)
    return elements.opened("What this answer reveals about single rows", table + said, first=True)


@cache
def risk_css() -> str:
    """Return the styles of risk, which stand beside those of every result."""
    return (elements.STATIC / "risk.css").read_text(encoding="utf-8")


def _framed(content: str) -> str:
    return elements.framed(f"<style>{risk_css()}</style>{content}")


def _folding(token: str) -> str:
    """Return the script that folds a record while its picker lives."""
    return elements.script("notice.js", {}, token) if token else ""


def _shown(
    profile: RiskProfile, limit: float, candidates: Sequence[Fraction] | None
) -> tuple[dict[str, Any], list[Price]]:
    levels = candidates or frames.coarse(profile.currency)
    return frames.frames(profile, levels, limit), offers.prices(profile, levels)


def _static(
    profile: RiskProfile, limit: float, candidates: Sequence[Fraction] | None, badge: str
) -> str:
    shown, prices = _shown(profile, limit, candidates)
    level = shown["levels"][shown["at"]]
    return (
        f'<div class="dpnb-body dpnb-risk">{_above(profile, shown["notes"], badge)}'
        f"{elements.strong(level['sentence'])}{risk_tables.ranges(shown, prices)}"
        f"{risk_tables.histogram(level, shown['noun'])}{risk_tables.details(shown)}</div>"
    )


def _above(profile: RiskProfile, notes: Sequence[str], badge: str) -> str:
    """Return the title, the statement, and what kind of values these are."""
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
