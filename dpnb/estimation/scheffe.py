"""How many standard deviations bound every combination of independent noise at once.

A weighted sum A N of noise N_i with variances v_i has the variance sum A_i^2 v_i, so by Cauchy and
Schwarz |A N| is at most sqrt(sum N_i^2 / v_i) of its standard deviations, however the sum was
chosen (Scheffe; docs/methods/bayes.md, theorem 15).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpnb.errors import RequestError, given

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

LEAST_ALPHA = 1e-9
"""Below this, the convolutions have no correct digit left."""
STEPS = 1 << 18
"""Size of the grid for sums of squares."""
MOST = STEPS >> 4
"""Most Laplace terms for which the grid is fine enough, because each term is rounded up."""


@lru_cache
def factor(gaussian: int, laplace: int, alpha: float) -> float:
    """Return q with P(sqrt(sum N_i^2 / v_i) > q) <= ``alpha``.

    For Gaussian noise the sum is chi squared. N^2 / v of Laplace noise is E^2 / 2 for an
    exponential E; these are added by convolution on a grid, each rounded up. For more than
    :data:`MOST` Laplace terms there is a closed bound.

    Parameters
    ----------
    gaussian, laplace : int
        Number of values with Gaussian noise and with Laplace noise.
    alpha : float
        Failure probability, 0 < alpha < 1.

    Raises
    ------
    RequestError
        For a failure probability below 1e-9.

    Examples
    --------
    >>> round(factor(6, 0, 0.05), 3)
    3.548
    >>> round(factor(0, 1, 0.05), 3)
    2.118
    """
    from scipy import special

    if not 0 < alpha < 1:
        raise RequestError(
            f"alpha must be between 0 and 1, got {given(alpha)}", "Use 0.05 for 95 %."
        )
    if alpha < LEAST_ALPHA:
        raise RequestError(
            "the confidence is too high for chosen='any'",
            f"Ask for a confidence of at most 1 - {LEAST_ALPHA:g}.",
        )
    if not gaussian + laplace:
        return 0.0
    if not laplace:
        return math.sqrt(float(special.chdtri(gaussian, alpha)))
    if laplace > MOST:
        return math.sqrt(_bound(gaussian, laplace, alpha / 3))
    # E^2 / 2 has the mean 1 and the variance 5, and almost surely all stay below the last term
    most = (
        gaussian
        + laplace
        + 4 * math.sqrt(2 * gaussian + 5 * laplace)
        + math.log(laplace / alpha) ** 2
    )
    while (quantile := _quantile(gaussian, laplace, most, alpha)) is None:
        most *= 2
    return math.sqrt(quantile)


def _bound(gaussian: int, laplace: int, share: float) -> float:
    """Return a bound that the sum of squares exceeds with probability at most 3 ``share``.

    One share each: for the Gaussian squares; for any E^2 / 2 above ln(laplace / share)^2 / 2; and
    for the sum of E^2 / 2, cut there, by Bernstein's inequality (cutting lowers the mean 1 and the
    variance 5).
    """
    from scipy import special

    squares = float(special.chdtri(gaussian, share)) if gaussian else 0.0
    cut, odds = math.log(laplace / share) ** 2 / 2, -math.log(share)
    # t^2 = 2 odds (5 n + cut t / 3)
    linear = cut * odds / 3
    return squares + laplace + linear + math.sqrt(linear**2 + 10 * laplace * odds)


def _quantile(gaussian: int, laplace: int, most: float, alpha: float) -> float | None:
    """Return the 1 - ``alpha`` quantile of the sum of squares; None if it is above ``most``."""
    import numpy as np
    from scipy import special

    grid = np.linspace(0.0, most, STEPS + 1)
    masses = _rounded_up(special.chdtr(gaussian, grid) if gaussian else np.ones(len(grid)))
    power = _rounded_up(-np.expm1(-np.sqrt(2 * grid)))
    while laplace:
        if laplace & 1:
            masses = _sum(masses, power)
        laplace >>= 1
        power = _sum(power, power) if laplace else power
    below = np.cumsum(masses)
    place = int(np.searchsorted(below, 1 - alpha))
    return float(grid[place]) if place < len(grid) else None


def _rounded_up(cdf: Any) -> Floats:
    """Return the probability of each grid point for a distribution rounded up to the grid."""
    import numpy as np

    masses: Floats = np.diff(cdf, prepend=0.0)
    return masses


def _sum(first: Floats, second: Floats) -> Floats:
    """Return the probabilities of a sum, on the same grid; values beyond the grid are left out."""
    import numpy as np
    from scipy import fft

    size = fft.next_fast_len(2 * len(first), real=True)
    masses: Floats = fft.irfft(fft.rfft(first, size) * fft.rfft(second, size), size)[: len(first)]
    return np.maximum(masses, 0.0)
