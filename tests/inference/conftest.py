"""Noise that adds none or that is drawn from a seed; curators and sessions that are closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import dpnb


class Silent:
    """Adds nothing: what is released is exact, and stamped NOT PRIVATE."""

    private = False

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        return list(exact)

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        return list(exact)

    def coins(self, probability: float, count: int) -> list[bool]:
        return [probability > 0.5] * count


class Drawn(Silent):
    """Rounded continuous noise; ``scale`` makes it wider than it says, for negative controls."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self.generator = np.random.default_rng(seed)
        self.scale = scale

    def _added(self, exact: Sequence[int], drawn: np.ndarray) -> list[int]:
        return [int(x) + round(e * self.scale) for x, e in zip(exact, drawn, strict=True)]

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        return self._added(exact, self.generator.normal(0, sigma, len(exact)))

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        return self._added(exact, self.generator.laplace(0, scale, len(exact)))

    def coins(self, probability: float, count: int) -> list[bool]:
        return [bool(coin) for coin in self.generator.random(count) < probability]


@pytest.fixture(scope="session")
def silent() -> Callable[[], Silent]:
    """No noise at all."""
    return Silent


@pytest.fixture(scope="session")
def drawn() -> Callable[..., Drawn]:
    """Noise of a seed."""
    return Drawn


@pytest.fixture
def curated() -> Iterator[Callable[..., dpnb.Curator]]:
    """Open curators, without noise unless it is given; ``budget`` as arguments of Budget."""
    made: list[dpnb.Curator] = []

    def open_(table: Any, noise: Any = None, **options: Any) -> dpnb.Curator:
        wanted = dpnb.Budget(**options.pop("budget", {"rho": 1_000, "delta": 1e-6}))
        curator = dpnb.Curator(table, budget=wanted, noise=noise or Silent(), **options)
        made.append(curator)
        return curator

    yield open_
    for curator in made:
        curator.close()


@pytest.fixture
def opened(curated: Callable[..., dpnb.Curator]) -> Callable[..., dpnb.Session]:
    """Open sessions of one analyst, as ``curated``."""
    return lambda table, noise=None, **options: curated(table, noise, **options).session()
