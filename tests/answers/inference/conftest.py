"""Noise that adds none or that is drawn from a seed; curators and sessions that are closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dpnb
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.noise import ContinuousNoise, NoNoise
from tests.kit.one_database import one_database  # noqa: F401

Opening = Callable[..., dpnb.Curator]


@pytest.fixture(scope="session")
def silent() -> Callable[[], NoNoise]:
    """No noise at all."""
    return NoNoise


@pytest.fixture(scope="session")
def drawn() -> Callable[..., ContinuousNoise]:
    """Noise of a seed."""
    return ContinuousNoise


@contextmanager
def _curators() -> Iterator[Opening]:
    made: list[dpnb.Curator] = []

    def open_(table: Any, noise: Any = None, **options: Any) -> dpnb.Curator:
        wanted = dpnb.Budget(**options.pop("budget", {"rho": 1_000, "delta": 1e-6}))
        made.append(dpnb.Curator(table, budget=wanted, noise=noise or NoNoise(), **options))
        return made[-1]

    yield open_
    for curator in made:
        curator.close()


@pytest.fixture
def curated() -> Iterator[Opening]:
    """Open curators, without noise unless it is given; ``budget`` as arguments of Budget."""
    with _curators() as open_:
        yield open_


@pytest.fixture(scope="module")
def shared() -> Iterator[Opening]:
    """Open curators that all tests of a file use; nothing more may be bought from them."""
    with _curators() as open_:
        yield open_


@pytest.fixture
def opened(curated: Opening) -> Callable[..., dpnb.Session]:
    """Open sessions of one analyst, as ``curated``."""
    return lambda table, noise=None, **options: curated(table, noise, **options).session()
