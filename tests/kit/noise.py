"""Noise for tests, through the one seam that ``Curator(noise=...)`` offers; answers are NOT PRIVATE.

========================  ====================================================================
:class:`NoNoise`          releases exact numbers, so what follows is known
:class:`ContinuousNoise`  fast noise from a seed, for tests of many draws
:class:`DiscreteNoise`    the distributions in use, from a seed
:class:`BlindNoise`       a fixed pattern that ignores what it is given: what differs between two
                          tables then differs because of the data
========================  ====================================================================

Each notes its draws in ``draws``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from dpnb.privacy import gumbel

Name = Literal["gaussian", "laplace", "coins", "largest", "below"]

_ROUNDED = 50.0
"""From this sigma on, a rounded Gaussian is within 2e-5 of the discrete one in total variation."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw: its distribution, the exact values it was to hide, its scale or probability."""

    name: Name
    exact: tuple[int, ...]
    scale: float


class NoNoise:
    """Adds nothing; a coin falls on its likelier side, a selection on the first of the best."""

    def __init__(self) -> None:
        self.draws: list[Draw] = []

    def _note(self, name: Name, exact: Sequence[int], scale: float) -> list[int]:
        values = [int(value) for value in exact]
        self.draws.append(Draw(name, tuple(values), float(scale)))
        return values

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        return self._note("gaussian", exact, sigma)

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        return self._note("laplace", exact, scale)

    def coins(self, probability: float, count: int) -> list[bool]:
        self.draws.append(Draw("coins", (), probability))
        return [probability > 0.5] * count

    def largest(self, scores: Any, scale: float) -> int:
        self._note("largest", scores, scale)
        return int(np.argmax(scores))

    def below(self, count: int) -> int:
        return 0


class ContinuousNoise(NoNoise):
    """Rounded continuous noise from a seed.

    ``scale`` makes it wider or narrower than it says, for tests that must notice that; 0 adds none.
    """

    def __init__(self, seed: int = 1, scale: float = 1.0) -> None:
        super().__init__()
        self.generator, self.scale = np.random.default_rng(seed), scale

    def _added(self, exact: Sequence[int], drawn: np.ndarray) -> list[int]:
        return [x + round(float(e) * self.scale) for x, e in zip(exact, drawn, strict=True)]

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        values = self._note("gaussian", exact, sigma)
        return self._added(values, self.generator.normal(0, sigma, len(values)))

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        values = self._note("laplace", exact, scale)
        return self._added(values, self.generator.laplace(0, scale, len(values)))

    def coins(self, probability: float, count: int) -> list[bool]:
        self.draws.append(Draw("coins", (), probability))
        return [bool(coin) for coin in self.generator.random(count) < probability]

    def largest(self, scores: Any, scale: float) -> int:
        self._note("largest", scores, scale)
        return int(np.argmax(scores + self.generator.gumbel(0, scale, len(scores)) * self.scale))

    def below(self, count: int) -> int:
        return int(self.generator.integers(count))


class DiscreteNoise(NoNoise):
    """Discrete Gaussian, discrete Laplace and exact Gumbel draws, as in use, from a seed."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed(seed)

    def seed(self, number: int) -> None:
        """Begin anew."""
        self.draws.clear()
        self.bits = random.Random(number)  # noqa: S311
        self.numbers = np.random.default_rng(number)

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        values = self._note("gaussian", exact, sigma)
        if sigma < _ROUNDED:
            support, weights = _discrete_gaussian(sigma)
            drawn = self.numbers.choice(support, len(values), p=weights)
        else:
            drawn = np.rint(self.numbers.normal(0, sigma, len(values)))
        return [value + int(extra) for value, extra in zip(values, drawn, strict=True)]

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        # the difference of two geometric variables
        values = self._note("laplace", exact, scale)
        rate, count = -np.expm1(-1 / scale), len(values)
        drawn = self.numbers.geometric(rate, count) - self.numbers.geometric(rate, count)
        return [value + int(extra) for value, extra in zip(values, drawn, strict=True)]

    def coins(self, probability: float, count: int) -> list[bool]:
        self.draws.append(Draw("coins", (), probability))
        threshold = int(probability * 2**64)
        return [self.bits.getrandbits(64) < threshold for _ in range(count)]

    def largest(self, scores: Any, scale: float) -> int:
        self._note("largest", scores, scale)
        return gumbel.largest(scores, scale, self.bits.randbytes)

    def below(self, count: int) -> int:
        return self.bits.randrange(count)


@lru_cache(maxsize=64)
def _discrete_gaussian(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    reach = int(12 * sigma) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * sigma**2))
    return values, weights / weights.sum()


class BlindNoise(NoNoise):
    """A pattern that rests on the scale and the number of draws alone.

    Two runs on neighbouring tables go the same way, so any difference in what they say, charge or
    draw comes from the data. ``last`` selects the last candidate in place of the first.
    """

    def __init__(self, *, last: bool = False) -> None:
        super().__init__()
        self.last = last

    def _pattern(self, name: Name, exact: Sequence[int], scale: float) -> list[int]:
        count = len(self._note(name, exact, scale))
        turn = 31 * len(self.draws)
        return [int(((i * 7919 + turn) % 101 - 20) * scale / 7) for i in range(count)]

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        return self._pattern("gaussian", exact, sigma)

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        return self._pattern("laplace", exact, scale)

    def coins(self, probability: float, count: int) -> list[bool]:
        self.draws.append(Draw("coins", (), probability))
        return [i % 3 == 0 for i in range(count)]

    def largest(self, scores: Any, scale: float) -> int:
        self._note("largest", scores, scale)
        return len(scores) - 1 if self.last else 0

    def below(self, count: int) -> int:
        return count - 1 if self.last else 0
