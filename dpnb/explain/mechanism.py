"""The mechanism of phase 3: from exact influences to released rows.

Selection, influences and ranks are three mechanisms whose costs add (DPXPlain, Theorem 4.12); they
are drawn and released together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnb.engines.marginals import MarginalScan
from dpnb.engines.scans import Engine
from dpnb.explain.cells import cells_of
from dpnb.explain.influence import Cells, Vector, influences
from dpnb.explain.plan import ExplanationPlan
from dpnb.explain.ranks import rank_intervals
from dpnb.privacy.noise import Noise
from dpnb.privacy.one_off import top_k
from dpnb.schema.partition import declared
from dpnb.schema.predicates import EVERY, And, Or, Predicate, simplify
from dpnb.views.measures import Count, Measure, Scan


@dataclass(frozen=True, slots=True)
class Influences:
    """Exact influences of all candidates, in lattice units; printing shows none of them.

    ``active``: int64 (a,), ascending, the candidates that select a row; all others score 0.
    ``scores``: int64 (a,). ``falling``: the scores from large to small, of which ``positive`` are
    above 0. ``size``: number of candidates.
    """

    active: Vector
    scores: Vector
    falling: Vector
    positive: int
    size: int

    @classmethod
    def of(cls, active: Vector, scores: Vector, size: int) -> Influences:
        """Sort the scores once, for the rank searches."""
        return cls(active, scores, np.sort(scores)[::-1], int((scores > 0).sum()), size)

    def score(self, candidate: int) -> int:
        """Return one candidate's influence."""
        place = int(np.searchsorted(self.active, candidate))
        if place < len(self.active) and int(self.active[place]) == candidate:
            return int(self.scores[place])
        return 0

    def at(self, place: int) -> int:
        """Return the ``place``-th largest influence; candidates that select no row score 0."""
        idle = self.size - len(self.falling)
        if self.positive < place <= self.positive + idle:
            return 0
        return int(self.falling[place - 1 if place <= self.positive else place - 1 - idle])

    def __repr__(self) -> str:
        return "Influences(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def measure(plan: ExplanationPlan, engine: Engine) -> Influences:
    """Look at the data once and return the exact influences."""
    space, target = plan.space, plan.target
    scan = MarginalScan(
        keys=target.keys,
        groups=target.groups,
        where=target.where,
        value=target.aggregate.value,
        measure=target.measure,
        sets=tuple(
            tuple(declared(a.column, target.schema) for a in attributes)
            for attributes in space.sets
        ),
    )
    if space.listed:
        return _measure_listed(plan, engine, scan.group_numbers())
    tables = engine.marginals(scan)
    count, total = tables.totals()
    scores_by_set = [
        (cells.index, _scores(plan, cells, count, total))
        for cells in cells_of(space, tables.marginal, count, total)
    ]
    index = np.concatenate([index for index, _ in scores_by_set])
    return Influences.of(index, np.concatenate([scores for _, scores in scores_by_set]), space.size)


def _scores(
    plan: ExplanationPlan, cells: Cells, count: Sequence[int], total: Sequence[int]
) -> Vector:
    target = plan.target
    return influences(
        target.aggregate.function, target.weights, cells, count, total, plan.lattice.unit
    )


def _measure_listed(plan: ExplanationPlan, engine: Engine, groups: Sequence[int]) -> Influences:
    """Measure listed conditions with one statement, one pair of aggregates for each."""
    target = plan.target
    where = simplify(And((target.where, _in_groups(plan))), target.schema)
    conditions = [EVERY, *(predicate for _, predicate in plan.space.listed)]
    count = Count(target.aggregate.value)
    measures: list[tuple[Measure, Predicate]] = [(count, condition) for condition in conditions]
    if target.measure is not None:
        measures += [(target.measure, condition) for condition in conditions]
    exact = engine.measure(Scan(target.keys, where, tuple(measures)))
    table = np.array(
        [[exact.reveal(i)[group] for group in groups] for i in range(len(measures))],
        dtype=np.int64,
    )
    counts = table[: len(conditions)]
    totals = table[len(conditions) :] if target.measure is not None else np.zeros_like(counts)
    cells = Cells(np.arange(plan.space.size), counts[1:], totals[1:])
    scores = _scores(plan, cells, counts[0].tolist(), totals[0].tolist())
    return Influences.of(cells.index, scores, plan.space.size)


def _in_groups(plan: ExplanationPlan) -> Predicate:
    """Return the predicate of belonging to one of the question's groups."""
    keys = plan.target.keys
    return Or(
        tuple(
            And(tuple(key.within(number) for key, number in zip(keys, group, strict=True)))
            for group in plan.target.groups
        )
    )


def release(plan: ExplanationPlan, exact: Influences, noise: Noise) -> dict[str, Any]:
    """Draw selection, influences and ranks; the result may be shown once it is committed.

    Returns
    -------
    dict
        ``predicates`` (numbers in the space, in the order of their noisy scores), ``influences``
        (lattice units) and ``ranks`` (pairs).
    """
    design = plan.design
    chosen = top_k(exact.active, exact.scores, exact.size, design.k, plan.gumbel, noise)
    scores = [exact.score(candidate) for candidate in chosen]
    values = noise.gaussian(scores, plan.sigma)
    ranks = rank_intervals(
        lambda row, place: scores[row] - exact.at(place),
        design.k,
        exact.size,
        plan.search(above=False),
        plan.search(above=True),
        noise,
        design.mode,
    )
    return {"predicates": chosen, "influences": values, "ranks": [list(pair) for pair in ranks]}
