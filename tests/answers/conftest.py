"""Fast test noise and small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpnb


class FastNoise:
    """Rounded continuous noise; ``scale`` makes it wider than it says, for negative controls."""

    private = False

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
def frame() -> pd.DataFrame:
    """People: a region, a kind, a score, a gain."""
    rng = np.random.default_rng(11)
    count = 900
    return pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "east"], count, p=[0.6, 0.3, 0.1]),
            "kind": rng.choice(["old", "new"], count),
            "score": rng.integers(0, 11, count),
            "gain": np.round(rng.uniform(0, 100, count), 3),
        }
    )


@pytest.fixture(scope="session")
def table(frame: pd.DataFrame) -> dpnb.Table:
    """The people with what is public about them; nobody lives in the west."""
    schema = dpnb.Schema(
        {
            "region": dpnb.Category(["north", "south", "east", "west"]),
            "kind": dpnb.Category(["old", "new"]),
            "score": dpnb.Integer(0, 10),
            "gain": dpnb.Real(0, 100),
        }
    )
    return dpnb.Table("people", frame, schema)


@pytest.fixture
def opened(table: dpnb.Table) -> Iterator[Callable[..., dpnb.Session]]:
    """Open sessions with fast noise; all are closed afterwards."""
    sessions: list[dpnb.Session] = []

    def open_(
        source: dpnb.Table = table, *, seed: int = 1, scale: float = 1.0, **budget: Any
    ) -> dpnb.Session:
        wanted = dpnb.Budget(**(budget or {"rho": 100, "delta": 1e-6}))
        sessions.append(dpnb.Session(source, budget=wanted, noise=FastNoise(seed, scale)))
        return sessions[-1]

    yield open_
    for session in sessions:
        session.close()


@pytest.fixture(scope="session")
def even() -> Callable[[int, int], dpnb.Table]:
    """Tables with ``groups`` groups g of ``rows`` rows each, x = 0 and 1 in turn."""

    def make(groups: int, rows: int) -> dpnb.Table:
        frame = pd.DataFrame(
            {
                "g": np.repeat(np.arange(groups), rows),
                "x": np.tile(np.arange(rows) % 2, groups),
            }
        )
        schema = dpnb.Schema({"g": dpnb.Integer(0, groups - 1), "x": dpnb.Integer(0, 1)})
        return dpnb.Table("t", frame, schema)

    return make
