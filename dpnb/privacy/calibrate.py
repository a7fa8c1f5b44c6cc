"""From privacy levels to noise, and from target accuracy to privacy levels, in closed form.

A **level** is the privacy parameter of one measure vector: epsilon in a pure session, rho in the
others (for a basic accountant, the rho of the noise that its epsilon and delta allow). The charge
is fixed first, and the noise follows from it, rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

from dpnb.privacy.definition import BASIC, GDP, PURE, ZCDP, PrivacyDefinition

_NORMAL = NormalDist()

SUM_SHARE: dict[PrivacyDefinition, Fraction] = {
    ZCDP: Fraction(13, 20), GDP: Fraction(13, 20), BASIC: Fraction(13, 20),
    PURE: Fraction(61, 100),
}  # fmt: skip
"""Share of an AVG's level for its centred sum; the count gets the rest.

It minimises the margin of error of the confidence interval, averaged over means that are uniform on
the bounds. With half the width of the bounds as unit, the noise of a mean u has squared scales
(1/s, u^2/(1-s)) for Gaussians and scales (1/s, |u|/(1-s)) for Laplace; the minima are at s = 0.6515
and 0.608 (flat to 1e-4 around).
"""


@dataclass(frozen=True, slots=True)
class NoiseDistribution:
    """A centred noise distribution.

    Parameters
    ----------
    family : {'gaussian', 'laplace'}
    scale : float
        Standard deviation of the Gaussian, scale of the Laplace, in units of the released value.
    """

    family: Literal["gaussian", "laplace"]
    scale: float

    def quantile(self, alpha: float) -> float:
        """Return t with P(|noise| > t) = ``alpha``."""
        if self.family == "gaussian":
            return -_NORMAL.inv_cdf(alpha / 2) * self.scale
        return -math.log(alpha) * self.scale

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as plain data."""
        return {"family": self.family, "scale": self.scale}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NoiseDistribution:
        """Build a distribution from :meth:`to_dict`."""
        return cls(data["family"], float(data["scale"]))


def distribution(
    level: Fraction, sensitivity: float, privacy: PrivacyDefinition
) -> NoiseDistribution:
    """Return the noise distribution of a vector released at ``level``.

    Gaussian: sigma = sensitivity / sqrt(2 rho); Laplace: scale = sensitivity / epsilon
    (docs/methods/estimation.md, definition 1).
    """
    match privacy.noise:
        case "laplace":
            return NoiseDistribution("laplace", sensitivity / float(level))
        case "gaussian":
            return NoiseDistribution("gaussian", sensitivity / math.sqrt(2 * level))


def safe_scale(level: Fraction, sensitivity: int, privacy: PrivacyDefinition) -> float:
    """Return the scale of :func:`distribution` rounded up: the loss never exceeds ``level``."""
    return distribution(level, float(sensitivity), privacy).scale * (1 + 2.0**-48)


def sum_quantile(first: NoiseDistribution, second: NoiseDistribution, alpha: float) -> float:
    """Return t with P(|X + Y| > t) = ``alpha`` for independent noises of the same family.

    For Laplace scales a > b: P(|X + Y| > t) = (a^2 e^(-t/a) - b^2 e^(-t/b)) / (a^2 - b^2).
    """
    if first.family == "gaussian":
        return NoiseDistribution("gaussian", math.hypot(first.scale, second.scale)).quantile(alpha)
    a, b = max(first.scale, second.scale), min(first.scale, second.scale)
    return a * _unit_laplace_sum(b / a, alpha) if a > 0 else 0.0


def _laplace_sum_tail(ratio: float, t: float) -> tuple[float, float]:
    """Return log P(|X + Y| > t) for Laplace scales 1 and ``ratio`` <= 1, and how fast it falls at t."""
    if ratio > 1 - 1e-5:
        # both scales replaced by their mean: the exact limit, within 1e-10 of the formula below
        u = 2 * t / (1 + ratio)
        return math.log1p(u / 2) - u, (1 + u) / (1 + u / 2) / (1 + ratio)
    inner = ratio * math.exp(t - t / ratio) if ratio > 0 else 0.0
    outer = 1 - ratio * inner
    return math.log(outer / (1 - ratio**2)) - t, (1 - inner) / outer


@lru_cache(maxsize=4096)
def _unit_laplace_sum(ratio: float, alpha: float) -> float:
    """Return t by Newton's method: the tail is log-concave, so from above no step passes it."""
    wanted = math.log(alpha)
    t = -wanted * (1 + ratio) + 1e-12
    for _ in range(50):
        tail, slope = _laplace_sum_tail(ratio, t)
        step = (wanted - tail) / slope
        if step <= 1e-14 * t:
            break
        t -= step
    return t


def level_for_error(
    error: float, sensitivity: float, alpha: float, privacy: PrivacyDefinition
) -> Fraction:
    """Return the smallest level with P(|noise| > ``error``) <= ``alpha``, for COUNT and SUM.

    rho = (z sensitivity / error)^2 / 2, epsilon = ln(1/alpha) sensitivity / error.
    """
    unit = NoiseDistribution(privacy.noise, 1.0).quantile(alpha)
    ratio = Fraction(unit) * Fraction(sensitivity) / Fraction(error)
    match privacy.noise:
        case "laplace":
            return _ceiling(ratio)
        case "gaussian":
            return _ceiling(ratio * ratio / 2)


def level_for_mean_error(
    error: float,
    half_range: float,
    rows: float,
    alpha: float,
    share: Fraction,
    privacy: PrivacyDefinition,
) -> Fraction:
    """Return the level of an AVG whose margin of error is ``error`` on groups of ``rows`` rows.

    Let H = ``half_range`` and s = ``share`` of the sum, with noise scales at level 1 of H/f(s) for
    the centred sum and 1/f(1-s) for the count. The confidence interval {m : |S - m C| <= q(m)}, cut
    to the bounds, has a margin of error of at most q(H)/C, and C >= rows - q_C whenever the count's
    own confidence interval holds. Let y = z/sqrt(2 rho) (Gaussian) or 1/epsilon (Laplace): the
    condition H K y / (rows - d y) = error is linear in y, so y = error rows / (H K + error d).
    """
    s = float(share)
    match privacy.noise:
        case "laplace":
            k = sum_quantile(
                NoiseDistribution("laplace", 1 / s),
                NoiseDistribution("laplace", 1 / (1 - s)),
                alpha,
            )
            d = NoiseDistribution("laplace", 1 / (1 - s)).quantile(alpha)
            return _ceiling(1 / Fraction(error * rows / (half_range * k + error * d)))
        case "gaussian":
            k, d = math.sqrt(1 / s + 1 / (1 - s)), math.sqrt(1 / (1 - s))
            z = NoiseDistribution("gaussian", 1.0).quantile(alpha)
            y = error * rows / (half_range * k + error * d)
            return _ceiling(Fraction(z / y) ** 2 / 2)


def _ceiling(level: Fraction) -> Fraction:
    """Round up to 12 significant digits, after a small increase that covers errors of floats."""
    if level <= 0:
        return Fraction(0)
    unit = Fraction(10) ** (math.floor(math.log10(float(level))) - 11)
    return math.ceil(level * (1 + Fraction(1, 10**13)) / unit) * unit
