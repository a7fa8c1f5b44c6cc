"""Columns of days and of times of day: their codes, and what a clock in a time zone shows.

The codes of both count units since 1970-01-01: days, or the units of a timestamp's resolution. They
count what a clock in the column's zone shows. So functions of a time need no zone, hours follow
minutes, and an hour that a clock shows twice when it is set back is one hour.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from dpnb.codes import Code, Interval, Scale, scalar
from dpnb.errors import SchemaError, closest, given
from dpnb.schema import reading
from dpnb.schema.bins import checked_bins, edges_of

if TYPE_CHECKING:
    from dpnb.schema.columns import Constant

EPOCH = datetime.date(1970, 1, 1)
SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
"""Seconds of each unit in which times may be counted."""
DAY = SECONDS["day"]

_START = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - what a clock shows
_MICROSECOND = datetime.timedelta(microseconds=1)
_STEP = 43_200
"""No zone changes its clocks twice within so many seconds."""
_FIRST, _LAST = -2_840_140_800, 4_102_444_800
"""Changes of clocks are followed from 1880 to 2100; before and after, the offset stays."""
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
ZONELESS = "Write what a clock in the column's zone shows: '2024-01-31 08:00'."
_LOCAL = {"localtime", "Factory", "posixrules"}
"""Names of the machine's own zone, which another machine reads otherwise."""


def _as_date(value: Any) -> datetime.date:
    value = scalar(value)
    if isinstance(value, datetime.datetime) and value == value:
        if value.time() != datetime.time():
            raise SchemaError(f"{value} has a time of day", "Use a date.")
        return value.date()
    if type(value) is datetime.date:
        return value
    try:
        # only YYYY-MM-DD, not weeks of the year
        text = value if isinstance(value, str) and len(value) == 10 and "W" not in value else ""
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise SchemaError(f"{given(value)} is not a date", "Write '2024-01-31'.") from None


def days(value: Constant) -> int:
    """Return the code of a date: days since 1970-01-01."""
    return (_as_date(value) - EPOCH).days


@dataclass(frozen=True, slots=True)
class Date:
    """A column of calendar days, clamped to ``low..high``.

    An instant without a time zone of its own (PostgreSQL's timestamptz, Spark's TIMESTAMP) has its
    day in UTC.

    Parameters
    ----------
    low, high : datetime.date or str
        First and last day ('2024-01-31'), ``low < high``.
    bins : sequence of dates, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Without bins GROUP
        BY uses each day.

    Examples
    --------
    >>> Date("2024-01-01", "2024-12-31").high
    datetime.date(2024, 12, 31)
    """

    low: datetime.date
    high: datetime.date
    bins: tuple[datetime.date, ...] | None = None
    kind: ClassVar[str] = "date"
    numeric: ClassVar[bool] = False

    def __init__(
        self, low: Constant, high: Constant, bins: Sequence[Constant] | None = None
    ) -> None:
        first, last = _as_date(low), _as_date(high)
        if not first < last:
            raise SchemaError("a Date needs low < high", "Write Date('2020-01-01', '2024-12-31').")
        edges = [_as_date(edge) for edge in edges_of(bins)]
        object.__setattr__(self, "low", first)
        object.__setattr__(self, "high", last)
        object.__setattr__(self, "bins", None if bins is None else checked_bins(edges, first, last))

    @property
    def scale(self) -> Scale:
        """The days low..high, counted from 1970-01-01."""
        return Scale(days(self.low), days(self.high), integral=True)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``.

        Parameters
        ----------
        operator : {'=', '<>', '<', '<=', '>', '>='}
            As in WHERE.
        value : number, str or date
            The constant to compare with.

        Returns
        -------
        tuple of Interval
            Inclusive ranges of codes.
        """
        return self.scale.compare(operator, days(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML.

        Returns
        -------
        dict of str to value
            ``type``, and the arguments of the declaration.
        """
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        return {"type": self.kind, "low": self.low, "high": self.high, **bins}


def has_zone(value: object) -> bool:
    """Return whether a constant is an instant: a time that says how far its clock is from UTC."""
    if isinstance(value, datetime.datetime):
        return value.tzinfo is not None
    found = re.fullmatch(reading.TIME, value) if isinstance(value, str) else None
    return found is not None and found[3] is not None


def _as_time(value: Any) -> datetime.datetime:
    """Return a constant as what a clock shows."""
    value = scalar(value)
    if has_zone(value):
        raise SchemaError(f"{given(str(value))} has a zone", ZONELESS)
    if isinstance(value, datetime.datetime) and value == value:
        return value.replace(fold=0)
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, datetime.time())
    text = value.strip() if isinstance(value, str) else ""
    if _WRITTEN.fullmatch(text):
        try:
            return datetime.datetime.fromisoformat(text)
        except ValueError:
            pass
    raise SchemaError(f"{given(value)} is not a time", "Write '2024-01-31 08:00'.")


def _last(value: Any, resolution: str) -> datetime.datetime:
    """Return the last unit of a bound: that of the whole day, if it is a day without a time."""
    end = _as_time(value)
    plain = scalar(value)
    is_day = type(plain) is datetime.date or (isinstance(plain, str) and len(plain.strip()) == 10)
    return end + datetime.timedelta(seconds=DAY - SECONDS[resolution]) if is_day else end


@lru_cache(maxsize=1)
def _zones() -> tuple[str, ...]:
    return tuple(sorted(zoneinfo.available_timezones() - _LOCAL))


def _checked_zone(name: Any) -> str:
    if isinstance(name, str) and (name == "UTC" or name in _zones()):
        return str.__str__(name)
    close = closest(name, _zones()) if isinstance(name, str) else ""
    if isinstance(name, str) and not close:
        # the city alone
        ends = {zone.rpartition("/")[2]: zone for zone in reversed(_zones())}
        close = ends.get(closest(name.strip().replace(" ", "_"), list(ends)), "")
    raise SchemaError(
        f"tz={given(name)} is not a time zone",
        f"Did you mean {close!r}?" if close else "Write tz='UTC' or tz='Europe/Paris'.",
    )


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A column of times of day, counted in units of its resolution and clamped to ``low..high``.

    Times are what a clock in ``tz`` shows, cut down to whole units. A time without a zone in the
    source is taken as it stands; an instant (PostgreSQL's timestamptz, Spark's TIMESTAMP, a text
    that ends with Z or +02:00, a column of a frame with a zone of its own) is what the clock shows
    then. When the clock is set back it shows an hour twice, and both are one. Changes of clocks
    are followed from 1880 to 2100.

    Parameters
    ----------
    low, high : datetime.datetime or str
        First and last time ('2024-01-31 08:00'), ``low < high``, without a zone. A day without a
        time stands for its first unit as ``low``, and for its last one as ``high``.
    resolution : {'second', 'minute', 'hour', 'day'}
        The unit. The coarser it is, the more functions of the column can be grouped by, and the
        faster they are.
    tz : str
        Name of the zone in the IANA database, such as 'Europe/Paris'.
    bins : sequence of times, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Without bins GROUP
        BY uses each unit, or what an expression makes of them, such as ``DATE_TRUNC('month', x)``.

    Raises
    ------
    SchemaError
        For bounds that are not times, an unknown resolution, or an unknown zone.

    Examples
    --------
    >>> Timestamp("2024-01-01", "2024-12-31", resolution="hour", tz="Europe/Paris").high
    datetime.datetime(2024, 12, 31, 23, 0)
    """

    low: datetime.datetime
    high: datetime.datetime
    resolution: str = "second"
    tz: str = "UTC"
    bins: tuple[datetime.datetime, ...] | None = None
    kind: ClassVar[str] = "timestamp"
    numeric: ClassVar[bool] = False

    def __init__(
        self,
        low: Constant,
        high: Constant,
        resolution: str = "second",
        tz: str = "UTC",
        bins: Sequence[Constant] | None = None,
    ) -> None:
        if not isinstance(resolution, str) or resolution not in SECONDS:
            close = closest(resolution, list(SECONDS)) if isinstance(resolution, str) else ""
            raise SchemaError(
                f"resolution={given(resolution)} is not a unit of time",
                f"Did you mean {close!r}?"
                if close
                else "Write 'second', 'minute', 'hour' or 'day'.",
            )
        first, last, *edges = (
            _START + datetime.timedelta(seconds=_units(time, resolution) * SECONDS[resolution])
            for time in (_as_time(low), _last(high, resolution), *map(_as_time, edges_of(bins)))
        )
        if not first < last:
            raise SchemaError(
                "a Timestamp needs low < high", "Write Timestamp('2024-01-01', '2024-12-31')."
            )
        entries = {
            "low": first,
            "high": last,
            "resolution": str.__str__(resolution),
            "tz": _checked_zone(tz),
            "bins": None if bins is None else checked_bins(edges, first, last),
        }
        for name, value in entries.items():
            object.__setattr__(self, name, value)

    @property
    def scale(self) -> Scale:
        """The units low..high, counted from 1970-01-01."""
        low, high = (_units(end, self.resolution) for end in (self.low, self.high))
        return Scale(low, high, integral=True)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``.

        Parameters
        ----------
        operator : {'=', '<>', '<', '<=', '>', '>='}
            As in WHERE.
        value : str, date or time
            What a clock in the column's zone shows; a day is its midnight.

        Returns
        -------
        tuple of Interval
            Inclusive ranges of codes.
        """
        microseconds = int((_as_time(value) - _START) // _MICROSECOND)
        return self.scale.compare(
            operator, Fraction(microseconds, SECONDS[self.resolution] * 1_000_000)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML.

        Returns
        -------
        dict of str to value
            ``type``, and the arguments of the declaration.
        """
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        own = {"resolution": self.resolution, "tz": self.tz}
        return {"type": self.kind, "low": self.low, "high": self.high, **own, **bins}


def _units(time: datetime.datetime, resolution: str) -> int:
    return int((time - _START) // datetime.timedelta(seconds=SECONDS[resolution]))


def seconds(kind: Date | Timestamp) -> int:
    """Return the length of the unit that a column's codes count."""
    return DAY if isinstance(kind, Date) else SECONDS[kind.resolution]


def code_of(kind: Date | Timestamp, value: Constant) -> int:
    """Return the code of a day, or of the unit that a time is in."""
    return days(value) if isinstance(kind, Date) else _units(_as_time(value), kind.resolution)


def value_of(kind: Date | Timestamp, code: Code) -> datetime.date:
    """Return the day of a code, or the first moment of its unit.

    Examples
    --------
    >>> str(value_of(Timestamp("2024-01-01", "2024-12-31", "hour"), 473_000))
    '2023-12-17 08:00:00'
    """
    if isinstance(kind, Date):
        return EPOCH + datetime.timedelta(int(code))
    return _START + datetime.timedelta(seconds=int(code) * seconds(kind))


def text_of(kind: Date | Timestamp, code: Code) -> str:
    """Return the day or time of a code as a text; only a unit shorter than a day has a time."""
    return str(value_of(kind, code))[: 10 if seconds(kind) == DAY else None]


@lru_cache(maxsize=64)
def offsets(kind: Timestamp) -> tuple[tuple[int, int], ...]:
    """Return by how many seconds the zone's clock is ahead of UTC, and from which instant on.

    Instants are in seconds since 1970-01-01 in UTC, ascending; the first offset also holds before.
    They reach one day beyond the column's bounds: what a clock shows then is beyond them. Before
    1880 and after 2100 an offset stays.

    Examples
    --------
    >>> offsets(Timestamp("2024-01-01", "2024-12-31", tz="Europe/Paris"))
    ((1703980800, 3600), (1711846800, 7200), (1729990800, 3600))
    """
    # a machine may have no database of zones
    zone = datetime.UTC if kind.tz == "UTC" else zoneinfo.ZoneInfo(kind.tz)
    unit = seconds(kind)
    ends = int(kind.scale.low) * unit - DAY, (int(kind.scale.high) + 1) * unit + DAY
    first, last = (min(max(end, _FIRST), _LAST) for end in ends)

    def offset(instant: int) -> int:
        ahead = datetime.datetime.fromtimestamp(instant, zone).utcoffset()
        assert ahead is not None  # noqa: S101 - a zone of the database has one
        return int(ahead.total_seconds())

    found = [(first, offset(first))]
    for stop in range(first + _STEP, last + _STEP, _STEP):
        if offset(stop) == found[-1][1]:
            continue
        before, change = stop - _STEP, stop
        while change - before > 1:
            middle = (before + change) // 2
            if offset(middle) == found[-1][1]:
                before = middle
            else:
                change = middle
        found.append((change, offset(change)))
    return tuple(found)
