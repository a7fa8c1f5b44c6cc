"""Small tables, and what rows add as plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnb import Budget, Category, Integer, Real, Schema, Table
from dpnb.curator import Curator
from dpnb.engines.contributions import Contributions
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.risk.rows import Rows
from dpnb.views.measures import Scan
from tests.kit.groups import own
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.noise import DiscreteNoise
from tests.kit.one_database import one_database  # noqa: F401
from tests.kit.power import FALSE as P_FLOOR


@pytest.fixture
def opened() -> Iterator[Callable[..., Curator]]:
    """Open curators with seeded noise and a large budget; all are closed afterwards."""
    curators: list[Curator] = []

    def open_(
        tables: Table | Sequence[Table],
        *,
        noise: Any = None,
        ledger: Path | None = None,
        **budget: Any,
    ) -> Curator:
        wanted = Budget(**(budget or {"rho": 100, "delta": 1e-6}))
        curators.append(
            Curator(tables, budget=wanted, ledger=ledger, noise=noise or DiscreteNoise(1))
        )
        return curators[-1]

    yield open_
    for curator in curators:
        curator.close()


PURE = {"epsilon": 100}
ZCDP = {"rho": 100, "delta": 1e-6}


@pytest.fixture(params=[PrivacyDefinition.PURE, PrivacyDefinition.ZCDP])
def budget(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A large budget of each privacy definition."""
    return PURE if request.param == PrivacyDefinition.PURE else ZCDP


@pytest.fixture
def unit(budget: dict[str, Any]) -> str:
    """How levels are named under ``budget``."""
    return "epsilon" if budget is PURE else "rho"


@pytest.fixture(scope="session")
def single() -> Callable[..., Table]:
    """A table ``t`` of one column ``x`` of whole numbers."""

    def make(values: Sequence[float | None], low: int = 0, high: int = 10, **options: Any) -> Table:
        frame = pd.DataFrame({"x": pd.Series(values, dtype="float64")})
        return Table("t", frame, Schema({"x": Integer(low, high)}), **options)

    return make


@pytest.fixture(scope="session")
def three(single: Callable[..., Table]) -> Table:
    """Three rows, one of which ``x = 1`` counts (Figure 2 of RDR)."""
    return single([0, 0, 1], 0, 1)


@pytest.fixture(scope="session")
def four(single: Callable[..., Table]) -> Table:
    """Values 0, 2, 5 and 10 with bounds 0 and 10."""
    return single([0, 2, 5, 10])


@pytest.fixture(scope="session")
def many() -> Table:
    """9,000 rows whose 8,000 positive wages are all different."""
    generator = np.random.default_rng(3)
    wages = np.r_[np.zeros(1_000), generator.uniform(0, 100, 8_000)]
    frame = pd.DataFrame({"wage": wages, "sex": generator.choice(["F", "M"], 9_000)})
    return Table("t", frame, Schema({"wage": Real(0, 100), "sex": Category(["F", "M"])}))


@pytest.fixture(scope="session")
def mixed() -> Table:
    """300 rows of 32 different ones, with missing and undeclared values in every column."""
    rng, different = np.random.default_rng(7), 32
    frame = pd.DataFrame(
        {
            "g": rng.choice(
                ["a", "b", "c", "stranger", None], different, p=[0.4, 0.3, 0.2, 0.05, 0.05]
            ),
            "h": rng.integers(0, 3, different),
            # the bins of the schema leave out 0 and above 10
            "n": rng.integers(-3, 16, different).astype(float),
            "m": rng.integers(-20, 8, different).astype(float),
            "r": np.round(rng.normal(5, 4, different), 3),
            "s": rng.uniform(-7, 3, different),
        }
    ).astype({"g": "string"})
    for name in ("n", "m", "r"):
        frame.loc[rng.random(different) < 0.1, name] = None
    frame = frame.iloc[np.r_[:different, rng.integers(0, different, 300 - different)]].reset_index(
        drop=True
    )
    schema = Schema(
        {
            "g": Category(["a", "b", "c", "empty"]),
            "h": Integer(0, 2),
            "n": Integer(0, 12, bins=[1, 4, 8, 10]),
            "m": Integer(-20, 7),
            "r": Real(0, 10, bins=[0, 2.5, 5, 9]),
            "s": Real(-7.5, 3.25),
        }
    )
    return Table("t", frame, schema)


@pytest.fixture(scope="session")
def left_out(mixed: Table) -> Iterator[Callable[[Any], Any]]:
    """From a plan on ``mixed`` to its exact vectors, and to those without each different row.

    Returns the vectors, and for each different row the vectors without one of it and how many there
    are: leave-one-out with the vectors that are released.
    """
    frame = mixed.source
    groups = list(frame.groupby(list(frame), dropna=False).groups.values())
    # all these tables below each other, told apart by a column more
    parts = [frame, *(frame.drop(rows[0]) for rows in groups)]
    tables = pd.concat([part.assign(part=i) for i, part in enumerate(parts)], ignore_index=True)
    schema = Schema({"part": Integer(0, len(groups)), **mixed.schema})
    engine, whole = DuckDBEngine(Table("t", tables, schema)), DuckDBEngine(mixed)
    measured: dict[str, Any] = {}

    def vectors(engine: DuckDBEngine, scan: Scan) -> list[np.ndarray]:
        exact = engine.measure(scan)
        return [np.array(exact.reveal(i), dtype=np.int64) for i in range(len(scan.measures))]

    def changes(plan: Any) -> Any:
        # the same under both privacy definitions
        scan = plan.scan(plan.views)
        wanted = repr(scan)
        if wanted not in measured:
            apart = replace(scan, keys=(*own(schema, "part"), *scan.keys))
            each = [one.reshape(len(parts), -1) for one in vectors(engine, apart)]
            base, *others = ([one[i] for one in each] for i in range(len(parts)))
            for one, other in zip(base, vectors(whole, scan), strict=True):
                assert one.tolist() == other.tolist()
            sizes = map(len, groups)
            measured[wanted] = base, list(zip(others, sizes, strict=True))
        return measured[wanted]

    yield changes
    for one in (engine, whole):
        one.close()


@pytest.fixture(scope="session")
def adding() -> Callable[..., Rows]:
    """Rows that add given numbers, one line for each; one view of sensitivity 1,000 if not told."""

    def make(
        numbers: Any,
        *,
        counts: Any = None,
        cells: Any = None,
        sensitivities: Sequence[int] = (1_000,),
        shares: Sequence[float] | None = None,
        held: Sequence[float] | None = None,
        constant: float = 0.0,
        steps: int = 0,
        pure: bool = True,
        form: Any = "bound",
    ) -> Rows:
        found = np.atleast_2d(np.asarray(numbers, dtype=np.int64).T).T
        views = len(sensitivities)
        return Rows(
            Contributions(
                np.full(len(found), -1) if cells is None else np.asarray(cells),
                found.reshape(-1, 1 if steps else views),
                np.ones(len(found), np.int64) if counts is None else np.asarray(counts),
            ),
            sensitivities,
            [1 / views] * views if shares is None else shares,
            [0.0] * views if held is None else held,
            constant,
            steps=steps,
            pure=pure,
            form=form,
        )

    return make


def _at_least(k: np.ndarray, scale: float) -> np.ndarray:
    """P(Z >= k) of a discrete Laplace variable, exact also far out."""
    q = np.exp(-1 / scale)
    far = q ** np.abs(k).astype(float) / (1 + q)
    # P(Z >= -j) = 1 - P(Z >= j + 1)
    return np.where(k > 0, far, 1 - q * far)


def _discrete_laplace(k: np.ndarray, scale: float) -> np.ndarray:
    q = np.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(k).astype(float)


def _quantile_distribution(scores: Sequence[int], scale: float) -> np.ndarray:
    shifted = np.asarray(scores, dtype=float) / scale
    weights = np.exp(shifted - shifted.max())
    return weights / weights.sum()


def _tail_distribution(counts: Sequence[int], most: int, scales: tuple[float, float]) -> np.ndarray:
    first, second = scales
    span = int(60 * max(scales)) + max([0, *map(abs, counts)])
    drawn = np.arange(-span, span + 1)
    distribution, left = [], _discrete_laplace(drawn, first)
    for count in counts:
        passes = _at_least(drawn - most + count, second)
        distribution.append(float((left * passes).sum()))
        left = left * (1 - passes)
    return np.array([*distribution, float(left.sum())])


@pytest.fixture(scope="session")
def fits() -> Callable[..., bool]:
    """Whether outcomes may well have the exact probabilities of 0, 1, 2, ...; rare ones as one.

    A chi-square test of all of them together.
    """

    def check(drawn: np.ndarray, distribution: np.ndarray) -> bool:
        common = np.flatnonzero(distribution > 0.02)
        counts = np.bincount(drawn, minlength=len(distribution))
        seen = np.append(counts[common], len(drawn) - counts[common].sum())
        wanted = len(drawn) * np.append(
            distribution[common], max(0, 1 - distribution[common].sum())
        )
        if wanted[-1] < 20:
            # too rare to be counted apart
            seen[-2:], wanted[-2:] = [0, seen[-2:].sum()], [0, wanted[-2:].sum()]
        seen, wanted = seen[wanted > 0], wanted[wanted > 0]
        return bool(stats.chisquare(seen, wanted * len(drawn) / wanted.sum()).pvalue > P_FLOOR)

    return check


@pytest.fixture(scope="session")
def quantile_distribution() -> Callable[..., np.ndarray]:
    """Exact probabilities of each place, from exact scores and the Gumbel scale."""
    return _quantile_distribution


@pytest.fixture(scope="session")
def tail_distribution() -> Callable[..., np.ndarray]:
    """Exact probabilities of each candidate and, last, of none: summed over the threshold's noise.

    From exact counts, the most rows that may break tau, and both noise scales.
    """
    return _tail_distribution
