"""The relative disclosure-risk indicator (RDR): how far an answer is from one without a person.

Everything is a function of the person's own privacy loss at the level of the release: epsilon_i for
Laplace noise, rho_i for Gaussian noise. The indicator is compared with its floor, its value for
someone whose row adds nothing or who is not in the table. With one coordinate of noise, k = 1, the
excess over the floor depends only on the person's own loss (docs/methods/rdr.md, theorem 6).
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PrivacyDefinition

Values: TypeAlias = npt.NDArray[np.float64]
Form: TypeAlias = Literal["bound", "exact", "linear"]
FORMS: tuple[Form, ...] = ("bound", "exact", "linear")


def relative(
    losses: Values, privacy: PrivacyDefinition, form: Form = "bound", k: int = 1
) -> Values:
    """Return the indicator divided by its floor.

    Parameters
    ----------
    losses : float array, shape (u,) or, for 'exact' in a pure session, (u, V)
        epsilon_i or rho_i of each distinct row; with V columns, the loss through each vector.
    privacy : PrivacyDefinition
        Gaussian or Laplace noise.
    form : {'bound', 'exact', 'linear'}
        'bound' is RDR's Lemma 3.6, d + k b, for Laplace noise, and for Gaussian noise the root mean
        square sqrt(d^2 + k sigma^2) of Lemma 3.7; 'exact' is the mean distance itself; 'linear' is
        d + sqrt(k) sigma for Gaussian noise (docs/methods/rdr.md, definition 5).
    k : int
        Number of noise coordinates to count.
    """
    if privacy.noise == "laplace":
        if form == "exact":
            parts = losses if losses.ndim == 2 else losses[:, None]
            # E|z + v| = b (t + e^-t) for t = |v| / b: 1 + KL / k (docs/methods/rdr.md, theorem 4)
            divergence: Values = np.sum(parts + np.expm1(-parts), axis=1)
            return 1 + divergence / k
        return 1 + losses / k
    if form == "bound":
        return np.sqrt(1 + 2 * losses / k)
    if form == "linear":
        return 1 + np.sqrt(2 * losses / k)
    return _gaussian_mean(losses, k)


def _gaussian_mean(losses: Values, k: int) -> Values:
    """Return 1F1(-1/2; k/2; -loss): mean norm of a shifted Gaussian over that of a centred one."""
    from scipy import special

    if k == 1:
        # the folded normal: e^-x + sqrt(pi x) erf(sqrt(x)), which cannot overflow
        root = np.sqrt(losses)
        with np.errstate(under="ignore"):
            return np.exp(-losses) + math.sqrt(math.pi) * root * special.erf(root)
    return np.asarray(special.hyp1f1(-0.5, k / 2, -losses), dtype=np.float64)


def floor(distribution: NoiseDistribution, form: Form = "bound", k: int = 1) -> float:
    """Return the indicator of someone who adds nothing, in the unit of the noise scale."""
    if distribution.family == "laplace":
        return k * distribution.scale
    if form == "exact":
        return distribution.scale * math.sqrt(2) * math.gamma((k + 1) / 2) / math.gamma(k / 2)
    return math.sqrt(k) * distribution.scale


def limit(tau: float, privacy: PrivacyDefinition, form: Form = "bound") -> float:
    """Return the largest loss of one person at which floor / indicator >= ``tau``.

    1/tau - 1 for Laplace noise, (1/tau^2 - 1)/2 for Gaussian noise, (1/tau - 1)^2/2 for 'linear'
    (docs/methods/rdr.md, theorem 6). No loss exceeds the level of the release, so this is also the
    level of the public rule, which needs no data (theorem 16).
    """
    if tau <= 0:
        return math.inf
    excess = 1 / tau - 1
    if form == "exact":
        return _inverse(1 / tau, privacy)
    match privacy.noise:
        case "laplace":
            return excess
        case "gaussian":
            return excess**2 / 2 if form == "linear" else excess * (1 / tau + 1) / 2


def _inverse(ratio: float, privacy: PrivacyDefinition) -> float:
    """Return the loss at which the exact form is ``ratio`` times its floor."""
    from scipy import optimize

    if ratio <= 1:
        return 0.0
    end = 1.0
    while _one(end, privacy) < ratio:
        end *= 2
    return float(optimize.brentq(lambda x: _one(x, privacy) - ratio, 0.0, end, xtol=1e-15))


def _one(loss: float, privacy: PrivacyDefinition) -> float:
    return float(relative(np.array([loss]), privacy, "exact")[0])


def expected_size(loss: float, privacy: PrivacyDefinition) -> float:
    """Return the mean absolute log-likelihood ratio of the answer for one person.

    Gaussian: the signed loss is N(rho, 2 rho), so 2 sqrt(rho/pi) e^(-rho/4) + rho erf(sqrt(rho)/2)
    (docs/methods/rdr.md, theorem 3). Laplace, one coordinate: t - 1 + 2 e^(-t/2) - e^(-t).
    """
    match privacy.noise:
        case "laplace":
            return loss - 1 + 2 * math.exp(-loss / 2) - math.exp(-loss)
        case "gaussian":
            root = math.sqrt(loss)
            return 2 * root / math.sqrt(math.pi) * math.exp(-loss / 4) + loss * math.erf(root / 2)
