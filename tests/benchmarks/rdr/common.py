"""What these benchmarks share: the paper's queries and printed figures, its survey, a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import numpy as np
import pandas as pd
from scipy import stats

import dpnb
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.sql.parser import parse
from dpnb.studies.rdr import Mechanism, PaperProfile, measure
from tests.kit.verdicts import finish as finish
from tests.kit.verdicts import must as must

MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
QUERIES = {
    "Q1": "SELECT COUNT(*) FROM adult WHERE income='>50K' AND education_num=13 AND age=25",
    "Q2": "SELECT marital_status, COUNT(*) FROM adult WHERE race='Asian-Pac-Islander' "
    "AND age BETWEEN 30 AND 40 GROUP BY marital_status",
    "Q3": "SELECT COUNT(*) FROM adult WHERE native_country<>'United-States' AND sex='Female'",
    "Q4": "SELECT AVG(hours_per_week) FROM adult "
    "WHERE workclass IN ('Federal-gov','Local-gov','State-gov')",
    "Q5": "SELECT SUM(capital_gain) FROM adult",
}
FIGURE_7 = {  # tau_p: epsilons found for Q1 to Q5
    "laplace": {
        0.95: (0.05, 0.3, 0.05, 0.01, 0.05),
        0.75: (0.3, 2, 0.3, 0.07, 0.3),
        0.5: (1, 6, 1, 0.2, 1),
        0.25: (3, 10, 3, 0.6, 3),
        0.05: (10, 10, 10, 4, 10),
    },
    "gaussian": {
        0.95: (2, 5, 2, 0.4, 2),
        0.75: (5, 10, 5, 1, 5),
        0.5: (10, 10, 10, 2, 10),
        0.25: (10, 10, 10, 5, 10),
        0.05: (10, 10, 10, 10, 10),
    },
}
SLIDER = tuple(step / 2 for step in range(1, 11))
"""The epsilons of the survey."""
CHOICES = {  # question: group: people who chose each of them, read off the swarm plots
    "Q1": {
        "control": (1, 1, 2, 8, 4, 2, 6, 3, 2, 0),
        "range": (0, 2, 8, 11, 3, 1, 2, 0, 0, 0),
        "histogram": (1, 1, 4, 8, 1, 2, 2, 1, 0, 0),
    },
    "Q2": {
        "control": (1, 0, 3, 2, 2, 3, 6, 7, 2, 3),
        "range": (0, 1, 6, 13, 1, 4, 1, 1, 0, 0),
        "histogram": (0, 0, 1, 5, 6, 0, 5, 2, 1, 0),
    },
}


@contextmanager
def opened(table: dpnb.Table) -> Iterator[DuckDBEngine]:
    """Read a table, and forget it afterwards."""
    engine = DuckDBEngine(table)
    try:
        yield engine
    finally:
        engine.close()


def profiles(
    table: dpnb.Table, engine: DuckDBEngine, mechanism: Mechanism
) -> dict[str, PaperProfile]:
    """Return the paper's profile of each query."""
    return {
        name: measure(parse(sql, {table.name: table}), 1, engine, mechanism)
        for name, sql in QUERIES.items()
    }


def chosen(question: str, group: str) -> np.ndarray:
    """Return the epsilons that a group chose, one for each person."""
    return np.repeat(SLIDER, CHOICES[question][group])


def mann_whitney(question: str, group: str, other: str) -> tuple[float, float]:
    """Return U of the first group and the two-sided p, normal with ties and continuity."""
    found = stats.mannwhitneyu(
        chosen(question, group), chosen(question, other), method="asymptotic"
    )
    return float(found.statistic), float(found.pvalue)


def surveyed() -> pd.DataFrame:
    """Return the 100 persons of the survey: a sample of Adult in the order of the authors' file.

    That file lies sorted by capital loss and gain, largest first.
    """
    adult = pd.read_parquet(dpnb.datasets.adult().source)
    ordered = adult.sort_values(["capital_loss", "capital_gain"], ascending=False, kind="stable")
    return ordered.sample(100, random_state=0)


def displayed(raw: int, most: int | None = None) -> list[tuple[int, int]]:
    """Return the range of outputs that the survey showed for each epsilon.

    raw -+ the .99-quantile of Laplace(1/eps), cut to whole numbers and, for groups, to 0..``most``.
    """
    ranges = []
    for epsilon in SLIDER:
        half = stats.laplace.ppf(0.99, scale=1 / epsilon)
        low, high = int(raw - half), int(raw + half)
        ranges.append((low, high) if most is None else (max(low, 0), min(high, most)))
    return ranges
