"""Noise, coins and secrets of the same laws as in use, drawn from a seed that each test names.

So a test that passes once passes always, whatever it draws. The sampler in use is tested as it is,
with the operating system's entropy, by the tests marked ``entropy``, and by every test with
``--entropy``.
"""

from __future__ import annotations

import random
import secrets
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from dpnb.privacy import gumbel
from dpnb.privacy.noise import SecureNoise

_ROUNDED = 50.0
"""From this sigma on, a rounded Gaussian is within 2e-5 of the discrete one in total variation."""


class Source:
    """Noise of the laws in use, from a seed."""

    private = False

    def __init__(self, number: int = 0) -> None:
        self.seed(number)

    def seed(self, number: int) -> None:
        """Begin anew."""
        self.bits = random.Random(number)  # noqa: S311
        self.numbers = np.random.default_rng(number)

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        """Add discrete Gaussian noise."""
        if sigma < _ROUNDED:
            values, weights = _law(sigma)
            drawn = self.numbers.choice(values, len(exact), p=weights)
        else:
            drawn = np.rint(self.numbers.normal(0, sigma, len(exact)))
        return [int(value) + int(extra) for value, extra in zip(exact, drawn, strict=True)]

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        """Add discrete Laplace noise: the difference of two geometric variables."""
        rate, count = -np.expm1(-1 / scale), len(exact)
        drawn = self.numbers.geometric(rate, count) - self.numbers.geometric(rate, count)
        return [int(value) + int(extra) for value, extra in zip(exact, drawn, strict=True)]

    def coins(self, probability: float, count: int) -> list[bool]:
        """Flip coins."""
        threshold = int(probability * 2**64)
        return [self.bits.getrandbits(64) < threshold for _ in range(count)]

    def largest(self, scores: Any, scale: float) -> int:
        """Select by Gumbel noise."""
        return gumbel.largest(scores, scale, self.bits.randbytes)

    def below(self, count: int) -> int:
        """Draw uniformly."""
        return self.bits.randrange(count)


@lru_cache(maxsize=64)
def _law(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    reach = int(12 * sigma) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * sigma**2))
    return values, weights / weights.sum()


_SOURCE = Source()
_LAWS = ("gaussian", "laplace", "coins", "largest", "below")
_TOKENS = secrets.token_bytes
_IN_USE = {law: getattr(SecureNoise, law) for law in _LAWS}


def drawn_from(source: Source) -> None:
    for law in _LAWS:
        drawn = getattr(source, law)
        setattr(
            SecureNoise, law, lambda self, *given, _drawn=drawn, **named: _drawn(*given, **named)
        )
    secrets.token_bytes = lambda count=None: source.bits.randbytes(count or 32)


def _in_use() -> None:
    for law in _LAWS:
        setattr(SecureNoise, law, _IN_USE[law])
    secrets.token_bytes = _TOKENS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, those of modules included."""
    if item.config.getoption("--entropy") or item.get_closest_marker("entropy"):
        _in_use()
    else:
        _SOURCE.seed(zlib.crc32(item.nodeid.encode()))
        drawn_from(_SOURCE)
