"""Outputs of an expression, as DuckDB computes them for some codes of its column or columns."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpnb.codes import Code, Steps
from dpnb.schema.columns import Category, Kind
from dpnb.schema.timestamps import EPOCH, Date, Timestamp, seconds
from dpnb.schema.types import Boolean
from dpnb.sql.dataless import EvaluationError, evaluate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[np.generic]

MOST_PIECES = 10_000
"""Most intervals of codes on which an expression is constant, and so most outputs."""
MOST_WRITTEN = 1_000
"""An expression that repeats is written out if it then has so few intervals."""

Plain: TypeAlias = bool | int | float | Decimal | str | datetime.date
"""An output of an expression; times are what a clock shows."""
Holds: TypeAlias = Literal["condition", "number", "text", "date", "time", "nothing"]
"""What the outputs of an expression are."""

TYPES: dict[str, Holds] = {
    "BOOLEAN": "condition", "VARCHAR": "text", "DATE": "date", "TIMESTAMP": "date", "TIME": "time",
    '"NULL"': "nothing",
    **dict.fromkeys(
        (
            "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
            "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL",
        ),
        "number",
    ),
}  # fmt: skip
_SOURCES = {
    "category": "VARCHAR", "boolean": "BOOLEAN", "integer": "BIGINT", "real": "DOUBLE", "date": "DATE",
    "timestamp": "TIMESTAMP",
}  # fmt: skip
"""The type of a column's values, by its kind."""
_EXACT: dict[str, Callable[[str], Plain]] = {"DECIMAL": Decimal, "HUGEINT": int, "TIME": str}
"""Types that NumPy does not hold exactly: they are fetched as texts. Times of day stay texts."""


class PiecesLimitError(Exception):
    """An expression changes too often from code to code."""


@dataclass(frozen=True, slots=True)
class Product:
    """All combinations of the values of several columns, missing ones included.

    They are numbered from 0, the last column fastest and a missing value last.
    """

    kinds: tuple[Kind, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each column."""
        return tuple(int(kind.scale.high - kind.scale.low) + 2 for kind in self.kinds)

    def rows(self, numbers: range) -> tuple[str, list[Any]]:
        """Return the relation of the values v0, v1, ... of some combinations, and its parameters."""
        columns, lists, parameters = [], [], list[Any]()
        stride = math.prod(self.shape)
        for place, (kind, size) in enumerate(zip(self.kinds, self.shape, strict=True)):
            stride //= size
            values, own = _rows(kind, range(int(kind.scale.low), int(kind.scale.high) + 1))
            parameters += own
            values = values.replace("$1", f"${len(parameters)}")
            lists.append(f"(SELECT list(v) AS l{place} FROM {values})")
            # beyond its end, a list has missing values
            columns.append(f"l{place}[1 + (i // {stride}) % {size}] AS v{place}")
        numbered = f"(SELECT range AS i FROM range({numbers.start}, {numbers.stop}))"
        return (
            f"(SELECT {', '.join(columns)} FROM {' CROSS JOIN '.join([numbered, *lists])})",
            parameters,
        )


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An expression on all codes of a column.

    ``fault`` is the first code for which the expression has no result, or an infinite one; such codes
    are without output.
    """

    function: Steps[Plain]
    holds: Holds
    fault: Code | None = None


def _rows(kind: Kind | Product, codes: Sequence[Code] | range) -> tuple[str, list[Any]]:
    """Return the relation of the values v of some codes, and its parameter."""
    if isinstance(kind, Product):
        return kind.rows(range(int(codes[0]), int(codes[-1]) + 1))
    if isinstance(kind, Category):
        return "(SELECT unnest($1::VARCHAR[]) AS v)", [[kind.values[int(code)] for code in codes]]
    if isinstance(codes, range):
        rows, parameters = f"range({codes.start}, {codes.stop})", list[Any]()
        rows = f"(SELECT range AS v FROM {rows})"
    else:
        type_name = "BIGINT" if kind.scale.integral else "DOUBLE"
        rows, parameters = f"(SELECT unnest($1::{type_name}[]) AS v)", [list(codes)]
    if isinstance(kind, Boolean):
        rows = f"(SELECT CAST(v AS BOOLEAN) AS v FROM {rows})"
    if isinstance(kind, Date):
        rows = f"(SELECT DATE '{EPOCH}' + CAST(v AS INTEGER) AS v FROM {rows})"
    elif isinstance(kind, Timestamp):
        rows = f"(SELECT make_timestamp(v * {seconds(kind) * 1_000_000}) AS v FROM {rows})"
    return rows, parameters


def type_of(text: str, kind: Kind | Product) -> str:
    """Return the type of an expression, without its parameters.

    Raises
    ------
    EvaluationError
        If no value has the types that the expression needs.
    """
    if isinstance(kind, Product):
        names = {f"v{place}": one for place, one in enumerate(kind.kinds)}
    else:
        names = {"v": kind}
    values = ", ".join(
        f"CAST(NULL AS {_SOURCES[one.kind]}) AS {name}" for name, one in names.items()
    )
    (found,) = evaluate(f"SELECT typeof({text}) AS y FROM (SELECT {values})")["y"].tolist()
    return str(found).partition("(")[0]


def _fetched(text: str, rows: str, parameters: Sequence[Any], type_name: str) -> Values:
    shown = f"CAST({text} AS VARCHAR)" if type_name in _EXACT else text
    values: Values = evaluate(f"SELECT {shown} AS y FROM {rows}", parameters)["y"]
    return values


def outputs(
    text: str, kind: Kind | Product, codes: Sequence[Code] | range, type_name: str
) -> tuple[Values, npt.NDArray[np.bool_], Code | None]:
    """Return the outputs of an expression for some codes, which are missing, and the first fault.

    Raises
    ------
    TimeLimitError
    """
    import numpy as np

    rows, parameters = _rows(kind, codes)
    fault: Code | None = None
    try:
        values = _fetched(text, rows, parameters, type_name)
    except EvaluationError:
        values = _fetched(f"TRY({text})", rows, parameters, type_name)
        fault = _first_fault(text, kind, codes, type_name)
    missing = np.ma.getmaskarray(values)
    values = np.ma.getdata(values)
    if values.dtype.kind == "f":
        odd = ~np.isfinite(values) & ~missing
        if odd.any():
            first = codes[int(np.argmax(odd))]
            fault = first if fault is None else min(fault, first)
            missing = missing | odd
    return values, missing, fault


def _first_fault(
    text: str, kind: Kind | Product, codes: Sequence[Code] | range, type_name: str
) -> Code:
    """Return the first of some codes for which an expression raises."""
    while len(codes) > 1:
        half = codes[: len(codes) // 2]
        try:
            _fetched(text, *_rows(kind, half), type_name)
        except EvaluationError:
            codes = half
        else:
            codes = codes[len(half) :]
    return codes[0]


def typed(values: Values, type_name: str) -> list[Any]:
    """Return outputs as plain values of Python."""
    if type_name in _EXACT:
        return [_EXACT[type_name](str(value)) for value in values]
    if type_name in ("DATE", "TIMESTAMP"):
        values = values.astype("M8[D]" if type_name == "DATE" else "M8[us]")
    return list(values.tolist())


def fraction(output: Plain) -> Fraction | None:
    """Return an output as a number; None for texts and dates."""
    return None if isinstance(output, str | datetime.date) else Fraction(output)


def in_days(function: Steps[Any], type_name: str) -> Steps[Any]:
    """Return times as days, if all of them are at midnight; other outputs as they are."""
    if type_name != "TIMESTAMP":
        return function
    times = [*function.outputs, *([] if function.null is None else [function.null])]
    if any(time.time() != datetime.time() for time in times):
        return function
    return function.then(datetime.datetime.date)


def null_output(text: str, kind: Kind, type_name: str) -> Plain | None:
    """Return the output of an expression for a missing value; None if it has none."""
    import numpy as np

    row = f"(SELECT CAST(NULL AS {_SOURCES[kind.kind]}) AS v)"
    try:
        value = _fetched(text, row, (), type_name)
    except EvaluationError:
        return None
    if np.ma.getmaskarray(value).any():
        return None
    (output,) = typed(np.ma.getdata(value), type_name)
    return None if isinstance(output, float) and not math.isfinite(output) else output
