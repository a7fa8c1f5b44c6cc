"""The groups of columns, as views and engines know them."""

from __future__ import annotations

from collections.abc import Mapping

from dpnb.schema.columns import Kind
from dpnb.schema.partition import Partition, declared


def own(kinds: Mapping[str, Kind], *columns: str) -> tuple[Partition, ...]:
    """Return the own groups of some columns."""
    return tuple(declared(column, kinds) for column in columns)
