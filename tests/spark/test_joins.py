"""Dimension tables are looked up from a Spark frame as from any other; other joins are refused in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Budget, Category, Integer, Real, Schema, Table, Unit
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.spark import SparkEngine
from dpnb.errors import SchemaError, SqlError
from dpnb.schema.joins import joined

pytestmark = pytest.mark.spark

ZONES = [f"zone {i}" for i in range(30)]
TRIPS = Schema({"zone": Category(ZONES), "day": Integer(1, 40), "fare": Real(0, 64)})
PLACES = Schema(
    {
        "zone": Category(ZONES),
        "town": Category(["Ulm", "Bonn", "else"], other="else"),
        "height": Integer(0, 900),
        "area": Real(0, 10),
    }
)
TOWNS = Schema({"town": Category(["Ulm", "Bonn", "else"], other="else"), "size": Integer(0, 9)})
TOWN_ROWS = pd.DataFrame({"town": ["Ulm", "Bonn"], "size": [3, 20]})
STATEMENTS = [
    "SELECT town, COUNT(*) AS n, SUM(fare) AS s FROM trips JOIN places ON trips.zone = places.zone "
    "GROUP BY town",
    "SELECT trips.zone, AVG(area) AS a FROM trips LEFT JOIN places ON trips.zone = places.zone "
    "WHERE height > 200 GROUP BY trips.zone",
    "SELECT SUM(height) AS s, COUNT(*) AS n FROM trips JOIN places ON trips.zone = places.zone "
    "WHERE town <> 'Bonn' AND day < 20",
    "SELECT size, COUNT(*) AS n, SUM(size) AS s FROM trips JOIN places ON trips.zone = places.zone "
    "LEFT JOIN towns ON places.town = towns.town WHERE size IS NULL OR size > 3 GROUP BY size",
    "SELECT zone, day, COUNT(*) AS n, AVG(fare) AS a FROM trips GROUP BY zone, day",
]


def rows():
    rng = np.random.default_rng(5)
    count = 2_000
    found = pd.DataFrame(
        {
            "zone": rng.choice([*ZONES, "nowhere"], count),
            "day": rng.integers(-3, 60, count),
            "fare": rng.normal(20, 20, count),
            "rider_id": rng.integers(0, 400, count),
        }
    )
    found.loc[rng.random(count) < 0.1, "zone"] = None
    return found


def places():
    return pd.DataFrame(
        {
            "zone": [*ZONES[:25], None],
            "town": ["Ulm", "Bonn", "Rom", None, "Ulm"] * 5 + ["Ulm"],
            "height": [*range(0, 1_250, 50), 7],
            "area": np.linspace(-1, 12, 26),
        }
    )


@pytest.fixture(params=["frame", "spark"])
def dimension(request, classic, written):
    """Where the places are."""
    return places() if request.param == "frame" else classic.read.parquet(written(places()))


@pytest.mark.parametrize("unit", [None, Unit("rider_id", max_rows=3)])
def test_what_is_looked_up_is_the_same_as_by_duckdb(unit, classic, written, dimension, vectors):
    found = []
    for sources in ((rows(), places()), (classic.read.parquet(written(rows())), dimension)):
        tables = {
            "trips": Table("trips", sources[0], TRIPS, unit=unit),
            "places": Table("places", sources[1], PLACES, public=True, key="zone"),
            "towns": Table("towns", TOWN_ROWS, TOWNS, public=True, key="town"),
        }
        engines = {
            name: (DuckDBEngine if isinstance(table.source, pd.DataFrame) else SparkEngine)(table)
            for name, table in tables.items()
        }
        tables = joined(tables, lambda name, join, e=engines: e[name].obstacle(e[join.table], join))
        for engine in engines.values():
            engine.bound(b"key")
        for join in tables["trips"].joins.values():
            engines["trips"].join(engines[join.table], join)
        found.append([vectors(engines["trips"], tables, sql) for sql in STATEMENTS])
        for engine in engines.values():
            engine.close()
    assert found[0] == found[1]
    assert any(map(any, found[0][0]))


def test_over_connect(connect, written, vectors):
    tables = [
        Table("trips", connect.read.parquet(written(rows())), TRIPS),
        Table("places", places(), PLACES, public=True, key="zone"),
    ]
    with dpnb.Curator(tables, budget=Budget(rho=1e6)).session() as session:
        answer = session.query(STATEMENTS[0], rho=1e5).to_frame().set_index("town")
    merged = rows().merge(places(), on="zone")
    assert answer.loc["Bonn", "n"] == pytest.approx((merged["town"] == "Bonn").sum(), abs=1)


def test_a_key_that_is_not_unique(classic):
    twice = classic.sql("SELECT 'zone 1' AS zone UNION ALL SELECT 'zone 1'")
    with pytest.raises(SchemaError, match="not unique"):
        SparkEngine(Table("p", twice, Schema({"zone": Category(ZONES)}), public=True, key="zone"))


VISITS = Schema({"day": Integer(1, 40), "place": Category(["a", "b"])}, complete=["place"])
PEOPLE = Schema({"age": Integer(0, 99), "town": Category(["Ulm", "Bonn", "else"], other="else")})
BY_IDS = [
    "SELECT town, COUNT(*) AS n, SUM(fare) AS s FROM trips JOIN people "
    "ON trips.rider_id = people.rider_id GROUP BY town",
    "SELECT zone, AVG(age) AS a FROM trips LEFT JOIN people ON trips.rider_id = people.rider_id "
    "WHERE trips.day < 20 GROUP BY zone",
    "SELECT place, COUNT(*) AS n, SUM(fare) AS s, COUNT(DISTINCT trips.rider_id) AS p FROM trips "
    "JOIN visits ON trips.rider_id = visits.rider_id WHERE visits.day > 5 GROUP BY place",
]


def sides(ids):
    rng = np.random.default_rng(7)
    people = pd.DataFrame({"rider_id": rng.permutation(300), "age": rng.integers(0, 120, 300)})
    people["town"] = rng.choice(["Ulm", "Bonn", "Rom", None], 300)
    visits = pd.DataFrame({"rider_id": rng.integers(0, 500, 900), "day": rng.integers(0, 45, 900)})
    visits["place"] = rng.choice(["a", "b", None], 900)
    found = {"trips": rows(), "people": people, "visits": visits}
    for frame, type_ in zip(found.values(), ids, strict=True):
        frame["rider_id"] = frame["rider_id"].astype(type_)
    return found


@pytest.mark.parametrize(
    "ids", [["int64"] * 3, ["str"] * 3, ["int64", "str", "float64"], ["str", "int64", "int32"]]
)
def test_joins_of_ids_are_the_same_as_by_duckdb(ids, classic, written, vectors):
    found = []
    schemas = {"trips": TRIPS, "people": PEOPLE, "visits": VISITS}
    for held in (lambda frame: frame, lambda frame: classic.read.parquet(written(frame))):
        listed = [
            Table(
                name, held(frame), schemas[name],
                unit=Unit("rider_id", max_rows=1 if name == "people" else 3, max_groups=2),
            )
            for name, frame in sides(ids).items()
        ]  # fmt: skip
        curator = dpnb.Curator(listed, budget=Budget(rho=9))
        # the same rows are kept under the same key only
        engines = {table.name: (DuckDBEngine, SparkEngine)[bool(found)](table) for table in listed}
        for engine in engines.values():
            engine.bound(b"key")
        tables = curator._runner.tables
        for join in tables["trips"].joins.values():
            engines["trips"].join(engines[join.table], join)
        engines["trips*visits"] = engines["trips"].paired(engines["visits"], tables["trips*visits"])
        found.append(
            [
                vectors(engines["trips*visits" if "visits" in sql else "trips"], tables, sql)
                for sql in BY_IDS
            ]
        )
        curator.close()
        for engine in engines.values():
            engine.close()
    assert found[0] == found[1]
    assert all(any(map(any, one)) for one in found[0])


def test_whole_sessions_join_ids(classic, written):
    unit = Unit("rider_id", max_rows=3)
    tables = [
        Table(name, classic.read.parquet(written(frame)), schema, unit=unit)
        for (name, frame), schema in zip(
            sides(["int64"] * 3).items(), (TRIPS, PEOPLE, VISITS), strict=True
        )
        if name != "people"
    ]
    with dpnb.Curator(tables, budget=Budget(rho=1e9)).session() as session:
        answer = session.query(BY_IDS[2], rho=1e8)
        assert sum(answer.to_frame()["n"]) > 100


def test_joins_with_tables_elsewhere_are_refused_and_the_tables_still_answer(classic, written):
    unit = Unit("rider_id", max_rows=2)
    frame = classic.read.parquet(written(rows()))
    people = pd.DataFrame({"rider_id": range(400), "age": range(400)})
    tables = [
        Table("trips", frame, TRIPS, unit=unit),
        Table("people", people, Schema({"age": Integer(0, 99)}), unit=Unit("rider_id", max_rows=1)),
    ]
    with dpnb.Curator(tables, budget=Budget(rho=9)).session() as session:
        sql = "SELECT COUNT(*) FROM trips JOIN people ON trips.rider_id = people.rider_id"
        with pytest.raises(SqlError, match="Read both in one Spark session"):
            session.query(sql, rho=0.1)
        assert session.budget.spent.rho == 0
        assert session.query("SELECT COUNT(*) FROM trips", rho=0.1).spent.rho > 0


@pytest.mark.parametrize("unit", [None, Unit("rider_id", max_rows=4, max_groups=2)])
def test_undeclared_values_are_counted_as_by_duckdb(unit, classic, written):
    frame = rows().assign(zone=lambda found: found["zone"].where(found["day"] > 3, "x" * 101))
    schema = Schema({"day": Integer(1, 40)}, undeclared=["zone"])
    found = []
    for made in (
        DuckDBEngine(Table("trips", frame, schema, unit)),
        SparkEngine(Table("trips", classic.read.parquet(written(frame)), schema, unit)),
    ):
        made.bound(b"key")
        tally = made.tally(0, 20)
        found.append((dict(zip(tally.texts, tally.counts, strict=True)), tally.total))
        assert len(made.fingerprint(b"key")) == 64
        made.close()
    assert found[0] == found[1]
    assert len(found[0][0]) > 5
    assert found[0][1] == 31  # thirty zones and "nowhere"
