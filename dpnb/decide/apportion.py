"""How conditions share the bound on false negatives, so that the sum of their levels is smallest.

A condition compares its noisy aggregate with its threshold moved by ``u``. A group at the threshold
is a false negative with probability P(noise > u): the condition's share. When HAVING is true, so
are all conditions of some prime implicant, and HAVING is a false negative only if one of these is.
Shares that add up to the bound within every prime implicant are therefore enough, however the
noises depend on each other (docs/methods/probe.md, theorem 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.decide.conditions import Condition, Set, Tree
from dpnb.privacy.calibrate import distribution, level_for_error
from dpnb.privacy.definition import PrivacyDefinition

_SPARE = 0.01
_LEAST = 1e-30
"""Share of a condition that takes almost nothing of the bound."""
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bar:
    """A condition that needs a share: its noisy aggregate, and how far its threshold moves.

    Attributes
    ----------
    line : int
        Number of the noisy aggregate; conditions on one aggregate share it.
    sensitivity : float
        Sensitivity of the aggregate, in its units.
    u : float
        The uncertain region, in units of the aggregate.
    """

    line: int
    sensitivity: float
    u: float


def tail(u: float, level: float, sensitivity: float, privacy: PrivacyDefinition) -> float:
    """Return P(noise > u) at a level: half of exp(-u / scale), or the normal tail."""
    noise_law = distribution(Fraction(level), sensitivity, privacy)
    match privacy.noise:
        case "laplace":
            return 0.5 * math.exp(-u / noise_law.scale)
        case "gaussian":
            return 0.5 * math.erfc(u / noise_law.scale / math.sqrt(2))


def shift(share: float, level: Fraction, sensitivity: float, privacy: PrivacyDefinition) -> float:
    """Return the u with P(noise > u) = ``share``: the inverse of :func:`tail`."""
    return distribution(level, sensitivity, privacy).quantile(2 * share)


def level_for(share: float, bar: Bar, privacy: PrivacyDefinition) -> Fraction:
    """Return the smallest level at which a bar's share suffices, rounded up.

    Laplace: epsilon = sensitivity ln(1/(2 share)) / u (docs/methods/probe.md, theorem 4). Gaussian,
    by the same argument with the normal tail: rho = (sensitivity z / u)^2 / 2 with P(N(0, 1) > z) =
    share.
    """
    return level_for_error(bar.u, bar.sensitivity, 2 * share, privacy)


def levels_for(
    bars: Sequence[Bar], shares: Sequence[float], privacy: PrivacyDefinition
) -> dict[int, Fraction]:
    """Return the level of each noisy aggregate: the largest that one of its conditions needs."""
    levels: dict[int, Fraction] = {}
    for bar, share in zip(bars, shares, strict=True):
        level = level_for(share, bar, privacy)
        levels[bar.line] = max(level, levels.get(bar.line, level))
    return levels


def apportion(
    condition: Condition, bars: Sequence[Bar], bound: float, privacy: PrivacyDefinition
) -> tuple[float, ...]:
    """Return each condition's share of a bound, such that the sum of the levels is smallest.

    Parameters
    ----------
    condition : Condition
    bars : sequence of Bar
        One for each condition.
    bound : float
        Below 1/2.
    privacy : {'pure', 'zcdp', 'gdp'}
        'pure' for Laplace noise, the others for Gaussian noise.
    """
    alone = len({bar.line for bar in bars}) == len(bars)
    if privacy.noise == "laplace" and alone and condition.read_once:
        return _closed(condition.tree, [bar.sensitivity / bar.u for bar in bars], bound)
    shares = _solved(condition.implicants, bars, bound, privacy)
    least = bound * _SPARE / max(map(len, condition.implicants))
    if alone or min(shares) >= least:
        return shares
    # when a finer condition reads the same aggregate, the solver gives the coarser one almost no
    # share and a far too wide uncertain region; a hundredth of the bound makes that region narrow
    raised = _raised(shares, least)
    if max(sum(raised[i] for i in implicant) for implicant in condition.implicants) <= bound:
        return raised
    return _raised(_solved(condition.implicants, bars, bound * (1 - _SPARE), privacy), least)


def _raised(shares: Sequence[float], least: float) -> tuple[float, ...]:
    return tuple(max(share, least) for share in shares)


def allowances(
    condition: Condition, bars: Sequence[Bar], bound: float, privacy: PrivacyDefinition
) -> tuple[float, ...]:
    """Return each condition's share of a bound on false positives: the same, on prime clauses."""
    return apportion(condition.complement(), bars, bound, privacy)


def _closed(tree: Tree, weights: Sequence[float], bound: float) -> tuple[float, ...]:
    """Return the shares of a tree that names each condition once, under Laplace noise.

    An OR passes its bound to each part. An AND splits it in proportion to the parts' weights, where
    the weight of a condition is sensitivity / u.
    """
    shares: dict[int, float] = {}

    def weight(node: Tree) -> float:
        return weights[node] if isinstance(node, int) else sum(map(weight, node.parts))

    def assign(node: Tree, share: float) -> None:
        if isinstance(node, int):
            shares[node] = share
            return
        total_weight = weight(node)
        for part in node.parts:
            assign(part, share * weight(part) / total_weight if node.operator == "AND" else share)

    assign(tree, bound)
    return tuple(shares[i] for i in range(len(weights)))


def _solved(
    implicants: Sequence[Set], bars: Sequence[Bar], bound: float, privacy: PrivacyDefinition
) -> tuple[float, ...]:
    """Return the shares that minimise the sum of the levels: a convex programme, solved by SLSQP.

    There is one variable for each noisy aggregate: epsilon, or sqrt(2 rho). In these the sum of the
    levels is linear or quadratic, and the tails are convex. The solver's point is then moved onto
    the bound, so the result is sound even if the solver fails.
    """
    from scipy.optimize import minimize
    from scipy.special import ndtr

    lines = sorted({bar.line for bar in bars})
    member = np.zeros((len(implicants), len(bars)))
    for row, implicant in enumerate(implicants):
        member[row, list(implicant)] = 1 / bound
    place = np.array([lines.index(bar.line) for bar in bars])
    reach = np.array([bar.u / bar.sensitivity for bar in bars])
    start = np.zeros(len(lines))
    np.maximum.at(start, place, _fineness(bound / max(map(len, implicants)), privacy) / reach)
    unit = math.sqrt((start**2).mean())
    start /= unit

    def total(fine: Floats) -> tuple[float, Floats]:
        if privacy.noise == "laplace":
            return float(fine.sum()), np.ones(len(lines))
        return float(fine @ fine) / 2, fine

    def tails(fine: Floats) -> tuple[Floats, Floats]:
        z = np.maximum(fine, 0)[place] * unit * reach
        if privacy.noise == "laplace":
            found = 0.5 * np.exp(-z)
            return found, -found * reach * unit
        slope = -np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * reach * unit
        return np.asarray(ndtr(-z)), slope

    def slack(fine: Floats) -> Floats:
        return np.asarray(1 - member @ tails(fine)[0])

    def gradient(fine: Floats) -> Floats:
        table = np.zeros((len(member), len(lines)))
        for i, slope in enumerate(tails(fine)[1]):
            table[:, place[i]] -= member[:, i] * slope
        return table

    constraint: Any = {"type": "ineq", "fun": slack, "jac": gradient}
    ranges: Any = [(1e-9, None)] * len(lines)
    settings: Any = {"ftol": 1e-14, "maxiter": 200}
    found = minimize(
        total,
        start,
        jac=True,
        method="SLSQP",
        constraints=constraint,
        bounds=ranges,
        options=settings,
    )
    best = found.x if np.all(np.isfinite(found.x)) and found.x.min() > 0 else start
    best = min(_feasible(best, slack), start, key=lambda point: total(point)[0])
    return tuple(max(float(share), _LEAST) for share in tails(best)[0])


def _fineness(share: float, privacy: PrivacyDefinition) -> float:
    """Return epsilon, or sqrt(2 rho), that gives a condition with sensitivity = u this share."""
    level = float(level_for(share, Bar(0, 1.0, 1.0), privacy))
    return level if privacy.noise == "laplace" else math.sqrt(2 * level)


def _feasible(fine: Floats, slack: Callable[[Floats], Floats]) -> Floats:
    """Return the point scaled up just enough to satisfy every constraint."""
    low, high = 1.0, 1.0
    while slack(fine * high).min() < 0:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slack(fine * middle).min() < 0 else (low, middle)
    return fine * high
