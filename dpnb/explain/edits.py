"""A general indicator of ranks: how many rows must be added or removed (DPXPlain, appendix C.2).

Use it for scores with a huge or infinite sensitivity but a known range after d edits: pass
:func:`edits_below` as the statistic of ``ranks.rank_intervals`` and :func:`edits_above` as the
statistic of its lower bounds. Both have sensitivity 1 (docs/methods/dpxplain.md, theorem 14).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

EditBounds = Callable[[int], tuple[Sequence[float], Sequence[float]]]
"""Maps a number of edits d to ILB(p, d) and IUB(p, d) of every predicate: the least and the largest
influence that at most d added or removed rows can give it (docs/methods/dpxplain.md, theorem
14)."""


def worst_place(row: int, edits: int, bounds: EditBounds) -> int:
    """Return Bd(p, d): the rank of predicate ``row`` cannot exceed it after ``edits`` edits.

    |P| less the number of predicates with IUB(q, d) < ILB(p, d) (DPXPlain, appendix C.2;
    docs/methods/dpxplain.md, theorem 14). Bounds that are not exact keep the sensitivity of
    :func:`edits_below` only if IUB(q, d) on D is at most IUB(q, d + 1) on every neighbour, and ILB
    likewise.
    """
    least, largest = bounds(edits)
    return len(largest) - sum(other < least[row] for other in largest)


def best_place(row: int, edits: int, bounds: EditBounds) -> int:
    """Return the best rank that predicate ``row`` may have after ``edits`` edits.

    One more than the number of predicates with ILB(q, d) > IUB(p, d) (docs/methods/dpxplain.md,
    theorem 14).
    """
    least, largest = bounds(edits)
    return 1 + sum(other > largest[row] for other in least)


def edits_below(row: int, place: int, bounds: EditBounds, most: int) -> int:
    """Return omega(p, t): how many edits it takes until p may rank at ``place`` or below.

    min{d >= 0 : Bd(p, d) >= t}, at most ``most``: 0 up to the place of p, non-decreasing in the
    place, and of sensitivity 1, with or without the cap (DPXPlain, Theorem C.8). Use it for upper
    bounds in :func:`rank_intervals`, with a spread of 1. Noise is discrete, so multiply omega and
    the spread by a large number, such as 2**20; otherwise the margin of a continuous distribution
    is too small.
    """
    return next((d for d in range(most) if worst_place(row, d, bounds) >= place), most)


def edits_above(row: int, place: int, bounds: EditBounds, most: int) -> int:
    """Return omega-(p, t): the counterpart of :func:`edits_below` for lower bounds, at most 0.

    -min{d >= 0 : p may rank at ``place`` or above after d edits}, at least ``-most``: 0 from the
    place of p on, non-decreasing in the place, of sensitivity 1 (docs/methods/dpxplain.md,
    theorem 14).
    """
    return -next((d for d in range(most) if best_place(row, d, bounds) <= place), most)
