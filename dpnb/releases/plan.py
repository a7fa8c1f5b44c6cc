"""Plans: the views that a statement measures, and the level of each for a requested accuracy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

from dpnb.errors import RequestError
from dpnb.ledger.mechanism import LevelTarget, level_of_epsilon
from dpnb.privacy.calibrate import (
    SUM_SHARE,
    NoiseDistribution,
    level_for_error,
    level_for_mean_error,
    sum_quantile,
)
from dpnb.privacy.definition import BASIC, PURE, PrivacyDefinition
from dpnb.privacy.loss import amount_text
from dpnb.privacy.path import LEAST_LEVEL, grid, snap
from dpnb.releases.accuracy import Accuracy
from dpnb.sql.canonical import describe
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate, Query
from dpnb.views.alignment import Alignment, level_for_mean
from dpnb.views.measures import Scan
from dpnb.views.view import View, ids_counted, scan_of, views_of

MOST_LEVEL = Fraction(10**12)
"""Largest level of a vector; from about 10**9 on, the lattice's own noise matters
(``View.distribution``)."""


@dataclass(frozen=True, slots=True)
class Part:
    """One aggregate of a plan and the views it is computed from: its own, or a declared one.

    With an ``alignment``, each of ``sum`` and ``count`` that is given is the declared view.
    """

    aggregate: Aggregate
    sum: View | None
    count: View | None
    alignment: Alignment | None = None

    @property
    def is_mean(self) -> bool:
        """Whether the aggregate is a ratio of its two views."""
        return self.sum is not None and self.count is not None

    def views(self) -> list[View]:
        """Return the distinct views in use."""
        if self.alignment is not None:
            return [self.alignment.view]
        return [view for view in (self.sum, self.count) if view is not None]

    def distribution(
        self, plan: Plan, view: View, level: Fraction, centred: bool | None
    ) -> NoiseDistribution:
        """Return the noise of a part's sums (centred or not) or counts (None) at a level."""
        view_noise = plan.distribution(view, level)
        if self.alignment is None:
            return view_noise
        return NoiseDistribution(view_noise.family, view_noise.scale * self.alignment.norm(centred))

    @property
    def reach(self) -> float:
        """For AVG: the largest distance of a value from the origin of the sums."""
        if self.alignment is not None:
            return self.alignment.reach
        return 0.0 if self.sum is None else self.sum.spread


class Catalogue(Protocol):
    """Declared views that may answer aggregates."""

    def part(self, aggregate: Aggregate, query: Query, accuracy: Accuracy) -> Part | None:
        """Return the cheapest way to answer an aggregate from them; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """A statement's views and the target level of each. Holds public facts only.

    ``request`` is equal for requests of equal meaning and accuracy on one version of a table.
    ``epsilons`` is each view's share of an epsilon under a basic accountant. ``others`` counts the
    confidence intervals of other statements of one request, which hold at once with these.
    ``branches`` are the plans of those statements in the plan of all.
    """

    query: Query
    accuracy: Accuracy
    privacy: PrivacyDefinition
    request: str
    parts: tuple[Part, ...]
    views: Mapping[str, View]
    levels: Mapping[str, Fraction]
    groups: int
    epsilons: Mapping[str, Fraction] = field(default_factory=dict)
    others: int = 0
    branches: tuple[Plan, ...] = ()

    def level_targets(self) -> dict[str, LevelTarget]:
        """Return the target level of each view."""
        return {
            name: LevelTarget(level, self.epsilons.get(name)) for name, level in self.levels.items()
        }

    def alpha(self, look: int) -> float:
        """Return the failure probability of one aggregate's confidence interval in one group."""
        return self.accuracy.alpha(self.groups * self.query.claims + self.others, look)

    def distribution(self, view: View, level: Fraction) -> NoiseDistribution:
        """Return the noise distribution of a view at a level, in units of its measure."""
        return view.distribution(level, self.privacy)

    def scan(self, views: Mapping[str, View]) -> Scan:
        """Return one scan that measures ``views``, in the same order."""
        return scan_of(self.query.where, views)


def request_name(query: Query, accuracy: Accuracy, version: int, *, own: bool = False) -> str:
    """Return a name that is equal for requests of equal meaning and accuracy on one table version.

    ``own`` says that declared views were ignored.
    """
    plain_accuracy = accuracy.to_dict()
    if accuracy.error is not None:
        # aliases are not part of the meaning, so errors go in the order of the aggregates
        plain_accuracy["error"] = [accuracy.error[aggregate.alias] for aggregate in query.measured]
    meaning: list[Any] = [describe(query), plain_accuracy, version, *(["own views"] if own else [])]
    counts = (one for one in query.measured if one.function is Function.UNITS)
    counted = ids_counted(view for one in counts for view in views_of(one, query, version).values())
    meaning += [counted] if counted else []
    text = json.dumps(meaning, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def plan(
    query: Query,
    accuracy: Accuracy,
    version: int,
    privacy: PrivacyDefinition,
    seen: Callable[[Sequence[str]], int] = lambda _: 0,
    *,
    catalogue: Catalogue | None = None,
    name: str | None = None,
    release_delta: Fraction | None = None,
    others: int = 0,
) -> Plan:
    """Decide the level of each view from public facts.

    ``seen`` returns how many versions of some views together the analyst has received: with
    ``looks='any'``, an error is met at the next look. If declared views of the ``catalogue`` can
    answer an aggregate, the cheapest of them does; other aggregates get views of their own.
    ``name`` is the request's name, by default that of :func:`request_name`. A basic accountant that
    splits an epsilon needs ``release_delta``.

    With a level, each aggregate gets an equal share; an AVG's share is split between its centred
    sum and its count; a view that serves several aggregates gets its largest share; then all shares
    are scaled to add up to the level. With errors, each view gets the least level that suffices.
    """
    request = request_name(query, accuracy, version) if name is None else name
    draft = at_levels(query, accuracy, version, privacy, request, {}, catalogue)
    draft = replace(draft, others=others)
    parts, views = draft.parts, draft.views
    epsilons: dict[str, Fraction] = {}
    if accuracy.level is not None:
        level = accuracy.level
        levels = {view: level * share for view, share in shares(parts, accuracy, privacy).items()}
        if privacy is BASIC and release_delta is not None:
            epsilons = levels
            levels = {
                view: basic_level(epsilon, release_delta) for view, epsilon in epsilons.items()
            }
    else:
        try:
            levels = _sufficient_levels(draft, seen)
        except (ArithmeticError, ValueError):
            levels = dict.fromkeys(views, Fraction(0))
    if not all(LEAST_LEVEL <= level <= MOST_LEVEL for level in levels.values()):
        raise RequestError(
            f"{'the privacy cost' if accuracy.error is None else 'the error'} is out of range for noise on "
            "64-bit integers",
            "Ask for one closer to the size of the values.",
        )
    if privacy is PURE:
        levels = {view: _snapped(level, accuracy) for view, level in levels.items()}
    return replace(draft, levels=levels, epsilons=epsilons)


def at_levels(
    query: Query,
    accuracy: Accuracy,
    version: int,
    privacy: PrivacyDefinition,
    request: str,
    levels: Mapping[str, Fraction],
    catalogue: Catalogue | None,
) -> Plan:
    """Return the plan of a statement whose views have given levels."""
    parts = []
    views: dict[str, View] = {}
    for aggregate in query.measured:
        part = None if catalogue is None else catalogue.part(aggregate, query, accuracy)
        if part is None:
            needed = views_of(aggregate, query, version)
            part = Part(aggregate, needed.get("sum"), needed.get("count"))
        views |= {view.id: view for view in part.views()}
        parts.append(part)
    return Plan(query, accuracy, privacy, request, tuple(parts), views, levels, query.size)


def basic_level(epsilon: Fraction, release_delta: Fraction) -> Fraction:
    """Return the level that an epsilon allows under a basic accountant.

    Raises
    ------
    RequestError
    """
    try:
        return level_of_epsilon(epsilon, release_delta)
    except ValueError:
        raise RequestError("epsilon is out of range", "Give an epsilon between 0 and 50.") from None


def shares(
    parts: Sequence[Part], accuracy: Accuracy, privacy: PrivacyDefinition
) -> dict[str, Fraction]:
    """Return each view's share of a statement's level; the shares add up to 1."""
    split = SUM_SHARE[privacy] if accuracy.split is None else accuracy.split
    alone = {view.id for part in parts if not part.is_mean for view in part.views()}
    weights: dict[str, Fraction] = {}
    for part in parts:
        # if another aggregate pays for the count, an AVG's whole share goes to its sum
        paid = accuracy.split is None and part.count is not None and part.count.id in alone
        for view, share in ((part.sum, Fraction(1) if paid else split), (part.count, 1 - split)):
            if view is not None:
                weight = share if part.is_mean else Fraction(1)
                weights[view.id] = max(weight, weights.get(view.id, weight))
    total = sum(weights.values())
    return {view: share / total for view, share in weights.items()}


def _sufficient_levels(draft: Plan, seen: Callable[[Sequence[str]], int]) -> dict[str, Fraction]:
    levels: dict[str, Fraction] = {}
    privacy = draft.privacy
    split = SUM_SHARE[privacy] if draft.accuracy.split is None else draft.accuracy.split

    def need(view: View, level: Fraction) -> None:
        levels[view.id] = max(level, levels.get(view.id, level))

    for part in draft.parts:
        error = (draft.accuracy.error or {})[part.aggregate.alias]
        any_look = draft.accuracy.looks == "any"
        alpha = draft.alpha(1 + seen([view.id for view in part.views()]) if any_look else 1)
        alpha /= _sharers(part.aggregate, draft.query, draft.accuracy)
        if part.alignment is not None:
            level = _declared_level(part, part.alignment, error, draft.accuracy, alpha, privacy)
            need(part.alignment.view, level)
        elif not part.is_mean:
            (view,) = part.views()
            need(view, level_for_error(error, view.sensitivity(privacy), alpha, privacy))
        elif part.sum is not None and part.count is not None:
            reach = part.sum.spread
            # k rows per unit: the noise is that of one row per unit in a group 1/k as large
            rows = float(draft.accuracy.rows or 1) / part.count.sensitivity(privacy)
            level = level_for_mean_error(error, reach, rows, alpha, split, privacy)
            need(part.sum, level * split)
            need(part.count, level * (1 - split))
    return levels


def _sharers(aggregate: Aggregate, query: Query, accuracy: Accuracy) -> int:
    """Return how many confidence intervals of a formula share one failure probability."""
    return query.sharers(aggregate) if accuracy.intervals == "each" else 1


def declared_level(
    part: Part, query: Query, accuracy: Accuracy, privacy: PrivacyDefinition
) -> Fraction:
    """Return the level of a declared view that meets an aggregate's error at the first look."""
    if part.alignment is None or accuracy.error is None:
        raise ValueError("there is no declared view, or no error")
    alpha = accuracy.alpha(part.alignment.groups * len(query.measured), 1)
    alpha /= _sharers(part.aggregate, query, accuracy)
    error = accuracy.error[part.aggregate.alias]
    return _declared_level(part, part.alignment, error, accuracy, alpha, privacy)


def _declared_level(
    part: Part,
    alignment: Alignment,
    error: float,
    accuracy: Accuracy,
    alpha: float,
    privacy: PrivacyDefinition,
) -> Fraction:
    if alignment.norm(None) == 0 or (part.sum is not None and alignment.norm(False) == 0):
        # nothing is added up, so the answer is exactly 0
        return LEAST_LEVEL
    if part.is_mean:
        z = NoiseDistribution("gaussian", 1.0).quantile(alpha)
        return level_for_mean(alignment, error, float(accuracy.rows or 1), z)
    norm = alignment.norm(None if part.sum is None else False)
    return level_for_error(error, alignment.view.sensitivity(privacy) * norm, alpha, privacy)


def _snapped(level: Fraction, accuracy: Accuracy) -> Fraction:
    """Round a level to the public grid: down for a requested cost, up for a requested error."""
    grid_level = snap(level, up=accuracy.error is not None)
    if grid_level is None:
        low, high = amount_text(grid()[0]), amount_text(grid()[-1], left=True)
        raise RequestError(
            f"one of the vectors would need epsilon {amount_text(level)}; "
            f"epsilon can be from {low} to {high}",
            "Ask for a larger epsilon or a different error.",
        )
    return grid_level


def margin_of_error(
    part: Part, plan: Plan, levels: Mapping[str, Fraction], look: int, rows: int, sharers: int = 1
) -> float:
    """Return the expected margin of error of an aggregate; for AVG in groups of ``rows`` rows.

    COUNT and SUM: the quantile of the noise. AVG: the worst case over means at the given count.
    ``sharers`` confidence intervals share the failure probability.
    """
    alpha = plan.alpha(look) / sharers
    if part.sum is not None and part.count is not None:
        total = part.distribution(plan, part.sum, levels[part.sum.id], centred=True)
        count = part.distribution(plan, part.count, levels[part.count.id], centred=None)
        reach = part.reach
        spread = sum_quantile(total, NoiseDistribution(count.family, count.scale * reach), alpha)
        return min(reach, spread / rows)
    (view,) = part.views()
    centred = None if part.sum is None else False
    return part.distribution(plan, view, levels[view.id], centred).quantile(alpha)
