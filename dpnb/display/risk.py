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
from dpnb.display import parts, risk_tables
from dpnb.display.html import listing_table
from dpnb.display.text import EXACT, listing_text, stamps
from dpnb.errors import printable
from dpnb.risk import frames, offers
from dpnb.stamps import Stamp

if TYPE_CHECKING:
    from dpnb.risk.choice import Choice, RiskHistogram
    from dpnb.risk.profile import RiskProfile
    from dpnb.risk.safe_counts import SafeCounts

NOTICE = (
    "A private risk picker was here. It shows exact facts about persons, so nothing of it is kept; "
    "run the cell again to see it."
)
REVEALED = (
    "The page shows exact facts about persons: how much single rows, or ids, add to the answer, how many "
    "do, and how exposed they are. Keep it as secret as the data."
)
PUBLIC = "Exact values of a table that is declared public."
LIVE = "Exact values, for the owner's eyes: nothing shown here is stored in the notebook."


def notice_html(token: str = "") -> str:
    """Return what stays in a notebook where a picker was.

    Parameters
    ----------
    token : str
        Names the live picker that accompanies the notice, which is hidden while that is alive.
    """
    said = parts.notes(NOTICE)
    return parts.framed(f'<div class="dpnb-body dpnb-risk-notice">{said}</div>{_folding(token)}')


def risk_html(
    profile: RiskProfile,
    tau: float = 0.95,
    token: str = "",
    candidates: Sequence[Fraction] | None = None,
) -> str:
    """Return ranges, histogram and largest contributions as tables; for public tables.

    Parameters
    ----------
    profile : RiskProfile
    tau : float
        The threshold of floor / max.
    token : str
        Names the live picker that accompanies this record; while that is alive, the record is folded
        to one line.
    candidates : sequence of Fraction, optional
        Levels in the session's currency, rising; few round ones by default.
    """
    return _framed(_static(profile, tau, candidates, _badge(PUBLIC)) + _folding(token))


def risk_page(profile: RiskProfile, tau: float = 0.95) -> str:
    """Return the same for a page of its own, stamped when it is as secret as the data."""
    return _framed(_static(profile, tau, None, _badge(PUBLIC) if profile.public else _stamp()))


def risk_text(profile: RiskProfile, tau: float = 0.95) -> str:
    """Return ranges and largest contributions for a terminal; for public tables."""
    shown, prices = _shown(profile, tau, None)
    limit, top = shown["thresholds"][shown["first"]], shown["top"]
    rows = tuple(
        (
            risk_tables.named(level),
            level["high_text"],
            level["ratio_text"],
            risk_tables.kept(level["ratio"], limit["tau"]),
            level["beyond"][shown["first"]],
            "; ".join(offers.accuracy_texts(price)),
        )
        for level, price in zip(shown["levels"], prices, strict=True)
    )
    asked_for = risk_tables.asked_for(limit)
    head = (
        "level",
        "largest indicator",
        "floor / max",
        asked_for,
        f"{shown['noun']} beyond",
        "accuracy",
    )
    ranges = Listing(f"{risk_tables.TITLE} {shown['statement']}", head, rows)
    standing = Listing("Who stands out", tuple(top["head"]), tuple(map(tuple, top["rows"])))
    above = [f"{stamp}\n" for stamp in stamps(profile.stamp, False)]
    said = [printable(shown["levels"][shown["at"]]["sentence"]), *shown["notes"]]
    return "\n".join([*above, listing_text(ranges), "", *said, "", listing_text(standing)])


def choice_html(choice: Choice) -> str:
    """Return a choice: its stamps, the level in words, how it came about and what it cost."""
    sentence, *notes = choice.sentences()
    said = parts.strong(sentence) + parts.notes(*notes)
    stamped = parts.stamped(choice.stamp, choice.conditional)
    return parts.framed(f'<div class="dpnb-body">{stamped}{said}</div>')


def histogram_html(histogram: RiskHistogram) -> str:
    """Return a released histogram as a table, and what it promises."""
    said = parts.notes(*histogram.sentences())
    table = listing_table(histogram.listing())
    stamped = parts.stamped(histogram.stamp, histogram.conditional)
    return parts.framed(f'<div class="dpnb-body">{stamped}{table}{said}</div>')


def counts_html(counts: SafeCounts) -> str:
    """Return safe counts: one line for each level, of what they speak, and what they cost."""
    said = parts.notes(*counts.sentences())
    stamped = parts.stamped(counts.stamp, counts.conditional)
    table = listing_table(counts.listing())
    return parts.framed(f'<div class="dpnb-body">{stamped}{table}{said}</div>')


def picker_body(shown: Mapping[str, Any], prices: Sequence[Price], *, stamp: Stamp = "") -> str:
    """Return what the live picker starts from, without styles: its script adds the controls."""
    above = _above(shown, _badge(PUBLIC if shown["public"] else LIVE), stamp)
    return (
        f'<div class="dpnb-body dpnb-risk">{above}{risk_tables.ranges(shown, prices)}'
        f"{risk_tables.details(shown)}</div>"
    )


def losses_html(lines: Mapping[str, Any], answered: str) -> str:
    """Return what a released answer tells about single rows, as a table under a line that opens it."""
    meaning = (
        "loss: ln of how much likelier this very answer is with the row than without it. Above 0 it "
        "speaks for the row being in the table, below 0 against."
    )
    table = risk_tables.listed(lines, f"By the answer at {answered}")
    said = parts.notes(meaning)
    return parts.opened("What this answer tells about single rows", table + said, first=True)


@cache
def risk_css() -> str:
    """Return the styles of risk, which stand beside those of every result."""
    return (parts.STATIC / "risk.css").read_text(encoding="utf-8")


def _framed(content: str) -> str:
    return parts.framed(f"<style>{risk_css()}</style>{content}")


def _folding(token: str) -> str:
    """Return the script that folds a record while its picker lives."""
    return parts.script("notice.js", {}, token) if token else ""


def _shown(
    profile: RiskProfile, tau: float, candidates: Sequence[Fraction] | None
) -> tuple[dict[str, Any], list[Price]]:
    levels = candidates or frames.coarse(profile.currency)
    return frames.frames(profile, levels, tau), offers.prices(profile, levels)


def _static(
    profile: RiskProfile, tau: float, candidates: Sequence[Fraction] | None, badge: str
) -> str:
    shown, prices = _shown(profile, tau, candidates)
    level = shown["levels"][shown["at"]]
    return (
        f'<div class="dpnb-body dpnb-risk">{_above(shown, badge, profile.stamp)}'
        f"{parts.strong(level['sentence'])}{risk_tables.ranges(shown, prices)}"
        f"{risk_tables.histogram(level, shown['noun'])}{risk_tables.details(shown)}</div>"
    )


def _above(shown: Mapping[str, Any], badge: str, stamp: Stamp) -> str:
    """Return the title, the statement, and what kind of values these are."""
    return (
        f"{parts.stamped(stamp, False)}"
        f"{parts.title(risk_tables.TITLE)}"
        f'<p class="dpnb-risk-statement"><code>{parts.text(shown["statement"])}</code></p>'
        f"{badge}{parts.notes(*shown['notes'])}"
    )


def _badge(badge: str) -> str:
    return parts.notes(badge)


def _stamp() -> str:
    box = "border:2px solid;padding:2px 8px;display:inline-block"
    return f'<p class="dpnb-stamp"><strong style="{box}">{EXACT}</strong></p>'
