"""Frames as sources: their columns, each with a text as its name, and those that no engine reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dpnb.errors import SchemaError

_LIBRARIES = ("pandas", "polars", "pyarrow", "duckdb")
_CONVERT = "Convert it to numbers, texts or days."


def library(frame: Any) -> str:
    """Return the library of a frame, also of a subclass; '' for other objects."""
    modules = (base.__module__.partition(".")[0].lstrip("_") for base in type(frame).__mro__)
    return next((module for module in modules if module in _LIBRARIES), "")


def plain_frame(frame: Any) -> Any:
    """Return a frame of its library's own class, with texts as names of its columns.

    Raises
    ------
    SchemaError
        For objects that are no frames, and for frames that cannot be had.
    """
    if type(frame).__name__ == "LazyFrame" and library(frame) == "polars":
        frame = _collected(frame)
    match library(frame):
        case "pandas" if hasattr(frame, "columns"):
            return _pandas(frame)
        case "polars" if hasattr(frame, "to_arrow") and hasattr(frame, "columns"):
            return frame
        case "pyarrow" if hasattr(frame, "column_names"):
            return frame
        case "duckdb" if hasattr(type(frame), "types"):
            return frame
    raise SchemaError(
        f"a source of type {type(frame).__name__} is not supported",
        "Use a pandas, polars or pyarrow table, a DuckDB relation, or a Parquet or CSV path.",
    )


def _collected(frame: Any) -> Any:
    try:
        return frame.collect()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the text of an error can hold values
        raise SchemaError(
            "the polars LazyFrame cannot be collected",
            "Collect it yourself with frame.collect(), and give the result.",
        ) from None


def _pandas(frame: Any) -> Any:
    import pandas as pd

    if type(frame) is not pd.DataFrame:
        frame = pd.DataFrame(frame)
    if isinstance(frame.columns, pd.MultiIndex):
        raise SchemaError(
            "the columns of the frame have several levels of names",
            "Give each column one name: frame.columns = ['_'.join(map(str, c)) for c in frame.columns].",
        )
    if not all(isinstance(label, str) for label in frame.columns):
        frame = frame.set_axis([str(label) for label in frame.columns], axis=1)
    return frame


def names_of(frame: Any) -> list[str]:
    """Return the names of the columns of a plain frame."""
    if library(frame) == "duckdb":
        return [str(name) for name in _related(lambda: frame.columns)]
    return [*getattr(frame, "column_names", getattr(frame, "columns", ()))]


def unreadable(frame: Any) -> Mapping[str, tuple[str, str]]:
    """Return the type of each column of a plain frame that no engine reads, with a hint."""
    match library(frame):
        case "pandas":
            types = [(str(name), _odd(dtype)) for name, dtype in frame.dtypes.items()]
        case "polars":
            types = [
                (name, (str(dtype), "Cast it: frame.cast({'...': polars.Int64})."))
                for name, dtype in frame.schema.items()
                if str(dtype) in ("Int128", "UInt128")
            ]
        case "duckdb":
            casts = {"UHUGEINT": "DOUBLE", "TIME WITH TIME ZONE": "VARCHAR"}
            held = _related(lambda: [str(found) for found in frame.types])
            types = [
                (name, (found, f"Cast it to {casts[found]}."))
                for name, found in zip(names_of(frame), held, strict=True)
                if found in casts
            ]
        case _:
            types = []
    return {
        name: (found[0], found[1].replace("'...'", repr(name)).replace("[...]", f"[{name!r}]"))
        for name, found in types
        if found is not None
    }


def _odd(dtype: Any) -> tuple[str, str] | None:
    """Return the words for a pandas type that is not read, with a hint; None if it is read."""
    import numpy as np
    import pandas as pd

    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, pd.PeriodDtype):
        return str(dtype), "Convert it: frame[...].dt.to_timestamp()."
    if isinstance(dtype, pd.IntervalDtype):
        return str(dtype), "Convert it: frame[...].astype(str)."
    if isinstance(dtype, np.dtype):
        complex_hint = "Take its real part, or its size: frame[...].abs()."
        return (str(dtype), complex_hint) if dtype.kind == "c" else None
    own = type(dtype).__module__.partition(".")[0] == "pandas"
    return None if own else (str(dtype), _CONVERT)


def columns_of(frame: Any, names: Collection[str]) -> Any:
    """Return these columns of a plain frame, as an arrow table or a pandas frame.

    Raises
    ------
    SchemaError
        If no engine reads the type of one of them.
    """
    odd = unreadable(frame)
    for name in names:
        if name in odd:
            held, hint = odd[name]
            raise SchemaError(f"column {name!r} holds {held} values, which are not read", hint)
    match library(frame):
        case "pandas":
            return _dense(frame, names)
        case "polars":
            return frame[list(names)].to_arrow()
        case "duckdb":
            return _related(lambda: _selected(frame, names))
    return frame


def _dense(frame: Any, names: Collection[str]) -> Any:
    """Return a pandas frame without sparse columns, and without floats longer than doubles."""
    import numpy as np
    import pandas as pd

    types: dict[str, Any] = {}
    for name in names:
        dtype = frame.dtypes[name]
        if isinstance(dtype, pd.SparseDtype):
            types[name] = dtype.subtype
        elif isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize > 8:
            types[name] = np.float64
    return frame.astype(types) if types else frame


def _selected(relation: Any, names: Collection[str]) -> Any:
    import duckdb

    return relation.select(*map(duckdb.ColumnExpression, names)).to_arrow_table()


def _related(use: Any) -> Any:
    """Return what ``use`` has of a DuckDB relation; refuse one that cannot be run."""
    import duckdb

    try:
        return use()
    except duckdb.ConnectionException:
        raise SchemaError(
            "the connection of the DuckDB relation is closed",
            "Keep it open until the session is open.",
        ) from None
    except (MemoryError, duckdb.OutOfMemoryException):
        raise
    except Exception:  # noqa: BLE001 - the text of an error can hold values
        raise SchemaError(
            "the query of the DuckDB relation cannot be run",
            "Check that relation.fetchone() works.",
        ) from None
