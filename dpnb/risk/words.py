"""What rho or epsilon means for the person who stands out most, in words.

These are exact facts, for the owner only.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpnb.formats import loss_text, rounded_up
from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss
from dpnb.risk.guesses import OVER, about_text, at_most_text
from dpnb.risk.indicator import expected_size
from dpnb.risk.rows import Rows

_SIGMAS = 2.5758293035489004
"""A normal variable stays within this many standard deviations with probability 0.99."""


MILLION = "over a million"
"""Larger factors mean nothing to anybody."""


def factor(value: float) -> str:
    """Return a factor of 1 or more with three significant digits."""
    if value >= 1e6:
        return MILLION
    return f"{value:.3f}" if value < 1.1 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def bounded(words: str, value: float, digits: int = 3) -> str:
    """Return ``words`` and a bound on a factor, rounded up; no number for a million or more.

    Examples
    --------
    >>> bounded("at most", 2.0137), bounded("less than", 1.05), bounded("at most", 2e6)
    ('at most 2.02', 'less than 1.05', 'perhaps over a million')
    """
    if value >= 1e6:
        return f"perhaps {MILLION}"
    up = rounded_up(value, 4 if value < 1.1 else digits)
    return f"{words} {int(up) if up == int(up) else up:,}"


def odds(loss: float, rows: Rows) -> str:
    """Return how an answer shifts the odds that a row or id with the given loss is in the table.

    Laplace noise: by at most e^loss. Gaussian noise: the logarithm is N(rho, 2 rho)
    (docs/methods/rdr.md, theorems 3 and 4).
    If other releases count in full, only the tail bounds of zCDP hold: each tail lies beyond
    rho + 2 sqrt(rho ln(1/a)) with probability at most a (Bun and Steinke 2016, Lemma 3.5; the lower
    tail by the same argument with the two tables exchanged).
    """
    if rows.pure:
        return f"by a factor of {bounded('at most', math.exp(min(loss, 700)))}"
    if rows.constant:
        rare = math.exp(min(loss + 2 * math.sqrt(loss * math.log(200)), 700))
        return f"by a factor of {bounded('less than', rare)} in 99 of 100 answers"
    typical = math.exp(min(expected_size(loss, ZCDP), 700))
    rare = math.exp(min(loss + _SIGMAS * math.sqrt(2 * loss), 700))
    most = "at most " if rows.steps else ""
    return (
        f"by a factor of {most}about {factor(typical)} in a typical answer, and of "
        f"{bounded('less than', rare)} in 99 of 100 answers"
    )


def sentence(rows: Rows, level: float, delta: Fraction | None) -> str:
    """Return what a level (rho or epsilon) means for the person who is easiest to guess."""
    privacy: PrivacyDefinition = PURE if rows.pure else ZCDP
    if math.isinf(level):
        return "Without noise, everybody sees the exact answer."
    loss = PrivacyLoss.of(Fraction(level), privacy)
    opening = f"At {loss_text(loss, privacy, delta)},"
    losses = rows.losses(level)
    if not losses.any():
        return f"{opening} nobody stands out: this answer does not depend on whether any single {rows.noun(1)} is in the table."
    row_guesses = rows.guesses(level)
    most = float(row_guesses.max())
    easiest = row_guesses >= most * (1 - 1e-12)
    alike = int(rows.counts[easiest].sum())
    who = "it is" if alike == 1 else "one of them is"
    if alike == 1:
        company = f"{rows.one} stands out most"
    else:
        kind = "about" if rows.steps else "all"
        company = f"{alike:,} of {rows.total:,} {rows.noun()} stand out most, {kind} equally"
    bounded_guesses = rows.at_most and most <= OVER
    right = f"at most {at_most_text(most)}" if bounded_guesses else about_text(most)
    subject = "This answer and earlier ones shift" if rows.cumulative else "The answer shifts"
    beforehand = ", if all releases had been fixed in advance" if rows.cumulative else ""
    return (
        f"{opening} {company}. A guess of whether {who} in the table is right {right} times in 100"
        f"{beforehand} (50 is a coin toss). {subject} the odds {odds(float(losses[easiest].max()), rows)}."
    )
