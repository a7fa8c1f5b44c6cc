"""All randomness that touches or hides data.

Noise is exact integer noise on a lattice, drawn by OpenDP from the operating system's entropy
(discrete Gaussian and discrete Laplace of Canonne, Kamath and Steinke 2020); selection compares
Gumbel variables of unlimited precision (``gumbel``). Nothing else in the package may draw numbers
that depend on data or hide them.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Noise(Protocol):
    """The one seam through which noise is drawn; whatever is not ``private`` is stamped so."""

    private: bool

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        """Return ``exact`` plus independent discrete Gaussians of parameter ``sigma``."""
        ...

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        """Return ``exact`` plus independent discrete Laplace draws of the given scale."""
        ...

    def coins(self, probability: float, count: int) -> list[bool]:
        """Return ``count`` independent coins that are true with ``probability``."""
        ...

    def largest(self, scores: npt.NDArray[np.int64], scale: float) -> int:
        """Return the index of the largest score plus independent Gumbel noise of ``scale``."""
        ...

    def below(self, count: int) -> int:
        """Return a whole number drawn uniformly from 0..count-1."""
        ...


@lru_cache(maxsize=1)
def _opendp() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import opendp.prelude as dp

        dp.enable_features("contrib")
    return dp


class SecureNoise:
    """Noise for release."""

    private = True

    @staticmethod
    def warm_up() -> None:
        """Load the sampler ahead of the first release."""
        SecureNoise().laplace([0], 1.0)

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        """Add discrete Gaussian noise.

        With L2 sensitivity D the release is (D^2 / (2 sigma^2))-zCDP, exactly, on the integers
        (Canonne, Kamath, Steinke 2020, Theorem 4). 64-bit integers: ``T=int`` would be 32 bits and
        saturate silently.
        """
        dp = _opendp()
        vectors = dp.vector_domain(dp.atom_domain(T="i64"))
        mechanism = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=sigma)
        return [int(value) for value in mechanism(list(exact))]

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        """Add discrete Laplace noise.

        With L1 sensitivity D the release is (D / scale)-DP, exactly, on the integers.
        """
        dp = _opendp()
        vectors = dp.vector_domain(dp.atom_domain(T="i64"))
        mechanism = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=scale)
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

        When the differences of scores change by at most W, the release is ((W / scale)^2 / 8)-zCDP
        (spec/dpxplain.md 3.5 and 6b (iii)), exactly: see ``gumbel``.
        """
        from dpnb.privacy import gumbel

        return gumbel.largest(scores, scale, os.urandom)

    def below(self, count: int) -> int:
        """Draw from the operating system's entropy, exactly uniform."""
        return secrets.randbelow(count)
