"""A captioned table of texts, and what is shown as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnb.display.cards import Card
from dpnb.display.html import listing_html
from dpnb.display.text import listing_text
from dpnb.results import Listing


def as_listing(listing: Callable[[Any], Listing]) -> Card:
    """Return the card of a result that is shown as a listing."""
    return Card(
        lambda result: listing_text(listing(result)), lambda result: listing_html(listing(result))
    )


LISTING = Card(listing_text, listing_html)
