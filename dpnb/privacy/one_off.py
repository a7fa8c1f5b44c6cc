"""Private selection of the k best of many candidates, most of which may have the same score.

Gumbel noise (DPXPlain, Algorithm 2; docs/methods/dpxplain.md, theorem 7) in its form for large
spaces, which draws one Gumbel for all idle candidates (score 0) together (Algorithm 5; algorithm 8
there).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpnb.privacy.noise import Noise


def gumbel_scale(spread: float, k: int, rho: Fraction) -> float:
    """Return the Gumbel scale b at which selecting k candidates costs ``rho``, rounded up.

    b = W sqrt(k / (8 rho)), where W bounds how much the difference of two candidates' scores
    changes between neighbouring tables (docs/methods/dpxplain.md, theorem 7).
    """
    return spread * math.sqrt(k / (8 * rho)) * (1 + 2.0**-48)


def top_k(
    active: npt.NDArray[np.int64],
    scores: npt.NDArray[np.int64],
    size: int,
    k: int,
    scale: float,
    noise: Noise,
) -> list[int]:
    """Select k of ``size`` candidates, one after the other.

    The result has the distribution of adding one Gumbel to each score and taking the k largest in
    order. The idle candidates take part together: the largest of n Gumbels is one Gumbel moved by
    ln(n). The slack of the lattice (``influence.Lattice``) pays for rounding that move to the
    lattice.

    Parameters
    ----------
    active : int64 array, shape (a,)
        Candidates with their own score, ascending; all others score 0.
    scores : int64 array, shape (a,)
        Their scores in lattice units.
    size : int
        Number of candidates.
    k : int
        At most ``size``.
    scale : float
        Gumbel scale in lattice units; see :func:`gumbel_scale`.
    noise : Noise

    Returns
    -------
    list of int
        Candidates, best first.
    """
    left, idle = np.arange(len(scores)), size - len(scores)
    chosen: list[int] = []
    while len(chosen) < k:
        candidates = scores[left]
        if idle > 0:
            candidates = np.append(candidates, round(scale * math.log(idle)))
        best = noise.largest(candidates, scale)
        if best < len(left):
            chosen.append(int(active[left[best]]))
            left = np.delete(left, best)
        else:
            taken = np.union1d(active, np.array(chosen, dtype=np.int64))
            chosen.append(_missing(taken, noise.below(size - len(taken))))
            idle -= 1
    return chosen


def _missing(taken: npt.NDArray[np.int64], place: int) -> int:
    """Return the whole number at ``place`` (from 0) among those not in the ascending ``taken``."""
    gaps = taken - np.arange(len(taken))
    return place + int(np.searchsorted(gaps, place, side="right"))
