"""Counts and sums over attribute sets: against pandas, on everything a table can hold."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import threading
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.engines import duckdb
from dpnb.engines import statements as module
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.marginals import Marginals, MarginalScan
from dpnb.errors import EngineError
from dpnb.schema.predicates import EVERY
from dpnb.sql.parser import parse
from dpnb.views.measures import sum_of
from tests.kit.groups import own
from tests.kit.loaded import engine_of

SCHEMA = Schema(
    {
        "g": Category(["a", "b", "c", "empty"]),
        "h": Integer(0, 2),
        "x": Category(["p", "q", "none"]),
        "y": Category(["s", "t", "rest"], other="rest"),
        "n": Integer(0, 10, bins=[1, 4, 8, 10]),
        "r": Real(0, 10, bins=[0, 2.5, 5, 9]),
        "d": Date("2024-01-01", "2024-01-31", bins=["2024-01-02", "2024-01-10", "2024-01-31"]),
    }
)
LONG = os.environ.get("DPNB_LONG") == "1"
LOW, HIGH = pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-31")


def rows(count, seed):
    """Missing values and values outside the declaration in every column."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "g": rng.choice(["a", "b", "c", "stranger"], count, p=[0.5, 0.3, 0.15, 0.05]),
            "h": rng.integers(-1, 4, count).astype(float),
            "x": rng.choice(["p", "q", "r", "P"], count),
            "y": rng.choice(["s", "t", "v", ""], count),
            "n": rng.integers(-3, 14, count).astype(float),
            "r": np.round(rng.normal(5, 4, count), 3),
            "d": LOW + pd.to_timedelta(rng.integers(-9, 40, count), "D"),
        }
    ).astype({"g": "string", "x": "string", "y": "string", "d": "datetime64[us]"})
    for name in frame:
        frame.loc[rng.random(count) < 0.1, name] = None
    frame.loc[rng.random(count) < 0.03, "r"] = np.inf
    return frame


def normalised(frame):
    """Codes of cells as floats, NaN without one, and clamped values: the public rule in pandas."""
    values = {"h": frame["h"].clip(0, 2), "n": frame["n"].clip(0, 10)}
    values["r"] = frame["r"].where(np.isfinite(frame["r"])).clip(0, 10)
    codes = {
        "g": frame["g"].map({"a": 0, "b": 1, "c": 2, "empty": 3}),
        "x": frame["x"].map({"p": 0, "q": 1, "none": 2}),
        "y": frame["y"].map({"s": 0, "t": 1}).fillna(2).where(frame["y"].notna()),
        "h": values["h"],
        "d": pd.cut(frame["d"].clip(LOW, HIGH), pd.to_datetime(["2024-01-02", "2024-01-10", HIGH]),
                    include_lowest=True, labels=False),
    }  # fmt: skip
    for name, edges in (("n", [1, 4, 8, 10]), ("r", [0, 2.5, 5, 9])):
        codes[name] = pd.cut(values[name], edges, include_lowest=True, labels=False)
    return pd.DataFrame(codes).astype(float), pd.DataFrame(values)


def scan_of(sql, groups, sets, schema=SCHEMA, name="t"):
    """The scan of the first aggregate of a statement."""
    from dpnb.schema.predicates import And, simplify

    query = parse(sql, {name: Table(name, None, schema)})
    aggregate = query.aggregates[0]
    keys = tuple(key.partition for key in query.keys)
    measure = None
    if aggregate.function != "COUNT":
        measure = sum_of(aggregate.value, schema, centred=aggregate.function == "AVG")
    return MarginalScan(
        keys, groups, simplify(And((query.where, aggregate.filter)), schema), aggregate.value,
        measure, tuple(own(schema, *names) for names in sets),
    )  # fmt: skip


def look(table, scan):
    return engine_of(table).marginals(scan)


def expected(frame, scan, kept, ticks):
    """Counts and sums of every joint code, from masks: {set: {code: (counts, sums)}}."""
    codes, _ = normalised(frame)
    group = [
        np.logical_and.reduce([kept, *((codes[k.column] == c) for k, c in zip(scan.keys, cells, strict=True))])
        for cells in scan.groups
    ]  # fmt: skip
    found = []
    for attributes in scan.sets:
        joint = np.zeros(len(frame), int)
        for one in attributes:
            joint = joint * (one.size + 1) + codes[one.column].fillna(one.size).astype(int)
        table = {}
        for code in np.unique(joint[np.logical_or.reduce(group)]):
            rows = [mask & (joint == code) for mask in group]
            table[int(code)] = (
                [int(mask.sum()) for mask in rows],
                [int(ticks[mask].sum()) if scan.measure else 0 for mask in rows],
            )
        found.append(table)
    return found


def shown(tables, scan):
    found = []
    for place in range(len(scan.sets)):
        part = tables.marginal(place)
        assert part.index.tolist() == sorted(set(part.index.tolist()))
        assert {a.dtype for a in (part.index, part.count, part.total)} == {np.dtype("int64")}
        found.append(
            {i: (n, s) for i, n, s in zip(part.index.tolist(), part.count.tolist(),
                                          part.total.tolist(), strict=True)}
        )  # fmt: skip
    return found


ALL = ("x", "y", "n", "r", "d")
SETS = (*((name,) for name in ALL), ("x", "y"), ("r", "n"), ("d", "x", "r"))


def case_of(frame, name):
    """SQL of an aggregate, the rows it keeps, and each row's exact ticks from its values."""
    codes, values = normalised(frame)
    n, r, h = values["n"], values["r"], values["h"]
    every = pd.Series(True, index=frame.index)
    unit = 2.0**-18  # the smallest power of two >= 10 / 2^22
    centred = 2.0**-19
    halves = lambda x: np.floor(x + 0.5)  # noqa: E731
    return {
        "COUNT(*)": (every, every * 0),
        "COUNT(n)": (n.notna(), n * 0),
        "SUM(n)": (n.notna(), n),
        "AVG(n)": (n.notna(), n - 5),
        "SUM(r)": (r.notna(), halves(r / unit)),
        "AVG(r)": (r.notna(), halves((r - 5) / centred)),
        "SUM(2 * n - h)": (n.notna() & h.notna(), 2 * n - h),
        "SUM(CASE WHEN x = 'p' THEN n WHEN x = 'q' THEN 3 END)": (
            (codes["x"] == 0) & n.notna() | (codes["x"] == 1),
            pd.Series(np.where(codes["x"] == 0, n, 3), index=frame.index),
        ),
        "SUM(CASE WHEN h > 0 THEN 1 ELSE 0 END)": (every, (h > 0).astype(int)),
        "AVG(h) FILTER (WHERE x = 'p' OR n IS NULL)": (
            h.notna() & ((codes["x"] == 0) | n.isna()), h - 1
        ),
        "COUNT(r) FILTER (WHERE NOT y = 's')": (r.notna() & (codes["y"] > 0), r * 0),
    }[name]  # fmt: skip


AGGREGATES = [
    "COUNT(*)", "COUNT(n)", "SUM(n)", "AVG(n)", "SUM(r)", "AVG(r)", "SUM(2 * n - h)",
    "SUM(CASE WHEN x = 'p' THEN n WHEN x = 'q' THEN 3 END)",
    "SUM(CASE WHEN h > 0 THEN 1 ELSE 0 END)", "AVG(h) FILTER (WHERE x = 'p' OR n IS NULL)",
    "COUNT(r) FILTER (WHERE NOT y = 's')",
]  # fmt: skip


class TestAgainstPandas:
    @pytest.mark.parametrize("aggregate", AGGREGATES)
    @pytest.mark.parametrize("seed", [1, 2] if LONG else [1])
    def test_counts_and_sums_of_every_joint_code(self, aggregate, seed):
        frame = rows(600, seed)
        sql = f"SELECT g, {aggregate} AS m FROM t WHERE r > 1 OR h IS NULL GROUP BY g"
        scan = scan_of(sql, ((0,), (3,), (1,)), SETS)
        codes, values = normalised(frame)
        kept, ticks = case_of(frame, aggregate)
        kept = kept & ((values["r"] > 1) | values["h"].isna())
        tables = look(Table("t", frame, SCHEMA), scan)
        assert shown(tables, scan) == expected(frame, scan, kept, ticks)
        counts, _ = tables.totals()
        assert counts[1] == 0
        assert counts[0] == int((kept & (codes["g"] == 0)).sum()) > 20

    @pytest.mark.parametrize(
        ("keys", "groups"),
        [
            ((), ((),)),
            (("g",), ((2,),)),
            (("h",), ((2,), (0,))),
            (("g", "h"), ((0, 2), (1, 0), (3, 1), (0, 0))),
            (("n",), ((2,), (0,), (1,))),
            (("d", "n", "g"), ((1, 2, 0), (0, 0, 1), (1, 1, 2))),
            (("r", "g"), ((0, 0), (2, 1))),
        ],
    )
    def test_groups_of_any_keys_in_any_order(self, keys, groups):
        frame = rows(900, 7)
        grouped = f"{', '.join(keys)}, " if keys else ""
        end = f" GROUP BY {', '.join(keys)}" if keys else ""
        sets = tuple(
            s for length in (1, 2)
            for s in itertools.combinations([a for a in ALL if a not in keys], length)
        )  # fmt: skip
        scan = scan_of(f"SELECT {grouped}SUM(h) AS m FROM t{end}", groups, sets)
        h = normalised(frame)[1]["h"]
        tables = look(Table("t", frame, SCHEMA), scan)
        assert shown(tables, scan) == expected(frame, scan, h.notna(), h)

    def test_the_sum_of_real_values_stays_within_a_tick_of_each(self):
        frame = rows(500, 3)
        scan = scan_of("SELECT AVG(r) AS m FROM t", ((),), (("x",),))
        tables = look(Table("t", frame, SCHEMA), scan)
        _, (total,) = tables.totals()
        r = normalised(frame)[1]["r"].dropna()
        exact = math.fsum(r - 5)
        assert (
            abs(total * float(scan.measure.step) - exact) <= len(r) * float(scan.measure.step) / 2
        )


class TestEnds:
    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_an_empty_table_has_no_cells(self, aggregate):
        table = Table("t", rows(5, 1).iloc[:0], SCHEMA)
        scan = scan_of(f"SELECT g, {aggregate} AS m FROM t GROUP BY g", ((0,), (1,)), SETS)
        tables = look(table, scan)
        assert shown(tables, scan) == [{}] * len(SETS)
        assert tables.totals() == ([0, 0], [0, 0])

    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_missing_groups_have_no_cells(self, aggregate):
        frame = rows(50, 1)
        frame["g"] = pd.Series([None] * 50, dtype="string")
        scan = scan_of(f"SELECT g, {aggregate} AS m FROM t GROUP BY g", ((0,), (1,)), SETS)
        assert shown(look(Table("t", frame, SCHEMA), scan), scan) == [{}] * len(SETS)

    def test_rows_without_any_declared_value_share_the_last_code(self):
        frame = pd.DataFrame(
            {"x": pd.Series([None, "?", "q"], dtype="string"), "n": [0.0, np.nan, 9]}
        )
        schema = Schema({"x": SCHEMA["x"], "n": SCHEMA["n"]})
        scan = scan_of("SELECT COUNT(*) AS m FROM t", ((),), (("x", "n"),), schema)
        found = shown(look(Table("t", frame, schema), scan), scan)
        assert found == [{3 * 4 + 3: ([2], [0]), 1 * 4 + 2: ([1], [0])}]

    def test_categories_of_every_width_have_room_for_the_code_of_none(self):
        sizes = (2, 127, 128, 255, 256, 257, 32_768, 65_535)
        kinds, columns, sets = {}, {}, []
        for size in sizes:
            values = [f"v{i}" for i in range(size)]
            kind, last, one, other = Category(values), values[-1], f"x{size}", f"k{size}"
            kinds |= {one: kind, other: kind}
            columns |= {one: [last, "stranger", values[0]], other: [last] * 3}
            sets += [(one,), (one, other)]
        schema = Schema(kinds)
        scan = scan_of("SELECT COUNT(*) AS m FROM t", ((),), tuple(sets), schema)
        found = shown(look(Table("t", pd.DataFrame(columns), schema), scan), scan)
        for place, size in enumerate(sizes):
            last = size - 1
            assert found[2 * place] == {i: ([1], [0]) for i in (0, last, size)}
            assert found[2 * place + 1] == {
                i * (size + 1) + last: ([1], [0]) for i in (0, last, size)
            }

    def test_joint_codes_beyond_32_bits(self):
        names, last = "abcde", 799
        values = [f"v{i}" for i in range(last + 1)]
        kind = Category(values)
        schema = Schema({**dict.fromkeys(names, kind), "g": Integer(0, 9_999)})
        picks = [
            ((last,) * 5, 9_999),
            ((0, 0, 1, last, last), 9_999),
            ((last, last, 0, 0, 0), 1),
        ]
        frame = pd.DataFrame(
            [[*(values[code] for code in codes), g] for codes, g in picks], columns=[*names, "g"]
        )
        scan = scan_of("SELECT g, SUM(g) AS m FROM t GROUP BY g", ((9_999,), (1,)), (tuple(names),),
                       schema)  # fmt: skip
        found = shown(look(Table("t", frame, schema), scan), scan)
        codes = [
            sum(code * 801**place for place, code in enumerate(reversed(pick))) for pick, _ in picks
        ]
        assert found == [{
            codes[0]: ([1, 0], [9_999, 0]), codes[1]: ([1, 0], [9_999, 0]), codes[2]: ([0, 1], [0, 1])
        }]  # fmt: skip
        assert scan.codes(scan.sets[0]) > 2**60

    def test_statements_of_narrow_and_wide_codes_are_joined(self):
        values = [f"v{i}" for i in range(2_000)]
        schema = Schema({name: Category(values) for name in "abc"})
        frame = pd.DataFrame({"a": ["v1"], "b": ["v0"], "c": ["v1999"]})
        sets = (*[("a",)] * 100, ("a", "b", "c"), *[("c",)] * 100)
        scan = scan_of("SELECT COUNT(*) AS m FROM t", ((),), sets, schema)
        found = shown(look(Table("t", frame, schema), scan), scan)
        wide = {2_001**2 + 1_999: ([1], [0])}
        assert found == [{1: ([1], [0])}] * 100 + [wide] + [{1_999: ([1], [0])}] * 100

    def test_wide_integers_are_summed_without_overflow(self):
        high = 2**53
        schema = Schema({"x": Category(["p"]), "v": Integer(-high, high)})
        frame = pd.DataFrame({"x": ["p"] * 5000, "v": [high] * 5000})
        scan = scan_of("SELECT SUM(v) AS m FROM t", ((),), (("x",),), schema)
        _, (total,) = look(Table("t", frame, schema), scan).totals()
        assert total * scan.measure.step == 5000 * high

    def test_many_attribute_sets_fit_one_statement(self):
        columns = [f"a{i}" for i in range(18)]
        schema = Schema({name: Category(["p", "q"]) for name in columns})
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({name: rng.choice(["p", "q"], 40) for name in columns})
        sets = tuple(itertools.combinations(columns, 3))
        scan = scan_of("SELECT COUNT(*) AS m FROM t", ((),), sets, schema)
        tables = look(Table("t", frame, schema), scan)
        for place in (0, 407, len(sets) - 1):
            code = sum((frame[name] == "q") * 3**i for i, name in enumerate(reversed(sets[place])))
            counts = code.value_counts()
            part = tables.marginal(place)
            assert dict(zip(part.index.tolist(), part.count[:, 0].tolist(), strict=True)) == (
                counts.to_dict()
            )
            assert part.count.sum() == 40


class TestInvariance:
    """What lies outside the question, and the order of things, changes nothing."""

    SQL = "SELECT g, AVG(r) AS m FROM t WHERE h < 2 GROUP BY g"

    def tables(self, frame, schema=SCHEMA):
        scan = scan_of(self.SQL, ((0,), (1,)), SETS, schema)
        return shown(look(Table("t", frame, schema), scan), scan)

    def test_rows_may_be_permuted(self):
        frame = rows(400, 4)
        assert self.tables(frame) == self.tables(frame.sample(frac=1, random_state=2))

    def test_rows_outside_where_or_the_groups_may_come_and_go(self):
        frame = rows(400, 4)
        more = rows(300, 5)
        outside = pd.concat([
            more.assign(h=2.0), more.assign(h=None), more.assign(g="c"), more.assign(g="stranger"),
            more.assign(r=np.nan),
        ])  # fmt: skip
        both = pd.concat([outside, frame]).astype(frame.dtypes)
        assert self.tables(frame) == self.tables(both)

    def test_columns_may_be_declared_and_stored_in_another_order(self):
        frame = rows(400, 4)
        turned = Schema(dict(reversed(list(SCHEMA.items()))))
        assert self.tables(frame) == self.tables(frame[list(reversed(frame.columns))], turned)


class TestSecrecy:
    def test_nothing_exact_is_shown_or_pickled(self):
        frame = pd.concat([rows(10, 1).assign(g="a", x="p", n=4.0)] * 4861)
        scan = scan_of("SELECT g, COUNT(*) AS m FROM t GROUP BY g", ((0,),), (("x",),))
        tables = look(Table("t", frame, SCHEMA), scan)
        assert isinstance(tables, Marginals)
        for item in (tables, tables.marginal(0)):
            assert "48610" not in repr(item) + str(item) + f"{item}"
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    use(item)


def test_an_interrupt_between_two_statements_stops_the_rest(monkeypatch):
    monkeypatch.setattr(module, "_BRANCHES", 1)
    monkeypatch.setattr(duckdb, "are_counted", lambda scan: False)
    frame = pd.DataFrame({"g": ["a", "b"] * 50, "x": ["u", "v"] * 50, "y": ["u", "v"] * 50})
    values = {"g": Category(["a", "b"])} | {n: Category(["u", "v"]) for n in "xy"}
    engine = DuckDBEngine(Table("t", frame, Schema(values)))
    scan = MarginalScan(
        keys=own(values, "g"), groups=((0,), (1,)), where=EVERY, value=None, measure=None,
        sets=(own(values, "x"), own(values, "y")),
    )  # fmt: skip
    asked = []
    lend = engine._cursor

    @contextmanager
    def stop_after_the_first(work):
        with lend(work) as cursor:
            asked.append(True)
            yield cursor
        engine.interrupt(threading.get_ident())

    monkeypatch.setattr(engine, "_cursor", stop_after_the_first)
    with pytest.raises(EngineError):
        engine.marginals(scan)
    assert len(asked) == 1
    monkeypatch.setattr(engine, "_cursor", lend)
    assert engine.marginals(scan).totals()[0] == [50, 50]
