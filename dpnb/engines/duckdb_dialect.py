"""DuckDB's SQL: relations of a Parquet file's rows, and functions of codes that it looks up fast."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dpnb.codes import Periodic, Scale, StepFunction, Steps
from dpnb.engines import steps
from dpnb.engines.dialect import Dialect
from dpnb.engines.grids import grid, line
from dpnb.engines.steps import is_looked_up, literal, runs
from dpnb.schema.partition import Partition
from dpnb.schema.schema import Schema
from dpnb.sql.values import Mapped
from dpnb.views.measures import Sum

_COMPARED = 4
"""So many intervals are compared one after the other, if a list of all codes could be."""
_COMPARED_REALS = 16
"""So many pieces of real numbers are compared one after the other, if a list of all of them could be."""
_LISTED = 2**14
"""Functions of columns of so many codes are written as lists of their outputs."""
_PADDED = 256
"""Such a list has so many empty places at most in front of the least code."""


class DuckDBDialect(Dialect):
    """The SQL for a table whose Parquet file may be read in place."""

    in_place: Callable[[str], str] | None = None
    """Turns a list of expressions into the relation of their values in a file's complete rows."""

    def __init__(self, schema: Schema, rows: str = "rows") -> None:
        super().__init__(schema, rows)
        self.sources: dict[str, str] = {}
        """For each column, expressions of the file's columns with their names; the id's under ""."""
        self.codes: dict[str, str] = {}
        """For each category, the expression of its code, of what its source has read."""
        self.beside = ""
        """A column of a file's numbers of rows, if they are not joined with others by position."""

    def rows(self, columns: Collection[str]) -> str:
        """Return the relation of all rows, with these columns of the table's own at least.

        A view of all columns takes DuckDB much longer to plan: by a millisecond for 17 of them.
        """
        # another thread may be loading the rows
        in_place = self.in_place
        if in_place is None:
            return self._rows
        needed = [text for name, text in self.sources.items() if not name or name in columns]
        needed += [f"file_row_number AS {self.beside}"] if self.beside else []
        every = in_place(", ".join(needed) or "0 AS nothing")
        codes = [code for name, code in self.codes.items() if name in columns]
        if codes:
            every = f"SELECT *, {', '.join(codes)} FROM ({every})"
        return f"({every}) AS rows"

    def _is_listed(self, name: str) -> bool:
        """Return whether a column has so few codes that something is listed for each of them."""
        scale = self._schema[name].scale
        return scale.integral and scale.high - scale.low < _LISTED

    def most_tests(self, name: str) -> int:
        """Return how many intervals of a column's codes are compared one after the other."""
        return _COMPARED if self._is_listed(name) else super().most_tests(name)

    def mapped(self, function: Steps[str], name: str) -> str:
        """Return the SQL of a step function of a column's code, whose outputs are SQL.

        DuckDB takes an element of a constant list in little more time than an addition, wherever
        it is, and by a bare code only once for each value in a file's dictionary.
        """
        scale, column = self._schema[name].scale, self.column(name)
        if isinstance(function, Periodic):
            return self._repeated(function, column, scale)
        if not scale.integral:
            return self._mapped_by_grid(function, name)
        places = steps.cells(function, scale, _LISTED)
        if places.count > _LISTED:
            return super().mapped(function, name)
        outputs: list[str] = []
        first = start = places.first
        for low, high, output in function.pieces:
            outputs += ["NULL"] * (places.number(low) - start)
            outputs += [output] * (places.number(high) - places.number(low) + 1)
            start = places.number(high) + 1
        outputs += ["NULL"] * (first + places.count - start)
        place, cases = places.sql(column), ""
        if function.null is not None:
            cases = f"WHEN {column} IS NULL THEN {function.null} "
        if 0 < first <= _PADDED:
            outputs = ["NULL"] * (first - 1) + outputs
        elif first <= 0 < first + places.count:
            # places of a list are counted from 1, and from -1 backwards
            cases += f"WHEN {place} = 0 THEN {outputs[-first]} "
            outputs = outputs[1 - first :] + outputs[:-first]
        else:
            place += f" - ({first - 1})"
        found = f"([{', '.join(outputs)}])[{place}]"
        return f"(CASE {cases}ELSE {found} END)" if cases else found

    @staticmethod
    def _repeated(function: Periodic[str], column: str, scale: Scale) -> str:
        if function.period // function.unit > _LISTED:
            return steps.mapped(function, column, scale)
        outputs = ", ".join(output or "NULL" for output in function.repetition)
        found = f"([{outputs}])[{steps.place_in(function, scale, column)} + 1]"
        if function.null is None:
            return found
        return f"(CASE WHEN {column} IS NULL THEN {function.null} ELSE {found} END)"

    def _mapped_by_grid(self, function: StepFunction[str], name: str) -> str:
        """Return the SQL of a step function of a real number, from a list if its breaks are a grid."""
        scale, column = self._schema[name].scale, self.column(name)
        found = runs(function, scale)
        made = grid([start for start, _ in found], scale) if len(found) > _COMPARED_REALS else None
        if made is None or len(found) > _LISTED:
            return super().mapped(function, name)
        outputs = ", ".join(output or "NULL" for _, output in found)
        listed = f"([{outputs}])[CAST({made.place(column)} AS BIGINT) + 1]"
        if function.null is None:
            return listed
        return f"(CASE WHEN {column} IS NULL THEN {function.null} ELSE {listed} END)"

    def _mapped_ticks(self, value: Mapped, measure: Sum) -> str:
        """Return the SQL of the ticks of a mapped value: a line of the number of a piece, if they are one."""
        scale, column = self._schema[value.column].scale, self.column(value.column)
        if scale.integral:
            return super()._mapped_ticks(value, measure)
        ticks = value.numbers.then(measure.ticks).over(scale)
        found = runs(ticks, scale)
        made = grid([start for start, _ in found], scale)
        on_line = line([output for _, output in found]) if made else None
        if made is None or on_line is None:
            return super()._mapped_ticks(value, measure)
        rate, start = on_line
        number = f"({made.place(column)} * {literal(float(rate))} + {literal(float(start))})"
        if ticks.null is None:
            return number
        return f"(CASE WHEN {column} IS NULL THEN {literal(float(ticks.null))} ELSE {number} END)"

    def group(self, key: Partition) -> str:
        """Return the SQL of the number of a row's group, NULL for none."""
        scale, column = key.kind.scale, self.column(key.column)
        if scale.integral:
            return super().group(key)
        found = runs(key.numbers, scale)
        made = grid([start for start, _ in found], scale)
        if made is None or [number for _, number in found] != list(range(len(found))):
            return super().group(key)
        number = f"CAST({made.place(column)} AS INTEGER)"
        return number if key.numbers.null is None else f"COALESCE({number}, {key.numbers.null})"

    def only(
        self,
        rows: str,
        condition: str,
        columns: Collection[str] | None = None,
        keys: Collection[Partition] = (),
    ) -> str:
        """Return the rows of a relation that satisfy a condition.

        DuckDB would skip a block of rows if a condition fails for all of it, and time would tell of
        single rows. It compares a bare condition with the least and largest value of a block in
        memory, and evaluates one about a single column of a file while it reads that. Nothing gets
        past a join by position.
        """
        in_place = columns is not None and self.in_place is not None
        if in_place and self.beside:
            every = f"{self.beside} IS NULL OR {self.beside} IS NOT NULL"
            condition = f"({condition}) = ({every})"
        elif columns is None or not in_place or not self.alone(columns, keys):
            condition = f"COALESCE({condition}, FALSE)"
        return super().only(rows, condition)

    def alone(self, columns: Collection[str], keys: Collection[Partition]) -> bool:
        """Whether nothing is looked up for these columns and groups."""
        return not any(set(join.columns) & set(columns) for join, _ in self._joins) and not any(
            map(is_looked_up, keys)
        )
