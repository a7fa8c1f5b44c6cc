"""How many of 100 best guesses whether a person is in the table are right.

Definition 9 to bound 15 of docs/methods/rdr.md; the theorems named below are there.

The guesser starts from a fair coin and knows every other row: 50 is a coin toss, 100 is certain.
The number is 100 (1/2 + TV/2), where TV is the total variation between the releases with and
without the person. The functions return TV, except those about guesses and texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dpnb.codes import number
from dpnb.errors import RequestError
from dpnb.privacy.definition import PrivacyDefinition

Values = npt.NDArray[np.float64]

COIN = 50.0
"""Guesses right of 100 by tossing a coin."""
LIMIT = 55.0
"""Default limit of a picker."""
OVER = 99.0
"""A larger bound is shown as "over 99": rounded up it would be certainty (bound 15)."""
_NORMAL = NormalDist()
_CUT = 1e-4
"""Largest part of an overlap that is cut off, and subtracted (theorem 11)."""
_BLOCK = 1 << 20
"""How many numbers are computed at a time."""


def gaussian(mu_squared: npt.ArrayLike) -> Values:
    """Return 2 Phi(mu/2) - 1 for Gaussian noise on any vector, mu^2 = sum (v/sigma)^2 = 2 rho_i.

    Theorem 10. For several releases that were fixed in advance, the mu^2 add up (theorem 11).
    """
    from scipy import special

    distances: Values = special.erf(np.sqrt(np.asarray(mu_squared, dtype=np.float64) / 8))
    return distances


def discrete_gaussian(sigma: float, steps: int) -> float:
    """Return TV of a discrete Gaussian that is shifted by the integer ``steps`` (theorem 10)."""
    reach = math.ceil(40 * sigma) + steps
    points = np.arange(-reach, reach + 1)
    masses = np.exp(-(points.astype(np.float64) ** 2) / (2 * sigma**2))
    inside = (2 * points > -steps) & (2 * points <= steps)
    return float(masses[inside].sum() / masses.sum())


def discrete_laplace(rate: float, steps: int) -> float:
    """Return TV of a discrete Laplace with scale 1/rate, shifted by the integer ``steps``.

    Theorem 10.
    """
    overlap = math.exp(-rate * steps / 2)
    return 1 - overlap / (math.cosh(rate / 2) if steps % 2 else 1)


def laplace(sizes: npt.ArrayLike) -> Values:
    """Return TV of Laplace noise on vectors, shape (..., J): t_j = |v_j| / b_j in each coordinate.

    One coordinate: 1 - e^(-t/2). If t_1 >= t_2 + ... + t_J, with T the sum of all:
    1 - e^(-T/2) prod over j >= 2 of (1 + t_j/2); else the integral of theorem 11, rounded up by at
    most 2e-4.
    """
    rising = np.sort(np.asarray(sizes, dtype=np.float64), axis=-1)
    smaller_sizes, total = rising[..., :-1], rising.sum(axis=-1)
    overlap = np.exp(-total / 2) * np.prod(1 + smaller_sizes / 2, axis=-1)
    mixed = np.asarray(rising[..., -1] < smaller_sizes.sum(axis=-1))
    if mixed.any():
        overlap = np.array(overlap)
        overlap[mixed] = 1 - composed(laplaces=rising[mixed])
    return np.asarray(1 - overlap)


def laplace_at_most(total: npt.ArrayLike) -> Values:
    """Return the largest TV of Laplace noise if only the sum of all t_j is known (theorem 10)."""
    return np.asarray(-np.expm1(-np.asarray(total, dtype=np.float64) / 2))


def response(epsilon: float) -> float:
    """Return tanh(epsilon/2), of randomised response: the largest TV of epsilon-DP (theorem 10)."""
    return math.tanh(epsilon / 2)


def selection(eta: float) -> float:
    """Return tanh(eta/4): the largest TV of a selection with bounded range ``eta`` (theorem 10)."""
    return math.tanh(eta / 4)


def approximate(epsilon: float, delta: float) -> float:
    """Return 1 - 2 (1 - delta)/(1 + e^epsilon): the largest TV of (epsilon, delta)-DP.

    Theorem 10.
    """
    return 1 - 2 * (1 - delta) / (1 + math.exp(epsilon))


def zcdp(rho: npt.ArrayLike) -> Values:
    """Return the largest TV that rho-zCDP allows for any mechanism: TV ln((1+TV)/(1-TV)) = rho.

    Theorem 12. With e = ln((1+TV)/(1-TV)) this reads e tanh(e/2) = rho: randomised response is the
    worst case.
    """
    targets = np.asarray(rho, dtype=np.float64)
    low, high = np.zeros_like(targets), targets + 2
    for _ in range(60):
        middle = (low + high) / 2
        above = middle * np.tanh(middle / 2) > targets
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(np.tanh(high / 2))


def several(distances: Sequence[npt.ArrayLike]) -> Values:
    """Return the largest TV of several releases: 1 - TV >= the product of all 1 - TV_j.

    Theorem 11.
    """
    overlap: Values = np.ones(())
    for distance in distances:
        overlap = overlap * (1 - np.asarray(distance, dtype=np.float64))
    return np.asarray(1 - overlap)


def composed(
    *,
    mu_squared: npt.ArrayLike = 0.0,
    laplaces: npt.ArrayLike = (),
    responses: Sequence[float] = (),
) -> Values:
    """Return TV of Gaussian, Laplace and randomised-response parts that were fixed in advance.

    Theorem 11:
    1 - TV = (1/pi) int_0^inf prod_j H_j(v) / (1/4 + v^2) dv, the Fourier transform of e^(-|l|/2).
    The integral is cut where at most 1e-4 is left, which counts as part of TV: the result is too
    large by at most 2e-4.

    Parameters
    ----------
    mu_squared : float, or array of shape (u,)
        Sum over all Gaussian parts.
    laplaces : array, shape (u, J)
        t = |v| / b of each Laplace coordinate.
    responses : sequence of float
        The epsilon of each randomised response.
    """
    t = np.atleast_2d(np.asarray(laplaces, dtype=np.float64))
    mu2 = np.asarray(mu_squared, dtype=np.float64).reshape(-1, 1)
    lines = max(len(t), len(mu2))
    total = float(t.sum(axis=1).max(initial=0.0)) + sum(responses)
    width, cut = 0.1 / max(1.0, total), 1.0
    while np.max(_rest(cut, mu2, t)) > _CUT:
        cut *= 1.25
    nodes = (np.arange(math.ceil(cut / width)) + 0.5) * width
    sums = np.zeros(lines)
    block = max(1, _BLOCK // lines)
    for start in range(0, len(nodes), block):
        v = nodes[start : start + block]
        parts = np.exp(-mu2 / 8 - mu2 * v**2 / 2)
        for column in t.T:
            sizes = column[:, None]
            parts = parts * np.exp(-sizes / 2) * (np.cos(v * sizes) + np.sin(v * sizes) / (2 * v))
        for epsilon in responses:
            parts = parts * np.cos(v * epsilon) / math.cosh(epsilon / 2)
        sums = sums + (parts / (0.25 + v**2)).sum(axis=1)
    end = len(nodes) * width
    overlap = sums * width / math.pi - _rest(end, mu2, t)
    return np.asarray(1 - np.clip(overlap, 0.0, 1.0))


def _rest(cut: float, mu2: Values, t: Values) -> Values:
    """Return for each line a bound on the integral beyond ``cut`` (theorem 11)."""
    laplaces = np.exp(-t / 2) * (1 + np.minimum(t / 2, 1 / (2 * cut)))
    bounds: Values = np.exp(-mu2[:, 0] / 8) * np.prod(laplaces, axis=1) / (math.pi * cut)
    return bounds


# in guesses


def guesses(distance: npt.ArrayLike) -> Values:
    """Convert TV to guesses right of 100."""
    return np.asarray(COIN * (1 + np.asarray(distance, dtype=np.float64)))


def guesses_within(level: float, privacy: PrivacyDefinition, times: float = 1.0) -> float:
    """Return the most guesses right of 100 if all answers together cost ``level`` (theorem 12).

    rho: 100 Phi(sqrt(rho/2)), for Gaussian noise; pure epsilon: 100/(1 + e^-epsilon). ``times`` is
    m, how many privacy units a person adds: Phi(m mu/2), 1/(1 + e^(-m epsilon)) (statement 13).
    """
    if math.isinf(level):
        return 100.0
    match privacy.noise:
        case "laplace":
            return COIN * (1 + math.tanh(times * level / 2))
        case "gaussian":
            return 100 * _NORMAL.cdf(times * math.sqrt(level / 2))


def level_of_guesses(limit: float, privacy: PrivacyDefinition) -> float:
    """Return the largest level at which at most ``limit`` of 100 guesses about anybody are right.

    Theorem 12: rho = 2 Phi^-1(q)^2 for Gaussian noise, epsilon = ln(q/(1-q)).

    Examples
    --------
    >>> from dpnb.privacy.definition import PURE, ZCDP
    >>> round(level_of_guesses(60, ZCDP), 6), round(level_of_guesses(60, PURE), 6)
    (0.12837, 0.405465)
    """
    q = limit / 100
    if q >= 1:
        return math.inf
    match privacy.noise:
        case "laplace":
            return math.log(q / (1 - q))
        case "gaussian":
            return 2 * _NORMAL.inv_cdf(q) ** 2


def read_guesses(value: object) -> float:
    """Check a limit in guesses right of 100 and return it.

    Raises
    ------
    RequestError
    """
    limit = number(value)
    if limit is None or not COIN <= limit < 100:
        raise RequestError(
            "guesses must be at least 50 and below 100",
            "Give guesses=60. A guess of who is in the table is then right at most 60 times in 100.",
        )
    return float(limit)


def at_most_text(found: float) -> str:
    """Return an upper bound on guesses as text, rounded up; one decimal below 55 (bound 15).

    Examples
    --------
    >>> at_most_text(56.53), at_most_text(52.01), at_most_text(50), at_most_text(60.0000000001)
    ('57', '52.1', '50', '60')
    >>> at_most_text(98.1), at_most_text(99), at_most_text(99.4)
    ('99', '99', 'over 99')
    """
    if found > OVER:
        return "over 99"
    digits = 1 if found < 55 else 0
    if found <= COIN:
        return "50"
    return _trimmed(math.ceil(found * 10**digits * (1 - 1e-9)) / 10**digits)


def about_text(found: float) -> str:
    """Return exact guesses as text, rounded to the digits of :func:`at_most_text` (bound 15).

    Examples
    --------
    >>> about_text(56.53), about_text(52.01), about_text(50), about_text(50.001)
    ('57', '52', '50', '50.1')
    """
    if found >= OVER + 0.5:
        # rounded to the nearest it would be certainty
        return "over 99"
    if COIN < found < 50.05:
        # only an exact coin toss reads 50
        return "50.1"
    return _trimmed(round(found, 1 if found < 55 else 0))


def _trimmed(number: float) -> str:
    return f"{number:.0f}" if number == int(number) else f"{number:.1f}"
