"""One aggregate over all declared groups: released vectors, values and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpnb.answers.intervals import around, mean_around_zero
from dpnb.answers.numbers import figure
from dpnb.privacy.calibrate import Law


@dataclass(frozen=True, slots=True)
class Estimates:
    """One aggregate over all declared groups.

    Attributes
    ----------
    alias, function : str
    column : str or None
    total, count : tuple of float, or None
        The released vectors in units of the measure: for SUM the sums, for COUNT the counts, for
        AVG the centred sums and the counts.
    total_law, count_law : Law or None
        Their noise.
    middle, reach : float
        For AVG: the origin of the centred sums and the largest distance from it.
    look : int
        How many versions of these numbers were seen, this one included.
    alpha : float
        Failure probability at this look, for all groups (or for each on its own).
    estimate : tuple of float or None
        One value for each group; None where an AVG has too few rows to tell.
    low, high : tuple of float
        The interval of each group.
    """

    alias: str
    function: str
    column: str | None
    total: tuple[float, ...] | None
    total_law: Law | None
    count: tuple[float, ...] | None
    count_law: Law | None
    middle: float
    reach: float
    look: int
    alpha: float
    estimate: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def text(self, group: int) -> str:
        """Return the estimate as shown."""
        value = self.estimate[group]
        if value is None:
            return "too few rows to tell"
        shown = max(value, 0.0) if self.function == "COUNT" else value
        return figure(shown, self.half_width(group))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Estimates:
        """Build estimates from the plain data of ``dataclasses.asdict``."""
        values = dict(data)
        for name in ("total", "count", "estimate", "low", "high"):
            values[name] = None if values[name] is None else tuple(values[name])
        for name in ("total_law", "count_law"):
            values[name] = None if values[name] is None else Law.from_dict(values[name])
        return cls(**values)

    def half_width(self, group: int) -> float:
        """Return half the width of a group's interval."""
        return (self.high[group] - self.low[group]) / 2

    def interval_text(self, group: int) -> str:
        """Return the interval as shown."""
        half = self.half_width(group)
        return f"{figure(self.low[group], half)} to {figure(self.high[group], half)}"


def estimate(
    alias: str,
    function: str,
    column: str | None,
    *,
    total: Sequence[float] | None,
    total_law: Law | None,
    count: Sequence[float] | None,
    count_law: Law | None,
    middle: float,
    reach: float,
    look: int,
    alpha: float,
    each: float,
) -> Estimates:
    """Compute one aggregate's values and intervals from released vectors.

    ``alpha`` is kept for questions; ``each`` is the failure probability of one displayed interval.
    """
    values: list[float | None] = []
    ends: list[tuple[float, float]] = []
    if total is not None and count is not None and total_law and count_law:
        fewest = count_law.quantile(each)
        for s, c in zip(total, count, strict=True):
            low, high = mean_around_zero(s, c, total_law, count_law, reach, each)
            ends.append((middle + low, middle + high))
            values.append(middle + max(-reach, min(reach, s / c)) if c > fewest else None)
    elif total is not None and total_law:
        ends = [around(value, total_law, each) for value in total]
        values = list(total)
    elif count is not None and count_law:
        # a count is never negative, so the cut keeps the level; an interval wholly below 0 has
        # missed already, and must not look like certainty
        ends = [around(value, count_law, each) for value in count]
        half = count_law.quantile(each)
        ends = [(max(low, 0.0), high if high > 0 else half) for low, high in ends]
        values = list(count)
    return Estimates(
        alias, function, column,
        None if total is None else tuple(total), total_law,
        None if count is None else tuple(count), count_law,
        middle, reach, look, alpha, tuple(values),
        tuple(low for low, _ in ends), tuple(high for _, high in ends),
    )  # fmt: skip
