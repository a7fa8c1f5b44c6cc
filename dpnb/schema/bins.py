"""The edges of bins, as they are declared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from dpnb.codes import listed
from dpnb.errors import SchemaError, given


def edges_of(bins: object) -> Sequence[Any]:
    """Return the edges of bins, () for None; refuse anything that is not a list."""
    if bins is None:
        return ()
    edges = listed(bins)
    if edges is None:
        raise SchemaError(
            f"bins must be a list of edges, got {given(bins)}", "Write bins=[0, 10, 20]."
        )
    return edges


def checked_bins(edges: Sequence[Any], low: Any, high: Any) -> tuple[Any, ...]:
    """Check that bin edges lie inside the bounds, number at least two, and increase strictly."""
    if len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges)):
        raise SchemaError(
            "bins need at least two edges in increasing order", "Write bins=[0, 10, 20]."
        )
    if edges[0] < low or edges[-1] > high:
        raise SchemaError(
            "an edge of the bins is outside the bounds", "Keep every edge between low and high."
        )
    return tuple(edges)
