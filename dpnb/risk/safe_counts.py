"""Safe counts: a noisy histogram from which the owner may pick a level by eye.

Algorithm 18 to bound 21 of docs/methods/rdr.md; the theorems named below are there.

It counts the people whose normalised contribution r lies in (1/2, 1], (1/4, 1/2], (1/8, 1/4] and
below. At 4^k times the rho of the public rule, or 2^k times its epsilon, only people with r above
2^-k are above the limit. So the histogram bounds their number, for any limit picked from it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnb.engines.contributions import Vector
from dpnb.formats import rounded_up
from dpnb.privacy.calibrate import safe_scale
from dpnb.privacy.definition import ZCDP, PrivacyDefinition
from dpnb.privacy.loss import PickedRational, amount_text, ceiling_digits
from dpnb.privacy.noise import Noise, noised
from dpnb.results import Bill, Billed, Shown, to_plain
from dpnb.risk.selection import STEPS
from dpnb.views.view import LATTICE_BITS

if TYPE_CHECKING:
    import pandas as pd

BINS = 3
"""K: number of bins above the last one; each ends at half the upper edge of the one before."""
FAILURE = 0.05
"""gamma: the largest probability that any sentence on counts and shares is false."""
AT_MOST = 50
"""Default for how many people may be above the limit."""
_NORMAL = NormalDist()
_COARSE = 0.01
"""Laplace margins at a smaller epsilon are computed from the margin at this one."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The mechanism: adding or removing a person changes one count by 1.

    Gaussian noise lies on the lattice of answers, so its mu^2 is 2 rho. Discrete Laplace noise lies
    on whole numbers.
    """

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        return {"method": "safe counts", "bins": BINS, "steps": STEPS}

    def exact(self, table: Vector) -> list[int]:
        """Return the exact counts of r in (1/2, 1], (1/4, 1/2], ... and of the rest, 0 included."""
        edges = [STEPS >> k for k in range(BINS + 1)]
        counts = [int(table[low + 1 : high + 1].sum()) for high, low in itertools.pairwise(edges)]
        return [*counts, int(table[: edges[-1] + 1].sum())]

    def draw(
        self, table: Vector, cost: Fraction, privacy: PrivacyDefinition, noise: Noise
    ) -> list[int]:
        """Draw the noisy counts, in units of the lattice."""
        steps = lattice(privacy)
        exact = [count * steps for count in self.exact(table)]
        scale = safe_scale(cost, steps, privacy)
        return noised(exact, scale, privacy, noise)


def growth(privacy: PrivacyDefinition) -> int:
    """Return how many times the level grows while the least r above the limit is halved."""
    return 2 if privacy.noise == "laplace" else 4


def lattice(privacy: PrivacyDefinition) -> int:
    """Return how many lattice units of the noise one person is worth."""
    return 1 if privacy.noise == "laplace" else 1 << LATTICE_BITS


@lru_cache(maxsize=256)
def margins(cost: Fraction, privacy: PrivacyDefinition) -> tuple[float, ...]:
    """Return m_1, ..., m_K and m_n: how far sums of 1, ..., K + 1 noise draws may lie below 0.

    Theorem 19. Each sum is lower with probability at most gamma/(K+1), so all sentences hold
    together. Gaussian: z sqrt(k s^2) + k/L. Discrete Laplace: the exact convolution.
    """
    share = FAILURE / (BINS + 1)
    steps = lattice(privacy)
    scale = safe_scale(cost, steps, privacy) / steps
    match privacy.noise:
        case "laplace":
            return tuple(float(_laplace_margin(1 / scale, k, share)) for k in range(1, BINS + 2))
        case "gaussian":
            z = _NORMAL.inv_cdf(1 - share)
            return tuple(z * math.sqrt(k) * scale + k / steps for k in range(1, BINS + 2))


def _laplace_margin(rate: float, k: int, share: float) -> int:
    """Return the least integer m with P(sum of k discrete Laplace draws < -m) <= ``share``."""
    if rate < _COARSE:
        # |noise| exceeds the continuous one by less than a step, and that the coarser one by none
        return math.ceil((_laplace_margin(_COARSE, k, share) + k) * _COARSE / rate) + k
    reach = math.ceil(40 / rate)
    masses = np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    masses /= masses.sum()
    distribution = masses
    for _ in range(k - 1):
        distribution = np.convolve(distribution, masses)
    below = np.cumsum(distribution)  # below[j] = P(sum <= j - k reach)
    first = int(np.searchsorted(below, share, side="right"))
    return k * reach - first


def price(at_most: int, privacy: PrivacyDefinition) -> Fraction:
    """Return the least cost at which twice the first margin is at most ``at_most`` (bound 21)."""
    share = FAILURE / (BINS + 1)
    if privacy is ZCDP:
        return ceiling_digits(2 * (_NORMAL.inv_cdf(1 - share) / at_most) ** 2 * (1 + 1e-6))
    low, high = 1e-9, 50.0
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        enough = 2 * _laplace_margin(middle, 1, share) <= at_most
        low, high = (low, middle) if enough else (middle, high)
    return ceiling_digits(high)


@dataclass(frozen=True, slots=True)
class CountsTarget:
    """How many people may be above the limit: a number, or a share of all.

    ``cost`` is the privacy cost of the counts, ``asked`` whether the owner gave it, ``held``
    whether the counts are already paid for.
    """

    at_most: int | None
    share: float | None
    cost: Fraction
    privacy: PrivacyDefinition
    asked: bool
    held: bool

    @property
    def noise(self) -> float:
        """Margin of the first count, in people."""
        return margins(self.cost, self.privacy)[0]

    def met(self, upper: int, least: int) -> bool:
        """Return whether at most ``upper`` of at least ``least`` people meet the target."""
        if self.at_most is not None:
            return upper <= self.at_most
        return least > 0 and upper <= (self.share or 0.0) * least * (1 + 1e-12)

    def sentences(self) -> list[str]:
        """Return sentences on the cost of the counts and on what they can show."""
        name = f"{self.privacy.parameter} {amount_text(self.cost)}"
        remarks = [
            "Safe counts of this statement are already paid for."
            if self.held
            else f"They cost {name}."
        ]
        if self.at_most is not None:
            remarks.append(
                f"They are meant to show that at most {self.at_most:,} people stand out."
            )
        else:
            people = rounded_up(2 * self.noise / (self.share or 1.0), 2)
            remarks.append(f"They are useful only in tables of about {people:,.0f} people or more.")
        return remarks


@dataclass(frozen=True, slots=True)
class CountedLevel:
    """A level, and the number of people above the limit at it.

    Attributes
    ----------
    level : Fraction
        rho, or epsilon in a pure session.
    at_most : int
        Upper bound on the people above the limit; 0 at the rule's level.
    share : float or None
        The same as a share of all; None if the noise hides how many people there are.
    ceiling : float
        Upper bound on guesses right of 100 about those above the limit.
    """

    level: Fraction
    at_most: int
    share: float | None
    ceiling: float


@dataclass(frozen=True, slots=True, repr=False)
class SafeCounts(Billed, Shown):
    """Noisy counts of how much people stand out, and what follows for each level.

    They may be published, and the owner may pick a level from them by eye: for any limit or level
    picked, all sentences hold together with the confidence (theorem 19). The sentences are about
    the answer, given these counts.

    Attributes
    ----------
    sql : str
    limit : float
        Guesses right of 100.
    counts : tuple of float, shape (K + 1,)
        Released counts of r in (1/2, 1], (1/4, 1/2], (1/8, 1/4] and below.
    upper : tuple of int, shape (K,)
        Upper bounds on the people with r above 1/2, 1/4, 1/8.
    least_n : int
        Lower bound on the people in the table.
    confidence : float
    levels : tuple of CountedLevel, shape (K + 1,)
        The rule's level, and 4, 16, 64 times its rho, or 2, 4, 8 times its epsilon; empty if the
        limit is used up.
    bill : Bill
        Cost, remaining budget and stamp, as in ``Answer``.
    ledger, ids : str
        As in ``Choice``.

    Examples
    --------
    >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people")
    >>> counts = risk.safe_counts(guesses=60, rho=0.1)
    >>> len(counts.levels) == len(counts.counts)
    True
    """

    card = "risk.COUNTS"

    sql: str
    limit: float
    counts: tuple[float, ...]
    upper: tuple[int, ...]
    least_n: int
    confidence: float
    levels: tuple[CountedLevel, ...]
    bill: Bill
    ledger: str
    ids: str = ""

    @property
    def shared(self) -> bool:
        """Whether earlier answers count so much that one answer alone may keep to the limit."""
        return any(counted_level.ceiling <= self.limit for counted_level in self.levels[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        levels = [
            to_plain(counted_level, level=str(counted_level.level)) for counted_level in self.levels
        ]
        return to_plain(self, levels=levels)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SafeCounts:
        """Build counts from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            Output of :meth:`to_dict`.

        Returns
        -------
        SafeCounts
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        kind = PickedRational if data["conditional"] else Fraction
        values["levels"] = tuple(
            CountedLevel(
                kind(counted_level["level"]),
                counted_level["at_most"],
                counted_level["share"],
                counted_level["ceiling"],
            )
            for counted_level in values["levels"]
        )
        for name in ("counts", "upper"):
            values[name] = tuple(values[name])
        return cls(**values)

    def to_frame(self) -> pd.DataFrame:
        """Return for each level the people above the limit, their share, and the ceiling.

        Returns
        -------
        pandas.DataFrame
            One row for each level.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                self.privacy.parameter: [
                    float(counted_level.level) for counted_level in self.levels
                ],
                "people_at_most": [counted_level.at_most for counted_level in self.levels],
                "share_at_most": [counted_level.share for counted_level in self.levels],
                "guesses_at_most": [counted_level.ceiling for counted_level in self.levels],
            }
        )


def share_at_most(share: float | None) -> str:
    """Return a share in percent, rounded up to two digits.

    Examples
    --------
    >>> share_at_most(0.00671), share_at_most(0.0), share_at_most(1.0), share_at_most(None)
    ('0.68 %', '0 %', '100 %', 'unknown')
    """
    if share is None:
        return "unknown"
    return f"{rounded_up(100 * share, 2):g} %" if share > 0 else "0 %"


def bounds(
    drawn: Sequence[int], cost: Fraction, privacy: PrivacyDefinition
) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    """Return the counts, upper bounds on people with r > 2^-k, and a lower bound on all people.

    Theorem 19.
    """
    steps, margin = lattice(privacy), margins(cost, privacy)
    counts = [noisy_count / steps for noisy_count in drawn]
    upper = [max(0, math.floor(math.fsum(counts[: k + 1]) + margin[k] + 1e-9)) for k in range(BINS)]
    for k in reversed(range(BINS - 1)):
        upper[k] = min(upper[k], upper[k + 1])
    least = math.ceil(math.fsum(counts) - margin[-1] - 1e-9)
    return tuple(counts), tuple(upper), max(0, least)
