"""One result over all declared groups: released vectors, values and confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeAlias

from dpnb.estimation.formula import REALS, interval, value
from dpnb.estimation.intervals import Pair, Told, around, mean_around_zero, shifted
from dpnb.estimation.joint import snapped
from dpnb.formats import ends_text, figure, step_of, whole
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.results import with_lists
from dpnb.sql.formulas import (
    Formula,
    Leaf,
    Quantile,
    Statistic,
    nodes,
    plain_formula,
    read_formula,
    settled,
    statistics_of,
)
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate
from dpnb.sql.values import Column


def cut(interval: Pair, possible: Pair, *, whole: bool = False) -> Pair:
    """Return what is possible of a confidence interval (docs/methods/estimation.md, theorem 16).

    No value is lost that is possible, so the coverage stays the same. An interval entirely outside
    does not contain the value, and must not look like certainty: it becomes its margin of error
    inside, from the end that it misses. With ``whole``, only whole numbers are possible.

    Examples
    --------
    >>> cut((-3.0, 5.5), (0.0, math.inf)), cut((-9.0, -5.0), (0.0, math.inf))
    ((0.0, 5.5), (0.0, 2.0))
    """
    (low, high), (least, most) = interval, possible
    half = (high - low) / 2
    if low < least and high <= least:
        return least, min(least + half, most)
    if high > most and low >= most:
        return max(most - half, least), most
    if whole:
        low, high = snapped(low, high)
    return max(low, least), min(high, most)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values and confidence intervals of one result over all declared groups.

    Attributes
    ----------
    estimate : tuple of float or None
    low, high : tuple of float
    """

    estimate: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data (JSON); infinite ends are None."""
        ends = {
            name: [end if math.isfinite(end) else None for end in getattr(self, name)]
            for name in ("low", "high")
        }
        return {"estimate": list(self.estimate), **ends}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Numbers:
        """Build numbers from :meth:`to_dict`."""
        low, high = (
            tuple(end if bound is None else bound for bound in data[name])
            for name, end in (("low", -math.inf), ("high", math.inf))
        )
        return cls(tuple(data["estimate"]), low, high)


@dataclass(frozen=True, slots=True)
class Intervals:
    """The values and confidence intervals of one result over all declared groups, as they are shown.

    Attributes
    ----------
    alias : str
    function : Function
    column : str or None
        The aggregated column; None for other expressions.
    estimate : tuple of float or None
        One value for each group; None if there are too few rows to tell, or it is not determined.
    low, high : tuple of float
        The confidence interval of each group; infinite ends are possible.
    possible : tuple of (low, high)
        The public range of each group's value, or one for all groups.
    before : Numbers or None
        The numbers before :meth:`cut` took away what is impossible; None if they are the same.
    """

    alias: str
    function: Function
    column: str | None
    estimate: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    possible: tuple[Pair, ...] = field(default=(REALS,), kw_only=True)
    before: Numbers | None = field(default=None, kw_only=True)

    @property
    def uncut(self) -> Numbers:
        """The numbers before the cut: what is computed from several of them starts from these."""
        return self.before or Numbers(self.estimate, self.low, self.high)

    def cut(self, *, whole: bool = False) -> Self:
        """Return the numbers as they are shown: without what is impossible.

        With ``whole``, the intervals of counts end with whole numbers. A value whose interval is
        printed as everything that is possible is None.
        """
        whole = whole and self.function.is_count
        ends = [
            cut(pair, self.possible_of(group), whole=whole)
            for group, pair in enumerate(zip(self.low, self.high, strict=True))
        ]
        low, high = _low_and_high(ends)
        points = [
            None if point is None else min(max(point, first), last)
            for point, (first, last) in zip(self.estimate, ends, strict=True)
        ]
        shown = replace(self, estimate=tuple(points), low=low, high=high)
        blank = [
            group
            for group, point in enumerate(points)
            if point is not None and shown._is_everything(group)
        ]
        for group in blank:
            points[group] = None
        before, numbers = self.uncut, Numbers(tuple(points), low, high)
        return replace(
            shown, estimate=numbers.estimate, before=None if before == numbers else before
        )

    def possible_of(self, group: int) -> Pair:
        """Return the public range of a group's value."""
        return self.possible[group if len(self.possible) > 1 else 0]

    def _is_everything(self, group: int) -> bool:
        """Return whether a group's interval is printed as everything that is possible."""
        (least, most), low, high = self.possible_of(group), self.low[group], self.high[group]
        if (low, high) == (least, most):
            return least < most
        if math.isinf(most - least):
            return False
        grain = self._grain(group)
        near = 2 * step_of(grain)
        if low - least > near or most - high > near:
            return False
        counts = self.function.is_count
        return self.interval_text(group) == ends_text(least, most, grain, counts=counts)

    def margin_of_error(self, group: int) -> float:
        """Return half the width of a group's confidence interval."""
        return (self.high[group] - self.low[group]) / 2

    def text(self, group: int) -> str:
        """Return the estimate as displayed."""
        point = self.estimate[group]
        return "too few rows to tell" if point is None else figure(point, self._grain(group))

    def interval_text(self, group: int) -> str:
        """Return the confidence interval as displayed."""
        counts, half = self.function.is_count, self._grain(group)
        return ends_text(self.low[group], self.high[group], half, counts=counts)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data (JSON); infinite ends are None."""
        data = {field.name: with_lists(getattr(self, field.name)) for field in fields(self)}
        data |= Numbers(self.estimate, self.low, self.high).to_dict()
        data["possible"] = [
            [end if math.isfinite(end) else None for end in ends] for ends in self.possible
        ]
        data["before"] = None if self.before is None else self.before.to_dict()
        return data

    @staticmethod
    def read_fields(data: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain data with the fields of this class as they were."""
        values = dict(data)
        numbers = Numbers.from_dict(values)
        values |= {name: getattr(numbers, name) for name in ("estimate", "low", "high")}
        values["function"] = Function(values["function"])
        values["possible"] = tuple(
            (-math.inf if low is None else low, math.inf if high is None else high)
            for low, high in values["possible"]
        )
        before = values["before"]
        values["before"] = None if before is None else Numbers.from_dict(before)
        return values

    def _grain(self, group: int) -> float:
        """Return the resolution to show: whole numbers for values that can only be whole."""
        half = self.margin_of_error(group)
        return whole(half) if self.function.is_count else half


@dataclass(frozen=True, slots=True)
class Estimates(Intervals):
    """One aggregate, or one formula over aggregates, with the released vectors behind it.

    Only formulas have infinite ends. An estimate is None if an AVG has too few rows to tell, or a
    formula depends on such an AVG or its confidence interval is all reals.

    Attributes
    ----------
    total, count : tuple of float, or None
        The released vectors in units of the measure: for SUM the sums, for COUNT the counts, for
        AVG the centred sums and the counts, for CELLS the counts of all bins of each group.
    total_distribution, count_distribution : NoiseDistribution or None
        Their noise.
    middle, reach : float
        For AVG: the origin of the centred sums and the largest distance from it.
    look : int
        Number of versions of these numbers released so far, including this one.
    alpha : float
        Failure probability at this look, for all groups (or for each on its own).
    formula : Formula or None
    leaves : tuple of Estimates
        The aggregates of the formula, with the confidence intervals that its own are computed from.
        For a quantile: the counts of all bins of each group, without confidence intervals.
    """

    look: int
    alpha: float
    total: tuple[float, ...] | None = None
    total_distribution: NoiseDistribution | None = None
    count: tuple[float, ...] | None = None
    count_distribution: NoiseDistribution | None = None
    middle: float = 0.0
    reach: float = 0.0
    formula: Formula | None = None
    leaves: tuple[Estimates, ...] = ()

    @classmethod
    def worked_out(
        cls,
        aggregate: Aggregate,
        values: Sequence[float | None],
        ends: Sequence[tuple[float, float]],
        alpha: float,
        look: int,
        possible: Sequence[Pair],
    ) -> Estimates:
        """Build estimates from values that combine several releases with different noise."""
        value = aggregate.value
        column = value.name if isinstance(value, Column) else None
        own = aggregate.alias, aggregate.function, column
        numbers = tuple(values), *_low_and_high(ends)
        return cls(*own, *numbers, look, alpha, possible=tuple(possible))

    @property
    def plain(self) -> bool:
        """Whether there are no released vectors: for formulas and combined answers."""
        return self.total is None and self.count is None

    def _grain(self, group: int) -> float:
        """Return the resolution to show: also whole for a quantile of whole numbers."""
        half = self.margin_of_error(group)
        if not isinstance(self.formula, Quantile):
            return whole(half) if self.function.is_count else half
        ends = self.estimate[group], self.low[group], self.high[group]
        return whole(half) if all(end is None or end.is_integer() for end in ends) else half

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates as plain data (JSON); infinite ends are None."""
        data = Intervals.to_dict(self)
        for name in ("total_distribution", "count_distribution"):
            data[name] = None if data[name] is None else data[name].to_dict()
        data["formula"] = None if self.formula is None else plain_formula(self.formula)
        data["leaves"] = [leaf.to_dict() for leaf in self.leaves]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Estimates:
        """Build estimates from :meth:`to_dict`."""
        values = cls.read_fields(data)
        for name in ("total", "count"):
            values[name] = None if values[name] is None else tuple(values[name])
        for name in ("total_distribution", "count_distribution"):
            values[name] = (
                None if values[name] is None else NoiseDistribution.from_dict(values[name])
            )
        formula = values["formula"]
        values["formula"] = None if formula is None else read_formula(formula)
        values["leaves"] = tuple(cls.from_dict(leaf) for leaf in values["leaves"])
        return cls(**values)


def _low_and_high(
    ends: Sequence[tuple[float, float]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(low for low, _ in ends), tuple(high for _, high in ends)


def estimate(
    alias: str,
    function: Function,
    column: str | None,
    *,
    total: Sequence[float] | None,
    total_distribution: NoiseDistribution | None,
    count: Sequence[float] | None,
    count_distribution: NoiseDistribution | None,
    middle: float,
    reach: float,
    look: int,
    alpha: float,
    each: float,
    possible: Sequence[Pair] = (REALS,),
) -> Estimates:
    """Compute one aggregate's values and confidence intervals from released vectors.

    ``alpha`` is stored for later questions; ``each`` is the failure probability of one displayed
    confidence interval.
    """
    values: list[float | None] = []
    ends: list[tuple[float, float]] = []
    if total is not None and count is not None and total_distribution and count_distribution:
        fewest = count_distribution.quantile(each)
        for s, c in zip(total, count, strict=True):
            centred = mean_around_zero(s, c, total_distribution, count_distribution, each)
            ends.append(shifted(centred, middle))
            values.append(middle + s / c if c > fewest else None)
    elif total is not None and total_distribution:
        ends = [around(released, total_distribution, each) for released in total]
        values = list(total)
    elif count is not None and count_distribution:
        ends = [around(released, count_distribution, each) for released in count]
        values = list(count)
    return Estimates(
        alias,
        function,
        column,
        tuple(values),
        *_low_and_high(ends),
        look,
        alpha,
        None if total is None else tuple(total),
        total_distribution,
        None if count is None else tuple(count),
        count_distribution,
        middle,
        reach,
        possible=tuple(possible),
    )


def counted(
    alias: str,
    column: str | None,
    count: Sequence[float],
    distribution: NoiseDistribution | None,
    look: int,
    alpha: float,
) -> Estimates:
    """Build the leaf of a quantile from the released counts of a column's bins; it is not shown."""
    own = alias, Function.CELLS, column, (), (), ()
    return Estimates(*own, look, alpha, count=tuple(count), count_distribution=distribution)


def derived(
    alias: str,
    formula: Formula,
    leaves: Sequence[Estimates],
    statistic: Callable[[Statistic], Told] | None = None,
    possible: Sequence[Pair] = (REALS,),
) -> Estimates:
    """Compute a formula's values and confidence intervals from its leaves.

    A variance or quantile in it is a leaf of its own: ``statistic`` returns a value and a
    confidence interval for each group, which share the failure probability like those of
    aggregates.

    The formula's intervals need no failure probability of their own. Simultaneous intervals of all
    aggregates in all groups hold together with probability 1 - alpha; if they hold, so do their
    images under any number of formulas (docs/methods/estimation.md, theorem 7). Intervals that hold
    separately use leaves at alpha / h each for h leaves: by the union bound, a formula's interval
    fails with probability at most alpha.

    Values are computed from uncut ones, intervals from what is possible of each leaf's.
    """
    plain, statistics = _settled(formula, leaves, statistic)
    shown = [(leaf.estimate, tuple(zip(leaf.low, leaf.high, strict=True))) for leaf in leaves]
    uncut = [
        (leaf.uncut.estimate, tuple(zip(leaf.uncut.low, leaf.uncut.high, strict=True)))
        for leaf in leaves
    ]
    numbers = _image(plain, [*uncut, *statistics])
    narrower = numbers if shown == uncut else _image(plain, [*shown, *statistics])
    own = alias, Function.FORMULA, None, numbers.estimate, narrower.low, narrower.high
    look, alpha = max(leaf.look for leaf in leaves), max(leaf.alpha for leaf in leaves)
    return Estimates(
        *own,
        look,
        alpha,
        formula=formula,
        leaves=tuple(leaves),
        possible=tuple(possible),
        before=numbers,
    )


_Column: TypeAlias = tuple[Sequence[float | None], Sequence[Pair]]


def _image(formula: Formula, columns: Sequence[_Column]) -> Numbers:
    """Return a formula's values and intervals by group, from those of its leaves."""
    values: list[float | None] = []
    ends: list[Pair] = []
    places = {node.place for node in nodes(formula) if isinstance(node, Leaf)}
    for group in range(max(len(columns[place][1]) for place in places)):
        pairs = [
            pairs[group] if place in places else REALS for place, (_, pairs) in enumerate(columns)
        ]
        points = [
            estimates[group] if place in places else 0.0
            for place, (estimates, _) in enumerate(columns)
        ]
        ends.append(interval(formula, pairs))
        numbers = [point for point in points if point is not None]
        defined = ends[-1] != REALS and len(numbers) == len(points)
        values.append(value(formula, numbers) if defined else None)
    return Numbers(tuple(values), *_low_and_high(ends))


def _settled(
    formula: Formula,
    leaves: Sequence[Estimates],
    statistic: Callable[[Statistic], Told] | None,
) -> tuple[Formula, list[Told]]:
    """Return a formula with its statistics as leaves, and their values and intervals."""
    statistics = statistics_of(formula)
    if not statistics or statistic is None:
        return formula, []
    return settled(formula, statistics, len(leaves)), [statistic(node) for node in statistics]
