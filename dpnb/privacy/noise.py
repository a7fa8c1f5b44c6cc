"""All randomness that touches or hides data.

Noise is exact integer noise on a lattice, which OpenDP draws from the operating system's entropy
(discrete Gaussian and discrete Laplace of Canonne, Kamath and Steinke 2020). Selection compares
Gumbel variables of unlimited precision (``gumbel``). Nothing else in the package may draw numbers
that depend on data or hide them.
"""

from __future__ import annotations

import math
import os
import secrets
import warnings
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from dpnb.privacy.definition import PrivacyDefinition

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Noise(Protocol):
    """The only interface for drawing noise.

    Only a :class:`SecureNoise` that the runner makes itself protects anybody. Results of a source
    that is passed in are stamped, whatever it says about itself.
    """

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        """Return ``exact`` plus independent discrete Gaussians of parameter ``sigma``."""
        ...

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        """Return ``exact`` plus independent discrete Laplace draws of the given scale."""
        ...

    def coins(self, probability: float, count: int) -> list[bool]:
        """Return ``count`` independent coins, each true with ``probability``."""
        ...

    def largest(self, scores: npt.NDArray[np.int64], scale: float) -> int:
        """Return the index of the largest score plus independent Gumbel noise of ``scale``."""
        ...

    def below(self, count: int) -> int:
        """Return a whole number drawn uniformly from 0..count-1."""
        ...


def noised(
    exact: Sequence[int], scale: float, privacy: PrivacyDefinition, noise: Noise
) -> list[int]:
    """Return ``exact`` plus noise of a privacy definition's family."""
    match privacy.noise:
        case "gaussian":
            return noise.gaussian(exact, scale)
        case "laplace":
            return noise.laplace(exact, scale)


def gaussian_around(
    numerators: Sequence[int], denominator: int, variance: Fraction, noise: Noise
) -> list[int]:
    """Return independent discrete Gaussians around centres that need not be integers.

    The probability of each value y is proportional to exp(-(y - c)^2 / (2 ``variance``)), with
    c = numerator / ``denominator``, exactly. The candidate y is a discrete Gaussian of parameter w
    around the integer n next to c, where w is slightly larger than v = ``variance``. With f = c - n
    it is kept with probability exp(-q), q = (w - v) (y - n - f w / (w - v))^2 / (2 v w) >= 0: times
    exp(-(y - n)^2 / (2 w)) this is proportional to exp(-(y - c)^2 / (2 v)). About one in 2 sqrt(v)
    candidates is drawn again. Centres are rounded by floor(c + 1/2), which does not depend on
    parity (docs/methods/noise.md, algorithm 10).

    Noise for tests stays around the integer: its coins may never let this end.

    Parameters
    ----------
    numerators : sequence of int
        The centres, in parts of ``denominator``.
    denominator : int
        Positive.
    variance : Fraction
        In squares of lattice units; at least 1.
    """
    halves = [divmod(2 * value + denominator, 2 * denominator) for value in numerators]
    integers = [number for number, _ in halves]
    if not isinstance(noise, SecureNoise):
        return noise.gaussian(integers, math.sqrt(variance))
    near = float(variance)
    sigma = math.sqrt(near + max(math.sqrt(near), near / 2**40))
    wide = Fraction(sigma) ** 2
    rate, reach = (wide - variance) / (2 * variance * wide), wide / (wide - variance)
    samples, waiting = [0] * len(integers), list(range(len(integers)))
    while waiting:
        candidates = noise.gaussian([integers[i] for i in waiting], sigma)
        offsets = [value - integers[i] for i, value in zip(waiting, candidates, strict=True)]
        # a power of two that is at least every q: such a coin is exact
        most = float(rate) * (float(max(map(abs, offsets))) + float(reach) / 2) ** 2
        share = math.ldexp(1.0, min(0, max(-60, math.frexp(most)[1] + 1)))
        rejects = []
        for place, doubted in enumerate(noise.coins(share, len(waiting))):
            i = waiting[place]
            if doubted:
                rest = Fraction(halves[i][1] - denominator, 2 * denominator)
                q = rate * (offsets[place] - rest * reach) ** 2
                if not _kept(q, Fraction(share), noise):
                    rejects.append(i)
                    continue
            samples[i] = candidates[place]
        waiting = rejects
    return samples


def _kept(q: Fraction, share: Fraction, noise: Noise) -> bool:
    """Flip a coin of exp(-q), given that a first coin of ``share`` >= min(q, 1) came up true.

    Canonne, Kamath, Steinke 2020, Algorithm 1: flip coins of q/1, q/2, q/3, ... until one is false.
    The number of true ones is even with probability exp(-q), for q <= 1.
    """
    if q > 1:
        return _kept(Fraction(1), share, noise) and _kept(q - 1, Fraction(1), noise)
    odds, trues = q / share, 0
    while noise.below(odds.denominator) < odds.numerator:
        trues += 1
        odds = q / (trues + 1)
    return trues % 2 == 0


@lru_cache(maxsize=1)
def _opendp() -> tuple[Any, Any, Any]:
    """Return OpenDP's measurements, and its spaces of 64-bit integers for either noise, loaded once.

    ``T=int`` would be 32 bits and saturate silently. The prelude takes twice as long to load.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opendp import domains, measurements, metrics
        from opendp.mod import enable_features

        enable_features("contrib")
    vectors = domains.vector_domain(domains.atom_domain(T="i64"))
    gaussian = vectors, metrics.l2_distance(T=float)
    laplace = vectors, metrics.l1_distance(T="i64")
    return measurements, gaussian, laplace


class SecureNoise:
    """Noise for release."""

    @staticmethod
    def warm_up() -> None:
        """Load the sampler ahead of the first release."""
        SecureNoise().laplace([0], 1.0)

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        """Add discrete Gaussian noise.

        With L2 sensitivity D the release is (D^2 / (2 sigma^2))-zCDP, exactly, on the integers
        (Canonne, Kamath, Steinke 2020, Theorem 4). It is not (D / sigma)-GDP: see ``path``.
        """
        measurements, space, _ = _opendp()
        mechanism = measurements.make_gaussian(*space, scale=sigma)
        return [int(value) for value in mechanism(list(exact))]

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        """Add discrete Laplace noise.

        With L1 sensitivity D the release is (D / scale)-DP, exactly, on the integers.
        """
        measurements, _, space = _opendp()
        mechanism = measurements.make_laplace(*space, scale=scale)
        return [int(value) for value in mechanism(list(exact))]

    def coins(self, probability: float, count: int) -> list[bool]:
        """Flip coins from the operating system's entropy, with probability exact to 2**-64."""
        threshold = int(probability * 2**64)
        entropy = os.urandom(8 * count)
        return [
            int.from_bytes(entropy[8 * i : 8 * i + 8], "little") < threshold for i in range(count)
        ]

    def largest(self, scores: npt.NDArray[np.int64], scale: float) -> int:
        """Select one score by Gumbel noise: the exponential mechanism.

        If the differences of scores change by at most W, the release is ((W / scale)^2 / 8)-zCDP
        (docs/methods/dpxplain.md, theorem 7), exactly: see ``gumbel``.
        """
        from dpnb.privacy import gumbel

        return gumbel.largest(scores, scale, os.urandom)

    def below(self, count: int) -> int:
        """Draw from the operating system's entropy, exactly uniformly."""
        return secrets.randbelow(count)
