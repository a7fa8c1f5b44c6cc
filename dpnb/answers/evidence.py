"""Evidence from past answers about some views: linked releases as matrix rows over common atoms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpnb.answers.domain import Domain, columns_of, moment_of, repetitions
from dpnb.answers.marginals import summed_out
from dpnb.errors import RequestError
from dpnb.estimation.history import History, Row
from dpnb.estimation.scheffe import factor
from dpnb.releases.held import Held
from dpnb.schema.predicates import NONE, And, simplify
from dpnb.views.histogram import Histogram
from dpnb.views.view import View

if TYPE_CHECKING:
    from dpnb.answers.domain import Ints, Values


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on the size of an inference.

    Attributes
    ----------
    cells : int
        Bins of the working domain.
    rows : int
        Noisy values of past answers.
    work : int
        Cost of the factorisations: atoms times the square of the number of noisy values outside the
        largest release, whose own rows are disjoint.
    """

    cells: int
    rows: int
    work: int


ROOM = Room(cells=1_000_000, rows=5_000, work=2_000_000_000)
"""Limits for inferences and merged answers."""
SMALL = Room(cells=100_000, rows=1_000, work=20_000_000)
"""Limits for the first look at past answers, before each answer with a requested error."""


class NoRoomError(RequestError):
    """The question splits the data into more groups than there is room for."""

    def __init__(self) -> None:
        super().__init__(
            "this splits the data into too many groups to infer",
            "Group by fewer columns, or use fewer conditions.",
        )


class Evidence:
    """Past answers and wanted views, as matrix rows over the same atoms.

    Atoms are the sets of bins that no row distinguishes. Rows that share no atom with the wanted
    views, directly or through other rows, cannot bear on them and are left out without loss.

    Parameters
    ----------
    held : sequence of Held
        All for one version of one table.
    wanted : sequence of View
        Views to infer.
    bounds : bool
        Keep releases that matter only because no number of rows is negative.
    room : Room
        If it is exceeded, releases that need the most columns beside the wanted ones are left out
        first.

    Raises
    ------
    NoRoomError
        If the wanted views alone do not fit.

    Attributes
    ----------
    used, left_out : tuple of Held
        Releases that the inference uses, and those that the working domain has no room for.
    """

    def __init__(
        self,
        held: Sequence[Held],
        wanted: Sequence[View],
        *,
        bounds: bool = False,
        room: Room = ROOM,
    ) -> None:
        self._asked = list(wanted)
        self._held = list(held)
        releases = _ranked(_linked(held, wanted), wanted)
        count = self._most(releases, bounds, room)
        self.left_out = tuple(releases[count:])
        self._remember()

    def _most(self, releases: Sequence[Held], bounds: bool, room: Room) -> int:
        """Return how many of the first releases fit, and write them as rows over atoms."""

        def fit(count: int) -> bool:
            subset = releases[:count]
            self._chosen = subset if bounds else summed_out(subset, self._asked)
            return self._fits(room)

        if fit(len(releases)):
            return len(releases)
        low, high = 0, len(releases)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fit(middle) else (low, middle)
        if not fit(low):
            raise NoRoomError
        return low

    def _fits(self, room: Room) -> bool:
        """Return whether the chosen releases fit; if so, they are rows over atoms afterwards."""
        views = [*(release.view for release in self._chosen), *self._asked]
        if repetitions(views) > room.cells:
            return False
        self.domain = Domain(views)
        if self.domain.size > room.cells:
            return False
        self._split(views)
        rows, atoms = self._connect()
        other_rows = sum(rows) - max(rows, default=0)
        return sum(rows) <= room.rows and other_rows * other_rows * atoms <= room.work

    def _split(self, views: Sequence[View]) -> None:
        """Find the atoms, and write every view's rows over them."""
        import numpy as np

        domain = self.domain
        labels = np.zeros(domain.size, dtype=np.int64)
        distinct = {view.id: view for view in views}
        triplets = {}
        for name, view in distinct.items():
            rows, cells, values = triplets[name] = domain.rows(view)
            code = np.zeros(domain.size, dtype=np.int64)
            if isinstance(view, Histogram) and view.strategy is not None:
                code[: domain.grid] = domain.keys(view) + 1
            else:
                code[cells] = 1 + _codes(rows, values)
            labels = _renumbered(labels * (int(code.max()) + 1) + code)
        self._atoms = int(labels.max()) + 1
        self._labels = labels
        # one bin represents each atom
        place = np.full(self._atoms, -1, dtype=np.int64)
        place[labels[::-1]] = np.arange(domain.size)[::-1]
        self._rows: dict[str, tuple[Ints, Ints, Values]] = {}
        for name, (rows, cells, values) in triplets.items():
            mask = place[labels[cells]] == cells
            self._rows[name] = rows[mask], labels[cells[mask]], values[mask]

    def _connect(self) -> tuple[list[int], int]:
        """Find what is connected with the wanted rows; count its rows by release, and its atoms."""
        import numpy as np
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        start, pairs = self._atoms, []
        offsets = {}
        starts = []
        for release in self._chosen:
            rows, atoms, _ = self._rows[release.view.id]
            offsets[release.name] = start
            starts.append(start)
            pairs.append(np.stack([rows + start, atoms]))
            start += len(release.values) if release.values is not None else _length(release.view)
        atom_lists = [self._rows[view.id][1] for view in self._asked]
        wanted_atoms = (
            np.unique(np.concatenate(atom_lists)) if atom_lists else np.zeros(0, dtype=np.int64)
        )
        links = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), dtype=np.int64)
        graph = coo_matrix((np.ones(links.shape[1]), (links[0], links[1])), shape=(start, start))
        component = connected_components(graph, directed=False)[1]
        relevant = np.zeros(int(component.max()) + 1, dtype=bool)
        relevant[component[wanted_atoms]] = True
        self._relevant = relevant[component]
        inside = np.flatnonzero(self._relevant[: self._atoms])
        self._number = np.full(self._atoms, -1, dtype=np.int64)
        self._number[inside] = np.arange(len(inside))
        self._offsets = offsets
        ends = [*starts[1:], start]
        rows_of = [int(self._relevant[a:b].sum()) for a, b in zip(starts, ends, strict=False)]
        return rows_of, len(inside)

    def _remember(self) -> None:
        """Build the history of the releases that are connected with the wanted rows."""
        self.history = History(max(1, int(self._number.max()) + 1))
        releases: list[Held] = []
        history_rows: list[Row] = []
        for release in self._chosen:
            rows, atoms, values = self._rows[release.view.id]
            mask = self._relevant[rows + self._offsets[release.name]]
            release_rows = self._made(release, rows[mask], self._number[atoms[mask]], values[mask])
            if release_rows:
                history_rows += release_rows
                releases.append(release)
        self.history.extend(history_rows)
        self.used = tuple(releases)

    def _made(self, release: Held, rows: Ints, atoms: Ints, values: Values) -> list[Row]:
        import numpy as np

        if not len(rows):
            return []
        order = np.argsort(rows, kind="stable")
        numbers, starts = np.unique(rows[order], return_index=True)
        parts = zip(
            numbers.tolist(),
            np.split(atoms[order], starts[1:]),
            np.split(values[order], starts[1:]),
            strict=True,
        )
        return [
            Row(
                name=f"{release.name}/{number}",
                index=index,
                value=value,
                answer=float("nan") if release.values is None else release.values[number],
                distribution=release.distribution,
                granularity=float(release.view.granularity),
                planned=release.planned,
            )
            for number, index, value in parts
            if len(index)
        ]

    @cached_property
    def sources(self) -> dict[str, tuple[Held, int]]:
        """The release of each row of the history, and its place in the vector, by row name."""
        by_name = {release.name: release for release in self.used}
        row_sources = {}
        for row in self.history.rows:
            name, _, number = row.name.rpartition("/")
            row_sources[row.name] = by_name[name], int(number)
        return row_sources

    @cached_property
    def values_held(self) -> Mapping[str, int]:
        """Number of noisy values in all releases, by the family of their noise.

        Someone who picks a question by looking may have looked at any of them, including those that
        do not bear on it.
        """
        counts: Counter[str] = Counter()
        for release in self._held:
            counts[release.distribution.family] += _length(release.view)
        return counts

    def any_share(self, alpha: float) -> float:
        """Return the share of ``alpha`` for the values in use, out of all released values."""
        return alpha * max(1, len(self.history.rows)) / max(1, sum(self.values_held.values()))

    def any_factor(self, alpha: float) -> float:
        """Return how many standard deviations hold for every question about the table at once."""
        return factor(self.values_held["gaussian"], self.values_held["laplace"], alpha)

    def wanted(self, view: View) -> list[tuple[Ints, Values]]:
        """Return the rows of a wanted view over the atoms of the history, one for each group."""
        import numpy as np

        rows, atoms, values = self._rows[view.id]
        order = np.argsort(rows, kind="stable")
        size = _length(view)
        ends = np.searchsorted(rows[order], np.arange(1, size))
        return list(
            zip(
                np.split(self._number[atoms[order]], ends),
                np.split(values[order], ends),
                strict=True,
            )
        )

    def combined(self, parts: Sequence[tuple[View, float]]) -> list[tuple[Ints, Values]]:
        """Return the rows of a weighted sum of wanted views with the same groups."""
        import numpy as np

        sums: list[tuple[Ints, Values]] = []
        for rows in zip(*(self.wanted(view) for view, _ in parts), strict=True):
            index = np.concatenate([atoms for atoms, _ in rows])
            value = np.concatenate(
                [weight * values for (_, weight), (_, values) in zip(parts, rows, strict=True)]
            )
            atoms, inverse = np.unique(index, return_inverse=True)
            summed = np.bincount(inverse, weights=value, minlength=len(atoms))
            sums.append((atoms.astype(np.int64), summed.astype(np.float64)))
        return sums

    def box(self, atoms: Any) -> str | None:
        """Return the condition that describes some atoms of the history; None if there is none."""
        import numpy as np

        mask = np.zeros(self._atoms + 1, dtype=bool)
        mask[np.flatnonzero(np.isin(self._number, np.asarray(atoms)))] = True
        return self.domain.condition(np.flatnonzero(mask[self._labels]))

    def told(self, rows: Sequence[tuple[Ints, Values]]) -> list[bool]:
        """Return which rows past answers determine."""
        return [self.history.estimable(*row) for row in rows]

    def variances(self, rows: Sequence[tuple[Ints, Values]]) -> list[float]:
        """Return the variance of each row's estimate; infinite if there is none."""
        determined = self.told(rows)
        estimable_rows = [row for row, estimable in zip(rows, determined, strict=True) if estimable]
        row_variances = iter(
            self.history.space.solve_many(estimable_rows).variances.tolist()
            if estimable_rows
            else []
        )
        return [next(row_variances) if estimable else math.inf for estimable in determined]


def _length(view: View) -> int:
    """Return the number of entries of a view's vector."""
    if isinstance(view, Histogram):
        return view.size if view.strategy is None else len(view.strategy.matrix)
    return math.prod(key.size for key in view.keys)


def _codes(rows: Ints, values: Values) -> Ints:
    """Return a number for each pair of row and coefficient."""
    import numpy as np

    if not len(values) or (values == values[0]).all():
        return rows
    _, kinds = np.unique(values, return_inverse=True)
    return rows * (int(kinds.max()) + 1) + kinds


def _renumbered(labels: Ints) -> Ints:
    """Return labels numbered from 0 without gaps."""
    import numpy as np

    if int(labels.max()) < 8 * len(labels) + 1_000:
        present = np.zeros(int(labels.max()) + 1, dtype=bool)
        present[labels] = True
        numbers: Ints = np.cumsum(present)[labels] - 1
        return numbers
    indices: Ints = np.unique(labels, return_inverse=True)[1]
    return indices


def _linked(releases: Sequence[Held], wanted: Sequence[View]) -> list[Held]:
    """Return the releases whose regions overlap the wanted views, directly or through others."""
    moments = {moment_of(view) for view in wanted} | {None}
    rest = [release for release in releases if moment_of(release.view) in moments]
    linked_releases: list[Held] = []
    frontier = list(wanted)
    while frontier:
        view = frontier.pop()
        near: list[Held] = []
        far: list[Held] = []
        for release in rest:
            (near if _overlap(release.view, view) else far).append(release)
        rest = far
        linked_releases += near
        frontier += [release.view for release in near]
    return linked_releases


def _overlap(view: View, other: View) -> bool:
    if not view.where.columns & other.where.columns:
        return True
    return simplify(And((view.where, other.where)), view.schema) != NONE


def _ranked(releases: Sequence[Held], wanted: Sequence[View]) -> list[Held]:
    """Sort releases by the number of columns they need beside the wanted ones, size, and noise."""
    wanted_columns: frozenset[str] = frozenset().union(*(columns_of(view) for view in wanted))

    def rank(release: Held) -> tuple[float, ...]:
        extra = len(columns_of(release.view) - wanted_columns)
        return extra, _length(release.view), release.distribution.scale

    return sorted(releases, key=rank)
