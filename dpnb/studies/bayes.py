"""The paper's approximations of a noise distribution, to study beside the exact one.

Xiao and Xiong, section 4.2: convolution of mass vectors ("PC") and Monte Carlo ("MC"), each in a
corrected form and as printed (docs/methods/bayes.md, bound 18), and the normal approximation.
Answers use :mod:`dpnb.estimation.noise`, which is exact and faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpnb.errors import RequestError
from dpnb.estimation.noise import Mixture, tails

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

Mode: TypeAlias = Literal["corrected", "paper"]
GAMMA = 0.01
"""Probability that the grid method may cut off (Xiao and Xiong, section 4.2.2)."""
MOST_KURTOSIS = 0.01
"""Up to this excess kurtosis, normal intervals at 95 and 99 % lack less than 0.0002 of coverage."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Masses:
    """A vector of probability masses on bins of equal width, the middle one centred at 0.

    Attributes
    ----------
    masses : float64 array, shape (n,), n odd
    step : float
        Width of a bin, in units of the query.
    """

    masses: Floats
    step: float

    @property
    def lost(self) -> float:
        """Probability outside the grid."""
        return 1 - float(self.masses.sum())

    def margin_of_error(self, alpha: float, mode: Mode = "corrected") -> float:
        """Return the margin of error within which the masses reach 1 - ``alpha`` (Algorithm 3).

        ``paper`` returns k bins for the mass of k + 1/2, so its confidence intervals are half a bin
        too short on either side (docs/methods/bayes.md, error 4): they cover one Laplace of scale
        0.5 with probability .865 instead of .95, and one of scale 0.05 with probability 0.

        Raises
        ------
        RequestError
            If the grid ends first; the printed algorithm would then never end.
        """
        import numpy as np

        centre = len(self.masses) // 2
        sides = self.masses[centre + 1 :] + self.masses[centre - 1 :: -1][:centre]
        within = np.concatenate(([self.masses[centre]], self.masses[centre] + np.cumsum(sides)))
        # a rounding error of the full sum must not count as lost mass
        enough = np.flatnonzero(within >= (1 - alpha) * (1 - 1e-12))
        if not len(enough):
            raise RequestError(
                f"the grid covers only {within[-1]:.6g} of the probability",
                "Ask for less confidence or take a smaller gamma.",
            )
        return self.step * (int(enough[0]) + (0.5 if mode == "corrected" else 0.0))


def lengths(
    scales: Sequence[float], *, gamma: float = GAMMA, step: float = 1.0, mode: Mode = "corrected"
) -> list[int]:
    """Return the odd number of bins for each Laplace term (Xiao and Xiong, Algorithm 2).

    ``corrected`` is 2 ceil(c ln(m / gamma) / step) + 1, which cuts off at most gamma / m of each
    term (Lemma 4.15). ``paper`` is the printed ceil(c ln(m / gamma) / step) + 1, made odd: half as
    long as that lemma needs (docs/methods/bayes.md, error 2).
    """
    reaches = [math.ceil(c * math.log(len(scales) / gamma) / step) for c in scales]
    if mode == "corrected":
        return [2 * reach + 1 for reach in reaches]
    return [reach + 1 + reach % 2 for reach in reaches]


def grid(
    scales: Sequence[float],
    *,
    gamma: float = GAMMA,
    step: float | None = None,
    mode: Mode = "corrected",
) -> Masses:
    """Return the distribution of a sum of Laplace terms by convolving mass vectors ("PC").

    Parameters
    ----------
    scales : sequence of float, shape (m,)
        c_k = |A_k| S_k / alpha_k > 0, in units of the query.
    gamma : float
        Probability that may be cut off, 0 < gamma < 1.
    step : float, optional
        Width of a bin; by default sd / 200. It is always 1 in the paper, whose grid distorts terms
        that are not much wider (docs/methods/bayes.md, error 3).
    mode : {'corrected', 'paper'}
        Mode of :func:`lengths`; ``paper`` also sets the step to 1.
    """
    import numpy as np
    from scipy.signal import convolve

    if mode == "paper":
        step = 1.0
    elif step is None:
        step = Mixture(tuple(scales), 0.0).sd / 200
    counts = lengths(scales, gamma=gamma, step=step, mode=mode)
    total = np.ones(1)
    # shortest first (Theorem 4.18)
    for count, scale in sorted(zip(counts, scales, strict=True)):
        total = np.asarray(convolve(total, _cells(Mixture((scale,), 0.0), count, step)))
    return Masses(np.maximum(total, 0.0), step)


def exact_cells(distribution: Mixture, count: int, step: float = 1.0) -> Masses:
    """Return the exact masses of ``distribution`` on ``count`` bins; ``count`` is odd."""
    return Masses(_cells(distribution, count, step), step)


def _cells(distribution: Mixture, count: int, step: float) -> Floats:
    """Return F(right edge) - F(left edge) for each bin, with edges at odd halves of the step."""
    import numpy as np

    edges: Floats = (np.arange(count + 1, dtype=np.float64) - count / 2) * step
    above = tails(distribution, edges)
    return above[:-1] - above[1:]


def draws(distribution: Mixture, count: int, seed: int) -> Floats:
    """Return ``count`` simulated values of the noise, shape (count,); never use them as noise."""
    import numpy as np
    from numpy.random import default_rng

    generator = default_rng(seed)
    total = generator.normal(0.0, math.sqrt(distribution.variance), count)
    for scale in distribution.scales:
        total += generator.laplace(0.0, scale, count)
    return np.asarray(total)


def monte_carlo_margin_of_error(
    distribution: Mixture, alpha: float, count: int, seed: int
) -> float:
    """Return the quantile of |X| at 1 - ``alpha`` over ``count`` draws ("MC", corrected).

    It uses the symmetry and does not round. The probability of the quantile is accurate to
    :func:`kolmogorov_bound`; the lattice margin is added.
    """
    import numpy as np

    return (
        float(np.quantile(np.abs(draws(distribution, count, seed)), 1 - alpha))
        + distribution.margin
    )


def kolmogorov_bound(count: int, failure: float) -> float:
    """Return a bound on the distance between an empirical distribution function and the exact one.

    It holds except with probability ``failure``: sqrt(ln(2 / failure) / (2 count)), by Dvoretzky,
    Kiefer and Wolfowitz.
    """
    return math.sqrt(math.log(2 / failure) / (2 * count))


def histogram(sample: Floats, step: float = 1.0) -> Masses:
    """Return the shares of ``sample`` in bins of width ``step``, as in the paper's "MC"."""
    import numpy as np

    places = np.rint(sample / step).astype(np.int64)
    reach = int(np.abs(places).max())
    counts = np.bincount(places + reach, minlength=2 * reach + 1)
    return Masses(counts / len(sample), step)


def error(found: Masses, expected: Masses) -> float:
    """Return sum (u_i - E u_i)^2 over the bins of both grids, which have the same step."""
    import numpy as np

    length = max(len(found.masses), len(expected.masses))
    padded = [np.pad(each.masses, (length - len(each.masses)) // 2) for each in (found, expected)]
    return float(np.sum((padded[0] - padded[1]) ** 2))


def normal_margin_of_error(distribution: Mixture, alpha: float) -> float:
    """Return the margin of error of the normal distribution with the variance of ``distribution``.

    Raises
    ------
    RequestError
        If the excess kurtosis is above :data:`MOST_KURTOSIS`. For each unit of it, the coverage
        falls by about 0.008 at 95 % and by 0.0113 at 99 %.
    """
    if distribution.kurtosis > MOST_KURTOSIS:
        raise RequestError(
            f"the noise is too far from normal: its excess kurtosis is {distribution.kurtosis:.3g}",
            "Use the exact distribution.",
        )
    return -_NORMAL.inv_cdf(alpha / 2) * distribution.sd + distribution.margin
