"""Groups of a column in SQL: the number of a code's group.

No expression of a statement is sent to an engine. Rows get their codes from the public rule, and
codes get the numbers of their groups by one look-up, the same for every row.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dpnb.codes import Code, Periodic, Scale, StepFunction, Steps
from dpnb.schema.columns import MAX_INTEGER, Category
from dpnb.schema.partition import Partition

Output = TypeVar("Output")

MOST_CASES = 60
"""So many intervals are compared one after the other; more of them are looked up."""
MOST_CODES = 2**20
"""Functions of more codes, or cells of codes, are searched, as those of real numbers are."""
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
    null = key.null
    if isinstance(key.steps, Periodic):
        found = _repeated(key.steps, key.kind.scale, column)
        # a code without output is in no group
        return found if null is None else f"CASE WHEN {column} IS NULL THEN {null} ELSE {found} END"
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
        not isinstance(key.steps, Periodic)
        and len(key.numbers.pieces) > MOST_CASES
        and scale.integral
        and cells(key.numbers, scale, MOST_CODES).count <= MOST_CODES
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


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of ``step`` codes each, numbered from ``first``: the codes of a timestamp by the hour."""

    first: int
    step: int
    count: int

    def number(self, code: Code) -> int:
        """Return the number of a code's cell."""
        return self.first + (int(code) - self.first) // self.step

    def sql(self, code: str) -> str:
        """Return the SQL of the number of a code's cell, a BIGINT."""
        if self.step == 1:
            return f"CAST({code} AS BIGINT)"
        # exact: all are whole numbers below 2**53
        place = f"(CAST({code} AS DOUBLE) - ({self.first})) / {literal(float(self.step))}"
        return f"CAST(FLOOR({place}) AS BIGINT) + ({self.first})"


def cells(function: StepFunction[Any], scale: Scale, most: int) -> Cells:
    """Return cells within which a function of whole numbers is constant, single codes if these are few.

    Examples
    --------
    >>> hours = StepFunction((3_600 * n, 3_600 * n + 3_599, n % 24) for n in range(48))
    >>> cells(hours, Scale(0, 172_799, integral=True), 10_000)
    Cells(first=0, step=3600, count=48)
    """
    low, high = int(scale.low), int(scale.high)
    if high - low < most or high - low >= MAX_INTEGER:
        return Cells(low, 1, high - low + 1)
    ends = [int(first) for first, _, _ in function.pieces if first > low]
    ends += [int(last) + 1 for _, last, _ in function.pieces if last < high]
    step = math.gcd(*(end - ends[0] for end in ends)) or high - low + 1
    first = low if not ends else ends[0] - -(-(ends[0] - low) // step) * step
    return Cells(first, step, (high - first) // step + 1)


def place(key: Partition, code: str) -> str:
    """Return the SQL of what is looked up for a code in the relation of :func:`codes`."""
    return cells(key.numbers, key.kind.scale, MOST_CODES).sql(code)


def codes(key: Partition, series: str) -> str:
    """Return the relation of all :func:`cells` of codes in a group, with its number.

    ``series`` is the SQL of all whole numbers from ``low`` to ``high``.
    """
    number = cells(key.numbers, key.kind.scale, MOST_CODES).number
    pieces = ", ".join(
        f"({number(low)}, {number(high)}, {group})" for low, high, group in key.numbers.pieces
    )
    return (
        f"(SELECT {series} AS {name(key)}_code, n AS {name(key)}_number "
        f"FROM (VALUES {pieces}) AS pieces(low, high, n))"
    )


def _each(key: Partition) -> bool:
    """Return whether each code is a group of its own."""
    scale = key.kind.scale
    missing = key.null is not None
    return scale.integral and key.size - missing == _count(scale) == len(key.numbers.pieces)


def _count(scale: Scale) -> int:
    return int(scale.high - scale.low) + 1


def _cases(key: Partition, column: str) -> str:
    scale, null = key.kind.scale, key.null
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


def place_in(function: Periodic[Any], scale: Scale, code: str) -> str:
    """Return the SQL of a code's place in a repetition, in units of it."""
    period, low, unit = function.period, int(scale.low), function.unit
    # remainders of negative numbers are not alike in all engines
    first = low - low % period
    found = f"MOD(CAST({code} AS BIGINT) - ({first}), {period})"
    if unit > 1:
        found = f"CAST(FLOOR(CAST({found} AS DOUBLE) / {literal(float(unit))}) AS BIGINT)"
    return found


def _repeated(function: Periodic[int], scale: Scale, column: str) -> str:
    """Return the SQL of the output of a code, NULL if it has none or is missing."""
    found, place = function.repetition, place_in(function, scale, column)
    return place if found == [*range(len(found))] else _in_units(function, place)


def _in_units(function: Periodic[Any], place: str) -> str:
    unit = function.unit
    pieces = [(low // unit, high // unit, output) for low, high, output in function.steps.pieces]
    return _searched(pieces, place) if pieces else "NULL"


def mapped(function: Steps[str], column: str, scale: Scale) -> str:
    """Return the SQL of a step function of a scale, whose outputs are SQL."""
    null = "NULL" if function.null is None else function.null
    if isinstance(function, Periodic):
        searched = _in_units(function, place_in(function, scale, column))
        return f"(CASE WHEN {column} IS NULL THEN {null} ELSE {searched} END)"
    found = runs(function, scale)
    if len(found) > MOST_CASES:
        return f"(CASE WHEN {column} IS NULL THEN {null} ELSE {_searched(function.pieces, column)} END)"
    cases = [
        f"WHEN {column} < {literal(end)} THEN {output or 'NULL'}"
        for (_, output), (end, _) in itertools.pairwise(found)
    ]
    start, output = found[-1]
    # a missing value is neither below nor above
    cases.append(f"WHEN {column} >= {literal(start)} THEN {output or 'NULL'}")
    return f"(CASE {' '.join(cases)} ELSE {null} END)"


def runs(function: StepFunction[Output], scale: Scale) -> list[tuple[Code, Output | None]]:
    """Return the first code of each piece of a whole scale with its output, None where there is none.

    Examples
    --------
    >>> runs(StepFunction([(2, 3, "a"), (4, 4, "b")]), Scale(0, 9, integral=True))
    [(0, None), (2, 'a'), (4, 'b'), (5, None)]
    """
    found: list[tuple[Code, Output | None]] = []
    start = scale.low
    for low, high, output in function.pieces:
        if start < low:
            found.append((start, None))
        found.append((low, output))
        start = scale.next(high)
    return [*found, (start, None)] if start <= scale.high or not found else found
