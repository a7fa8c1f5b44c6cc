"""Without noise every release is exact, so whatever past answers determine must come out exactly.

Random pasts and random new statements over a small table; the truth is told by DuckDB on values that are
normalised by hand. A wrong coefficient, border of a bin, rule for missing values or shift of a sum fails.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import Counter
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpnb import Budget, Category, Date, Integer, Real, Schema, Session, Table
from dpnb.errors import RequestError, SqlError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.sql.parser import parse

LONG = os.environ.get("DPNB_LONG") == "1"
ASKED = 5
"""New statements after each past."""
ENOUGH = re.compile(
    r"(?:Enough would be: COUNT\(\*\) WHERE (.+?)|Ask the statement itself)\.(?: |$)"
)
DAYS = [f"2024-01-{day:02}" for day in range(1, 13)]
SCHEMA = Schema(
    {
        "c": Category(["x", "y", "z"]),
        "k": Category(["u", "v"]),
        "n": Integer(0, 9, bins=[0, 2, 5, 9]),
        "r": Real(-2.0, 3.0, bins=[-2, 0, 3]),
        "d": Date(DAYS[0], DAYS[-1], bins=[DAYS[0], DAYS[3], DAYS[-1]]),
    },
    complete=["k"],
)
SIZES = {"c": 3, "k": 2, "n": 3, "r": 2, "d": 2}
# true of whole groups
ALIGNED = {
    "c": ["c IS NOT NULL", "c = 'x'", "c IN ('x', 'z')", "c <> 'y'", "c IS NULL"],
    "k": ["k IS NOT NULL", "k = 'u'", "NOT k = 'u'", "k IN ('v')", "k IS NULL"],
    "n": ["n IS NOT NULL", "n <= 2", "n > 5", "n BETWEEN 3 AND 5", "NOT (n > 2)", "n IS NULL"],
    "r": ["r IS NOT NULL", "r <= 0", "r > 0", "NOT (r > 0)", "r IS NULL"],
    "d": ["d IS NOT NULL", f"d <= '{DAYS[3]}'", f"d > '{DAYS[3]}'", f"NOT d < '{DAYS[4]}'"],
}
# cut groups
CUTTING = [
    "n = 4", "n IN (0, 7)", "n < 4", "n <> 3", "r > 0.5", "r BETWEEN -1 AND 0.5", "r >= 3",
    f"d BETWEEN '{DAYS[1]}' AND '{DAYS[6]}'", f"d = '{DAYS[3]}'",
]  # fmt: skip


def frame(generator, rows=70):
    """Values inside and outside the declared domains, on borders of bins, and missing."""
    days = pd.Series(generator.choice(pd.to_datetime(DAYS), rows))
    days[generator.random(rows) < 0.1] = pd.NaT
    special = generator.choice([-3.5, -2, -1, 0, 0.5, 1 / 3, 2.25, 3, 4, np.nan], rows)
    whole = generator.choice([-4, *range(10), 12, np.nan], rows)
    return pd.DataFrame(
        {
            "c": generator.choice(["x", "y", "z", "?", None], rows, p=[0.4, 0.2, 0.1, 0.1, 0.2]),
            "k": generator.choice(["u", "v", None], rows, p=[0.5, 0.4, 0.1]),
            "n": pd.array(whole, dtype="Int64"),
            "r": np.where(generator.random(rows) < 0.5, special, generator.uniform(-3, 4, rows)),
            "d": days.dt.date,
        }
    )


def normalised(found):
    """The table as statements see it, and the number of each value's group."""
    made = found[found["k"].notna()].copy()
    made["c"] = made["c"].where(made["c"].isin(["x", "y", "z"]), None)
    # normal values lie in the domain; days outside are not made
    made["n"], made["r"] = made["n"].clip(0, 9), made["r"].clip(-2, 3)
    made["d"] = pd.to_datetime(made["d"])
    borders = {
        "n": [-1, 2, 5, 9],
        "r": [-3, 0, 3],
        "d": pd.to_datetime(["2023-12-31", DAYS[3], DAYS[-1]]),
    }
    for name, edges in borders.items():
        values = made[name].astype(float) if name == "n" else made[name]
        made[f"g_{name}"] = pd.cut(values, edges, labels=False).astype("Int64")
    made["g_c"] = made["c"].map({"x": 0, "y": 1, "z": 2}).astype("Int64")
    made["g_k"] = made["k"].map({"u": 0, "v": 1}).astype("Int64")
    return made


@dataclass(frozen=True)
class Value:
    """An aggregate, or several combined, and how DuckDB says it: a sum of nothing is 0 here."""

    text: str
    oracle: str

    @property
    def is_mean(self):
        return self.text.startswith("AVG")

    def weighed(self, pattern, *others):
        return Value(
            pattern.format(self.text, *(one.text for one in others)),
            pattern.format(self.oracle, *(one.oracle for one in others)),
        )


def count(inside="*", condition=None):
    text = f"COUNT({inside})" + (f" FILTER (WHERE {condition})" if condition else "")
    return Value(text, text)


def total(inside, condition=None):
    text = f"SUM({inside})" + (f" FILTER (WHERE {condition})" if condition else "")
    return Value(text, f"COALESCE({text}, 0)")


def mean(inside):
    return Value(f"AVG({inside})", f"AVG({inside})")


@dataclass(frozen=True)
class Statement:
    """Values of the rows that meet a condition, for each declared group of some columns."""

    values: tuple[Value, ...]
    where: str = ""
    keys: tuple[str, ...] = ()

    @property
    def text(self):
        shown = ", ".join([*self.keys, *(f"{v.text} AS a{i}" for i, v in enumerate(self.values))])
        where = f" WHERE {self.where}" if self.where else ""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {shown} FROM t{where}{group}"

    def truth(self, database):
        """Each value in each group; None for a mean of no rows."""
        keys = ", ".join(f"g_{key}" for key in self.keys)
        shown = ", ".join([*[keys] * bool(keys), *(value.oracle for value in self.values)])
        where = f"({self.where})" if self.where else "TRUE"
        # no GROUP BY over an impossible condition gives the values of no rows
        nothing = ", ".join(value.oracle for value in self.values)
        empty = database.execute(f"SELECT {nothing} FROM normal WHERE FALSE").fetchone()
        rows = database.execute(
            f"SELECT {shown} FROM normal WHERE {where}" + (f" GROUP BY {keys}" if keys else "")
        ).fetchall()
        size = len(self.keys)
        found = {row[:size]: row[size:] for row in rows}
        groups = [
            found.get(group, empty)
            for group in itertools.product(*(range(SIZES[key]) for key in self.keys))
        ]
        return list(zip(*groups, strict=True))


class Maker:
    """Makes statements that have to do with each other."""

    def __init__(self, generator):
        self.generator = generator
        self.parts = [self.condition(1) for _ in range(2)]

    def pick(self, some):
        return some[int(self.generator.integers(len(some)))]

    def chance(self, probability):
        return self.generator.random() < probability

    def atom(self):
        return self.pick(CUTTING if self.chance(0.25) else ALIGNED[self.pick(list(ALIGNED))])

    def condition(self, depth):
        if depth == 0 or self.chance(0.4):
            return self.atom()
        left, right = self.condition(depth - 1), self.condition(depth - 1)
        made = f"({left}) {self.pick(['AND', 'OR'])} ({right})"
        return f"NOT ({made})" if self.chance(0.3) else made

    def value(self):
        if self.chance(0.65):
            made = [count(), count("c"), count("n"), count("r"), total("n"), total("r")]
            return self.pick([*made, count(), mean("n"), mean("r")])
        condition = self.pick([*self.parts, self.atom()])
        return self.pick(
            [
                count(condition=condition),
                total("n", condition),
                count(f"CASE WHEN {condition} THEN 1 END"),
                total(f"CASE WHEN {condition} THEN 1 ELSE 0 END"),
                total(f"CASE WHEN {condition} THEN n END"),
                total(f"CASE WHEN {condition} THEN 3 WHEN k = 'v' THEN r END"),
                total(
                    f"CASE WHEN {condition} THEN 2 WHEN {self.pick(self.parts)} THEN 5 ELSE -1 END"
                ),
                total("2 * n + 1"),
                total("n - r / 2"),
                mean(f"CASE WHEN {condition} THEN n ELSE 1 END"),
            ]
        )

    def past(self):
        """Return one to six statements."""
        first, second = (f"({part})" for part in self.parts)
        made = []
        for _ in range(int(self.generator.integers(1, 7))):
            whole = self.chance(0.5)
            where = self.pick(
                [first, second, f"{first} AND {second}", f"{first} OR {second}", self.atom()]
            )
            size = int(self.generator.choice(4, p=[0.25, 0.3, 0.3, 0.15]))
            keys = tuple(self.generator.choice(list(SIZES), size, replace=False).tolist())
            values = tuple(self.value() for _ in range(int(self.generator.integers(1, 3))))
            made.append(Statement(values, "" if whole else where, keys))
        return made

    def new(self, past):
        """Return a statement: the conditions put together anew, or groups added up."""
        base = self.pick(past)
        value = self.combined(base.values)
        first, second = (f"({part})" for part in self.parts)
        if self.chance(0.35):
            whole = [f"NOT {first}", f"{first} AND NOT {second}", f"{first} OR {second}",
                     f"{first} AND {second}", second, ""]  # fmt: skip
            return Statement((value, self.value()), self.pick(whole), base.keys[:1])
        keys = [key for key in base.keys if self.chance(0.3)]
        conditions = [f"({base.where})"] if base.where else []
        # rows without a value are in no group
        conditions += [
            f"({self.pick(ALIGNED[key][: 1 if self.chance(0.4) else 4])})"
            for key in base.keys
            if key not in keys
        ]
        return Statement((value,), " AND ".join(conditions), tuple(reversed(keys)))

    def combined(self, values):
        value, other = self.pick(values), self.pick(values)
        if self.chance(0.6) or value.is_mean or other.is_mean:
            return value
        pattern = self.pick(["2 * {0} - 10", "{0} - {1} / 4", "({0} + 3 * {1}) * 0.5"])
        return value.weighed(pattern, other)


def agrees(found, true):
    if true is None or found is None:
        return true is found
    # a Real is rounded to ticks of 2**-20 in a sum of at most 70 rows
    return math.isclose(found, float(true), rel_tol=1e-6, abs_tol=1e-4)


KINDS = {
    ZCDP: {"budget": {"rho": 10**11}},
    # distributions of mixed Laplace noise take their time
    PURE: {"budget": {"epsilon": 10**11}},
    "declared": {
        "budget": {"rho": 10**11},
        "views": [
            ["c", "k"],
            "n",
            ["k", "n"],
            {"columns": ["n"], "bins": {"n": None}, "name": "fine"},
        ],
    },
}


PASTS = {ZCDP: 8, PURE: 4, "declared": 4}
"""Pasts of each kind, ten times as many with DPNB_LONG=1."""


def meant(statement):
    """Whether a statement makes sense: values that no row has, and constant ones, are refused."""
    try:
        parse(statement.text, {"t": Table("t", None, SCHEMA)})
    except SqlError as error:
        assert re.match(r"this is (missing|the same number|0) in every row", error.what), statement
        return False
    return True


def sessions(kind, curated, found):
    """One without any past after the other."""
    table, options, pasts = (
        Table("t", found, SCHEMA),
        KINDS[kind],
        PASTS[kind] * (10 if LONG else 1),
    )
    if kind == PURE:
        for _ in range(pasts):
            curator = curated(table, **options)
            yield curator.session()
            curator.close()
        return
    curator = curated(table, analysts={"a": 1}, **options)
    for number in range(pasts):
        curator.add_analyst(f"a{number}", 1)
        yield curator.session(f"a{number}")


@pytest.mark.parametrize("kind", KINDS)
def test_what_past_answers_determine_is_exact(kind, curated):
    generator = np.random.default_rng(list(KINDS).index(kind))
    level = {"epsilon" if kind == PURE else "rho": 10**5}
    seen = Counter()
    found = frame(generator)
    database = duckdb.connect()
    database.register("normal", normalised(found))
    for session in sessions(kind, curated, found):
        maker = Maker(generator)
        past = list(filter(meant, maker.past()))
        for statement in past:
            answer = session.query(statement.text, **level)
            for shown, true in zip(answer.estimates, statement.truth(database), strict=True):
                assert all(map(agrees, shown.estimate, true)), statement.text
        untold = None
        for statement in filter(meant, [maker.new(past) for _ in range(ASKED * bool(past))]):
            seen["asked"] += 1
            try:
                told = session.infer(statement.text)
            except RequestError as refused:
                assert refused.what == "past answers do not determine this", statement.text
                assert ENOUGH.search(refused.hint), refused.hint
                untold = statement
                continue
            for shown, true in zip(told.aggregates, statement.truth(database), strict=True):
                for place, estimate, exact in zip(shown.places, shown.estimate, true, strict=True):
                    assert not place or agrees(estimate, exact), (statement.text, past)
                    assert place or estimate is None
            assert told.told is not bool(told.missing)
            seen["told" if told.told else "partly"] += 1
            weights = np.abs(told.joint.weights) > 1e-9
            seen["combined"] += bool((weights.sum(axis=1) > 1).any())
        if untold is not None and level.keys() == {"rho"}:
            seen["mended"] += mended(session, untold, level)
    assert seen["told"] > 0.35 * seen["asked"]
    assert seen["combined"] > 0.2 * seen["asked"]
    assert seen["asked"] - seen["told"] - seen["partly"] > 0.1 * seen["asked"]


def mended(session, statement, level):
    """Ask what was said to be missing; return whether that was a part of the statement only."""
    part = False
    for _ in range(40):
        try:
            told = session.infer(statement.text)
        except RequestError as refused:
            advice = refused.hint
        else:
            if told.told:
                return part
            advice = told.missing[0].statement
        found = ENOUGH.search(advice)
        part = part or found[1] is not None
        asked = f"SELECT COUNT(*) AS a FROM t WHERE {found[1]}" if found[1] else statement.text
        assert bought(session, asked, level), (asked, statement.text)
    raise AssertionError(f"never enough: {statement.text}")


def bought(session, asked, level):
    """Ask; return whether that was anything new."""
    return not session.query(asked, **level).stored


@pytest.mark.parametrize("low", [2**30 - 2, 10**9])
def test_narrow_bounds_far_from_0_are_not_taken_for_rounding(low):
    """A value's distance from the middle is a billionth of the middle itself."""
    frame = pd.DataFrame({"x": [low, low + 1, low + 2] * 2_000})
    table = Table("t", frame, Schema({"x": Integer(low, low + 2)}, complete=["x"]))
    with Session(table, budget=Budget(rho=10)) as session:
        session.query("SELECT COUNT(*) AS n FROM t", rho=1)
        with pytest.raises(RequestError, match="do not determine"):
            session.infer("SELECT SUM(x) AS s FROM t")
        session.query("SELECT SUM(x) AS s FROM t", rho=1)
        assert session.infer("SELECT SUM(x) AS s FROM t").estimate is not None
        mean = session.infer("SELECT AVG(x) AS m FROM t")
        assert mean.low <= low + 1 <= mean.high
