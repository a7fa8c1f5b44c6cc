"""Fast noise of a fixed seed, for tests of many draws."""

from __future__ import annotations

import numpy as np


class RoundedNoise:
    """Rounded continuous noise; ``scale`` makes it wider than it says, and 0 is none."""

    private = False

    def __init__(self, seed=1, scale=1.0):
        self.generator, self.scale = np.random.default_rng(seed), scale

    def _added(self, exact, drawn):
        return [int(x) + round(float(e) * self.scale) for x, e in zip(exact, drawn, strict=True)]

    def gaussian(self, exact, sigma):
        return self._added(exact, self.generator.normal(0, sigma, len(exact)))

    def laplace(self, exact, scale):
        return self._added(exact, self.generator.laplace(0, scale, len(exact)))

    def coins(self, probability, count):
        return [bool(coin) for coin in self.generator.random(count) < probability]
