"""A result as it is shown, as plain data; each medium renders every part in its own way.

Texts are plain: a renderer escapes them. What a sentence says is built once, by the card of the
result (``dpnb.display.cards``), so that no medium says more or less than another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpnb.errors import printable

Style: TypeAlias = Literal["", "strong"]
"""How a piece of text is set: as it is, or in bold."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style."""

    text: str
    style: Style = ""


Words: TypeAlias = tuple[Span, ...]
"""A sentence, or a part of one."""


def words(*parts: str | Span) -> Words:
    """Return a sentence from its pieces; plain texts need no ``Span``."""
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def strong(text: str) -> Span:
    """Return a text in bold."""
    return Span(text, "strong")


def plain(sentence: Words) -> str:
    """Return a sentence without its styles, printable."""
    return printable("".join(span.text for span in sentence))


@dataclass(frozen=True, slots=True)
class Finding:
    """What the intervals prove (``certain``), or what the noise hides."""

    words: Words
    certain: bool


@dataclass(frozen=True, slots=True)
class Banner:
    """A warning above everything: the result is not private, or not about real data.

    The whole card shows it if it is ``generated``, so that no part of a picture looks real.
    """

    text: str
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts; ``end`` sets them at its right end, as numbers are."""

    head: str
    values: tuple[str, ...]
    end: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length; the first one names the lines. ``name`` is its caption."""

    columns: tuple[Column, ...]
    name: str = ""

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0


@dataclass(frozen=True, slots=True)
class Track:
    """A budget: which share of it is spent, which share this costs, and what is said of the rest.

    The shares add up to at most 1.
    """

    spent: float
    now: float
    words: Words


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they are, side by side."""

    pairs: tuple[tuple[str, Words], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence of the body."""

    words: Words


Part: TypeAlias = Table | Track | Facts | Note


@dataclass(frozen=True, slots=True)
class Foot:
    """The strip at the foot: what it costs, what is left, how sure it is. The same on every card."""

    cost: Words
    left: Track
    sure: Words = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One result.

    Attributes
    ----------
    title : tuple of Span
        The headline.
    kind : str
        What kind of card it is, from what: 'Private answer from adult'.
    banners : tuple of Banner
        Warnings above everything.
    findings : tuple of Finding
        At most two lines below the headline.
    parts : tuple
        The body, in order.
    foot : Foot or None
    fine : tuple of tuples of Span
        Fine print, folded where a medium can fold.
    """

    title: Words
    kind: str = ""
    banners: tuple[Banner, ...] = ()
    findings: tuple[Finding, ...] = ()
    parts: tuple[Part, ...] = ()
    foot: Foot | None = None
    fine: tuple[Words, ...] = ()
