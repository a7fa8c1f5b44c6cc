"""Public facts of a table of persons: what its name says, and the bounds of its columns.

A table of persons has one row for each id of another table (``GROUP BY id``), or one for each id
and key. Its columns are functions of the id's kept rows. So adding or removing all rows of one id
changes no other row, and the table has a privacy unit of its own, of one row
(docs/methods/expressions.md, theorem 16).

Its name is its whole definition as JSON, so whatever the ledger says of such a table says what it
is. No name of another table begins with ``{``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpnb.schema.columns import MAX_INTEGER, Integer, Real

MAX_LEVELS = 4
"""Tables of persons may be made of tables of persons, so many in all."""


def is_persons(name: str) -> bool:
    """Return whether a name is that of a table of persons.

    Examples
    --------
    >>> is_persons("sales"), is_persons('{"by": "customer_id", "of": "sales"}')
    (False, True)
    """
    return name.startswith("{")


def name_of(definition: Mapping[str, Any]) -> str:
    """Return the name of a table of persons with this definition; equal ones have equal names."""
    return json.dumps(definition, sort_keys=True, ensure_ascii=False, separators=(", ", ": "))


@lru_cache(maxsize=256)
def definition_of(name: str) -> Mapping[str, Any]:
    """Return the definition of a table of persons: the inverse of :func:`name_of`.

    Returns
    -------
    mapping
        ``of``: the name of the table whose rows are grouped, or its definition if it has persons,
        too; ``by``: the id column; ``kept``: the most rows of one id there; ``keys``: the columns
        besides the id; ``where``: the condition on the rows; ``features``: the other columns.
        Rows with the lines of their ids have ``lines`` instead, a list of definitions.
    """
    definition: Mapping[str, Any] = json.loads(name)
    return definition


def origin(name: str) -> str:
    """Return the name of the table whose rows a table of persons is made of; of another, its own.

    Examples
    --------
    >>> origin("sales"), origin('{"by": "customer_id", "of": {"by": "customer_id", "of": "sales"}}')
    ('sales', 'sales')
    """
    if not is_persons(name):
        return name
    of = definition_of(name)["of"]
    while not isinstance(of, str):
        of = of["of"]
    return of


def shown_name(name: str) -> str:
    """Return a table's name as people read it.

    Examples
    --------
    >>> shown_name("sales"), shown_name('{"by": "customer_id", "of": "sales"}')
    ('sales', 'sales by customer_id')
    """
    return f"{origin(name)} by {definition_of(name)['by']}" if is_persons(name) else name


def kept_rows(name: str) -> int | None:
    """Return the most rows of one id that a table of persons looks at; None for another table."""
    if not is_persons(name):
        return None
    definition = definition_of(name)
    while not isinstance(definition["of"], str):
        definition = definition["of"]
    return int(definition["kept"])


def whole_kind(low: int, high: int) -> Integer | None:
    """Return the kind of a column of whole numbers within bounds; None if they are too large.

    A column that always has the same value has bounds with a number between.
    """
    if low == high:
        low, high = min(low, 0), max(high, 1)
    return Integer(low, high) if max(-low, high) <= MAX_INTEGER else None


def real_kind(low: Fraction, high: Fraction) -> Real | None:
    """Return the kind of a column of reals within bounds; None if they are too large."""
    if low == high:
        low, high = min(low, Fraction(0)), max(high, Fraction(1))
    ends = _outward(low, high)
    return Real(*ends) if max(map(abs, ends)) < 1e150 else None


def _outward(low: Fraction, high: Fraction) -> tuple[float, float]:
    """Return the narrowest floats around two rationals."""
    first, last = float(low), float(high)
    if Fraction(first) > low:
        first = math.nextafter(first, -math.inf)
    if Fraction(last) < high:
        last = math.nextafter(last, math.inf)
    return first, last


def sum_bounds(
    low: Fraction, high: Fraction, most: int, *, every: bool
) -> tuple[Fraction, Fraction]:
    """Return the bounds of a sum over at most ``most`` rows of one id.

    ``every`` says that each row has the value: the sum is then over at least one.

    Examples
    --------
    >>> sum_bounds(Fraction(5), Fraction(10), 3, every=False)
    (Fraction(0, 1), Fraction(30, 1))
    >>> sum_bounds(Fraction(5), Fraction(10), 3, every=True)
    (Fraction(5, 1), Fraction(30, 1))
    """
    if every:
        return min(low, most * low), max(high, most * high)
    return most * min(low, Fraction(0)), most * max(high, Fraction(0))
