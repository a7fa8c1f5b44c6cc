"""Columns of times: what may be declared, and what a clock in a zone shows."""

from __future__ import annotations

import datetime
import tomllib
import zoneinfo
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
import tomli_w

from dpnb import Date, Schema, Timestamp
from dpnb.engines.moments import wall
from dpnb.errors import SchemaError
from dpnb.schema.timestamps import SECONDS, code_of, offsets, text_of, value_of
from dpnb.server.wire import decode, encode

pytestmark = pytest.mark.fast

FIRST, LAST = (
    int(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()) for year in (1880, 2100)
)
DAY = ("2024-01-31", "2024-03-01")


def test_bounds_are_cut_down_and_a_day_lasts_to_its_end():
    hours = Timestamp(*DAY, resolution="hour")
    assert (str(hours.low), str(hours.high)) == ("2024-01-31 00:00:00", "2024-03-01 23:00:00")
    assert hours == Timestamp("2024-01-31 00:59:59", "2024-03-01T23:00", "hour", "UTC")
    assert hours == Timestamp(datetime.date(2024, 1, 31), datetime.date(2024, 3, 1), "hour")
    assert hours == Timestamp(np.datetime64(DAY[0]), pd.Timestamp("2024-03-01 23:30"), "hour")
    assert str(Timestamp(*DAY).high) == "2024-03-01 23:59:59"
    assert str(Timestamp(DAY[0], "2024-03-01 00:00").high) == "2024-03-01 00:00:00"


@pytest.mark.parametrize("resolution", list(SECONDS))
def test_codes_count_units(resolution):
    kind = Timestamp("1969-12-30", "1970-01-02", resolution)
    unit = SECONDS[resolution]
    assert (kind.scale.low, kind.scale.high) == (-2 * 86_400 // unit, 2 * 86_400 // unit - 1)
    for code in (kind.scale.low, -1, 0, kind.scale.high):
        assert code_of(kind, text_of(kind, code)) == code_of(kind, value_of(kind, code)) == code


def test_days_have_no_time_of_day():
    days, dates = Timestamp(*DAY, "day"), Date(*DAY)
    assert days.scale == dates.scale
    assert text_of(days, 19_753) == text_of(dates, 19_753) == "2024-01-31"


def test_a_comparison_is_one_of_the_units():
    kind = Timestamp(*DAY, "hour")
    times = {code: value_of(kind, code) for code in range(code_of(kind, DAY[0]), 474_400)}
    for text in ("2024-01-31 02:00", "2024-01-31 02:00:00.5", "2024-02-01"):
        value = datetime.datetime.fromisoformat(text)
        for operator, holds in {
            "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
            ">=": lambda a, b: a >= b, "=": lambda a, b: a == b, "<>": lambda a, b: a != b,
        }.items():  # fmt: skip
            found = kind.compare(operator, text)
            for code, time in times.items():
                assert any(a <= code <= b for a, b in found) is holds(time, value)


def test_a_declaration_is_written_and_read_back():
    schema = Schema(
        {"at": Timestamp(*DAY, "minute", tz="Asia/Kolkata", bins=[DAY[0], "2024-02-01 12:00"])}
    )
    assert Schema.from_dict(tomllib.loads(tomli_w.dumps(schema.to_dict()))) == schema
    assert Schema.from_dict(decode(encode(schema.to_dict()))) == schema
    assert (
        Schema.from_dict({"at": {"type": "timestamp", "low": DAY[0], "high": DAY[1]}})["at"].tz
        == "UTC"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tz": "Europe/Berln"}, "tz='Europe/Berln' is not a time zone. Did you mean 'Europe/Berlin'?"),
        ({"tz": "new york"}, "Did you mean 'America/New_York'?"),
        ({"tz": "localtime"}, "is not a time zone"),
        ({"tz": "+01:00"}, "Write tz='UTC' or tz='Europe/Paris'."),
        ({"tz": None}, "tz=None is not a time zone"),
        ({"resolution": "hours"}, "resolution='hours' is not a unit of time. Did you mean 'hour'?"),
        ({"resolution": 60}, "Write 'second', 'minute', 'hour' or 'day'."),
        ({"high": "2024-01-30"}, "a Timestamp needs low < high"),
        ({"low": "2024-01-31 00:10", "high": "2024-01-31 00:50", "resolution": "hour"}, "low < high"),
        ({"low": "2024-W05-3"}, "'2024-W05-3' is not a time. Write '2024-01-31 08:00'."),
        ({"low": pd.NaT}, "is not a time"),
        ({"low": 5}, "5 is not a time"),
        ({"low": "2024-02-30 08:00"}, "is not a time"),
        ({"low": "2024-01-31T08:00Z"}, "has a zone. Write what a clock in the column's zone shows"),
        ({"low": pd.Timestamp("2024-01-31", tz="UTC")}, "has a zone"),
        ({"bins": ["2024-01-31"]}, "at least two edges"),
        ({"bins": ["2024-01-30", "2024-02-01"]}, "outside the bounds"),
    ],
)  # fmt: skip
def test_bad_declarations_say_what_to_write(options, message):
    with pytest.raises(SchemaError) as refused:
        Timestamp(**{"low": DAY[0], "high": DAY[1], **options})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "zone",
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"],
)  # fmt: skip
def test_every_engine_reads_an_instant_as_the_zone_says(zone):
    """Twice an hour, and around each change of the clocks; offsets change a few times a year."""
    kind = Timestamp("2023-01-01", "2024-12-31", tz=zone)
    low = int(kind.scale.low)
    instants = [*range(low - 86_400, int(kind.scale.high) + 86_400, 26_000)]
    instants += [at + shift for at, _ in offsets(kind) for shift in (-1, 0, 1, 3_599, 3_600)]
    shown = duckdb.execute(
        f"SELECT {wall(kind, 'x')} FROM (SELECT unnest($1::BIGINT[]) AS x)", [instants]
    ).fetchall()
    info = zoneinfo.ZoneInfo(zone)
    for instant, (seconds,) in zip(instants, shown, strict=True):
        aware = datetime.datetime.fromtimestamp(instant, info)
        assert seconds == aware.replace(tzinfo=datetime.UTC).timestamp()


def test_zones_reach_the_ends_of_the_calendar():
    assert offsets(Timestamp("0001-01-01", "1879-12-31", tz="Europe/Paris")) == ((FIRST, 561),)
    assert offsets(Timestamp("2150-01-01", "9999-12-31", tz="Asia/Tokyo")) == ((LAST, 32_400),)


def test_a_fraction_of_a_unit_is_between_two_codes():
    assert Timestamp(*DAY).scale.compare("=", Fraction(1, 2)) == ()
