"""The distribution of a weighted sum of independent noise: distribution function and quantiles.

X = A N is symmetric and log-concave. Its distribution function is exact if there is a closed form,
and otherwise the midpoint inversion of its characteristic function with a proven error of at most
:data:`ERROR` (docs/methods/bayes.md, theorem 4). Margins of error and confidences are rounded to
the safe side by this error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.privacy.calibrate import NoiseDistribution

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

ERROR = 1e-9
"""Bound on the inversion's absolute error: half for aliasing, half for truncation."""
LEAST_ALPHA = 1e-7
"""Below this, margins of error are Chernoff's, because the inversion's error would matter."""
_NEAR = 1e-3
"""Failure probability down to which the smaller grid suffices."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Mixture:
    """The distribution of X, a sum of independent Laplace(c_k) and N(0, variance).

    It is symmetric and log-concave.

    Parameters
    ----------
    scales : tuple of float, shape (k,)
        Laplace scales c_k > 0, in units of the query.
    variance : float
        Variance of the Gaussian part, >= 0, in squared units of the query.
    margin : float
        Lattice correction, >= 0: added to margins of error, subtracted to compute confidences.

    Examples
    --------
    >>> round(Mixture((3.0, 1.0), 4.0).margin_of_error(0.05), 3)
    10.005
    """

    scales: tuple[float, ...]
    variance: float
    margin: float = 0.0

    @property
    def sd(self) -> float:
        """Standard deviation, in units of the query."""
        return math.sqrt(2 * math.fsum(c * c for c in self.scales) + self.variance)

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis 12 sum c^4 / sd^4, from 0 (normal) to 3 (one Laplace)."""
        sd = self.sd
        return 12 * math.fsum((c / sd) ** 4 for c in self.scales) if sd else 0.0

    def cdf(self, x: float) -> float:
        """Return P(X <= x), to :data:`ERROR`; without the margin."""
        return 1 - self.tail(x)

    def tail(self, x: float) -> float:
        """Return P(X > x), to :data:`ERROR`; without the margin."""
        if x < 0:
            # symmetric, and continuous unless there is no noise
            return 1 - self.tail(-x)
        return _tail(self, x)[0]

    def margin_of_error(self, alpha: float) -> float:
        """Return a margin of error that |X| exceeds with probability at most ``alpha``.

        It is the least one if there is a closed form, otherwise larger by at most ERROR / density,
        and Chernoff's for ``alpha`` below :data:`LEAST_ALPHA`.

        Parameters
        ----------
        alpha : float
            Failure probability, 0 < alpha < 1.

        Returns
        -------
        float
            In units of the query, including the lattice margin.
        """
        if not self.sd:
            return self.margin
        if not self.scales:
            return -_NORMAL.inv_cdf(alpha / 2) * self.sd + self.margin
        if len(self.scales) == 1 and not self.variance:
            return -math.log(alpha) * self.scales[0] + self.margin
        if len(self.scales) > 1 and alpha < LEAST_ALPHA:
            return _chernoff_point(self.scales, self.variance, alpha / 2) + self.margin
        return _quantile(self, alpha / 2) + self.margin

    def confidence(self, half: float) -> float:
        """Return a lower bound of P(|X| <= half - margin), in [0, 1].

        Parameters
        ----------
        half : float
            Margin of error, in units of the query.
        """
        reach = half - self.margin
        if reach < 0:
            return 0.0
        probability, error = _tail(self, reach)
        return min(max(1 - 2 * (probability + error), 0.0), 1.0)


def mixture(
    weights: Sequence[float],
    distributions: Sequence[NoiseDistribution],
    granularities: Sequence[float] | None = None,
) -> Mixture:
    """Return the distribution of a weighted sum of noise (docs/methods/bayes.md, theorem 4).

    Parameters
    ----------
    weights : sequence of float, shape (m,)
        A, in units of the query for each unit of the answer.
    distributions : sequence of NoiseDistribution, shape (m,)
        The noise of each answer, independent.
    granularities : sequence of float, shape (m,), optional
        Spacing of the lattice of each answer's noise, >= 0; 0 for none.

    Notes
    -----
    Lattice noise enters with the scale of its continuous distribution and half the largest weighted
    spacing as margin. For one Laplace row this is safe: with p = e^(-g/b), the discrete
    distribution has P(|N| >= kg) = 2 p^k / (1 + p) <= p^(k - 1/2) = P(|Laplace(b)| > (k - 1/2) g).
    A Laplace distribution of equal variance would be too narrow: six rows of b = 0.2, g = 1 would
    fail 1.8 times as often as alpha = 0.001 allows, two rows 2.6 times as often as 0.01 allows.
    """
    scales: list[float] = []
    variances: list[float] = []
    margin = 0.0
    steps = [0.0] * len(distributions) if granularities is None else granularities
    for weight, distribution, step in zip(weights, distributions, steps, strict=True):
        scale = abs(weight) * distribution.scale
        margin = max(margin, abs(weight) * step / 2)
        if distribution.family == "gaussian":
            variances.append(scale * scale)
        elif scale > 0:
            scales.append(scale)
    return Mixture(tuple(scales), math.fsum(variances), margin)


def surely(distribution: Mixture, half: float, alpha: float) -> bool | None:
    """Return whether P(|X| > half) <= alpha if the variance alone decides it, else None.

    Parameters
    ----------
    distribution : Mixture
    half : float
        Target margin of error, in units of the query.
    alpha : float
        Failure probability, 0 < alpha < 1.

    Notes
    -----
    True: Gauss's inequality P(|X| > k sd) <= 4 / (9 k^2), X being unimodal, k >= 2 / sqrt 3.

    False: with S(x) = P(|X| > x) and S(h) >= alpha, S lies below its chord on [0, h] (the density
    falls) and, -ln S being convex, below alpha^(x/h) after h where S(h) = alpha; so
    sd^2 = int 2 x S <= h^2 (1 - 2 (1 - alpha) / 3 + 2 alpha (1/L + 1/L^2)), L = ln(1 / alpha). Any
    smaller h has S(h) > alpha.
    """
    reach, sd = half - distribution.margin, distribution.sd
    if reach >= max(2 / math.sqrt(3), 2 / (3 * math.sqrt(alpha))) * sd:
        return True
    fall = -math.log(alpha)
    widest = 1 - 2 * (1 - alpha) / 3 + 2 * alpha * (1 / fall + 1 / fall**2)
    return False if reach < sd / math.sqrt(widest) else None


def tails(distribution: Mixture, points: Floats) -> Floats:
    """Return P(X > x) at each of ``points``, of any sign; float64 arrays of shape (n,)."""
    import numpy as np

    above = _arrays(distribution, np.abs(points))[0]
    return np.where(points < 0, 1 - above, above)


def densities(distribution: Mixture, points: Floats) -> Floats:
    """Return the density of X at each of ``points``, per unit of the query; shape (n,)."""
    import numpy as np

    return _arrays(distribution, np.abs(points))[1]


def _tail(distribution: Mixture, x: float) -> tuple[float, float]:
    """Return P(X > x) for x >= 0 and a bound on its error."""
    if not distribution.scales:
        return (
            0.5 * math.erfc(x / (distribution.sd * math.sqrt(2))) if distribution.sd else 0.0
        ), 0.0
    if len(distribution.scales) == 1:
        if not distribution.variance:
            return 0.5 * math.exp(-x / distribution.scales[0]), 0.0
        return _one_laplace(distribution.scales[0], distribution.variance, x)[0], 0.0
    grid = _inversion(distribution.scales, distribution.variance, wide=False)
    if x > grid.reach:
        grid = _inversion(distribution.scales, distribution.variance, wide=True)
    if x > grid.reach:
        # beyond the grid, the value and its error are below Chernoff's bound
        return 0.0, _chernoff_tail(distribution.scales, distribution.variance, x)
    return max(grid.tail_and_density(x)[0], 0.0), ERROR


def _arrays(distribution: Mixture, points: Floats) -> tuple[Floats, Floats]:
    """Return tails and densities at points >= 0."""
    import numpy as np
    from scipy.special import ndtr

    sd = distribution.sd
    if not distribution.scales:
        with np.errstate(under="ignore"):
            bell = np.exp(-((points / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))
            return ndtr(-points / sd), bell
    if len(distribution.scales) == 1:
        if not distribution.variance:
            with np.errstate(under="ignore"):
                fall = 0.5 * np.exp(-points / distribution.scales[0])
            return fall, fall / distribution.scales[0]
        return _one_laplace(distribution.scales[0], distribution.variance, points)
    grid = _inversion(distribution.scales, distribution.variance, wide=True)
    above, density = np.zeros_like(points), np.zeros_like(points)
    # points beyond the grid have values below the error
    inside = points <= grid.reach
    above[inside], density[inside] = grid.tails_and_densities(points[inside])
    return np.maximum(above, 0.0), np.maximum(density, 0.0)


def _one_laplace(scale: float, variance: float, x: Any) -> tuple[Any, Any]:
    """Return tail and density of Laplace(scale) + N(0, variance) at x >= 0, float or array.

    With s^2 the variance, a = s / scale, z = x / s: P(X > x) = Qf(z) + (T1 - T2) / 2 and
    f(x) = (T1 + T2) / (2 scale), T1 = e^(a^2/2 - a z) Phi(z - a), T2 = e^(a^2/2 + a z) Phi(-z - a),
    with erfcx where it keeps precision.
    """
    import numpy as np
    from scipy.special import erfcx, ndtr

    s = math.sqrt(variance)
    a, z = s / scale, np.asarray(x) / s
    with np.errstate(under="ignore"):
        bell = np.exp(-z * z / 2) / 2
        near = bell * erfcx(np.maximum(a - z, 0) / math.sqrt(2))
        first = np.where(z <= a, near, np.exp(a * np.minimum(a / 2 - z, 0)) * ndtr(z - a))
        second = bell * erfcx((a + z) / math.sqrt(2))
        above, density = ndtr(-z) + (first - second) / 2, (first + second) / (2 * scale)
    if np.ndim(x):
        return above, density
    return float(above), float(density)


def _quantile(distribution: Mixture, probability: float) -> float:
    """Return x with P(X > x) <= probability, by Newton's method on ln P(X > x).

    The logarithm is concave, so the steps descend from Chernoff's point and never pass the root;
    the bracket guards against rounding.
    """
    scales, variance = distribution.scales, distribution.variance
    error = ERROR if len(scales) > 1 else 0.0
    high, low = _chernoff_point(scales, variance, probability), 0.0
    if error:
        grid = _inversion(scales, variance, wide=probability * 2 < _NEAR)
        high = min(high, grid.reach)
    x = high
    for _ in range(100):
        if error:
            above, density = grid.tail_and_density(x)
        else:
            above, density = _one_laplace(scales[0], variance, x)
        above += error
        if above <= probability:
            high = x
        else:
            low = x
        step = above * math.log(above / probability) / density if density > 0 < above else math.nan
        following = x + step
        if abs(step) <= 1e-13 * x:
            return max(high if above <= probability else x, following) * (1 + 1e-13)
        x = following if low < following < high else (low + high) / 2
        if high - low <= 1e-13 * high:
            break
    return high


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Terms of F(x) = 1/2 + sum w_k sin((k + 1/2) D x), in rows of equal length.

    With k = i width + j the sine is the imaginary part of e^(i D x (i width + 1/2)) e^(i D x j), so
    one matrix product is enough for all x, with at most 2 sqrt(K) sines for each.
    """

    sines: Floats
    cosines: Floats
    spacing: float
    reach: float

    def tail_and_density(self, x: float) -> tuple[float, float]:
        import numpy as np

        rows, width = self.sines.shape
        angle = self.spacing * x
        across = np.arange(width) * angle
        down = (np.arange(rows) * width + 0.5) * angle
        cos, sin = np.cos(across), np.sin(across)
        cos_down, sin_down = np.cos(down), np.sin(down)
        missing = sin_down @ (self.sines @ cos) + cos_down @ (self.sines @ sin)
        density = cos_down @ (self.cosines @ cos) - sin_down @ (self.cosines @ sin)
        return 0.5 - float(missing), float(density)

    def tails_and_densities(self, points: Floats) -> tuple[Floats, Floats]:
        import numpy as np

        rows, width = self.sines.shape
        above, density = np.empty_like(points), np.empty_like(points)
        for start in range(0, len(points), 1024):
            part = slice(start, start + 1024)
            angle = self.spacing * points[part, None]
            across = np.exp(1j * angle * np.arange(width))
            down = np.exp(1j * angle * (np.arange(rows) * width + 0.5))
            above[part] = 0.5 - np.sum(down * (across @ self.sines.T), axis=1).imag
            density[part] = np.sum(down * (across @ self.cosines.T), axis=1).real
        return above, density


@lru_cache(maxsize=32)
def _inversion(scales: tuple[float, ...], variance: float, *, wide: bool) -> _Grid:
    """Tabulate the characteristic function for 0 <= x <= reach (docs/methods/bayes.md, theorem 4).

    Aliasing: with period u + reach and P(X > u) <= e, at most e. Truncation: slope(t) is the
    negative logarithmic derivative of phi and never falls, so phi(t) <= phi(T) (T / t)^slope(T) for
    t >= T and the terms left out add up to at most phi(T) / (pi slope(T)) <= e.

    The number K of terms stays below 2^18 whatever the scales: phi(t) <= 1 / (1 + sd^2 t^2 / 2) and
    slope >= 1.96 from sd t = 10 on, so T < 2.6e4 / sd. As c_max <= sd / sqrt 2, the slope 1 / sd in
    Chernoff's bound gives u <= (0.7 + ln(1/e)) sd, so the period is below 41 sd.
    """
    import numpy as np

    half = ERROR / 2
    sd = Mixture(scales, variance).sd
    least = LEAST_ALPHA if wide else _NEAR
    reach = _chernoff_point(scales, variance, least / 2)
    spacing = 2 * math.pi / (_chernoff_point(scales, variance, half) + reach)
    squares = np.array(scales) ** 2
    last = _cut(squares, variance, sd, half)
    count = math.ceil(last / spacing + 0.5) + 1
    width = math.ceil(math.sqrt(count))
    rows = math.ceil(count / width)
    k = np.arange(rows * width, dtype=np.float64)
    t2: Floats = ((k + 0.5) * spacing) ** 2
    phi = _characteristic(squares, variance, t2)
    phi[count:] = 0.0
    return _Grid(
        (phi / (math.pi * (k + 0.5))).reshape(rows, width),
        (phi * (spacing / math.pi)).reshape(rows, width),
        spacing,
        reach,
    )


def _cut(squares: Floats, variance: float, sd: float, error: float) -> float:
    """Return T with phi(T) / (pi slope(T)) <= error, within 1 % of the least such T."""
    import numpy as np

    def excess(t: float) -> float:
        z = squares * (t * t)
        slope = variance * t * t + 2 * float(np.sum(z / (1 + z)))
        log_phi = -variance * t * t / 2 - float(np.sum(np.log1p(z)))
        return log_phi - math.log(math.pi * slope * error)

    low, high = 1 / sd, 2 / sd
    while excess(high) > 0:
        low, high = high, 4 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def _characteristic(squares: Floats, variance: float, t2: Floats) -> Floats:
    """Return e^(-variance t^2 / 2) / prod (1 + c^2 t^2) at each t^2."""
    import numpy as np

    product = np.ones_like(t2)
    chunk = max(1, 2**17 // len(t2))
    # a product too large for a float means a characteristic function of 0
    with np.errstate(over="ignore", under="ignore"):
        for start in range(0, len(squares), chunk):
            product *= np.multiply.reduce(1 + np.outer(squares[start : start + chunk], t2), axis=0)
        phi: Floats = np.exp(-variance * t2 / 2) / product
    return phi


@lru_cache(maxsize=256)
def _cumulants(scales: tuple[float, ...], variance: float) -> tuple[Floats, Floats]:
    """Return 64 slopes l and ln E e^(lX) at each.

    The best slope for probability p is at most sqrt(2 ln(1/p)) / sd, as all cumulants are >= 0.
    """
    import numpy as np

    most = 8 / Mixture(scales, variance).sd
    slopes = np.arange(1, 65) / 65 * min(most, 1 / max(scales))
    log_mgf = variance * slopes**2 / 2
    squares = np.array(scales) ** 2
    log_mgf -= np.sum(np.log1p(-np.outer(squares, slopes**2)), axis=0)
    return slopes, log_mgf


def _chernoff_point(scales: tuple[float, ...], variance: float, probability: float) -> float:
    """Return u with P(X > u) <= probability: min over l of (ln E e^(lX) - ln probability) / l."""
    slopes, log_mgf = _cumulants(scales, variance)
    return float(((log_mgf - math.log(probability)) / slopes).min())


def _chernoff_tail(scales: tuple[float, ...], variance: float, x: float) -> float:
    """Return a bound on P(X > x): min over l of E e^(lX) e^(-l x)."""
    slopes, log_mgf = _cumulants(scales, variance)
    return math.exp(min(float((log_mgf - slopes * x).min()), 0.0))
