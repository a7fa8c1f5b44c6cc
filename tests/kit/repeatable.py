"""Noise, coins and secrets of the distributions in use, from a seed of each test's own.

A test that passes once passes always, whatever it draws. The sampler in use is tested as it is, with
the operating system's entropy, by the tests marked ``entropy``, and by every test with ``--entropy``;
``--seed`` draws everything from other seeds.
"""

from __future__ import annotations

import secrets
import zlib

import pytest

from dpnb.privacy.noise import SecureNoise
from tests.kit.noise import DiscreteNoise

_DRAWS = ("gaussian", "laplace", "coins", "largest", "below")
_IN_USE = {name: getattr(SecureNoise, name) for name in _DRAWS}
_TOKENS = secrets.token_bytes
_NOISE = DiscreteNoise()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dpnb")
    group.addoption(
        "--entropy", action="store_true", help="draw noise from the operating system everywhere"
    )
    group.addoption("--seed", type=int, default=0, help="draw noise from other seeds (default: 0)")


def draw_from(noise: DiscreteNoise) -> None:
    """Let sessions that are given no noise draw from ``noise``."""
    for name in _DRAWS:
        drawn = getattr(noise, name)
        setattr(
            SecureNoise, name, lambda self, *given, _drawn=drawn, **named: _drawn(*given, **named)
        )
    secrets.token_bytes = lambda count=None: noise.bits.randbytes(count or 32)


def draw_as_in_use() -> None:
    """Let them draw from the operating system again."""
    for name in _DRAWS:
        setattr(SecureNoise, name, _IN_USE[name])
    secrets.token_bytes = _TOKENS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed before any fixture, those of modules included."""
    if item.config.getoption("--entropy") or item.get_closest_marker("entropy"):
        draw_as_in_use()
    else:
        _NOISE.seed(zlib.crc32(item.nodeid.encode()) ^ item.config.getoption("--seed"))
        draw_from(_NOISE)
