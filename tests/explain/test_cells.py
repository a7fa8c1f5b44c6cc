"""The rows of each candidate, from the engine's tables: against masks over the data frame."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.explain.cells import cells_of
from dpnb.explain.influence import Cells, influences
from dpnb.explain.mechanism import measure
from dpnb.explain.predicates import space
from dpnb.sql.functions import Function
from tests.kit.groups import own

BINS = {"n": [1, 4, 8, 10], "r": [0, 2.5, 5, 9]}
DAYS = ["2024-01-02", "2024-01-10", "2024-01-31"]


def normalised(frame):
    """The public rule, in pandas: code of each attribute's cell, or -1."""
    x = frame["x"].map({"p": 0, "q": 1, "none": 2}).fillna(-1)
    y = frame["y"].map({"s": 0, "t": 1}).fillna(2)
    codes = {"x": x, "y": y}
    n = frame["n"].clip(0, 10)
    r = frame["r"].clip(0, 10)
    for name, values in (("n", n), ("r", r)):
        codes[name] = pd.cut(values, BINS[name], include_lowest=True, labels=False).fillna(-1)
    days = frame["d"].clip(pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-31"))
    codes["d"] = pd.cut(days, pd.to_datetime(DAYS), include_lowest=True, labels=False).fillna(-1)
    return {name: code.astype(int).to_numpy() for name, code in codes.items()}, n


def masks(frame, found):
    """One mask for each predicate, in order."""
    codes, _ = normalised(frame)
    for attributes in found.sets:
        for items in itertools.product(*(a.items for a in attributes)):
            parts = [
                (codes[a.column] >= item.first) & (codes[a.column] <= item.last)
                for a, item in zip(attributes, items, strict=True)
            ]
            yield (
                np.logical_and.reduce(parts)
                if found.connective == "and"
                else (np.logical_or.reduce(parts))
            )


def brute(frame, found, aggregate, weights, kept, unit):
    """Influences from masks, one predicate at a time."""
    _, n = normalised(frame)
    value = n.to_numpy()
    groups = [(frame["g"] == g).fillna(False).to_numpy(bool) & kept for g in weights]
    if aggregate != "COUNT(*)":
        groups = [group & ~np.isnan(value) for group in groups]
    function = Function(aggregate.partition("(")[0])
    count = [int(group.sum()) for group in groups]
    total = [int(np.nansum(value[group])) for group in groups]
    chosen = list(masks(frame, found))
    n1 = np.array([[(group & mask).sum() for group in groups] for mask in chosen])
    s1 = np.array([[int(np.nansum(value[group & mask])) for group in groups] for mask in chosen])
    cells = Cells(np.arange(len(chosen)), n1, s1)
    exact = [Fraction(weight) for weight in weights.values()]
    return influences(function, exact, cells, count, total, unit).tolist()


class TestAgainstMasks:
    @pytest.mark.parametrize("aggregate", ["COUNT(*)", "COUNT(n)", "SUM(n)", "AVG(n)"])
    @pytest.mark.parametrize(
        ("length", "connective", "ranges"),
        [
            (1, "and", False), (2, "and", False), (3, "and", False), (1, "and", True),
            (2, "and", True), (2, "or", False), (3, "or", False), (2, "or", True), (3, "or", True),
        ],
    )  # fmt: skip
    def test_influences_of_all_predicates(
        self, aggregate, length, connective, ranges, mixed, mixed_engine, planned
    ):
        weights = {"a": 1, "b": -1, "c": 2}
        plan = planned(
            mixed, f"SELECT g, {aggregate} AS m FROM t WHERE h < 2 GROUP BY g", weights,
            length=length, connective=connective, ranges=ranges,
            attributes=["x", "y", "r", "d"] + (["n"] if aggregate == "COUNT(*)" else []),
        )  # fmt: skip
        found = measure(plan, mixed_engine)
        frame = mixed.source
        expected = brute(
            frame, plan.space, aggregate, weights, (frame["h"] < 2).to_numpy(), plan.lattice.unit
        )
        assert [found.score(i) for i in range(found.size)] == expected
        assert any(expected)

    def test_listed_predicates(self, mixed, mixed_engine, planned):
        texts = [
            "x = 'p' AND NOT y = 's'", "x IS NULL", "n > 4 OR r <= 2.5", "y = 'rest'",
            "d >= '2024-01-20'", "x <> 'p'", "n BETWEEN 20 AND 30", "NOT (x = 'p' OR r > 5)",
        ]  # fmt: skip
        frame = mixed.source
        codes, n = normalised(frame)
        x, y = codes["x"], codes["y"]
        r = frame["r"].clip(0, 10)
        days = frame["d"].clip(pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-31"))
        chosen = [
            (x == 0) & (y != 0), x == -1, (n > 4) | (r <= 2.5), y == 2,
            days >= pd.Timestamp("2024-01-20"), x > 0, n > 20,
            (x > 0) & (r <= 5).to_numpy(),
        ]  # fmt: skip
        plan = planned(mixed, "SELECT g, COUNT(*) AS m FROM t GROUP BY g", {"a": 1, "b": -2},
                       predicates=texts)  # fmt: skip
        groups = [(frame["g"] == g).fillna(False).to_numpy(bool) for g in ("a", "b")]
        n1 = np.array([[(group & np.asarray(mask)).sum() for group in groups] for mask in chosen])
        cells = Cells(np.arange(len(texts)), n1, np.zeros_like(n1))
        expected = influences(Function.COUNT, [Fraction(1), Fraction(-2)], cells,
                              [int(group.sum()) for group in groups], [0, 0], plan.lattice.unit)  # fmt: skip
        found = measure(plan, mixed_engine)
        assert [found.score(i) for i in range(found.size)] == expected.tolist()
        assert len(set(expected.tolist())) > 5

    def test_candidates_that_select_no_row_are_not_listed(self):
        rng = np.random.default_rng(3)
        schema = Schema({name: Category([f"v{i}" for i in range(30)]) for name in "abg"})
        frame = pd.DataFrame({name: rng.choice(schema[name].values, 50) for name in "abg"})
        table = Table("t", frame, schema)
        found = space(table, {"g"}, length=2)
        pairs = {(schema["a"].values.index(a), schema["b"].values.index(b))
                 for a, b in zip(frame["a"], frame["b"], strict=True)}  # fmt: skip
        from dpnb.engines.marginals import MarginalScan
        from dpnb.schema.predicates import EVERY

        scan = MarginalScan((), ((),), EVERY, None, None, (own(schema, "a", "b"),))
        engine = DuckDBEngine(table)
        tables = engine.marginals(scan)
        (cells,) = cells_of(found, tables.marginal, *tables.totals())
        engine.close()
        assert set(cells.index.tolist()) == {30 * a + b for a, b in pairs}
        assert cells.index.tolist() == sorted(cells.index.tolist())
        assert cells.count.sum() == 50


@pytest.fixture(scope="module")
def small():
    """Tables of few rows that are all alike, or all missing, with their engines."""
    schema = Schema({
        "g": Category(["a", "b"]), "x": Category(["u", "w"]),
        "y": Integer(0, 5, bins=[0, 2, 4, 5]), "v": Integer(0, 9),
    })  # fmt: skip
    held = {}

    def lend(rows, missing):
        if (rows, missing) not in held:
            frame = pd.DataFrame({
                "g": pd.Series(["a"] * rows, dtype="string"),
                "x": pd.Series([None if missing else "u"] * rows, dtype="string"),
                "y": pd.Series([None if missing else 3] * rows, dtype="Int64"),
                "v": pd.Series([None if missing else 4] * rows, dtype="Int64"),
            })  # fmt: skip
            table = Table("t", frame, schema)
            held[rows, missing] = table, DuckDBEngine(table)
        return held[rows, missing]

    yield lend
    for _, engine in held.values():
        engine.close()


OPTIONS = ({}, {"length": 2}, {"length": 2, "connective": "or"},
           {"ranges": True}, {"predicates": ["x = 'u'", "y > 3"]})  # fmt: skip
AGGREGATES = ("COUNT(*)", "SUM(v)", "AVG(v)", "COUNT(v)")


class TestEnds:
    # each of the options with each aggregate; every pair of the others too
    @pytest.mark.parametrize(
        ("options", "rows", "missing", "aggregate"),
        [
            (options, (0, 1, 5)[(i + j) % 3], (i // 2 + j) % 2 == 0, aggregate)
            for i, options in enumerate(OPTIONS)
            for j, aggregate in enumerate(AGGREGATES)
        ],
    )
    def test_empty_tables_missing_values_and_constant_columns_are_facts_like_others(
        self, options, rows, missing, aggregate, planned, small
    ):
        table, engine = small(rows, missing)
        plan = planned(table, f"SELECT g, {aggregate} AS m FROM t GROUP BY g", {"a": 1, "b": -1},
                       **options)  # fmt: skip
        found = measure(plan, engine)
        assert {found.score(i) for i in range(found.size)} == {0}
        assert [found.at(place) for place in range(1, found.size + 1)] == [0] * found.size

    def test_runs_of_all_bins_leave_out_rows_outside_every_bin(self, planned, exact):
        schema = Schema({"g": Category(["a"]), "n": Integer(0, 10, bins=[2, 4, 6])})
        frame = pd.DataFrame({"g": "a", "n": [0, 1, 2, 3, 5, 6, 9, 10]})
        table = Table("t", frame, schema)
        plan = planned(table, "SELECT g, COUNT(*) AS m FROM t GROUP BY g", {"a": 1}, ranges=True)
        found = exact(plan, table)
        ninth = {label: float(value) * 9 for label, value in found.items()}
        expected = {"n in [2, 4]": 2 * 6, "n in (4, 6]": 2 * 6, "n in [2, 6]": 4 * 4}
        assert ninth == pytest.approx(expected, abs=1e-4)
        assert math.isclose(sum(ninth.values()), 40, abs_tol=1e-3)
