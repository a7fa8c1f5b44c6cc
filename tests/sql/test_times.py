"""Functions of days and times as other systems write them: each means what it means there."""

from __future__ import annotations

import pytest

from dpnb import Category, Date, Schema, Table, Timestamp
from dpnb.errors import SqlError
from dpnb.sql.parser import parse

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "t": Timestamp("2000-01-01", "2019-12-31"),
        "d": Date("2000-01-01", "2024-12-31"),
        "entered": Category(["9:00AM", "9:30AM", "12:05PM"]),
        "written": Category(["2024-01-31", "31.1.24"]),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def key(text):
    (found,) = parse(f"SELECT {text} AS k, COUNT(*) AS n FROM t GROUP BY k", TABLES).keys
    return found


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("DATE_TRUNC(t, MONTH)", "DATE_TRUNC('month', t)"),
        ("DATE_TRUNC(CAST(t AS DATE), YEAR)", "DATE_TRUNC('year', t)"),
        ("TIMESTAMP_TRUNC(d, ISOWEEK)", "DATE_TRUNC('week', d)"),
        ("DATETIME_TRUNC(t, YEAR)", "DATE_TRUNC('year', t)"),
        ("FORMAT_DATE('%Y-%m', d)", "STRFTIME(d, '%Y-%m')"),
        ("TO_CHAR(t, 'YYYY-MM')", "STRFTIME(t, '%Y-%m')"),
        ("DATE_FORMAT(t, 'yyyy-MM')", "STRFTIME(t, '%Y-%m')"),
        ("DATE_FORMAT(t, '%Y-%m')", "STRFTIME(t, '%Y-%m')"),
        ("TO_CHAR(t, 'yyyy-MM')", "STRFTIME(t, '%Y-%m')"),
        ("FORMAT_DATE('%%F %m', d)", "STRFTIME(d, '%%F %m')"),
        ("FORMAT_TIMESTAMP('%R', t)", "STRFTIME(t, '%H:%M')"),
        ("HOUR(PARSE_TIME('%I:%M%p', entered))", "HOUR(STRPTIME(entered, '%I:%M%p'))"),
        ("HOUR(CAST(t AS TIME))", "HOUR(t)"),
        ("TIME_BUCKET(INTERVAL 1 MONTH, t)", "DATE_TRUNC('month', t)"),
        ("TIMESTAMP_TRUNC(d, WEEK)", "DATE_TRUNC('week', d + INTERVAL 1 DAY) - INTERVAL 1 DAY"),
        ("DATE_TRUNC(d, WEEK)", "DATE_TRUNC('week', d + INTERVAL 1 DAY) - INTERVAL 1 DAY"),
    ],
)
def test_a_function_of_another_system_is_one_of_ours(text, same):
    assert key(text).partition == key(same).partition
    assert key(text).labels == key(same).labels


def test_weeks_of_googlesql_begin_on_sunday():
    assert key("TIMESTAMP_TRUNC(d, WEEK)").labels[:2] == ("1999-12-26", "2000-01-02")
    assert key("DATE_TRUNC('week', d)").labels[:2] == ("1999-12-27", "2000-01-03")


def test_groups_by_times_of_day_read_as_times():
    hours = key('TIME_TRUNC(PARSE_TIME("%I:%M%p", entered), HOUR)')
    assert hours.labels == ("09:00:00", "12:00:00")
    assert key("TIME_TRUNC(CAST(t AS TIME), HOUR)").labels[8] == "08:00:00"


def test_times_of_day_are_compared():
    early = parse("SELECT COUNT(*) FROM t WHERE t::time < '08:00'", TABLES).where
    assert early == parse("SELECT COUNT(*) FROM t WHERE HOUR(t) < 8", TABLES).where


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (
            "PARSE_DATE('%F', written)",
            "has no finite result for written = '31.1.24'",
            "TRY_STRPTIME",
        ),
        ("TO_CHAR(t, 'YYYY Q')", "not supported here", "STRFTIME"),
        ("TO_CHAR(t, 'SSSS')", "not supported here", "STRFTIME"),
        ("DATE_FORMAT(t, 'DD')", "DATE_FORMAT is not supported here", "STRFTIME"),
        ("DATE_FORMAT(t, '%M')", "DATE_FORMAT is not supported here", "STRFTIME"),
        ("DATE_FORMAT(t, '''MM''')", "DATE_FORMAT is not supported here", "STRFTIME"),
        ("FORMAT_DATE('%G', d)", "FORMAT_DATE is not supported here", "STRFTIME"),
        ("DATE_TRUNC(t, FORTNIGHT)", "unknown column 'FORTNIGHT'", "Declared: t, d"),
    ],
)
def test_what_has_no_equal_is_refused(text, what, hint):
    with pytest.raises(SqlError) as refused:
        key(text)
    assert what in refused.value.what
    assert hint in refused.value.hint
    assert key("TRY_STRPTIME(written, '%Y-%m-%d')::DATE").labels == ("2024-01-31",)


def test_a_time_of_day_has_no_mean():
    with pytest.raises(SqlError, match="this is a time, not a number"):
        parse("SELECT AVG(STRPTIME(entered, '%I:%M%p')::TIME) FROM t", TABLES)


@pytest.mark.parametrize("word", ["DIFFERENTIAL_PRIVACY", "ANONYMIZATION"])
def test_days_of_the_week_of_googlesql_count_from_1(word):
    text = f"SELECT WITH {word} {{0}} AS k, COUNT(*) AS n FROM t GROUP BY k"
    with pytest.raises(SqlError, match="1 to 7 in GoogleSQL, and 0 to 6 here") as refused:
        parse(text.format("EXTRACT(DAYOFWEEK FROM d)"), TABLES)
    assert "Write DAYOFWEEK(d) + 1:" in refused.value.hint
    (days,) = parse(text.format("DAYOFWEEK(d) + 1"), TABLES).keys
    assert days.labels == tuple(range(1, 8))
    assert key("EXTRACT(DAYOFWEEK FROM d)").labels == tuple(range(7))
