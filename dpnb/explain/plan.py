"""The plan of an explanation: what it measures, its budgets and its noise. Public facts only."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

from dpnb.errors import RequestError
from dpnb.explain.influence import Lattice, Mode
from dpnb.explain.options import COST, DESIGN
from dpnb.explain.predicates import Space
from dpnb.explain.ranks import Search, search
from dpnb.explain.target import Target
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.loss import is_picked, rho_meant
from dpnb.privacy.one_off import gumbel_scale
from dpnb.releases.options import read_values

_NORMAL = NormalDist()

SHARES = {"topk": Fraction(1, 4), "influence": Fraction(1, 4), "rank": Fraction(1, 2)}
"""How one rho is split over selection, influences and ranks."""
DEFAULT_SHARE = Fraction(1, 5)
"""Share of the remaining budget that an explanation costs by default."""
LEAST_RHO, MOST_RHO = Fraction(1, 10**9), Fraction(10**6)
_RANGE = (LEAST_RHO, min(SHARES.values())), (MOST_RHO, max(SHARES.values()))
MAX_ROWS = 100
LEAST_SURE, MOST_SURE = 1e-6, 1 - 1e-9
"""Range of confidences; beyond it, floats cannot hold the quantiles of many tests together."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The rho of each part of an explanation; they add up to its cost."""

    topk: Fraction
    influence: Fraction
    rank: Fraction

    @property
    def total(self) -> Fraction:
        """The rho of the whole explanation."""
        return self.topk + self.influence + self.rank

    def to_dict(self) -> dict[str, str]:
        """Return the parts by name."""
        parts = {"topk": self.topk, "influence": self.influence, "rank": self.rank}
        return {name: str(rho) for name, rho in parts.items()}

    @classmethod
    def from_dict(cls, parts: Mapping[str, str]) -> Budgets:
        """Build the parts from :meth:`to_dict`."""
        return cls(**{name: Fraction(rho) for name, rho in parts.items()})


@dataclass(frozen=True, slots=True)
class Design:
    """The design of an explanation, without its budgets.

    Parameters
    ----------
    k : int
        Predicates to show.
    confidence : float
        Between 0 and 1.
    joint : bool
        Whether the confidence is for all k rows together (of influences, and of ranks) or for each
        row on its own (docs/methods/dpxplain.md, theorem 10).
    lower : Fraction
        Share of the ranks' budget that goes to lower bounds. It is small, because the upper bounds
        show whether a predicate is at the top (DPXPlain, section 4.3.3).
    mode : {'tight', 'paper'}
    """

    k: int
    confidence: float
    joint: bool
    lower: Fraction
    mode: Mode

    @property
    def row_confidence(self) -> float:
        """Confidence of one row's interval; with independent noise, confidences multiply."""
        return self.confidence ** (1 / self.k) if self.joint else self.confidence

    @property
    def quantile(self) -> float:
        """Two-sided normal quantile of one row's confidence interval."""
        return _NORMAL.inv_cdf((1 + self.row_confidence) / 2)


def read_design(size: int, **options: object) -> Design:
    """Read the options that show an explanation of ``size`` candidates.

    Raises
    ------
    RequestError
    """
    values = read_values(DESIGN, options)
    confidence = values["confidence"]
    if not LEAST_SURE <= confidence <= MOST_SURE:
        raise RequestError(
            f"confidence is {confidence:g}, too close to 0 or 1",
            f"Give a number from {LEAST_SURE} to {MOST_SURE}.",
        )
    return Design(**{**values, "k": min(values["k"], size)})


@dataclass(frozen=True)
class ExplanationPlan:
    """An explanation's target, candidates, design and budgets, and the noise that follows.

    ``conditional`` says that the budgets, or the question, depend on an amount that was picked by
    looking at the data. It is not part of the request's name, so the same release is not paid for
    twice. ``unsaid`` says that nobody gave a cost.
    """

    target: Target
    space: Space
    design: Design
    budgets: Budgets
    lattice: Lattice
    conditional: bool = False
    unsaid: bool = False

    @cached_property
    def request(self) -> str:
        """A name that is equal for explanations of equal meaning and cost on one table version."""
        text = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def definition(self) -> dict[str, Any]:
        """Return the public definition as plain data."""
        design = self.design
        return {
            "target": self.target.definition(),
            "predicates": self.space.definition(),
            "k": design.k,
            "confidence": design.confidence,
            "joint": design.joint,
            "lower": str(design.lower),
            "mode": design.mode,
            "rho": self.budgets.to_dict(),
        }

    @property
    def unit(self) -> Fraction:
        """Units of the influence in one lattice unit."""
        return self.lattice.unit * self.target.step

    @property
    def gumbel(self) -> float:
        """Gumbel scale of the selection, in lattice units."""
        return gumbel_scale(self.lattice.spread, self.design.k, self.budgets.topk)

    @property
    def sigma(self) -> float:
        """Standard deviation of an influence's noise, in lattice units.

        Theorem 10 of docs/methods/dpxplain.md.
        """
        return influence_sigma(self.lattice.sensitivity, self.design.k, self.budgets.influence)

    @property
    def margin_of_error(self) -> float:
        """Margin of error of an influence, in units of the influence."""
        return self.design.quantile * self.sigma * float(self.unit)

    def search(self, *, above: bool) -> Search:
        """Return the noise of the ranks' upper or lower bounds, in lattice units."""
        design = self.design
        share = 1 - design.lower if above else design.lower
        return search(
            self.lattice.spread,
            self.space.size,
            design.k,
            share * self.budgets.rank,
            design.row_confidence,
            design.mode,
        )

    def noise(self) -> dict[str, Any]:
        """Return the noise of each part as plain data, in units of the influence."""
        unit = float(self.unit)
        searches = {"lower": self.search(above=False), "upper": self.search(above=True)}
        return {
            "gumbel_scale": self.gumbel * unit,
            "sigma": self.sigma * unit,
            "ranks": {
                side: {"sigma": s.sigma * unit, "margin": s.margin * unit, "draws": s.draws}
                for side, s in searches.items()
            },
            "lattice_unit": str(self.unit),
        }

    @property
    def resolution(self) -> float:
        """Distance of two influences that the upper rank bound tells apart nearly always.

        The margin plus the same quantile of the noise, in units of the influence.
        """
        return 2 * self.search(above=True).margin * float(self.unit)


def default_rho(left: Fraction) -> Fraction:
    """Return the default cost of an explanation: a fifth of what is left.

    Rounded down to two digits, but never below the least allowed cost, so that an exhausted budget
    is refused as such.

    Examples
    --------
    >>> str(default_rho(Fraction("0.147"))), str(default_rho(Fraction(0))), str(default_rho(Fraction(2)))
    ('29/1000', '1/250000000', '2/5')
    """
    least, most = (end / part for end, part in _RANGE)
    fifth = min(DEFAULT_SHARE * left, most)
    if fifth <= least:
        return least
    digit = Fraction(10) ** (math.floor(math.log10(fifth)) - 1)
    return math.floor(fifth / digit) * digit


def influence_sigma(sensitivity: float, k: int, rho: Fraction) -> float:
    """Return sigma = Delta sqrt(k / (2 rho)), rounded up (DPXPlain, Algorithm 3)."""
    return sensitivity * math.sqrt(k / (2 * rho)) * (1 + 2.0**-48)


def plan_explanation(
    target: Target,
    space: Space,
    design: Design,
    *,
    rho: Any = None,
    epsilon: Any = None,
    error: Any = None,
    scale: float | None = None,
    delta: Fraction | None = None,
    conditional: bool = False,
) -> ExplanationPlan:
    """Decide the budgets and the noise of an explanation.

    Parameters
    ----------
    target, space, design
    rho : number or mapping
        The cost: split 1:1:2 over selection, influences and ranks, or each part by name (topk,
        influence, rank).
    epsilon : number
        Instead of rho: an epsilon at ``delta``, which gives the rho.
    error : number
        Instead of rho: margin of error of the influences as they will be shown; the budgets of the
        other parts follow in proportion 1:1:2.
    scale : float, optional
        Divisor of influences that are shown relative to the difference.
    delta : Fraction, optional
        The session's delta.
    conditional : bool
        Whether the question is conditional.

    Raises
    ------
    RequestError
    """
    lattice = target.lattice(design.mode)
    raw = {"rho": rho, "epsilon": epsilon, "error": error}
    conditional = conditional or is_picked(raw)
    rho, epsilon, error = read_values(COST, raw).values()
    if sum(value is not None for value in (rho, epsilon, error)) != 1:
        raise RequestError(
            "an explanation needs exactly one of rho, epsilon and error", "Give rho=0.05."
        )
    if error is not None:
        budgets = _for_error(error, lattice, target, design, scale)
    elif isinstance(rho, Mapping):
        budgets = _by_name(rho)
    else:
        total = rho if epsilon is None else rho_meant(epsilon, delta, ZCDP)
        budgets = Budgets(*(share * total for share in SHARES.values()))
    if not all(LEAST_RHO <= part <= MOST_RHO for part in _parts(budgets)):
        raise RequestError("rho is out of range", "Give a rho from 1e-8 to 1e6.")
    return ExplanationPlan(target, space, design, budgets, lattice, conditional)


def _parts(budgets: Budgets) -> tuple[Fraction, Fraction, Fraction]:
    return budgets.topk, budgets.influence, budgets.rank


def _by_name(rho: Mapping[str, Fraction]) -> Budgets:
    if set(rho) != set(SHARES):
        raise RequestError(
            f"rho must name exactly {', '.join(SHARES)}",
            "Name each of them once, or give one number.",
        )
    return Budgets(*(rho[name] for name in SHARES))


def _for_error(
    error: Fraction, lattice: Lattice, target: Target, design: Design, scale: float | None
) -> Budgets:
    """Invert the margin of error: rho = k (z Delta / error)^2 / 2 for the influences."""
    margin = error * (1 if scale is None else Fraction(scale))
    z = design.quantile
    # exact ratios: powers of bounds such as 1e150 would overflow a float
    ratio = Fraction(z) * lattice.sensitivity * lattice.unit * target.step / margin
    rho = design.k * ratio**2 / 2 * Fraction(1 + 1e-12)
    if not LEAST_RHO <= rho <= MOST_RHO:
        raise RequestError(
            "the error is out of range",
            "Give one near the margin of error that session.price(question), or --dry-run, shows.",
        )
    unit = Fraction(10) ** (math.floor(math.log10(rho)) - 11)
    part = math.ceil(rho / unit) * unit
    return Budgets(*(part * share / SHARES["influence"] for share in SHARES.values()))
