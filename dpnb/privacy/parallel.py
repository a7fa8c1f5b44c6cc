"""Parallel composition: the privacy loss of views on disjoint parts of a table.

A row's normalised values never change, so a row always lies in the same bin of its table's domain.
A view depends only on the rows in the region that its conditions and keys describe. So the loss of
a row is the sum over the views that cover its bin, and the loss of the table is the maximum over
bins (Xiao and Xiong, Theorem 5.5; docs/methods/bayes.md, theorem 13). This holds for any adaptive
choice of views and levels, because regions and levels are public facts, never data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from dpnb.codes import Code, common
from dpnb.privacy.loss import PrivacyLoss, ceiling_digits
from dpnb.schema import predicates
from dpnb.schema.partition import present
from dpnb.schema.predicates import Box, Side

Place: TypeAlias = tuple[str, int]
"""A version of a table."""
MOST_CELLS = 2_000
"""A column that would make more bins than this is left out; more regions then seem to meet."""
MOST_HELD = 4_000
"""The same for a column whose bins lie in more boxes than this, counted once for each bin."""
MOST_MET = 300
"""Intervals of the regions that meet one region; if more, only the costliest are kept apart."""
MOST_IN_ALL = 10_000
"""The same for all regions of a version of a table."""
MOST_KEPT = 16
"""Regions kept apart in that case; the loss of the others counts for every row."""

_FEW = 100
_FEW_BOXES = 8


@dataclass(frozen=True, slots=True)
class Region:
    """The rows that a view may depend on: a union of boxes in one version of a table.

    Examples
    --------
    >>> where = ["age", [[17, 30]], False]
    >>> view = {"table": "t", "version": 1, "where": where, "keys": [], "measure": ["count", None]}
    >>> region(view).boxes
    ((('age', ((17, 30),), False),),)
    """

    table: str
    version: int
    boxes: tuple[Box, ...]
    hull: Mapping[str, tuple[Code, Code, bool]] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hull", predicates.hull(self.boxes))
        size = sum(max(1, len(side[1])) for box in self.boxes for side in box)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "_hash", hash((self.table, self.version, self.boxes)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def place(self) -> Place:
        """The version of the table."""
        return self.table, self.version

    @property
    def everywhere(self) -> bool:
        """Whether it contains every row."""
        return () in self.boxes

    def loosened(self) -> Region:
        """Return the smallest region that contains this one and has one box of single intervals."""
        return Region(self.table, self.version, (_box(self.hull),) if self.boxes else ())


def _box(hull: Mapping[str, tuple[Code, Code, bool]]) -> Box:
    return tuple(
        (column, ((low, high),) if low <= high else (), null)
        for column, (low, high, null) in sorted(hull.items())
    )


def region(definition: Mapping[str, Any]) -> Region:
    """Return the region of a view from its public definition; it may be too large, never too small.

    Rows with a missing key are in no group, and rows with a missing value are neither counted nor
    summed; a declared histogram has a bin for every row.

    A privacy unit of up to m rows shares charges too, because its rows were bounded once, before
    any condition. With r of its rows in a view's region it changes a count or sum by at most r/m of
    the sensitivity, which costs (r/m)^2 of the view's rho and r/m of its epsilon. This is at most
    the mean, over m rows, of the cost of the views that cover a row, and so at most the maximum
    over bins. The same holds for counts of distinct ids if an id may be counted in m bins: it is in
    at most r of them. If an id is counted in fewer, a single row may cause the full cost of the
    view: such views add up. So do counts of different values if an id has more rows than there are
    values.
    """
    table, version = str(definition["table"]), int(definition["version"])
    kind, value, *more = definition.get("measure", (None, None))
    few = kind in ("units", "distinct") and more and more[0] < definition["unit"][1]
    if "histogram" in definition or few:
        return Region(table, version, ((),))
    groups = [*definition["keys"], *([value] if isinstance(value, str) else [])]
    inside = predicates.boxes({"and": list(map(present, groups))})
    boxes = (
        predicates.intersected(one, box)
        for one in inside
        for box in predicates.boxes(definition["where"])
    )
    box_set = {
        tuple(sorted((c, *side) for c, side in box.items())) for box in boxes if box is not None
    }
    return Region(table, version, tuple(sorted(box_set)))


def worst(levels: Mapping[Region, Fraction]) -> Fraction:
    """Return the maximum over bins of the summed levels of the regions that contain the bin.

    The maximum is exact if few enough sets of boxes meet (``MOST_CELLS``), else an upper bound.
    Tables, and versions of a table, add up. Regions without any row count as a bin of their own, so
    that no request is free.

    A value of a column matters only through the boxes that it satisfies, and more boxes never cost
    less. Move a value down to the nearest lower end of an interval: each interval that contained
    the value begins at that end or before, so it contains the end, too. So the lower ends, and the
    missing value, stand for all values. Of these, only those stay whose boxes are not a subset of
    another one's. Columns are independent of each other, so the sets of boxes that some bin
    satisfies are the intersections of one such set of each column. They are built column by column,
    each time without those that are subsets of another.

    Examples
    --------
    >>> def rows(low, high):
    ...     return Region("t", 1, ((("x", ((low, high),), False),),))
    >>> third = Fraction(1, 3)
    >>> worst({rows(0, 5): third, rows(6, 9): third}), worst({rows(0, 5): third, rows(5, 9): third})
    (Fraction(1, 3), Fraction(2, 3))
    """
    places = _by_place(levels).values()
    return sum((_most(place_levels, None) for place_levels in places), Fraction(0))


def worst_in(levels: Mapping[Region, Fraction], where: Region) -> Fraction:
    """Return :func:`worst` over the bins of one region; other tables and versions count in full.

    The charge for raising the levels of some regions rests on this: elsewhere nothing changes.
    """
    places = _by_place(levels)
    place_levels = places.pop(where.place, {})
    others = sum((_most(other, None) for other in places.values()), Fraction(0))
    return others + max(_most(_met(place_levels, box), box) for box in _around(where))


def worst_off(learned: Mapping[Region, PrivacyLoss]) -> PrivacyLoss:
    """Return the maximum over bins of the loss.

    Each component has its own maximum, because each is a separate guarantee. Deltas always add up.
    """
    if not learned:
        return PrivacyLoss.none()
    rho = worst({view_region: loss.rho for view_region, loss in learned.items()})
    pure = {
        view_region: loss.epsilon
        for view_region, loss in learned.items()
        if loss.epsilon is not None
    }
    epsilon = worst(pure) if len(pure) == len(learned) else None
    delta = sum((loss.delta for loss in learned.values() if loss.delta), Fraction(0))
    return PrivacyLoss.none() + PrivacyLoss(rho, epsilon, delta)


def worst_off_in(learned: Mapping[Region, PrivacyLoss], where: Region) -> PrivacyLoss:
    """Return :func:`worst_off` over one region's bins, for regions in its version of its table.

    Without the delta, which belongs to no bin.
    """
    rho, epsilon = Fraction(0), Fraction(0)
    pure = True
    for box in _around(where):
        losses = _met(learned, box)
        rho = max(rho, _most({view_region: loss.rho for view_region, loss in losses.items()}, box))
        epsilons = {
            view_region: loss.epsilon
            for view_region, loss in losses.items()
            if loss.epsilon is not None
        }
        pure = pure and len(epsilons) == len(losses)
        if pure:
            epsilon = max(epsilon, _most(epsilons, box))
    return PrivacyLoss.none() + PrivacyLoss(rho, epsilon if pure else None)


_Loss = TypeVar("_Loss")


def _by_place(levels: Mapping[Region, Fraction]) -> dict[Place, dict[Region, Fraction]]:
    places: dict[Place, dict[Region, Fraction]] = {}
    for view_region, level in levels.items():
        places.setdefault(view_region.place, {})[view_region] = level
    return places


def _around(where: Region) -> list[Box | None]:
    """Return boxes that contain a region; None stands for a region without rows."""
    if not where.boxes:
        return [None]
    return list(where.boxes) if len(where.boxes) <= _FEW_BOXES else [_box(where.hull)]


def _met(learned: Mapping[Region, _Loss], box: Box | None) -> Mapping[Region, _Loss]:
    """Return the losses of the regions whose hulls meet a box."""
    if box is None:
        return {view_region: loss for view_region, loss in learned.items() if not view_region.boxes}
    regions = list(learned)
    for column, (low, high, null) in predicates.hull([box]).items():
        regions = [
            view_region
            for view_region in regions
            if (side := view_region.hull.get(column)) is None
            or (side[0] <= high and low <= side[1])
            or (null and side[2])
        ]
    return {view_region: learned[view_region] for view_region in regions if view_region.boxes}


def _most(levels: Mapping[Region, Fraction], box: Box | None) -> Fraction:
    """Return the largest sum of levels in a box, or anywhere (None), for one version of a table.

    The work is bounded. If there are too many regions, those with the largest losses are kept
    apart, so that many small losses do not raise the cost of others.
    """
    limit = MOST_IN_ALL if box is None else MOST_MET
    if sum(view_region.size for view_region in levels) > limit:
        levels = _loosened(levels)
    bound = None
    if sum(view_region.size for view_region in levels) <= limit:
        bound, exact = _sum_of_worst(levels, box)
        if exact or len(levels) <= MOST_KEPT:
            return bound
    # ties are in the order of the ledger, which is the same on each machine
    amounts = {view_region: float(level) for view_region, level in levels.items()}
    largest_regions = set(sorted(amounts, key=amounts.__getitem__, reverse=True)[:MOST_KEPT])
    rest = math.fsum(
        amount for view_region, amount in amounts.items() if view_region not in largest_regions
    )
    most, _ = _sum_of_worst(
        _loosened(
            {
                view_region: level
                for view_region, level in levels.items()
                if view_region in largest_regions
            }
        ),
        box,
    )
    most += ceiling_digits(rest * (1 + 1e-12))
    return most if bound is None else min(bound, most)


def _loosened(levels: Mapping[Region, Fraction]) -> Mapping[Region, Fraction]:
    if all(view_region.size <= _FEW_BOXES for view_region in levels):
        return levels
    loose_levels: dict[Region, Fraction] = {}
    for view_region, level in levels.items():
        where = view_region if view_region.size <= _FEW_BOXES else view_region.loosened()
        loose_levels[where] = loose_levels[where] + level if where in loose_levels else level
    return loose_levels


def _sum_of_worst(levels: Mapping[Region, Fraction], box: Box | None) -> tuple[Fraction, bool]:
    """Return the largest sum of levels, and whether it is exact; if not, it is an upper bound."""
    if len(levels) <= 1:
        return sum(levels.values(), Fraction(0)), True
    scale = math.lcm(*{level.denominator for level in levels.values()})
    numerators = [level.numerator * (scale // level.denominator) for level in levels.values()]
    group = _group(tuple(levels), box, (MOST_CELLS, MOST_HELD))
    return Fraction(group.most(numerators), scale), group.exact


@dataclass(frozen=True, slots=True)
class _Group:
    """Regions of one version of a table: which of them can contain the same row.

    Attributes
    ----------
    everywhere, nowhere : tuple of int
        The regions that contain every row, and those that contain none.
    parts : tuple
        Parts that have no columns in common; for each, the largest sets of regions with a common
        bin.
    exact : bool
        Whether no column was left out.
    """

    everywhere: tuple[int, ...]
    nowhere: tuple[int, ...]
    parts: tuple[tuple[tuple[int, ...], ...], ...]
    exact: bool

    def most(self, whole: Sequence[int]) -> int:
        """Return the largest sum over regions that meet, given a whole number for each region."""
        total = sum(whole[i] for i in self.everywhere)
        for sets in self.parts:
            total += max(sum(map(whole.__getitem__, indices)) for indices in sets)
        return max(total, max((whole[i] for i in self.nowhere), default=0))


@lru_cache(maxsize=4)
def _group(regions: tuple[Region, ...], around: Box | None, limits: tuple[int, int]) -> _Group:
    boxes: dict[int, Sequence[Box]] = {i: one.boxes for i, one in enumerate(regions)}
    if around is not None:
        sides = {side[0]: side for side in around}
        cut = {i: [_cut(one, sides) for one in region_boxes] for i, region_boxes in boxes.items()}
        overlaps = {
            i: [one for one in region_boxes if one is not None] for i, region_boxes in cut.items()
        }
        boxes = {i: region_boxes for i, region_boxes in overlaps.items() if region_boxes}
    everywhere = tuple(i for i, region_boxes in boxes.items() if () in region_boxes)
    nowhere = tuple(i for i, region_boxes in boxes.items() if not region_boxes)
    apart = _parts(
        {
            i: region_boxes
            for i, region_boxes in boxes.items()
            if region_boxes and () not in region_boxes
        }
    )
    sets = [_sets(part, *limits) for part in apart]
    parts = tuple(part_sets for part_sets, _ in sets)
    return _Group(everywhere, nowhere, parts, all(exact for _, exact in sets))


def _cut(box: Box, sides: Mapping[str, Side]) -> Box | None:
    """Return a box's conditions on the rows of another box; None if the two do not meet."""
    conditions = []
    for side in box:
        other = sides.get(side[0])
        if other is None:
            conditions.append(side)
        elif side != other:
            both, null = common(side[1], other[1]), side[2] and other[2]
            if not both and not null:
                return None
            if both != other[1] or null != other[2]:
                conditions.append((side[0], both, null))
    return tuple(conditions)


def _parts(regions: Mapping[int, Sequence[Box]]) -> list[dict[int, Sequence[Box]]]:
    """Return the regions in parts without common columns: the bins of parts combine freely."""
    parts: list[tuple[set[str], dict[int, Sequence[Box]]]] = []
    for i, region_boxes in regions.items():
        columns, members = {side[0] for box in region_boxes for side in box}, {i: region_boxes}
        rest = []
        for part in parts:
            if columns.isdisjoint(part[0]):
                rest.append(part)
            else:
                # into the larger part, to avoid copying over and over
                part[0].update(columns)
                part[1].update(members)
                columns, members = part
        parts = [*rest, (columns, members)]
    return [part for _, part in parts]


def _sets(
    regions: Mapping[int, Sequence[Box]], most_cells: int, most_held: int
) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """Return the largest sets of regions with a common bin, and whether the result is exact."""
    if len(regions) == 1:
        return (tuple(regions),), True
    owners = [i for i, region_boxes in regions.items() for _ in region_boxes]
    boxes = [box for region_boxes in regions.values() for box in region_boxes]
    sides: dict[str, list[tuple[int, Side]]] = {}
    for bit, box in enumerate(boxes):
        for side in box:
            sides.setdefault(side[0], []).append((1 << bit, side))
    every = (1 << len(boxes)) - 1
    bit_sets: Collection[int] = [every]
    exact = True
    for column_sides in sorted(sides.values(), key=len, reverse=True):
        values = _held(column_sides, every)
        # leaving out a column makes more boxes meet: the sum is then too large, never too small
        met: Collection[int] | None = None
        if len(bit_sets) * len(values) <= most_cells:
            met = _largest({bits & other for bits in bit_sets for other in values})
            if sum(map(int.bit_count, met)) > most_held:
                met = None
        exact = exact and met is not None
        bit_sets = bit_sets if met is None else met
    if len(owners) > len(regions):
        box_bits = dict.fromkeys(regions, 0)
        for bit, i in enumerate(owners):
            box_bits[i] |= 1 << bit
        bit_sets = _largest(
            {
                sum(1 << i for i, region_boxes in box_bits.items() if bits & region_boxes)
                for bits in bit_sets
            }
        )
        return tuple(_places(bits) for bits in bit_sets if bits), exact
    return tuple(tuple(owners[b] for b in _places(bits)) for bits in bit_sets if bits), exact


def _held(column_sides: Iterable[tuple[int, Side]], every: int) -> list[int]:
    """Return the largest sets of boxes that one value of a column satisfies, missing included."""
    free, missing = every, 0
    events: list[tuple[Any, int, int]] = []
    for bit, (_, intervals, null) in column_sides:
        free &= ~bit
        missing |= bit if null else 0
        for low, high in intervals:
            events += [(low, 0, bit), (high, 1, bit)]
    # intervals are closed: at one code, all begin before any ends
    events.sort()
    bit_sets, now, grown = {free | missing}, free, False
    open_: dict[int, int] = {}
    for _, ends, bit in events:
        if ends and grown:
            bit_sets.add(now)
        grown = not ends
        open_[bit] = open_.get(bit, 0) + (-1 if ends else 1)
        now = now | bit if open_[bit] else now & ~bit
    return _largest(bit_sets)


def _largest(sets: Collection[int]) -> list[int]:
    """Return the sets that are not subsets of another one; of many sets, return all."""
    if len(sets) > _FEW:
        return list(sets)
    maximal_sets: list[int] = []
    for bits in sorted(sets, key=int.bit_count, reverse=True):
        if not any(bits & other == bits for other in maximal_sets):
            maximal_sets.append(bits)
    return maximal_sets


def _places(bits: int) -> tuple[int, ...]:
    places = []
    while bits:
        last = bits & -bits
        places.append(last.bit_length() - 1)
        bits ^= last
    return tuple(places)
