"""Explanations of tables whose ids have many rows: influences move by no more than the noise is made for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Table, Unit
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.explain.mechanism import measure

SCHEMA = Schema(
    {
        "g": Category(["A", "B", "C"]),
        "x": Category(["u", "w", "z"]),
        "y": Category(["k", "l"]),
        "v": Integer(0, 10),
    }
)
KEY = b"the same for both"
ASKED = {
    "count": ("SELECT g, COUNT(*) AS n FROM t GROUP BY g", {"A": 1, "B": -1}),
    "sum": ("SELECT g, SUM(v) AS n FROM t WHERE y = 'k' GROUP BY g", {"A": 1, "B": -2, "C": 1}),
    "average": ("SELECT g, AVG(v) AS n FROM t GROUP BY g", {"A": 1, "C": -1}),
}


def crowd(seed, people=30):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, people)
    sizes[0] = 60
    rows = int(sizes.sum())
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(people), sizes),
            "g": rng.choice(["A", "B", "C", None], rows),
            "x": rng.choice(["u", "w", "z", None], rows),
            "y": rng.choice(["k", "l"], rows),
            "v": rng.integers(0, 11, rows).astype(float),
        }
    )
    if seed % 2:
        frame.loc[frame["id"] == 0, ["g", "x", "y", "v"]] = ["A", "u", "k", 10.0]
    return frame


@pytest.fixture(scope="module")
def engines():
    """Lend tables and engines of a crowd, with and without the id of many rows; each is opened once."""
    held = {}

    def pair(most, seed):
        if (most, seed) not in held:
            frame, unit = crowd(seed), Unit("id", most)
            held[most, seed] = []
            for rows in (frame, frame[frame["id"] != 0]):
                table = Table("t", rows, SCHEMA, unit)
                engine = DuckDBEngine(table)
                engine.bound(KEY)
                held[most, seed].append((table, engine))
        return held[most, seed]

    yield pair
    for lent in held.values():
        for _, engine in lent:
            engine.close()


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("most", [1, 5, 40])
class TestSensitivity:
    def test_influences_and_their_differences(self, planned, engines, name, most):
        sql, weights = ASKED[name]
        reached = []
        for seed in range(6):
            scores = []
            for table, engine in engines(most, seed):
                plan = planned(table, sql, weights)
                found = measure(plan, engine)
                scores.append(np.array([found.score(i) for i in range(found.size)]))
            gaps = scores[0] - scores[1]
            assert np.abs(gaps).max() <= plan.lattice.sensitivity
            assert gaps.max() - gaps.min() <= plan.lattice.spread
            reached.append(np.abs(gaps).max() / plan.lattice.sensitivity)
        # the supremum is over all tables: these come within a factor
        assert max(reached) > 0.05

    def test_the_price_of_an_error_is_that_of_the_unit(self, planned, name, most):
        sql, weights = ASKED[name]
        frame = crowd(1)
        rows, ids = (
            planned(Table("t", frame, SCHEMA, unit), sql, weights)
            for unit in (None, Unit("id", most))
        )
        noisy = [float(one.lattice.sensitivity * one.unit) for one in (rows, ids)]
        assert noisy[1] == pytest.approx(most * noisy[0], rel=1e-5)


class TestSessions:
    def test_without_noise_they_are_those_of_the_kept_rows(self, fast):
        frame = crowd(3, people=200)
        table = Table("t", frame, SCHEMA, Unit("id", 3))
        with dpnb.Session(table, budget=dpnb.Budget(rho=10**4), noise=fast(1, 0.0)) as session:
            answer = session.query(ASKED["average"][0], rho=1)
            found = session.explain(answer.compare("A", "C"), rho=1000, anyway=True)
            engine = session._backend.runner.engines["t"]
            kept = engine._connection.execute("SELECT * FROM rows").df()
        named = {
            name: kept[f"c{i}"].map(dict(enumerate(SCHEMA[name].values)))
            for i, name in enumerate(["g", "x", "y"])
        }
        rows = Table("t", pd.DataFrame({**named, "v": kept["c3"]}), SCHEMA)
        with dpnb.Session(rows, budget=dpnb.Budget(rho=10**4), noise=fast(1, 0.0)) as session:
            answer = session.query(ASKED["average"][0], rho=1)
            plain = session.explain(answer.compare("A", "C"), rho=1000, anyway=True)
        best, other = found.rows[0], plain.rows[0]
        # the wider question may be too near to 0 for shares of the difference
        ends = [
            (one.influence_low * made.scale, one.influence_high * made.scale)
            for one, made in ((best, found), (other, plain))
        ]
        middle = [(low + high) / 2 for low, high in ends]
        assert best.predicate == other.predicate
        assert middle[0] == pytest.approx(middle[1], rel=1e-4)
        width = [high - low for low, high in ends]
        assert width[0] == pytest.approx(3 * width[1], rel=1e-3)

    def test_numbers_of_ids_are_not_explained(self, fast):
        table = Table("t", crowd(3), SCHEMA, Unit("id", 3))
        with dpnb.Session(table, budget=dpnb.Budget(rho=10), noise=fast(1)) as session:
            answer = session.query("SELECT g, COUNT(DISTINCT id) AS n FROM t GROUP BY g", rho=1)
            with pytest.raises(dpnb.DpnbError, match="different ids or values cannot be explained"):
                session.explain(answer.compare("A", "B"), anyway=True)
