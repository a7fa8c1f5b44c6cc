"""What an analyst's past answers say about some views: linked releases as rows over common atoms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpnb.inference.domain import MOST_CELLS, Domain, columns_of, moment_of
from dpnb.inference.held import Held
from dpnb.inference.history import History, Row
from dpnb.inference.marginals import summed_out
from dpnb.kinds import cell_count
from dpnb.provenance.histograms import Histogram
from dpnb.provenance.views import View
from dpnb.schema import Schema
from dpnb.sql.canonical import simplify
from dpnb.sql.query import NONE, And

if TYPE_CHECKING:
    from dpnb.inference.domain import Ints, Values

MOST_ROWS = 2_000
"""Largest number of past answers that one inference rests on."""


class Evidence:
    """Past answers as rows over atoms, and some wanted views as rows over the same atoms.

    Atoms are the sets of cells that no row tells apart. What cannot bear on the wanted views is left
    out without loss: rows that share no atom with them, directly or through others.

    Parameters
    ----------
    schema : Schema
    held : sequence of Held
        All of one table's data version.
    wanted : sequence of View
        What shall be inferred.
    bounds : bool
        Keep what tells nothing but for the fact that no number of rows is negative.

    Attributes
    ----------
    used, left_out : tuple of Held
        Releases that the inference rests on, and those for which the working domain has no room.
    """

    def __init__(
        self,
        schema: Schema,
        held: Sequence[Held],
        wanted: Sequence[View],
        *,
        bounds: bool = False,
    ) -> None:
        linked = _linked(schema, held, wanted)
        if not bounds:
            linked = summed_out(schema, linked, wanted)
        chosen, left_out = _fitting(schema, linked, wanted)
        self.domain = Domain(schema, [*(one.view for one in chosen), *wanted])
        self._wanted = {view.id: view for view in wanted}
        self._scheffe: dict[float, float] = {}
        self._split([one.view for one in chosen])
        chosen, more = self._connected(chosen)
        self.used, self.left_out = tuple(chosen), (*left_out, *more)

    def _split(self, views: Sequence[View]) -> None:
        """Find the atoms, and write every view's rows over them."""
        import numpy as np

        domain = self.domain
        labels = np.zeros(domain.size, dtype=np.int64)
        distinct = {view.id: view for view in (*views, *self._wanted.values())}
        triplets = {}
        for name, view in distinct.items():
            rows, cells, values = triplets[name] = domain.rows(view)
            if isinstance(view, Histogram) and view.strategy is not None:
                code = domain.keys(view) + 1
            else:
                code = np.zeros(domain.size, dtype=np.int64)
                code[cells] = 1 + _codes(rows, values)
            labels = _renumbered(labels * (int(code.max()) + 1) + code)
        self._atoms = int(labels.max()) + 1
        self._labels = labels
        # one cell of each atom stands for it
        place = np.full(self._atoms, -1, dtype=np.int64)
        place[labels[::-1]] = np.arange(domain.size)[::-1]
        self._rows: dict[str, tuple[Ints, Ints, Values]] = {}
        for name, (rows, cells, values) in triplets.items():
            one = place[labels[cells]] == cells
            self._rows[name] = rows[one], labels[cells[one]], values[one]

    def _connected(self, chosen: Sequence[Held]) -> tuple[list[Held], list[Held]]:
        """Keep what is connected with the wanted rows; make the history of it."""
        import numpy as np
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        start, pairs = self._atoms, []
        offsets = {}
        for one in chosen:
            rows, atoms, _ = self._rows[one.view.id]
            offsets[one.name] = start
            pairs.append(np.stack([rows + start, atoms]))
            start += len(one.values) if one.values is not None else _length(one.view, self.domain)
        wanted = [self._rows[name][1] for name in self._wanted]
        touched = np.unique(np.concatenate(wanted)) if wanted else np.zeros(0, dtype=np.int64)
        links = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), dtype=np.int64)
        graph = coo_matrix((np.ones(links.shape[1]), (links[0], links[1])), shape=(start, start))
        component = connected_components(graph, directed=False)[1]
        relevant = np.zeros(int(component.max()) + 1, dtype=bool)
        relevant[component[touched]] = True
        self._number = np.full(self._atoms, -1, dtype=np.int64)
        inside = np.flatnonzero(relevant[component[: self._atoms]])
        self._number[inside] = np.arange(len(inside))
        self.history = History(max(1, len(inside)))
        kept: list[Held] = []
        over: list[Held] = []
        made: list[Row] = []
        for one in chosen:
            rows, atoms, values = self._rows[one.view.id]
            keep = relevant[component[rows + offsets[one.name]]]
            new = list(self._made(one, rows[keep], self._number[atoms[keep]], values[keep]))
            if not new:
                continue
            if len(made) + len(new) > MOST_ROWS:
                over.append(one)
            else:
                made += new
                kept.append(one)
        self.history.extend(made)
        return kept, over

    def _made(self, one: Held, rows: Ints, atoms: Ints, values: Values) -> list[Row]:
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
                name=f"{one.name}/{number}",
                index=index,
                value=value,
                answer=float("nan") if one.values is None else one.values[number],
                law=one.law,
                granularity=float(one.view.granularity),
                planned=one.planned,
            )
            for number, index, value in parts
            if len(index)
        ]

    @cached_property
    def sources(self) -> dict[str, tuple[Held, int]]:
        """The release and the place in its vector of each row of the history, by name."""
        by_name = {one.name: one for one in self.used}
        found = {}
        for row in self.history.rows:
            name, _, number = row.name.rpartition("/")
            found[row.name] = by_name[name], int(number)
        return found

    def scheffe(self, alpha: float) -> float:
        """Return how many standard deviations hold for all combinations of the history at once."""
        if alpha not in self._scheffe:
            self._scheffe[alpha] = self.history.whole().scheffe(alpha)
        return self._scheffe[alpha]

    def wanted(self, view: View) -> list[tuple[Ints, Values]]:
        """Return the rows of a wanted view over the atoms of the history, one for each group."""
        import numpy as np

        rows, atoms, values = self._rows[view.id]
        order = np.argsort(rows, kind="stable")
        size = _length(view, self.domain)
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

        made: list[tuple[Ints, Values]] = []
        for rows in zip(*(self.wanted(view) for view, _ in parts), strict=True):
            index = np.concatenate([atoms for atoms, _ in rows])
            value = np.concatenate(
                [weight * values for (_, weight), (_, values) in zip(parts, rows, strict=True)]
            )
            atoms, inverse = np.unique(index, return_inverse=True)
            summed = np.bincount(inverse, weights=value, minlength=len(atoms))
            made.append((atoms.astype(np.int64), summed.astype(np.float64)))
        return made

    def box(self, atoms: Any) -> str | None:
        """Return the condition that describes some atoms of the history; None when none does."""
        import numpy as np

        chosen = np.zeros(self._atoms + 1, dtype=bool)
        chosen[np.flatnonzero(np.isin(self._number, np.asarray(atoms)))] = True
        return self.domain.condition(np.flatnonzero(chosen[self._labels]))

    def told(self, rows: Sequence[tuple[Ints, Values]]) -> list[bool]:
        """Return which rows past answers determine."""
        return [self.history.estimable(*row) for row in rows]

    def variances(self, rows: Sequence[tuple[Ints, Values]]) -> list[float]:
        """Return the variance of each row's estimate; infinite where there is none."""
        told = self.told(rows)
        inside = [row for row, known in zip(rows, told, strict=True) if known]
        found = iter(self.history.space.solve_many(inside).variances.tolist() if inside else [])
        return [next(found) if known else math.inf for known in told]


def _length(view: View, domain: Domain) -> int:
    """Return the number of entries of a view's vector."""
    if isinstance(view, Histogram):
        return view.size if view.strategy is None else len(view.strategy.matrix)
    size = 1
    for key in view.keys:
        size *= cell_count(domain.schema[key])
    return size


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
        seen = np.zeros(int(labels.max()) + 1, dtype=bool)
        seen[labels] = True
        numbers: Ints = np.cumsum(seen)[labels] - 1
        return numbers
    found: Ints = np.unique(labels, return_inverse=True)[1]
    return found


def _linked(schema: Schema, held: Sequence[Held], wanted: Sequence[View]) -> list[Held]:
    """Return the releases whose regions overlap those wanted, directly or through others."""
    moments = {moment_of(view, schema) for view in wanted} | {None}
    rest = [one for one in held if moment_of(one.view, schema) in moments]
    found: list[Held] = []
    reached = list(wanted)
    while reached:
        view = reached.pop()
        near = [one for one in rest if _overlap(schema, one.view, view)]
        rest = [one for one in rest if one not in near]
        found += near
        reached += [one.view for one in near]
    return found


def _overlap(schema: Schema, one: View, other: View) -> bool:
    if not one.where.columns & other.where.columns:
        return True
    return simplify(And((one.where, other.where)), schema) != NONE


def _fitting(
    schema: Schema, linked: Sequence[Held], wanted: Sequence[View]
) -> tuple[list[Held], list[Held]]:
    """Return as many releases as a domain has room for, those that need the fewest columns first."""
    own: frozenset[str] = frozenset().union(*(columns_of(view) for view in wanted))
    ranked = sorted(linked, key=lambda one: (len(columns_of(one.view) - own), one.law.scale))
    views = [*wanted, *(one.view for one in ranked)]
    if Domain(schema, views).size <= MOST_CELLS:
        return ranked, []
    chosen: list[Held] = []
    left_out: list[Held] = []
    views = list(wanted)
    for one in ranked:
        if Domain(schema, [*views, one.view]).size <= MOST_CELLS:
            chosen.append(one)
            views.append(one.view)
        else:
            left_out.append(one)
    return chosen, left_out
