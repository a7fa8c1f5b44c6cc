"""Bootstrap confidence intervals as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpnb.display import foot
from dpnb.display.cards import document_card
from dpnb.display.cards.info_table import info_document
from dpnb.display.document import Document
from dpnb.formats import ends_text, figure, label, percent
from dpnb.results import InfoTable

if TYPE_CHECKING:
    from dpnb.answers.bootstrap import Bootstrap

WARNING = "Approximate: they may miss the exact value more often than stated"


def document(found: Bootstrap) -> Document:
    """Return the confidence intervals as a document."""
    rows = []
    for group, value, low, high in zip(
        found.groups, found.estimate, found.low, found.high, strict=True
    ):
        name = label(group)
        if value is None or low is None or high is None:
            rows.append((name, "too few rows to tell", ""))
            continue
        half = (high - low) / 2
        interval = ends_text(low, high, half)
        rows.append((name, figure(value, half), interval))
    caption = (
        f"{percent(found.confidence)} bootstrap confidence intervals of {found.alias}, each on its own. "
        f"{WARNING}."
    )
    header = (", ".join(found.keys), found.alias, "approximate interval")
    table = InfoTable(caption, header, tuple(rows))
    return replace(info_document(table), banners=foot.banners(found.stamp, found.conditional))


BOOTSTRAP = document_card(document)
