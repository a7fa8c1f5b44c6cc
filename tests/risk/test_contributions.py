"""What the engine says that single rows add equals what changes when they are left out, one by one."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from dpnb import Integer, Real, Schema, Table
from dpnb.engines.contributions import Contributions, ContributionScan, Part
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan, shares
from dpnb.risk.request import counted
from dpnb.risk.selection import STEPS
from dpnb.sql.parser import parse
from tests.kit.groups import own

STATEMENTS = {
    "count": "COUNT(*) FROM t",
    "count where": "COUNT(*) FROM t WHERE n > 5",
    "count of values": "COUNT(n) FROM t",
    "sum": "SUM(n) FROM t",
    "sum of negative values": "SUM(m) FROM t",
    "sum of reals": "SUM(r) FROM t",
    "sum of reals of both signs": "SUM(s) FROM t WHERE h = 1",
    "average": "AVG(n) FROM t",
    "average of values around 0": "AVG(m) FROM t WHERE m IS NOT NULL",
    "average of reals": "AVG(r) FROM t",
    "count by group": "g, COUNT(*) FROM t GROUP BY g",
    "sum by group": "g, SUM(m) FROM t GROUP BY g",
    "average by group": "g, AVG(r) FROM t GROUP BY g",
    "groups of whole numbers": "h, COUNT(*) FROM t GROUP BY h",
    "two keys": "h, g, SUM(n) FROM t GROUP BY h, g",
    "bins that leave out some values": "n, COUNT(*) FROM t GROUP BY n",
    "bins of reals": "r, SUM(n), COUNT(*) FROM t GROUP BY r",
    "or": "COUNT(*) FROM t WHERE g = 'a' OR n > 8 OR r < 1",
    "or beside and": "SUM(n) FROM t WHERE h = 0 AND (g = 'a' OR n > 8) OR r < 1",
    "not": "COUNT(*) FROM t WHERE NOT (n > 5 OR g = 'b')",
    "missing": "COUNT(*) FROM t WHERE n IS NULL",
    "in": "AVG(n) FROM t WHERE g IN ('a', 'c')",
    "case": "SUM(CASE WHEN n > 6 THEN m WHEN h = 1 THEN n - 3 END) FROM t",
    "case of reals": "AVG(CASE WHEN g = 'a' THEN r ELSE s END) FROM t",
    "arithmetic": "SUM(2 * n - m + 1) FROM t",
    "arithmetic of reals": "SUM(r * s - 0.5) FROM t",
    "filter": "COUNT(*) FILTER (WHERE n > 5), SUM(m) FILTER (WHERE g = 'b') FROM t WHERE h < 2",
    "several": "COUNT(*), COUNT(n), SUM(n), SUM(r), AVG(m), AVG(r) FROM t",
    "several by group": "g, COUNT(*), SUM(s), AVG(n) FROM t WHERE h > 0 GROUP BY g",
    "the same twice": "COUNT(*) AS a, COUNT(*) AS b, AVG(n) AS c, COUNT(n) AS d FROM t",
    "nothing": "COUNT(*) FROM t WHERE n < 0",
}


def planned(table, sql, privacy=ZCDP):
    query = parse(f"SELECT {sql}", {"t": table})
    level = {"rho": 1} if privacy == ZCDP else {"epsilon": 1}
    return plan(query, read_accuracy(query, privacy, None, **level), 1, privacy)


def scan(wanted, by=(), steps=0):
    weights = shares(wanted.parts, wanted.accuracy, wanted.privacy)
    parts = tuple(
        Part(view.measure, view.where, view.keys, float(weights[name]))
        for name, view in wanted.views.items()
    )
    return ContributionScan(parts, by, steps, squared=wanted.privacy == ZCDP)


def score(numbers, wanted):
    """r of one row, from what it adds."""
    weights = shares(wanted.parts, wanted.accuracy, wanted.privacy)
    sizes = [
        abs(number) / view.measure.sensitivity
        for number, view in zip(numbers, wanted.views.values(), strict=True)
    ]
    terms = [float(weights[name]) * size**2 for name, size in zip(wanted.views, sizes, strict=True)]
    if wanted.privacy == ZCDP:
        return math.sqrt(sum(terms))
    return sum(float(weights[n]) * size for n, size in zip(wanted.views, sizes, strict=True))


@pytest.fixture(scope="module")
def engine(mixed):
    found = DuckDBEngine(mixed)
    yield found
    found.close()


@pytest.fixture(scope="module")
def changes(mixed, left_out):
    """For each statement what every different row changes when one of it goes, with multiplicities."""
    found = {}
    for name, sql in STATEMENTS.items():
        base, others = left_out(planned(mixed, sql))
        found[name] = Counter()
        for vectors, count in others:
            changed = [a - b for a, b in zip(base, vectors, strict=True)]
            # a row is in one cell at most: L1 and L2 norm are the size of what it adds there
            assert all(np.count_nonzero(vector) <= 1 for vector in changed)
            found[name][tuple(int(vector.sum()) for vector in changed)] += count
    return found


class TestLeavingOutOneByOne:
    """A0 of the paper, with the vectors that are released."""

    def test_the_table_is_varied_enough(self, mixed, changes):
        assert len(mixed.source) == 300
        assert len(mixed.source.drop_duplicates()) > 30
        assert sum(len(found) > 10 for found in changes.values()) > 10

    @pytest.mark.parametrize("name", STATEMENTS)
    def test_contributions_are_what_changes(self, name, mixed, engine, changes):
        wanted = planned(mixed, STATEMENTS[name])
        found = engine.contributions(scan(wanted))
        lines = [tuple(map(int, line)) for line in found.numbers]
        assert Counter(dict(zip(lines, map(int, found.counts), strict=True))) == changes[name]
        assert len(set(lines)) == len(lines)

    @pytest.mark.parametrize("name", STATEMENTS)
    def test_nobody_adds_more_than_the_sensitivity(self, name, mixed, changes):
        views = planned(mixed, STATEMENTS[name]).views.values()
        for changed in changes[name]:
            assert all(
                abs(number) <= view.measure.sensitivity
                for number, view in zip(changed, views, strict=True)
            )

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    @pytest.mark.parametrize("name", STATEMENTS)
    def test_scores_are_rounded_upward_row_by_row(self, name, privacy, mixed, engine, changes):
        wanted = planned(mixed, STATEMENTS[name], privacy)
        found = engine.contributions(scan(wanted, steps=STEPS))
        table = counted(found)
        assert table.sum() == found.counts.sum() == 300
        exact = np.zeros(STEPS + 1, dtype=int)
        for numbers, count in changes[name].items():
            exact[math.ceil(STEPS * score(numbers, wanted) * (1 - 1e-14))] += count
        # only where 4096 r is whole may floats go one step further
        differing = np.flatnonzero(table != exact)
        assert len(differing) <= 2
        assert np.abs(np.cumsum(table - exact)).sum() <= exact.max() * len(differing)


class TestScores:
    def rounded(self, values, sql="SUM(x) FROM t", privacy=PURE, **kind):
        table = Table(
            "t", pd.DataFrame({"x": np.asarray(values, dtype=float)}), Schema({"x": Real(**kind)})
        )
        engine = DuckDBEngine(table)
        try:
            wanted = planned(table, sql, privacy)
            exact = engine.contributions(scan(wanted))
            scored = engine.contributions(scan(wanted, steps=STEPS))
        finally:
            engine.close()
        r = np.repeat([score(line, wanted) for line in exact.numbers], exact.counts)
        return np.sort(r), np.sort(np.repeat(scored.numbers[:, 0], scored.counts))

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    @pytest.mark.parametrize("sql", ["SUM(x) FROM t", "AVG(x) FROM t"])
    @pytest.mark.parametrize(("low", "high"), [(0, 100), (-70.5, 30)])
    def test_they_err_upward_by_less_than_a_step(self, privacy, sql, low, high):
        rng = np.random.default_rng(4)
        values = np.r_[rng.uniform(low - 5, high + 5, 500), low, high, 0, 0, math.nan]
        r, steps = self.rounded(values, sql, privacy, low=low, high=high)
        errors = steps / STEPS - r
        assert len(r) == len(steps) == len(values)
        assert errors.min() >= -1e-12
        assert errors.max() < 1 / STEPS + 1e-12

    def test_the_largest_contribution_is_the_last_step_and_nothing_is_the_first(self):
        _, steps = self.rounded([0, 0, 1e-3, 100, 250, math.nan], low=0, high=100)
        assert steps.tolist() == [0, 0, 0, 1, STEPS, STEPS]


ROWS = [
    {"g": "a", "h": 1, "n": 12.0, "m": -20.0, "r": 9.9, "s": -7.5},
    {"g": None, "h": 0, "n": None, "m": None, "r": None, "s": 0.0},
    {"g": "b", "h": 2, "n": 1e300, "m": -1e300, "r": np.inf, "s": 1e300},
]


@pytest.fixture(scope="module")
def before(mixed, engine):
    scans = [
        scan(planned(mixed, sql, (ZCDP, PURE)[number % 2]), steps=STEPS)
        for number, sql in enumerate(STATEMENTS.values())
    ]
    return [(wanted, counted(engine.contributions(wanted))) for wanted in scans]


class TestNeighbours:
    """What private selections see changes in one place by 1."""

    @pytest.mark.parametrize("row", ROWS)
    def test_one_count_changes_by_1(self, row, mixed, before):
        frame = pd.concat([mixed.source, pd.DataFrame([row]).astype(mixed.source.dtypes)])
        larger = DuckDBEngine(Table("t", frame, mixed.schema))
        try:
            for wanted, counts in before:
                change = counted(larger.contributions(wanted)) - counts
                assert max(change) == 1
                assert np.count_nonzero(change) == 1
        finally:
            larger.close()


class TestLines:
    def test_more_lines_than_wanted_are_none(self, mixed, engine):
        wanted = scan(planned(mixed, STATEMENTS["sum of reals"]))
        lines = len(engine.contributions(wanted).counts)
        assert engine.contributions(wanted, lines - 1) is None
        assert len(engine.contributions(wanted, lines).counts) == lines

    def test_more_lines_after_a_first_glimpse_are_none_too(self):
        values = np.r_[np.zeros(30_000), np.arange(30_000)]
        table = Table("t", pd.DataFrame({"x": values}), Schema({"x": Integer(0, 29_999)}))
        engine = DuckDBEngine(table)
        wanted = scan(planned(table, "SUM(x) FROM t"))
        assert engine.contributions(wanted, 4_096) is None
        assert engine.contributions(wanted, 30_000).counts.sum() == 60_000
        engine.close()

    def test_rows_are_told_apart_by_columns(self, mixed, engine):
        found = engine.contributions(
            scan(planned(mixed, STATEMENTS["sum"]), by=own(mixed.schema, "g", "h"))
        )
        frame = mixed.source
        codes = frame["g"].map({"a": 0, "b": 1, "c": 2}).astype("Float64")
        expected = (codes * 3 + frame["h"]).fillna(-1).astype(int)
        sizes = np.bincount(found.cells + 1, weights=found.counts, minlength=13)
        assert sizes.tolist() == np.bincount(expected + 1, minlength=13).tolist()
        for cell in (-1, 0, 5):
            mine = found.cells == cell
            amounts = frame["n"].clip(0, 12).fillna(0)[expected == cell]
            assert found.counts[mine] @ found.numbers[mine, 0] == amounts.sum()

    @pytest.mark.parametrize("rows", [0, 1, 40])
    def test_small_and_uniform_tables(self, rows):
        table = Table("t", pd.DataFrame({"x": [7.0] * rows}), Schema({"x": Integer(0, 10)}))
        engine = DuckDBEngine(table)
        wanted = planned(table, "SUM(x), COUNT(*) FROM t")
        found = engine.contributions(scan(wanted))
        assert found.counts.sum() == rows
        assert found.numbers.tolist() == [[7, 1]] * (rows > 0)
        assert counted(engine.contributions(scan(wanted, steps=STEPS))).sum() == rows
        engine.close()

    def test_sums_of_large_numbers_do_not_overflow(self):
        values = [2**53, -(2**53), 12345678901]
        table = Table("t", pd.DataFrame({"x": values}), Schema({"x": Integer(-(2**53), 2**53)}))
        engine = DuckDBEngine(table)
        for sql in ("SUM(x) FROM t", "AVG(x) FROM t", "SUM(x + x) FROM t"):
            wanted = planned(table, sql)
            found = engine.contributions(scan(wanted))
            r = sorted(score(line, wanted) for line in found.numbers)
            assert r[-2:] == pytest.approx([1, 1]) or "AVG" in sql
        engine.close()


class TestSecrecy:
    def test_they_show_nothing_and_cannot_be_pickled(self):
        found = Contributions(np.array([-1]), np.array([[48_611]]), np.array([271_828]))
        for text in (repr(found), str(found), f"{found}", f"{[found]}"):
            assert "48611" not in text
            assert "271828" not in text
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(found)
