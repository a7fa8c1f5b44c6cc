"""Groups of a column in SQL: the number of a code's group.

No expression of a statement is sent to an engine. Rows get their codes from the public rule, and
codes get the numbers of their groups by one look-up, the same for every row.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

from dpnb.codes import Code, Scale, StepFunction
from dpnb.schema.columns import Category
from dpnb.schema.partition import Partition

MOST_CASES = 60
"""So many intervals are compared one after the other; more of them are looked up."""
MOST_CODES = 2**20
"""Columns of more codes are searched, as those of real numbers are."""
MOST_FIRST = 2**14
"""Rows are grouped by codes first, and codes by their groups then, if that makes so few groups."""


def literal(code: Code) -> str:
    """Return the SQL of a code."""
    # a bare 0.1 would be a DECIMAL; the text of a double is read back exactly
    return str(code) if isinstance(code, int) else f"CAST('{code!r}' AS DOUBLE)"


def number(key: Partition, column: str) -> str:
    """Return the SQL of the number of a code's group, NULL for none.

    If :func:`is_looked_up`, it is a column of the relation of :func:`codes`.
    """
    null = key.numbers.null
    if is_looked_up(key):
        found = f"{name(key)}_number"
        return found if null is None else f"CASE WHEN {column} IS NULL THEN {null} ELSE {found} END"
    if _each(key):
        low = key.numbers.pieces[0][0]
        # in BIGINT: a narrow type would overflow for some values
        shifted = (
            column
            if isinstance(key.kind, Category)
            else f"CAST({column} AS BIGINT) - ({literal(low)})"
        )
        return shifted if null is None else f"COALESCE({shifted}, {null})"
    if len(key.numbers.pieces) > MOST_CASES:
        found = _searched(key.numbers.pieces, column)
        return (
            f"CASE WHEN {column} IS NULL THEN {'NULL' if null is None else null} ELSE {found} END"
        )
    return _cases(key, column)


def is_looked_up(key: Partition) -> bool:
    """Return whether the groups are in a relation of their own: each code, with its number."""
    scale = key.kind.scale
    return (
        len(key.numbers.pieces) > MOST_CASES
        and scale.integral
        and scale.high - scale.low < MOST_CODES
        and not _each(key)
    )


def grouped_first(keys: Sequence[Partition]) -> tuple[bool, ...]:
    """Return for each key whether rows are grouped by its codes, and only then by its groups.

    A column then takes as long as its own values do, whatever the groups are.
    """
    first = [not key.declared and key.kind.scale.integral for key in keys]
    sizes = (
        _count(key.kind.scale) + 1 if by_code else key.size
        for key, by_code in zip(keys, first, strict=True)
    )
    few = math.prod(sizes) <= MOST_FIRST
    return tuple(by_code and few for by_code in first)


def name(key: Partition) -> str:
    """Return how the columns of a relation of codes begin, the same for equal groups."""
    return f"s{hashlib.sha256(json.dumps(key.plain()).encode()).hexdigest()[:16]}"


def codes(key: Partition, series: str) -> str:
    """Return the relation of all codes in a group, with its number.

    ``series`` is the SQL of all whole numbers from ``low`` to ``high``.
    """
    pieces = ", ".join(f"({low}, {high}, {group})" for low, high, group in key.numbers.pieces)
    return (
        f"(SELECT {series} AS {name(key)}_code, n AS {name(key)}_number "
        f"FROM (VALUES {pieces}) AS pieces(low, high, n))"
    )


def _each(key: Partition) -> bool:
    """Return whether each code is a group of its own."""
    scale = key.kind.scale
    missing = key.numbers.null is not None
    return scale.integral and key.size - missing == _count(scale) == len(key.numbers.pieces)


def _count(scale: Scale) -> int:
    return int(scale.high - scale.low) + 1


def _cases(key: Partition, column: str) -> str:
    scale, null = key.kind.scale, key.numbers.null
    start, cases = scale.low, []
    for low, high, group in key.numbers.pieces:
        if low == start:
            # all codes below were met before
            test, start = f"{column} <= {literal(high)}", scale.next(high)
        elif low == high:
            test = f"{column} = {literal(low)}"
        else:
            test = f"{column} BETWEEN {literal(low)} AND {literal(high)}"
        cases.append(f"WHEN {test} THEN {group}")
    if null is None:
        return f"CASE {' '.join(cases)} END" if cases else "NULL"
    if start > scale.high:
        return f"CASE {' '.join(cases)} ELSE {null} END"
    return f"CASE {' '.join([*cases, f'WHEN {column} IS NULL THEN {null}'])} END"


def _searched(pieces: Sequence[tuple[Code, Code, object]], column: str) -> str:
    """Return the SQL of a search among intervals, for what stands beside the one that is found."""
    if len(pieces) == 1:
        ((low, high, output),) = pieces
        return f"CASE WHEN {column} BETWEEN {literal(low)} AND {literal(high)} THEN {output} END"
    middle = len(pieces) // 2
    below, above = _searched(pieces[:middle], column), _searched(pieces[middle:], column)
    return f"CASE WHEN {column} < {literal(pieces[middle][0])} THEN {below} ELSE {above} END"


def mapped(function: StepFunction[str], column: str) -> str:
    """Return the SQL of a step function whose outputs are SQL."""
    found = _searched(function.pieces, column) if function.pieces else "NULL"
    null = "NULL" if function.null is None else function.null
    return f"(CASE WHEN {column} IS NULL THEN {null} ELSE {found} END)"
