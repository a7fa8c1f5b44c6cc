"""Tests of a sample against a distribution; each also rejects the sample at a scale off by 15 to 30 %."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

P_FLOOR = 1e-9


@pytest.fixture(scope="session")
def fits() -> Callable[..., bool]:
    """Kolmogorov and Smirnov's test of a sample against a continuous distribution."""

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
