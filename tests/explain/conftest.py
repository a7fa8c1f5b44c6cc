"""Fast noise that counts, and the tables of the published oracles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.explain.mechanism import Influences, measure
from dpnb.explain.plan import ExplanationPlan, plan_explanation, read_design
from dpnb.explain.predicates import Space, space
from dpnb.explain.target import Target
from dpnb.sql.parser import parse
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.one_database import one_database  # noqa: F401


class FastNoise:
    """Rounded continuous noise, or none; notes every draw."""

    def __init__(self, seed: int = 1, scale: float = 1.0) -> None:
        self.generator = np.random.default_rng(seed)
        self.scale = scale
        self.gaussians: list[int] = []
        self.selections: list[int] = []

    def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
        self.gaussians.append(len(exact))
        drawn = self.generator.normal(0, sigma, len(exact)) * self.scale
        return [int(x) + round(e) for x, e in zip(exact, drawn, strict=True)]

    def laplace(self, exact: Sequence[int], scale: float) -> list[int]:
        raise AssertionError("explanations draw no Laplace noise")

    def coins(self, probability: float, count: int) -> list[bool]:
        raise AssertionError("explanations flip no coins")

    def largest(self, scores: np.ndarray, scale: float) -> int:
        self.selections.append(len(scores))
        drawn = self.generator.gumbel(0, scale, len(scores)) * self.scale
        return int(np.argmax(scores + drawn))

    def below(self, count: int) -> int:
        return int(self.generator.integers(count))


@pytest.fixture(scope="session")
def fast() -> type[FastNoise]:
    """Seeded noise; ``scale=0`` draws nothing but counts all the same."""
    return FastNoise


@pytest.fixture(scope="session")
def twelve() -> Table:
    """Twelve rows with known influences, and a declared group D without any."""
    rows = [
        *(("A", x, v) for x, v in zip("uuwwww", (4, 6, 1, 3, 5, 7), strict=True)),
        *(("B", x, v) for x, v in zip("uwww", (9, 2, 4, 6), strict=True)),
        *(("C", x, v) for x, v in zip("uw", (10, 0), strict=True)),
    ]
    schema = Schema(
        {"g": Category(["A", "B", "C", "D"]), "x": Category(["u", "w", "z"]), "v": Integer(0, 10)}
    )
    return Table("t", pd.DataFrame(rows, columns=["g", "x", "v"]), schema)


@pytest.fixture(scope="session")
def adult() -> Table:
    """Both files of Adult: 48,842 rows."""
    train = dpnb.datasets.adult()
    test = pd.read_parquet(Path(__file__).parents[1] / "data" / "adult_test.parquet")
    test["high_income"] = (test["income"] == ">50K").astype("int8")
    both = pd.concat([pd.read_parquet(train.source), test.astype({"age": "int64"})])
    return Table("adult", both.reset_index(drop=True), train.schema)


@pytest.fixture(scope="session")
def adult_engine(adult: Table) -> Iterator[DuckDBEngine]:
    """Both files of Adult, loaded once."""
    engine = DuckDBEngine(adult)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def target() -> Callable[..., Target]:
    """What ``sum of weight x group`` in the first aggregate of a statement asks."""

    def make(table: Table, sql: str, weights: dict[Any, Any], version: int = 1) -> Target:
        query = parse(sql, {table.name: table})
        labels = [list(map(str, key.names)) for key in query.keys]
        named = [name if isinstance(name, tuple) else (name,) for name in weights]
        groups = [
            tuple(cells.index(str(label)) for cells, label in zip(labels, name, strict=True))
            for name in named
        ]
        exact = [Fraction(weight) for weight in weights.values()]
        return Target.of(query, query.aggregates[0], version, groups, exact)

    return make


@pytest.fixture(scope="session")
def planned(target: Callable[..., Target]) -> Callable[..., ExplanationPlan]:
    """The plan of an explanation, from SQL, weights and options."""

    def make(
        table: Table,
        sql: str,
        weights: dict[Any, Any],
        *,
        k: int = 1,
        rho: Any = "0.3",
        confidence: float = 0.95,
        joint: bool = False,
        lower: Any = "0.1",
        mode: str = "tight",
        found: Space | None = None,
        **options: Any,
    ) -> ExplanationPlan:
        asked = target(table, sql, weights)
        taken = {key.column for key in asked.keys} | asked.aggregate.columns
        found = found or space(table, taken, **options)
        design = read_design(
            found.size, k=k, confidence=confidence, joint=joint, lower=lower, mode=mode
        )
        return plan_explanation(asked, found, design, rho=rho)

    return make


@pytest.fixture(scope="session")
def exact() -> Callable[..., dict[str, Fraction]]:
    """The exact influences of all predicates, by label, as the mechanism sees them."""

    def look(plan: ExplanationPlan, table: Table, engine: Any = None) -> dict[str, Fraction]:
        own = DuckDBEngine(table) if engine is None else engine
        try:
            found = measure(plan, own)
        finally:
            if engine is None:
                own.close()
        return {plan.space.label(i): found.score(i) * plan.unit for i in range(found.size)}

    return look


@pytest.fixture(scope="session")
def scored() -> Callable[..., Influences]:
    """Influences of candidates that all have a score of their own."""

    def make(scores: Any, size: int | None = None) -> Influences:
        values = np.asarray(scores, dtype=np.int64)
        return Influences.of(np.arange(len(values)), values, size or len(values))

    return make


@pytest.fixture(scope="session")
def mixed_engine(mixed: Table) -> Iterator[DuckDBEngine]:
    """The rows of ``mixed``, loaded once."""
    engine = DuckDBEngine(mixed)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def mixed() -> Table:
    """Random rows with missing and undeclared values in every kind of column."""
    rng = np.random.default_rng(5)
    count = 400
    frame = pd.DataFrame(
        {
            "g": rng.choice(
                ["a", "b", "c", "stranger", None], count, p=[0.4, 0.3, 0.2, 0.05, 0.05]
            ),
            "h": rng.integers(0, 3, count),
            "x": rng.choice(["p", "q", "r", None], count, p=[0.4, 0.3, 0.2, 0.1]),
            "y": rng.choice(["s", "t", "v"], count),
            "n": rng.integers(-3, 14, count).astype(float),
            "r": np.round(rng.normal(5, 4, count), 3),
            "d": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(-9, 40, count), "D"),
        }
    ).astype({"g": "string", "x": "string", "y": "string", "d": "datetime64[us]"})
    for name in ("n", "r", "d"):
        frame.loc[rng.random(count) < 0.1, name] = None
    schema = Schema(
        {
            "g": Category(["a", "b", "c", "empty"]),
            "h": Integer(0, 2),
            "x": Category(["p", "q", "none"]),
            "y": Category(["s", "t", "rest"], other="rest"),
            "n": Integer(0, 10, bins=[1, 4, 8, 10]),
            "r": Real(0, 10, bins=[0, 2.5, 5, 9]),
            "d": dpnb.Date("2024-01-01", "2024-01-31",
                           bins=["2024-01-02", "2024-01-10", "2024-01-31"]),
        }
    )  # fmt: skip
    return Table("t", frame, schema)
