"""The owner's conditions on the indicators, and the largest level that meets them.

Theorem 8 of docs/methods/rdr.md.
A preference that holds at a level holds at every smaller one, so a search of the candidates from
the largest down agrees with the closed forms.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from dpnb.codes import number
from dpnb.errors import RequestError, given
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import amount
from dpnb.risk.indicator import Form, Values, limit
from dpnb.risk.rows import Rows

CANDIDATES: tuple[Fraction, ...] = (
    Fraction(10),
    *(Fraction(digit, power) for power in (1, 10, 100, 1000) for digit in range(9, 0, -1)),
)
"""The 37 levels from 10 down to 0.001 of RDR, Algorithm 1."""
LEAST = 1e-6
"""Smallest threshold of a ratio above 0; it allows factors of a million."""
TIE = 1e-12
"""Relative tolerance of comparisons, because floats make equal ratios differ."""


def threshold(value: object, name: str = "tau") -> float:
    """Check a threshold and return it: a number from 0 to 1.

    Raises
    ------
    RequestError
    """
    cutoff = number(value)
    if cutoff is None or not 0 <= cutoff <= 1:
        raise RequestError(f"{name} must be between 0 and 1", f"Give {name}=0.95, or closer to 1.")
    if 0 < cutoff < LEAST:
        raise RequestError(f"{name} is too close to 0", f"Give {name}=0 for no limit at all.")
    return float(cutoff)


def positive(value: object, name: str) -> float:
    """Check a threshold and return it: a positive finite number."""
    return float(amount(value, name))


def descending(levels: Sequence[object] | None) -> tuple[Fraction, ...]:
    """Return candidate levels from the largest down; by default the paper's.

    Raises
    ------
    RequestError
        If there are none, or one is not positive and finite.
    """
    if levels is None:
        return CANDIDATES
    try:
        candidates = [] if isinstance(levels, (str, bytes, Mapping)) else list(levels)
    except TypeError:
        candidates = []
    if not candidates:
        raise RequestError(
            "candidates must be a list of numbers", "Give numbers, such as candidates=[1, 0.1]."
        )
    # Fraction drops the mark "picked from the data": the choice itself carries it
    exact_levels = {Fraction(amount(level, "a candidate")) for level in candidates}
    return tuple(sorted(exact_levels, reverse=True))


def largest_within(candidates: Sequence[Fraction], level: float) -> Fraction | None:
    """Return the largest candidate at or below ``level``; None if there is none."""
    return next((c for c in candidates if float(c) <= level * (1 + TIE)), None)


@runtime_checkable
class Preference(Protocol):
    """A condition on the indicators of all rows at one level."""

    @property
    def threshold(self) -> float:
        """The number that the value is compared with."""
        ...

    def value(self, rows: Rows, level: float) -> float:
        """Return the number to compare with the threshold."""
        ...

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether the condition holds at ``level``."""
        ...

    def closed(self, rows: Rows) -> float | None:
        """Return the largest level for a first release, or None if it has no closed form."""
        ...


@dataclass(frozen=True, slots=True)
class MinMaxRatio:
    """Smallest over largest indicator at least ``threshold``: the paper's own (RDR, section 3.3).

    If everybody contributes alike it allows any level; ``FloorMaxRatio`` does not.
    """

    threshold: float

    def value(self, rows: Rows, level: float) -> float:
        """Return min / max."""
        if not len(rows.counts):
            return 1.0
        return _ratio(rows.relative(level, lowest=True).min(), rows.relative(level).max())

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether min / max >= tau."""
        return self.value(rows, level) >= self.threshold * (1 - TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return (1 - tau)/(tau r_max - r_min).

        For rho: (1 - tau^2)/(2 (tau^2 r_max^2 - r_min^2)); for rho with the form 'linear':
        ((1 - tau)/(tau r_max - r_min))^2 / 2.
        """
        if rows.form == "exact":
            return None
        tau, low, high = self.threshold, _end(rows.r_low, np.min), _end(rows.r, np.max)
        if rows.pure:
            return _over(1 - tau, tau * high - low)
        if rows.form == "linear":
            return _over(1 - tau, tau * high - low) ** 2 / 2
        return _over(1 - tau * tau, 2 * (tau * tau * high * high - low * low))


@dataclass(frozen=True, slots=True)
class FloorMaxRatio:
    """Floor over largest indicator at least ``threshold``: a cap on any person's loss."""

    threshold: float

    def value(self, rows: Rows, level: float) -> float:
        """Return floor / max."""
        return _ratio(1.0, rows.relative(level).max(initial=1.0))

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether floor / max >= tau."""
        return self.value(rows, level) >= self.threshold * (1 - TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return the level at which the largest r reaches the limit of tau."""
        if rows.several_exact:
            return None
        return level_of(_end(rows.r, np.max), self.threshold, rows.pure, rows.form)


@dataclass(frozen=True, slots=True)
class QuantileRatio:
    """Floor over the ``p``-quantile of the indicators at least ``threshold``.

    It promises nothing about the rows above the quantile.
    """

    threshold: float
    p: float

    def value(self, rows: Rows, level: float) -> float:
        """Return floor / quantile."""
        return _ratio(1.0, rows.quantile(rows.relative(level), self.p, 1.0))

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether floor / quantile >= tau."""
        return self.value(rows, level) >= self.threshold * (1 - TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return the level at which the quantile of r reaches the limit of tau."""
        if rows.several_exact:
            return None
        return level_of(rows.quantile(rows.r, self.p, 0.0), self.threshold, rows.pure, rows.form)


@dataclass(frozen=True, slots=True)
class GroupRatio:
    """Smaller over larger median indicator of two groups at least ``threshold``.

    The published form is one-sided: it allows one group to be much more exposed
    (docs/methods/rdr.md, E18).
    """

    threshold: float
    left: int
    right: int

    def value(self, rows: Rows, level: float) -> float:
        """Return the smaller of the two quotients of the medians."""
        indicators = rows.relative(level)
        a, b = (rows.quantile(indicators, 0.5, 1.0, cell) for cell in (self.left, self.right))
        return min(_ratio(a, b), _ratio(b, a))

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether both quotients are >= tau."""
        return self.value(rows, level) >= self.threshold * (1 - TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return None: there is no closed form."""
        return None


@dataclass(frozen=True, slots=True)
class Variance:
    """Variance of the indicators, each divided by their public maximum, at most ``threshold``.

    This is not a safety criterion: one exposed person among many hardly changes it
    (docs/methods/rdr.md, E14). Gaussian indicators enter squared (theorem 8).
    """

    threshold: float

    def value(self, rows: Rows, level: float) -> float:
        """Return the variance of (1 + loss) / (1 + largest loss), with losses doubled for rho."""
        times = 1 if rows.pure else 2
        return rows.variance(times * rows.losses(level)) / (1 + times * rows.most(level)) ** 2

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether the variance is at most the limit."""
        return self.value(rows, level) <= self.threshold * (1 + TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return the level of :func:`level_for_variance`."""
        return level_for_variance(self.threshold, rows.variance(), rows.pure)


@dataclass(frozen=True, slots=True)
class MaxLoss:
    """Largest loss of one person, epsilon_i or rho_i, at most ``threshold``."""

    threshold: float

    def value(self, rows: Rows, level: float) -> float:
        """Return the largest loss."""
        return float(rows.losses(level).max(initial=0.0))

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether nobody's loss is above the limit."""
        return self.value(rows, level) <= self.threshold * (1 + TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return limit / r_max, or limit / r_max^2 for rho."""
        r = _end(rows.r, np.max)
        return _over(self.threshold, r if rows.pure else r * r)


@dataclass(frozen=True, slots=True)
class Difference:
    """Largest minus smallest indicator, as multiples of the floor, at most ``threshold``.

    In the paper's units the difference of the bound does not depend on a Laplace epsilon at all
    (docs/methods/rdr.md, E5). In multiples of the floor it is the difference of two people's
    losses.
    """

    threshold: float

    def value(self, rows: Rows, level: float) -> float:
        """Return max - min."""
        low = rows.relative(level, lowest=True).min(initial=math.inf)
        high = rows.relative(level).max(initial=-math.inf)
        return max(0.0, float(high - low)) if len(rows.counts) else 0.0

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether the difference is at most the limit."""
        return self.value(rows, level) <= self.threshold * (1 + TIE)

    def closed(self, rows: Rows) -> float | None:
        """Return None: there is no closed form."""
        return None


Judge: TypeAlias = Callable[[Values, Values], float]


@dataclass(frozen=True, slots=True)
class Judged:
    """A condition that the owner writes as a function of the indicators and their multiplicities.

    Parameters
    ----------
    judge : callable
        Takes two float arrays: indicators as multiples of the floor, and how many rows have each.
        Returns a number.
    threshold : float
    at_most : bool
        True if the number must not be above the threshold, False if it must not be below.
    """

    judge: Judge
    threshold: float
    at_most: bool = True

    def value(self, rows: Rows, level: float) -> float:
        """Return the function's number."""
        try:
            return float(self.judge(rows.relative(level), rows.counts.astype(np.float64)))
        except Exception:  # noqa: BLE001, S110 - its text can hold exact values
            pass
        raise RequestError(
            "the preference function failed", "It takes two arrays and returns a number."
        )

    def met(self, rows: Rows, level: float) -> bool:
        """Return whether the number is on the right side of the threshold."""
        value = self.value(rows, level)
        return value <= self.threshold if self.at_most else value >= self.threshold

    def closed(self, rows: Rows) -> float | None:
        """Return None: there is no closed form."""
        return None


def search(
    preference: Preference, rows: Rows, candidates: Sequence[Fraction], *, public: bool = False
) -> Fraction | None:
    """Return the largest candidate that meets a preference; None if none does.

    On a public table, warn if a smaller candidate fails: the condition is then not monotone, and
    "largest" says little. On other tables the warning itself would reveal something about the data.
    """
    closed = None if rows.cumulative else preference.closed(rows)
    if closed is not None:
        return largest_within(candidates, closed)
    met = [preference.met(rows, float(candidate)) for candidate in candidates]
    if True not in met:
        return None
    first = met.index(True)
    if public and not all(met[first:]):
        warnings.warn(
            "the preference holds at the chosen candidate but not at every smaller one",
            stacklevel=3,
        )
    return candidates[first]


def read(wanted: object, tau: object, *, p: object = None) -> Preference:
    """Return a preference, passed as an object or by name; a named one has the threshold ``tau``.

    Raises
    ------
    RequestError
        For an unknown name or a threshold out of range.
    """
    if isinstance(wanted, Preference):
        return wanted
    name = wanted if isinstance(wanted, str) else ""
    if name == "min_max_ratio":
        return MinMaxRatio(threshold(tau))
    if name == "floor_max_ratio":
        return FloorMaxRatio(threshold(tau))
    if name == "quantile_ratio":
        return QuantileRatio(threshold(tau), threshold(0.99 if p is None else p, "p"))
    makers: dict[str, Callable[[float], Preference]] = {
        "variance": Variance, "difference": Difference, "max_loss": MaxLoss
    }  # fmt: skip
    if name not in makers:
        raise RequestError(
            f"there is no preference {given(wanted)}",
            "Use floor_max_ratio, min_max_ratio, quantile_ratio, variance, difference or max_loss, "
            "or an object of dpnb.risk.preferences.",
        )
    return makers[name](positive(tau, "tau"))


def level_of(r: float, tau: float, pure: bool, form: Form = "bound") -> float:
    """Return the largest level at which a row with normalised contribution ``r`` meets ``tau``.

    The row's loss is epsilon r, or rho r^2.
    """
    most = limit(tau, PURE if pure else ZCDP, form)
    return _over(most, r if pure else r * r)


def level_for_variance(limit: float, variance: float, pure: bool) -> float:
    """Return the largest level at which R^2 V <= limit (docs/methods/rdr.md, theorem 8).

    R = level / (level + 1), or 2 level / (2 level + 1) for rho, so level = R / (1 - R), halved for
    rho.
    """
    if limit >= variance:
        return math.inf
    root = math.sqrt(limit / variance)
    level = root / (1 - root)
    return level if pure else level / 2


def _ratio(a: float, b: float) -> float:
    """Return a / b; 1 if both are infinite or 0, because everybody is then alike."""
    return 1.0 if a == b else float(a / b)


def _end(values: Values, which: Callable[[Values], float]) -> float:
    return float(which(values)) if len(values) else 0.0


def _over(a: float, b: float) -> float:
    return a / b if b > 0 else math.inf
