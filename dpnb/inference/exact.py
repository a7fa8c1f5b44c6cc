"""The exact posterior of a linear query under a flat prior, given noisy answers.

Under Laplace noise the weighted sum of the answers is not all they say: the posterior is narrower on
average, and its width depends on the answers (spec/bayes.md 3.8 and P1; Xiao and Xiong, section 4,
call the law of the weighted sum the posterior). Three forms: normal when all noises are, piecewise
exponential when one number is unknown and all noises are Laplace, and a Gibbs sample otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dpnb.errors import RequestError
from dpnb.privacy.calibrate import Law

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

BURN_IN = 500
DRAWS = 5000
_CLOSEST = 1e-10
"""Least distance of a draw to an answer, in noise scales, for which its precision is drawn."""


class Posterior(Protocol):
    """A law of one number, in units of the query."""

    @property
    def mean(self) -> float:
        """Expected value."""

    @property
    def sd(self) -> float:
        """Standard deviation."""

    def cdf(self, x: float) -> float:
        """Return P(theta <= x)."""

    def quantile(self, probability: float) -> float:
        """Return x with P(theta <= x) = ``probability``, strictly between 0 and 1."""


def interval(law: Posterior, alpha: float) -> tuple[float, float]:
    """Return the equal-tailed interval of probability 1 - ``alpha``."""
    return law.quantile(alpha / 2), law.quantile(1 - alpha / 2)


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal posterior; all noises are Gaussian."""

    mean: float
    sd: float

    def cdf(self, x: float) -> float:
        """Return P(theta <= x)."""
        return NormalDist(self.mean, self.sd).cdf(x)

    def quantile(self, probability: float) -> float:
        """Return x with P(theta <= x) = ``probability``."""
        return NormalDist(self.mean, self.sd).inv_cdf(probability)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Density proportional to e^(slope (x - anchor)) from left to right; the anchor is the finite end.

    Where both ends are, it is the one of greater density, so that exponents are never positive.
    """

    left: float
    right: float
    anchor: float
    slope: float
    mass: float


@dataclass(frozen=True, slots=True)
class Exponentials:
    """A posterior density proportional to prod e^(-s_i |x - z_i|) (spec/bayes.md 3.8).

    Parameters
    ----------
    segments : tuple of _Segment
        From the left to the right; their masses add up to 1.
    """

    segments: tuple[_Segment, ...]

    @property
    def mean(self) -> float:
        """Expected value."""
        return math.fsum(s.mass * (s.anchor + _moments(s)[0]) for s in self.segments)

    @property
    def sd(self) -> float:
        """Standard deviation."""
        mean = self.mean
        squares = []
        for segment in self.segments:
            first, second = _moments(segment)
            shift = segment.anchor - mean
            squares.append(segment.mass * (shift * shift + 2 * shift * first + second))
        return math.sqrt(math.fsum(squares))

    def cdf(self, x: float) -> float:
        """Return P(theta <= x)."""
        below = 0.0
        for segment in self.segments:
            if x < segment.right:
                return min(below + segment.mass * _share(segment, x), 1.0)
            below += segment.mass
        return 1.0

    def quantile(self, probability: float) -> float:
        """Return x with P(theta <= x) = ``probability``."""
        below = 0.0
        for segment in self.segments[:-1]:
            if below + segment.mass >= probability:
                return _inverse(segment, (probability - below) / segment.mass)
            below += segment.mass
        last = self.segments[-1]
        return last.left + math.log((1 - probability) / last.mass) / last.slope


def _moments(segment: _Segment) -> tuple[float, float]:
    """Return E(x - anchor) and E(x - anchor)^2 within a segment."""
    towards = 1.0 if segment.anchor == segment.left else -1.0
    rate, length = abs(segment.slope), segment.right - segment.left
    if math.isinf(length):
        return towards / rate, 2 / rate**2
    v = rate * length
    if v < 0.1:
        # E u^n over [0, 1] of density e^(-v u), by the series of both integrals
        mass, first, second = (
            math.fsum((-v) ** j / (math.factorial(j) * (j + n + 1)) for j in range(10))
            for n in range(3)
        )
        return towards * length * first / mass, length**2 * second / mass
    end = math.exp(-v) / -math.expm1(-v)
    first = 1 / v - end
    second = 2 / v * first - end
    return towards * length * first, length**2 * second


def _share(segment: _Segment, x: float) -> float:
    """Return the share of a segment's mass below x."""
    slope = segment.slope
    if math.isinf(segment.left):
        return math.exp(slope * (x - segment.right))
    if math.isinf(segment.right):
        return -math.expm1(slope * (x - segment.left))
    length = segment.right - segment.left
    if abs(slope * length) < 1e-14:
        return (x - segment.left) / length
    if slope < 0:
        return math.expm1(slope * (x - segment.left)) / math.expm1(slope * length)
    return 1 - math.expm1(slope * (x - segment.right)) / math.expm1(-slope * length)


def _inverse(segment: _Segment, share: float) -> float:
    """Return x below which a segment, not the last one, has this share of its mass."""
    slope = segment.slope
    if math.isinf(segment.left):
        return segment.right + math.log(share) / slope
    length = segment.right - segment.left
    if abs(slope * length) < 1e-14:
        return segment.left + share * length
    if slope < 0:
        return segment.left + math.log1p(share * math.expm1(slope * length)) / slope
    return segment.right + math.log1p((1 - share) * math.expm1(-slope * length)) / slope


def exponentials(points: Sequence[float], rates: Sequence[float]) -> Exponentials:
    """Return the law with density proportional to prod e^(-s_i |x - z_i|).

    Parameters
    ----------
    points : sequence of float, shape (m,), m >= 1
        z_i = y_i / a_i, what each answer alone says, in units of the query.
    rates : sequence of float, shape (m,)
        s_i = |a_i| / b_i > 0, per unit of the query.
    """
    pairs = sorted(zip(points, rates, strict=True))
    z = [point for point, _ in pairs]
    slope = math.fsum(rates)
    slopes = [slope]
    for _, rate in pairs:
        slope -= 2 * rate
        slopes.append(slope)
    # the last one is known exactly
    slopes[-1] = -slopes[0]
    heights = [0.0]
    for i in range(1, len(z)):
        heights.append(heights[-1] + slopes[i] * (z[i] - z[i - 1]))
    raw = [(-math.inf, z[0], z[0], slopes[0], heights[0] - math.log(slopes[0]))]
    for i in range(1, len(z)):
        length, steep = z[i] - z[i - 1], abs(slopes[i])
        if length == 0:
            continue
        width = length if steep * length < 1e-14 else -math.expm1(-steep * length) / steep
        anchor = z[i] if slopes[i] > 0 else z[i - 1]
        top = max(heights[i], heights[i - 1])
        raw.append((z[i - 1], z[i], anchor, slopes[i], top + math.log(width)))
    raw.append((z[-1], math.inf, z[-1], slopes[-1], heights[-1] - math.log(slopes[0])))
    most = max(row[4] for row in raw)
    total = math.fsum(math.exp(row[4] - most) for row in raw)
    return Exponentials(tuple(_Segment(*row[:4], math.exp(row[4] - most) / total) for row in raw))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A posterior known by dependent draws.

    Attributes
    ----------
    draws : float64 array, shape (n,)
    error : float
        Standard error of the mean, from batch means.
    """

    draws: Floats
    error: float

    @classmethod
    def of(cls, draws: Floats) -> Sample:
        """Build a posterior from dependent draws."""
        return cls(draws, batch_error(draws))

    @property
    def mean(self) -> float:
        """Expected value."""
        return float(self.draws.mean())

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return float(self.draws.std(ddof=1))

    def cdf(self, x: float) -> float:
        """Return P(theta <= x)."""
        return float((self.draws <= x).mean())

    def quantile(self, probability: float) -> float:
        """Return x with P(theta <= x) = ``probability``."""
        import numpy as np

        return float(np.quantile(self.draws, probability))


def posterior(
    coordinates: Floats,
    answers: Floats,
    laws: Sequence[Law],
    query: Floats,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> Normal | Exponentials | Sample:
    """Return the exact posterior of a query under a flat prior (spec/bayes.md 3.8, ALG-8).

    Parameters
    ----------
    coordinates : float64 array, shape (m, r)
        C: the answers are C gamma + noise for r unknowns gamma; of rank r.
    answers : float64 array, shape (m,)
    laws : sequence of Law, shape (m,)
    query : float64 array, shape (r,)
        The query is ``query @ gamma``; not all 0.
    seed, draws : int
        Of the Gibbs sampler, where one is needed.

    Raises
    ------
    RequestError
        If the answers do not determine all r unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> law = posterior(np.ones((2, 1)), np.array([0.0, 5.0]), [Law("laplace", 1.0)] * 2, np.ones(1))
    >>> round(law.cdf(0.0) * 12, 9)
    1.0
    """
    found = without_draws(coordinates, answers, laws, query)
    if found is not None:
        return found
    return Sample.of(gibbs(coordinates, answers, laws, seed=seed, draws=draws) @ query)


def without_draws(
    coordinates: Floats, answers: Floats, laws: Sequence[Law], query: Floats
) -> Normal | Exponentials | None:
    """Return the exact posterior where it has a closed form; see :func:`posterior`."""
    families = {law.family for law in laws}
    if families == {"gaussian"}:
        mean, covariance = gaussian(coordinates, answers, laws)
        return Normal(float(query @ mean), math.sqrt(float(query @ covariance @ query)))
    if coordinates.shape[1] == 1 and families == {"laplace"}:
        _check_rank(coordinates)
        a = [float(row) / float(query[0]) for row in coordinates[:, 0]]
        rows = [
            (float(y) / each, abs(each) / law.scale)
            for each, y, law in zip(a, answers, laws, strict=True)
            if each
        ]
        return exponentials([row[0] for row in rows], [row[1] for row in rows])
    return None


def gaussian(coordinates: Floats, answers: Floats, laws: Sequence[Law]) -> tuple[Floats, Floats]:
    """Return mean (r,) and covariance (r, r) of the unknowns as if all noises were Gaussian.

    Exact when they are; with the variances of the laws, it is the best linear estimate otherwise.
    By QR: mean = R^-1 Q^T V^-1/2 y, covariance = (R^T R)^-1 with V^-1/2 C = Q R.
    """
    import numpy as np

    _check_rank(coordinates)
    sds = np.array([law.scale * (math.sqrt(2) if law.family == "laplace" else 1) for law in laws])
    q, r = np.linalg.qr(coordinates / sds[:, None])
    inverse = np.linalg.inv(r)
    return inverse @ (q.T @ (answers / sds)), inverse @ inverse.T


def gibbs(
    coordinates: Floats,
    answers: Floats,
    laws: Sequence[Law],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    burn_in: int = BURN_IN,
) -> Floats:
    """Return ``draws`` dependent draws of the r unknowns, shape (draws, r).

    A Laplace law is a normal one of random precision l; given the unknowns, l is inverse Gaussian
    of mean 1 / (b |y - C gamma|) and shape 1 / b^2, and given all l the unknowns are normal of
    precision M = C^T diag(l) C and mean M^-1 C^T (l y) (spec/bayes.md 3.8; Park and Casella, The
    Bayesian lasso, 2008). Draws on released values only.

    Parameters
    ----------
    coordinates, answers, laws
        As for :func:`posterior`.
    seed, draws, burn_in : int
        The first ``burn_in`` draws are left out.
    """
    import numpy as np
    from numpy.random import default_rng

    generator = default_rng(seed)
    gamma = gaussian(coordinates, answers, laws)[0]
    scales = np.array([law.scale for law in laws])
    heavy = np.array([law.family == "laplace" for law in laws])
    precision = scales**-2.0
    kept = np.empty((draws, coordinates.shape[1]))
    for i in range(-burn_in, draws):
        distance = np.abs(answers - coordinates @ gamma)[heavy] / scales[heavy]
        unit = _inverse_gaussian(1 / np.maximum(distance, _CLOSEST), generator)
        precision[heavy] = unit * scales[heavy] ** -2.0
        weighted = coordinates * precision[:, None]
        root = np.linalg.cholesky(weighted.T @ coordinates)
        centre = np.linalg.solve(root, weighted.T @ answers)
        noise = generator.standard_normal(len(centre))
        gamma = np.linalg.solve(root.T, centre + noise)
        if i >= 0:
            kept[i] = gamma
    return kept


def batch_error(sample: Floats) -> float:
    """Return the standard error of the mean of dependent draws, from about sqrt(n) batch means."""
    import numpy as np

    batches = math.isqrt(len(sample))
    size = len(sample) // batches
    means = sample[: batches * size].reshape(batches, size).mean(axis=1)
    return float(np.std(means, ddof=1) / math.sqrt(batches))


def _inverse_gaussian(means: Floats, generator: np.random.Generator) -> Floats:
    """Draw inverse Gaussians of shape 1 (Michael, Schucany and Haas, 1976).

    The smaller root is taken as a quotient, which keeps its digits for large means.
    """
    import numpy as np

    half = means * generator.standard_normal(len(means)) ** 2 / 2
    small = means / (1 + half + np.sqrt(half * (2 + half)))
    keep = generator.random(len(means)) * (means + small) <= means
    return np.where(keep, small, means**2 / small)


def _check_rank(coordinates: Floats) -> None:
    import numpy as np

    if np.linalg.matrix_rank(coordinates) < coordinates.shape[1]:
        raise RequestError(
            "the past answers do not determine what is asked",
            "Ask the query itself once, or a query whose parts were all asked.",
        )
