"""Statistical tests that cannot flake and still have power.

A sample is accepted when its p-value is above 1e-9; every test that accepts a sample also shows that
the same sample is rejected once the scale is off by 15 to 30 %. ``DPNB_LONG=1`` multiplies sizes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from scipy import stats

# repeatable, whatever the load of the machine; notes are kept outside the checkout
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "hypothesis")
settings.register_profile("repeatable", database=None, deadline=None, derandomize=True)
settings.load_profile("repeatable")

P_FLOOR = 1e-9


@pytest.fixture(scope="session")
def size() -> Callable[[int], int]:
    """Sample sizes, ten times as large with DPNB_LONG=1."""
    factor = 10 if os.environ.get("DPNB_LONG") == "1" else 1
    return lambda count: count * factor


@pytest.fixture(scope="session")
def fits() -> Callable[..., bool]:
    """Kolmogorov and Smirnov's test of a sample against a continuous law."""

    def check(sample: object, frozen: stats.rv_continuous) -> bool:
        return bool(stats.kstest(np.asarray(sample, dtype=float), frozen.cdf).pvalue > P_FLOOR)

    return check


@pytest.fixture(scope="session")
def share_fits() -> Callable[[int, int, float], bool]:
    """The exact binomial test of a number of successes."""
    return lambda hits, count, p: bool(stats.binomtest(hits, count, p).pvalue > P_FLOOR)


@pytest.fixture(scope="session")
def uncorrelated() -> Callable[..., bool]:
    """Whether the mean product of two centred samples is 0 within its standard error."""

    def check(a: object, b: object) -> bool:
        products = np.asarray(a, dtype=float) * np.asarray(b, dtype=float)
        z = products.mean() / (products.std() / np.sqrt(len(products)))
        return bool(2 * stats.norm.sf(abs(z)) > P_FLOOR)

    return check
