"""Tables, statements and looks at which every engine must find the same; see tests/spark and tests/engines."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpnb import Boolean, Category, Date, Integer, Real, Schema, Table, Timestamp, Unit
from dpnb.codes import Periodic, StepFunction, Steps
from dpnb.engines.contributions import ContributionScan, Part
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.marginals import MarginalScan
from dpnb.schema.columns import Kind
from dpnb.schema.partition import grouped
from dpnb.schema.predicates import EVERY, Within
from dpnb.sql.breaks import searched
from dpnb.sql.features import Linked, read_persons
from dpnb.sql.parser import parse
from dpnb.sql.values import Column
from dpnb.views.histogram import histogram
from dpnb.views.measures import Count, Distinct, Scan, sum_about, sum_of
from tests.kit import ids
from tests.kit.groups import own

LARGE = 2**53
ROWS = 3_000
LISTED = [f"v{i}'\"\\\n☃" for i in range(40)]
LONG = [f"value {i}" for i in range(700)]
EPOCH = datetime.date(1970, 1, 1)
EARLY = datetime.datetime(1969, 5, 30, 23, 59, 59, 999_999)  # noqa: DTZ001 - what a clock shows


def schema():
    return Schema(
        {
            "c": Category(["a", "b", "c", "empty"]),
            "listed": Category([*LISTED, "rest"], other="rest"),
            "long": Category(LONG),
            "truth": Category(["true", "false"]),
            "number": Category(["1", "7", "x"], other="x"),
            "i": Integer(-100, 100),
            "n": Integer(0, 10, bins=[1, 4, 8, 10]),
            "huge": Integer(-LARGE, LARGE),
            "wide": Integer(0, 2**30),
            "money": Integer(0, 500),
            "flag": Integer(0, 1),
            "yes": Boolean(),
            "no": Boolean(),
            "r": Real(-5, 5, bins=[-4, -0.5, 0, 2.25, 5]),
            "f": Real(0, 1),
            "price": Real(0, 1e6),
            "exact": Real(-1e12, 1e12),
            "d": Date("2024-01-01", "2024-03-31", bins=["2024-01-02", "2024-02-10", "2024-03-31"]),
            "t": Date("2024-01-01", "2024-01-31"),
            "moment": Timestamp("1969-06-01 03:20", "2024-12-31 12:00", tz="Europe/Berlin"),
            "nothing": Integer(0, 9),
        }
    )


def rows():
    """Missing values, values outside the declaration and odd ones in every column."""
    rng = np.random.default_rng(11)

    def some(values, odd=(), type_=None, share=0.08):
        picked = [values[i] for i in rng.integers(0, len(values), ROWS)]
        for place in np.flatnonzero(rng.random(ROWS) < share):
            picked[place] = [*odd, None][rng.integers(0, len(odd) + 1)]
        return pa.array(picked, type_)

    def spread(sigma):
        return (rng.normal(0, sigma, 400)).tolist()

    day = datetime.date(2024, 1, 1)
    days = [day + datetime.timedelta(n) for n in range(-20, 120)]
    times = [
        datetime.datetime.combine(day, datetime.time(23, 59, 59, 999_999)) + datetime.timedelta(n)
        for n in range(-3, 40)
    ]
    cents = [decimal.Decimal(int(n)).scaleb(-2) for n in rng.integers(-(10**5), 10**7, 400)]
    halves = [decimal.Decimal(n) / 2 for n in range(-9, 1_100)]
    long = [decimal.Decimal(int(n)).scaleb(-12) for n in rng.integers(-(2**62), 2**62, 400)]
    inf = math.inf
    return pa.table(
        {
            "c": some(["a", "b", "c"], ["A", "", " a", "stranger"], pa.string()),
            "listed": some(LISTED, ["v0", "rest", "x" * 999], pa.string()),
            "long": some(LONG, ["value 700", "VALUE 1"], pa.string()),
            "truth": some([True, False], (), pa.bool_()),
            "number": some([1, 7, 8], [-1, 2**62], pa.int64()),
            "i": some(list(range(-110, 111)), [2**63 - 1, -(2**63)], pa.int64()),
            "n": some(
                [0.5, 1.5, 2.4999, -0.5, math.nextafter(0.5, 0), 3.0, 7.0, 9.5, 10.49],
                [math.nan, inf, -inf, 1e308, -1e308], pa.float64(),
            ),
            "huge": some([LARGE, LARGE - 1, 1 - LARGE, 3], [2**63 - 1, -(2**63)], pa.int64()),
            "wide": some([2**30, 2**30 - 1, 65_535, 65_536, 0], [-1, 2**31], pa.int64()),
            "money": some(halves, [decimal.Decimal(10**9)], pa.decimal128(14, 1)),
            "flag": some([True, False], (), pa.bool_()),
            "yes": some([True, False], (), pa.bool_()),
            "no": some([0.0, -0.0, 1.0], [0.5, 2.0, -1.0, math.nan, inf], pa.float64()),
            "r": some(
                [-0.0, 0.0, 2.25, math.nextafter(2.25, 3), -4.0, *spread(3)],
                [math.nan, inf, -inf, 1e308, 5e-324], pa.float64(),
            ),
            "f": some([np.float32(x) for x in spread(1)], [math.nan, inf], pa.float32()),
            "price": some(cents, [decimal.Decimal(10**9)], pa.decimal128(15, 2)),
            "exact": some(long, (), pa.decimal128(30, 12)),
            "d": some(days, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], pa.date32()),
            "t": some(times, [datetime.datetime(1, 1, 1)], pa.timestamp("us")),  # noqa: DTZ001
            "moment": some(
                [EARLY + datetime.timedelta(seconds=8_887 * n * n) for n in range(450)],
                [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)], pa.timestamp("us"),  # noqa: DTZ001
            ),
            "nothing": pa.array([None] * ROWS, pa.int64()),
        }
    )  # fmt: skip


STATEMENTS = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*), COUNT(c), COUNT(i), COUNT(r), COUNT(d), COUNT(nothing) FROM t",
    "SELECT c, COUNT(*) FROM t GROUP BY c",
    "SELECT listed, COUNT(*) FROM t GROUP BY listed",
    "SELECT long, COUNT(*), SUM(i) FROM t GROUP BY long",
    "SELECT truth, COUNT(*), AVG(flag) FROM t GROUP BY truth",
    "SELECT yes, no, COUNT(*), SUM(yes) FROM t GROUP BY yes, no",
    "SELECT AVG(i) FROM t WHERE NOT no AND yes IS NOT TRUE OR COALESCE(no, TRUE) AND yes",
    "SELECT number, COUNT(r) FROM t GROUP BY number",
    "SELECT i, COUNT(*) FROM t GROUP BY i",
    "SELECT n, COUNT(*), SUM(n), AVG(n) FROM t GROUP BY n",
    "SELECT r, COUNT(*), AVG(r) FROM t GROUP BY r",
    "SELECT d, COUNT(*) FROM t GROUP BY d",
    "SELECT t, COUNT(*) FROM t GROUP BY t",
    "SELECT c, n, d, COUNT(*) FROM t GROUP BY c, n, d",
    "SELECT r, listed, SUM(i) FROM t WHERE t IS NOT NULL GROUP BY r, listed",
    "SELECT SUM(i), AVG(i), SUM(n), AVG(n), SUM(money), AVG(money), SUM(flag) FROM t",
    "SELECT SUM(huge), AVG(huge), SUM(wide), AVG(wide) FROM t",
    "SELECT c, SUM(huge), AVG(wide), SUM(wide) FILTER (WHERE i > 0) FROM t GROUP BY c",
    "SELECT SUM(r), AVG(r), SUM(f), AVG(f), SUM(price), AVG(price), SUM(exact), AVG(exact) FROM t",
    "SELECT c, SUM(price), AVG(exact) FROM t GROUP BY c",
    "SELECT COUNT(*) FROM t WHERE c = 'a'",
    "SELECT COUNT(*) FROM t WHERE c <> 'a' AND NOT c = 'b'",
    "SELECT COUNT(*) FROM t WHERE c IN ('a', 'c') OR c IS NULL",
    "SELECT COUNT(*) FROM t WHERE long IN ('value 3', 'value 699', 'value 350')",
    "SELECT COUNT(*) FROM t WHERE listed = 'rest'",
    "SELECT COUNT(*) FROM t WHERE truth = 'true' AND number = '7'",
    "SELECT COUNT(*) FROM t WHERE number NOT IN ('1')",
    "SELECT COUNT(*) FROM t WHERE i BETWEEN -5 AND 7",
    "SELECT COUNT(*) FROM t WHERE NOT (i > 3 OR i IS NULL) AND i <> 0",
    "SELECT COUNT(*) FROM t WHERE i >= 1.5 AND i < 99.5",
    "SELECT COUNT(*) FROM t WHERE huge = 9007199254740991",
    "SELECT COUNT(*) FROM t WHERE huge > 9007199254740990 OR huge <= -9007199254740991",
    "SELECT COUNT(*) FROM t WHERE r = 0",
    "SELECT COUNT(*) FROM t WHERE r <= 2.25 AND r > -0.1",
    "SELECT COUNT(*) FROM t WHERE r < 0 OR r IS NULL",
    "SELECT COUNT(*) FROM t WHERE price < 1234.56 OR price = 50000",
    "SELECT COUNT(*) FROM t WHERE f BETWEEN 0.25 AND 0.75",
    "SELECT COUNT(*) FROM t WHERE d >= DATE '2024-02-01' AND d < DATE '2024-03-01'",
    "SELECT COUNT(*) FROM t WHERE t = DATE '2024-01-05' OR d IS NULL",
    "SELECT COUNT(*) FROM t WHERE nothing IS NULL",
    "SELECT COUNT(*) FROM t WHERE nothing > 3",
    "SELECT COUNT(*) FILTER (WHERE c = 'a' AND r > 0), SUM(i) FILTER (WHERE n < 5) FROM t",
    "SELECT c, AVG(r) FILTER (WHERE NOT truth = 'true') FROM t WHERE i > -50 GROUP BY c",
    "SELECT SUM(i - n), SUM(2 * i + 1), AVG(-i * n), SUM(n * n * n) FROM t",
    "SELECT SUM(i * 0.5), AVG(r - i / 3), SUM(r * f) FROM t",
    "SELECT SUM((price - 5e5) * (price - 5e5)), AVG(exact * r) FROM t",
    "SELECT SUM(wide * 3 - i), AVG(wide / 7) FROM t",
    "SELECT SUM(CASE WHEN i > 0 THEN n ELSE 0 END) FROM t",
    "SELECT c, SUM(CASE WHEN c = 'a' THEN 1 WHEN r > 0 THEN i END) FROM t GROUP BY c",
    "SELECT AVG(CASE WHEN NOT c = 'a' THEN r ELSE i END) FROM t",
    "SELECT SUM(CASE WHEN i IS NULL THEN 7 ELSE i END), COUNT(CASE WHEN d IS NULL THEN 1 END) FROM t",
    "SELECT AVG(CASE WHEN long = 'value 5' THEN 0.5 ELSE -0.25 END) FROM t",
    "SELECT c, SUM(i) / COUNT(*) AS m FROM t GROUP BY c",
    "SELECT n, SUM(r) - SUM(i) AS m FROM t WHERE c IN ('a', 'b') GROUP BY n ORDER BY m DESC LIMIT 2",
    "SELECT truth, d, AVG(money) FROM t WHERE i > 0 OR n > 3 AND r < 1 GROUP BY truth, d",
    "SELECT t, SUM(flag), COUNT(price) FROM t WHERE exact > 0 GROUP BY t",
    "SELECT COUNT(*) FROM t WHERE i = 3 AND i = 4",
    "SELECT c, COUNT(*) FROM t WHERE c = 'empty' GROUP BY c",
    "SELECT AVG(r * r * r * r), SUM((i + 0.5) * (i + 0.5)) FROM t",
    "SELECT HOUR(moment), COUNT(*), AVG(MINUTE(moment)) FROM t GROUP BY 1",
    "SELECT DAYOFWEEK(moment), CASE WHEN HOUR(moment) < 12 THEN 'am' ELSE 'pm' END, COUNT(*) FROM t GROUP BY 1, 2",
    "SELECT STRFTIME(moment, '%H:%M'), COUNT(*) FROM t GROUP BY 1",
    "SELECT c, COUNT(*), SUM(COALESCE(HOUR(moment), 99)) FROM t WHERE HOUR(moment) BETWEEN 8 AND 17 GROUP BY c",
    "SELECT COUNT(*) FILTER (WHERE MINUTE(moment) < 30 OR moment < '1970-01-01') FROM t WHERE DAYOFWEEK(moment) IN (0, 6)",
]  # fmt: skip
ON_ADULT = [
    "SELECT education, COUNT(*), AVG(age), SUM(hours_per_week) FROM adult GROUP BY education",
    "SELECT marital_status, AVG(high_income) AS share FROM adult GROUP BY marital_status",
    "SELECT sex, race, COUNT(*) FROM adult WHERE capital_gain > 0 GROUP BY sex, race",
    "SELECT age, SUM(capital_gain), AVG(fnlwgt) FROM adult WHERE occupation IS NULL GROUP BY age",
]


def _steps(kind: Kind, output: Callable[[int], object], width: int) -> StepFunction[object]:
    """Return a function that is constant on intervals of some width, from a kind's least code."""
    low, high = kind.scale.low, kind.scale.high
    starts = [low + width * i for i in range(int((high - low) // width) + 1)]
    ends = [*(kind.scale.previous(start) for start in starts[1:]), high]
    pieces = zip(starts, ends, map(output, range(len(starts))), strict=True)
    return StepFunction(pieces, output(-1))


def _hours(output: Callable[[int], object], null: object) -> Periodic[object]:
    pieces = ((3_600 * hour, 3_600 * hour + 3_599, output(hour)) for hour in range(24))
    return Periodic(86_400, StepFunction(pieces, null))


FUNCTIONS: dict[str, Steps[object]] = {
    "i by remainder": _steps(schema()["i"], lambda i: i % 3, 1),
    "i with gaps": _steps(schema()["i"], lambda i: None if i % 4 else i % 5, 1),
    "i in three": _steps(schema()["i"], lambda i: None if i < 0 else i, 70),
    "long in pairs": _steps(schema()["long"], lambda i: i // 2 if i >= 0 else "none", 1),
    "r in many": _steps(schema()["r"], lambda i: i % 7, 0.1),
    "r in some": _steps(schema()["r"], lambda i: None if i < 0 else i % 2, 2),
    "r by sign": searched("SIGN(v)", schema()["r"]).function,
    "huge in many": _steps(schema()["huge"], lambda i: None if i % 9 == 1 else i % 4, 2**47),
    "moment by hour": _hours(lambda hour: hour, "none"),
    "moment by parts of a day": _hours(lambda hour: None if hour < 6 else hour // 6, None),
    "moment by many": Periodic(
        10_007, StepFunction([(n, n, n % 5) for n in range(0, 10_007, 50)], "none")
    ),
    "d by weekday": _steps(schema()["d"], lambda i: None if i < 0 else i % 7, 1),
}
"""Functions of columns, each with a name that begins with that of the column."""


class OtherLooks:
    """Wants the fixtures ``engine`` and ``ducks``, which hold :func:`rows`."""

    def test_sums_about_thresholds(self, engine, ducks):
        measures = [
            sum_about(Column(name), schema(), origin)
            for name in ("i", "n", "r", "huge", "price")
            for origin in map(Fraction, ("0", "3", "5/2", "1/10"))
        ]
        scan = Scan(own(schema(), "c"), EVERY, tuple((measure, EVERY) for measure in measures))
        self.same(engine.measure(scan), ducks.measure(scan), len(measures))

    def test_different_values(self, engine, ducks):
        query = parse("SELECT COUNT(*) FROM t WHERE i > 0", {"t": Table("t", None, schema())})
        measures = [(Distinct(Column(name)), query.where) for name in ("c", "long", "i", "r", "d")]
        scan = Scan(own(schema(), "n"), EVERY, tuple(measures))
        self.same(engine.measure(scan), ducks.measure(scan), len(measures))

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_groups_of_any_function(self, name, engine, ducks):
        """Also those that are looked up in a relation, or searched; alone and among others."""
        key = grouped(name.split()[0], schema(), FUNCTIONS[name])
        measures = ((Count(None), EVERY), (sum_of(Column("i"), schema(), centred=False), EVERY))
        scan = Scan((key, *own(schema(), "c")), EVERY, measures)
        self.same(engine.measure(scan), ducks.measure(scan), len(measures))
        where = Within("n", ((0, 4),), null=True)
        part = Part(measures[0][0], where, (key,), 1.0)
        contributions = ContributionScan((part,), (key,))
        self.alike(engine.contributions(contributions), ducks.contributions(contributions))
        sets = ((key,), own(schema(), "truth"))
        marginals = MarginalScan(own(schema(), "c"), ((0,), (2,)), where, None, None, sets)
        ours, theirs = engine.marginals(marginals), ducks.marginals(marginals)
        assert ours.totals() == theirs.totals()
        assert ours.marginal(0).count.tolist() == theirs.marginal(0).count.tolist()

    def alike(self, ours, theirs):
        lines = [
            sorted(
                zip(
                    found.cells.tolist(), found.numbers.tolist(), found.counts.tolist(), strict=True
                )
            )
            for found in (ours, theirs)
        ]
        assert lines[0] == lines[1]

    def same(self, ours, theirs, count):
        for i in range(count):
            assert list(ours.reveal(i)) == list(theirs.reveal(i))

    def test_histograms(self, engine, ducks):
        def bins(*names):
            return histogram("t", 1, schema(), names).keys

        views = [bins("c"), bins("r"), bins("d", "n"), bins("long", "truth")]
        self.same(engine.histograms(views), ducks.histograms(views), len(views))

    @pytest.mark.parametrize(
        ("sql", "groups"),
        [
            ("SELECT c, AVG(r) AS m FROM t WHERE i > -50 GROUP BY c", ((0,), (2,))),
            ("SELECT truth, n, SUM(wide) AS m FROM t GROUP BY truth, n", ((0, 1), (1, 2))),
            ("SELECT COUNT(*) AS m FROM t", ((),)),
        ],
    )
    def test_marginals(self, sql, groups, engine, ducks):
        query = parse(sql, {"t": Table("t", None, schema())})
        keys = tuple(key.partition for key in query.keys)
        (aggregate,) = query.aggregates
        measure = None
        if aggregate.function != "COUNT":
            measure = sum_of(aggregate.value, schema(), centred=aggregate.function == "AVG")
        names = (("listed",), ("d",), ("number", "r"), ("long", "t"), ("i",))
        sets = tuple(own(schema(), *each) for each in names)
        scan = MarginalScan(keys, groups, query.where, aggregate.value, measure, sets)
        ours, theirs = engine.marginals(scan), ducks.marginals(scan)
        assert ours.totals() == theirs.totals()
        for place in range(len(sets)):
            one, other = ours.marginal(place), theirs.marginal(place)
            for name in ("index", "count", "total"):
                assert getattr(one, name).tolist() == getattr(other, name).tolist()
                assert getattr(one, name).dtype == np.int64

    @pytest.mark.parametrize(("steps", "squared"), [(0, False), (100, False), (100, True)])
    def test_contributions(self, steps, squared, engine, ducks):
        query = parse("SELECT COUNT(*) FROM t WHERE i > 0", {"t": Table("t", None, schema())})
        measures = [
            Count(None), Count(Column("r")), sum_of(Column("i"), schema(), centred=True),
            sum_of(Column("n"), schema(), centred=False),
            sum_of(Column("r"), schema(), centred=True),
        ]  # fmt: skip
        parts = tuple(
            Part(measure, query.where, own(schema(), "n"), weight)
            for measure, weight in zip(measures, (0.1, 0.2, 0.3, 0.15, 0.25), strict=True)
        )
        scan = ContributionScan(parts, own(schema(), "c", "d") if squared else (), steps, squared)
        theirs = self.lines(ducks.contributions(scan))
        assert self.lines(engine.contributions(scan, len(theirs))) == theirs
        assert engine.contributions(scan, len(theirs) - 1) is None

    def lines(self, found):
        return sorted(
            zip(found.cells.tolist(), map(tuple, found.numbers.tolist()), found.counts.tolist(),
                strict=True)
        )  # fmt: skip


class Units:
    """A table whose rows belong to ids."""

    SCHEMA = Schema(
        {
            "g": Category(["a", "b", "c", "d"]),
            "n": Integer(0, 50),
            "r": Real(-3, 3),
            "d": Date("2024-01-01", "2024-01-20"),
            "h": Integer(-(2**53), 2**53),
        }
    )
    LAST = ("n", "r", "h")
    """Columns that come last in the order of the rows of an id, in one of the tests."""
    STATEMENTS = (
        "SELECT COUNT(*), SUM(n), AVG(r), SUM(h) FROM t",
        "SELECT COUNT(DISTINCT person) AS p FROM t",
        "SELECT g, COUNT(DISTINCT person) AS p, COUNT(*) AS m FROM t WHERE n > 5 GROUP BY g",
        "SELECT d, COUNT(DISTINCT person) AS p FROM t GROUP BY d",
        "SELECT d, COUNT(DISTINCT person) AS p FROM t WHERE d < '2024-01-04' GROUP BY d",
    )

    PERSONS = (
        "SELECT COUNT(*) FROM (SELECT person, SUM(n) AS a, AVG(n) AS b, SUM(r) AS c, AVG(r) AS d, MIN(d) AS e, "
        "MAX(h) AS f, MEDIAN(r) AS h, COUNT(DISTINCT g) AS i, COUNT(g) AS j, SUM(n * 2 - 1) FILTER (WHERE g = 'a') "
        "AS k, ANY_VALUE(g) AS l, FIRST(r ORDER BY d) AS m, LAST(g ORDER BY n) AS o, ARG_MAX(h, n) AS q, "
        "BOOL_OR(r > 1) AS s, MODE(g) AS v, MODE(n % 7) AS w, MODE(r) AS z FROM t WHERE n > 1 OR g IS NULL "
        "GROUP BY person, FLOOR(n / 30)) AS p"
    )

    def lines_of_persons(self, engine, table):
        """The lines of a table of persons in an engine, in any order."""
        tables = {"t": table}
        line = read_persons(parse(self.PERSONS, tables).table, tables)
        persons = engine.persons(line)
        linked = engine.linked(Linked(table, (line,)), [persons])
        lines = persons._ask([f"SELECT * FROM {one._rows}" for one in (persons, linked)])
        return sorted(map(repr, map(tuple, lines)))

    def rows(self, ids):
        rng = np.random.default_rng(4)
        count = 4_000
        frame = pd.DataFrame(
            {
                "person": ids(rng.integers(-300, 300, count)),
                "g": rng.choice(["a", "b", "c", "d", "stranger"], count),
                "n": rng.integers(-5, 60, count),
                "r": rng.normal(0, 2, count),
                "d": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 20, count), "D"),
                "h": rng.integers(-(2**53), 2**53, count),
            }
        )
        frame["d"] = frame["d"].astype("datetime64[us]")
        frame.loc[rng.random(count) < 0.05, "person"] = None
        return pa.Table.from_pandas(frame, preserve_index=False)

    IDS: ClassVar = {
        "whole numbers": lambda numbers: pd.Series(numbers, dtype="Int64"),
        "texts": lambda numbers: pd.Series([f"é{n}" for n in numbers], dtype="string"),
        "floats": lambda numbers: pd.Series(numbers / 2),
        "spelled": lambda numbers: pd.Series(
            [("{}", " {}.0", "{}e+0", "{}.")[i % 4].format(n) for i, n in enumerate(numbers)],
            dtype="string",
        ),
    }


class SpelledIds:
    """One id per person; wants the fixture ``whose``, which returns the id of each row by ``n``."""

    SCHEMA = Schema({"n": Integer(0, 100_000)})
    NUMBERS: ClassVar = {
        "double": pa.array([7.0, -0.0, 0.5, math.nan, -math.inf, 1e16, 2.0**60, 2.0**63, 1e300, None]),
        "float": pa.array([7, -0.0, 0.5, math.nan, math.inf, 2.0**24, 2.0**60, 1e30], pa.float32()),
        "decimal": pa.array(
            [decimal.Decimal(d) for d in ("7", "-7.00", "7.01", "99999999999999999999.00", "0", "1e25")],
            pa.decimal128(38, 2),
        ),
        "whole": pa.array([7, 2**63 - 1, -(2**63), None], pa.int64()),
    }  # fmt: skip

    @pytest.mark.parametrize("kind", [None, "text"])
    def test_texts(self, kind, whose):
        found = whose(
            pa.Table.from_pandas(ids.numbers_of(ids.SPELLINGS)), Unit("id", 99, kind=kind)
        )
        read = ids.said if kind is None else ids.plain
        assert ids.people(range(len(ids.SPELLINGS)), found.get) == ids.people(ids.SPELLINGS, read)

    @pytest.mark.parametrize("type_", NUMBERS)
    @pytest.mark.parametrize("kind", [None, "text"])
    def test_numbers(self, type_, kind, whose):
        numbers, unit = self.NUMBERS[type_], Unit("id", 99, kind=kind)
        table = pa.table({"id": numbers, "n": range(len(numbers))})
        with contextlib.closing(DuckDBEngine(Table("t", table, self.SCHEMA, unit))) as ducks:
            theirs = dict(ducks._connection.execute("SELECT c0, u FROM rows").fetchall())
        assert whose(table, unit) == theirs
        assert str(theirs[0]) == "7"
        if type_ != "whole":
            assert 2 not in theirs


SCHEMA = Schema(
    {
        "g": Category(["a", "b", "c"]),
        "x": Category(["p", "q", "r", "s"]),
        "n": Integer(0, 20, bins=[0, 5, 10, 20]),
        "r": Real(0, 10, bins=[0, 2.5, 5, 10]),
    }
)
QUERY = "SELECT g, COUNT(*) AS rows, AVG(r) AS mean FROM t WHERE n > 2 GROUP BY g"


class Still:
    """No noise at all: what differs would be a matter of engines."""

    def gaussian(self, exact, sigma):
        return [int(number) for number in exact]

    def laplace(self, exact, scale):
        return [int(number) for number in exact]

    def coins(self, probability, count):
        return [probability > 0.5] * count

    def largest(self, scores, scale):
        return int(np.argmax(scores))

    def below(self, count):
        return 0


def frame(seed=2):
    rng = np.random.default_rng(seed)
    rows = 3_000
    found = pd.DataFrame(
        {
            "g": rng.choice(["a", "b", "c", "stranger"], rows, p=[0.5, 0.3, 0.15, 0.05]),
            "x": rng.choice(["p", "q", "r", "s"], rows),
            "n": rng.integers(-2, 25, rows).astype(float),
        }
    )
    found["r"] = rng.normal(4, 2, rows) + 2 * (found["x"] == "p") * (found["g"] == "a")
    for name in found:
        found.loc[rng.random(rows) < 0.05, name] = None
    return found


class TheSameAnswers:
    """Wants the fixture ``both``: curators over DuckDB and another engine."""

    def test_queries_questions_explanations_and_inferences(self, both):
        found = []
        for curator in both:
            session = curator.session()
            answer = session.query(QUERY, rho=1)
            question = answer.compare("a", "b", "mean")
            explanation = session.explain(question, k=3, rho=1, anyway=True)
            inferred = session.infer("SELECT COUNT(*) FROM t WHERE n > 2 AND g = 'a'")
            found.append(
                (
                    answer.to_frame().to_dict(),
                    (question.low, question.high),
                    explanation.to_frame().to_dict(),
                    (inferred.estimate, inferred.low, inferred.high),
                    session.budget.spent,
                )
            )
        assert repr(found[0]) == repr(found[1])

    def test_decisions(self, both):
        sql = "SELECT x, AVG(r) AS mean FROM t GROUP BY x HAVING AVG(r) > 4.3"
        found = []
        for curator in both:
            decision = curator.session().decide(sql, beta=0.05, alpha=0.2, u=0.3, rows=200)
            found.append((decision.to_frame().to_dict(), decision.spent))
        assert repr(found[0]) == repr(found[1])

    def test_declared_views_and_risks(self, both):
        found = []
        for curator in both:
            curator.add_view(["g", "x"], table="t")
            profile = curator.risk("SELECT g, SUM(r) AS s FROM t WHERE n > 3 GROUP BY g")
            found.append(sorted(np.asarray(profile.rdr(rho=0.5)).tolist()))
        assert found[0] == found[1]
        assert len(found[0]) == 3_000
