"""The card of a captioned table of texts."""

from __future__ import annotations

from dpnb.display.cards import document_card
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


INFO_TABLE = document_card(info_document)
