"""The card of a captioned table of texts, and of results that are shown as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnb.display.cards import Card
from dpnb.display.html import info_table_html
from dpnb.display.text import info_table_text
from dpnb.results import InfoTable


def as_info_table(info: Callable[[Any], InfoTable]) -> Card:
    """Return the card of a result that is shown as a captioned table."""
    return Card(
        lambda result: info_table_text(info(result)), lambda result: info_table_html(info(result))
    )


INFO_TABLE = Card(info_table_text, info_table_html)
