"""Views: one name for one meaning, cells in a fixed order, and sensitivities that hold."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpnb.engines.duckdb import DuckDBEngine
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.schema.columns import Category, Integer, Kind, Real
from dpnb.schema.partition import labels
from dpnb.schema.predicates import EVERY
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.query import Query
from dpnb.sql.values import Column
from dpnb.views.measures import Count, Measure, Scan, Sum, Units, sum_of
from dpnb.views.view import View, transposition, view_keys, views_of
from tests.kit.groups import own

Read = Callable[..., Query]


def view_ids(query: Query, version: int = 1) -> list[dict[str, str]]:
    """The names of the views behind each aggregate."""
    return [
        {role: view.id for role, view in views_of(a, query, version).items()}
        for a in query.aggregates
    ]


COUNT = "SELECT COUNT(*) AS n FROM t"


class TestNames:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (
                "SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b",
                "SELECT b, a, COUNT(*) AS m FROM t GROUP BY b, a ORDER BY m DESC LIMIT 2",
            ),
            (f"{COUNT} WHERE a = 'x' AND b = 'u'", f"{COUNT} WHERE b = 'u' AND a = 'x'"),
            (f"{COUNT} WHERE a = 'x' OR b = 'u'", f"{COUNT} WHERE b = 'u' OR a = 'x'"),
            (
                f"{COUNT} WHERE age BETWEEN 20 AND 40",
                f"{COUNT} WHERE age >= 20 AND age <= 40",
            ),
            (f"{COUNT} WHERE age > 19 AND age < 41", f"{COUNT} WHERE 20 <= age AND age <= 40"),
            (f"{COUNT} WHERE a IN ('x', 'y')", f"{COUNT} WHERE a IN ('y', 'x', 'y')"),
            (f"{COUNT} WHERE a IN ('x', 'y')", f"{COUNT} WHERE a = 'y' OR a = 'x'"),
            (f"{COUNT} WHERE a = 'x'", f"{COUNT} WHERE NOT (a <> 'x')"),
            (f"{COUNT} WHERE NOT (a = 'x' OR b = 'u')", f"{COUNT} WHERE a <> 'x' AND b <> 'u'"),
            (f"{COUNT} WHERE a = 'x'", "SELECT COUNT(*) FILTER (WHERE a = 'x') AS n FROM t"),
            (f"{COUNT} WHERE age <= 200", f"{COUNT} WHERE age IS NOT NULL"),
            (COUNT, "select count(*) as anything from T"),
            ("SELECT SUM(gain) AS s FROM t", "SELECT SUM(GAIN) AS s FROM t LIMIT 1"),
        ],
    )
    def test_equal_meaning_has_one_name(
        self, read: Read, schema: Schema, one: str, other: str
    ) -> None:
        assert view_ids(read(one)) == view_ids(read(other))

    def test_different_meaning_has_different_names(self, read: Read, schema: Schema) -> None:
        statements = [
            COUNT,
            "SELECT COUNT(age) AS n FROM t",
            "SELECT COUNT(gain) AS n FROM t",
            "SELECT SUM(age) AS n FROM t",
            "SELECT SUM(gain) AS n FROM t",
            "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
            "SELECT b, COUNT(*) AS n FROM t GROUP BY b",
            "SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b",
            f"{COUNT} WHERE a = 'x'",
            f"{COUNT} WHERE a <> 'x'",
            f"{COUNT} WHERE a = 'x' AND b = 'u'",
            f"{COUNT} WHERE a = 'x' OR b = 'u'",
            f"{COUNT} WHERE age <= 40",
            f"{COUNT} WHERE age < 40",
            f"{COUNT} WHERE age IS NULL",
            f"{COUNT} WHERE age IS NOT NULL",
            f"{COUNT} WHERE age <= 40 OR age IS NULL",
            f"{COUNT} WHERE gain <= 40",
            f"{COUNT} WHERE gain < 40",
        ]
        names = [view_ids(read(sql))[0].values() for sql in statements]
        assert len({name for found in names for name in found}) == len(statements)

    def test_a_new_data_version_has_new_views(self, read: Read, schema: Schema) -> None:
        assert view_ids(read(COUNT), 1) != view_ids(read(COUNT), 2)

    def test_other_bounds_make_another_view(self, read: Read, schema: Schema) -> None:
        query = read("SELECT AVG(score) AS m FROM t")
        other = Schema({**schema, "score": Real(-5.0, 6.0)})
        (one,), (two,) = view_ids(query), view_ids(replace(query, schema=other))
        assert one["sum"] != two["sum"]

    def test_an_average_uses_a_centred_sum_and_shares_its_count(
        self, read: Read, schema: Schema
    ) -> None:
        average, total, count = view_ids(
            read("SELECT AVG(gain) AS m, SUM(gain) AS s, COUNT(gain) AS n FROM t")
        )
        assert average["count"] == count["count"]
        assert average["sum"] != total["sum"]

    def test_a_sum_around_zero_is_its_own_centred_sum(self, read: Read, schema: Schema) -> None:
        average, total = view_ids(read("SELECT AVG(score) AS m, SUM(score) AS s FROM t"))
        assert average["sum"] == total["sum"]

    def test_the_definition_is_plain_and_complete(self, read: Read, schema: Schema) -> None:
        query = read("SELECT b, a, SUM(gain) AS s FROM t WHERE age > 30 GROUP BY b, a")
        view = views_of(query.aggregates[0], query, 3)["sum"]
        assert view.definition() == {
            "table": "t",
            "version": 3,
            "unit": None,
            "keys": ["a", "b"],
            "where": ["age", [[31, 90]], False],
            "measure": ["sum", "gain", "0", "1/32", 0, 3_199_968],
        }


class TestTransposition:
    @pytest.mark.parametrize(
        "keys", [("a",), ("a", "b"), ("b", "a"), ("d", "b", "a"), ("age", "d", "a"), ()]
    )
    def test_every_group_finds_its_cell(
        self, read: Read, schema: Schema, keys: tuple[str, ...]
    ) -> None:
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        query = read(f"SELECT {', '.join([*keys, 'COUNT(*) AS n'])} FROM t{group}")
        cells = {key: labels(schema[key]) for key in keys}
        in_query_order = list(itertools.product(*(cells[key] for key in keys)))
        in_view_order = list(itertools.product(*(cells[key] for key in sorted(keys))))
        assert view_keys(query) == own(schema, *sorted(keys))
        for group_labels, place in zip(in_query_order, transposition(query), strict=True):
            by_key = dict(zip(keys, group_labels, strict=True))
            assert in_view_order[place] == tuple(by_key[key] for key in sorted(keys))

    def test_rows_are_counted_in_their_own_group(self, read: Read, schema: Schema) -> None:
        frame = pd.DataFrame({"a": [*"xxyzz", None], "b": list("uvvuuu")})
        small = Schema({"a": schema["a"], "b": schema["b"]})
        query = read("SELECT b, a, COUNT(*) AS n FROM t GROUP BY b, a")
        view = views_of(query.aggregates[0], query, 1)["count"]
        engine = DuckDBEngine(Table("t", frame, small))
        exact = engine.measure(Scan(view.keys, EVERY, ((view.measure, EVERY),))).reveal(0)
        engine.close()
        counts = [exact[cell] for cell in transposition(query)]
        # u: x y z, then v: x y z
        assert counts == [1, 0, 2, 1, 1, 0]


KINDS: dict[str, Kind] = {
    "bit": Integer(0, 1),
    "small": Integer(-3, 10),
    "odd": Integer(0, 7),
    "debt": Integer(-9, -2),
    "far": Integer(1_000_000, 1_000_001),
    "wide": Integer(-(2**30), 2**30),
    "wider": Integer(0, 2**31 + 1),
    "huge": Integer(-(2**53), 2**53),
    "high": Integer(2**53 - 5, 2**53),
    "share": Real(0.0, 1.0),
    "signed": Real(-0.3, 0.7),
    "below": Real(-1e6, -1e-3),
    "money": Real(0.0, 99_999.0),
    "tiny": Real(1e-120, 3e-120),
    "vast": Real(-1e120, 1e100),
    "shifted": Real(1e9, 1e9 + 10.0),
}
WILD = [0.0, -0.0, 0.5, 1.0, -1.0, 1e-300, -1e308, 1e308, 5e-324, math.inf, -math.inf, math.nan]


def values_around(kind: Kind) -> list[float]:
    """Values inside, at and beyond the bounds, missing ones and monsters."""
    assert isinstance(kind, (Integer, Real))
    low, high = float(kind.low), float(kind.high)
    middle = low / 2 + high / 2
    near = [
        v
        for end in (low, high, middle)
        for v in (np.nextafter(end, -np.inf), end, np.nextafter(end, np.inf))
    ]
    inside = list(np.linspace(low, high, 12)) + [
        low + (high - low) * s for s in (1e-9, 0.37, 1 - 1e-9)
    ]
    beyond = [low - 1, low - (high - low), high + 1, high + (high - low)]
    return [float(v) for v in [*near, *inside, *beyond, *WILD]]


def summed(kind: Kind) -> Sum:
    """The centred sum of a column."""
    return sum_of(Column("x"), Schema({"x": kind}), centred=True)


def measures() -> Iterator[tuple[str, Measure]]:
    yield "COUNT(*)", Count(None)
    schema = Schema(KINDS)
    for name in KINDS:
        yield f"COUNT({name})", Count(Column(name))
        yield f"SUM({name})", sum_of(Column(name), schema, centred=False)
        yield f"AVG({name})", sum_of(Column(name), schema, centred=True)


MEASURES = dict(measures())
PLACES = len(values_around(KINDS["bit"]))
TABLES = 3 * (PLACES + 1)
"""Many small tables in one, each in a group of its own: three without and with one row more."""
SCHEMA = Schema({"table": Integer(0, TABLES), "g": Category(["p", "q"]), **KINDS})
SCAN = Scan(
    own(SCHEMA, "table", "g"), EVERY, tuple((measure, EVERY) for measure in MEASURES.values())
)


def measured(tables: list[list[dict[str, object]]]) -> list[list[list[int]]]:
    """For each measure the engine's exact vectors of tables with these rows, in ticks."""
    rows = [{**one, "table": number} for number, found in enumerate(tables) for one in found]
    frame = pd.DataFrame(rows, columns=list(SCHEMA)).astype(
        {"g": "string", "table": "int64", **dict.fromkeys(KINDS, "float64")}
    )
    engine = DuckDBEngine(Table("t", frame, SCHEMA))
    exact = engine.measure(SCAN)
    groups = len(labels(SCHEMA["g"]))
    vectors = [
        np.reshape(list(exact.reveal(i)), (-1, groups)).tolist() for i in range(len(MEASURES))
    ]
    engine.close()
    return vectors


def row(group: str | None, place: int) -> dict[str, object]:
    """One row that takes the ``place``-th value of every column."""
    values = {name: values_around(kind) for name, kind in KINDS.items()}
    return {"g": group, **{name: found[place % len(found)] for name, found in values.items()}}


def added(place: int) -> dict[str, object]:
    return row("pq"[place % 2], place)


BASES = ([], [row("p", 1), row("q", 7), row("p", 20)], [row(None, 3), row("q", 33)])


class TestSensitivity:
    @pytest.fixture(scope="class")
    @classmethod
    def changes(cls) -> dict[str, list[list[int]]]:
        """For each measure, how its vector changes when one row is added; over many rows."""
        tables = [
            table for base in BASES for table in (base, *([*base, added(i)] for i in range(PLACES)))
        ]
        found: dict[str, list[list[int]]] = {}
        for name, vectors in zip(MEASURES, measured(tables), strict=True):
            before, after = vectors[:: PLACES + 1], vectors
            found[name] = [
                [b - a for a, b in zip(before[number // (PLACES + 1)], after[number], strict=True)]
                for number in range(TABLES)
                if number % (PLACES + 1)
            ]
        return found

    def test_so_does_a_row_added_to_a_whole_table(
        self, changes: dict[str, list[list[int]]]
    ) -> None:
        """No other group of the table changes, whatever the row is like."""
        for number, base in enumerate(BASES):
            before = measured([base, BASES[1]])
            for place in range(number, PLACES, 11):
                after = measured([[*base, added(place)], BASES[1]])
                for name, old, new in zip(MEASURES, before, after, strict=True):
                    moved = [b - a for a, b in zip(old[0], new[0], strict=True)]
                    assert moved == changes[name][number * PLACES + place]
                    assert old[1:] == new[1:]

    @pytest.mark.parametrize("name", MEASURES)
    def test_one_row_moves_a_vector_by_the_declared_sensitivity_at_most(
        self, changes: dict[str, list[list[int]]], name: str
    ) -> None:
        view = View("t", 1, ("g",), EVERY, MEASURES[name], schema=SCHEMA)
        for change in changes[name]:
            moved = view.lattice(change)
            assert sum(abs(x) for x in moved) <= view.lattice_sensitivity(PURE)
            assert sum(x * x for x in moved) <= view.lattice_sensitivity(ZCDP) ** 2
            assert sum(x != 0 for x in moved) <= 1

    @pytest.mark.parametrize("name", MEASURES)
    def test_the_declared_sensitivity_is_reached(
        self, changes: dict[str, list[list[int]]], name: str
    ) -> None:
        measure = MEASURES[name]
        assert max(abs(x) for change in changes[name] for x in change) == measure.sensitivity

    @pytest.mark.parametrize("name", MEASURES)
    def test_sensitivity_in_units_is_the_distance_of_the_farther_bound(self, name: str) -> None:
        view = View("t", 1, ("g",), EVERY, MEASURES[name], schema=SCHEMA)
        function, _, column = name.rstrip(")").partition("(")
        if function == "COUNT":
            expected = Fraction(1)
        else:
            kind = KINDS[column]
            assert isinstance(kind, (Integer, Real))
            low, high = Fraction(kind.low), Fraction(kind.high)
            expected = (high - low) / 2 if function == "AVG" else max(abs(low), abs(high))
        assert view.sensitivity(ZCDP) == pytest.approx(float(expected), rel=2**-21)
        # on a whole-number lattice without rounding there is nothing to be off by
        if isinstance(view.measure, Count) or not view.measure.rounded:
            assert Fraction(view.sensitivity(ZCDP)) == expected

    @pytest.mark.parametrize("name", MEASURES)
    def test_the_lattice_is_fine_and_a_power_of_two(self, name: str) -> None:
        view = View("t", 1, ("g",), EVERY, MEASURES[name], schema=SCHEMA)
        assert view.lattice_sensitivity(ZCDP) >= 2**21
        assert view.scale == 2 ** (view.scale.bit_length() - 1)
        assert view.lattice_sensitivity(ZCDP) * view.granularity == (
            view.measure.sensitivity * view.measure.step
        )
        assert view.values([view.lattice_sensitivity(ZCDP)]) == [view.sensitivity(ZCDP)]

    @pytest.mark.parametrize("groups", [1, 2, 4, 5, 100, 101, 5000])
    def test_the_lattice_of_ids_is_fine_in_both_norms(self, groups: int) -> None:
        view = View("t", 1, ("g",), EVERY, Units(groups, cut=False), schema=SCHEMA)
        assert view.lattice_sensitivity(ZCDP) >= 2**21
        assert view.lattice_sensitivity(PURE) == groups * view.scale >= 2**21
        assert view.lattice_sensitivity(ZCDP) ** 2 >= groups * view.scale**2

    @pytest.mark.parametrize("group", [None, "undeclared"])
    def test_a_row_outside_the_declared_groups_moves_nothing(self, group: str | None) -> None:
        base = [row("p", 1), row("q", 7)]
        assert measured([[*base, row(group, 1), row(group, 20)]]) == measured([base])

    def test_the_lattice_depends_on_bounds_alone(self) -> None:
        for kind in KINDS.values():
            assert summed(kind) == summed(kind)
        other = sum_of(Column("y"), Schema({"y": KINDS["odd"]}), centred=True)
        assert dataclasses.replace(summed(KINDS["odd"]), value=Column("y")) == other

    def test_an_odd_middle_is_kept_exactly(self) -> None:
        measure = summed(Integer(0, 7))
        assert (measure.shift, measure.step) == (Fraction(7, 2), Fraction(1, 2))
        assert (measure.least, measure.greatest) == (-7, 7)
        assert not measure.rounded
        bit = summed(Integer(0, 1))
        assert bit.shift * bit.step == Fraction(1, 4)
        assert bit.sensitivity * bit.step == Fraction(1, 2)

    def test_texts_and_dates_have_no_sum(self) -> None:
        with pytest.raises(TypeError, match="arithmetic needs numeric columns"):
            summed(Category(["p"]))
