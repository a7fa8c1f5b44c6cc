"""Bootstrap confidence intervals as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display.cards.info_table import as_info_table
from dpnb.display.text import stamps
from dpnb.formats import ends_text, figure, label, percent
from dpnb.results import InfoTable

if TYPE_CHECKING:
    from dpnb.answers.bootstrap import Bootstrap

WARNING = "Approximate: they may miss the exact value more often than stated"


def bootstrap_info_table(found: Bootstrap) -> InfoTable:
    """Return the confidence intervals as a table."""
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
    caption = " ".join([*stamps(found.stamp, found.conditional), caption])
    header = (", ".join(found.keys), found.alias, "approximate interval")
    return InfoTable(caption, header, tuple(rows))


BOOTSTRAP = as_info_table(bootstrap_info_table)
