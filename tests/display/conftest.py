from __future__ import annotations

import pandas as pd
import pytest

import dpnb
from dpnb.results import rebilled
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401

NASTY = (
    "</script><b>bold</b>",
    'it\'s "quoted" & `ticked`',
    "\u202egnp.exe\u2066\x1b[31m",
    "naïve – 日本語 – עברית $x$",
)
QUERY = (
    "SELECT marital_status, COUNT(*) AS n, AVG(high_income) AS rich "
    "FROM adult GROUP BY marital_status ORDER BY n DESC"
)


class ZeroNoise:
    """No noise, so that what is shown is known; answers are stamped NOT PRIVATE."""

    def gaussian(self, exact, sigma):
        return list(exact)

    def laplace(self, exact, scale):
        return list(exact)

    def coins(self, probability, count):
        return [False] * count


def noiseless(table, **budget):
    return dpnb.Session(
        table, budget=dpnb.Budget(**(budget or {"epsilon": 30, "delta": 1e-6})), noise=ZeroNoise()
    )


@pytest.fixture(scope="session")
def adult():
    with noiseless(dpnb.datasets.adult(), epsilon=3, delta=1e-6) as session:
        yield session


@pytest.fixture(scope="session")
def not_private(adult):
    """Counts and means of seven groups."""
    return adult.query(QUERY, rho=0.1)


@pytest.fixture(scope="session")
def answer(not_private):
    """The same numbers as if they were noisy: rendered without the stamp."""
    return rebilled(not_private, stamp="")


@pytest.fixture(scope="session")
def small():
    """Groups with names that look like markup, one of them with hardly any rows, and one empty."""
    groups = [name for name, rows in zip(NASTY, (300, 200, 2, 0), strict=True) for _ in range(rows)]
    frame = pd.DataFrame({"name": groups, "x": [i % 10 for i in range(len(groups))]})
    schema = dpnb.Schema({"name": dpnb.Category(NASTY), "x": dpnb.Integer(0, 9)})
    with noiseless(dpnb.Table("small", frame, schema)) as session:
        yield session


@pytest.fixture(scope="session")
def nasty(small):
    return small.query(
        'SELECT name, COUNT(*) AS "<i>n</i>", AVG(x) AS mean FROM small GROUP BY name', rho=0.05
    )


@pytest.fixture(scope="session")
def single(small):
    return small.query("SELECT SUM(x) AS total FROM small", rho=0.05)


@pytest.fixture(scope="session")
def laplace():
    with noiseless(dpnb.datasets.adult(), epsilon=2) as session:
        yield session.query(QUERY, epsilon=1)
