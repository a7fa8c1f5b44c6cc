"""From checked trees to SQL over the coded rows. No text of an analyst ever gets here."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpnb.codes import Code, Steps
from dpnb.engines import steps
from dpnb.engines.bounding import order_of_cells, order_of_rows
from dpnb.engines.contributions import FINE, ContributionScan, Part
from dpnb.engines.ids import IdRule
from dpnb.engines.marginals import MarginalScan
from dpnb.engines.steps import literal
from dpnb.schema.columns import code_bytes
from dpnb.schema.joins import Join
from dpnb.schema.partition import Partition
from dpnb.schema.predicates import EVERY, And, Compared, Predicate, Within
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.values import Arithmetic, Call, Column, Mapped, Number, Value, bounds_of, present_in
from dpnb.views.measures import MAX_SUMMED, Count, Distinct, Measure, Scan, Sum, Units


def clamp(value: str, low: str, high: str) -> str:
    """Return the SQL that clamps a value; NULL stays NULL, and NaN counts as above all numbers."""
    # CASE, not LEAST and GREATEST: those turn NULL into a bound
    return (
        f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {value} END"
    )


def smallest_integer(low: int, high: int) -> str:
    """Return the narrowest integer type that holds both ends."""
    for name, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INTEGER", 31)):
        if -(2**bits) <= low and high < 2**bits:
            return name
    return "BIGINT"


def _whole_ticks(measure: Sum, value: str) -> str:
    """Return the SQL of the ticks of a whole number.

    It subtracts the whole part of the shift first: a large number times the scale could exceed 64
    bits.
    """
    scale, whole_shift = int(1 / measure.step), math.floor(measure.shift)
    rest = int((measure.shift - whole_shift) * scale)
    return f"(CAST({value} AS BIGINT) - ({whole_shift})) * {scale} - {rest}"


@dataclass(frozen=True, slots=True)
class Measuring:
    """What one statement measures: the groups of its keys, its aggregates, and their weights.

    ``plans`` holds (aggregate, weight) pairs for the measure at each of ``places``. ``first`` has
    the keys whose ``cells`` are codes, which get their groups when they are counted.
    """

    cells: tuple[str, ...]
    sizes: tuple[int, ...]
    places: Sequence[int]
    plans: Sequence[Sequence[tuple[str, int]]]
    first: Mapping[int, Partition] = field(default_factory=dict)

    @property
    def aggregates(self) -> list[str]:
        """The different aggregates, in SQL."""
        return list(dict.fromkeys(sql for plan in self.plans for sql, _ in plan))

    @property
    def adds_up(self) -> bool:
        """Whether the aggregates of the parts of a group add up to those of the group."""
        return not any("DISTINCT" in sql for sql in self.aggregates)

    def fill(self, vectors: Sequence[list[int]], rows: Iterable[Sequence[Any]]) -> None:
        """Write the statement's rows, which begin with group numbers, into the vectors."""
        aggregates, keys = self.aggregates, len(self.cells)
        for row in rows:
            cell = 0
            for value, size in zip(row[:keys], self.sizes, strict=True):
                if value is None:
                    break
                cell = cell * size + int(value)
            else:
                values = dict(zip(aggregates, row[keys:], strict=True))
                for place, plan in zip(self.places, self.plans, strict=True):
                    vectors[place][cell] = sum(
                        weight * int(values[sql] or 0) for sql, weight in plan
                    )


def present(columns: Iterable[str]) -> str:
    """Return the SQL that tests that no value of some columns is missing."""
    return " AND ".join(f"{column} IS NOT NULL" for column in columns) or "TRUE"


class Dialect:
    """The SQL for one schema's columns, which are called c0, c1, ... in declared order.

    The id of a row's privacy unit is called u, and the relation of all rows ``rows``.
    """

    IDS = IdRule()
    SERIES = "UNNEST(range(low, high + 1))"
    """A row for each whole number from ``low`` to ``high``."""
    WIDE = "HUGEINT"
    """An integer type that holds the squares of sums."""
    SUMMED_BY_MEAN = 2**52
    """Column sums that always stay this small are computed as mean times count, rounded.

    DuckDB sums whole numbers in 128 bits, but averages them in 64 bits or in doubles, in half the time.
    Whole doubles below 2**53 add up exactly. Let no value exceed 2**k in size, in at most 2**(52 - k) rows.
    A mean of size 2**k is exact; a smaller one is off by at most 2**(k - 54), so times the count by a
    quarter. The whole part of the mean times the count is multiplied as whole numbers; the rest times the
    count, of at most 2**40 rows, is rounded by at most 2**-13. In all, that is less than a half.
    """
    most_rows = 2**40
    """An upper bound on the number of rows; an engine that knows a smaller one sets it.

    Look-ups add no rows: each row matches at most one.
    """

    def __init__(self, schema: Schema, rows: str = "rows") -> None:
        self._schema = schema
        self._rows = rows
        self._places = {name: f"c{i}" for i, name in enumerate(schema)}
        self._joins: list[tuple[Join, str]] = []
        self.raw: dict[str, str] = {}
        """For columns of whole numbers, by name: what is clamped to the bounds to make the code."""

    def column(self, name: str) -> str:
        """Return the SQL name of a column of codes."""
        return self._places[name]

    def join(self, join: Join, looked_up: str) -> None:
        """Register a relation of codes to look up, whose key is called k.

        Its columns of the other table are called c0, c1, ... in their declared order.
        """
        number = len(self._joins)
        self._joins.append((join, looked_up))
        self._schema = self._schema.joining(join.columns)
        for i, name in enumerate(join.columns):
            self._places[name] = f"j{number}_{i}"

    @property
    def lookups(self) -> Sequence[tuple[Join, str]]:
        """The relations that are looked up, in order."""
        return self._joins

    def needed(self, table: Table) -> dict[str, str]:
        """Return the SQL names of the columns that every row must have, and of the id under ""."""
        columns = {name: self.column(name) for name in table.needed}
        return columns if table.unit is None else {**columns, "": "u"}

    def measured(self, scan: Scan, groups: int, key: bytes, *, text: bool, made: Measuring) -> str:
        """Return the relation, with WHERE, of the rows that a scan measures.

        These are the rows in the first ``groups`` groups of each id, or all rows if ``groups`` is
        0.
        """
        keys = [one for place, one in enumerate(scan.keys) if place not in made.first]
        rows = self.relation(scan.columns, keys)
        if groups:
            rows = self.cut(scan.keys, groups, key, text=text, rows=rows)
        if scan.where == EVERY:
            return rows
        return self.only(rows, self.predicate(scan.where), scan.columns, keys)

    def only(
        self,
        rows: str,
        condition: str,
        columns: Collection[str] | None = None,
        keys: Collection[Partition] = (),
    ) -> str:
        """Return the rows of a relation that satisfy a condition.

        ``columns`` and ``keys`` are those for which it is the :meth:`relation`.
        """
        return f"{rows} WHERE {condition}"

    def grouped(self, made: Measuring, rows: str) -> str:
        """Return the statement with the aggregates of each group of a relation, with WHERE."""
        group = f" GROUP BY {', '.join(made.cells)}" if made.cells else ""
        if not made.first:
            return f"SELECT {', '.join([*made.cells, *made.aggregates])} FROM {rows}{group}"
        sums = [f"t{i}" for i in range(len(made.aggregates))]
        codes = [f"k{i}" for i in range(len(made.cells))]
        inner = ", ".join(
            f"{sql} AS {name}"
            for sql, name in zip([*made.cells, *made.aggregates], [*codes, *sums], strict=True)
        )
        numbers, looked_up = list(codes), ""
        for place, key in made.first.items():
            numbers[place] = steps.number(key, codes[place])
            if steps.is_looked_up(key):
                looked_up += self._looked_up(key, codes[place])
        outer = ", ".join([*numbers, *(f"SUM({name})" for name in sums)])
        return (
            f"SELECT {outer} FROM (SELECT {inner} FROM {rows}{group}) AS coded{looked_up} "
            f"GROUP BY {', '.join(numbers)}"
        )

    def _looked_up(self, key: Partition, code: str) -> str:
        """Return the join with the relation of the groups of a column's codes."""
        name = steps.name(key)
        return (
            f" LEFT JOIN {steps.codes(key, self.SERIES)} AS {name} "
            f"ON {steps.place(key, code)} = {name}_code"
        )

    def by_found(
        self,
        found: Mapping[str, tuple[str, str]],
        keys: Sequence[Partition],
        made: Measuring,
        rows: str,
    ) -> str:
        """Return a statement that groups by what is read, and makes codes of the groups only.

        Parameters
        ----------
        found : mapping of str to tuple of str
            For each such column, the name of what is read and the SQL of its code.
        rows : str
            The relation, with WHERE.
        """
        lookups = [
            found.get(key.column, (cell, "")) if key.declared else (cell, "")
            for key, cell in zip(keys, made.cells, strict=True)
        ]
        # the SQL of a code refers to what is read by its own name
        names = [value if code else f"k{i}" for i, (value, code) in enumerate(lookups)]
        groups = [value for value, _ in lookups]
        sums = [f"t{i}" for i in range(len(made.aggregates))]
        inner = ", ".join(
            f"{sql} AS {name}"
            for sql, name in zip([*groups, *made.aggregates], [*names, *sums], strict=True)
        )
        numbered = [f"k{i}" for i in range(len(lookups))]
        middle = ", ".join(
            f"{code or name} AS {number}"
            for (_, code), name, number in zip(lookups, names, numbered, strict=True)
        )
        totals = [f"SUM({name})" for name in sums]
        return (
            f"SELECT {', '.join([*numbered, *totals])} FROM (SELECT {', '.join([middle, *sums])} "
            f"FROM (SELECT {inner} FROM {rows} GROUP BY {', '.join(groups)})) "
            f"GROUP BY {', '.join(numbered)}"
        )

    def repeated(self, key: str) -> str:
        """Return the statement that finds a value of a key that several rows have."""
        column = self.column(key)
        return f"SELECT {column} FROM {self._rows} GROUP BY {column} HAVING COUNT(*) > 1 LIMIT 1"

    def rows(self, columns: Collection[str]) -> str:
        """Return the relation of all rows, with these columns of the table's own at least."""
        return self._rows

    def relation(self, columns: Collection[str], keys: Iterable[Partition] = ()) -> str:
        """Return the relation of all rows, joined with what ``columns`` and ``keys`` look up."""
        own, joined = set(columns), ""
        # a column to look up by may be looked up itself, by a join before
        for join, _ in reversed(self._joins):
            if not own.isdisjoint(join.columns):
                own.add(join.column)
        for number, (join, looked_up) in enumerate(self._joins):
            positions = [i for i, name in enumerate(join.columns) if name in own]
            if not positions:
                continue
            names = [f"k AS j{number}_k"]
            for i in positions:
                # the first column only says whether a row was found
                code = f"c{i - 1}" if i else "0"
                names.append(f"{code} AS j{number}_{i}")
            key = "u" if join.ids else self.column(join.column)
            joined += (
                f" LEFT JOIN (SELECT {', '.join(names)} FROM {looked_up}) AS j{number} "
                f"ON {key} = j{number}_k"
            )
        for groups in filter(steps.is_looked_up, keys):
            joined += self._looked_up(groups, self.column(groups.column))
        rows = self.rows(own)
        return f"(SELECT * FROM {rows}{joined}) AS joined" if joined else rows

    def predicate(self, predicate: Predicate) -> str:
        """Return the SQL of a predicate; NULL counts as false."""
        if isinstance(predicate, Within):
            many = len(predicate.intervals) > self.most_tests(predicate.column)
            if many or predicate.period is not None:
                return self.mapped(predicate.steps("TRUE"), predicate.column)
            tests = [self._within(predicate.column, *ends) for ends in predicate.intervals]
            if predicate.null:
                tests.append(f"{self.column(predicate.column)} IS NULL")
            return f"({' OR '.join(tests)})" if tests else "FALSE"
        if isinstance(predicate, Compared):
            return self._compared(predicate)
        conjunction = isinstance(predicate, And)
        if not predicate.parts:
            return "TRUE" if conjunction else "FALSE"
        word = " AND " if conjunction else " OR "
        return f"({word.join(self.predicate(part) for part in predicate.parts)})"

    def _compared(self, predicate: Compared) -> str:
        left, right = self._clamped(predicate.left), self._clamped(predicate.right)
        operator, offset = predicate.written
        if offset:
            # a narrow type would overflow
            kind = "BIGINT" if isinstance(offset, int) else "DOUBLE"
            left = f"CAST({left} AS {kind}) + {literal(offset)}"
        known = (f"{self.raw[name]} IS NOT NULL" for name in predicate.columns if name in self.raw)
        return f"({' AND '.join([f'{left} {operator} {right}', *sorted(known)])})"

    def _clamped(self, name: str) -> str:
        """Return the SQL of a code, which may be a number where it is missing.

        DuckDB takes the least and the greatest of small numbers in less time than it chooses by CASE.
        """
        if name not in self.raw:
            return self.column(name)
        kind, raw = self._schema[name], self.raw[name]
        low, high = str(kind.scale.low), str(kind.scale.high)
        if code_bytes(kind) > 2:
            return f"({clamp(raw, low, high)})"
        return f"LEAST(GREATEST({raw}, {low}), {high})"

    def most_tests(self, name: str) -> int:
        """Return how many intervals of a column's codes are compared one after the other."""
        return steps.MOST_CASES

    def _within(self, name: str, low: Code, high: Code) -> str:
        """Return the SQL that tests whether a code is in an interval.

        Values that are mostly different take as long to clamp as to read. Where there are values
        before they are clamped, these are compared: whatever is beyond a declared bound is clamped
        to it, so an end of the interval that is a bound needs no test.
        """
        column, bounds = self.raw.get(name, self.column(name)), self._schema[name].scale
        over = name not in self.raw or low > bounds.low
        under = name not in self.raw or high < bounds.high
        if over and under:
            if low == high:
                return f"{column} = {literal(low)}"
            return f"{column} BETWEEN {literal(low)} AND {literal(high)}"
        if over:
            return f"{column} >= {literal(low)}"
        return f"{column} <= {literal(high)}" if under else f"{column} IS NOT NULL"

    def group(self, key: Partition) -> str:
        """Return the SQL of the number of a row's group, NULL for none."""
        return steps.number(key, self.column(key.column))

    def measuring(self, scan: Scan, places: Sequence[int]) -> Measuring:
        """Return how to measure some measures of a scan in one statement."""
        plans = [self.terms(*scan.measures[place]) for place in places]
        sizes = tuple(key.size for key in scan.keys)
        made = Measuring(tuple(map(self.group, scan.keys)), sizes, places, plans)
        first = enumerate(steps.grouped_first(scan.keys) if made.adds_up else ())
        by_code = {place: scan.keys[place] for place, wanted in first if wanted}
        cells = (
            self.column(by_code[place].column) if place in by_code else cell
            for place, cell in enumerate(made.cells)
        )
        return replace(made, cells=tuple(cells), first=by_code)

    def histograms(self, views: Sequence[Sequence[Partition]]) -> str:
        """Return the statement that counts the rows in the joint bins of several lists of axes."""
        all_axes = dict.fromkeys(axis for axes in views for axis in axes)
        rows = self.relation({axis.column for axis in all_axes}, all_axes)
        branches = []
        for number, axes in enumerate(views):
            joint = "0"
            for axis in axes:
                joint = f"({joint}) * {axis.size} + ({self.group(axis)})"
            joint = f"CAST({joint} AS BIGINT)"
            branches.append(
                f"SELECT {number} AS place, {joint} AS joint, COUNT(*) AS n FROM {rows} "
                f"GROUP BY {joint}"
            )
        return " UNION ALL ".join(branches)

    def terms(
        self, measure: Measure, condition: Predicate, *, present: bool = False
    ) -> list[tuple[str, int]]:
        """Return integer aggregates and weights whose weighted sum is the measure in ticks.

        ``present`` says that no row lacks the value.
        """
        # CASE, not FILTER: DuckDB's time for filters grows with the square of their number
        test = "" if condition == And(()) else f"CASE WHEN {self.predicate(condition)} THEN "

        def given(sql: str) -> str:
            return f"{test}{sql} END" if test else sql

        if isinstance(measure, Count):
            if measure.value is None:
                return [(self._count(given("1")) if test else "COUNT(*)", 1)]
            return [(self._count(given(self.value(measure.value))), 1)]
        if isinstance(measure, Distinct):
            return [(f"COUNT(DISTINCT {given(self.value(measure.value))})", 1)]
        if isinstance(measure, Units):
            return [(f"COUNT(DISTINCT {given('u')})", 1)]
        if isinstance(measure.value, Mapped):
            ticks = given(self._mapped_ticks(measure.value, measure))
            largest = max(-measure.least, measure.greatest)
            if not self._is_summed_by_mean(measure, largest):
                return [(f"CAST(SUM(CAST({ticks} AS BIGINT)) AS BIGINT)", 1)]
            is_complete = not test and present_in(measure.value, self._schema) is None
            return [(self._by_mean(ticks, "COUNT(*)" if is_complete else self._count(ticks)), 1)]
        value = self.summand(measure)
        count = self._count(given(self.value(measure.value)))
        if not test and (present or self._is_complete(measure.value)):
            count = "COUNT(*)"
        if measure.rounded:
            ticks = self._rounded_ticks(measure, value)
            if self._is_summed_by_mean(measure, measure.sensitivity):
                return [(self._by_mean(given(ticks), count), 1)]
            return [(f"CAST(SUM({given(f'CAST({ticks} AS INTEGER)')}) AS BIGINT)", 1)]
        scale = int(1 / measure.step)
        offset = int(measure.shift / measure.step)
        if measure.largest > MAX_SUMMED:
            # sums of the values themselves could exceed 64 bits; sums of their ticks cannot
            return [(f"CAST(SUM({given(_whole_ticks(measure, value))}) AS BIGINT)", 1)]
        total = f"CAST(SUM({given(value)}) AS BIGINT)"
        if self._is_summed_by_mean(measure, measure.largest):
            total = self._by_mean(given(value), count)
        terms = [(total, scale)]
        return terms if offset == 0 else [*terms, (count, -offset)]

    def mapped(self, function: Steps[str], name: str) -> str:
        """Return the SQL of a step function of a column's code, whose outputs are SQL."""
        return steps.mapped(function, self.column(name), self._schema[name].scale)

    def _mapped_ticks(self, value: Mapped, measure: Sum) -> str:
        """Return the SQL of the ticks of a mapped value, which are public numbers."""
        ticks = value.numbers.then(measure.ticks).then(str)
        return self.mapped(ticks, value.column)

    def summand(self, measure: Sum) -> str:
        """Return the SQL of what a sum adds up, before it is rounded.

        Conditions may have narrowed the bounds of whole numbers: these are clamped, so that the
        sensitivity rests on no condition. Rounded ones are clamped in ticks.
        """
        value = self.value(measure.value)
        if measure.rounded or not self._is_narrowed(measure):
            return value
        low, high = map(str, measure.bounds)
        return f"({clamp(value, low, high)})"

    def _is_narrowed(self, measure: Sum) -> bool:
        """Return whether a sum is of narrower bounds than those of all rows."""
        declared, (low, high) = bounds_of(measure.value, self._schema), measure.bounds
        slack = measure.step if measure.rounded else 0
        return low - slack > declared.low or high + slack < declared.high

    def _is_summed_by_mean(self, measure: Sum, largest: Fraction | int) -> bool:
        """Whether what is added up is of a column, none of it larger than ``largest``, and stays small."""
        power = 1 << max(0, math.ceil(largest) - 1).bit_length()
        return (
            isinstance(measure.value, Column | Mapped)
            and power * self.most_rows <= self.SUMMED_BY_MEAN
        )

    @staticmethod
    def _by_mean(value: str, count: str) -> str:
        mean = f"AVG({value})"
        rest = f"ROUND(({mean} - TRUNC({mean})) * {count})"
        return f"(CAST(TRUNC({mean}) AS BIGINT) * {count} + CAST({rest} AS BIGINT))"

    def _count(self, value: str) -> str:
        """Return the SQL of how many values are not missing; DuckDB counts them slowly itself."""
        if not self.SUMMED_BY_MEAN:
            return f"COUNT({value})"
        # a mean of at most 1 times 2**40 rows is off by less than 2**-12
        return f"CAST(ROUND(AVG(CAST({value} IS NOT NULL AS TINYINT)) * COUNT(*)) AS BIGINT)"

    def _is_complete(self, value: Value) -> bool:
        """Return whether a value is a column without missing values in any row of the table."""
        return isinstance(value, Column) and value.name in self._schema.complete

    def _rounded_ticks(self, measure: Sum, value: str) -> str:
        real = f"CAST({value} AS DOUBLE)"
        shifted = real if measure.shift == 0 else f"({real} - {literal(float(measure.shift))})"
        ticks = f"{self.over(shifted, literal(float(measure.step)))} + {literal(0.5)}"
        if isinstance(measure.value, Column) and not self._is_narrowed(measure):
            return f"FLOOR({ticks})"
        # float arithmetic can leave the bounds of the exact value, and by far when large numbers
        # cancel; the sensitivity rests on these bounds. Clamp first: FLOOR can overflow
        ends = literal(float(measure.least)), literal(float(measure.greatest))
        return f"FLOOR({clamp(ticks, *ends)})"

    def value(self, value: Value) -> str:
        """Return the SQL of a value: BIGINT if integral and not a bare column, else DOUBLE."""
        if isinstance(value, Column):
            return self.column(value.name)
        if isinstance(value, Number):
            if bounds_of(value, self._schema).integral:
                return f"CAST({value.value.numerator} AS BIGINT)"
            return literal(float(value.value))
        if isinstance(value, Mapped):
            whole = bounds_of(value, self._schema).integral
            numbers = value.numbers.then(
                lambda number: f"CAST({number} AS BIGINT)" if whole else literal(float(number))
            )
            return self.mapped(numbers, value.column)
        # one type throughout: narrow integers overflow, and DuckDB would pick decimals for some
        kind = "BIGINT" if bounds_of(value, self._schema).integral else "DOUBLE"

        def part(inner: Value) -> str:
            return f"CAST({self.value(inner)} AS {kind})"

        if isinstance(value, Arithmetic):
            left, right = part(value.left), part(value.right)
            if kind == "DOUBLE" and value.operator in "*/":
                operation = self.times if value.operator == "*" else self.over
                return f"({operation(left, right)})"
            return f"({left} {value.operator} {right})"
        if isinstance(value, Call):
            # missing operands are left out by all engines
            return f"{value.function}({', '.join(map(part, value.parts))})"
        branches = " ".join(
            f"WHEN {self.predicate(condition)} THEN {self._result(result, kind)}"
            for condition, result in value.branches
        )
        return f"(CASE {branches} ELSE {self._result(value.default, kind)} END)"

    def _result(self, value: Value | None, kind: str) -> str:
        return f"CAST({'NULL' if value is None else self.value(value)} AS {kind})"

    def times(self, left: str, right: str) -> str:
        """Return the SQL of a product of floats, which is 0 on underflow."""
        return f"{left} * {right}"

    def over(self, left: str, right: str) -> str:
        """Return the SQL of a float divided by a public one, which is 0 on underflow."""
        return f"{left} / {right}"

    def id_number(self, *, text: bool) -> str:
        """Return the SQL of a whole number that stands for an id; collisions do no harm."""
        return self.IDS.number("u", self.text_number("u")) if text else "u"

    def secret(self, value: int) -> str:
        """Return the SQL of a secret number."""
        return str(value)

    def text_number(self, column: str) -> str:
        """Return the SQL of a whole number from 0 to below 2**48 that stands for a text."""
        return f"CAST('0x' || substr(md5({column}), 1, 12) AS BIGINT)"

    def texts(self) -> list[str]:
        """Return the SQL names of the undeclared columns, which hold texts."""
        return [f"t{i}" for i in range(len(self._schema.undeclared))]

    def tally(self, column: str, least: int, groups: int, key: bytes, *, text: bool) -> str:
        """Return the statement that counts the rows, or ids, of each text of a column.

        It returns texts with a count of at least ``least``, then a NULL text with the number of all
        different texts. An id counts for its first ``groups`` texts, in its own secret order; 0
        counts rows.
        """
        rows = f"(SELECT * FROM {self.only(self._rows, f'{column} IS NOT NULL')}) AS known"
        counts = f"SELECT {column} AS value, COUNT(*) AS n FROM {rows} GROUP BY {column}"
        if groups:
            order = order_of_cells(
                self.text_number(column), self.id_number(text=text), key, self.secret
            )
            counts = (
                f"SELECT {column} AS value, COUNT(DISTINCT u) AS n FROM (SELECT u, {column}, "
                f"dense_rank() OVER (PARTITION BY u ORDER BY {order}, {column}) AS place "
                f"FROM {rows}) AS placed WHERE place <= {groups} GROUP BY {column}"
            )
        return (
            f"WITH counted AS ({counts}) SELECT value, n FROM counted WHERE n >= {least} "
            "UNION ALL SELECT NULL AS value, COUNT(*) AS n FROM counted"
        )

    def cut(
        self,
        keys: Sequence[Partition],
        groups: int,
        key: bytes,
        *,
        text: bool,
        rows: str | None = None,
    ) -> str:
        """Return the rows in the first ``groups`` groups of each id, in its own secret order.

        They come from the relation ``rows``, or from all rows.
        """
        cell = "CAST(0 AS BIGINT)"
        for partition in keys:
            cell = f"({cell}) * {partition.size} + ({self.group(partition)})"
        order = order_of_cells("cell", self.id_number(text=text), key, self.secret)
        numbered = f"(SELECT *, {cell} AS cell FROM {rows or self._rows}) AS numbered"
        return (
            f"(SELECT * FROM (SELECT *, dense_rank() OVER (PARTITION BY u ORDER BY {order}, cell) "
            f"AS place FROM {self.only(numbered, 'cell IS NOT NULL')}) AS placed "
            f"WHERE place <= {groups}) AS cut"
        )

    def kept(self, most: int, key: bytes, last: Collection[str] = (), *, text: bool) -> str:
        """Return the statement that keeps each id's first ``most`` rows, in its secret order.

        The columns in ``last`` decide only between rows that are equal in all others.
        """
        columns = {name: self.column(name) for name in self._schema}
        texts = dict(zip(self._schema.undeclared, self.texts(), strict=True))
        names = ", ".join([*columns.values(), *texts.values(), "u"])
        order = []
        for later in (False, True):
            kinds = {
                sql: self._schema[name] for name, sql in columns.items() if (name in last) is later
            }
            words = [sql for name, sql in texts.items() if (name in last) is later]
            if kinds or words:
                numbers = [self.text_number(word) for word in words]
                order.append(
                    order_of_rows(kinds, self.id_number(text=text), key, numbers, self.secret)
                )
                # codes and then texts break ties between positions
                order += [f"{sql} NULLS LAST" for sql in (*kinds, *words)]
        return (
            f"SELECT {names} FROM (SELECT {names}, row_number() OVER (PARTITION BY u ORDER BY "
            f"{', '.join(order)}) AS place "
            f"FROM {self._rows}) AS placed WHERE place <= {most}"
        )

    def in_groups(self, scan: MarginalScan) -> str:
        """Return the SQL that tests whether a row is in one of the scan's groups."""
        keys = list(map(self.group, scan.keys))
        if len(keys) == 1:
            return f"{keys[0]} IN ({', '.join(str(cell) for (cell,) in scan.groups)})"
        groups = (
            " AND ".join(f"{key} = {cell}" for key, cell in zip(keys, group, strict=True))
            for group in scan.groups
        )
        return f"({' OR '.join(groups)})" if keys else "TRUE"

    def joint(self, attributes: Sequence[Partition], scan: MarginalScan) -> str:
        """Return the SQL of a row's joint code over an attribute set, its group last."""
        kind = "INTEGER" if scan.codes(attributes) < 2**31 else "BIGINT"
        joint = "0"
        for one in attributes:
            code = f"COALESCE({self.group(one)}, {one.size})"
            joint = f"({joint}) * {one.size + 1} + CAST({code} AS {kind})"
        for key in scan.keys:
            joint = f"({joint}) * {key.size} + CAST({self.group(key)} AS {kind})"
        return joint

    def cell_of(self, keys: Sequence[Partition]) -> str:
        """Return the SQL of a row's group number over some keys; -1 if it is in none of one."""
        number = "0"
        for key in keys:
            number = f"({number}) * {key.size} + ({self.group(key)})"
        return f"COALESCE(CAST({number} AS BIGINT), -1)"

    def contribution(self, part: Part) -> str:
        """Return the SQL of one row's contribution to a measure, in ticks; 0 if there is none."""
        # declared bins need not cover all values
        present = [f"{self.group(key)} IS NOT NULL" for key in part.keys]
        test = " AND ".join([self.predicate(part.where), *present])
        measure = part.measure
        if isinstance(measure, Count | Distinct | Units):
            if measure.value is not None:
                test += f" AND {self.value(measure.value)} IS NOT NULL"
            return f"CASE WHEN {test} THEN CAST(1 AS TINYINT) ELSE CAST(0 AS TINYINT) END"
        value = self.summand(measure)
        if isinstance(measure.value, Mapped):
            ticks = self._mapped_ticks(measure.value, measure)
        elif measure.rounded:
            ticks = self._rounded_ticks(measure, value)
        else:
            ticks = _whole_ticks(measure, value)
        kind = smallest_integer(min(measure.least, 0), max(measure.greatest, 0))
        return f"COALESCE(CASE WHEN {test} THEN CAST({ticks} AS {kind}) END, CAST(0 AS {kind}))"

    def score(self, scan: ContributionScan, places: Sequence[str]) -> str:
        """Return the SQL of a row's score in whole increments, from its contributions' columns."""
        terms = []
        for part, place in zip(scan.parts, places, strict=True):
            size = f"(abs(CAST({place} AS DOUBLE)) / {literal(part.sensitivity)})"
            factors = (
                (literal(part.weight), size, size) if scan.squared else (literal(part.weight), size)
            )
            terms.append(" * ".join(factors))
        mean = " + ".join(terms)
        mean = f"sqrt({mean})" if scan.squared else f"({mean})"
        return f"CAST({clamp(f'ceil({scan.steps} * {mean})', '0', str(scan.steps))} AS INTEGER)"

    def added(
        self, scan: ContributionScan, places: Sequence[str], key: bytes, *, text: bool
    ) -> str:
        """Return the relation of the contributions of rows or ids to the parts of a scan.

        Each row also has its group number ``cell``, which is -1 for ids.
        """
        if scan.ids:
            return self._added_by_ids(scan, places, key, text=text)
        contributions = [
            f"{self.contribution(part)} AS {place}"
            for part, place in zip(scan.parts, places, strict=True)
        ]
        cell = self.cell_of(scan.by) if scan.by else "CAST(-1 AS BIGINT)"
        rows = self.relation(scan.columns, scan.partitions)
        return f"(SELECT {', '.join([f'{cell} AS cell', *contributions])} FROM {rows}) AS added"

    def _added_by_ids(
        self, scan: ContributionScan, places: Sequence[str], key: bytes, *, text: bool
    ) -> str:
        batches: dict[tuple[tuple[Partition, ...], int], list[tuple[Part, str]]] = {}
        for part, place in zip(scan.parts, places, strict=True):
            cut = isinstance(part.measure, Units) and part.measure.cut
            groups = part.measure.groups if isinstance(part.measure, Units) and cut else 0
            batches.setdefault((part.keys, groups), []).append((part, place))
        from_clause = f"(SELECT DISTINCT u FROM {self._rows}) AS ids"
        for number, ((keys, groups), batch) in enumerate(batches.items()):
            rows = self.relation(scan.columns, keys)
            if groups:
                rows = self.cut(keys, groups, key, text=text, rows=rows)
            # in a group an id counts once, and a value of its rows, but other values add up
            sums = ", ".join(
                f"CAST({self._added_up(part)} AS {self.WIDE}) AS {place}" for part, place in batch
            )
            # sum whole numbers: an id's contribution must not depend on the order of addition
            norms = ", ".join(
                f"sqrt(CAST(SUM({place} * {place}) AS DOUBLE)) AS {place}"
                if scan.squared
                else f"CAST(SUM(abs({place})) AS DOUBLE) AS {place}"
                for _, place in batch
            )
            by_cell = f"SELECT u, {self.cell_of(keys)} AS slot, {sums} FROM {rows} GROUP BY u, slot"
            from_clause += (
                f" LEFT JOIN (SELECT u, {norms} FROM ({by_cell}) AS slots GROUP BY u) AS part{number} "
                f"ON ids.u = part{number}.u"
            )
        contributions = ", ".join(f"COALESCE({place}, 0) AS {place}" for place in places)
        return f"(SELECT CAST(-1 AS BIGINT) AS cell, {contributions} FROM {from_clause}) AS added"

    def _added_up(self, part: Part) -> str:
        """Return the SQL of what the rows of one id in a group add to a measure."""
        contribution = self.contribution(part)
        if isinstance(part.measure, Distinct):
            value = self.value(part.measure.value)
            return f"COUNT(DISTINCT CASE WHEN {contribution} = 1 THEN {value} END)"
        return f"{'MAX' if isinstance(part.measure, Units) else 'SUM'}({contribution})"

    def steps(self, part: Part, place: str) -> str:
        """Return the SQL of an id's contribution in units of sensitivity / FINE.

        It is rounded up, apart from rounding errors.
        """
        size = f"{place} / {literal(part.sensitivity)}"
        return f"CAST(ceil({literal(FINE * (1 - 2.0**-40))} * ({size})) AS BIGINT)"
