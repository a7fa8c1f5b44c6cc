"""What these benchmarks share: CPU time, cases below Session, the published Phase 1, a verdict."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpnb.engines.duckdb import DuckDBEngine
from dpnb.estimation.estimates import cut
from dpnb.estimation.intervals import combine, mean_around_zero, mean_in_box
from dpnb.explain import mechanism
from dpnb.explain.influence import Mode
from dpnb.explain.mechanism import Influences
from dpnb.explain.plan import ExplanationPlan, plan_explanation, read_design
from dpnb.explain.predicates import space
from dpnb.explain.ranks import rank_intervals
from dpnb.explain.target import Target
from dpnb.privacy.calibrate import SUM_SHARE, NoiseDistribution
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.noise import SecureNoise
from dpnb.privacy.one_off import top_k
from dpnb.schema.table import Table
from dpnb.sql.parser import parse
from tests.kit.verdicts import finish as finish
from tests.kit.verdicts import must as must

DATA = Path(__file__).parents[2] / "data"
MODES: tuple[Mode, ...] = ("tight", "paper")
NOISE = SecureNoise()


def cpu() -> float:
    """Return user and system seconds of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(*works: Callable[[int], Any], runs: int) -> list[tuple[float, float]]:
    """Return median CPU and wall seconds of each work, run in turn after one warm-up.

    In turn, so that whatever else the machine does strikes all of them alike.
    """
    found: list[list[tuple[float, float]]] = [[] for _ in works]
    for i in range(runs + 1):
        for work, figures in zip(works, found, strict=True):
            used, wall = cpu(), time.perf_counter()
            work(i)
            figures.append((cpu() - used, time.perf_counter() - wall))
    return [
        (statistics.median(c for c, _ in figures[1:]), statistics.median(w for _, w in figures[1:]))
        for figures in found
    ]


class Case:
    """A question and its candidates, measured once; then any number of draws.

    Parameters
    ----------
    table : Table
    sql : str
        One aggregate by one column.
    weights : mapping from groups, as shown, to weights
    engine : DuckDBEngine, optional
        Of the same table, when it is open already.
    options
        Of the predicate space, as in ``Session.explain``.
    """

    def __init__(
        self,
        table: Table,
        sql: str,
        weights: Mapping[str, int],
        engine: DuckDBEngine | None = None,
        **options: Any,
    ) -> None:
        self.table, self.weights = table, weights
        self.engine = engine or DuckDBEngine(table)
        query = parse(sql, {table.name: table})
        (aggregate,), keys = query.aggregates, [key.partition.column for key in query.keys]
        labels = list(map(str, query.keys[0].names))
        self.target = Target.of(
            query, aggregate, 1,
            [(labels.index(group),) for group in weights],
            [Fraction(weight) for weight in weights.values()],
        )  # fmt: skip
        self.space = space(table, {*keys, *aggregate.columns}, **options)
        self._exact: dict[Mode, Influences] = {}

    def plan(
        self,
        mode: Mode,
        rho: object,
        *,
        k: int = 5,
        confidence: float = 0.95,
    ) -> ExplanationPlan:
        """Plan an explanation; one rho means the same for each part."""
        parts = ("topk", "influence", "rank")
        budgets = rho if isinstance(rho, Mapping) else dict.fromkeys(parts, str(rho))
        design = read_design(self.space.size, k=k, confidence=confidence, mode=mode)
        return plan_explanation(self.target, self.space, design, rho=budgets)

    def exact(self, mode: Mode) -> Influences:
        """Return the exact influences on the lattice of a mode."""
        if mode not in self._exact:
            plan = self.plan(mode, "1", k=1)
            self._exact[mode] = mechanism.measure(plan, self.engine)
        return self._exact[mode]

    @cached_property
    def influences(self) -> np.ndarray:
        """Exact influences of all candidates, in units of the influence; float (|P|,)."""
        exact, unit = self.exact("tight"), float(self.plan("tight", "1", k=1).unit)
        found = np.zeros(self.space.size)
        found[exact.active] = exact.scores * unit
        return found

    @cached_property
    def order(self) -> np.ndarray:
        """Candidates from the largest influence to the smallest."""
        return np.argsort(-self.influences, kind="stable")

    def place(self, candidate: int) -> tuple[int, int]:
        """Return the best and the worst true place, which differ by ties only."""
        value = self.influences[candidate]
        return int((self.influences > value).sum()) + 1, int((self.influences >= value).sum())

    def select(self, plan: ExplanationPlan) -> list[int]:
        """Draw the selection alone."""
        exact = self.exact(plan.design.mode)
        return top_k(exact.active, exact.scores, exact.size, plan.design.k, plan.gumbel, NOISE)

    def precision(self, chosen: Sequence[int]) -> float:
        """Return the share of the chosen that are among the true best; ties count as found."""
        least = self.influences[self.order[len(chosen) - 1]]
        return sum(self.influences[i] >= least for i in chosen) / len(chosen)

    def ranks(self, plan: ExplanationPlan, chosen: Sequence[int]) -> list[tuple[int, int]]:
        """Draw the ranks of the chosen alone."""
        exact = self.exact(plan.design.mode)
        scores = [exact.score(candidate) for candidate in chosen]
        return rank_intervals(
            lambda row, place: scores[row] - exact.at(place),
            len(chosen),
            exact.size,
            plan.search(above=False),
            plan.search(above=True),
            NOISE,
            plan.design.mode,
        )

    def release(self, plan: ExplanationPlan) -> list[tuple[int, float, tuple[int, int]]]:
        """Draw a whole explanation: candidate, influence, places."""
        drawn = mechanism.release(plan, self.exact(plan.design.mode), NOISE)
        rows = zip(drawn["predicates"], drawn["influences"], drawn["ranks"], strict=True)
        return [(p, value * float(plan.unit), tuple(ends)) for p, value, ends in rows]


def mean_question(
    groups: Sequence[tuple[int, float]],
    rho: float,
    mode: Mode,
    generator: np.random.Generator,
    *,
    low: float = 0.0,
    high: float = 1.0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Draw Phase 1 from sizes and sums alone; return the interval of first mean - second mean.

    For questions fixed in advance. ``groups``: rows and sum of each of the two. Mode 'paper' is DPXPlain
    section 4.2 as published; 'tight' is what ``Answer.compare`` does with a session's noise.
    """
    middle, reach = ((low + high) / 2, (high - low) / 2) if mode == "tight" else (0.0, 0.0)
    share = float(SUM_SHARE[ZCDP]) if mode == "tight" else 0.5
    largest = reach if mode == "tight" else max(abs(low), abs(high))
    total_distribution = NoiseDistribution("gaussian", largest / math.sqrt(2 * share * rho))
    count_distribution = NoiseDistribution("gaussian", 1 / math.sqrt(2 * (1 - share) * rho))
    ends = []
    for rows, value in groups:
        total = value - middle * rows + generator.normal(0, total_distribution.scale)
        count = rows + generator.normal(0, count_distribution.scale)
        alpha = (1 - confidence) / len(groups)
        if mode == "paper":
            ends.append(mean_in_box(total, count, total_distribution, count_distribution, alpha))
        else:
            mean = mean_around_zero(total, count, total_distribution, count_distribution, alpha)
            ends.append(cut(mean, (-reach, reach)))
    return combine(ends, [Fraction(1), Fraction(-1)], Fraction(0))
