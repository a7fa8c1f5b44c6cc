"""Keys of a table of persons that are an expression of one column: ``GROUP BY id, MONTH(day)``.

Such a key is a column of the table of persons, whose values are the outputs of the expression. A
person has at most one row for each of them, and one for ``NULL``.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.codes import StepFunction, Steps, read_steps
from dpnb.schema.columns import Category, Kind
from dpnb.schema.persons import real_kind, whole_kind
from dpnb.schema.predicates import Predicate
from dpnb.schema.schema import Schema
from dpnb.schema.timestamps import EPOCH, Date
from dpnb.schema.types import Boolean
from dpnb.sql.narrowing import codes_of
from dpnb.sql.outputs import Plain, fraction
from dpnb.sql.values import Mapped


@dataclass(frozen=True, slots=True)
class ComputedKey:
    """An expression of one column as a key, by the output of each code.

    All outputs are texts, all are dates, all are booleans, or all are numbers (``Fraction``).
    """

    column: str
    outputs: Steps[Any]

    @classmethod
    def of(cls, column: str, outputs: Steps[Plain]) -> ComputedKey | None:
        """Return the key with these outputs; None if they are no values of a column."""
        key = cls(column, outputs.then(_value))
        first, *others = key.different or (None,)
        if first is None or any(type(one) is not type(first) for one in others):
            return None
        if isinstance(first, datetime.datetime):
            return None
        try:
            return key if key.kind else None
        except ValueError:
            return None

    @property
    def different(self) -> tuple[Any, ...]:
        """The different outputs, in order."""
        null = self.outputs.null
        return tuple(sorted({*self.outputs.outputs, *([] if null is None else [null])}))

    @property
    def kind(self) -> Kind:
        """The kind of the column.

        Raises
        ------
        ValueError
            If the outputs are no values of a column.
        """
        low, high = self.different[0], self.different[-1]
        if isinstance(low, bool):
            return Boolean()
        if isinstance(low, str):
            return Category(list(self.different))
        if isinstance(low, datetime.date):
            return Date(low, high if low < high else high + datetime.timedelta(1))
        whole = all(number.denominator == 1 for number in self.different)
        kind = whole_kind(int(low), int(high)) if whole else real_kind(low, high)
        if kind is None:
            raise ValueError("the outputs are too large")
        return kind

    def _codes(self) -> dict[Any, Fraction]:
        """Return the code of each output in the new column, in order."""
        different = self.different
        if isinstance(different[0], str):
            return {output: Fraction(place) for place, output in enumerate(different)}
        if isinstance(different[0], datetime.date):
            return {output: Fraction((output - EPOCH).days) for output in different}
        return {output: Fraction(output) for output in different}

    @property
    def codes(self) -> Mapped:
        """The code in the new column for each code of the column."""
        return Mapped(self.column, self.outputs.then(self._codes().__getitem__))

    @property
    def own(self) -> StepFunction[Plain]:
        """The output for each code in the new column: no other code is in it."""
        convert = int if self.kind.scale.integral else float
        made = self._codes()
        codes = [convert(code) for code in made.values()]
        shown = (float(output) if isinstance(output, Fraction) else output for output in made)
        return StepFunction(zip(codes, codes, shown, strict=True))

    def is_complete(self, schema: Schema, where: Predicate) -> bool:
        """Return whether no row that satisfies a condition has ``NULL``."""
        if self.outputs.null is None and self.column not in schema.complete:
            return False
        support = self.outputs.steps.support
        asked = codes_of(where, self.column, schema[self.column], self.outputs.period)
        return all(any(a <= low and high <= b for a, b in support) for low, high in asked)

    @property
    def name(self) -> str:
        """Name of the column; equal keys have equal names."""
        return f"{self.column} as {self.plain()}"

    def plain(self) -> list[Any]:
        """Return the key as plain data (JSON)."""
        null = self.outputs.null
        return [self.column, self.outputs.plain(_plain), None if null is None else _plain(null)]

    @classmethod
    def read(cls, data: Sequence[Any]) -> ComputedKey:
        """Return a key from the data of :meth:`plain`."""
        column, outputs, null = data
        return cls(column, read_steps(outputs, _read, None if null is None else _read(null)))


def _value(output: Plain) -> Any:
    return output if isinstance(output, bool | str | datetime.date) else fraction(output)


def _plain(value: Any) -> Any:
    """Return an output as JSON: numbers and dates are lists, since texts may look like both."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, datetime.date):
        return ["date", value.isoformat()]
    return ["number", str(value)]


def _read(data: Any) -> Any:
    if isinstance(data, bool | str):
        return data
    word, text = data
    return datetime.date.fromisoformat(text) if word == "date" else Fraction(text)
