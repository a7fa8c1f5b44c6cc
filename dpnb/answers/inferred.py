"""One inferred aggregate, the past answers behind it, missing queries, and tests of claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpnb.estimation.estimates import Intervals


@dataclass(frozen=True, slots=True)
class Source:
    """One past answer behind an estimate.

    Attributes
    ----------
    statement, group : str
        The statement, and the group in it; '' without groups.
    value, sd : float
        Released value, and standard deviation of its noise; in units of the measure.
    weight : float
        The estimate is the sum of weight x value.
    share : float
        Share of the estimate's variance that comes from this answer, 0 to 1.
    """

    statement: str
    group: str
    value: float
    sd: float
    weight: float
    share: float


@dataclass(frozen=True, slots=True)
class Missing:
    """A query that would make an estimate possible.

    Attributes
    ----------
    statement : str
        The cheapest query, as a sentence.
    """

    statement: str


@dataclass(frozen=True, slots=True)
class Test:
    """A one-sided test of a claim about a true value.

    Attributes
    ----------
    claim : str
    p_value : float
        With a flat prior also the probability that the claim is true.
    level : float
    rejected : bool

    Examples
    --------
    >>> answer = session.query("SELECT job, COUNT(*) AS n FROM people GROUP BY job", rho=0.1)
    >>> inference = session.infer("SELECT job, COUNT(*) AS n FROM people GROUP BY job")
    >>> inference.test(">", 100_000, "cook").rejected
    True
    """

    claim: str
    p_value: float
    level: float
    rejected: bool

    def __repr__(self) -> str:
        verdict = "rejected" if self.rejected else "not rejected"
        return (
            f"{self.claim}: p = {self.p_value:.4g}, {verdict} at significance level {self.level:g}"
        )


@dataclass(frozen=True, slots=True)
class Inferred(Intervals):
    """One aggregate over all declared groups, from past answers.

    An estimate is None where past answers do not determine it, or an AVG has too few rows to tell.
    Ends are infinite where past answers say nothing.

    Attributes
    ----------
    places : tuple of tuples of int
        The linear parts of each group's value in the joint distribution: (count,), (sum,) or
        (centred sum, count); () if there are none.
    middle, reach : float
        ``middle`` is added to the linear part, or to the mean for AVG: the origin of its sums.
        ``reach`` is the largest distance from it, for AVG.
    """

    places: tuple[tuple[int, ...], ...]
    middle: float = 0.0
    reach: float = 0.0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inferred:
        """Build an aggregate from :meth:`to_dict`."""
        values = cls.read_fields(data)
        values["places"] = tuple(map(tuple, values["places"]))
        return cls(**values)

    def text(self, group: int) -> str:
        """Return the estimate as shown."""
        undetermined = self.estimate[group] is None and not self.places[group]
        return "not determined" if undetermined else Intervals.text(self, group)

    def interval_text(self, group: int) -> str:
        """Return the confidence interval as shown."""
        if math.isinf(self.margin_of_error(group)):
            return "not determined"
        return Intervals.interval_text(self, group)
