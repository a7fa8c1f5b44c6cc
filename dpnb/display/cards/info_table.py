"""The card of a captioned table of texts, and of results that are shown as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnb.display.cards import Card, document_card
from dpnb.display.document import Column, Document, Table, words
from dpnb.display.foot import banners
from dpnb.results import InfoTable


def info_document(info: InfoTable) -> Document:
    """Return a captioned table as a document; without lines it is its caption."""
    columns = tuple(
        Column(head, tuple(row[place] for row in info.rows))
        for place, head in enumerate(info.header)
    )
    return Document(
        title=words(info.caption),
        banners=banners(info.stamp),
        parts=(Table(columns),) if info.rows else (),
        fine=tuple(words(note) for note in info.notes),
    )


def as_info_table(info: Callable[[Any], InfoTable]) -> Card:
    """Return the card of a result that is shown as a captioned table."""
    return document_card(lambda result: info_document(info(result)))


INFO_TABLE = document_card(info_document)
