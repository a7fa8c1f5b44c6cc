"""Simulated noise that becomes finer: a value at a higher level, given the one at a lower level.

Noise is continuous and drawn by a numpy Generator, so nothing here protects anybody; algorithms are
numbered as in docs/methods/probe.md. For decisions about private data, :mod:`dpnb.privacy.noise`
draws the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpnb.decide.certificate import Floats

if TYPE_CHECKING:
    from numpy.random import Generator


def finer(noise: Floats, held: float, level: float, sensitivity: float, rng: Generator) -> Floats:
    """Return Laplace noise at ``level``, given the noise at ``held``; both together cost ``level``.

    This is the distribution of the finer value of gradual release given the coarser one (algorithm
    18). With the old value at distance x on the positive side, the new one stays at x or lies below
    0, between 0 and x, or beyond x. The published sampler ignores the side of the old value
    (error 6). With ``held`` = 0 the noise is fresh.
    """
    if held == 0:
        return rng.laplace(0.0, sensitivity / level, noise.shape)
    x = np.abs(noise) / sensitivity
    edges = np.cumsum(branches(x, held, level), axis=0)
    branch = (rng.random(noise.shape) >= edges[:3]).sum(axis=0)
    outside = rng.exponential(1 / (held + level), noise.shape)
    # truncated exponential on (0, x), by its quantile function
    rate = level - held
    between = -np.log1p(rng.random(noise.shape) * np.expm1(-rate * x)) / rate
    position = np.choose(branch, [x, -outside, between, x + outside])
    return np.asarray(np.where(noise < 0, -position, position) * sensitivity)


def branches(x: Floats, held: float, level: float) -> Floats:
    """Return the probabilities of x, below 0, between 0 and x, and beyond x, shape (4, ...)."""
    r, h = held / level, np.exp(-(level - held) * x)
    below = np.broadcast_to((1 - r) / 2, h.shape)
    return np.array([r * h, below, (1 + r) / 2 * (1 - h), (1 - r) / 2 * h])


def merged(noise: Floats, held: float, level: float, sensitivity: float, rng: Generator) -> Floats:
    """Return Gaussian noise at a higher rho: fresh noise of the increase, averaged by precision."""
    fresh = rng.normal(0.0, sensitivity / math.sqrt(2 * (level - held)), noise.shape)
    return np.asarray((held * noise + (level - held) * fresh) / level)


def predicted(y: Floats, held: float, level: float, limit: float, sensitivity: float) -> Floats:
    """Return P(finer value > limit) for a value y at the level ``held``, with a flat prior.

    Algorithm 22 of docs/methods/probe.md.
    """
    stay = (held / level) ** 2
    z = (limit - y) * held / sensitivity
    half = 0.5 * np.exp(-np.abs(z))
    return np.asarray(stay * (y > limit) + (1 - stay) * np.where(z > 0, half, 1 - half))
