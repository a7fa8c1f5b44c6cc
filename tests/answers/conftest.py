"""Sessions with fast noise, and small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpnb
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.noise import ContinuousNoise
from tests.kit.one_database import one_database  # noqa: F401


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
        sessions.append(dpnb.Session(source, budget=wanted, noise=ContinuousNoise(seed, scale)))
        return sessions[-1]

    yield open_
    for session in sessions:
        session.close()


@pytest.fixture
def crowded(
    opened: Callable[..., dpnb.Session],
    frame: pd.DataFrame,
    table: dpnb.Table,
    size: Callable[[int], int],
) -> Callable[..., Callable[[float], np.ndarray]]:
    """In which of many answers about the people by region all intervals hold together.

    One table has the people again and again, as crowds. Its groups are released in one answer, with
    intervals that hold each on its own, as surely as in an answer about one crowd: they are the same.
    """
    count = size(40)
    people = pd.concat([frame.assign(crowd=number) for number in range(count)], ignore_index=True)
    schema = dpnb.Schema({**table.schema, "crowd": dpnb.Integer(0, count - 1)})
    crowds = dpnb.Table("people", people, schema)

    def each(session: dpnb.Session, sql: str, alphas: pd.Series, **wanted: Any) -> pd.DataFrame:
        """Every column at a failure probability of its own; all but the first statement are free."""
        found = {
            alpha: session.query(sql, intervals="each", confidence=1 - alpha, **wanted).to_frame()
            for alpha in set(alphas)
        }
        shown = next(iter(found.values())).copy()
        for alias, alpha in alphas.items():
            columns = [f"{alias}_low", f"{alias}_high"]
            shown[columns] = found[alpha][columns]
        return shown

    def make(
        sql: str, exact: pd.DataFrame, confidence: float, shares: Any, **wanted: Any
    ) -> Callable[[float], np.ndarray]:
        """``shares`` are those of the aliases in the failure probability, in each of four regions."""
        alphas = pd.Series(
            (1 - confidence) * np.array(shares, dtype=float) / 4, index=exact.columns
        )
        budget = {name: 2 * level for name, level in wanted.items()}
        session = opened(**budget)
        pd.testing.assert_frame_equal(
            session.query(sql, confidence=confidence, **wanted).to_frame(),
            each(session, sql, alphas, **wanted),
            check_column_type=False,
        )
        by_crowd = sql.replace("SELECT region", "SELECT crowd, region")
        by_crowd = by_crowd.replace("GROUP BY region", "GROUP BY crowd, region")

        def hits(scale: float) -> np.ndarray:
            session = opened(crowds, seed=3, scale=scale, **budget)
            shown = each(session, by_crowd, alphas, **wanted).set_index(["crowd", "region"])
            inside = np.ones(count, dtype=bool)
            for alias, values in exact.items():
                for region, value in values.items():
                    of = shown.xs(region, level="region")
                    inside &= of[f"{alias}_low"].le(value) & of[f"{alias}_high"].ge(value)
            return inside

        return hits

    return make


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
