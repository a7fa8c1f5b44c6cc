"""Times in every kind of source: each value by itself, whatever it is."""

from __future__ import annotations

import datetime
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpnb
from dpnb import Date, Integer, Schema, Table, Timestamp
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import SchemaError
from dpnb.schema.timestamps import text_of

pytestmark = pytest.mark.fast

HOURS = Timestamp("2024-01-01", "2024-12-31", resolution="hour", tz="Europe/Berlin")
FIRST, LAST = "2024-01-01 00:00:00", "2024-12-31 23:00:00"
INSTANTS = ["2024-03-31 00:59:59", "2024-03-31 01:00:00", "2024-10-27 00:30:00", "2024-10-27 01:30:00",
            "1999-01-01 00:00:00", "2030-01-01 00:00:00", None]  # fmt: skip
CLOCK = ["2024-03-31 01:00:00", "2024-03-31 03:00:00", "2024-10-27 02:00:00", "2024-10-27 02:00:00",
         FIRST, LAST, None]  # fmt: skip
"""What a clock in Berlin shows then: it skips an hour in March, and shows one twice in October."""
NAIVE = ["2024-03-31 00:00:00", "2024-03-31 01:00:00", "2024-10-27 00:00:00", "2024-10-27 01:00:00",
         FIRST, LAST, None]  # fmt: skip
TEXTS = {
    "2024-03-31T00:59:59Z": "2024-03-31 01:00:00", " 2024-03-31 03:00+02:00": "2024-03-31 03:00:00",
    "2024-10-27 02:30:00.999999999": "2024-10-27 02:00:00", "2024-10-27 02:30 -0130": "2024-10-27 05:00:00",
    "2024-05-05": "2024-05-05 00:00:00", "2024-5-5 8:00": "2024-05-05 08:00:00",
    "2024-01-01T08:00:00.5+0530": "2024-01-01 03:00:00", "1969-12-31 23:59:59.5": FIRST,
    "x": None, "2024-02-30": None, "2024-01-01 24:00": None, "0000-01-01": None, "2024-01-01 08": None,
    "2024-01-01 08:00 Europe/Paris": None, "infinity": None, "5": None, "true": None,
}  # fmt: skip
EXTREMES = [2**63 - 1, -(2**63) + 1, 2**60, -(2**60), 0, -1]


def codes(source, kind=HOURS):
    engine = DuckDBEngine(Table("t", source, Schema({"x": kind})))
    try:
        return [code for (code,) in engine._run("SELECT c0 FROM rows")]
    finally:
        engine.close()


def read(source, kind=HOURS):
    return [None if code is None else text_of(kind, code) for code in codes(source, kind)]


def moments(unit="us", zone="UTC"):
    times = pd.Series(pd.to_datetime(INSTANTS)).dt.as_unit(unit)
    return times if zone is None else times.dt.tz_localize("UTC").dt.tz_convert(zone)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    ("zone", "expected"), [(None, NAIVE), ("UTC", CLOCK), ("America/New_York", CLOCK)]
)
def test_frames_hold_instants_or_what_a_clock_shows(zone, expected, unit):
    times = moments(unit, zone)
    assert read(pd.DataFrame({"x": times})) == expected
    assert read(pa.table({"x": pa.array(times)})) == expected
    assert read(pl.DataFrame({"x": pl.from_arrow(pa.array(times))})) == expected
    assert read(pd.DataFrame({"x": times.astype(pd.ArrowDtype(pa.array(times).type))})) == expected


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize(("zone", "expected"), [(None, NAIVE), ("Asia/Tokyo", CLOCK)])
def test_parquet_files(zone, expected, unit, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": pa.array(moments(unit, zone))}), path)
    assert read(path) == expected
    days = Date("2024-01-01", "2024-12-31")
    in_utc = [None if text is None else text[:10] for text in NAIVE]
    assert read(path, days) == in_utc
    if zone is not None:
        with pytest.raises(SchemaError, match="declared as integer but holds TIMESTAMP"):
            codes(path, Integer(0, 9))


def test_texts_are_read_one_by_one(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{text},1\n" for text in TEXTS), "utf-8")
    assert read(path) == read(pd.DataFrame({"x": list(TEXTS)})) == list(TEXTS.values())


def test_objects_are_read_as_their_texts():
    time = datetime.datetime(2024, 7, 1, 8)  # noqa: DTZ001
    objects = [
        time, time.replace(tzinfo=datetime.UTC), time.date(), pd.Timestamp(time), np.datetime64(time),
        None, 5, float("nan"), pd.NaT,
    ]  # fmt: skip
    eight, midnight = "2024-07-01 08:00:00", "2024-07-01 00:00:00"
    expected = [eight, "2024-07-01 10:00:00", midnight, eight, eight, None, None, None, None]
    assert read(pd.DataFrame({"x": pd.Series(objects, dtype=object)})) == expected


def test_relations_of_duckdb_ignore_the_time_zone_of_their_connection():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    for value, expected in [
        ("TIMESTAMPTZ '2024-07-01 08:00:00+00'", "2024-07-01 10:00:00"),
        ("TIMESTAMP '2024-07-01 08:00:00'", "2024-07-01 08:00:00"),
        ("DATE '2024-07-01'", "2024-07-01 00:00:00"),
        ("DATE 'infinity'", None), ("TIMESTAMPTZ '-infinity'", None), ("TIMESTAMP 'infinity'", None),
    ]:  # fmt: skip
        assert read(connection.sql(f"SELECT {value} AS x")) == [expected]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", [HOURS, Timestamp("0001-01-01", "9999-12-31")])
def test_no_value_raises(kind, unit, zone, tmp_path):
    table = pa.table({"x": pa.array(EXTREMES, pa.timestamp(unit, zone))})
    assert len(codes(table, kind)) == len(EXTREMES)
    if unit != "s":
        pq.write_table(table, tmp_path / "t.parquet")
        assert codes(tmp_path / "t.parquet", kind) == codes(table, kind)


def test_a_value_beyond_microseconds_is_missing_alone():
    assert read(pa.table({"x": pa.array([2**60, 0], pa.timestamp("s", "UTC"))})) == [None, FIRST]
    assert read(pa.table({"x": pa.array([2**60, 0], pa.timestamp("s"))})) == [None, FIRST]


def test_times_before_1970_are_cut_down():
    kind = Timestamp("1969-12-31", "1970-01-01", tz="UTC")
    for unit, tick in (("ms", 1_000), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC"):
            times = pa.array([-1, -tick, -tick - 1, 0, tick - 1], pa.timestamp(unit, zone))
            assert codes(pa.table({"x": times}), kind) == [-1, -1, -2, 0, 0]


def test_keys_in_two_zones_are_no_join():
    def table(name, zone, **options):
        kind = Timestamp("2024-01-01", "2024-01-31", "day", tz=zone)
        return Table(
            name,
            pd.DataFrame({"at": [pd.Timestamp("2024-01-01")]}),
            Schema({"at": kind}),
            **options,
        )

    found = joined_on(table("t", "UTC"), table("days", "UTC", public=True, key="at"))
    assert found is None
    assert "are declared differently" in joined_on(
        table("t", "UTC"), table("days", "Asia/Tokyo", public=True, key="at")
    )


def joined_on(base, other):
    """Return the error of a join on the time of two tables; None if there is none."""
    session = dpnb.Session([base, other], budget=dpnb.Budget(rho=1))
    try:
        session.price("SELECT COUNT(*) FROM t JOIN days ON t.at = days.at", rho=0.1)
    except dpnb.DpnbError as error:
        return str(error)
    return None


def test_other_clocks_make_another_table_of_the_same_bytes(tmp_path, monkeypatch):
    pq.write_table(
        pa.table({"x": pa.array([0, 10**9], pa.timestamp("s", "UTC"))}), tmp_path / "t.parquet"
    )

    def fingerprint(zone):
        schema = Schema({"x": Timestamp("2001-01-01", "2001-12-31", resolution="hour", tz=zone)})
        with closing(DuckDBEngine(Table("t", tmp_path / "t.parquet", schema))) as engine:
            return engine.fingerprint(bytes(32))

    zones = ["UTC", "Europe/Berlin"]
    before = [fingerprint(zone) for zone in zones]
    assert [fingerprint(zone) for zone in zones] == before
    with monkeypatch.context() as patch:
        patch.setattr("dpnb.engines.moments.offsets", lambda kind: ((0, 1800),))
        after = [fingerprint(zone) for zone in zones]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False]
