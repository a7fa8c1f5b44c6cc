"""Columns that explanations leave out because they have no bins, and schema lines to add some."""

from __future__ import annotations

from collections.abc import Mapping

from dpnb.schema.columns import Category, Integer, Kind
from dpnb.schema.timestamps import Date, Timestamp, text_of
from dpnb.schema.types import Boolean

PARTS = 4
MOST_LINES = 3
"""Largest number of columns whose schema lines are shown."""


def remedy(name: str, kind: Kind) -> str:
    """Return what makes a column a candidate: a line of the schema, with bins of equal width.

    The bounds are public, and so are their quarters. Two whole numbers would fall into one bin, so
    for them it is a condition.

    Examples
    --------
    >>> from dpnb.schema.columns import Real
    >>> remedy("wage", Real(0, 200))
    '"wage": dpnb.Real(0, 200, bins=[0, 50, 100, 150, 200])'
    >>> remedy("children", Integer(0, 3)), remedy("member", Integer(0, 1))
    ('"children": dpnb.Integer(0, 3, bins=[0, 1, 2, 3])', 'member > 0')
    """
    assert not isinstance(kind, Category | Boolean)  # noqa: S101 - their values are candidates
    low, high = kind.scale.low, kind.scale.high
    if isinstance(kind, Date | Timestamp):
        edges = [f"'{text_of(kind, code)}'" for code in _quarters(int(low), int(high))]
    elif isinstance(kind, Integer):
        edges = [str(edge) for edge in _quarters(kind.low, kind.high)]
    else:
        inner = (kind.low + (kind.high - kind.low) * i / PARTS for i in range(PARTS + 1))
        edges = [_number(edge) for edge in sorted({*inner, kind.low, kind.high})]
    if len(edges) < 3:
        return f"{name} > {edges[0]}"
    arguments = f"{edges[0]}, {edges[-1]}, "
    if isinstance(kind, Timestamp):
        arguments += f"resolution={kind.resolution!r}, tz={kind.tz!r}, "
    arguments += f"bins=[{', '.join(edges)}]"
    return f'"{name}": dpnb.{type(kind).__name__}({arguments})'


def _quarters(low: int, high: int) -> list[int]:
    return sorted({low + (high - low) * i // PARTS for i in range(PARTS + 1)})


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def unbinned_sentence(columns: Mapping[str, str]) -> str:
    """Return a sentence: which columns are left out, and what to write; empty if there are none.

    ``columns`` maps each column to what makes it a candidate, as :func:`remedy` returns it.
    """
    if not columns:
        return ""
    lines = [line for line in columns.values() if line[:1] == '"']
    conditions = [line for line in columns.values() if line[:1] != '"']
    alone = len(columns) == 1
    clause = (
        f"{', '.join(columns)} {'has no bins and is' if alone else 'have no bins and are'} left out"
    )
    ways = []
    if lines:
        more = f" and {len(lines) - MOST_LINES:,} more" if len(lines) > MOST_LINES else ""
        ways.append(f"declare bins in the schema, such as {', '.join(lines[:MOST_LINES])}{more}")
    if conditions:
        ways.append(f'list conditions as predicates, such as ["{conditions[0]}"]')
    return f"{clause}. To use {'it' if alone else 'them'}, {', or '.join(ways)}."
