"""Summing out columns that only one release has, without loss for anything else.

Let a release count x_sp for groups s of shared columns and p of a column that nothing else in use
has. As each x_sp occurs in no other row, all that the release says about the sums over p is the sum
of its answers, with the noise of that many answers. If the groups of p leave some rows out, it says
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set
from dataclasses import replace
from typing import TYPE_CHECKING

from dpnb.answers.domain import columns_of
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.releases.held import Held
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import And, Predicate, Within
from dpnb.views.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpnb.views.view import View


def summed_out(held: Sequence[Held], wanted: Sequence[View]) -> list[Held]:
    """Return releases that say the same about the wanted views, with as few columns as possible.

    Exact for Gaussian noise. Sums of Laplace noise have no such distribution, so releases with
    Laplace noise keep their columns.
    """
    releases = list(held)
    wanted_columns = frozenset[str]().union(*(columns_of(view) for view in wanted))
    while True:
        uses = Counter(column for release in releases for column in columns_of(release.view))
        lone_columns = {column for column, count in uses.items() if count == 1} - wanted_columns
        for place, release in enumerate(releases):
            replacement = _without(release, lone_columns & columns_of(release.view))
            if replacement is not release:
                releases[place : place + 1] = [] if replacement is None else [replacement]
                break
        else:
            return releases


def _without(release: Held, lone_columns: Set[str]) -> Held | None:
    """Return a release without some columns, or itself if they stay; None if it gives nothing."""
    view = release.view
    value = view.measure.value
    value_columns = frozenset() if value is None else value.columns
    free = lone_columns - value_columns
    if isinstance(view, Histogram) and view.strategy is not None:
        return release
    if _conjuncts(view.where) & free:
        return None
    keys = [key for key in view.keys if key.column in free - view.where.columns]
    if not all(_covers(view, key) for key in keys):
        return None
    if not keys or release.distribution.family != "gaussian":
        return release
    return _summed(release, keys)


def _conjuncts(where: Predicate) -> frozenset[str]:
    """Return the columns that a condition restricts, whatever the values of other columns."""
    if isinstance(where, Within):
        return where.columns
    if not isinstance(where, And):
        return frozenset()
    atoms = [part for part in where.parts if isinstance(part, Within)]
    others = frozenset[str]().union(
        *(part.columns for part in where.parts if not isinstance(part, Within))
    )
    return frozenset[str]().union(*(atom.columns for atom in atoms)) - others


def _covers(view: View, key: Partition) -> bool:
    """Return whether every row is in a group of a key."""
    return key.is_total and (key.null is not None or key.column in view.schema.complete)


def _summed(release: Held, keys: Sequence[Partition]) -> Held:
    import numpy as np

    view = release.view
    sizes = [key.size for key in view.keys]
    marginal = replace(view, keys=tuple(key for key in view.keys if key not in keys))
    places = tuple(view.keys.index(key) for key in keys)
    count = math.prod(sizes[place] for place in places)
    values = None
    if release.values is not None:
        values = tuple(np.reshape(release.values, sizes).sum(axis=places).ravel().tolist())
    noise = NoiseDistribution(
        release.distribution.family, release.distribution.scale * math.sqrt(count)
    )
    return replace(
        release,
        view=marginal,
        distribution=noise,
        values=values,
        whole=release.asked,
        summed=release.summed * count,
    )
