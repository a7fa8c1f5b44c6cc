"""From checked trees to DuckDB's SQL over the coded rows. No text of an analyst ever gets here."""

from __future__ import annotations

from collections.abc import Sequence

from dpnb.engines.base import MAX_SUMMED, Axis, Count, Measure, Sum
from dpnb.engines.contributions import ContributionScan, Part
from dpnb.engines.marginals import MarginalScan
from dpnb.kinds import Category, Integer, Kind, Real
from dpnb.scale import Code
from dpnb.schema import Schema
from dpnb.sql.query import And, Predicate, Within
from dpnb.sql.values import Arithmetic, Column, Number, Value, bounds_of

WHOLE = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "BOOLEAN",
}  # fmt: skip
"""DuckDB's types of whole numbers."""


def _code(code: Code) -> str:
    # a bare 0.1 would be a DECIMAL; the text of a double is read back exactly
    return str(code) if isinstance(code, int) else f"CAST('{code!r}' AS DOUBLE)"


def _clamp(value: str, low: str, high: str) -> str:
    # CASE, not LEAST and GREATEST: those turn NULL into a bound
    return (
        f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {value} END"
    )


def _smallest_integer(low: int, high: int) -> str:
    for name, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INTEGER", 31)):
        if -(2**bits) <= low and high < 2**bits:
            return name
    return "BIGINT"


def normaliser(kind: Kind, column: str, source_type: str, enum: str) -> str:
    """Return the SQL that maps a source value to its code."""
    if isinstance(kind, Category):
        found = f"enum_code(TRY_CAST(CAST({column} AS VARCHAR) AS {enum}))"
        if kind.other is None:
            return found
        other = kind.values.index(kind.other)
        return f"CASE WHEN {column} IS NOT NULL THEN COALESCE({found}, {other}) END"
    if isinstance(kind, Integer):
        result = _smallest_integer(kind.low, kind.high)
        if source_type == "BOOLEAN":
            column = f"CAST({column} AS TINYINT)"
        if source_type in WHOLE:
            return f"CAST({_clamp(column, str(kind.low), str(kind.high))} AS {result})"
        real = f"TRY_CAST({column} AS DOUBLE)"
        # not FLOOR(x + 0.5), which is wrong just below one half and above 2**52
        nearest = f"(FLOOR({real}) + CASE WHEN {real} - FLOOR({real}) >= 0.5 THEN 1 ELSE 0 END)"
        clamped = _clamp(nearest, _code(float(kind.low)), _code(float(kind.high)))
        return f"CASE WHEN isfinite({real}) THEN CAST({clamped} AS {result}) END"
    if isinstance(kind, Real):
        real = f"TRY_CAST({column} AS DOUBLE)"
        clamped = _clamp(real, _code(kind.low), _code(kind.high))
        return f"CASE WHEN isfinite({real}) THEN {clamped} + 0.0::DOUBLE END"
    day = f"TRY_CAST({column} AS DATE)"
    clamped = _clamp(day, *(f"DATE '{end.isoformat()}'" for end in (kind.low, kind.high)))
    return f"CASE WHEN isfinite({day}) THEN CAST({clamped} - DATE '1970-01-01' AS INTEGER) END"


class Dialect:
    """The SQL of one schema's columns, which are called c0, c1, ... in declared order."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._places = {name: f"c{i}" for i, name in enumerate(schema)}

    def column(self, name: str) -> str:
        """Return the name of a column of codes."""
        return self._places[name]

    def predicate(self, predicate: Predicate) -> str:
        """Return the SQL of a predicate; NULL counts as false."""
        if isinstance(predicate, Within):
            column = self.column(predicate.column)
            tests = [
                f"{column} = {_code(low)}"
                if low == high
                else f"{column} BETWEEN {_code(low)} AND {_code(high)}"
                for low, high in predicate.intervals
            ]
            if predicate.null:
                tests.append(f"{column} IS NULL")
            return f"({' OR '.join(tests)})"
        conjunction = isinstance(predicate, And)
        if not predicate.parts:
            return "TRUE" if conjunction else "FALSE"
        word = " AND " if conjunction else " OR "
        return f"({word.join(self.predicate(part) for part in predicate.parts)})"

    def cell(self, name: str) -> tuple[str, int]:
        """Return the SQL of a column's cell number, and the number of cells."""
        kind, column = self._schema[name], self.column(name)
        cells = kind.cells()
        if isinstance(kind, Category):
            return column, len(cells)
        if kind.bins is None:
            # in BIGINT: a narrow type would overflow for some values
            return f"CAST({column} AS BIGINT) - ({_code(cells[0].low)})", len(cells)
        cases = " ".join(
            f"WHEN {column} BETWEEN {_code(cell.low)} AND {_code(cell.high)} THEN {i}"
            for i, cell in enumerate(cells)
        )
        return f"CASE {cases} END", len(cells)

    def place(self, axis: Axis) -> str:
        """Return the SQL of the number of a row's cell on an axis; never NULL."""
        column, last = self.column(axis.column), len(axis.cells)
        if all(low == high for low, high in axis.cells):
            number = f"CAST({column} AS BIGINT) - ({_code(axis.cells[0][0])})"
            return f"COALESCE({number}, {last})"
        cases = " ".join(
            f"WHEN {column} <= {_code(high)} THEN {i}" for i, (_, high) in enumerate(axis.cells)
        )
        return f"CASE {cases} ELSE {last} END"

    def terms(self, measure: Measure, condition: Predicate) -> list[tuple[str, int]]:
        """Return integer aggregates and weights whose weighted sum is the measure in ticks."""
        # CASE, not FILTER: DuckDB's time for filters grows with the square of their number
        test = "" if condition == And(()) else f"CASE WHEN {self.predicate(condition)} THEN "

        def given(sql: str) -> str:
            return f"{test}{sql} END" if test else sql

        if isinstance(measure, Count):
            if measure.value is None:
                return [(f"COUNT({given('1')})" if test else "COUNT(*)", 1)]
            return [(f"COUNT({given(self.value(measure.value))})", 1)]
        value = self.value(measure.value)
        if measure.rounded:
            ticks = f"CAST({self._rounded_ticks(measure, value)} AS INTEGER)"
            return [(f"CAST(SUM({given(ticks)}) AS BIGINT)", 1)]
        scale = int(1 / measure.step)
        offset = int(measure.shift / measure.step)
        if measure.largest > MAX_SUMMED:
            # sums of the values themselves could leave 64 bits; those of their ticks cannot
            ticks = f"CAST({value} AS BIGINT) * {scale} - ({offset})"
            return [(f"CAST(SUM({given(ticks)}) AS BIGINT)", 1)]
        terms = [(f"CAST(SUM({given(value)}) AS BIGINT)", scale)]
        return terms if offset == 0 else [*terms, (f"COUNT({given(value)})", -offset)]

    def _rounded_ticks(self, measure: Sum, value: str) -> str:
        real = f"CAST({value} AS DOUBLE)"
        shifted = real if measure.shift == 0 else f"({real} - {_code(float(measure.shift))})"
        ticks = f"FLOOR({shifted} / {_code(float(measure.step))} + 0.5::DOUBLE)"
        if isinstance(measure.value, Column):
            return ticks
        # float arithmetic may end outside the bounds of the exact value, and far outside when large
        # numbers cancel; the sensitivity rests on these ends
        return _clamp(ticks, _code(float(measure.least)), _code(float(measure.greatest)))

    def value(self, value: Value) -> str:
        """Return the SQL of a value: BIGINT where it is integral and no bare column, else DOUBLE."""
        if isinstance(value, Column):
            return self.column(value.name)
        if isinstance(value, Number):
            if bounds_of(value, self._schema).integral:
                return f"CAST({value.value.numerator} AS BIGINT)"
            return _code(float(value.value))
        # one type throughout: narrow integers overflow, and DuckDB would pick decimals for some
        kind = "BIGINT" if bounds_of(value, self._schema).integral else "DOUBLE"

        def part(inner: Value) -> str:
            return f"CAST({self.value(inner)} AS {kind})"

        if isinstance(value, Arithmetic):
            return f"({part(value.left)} {value.operator} {part(value.right)})"
        branches = " ".join(
            f"WHEN {self.predicate(condition)} THEN {self._result(result, kind)}"
            for condition, result in value.branches
        )
        return f"(CASE {branches} ELSE {self._result(value.default, kind)} END)"

    def _result(self, value: Value | None, kind: str) -> str:
        return f"CAST({'NULL' if value is None else self.value(value)} AS {kind})"

    def in_groups(self, scan: MarginalScan) -> str:
        """Return the SQL of whether a row is in one of the scan's groups."""
        keys = [self.cell(name)[0] for name in scan.keys]
        if len(keys) == 1:
            return f"{keys[0]} IN ({', '.join(str(cell) for (cell,) in scan.groups)})"
        groups = (
            " AND ".join(f"{key} = {cell}" for key, cell in zip(keys, group, strict=True))
            for group in scan.groups
        )
        return f"({' OR '.join(groups)})" if keys else "TRUE"

    def joint(self, attributes: Sequence[str], scan: MarginalScan) -> str:
        """Return the SQL of a row's joint code over an attribute set, its group last."""
        kind = "INTEGER" if scan.codes(attributes) < 2**31 else "BIGINT"
        joint = "0"
        for name in attributes:
            code = f"COALESCE({self.cell(name)[0]}, {scan.sizes[name]})"
            joint = f"({joint}) * {scan.sizes[name] + 1} + CAST({code} AS {kind})"
        for name in scan.keys:
            cell, size = self.cell(name)
            joint = f"({joint}) * {size} + CAST({cell} AS {kind})"
        return joint

    def cell_of(self, names: Sequence[str]) -> str:
        """Return the SQL of a row's cell number over some columns; -1 where one is missing."""
        number = "0"
        for name in names:
            cell, size = self.cell(name)
            number = f"({number}) * {size} + ({cell})"
        return f"COALESCE(CAST({number} AS BIGINT), -1)"

    def contribution(self, part: Part) -> str:
        """Return the SQL of what one row adds to a measure, in ticks; 0 where it adds nothing."""
        # bins may leave out some values
        present = [f"{self.cell(name)[0]} IS NOT NULL" for name in part.keys]
        test = " AND ".join([self.predicate(part.where), *present])
        measure = part.measure
        if isinstance(measure, Count):
            if measure.value is not None:
                test += f" AND {self.value(measure.value)} IS NOT NULL"
            return f"CASE WHEN {test} THEN CAST(1 AS TINYINT) ELSE CAST(0 AS TINYINT) END"
        value = self.value(measure.value)
        if measure.rounded:
            ticks = self._rounded_ticks(measure, value)
        else:
            scale, offset = int(1 / measure.step), int(measure.shift / measure.step)
            ticks = f"CAST({value} AS BIGINT) * {scale} - ({offset})"
        kind = _smallest_integer(min(measure.least, 0), max(measure.greatest, 0))
        return f"COALESCE(CASE WHEN {test} THEN CAST({ticks} AS {kind}) END, CAST(0 AS {kind}))"

    def score(self, scan: ContributionScan, places: Sequence[str]) -> str:
        """Return the SQL of a row's score in whole steps, from the columns of what it adds."""
        terms = []
        for part, place in zip(scan.parts, places, strict=True):
            size = f"(abs(CAST({place} AS DOUBLE)) / {_code(float(part.measure.sensitivity))})"
            factors = (
                (_code(part.weight), size, size) if scan.squared else (_code(part.weight), size)
            )
            terms.append(" * ".join(factors))
        mean = " + ".join(terms)
        mean = f"sqrt({mean})" if scan.squared else f"({mean})"
        return f"CAST({_clamp(f'ceil({scan.steps} * {mean})', '0', str(scan.steps))} AS INTEGER)"
