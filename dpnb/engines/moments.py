"""The public rule for times in SQL that every engine reads: from seconds to codes.

An instant is counted in seconds since 1970-01-01 in UTC, and what a clock shows in seconds since
it showed 1970-01-01. The offset of a zone's clock comes from ``dpnb.schema.timestamps``, so no
engine's own zones, and no setting of a session, have a say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dpnb.engines.dialect import clamp, smallest_integer
from dpnb.engines.steps import literal
from dpnb.schema.columns import Kind
from dpnb.schema.timestamps import Timestamp, offsets, seconds


def clocks(kinds: Iterable[Kind]) -> bytes:
    """Return a digest of the offsets by which columns of times are read; nothing if all are in UTC.

    A newer database of zones may read the same bytes otherwise, and that makes another table.
    """
    zoned = [kind for kind in kinds if isinstance(kind, Timestamp) and kind.tz != "UTC"]
    tables = repr([(kind.tz, offsets(kind)) for kind in zoned])
    return hashlib.sha256(tables.encode()).digest() if zoned else b""


def wall(kind: Timestamp, instant: str) -> str:
    """Return the SQL of what a clock in a column's zone shows at an instant."""
    return _shown(offsets(kind), instant)


def _shown(table: Sequence[tuple[int, int]], instant: str) -> str:
    if len(table) == 1:
        ((_, ahead),) = table
        return f"({instant} + ({ahead}))" if ahead else instant
    middle = len(table) // 2
    before, after = _shown(table[:middle], instant), _shown(table[middle:], instant)
    # an instant that is missing passes the test for neither, and stays so
    return f"(CASE WHEN {instant} < {table[middle][0]} THEN {before} ELSE {after} END)"


def code_of_time(kind: Timestamp, shown: str) -> str:
    """Return the SQL of the code of what a clock shows, a BIGINT or missing."""
    unit, scale = seconds(kind), kind.scale
    low, high = int(scale.low), int(scale.high)
    clamped = clamp(shown, str(low * unit), str(high * unit))
    if unit > 1:
        # exact: all are whole numbers below 2**53
        clamped = f"FLOOR(CAST({clamped} AS DOUBLE) / {literal(float(unit))})"
    return f"CAST({clamped} AS {smallest_integer(low, high)})"


def ahead_of(zone: str, part: str) -> str:
    """Return the SQL of the seconds by which a written zone is ahead of UTC.

    ``zone`` is the SQL of its text, which is empty for none, and ``part`` a format of the SQL of a
    whole number between two places of a text.
    """
    hours, minutes = part.format(zone, 2, 2), part.format(f"REPLACE({zone}, ':', '')", 4, 2)
    size = f"COALESCE({hours}, 0) * 3600 + COALESCE({minutes}, 0) * 60"
    return f"CASE WHEN SUBSTR({zone}, 1, 1) = '-' THEN -({size}) ELSE {size} END"
